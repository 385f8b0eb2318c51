/* SPDX-License-Identifier: Apache-2.0
 * dynamic.c: nonzero, compress and masked_select of dynamic.yaml. Elements
 * decide the shapes: a first pass counts the selected elements of each part,
 * and a second one writes them to their places.
 */
#include "dynamic.gen.h"
#include "move.h"
#include "tenon/kernel/kernel.h"

static int64_t find_least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static int32_t set_shape(const tn_frame *call, int32_t ndim,
                         const int64_t *shape) {
  return call->host->set_shape(call, TN_OPERAND_OUT, 0, ndim, shape);
}

/* Counts of parts become the numbers of elements before them. Returns the
 * sum. */
static int64_t sum_counts(int64_t *counts, int64_t n) {
  int64_t sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t count = counts[i];
    counts[i] = sum;
    sum += count;
  }
  return sum;
}

/* ------------------------------------------------------------------ nonzero */

enum { PART = 8192 /* elements */ };

typedef struct nonzero_args {
  const tn_frame *call;
  const tn_tensor *data;
  int64_t size;
  int64_t total;   /* elements that are not 0 */
  int64_t *counts; /* of each part */
} nonzero_args;

/* Sets `is` to 1 for each element that is not 0. The sign of a float does not
 * count. */
#define TEST(type, ignored)                                     \
  do {                                                          \
    const type *x = (const type *)data->data + begin;           \
    const type mask = (type) ~(type)(ignored);                  \
    for (int64_t i = 0; i < n; ++i) is[i] = (x[i] & mask) != 0; \
  } while (0)

static void test_elements(const tn_tensor *data, int64_t begin, int64_t n,
                          uint8_t *is) {
  const int is_float = tensor_wide_dtype(data->dtype) == TN_F64;
  switch (tn_dtype_bytes(data->dtype)) {
    case 1:
      TEST(uint8_t, 0);
      return;
    case 2:
      TEST(uint16_t, is_float ? 0x8000 : 0);
      return;
    case 4:
      TEST(uint32_t, is_float ? 0x80000000 : 0);
      return;
    default:
      TEST(uint64_t, is_float ? 0x8000000000000000 : 0);
      return;
  }
}

static int32_t count_slice(void *arg, int64_t begin, int64_t end) {
  const nonzero_args *a = (const nonzero_args *)arg;
  uint8_t is[PART];
  for (int64_t part = begin; part < end; ++part) {
    const int64_t n = find_least(PART, a->size - part * PART);
    int64_t count = 0;
    test_elements(a->data, part * PART, n, is);
    for (int64_t i = 0; i < n; ++i) count += is[i];
    a->counts[part] = count;
  }
  return TN_OK;
}

/* Writes the indices of element i as column `to`. */
static void write_indices(const nonzero_args *a, int64_t i, int64_t to) {
  int64_t *out = (int64_t *)a->call->out[0].data;
  for (int32_t d = a->data->ndim; d-- > 0; i /= a->data->shape[d])
    out[d * a->total + to] = i % a->data->shape[d];
}

static int32_t write_slice(void *arg, int64_t begin, int64_t end) {
  const nonzero_args *a = (const nonzero_args *)arg;
  uint8_t is[PART];
  for (int64_t part = begin; part < end; ++part) {
    const int64_t n = find_least(PART, a->size - part * PART);
    int64_t to = a->counts[part];
    test_elements(a->data, part * PART, n, is);
    for (int64_t i = 0; i < n; ++i)
      if (is[i]) write_indices(a, part * PART + i, to++);
  }
  return TN_OK;
}

static int64_t count_parts(int64_t size) {
  return (size + PART - 1) / PART;
}

int32_t tensor_nonzero_bytes(const tn_frame *call, uint64_t *bytes) {
  const int64_t parts = count_parts(tn_tensor_size(&call->in[0]));
  *bytes = (uint64_t)parts * sizeof(int64_t);
  return TN_OK;
}

int32_t tensor_nonzero(const tn_frame *call) {
  nonzero_args a = {.call = call,
                    .data = &call->in[0],
                    .size = tn_tensor_size(&call->in[0]),
                    .counts = (int64_t *)call->ws[0]};
  const int64_t parts = count_parts(a.size);
  int32_t code = TN_OK;
  if (parts > 0)
    code = call->host->parallel_for(call, parts, 1, count_slice, &a);
  if (code != TN_OK) return code;
  a.total = sum_counts(a.counts, parts);
  const int64_t shape[] = {a.data->ndim, a.total};
  code = set_shape(call, 2, shape);
  return code == TN_OK && a.total > 0
             ? call->host->parallel_for(call, parts, 1, write_slice, &a)
             : code;
}

/* ----------------------------------------------------------------- compress */

/* Slices of data along the axis, as (outer, n, inner). */
typedef struct slices {
  int32_t axis; /* -1: all elements as one line */
  int64_t outer, n, inner;
  int64_t count; /* selected ones */
  const uint8_t *is_selected;
  int64_t length; /* of is_selected */
  int64_t bytes;  /* of a row of a slice */
} slices;

