/* SPDX-License-Identifier: Apache-2.0
 * Programs with nodes on several devices: the device of each node, the copies,
 * results that equal those of one device bit for bit, and refused placements.
 * The devices are three of the cpu; test_placement_queue.c has devices with
 * queues.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "evaluate.h"
#include "iteration.h"

enum { CPUS = 3, ROWS = 2, COLUMNS = 3 };

static tn_program *p;

static void open_with(const tn__engine_options *options) {
  world_cpus = CPUS;
  net_open_with(options);
}

static void setup_net(void) {
  open_with(&(tn__engine_options){.workers = 3});
}

static void close_all(void) {
  tn__program_release(p);
  tn__graph_release(g);
  p = NULL;
  world_close();
}

TestSuite(placement, .init = setup_net, .fini = close_all);

static const tn_group groups[] = {{"left", {TN_DEVICE_CPU, 1}},
                                  {"right", {TN_DEVICE_CPU, 2}}};

static void set_label(tn_entry entry, const char *group) {
  OK(tn__attribute_set(g, entry.node, "group", group));
}

static tn_entry labelled_entry(tn_entry entry, const char *group) {
  set_label(entry, group);
  return entry;
}

static tn_entry matrix_var(const char *name) {
  return typed_var(g, name, F64(ROWS, COLUMNS));
}

static tn_bind bind_options(tn_req request) {
  return (tn_bind){.struct_size = sizeof(tn_bind),
                   .request = request,
                   .groups = groups,
                   .n_groups = 2};
}

static void bind_placed(tn_req request) {
  const tn_bind how = bind_options(request);
  OK(tn__program_bind(g, &how, &p));
}

static tn_array *array_on(int32_t id) {
  tn__device *device = NULL;
  tn_array *array = NULL;
  const tn_spec spec = {TN_F64, 2, (const int64_t[]){ROWS, COLUMNS}};
  OK(tn__device_find(w.devices, TN_DEVICE_CPU, id, &device));
  OK(tn__array_create_on(device, &spec, &array));
  return array;
}

static const tn__step *step_of(const char *name) {
  for (uint32_t i = 0; i < p->n_steps; ++i)
    if (strcmp(p->steps[i]->node->name, name) == 0) return p->steps[i];
  return NULL;
}

/* The number of the cpu that the step of a node runs on. */
static void runs_on(const char *name, int32_t id) {
  const tn__step *step = step_of(name);
  cr_assert_not_null(step, "there is no step %s", name);
  cr_assert_eq(step->device->id, id, "%s runs on cpu(%d)", name,
               step->device->id);
}

static void lies_on(uint32_t what, const char *name, int32_t id) {
  tn_array *array = NULL;
  OK(tn__program_array(p, what, name, &array));
  cr_assert_eq(array->tensor.device_id, id, "%s is on cpu(%d)", name,
               array->tensor.device_id);
}

/* Copies between devices among steps [first, first + n). */
static uint32_t n_copies(uint32_t first, uint32_t n) {
  uint32_t found = 0;
  for (uint32_t i = first; i < first + n; ++i) {
    const tn__step *step = p->steps[i];
    found += step->kind == TN__STEP_COPY &&
             p->values[step->in[0]].device != step->device;
  }
  return found;
}

/* --------------------------------------------------------- devices of nodes */

/* x - one - two - three - four - five */
static void chain_graph(void) {
  static const char *const names[] = {"one", "two", "three", "four", "five"};
  tn_entry last = matrix_var("x");
  for (int i = 0; i < 5; ++i) last = OP(g, "tanh", NULL, names[i], last);
  HEADS(g, last);
}

static void label_named(const char *name, const char *group) {
  tn_entry entry;
  char text[32];
  (void)snprintf(text, sizeof text, "%s_output", name);
  OK(tn__graph_find(g, text, &entry));
  set_label(entry, group);
}

Test(placement, two_of_five_say_where_all_five_run) {
  chain_graph();
  label_named("two", "left");
  label_named("four", "right");
  bind_placed(TN_REQ_NULL);
  lies_on(TN_PROGRAM_ARGUMENT, "x", 1);
  runs_on("one", 1);
  runs_on("two", 1);
  runs_on("three", 1);
  runs_on("four", 2);
  runs_on("five", 2);
  cr_assert_eq(n_copies(0, p->n_steps), 1);
  cr_assert_eq(step_of("three_0_copy")->kind, TN__STEP_COPY);
}

