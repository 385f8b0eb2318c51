/* SPDX-License-Identifier: Apache-2.0
 * Plans that keep branches parallel: memory makes no node wait that does not
 * wait for data.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "nets.h"
#include "planning.h"
#include "random_net.h"

/* The order of nodes by brute force: bits, a row for each node. */
typedef struct matrix {
  const tn__plan_net *net;
  size_t words; /* of a row */
  uint64_t *bits;
  uint32_t *writer; /* by entry */
} matrix;

static void set_after(matrix *m, uint32_t late, uint32_t early) {
  uint64_t *row = m->bits + late * m->words;
  for (size_t k = 0; k < m->words; ++k) row[k] |= m->bits[early * m->words + k];
}

static bool is_after(const matrix *m, uint32_t late, uint32_t early) {
  return m->bits[late * m->words + early / 64] >> (early % 64) & 1;
}

static bool is_read(const tn__plan_node *node, uint32_t i) {
  return node->ignored == NULL || !node->ignored[i];
}

static matrix make_matrix(const tn__plan_net *net) {
  matrix m = {.net = net, .words = net->n_nodes / 64 + 1};
  m.bits = calloc(net->n_nodes * m.words + 1, sizeof *m.bits);
  m.writer = calloc(net->n_entries + 1, sizeof *m.writer);
  memset(m.writer, 0xff, net->n_entries * sizeof *m.writer);
  for (uint32_t n = 0; n < net->n_nodes; ++n) {
    const tn__plan_node *node = &net->nodes[n];
    m.bits[n * m.words + n / 64] |= (uint64_t)1 << (n % 64);
    for (uint32_t i = 0; i < node->n_in; ++i)
      if (is_read(node, i) && m.writer[node->in[i]] != TN__NO_NODE)
        set_after(&m, n, m.writer[node->in[i]]);
    for (uint32_t i = 0; i < node->n_after; ++i)
      set_after(&m, n, node->after[i]);
    for (uint32_t o = 0; o < node->n_out; ++o)
      m.writer[node->first_out + o] = n;
  }
  return m;
}

static void matrix_free(matrix *m) {
  free(m->bits);
  free(m->writer);
}

/* -------------------------------------------------------------------- order */

/* Checks that true is never wrong. Returns the number of wrong falses. */
static size_t compare_branches(const tn__plan_net *net, uint64_t seed) {
  matrix m = make_matrix(net);
  tn__arena arena;
  tn__branches *branches;
  size_t n_missed = 0;
  tn__arena_init(&arena, tn__env_default());
  cr_assert_eq(tn__branches_create(net, m.writer, &arena, &branches), TN_OK);
  for (uint32_t late = 0; late < net->n_nodes; ++late)
    for (uint32_t early = 0; early <= late; ++early) {
      const bool reported = tn__branches_is_after(branches, late, early);
      n_missed += !reported && is_after(&m, late, early);
      cr_assert(!reported || is_after(&m, late, early),
                "seed %lu: %u does not wait for %u", (unsigned long)seed, late,
                early);
    }
  tn__arena_deinit(&arena);
  matrix_free(&m);
  return n_missed;
}

Test(parallel, order_of_nodes_is_found_in_short_nets) {
  random_net *net = malloc(sizeof *net);
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    random_net_make(net, seed);
    cr_assert_eq(compare_branches(&net->net, seed), 0, "seed %lu",
                 (unsigned long)seed);
  }
  free(net);
}

static net_plan *lower_net(net_graph *n) {
  net_gradient(n, NULL, NULL);
  net_plan *lowered = net_lower(n);
  net_free(n);
  return lowered;
}

/* In longer nets a few falses are wrong. */
Test(parallel, order_of_nodes_is_found_in_real_nets) {
  net_plan *lowered = lower_net(net_inception_bn(32, false));
  cr_assert_eq(compare_branches(&lowered->net, 0), 0);
  net_plan_free(lowered);
  lowered = lower_net(net_lstm(20, 4));
  const size_t n = lowered->net.n_nodes;
  cr_assert_leq(compare_branches(&lowered->net, 0), n * n / 100);
  net_plan_free(lowered);
}

