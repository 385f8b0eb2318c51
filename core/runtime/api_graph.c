/* SPDX-License-Identifier: Apache-2.0
 * api_graph.c: the functions of graph.h about graphs and programs. Each checks
 * its arguments and calls the folders of graphs and programs.
 */
#include "gradient.h"
#include "json.h"
#include "passes.h"
#include "program_bind.h"
#include "runtime.h"

/* When libtenon-graph is loaded, before plugins request the table. */
__attribute__((constructor)) static void provide_passes(void) {
  tn__passes_provide(&tn__passes_table);
}

static tn_code check_graph(const tn_graph *graph) {
  return tn__runtime_check(graph->env);
}

/* Checks the size field of a struct that may grow. */
static tn_code check_size(uint32_t have, size_t want, const char *name) {
  if (have >= want) return TN_OK;
  return tn__fail(TN_INVALID, "%s.struct_size is %u; set it to sizeof(%s)",
                  name, have, name);
}

/* -------------------------------------------------------------------- life */

tn_code tn_graph_create(tn_runtime *rt, tn_graph **out) {
  TN__REQUIRE(out);
  *out = NULL;
  TN__REQUIRE(rt);
  TN__TRY(tn__runtime_check(&rt->env));
  return tn__graph_create(&rt->caller, out);
}

tn_code tn_graph_copy(const tn_graph *graph, tn_graph **out) {
  TN__REQUIRE(out);
  *out = NULL;
  TN__REQUIRE(graph);
  TN__TRY(check_graph(graph));
  return tn__graph_copy(graph, out);
}

/* In a forked child nothing is freed, because locks may be held for ever there.
 */
void tn_graph_release(tn_graph *graph) {
  if (!graph) return;
  const tn_runtime *rt = graph->env->owner;
  if (tn__creator_is_here(&rt->creator)) tn__graph_release(graph);
}

/* ------------------------------------------------------------ construction */

tn_code tn_graph_variable(tn_graph *graph, const char *name,
                          const tn_sig *known, tn_entry *out) {
  TN__REQUIRE(out);
  *out = TN_ENTRY_NONE;
  TN__REQUIRE(graph);
  TN__REQUIRE(name);
  TN__TRY(check_graph(graph));
  return tn__graph_variable(graph, name, known, out);
}

static tn_code check_attributes(const tn_attribute *attributes, size_t n,
                                const char *function) {
  if (n > 0) TN__TRY(tn__argument_check(attributes, function, "attributes"));
  for (size_t i = 0; i < n; ++i) {
    TN__TRY(tn__argument_check(attributes[i].key, function, "attribute.key"));
    TN__TRY(
        tn__argument_check(attributes[i].value, function, "attribute.value"));
  }
  return TN_OK;
}

static tn_code check_keys(const char *const *keys, size_t n,
                          const char *function) {
  for (size_t i = 0; keys && i < n; ++i)
    TN__TRY(tn__argument_check(keys[i], function, "keys[i]"));
  return TN_OK;
}

tn_code tn_graph_call(tn_graph *graph, const tn_graph_node *node,
                      tn_entry *out) {
  TN__REQUIRE(out);
  TN__REQUIRE(graph);
  TN__REQUIRE(node);
  TN__TRY(check_size(node->struct_size, sizeof *node, "tn_graph_node"));
  TN__REQUIRE(node->op);
  if (node->n_in > 0) TN__REQUIRE(node->in);
  TN__TRY(check_keys(node->keys, node->n_in, __func__));
  TN__TRY(check_attributes(node->attributes, node->n_attributes, __func__));
  TN__TRY(check_graph(graph));
  return tn__graph_call(graph, node, out);
}

tn_code tn_graph_embed(tn_graph *graph, const tn_embedding *what,
                       tn_entry *out) {
  TN__REQUIRE(out);
  TN__REQUIRE(graph);
  TN__REQUIRE(what);
  TN__TRY(check_size(what->struct_size, sizeof *what, "tn_embedding"));
  TN__REQUIRE(what->inner);
  if (what->n_in > 0) TN__REQUIRE(what->in);
  TN__TRY(check_keys(what->keys, what->n_in, __func__));
  TN__TRY(check_attributes(what->attributes, what->n_attributes, __func__));
  TN__TRY(check_graph(graph));
  return tn__graph_embed(graph, what, out);
}

