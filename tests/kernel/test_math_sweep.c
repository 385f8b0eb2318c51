/* SPDX-License-Identifier: Apache-2.0
 * tenon/kernel/math.h between its special values: floats from all over the
 * range against libm in double, doubles against libm in long double, in loops
 * that are compiled for each level of instructions and run where the processor
 * has it. The bounds are those that math.h states. TN_MATH_STEP in the
 * environment is the distance of the floats' bits: 1 means all floats.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tenon/kernel/kernel.h"

enum { BLOCK = 4096, LEVELS = 3 };

typedef void loop(const tn_kernel_block *block, const void *params);

/* ------------------------------------------------------------------- levels
 */

#if defined(__x86_64__)
#define ROWS(name) \
  { name##_base, name##_avx2, name##_avx512 }
static int has_level(int level) {
  if (level == 0) return 1;
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
    return 0;
#if defined(TN_KERNEL_EMULATED)
  return 1;
#else
  return level == 1 || (__builtin_cpu_supports("avx512f") &&
                        __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512dq") &&
                        __builtin_cpu_supports("avx512vl"));
#endif
}
#else
#define ROWS(name) \
  { name##_base, NULL, NULL }
static int has_level(int level) {
  return level == 0;
}
#endif

static void run(loop *body, const void *x, void *y) {
  tn_kernel_block block = {.n = BLOCK, .out = y};
  block.in[0] = x;
  body(&block, NULL);
}

/* ---------------------------------------------------------------- functions
 */

static double exact_sigmoid(double x) {
  return 1 / (1 + exp(-x));
}

static long double exact_sigmoidl(long double x) {
  return 1 / (1 + expl(-x));
}

static double exact_softplus(double x) {
  return (x > 0 ? x : 0) + log1p(exp(-fabs(x)));
}

static long double exact_softplusl(long double x) {
  return (x > 0 ? x : 0) + log1pl(expl(-fabsl(x)));
}

static double exact_gelu(double x) {
  if (x < -40) return -0.0;
  return x == 0 || x > 40 ? x : x / 2 * erfc(-x * sqrt(0.5));
}

/* The rounding of the root of 1/2 to 11 digits, and of the product with it,
 * matters where erfc falls. */
static long double exact_gelul(long double x) {
  const long double high = 0x1.6ap-1L, low = sqrtl(0.5L) - high;
  if (x < -60) return -0.0L;
  if (x == 0 || x > 60) return x;
  const long double t = -x * high + -x * low;
  const long double lost = (-x * high - t) + -x * low;
  const long double slope = t > 1 ? t + sqrtl(t * t + 2) : 0;
  return x / 2 * erfcl(t) * (1 - lost * slope);
}

static double exact_rsqrt(double x) {
  return 1 / sqrt(x);
}

static long double exact_rsqrtl(long double x) {
  return 1 / sqrtl(x);
}

/* The lower of two integers that are equally near. */
static double exact_rint(double x) {
  const double down = floor(x);
  return x - down > 0.5 ? copysign(ceil(x), x) : down;
}

static long double exact_rintl(long double x) {
  const long double down = floorl(x);
  return x - down > 0.5L ? copysignl(ceill(x), x) : down;
}

/* The sum of 1/(x + i)^2, and from 100 on the integral with its corrections. */
static long double exact_trigammal(long double x) {
  if (x <= 0 && x == floorl(x)) return INFINITY;
  if (x < 0) {
    const long double s = sinl(3.14159265358979323846264338L * (x - roundl(x)));
    return 9.86960440108935861883449099L / (s * s) - exact_trigammal(1 - x);
  }
  const long double n = x < 100 ? ceill(100 - x) : 0, z = x + n;
  const long double w = 1 / (z * z);
  long double sum =
      1 / z + w / 2 + w / z * (1 / 6.0L - w * (1 / 30.0L - w / 42));
  for (long double i = n - 1; i >= 0; --i) sum += 1 / ((x + i) * (x + i));
  return sum;
}

static double exact_trigamma(double x) {
  return (double)exact_trigammal((long double)x);
}

/* The function, its reference, and its bounds in ulp in f32 and f64. */
#define FUNCTIONS(X)                  \
  X(exp, exp, 2, 1)                   \
  X(expm1, expm1, 1.5, 2)             \
  X(log, log, 1, 1.25)                \
  X(log1p, log1p, 1, 1.5)             \
  X(log2, log2, 1.35, 2)              \
  X(log10, log10, 1.75, 1)            \
  X(sqrt, sqrt, 0.51, 0.51)           \
  X(rsqrt, exact_rsqrt, 1.5, 1.5)     \
  X(cbrt, cbrt, 1, 1)                 \
  X(sin, sin, 1.4, 1)                 \
  X(cos, cos, 1.4, 1)                 \
  X(tan, tan, 1.85, 1.75)             \
  X(asin, asin, 1, 1)                 \
  X(acos, acos, 1, 1)                 \
  X(atan, atan, 1.55, 1)              \
  X(sinh, sinh, 1.4, 2.25)            \
  X(cosh, cosh, 1.35, 1.5)            \
  X(tanh, tanh, 1.85, 2.25)           \
  X(asinh, asinh, 1.85, 1.75)         \
  X(acosh, acosh, 2, 2.25)            \
  X(atanh, atanh, 1.75, 1.25)         \
  X(erf, erf, 1.3, 1.25)              \
  X(erfc, erfc, 2, 2.5)               \
  X(gamma, tgamma, 1, 8)              \
  X(lgamma, lgamma, 1, 4)             \
  X(trigamma, exact_trigamma, 1, 4.5) \
  X(abs, fabs, 0, 0)                  \
  X(floor, floor, 0, 0)               \
  X(ceil, ceil, 0, 0)                 \
  X(round, round, 0, 0)               \
  X(trunc, trunc, 0, 0)               \
  X(rint, exact_rint, 0, 0)           \
  X(floor_direct, floor, 0, 0)        \
  X(ceil_direct, ceil, 0, 0)          \
  X(round_direct, round, 0, 0)        \
  X(trunc_direct, trunc, 0, 0)        \
  X(rint_direct, exact_rint, 0, 0)    \
  X(sigmoid, exact_sigmoid, 2, 2)     \
  X(softplus, exact_softplus, 1, 2)   \
  X(gelu, exact_gelu, 2, 3)

#define LOOP(name, type, class)                                                \
  TN_KERNEL_BODY void name##_##class(const tn_kernel_block *block,             \
                                     const void *params) {                     \
    const type *x = (const type *)block->in[0];                                \
    type *y = (type *)block->out;                                              \
    (void)params;                                                              \
    TN_KERNEL_INDEPENDENT                                                      \
    for (int64_t i = 0; i < BLOCK; ++i) y[i] = tn_math_##name##_##class(x[i]); \
  }                                                                            \
  TN_KERNEL_LEVELS(name##_##class)
#define DEFINE(name, exact, narrow, wide) \
  LOOP(name, float, f32) LOOP(name, double, f64)
#define CASE(name, exact, narrow, wide) \
  {#name, ROWS(name##_f32), ROWS(name##_f64), exact, exact##l, narrow, wide},

typedef struct contest {
  const char *name;
  loop *narrow[LEVELS];
  loop *wide[LEVELS];
  double (*exact)(double x);
  long double (*exact_long)(long double x);
  double narrow_bound;
  double wide_bound;
} contest;

FUNCTIONS(DEFINE)
static const contest contests[] = {FUNCTIONS(CASE)};

enum { N_CONTESTS = sizeof contests / sizeof *contests };

/* ------------------------------------------------------------------- errors
 */

/* Distance of y from the expected value, in units of the last place of a type
 * with `digits` and a smallest normal number of 2^(least - 1); infinite where
 * one of them is infinite or NaN and the other is not, or the signs of zeros
 * differ. */
static double distance(long double y, long double exact, int digits, int least,
                       long double rounded) {
  int exponent;
  if (isnan(exact) || isnan(y))
    return isnan(exact) && isnan(y) ? 0 : (double)INFINITY;
  if (isinf(rounded) || isinf(y)) return y == rounded ? 0 : (double)INFINITY;
  if (y == 0 && rounded == 0)
    return !signbit(y) == !signbit(rounded) ? 0 : (double)INFINITY;
  (void)frexpl(exact, &exponent);
  if (exponent < least) exponent = least;
  return (double)fabsl(ldexpl(y - exact, digits - exponent));
}

/* The largest finite number instead of infinity is half a unit away. */
static double distance_f32(float y, double exact) {
  const float most = 0x1.fffffep127f;
  float rounded = (float)exact;
  if (isinf(rounded) && fabsf(y) == most && fabs(exact) < 0x1.000001p128)
    return 1;
  return distance((long double)y, (long double)exact, 24, -125,
                  (long double)rounded);
}

static double distance_f64(double y, long double exact) {
  return distance((long double)y, exact, 53, -1021, (long double)(double)exact);
}

/* ------------------------------------------------------------------- floats
 */

/* Where the bound of a function is absolute, and kept: lgamma has zeros between
 * the negative integers. */
static int next_to_a_zero(const contest *c, float x, double error) {
  return strcmp(c->name, "lgamma") == 0 && x < 0 && fabs(error) <= 0x1p-29;
}

/* Checks a block of floats at every level. */
static void check_narrow(const contest *c, const float *x) {
  static double exact[BLOCK];
  static float y[BLOCK];
  for (int i = 0; i < BLOCK; ++i) exact[i] = c->exact((double)x[i]);
  for (int level = 0; level < LEVELS; ++level) {
    if (!has_level(level)) continue;
    run(c->narrow[level], x, y);
    for (int i = 0; i < BLOCK; ++i) {
      const double error = distance_f32(y[i], exact[i]);
      if (error <= c->narrow_bound) continue;
      if (next_to_a_zero(c, x[i], (double)y[i] - exact[i])) continue;
      cr_assert(0, "%s_f32(%a) is %a, %.3g ulp from %a at level %d", c->name,
                (double)x[i], (double)y[i], error, exact[i], level);
    }
  }
}

LOOP(exp_down, float, f32)

/* For numbers that are not above 0; with 0 in place of subnormal numbers. */
Test(math_sweep, powers_below_1_are_near_or_0) {
  static float x[BLOCK], y[BLOCK];
  static loop *const levels[] = ROWS(exp_down_f32);
  for (uint32_t bits = 0x80000000u; bits < 0xff800000u;) {
    for (int i = 0; i < BLOCK; ++i, bits += 499)
      x[i] = bits < 0xff800000u ? tn_math_from_bits_f32(bits) : -INFINITY;
    for (int level = 0; level < LEVELS; ++level) {
      if (!has_level(level)) continue;
      run(levels[level], x, y);
      for (int i = 0; i < BLOCK; ++i) {
        const double want = exp((double)x[i]);
        const int gone = want < 0x1p-126 && y[i] == 0;
        cr_assert(gone || distance_f32(y[i], want) <= 2, "exp(%a) is %a",
                  (double)x[i], (double)y[i]);
      }
    }
  }
  x[0] = NAN;
  for (int level = 0; level < LEVELS; ++level) {
    if (!has_level(level)) continue;
    run(levels[level], x, y);
    cr_assert(isnan(y[0]));
  }
}

Test(math_sweep, floats_of_the_whole_range_are_within_the_bounds) {
  static float x[BLOCK];
  const char *given = getenv("TN_MATH_STEP");
  const uint64_t step = given ? strtoull(given, NULL, 10) : 16381;
  for (size_t k = 0; k < N_CONTESTS; ++k)
    for (uint64_t bits = 0; bits < UINT64_C(1) << 32;) {
      for (int i = 0; i < BLOCK; ++i, bits += step)
        x[i] = tn_math_from_bits_f32((uint32_t)bits);
      check_narrow(&contests[k], x);
    }
}

/* Functions of sixteen floats at once (math/wide.h), and their bounds. */
#define WIDES(X) \
  X(exp, 1.1)    \
  X(log, 1.05)   \
  X(log1p, 1.05) \
  X(log2, 1.6)   \
  X(log10, 1.55) \
  X(sqrt, 0.5)   \
  X(rsqrt, 1)    \
  X(sin, 1.55)   \
  X(cos, 1.55)   \
  X(tan, 1.85)   \
  X(asin, 0.8)   \
  X(acos, 1.2)   \
  X(sinh, 1.85)  \
  X(cosh, 1.55)  \
  X(tanh, 1.1)   \
  X(acosh, 1.5)  \
  X(erfc, 1.8)   \
  X(gelu, 1.95)

#if TN_KERNEL_HAS_WIDE
#define DEFINE_WIDE(name, bound)                                              \
  TN_WIDE_FN void name##_wide(const tn_kernel_block *block,                   \
                              const void *params) {                           \
    const float *x = (const float *)block->in[0];                             \
    float *y = (float *)block->out;                                           \
    (void)params;                                                             \
    for (int64_t i = 0, n = block->n; n > 0; i += 16, n -= 16)                \
      tn_wide_store(y + i, n, tn_math_##name##_wide(tn_wide_load(x + i, n))); \
  }                                                                           \
  static TN_KERNEL_AVX512 void sixteen_##name(const tn_kernel_block *block,   \
                                              const void *params) {           \
    name##_wide(block, params);                                               \
  }
#define CASE_WIDE(name, bound) {#name, sixteen_##name, bound},
WIDES(DEFINE_WIDE)
#else
#define CASE_WIDE(name, bound) {#name, NULL, bound},
#endif

typedef struct wide_contest {
  const char *name;
  loop *sixteen;
  double bound;
} wide_contest;

static const wide_contest wides[] = {WIDES(CASE_WIDE)};

enum { N_WIDES = sizeof wides / sizeof *wides };

/* Whether they can run here; says so if not. */
static int wides_run(void) {
  if (TN_KERNEL_HAS_WIDE && has_level(2)) return 1;
  cr_skip_test("SKIPPED: no AVX-512, or a build without it");
  return 0;
}

/* Checks a block of floats. */
static void check_sixteen(const wide_contest *wide, const float *x) {
  static float y[BLOCK];
  const contest *c = contests;
  while (strcmp(c->name, wide->name) != 0) ++c;
  run(wide->sixteen, x, y);
  for (int i = 0; i < BLOCK; ++i) {
    const double exact = c->exact((double)x[i]);
    const double error = distance_f32(y[i], exact);
    cr_assert(error <= wide->bound, "%s_wide(%a) is %a, %.3g ulp from %a",
              wide->name, (double)x[i], (double)y[i], error, exact);
  }
}

Test(math_sweep, floats_sixteen_at_once_are_within_the_bounds) {
  static float x[BLOCK];
  const char *given = getenv("TN_MATH_STEP");
  const uint64_t step = given ? strtoull(given, NULL, 10) : 4099;
  if (!wides_run()) return;
  for (size_t k = 0; k < N_WIDES; ++k)
    for (uint64_t bits = 0; bits < UINT64_C(1) << 32;) {
      for (int i = 0; i < BLOCK; ++i, bits += step)
        x[i] = tn_math_from_bits_f32((uint32_t)bits);
      check_sixteen(&wides[k], x);
    }
}

/* Of each special number, alone in its sixteen and with others around it. */
Test(math_sweep, special_floats_sixteen_at_once_are_those_of_libm) {
  static const float some[] = {0.0f,
                               -0.0f,
                               1.0f,
                               -1.0f,
                               INFINITY,
                               -INFINITY,
                               NAN,
                               0x1p-149f,
                               -0x1p-149f,
                               0x1p-126f,
                               -0x1p-126f,
                               0.5f,
                               -0.5f,
                               0x1.8p-1f,
                               0x1.8p+0f,
                               1024.0f,
                               -1024.5f,
                               0x1p30f,
                               -0x1p30f,
                               0x1.fffffep0f,
                               1e-30f,
                               -1e-30f,
                               88.7f,
                               -88.7f,
                               89.5f,
                               -103.9f,
                               -105.0f,
                               0x1.fffffep127f,
                               -0x1.fffffep127f};
  enum { N = sizeof some / sizeof *some };
  static float x[BLOCK];
  if (!wides_run()) return;
  for (int i = 0; i < BLOCK; ++i)
    x[i] = some[i < BLOCK / 2 ? i / 16 % N : (i * 7 + i / N) % N];
  for (size_t k = 0; k < N_WIDES; ++k) check_sixteen(&wides[k], x);
}

/* Sixteen of `x` by a function. */
static void sixteen_of(const wide_contest *wide, const float *x, float *y) {
  tn_kernel_block block = {.n = 16, .out = y};
  block.in[0] = x;
  wide->sixteen(&block, NULL);
}

/* Instructions that are emulated change the signs of NaN. */
#ifdef TENON_TESTS_EMULATE_AVX512_H_
enum { EMULATED = 1 };
#else
enum { EMULATED = 0 };
#endif

Test(math_sweep, a_float_has_one_result_for_all_neighbours) {
  uint32_t state = 1;
  if (!wides_run()) return;
  for (size_t k = 0; k < N_WIDES; ++k)
    for (int round = 0; round < 20000; ++round) {
      float x[16], y[16], alone[16], result[16];
      for (int i = 0; i < 16; ++i) {
        state = state * 1664525u + 1013904223u;
        x[i] = tn_math_from_bits_f32(state ^ state >> 16);
      }
      for (int i = 0; i < 16; ++i) alone[i] = x[round % 16];
      sixteen_of(&wides[k], x, y);
      sixteen_of(&wides[k], alone, result);
      const int nan = EMULATED && isnan(y[round % 16]) && isnan(result[0]);
      cr_assert(nan || memcmp(&y[round % 16], result, sizeof *result) == 0,
                "%s_wide(%a) is %a, and %a alone", wides[k].name,
                (double)alone[0], (double)y[round % 16], (double)result[0]);
    }
}

/* All roots of which one is like another, and those about the numbers that are
 * too small for it. */
Test(math_sweep, sixteen_roots_are_rounded_as_one_is) {
  static const uint32_t ranges[][2] = {{0x3f800000, 0x40800000},
                                       {0x0dffff00, 0x0e100000},
                                       {0x7f7fff00, 0x7f7fffff},
                                       {0, 0x1000}};
  static float x[BLOCK], y[BLOCK];
  const wide_contest *root = wides;
  if (!wides_run()) return;
  while (strcmp(root->name, "sqrt") != 0) ++root;
  for (size_t k = 0; k < sizeof ranges / sizeof *ranges; ++k)
    for (uint32_t bits = ranges[k][0]; bits < ranges[k][1]; bits += BLOCK) {
      for (uint32_t i = 0; i < BLOCK; ++i)
        x[i] = tn_math_from_bits_f32(bits + i);
      run(root->sixteen, x, y);
      for (int i = 0; i < BLOCK; ++i) {
        const float one = sqrtf(x[i]);
        if (memcmp(&y[i], &one, sizeof one) != 0 && x[i] == x[i])
          cr_assert(false, "sqrt_wide(%a) is %a, not %a", (double)x[i],
                    (double)y[i], (double)one);
      }
    }
}

/* The last `n` floats of a page; memory after it may not be read. */
static float *at_the_end(char *pages, size_t page, int64_t n) {
  return (float *)(void *)(pages + page) - n;
}

Test(math_sweep, sixteen_at_once_end_where_they_should) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  if (!wides_run()) return;
  char *pages[2];
  for (int i = 0; i < 2; ++i) {
    pages[i] = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(pages[i], MAP_FAILED);
    cr_assert_eq(mprotect(pages[i] + page, page, PROT_NONE), 0);
  }
  for (size_t k = 0; k < N_WIDES; ++k)
    for (int64_t n = 0; n <= 33; ++n) {
      float *x = at_the_end(pages[0], page, n);
      float *y = at_the_end(pages[1], page, n);
      float whole[16], many[16];
      for (int64_t i = 0; i < n; ++i) x[i] = 1.0f / (float)(i + 1);
      tn_kernel_block block = {.n = n, .out = y};
      block.in[0] = x;
      wides[k].sixteen(&block, NULL);
      for (int64_t i = 0; i < n; ++i) {
        for (int j = 0; j < 16; ++j) many[j] = x[i];
        sixteen_of(&wides[k], many, whole);
        cr_assert(memcmp(&y[i], whole, sizeof *whole) == 0);
      }
    }
  for (int i = 0; i < 2; ++i) munmap(pages[i], 2 * page);
}

/* log10 below 3/4, where the exponent's part and the logarithm of the rest have
 * opposite signs and nearly the same size. */
Test(math_sweep, a_logarithm_is_within_its_bound_where_its_parts_cancel) {
  static float x[BLOCK];
  for (size_t k = 0; k < N_CONTESTS; ++k) {
    if (strncmp(contests[k].name, "log", 3) != 0) continue;
    for (uint32_t i = 0; i < BLOCK; ++i)
      x[i] = tn_math_from_bits_f32(tn_math_bits_f32(0.75f) - 1 - i);
    check_narrow(&contests[k], x);
  }
}

/* ------------------------------------------------------------------ doubles
 */

/* Half of them from all over the range, half of a size that is used. */
static double next_double(uint64_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  if (*state & 1024) return tn_math_from_bits_f64(*state);
  return ldexp((double)(int64_t)*state, (int)(*state % 24) - 12 - 63);
}

static void check_wide(const contest *c, const double *x) {
  static long double exact[BLOCK];
  static double y[BLOCK];
  for (int i = 0; i < BLOCK; ++i) exact[i] = c->exact_long((long double)x[i]);
  for (int level = 0; level < LEVELS; ++level) {
    if (!has_level(level)) continue;
    run(c->wide[level], x, y);
    for (int i = 0; i < BLOCK; ++i) {
      const double error = distance_f64(y[i], exact[i]);
      if (error <= c->wide_bound) continue;
      cr_assert(0, "%s_f64(%a) is %a, %.3g ulp from %La at level %d", c->name,
                x[i], y[i], error, exact[i], level);
    }
  }
}

Test(math_sweep, doubles_of_the_whole_range_are_within_the_bounds) {
  static double x[BLOCK];
  uint64_t state = UINT64_C(88172645463325252);
  for (size_t k = 0; k < N_CONTESTS; ++k)
    for (int n = 0; n < 16; ++n) {
      for (int i = 0; i < BLOCK; ++i) x[i] = next_double(&state);
      check_wide(&contests[k], x);
    }
}

/* Doubles next to multiples of a quarter of a turn, up to the largest ones, are
 * where the most digits cancel. */
Test(math_sweep, angles_next_to_quarters_are_within_the_bounds) {
  static double x[BLOCK];
  uint64_t state = UINT64_C(6364136223846793005);
  for (size_t k = 0; k < N_CONTESTS; ++k) {
    const char *name = contests[k].name;
    if (strcmp(name, "sin") && strcmp(name, "cos") && strcmp(name, "tan"))
      continue;
    for (int i = 0; i < BLOCK; ++i) {
      (void)next_double(&state);
      const long double n = (long double)(state >> (state % 63));
      x[i] = (double)(n * 1.57079632679489661923L);
      if (i % 4 == 0) x[i] = ldexp(x[i], (int)(state % 960));
    }
    /* The one that is nearest of all. */
    x[0] = 0x1.6ac5b262ca1ffp+849;
    check_wide(&contests[k], x);
  }
}

/* ------------------------------------------------------------------- pairs
 */

#define PAIRS(X) X(pow) X(hypot) X(mod)
#define PAIR_LOOP(name, type, class)                                      \
  TN_KERNEL_BODY void pair_##name##_##class(const tn_kernel_block *block, \
                                            const void *params) {         \
    const type *a = (const type *)block->in[0];                           \
    type *y = (type *)block->out;                                         \
    (void)params;                                                         \
    TN_KERNEL_INDEPENDENT                                                 \
    for (int64_t i = 0; i < BLOCK; ++i)                                   \
      y[i] = tn_math_##name##_##class(a[i], a[BLOCK + i]);                \
  }                                                                       \
  TN_KERNEL_LEVELS(pair_##name##_##class)
#define PAIR(name) PAIR_LOOP(name, float, f32) PAIR_LOOP(name, double, f64)
PAIRS(PAIR)

static double exact_mod(double a, double b) {
  const double rest = fmod(a, b);
  if (b == 0) return 0;
  if (rest == 0) return copysign(0, b);
  return !signbit(rest) == !signbit(b) ? rest : rest + b;
}

static long double exact_modl(long double a, long double b) {
  const long double rest = fmodl(a, b);
  if (b == 0) return 0;
  if (rest == 0) return copysignl(0, b);
  return !signbit(rest) == !signbit(b) ? rest : rest + b;
}

typedef struct pair_contest {
  const char *name;
  loop *narrow[LEVELS];
  loop *wide[LEVELS];
  double (*exact)(double a, double b);
  long double (*exact_long)(long double a, long double b);
  double bound; /* in both */
} pair_contest;

static const pair_contest pairs[] = {
    {"pow", ROWS(pair_pow_f32), ROWS(pair_pow_f64), pow, powl, 1},
    {"hypot", ROWS(pair_hypot_f32), ROWS(pair_hypot_f64), hypot, hypotl, 1},
    {"mod", ROWS(pair_mod_f32), ROWS(pair_mod_f64), exact_mod, exact_modl,
     0.51}};

static void check_pairs(const pair_contest *c, int level, const float *x) {
  static float y[BLOCK];
  run(c->narrow[level], x, y);
  for (int i = 0; i < BLOCK; ++i) {
    const double a = (double)x[i];
    const double b = (double)x[BLOCK + i];
    const double error = distance_f32(y[i], c->exact(a, b));
    if (error <= c->bound) continue;
    cr_assert(0, "%s_f32(%a, %a) is %a, %.3g ulp from %a at level %d", c->name,
              a, b, (double)y[i], error, c->exact(a, b), level);
  }
}

Test(math_sweep, pairs_of_floats_are_within_the_bounds) {
  static float x[2 * BLOCK];
  uint64_t state = UINT64_C(1442695040888963407);
  for (int n = 0; n < 64; ++n) {
    for (int i = 0; i < 2 * BLOCK; ++i) {
      const double wide = next_double(&state);
      x[i] =
          n % 2 ? tn_math_from_bits_f32((uint32_t)(state >> 32)) : (float)wide;
    }
    for (size_t k = 0; k < sizeof pairs / sizeof *pairs; ++k)
      for (int level = 0; level < LEVELS; ++level)
        if (has_level(level)) check_pairs(&pairs[k], level, x);
  }
}

static void check_wide_pairs(const pair_contest *c, const double *x) {
  static long double exact[BLOCK];
  static double y[BLOCK];
  for (int i = 0; i < BLOCK; ++i)
    exact[i] = c->exact_long((long double)x[i], (long double)x[BLOCK + i]);
  for (int level = 0; level < LEVELS; ++level) {
    if (!has_level(level)) continue;
    run(c->wide[level], x, y);
    for (int i = 0; i < BLOCK; ++i) {
      const double error = distance_f64(y[i], exact[i]);
      if (error <= c->bound) continue;
      cr_assert(0, "%s_f64(%a, %a) is %a, %.3g ulp from %La at level %d",
                c->name, x[i], x[BLOCK + i], y[i], error, exact[i], level);
    }
  }
}

/* In each second block the first is positive and the second small enough that
 * most powers are finite; in some, the first is close to 1, where the error of
 * its logarithm counts most. */
static void fill_pairs(double *x, int n, uint64_t *state) {
  for (int i = 0; i < 2 * BLOCK; ++i) x[i] = next_double(state);
  if (n % 2 == 0) return;
  for (int i = 0; i < BLOCK; ++i) {
    const double first = fabs(x[i]) > 0 ? fabs(x[i]) : 1;
    int exponent;
    x[i] = n % 4 == 1 ? first : 1 + ldexp(frexp(first, &exponent), -n % 50);
    const double most = 1000 / (fabs(log2(x[i])) + 0x1p-60);
    x[BLOCK + i] = ldexp(frexp(x[BLOCK + i], &exponent), 1) * most;
  }
}

Test(math_sweep, pairs_of_doubles_are_within_the_bounds) {
  static double x[2 * BLOCK];
  uint64_t state = UINT64_C(1442695040888963407);
  for (int n = 0; n < 64; ++n) {
    fill_pairs(x, n, &state);
    for (size_t k = 0; k < sizeof pairs / sizeof *pairs; ++k)
      check_wide_pairs(&pairs[k], x);
  }
}