Test(placement, inputs_decide_before_readers) {
  const tn_entry a =
      labelled_entry(OP(g, "tanh", NULL, "a", matrix_var("x")), "left");
  const tn_entry middle = OP(g, "tanh", NULL, "middle", a);
  HEADS(g, labelled_entry(OP(g, "tanh", NULL, "b", middle), "right"));
  bind_placed(TN_REQ_NULL);
  runs_on("middle", 1);
}

Test(placement, nodes_without_neighbours_run_on_the_default_device) {
  const tn_entry a =
      labelled_entry(OP(g, "tanh", NULL, "a", matrix_var("x")), "left");
  HEADS(g, a, OP(g, "tanh", NULL, "b", matrix_var("y")));
  tn_bind how = bind_options(TN_REQ_NULL);
  how.place = (tn_place){TN_DEVICE_CPU, 2};
  OK(tn__program_bind(g, &how, &p));
  runs_on("a", 1);
  runs_on("b", 2);
  lies_on(TN_PROGRAM_ARGUMENT, "y", 2);
}

Test(placement, an_empty_group_is_the_default_place) {
  chain_graph();
  label_named("two", "left");
  label_named("four", "");
  bind_placed(TN_REQ_NULL);
  runs_on("three", 1);
  runs_on("four", 0);
  runs_on("five", 0);
}

Test(placement, labels_mean_nothing_without_groups) {
  chain_graph();
  label_named("two", "left");
  OK(tn__program_bind(g, &(tn_bind){.struct_size = sizeof(tn_bind)}, &p));
  runs_on("two", 0);
  cr_assert_eq(n_copies(0, p->n_steps), 0);
}

Test(placement, a_scope_labels_the_nodes_that_are_added_in_it) {
  const tn_attribute left = {"group", "left"}, right = {"group", "right"};
  OK(tn__scope_push(g, &left, 1));
  const tn_entry a = OP(g, "tanh", NULL, "a", matrix_var("x"));
  OK(tn__scope_push(g, &right, 1));
  const tn_entry b = OP(g, "tanh", NULL, "b", a);
  OK(tn__scope_pop(g));
  const tn_entry c = OP(g, "tanh", NULL, "c", b);
  OK(tn__scope_pop(g));
  HEADS(g, OP(g, "tanh", NULL, "d", c));
  bind_placed(TN_REQ_NULL);
  runs_on("a", 1);
  runs_on("b", 2);
  runs_on("c", 1);
  runs_on("d", 1);
}

/* --------------------------------------------------------------------- copies
 */

Test(placement, all_readers_on_a_device_share_one_copy) {
  const tn_entry a =
      labelled_entry(OP(g, "tanh", NULL, "a", matrix_var("x")), "left");
  const tn_entry b = labelled_entry(OP(g, "add", NULL, "b", a, a), "right");
  const tn_entry c = labelled_entry(OP(g, "mul", NULL, "c", a, b), "right");
  const tn_entry d = labelled_entry(OP(g, "tanh", NULL, "d", a), "");
  HEADS(g, c, d, labelled_entry(OP(g, "sub", NULL, "e", d, a), ""));
  bind_placed(TN_REQ_NULL);
  cr_assert_eq(n_copies(0, p->n_steps), 2);
  cr_assert_eq(step_of("a_0_copy")->device->id, 2);
  for (uint32_t i = 0; i < p->n_steps; ++i)
    for (uint32_t k = 0; k < p->steps[i]->n_in; ++k)
      if (p->steps[i]->kind == TN__STEP_CALL)
        cr_assert_eq(p->values[p->steps[i]->in[k]].device, p->steps[i]->device);
}

Test(placement, a_second_output_is_copied_under_its_number) {
  const tn_entry x = matrix_var("x"), y = matrix_var("y");
  const tn_entry a = labelled_entry(OP(g, "pair", NULL, "a", x, y), "left");
  HEADS(g, labelled_entry(OP(g, "tanh", NULL, "b", output_of(a, 1)), "right"));
  bind_placed(TN_REQ_NULL);
  runs_on("a_1_copy", 2);
}

