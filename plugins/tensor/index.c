/* SPDX-License-Identifier: Apache-2.0
 * index.c: the operators of index.yaml. Arrays are dense; around an axis they
 * have the form (outer, axis, inner), and a row is `inner` elements.
 */
#include "index.gen.h"

#include <stdio.h>

#include "move.h"
#include "tenon/kernel/kernel.h"

/* ---------------------------------------------------------------- indices */

enum { MOST_INDICES = 128 }; /* indices that are read at a time */

/* A float without its fraction; NaN is `nan`. */
static int64_t truncate_index(double value, int64_t nan) {
  const double most = 4611686018427387904.0; /* 2^62 */
  if (value != value) return nan;
  if (value > most) return (int64_t)most;
  return value < -most ? -(int64_t)most : (int64_t)value;
}

static int has_floats(const tn_tensor *indices) {
  const tn_dtype own = tn_kernel_compute(indices->dtype);
  return own == TN_F32 || own == TN_F64;
}

/* Reads indices [begin, begin + n), n at most MOST_INDICES. */
static void read_indices(const tn_tensor *indices, int64_t begin, int64_t n,
                         int64_t nan, int64_t *to) {
  TN_KERNEL_LINED double value[MOST_INDICES];
  const int is_float = has_floats(indices);
  const tn_kernel_mode mode = {is_float ? TN_F64 : TN_I64, 0};
  const char *at =
      (const char *)indices->data + begin * tn_dtype_bytes(indices->dtype);
  tn_kernel_load_dense(is_float ? (void *)value : (void *)to, &mode, at,
                       indices->dtype, n);
  for (int64_t i = 0; is_float && i < n; ++i)
    to[i] = truncate_index(value[i], nan);
}

/* The position that an index selects on an axis that is not empty; -1 under
 * raise if the index is out of range. */
static int64_t normalize_index(int64_t index, int64_t length, int32_t mode) {
  if (index >= 0 && index < length) return index;
  if (mode == TENSOR_TAKE_MODE_RAISE) return -1;
  if (mode == TENSOR_TAKE_MODE_CLIP) return index < 0 ? 0 : length - 1;
  const int64_t rest = index % length;
  return rest < 0 ? rest + length : rest;
}

/* ----------------------------------------------------------------- shapes */

/* Fills unknown dimensions of `to` from `from`, n dimensions. */
static void copy_known_dims(int64_t *to, const int64_t *from, int32_t n) {
  for (int32_t d = 0; d < n; ++d)
    if (to[d] < 0) to[d] = from[d];
}

int32_t tensor_take_infer(const tn_frame *call) {
  const tn_tensor *data = &call->in[TENSOR_TAKE_IN_DATA];
  const tn_tensor *indices = &call->in[TENSOR_TAKE_IN_INDICES];
  const tn_tensor *out = &call->out[TENSOR_TAKE_OUT_OUT];
  int64_t shape[2 * TN_MAX_NDIM], own[TN_MAX_NDIM] = {0};
  int32_t axis;
  if (data->ndim < 0 || indices->ndim < 0) return TN_OK;
  int32_t code = tensor_axis(call, "axis", tensor_take_params_of(call)->axis,
                             data->ndim, &axis);
  if (code != TN_OK) return code;
  const int32_t ndim = data->ndim - 1 + indices->ndim,
                behind = data->ndim - axis;
  if (ndim > TN_MAX_NDIM)
    return TN_FAIL(call, TN_SHAPE, "`out` would have %d dimensions; %d are",
                   (int)ndim, TN_MAX_NDIM);
  for (int32_t d = 0; d < axis; ++d) shape[d] = data->shape[d];
  for (int32_t d = 0; d < indices->ndim; ++d)
    shape[axis + d] = indices->shape[d];
  for (int32_t d = 1; d < behind; ++d)
    shape[axis + indices->ndim + d - 1] = data->shape[axis + d];
  if (out->ndim == ndim) copy_known_dims(shape, out->shape, ndim);
  code = call->host->set_shape(call, TN_OPERAND_OUT, 0, ndim, shape);
  if (code != TN_OK) return code;
  code = call->host->set_shape(call, TN_OPERAND_IN, TENSOR_TAKE_IN_INDICES,
                               indices->ndim, shape + axis);
  if (code != TN_OK) return code;
  for (int32_t d = 0; d < axis; ++d) own[d] = shape[d];
  own[axis] = data->shape[axis];
  for (int32_t d = 1; d < behind; ++d)
    own[axis + d] = shape[axis + indices->ndim + d - 1];
  return call->host->set_shape(call, TN_OPERAND_IN, TENSOR_TAKE_IN_DATA,
                               data->ndim, own);
}

/* ------------------------------------------------------------------- take */

