/* SPDX-License-Identifier: Apache-2.0
 * rewriter.c: a plugin of passes over graphs of lab's operators. Those of the
 * second half have one defect each.
 */
#include <string.h>

#include "plugin.gen.h"
#include "tenon/draft/pass.h"

static const tn_passes *passes;

#define TRY(call)                   \
  do {                              \
    const int32_t code = (call);    \
    if (code != TN_OK) return code; \
  } while (0)

static int32_t make_call(tn_rewrite *g, const char *op, const char *params,
                         tn_entry in, tn_entry *out) {
  return passes->call(g,
                      &(tn_rewrite_call){.struct_size = sizeof(tn_rewrite_call),
                                         .n_in = 1,
                                         .op = op,
                                         .params = params,
                                         .in = &in},
                      out);
}

static int is_same(tn_entry a, tn_entry b) {
  return a.node == b.node && a.index == b.index;
}

static int is_call(const tn_rewrite_node *node, const char *op) {
  return node->kind == TN_REWRITE_CALL && strcmp(node->op, op) == 0;
}

/* Calls `fn` with each node that exists at the begin. */
typedef int32_t node_fn(tn_rewrite *g, uint32_t id, const tn_rewrite_node *n);

static int32_t visit_nodes(tn_rewrite *g, node_fn *fn) {
  const uint32_t n = passes->n_nodes(g);
  for (uint32_t id = 0; id < n; ++id) {
    tn_rewrite_node node = {.struct_size = sizeof node};
    TRY(passes->node(g, id, &node));
    TRY(fn(g, id, &node));
  }
  return TN_OK;
}

/* ------------------------------------------------------------------- good ones
 */

/* mul(x, x) becomes square(x). */
static int32_t square_node(tn_rewrite *g, uint32_t id,
                           const tn_rewrite_node *node) {
  tn_entry out;
  if (!is_call(node, "lab.mul@1") || !is_same(node->in[0], node->in[1]))
    return TN_OK;
  TRY(make_call(g, "lab.square", NULL, node->in[0], &out));
  return passes->redirect(g, (tn_entry){id, 0}, out);
}

static int32_t run_square(void *ctx, tn_rewrite *g) {
  (void)ctx;
  return visit_nodes(g, square_node);
}

/* Readers of same(x) read x. */
static int32_t tidy_node(tn_rewrite *g, uint32_t id,
                         const tn_rewrite_node *node) {
  if (!is_call(node, "lab.same@1")) return TN_OK;
  return passes->redirect(g, (tn_entry){id, 0}, node->in[0]);
}

static int32_t run_tidy(void *ctx, tn_rewrite *g) {
  (void)ctx;
  return visit_nodes(g, tidy_node);
}

/* Sets an attribute of each node to the length of its first output. */
static int32_t mark_node(tn_rewrite *g, uint32_t id,
                         const tn_rewrite_node *node) {
  tn_rewrite_sig sig = {.struct_size = sizeof sig};
  char text[2] = "?";
  (void)node;
  TRY(passes->sig(g, (tn_entry){id, 0}, &sig));
  if (sig.ndim == 1 && sig.shape[0] >= 0 && sig.shape[0] < 10)
    text[0] = (char)('0' + sig.shape[0]);
  return passes->attribute_set(g, id, "length", text);
}

static int32_t run_mark(void *ctx, tn_rewrite *g) {
  (void)ctx;
  return visit_nodes(g, mark_node);
}

/* Adds a doubling after each head that belongs to the gradient. */
static int32_t run_twice(void *ctx, tn_rewrite *g) {
  (void)ctx;
  for (uint32_t i = 0; i < passes->n_heads(g); ++i) {
    tn_rewrite_node node = {.struct_size = sizeof node};
    tn_entry head, out;
    TRY(passes->head(g, i, &head));
    TRY(passes->node(g, head.node, &node));
    if (!node.gradient) continue;
    TRY(make_call(g, "lab.affine", "scale=2", head, &out));
    TRY(passes->redirect(g, head, out));
  }
  return TN_OK;
}

/* Removes copies, which it takes for useless. */
static int32_t bare_node(tn_rewrite *g, uint32_t id,
                         const tn_rewrite_node *node) {
  if (node->kind != TN_REWRITE_COPY) return TN_OK;
  return passes->redirect(g, (tn_entry){id, 0}, node->in[0]);
}

static int32_t run_bare(void *ctx, tn_rewrite *g) {
  (void)ctx;
  return visit_nodes(g, bare_node);
}

/* Multiplies by twice the number: its parameters are text that can be passed
 * again. */
static int32_t again_node(tn_rewrite *g, uint32_t id,
                          const tn_rewrite_node *node) {
  const char *params = NULL;
  tn_entry out;
  if (!is_call(node, "lab.affine@1")) return TN_OK;
  TRY(passes->params(g, id, &params));
  TRY(make_call(g, "lab.affine", params, (tn_entry){id, 0}, &out));
  return passes->redirect(g, (tn_entry){id, 0}, out);
}

static int32_t run_again(void *ctx, tn_rewrite *g) {
  (void)ctx;
  return visit_nodes(g, again_node);
}

