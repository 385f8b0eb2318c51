/* SPDX-License-Identifier: Apache-2.0
 * The rules of the planner one by one, on nets of a few nodes.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "compat/compat.h"
#include "nets.h"

enum { KIB = 1024, MAX = 16 };

/* A net under construction. */
typedef struct small {
  tn__plan_node nodes[MAX];
  tn__plan_entry entries[2 * MAX];
  uint32_t in[MAX][4];
  bool ignored[MAX][4];
  tn__plan_pair pairs[MAX][4];
  tn__plan_net net;
} small;

static void begin_net(small *s) {
  memset(s, 0, sizeof *s);
  s->net.nodes = s->nodes;
  s->net.entries = s->entries;
}

static uint32_t add_entry(small *s, size_t bytes, uint32_t flags) {
  const uint32_t e = (uint32_t)s->net.n_entries++;
  s->entries[e] = (tn__plan_entry){.bytes = bytes,
                                   .n_elements = (int64_t)(bytes / 4),
                                   .dtype = TN_F32,
                                   .flags = flags};
  return e;
}

static uint32_t add_input(small *s) {
  return add_entry(s, KIB, TN__ENTRY_EXTERNAL);
}

/* Reads n_in entries (at most 4) and writes one. Returns the number of that
 * entry. */
static uint32_t add_node(small *s, size_t bytes, uint32_t n_in,
                         const uint32_t *in) {
  const size_t n = s->net.n_nodes++;
  memcpy(s->in[n], in, n_in * sizeof *in);
  s->nodes[n] = (tn__plan_node){.in = s->in[n],
                                .n_in = n_in,
                                .n_out = 1,
                                .ignored = s->ignored[n],
                                .pairs = s->pairs[n],
                                .first_out = add_entry(s, bytes, 0)};
  return s->nodes[n].first_out;
}

static uint32_t add_unary(small *s, size_t bytes, uint32_t in) {
  return add_node(s, bytes, 1, &in);
}

static uint32_t add_binary(small *s, size_t bytes, uint32_t a, uint32_t b) {
  return add_node(s, bytes, 2, (const uint32_t[]){a, b});
}

/* Adds a pair to the last node. */
static void add_pair(small *s, uint32_t in, uint32_t out, bool identity) {
  const size_t n = s->net.n_nodes - 1;
  s->pairs[n][s->nodes[n].n_pairs++] = (tn__plan_pair){in, out, identity};
}

static tn__memory_plan make_plan(const small *s, tn__plan_options options) {
  tn__memory_plan plan;
  cr_assert_eq(
      tn__memory_plan_init(&plan, tn__env_default(), &s->net, &options), TN_OK,
      "%s", tn_error_text());
  return plan;
}

static tn__memory_plan make_compat_plan(const small *s,
                                        compat_options options) {
  tn__memory_plan plan;
  cr_assert_eq(compat_plan_init(&plan, tn__env_default(), &s->net, &options),
               TN_OK, "%s", tn_error_text());
  return plan;
}

/* Makes a plan with either planner. */
static tn__memory_plan make_either_plan(const small *s, bool compat,
                                        tn__plan_options options) {
  if (!compat) return make_plan(s, options);
  return make_compat_plan(
      s, (compat_options){.no_inplace = options.no_inplace,
                          .no_accumulate = options.no_accumulate});
}

/* Returns whether the entry uses the memory of an input. Both planners must
 * agree. */
static bool is_inplace(const small *s, uint32_t e) {
  tn__memory_plan a = make_compat_plan(s, (compat_options){0});
  tn__memory_plan b = make_plan(s, (tn__plan_options){0});
  const bool answer = a.places[e].alias >= 0;
  cr_assert_eq(answer, b.places[e].alias >= 0);
  cr_assert_eq(a.places[e].request, answer ? TN_REQ_INPLACE : TN_REQ_WRITE);
  cr_assert_eq(b.places[e].request, a.places[e].request);
  tn__memory_plan_deinit(&a);
  tn__memory_plan_deinit(&b);
  return answer;
}

/* x -> a -> b with a pair at b, and a reader of b. */
typedef struct chain {
  small s;
  uint32_t a;
  uint32_t b;
} chain;

static void make_chain(chain *c, size_t bytes) {
  begin_net(&c->s);
  c->a = add_unary(&c->s, KIB, add_input(&c->s));
  c->b = add_unary(&c->s, bytes, c->a);
  add_pair(&c->s, 0, 0, false);
}

