/* SPDX-License-Identifier: Apache-2.0
 * picture.h: functions that the pictures of a graph and of a program's memory
 * share.
 *
 * files:
 *   picture.c      a table for a terminal; Graphviz
 *   picture_svg.c  layers of boxes as SVG
 *   timeline.c     memory over time
 */
#ifndef TENON_GRAPH_PICTURE_H_
#define TENON_GRAPH_PICTURE_H_

#include "graph.h"

/* Writes "nn.dense@1", "gradient of nn.dense@1", "variable". */
void tn__picture_operator(const tn__node *node, tn__buf *out);
/* Writes "f32 (32,10)", as far as the last inference knows it; for a variable
 * without inference, the signature of its creation. Writes nothing if nothing
 * is known. */
void tn__picture_sig(const tn_graph *graph, tn_entry entry, tn__buf *out);
/* Writes text for the inside of an XML element. */
void tn__picture_xml(const char *text, tn__buf *out);
/* Writes a number with one decimal, in any locale. */
void tn__picture_number(double value, tn__buf *out);
/* Writes "3.5 MiB". */
void tn__picture_bytes(size_t bytes, tn__buf *out);

tn_code tn__picture_svg(const tn_graph *graph, tn__buf *out);

#endif /* TENON_GRAPH_PICTURE_H_ */
