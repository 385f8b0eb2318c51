/* SPDX-License-Identifier: Apache-2.0
 * library.c: a library that knows nothing of Tenon, for the tests of bindings:
 * functions with arguments of every type, and functions that misbehave.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define SHOWN __attribute__((visibility("default")))

SHOWN void lib_add(int32_t n, const float *x, const float *y, float *out);
SHOWN void lib_add(int32_t n, const float *x, const float *y, float *out) {
  for (int32_t i = 0; i < n; ++i) out[i] = x[i] + y[i];
}

/* Every integer type and both floats; more than registers hold. */
SHOWN void lib_digits(int8_t a, uint8_t b, int16_t c, uint16_t d, int32_t e,
                      uint32_t f, int64_t g, uint64_t h, float i, double j,
                      const int64_t *list, const double *floats, double *out);
SHOWN void lib_digits(int8_t a, uint8_t b, int16_t c, uint16_t d, int32_t e,
                      uint32_t f, int64_t g, uint64_t h, float i, double j,
                      const int64_t *list, const double *floats, double *out) {
  const double all[] = {(double)a, (double)b, (double)c,       (double)d,
                        (double)e, (double)f, (double)g,       (double)h,
                        (double)i, j,         (double)list[1], floats[1]};
  for (int k = 0; k < 12; ++k) out[k] = all[k];
}

/* Lists of several widths, and text, each to be read to its end only. NULL
 * counts as -1. */
SHOWN void lib_lists(int32_t rank, const int64_t *shape, const int32_t *twice,
                     const uint8_t *axes, const char *word, const char *other,
                     const int64_t *absent, double *out);
SHOWN void lib_lists(int32_t rank, const int64_t *shape, const int32_t *twice,
                     const uint8_t *axes, const char *word, const char *other,
                     const int64_t *absent, double *out) {
  for (int k = 0; k < 3; ++k) {
    out[k] = k < rank ? (double)shape[k] : 0;
    out[3 + k] = k < rank ? twice[k] : 0;
  }
  out[6] = axes[0];
  out[7] = axes[1];
  out[8] = (double)strlen(word);
  out[9] = other != NULL ? other[0] : -1;
  out[10] = absent != NULL ? (double)absent[0] : -1;
}

/* Squares, if `n` fits the type that it came in. */
SHOWN void lib_square(int16_t n, const float *x, float *out);
SHOWN void lib_square(int16_t n, const float *x, float *out) {
  for (int16_t i = 0; i < n; ++i) out[i] = x[i] * x[i];
}

/* The largest element, or failure -7 if there is none. */
SHOWN int32_t lib_largest(int64_t n, const float *x, float *out);
SHOWN int32_t lib_largest(int64_t n, const float *x, float *out) {
  if (n == 0) return -7;
  *out = x[0];
  for (int64_t i = 1; i < n; ++i)
    if (x[i] > *out) *out = x[i];
  return 0;
}

SHOWN double lib_sum(int64_t rows, int64_t columns, const double *x);
SHOWN double lib_sum(int64_t rows, int64_t columns, const double *x) {
  double sum = 0;
  for (int64_t i = 0; i < rows * columns; ++i) sum += x[i];
  return sum;
}

SHOWN int8_t lib_count(int64_t n, const int32_t *x);
SHOWN int8_t lib_count(int64_t n, const int32_t *x) {
  int8_t negative = 0;
  for (int64_t i = 0; i < n; ++i) negative = (int8_t)(negative - (x[i] < 0));
  return negative;
}

/* Two outputs, both always written. */
SHOWN void lib_parts(int64_t n, const float *x, float *whole, float *rest);
SHOWN void lib_parts(int64_t n, const float *x, float *whole, float *rest) {
  for (int64_t i = 0; i < n; ++i) {
    whole[i] = (float)(int32_t)x[i];
    rest[i] = x[i] - whole[i];
  }
}

/* x plus an optional bias; counts its calls in a state. */
SHOWN void lib_biased(int64_t n, const float *x, const float *bias,
                      int32_t given, float *out, int64_t *calls);
