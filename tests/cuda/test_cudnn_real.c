/* SPDX-License-Identifier: Apache-2.0
 * The graphs of plugins/cudnn before the cuDNN of this machine, without a GPU:
 * since 9.8 it makes plans for a device of which only the properties are known,
 * here an H200. So the engines of the heuristics are finalized as plans, by the
 * plugin's code; only execution is not tested. Recurrent layers are described,
 * and no more: they have no plans without a GPU. Without such a cuDNN the tests
 * are skipped with a message.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit.h"
#include "real_device.h"
#include "rnn.h"

static const struct shape {
  const char *name;
  cudnn_task conv;
} shapes[] = {
    {"windows of 5 x 5",
     {.rank = 2,
      .data = {64, 1, 28, 28},
      .weight = {20, 1, 5, 5},
      .out = {64, 20, 24, 24},
      .stride = {1, 1},
      .dilate = {1, 1}}},
    {"windows of 3 x 3 with padding",
     {.rank = 2,
      .data = {32, 64, 56, 56},
      .weight = {64, 64, 3, 3},
      .out = {32, 64, 56, 56},
      .stride = {1, 1},
      .dilate = {1, 1},
      .pad = {1, 1}}},
    {"windows of 7 x 7 with steps",
     {.rank = 2,
      .data = {32, 3, 224, 224},
      .weight = {64, 3, 7, 7},
      .out = {32, 64, 112, 112},
      .stride = {2, 2},
      .dilate = {1, 1},
      .pad = {3, 3}}},
    {"windows of one element",
     {.rank = 2,
      .data = {32, 256, 14, 14},
      .weight = {1024, 256, 1, 1},
      .out = {32, 1024, 14, 14},
      .stride = {1, 1},
      .dilate = {1, 1}}},
    {"one dimension",
     {.rank = 2,
      .data = {2, 3, 1, 10},
      .weight = {4, 3, 1, 3},
      .out = {2, 4, 1, 8},
      .stride = {1, 1},
      .dilate = {1, 1}}},
    {"three dimensions",
     {.rank = 3,
      .data = {2, 3, 10, 11, 12},
      .weight = {4, 3, 3, 3, 3},
      .out = {2, 4, 8, 9, 10},
      .stride = {1, 1, 1},
      .dilate = {1, 1, 1}}},
    {"groups with dilation, steps and padding",
     {.rank = 2,
      .data = {2, 4, 10, 10},
      .weight = {6, 2, 3, 3},
      .out = {2, 6, 4, 4},
      .stride = {2, 2},
      .dilate = {2, 2},
      .pad = {1, 1}}},
    {"groups in three dimensions, dilated",
     {.rank = 3,
      .data = {2, 4, 10, 10, 10},
      .weight = {4, 2, 3, 3, 3},
      .out = {2, 4, 6, 6, 6},
      .stride = {1, 1, 1},
      .dilate = {2, 2, 2}}},
    {"steps that leave a row, as a deconvolution with adj",
     {.rank = 2,
      .data = {2, 4, 10, 10},
      .weight = {8, 4, 3, 3},
      .out = {2, 8, 5, 5},
      .stride = {2, 2},
      .dilate = {1, 1},
      .pad = {1, 1}}},
    {"groups of one channel",
     {.rank = 2,
      .data = {8, 32, 28, 28},
      .weight = {32, 1, 3, 3},
      .out = {8, 32, 28, 28},
      .stride = {1, 1},
      .dilate = {1, 1},
      .pad = {1, 1}}},
    {"more padding than window",
     {.rank = 2,
      .data = {2, 3, 4, 4},
      .weight = {4, 3, 1, 1},
      .out = {2, 4, 10, 10},
      .stride = {1, 1},
      .dilate = {1, 1},
      .pad = {3, 3}}},
};

static const struct kind {
  const char *name;
  int what;
  uint32_t flags;
} kinds[] = {
    {"forward", CUDNN_FORWARD, 0},
    {"forward, added", CUDNN_FORWARD, CUDNN_ADD},
    {"forward with bias", CUDNN_FORWARD, CUDNN_BIAS},
    {"forward with bias, anywhere", CUDNN_FORWARD, CUDNN_BIAS | CUDNN_ANYWHERE},
    {"forward with bias and relu", CUDNN_FORWARD, CUDNN_BIAS | CUDNN_RELU},
    {"forward with bias and relu, anywhere", CUDNN_FORWARD,
     CUDNN_BIAS | CUDNN_RELU | CUDNN_ANYWHERE},
    {"forward with bias and relu, same bits", CUDNN_FORWARD,
     CUDNN_BIAS | CUDNN_RELU | CUDNN_SAME_BITS},
    {"forward with bias and relu, fast", CUDNN_FORWARD,
     CUDNN_BIAS | CUDNN_RELU | CUDNN_FAST},
    {"forward, fast", CUDNN_FORWARD, CUDNN_FAST},
    {"forward, same bits", CUDNN_FORWARD, CUDNN_SAME_BITS},
    {"data", CUDNN_DATA, 0},
    {"data, added", CUDNN_DATA, CUDNN_ADD},
    {"data, same bits", CUDNN_DATA, CUDNN_SAME_BITS},
    {"weight", CUDNN_WEIGHT, 0},
    {"weight, added", CUDNN_WEIGHT, CUDNN_ADD},
    {"weight, same bits", CUDNN_WEIGHT, CUDNN_SAME_BITS},
};

static const struct type {
  const char *name;
  tn_dtype dtype;
} types[] = {
    {"f32", TN_F32}, {"f64", TN_F64}, {"f16", TN_F16}, {"bf16", TN_BF16}};

enum {
  N_SHAPES = sizeof shapes / sizeof *shapes,
  N_KINDS = sizeof kinds / sizeof *kinds,
  N_TYPES = sizeof types / sizeof *types
};

static dnn_library library;
static dnn_descriptor device;
static int n_told;

static const struct shape pools[] = {
    {"pooling of 2 x 2",
     {.rank = 2,
      .data = {64, 20, 24, 24},
      .weight = {0, 0, 2, 2},
      .out = {64, 20, 12, 12},
      .stride = {2, 2}}},
    {"pooling with padding, more behind",
     {.rank = 2,
      .data = {2, 4, 10, 9},
      .weight = {0, 0, 3, 2},
      .out = {2, 4, 6, 9},
      .stride = {2, 1},
      .pad = {1, 0},
      .pad_behind = {2, 1}}},
    {"pooling of whole images",
     {.rank = 2,
      .data = {32, 2048, 7, 7},
      .weight = {0, 0, 7, 7},
      .out = {32, 2048, 1, 1},
      .stride = {1, 1}}},
    {"pooling in one dimension",
     {.rank = 2,
      .data = {2, 3, 1, 10},
      .weight = {0, 0, 1, 3},
      .out = {2, 3, 1, 8},
      .stride = {1, 1}}},
    {"pooling in three dimensions",
     {.rank = 3,
      .data = {2, 3, 10, 11, 12},
      .weight = {0, 0, 2, 3, 2},
      .out = {2, 3, 5, 9, 6},
      .stride = {2, 1, 2}}},
};

static const struct kind pool_kinds[] = {
    {"largest", CUDNN_POOL, CUDNN_MAX},
    {"largest, anywhere", CUDNN_POOL, CUDNN_MAX | CUDNN_ANYWHERE},
    {"means", CUDNN_POOL, 0},
    {"means inside", CUDNN_POOL, CUDNN_INSIDE},
    {"gradient of means", CUDNN_POOL_DATA, 0},
    {"gradient of means inside", CUDNN_POOL_DATA, CUDNN_INSIDE},
};

enum {
  N_POOLS = sizeof pools / sizeof *pools,
  N_POOL_KINDS = sizeof pool_kinds / sizeof *pool_kinds
};

/* How many kinds of a shape have no plan, or one that breaks a promise. */
static int check(const struct shape *s, const struct type *t,
                 const struct kind *all, int n) {
  int failed = 0;
  for (int k = 0; k < n; ++k) {
    cudnn_task conv;
    memcpy(&conv, &s->conv, sizeof conv);
    if (all == kinds) memcpy(conv.pad_behind, conv.pad, sizeof conv.pad);
    conv.dtype = t->dtype;
    conv.what = all[k].what;
    conv.flags = all[k].flags;
    conv.most_workspace = 256 << 20;
    const int may_round = conv.dtype != TN_F32 || (conv.flags & CUDNN_FAST);
    failed += real_fails(&library, device, &conv, may_round, all[k].name);
  }
  return failed;
}

