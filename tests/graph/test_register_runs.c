/* SPDX-License-Identifier: Apache-2.0
 * Register runs: elementwise calls that pass results in registers compute the
 * same bits as single calls, at every instruction level, for any length of
 * lines and any repeated operand.
 */
#include <math.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Before net.h, which defines names of one letter. */
#include "levels.h"

#include "../by_hand.h"
#include "evaluate.h"

static void open_at(uint64_t features, uint32_t workers) {
  world_features = features;
  net_open_on(workers);
}

/* Not exact, of both signs, and small enough that exp is finite. */
static double number_for(int64_t i) {
  return sin((double)i) * (double)(1 + i % 7) / 4;
}

static tn_program *bind_with(const feed *feeds, size_t n, uint32_t flags,
                             tn_req request) {
  tn_argument arguments[8];
  tn_program *p = NULL;
  for (size_t i = 0; i < n; ++i)
    arguments[i] =
        (tn_argument){.name = feeds[i].name, .array = feeds[i].array};
  const tn_bind how = {.struct_size = sizeof how,
                       .flags = flags,
                       .request = request,
                       .arguments = arguments,
                       .n_arguments = (uint32_t)n};
  OK(tn__program_bind(g, &how, &p));
  return p;
}

static tn_program_stats stats_of(const tn_program *p) {
  tn_program_stats stats = {.struct_size = sizeof stats};
  tn__program_stats(p, &stats);
  return stats;
}

static void same_array(tn_array *a, tn_array *b, const char *what, size_t i) {
  size_t na = 0, nb = 0;
  float *x = bytes_of(a, &na), *y = bytes_of(b, &nb);
  cr_assert_eq(na, nb);
  for (size_t k = 0; k < na / sizeof *x; ++k)
    cr_assert_eq(memcmp(x + k, y + k, sizeof *x), 0,
                 "%s: element %zu of %zu is %.9g, and one by one %.9g", what, k,
                 i, (double)x[k], (double)y[k]);
  free(x), free(y);
}

static void same_heads(const tn_program *a, const tn_program *b, size_t n,
                       const char *what) {
  for (size_t i = 0; i < n; ++i) {
    tn_array *x = NULL, *y = NULL;
    OK(tn__program_output(a, i, &x));
    OK(tn__program_output(b, i, &y));
    same_array(x, y, what, i);
  }
}

/* Runs the graph fused and not fused, twice, and compares `n_heads` heads;
 * `expected` is the expected number of calls in register runs. */
static void compare_runs(const feed *feeds, size_t n, size_t n_heads,
                         uint64_t expected, const char *what) {
  tn_program *one = bind_with(feeds, n, 0, TN_REQ_NULL);
  tn_program *two = bind_with(feeds, n, TN_BIND_NO_FUSE, TN_REQ_NULL);
  cr_assert_eq(stats_of(one).n_in_registers, expected,
               "%s: %d calls use registers", what,
               (int)stats_of(one).n_in_registers);
  cr_assert_eq(stats_of(two).n_in_registers, 0);
  for (int run = 0; run < 2; ++run) {
    OK(tn__program_forward(one, 0));
    OK(tn__program_forward(two, 0));
    same_heads(one, two, n_heads, what);
  }
  tn__program_release(one), tn__program_release(two);
}

/* Runs a test at each level that this machine has. */
static void at_levels(void (*run)(uint64_t has_kernels)) {
  uint64_t features[TN_KERNEL_N_LEVELS];
  const size_t n = levels(features);
  if (n < TN_KERNEL_N_LEVELS)
    printf("# SKIPPED: this machine has %zu of 3 levels of instructions\n", n);
  for (size_t i = 0; i < n; ++i)
    for (uint32_t workers = 1; workers < 4; workers += 2) {
      open_at(features[i], workers);
      run(i > 0 && TN_KERNEL_HAS_REGISTERS);
      net_close();
    }
  world_features = 0;
}

/* ------------------------------------------------------------------- shapes
 */

