/* SPDX-License-Identifier: Apache-2.0
 * picture.h: pictures of a graph, drawn from tn_graph_inferred_json, and of the
 * memory of a program, drawn from tn_program_json.
 *
 * files:
 *   picture_read.c  the graph of a JSON text
 *   picture.c       a table for a terminal; Graphviz
 *   picture_svg.c   layers of boxes as SVG
 *   timeline.c      memory over time
 */
#ifndef TENON_PICTURE_H_
#define TENON_PICTURE_H_

#include "json_tree.h"

#define NO_NODE UINT32_MAX

/* Output `index` of a node. */
typedef struct drawn_entry {
  uint32_t node; /* NO_NODE: an absent input */
  uint32_t index;
} drawn_entry;

typedef struct drawn_node {
  const char *name;
  const char *kind; /* "variable", "graph", ... */
  const char *op;   /* of a call, or of the call whose gradient it is; or "" */
  bool is_variable;
  bool is_state;
  bool is_backward;
  bool is_gradient; /* added by the gradient pass */
  uint32_t n_in;    /* inputs, then states */
  uint32_t n_out;
  uint32_t n_visible;
  uint32_t n_after;
  drawn_entry *in;
  uint32_t *after;
  const json **out;          /* outputs: "name", "dtype", "shape" */
  struct drawn_graph *inner; /* or NULL */
} drawn_node;

/* All in the memory of a json_tree. A node comes after the nodes that it
 * reads. */
typedef struct drawn_graph {
  drawn_node *nodes;
  drawn_entry *heads;
  uint32_t n_nodes;
  uint32_t n_heads;
} drawn_graph;

/* Finds the graph of a tree. On false, `why` says what the JSON lacks. */
bool picture_read_graph(json_tree *tree, drawn_graph *out, text *why);

/* Writes "nn.dense@1", "gradient of nn.dense@1", "variable". */
void picture_add_operator(const drawn_node *node, text *out);
/* Writes "f32 (32,10)" as far as it is known. */
void picture_add_signature(const json *output, text *out);
/* Writes text for the inside of an XML element. */
void picture_add_xml(const char *inside, text *out);
/* Writes a number with one decimal, in any locale. */
void picture_add_number(double value, text *out);
/* Writes ` key="3.5"`. */
void picture_add_attribute(const char *key, double value, text *out);
/* Writes "3.5 MiB". */
void picture_add_bytes(uint64_t bytes, text *out);

/* Draw a graph. An SVG fails if there are too many nodes. */
void picture_draw_table(const drawn_graph *graph, text *out);
void picture_draw_dot(const drawn_graph *graph, text *out);
bool picture_draw_svg(const drawn_graph *graph, text *out, text *why);

/* Draws the memory of a program over time as an SVG: steps from left to right,
 * bytes of each device's pool upwards, one rectangle for each piece of memory
 * from its first use to its last. Fails if there are no steps, or too many. */
bool timeline_draw(const json *program, text *out, text *why);

#endif /* TENON_PICTURE_H_ */
