/* SPDX-License-Identifier: Apache-2.0
 * gather.c: the operator of gather.yaml. Arrays are dense; around the axis,
 * `indices` has the form (outer, n, inner). The work is divided into columns:
 * elements that differ only in their index along the axis. Different columns
 * touch different elements of data, so the gradient is added in one order on
 * any number of threads.
 */
#include "gather.gen.h"

#include "move.h"
#include "tenon/kernel/kernel.h"

/* Columns next to each other, and indices, that are handled together. */
enum { AT_ONCE = 128 };

typedef struct gather_args {
  const tn_frame *call;
  const tn_tensor *data; /* or its gradient */
  const tn_tensor *indices;
  const tn_tensor *taken; /* out, or its gradient */
  int32_t axis;
  int64_t outer, n, inner;   /* of indices */
  int64_t length;            /* of the axis of data */
  int64_t step[TN_MAX_NDIM]; /* of data, in elements */
  int64_t bytes;             /* of an element */
  tn_dtype sum;              /* type of the sums at `data` */
  char *sums;                /* the gradient of data, or a workspace */
} gather_args;

static int32_t init_args(gather_args *t, const tn_frame *call) {
  const int64_t axis = tensor_gather_elements_params_of(call)->axis;
  const int32_t ndim = t->data->ndim;
  const int32_t code = tensor_axis(call, "axis", axis, ndim, &t->axis);
  int64_t step = 1;
  if (code != TN_OK) return code;
  t->call = call;
  t->bytes = tn_dtype_bytes(t->data->dtype);
  t->outer = t->inner = 1;
  for (int32_t d = 0; d < t->axis; ++d) t->outer *= t->indices->shape[d];
  for (int32_t d = t->axis + 1; d < ndim; ++d) t->inner *= t->indices->shape[d];
  for (int32_t d = ndim; d-- > 0; step *= t->data->shape[d]) t->step[d] = step;
  t->n = t->indices->shape[t->axis];
  t->length = t->data->shape[t->axis];
  return TN_OK;
}

/* ----------------------------------------------------------------- shapes */

static int32_t check_lengths(const tn_frame *call, int32_t axis) {
  const tn_tensor *data = &call->in[TENSOR_GATHER_ELEMENTS_IN_DATA];
  const tn_tensor *indices = &call->in[TENSOR_GATHER_ELEMENTS_IN_INDICES];
  for (int32_t d = 0; d < data->ndim; ++d)
    if (d != axis && data->shape[d] >= 0 && indices->shape[d] > data->shape[d])
      return TN_FAIL(call, TN_SHAPE,
                     "`indices` %s is longer than `data` %s in dimension %d; "
                     "only along axis %d it may be",
                     tensor_shape_text(data->ndim, indices->shape).text,
                     tensor_shape_text(data->ndim, data->shape).text, (int)d,
                     (int)axis);
  return TN_OK;
}

int32_t tensor_gather_elements_infer(const tn_frame *call) {
  const tn_tensor *data = &call->in[TENSOR_GATHER_ELEMENTS_IN_DATA];
  const tn_tensor *indices = &call->in[TENSOR_GATHER_ELEMENTS_IN_INDICES];
  const tn_tensor *out = &call->out[0];
  const tn_tensor *known = indices->ndim >= 0 ? indices : out;
  int64_t shape[TN_MAX_NDIM];
  int32_t axis;
  if (known->ndim < 0) return TN_OK;
  for (int32_t d = 0; d < known->ndim; ++d) {
    shape[d] = known->shape[d];
    if (shape[d] < 0 && out->ndim == known->ndim) shape[d] = out->shape[d];
  }
  int32_t code = call->host->set_shape(call, TN_OPERAND_IN,
                                       TENSOR_GATHER_ELEMENTS_IN_INDICES,
                                       known->ndim, shape);
  if (code == TN_OK)
    code = call->host->set_shape(call, TN_OPERAND_OUT, 0, known->ndim, shape);
  if (code != TN_OK || data->ndim < 0) return code;
  if (data->ndim != known->ndim)
    return TN_FAIL(call, TN_SHAPE,
                   "`indices` has %d dimensions, `data` %d: both must have the "
                   "same number",
                   (int)known->ndim, (int)data->ndim);
  code = tensor_axis(call, "axis", tensor_gather_elements_params_of(call)->axis,
                     data->ndim, &axis);
  return code == TN_OK && indices->ndim >= 0 ? check_lengths(call, axis) : code;
}

/* ---------------------------------------------------------------- indices */

