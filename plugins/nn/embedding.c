/* SPDX-License-Identifier: Apache-2.0
 * embedding.c: kernels of embedding.yaml. Backward, positions are sorted by
 * their rows, and one thread computes each row of the gradient, once.
 */
#include "embedding.gen.h"

#include <stdio.h>

#include "axis.h"
#include "tenon/kernel/copy_row.h"

enum {
  STAGE = 512, /* elements that are converted together */
  LINE = 64,   /* bytes of a cache line */
  FORWARD_PREFETCH_DISTANCE =
      4, /* a forward call prefetches the row of this many positions later */
  PREFETCH_DISTANCE = 2, /* positions by which a backward call prefetches */
  MOST = 4096,           /* bytes of a row that are prefetched, at most */
  LARGE = 1 << 18 /* least size in bytes of a table or result that counts as
                     larger than caches */
};

/* ----------------------------------------------------------------- indices */

/* Reports an index with its original value: integers with all digits. */
static int32_t refuse_index(const tn_frame *call, const tn_tensor *data,
                            int64_t at) {
  const tn_dtype own = tn_kernel_compute(data->dtype);
  const char *element =
      (const char *)data->data + at * tn_dtype_bytes(data->dtype);
  char text[32];
  if (own == TN_F32 || own == TN_F64) {
    const tn_kernel_mode mode = {TN_F64, 0};
    double index;
    tn_kernel_load_dense(&index, &mode, element, data->dtype, 1);
    (void)snprintf(text, sizeof text, "%g", index);
  } else {
    const tn_kernel_mode mode = {TN_I64, 0};
    int64_t index;
    tn_kernel_load_dense(&index, &mode, element, data->dtype, 1);
    (void)snprintf(text, sizeof text, "%lld", (long long)index);
  }
  return TN_FAIL(call, TN_OUT_OF_RANGE,
                 "element %lld of `data` is %s, but `weight` has the rows 0 to "
                 "%lld",
                 (long long)at, text,
                 (long long)nn_embedding_params_of(call)->input_dim - 1);
}

/* Reads all indices as rows of the matrix. */
static int32_t read_rows(const tn_frame *call, const tn_tensor *data,
                         int64_t *to) {
  const tn_kernel_mode mode = {TN_F64, tn_kernel_level(call)};
  const double limit = (double)nn_embedding_params_of(call)->input_dim;
  const int64_t n = tn_tensor_size(data), bytes = tn_dtype_bytes(data->dtype);
  double index[STAGE];
  for (int64_t at = 0; at < n; at += STAGE) {
    const int64_t n_part = n - at < STAGE ? n - at : STAGE;
    tn_kernel_load_dense(index, &mode, (const char *)data->data + at * bytes,
                         data->dtype, n_part);
    for (int64_t i = 0; i < n_part; ++i) {
      if (!(index[i] > -1 && index[i] < limit))
        return refuse_index(call, data, at + i);
      to[at + i] = (int64_t)index[i];
    }
  }
  return TN_OK;
}

/* Sets *bytes to the size of the workspace: forward the rows of all positions;
 * backward also the positions, sorted by row, and where each row's positions
 * begin. */
int32_t nn_embedding_bytes(const tn_frame *call, uint64_t *bytes) {
  const int back = (call->flags & TN_CALL_BACKWARD) != 0;
  const int64_t n = tn_tensor_size(
      &call->in[back ? NN_EMBEDDING_BACKWARD_IN_DATA : NN_EMBEDDING_IN_DATA]);
  const int64_t rows = nn_embedding_params_of(call)->input_dim + 2;
  *bytes = (uint64_t)(back ? 2 * n + rows : n) * sizeof(int64_t);
  return TN_OK;
}

