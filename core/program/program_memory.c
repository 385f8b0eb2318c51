/* SPDX-License-Identifier: Apache-2.0
 * program_memory.c: lets the planner choose the places of the entries of a
 * program, and allocates memory by its plan: one pool per device, with the
 * blocks of the entries as parts.
 */
#include <stdio.h>
#include <string.h>

#include "fused.h"

/* -------------------------------------------------------------------- pairs */

/* In-place and alias pairs of one step, for the planner. */
typedef struct pairs {
  tn__plan_pair *v;
  uint32_t n;
} pairs;

static void add_pair(pairs *to, const tn__step *step, uint32_t in, uint32_t out,
                     bool identity) {
  if (in >= step->n_in || step->in[in] == TN_NONE) return;
  if (step->shape_only && step->shape_only[in]) return;
  to->v[to->n++] = (tn__plan_pair){.in = in, .out = out, .identity = identity};
}

/* The in-place pairs of the kernel of a step, which is a call. */
static tn__pairs get_kernel_pairs(const tn_program *p, const tn__step *step) {
  const tn__node *node = step->node->kind == TN__NODE_BACKWARD
                             ? tn__node_at(p->graph, step->node->of)
                             : step->node;
  return (tn__pairs){step->info.kernel->desc,
                     step->joint ? step->joint->op->desc : node->desc,
                     node->n_in, node->n_out};
}

/* Adds to the list `to` the in-place pairs of the kernel of a step. */
static void add_kernel_pairs(pairs *to, const tn_program *p,
                             const tn__step *step) {
  const tn__pairs list = get_kernel_pairs(p, step);
  const uint32_t n = tn__pairs_count(&list);
  tn_inplace pair;
  for (uint32_t i = 0; i < n; ++i)
    if (tn__pairs_get(&list, i, &pair) && pair.out < step->n_out)
      add_pair(to, step, pair.in, pair.out, false);
}

/* Adds the alias pairs of a step: an output that equals an input, so that no
 * kernel must run. */
static void add_alias_pairs(pairs *to, const tn__step *step) {
  for (uint32_t i = 0; i < step->n_out; ++i)
    if (tn__step_find_alias(step, i) != TN_NONE)
      add_pair(to, step, tn__step_find_alias(step, i), i, true);
}

static void add_fused_pairs(pairs *to, const tn__step *step) {
  for (uint32_t o = 0; o < step->n_out; ++o)
    for (uint32_t i = 0; i < step->n_in; ++i)
      if (tn__fused_can_overwrite(step, i, o)) add_pair(to, step, i, o, false);
}

static size_t count_most_pairs(const tn_program *p, const tn__step *step) {
  if (step->kind == TN__STEP_FUSED) return (size_t)step->n_out * step->n_in + 2;
  if (step->kind != TN__STEP_CALL || !step->info.kernel)
    return step->n_out + (size_t)2;
  const tn__pairs list = get_kernel_pairs(p, step);
  return step->n_out + (size_t)tn__pairs_count(&list);
}

static tn_code list_pairs(tn_program *p, const tn__step *step, pairs *out) {
  const size_t most = count_most_pairs(p, step) + 1;
  out->v = tn__arena_alloc(&p->arena, most * sizeof *out->v);
  out->n = 0;
  if (!out->v) return tn__fail_memory(most * sizeof *out->v, "a memory plan");
  add_alias_pairs(out, step);
  if (step->kind == TN__STEP_FUSED) {
    add_fused_pairs(out, step);
  } else if (step->kind == TN__STEP_ADD) {
    add_pair(out, step, 0, 0, false);
    add_pair(out, step, 1, 0, false);
  } else if (step->kind == TN__STEP_COPY) {
    add_pair(out, step, 0, 0, true);
  } else if (step->kind == TN__STEP_CALL && step->info.kernel) {
    add_kernel_pairs(out, p, step);
  }
  return TN_OK;
}

/* Tests whether the writer of a sum's second term can add the term to the first
 * one, if the sum is used. A call that is not fused can, because the library
 * adds for its kernel; a copy from another device cannot. */