static void keep_entry(small *s, uint32_t e) {
  s->entries[e].flags |= TN__ENTRY_HEAD;
}

/* ----------------------------------------------------------------- in-place */

Test(inplace, happens_if_no_rule_forbids_it) {
  chain c;
  make_chain(&c, KIB);
  keep_entry(&c.s, c.b);
  cr_assert(is_inplace(&c.s, c.b));
}

Test(inplace, not_while_another_node_still_reads_the_input) {
  chain c;
  make_chain(&c, KIB);
  keep_entry(&c.s, add_unary(&c.s, 4, c.a));
  keep_entry(&c.s, c.b);
  cr_assert(!is_inplace(&c.s, c.b));
}

Test(inplace, happens_after_the_other_reader) {
  small s;
  begin_net(&s);
  const uint32_t a = add_unary(&s, KIB, add_input(&s));
  keep_entry(&s, add_unary(&s, 4, a));
  const uint32_t b = add_unary(&s, KIB, a);
  add_pair(&s, 0, 0, false);
  keep_entry(&s, b);
  cr_assert(is_inplace(&s, b));
}

Test(inplace, an_identity_happens_even_while_another_reads_the_input) {
  chain c;
  make_chain(&c, KIB);
  c.s.pairs[1][0].identity = true;
  keep_entry(&c.s, add_unary(&c.s, 4, c.a));
  keep_entry(&c.s, c.b);
  cr_assert(is_inplace(&c.s, c.b));
}

Test(inplace, memory_passed_on_as_identity_is_not_overwritten) {
  chain c;
  make_chain(&c, KIB);
  c.s.pairs[1][0].identity = true;
  const uint32_t d = add_unary(&c.s, KIB, c.b);
  add_pair(&c.s, 0, 0, false);
  keep_entry(&c.s, d);
  keep_entry(&c.s, add_unary(&c.s, 4, c.a));
  cr_assert(is_inplace(&c.s, c.b));
  cr_assert(!is_inplace(&c.s, d));
}

Test(inplace, not_in_a_head) {
  chain c;
  make_chain(&c, KIB);
  keep_entry(&c.s, c.a);
  keep_entry(&c.s, c.b);
  cr_assert(!is_inplace(&c.s, c.b));
}

Test(inplace, not_when_the_same_entry_is_read_twice) {
  small s;
  begin_net(&s);
  const uint32_t a = add_unary(&s, KIB, add_input(&s));
  const uint32_t b = add_binary(&s, KIB, a, a);
  add_pair(&s, 0, 0, false);
  keep_entry(&s, b);
  cr_assert(!is_inplace(&s, b));
}

Test(inplace, not_when_the_element_counts_differ) {
  chain c;
  make_chain(&c, KIB / 2);
  keep_entry(&c.s, c.b);
  cr_assert(!is_inplace(&c.s, c.b));
  make_chain(&c, KIB);
  keep_entry(&c.s, c.b);
  c.s.entries[c.b].n_elements /= 2;
  cr_assert(!is_inplace(&c.s, c.b));
}

Test(inplace, not_when_the_dtypes_differ) {
  chain c;
  make_chain(&c, KIB);
  keep_entry(&c.s, c.b);
  c.s.entries[c.b].dtype = TN_I32;
  cr_assert(!is_inplace(&c.s, c.b));
}

Test(inplace, not_in_external_memory) {
  chain c;
  make_chain(&c, KIB);
  keep_entry(&c.s, c.b);
  c.s.entries[c.a].flags = TN__ENTRY_EXTERNAL;
  cr_assert(!is_inplace(&c.s, c.b));
}

Test(inplace, not_in_memory_that_is_not_planned) {
  chain c;
  make_chain(&c, KIB);
  keep_entry(&c.s, c.b);
  c.s.entries[c.a].flags = TN__ENTRY_DYNAMIC;
  cr_assert(!is_inplace(&c.s, c.b));
}

Test(inplace, not_for_an_output_that_has_memory_already) {
  chain c;
  make_chain(&c, KIB);
  keep_entry(&c.s, c.b);
  c.s.entries[c.b].flags |= TN__ENTRY_EXTERNAL;
  tn__memory_plan plan = make_compat_plan(&c.s, (compat_options){0});
  cr_assert_eq(plan.places[c.b].storage, TN__STORAGE_EXTERNAL);
  cr_assert_eq(plan.places[c.b].alias, -1);
  tn__memory_plan_deinit(&plan);
}

