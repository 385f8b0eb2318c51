/* SPDX-License-Identifier: Apache-2.0
 * passes.c: finds the passes of a list of names: built-in ones, and those of
 * plugins. Before the first one runs, it checks that each pass will have the
 * facts that it needs.
 */
#include "passes.h"

#include <string.h>

#include "facts.h"

/* ------------------------------------------------------------------- tables */

enum { /* facts that the library knows */
       SHAPES = 1u << 0,
       DTYPES = 1u << 1,
       GRADIENT = 1u << 2,
       FLAT = 1u << 3
};

static const char *const facts[] = {"shapes", "dtypes", "gradient", "flat"};
enum { N_FACTS = sizeof facts / sizeof facts[0] };

struct tn__builtin_pass {
  const char *name;
  const char *doc;
  const char *const *needs;
  const char *const *provides;
  uint32_t n_needs;
  uint32_t n_provides;
  tn_code (*run)(tn_graph **graph); /* NULL: only programs run it */
};

static tn_code run_infer(tn_graph **graph) {
  return tn__graph_infer_more(*graph);
}

static bool is_flat_graph(const tn_graph *graph) {
  for (uint32_t id = 0; id < tn__n_nodes(graph); ++id)
    if (tn__node_at(graph, id)->kind == TN__NODE_GRAPH) return false;
  return true;
}

static tn_code run_flatten(tn_graph **graph) {
  if (is_flat_graph(*graph)) return TN_OK;
  tn_graph *flat = NULL;
  tn_known *known = NULL;
  size_t n = 0;
  TN__TRY(tn__graph_list_known(*graph, &known, &n));
  const bool inferred = ((*graph)->facts & TN__FACT_SHAPES) != 0;
  tn_code rc = tn__graph_flatten(*graph, &flat);
  if (rc == TN_OK && inferred) rc = tn__graph_infer(flat, known, n);
  tn__free((*graph)->env, known);
  if (rc != TN_OK && rc != TN_INCOMPLETE) {
    tn__graph_release(flat);
    return rc;
  }
  tn__graph_release(*graph);
  *graph = flat;
  return TN_OK;
}

static const struct tn__builtin_pass own[] = {
    {"infer", "shapes and element types, to a fixed point", NULL, facts, 0, 2,
     run_infer},
    {"flatten", "replaces graphs that are nodes by their nodes", NULL,
     facts + 3, 0, 1, run_flatten},
    {"gradient", "the backward part of a program", facts, facts + 2, 2, 1,
     NULL}};
enum { N_OWN = sizeof own / sizeof own[0] };

/* -------------------------------------------------------------------- names */

static const char *get_pass_name(const tn__pass_use *use) {
  return use->own ? use->own->name : use->pass->name;
}

/* Fails because no pass has this name; the message lists the existing passes
 * and the nearest name. */
static tn_code fail_unknown_pass(const tn__caller *caller, const char *name) {
  enum { MOST = 64 };
  tn__pass *held[MOST];
  const char *names[MOST + N_OWN];
  size_t n = 0, n_held = 0;
  (void)tn__fail(TN_NOT_FOUND, "there is no pass `%.100s` (known:", name);
  for (; n < N_OWN; ++n) names[n] = own[n].name;
  while (n_held < MOST &&
         (held[n_held] = tn__pass_hold_at(caller->registry, n_held)) != NULL)
    names[n++] = held[n_held++]->name;
  for (size_t i = 0; i < n; ++i)
    (void)tn__fail_more(TN_NOT_FOUND, "%s %s", i > 0 ? "," : "", names[i]);
  const char *nearest = tn__find_nearest_word(name, names, n);
  if (nearest)
    (void)tn__fail_more(TN_NOT_FOUND, "); did you mean `%s`?", nearest);
  else
    (void)tn__fail_more(TN_NOT_FOUND, ")");
  while (n_held > 0) tn__pass_unhold(held[--n_held]);
  return TN_NOT_FOUND;
}

static tn_code find_pass(const tn__caller *caller, const char *name,
                         tn__pass_use *out) {
  for (size_t i = 0; i < N_OWN; ++i)
    if (strcmp(own[i].name, name) == 0) out->own = &own[i];
  if (out->own) return TN_OK;
  out->pass = tn__pass_hold(caller->registry, name);
  return out->pass ? TN_OK : fail_unknown_pass(caller, name);
}

