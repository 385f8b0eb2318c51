/* SPDX-License-Identifier: Apache-2.0
 * json_write.c: writes a graph as JSON: one line for each node, keys in a fixed
 * order, no values that equal the default. For programs that draw a graph it
 * also writes the outputs of each node.
 */
#include <inttypes.h>
#include <string.h>

#include "json.h"

const char *const tn__draft_keys[TN__N_KEYS] = {
    "name",  "kind",   "dtype",    "shape",      "op",      "params",
    "of",    "inputs", "states",   "sequences",  "carried", "reverse",
    "graph", "after",  "gradient", "attributes", "kept"};

/* ------------------------------------------------------------------ plugins */

/* Appends a plugin to the list, unless the list has it; so plugins are in order
 * of first use. */
static tn_code list_plugin(const tn_graph *graph, const tn__plugin *plugin,
                           tn__vec *list) {
  for (size_t i = 0; i < list->n; ++i) {
    const tn__plugin *other = list->v[i];
    if (other == plugin || strcmp(other->entry->name, plugin->entry->name) == 0)
      return TN_OK;
  }
  return tn__vec_push(graph->env, list, (void *)(uintptr_t)plugin);
}

static tn_code find_plugins(const tn_graph *graph, int depth, tn__vec *list) {
  if (depth > TN__JSON_DEPTH)
    return tn__fail(TN_UNSUPPORTED,
                    "graphs in graphs are more than %d deep; a file holds no "
                    "more",
                    TN__JSON_DEPTH);
  for (uint32_t i = 0; i < tn__n_nodes(graph); ++i) {
    const tn__node *node = tn__node_at(graph, i);
    if (node->op) TN__TRY(list_plugin(graph, node->op->plugin, list));
    if (node->inner) TN__TRY(find_plugins(node->inner, depth + 1, list));
  }
  return TN_OK;
}

static void write_plugins(const tn__vec *list, tn__buf *out) {
  tn__buf_add(out, "  \"plugins\": [");
  for (size_t i = 0; i < list->n; ++i) {
    const tn_plugin *plugin = ((const tn__plugin *)list->v[i])->entry;
    tn__buf_add(out, "%s\n    {\"name\": ", i > 0 ? "," : "");
    tn__buf_json(out, plugin->name);
    tn__buf_add(out,
                ", \"release\": %" PRIu32 ", \"hash\": \"%016" PRIx64 "\"}",
                plugin->release, plugin->manifest_hash);
  }
  tn__buf_add(out, "%s],\n", list->n > 0 ? "\n  " : "");
}

/* -------------------------------------------------------------------- nodes */

static void write_key(const char *key, tn__buf *out) {
  tn__buf_add(out, ", \"%s\": ", key);
}

static void write_flag(const char *key, tn__buf *out) {
  write_key(key, out);
  tn__buf_add(out, "true");
}

/* Writes an entry as [node, output]. With the flag TN_IN_METADATA the reader
 * reads only its shape, and "shape" is the third item. */
static void write_entry(tn_entry entry, uint32_t flags, tn__buf *out) {
  if (tn__entry_is_none(entry))
    tn__buf_add(out, "null");
  else
    tn__buf_add(out, "[%" PRIu32 ", %" PRIu32 "%s]", entry.node, entry.index,
                flags & TN_IN_METADATA ? ", \"shape\"" : "");
}

static void write_entries(const tn_entry *list, const uint32_t *flags, size_t n,
                          tn__buf *out) {
  tn__buf_add(out, "[");
  for (size_t i = 0; i < n; ++i) {
    if (i > 0) tn__buf_add(out, ", ");
    write_entry(list[i], flags ? flags[i] : 0, out);
  }
  tn__buf_add(out, "]");
}

static void write_numbers(const char *key, const uint32_t *list, size_t n,
                          tn__buf *out) {
  if (n == 0) return;
  write_key(key, out);
  for (size_t i = 0; i < n; ++i)
    tn__buf_add(out, "%s%" PRIu32, i > 0 ? ", " : "[", list[i]);
  tn__buf_add(out, "]");
}

