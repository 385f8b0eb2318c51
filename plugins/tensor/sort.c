/* SPDX-License-Identifier: Apache-2.0
 * sort.c: the operators of sort.yaml on the CPU. sort_lines.c and sort_select.c
 * find the order; the gradients are moves by known places.
 */
#include "sort.gen.h"
#include "sort_task.h"

/* ----------------------------------------------------------------- forward */

static char *find_output(const tn_frame *call, uint32_t i) {
  return call->req[i] == TN_REQ_NULL ? NULL : (char *)call->out[i].data;
}

int32_t tensor_sort_bytes(const tn_frame *call, uint64_t *bytes) {
  sort_lines lines;
  *bytes = 0;
  if (call->flags & TN_CALL_BACKWARD) return TN_OK;
  const int32_t code = sort_read_sort(call, &call->in[0], &lines);
  if (code == TN_OK) *bytes = sort_count_bytes(&lines);
  return code;
}

int32_t tensor_sort(const tn_frame *call) {
  sort_lines lines;
  sort_task t;
  int32_t code = sort_read_sort(call, &call->in[0], &lines);
  if (code == TN_OK) code = sort_task_init(&t, call, &lines);
  if (code != TN_OK) return code;
  t.values = find_output(call, TENSOR_SORT_OUT_OUT);
  t.places = (int64_t *)(void *)find_output(call, TENSOR_SORT_OUT_PLACES);
  return sort_run(&t);
}

int32_t tensor_argsort(const tn_frame *call) {
  sort_lines lines;
  sort_task t;
  int32_t code = sort_read_sort(call, &call->in[0], &lines);
  if (code == TN_OK) code = sort_task_init(&t, call, &lines);
  if (code != TN_OK) return code;
  t.places = (int64_t *)call->out[0].data;
  return sort_run(&t);
}

int32_t tensor_topk_bytes(const tn_frame *call, uint64_t *bytes) {
  sort_lines lines;
  *bytes = 0;
  if (call->flags & TN_CALL_BACKWARD) return TN_OK;
  const int32_t code = sort_read_topk(call, &call->in[0], &lines);
  if (code != TN_OK) return code;
  *bytes = sort_selects(&lines, tn_dtype_bytes(call->in[0].dtype))
               ? sort_count_selection_bytes(&lines)
               : sort_count_bytes(&lines);
  return TN_OK;
}

static int32_t run_topk(sort_task *t) {
  return sort_selects(&t->lines, t->keys.bytes) ? sort_run_selection(t)
                                                : sort_run(t);
}

int32_t tensor_topk(const tn_frame *call) {
  sort_lines lines;
  sort_task t;
  int32_t code = sort_read_topk(call, &call->in[0], &lines);
  if (code == TN_OK) code = sort_task_init(&t, call, &lines);
  if (code != TN_OK) return code;
  t.values = find_output(call, TENSOR_TOPK_OUT_VALUES);
  t.places = (int64_t *)(void *)find_output(call, TENSOR_TOPK_OUT_INDICES);
  return run_topk(&t);
}

int32_t tensor_topk_mask(const tn_frame *call) {
  sort_lines lines;
  sort_task t;
  int32_t code = sort_read_topk(call, &call->in[0], &lines);
  if (code == TN_OK) code = sort_task_init(&t, call, &lines);
  if (code == TN_OK) code = tensor_fill_zeros(call, &call->out[0]);
  if (code != TN_OK) return code;
  t.mask = (char *)call->out[0].data;
  t.one = tensor_element_of(1, call->out[0].dtype);
  return run_topk(&t);
}

/* ---------------------------------------------------------------- gradients */

/* Lines of results, and the lines of data in which they have places. */
typedef struct move_args {
  const tn_frame *call;
  sort_lines lines;
  char *results; /* k of each line */
  char *elements;
  const int64_t *places;
  int64_t bytes;
  int gathers; /* results are read from elements, and not moved to them */
} move_args;

#define MOVE(type)                                             \
  do {                                                         \
    type *results = (type *)(void *)a->results;                \
    type *elements = (type *)(void *)a->elements + first;      \
    if (a->gathers)                                            \
      for (int64_t r = 0; r < l->k; ++r)                       \
        results[at + r * l->inner] =                           \
            elements[a->places[at + r * l->inner] * l->inner]; \
    else                                                       \
      for (int64_t r = 0; r < l->k; ++r)                       \
        elements[a->places[at + r * l->inner] * l->inner] =    \
            results[at + r * l->inner];                        \
  } while (0)

