/* SPDX-License-Identifier: Apache-2.0
 * places_walk.c: places_walk.h. Elements are walked in columns: elements that
 * differ only in their index along the axis. Different columns have different
 * elements of whole. Tuples are walked in blocks of the elements of a slice,
 * and each block has its own elements of whole. So the work can be divided
 * without a change of the order in which an element of whole is visited.
 */
#include "places_walk.h"

#include "move.h"
#include "tenon/kernel/kernel.h"

enum { WIDTH = 512 }; /* elements of a slice in one visit */

/* Reads n indices, `stride` apart. */
static void read_indices(const tn_tensor *indices, int64_t first,
                         int64_t stride, int64_t n, int64_t *to) {
  const tn_kernel_mode mode = {TN_I64, 0};
  const tn_kernel_line line = {
      (char *)indices->data + first * tn_dtype_bytes(indices->dtype), stride, n,
      indices->dtype};
  tn_kernel_load(to, &mode, &line);
}

/* The same, without a copy if they are adjacent and i64. */
static const int64_t *find_indices(const tn_tensor *indices, int64_t first,
                                   int64_t stride, int64_t n, int64_t *room) {
  if (indices->dtype == TN_I64 && stride == 1)
    return (const int64_t *)indices->data + first;
  read_indices(indices, first, stride, n, room);
  return room;
}

static int64_t limit_count(int64_t n, int64_t most) {
  return n < most ? n : most;
}

/* ------------------------------------------------------------------ checks */

/* Indices of one dimension of whole, `stride` apart in memory. */
typedef struct index_line {
  int64_t first, stride, n;
  int64_t length;    /* of the dimension */
  int32_t dimension; /* its number */
} index_line;

/* Sets *out to a number above 0 if one of the indices is out of range. The
 * parameter is the length of the dimension. */
TN_KERNEL_BODY void find_outside(const tn_kernel_block *block,
                                 const void *params) {
  const uint64_t length = (uint64_t) * (const int64_t *)params;
  const int64_t *x = (const int64_t *)block->in[0];
  uint64_t outside = 0;
  for (int64_t i = 0; i < block->n; ++i)
    outside |= (uint64_t)x[i] + length >= 2 * length;
  *(uint64_t *)block->out = outside;
}
TN_KERNEL_LEVELS(find_outside)

/* A check of index_line. */
typedef struct line_check {
  const tensor_walk *walk;
  const char *name; /* of whole */
  const index_line *line;
  tn_kernel_body *find;
} line_check;

static int32_t fail_index(const line_check *c, int64_t index, int64_t i) {
  const index_line *line = c->line;
  return TN_FAIL(c->walk->call, TN_OUT_OF_RANGE,
                 "index %lld (number %lld of `indices`) is out of range: "
                 "axis %d of `%s` has length %lld",
                 (long long)index, (long long)(line->first + i * line->stride),
                 (int)line->dimension, c->name, (long long)line->length);
}

static int32_t check_slice(void *arg, int64_t begin, int64_t end) {
  const line_check *c = (const line_check *)arg;
  const index_line *line = c->line;
  int64_t room[TENSOR_GROUP];
  for (int64_t i = begin; i < end; i += TENSOR_GROUP) {
    const int64_t n = limit_count(end - i, TENSOR_GROUP);
    const int64_t *index =
        find_indices(c->walk->indices, line->first + i * line->stride,
                     line->stride, n, room);
    uint64_t outside;
    const tn_kernel_block block = {n, &outside, {index}};
    c->find(&block, &line->length);
    for (int64_t k = 0; outside && k < n; ++k)
      if (index[k] < -line->length || index[k] >= line->length)
        return fail_index(c, index[k], i + k);
  }
  return TN_OK;
}

static int32_t check_line(const tensor_walk *w, const char *name,
                          const index_line *line) {
  static const tn_kernel_bodies bodies = TN_KERNEL_BODIES(find_outside);
  line_check c = {w, name, line,
                  tn_kernel_body_at(&bodies, tn_kernel_level(w->call))};
  if (line->n <= TN_KERNEL_GRAIN) return check_slice(&c, 0, line->n);
  return w->call->host->parallel_for(w->call, line->n, TN_KERNEL_GRAIN,
                                     check_slice, &c);
}

int32_t tensor_check_places(const tensor_walk *w, const char *name) {
  const tensor_places *p = w->places;
  int32_t code = TN_OK;
  if (!p->is_tuples) {
    const index_line all = {0, 1, p->n, p->length[p->axis], (int32_t)p->axis};
    return check_line(w, name, &all);
  }
  for (int64_t k = 0; k < p->depth && code == TN_OK; ++k) {
    const index_line line = {k * p->next_index, p->next_tuple, p->n,
                             p->length[k], (int32_t)(p->batch_dims + k)};
    code = check_line(w, name, &line);
  }
  return code;
}