static void write_known(const tn_sig *known, tn__buf *out) {
  if (known->dtype != TN_DTYPE_UNKNOWN) {
    write_key("dtype", out);
    tn__buf_json(out, tn__dtype_name(known->dtype));
  }
  if (known->ndim < 0) return;
  write_key("shape", out);
  tn__buf_json_shape(out, known->ndim, known->shape);
}

static tn_code write_params(const tn__node *node, tn__buf *out) {
  tn__buf text;
  const tn__fields fields = {node->desc->params, node->desc->n_params,
                             node->desc->params_size, node->op->name};
  tn__buf_init(&text, out->env);
  tn__fields_text(&fields, node->params->data, &text);
  const bool failed = text.failed;
  write_key("params", out);
  tn__buf_json(out, text.s ? text.s : "");
  tn__buf_deinit(&text);
  return failed ? tn__fail_memory(text.n, "parameters as text") : TN_OK;
}

static void write_attributes(const tn__node *node, tn__buf *out) {
  if (node->n_attrs == 0) return;
  write_key("attributes", out);
  for (uint32_t i = 0; i < node->n_attrs; ++i) {
    tn__buf_add(out, i > 0 ? ", " : "{");
    tn__buf_json(out, node->attrs[i].key);
    tn__buf_add(out, ": ");
    tn__buf_json(out, node->attrs[i].value);
  }
  tn__buf_add(out, "}");
}

static void write_loop(const tn__loop *loop, tn__buf *out) {
  write_numbers("sequences", loop->sequences, loop->n_sequences, out);
  write_numbers("carried", loop->states, loop->n_states, out);
  if (loop->reverse) write_flag("reverse", out);
  if (loop->n_kept == 0) return;
  write_key("kept", out);
  write_entries(loop->kept, NULL, loop->n_kept, out);
}

static void write_operands(const tn__node *node, tn__buf *out) {
  if (node->kind != TN__NODE_VARIABLE) {
    write_key("inputs", out);
    write_entries(node->in, node->in_flags, node->n_in, out);
  }
  if (node->n_aux > 0) {
    write_key("states", out);
    write_entries(node->in + node->n_in, NULL, node->n_aux, out);
  }
}

/* Returns the signature of an entry from the last inference; without inference,
 * the signature that a variable had at its creation. */
static tn_sig get_entry_sig(const tn_graph *graph, tn_entry entry) {
  const tn__node *node = tn__node_at(graph, entry.node);
  if (graph->sigs && tn__entry_id(graph, entry) < graph->n_sigs)
    return *tn__entry_sig(graph, entry);
  return node->kind == TN__NODE_VARIABLE ? node->known : tn__sig_unknown();
}

/* Writes the shapes and types of a node's outputs, which only
 * tn_graph_inferred_json has. */
static void write_outputs(const tn_graph *graph, const tn__node *node,
                          tn__buf *out) {
  char text[TN__ENTRY_TEXT];
  const uint32_t n_visible = tn__node_count_visible(node);
  if (node->flags & TN__NODE_STATE) write_flag("state", out);
  write_key("outputs", out);
  for (uint32_t i = 0; i < node->n_out; ++i) {
    const tn_entry entry = {node->id, i};
    const tn_sig sig = get_entry_sig(graph, entry);
    tn__buf_add(out, i > 0 ? ", {\"name\": " : "[{\"name\": ");
    tn__buf_json(out, tn__entry_text(graph, entry, text));
    write_known(&sig, out);
    if (i >= n_visible) write_flag("hidden", out);
    tn__buf_add(out, "}");
  }
  tn__buf_add(out, node->n_out > 0 ? "]" : "[]");
}

static tn_code write_graph_members(const tn_graph *graph, int indent,
                                   bool inferred, tn__buf *out);

