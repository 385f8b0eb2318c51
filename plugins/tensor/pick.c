/* SPDX-License-Identifier: Apache-2.0
 * pick.c: selects one element of every line, by its position; the gradient
 * returns to that position. Elements are gathered contiguously, so that the
 * common functions can add and convert them.
 */
#include "arg.gen.h"
#include "reduce.h"
#include "tenon/kernel/kernel.h"

/* Largest number of elements that are gathered together. */
enum { MOST_PICKED = 256 };

static int32_t read_axis(const tn_frame *call, int32_t ndim, uint32_t *axes) {
  return reduce_read_axis(call, &tensor_pick_params_of(call)->axis, ndim, axes);
}

/* Whether the index has a dimension for the axis. */
static int32_t check_index(const tn_frame *call, const tn_tensor *data,
                           const tn_tensor *index) {
  if (index->ndim < 0 || index->ndim == data->ndim ||
      index->ndim == data->ndim - 1)
    return TN_OK;
  return TN_FAIL(call, TN_SHAPE,
                 "`index` has %d dimensions, `data` %d: it must have as many, "
                 "or one less",
                 (int)index->ndim, (int)data->ndim);
}

int32_t tensor_pick_infer(const tn_frame *call) {
  const tn_tensor *data = &call->in[TENSOR_PICK_IN_DATA];
  const tn_tensor *index = &call->in[TENSOR_PICK_IN_INDEX];
  int64_t shape[TN_MAX_NDIM];
  uint32_t axes;
  if (data->ndim < 0) return TN_OK;
  int32_t code = read_axis(call, data->ndim, &axes), n = 0;
  if (code == TN_OK)
    code = reduce_check_not_empty(call, axes, "element to pick");
  if (code == TN_OK) code = check_index(call, data, index);
  if (code == TN_OK)
    code =
        reduce_infer_shape(call, axes, tensor_pick_params_of(call)->keepdims);
  if (code != TN_OK || index->ndim < 0) return code;
  for (int32_t i = 0; i < data->ndim; ++i)
    if (!(axes >> i & 1))
      shape[n++] = data->shape[i];
    else if (index->ndim == data->ndim)
      shape[n++] = 1;
  return call->host->set_shape(call, TN_OPERAND_IN, TENSOR_PICK_IN_INDEX, n,
                               shape);
}

/* ------------------------------------------------------------------ places */

/* Lines of data: `inner` of them side by side, `length` elements each. */
typedef struct task {
  const tn_frame *call;
  const tn_tensor *data;
  const tn_tensor *index;
  const tn_tensor *picked; /* out, or its gradient */
  int64_t inner;
  int64_t length;
  int64_t bytes;
  uint32_t level;
} task;

static int64_t clip_index(double place, int64_t length) {
  if (!(place > 0)) return 0;
  return place < (double)length ? (int64_t)place : length - 1;
}

/* Finds the positions in data of the elements that lines [begin, begin + n)
 * pick. */
static void find_positions(const task *t, int64_t begin, int64_t n,
                           int64_t *at) {
  const tn_dtype dtype = t->index->dtype, own = tn_kernel_compute(dtype);
  const int whole = own == TN_I32 || own == TN_I64;
  const tn_kernel_mode mode = {whole ? TN_I64 : TN_F64, t->level};
  double places[MOST_PICKED];
  tn_kernel_load_dense(
      whole ? (void *)at : places, &mode,
      (const char *)t->index->data + begin * tn_dtype_bytes(dtype), dtype, n);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t line = begin + i;
    int64_t k = whole ? at[i] : clip_index(places[i], t->length);
    k = k < 0 ? 0 : k < t->length ? k : t->length - 1;
    at[i] = (line / t->inner * t->length + k) * t->inner + line % t->inner;
  }
}

static void copy_elements(void *to, const task *t, const int64_t *at,
                          int64_t n) {
  const char *from = (const char *)t->data->data;
  for (int64_t i = 0; i < n; ++i)
    memcpy((char *)to + i * t->bytes, from + at[i] * t->bytes,
           (size_t)t->bytes);
}