Test(inplace, not_for_an_output_without_reader) {
  chain c;
  make_chain(&c, KIB);
  tn__memory_plan plan = make_compat_plan(&c.s, (compat_options){0});
  cr_assert_eq(plan.places[c.b].alias, -1);
  cr_assert_neq(plan.places[c.b].storage, plan.places[c.a].storage);
  cr_assert_eq(plan.places[c.b].request, TN_REQ_NULL);
  tn__memory_plan_deinit(&plan);
}

Test(inplace, not_in_an_input_read_only_for_its_shape) {
  chain c;
  make_chain(&c, KIB);
  keep_entry(&c.s, c.b);
  c.s.ignored[1][0] = true;
  cr_assert(!is_inplace(&c.s, c.b));
}

Test(inplace, not_twice_in_the_same_input) {
  small s;
  begin_net(&s);
  const uint32_t a = add_unary(&s, KIB, add_input(&s));
  const uint32_t b = add_unary(&s, KIB, a), c = add_entry(&s, KIB, 0);
  s.nodes[1].n_out = 2;
  add_pair(&s, 0, 0, false);
  add_pair(&s, 0, 1, false);
  keep_entry(&s, b);
  keep_entry(&s, c);
  cr_assert(is_inplace(&s, b));
  cr_assert(!is_inplace(&s, c));
}

Test(inplace, can_be_turned_off) {
  chain c;
  make_chain(&c, KIB);
  keep_entry(&c.s, c.b);
  for (int compat = 0; compat < 2; ++compat) {
    tn__memory_plan plan = make_either_plan(
        &c.s, compat == 1, (tn__plan_options){.no_inplace = true});
    cr_assert_eq(plan.places[c.b].alias, -1);
    tn__memory_plan_deinit(&plan);
  }
}

/* A test of nnvm: addk = x + x, reshapek = flatten(addk), add2 = reshapek +
 * addk. */
Test(inplace, a_reshaped_copy_of_an_entry_still_read_gets_its_own_storage) {
  small s;
  begin_net(&s);
  const uint32_t x = add_input(&s), addk = add_binary(&s, KIB, x, x);
  add_pair(&s, 0, 0, false);
  add_pair(&s, 1, 0, false);
  const uint32_t reshapek = add_unary(&s, KIB, addk);
  add_pair(&s, 0, 0, false);
  const uint32_t add2 = add_binary(&s, KIB, reshapek, addk);
  add_pair(&s, 0, 0, false);
  add_pair(&s, 1, 0, false);
  keep_entry(&s, add2);
  tn__memory_plan plan = make_compat_plan(&s, (compat_options){0});
  cr_assert_neq(plan.places[addk].storage, plan.places[reshapek].storage);
  cr_assert_eq(plan.places[add2].storage, plan.places[reshapek].storage);
  tn__memory_plan_deinit(&plan);
}

/* The first pair would let the small output use memory that only the large one
 * can use otherwise. In order one output is saved, at best both are. */
Test(inplace, the_default_finds_inputs_for_as_many_bytes_as_there_are) {
  small s;
  begin_net(&s);
  const uint32_t x = add_input(&s), a = add_unary(&s, KIB, x),
                 b = add_unary(&s, KIB, x);
  const uint32_t p = add_binary(&s, KIB, a, b), q = add_entry(&s, KIB, 0);
  s.nodes[2].n_out = 2;
  add_pair(&s, 0, 0, false);
  add_pair(&s, 1, 0, false);
  add_pair(&s, 0, 1, false);
  keep_entry(&s, p);
  keep_entry(&s, q);
  tn__memory_plan first = make_compat_plan(&s, (compat_options){0});
  tn__memory_plan best = make_plan(&s, (tn__plan_options){0});
  cr_assert_eq(first.places[p].alias, 0);
  cr_assert_eq(first.places[q].alias, -1);
  cr_assert_eq(best.places[p].alias, 1);
  cr_assert_eq(best.places[q].alias, 0);
  cr_assert_eq(tn__memory_plan_bytes(&best), 2 * KIB);
  tn__memory_plan_deinit(&first);
  tn__memory_plan_deinit(&best);
}

/* ----------------------------------------------------------------- the pool */

