/* SPDX-License-Identifier: Apache-2.0
 * plugins/cuda with a simulated driver: present and missing devices, memory,
 * copies, errors. At the end of every test the fake reports broken rules and
 * objects that were not freed.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "fake_cuda.h"
#include "fixture.h"

TestSuite(devices, .init = fixture_init, .fini = fixture_close);

/* ------------------------------------------------------------ devices
 */

static const char *detail(int32_t *count) {
  static tn_device_entry entry;
  OK(tn_device_at(fixture, 1, &entry));
  cr_assert_str_eq(entry.name, "cuda");
  cr_assert_eq(entry.device_type, TN_DEVICE_CUDA);
  *count = entry.count;
  return entry.detail;
}

static void says(const fake_cuda_options *options, int32_t n,
                 const char *text) {
  int32_t count = -1;
  fixture_open(options);
  const char *told = detail(&count);
  cr_assert_eq(count, n);
  cr_assert_str_eq(told, text);
}

Test(devices, are_described) {
  says(&(fake_cuda_options){.devices = 2, .version = 12040}, 2,
       "Fake 0, 1024 MiB, sm_90, driver for CUDA 12.4, bus 0000:01:00.0");
}

Test(devices, none_is_reported_with_the_drivers_reason) {
  says(&(fake_cuda_options){0}, 0,
       "the NVIDIA driver finds no GPU: CUDA_ERROR_NO_DEVICE: no CUDA-capable "
       "device is detected");
}

Test(devices, of_an_old_driver_are_none) {
  says(&(fake_cuda_options){.devices = 1, .version = 11010}, 0,
       "the NVIDIA driver is for CUDA 11.1, and at least 11.2 is needed; "
       "update the driver");
}

Test(devices, of_a_driver_that_does_not_start_are_none) {
  says(&(fake_cuda_options){.devices = 1, .init = 803}, 0,
       "the NVIDIA driver does not start: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH: "
       "system has unsupported display driver / cuda driver combination");
}

Test(devices, that_are_only_counted_open_no_context) {
  int32_t count = 0;
  fixture_open(&(fake_cuda_options){.devices = 2});
  (void)detail(&count);
  cr_assert_eq(fake_counts_get(fake_cuda()).queues, 0);
  cr_assert_eq(fake_cuda_contexts(), 0);
}

Test(devices, that_are_not_there_are_missed_by_name) {
  tn_place place;
  fixture_open(&(fake_cuda_options){.devices = 1});
  FAILS(tn_place_parse(fixture, "cuda(1)", &place), TN_NOT_FOUND, "cuda(1)");
}

/* ------------------------------------------------------------------- copies
 */

enum { N = 5000 };

static void round_trip(const char *first, const char *second) {
  float values[N], back[N];
  tn_array *host = fixture_array("cpu", N), *one = NULL, *two = NULL;
  for (int i = 0; i < N; ++i) values[i] = (float)(i % 97) - 3;
  OK(tn_array_set(host, values, sizeof values));
  OK(tn_array_to(host, fixture_place(first), &one));
  OK(tn_array_to(one, fixture_place(second), &two));
  OK(tn_array_get(two, back, sizeof back));
  cr_assert_arr_eq(values, back, sizeof values);
  tn_array_release(host);
  tn_array_release(one);
  tn_array_release(two);
}

Test(devices, copy_to_each_other_and_back) {
  fixture_open(&(fake_cuda_options){.devices = 2, .seed = 3});
  round_trip("cuda(0)", "cuda(1)");
  round_trip("cuda(1)", "cuda(0)");
  round_trip("cuda(1)", "cuda(1)");
  round_trip("cuda(0)", "cpu");
}

Test(devices, without_pools_work_as_well) {
  fixture_open(&(fake_cuda_options){.devices = 2, .no_pools = 1});
  round_trip("cuda(0)", "cuda(1)");
  cr_assert_eq(fake_cuda_pooled(), 0);
}