/* Reads x three times, s twice; t is a head and is read. */
static void check_lines(uint64_t has_kernels) {
  static const int64_t lengths[] = {8192, 8193, 8255, 12345, 70001};
  for (int i = 0; i < 5; ++i) {
    const feed feeds[] = {
        {"x", numbers_of(TN_F32, SHAPE(lengths[i]), number_for)}};
    const tn_entry x = var_node(g, "x");
    const tn_entry z = OP(g, "affine", "scale=0.5 shift=2", NULL,
                          OP(g, "mul", NULL, NULL, x, x));
    const tn_entry s =
        OP(g, "sub", NULL, NULL, z, OP(g, "affine", "scale=-1.25", NULL, x));
    const tn_entry t = OP(g, "tanh", NULL, NULL, s);
    HEADS(g, OP(g, "tame", NULL, NULL, s, t), t);
    compare_runs(feeds, 1, 2, 6 * has_kernels, "a line");
    tn__array_release(feeds[0].array);
    net_renew();
  }
}

Test(register_runs, have_the_same_bits_wherever_a_line_ends) {
  at_levels(check_lines);
}

/* Rows, columns, single elements; lines that end at the same place. */
static void check_repeated(uint64_t has_kernels) {
  static const int64_t shapes[][3] = {
      {1, 40, 1030}, {9, 3, 1000}, {2, 1, 9001}};
  for (int i = 0; i < 3; ++i) {
    const int64_t *n = shapes[i];
    const feed feeds[] = {
        {"x", numbers_of(TN_F32, 3, n, number_for)},
        {"row", numbers_of(TN_F32, SHAPE(n[2]), number_for)},
        {"column", numbers_of(TN_F32, SHAPE(n[0], n[1], 1), number_for)},
        {"plane", numbers_of(TN_F32, SHAPE(n[0], 1, n[2]), number_for)},
        {"one", numbers_of(TN_F32, SHAPE(1), number_for)}};
    tn_entry y =
        OP(g, "plus_all", NULL, NULL, var_node(g, "x"), var_node(g, "row"));
    y = OP(g, "times_all", NULL, NULL, y, var_node(g, "column"));
    y = OP(g, "plus_all", NULL, NULL, y, var_node(g, "plane"));
    y = OP(g, "times_all", NULL, NULL, var_node(g, "one"), y);
    HEADS(g, y, OP(g, "sigmoid", NULL, NULL, y));
    compare_runs(feeds, 5, 2, 5 * has_kernels, "repeated");
    for (int k = 0; k < 5; ++k) tn__array_release(feeds[k].array);
    net_renew();
  }
}

Test(register_runs, have_the_same_bits_where_operands_repeat) {
  at_levels(check_repeated);
}

/* Short lines, other types and sums are computed tile by tile. */
static void check_others(uint64_t has_kernels) {
  (void)has_kernels;
  const struct {
    tn_dtype dtype;
    int64_t shape[2];
  } cases[] = {{TN_F64, {1, 9000}}, {TN_F16, {1, 40000}}, {TN_F32, {100, 100}}};
  for (int i = 0; i < 3; ++i) {
    const feed feeds[] = {
        {"x", numbers_of(cases[i].dtype, 2, cases[i].shape, number_for)}};
    tn_entry y = OP(g, "tanh", NULL, NULL, var_node(g, "x"));
    if (i == 2) {
      const tn_sig row = F32(1, 100);
      y = OP(g, "plus_all", NULL, NULL, y, typed_var(g, "row", row));
    }
    HEADS(g, OP(g, "square", NULL, NULL, y));
    tn_program *p = bind_with(feeds, 1, 0, TN_REQ_NULL);
    cr_assert_geq(stats_of(p).n_fused, 2);
    cr_assert_eq(stats_of(p).n_in_registers, 0);
    tn__program_release(p);
    tn__array_release(feeds[0].array);
    net_renew();
  }
}

Test(register_runs, are_of_long_lines_of_f32) {
  at_levels(check_others);
}

/* ------------------------------------------------------------------ gradients
 */

/* Gradients by programs with and without register runs: the same bits, also
 * with request ADD. */