/* The gradient of `keep` reads only the shape of y. */
Test(placement, entries_with_shape_readers_only_are_not_copied) {
  const tn_entry x = labelled_entry(matrix_var("x"), "right");
  const tn_entry y = labelled_entry(matrix_var("y"), "left");
  HEADS(g, labelled_entry(OP(g, "keep", NULL, "k", x, y), "right"));
  bind_placed(TN_REQ_WRITE);
  cr_assert_eq(n_copies(0, p->n_forward), 1);
  runs_on("y_0_copy", 2);
  runs_on("k_backward", 2);
  cr_assert_eq(n_copies(p->n_forward, p->n_steps - p->n_forward), 1);
  runs_on("k_backward_1_copy", 1);
  lies_on(TN_PROGRAM_GRADIENT, "y", 1);
}

/* ------------------------------------------------------------------ gradients
 */

Test(placement, gradients_run_where_their_nodes_run) {
  const tn_entry a = labelled_entry(
      OP(g, "keep", NULL, "a", matrix_var("x"), matrix_var("y")), "left");
  const tn_entry b = OP(g, "keep", NULL, "b", a, a);
  HEADS(g, labelled_entry(OP(g, "keep", NULL, "c", b, a), "right"));
  bind_placed(TN_REQ_WRITE);
  runs_on("a_backward", 1);
  runs_on("b_backward", 1);
  runs_on("c_backward", 2);
  lies_on(TN_PROGRAM_GRADIENT, "x", 1);
  /* Forward: a and b for c. Backward: both gradients of c. */
  cr_assert_eq(n_copies(0, p->n_forward), 2);
  cr_assert_eq(n_copies(p->n_forward, p->n_steps - p->n_forward), 2);
  runs_on("c_backward_0_copy", 1);
  runs_on("c_backward_1_copy", 1);
}

/* x is read on two devices, and its gradient is the sum of theirs. */
Test(placement, gradients_are_added_on_the_device_of_their_argument) {
  const tn_entry x = labelled_entry(matrix_var("x"), "");
  const tn_entry a = labelled_entry(OP(g, "tanh", NULL, "a", x), "left");
  const tn_entry b = labelled_entry(OP(g, "tanh", NULL, "b", x), "right");
  HEADS(g, a, b);
  bind_placed(TN_REQ_WRITE);
  uint32_t sums = 0;
  for (uint32_t i = p->n_forward; i < p->n_steps; ++i) {
    if (p->steps[i]->node->kind != TN__NODE_SUM) continue;
    ++sums;
    cr_assert_eq(p->steps[i]->device->id, 0);
  }
  cr_assert_eq(sums, 1);
  cr_assert_eq(n_copies(p->n_forward, p->n_steps - p->n_forward), 2);
  lies_on(TN_PROGRAM_GRADIENT, "x", 0);
}

/* The same for an inner entry: h is read on two devices, and made on a third.
 */
Test(placement, gradients_are_added_where_their_entry_was_made) {
  const tn_entry x = labelled_entry(matrix_var("x"), "");
  const tn_entry h = labelled_entry(OP(g, "tanh", NULL, "h", x), "");
  const tn_entry a = labelled_entry(OP(g, "tanh", NULL, "a", h), "left");
  const tn_entry b = labelled_entry(OP(g, "tanh", NULL, "b", h), "right");
  HEADS(g, a, b);
  bind_placed(TN_REQ_WRITE);
  for (uint32_t i = p->n_forward; i < p->n_steps; ++i)
    if (p->steps[i]->node->kind == TN__NODE_SUM)
      cr_assert_eq(p->steps[i]->device->id, 0);
}

/* A whole step of training: the devices of weights and their updates are not
 * stated. The state is that of an update. */
