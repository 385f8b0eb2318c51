/* SPDX-License-Identifier: Apache-2.0
 * walk.c: lifetimes. Goes through the nodes in order, counts who is still
 * to read what, and notes when memory is taken and given back.
 */
#include "planning.h"

static const uint32_t WHOLE = TN_REQ_WRITE;

static void count_reads(tn__walk *w) {
  const tn__plan_net *net = w->net;
  for (uint32_t n = 0; n < net->n_nodes; ++n) {
    const tn__plan_node *node = &net->nodes[n];
    for (uint32_t i = 0; i < node->n_in; ++i)
      if (!tn__is_ignored(node, i)) ++w->refs[node->in[i]];
    for (uint32_t o = 0; o < node->n_out; ++o)
      w->writer[node->first_out + o] = n;
    if (node->sum) w->sum[node->in[1]] = n;
  }
  for (uint32_t e = 0; e < net->n_entries; ++e)
    if (net->entries[e].flags & TN__ENTRY_HEAD) ++w->refs[e];
}

static uint32_t widest(const tn__plan_net *net) {
  uint32_t most = 1;
  for (size_t n = 0; n < net->n_nodes; ++n) {
    const uint32_t wide = net->nodes[n].n_in + net->nodes[n].n_out;
    if (wide > most) most = wide;
  }
  return most;
}

static tn_code allocate(tn__walk *w) {
  const size_t n = w->net->n_entries, nodes = w->net->n_nodes;
  tn__arena *a = w->arena;
  w->places = tn__arena_alloc(a, n * sizeof *w->places);
  w->refs = tn__arena_alloc(a, n * sizeof *w->refs);
  w->writer = tn__arena_alloc(a, n * sizeof *w->writer);
  w->sum = tn__arena_alloc(a, n * sizeof *w->sum);
  w->skipped = tn__arena_alloc(a, nodes * sizeof *w->skipped);
  w->tenancies = tn__arena_alloc(a, n * sizeof *w->tenancies);
  w->held = tn__arena_alloc(a, n * sizeof *w->held);
  w->quiet = tn__arena_alloc(a, n * sizeof *w->quiet);
  w->events = tn__arena_alloc(a, 2 * n * sizeof *w->events);
  w->scratch =
      tn__arena_alloc(a, 3 * (size_t)widest(w->net) * sizeof *w->scratch);
  if (a->failed) return tn__fail_memory(n * sizeof *w->places, "a memory plan");
  return TN_OK;
}

static void clear(tn__walk *w) {
  for (size_t e = 0; e < w->net->n_entries; ++e) {
    const uint32_t flags = w->net->entries[e].flags;
    w->places[e] = (tn__plan_place){TN__STORAGE_NONE, -1, WHOLE};
    if (flags & TN__ENTRY_DYNAMIC) w->places[e].storage = TN__STORAGE_DYNAMIC;
    if (flags & TN__ENTRY_EXTERNAL) w->places[e].storage = TN__STORAGE_EXTERNAL;
    w->writer[e] = w->sum[e] = TN__NO_NODE;
  }
}

void tn__walk_join(tn__walk *w, uint32_t e, uint32_t t) {
  w->places[e].storage = (int32_t)t;
  w->held[t] += w->refs[e];
}

/* 0 if it is on another device. */
static size_t bytes_on(const tn__walk *w, uint32_t t, int32_t device,
                       size_t align) {
  return w->tenancies[t].device == device
             ? tn__round_up(w->tenancies[t].bytes, align)
             : 0;
}

bool tn__walk_is_after(const tn__walk *w, uint32_t n, uint32_t t) {
  return w->branches == NULL ||
         tn__branches_after_all(w->branches, n, w->users[t]);
}

/* Node `n` uses tenancy `t`. A failure shows in the arena. */
static void use(tn__walk *w, uint32_t n, uint32_t t) {
  if (w->branches != NULL)
    (void)!tn__users_add(w->branches, w->arena, &w->users[t], n);
}