static bool can_add_to_first(const tn_program *p, const tn__step *sum) {
  const uint32_t writer = p->values[sum->in[1]].step;
  if (sum->shape_only) return false;
  if (writer == TN_NONE) return true;
  const tn__step *step = p->steps[writer];
  if (step->kind == TN__STEP_COPY) return !tn__step_crosses(step);
  if (step->kind != TN__STEP_FUSED) return true;
  for (uint32_t k = 0; k < step->n_parts; ++k)
    for (uint32_t i = 0; i < step->parts[k]->n_out; ++i)
      if (step->parts[k]->out[i] == sum->in[1])
        return (step->parts[k]->info.kernel->desc->writes & TN_WRITES_ADD) != 0;
  return true;
}

/* ---------------------------------------------------------------------- net */

void tn__plan_input_free(const tn_program *p, tn__plan_input *net) {
  tn__free(p->env, net->nodes);
  tn__free(p->env, net->entries);
}

static void fill_plan_entry(const tn_program *p, uint32_t entry,
                            tn__plan_entry *to) {
  const tn__value *value = &p->values[entry];
  const tn_tensor *t = &value->array->tensor;
  to->n_elements = tn_tensor_size(t);
  to->bytes = (size_t)tn_tensor_bytes(t);
  to->dtype = t->dtype;
  to->device = tn__device_number(p, value->device);
  to->flags = value->flags;
}

static tn_code fill_plan_node(tn_program *p, const tn__step *step,
                              uint32_t absent, tn__plan_node *to) {
  uint32_t *in = tn__arena_alloc(&p->arena, (step->n_in + 1u) * sizeof *in);
  bool *ignored =
      tn__arena_alloc(&p->arena, (step->n_in + 1u) * sizeof *ignored);
  pairs list;
  if (!in || !ignored)
    return tn__fail_memory(step->n_in * sizeof *in, "a memory plan");
  for (uint32_t i = 0; i < step->n_in; ++i) {
    const bool none = step->in[i] == TN_NONE;
    in[i] = none ? absent : p->values[step->in[i]].place;
    ignored[i] = none || (step->shape_only && step->shape_only[i]);
  }
  TN__TRY(list_pairs(p, step, &list));
  *to = (tn__plan_node){
      .first_out = step->n_out > 0 ? p->values[step->out[0]].place : 0,
      .n_out = step->n_out,
      .in = in,
      .n_in = step->n_in,
      .ignored = ignored,
      .pairs = list.v,
      .n_pairs = list.n,
      .workspace = step->info.workspace,
      .device = tn__device_number(p, step->device),
      .sum = step->kind == TN__STEP_ADD && can_add_to_first(p, step),
      .name = step->node->name};
  return TN_OK;
}

/* Gives the entries numbers for the planner, which needs consecutive numbers
 * for the outputs of a step. Returns the number of entries. */
static uint32_t number_entries(tn_program *p, tn__plan_entry *entries) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < p->n_values; ++i) p->values[i].place = TN_NONE;
  for (uint32_t i = 0; i < p->n_steps; ++i)
    for (uint32_t k = 0; k < p->steps[i]->n_out; ++k) {
      const uint32_t entry = p->steps[i]->out[k];
      fill_plan_entry(p, entry, &entries[n]);
      p->values[entry].place = n++;
    }
  for (uint32_t i = 0; i < p->n_steps; ++i)
    for (uint32_t k = 0; k < p->steps[i]->n_in; ++k) {
      const uint32_t entry = p->steps[i]->in[k];
      if (entry == TN_NONE || p->values[entry].place != TN_NONE) continue;
      fill_plan_entry(p, entry, &entries[n]);
      entries[n].flags |= TN__ENTRY_EXTERNAL;
      p->values[entry].place = n++;
    }
  return n;
}

/* Makes the input of the memory planner. Its last entry represents absent
 * operands; the memory of that entry is external. */
