/* SPDX-License-Identifier: Apache-2.0
 * picture.c: prints a graph as a table for a terminal, and for Graphviz.
 */
#include "picture.h"

#include <inttypes.h>
#include <string.h>

/* -------------------------------------------------------------------- words */

void tn__picture_operator(const tn__node *node, tn__buf *out) {
  if (node->kind == TN__NODE_BACKWARD) tn__buf_add(out, "gradient of ");
  tn__buf_add(out, "%s",
              node->op ? node->op->name : tn__node_kinds[node->kind]);
  if (node->inner)
    tn__buf_add(out, " of %" PRIu32 " nodes", tn__n_nodes(node->inner));
}

static tn_sig sig_of(const tn_graph *graph, tn_entry entry) {
  const tn__node *node = tn__node_at(graph, entry.node);
  if (graph->sigs && tn__entry_id(graph, entry) < graph->n_sigs)
    return *tn__entry_sig(graph, entry);
  return node->kind == TN__NODE_VARIABLE ? node->known : tn__sig_unknown();
}

void tn__picture_sig(const tn_graph *graph, tn_entry entry, tn__buf *out) {
  const tn_sig sig = sig_of(graph, entry);
  const bool typed = sig.dtype != TN_DTYPE_UNKNOWN;
  if (typed) tn__buf_add(out, "%s", tn__dtype_name(sig.dtype));
  if (sig.ndim < 0) return;
  if (typed) tn__buf_add(out, " ");
  tn__buf_shape(out, sig.ndim, sig.shape);
}

void tn__picture_xml(const char *text, tn__buf *out) {
  for (; *text; ++text) {
    if (*text == '&')
      tn__buf_add(out, "&amp;");
    else if (*text == '<')
      tn__buf_add(out, "&lt;");
    else if (*text == '>')
      tn__buf_add(out, "&gt;");
    else
      tn__buf_bytes(out, text, 1);
  }
}

void tn__picture_number(double value, tn__buf *out) {
  const int64_t tenths = (int64_t)(value * 10 + (value < 0 ? -0.5 : 0.5));
  tn__buf_add(out, "%s%" PRId64, tenths < 0 ? "-" : "",
              (tenths < 0 ? -tenths : tenths) / 10);
  if (tenths % 10 != 0)
    tn__buf_add(out, ".%" PRId64, (tenths < 0 ? -tenths : tenths) % 10);
}

void tn__picture_bytes(size_t bytes, tn__buf *out) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  double value = (double)bytes;
  while (value >= 1024 && unit < 4) value /= 1024, ++unit;
  tn__picture_number(value, out);
  tn__buf_add(out, " %s", units[unit]);
}

/* -------------------------------------------------------------------- table */

enum { N_COLUMNS = 4, WIDEST = 48, NESTED = 32 };

/* One row; the next row reuses the cells. */
typedef struct row {
  tn__buf cells[N_COLUMNS];
} row;

static void row_init(row *r, const tn__env *env) {
  for (int i = 0; i < N_COLUMNS; ++i) tn__buf_init(&r->cells[i], env);
}

static void row_deinit(row *r) {
  for (int i = 0; i < N_COLUMNS; ++i) tn__buf_deinit(&r->cells[i]);
}

static void add_reads(const tn_graph *graph, const tn__node *node,
                      tn__buf *out) {
  char text[TN__ENTRY_TEXT];
  for (uint32_t i = 0; i < node->n_in + node->n_aux; ++i) {
    if (i > 0) tn__buf_add(out, " ");
    tn__buf_add(out, "%s",
                tn__entry_is_none(node->in[i])
                    ? "-"
                    : tn__entry_text(graph, node->in[i], text));
  }
}

static void add_makes(const tn_graph *graph, const tn__node *node,
                      tn__buf *out) {
  for (uint32_t i = 0; i < tn__node_count_visible(node); ++i) {
    const size_t before = out->n;
    if (i > 0) tn__buf_add(out, ", ");
    tn__picture_sig(graph, (tn_entry){node->id, i}, out);
    if (out->n == before + (i > 0 ? 2u : 0u)) tn__buf_add(out, "?");
  }
}

static void row_fill(const tn_graph *graph, const tn__node *node, row *r) {
  for (int i = 0; i < N_COLUMNS; ++i) r->cells[i].n = 0;
  tn__buf_add(&r->cells[0], "%s%s", node->name,
              node->flags & TN__NODE_STATE ? " *" : "");
  tn__picture_operator(node, &r->cells[1]);
  add_makes(graph, node, &r->cells[2]);
  tn__buf_bytes(&r->cells[3], "", 0);
  add_reads(graph, node, &r->cells[3]);
}

/* Does not pad the last column. */
static void row_print(const row *r, const size_t *widths, int indent,
                      tn__buf *out) {
  size_t blanks = (size_t)indent;
  for (int i = 0; i < N_COLUMNS; ++i) {
    const tn__buf *cell = &r->cells[i];
    if (cell->n > 0) {
      tn__buf_add(out, "%*s", (int)blanks, "");
      tn__buf_bytes(out, cell->s, cell->n);
      blanks = 0;
    }
    blanks += (cell->n < widths[i] ? widths[i] - cell->n : 0) + 2;
  }
  tn__buf_add(out, "\n");
}

static void heads_print(const tn_graph *graph, int indent, tn__buf *out) {
  char text[TN__ENTRY_TEXT];
  tn__buf_add(out, "%*sheads:", indent, "");
  for (size_t i = 0; i < graph->n_heads; ++i)
    tn__buf_add(out, " %s", tn__entry_text(graph, graph->heads[i], text));
  tn__buf_add(out, "%s\n", graph->n_heads > 0 ? "" : " none");
}

