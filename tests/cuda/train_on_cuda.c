/* SPDX-License-Identifier: Apache-2.0
 * train_on_cuda.c: networks learn digits on the cpu and on cuda(0), from the
 * same weights: the same number of digits comes out right, give or take two,
 * and the loss is the same to a few percent. So it is where steps are launched
 * as one: on the simulated GPU the same network bit for bit, where no plan is
 * chosen by time. The networks are those of examples/train_digits.c and
 * train_lenet.c; the latter also with layers that compute in f16 and bf16 while
 * weights stay in f32, and with factors that may be rounded to TF32.
 *
 *   train_on_cuda DIGITS.csv.gz PLUGIN.so ...
 *
 * 0 if so, 77 without a GPU.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "digits_net.h"
#include "lenet_net.h"
#include "tenon/kernel_options.h"

/* Number of digits that may be right on one device alone. With fewer bits two
 * trainings diverge: their results then differ as much as between two orders of
 * summation on one device. So the test compares how much was learned, with a
 * tolerance of PARTED percent. */
enum { APART = 2, APART_ROUGH = 30, PARTED = 3 };

static tn_code dense_build(tn_graph *g, tn_entry *head) {
  char params[64], name[16];
  tn_code rc = tn_graph_variable(g, "data", NULL, head);
  for (int i = 1; i <= NET_LAYERS && !rc; ++i) {
    (void)snprintf(params, sizeof params, "num_hidden=%d", (int)net_widths[i]);
    (void)snprintf(name, sizeof name, "fc%d", i);
    rc = learner_layer(g, "nn.fully_connected", params, name, head);
    (void)snprintf(name, sizeof name, "relu%d", i);
    if (!rc && i < NET_LAYERS)
      rc = learner_layer(g, "nn.activation", "act_type=relu", name, head);
  }
  if (!rc)
    rc = learner_layer(g, "nn.softmax_output", "normalization=batch", "softmax",
                       head);
  return rc;
}

/* *entry in another type. */
static tn_code cast(tn_graph *g, const char *params, const char *name,
                    tn_entry *entry) {
  return learner_layer(g, "elemwise.cast", params, name, entry);
}

/* A weight in f32, as a layer that computes in 16 bits takes it. */
static tn_code cast_weight(tn_graph *g, const char *params, const char *layer,
                           const char *which, tn_entry *out) {
  const tn_sig known = {.dtype = TN_F32, .ndim = -1};
  char name[48], half[64];
  (void)snprintf(name, sizeof name, "%s_%s", layer, which);
  (void)snprintf(half, sizeof half, "%s_half", name);
  const tn_code rc = tn_graph_variable(g, name, &known, out);
  return rc ? rc : cast(g, params, half, out);
}

/* As learner_layer. Inputs are converted to 16 bits before the first layer, and
 * the loss is computed in f32. */
static tn_code half_layer(tn_graph *g, const char *op, const char *params,
                          const char *name, const char *half, tn_entry *head) {
  tn_entry in[3];
  tn_code rc = TN_OK;
  if (strcmp(name, "conv1") == 0) rc = cast(g, half, "data_half", head);
  if (!rc && strcmp(name, "softmax") == 0)
    rc = cast(g, "dtype=f32", "scores", head);
  if (rc || (strcmp(op, "nn.convolution") != 0 &&
             strcmp(op, "nn.fully_connected") != 0))
    return rc ? rc : learner_layer(g, op, params, name, head);
  in[0] = *head;
  rc = cast_weight(g, half, name, "weight", &in[1]);
  if (!rc) rc = cast_weight(g, half, name, "bias", &in[2]);
  return rc ? rc : learner_call(g, op, params, name, 3, in, head);
}

static tn_code f16_layer(tn_graph *g, const char *op, const char *params,
                         const char *name, tn_entry *head) {
  return half_layer(g, op, params, name, "dtype=f16", head);
}

static tn_code bf16_layer(tn_graph *g, const char *op, const char *params,
                          const char *name, tn_entry *head) {
  return half_layer(g, op, params, name, "dtype=bf16", head);
}

static tn_code f16_build(tn_graph *g, tn_entry *head) {
  return lenet_build_of(g, f16_layer, head);
}

static tn_code bf16_build(tn_graph *g, tn_entry *head) {
  return lenet_build_of(g, bf16_layer, head);
}

typedef struct subject {
  const char *name;
  tn_code (*build)(tn_graph *g, tn_entry *head);
  int is_dense;
  int is_fast;  /* factors may be rounded to TF32 */
  int is_again; /* as one before: on the simulated GPU launched as one only */
  long apart;
} subject;

