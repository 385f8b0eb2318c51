/* SPDX-License-Identifier: Apache-2.0
 * compat_lifetimes.c: finds the lifetimes of memory by the rules of NNVM. It
 * visits the nodes in order of execution and counts the reads that are still to
 * come.
 */
#include "compat.h"

static const uint32_t FREE = UINT32_MAX;
static const uint32_t WHOLE = TN_REQ_WRITE;

static void count_reads(compat_table *table) {
  const tn__plan_net *net = table->net;
  for (uint32_t n = 0; n < net->n_nodes; ++n) {
    const tn__plan_node *node = &net->nodes[n];
    for (uint32_t i = 0; i < node->n_in; ++i)
      if (!tn__is_ignored(node, i)) ++table->refs[node->in[i]];
    for (uint32_t o = 0; o < node->n_out; ++o)
      table->writer[node->first_out + o] = n;
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

static tn_code allocate_table(compat_table *table) {
  const size_t n = table->net->n_entries, nodes = table->net->n_nodes;
  tn__arena *a = table->arena;
  table->places = tn__arena_alloc(a, n * sizeof *table->places);
  table->refs = tn__arena_alloc(a, n * sizeof *table->refs);
  table->writer = tn__arena_alloc(a, n * sizeof *table->writer);
  table->skipped = tn__arena_alloc(a, nodes * sizeof *table->skipped);
  table->lifetimes = tn__arena_alloc(a, n * sizeof *table->lifetimes);
  table->storage = tn__arena_alloc(a, n * sizeof *table->storage);
  table->reads_left = tn__arena_alloc(a, n * sizeof *table->reads_left);
  table->one_left = tn__arena_alloc(a, n * sizeof *table->one_left);
  table->events = tn__arena_alloc(a, 2 * n * sizeof *table->events);
  table->scratch = tn__arena_alloc(
      a, 3 * (size_t)find_widest(table->net) * sizeof *table->scratch);
  if (a->failed)
    return tn__fail_memory(n * sizeof *table->places, "a memory plan");
  return TN_OK;
}

static void clear_places(compat_table *table) {
  for (size_t e = 0; e < table->net->n_entries; ++e) {
    const uint32_t flags = table->net->entries[e].flags;
    table->places[e] = (tn__plan_place){TN__STORAGE_NONE, -1, WHOLE};
    if (flags & TN__ENTRY_DYNAMIC)
      table->places[e].storage = TN__STORAGE_DYNAMIC;
    if (flags & TN__ENTRY_EXTERNAL)
      table->places[e].storage = TN__STORAGE_EXTERNAL;
    table->writer[e] = TN__NO_NODE;
  }
}

/* Adds entry `e` to lifetime `t`. From now on the readers of the entry keep the
 * lifetime. */
static void join_lifetime(compat_table *table, uint32_t e, uint32_t t) {
  table->places[e].storage = (int32_t)t;
  table->reads_left[t] += table->refs[e];
}

/* ------------------------------------------------------------------- borrow */

/* Each of these reasons alone refuses a pair. */
static bool can_borrow(const compat_table *table, uint32_t n,
                       const tn__plan_pair *pair) {
  const tn__plan_node *node = &table->net->nodes[n];
  const uint32_t in = node->in[pair->in], out = node->first_out + pair->out;
  const tn__plan_entry *from = &table->net->entries[in];
  const tn__plan_entry *to = &table->net->entries[out];
  const int32_t t = table->places[in].storage;
  if (tn__is_ignored(node, pair->in)) return false;
  if (table->places[out].storage != TN__STORAGE_NONE || table->refs[out] == 0)
    return false;
  if (t < 0 || (table->reads_left[t] != 1 && !pair->identity)) return false;
  if (from->n_elements != to->n_elements || from->dtype != to->dtype ||
      from->bytes != to->bytes || from->device != to->device)
    return false;
  return true;
}

static void borrow_memory(compat_table *table, uint32_t n, uint32_t in,
                          uint32_t out) {
  const tn__plan_node *node = &table->net->nodes[n];
  const uint32_t e = node->first_out + out;
  join_lifetime(table, e, (uint32_t)table->places[node->in[in]].storage);
  table->places[e].alias = (int32_t)in;
  table->places[e].request = TN_REQ_INPLACE;
}

static void borrow_in_order(compat_table *table, uint32_t n) {
  const tn__plan_node *node = &table->net->nodes[n];
  uint32_t *taken = table->scratch;
  for (uint32_t i = 0; i < node->n_in; ++i) taken[i] = FREE;
  for (uint32_t k = 0; k < node->n_pairs; ++k) {
    const tn__plan_pair *pair = &node->pairs[k];
    if (taken[pair->in] != FREE || !can_borrow(table, n, pair)) continue;
    taken[pair->in] = pair->out;
    borrow_memory(table, n, pair->in, pair->out);
  }
}

/* ---------------------------------------------------------------- lifetimes */

static void begin_lifetime(compat_table *table, uint32_t n, uint32_t e) {
  const tn__plan_entry *entry = &table->net->entries[e];
  const uint32_t t = table->n_lifetimes++;
  table->lifetimes[t] = (tn__lifetime){.bytes = entry->bytes,
                                       .device = entry->device,
                                       .first = n,
                                       .last = (uint32_t)table->net->n_nodes};
  table->events[table->n_events++] = (tn__plan_event){n, t, false};
  table->one_left[t] = n;
  join_lifetime(table, e, t);
}

static void end_lifetime(compat_table *table, uint32_t n, uint32_t t) {
  table->lifetimes[t].last = n;
  table->events[table->n_events++] = (tn__plan_event){n, t, true};
}

/* Sorts the outputs of node `n` that have no memory yet, the largest first. Of
 * equal ones the last is first, as in NNVM. */
static uint32_t sort_outputs(compat_table *table, uint32_t n) {
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

static void begin_outputs(compat_table *table, uint32_t n) {
  const uint32_t count = sort_outputs(table, n);
  for (uint32_t k = 0; k < count; ++k)
    begin_lifetime(table, n, table->scratch[k]);
}

static void release_read(compat_table *table, uint32_t n, uint32_t e) {
  const int32_t t = table->places[e].storage;
  if (t < 0) return;
  const uint32_t left = --table->reads_left[t];
  if (left == 1) table->one_left[t] = n;
  if (left == 0) end_lifetime(table, n, (uint32_t)t);
}

static void release_memory(compat_table *table, uint32_t n) {
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

static bool is_alike(const tn__plan_entry *a, const tn__plan_entry *b) {
  return a->bytes == b->bytes && a->n_elements == b->n_elements &&
         a->dtype == b->dtype && a->device == b->device;
}

/* Returns whether sum `n` can be accumulated after the fact, as in the pass of
 * MXNet. If a sum uses the memory of its first term, the second term can be
 * added there. One condition is stricter than in MXNet, where it was wrong: no
 * other node may read the first term after the writer of the second began. */
static bool can_move_term(const compat_table *table, uint32_t n) {
  const tn__plan_node *node = &table->net->nodes[n];
  const uint32_t first = node->in[0], second = node->in[1];
  const tn__plan_place *out = &table->places[node->first_out];
  const int32_t t = table->places[first].storage;
  if (t < 0 || out->storage != t || out->alias != 0) return false;
  if (!is_alike(&table->net->entries[first], &table->net->entries[second]))
    return false;
  if (table->places[second].storage < 0 || table->refs[second] != 1)
    return false;
  /* A sum that is skipped writes nothing that could be added. */
  return table->one_left[t] < table->writer[second] &&
         !table->skipped[table->writer[second]];
}

static void move_term(compat_table *table, uint32_t n) {
  const tn__plan_node *node = &table->net->nodes[n];
  table->places[node->in[1]] =
      (tn__plan_place){table->places[node->first_out].storage, -1, TN_REQ_ADD};
  table->skipped[n] = true;
}

/* -------------------------------------------------------------------- nodes */

static void plan_node(compat_table *table, uint32_t n,
                      const compat_options *options) {
  const bool adds = !options->no_inplace && !options->no_accumulate;
  if (!options->no_inplace) borrow_in_order(table, n);
  begin_outputs(table, n);
  const bool moves =
      adds && table->net->nodes[n].sum && can_move_term(table, n);
  release_memory(table, n);
  if (moves) move_term(table, n);
}

tn_code compat_lifetimes_find(compat_table *table,
                              const compat_options *options) {
  TN__TRY(allocate_table(table));
  clear_places(table);
  count_reads(table);
  for (uint32_t n = 0; n < table->net->n_nodes; ++n)
    plan_node(table, n, options);
  return table->arena->failed ? tn__fail_memory(0, "a memory plan") : TN_OK;
}