static void begin(tn__walk *w, uint32_t n, uint32_t e) {
  const tn__plan_entry *entry = &w->net->entries[e];
  const uint32_t t = w->n_tenancies++;
  w->tenancies[t] = (tn__tenancy){.bytes = entry->bytes,
                                  .device = entry->device,
                                  .first = n,
                                  .last = (uint32_t)w->net->n_nodes};
  w->events[w->n_events++] = (tn__plan_event){n, t, false};
  w->quiet[t] = n;
  use(w, n, t);
  tn__walk_join(w, e, t);
}

static void end(tn__walk *w, uint32_t n, uint32_t t) {
  w->tenancies[t].last = n;
  w->events[w->n_events++] = (tn__plan_event){n, t, true};
}

/* The outputs of node `n` that have no memory yet, the largest first; of equals
 * the last first, as NNVM has it. */
static uint32_t sort_outputs(tn__walk *w, uint32_t n) {
  const tn__plan_node *node = &w->net->nodes[n];
  uint32_t count = 0;
  for (uint32_t o = node->n_out; o-- > 0;) {
    const uint32_t e = node->first_out + o;
    if (w->places[e].storage != TN__STORAGE_NONE) continue;
    uint32_t at = count++;
    for (; at > 0 &&
           w->net->entries[w->scratch[at - 1]].bytes < w->net->entries[e].bytes;
         --at)
      w->scratch[at] = w->scratch[at - 1];
    w->scratch[at] = e;
  }
  return count;
}

static void take(tn__walk *w, uint32_t n) {
  const uint32_t count = sort_outputs(w, n);
  for (uint32_t k = 0; k < count; ++k) {
    const uint32_t e = w->scratch[k];
    if (w->refs[e] > 0 || w->options->compat)
      begin(w, n, e);
    else
      w->places[e].request = TN_REQ_NULL;
  }
}

static void release(tn__walk *w, uint32_t n, uint32_t e) {
  const int32_t t = w->places[e].storage;
  if (t < 0) return;
  use(w, n, (uint32_t)t);
  const uint32_t left = --w->held[t];
  if (left == 1) w->quiet[t] = n;
  if (left == 0) end(w, n, (uint32_t)t);
}

static void give_back(tn__walk *w, uint32_t n) {
  const tn__plan_node *node = &w->net->nodes[n];
  for (uint32_t i = 0; i < node->n_in; ++i)
    if (!tn__is_ignored(node, i)) release(w, n, node->in[i]);
  for (uint32_t o = 0; o < node->n_out; ++o) {
    const uint32_t e = node->first_out + o;
    if (w->places[e].storage < 0 || w->refs[e] > 0) continue;
    end(w, n, (uint32_t)w->places[e].storage);
    w->places[e].request = TN_REQ_NULL;
  }
}

/* ------------------------------------------------------------- accumulation */

static bool alike(const tn__plan_entry *a, const tn__plan_entry *b) {
  return a->bytes == b->bytes && a->n_elements == b->n_elements &&
         a->dtype == b->dtype && a->device == b->device;
}

/* Whether output `e` of node `n` can be added to the first term of the sum that
 * reads it: that term is there, nobody but the sum will read it again, and the
 * result lies in memory of ours. */
static bool may_accumulate(const tn__walk *w, uint32_t n, uint32_t e) {
  if (w->sum[e] == TN__NO_NODE || w->refs[e] != 1) return false;
  const tn__plan_node *sum = &w->net->nodes[w->sum[e]];
  const tn__plan_entry *entries = w->net->entries;
  const int32_t t = w->places[sum->in[0]].storage;
  if (w->places[e].storage != TN__STORAGE_NONE || sum->in[0] == e || t < 0)
    return false;
  if (w->held[t] != 1 || w->refs[sum->first_out] == 0 ||
      w->places[sum->first_out].storage != TN__STORAGE_NONE)
    return false;
  if (!tn__walk_is_after(w, n, (uint32_t)t)) return false;
  return alike(&entries[e], &entries[sum->in[0]]) &&
         alike(&entries[e], &entries[sum->first_out]);
}

