/* SPDX-License-Identifier: Apache-2.0
 * test_device.c: devices of tables: which tables are accepted, how devices are
 * found, and that their work is ordered.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "fake.h"
#include "stage.h"

static stage s;
static fake *f;
static tn__device *device;

static void open_with(const fake_options *options) {
  f = fake_create(options);
  stage_open(&s);
}

static tn_code add_table(void) {
  return tn__devices_add(s.devices, fake_table(f));
}

static void find_device(void) {
  cr_assert_eq(add_table(), TN_OK, "%s", tn_error_text());
  cr_assert_eq(tn__device_find(s.devices, TN_DEVICE_EXT, 0, &device), TN_OK,
               "%s", tn_error_text());
}

static void close_all(void) {
  stage_close(&s);
  const fake_counts counts = fake_counts_get(f);
  cr_assert_eq(counts.violations, 0, "%s", fake_violation(f));
  cr_assert_eq(counts.pieces, 0);
  cr_assert_eq(counts.queues, 0);
  cr_assert_eq(counts.fences, 0);
  fake_destroy(f);
}

/* -------------------------------------------------------------------- names */

static void check_text(const char *text, int32_t type, int32_t id) {
  tn__device *found = NULL;
  char back[TN__DEVICE_TEXT];
  cr_assert_eq(tn__device_parse(s.devices, text, &found), TN_OK, "%s: %s", text,
               tn_error_text());
  cr_assert_eq(found->type, type);
  cr_assert_eq(found->id, id);
  tn__device_text(found, back);
  cr_assert_eq(strncmp(back, text, strlen(text)), 0, "%s", back);
}

static void check_refusal(const char *text, tn_code code, const char *why) {
  tn__device *found = (tn__device *)&s;
  cr_assert_eq(tn__device_parse(s.devices, text, &found), code, "%s", text);
  cr_assert_null(found);
  expect_text(why);
}

Test(name, is_read_with_and_without_a_number) {
  open_with(&(fake_options){.count = 3});
  cr_assert_eq(add_table(), TN_OK);
  check_text("cpu", TN_DEVICE_CPU, 0);
  check_text("cpu(0)", TN_DEVICE_CPU, 0);
  check_text("fake", TN_DEVICE_EXT, 0);
  check_text("fake(2)", TN_DEVICE_EXT, 2);
  close_all();
}

Test(name, that_is_invalid_is_refused_with_the_reason) {
  open_with(&(fake_options){.count = 3});
  cr_assert_eq(add_table(), TN_OK);
  check_refusal("", TN_INVALID, "it has no name");
  check_refusal("(1)", TN_INVALID, "it has no name");
  check_refusal(
      "gpu(x)", TN_INVALID,
      "\"gpu(x)\" is not a device: write a number from 0 between ( and ); "
      "write cpu or cuda(1)");
  check_refusal("cpu(-1)", TN_INVALID, "write a number from 0");
  check_refusal("cpu()", TN_INVALID, "write a number from 0");
  check_refusal("cpu(0", TN_INVALID, "a ) must follow its number");
  check_refusal("cpu(0) ", TN_INVALID, "nothing may follow the )");
  check_refusal("cpu(99999999999)", TN_INVALID, "too large");
  check_refusal(
      "tpu(0)", TN_NOT_FOUND,
      "there are no devices named \"tpu\"; this runtime has cpu, fake");
  check_refusal("cp", TN_NOT_FOUND, "no devices named \"cp\"");
  check_refusal("cpu(1)", TN_NOT_FOUND,
                "there is no cpu(1); cpu(0) is the only one");
  check_refusal("fake(3)", TN_NOT_FOUND,
                "there is no fake(3); there are fake(0) to fake(2)");
  close_all();
}

