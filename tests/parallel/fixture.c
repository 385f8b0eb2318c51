/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include "must.h"

const uint32_t engines[N_ENGINES] = {TN_ENGINE_POOLED, TN_ENGINE_NAIVE,
                                     TN_ENGINE_THREADED};

tn_runtime *open_runtime(uint32_t engine, meter *memory) {
  static const char *const files[] = {ELEMWISE_FILE, TENSOR_FILE, OPTIM_FILE};
  const tn_options options = {.struct_size = sizeof options,
                              .engine = engine,
                              .workers = 3,
                              .n_cpus = N_DEVICES,
                              .log = quiet,
                              .trust = TN_TRUST_ANY_FOLDER,
                              .allocator = {memory, meter_alloc, meter_free}};
  tn_runtime *rt = NULL;
  *memory = (meter){0};
  OK(tn_runtime_create(&options, &rt));
  for (size_t i = 0; i < sizeof files / sizeof *files; ++i)
    OK(tn_plugin_load(rt, files[i]));
  return rt;
}

void close_runtime(tn_runtime *rt, const meter *memory) {
  tn_runtime_release(rt);
  must_hold(memory->n_living == 0, "the runtime has not freed all memory");
}

tn_kvstore *open_store(tn_runtime *rt, const char *kind) {
  tn_kvstore *kv = NULL;
  OK(tn_kvstore_create(rt, kind, NULL, &kv));
  return kv;
}

tn_array *make_array(tn_runtime *rt, float number, int32_t device) {
  static const int64_t shape[] = {SIDE, SIDE};
  float v[SIZE];
  tn_array *array = NULL;
  for (int i = 0; i < SIZE; ++i) v[i] = number;
  OK(tn_array_create_on(rt, &(tn_spec){TN_F32, 2, shape},
                        (tn_place){TN_DEVICE_CPU, device}, &array));
  OK(tn_array_set(array, v, sizeof v));
  return array;
}

void make_arrays(tn_runtime *rt, float number, tn_array *out[N_DEVICES]) {
  for (int32_t i = 0; i < N_DEVICES; ++i) out[i] = make_array(rt, number, i);
}

void release_arrays(size_t n, tn_array *const *arrays) {
  for (size_t i = 0; i < n; ++i) tn_array_release(arrays[i]);
}

void expect_number(tn_array *array, float number) {
  float v[SIZE];
  OK(tn_array_get(array, v, sizeof v));
  for (int i = 0; i < SIZE; ++i)
    cr_assert_eq(v[i], number, "element %d: %g, not %g", i, (double)v[i],
                 (double)number);
}

void expect_pulled(tn_runtime *rt, tn_kvstore *kv, tn_key key, float number) {
  tn_array *out[N_DEVICES];
  make_arrays(rt, -1, out);
  OK(tn_kvstore_pull(kv, &(tn_keyed){key, out, N_DEVICES, 0}, 1));
  for (int i = 0; i < N_DEVICES; ++i) expect_number(out[i], number);
  release_arrays(N_DEVICES, out);
}

tn_code add_received(void *ctx, const tn_key *key, tn_array *received,
                     tn_array *local) {
  tn_operator *add = NULL;
  (void)key;
  const tn_code rc = tn_operator_get(ctx, "elemwise.add", &add);
  return rc ? rc
            : tn_call(ctx, add, TN_IN(local, received), NULL, TN_OUT(&local));
}
