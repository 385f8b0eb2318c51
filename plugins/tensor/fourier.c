/* SPDX-License-Identifier: Apache-2.0
 * fourier.c: fourier.h. A length is divided into factors up to 31, and a pass
 * handles each; other lengths are convolutions of twice the length and more.
 */
#include "fourier.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tenon/kernel/checked_size.h"
#include "tenon/kernel/kernel.h"

static void exchange_arrays(tensor_fourier_lines *l) {
  void *real = l->real, *imaginary = l->imaginary;
  l->real = l->other_real;
  l->imaginary = l->other_imaginary;
  l->other_real = real;
  l->other_imaginary = imaginary;
}

#define FOURIER_T float
#define FOURIER_NAME(x) x##_f32
#define FOURIER_TARGET
#define FOURIER_FILLS
#include "fourier_loops.h"

#define FOURIER_T double
#define FOURIER_NAME(x) x##_f64
#define FOURIER_TARGET
#define FOURIER_FILLS
#include "fourier_loops.h"

#if defined(TN_KERNEL_AVX2)
#define FOURIER_T float
#define FOURIER_NAME(x) x##_f32_avx2
#define FOURIER_TARGET TN_KERNEL_AVX2
#include "fourier_loops.h"

#define FOURIER_T double
#define FOURIER_NAME(x) x##_f64_avx2
#define FOURIER_TARGET TN_KERNEL_AVX2
#include "fourier_loops.h"

#define FOURIER_T float
#define FOURIER_NAME(x) x##_f32_avx512
#define FOURIER_TARGET TN_KERNEL_AVX512
#include "fourier_loops.h"

#define FOURIER_T double
#define FOURIER_NAME(x) x##_f64_avx512
#define FOURIER_TARGET TN_KERNEL_AVX512
#include "fourier_loops.h"
#define LEVELS(name) name, name##_avx2, name##_avx512
#else
#define LEVELS(name) name
#endif

typedef void run_fn(const tensor_fourier *plan, tensor_fourier_lines *lines);

void tensor_fourier_run(const tensor_fourier *plan,
                        tensor_fourier_lines *lines) {
  static run_fn *const passes[] = {LEVELS(run_passes_f32)},
                       *const wide_passes[] = {LEVELS(run_passes_f64)},
                       *const chirps[] = {LEVELS(run_chirp_f32)},
                       *const wide_chirps[] = {LEVELS(run_chirp_f64)};
  const int single = plan->dtype == TN_F32;
  run_fn *const *run = plan->is_chirp ? single ? chirps : wide_chirps
                       : single       ? passes
                                      : wide_passes;
  run[lines->level](plan, lines);
}

/* Divides n by all factors that have a pass; returns the rest. */
static int64_t find_factors(tensor_fourier *plan, int64_t n) {
  static const int32_t factors[] = {4, 2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31};
  for (size_t i = 0; i < sizeof factors / sizeof *factors; ++i)
    for (; n % factors[i] == 0; n /= factors[i])
      plan->factor[plan->n_factors++] = factors[i];
  return n;
}

/* Finds the size of the lines; -1 if it is too large. */
static int64_t find_size(tensor_fourier *plan) {
  int64_t size = 1;
  if (find_factors(plan, plan->length) == 1) return plan->length;
  if (plan->length > INT64_MAX / 8) return -1;
  while (size < 2 * plan->length - 1) size *= 2;
  plan->is_chirp = 1;
  plan->n_factors = 0;
  (void)find_factors(plan, size);
  return size;
}

/* One block of memory for all tables. */
static int allocate_tables(tensor_fourier *plan) {
  const int64_t width = tn_dtype_bytes(plan->dtype);
  const int64_t n = plan->size * (plan->is_chirp ? 4 : 2) +
                    plan->length * (plan->is_chirp ? 2 : 0);
  char *at = malloc((size_t)(n * width));
  plan->cosine = at;
  if (at == NULL) return 0;
  plan->sine = at += plan->size * width;
  if (!plan->is_chirp) return 1;
  plan->kernel_real = at += plan->size * width;
  plan->kernel_imaginary = at += plan->size * width;
  plan->chirp_cosine = at += plan->size * width;
  plan->chirp_sine = at += plan->length * width;
  return 1;
}

static int fill_chirp(tensor_fourier *plan) {
  const size_t bytes = (size_t)(plan->size * tn_dtype_bytes(plan->dtype));
  char *room = malloc(4 * bytes);
  if (room == NULL) return 0;
  tensor_fourier_lines lines = {
      room, room + bytes, room + 2 * bytes, room + 3 * bytes, 1, 0};
  if (plan->dtype == TN_F32)
    fill_chirp_f32(plan, &lines);
  else
    fill_chirp_f64(plan, &lines);
  free(room);
  return 1;
}

/* Longer lines would need tables of gigabytes. */
#define MOST_LENGTH ((int64_t)1 << 26)

int32_t tensor_fourier_create(const tn_frame *call, int64_t length,
                              tn_dtype dtype, tensor_fourier **out) {
  *out = NULL;
  if (length > MOST_LENGTH)
    return TN_FAIL(call, TN_UNSUPPORTED,
                   "a line of %lld elements is too long; the CPU transforms at "
                   "most %lld",
                   (long long)length, (long long)MOST_LENGTH);
  tensor_fourier *plan = calloc(1, sizeof *plan);
  if (plan == NULL) return TN_FAIL(call, TN_OUT_OF_MEMORY, "no memory");
  plan->length = length;
  plan->dtype = dtype;
  plan->size = find_size(plan);
  int done = plan->size >= 0 && tn_size_times(plan->size, 64) >= 0 &&
             allocate_tables(plan);
  if (done) (dtype == TN_F32 ? fill_tables_f32 : fill_tables_f64)(plan);
  if (done && plan->is_chirp) done = fill_chirp(plan);
  if (!done) {
    tensor_fourier_destroy(plan);
    return TN_FAIL(call, TN_OUT_OF_MEMORY,
                   "there is no memory for the tables of a transform of length "
                   "%lld",
                   (long long)length);
  }
  *out = plan;
  return TN_OK;
}

void tensor_fourier_destroy(tensor_fourier *plan) {
  if (plan == NULL) return;
  free(plan->cosine);
  free(plan);
}
