/* SPDX-License-Identifier: Apache-2.0
 * nms.cu: nn.nms on CUDA devices. Keys of scores are sorted for each class of
 * each image. A block then has such a group: it takes the boxes one after the
 * other, and its threads compare a box with the selected ones.
 */
#include "nms.h"

#include "nms.gen.h"
#include "nn.cuh"
#include "tenon/kernel/scatter.cuh"

enum { IN, KEYS, BOXES, SELECTED, COUNTS, OUT, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> nn_nms_arrays;

/* A key of a box that does not count. */
#define NN_NMS_NONE INT64_MAX

/* The highest score has the least key; -0 equals 0. */
__device__ __forceinline__ int64_t nn_nms_key(double score) {
  int64_t bits;
  if (score == 0) return -1;
  memcpy(&bits, &score, sizeof bits);
  return ~(bits < 0 ? bits ^ INT64_MAX : bits);
}

__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_nms_make_boxes(nn_nms_arrays a, nn_nms_view v) {
  nn_nms_box *boxes = (nn_nms_box *)a.at[BOXES].data;
  for (int64_t i = nn_first_index(); i < v.images * v.boxes;
       i += nn_index_step()) {
    double numbers[4];
    for (int k = 0; k < 4; ++k)
      numbers[k] = tn_cuda_read<double>(a.at[IN], 4 * i + k);
    boxes[i] = nn_nms_make_box(numbers, v.is_center);
  }
}

__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_nms_make_keys(nn_nms_arrays a, nn_nms_view v) {
  tn_cuda_key *keys = (tn_cuda_key *)a.at[KEYS].data;
  for (int64_t i = nn_first_index(); i < v.images * v.classes * v.boxes;
       i += nn_index_step()) {
    const double score = tn_cuda_read<double>(a.at[IN], i);
    keys[i].value = nn_nms_counts(&v, score) ? nn_nms_key(score) : NN_NMS_NONE;
    keys[i].i = i % v.boxes;
  }
}

/* A block has a group. */
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_nms_select(nn_nms_arrays a, nn_nms_view v) {
  __shared__ int hit;
  for (int64_t group = blockIdx.x; group < v.images * v.classes;
       group += gridDim.x) {
    const tn_cuda_key *keys =
        (const tn_cuda_key *)a.at[KEYS].data + group * v.boxes;
    const nn_nms_box *boxes =
        (const nn_nms_box *)a.at[BOXES].data + group / v.classes * v.boxes;
    int64_t *selected = (int64_t *)a.at[SELECTED].data + group * v.most;
    int64_t count = 0;
    for (int64_t i = 0; i < v.boxes && count < v.most; ++i) {
      if (keys[i].value == NN_NMS_NONE) break;
      const nn_nms_box box = boxes[keys[i].i];
      if (threadIdx.x == 0) hit = 0;
      __syncthreads();
      for (int64_t k = threadIdx.x; k < count; k += TN_CUDA_THREADS)
        if (nn_nms_overlaps(&boxes[selected[k]], &box, v.overlap)) hit = 1;
      __syncthreads();
      const int is_suppressed = hit;
      if (!is_suppressed && threadIdx.x == 0) selected[count] = keys[i].i;
      __syncthreads();
      count += !is_suppressed;
    }
    if (threadIdx.x == 0) ((int64_t *)a.at[COUNTS].data)[group] = count;
    __syncthreads();
  }
}

/* One thread: counts become the numbers of rows before each group, and the one
 * after the last group the number of all rows. */
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_nms_add_counts(nn_nms_arrays a, nn_nms_view v) {
  int64_t *counts = (int64_t *)a.at[COUNTS].data, sum = 0;
  if (nn_first_index() > 0) return;
  for (int64_t group = 0; group < v.images * v.classes; ++group) {
    const int64_t count = counts[group];
    counts[group] = sum;
    sum += count;
  }
  counts[v.images * v.classes] = sum;
  if (a.at[OUT].data != NULL) *(int64_t *)a.at[OUT].data = sum;
}

/* A thread has a row of a group. The rows after those of all groups are filled
 * by the threads of rows that no box is selected for. */
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_nms_write_rows(nn_nms_arrays a, nn_nms_view v) {
  const int64_t *counts = (const int64_t *)a.at[COUNTS].data;
  const int64_t groups = v.images * v.classes, total = counts[groups];
  int64_t *out = (int64_t *)a.at[OUT].data;
  for (int64_t i = nn_first_index(); i < groups * v.most;
       i += nn_index_step()) {
    const int64_t group = i / v.most, k = i % v.most;
    if (i >= total)
      for (int j = 0; j < 3; ++j) out[3 * i + j] = -1;
    if (k >= counts[group + 1] - counts[group]) continue;
    int64_t *row = out + 3 * (counts[group] + k);
    row[0] = group / v.classes;
    row[1] = group % v.classes;
    row[2] = ((const int64_t *)a.at[SELECTED].data)[i];
  }
}

/* -------------------------------------------------------------------- host */

static nn_nms_view view_of(const tn_frame *call) {
  const nn_nms_params *p = nn_nms_params_of(call);
  const int64_t *boxes = call->in[NN_NMS_IN_BOXES].shape;
  nn_nms_view v;
  memset(&v, 0, sizeof v);
  v.images = boxes[0];
  v.boxes = boxes[1];
  v.classes = call->in[NN_NMS_IN_SCORES].shape[1];
  v.most = p->max_output < v.boxes ? p->max_output : v.boxes;
  v.overlap = p->iou_threshold;
  v.score = p->score_threshold;
  v.has_score = p->has_score_threshold;
  v.is_center = p->center_point_box;
  return v;
}

static uint64_t box_bytes(const nn_nms_view &v) {
  return (uint64_t)(v.images * v.boxes) * sizeof(nn_nms_box);
}

int32_t nn_nms_cuda_bytes(const tn_frame *call, uint64_t *bytes) {
  const nn_nms_view v = view_of(call);
  const int64_t groups = v.images * v.classes;
  *bytes = sizeof(int64_t); /* of a call without boxes: one count */
  if (groups * v.most == 0) return TN_OK;
  *bytes = tn_cuda_key_bytes(groups * v.boxes) + box_bytes(v) +
           (uint64_t)(groups * v.most + groups + 1) * sizeof(int64_t);
  return TN_OK;
}

/* The arrays of the workspace. */
static nn_nms_arrays rooms_of(const tn_frame *call, const nn_nms_view &v) {
  const int64_t groups = v.images * v.classes, n = groups * v.boxes;
  char *room = (char *)call->ws[0] + tn_cuda_key_bytes(n);
  nn_nms_arrays a = {};
  a.at[KEYS] = tn_cuda_key_array(call->ws[0], n);
  a.at[BOXES] = tn_cuda_room(room, TN_U8, (int64_t)box_bytes(v));
  room += box_bytes(v);
  a.at[SELECTED] = tn_cuda_room(room, TN_I64, groups * v.most);
  room += (uint64_t)(groups * v.most) * sizeof(int64_t);
  a.at[COUNTS] = tn_cuda_room(room, TN_I64, groups + 1);
  return a;
}

/* Makes the boxes and the sorted keys. */
static int32_t prepare(const tn_frame *call, const nn_nms_view &v,
                       cudaStream_t stream, nn_nms_arrays *a) {
  nn_nms_arrays boxes = {}, keys = {};
  const int64_t n = v.images * v.classes * v.boxes;
  boxes.at[IN] = tn_cuda_from(&call->in[NN_NMS_IN_BOXES]);
  boxes.at[BOXES] = a->at[BOXES];
  keys.at[IN] = tn_cuda_from(&call->in[NN_NMS_IN_SCORES]);
  keys.at[KEYS] = a->at[KEYS];
  int32_t code = tn_cuda_start_each(call, nn_nms_make_boxes, v.images * v.boxes,
                                    stream, boxes, v);
  if (code == TN_OK)
    code = tn_cuda_start_each(call, nn_nms_make_keys, n, stream, keys, v);
  const tn_cuda_runs runs = {n, v.boxes, 0};
  if (code == TN_OK)
    code = tn_cuda_sort_lines(call, call->ws[0], runs, stream, &a->at[KEYS]);
  a->at[BOXES].writes = 0;
  return code;
}

static int32_t run_nms(const tn_frame *call, const nn_nms_view &v,
                       cudaStream_t stream) {
  const int64_t groups = v.images * v.classes;
  nn_nms_arrays a = rooms_of(call, v), counts = {}, rows = {};
  int32_t code = prepare(call, v, stream, &a);
  if (code == TN_OK)
    code = tn_cuda_start(call, nn_nms_select, groups, stream, a, v);
  counts.at[COUNTS] = a.at[COUNTS];
  counts.at[OUT] =
      tn_cuda_to(&call->out[NN_NMS_OUT_COUNT], call->req[NN_NMS_OUT_COUNT]);
  if (code == TN_OK)
    code = tn_cuda_start(call, nn_nms_add_counts, 1, stream, counts, v);
  if (code != TN_OK || call->req[NN_NMS_OUT_OUT] == TN_REQ_NULL) return code;
  rows.at[COUNTS] = a.at[COUNTS];
  rows.at[SELECTED] = a.at[SELECTED];
  rows.at[COUNTS].writes = rows.at[SELECTED].writes = 0;
  rows.at[OUT] =
      tn_cuda_to(&call->out[NN_NMS_OUT_OUT], call->req[NN_NMS_OUT_OUT]);
  return tn_cuda_start_each(call, nn_nms_write_rows, groups * v.most, stream,
                            rows, v);
}

int32_t nn_nms_cuda(const tn_frame *call) {
  const nn_nms_view v = view_of(call);
  const int64_t groups = v.images * v.classes;
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    if (groups * v.most > 0) return run_nms(call, v, stream);
    nn_nms_view none = v;
    nn_nms_arrays a = {};
    none.images = 0;
    a.at[COUNTS] = tn_cuda_room(call->ws[0], TN_I64, 1);
    a.at[OUT] =
        tn_cuda_to(&call->out[NN_NMS_OUT_COUNT], call->req[NN_NMS_OUT_COUNT]);
    return tn_cuda_start(call, nn_nms_add_counts, 1, stream, a, none);
  });
}