Test(name, of_missing_devices_reports_the_reason) {
  tn_device_entry entry;
  open_with(&(fake_options){.count = -1});
  cr_assert_eq(add_table(), TN_OK);
  check_refusal("fake", TN_NOT_FOUND,
                "there is no fake(0): nothing is plugged in");
  cr_assert_eq(tn__device_find(s.devices, 77, 0, &device), TN_NOT_FOUND);
  expect_text("there are no devices of type 77; this runtime has cpu, fake");
  cr_assert_eq(tn__devices_at(s.devices, 0, &entry), TN_OK);
  cr_assert_str_eq(entry.name, "cpu");
  cr_assert_eq(entry.device_type, TN_DEVICE_CPU);
  cr_assert_eq(entry.count, 1);
  cr_assert_eq(tn__devices_at(s.devices, 1, &entry), TN_OK);
  cr_assert_str_eq(entry.name, "fake");
  cr_assert_eq(entry.device_type, TN_DEVICE_EXT);
  cr_assert_eq(entry.count, 0);
  cr_assert_str_eq(entry.detail, "nothing is plugged in");
  cr_assert_eq(tn__devices_at(s.devices, 2, &entry), TN_NOT_FOUND);
  close_all();
}

/* ------------------------------------------------------------------- tables */

static tn_device table;

static void check_refused_table(tn_code code, const char *why) {
  tn_device_entry entry;
  cr_assert_eq(tn__devices_add(s.devices, &table), code, "%s", why);
  expect_text(why);
  cr_assert_eq(tn__devices_at(s.devices, 1, &entry), TN_NOT_FOUND);
  table = *fake_table(f);
}

static int32_t count_wrong(void *ctx, int32_t *out, tn_device_error *error) {
  (void)ctx, (void)error;
  *out = -3;
  return TN_OK;
}

static int32_t count_fails(void *ctx, int32_t *out, tn_device_error *error) {
  (void)ctx, (void)out;
  (void)snprintf(error->text, sizeof error->text, "no driver");
  return 17;
}

static int32_t info_wrong(void *ctx, int32_t id, tn_device_info *out,
                          tn_device_error *error) {
  (void)ctx, (void)error;
  out->device_id = id + 1;
  return TN_OK;
}

Test(table, that_is_invalid_is_refused) {
  open_with(&(fake_options){.count = 2});
  table = *fake_table(f);
  table.struct_size = 8;
  check_refused_table(TN_PLUGIN, "a device table's struct_size is 8");
  table.name = NULL;
  check_refused_table(TN_PLUGIN, "the device table for type 12 has no name");
  table.name = "Fake";
  check_refused_table(TN_PLUGIN,
                      "the device name \"Fake\" is not 1 to 24 of a-z");
  table.name = "abcdefghijklmnopqrstuvwxy";
  check_refused_table(TN_PLUGIN, "is not 1 to 24 of a-z");
  table.name = "";
  check_refused_table(TN_PLUGIN, "is not 1 to 24 of a-z");
  table.device_type = 0;
  check_refused_table(TN_PLUGIN, "is for device type 0");
  table.device_type = TN_DEVICE_CPU;
  check_refused_table(TN_EXISTS,
                      "there are devices named \"cpu\" of type 1 already");
  table.name = "cpu";
  check_refused_table(TN_EXISTS, "\"cpu\" of type 12 cannot be added");
  table.count = count_wrong;
  check_refused_table(TN_PLUGIN, "\"fake\" reports -3 devices");
  table.count = count_fails;
  check_refused_table(TN_DEVICE,
                      "fake: counting the devices failed: no driver");
  table.info = info_wrong;
  check_refused_table(TN_PLUGIN, "\"fake\" describes device 1 as device 2");
  close_all();
}

Test(table, without_one_of_its_functions_is_refused) {
  open_with(&(fake_options){.count = 1});
  const size_t first = offsetof(tn_device, count),
               last = offsetof(tn_device, fence_wait);
  table = *fake_table(f);
  for (size_t at = first; at <= last; at += sizeof(void (*)(void))) {
    memset((char *)&table + at, 0, sizeof(void (*)(void)));
    check_refused_table(TN_PLUGIN,
                        "the device table \"fake\" has no function ");
  }
  table.fence_wait = NULL;
  check_refused_table(TN_PLUGIN, "has no function fence_wait");
  close_all();
}

static int32_t begin_nothing(void *ctx, void *queue, tn_device_error *error) {
  (void)ctx, (void)queue, (void)error;
  return TN_OK;
}

