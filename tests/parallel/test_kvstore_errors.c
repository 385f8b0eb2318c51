/* SPDX-License-Identifier: Apache-2.0
 * test_kvstore_errors.c: messages of stores, arrays with errors, and the end of
 * a runtime.
 */
#include "fixture.h"

static meter memory;
static tn_runtime *rt;
static tn_kvstore *kv;
static tn_array *one;

static void open_all(void) {
  rt = open_runtime(TN_ENGINE_POOLED, &memory);
  kv = open_store(rt, "local");
  one = make_array(rt, 1, 0);
}

static void close_all(void) {
  tn_array_release(one);
  tn_kvstore_release(kv);
  close_runtime(rt, &memory);
}

TestSuite(kvstore_errors, .init = open_all, .fini = close_all);

static tn_array *make_other(tn_dtype dtype, int64_t rows, int64_t columns) {
  const int64_t shape[] = {rows, columns};
  tn_array *array = NULL;
  OK(tn_array_create(rt, &(tn_spec){dtype, 2, shape}, &array));
  return array;
}

/* ----------------------------------------------------------------- creation */

Test(kvstore_errors, name_the_kinds) {
  tn_kvstore *other = kv;
  FAILS(tn_kvstore_create(rt, "dist_some", NULL, &other), TN_INVALID,
        "`dist_some` is no kind of store; the kinds are local, device, "
        "dist_sync and dist_async");
  cr_assert_null(other);
}

Test(kvstore_errors, store_has_kind_rank_and_size) {
  cr_assert_str_eq(tn_kvstore_kind(kv), "local");
  cr_assert_eq(tn_kvstore_rank(kv), 0);
  cr_assert_eq(tn_kvstore_size(kv), 1);
  OK(tn_kvstore_barrier(kv));
  tn_kvstore *other = open_store(rt, "device");
  cr_assert_str_eq(tn_kvstore_kind(other), "device");
  tn_kvstore_release(other);
}

Test(kvstore_errors, name_arguments_that_are_null) {
  tn_kvstore *none = NULL;
  const tn_keyed item = TN_KEYED("a", one);
  FAILS(tn_kvstore_create(NULL, "local", NULL, &none), TN_INVALID, "`rt`");
  FAILS(tn_kvstore_create(rt, NULL, NULL, &none), TN_INVALID, "`kind`");
  FAILS(tn_kvstore_create(rt, "local", NULL, NULL), TN_INVALID, "`out`");
  FAILS(tn_kvstore_barrier(NULL), TN_INVALID, "tn_kvstore_barrier: the");
  FAILS(tn_kvstore_init(NULL, &item, 1), TN_INVALID, "`kv` is NULL");
  FAILS(tn_kvstore_push(NULL, &item, 1), TN_INVALID, "`kv` is NULL");
  FAILS(tn_kvstore_pull(NULL, &item, 1), TN_INVALID, "`kv` is NULL");
  FAILS(tn_kvstore_push_pull(NULL, &item, 1, &item, 1), TN_INVALID, "`kv`");
  FAILS(tn_kvstore_broadcast(NULL, &item, 1, &item, 1), TN_INVALID, "`kv`");
  FAILS(tn_kvstore_set_updater(NULL, NULL, NULL, NULL), TN_INVALID, "`kv`");
  FAILS(tn_kvstore_set_optimizer(NULL, "", NULL), TN_INVALID, "`kv`");
  FAILS(tn_kvstore_set_optimizer(kv, NULL, NULL), TN_INVALID, "`name`");
  FAILS(tn_kvstore_save_states(NULL, "x.npz"), TN_INVALID, "`kv`");
  FAILS(tn_kvstore_save_states(kv, NULL), TN_INVALID, "`path`");
  FAILS(tn_kvstore_load_states(NULL, "x.npz"), TN_INVALID, "`kv`");
  FAILS(tn_kvstore_load_states(kv, NULL), TN_INVALID, "`path`");
  FAILS(tn_kvstore_push(kv, NULL, 1), TN_INVALID, "the list of keys is NULL");
  FAILS(tn_kvstore_init(kv, NULL, 1), TN_INVALID, "the list of keys is NULL");
  OK(tn_kvstore_push(kv, NULL, 0));
  OK(tn_kvstore_init(kv, NULL, 0));
  tn_kvstore_release(NULL);
  cr_assert_null(tn_kvstore_retain(NULL));
}

