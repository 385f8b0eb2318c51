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

/* ------------------------------------------------------------------- blocks */

/* Finds a block for each lifetime at match range `range`. */
static tn_code find_blocks(planning *p, uint32_t range, const uint32_t *colour,
                           compat_blocks **out) {
  const tn__lifetime_table *table = &p->table.lifetimes;
  TN__TRY(compat_blocks_create(&p->arena, table->n_lifetimes, range, out));
  for (size_t k = 0; k < table->n_events; ++k) {
    const tn__plan_event *event = &table->events[k];
    const tn__lifetime *t = &table->lifetimes[event->lifetime];
    const uint32_t c = colour == NULL ? 0 : colour[event->node];
    if (event->ends)
      compat_blocks_free(*out, p->table.block[event->lifetime], c);
    else
      p->table.block[event->lifetime] =
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
  for (uint32_t t = 0; t < p->table.lifetimes.n_lifetimes; ++t) {
    const tn__lifetime *lifetime = &p->table.lifetimes.lifetimes[t];
    tn__plan_storage *s = &plan->storages[p->table.block[t]];
    if (lifetime->first < s->first) s->first = lifetime->first;
    if (lifetime->last > s->last) s->last = lifetime->last;
  }
  for (size_t k = 0; k < plan->n_pools; ++k)
    tn__memory_plan_place_in_row(plan, p->net, &plan->pools[k], TN__PLAN_ALIGN);
  return TN_OK;
}

/* ------------------------------------------------------------------- result */

/* The place of an entry names a lifetime; here it gets the number of a block.
 */
static void write_answer(planning *p) {
  tn__memory_plan *plan = p->plan;
  tn__memory_plan_write_answer(plan, &p->table.lifetimes);
  for (size_t e = 0; e < p->net->n_entries; ++e)
    if (plan->places[e].storage >= 0)
      plan->places[e].storage =
          (int32_t)p->table.block[plan->places[e].storage];
}

static tn_code make_plan(planning *p) {
  TN__TRY(tn__memory_plan_allocate(p->plan, p->net));
  p->table.lifetimes = (tn__lifetime_table){.net = p->net, .arena = &p->arena};
  TN__TRY(compat_lifetimes_find(&p->table, &p->options));
  TN__TRY(tn__memory_plan_find_devices(p->plan, &p->table.lifetimes));
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
