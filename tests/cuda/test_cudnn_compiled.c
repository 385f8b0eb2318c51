/* SPDX-License-Identifier: Apache-2.0
 * The graphs of batch norms of plugins/cudnn before the cuDNN of this machine,
 * as test_cudnn_real.c has those of convolutions. Their engines are compiled
 * when a plan is made, and the code is passed to a driver; here to one that has
 * no GPU and accepts all (real/no_gpu_driver.c). Only execution is not tested.
 * Without such a cuDNN the tests are skipped with a message.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "real_device.h"

static const struct shape {
  const char *name;
  int64_t outer;
  int64_t channels;
  int64_t inner;
} shapes[] = {
    {"images", 32, 64, 3136},
    {"images of odd sizes", 7, 12, 15},
    {"rows", 64, 100, 1},
    {"one image", 1, 4, 16},
};

/* By statistics that are given there may be any number of channels. */
static const struct shape odd[] = {
    {"an odd number of channels", 3, 5, 7},
    {"one number", 1, 1, 1},
};

static const struct kind {
  const char *name;
  int what;
  uint32_t flags;
} kinds[] = {
    {"by the batch", CUDNN_NORM, 0},
    {"by the batch, anywhere", CUDNN_NORM, CUDNN_ANYWHERE},
    {"by the batch, same bits", CUDNN_NORM, CUDNN_SAME_BITS},
    {"by the batch, relu", CUDNN_NORM, CUDNN_RELU},
    {"by the batch, relu, anywhere", CUDNN_NORM, CUDNN_RELU | CUDNN_ANYWHERE},
    {"gradients", CUDNN_NORM_DATA, 0},
    {"gradients, anywhere", CUDNN_NORM_DATA, CUDNN_ANYWHERE},
    {"gradients, same bits", CUDNN_NORM_DATA, CUDNN_SAME_BITS},
    {"known", CUDNN_NORM_KNOWN, 0},
    {"known, anywhere", CUDNN_NORM_KNOWN, CUDNN_ANYWHERE},
    {"known, relu", CUDNN_NORM_KNOWN, CUDNN_RELU},
    {"known, relu, anywhere", CUDNN_NORM_KNOWN, CUDNN_RELU | CUDNN_ANYWHERE},
    {"inverse", CUDNN_INVERSE, 0},
    {"inverse, anywhere", CUDNN_INVERSE, CUDNN_ANYWHERE},
    {"moving averages", CUDNN_MOVE, 0},
    {"moving averages, anywhere", CUDNN_MOVE, CUDNN_ANYWHERE},
};

enum {
  N_SHAPES = sizeof shapes / sizeof *shapes,
  N_ODD = sizeof odd / sizeof *odd,
  N_KINDS = sizeof kinds / sizeof *kinds
};

static dnn_library library;
static dnn_descriptor device;
static int n_told;

/* As batch_norm.c describes them. */
static void describe(const struct shape *s, const struct kind *k,
                     cudnn_task *out) {
  const int is_list = k->what == CUDNN_INVERSE || k->what == CUDNN_MOVE;
  const int is_matrix = k->what >= CUDNN_NORM_KNOWN;
  memset(out, 0, sizeof *out);
  out->what = k->what;
  out->flags = k->flags;
  out->dtype = TN_F32;
  out->rank = is_matrix ? 1 : 2;
  out->data[0] = is_matrix ? 1 : s->outer;
  out->data[1] = s->channels * (k->what == CUDNN_NORM_KNOWN ? s->outer : 1);
  out->data[2] = is_list ? 1 : s->inner;
  out->data[3] = !is_matrix;
  memcpy(out->out, out->data, sizeof out->data);
  memcpy(out->weight, out->data, sizeof out->data);
  out->most_workspace = cudnn_room(out, 64 << 20);
}

/* Whether a kind has no plan, or one that breaks a promise. */
static int check(const struct shape *s, const struct kind *k) {
  cudnn_task task;
  describe(s, k, &task);
  return real_fails(&library, device, &task, task.what >= CUDNN_NORM_KNOWN,
                    k->name);
}

static int check_shape(const struct shape *s, int first) {
  int failed = 0;
  for (int k = first; k < N_KINDS; ++k) failed += check(s, &kinds[k]);
  printf("%sok %d - a batch norm of %s has a plan for every request\n",
         failed ? "not " : "", ++n_told, s->name);
  return failed != 0;
}

/* Reports a form that batch_norm.c refuses and that this cuDNN supports. */
static int check_refused(void) {
  static const struct shape three = {"three channels", 4, 3, 35};
  const cudnn_target target = {&library, NULL, device};
  cudnn_task task;
  cudnn_made made;
  describe(&three, &kinds[0], &task);
  const int status = cudnn_make(&target, &task, &made);
  if (status == DNN_OK) cudnn_unmake(&library, &made);
  printf(
      "ok %d - three channels %s\n", ++n_told,
      status == DNN_OK ? "have an engine, unlike in 9.19" : "have no engine");
  return 0;
}

static int check_all(void) {
  int failed = check_refused(), first = 0;
  for (int s = 0; s < N_SHAPES; ++s) failed += check_shape(&shapes[s], 0);
  while (kinds[first].what < CUDNN_NORM_KNOWN) ++first;
  for (int s = 0; s < N_ODD; ++s) failed += check_shape(&odd[s], first);
  return failed;
}

int main(void) {
  char why[240];
  if (!dlopen(NO_GPU_FILE, RTLD_NOW | RTLD_GLOBAL)) {
    printf("1..1\nnot ok 1 - %s\n", dlerror());
    return 1;
  }
  if (!dnn_open(&library, dnn_names, why)) {
    printf("1..0 # SKIP %s\n", why);
    return 0;
  }
  if (!real_device_open(&library, &device)) {
    printf("1..0 # SKIP %s does not plan without a GPU; 9.8 does\n",
           library.name);
    return 0;
  }
  if (!dlopen("libnvrtc.so.13", RTLD_NOW) &&
      !dlopen("libnvrtc.so.12", RTLD_NOW)) {
    printf("1..0 # SKIP %s has no compiler here: %s\n", library.name,
           dlerror());
    return 0;
  }
  printf("# %s, for an H200\n", library.name);
  const int failed = check_all();
  printf("1..%d\n", n_told);
  (void)library.descriptor_destroy(device);
  dnn_close(&library);
  return failed != 0;
}