tn_code tn__pass_list_open(tn__pass_list *list, tn__caller *caller,
                           const char *const *names, size_t n) {
  const size_t bytes = (n + 1) * sizeof *list->v;
  *list = (tn__pass_list){.caller = caller, .gradient = n};
  list->v = tn__zalloc(caller->env, bytes);
  if (!list->v) return tn__fail_memory(bytes, "a list of passes");
  for (size_t i = 0; i < n; ++i) {
    TN__TRY(find_pass(caller, names[i], &list->v[i]));
    ++list->n;
    const bool gradient = list->v[i].own && !list->v[i].own->run;
    if (gradient && list->gradient < n)
      return tn__fail(TN_INVALID, "the pass %s is in the list twice", names[i]);
    if (gradient) list->gradient = i;
  }
  return TN_OK;
}

void tn__pass_list_close(tn__pass_list *list) {
  for (size_t i = 0; i < list->n; ++i) tn__pass_unhold(list->v[i].pass);
  tn__free(list->caller->env, list->v);
  *list = (tn__pass_list){.caller = list->caller};
}

/* -------------------------------------------------------------------- facts */

tn_code tn__graph_check_complete(const tn_graph *graph, bool *out) {
  *out = false;
  if (!(graph->facts & TN__FACT_SHAPES) || graph->n_sigs < graph->n_entries)
    return TN_OK;
  const tn_code rc = tn__facts_check_complete(graph);
  *out = rc == TN_OK;
  return rc == TN_INCOMPLETE ? TN_OK : rc;
}

/* Finds the facts that hold for a graph before any pass: all shapes and types
 * are known, it is flat, it has gradients. */
static tn_code get_graph_facts(const tn_graph *graph, uint32_t *out) {
  bool complete = false;
  TN__TRY(tn__graph_check_complete(graph, &complete));
  *out = (complete ? SHAPES | DTYPES : 0) | (is_flat_graph(graph) ? FLAT : 0);
  for (uint32_t id = 0; id < tn__n_nodes(graph); ++id)
    if (tn__node_at(graph, id)->flags & TN__NODE_GRADIENT) *out |= GRADIENT;
  return TN_OK;
}

static bool is_listed(const char *fact, const char *const *list, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i)
    if (strcmp(list[i], fact) == 0) return true;
  return false;
}

static bool provides_fact(const tn__pass_use *use, const char *fact) {
  if (use->own)
    return is_listed(fact, use->own->provides, use->own->n_provides);
  return is_listed(fact, use->pass->desc->provides,
                   use->pass->desc->n_provides);
}

static bool has_fact(uint32_t set, const char *fact) {
  for (uint32_t i = 0; i < N_FACTS; ++i)
    if (strcmp(facts[i], fact) == 0) return (set >> i & 1) != 0;
  return false;
}

/* Adds the passes that provide the fact to the message. */
static tn_code add_providers_text(const tn__pass_list *list, const char *fact) {
  const char *found = NULL;
  tn__pass *pass = NULL;
  for (size_t i = 0; i < N_OWN; ++i)
    if (is_listed(fact, own[i].provides, own[i].n_provides))
      found = own[i].name;
  for (size_t i = 0; !found; ++i) {
    pass = tn__pass_hold_at(list->caller->registry, i);
    if (!pass) break;
    if (is_listed(fact, pass->desc->provides, pass->desc->n_provides)) break;
    tn__pass_unhold(pass);
  }
  if (pass) found = pass->name;
  if (found)
    (void)tn__fail_more(TN_INVALID,
                        "; the pass %s provides it, and has to "
                        "come before",
                        found);
  else
    (void)tn__fail_more(TN_INVALID, ", and no pass that is loaded provides it");
  tn__pass_unhold(pass);
  return TN_INVALID;
}

/* Fails unless each fact that pass `at` needs is in `set` or provided by an
 * earlier pass. */
static tn_code check_needs(const tn__pass_list *list, size_t at, uint32_t set) {
  const tn__pass_use *use = &list->v[at];
  const char *const *needs =
      use->own ? use->own->needs : use->pass->desc->needs;
  const uint32_t n = use->own ? use->own->n_needs : use->pass->desc->n_needs;
  for (uint32_t k = 0; k < n; ++k) {
    bool found = has_fact(set, needs[k]);
    for (size_t i = 0; !found && i < at; ++i)
      found = provides_fact(&list->v[i], needs[k]);
    if (found) continue;
    (void)tn__fail(TN_INVALID, "the pass %s needs `%.100s`, which is not there",
                   get_pass_name(use), needs[k]);
    return add_providers_text(list, needs[k]);
  }
  return TN_OK;
}