tn_code tn__plan_input_make(tn_program *p, tn__plan_input *net) {
  const size_t most = (size_t)p->n_values + 1;
  net->nodes = tn__zalloc(p->env, (p->n_steps + 1u) * sizeof *net->nodes);
  net->entries = tn__zalloc(p->env, most * sizeof *net->entries);
  if (!net->nodes || !net->entries)
    return tn__fail_memory(most * sizeof *net->entries, "a memory plan");
  const uint32_t n = number_entries(p, net->entries);
  net->entries[n].flags = TN__ENTRY_EXTERNAL;
  for (uint32_t i = 0; i < p->n_steps; ++i)
    TN__TRY(fill_plan_node(p, p->steps[i], n, &net->nodes[i]));
  net->net = (tn__plan_net){net->nodes, p->n_steps, net->entries, n + 1u};
  return TN_OK;
}

/* ------------------------------------------------------------------- places */

/* Makes the array of `entry` a view of the memory of `like`, which has the same
 * number of elements and type, but possibly another shape. */
static tn_code share_memory(tn_program *p, uint32_t entry, uint32_t like) {
  tn_array *old = p->values[entry].array, *from = p->values[like].array;
  const tn_tensor *t = &old->tensor;
  const tn__view view = {t->ndim, t->shape, t->strides, 0};
  tn_array *array = NULL;
  TN__TRY(tn__array_view(from, &view, &array));
  p->values[entry].array = array;
  tn__array_release(old);
  return TN_OK;
}

/* Finds the entry to which a term of a sum is added: the other term of the sum.
 */
static uint32_t find_other_term(const tn_program *p, uint32_t entry) {
  for (uint32_t i = p->values[entry].step + 1; i < p->n_steps; ++i) {
    const tn__step *step = p->steps[i];
    if (step->kind == TN__STEP_ADD && !step->shape_only && step->in[1] == entry)
      return step->in[0];
  }
  return TN_NONE;
}

static tn_code set_entry_memory(tn_program *p, uint32_t entry) {
  const tn__plan_place *place = tn__plan_place_of(p, entry);
  tn__value *value = &p->values[entry];
  if (place->storage == TN__STORAGE_EXTERNAL) return TN_OK;
  if (place->storage < 0) {
    value->request = TN_REQ_NULL;
    return TN_OK;
  }
  if (place->request == TN_REQ_ADD) {
    value->request = TN_REQ_ADD;
    return share_memory(p, entry, find_other_term(p, entry));
  }
  if (place->alias >= 0)
    return share_memory(p, entry, p->steps[value->step]->in[place->alias]);
  const tn__plan_storage *storage = &p->memory.plan.storages[place->storage];
  if (value->array->block->bytes == 0) return TN_OK;
  tn__block *pool = tn__pool_of(p, storage->device);
  tn__block_borrow(value->array->block, (char *)pool->data + storage->offset,
                   pool);
  return TN_OK;
}

int32_t tn__device_number(const tn_program *p, const tn__device *device) {
  int32_t i = 0;
  while (p->placement.devices[i] != device) ++i;
  return i;
}

tn__block *tn__pool_of(const tn_program *p, int32_t device) {
  for (size_t i = 0; i < p->memory.plan.n_pools; ++i)
    if (p->memory.plan.pools[i].device == device) return p->memory.pools[i];
  return NULL;
}

/* Returns the pool of the other program that shares its memory with this one,
 * if it is large enough; NULL otherwise. The two programs run one after the
 * other. */
static tn__block *find_shared_pool(const tn_program *p, const tn_bind *how,
                                   size_t i) {
  const tn_program *other = how->shared;
  const tn__device *device =
      p->placement.devices[p->memory.plan.pools[i].device];
  if (!other || other->env != p->env) return NULL;
  for (size_t k = 0; k < other->memory.plan.n_pools; ++k) {
    tn__block *pool = other->memory.pools[k];
    if (pool && pool->device == device &&
        pool->bytes >= p->memory.plan.pools[i].bytes)
      return pool;
  }
  return NULL;
}

static tn_code fail_pool(const tn_program *p, const tn_bind *how, tn_code rc) {
  const bool may_be_less =
      rc == TN_OUT_OF_MEMORY && how->memory == 0 && p->n_forward < p->n_steps;
  return tn__fail(
      rc, "intermediate results of the program: %s%s", tn_error_text(),
      may_be_less ? ", or bind it with a limit, tn_bind.memory" : "");
}

