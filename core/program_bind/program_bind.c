/* SPDX-License-Identifier: Apache-2.0
 * program_bind.c: makes a program of a graph: calls the stations of program.h
 * in order.
 */
#include <string.h>

#include "binding.h"

static tn_code fail_memory(size_t bytes) {
  return tn__fail_memory(bytes, "a program");
}

/* The state of listing the arguments of a program: variables of the user's
 * graph. */
typedef struct argument_search {
  tn_program *p;
  const tn_graph *graph;
  uint8_t *listed; /* for each node of `graph`: 1 if the list has it already */
  uint32_t n;
} argument_search;

static void add_argument(argument_search *f, const tn__node *variable) {
  const tn__node *node = tn__map_get(&f->p->graph->names, variable->name);
  if (f->listed[variable->id]) return;
  f->listed[variable->id] = 1;
  f->p->arguments.v[f->n++] = (tn_entry){node->id, 0};
}

/* Adds variables that no head needs, but for which the user passes options. The
 * call that a gradient belongs to may need their shapes. */
static void add_unneeded_arguments(argument_search *f, const tn_bind *how,
                                   bool states) {
  for (size_t i = 0; i < how->n_arguments; ++i) {
    const tn__node *node =
        tn__map_get(&f->graph->names, how->arguments[i].name);
    if (node && node->kind == TN__NODE_VARIABLE &&
        ((node->flags & TN__NODE_STATE) != 0) == states)
      add_argument(f, node);
  }
}

/* Lists the arguments and states of the user's graph in its order. The flat
 * graph may need fewer of them, in another order. */
static tn_code find_arguments(const tn__binding *b, const tn_graph *graph) {
  tn_program *p = b->p;
  const tn_entry *v = NULL;
  uint32_t n_arguments = 0, n_states = 0;
  TN__TRY(tn__graph_variables((tn_graph *)(uintptr_t)graph, /* cached in the
                                                               graph */
                              &v, &n_arguments, &n_states));
  const size_t most = n_arguments + n_states + b->how->n_arguments + 1;
  argument_search f = {.p = p, .graph = graph};
  f.listed = tn__arena_alloc(&p->arena, tn__n_nodes(graph) + (size_t)1);
  p->arguments.v = tn__arena_alloc(&p->arena, most * sizeof *p->arguments.v);
  if (p->arena.failed) return fail_memory(most * sizeof *p->arguments.v);
  for (uint32_t i = 0; i < n_arguments; ++i)
    add_argument(&f, tn__node_at(graph, v[i].node));
  add_unneeded_arguments(&f, b->how, false);
  p->arguments.n = f.n;
  for (uint32_t i = n_arguments; i < n_arguments + n_states; ++i)
    add_argument(&f, tn__node_at(graph, v[i].node));
  add_unneeded_arguments(&f, b->how, true);
  p->arguments.n_states = f.n - p->arguments.n;
  return TN_OK;
}

static tn_code begin_binding(tn__binding *b, const tn_graph *graph) {
  tn_program *p = b->p;
  if (graph->n_heads == 0)
    return tn__fail(TN_INVALID,
                    "the graph has no heads, so there is nothing to compute; "
                    "name them with tn_graph_heads_set");
  TN__TRY(tn__graph_copy(graph, &p->source));
  TN__TRY(tn__graph_flatten(graph, &p->graph));
  TN__TRY(find_arguments(b, graph));
  p->heads.v =
      tn__arena_alloc(&p->arena, (graph->n_heads + 1) * sizeof(tn_entry));
  if (p->arena.failed) return fail_memory(graph->n_heads * sizeof(tn_entry));
  p->heads.n = (uint32_t)graph->n_heads;
  memcpy(p->heads.v, p->graph->heads, graph->n_heads * sizeof *p->heads.v);
  return tn__bind_alloc_lists(b);
}

/* Lists the arrays that users can read. The program counts its writes to them,
 * so that a tape that watches them notices the writes. */
