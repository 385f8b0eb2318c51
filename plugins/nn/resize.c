/* SPDX-License-Identifier: Apache-2.0
 * resize.c: shapes and kernels of resize.yaml. A call resizes one axis after
 * the other: a slice, a part of the outer dimensions, runs through all passes
 * while it is in the cache.
 */
#include "resize.h"

#include "axis.h"
#include "nn.h"
#include "second.h"
#include "window.h"
#include "workspaces.h"

/* ------------------------------------------------------------------ shapes */

/* Checks the lists of parameters by themselves. */
static int32_t check_lists(const tn_frame *call) {
  const nn_resize_params *p = nn_resize_params_of(call);
  const int64_t n = p->sizes.n > 0 ? p->sizes.n : p->scales.n;
  if (n == 0)
    return TN_FAIL(call, TN_INVALID,
                   "there is no length: give `scales` or `sizes`, with a "
                   "number for each resized axis");
  if (p->axes.n > 0 && p->axes.n != n)
    return TN_FAIL(call, TN_INVALID,
                   "`axes` has %lld numbers, but `%s` has %lld; give one for "
                   "each axis",
                   (long long)p->axes.n, p->sizes.n > 0 ? "sizes" : "scales",
                   (long long)n);
  if (p->roi.n != 0 && p->roi.n != 2 * n)
    return TN_FAIL(call, TN_INVALID,
                   "`roi` has %lld numbers, but must have %lld: the starts and "
                   "then the ends of all resized axes",
                   (long long)p->roi.n, (long long)(2 * n));
  for (int64_t k = 0; p->sizes.n == 0 && k < n; ++k)
    if (!(p->scales.v[k] > 0 && p->scales.v[k] < 1e18))
      return TN_FAIL(call, TN_OUT_OF_RANGE,
                     "number %lld of `scales` is %g; it must be more than 0 "
                     "and less than 1e18",
                     (long long)k, p->scales.v[k]);
  for (int64_t k = 0; k < p->roi.n; ++k)
    if (!(p->roi.v[k] > -1e18 && p->roi.v[k] < 1e18))
      return TN_FAIL(call, TN_OUT_OF_RANGE,
                     "number %lld of `roi` is %g; it must be between -1e18 and "
                     "1e18",
                     (long long)k, p->roi.v[k]);
  return TN_OK;
}

/* Checks the axes for data of rank ndim. */
static int32_t check_axes(const tn_frame *call, int32_t ndim) {
  const nn_resize_params *p = nn_resize_params_of(call);
  const int64_t n = p->sizes.n > 0 ? p->sizes.n : p->scales.n;
  uint32_t seen = 0;
  if (p->axes.n == 0 && n != ndim)
    return TN_FAIL(call, TN_SHAPE,
                   "`%s` has %lld numbers, but `data` has %d dimensions; give "
                   "one for each, or `axes`",
                   p->sizes.n > 0 ? "sizes" : "scales", (long long)n,
                   (int)ndim);
  for (int64_t k = 0; k < p->axes.n; ++k) {
    const int64_t d = nn_resize_find_dim(p, k, ndim);
    if (d < 0 || d >= ndim)
      return TN_FAIL(call, TN_OUT_OF_RANGE,
                     "number %lld of `axes` is %lld, but `data` has %d "
                     "dimensions",
                     (long long)k, (long long)p->axes.v[k], (int)ndim);
    if (seen >> d & 1)
      return TN_FAIL(call, TN_INVALID,
                     "`axes` names dimension %lld twice; name each once",
                     (long long)d);
    seen |= 1u << d;
  }
  return TN_OK;
}

/* Checks an axis whose length is known. */
static int32_t check_axis(const tn_frame *call, int32_t dim,
                          const nn_resize_axis *axis) {
  if (axis->n_in == 0 && axis->n_out != 0)
    return TN_FAIL(call, TN_SHAPE,
                   "dimension %d of `data` is empty and cannot be resized; "
                   "pass at least one element",
                   (int)dim);
  if (axis->n_out < -1)
    return TN_FAIL(call, TN_OUT_OF_RANGE,
                   "dimension %d of `out` would have more elements than 64 "
                   "bits count; choose a smaller scale",
                   (int)dim);
  return TN_OK;
}

int32_t nn_resize_infer(const tn_frame *call) {
  const nn_resize_params *p = nn_resize_params_of(call);
  const tn_tensor *data = &call->in[0], *out = &call->out[0];
  int64_t from[TN_MAX_NDIM], to[TN_MAX_NDIM];
  int32_t ndim = data->ndim >= 0 ? data->ndim : out->ndim;
  int32_t code = check_lists(call);
  if (code != TN_OK || ndim < 0) return code;
  code = check_axes(call, ndim);
  if (code != TN_OK) return code;
  for (int32_t d = 0; d < ndim; ++d)
    from[d] = data->ndim >= 0 ? data->shape[d] : -1;
  const nn_resize_view v = nn_resize_make_view(p, ndim, from);
  for (int32_t d = 0; d < ndim; ++d) {
    int32_t k = 0;
    while (k < v.n && v.dim[k] != d) ++k;
    if (k == v.n && from[d] < 0 && out->ndim == ndim) from[d] = out->shape[d];
    to[d] = k < v.n ? v.axis[k].n_out : from[d];
    if (k < v.n && code == TN_OK) code = check_axis(call, d, &v.axis[k]);
  }
  if (code == TN_OK)
    code = call->host->set_shape(call, TN_OPERAND_IN, 0, ndim, from);
  if (code != TN_OK) return code;
  return call->host->set_shape(call, TN_OPERAND_OUT, 0, ndim, to);
}

