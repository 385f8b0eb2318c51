/* SPDX-License-Identifier: Apache-2.0
 * shapes.c: shapes of operators. Some depend on the number of ranks.
 */
#include "gather.gen.h"
#include "group.h"
#include "reduce.gen.h"
#include "tenon/kernel/checked_size.h"

/* Copies the known part of a shape to another operand. */
static int32_t set_same(const tn_frame *call, uint32_t list, uint32_t i,
                        const tn_tensor *t) {
  if (t->ndim < 0) return TN_OK;
  return call->host->set_shape(call, list, i, t->ndim, t->shape);
}

int32_t comm_all_reduce_infer(const tn_frame *call) {
  const int64_t n = comm_all_reduce_params_of(call)->num_arrays;
  if (n != call->n_in)
    return TN_FAIL(
        call, TN_INVALID,
        "num_arrays=%lld, but there are %u arrays; pass their number",
        (long long)n, call->n_in);
  for (uint32_t k = 0; k < call->n_in; ++k) {
    int32_t code = set_same(call, TN_OPERAND_OUT, k, &call->in[k]);
    if (code == TN_OK) code = set_same(call, TN_OPERAND_IN, k, &call->out[k]);
    if (code != TN_OK) return code;
  }
  return TN_OK;
}

/* The number of ranks of a group. */
static int32_t get_size(const tn_frame *call, const char *name, int64_t *size) {
  comm_group *group = NULL;
  tn_comm_reason why;
  const int32_t code = comm_use_group(call->instance, name, &group, &why);
  if (code != TN_OK) return TN_FAIL(call, code, "%s", why.text);
  *size = group->info.size;
  return TN_OK;
}

/* Reports an array without an axis. */
static int32_t check_rank(const tn_frame *call, const tn_tensor *t) {
  if (t->ndim != 0) return TN_OK;
  return TN_FAIL(call, TN_SHAPE,
                 "a number has no axis 0; reshape it to one element");
}

/* States that operand (list, i) is `t`, with axis 0 of length n. */
static int32_t set_with_length(const tn_frame *call, uint32_t list, uint32_t i,
                               const tn_tensor *t, int64_t n) {
  int64_t shape[TN_MAX_NDIM];
  for (int32_t d = 0; d < t->ndim; ++d) shape[d] = t->shape[d];
  shape[0] = n;
  return call->host->set_shape(call, list, i, t->ndim, shape);
}

/* Reports an axis 0 that the ranks cannot share. */
static int32_t check_division(const tn_frame *call, const tn_tensor *t,
                              int64_t size) {
  const int32_t code = check_rank(call, t);
  if (code != TN_OK || t->ndim < 0 || t->shape[0] < 0) return code;
  if (t->shape[0] % size == 0) return TN_OK;
  return TN_FAIL(call, TN_SHAPE,
                 "axis 0 has length %lld, which is no multiple of the %lld "
                 "ranks of the group",
                 (long long)t->shape[0], (long long)size);
}

/* Relates a part and a whole: axis 0 of the whole is `size` times as long. */
static int32_t infer_parts(const tn_frame *call, uint32_t part_list,
                           const tn_tensor *part, const tn_tensor *whole,
                           int64_t size) {
  const uint32_t whole_list =
      part_list == TN_OPERAND_IN ? TN_OPERAND_OUT : TN_OPERAND_IN;
  int32_t code = check_rank(call, part);
  if (code == TN_OK) code = check_division(call, whole, size);
  if (code == TN_OK && part->ndim > 0) {
    const int64_t n =
        part->shape[0] < 0 ? -1 : tn_size_times(part->shape[0], size);
    if (part->shape[0] >= 0 && n < 0)
      return TN_FAIL(call, TN_OUT_OF_RANGE,
                     "axis 0 of all ranks is longer than 64 bits count");
    code = set_with_length(call, whole_list, 0, part, n);
  }
  if (code == TN_OK && whole->ndim > 0)
    code = set_with_length(call, part_list, 0, whole,
                           whole->shape[0] < 0 ? -1 : whole->shape[0] / size);
  return code;
}

int32_t comm_all_gather_infer(const tn_frame *call) {
  int64_t size = 1;
  const int32_t code =
      get_size(call, comm_all_gather_params_of(call)->group, &size);
  if (code != TN_OK) return code;
  return infer_parts(call, TN_OPERAND_IN, &call->in[0], &call->out[0], size);
}

int32_t comm_reduce_scatter_infer(const tn_frame *call) {
  int64_t size = 1;
  const int32_t code =
      get_size(call, comm_reduce_scatter_params_of(call)->group, &size);
  if (code != TN_OK) return code;
  return infer_parts(call, TN_OPERAND_OUT, &call->out[0], &call->in[0], size);
}

int32_t comm_all_to_all_infer(const tn_frame *call) {
  int64_t size = 1;
  int32_t code = get_size(call, comm_all_to_all_params_of(call)->group, &size);
  if (code == TN_OK) code = check_division(call, &call->in[0], size);
  if (code == TN_OK) code = set_same(call, TN_OPERAND_OUT, 0, &call->in[0]);
  if (code == TN_OK) code = set_same(call, TN_OPERAND_IN, 0, &call->out[0]);
  return code;
}