static tn_code list_visible_arrays(tn_program *p, tn__visible_arrays *to,
                                   uint32_t first, uint32_t n) {
  uint32_t most = 0;
  for (uint32_t i = first; i < first + n; ++i) most += p->steps[i]->n_out;
  to->arrays = tn__arena_alloc(&p->arena, (most + 1u) * sizeof(tn_array *));
  if (!to->arrays) return fail_memory(most * sizeof(tn_array *));
  for (uint32_t i = first; i < first + n; ++i)
    for (uint32_t k = 0; k < p->steps[i]->n_out; ++k) {
      const tn__value *value = &p->values[p->steps[i]->out[k]];
      if (value->flags & (TN__ENTRY_EXTERNAL | TN__ENTRY_HEAD))
        to->arrays[to->n++] = value->array;
    }
  return TN_OK;
}

static tn_code check_options(const tn_bind *how, const tn_graph *graph) {
  TN__TRY(tn__bind_request_check(how->request, "tn_bind.request"));
  if (how->plan > TN_PLAN_COMPAT_SHARE)
    return tn__fail(TN_INVALID, "tn_bind.plan: there is no plan %u", how->plan);
  if (how->n_outputs > graph->n_heads)
    return tn__fail(TN_INVALID, "%zu outputs were given for %zu heads",
                    how->n_outputs, (size_t)graph->n_heads);
  return TN_OK;
}

/* Copies the user's groups, because tn_program_reshape binds with the same
 * groups again. */
static tn_code keep_groups(tn_program *p, const tn_bind *how) {
  const size_t bytes = how->n_groups * sizeof(tn_group);
  tn_group *groups = tn__arena_alloc(&p->arena, bytes + 1);
  for (size_t i = 0; groups && i < how->n_groups; ++i) {
    const char *name = how->groups[i].name;
    groups[i] = how->groups[i];
    groups[i].name = tn__arena_text(&p->arena, name, strlen(name));
  }
  if (p->arena.failed) return fail_memory(bytes);
  p->how.groups = groups;
  p->how.n_groups = how->n_groups;
  return TN_OK;
}

static tn_code run_stations(tn__binding *b, const tn_graph *graph) {
  tn_program *p = b->p;
  TN__TRY(keep_groups(p, b->how));
  TN__TRY(check_options(b->how, graph));
  TN__TRY(tn__bind_passes_keep(p, b->how));
  TN__TRY(begin_binding(b, graph));
  for (size_t i = 0; i < b->how->n_arguments; ++i)
    TN__TRY(tn__bind_add_argument(b, &b->how->arguments[i]));
  TN__TRY(tn__bind_passes_before(b));
  TN__TRY(tn__bind_copy_heads(b));
  TN__TRY(tn__bind_mark_late(b));
  TN__TRY(tn__graph_heads_set(p->graph, p->heads.v, p->heads.n));
  TN__TRY(tn__placement_label(p));
  TN__TRY(b->passes.n > 0 ? tn__graph_infer_more(p->graph)
                          : tn__graph_infer(p->graph, b->known, b->n_known));
  TN__TRY(tn__bind_results_check(b));
  TN__TRY(tn__bind_gradients(b));
  TN__TRY(tn__bind_passes_after(b));
  TN__TRY(tn__placement_make(b));
  TN__TRY(tn__steps_make(p, p->gradients.v, p->arguments.n));
  TN__TRY(tn__bind_set_arguments(b));
  TN__TRY(tn__bind_init_states(b));
  TN__TRY(tn__bind_set_outputs(b));
  TN__TRY(tn__bind_set_output_gradients(p));
  TN__TRY(tn__arrays_make(p));
  TN__TRY(tn__device_steps_check(p));
  TN__TRY(tn__steps_choose(p));
  TN__TRY(tn__steps_recompute(p, b->how));
  TN__TRY(tn__steps_pair(p));
  TN__TRY(tn__steps_fuse(p));
  TN__TRY(tn__program_alloc_memory(p, b->how));
  TN__TRY(tn__bind_loops(p));
  for (uint32_t i = 0; i < p->n_steps; ++i) tn__step_set_run(p->steps[i]);
  TN__TRY(list_visible_arrays(p, &p->seen[0], 0, p->n_forward));
  return list_visible_arrays(p, &p->seen[1], p->n_forward,
                             p->n_steps - p->n_forward);
}

