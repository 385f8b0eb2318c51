/* SPDX-License-Identifier: Apache-2.0
 * test_stores.c: key-value stores with arrays on two simulated GPUs.
 */
#include "fixture.h"
#include "tenon/kvstore.h"

enum { N = 3000, ROUNDS = 30, N_GPUS = 2 };

static const char *const places[N_GPUS] = {"cuda(0)", "cuda(1)"};

static void open_gpus(void) {
  fixture_open_all(
      &(fake_cuda_options){.devices = N_GPUS, .seed = 3, .latency_us = 50});
  OK(tn_plugin_load(fixture, TENSOR_FILE));
  OK(tn_plugin_load(fixture, TENSOR_CUDA_FILE));
}

TestSuite(stores, .init = open_gpus, .fini = fixture_close, .timeout = 100);

static void set_numbers(tn_array *array, float number) {
  static float v[N];
  for (int i = 0; i < N; ++i) v[i] = number;
  OK(tn_array_set(array, v, sizeof v));
}

static void expect_numbers(tn_array *array, float number) {
  static float v[N];
  OK(tn_array_get(array, v, sizeof v));
  for (int i = 0; i < N; ++i)
    cr_assert_eq(v[i], number, "element %d: %g, not %g", i, (double)v[i],
                 (double)number);
}

static tn_place place_of(tn_array *array) {
  const tn_tensor *t = tn_array_tensor(array);
  return (tn_place){t->device_type, t->device_id};
}

/* The device of the value, as the updater of a store sees it. */
static tn_code note_place(void *ctx, const tn_key *key, tn_array *received,
                          tn_array *local) {
  (void)key;
  *(tn_place *)ctx = place_of(local);
  cr_assert_eq(place_of(received).device_type, place_of(local).device_type);
  cr_assert_eq(place_of(received).device_id, place_of(local).device_id);
  return tn_array_copy(local, received);
}

/* Pushes from both GPUs and pulls into both, for many rounds without a wait;
 * the arrays change in each. */
static void run_rounds(tn_kvstore *kv, bool adds) {
  tn_array *values[N_GPUS], *out[N_GPUS];
  for (int i = 0; i < N_GPUS; ++i) {
    values[i] = fixture_array(places[i], N);
    out[i] = fixture_array(places[i], N);
    set_numbers(values[i], 0);
  }
  OK(tn_kvstore_init(kv, &TN_KEYED("w", values[1]), 1));
  for (int round = 1; round <= ROUNDS; ++round) {
    for (int i = 0; i < N_GPUS; ++i)
      set_numbers(values[i], (float)(round * (i + 1)));
    OK(tn_kvstore_push(kv, &(tn_keyed){{"w", 0}, values, N_GPUS, 0}, 1));
    OK(tn_kvstore_pull(kv, &(tn_keyed){{"w", 0}, out, N_GPUS, 0}, 1));
  }
  for (int i = 0; i < N_GPUS; ++i) {
    expect_numbers(out[i], adds ? 3 * ROUNDS * (ROUNDS + 1) / 2 : 3 * ROUNDS);
    tn_array_release(out[i]), tn_array_release(values[i]);
  }
}

Test(stores, sum_on_the_cpu) {
  tn_place place = {0};
  tn_kvstore *kv = NULL;
  OK(tn_kvstore_create(fixture, "local", NULL, &kv));
  OK(tn_kvstore_set_updater(kv, note_place, &place, NULL));
  run_rounds(kv, false);
  cr_assert_eq(place.device_type, TN_DEVICE_CPU);
  tn_kvstore_release(kv);
}

Test(stores, sum_on_the_gpu_of_the_key) {
  tn_place place = {0};
  tn_kvstore *kv = NULL;
  OK(tn_kvstore_create(fixture, "device", NULL, &kv));
  OK(tn_kvstore_set_updater(kv, note_place, &place, NULL));
  run_rounds(kv, false);
  cr_assert_eq(place.device_type, TN_DEVICE_CUDA);
  cr_assert_eq(place.device_id, 1);
  tn_kvstore_release(kv);
}

Test(stores, sum_without_an_updater) {
  static const char *const kinds[] = {"local", "device"};
  for (int k = 0; k < 2; ++k) {
    tn_kvstore *kv = NULL;
    OK(tn_kvstore_create(fixture, kinds[k], NULL, &kv));
    run_rounds(kv, false);
    tn_kvstore_release(kv);
  }
}

Test(stores, update_by_an_operator_on_the_gpu) {
  tn_kvstore *kv = NULL;
  OK(tn_kvstore_create(fixture, "device", NULL, &kv));
  OK(tn_kvstore_set_optimizer(kv, "elemwise.add", NULL));
  run_rounds(kv, true);
  tn_kvstore_release(kv);
}
