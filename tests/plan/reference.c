/* SPDX-License-Identifier: Apache-2.0
 * reference.c: the second planner of NNVM's rules. See reference.h.
 */
#include "reference.h"

#include <string.h>

typedef struct slot {
  size_t bytes;
  int32_t device;
  bool is_free;
  int freed_as; /* its position in the order of frees */
  uint32_t colour;
} slot;

typedef struct state {
  const tn__plan_net *net;
  const compat_options *options;
  reference_plan *out;
  slot slots[REFERENCE_MAX];
  uint32_t colour[REFERENCE_MAX];
  int n_freed;
  uint32_t range;
} state;

static bool is_read(const tn__plan_node *node, uint32_t i) {
  return node->ignored == NULL || !node->ignored[i];
}

/* Counts the reads of entry `e` by inputs from number `i` of node `n` on. */
static int reads_left(const state *s, uint32_t e, uint32_t n, uint32_t i) {
  int count = (s->net->entries[e].flags & TN__ENTRY_HEAD) ? 1 : 0;
  for (uint32_t k = n; k < s->net->n_nodes; ++k) {
    const tn__plan_node *node = &s->net->nodes[k];
    for (uint32_t j = k == n ? i : 0; j < node->n_in; ++j)
      if (node->in[j] == e && is_read(node, j)) ++count;
  }
  return count;
}

/* Counts the same reads for all entries in a storage. */
static int storage_reads_left(const state *s, int32_t id, uint32_t n,
                              uint32_t i) {
  int count = 0;
  for (uint32_t e = 0; e < s->net->n_entries; ++e)
    if (s->out->storage[e] == id) count += reads_left(s, e, n, i);
  return count;
}

/* ------------------------------------------------------------------ colours */

static bool comes_after(const tn__plan_net *net, uint32_t late,
                        uint32_t early) {
  const tn__plan_node *a = &net->nodes[early], *b = &net->nodes[late];
  for (uint32_t i = 0; i < b->n_in; ++i)
    if (b->in[i] >= a->first_out && b->in[i] < a->first_out + a->n_out)
      return true;
  return false;
}

/* For the best path from each node: its number of nodes without colour, and its
 * next node. Of equal paths it is the one through later nodes. */
static void measure_paths(const state *s, int *length, int *next) {
  for (int n = (int)s->net->n_nodes - 1; n >= 0; --n) {
    length[n] = 0;
    next[n] = -1;
    for (int m = (int)s->net->n_nodes - 1; m > n; --m)
      if (comes_after(s->net, (uint32_t)m, (uint32_t)n) &&
          length[m] > length[n]) {
        length[n] = length[m];
        next[n] = m;
      }
    if (s->colour[n] == UINT32_MAX) ++length[n];
  }
}

static void colour_nodes(state *s) {
  int length[REFERENCE_MAX], next[REFERENCE_MAX];
  const uint32_t n_colours = s->options->n_colours;
  memset(s->colour, n_colours > 1 ? 0xff : 0, sizeof s->colour);
  uint32_t c = 0;
  for (; c + 1 < n_colours; ++c) {
    int best = -1;
    measure_paths(s, length, next);
    for (int n = (int)s->net->n_nodes - 1; n >= 0; --n)
      if (best < 0 || length[n] > length[best]) best = n;
    if (best < 0 || length[best] == 0) break;
    for (; best >= 0; best = next[best])
      if (s->colour[best] == UINT32_MAX) s->colour[best] = c;
  }
  for (uint32_t n = 0; n < s->net->n_nodes; ++n)
    if (s->colour[n] == UINT32_MAX) s->colour[n] = c;
}

/* ---------------------------------------------------------------- the rules */

static bool pair_fits(const state *s, uint32_t n, const tn__plan_pair *pair,
                      const bool *taken) {
  const tn__plan_node *node = &s->net->nodes[n];
  const uint32_t in = node->in[pair->in], out = node->first_out + pair->out;
  const tn__plan_entry *a = &s->net->entries[in], *b = &s->net->entries[out];
  const int32_t id = s->out->storage[in];
  if (taken[pair->in] || !is_read(node, pair->in)) return false;
  if (s->out->storage[out] != TN__STORAGE_NONE) return false;
  if (id < 0) return false;
  if (storage_reads_left(s, id, n, 0) != 1 && !pair->identity) return false;
  if (reads_left(s, out, n, 0) == 0) return false;
  return a->n_elements == b->n_elements && a->dtype == b->dtype &&
         a->device == b->device;
}

static void share_inputs(state *s, uint32_t n) {
  const tn__plan_node *node = &s->net->nodes[n];
  bool taken[REFERENCE_MAX] = {false};
  for (uint32_t k = 0; k < node->n_pairs; ++k) {
    const tn__plan_pair *pair = &node->pairs[k];
    if (!pair_fits(s, n, pair, taken)) continue;
    taken[pair->in] = true;
    const uint32_t out = node->first_out + pair->out;
    s->out->storage[out] = s->out->storage[node->in[pair->in]];
    s->out->alias[out] = (int32_t)pair->in;
  }
}

