/* SPDX-License-Identifier: Apache-2.0
 * skyline.c: places intervals by a skyline algorithm. It takes the stretch of
 * time with the lowest height. There it places the best interval that begins
 * and ends within the stretch. If no interval fits, it raises the stretch to
 * its lower neighbour.
 *
 * An interval adds at most two stretches and a raise removes one, so that there
 * are at most three steps per interval. Each step searches a tree. The search
 * is bounded, because intervals of very different lengths would make it long;
 * it returns the best interval found so far. It may also return none, as long
 * as there is a neighbour to raise the stretch to.
 */
#include "planning.h"

static const uint32_t NONE = UINT32_MAX;

/* A stretch of time with one height. */
typedef struct stretch {
  uint32_t first;
  uint32_t last;
  size_t height;
  uint32_t left; /* its neighbours, NONE at the ends */
  uint32_t right;
  uint32_t at; /* position in the heap */
} stretch;

/* order: intervals in order of their begin. A tree over it stores for each part
 * the greatest worth and the earliest end of intervals not yet placed. */
typedef struct pile {
  const tn__fit *fit;
  uint32_t *order;
  uint32_t *begins; /* by time: first in `order` to begin then or later */
  size_t *worth;
  uint32_t *ends;
  uint32_t leaves;
  stretch *stretches;
  uint32_t n_stretches;
  uint32_t spare; /* unused stretches, linked by `right` */
  uint32_t *heap; /* the lowest first; of equal ones the earliest */
  uint32_t n_heap;
} pile;

/* --------------------------------------------------------------------- tree */

static void update_parent(pile *p, uint32_t at) {
  const uint32_t l = 2 * at, r = l + 1;
  p->worth[at] = p->worth[l] > p->worth[r] ? p->worth[l] : p->worth[r];
  p->ends[at] = p->ends[l] < p->ends[r] ? p->ends[l] : p->ends[r];
}

static void remove_from_tree(pile *p, uint32_t rank) {
  uint32_t at = p->leaves + rank;
  p->worth[at] = 0;
  p->ends[at] = NONE;
  while ((at /= 2) > 0) update_parent(p, at);
}

/* Searches the ranks [low, high) for an interval that ends by `end` and has
 * more worth than `worth`. */
enum { MAX_LOOKS = 1024 };
typedef struct search {
  uint32_t low;
  uint32_t high;
  uint32_t end;
  size_t worth;
  uint32_t found;
  uint32_t looks;
} search;

static void search_tree(const pile *p, search *s, uint32_t at, uint32_t from,
                        uint32_t to) {
  if (to <= s->low || from >= s->high || ++s->looks > MAX_LOOKS) return;
  if (p->ends[at] > s->end || p->worth[at] <= s->worth) return;
  if (to - from == 1) {
    s->worth = p->worth[at];
    s->found = from;
    return;
  }
  const uint32_t middle = from + (to - from) / 2;
  search_tree(p, s, 2 * at, from, middle);
  search_tree(p, s, 2 * at + 1, middle, to);
}

/* --------------------------------------------------------------------- heap */

static bool is_lower(const pile *p, uint32_t a, uint32_t b) {
  const stretch *s = &p->stretches[a], *t = &p->stretches[b];
  return s->height != t->height ? s->height < t->height : s->first < t->first;
}

static void set_heap(pile *p, uint32_t at, uint32_t s) {
  p->heap[at] = s;
  p->stretches[s].at = at;
}

static void sift_up(pile *p, uint32_t at) {
  const uint32_t s = p->heap[at];
  for (; at > 0 && is_lower(p, s, p->heap[(at - 1) / 2]); at = (at - 1) / 2)
    set_heap(p, at, p->heap[(at - 1) / 2]);
  set_heap(p, at, s);
}

static void sift_down(pile *p, uint32_t at) {
  const uint32_t s = p->heap[at];
  for (uint32_t child; (child = 2 * at + 1) < p->n_heap; at = child) {
    if (child + 1 < p->n_heap &&
        is_lower(p, p->heap[child + 1], p->heap[child]))
      ++child;
    if (!is_lower(p, p->heap[child], s)) break;
    set_heap(p, at, p->heap[child]);
  }
  set_heap(p, at, s);
}

static void remove_stretch(pile *p, uint32_t s) {
  const uint32_t at = p->stretches[s].at;
  const uint32_t moved = p->heap[--p->n_heap];
  p->stretches[s].right = p->spare;
  p->spare = s;
  if (moved == s) return;
  set_heap(p, at, moved);
  sift_up(p, at);
  sift_down(p, p->stretches[moved].at);
}

/* -------------------------------------------------------------------- steps */

static uint32_t new_stretch(pile *p, uint32_t first, uint32_t last,
                            size_t height) {
  uint32_t s = p->spare;
  if (s != NONE)
    p->spare = p->stretches[s].right;
  else
    s = p->n_stretches++;
  p->stretches[s] = (stretch){first, last, height, NONE, NONE, p->n_heap};
  p->heap[p->n_heap++] = s;
  sift_up(p, p->n_heap - 1);
  return s;
}

static void link_stretches(pile *p, uint32_t left, uint32_t right) {
  if (left != NONE) p->stretches[left].right = right;
  if (right != NONE) p->stretches[right].left = left;
}