Test(placement, updates_run_where_their_weights_are_read) {
  const tn_entry x = matrix_var("x"), v = typed_var(g, "v", F64(ROWS, COLUMNS));
  const tn_entry h = labelled_entry(OP(g, "mul", NULL, "h", x, v), "left");
  const tn_entry y = labelled_entry(OP(g, "tanh", NULL, "y", h), "right");
  tn_entry slope, weight = labelled_entry(matrix_var("weight"), "right");
  const tn__gradient_spec spec = {
      .query = {
          .heads = &y, .weights = &weight, .of = &v, .n_heads = 1, .n_of = 1}};
  OK(tn__graph_gradient(g, &spec, &slope));
  const tn_entry rate = OP(g, "mul", NULL, "step", matrix_var("rate"), slope);
  const tn_entry kept = OP(g, "track", NULL, "kept", rate, matrix_var("sum"));
  HEADS(g, y, OP(g, "sub", NULL, "new", v, kept));
  tn_array *out[] = {NULL, array_on(1)};
  tn_bind how = bind_options(TN_REQ_NULL);
  how.arguments = &(tn_argument){.name = "v", .array = out[1]};
  how.n_arguments = 1;
  how.outputs = out;
  how.n_outputs = 2;
  OK(tn__program_bind(g, &how, &p));
  runs_on("new", 1);
  runs_on("step", 1);
  lies_on(TN_PROGRAM_ARGUMENT, "rate", 1);
  lies_on(TN_PROGRAM_AUXILIARY, "sum", 1);
  cr_assert_eq(n_copies(0, p->n_steps), 2); /* h, and its gradient */
  tn__array_release(out[1]);
}

/* ------------------------------------------------------------------ one result
 */

static const char *const inputs[] = {"x", "y", "v"};
enum { N_INPUTS = 3, N_HEADS = 2, MOST_SIZE = 16 };

/* Products with weights on both sides, uses on both, and sums of gradients. */
static void both_sides(void) {
  const tn_entry x = typed_var(g, "x", F64(2, 3)),
                 y = typed_var(g, "y", F64(2, 3));
  const tn_entry v = typed_var(g, "v", F64(3, 3));
  const tn_entry a = labelled_entry(
      OP(g, "dense", "num_hidden=3", "a", x, v, TN_ENTRY_NONE), "left");
  const tn_entry b = OP(g, "keep", NULL, "b", a, y);
  const tn_entry c = labelled_entry(
      OP(g, "dense", "num_hidden=3", "c", b, v, TN_ENTRY_NONE), "right");
  const tn_entry d = OP(g, "pair", NULL, "d", c, a);
  const tn_entry e = labelled_entry(
      OP(g, "product", "alpha=0.5", "e", d, output_of(d, 1)), "");
  HEADS(g, OP(g, "total", NULL, "last", e, b, x),
        OP(g, "mul", NULL, "f", c, d));
}

static double value_at(int what, int i) {
  return (double)((what * 31 + i * 17) % 23 - 11) / 16;
}

static void put_values(tn_array *array, int what) {
  double v[MOST_SIZE];
  const size_t n = n_elements(array);
  for (size_t i = 0; i < n; ++i) v[i] = value_at(what, (int)i);
  OK(tn__array_set(array, v, n * sizeof *v));
}

/* The results of a program: outputs, then gradients. */
typedef struct result {
  double v[N_HEADS + N_INPUTS][MOST_SIZE];
} result;

static void take_values(double *to, tn_array *array) {
  OK(tn__array_get(array, to, n_elements(array) * sizeof *to));
}

/* Three backward runs: with TN_REQ_ADD gradients are three times as large. */
static result compute_results(const tn_bind *how) {
  tn_array *array = NULL, *weights[N_HEADS];
  result r = {{{0}}};
  OK(tn__program_bind(g, how, &p));
  for (int i = 0; i < N_INPUTS; ++i) {
    OK(tn__program_array(p, TN_PROGRAM_ARGUMENT, inputs[i], &array));
    put_values(array, i);
  }
  for (int i = 0; i < N_HEADS; ++i) {
    weights[i] = empty(TN_F64, 2, (const int64_t[]){2, 3});
    put_values(weights[i], 10 + i);
  }
  for (int run = 0; run < 3; ++run) {
    OK(tn__program_forward(p, TN_CALL_TRAIN));
    OK(tn__program_backward(p, weights, N_HEADS));
  }
  for (size_t i = 0; i < N_HEADS; ++i) {
    OK(tn__program_output(p, i, &array));
    take_values(r.v[i], array);
    tn__array_release(weights[i]);
  }
  for (int i = 0; i < N_INPUTS; ++i) {
    OK(tn__program_array(p, TN_PROGRAM_GRADIENT, inputs[i], &array));
    take_values(r.v[N_HEADS + i], array);
  }
  tn__program_release(p);
  p = NULL;
  return r;
}

