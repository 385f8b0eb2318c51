/* SPDX-License-Identifier: Apache-2.0
 * math64.c: nanoseconds per number of loops over 16 K doubles that call
 * functions of math.h, at each level of instructions that this processor has,
 * of the same loop over libm's function and, where glibc has one, over that of
 * its vector library. Prints "math64.NAME.LEVEL ns" lines.
 *
 *   math64 [NAME...]     all without a name
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"
#include "tenon/kernel/kernel.h"

enum { N = 16 << 10, LOOPS = 7 };
static const double SECONDS = 0.05; /* for each figure */

typedef void loop(const tn_kernel_block *block, const void *params);

/* At each level, then libm's, then glibc's vectors at each level. */
static const char *const names[LOOPS] = {
    "base", "avx2", "avx512", "libm", "mvec-base", "mvec-avx2", "mvec-avx512"};

typedef struct contest {
  const char *name;
  loop *loops[LOOPS];
  double low; /* the range of the arguments */
  double high;
} contest;

#define LOOP(name, call)                                                  \
  TN_KERNEL_BODY void name(const tn_kernel_block *block, const void *p) { \
    const double *x = (const double *)block->in[0];                       \
    const double *z = (const double *)block->in[1];                       \
    double *y = (double *)block->out;                                     \
    (void)p;                                                              \
    (void)z;                                                              \
    TN_KERNEL_INDEPENDENT                                                 \
    for (int64_t i = 0; i < block->n; ++i) y[i] = call;                   \
  }

/* ----------------------------------------------------------- glibc's vectors
 */

#if defined(TN_BENCH_MVEC)
typedef double v2 __attribute__((vector_size(16), aligned(8)));
typedef double v4 __attribute__((vector_size(32), aligned(8)));
typedef double v8 __attribute__((vector_size(64), aligned(8)));

#define VECTOR(name, symbol, v, target, params, args)                    \
  target v symbol params;                                                \
  target static void name(const tn_kernel_block *block, const void *p) { \
    (void)p;                                                             \
    const int64_t step = (int64_t)(sizeof(v) / sizeof(double));          \
    for (int64_t i = 0; i < block->n; i += step) {                       \
      const v *a = (const v *)((const double *)block->in[0] + i);        \
      const v *b = (const v *)((const double *)block->in[1] + i);        \
      (void)b;                                                           \
      *(v *)((double *)block->out + i) = symbol args;                    \
    }                                                                    \
  }
