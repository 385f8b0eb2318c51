/* SPDX-License-Identifier: Apache-2.0
 * counts.c: the operators of counts.yaml and rows.yaml: shape inference, checks
 * of parameters, and their translation for draw_rows.h.
 */
#include "counts.gen.h"
#include "rows.gen.h"

#include "checks.h"
#include "draw_rows.h"

/* --------------------------------------------- parameters for the whole call
 */

static int32_t check_above_zero(const tn_frame *call, const char *name,
                                double x) {
  if (x > 0) return TN_OK;
  return TN_FAIL(call, TN_OUT_OF_RANGE, "`%s` is 0; it must be above 0", name);
}

/* The parameters a and b have been checked by the manifest but for infinities
 * and zeros. */
static int32_t infer_gamma(const tn_frame *call, const random_gamma_params *p) {
  int32_t code = check_float(call, p->dtype);
  if (code == TN_OK) code = check_above_zero(call, "alpha", p->alpha);
  if (code == TN_OK) code = check_above_zero(call, "beta", p->beta);
  if (code == TN_OK) code = check_number(call, p->dtype, "alpha", p->alpha);
  if (code == TN_OK) code = check_number(call, p->dtype, "beta", p->beta);
  return code;
}

int32_t random_gamma_infer(const tn_frame *call) {
  const random_gamma_params *p = random_gamma_params_of(call);
  const int32_t code = infer_gamma(call, p);
  return code == TN_OK ? state_shape(call, &p->shape) : code;
}

static int32_t check_count(const tn_frame *call, tn_dtype dtype) {
  if (dtype != TN_BOOL && dtype != TN_U64) return TN_OK;
  return TN_FAIL(call, TN_DTYPE,
                 "counts are f16, bf16, f32, f64, i8 to i64 or u8 to u32; say "
                 "so by dtype");
}

int32_t random_poisson_infer(const tn_frame *call) {
  const random_poisson_params *p = random_poisson_params_of(call);
  const int32_t code = check_count(call, p->dtype);
  return code == TN_OK ? state_shape(call, &p->shape) : code;
}

int32_t random_negative_binomial_infer(const tn_frame *call) {
  const random_negative_binomial_params *p =
      random_negative_binomial_params_of(call);
  int32_t code = check_count(call, p->dtype);
  if (code == TN_OK) code = check_number(call, TN_F64, "k", p->k);
  if (code == TN_OK) code = check_above_zero(call, "p", p->p);
  if (code == TN_OK && !(p->k * (1 - p->p) / p->p <= DRAW_MOST_MEAN))
    code = TN_FAIL(call, TN_OUT_OF_RANGE,
                   "k=%g, p=%g: the mean k*(1 - p)/p is %g, but means of "
                   "counts are at most %.0f",
                   p->k, p->p, p->k * (1 - p->p) / p->p, DRAW_MOST_MEAN);
  return code == TN_OK ? state_shape(call, &p->shape) : code;
}

int32_t random_generalized_negative_binomial_infer(const tn_frame *call) {
  const random_generalized_negative_binomial_params *p =
      random_generalized_negative_binomial_params_of(call);
  int32_t code = check_count(call, p->dtype);
  if (code == TN_OK) code = check_number(call, TN_F64, "alpha", p->alpha);
  if (code == TN_OK && !(p->mu <= DRAW_MOST_MEAN))
    code = TN_FAIL(call, TN_OUT_OF_RANGE,
                   "`mu` is %g, but means of counts are at most %.0f", p->mu,
                   DRAW_MOST_MEAN);
  return code == TN_OK ? state_shape(call, &p->shape) : code;
}

/* Draws with the same numbers for all elements. */
static int32_t draw_all(const tn_frame *call, draw_row_kind kind, double a,
                        double b) {
  const draw_rows_params params = {.kind = kind, .a = a, .b = b, .columns = 1};
  return draw_rows(call, &params);
}

int32_t random_gamma(const tn_frame *call) {
  const random_gamma_params *p = random_gamma_params_of(call);
  return draw_all(call, DRAW_ROW_GAMMA, p->alpha, p->beta);
}

int32_t random_poisson(const tn_frame *call) {
  return draw_all(call, DRAW_ROW_POISSON, random_poisson_params_of(call)->lam,
                  0);
}

int32_t random_negative_binomial(const tn_frame *call) {
  const random_negative_binomial_params *p =
      random_negative_binomial_params_of(call);
  return draw_all(call, DRAW_ROW_NEGATIVE, p->k, p->p);
}

int32_t random_generalized_negative_binomial(const tn_frame *call) {
  const random_generalized_negative_binomial_params *p =
      random_generalized_negative_binomial_params_of(call);
  return draw_all(call, DRAW_ROW_GENERALIZED, p->mu, p->alpha);
}

/* --------------------------------------------------- parameters for each row
 */

/* The output has the shape of the inputs, then `shape`. */
static int32_t infer_rows(const tn_frame *call, const tn_ints *shape) {
  return state_shape_after(call, call->in[0].ndim, &call->in[0], shape);
}

static int32_t draw_each(const tn_frame *call, draw_row_kind kind) {
  const int64_t rows = tn_tensor_size(&call->in[0]);
  const int64_t size = tn_tensor_size(&call->out[0]);
  const draw_rows_params params = {
      .kind = kind, .of_inputs = 1, .columns = size > 0 ? size / rows : 1};
  return draw_rows(call, &params);
}

#define SAMPLE(name, kind)                                            \
  int32_t random_##name##_infer(const tn_frame *call) {               \
    return infer_rows(call, &random_##name##_params_of(call)->shape); \
  }                                                                   \
  int32_t random_##name(const tn_frame *call) {                       \
    return draw_each(call, kind);                                     \
  }
SAMPLE(sample_uniform, DRAW_ROW_UNIFORM)
SAMPLE(sample_normal, DRAW_ROW_NORMAL)
SAMPLE(sample_gamma, DRAW_ROW_GAMMA)
SAMPLE(sample_exponential, DRAW_ROW_EXPONENTIAL)
SAMPLE(sample_poisson, DRAW_ROW_POISSON)
SAMPLE(sample_negative_binomial, DRAW_ROW_NEGATIVE)
SAMPLE(sample_generalized_negative_binomial, DRAW_ROW_GENERALIZED)
