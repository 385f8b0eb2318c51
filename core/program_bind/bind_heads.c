/* SPDX-License-Identifier: Apache-2.0
 * bind_heads.c: heads that are written into arrays of the user. These may be
 * the arrays of arguments.
 */
#include "binding.h"

static tn_code fail_memory(size_t bytes) {
  return tn__fail_memory(bytes, "a program");
}

/* Tests whether the array of a head is the array of an argument, or a part of
 * it. */
static bool is_argument_array(const tn__binding *b, const tn_array *array) {
  const uint32_t n = b->p->arguments.n + b->p->arguments.n_states;
  for (uint32_t i = 0; array && i < n; ++i)
    if (b->given[i] && b->given[i]->array &&
        b->given[i]->array->block == array->block)
      return true;
  return false;
}

static bool is_reader_of(const tn__node *reader, uint32_t node) {
  for (uint32_t i = 0; i < reader->n_in + reader->n_aux; ++i)
    if (!tn__entry_is_none(reader->in[i]) && reader->in[i].node == node)
      return true;
  return false;
}

/* Tests whether a node reads an argument with the memory of `array`. */
static bool reads_array_memory(const tn__binding *b, const tn__node *node,
                               const tn_array *array) {
  const tn_program *p = b->p;
  for (uint32_t i = 0; i < p->arguments.n + p->arguments.n_states; ++i)
    if (b->given[i] && b->given[i]->array &&
        b->given[i]->array->block == array->block &&
        is_reader_of(node, p->arguments.v[i].node))
      return true;
  return false;
}

/* Tests whether a late head can be computed in the array of its argument. Its
 * step must be able to run after all others: nothing reads the head, and the
 * other heads of its node are late too. Late heads must not read arguments that
 * other late heads overwrite. The step must be a call of a kernel, which checks
 * that outputs do not overwrite inputs; sums, copies and loops write while they
 * read. */
static bool can_be_late(const tn__binding *b, uint32_t head) {
  const tn_program *p = b->p;
  const uint32_t node = p->heads.v[head].node;
  const uint32_t kind = tn__node_at(p->graph, node)->kind;
  if (kind != TN__NODE_CALL && kind != TN__NODE_BACKWARD) return false;
  for (uint32_t i = 0; i < p->heads.n; ++i) {
    const bool late =
        i < b->how->n_outputs && is_argument_array(b, b->how->outputs[i]);
    const uint32_t other = p->heads.v[i].node;
    if (other == node && !late) return false;
    if (other != node && late &&
        (reads_array_memory(b, tn__node_at(p->graph, other),
                            b->how->outputs[head]) ||
         reads_array_memory(b, tn__node_at(p->graph, node),
                            b->how->outputs[i])))
      return false;
  }
  for (uint32_t i = 0; i < p->graph->nodes.n; ++i)
    if (is_reader_of(tn__node_at(p->graph, i), node)) return false;
  return true;
}

static tn_code copy_head(tn_program *p, uint32_t i) {
  tn__node *node = NULL;
  const tn__node_spec spec = {.kind = TN__NODE_COPY,
                              .n_in = 1,
                              .n_out = 1,
                              .of = TN_NONE,
                              .stem = "copy@",
                              .in = &p->heads.v[i]};
  TN__TRY(tn__node_add(p->graph, &spec, &node));
  p->heads.v[i] = (tn_entry){node->id, 0};
  return TN_OK;
}

/* Tests whether a head is an argument, and the user's array of some head
 * overwrites the array of that argument. */
static bool is_overwritten_by_head(const tn__binding *b, uint32_t head) {
  const tn_program *p = b->p;
  const tn__node *node = tn__node_at(p->graph, p->heads.v[head].node);
  if (b->how->n_outputs == 0 || node->kind != TN__NODE_VARIABLE) return false;
  for (uint32_t i = 0; i < p->arguments.n + p->arguments.n_states; ++i) {
    const tn_argument *given = b->given[i];
    if (!tn__entry_is_same(p->arguments.v[i], p->heads.v[head]) || !given)
      continue;
    for (uint32_t k = 0; given->array && k < b->how->n_outputs; ++k)
      if (b->how->outputs[k] &&
          b->how->outputs[k]->block == given->array->block)
        return true;
  }
  return false;
}

/* Adds a copy to each head that cannot be computed in the user's array: the
 * head is an argument, it is a second head of the same entry, or it would
 * overwrite an argument too early. If the head is an argument that another head
 * overwrites, two copies follow each other: the first one is made before the
 * argument changes. */
tn_code tn__bind_copy_heads(tn__binding *b) {
  tn_program *p = b->p;
  for (uint32_t i = 0; i < p->heads.n; ++i)
    if ((i >= b->how->n_outputs || !b->how->outputs[i]) &&
        is_overwritten_by_head(b, i))
      TN__TRY(copy_head(p, i));
  for (uint32_t i = 0; i < p->heads.n && i < b->how->n_outputs; ++i) {
    const bool late = is_argument_array(b, b->how->outputs[i]);
    const bool variable =
        tn__node_at(p->graph, p->heads.v[i].node)->kind == TN__NODE_VARIABLE;
    bool own = !variable && (!late || can_be_late(b, i));
    for (uint32_t k = 0; own && k < i; ++k)
      own = !tn__entry_is_same(p->heads.v[i], p->heads.v[k]);
    if (own || !b->how->outputs[i]) continue;
    TN__TRY(copy_head(p, i));
    if (late && variable) TN__TRY(copy_head(p, i));
  }
  return TN_OK;
}

tn_code tn__bind_mark_late(tn__binding *b) {
  tn_program *p = b->p;
  p->heads.late = tn__arena_alloc(&p->arena, p->heads.n + 1u);
  p->heads.lent = tn__arena_alloc(&p->arena, p->heads.n + 1u);
  if (!p->heads.late || !p->heads.lent) return fail_memory(p->heads.n);
  for (uint32_t i = 0; i < p->heads.n && i < b->how->n_outputs; ++i) {
    p->heads.lent[i] = b->how->outputs[i] != NULL;
    p->heads.late[i] = is_argument_array(b, b->how->outputs[i]);
  }
  return TN_OK;
}