/* Gives the part [first, last] of stretch `s` a new height. The rest keeps its
 * height in new stretches. */
static void raise_part(pile *p, uint32_t s, const tn__interval *interval) {
  const stretch was = p->stretches[s];
  if (was.first < interval->first) {
    const uint32_t l =
        new_stretch(p, was.first, interval->first - 1, was.height);
    link_stretches(p, was.left, l);
    link_stretches(p, l, s);
  }
  if (interval->last < was.last) {
    const uint32_t r = new_stretch(p, interval->last + 1, was.last, was.height);
    link_stretches(p, r, was.right);
    link_stretches(p, s, r);
  }
  p->stretches[s].first = interval->first;
  p->stretches[s].last = interval->last;
  p->stretches[s].height += interval->bytes;
  sift_down(p, p->stretches[s].at);
}

static void merge_right(pile *p, uint32_t s) {
  const uint32_t r = p->stretches[s].right;
  if (r == NONE || p->stretches[r].height != p->stretches[s].height) return;
  p->stretches[s].last = p->stretches[r].last;
  link_stretches(p, s, p->stretches[r].right);
  remove_stretch(p, r);
}

/* Raises a stretch to the height of its lower neighbour and merges the two. */
static void raise_whole(pile *p, uint32_t s) {
  const uint32_t l = p->stretches[s].left, r = p->stretches[s].right;
  size_t to = SIZE_MAX;
  if (l != NONE) to = p->stretches[l].height;
  if (r != NONE && p->stretches[r].height < to) to = p->stretches[r].height;
  p->stretches[s].height = to;
  sift_down(p, p->stretches[s].at);
  merge_right(p, s);
  if (l != NONE) merge_right(p, l);
}

static uint32_t find_best_within(const pile *p, const stretch *s) {
  search found = {.low = p->begins[s->first],
                  .high = p->begins[s->last + 1],
                  .end = s->last,
                  .found = NONE};
  if (found.low < found.high) search_tree(p, &found, 1, 0, p->leaves);
  return found.found;
}

static size_t build_pile(pile *p, size_t *offsets) {
  size_t height = 0;
  for (uint32_t left = p->fit->n; left > 0;) {
    const uint32_t s = p->heap[0], rank = find_best_within(p, &p->stretches[s]);
    if (rank == NONE) {
      raise_whole(p, s);
      continue;
    }
    const tn__interval *interval = &p->fit->intervals[p->order[rank]];
    offsets[p->order[rank]] = p->stretches[s].height;
    if (p->stretches[s].height + interval->bytes > height)
      height = p->stretches[s].height + interval->bytes;
    raise_part(p, s, interval);
    remove_from_tree(p, rank);
    --left;
  }
  return height;
}

/* -------------------------------------------------------------------- setup */

/* Counting sort: first the number of intervals that begin at each time, then
 * their places. */
static void sort_by_begin(pile *p) {
  const tn__fit *fit = p->fit;
  for (uint32_t k = 0; k < fit->n; ++k)
    ++p->begins[fit->intervals[k].first + 1];
  for (uint32_t t = 0; t < fit->horizon; ++t) p->begins[t + 1] += p->begins[t];
  for (uint32_t k = 0; k < fit->n; ++k)
    p->order[p->begins[fit->intervals[k].first]++] = k;
  for (uint32_t t = fit->horizon; t > 0; --t) p->begins[t] = p->begins[t - 1];
  p->begins[0] = 0;
}

static void fill_tree(pile *p, tn__fit_key key) {
  for (uint32_t k = 0; k < p->leaves; ++k) {
    const bool used = k < p->fit->n;
    const tn__interval *interval =
        used ? &p->fit->intervals[p->order[k]] : NULL;
    p->worth[p->leaves + k] = used ? tn__interval_worth(interval, key) : 0;
    p->ends[p->leaves + k] = used ? interval->last : NONE;
  }
  for (uint32_t at = p->leaves; --at > 0;) update_parent(p, at);
}

tn_code tn__fit_skyline(const tn__fit *fit, tn__fit_key key, size_t *offsets,
                        size_t *height) {
  tn__arena *a = fit->arena;
  const size_t n = fit->n, most = 2 * n + 1;
  pile p = {.fit = fit, .leaves = 1, .spare = NONE};
  while (p.leaves < fit->n) p.leaves *= 2;
  p.order = tn__arena_alloc(a, n * sizeof *p.order);
  p.begins = tn__arena_alloc(a, ((size_t)fit->horizon + 1) * sizeof *p.begins);
  p.worth = tn__arena_alloc(a, 2 * (size_t)p.leaves * sizeof *p.worth);
  p.ends = tn__arena_alloc(a, 2 * (size_t)p.leaves * sizeof *p.ends);
  p.stretches = tn__arena_alloc(a, most * sizeof *p.stretches);
  p.heap = tn__arena_alloc(a, most * sizeof *p.heap);
  if (a->failed)
    return tn__fail_memory(most * sizeof *p.stretches, "a plan's offsets");
  sort_by_begin(&p);
  fill_tree(&p, key);
  (void)new_stretch(&p, 0, fit->horizon - 1, 0);
  *height = build_pile(&p, offsets);
  return TN_OK;
}
