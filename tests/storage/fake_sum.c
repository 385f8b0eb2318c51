/* SPDX-License-Identifier: Apache-2.0
 * fake_sum.c: the sums of the fake device. It computes floats in double
 * precision, and integers modulo 2^64.
 */
#include <stdlib.h>
#include <string.h>

#include "tenon/kernel/kernel.h"

/* After kernel.h, where these short type names would be shadowed. */
#include "fake_parts.h"

/* The arguments of a sum for the thread of the device. */
typedef struct summing {
  tn_device_sum sum;
  tn_sum_axis axes[TN_MAX_NDIM];
  char *to;
  const char *from;
} summing;

static int64_t get_bytes(tn_dtype dtype) {
  return (int64_t)((dtype >> 8 & 0xff) + 7) / 8;
}

/* Returns the dtype of `from`. */
static tn_dtype get_term_dtype(const tn_device_sum *sum) {
  return sum->flags & TN_SUM_WIDE ? TN_F32 : sum->dtype;
}

/* Returns the range of the elements that the axes reach from the first. */
static range find_extent(const tn_device_sum *sum, const void *first, bool to) {
  const int64_t bytes = get_bytes(to ? sum->dtype : get_term_dtype(sum));
  int64_t low = 0, high = bytes;
  for (uint32_t i = 0; i < sum->n_kept + sum->n_summed; ++i) {
    const tn_sum_axis *axis = &sum->axes[i];
    const int64_t step = (to ? axis->to : axis->from) * bytes * (axis->n - 1);
    *(step < 0 ? &low : &high) += step;
  }
  return (range){first ? (const char *)first + low : NULL,
                 (uint64_t)(high - low)};
}

static double load_number(tn_dtype dtype, const char *at) {
  uint64_t bits = 0;
  float f32;
  double f64;
  memcpy(&bits, at, (size_t)get_bytes(dtype));
  memcpy(&f32, &bits, sizeof f32);
  memcpy(&f64, &bits, sizeof f64);
  if (dtype == TN_F64) return f64;
  if (dtype == TN_F32) return (double)f32;
  if (dtype == TN_F16) return (double)tn_kernel_f16_to_f32((uint16_t)bits);
  return (double)tn_kernel_bf16_to_f32((uint16_t)bits);
}

static void store_number(tn_dtype dtype, char *at, double value) {
  const float f32 = (float)value;
  const uint16_t half =
      dtype == TN_F16 ? tn_kernel_f32_to_f16(f32) : tn_kernel_f32_to_bf16(f32);
  if (dtype == TN_F64)
    memcpy(at, &value, sizeof value);
  else if (dtype == TN_F32)
    memcpy(at, &f32, sizeof f32);
  else
    memcpy(at, &half, sizeof half);
}

static bool is_float(tn_dtype t) {
  return t == TN_F16 || t == TN_BF16 || t == TN_F32 || t == TN_F64;
}

/* A partial sum: of integers modulo 2^64, of bools the number of true ones. */
typedef struct amount {
  double number;
  uint64_t whole;
} amount;

static void add_element(amount *a, tn_dtype dtype, const char *at) {
  uint64_t bits = 0;
  if (is_float(dtype)) {
    a->number += load_number(dtype, at);
    return;
  }
  memcpy(&bits, at, (size_t)get_bytes(dtype));
  a->whole += dtype == TN_BOOL ? bits != 0 : bits;
}

static void put_result(const amount *a, tn_dtype dtype, char *at) {
  const uint64_t bits = dtype == TN_BOOL ? a->whole != 0 : a->whole;
  if (is_float(dtype))
    store_number(dtype, at, a->number);
  else
    memcpy(at, &bits, (size_t)get_bytes(dtype));
}

/* Adds the offsets in elements of a position of some axes. */
static void find_offsets(const tn_sum_axis *axes, uint32_t n, int64_t position,
                         int64_t *to, int64_t *from) {
  for (uint32_t i = n; i-- > 0; position /= axes[i].n) {
    *to += position % axes[i].n * axes[i].to;
    *from += position % axes[i].n * axes[i].from;
  }
}

static int64_t count_positions(const tn_sum_axis *axes, uint32_t n) {
  int64_t size = 1;
  for (uint32_t i = 0; i < n; ++i) size *= axes[i].n;
  return size;
}

/* Returns the number of terms of each result, the present value included. */
static int64_t count_terms(const tn_device_sum *sum) {
  return count_positions(sum->axes + sum->n_kept, sum->n_summed) +
         (sum->flags & TN_SUM_ADD);
}

/* Aborts if the host requests a sum that the table does not offer. */
static void check_offered(const fake *f, const tn_device_sum *sum) {
  if (f->options.only_floats && !is_float(sum->dtype) &&
      (count_terms(sum) > 1 || !sum->from))
    abort(); /* the caller did not check sum_dtypes */
  if ((sum->flags & TN_SUM_WIDE) &&
      (f->options.no_wide_sums ||
       (sum->dtype != TN_F16 && sum->dtype != TN_BF16)))
    abort(); /* the caller did not check sum_flags, or sums no halves */
}

static void run_sum(fake *f, const void *arg) {
  const summing *s = arg;
  const tn_device_sum *sum = &s->sum;
  const int64_t bytes = get_bytes(sum->dtype);
  const tn_dtype terms = get_term_dtype(sum);
  const int64_t n_kept = count_positions(s->axes, sum->n_kept),
                n_summed =
                    count_positions(s->axes + sum->n_kept, sum->n_summed);
  const bool adds = (sum->flags & TN_SUM_ADD) != 0;
  (void)f;
  for (int64_t i = 0; i < n_kept; ++i) {
    int64_t to = 0, first = 0;
    find_offsets(s->axes, sum->n_kept, i, &to, &first);
    if (s->from && sum->flags == 0 && sum->n_summed == 0) {
      memcpy(s->to + to * bytes, s->from + first * bytes, (size_t)bytes);
      continue;
    }
    amount total = {0};
    if (adds) add_element(&total, sum->dtype, s->to + to * bytes);
    for (int64_t k = 0; k < n_summed; ++k) {
      int64_t from = first, unused = 0;
      find_offsets(s->axes + sum->n_kept, sum->n_summed, k, &unused, &from);
      if (s->from) {
        add_element(&total, terms, s->from + from * get_bytes(terms));
        continue;
      }
      total.number += sum->value;
      total.whole += (uint64_t)(int64_t)sum->value;
    }
    put_result(&total, sum->dtype, s->to + to * bytes);
  }
}

int32_t fake_sum(void *ctx, void *handle, const tn_device_sum *sum,
                 tn_device_error *error) {
  fake *f = ctx;
  queue *q = handle;
  const uint32_t n = sum->n_kept + sum->n_summed;
  const int32_t rc = fake_enter_queue(q, "a sum", error);
  if (rc) return rc;
  command *c = fake_create_command(COMMAND_LAUNCH);
  summing s = {.sum = *sum};
  if (n > TN_MAX_NDIM || sizeof s > MAX_ARG) abort();
  check_offered(f, sum);
  memcpy(s.axes, sum->axes, n * sizeof *sum->axes);
  const range to = find_extent(sum, sum->to, true);
  const range from = find_extent(sum, sum->from, false);
  if (sum->from)
    s.from = fake_use_memory(f, q, from, false) +
             ((const char *)sum->from - (const char *)from.address);
  s.to = fake_use_memory(f, q, to, true) +
         ((const char *)sum->to - (const char *)to.address);
  c->run = run_sum;
  memcpy(c->arg, &s, sizeof s);
  fake_enqueue(f, q, c);
  return fake_leave_queue(q);
}