Test(table, with_only_some_recording_functions_is_refused) {
  open_with(&(fake_options){.count = 1});
  table = *fake_table(f);
  table.capture_begin = begin_nothing;
  check_refused_table(
      TN_PLUGIN,
      "the device table \"fake\" has 1 of the functions "
      "capture_begin, capture_end, graph_launch and graph_close; "
      "give all of them, or none");
  close_all();
}

Test(table, of_an_older_release_has_no_sums) {
  tn__device *fake_device = NULL;
  open_with(&(fake_options){.count = 1});
  table = *fake_table(f);
  table.struct_size = offsetof(tn_device, sum);
  cr_assert_eq(tn__devices_add(s.devices, &table), TN_OK);
  cr_assert_eq(tn__device_find(s.devices, TN_DEVICE_EXT, 0, &fake_device),
               TN_OK);
  cr_assert(!tn__device_can_sum(fake_device));
  table.struct_size = sizeof table;
  cr_assert(tn__device_can_sum(fake_device));
  table.sum = NULL;
  cr_assert(!tn__device_can_sum(fake_device));
  close_all();
}

Test(table, reports_the_dtypes_of_its_sums_besides_floats) {
  tn__device *there = NULL;
  open_with(&(fake_options){.count = 1});
  table = *fake_table(f);
  table.struct_size = offsetof(tn_device, sum_dtypes);
  cr_assert_eq(tn__devices_add(s.devices, &table), TN_OK);
  cr_assert_eq(tn__device_find(s.devices, TN_DEVICE_EXT, 0, &there), TN_OK);
  cr_assert(tn__device_can_add(there, TN_BF16));
  cr_assert(!tn__device_can_add(there, TN_I32));
  table.struct_size = sizeof table;
  table.sum_dtypes = TN_BIT_I32;
  cr_assert(tn__device_can_add(there, TN_F64) &&
            tn__device_can_add(there, TN_I32));
  cr_assert(!tn__device_can_add(there, TN_BOOL));
  table.sum = NULL;
  cr_assert(!tn__device_can_add(there, TN_F32));
  close_all();
}

Test(table, reports_sums_of_f32_into_halves) {
  tn__device *there = NULL;
  open_with(&(fake_options){.count = 1});
  table = *fake_table(f);
  table.struct_size = offsetof(tn_device, sum_flags);
  cr_assert_eq(tn__devices_add(s.devices, &table), TN_OK);
  cr_assert_eq(tn__device_find(s.devices, TN_DEVICE_EXT, 0, &there), TN_OK);
  cr_assert(!tn__device_can_sum_wide(there));
  table.struct_size = sizeof table;
  cr_assert(tn__device_can_sum_wide(there));
  table.sum_flags = 0;
  cr_assert(!tn__device_can_sum_wide(there));
  table.sum_flags = TN_SUM_WIDE;
  table.sum = NULL;
  cr_assert(!tn__device_can_sum_wide(there));
  close_all();
}

Test(table, of_a_newer_release_is_accepted) {
  struct {
    tn_device known;
    void *newer;
  } longer = {.newer = &longer};
  open_with(&(fake_options){.count = 1});
  longer.known = *fake_table(f);
  longer.known.struct_size = sizeof longer;
  cr_assert_eq(tn__devices_add(s.devices, &longer.known), TN_OK);
  check_text("fake", TN_DEVICE_EXT, 0);
  close_all();
}

Test(device, opens_its_queues_when_it_is_first_requested) {
  tn_device_entry entry;
  open_with(&(fake_options){.count = 2});
  cr_assert_eq(add_table(), TN_OK);
  cr_assert_eq(tn__devices_at(s.devices, 1, &entry), TN_OK);
  cr_assert_eq(entry.count, 2);
  cr_assert(strstr(entry.detail, "Thread"), "%s", entry.detail);
  cr_assert_eq(fake_counts_get(f).queues, 0);
  check_text("fake(1)", TN_DEVICE_EXT, 1);
  cr_assert_eq(fake_counts_get(f).queues, 3);
  check_text("fake(1)", TN_DEVICE_EXT, 1);
  cr_assert_eq(fake_counts_get(f).queues, 3);
  close_all();
}

/* ------------------------------------------------------------------- copies */

enum { BYTES = 3000 };

static void write_pattern(tn__block *block, int more) {
  unsigned char *bytes = block->data;
  for (int i = 0; i < BYTES; ++i) bytes[i] = (unsigned char)(7 * i + more);
}

