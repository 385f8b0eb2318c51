/* SPDX-License-Identifier: Apache-2.0
 * gpu_nn.c: operators of nn and optim on a CUDA device, in f32, forward and
 * backward: the bytes of all arrays that a call reads and writes, per second.
 * Where windows overlap, or elements are read several times, that is less than
 * a copy reaches even if memory is all that bounds it. `name value unit`.
 *
 *   gpu_nn ROWS PLUGIN.so ...
 *
 * ROWS is how many images there are, and a part of how many rows; the names are
 * for 64.
 */
#include <stdio.h>
#include <stdlib.h>

#include "measure.h"
#include "tenon/tenon.h"

enum { MOST = 4 };
static const double long_enough = 0.3; /* seconds */

static tn_runtime *rt;
static tn_place place;

static void must_succeed(tn_code code) {
  if (code != TN_OK) measure_fail("gpu_nn: %s", tn_error_text());
}

/* An operator, its inputs, and the shape of the first input; its first
 * dimension is multiplied by ROWS. */
typedef struct subject {
  const char *name, *op, *params;
  uint32_t n_in;
  uint32_t n_out; /* hidden ones included */
  int is_index;   /* the first input is */
  int is_step;    /* it has states, and no gradient */
  int32_t ndim;
  int64_t shape[4];
} subject;

static const subject subjects[] = {
    {"nn.softmax.8192x1024", "nn.softmax", "", 1, 1, 0, 0, 2, {128, 1024}},
    {"nn.softmax.10_classes", "nn.softmax", "", 1, 1, 0, 0, 2, {8192, 10}},
    {"nn.softmax.axis_1",
     "nn.softmax",
     "axis=1",
     1,
     1,
     0,
     0,
     4,
     {1, 21, 128, 128}},
    {"nn.layer_norm.8192x1024",
     "nn.layer_norm",
     "",
     3,
     3,
     0,
     0,
     2,
     {128, 1024}},
    {"nn.batch_norm.64x56x56",
     "nn.batch_norm",
     "fix_gamma=false",
     3,
     3,
     0,
     0,
     4,
     {1, 64, 56, 56}},
    {"nn.batch_norm.56x56x64",
     "nn.batch_norm",
     "fix_gamma=false axis=-1",
     3,
     3,
     0,
     0,
     4,
     {1, 56, 56, 64}},
    {"nn.dropout", "nn.dropout", "", 1, 2, 0, 0, 2, {128, 1024}},
    {"nn.elu", "nn.leaky_relu", "act_type=elu", 1, 1, 0, 0, 2, {128, 1024}},
    {"nn.prelu",
     "nn.leaky_relu",
     "act_type=prelu",
     2,
     2,
     0,
     0,
     4,
     {1, 64, 56, 56}},
    {"nn.pooling.max_3x3",
     "nn.pooling",
     "kernel=(3,3) stride=(2,2) pad=(1,1)",
     1,
     1,
     0,
     0,
     4,
     {1, 64, 112, 112}},
    {"nn.pooling.global",
     "nn.pooling",
     "global_pool=true pool_type=avg",
     1,
     1,
     0,
     0,
     4,
     {1, 2048, 7, 7}},
    {"nn.embedding.1000x512",
     "nn.embedding",
     "input_dim=1000 output_dim=512",
     2,
     1,
     1,
     0,
     2,
     {1, 128}},
    {"optim.adam",
     "optim.adam_update",
     "lr=0.1 step=1",
     2,
     1,
     0,
     1,
     2,
     {128, 1024}}};

/* ------------------------------------------------------------------- arrays */

typedef struct trial {
  tn_operator *op;
  tn_params *params;
  tn_inputs in, outputs, heads;
  tn_outputs out, grads;
  tn_array *arrays[MOST * 6]; /* inputs and states, outputs, heads, gradients */
  tn_req req[MOST];
  double bytes;
} trial;

/* Numbers between -0.5 and 0.5, or whole ones from 0 to 999. */
static tn_array *create_array(const tn_sig *sig, int is_index) {
  const tn_spec spec = {sig->dtype, sig->ndim, sig->shape};
  tn_array *made = NULL;
  must_succeed(tn_array_create_on(rt, &spec, place, &made));
  const size_t n = (size_t)tn_array_size(made);
  float *values = malloc((n + 1) * sizeof *values);
  if (!values) measure_fail("gpu_nn: no memory");
  for (size_t i = 0; i < n; ++i) {
    const float number = (float)(i * 7919 % 1000);
    values[i] = is_index ? number : number / 1000 - 0.5f;
  }
  must_succeed(tn_array_set(made, values, n * sizeof *values));
  free(values);
  return made;
}

static double bytes_of(tn_array *const *arrays, size_t n) {
  double bytes = 0;
  for (size_t i = 0; i < n; ++i)
    bytes += arrays[i] ? (double)tn_array_size(arrays[i]) * sizeof(float) : 0;
  return bytes;
}