/* Blocks of 4 KiB and 1 KiB are free; a node has outputs of 1 and 4 KiB. */
Test(pool, the_largest_output_chooses_first) {
  small s;
  begin_net(&s);
  const uint32_t x = add_input(&s);
  const uint32_t large = add_unary(&s, 4 * KIB, x);
  (void)add_unary(&s, 4, large);
  const uint32_t one = add_unary(&s, KIB, x), four = add_entry(&s, 4 * KIB, 0);
  s.nodes[2].n_out = 2;
  keep_entry(&s, one);
  keep_entry(&s, four);
  tn__memory_plan plan = make_compat_plan(&s, (compat_options){0});
  cr_assert_eq(plan.places[four].storage, plan.places[large].storage);
  cr_assert_neq(plan.places[one].storage, plan.places[large].storage);
  tn__memory_plan_deinit(&plan);
}

static compat_blocks *pool_of(tn__arena *arena, uint32_t range) {
  compat_blocks *pool;
  tn__arena_init(arena, tn__env_default());
  cr_assert_eq(compat_blocks_create(arena, 64, range, &pool), TN_OK);
  return pool;
}

Test(pool, serves_requests_as_in_the_script) {
  tn__arena arena;
  compat_blocks *pool = pool_of(&arena, 16);
  static const size_t SIZES[] = {100, 1600, 1700, 200, 5};
  for (uint32_t k = 0; k < 5; ++k)
    cr_assert_eq(compat_blocks_request(pool, 0, SIZES[k], 0), k);
  for (uint32_t k = 0; k < 5; ++k) compat_blocks_free(pool, k, 0);
  /* The smallest block that is large enough. */
  cr_assert_eq(compat_blocks_request(pool, 0, 90, 0), 0);
  cr_assert_eq(compat_blocks_request(pool, 0, 90, 0), 3);
  /* 16 times the size is the limit: 1600 is too much for 99. */
  cr_assert_eq(compat_blocks_request(pool, 0, 99, 0), 5);
  cr_assert_eq(compat_blocks_request(pool, 0, 100, 0), 1);
  /* No block is large enough: the largest smaller one is used and grows. 5 is
   * too little. */
  cr_assert_eq(compat_blocks_request(pool, 0, 1800, 0), 2);
  cr_assert_eq(compat_blocks_bytes(pool, 2), 1800);
  cr_assert_eq(compat_blocks_request(pool, 0, 96, 0), 6);
  /* A block of 5 is allowed: it is a sixteenth of 95, rounded down. */
  cr_assert_eq(compat_blocks_request(pool, 0, 95, 0), 4);
  cr_assert_eq(compat_blocks_bytes(pool, 4), 95);
  cr_assert_eq(compat_blocks_count(pool), 7);
  tn__arena_deinit(&arena);
}

Test(pool, of_equal_blocks_uses_the_oldest_above_and_the_youngest_below) {
  tn__arena arena;
  compat_blocks *pool = pool_of(&arena, 16);
  for (uint32_t k = 0; k < 3; ++k) (void)compat_blocks_request(pool, 0, 100, 0);
  compat_blocks_free(pool, 1, 0);
  compat_blocks_free(pool, 2, 0);
  compat_blocks_free(pool, 0, 0);
  cr_assert_eq(compat_blocks_request(pool, 0, 120, 0), 0);
  cr_assert_eq(compat_blocks_request(pool, 0, 80, 0), 1);
  tn__arena_deinit(&arena);
}

Test(pool, shares_nothing_between_devices_or_colours) {
  tn__arena arena;
  compat_blocks *pool = pool_of(&arena, 16);
  (void)compat_blocks_request(pool, 0, 100, 0);
  compat_blocks_free(pool, 0, 7);
  cr_assert_eq(compat_blocks_request(pool, 1, 100, 7), 1);
  cr_assert_eq(compat_blocks_request(pool, 0, 100, 6), 2);
  cr_assert_eq(compat_blocks_request(pool, 0, 100, 7), 0);
  tn__arena_deinit(&arena);
}

Test(pool, of_range_0_shares_nothing_and_of_range_1_equal_sizes) {
  for (uint32_t range = 0; range < 2; ++range) {
    tn__arena arena;
    compat_blocks *pool = pool_of(&arena, range);
    (void)compat_blocks_request(pool, 0, 100, 0);
    compat_blocks_free(pool, 0, 0);
    cr_assert_eq(compat_blocks_request(pool, 0, 99, 0), 1);
    cr_assert_eq(compat_blocks_request(pool, 0, 100, 0), range == 0 ? 2 : 0);
    tn__arena_deinit(&arena);
  }
}