/* Bytes that cuda(0) holds in pinned memory. */
static long pinned_bytes(void) {
  tn_text *text = NULL;
  OK(tn_runtime_json(fixture, &text));
  const char *json = tn_text_get(text);
  const char *device = strstr(json, "\"name\": \"cuda(0)\", \"open\"");
  cr_assert_not_null(device, "%s", json);
  const char *staging = strstr(device, "\"staging\": ");
  cr_assert_not_null(staging, "%s", json);
  const long bytes = strtol(staging + strlen("\"staging\": "), NULL, 10);
  tn_text_release(text);
  return bytes;
}

Test(devices, copy_pinned_arrays_there_and_back) {
  const int64_t n = N;
  const tn_spec spec = {TN_F32, 1, &n};
  float values[N], back[N];
  tn_array *there = NULL, *to = NULL, *from = NULL;
  fixture_open(&(fake_cuda_options){.devices = 2, .seed = 5});
  const tn_place cuda = fixture_place("cuda(0)");
  cr_assert_eq(pinned_bytes(), 0);
  OK(tn_array_create_pinned(fixture, &spec, cuda, &from));
  OK(tn_array_create_pinned(fixture, &spec, cuda, &to));
  cr_assert_geq(pinned_bytes(), (long)(2 * sizeof values));
  cr_assert_eq(tn_array_tensor(from)->device_type, TN_DEVICE_CPU);
  for (int i = 0; i < N; ++i) values[i] = (float)(i % 89) - 5;
  OK(tn_array_set(from, values, sizeof values));
  OK(tn_array_to(from, cuda, &there));
  OK(tn_array_copy(to, there));
  tn_array_release(from); /* with copies of it pending */
  OK(tn_array_get(to, back, sizeof back));
  cr_assert_arr_eq(values, back, sizeof values);
  tn_array_release(to);
  tn_array_release(there);
  OK(tn_wait_all(fixture));
  OK(tn_memory_trim(fixture, cuda));
  cr_assert_eq(pinned_bytes(), 0);
}

Test(devices, pin_nothing_for_the_cpu_and_for_empty_arrays) {
  const int64_t n = N, none = 0;
  tn_array *array = NULL;
  fixture_open(&(fake_cuda_options){.devices = 1});
  OK(tn_array_create_pinned(fixture, &(tn_spec){TN_F32, 1, &n},
                            fixture_place("cpu"), &array));
  tn_array_release(array);
  OK(tn_array_create_pinned(fixture, &(tn_spec){TN_F32, 1, &none},
                            fixture_place("cuda"), &array));
  cr_assert_eq(pinned_bytes(), 0);
  cr_assert_eq(tn_array_size(array), 0);
  tn_array_release(array);
}

Test(devices, that_cannot_pin_an_array_say_so) {
  const int64_t n = N;
  const tn_spec spec = {TN_F32, 1, &n};
  tn_array *array = NULL;
  fixture_open(&(fake_cuda_options){.devices = 1});
  const tn_place cuda = fixture_place("cuda");
  FAILS(tn_array_create_pinned(fixture, &spec, (tn_place){TN_DEVICE_CUDA, 7},
                               &array),
        TN_NOT_FOUND, "cuda(7)");
  cr_assert_null(array);
  (void)fake_cuda_starve(1, true);
  FAILS(tn_array_create_pinned(fixture, &spec, cuda, &array), TN_OUT_OF_MEMORY,
        "the elements of an array in pinned memory");
  cr_assert_null(array);
  (void)fake_cuda_starve(0, false);
}