static void trial_open(const subject *s, int64_t rows, trial *t) {
  tn_sig in[MOST], out[MOST], aux[MOST];
  *t = (trial){.op = NULL};
  must_succeed(tn_operator_get(rt, s->op, &t->op));
  must_succeed(tn_params_parse(t->op, s->params, &t->params));
  const uint32_t n_aux = tn_operator_desc(t->op)->n_aux;
  for (int i = 0; i < MOST; ++i)
    in[i] = out[i] = aux[i] = (tn_sig){.dtype = TN_F32, .ndim = -1};
  in[0].ndim = s->ndim;
  for (int32_t d = 0; d < s->ndim; ++d)
    in[0].shape[d] = s->shape[d] * (d ? 1 : rows);
  tn_signature io = {s->n_in, s->n_out, n_aux, 0, in, out, aux};
  must_succeed(tn_operator_infer(t->op, t->params, &io));
  t->in = (tn_inputs){s->n_in + n_aux, t->arrays};
  t->out = (tn_outputs){s->n_out, t->arrays + 2 * MOST, NULL};
  t->heads = (tn_inputs){s->n_out, t->arrays + 3 * MOST};
  t->grads = (tn_outputs){s->n_in, t->arrays + 4 * MOST, t->req};
  t->outputs = (tn_inputs){s->n_out, t->out.arrays};
  for (uint32_t i = 0; i < s->n_in; ++i)
    t->arrays[i] = create_array(&in[i], s->is_index && i == 0);
  for (uint32_t i = 0; i < n_aux; ++i)
    t->arrays[s->n_in + i] = create_array(&aux[i], 1);
  for (uint32_t i = 0; i < s->n_out; ++i)
    t->out.arrays[i] = create_array(&out[i], 0);
  t->arrays[3 * MOST] = create_array(&out[0], 0);
  for (uint32_t i = 0; i < s->n_in; ++i) {
    t->req[i] = s->is_index && i == 0 ? TN_REQ_NULL : TN_REQ_WRITE;
    if (t->req[i] == TN_REQ_WRITE) t->grads.arrays[i] = create_array(&in[i], 0);
  }
}

static void trial_close(trial *t) {
  for (int i = 0; i < MOST * 6; ++i) tn_array_release(t->arrays[i]);
  tn_params_release(t->params);
}

/* ------------------------------------------------------------------- calls
 * Several consecutive calls, then a wait. This measures the device, unless it
 * finishes before the host makes the next call. */

enum { CALLS = 10 };

static void run_forward(void *arg) {
  const trial *t = arg;
  for (int i = 0; i < CALLS; ++i)
    must_succeed(tn_call_train(rt, t->op, &t->in, t->params, &t->out));
  must_succeed(tn_array_wait(t->out.arrays[0]));
}

static void run_backward(void *arg) {
  const trial *t = arg;
  const tn_backward call = {.struct_size = sizeof call,
                            .flags = TN_CALL_TRAIN,
                            .params = t->params,
                            .inputs = t->in,
                            .outputs = t->outputs,
                            .out_grads = t->heads,
                            .in_grads = t->grads};
  for (int i = 0; i < CALLS; ++i)
    must_succeed(tn_call_backward(rt, t->op, &call));
  must_succeed(tn_wait_all(rt));
}

static void print_rate(const subject *s, const char *pass, double ns,
                       double bytes) {
  char line[64];
  (void)snprintf(line, sizeof line, "%s.%s", s->name, pass);
  printf("%-36s %10.2f GB/s\n", line, bytes / (ns / CALLS));
}

static void measure_subject(const subject *s, int64_t rows) {
  trial t;
  trial_open(s, rows, &t);
  const double read = bytes_of(t.in.arrays, t.in.n);
  const double made = bytes_of(t.out.arrays, t.out.n);
  const double states = bytes_of(t.in.arrays + s->n_in, t.in.n - s->n_in);
  const double slopes = bytes_of(t.grads.arrays, t.grads.n);
  print_rate(s, "forward", measure_each(run_forward, &t, long_enough),
             read + made + states);
  if (!s->is_step)
    print_rate(s, "backward", measure_each(run_backward, &t, long_enough),
               read + bytes_of(t.heads.arrays, 1) + slopes);
  trial_close(&t);
}

int main(int argc, char **argv) {
  if (argc < 3) measure_fail("usage: gpu_nn ROWS PLUGIN.so ...");
  const int64_t rows = strtoll(argv[1], NULL, 0);
  must_succeed(tn_runtime_create(NULL, &rt));
  for (int i = 2; i < argc; ++i) must_succeed(tn_plugin_load(rt, argv[i]));
  if (tn_place_parse(rt, "cuda(0)", &place) != TN_OK) {
    printf("SKIPPED: %s\n", tn_error_text());
  } else {
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; ++i)
      measure_subject(&subjects[i], rows);
  }
  tn_runtime_release(rt);
  return 0;
}