static const subject subjects[] = {
    {"dense layers", dense_build, 1, 0, 0, APART},
    {"LeNet", lenet_build, 0, 0, 0, APART},
    {"LeNet, TF32", lenet_build, 0, 1, 1, APART_ROUGH},
    {"LeNet, f16", f16_build, 0, 0, 1, APART_ROUGH},
    {"LeNet, bf16", bf16_build, 0, 0, 1, APART_ROUGH}};

/* Two epochs; one for LeNet on the simulated GPU, which is slow. */
static learner_net net_of(const subject *s) {
  learner_net net = {.build = s->build,
                     .ndim = s->is_dense ? 2 : 4,
                     .shape = {0, s->is_dense ? DIGITS_PIXELS : 1, 8, 8},
                     .epochs = getenv("FAKE_CUDA") && !s->is_dense ? 1 : 2,
                     .rate = s->is_dense ? net_rate : lenet_rate,
                     .update = "momentum=0.9 wd=0.0005"};
  return net;
}

/* TF32 for products and convolutions, or not. */
static tn_code allow(tn_runtime *rt, int fast) {
  static const char *const kernels[][2] = {
      {"nn.convolution", "cudnn.convolution.cuda"},
      {"nn.convolution_activation", "cudnn.convolution_activation.cuda"},
      {"nn.fully_connected", "cublaslt.fully_connected.cuda"},
      {"nn.fully_connected_activation",
       "cublaslt.fully_connected_activation.cuda"}};
  tn_code rc = TN_OK;
  for (size_t i = 0; i < sizeof kernels / sizeof *kernels && !rc; ++i) {
    tn_operator *op = NULL;
    rc = tn_operator_get(rt, kernels[i][0], &op);
    if (!rc)
      rc = tn_operator_tune(op, kernels[i][1], fast ? "fast=true" : NULL);
  }
  return rc;
}

static tn_code train_on(tn_runtime *rt, const digits *d, const subject *s,
                        tn_place place, uint32_t flags,
                        learner_report *report) {
  learner_net net = net_of(s);
  net.place = place;
  net.flags = flags;
  return learner_train(rt, d, &net, report);
}

static tn_code load(tn_runtime *rt, int n, char **paths) {
  tn_code rc = TN_OK;
  for (int i = 0; i < n && !rc; ++i) rc = tn_plugin_load(rt, paths[i]);
  return rc;
}

/* With `most` 0 they have the same loss, too. */
static int differ(const learner_report *a, const learner_report *b, long most) {
  const double loss = a->learned.loss, parted = fabs(loss - b->learned.loss);
  return labs((long)a->tested.n_right - (long)b->tested.n_right) > most ||
         parted * 100 > PARTED * loss ||
         (most == 0 && a->tested.loss != b->tested.loss);
}

/* 0 if all learn alike. */
static int compare(tn_runtime *rt, const digits *d, const subject *s,
                   tn_place place) {
  learner_report here = {0}, there = {0}, one_go = {0};
  const int once = s->is_again && getenv("FAKE_CUDA");
  tn_code rc = allow(rt, s->is_fast);
  if (!rc) rc = train_on(rt, d, s, (tn_place){TN_DEVICE_CPU, 0}, 0, &here);
  if (!rc) rc = train_on(rt, d, s, place, TN_BIND_CAPTURE, &one_go);
  there = one_go;
  if (!rc && !once) rc = train_on(rt, d, s, place, 0, &there);
  if (rc) {
    fprintf(stderr, "train_on_cuda: %s: %s\n", s->name, tn_error_text());
    return 1;
  }
  printf("%s: %ld of %ld right on the cpu, ", s->name,
         (long)here.tested.n_right, (long)here.tested.n);
  if (!once) printf("%ld on cuda(0), ", (long)there.tested.n_right);
  printf("%ld %s\n", (long)one_go.tested.n_right,
         one_go.captured ? "launched as one" : "not launched as one");
  return !one_go.captured || differ(&here, &there, s->apart) ||
         differ(&there, &one_go,
                s->is_dense && getenv("FAKE_CUDA") ? 0 : s->apart);
}

int main(int argc, char **argv) {
  static digits d;
  tn_runtime *rt = NULL;
  tn_place place;
  int status = 1;
  if (argc < 3 || !digits_read(argv[1], &d)) return 2;
  if (tn_runtime_create(NULL, &rt) || load(rt, argc - 2, argv + 2)) {
    fprintf(stderr, "train_on_cuda: %s\n", tn_error_text());
  } else if (tn_place_parse(rt, "cuda(0)", &place)) {
    printf("SKIPPED: %s\n", tn_error_text());
    status = 77;
  } else {
    status = 0;
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; ++i)
      status |= compare(rt, &d, &subjects[i], place);
  }
  tn_runtime_release(rt);
  digits_free(&d);
  return status;
}
