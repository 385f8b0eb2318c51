/* SPDX-License-Identifier: Apache-2.0
 * picture_read.c: finds nodes, inputs, outputs and heads in the JSON of a
 * graph. Numbers of nodes are checked, so that the drawing functions need not.
 */
#include <inttypes.h>
#include <string.h>

#include "picture.h"

typedef struct reading {
  json_tree *tree;
  text *why;
} reading;

static bool fail_memory(const reading *r) {
  return report_failure(r->why, "out of memory");
}

/* Reads `[node, output]` or null. */
static bool read_entry(const reading *r, const json *from, uint32_t n_nodes,
                       drawn_entry *to) {
  const json *node = json_first(from);
  *to = (drawn_entry){.node = NO_NODE};
  if (from->kind == JSON_NULL) return true;
  if (!node || json_number(node) >= n_nodes)
    return report_failure(
        r->why, "the library's JSON: an entry is of none of %" PRIu32 " nodes",
        n_nodes);
  to->node = (uint32_t)json_number(node);
  to->index = (uint32_t)json_number(node->next);
  return true;
}

static bool read_entries(const reading *r, const json *list, uint32_t n_nodes,
                         drawn_entry *to) {
  for (const json *each = json_first(list); each; each = each->next)
    if (!read_entry(r, each, n_nodes, to++)) return false;
  return true;
}

static uint32_t count_items(const json *list) {
  return list ? list->n : 0;
}

static bool read_inputs(const reading *r, const json *from, uint32_t id,
                        drawn_node *to) {
  const json *inputs = json_get(from, "inputs");
  const json *states = json_get(from, "states");
  const json *after = json_get(from, "after");
  const uint32_t n = count_items(inputs);
  to->n_in = n + count_items(states);
  to->in = (drawn_entry *)json_alloc(r->tree, to->n_in, sizeof *to->in);
  to->after =
      (uint32_t *)json_alloc(r->tree, count_items(after), sizeof *to->after);
  if (!to->in || !to->after) return fail_memory(r);
  for (const json *each = json_first(after); each; each = each->next)
    to->after[to->n_after++] = (uint32_t)json_number(each);
  return read_entries(r, inputs, id, to->in) &&
         read_entries(r, states, id, to->in + n);
}

static bool read_outputs(const reading *r, const json *from, drawn_node *to) {
  const json *outputs = json_get(from, "outputs");
  to->out = (const json **)json_alloc(r->tree, count_items(outputs),
                                      sizeof(const json *));
  if (!to->out) return fail_memory(r);
  for (const json *each = json_first(outputs); each; each = each->next) {
    to->out[to->n_out++] = each;
    if (!json_is_true(json_get(each, "hidden"))) to->n_visible = to->n_out;
  }
  return true;
}

static bool read_graph(const reading *r, const json *from, drawn_graph *to);

static bool read_inner(const reading *r, const json *from, drawn_node *to) {
  const json *inner = json_get(from, "graph");
  if (!inner) return true;
  to->inner = (drawn_graph *)json_alloc(r->tree, 1, sizeof *to->inner);
  return to->inner ? read_graph(r, inner, to->inner) : fail_memory(r);
}

static bool read_node(const reading *r, const json *from, drawn_graph *graph,
                      uint32_t id) {
  drawn_node *to = &graph->nodes[id];
  const uint64_t of = json_number(json_get(from, "of"));
  to->name = json_text(json_get(from, "name"));
  to->kind = json_text(json_get(from, "kind"));
  to->op = json_text(json_get(from, "op"));
  to->is_variable = strcmp(to->kind, "variable") == 0;
  to->is_state = json_is_true(json_get(from, "state"));
  to->is_backward = strcmp(to->kind, "backward") == 0;
  to->is_gradient = json_is_true(json_get(from, "gradient"));
  if (to->is_backward && of < id) to->op = graph->nodes[of].op;
  return read_inputs(r, from, id, to) && read_outputs(r, from, to) &&
         read_inner(r, from, to);
}

static bool read_graph(const reading *r, const json *from, drawn_graph *to) {
  const json *nodes = json_get(from, "nodes");
  const json *heads = json_get(from, "heads");
  uint32_t id = 0;
  *to = (drawn_graph){.n_nodes = count_items(nodes),
                      .n_heads = count_items(heads)};
  to->nodes = (drawn_node *)json_alloc(r->tree, to->n_nodes, sizeof *to->nodes);
  to->heads =
      (drawn_entry *)json_alloc(r->tree, to->n_heads, sizeof *to->heads);
  if (!to->nodes || !to->heads) return fail_memory(r);
  for (const json *each = json_first(nodes); each; each = each->next)
    if (!read_node(r, each, to, id++)) return false;
  return read_entries(r, heads, to->n_nodes, to->heads);
}

bool picture_read_graph(json_tree *tree, drawn_graph *out, text *why) {
  const reading r = {tree, why};
  return read_graph(&r, tree->root, out);
}
