/* SPDX-License-Identifier: Apache-2.0
 * ops_formulas.c: formulas with reductions beside the operators of nn that are
 * written by hand. Both are measured in turns, in one process and on one
 * thread. Prints "PASS/OPERATOR LENGTH TYPE MICROSECONDS THEIRS RATIO"; the
 * ratio is theirs divided by ours.
 */
#include "ops_formulas.h"

#include <stdio.h>

#include "measure.h"
#include "ops_row.h"

enum { ELEMENTS = 1 << 16, ROUNDS = 9 };
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

/* Prepares the formula of a pair (which 0), or its operator by hand (1), for
 * lines of `length` elements. */
static ops_row open_side(tn_runtime *rt, const pair *p, int which,
                         tn_dtype dtype, int64_t length) {
  const int64_t dims[2] = {ELEMENTS / length, length};
  ops_row r = {.rt = rt,
               .dtype = dtype,
               .n_in = p->n_in,
               .n_out = p->n_out,
               .n_grads = p->n_in};
  ops_must_succeed(
      tn_operator_get(rt, which == 0 ? p->formula : p->by_hand, &r.op));
  ops_must_succeed(tn_params_parse(r.op, p->params[which], &r.params));
  r.in[0] = ops_draw_array(rt, dtype, 2, dims);
  for (size_t i = 1; i < p->n_in; ++i)
    r.in[i] = ops_draw_array(rt, dtype, 1, dims + 1);
  for (size_t i = 0; i < p->n_in; ++i) r.req[i] = TN_REQ_WRITE;
  ops_row_prepare(&r);
  return r;
}

static void measure_pair(tn_runtime *rt, const pair *p, tn_dtype dtype,
                         int64_t length) {
  static const char *const passes[] = {"forward", "backward"};
  double best[2][2] = {{1e30, 1e30},
                       {1e30, 1e30}}; /* by side and pass, in ns */
  tn_operator *op = NULL;
  if (tn_operator_get(rt, p->formula, &op) != TN_OK) {
    fprintf(stderr, "SKIPPED %s: there is no such operator\n", p->formula);
    return;
  }
  ops_row sides[2] = {open_side(rt, p, 0, dtype, length),
                      open_side(rt, p, 1, dtype, length)};
  for (int round = 0; round < ROUNDS; ++round)
    for (int pass = 0; pass < 2; ++pass)
      for (int i = 0; i < 2; ++i) {
        const double ns = measure_cpu(
            pass == 0 ? ops_row_forward : ops_row_backward, &sides[i], SECONDS);
        if (ns < best[i][pass]) best[i][pass] = ns;
      }
  for (int pass = 0; pass < 2; ++pass)
    printf("%s/%s %lld %s %.2f %.2f %.2f\n", passes[pass], p->formula,
           (long long)length, dtype == TN_F16 ? "f16" : "f32",
           best[0][pass] / 1e3, best[1][pass] / 1e3,
           best[1][pass] / best[0][pass]);
  fflush(stdout);
  for (int i = 0; i < 2; ++i) ops_row_close(&sides[i]);
}

void ops_measure_formulas(tn_runtime *rt, int n, char **parts) {
  static const int64_t lengths[] = {64, 1000, 4096};
  static const tn_dtype types[] = {TN_F32, TN_F16};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; ++i)
    for (size_t t = 0; t < sizeof types / sizeof *types; ++t)
      for (size_t k = 0; k < sizeof lengths / sizeof *lengths; ++k)
        if (ops_is_wanted(pairs[i].formula, n, parts))
          measure_pair(rt, &pairs[i], types[t], lengths[k]);
}
