/* SPDX-License-Identifier: Apache-2.0
 * rewrite.c: the functions of tenon/draft/pass.h, and one run of a plugin's
 * pass. Checks the arguments of each function; reorder.c checks the result.
 */
#include <fenv.h>
#include <stdio.h>
#include <string.h>

#include "facts.h"
#include "passes.h"

/* Stores the text of a failure in the rewrite. If the pass then fails, this is
 * its message. */
static tn_code store_failure(tn_rewrite *r, tn_code rc) {
  if (rc != TN_OK)
    (void)snprintf(r->text, sizeof r->text, "%s", tn_error_text());
  return rc;
}

/* --------------------------------------------------------------------- uses
 */

static tn_code grow_list(const tn_rewrite *r, void **list, size_t each,
                         size_t n, size_t more) {
  void *longer = tn__alloc(r->graph->env, more * each);
  if (!longer) return tn__fail_memory(more * each, "the uses of entries");
  if (n > 0) memcpy(longer, *list, n * each);
  tn__free(r->graph->env, *list);
  *list = longer;
  return TN_OK;
}

static tn_code reserve_uses(tn_rewrite *r, size_t more) {
  void *list = r->uses;
  if (r->n_uses + more <= r->room) return TN_OK;
  const size_t room = 2 * (r->n_uses + more);
  TN__TRY(grow_list(r, &list, sizeof *r->uses, r->n_uses, room));
  r->uses = list;
  r->room = room;
  return TN_OK;
}

/* Makes space in `first` for all entries of the graph. */
static tn_code reserve_first(tn_rewrite *r) {
  const size_t want = r->graph->n_entries;
  void *list = r->first;
  if (want <= r->n_first) return TN_OK;
  TN__TRY(grow_list(r, &list, sizeof *r->first, r->n_first, 2 * want));
  r->first = list;
  for (size_t i = r->n_first; i < 2 * want; ++i) r->first[i] = TN_NONE;
  r->n_first = 2 * want;
  return TN_OK;
}

static void add_use(tn_rewrite *r, tn_entry entry, uint32_t node,
                    uint32_t slot) {
  if (tn__entry_is_none(entry)) return;
  uint32_t *first = &r->first[tn__entry_id(r->graph, entry)];
  r->uses[r->n_uses] = (tn__entry_use){node, slot, *first};
  *first = (uint32_t)r->n_uses++;
}

static tn_code add_node_uses(tn_rewrite *r, const tn__node *node) {
  const uint32_t n = node->n_in + node->n_aux;
  TN__TRY(reserve_uses(r, n));
  TN__TRY(reserve_first(r));
  for (uint32_t i = 0; i < n; ++i) add_use(r, node->in[i], node->id, i);
  return TN_OK;
}

static tn_entry *get_use_entry(const tn_rewrite *r, const tn__entry_use *use) {
  return use->node == TN_NONE
             ? &r->graph->heads[use->slot]
             : &tn__node_at(r->graph, use->node)->in[use->slot];
}

/* ------------------------------------------------------------------ queries */

static tn_code check_node(tn_rewrite *r, uint32_t node) {
  if (node < tn__n_nodes(r->graph)) return TN_OK;
  return store_failure(
      r, tn__fail(TN_INVALID, "node %u: the graph has %u nodes", node,
                  tn__n_nodes(r->graph)));
}

static tn_code check_struct_size(tn_rewrite *r, uint32_t have, size_t want,
                                 const char *name) {
  if (have >= want) return TN_OK;
  return store_failure(
      r, tn__fail(TN_INVALID, "%s.struct_size is %u; set it to sizeof(%s)",
                  name, have, name));
}

static tn_code check_text(tn_rewrite *r, const char *text, const char *what) {
  if (text) return TN_OK;
  return store_failure(r, tn__fail(TN_INVALID, "%s is NULL", what));
}

static int32_t set_pass_failure(tn_rewrite *r, uint32_t node, int32_t code,
                                const char *format, ...) {
  size_t n = 0;
  va_list args;
  if (node < tn__n_nodes(r->graph))
    n = (size_t)snprintf(r->text, sizeof r->text,
                         "node `%s`: ", tn__node_at(r->graph, node)->name);
  va_start(args, format);
  (void)vsnprintf(r->text + n, sizeof r->text - n, format ? format : "", args);
  va_end(args);
  return code < 0 ? code : TN_PLUGIN;
}