tn_code tn_graph_loop(tn_graph *graph, const tn_loop *what, tn_entry *out) {
  TN__REQUIRE(out);
  TN__REQUIRE(graph);
  TN__REQUIRE(what);
  TN__TRY(check_size(what->struct_size, sizeof *what, "tn_loop"));
  if (what->reserved)
    return tn__fail(TN_INVALID,
                    "tn_loop.reserved is %u, which has no meaning; set it to 0",
                    what->reserved);
  TN__REQUIRE(what->step);
  if (what->n_sequences > 0) TN__REQUIRE(what->sequences);
  if (what->n_states > 0) TN__REQUIRE(what->states);
  if (what->n_in > 0) TN__REQUIRE(what->in);
  TN__TRY(check_keys(what->sequences, what->n_sequences, __func__));
  TN__TRY(check_keys(what->states, what->n_states, __func__));
  TN__TRY(check_keys(what->keys, what->n_in, __func__));
  TN__TRY(check_attributes(what->attributes, what->n_attributes, __func__));
  TN__TRY(check_graph(graph));
  return tn__graph_loop(graph, what, out);
}

tn_code tn_graph_compose(tn_graph *graph, const tn_graph *other,
                         const char *const *names, const tn_entry *entries,
                         size_t n, tn_entry *heads) {
  TN__REQUIRE(graph);
  TN__REQUIRE(other);
  if (n > 0) TN__REQUIRE(names);
  if (n > 0) TN__REQUIRE(entries);
  TN__TRY(check_keys(names, n, __func__));
  if (other->n_heads > 0) TN__REQUIRE(heads);
  TN__TRY(check_graph(graph));
  return tn__graph_compose(graph, other, names, entries, n, heads);
}

tn_code tn_graph_heads_set(tn_graph *graph, const tn_entry *heads, size_t n) {
  TN__REQUIRE(graph);
  if (n > 0) TN__REQUIRE(heads);
  TN__TRY(check_graph(graph));
  return tn__graph_heads_set(graph, heads, n);
}

tn_code tn_graph_depends(tn_graph *graph, uint32_t node, uint32_t on) {
  TN__REQUIRE(graph);
  TN__TRY(check_graph(graph));
  return tn__graph_depends(graph, node, on);
}

tn_code tn_graph_gradient(tn_graph *graph, const tn_gradient_query *query,
                          tn_entry *out) {
  TN__REQUIRE(graph);
  TN__REQUIRE(query);
  if (query->n_heads > 0) TN__REQUIRE(query->heads);
  if (query->n_of > 0) TN__REQUIRE(query->of);
  if (query->n_of > 0) TN__REQUIRE(out);
  if (query->n_stop > 0) TN__REQUIRE(query->stop);
  TN__TRY(check_graph(graph));
  const tn__gradient_spec spec = {.query = *query};
  return tn__graph_gradient(graph, &spec, out);
}

tn_code tn_graph_backward(tn_graph *graph, const tn_gradient_names *what) {
  TN__REQUIRE(graph);
  TN__REQUIRE(what);
  TN__TRY(check_keys(what->of, what->n_of, __func__));
  if (what->n_stop > 0) TN__REQUIRE(what->stop);
  TN__TRY(check_keys(what->stop, what->n_stop, __func__));
  TN__TRY(check_graph(graph));
  return tn__graph_backward(graph, what);
}

tn_code tn_graph_scope_push(tn_graph *graph, const tn_attribute *attributes,
                            size_t n) {
  TN__REQUIRE(graph);
  TN__TRY(check_attributes(attributes, n, __func__));
  TN__TRY(check_graph(graph));
  return tn__scope_push(graph, attributes, n);
}

tn_code tn_graph_scope_pop(tn_graph *graph) {
  TN__REQUIRE(graph);
  TN__TRY(check_graph(graph));
  return tn__scope_pop(graph);
}

tn_code tn_graph_prefix(tn_graph *graph, const char *prefix) {
  TN__REQUIRE(graph);
  TN__TRY(check_graph(graph));
  return tn__graph_prefix(graph, prefix);
}

/* --------------------------------------------------------------- queries */

