/* SPDX-License-Identifier: Apache-2.0
 * embedding.c: kernels of embedding.yaml. Backward, positions are sorted by
 * their rows, and each row of the gradient is made by one thread, once.
 */
#include "embedding.gen.h"

#include "axis.h"

enum { STAGE = 512 }; /* elements that are converted together */

/* ----------------------------------------------------------------- indices */

static int32_t refuse(const tn_frame *call, int64_t at, double index) {
  return TN_FAIL(call, TN_OUT_OF_RANGE,
                 "element %lld of `data` is %g, but `weight` has the rows 0 to "
                 "%lld",
                 (long long)at, index,
                 (long long)nn_embedding_params_of(call)->input_dim - 1);
}

/* All indices as rows of the matrix. */
static int32_t read_rows(const tn_frame *call, const tn_tensor *data,
                         int64_t *to) {
  const tn_kernel_mode mode = {TN_F64, tn_kernel_level(call)};
  const double limit = (double)nn_embedding_params_of(call)->input_dim;
  const int64_t n = tn_tensor_size(data), bytes = tn_dtype_bytes(data->dtype);
  double index[STAGE];
  for (int64_t at = 0; at < n; at += STAGE) {
    const int64_t some = n - at < STAGE ? n - at : STAGE;
    tn_kernel_load_dense(index, &mode, (const char *)data->data + at * bytes,
                         data->dtype, some);
    for (int64_t i = 0; i < some; ++i) {
      if (!(index[i] > -1 && index[i] < limit))
        return refuse(call, at + i, index[i]);
      to[at + i] = (int64_t)index[i];
    }
  }
  return TN_OK;
}

/* Forward the indices; backward also their positions, sorted, and where those
 * of each row begin. */
int32_t nn_embedding_bytes(const tn_frame *call, uint64_t *bytes) {
  const int back = (call->flags & TN_CALL_BACKWARD) != 0;
  const int64_t n = tn_tensor_size(
      &call->in[back ? NN_EMBEDDING_BACKWARD_IN_DATA : NN_EMBEDDING_IN_DATA]);
  const int64_t rows = nn_embedding_params_of(call)->input_dim + 2;
  *bytes = (uint64_t)(back ? 2 * n + rows : n) * sizeof(int64_t);
  return TN_OK;
}

typedef struct work {
  const tn_frame *call;
  tn_kernel_mode mode;
  int64_t length; /* of a row */
  int64_t bytes;  /* of an element */
  const int64_t *rows;
  const int64_t *begin; /* backward, of input_dim + 1 */
  const int64_t *positions;
} work;

static work work_of(const tn_frame *call, const tn_tensor *like) {
  return (work){.call = call,
                .mode = {tn_kernel_compute(like->dtype), tn_kernel_level(call)},
                .length = nn_embedding_params_of(call)->output_dim,
                .bytes = tn_dtype_bytes(like->dtype)};
}

/* to += from, n elements of a tensor's type. */
static void add(const work *w, char *to, const char *from, tn_dtype dtype,
                int64_t n) {
  double old[STAGE], more[STAGE];
  for (int64_t i = 0; i < n; i += STAGE) {
    const int64_t some = n - i < STAGE ? n - i : STAGE;
    tn_kernel_load_dense(old, &w->mode, to + i * w->bytes, dtype, some);
    tn_kernel_load_dense(more, &w->mode, from + i * w->bytes, dtype, some);
    tn_kernel_add_dense(old, more, &w->mode, some);
    tn_kernel_store_dense(to + i * w->bytes, dtype, old, &w->mode, some);
  }
}

/* ----------------------------------------------------------------- forward */

static int32_t copy_slice(void *arg, int64_t begin, int64_t end) {
  const work *w = arg;
  const tn_tensor *out = &w->call->out[NN_EMBEDDING_OUT_OUT];
  const char *weight = w->call->in[NN_EMBEDDING_IN_WEIGHT].data;
  const int64_t step = w->length * w->bytes;
  const int adds = w->call->req[NN_EMBEDDING_OUT_OUT] == TN_REQ_ADD;
  for (int64_t i = begin; i < end; ++i) {
    char *to = (char *)out->data + i * step;
    const char *from = weight + w->rows[i] * step;
    if (adds)
      add(w, to, from, out->dtype, w->length);
    else
      memcpy(to, from, (size_t)step);
  }
  return TN_OK;
}

int32_t nn_embedding(const tn_frame *call) {
  const tn_tensor *data = &call->in[NN_EMBEDDING_IN_DATA];
  work w = work_of(call, &call->in[NN_EMBEDDING_IN_WEIGHT]);
  int64_t *rows = call->ws[0];
  const int32_t code = read_rows(call, data, rows);
  w.rows = rows;
  return code == TN_OK
             ? nn_share(call, tn_tensor_size(data), w.length, copy_slice, &w)
             : code;
}