typedef struct embedding_work {
  const tn_frame *call;
  tn_kernel_mode mode;
  int64_t length; /* elements of a row */
  int64_t bytes;  /* bytes of an element */
  const int64_t *rows;
  /* Backward: (input_dim + 1) begin of each row's positions. */
  const int64_t *begin;
  const int64_t *positions;
  int64_t n;   /* number of indices */
  int streams; /* the result is larger than caches, and is written past them */
} embedding_work;

/* Describes a call; `like` has the type of the table. */
static embedding_work make_work(const tn_frame *call, const tn_tensor *like) {
  return (embedding_work){
      .call = call,
      .mode = {tn_kernel_compute(like->dtype), tn_kernel_level(call)},
      .length = nn_embedding_params_of(call)->output_dim,
      .bytes = tn_dtype_bytes(like->dtype)};
}

/* Adds n elements of type dtype to others. */
static void add_elements(const embedding_work *w, char *to, const char *from,
                         tn_dtype dtype, int64_t n) {
  double old[STAGE], more[STAGE];
  for (int64_t i = 0; i < n; i += STAGE) {
    const int64_t n_part = n - i < STAGE ? n - i : STAGE;
    tn_kernel_load_dense(old, &w->mode, to + i * w->bytes, dtype, n_part);
    tn_kernel_load_dense(more, &w->mode, from + i * w->bytes, dtype, n_part);
    tn_kernel_add_dense(old, more, &w->mode, n_part);
    tn_kernel_store_dense(to + i * w->bytes, dtype, old, &w->mode, n_part);
  }
}

/* ------------------------------------------------------------------ copies */

#if defined(TN_KERNEL_AVX2)
/* Writes whole cache lines past the caches, without reading them first; zeros
 * if `from` is NULL. */
static void stream_lines(char *to, const char *from, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 16) {
    __m128i v = _mm_setzero_si128();
    if (from) v = _mm_loadu_si128((const __m128i *)(const void *)(from + i));
    _mm_stream_si128((__m128i *)(void *)(to + i), v);
  }
}

/* Does the same with one store for each cache line, which takes two thirds of
 * the time for zeros. */
static TN_KERNEL_AVX512 void stream_lines_avx512(char *to, const char *from,
                                                 int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += LINE) {
    __m512i v = _mm512_setzero_si512();
    if (from) v = _mm512_loadu_si512(from + i);
    _mm512_stream_si512((__m512i *)(void *)(to + i), v);
  }
}
#endif

/* Copies bytes, or fills them with zeros if `from` is NULL. */
static void set_bytes(char *to, const char *from, int64_t bytes) {
  if (from)
    memcpy(to, from, (size_t)bytes);
  else
    memset(to, 0, (size_t)bytes);
}

/* Writes bytes of the gradient, or zeros if `from` is NULL. */
static void store_bytes(const embedding_work *w, char *to, const char *from,
                        int64_t bytes) {
#if defined(TN_KERNEL_AVX2)
  const int64_t front = (int64_t)(-(uintptr_t)to % LINE);
  if (w->streams && front + LINE <= bytes) {
    const int64_t whole = (bytes - front) / LINE * LINE, end = front + whole;
    set_bytes(to, from, front);
    (w->mode.level == TN_KERNEL_N_LEVELS - 1
         ? stream_lines_avx512
         : stream_lines)(to + front, from ? from + front : NULL, whole);
    set_bytes(to + end, from ? from + end : NULL, bytes - end);
    return;
  }
#else
  (void)w;
#endif
  set_bytes(to, from, bytes);
}

/* Makes stores past the caches visible to other threads. */
static void finish_stores(const embedding_work *w) {
#if defined(TN_KERNEL_AVX2)
  if (w->streams) _mm_sfence();
#else
  (void)w;
#endif
}

/* ----------------------------------------------------------------- forward */

#if TN_COPY_ROW_VECTORS
/* Copies a row of at least one cache line, and prefetches as much of another.
 */
static TN_KERNEL_AVX512 void copy_row_wide(char *to, const char *from,
                                           const char *prefetched,
                                           int64_t bytes) {
  tn_copy_row_avx512(to, from, prefetched, bytes);
}

