/* SPDX-License-Identifier: Apache-2.0
 * scatter.c: scatter.h on the CPU. Sums and products of f16 and bf16 are f32 in
 * the workspace, and are rounded once.
 */
#include "scatter.h"

#include "move.h"
#include "places_walk.h"
#include "scatter_ops.h"
#include "tenon/kernel/kernel.h"

static int is_16_bit(tn_dtype dtype) {
  return dtype == TN_F16 || dtype == TN_BF16;
}

static tensor_walk make_walk(const tensor_scatter *s, tensor_visit_fn *visit,
                             void *arg) {
  return (tensor_walk){s->call, &s->places, s->indices, visit, arg};
}

int32_t tensor_scatter_check(const tensor_scatter *s) {
  const tensor_walk walk = make_walk(s, NULL, NULL);
  return tensor_check_places(&walk, s->name);
}

/* ----------------------------------------------------------------- scatter */

/* A scatter operation. The elements of `to` have the type of the loop. */
typedef struct change {
  const tensor_scatter *s;
  tensor_change_fn *apply;
  char *to;
  int64_t bytes; /* of an element of the slices */
} change;

static void change_group(void *arg, const tensor_group *g) {
  const change *c = (const change *)arg;
  const char *from = (const char *)c->s->slices->data;
  c->apply(c->to, from + g->first * c->bytes, g);
}

/* Converts slices of 16-bit types, in lines as long as possible. */
static void change_16_bit_group(void *arg, const tensor_group *g) {
  enum { MOST = 512 };
  const change *c = (const change *)arg;
  const tn_kernel_mode mode = {TN_F32, tn_kernel_level(c->s->call)};
  const tn_dtype dtype = c->s->slices->dtype;
  const char *from = (const char *)c->s->slices->data;
  TN_KERNEL_LINED float wide[MOST];
  if (g->step == 1) {
    tn_kernel_load_dense(wide, &mode, from + g->first * c->bytes, dtype, g->n);
    c->apply(c->to, wide, g);
    return;
  }
  for (int64_t k = 0; k < g->n; ++k)
    for (int64_t j = 0; j < g->width; j += MOST) {
      const int64_t n = g->width - j < MOST ? g->width - j : MOST;
      const int64_t first = g->first + k * g->step + j, at = g->at[k] + j;
      const tensor_group part = {1, g->number + k, first, g->step, n, &at};
      tn_kernel_load_dense(wide, &mode, from + first * c->bytes, dtype, n);
      c->apply(c->to, wide, &part);
    }
}

uint64_t tensor_scatter_run_bytes(const tensor_scatter *s) {
  const int wide = s->op != TENSOR_SCATTER_SET && is_16_bit(s->whole->dtype);
  return wide ? (uint64_t)s->places.size * sizeof(float) : 0;
}

/* A conversion between f32 and a dense array of 16-bit elements. */
typedef struct half_copy {
  float *wide;
  char *half;
  tn_dtype dtype;
  tn_kernel_mode mode;
} half_copy;

static int32_t widen_slice(void *arg, int64_t begin, int64_t end) {
  const half_copy *h = (const half_copy *)arg;
  tn_kernel_load_dense(h->wide + begin, &h->mode, h->half + begin * 2, h->dtype,
                       end - begin);
  return TN_OK;
}

static int32_t round_slice(void *arg, int64_t begin, int64_t end) {
  const half_copy *h = (const half_copy *)arg;
  tn_kernel_store_dense(h->half + begin * 2, h->dtype, h->wide + begin,
                        &h->mode, end - begin);
  return TN_OK;
}

static int32_t run_16_bit(const tensor_scatter *s, const tn_tensor *old) {
  const tn_host *host = s->call->host;
  half_copy h = {.wide = (float *)s->room,
                 .dtype = s->whole->dtype,
                 .mode = {TN_F32, tn_kernel_level(s->call)}};
  change c = {.s = s,
              .apply = tensor_find_change(s->op, TN_F32),
              .to = (char *)s->room,
              .bytes = 2};
  const tensor_walk walk = make_walk(s, change_16_bit_group, &c);
  int32_t code = TN_OK;
  if (old == NULL) {
    memset(h.wide, 0, (size_t)s->places.size * sizeof(float));
  } else {
    h.half = (char *)old->data;
    code = host->parallel_for(s->call, s->places.size, TN_KERNEL_GRAIN,
                              widen_slice, &h);
  }
  if (code == TN_OK) code = tensor_walk_in_order(&walk);
  h.half = (char *)s->whole->data;
  return code == TN_OK ? host->parallel_for(s->call, s->places.size,
                                            TN_KERNEL_GRAIN, round_slice, &h)
                       : code;
}

/* A copy of an array that does not fit the caches. */
typedef struct far_copy {
  char *to;
  const char *from;
  int64_t bytes;
} far_copy;

enum { FAR_PIECE = 128 << 10, FAR_AHEAD = 1024, FAR_LINE = 64 };

#if defined(__SSE2__)
static int32_t far_slice(void *arg, int64_t begin, int64_t end) {
  const far_copy *c = (const far_copy *)arg;
  for (int64_t k = begin; k < end; ++k) {
    const int64_t at = k * FAR_PIECE, left = c->bytes - at;
    const int64_t n = left < FAR_PIECE ? left : FAR_PIECE;
    const int64_t whole = n / FAR_LINE * FAR_LINE;
    const char *later = c->from + at + FAR_AHEAD;
    tn_kernel_stream_chunk(c->to + at, c->from + at, whole, &later, 1);
    memcpy(c->to + at + whole, c->from + at + whole, (size_t)(n - whole));
  }
  _mm_sfence();
  return TN_OK;
}
#endif

