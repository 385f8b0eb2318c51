/* SPDX-License-Identifier: Apache-2.0
 * picture.c: prints a graph as a table for a terminal, and for Graphviz.
 */
#include "picture.h"

#include <inttypes.h>
#include <string.h>

/* -------------------------------------------------------------------- words */

void picture_add_operator(const drawn_node *node, text *out) {
  if (node->is_backward) text_add(out, "gradient of ");
  text_add(out, "%s", *node->op ? node->op : node->kind);
  if (node->inner) text_add(out, " of %" PRIu32 " nodes", node->inner->n_nodes);
}

void picture_add_signature(const json *output, text *out) {
  const char *dtype = json_text(json_get(output, "dtype"));
  const json *shape = json_get(output, "shape");
  text_add(out, "%s", dtype);
  if (!shape) return;
  text_add(out, *dtype ? " (" : "(");
  for (const json *each = shape->first; each; each = each->next) {
    if (each != shape->first) text_add(out, ",");
    if (each->kind == JSON_NULL)
      text_add(out, "?");
    else
      text_add(out, "%" PRIu64, each->number);
  }
  text_add(out, ")");
}

void picture_add_xml(const char *inside, text *out) {
  for (; *inside; ++inside) {
    if (*inside == '&')
      text_add(out, "&amp;");
    else if (*inside == '<')
      text_add(out, "&lt;");
    else if (*inside == '>')
      text_add(out, "&gt;");
    else
      text_add_bytes(out, inside, 1);
  }
}

void picture_add_number(double value, text *out) {
  const int64_t tenths = (int64_t)(value * 10 + (value < 0 ? -0.5 : 0.5));
  text_add(out, "%s%" PRId64, tenths < 0 ? "-" : "",
           (tenths < 0 ? -tenths : tenths) / 10);
  if (tenths % 10 != 0)
    text_add(out, ".%" PRId64, (tenths < 0 ? -tenths : tenths) % 10);
}

void picture_add_attribute(const char *key, double value, text *out) {
  text_add(out, " %s=\"", key);
  picture_add_number(value, out);
  text_add(out, "\"");
}

void picture_add_bytes(uint64_t bytes, text *out) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  double value = (double)bytes;
  while (value >= 1024 && unit < 4) value /= 1024, ++unit;
  picture_add_number(value, out);
  text_add(out, " %s", units[unit]);
}

/* -------------------------------------------------------------------- table */

enum { N_COLUMNS = 4, WIDEST = 48, NESTED = 32 };

/* One row; the next row reuses the cells. */
typedef struct row {
  text cells[N_COLUMNS];
} row;

/* The name of an entry, such as "fc1_output". */
static const char *entry_name(const drawn_graph *graph, drawn_entry entry) {
  if (entry.node == NO_NODE) return "-";
  const drawn_node *node = &graph->nodes[entry.node];
  return entry.index < node->n_out
             ? json_text(json_get(node->out[entry.index], "name"))
             : "?";
}

static void add_reads(const drawn_graph *graph, const drawn_node *node,
                      text *out) {
  for (uint32_t i = 0; i < node->n_in; ++i)
    text_add(out, "%s%s", i > 0 ? " " : "", entry_name(graph, node->in[i]));
}

static void add_makes(const drawn_node *node, text *out) {
  for (uint32_t i = 0; i < node->n_visible; ++i) {
    if (i > 0) text_add(out, ", ");
    const size_t before = out->n;
    picture_add_signature(node->out[i], out);
    if (out->n == before) text_add(out, "?");
  }
}

static void row_fill(const drawn_graph *graph, const drawn_node *node, row *r) {
  for (int i = 0; i < N_COLUMNS; ++i) r->cells[i].n = 0;
  text_add(&r->cells[0], "%s%s", node->name, node->is_state ? " *" : "");
  picture_add_operator(node, &r->cells[1]);
  add_makes(node, &r->cells[2]);
  add_reads(graph, node, &r->cells[3]);
}

/* Does not pad the last column. */
static void row_print(const row *r, const size_t *widths, int indent,
                      text *out) {
  size_t blanks = (size_t)indent;
  for (int i = 0; i < N_COLUMNS; ++i) {
    const text *cell = &r->cells[i];
    if (cell->n > 0) {
      text_add(out, "%*s", (int)blanks, "");
      text_add_bytes(out, cell->data, cell->n);
      blanks = 0;
    }
    blanks += (cell->n < widths[i] ? widths[i] - cell->n : 0) + 2;
  }
  text_add(out, "\n");
}

static void heads_print(const drawn_graph *graph, int indent, text *out) {
  text_add(out, "%*sheads:", indent, "");
  for (uint32_t i = 0; i < graph->n_heads; ++i)
    text_add(out, " %s", entry_name(graph, graph->heads[i]));
  text_add(out, "%s\n", graph->n_heads > 0 ? "" : " none");
}

