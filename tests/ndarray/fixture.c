/* SPDX-License-Identifier: Apache-2.0
 * fixture.c: see fixture.h.
 */
#include "fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe.h"

world w;
uint32_t world_cpus = 1;
uint64_t world_features;

/* Keeps the alignment: kernels rely on it. Fills new memory with a pattern, so
 * that a test notices reads of memory that was never written. */
static void *meter_alloc(void *ctx, size_t bytes, size_t align) {
  meter *m = ctx;
  void *memory = NULL;
  int64_t asked = ++m->asked;
  if (m->fail_at > 0 &&
      (asked == m->fail_at || (m->for_ever && asked > m->fail_at)))
    return NULL;
  if (align < sizeof(void *)) align = sizeof(void *);
  if (posix_memalign(&memory, align, bytes)) return NULL;
  memset(memory, 0xa5, bytes);
  ++m->living;
  return memory;
}

static void meter_free(void *ctx, void *memory) {
  meter *m = ctx;
  --m->living;
  free(memory);
}

static void log_drop(void *ctx, int32_t level, const char *line) {
  (void)ctx, (void)level, (void)line;
}

static void engine_open(const tn__engine_options *options) {
  tn__engine_options o = *options;
  o.env = &w.env;
  cr_assert_eq(tn__engine_create(&o, &w.env.engine), TN_OK, "%s",
               tn_error_text());
  cr_assert_eq(tn__devices_create(&w.env, world_cpus, NULL, 0, &w.devices),
               TN_OK, "%s", tn_error_text());
  cr_assert_eq(tn__device_find(w.devices, TN_DEVICE_CPU, 0, &w.env.cpu), TN_OK,
               "%s", tn_error_text());
}

void world_open_with(const tn__engine_options *options) {
  memset(&w, 0, sizeof w);
  w.env = *tn__env_default();
  w.env.allocator = (tn_allocator){&w.memory, meter_alloc, meter_free};
  w.env.log = log_drop;
  engine_open(options);
  const tn__registry_options registry = {.env = &w.env,
                                         .cpu_features = world_features};
  cr_assert_eq(tn__registry_create(&registry, &w.registry), TN_OK, "%s",
               tn_error_text());
  cr_assert_eq(tn__caller_init(&w.caller, &w.env, w.registry, 77), TN_OK);
  cr_assert_eq(tn__plugin_add(w.registry, &probe_plugin), TN_OK, "%s",
               tn_error_text());
}

void world_open(void) {
  world_open_with(&(tn__engine_options){.workers = 2});
}

void world_close(void) {
  tn__engine_stop(w.env.engine);
  tn__caller_deinit(&w.caller);
  tn__devices_destroy(w.devices);
  tn__registry_destroy(w.registry);
  tn__engine_destroy(w.env.engine);
  if (w.memory.living == 0) return;
  /* Criterion does not count an assertion that fails while a test ends. */
  fprintf(stderr, "%lld allocations are left\n", (long long)w.memory.living);
  abort();
}

tn_operator *op_get(const char *name) {
  tn_operator *op = NULL;
  cr_assert_eq(tn__operator_get(w.registry, name, &op), TN_OK, "%s",
               tn_error_text());
  return op;
}

tn_array *empty(tn_dtype dtype, size_t ndim, const int64_t *shape) {
  tn_array *array = NULL;
  const tn_spec spec = {dtype, (int32_t)ndim, shape};
  cr_assert_eq(tn__array_create(&w.env, &spec, &array), TN_OK, "%s",
               tn_error_text());
  return array;
}

tn_array *floats(size_t ndim, const int64_t *shape, size_t n,
                 const float *values) {
  tn_array *array = empty(TN_F32, ndim, shape);
  cr_assert_eq(tn__array_set(array, values, n * sizeof *values), TN_OK, "%s",
               tn_error_text());
  return array;
}

tn_array *scalar(float value) {
  return floats(0, NULL, 1, &value);
}

void expect(tn_array *array, size_t n, const float *values) {
  float got[64];
  cr_assert(array != NULL && n <= 64);
  cr_assert_eq(tn__array_get(array, got, n * sizeof *got), TN_OK, "%s",
               tn_error_text());
  for (size_t i = 0; i < n; ++i)
    cr_assert_eq(got[i], values[i], "element %zu is %g, not %g", i,
                 (double)got[i], (double)values[i]);
}

void expect_text(const char *const *parts) {
  for (; *parts; ++parts)
    cr_assert(strstr(tn_error_text(), *parts) != NULL,
              "\"%s\" is missing in: %s", *parts, tn_error_text());
}

tn_code call_req(const char *op, size_t n, tn_array *const *in, tn_array **out,
                 tn_req req) {
  const tn_inputs inputs = {n, in};
  const tn_outputs outputs = {1, out, &req};
  return call_of(&w.caller, op_get(op), &inputs, NULL, &outputs);
}

tn_code call(const char *op, size_t n, tn_array *const *in, tn_array **out) {
  return call_req(op, n, in, out, TN_REQ_WRITE);
}