/* ---------------------------------------------------------------- elements */

/* Elements around the axis: the indices have the form (outer, along, inner).
 * `rows` places along the axis are one part. */
typedef struct element_walk {
  const tensor_walk *walk;
  int64_t outer, along, inner;
  int64_t rows, parts;
  int64_t width, blocks; /* of adjacent columns */
  tn_kernel_body *find, *find_negative;
} element_walk;

/* Position in whole of number i of the index space of dimensions [from, to). */
static int64_t find_offset(const tensor_places *p, int64_t i, int64_t from,
                           int64_t to) {
  int64_t at = 0;
  for (int64_t d = to; d-- > from;) {
    at += i % p->shape[d] * p->step[d];
    i /= p->shape[d];
  }
  return at;
}

/* How indices along the axis become positions. */
typedef struct place_rule {
  uint64_t length, step; /* of the axis */
  uint64_t base;         /* of a single column; otherwise of each index */
} place_rule;

/* in[1] are positions of the columns, or NULL. */
TN_KERNEL_BODY void find_positions(const tn_kernel_block *block,
                                   const void *params) {
  const place_rule *r = (const place_rule *)params;
  const int64_t *index = (const int64_t *)block->in[0];
  const uint64_t *offset = (const uint64_t *)block->in[1];
  uint64_t *at = (uint64_t *)block->out;
  const uint64_t length = r->length, step = r->step, base = r->base;
  const int64_t n = block->n;
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t back = index[i] < 0 ? length : 0;
    at[i] = ((uint64_t)index[i] + back) * step + base;
  }
  if (offset == NULL) return;
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) at[i] += offset[i];
}
TN_KERNEL_LEVELS(find_positions)

/* Sets *out to a number below 0 if one of the indices is. */
TN_KERNEL_BODY void find_negative(const tn_kernel_block *block,
                                  const void *params) {
  const int64_t *index = (const int64_t *)block->in[0];
  int64_t all = 0;
  (void)params;
  for (int64_t i = 0; i < block->n; ++i) all |= index[i];
  *(int64_t *)block->out = all;
}
TN_KERNEL_LEVELS(find_negative)

/* Whether the indices of a block are the positions. */
static int are_positions(const element_walk *e, const tn_kernel_block *block,
                         const place_rule *rule) {
  int64_t some;
  const tn_kernel_block signs = {block->n, &some, {block->in[0]}};
  if (rule->step != 1 || rule->base != 0 || block->in[1] != NULL) return 0;
  e->find_negative(&signs, NULL);
  return some >= 0;
}

/* Visits rows [begin, end) of `width` adjacent columns from `column` on. */
static void visit_columns(const element_walk *e, int64_t outer, int64_t column,
                          int64_t begin, int64_t end) {
  const tensor_places *p = e->walk->places;
  const int64_t base = find_offset(p, outer, 0, p->axis);
  const int64_t width = limit_count(e->inner - column, e->width);
  /* A single column at the end of the shape has adjacent indices. */
  const int64_t rows = e->inner == 1 ? TENSOR_GROUP : 1;
  const place_rule rule = {(uint64_t)p->length[p->axis],
                           (uint64_t)p->step[p->axis], (uint64_t)base};
  int64_t offset[TENSOR_GROUP], index[TENSOR_GROUP], at[TENSOR_GROUP];
  for (int64_t c = 0; c < width; ++c)
    offset[c] = find_offset(p, column + c, p->axis + 1, p->ndim);
  for (int64_t a = begin; a < end; a += rows) {
    const int64_t n = limit_count(end - a, rows) * width;
    const int64_t first = (outer * e->along + a) * e->inner + column;
    tensor_group group = {n, first, first, 1, 1, at};
    const tn_kernel_block block = {
        n,
        at,
        {find_indices(e->walk->indices, first, 1, n, index),
         e->inner == 1 ? NULL : offset}};
    if (are_positions(e, &block, &rule))
      group.at = (const int64_t *)block.in[0];
    else
      e->find(&block, &rule);
    e->walk->visit(e->walk->arg, &group);
  }
}

static int32_t element_slice(void *arg, int64_t begin, int64_t end) {
  const element_walk *e = (const element_walk *)arg;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t row = i / e->blocks % e->parts * e->rows;
    visit_columns(e, i / e->blocks / e->parts, i % e->blocks * e->width, row,
                  limit_count(row + e->rows, e->along));
  }
  return TN_OK;
}

