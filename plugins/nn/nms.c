/* SPDX-License-Identifier: Apache-2.0
 * nms.c: shapes and CPU kernels of nms.yaml. A group is a class of an image:
 * its boxes are sorted by their scores, and compared with those that are
 * selected.
 */
#include "nms.h"

#include "nms.gen.h"
#include "tenon/kernel/checked_size.h"
#include "tenon/kernel/kernel.h"

enum { BOXES = NN_NMS_IN_BOXES, SCORES = NN_NMS_IN_SCORES };

static int64_t find_least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* Both operators have these parameters. */
static nn_nms_view read_view(const tn_frame *call) {
  const nn_nms_params *p = nn_nms_params_of(call);
  const int64_t *boxes = call->in[BOXES].shape,
                *scores = call->in[SCORES].shape;
  return (nn_nms_view){.images = boxes[0],
                       .boxes = boxes[1],
                       .classes = scores[1],
                       .most = find_least(p->max_output, boxes[1]),
                       .overlap = p->iou_threshold,
                       .score = p->score_threshold,
                       .has_score = p->has_score_threshold,
                       .is_center = p->center_point_box};
}

int32_t nn_nms_infer(const tn_frame *call) {
  const tn_tensor *boxes = &call->in[BOXES], *scores = &call->in[SCORES];
  const int64_t most = nn_nms_params_of(call)->max_output;
  int64_t shape[] = {-1, 3};
  if (boxes->ndim == 3 && scores->ndim == 3 && boxes->shape[0] >= 0 &&
      boxes->shape[1] >= 0 && scores->shape[1] >= 0) {
    shape[0] = tn_size_times(boxes->shape[0], scores->shape[1]);
    if (shape[0] >= 0)
      shape[0] = tn_size_times(shape[0], find_least(most, boxes->shape[1]));
    if (shape[0] < 0)
      return TN_FAIL(call, TN_SHAPE,
                     "the number of rows is beyond 64 bits; pass a lower "
                     "max_output");
  }
  return call->host->set_shape(call, TN_OPERAND_OUT, 0, 2, shape);
}

/* ------------------------------------------------------------------- groups */

/* A box of a group, and its score. */
typedef struct scored {
  double score;
  int64_t box;
} scored;

typedef struct nms_args {
  const tn_frame *call;
  nn_nms_view v;
  nn_nms_box *boxes; /* of all images */
  scored *scored;    /* 2 * boxes of each group: of a merge sort */
  int64_t *selected; /* `most` of each group */
  int64_t *counts;   /* of each group */
} nms_args;

static void read_numbers(const tn_tensor *from, int64_t begin, int64_t n,
                         double *to) {
  const tn_kernel_mode mode = {TN_F64, 0};
  tn_kernel_load_dense(
      to, &mode, (const char *)from->data + begin * tn_dtype_bytes(from->dtype),
      from->dtype, n);
}

static int32_t box_slice(void *arg, int64_t begin, int64_t end) {
  const nms_args *a = (const nms_args *)arg;
  for (int64_t i = begin; i < end; ++i) {
    double v[4];
    read_numbers(&a->call->in[BOXES], 4 * i, 4, v);
    a->boxes[i] = nn_nms_make_box(v, a->v.is_center);
  }
  return TN_OK;
}

/* Reads the boxes of a group that count. Returns their number. */
static int64_t read_scores(const nms_args *a, int64_t group, scored *to) {
  enum { PART = 256 };
  double score[PART];
  int64_t n = 0;
  for (int64_t i = 0; i < a->v.boxes; i += PART) {
    const int64_t some = find_least(PART, a->v.boxes - i);
    read_numbers(&a->call->in[SCORES], group * a->v.boxes + i, some, score);
    for (int64_t k = 0; k < some; ++k)
      if (nn_nms_counts(&a->v, score[k])) to[n++] = (scored){score[k], i + k};
  }
  return n;
}

/* Merges runs [begin, middle) and [middle, end); equal scores keep their
 * order. */
static void merge_runs(const scored *from, const int64_t *ends, scored *to) {
  int64_t a = ends[0], b = ends[1];
  for (int64_t i = ends[0]; i < ends[2]; ++i)
    if (b == ends[2] || (a < ends[1] && from[a].score >= from[b].score))
      to[i] = from[a++];
    else
      to[i] = from[b++];
}

/* Sorts by scores, the highest first. Returns the one of two arrays with the
 * result. */
static scored *sort_scores(scored *from, scored *to, int64_t n) {
  for (int64_t width = 1; width < n; width *= 2) {
    for (int64_t i = 0; i < n; i += 2 * width) {
      const int64_t ends[] = {i, find_least(i + width, n),
                              find_least(i + 2 * width, n)};
      merge_runs(from, ends, to);
    }
    scored *sorted = to;
    to = from;
    from = sorted;
  }
  return from;
}