/* add(x, y) becomes x. */
static int32_t drop_node(tn_rewrite *g, uint32_t id,
                         const tn_rewrite_node *node) {
  if (!is_call(node, "lab.add@1")) return TN_OK;
  return passes->redirect(g, (tn_entry){id, 0}, node->in[0]);
}

static int32_t run_drop(void *ctx, tn_rewrite *g) {
  (void)ctx;
  return visit_nodes(g, drop_node);
}

/* Both outputs of noise(x) become x. */
static int32_t quiet_node(tn_rewrite *g, uint32_t id,
                          const tn_rewrite_node *node) {
  if (!is_call(node, "lab.noise@1")) return TN_OK;
  const tn_entry x = node->in[0];
  TRY(passes->redirect(g, (tn_entry){id, 0}, x));
  return passes->redirect(g, (tn_entry){id, 1}, x);
}

static int32_t run_quiet(void *ctx, tn_rewrite *g) {
  (void)ctx;
  return visit_nodes(g, quiet_node);
}

/* noise(x) becomes noise(is_same(x)). */
static int32_t calm_node(tn_rewrite *g, uint32_t id,
                         const tn_rewrite_node *node) {
  tn_entry out;
  if (!is_call(node, "lab.noise@1")) return TN_OK;
  TRY(make_call(g, "lab.same", NULL, node->in[0], &out));
  return passes->rewire(g, id, 0, out);
}

static int32_t run_calm(void *ctx, tn_rewrite *g) {
  (void)ctx;
  return visit_nodes(g, calm_node);
}

/* mul(x, y) becomes mul(y, x). */
static int32_t turn_node(tn_rewrite *g, uint32_t id,
                         const tn_rewrite_node *node) {
  if (!is_call(node, "lab.mul@1")) return TN_OK;
  const tn_entry x = node->in[0], y = node->in[1];
  TRY(passes->rewire(g, id, 0, y));
  return passes->rewire(g, id, 1, x);
}

static int32_t run_turn(void *ctx, tn_rewrite *g) {
  (void)ctx;
  return visit_nodes(g, turn_node);
}

/* ------------------------------------------------------------------- bad ones
 */

/* The first call reads the first head, which depends on it. */
static int32_t run_cycle(void *ctx, tn_rewrite *g) {
  tn_rewrite_node node = {.struct_size = sizeof node};
  tn_entry head;
  uint32_t id = 0;
  (void)ctx;
  TRY(passes->head(g, 0, &head));
  do {
    TRY(passes->node(g, id++, &node));
  } while (node.kind != TN_REWRITE_CALL);
  return passes->rewire(g, id - 1, 0, head);
}

static int32_t run_of_three(void *ctx, tn_rewrite *g) {
  tn_entry in[3], out;
  (void)ctx;
  TRY(passes->head(g, 0, &in[0]));
  in[1] = in[2] = in[0];
  return passes->call(g,
                      &(tn_rewrite_call){.struct_size = sizeof(tn_rewrite_call),
                                         .n_in = 3,
                                         .op = "lab.mul",
                                         .in = in},
                      &out);
}

static int32_t run_of_one(void *ctx, tn_rewrite *g) {
  tn_entry head, out;
  (void)ctx;
  TRY(passes->head(g, 0, &head));
  return make_call(g, "lab.mul", NULL, head, &out);
}

static int32_t run_unknown(void *ctx, tn_rewrite *g) {
  tn_entry head, out;
  (void)ctx;
  TRY(passes->head(g, 0, &head));
  return make_call(g, "lab.mull", NULL, head, &out);
}

/* One reader of x gets it in another type than the others. */
static int32_t run_type(void *ctx, tn_rewrite *g) {
  tn_rewrite_node node = {.struct_size = sizeof node};
  uint32_t x = 0, y = 0;
  tn_entry out;
  (void)ctx;
  TRY(passes->find(g, "x", &x));
  TRY(passes->find(g, "y", &y));
  TRY(passes->node(g, y, &node));
  TRY(make_call(g, "lab.cast", "dtype=f64", (tn_entry){x, 0}, &out));
  return passes->rewire(g, y, 0, out);
}

static int32_t run_head_type(void *ctx, tn_rewrite *g) {
  tn_entry head, out;
  (void)ctx;
  TRY(passes->head(g, 0, &head));
  TRY(make_call(g, "lab.cast", "dtype=f64", head, &out));
  return passes->redirect(g, head, out);
}

static int32_t run_lost_head(void *ctx, tn_rewrite *g) {
  tn_entry head;
  (void)ctx;
  TRY(passes->head(g, 0, &head));
  return passes->redirect(g, head, TN_ENTRY_NONE);
}

static int32_t run_foreign(void *ctx, tn_rewrite *g) {
  tn_entry head;
  (void)ctx;
  TRY(passes->head(g, 0, &head));
  return passes->redirect(g, head, (tn_entry){9999, 0});
}