static tn_code acquire_pools(tn_program *p, const tn_bind *how) {
  p->memory.pools = tn__arena_alloc(
      &p->arena, (p->memory.plan.n_pools + 1) * sizeof(tn__block *));
  if (!p->memory.pools)
    return tn__fail_memory(p->memory.plan.n_pools, "a memory plan");
  for (size_t i = 0; i < p->memory.plan.n_pools; ++i) {
    if (p->memory.plan.pools[i].bytes == 0) continue;
    tn__block *shared = find_shared_pool(p, how, i);
    if (shared) {
      p->memory.pools[i] = tn__block_retain(shared);
      continue;
    }
    TN__TRY(
        tn__block_create(p->placement.devices[p->memory.plan.pools[i].device],
                         p->memory.plan.pools[i].bytes, &p->memory.pools[i]));
    const tn_code rc = tn__block_materialise(p->memory.pools[i]);
    if (rc != TN_OK) return fail_pool(p, how, rc);
  }
  return TN_OK;
}

/* Tests whether the call of a step must be planned again, because an operand is
 * now in the memory of another one, or a request has changed. */
static bool must_plan_again(const tn_program *p, const tn__step *step) {
  for (uint32_t i = 0; i < step->n_out; ++i) {
    const tn__plan_place *place = tn__plan_place_of(p, step->out[i]);
    if (place->request == TN_REQ_ADD || place->alias >= 0) return true;
    if (p->values[step->out[i]].request == TN_REQ_NULL) return true;
  }
  for (uint32_t i = 0; i < step->n_in; ++i) {
    if (step->in[i] == TN_NONE) continue;
    const tn__plan_place *place = tn__plan_place_of(p, step->in[i]);
    if (place->request == TN_REQ_ADD || place->alias >= 0) return true;
  }
  return false;
}

/* Allocates the memory of an entry. Arrays that users can read have memory of
 * their own, which is zero until the first run. */
static tn_code alloc_entry_memory(const tn_program *p, uint32_t entry) {
  const tn__value *value = entry == TN_NONE ? NULL : &p->values[entry];
  if (!value || value->request == TN_REQ_NULL) return TN_OK;
  return tn__array_materialise_zeros(value->array);
}

static tn_code alloc_output_memory(const tn_program *p, const tn__step *step) {
  for (uint32_t i = 0; i < step->n_out; ++i)
    TN__TRY(alloc_entry_memory(p, step->out[i]));
  return TN_OK;
}

/* Allocates the inputs of a step that is no call of a kernel; a call allocates
 * its inputs itself. */
static tn_code alloc_input_memory(const tn_program *p, const tn__step *step) {
  for (uint32_t i = 0; i < step->n_in; ++i)
    if (!step->shape_only || !step->shape_only[i])
      TN__TRY(tn__array_materialise_zeros(tn__value_array(p, step->in[i])));
  return TN_OK;
}

/* Removes the requests of outputs that equal an input and so exist already. A
 * step without other outputs has no work. */
static void drop_alias_requests(tn_program *p, tn__step *step) {
  uint32_t n_there = 0, n_asked = 0;
  for (uint32_t i = 0; i < step->n_out; ++i) {
    n_there += tn__step_is_alias(step, i);
    n_asked += p->values[step->out[i]].request != TN_REQ_NULL;
  }
  for (uint32_t i = 0; n_there < n_asked && i < step->n_out; ++i)
    if (tn__step_is_alias(step, i))
      p->values[step->out[i]].request = TN_REQ_NULL;
  if (n_there > 0 && n_there == n_asked) step->kind = TN__STEP_NOTHING;
}

/* Tests whether no step reads the elements of a step's results. A call without
 * requests has no work; but a loop may still change states. */
static bool has_no_read_results(const tn_program *p, const tn__step *step) {
  if (step->kind == TN__STEP_CALL || step->kind == TN__STEP_FUSED) return false;
  for (uint32_t i = 0; i < step->n_out; ++i)
    if (p->values[step->out[i]].request != TN_REQ_NULL) return false;
  return step->kind != TN__STEP_LOOP || (step->repeats && !step->signal);
}

