/* SPDX-License-Identifier: Apache-2.0
 * Recomputing under a budget: its contract for every net, and its results for
 * the nets with published figures.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../meter.h"
#include "compat/compat.h"
#include "nets.h"
#include "random_net.h"
#include "recompute.h"

enum { MIB = 20 };

/* ------------------------------------------------------------------ any net */

static bool is_ignored(const tn__plan_node *node, uint32_t i) {
  return node->ignored != NULL && node->ignored[i];
}

/* Every node occurs once, and some forward nodes once more before the chosen
 * backward node. Every node reads an entry that replaces its original input. A
 * backward node after a repeat reads the entry of the repeat. */
static void check_repeated(const tn__recompute_net *from,
                           const tn__repeated_net *to,
                           const tn__recompute *answer) {
  const tn__plan_net *net = &to->net;
  uint32_t *count = calloc(from->net->n_nodes, sizeof *count);
  cr_assert_eq(tn__plan_net_check(tn__env_default(), net), TN_OK, "%s",
               tn_error_text());
  cr_assert_eq(net->n_nodes, from->net->n_nodes + answer->n_repeats);
  for (uint32_t k = 0; k < net->n_nodes; ++k) {
    const tn__plan_node *now = &net->nodes[k];
    const tn__plan_node *was = &from->net->nodes[to->node_of[k]];
    ++count[to->node_of[k]];
    cr_assert_eq(now->n_in, was->n_in);
    for (uint32_t i = 0; i < now->n_in; ++i)
      cr_assert_eq(to->entry_of[now->in[i]], was->in[i]);
    for (uint32_t o = 0; o < now->n_out; ++o)
      cr_assert_eq(to->entry_of[now->first_out + o], was->first_out + o);
  }
  for (uint32_t n = 0; n < from->net->n_nodes; ++n)
    cr_assert(count[n] == 1 ||
              (count[n] == 2 && n < from->n_forward && !from->costs[n].once));
  free(count);
}

/* No backward node reads a dropped entry. */
static void check_dropped(const tn__recompute_net *from,
                          const tn__repeated_net *to,
                          const tn__recompute *answer) {
  bool *repeated = calloc(from->net->n_entries, sizeof *repeated);
  for (size_t k = 0; k < answer->n_repeats; ++k) {
    const tn__plan_node *node = &from->net->nodes[answer->repeats[k].node];
    for (uint32_t o = 0; o < node->n_out; ++o)
      repeated[node->first_out + o] = true;
  }
  for (uint32_t k = from->n_forward; k < to->net.n_nodes; ++k)
    for (uint32_t i = 0; i < to->net.nodes[k].n_in; ++i) {
      const uint32_t e = to->net.nodes[k].in[i];
      cr_assert(e >= from->net->n_entries || !repeated[e] ||
                is_ignored(&to->net.nodes[k], i));
    }
  free(repeated);
}

static double work_of(const tn__recompute_net *net, const tn__recompute *r) {
  double all = 0, repeated = 0;
  for (uint32_t n = 0; n < net->n_forward; ++n) all += net->costs[n].work;
  for (size_t k = 0; k < r->n_repeats; ++k)
    repeated += net->costs[r->repeats[k].node].work;
  return all > 0 ? repeated / all : 0;
}

/* Chooses, and checks the answer against the whole contract. */
static tn__recompute choose_and_check_as(const tn__recompute_net *net,
                                         tn__recompute_options options,
                                         bool runs) {
  const size_t budget = options.budget;
  tn__recompute r;
  tn__repeated_net repeated;
  tn__memory_plan plan;
  tn__arena arena;
  cr_assert_eq(tn__recompute_init(&r, tn__env_default(), net, &options), TN_OK,
               "%s", tn_error_text());
  tn__arena_init(&arena, tn__env_default());
  cr_assert_eq(
      tn__repeated_net_make(&repeated, &arena, net, r.repeats, r.n_repeats),
      TN_OK);
  check_repeated(net, &repeated, &r);
  check_dropped(net, &repeated, &r);
  cr_assert_eq(tn__memory_plan_init(&plan, tn__env_default(), &repeated.net,
                                    &options.plan),
               TN_OK);
  cr_assert_eq(tn__memory_plan_bytes(&plan), r.bytes);
  cr_assert_eq(r.met, budget == 0 || r.bytes <= budget);
  cr_assert_leq(r.bytes, r.bytes_without);
  cr_assert_float_eq(r.extra, work_of(net, &r), 1e-9);
  cr_assert_leq(r.extra, 1.0 + 1e-9);
  const char *fault = runs ? run_plan(&repeated.net, &plan) : NULL;
  cr_assert(fault == NULL, "%s", fault == NULL ? "" : fault);
  tn__memory_plan_deinit(&plan);
  tn__arena_deinit(&arena);
  return r;
}