static void check_gradients(uint64_t has_kernels) {
  const feed feeds[] = {{"x", numbers_of(TN_F32, SHAPE(9001), number_for)},
                        {"y", numbers_of(TN_F32, SHAPE(9001), number_for)}};
  tn_array *weight = numbers_of(TN_F32, SHAPE(9001), number_for);
  const tn_entry pair =
      OP(g, "pair", NULL, NULL, var_node(g, "x"), var_node(g, "y"));
  const tn_entry t = OP(g, "tanh", NULL, NULL, output_of(pair, 1));
  HEADS(g, OP(g, "mul", NULL, NULL, t, pair));
  for (int add = 0; add < 2; ++add) {
    const tn_req request = add ? TN_REQ_ADD : TN_REQ_WRITE;
    tn_program *both[2];
    for (int i = 0; i < 2; ++i) {
      both[i] = bind_with(feeds, 2, i ? TN_BIND_NO_FUSE : 0, request);
      for (int run = 0; run < 2; ++run) {
        OK(tn__program_forward(both[i], TN_CALL_TRAIN));
        OK(tn__program_backward(both[i], &weight, 1));
      }
    }
    cr_assert_eq(stats_of(both[0]).n_in_registers, has_kernels * (add ? 3 : 6));
    same_heads(both[0], both[1], 1, "training");
    for (size_t k = 0; k < 2; ++k) {
      tn_array *slope[2];
      for (int i = 0; i < 2; ++i)
        OK(tn__program_array(both[i], TN_PROGRAM_GRADIENT, feeds[k].name,
                             &slope[i]));
      same_array(slope[0], slope[1], add ? "added" : "written", k);
    }
    tn__program_release(both[0]), tn__program_release(both[1]);
  }
  for (int k = 0; k < 2; ++k) tn__array_release(feeds[k].array);
  tn__array_release(weight);
}

Test(register_runs, have_the_same_gradients) {
  at_levels(check_gradients);
}

/* --------------------------------------------------------------------- any
 */

static uint64_t state;
static uint32_t random_below(uint32_t n) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(state >> 33) % n;
}

/* A graph of up to 40 calls of earlier entries; the last reads x and y and is a
 * head, and two others may be. */
static size_t random_graph(void) {
  static const char *const unary[] = {"tanh", "sigmoid", "square", "same"};
  static const char *const binary[] = {"add", "sub", "mul", "tame"};
  tn_entry made[32] = {var_node(g, "x"), var_node(g, "y")}, heads[3];
  uint32_t n = 2;
  const uint32_t most = 4 + random_below(18);
  while (n < most) {
    const tn_entry a = made[random_below(n)], b = made[random_below(n)];
    switch (random_below(6)) {
      case 0:
        made[n] = OP(g, unary[random_below(4)], NULL, NULL, made[n - 1]);
        ++n;
        break;
      case 1:
        made[n++] = OP(g, "affine", "scale=0.3 shift=-1", NULL, a);
        break;
      case 2:
        made[n] = OP(g, "pair", NULL, NULL, a, b);
        made[n + 1] = output_of(made[n], 1);
        n += 2;
        break;
      default:
        made[n++] = OP(g, binary[random_below(4)], NULL, NULL, a, b);
    }
    /* Products of products would soon be infinite. */
    made[n - 1] = OP(g, "sigmoid", NULL, NULL, made[n - 1]);
  }
  heads[0] = OP(g, "add", NULL, NULL, made[n - 1],
                OP(g, "mul", NULL, NULL, made[0], made[1]));
  heads[1] = made[2 + random_below(n - 2)];
  heads[2] = made[2 + random_below(n - 2)];
  const size_t n_heads = 1 + random_below(3);
  OK(tn__graph_heads_set(g, heads, n_heads));
  return n_heads;
}

static void check_random(uint64_t has_kernels) {
  uint64_t expected = 0;
  state = 11;
  for (int i = 0; i < 40; ++i) {
    const int64_t rows = 1 + random_below(3),
                  columns = 8192 / rows + random_below(999);
    const feed feeds[] = {
        {"x", numbers_of(TN_F32, SHAPE(rows, columns), number_for)},
        {"y", numbers_of(TN_F32, SHAPE(rows, columns), number_for)}};
    const size_t n_heads = random_graph();
    tn_program *one = bind_with(feeds, 2, 0, TN_REQ_NULL);
    tn_program *two = bind_with(feeds, 2, TN_BIND_NO_FUSE, TN_REQ_NULL);
    OK(tn__program_forward(one, 0));
    OK(tn__program_forward(two, 0));
    same_heads(one, two, n_heads, "a random graph");
    expected += stats_of(one).n_in_registers;
    tn__program_release(one), tn__program_release(two);
    for (int k = 0; k < 2; ++k) tn__array_release(feeds[k].array);
    net_renew();
  }
  cr_assert(has_kernels ? expected > 300 : expected == 0,
            "%d calls use registers", (int)expected);
}

