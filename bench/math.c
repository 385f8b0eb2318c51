/* SPDX-License-Identifier: Apache-2.0
 * math.c: loops over 64 K floats that call functions of math.h, as opgen writes
 * them, at each level of instructions that this processor has, and the same
 * loop over libm's function. question.h describes its input and output. The
 * additional function "limit" is an addition and only moves memory.
 */
#include "question.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"
#include "tenon/kernel/kernel.h"

typedef void loop(const tn_kernel_block *block, const void *params);

typedef struct contest {
  const char *name;
  loop *levels[4]; /* the last one is libm's */
} contest;

#define LOOP(name, call)                                                  \
  TN_KERNEL_BODY void name(const tn_kernel_block *block, const void *p) { \
    const float *x = (const float *)block->in[0];                         \
    float *y = (float *)block->out;                                       \
    (void)p;                                                              \
    TN_KERNEL_INDEPENDENT                                                 \
    for (int64_t i = 0; i < block->n; ++i) y[i] = call;                   \
  }

/* The same part by part, as opgen writes loops over them. */
#define PARTS(name)                                                      \
  TN_KERNEL_BODY void run_##name(const tn_kernel_block *block,           \
                                 const void *p) {                        \
    const float *x = (const float *)block->in[0];                        \
    float room[TN_KERNEL_PART];                                          \
    (void)p;                                                             \
    for (int64_t begin = 0; begin < block->n; begin += TN_KERNEL_PART) { \
      const int64_t end = tn_kernel_part_end(block, begin);              \
      float *part = tn_kernel_part_at(block, 1, begin, room);            \
      uint32_t far = 0;                                                  \
      TN_KERNEL_INDEPENDENT                                              \
      for (int64_t i = begin; i < end; ++i)                              \
        part[i - begin] = tn_math_##name##_near_f32(x[i], &far);         \
      if (far >> 31) {                                                   \
        TN_KERNEL_INDEPENDENT                                            \
        for (int64_t i = begin; i < end; ++i)                            \
          part[i - begin] = tn_math_##name##_f32(x[i]);                  \
      }                                                                  \
      tn_kernel_part_store(block, begin, end, part);                     \
    }                                                                    \
  }

/* The same by sixteen elements, where that is written. */
#if TN_KERNEL_HAS_WIDE
#define WIDE(name)                                                        \
  TN_WIDE_FN void run_##name##_wide(const tn_kernel_block *block,         \
                                    const void *p) {                      \
    const float *x = (const float *)block->in[0];                         \
    float *y = (float *)block->out;                                       \
    (void)p;                                                              \
    for (int64_t i = 0, n = block->n; n > 0; i += 16, n -= 16) {          \
      const tn_wide made = tn_math_##name##_wide(tn_wide_load(x + i, n)); \
      tn_wide_store(y + i, n, made);                                      \
    }                                                                     \
  }
#else
#define WIDE(name)
#endif

/* The function, and its counterpart in libm. */
#define FUNCTIONS(X)                \
  X(expm1, expm1f(x[i]))            \
  X(cbrt, cbrtf(x[i]))              \
  X(atan, atanf(x[i]))              \
  X(asinh, asinhf(x[i]))            \
  X(atanh, atanhf(x[i]))            \
  X(erf, erff(x[i]))                \
  X(gamma, tgammaf(x[i]))           \
  X(lgamma, lgammaf(x[i]))          \
  X(sigmoid, 1 / (1 + expf(-x[i]))) \
  X(softplus, log1pf(expf(x[i])))

/* Those that have a form of sixteen at once. */
#define WIDES(X)            \
  X(log1p, log1pf(x[i]))    \
  X(exp, expf(x[i]))        \
  X(sqrt, sqrtf(x[i]))      \
  X(rsqrt, 1 / sqrtf(x[i])) \
  X(asin, asinf(x[i]))      \
  X(acos, acosf(x[i]))      \
  X(tanh, tanhf(x[i]))      \
  X(erfc, erfcf(x[i]))      \
  X(sinh, sinhf(x[i]))      \
  X(cosh, coshf(x[i]))      \
  X(acosh, acoshf(x[i]))    \
  X(gelu, 0.5f * x[i] * (1 + erff(x[i] * 0.70710678f)))