/* With and without groups, bit for bit; the order of sums is the same. */
static void same_as_one_device(tn_bind how) {
  how.struct_size = sizeof how;
  const result one = compute_results(&how);
  how.groups = groups;
  how.n_groups = 2;
  const result several = compute_results(&how);
  for (int i = 0; i < N_HEADS + N_INPUTS; ++i)
    cr_assert_eq(memcmp(one.v[i], several.v[i], sizeof one.v[i]), 0,
                 "result %d differs (plan %u, request %d)", i, how.plan,
                 (int)how.request);
  cr_assert_neq(one.v[0][0], 0);
}

static void all_ways(void) {
  both_sides();
  for (uint32_t plan = TN_PLAN_DEFAULT; plan <= TN_PLAN_NONE; ++plan)
    same_as_one_device((tn_bind){.plan = plan, .request = TN_REQ_WRITE});
  same_as_one_device((tn_bind){.request = TN_REQ_ADD});
  same_as_one_device(
      (tn_bind){.request = TN_REQ_WRITE, .memory = TN_MEMORY_MINIMAL});
}

Test(placement, several_devices_compute_the_results_of_one) {
  all_ways();
}

Test(place_alone, several_devices_compute_the_results_of_one_on_one_thread) {
  open_with(&(tn__engine_options){.kind = TN__ENGINE_NAIVE});
  all_ways();
  close_all();
}

/* Calls that are fused on one device are also fused on each of several. */
Test(placement, fused_runs_end_where_the_device_changes) {
  enum { N = 1 << 14 };
  double *v = malloc(N * sizeof *v), *out = malloc(N * sizeof *out);
  tn_array *array = NULL;
  tn_entry last = typed_var(g, "x", F64(N));
  for (int i = 0; i < 6; ++i) {
    last = OP(g, "affine", "scale=-0.5 shift=0.25", NULL, last);
    set_label(last, i < 3 ? "left" : "right");
  }
  HEADS(g, last);
  bind_placed(TN_REQ_NULL);
  OK(tn__program_array(p, TN_PROGRAM_ARGUMENT, "x", &array));
  for (int i = 0; i < N; ++i) v[i] = i;
  OK(tn__array_set(array, v, N * sizeof *v));
  OK(tn__program_forward(p, 0));
  OK(tn__program_output(p, 0, &array));
  OK(tn__array_get(array, out, N * sizeof *out));
  for (int i = 0; i < N; ++i) {
    double want = i;
    for (int k = 0; k < 6; ++k) want = -0.5 * want + 0.25;
    cr_assert_eq(out[i], want);
  }
  cr_assert_eq(p->stats.n_fused, 6);
  cr_assert_eq(p->n_steps, 3); /* left, the copy, right */
  free(v), free(out);
}

/* --------------------------------------------------------------------- memory
 */

Test(placement, no_memory_is_shared_between_devices) {
  both_sides();
  bind_placed(TN_REQ_WRITE);
  cr_assert_eq(p->memory.plan.n_pools, CPUS);
  for (uint32_t e = 0; e < p->n_values; ++e) {
    const tn__plan_place *at = tn__plan_place_of(p, e);
    if (!at || at->storage < 0) continue;
    const tn__plan_storage *storage = &p->memory.plan.storages[at->storage];
    const tn__block *pool = tn__pool_of(p, storage->device);
    const tn_array *array = p->values[e].array;
    const char *data = tn__array_data(array), *begin = pool->data;
    cr_assert_eq(pool->device, p->values[e].device);
    cr_assert_eq(array->block->device, p->values[e].device);
    cr_assert(data >= begin && data < begin + pool->bytes);
  }
}

Test(placement, a_program_for_other_shapes_keeps_its_groups) {
  tn_program *other = NULL;
  tn_array *array = NULL;
  chain_graph();
  label_named("two", "left");
  label_named("four", "right");
  bind_placed(TN_REQ_WRITE);
  OK(tn__program_reshape(p, &(tn_known){"x", F64(1, COLUMNS)}, 1, &other));
  OK(tn__program_output(other, 0, &array));
  cr_assert_eq(array->tensor.device_id, 2);
  for (size_t i = 0; i < p->memory.plan.n_pools; ++i)
    for (size_t k = 0; k < other->memory.plan.n_pools; ++k)
      if (p->memory.pools[i] == other->memory.pools[k])
        cr_assert_eq(
            p->placement.devices[p->memory.plan.pools[i].device],
            other->placement.devices[other->memory.plan.pools[k].device]);
  tn__program_release(other);
}

