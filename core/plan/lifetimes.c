/* SPDX-License-Identifier: Apache-2.0
 * lifetimes.c: finds the lifetimes of memory. It visits the nodes in order of
 * execution, counts the reads that are still to come, and records where each
 * lifetime begins and ends.
 */
#include "planning.h"

static const uint32_t WHOLE = TN_REQ_WRITE;

static void count_reads(tn__lifetime_table *table) {
  const tn__plan_net *net = table->net;
  for (uint32_t n = 0; n < net->n_nodes; ++n) {
    const tn__plan_node *node = &net->nodes[n];
    for (uint32_t i = 0; i < node->n_in; ++i)
      if (!tn__is_ignored(node, i)) ++table->refs[node->in[i]];
    for (uint32_t o = 0; o < node->n_out; ++o)
      table->writer[node->first_out + o] = n;
    if (node->sum) table->sum[node->in[1]] = n;
  }
  for (uint32_t e = 0; e < net->n_entries; ++e)
    if (net->entries[e].flags & TN__ENTRY_HEAD) ++table->refs[e];
}

static uint32_t find_widest(const tn__plan_net *net) {
  uint32_t most = 1;
  for (size_t n = 0; n < net->n_nodes; ++n) {
    const uint32_t wide = net->nodes[n].n_in + net->nodes[n].n_out;
    if (wide > most) most = wide;
  }
  return most;
}

static tn_code allocate_table(tn__lifetime_table *table) {
  const size_t n = table->net->n_entries, nodes = table->net->n_nodes;
  tn__arena *a = table->arena;
  table->places = tn__arena_alloc(a, n * sizeof *table->places);
  table->refs = tn__arena_alloc(a, n * sizeof *table->refs);
  table->writer = tn__arena_alloc(a, n * sizeof *table->writer);
  table->sum = tn__arena_alloc(a, n * sizeof *table->sum);
  table->skipped = tn__arena_alloc(a, nodes * sizeof *table->skipped);
  table->lifetimes = tn__arena_alloc(a, n * sizeof *table->lifetimes);
  table->reads_left = tn__arena_alloc(a, n * sizeof *table->reads_left);
  table->events = tn__arena_alloc(a, 2 * n * sizeof *table->events);
  table->scratch = tn__arena_alloc(
      a, 3 * (size_t)find_widest(table->net) * sizeof *table->scratch);
  if (a->failed)
    return tn__fail_memory(n * sizeof *table->places, "a memory plan");
  return TN_OK;
}

static void clear_places(tn__lifetime_table *table) {
  for (size_t e = 0; e < table->net->n_entries; ++e) {
    const uint32_t flags = table->net->entries[e].flags;
    table->places[e] = (tn__plan_place){TN__STORAGE_NONE, -1, WHOLE};
    if (flags & TN__ENTRY_DYNAMIC)
      table->places[e].storage = TN__STORAGE_DYNAMIC;
    if (flags & TN__ENTRY_EXTERNAL)
      table->places[e].storage = TN__STORAGE_EXTERNAL;
    table->writer[e] = table->sum[e] = TN__NO_NODE;
  }
}

tn_code tn__lifetimes_prepare(tn__lifetime_table *table) {
  TN__TRY(allocate_table(table));
  clear_places(table);
  count_reads(table);
  return TN_OK;
}

void tn__lifetimes_join(tn__lifetime_table *table, uint32_t e, uint32_t t) {
  table->places[e].storage = (int32_t)t;
  table->reads_left[t] += table->refs[e];
}

/* Returns 0 if the lifetime is on another device. */
static size_t bytes_on(const tn__lifetime_table *table, uint32_t t,
                       int32_t device, size_t align) {
  return table->lifetimes[t].device == device
             ? tn__round_up(table->lifetimes[t].bytes, align)
             : 0;
}

bool tn__lifetimes_is_after(const tn__lifetime_table *table, uint32_t n,
                            uint32_t t) {
  return table->branches == NULL ||
         tn__branches_is_after_all(table->branches, n, table->users[t]);
}

/* Makes node `n` a user of lifetime `t`. The arena records a failure. */
static void add_user(tn__lifetime_table *table, uint32_t n, uint32_t t) {
  if (table->branches != NULL)
    (void)!tn__users_add(table->branches, table->arena, &table->users[t], n);
}

void tn__lifetimes_begin(tn__lifetime_table *table, uint32_t n, uint32_t e) {
  const tn__plan_entry *entry = &table->net->entries[e];
  const uint32_t t = table->n_lifetimes++;
  table->lifetimes[t] = (tn__lifetime){.bytes = entry->bytes,
                                       .device = entry->device,
                                       .first = n,
                                       .last = (uint32_t)table->net->n_nodes};
  table->events[table->n_events++] = (tn__plan_event){n, t, false};
  add_user(table, n, t);
  tn__lifetimes_join(table, e, t);
}

static void end_lifetime(tn__lifetime_table *table, uint32_t n, uint32_t t) {
  table->lifetimes[t].last = n;
  table->events[table->n_events++] = (tn__plan_event){n, t, true};
}

uint32_t tn__lifetimes_sort_outputs(tn__lifetime_table *table, uint32_t n) {
  const tn__plan_node *node = &table->net->nodes[n];
  uint32_t count = 0;
  for (uint32_t o = node->n_out; o-- > 0;) {
    const uint32_t e = node->first_out + o;
    if (table->places[e].storage != TN__STORAGE_NONE) continue;
    uint32_t at = count++;
    for (; at > 0 && table->net->entries[table->scratch[at - 1]].bytes <
                         table->net->entries[e].bytes;
         --at)
      table->scratch[at] = table->scratch[at - 1];
    table->scratch[at] = e;
  }
  return count;
}

