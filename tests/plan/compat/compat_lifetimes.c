/* SPDX-License-Identifier: Apache-2.0
 * compat_lifetimes.c: finds the lifetimes of memory by the rules of NNVM. The
 * steps of a node are those of core/plan; the choices of NNVM are here.
 */
#include "compat.h"

/* ---------------------------------------------------------------- lifetimes */

/* Outputs that no node reads get memory, too. */
static void begin_outputs(compat_table *c, uint32_t n) {
  tn__lifetime_table *table = &c->lifetimes;
  const uint32_t count = tn__lifetimes_sort_outputs(table, n);
  for (uint32_t k = 0; k < count; ++k) {
    c->one_left[table->n_lifetimes] = n;
    tn__lifetimes_begin(table, n, table->scratch[k]);
  }
}

static void release_memory(compat_table *c, uint32_t n) {
  tn__lifetime_table *table = &c->lifetimes;
  const tn__plan_node *node = &table->net->nodes[n];
  tn__lifetimes_release(table, n);
  for (uint32_t i = 0; i < node->n_in; ++i) {
    const int32_t t = table->places[node->in[i]].storage;
    if (!tn__is_ignored(node, i) && t >= 0 && table->reads_left[t] == 1)
      c->one_left[t] = n;
  }
}

/* ------------------------------------------------------------- accumulation */

/* Returns whether sum `n` can be accumulated after the fact, as in the pass of
 * MXNet. If a sum uses the memory of its first term, the second term can be
 * added there. One condition is stricter than in MXNet, where it was wrong: no
 * other node may read the first term after the writer of the second began. */
static bool can_move_term(const compat_table *c, uint32_t n) {
  const tn__lifetime_table *table = &c->lifetimes;
  const tn__plan_node *node = &table->net->nodes[n];
  const uint32_t first = node->in[0], second = node->in[1];
  const tn__plan_place *out = &table->places[node->first_out];
  const int32_t t = table->places[first].storage;
  if (t < 0 || out->storage != t || out->alias != 0) return false;
  if (!tn__entry_is_alike(&table->net->entries[first],
                          &table->net->entries[second]))
    return false;
  if (table->places[second].storage < 0 || table->refs[second] != 1)
    return false;
  /* A sum that is skipped writes nothing that could be added. */
  return c->one_left[t] < table->writer[second] &&
         !table->skipped[table->writer[second]];
}

static void move_term(tn__lifetime_table *table, uint32_t n) {
  const tn__plan_node *node = &table->net->nodes[n];
  table->places[node->in[1]] =
      (tn__plan_place){table->places[node->first_out].storage, -1, TN_REQ_ADD};
  table->skipped[n] = true;
}

/* -------------------------------------------------------------------- nodes */

static void plan_node(compat_table *c, uint32_t n,
                      const compat_options *options) {
  tn__lifetime_table *table = &c->lifetimes;
  const bool adds = !options->no_inplace && !options->no_accumulate;
  if (!options->no_inplace) tn__lifetimes_borrow_in_order(table, n);
  begin_outputs(c, n);
  const bool moves = adds && table->net->nodes[n].sum && can_move_term(c, n);
  release_memory(c, n);
  if (moves) move_term(table, n);
}

tn_code compat_lifetimes_find(compat_table *c, const compat_options *options) {
  tn__lifetime_table *table = &c->lifetimes;
  const size_t n = table->net->n_entries;
  TN__TRY(tn__lifetimes_prepare(table));
  c->block = tn__arena_alloc(table->arena, n * sizeof *c->block);
  c->one_left = tn__arena_alloc(table->arena, n * sizeof *c->one_left);
  if (table->arena->failed) return tn__fail_memory(0, "a memory plan");
  for (uint32_t k = 0; k < table->net->n_nodes; ++k) plan_node(c, k, options);
  return TN_OK;
}
