/* SPDX-License-Identifier: Apache-2.0
 * net.h: the graph of one `tenon graph` command, shared by its words `show`,
 * `plan` and `run`.
 */
#ifndef TENON_NET_H_
#define TENON_NET_H_

#include "tenon/graph.h"
#include "tenon_tool.h"

/* A graph, and the words of the command line about its variables. */
typedef struct net {
  const arguments *args;
  text *why;
  tn_runtime *rt;
  tn_graph *graph;
  text file;          /* name of the file of the graph */
  text weights;       /* that of the weights beside it; empty: none */
  shape_word *shapes; /* args->n_shapes */
  group_word *words;  /* args->n_groups */
  tn_group *groups;   /* the same, found */
} net;

/* `tenon graph run`: binds the graph to the arrays of the command line, runs it
 * forward, and prints or writes its outputs. */
bool net_run(net *n, text *out);

#endif /* TENON_NET_H_ */
