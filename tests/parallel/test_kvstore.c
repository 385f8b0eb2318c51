/* SPDX-License-Identifier: Apache-2.0
 * test_kvstore.c: stores of one process: init, push, pull and updaters, with
 * the cases of tests/python/unittest/test_kvstore.py of MXNet, for each kind
 * and each engine.
 */
#include <pthread.h>
#include <stdio.h>

#include "fixture.h"

static const char *const kinds[] = {"local", "device"};
enum { N_KINDS = 2 };

/* Runs a check with a store of each kind in each engine. */
static void each_store(void (*check)(tn_runtime *rt, tn_kvstore *kv)) {
  for (int e = 0; e < N_ENGINES; ++e)
    for (int k = 0; k < N_KINDS; ++k) {
      meter memory;
      tn_runtime *rt = open_runtime(engines[e], &memory);
      tn_kvstore *kv = open_store(rt, kinds[k]);
      check(rt, kv);
      tn_kvstore_release(kv);
      close_runtime(rt, &memory);
    }
}

static const tn_key keys[] = {{NULL, 5}, {NULL, 7}, {NULL, -11}, {"b", 0}};
enum { N_KEYS = sizeof keys / sizeof *keys };

static void init_keys(tn_runtime *rt, tn_kvstore *kv, float number) {
  tn_array *first = make_array(rt, number, 1);
  OK(tn_kvstore_init(kv, &TN_KEYED(3, first), 1));
  OK(tn_kvstore_init(kv, &TN_KEYED("a", first), 1));
  tn_keyed list[N_KEYS];
  for (int i = 0; i < N_KEYS; ++i) list[i] = (tn_keyed){keys[i], &first, 1, 0};
  OK(tn_kvstore_init(kv, list, N_KEYS));
  tn_array_release(first);
}

/* Pushes `number` from each device to keys 3 and "a", or to all of `keys`. */
static void push_number(tn_runtime *rt, tn_kvstore *kv, float number,
                        bool many) {
  tn_array *values[N_DEVICES];
  tn_keyed list[N_KEYS];
  make_arrays(rt, number, values);
  for (int i = 0; i < N_KEYS; ++i)
    list[i] = (tn_keyed){keys[i], values, N_DEVICES, 0};
  if (many) {
    OK(tn_kvstore_push(kv, list, N_KEYS));
  } else {
    OK(tn_kvstore_push(kv, &(tn_keyed){{NULL, 3}, values, N_DEVICES, 0}, 1));
    OK(tn_kvstore_push(kv, &(tn_keyed){{"a", 0}, values, N_DEVICES, 0}, 1));
  }
  release_arrays(N_DEVICES, values);
}

static void expect_keys(tn_runtime *rt, tn_kvstore *kv, float number) {
  for (int i = 0; i < N_KEYS; ++i) expect_pulled(rt, kv, keys[i], number);
}

/* ------------------------------------------------------------ init and pull */

static void check_first_value(tn_runtime *rt, tn_kvstore *kv) {
  init_keys(rt, kv, 4);
  expect_pulled(rt, kv, (tn_key){NULL, 3}, 4);
  expect_pulled(rt, kv, (tn_key){"a", 0}, 4);
  expect_keys(rt, kv, 4);
}

Test(kvstore, pulls_the_first_value) {
  each_store(check_first_value);
}

static void check_copied_value(tn_runtime *rt, tn_kvstore *kv) {
  tn_array *first = make_array(rt, 1, 0), *other = make_array(rt, 2, 0);
  OK(tn_kvstore_init(kv, &TN_KEYED(3, first), 1));
  OK(tn_array_copy(first, other));
  expect_pulled(rt, kv, (tn_key){NULL, 3}, 1);
  tn_array_release(other), tn_array_release(first);
}

Test(kvstore, keeps_a_copy_of_the_first_value) {
  each_store(check_copied_value);
}

static void check_broadcast(tn_runtime *rt, tn_kvstore *kv) {
  tn_array *first = make_array(rt, 6, 2), *out[N_DEVICES];
  make_arrays(rt, 0, out);
  OK(tn_kvstore_broadcast(kv, &TN_KEYED("w", first), 1,
                          &(tn_keyed){{"w", 0}, out, N_DEVICES, 0}, 1));
  for (int i = 0; i < N_DEVICES; ++i) expect_number(out[i], 6);
  release_arrays(N_DEVICES, out);
  tn_array_release(first);
}