/* Does the same with vectors of half a cache line. */
static TN_KERNEL_AVX2 void copy_row_half(char *to, const char *from,
                                         const char *prefetched,
                                         int64_t bytes) {
  tn_copy_row_avx2(to, from, prefetched, bytes);
}
#else
/* Copies a row without vectors and without prefetching. */
static void copy_row_wide(char *to, const char *from, const char *prefetched,
                          int64_t bytes) {
  (void)prefetched;
  memcpy(to, from, (size_t)bytes);
}
#define copy_row_half copy_row_wide
#endif

/* Copies, or adds, the rows of positions [begin, end). */
static int32_t copy_slice(void *arg, int64_t begin, int64_t end) {
  const embedding_work *w = arg;
  const tn_tensor *out = &w->call->out[NN_EMBEDDING_OUT_OUT];
  const char *weight = w->call->in[NN_EMBEDDING_IN_WEIGHT].data;
  const int64_t step = w->length * w->bytes;
  const int adds = w->call->req[NN_EMBEDDING_OUT_OUT] == TN_REQ_ADD;
  for (int64_t i = begin; i < end; ++i) {
    char *to = (char *)out->data + i * step;
    const char *from = weight + w->rows[i] * step;
    if (adds)
      add_elements(w, to, from, out->dtype, w->length);
    else
      memcpy(to, from, (size_t)step);
  }
  return TN_OK;
}

/* Copies the rows of positions [begin, end) from a table that is larger than
 * caches. */
static int32_t copy_large_slice(void *arg, int64_t begin, int64_t end) {
  const embedding_work *w = arg;
  const char *weight = w->call->in[NN_EMBEDDING_IN_WEIGHT].data;
  const int64_t step = w->length * w->bytes;
  char *to = (char *)w->call->out[NN_EMBEDDING_OUT_OUT].data + begin * step;
  for (int64_t i = begin; i < end; ++i, to += step) {
    const char *from = weight + w->rows[i] * step;
    const char *prefetched =
        weight + w->rows[i + FORWARD_PREFETCH_DISTANCE < end
                             ? i + FORWARD_PREFETCH_DISTANCE
                             : i] *
                     step;
    if (w->streams)
      store_bytes(w, to, from, step);
    else
      (w->mode.level == TN_KERNEL_N_LEVELS - 1 ? copy_row_wide : copy_row_half)(
          to, from, prefetched, step);
  }
  finish_stores(w);
  return TN_OK;
}

/* Whether a forward call uses copy_large_slice: the table and the result are
 * larger than caches, rows fill a cache line, and nothing is added. Otherwise
 * memcpy is fast enough. */
static int is_copy_large(const embedding_work *w) {
  const int64_t step = w->length * w->bytes;
  const int64_t table = nn_embedding_params_of(w->call)->input_dim * step;
  return w->mode.level > 0 && step >= LINE && table >= LARGE &&
         w->n * step >= LARGE &&
         w->call->req[NN_EMBEDDING_OUT_OUT] != TN_REQ_ADD;
}

int32_t nn_embedding(const tn_frame *call) {
  const tn_tensor *data = &call->in[NN_EMBEDDING_IN_DATA];
  embedding_work w = make_work(call, &call->in[NN_EMBEDDING_IN_WEIGHT]);
  int64_t *rows = call->ws[0];
  const int32_t code = read_rows(call, data, rows);
  if (code != TN_OK) return code;
  w.rows = rows;
  w.n = tn_tensor_size(data);
  w.streams = 2 * w.n * w.length * w.bytes >= TN_KERNEL_STREAM;
  return nn_run_parallel(call, w.n, w.length,
                         is_copy_large(&w) ? copy_large_slice : copy_slice, &w);
}

/* ---------------------------------------------------------------- backward */