/* --------------------------------------------------------------------- keys */

Test(kvstore_errors, a_second_init_is_refused) {
  OK(tn_kvstore_init(kv, &TN_KEYED("weight", one), 1));
  FAILS(tn_kvstore_init(kv, &TN_KEYED("weight", one), 1), TN_EXISTS,
        "tn_kvstore_init: the store has key \"weight\" already; init each key "
        "once, then push");
}

Test(kvstore_errors, a_refused_init_adds_no_key) {
  const tn_keyed twice[] = {TN_KEYED("a", one), TN_KEYED("b", one),
                            TN_KEYED("a", one)};
  FAILS(tn_kvstore_init(kv, twice, 3), TN_EXISTS, "key \"a\" already");
  FAILS(tn_kvstore_push(kv, twice, 1), TN_NOT_FOUND, "has no keys");
  OK(tn_kvstore_init(kv, twice, 2));
}

Test(kvstore_errors, a_refused_broadcast_adds_no_key) {
  FAILS(
      tn_kvstore_broadcast(kv, &TN_KEYED("a", one), 1, &TN_KEYED("b", one), 1),
      TN_NOT_FOUND, "tn_kvstore_broadcast: key \"b\" is unknown");
  OK(tn_kvstore_init(kv, &TN_KEYED("a", one), 1));
}

Test(kvstore_errors, a_pull_before_the_init_is_refused) {
  FAILS(tn_kvstore_pull(kv, &TN_KEYED(3, one), 1), TN_NOT_FOUND,
        "tn_kvstore_pull: key 3 is unknown; the store has no keys, so call "
        "tn_kvstore_init first");
}

Test(kvstore_errors, an_unknown_key_gets_a_similar_one) {
  OK(tn_kvstore_init(kv, &TN_KEYED("layer1_weight", one), 1));
  OK(tn_kvstore_init(kv, &TN_KEYED("layer1_bias", one), 1));
  OK(tn_kvstore_init(kv, &TN_KEYED(12, one), 1));
  FAILS(tn_kvstore_push(kv, &TN_KEYED("layer1_wieght", one), 1), TN_NOT_FOUND,
        "key \"layer1_wieght\" is unknown; did you mean \"layer1_weight\"?");
  FAILS(tn_kvstore_push(kv, &TN_KEYED("layer_bias", one), 1), TN_NOT_FOUND,
        "did you mean \"layer1_bias\"?");
  FAILS(tn_kvstore_push(kv, &TN_KEYED("12", one), 1), TN_NOT_FOUND,
        "key \"12\" is unknown; the store has the number 12");
  FAILS(tn_kvstore_push(kv, &TN_KEYED(13, one), 1), TN_NOT_FOUND,
        "key 13 is unknown; the store has \"layer1_weight\", \"layer1_bias\", "
        "12");
}

Test(kvstore_errors, an_unknown_key_gets_a_short_list) {
  for (int i = 0; i < 20; ++i) OK(tn_kvstore_init(kv, &TN_KEYED(i, one), 1));
  FAILS(tn_kvstore_push(kv, &TN_KEYED(-1, one), 1), TN_NOT_FOUND,
        "the store has 0, 1, 2, 3, 4, 5, 6, 7 and 12 others");
}

Test(kvstore_errors, long_keys_are_shortened) {
  char text[1001];
  memset(text, 'x', sizeof text - 1);
  text[sizeof text - 1] = 0;
  OK(tn_kvstore_init(kv, &TN_KEYED(text, one), 1));
  FAILS(tn_kvstore_init(kv, &TN_KEYED(text, one), 1), TN_EXISTS, "xxx...\"");
  cr_assert_lt(strlen(tn_error_text()), 250);
  text[0] = 'y';
  FAILS(tn_kvstore_push(kv, &TN_KEYED(text, one), 1), TN_NOT_FOUND, "unknown");
}

/* ------------------------------------------------------------------- arrays */