static void widths_find(const drawn_graph *graph, row *r, size_t *widths) {
  static const char *const titles[N_COLUMNS] = {"NODE", "OPERATOR", "MAKES",
                                                "READS"};
  for (int i = 0; i < N_COLUMNS; ++i) widths[i] = strlen(titles[i]);
  for (uint32_t id = 0; id < graph->n_nodes; ++id) {
    row_fill(graph, &graph->nodes[id], r);
    for (int i = 0; i < N_COLUMNS; ++i) {
      const size_t n = r->cells[i].n;
      if (n > widths[i]) widths[i] = n < WIDEST ? n : WIDEST;
    }
  }
  for (int i = 0; i < N_COLUMNS; ++i) {
    r->cells[i].n = 0;
    text_add(&r->cells[i], "%s", titles[i]);
  }
}

static void print_table(const drawn_graph *graph, int depth, row *r,
                        text *out) {
  size_t widths[N_COLUMNS];
  widths_find(graph, r, widths);
  row_print(r, widths, 2 * depth, out);
  for (uint32_t id = 0; id < graph->n_nodes; ++id) {
    row_fill(graph, &graph->nodes[id], r);
    row_print(r, widths, 2 * depth, out);
  }
  heads_print(graph, 2 * depth, out);
  for (uint32_t id = 0; id < graph->n_nodes && depth < NESTED; ++id) {
    const drawn_node *node = &graph->nodes[id];
    if (!node->inner) continue;
    text_add(out, "\n%*sinside of %s\n", 2 * depth, "", node->name);
    print_table(node->inner, depth + 1, r, out);
  }
}

void picture_draw_table(const drawn_graph *graph, text *out) {
  row r = {0};
  print_table(graph, 0, &r, out);
  for (int i = 0; i < N_COLUMNS; ++i) {
    out->failed = out->failed || r.cells[i].failed;
    text_deinit(&r.cells[i]);
  }
}

/* ----------------------------------------------------------------- Graphviz */

/* The name "n3_0" of node 0 inside of node 3. */
typedef struct place {
  const struct place *outer;
  uint32_t id;
} place;

static void add_id(const place *at, uint32_t id, text *out) {
  if (at) {
    add_id(at->outer, at->id, out);
    text_add(out, "_%" PRIu32, id);
  } else {
    text_add(out, "n%" PRIu32, id);
  }
}

static void dot_node(const drawn_graph *graph, uint32_t id, const place *at,
                     text *out) {
  const drawn_node *node = &graph->nodes[id];
  text label = {0};
  text_add(&label, "%s\n", node->name);
  if (!node->is_variable) {
    picture_add_operator(node, &label);
    text_add(&label, "\n");
  }
  add_makes(node, &label);
  out->failed = out->failed || label.failed;
  add_id(at, id, out);
  text_add(out, " [shape=%s, label=", node->is_variable ? "ellipse" : "box");
  text_add_json(out, text_get(&label));
  text_add(out, "];\n");
  text_deinit(&label);
}

static void dot_edges(const drawn_graph *graph, uint32_t id, const place *at,
                      text *out) {
  const drawn_node *node = &graph->nodes[id];
  for (uint32_t i = 0; i < node->n_in + node->n_after; ++i) {
    const bool after = i >= node->n_in;
    const uint32_t from =
        after ? node->after[i - node->n_in] : node->in[i].node;
    if (from == NO_NODE) continue;
    add_id(at, from, out);
    text_add(out, " -> ");
    add_id(at, id, out);
    text_add(out, "%s;\n", after ? " [style=dotted]" : "");
  }
}

static void dot_graph(const drawn_graph *graph, const place *at, int depth,
                      text *out) {
  for (uint32_t id = 0; id < graph->n_nodes; ++id) {
    const drawn_node *node = &graph->nodes[id];
    const place inside = {at, id};
    dot_node(graph, id, at, out);
    dot_edges(graph, id, at, out);
    if (!node->inner || depth >= NESTED) continue;
    text_add(out, "subgraph cluster_");
    add_id(at, id, out);
    text_add(out, " {\nlabel=");
    text_add_json(out, node->name);
    text_add(out, ";\n");
    dot_graph(node->inner, &inside, depth + 1, out);
    text_add(out, "}\n");
  }
}

void picture_draw_dot(const drawn_graph *graph, text *out) {
  text_add(out, "digraph tenon {\n");
  dot_graph(graph, NULL, 0, out);
  for (uint32_t i = 0; i < graph->n_heads; ++i)
    text_add(out,
             "h%" PRIu32 " [shape=plaintext, label=\"head %" PRIu32
             "\"];\n"
             "n%" PRIu32 " -> h%" PRIu32 ";\n",
             i, i, graph->heads[i].node, i);
  text_add(out, "}\n");
}