static void accumulate(tn__walk *w, uint32_t n) {
  const tn__plan_node *node = &w->net->nodes[n];
  for (uint32_t o = 0; o < node->n_out; ++o) {
    const uint32_t e = node->first_out + o;
    if (!may_accumulate(w, n, e)) continue;
    const uint32_t first = w->net->nodes[w->sum[e]].in[0];
    tn__walk_join(w, e, (uint32_t)w->places[first].storage);
    w->places[e].request = TN_REQ_ADD;
    w->skipped[w->sum[e]] = true;
  }
}

/* A sum whose terms were added up has its result where the first term lies. */
static void finish_sum(tn__walk *w, uint32_t n) {
  const tn__plan_node *node = &w->net->nodes[n];
  const uint32_t e = node->first_out;
  tn__walk_join(w, e, (uint32_t)w->places[node->in[0]].storage);
  w->places[e].alias = 0;
  w->places[e].request = TN_REQ_INPLACE;
}

/* The same after the fact, as MXNet's own pass: where a sum came to lie in the
 * memory of its first term, the second is added to it there. Stricter than the
 * original in one point, in which it was wrong: nobody else may read the first
 * term after the second's writer began. */
static bool was_accumulated(const tn__walk *w, uint32_t n) {
  const tn__plan_node *node = &w->net->nodes[n];
  const uint32_t first = node->in[0], second = node->in[1];
  const tn__plan_place *out = &w->places[node->first_out];
  const int32_t t = w->places[first].storage;
  if (t < 0 || out->storage != t || out->alias != 0) return false;
  if (!alike(&w->net->entries[first], &w->net->entries[second])) return false;
  if (w->places[second].storage < 0 || w->refs[second] != 1) return false;
  /* A sum that is made by now writes nothing that could be added. */
  return w->quiet[t] < w->writer[second] && !w->skipped[w->writer[second]];
}

static void move_term(tn__walk *w, uint32_t n) {
  const tn__plan_node *node = &w->net->nodes[n];
  w->places[node->in[1]] =
      (tn__plan_place){w->places[node->first_out].storage, -1, TN_REQ_ADD};
  w->skipped[n] = true;
}

/* ----------------------------------------------------------------- the walk */

static void walk_node(tn__walk *w, uint32_t n) {
  const tn__plan_options *options = w->options;
  const bool adds = !options->no_inplace && !options->no_accumulate;
  if (w->skipped[n])
    finish_sum(w, n);
  else if (adds && !options->compat)
    accumulate(w, n);
  if (!options->no_inplace) tn__walk_lend(w, n);
  take(w, n);
  const bool moves =
      adds && options->compat && w->net->nodes[n].sum && was_accumulated(w, n);
  give_back(w, n);
  if (moves) move_term(w, n);
}

tn_code tn__walk_run(tn__walk *w) {
  TN__TRY(allocate(w));
  clear(w);
  count_reads(w);
  if (w->options->parallel) {
    w->users =
        tn__arena_alloc(w->arena, w->net->n_entries * sizeof(tn__user *));
    TN__TRY(tn__branches_create(w->net, w->writer, w->arena, &w->branches));
  }
  for (uint32_t n = 0; n < w->net->n_nodes; ++n) walk_node(w, n);
  return w->arena->failed ? tn__fail_memory(0, "a memory plan") : TN_OK;
}

size_t tn__walk_peak(const tn__walk *w, int32_t device, size_t align) {
  size_t live = 0, peak = 0, k = 0;
  for (uint32_t n = 0; n < w->net->n_nodes; ++n) {
    const tn__plan_node *node = &w->net->nodes[n];
    for (; k < w->n_events && w->events[k].node == n && !w->events[k].ends; ++k)
      live += bytes_on(w, w->events[k].tenancy, device, align);
    const size_t extra =
        node->device == device ? tn__round_up(node->workspace, align) : 0;
    if (live + extra > peak) peak = live + extra;
    for (; k < w->n_events && w->events[k].node == n; ++k)
      live -= bytes_on(w, w->events[k].tenancy, device, align);
  }
  return peak;
}