static int is_suppressed(const nms_args *a, const nn_nms_box *boxes,
                         const int64_t *selected, int64_t n, int64_t box) {
  for (int64_t k = 0; k < n; ++k)
    if (nn_nms_overlaps(&boxes[selected[k]], &boxes[box], a->v.overlap))
      return 1;
  return 0;
}

static int32_t group_slice(void *arg, int64_t begin, int64_t end) {
  const nms_args *a = (const nms_args *)arg;
  for (int64_t group = begin; group < end; ++group) {
    const nn_nms_box *boxes = a->boxes + group / a->v.classes * a->v.boxes;
    scored *room = a->scored + 2 * group * a->v.boxes;
    int64_t *selected = a->selected + group * a->v.most;
    const int64_t n = read_scores(a, group, room);
    const scored *sorted = sort_scores(room, room + a->v.boxes, n);
    int64_t count = 0;
    for (int64_t i = 0; i < n && count < a->v.most; ++i)
      if (!is_suppressed(a, boxes, selected, count, sorted[i].box))
        selected[count++] = sorted[i].box;
    a->counts[group] = count;
  }
  return TN_OK;
}

/* -------------------------------------------------------------------- calls */

int32_t nn_nms_bytes(const tn_frame *call, uint64_t *bytes) {
  const nn_nms_view v = read_view(call);
  const int64_t groups = v.images * v.classes;
  *bytes = 0;
  if (groups * v.most == 0) return TN_OK;
  *bytes = (uint64_t)(v.images * v.boxes) * sizeof(nn_nms_box) +
           (uint64_t)(groups * v.boxes) * 2 * sizeof(scored) +
           (uint64_t)(groups * (v.most + 1)) * sizeof(int64_t);
  return TN_OK;
}

/* Selects the boxes of all groups; *total becomes their number. */
static int32_t select_boxes(nms_args *a, const tn_frame *call, int64_t *total) {
  const nn_nms_view v = read_view(call);
  const int64_t groups = v.images * v.classes;
  memset(a, 0, sizeof *a);
  *total = 0;
  a->call = call;
  a->v = v;
  if (groups * v.most == 0) return TN_OK;
  a->boxes = (nn_nms_box *)call->ws[0];
  a->scored = (scored *)(void *)(a->boxes + v.images * v.boxes);
  a->selected = (int64_t *)(void *)(a->scored + 2 * groups * v.boxes);
  a->counts = a->selected + groups * v.most;
  int32_t code = call->host->parallel_for(call, v.images * v.boxes,
                                          TN_KERNEL_GRAIN / 16, box_slice, a);
  if (code == TN_OK)
    code = call->host->parallel_for(call, groups, 1, group_slice, a);
  for (int64_t i = 0; i < groups && code == TN_OK; ++i) *total += a->counts[i];
  return code;
}

/* Writes the rows of the selected boxes. Returns the end. */
static int64_t *write_rows(const nms_args *a, int64_t *to) {
  const int64_t groups = a->counts ? a->v.images * a->v.classes : 0;
  for (int64_t group = 0; group < groups; ++group)
    for (int64_t k = 0; k < a->counts[group]; ++k) {
      *to++ = group / a->v.classes;
      *to++ = group % a->v.classes;
      *to++ = a->selected[group * a->v.most + k];
    }
  return to;
}

int32_t nn_nms(const tn_frame *call) {
  const tn_tensor *out = &call->out[NN_NMS_OUT_OUT];
  nms_args a;
  int64_t total;
  const int32_t code = select_boxes(&a, call, &total);
  if (code != TN_OK) return code;
  if (call->req[NN_NMS_OUT_COUNT] != TN_REQ_NULL)
    *(int64_t *)call->out[NN_NMS_OUT_COUNT].data = total;
  if (call->req[NN_NMS_OUT_OUT] == TN_REQ_NULL || tn_tensor_size(out) == 0)
    return TN_OK;
  int64_t *to = write_rows(&a, (int64_t *)out->data);
  while (to < (int64_t *)out->data + tn_tensor_size(out)) *to++ = -1;
  return TN_OK;
}

int32_t nn_nms_selected(const tn_frame *call) {
  nms_args a;
  int64_t shape[] = {0, 3};
  int32_t code = select_boxes(&a, call, &shape[0]);
  if (code == TN_OK)
    code = call->host->set_shape(call, TN_OPERAND_OUT, 0, 2, shape);
  if (code == TN_OK && shape[0] > 0)
    (void)write_rows(&a, (int64_t *)call->out[0].data);
  return code;
}