/* A view that is not dense, to the device and on it. */
Test(devices, copy_arrays_that_are_not_dense) {
  float values[12], back[6];
  const int64_t shape[] = {3, 4};
  const tn_range range = {.axis = 1, .begin = 0, .end = 4, .step = 2};
  tn_array *host = NULL, *there = NULL, *part = NULL, *dense = NULL;
  fixture_open(&(fake_cuda_options){.devices = 1});
  for (int i = 0; i < 12; ++i) values[i] = (float)i;
  OK(tn_array_create(fixture, &(tn_spec){TN_F32, 2, shape}, &host));
  OK(tn_array_set(host, values, sizeof values));
  OK(tn_array_to(host, fixture_place("cuda"), &there));
  OK(tn_array_slice(there, &range, &part));
  OK(tn_array_to(part, fixture_place("cuda"), &dense));
  OK(tn_array_get(dense, back, sizeof back));
  const float want[] = {0, 2, 4, 6, 8, 10};
  cr_assert_arr_eq(back, want, sizeof want);
  tn_array_release(host);
  tn_array_release(there);
  tn_array_release(part);
  tn_array_release(dense);
}

/* -------------------------------------------------------------------- memory
 */

enum { MEGABYTE = 1 << 20 };

/* An array of so many bytes, written. */
static tn_array *filled(size_t bytes) {
  tn_array *array = fixture_array("cuda", (int64_t)(bytes / 4));
  void *zeros = calloc(1, bytes);
  OK(tn_array_set(array, zeros, bytes));
  free(zeros);
  return array;
}

/* Also where nothing uses the arrays, and the host would make such a call on
 * the spot. */
static void run_prepared(int64_t n) {
  tn_array *x = fixture_array("cuda(0)", n), *y = fixture_array("cuda(0)", n);
  float *v = calloc((size_t)n, sizeof *v);
  tn_operator *op = NULL;
  tn_prepared *call = NULL;
  OK(tn_operator_get(fixture, "elemwise.negative", &op));
  const tn_preparation what = {.struct_size = sizeof what,
                               .op = op,
                               .inputs = *TN_IN(x),
                               .outputs = *TN_OUT(&y)};
  OK(tn_call_prepare(fixture, &what, &call));
  for (int run = 0; run < 3; ++run) {
    for (int64_t i = 0; i < n; ++i) v[i] = (float)(i % 100 + run);
    OK(tn_array_set(x, v, (size_t)n * sizeof *v));
    OK(tn_array_wait(x));
    OK(tn_array_wait(y));
    fake_hold(fake_cuda());
    OK(tn_call_run(call));
    fake_go(fake_cuda());
    OK(tn_array_get(y, v, (size_t)n * sizeof *v));
    for (int64_t i = 0; i < n; ++i) cr_assert_eq(v[i], -(float)(i % 100 + run));
  }
  tn_prepared_release(call);
  tn_array_release(x);
  tn_array_release(y);
  free(v);
}

Test(devices, run_prepared_calls_on_their_own_queue) {
  fixture_open_all(&(fake_cuda_options){.devices = 1, .latency_us = 50});
  run_prepared(5);
  run_prepared(1 << 17); /* which workers would share */
}

/* The memory of its work is freed after its last run. */
Test(devices, keep_the_workspace_of_a_prepared_call_until_it_has_run) {
  enum { ROWS = 1 << 16, CLASSES = 4 };
  fixture_open(&(fake_cuda_options){.devices = 1});
  OK(tn_plugin_load(fixture, NN_FILE));
  OK(tn_plugin_load(fixture, NN_CUDA_FILE));
  tn_array *x = fixture_array("cuda(0)", ROWS * CLASSES), *data = NULL;
  tn_array *labels = fixture_array("cuda(0)", ROWS), *loss = NULL;
  float *zeros = calloc(ROWS * CLASSES, sizeof *zeros), sum = 0;
  tn_operator *op = NULL;
  tn_prepared *call = NULL;
  OK(tn_array_set(x, zeros, ROWS * CLASSES * sizeof *zeros));
  OK(tn_array_set(labels, zeros, ROWS * sizeof *zeros));
  OK(tn_array_reshape(x, 2, (const int64_t[]){ROWS, CLASSES}, &data));
  OK(tn_operator_get(fixture, "nn.softmax_cross_entropy", &op));
  const tn_preparation what = {.struct_size = sizeof what,
                               .op = op,
                               .inputs = *TN_IN(data, labels),
                               .outputs = *TN_OUT(&loss)};
  OK(tn_call_prepare(fixture, &what, &call));
  OK(tn_call_run(call));
  OK(tn_array_wait(loss));
  fake_hold(fake_cuda());
  const int64_t before = fake_counts_get(fake_cuda()).records;
  OK(tn_call_run(call));
  while (fake_counts_get(fake_cuda()).records == before) (void)sched_yield();
  tn_prepared_release(call); /* its run is enqueued */
  OK(tn_memory_trim(fixture, fixture_place("cuda")));
  fake_go(fake_cuda());
  OK(tn_array_get(loss, &sum, sizeof sum));
  cr_assert_float_eq(sum, ROWS * log(CLASSES), 1);
  tn_array_release(x), tn_array_release(data);
  tn_array_release(labels), tn_array_release(loss);
  free(zeros);
}

