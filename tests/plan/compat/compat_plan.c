/* SPDX-License-Identifier: Apache-2.0
 * compat_plan.c: makes a memory plan by the rules of NNVM. Lifetimes come
 * first, then the blocks that they use, then the pools of the devices.
 */
#include "compat.h"

enum { USUAL_RANGE = 16 };

/* The state of one planning. `arena` holds temporary memory. */
typedef struct planning {
  tn__memory_plan *plan;
  const tn__plan_net *net;
  compat_options options; /* with defaults in place of 0 */
  tn__arena arena;
  compat_table table;
} planning;

/* ------------------------------------------------------------------ devices */

static void note_device(planning *p, int32_t device) {
  for (size_t k = 0; k < p->plan->n_pools; ++k)
    if (p->plan->pools[k].device == device) return;
  p->plan->pools[p->plan->n_pools++].device = device;
}

/* An upper bound of the number of devices: the number of changes of the
 * device. */
static size_t count_devices(const planning *p) {
  const compat_table *table = &p->table;
  size_t n = 1;
  for (uint32_t t = 1; t < table->n_lifetimes; ++t)
    n += table->lifetimes[t].device != table->lifetimes[t - 1].device;
  for (size_t k = 1; k < p->net->n_nodes; ++k)
    n += p->net->nodes[k].device != p->net->nodes[k - 1].device;
  return n + 1;
}

static tn_code find_devices(planning *p) {
  tn__memory_plan *plan = p->plan;
  plan->pools =
      tn__arena_alloc(&plan->arena, count_devices(p) * sizeof *plan->pools);
  if (plan->pools == NULL) return tn__fail_memory(0, "the pools of a plan");
  for (uint32_t t = 0; t < p->table.n_lifetimes; ++t)
    note_device(p, p->table.lifetimes[t].device);
  for (size_t n = 0; n < p->net->n_nodes; ++n)
    if (p->net->nodes[n].workspace > 0) note_device(p, p->net->nodes[n].device);
  const tn__lifetime_table peaks = {.net = p->net,
                                    .lifetimes = p->table.lifetimes,
                                    .events = p->table.events,
                                    .n_events = p->table.n_events};
  for (size_t k = 0; k < plan->n_pools; ++k) {
    tn__plan_pool *pool = &plan->pools[k];
    pool->lower_bound = tn__lifetimes_peak(&peaks, pool->device, 1);
    for (size_t n = 0; n < p->net->n_nodes; ++n)
      if (p->net->nodes[n].device == pool->device &&
          p->net->nodes[n].workspace > pool->workspace)
        pool->workspace = p->net->nodes[n].workspace;
  }
  return TN_OK;
}

/* Places the storages one after the other, then one workspace for all nodes. */
static void place_in_row(planning *p, tn__plan_pool *pool) {
  tn__memory_plan *plan = p->plan;
  for (size_t s = 0; s < plan->n_storages; ++s) {
    tn__plan_storage *storage = &plan->storages[s];
    if (storage->device != pool->device) continue;
    storage->offset = pool->bytes;
    pool->bytes += tn__round_up(storage->bytes, TN__PLAN_ALIGN);
  }
  for (size_t n = 0; n < p->net->n_nodes; ++n)
    if (p->net->nodes[n].device == pool->device)
      plan->workspaces[n] = pool->bytes;
  pool->bytes += tn__round_up(pool->workspace, TN__PLAN_ALIGN);
}

/* ------------------------------------------------------------------- blocks */

/* Finds a block for each lifetime at match range `range`. */
static tn_code find_blocks(planning *p, uint32_t range, const uint32_t *colour,
                           compat_blocks **out) {
  compat_table *table = &p->table;
  TN__TRY(compat_blocks_create(&p->arena, table->n_lifetimes, range, out));
  for (size_t k = 0; k < table->n_events; ++k) {
    const tn__plan_event *event = &table->events[k];
    const tn__lifetime *t = &table->lifetimes[event->lifetime];
    const uint32_t c = colour == NULL ? 0 : colour[event->node];
    if (event->ends)
      compat_blocks_free(*out, table->storage[event->lifetime], c);
    else
      table->storage[event->lifetime] =
          compat_blocks_request(*out, t->device, t->bytes, c);
  }
  return TN_OK;
}

static size_t block_total(const compat_blocks *blocks) {
  size_t total = 0;
  for (uint32_t b = 0; b < compat_blocks_count(blocks); ++b)
    total += compat_blocks_bytes(blocks, b);
  return total;
}