static int32_t find_slices(const tn_frame *call, const tn_tensor *data,
                           const tn_tensor *condition, slices *s) {
  const tensor_compress_params *p = tensor_compress_params_of(call);
  memset(s, 0, sizeof *s);
  s->axis = -1;
  if (p->has_axis) {
    const int32_t code =
        tensor_axis(call, "axis", p->axis, data->ndim, &s->axis);
    if (code != TN_OK) return code;
  }
  s->outer = s->inner = s->n = 1;
  for (int32_t d = 0; d < data->ndim; ++d)
    *(s->axis < 0 || d == s->axis ? &s->n
      : d < s->axis               ? &s->outer
                                  : &s->inner) *= data->shape[d];
  s->is_selected = (const uint8_t *)condition->data;
  s->length = condition->shape[0];
  s->bytes = s->inner * tn_dtype_bytes(data->dtype);
  for (int64_t i = 0; i < s->length; ++i) s->count += s->is_selected[i];
  if (s->length <= s->n) return TN_OK;
  return TN_FAIL(call, TN_SHAPE,
                 "`condition` has %lld elements, more than the %lld %s of "
                 "`data`: pass one for each",
                 (long long)s->length, (long long)s->n,
                 s->axis < 0 ? "elements" : "slices");
}

/* Moves the selected slices to `packed`, or back. */
static void move_slices(const slices *s, char *data, char *packed, int back) {
  const size_t bytes = (size_t)s->bytes;
  for (int64_t o = 0; o < s->outer; ++o) {
    char *at = data + o * s->n * s->bytes;
    for (int64_t i = 0; i < s->length; ++i, at += s->bytes) {
      if (!s->is_selected[i]) continue;
      memcpy(back ? at : packed, back ? packed : at, bytes);
      packed += s->bytes;
    }
  }
}

int32_t tensor_compress(const tn_frame *call) {
  const tn_tensor *data = &call->in[TENSOR_COMPRESS_IN_DATA];
  int64_t shape[TN_MAX_NDIM];
  slices s;
  int32_t code =
      find_slices(call, data, &call->in[TENSOR_COMPRESS_IN_CONDITION], &s);
  if (code != TN_OK) return code;
  for (int32_t d = 0; d < data->ndim; ++d) shape[d] = data->shape[d];
  shape[s.axis < 0 ? 0 : s.axis] = s.count;
  code = set_shape(call, s.axis < 0 ? 1 : data->ndim, shape);
  if (code != TN_OK || s.count * s.outer * s.bytes == 0) return code;
  move_slices(&s, (char *)data->data, (char *)call->out[0].data, 0);
  return TN_OK;
}

/* Fails unless the gradient has `count` selected elements. */
static int32_t check_gradient(const tn_frame *call, const tn_tensor *head,
                              int64_t count) {
  if (tn_tensor_size(head) == count) return TN_OK;
  return TN_FAIL(call, TN_SHAPE,
                 "the gradient of `out` has %lld elements, but %lld are "
                 "selected",
                 (long long)tn_tensor_size(head), (long long)count);
}

/* Zeros for the gradient of a condition, which is never differentiated. */
static int32_t fill_gradients(const tn_frame *call) {
  for (uint32_t i = 0; i < call->n_out; ++i) {
    const int32_t code = call->req[i] == TN_REQ_NULL
                             ? TN_OK
                             : tensor_fill_zeros(call, &call->out[i]);
    if (code != TN_OK) return code;
  }
  return TN_OK;
}

/* in = [gradient of out, data, condition, out] */
int32_t tensor_compress_backward(const tn_frame *call) {
  const tn_tensor *head = &call->in[TENSOR_COMPRESS_BACKWARD_GRAD_OUT];
  slices s;
  int32_t code = fill_gradients(call);
  if (code != TN_OK || call->req[0] == TN_REQ_NULL) return code;
  code = find_slices(call, &call->out[0],
                     &call->in[TENSOR_COMPRESS_BACKWARD_IN_CONDITION], &s);
  if (code == TN_OK)
    code = check_gradient(call, head, s.count * s.outer * s.inner);
  if (code == TN_OK && tn_tensor_size(head) > 0)
    move_slices(&s, (char *)call->out[0].data, (char *)head->data, 1);
  return code;
}

/* ------------------------------------------------------------ masked_select */

/* Rows of data: all dimensions but the last. */
typedef struct masked {
  const tn_frame *call;
  const tn_tensor *data;
  const uint8_t *mask;
  int64_t step[TN_MAX_NDIM]; /* of mask: 0 where it is repeated */
  int64_t rows, length;
  int64_t bytes; /* of an element */
  int64_t *counts;
  char *packed;
  int back; /* packed elements go to data */
} masked;