Test(devices, give_back_trimmed_memory) {
  fixture_open(&(fake_cuda_options){.devices = 1});
  tn_array_release(filled(MEGABYTE));
  OK(tn_wait_all(fixture));
  OK(tn_memory_trim(fixture, fixture_place("cuda")));
  cr_assert_eq(fake_cuda_pooled(), 0);
  tn_memory memory = {.struct_size = sizeof memory};
  OK(tn_memory_get(fixture, fixture_place("cuda"), &memory));
  cr_assert_eq(memory.held, 0);
}

/* Four pieces of a quarter are freed, then a half is allocated. This succeeds
 * only after the heap and the pool have given their memory back. */
Test(devices, short_of_memory_trim_and_try_again) {
  tn_array *quarters[4];
  fixture_open(&(fake_cuda_options){.devices = 1, .bytes = 4 * MEGABYTE});
  for (int i = 0; i < 4; ++i) quarters[i] = filled(MEGABYTE);
  for (int i = 0; i < 4; ++i) tn_array_release(quarters[i]);
  OK(tn_wait_all(fixture));
  tn_array *half = filled(2 * MEGABYTE);
  tn_array_release(half);
}

/* The runtime's limit has made its heap give both pieces back, so only the
 * memory of the pool is left to trim. */
Test(devices, short_of_memory_take_from_their_own_pool_first) {
  fixture_open_within(
      &(fake_cuda_options){.devices = 1, .bytes = 5 * (MEGABYTE / 2)},
      2 * MEGABYTE);
  tn_array *one = filled(MEGABYTE), *two = filled(MEGABYTE);
  tn_array_release(one);
  tn_array_release(two);
  OK(tn_wait_all(fixture));
  tn_array_release(filled(2 * MEGABYTE));
}

Test(devices, out_of_memory_say_how_much_and_stay_usable) {
  tn_array *large = NULL;
  fixture_open(&(fake_cuda_options){.devices = 1, .bytes = 4 * MEGABYTE});
  tn_array *three = filled(3 * MEGABYTE);
  char *data = calloc(2, MEGABYTE);
  large = fixture_array("cuda", 2 * MEGABYTE / 4);
  FAILS(tn_array_set(large, data, 2 * MEGABYTE), TN_OUT_OF_MEMORY,
        "refused 2097152 bytes");
  FAILS(tn_array_set(large, data, 2 * MEGABYTE), TN_OUT_OF_MEMORY, "cuda(0)");
  tn_array_release(three);
  OK(tn_array_set(large, data, 2 * MEGABYTE));
  tn_array_release(large);
  free(data);
}

