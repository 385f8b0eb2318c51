#include "graph.h"
tn_code tn__graph_gradient(tn_graph *graph, const tn__gradient_spec *spec,
                           tn_entry *out);
tn_code tn__graph_gradient(tn_graph *graph, const tn__gradient_spec *spec,
                           tn_entry *out) {
  (void)graph;
  (void)spec;
  (void)out;
  return tn__fail(TN_UNIMPLEMENTED, "no gradient yet");
}