/* ------------------------------------------------------------ graphs in graphs
 */

Test(placement, a_graph_in_a_graph_runs_where_its_node_does) {
  tn_graph *inner = net_new();
  tn_entry x = matrix_var("x"), first;
  HEADS(inner, OP(inner, "tanh", NULL, "deep", var_node(inner, "q")));
  const tn_attribute right = {"group", "right"};
  OK(tn__graph_embed(g,
                     &(tn_embedding){.struct_size = sizeof(tn_embedding),
                                     .n_in = 1,
                                     .inner = inner,
                                     .name = "box",
                                     .in = &x,
                                     .attributes = &right,
                                     .n_attributes = 1},
                     &first));
  HEADS(g, labelled_entry(OP(g, "tanh", NULL, "last", first), "left"));
  bind_placed(TN_REQ_WRITE);
  runs_on("box/deep", 2);
  runs_on("last", 1);
  tn__graph_release(inner);
}

/* A loop of the step over x, from h, with `third` as its input w, if it is not
 * NULL. Releases the step. */
static tn_entry add_turn(tn_graph *step, const tn_entry *third) {
  tn_entry out,
      in[3] = {typed_var(g, "x", F64(4, 2, 3)), typed_var(g, "h", F64(2, 3))};
  if (third) in[2] = *third;
  OK(tn__graph_loop(g,
                    &(tn_loop){.struct_size = sizeof(tn_loop),
                               .n_in = third ? 3 : 2,
                               .step = step,
                               .name = "turn",
                               .sequences = (const char *const[]){"x"},
                               .states = (const char *const[]){"h"},
                               .n_sequences = 1,
                               .n_states = 1,
                               .in = in,
                               .keys = (const char *const[]){"x", "h", "w"}},
                    &out));
  tn__graph_release(step);
  return out;
}

/* h = tanh(x[t] + h), with other groups for its nodes. */
static tn_entry add_loop(const char *group) {
  tn_graph *step = net_new();
  const tn_entry x = var_node(step, "x"), h = var_node(step, "h");
  const tn_entry next =
      OP(step, "tanh", NULL, "next", OP(step, "add", NULL, NULL, x, h));
  OK(tn__attribute_set(step, next.node, "group", "left"));
  HEADS(step, next);
  return labelled_entry(add_turn(step, NULL), group);
}

/* h = h + x[t] + zeros like w. */
static tn_entry loop_of_shape(tn_entry like) {
  tn_graph *step = net_new();
  tn__node *zeros = NULL;
  const tn_entry x = var_node(step, "x"), h = var_node(step, "h"),
                 z = var_node(step, "w");
  const tn__node_spec spec = {.kind = TN__NODE_ZERO,
                              .n_in = 1,
                              .n_out = 1,
                              .of = TN_NONE,
                              .stem = "zeros",
                              .in = &z};
  OK(tn__node_add(step, &spec, &zeros));
  HEADS(step, OP(step, "add", NULL, NULL, OP(step, "add", NULL, NULL, h, x),
                 ((tn_entry){zeros->id, 0})));
  return labelled_entry(add_turn(step, &like), "right");
}

Test(placement, shape_inputs_of_a_loop_are_not_copied) {
  tn_array *array = NULL;
  double v[24], last[6];
  const tn_entry like =
      labelled_entry(OP(g, "tanh", NULL, "w2", matrix_var("w")), "left");
  HEADS(g, loop_of_shape(like), like);
  bind_placed(TN_REQ_NULL);
  runs_on("w2", 1);
  runs_on("turn", 2);
  cr_assert_null(step_of("w2_0_copy"));
  for (int i = 0; i < 24; ++i) v[i] = i;
  OK(tn__program_array(p, TN_PROGRAM_ARGUMENT, "x", &array));
  OK(tn__array_set(array, v, sizeof v));
  OK(tn__program_array(p, TN_PROGRAM_ARGUMENT, "h", &array));
  OK(tn__array_set(array, v, sizeof last));
  OK(tn__program_forward(p, 0));
  OK(tn__program_output(p, 0, &array));
  OK(tn__array_get(array, last, sizeof last));
  for (int i = 0; i < 6; ++i) cr_expect_eq(last[i], 5 * i + 6 + 12 + 18);
}