static int32_t init_masked(masked *m, const tn_frame *call,
                           const tn_tensor *data, const tn_tensor *mask) {
  int64_t step = 1;
  int fits = mask->ndim == data->ndim;
  memset(m, 0, sizeof *m);
  for (int32_t d = data->ndim; fits && d-- > 0; step *= mask->shape[d]) {
    fits = mask->shape[d] == data->shape[d] || mask->shape[d] == 1;
    m->step[d] = mask->shape[d] == 1 ? 0 : step;
  }
  if (!fits)
    return TN_FAIL(call, TN_SHAPE,
                   "`mask` %s does not fit `data` %s: it must have the same "
                   "dimensions, or 1 for some",
                   tensor_shape_text(mask->ndim, mask->shape).text,
                   tensor_shape_text(data->ndim, data->shape).text);
  m->call = call;
  m->data = data;
  m->mask = (const uint8_t *)mask->data;
  m->length = data->ndim > 0 ? data->shape[data->ndim - 1] : 1;
  m->rows = m->length > 0 ? tn_tensor_size(data) / m->length : 0;
  m->bytes = tn_dtype_bytes(data->dtype);
  m->counts = (int64_t *)call->ws[0];
  return TN_OK;
}

/* The truths of a row, and *step from one to the next. */
static const uint8_t *find_row_mask(const masked *m, int64_t row,
                                    int64_t *step) {
  const int32_t last = m->data->ndim - 1;
  const uint8_t *at = m->mask;
  *step = last < 0 ? 0 : m->step[last];
  for (int32_t d = last; d-- > 0; row /= m->data->shape[d])
    at += row % m->data->shape[d] * m->step[d];
  return at;
}

static int32_t count_rows(void *arg, int64_t begin, int64_t end) {
  const masked *m = (const masked *)arg;
  for (int64_t row = begin; row < end; ++row) {
    int64_t step, count = 0;
    const uint8_t *is = find_row_mask(m, row, &step);
    for (int64_t i = 0; i < m->length; ++i) count += is[i * step];
    m->counts[row] = count;
  }
  return TN_OK;
}

static int32_t move_rows(void *arg, int64_t begin, int64_t end) {
  const masked *m = (const masked *)arg;
  const size_t bytes = (size_t)m->bytes;
  for (int64_t row = begin; row < end; ++row) {
    int64_t step;
    const uint8_t *is = find_row_mask(m, row, &step);
    char *at = (char *)m->data->data + row * m->length * m->bytes;
    char *packed = m->packed + m->counts[row] * m->bytes;
    for (int64_t i = 0; i < m->length; ++i, at += m->bytes) {
      if (!is[i * step]) continue;
      memcpy(m->back ? at : packed, m->back ? packed : at, bytes);
      packed += m->bytes;
    }
  }
  return TN_OK;
}

static int32_t run_rows(masked *m, tn_loop_body *slice) {
  const int64_t grain = TN_KERNEL_GRAIN / 4 / (m->length + 1);
  return m->rows == 0 ? TN_OK
                      : m->call->host->parallel_for(
                            m->call, m->rows, grain > 0 ? grain : 1, slice, m);
}

/* A count for each row. The shape of data is that of its gradient. */
int32_t tensor_masked_select_bytes(const tn_frame *call, uint64_t *bytes) {
  const int backward = (call->flags & TN_CALL_BACKWARD) != 0;
  const tn_tensor *data = backward ? &call->out[0] : &call->in[0];
  const int64_t length = data->ndim > 0 ? data->shape[data->ndim - 1] : 1;
  *bytes = length > 0
               ? (uint64_t)(tn_tensor_size(data) / length) * sizeof(int64_t)
               : 0;
  return TN_OK;
}

int32_t tensor_masked_select(const tn_frame *call) {
  masked m;
  int32_t code = init_masked(&m, call, &call->in[TENSOR_MASKED_SELECT_IN_DATA],
                             &call->in[TENSOR_MASKED_SELECT_IN_MASK]);
  if (code == TN_OK) code = run_rows(&m, count_rows);
  if (code != TN_OK) return code;
  const int64_t total = sum_counts(m.counts, m.rows);
  code = set_shape(call, 1, &total);
  m.packed = (char *)call->out[0].data;
  return code == TN_OK && total > 0 ? run_rows(&m, move_rows) : code;
}

/* in = [gradient of out, data, mask, out] */
int32_t tensor_masked_select_backward(const tn_frame *call) {
  const tn_tensor *head = &call->in[TENSOR_MASKED_SELECT_BACKWARD_GRAD_OUT];
  masked m;
  int32_t code = fill_gradients(call);
  if (code != TN_OK || call->req[0] == TN_REQ_NULL) return code;
  code = init_masked(&m, call, &call->out[0],
                     &call->in[TENSOR_MASKED_SELECT_BACKWARD_IN_MASK]);
  if (code == TN_OK) code = run_rows(&m, count_rows);
  if (code == TN_OK)
    code = check_gradient(call, head, sum_counts(m.counts, m.rows));
  m.packed = (char *)head->data;
  m.back = 1;
  return code == TN_OK && tn_tensor_size(head) > 0 ? run_rows(&m, move_rows)
                                                   : code;
}