static bool has_pattern(tn__block *block, int more) {
  const unsigned char *bytes = block->data;
  for (int i = 0; i < BYTES; ++i)
    if (bytes[i] != (unsigned char)(7 * i + more)) return false;
  return true;
}

static void wait_for(tn__block *block) {
  cr_assert_eq(tn__wait(s.engine, &block->var, TN__WAIT_WRITERS, TN__FOREVER),
               TN_OK, "%s", tn_error_text());
}

Test(copy, goes_to_the_device_between_devices_and_back) {
  open_with(&(fake_options){.count = 2, .seed = 3, .latency_us = 10});
  find_device();
  tn__device *other = NULL;
  cr_assert_eq(tn__device_find(s.devices, TN_DEVICE_EXT, 1, &other), TN_OK);
  tn__block *from = stage_block(s.cpu, BYTES);
  tn__block *route[] = {stage_block(device, BYTES), stage_block(device, BYTES),
                        stage_block(other, BYTES), stage_block(s.cpu, BYTES),
                        stage_block(s.cpu, BYTES)};
  write_pattern(from, 5);
  tn__block *last = from;
  for (int i = 0; i < 5; ++i) {
    cr_assert_eq(stage_copy(&s, route[i], last), TN_OK, "%s", tn_error_text());
    last = route[i];
  }
  wait_for(last);
  cr_assert(has_pattern(last, 5));
  cr_assert_eq(fake_counts_get(f).copies, 4);
  tn__block_release(from);
  for (int i = 0; i < 5; ++i) tn__block_release(route[i]);
  close_all();
}

/* Each block is overwritten while it may still be read. Without the fences of
 * readers the fake device would report it. */
/* A queue waits for another only if that one has not finished when the copy is
 * issued. This depends on time, so the test repeats until it has happened. */
Test(copy, waits_for_readers_and_writers_on_other_queues) {
  enum { ROUNDS = 60, MOST_ROUNDS = 20000, BLOCKS = 4 };
  tn__block *host[BLOCKS], *there[BLOCKS], *back[BLOCKS];
  open_with(&(fake_options){.seed = 11});
  find_device();
  for (int b = 0; b < BLOCKS; ++b) {
    host[b] = stage_block(s.cpu, BYTES);
    back[b] = stage_block(s.cpu, BYTES);
    there[b] = stage_block(device, BYTES);
    write_pattern(host[b], b);
  }
  for (int i = 0; i < MOST_ROUNDS; ++i) {
    const int b = i % BLOCKS, c = i * 7 % BLOCKS;
    if (i >= ROUNDS && fake_counts_get(f).queue_waits > 0) break;
    fake_hold(f);
    cr_assert_eq(stage_copy(&s, there[b], host[c]), TN_OK);
    if (b != c) cr_assert_eq(stage_copy(&s, there[c], there[b]), TN_OK);
    cr_assert_eq(stage_copy(&s, back[b], there[c]), TN_OK);
    fake_go(f);
    wait_for(back[b]);
    cr_assert(has_pattern(back[b], c), "round %d", i);
  }
  cr_assert_gt(fake_counts_get(f).queue_waits, 0);
  for (int b = 0; b < BLOCKS; ++b) {
    tn__block_release(host[b]);
    tn__block_release(back[b]);
    tn__block_release(there[b]);
  }
  close_all();
}

Test(copy, is_refused_between_devices_of_different_types) {
  fake *second = fake_create(&(fake_options){.type = 99, .name = "second"});
  tn__device *far = NULL;
  open_with(&(fake_options){.count = 1});
  find_device();
  cr_assert_eq(tn__devices_add(s.devices, fake_table(second)), TN_OK);
  cr_assert_eq(tn__device_find(s.devices, 99, 0, &far), TN_OK);
  tn__block *from = stage_block(far, BYTES), *to = stage_block(device, BYTES);
  cr_assert_null(tn__device_copy_queue(device, far));
  (void)!stage_copy(&s, to, from);
  cr_assert_eq(tn__wait(s.engine, &to->var, TN__WAIT_WRITERS, TN__FOREVER),
               TN_UNSUPPORTED);
  expect_text(
      "bytes cannot be copied from device type 99 to device type 12 on this "
      "queue; copy to cpu(0) first, and from there on");
  tn__block_release(from);
  tn__block_release(to);
  close_all();
  cr_assert_eq(fake_counts_get(second).violations, 0);
  fake_destroy(second);
}