Test(kvstore, broadcasts_the_first_value) {
  each_store(check_broadcast);
}

static void check_many_keys(tn_runtime *rt, tn_kvstore *kv) {
  enum { MANY = 300 };
  static tn_keyed list[MANY];
  static tn_array *arrays[MANY];
  static char texts[MANY][16];
  for (int i = 0; i < MANY; ++i) {
    (void)snprintf(texts[i], sizeof texts[i], "layer%d", i);
    arrays[i] = make_array(rt, (float)i, i % N_DEVICES);
    list[i] = (tn_keyed){i % 2 ? (tn_key){texts[i], 0} : (tn_key){NULL, i},
                         &arrays[i], 1, 0};
  }
  OK(tn_kvstore_init(kv, list, MANY / 3));
  OK(tn_kvstore_init(kv, list + MANY / 3, MANY - MANY / 3));
  OK(tn_kvstore_push(kv, list, MANY));
  for (int i = 0; i < MANY; i += 7)
    expect_pulled(rt, kv, list[i].key, (float)i);
  release_arrays(MANY, arrays);
}

Test(kvstore, has_many_keys) {
  each_store(check_many_keys);
}

/* -------------------------------------------------------------------- sums */

static void check_single(tn_runtime *rt, tn_kvstore *kv) {
  tn_array *one = make_array(rt, 1, 3);
  init_keys(rt, kv, 0);
  OK(tn_kvstore_push(kv, &TN_KEYED(3, one), 1));
  expect_pulled(rt, kv, (tn_key){NULL, 3}, 1);
  expect_pulled(rt, kv, (tn_key){"a", 0}, 0);
  tn_array_release(one);
}

Test(kvstore, pulls_a_pushed_value) {
  each_store(check_single);
}

static void check_sum_of_devices(tn_runtime *rt, tn_kvstore *kv) {
  init_keys(rt, kv, 9);
  push_number(rt, kv, 1, false);
  expect_pulled(rt, kv, (tn_key){NULL, 3}, 4);
  expect_pulled(rt, kv, (tn_key){"a", 0}, 4);
  push_number(rt, kv, 2, true);
  expect_keys(rt, kv, 8);
}

Test(kvstore, sums_the_values_of_four_devices) {
  each_store(check_sum_of_devices);
}

static void check_repeated_key(tn_runtime *rt, tn_kvstore *kv) {
  tn_array *a = make_array(rt, 1, 0), *b = make_array(rt, 10, 1),
           *c = make_array(rt, 100, 0);
  init_keys(rt, kv, 0);
  const tn_keyed list[] = {TN_KEYED(3, a), TN_KEYED("a", a), TN_KEYED(3, b),
                           TN_KEYED(3, c, c)};
  OK(tn_kvstore_push(kv, list, 4));
  expect_pulled(rt, kv, (tn_key){NULL, 3}, 211);
  expect_pulled(rt, kv, (tn_key){"a", 0}, 1);
  tn_array_release(c), tn_array_release(b), tn_array_release(a);
}

Test(kvstore, sums_the_values_of_a_repeated_key) {
  each_store(check_repeated_key);
}

static void check_push_pull(tn_runtime *rt, tn_kvstore *kv) {
  tn_array *values[N_DEVICES];
  make_arrays(rt, 3, values);
  init_keys(rt, kv, 0);
  const tn_keyed item = {{"a", 0}, values, N_DEVICES, 0};
  OK(tn_kvstore_push_pull(kv, &item, 1, &item, 1));
  for (int i = 0; i < N_DEVICES; ++i) expect_number(values[i], 12);
  release_arrays(N_DEVICES, values);
}

Test(kvstore, pushes_and_pulls_into_the_same_arrays) {
  each_store(check_push_pull);
}