static int check_types(const struct shape *s, const struct kind *all, int n) {
  int failed = 0;
  for (int t = 0; t < N_TYPES; ++t) {
    const int missing = check(s, &types[t], all, n);
    printf("%sok %d - %s in %s has a plan for every request\n",
           missing ? "not " : "", ++n_told, s->name, types[t].name);
    failed += missing != 0;
  }
  return failed;
}

/* How many engines the heuristics name of those that will do: more than one,
 * for them to be measured, and an end of them. */
static int check_passing(void) {
  const cudnn_target target = {&library, NULL, device};
  enum { MOST = 64 };
  cudnn_task task;
  cudnn_made made;
  memcpy(&task, &shapes[0].conv, sizeof task);
  task.dtype = TN_F16;
  task.most_workspace = 256 << 20;
  while (task.n_passed < MOST && cudnn_make(&target, &task, &made) == DNN_OK) {
    cudnn_unmake(&library, &made);
    ++task.n_passed;
  }
  const int fails = task.n_passed < 2 || task.n_passed == MOST;
  printf("%sok %d - engines are passed over until there are none: %d\n",
         fails ? "not " : "", ++n_told, (int)task.n_passed);
  return fails;
}

/* ------------------------------------------------------------- tensor cores
 */

/* Of ResNet-50, in batches of 256. */
static const struct shape large[] = {
    {"3 x 3",
     {.rank = 2,
      .data = {256, 64, 56, 56},
      .weight = {64, 64, 3, 3},
      .out = {256, 64, 56, 56},
      .stride = {1, 1},
      .dilate = {1, 1},
      .pad = {1, 1},
      .pad_behind = {1, 1}}},
    {"1 x 1",
     {.rank = 2,
      .data = {256, 64, 56, 56},
      .weight = {256, 64, 1, 1},
      .out = {256, 256, 56, 56},
      .stride = {1, 1},
      .dilate = {1, 1}}},
    {"7 x 7",
     {.rank = 2,
      .data = {256, 3, 224, 224},
      .weight = {64, 3, 7, 7},
      .out = {256, 64, 112, 112},
      .stride = {2, 2},
      .dilate = {1, 1},
      .pad = {3, 3},
      .pad_behind = {3, 3}}},
};

