/* SPDX-License-Identifier: Apache-2.0
 * greedy.c: puts spans down one by one, each where there is room. What
 * decides is the order; a span that came to lie too high goes to the front of
 * the next one.
 */
#include <stdlib.h>
#include <string.h>

#include "planning.h"

/* Spans looked at, in all: some twenty milliseconds. */
enum { WORK = 12000000, ROUNDS = 400 };
static const uint32_t NONE = UINT32_MAX;

/* placed: by offset. */
typedef struct heap {
  const tn__fit *fit;
  size_t *offsets;
  uint32_t *order;
  uint32_t *placed;
  uint32_t n_placed;
  bool tight;   /* the smallest room that is enough, not the lowest */
  size_t limit; /* a span that reaches it ends the round */
  int64_t work; /* left */
} heap;

static bool meets(const tn__span *a, const tn__span *b) {
  return a->first <= b->last && b->first <= a->last;
}

static size_t find_room(heap *h, const tn__span *span) {
  size_t low = 0, best = SIZE_MAX, best_room = SIZE_MAX;
  h->work -= h->n_placed;
  for (uint32_t k = 0; k < h->n_placed; ++k) {
    const uint32_t other = h->placed[k];
    const tn__span *q = &h->fit->spans[other];
    if (!meets(span, q)) continue;
    const size_t begin = h->offsets[other], end = begin + q->bytes;
    if (begin >= low + span->bytes && begin - low < best_room) {
      if (!h->tight) return low;
      best = low;
      best_room = begin - low;
    }
    if (end > low) low = end;
  }
  return best == SIZE_MAX ? low : best;
}

static void put_down(heap *h, uint32_t k, size_t offset) {
  uint32_t low = 0, high = h->n_placed;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (h->offsets[h->placed[middle]] < offset)
      low = middle + 1;
    else
      high = middle;
  }
  memmove(h->placed + low + 1, h->placed + low,
          (h->n_placed - low) * sizeof *h->placed);
  h->placed[low] = k;
  h->offsets[k] = offset;
  ++h->n_placed;
}

/* The rank of the span that reached the limit, NONE if all lie below it. */
static uint32_t place_all(heap *h, size_t *height) {
  *height = 0;
  h->n_placed = 0;
  for (uint32_t rank = 0; rank < h->fit->n; ++rank) {
    const uint32_t k = h->order[rank];
    const tn__span *span = &h->fit->spans[k];
    const size_t offset = find_room(h, span);
    if (offset + span->bytes >= h->limit || h->work < 0) return rank;
    if (offset + span->bytes > *height) *height = offset + span->bytes;
    put_down(h, k, offset);
  }
  return NONE;
}

static void to_front(heap *h, uint32_t rank) {
  const uint32_t k = h->order[rank];
  memmove(h->order + 1, h->order, rank * sizeof *h->order);
  h->order[0] = k;
}

typedef struct ranked {
  size_t worth;
  uint32_t k;
} ranked;

static int by_worth(const void *a, const void *b) {
  const ranked *x = a, *y = b;
  if (x->worth != y->worth) return x->worth < y->worth ? 1 : -1;
  return x->k < y->k ? -1 : 1;
}

static void sort(heap *h, ranked *all, tn__fit_key key) {
  for (uint32_t k = 0; k < h->fit->n; ++k)
    all[k] = (ranked){tn__span_worth(&h->fit->spans[k], key), k};
  qsort(all, h->fit->n, sizeof *all, by_worth);
  for (uint32_t k = 0; k < h->fit->n; ++k) h->order[k] = all[k].k;
}

/* From one order; keeps in `best` what lies lower than all before. */
static void improve(heap *h, size_t *best) {
  for (int round = 0; round < ROUNDS && h->work > 0; ++round) {
    size_t height;
    const uint32_t rank = place_all(h, &height);
    if (rank != NONE) {
      to_front(h, rank);
      continue;
    }
    memcpy(best, h->offsets, h->fit->n * sizeof *best);
    h->limit = height;
    if (height <= h->fit->floor) return;
  }
}

tn_code tn__fit_greedy(const tn__fit *fit, size_t *offsets, size_t *height) {
  const size_t n = fit->n;
  tn__arena *a = fit->arena;
  heap h = {.fit = fit, .limit = fit->height, .work = WORK};
  h.offsets = tn__arena_alloc(a, n * sizeof *h.offsets);
  h.order = tn__arena_alloc(a, n * sizeof *h.order);
  h.placed = tn__arena_alloc(a, n * sizeof *h.placed);
  ranked *all = tn__arena_alloc(a, n * sizeof *all);
  *height = SIZE_MAX;
  if (a->failed) return tn__fail_memory(n * sizeof *all, "a plan's offsets");
  if (n * n / 2 > WORK) return TN_OK;
  for (int pass = 0; pass < 2 * TN__FIT_N_KEYS; ++pass) {
    if (h.limit <= fit->floor || h.work <= 0) break;
    h.tight = pass >= TN__FIT_N_KEYS;
    sort(&h, all, (tn__fit_key)(pass % TN__FIT_N_KEYS));
    improve(&h, offsets);
  }
  if (h.limit < fit->height) *height = h.limit;
  return TN_OK;
}
