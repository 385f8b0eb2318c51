/* SPDX-License-Identifier: Apache-2.0
 * roi.c: kernels of roi.yaml. The weights of roi_align are those of rows times
 * those of columns, so a table for each dimension is computed once for all
 * channels of a region.
 */
#include "roi.gen.h"

#include <math.h>
#include <string.h>

#include "axis.h"
#include "operands.h"
#include "roi_calls.h"
#include "window.h"
#include "workspaces.h"

enum { CHANNELS = 16 }; /* channels of a slice of a gradient */

/* A call in f32 or f64, as the argument of a parallel loop. */
typedef struct roi_work {
  nn_roi_view view;
  tn_dtype dtype;
  const char *data; /* or the output gradient */
  const char *rois;
  char *to;
  int32_t *chosen; /* indices of roi_pooling; NULL: not requested */
  int is_back;
  nn_workspaces workspaces; /* tables of roi_align */
} roi_work;

/* Returns the image of a region. */
static int64_t find_image(const roi_work *w, int64_t region) {
  return (int64_t)nn_operands_get(w->dtype, w->rois, region * 5);
}

/* Reports a region whose image does not exist. */
static int32_t check_regions(const tn_frame *call, const roi_work *w) {
  for (int64_t r = 0; r < w->view.regions; ++r) {
    const double image = nn_operands_get(w->dtype, w->rois, r * 5);
    if (image > -1 && image < (double)w->view.images) continue;
    return TN_FAIL(call, TN_OUT_OF_RANGE,
                   "region %lld is of image %g, but `data` has %lld images",
                   (long long)r, image, (long long)w->view.images);
  }
  return TN_OK;
}

/* Returns the number of groups of channels. */
static int64_t count_groups(const nn_roi_view *v) {
  return (v->channels + CHANNELS - 1) / CHANNELS;
}

/* Sets the gradients of a group of channels of all images to 0. */
static void clear_group(const roi_work *w, int64_t group) {
  const nn_roi_view *v = &w->view;
  const int64_t bytes = v->size[0] * v->size[1] * tn_dtype_bytes(w->dtype);
  const int64_t first = group * CHANNELS;
  const int64_t n = nn_min(CHANNELS, v->channels - first);
  for (int64_t i = 0; i < v->images; ++i)
    memset(w->to + (i * v->channels + first) * bytes, 0, (size_t)(n * bytes));
}

/* ----------------------------------------------------------------- pooling */

/* Returns the index of the largest element of a bin in a plane, -1 if it has
 * none. */
static int64_t find_largest(const roi_work *w, int64_t plane, nn_roi_range down,
                            nn_roi_range across) {
  const nn_roi_view *v = &w->view;
  const int64_t first = plane * v->size[0] * v->size[1];
  int64_t best = -1;
  double largest = 0;
  for (int64_t y = down.begin; y < down.end; ++y)
    for (int64_t x = across.begin; x < across.end && !isnan(largest); ++x) {
      const int64_t at = y * v->size[1] + x;
      const double e = nn_operands_get(w->dtype, w->data, first + at);
      if (best >= 0 && !(e > largest) && !isnan(e)) continue;
      best = at;
      largest = e;
    }
  return best;
}

/* Pools planes [begin, end), a channel of a region each. */
static int32_t pool_slice(void *arg, int64_t begin, int64_t end) {
  const roi_work *w = arg;
  const nn_roi_view *v = &w->view;
  const int64_t bins = v->bins[0] * v->bins[1];
  const int64_t size = v->size[0] * v->size[1];
  for (int64_t i = begin * bins; i < end * bins; ++i) {
    const int64_t region = i / bins / v->channels, bin = i % bins;
    const char *roi =
        w->rois + region * 5 * tn_dtype_bytes(w->dtype); /* its numbers */
    const int64_t plane =
        find_image(w, region) * v->channels + i / bins % v->channels;
    const nn_roi_range down = nn_roi_find_bin(
        v, 0, bin / v->bins[1], nn_operands_get(w->dtype, roi, 2),
        nn_operands_get(w->dtype, roi, 4));
    const nn_roi_range across = nn_roi_find_bin(
        v, 1, bin % v->bins[1], nn_operands_get(w->dtype, roi, 1),
        nn_operands_get(w->dtype, roi, 3));
    const int64_t at = find_largest(w, plane, down, across);
    if (w->chosen) w->chosen[i] = (int32_t)at;
    if (w->to)
      nn_operands_set(
          w->dtype, w->to, i,
          at < 0 ? 0 : nn_operands_get(w->dtype, w->data, plane * size + at),
          0);
  }
  return TN_OK;
}

