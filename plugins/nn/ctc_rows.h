/* SPDX-License-Identifier: Apache-2.0
 * ctc_rows.h: the loop of ctc_loss.c, included by each.h. The states of a label
 * of n symbols are its 2*n + 1 symbols with blanks around each. `alpha` of a
 * state is the logarithm of the probability of all paths from the first step to
 * it, and `beta` that of all paths from it to the last step, without its own
 * symbol. Before each row of states are two numbers for states that there are
 * none of.
 */
#include "vector.h"

/* Returns the logarithm of the sum of the exponentials of a row. */
BODY double NAME(sum_scores)(const REAL *x, int64_t n) {
  const REAL top = NAME(find_largest)(x, n);
  return (double)top + log((double)NAME(sum_exp)(x, n, top, 1));
}

/* Sets `to` to the logarithms of sums of three exponentials, plus `own`. The
 * third one counts if `skips` is not 0. */
BODY void NAME(add_three)(const double *one, const double *two,
                          const double *three, const double *skips,
                          const double *own, int64_t n, double *to) {
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    const double last = skips[i] != 0 ? three[i] : -(double)INFINITY;
    const double most = one[i] > two[i] ? one[i] : two[i];
    const double top = most > last ? most : last;
    const double sum = tn_math_exp_f64(one[i] - top) +
                       tn_math_exp_f64(two[i] - top) +
                       tn_math_exp_f64(last - top);
    const double all = top + tn_math_log_f64(sum) + own[i];
    to[i] = top == -(double)INFINITY ? one[i] + two[i] + last : all;
  }
}

/* Writes the logarithms of the probabilities of the states' symbols in a step.
 */
BODY void NAME(find_states)(const ctc_sample *c, const REAL *x, double *to) {
  const double all = NAME(sum_scores)(x, c->symbols);
  for (int64_t s = 0; s < c->states; ++s) to[s] = (double)x[c->state[s]] - all;
}

/* Computes alpha of all steps, or of the last one in row 0 or 1. Returns the
 * logarithm of the probability of the label. */
BODY double NAME(find_alphas)(const ctc_sample *c, const REAL *data) {
  const int64_t n = c->states;
  for (int64_t t = 0; t < c->steps; ++t) {
    double *to = locate_alpha(c, t);
    const double *from = locate_alpha(c, t - 1);
    NAME(find_states)(c, data + t * c->distance, c->own);
    if (t > 0) {
      NAME(add_three)(from, from - 1, from - 2, c->skips, c->own, n, to);
      continue;
    }
    for (int64_t s = 0; s < n; ++s)
      to[s] = s < 2 ? c->own[s] : -(double)INFINITY;
  }
  const double *last = locate_alpha(c, c->steps - 1);
  if (n == 1) return last[0];
  return add_logarithms(last[n - 1], last[n - 2]);
}

/* Writes the gradient of a step: the softmax minus the probability that the
 * path has the symbol there. `beta` is that of the step. */
BODY void NAME(write_step)(const ctc_sample *c, const REAL *x,
                           const double *alpha, const double *beta,
                           double whole, REAL *to) {
  const double all = NAME(sum_scores)(x, c->symbols);
  TN_KERNEL_INDEPENDENT
  for (int64_t k = 0; k < c->symbols; ++k)
    to[k] = MATH(exp)((REAL)((double)x[k] - all));
  TN_KERNEL_INDEPENDENT
  for (int64_t s = 0; s < c->states; ++s)
    c->own[s] = tn_math_exp_f64(alpha[s] + beta[s] - whole);
  for (int64_t s = 0; s < c->states; ++s) to[c->state[s]] -= (REAL)c->own[s];
}

/* Computes beta from the last step to the first, and the gradients of steps. */
BODY void NAME(write_gradients)(const ctc_sample *c, const REAL *data,
                                double whole, REAL *to) {
  const int64_t n = c->states;
  double *beta = c->beta, *sum = c->sum;
  for (int64_t s = 0; s < n; ++s) beta[s] = s < n - 2 ? -(double)INFINITY : 0;
  for (int64_t t = c->steps - 1; t >= 0; --t) {
    const REAL *x = data + t * c->distance;
    NAME(write_step)
    (c, x, locate_alpha(c, t), beta, whole, to + t * c->distance);
    if (t == 0) return;
    NAME(find_states)(c, x, c->own);
    for (int64_t s = 0; s < n; ++s) sum[s] = beta[s] + c->own[s];
    NAME(add_three)
    (sum, sum + 1, sum + 2, c->skips + 2, c->zeros, n, beta);
  }
}

/* Computes a sequence: in[0] are its scores. out gets the gradient, unless it
 * is NULL. */
LOOP(compute_sample) {
  ctc_sample *c = (ctc_sample *)(uintptr_t)params;
  const REAL *data = block->in[0];
  REAL *to = block->out;
  double whole = c->states == 1 ? 0 : -(double)INFINITY;
  if (c->steps > 0) whole = NAME(find_alphas)(c, data);
  c->loss = 0 - whole;
  for (int64_t t = 0; to && t < c->all_steps; ++t)
    memset(to + t * c->distance, 0, (size_t)c->symbols * sizeof *to);
  if (to && whole != -(double)INFINITY && c->steps > 0)
    NAME(write_gradients)(c, data, whole, to);
}