/* And stay usable. */
Test(devices, out_of_memory_say_for_which_operator) {
  const tn_range odd = {.axis = 0, .begin = 0, .end = MEGABYTE, .step = 2};
  tn_array *out = NULL, *half = NULL;
  tn_operator *tanh_op = NULL;
  fixture_open_all(&(fake_cuda_options){.devices = 1, .bytes = 7 * MEGABYTE});
  OK(tn_operator_get(fixture, "elemwise.tanh", &tanh_op));
  tn_array *four = filled(4 * MEGABYTE);
  FAILS(tn_call(fixture, tanh_op, TN_IN(four), NULL, TN_OUT(&out)),
        TN_OUT_OF_MEMORY,
        "elemwise.tanh@1: out of memory: the allocator refused 4194304 bytes");
  cr_expect_null(out);
  OK(tn_array_slice(four, &odd, &half));
  OK(tn_call(fixture, tanh_op, TN_IN(half), NULL, TN_OUT(&out)));
  OK(tn_array_wait(out));
  tn_array_release(out), tn_array_release(half), tn_array_release(four);
}

/* A library that records (a CUDA graph) in another thread forbids other threads
 * all calls that may disturb it, unless such a thread chose the relaxed mode. A
 * forbidden call would also end the recording. */
Test(devices, go_on_while_another_library_records) {
  fixture_open(&(fake_cuda_options){.devices = 2, .seed = 3});
  fake_capture_elsewhere(true);
  round_trip("cpu", "cuda(1)");
  round_trip("cuda(0)", "cuda(1)");
  tn_array_release(filled(MEGABYTE));
  fake_capture_elsewhere(false);
  cr_expect_str_empty(fake_violation(fake_cuda()));
  round_trip("cuda(1)", "cpu");
}

/* -------------------------------------------------------------------- errors
 */

Test(devices, that_fail_at_work_report_it_on_their_outputs) {
  float values[64] = {0};
  fixture_open(&(fake_cuda_options){.devices = 1});
  tn_array *there = fixture_array("cuda", 64), *back = NULL;
  OK(tn_array_set(there, values, sizeof values));
  OK(tn_array_wait(there));
  fake_break(fake_cuda(), "a bit fell over");
  OK(tn_array_to(there, fixture_place("cpu"), &back));
  FAILS(tn_array_get(back, values, sizeof values), TN_DEVICE,
        "CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure; the GPU is lost "
        "to this process");
  tn_array_release(back);
  tn_array_release(there);
  fixture_is_broken = true;
}

/* The copy notices it first, on the other one's stream. */
Test(devices, that_disappear_do_not_take_those_that_copy_from_them_along) {
  float values[64] = {0};
  fixture_open(&(fake_cuda_options){.devices = 2});
  tn_array *gone = fixture_array("cuda(0)", 64),
           *there = fixture_array("cuda(1)", 64);
  OK(tn_array_set(gone, values, sizeof values));
  OK(tn_array_set(there, values, sizeof values));
  OK(tn_wait_all(fixture));
  fake_cuda_lose(0, 719);
  tn_code rc = tn_array_copy(there, gone);
  if (rc == TN_OK) rc = tn_array_wait(there);
  FAILS(rc, TN_DEVICE, "the GPU is lost to this process");
  OK(tn_array_set(there, values, sizeof values));
  OK(tn_array_get(there, values, sizeof values));
  round_trip("cpu", "cuda(1)");
  FAILS(tn_array_set(gone, values, sizeof values), TN_DEVICE, "cuda(0)");
  tn_array_release(gone);
  tn_array_release(there);
  fixture_is_broken = true;
}

Test(devices, that_disappear_do_not_take_the_rest_with_them) {
  float values[64] = {0};
  fixture_open(&(fake_cuda_options){.devices = 2});
  tn_array *gone = fixture_array("cuda(0)", 64),
           *there = fixture_array("cuda(1)", 64);
  OK(tn_array_set(gone, values, sizeof values));
  OK(tn_array_wait(gone));
  fake_cuda_lose(0, 999);
  FAILS(tn_array_get(gone, values, sizeof values), TN_DEVICE,
        "CUDA_ERROR_UNKNOWN: unknown error; the GPU is lost to this process");
  /* Later errors report the first cause, not their own. */
  fake_cuda_lose(0, 719);
  FAILS(tn_array_get(gone, values, sizeof values), TN_DEVICE, "cuda(0)");
  cr_assert_not_null(strstr(tn_error_text(), "CUDA_ERROR_UNKNOWN"));
  OK(tn_array_set(there, values, sizeof values));
  OK(tn_array_get(there, values, sizeof values));
  round_trip("cpu", "cuda(1)");
  tn_array_release(gone);
  tn_array_release(there);
  fixture_is_broken = true;
}

