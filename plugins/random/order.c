/* SPDX-License-Identifier: Apache-2.0
 * order.c: random orders on the CPU: each number gets 64 random bits, and the
 * numbers are sorted by them.
 */
#include "order_rows.h"

#include <string.h>

#include "order.gen.h"
#include "tenon/kernel/kernel.h"

/* A number and its random bits. */
typedef struct ticket {
  int64_t bits, i;
} ticket;

static int is_before(const ticket *a, const ticket *b) {
  return a->bits < b->bits || (a->bits == b->bits && a->i < b->i);
}

/* Runs of up to RUN tickets are sorted by insertion, then merged. */
enum { RUN = 16 };

static void sort_run(ticket *t, int64_t n) {
  for (int64_t i = 1; i < n; ++i) {
    const ticket own = t[i];
    int64_t k = i;
    for (; k > 0 && is_before(&own, &t[k - 1]); --k) t[k] = t[k - 1];
    t[k] = own;
  }
}

static void merge_runs(ticket *to, const ticket *from, int64_t n,
                       int64_t width) {
  for (int64_t first = 0; first < n; first += 2 * width) {
    const int64_t middle = first + width < n ? first + width : n;
    const int64_t end = middle + width < n ? middle + width : n;
    int64_t a = first, b = middle;
    for (int64_t k = first; k < end; ++k) {
      const int is_left =
          b >= end || (a < middle && is_before(&from[a], &from[b]));
      to[k] = from[is_left ? a++ : b++];
    }
  }
}

/* Writes a random order of 0 to n - 1; `room` is for 2*n tickets. */
static void draw_order(const tn_frame *call, int64_t n, void *room,
                       int64_t *order) {
  ticket *from = (ticket *)room, *to = from + n;
  for (int64_t i = 0; i < n; ++i) {
    const tn_kernel_bits bits =
        tn_kernel_random(call->run->random[0], (uint64_t)i);
    from[i].bits = (int64_t)((uint64_t)bits.word[1] << 32 | bits.word[0]);
    from[i].i = i;
  }
  for (int64_t i = 0; i < n; i += RUN)
    sort_run(from + i, n - i < RUN ? n - i : RUN);
  for (int64_t width = RUN; width < n; width *= 2) {
    ticket *const next = from;
    merge_runs(to, from, n, width);
    from = to;
    to = next;
  }
  for (int64_t i = 0; i < n; ++i) order[i] = from[i].i;
}

int32_t random_permutation(const tn_frame *call) {
  const tn_tensor *out = &call->out[0];
  draw_order(call, tn_tensor_size(out), call->ws[0], (int64_t *)out->data);
  return TN_OK;
}

int32_t random_shuffle(const tn_frame *call) {
  const tn_tensor *data = &call->in[0], *out = &call->out[0];
  const int64_t rows = count_rows(data), bytes = row_bytes(data);
  if (!needs_order(call)) return TN_OK;
  int64_t *order = find_order(call, rows);
  draw_order(call, rows, call->ws[0], order);
  if (bytes == 0 || call->req[0] == TN_REQ_NULL) return TN_OK;
  for (int64_t i = 0; i < rows; ++i)
    memcpy((char *)out->data + i * bytes,
           (const char *)data->data + order[i] * bytes, (size_t)bytes);
  return TN_OK;
}

int32_t random_shuffle_backward(const tn_frame *call) {
  const tn_tensor *grad = &call->in[RANDOM_SHUFFLE_BACKWARD_GRAD_OUT];
  const tn_tensor *places = &call->in[RANDOM_SHUFFLE_BACKWARD_OUT_PLACES];
  const tn_tensor *to = &call->out[0];
  const int64_t rows = tn_tensor_size(places), bytes = row_bytes(to);
  const int64_t *order = (const int64_t *)places->data;
  if (call->req[0] == TN_REQ_NULL || bytes == 0) return TN_OK;
  for (int64_t i = 0; i < rows; ++i)
    if (order[i] < 0 || order[i] >= rows)
      return TN_FAIL(call, TN_OUT_OF_RANGE,
                     "place %lld of row %lld is outside of the %lld rows; pass "
                     "the `places` of the forward call",
                     (long long)order[i], (long long)i, (long long)rows);
  memset(to->data, 0, (size_t)(rows * bytes));
  for (int64_t i = 0; i < rows; ++i)
    memcpy((char *)to->data + order[i] * bytes,
           (const char *)grad->data + i * bytes, (size_t)bytes);
  return TN_OK;
}