static tn__recompute choose_and_check(const tn__recompute_net *net,
                                      size_t budget, bool runs) {
  return choose_and_check_as(net, (tn__recompute_options){.budget = budget},
                             runs);
}

/* Divides a random net at some node. */
static tn__recompute_net divide_net(random_net *net, uint64_t seed) {
  static tn__recompute_cost costs[RANDOM_MAX_NODES];
  random_net_make(net, seed);
  const uint32_t n = (uint32_t)net->net.n_nodes;
  for (uint32_t k = 0; k < n; ++k)
    costs[k] = (tn__recompute_cost){1 + random_below(&net->state, 9),
                                    random_below(&net->state, 5) == 0};
  return (tn__recompute_net){&net->net,
                             n / 3 + random_below(&net->state, n / 2), costs};
}

Test(recompute, obeys_its_contract_in_random_nets) {
  random_net *net = malloc(sizeof *net);
  size_t n_repeats = 0, n_met = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const tn__recompute_net it = divide_net(net, seed);
    tn__recompute least = choose_and_check(&it, 0, true);
    const size_t middle = (least.bytes + least.bytes_without) / 2;
    tn__recompute some = choose_and_check(&it, middle == 0 ? 1 : middle, true);
    n_repeats += least.n_repeats;
    n_met += some.met && least.bytes < middle;
    cr_assert(!some.met || least.bytes < least.bytes_without ||
              some.n_repeats == 0);
    tn__recompute_deinit(&least);
    tn__recompute_deinit(&some);
  }
  cr_assert_gt(n_repeats, 100, "%zu", n_repeats);
  cr_assert_gt(n_met, 20, "%zu", n_met);
  free(net);
}

/* The answer to an unmet budget that is reported as the least is also the
 * answer to every smaller budget. */
Test(recompute, reports_that_no_smaller_plan_exists) {
  random_net *net = malloc(sizeof *net);
  size_t n_least = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const tn__recompute_net it = divide_net(net, seed);
    tn__recompute_options options = {0};
    tn__recompute least = choose_and_check_as(&it, options, false);
    for (size_t k = 1; k <= 4 && least.bytes >= 8; ++k) {
      options.budget = least.bytes * k / 4 - 1;
      tn__recompute some = choose_and_check_as(&it, options, false);
      cr_assert(!some.met);
      cr_assert(!some.least || some.bytes == least.bytes,
                "seed %lu, %zu of %zu bytes: %zu", (unsigned long)seed,
                options.budget, least.bytes, some.bytes);
      n_least += some.least;
      tn__recompute_deinit(&some);
    }
    tn__recompute_deinit(&least);
  }
  cr_assert_gt(n_least, 400, "%zu", n_least);
  free(net);
}

/* The least size of a net is a budget that is met, and so is every larger one.
 * This holds also where entries are smaller than their rounded size. */
static void check_budgets(const tn__recompute_net *it, uint64_t seed) {
  tn__recompute_options options = {0};
  tn__recompute least = choose_and_check_as(it, options, false);
  for (size_t k = 0; k < 4 && least.bytes > 0; ++k) {
    options.budget = least.bytes + (least.bytes_without - least.bytes) * k / 4;
    tn__recompute some = choose_and_check_as(it, options, true);
    cr_assert(some.met, "seed %lu, %zu of %zu bytes: %zu", (unsigned long)seed,
              options.budget, least.bytes_without, some.bytes);
    tn__recompute_deinit(&some);
  }
  tn__recompute_deinit(&least);
}

Test(recompute, meets_every_budget_that_can_be_met) {
  random_net *net = malloc(sizeof *net);
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    const tn__recompute_net it = divide_net(net, seed);
    check_budgets(&it, seed);
    for (size_t e = 0; e < net->net.n_entries; ++e) net->entries[e].bytes %= 60;
    check_budgets(&it, seed);
  }
  free(net);
}