/* Computes the gradient of groups of channels [begin, end). */
static int32_t unpool_slice(void *arg, int64_t begin, int64_t end) {
  const roi_work *w = arg;
  const nn_roi_view *v = &w->view;
  const int64_t bins = v->bins[0] * v->bins[1];
  const int64_t size = v->size[0] * v->size[1];
  for (int64_t group = begin; group < end; ++group) {
    const int64_t first = group * CHANNELS;
    const int64_t last = nn_min(first + CHANNELS, v->channels);
    clear_group(w, group);
    for (int64_t i = 0; i < v->regions * (last - first) * bins; ++i) {
      const int64_t region = i / bins / (last - first);
      const int64_t c = first + i / bins % (last - first);
      const int64_t from = (region * v->channels + c) * bins + i % bins;
      const int64_t plane = find_image(w, region) * v->channels + c;
      if (w->chosen[from] >= 0 && w->chosen[from] < size)
        nn_operands_set(w->dtype, w->to, plane * size + w->chosen[from],
                        nn_operands_get(w->dtype, w->data, from), 1);
    }
  }
  return TN_OK;
}

/* Sets *bytes to the workspace of a call. */
int32_t nn_roi_pooling_bytes(const tn_frame *call, uint64_t *bytes) {
  *bytes = nn_operands_count_bytes(call);
  return TN_OK;
}

/* Reports images that 31 bits cannot count. */
static int32_t check_size(const tn_frame *call, const nn_roi_view *v) {
  if (v->size[0] * v->size[1] <= INT32_MAX) return TN_OK;
  return TN_FAIL(call, TN_OUT_OF_RANGE,
                 "an image of one channel has %lld elements, but at most %ld "
                 "are supported; divide it",
                 (long long)(v->size[0] * v->size[1]), (long)INT32_MAX);
}

int32_t nn_roi_pooling(const tn_frame *call) {
  nn_operands x = nn_operands_open(call, call->ws[0]);
  roi_work w = {.view = nn_roi_pooling_view_call(call),
                .dtype = x.dtype,
                .data = nn_operands_open_input(&x, 0),
                .rois = nn_operands_open_input(&x, 1)};
  const int64_t size = w.view.size[0] * w.view.size[1];
  int32_t code = check_regions(call, &w);
  if (code == TN_OK) code = check_size(call, &w.view);
  if (code != TN_OK) return code;
  if (call->req[0] != TN_REQ_NULL) w.to = nn_operands_open_output(&x, 0);
  if (call->req[1] != TN_REQ_NULL) w.chosen = call->out[1].data;
  code = nn_run_parallel(call, w.view.regions * w.view.channels, size,
                         pool_slice, &w);
  if (code == TN_OK && w.to) nn_operands_close_output(&x, 0, w.to);
  return code;
}

int32_t nn_roi_pooling_backward(const tn_frame *call) {
  nn_operands x = nn_operands_open(call, call->ws[0]);
  if (call->req[0] == TN_REQ_NULL || tn_tensor_size(&call->out[0]) == 0)
    return TN_OK;
  roi_work w = {
      .view = nn_roi_pooling_view_call(call),
      .dtype = x.dtype,
      .data = nn_operands_open_input(&x, NN_ROI_POOLING_BACKWARD_GRAD_OUT),
      .rois = nn_operands_open_input(&x, NN_ROI_POOLING_BACKWARD_IN_ROIS),
      .to = nn_operands_open_output(&x, NN_ROI_POOLING_IN_DATA),
      .chosen = call->in[NN_ROI_POOLING_BACKWARD_OUT_CHOSEN].data};
  int32_t code = check_regions(call, &w);
  if (code == TN_OK)
    code = nn_run_parallel(call, count_groups(&w.view), TN_KERNEL_GRAIN,
                           unpool_slice, &w);
  if (code == TN_OK) nn_operands_close_output(&x, 0, w.to);
  return code;
}