/* Copies the elements before the changes. Those of a large array are written
 * past the caches, since few of them change. */
static int32_t copy_old(const tensor_scatter *s, const tn_tensor *old) {
  const int64_t bytes = s->places.size * tn_dtype_bytes(s->whole->dtype);
#if defined(__SSE2__)
  far_copy c = {(char *)s->whole->data, (const char *)old->data, bytes};
  const uintptr_t either = (uintptr_t)c.to | (uintptr_t)c.from;
  if (2 * bytes >= TN_KERNEL_STREAM && either % 16 == 0)
    return s->call->host->parallel_for(
        s->call, (bytes + FAR_PIECE - 1) / FAR_PIECE, 1, far_slice, &c);
#endif
  (void)bytes;
  return tensor_copy(s->call, s->whole, old);
}

int32_t tensor_scatter_run(const tensor_scatter *s, const tn_tensor *old) {
  change c = {.s = s,
              .apply = tensor_find_change(s->op, s->whole->dtype),
              .to = (char *)s->whole->data,
              .bytes = tn_dtype_bytes(s->whole->dtype)};
  const tensor_walk walk = make_walk(s, change_group, &c);
  int32_t code = TN_OK;
  if (s->places.size == 0) return TN_OK;
  if (tensor_scatter_run_bytes(s) > 0) return run_16_bit(s, old);
  if (old == NULL)
    code = tensor_fill_zeros(s->call, s->whole);
  else if (!tensor_is_in_place(s, old))
    code = copy_old(s, old);
  return code == TN_OK ? tensor_walk_in_order(&walk) : code;
}

static void clear_group(void *arg, const tensor_group *g) {
  const tensor_scatter *s = (const tensor_scatter *)arg;
  const int64_t bytes = tn_dtype_bytes(s->whole->dtype);
  for (int64_t k = 0; k < g->n; ++k)
    memset((char *)s->whole->data + g->at[k] * bytes, 0,
           (size_t)(g->width * bytes));
}

int32_t tensor_clear_places(const tensor_scatter *s) {
  const tensor_walk walk = make_walk(s, clear_group, (void *)(uintptr_t)s);
  return tensor_walk_in_order(&walk);
}

/* ------------------------------------------------------------------ gather */

#define GATHER(name, type)                                              \
  static void name(void *to, const void *from, const tensor_group *g) { \
    for (int64_t k = 0; k < g->n; ++k)                                  \
      ((type *)to)[k] = ((const type *)from)[g->at[k]];                 \
  }
GATHER(gather_8, uint8_t)
GATHER(gather_16, uint16_t)
GATHER(gather_32, uint32_t)
GATHER(gather_64, uint64_t)

static void gather_group(void *arg, const tensor_group *g) {
  const tensor_scatter *s = (const tensor_scatter *)arg;
  const size_t bytes = (size_t)tn_dtype_bytes(s->whole->dtype);
  const char *from = (const char *)s->whole->data;
  char *to = (char *)s->slices->data + (size_t)g->first * bytes;
  if (g->step == 1) {
    (bytes == 1   ? gather_8
     : bytes == 2 ? gather_16
     : bytes == 4 ? gather_32
                  : gather_64)(to, from, g);
    return;
  }
  for (int64_t k = 0; k < g->n; ++k)
    memcpy(to + (size_t)(k * g->step) * bytes, from + (size_t)g->at[k] * bytes,
           (size_t)g->width * bytes);
}

int32_t tensor_gather_run(const tensor_scatter *s) {
  const tensor_walk walk = make_walk(s, gather_group, (void *)(uintptr_t)s);
  return tensor_walk_in_any_order(&walk);
}

/* The number of the last slice of each place that has one; other places keep
 * garbage, which nothing reads. Positions count slices. */
static void note_last_group(void *arg, const tensor_group *g) {
  int64_t *last = (int64_t *)arg;
  for (int64_t k = 0; k < g->n; ++k) last[g->at[k]] = g->number + k;
}

static void clear_early_group(void *arg, const tensor_group *g) {
  const tensor_scatter *s = (const tensor_scatter *)arg;
  const int64_t *last = (const int64_t *)s->room;
  const int64_t bytes = tn_dtype_bytes(s->whole->dtype);
  gather_group(arg, g);
  for (int64_t k = 0; k < g->n; ++k)
    if (last[g->at[k] / s->places.inner] != g->number + k)
      memset((char *)s->slices->data + (g->first + k * g->step) * bytes, 0,
             (size_t)(g->width * bytes));
}

uint64_t tensor_gather_last_bytes(const tensor_scatter *s) {
  return (uint64_t)tensor_count_slices(&s->places).size * sizeof(int64_t);
}

int32_t tensor_gather_last(const tensor_scatter *s) {
  const tensor_places places = tensor_count_slices(&s->places);
  const tensor_walk note = {s->call, &places, s->indices, note_last_group,
                            s->room};
  const tensor_walk walk =
      make_walk(s, clear_early_group, (void *)(uintptr_t)s);
  if (s->places.inner == 0) return TN_OK;
  const int32_t code = tensor_walk_in_order(&note);
  return code == TN_OK ? tensor_walk_in_any_order(&walk) : code;
}
