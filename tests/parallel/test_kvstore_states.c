/* SPDX-License-Identifier: Apache-2.0
 * test_kvstore_states.c: operators of `optim` as updaters, compared with calls
 * of the operators, and files of their states.
 */
#include <semaphore.h>
#include <stdio.h>
#include <unistd.h>

#include "fixture.h"
#include "tenon/exchange.h"

enum { STEPS = 5, MOST_STATES = 3 };

static meter memory;
static tn_runtime *rt;
static tn_kvstore *kv;

static void open_all(void) {
  rt = open_runtime(TN_ENGINE_POOLED, &memory);
  kv = open_store(rt, "local");
}

static void close_all(void) {
  tn_kvstore_release(kv);
  close_runtime(rt, &memory);
}

TestSuite(kvstore_states, .init = open_all, .fini = close_all);

/* A (SIDE, SIDE) array of a type, with numbers that depend on `seed`. */
static tn_array *make_numbers(tn_dtype dtype, int seed) {
  static const int64_t shape[] = {SIDE, SIDE};
  float v[SIZE];
  tn_array *array = NULL, *other = NULL;
  for (int i = 0; i < SIZE; ++i)
    v[i] = (float)((i * 7 + seed * 5) % 23 - 11) / 8;
  OK(tn_array_create(rt, &(tn_spec){TN_F32, 2, shape}, &array));
  OK(tn_array_set(array, v, sizeof v));
  if (dtype == TN_F32) return array;
  OK(tn_array_cast(array, dtype, &other));
  tn_array_release(array);
  return other;
}

static void read_numbers(tn_array *array, float v[SIZE]) {
  tn_array *wide = NULL;
  OK(tn_array_cast(array, TN_F32, &wide));
  OK(tn_array_get(wide, v, SIZE * sizeof *v));
  tn_array_release(wide);
}

static void expect_equal(tn_array *a, tn_array *b) {
  float x[SIZE], y[SIZE];
  read_numbers(a, x);
  read_numbers(b, y);
  for (int i = 0; i < SIZE; ++i)
    cr_assert_eq(x[i], y[i], "element %d: %g, not %g", i, (double)x[i],
                 (double)y[i]);
}

/* An operator, as the host would call it itself. */
typedef struct optimizer {
  const char *name;
  const char *params;
  tn_dtype dtype;
  uint32_t n_states;
  bool has_step;
  bool last_is_weight; /* the last state begins as the weight */
} optimizer;

static tn_array *make_zeros(tn_dtype dtype) {
  static const int64_t shape[] = {SIDE, SIDE};
  const float none[SIZE] = {0};
  tn_array *array = NULL, *other = NULL;
  OK(tn_array_create(rt, &(tn_spec){TN_F32, 2, shape}, &array));
  OK(tn_array_set(array, none, sizeof none));
  OK(tn_array_cast(array, dtype, &other));
  tn_array_release(array);
  return other;
}

/* Calls the operator for steps 1 to STEPS, with the sum of two gradients. */
static void call_by_hand(const optimizer *o, tn_array *weight) {
  tn_operator *op = NULL, *add = NULL;
  tn_array *in[2 + MOST_STATES] = {weight};
  OK(tn_operator_get(rt, o->name, &op));
  OK(tn_operator_get(rt, "elemwise.add", &add));
  for (uint32_t k = 0; k < o->n_states; ++k)
    in[2 + k] = make_zeros(o->last_is_weight ? TN_F32 : o->dtype);
  if (o->last_is_weight) OK(tn_array_copy(in[1 + o->n_states], weight));
  for (int step = 1; step <= STEPS; ++step) {
    char text[128];
    tn_params *params = NULL;
    tn_array *a = make_numbers(o->dtype, step);
    tn_array *b = make_numbers(o->dtype, 2 * step);
    (void)snprintf(text, sizeof text, o->has_step ? "%s step=%d" : "%s",
                   o->params, step);
    OK(tn_params_parse(op, text, &params));
    in[1] = NULL;
    OK(tn_call(rt, add, TN_IN(a, b), NULL, TN_OUT(&in[1])));
    OK(tn_call(rt, op, &(const tn_inputs){2 + o->n_states, in}, params,
               TN_OUT(&weight)));
    tn_array_release(in[1]), tn_array_release(b), tn_array_release(a);
    tn_params_release(params);
  }
  release_arrays(o->n_states, in + 2);
}