/* --------------------------------------------------------------- alignment */

/* The weights of the bins of a region along a dimension: bin p has those of the
 * elements from ranges[p].begin on at weights + p*n. */
typedef struct roi_table {
  nn_roi_range *ranges;
  double *weights;
  int64_t n; /* elements of the dimension */
} roi_table;

/* Bytes of the table of dimension d; a multiple of 64. */
static uint64_t count_table_bytes(const nn_roi_view *v, int d) {
  const int64_t numbers = v->bins[d] * (2 + v->size[d]);
  return ((uint64_t)numbers * 8 + 63) / 64 * 64;
}

/* Fills the table of dimension d of a region in a workspace. */
static roi_table fill_table(const roi_work *w, int64_t region, int d,
                            char *memory) {
  const nn_roi_view *v = &w->view;
  const nn_roi_line line = nn_roi_find_line(
      v, d, nn_operands_get(w->dtype, w->rois, region * 5 + 2 - d),
      nn_operands_get(w->dtype, w->rois, region * 5 + 4 - d));
  roi_table table = {.n = v->size[d]};
  table.ranges = (nn_roi_range *)(void *)memory;
  table.weights = (double *)(void *)(table.ranges + v->bins[d]);
  for (int64_t p = 0; p < v->bins[d]; ++p) {
    nn_roi_range range = nn_roi_find_readable(&line, p, table.n);
    for (int64_t i = range.begin; i < range.end; ++i)
      table.weights[p * table.n + i - range.begin] =
          nn_roi_weigh(&line, p, i, table.n);
    table.ranges[p] = range;
  }
  return table;
}

/* Returns the mean of bin (p, q) in a plane. */
static double reduce_bin(const roi_work *w, const roi_table *tables,
                         const int64_t *bin, int64_t plane) {
  const nn_roi_range down = tables[0].ranges[bin[0]];
  const nn_roi_range across = tables[1].ranges[bin[1]];
  const double *rows = tables[0].weights + bin[0] * tables[0].n;
  const double *columns = tables[1].weights + bin[1] * tables[1].n;
  double sum = 0;
  for (int64_t y = down.begin; y < down.end; ++y) {
    const int64_t at = (plane * tables[0].n + y) * tables[1].n;
    double row = 0;
    if (!(rows[y - down.begin] > 0)) continue;
    for (int64_t x = across.begin; x < across.end; ++x)
      if (columns[x - across.begin] > 0)
        row += columns[x - across.begin] *
               nn_operands_get(w->dtype, w->data, at + x);
    sum += rows[y - down.begin] * row;
  }
  return sum;
}

/* Adds the gradient of bin (p, q) to a plane. */
static void add_bin(const roi_work *w, const roi_table *tables,
                    const int64_t *bin, int64_t plane, double gradient) {
  const nn_roi_range down = tables[0].ranges[bin[0]];
  const nn_roi_range across = tables[1].ranges[bin[1]];
  const double *rows = tables[0].weights + bin[0] * tables[0].n;
  const double *columns = tables[1].weights + bin[1] * tables[1].n;
  for (int64_t y = down.begin; y < down.end; ++y) {
    const int64_t at = (plane * tables[0].n + y) * tables[1].n;
    const double row = gradient * rows[y - down.begin];
    if (!(rows[y - down.begin] > 0)) continue;
    for (int64_t x = across.begin; x < across.end; ++x)
      if (columns[x - across.begin] > 0)
        nn_operands_set(w->dtype, w->to, at + x,
                        row * columns[x - across.begin], 1);
  }
}

