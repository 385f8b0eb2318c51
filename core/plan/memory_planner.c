/* SPDX-License-Identifier: Apache-2.0
 * memory_planner.c: makes a memory plan. Lifetimes come first, then storages,
 * then the pools of the devices, with an offset for each storage (fit.c, or
 * parallel_fit.c for parallel branches).
 */
#include "planning.h"

/* The state of one planning. `arena` holds temporary memory. */
typedef struct planning {
  tn__memory_plan *plan;
  const tn__plan_net *net;
  tn__plan_options options; /* with defaults in place of 0 */
  tn__arena arena;
  tn__lifetime_table table;
} planning;

/* ------------------------------------------------------------------ devices */

static void note_device(tn__memory_plan *plan, int32_t device) {
  for (size_t k = 0; k < plan->n_pools; ++k)
    if (plan->pools[k].device == device) return;
  plan->pools[plan->n_pools++].device = device;
}

/* An upper bound of the number of devices: the number of changes of the
 * device. */
static size_t count_devices(const tn__lifetime_table *table) {
  const tn__plan_net *net = table->net;
  size_t n = 1;
  for (uint32_t t = 1; t < table->n_lifetimes; ++t)
    n += table->lifetimes[t].device != table->lifetimes[t - 1].device;
  for (size_t k = 1; k < net->n_nodes; ++k)
    n += net->nodes[k].device != net->nodes[k - 1].device;
  return n + 1;
}

tn_code tn__memory_plan_find_devices(tn__memory_plan *plan,
                                     const tn__lifetime_table *table) {
  const tn__plan_net *net = table->net;
  plan->pools =
      tn__arena_alloc(&plan->arena, count_devices(table) * sizeof *plan->pools);
  if (plan->pools == NULL) return tn__fail_memory(0, "the pools of a plan");
  for (uint32_t t = 0; t < table->n_lifetimes; ++t)
    note_device(plan, table->lifetimes[t].device);
  for (size_t n = 0; n < net->n_nodes; ++n)
    if (net->nodes[n].workspace > 0) note_device(plan, net->nodes[n].device);
  for (size_t k = 0; k < plan->n_pools; ++k) {
    tn__plan_pool *pool = &plan->pools[k];
    pool->lower_bound = tn__lifetimes_peak(table, pool->device, 1);
    for (size_t n = 0; n < net->n_nodes; ++n)
      if (net->nodes[n].device == pool->device &&
          net->nodes[n].workspace > pool->workspace)
        pool->workspace = net->nodes[n].workspace;
  }
  return TN_OK;
}

void tn__memory_plan_place_in_row(tn__memory_plan *plan,
                                  const tn__plan_net *net, tn__plan_pool *pool,
                                  size_t align) {
  for (size_t s = 0; s < plan->n_storages; ++s) {
    tn__plan_storage *storage = &plan->storages[s];
    if (storage->device != pool->device) continue;
    storage->offset = pool->bytes;
    pool->bytes += tn__round_up(storage->bytes, align);
  }
  for (size_t n = 0; n < net->n_nodes; ++n)
    if (net->nodes[n].device == pool->device) plan->workspaces[n] = pool->bytes;
  pool->bytes += tn__round_up(pool->workspace, align);
}

/* ------------------------------------------------------------------ offsets */

static tn_code list_storages(planning *p) {
  tn__memory_plan *plan = p->plan;
  plan->n_storages = p->table.n_lifetimes;
  plan->storages =
      tn__arena_alloc(&plan->arena, plan->n_storages * sizeof *plan->storages);
  if (plan->storages == NULL) return tn__fail_memory(0, "storages");
  for (uint32_t t = 0; t < plan->n_storages; ++t) {
    const tn__lifetime *lifetime = &p->table.lifetimes[t];
    plan->storages[t] = (tn__plan_storage){.bytes = lifetime->bytes,
                                           .device = lifetime->device,
                                           .first = lifetime->first,
                                           .last = lifetime->last};
  }
  return TN_OK;
}

/* Lists the storages of a device, then its workspaces. `from` has the number of
 * the storage, or n_storages plus the number of the node. */
static uint32_t list_intervals(planning *p, int32_t device,
                               tn__interval *intervals, uint32_t *from) {
  const tn__memory_plan *plan = p->plan;
  const size_t align = p->options.align;
  uint32_t n = 0;
  for (uint32_t s = 0; s < plan->n_storages; ++s) {
    const tn__plan_storage *storage = &plan->storages[s];
    if (storage->device != device || storage->bytes == 0) continue;
    from[n] = s;
    intervals[n++] = (tn__interval){tn__round_up(storage->bytes, align),
                                    storage->first, storage->last, 0};
  }
  for (uint32_t k = 0; k < p->net->n_nodes; ++k) {
    const tn__plan_node *node = &p->net->nodes[k];
    if (node->device != device || node->workspace == 0) continue;
    from[n] = (uint32_t)plan->n_storages + k;
    intervals[n++] =
        (tn__interval){tn__round_up(node->workspace, align), k, k, 0};
  }
  return n;
}

static tn_code fit_pool(planning *p, tn__plan_pool *pool) {
  tn__memory_plan *plan = p->plan;
  const size_t most = plan->n_storages + p->net->n_nodes;
  tn__fit fit = {
      .arena = &p->arena,
      .horizon = (uint32_t)p->net->n_nodes + 1,
      .floor = tn__lifetimes_peak(&p->table, pool->device, p->options.align)};
  uint32_t *from = tn__arena_alloc(&p->arena, most * sizeof *from);
  fit.intervals = tn__arena_alloc(&p->arena, most * sizeof *fit.intervals);
  if (p->arena.failed) return tn__fail_memory(0, "a plan's offsets");
  fit.n = list_intervals(p, pool->device, fit.intervals, from);
  TN__TRY(tn__fit_run(&fit));
  for (uint32_t k = 0; k < fit.n; ++k)
    if (from[k] < plan->n_storages)
      plan->storages[from[k]].offset = fit.intervals[k].offset;
    else
      plan->workspaces[from[k] - plan->n_storages] = fit.intervals[k].offset;
  pool->bytes = fit.height;
  return TN_OK;
}

