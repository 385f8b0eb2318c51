/* SPDX-License-Identifier: Apache-2.0
 * Plugins with passes: loading and unloading them, passes of two plugins with
 * one name, random changes of a graph, and failing allocations.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../by_hand.h"
#include "pass_fixture.h"

TestSuite(pass_plugins, .init = open_all, .fini = net_close);

/* ------------------------------------------------------------------- loading
 */

static const tn_pass *guest_pass;
static tn_code guest_code;

static int32_t guest_init(const tn_host *host, tn_registrar *registrar,
                          void **instance) {
  const tn_passes *passes = host->extension(host, TN_PASS_EXTENSION);
  (void)instance;
  /* It ignores the result. */
  for (int i = 0; guest_pass && i < 2; ++i)
    guest_code = passes->add(registrar, guest_pass);
  return TN_OK;
}

static int32_t leave_graph(void *ctx, tn_rewrite *net) {
  (void)ctx, (void)net;
  guest_code = tn__plugin_unload(w.registry, "guests");
  return guest_code == TN_BUSY ? TN_OK : TN_INTERNAL;
}

static const tn_plugin guests = {PLUGIN_BY_HAND("guests", 1, "A pass"),
                                 .init = guest_init};

#define MISTAKE(part, ...)                                                \
  do {                                                                    \
    guest_pass = &(tn_pass){.struct_size = sizeof(tn_pass), __VA_ARGS__}; \
    FAILS(tn__plugin_add(w.registry, &guests), guest_code,                \
          "init of the plugin \"guests\" failed", (part));                \
    cr_assert_lt(guest_code, 0);                                          \
  } while (0)

Test(pass_plugins, that_are_wrong_refuse_their_plugin) {
  static const char *const nothing[] = {""}, *const strange[] = {"guest.x"};
  MISTAKE("a pass without a name", .run = leave_graph, .name = NULL);
  MISTAKE("\"Square\" cannot name a pass", .run = leave_graph,
          .name = "Square");
  MISTAKE("\"a.b\" cannot name a pass", .run = leave_graph, .name = "a.b");
  MISTAKE("\"p\" is a pass without `run`", .name = "p");
  MISTAKE("\"p\" is a pass that needs something without a name",
          .run = leave_graph, .name = "p", .n_needs = 1, .needs = nothing);
  MISTAKE("\"p\" is a pass that needs something without a name",
          .run = leave_graph, .name = "p", .n_needs = 1);
  MISTAKE("that provides something without a name", .run = leave_graph,
          .name = "p", .n_provides = 1, .provides = nothing);
  MISTAKE("does not begin with its plugin's name", .run = leave_graph,
          .name = "p", .n_provides = 1, .provides = strange);
  MISTAKE("\"p\" is a pass with flags", .run = leave_graph, .name = "p",
          .flags = 2);
  MISTAKE("\"p\" is the name of two passes", .run = leave_graph, .name = "p");
}

static int32_t guest_once(const tn_host *host, tn_registrar *registrar,
                          void **instance) {
  static const tn_pass pass = {
      .struct_size = sizeof pass, .name = "leave", .run = leave_graph};
  const tn_passes *passes = host->extension(host, TN_PASS_EXTENSION);
  (void)instance;
  return passes->add(registrar, &pass);
}

Test(pass_plugins, hold_their_plugin_while_they_run) {
  static tn_plugin plugin; /* outlives the test */
  plugin = guests;
  plugin.init = guest_once;
  OK(tn__plugin_add(w.registry, &plugin));
  simple_net();
  guest_code = TN_OK;
  tn_graph *out = apply_passes(NAMES("guests.leave"));
  cr_expect_eq(guest_code, TN_BUSY);
  tn__graph_release(out);
  OK(tn__plugin_unload(w.registry, "guests"));
  expect_refused(NAMES("guests.leave"), TN_NOT_FOUND,
                 PARTS("there is no pass `guests.leave`"));
}

Test(pass_plugins, are_gone_with_their_plugin) {
  simple_net();
  OK(tn__plugin_unload(w.registry, "rewriter"));
  expect_refused(NAMES("rewriter.square"), TN_NOT_FOUND,
                 PARTS("(known: infer, flatten, gradient)"));
  OK(tn__plugin_load(w.registry, PASSES_FILE));
  tn_graph *out = apply_passes(NAMES("rewriter.square"));
  tn__graph_release(out);
}

static int32_t provide_it(const tn_host *host, tn_registrar *registrar,
                          void **instance) {
  (void)host, (void)instance;
  guest_code = registrar->provide(registrar, TN_PASS_EXTENSION, registrar);
  return TN_OK;
}

Test(pass_plugins, are_accepted_from_the_host_only) {
  static tn_plugin plugin; /* outlives the test */
  plugin = guests;
  plugin.init = provide_it;
  OK(tn__plugin_add(w.registry, &plugin));
  cr_expect_eq(guest_code, TN_EXISTS);
}

Test(pass_plugins, are_not_accepted_by_a_host_without_graphs) {
  OK(tn__plugin_unload(w.registry, "rewriter"));
  w.registry->passes = NULL;
  FAILS(tn__plugin_load(w.registry, PASSES_FILE), TN_UNSUPPORTED,
        "this host takes no passes");
}

/* -------------------------------------------------------------------- chaos
 */

static uint64_t state;

static uint32_t random_below(uint32_t n) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return n ? (uint32_t)(state >> 33) % n : 0;
}