/* Pushes the gradients of some steps to two keys. */
static void push_steps(tn_kvstore *to, tn_dtype dtype, int from, int end) {
  for (int step = from; step <= end; ++step) {
    tn_array *a = make_numbers(dtype, step), *b = make_numbers(dtype, 2 * step);
    const tn_keyed list[] = {TN_KEYED("w", a, b), TN_KEYED(4, a, b)};
    OK(tn_kvstore_push(to, list, 2));
    tn_array_release(b), tn_array_release(a);
  }
}

static void init_keys(tn_kvstore *to, tn_dtype dtype) {
  tn_array *weight = make_numbers(dtype, 0);
  const tn_keyed list[] = {TN_KEYED("w", weight), TN_KEYED(4, weight)};
  OK(tn_kvstore_init(to, list, 2));
  tn_array_release(weight);
}

static tn_array *pull_array(tn_kvstore *from, tn_dtype dtype, tn_key key) {
  tn_array *out = make_zeros(dtype);
  OK(tn_kvstore_pull(from, &(tn_keyed){key, &out, 1, 0}, 1));
  return out;
}

static const optimizer optimizers[] = {
    {"optim.sgd_update", "lr=0.25 wd=0.125", TN_F32, 0, false, false},
    {"optim.sgd_update", "lr=0.25", TN_F64, 0, false, false},
    {"optim.sgd_mom_update", "lr=0.25 momentum=0.5", TN_F32, 1, false, false},
    {"optim.adam_update", "lr=0.125", TN_F32, 2, true, false},
    {"optim.rmsprop_update", "lr=0.125", TN_F32, 1, false, false},
    {"optim.rmspropalex_update", "lr=0.125", TN_F32, 3, false, false},
    {"optim.ftrl_update", "lr=0.125", TN_F32, 2, false, false},
    {"optim.mp_sgd_update", "lr=0.001", TN_F16, 1, false, true},
    {"optim.mp_sgd_mom_update", "lr=0.001 momentum=0.5", TN_BF16, 2, false,
     true},
};

Test(kvstore_states, updates_are_equal_to_calls_of_the_operator) {
  for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; ++i) {
    const optimizer *o = &optimizers[i];
    tn_kvstore *own = open_store(rt, i % 2 ? "device" : "local");
    tn_array *weight = make_numbers(o->dtype, 0);
    OK(tn_kvstore_set_optimizer(own, o->name, o->params));
    init_keys(own, o->dtype);
    push_steps(own, o->dtype, 1, STEPS);
    call_by_hand(o, weight);
    tn_array *a = pull_array(own, o->dtype, (tn_key){"w", 0});
    tn_array *b = pull_array(own, o->dtype, (tn_key){NULL, 4});
    expect_equal(a, weight);
    expect_equal(b, weight);
    tn_array_release(b), tn_array_release(a), tn_array_release(weight);
    tn_kvstore_release(own);
  }
}

Test(kvstore_states, the_host_may_set_the_step) {
  const optimizer o = {
      "optim.adam_update", "lr=0.125 step=3", TN_F32, 2, false, false};
  tn_array *weight = make_numbers(TN_F32, 0);
  OK(tn_kvstore_set_optimizer(kv, o.name, o.params));
  init_keys(kv, TN_F32);
  push_steps(kv, TN_F32, 1, STEPS);
  call_by_hand(&o, weight);
  tn_array *a = pull_array(kv, TN_F32, (tn_key){"w", 0});
  expect_equal(a, weight);
  tn_array_release(a), tn_array_release(weight);
}