/* Reads indices [begin, begin + n), n at most AT_ONCE. */
static void read_indices(const gather_args *t, int64_t begin, int64_t n,
                         int64_t *to) {
  const tn_kernel_mode mode = {TN_I64, 0};
  const tn_dtype dtype = t->indices->dtype;
  tn_kernel_load_dense(
      to, &mode, (const char *)t->indices->data + begin * tn_dtype_bytes(dtype),
      dtype, n);
}

/* Checks every index before anything is written. */
static int32_t check_indices(const gather_args *t) {
  const int64_t size = tn_tensor_size(t->indices);
  int64_t index[AT_ONCE];
  for (int64_t i = 0; i < size; i += AT_ONCE) {
    const int64_t n = size - i < AT_ONCE ? size - i : AT_ONCE;
    read_indices(t, i, n, index);
    for (int64_t k = 0; k < n; ++k)
      if (index[k] < -t->length || index[k] >= t->length)
        return TN_FAIL(t->call, TN_OUT_OF_RANGE,
                       "index %lld (number %lld of `indices`) is out of range: "
                       "axis %d of `data` has length %lld",
                       (long long)index[k], (long long)(i + k), (int)t->axis,
                       (long long)t->length);
  }
  return TN_OK;
}

/* Position in data of number i of the index space of dimensions [from, to). */
static int64_t find_offset(const gather_args *t, int64_t i, int32_t from,
                           int32_t to) {
  int64_t at = 0;
  for (int32_t d = to; d-- > from;) {
    at += i % t->indices->shape[d] * t->step[d];
    i /= t->indices->shape[d];
  }
  return at;
}

/* Uses n elements of `taken` from number `first` on, at positions `at`. */
typedef void use_fn(const gather_args *t, int64_t first, const int64_t *at,
                    int64_t n);

/* Calls `use` for `width` adjacent columns of block `outer`, from column
 * `first` on, along the axis. */
static void walk_columns(const gather_args *t, int64_t outer, int64_t first,
                         int64_t width, use_fn *use) {
  const int32_t ndim = t->data->ndim;
  const int64_t base = find_offset(t, outer, 0, t->axis);
  /* A single column at the end of the shape has adjacent indices. */
  const int64_t rows = t->inner == 1 ? AT_ONCE : 1;
  int64_t offset[AT_ONCE], at[AT_ONCE];
  for (int64_t c = 0; c < width; ++c)
    offset[c] = base + find_offset(t, first + c, t->axis + 1, ndim);
  for (int64_t a = 0; a < t->n; a += rows) {
    const int64_t n = t->n - a < rows ? t->n - a : rows;
    const int64_t begin = (outer * t->n + a) * t->inner + first;
    read_indices(t, begin, n * width, at);
    for (int64_t i = 0; i < n * width; ++i) {
      const int64_t index = at[i] < 0 ? at[i] + t->length : at[i];
      at[i] = index * t->step[t->axis] + offset[t->inner == 1 ? 0 : i];
    }
    use(t, begin, at, n * width);
  }
}

/* Calls `use` for blocks [begin, end) of columns. */
static void walk_blocks(const gather_args *t, int64_t begin, int64_t end,
                        use_fn *use) {
  const int64_t blocks = (t->inner + AT_ONCE - 1) / AT_ONCE;
  for (int64_t block = begin; block < end; ++block) {
    const int64_t first = block % blocks * AT_ONCE;
    const int64_t left = t->inner - first;
    walk_columns(t, block / blocks, first, left < AT_ONCE ? left : AT_ONCE,
                 use);
  }
}

static int32_t run_blocks(gather_args *t, tn_loop_body *slice) {
  if (tn_tensor_size(t->indices) == 0) return TN_OK;
  const int64_t blocks = (t->inner + AT_ONCE - 1) / AT_ONCE;
  const int64_t width = t->inner < AT_ONCE ? t->inner : AT_ONCE;
  const int64_t grain = TN_KERNEL_GRAIN / 8 / (t->n * width);
  return t->call->host->parallel_for(t->call, t->outer * blocks,
                                     grain > 0 ? grain : 1, slice, t);
}

/* ---------------------------------------------------------------- forward */

static void copy_elements(const gather_args *t, int64_t first,
                          const int64_t *at, int64_t n) {
  const size_t bytes = (size_t)t->bytes;
  const char *from = (const char *)t->data->data;
  char *to = (char *)t->taken->data + first * t->bytes;
  for (int64_t i = 0; i < n; ++i)
    memcpy(to + (size_t)i * bytes, from + (size_t)at[i] * bytes, bytes);
}

static int32_t copy_slice(void *arg, int64_t begin, int64_t end) {
  walk_blocks((const gather_args *)arg, begin, end, copy_elements);
  return TN_OK;
}