static tn_code resolve_workspace(tn_program *p, tn__step *step) {
  if (p->memory.plan.skipped[step->id]) step->kind = TN__STEP_NOTHING;
  drop_alias_requests(p, step);
  if (has_no_read_results(p, step)) step->kind = TN__STEP_NOTHING;
  if (step->kind == TN__STEP_FUSED) return tn__fused_set_memory(step);
  if (step->kind == TN__STEP_NOTHING) return TN_OK;
  if (step->kind != TN__STEP_CALL) TN__TRY(alloc_input_memory(p, step));
  TN__TRY(alloc_output_memory(p, step));
  if (step->kind != TN__STEP_CALL) return TN_OK;
  for (uint32_t train = 0; train < 2; ++train) {
    if (!step->call[train]) continue;
    if (must_plan_again(p, step))
      TN__TRY(tn__step_plan(step, train, &step->call[train]));
    TN__TRY(tn__step_materialise(step, train));
  }
  return TN_OK;
}

/* Adds the name of the step's node to the message of a failure, unless the
 * message has one. */
static tn_code fail_step_memory(const tn__step *step, tn_code rc) {
  static const char node[] = "node `";
  if (rc != TN_OUT_OF_MEMORY ||
      strncmp(tn_error_text(), node, sizeof node - 1) == 0)
    return rc;
  return tn__node_fail(step->node, rc);
}

static tn_code finish_step_memory(tn_program *p, tn__step *step) {
  return fail_step_memory(step, resolve_workspace(p, step));
}

/* Allocates memory that remains until the program ends. */
static tn_code alloc_program_memory(tn_program *p, tn__device *device,
                                    size_t bytes, void **out) {
  tn__block *room = NULL;
  TN__TRY(tn__vec_reserve(p->env, &p->memory.rooms, 1));
  TN__TRY(tn__block_create(device, bytes, &room));
  tn_code rc = tn__block_materialise(room);
  if (rc == TN_OK) rc = tn__vec_push(p->env, &p->memory.rooms, room);
  if (rc == TN_OK)
    *out = room->data;
  else
    tn__block_release(room);
  return rc;
}

tn_code tn__step_workspace(const tn__step *step, size_t bytes, void **out) {
  tn_program *p = step->program;
  *out = NULL;
  if (bytes == 0) return TN_OK;
  if (bytes > step->reserved)
    return alloc_program_memory(p, step->device, bytes, out);
  const tn__block *pool = tn__pool_of(p, tn__device_number(p, step->device));
  *out = (char *)pool->data + p->memory.plan.workspaces[step->id];
  return TN_OK;
}

static tn_code set_call_memory(tn__step *step, uint32_t train) {
  const tn_outputs none = {0};
  tn__planned_info info;
  void *room = NULL;
  tn__planned_deliver(step->call[train], &none);
  tn__step_fill_info(step, train);
  tn__planned_describe(step->call[train], &info);
  TN__TRY(tn__step_workspace(step, info.workspace, &room));
  return tn__planned_materialise(step->call[train], room);
}

tn_code tn__step_materialise(tn__step *step, uint32_t train) {
  return fail_step_memory(step, set_call_memory(step, train));
}

void tn__plan_options_of(const tn_bind *how, tn__plan_options *out) {
  const bool none = how->plan == TN_PLAN_NONE;
  *out = (tn__plan_options){
      .no_inplace = none, .no_share = none, .no_accumulate = none};
}

static tn_code check_budget(const tn_program *p) {
  const uint64_t memory = p->how.memory;
  const size_t bytes = tn__memory_plan_bytes(&p->memory.plan);
  if (memory <= TN_MEMORY_MINIMAL || bytes <= memory) return TN_OK;
  return tn__fail(
      TN_OUT_OF_MEMORY,
      "the program needs %zu bytes for intermediate results, even "
      "where it computes them again, but tn_bind.memory is %llu%s",
      bytes, (unsigned long long)memory,
      p->stats.n_fused > 0 ? "; with TN_BIND_NO_FUSE it may be less" : "");
}

