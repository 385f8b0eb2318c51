/* SPDX-License-Identifier: Apache-2.0
 * net_check.c: checks the tables of a net. Nets come from files of unknown
 * origin through the graph, so the planner trusts no number in them.
 */
#include "planning.h"

static const char *get_name(const tn__plan_net *net, uint32_t n) {
  return net->nodes[n].name == NULL ? "?" : net->nodes[n].name;
}

static tn_code fail_node(const tn__plan_net *net, uint32_t n, const char *why,
                         uint32_t number) {
  return tn__fail(TN_INVALID, "memory plan: node %u (%s) %s %u", n,
                  get_name(net, n), why, number);
}

static tn_code check_outputs(const tn__plan_net *net, uint32_t n,
                             bool *written) {
  const tn__plan_node *node = &net->nodes[n];
  if (node->first_out > net->n_entries ||
      node->n_out > net->n_entries - node->first_out)
    return fail_node(net, n, "writes beyond the last entry, from entry",
                     node->first_out);
  for (uint32_t o = 0; o < node->n_out; ++o) {
    const uint32_t e = node->first_out + o;
    if (written[e])
      return fail_node(net, n, "writes an entry of another node: entry", e);
    written[e] = true;
  }
  return TN_OK;
}

static tn_code check_inputs(const tn__plan_net *net, uint32_t n,
                            const bool *written) {
  const tn__plan_node *node = &net->nodes[n];
  for (uint32_t i = 0; i < node->n_in; ++i) {
    const uint32_t e = node->in[i];
    if (e >= net->n_entries)
      return fail_node(net, n, "reads beyond the last entry: entry", e);
    if (!written[e] && !(net->entries[e].flags & TN__ENTRY_EXTERNAL))
      return fail_node(net, n,
                       "reads an entry that no earlier node writes: entry", e);
  }
  for (uint32_t i = 0; i < node->n_after; ++i)
    if (node->after[i] >= n)
      return fail_node(net, n, "waits for a node that is not before it: node",
                       node->after[i]);
  return TN_OK;
}

static tn_code check_pairs(const tn__plan_net *net, uint32_t n) {
  const tn__plan_node *node = &net->nodes[n];
  for (uint32_t k = 0; k < node->n_pairs; ++k) {
    if (node->pairs[k].in >= node->n_in)
      return fail_node(net, n,
                       "has an in-place pair with an unknown input: input",
                       node->pairs[k].in);
    if (node->pairs[k].out >= node->n_out)
      return fail_node(net, n,
                       "has an in-place pair with an unknown output: output",
                       node->pairs[k].out);
  }
  if (node->sum && (node->n_in != 2 || node->n_out != 1))
    return fail_node(net, n,
                     "is a sum of two inputs, but the number of its inputs is",
                     node->n_in);
  return TN_OK;
}

static tn_code check_written(const tn__plan_net *net, const bool *written) {
  for (size_t e = 0; e < net->n_entries; ++e)
    if (!written[e] && !(net->entries[e].flags & TN__ENTRY_EXTERNAL))
      return tn__fail(TN_INVALID,
                      "memory plan: entry %zu has no writer and is not "
                      "external",
                      e);
  return TN_OK;
}

static tn_code check_nodes(const tn__plan_net *net, bool *written) {
  for (uint32_t n = 0; n < net->n_nodes; ++n) {
    TN__TRY(check_inputs(net, n, written));
    TN__TRY(check_outputs(net, n, written));
    TN__TRY(check_pairs(net, n));
  }
  return check_written(net, written);
}

tn_code tn__plan_net_check(const tn__env *env, const tn__plan_net *net) {
  if (net->n_nodes >= INT32_MAX || net->n_entries >= INT32_MAX)
    return tn__fail(TN_INVALID,
                    "memory plan: %zu nodes and %zu entries are"
                    " more than can be numbered",
                    net->n_nodes, net->n_entries);
  bool *written = tn__zalloc(env, net->n_entries * sizeof *written);
  if (written == NULL)
    return tn__fail_memory(net->n_entries, "the check of a memory plan");
  const tn_code code = check_nodes(net, written);
  tn__free(env, written);
  return code;
}