/* Rows of `inner` elements: outer * length of them in `data`, outer * n in the
 * array of slices. */
typedef struct take_args {
  const tn_frame *call;
  const tn_tensor *data; /* or its gradient */
  const tn_tensor *indices;
  const tn_tensor *slices; /* or their gradient */
  int64_t outer, length, n, inner;
  int64_t bytes; /* bytes of an element */
  int32_t mode;
  tn_dtype dtype; /* type of the sums */
  tn_kernel_mode sum;
  int64_t columns; /* elements of a row in one slice of the gradient */
  const int64_t *begin, *positions; /* sort_positions() */
} take_args;

static int32_t init_take(take_args *t, const tn_frame *call,
                         const tn_tensor *data) {
  const tensor_take_params *p = tensor_take_params_of(call);
  int32_t axis;
  const int32_t code = tensor_axis(call, "axis", p->axis, data->ndim, &axis);
  if (code != TN_OK) return code;
  t->call = call;
  t->data = data;
  t->mode = p->mode;
  t->bytes = tn_dtype_bytes(data->dtype);
  t->outer = t->inner = 1;
  for (int32_t d = 0; d < axis; ++d) t->outer *= data->shape[d];
  for (int32_t d = axis + 1; d < data->ndim; ++d) t->inner *= data->shape[d];
  t->length = data->shape[axis];
  t->n = tn_tensor_size(t->indices);
  return TN_OK;
}

/* Reports index number i with its original value: a float differs from the
 * integer that was read. */
static int32_t refuse_index(const take_args *t, int64_t i, int64_t index) {
  const tn_dtype dtype = t->indices->dtype;
  const tn_kernel_mode mode = {TN_F64, 0};
  const char *at = (const char *)t->indices->data + i * tn_dtype_bytes(dtype);
  char text[32];
  double value;
  if (has_floats(t->indices)) {
    tn_kernel_load_dense(&value, &mode, at, dtype, 1);
    (void)snprintf(text, sizeof text, "%g", value);
  } else {
    (void)snprintf(text, sizeof text, "%lld", (long long)index);
  }
  return TN_FAIL(t->call, TN_OUT_OF_RANGE,
                 "index %s (number %lld of `indices`) is out of range; 0 to "
                 "%lld are, unless mode is clip or wrap",
                 text, (long long)i, (long long)t->length - 1);
}

/* Checks every index before anything is written. */
static int32_t check_indices(const take_args *t) {
  int64_t index[MOST_INDICES];
  if (t->n == 0 || (t->length > 0 && t->mode != TENSOR_TAKE_MODE_RAISE))
    return TN_OK;
  if (t->length == 0)
    return TN_FAIL(t->call, TN_OUT_OF_RANGE,
                   "%lld %s no place to stand for: the axis of `data` has "
                   "length 0",
                   (long long)t->n, t->n == 1 ? "index has" : "indices have");
  for (int64_t i = 0; i < t->n; i += MOST_INDICES) {
    const int64_t n = t->n - i < MOST_INDICES ? t->n - i : MOST_INDICES;
    read_indices(t->indices, i, n, -1, index);
    for (int64_t k = 0; k < n; ++k)
      if (normalize_index(index[k], t->length, t->mode) < 0)
        return refuse_index(t, i + k, index[k]);
  }
  return TN_OK;
}

/* Copies rows [begin, end) of the slices. */
static int32_t take_slice(void *arg, int64_t begin, int64_t end) {
  const take_args *t = (const take_args *)arg;
  const size_t row = (size_t)(t->inner * t->bytes);
  int64_t index[MOST_INDICES];
  while (begin < end) {
    const int64_t first = begin % t->n;
    int64_t n = t->n - first < end - begin ? t->n - first : end - begin;
    if (n > MOST_INDICES) n = MOST_INDICES;
    read_indices(t->indices, first, n, 0, index);
    const char *from =
        (const char *)t->data->data + (size_t)(begin / t->n * t->length) * row;
    char *to = (char *)t->slices->data + (size_t)begin * row;
    for (int64_t k = 0; k < n; ++k) {
      const int64_t place = normalize_index(index[k], t->length, t->mode);
      memcpy(to + (size_t)k * row, from + (size_t)place * row, row);
    }
    begin += n;
  }
  return TN_OK;
}

int32_t tensor_take(const tn_frame *call) {
  take_args t = {.indices = &call->in[TENSOR_TAKE_IN_INDICES],
                 .slices = &call->out[TENSOR_TAKE_OUT_OUT]};
  int32_t code = init_take(&t, call, &call->in[TENSOR_TAKE_IN_DATA]);
  if (code == TN_OK) code = check_indices(&t);
  const int64_t rows = t.outer * t.n;
  if (code != TN_OK || rows == 0 || t.inner == 0) return code;
  const int64_t grain = TN_KERNEL_GRAIN / t.inner;
  return call->host->parallel_for(call, rows, grain > 0 ? grain : 1, take_slice,
                                  &t);
}

