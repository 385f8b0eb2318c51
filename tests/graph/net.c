/* SPDX-License-Identifier: Apache-2.0
 * net.c: see net.h.
 */
#include "net.h"

#include <stdio.h>

tn_graph *g;

void net_open(void) {
  net_open_on(2);
}

void net_open_with(const tn__engine_options *options) {
  world_open_with(options);
  OK(tn__plugin_load(w.registry, LAB_FILE));
  g = net_new();
}

void net_open_on(uint32_t workers) {
  net_open_with(&(tn__engine_options){.workers = workers});
}

void net_renew(void) {
  tn__graph_release(g);
  g = net_new();
}

void net_close(void) {
  tn__graph_release(g);
  world_close();
}

tn_graph *net_new(void) {
  tn_graph *graph = NULL;
  OK(tn__graph_create(&w.caller, &graph));
  return graph;
}

tn_entry var_node(tn_graph *graph, const char *name) {
  tn_entry entry;
  OK(tn__graph_variable(graph, name, NULL, &entry));
  return entry;
}

tn_entry typed_var(tn_graph *graph, const char *name, tn_sig known) {
  tn_entry entry;
  OK(tn__graph_variable(graph, name, &known, &entry));
  return entry;
}

tn_entry op_n(tn_graph *graph, const char *op, const char *params,
              const char *name, size_t n, const tn_entry *in) {
  char full[64];
  tn_entry out;
  (void)snprintf(full, sizeof full, "lab.%s", op);
  const tn_graph_node node = {.struct_size = sizeof node,
                              .n_in = (uint32_t)n,
                              .op = full,
                              .params = params,
                              .name = name,
                              .in = in};
  OK(tn__graph_call(graph, &node, &out));
  return out;
}

tn_entry output_of(tn_entry first, uint32_t index) {
  return (tn_entry){first.node, index};
}

tn_sig sig_of(tn_dtype dtype, size_t ndim, const int64_t *shape) {
  tn_sig sig = {.dtype = dtype, .ndim = (int32_t)ndim};
  for (size_t i = 0; i < ndim; ++i) sig.shape[i] = shape[i];
  return sig;
}

void is_sig(const tn_graph *graph, tn_entry entry, tn_sig want) {
  char name[TN__ENTRY_TEXT];
  tn_sig have;
  OK(tn__graph_sig(graph, entry, &have));
  tn__entry_text(graph, entry, name);
  cr_assert_eq(have.dtype, want.dtype, "%s is %s", name,
               tn__dtype_name(have.dtype));
  cr_assert_eq(have.ndim, want.ndim, "%s has rank %d", name, have.ndim);
  for (int32_t i = 0; i < want.ndim; ++i)
    cr_assert_eq(have.shape[i], want.shape[i], "dimension %d of %s is %lld", i,
                 name, (long long)have.shape[i]);
}