/* ---------------------------------------------------------------- backward */

/* Part of a row of the gradient, of at most STAGE elements: the sum of the
 * parts of those that chose it. */
static void sum_part(const work *w, int64_t row, int64_t at, int64_t n) {
  const tn_tensor *to = &w->call->out[NN_EMBEDDING_IN_WEIGHT];
  const char *head = w->call->in[NN_EMBEDDING_BACKWARD_GRAD_OUT].data;
  const int adds = w->call->req[NN_EMBEDDING_IN_WEIGHT] == TN_REQ_ADD;
  const int direct = to->dtype == w->mode.compute;
  char *place = (char *)to->data + (row * w->length + at) * w->bytes;
  double sum[STAGE], more[STAGE];
  int64_t k = w->begin[row];
  if (adds)
    tn_kernel_load_dense(sum, &w->mode, place, to->dtype, n);
  else
    memset(sum, 0, sizeof sum);
  for (; k < w->begin[row + 1]; ++k) {
    const char *from = head + (w->positions[k] * w->length + at) * w->bytes;
    if (!direct) tn_kernel_load_dense(more, &w->mode, from, to->dtype, n);
    tn_kernel_add_dense(sum, direct ? (const void *)from : more, &w->mode, n);
  }
  tn_kernel_store_dense(place, to->dtype, sum, &w->mode, n);
}

/* Bytes of rows that nobody chose, most of a large gradient: past the caches,
 * which would read them first. */
static void clear(char *to, int64_t bytes, int streams) {
  int64_t i = 0;
#if defined(__SSE2__)
  if (streams && ((uintptr_t)to & 15) == 0)
    for (; i + 16 <= bytes; i += 16)
      _mm_stream_si128((__m128i *)(void *)(to + i), _mm_setzero_si128());
#else
  (void)streams;
#endif
  memset(to + i, 0, (size_t)(bytes - i));
}

static void clear_end(void) {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

static int32_t sum_slice(void *arg, int64_t begin, int64_t end) {
  const work *w = arg;
  const tn_tensor *to = &w->call->out[NN_EMBEDDING_IN_WEIGHT];
  const int adds = w->call->req[NN_EMBEDDING_IN_WEIGHT] == TN_REQ_ADD;
  const int64_t step = w->length * w->bytes;
  const int streams = tn_tensor_size(to) * w->bytes >= TN_KERNEL_STREAM;
  for (int64_t row = begin; row < end; ++row) {
    if (w->begin[row] == w->begin[row + 1]) {
      if (!adds) clear((char *)to->data + row * step, step, streams);
      continue;
    }
    for (int64_t at = 0; at < w->length; at += STAGE)
      sum_part(w, row, at, w->length - at < STAGE ? w->length - at : STAGE);
  }
  clear_end();
  return TN_OK;
}

/* Positions in the order of their rows; where those of row r begin goes to
 * begin[r]. It has two more places than there are rows: those of row r are
 * counted in begin[r + 2], so that begin[r + 1] is the next place while they
 * are dealt out. */
static void sort(const work *w, int64_t n, int64_t *begin, int64_t *positions) {
  const int64_t rows = nn_embedding_params_of(w->call)->input_dim;
  memset(begin, 0, (size_t)(rows + 2) * sizeof *begin);
  for (int64_t i = 0; i < n; ++i) ++begin[w->rows[i] + 2];
  for (int64_t r = 2; r < rows + 2; ++r) begin[r] += begin[r - 1];
  for (int64_t i = 0; i < n; ++i) positions[begin[w->rows[i] + 1]++] = i;
}

int32_t nn_embedding_backward(const tn_frame *call) {
  const tn_tensor *data = &call->in[NN_EMBEDDING_BACKWARD_IN_DATA];
  const int64_t n = tn_tensor_size(data);
  const int64_t rows = nn_embedding_params_of(call)->input_dim;
  work w = work_of(call, &call->in[NN_EMBEDDING_BACKWARD_GRAD_OUT]);
  int64_t *index = call->ws[0], *positions = index + n;
  int64_t *begin = positions + n;
  if (call->req[NN_EMBEDDING_IN_WEIGHT] == TN_REQ_NULL) return TN_OK;
  const int32_t code = read_rows(call, data, index);
  if (code != TN_OK) return code;
  w.rows = index;
  w.begin = begin;
  w.positions = positions;
  sort(&w, n, begin, positions);
  return nn_share(call, rows, w.length + w.length * n / rows, sum_slice, &w);
}