int32_t nn_resize_grad_infer(const tn_frame *call) {
  static const uint32_t in[] = {1}, out[] = {0};
  return nn_infer_like_forward(
      call, &(nn_forward_inference){nn_resize_infer, in, out, 1, 1});
}

/* -------------------------------------------------------------------- plan */

/* The passes of a call. A slice has `group` units, the last one the rest. A
 * unit has the elements of all dimensions from the first resized one on. */
typedef struct resize_plan {
  nn_resize_view view;
  nn_resize_table tables[TN_MAX_NDIM];
  nn_resize_pass passes[TN_MAX_NDIM]; /* for one unit */
  int32_t n;
  int is_back;
  tn_dtype compute;
  uint32_t level;
  int64_t units;
  int64_t group;
  int64_t unit_from; /* elements of a unit */
  int64_t unit_to;
  int64_t unit_most;   /* largest number of elements between passes */
  uint64_t line_bytes; /* of the memory for rows */
} resize_plan;

/* Returns the type of the computation. */
static tn_dtype find_compute_type(tn_dtype dtype) {
  return dtype == TN_F64 ? TN_F64 : TN_F32;
}

/* Plans pass i over dimension dim of a tensor of `shape`, and changes the shape
 * as the pass does. */
static void plan_pass(resize_plan *plan, int32_t i, int32_t first, int32_t ndim,
                      int64_t *shape) {
  const int32_t k = plan->is_back ? plan->n - 1 - i : i;
  const nn_resize_axis *axis = &plan->view.axis[k];
  const int32_t dim = plan->view.dim[k];
  nn_resize_pass *pass = &plan->passes[i];
  int64_t n = 1;
  pass->mode = (tn_kernel_mode){plan->compute, plan->level};
  pass->outer = pass->inner = 1;
  for (int32_t d = first; d < dim; ++d) pass->outer *= shape[d];
  for (int32_t d = dim + 1; d < ndim; ++d) pass->inner *= shape[d];
  shape[dim] = plan->is_back ? axis->n_in : axis->n_out;
  for (int32_t d = first; d < ndim; ++d) n *= shape[d];
  plan->unit_most = nn_max(plan->unit_most, n);
  if (pass->inner > 1) return;
  const uint64_t bytes = nn_resize_count_line_bytes(axis->n_in) +
                         nn_resize_count_line_bytes(axis->n_out);
  if (bytes > plan->line_bytes) plan->line_bytes = bytes;
}

/* Returns the plan of a call, without tables. */
static resize_plan make_plan(const tn_frame *call) {
  const tn_tensor *from = &call->in[0], *to = &call->out[0];
  resize_plan plan;
  int64_t shape[TN_MAX_NDIM];
  int32_t first = from->ndim;
  memset(&plan, 0, sizeof plan);
  plan.view = nn_resize_view_call(call);
  plan.n = plan.view.n;
  plan.is_back = (call->flags & TN_CALL_BACKWARD) != 0;
  plan.compute = find_compute_type(to->dtype);
  plan.level = tn_kernel_level(call);
  plan.units = plan.unit_from = plan.unit_to = 1;
  for (int32_t k = 0; k < plan.n; ++k)
    if (plan.view.dim[k] < first) first = plan.view.dim[k];
  for (int32_t d = 0; d < from->ndim; ++d) {
    shape[d] = from->shape[d];
    if (d < first) plan.units *= from->shape[d];
    if (d >= first) plan.unit_from *= from->shape[d];
    if (d >= first) plan.unit_to *= to->shape[d];
  }
  for (int32_t i = 0; i < plan.n; ++i)
    plan_pass(&plan, i, first, from->ndim, shape);
  plan.group = first + 1 < from->ndim ? 1 : NN_RESIZE_ROWS;
  return plan;
}

/* Bytes of all tables. */
static uint64_t count_table_bytes(const resize_plan *plan) {
  uint64_t bytes = 0;
  for (int32_t k = 0; k < plan->n; ++k)
    bytes += nn_resize_count_table_bytes(&plan->view.axis[k]);
  return bytes;
}

/* Bytes of one array between passes; a multiple of 64. */
static uint64_t count_array_bytes(const resize_plan *plan) {
  const int64_t n = plan->group * nn_max(plan->unit_most, plan->unit_from);
  const int64_t bytes = n * tn_dtype_bytes(plan->compute);
  return ((uint64_t)bytes + 63) / 64 * 64;
}

/* Returns the workspaces that slices share: two arrays and memory for rows. */
static nn_workspaces plan_workspaces(const resize_plan *plan) {
  const int64_t slices = (plan->units + plan->group - 1) / plan->group;
  return (nn_workspaces){
      .bytes = 2 * count_array_bytes(plan) + plan->line_bytes,
      .n = nn_choose_workspace_count(slices)};
}