/* ------------------------------------------------------------------ sharing */

/* The nodes that use each storage, in order. */
typedef struct users {
  uint32_t *n;
  uint32_t **v;
} users;

static void add_user(users *u, int32_t s, uint32_t n) {
  if (s < 0 || (u->n[s] > 0 && u->v[s][u->n[s] - 1] == n)) return;
  u->v[s] = realloc(u->v[s], (u->n[s] + 1) * sizeof **u->v);
  u->v[s][u->n[s]++] = n;
}

static users list_users(const tn__plan_net *net, const tn__memory_plan *plan) {
  users u = {calloc(plan->n_storages + 1, sizeof *u.n),
             calloc(plan->n_storages + 1, sizeof *u.v)};
  for (uint32_t n = 0; n < net->n_nodes; ++n) {
    const tn__plan_node *node = &net->nodes[n];
    for (uint32_t i = 0; i < node->n_in; ++i)
      if (is_read(node, i)) add_user(&u, plan->places[node->in[i]].storage, n);
    for (uint32_t o = 0; o < node->n_out; ++o)
      add_user(&u, plan->places[node->first_out + o].storage, n);
  }
  return u;
}

static void users_free(users *u, size_t n_storages) {
  for (size_t s = 0; s < n_storages; ++s) free(u->v[s]);
  free(u->v);
  free(u->n);
}

/* Returns whether node `n` overwrites memory that output `o` shares. An
 * identity and a skipped sum write nothing. */
static bool writes_over(const tn__plan_net *net, const tn__memory_plan *plan,
                        uint32_t n, uint32_t o) {
  const tn__plan_node *node = &net->nodes[n];
  const tn__plan_place *place = &plan->places[node->first_out + o];
  if (plan->skipped[n]) return false;
  for (uint32_t k = 0; k < node->n_pairs; ++k)
    if (node->pairs[k].identity && node->pairs[k].out == o &&
        (int32_t)node->pairs[k].in == place->alias)
      return false;
  return place->request == TN_REQ_INPLACE || place->request == TN_REQ_ADD;
}

static void check_overwriting(const matrix *m, const tn__memory_plan *plan,
                              const users *u) {
  for (uint32_t n = 0; n < m->net->n_nodes; ++n)
    for (uint32_t o = 0; o < m->net->nodes[n].n_out; ++o) {
      const uint32_t e = m->net->nodes[n].first_out + o;
      if (!writes_over(m->net, plan, n, o)) continue;
      const int32_t s = plan->places[e].storage;
      for (uint32_t k = 0; k < u->n[s] && u->v[s][k] < n; ++k)
        cr_assert(is_after(m, n, u->v[s][k]),
                  "node %u overwrites an entry that node %u uses", n,
                  u->v[s][k]);
    }
}

static bool do_overlap(const tn__plan_storage *a, const tn__plan_storage *b) {
  return a->device == b->device && a->offset < b->offset + b->bytes &&
         b->offset < a->offset + a->bytes;
}

/* Returns the number of pairs of storages that overlap. */
static size_t check_sharing(const matrix *m, const tn__memory_plan *plan,
                            const users *u) {
  size_t n_shared = 0;
  for (uint32_t a = 0; a < plan->n_storages; ++a)
    for (uint32_t b = 0; b < plan->n_storages; ++b) {
      if (a == b || plan->storages[a].first > plan->storages[b].first ||
          !do_overlap(&plan->storages[a], &plan->storages[b]))
        continue;
      ++n_shared;
      for (uint32_t k = 0; k < u->n[a]; ++k)
        cr_assert(is_after(m, plan->storages[b].first, u->v[a][k]),
                  "storage %u of node %u is taken by storage %u", a, u->v[a][k],
                  b);
    }
  return n_shared;
}