/* Fails after half of its work. */
static int32_t run_regrets(void *ctx, tn_rewrite *g) {
  tn_entry head, out;
  (void)ctx;
  TRY(passes->head(g, 0, &head));
  TRY(make_call(g, "lab.tanh", NULL, head, &out));
  TRY(passes->redirect(g, head, out));
  return passes->fail(g, head.node, TN_UNSUPPORTED, "%d is too many", 7);
}

static int32_t run_silent(void *ctx, tn_rewrite *g) {
  tn_entry head, out;
  (void)ctx;
  TRY(passes->head(g, 0, &head));
  TRY(make_call(g, "lab.tanh", NULL, head, &out));
  TRY(passes->redirect(g, head, out));
  return 7;
}

/* The state of `t` would be the result of a call. */
static int32_t run_state(void *ctx, tn_rewrite *g) {
  tn_rewrite_node node = {.struct_size = sizeof node};
  uint32_t t = 0;
  tn_entry out;
  (void)ctx;
  TRY(passes->find(g, "t", &t));
  TRY(passes->node(g, t, &node));
  const tn_entry sum = node.in[node.n_in];
  TRY(make_call(g, "lab.same", NULL, node.in[0], &out));
  return passes->redirect(g, sum, out);
}

/* The first variable would be changed. */
static int32_t run_tracks(void *ctx, tn_rewrite *g) {
  tn_entry in[2] = {{0, 0}, {0, 0}}, out;
  (void)ctx;
  TRY(passes->head(g, 0, &in[0]));
  TRY(passes->call(g,
                   &(tn_rewrite_call){.struct_size = sizeof(tn_rewrite_call),
                                      .n_in = 2,
                                      .op = "lab.track",
                                      .in = in},
                   &out));
  return passes->redirect(g, in[0], out);
}

/* A call gets another input, its gradient does not. */
static int32_t run_apart(void *ctx, tn_rewrite *g) {
  tn_rewrite_node node = {.struct_size = sizeof node};
  uint32_t y = 0;
  tn_entry out;
  (void)ctx;
  TRY(passes->find(g, "y", &y));
  TRY(passes->node(g, y, &node));
  TRY(make_call(g, "lab.same", NULL, node.in[0], &out));
  return passes->rewire(g, y, 0, out);
}

/* Tries a change that fails, and continues. */
static int32_t run_careless(void *ctx, tn_rewrite *g) {
  tn_entry head, out;
  (void)ctx;
  TRY(passes->head(g, 0, &head));
  if (!make_call(g, "lab.no_such", NULL, head, &out)) return TN_INTERNAL;
  if (!passes->rewire(g, head.node, 99, head)) return TN_INTERNAL;
  if (!passes->redirect(g, head, (tn_entry){head.node, 5})) return TN_INTERNAL;
  return TN_OK;
}

/* ------------------------------------------------------------------- plugin */

static const char *const squared[] = {"rewriter.squared"};
static const char *const shapes[] = {"shapes"};
static const char *const gradient[] = {"gradient"};
static const char *const magic[] = {"other.magic"};

#define PASS(id) .struct_size = sizeof(tn_pass), .name = #id, .run = run_##id

static const tn_pass all[] = {
    {PASS(square), .n_provides = 1, .provides = squared, .doc = "x*x"},
    {PASS(tidy), .n_needs = 1, .needs = squared},
    {PASS(mark), .n_needs = 1, .needs = shapes},
    {PASS(twice), .n_needs = 1, .needs = gradient},
    {PASS(bare), .n_needs = 1, .needs = gradient},
    {PASS(again)},
    {.struct_size = sizeof(tn_pass),
     .flags = TN_PASS_INNER,
     .name = "deep_square",
     .run = run_square},
    {PASS(drop), .flags = TN_PASS_INNER},
    {PASS(turn), .flags = TN_PASS_INNER},
    {PASS(calm), .flags = TN_PASS_INNER},
    {PASS(quiet), .flags = TN_PASS_INNER},
    {PASS(tracks), .flags = TN_PASS_INNER},
    {.struct_size = sizeof(tn_pass),
     .flags = TN_PASS_INNER,
     .name = "deep_regrets",
     .run = run_regrets},
    {PASS(cycle)},
    {PASS(of_three)},
    {PASS(of_one)},
    {PASS(unknown)},
    {PASS(type)},
    {PASS(head_type)},
    {PASS(lost_head)},
    {PASS(foreign)},
    {PASS(regrets)},
    {PASS(silent)},
    {PASS(state)},
    {PASS(apart), .n_needs = 1, .needs = gradient},
    {PASS(careless), .n_needs = 1, .needs = magic},
    {.struct_size = sizeof(tn_pass), .name = "bold", .run = run_careless}};

int32_t rewriter_init(const tn_host *host, tn_registrar *registrar,
                      void **instance) {
  (void)instance;
  passes = host->extension(host, TN_PASS_EXTENSION);
  if (!passes)
    return registrar->fail(registrar, TN_UNSUPPORTED,
                           "this host takes no passes");
  for (size_t i = 0; i < sizeof all / sizeof all[0]; ++i)
    TRY(passes->add(registrar, &all[i]));
  return TN_OK;
}