static bool larger_is_better(const slot *a, const slot *b) {
  return b == NULL || a->bytes < b->bytes ||
         (a->bytes == b->bytes && a->freed_as < b->freed_as);
}

static bool smaller_is_better(const slot *a, const slot *b) {
  return b == NULL || a->bytes > b->bytes ||
         (a->bytes == b->bytes && a->freed_as > b->freed_as);
}

static int32_t request_block(state *s, const tn__plan_entry *entry,
                             uint32_t colour) {
  const size_t size = entry->bytes, r = s->range;
  const slot *large = NULL, *small = NULL;
  for (int32_t k = 0; r > 0 && k < s->out->n_storages; ++k) {
    const slot *it = &s->slots[k];
    if (!it->is_free || it->device != entry->device || it->colour != colour)
      continue;
    if (it->bytes >= size && it->bytes <= size * r &&
        larger_is_better(it, large))
      large = it;
    if (it->bytes < size && it->bytes >= size / r &&
        smaller_is_better(it, small))
      small = it;
  }
  const slot *found = large != NULL ? large : small;
  const int32_t id =
      found != NULL ? (int32_t)(found - s->slots) : s->out->n_storages++;
  if (found == NULL)
    s->slots[id] = (slot){.bytes = size, .device = entry->device};
  if (s->slots[id].bytes < size) s->slots[id].bytes = size;
  s->slots[id].is_free = false;
  return id;
}

/* Returns the largest output that has no storage yet, of equal ones the
 * last. */
static int32_t next_output(const state *s, uint32_t n) {
  const tn__plan_node *node = &s->net->nodes[n];
  int32_t best = -1;
  for (uint32_t o = 0; o < node->n_out; ++o) {
    const uint32_t e = node->first_out + o;
    if (s->out->storage[e] != TN__STORAGE_NONE) continue;
    if (best < 0 || s->net->entries[e].bytes >= s->net->entries[best].bytes)
      best = (int32_t)e;
  }
  return best;
}

static void give_back(state *s, int32_t id, uint32_t colour) {
  s->slots[id].is_free = true;
  s->slots[id].freed_as = s->n_freed++;
  s->slots[id].colour = colour;
}

static void plan_node(state *s, uint32_t n) {
  const tn__plan_node *node = &s->net->nodes[n];
  if (!s->options->no_inplace) share_inputs(s, n);
  for (int32_t e; (e = next_output(s, n)) >= 0;)
    s->out->storage[e] = request_block(s, &s->net->entries[e], s->colour[n]);
  for (uint32_t i = 0; i < node->n_in; ++i) {
    const int32_t id = s->out->storage[node->in[i]];
    if (id >= 0 && is_read(node, i) && storage_reads_left(s, id, n, i + 1) == 0)
      give_back(s, id, s->colour[n]);
  }
  for (uint32_t o = 0; o < node->n_out; ++o) {
    const uint32_t e = node->first_out + o;
    if (s->out->storage[e] >= 0 && reads_left(s, e, n, 0) == 0)
      give_back(s, s->out->storage[e], s->colour[n]);
  }
}

static void run_with(state *s, uint32_t range) {
  reference_plan *out = s->out;
  s->range = range;
  s->n_freed = 0;
  out->n_storages = 0;
  out->total = 0;
  for (uint32_t e = 0; e < s->net->n_entries; ++e) {
    const uint32_t flags = s->net->entries[e].flags;
    out->alias[e] = -1;
    out->storage[e] = TN__STORAGE_NONE;
    if (flags & TN__ENTRY_DYNAMIC) out->storage[e] = TN__STORAGE_DYNAMIC;
    if (flags & TN__ENTRY_EXTERNAL) out->storage[e] = TN__STORAGE_EXTERNAL;
  }
  for (uint32_t n = 0; n < s->net->n_nodes; ++n) plan_node(s, n);
  for (int32_t k = 0; k < out->n_storages; ++k)
    out->total += out->bytes[k] = s->slots[k].bytes;
}

void reference_run(reference_plan *out, const tn__plan_net *net,
                   const compat_options *options) {
  static state s;
  memset(&s, 0, sizeof s);
  s.net = net;
  s.options = options;
  s.out = out;
  colour_nodes(&s);
  const uint32_t most = options->match_range == 0 ? 16 : options->match_range;
  uint32_t best = most;
  size_t least = SIZE_MAX;
  for (uint32_t r = 1; options->sweep && r <= most; r *= 2) {
    run_with(&s, r);
    if (out->total < least) {
      least = out->total;
      best = r;
    }
  }
  run_with(&s, options->no_share ? 0 : best);
}