static int32_t walk_elements(const tensor_walk *w, int in_order) {
  const tensor_places *p = w->places;
  static const tn_kernel_bodies find = TN_KERNEL_BODIES(find_positions),
                                negative = TN_KERNEL_BODIES(find_negative);
  const uint32_t level = tn_kernel_level(w->call);
  element_walk e = {.walk = w,
                    .outer = 1,
                    .along = p->shape[p->axis],
                    .inner = 1,
                    .find = tn_kernel_body_at(&find, level),
                    .find_negative = tn_kernel_body_at(&negative, level)};
  for (int64_t d = 0; d < p->axis; ++d) e.outer *= p->shape[d];
  for (int64_t d = p->axis + 1; d < p->ndim; ++d) e.inner *= p->shape[d];
  const int64_t most = TN_KERNEL_GRAIN / 8;
  e.width = limit_count(e.inner, TENSOR_GROUP);
  e.blocks = (e.inner + e.width - 1) / e.width;
  e.rows = in_order ? e.along : limit_count(e.along, most / e.width);
  e.parts = (e.along + e.rows - 1) / e.rows;
  const int64_t grain = most / (e.rows * e.width);
  return w->call->host->parallel_for(w->call, e.outer * e.parts * e.blocks,
                                     grain > 0 ? grain : 1, element_slice, &e);
}

/* ------------------------------------------------------------------ tuples */

/* Finds the positions in whole of n tuples, n at most TENSOR_GROUP. */
static void find_tuples(const tensor_walk *w, int64_t begin, int64_t n,
                        int64_t *at) {
  const tensor_places *p = w->places;
  int64_t index[TENSOR_GROUP];
  for (int64_t i = 0; i < n; ++i)
    at[i] =
        p->per_batch == p->n ? 0 : (begin + i) / p->per_batch * p->next_batch;
  for (int64_t k = 0; k < p->depth; ++k) {
    read_indices(w->indices, begin * p->next_tuple + k * p->next_index,
                 p->next_tuple, n, index);
    for (int64_t i = 0; i < n; ++i)
      at[i] += (index[i] < 0 ? index[i] + p->length[k] : index[i]) * p->step[k];
  }
}

/* Visits elements [first, first + width) of slices [begin, end). */
static void visit_tuples(const tensor_walk *w, int64_t begin, int64_t end,
                         int64_t first, int64_t width) {
  const int64_t inner = w->places->inner;
  int64_t at[TENSOR_GROUP];
  for (int64_t i = begin; i < end; i += TENSOR_GROUP) {
    const int64_t n = limit_count(end - i, TENSOR_GROUP);
    const tensor_group group = {n, i, i * inner + first, inner, width, at};
    find_tuples(w, i, n, at);
    for (int64_t k = 0; k < n; ++k) at[k] += first;
    w->visit(w->arg, &group);
  }
}

static int32_t block_slice(void *arg, int64_t begin, int64_t end) {
  const tensor_walk *w = (const tensor_walk *)arg;
  for (int64_t i = begin; i < end; ++i)
    visit_tuples(w, 0, w->places->n, i * WIDTH,
                 limit_count(w->places->inner - i * WIDTH, WIDTH));
  return TN_OK;
}

static int32_t tuple_slice(void *arg, int64_t begin, int64_t end) {
  const tensor_walk *w = (const tensor_walk *)arg;
  for (int64_t c = 0; c < w->places->inner; c += WIDTH)
    visit_tuples(w, begin, end, c, limit_count(w->places->inner - c, WIDTH));
  return TN_OK;
}

/* ------------------------------------------------------------------- walks */

static int is_empty(const tensor_places *p) {
  return p->n == 0 || p->inner == 0;
}

int32_t tensor_walk_in_order(const tensor_walk *w) {
  if (is_empty(w->places)) return TN_OK;
  if (!w->places->is_tuples) return walk_elements(w, 1);
  const int64_t blocks = (w->places->inner + WIDTH - 1) / WIDTH;
  return w->call->host->parallel_for(w->call, blocks, 1, block_slice,
                                     (void *)(uintptr_t)w);
}

int32_t tensor_walk_in_any_order(const tensor_walk *w) {
  if (is_empty(w->places)) return TN_OK;
  if (!w->places->is_tuples) return walk_elements(w, 0);
  const int64_t grain = TN_KERNEL_GRAIN / 8 / w->places->inner;
  return w->call->host->parallel_for(w->call, w->places->n,
                                     grain > 0 ? grain : 1, tuple_slice,
                                     (void *)(uintptr_t)w);
}