/* Two keys that were updated 1 and 3 times have steps of their own. */
Test(kvstore_states, each_key_counts_its_own_steps) {
  tn_array *one = make_array(rt, 1, 0), *zero = make_array(rt, 0, 0);
  OK(tn_kvstore_set_optimizer(kv, "optim.adam_update",
                              "lr=1 beta1=0.5 beta2=0 epsilon=0"));
  OK(tn_kvstore_init(kv, &TN_KEYED("a", zero), 1));
  OK(tn_kvstore_init(kv, &TN_KEYED("b", zero), 1));
  for (int i = 0; i < 3; ++i) OK(tn_kvstore_push(kv, &TN_KEYED("a", one), 1));
  OK(tn_kvstore_push(kv, &TN_KEYED("b", one), 1));
  /* The corrected mean of a constant gradient is the gradient. */
  expect_pulled(rt, kv, (tn_key){"a", 0}, -3);
  expect_pulled(rt, kv, (tn_key){"b", 0}, -1);
  tn_array_release(zero), tn_array_release(one);
}

static tn_code wait_for_go(void *arg) {
  (void)sem_wait(arg);
  return TN_OK;
}

/* The pushes are scheduled before the first of them is computed. */
Test(kvstore_states, pending_updates_have_steps_of_their_own) {
  tn_array *one = make_array(rt, 1, 0), *zero = make_array(rt, 0, 0);
  tn_variable *pending = NULL;
  sem_t go;
  (void)sem_init(&go, 0, 0);
  OK(tn_kvstore_set_optimizer(kv, "optim.adam_update",
                              "lr=1 beta1=0.5 beta2=0 epsilon=0"));
  OK(tn_kvstore_init(kv, &TN_KEYED("a", zero), 1));
  OK(tn_array_variable(one, &pending));
  OK(tn_push(rt, &(tn_job){.struct_size = sizeof(tn_job),
                           .run = wait_for_go,
                           .arg = &go,
                           TN_USES({pending, TN_UPDATE})}));
  for (int i = 0; i < 6; ++i) OK(tn_kvstore_push(kv, &TN_KEYED("a", one), 1));
  (void)sem_post(&go);
  expect_pulled(rt, kv, (tn_key){"a", 0}, -6);
  (void)sem_destroy(&go);
  tn_variable_release(pending);
  tn_array_release(zero), tn_array_release(one);
}

/* A prepared call must not outlive the arrays that it was prepared for. */
Test(kvstore_states, pushes_may_change_their_arrays) {
  tn_array *one = make_array(rt, 1, 0), *zero = make_array(rt, 0, 0);
  tn_array *other = make_array(rt, 1, 0);
  OK(tn_kvstore_set_optimizer(kv, "optim.adam_update",
                              "lr=1 beta1=0.5 beta2=0 epsilon=0"));
  OK(tn_kvstore_init(kv, &TN_KEYED("a", zero), 1));
  for (int i = 0; i < 6; ++i)
    OK(tn_kvstore_push(kv, &TN_KEYED("a", i % 4 < 2 ? one : other), 1));
  OK(tn_kvstore_set_optimizer(kv, "optim.adam_update",
                              "lr=2 beta1=0.5 beta2=0 epsilon=0"));
  for (int i = 0; i < 2; ++i) OK(tn_kvstore_push(kv, &TN_KEYED("a", one), 1));
  expect_pulled(rt, kv, (tn_key){"a", 0}, -10);
  tn_array_release(other), tn_array_release(zero), tn_array_release(one);
}

Test(kvstore_states, new_parameters_keep_the_states) {
  tn_array *one = make_array(rt, 1, 0), *zero = make_array(rt, 0, 0);
  OK(tn_kvstore_set_optimizer(kv, "optim.sgd_mom_update", "lr=1 momentum=0.5"));
  OK(tn_kvstore_init(kv, &TN_KEYED("a", zero), 1));
  OK(tn_kvstore_push(kv, &TN_KEYED("a", one), 1)); /* mom -1, value -1 */
  OK(tn_kvstore_set_optimizer(kv, "optim.sgd_mom_update", "lr=2 momentum=0.5"));
  OK(tn_kvstore_push(kv, &TN_KEYED("a", one), 1)); /* mom -2.5 */
  expect_pulled(rt, kv, (tn_key){"a", 0}, -3.5f);
  OK(tn_kvstore_set_optimizer(kv, "optim.sgd_update", "lr=1"));
  OK(tn_kvstore_set_optimizer(kv, "optim.sgd_mom_update", "lr=1 momentum=0.5"));
  OK(tn_kvstore_push(kv, &TN_KEYED("a", one), 1)); /* a new state: mom -1 */
  expect_pulled(rt, kv, (tn_key){"a", 0}, -4.5f);
  tn_array_release(zero), tn_array_release(one);
}