static uint32_t count_nodes(const tn_rewrite *r) {
  return tn__n_nodes(r->graph);
}

static int32_t describe_node(tn_rewrite *r, uint32_t id, tn_rewrite_node *out) {
  TN__TRY(check_node(r, id));
  TN__TRY(
      check_struct_size(r, out->struct_size, sizeof *out, "tn_rewrite_node"));
  const tn__node *node = tn__node_at(r->graph, id);
  *out = (tn_rewrite_node){.struct_size = out->struct_size,
                           .kind = node->kind,
                           .n_in = node->n_in,
                           .n_aux = node->n_aux,
                           .n_out = node->n_out,
                           .of = node->of,
                           .gradient = (node->flags & TN__NODE_GRADIENT) != 0,
                           .name = node->name,
                           .op = node->op ? node->op->name : NULL,
                           .params = tn__node_struct(node),
                           .in = node->in};
  return TN_OK;
}

static int32_t print_node_params(tn_rewrite *r, uint32_t id, const char **out) {
  *out = "";
  TN__TRY(check_node(r, id));
  const tn__node *node = tn__node_at(r->graph, id);
  const void *data = tn__node_struct(node);
  tn__buf text;
  if (!node->op || !data) return TN_OK;
  const tn__fields fields = {node->desc->params, node->desc->n_params,
                             node->desc->params_size, node->op->name};
  tn__buf_init(&text, r->graph->env);
  tn__fields_text(&fields, data, &text);
  const char *copy = text.failed ? NULL
                                 : tn__arena_text(&r->graph->arena,
                                                  text.s ? text.s : "", text.n);
  const size_t n = text.n;
  tn__buf_deinit(&text);
  r->graph->arena.failed = false;
  if (!copy) return store_failure(r, tn__fail_memory(n, "parameters as text"));
  *out = copy;
  return TN_OK;
}

static int32_t find_node(tn_rewrite *r, const char *name, uint32_t *out) {
  *out = TN_NONE;
  TN__TRY(check_text(r, name, "tn_passes.find: `name`"));
  const tn__node *node = tn__map_get(&r->graph->names, name);
  *out = node ? node->id : TN_NONE;
  if (node) return TN_OK;
  return store_failure(
      r, tn__fail(TN_NOT_FOUND, "the graph has no node `%.100s`", name));
}

static uint32_t count_heads(const tn_rewrite *r) {
  return (uint32_t)r->graph->n_heads;
}

static int32_t get_head(tn_rewrite *r, uint32_t index, tn_entry *out) {
  *out = TN_ENTRY_NONE;
  if (index >= r->graph->n_heads)
    return store_failure(r, tn__fail(TN_NOT_FOUND, "head %u: the graph has %zu",
                                     index, r->graph->n_heads));
  *out = r->graph->heads[index];
  return TN_OK;
}

static int32_t describe_sig(tn_rewrite *r, tn_entry entry,
                            tn_rewrite_sig *out) {
  static const tn_sig unknown = {.dtype = TN_DTYPE_UNKNOWN, .ndim = -1};
  TN__TRY(store_failure(r, tn__entry_check(r->graph, entry, "the entry")));
  TN__TRY(
      check_struct_size(r, out->struct_size, sizeof *out, "tn_rewrite_sig"));
  const bool seen = tn__entry_id(r->graph, entry) < r->graph->n_sigs;
  const tn_sig *sig = seen ? tn__entry_sig(r->graph, entry) : &unknown;
  *out = (tn_rewrite_sig){.struct_size = out->struct_size,
                          .dtype = sig->dtype,
                          .ndim = sig->ndim,
                          .shape = sig->shape};
  return TN_OK;
}

static const char *get_attribute(const tn_rewrite *r, uint32_t node,
                                 const char *key) {
  if (node >= tn__n_nodes(r->graph) || !key) return NULL;
  return tn__attribute_get(tn__node_at(r->graph, node), key);
}

/* ------------------------------------------------------------------ changes
 */

static int32_t set_attribute(tn_rewrite *r, uint32_t node, const char *key,
                             const char *value) {
  TN__TRY(check_text(r, key, "tn_passes.attribute_set: `key`"));
  return store_failure(r, tn__attribute_set(r->graph, node, key, value));
}