/* ------------------------------------------------------- gradient of take */

enum { COLUMNS = 512 }; /* elements of a row that are added together */

/* Adds `from` to `to`: n elements of a type. */
static void add_row(const take_args *t, char *to, const char *from, int64_t n) {
  TN_KERNEL_LINED uint64_t sum[COLUMNS], row[COLUMNS];
  const tn_dtype dtype = t->dtype;
  if (dtype == t->sum.compute) {
    tn_kernel_add_dense(to, from, &t->sum, n);
    return;
  }
  tn_kernel_load_dense(sum, &t->sum, to, dtype, n);
  tn_kernel_load_dense(row, &t->sum, from, dtype, n);
  tn_kernel_add_dense(sum, row, &t->sum, n);
  tn_kernel_store_dense(to, dtype, sum, &t->sum, n);
}

/* Adds blocks of columns: each block has its own elements of every row, so rows
 * are added in the order of indices on any thread. */
static int32_t add_slice(void *arg, int64_t begin, int64_t end) {
  const take_args *t = (const take_args *)arg;
  const int64_t blocks = (t->inner + t->columns - 1) / t->columns;
  int64_t index[MOST_INDICES];
  for (int64_t block = begin; block < end; ++block) {
    const int64_t outer = block / blocks, first = block % blocks * t->columns;
    const int64_t left = t->inner - first;
    const int64_t n = left < t->columns ? left : t->columns;
    char *to = (char *)t->data->data +
               (outer * t->length * t->inner + first) * t->bytes;
    const char *from = (const char *)t->slices->data +
                       (outer * t->n * t->inner + first) * t->bytes;
    for (int64_t i = 0; i < t->n; ++i) {
      if (i % MOST_INDICES == 0)
        read_indices(t->indices, i,
                     t->n - i < MOST_INDICES ? t->n - i : MOST_INDICES, 0,
                     index);
      const int64_t place =
          normalize_index(index[i % MOST_INDICES], t->length, t->mode);
      add_row(t, to + place * t->inner * t->bytes,
              from + i * t->inner * t->bytes, n);
    }
  }
  return TN_OK;
}

/* Sums of half types are f32 and are rounded once. So the numbers of the
 * indices are sorted by position, and each position gets its sum at once. */
static int is_16_bit(tn_dtype dtype) {
  return dtype == TN_F16 || dtype == TN_BF16;
}

/* The indices of position p are positions[begin[p]] to positions[begin[p + 1] -
 * 1]. `begin` has two more elements for counting. */
static void sort_positions(const take_args *t, int64_t *begin,
                           int64_t *positions) {
  int64_t index[MOST_INDICES];
  memset(begin, 0, (size_t)(t->length + 2) * sizeof *begin);
  for (int pass = 0; pass < 2; ++pass) {
    for (int64_t i = 0; i < t->n; ++i) {
      if (i % MOST_INDICES == 0)
        read_indices(t->indices, i,
                     t->n - i < MOST_INDICES ? t->n - i : MOST_INDICES, 0,
                     index);
      const int64_t place =
          normalize_index(index[i % MOST_INDICES], t->length, t->mode);
      if (pass == 0)
        ++begin[place + 2];
      else
        positions[begin[place + 1]++] = i;
    }
    for (int64_t p = 2; pass == 0 && p < t->length + 2; ++p)
      begin[p] += begin[p - 1];
  }
}

static int32_t sum_16_bit_slice(void *arg, int64_t first, int64_t end) {
  const take_args *t = (const take_args *)arg;
  TN_KERNEL_LINED float sum[COLUMNS], row[COLUMNS];
  const int64_t blocks = (t->inner + COLUMNS - 1) / COLUMNS;
  for (int64_t block = first; block < end; ++block) {
    const int64_t place = block / blocks % t->length;
    const int64_t outer = block / blocks / t->length;
    const int64_t at = block % blocks * COLUMNS, left = t->inner - at;
    const int64_t n = left < COLUMNS ? left : COLUMNS;
    const char *slices = (const char *)t->slices->data;
    if (t->begin[place] == t->begin[place + 1]) continue;
    memset(sum, 0, sizeof sum);
    for (int64_t k = t->begin[place]; k < t->begin[place + 1]; ++k) {
      const int64_t from = (outer * t->n + t->positions[k]) * t->inner + at;
      tn_kernel_load_dense(row, &t->sum, slices + from * t->bytes, t->dtype, n);
      tn_kernel_add_dense(sum, row, &t->sum, n);
    }
    const int64_t to = (outer * t->length + place) * t->inner + at;
    tn_kernel_store_dense((char *)t->data->data + to * t->bytes, t->dtype, sum,
                          &t->sum, n);
  }
  return TN_OK;
}

