/* SPDX-License-Identifier: Apache-2.0
 * strided_sum.c: sums a gradient that was computed at a broadcast shape over
 * the broadcast dimensions. Sums are kept in f64 and rounded once. The terms of
 * a sum and their order depend on the shapes alone, so results do not depend on
 * the number of workers.
 */
#include <stdlib.h>

#include "strided_walk.h"

enum {
  COLUMNS = TN__DOUBLES, /* sums that are kept at a time */
  LANES = 8,             /* partial sums of a row, so that it vectorises */
  SLICE = 1 << 16,       /* least elements of a slice */
  SHARED_FROM = 1 << 18  /* least elements that other threads share */
};

/* The plan of a sum, with steps in bytes. Both kinds have at least one axis, of
 * length 1 if there is no other. */
typedef struct sum_plan {
  tn__axes kept;
  tn__axes cut;
  tn_dtype dtype;    /* of the terms */
  tn_dtype to_dtype; /* of the sums */
  bool add;
  bool by_row;     /* the axis with the smallest steps is summed */
  int64_t n_units; /* pieces of work: a sum, or COLUMNS of them */
  int64_t n_terms; /* of one sum */
  char *to;
  const char *from;
} sum_plan;

/* ----------------------------------------------------------------- planning */

/* Inserts an axis after those with larger steps. */
static void insert_axis(tn__axes *axes, tn_sum_axis new) {
  int32_t i = axes->n++;
  for (; i > 0 && llabs(axes->v[i - 1].from) < llabs(new.from); --i)
    axes->v[i] = axes->v[i - 1];
  axes->v[i] = new;
}

/* Merges axes that can be walked as one. */
static void merge_axes(tn__axes *axes) {
  int32_t last = 0;
  if (axes->n == 0) return;
  for (int32_t i = 1; i < axes->n; ++i) {
    tn_sum_axis *outer = &axes->v[last], inner = axes->v[i];
    if (outer->from == inner.from * inner.n && outer->to == inner.to * inner.n)
      *outer = (tn_sum_axis){outer->n * inner.n, inner.to, inner.from};
    else
      axes->v[++last] = inner;
  }
  axes->n = last + 1;
}

void tn__find_sum_axes(const tn_tensor *to, const tn_tensor *from,
                       tn__axes *kept, tn__axes *cut) {
  const int32_t missing = from->ndim - to->ndim;
  kept->n = cut->n = 0;
  for (int32_t i = 0; i < from->ndim; ++i) {
    const int64_t n = from->shape[i], step = from->strides[i];
    const int64_t own = i < missing || to->shape[i - missing] != n
                            ? 0
                            : to->strides[i - missing];
    if (n > 1) insert_axis(own ? kept : cut, (tn_sum_axis){n, own, step});
  }
  merge_axes(kept);
  merge_axes(cut);
}

static void scale_axes(tn__axes *axes, const sum_plan *p) {
  if (axes->n == 0) axes->v[axes->n++] = (tn_sum_axis){1, 0, 0};
  for (int32_t i = 0; i < axes->n; ++i) {
    axes->v[i].to *= tn_dtype_bytes(p->to_dtype);
    axes->v[i].from *= tn_dtype_bytes(p->dtype);
  }
}

static int64_t count_places(const tn__axes *axes) {
  int64_t product = 1;
  for (int32_t i = 0; i < axes->n; ++i) product *= axes->v[i].n;
  return product;
}

static int64_t n_pieces(int64_t n) {
  return (n + COLUMNS - 1) / COLUMNS;
}

static const tn_sum_axis *last_of(const tn__axes *axes) {
  return &axes->v[axes->n - 1];
}

static void plan_init(sum_plan *p, const tn_tensor *to, const tn_tensor *from) {
  *p = (sum_plan){.dtype = from->dtype,
                  .to_dtype = to->dtype,
                  .to = to->data,
                  .from = from->data};
  tn__find_sum_axes(to, from, &p->kept, &p->cut);
  scale_axes(&p->kept, p);
  scale_axes(&p->cut, p);
  const tn_sum_axis *kept = last_of(&p->kept), *cut = last_of(&p->cut);
  p->by_row =
      kept->n == 1 || (cut->n > 1 && llabs(cut->from) < llabs(kept->from));
  p->n_terms = count_places(&p->cut);
  p->n_units = count_places(&p->kept);
  if (!p->by_row) p->n_units = p->n_units / kept->n * n_pieces(kept->n);
}

