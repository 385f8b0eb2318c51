/* SPDX-License-Identifier: Apache-2.0
 * recompute_cut.c: cuts the forward part into segments. Entries that cross a
 * cut are kept from the forward part. The other results of a segment are
 * computed again when the backward part reaches it, all together.
 *
 * While the backward part is in a segment, memory holds the entries that cross
 * the cuts before it and the results of the segment. The chosen cuts keep the
 * fewest bytes while that sum stays within a bound. Dynamic programming finds
 * them from the front: the best path to a cut is the best path to an earlier
 * cut and one more segment.
 */
#include <string.h>

#include "recomputing.h"

/* No more places are tried, and no segment is longer: the product bounds the
 * work. */
enum { MAX_CUTS = 1500, MAX_SEGMENT = 6000 };
static const uint32_t NONE = UINT32_MAX;

/* Cut k is before node at[k]. at[0] is 0, the last is the end. */
typedef struct cuts {
  const tn__forward *f;
  uint32_t *at;
  uint32_t n;
  size_t *crossing; /* by node: bytes that cross a cut before it */
  size_t *kept;     /* by cut: bytes kept by all cuts on the best path to it */
  uint32_t *before; /* by cut: the cut before it on that path */
} cuts;

static bool has_memory(const tn__forward *f, uint32_t e) {
  return (f->net->net->entries[e].flags &
          (TN__ENTRY_EXTERNAL | TN__ENTRY_DYNAMIC | TN__ENTRY_HEAD)) == 0;
}

/* Returns the bytes of outputs of node `n` that forward nodes at or after `cut`
 * read. */
static size_t bytes_across(const tn__forward *f, uint32_t n, uint32_t cut) {
  const tn__plan_node *node = &f->net->net->nodes[n];
  size_t bytes = 0;
  for (uint32_t e = node->first_out; e < node->first_out + node->n_out; ++e)
    if (has_memory(f, e) && f->last_read[e] != NONE && f->last_read[e] >= cut)
      bytes += f->net->net->entries[e].bytes;
  return bytes;
}

/* Sums up differences: an entry begins to cross after its writer, and ends at
 * its last reader. */
static void measure_crossing(cuts *c) {
  const tn__forward *f = c->f;
  const uint32_t n_forward = f->net->n_forward;
  size_t live = 0;
  for (uint32_t e = 0; e < f->net->net->n_entries; ++e) {
    const uint32_t w = f->writer[e], r = f->last_read[e];
    if (w == NONE || w >= n_forward || r == NONE || !has_memory(f, e)) continue;
    c->crossing[w + 1] += f->net->net->entries[e].bytes;
    c->crossing[r + 1] -= f->net->net->entries[e].bytes;
  }
  for (uint32_t n = 0; n <= n_forward; ++n)
    c->crossing[n] = live += c->crossing[n];
}

/* Chooses the place with the fewest crossing bytes in each of MAX_CUTS ranges
 * of equal length. */
static void choose_places(cuts *c) {
  const uint32_t n = c->f->net->n_forward;
  const uint32_t step = n / MAX_CUTS + 1;
  for (uint32_t from = 1; from < n; from += step) {
    uint32_t best = from;
    for (uint32_t k = from; k < from + step && k < n; ++k)
      if (c->crossing[k] < c->crossing[best]) best = k;
    c->at[++c->n] = best;
  }
  c->at[++c->n] = n;
  ++c->n;
}

/* Finds the best path to cut `k` from earlier cuts. */
static void extend_to_cut(cuts *c, uint32_t k, size_t bound) {
  const tn__forward *f = c->f;
  const uint32_t end = c->at[k];
  size_t own = 0, crossing = 0;
  uint32_t n = end;
  c->before[k] = NONE;
  for (uint32_t i = k; i-- > 0 && end - c->at[i] <= MAX_SEGMENT;) {
    for (; n > c->at[i]; --n) {
      const size_t across = bytes_across(f, n - 1, end);
      own += across > 0 ? 0 : f->wanted[n - 1];
      crossing += across;
    }
    if (own > bound) return;
    if (c->kept[i] == SIZE_MAX || c->kept[i] + own + crossing > bound) continue;
    if (c->before[k] != NONE && c->kept[i] + crossing >= c->kept[k]) continue;
    c->before[k] = i;
    c->kept[k] = c->kept[i] + crossing;
  }
}

static void drop_segment(const tn__forward *f, uint32_t from, uint32_t to,
                         bool *dropped) {
  for (uint32_t n = from; n < to; ++n)
    dropped[n] = !f->fixed[n] && bytes_across(f, n, to) == 0;
}

tn_code tn__recompute_cut(const tn__forward *f, tn__arena *arena, size_t bytes,
                          bool *dropped, bool *found) {
  const uint32_t n = f->net->n_forward;
  cuts c = {.f = f};
  *found = false;
  c.at = tn__arena_alloc(arena, ((size_t)n + 2) * sizeof *c.at);
  c.before = tn__arena_alloc(arena, ((size_t)n + 2) * sizeof *c.before);
  c.kept = tn__arena_alloc(arena, ((size_t)n + 2) * sizeof *c.kept);
  c.crossing = tn__arena_alloc(arena, ((size_t)n + 2) * sizeof *c.crossing);
  if (arena->failed)
    return tn__fail_memory(n * sizeof *c.kept, "the cuts of a net");
  measure_crossing(&c);
  choose_places(&c);
  for (uint32_t k = 1; k < c.n; ++k) {
    c.kept[k] = SIZE_MAX;
    extend_to_cut(&c, k, bytes);
  }
  if (c.kept[c.n - 1] == SIZE_MAX) return TN_OK;
  *found = true;
  memset(dropped, 0, n * sizeof *dropped);
  for (uint32_t k = c.before[c.n - 1]; k > 0; k = c.before[k])
    drop_segment(f, c.at[c.before[k]], c.at[k], dropped);
  return TN_OK;
}