static tn_code fit_parallel(planning *p, tn__plan_pool *pool) {
  tn__memory_plan *plan = p->plan;
  tn__parallel_fit fit = {
      .table = &p->table,
      .arena = &p->arena,
      .device = pool->device,
      .align = p->options.align,
      .offsets = tn__arena_alloc(&p->arena, plan->n_storages * sizeof(size_t)),
      .workspaces = plan->workspaces};
  if (fit.offsets == NULL) return tn__fail_memory(0, "a plan's offsets");
  TN__TRY(tn__fit_parallel(&fit));
  for (size_t s = 0; s < plan->n_storages; ++s)
    if (plan->storages[s].device == pool->device)
      plan->storages[s].offset = fit.offsets[s];
  pool->bytes = fit.height;
  return TN_OK;
}

static tn_code plan_offsets(planning *p) {
  TN__TRY(list_storages(p));
  for (size_t k = 0; k < p->plan->n_pools; ++k) {
    tn__plan_pool *pool = &p->plan->pools[k];
    if (p->options.no_share)
      tn__memory_plan_place_in_row(p->plan, p->net, pool, p->options.align);
    else if (p->options.parallel)
      TN__TRY(fit_parallel(p, pool));
    else
      TN__TRY(fit_pool(p, pool));
  }
  return TN_OK;
}

/* ------------------------------------------------------------------- result */

void tn__memory_plan_write_answer(tn__memory_plan *plan,
                                  const tn__lifetime_table *table) {
  for (size_t e = 0; e < table->net->n_entries; ++e)
    plan->places[e] = table->places[e];
  for (size_t n = 0; n < table->net->n_nodes; ++n)
    plan->skipped[n] = table->skipped[n];
  for (size_t k = 0; k < plan->n_pools; ++k)
    for (size_t s = 0; s < plan->n_storages; ++s)
      if (plan->storages[s].device == plan->pools[k].device)
        plan->pools[k].separate += plan->storages[s].bytes;
}

tn_code tn__memory_plan_allocate(tn__memory_plan *plan,
                                 const tn__plan_net *net) {
  tn__arena *a = &plan->arena;
  plan->places = tn__arena_alloc(a, net->n_entries * sizeof *plan->places);
  plan->workspaces =
      tn__arena_alloc(a, net->n_nodes * sizeof *plan->workspaces);
  plan->skipped = tn__arena_alloc(a, net->n_nodes * sizeof *plan->skipped);
  return a->failed ? tn__fail_memory(0, "a memory plan") : TN_OK;
}

static tn_code make_plan(planning *p) {
  TN__TRY(tn__memory_plan_allocate(p->plan, p->net));
  p->table = (tn__lifetime_table){
      .net = p->net, .options = &p->options, .arena = &p->arena};
  TN__TRY(tn__lifetimes_find(&p->table));
  TN__TRY(tn__memory_plan_find_devices(p->plan, &p->table));
  TN__TRY(plan_offsets(p));
  tn__memory_plan_write_answer(p->plan, &p->table);
  return TN_OK;
}

/* Makes sure that no sum of sizes in this file can wrap. */
static tn_code check_total(const tn__plan_net *net, size_t align) {
  size_t total = 0;
  bool wraps = false;
  for (size_t e = 0; e < net->n_entries; ++e)
    wraps |= net->entries[e].bytes > SIZE_MAX - align ||
             __builtin_add_overflow(
                 total, tn__round_up(net->entries[e].bytes, align), &total);
  for (size_t n = 0; n < net->n_nodes; ++n)
    wraps |= net->nodes[n].workspace > SIZE_MAX - align ||
             __builtin_add_overflow(
                 total, tn__round_up(net->nodes[n].workspace, align), &total);
  return wraps ? tn__fail(TN_INVALID,
                          "memory plan: the entries and workspaces"
                          " are together more bytes than there are addresses")
               : TN_OK;
}

tn_code tn__memory_plan_init(tn__memory_plan *plan, const tn__env *env,
                             const tn__plan_net *net,
                             const tn__plan_options *options) {
  planning p = {.plan = plan, .net = net, .options = *options};
  *plan = (tn__memory_plan){0};
  if (p.options.align == 0) p.options.align = TN__PLAN_ALIGN;
  TN__TRY(tn__plan_net_check(env, net));
  TN__TRY(check_total(net, p.options.align));
  tn__arena_init(&plan->arena, env);
  tn__arena_init(&p.arena, env);
  const tn_code code = make_plan(&p);
  tn__arena_deinit(&p.arena);
  if (code != TN_OK) tn__memory_plan_deinit(plan);
  return code;
}

void tn__memory_plan_deinit(tn__memory_plan *plan) {
  tn__arena_deinit(&plan->arena);
  *plan = (tn__memory_plan){0};
}

size_t tn__memory_plan_bytes(const tn__memory_plan *plan) {
  size_t total = 0;
  for (size_t k = 0; k < plan->n_pools; ++k) total += plan->pools[k].bytes;
  return total;
}

size_t tn__memory_plan_lower_bound(const tn__memory_plan *plan) {
  size_t total = 0;
  for (size_t k = 0; k < plan->n_pools; ++k)
    total += plan->pools[k].lower_bound;
  return total;
}