/* ----------------------------------------------------------------- branches */

static bool is_later_step(const tn__step *step) {
  return ((tn__step_job_flags(step, 0) | tn__step_job_flags(step, 1)) &
          TN__JOB_ASYNC) != 0;
}

/* Other steps run while such a step is in flight, also with one worker. */
static bool has_later_step(const tn_program *p) {
  for (uint32_t i = 0; i < p->n_steps; ++i)
    if (is_later_step(p->steps[i])) return true;
  return false;
}

/* Sets *out to whether a plan with parallel branches may help: there are
 * workers for two steps, more memory than the minimum, and long steps that need
 * not wait for one another. */
static tn_code can_use_branches(const tn_program *p, const tn_bind *how,
                                const tn__plan_net *net, bool *out) {
  uint32_t n = 0;
  const bool later = has_later_step(p);
  *out = false;
  if (how->plan != TN_PLAN_DEFAULT || p->how.memory != 0 ||
      (how->flags & TN__BIND_SERIAL) ||
      (!later && tn__engine_workers(p->env->engine) < 2))
    return TN_OK;
  bool *which = tn__zalloc(p->env, (p->n_steps + 1u) * sizeof *which);
  if (!which) return tn__fail_memory(p->n_steps, "a memory plan");
  for (uint32_t i = 0; i < p->n_steps; ++i)
    n += which[i] = later || !tn__step_is_small(p->steps[i]);
  const tn_code rc =
      n < 2 ? TN_OK : tn__plan_net_has_branches(p->env, net, which, out);
  tn__free(p->env, which);
  return rc;
}

/* Returns the maximal number of bytes of a plan with parallel branches: half
 * more than the plan without them needs, twice as many if a step completes
 * later, or the memory that another program shares. */
static size_t get_branch_limit(const tn_program *p, const tn_bind *how) {
  const size_t bytes = tn__memory_plan_bytes(&p->memory.plan);
  const size_t lent =
      how->shared ? tn__memory_plan_bytes(&how->shared->memory.plan) : 0;
  if (lent >= bytes && lent > 0) return lent;
  return has_later_step(p) ? 2 * bytes : bytes + bytes / 2;
}

static tn_code plan_branches(tn_program *p, const tn_bind *how,
                             const tn__plan_net *net) {
  const tn__plan_options options = {.parallel = true};
  tn__memory_plan wide;
  bool branches = false;
  TN__TRY(can_use_branches(p, how, net, &branches));
  if (!branches) return TN_OK;
  TN__TRY(tn__memory_plan_init(&wide, p->env, net, &options));
  if (tn__memory_plan_bytes(&wide) > get_branch_limit(p, how)) {
    tn__memory_plan_deinit(&wide);
    return TN_OK;
  }
  tn__memory_plan_deinit(&p->memory.plan);
  p->memory.plan = wide;
  p->memory.wide = true;
  return TN_OK;
}

/* --------------------------------------------------------------------- all */

tn_code tn__program_alloc_memory(tn_program *p, const tn_bind *how) {
  tn__plan_options options;
  tn__plan_input net = {0};
  tn__plan_options_of(how, &options);
  tn_code rc = tn__plan_input_make(p, &net);
  if (rc == TN_OK)
    rc = tn__memory_plan_init(&p->memory.plan, p->env, &net.net, &options);
  p->memory.planned = rc == TN_OK;
  if (rc == TN_OK) rc = plan_branches(p, how, &net.net);
  tn__plan_input_free(p, &net);
  TN__TRY(rc);
  for (uint32_t i = 0; i < p->n_steps; ++i)
    p->steps[i]->reserved = p->steps[i]->info.workspace;
  TN__TRY(check_budget(p));
  TN__TRY(acquire_pools(p, how));
  for (uint32_t i = 0; i < p->n_steps; ++i)
    for (uint32_t k = 0; k < p->steps[i]->n_out; ++k)
      TN__TRY(set_entry_memory(p, p->steps[i]->out[k]));
  for (uint32_t i = 0; i < p->n_steps; ++i)
    TN__TRY(finish_step_memory(p, p->steps[i]));
  return TN_OK;
}