/* -------------------------------------------------------------------- files */

/* A path in a folder for temporary files. */
static const char *make_path(const char *end) {
  static char path[64];
  (void)snprintf(path, sizeof path, "/tmp/tenon-kvstore-%ld%s", (long)getpid(),
                 end);
  return path;
}

/* Saves after some steps, loads into another store with the same values, and
 * compares the results of the other steps. */
static void check_resume(const optimizer *o, const char *end) {
  const char *path = make_path(end);
  tn_kvstore *first = open_store(rt, "local"), *next = open_store(rt, "device");
  OK(tn_kvstore_set_optimizer(first, o->name, o->params));
  init_keys(first, o->dtype);
  push_steps(first, o->dtype, 1, 3);
  OK(tn_kvstore_save_states(first, path));
  tn_array *weight = pull_array(first, o->dtype, (tn_key){"w", 0});
  OK(tn_kvstore_set_optimizer(next, o->name, o->params));
  OK(tn_kvstore_init(next, &TN_KEYED(4, weight), 1));
  OK(tn_kvstore_init(next, &TN_KEYED("w", weight), 1));
  OK(tn_kvstore_load_states(next, path));
  push_steps(first, o->dtype, 4, STEPS);
  push_steps(next, o->dtype, 4, STEPS);
  for (int i = 0; i < 2; ++i) {
    const tn_key key = i ? (tn_key){"w", 0} : (tn_key){NULL, 4};
    tn_array *a = pull_array(first, o->dtype, key);
    tn_array *b = pull_array(next, o->dtype, key);
    expect_equal(a, b);
    tn_array_release(b), tn_array_release(a);
  }
  tn_array_release(weight);
  tn_kvstore_release(next), tn_kvstore_release(first);
  (void)unlink(path);
}

Test(kvstore_states, loaded_states_continue_identically) {
  for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; ++i) {
    check_resume(&optimizers[i], ".npz");
    check_resume(&optimizers[i], ".safetensors");
  }
}

Test(kvstore_states, files_have_any_text_as_key) {
  static const char *const texts[] = {"",         "../up",    "a/b", "a%2Fb",
                                      "a b\n\\",  "\xff\x01", "4",   "n4",
                                      "\xc3\xa9", "operator"};
  enum { N = sizeof texts / sizeof *texts };
  const char *path = make_path(".npz");
  tn_array *one = make_array(rt, 1, 0);
  tn_keyed list[N];
  OK(tn_kvstore_set_optimizer(kv, "optim.sgd_mom_update", "lr=1 momentum=0.5"));
  for (int i = 0; i < N; ++i) list[i] = (tn_keyed){{texts[i], 0}, &one, 1, 0};
  OK(tn_kvstore_init(kv, list, N));
  for (int i = 0; i < N; ++i)
    for (int k = 0; k < i; ++k) OK(tn_kvstore_push(kv, &list[i], 1));
  OK(tn_kvstore_save_states(kv, path));
  OK(tn_kvstore_load_states(kv, path));
  OK(tn_kvstore_push(kv, list, N));
  for (int i = 0; i < N; ++i) {
    float value = 1, mom = 0;
    for (int k = 0; k <= i; ++k) value += mom = mom / 2 - 1;
    expect_pulled(rt, kv, list[i].key, value);
  }
  tn_array_release(one);
  (void)unlink(path);
}

