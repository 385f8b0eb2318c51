/* SPDX-License-Identifier: Apache-2.0
 * program_bind.c: makes a program of a graph: calls the stations of stations.h
 * and of core/program in order.
 */
#include <inttypes.h>
#include <string.h>

#include "stations.h"

static tn_code fail_memory(size_t bytes) {
  return tn__fail_memory(bytes, "a program");
}

/* Copies the user's graph, and makes a flat copy of it. */
static tn_code copy_graph(const tn_graph *graph, tn_graph **copy,
                          tn_graph **flat) {
  if (graph->n_heads == 0)
    return tn__fail(TN_INVALID,
                    "the graph has no heads, so there is nothing to compute; "
                    "name them with tn_graph_heads_set");
  TN__TRY(tn__graph_copy(graph, copy));
  return tn__graph_flatten(graph, flat);
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

static tn_code list_all_visible_arrays(tn_program *p) {
  TN__TRY(list_visible_arrays(p, &p->seen[0], 0, p->n_forward));
  return list_visible_arrays(p, &p->seen[1], p->n_forward,
                             p->n_steps - p->n_forward);
}

static tn_code check_options(const tn_bind *how, const tn_graph *graph) {
  TN__TRY(tn__bind_request_check(how->request, "tn_bind.request"));
  if (how->plan > TN_PLAN_NONE)
    return tn__fail(TN_INVALID, "tn_bind.plan: there is no plan %u", how->plan);
  if (how->n_outputs > graph->n_heads)
    return tn__fail(TN_INVALID, "%zu outputs were given for %zu heads",
                    how->n_outputs, (size_t)graph->n_heads);
  return TN_OK;
}

/* Copies the user's groups, because tn_program_reshape binds with the same
 * groups again. */
static tn_code keep_groups(const tn_bind *how, tn_program *p) {
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

/* Infers shapes and types, unless passes have needed them before. */
static tn_code infer_graph(const tn__pass_list *passes,
                           const tn__user_options *options, tn_graph *graph) {
  return passes->n > 0
             ? tn__graph_infer_more(graph)
             : tn__graph_infer(graph, options->known, options->n_known);
}

/* Calls the stations in order. Each makes or changes its last parameter and
 * reads the others. The stations of the steps and of memory change the program:
 * p->steps and p->values, then p->memory. */
static tn_code run_stations(const tn_graph *graph, const tn_bind *how,
                            tn__pass_list *passes, tn_program *p) {
  tn__arena *arena = &p->arena;
  tn__arguments *arguments = &p->arguments;
  tn__heads *heads = &p->heads;
  tn__user_options options;
  tn__requests requests;

  /* the graph: a flat copy with the nodes of gradients and of copies */
  TN__TRY(check_options(how, graph));
  TN__TRY(copy_graph(graph, &p->source, &p->graph));
  TN__TRY(tn__bind_find_arguments(graph, p->graph, how, arena, arguments));
  TN__TRY(tn__bind_read_options(p->graph, arguments, how, arena, &options));
  TN__TRY(tn__bind_list_heads(p->graph, how, arena, heads));
  TN__TRY(tn__bind_list_gradients(arguments, heads, arena, &p->gradients));
  TN__TRY(tn__bind_passes_before(passes, &options, p));
  TN__TRY(tn__bind_copy_heads(arguments, &options, p->graph, heads));
  TN__TRY(tn__graph_heads_set(p->graph, heads->v, heads->n));
  TN__TRY(tn__placement_label(p));
  TN__TRY(infer_graph(passes, &options, p->graph));
  TN__TRY(
      tn__bind_find_requests(p->graph, arguments, &options, arena, &requests));
  TN__TRY(tn__bind_results_check(p->graph, arguments, &options, &requests));
  TN__TRY(tn__bind_gradients(&requests, p));
  TN__TRY(tn__bind_passes_after(passes, &options, &requests, p));
  TN__TRY(tn__placement_make(&requests, p));

  /* the steps: an array for each entry, a kernel for each step */
  TN__TRY(tn__steps_make(p, p->gradients.v, arguments->n));
  TN__TRY(tn__bind_set_arguments(&options, &requests, p));
  TN__TRY(tn__bind_init_states(&options, p));
  TN__TRY(tn__bind_set_outputs(how, p));
  TN__TRY(tn__bind_set_output_gradients(p));
  TN__TRY(tn__arrays_make(p));
  TN__TRY(tn__device_steps_check(p));
  TN__TRY(tn__steps_choose(p));
  TN__TRY(tn__steps_recompute(p, how));
  TN__TRY(tn__steps_pair(p));
  TN__TRY(tn__steps_fuse(p));

  /* the memory, and with it all that a run needs */
  TN__TRY(tn__program_alloc_memory(p, how));
  TN__TRY(tn__bind_loops(p));
  for (uint32_t i = 0; i < p->n_steps; ++i) tn__step_set_run(p->steps[i]);
  return list_all_visible_arrays(p);
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
  tn__pass_list passes = {0};
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
    rc = tn__pass_list_open(&passes, p->caller, how->passes, how->n_passes);
  if (rc == TN_OK) rc = keep_groups(how, p);
  if (rc == TN_OK) rc = tn__bind_passes_keep(how, p);
  if (rc == TN_OK) rc = run_stations(graph, &choice, &passes, p);
  if (passes.caller) tn__pass_list_close(&passes);
  *over = rc == TN_OUT_OF_MEMORY ? compute_excess(p) : 0;
  if (rc != TN_OK)
    tn__program_release(p);
  else
    *out = p;
  return rc;
}

static void log_program(const tn_program *p) {
  tn__log(p->env, TN__LOG_PROGRAM, TN_LOG_DEBUG,
          "bound %u nodes as %u steps, %u of them forward; arrays in %zu bytes "
          "(lower bound %zu)",
          tn__n_nodes(p->graph), p->n_steps, p->n_forward,
          p->memory.planned ? tn__memory_plan_bytes(&p->memory.plan) : 0,
          p->memory.planned ? tn__memory_plan_lower_bound(&p->memory.plan) : 0);
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
    if (rc == TN_OK) log_program(*out);
    if (over == 0 || memory == TN_MEMORY_MINIMAL) return rc;
    tn__log(graph->env, TN__LOG_PROGRAM, TN_LOG_DEBUG,
            "the plan is %" PRIu64
            " bytes above the limit; binding again with "
            "more recomputed steps",
            over);
    memory = get_next_limit(how, memory, over, left);
  }
}