static tn_code add_call(tn_rewrite *r, const tn_rewrite_call *call,
                        tn_entry *out) {
  tn_graph *graph = r->graph;
  const uint32_t before = tn__n_nodes(graph);
  const tn_graph_node what = {.struct_size = sizeof what,
                              .n_in = call->n_in,
                              .op = call->op,
                              .params = call->params,
                              .name = call->name,
                              .in = call->in};
  tn_code rc = tn__graph_call(graph, &what, out);
  if (rc == TN_OK && out->node != before)
    rc = tn__fail(TN_INVALID, "a call of %s: its input `%s` is not given",
                  tn__node_at(graph, out->node)->op->name,
                  tn__node_at(graph, before)->name +
                      strlen(tn__node_at(graph, out->node)->name) + 1);
  if (rc == TN_OK) rc = add_node_uses(r, tn__node_at(graph, out->node));
  if (rc != TN_OK) tn__graph_truncate(graph, before);
  return rc;
}

static int32_t add_pass_call(tn_rewrite *r, const tn_rewrite_call *call,
                             tn_entry *out) {
  tn_entry made = TN_ENTRY_NONE;
  *out = made;
  TN__TRY(
      check_struct_size(r, call->struct_size, sizeof *call, "tn_rewrite_call"));
  TN__TRY(check_text(r, call->op, "tn_rewrite_call.op"));
  TN__TRY(store_failure(r, add_call(r, call, &made)));
  r->changed = true;
  *out = made;
  return TN_OK;
}

/* Checks a redirection of `from` to `to`: if a node changes `from` as a state,
 * `to` must be a variable. */
static tn_code check_redirected_states(const tn_rewrite *r, tn_entry from,
                                       tn_entry to) {
  if (tn__node_at(r->graph, to.node)->kind == TN__NODE_VARIABLE) return TN_OK;
  for (uint32_t u = r->first[tn__entry_id(r->graph, from)]; u != TN_NONE;
       u = r->uses[u].next) {
    const tn__entry_use *use = &r->uses[u];
    if (use->node == TN_NONE || use->node == to.node) continue;
    const tn__node *node = tn__node_at(r->graph, use->node);
    if (use->slot >= node->n_in && tn__entry_is_same(node->in[use->slot], from))
      return tn__fail(TN_INVALID,
                      "node `%s` changes `%s`: only a variable can be changed, "
                      "and `%s` is none",
                      node->name, tn__node_at(r->graph, from.node)->name,
                      tn__node_at(r->graph, to.node)->name);
  }
  return TN_OK;
}

static tn_code check_redirect(const tn_rewrite *r, tn_entry from, tn_entry to) {
  TN__TRY(tn__entry_check(r->graph, from, "the redirected entry"));
  if (tn__entry_is_none(to))
    return tn__fail(TN_INVALID,
                    "node `%s` would have no readers: name the entry "
                    "that replaces it",
                    tn__node_at(r->graph, from.node)->name);
  TN__TRY(tn__entry_check(r->graph, to, "the entry that replaces it"));
  return check_redirected_states(r, from, to);
}

/* Moves the uses of `from` to the list of `to`, except uses by the node that
 * makes `to`. The list of `from` keeps them as former uses. */
static void move_uses(tn_rewrite *r, tn_entry from, tn_entry to) {
  uint32_t *link = &r->first[tn__entry_id(r->graph, from)];
  uint32_t *target = &r->first[tn__entry_id(r->graph, to)];
  while (*link != TN_NONE) {
    const uint32_t at = *link;
    tn__entry_use *use = &r->uses[at];
    tn_entry *entry = get_use_entry(r, use);
    if (use->node == to.node || !tn__entry_is_same(*entry, from)) {
      link = &use->next;
      continue;
    }
    *entry = to;
    *link = use->next;
    use->next = *target;
    *target = at;
  }
}

static int32_t redirect_entry(tn_rewrite *r, tn_entry from, tn_entry to) {
  TN__TRY(store_failure(r, check_redirect(r, from, to)));
  if (tn__entry_is_same(from, to)) return TN_OK;
  move_uses(r, from, to);
  r->changed = true;
  return TN_OK;
}

static tn_code rewire_input(tn_rewrite *r, uint32_t id, uint32_t input,
                            tn_entry to) {
  TN__TRY(check_node(r, id));
  TN__TRY(tn__entry_check(r->graph, to, "the input"));
  tn__node *node = tn__node_at(r->graph, id);
  if (input >= node->n_in || tn__entry_is_none(node->in[input]))
    return tn__fail(TN_INVALID, "node `%s` reads no input %u, but has %u",
                    node->name, input, node->n_in);
  TN__TRY(reserve_uses(r, 1));
  node->in[input] = to;
  add_use(r, to, id, input);
  r->changed = true;
  return TN_OK;
}

