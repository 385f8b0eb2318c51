/* SPDX-License-Identifier: Apache-2.0
 * plugins/random: words where they belong, distributions against
 * their exact functions (moments, and the largest distance of the
 * distribution's function, after Kolmogorov and Smirnov), the same for every
 * number of workers and every level of instructions. Seeds are fixed, so that a
 * bound of five standard errors holds or does not, once and for all.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"
#include "tenon/kernel/kernel.h" /* f16 and bf16 */

enum { MANY = 200000 };

static tn_runtime *open_with(uint32_t workers, uint64_t seed, uint64_t mask) {
  tn_runtime *rt = NULL;
  const tn_options options = {.struct_size = sizeof options,
                              .workers = workers,
                              .seed = seed,
                              .cpu_mask = mask};
  OK(tn_runtime_create(&options, &rt));
  OK(tn_plugin_load(rt, PLUGIN_FILE));
  return rt;
}

static tn_code call(tn_runtime *rt, const char *name, const char *text,
                    tn_array **out) {
  tn_operator *op = host_operator(rt, name);
  tn_params *params = host_params(op, text);
  const tn_code rc =
      tn_call(rt, op, &(tn_inputs){0}, params, &(tn_outputs){1, out, NULL});
  tn_params_release(params);
  return rc;
}

/* The elements of a call, of any type; the caller frees them. */
static void *draw(tn_runtime *rt, const char *name, const char *text,
                  int64_t *n) {
  tn_array *out = NULL;
  OK(call(rt, name, text, &out));
  *n = tn_array_size(out);
  const size_t bytes =
      (size_t)(*n * tn_dtype_bytes(tn_array_tensor(out)->dtype));
  void *values = malloc(bytes + 1);
  OK(tn_array_get(out, values, bytes));
  tn_array_release(out);
  return values;
}

/* MANY elements of a new runtime, as doubles. */
static double *sample(const char *name, const char *params, tn_dtype dtype) {
  char text[200];
  int64_t n;
  const char *type = dtype == TN_F64   ? "f64"
                     : dtype == TN_F32 ? "f32"
                     : dtype == TN_F16 ? "f16"
                                       : "bf16";
  tn_runtime *rt = open_with(1, 42, 0);
  (void)snprintf(text, sizeof text, "shape=[%d] dtype=%s %s", MANY, type,
                 params);
  void *raw = draw(rt, name, text, &n);
  double *values = malloc(sizeof *values * MANY);
  for (int i = 0; i < MANY; ++i)
    values[i] = dtype == TN_F64   ? ((double *)raw)[i]
                : dtype == TN_F32 ? (double)((float *)raw)[i]
                : dtype == TN_F16
                    ? (double)tn_kernel_f16_to_f32(((uint16_t *)raw)[i])
                    : (double)tn_kernel_bf16_to_f32(((uint16_t *)raw)[i]);
  free(raw);
  tn_runtime_release(rt);
  return values;
}

/* -------------------------------------------------------------------- bits */

/* randint shows words: of 64 bits times 2^32 the upper half is the second word.
 * The first calls of runtimes with one seed draw the same blocks. */
Test(random, uniform_takes_the_words_of_its_blocks) {
  enum { N = 5000 };
  tn_runtime *rt = open_with(2, 7, 0);
  int64_t n;
  float *single = draw(rt, "random.uniform", "shape=[5000]", &n);
  tn_runtime_release(rt);
  rt = open_with(2, 7, 0);
  double *twice = draw(rt, "random.uniform", "shape=[5000] dtype=f64", &n);
  tn_runtime_release(rt);
  rt = open_with(2, 7, 0);
  uint32_t *words = draw(rt, "random.randint",
                         "shape=[10000] dtype=u32 high=4294967296 low=0", &n);
  tn_runtime_release(rt);
  for (int i = 0; i < N; ++i) {
    if (i % 2 == 1)
      cr_assert_float_eq(single[i], ldexp(words[i / 2] >> 8, -24), 0,
                         "element %d", i);
    cr_assert_float_eq(twice[i], ldexp(words[i], -32), 0x1p-32, "element %d",
                       i);
  }
  free(single), free(twice), free(words);
}

