/* SPDX-License-Identifier: Apache-2.0
 * call.c: the common part of all kernels: the decision, the workspace, and the
 * tasks of a call.
 */
#include <limits.h>

#include "cusolver.h"

enum {
  ALIGNED = 256,
  EDGE_OF_EACH = 16 /* part of an edge for each matrix that is computed after
                     * another */
};

static const tn_device_lapack *get_lapack(const tn_frame *call) {
  const cusolver_instance *self = call->instance;
  return &self->lapack;
}

/* ---------------------------------------------------------------- decision */

cusolver_sizes cusolver_find_sizes(const tn_tensor *tensor) {
  cusolver_sizes sizes = {1, tensor->shape[tensor->ndim - 2],
                          tensor->shape[tensor->ndim - 1]};
  for (int32_t d = 0; d < tensor->ndim - 2; ++d)
    sizes.count *= tensor->shape[d];
  return sizes;
}

/* The shorter edge of the first input; 0 if the second input has none. */
static int64_t find_edge(const tn_frame *call, const cusolver_sizes *sizes) {
  if (call->n_in > 1) {
    const cusolver_sizes second = cusolver_find_sizes(&call->in[1]);
    if (second.m == 0 || second.n == 0) return 0;
  }
  return sizes->m < sizes->n ? sizes->m : sizes->n;
}

/* Plugin linalg computes a matrix in one block of threads, so a batch occupies
 * a GPU, and a matrix alone one multiprocessor. These libraries spread a matrix
 * over the GPU, with tens of launches each. So they compute
 *
 *   - no matrix with an edge below `least`: launches take longer than the work;
 *   - batches of any number if they have a function for many matrices;
 *   - otherwise one matrix after the other: one, or one for each 16 elements of
 *     an edge.
 *
 * These bounds are estimates; no GPU has measured them. */
int32_t cusolver_decide(const tn_frame *call, int64_t least, int has_batch) {
  const cusolver_sizes sizes = cusolver_find_sizes(&call->in[0]);
  const int64_t edge = find_edge(call, &sizes);
  if (edge < least || sizes.count == 0)
    return TN_FAIL(call, TN_UNSUPPORTED,
                   "matrices with an edge of %lld; this kernel is for %lld and "
                   "more (option `least`)",
                   (long long)edge, (long long)least);
  if (!has_batch && sizes.count > 1 && sizes.count > edge / EDGE_OF_EACH)
    return TN_FAIL(call, TN_UNSUPPORTED,
                   "%lld matrices with an edge of %lld: one after the other is "
                   "slower than a block of threads for each",
                   (long long)sizes.count, (long long)edge);
  if (sizes.m > INT_MAX || sizes.n > INT_MAX || sizes.count > INT_MAX)
    return TN_FAIL(call, TN_UNSUPPORTED, "a length is above 2^31 - 1");
  return TN_OK;
}

/* --------------------------------------------------------------- workspace */