Test(register_runs, of_any_graph_have_the_same_bits) {
  at_levels(check_random);
}

/* ------------------------------------------------------------------- offers
 */

/* The mistake in the offer; 0: none, 8: no offer. */
static int wrong;
static void check_none(void) {}
static void runs_not(const tn_register_step *first, int64_t begin,
                     int64_t end) {
  (void)first, (void)begin, (void)end;
}

/* Vectors that no other kernel has. */
static const tn_register_interface vectors = {
    sizeof vectors, 77, 256, 0, check_none, check_none, check_none, runs_not};

static const tn_register_interface wide = {
    sizeof wide, 77,      TN_REGISTER_BYTES + 1, 0, check_none, check_none,
    check_none,  runs_not};

static const tn_register_interface later = {
    sizeof later, 77, 256, 1, check_none, check_none, check_none, runs_not};

static int32_t guest_prepare(const tn_frame *call, tn_plan *plan) {
  static tn_register_offer offer;
  if (!(call->flags & TN_CALL_REGISTERS) || wrong == 8) return TN_OK;
  if (wrong == 7) return TN_FAIL(call, TN_INVALID, "no kernels today");
  offer = (tn_register_offer){
      sizeof offer, 1, &vectors, {{0, 1, {0}, sizeof(float), {check_none}}}};
  if (wrong == 1) offer.struct_size = 3;
  if (wrong == 2) offer.interface = NULL;
  if (wrong == 3) offer.n_outputs = TN_REGISTER_OUTPUTS + 1;
  if (wrong == 4) offer.outputs[0].out = 1;
  if (wrong == 5) offer.outputs[0].in[0] = 1;
  if (wrong == 6) offer.outputs[0].kernels[0] = NULL;
  if (wrong == 9) offer.interface = &wide;
  if (wrong == 10) offer.interface = &later;
  plan->prepared = &offer;
  return TN_OK;
}

static int32_t guest_same(const tn_frame *call) {
  memcpy(call->out[0].data, call->in[0].data,
         (size_t)tn_tensor_size(&call->in[0]) * sizeof(float));
  return TN_OK;
}

static const uint64_t only_f32[] = {TN_BIT_F32};
static const tn_kernel guest_kernel = {
    .struct_size = sizeof(tn_kernel),
    .flags = TN_KERNEL_REENTRANT | TN_KERNEL_ELEMENTWISE | TN_KERNEL_REGISTERS,
    .device_type = TN_DEVICE_CPU,
    .priority = 5,
    .writes = TN_WRITES_WRITE,
    .n_dtype_sets = 1,
    .when = TN_NONE,
    .op = "lab.same@1",
    .id = "guest.same",
    .dtype_sets = only_f32,
    .prepare = guest_prepare,
    .compute = guest_same};
static const tn_kernel *const guest_kernels[] = {&guest_kernel};
static const tn_target guest_target = {.struct_size = sizeof(tn_target),
                                       .op = "lab.same@1"};
static const tn_target *const guest_targets[] = {&guest_target};
static const tn_plugin guest = {
    PLUGIN_BY_HAND("guest", 1, "lab.same with other register kernels"),
    .n_kernels = 1, .n_targets = 1, .kernels = guest_kernels,
    .targets = guest_targets};

static feed open_guest(void) {
  uint64_t features[TN_KERNEL_N_LEVELS];
  open_at(features[levels(features) - 1], 1);
  OK(tn__plugin_add(w.registry, &guest));
  const tn_entry same = OP(g, "same", NULL, NULL, var_node(g, "x"));
  HEADS(g, OP(g, "tanh", NULL, NULL, same));
  return (feed){"x", numbers_of(TN_F32, SHAPE(9001), number_for)};
}

static void close_guest(const feed *x) {
  tn__array_release(x->array);
  net_close();
  world_features = 0;
}