/* The last state and the gradient of x, of x = h = small numbers. */
static void run_loop(double *last, double *slope) {
  tn_array *array = NULL, *ones = empty(TN_F64, 2, (const int64_t[]){2, 3});
  static const char *const names[] = {"x", "h"};
  double v[24];
  for (int i = 0; i < 24; ++i) v[i] = value_at(3, i);
  for (int i = 0; i < 2; ++i) {
    OK(tn__program_array(p, TN_PROGRAM_ARGUMENT, names[i], &array));
    OK(tn__array_set(array, v, n_elements(array) * sizeof *v));
  }
  OK(tn__array_set(ones, v, 6 * sizeof *v));
  OK(tn__program_forward(p, TN_CALL_TRAIN));
  OK(tn__program_backward(p, &ones, 1));
  OK(tn__program_output(p, 0, &array));
  OK(tn__array_get(array, last, 6 * sizeof *last));
  OK(tn__program_array(p, TN_PROGRAM_GRADIENT, "x", &array));
  OK(tn__array_get(array, slope, 24 * sizeof *slope));
  tn__array_release(ones);
}

Test(placement, a_loop_runs_as_a_whole_where_its_node_does) {
  double last[2][6], slope[2][24];
  HEADS(g,
        labelled_entry(OP(g, "tanh", NULL, "last", add_loop("right")), "left"));
  bind_placed(TN_REQ_WRITE);
  runs_on("turn", 2);
  const tn_program *inside = tn__iteration_program(step_of("turn"));
  for (uint32_t i = 0; i < inside->n_steps; ++i)
    cr_assert_eq(inside->steps[i]->device->id, 2);
  lies_on(TN_PROGRAM_ARGUMENT, "x", 2);
  run_loop(last[0], slope[0]);
  tn__program_release(p);
  OK(tn__program_bind(
      g, &(tn_bind){.struct_size = sizeof(tn_bind), .request = TN_REQ_WRITE},
      &p));
  run_loop(last[1], slope[1]);
  cr_assert_eq(memcmp(last[0], last[1], sizeof last[0]), 0);
  cr_assert_eq(memcmp(slope[0], slope[1], sizeof slope[0]), 0);
}

/* --------------------------------------------------------------------- refused
 */

static tn_code try_bind(const tn_bind *how) {
  const tn_code rc = tn__program_bind(g, how, &p);
  cr_assert_null(p);
  return rc;
}

Test(placement, an_unknown_group_is_named_with_those_that_there_are) {
  const tn_bind how = bind_options(TN_REQ_NULL);
  chain_graph();
  label_named("two", "middle");
  FAILS(try_bind(&how), TN_NOT_FOUND, "`two`", "`middle`", "`left`, `right`");
}

Test(placement, a_device_that_is_not_there_is_named_with_its_group) {
  tn_bind how = bind_options(TN_REQ_NULL);
  const tn_group far = {"far", {TN_DEVICE_CPU, CPUS}};
  how.groups = &far;
  how.n_groups = 1;
  chain_graph();
  FAILS(try_bind(&how), TN_NOT_FOUND, "`far`", "there is no cpu(3)", "cpu(2)");
}

Test(placement, groups_need_names_and_have_them_once) {
  tn_bind how = bind_options(TN_REQ_NULL);
  const tn_group twice[] = {groups[0], groups[0]};
  const tn_group empty_name = {"", {TN_DEVICE_CPU, 0}};
  chain_graph();
  how.groups = twice;
  FAILS(try_bind(&how), TN_INVALID, "`left` twice");
  how.groups = &empty_name;
  how.n_groups = 1;
  FAILS(try_bind(&how), TN_INVALID, "groups[0] has no name");
}