static int32_t sum_16_bit_rows(take_args *t) {
  const tn_frame *call = t->call;
  const int64_t blocks =
      t->outer * t->length * ((t->inner + COLUMNS - 1) / COLUMNS);
  const int64_t cost = t->outer * t->n * t->inner / blocks + 1;
  const int64_t grain = TN_KERNEL_GRAIN / cost;
  int64_t *begin = (int64_t *)call->ws[0];
  t->begin = begin;
  t->positions = begin + t->length + 2;
  sort_positions(t, begin, begin + t->length + 2);
  return call->host->parallel_for(call, blocks, grain > 0 ? grain : 1,
                                  sum_16_bit_slice, t);
}

int32_t tensor_take_bytes(const tn_frame *call, uint64_t *bytes) {
  take_args t = {.indices = &call->in[TENSOR_TAKE_BACKWARD_IN_INDICES]};
  *bytes = 0;
  if (!(call->flags & TN_CALL_BACKWARD) || !is_16_bit(call->out[0].dtype))
    return TN_OK;
  const int32_t code = init_take(&t, call, &call->out[0]);
  *bytes = (uint64_t)(t.length + 2 + t.n) * sizeof(int64_t);
  return code;
}

/* The gradient of data, which is dense. */
static int32_t add_rows(take_args *t) {
  const tn_frame *call = t->call;
  int32_t code = check_indices(t);
  if (code == TN_OK) code = tensor_fill_zeros(call, t->data);
  if (code != TN_OK || t->n == 0 || t->inner == 0 || t->outer == 0) return code;
  t->dtype = tensor_sum_dtype(t->data->dtype);
  t->sum.compute = tn_kernel_compute(t->dtype);
  t->sum.level = tn_kernel_level(call);
  if (is_16_bit(t->dtype)) return sum_16_bit_rows(t);
  t->columns = t->inner >= 8 * 64 ? 64 : COLUMNS;
  return call->host->parallel_for(
      call, t->outer * ((t->inner + t->columns - 1) / t->columns), 1, add_slice,
      t);
}

/* in = [gradient of out, data, indices, out] */
int32_t tensor_take_backward(const tn_frame *call) {
  take_args t = {.indices = &call->in[TENSOR_TAKE_BACKWARD_IN_INDICES],
                 .slices = &call->in[TENSOR_TAKE_BACKWARD_GRAD_OUT]};
  if (call->req[1] != TN_REQ_NULL) {
    const int32_t code = tensor_fill_zeros(call, &call->out[1]);
    if (code != TN_OK) return code;
  }
  if (call->req[0] == TN_REQ_NULL) return TN_OK;
  const int32_t code = init_take(&t, call, &call->out[0]);
  return code == TN_OK ? add_rows(&t) : code;
}

/* ----------------------------------------------------------------- one_hot */

typedef struct one_hot_args {
  const tn_frame *call;
  int64_t depth;
  tensor_element on;
} one_hot_args;

static int32_t one_hot_slice(void *arg, int64_t begin, int64_t end) {
  const one_hot_args *h = (const one_hot_args *)arg;
  const tn_tensor *out = &h->call->out[0];
  const int64_t bytes = tn_dtype_bytes(out->dtype);
  int64_t index[MOST_INDICES];
  for (int64_t i = begin; i < end; i += MOST_INDICES) {
    const int64_t n = end - i < MOST_INDICES ? end - i : MOST_INDICES;
    read_indices(&h->call->in[0], i, n, -1, index);
    for (int64_t k = 0; k < n; ++k) {
      if (index[k] < 0 || index[k] >= h->depth) continue;
      memcpy((char *)out->data + ((i + k) * h->depth + index[k]) * bytes,
             &h->on, (size_t)bytes);
    }
  }
  return TN_OK;
}

int32_t tensor_one_hot(const tn_frame *call) {
  const tensor_one_hot_params *p = tensor_one_hot_params_of(call);
  const tn_dtype dtype = call->out[0].dtype;
  const tensor_element off = tensor_element_of(p->off_value, dtype);
  one_hot_args h = {call, p->depth, tensor_element_of(p->on_value, dtype)};
  const int32_t code = tensor_fill(call, &call->out[0], &off);
  const int64_t n = tn_tensor_size(&call->in[0]);
  if (code != TN_OK || n == 0 || p->depth == 0) return code;
  return call->host->parallel_for(call, n, TN_KERNEL_GRAIN, one_hot_slice, &h);
}