Test(pool, an_output_never_gets_the_block_of_an_input_of_its_node) {
  small s;
  begin_net(&s);
  uint32_t e = add_unary(&s, KIB, add_input(&s));
  for (int k = 0; k < 4; ++k) e = add_unary(&s, KIB, e);
  keep_entry(&s, e);
  tn__memory_plan plan = make_compat_plan(&s, (compat_options){0});
  for (uint32_t n = 1; n < 5; ++n)
    cr_assert_neq(plan.places[s.nodes[n].first_out].storage,
                  plan.places[s.in[n][0]].storage);
  cr_assert_eq(plan.n_storages, 2);
  tn__memory_plan_deinit(&plan);
}

Test(pool, the_best_of_several_ranges_is_kept) {
  small s;
  begin_net(&s);
  const uint32_t x = add_input(&s);
  /* At range 16 the block of 16 goes to the entry of 2, and a new one of 16 is
   * needed after it. */
  (void)add_unary(&s, 4, add_unary(&s, 16 * KIB, x));
  const uint32_t two = add_unary(&s, 2 * KIB, x);
  const uint32_t big = add_unary(&s, 16 * KIB, x);
  keep_entry(&s, add_binary(&s, 4, two, big));
  uint32_t usual = 0, best = 0;
  tn__memory_plan fixed =
      make_compat_plan(&s, (compat_options){.kept_range = &usual});
  tn__memory_plan swept = make_compat_plan(
      &s, (compat_options){.sweep = true, .kept_range = &best});
  cr_assert_eq(usual, 16);
  cr_assert_lt(best, 16);
  cr_assert_lt(sum_separate(&swept), sum_separate(&fixed));
  tn__memory_plan_deinit(&fixed);
  tn__memory_plan_deinit(&swept);
}

/* Two branches of two nodes from one beginning, alternating. With one colour
 * the second branch uses blocks freed by the first; with two colours it does
 * not. */
typedef struct branches {
  small s;
  uint32_t a;
  uint32_t c;
} branches;

static void make_branches(branches *b) {
  begin_net(&b->s);
  const uint32_t x = add_unary(&b->s, 4 * KIB, add_input(&b->s));
  b->a = add_unary(&b->s, KIB, x);
  const uint32_t end = add_unary(&b->s, KIB, b->a);
  b->c = add_unary(&b->s, KIB, x);
  const uint32_t other = add_unary(&b->s, 4, b->c);
  keep_entry(&b->s, add_node(&b->s, 4, 3, (const uint32_t[]){end, other, x}));
}

/* Returns whether both branches use one block. Frees the plan. */
static bool branches_share(const branches *b, tn__memory_plan plan) {
  const tn__plan_storage *of_a = &plan.storages[plan.places[b->a].storage];
  const tn__plan_storage *of_c = &plan.storages[plan.places[b->c].storage];
  const bool share = of_a->offset == of_c->offset;
  tn__memory_plan_deinit(&plan);
  return share;
}

Test(pool, colours_keep_branches_separate) {
  branches b;
  make_branches(&b);
  cr_assert(branches_share(&b, make_compat_plan(&b.s, (compat_options){0})));
  cr_assert(!branches_share(
      &b, make_compat_plan(&b.s, (compat_options){.n_colours = 2})));
}

Test(offsets, branches_are_separate_if_requested) {
  branches b;
  make_branches(&b);
  cr_assert(!branches_share(
      &b, make_plan(&b.s, (tn__plan_options){.parallel = true})));
}

/* ------------------------------------------------------------------ offsets */

Test(offsets, a_block_is_split_and_merged) {
  small s;
  begin_net(&s);
  const uint32_t x = add_input(&s);
  const uint32_t a = add_unary(&s, 4 * KIB, x);
  (void)a;
  const uint32_t b = add_unary(&s, 2 * KIB, x), c = add_unary(&s, 2 * KIB, b);
  keep_entry(&s, add_binary(&s, 4 * KIB, b, c));
  s.net.n_nodes = 4;
  tn__memory_plan plan = make_plan(&s, (tn__plan_options){.align = 1});
  /* No node reads a: it has no memory at all. */
  cr_assert_eq(plan.places[a].storage, TN__STORAGE_NONE);
  cr_assert_eq(plan.places[a].request, TN_REQ_NULL);
  cr_assert_eq(tn__memory_plan_bytes(&plan), 8 * KIB);
  cr_assert_eq(tn__memory_plan_lower_bound(&plan), 8 * KIB);
  tn__memory_plan_deinit(&plan);
}

