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
#include "tenon/kernel/transpose.h"

enum {
  FOURIER_LANES = 16,  /* columns or lines that are transformed together */
  LEAST_SIZE = 256,    /* of a line that is transformed alone */
  MOST_SIZE = 1 << 22, /* the same, since its table is that long */
  PART_ARRAYS = 4
};

static void exchange_arrays(tensor_fourier_lines *l) {
  void *real = l->real, *imaginary = l->imaginary;
  l->real = l->other_real;
  l->imaginary = l->other_imaginary;
  l->other_real = real;
  l->other_imaginary = imaginary;
}

/* Rows of a block of a line as a matrix. */
typedef struct block_copy {
  int64_t n;
  int64_t first, step; /* the first element of a line, and between rows */
  int64_t width;
} block_copy;

/* How the first pass of a block reads, and the last one writes; NULL: from and
 * to the arrays. */
typedef struct block_ends {
  const void *from_pairs;
  int64_t step;                        /* elements between rows of pairs */
  double sign;                         /* of imaginary parts that are read */
  const void *turn_cosine, *turn_sine; /* factors of the results */
  void *to_real, *to_imaginary;        /* which are written there */
  void *to_pairs;
  double factor[2];
} block_ends;

enum { ANY_PASS, FROM_PAIRS, LAST_PASS, TIMES_TABLE, TO_PAIRS };

/* The form of pass i. */
static int find_form(const tensor_fourier *plan, const block_ends *ends,
                     int32_t i) {
  if (i == 0 && ends->from_pairs != NULL) return FROM_PAIRS;
  if (i < plan->n_factors - 1) return ANY_PASS;
  if (ends->turn_cosine != NULL) return TIMES_TABLE;
  return ends->to_pairs != NULL ? TO_PAIRS : LAST_PASS;
}

/* Whether the first and the last pass are separate, and have all forms. */
static int has_fused_ends(const tensor_fourier *plan) {
  enum { MOST = 8 };
  return plan->n_factors > 1 && plan->factor[0] <= MOST &&
         plan->factor[plan->n_factors - 1] <= MOST;
}

/* Bytes of one of the arrays of a block of columns or rows. */
static int64_t count_part_bytes(const tensor_fourier *plan) {
  const int64_t a = plan->columns->size, b = plan->rows->size;
  return (a > b ? a : b) * FOURIER_LANES * tn_dtype_bytes(plan->dtype);
}