static int32_t pick_slice(void *arg, int64_t begin, int64_t end) {
  const task *t = (const task *)arg;
  const tn_dtype dtype = t->picked->dtype;
  const tn_kernel_mode mode = {tn_kernel_compute(dtype), t->level};
  for (int64_t n; begin < end; begin += n) {
    int64_t at[MOST_PICKED];
    double some[MOST_PICKED], old[MOST_PICKED], more[MOST_PICKED];
    char *to = (char *)t->picked->data + begin * t->bytes;
    n = end - begin < MOST_PICKED ? end - begin : MOST_PICKED;
    find_positions(t, begin, n, at);
    if (t->call->req[0] != TN_REQ_ADD) {
      copy_elements(to, t, at, n);
      continue;
    }
    copy_elements(some, t, at, n);
    tn_kernel_load_dense(old, &mode, to, dtype, n);
    tn_kernel_load_dense(more, &mode, some, dtype, n);
    tn_kernel_add_dense(old, more, &mode, n);
    tn_kernel_store_dense(to, dtype, old, &mode, n);
  }
  return TN_OK;
}

/* Adds the gradient of line i of `picked` to the element that it picked. */
static int32_t put_slice(void *arg, int64_t begin, int64_t end) {
  const task *t = (const task *)arg;
  const tn_dtype dtype = t->picked->dtype;
  const tn_kernel_mode mode = {tn_kernel_compute(dtype), t->level};
  for (int64_t n; begin < end; begin += n) {
    int64_t at[MOST_PICKED];
    double some[MOST_PICKED], old[MOST_PICKED], more[MOST_PICKED];
    const char *from = (const char *)t->picked->data + begin * t->bytes;
    n = end - begin < MOST_PICKED ? end - begin : MOST_PICKED;
    find_positions(t, begin, n, at);
    copy_elements(some, t, at, n);
    tn_kernel_load_dense(old, &mode, some, dtype, n);
    tn_kernel_load_dense(more, &mode, from, dtype, n);
    tn_kernel_add_dense(old, more, &mode, n);
    tn_kernel_store_dense(some, dtype, old, &mode, n);
    for (int64_t i = 0; i < n; ++i)
      memcpy((char *)t->data->data + at[i] * t->bytes,
             (char *)some + i * t->bytes, (size_t)t->bytes);
  }
  return TN_OK;
}

/* ------------------------------------------------------------------- calls */

static int32_t init_task(task *t, const tn_frame *call) {
  uint32_t axes;
  const int32_t code = read_axis(call, t->data->ndim, &axes);
  if (code != TN_OK) return code;
  t->call = call;
  t->level = tn_kernel_level(call);
  t->bytes = tn_dtype_bytes(t->data->dtype);
  t->inner = 1;
  for (int32_t i = t->data->ndim; i-- > 0 && !(axes >> i & 1);)
    t->inner *= t->data->shape[i];
  for (int32_t i = 0; i < t->data->ndim; ++i)
    if (axes >> i & 1) t->length = t->data->shape[i];
  return TN_OK;
}

int32_t tensor_pick(const tn_frame *call) {
  enum { GRAIN = 4096 };
  task t = {.data = &call->in[TENSOR_PICK_IN_DATA],
            .index = &call->in[TENSOR_PICK_IN_INDEX],
            .picked = &call->out[0]};
  const int32_t code = init_task(&t, call);
  return code == TN_OK
             ? call->host->parallel_for(call, tn_tensor_size(t.picked), GRAIN,
                                        pick_slice, &t)
             : code;
}

int32_t tensor_pick_backward(const tn_frame *call) {
  enum { GRAIN = 4096 };
  const tn_tensor *data_gradient = &call->out[0];
  task t = {.data = data_gradient,
            .index = &call->in[TENSOR_PICK_BACKWARD_IN_INDEX],
            .picked = &call->in[TENSOR_PICK_BACKWARD_GRAD_OUT]};
  const int32_t code = init_task(&t, call);
  if (code != TN_OK || tn_tensor_size(data_gradient) == 0) return code;
  if (call->req[0] != TN_REQ_ADD)
    memset(data_gradient->data, 0,
           (size_t)(tn_tensor_size(data_gradient) * t.bytes));
  return call->host->parallel_for(call, tn_tensor_size(t.picked), GRAIN,
                                  put_slice, &t);
}
