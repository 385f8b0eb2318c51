/* SPDX-License-Identifier: Apache-2.0
 * picture.h: what the pictures of a graph, and of a program's memory, share.
 *
 * files: picture.c      a table for a terminal; Graphviz
 *        picture_svg.c  layers of boxes, drawn here
 *        timeline.c     memory over time
 */
#ifndef TENON_GRAPH_PICTURE_H_
#define TENON_GRAPH_PICTURE_H_

#include "graph.h"

/* "nn.dense@1", "gradient of nn.dense@1", "variable". */
void tn__picture_operator(const tn__node *node, tn__buf *out);
/* "f32 (32,10)", as far as the last inference knows; of a variable that none
 * has seen, what it was made with. Nothing if nothing is known. */
void tn__picture_sig(const tn_graph *graph, tn_entry entry, tn__buf *out);
/* Text inside of an element. */
void tn__picture_xml(const char *text, tn__buf *out);
/* A number with one decimal, in any locale. */
void tn__picture_number(double value, tn__buf *out);
/* "3.5 MiB" */
void tn__picture_bytes(size_t bytes, tn__buf *out);

tn_code tn__picture_svg(const tn_graph *graph, tn__buf *out);

#endif /* TENON_GRAPH_PICTURE_H_ */
