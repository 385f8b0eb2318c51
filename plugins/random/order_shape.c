/* SPDX-License-Identifier: Apache-2.0
 * order_shape.c: shapes and workspaces of classes and orders, on every device.
 */
#include "order.gen.h"

#include "checks.h"
#include "order_rows.h"

/* ----------------------------------------------------------------- classes */

/* Classes that a type can number. */
static int64_t most_classes(tn_dtype dtype) {
  return dtype == TN_F32   ? (int64_t)1 << 24
         : dtype == TN_I32 ? INT32_MAX
         : dtype == TN_U32 ? UINT32_MAX
         : dtype == TN_F64 ? (int64_t)1 << 53
                           : INT64_MAX;
}

int32_t random_multinomial_infer(const tn_frame *call) {
  const random_multinomial_params *p = random_multinomial_params_of(call);
  const tn_tensor *data = &call->in[RANDOM_MULTINOMIAL_IN_DATA];
  if (p->dtype != TN_I32 && p->dtype != TN_I64 && p->dtype != TN_U32 &&
      p->dtype != TN_F32 && p->dtype != TN_F64)
    return TN_FAIL(call, TN_DTYPE,
                   "classes are i32, i64, u32, f32 or f64; say so by dtype");
  if (data->ndim == 0)
    return TN_FAIL(call, TN_SHAPE,
                   "`data` has no dimension; its last one has the classes");
  if (data->ndim > 0 && data->shape[data->ndim - 1] > most_classes(p->dtype))
    return TN_FAIL(call, TN_DTYPE,
                   "`data` has %lld classes, and the type has the numbers of "
                   "%lld only; choose i64",
                   (long long)data->shape[data->ndim - 1],
                   (long long)most_classes(p->dtype));
  return state_shape_after(call, data->ndim - 1, data, &p->shape);
}

int32_t random_multinomial_bytes(const tn_frame *call, uint64_t *bytes) {
  const int is_back = (call->flags & TN_CALL_BACKWARD) != 0;
  *bytes = is_back ? 0 : 8 * (uint64_t)tn_tensor_size(&call->in[0]);
  return TN_OK;
}

/* ------------------------------------------------------------------ orders */

/* Two numbers of 64 bits for each row, twice, and the order itself, which may
 * be not requested. */
static uint64_t find_room(int64_t n) {
  return n > INT64_MAX / 40 ? UINT64_MAX : 5 * sizeof(int64_t) * (uint64_t)n;
}

int32_t random_permutation_bytes(const tn_frame *call, uint64_t *bytes) {
  *bytes = find_room(tn_tensor_size(&call->out[0]));
  return TN_OK;
}

int32_t random_shuffle_infer(const tn_frame *call) {
  const tn_tensor *data = &call->in[0];
  if (data->ndim < 0) return TN_OK;
  const int64_t rows = count_rows(data);
  return call->host->set_shape(call, TN_OPERAND_OUT, RANDOM_SHUFFLE_OUT_PLACES,
                               1, &rows);
}

int32_t random_shuffle_bytes(const tn_frame *call, uint64_t *bytes) {
  const int is_back = (call->flags & TN_CALL_BACKWARD) != 0;
  const int moves = needs_order(call);
  *bytes = is_back || !moves ? 0 : find_room(count_rows(&call->in[0]));
  return TN_OK;
}
