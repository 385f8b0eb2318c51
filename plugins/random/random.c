/* SPDX-License-Identifier: Apache-2.0
 * random.c: the operators of random.yaml: shape inference, checks of
 * parameters, and their translation for draw.h.
 */
#include "random.gen.h"

#include "checks.h"
#include "draw.h"
#include "tenon/kernel/philox.h"

/* ----------------------------------------------------------------- uniform */

/* Computes halves in f32, which can represent the distance as well. */
static int32_t check_range(const tn_frame *call,
                           const random_uniform_params *p) {
  const double range = p->high - p->low;
  const double most = greatest_float(tn_kernel_compute(p->dtype));
  if (range < 0)
    return TN_FAIL(call, TN_INVALID,
                   "low=%g, high=%g: low must not be above high", p->low,
                   p->high);
  if (range <= most) return TN_OK;
  return TN_FAIL(call, TN_INVALID,
                 "low=%g, high=%g: the distance is more than %g; choose "
                 "bounds that are nearer to each other",
                 p->low, p->high, most);
}

int32_t random_uniform_infer(const tn_frame *call) {
  const random_uniform_params *p = random_uniform_params_of(call);
  int32_t code = check_float(call, p->dtype);
  if (code == TN_OK) code = check_number(call, p->dtype, "low", p->low);
  if (code == TN_OK) code = check_number(call, p->dtype, "high", p->high);
  if (code == TN_OK) code = check_range(call, p);
  return code == TN_OK ? state_shape(call, &p->shape) : code;
}

int32_t random_uniform(const tn_frame *call) {
  const random_uniform_params *p = random_uniform_params_of(call);
  const tn_dtype dtype = call->out[0].dtype;
  const uint32_t bits = dtype == TN_F16 ? 11 : dtype == TN_BF16 ? 8 : 24;
  const draw_params params = {
      .low = p->low,
      .range = p->high - p->low,
      .last = p->high > p->low ? tn_random_below(p->high, dtype) : p->low,
      .shift = 32 - bits,
      .unit = ldexp(1, -(int)bits)};
  return draw(call, DRAW_UNIFORM, &params);
}

/* ---------------------------------------------------- normal, exponential */

int32_t random_normal_infer(const tn_frame *call) {
  const random_normal_params *p = random_normal_params_of(call);
  int32_t code = check_float(call, p->dtype);
  if (code == TN_OK) code = check_number(call, p->dtype, "loc", p->loc);
  if (code == TN_OK) code = check_number(call, p->dtype, "scale", p->scale);
  return code == TN_OK ? state_shape(call, &p->shape) : code;
}

int32_t random_normal(const tn_frame *call) {
  const random_normal_params *p = random_normal_params_of(call);
  const draw_params params = {.loc = p->loc, .scale = p->scale};
  return draw(call, DRAW_NORMAL, &params);
}

static int32_t check_mean(const tn_frame *call,
                          const random_exponential_params *p) {
  const double most = greatest_float(p->dtype);
  if (p->lam == 0)
    return TN_FAIL(call, TN_OUT_OF_RANGE,
                   "lam is 0: then nothing ever happens");
  if (1 / p->lam <= most) return TN_OK;
  return TN_FAIL(call, TN_OUT_OF_RANGE,
                 "`lam` is %g, but the mean 1/lam must not be above %g, which "
                 "is all that the type has",
                 p->lam, most);
}

int32_t random_exponential_infer(const tn_frame *call) {
  const random_exponential_params *p = random_exponential_params_of(call);
  int32_t code = check_float(call, p->dtype);
  if (code == TN_OK) code = check_number(call, p->dtype, "lam", p->lam);
  if (code == TN_OK) code = check_mean(call, p);
  return code == TN_OK ? state_shape(call, &p->shape) : code;
}

int32_t random_exponential(const tn_frame *call) {
  const draw_params params = {.scale =
                                  1 / random_exponential_params_of(call)->lam};
  return draw(call, DRAW_EXPONENTIAL, &params);
}

/* ----------------------------------------------------- bernoulli, randint */

int32_t random_bernoulli_infer(const tn_frame *call) {
  const random_bernoulli_params *p = random_bernoulli_params_of(call);
  if (p->dtype == TN_U64)
    return TN_FAIL(call, TN_DTYPE, "these numbers are of any type but u64");
  return state_shape(call, &p->shape);
}

int32_t random_bernoulli(const tn_frame *call) {
  const double p = random_bernoulli_params_of(call)->p;
  const draw_params params = {.limit = (int64_t)(p * 0x1p32)};
  return draw(call, DRAW_BERNOULLI, &params);
}

/* The least and the greatest value of an integer type. */
static int64_t least_of(tn_dtype dtype) {
  const int64_t bits = 8 * tn_dtype_bytes(dtype);
  const int is_signed = (dtype & 0xff) == 0;
  return is_signed ? INT64_MIN >> (64 - bits) : 0;
}

static int64_t greatest_of(tn_dtype dtype) {
  const int64_t bits = 8 * tn_dtype_bytes(dtype);
  const int is_signed = (dtype & 0xff) == 0;
  return INT64_MAX >> (is_signed ? 64 - bits : 63 - bits);
}

int32_t random_randint_infer(const tn_frame *call) {
  const random_randint_params *p = random_randint_params_of(call);
  if (p->low >= p->high)
    return TN_FAIL(call, TN_INVALID,
                   "low=%lld, high=%lld: there is no number from low up to, "
                   "but not including, high",
                   (long long)p->low, (long long)p->high);
  if (is_float(p->dtype) || p->dtype == TN_BOOL || p->dtype == TN_U64)
    return TN_FAIL(call, TN_DTYPE,
                   "these numbers are i8 to i64 or u8 to u32; say so by dtype");
  if (p->low < least_of(p->dtype) || p->high - 1 > greatest_of(p->dtype))
    return TN_FAIL(call, TN_OUT_OF_RANGE,
                   "low=%lld, high=%lld: the type has %lld to %lld only",
                   (long long)p->low, (long long)p->high,
                   (long long)least_of(p->dtype),
                   (long long)greatest_of(p->dtype));
  return state_shape(call, &p->shape);
}

int32_t random_randint(const tn_frame *call) {
  const random_randint_params *p = random_randint_params_of(call);
  const draw_params params = {.least = p->low,
                              .n = (uint64_t)p->high - (uint64_t)p->low};
  return draw(call, DRAW_RANDINT, &params);
}