Test(kvstore_states, keys_without_states_in_the_file_begin_again) {
  const char *path = make_path(".npz");
  tn_array *one = make_array(rt, 1, 0), *zero = make_array(rt, 0, 0);
  OK(tn_kvstore_set_optimizer(kv, "optim.sgd_mom_update", "lr=1 momentum=0.5"));
  OK(tn_kvstore_init(kv, &TN_KEYED("a", zero), 1));
  OK(tn_kvstore_save_states(kv, path));
  OK(tn_kvstore_push(kv, &TN_KEYED("a", one), 1));
  OK(tn_kvstore_load_states(kv, path));
  OK(tn_kvstore_push(kv, &TN_KEYED("a", one), 1));
  expect_pulled(rt, kv, (tn_key){"a", 0}, -2);
  tn_array_release(zero), tn_array_release(one);
  (void)unlink(path);
}

/* Fails to load a file, and checks that the states of "a" are as before: after
 * one push of ones, the next one changes the value from -1 to -2.5. */
static void expect_refused(const char *path, tn_code code, const char *part) {
  tn_array *one = make_array(rt, 1, 0), *zero = make_array(rt, 0, 0);
  tn_kvstore *own = open_store(rt, "local");
  OK(tn_kvstore_set_optimizer(own, "optim.sgd_mom_update",
                              "lr=1 momentum=0.5"));
  OK(tn_kvstore_init(own, &TN_KEYED("a", zero), 1));
  OK(tn_kvstore_push(own, &TN_KEYED("a", one), 1));
  FAILS(tn_kvstore_load_states(own, path), code, part);
  OK(tn_kvstore_push(own, &TN_KEYED("a", one), 1));
  expect_pulled(rt, own, (tn_key){"a", 0}, -2.5f);
  tn_kvstore_release(own);
  tn_array_release(zero), tn_array_release(one);
}

Test(kvstore_states, files_that_do_not_fit_are_refused) {
  const char *path = make_path(".npz");
  tn_array *one = make_array(rt, 1, 0), *other = make_zeros(TN_F64);
  FAILS(tn_kvstore_save_states(kv, path), TN_INVALID,
        "tn_kvstore_save_states: the store has no operator as updater, and so "
        "no states; call tn_kvstore_set_optimizer first");
  FAILS(tn_kvstore_load_states(kv, path), TN_INVALID, "no operator");
  expect_refused(path, TN_NOT_FOUND, path);

  OK(tn_kvstore_set_optimizer(kv, "optim.sgd_mom_update", "lr=1"));
  OK(tn_kvstore_init(kv, &TN_KEYED("a", other), 1));
  OK(tn_kvstore_push(kv, &TN_KEYED("a", other), 1));
  OK(tn_kvstore_save_states(kv, path));
  expect_refused(path, TN_SHAPE, "array ta/mom has another shape or type");

  OK(tn_kvstore_init(kv, &TN_KEYED("b", one), 1));
  OK(tn_kvstore_push(kv, &TN_KEYED("b", one), 1));
  OK(tn_kvstore_set_optimizer(kv, "optim.rmsprop_update", "lr=1"));
  OK(tn_kvstore_push(kv, &TN_KEYED("b", one), 1));
  OK(tn_kvstore_save_states(kv, path));
  expect_refused(path, TN_INVALID,
                 "has the states of operator optim.rmsprop_update@1, but the "
                 "store has optim.sgd_mom_update@1");

  OK(tn_kvstore_set_optimizer(kv, "optim.sgd_mom_update", "lr=1"));
  OK(tn_kvstore_push(kv, &TN_KEYED("b", one), 1));
  OK(tn_kvstore_save_states(kv, path));
  expect_refused(path, TN_NOT_FOUND,
                 "has the states of keys that the store does not have");
  OK(tn_bundle_save(
      rt, path,
      &(tn_bundle_content){.struct_size = sizeof(tn_bundle_content),
                           .items = &(tn_bundle_item){"operation", one},
                           .n_items = 1}));
  expect_refused(path, TN_NOT_FOUND, "operator");
  tn_array_release(other), tn_array_release(one);
  (void)unlink(path);
}