Test(kvstore_errors, describe_a_wrong_shape) {
  tn_array *other = make_other(TN_F32, 2, 8);
  OK(tn_kvstore_init(kv, &TN_KEYED("a", one), 1));
  FAILS(tn_kvstore_push(kv, &TN_KEYED("a", one, other), 1), TN_SHAPE,
        "tn_kvstore_push: array 1 of key \"a\" has the shape (2,8), but "
        "tn_kvstore_init gave the key the shape (4,4)");
  FAILS(tn_kvstore_pull(kv, &TN_KEYED("a", other), 1), TN_SHAPE, "array 0");
  tn_array_release(other);
}

Test(kvstore_errors, describe_a_wrong_type) {
  tn_array *other = make_other(TN_F64, 4, 4);
  OK(tn_kvstore_init(kv, &TN_KEYED("a", one), 1));
  FAILS(tn_kvstore_push(kv, &TN_KEYED("a", other), 1), TN_DTYPE,
        "array 0 of key \"a\" is f64, but tn_kvstore_init gave the key the "
        "type f32");
  tn_array_release(other);
}

Test(kvstore_errors, name_arrays_that_are_missing) {
  OK(tn_kvstore_init(kv, &TN_KEYED("a", one), 1));
  FAILS(tn_kvstore_push(kv, &TN_KEYED("a", one, NULL), 1), TN_INVALID,
        "array 1 of key \"a\" is NULL");
  FAILS(tn_kvstore_push(kv, &(tn_keyed){{"a", 0}, NULL, 2, 0}, 1), TN_INVALID,
        "array 0 of key \"a\" is NULL");
  FAILS(tn_kvstore_push(kv, &(tn_keyed){{"a", 0}, &one, 0, 0}, 1), TN_INVALID,
        "key \"a\" has no arrays");
  FAILS(tn_kvstore_init(kv, &TN_KEYED("b", one, one), 1), TN_INVALID,
        "key \"b\" has 2 arrays; pass one");
}

Test(kvstore_errors, a_refused_list_pushes_nothing) {
  tn_array *other = make_other(TN_F32, 2, 8), *two = make_array(rt, 2, 0);
  OK(tn_kvstore_init(kv, &TN_KEYED("a", one), 1));
  const tn_keyed list[] = {TN_KEYED("a", two), TN_KEYED("a", other)};
  FAILS(tn_kvstore_push(kv, list, 2), TN_SHAPE, "array 0 of key \"a\"");
  FAILS(tn_kvstore_push_pull(kv, list, 1, list + 1, 1), TN_SHAPE,
        "tn_kvstore_push_pull: array 0");
  expect_pulled(rt, kv, (tn_key){"a", 0}, 1);
  tn_array_release(two), tn_array_release(other);
}

Test(kvstore_errors, sums_need_the_plugin_tensor) {
  tn_runtime *bare = NULL;
  tn_kvstore *small = NULL;
  tn_array *value = NULL;
  OK(tn_runtime_create(NULL, &bare));
  OK(tn_kvstore_create(bare, "local", NULL, &small));
  OK(tn_array_create(bare, &(tn_spec){TN_F32, 0, NULL}, &value));
  OK(tn_kvstore_init(small, &TN_KEYED(1, value), 1));
  OK(tn_kvstore_push(small, &TN_KEYED(1, value), 1));
  FAILS(tn_kvstore_push(small, &TN_KEYED(1, value, value), 1), TN_NOT_FOUND,
        "tn_kvstore_push: key 1: the sum of several arrays needs operator "
        "`tensor.add_n`; load plugin `tensor`");
  tn_array_release(value);
  tn_kvstore_release(small);
  tn_runtime_release(bare);
}

/* ----------------------------------------------------------------- updaters */

Test(kvstore_errors, describe_operators_that_are_no_updaters) {
  FAILS(tn_kvstore_set_optimizer(kv, "elemwise.relu", NULL), TN_INVALID,
        "tn_kvstore_set_optimizer: elemwise.relu@1 has another form");
  FAILS(tn_kvstore_set_optimizer(kv, "tensor.add_n", NULL), TN_INVALID,
        "tensor.add_n@1 has another form");
  FAILS(tn_kvstore_set_optimizer(kv, "optim.sdg_update", NULL), TN_NOT_FOUND,
        "optim.sgd_update");
  FAILS(tn_kvstore_set_optimizer(kv, "optim.sgd_update", "lr=1 mom=2"),
        TN_NOT_FOUND, "mom");
  FAILS(tn_kvstore_set_optimizer(kv, "optim.sgd_update", NULL), TN_INVALID,
        "lr");
}

