/* SPDX-License-Identifier: Apache-2.0
 * borrow.c: chooses the outputs of a node that use the memory of its inputs.
 * The choice that saves the most bytes is a matching of outputs and inputs.
 */
#include "planning.h"

/* A node with more pairs than this uses the first pairs that fit. Finding the
 * best takes time that grows with the square of their number. */
enum { MAX_MATCHED = 64 };
static const uint32_t FREE = UINT32_MAX;

/* Each of these reasons alone refuses a pair. */
static bool can_borrow(const tn__lifetime_table *table, uint32_t n,
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
  return pair->identity || tn__lifetimes_is_after(table, n, (uint32_t)t);
}

static void borrow_memory(tn__lifetime_table *table, uint32_t n, uint32_t in,
                          uint32_t out) {
  const tn__plan_node *node = &table->net->nodes[n];
  const uint32_t e = node->first_out + out;
  tn__lifetimes_join(table, e, (uint32_t)table->places[node->in[in]].storage);
  table->places[e].alias = (int32_t)in;
  table->places[e].request = TN_REQ_INPLACE;
}

void tn__lifetimes_borrow_in_order(tn__lifetime_table *table, uint32_t n) {
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

/* ----------------------------------------------------------------- matching */

/* owner: by input, the output that uses it. tried: by input, the round in which
 * it was last tried. */
typedef struct match {
  const tn__lifetime_table *table;
  uint32_t node;
  uint32_t *owner;
  uint32_t *tried;
  uint32_t round;
} match;

static uint32_t get_age(const match *m, const tn__plan_pair *pair) {
  const tn__lifetime_table *table = m->table;
  const uint32_t in = table->net->nodes[m->node].in[pair->in];
  return table->lifetimes[table->places[in].storage].first;
}

/* Returns the input with the oldest memory among those not tried for output
 * `out` in this round; NULL if there is none. Memory that nodes hand on then
 * keeps its place and does not split the memory around it. */
static const tn__plan_pair *find_oldest_input(const match *m, uint32_t out) {
  const tn__plan_node *node = &m->table->net->nodes[m->node];
  const tn__plan_pair *best = NULL;
  for (uint32_t k = 0; k < node->n_pairs; ++k) {
    const tn__plan_pair *pair = &node->pairs[k];
    if (pair->out != out || m->tried[pair->in] == m->round) continue;
    if (!can_borrow(m->table, m->node, pair)) continue;
    if (!best || get_age(m, pair) < get_age(m, best)) best = pair;
  }
  return best;
}

/* Finds an input for output `out`. Other outputs move to other inputs if that
 * helps. The recursion is at most as deep as the number of outputs with
 * pairs. */
static bool match_output(match *m, uint32_t out) {
  for (;;) {
    const tn__plan_pair *pair = find_oldest_input(m, out);
    if (!pair) return false;
    m->tried[pair->in] = m->round;
    if (m->owner[pair->in] != FREE && !match_output(m, m->owner[pair->in]))
      continue;
    m->owner[pair->in] = out;
    return true;
  }
}

/* The largest outputs choose first, and an output that has an input keeps one.
 * So the saved bytes are the most possible: the sets of outputs that can be
 * matched together form a matroid. */
static void borrow_best(tn__lifetime_table *table, uint32_t n) {
  const tn__plan_node *node = &table->net->nodes[n];
  match m = {table, n, table->scratch, table->scratch + node->n_in, 0};
  uint32_t *order = m.tried + node->n_in, count = 0;
  for (uint32_t i = 0; i < node->n_in; ++i) m.owner[i] = m.tried[i] = FREE;
  for (uint32_t o = 0; o < node->n_out; ++o) {
    uint32_t at = count++;
    const size_t bytes = table->net->entries[node->first_out + o].bytes;
    for (; at > 0 &&
           table->net->entries[node->first_out + order[at - 1]].bytes < bytes;
         --at)
      order[at] = order[at - 1];
    order[at] = o;
  }
  for (uint32_t k = 0; k < count; ++k, ++m.round)
    (void)match_output(&m, order[k]);
  for (uint32_t i = 0; i < node->n_in; ++i)
    if (m.owner[i] != FREE) borrow_memory(table, n, i, m.owner[i]);
}

/* Any number of outputs may use memory that does not change. */
static void borrow_identities(tn__lifetime_table *table, uint32_t n) {
  const tn__plan_node *node = &table->net->nodes[n];
  for (uint32_t k = 0; k < node->n_pairs; ++k) {
    const tn__plan_pair *pair = &node->pairs[k];
    if (pair->identity && can_borrow(table, n, pair))
      borrow_memory(table, n, pair->in, pair->out);
  }
}

void tn__lifetimes_borrow(tn__lifetime_table *table, uint32_t n) {
  const uint32_t n_pairs = table->net->nodes[n].n_pairs;
  if (n_pairs == 0) return;
  borrow_identities(table, n);
  if (n_pairs > MAX_MATCHED)
    tn__lifetimes_borrow_in_order(table, n);
  else
    borrow_best(table, n);
}