Test(random, the_stream_is_that_of_the_seed) {
  tn_runtime *a = open_with(1, 1, 0), *b = open_with(1, 1, 0);
  tn_runtime *c = open_with(1, 2, 0);
  int64_t n;
  float *x = draw(a, "random.uniform", "shape=[100]", &n);
  float *y = draw(b, "random.uniform", "shape=[100]", &n);
  float *z = draw(c, "random.uniform", "shape=[100]", &n);
  float *next = draw(a, "random.uniform", "shape=[100]", &n);
  cr_assert_eq(memcmp(x, y, 400), 0);
  int same = 0;
  for (int i = 0; i < 100; ++i)
    for (int k = 0; k < 100; ++k) same += x[i] == z[k] || x[i] == next[k];
  cr_assert_eq(same, 0);
  free(x), free(y), free(z), free(next);
  tn_runtime_release(a), tn_runtime_release(b), tn_runtime_release(c);
}

static const struct {
  const char *name, *params;
} every[] = {
    {"random.uniform", "shape=[123457] low=-3 high=5"},
    {"random.uniform", "shape=[123457] dtype=f64 low=-3 high=5"},
    {"random.uniform", "shape=[123457] dtype=bf16"},
    {"random.normal", "shape=[123457] loc=1"},
    {"random.normal", "shape=[123457] dtype=f64"},
    {"random.normal", "shape=[123457] dtype=f16"},
    {"random.exponential", "shape=[123457]"},
    {"random.bernoulli", "shape=[123457] dtype=bool"},
    {"random.randint", "shape=[123457] low=-5 high=1000"},
};

static void expect_equal(uint32_t workers, uint64_t mask, size_t i) {
  tn_runtime *one = open_with(1, 3, 0), *other = open_with(workers, 3, mask);
  int64_t n, m;
  char *x = draw(one, every[i].name, every[i].params, &n);
  char *y = draw(other, every[i].name, every[i].params, &m);
  cr_assert_eq(n, m);
  const int64_t least = strstr(every[i].params, "bool") ? n : 2 * n;
  cr_assert_eq(memcmp(x, y, (size_t)least), 0, "%s %s", every[i].name,
               every[i].params);
  free(x), free(y);
  tn_runtime_release(one), tn_runtime_release(other);
}

Test(random, the_number_of_workers_changes_nothing) {
  for (size_t i = 0; i < sizeof every / sizeof *every; ++i) {
    expect_equal(2, 0, i);
    expect_equal(8, 0, i);
  }
}

/* Without AVX-512, and without AVX2: uniform, bernoulli and randint are the
 * same bit for bit. */
Test(random, no_level_of_instructions_changes_uniform_bits) {
  static const size_t exact[] = {0, 1, 2, 7, 8};
  for (size_t k = 0; k < 5; ++k) {
    expect_equal(1, TN_CPU_AVX512, exact[k]);
    expect_equal(1, TN_CPU_AVX512 | TN_CPU_AVX2 | TN_CPU_FMA, exact[k]);
  }
}

Test(random, the_level_of_instructions_changes_normal_by_a_rounding_only) {
  static const uint64_t masks[] = {TN_CPU_AVX512,
                                   TN_CPU_AVX512 | TN_CPU_AVX2 | TN_CPU_FMA};
  int64_t n;
  for (int m = 0; m < 2; ++m) {
    tn_runtime *high = open_with(1, 3, 0), *low = open_with(1, 3, masks[m]);
    float *x = draw(high, "random.normal", "shape=[100000]", &n);
    float *y = draw(low, "random.normal", "shape=[100000]", &n);
    for (int64_t i = 0; i < n; ++i)
      cr_assert_float_eq(x[i], y[i], 2e-6, "element %lld", (long long)i);
    free(x), free(y);
    tn_runtime_release(high), tn_runtime_release(low);
  }
}