static const struct kind tensor_kinds[] = {
    {"forward", CUDNN_FORWARD, 0},
    {"forward with bias", CUDNN_FORWARD, CUDNN_BIAS},
    {"data", CUDNN_DATA, 0},
    {"weight", CUDNN_WEIGHT, 0}};

/* Whether the first engine that will do has tensor cores. */
static int is_fast(const cudnn_task *task, int64_t *workspace) {
  const cudnn_target target = {&library, NULL, device};
  cudnn_made made;
  *workspace = 0;
  if (cudnn_make(&target, task, &made) != DNN_OK) return 0;
  const int notes = real_notes_of(&library, &made);
  *workspace = made.workspace;
  cudnn_unmake(&library, &made);
  return notes >= 0 && (notes >> DNN_NOTE_TENSOR_CORE & 1);
}

/* In 16 bits, with the workspace that the plugin provides. Engines without
 * copies of the arrays are only reported. */
static int check_large(const struct shape *s, const struct type *t) {
  enum { BESIDE = 256 << 20 };
  int failed = 0;
  for (size_t k = 0; k < sizeof tensor_kinds / sizeof *tensor_kinds; ++k) {
    cudnn_task task;
    int64_t with = 0, without = 0;
    memcpy(&task, &s->conv, sizeof task);
    task.dtype = t->dtype;
    task.what = tensor_kinds[k].what;
    task.flags = tensor_kinds[k].flags;
    task.most_workspace = BESIDE;
    const int had = is_fast(&task, &without);
    task.most_workspace = cudnn_room(&task, BESIDE);
    const int has = is_fast(&task, &with);
    printf("# %s %s in %s: %d MiB, without copies %d%s\n", s->name,
           tensor_kinds[k].name, t->name, (int)(with >> 20),
           (int)(without >> 20), had ? "" : " and no tensor cores");
    failed += !has;
  }
  printf("%sok %d - windows of %s, many images in %s: by tensor cores\n",
         failed ? "not " : "", ++n_told, s->name, t->name);
  return failed != 0;
}

static int check_cores(void) {
  int failed = 0;
  for (size_t s = 0; s < sizeof large / sizeof *large; ++s)
    for (int t = 0; t < N_TYPES; ++t)
      if (types[t].dtype == TN_F16 || types[t].dtype == TN_BF16)
        failed += check_large(&large[s], &types[t]);
  return failed;
}

/* -------------------------------------------------------- recurrent layers */

/* Whether cuDNN takes the descriptors of all four kinds of cells in a type. The
 * rest of a plan needs a handle, and so a GPU. */
static int check_layers(const struct type *t) {
  int failed = 0;
  for (int i = 0; i < 16; ++i) {
    const cudnn_rnn_sizes sizes = {.kind = (unsigned)i % 4,
                                   .is_fast = i / 4 % 2,
                                   .dtype = t->dtype,
                                   .steps = 7,
                                   .batch = 3,
                                   .inputs = 5,
                                   .units = 6,
                                   .layers = 2,
                                   .directions = 1 + i / 8};
    cudnn_rnn_plan plan = {.dropout = NULL};
    failed += cudnn_rnn_describe(&library, &sizes, &plan) != DNN_OK;
    cudnn_rnn_plan_unmake(&library, &plan);
  }
  printf("%sok %d - recurrent layers in %s are described\n",
         failed ? "not " : "", ++n_told, t->name);
  return failed != 0;
}

static int check_all(void) {
  int failed = check_passing() + check_cores();
  for (int t = 0; t < N_TYPES; ++t) failed += check_layers(&types[t]);
  for (int s = 0; s < N_SHAPES; ++s)
    failed += check_types(&shapes[s], kinds, N_KINDS);
  for (int s = 0; s < N_POOLS; ++s)
    failed += check_types(&pools[s], pool_kinds, N_POOL_KINDS);
  return failed;
}

int main(void) {
  char why[240];
  if (!dnn_open(&library, dnn_names, why)) {
    printf("1..0 # SKIP %s\n", why);
    return 0;
  }
  if (!real_device_open(&library, &device)) {
    printf("1..0 # SKIP %s does not plan without a GPU; 9.8 does\n",
           library.name);
    return 0;
  }
  printf("# %s, for an H200\n", library.name);
  const int failed = check_all();
  printf("1..%d\n", n_told);
  (void)library.descriptor_destroy(device);
  dnn_close(&library);
  return failed != 0;
}