#define VECTORS(name, kind, params, args)                                    \
  VECTOR(mvec_##name##_base, _ZGVbN2##kind##_##name, v2, , params(v2), args) \
  VECTOR(mvec_##name##_avx2, _ZGVdN4##kind##_##name, v4, TN_KERNEL_AVX2,     \
         params(v4), args)                                                   \
  VECTOR(mvec_##name##_avx512, _ZGVeN8##kind##_##name, v8, TN_KERNEL_AVX512, \
         params(v8), args)
#define ONE(v) (v)
#define TWO(v) (v, v)
#define MVEC1(name) VECTORS(name, v, ONE, (*a))
#define MVEC2(name) VECTORS(name, vv, TWO, (*a, *b))
#define HAS_MVEC1(name) \
  mvec_##name##_base, mvec_##name##_avx2, mvec_##name##_avx512
#define HAS_MVEC2(name) HAS_MVEC1(name)
#else
#define MVEC1(name)
#define MVEC2(name)
#define HAS_MVEC1(name) NULL, NULL, NULL
#define HAS_MVEC2(name) NULL, NULL, NULL
#endif
#define NONE(name)
#define HAS_NONE(name) NULL, NULL, NULL

/* -------------------------------------------------------------- the functions
 */

/* The function and its arguments, its counterpart in libm, a range, and whether
 * glibc has it for vectors. */
#define FUNCTIONS(X)                                                         \
  X(exp, (x[i]), exp(x[i]), -20, 20, MVEC1)                                  \
  X(log, (x[i]), log(x[i]), 0, 100, MVEC1)                                   \
  X(log10, (x[i]), log10(x[i]), 0, 100, MVEC1)                               \
  X(pow, (x[i], z[i]), pow(x[i], z[i]), 0, 10, MVEC2)                        \
  X(hypot, (x[i], z[i]), hypot(x[i], z[i]), 0, 10, MVEC2)                    \
  X(mod, (x[i], z[i]), fmod(x[i], z[i]), 0, 10, NONE)                        \
  X(sin, (x[i]), sin(x[i]), -10, 10, MVEC1)                                  \
  X(cos, (x[i]), cos(x[i]), -10, 10, MVEC1)                                  \
  X(tan, (x[i]), tan(x[i]), -10, 10, MVEC1)                                  \
  X(asin, (x[i]), asin(x[i]), -1, 1, MVEC1)                                  \
  X(acos, (x[i]), acos(x[i]), -1, 1, MVEC1)                                  \
  X(atan, (x[i]), atan(x[i]), -10, 10, MVEC1)                                \
  X(asinh, (x[i]), asinh(x[i]), -10, 10, MVEC1)                              \
  X(acosh, (x[i]), acosh(x[i]), 1, 10, MVEC1)                                \
  X(atanh, (x[i]), atanh(x[i]), -1, 1, MVEC1)                                \
  X(erf, (x[i]), erf(x[i]), -4, 4, MVEC1)                                    \
  X(erfc, (x[i]), erfc(x[i]), -4, 4, MVEC1)                                  \
  X(gelu, (x[i]), 0.5 * x[i] * (1 + erf(x[i] * 0.70710678118654752)), -6, 6, \
    NONE)

#define DEFINE(name, args, libm, low, high, mvec)                           \
  LOOP(run_##name, tn_math_##name##_f64 args)                               \
  TN_KERNEL_LEVELS(run_##name)                                              \
  LOOP(libm_##name, libm)                                                   \
  static void libm_##name##_once(const tn_kernel_block *b, const void *p) { \
    libm_##name(b, p);                                                      \
  }                                                                         \
  mvec(name)
FUNCTIONS(DEFINE)

#if defined(__x86_64__)
#define ROWS(name) name##_base, name##_avx2, name##_avx512
#else
#define ROWS(name) name##_base, NULL, NULL
#endif
#define CONTEST(name, args, libm, low, high, mvec) \
  {#name, {ROWS(run_##name), libm_##name##_once, HAS_##mvec(name)}, low, high},
static const contest contests[] = {FUNCTIONS(CONTEST)};

/* -------------------------------------------------------------------- running
 */

/* Whether this processor runs one of the loops. */
static int has_loop(int at) {
#if defined(__x86_64__)
  if (at == 1 || at == 5)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (at == 2 || at == 6)
    return __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
#endif
  return 1;
}

typedef struct job {
  loop *run;
  tn_kernel_block block;
} job;

static void run_once(void *arg) {
  const job *j = arg;
  j->run(&j->block, NULL);
}

static void measure_function(const contest *c, double *x, double *y) {
  uint64_t state = 1;
  for (int i = 0; i < 2 * N; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    x[i] = c->low + (c->high - c->low) * ((double)(state >> 11) * 0x1p-53);
  }
  for (int k = 0; k < LOOPS; ++k) {
    if (!c->loops[k] || !has_loop(k)) continue;
    job j = {c->loops[k], {.n = N, .out = y}};
    j.block.in[0] = x;
    j.block.in[1] = x + N;
    const double ns = measure_each(run_once, &j, SECONDS);
    printf("math64.%s.%s %.2f ns\n", c->name, names[k], ns / N);
    fflush(stdout);
  }
}

static int is_wanted(const char *name, int n, char **wanted) {
  for (int i = 0; i < n; ++i)
    if (strcmp(wanted[i], name) == 0) return 1;
  return n == 0;
}

int main(int argc, char **argv) {
  double *x = aligned_alloc(64, 2 * N * sizeof *x);
  double *y = aligned_alloc(64, N * sizeof *y);
  if (!x || !y) measure_fail("out of memory");
  for (size_t i = 0; i < sizeof contests / sizeof *contests; ++i)
    if (is_wanted(contests[i].name, argc - 1, argv + 1))
      measure_function(&contests[i], x, y);
  free(x);
  free(y);
  return 0;
}