/* ----------------------------------------------------------- distributions */

static int compare(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

typedef double cdf_fn(double x);

/* The largest distance between the share of values up to x and the expected
 * share. It exceeds 1.95/sqrt(n) once in a thousand samples. */
static void check_cdf(double *values, cdf_fn *cdf, double more) {
  double worst = 0;
  qsort(values, MANY, sizeof *values, compare);
  for (int i = 0; i < MANY; ++i) {
    const double at = cdf(values[i]);
    worst = fmax(worst, fmax(at - (double)i / MANY, (i + 1.0) / MANY - at));
  }
  cr_assert_leq(worst, 1.95 / sqrt(MANY) + more, "%g", worst);
}

/* Mean and variance within five standard errors; `fourth` is the fourth central
 * moment. Neighbours, and those one and two blocks apart, do not correlate. */
static void check_moments(const double *values, double mean, double variance,
                          double fourth) {
  static const int lags[] = {1, 2, 3, 4, 8, 1024};
  double m = 0, v = 0;
  for (int i = 0; i < MANY; ++i) m += values[i] / MANY;
  for (int i = 0; i < MANY; ++i) v += (values[i] - m) * (values[i] - m) / MANY;
  cr_assert_float_eq(m, mean, 5 * sqrt(variance / MANY), "mean %g", m);
  cr_assert_float_eq(v, variance,
                     5 * sqrt((fourth - variance * variance) / MANY),
                     "variance %g", v);
  for (int k = 0; k < 6; ++k) {
    double c = 0;
    for (int i = lags[k]; i < MANY; ++i)
      c += (values[i] - mean) * (values[i - lags[k]] - mean) / MANY;
    cr_assert_float_eq(c, 0, 5 * variance / sqrt(MANY), "lag %d: %g", lags[k],
                       c);
  }
}

static double cdf_uniform(double x) {
  return fmin(fmax((x + 3) / 8, 0), 1);
}

static double cdf_normal(double x) {
  return 0.5 * erfc(-x / sqrt(2));
}

static double cdf_exponential(double x) {
  return 1 - exp(-2 * x);
}

static const tn_dtype floats[] = {TN_F32, TN_F64, TN_F16, TN_BF16};
/* The addition to the distance by a type's steps: half a step's probability or
 * so. */
static const double steps[] = {0, 0, 0.001, 0.005};

Test(random, uniform_has_its_distribution) {
  for (int i = 0; i < 4; ++i) {
    double *x = sample("random.uniform", "low=-3 high=5", floats[i]);
    check_moments(x, i == 3 ? 0.985 : 1, 64.0 / 12, pow(8, 4) / 80);
    for (int k = 0; k < MANY; ++k) cr_assert(x[k] >= -3 && x[k] < 5);
    check_cdf(x, cdf_uniform, steps[i]);
    free(x);
  }
}

Test(random, normal_has_its_distribution) {
  for (int i = 0; i < 4; ++i) {
    double *x = sample("random.normal", "", floats[i]);
    check_moments(x, 0, 1, 3);
    check_cdf(x, cdf_normal, steps[i]);
    cr_assert_gt(x[MANY - 1], 4);
    cr_assert_lt(x[0], -4);
    free(x);
  }
}

/* Sine and cosine of one angle: their squares add up to the square of the
 * radius, but they do not correlate, and neither do their squares. */
Test(random, the_two_coordinates_of_a_point_are_independent) {
  double *x = sample("random.normal", "", TN_F32);
  double together = 0, squares = 0;
  for (int i = 0; i + 1 < MANY; i += 2) {
    together += x[i] * x[i + 1];
    squares += (x[i] * x[i] - 1) * (x[i + 1] * x[i + 1] - 1);
  }
  cr_assert_float_eq(together / (MANY / 2), 0, 5 / sqrt(MANY / 2));
  cr_assert_float_eq(squares / (MANY / 2), 0, 5 * 2 / sqrt(MANY / 2));
  free(x);
}

Test(random, loc_and_scale_are_mean_and_deviation) {
  double *x = sample("random.normal", "loc=-10 scale=3", TN_F64);
  check_moments(x, -10, 9, 3 * 81);
  free(x);
  x = sample("random.normal", "loc=2.5 scale=0", TN_F32);
  for (int i = 0; i < MANY; ++i) cr_assert_float_eq(x[i], 2.5, 0);
  free(x);
}

Test(random, exponential_has_its_distribution) {
  for (int i = 0; i < 2; ++i) {
    double *x = sample("random.exponential", "lam=2", floats[i]);
    check_moments(x, 0.5, 0.25, 9.0 / 16);
    check_cdf(x, cdf_exponential, 0);
    cr_assert_geq(x[0], 0);
    free(x);
  }
}

/* For every type, one word decides element i. */
Test(random, ones_are_the_same_in_every_type) {
  static const char *const types[] = {"i8", "u16", "i32", "u32", "i64", "bool"};
  static const int bytes[] = {1, 2, 4, 4, 8, 1};
  double *want = sample("random.bernoulli", "p=0.3", TN_F32);
  for (int t = 0; t < 6; ++t) {
    tn_runtime *rt = open_with(1, 42, 0);
    char text[100];
    int64_t n;
    (void)snprintf(text, sizeof text, "shape=[3001] p=0.3 dtype=%s", types[t]);
    unsigned char *x = draw(rt, "random.bernoulli", text, &n);
    for (int i = 0; i < 3001; ++i) {
      int64_t value = 0;
      memcpy(&value, x + i * bytes[t], (size_t)bytes[t]);
      cr_assert_eq(value, (int64_t)want[i], "%s, element %d", types[t], i);
    }
    free(x);
    tn_runtime_release(rt);
  }
  double *twice = sample("random.bernoulli", "p=0.3", TN_F64);
  cr_assert_eq(memcmp(want, twice, sizeof *want * MANY), 0);
  free(want), free(twice);
}

Test(random, ones_come_with_their_probability) {
  double *x = sample("random.bernoulli", "p=0.3", TN_F32);
  check_moments(x, 0.3, 0.21, 0.3 * 0.7 * (0.49 * 0.7 + 0.09 * 0.3));
  free(x);
  x = sample("random.bernoulli", "p=0", TN_F16);
  for (int i = 0; i < MANY; ++i) cr_assert_float_eq(x[i], 0, 0);
  free(x);
  x = sample("random.bernoulli", "p=1", TN_F64);
  for (int i = 0; i < MANY; ++i) cr_assert_float_eq(x[i], 1, 0);
  free(x);
}

/* Chi squared of ten classes: above 27.9 once in a thousand. */
Test(random, whole_numbers_are_equally_likely) {
  tn_runtime *rt = open_with(1, 9, 0);
  int64_t n, count[10] = {0};
  int32_t *x = draw(rt, "random.randint", "shape=[200000] low=-4 high=6", &n);
  for (int i = 0; i < MANY; ++i) {
    cr_assert(x[i] >= -4 && x[i] < 6);
    ++count[x[i] + 4];
  }
  double chi = 0;
  for (int k = 0; k < 10; ++k)
    chi += pow((double)count[k] - MANY / 10.0, 2) / (MANY / 10.0);
  cr_assert_lt(chi, 27.9, "%g", chi);
  free(x);
  int64_t *wide = draw(rt, "random.randint",
                       "shape=[1000] dtype=i64 low=-9223372036854775808 "
                       "high=9223372036854775807",
                       &n);
  int negative = 0;
  for (int i = 0; i < 1000; ++i) negative += wide[i] < 0;
  cr_assert(negative > 420 && negative < 580, "%d", negative);
  free(wide);
  tn_runtime_release(rt);
}

/* -------------------------------------------------------------------- edges */

/* Rounding to the few bits of f16 and bf16 does not reach `high`, and a range
 * of two neighbours gives the first. */
Test(random, uniform_stays_below_high) {
  tn_runtime *rt = open_with(1, 5, 0);
  int64_t n;
  uint16_t *x = draw(rt, "random.uniform",
                     "shape=[100000] dtype=f16 low=2047 high=2048", &n);
  for (int64_t i = 0; i < n; ++i) cr_assert_eq(x[i], 0x67ff);
  free(x);
  float *y = draw(rt, "random.uniform",
                  "shape=[100000] low=16777215 high=16777216", &n);
  for (int64_t i = 0; i < n; ++i) cr_assert_float_eq(y[i], 16777215.0f, 0);
  free(y);
  y = draw(rt, "random.uniform", "shape=[10] low=3 high=3", &n);
  for (int64_t i = 0; i < n; ++i) cr_assert_float_eq(y[i], 3, 0);
  free(y);
  tn_runtime_release(rt);
}

Test(random, arrays_may_be_empty_and_numbers) {
  tn_runtime *rt = open_with(1, 5, 0);
  int64_t n;
  for (size_t i = 0; i < sizeof every / sizeof *every; ++i) {
    char text[200];
    const char *rest = strchr(every[i].params, ']') + 1;
    (void)snprintf(text, sizeof text, "shape=[3,0] %s", rest);
    free(draw(rt, every[i].name, text, &n));
    cr_assert_eq(n, 0);
    (void)snprintf(text, sizeof text, "%s", rest);
    free(draw(rt, every[i].name, text, &n));
    cr_assert_eq(n, 1);
  }
  tn_runtime_release(rt);
}

/* Adding to existing values draws as overwriting does. */
Test(random, numbers_are_added_where_that_is_asked_for) {
  tn_runtime *a = open_with(1, 5, 0), *b = open_with(1, 5, 0);
  const double ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  tn_array *x = NULL;
  tn_array *y = host_array(b, TN_F64, (host_shape){1, {8}}, ones);
  double values[8], sums[8];
  OK(call(a, "random.normal", "shape=[8] dtype=f64", &x));
  const tn_req add = TN_REQ_ADD;
  tn_operator *op = host_operator(b, "random.normal");
  tn_params *params = host_params(op, "shape=[8] dtype=f64");
  OK(tn_call(b, op, &(tn_inputs){0}, params, &(tn_outputs){1, &y, &add}));
  host_values(x, values), host_values(y, sums);
  for (int i = 0; i < 8; ++i) cr_assert_float_eq(sums[i], 1 + values[i], 1e-15);
  tn_params_release(params);
  tn_array_release(x), tn_array_release(y);
  tn_runtime_release(a), tn_runtime_release(b);
}

/* The farthest bounds that a type has. */
Test(random, uniform_takes_all_bounds_of_its_type) {
  static const struct {
    tn_dtype dtype;
    const char *params;
    double most;
  } some[] = {{TN_F16, "low=-65504 high=65504", 65504},
              {TN_BF16, "low=-1.7e38 high=1.7e38", 0x1.ffp126},
              {TN_F32, "low=-1.7e38 high=1.7e38", 1.7e38},
              {TN_F64, "low=0 high=1.7e308", 1.7e308}};
  for (size_t i = 0; i < sizeof some / sizeof *some; ++i) {
    double *x = sample("random.uniform", some[i].params, some[i].dtype);
    double largest = 0;
    for (int k = 0; k < MANY; ++k) largest = fmax(largest, x[k]);
    cr_expect_leq(largest, some[i].most, "%s", some[i].params);
    cr_expect_gt(largest, 0.99 * some[i].most, "%s", some[i].params);
    free(x);
  }
}

static const struct {
  const char *name, *params;
  tn_code code;
  const char *text;
} mistakes[] = {
    {"random.uniform", "low=2 high=1", TN_INVALID, "low=2, high=1"},
    {"random.uniform", "high=inf", TN_OUT_OF_RANGE, "`high` is inf"},
    {"random.uniform", "low=nan", TN_OUT_OF_RANGE, "`low` is nan"},
    {"random.uniform", "low=-1e39", TN_OUT_OF_RANGE,
     "`low` is -1e+39, but the type has -3.40282e+38 to 3.40282e+38 only"},
    {"random.uniform", "low=-1 high=65505 dtype=f16", TN_OUT_OF_RANGE,
     "`high` is 65505, but the type has -65504 to 65504 only"},
    {"random.uniform", "low=3.4e38 high=3.4e38 dtype=bf16", TN_OUT_OF_RANGE,
     "-3.38953e+38 to 3.38953e+38"},
    {"random.uniform", "low=-1e308 high=1e308 dtype=f64", TN_INVALID,
     "the distance is more than 1.79769e+308"},
    {"random.uniform", "low=-2e38 high=2e38", TN_INVALID,
     "the distance is more than 3.40282e+38"},
    {"random.uniform", "low=-2e38 high=2e38 dtype=bf16", TN_INVALID,
     "bounds that are nearer"},
    {"random.uniform", "dtype=i32", TN_DTYPE, "f16, bf16, f32 or f64"},
    {"random.normal", "dtype=bool", TN_DTYPE, "f16, bf16, f32 or f64"},
    {"random.normal", "loc=nan", TN_OUT_OF_RANGE, "`loc` is nan"},
    {"random.normal", "scale=inf", TN_OUT_OF_RANGE, "`scale` is inf"},
    {"random.normal", "loc=-7e4 dtype=f16", TN_OUT_OF_RANGE, "`loc` is -70000"},
    {"random.exponential", "lam=inf", TN_OUT_OF_RANGE, "`lam` is inf"},
    {"random.exponential", "lam=1e-39", TN_OUT_OF_RANGE,
     "`lam` is 1e-39, but the mean 1/lam must not be above 3.40282e+38"},
    {"random.exponential", "lam=0", TN_OUT_OF_RANGE, "lam is 0"},
    {"random.bernoulli", "dtype=u64", TN_DTYPE, "any type but u64"},
    {"random.randint", "low=3 high=3", TN_INVALID, "low=3, high=3"},
    {"random.randint", "low=0 high=257 dtype=u8", TN_OUT_OF_RANGE,
     "the type has 0 to 255"},
    {"random.randint", "low=-129 high=0 dtype=i8", TN_OUT_OF_RANGE,
     "-128 to 127"},
    {"random.randint", "low=0 high=5 dtype=f32", TN_DTYPE, "i8 to i64"},
};

Test(random, invalid_draws_are_reported) {
  tn_runtime *rt = open_with(1, 0, 0);
  tn_params *none = NULL;
  for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; ++i) {
    tn_array *out = NULL;
    FAILS(call(rt, mistakes[i].name, mistakes[i].params, &out),
          mistakes[i].code, mistakes[i].text);
    cr_assert_null(out);
  }
  FAILS(tn_params_parse(host_operator(rt, "random.normal"), "scale=-1", &none),
        TN_OUT_OF_RANGE, "scale");
  FAILS(tn_params_parse(host_operator(rt, "random.bernoulli"), "p=1.5", &none),
        TN_OUT_OF_RANGE, "p");
  FAILS(
      tn_params_parse(host_operator(rt, "random.uniform"), "shape=[-1]", &none),
      TN_OUT_OF_RANGE, "shape");
  tn_runtime_release(rt);
}