/* Random changes, some of which fail at once. */
static int32_t change_randomly(void *ctx, tn_rewrite *net) {
  const tn_passes *t = &tn__passes_table;
  static const char *const ops[] = {"lab.tanh", "lab.mul", "lab.same",
                                    "lab.cast"};
  (void)ctx;
  for (uint32_t k = 1 + random_below(4); k > 0; --k) {
    const uint32_t n = t->n_nodes(net) + random_below(2);
    const tn_entry a = {random_below(n), random_below(8) == 0},
                   b = {random_below(n), random_below(8) == 0};
    const tn_rewrite_call call = {.struct_size = sizeof call,
                                  .n_in = 1 + random_below(2),
                                  .op = ops[random_below(4)],
                                  .in = (const tn_entry[]){a, b}};
    tn_entry out = b;
    int32_t rc = TN_OK;
    if (random_below(3) > 0) rc = t->call(net, &call, &out);
    if (rc == TN_OK) rc = t->redirect(net, a, out);
    if (random_below(3) == 0)
      rc = t->rewire(net, random_below(n), random_below(3), b);
    (void)rc;
  }
  return TN_OK;
}

/* Calls, one that changes a state, gradients; heads here and there. */
static void random_net(void) {
  static const char *const ops[] = {"mul", "add", "pair"};
  tn_entry all[40], slope;
  uint32_t n = 0;
  all[n++] = typed_var(g, "x", F64(3));
  all[n++] = typed_var(g, "y", F64(3));
  for (; n < 10; ++n)
    all[n] = OP(g, ops[random_below(3)], NULL, NULL, all[random_below(n)],
                all[random_below(n)]);
  all[n] = OP(g, "track", NULL, NULL, all[random_below(n)]);
  ++n;
  const tn__gradient_spec spec = {
      .query = {.heads = &all[n - 1], .of = all, .n_heads = 1, .n_of = 1},
      .optional = 1};
  OK(tn__graph_gradient(g, &spec, &slope));
  if (tn__entry_is_none(slope)) slope = all[2];
  HEADS(g, all[n - 1], slope, all[random_below(n)]);
}

static int32_t chaos_init(const tn_host *host, tn_registrar *registrar,
                          void **instance) {
  static const tn_pass pass = {
      .struct_size = sizeof pass, .name = "meddle", .run = change_randomly};
  const tn_passes *passes = host->extension(host, TN_PASS_EXTENSION);
  (void)instance;
  return passes->add(registrar, &pass);
}

/* After any pass there is a message, or a valid graph: the reader of files,
 * which trusts no file, accepts it. */
Test(pass_plugins, cannot_make_a_graph_that_is_none) {
  static tn_plugin plugin; /* outlives the test */
  const char *const names[] = {"infer", "guests.meddle", "guests.meddle"};
  int made = 0, refused_ = 0;
  plugin = guests;
  plugin.init = chaos_init;
  OK(tn__plugin_add(w.registry, &plugin));
  for (int round = 0; round < 3000; ++round) {
    tn_graph *out = NULL, *read = NULL;
    state = (uint64_t)round;
    random_net();
    if (tn__graph_apply(g, names, 3, &out) != TN_OK) {
      ++refused_;
    } else {
      char *text = json_of(out);
      OK(tn__graph_parse(&w.caller, text, strlen(text), &read));
      const tn_code rc = tn__graph_infer(read, NULL, 0);
      /* A shape may have followed from a node that was removed. */
      cr_assert(rc == TN_OK || rc == TN_INCOMPLETE, "round %d: %s", round,
                tn_error_text());
      tn__graph_release(read);
      free(text);
      ++made;
    }
    tn__graph_release(out);
    net_renew();
  }
  cr_expect_gt(made, 300);
  cr_expect_gt(refused_, 300);
}

/* -------------------------------------------------------------------- faults
 */

/* Loading the plugin, a list of passes, and a program, with each allocation
 * failing in turn. */
static tn_graph *loops;

static tn_code run_life(void) {
  tn_graph *out = NULL;
  tn_program *p = NULL;
  const tn_argument given = {.name = "x", .known = F32(3)};
  const char *const names[] = {"rewriter.square", "gradient", "rewriter.twice",
                               "rewriter.bare"};
  const tn_bind how = {.struct_size = sizeof how,
                       .arguments = &given,
                       .n_arguments = 1,
                       .request = TN_REQ_WRITE,
                       .passes = names,
                       .n_passes = 4};
  TN__TRY(tn__plugin_load(w.registry, PASSES_FILE));
  tn_code rc = tn__graph_apply(loops, NAMES("rewriter.drop"), &out);
  tn__graph_release(out);
  if (rc == TN_OK)
    rc = tn__graph_apply(
        g, NAMES("rewriter.square", "rewriter.tidy", "rewriter.again"), &out);
  tn__graph_release(out);
  if (rc == TN_OK) rc = tn__program_bind(g, &how, &p);
  tn__program_release(p);
  return rc;
}

Test(pass_plugins, survive_each_failing_allocation) {
  int64_t struck = 0;
  loop_net();
  loops = g;
  g = net_new();
  known_net();
  OK(tn__plugin_unload(w.registry, "rewriter"));
  for (int64_t i = 1;; ++i) {
    char *before = json_of(g);
    w.memory.asked = 0;
    w.memory.fail_at = i;
    const tn_code rc = run_life();
    w.memory.fail_at = 0;
    char *after = json_of(g);
    cr_assert_str_eq(after, before);
    free(before), free(after);
    const tn_code left = tn__plugin_unload(w.registry, "rewriter");
    cr_assert(left == TN_OK || left == TN_NOT_FOUND);
    if (rc == TN_OK) break;
    cr_assert_eq(rc, TN_OUT_OF_MEMORY, "allocation %lld: %s", (long long)i,
                 tn_error_text());
    ++struck;
  }
  tn__graph_release(loops);
  cr_assert_gt(struck, 100);
}