SHOWN void lib_biased(int64_t n, const float *x, const float *bias,
                      int32_t given, float *out, int64_t *calls) {
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] + (given ? bias[i] : 0);
  ++*calls;
}

/* One element at a time: its multiple of `unit` below, and the rest. -3 for a
 * negative number. */
SHOWN int32_t lib_part(const double *unit, double x, int16_t sign,
                       int64_t *whole, double *rest);
SHOWN int32_t lib_part(const double *unit, double x, int16_t sign,
                       int64_t *whole, double *rest) {
  if (x < 0) return -3;
  *whole = sign * (int64_t)(x / *unit);
  *rest = x - *unit * (double)(int64_t)(x / *unit);
  return 0;
}

/* As Fortran takes its arguments: every number by its address. */
SHOWN void lib_scale_(const char *mode, const int32_t *n, const float *alpha,
                      const float *x, const int16_t *step, float *out);
SHOWN void lib_scale_(const char *mode, const int32_t *n, const float *alpha,
                      const float *x, const int16_t *step, float *out) {
  const float sign = strcmp(mode, "negative") == 0 ? -1 : 1;
  for (int32_t i = 0; i < *n; ++i) out[i] = sign * *alpha * x[i * *step];
}

/* ------------------------------------------------------------ several threads
 */

static atomic_int inside;

/* 1 if another call was inside meanwhile, else 0, in every element. */
SHOWN void lib_alone(int64_t n, const float *x, float *out);
SHOWN void lib_alone(int64_t n, const float *x, float *out) {
  int met = atomic_fetch_add(&inside, 1) > 0;
  for (int64_t i = 0; i < n; ++i) {
    out[i] = x[i];
    met |= atomic_load(&inside) > 1;
  }
  for (int64_t i = 0; i < n; ++i) out[i] = (float)met;
  atomic_fetch_sub(&inside, 1);
}

/* 1 if another call came inside before patience was lost, else 0. */
SHOWN void lib_together(int64_t n, const float *x, float *out);
SHOWN void lib_together(int64_t n, const float *x, float *out) {
  int64_t patience = n > 4 ? INT64_C(1) << 33 : 1;
  int met = atomic_fetch_add(&inside, 1) > 0;
  while (!met && patience-- > 0) met = atomic_load(&inside) > 1;
  for (int64_t i = 0; i < n; ++i) out[i] = (float)met + 0 * x[i];
  if (met) atomic_fetch_add(&inside, 1); /* so that the other sees it too */
  if (!met) atomic_fetch_sub(&inside, 1);
}

/* --------------------------------------------------------------- misbehaviour
 */

SHOWN void lib_crash(int32_t n, const float *x, float *out);
SHOWN void lib_crash(int32_t n, const float *x, float *out) {
  volatile float *nowhere = (volatile float *)(intptr_t)(n & 0);
  *nowhere = x[0] + out[0];
}

SHOWN void lib_abort(int32_t n, const float *x, float *out);
SHOWN void lib_abort(int32_t n, const float *x, float *out) {
  (void)n, (void)x, (void)out;
  abort();
}

SHOWN void lib_exit(int32_t n, const float *x, float *out);
SHOWN void lib_exit(int32_t n, const float *x, float *out) {
  (void)n, (void)x, (void)out;
  exit(0);
}

SHOWN void lib_hang(int32_t n, const float *x, float *out);
SHOWN void lib_hang(int32_t n, const float *x, float *out) {
  (void)n, (void)x, (void)out;
  for (volatile int for_ever = 1; for_ever;) (void)pause();
}

/* Prints, and closes everything: the verdict cannot arrive. */
SHOWN void lib_silence(int32_t n, const float *x, float *out);
SHOWN void lib_silence(int32_t n, const float *x, float *out) {
  (void)n, (void)x, (void)out;
  puts("this must not be seen");
  (void)fflush(stdout);
  for (int fd = 0; fd < 1024; ++fd) (void)close(fd);
}