static tn_code write_node(const tn_graph *graph, const tn__node *node,
                          int indent, bool inferred, tn__buf *out) {
  tn__buf_add(out, "{\"name\": ");
  tn__buf_json(out, node->name);
  write_key("kind", out);
  tn__buf_json(out, tn__node_kinds[node->kind]);
  if (node->kind == TN__NODE_VARIABLE) write_known(&node->known, out);
  if (node->kind == TN__NODE_CALL) {
    write_key("op", out);
    tn__buf_json(out, node->op->name);
    if (node->params) TN__TRY(write_params(node, out));
  }
  if (node->kind == TN__NODE_BACKWARD) {
    write_key("of", out);
    tn__buf_add(out, "%" PRIu32, node->of);
  }
  write_operands(node, out);
  if (node->loop) write_loop(node->loop, out);
  if (node->inner) {
    write_key("graph", out);
    tn__buf_add(out, "{\n");
    TN__TRY(write_graph_members(node->inner, indent + 2, inferred, out));
    tn__buf_add(out, "%*s}", indent, "");
  }
  write_numbers("after", node->after, node->n_after, out);
  if (node->flags & TN__NODE_GRADIENT) write_flag("gradient", out);
  write_attributes(node, out);
  if (inferred) write_outputs(graph, node, out);
  tn__buf_add(out, "}");
  return TN_OK;
}

/* Writes the members "nodes" and "heads". */
static tn_code write_graph_members(const tn_graph *graph, int indent,
                                   bool inferred, tn__buf *out) {
  const uint32_t n = tn__n_nodes(graph);
  tn__buf_add(out, "%*s\"nodes\": [", indent, "");
  for (uint32_t i = 0; i < n; ++i) {
    tn__buf_add(out, "%s\n%*s", i > 0 ? "," : "", indent + 2, "");
    TN__TRY(
        write_node(graph, tn__node_at(graph, i), indent + 2, inferred, out));
  }
  if (n > 0) tn__buf_add(out, "\n%*s", indent, "");
  tn__buf_add(out, "],\n%*s\"heads\": ", indent, "");
  write_entries(graph->heads, NULL, graph->n_heads, out);
  tn__buf_add(out, "\n");
  return TN_OK;
}

/* ------------------------------------------------------------------- as text
 */

static tn_code write_graph(const tn_graph *graph, bool inferred, tn__buf *out) {
  tn__vec plugins = {0};
  tn_code rc = find_plugins(graph, 1, &plugins);
  if (rc == TN_OK) {
    tn__buf_add(out, "{\n  \"tenon\": %d,\n", TN__JSON_VERSION);
    write_plugins(&plugins, out);
    rc = write_graph_members(graph, 2, inferred, out);
    tn__buf_add(out, "}\n");
  }
  tn__vec_deinit(graph->env, &plugins);
  if (rc == TN_OK && out->failed)
    rc = tn__fail_memory(out->n, "a graph as JSON");
  return rc;
}

tn_code tn__graph_json(const tn_graph *graph, bool inferred, tn_text **out) {
  tn__buf text;
  *out = NULL;
  tn__buf_init(&text, graph->env);
  tn_code rc = write_graph(graph, inferred, &text);
  if (rc == TN_OK) rc = tn__buf_text(&text, out);
  tn__buf_deinit(&text);
  return rc;
}

static tn_code write_file(const tn_graph *graph, const char *path,
                          const tn__buf *text) {
  tn__sink sink;
  TN__TRY(tn__sink_open(graph->env, path, &sink));
  tn_code rc = tn__sink_write(&sink, text->s, text->n);
  if (rc == TN_OK) rc = tn__sink_commit(&sink, TN__SINK_DURABLE);
  tn__sink_close(&sink);
  return rc;
}

tn_code tn__graph_save(const tn_graph *graph, const char *path) {
  tn__buf text;
  tn__buf_init(&text, graph->env);
  tn_code rc = write_graph(graph, false, &text);
  if (rc == TN_OK) rc = write_file(graph, path, &text);
  tn__buf_deinit(&text);
  return rc;
}