/* Those of which most numbers are near as well. */
#define NEAR_WIDES(X)    \
  X(sin, sinf(x[i]))     \
  X(cos, cosf(x[i]))     \
  X(log, logf(x[i]))     \
  X(log2, log2f(x[i]))   \
  X(log10, log10f(x[i])) \
  X(tan, tanf(x[i]))

/* Those for which all levels but the lowest have an instruction. */
#define DIRECT(X)        \
  X(floor, floorf(x[i])) \
  X(rint, rintf(x[i]))

#define DEFINE_LIBM(name, libm)                                             \
  LOOP(libm_##name, libm)                                                   \
  static void libm_##name##_once(const tn_kernel_block *b, const void *p) { \
    libm_##name(b, p);                                                      \
  }
#define DEFINE(name, libm)                     \
  LOOP(run_##name, tn_math_##name##_f32(x[i])) \
  TN_KERNEL_LEVELS(run_##name)                 \
  DEFINE_LIBM(name, libm)
#define DEFINE_WIDE(name, libm)                \
  LOOP(run_##name, tn_math_##name##_f32(x[i])) \
  WIDE(name)                                   \
  TN_KERNEL_LEVELS_WIDE(run_##name)            \
  DEFINE_LIBM(name, libm)
#define DEFINE_NEAR_WIDE(name, libm) \
  PARTS(name)                        \
  WIDE(name)                         \
  TN_KERNEL_LEVELS_WIDE(run_##name)  \
  DEFINE_LIBM(name, libm)
#define DEFINE_DIRECT(name, libm)                     \
  LOOP(low_##name, tn_math_##name##_f32(x[i]))        \
  LOOP(run_##name, tn_math_##name##_direct_f32(x[i])) \
  TN_KERNEL_LEVELS_FROM(run_##name, low_##name)       \
  DEFINE_LIBM(name, libm)
FUNCTIONS(DEFINE)
WIDES(DEFINE_WIDE)
NEAR_WIDES(DEFINE_NEAR_WIDE)
DIRECT(DEFINE_DIRECT)
LOOP(copy, x[i] + 1)
TN_KERNEL_LEVELS(copy)

#if defined(__x86_64__)
#define ROWS(name) name##_base, name##_avx2, name##_avx512
#else
#define ROWS(name) name##_base, NULL, NULL
#endif
#define CONTEST(name, libm) {#name, {ROWS(run_##name), libm_##name##_once}},
static const contest contests[] = {{"limit", {ROWS(copy), NULL}},
                                   FUNCTIONS(CONTEST) WIDES(CONTEST)
                                       NEAR_WIDES(CONTEST) DIRECT(CONTEST)};

/* Which levels this processor has. */
static int has_level(int level) {
#if defined(__x86_64__)
  if (level == 1)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (level == 2)
    return __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
  return 1;
#else
  return level == 0 || level == 3;
#endif
}

typedef struct job {
  loop *run;
  tn_kernel_block block;
} job;

static void run_once(void *arg) {
  const job *j = arg;
  j->run(&j->block, NULL);
}

/* Appends the answer of one function to the line. */
static void measure_function(const contest *c, const float *x, float *y) {
  static const char *const names[] = {"base", "avx2", "avx512", "libm"};
  for (int level = 0; level < 4; ++level) {
    if (!c->levels[level] || !has_level(level)) continue;
    job j = {c->levels[level], {.n = MATH_N, .out = y}};
    j.block.in[0] = x;
    printf(" %s=%.1f", names[level],
           measure_single(run_once, &j, MATH_SECONDS));
  }
}

int main(void) {
  char name[32];
  float low, high;
  float *x = measure_floats(MATH_N), *y = measure_floats(MATH_N);
  while (scanf("%31s %f %f", name, &low, &high) == 3) {
    math_fill(x, low, high);
    fputs(name, stdout);
    for (size_t i = 0; i < sizeof contests / sizeof *contests; ++i)
      if (strcmp(name, contests[i].name) == 0)
        measure_function(&contests[i], x, y);
    putchar('\n');
    fflush(stdout);
  }
  free(x);
  free(y);
  return 0;
}