/* Computes a part of a row of the gradient, of at most STAGE elements: the sum
 * of the parts of all positions with that row. */
static void sum_row_part(const embedding_work *w, int64_t row, int64_t at,
                         int64_t n) {
  const tn_tensor *to = &w->call->out[NN_EMBEDDING_IN_WEIGHT];
  const char *out_gradient = w->call->in[NN_EMBEDDING_BACKWARD_GRAD_OUT].data;
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
    const char *from =
        out_gradient + (w->positions[k] * w->length + at) * w->bytes;
    if (!direct) tn_kernel_load_dense(more, &w->mode, from, to->dtype, n);
    tn_kernel_add_dense(sum, direct ? (const void *)from : more, &w->mode, n);
  }
  tn_kernel_store_dense(place, to->dtype, sum, &w->mode, n);
}

/* Prefetches the terms of a row that is computed soon. */
static void prefetch_row(const embedding_work *w, const char *out_gradient,
                         int64_t k) {
  const int64_t step = w->length * w->bytes;
  if (k >= w->n) return;
  const uintptr_t at = (uintptr_t)(out_gradient + w->positions[k] * step);
  for (int64_t i = 0; i < step && i < MOST; i += LINE)
    __builtin_prefetch((const void *)(at + (uintptr_t)i));
}

/* Computes the rows [begin, end) of the gradient. */
static int32_t sum_slice(void *arg, int64_t begin, int64_t end) {
  const embedding_work *w = arg;
  const tn_tensor *to = &w->call->out[NN_EMBEDDING_IN_WEIGHT];
  const char *out_gradient = w->call->in[NN_EMBEDDING_BACKWARD_GRAD_OUT].data;
  const int adds = w->call->req[NN_EMBEDDING_IN_WEIGHT] == TN_REQ_ADD;
  const int64_t step = w->length * w->bytes;
  for (int64_t row = begin, next; row < end; row = next) {
    const int64_t first = w->begin[row], n = w->begin[row + 1] - first;
    char *place = (char *)to->data + row * step;
    for (next = row + 1; n == 0 && next < end; ++next)
      if (w->begin[next + 1] != first) break;
    if (n == 0) {
      if (!adds) store_bytes(w, place, NULL, (next - row) * step);
      continue;
    }
    for (int64_t k = first; k < first + n; ++k)
      prefetch_row(w, out_gradient, k + PREFETCH_DISTANCE);
    if (n == 1 && !adds) {
      store_bytes(w, place, out_gradient + w->positions[first] * step, step);
      continue;
    }
    for (int64_t at = 0; at < w->length; at += STAGE)
      sum_row_part(w, row, at, w->length - at < STAGE ? w->length - at : STAGE);
  }
  finish_stores(w);
  return TN_OK;
}

/* Sorts positions by their rows; begin[r] gets the start of row r. `begin` has
 * two more entries than there are rows: begin[r + 2] counts row r, so that
 * begin[r + 1] is the next position during distribution. */
static void sort_positions(const embedding_work *w, int64_t n, int64_t *begin,
                           int64_t *positions) {
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
  embedding_work w = make_work(call, &call->in[NN_EMBEDDING_BACKWARD_GRAD_OUT]);
  int64_t *index = call->ws[0], *positions = index + n;
  int64_t *begin = positions + n;
  if (call->req[NN_EMBEDDING_IN_WEIGHT] == TN_REQ_NULL) return TN_OK;
  const int32_t code = read_rows(call, data, index);
  if (code != TN_OK) return code;
  w.rows = index;
  w.begin = begin;
  w.positions = positions;
  w.n = n;
  w.streams = tn_tensor_size(&call->out[NN_EMBEDDING_IN_WEIGHT]) * w.bytes >=
              TN_KERNEL_STREAM;
  sort_positions(&w, n, begin, positions);
  return nn_run_parallel(call, rows, w.length + w.length * n / rows, sum_slice,
                         &w);
}
