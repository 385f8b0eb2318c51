/* SPDX-License-Identifier: Apache-2.0
 * lend.c: which outputs of a node take the memory of its inputs.
 */
#include "planning.h"

/* With more pairs than this a node gets the first that fit: finding the best
 * takes time that grows with their square. */
enum { MAX_MATCHED = 64 };
static const uint32_t FREE = UINT32_MAX;

/* A pair is refused for each of these reasons alone. */
static bool may_lend(const tn__walk *w, uint32_t n, const tn__plan_pair *pair) {
  const tn__plan_node *node = &w->net->nodes[n];
  const uint32_t in = node->in[pair->in], out = node->first_out + pair->out;
  const tn__plan_entry *from = &w->net->entries[in];
  const tn__plan_entry *to = &w->net->entries[out];
  const int32_t t = w->places[in].storage;
  if (tn__is_ignored(node, pair->in)) return false;
  if (w->places[out].storage != TN__STORAGE_NONE || w->refs[out] == 0)
    return false;
  if (t < 0 || (w->held[t] != 1 && !pair->identity)) return false;
  if (from->n_elements != to->n_elements || from->dtype != to->dtype ||
      from->bytes != to->bytes || from->device != to->device)
    return false;
  return pair->identity || tn__walk_is_after(w, n, (uint32_t)t);
}

static void lend(tn__walk *w, uint32_t n, uint32_t in, uint32_t out) {
  const tn__plan_node *node = &w->net->nodes[n];
  const uint32_t e = node->first_out + out;
  tn__walk_join(w, e, (uint32_t)w->places[node->in[in]].storage);
  w->places[e].alias = (int32_t)in;
  w->places[e].request = TN_REQ_INPLACE;
}

static void lend_in_order(tn__walk *w, uint32_t n) {
  const tn__plan_node *node = &w->net->nodes[n];
  uint32_t *taken = w->scratch;
  for (uint32_t i = 0; i < node->n_in; ++i) taken[i] = FREE;
  for (uint32_t k = 0; k < node->n_pairs; ++k) {
    const tn__plan_pair *pair = &node->pairs[k];
    if (taken[pair->in] != FREE || !may_lend(w, n, pair)) continue;
    taken[pair->in] = pair->out;
    lend(w, n, pair->in, pair->out);
  }
}

/* ----------------------------------------------------------------- matching */

/* owner: by input, the output that has it; asked: by input, the round in which
 * it was asked last. */
typedef struct match {
  const tn__walk *w;
  uint32_t node;
  uint32_t *owner;
  uint32_t *asked;
  uint32_t round;
} match;

static uint32_t age_of(const match *m, const tn__plan_pair *pair) {
  const tn__walk *w = m->w;
  const uint32_t in = w->net->nodes[m->node].in[pair->in];
  return w->tenancies[w->places[in].storage].first;
}

/* Of the inputs that output `out` was not refused in this round, the one whose
 * memory was taken first: what is handed on from step to step stays where it
 * is, and does not cut up the memory around it. NULL: there is none. */
static const tn__plan_pair *oldest(const match *m, uint32_t out) {
  const tn__plan_node *node = &m->w->net->nodes[m->node];
  const tn__plan_pair *best = NULL;
  for (uint32_t k = 0; k < node->n_pairs; ++k) {
    const tn__plan_pair *pair = &node->pairs[k];
    if (pair->out != out || m->asked[pair->in] == m->round) continue;
    if (!may_lend(m->w, m->node, pair)) continue;
    if (!best || age_of(m, pair) < age_of(m, best)) best = pair;
  }
  return best;
}

/* Finds an input for output `out`, moving others to other inputs where that
 * makes room. As deep as there are outputs with pairs. */
static bool settle(match *m, uint32_t out) {
  for (;;) {
    const tn__plan_pair *pair = oldest(m, out);
    if (!pair) return false;
    m->asked[pair->in] = m->round;
    if (m->owner[pair->in] != FREE && !settle(m, m->owner[pair->in])) continue;
    m->owner[pair->in] = out;
    return true;
  }
}

/* The largest outputs choose first; nobody who has an input loses it, so that
 * the bytes saved are the most possible (the sets of outputs that can be
 * settled together form a matroid). */
static void lend_best(tn__walk *w, uint32_t n) {
  const tn__plan_node *node = &w->net->nodes[n];
  match m = {w, n, w->scratch, w->scratch + node->n_in, 0};
  uint32_t *order = m.asked + node->n_in, count = 0;
  for (uint32_t i = 0; i < node->n_in; ++i) m.owner[i] = m.asked[i] = FREE;
  for (uint32_t o = 0; o < node->n_out; ++o) {
    uint32_t at = count++;
    const size_t bytes = w->net->entries[node->first_out + o].bytes;
    for (; at > 0 &&
           w->net->entries[node->first_out + order[at - 1]].bytes < bytes;
         --at)
      order[at] = order[at - 1];
    order[at] = o;
  }
  for (uint32_t k = 0; k < count; ++k, ++m.round) (void)settle(&m, order[k]);
  for (uint32_t i = 0; i < node->n_in; ++i)
    if (m.owner[i] != FREE) lend(w, n, i, m.owner[i]);
}

/* Of what stays as it is any number of outputs may have the memory. */
static void lend_identities(tn__walk *w, uint32_t n) {
  const tn__plan_node *node = &w->net->nodes[n];
  for (uint32_t k = 0; k < node->n_pairs; ++k) {
    const tn__plan_pair *pair = &node->pairs[k];
    if (pair->identity && may_lend(w, n, pair)) lend(w, n, pair->in, pair->out);
  }
}

void tn__walk_lend(tn__walk *w, uint32_t n) {
  const uint32_t n_pairs = w->net->nodes[n].n_pairs;
  if (n_pairs == 0) return;
  if (!w->options->compat) lend_identities(w, n);
  if (w->options->compat || n_pairs > MAX_MATCHED)
    lend_in_order(w, n);
  else
    lend_best(w, n);
}