/* ----------------------------------------------------------------- kernels */

/* A call, as the argument of a parallel loop over slices. */
typedef struct resize_work {
  const tn_frame *call;
  resize_plan plan;
  nn_workspaces workspaces;
} resize_work;

/* Rounds n elements to whole numbers. */
static void round_elements(float *x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] = nearbyintf(x[i]);
}

/* Converts a result of n elements to the type of the output, at element `at`.
 */
static void store_result(const resize_work *w, int64_t at, void *from,
                         int64_t n) {
  const tn_tensor *to = &w->call->out[0];
  const tn_kernel_mode mode = {w->plan.compute, w->plan.level};
  if (to->dtype == TN_I8 || to->dtype == TN_U8) round_elements(from, n);
  tn_kernel_store_dense((char *)to->data + at * tn_dtype_bytes(to->dtype),
                        to->dtype, from, &mode, n);
}

/* Runs all passes over units [unit, unit + n) of the input. */
static void run_passes(const resize_work *w, int64_t unit, int64_t n,
                       char *memory) {
  const resize_plan *plan = &w->plan;
  const tn_tensor *in = &w->call->in[0], *to = &w->call->out[0];
  const tn_kernel_mode mode = {plan->compute, plan->level};
  char *arrays[] = {memory, memory + count_array_bytes(plan)};
  char *result =
      (char *)to->data + unit * plan->unit_to * tn_dtype_bytes(to->dtype);
  char *from =
      (char *)in->data + unit * plan->unit_from * tn_dtype_bytes(in->dtype);
  if (in->dtype != plan->compute) {
    tn_kernel_load_dense(arrays[1], &mode, from, in->dtype,
                         n * plan->unit_from);
    from = arrays[1];
  }
  for (int32_t i = 0; i < plan->n; ++i) {
    nn_resize_pass pass = plan->passes[i];
    const int is_last = i == plan->n - 1 && to->dtype == plan->compute;
    char *next = is_last ? result : arrays[i % 2];
    pass.outer *= n;
    pass.lines = arrays[1] + count_array_bytes(plan);
    nn_resize_run_pass(&pass, from, next);
    from = next;
  }
  if (from != result)
    store_result(w, unit * plan->unit_to, from, n * plan->unit_to);
}

/* Computes slices [begin, end). */
static int32_t run_slices(void *arg, int64_t begin, int64_t end) {
  resize_work *w = arg;
  const int64_t group = w->plan.group;
  const uint32_t slot = nn_take_workspace(&w->workspaces);
  for (int64_t i = begin; i < end; ++i)
    run_passes(w, i * group, nn_min(group, w->plan.units - i * group),
               nn_locate_workspace(&w->workspaces, slot));
  nn_release_workspace(&w->workspaces, slot);
  return TN_OK;
}

/* Fills the tables of all axes, and passes them to their passes. */
static void fill_tables(resize_plan *plan, char *memory, double outside) {
  for (int32_t k = 0; k < plan->n; ++k) {
    nn_resize_table *table = &plan->tables[k];
    nn_resize_fill_table(table, &plan->view.axis[k], plan->compute,
                         plan->is_back, memory);
    if (!plan->is_back) table->outside = outside;
    memory += nn_resize_count_table_bytes(&plan->view.axis[k]);
    plan->passes[plan->is_back ? plan->n - 1 - k : k].table = table;
  }
}

/* Sets *bytes to the workspace of a call. */
int32_t nn_resize_bytes(const tn_frame *call, uint64_t *bytes) {
  const resize_plan plan = make_plan(call);
  const nn_workspaces workspaces = plan_workspaces(&plan);
  *bytes = count_table_bytes(&plan) + workspaces.n * workspaces.bytes;
  return TN_OK;
}

int32_t nn_resize(const tn_frame *call) {
  resize_work w = {.call = call, .plan = make_plan(call)};
  const int64_t n = w.plan.unit_from + w.plan.unit_to;
  const int64_t slices = (w.plan.units + w.plan.group - 1) / w.plan.group;
  if (call->req[0] == TN_REQ_NULL || tn_tensor_size(&call->out[0]) == 0)
    return TN_OK;
  fill_tables(&w.plan, call->ws[0],
              nn_resize_params_of(call)->extrapolation_value);
  w.workspaces = plan_workspaces(&w.plan);
  w.workspaces.memory = (char *)call->ws[0] + count_table_bytes(&w.plan);
  return nn_run_parallel(call, slices, w.plan.group * n, run_slices, &w);
}

int32_t nn_resize_backward(const tn_frame *call) {
  return nn_resize(call);
}

int32_t nn_resize_grad(const tn_frame *call) {
  const tn_frame own = nn_make_backward_call(call);
  return nn_resize(&own);
}

int32_t nn_resize_grad_bytes(const tn_frame *call, uint64_t *bytes) {
  const tn_frame own = nn_make_backward_call(call);
  return nn_resize_bytes(&own, bytes);
}