static void check_views(tn_runtime *rt, tn_kvstore *kv) {
  const int64_t shape[] = {SIDE, SIDE};
  float numbers[SIZE], turned[SIZE];
  tn_array *array = make_array(rt, 0, 0), *view = NULL, *out = NULL;
  for (int i = 0; i < SIZE; ++i) {
    numbers[i] = (float)i;
    turned[i] = 2 * (float)(i % SIDE * SIDE + i / SIDE);
  }
  init_keys(rt, kv, 0);
  OK(tn_array_set(array, numbers, sizeof numbers));
  OK(tn_array_transpose(array, NULL, &view));
  OK(tn_array_create(rt, &(tn_spec){TN_F32, 2, shape}, &out));
  OK(tn_kvstore_push(kv, &TN_KEYED(3, view, view), 1));
  OK(tn_kvstore_pull(kv, &TN_KEYED(3, out), 1));
  OK(tn_array_get(out, numbers, sizeof numbers));
  cr_assert_arr_eq(numbers, turned, sizeof turned);
  tn_array_release(out), tn_array_release(view), tn_array_release(array);
}

Test(kvstore, sums_views) {
  each_store(check_views);
}

/* ------------------------------------------------------------------ updaters
 */

static void check_function(tn_runtime *rt, tn_kvstore *kv) {
  OK(tn_kvstore_set_updater(kv, add_received, rt, NULL));
  init_keys(rt, kv, 0);
  push_number(rt, kv, 1, false);
  expect_pulled(rt, kv, (tn_key){NULL, 3}, 4);
  for (int i = 0; i < 4; ++i) push_number(rt, kv, 1, true);
  expect_keys(rt, kv, 16);
  OK(tn_kvstore_set_updater(kv, NULL, NULL, NULL));
  push_number(rt, kv, 1, true);
  expect_keys(rt, kv, 4);
}

Test(kvstore, updates_by_a_function) {
  each_store(check_function);
}

static void check_operator(tn_runtime *rt, tn_kvstore *kv) {
  OK(tn_kvstore_set_optimizer(kv, "elemwise.add", NULL));
  init_keys(rt, kv, 0);
  for (int i = 0; i < 4; ++i) push_number(rt, kv, 1, true);
  expect_keys(rt, kv, 16);
}

Test(kvstore, updates_by_an_operator) {
  each_store(check_operator);
}

/* Records the keys of updates, and fails if asked to. */
typedef struct record {
  int64_t numbers[8];
  int n;
  int n_dropped;
  bool fails;
} record;

static tn_code record_key(void *ctx, const tn_key *key, tn_array *received,
                          tn_array *local) {
  record *r = ctx;
  if (r->fails) return tn_fail(TN_INVALID, "the updater has no mood for it");
  r->numbers[r->n++ % 8] = key->text ? -1 : key->number;
  return tn_array_copy(local, received);
}

static void count_drop(void *ctx) {
  ++((record *)ctx)->n_dropped;
}

static void check_priorities(tn_runtime *rt, tn_kvstore *kv) {
  record r = {0};
  tn_array *one = make_array(rt, 1, 0);
  init_keys(rt, kv, 0);
  OK(tn_kvstore_set_updater(kv, record_key, &r, NULL));
  const tn_keyed list[] = {{{NULL, 3}, &one, 1, -2},
                           {{NULL, 5}, &one, 1, 1},
                           {{NULL, 7}, &one, 1, 0},
                           {{"a", 0}, &one, 1, 1},
                           {{NULL, 3}, &one, 1, 0}};
  OK(tn_kvstore_push(kv, list, 5));
  cr_assert_eq(r.n, 4);
  cr_assert_arr_eq(r.numbers, ((int64_t[]){5, -1, 3, 7}), 4 * sizeof(int64_t));
  tn_array_release(one);
}

Test(kvstore, updates_keys_with_a_higher_priority_first) {
  each_store(check_priorities);
}

static void check_drops(tn_runtime *rt, tn_kvstore *kv) {
  record r = {0}, last = {0};
  tn_kvstore *other = open_store(rt, "local");
  OK(tn_kvstore_set_updater(kv, record_key, &r, count_drop));
  OK(tn_kvstore_set_updater(kv, record_key, &r, count_drop));
  cr_assert_eq(r.n_dropped, 1);
  OK(tn_kvstore_set_optimizer(kv, "elemwise.add", NULL));
  cr_assert_eq(r.n_dropped, 2);
  OK(tn_kvstore_set_updater(other, record_key, &last, count_drop));
  tn_kvstore_release(tn_kvstore_retain(other));
  cr_assert_eq(last.n_dropped, 0);
  tn_kvstore_release(other);
  cr_assert_eq(last.n_dropped, 1);
}