Test(kvstore_errors, a_refused_updater_leaves_the_old_one) {
  OK(tn_kvstore_init(kv, &TN_KEYED("a", one), 1));
  OK(tn_kvstore_set_updater(kv, add_received, rt, NULL));
  FAILS(tn_kvstore_set_optimizer(kv, "elemwise.relu", NULL), TN_INVALID,
        "form");
  OK(tn_kvstore_push(kv, &TN_KEYED("a", one), 1));
  expect_pulled(rt, kv, (tn_key){"a", 0}, 2);
}

/* ------------------------------------------------------ errors of the engine
 */

static tn_code fail_job(void *arg) {
  (void)arg;
  return tn_fail(TN_IO, "the disk is on the moon");
}

/* Schedules work that fails, and writes the array. */
static void spoil_array(tn_array *array) {
  tn_variable *variable = NULL;
  OK(tn_array_variable(array, &variable));
  OK(tn_push(rt, &(tn_job){.struct_size = sizeof(tn_job),
                           .run = fail_job,
                           TN_USES({variable, TN_OVERWRITE})}));
  tn_variable_release(variable);
}

Test(kvstore_errors, errors_of_arrays_travel_through_the_store) {
  tn_array *bad = make_array(rt, 1, 1), *out = make_array(rt, 0, 0);
  const tn_keyed both[] = {TN_KEYED("a", one), TN_KEYED("b", one)};
  OK(tn_kvstore_init(kv, both, 2));
  spoil_array(bad);
  const tn_code code = tn_kvstore_push(kv, &TN_KEYED("a", one, bad), 1);
  cr_assert(code == TN_OK || code == TN_IO);
  const tn_code pulled = tn_kvstore_pull(kv, &TN_KEYED("a", out), 1);
  cr_assert(pulled == TN_OK || pulled == TN_IO);
  FAILS(tn_array_wait(out), TN_IO, "the disk is on the moon");
  expect_pulled(rt, kv, (tn_key){"b", 0}, 1);
  OK(tn_kvstore_push(kv, &TN_KEYED("a", one, one), 1));
  expect_pulled(rt, kv, (tn_key){"a", 0}, 2);
  tn_array_release(out), tn_array_release(bad);
}

Test(kvstore_errors, a_store_keeps_its_runtime) {
  meter own;
  tn_runtime *other = open_runtime(TN_ENGINE_POOLED, &own);
  tn_kvstore *last = open_store(other, "local");
  tn_array *value = make_array(other, 5, 0);
  tn_runtime_release(other);
  OK(tn_kvstore_init(last, &TN_KEYED("a", value), 1));
  OK(tn_kvstore_push(last, &TN_KEYED("a", value, value), 1));
  OK(tn_kvstore_pull(last, &TN_KEYED("a", value), 1));
  expect_number(value, 10);
  tn_array_release(value);
  tn_kvstore_release(last);
  cr_assert_eq(own.n_living, 0);
}

Test(kvstore_errors, a_runtime_that_was_shut_down_is_reported) {
  OK(tn_kvstore_init(kv, &TN_KEYED("a", one), 1));
  OK(tn_runtime_shutdown(rt));
  tn_array *out = NULL;
  const int64_t shape[] = {SIDE, SIDE};
  OK(tn_array_create(rt, &(tn_spec){TN_F32, 2, shape}, &out));
  tn_code rc = tn_kvstore_push(kv, &TN_KEYED("a", one, one), 1);
  if (rc == TN_OK) rc = tn_kvstore_pull(kv, &TN_KEYED("a", out), 1);
  if (rc == TN_OK) rc = tn_array_wait(out);
  cr_assert_neq(rc, TN_OK);
  cr_assert_not_null(strstr(tn_error_text(), "shut"), "%s", tn_error_text());
  tn_array_release(out);
}