Test(copy, that_fails_later_leaves_its_error_on_the_copy) {
  open_with(&(fake_options){.count = 1});
  find_device();
  tn__block *from = stage_block(s.cpu, BYTES), *to = stage_block(device, BYTES);
  write_pattern(from, 0);
  fake_break(f, "an uncorrectable error of memory");
  cr_assert_eq(stage_copy(&s, to, from), TN_OK);
  cr_assert_eq(tn__wait(s.engine, &to->var, TN__WAIT_WRITERS, TN__FOREVER),
               TN_DEVICE);
  expect_text("fake(0): enqueued work failed: an uncorrectable error");
  tn__block_release(from);
  tn__block_release(to);
  close_all();
}

static tn_code run_fill(void *arg, tn__token *token) {
  const tn__block *block = arg;
  return tn__device_fill(token, block->device, block->data, 0x5a, block->bytes);
}

Test(fill, sets_every_byte) {
  open_with(&(fake_options){.count = 1});
  find_device();
  tn__block *block = stage_block(device, BYTES);
  tn__block *back = stage_block(s.cpu, BYTES);
  const tn__access access = {&block->var, TN__OVERWRITE, 0};
  const tn__job job = {.name = "fill",
                       .run = run_fill,
                       .arg = block,
                       .access = &access,
                       .n_access = 1,
                       .queue = device->compute};
  cr_assert_eq(tn__push(s.engine, &job), TN_OK);
  cr_assert_eq(stage_copy(&s, back, block), TN_OK);
  wait_for(back);
  for (int i = 0; i < BYTES; ++i)
    cr_assert_eq(((const unsigned char *)back->data)[i], 0x5a);
  cr_assert_eq(fake_counts_get(f).fills, 1);
  tn__block_release(block);
  tn__block_release(back);
  close_all();
}

/* ------------------------------------------------------------------- memory */

Test(memory, of_a_device_is_trimmed_before_an_allocation_fails) {
  void *a = NULL, *b = NULL, *c = NULL;
  open_with(&(fake_options){.count = 1, .bytes = 10240});
  find_device();
  cr_assert_eq(tn__heap_alloc(device, 4096, "a test", &a), TN_OK);
  cr_assert_eq(tn__heap_alloc(device, 6000, "a test", &b), TN_OK);
  tn__heap_free(device, b, 6000);
  cr_assert_eq(tn__heap_alloc(device, 5000, "a test", &c), TN_OK, "%s",
               tn_error_text());
  cr_assert_eq(fake_counts_get(f).refusals, 1);
  cr_assert_eq(tn__heap_alloc(device, 3000, "a test", &b), TN_OUT_OF_MEMORY);
  cr_assert_null(b);
  cr_assert_eq(fake_counts_get(f).refusals, 2);
  expect_text(
      "out of memory: the allocator refused 3000 bytes for a test on fake(0), "
      "where 9216 bytes are in use; release arrays");
  tn__heap_free(device, a, 4096);
  tn__heap_free(device, c, 5000);
  close_all();
}

Test(memory, for_transfers_comes_from_the_device_too) {
  void *memory = NULL;
  open_with(&(fake_options){.count = 1});
  find_device();
  cr_assert_eq(tn__piece_alloc(device->staging, 500, "a test", &memory), TN_OK);
  memset(memory, 1, 500); /* the host can access it */
  cr_assert_eq(fake_counts_get(f).pieces, 1);
  tn__piece_free(device->staging, memory, 500);
  cr_assert_eq(tn__heap_trim(device), 512);
  cr_assert_eq(s.cpu->staging, s.cpu->heap);
  close_all();
}

static void *go_after_a_refusal(void *arg) {
  while (fake_counts_get(f).refusals == 0) (void)sched_yield();
  fake_go(f);
  return arg;
}

/* For the engine the operation is complete, and the block has no owner, but the
 * device still fills it. */