tn_code tn_graph_find(const tn_graph *graph, const char *name, tn_entry *out) {
  TN__REQUIRE(out);
  *out = TN_ENTRY_NONE;
  TN__REQUIRE(graph);
  TN__REQUIRE(name);
  return tn__graph_find(graph, name, out);
}

tn_code tn_graph_name(tn_graph *graph, uint32_t list, size_t index,
                      const char **name, tn_entry *entry) {
  tn_entry found;
  TN__REQUIRE(name);
  *name = NULL;
  TN__REQUIRE(graph);
  return tn__graph_name(graph, list, index, name, entry ? entry : &found);
}

static tn_code check_node(const tn_graph *graph, uint32_t node) {
  if (node < tn__n_nodes(graph)) return TN_OK;
  return tn__fail(TN_INVALID, "node %u: the graph has %u nodes", node,
                  tn__n_nodes(graph));
}

tn_code tn_graph_child(const tn_graph *graph, uint32_t node, size_t index,
                       tn_entry *out) {
  TN__REQUIRE(out);
  *out = TN_ENTRY_NONE;
  TN__REQUIRE(graph);
  TN__TRY(check_node(graph, node));
  const tn__node *n = tn__node_at(graph, node);
  if (index >= (size_t)n->n_in + n->n_aux)
    return tn__fail(TN_NOT_FOUND, "node `%s` reads %u entries", n->name,
                    n->n_in + n->n_aux);
  *out = n->in[index];
  return TN_OK;
}

const char *tn_graph_operator(const tn_graph *graph, uint32_t node) {
  if (!graph || node >= tn__n_nodes(graph)) return NULL;
  const tn_operator *op = tn__node_at(graph, node)->op;
  return op ? op->name : NULL;
}

tn_code tn_graph_attribute_set(tn_graph *graph, uint32_t node, const char *key,
                               const char *value) {
  TN__REQUIRE(graph);
  TN__REQUIRE(key);
  TN__TRY(check_graph(graph));
  return tn__attribute_set(graph, node, key, value);
}

const char *tn_graph_attribute(const tn_graph *graph, uint32_t node,
                               const char *key) {
  if (!graph || !key || node >= tn__n_nodes(graph)) return NULL;
  return tn__attribute_get(tn__node_at(graph, node), key);
}

tn_code tn_graph_attribute_at(const tn_graph *graph, uint32_t node,
                              size_t index, tn_attribute *out) {
  TN__REQUIRE(out);
  *out = (tn_attribute){0};
  TN__REQUIRE(graph);
  TN__TRY(check_node(graph, node));
  const tn__node *n = tn__node_at(graph, node);
  if (index >= n->n_attrs)
    return tn__fail(TN_NOT_FOUND, "node `%s` has %u attributes", n->name,
                    n->n_attrs);
  *out = n->attrs[index];
  return TN_OK;
}

tn_code tn_graph_attributes(const tn_graph *graph, tn_text **out) {
  TN__REQUIRE(out);
  *out = NULL;
  TN__REQUIRE(graph);
  TN__TRY(check_graph(graph));
  return tn__attributes_json(graph, out);
}

static tn_code check_known(const tn_known *known, size_t n,
                           const char *function) {
  if (n > 0) TN__TRY(tn__argument_check(known, function, "known"));
  for (size_t i = 0; i < n; ++i)
    TN__TRY(tn__argument_check(known[i].name, function, "known.name"));
  return TN_OK;
}

tn_code tn_graph_infer(tn_graph *graph, const tn_known *known, size_t n) {
  TN__REQUIRE(graph);
  TN__TRY(check_known(known, n, __func__));
  TN__TRY(check_graph(graph));
  return tn__graph_infer(graph, known, n);
}

tn_code tn_graph_sig(const tn_graph *graph, tn_entry entry, tn_sig *out) {
  TN__REQUIRE(out);
  *out = tn__sig_unknown();
  TN__REQUIRE(graph);
  return tn__graph_sig(graph, entry, out);
}

/* ------------------------------------------------------------------ passes */

static tn_code check_names(const char *const *names, size_t n,
                           const char *function) {
  if (n > 0) TN__TRY(tn__argument_check(names, function, "passes"));
  for (size_t i = 0; i < n; ++i)
    TN__TRY(tn__argument_check(names[i], function, "passes[i]"));
  return TN_OK;
}