static void begin_outputs(tn__lifetime_table *table, uint32_t n) {
  const uint32_t count = tn__lifetimes_sort_outputs(table, n);
  for (uint32_t k = 0; k < count; ++k) {
    const uint32_t e = table->scratch[k];
    if (table->refs[e] > 0)
      tn__lifetimes_begin(table, n, e);
    else
      table->places[e].request = TN_REQ_NULL;
  }
}

static void release_read(tn__lifetime_table *table, uint32_t n, uint32_t e) {
  const int32_t t = table->places[e].storage;
  if (t < 0) return;
  add_user(table, n, (uint32_t)t);
  const uint32_t left = --table->reads_left[t];
  if (left == 0) end_lifetime(table, n, (uint32_t)t);
}

void tn__lifetimes_release(tn__lifetime_table *table, uint32_t n) {
  const tn__plan_node *node = &table->net->nodes[n];
  for (uint32_t i = 0; i < node->n_in; ++i)
    if (!tn__is_ignored(node, i)) release_read(table, n, node->in[i]);
  for (uint32_t o = 0; o < node->n_out; ++o) {
    const uint32_t e = node->first_out + o;
    if (table->places[e].storage < 0 || table->refs[e] > 0) continue;
    end_lifetime(table, n, (uint32_t)table->places[e].storage);
    table->places[e].request = TN_REQ_NULL;
  }
}

/* ------------------------------------------------------------- accumulation */

bool tn__entry_is_alike(const tn__plan_entry *a, const tn__plan_entry *b) {
  return a->bytes == b->bytes && a->n_elements == b->n_elements &&
         a->dtype == b->dtype && a->device == b->device;
}

/* Returns whether output `e` of node `n` can be added to the first term of the
 * sum that reads it. The first term must be computed, only the sum may still
 * read it, and the result must have memory of the plan. */
static bool can_accumulate(const tn__lifetime_table *table, uint32_t n,
                           uint32_t e) {
  if (table->sum[e] == TN__NO_NODE || table->refs[e] != 1) return false;
  const tn__plan_node *sum = &table->net->nodes[table->sum[e]];
  const tn__plan_entry *entries = table->net->entries;
  const int32_t t = table->places[sum->in[0]].storage;
  if (table->places[e].storage != TN__STORAGE_NONE || sum->in[0] == e || t < 0)
    return false;
  if (table->reads_left[t] != 1 || table->refs[sum->first_out] == 0 ||
      table->places[sum->first_out].storage != TN__STORAGE_NONE)
    return false;
  if (!tn__lifetimes_is_after(table, n, (uint32_t)t)) return false;
  return tn__entry_is_alike(&entries[e], &entries[sum->in[0]]) &&
         tn__entry_is_alike(&entries[e], &entries[sum->first_out]);
}

static void accumulate_outputs(tn__lifetime_table *table, uint32_t n) {
  const tn__plan_node *node = &table->net->nodes[n];
  for (uint32_t o = 0; o < node->n_out; ++o) {
    const uint32_t e = node->first_out + o;
    if (!can_accumulate(table, n, e)) continue;
    const uint32_t first = table->net->nodes[table->sum[e]].in[0];
    tn__lifetimes_join(table, e, (uint32_t)table->places[first].storage);
    table->places[e].request = TN_REQ_ADD;
    table->skipped[table->sum[e]] = true;
  }
}

/* The terms of this sum were accumulated: its result has the memory of the
 * first term. */
static void finish_sum(tn__lifetime_table *table, uint32_t n) {
  const tn__plan_node *node = &table->net->nodes[n];
  const uint32_t e = node->first_out;
  tn__lifetimes_join(table, e, (uint32_t)table->places[node->in[0]].storage);
  table->places[e].alias = 0;
  table->places[e].request = TN_REQ_INPLACE;
}

/* -------------------------------------------------------------------- nodes */

static void plan_node(tn__lifetime_table *table, uint32_t n) {
  const tn__plan_options *options = table->options;
  const bool adds = !options->no_inplace && !options->no_accumulate;
  if (table->skipped[n])
    finish_sum(table, n);
  else if (adds)
    accumulate_outputs(table, n);
  if (!options->no_inplace) tn__lifetimes_borrow(table, n);
  begin_outputs(table, n);
  tn__lifetimes_release(table, n);
}

tn_code tn__lifetimes_find(tn__lifetime_table *table) {
  TN__TRY(tn__lifetimes_prepare(table));
  if (table->options->parallel) {
    table->users = tn__arena_alloc(table->arena,
                                   table->net->n_entries * sizeof(tn__user *));
    TN__TRY(tn__branches_create(table->net, table->writer, table->arena,
                                &table->branches));
  }
  for (uint32_t n = 0; n < table->net->n_nodes; ++n) plan_node(table, n);
  return table->arena->failed ? tn__fail_memory(0, "a memory plan") : TN_OK;
}

size_t tn__lifetimes_peak(const tn__lifetime_table *table, int32_t device,
                          size_t align) {
  size_t live = 0, peak = 0, k = 0;
  for (uint32_t n = 0; n < table->net->n_nodes; ++n) {
    const tn__plan_node *node = &table->net->nodes[n];
    for (; k < table->n_events && table->events[k].node == n &&
           !table->events[k].ends;
         ++k)
      live += bytes_on(table, table->events[k].lifetime, device, align);
    const size_t extra =
        node->device == device ? tn__round_up(node->workspace, align) : 0;
    if (live + extra > peak) peak = live + extra;
    for (; k < table->n_events && table->events[k].node == n; ++k)
      live -= bytes_on(table, table->events[k].lifetime, device, align);
  }
  return peak;
}