/* The arrays of a block, in the room. */
static tensor_fourier_lines find_part(const tensor_fourier *plan,
                                      const tensor_fourier_lines *l) {
  const int64_t bytes = count_part_bytes(plan);
  char *at = (char *)l->room;
  return (tensor_fourier_lines){.real = at,
                                .imaginary = at + bytes,
                                .other_real = at + 2 * bytes,
                                .other_imaginary = at + 3 * bytes,
                                .lanes = FOURIER_LANES,
                                .level = l->level};
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

int64_t tensor_fourier_lanes(const tensor_fourier *plan) {
  return plan->columns != NULL ? 1 : FOURIER_LANES;
}

int64_t tensor_fourier_elements(const tensor_fourier *plan) {
  if (plan->columns == NULL) return plan->size;
  const int64_t n = plan->rows->size + FOURIER_LANES - 1;
  return plan->columns->size * (n / FOURIER_LANES * FOURIER_LANES);
}

int tensor_fourier_takes_pairs(const tensor_fourier *plan) {
  return plan->columns != NULL && !plan->is_chirp;
}

int64_t tensor_fourier_room(const tensor_fourier *plan) {
  return plan->columns == NULL ? 0 : PART_ARRAYS * count_part_bytes(plan);
}

/* ------------------------------------------------------------------- plans */

/* Divides n by all factors that have a pass; returns the rest. A last factor of
 * 16 is 4 * 4 instead of 8 * 2. */
static int64_t find_factors(tensor_fourier *plan, int64_t n) {
  static const int32_t factors[] = {8,  4,  2,  3,  5,  7, 11,
                                    13, 17, 19, 23, 29, 31};
  for (size_t i = 0; i < sizeof factors / sizeof *factors; ++i)
    for (; n % factors[i] == 0 &&
           !(factors[i] == 8 && n % 16 == 0 && n % 32 != 0);
         n /= factors[i])
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

/* The factor of size, at most its root, that is nearest to it; 1 if there is
 * none of FOURIER_LANES or more. */
static int64_t find_columns(const tensor_fourier *plan) {
  if (plan->size < LEAST_SIZE || plan->size > MOST_SIZE) return 1;
  for (int64_t n = (int64_t)sqrt((double)plan->size); n >= FOURIER_LANES; --n)
    if (plan->size % n == 0) return n;
  return 1;
}

/* One block of memory for all tables. */
static int allocate_tables(tensor_fourier *plan) {
  const int64_t width = tn_dtype_bytes(plan->dtype);
  const int64_t turns =
      plan->columns == NULL ? 0 : tensor_fourier_elements(plan);
  const int64_t n = plan->size * (plan->is_chirp ? 4 : 2) + 2 * turns +
                    plan->length * (plan->is_chirp ? 2 : 0);
  char *at = malloc((size_t)(n * width));
  plan->cosine = at;
  if (at == NULL) return 0;
  plan->sine = at += plan->size * width;
  at += plan->size * width;
  if (turns > 0) {
    memset(at, 0, (size_t)(2 * turns * width));
    plan->turn_cosine = at;
    plan->turn_sine = at += turns * width;
    at += turns * width;
  }
  if (!plan->is_chirp) return 1;
  plan->kernel_real = at;
  plan->kernel_imaginary = at += plan->size * width;
  plan->chirp_cosine = at += plan->size * width;
  plan->chirp_sine = at += plan->length * width;
  return 1;
}

static tensor_fourier *create_part(int64_t size, tn_dtype dtype) {
  tensor_fourier *plan = calloc(1, sizeof *plan);
  if (plan == NULL) return NULL;
  plan->length = plan->size = size;
  plan->dtype = dtype;
  (void)find_factors(plan, size);
  /* Odd factors first, since the first pass has the most inputs in memory. */
  for (int32_t i = 0; i < plan->n_factors / 2; ++i) {
    const int32_t f = plan->factor[i];
    plan->factor[i] = plan->factor[plan->n_factors - 1 - i];
    plan->factor[plan->n_factors - 1 - i] = f;
  }
  if (!allocate_tables(plan)) {
    free(plan);
    return NULL;
  }
  (dtype == TN_F32 ? fill_tables_f32 : fill_tables_f64)(plan);
  return plan;
}

/* Allocates and fills the tables; 0 if there is no memory. */
static int fill_plan(tensor_fourier *plan) {
  const int64_t columns = find_columns(plan);
  const int single = plan->dtype == TN_F32;
  if (columns > 1) {
    plan->columns = create_part(columns, plan->dtype);
    plan->rows = create_part(plan->size / columns, plan->dtype);
    if (plan->columns == NULL || plan->rows == NULL) return 0;
  }
  if (!allocate_tables(plan)) return 0;
  (single ? fill_tables_f32 : fill_tables_f64)(plan);
  if (columns > 1) (single ? fill_turns_f32 : fill_turns_f64)(plan);
  return 1;
}

static int fill_chirp(tensor_fourier *plan) {
  const size_t bytes =
      (size_t)(tensor_fourier_elements(plan) * tn_dtype_bytes(plan->dtype));
  char *room = malloc(4 * bytes + (size_t)tensor_fourier_room(plan));
  if (room == NULL) return 0;
  tensor_fourier_lines lines = {.real = room,
                                .imaginary = room + bytes,
                                .other_real = room + 2 * bytes,
                                .other_imaginary = room + 3 * bytes,
                                .lanes = 1,
                                .room = room + 4 * bytes};
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
  int done =
      plan->size >= 0 && tn_size_times(plan->size, 64) >= 0 && fill_plan(plan);
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
  tensor_fourier_destroy(plan->columns);
  tensor_fourier_destroy(plan->rows);
  free(plan->cosine);
  free(plan);
}
