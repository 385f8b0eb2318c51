/* SPDX-License-Identifier: Apache-2.0
 * random_net.c: makes random nets and runs plans on tags. See random_net.h.
 */
#include "random_net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CELL = 64 }; /* all offsets are multiples of it */

uint64_t random_next(uint64_t *state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

uint32_t random_below(uint64_t *state, uint32_t n) {
  return (uint32_t)(random_next(state) % n);
}

static bool one_in(random_net *r, uint32_t n) {
  return random_below(&r->state, n) == 0;
}

/* Uses few sizes, so that pairs fit and blocks are found again. Some sizes
 * differ a lot. */
static void make_entry(random_net *r, uint32_t device) {
  static const uint32_t COUNTS[] = {16, 16, 16, 32, 32, 48, 160, 512, 16, 0};
  const uint32_t count = COUNTS[random_below(&r->state, 10)];
  const bool wide = one_in(r, 8);
  tn__plan_entry *e = &r->entries[r->net.n_entries++];
  *e = (tn__plan_entry){.bytes = (size_t)count * (wide ? 8 : 4),
                        .n_elements = count,
                        .dtype = wide ? TN_F64 : TN_F32,
                        .device = (int32_t)device};
  if (one_in(r, 12)) e->flags |= TN__ENTRY_HEAD;
  if (one_in(r, 15)) e->flags |= TN__ENTRY_EXTERNAL;
  if (one_in(r, 40)) e->flags |= TN__ENTRY_DYNAMIC;
}

/* Picks mostly one of the last few entries, so that entries die soon. */
static uint32_t pick_input(random_net *r) {
  const uint32_t n = (uint32_t)r->net.n_entries;
  if (one_in(r, 4)) return random_below(&r->state, n);
  return n - 1 - random_below(&r->state, n < 8 ? n : 8);
}

static void make_pairs(random_net *r, uint32_t n) {
  tn__plan_node *node = &r->nodes[n];
  for (uint32_t k = 0; k < 3 && node->n_in > 0; ++k) {
    if (one_in(r, 3)) continue;
    tn__plan_pair *pair = &r->pairs[n][node->n_pairs++];
    *pair = (tn__plan_pair){random_below(&r->state, node->n_in),
                            random_below(&r->state, node->n_out), one_in(r, 6)};
  }
}

/* Adds an earlier entry of the same size as the second term, if there is
 * one. */
static void make_sum(random_net *r, uint32_t n) {
  tn__plan_node *node = &r->nodes[n];
  if (node->n_in < 2 || node->n_out != 1 || !one_in(r, 2)) return;
  node->n_in = 2;
  node->sum = true;
  r->ignored[n][0] = r->ignored[n][1] = false;
  const tn__plan_entry like = r->entries[r->in[n][0]];
  tn__plan_entry *out = &r->entries[node->first_out];
  out->bytes = like.bytes;
  out->n_elements = like.n_elements;
  out->dtype = like.dtype;
  out->device = like.device;
  node->n_pairs = 1;
  r->pairs[n][0] = (tn__plan_pair){0, 0, false};
}

static void make_node(random_net *r, uint32_t n) {
  tn__plan_node *node = &r->nodes[n];
  const uint32_t device = random_below(&r->state, r->n_devices);
  *node = (tn__plan_node){.n_in = random_below(&r->state, RANDOM_MAX_IN + 1),
                          .n_out = 1 + random_below(&r->state, RANDOM_MAX_OUT),
                          .in = r->in[n],
                          .ignored = one_in(r, 3) ? r->ignored[n] : NULL,
                          .pairs = r->pairs[n],
                          .after = r->after[n],
                          .device = (int32_t)device};
  for (uint32_t i = 0; i < node->n_in; ++i) {
    r->in[n][i] = pick_input(r);
    r->ignored[n][i] = node->ignored != NULL && one_in(r, 4);
  }
  node->first_out = (uint32_t)r->net.n_entries;
  for (uint32_t o = 0; o < node->n_out; ++o) make_entry(r, device);
  make_pairs(r, n);
  make_sum(r, n);
  if (one_in(r, 4)) node->workspace = 32 * random_below(&r->state, 20);
  if (n > 0 && one_in(r, 6))
    r->after[n][node->n_after++] = random_below(&r->state, n);
}

void random_net_make(random_net *r, uint64_t seed) {
  memset(r, 0, sizeof *r);
  r->state = seed;
  r->n_devices = one_in(r, 4) ? 2 : 1;
  r->net.nodes = r->nodes;
  r->net.entries = r->entries;
  for (int k = 0; k < RANDOM_MAX_IN; ++k) {
    make_entry(r, 0);
    r->entries[k].flags = TN__ENTRY_EXTERNAL;
  }
  const uint32_t n = 3 + random_below(&r->state, RANDOM_MAX_NODES - 3);
  for (uint32_t k = 0; k < n; ++k) make_node(r, k);
  r->net.n_nodes = n;
}

/* -------------------------------------------------------------- the machine */

enum { MAX_DEVICES = 4 };

/* tags: of each cell of each device. value: the tag of each entry. */
typedef struct machine {
  const tn__plan_net *net;
  const tn__memory_plan *plan;
  uint32_t *tags[MAX_DEVICES];
  size_t n_cells[MAX_DEVICES];
  uint32_t *value;
  uint32_t fresh;
  char fault[160];
} machine;

typedef struct range {
  int32_t device;
  size_t begin;
  size_t end; /* in cells */
} range;

static bool set_fault(machine *m, const char *text, uint32_t node,
                      uint32_t entry) {
  if (m->fault[0] == '\0')
    snprintf(m->fault, sizeof m->fault, "node %u, entry %u: %s", node, entry,
             text);
  return false;
}

static size_t count_cells(size_t bytes) {
  return (bytes + CELL - 1) / CELL;
}

/* Returns an empty range if the entry has no storage. */
static range range_of(const machine *m, uint32_t e) {
  const int32_t s = m->plan->places[e].storage;
  if (s < 0) return (range){0, 0, 0};
  const tn__plan_storage *storage = &m->plan->storages[s];
  const size_t begin = storage->offset / CELL;
  return (range){storage->device, begin,
                 begin + count_cells(m->net->entries[e].bytes)};
}

static bool do_overlap(range a, range b) {
  return a.device == b.device && a.begin < b.end && b.begin < a.end;
}

static bool is_same(range a, range b) {
  return a.device == b.device && a.begin == b.begin && a.end == b.end;
}

static void fill_cells(machine *m, range r, uint32_t tag) {
  for (size_t c = r.begin; c < r.end; ++c) m->tags[r.device][c] = tag;
}

static bool has_tag(const machine *m, range r, uint32_t tag) {
  for (size_t c = r.begin; c < r.end; ++c)
    if (m->tags[r.device][c] != tag) return false;
  return true;
}

static bool read_inputs(machine *m, uint32_t n, const char *when) {
  const tn__plan_node *node = &m->net->nodes[n];
  for (uint32_t i = 0; i < node->n_in; ++i) {
    const uint32_t e = node->in[i];
    if (node->ignored != NULL && node->ignored[i]) continue;
    if (!has_tag(m, range_of(m, e), m->value[e]))
      return set_fault(m, when, n, e);
  }
  return true;
}

static bool use_workspace(machine *m, uint32_t n) {
  const tn__plan_node *node = &m->net->nodes[n];
  const size_t begin = m->plan->workspaces[n] / CELL;
  const range r = {node->device, begin, begin + count_cells(node->workspace)};
  if (node->workspace == 0) return true;
  if (r.end > m->n_cells[r.device])
    return set_fault(m, "its workspace ends beyond the pool", n, 0);
  for (uint32_t o = 0; o < node->n_out; ++o)
    if (do_overlap(r, range_of(m, node->first_out + o)))
      return set_fault(m, "its workspace is under an output", n,
                       node->first_out + o);
  fill_cells(m, r, ++m->fresh);
  return read_inputs(m, n, "its workspace overwrites an input");
}

static bool is_identity(const tn__plan_node *node, uint32_t in, uint32_t out) {
  for (uint32_t k = 0; k < node->n_pairs; ++k)
    if (node->pairs[k].in == in && node->pairs[k].out == out &&
        node->pairs[k].identity)
      return true;
  return false;
}

/* Returns whether output `e` overlaps an input other than number `but`. */
static bool is_under_input(const machine *m, uint32_t n, uint32_t e,
                           int32_t but) {
  const tn__plan_node *node = &m->net->nodes[n];
  for (uint32_t i = 0; i < node->n_in; ++i) {
    if ((int32_t)i == but || (node->ignored != NULL && node->ignored[i]))
      continue;
    if (do_overlap(range_of(m, e), range_of(m, node->in[i]))) return true;
  }
  return false;
}

static bool write_inplace(machine *m, uint32_t n, uint32_t o) {
  const tn__plan_node *node = &m->net->nodes[n];
  const uint32_t e = node->first_out + o;
  const int32_t alias = m->plan->places[e].alias;
  if (alias < 0 || (uint32_t)alias >= node->n_in ||
      !is_same(range_of(m, e), range_of(m, node->in[alias])))
    return set_fault(m, "not in the memory of its input", n, e);
  if (is_identity(node, (uint32_t)alias, o)) {
    m->value[e] = m->value[node->in[alias]];
    return true;
  }
  if (is_under_input(m, n, e, alias))
    return set_fault(m, "in-place under another input", n, e);
  fill_cells(m, range_of(m, e), m->value[e] = ++m->fresh);
  return true;
}

/* Finds the sum that output `e` belongs to, and adds it to its first term. */
static bool write_added(machine *m, uint32_t n, uint32_t e) {
  for (uint32_t s = n + 1; s < m->net->n_nodes; ++s) {
    const tn__plan_node *sum = &m->net->nodes[s];
    if (!m->plan->skipped[s] || sum->in[1] != e) continue;
    const uint32_t first = sum->in[0];
    if (!is_same(range_of(m, e), range_of(m, first)) ||
        !has_tag(m, range_of(m, e), m->value[first]))
      return set_fault(m, "added to memory that is not the first term", n, e);
    if (is_under_input(m, n, e, -1))
      return set_fault(m, "added to an input", n, e);
    fill_cells(m, range_of(m, e), m->value[e] = m->value[first] = ++m->fresh);
    return true;
  }
  return set_fault(m, "added, but no sum is skipped for it", n, e);
}

static bool write_output(machine *m, uint32_t n, uint32_t o) {
  const tn__plan_node *node = &m->net->nodes[n];
  const uint32_t e = node->first_out + o;
  const tn__plan_place *place = &m->plan->places[e];
  const range r = range_of(m, e);
  if (r.end > m->n_cells[r.device])
    return set_fault(m, "beyond the pool", n, e);
  if (place->request == TN_REQ_INPLACE) return write_inplace(m, n, o);
  if (place->request == TN_REQ_ADD) return write_added(m, n, e);
  if (is_under_input(m, n, e, -1))
    return set_fault(m, "written over an input", n, e);
  fill_cells(m, r, m->value[e] = ++m->fresh);
  return true;
}

static bool write_outputs(machine *m, uint32_t n) {
  const tn__plan_node *node = &m->net->nodes[n];
  for (uint32_t o = 0; o < node->n_out; ++o)
    if (!write_output(m, n, o)) return false;
  for (uint32_t o = 0; o < node->n_out; ++o)
    if (!has_tag(m, range_of(m, node->first_out + o),
                 m->value[node->first_out + o]))
      return set_fault(m, "overwritten by another output", n,
                       node->first_out + o);
  return true;
}

static bool run_node(machine *m, uint32_t n) {
  const tn__plan_node *node = &m->net->nodes[n];
  if (!read_inputs(m, n, "an input was overwritten before it was read"))
    return false;
  if (!m->plan->skipped[n]) return use_workspace(m, n) && write_outputs(m, n);
  if (m->value[node->in[0]] != m->value[node->in[1]])
    return set_fault(m, "skipped, but its terms are not summed up", n, 0);
  if (!is_same(range_of(m, node->first_out), range_of(m, node->in[0])))
    return set_fault(m, "skipped, but not where its sum is", n,
                     node->first_out);
  m->value[node->first_out] = m->value[node->in[0]];
  return true;
}

static void run_all(machine *m) {
  for (uint32_t n = 0; n < m->net->n_nodes; ++n)
    if (!run_node(m, n)) return;
  for (uint32_t e = 0; e < m->net->n_entries; ++e)
    if ((m->net->entries[e].flags & TN__ENTRY_HEAD) &&
        !has_tag(m, range_of(m, e), m->value[e]))
      set_fault(m, "a head was overwritten", (uint32_t)m->net->n_nodes, e);
}

const char *run_plan(const tn__plan_net *net, const tn__memory_plan *plan) {
  static char fault[160];
  machine m = {.net = net, .plan = plan};
  for (size_t k = 0; k < plan->n_pools; ++k) {
    const int32_t device = plan->pools[k].device;
    m.n_cells[device] = count_cells(plan->pools[k].bytes);
    m.tags[device] = calloc(m.n_cells[device] + 1, sizeof *m.tags[device]);
  }
  m.value = calloc(net->n_entries + 1, sizeof *m.value);
  run_all(&m);
  for (int d = 0; d < MAX_DEVICES; ++d) free(m.tags[d]);
  free(m.value);
  memcpy(fault, m.fault, sizeof fault);
  return fault[0] == '\0' ? NULL : fault;
}

/* ----------------------------------------------------------------- liveness */

/* An entry is live from its writer to its last reader. */
static bool is_live(const tn__plan_net *net, uint32_t e, uint32_t n) {
  uint32_t first = UINT32_MAX, last = 0;
  for (uint32_t k = 0; k < net->n_nodes; ++k) {
    const tn__plan_node *node = &net->nodes[k];
    if (e >= node->first_out && e < node->first_out + node->n_out)
      first = last = k;
    for (uint32_t i = 0; i < node->n_in; ++i)
      if (node->in[i] == e && !(node->ignored != NULL && node->ignored[i]))
        last = k;
  }
  if (net->entries[e].flags & TN__ENTRY_HEAD) last = UINT32_MAX;
  return first <= n && n <= last;
}

size_t live_peak(const tn__plan_net *net, const tn__memory_plan *plan,
                 int32_t device) {
  size_t peak = 0;
  for (uint32_t n = 0; n < net->n_nodes; ++n) {
    size_t live = 0;
    for (size_t s = 0; s < plan->n_storages; ++s) {
      size_t most = 0;
      for (uint32_t e = 0; e < net->n_entries; ++e)
        if (plan->places[e].storage == (int32_t)s && is_live(net, e, n) &&
            net->entries[e].device == device && net->entries[e].bytes > most)
          most = net->entries[e].bytes;
      live += most;
    }
    if (net->nodes[n].device == device) live += net->nodes[n].workspace;
    if (live > peak) peak = live;
  }
  return peak;
}
