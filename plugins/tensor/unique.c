/* SPDX-License-Identifier: Apache-2.0
 * unique.c: the distinct elements or slices of an array. Slices become rows of
 * keys (sort_keys.c), of which equal ones are adjacent after a stable sort.
 * Rows of one key are sorted as in tensor.argsort, longer ones are merged.
 */
#include "dynamic.gen.h"
#include "sort_task.h"

typedef struct unique_args {
  const tn_frame *call;
  const tn_tensor *data;
  int32_t axis; /* -1: all elements as one line */
  int64_t outer, n, inner;
  int64_t width; /* keys of a row */
  int64_t total; /* distinct rows */
  /* Workspace: n elements each, `keys` n rows. */
  uint64_t *keys;
  int64_t *order;   /* numbers of rows */
  int64_t *other;   /* room for a merge */
  int64_t *groups;  /* of each row */
  int64_t *first;   /* row of each group */
  int64_t *counts;  /* rows of each group */
  int64_t *numbers; /* new ones of the groups */
  void *memory;     /* of a sort */
} unique_args;
enum { ARRAYS = 6 };

static int32_t init_args(unique_args *u, const tn_frame *call) {
  const tensor_unique_params *p = tensor_unique_params_of(call);
  memset(u, 0, sizeof *u);
  u->call = call;
  u->data = &call->in[0];
  u->axis = -1;
  if (p->has_axis) {
    const int32_t code =
        tensor_axis(call, "axis", p->axis, u->data->ndim, &u->axis);
    if (code != TN_OK) return code;
  }
  u->outer = u->inner = u->n = 1;
  for (int32_t d = 0; d < u->data->ndim; ++d)
    *(u->axis < 0 || d == u->axis ? &u->n
      : d < u->axis               ? &u->outer
                                  : &u->inner) *= u->data->shape[d];
  u->width = u->outer * u->inner;
  return TN_OK;
}

static sort_lines find_lines(const unique_args *u) {
  return (sort_lines){.outer = 1, .n = u->n, .inner = 1, .k = u->n};
}

int32_t tensor_unique_bytes(const tn_frame *call, uint64_t *bytes) {
  unique_args u;
  *bytes = 0;
  const int32_t code = init_args(&u, call);
  if (code != TN_OK) return code;
  const sort_lines lines = find_lines(&u);
  *bytes = (uint64_t)(u.n * (u.width + ARRAYS)) * sizeof(int64_t) +
           (u.width == 1 ? sort_count_bytes(&lines) : 0);
  return TN_OK;
}

static void use_memory(unique_args *u) {
  u->keys = (uint64_t *)u->call->ws[0];
  u->order = (int64_t *)(void *)(u->keys + u->n * u->width);
  u->other = u->order + u->n;
  u->groups = u->other + u->n;
  u->first = u->groups + u->n;
  u->counts = u->first + u->n;
  u->numbers = u->counts + u->n;
  u->memory = u->numbers + u->n;
}

/* -------------------------------------------------------------------- order */

static int64_t find_least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* Reads the keys of row `i`. */
static void read_row(const unique_args *u, const sort_keys *keys, int64_t i) {
  uint64_t *to = u->keys + i * u->width;
  sort_some_keys some;
  for (int64_t o = 0; o < u->outer; ++o) {
    const int64_t first = (o * u->n + i) * u->inner;
    const sort_line line = {(const char *)u->data->data + first * keys->bytes,
                            1};
    for (int64_t at = 0; at < u->inner; at += SORT_KEYS) {
      const int64_t n = find_least(u->inner - at, SORT_KEYS);
      sort_keys_read(keys, &line, at, n, &some);
      for (int64_t k = 0; k < n; ++k)
        *to++ = keys->bits == 64 ? some.wide[k] : some.narrow[k];
    }
  }
}

/* Reads all elements as rows of one key. */
static void read_elements(const unique_args *u, const sort_keys *keys) {
  const sort_line line = {(const char *)u->data->data, 1};
  sort_some_keys some;
  for (int64_t at = 0; at < u->n; at += SORT_KEYS) {
    const int64_t n = find_least(u->n - at, SORT_KEYS);
    sort_keys_read(keys, &line, at, n, &some);
    for (int64_t k = 0; k < n; ++k)
      u->keys[at + k] = keys->bits == 64 ? some.wide[k] : some.narrow[k];
  }
}

static int compare_rows(const unique_args *u, int64_t a, int64_t b) {
  const uint64_t *x = u->keys + a * u->width, *y = u->keys + b * u->width;
  for (int64_t k = 0; k < u->width; ++k)
    if (x[k] != y[k]) return x[k] < y[k] ? -1 : 1;
  return 0;
}

/* Merges the sorted runs [begin, middle) and [middle, end) of `from`. */
static void merge_runs(const unique_args *u, const int64_t *from,
                       const int64_t *ends, int64_t *to) {
  int64_t a = ends[0], b = ends[1];
  for (int64_t i = ends[0]; i < ends[2]; ++i)
    if (b == ends[2] || (a < ends[1] && compare_rows(u, from[a], from[b]) <= 0))
      to[i] = from[a++];
    else
      to[i] = from[b++];
}

