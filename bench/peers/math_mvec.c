/* SPDX-License-Identifier: Apache-2.0
 * The loops of math.c over libm's functions, compiled with -ffast-math for
 * AVX-512 so that gcc calls those of glibc's libmvec, which are within 4 ulp.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../measure.h"
#include "../question.h"

typedef void loop(const float *restrict x, float *restrict y);

#define FUNCTIONS(X) \
  X(exp)             \
  X(expm1)           \
  X(log)             \
  X(log1p)           \
  X(log2)            \
  X(log10)           \
  X(cbrt)            \
  X(sin)             \
  X(cos)             \
  X(tan)             \
  X(asin)            \
  X(acos)            \
  X(atan)            \
  X(sinh)            \
  X(cosh)            \
  X(tanh)            \
  X(asinh)           \
  X(acosh)           \
  X(atanh)           \
  X(erf)             \
  X(erfc)

#define DEFINE(name)                                                   \
  static void run_##name(const float *restrict x, float *restrict y) { \
    for (int i = 0; i < MATH_N; ++i) y[i] = name##f(x[i]);             \
  }
FUNCTIONS(DEFINE)

typedef struct contest {
  const char *name;
  loop *run;
} contest;

#define CONTEST(name) {#name, run_##name},
static const contest contests[] = {FUNCTIONS(CONTEST)};

typedef struct job {
  loop *run;
  const float *x;
  float *y;
} job;

static void run_once(void *arg) {
  const job *j = arg;
  j->run(j->x, j->y);
}

int main(void) {
  char name[32];
  float low, high;
  float *x = aligned_alloc(64, MATH_N * sizeof *x);
  float *y = aligned_alloc(64, MATH_N * sizeof *y);
  if (!x || !y) measure_fail("out of memory");
  if (!__builtin_cpu_supports("avx512dq")) measure_fail("no AVX-512 here");
  while (scanf("%31s %f %f", name, &low, &high) == 3) {
    math_fill(x, low, high);
    fputs(name, stdout);
    for (size_t i = 0; i < sizeof contests / sizeof *contests; ++i) {
      job j = {contests[i].run, x, y};
      if (strcmp(name, contests[i].name) == 0)
        printf(" libmvec=%.1f", measure_single(run_once, &j, MATH_SECONDS));
    }
    putchar('\n');
    fflush(stdout);
  }
  free(x);
  free(y);
  return 0;
}