Test(offsets, a_workspace_overlaps_nothing_live) {
  small s;
  begin_net(&s);
  const uint32_t a = add_unary(&s, KIB, add_input(&s));
  keep_entry(&s, add_unary(&s, KIB, a));
  s.nodes[0].workspace = 3 * KIB;
  s.nodes[1].workspace = KIB;
  tn__memory_plan plan = make_plan(&s, (tn__plan_options){0});
  cr_assert_eq(tn__memory_plan_bytes(&plan), 4 * KIB);
  cr_assert_eq(plan.pools[0].workspace, 3 * KIB);
  cr_assert_eq(plan.pools[0].lower_bound, 4 * KIB);
  tn__memory_plan_deinit(&plan);
}

Test(offsets, are_multiples_of_the_alignment) {
  small s;
  begin_net(&s);
  const uint32_t x = add_input(&s), a = add_unary(&s, 100, x),
                 b = add_unary(&s, 100, x);
  keep_entry(&s, add_binary(&s, 100, a, b));
  tn__memory_plan plan = make_plan(&s, (tn__plan_options){.align = 256});
  for (size_t k = 0; k < plan.n_storages; ++k)
    cr_assert_eq(plan.storages[k].offset % 256, 0);
  cr_assert_eq(tn__memory_plan_bytes(&plan), 3 * 256);
  tn__memory_plan_deinit(&plan);
}

Test(offsets, every_device_has_a_pool_of_its_own) {
  small s;
  begin_net(&s);
  const uint32_t a = add_unary(&s, KIB, add_input(&s));
  const uint32_t b = add_unary(&s, 2 * KIB, a);
  keep_entry(&s, b);
  s.entries[b].device = 3;
  tn__memory_plan plan = make_plan(&s, (tn__plan_options){0});
  cr_assert_eq(plan.n_pools, 2);
  cr_assert_eq(plan.pools[0].bytes, KIB);
  cr_assert_eq(plan.pools[1].device, 3);
  cr_assert_eq(plan.pools[1].bytes, 2 * KIB);
  tn__memory_plan_deinit(&plan);
}

Test(offsets, an_empty_net_needs_nothing) {
  small s;
  begin_net(&s);
  tn__memory_plan plan = make_plan(&s, (tn__plan_options){0});
  cr_assert_eq(tn__memory_plan_bytes(&plan), 0);
  tn__memory_plan_deinit(&plan);
}

/* ------------------------------------------------------------- accumulation */

/* first, second -> sum. Returns the second term. */
static uint32_t make_sum(small *s) {
  begin_net(s);
  const uint32_t x = add_input(s), first = add_unary(s, KIB, x);
  const uint32_t second = add_unary(s, KIB, x);
  keep_entry(s, add_binary(s, KIB, first, second));
  add_pair(s, 0, 0, false);
  s->nodes[2].sum = true;
  return second;
}

Test(sums, the_second_term_is_added_to_the_memory_of_the_first) {
  small s;
  const uint32_t second = make_sum(&s);
  for (int compat = 0; compat < 2; ++compat) {
    tn__memory_plan plan =
        make_either_plan(&s, compat == 1, (tn__plan_options){0});
    cr_assert_eq(plan.places[second].request, TN_REQ_ADD);
    cr_assert_eq(plan.places[second].storage, plan.places[second - 1].storage);
    cr_assert(plan.skipped[2]);
    if (compat == 0) cr_assert_eq(tn__memory_plan_bytes(&plan), KIB);
    tn__memory_plan_deinit(&plan);
  }
}

static bool is_accumulated(const small *s, uint32_t second) {
  tn__memory_plan a = make_compat_plan(s, (compat_options){0});
  tn__memory_plan b = make_plan(s, (tn__plan_options){0});
  const bool answer = a.places[second].request == TN_REQ_ADD;
  cr_assert_eq(answer, b.places[second].request == TN_REQ_ADD);
  tn__memory_plan_deinit(&a);
  tn__memory_plan_deinit(&b);
  return answer;
}