tn_code tn__pass_list_check(const tn__pass_list *list, const tn_graph *graph) {
  uint32_t set = 0;
  TN__TRY(get_graph_facts(graph, &set));
  for (size_t i = 0; i < list->n; ++i) TN__TRY(check_needs(list, i, set));
  return TN_OK;
}

/* --------------------------------------------------------------------- runs
 */

static tn_code run_plugins(tn_graph *graph, const tn__pass *pass) {
  TN__TRY(tn__pass_run_inner(graph, pass));
  return tn__rewrite_run(graph, pass);
}

tn_code tn__pass_list_run(const tn__pass_list *list, size_t first, size_t end,
                          tn_graph **graph) {
  for (size_t i = first; i < end; ++i) {
    const tn__pass_use *use = &list->v[i];
    const uint32_t before = tn__n_nodes(*graph);
    TN__TRY(use->own ? use->own->run(graph) : run_plugins(*graph, use->pass));
    tn__log((*graph)->env, TN__LOG_GRAPH, TN_LOG_DEBUG,
            "pass %s changed a graph of %u nodes to %u", get_pass_name(use),
            before, tn__n_nodes(*graph));
  }
  return TN_OK;
}

tn_code tn__graph_list_known(const tn_graph *graph, tn_known **out, size_t *n) {
  const size_t bytes = (tn__n_nodes(graph) + 1u) * sizeof **out;
  *n = 0;
  *out = tn__alloc(graph->env, bytes);
  if (!*out) return tn__fail_memory(bytes, "the facts about a graph");
  for (uint32_t id = 0; id < tn__n_nodes(graph); ++id) {
    const tn__node *node = tn__node_at(graph, id);
    if (node->kind != TN__NODE_VARIABLE || node->first >= graph->n_sigs)
      continue;
    (*out)[(*n)++] = (tn_known){node->name, graph->sigs[node->first]};
  }
  return TN_OK;
}

/* Copies a graph, with the facts about its variables. */
static tn_code copy_graph_with_facts(const tn_graph *graph, tn_graph **out) {
  tn_known *known = NULL;
  size_t n = 0;
  TN__TRY(tn__graph_copy(graph, out));
  if (!(graph->facts & TN__FACT_SHAPES)) return TN_OK;
  TN__TRY(tn__graph_list_known(graph, &known, &n));
  const tn_code rc = tn__graph_infer(*out, known, n);
  tn__free(graph->env, known);
  return rc == TN_INCOMPLETE ? TN_OK : rc;
}

static tn_code apply_list(const tn__pass_list *list, const tn_graph *graph,
                          tn_graph **work) {
  if (list->gradient < list->n)
    return tn__fail(TN_UNSUPPORTED,
                    "the pass gradient is one of programs (tn_bind.passes); "
                    "tn_graph_gradient adds gradients to a graph");
  TN__TRY(copy_graph_with_facts(graph, work));
  TN__TRY(tn__pass_list_check(list, *work));
  return tn__pass_list_run(list, 0, list->n, work);
}

tn_code tn__graph_apply(const tn_graph *graph, const char *const *passes,
                        size_t n, tn_graph **out) {
  tn__pass_list list;
  tn_graph *work = NULL;
  *out = NULL;
  tn_code rc = tn__pass_list_open(&list, graph->caller, passes, n);
  if (rc == TN_OK) rc = apply_list(&list, graph, &work);
  tn__pass_list_close(&list);
  if (rc == TN_OK)
    *out = work;
  else
    tn__graph_release(work);
  return rc;
}

/* ------------------------------------------------------------------- lists */

tn_code tn__pass_at(tn__registry *registry, size_t index, tn_pass_info *out) {
  const uint32_t size = out->struct_size;
  *out = (tn_pass_info){.struct_size = size};
  if (index < N_OWN) {
    const struct tn__builtin_pass *p = &own[index];
    *out = (tn_pass_info){size, p->n_needs, p->n_provides, 0,          p->name,
                          NULL, p->doc,     p->needs,      p->provides};
    return TN_OK;
  }
  tn__pass *pass = tn__pass_hold_at(registry, index - N_OWN);
  if (!pass)
    return tn__fail(TN_NOT_FOUND, "the list of passes ends before %zu", index);
  const tn_pass *p = pass->desc;
  *out = (tn_pass_info){size,   p->n_needs, p->n_provides,
                        0,      pass->name, pass->plugin->entry->name,
                        p->doc, p->needs,   p->provides};
  tn__pass_unhold(pass);
  return TN_OK;
}