static void widths_find(const tn_graph *graph, row *r, size_t *widths) {
  static const char *const titles[N_COLUMNS] = {"NODE", "OPERATOR", "MAKES",
                                                "READS"};
  for (int i = 0; i < N_COLUMNS; ++i) widths[i] = strlen(titles[i]);
  for (uint32_t id = 0; id < tn__n_nodes(graph); ++id) {
    row_fill(graph, tn__node_at(graph, id), r);
    for (int i = 0; i < N_COLUMNS; ++i) {
      const size_t n = r->cells[i].n;
      if (n > widths[i]) widths[i] = n < WIDEST ? n : WIDEST;
    }
  }
  for (int i = 0; i < N_COLUMNS; ++i) {
    r->cells[i].n = 0;
    tn__buf_add(&r->cells[i], "%s", titles[i]);
  }
}

static void print_table(const tn_graph *graph, int depth, row *r,
                        tn__buf *out) {
  size_t widths[N_COLUMNS];
  widths_find(graph, r, widths);
  row_print(r, widths, 2 * depth, out);
  for (uint32_t id = 0; id < tn__n_nodes(graph); ++id) {
    row_fill(graph, tn__node_at(graph, id), r);
    row_print(r, widths, 2 * depth, out);
  }
  heads_print(graph, 2 * depth, out);
  for (uint32_t id = 0; id < tn__n_nodes(graph) && depth < NESTED; ++id) {
    const tn__node *node = tn__node_at(graph, id);
    if (!node->inner) continue;
    tn__buf_add(out, "\n%*sinside of %s\n", 2 * depth, "", node->name);
    print_table(node->inner, depth + 1, r, out);
  }
}

static tn_code as_text(const tn_graph *graph, tn__buf *out) {
  row r;
  row_init(&r, graph->env);
  print_table(graph, 0, &r, out);
  for (int i = 0; i < N_COLUMNS; ++i)
    out->failed = out->failed || r.cells[i].failed;
  row_deinit(&r);
  return TN_OK;
}

/* ----------------------------------------------------------------- Graphviz */

/* The name "n3_0" of node 0 inside of node 3. */
typedef struct place {
  const struct place *outer;
  uint32_t id;
} place;

static void add_id(const place *at, uint32_t id, tn__buf *out) {
  if (at) {
    add_id(at->outer, at->id, out);
    tn__buf_add(out, "_%" PRIu32, id);
  } else {
    tn__buf_add(out, "n%" PRIu32, id);
  }
}

static void dot_node(const tn_graph *graph, const tn__node *node,
                     const place *at, tn__buf *out) {
  tn__buf label;
  tn__buf_init(&label, graph->env);
  tn__buf_add(&label, "%s\n", node->name);
  if (node->kind != TN__NODE_VARIABLE) {
    tn__picture_operator(node, &label);
    tn__buf_add(&label, "\n");
  }
  add_makes(graph, node, &label);
  out->failed = out->failed || label.failed;
  add_id(at, node->id, out);
  tn__buf_add(out, " [shape=%s, label=",
              node->kind == TN__NODE_VARIABLE ? "ellipse" : "box");
  tn__buf_json(out, label.s ? label.s : "");
  tn__buf_add(out, "];\n");
  tn__buf_deinit(&label);
}

static void dot_edges(const tn__node *node, const place *at, tn__buf *out) {
  for (uint32_t i = 0; i < node->n_in + node->n_aux + node->n_after; ++i) {
    const bool after = i >= node->n_in + node->n_aux;
    const uint32_t from =
        after ? node->after[i - node->n_in - node->n_aux] : node->in[i].node;
    if (from == TN_NONE) continue;
    add_id(at, from, out);
    tn__buf_add(out, " -> ");
    add_id(at, node->id, out);
    tn__buf_add(out, "%s;\n", after ? " [style=dotted]" : "");
  }
}

static void dot_graph(const tn_graph *graph, const place *at, int depth,
                      tn__buf *out) {
  for (uint32_t id = 0; id < tn__n_nodes(graph); ++id) {
    const tn__node *node = tn__node_at(graph, id);
    const place inside = {at, id};
    dot_node(graph, node, at, out);
    dot_edges(node, at, out);
    if (!node->inner || depth >= NESTED) continue;
    tn__buf_add(out, "subgraph cluster_");
    add_id(at, id, out);
    tn__buf_add(out, " {\nlabel=");
    tn__buf_json(out, node->name);
    tn__buf_add(out, ";\n");
    dot_graph(node->inner, &inside, depth + 1, out);
    tn__buf_add(out, "}\n");
  }
}

static tn_code as_dot(const tn_graph *graph, tn__buf *out) {
  tn__buf_add(out, "digraph tenon {\n");
  dot_graph(graph, NULL, 0, out);
  for (size_t i = 0; i < graph->n_heads; ++i)
    tn__buf_add(out,
                "h%zu [shape=plaintext, label=\"head %zu\"];\n"
                "n%" PRIu32 " -> h%zu;\n",
                i, i, graph->heads[i].node, i);
  tn__buf_add(out, "}\n");
  return TN_OK;
}

/* ------------------------------------------------------------------ picture */

tn_code tn__graph_picture(const tn_graph *graph, uint32_t format,
                          tn_text **out) {
  static tn_code (*const formats[])(const tn_graph *, tn__buf *) = {
      as_text, as_dot, tn__picture_svg};
  tn__buf text;
  *out = NULL;
  if (format >= sizeof formats / sizeof formats[0])
    return tn__fail(TN_INVALID, "there is no picture %" PRIu32, format);
  tn__buf_init(&text, graph->env);
  tn_code rc = formats[format](graph, &text);
  if (rc == TN_OK) rc = tn__buf_text(&text, out);
  tn__buf_deinit(&text);
  return rc;
}