static size_t check_plan(const tn__plan_net *net) {
  const tn__plan_options options = {.parallel = true};
  tn__memory_plan plan;
  cr_assert_eq(tn__memory_plan_init(&plan, tn__env_default(), net, &options),
               TN_OK, "%s", tn_error_text());
  matrix m = make_matrix(net);
  users u = list_users(net, &plan);
  check_overwriting(&m, &plan, &u);
  const size_t n_shared = check_sharing(&m, &plan, &u);
  users_free(&u, plan.n_storages);
  matrix_free(&m);
  tn__memory_plan_deinit(&plan);
  return n_shared;
}

Test(parallel, memory_makes_no_node_wait_in_random_nets) {
  random_net *net = malloc(sizeof *net);
  size_t n_shared = 0;
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    random_net_make(net, seed);
    n_shared += check_plan(&net->net);
  }
  cr_assert_gt(n_shared, 1000, "nothing was shared: %zu", n_shared);
  free(net);
}

/* These nets are long enough for chunks to be merged. */
Test(parallel, memory_makes_no_node_wait_in_real_nets) {
  net_graph *nets[] = {net_inception_bn(32, true), net_lstm(30, 4),
                       net_resnet(32, (const int[]){3, 38, 45, 3})};
  for (int k = 0; k < 3; ++k) {
    net_plan *lowered = lower_net(nets[k]);
    cr_assert_gt(check_plan(&lowered->net), 100);
    net_plan_free(lowered);
  }
}

/* Nearly all nodes of a recurrent net wait for the nodes before them, so that
 * its branches cost little. */
Test(parallel, a_recurrent_net_pays_little_for_it) {
  net_plan *lowered = lower_net(net_lstm(100, 4));
  const tn__plan_options options = {.parallel = true};
  tn__memory_plan plan;
  cr_assert_eq(
      tn__memory_plan_init(&plan, tn__env_default(), &lowered->net, &options),
      TN_OK);
  cr_assert_leq((double)tn__memory_plan_bytes(&plan),
                1.2 * (double)tn__memory_plan_lower_bound(&plan));
  tn__memory_plan_deinit(&plan);
  net_plan_free(lowered);
}

/* ------------------------------------------------------------ long and wide */

/* Nodes with one output each, in memory of its own. */
typedef struct built {
  tn__plan_net net;
  tn__plan_node *nodes;
  tn__plan_entry *entries;
  uint64_t state;
} built;

static built build_empty(uint32_t most) {
  return (built){.nodes = calloc(most, sizeof(tn__plan_node)),
                 .entries = calloc(most, sizeof(tn__plan_entry)),
                 .state = 7};
}

/* Returns the output of the new node, 64 to 64*n_sizes bytes. */
static uint32_t node_add(built *b, const uint32_t *in, uint32_t n_in,
                         uint32_t n_sizes) {
  const uint32_t n = (uint32_t)b->net.n_nodes++;
  const size_t bytes = 64 * (1 + (size_t)random_below(&b->state, n_sizes));
  uint32_t *list = calloc(n_in + 1u, sizeof *list);
  for (uint32_t i = 0; i < n_in; ++i) list[i] = in[i];
  b->nodes[n] =
      (tn__plan_node){.first_out = n, .n_out = 1, .in = list, .n_in = n_in};
  b->entries[n] = (tn__plan_entry){
      .bytes = bytes, .n_elements = (int64_t)bytes / 4, .dtype = TN_F32};
  b->net = (tn__plan_net){b->nodes, n + 1u, b->entries, n + 1u};
  return n;
}

static void built_free(built *b) {
  for (size_t n = 0; n < b->net.n_nodes; ++n)
    free((uint32_t *)(uintptr_t)b->nodes[n].in);
  free(b->nodes);
  free(b->entries);
}

static size_t plan_bytes(const tn__plan_net *net, size_t *bound) {
  const tn__plan_options options = {.parallel = true};
  tn__memory_plan plan;
  cr_assert_eq(tn__memory_plan_init(&plan, tn__env_default(), net, &options),
               TN_OK, "%s", tn_error_text());
  const size_t bytes = tn__memory_plan_bytes(&plan);
  *bound = tn__memory_plan_lower_bound(&plan);
  tn__memory_plan_deinit(&plan);
  return bytes;
}

