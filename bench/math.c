/* SPDX-License-Identifier: Apache-2.0
 * math.c: GB/s moved by loops over 64 K floats that call functions of math.h,
 * at each level of instructions that this processor has, and by the same loop
 * over libm's function. Prints "math.NAME.LEVEL GB/s" lines.
 *
 *   math [NAME...]     all without a name
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"
#include "tenon/kernel.h"

enum { N = 64 << 10 };
static const double SECONDS = 0.05; /* for each figure */

typedef void loop(const tn_kernel_block *block, const void *params);

typedef struct contest {
  const char *name;
  loop *levels[4]; /* the last one is libm's */
  float low;       /* the range of the arguments */
  float high;
} contest;

#define LOOP(name, call)                                                  \
  TN_KERNEL_BODY void name(const tn_kernel_block *block, const void *p) { \
    const float *x = (const float *)block->in[0];                         \
    float *y = (float *)block->out;                                       \
    (void)p;                                                              \
    TN_KERNEL_INDEPENDENT                                                 \
    for (int64_t i = 0; i < block->n; ++i) y[i] = call;                   \
  }

/* The function, what libm has for it, and a range. */
#define FUNCTIONS(X)                         \
  X(exp, expf(x[i]), -20, 20)                \
  X(expm1, expm1f(x[i]), -20, 20)            \
  X(log, logf(x[i]), 0, 100)                 \
  X(log1p, log1pf(x[i]), 0, 100)             \
  X(log2, log2f(x[i]), 0, 100)               \
  X(sqrt, sqrtf(x[i]), 0, 100)               \
  X(rsqrt, 1 / sqrtf(x[i]), 0, 100)          \
  X(cbrt, cbrtf(x[i]), -100, 100)            \
  X(sin, sinf(x[i]), -10, 10)                \
  X(cos, cosf(x[i]), -10, 10)                \
  X(tan, tanf(x[i]), -10, 10)                \
  X(asin, asinf(x[i]), -1, 1)                \
  X(acos, acosf(x[i]), -1, 1)                \
  X(atan, atanf(x[i]), -10, 10)              \
  X(sinh, sinhf(x[i]), -10, 10)              \
  X(cosh, coshf(x[i]), -10, 10)              \
  X(tanh, tanhf(x[i]), -10, 10)              \
  X(asinh, asinhf(x[i]), -10, 10)            \
  X(acosh, acoshf(x[i]), 1, 10)              \
  X(atanh, atanhf(x[i]), -1, 1)              \
  X(erf, erff(x[i]), -4, 4)                  \
  X(erfc, erfcf(x[i]), -4, 4)                \
  X(gamma, tgammaf(x[i]), 0, 10)             \
  X(lgamma, lgammaf(x[i]), 0, 10)            \
  X(floor, floorf(x[i]), -10, 10)            \
  X(rint, rintf(x[i]), -10, 10)              \
  X(sigmoid, 1 / (1 + expf(-x[i])), -20, 20) \
  X(softplus, log1pf(expf(x[i])), -20, 20)   \
  X(gelu, 0.5f * x[i] * (1 + erff(x[i] * 0.70710678f)), -10, 10)

#define DEFINE(name, libm, low, high)                                       \
  LOOP(run_##name, tn_math_##name##_f32(x[i]))                              \
  TN_KERNEL_LEVELS(run_##name)                                              \
  LOOP(libm_##name, libm)                                                   \
  static void libm_##name##_once(const tn_kernel_block *b, const void *p) { \
    libm_##name(b, p);                                                      \
  }
FUNCTIONS(DEFINE)
LOOP(copy, x[i] + 1)
TN_KERNEL_LEVELS(copy)

#if defined(__x86_64__)
#define ROWS(name) name##_base, name##_avx2, name##_avx512
#else
#define ROWS(name) name##_base, NULL, NULL
#endif
#define CONTEST(name, libm, low, high) \
  {#name, {ROWS(run_##name), libm_##name##_once}, low, high},
static const contest contests[] = {{"limit", {ROWS(copy), NULL}, 0, 1},
                                   FUNCTIONS(CONTEST)};

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

static void once(void *arg) {
  const job *j = arg;
  j->run(&j->block, NULL);
}

static void measure(const contest *c, float *x, float *y) {
  static const char *const names[] = {"base", "avx2", "avx512", "libm"};
  uint32_t state = 1;
  for (int i = 0; i < N; ++i) {
    state = state * 1664525u + 1013904223u;
    x[i] = c->low + (c->high - c->low) * ((float)(state >> 8) * 0x1p-24f);
  }
  for (int level = 0; level < 4; ++level) {
    if (!c->levels[level] || !has_level(level)) continue;
    job j = {c->levels[level], {.n = N, .out = y}};
    j.block.in[0] = x;
    const double ns = measure_each(once, &j, SECONDS);
    printf("math.%s.%s %.1f GB/s\n", c->name, names[level], 8.0 * N / ns);
    fflush(stdout);
  }
}

static int is_wanted(const char *name, int n, char **names) {
  for (int i = 0; i < n; ++i)
    if (strcmp(names[i], name) == 0) return 1;
  return n == 0;
}

int main(int argc, char **argv) {
  float *x = aligned_alloc(64, N * sizeof *x);
  float *y = aligned_alloc(64, N * sizeof *y);
  if (!x || !y) measure_fail("out of memory");
  for (size_t i = 0; i < sizeof contests / sizeof *contests; ++i)
    if (is_wanted(contests[i].name, argc - 1, argv + 1))
      measure(&contests[i], x, y);
  free(x);
  free(y);
  return 0;
}