static void move_line(const move_args *a, int64_t i) {
  const sort_lines *l = &a->lines;
  const int64_t outer = i / l->inner, column = i % l->inner;
  const int64_t at = outer * l->k * l->inner + column;
  const int64_t first = outer * l->n * l->inner + column;
  if (a->bytes == 1) MOVE(uint8_t);
  if (a->bytes == 2) MOVE(uint16_t);
  if (a->bytes == 4) MOVE(uint32_t);
  if (a->bytes == 8) MOVE(uint64_t);
}

static int32_t move_slice(void *arg, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) move_line((const move_args *)arg, i);
  return TN_OK;
}

/* Checks every place before anything is written. */
static int32_t check_places(const move_args *a) {
  const sort_lines *l = &a->lines;
  const int64_t size = l->outer * l->k * l->inner;
  for (int64_t i = 0; i < size; ++i)
    if (a->places[i] < 0 || a->places[i] >= l->n)
      return TN_FAIL(a->call, TN_OUT_OF_RANGE,
                     "place %lld (number %lld) is out of range: the lines of "
                     "`data` have %lld elements",
                     (long long)a->places[i], (long long)i, (long long)l->n);
  return TN_OK;
}

static int32_t move_lines(move_args *a) {
  const sort_lines *l = &a->lines;
  const int64_t lines = l->outer * l->inner;
  const int32_t code = check_places(a);
  if (code != TN_OK || lines == 0 || l->k == 0) return code;
  const int64_t grain = TN_KERNEL_GRAIN / 8 / l->k;
  return a->call->host->parallel_for(a->call, lines, grain > 0 ? grain : 1,
                                     move_slice, a);
}

/* in = [gradient of out, of places, data, out, places] */
static int32_t scatter_places(const tn_frame *call, const sort_lines *lines) {
  move_args a = {
      .call = call,
      .lines = *lines,
      .results = (char *)call->in[TENSOR_SORT_BACKWARD_GRAD_OUT].data,
      .elements = (char *)call->out[0].data,
      .places = (const int64_t *)call->in[TENSOR_SORT_BACKWARD_OUT_PLACES].data,
      .bytes = tn_dtype_bytes(call->out[0].dtype)};
  if (call->req[0] == TN_REQ_NULL) return TN_OK;
  const int32_t code = tensor_fill_zeros(call, &call->out[0]);
  return code == TN_OK ? move_lines(&a) : code;
}

int32_t tensor_sort_backward(const tn_frame *call) {
  sort_lines lines;
  const int32_t code = sort_read_sort(call, &call->out[0], &lines);
  return code == TN_OK ? scatter_places(call, &lines) : code;
}

int32_t tensor_topk_backward(const tn_frame *call) {
  sort_lines lines;
  const int32_t code = sort_read_topk(call, &call->out[0], &lines);
  return code == TN_OK ? scatter_places(call, &lines) : code;
}

/* in = [gradient of data_slope, five inputs of sort_grad, data_slope] */
static int32_t gather_places(const tn_frame *call, const sort_lines *lines) {
  move_args a = {
      .call = call,
      .lines = *lines,
      .results = (char *)call->out[0].data,
      .elements =
          (char *)call->in[TENSOR_SORT_GRAD_BACKWARD_GRAD_DATA_SLOPE].data,
      .places =
          (const int64_t *)call->in[TENSOR_SORT_GRAD_BACKWARD_IN_PLACES].data,
      .bytes = tn_dtype_bytes(call->out[0].dtype),
      .gathers = 1};
  int32_t code = TN_OK;
  for (uint32_t i = 1; i < call->n_out && code == TN_OK; ++i)
    if (call->req[i] != TN_REQ_NULL)
      code = tensor_fill_zeros(call, &call->out[i]);
  return code == TN_OK && call->req[0] != TN_REQ_NULL ? move_lines(&a) : code;
}

int32_t tensor_sort_gather(const tn_frame *call) {
  sort_lines lines;
  const int32_t code = sort_read_sort(
      call, &call->in[TENSOR_SORT_GRAD_BACKWARD_GRAD_DATA_SLOPE], &lines);
  return code == TN_OK ? gather_places(call, &lines) : code;
}

int32_t tensor_topk_gather(const tn_frame *call) {
  sort_lines lines;
  const int32_t code = sort_read_topk(
      call, &call->in[TENSOR_SORT_GRAD_BACKWARD_GRAD_DATA_SLOPE], &lines);
  return code == TN_OK ? gather_places(call, &lines) : code;
}