/* Finds blocks for the lifetimes at the best range. */
static tn_code choose_blocks(planning *p, compat_blocks **out) {
  const compat_options *o = &p->options;
  uint32_t *colour = NULL, best = o->match_range;
  size_t least = SIZE_MAX;
  if (o->n_colours > 1)
    TN__TRY(compat_colour_nodes(p->net, &p->arena, o->n_colours, &colour));
  if (o->no_share) return find_blocks(p, 0, colour, out);
  for (uint64_t r = 1; o->sweep && r <= o->match_range; r *= 2) {
    TN__TRY(find_blocks(p, (uint32_t)r, colour, out));
    if (block_total(*out) >= least) continue;
    least = block_total(*out);
    best = (uint32_t)r;
  }
  if (o->kept_range) *o->kept_range = best;
  return find_blocks(p, best, colour, out);
}

static tn_code plan_blocks(planning *p) {
  tn__memory_plan *plan = p->plan;
  compat_blocks *blocks;
  TN__TRY(choose_blocks(p, &blocks));
  plan->n_storages = compat_blocks_count(blocks);
  plan->storages =
      tn__arena_alloc(&plan->arena, plan->n_storages * sizeof *plan->storages);
  if (plan->storages == NULL) return tn__fail_memory(0, "storages");
  for (uint32_t b = 0; b < plan->n_storages; ++b)
    plan->storages[b] = (tn__plan_storage){
        .bytes = compat_blocks_bytes(blocks, b),
        .device = compat_blocks_device(blocks, b),
        .first = TN__NO_NODE,
    };
  for (uint32_t t = 0; t < p->table.n_lifetimes; ++t) {
    const tn__lifetime *lifetime = &p->table.lifetimes[t];
    tn__plan_storage *s = &plan->storages[p->table.storage[t]];
    if (lifetime->first < s->first) s->first = lifetime->first;
    if (lifetime->last > s->last) s->last = lifetime->last;
  }
  for (size_t k = 0; k < plan->n_pools; ++k) place_in_row(p, &plan->pools[k]);
  return TN_OK;
}

/* ------------------------------------------------------------------- result */

static void write_answer(planning *p) {
  tn__memory_plan *plan = p->plan;
  const compat_table *table = &p->table;
  for (size_t e = 0; e < p->net->n_entries; ++e) {
    plan->places[e] = table->places[e];
    if (table->places[e].storage >= 0)
      plan->places[e].storage =
          (int32_t)table->storage[table->places[e].storage];
  }
  for (size_t n = 0; n < p->net->n_nodes; ++n)
    plan->skipped[n] = table->skipped[n];
  for (size_t k = 0; k < plan->n_pools; ++k)
    for (size_t s = 0; s < plan->n_storages; ++s)
      if (plan->storages[s].device == plan->pools[k].device)
        plan->pools[k].separate += plan->storages[s].bytes;
}

static tn_code make_plan(planning *p) {
  tn__memory_plan *plan = p->plan;
  tn__arena *a = &plan->arena;
  plan->places = tn__arena_alloc(a, p->net->n_entries * sizeof *plan->places);
  plan->workspaces =
      tn__arena_alloc(a, p->net->n_nodes * sizeof *plan->workspaces);
  plan->skipped = tn__arena_alloc(a, p->net->n_nodes * sizeof *plan->skipped);
  if (a->failed) return tn__fail_memory(0, "a memory plan");
  p->table = (compat_table){.net = p->net, .arena = &p->arena};
  TN__TRY(compat_lifetimes_find(&p->table, &p->options));
  TN__TRY(find_devices(p));
  TN__TRY(plan_blocks(p));
  write_answer(p);
  return TN_OK;
}

tn_code compat_plan_init(tn__memory_plan *plan, const tn__env *env,
                         const tn__plan_net *net,
                         const compat_options *options) {
  planning p = {.plan = plan, .net = net, .options = *options};
  *plan = (tn__memory_plan){0};
  if (p.options.match_range == 0) p.options.match_range = USUAL_RANGE;
  TN__TRY(tn__plan_net_check(env, net));
  tn__arena_init(&plan->arena, env);
  tn__arena_init(&p.arena, env);
  const tn_code code = make_plan(&p);
  tn__arena_deinit(&p.arena);
  if (code != TN_OK) tn__memory_plan_deinit(plan);
  return code;
}