Test(memory, of_a_device_is_awaited_before_an_allocation_fails) {
  pthread_t thread;
  void *memory = NULL;
  open_with(&(fake_options){.count = 1, .bytes = 6000});
  find_device();
  tn__block *from = stage_block(s.cpu, BYTES), *to = stage_block(device, BYTES);
  memset(from->data, 0, BYTES);
  fake_hold(f);
  cr_assert_eq(stage_copy(&s, to, from), TN_OK);
  while (atomic_load(&to->n_owners) > 1) (void)sched_yield();
  tn__block_release(to);
  tn__block_release(from);
  cr_assert_eq(pthread_create(&thread, NULL, go_after_a_refusal, NULL), 0);
  cr_assert_eq(tn__heap_alloc(device, 5000, "a test", &memory), TN_OK, "%s",
               tn_error_text());
  pthread_join(thread, NULL);
  tn__heap_free(device, memory, 5000);
  close_all();
}

static int32_t alloc_odd(void *ctx, int32_t id, uint32_t kind, uint64_t bytes,
                         void **out, tn_device_error *error) {
  (void)ctx, (void)id, (void)kind, (void)bytes, (void)error;
  *out = (char *)&table + 1;
  return TN_OK;
}

Test(memory, at_an_invalid_address_is_refused) {
  void *memory = NULL;
  open_with(&(fake_options){.count = 1});
  table = *fake_table(f);
  table.alloc = alloc_odd;
  cr_assert_eq(tn__devices_add(s.devices, &table), TN_OK);
  cr_assert_eq(tn__device_find(s.devices, TN_DEVICE_EXT, 0, &device), TN_OK);
  cr_assert_eq(tn__heap_alloc(device, 100, "a test", &memory), TN_PLUGIN);
  expect_text("it must be a multiple of 256");
  cr_assert_null(memory);
  close_all();
}

/* ----------------------------------------------------------------- failures */

/* Copies to the device and back. Returns the code of the first failure. */
static tn_code round_trip(tn__block *host, tn__block *back) {
  tn__block *there = NULL;
  tn__device *found = NULL;
  TN__TRY(tn__device_find(s.devices, TN_DEVICE_EXT, 0, &found));
  TN__TRY(tn__block_create(found, BYTES, &there));
  tn_code rc = tn__block_materialise(there);
  if (!rc) rc = stage_copy(&s, there, host);
  if (!rc) rc = stage_copy(&s, back, there);
  if (!rc) rc = tn__wait(s.engine, &back->var, TN__WAIT_ALL, TN__FOREVER);
  tn__block_release(there);
  return rc;
}

Test(failure, of_each_call_of_a_table_is_survived) {
  int64_t n = 0;
  tn_code rc = TN_DEVICE;
  while (rc != TN_OK) {
    open_with(&(fake_options){.count = 1});
    tn__block *host = stage_block(s.cpu, BYTES);
    tn__block *back = stage_block(s.cpu, BYTES);
    write_pattern(host, 1);
    fake_refuse(f, ++n);
    rc = add_table();
    if (!rc) rc = round_trip(host, back);
    if (rc) {
      cr_assert_eq(rc, TN_DEVICE, "%s", tn_error_text());
      expect_text("failed: the test refuses this call");
    } else {
      cr_assert(has_pattern(back, 1));
    }
    tn__block_release(host);
    tn__block_release(back);
    close_all();
  }
  cr_assert_gt(n, 8);
}

Test(failure, of_each_allocation_is_survived) {
  int64_t n = 0;
  tn_code rc = TN_OUT_OF_MEMORY;
  while (rc != TN_OK) {
    open_with(&(fake_options){.count = 1});
    tn__block *host = stage_block(s.cpu, BYTES);
    tn__block *back = stage_block(s.cpu, BYTES);
    write_pattern(host, 1);
    s.memory.fail_at = s.memory.n_calls + ++n;
    rc = add_table();
    if (!rc) rc = round_trip(host, back);
    s.memory.fail_at = 0;
    if (rc)
      cr_assert_eq(rc, TN_OUT_OF_MEMORY, "%s", tn_error_text());
    else
      cr_assert(has_pattern(back, 1));
    tn__block_release(host);
    tn__block_release(back);
    close_all();
  }
  cr_assert_gt(n, 5);
}
