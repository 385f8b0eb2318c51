/* SPDX-License-Identifier: Apache-2.0
 * fixture.h: runtimes with several devices, arrays and stores for the tests of
 * libtenon-parallel.
 */
#ifndef TESTS_PARALLEL_FIXTURE_H_
#define TESTS_PARALLEL_FIXTURE_H_

#include <criterion/criterion.h>
#include <string.h>

#include "meter.h"
#include "tenon/engine.h"
#include "tenon/kvstore.h"
#include "tenon/tenon.h"

/* Fails the test with the library's own text unless `call` returns TN_OK. */
#define OK(call) cr_assert_eq((call), TN_OK, "%s: %s", #call, tn_error_text())

/* Fails the test unless `call` returns `code` and its text has `part`. */
#define FAILS(call, code, part)                                          \
  do {                                                                   \
    cr_assert_eq((call), (code), "%s: %s", #call, tn_error_text());      \
    cr_assert_not_null(strstr(tn_error_text(), (part)), "%s lacks `%s`", \
                       tn_error_text(), (part));                         \
  } while (0)

enum { N_DEVICES = 4, N_ENGINES = 3, SIDE = 4, SIZE = SIDE * SIDE };
extern const uint32_t engines[N_ENGINES];

/* A runtime with plugins elemwise, tensor and optim, and with N_DEVICES devices
 * of the CPU, in place of others. `memory` counts its allocations. */
tn_runtime *open_runtime(uint32_t engine, meter *memory);
/* Releases it, and fails if it has not freed all memory. */
void close_runtime(tn_runtime *rt, const meter *memory);

tn_kvstore *open_store(tn_runtime *rt, const char *kind);

/* A (SIDE, SIDE) array of f32 with one number everywhere, on cpu(device). */
tn_array *make_array(tn_runtime *rt, float number, int32_t device);
/* N_DEVICES of them, one on each device. */
void make_arrays(tn_runtime *rt, float number, tn_array *out[N_DEVICES]);
void release_arrays(size_t n, tn_array *const *arrays);

/* Fails unless all elements of the array are `number`. */
void expect_number(tn_array *array, float number);
/* Pulls a key into a new array on each device, and compares all of them. */
void expect_pulled(tn_runtime *rt, tn_kvstore *kv, tn_key key, float number);

/* An updater: local += received. `ctx` is the runtime. */
tn_code add_received(void *ctx, const tn_key *key, tn_array *received,
                     tn_array *local);

#endif /* TESTS_PARALLEL_FIXTURE_H_ */