Test(register_runs, are_not_made_of_offers_that_do_not_fit) {
  const feed x = open_guest();
  for (wrong = 0; wrong <= 8; wrong += 8) compare_runs(&x, 1, 1, 0, "a guest");
  close_guest(&x);
}

Test(register_runs, refuse_offers_that_are_wrong) {
  const feed x = open_guest();
  const tn_argument argument = {.name = x.name, .array = x.array};
  const tn_bind how = {
      .struct_size = sizeof how, .arguments = &argument, .n_arguments = 1};
  tn_program *p = NULL;
  static const int mistakes[] = {1, 2, 3, 4, 5, 6, 9, 10};
  for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; ++i) {
    wrong = mistakes[i];
    FAILS(tn__program_bind(g, &how, &p), TN_PLUGIN, "lab.same",
          "kernel guest.same offers register kernels", "tn_register_offer");
  }
  wrong = 7;
  FAILS(tn__program_bind(g, &how, &p), TN_INVALID, "lab.same",
        "no kernels today");
  close_guest(&x);
}

/* Keeps the only worker busy until it may end. */
typedef struct occupation {
  sem_t began, may_end;
} occupation;

static tn_code occupy_worker(void *arg, tn__token *token) {
  occupation *o = arg;
  (void)token;
  sem_post(&o->began);
  sem_wait(&o->may_end);
  return TN_OK;
}

/* Element `i` of the head after forward returns and before any wait, while only
 * the calling thread can compute. */
static float made_alone(const feed *x, int64_t i) {
  occupation o;
  tn_array *y = NULL;
  tn_program *p = bind_with(x, 1, 0, TN_REQ_NULL);
  cr_assert_eq(stats_of(p).n_fused, 2);
  OK(tn__program_output(p, 0, &y));
  memset(tn__array_data(y), 0, 4 * sizeof(float));
  sem_init(&o.began, 0, 0), sem_init(&o.may_end, 0, 0);
  OK(tn__push(
      w.env.engine,
      &(tn__job){.name = "occupation", .run = occupy_worker, .arg = &o}));
  sem_wait(&o.began);
  OK(tn__program_forward(p, 0));
  const float made = ((const float *)tn__array_data(y))[i];
  sem_post(&o.may_end);
  OK(tn__wait_all(w.env.engine));
  cr_assert_float_eq(((const float *)tn__array_data(y))[i], 11, 1e-6);
  sem_destroy(&o.began), sem_destroy(&o.may_end);
  tn__program_release(p);
  return made;
}

static double three_of(int64_t i) {
  (void)i;
  return 3;
}

Test(register_runs, of_short_calls_stay_with_the_thread_that_pushes) {
  static const int64_t lengths[] = {65536, 1 << 20}; /* short, and not */
  for (int i = 0; i < 2; ++i) {
    net_open_on(1);
    const feed x = {"x", numbers_of(TN_F32, SHAPE(lengths[i]), three_of)};
    HEADS(g, OP(g, "affine", "scale=1 shift=2", NULL,
                OP(g, "square", NULL, NULL, var_node(g, "x"))));
    cr_assert_float_eq(made_alone(&x, 3), i == 0 ? 11 : 0, 1e-6);
    tn__array_release(x.array);
    net_close();
  }
}

Test(register_runs, survive_each_failing_allocation) {
  uint64_t features[TN_KERNEL_N_LEVELS];
  open_at(features[levels(features) - 1], 1);
  const feed x = {"x", numbers_of(TN_F32, SHAPE(9001), number_for)};
  HEADS(g, OP(g, "tanh", NULL, NULL,
              OP(g, "square", NULL, NULL, var_node(g, "x"))));
  const tn_argument argument = {.name = x.name, .array = x.array};
  const tn_bind how = {
      .struct_size = sizeof how, .arguments = &argument, .n_arguments = 1};
  tn_program *p = NULL;
  for (int64_t i = 1; !p; ++i) {
    w.memory.fail_at = w.memory.asked + i;
    const tn_code rc = tn__program_bind(g, &how, &p);
    w.memory.fail_at = 0;
    cr_assert(rc == TN_OK || rc == TN_OUT_OF_MEMORY, "%s", tn_error_text());
    cr_assert((rc == TN_OK) == (p != NULL));
  }
  OK(tn__program_forward(p, 0));
  tn__program_release(p);
  close_guest(&x);
}