tn_code tn_graph_apply(const tn_graph *graph, const char *const *passes,
                       size_t n, tn_graph **out) {
  TN__REQUIRE(out);
  *out = NULL;
  TN__REQUIRE(graph);
  TN__TRY(check_names(passes, n, __func__));
  TN__TRY(check_graph(graph));
  return tn__graph_apply(graph, passes, n, out);
}

tn_code tn_pass_at(tn_runtime *rt, size_t index, tn_pass_info *out) {
  TN__REQUIRE(out);
  TN__REQUIRE(rt);
  TN__TRY(check_size(out->struct_size, sizeof *out, "tn_pass_info"));
  TN__TRY(tn__runtime_check(&rt->env));
  return tn__pass_at(rt->registry, index, out);
}

/* ------------------------------------------------------------------- files */

tn_code tn_graph_json(const tn_graph *graph, tn_text **out) {
  TN__REQUIRE(out);
  *out = NULL;
  TN__REQUIRE(graph);
  TN__TRY(check_graph(graph));
  return tn__graph_json(graph, false, out);
}

tn_code tn_graph_parse(tn_runtime *rt, const char *json, size_t bytes,
                       tn_graph **out) {
  TN__REQUIRE(out);
  *out = NULL;
  TN__REQUIRE(rt);
  if (bytes > 0) TN__REQUIRE(json);
  TN__TRY(tn__runtime_check(&rt->env));
  return tn__graph_parse(&rt->caller, json, bytes, out);
}

tn_code tn_graph_save(const tn_graph *graph, const char *path) {
  TN__REQUIRE(graph);
  TN__REQUIRE(path);
  TN__TRY(check_graph(graph));
  return tn__graph_save(graph, path);
}

tn_code tn_graph_load(tn_runtime *rt, const char *path, tn_graph **out) {
  TN__REQUIRE(out);
  *out = NULL;
  TN__REQUIRE(rt);
  TN__REQUIRE(path);
  TN__TRY(tn__runtime_check(&rt->env));
  return tn__graph_load(&rt->caller, path, out);
}

tn_code tn_graph_inferred_json(const tn_graph *graph, tn_text **out) {
  TN__REQUIRE(out);
  *out = NULL;
  TN__REQUIRE(graph);
  TN__TRY(check_graph(graph));
  return tn__graph_json(graph, true, out);
}

/* ---------------------------------------------------------------- programs */

static tn_code check_program(const tn_program *program) {
  return tn__runtime_check(tn__program_env(program));
}

/* Checks that a run is allowed: a monitor or an operator would start runs for
 * ever. */
static tn_code check_run(const tn_program *program, const char *function) {
  if (tn__program_is_watched(program))
    return tn__fail(TN_INVALID,
                    "%s was called by a monitor of this program, which is "
                    "running; a monitor calls tn_array_get and tn_array_tensor "
                    "only",
                    function);
  return tn__runtime_check_call(tn__program_env(program), function);
}

static tn_code check_arguments(const tn_bind *how, const char *function) {
  if (how->n_arguments > 0)
    TN__TRY(tn__argument_check(how->arguments, function, "how->arguments"));
  for (size_t i = 0; i < how->n_arguments; ++i)
    TN__TRY(tn__argument_check(how->arguments[i].name, function,
                               "how->arguments[i].name"));
  if (how->n_outputs > 0)
    TN__TRY(tn__argument_check(how->outputs, function, "how->outputs"));
  if (how->n_groups > 0)
    TN__TRY(tn__argument_check(how->groups, function, "how->groups"));
  for (size_t i = 0; i < how->n_groups; ++i)
    TN__TRY(tn__argument_check(how->groups[i].name, function,
                               "how->groups[i].name"));
  return check_names(how->passes, how->n_passes, function);
}

static tn_code check_bind_flags(uint32_t flags) {
  const uint32_t known = TN_BIND_NO_FUSE | TN_BIND_CAPTURE;
  if (!(flags & ~known)) return TN_OK;
  return tn__fail(TN_INVALID, "tn_bind.flags: 0x%x are none of TN_BIND_*",
                  flags & ~known);
}