/* A stable merge sort of the numbers of rows. */
static void sort_rows(unique_args *u) {
  for (int64_t i = 0; i < u->n; ++i) u->order[i] = i;
  for (int64_t width = 1; width < u->n; width *= 2) {
    for (int64_t i = 0; i < u->n; i += 2 * width) {
      const int64_t ends[] = {i, find_least(i + width, u->n),
                              find_least(i + 2 * width, u->n)};
      merge_runs(u, u->order, ends, u->other);
    }
    int64_t *sorted = u->other;
    u->other = u->order;
    u->order = sorted;
  }
}

static int32_t find_order(unique_args *u) {
  const sort_lines lines = find_lines(u);
  sort_task t;
  const int32_t code = sort_task_init(&t, u->call, &lines);
  if (code != TN_OK) return code;
  if (u->axis < 0) read_elements(u, &t.keys);
  for (int64_t i = 0; u->axis >= 0 && i < u->n; ++i) read_row(u, &t.keys, i);
  if (u->width != 1) {
    sort_rows(u);
    return TN_OK;
  }
  t.places = u->order;
  t.memory = u->memory;
  return sort_run(&t);
}

/* ------------------------------------------------------------------- groups */

/* Finds the groups of equal rows, which are in the order of data. */
static void find_groups(unique_args *u) {
  int64_t group = -1;
  for (int64_t i = 0; i < u->n; ++i) {
    const int64_t row = u->order[i];
    if (i == 0 || compare_rows(u, u->order[i - 1], row) != 0) {
      u->counts[++group] = 0;
      u->first[group] = row;
    }
    ++u->counts[group];
    u->groups[row] = group;
  }
  u->total = group + 1;
}

/* Gives the groups other numbers: those of the order of their first rows. */
static void number_by_place(unique_args *u) {
  int64_t next = 0;
  for (int64_t row = 0; row < u->n; ++row) {
    const int64_t group = u->groups[row];
    if (u->first[group] == row) u->numbers[group] = next++;
  }
  for (int64_t i = 0; i < u->total; ++i) u->counts[i] = 0;
  for (int64_t row = u->n; row-- > 0;) {
    const int64_t group = u->numbers[u->groups[row]];
    u->groups[row] = group;
    u->order[group] = row;
    ++u->counts[group];
  }
  memcpy(u->first, u->order, (size_t)u->total * sizeof *u->first);
}

/* ------------------------------------------------------------------ results */

static int32_t state_shapes(const unique_args *u) {
  const tn_frame *call = u->call;
  int64_t shape[TN_MAX_NDIM];
  const int64_t lengths[] = {0, u->total, u->n, u->total};
  for (int32_t d = 0; d < u->data->ndim; ++d) shape[d] = u->data->shape[d];
  shape[u->axis < 0 ? 0 : u->axis] = u->total;
  int32_t code = call->host->set_shape(call, TN_OPERAND_OUT, 0,
                                       u->axis < 0 ? 1 : u->data->ndim, shape);
  for (uint32_t i = 1; i < 4 && code == TN_OK; ++i)
    code = call->host->set_shape(call, TN_OPERAND_OUT, i, 1, &lengths[i]);
  return code;
}

static void write_values(const unique_args *u) {
  const int64_t bytes = u->inner * tn_dtype_bytes(u->data->dtype);
  char *to = (char *)u->call->out[TENSOR_UNIQUE_OUT_OUT].data;
  for (int64_t o = 0; o < u->outer && bytes > 0; ++o)
    for (int64_t k = 0; k < u->total; ++k, to += bytes)
      memcpy(to, (const char *)u->data->data + (o * u->n + u->first[k]) * bytes,
             (size_t)bytes);
}

static void write_numbers(const unique_args *u, uint32_t output,
                          const int64_t *from, int64_t n) {
  if (u->call->req[output] != TN_REQ_NULL && n > 0)
    memcpy(u->call->out[output].data, from, (size_t)n * sizeof *from);
}

int32_t tensor_unique(const tn_frame *call) {
  unique_args u;
  int32_t code = init_args(&u, call);
  if (code != TN_OK) return code;
  if (u.n > 0) {
    use_memory(&u);
    code = find_order(&u);
    if (code != TN_OK) return code;
    find_groups(&u);
    if (!tensor_unique_params_of(call)->sorted) number_by_place(&u);
  }
  code = state_shapes(&u);
  if (code != TN_OK) return code;
  if (call->req[TENSOR_UNIQUE_OUT_OUT] != TN_REQ_NULL) write_values(&u);
  write_numbers(&u, TENSOR_UNIQUE_OUT_FIRST, u.first, u.total);
  write_numbers(&u, TENSOR_UNIQUE_OUT_INVERSE, u.groups, u.n);
  write_numbers(&u, TENSOR_UNIQUE_OUT_COUNTS, u.counts, u.total);
  return TN_OK;
}