Test(recompute, repeats_nothing_if_memory_suffices) {
  static tn__recompute_cost costs[RANDOM_MAX_NODES];
  random_net *net = malloc(sizeof *net);
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    random_net_make(net, seed);
    const tn__recompute_net it = {&net->net, (uint32_t)net->net.n_nodes / 2,
                                  costs};
    tn__recompute any = choose_and_check(&it, (size_t)1 << 40, true);
    cr_assert_eq(any.n_repeats, 0);
    cr_assert_eq(any.bytes, any.bytes_without);
    tn__recompute_deinit(&any);
  }
  free(net);
}

/* f0 .. f3 in a chain, b3 .. b0 back, each of which reads the output of f. */
typedef struct chain {
  tn__plan_entry entries[9];
  tn__plan_node nodes[8];
  uint32_t in[8][2];
  tn__plan_net net;
  tn__recompute_cost costs[4];
} chain;

static void make_chain(chain *c) {
  memset(c, 0, sizeof *c);
  for (uint32_t e = 0; e < 9; ++e)
    c->entries[e] = (tn__plan_entry){.bytes = e < 5 ? 1024 : 64,
                                     .n_elements = 16,
                                     .dtype = TN_F32,
                                     .flags = e == 0 ? TN__ENTRY_EXTERNAL : 0};
  c->entries[8].flags = TN__ENTRY_HEAD;
  for (uint32_t k = 0; k < 8; ++k) {
    c->in[k][0] = k;
    c->in[k][1] = 8 - k;
    c->nodes[k] = (tn__plan_node){
        .first_out = k + 1, .n_out = 1, .in = c->in[k], .n_in = k < 4 ? 1 : 2};
  }
  for (int k = 0; k < 4; ++k) c->costs[k].work = 1;
  c->net = (tn__plan_net){c->nodes, 8, c->entries, 9};
}

/* At the turn all four are live: 4 KiB. Without those of f0 and f1, which are
 * repeated after f3's and f2's were used, three are live: one is read, one is
 * written, and one is kept. */
Test(recompute, a_chain_needs_three_of_its_four_entries) {
  chain c;
  make_chain(&c);
  const tn__recompute_net it = {&c.net, 4, c.costs};
  tn__recompute r = choose_and_check(&it, 0, true);
  cr_assert_geq(r.bytes_without, 4 * 1024);
  cr_assert_leq(r.bytes, 3 * 1024 + 2 * 64);
  cr_assert_geq(r.n_repeats, 1);
  tn__recompute_deinit(&r);
}

Test(recompute, never_repeats_nodes_that_may_run_only_once) {
  chain c;
  make_chain(&c);
  for (int k = 0; k < 4; ++k) c.costs[k].once = true;
  const tn__recompute_net it = {&c.net, 4, c.costs};
  tn__recompute r = choose_and_check(&it, 0, true);
  cr_assert_eq(r.n_repeats, 0);
  tn__recompute_deinit(&r);
}

Test(recompute, refuses_a_forward_part_longer_than_the_net) {
  chain c;
  make_chain(&c);
  const tn__recompute_net it = {&c.net, 9, c.costs};
  const tn__recompute_options options = {0};
  tn__recompute r;
  cr_assert_eq(tn__recompute_init(&r, tn__env_default(), &it, &options),
               TN_INVALID);
  cr_assert_str_eq(tn_error_text(),
                   "recompute: a forward part of 9 nodes in a net of 8");
}

Test(recompute, survives_the_failure_of_any_allocation) {
  chain c;
  make_chain(&c);
  const tn__recompute_net it = {&c.net, 4, c.costs};
  const tn__recompute_options options = {.budget = 3 * 1024 + 256};
  size_t n_failed = 0;
  for (size_t fail_at = 1;; ++fail_at) {
    meter m = {.fail_at = fail_at};
    tn__env env = *tn__env_default();
    env.allocator = (tn_allocator){&m, meter_alloc, meter_free};
    tn__recompute r;
    const tn_code code = tn__recompute_init(&r, &env, &it, &options);
    if (code == TN_OK) tn__recompute_deinit(&r);
    cr_assert_eq(m.n_living, 0, "after failure %zu", fail_at);
    if (code == TN_OK) break;
    cr_assert_eq(code, TN_OUT_OF_MEMORY);
    ++n_failed;
  }
  cr_assert_gt(n_failed, 10);
}