Test(kvstore, drops_the_context_of_an_updater_once) {
  each_store(check_drops);
}

static void check_failing_updater(tn_runtime *rt, tn_kvstore *kv) {
  record r = {.fails = true};
  tn_array *one = make_array(rt, 1, 0);
  init_keys(rt, kv, 5);
  OK(tn_kvstore_set_updater(kv, record_key, &r, NULL));
  FAILS(tn_kvstore_push(kv, &TN_KEYED("a", one), 1), TN_INVALID,
        "tn_kvstore_push: key \"a\": the updater has no mood for it");
  r.fails = false;
  expect_pulled(rt, kv, (tn_key){"a", 0}, 5);
  tn_array_release(one);
}

Test(kvstore, reports_the_failure_of_an_updater) {
  each_store(check_failing_updater);
}

/* -------------------------------------------------------------------- order */

/* Each round writes the array, pushes it, pulls the sum into another array and
 * adds that to a total, and nothing waits. */
static void check_rounds(tn_runtime *rt, tn_kvstore *kv) {
  enum { ROUNDS = 200 };
  tn_array *value[N_DEVICES], *pulled[N_DEVICES], *total = NULL;
  make_arrays(rt, 0, value);
  make_arrays(rt, 0, pulled);
  total = make_array(rt, 0, 0);
  init_keys(rt, kv, 0);
  for (int i = 1; i <= ROUNDS; ++i) {
    float numbers[SIZE];
    for (int k = 0; k < SIZE; ++k) numbers[k] = (float)i;
    for (int k = 0; k < N_DEVICES; ++k)
      OK(tn_array_set(value[k], numbers, sizeof numbers));
    OK(tn_kvstore_push(kv, &(tn_keyed){{"a", 0}, value, N_DEVICES, 0}, 1));
    OK(tn_kvstore_pull(kv, &(tn_keyed){{"a", 0}, pulled, N_DEVICES, 0}, 1));
    OK(add_received(rt, NULL, pulled[0], total));
  }
  expect_number(total, 4 * ROUNDS * (ROUNDS + 1) / 2);
  tn_array_release(total);
  release_arrays(N_DEVICES, pulled);
  release_arrays(N_DEVICES, value);
}

Test(kvstore, orders_pushes_and_pulls_without_waits) {
  each_store(check_rounds);
}

typedef struct pusher {
  tn_runtime *rt;
  tn_kvstore *kv;
  tn_key key;
  int failures;
} pusher;

enum { N_PUSHES = 100 };

static void *push_often(void *arg) {
  pusher *p = arg;
  tn_array *one = make_array(p->rt, 1, 1);
  tn_array *out = make_array(p->rt, 0, 2);
  const tn_key both = {"a", 0};
  const tn_keyed list[] = {{p->key, &one, 1, 0}, {both, &one, 1, 0}};
  for (int i = 0; i < N_PUSHES; ++i) {
    p->failures += tn_kvstore_push(p->kv, list, 2) != TN_OK;
    p->failures +=
        tn_kvstore_pull(p->kv, &(tn_keyed){p->key, &out, 1, 0}, 1) != TN_OK;
  }
  tn_array_release(out), tn_array_release(one);
  return NULL;
}

static void check_threads(tn_runtime *rt, tn_kvstore *kv) {
  pusher pushers[N_KEYS];
  pthread_t threads[N_KEYS];
  init_keys(rt, kv, 0);
  OK(tn_kvstore_set_updater(kv, add_received, rt, NULL));
  for (int i = 0; i < N_KEYS; ++i) {
    pushers[i] = (pusher){rt, kv, keys[i], 0};
    cr_assert_eq(pthread_create(&threads[i], NULL, push_often, &pushers[i]), 0);
  }
  for (int i = 0; i < N_KEYS; ++i) (void)pthread_join(threads[i], NULL);
  for (int i = 0; i < N_KEYS; ++i) {
    cr_assert_eq(pushers[i].failures, 0);
    expect_pulled(rt, kv, keys[i], N_PUSHES);
  }
  expect_pulled(rt, kv, (tn_key){"a", 0}, N_KEYS * N_PUSHES);
}

Test(kvstore, serves_several_threads, .timeout = 100) {
  each_store(check_threads);
}