int32_t tensor_gather_elements(const tn_frame *call) {
  gather_args t = {.data = &call->in[TENSOR_GATHER_ELEMENTS_IN_DATA],
                   .indices = &call->in[TENSOR_GATHER_ELEMENTS_IN_INDICES],
                   .taken = &call->out[0]};
  int32_t code = init_args(&t, call);
  if (code == TN_OK) code = check_indices(&t);
  return code == TN_OK ? run_blocks(&t, copy_slice) : code;
}

/* --------------------------------------------------------------- gradient */

static int is_16_bit(tn_dtype dtype) {
  return dtype == TN_F16 || dtype == TN_BF16;
}

#define ADD_AT(type)                                                         \
  do {                                                                       \
    type *to = (type *)(void *)t->sums;                                      \
    const type *from = (const type *)add;                                    \
    for (int64_t i = 0; i < n; ++i) to[at[i]] = (type)(to[at[i]] + from[i]); \
  } while (0)

/* Adds one by one, because positions may repeat; integers wrap. */
static void add_at(const gather_args *t, const int64_t *at, const void *add,
                   int64_t n) {
  switch (t->sum) {
    case TN_F32:
      ADD_AT(float);
      return;
    case TN_F64:
      ADD_AT(double);
      return;
    case TN_BOOL:
      for (int64_t i = 0; i < n; ++i) t->sums[at[i]] |= ((const char *)add)[i];
      return;
    default:
      break;
  }
  if (t->bytes == 1) ADD_AT(uint8_t);
  if (t->bytes == 2) ADD_AT(uint16_t);
  if (t->bytes == 4) ADD_AT(uint32_t);
  if (t->bytes == 8) ADD_AT(uint64_t);
}

static void add_elements(const gather_args *t, int64_t first, const int64_t *at,
                         int64_t n) {
  const tn_kernel_mode mode = {TN_F32, 0};
  const char *from = (const char *)t->taken->data + first * t->bytes;
  float wide[AT_ONCE];
  if (!is_16_bit(t->taken->dtype)) {
    add_at(t, at, from, n);
    return;
  }
  tn_kernel_load_dense(wide, &mode, from, t->taken->dtype, n);
  add_at(t, at, wide, n);
}

static int32_t add_slice(void *arg, int64_t begin, int64_t end) {
  walk_blocks((const gather_args *)arg, begin, end, add_elements);
  return TN_OK;
}

/* Sums of half types are f32 in a workspace, and are rounded once. */
int32_t tensor_gather_elements_bytes(const tn_frame *call, uint64_t *bytes) {
  *bytes = 0;
  if ((call->flags & TN_CALL_BACKWARD) && is_16_bit(call->out[0].dtype))
    *bytes = (uint64_t)tn_tensor_size(&call->out[0]) * sizeof(float);
  return TN_OK;
}

static int32_t round_slice(void *arg, int64_t begin, int64_t end) {
  const gather_args *t = (const gather_args *)arg;
  const tn_kernel_mode mode = {TN_F32, 0};
  tn_kernel_store_dense((char *)t->data->data + begin * t->bytes,
                        t->data->dtype, (const float *)(void *)t->sums + begin,
                        &mode, end - begin);
  return TN_OK;
}

/* in = [gradient of out, data, indices, out] */
int32_t tensor_gather_elements_backward(const tn_frame *call) {
  const tn_tensor *data = &call->out[0];
  const int wide = is_16_bit(data->dtype);
  const int64_t size = tn_tensor_size(data);
  gather_args t = {
      .data = data,
      .indices = &call->in[TENSOR_GATHER_ELEMENTS_BACKWARD_IN_INDICES],
      .taken = &call->in[TENSOR_GATHER_ELEMENTS_BACKWARD_GRAD_OUT],
      .sum = wide ? TN_F32 : data->dtype,
      .sums = (char *)(wide ? call->ws[0] : data->data)};
  int32_t code = TN_OK;
  if (call->req[1] != TN_REQ_NULL)
    code = tensor_fill_zeros(call, &call->out[1]);
  if (code != TN_OK || call->req[0] == TN_REQ_NULL) return code;
  code = init_args(&t, call);
  if (code == TN_OK) code = check_indices(&t);
  if (code != TN_OK || size == 0) return code;
  memset(t.sums, 0, (size_t)(size * (wide ? 4 : t.bytes)));
  code = run_blocks(&t, add_slice);
  return code == TN_OK && wide
             ? call->host->parallel_for(call, size, TN_KERNEL_GRAIN,
                                        round_slice, &t)
             : code;
}