tn_code tn_program_bind(const tn_graph *graph, const tn_bind *how,
                        tn_program **out) {
  TN__REQUIRE(out);
  *out = NULL;
  TN__REQUIRE(graph);
  TN__REQUIRE(how);
  TN__TRY(check_size(how->struct_size, sizeof *how, "tn_bind"));
  TN__TRY(check_bind_flags(how->flags));
  TN__TRY(check_arguments(how, __func__));
  TN__TRY(check_graph(graph));
  return tn__program_bind(graph, how, out);
}

void tn_program_release(tn_program *program) {
  if (!program) return;
  const tn_runtime *rt = tn__program_env(program)->owner;
  if (tn__creator_is_here(&rt->creator)) tn__program_release(program);
}

static tn_code check_run_flags(uint32_t flags) {
  if (!(flags & ~(uint32_t)TN_CALL_TRAIN)) return TN_OK;
  return tn__fail(TN_INVALID,
                  "flags: a forward run knows TN_CALL_TRAIN, and not 0x%x",
                  flags & ~(uint32_t)TN_CALL_TRAIN);
}

tn_code tn_program_forward(tn_program *program, uint32_t flags) {
  TN__REQUIRE(program);
  TN__TRY(check_run_flags(flags));
  TN__TRY(check_run(program, __func__));
  return tn__program_forward(program, flags);
}

tn_code tn_program_backward(tn_program *program, tn_array *const *weights,
                            size_t n) {
  TN__REQUIRE(program);
  if (n > 0) TN__REQUIRE(weights);
  TN__TRY(check_run(program, __func__));
  return tn__program_backward(program, weights, n);
}

tn_code tn_program_array(const tn_program *program, uint32_t what,
                         const char *name, tn_array **out) {
  TN__REQUIRE(out);
  *out = NULL;
  TN__REQUIRE(program);
  TN__REQUIRE(name);
  return tn__program_array(program, what, name, out);
}

tn_code tn_program_output(const tn_program *program, size_t index,
                          tn_array **out) {
  TN__REQUIRE(out);
  *out = NULL;
  TN__REQUIRE(program);
  return tn__program_output(program, index, out);
}

tn_code tn_program_forward_part(tn_program *program, uint32_t flags,
                                size_t steps, size_t *left) {
  if (left) *left = 0;
  TN__REQUIRE(program);
  TN__TRY(check_run_flags(flags));
  TN__TRY(check_run(program, __func__));
  return tn__program_forward_part(program, flags, steps, left);
}

tn_code tn_program_set(tn_program *program, const char *node,
                       const tn_value *value) {
  TN__REQUIRE(program);
  TN__REQUIRE(node);
  TN__REQUIRE(value);
  TN__TRY(check_program(program));
  return tn__program_set(program, node, value);
}

tn_code tn_program_monitor(tn_program *program, tn_monitor_fn *fn, void *ctx) {
  TN__REQUIRE(program);
  TN__TRY(check_program(program));
  return tn__program_monitor(program, fn, ctx);
}

tn_code tn_program_reshape(tn_program *program, const tn_known *known, size_t n,
                           tn_program **out) {
  TN__REQUIRE(out);
  *out = NULL;
  TN__REQUIRE(program);
  TN__TRY(check_known(known, n, __func__));
  TN__TRY(check_program(program));
  return tn__program_reshape(program, known, n, out);
}

tn_code tn_program_stats_get(const tn_program *program, tn_program_stats *out) {
  TN__REQUIRE(program);
  TN__REQUIRE(out);
  TN__TRY(check_size(out->struct_size, sizeof *out, "tn_program_stats"));
  tn__program_stats(program, out);
  return TN_OK;
}

tn_code tn_program_text(const tn_program *program, uint32_t why,
                        tn_text **out) {
  TN__REQUIRE(out);
  *out = NULL;
  TN__REQUIRE(program);
  return tn__program_text(program, why, out);
}

tn_code tn_program_captured(tn_program *program, uint32_t part, tn_text **why) {
  TN__REQUIRE(why);
  *why = NULL;
  TN__REQUIRE(program);
  TN__TRY(check_program(program));
  return tn__program_captured(program, part, why);
}

tn_code tn_program_json(const tn_program *program, tn_text **out) {
  TN__REQUIRE(out);
  *out = NULL;
  TN__REQUIRE(program);
  return tn__program_json(program, out);
}