static int32_t rewire_pass_input(tn_rewrite *r, uint32_t id, uint32_t input,
                                 tn_entry to) {
  return store_failure(r, rewire_input(r, id, input, to));
}

const tn_passes tn__passes_table = {.struct_size = sizeof(tn_passes),
                                    .add = tn__pass_add,
                                    .fail = set_pass_failure,
                                    .n_nodes = count_nodes,
                                    .node = describe_node,
                                    .params = print_node_params,
                                    .find = find_node,
                                    .n_heads = count_heads,
                                    .head = get_head,
                                    .sig = describe_sig,
                                    .attribute = get_attribute,
                                    .attribute_set = set_attribute,
                                    .call = add_pass_call,
                                    .redirect = redirect_entry,
                                    .rewire = rewire_pass_input,
                                    .add_pair = tn__fused_pair_add};

/* --------------------------------------------------------------------- run
 */

static tn_code mark_needed(tn_rewrite *r) {
  const tn_graph *graph = r->graph;
  tn__order order;
  r->needed = tn__zalloc(graph->env, r->n_old + 1u);
  if (!r->needed) return tn__fail_memory(r->n_old, "a pass");
  TN__TRY(tn__order_make(graph, graph->heads, graph->n_heads, &order));
  for (uint32_t i = 0; i < order.n; ++i) r->needed[order.ids[i]] = 1;
  tn__free(graph->env, order.ids);
  return TN_OK;
}

static tn_code keep_heads(tn_rewrite *r) {
  const tn_graph *graph = r->graph;
  const size_t bytes = (graph->n_heads + 1) * sizeof *r->heads;
  r->heads = tn__alloc(graph->env, bytes);
  if (!r->heads) return tn__fail_memory(bytes, "a pass");
  for (size_t i = 0; i < graph->n_heads; ++i)
    TN__TRY(tn__graph_sig(graph, graph->heads[i], &r->heads[i]));
  TN__TRY(reserve_uses(r, graph->n_heads));
  TN__TRY(reserve_first(r));
  for (uint32_t i = 0; i < graph->n_heads; ++i)
    add_use(r, graph->heads[i], TN_NONE, i);
  return TN_OK;
}

static tn_code begin_rewrite(tn_rewrite *r) {
  r->n_old = tn__n_nodes(r->graph);
  TN__TRY(tn__graph_check_complete(r->graph, &r->complete));
  TN__TRY(mark_needed(r));
  TN__TRY(keep_heads(r));
  for (uint32_t id = 0; id < r->n_old; ++id)
    TN__TRY(add_node_uses(r, tn__node_at(r->graph, id)));
  return tn__graph_list_known(r->graph, &r->known, &r->n_known);
}

static void end_rewrite(tn_rewrite *r) {
  const tn__env *env = r->graph->env;
  tn__free(env, r->needed);
  tn__free(env, r->heads);
  tn__free(env, r->known);
  tn__free(env, r->uses);
  tn__free(env, r->first);
}

static tn_code run_plugin_pass(tn_rewrite *r, const tn__pass *pass) {
  fenv_t floating;
  (void)fegetenv(&floating);
  tn_code rc = pass->desc->run(pass->desc->ctx, r);
  (void)fesetenv(&floating);
  if (rc == TN_OK) return TN_OK;
  if (rc > 0 || rc < TN_INTERNAL) rc = TN_PLUGIN;
  return tn__fail(rc, "%s", r->text[0] ? r->text : "it gave no reason");
}

tn_code tn__rewrite_run(tn_graph *graph, const tn__pass *pass) {
  tn_rewrite r = {.graph = graph};
  tn_code rc = begin_rewrite(&r);
  if (rc == TN_OK) {
    rc = run_plugin_pass(&r, pass);
    if (rc == TN_OK && r.changed) rc = tn__rewrite_finish(&r);
    if (rc != TN_OK) {
      (void)snprintf(r.text, sizeof r.text, "%s", tn_error_text());
      (void)tn__fail(rc, "the pass %s of the plugin \"%s\" (%s): %s",
                     pass->name, pass->plugin->entry->name, pass->plugin->path,
                     r.text);
    }
  }
  end_rewrite(&r);
  return rc;
}