static void *take_bytes(cusolver_room *room, uint64_t bytes) {
  void *part = room->at ? room->at + room->bytes : NULL;
  room->bytes += (bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
  return part;
}

int32_t *cusolver_take_numbers(cusolver_room *room, int64_t n) {
  return take_bytes(room, (uint64_t)n * sizeof(int32_t));
}

void *cusolver_take(const tn_frame *call, cusolver_room *room, int64_t n) {
  return take_bytes(room, (uint64_t)(n * tn_dtype_bytes(call->in[0].dtype)));
}

void *cusolver_take_output(const tn_frame *call, cusolver_room *room,
                           uint32_t k) {
  if (call->req[k] == TN_REQ_NULL)
    return cusolver_take(call, room, tn_tensor_size(&call->out[k]));
  return room->at ? call->out[k].data : NULL;
}

cusolver_parts cusolver_begin_parts(const tn_frame *call, int64_t count) {
  cusolver_parts parts = {.flags = {.count = count}};
  if (call->n_ws > 0 && call->ws) parts.room.at = call->ws[0];
  parts.flags.odd = cusolver_take_numbers(&parts.room, count);
  parts.flags.info = cusolver_take_numbers(&parts.room, count);
  parts.a_list = take_bytes(&parts.room, (uint64_t)count * sizeof(void *));
  parts.b_list = take_bytes(&parts.room, (uint64_t)count * sizeof(void *));
  return parts;
}

/* ------------------------------------------------------------------- tasks */

tn_device_task cusolver_describe(const tn_frame *call,
                                 const cusolver_parts *parts, uint32_t kind,
                                 const cusolver_sizes *sizes) {
  return (tn_device_task){.struct_size = sizeof(tn_device_task),
                          .kind = kind,
                          .dtype = call->in[0].dtype,
                          .m = sizes->m,
                          .n = sizes->n,
                          .lda = sizes->n,
                          .ldb = sizes->n,
                          .ldc = sizes->n,
                          .count = sizes->count,
                          .step_a = sizes->m * sizes->n,
                          .step_b = sizes->m * sizes->n,
                          .step_c = sizes->m * sizes->n,
                          .alpha = 1,
                          .info = parts->flags.info,
                          .a_list = parts->a_list,
                          .b_list = parts->b_list};
}

int32_t cusolver_count_bytes(const tn_frame *call, const cusolver_parts *parts,
                             const tn_device_task *tasks, int n,
                             uint64_t *bytes) {
  const tn_device_lapack *lapack = get_lapack(call);
  uint64_t most = 0;
  int32_t code = TN_OK;
  for (int i = 0; i < n && code == TN_OK; ++i) {
    uint64_t more = 0;
    code = lapack->plan(lapack, call, &tasks[i], &more);
    if (more > most) most = more;
  }
  *bytes = parts->room.bytes + most;
  return code;
}

int32_t cusolver_run(const tn_frame *call, const cusolver_parts *parts,
                     tn_device_task *task) {
  const tn_device_lapack *lapack = get_lapack(call);
  task->ws = parts->room.at + parts->room.bytes;
  task->ws_bytes = call->ws_bytes[0] - parts->room.bytes;
  return lapack->run(lapack, call, task);
}

int32_t cusolver_begin(const tn_frame *call, const cusolver_parts *parts,
                       const tn_device_task *task) {
  const int64_t width = tn_dtype_bytes(task->dtype);
  cusolver_list lists[2];
  int n = 0;
  if (task->a)
    lists[n++] = (cusolver_list){parts->a_list, task->a, task->step_a * width};
  if (task->b)
    lists[n++] = (cusolver_list){parts->b_list, task->b, task->step_b * width};
  return cusolver_clear_flags(call, &parts->flags, lists,
                              task->count > 1 ? n : 0);
}

cusolver_move cusolver_move_all(const cusolver_sizes *sizes, const void *from,
                                void *to, int transposes) {
  return (cusolver_move){.rows = sizes->m,
                         .columns = sizes->n,
                         .from = from,
                         .ld = transposes ? sizes->m : sizes->n,
                         .step = sizes->m * sizes->n,
                         .to = to,
                         .part = CUSOLVER_ALL,
                         .transposes = transposes};
}

int32_t cusolver_run_first(const tn_frame *call, const cusolver_parts *parts,
                           tn_device_task *task, const cusolver_move *in) {
  int32_t code = cusolver_begin(call, parts, task);
  if (code == TN_OK) code = cusolver_copy_in(call, &parts->flags, in);
  return code == TN_OK ? cusolver_run(call, parts, task) : code;
}

int32_t cusolver_write_output(const tn_frame *call, const cusolver_parts *parts,
                              uint32_t k, const cusolver_move *move) {
  return call->req[k] == TN_REQ_NULL
             ? TN_OK
             : cusolver_copy_out(call, &parts->flags, move);
}
