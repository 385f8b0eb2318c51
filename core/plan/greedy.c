/* SPDX-License-Identifier: Apache-2.0
 * greedy.c: places intervals one by one, each in a gap between the earlier
 * ones. The result depends on the order. An interval that ended too high moves
 * to the front of the next order.
 */
#include <stdlib.h>
#include <string.h>

#include "planning.h"

/* Number of intervals examined in total: about twenty milliseconds. */
enum { WORK = 12000000, ROUNDS = 400 };
static const uint32_t NONE = UINT32_MAX;

/* placed: intervals in order of their offsets. */
typedef struct placement {
  const tn__fit *fit;
  size_t *offsets;
  uint32_t *order;
  uint32_t *placed;
  uint32_t n_placed;
  bool tight;   /* use the smallest gap that is large enough, not the lowest */
  size_t limit; /* an interval that reaches it ends the round */
  int64_t work; /* remaining */
} placement;

static bool has_common_node(const tn__interval *a, const tn__interval *b) {
  return a->first <= b->last && b->first <= a->last;
}

static size_t find_gap(placement *p, const tn__interval *interval) {
  size_t low = 0, best = SIZE_MAX, best_room = SIZE_MAX;
  p->work -= p->n_placed;
  for (uint32_t k = 0; k < p->n_placed; ++k) {
    const uint32_t other = p->placed[k];
    const tn__interval *q = &p->fit->intervals[other];
    if (!has_common_node(interval, q)) continue;
    const size_t begin = p->offsets[other], end = begin + q->bytes;
    if (begin >= low + interval->bytes && begin - low < best_room) {
      if (!p->tight) return low;
      best = low;
      best_room = begin - low;
    }
    if (end > low) low = end;
  }
  return best == SIZE_MAX ? low : best;
}

static void place_interval(placement *p, uint32_t k, size_t offset) {
  uint32_t low = 0, high = p->n_placed;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (p->offsets[p->placed[middle]] < offset)
      low = middle + 1;
    else
      high = middle;
  }
  memmove(p->placed + low + 1, p->placed + low,
          (p->n_placed - low) * sizeof *p->placed);
  p->placed[low] = k;
  p->offsets[k] = offset;
  ++p->n_placed;
}

/* Returns the rank of the interval that reached the limit, NONE if all end
 * below it. */
static uint32_t place_all(placement *p, size_t *height) {
  *height = 0;
  p->n_placed = 0;
  for (uint32_t rank = 0; rank < p->fit->n; ++rank) {
    const uint32_t k = p->order[rank];
    const tn__interval *interval = &p->fit->intervals[k];
    const size_t offset = find_gap(p, interval);
    if (offset + interval->bytes >= p->limit || p->work < 0) return rank;
    if (offset + interval->bytes > *height) *height = offset + interval->bytes;
    place_interval(p, k, offset);
  }
  return NONE;
}

static void move_to_front(placement *p, uint32_t rank) {
  const uint32_t k = p->order[rank];
  memmove(p->order + 1, p->order, rank * sizeof *p->order);
  p->order[0] = k;
}

typedef struct ranked {
  size_t worth;
  uint32_t k;
} ranked;

static int compare_worth(const void *a, const void *b) {
  const ranked *x = a, *y = b;
  if (x->worth != y->worth) return x->worth < y->worth ? 1 : -1;
  return x->k < y->k ? -1 : 1;
}

static void sort_intervals(placement *p, ranked *all, tn__fit_key key) {
  for (uint32_t k = 0; k < p->fit->n; ++k)
    all[k] = (ranked){tn__interval_worth(&p->fit->intervals[k], key), k};
  qsort(all, p->fit->n, sizeof *all, compare_worth);
  for (uint32_t k = 0; k < p->fit->n; ++k) p->order[k] = all[k].k;
}

/* Improves one order. Keeps in `best` the offsets that are lower than all
 * before. */
static void improve_order(placement *p, size_t *best) {
  for (int round = 0; round < ROUNDS && p->work > 0; ++round) {
    size_t height;
    const uint32_t rank = place_all(p, &height);
    if (rank != NONE) {
      move_to_front(p, rank);
      continue;
    }
    memcpy(best, p->offsets, p->fit->n * sizeof *best);
    p->limit = height;
    if (height <= p->fit->floor) return;
  }
}

tn_code tn__fit_greedy(const tn__fit *fit, size_t *offsets, size_t *height) {
  const size_t n = fit->n;
  tn__arena *a = fit->arena;
  placement p = {.fit = fit, .limit = fit->height, .work = WORK};
  p.offsets = tn__arena_alloc(a, n * sizeof *p.offsets);
  p.order = tn__arena_alloc(a, n * sizeof *p.order);
  p.placed = tn__arena_alloc(a, n * sizeof *p.placed);
  ranked *all = tn__arena_alloc(a, n * sizeof *all);
  *height = SIZE_MAX;
  if (a->failed) return tn__fail_memory(n * sizeof *all, "a plan's offsets");
  if (n * n / 2 > WORK) return TN_OK;
  for (int pass = 0; pass < 2 * TN__FIT_N_KEYS; ++pass) {
    if (p.limit <= fit->floor || p.work <= 0) break;
    p.tight = pass >= TN__FIT_N_KEYS;
    sort_intervals(&p, all, (tn__fit_key)(pass % TN__FIT_N_KEYS));
    improve_order(&p, offsets);
  }
  if (p.limit < fit->height) *height = p.limit;
  return TN_OK;
}
