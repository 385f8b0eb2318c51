/* SPDX-License-Identifier: Apache-2.0
 * sum.c: a gradient that was computed at a broadcast shape, summed over what
 * the broadcast repeated. Sums are kept in f64 and rounded once. What one sum
 * adds up, and in which order, depends on the shapes alone, so results do not
 * depend on the number of workers.
 */
#include <stdlib.h>

#include "walk.h"

enum {
  COLUMNS = TN__DOUBLES, /* sums that are kept at a time */
  LANES = 8,             /* partial sums of a row, so that it vectorises */
  SLICE = 1 << 16,       /* elements that a slice adds up, at least */
  SHARED_FROM = 1 << 18  /* elements that are worth other threads */
};

/* A dimension with its steps in bytes; `to` is 0 where it is summed over. */
typedef struct axis {
  int64_t n;
  int64_t to;
  int64_t from;
} axis;

/* Dimensions that stay and those that are summed over, each from the largest
 * steps of `from` to the smallest. At least one of both kinds, of length 1 if
 * there is no other. */
typedef struct plan {
  axis kept[TN_MAX_NDIM];
  axis cut[TN_MAX_NDIM];
  int32_t n_kept;
  int32_t n_cut;
  tn_dtype dtype;
  bool add;
  bool by_row;     /* the smallest steps are summed over */
  int64_t n_units; /* pieces of work: a sum, or COLUMNS of them */
  int64_t n_terms; /* of one sum */
  char *to;
  const char *from;
} plan;

/* ---------------------------------------------------------------- planning */

/* Enters an axis behind those with larger steps. */
static void insert(axis *axes, int32_t *n, axis new) {
  int32_t i = (*n)++;
  for (; i > 0 && llabs(axes[i - 1].from) < llabs(new.from); --i)
    axes[i] = axes[i - 1];
  axes[i] = new;
}

/* Axes that can be walked as one become one. */
static void merge(axis *axes, int32_t *n) {
  int32_t last = 0;
  for (int32_t i = 1; i < *n; ++i) {
    axis *outer = &axes[last], inner = axes[i];
    if (outer->from == inner.from * inner.n && outer->to == inner.to * inner.n)
      *outer = (axis){outer->n * inner.n, inner.to, inner.from};
    else
      axes[++last] = inner;
  }
  *n = last + 1;
}

static void finish(axis *axes, int32_t *n) {
  if (*n == 0)
    axes[(*n)++] = (axis){1, 0, 0};
  else
    merge(axes, n);
}

static int64_t count(const axis *axes, int32_t n) {
  int64_t product = 1;
  for (int32_t i = 0; i < n; ++i) product *= axes[i].n;
  return product;
}

static int64_t n_pieces(int64_t n) {
  return (n + COLUMNS - 1) / COLUMNS;
}

static void plan_init(plan *p, const tn_tensor *to, const tn_tensor *from) {
  const int64_t bytes = tn_dtype_bytes(from->dtype);
  const int32_t missing = from->ndim - to->ndim;
  *p = (plan){.dtype = from->dtype, .to = to->data, .from = from->data};
  for (int32_t i = 0; i < from->ndim; ++i) {
    const int64_t n = from->shape[i], step = from->strides[i] * bytes;
    const bool stays = i >= missing && to->shape[i - missing] == n;
    if (n == 1) continue;
    if (stays)
      insert(p->kept, &p->n_kept,
             (axis){n, to->strides[i - missing] * bytes, step});
    else
      insert(p->cut, &p->n_cut, (axis){n, 0, step});
  }
  finish(p->kept, &p->n_kept);
  finish(p->cut, &p->n_cut);
  const axis *kept = &p->kept[p->n_kept - 1], *cut = &p->cut[p->n_cut - 1];
  p->by_row =
      kept->n == 1 || (cut->n > 1 && llabs(cut->from) < llabs(kept->from));
  p->n_terms = count(p->cut, p->n_cut);
  p->n_units = count(p->kept, p->n_kept);
  if (!p->by_row) p->n_units = p->n_units / kept->n * n_pieces(kept->n);
}

/* ------------------------------------------------------------------ adding */

/* Steps to the next place of the first n axes; false behind the last. */
static bool advance(const axis *axes, int32_t n, int64_t *index,
                    const char **from) {
  for (int32_t i = n - 1; i >= 0; --i) {
    *from += axes[i].from;
    if (++index[i] < axes[i].n) return true;
    index[i] = 0;
    *from -= axes[i].from * axes[i].n;
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

static void store(const plan *p, char *to, int64_t step, double *sums,
                  int64_t n) {
  if (p->add) {
    double old[COLUMNS];
    tn__doubles_load(p->dtype, old, to, step, n);
    for (int64_t i = 0; i < n; ++i) sums[i] += old[i];
  }
  tn__doubles_store(p->dtype, to, step, sums, n);
}

/* One sum, whose terms lie along rows. */
static void sum_rows(const plan *p, char *to, const char *from) {
  const axis *row = &p->cut[p->n_cut - 1];
  int64_t index[TN_MAX_NDIM] = {0};
  double values[COLUMNS], sum = 0;
  do {
    for (int64_t done = 0; done < row->n; done += COLUMNS) {
      const int64_t n = row->n - done < COLUMNS ? row->n - done : COLUMNS;
      tn__doubles_load(p->dtype, values, from + done * row->from, row->from, n);
      sum += sum_of(values, n);
    }
  } while (advance(p->cut, p->n_cut - 1, index, &from));
  store(p, to, 0, &sum, 1);
}

/* n sums side by side. */
static void sum_columns(const plan *p, char *to, const char *from, int64_t n) {
  const axis *row = &p->kept[p->n_kept - 1];
  int64_t index[TN_MAX_NDIM] = {0};
  double values[COLUMNS], sums[COLUMNS] = {0};
  do {
    tn__doubles_load(p->dtype, values, from, row->from, n);
    for (int64_t i = 0; i < n; ++i) sums[i] += values[i];
  } while (advance(p->cut, p->n_cut, index, &from));
  store(p, to, row->to, sums, n);
}

/* Unit `at` of the work. */
static void sum_unit(const plan *p, int64_t at) {
  const axis *last = &p->kept[p->n_kept - 1];
  const int64_t pieces = p->by_row ? last->n : n_pieces(last->n);
  const int64_t first = at % pieces * (p->by_row ? 1 : COLUMNS);
  char *to = p->to + first * last->to;
  const char *from = p->from + first * last->from;
  at /= pieces;
  for (int32_t i = p->n_kept - 2; i >= 0; --i) {
    to += at % p->kept[i].n * p->kept[i].to;
    from += at % p->kept[i].n * p->kept[i].from;
    at /= p->kept[i].n;
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
  plan p;
  plan_init(&p, to, from);
  p.add = add;
  const int64_t size = tn_tensor_size(from);
  const int64_t grain = SLICE / (size / p.n_units) + 1;
  if (engine == NULL || size < SHARED_FROM)
    (void)sum_slice(&p, 0, p.n_units);
  else
    (void)tn__parallel_for(engine, p.n_units, grain, sum_slice, &p);
}