Test(sums, not_when_another_reads_the_second_term) {
  small s;
  const uint32_t second = make_sum(&s);
  keep_entry(&s, second);
  cr_assert(!is_accumulated(&s, second));
}

Test(sums, not_when_another_reads_the_first_term_afterwards) {
  small s;
  const uint32_t second = make_sum(&s);
  keep_entry(&s, add_unary(&s, 4, second - 1));
  cr_assert(!is_accumulated(&s, second));
}

Test(sums, not_if_the_second_term_is_computed_from_the_first) {
  small s;
  const uint32_t second = make_sum(&s);
  s.in[1][0] = second - 1;
  cr_assert(!is_accumulated(&s, second));
}

Test(sums, not_into_external_memory) {
  small s;
  const uint32_t second = make_sum(&s);
  s.entries[second - 1].flags = TN__ENTRY_EXTERNAL;
  cr_assert(!is_accumulated(&s, second));
}

Test(sums, can_be_turned_off) {
  small s;
  const uint32_t second = make_sum(&s);
  for (int compat = 0; compat < 2; ++compat) {
    tn__memory_plan plan = make_either_plan(
        &s, compat == 1, (tn__plan_options){.no_accumulate = true});
    cr_assert_eq(plan.places[second].request, TN_REQ_WRITE);
    cr_assert(!plan.skipped[2]);
    tn__memory_plan_deinit(&plan);
  }
}

/* ----------------------------------------------------------------- refusals */

static void check_refusal(const small *s, const char *text) {
  const tn__plan_options options = {0};
  tn__memory_plan plan;
  cr_assert_eq(
      tn__memory_plan_init(&plan, tn__env_default(), &s->net, &options),
      TN_INVALID);
  cr_assert(strstr(tn_error_text(), text) != NULL, "%s", tn_error_text());
}

Test(refused, an_entry_that_no_node_writes) {
  chain c;
  make_chain(&c, KIB);
  c.s.in[0][0] = c.b;
  check_refusal(
      &c.s, "node 0 (?) reads an entry that no earlier node writes: entry 2");
}

Test(refused, entries_beyond_the_last) {
  chain c;
  make_chain(&c, KIB);
  c.s.nodes[1].name = "relu";
  c.s.in[1][0] = 99;
  check_refusal(&c.s, "node 1 (relu) reads beyond the last entry: entry 99");
  c.s.in[1][0] = c.a;
  c.s.nodes[1].n_out = 2;
  check_refusal(&c.s,
                "node 1 (relu) writes beyond the last entry, from entry 2");
}

Test(refused, two_writers) {
  chain c;
  make_chain(&c, KIB);
  c.s.nodes[1].first_out = c.a;
  check_refusal(&c.s, "writes an entry of another node: entry 1");
}

Test(refused, no_writer) {
  chain c;
  make_chain(&c, KIB);
  c.s.net.n_nodes = 1;
  check_refusal(&c.s, "entry 2 has no writer");
}

Test(refused, pairs_of_others) {
  chain c;
  make_chain(&c, KIB);
  c.s.pairs[1][0].in = 1;
  check_refusal(&c.s, "has an in-place pair with an unknown input: input 1");
  c.s.pairs[1][0] = (tn__plan_pair){0, 1, false};
  check_refusal(&c.s, "has an in-place pair with an unknown output: output 1");
}

Test(refused, waiting_for_a_later_node) {
  chain c;
  make_chain(&c, KIB);
  static const uint32_t AFTER[] = {1};
  c.s.nodes[1].after = AFTER;
  c.s.nodes[1].n_after = 1;
  check_refusal(&c.s, "waits for a node that is not before it: node 1");
}

Test(refused, sums_of_more_than_two) {
  chain c;
  make_chain(&c, KIB);
  c.s.nodes[1].sum = true;
  check_refusal(&c.s,
                "is a sum of two inputs, but the number of its inputs is 1");
}

Test(refused, more_bytes_than_there_are_addresses) {
  chain c;
  make_chain(&c, KIB);
  c.s.entries[c.a].bytes = SIZE_MAX - 8;
  check_refusal(&c.s, "more bytes than there are addresses");
  c.s.entries[c.a].bytes = c.s.entries[c.b].bytes = SIZE_MAX / 2 + 1;
  check_refusal(&c.s, "more bytes than there are addresses");
}