/* Computes channels [first, last) of a region, or adds their gradients. */
static void align_channels(const roi_work *w, int64_t region, nn_range channels,
                           char *memory) {
  const nn_roi_view *v = &w->view;
  const int64_t bins = v->bins[0] * v->bins[1];
  const int64_t image = find_image(w, region);
  const roi_table tables[] = {
      fill_table(w, region, 0, memory),
      fill_table(w, region, 1, memory + count_table_bytes(v, 0))};
  for (int64_t c = channels.begin; c < channels.end; ++c)
    for (int64_t i = 0; i < bins; ++i) {
      const int64_t bin[] = {i / v->bins[1], i % v->bins[1]};
      const int64_t plane = image * v->channels + c;
      const int64_t own = (region * v->channels + c) * bins + i;
      if (w->is_back)
        add_bin(w, tables, bin, plane, nn_operands_get(w->dtype, w->data, own));
      else
        nn_operands_set(w->dtype, w->to, own, reduce_bin(w, tables, bin, plane),
                        0);
    }
}

/* Computes regions [begin, end). */
static int32_t align_slice(void *arg, int64_t begin, int64_t end) {
  roi_work *w = arg;
  const uint32_t slot = nn_take_workspace(&w->workspaces);
  for (int64_t r = begin; r < end; ++r)
    align_channels(w, r, (nn_range){0, w->view.channels},
                   nn_locate_workspace(&w->workspaces, slot));
  nn_release_workspace(&w->workspaces, slot);
  return TN_OK;
}

/* Computes the gradient of groups of channels [begin, end). */
static int32_t spread_slice(void *arg, int64_t begin, int64_t end) {
  roi_work *w = arg;
  const uint32_t slot = nn_take_workspace(&w->workspaces);
  for (int64_t group = begin; group < end; ++group) {
    const int64_t first = group * CHANNELS;
    const nn_range channels = {first,
                               nn_min(first + CHANNELS, w->view.channels)};
    clear_group(w, group);
    for (int64_t r = 0; r < w->view.regions; ++r)
      align_channels(w, r, channels, nn_locate_workspace(&w->workspaces, slot));
  }
  nn_release_workspace(&w->workspaces, slot);
  return TN_OK;
}

/* Returns the workspaces for the tables of slices. */
static nn_workspaces plan_workspaces(const tn_frame *call,
                                     const nn_roi_view *v) {
  const int is_back = (call->flags & TN_CALL_BACKWARD) != 0;
  return (nn_workspaces){
      .bytes = count_table_bytes(v, 0) + count_table_bytes(v, 1),
      .n = nn_choose_workspace_count(is_back ? count_groups(v) : v->regions)};
}

/* Sets *bytes to the workspace of a call. */
int32_t nn_roi_align_bytes(const tn_frame *call, uint64_t *bytes) {
  const nn_roi_view v = nn_roi_align_view_call(call);
  const nn_workspaces workspaces = plan_workspaces(call, &v);
  *bytes = nn_operands_count_bytes(call) + workspaces.n * workspaces.bytes;
  return TN_OK;
}

/* Runs a call, forward or backward. */
int32_t nn_roi_align(const tn_frame *call) {
  const int is_back = (call->flags & TN_CALL_BACKWARD) != 0;
  nn_operands x = nn_operands_open(call, call->ws[0]);
  if (call->req[0] == TN_REQ_NULL || tn_tensor_size(&call->out[0]) == 0)
    return TN_OK;
  roi_work w = {.view = nn_roi_align_view_call(call),
                .dtype = x.dtype,
                .data = nn_operands_open_input(&x, 0),
                .rois = nn_operands_open_input(
                    &x, is_back ? (uint32_t)NN_ROI_ALIGN_BACKWARD_IN_ROIS
                                : (uint32_t)NN_ROI_ALIGN_IN_ROIS),
                .to = nn_operands_open_output(&x, 0),
                .is_back = is_back};
  const int64_t each = w.view.channels * w.view.bins[0] * w.view.bins[1] * 16;
  int32_t code = check_regions(call, &w);
  if (code != TN_OK) return code;
  w.workspaces = plan_workspaces(call, &w.view);
  w.workspaces.memory = (char *)call->ws[0] + nn_operands_count_bytes(call);
  code = is_back ? nn_run_parallel(call, count_groups(&w.view), TN_KERNEL_GRAIN,
                                   spread_slice, &w)
                 : nn_run_parallel(call, w.view.regions, each, align_slice, &w);
  if (code == TN_OK) nn_operands_close_output(&x, 0, w.to);
  return code;
}

int32_t nn_roi_align_backward(const tn_frame *call) {
  return nn_roi_align(call);
}