/* ----------------------------------------------------------- published nets */

typedef struct trained {
  net_graph *n;
  net_plan *lowered;
  tn__recompute_cost *costs;
  tn__recompute_net it;
} trained;

static trained train_net(net_graph *n) {
  trained t = {.n = n};
  net_gradient(n, NULL, NULL);
  t.lowered = net_lower(n);
  t.costs = calloc(t.lowered->n_forward, sizeof *t.costs);
  for (uint32_t k = 0; k < t.lowered->n_forward; ++k) {
    const net_node *node = &n->nodes[t.lowered->node_of[k]];
    t.costs[k] = (tn__recompute_cost){node->cost, node->op == NET_DROPOUT};
  }
  t.it = (tn__recompute_net){&t.lowered->net, t.lowered->n_forward, t.costs};
  return t;
}

static void release_trained(trained *t) {
  free(t->costs);
  net_plan_free(t->lowered);
  net_free(t->n);
}

/* Takes the budget in MiB, 0 for as few bytes as possible. Returns the size of
 * the plan and sets the extra work. */
static size_t fit_budget(const char *name, const trained *t, size_t budget,
                         double *extra) {
  tn__recompute r = choose_and_check(&t->it, budget << MIB, false);
  const size_t mb = r.bytes >> MIB;
  fprintf(stderr,
          "%-28s budget %6zu MB: %6zu -> %6zu MB, %.3f forward passes more\n",
          name, budget, r.bytes_without >> MIB, mb, r.extra);
  cr_assert(budget == 0 || r.met, "%s: %zu MB of %zu", name, mb, budget);
  *extra = r.extra;
  tn__recompute_deinit(&r);
  return mb;
}

static const int RESNET_50[4] = {3, 4, 6, 3};

Test(recompute, resnet_50_needs_no_more_than_the_sublinear_plan) {
  static const size_t BUDGETS[] = {3300, 2843, 2000, 1250};
  trained t = train_net(net_resnet(32, RESNET_50));
  double extra, before = 0;
  for (int k = 0; k < 4; ++k) {
    (void)fit_budget("resnet-50", &t, BUDGETS[k], &extra);
    cr_expect_leq(extra, 1.0);
    cr_expect_geq(extra, before, "less memory for less work");
    before = extra;
  }
  cr_expect_lt(fit_budget("resnet-50", &t, 0, &extra), 1250);
  cr_expect_leq(extra, 1.0);
  release_trained(&t);
}

/* Norms and activations are cheap. If dropping them suffices, nothing else is
 * dropped. */
Test(recompute, drops_cheap_nodes_first) {
  trained t = train_net(net_resnet(32, RESNET_50));
  double extra;
  (void)fit_budget("resnet-50", &t, 2843, &extra);
  cr_expect_leq(extra, 0.01);
  release_trained(&t);
}

Test(recompute, a_thousand_layers_train_in_seven_gigabytes) {
  trained t = train_net(net_resnet(32, (const int[]){3, 150, 177, 3}));
  double extra;
  (void)fit_budget("resnet, 1000 layers", &t, 7000, &extra);
  cr_expect_leq(extra, 1.0);
  release_trained(&t);
}

Test(recompute, a_long_lstm_needs_a_quarter_of_the_optimised_plan) {
  trained t = train_net(net_lstm(100, 4));
  const compat_options compat = {0};
  tn__memory_plan plan;
  double extra;
  cr_assert_eq(compat_plan_init(&plan, tn__env_default(), t.it.net, &compat),
               TN_OK);
  const size_t optimised = sum_separate(&plan) >> MIB;
  tn__memory_plan_deinit(&plan);
  cr_expect_lt(4 * fit_budget("lstm 4 x 1024, 100 steps", &t, 0, &extra),
               optimised);
  release_trained(&t);
}

Test(recompute, other_nets_need_far_less_memory) {
  trained t = train_net(net_inception_bn(32, false));
  double extra;
  cr_expect_leq(2 * fit_budget("inception-bn", &t, 0, &extra), 1198);
  release_trained(&t);
  t = train_net(net_googlenet(64));
  cr_expect_leq(2 * fit_budget("googlenet", &t, 0, &extra), 1348);
  release_trained(&t);
}