/* ------------------------------------------------------------------- halves
 */

enum { N_PAIRS = 64, N_COLUMNS = 3 };

static tn_array *make_halves(tn_dtype dtype, int32_t ndim, const int64_t *shape,
                             const uint16_t *bits, size_t n) {
  tn_array *host = NULL, *there = NULL;
  OK(tn_array_create(fixture, &(tn_spec){dtype, ndim, shape}, &host));
  OK(tn_array_set(host, bits, n * sizeof *bits));
  OK(tn_array_to(host, fixture_place("cuda"), &there));
  tn_array_release(host);
  return there;
}

/* Checks the gradient of a row that broadcast_mul repeats: of each column the
 * sum of 64 pairs of products, (1 + e) (1 + e) and -(1 + 2 e), with e the last
 * bit of 1. A pair is e^2, or 0 if its products are rounded first. */
static void check_halves(tn_dtype dtype, tn_req req, uint16_t start,
                         uint16_t want) {
  enum { N_ROWS = 2 * N_PAIRS, N_ALL = N_ROWS * N_COLUMNS };
  const int64_t shape[] = {N_ROWS, N_COLUMNS};
  const uint16_t one = dtype == TN_F16 ? 0x3c00 : 0x3f80;
  uint16_t x[N_ALL], head[N_ALL], row[N_COLUMNS], old[N_COLUMNS];
  tn_operator *op = NULL;
  for (int i = 0; i < N_ALL; ++i) {
    const bool is_square = i / N_COLUMNS % 2;
    x[i] = (uint16_t)(is_square ? one + 1 : one + 2);
    head[i] = (uint16_t)(is_square ? one + 1 : one | 0x8000);
  }
  for (int i = 0; i < N_COLUMNS; ++i) row[i] = one, old[i] = start;
  tn_array *in[] = {make_halves(dtype, 2, shape, x, N_ALL),
                    make_halves(dtype, 1, shape + 1, row, N_COLUMNS)},
           *heads[] = {make_halves(dtype, 2, shape, head, N_ALL)},
           *grads[] = {NULL, make_halves(dtype, 1, shape + 1, old, N_COLUMNS)};
  const tn_req reqs[] = {TN_REQ_NULL, req};
  const tn_backward call = {.struct_size = sizeof call,
                            .inputs = {2, in},
                            .outputs = {1, in},
                            .out_grads = {1, heads},
                            .in_grads = {2, grads, reqs}};
  OK(tn_operator_get(fixture, "elemwise.broadcast_mul", &op));
  OK(tn_call_backward(fixture, op, &call));
  OK(tn_array_get(grads[1], old, sizeof old));
  for (int i = 0; i < N_COLUMNS; ++i)
    cr_assert_eq(old[i], want, "column %d is %#x, not %#x", i, old[i], want);
  tn_array_release(in[0]), tn_array_release(in[1]);
  tn_array_release(heads[0]), tn_array_release(grads[1]);
}

/* 64 e^2 is 2^-14 in f16 and 2^-8 in bf16. */
Test(devices, sum_gradients_of_repeated_halves_before_they_round) {
  fixture_open_all(&(fake_cuda_options){.devices = 1, .seed = 3});
  check_halves(TN_F16, TN_REQ_WRITE, 0x7e00, 0x0400);
  check_halves(TN_BF16, TN_REQ_WRITE, 0x7fc0, 0x3b80);
  check_halves(TN_F16, TN_REQ_ADD, 0x0400, 0x0800);
  check_halves(TN_BF16, TN_REQ_ADD, 0x3b80, 0x3c00);
}
