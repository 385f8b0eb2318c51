/* SPDX-License-Identifier: Apache-2.0
 * strided_walk.c: the loop over two tensors of equal shape and any strides, on
 * one thread or divided among the workers. It sorts and merges dimensions
 * first, so that rows are as long as possible.
 */
#include "strided_walk.h"

#include <stdlib.h>

enum {
  SHARED_BYTES = 1 << 20, /* less is not divided */
  SLICE_BYTES = 1 << 18   /* approximate size of one slice */
};

/* The common shape of two tensors with strides in bytes, without dimensions of
 * 1, from the largest steps of `to` to the smallest. Dimensions that can be
 * walked as one are merged. */
typedef struct walk_plan {
  char *to_data;
  const char *from_data;
  tn__row_fn *fn;
  const void *ctx;
  int32_t ndim;
  int64_t shape[TN_MAX_NDIM];
  int64_t to[TN_MAX_NDIM];
  int64_t from[TN_MAX_NDIM];
} walk_plan;

static void plan_set(walk_plan *p, int32_t i, int64_t n, int64_t to,
                     int64_t from) {
  p->shape[i] = n;
  p->to[i] = to;
  p->from[i] = from;
}

/* Inserts a dimension after those with larger steps. */
static void plan_insert(walk_plan *p, int64_t n, int64_t to, int64_t from) {
  int32_t i = p->ndim++;
  for (; i > 0 && llabs(p->to[i - 1]) < llabs(to); --i)
    plan_set(p, i, p->shape[i - 1], p->to[i - 1], p->from[i - 1]);
  plan_set(p, i, n, to, from);
}

static void plan_merge(walk_plan *p) {
  int32_t last = 0;
  for (int32_t i = 1; i < p->ndim; ++i) {
    int64_t n = p->shape[i], to = p->to[i], from = p->from[i];
    bool one = p->to[last] == to * n && p->from[last] == from * n;
    if (one)
      n *= p->shape[last];
    else
      ++last;
    plan_set(p, last, n, to, from);
  }
  p->ndim = last + 1;
}

static void plan_init(walk_plan *p, const tn_tensor *to,
                      const tn_tensor *from) {
  int64_t to_bytes = tn_dtype_bytes(to->dtype);
  int64_t from_bytes = tn_dtype_bytes(from->dtype);
  p->to_data = to->data;
  p->from_data = from->data;
  p->ndim = 0;
  for (int32_t i = 0; i < to->ndim; ++i)
    if (to->shape[i] != 1)
      plan_insert(p, to->shape[i], to->strides[i] * to_bytes,
                  from->strides[i] * from_bytes);
  /* One element is a row of one. */
  if (p->ndim == 0) plan_insert(p, 1, to_bytes, from_bytes);
  plan_merge(p);
}

/* Steps to the next row as an odometer does; false after the last one. */
static bool advance_row(const walk_plan *p, int64_t *index, char **to,
                        const char **from) {
  for (int32_t i = p->ndim - 2; i >= 0; --i) {
    *to += p->to[i];
    *from += p->from[i];
    if (++index[i] < p->shape[i]) return true;
    index[i] = 0;
    *to -= p->to[i] * p->shape[i];
    *from -= p->from[i] * p->shape[i];
  }
  return false;
}

static void plan_walk(const walk_plan *p) {
  int32_t last = p->ndim - 1;
  const tn__row row = {p->shape[last], p->to[last], p->from[last], p->ctx};
  int64_t index[TN_MAX_NDIM] = {0};
  char *to = p->to_data;
  const char *from = p->from_data;
  do p->fn(to, from, &row);
  while (advance_row(p, index, &to, &from));
}

void tn__walk_rows(const tn_tensor *to, const tn_tensor *from, tn__row_fn *fn,
                   const void *ctx) {
  if (tn_tensor_size(to) == 0) return;
  walk_plan p = {.fn = fn, .ctx = ctx};
  plan_init(&p, to, from);
  plan_walk(&p);
}

/* Walks a slice of the outermost dimension. */
static int32_t walk_slice(void *arg, int64_t begin, int64_t end) {
  walk_plan part = *(const walk_plan *)arg;
  part.to_data += begin * part.to[0];
  part.from_data += begin * part.from[0];
  part.shape[0] = end - begin;
  plan_walk(&part);
  return TN_OK;
}

void tn__walk_rows_shared(tn__engine *engine, const tn_tensor *to,
                          const tn_tensor *from, tn__row_fn *fn,
                          const void *ctx) {
  int64_t bytes = tn_tensor_size(to) * tn_dtype_bytes(to->dtype);
  if (!engine || bytes < SHARED_BYTES) {
    tn__walk_rows(to, from, fn, ctx);
    return;
  }
  walk_plan p = {.fn = fn, .ctx = ctx};
  plan_init(&p, to, from);
  int64_t grain = SLICE_BYTES / (bytes / p.shape[0] + 1) + 1;
  (void)tn__parallel_for(engine, p.shape[0], grain, walk_slice, &p);
}
