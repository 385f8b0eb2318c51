/* SPDX-License-Identifier: Apache-2.0
 * ops_formulas.c: formulas with reductions beside the operators of nn that are
 * written by hand. Both are measured in turns, in one process and on one
 * thread. Prints "PASS/OPERATOR LENGTH TYPE MICROSECONDS THEIRS RATIO"; the
 * ratio is theirs divided by ours.
 */
#include "ops_formulas.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"

enum { ELEMENTS = 1 << 16, MOST_OUT = 3, MOST_IN = 3, ROUNDS = 9 };
static const double SECONDS = 0.01; /* of each round */

typedef struct pair {
  const char *formula, *by_hand;
  const char *params[2];
  size_t n_in, n_out;
} pair;

static const pair pairs[] = {
    {"forms.line_softmax", "nn.softmax", {"", ""}, 1, 1},
    {"forms.line_log_softmax", "nn.log_softmax", {"", ""}, 1, 1},
    {"forms.line_layer_norm", "nn.layer_norm", {"", ""}, 3, 3},
    {"forms.rms_norm", "nn.rms_norm", {"", ""}, 2, 2},
    {"forms.line_l2_norm",
     "nn.l2_normalization",
     {"eps=1e-10", "eps=1e-10"},
     1,
     2}};

static void must_succeed(tn_code code) {
  if (code != TN_OK) measure_fail("%s", tn_error_text());
}

/* One operator with its arrays. */
typedef struct side {
  tn_runtime *rt;
  tn_operator *op;
  tn_params *params;
  const pair *pair;
  tn_array *in[MOST_IN], *out[MOST_OUT], *heads[MOST_OUT], *grads[MOST_IN];
  tn_req req[MOST_IN];
  tn_prepared *forward;
  double best[2]; /* nanoseconds, forward and backward */
} side;

static tn_array *draw_array(tn_runtime *rt, tn_dtype dtype, int32_t ndim,
                            const int64_t *dims) {
  static uint32_t seed = 1;
  tn_array *wide = NULL, *array = NULL;
  must_succeed(tn_array_create(rt, &(tn_spec){TN_F32, ndim, dims}, &wide));
  const size_t n = (size_t)tn_array_size(wide);
  float *values = malloc(n * sizeof *values + 1);
  if (!values) measure_fail("no memory for %zu floats", n);
  for (size_t i = 0; i < n; ++i) {
    seed = seed * 1664525u + 1013904223u;
    values[i] = (float)(seed >> 8) * 0x1p-23f - 1;
  }
  must_succeed(tn_array_set(wide, values, n * sizeof *values));
  free(values);
  must_succeed(tn_array_cast(wide, dtype, &array));
  tn_array_release(wide);
  return array;
}

static void prepare_side(side *s, tn_dtype dtype, int64_t length, int which) {
  const int64_t dims[2] = {ELEMENTS / length, length};
  const pair *p = s->pair;
  must_succeed(
      tn_operator_get(s->rt, which == 0 ? p->formula : p->by_hand, &s->op));
  must_succeed(tn_params_parse(s->op, p->params[which], &s->params));
  s->in[0] = draw_array(s->rt, dtype, 2, dims);
  for (size_t i = 1; i < p->n_in; ++i)
    s->in[i] = draw_array(s->rt, dtype, 1, dims + 1);
  for (size_t i = 0; i < p->n_in; ++i) s->req[i] = TN_REQ_WRITE;
  const tn_inputs in = {p->n_in, s->in};
  const tn_outputs to = {p->n_out, s->out, NULL};
  must_succeed(tn_call(s->rt, s->op, &in, s->params, &to));
  s->heads[0] = draw_array(s->rt, dtype, 2, dims);
  must_succeed(
      tn_call_prepare(s->rt,
                      &(tn_preparation){.struct_size = sizeof(tn_preparation),
                                        .op = s->op,
                                        .params = s->params,
                                        .inputs = in,
                                        .outputs = to},
                      &s->forward));
  s->best[0] = s->best[1] = 1e30;
}

static void close_side(side *s) {
  tn_prepared_release(s->forward);
  tn_params_release(s->params);
  for (size_t i = 0; i < s->pair->n_in; ++i) {
    tn_array_release(s->in[i]);
    tn_array_release(s->grads[i]);
  }
  for (size_t i = 0; i < s->pair->n_out; ++i) tn_array_release(s->out[i]);
  tn_array_release(s->heads[0]);
}

static void forward_once(void *arg) {
  side *s = arg;
  must_succeed(tn_call_run(s->forward));
  must_succeed(tn_array_wait(s->out[0]));
}

static void backward_once(void *arg) {
  side *s = arg;
  must_succeed(tn_call_backward(
      s->rt, s->op,
      &(tn_backward){.struct_size = sizeof(tn_backward),
                     .params = s->params,
                     .inputs = {s->pair->n_in, s->in},
                     .outputs = {s->pair->n_out, s->out},
                     .out_grads = {s->pair->n_out, s->heads},
                     .in_grads = {s->pair->n_in, s->grads, s->req}}));
  must_succeed(tn_array_wait(s->grads[0]));
}

static void measure_pair(tn_runtime *rt, const pair *p, tn_dtype dtype,
                         int64_t length) {
  static const char *const passes[] = {"forward", "backward"};
  side sides[2] = {{.rt = rt, .pair = p}, {.rt = rt, .pair = p}};
  tn_operator *op = NULL;
  if (tn_operator_get(rt, p->formula, &op) != TN_OK) {
    fprintf(stderr, "SKIPPED %s: there is no such operator\n", p->formula);
    return;
  }
  for (int i = 0; i < 2; ++i) prepare_side(&sides[i], dtype, length, i);
  for (int round = 0; round < ROUNDS; ++round)
    for (int pass = 0; pass < 2; ++pass)
      for (int i = 0; i < 2; ++i) {
        const double ns = measure_cpu(pass == 0 ? forward_once : backward_once,
                                      &sides[i], SECONDS);
        if (ns < sides[i].best[pass]) sides[i].best[pass] = ns;
      }
  for (int pass = 0; pass < 2; ++pass)
    printf("%s/%s %lld %s %.2f %.2f %.2f\n", passes[pass], p->formula,
           (long long)length, dtype == TN_F16 ? "f16" : "f32",
           sides[0].best[pass] / 1e3, sides[1].best[pass] / 1e3,
           sides[1].best[pass] / sides[0].best[pass]);
  fflush(stdout);
  for (int i = 0; i < 2; ++i) close_side(&sides[i]);
}

static int is_wanted(const pair *p, int n, char **parts) {
  for (int i = 0; i < n; ++i)
    if (strstr(p->formula, parts[i])) return 1;
  return n == 0;
}

void ops_measure_formulas(tn_runtime *rt, int n, char **parts) {
  static const int64_t lengths[] = {64, 1000, 4096};
  static const tn_dtype types[] = {TN_F32, TN_F16};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; ++i)
    for (size_t t = 0; t < sizeof types / sizeof *types; ++t)
      for (size_t k = 0; k < sizeof lengths / sizeof *lengths; ++k)
        if (is_wanted(&pairs[i], n, parts))
          measure_pair(rt, &pairs[i], types[t], lengths[k]);
}