static tn_code find_device(tn_program *p, const tn_bind *how) {
  if (how->place.device_type == 0) {
    p->placement.device = p->env->cpu;
    return TN_OK;
  }
  return tn__device_find(p->env->cpu->devices, how->place.device_type,
                         how->place.device_id, &p->placement.device);
}

/* Number of bytes by which the memory plan exceeds the user's limit; 0 if
 * another choice of recomputed steps cannot help. The choice is made before
 * steps are fused, so its estimate may be too low or too high. */
static uint64_t compute_excess(const tn_program *p) {
  if (!p->memory.planned || p->memory.least ||
      (p->how.flags & TN_BIND_NO_FUSE) != 0 || p->n_forward == p->n_steps ||
      p->how.memory <= TN_MEMORY_MINIMAL)
    return 0;
  const uint64_t bytes = tn__memory_plan_bytes(&p->memory.plan);
  return bytes > p->how.memory ? bytes - p->how.memory : 0;
}

/* Binds the graph once, with recomputed steps for a limit of `memory` bytes; 0:
 * no limit. *over becomes the number of bytes above the user's limit. */
static tn_code bind_with_limit(const tn_graph *graph, const tn_bind *how,
                               uint64_t memory, uint64_t *over,
                               tn_program **out) {
  tn_program *p = tn__zalloc(graph->env, sizeof *p);
  tn_bind choice = *how;
  if (!p) return fail_memory(sizeof *p);
  choice.memory = memory;
  tn__binding b = {.p = p, .how = &choice};
  p->caller = graph->caller;
  p->env = graph->env;
  p->how = (tn_bind){.struct_size = sizeof p->how,
                     .flags = how->flags,
                     .plan = how->plan,
                     .request = how->request,
                     .place = how->place,
                     .memory = how->memory};
  atomic_init(&p->n_holds, 1);
  tn__arena_init(&p->arena, p->env);
  tn__env_retain(p->env);
  tn_code rc = find_device(p, how);
  if (rc == TN_OK)
    rc = tn__pass_list_open(&b.passes, p->caller, how->passes, how->n_passes);
  if (rc == TN_OK) rc = run_stations(&b, graph);
  if (b.passes.caller) tn__pass_list_close(&b.passes);
  *over = rc == TN_OUT_OF_MEMORY ? compute_excess(p) : 0;
  if (rc != TN_OK)
    tn__program_release(p);
  else
    *out = p;
  return rc;
}

/* Returns the next limit to try, after the plan for the limit `memory` was
 * larger than the user's limit by `over` bytes. */
static uint64_t get_next_limit(const tn_bind *how, uint64_t memory,
                               uint64_t over, int left) {
  if (memory == 0) return how->memory;
  return left > 0 && over < memory ? memory - over : TN_MEMORY_MINIMAL;
}

tn_code tn__program_bind(const tn_graph *graph, const tn_bind *how,
                         tn_program **out) {
  enum { ATTEMPTS = 5 };
  const bool pair_refusal = (how->flags & TN_BIND_NO_FUSE) != 0;
  uint64_t memory = how->memory, over = 0;
  if (memory > TN_MEMORY_MINIMAL && !pair_refusal) memory = 0;
  *out = NULL;
  for (int left = ATTEMPTS - 2;; --left) {
    const tn_code rc = bind_with_limit(graph, how, memory, &over, out);
    if (over == 0 || memory == TN_MEMORY_MINIMAL) return rc;
    memory = get_next_limit(how, memory, over, left);
  }
}