Test(placement, an_array_on_another_device_is_refused_with_both_places) {
  tn_bind how = bind_options(TN_REQ_WRITE);
  tn_array *here = array_on(0), *there = array_on(1), *out = array_on(1);
  chain_graph();
  label_named("two", "left");
  label_named("four", "right");
  tn_argument argument = {.name = "x", .array = here};
  how.arguments = &argument;
  how.n_arguments = 1;
  FAILS(try_bind(&how), TN_INVALID, "argument `x`", "is on cpu(0)", "on cpu(1)",
        "tn_array_to");
  argument = (tn_argument){.name = "x", .array = there, .gradient = here};
  FAILS(try_bind(&how), TN_INVALID, "the gradient of argument `x`", "cpu(0)",
        "cpu(1)");
  argument.gradient = NULL;
  how.outputs = &out;
  how.n_outputs = 1;
  FAILS(try_bind(&how), TN_INVALID, "output `five_output`", "is on cpu(1)",
        "on cpu(2)");
  how.n_outputs = 0;
  OK(tn__program_bind(g, &how, &p));
  tn__array_release(here);
  tn__array_release(there);
  tn__array_release(out);
}

/* Each allocation of a bind fails in turn. */
Test(placement, a_bind_that_runs_out_of_memory_leaves_nothing) {
  const tn_bind how = bind_options(TN_REQ_WRITE);
  tn_code rc = TN_OUT_OF_MEMORY;
  both_sides();
  for (int64_t k = 1; rc != TN_OK; ++k) {
    w.memory.fail_at = w.memory.asked + k;
    rc = tn__program_bind(g, &how, &p);
    w.memory.fail_at = 0;
    cr_assert(rc == TN_OK || (rc == TN_OUT_OF_MEMORY && p == NULL), "%lld: %s",
              (long long)k, tn_error_text());
  }
}

static tn_entry tracked_call(const char *name, tn_entry x, tn_entry sum) {
  return OP(g, "track", NULL, name, x, sum);
}

Test(placement, a_state_is_not_used_on_two_devices) {
  const tn_bind how = bind_options(TN_REQ_NULL);
  const tn_entry sum = matrix_var("sum");
  const tn_entry a =
      labelled_entry(tracked_call("a", matrix_var("x"), sum), "left");
  HEADS(g, labelled_entry(tracked_call("b", a, sum), "right"));
  FAILS(try_bind(&how), TN_INVALID, "state `sum`", "`b` on cpu(2)",
        "`a` on cpu(1)");
  set_label(sum, "right");
  FAILS(try_bind(&how), TN_INVALID, "state `sum`", "`a` on cpu(1)",
        "`b` on cpu(2)");
  set_label(a, "right");
  OK(tn__program_bind(g, &how, &p));
  lies_on(TN_PROGRAM_AUXILIARY, "sum", 2);
}

Test(placement, a_state_on_another_device_is_refused) {
  const tn_bind how = bind_options(TN_REQ_NULL);
  const tn_entry sum = labelled_entry(matrix_var("sum"), "left");
  HEADS(g, labelled_entry(tracked_call("a", matrix_var("x"), sum), "right"));
  FAILS(try_bind(&how), TN_INVALID, "state `sum`", "`a` on cpu(2)",
        "be on cpu(1)");
}

/* ---------------------------------------------------------------------
 * tables
 */

Test(placement, the_table_says_where_steps_run) {
  tn_text *text = NULL;
  chain_graph();
  label_named("two", "left");
  label_named("four", "right");
  bind_placed(TN_REQ_NULL);
  OK(tn__program_text(p, 0, &text));
  const char *s = tn_text_get(text);
  cr_assert(strstr(s, "one  lab.tanh.cpu on cpu(1)"), "%s", s);
  cr_assert(strstr(s, "three_0_copy  copy on cpu(2)"), "%s", s);
  cr_assert(strstr(s, "five  lab.tanh.cpu on cpu(2)"), "%s", s);
  tn_text_release(text);
  OK(tn__program_json(p, &text));
  cr_assert(strstr(tn_text_get(text), "\"cpu(1)\""));
  cr_assert(strstr(tn_text_get(text), "\"cpu(2)\""));
  tn_text_release(text);
}

Test(placement, the_table_of_one_device_does_not_name_it) {
  tn_text *text = NULL;
  chain_graph();
  OK(tn__program_bind(g, &(tn_bind){.struct_size = sizeof(tn_bind)}, &p));
  OK(tn__program_text(p, 0, &text));
  cr_assert_null(strstr(tn_text_get(text), "cpu("));
  tn_text_release(text);
}