/* ------------------------------------------------------------------- adding */

/* Steps to the next place of the first n axes; false after the last. */
static bool advance_index(const tn__axes *axes, int32_t n, int64_t *index,
                          const char **from) {
  for (int32_t i = n - 1; i >= 0; --i) {
    const tn_sum_axis *axis = &axes->v[i];
    *from += axis->from;
    if (++index[i] < axis->n) return true;
    index[i] = 0;
    *from -= axis->from * axis->n;
  }
  return false;
}

static double sum_of(const double *values, int64_t n) {
  double lanes[LANES] = {0};
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES)
    for (int k = 0; k < LANES; ++k) lanes[k] += values[i + k];
  for (int k = 0; i + k < n; ++k) lanes[k] += values[i + k];
  for (int half = LANES / 2; half > 0; half /= 2)
    for (int k = 0; k < half; ++k) lanes[k] += lanes[k + half];
  return lanes[0];
}

static void store_sums(const sum_plan *p, char *to, int64_t step, double *sums,
                       int64_t n) {
  if (p->add) {
    double old[COLUMNS];
    tn__doubles_load(p->to_dtype, old, to, step, n);
    for (int64_t i = 0; i < n; ++i) sums[i] += old[i];
  }
  tn__doubles_store(p->to_dtype, to, step, sums, n);
}

/* Computes one sum; its terms are along rows. */
static void sum_rows(const sum_plan *p, char *to, const char *from) {
  const tn_sum_axis *row = last_of(&p->cut);
  int64_t index[TN_MAX_NDIM] = {0};
  double values[COLUMNS], sum = 0;
  do {
    for (int64_t done = 0; done < row->n; done += COLUMNS) {
      const int64_t n = row->n - done < COLUMNS ? row->n - done : COLUMNS;
      tn__doubles_load(p->dtype, values, from + done * row->from, row->from, n);
      sum += sum_of(values, n);
    }
  } while (advance_index(&p->cut, p->cut.n - 1, index, &from));
  store_sums(p, to, 0, &sum, 1);
}

/* Computes n sums side by side. */
static void sum_columns(const sum_plan *p, char *to, const char *from,
                        int64_t n) {
  const tn_sum_axis *row = last_of(&p->kept);
  int64_t index[TN_MAX_NDIM] = {0};
  double values[COLUMNS], sums[COLUMNS] = {0};
  do {
    tn__doubles_load(p->dtype, values, from, row->from, n);
    for (int64_t i = 0; i < n; ++i) sums[i] += values[i];
  } while (advance_index(&p->cut, p->cut.n, index, &from));
  store_sums(p, to, row->to, sums, n);
}

/* Computes unit `at` of the plan. */
static void sum_unit(const sum_plan *p, int64_t at) {
  const tn_sum_axis *last = last_of(&p->kept);
  const int64_t pieces = p->by_row ? last->n : n_pieces(last->n);
  const int64_t first = at % pieces * (p->by_row ? 1 : COLUMNS);
  char *to = p->to + first * last->to;
  const char *from = p->from + first * last->from;
  at /= pieces;
  for (int32_t i = p->kept.n - 2; i >= 0; --i) {
    const tn_sum_axis *axis = &p->kept.v[i];
    to += at % axis->n * axis->to;
    from += at % axis->n * axis->from;
    at /= axis->n;
  }
  if (p->by_row)
    sum_rows(p, to, from);
  else
    sum_columns(p, to, from,
                last->n - first < COLUMNS ? last->n - first : COLUMNS);
}

static int32_t sum_slice(void *arg, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) sum_unit(arg, i);
  return TN_OK;
}

void tn__tensor_sum(tn__engine *engine, const tn_tensor *to,
                    const tn_tensor *from, bool add) {
  if (tn_tensor_size(from) == 0) {
    if (!add) tn__tensor_zero(to);
    return;
  }
  sum_plan p;
  plan_init(&p, to, from);
  p.add = add;
  const int64_t size = tn_tensor_size(from);
  const int64_t grain = SLICE / (size / p.n_units) + 1;
  if (engine == NULL || size < SHARED_FROM)
    (void)sum_slice(&p, 0, p.n_units);
  else
    (void)tn__parallel_for(engine, p.n_units, grain, sum_slice, &p);
}