/* In a row each node comes after all before it, at any distance. */
Test(parallel, a_row_of_any_length_costs_nothing) {
  enum { N = 5000 };
  built b = build_empty(N);
  size_t bound;
  uint32_t e = node_add(&b, NULL, 0, 1000);
  for (int i = 1; i < N; ++i) e = node_add(&b, &e, 1, 1000);
  cr_assert_leq(plan_bytes(&b.net, &bound), 2 * bound);
  built_free(&b);
}

/* One entry has more readers than are listed separately. They end in one node,
 * or each of them begins a branch. */
Test(parallel, memory_makes_no_node_wait_if_many_read_one_entry) {
  enum { WIDE = 100, ENDS = 3 };
  for (uint32_t n_ends = 1; n_ends <= ENDS; ++n_ends)
    for (uint32_t together = 0; together < 2; ++together) {
      built b = build_empty(2 * WIDE + 20);
      uint32_t ends[WIDE], root = node_add(&b, NULL, 0, 10);
      for (uint32_t i = 0; i < WIDE; ++i) ends[i] = node_add(&b, &root, 1, 10);
      for (uint32_t i = 0; i < WIDE; ++i)
        if (!together) ends[i] = node_add(&b, &ends[i], 1, 10);
      for (uint32_t i = 0; i < n_ends; ++i) {
        const uint32_t from = WIDE * i / n_ends, to = WIDE * (i + 1) / n_ends;
        uint32_t e = node_add(&b, ends + from, to - from, 10);
        for (int k = 0; k < 4; ++k) e = node_add(&b, &e, 1, 10);
      }
      cr_assert_gt(check_plan(&b.net), 0);
      built_free(&b);
    }
}

/* The same with so many chunks in use that they are merged. The released chunk
 * has more users than are listed. */
Test(parallel, memory_of_unnamed_users_is_merged_with_no_other) {
  enum { HELD = 1100, ENDS = 33 };
  built b = build_empty(HELD + ENDS + 4);
  uint32_t held[HELD];
  const uint32_t y = node_add(&b, NULL, 0, 1), x = node_add(&b, NULL, 0, 1);
  for (int i = 0; i < HELD; ++i) held[i] = node_add(&b, NULL, 0, 1);
  (void)node_add(&b, &y, 1, 1);
  for (int i = 0; i < ENDS; ++i) (void)node_add(&b, &x, 1, 1);
  (void)node_add(&b, held, HELD, 1);
  (void)check_plan(&b.net);
  built_free(&b);
}

/* Terms of one entry, each added to the sum of the terms before it. */
Test(parallel, plans_of_a_hundred_thousand_nodes_are_made_at_once,
     .timeout = 100) {
  enum { N = 50000 };
  built b = build_empty(2 * N + 2);
  size_t bound;
  const uint32_t root = node_add(&b, NULL, 0, 1);
  uint32_t sum = node_add(&b, &root, 1, 1);
  for (int i = 0; i < N; ++i) {
    const uint32_t pair[] = {sum, node_add(&b, &root, 1, 1)};
    sum = node_add(&b, pair, 2, 1);
  }
  cr_assert_geq(plan_bytes(&b.net, &bound), bound);
  built_free(&b);
}

/* The last node also reads all nodes of the row. */
Test(parallel, branches_of_many_nodes_are_found_at_once, .timeout = 100) {
  enum { N = 300000 };
  built b = build_empty(N + 2);
  uint32_t *row = calloc(N, sizeof *row);
  bool *which = calloc(N + 1, sizeof *which), found = true;
  for (uint32_t i = 0; i < N; ++i)
    row[i] = node_add(&b, &row[i > 0 ? i - 1 : 0], i > 0, 1);
  (void)node_add(&b, row, N, 1);
  memset(which, 1, N + 1);
  cr_assert_eq(
      tn__plan_net_has_branches(tn__env_default(), &b.net, which, &found),
      TN_OK);
  cr_assert_not(found);
  free(which);
  free(row);
  built_free(&b);
}