/* Writes the text of a verdict to every descriptor. */
SHOWN void lib_forge(int32_t n, const float *x, float *out);
SHOWN void lib_forge(int32_t n, const float *x, float *out) {
  static const char text[] = "done\n";
  (void)n, (void)x, (void)out;
  for (int fd = 0; fd < 1024; ++fd)
    for (int i = 0; i < 20; ++i)
      if (write(fd, text, sizeof text - 1) < 0) break;
  _exit(0);
}

SHOWN void lib_stop(int32_t n, const float *x, float *out);
SHOWN void lib_stop(int32_t n, const float *x, float *out) {
  (void)n, (void)x, (void)out;
  (void)kill(0, SIGSTOP);
}

/* Copies, and leaves a process in a session of its own. */
SHOWN void lib_daemon(int32_t n, const float *x, float *out);
SHOWN void lib_daemon(int32_t n, const float *x, float *out) {
  if (fork() == 0) {
    (void)setsid();
    if (fork() != 0) _exit(0);
    (void)prctl(PR_SET_NAME, "lib-daemon");
    for (;;) (void)pause();
  }
  (void)wait(NULL);
  for (int32_t i = 0; i < n; ++i) out[i] = x[i];
}

/* ---------------------------------------------------- bound by a wrong type */

/* Copies, if the upper half of `n` has the expected value. */
SHOWN void lib_twice(int64_t n, const float *x, float *out);
SHOWN void lib_twice(int64_t n, const float *x, float *out) {
  for (int64_t i = 0; i < n; ++i) out[i] = 2 * x[i];
}

SHOWN void lib_copy(int64_t n, const float *x, float *out);
SHOWN void lib_copy(int64_t n, const float *x, float *out) {
  for (int64_t i = 0; i < n && n < 1000; ++i) out[i] = x[i];
}

/* Adds a number that is 0 if it is no double. */
SHOWN void lib_shift(int32_t n, double by, const float *x, float *out);
SHOWN void lib_shift(int32_t n, double by, const float *x, float *out) {
  for (int32_t i = 0; i < n; ++i) out[i] = x[i] + (float)by;
}

/* Copies every `step`-th element, if there is one: 0 is 1. */
SHOWN void lib_every(int32_t n, const float *x, float *out, int32_t step);
SHOWN void lib_every(int32_t n, const float *x, float *out, int32_t step) {
  if (step == 0) step = 1;
  for (int32_t i = 0; i < n; ++i) out[i] = x[(int64_t)i * step];
}

/* Leaves one element out that it takes for zero. */
SHOWN void lib_sparse(int32_t n, const float *x, float *out);
SHOWN void lib_sparse(int32_t n, const float *x, float *out) {
  for (int32_t i = 0; i < n; ++i)
    if (x[i] != 0) out[i] = x[i];
}

/* Writes after its output, and before it. */
SHOWN void lib_behind(int32_t n, const float *x, float *out);
SHOWN void lib_behind(int32_t n, const float *x, float *out) {
  for (int32_t i = 0; i < n; ++i) out[i] = x[i];
  out[n] = 0;
}

SHOWN void lib_before(int32_t n, const float *x, float *out);
SHOWN void lib_before(int32_t n, const float *x, float *out) {
  for (int32_t i = 0; i < n; ++i) out[i] = x[i];
  out[-1] = 0;
}

/* Reads an element more, which changes nothing. */
SHOWN void lib_peek(int32_t n, const float *x, float *out);
SHOWN void lib_peek(int32_t n, const float *x, float *out) {
  volatile float last = x[n];
  for (int32_t i = 0; i < n; ++i) out[i] = x[i];
  (void)last;
}

/* Writes to its input, with the same value. */
SHOWN void lib_touch(int32_t n, float *x, float *out);
SHOWN void lib_touch(int32_t n, float *x, float *out) {
  volatile float *first = x;
  *first = x[0];
  for (int32_t i = 0; i < n; ++i) out[i] = x[i];
}
