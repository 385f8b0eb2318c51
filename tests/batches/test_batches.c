/* SPDX-License-Identifier: Apache-2.0
 * test_batches.c: batches of arrays: order, parts, last batches, prefetching,
 * memory, positions, lives and mistakes. Orders come from
 * tests/reference/batches.py, the numbers of batches from MXNet's NDArrayIter.
 */
#include "../meter.h"
#include "batches_test.h"
#include "tenon/engine.h"

static const uint32_t engines[] = {TN_ENGINE_POOLED, TN_ENGINE_NAIVE,
                                   TN_ENGINE_THREADED};
enum { N_ENGINES = 3, N = 1000, WIDTH = 3 };

static tn_runtime *rt;

static tn_runtime *open_runtime(uint32_t engine, uint32_t workers) {
  tn_runtime *opened = NULL;
  OK(tn_runtime_create(&(tn_options){.struct_size = sizeof(tn_options),
                                     .engine = engine,
                                     .workers = workers},
                       &opened));
  return opened;
}

static void open_all(void) {
  rt = open_runtime(TN_ENGINE_POOLED, 3);
}

static void close_all(void) {
  tn_runtime_release(rt);
}

TestSuite(batches, .init = open_all, .fini = close_all, .timeout = 120);

/* Two fields: example i has the elements 10 i, 10 i + 1, ... and the label i.
 */
typedef struct table {
  tn_array *fields[2];
} table;

static table make_table(tn_runtime *in, int64_t n) {
  table t;
  float *values = malloc(((size_t)n * WIDTH + 1) * sizeof *values);
  int64_t *labels = malloc(((size_t)n + 1) * sizeof *labels);
  for (int64_t i = 0; i < n; ++i) {
    labels[i] = i;
    for (int k = 0; k < WIDTH; ++k) values[i * WIDTH + k] = (float)(10 * i + k);
  }
  OK(tn_array_create(in, &(tn_spec){TN_F32, 2, (int64_t[]){n, WIDTH}},
                     &t.fields[0]));
  OK(tn_array_create(in, &(tn_spec){TN_I64, 1, &n}, &t.fields[1]));
  OK(tn_array_set(t.fields[0], values, (size_t)n * WIDTH * sizeof *values));
  OK(tn_array_set(t.fields[1], labels, (size_t)n * sizeof *labels));
  free(values), free(labels);
  return t;
}

static void free_table(table *t) {
  tn_array_release(t->fields[0]), tn_array_release(t->fields[1]);
}

static tn_data *open_data(tn_runtime *in, int64_t n,
                          const tn_data_options *options) {
  tn_data *data = NULL;
  table t = make_table(in, n);
  OK(tn_data_from_arrays(in, t.fields, 2, options, &data));
  free_table(&t); /* the data keeps the arrays */
  return data;
}

/* Expects the elements that belong to the numbers of the examples. */
static void expect_examples(const tn_batch *batch) {
  const float *values = elements(batch->arrays[0]);
  const int64_t *labels = elements(batch->arrays[1]);
  cr_assert_eq(batch->n_arrays, 2);
  for (uint64_t i = 0; i < batch->n_examples; ++i) {
    cr_assert_eq((uint64_t)labels[i], batch->index[i]);
    for (int k = 0; k < WIDTH; ++k)
      cr_assert_eq(values[i * WIDTH + (uint64_t)k],
                   (float)(10 * batch->index[i] + (uint64_t)k));
  }
}

/* ----------------------------------------------------------- last batches */

Test(batches, of_a_short_rest_are_filled_from_the_beginning) {
  tn_data *data = open_data(rt, N, OPTIONS(.batch = 128));
  cr_assert_eq(tn_data_count_examples(data), N);
  cr_assert_eq(tn_data_count_batches(data), 8);
  for (uint64_t epoch = 0; epoch < 3; ++epoch) {
    unsigned counts[N] = {0};
    for (uint64_t b = 0; b < 8; ++b) {
      tn_batch batch;
      OK(tn_data_next(data, &batch));
      cr_assert_eq(batch.number, b);
      cr_assert_eq(batch.epoch, epoch);
      cr_assert_eq(batch.n_examples, 128);
      cr_assert_eq(batch.pad, b == 7 ? 24 : 0);
      cr_assert_eq(tn_array_tensor(batch.arrays[0])->shape[0], 128);
      cr_assert_eq(tn_array_tensor(batch.arrays[0])->shape[1], WIDTH);
      expect_examples(&batch);
      for (uint64_t i = 0; i < 128; ++i) {
        cr_assert_eq(batch.index[i], (128 * b + i) % N);
        ++counts[batch.index[i]];
      }
    }
    for (int i = 0; i < N; ++i) cr_assert_eq(counts[i], i < 24 ? 2 : 1);
    for (int twice = 0; twice < 2; ++twice) {
      tn_batch batch;
      OK(tn_data_next(data, &batch));
      cr_assert_eq(batch.n_arrays, 0);
    }
    OK(tn_data_rewind(data));
  }
  tn_data_release(data);
}

Test(batches, larger_than_the_data_repeat_it) {
  tn_batch batch;
  tn_data *data = open_data(rt, 3, OPTIONS(.batch = 8));
  cr_assert_eq(tn_data_count_batches(data), 1);
  OK(tn_data_next(data, &batch));
  cr_assert_eq(batch.pad, 5);
  for (uint64_t i = 0; i < 8; ++i) cr_assert_eq(batch.index[i], i % 3);
  expect_examples(&batch);
  tn_data_release(data);
}

Test(batches, of_a_short_rest_are_left_out_on_demand) {
  static sequence s;
  tn_data *data =
      open_data(rt, N, OPTIONS(.batch = 128, .last = TN_LAST_DISCARD));
  cr_assert_eq(tn_data_count_batches(data), 7);
  for (uint64_t i = 0; i < 2; ++i) {
    s.n = 0;
    cr_assert_eq(read_batches(data, 100, &s), 7);
    cr_assert_eq(s.n, 7 * 128);
    OK(tn_data_rewind(data));
  }
  tn_data_release(data);
}

/* 1000 examples in batches of 128: 104 roll over, then 80, 56, 32, 8, 112. */
Test(batches, of_a_short_rest_begin_the_next_epoch_on_demand) {
  static const uint64_t n_batches[] = {7, 8, 8, 8, 8, 7, 8};
  static sequence s;
  for (uint32_t shuffle = 0; shuffle < 2; ++shuffle) {
    tn_data *data = open_data(
        rt, N, OPTIONS(.batch = 128, .last = TN_LAST_ROLL, .shuffle = shuffle));
    s.n = 0;
    for (uint64_t epoch = 0; epoch < 7; ++epoch) {
      cr_assert_eq(tn_data_count_batches(data), n_batches[epoch]);
      cr_assert_eq(read_batches(data, 100, &s), n_batches[epoch]);
      cr_assert_eq(s.n, (epoch + 1) * N / 128 * 128);
      OK(tn_data_rewind(data));
    }
    for (uint64_t epoch = 0; epoch < 6; ++epoch) {
      sequence one = {.n = N};
      memcpy(one.at, s.at + epoch * N, N * sizeof *one.at);
      expect_all(&one, N, 1);
    }
    tn_data_release(data);
  }
}

Test(batches, of_an_epoch_that_is_left_early_roll_nothing_over) {
  static sequence s;
  tn_data *data = open_data(rt, N, OPTIONS(.batch = 128, .last = TN_LAST_ROLL));
  cr_assert_eq(read_batches(data, 3, &s), 3);
  OK(tn_data_rewind(data));
  cr_assert_eq(tn_data_count_batches(data), 7);
  s.n = 0;
  cr_assert_eq(read_batches(data, 7, &s), 7); /* not the call at the end */
  cr_assert_eq(s.at[0], 0);
  OK(tn_data_rewind(data));
  s.n = 0;
  cr_assert_eq(read_batches(data, 1, &s), 1);
  cr_assert_eq(s.at[0], 7 * 128);
  tn_data_release(data);
}

Test(batches, of_fewer_examples_than_a_batch_roll_over_until_they_fill_one) {
  static sequence s;
  tn_data *data = open_data(rt, 3, OPTIONS(.batch = 8, .last = TN_LAST_ROLL));
  for (uint64_t epoch = 0; epoch < 6; ++epoch) {
    const uint64_t full = epoch == 2 || epoch == 5;
    cr_assert_eq(tn_data_count_batches(data), full);
    cr_assert_eq(read_batches(data, 10, &s), full);
    OK(tn_data_rewind(data));
  }
  for (uint64_t i = 0; i < 16; ++i) cr_assert_eq(s.at[i], i % 3);
  tn_data_release(data);
}

Test(batches, of_no_examples_do_not_exist) {
  tn_batch batch;
  for (uint32_t last = 0; last < 3; ++last) {
    tn_data *data =
        open_data(rt, 0, OPTIONS(.batch = 4, .last = last, .shuffle = 1));
    cr_assert_eq(tn_data_count_batches(data), 0);
    for (int i = 0; i < 3; ++i) {
      OK(tn_data_next(data, &batch));
      cr_assert_eq(batch.n_arrays, 0);
      OK(tn_data_rewind(data));
    }
    tn_data_release(data);
  }
}

/* -------------------------------------------------------------------- order */

typedef struct order_case {
  size_t n;
  uint64_t seed, epoch;
  uint64_t order[24];
  int64_t seeds[3];
} order_case;

static const order_case cases[] = {
#include "batches_cases.inc"
};

Test(batches, have_the_documented_order) {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    const order_case *c = &cases[i];
    static sequence got, want;
    char state[256];
    tn_data *data = open_data(
        rt, (int64_t)c->n, OPTIONS(.batch = 1, .shuffle = 1, .seed = c->seed));
    /* A saved position reaches a late epoch. */
    (void)snprintf(state, sizeof state,
                   "kind=arrays examples=%zu batch=1 last=0 shuffle=1 "
                   "seed=%" PRId64 " part=0 n_parts=1 epoch=%" PRIu64
                   " next=0 carried=[]",
                   c->n, (int64_t)c->seed, c->epoch);
    OK(tn_data_restore(data, state));
    got.n = 0;
    want.n = c->n;
    memcpy(want.at, c->order, c->n * sizeof *want.at);
    (void)read_batches(data, 100, &got);
    expect_equal(&got, &want);
    tn_data_release(data);
  }
}

/* Reads some epochs of shuffled data. */
static void read_epochs(tn_runtime *in, const tn_data_options *options,
                        int n_epochs, sequence *to) {
  tn_data *data = open_data(in, N, options);
  to->n = 0;
  for (int epoch = 0; epoch < n_epochs; ++epoch) {
    tn_batch batch;
    for (;;) {
      OK(tn_data_next(data, &batch));
      if (batch.n_arrays == 0) break;
      expect_examples(&batch);
      for (uint64_t i = 0; i < batch.n_examples - batch.pad; ++i)
        to->at[to->n++] = batch.index[i];
    }
    OK(tn_data_rewind(data));
  }
  tn_data_release(data);
}

Test(batches, have_the_same_order_for_all_engines_threads_and_prefetches) {
  static const uint32_t prefetches[] = {TN_NO_PREFETCH, 1, 2, 7};
  static sequence want, got;
  read_epochs(rt, OPTIONS(.batch = 50, .shuffle = 1, .seed = 5), 3, &want);
  for (int e = 0; e < N_ENGINES; ++e)
    for (uint32_t workers = 1; workers <= 4; workers += 3) {
      tn_runtime *other = open_runtime(engines[e], workers);
      for (int p = 0; p < 4; ++p)
        for (uint32_t batch = 1; batch <= 2000; batch = batch * 5 + 2) {
          read_epochs(other,
                      OPTIONS(.batch = batch, .shuffle = 1, .seed = 5,
                              .prefetch = prefetches[p]),
                      3, &got);
          expect_equal(&got, &want);
        }
      tn_runtime_release(other);
    }
}

Test(batches, differ_between_epochs_and_seeds_and_have_all_examples) {
  static sequence s[3];
  read_epochs(rt, OPTIONS(.batch = 100, .shuffle = 1), 2, &s[0]);
  read_epochs(rt, OPTIONS(.batch = 100, .shuffle = 1, .seed = 1), 1, &s[1]);
  cr_assert_neq(memcmp(s[0].at, s[0].at + N, N * sizeof *s[0].at), 0);
  cr_assert_neq(memcmp(s[0].at, s[1].at, N * sizeof *s[0].at), 0);
  expect_all(&s[0], N, 2);
  expect_all(&s[1], N, 1);
}

Test(batches, of_all_parts_are_those_of_the_data) {
  static sequence one, all;
  for (uint32_t n = 1; n < 9; ++n)
    for (uint32_t shuffle = 0; shuffle < 2; ++shuffle) {
      uint64_t n_examples = 0;
      all.n = 0;
      for (uint32_t part = 0; part < n; ++part) {
        tn_data *data =
            open_data(rt, N,
                      OPTIONS(.batch = 7, .shuffle = shuffle, .seed = 2,
                              .part = part, .n_parts = n));
        const uint64_t count = tn_data_count_examples(data);
        cr_assert(count == N / n || count == N / n + 1);
        n_examples += count;
        (void)read_batches(data, 1000, &all);
        tn_data_release(data);
      }
      cr_assert_eq(n_examples, N);
      expect_all(&all, N, 1);
      read_epochs(rt, OPTIONS(.batch = 1, .shuffle = shuffle, .seed = 2), 1,
                  &one);
      expect_equal(&all, &one);
    }
}

/* ------------------------------------------------------------------- memory */

Test(batches, use_the_memory_of_a_few_again) {
  const void *addresses[16];
  size_t n = 0;
  tn_data *data = open_data(rt, N, OPTIONS(.batch = 10, .prefetch = 3));
  for (;;) {
    tn_batch batch;
    OK(tn_data_next(data, &batch));
    if (batch.n_arrays == 0) break;
    const void *address = elements(batch.arrays[0]);
    size_t at = 0;
    while (at < n && addresses[at] != address) ++at;
    if (at == n) addresses[n++] = address;
    cr_assert_leq(n, 4, "more arrays than prefetched ones and one");
  }
  cr_assert_eq(n, 4);
  tn_data_release(data);
}

/* A call that reads a batch is pending while the next batches are prepared. */
typedef struct reading {
  tn_array *array;
  int64_t first;
} reading;

static tn_code read_first(void *arg) {
  reading *r = arg;
  r->first = *(const int64_t *)tn_array_tensor(r->array)->data;
  return TN_OK;
}

Test(batches, wait_in_the_engine_for_pending_readers_of_their_memory) {
  static reading readings[N];
  for (int e = 0; e < N_ENGINES; ++e) {
    tn_runtime *other = open_runtime(engines[e], 2);
    tn_data *data = open_data(other, N, OPTIONS(.batch = 4, .prefetch = 1));
    for (int b = 0; b < N / 4; ++b) {
      tn_batch batch;
      tn_variable *read = NULL;
      OK(tn_data_next(data, &batch));
      readings[b] = (reading){batch.arrays[1], -1};
      OK(tn_array_variable(batch.arrays[1], &read));
      OK(tn_push(other, &(tn_job){.struct_size = sizeof(tn_job),
                                  .run = read_first,
                                  .arg = &readings[b],
                                  TN_USES({read, TN_READ})}));
      tn_variable_release(read);
    }
    OK(tn_wait_all(other));
    for (int b = 0; b < N / 4; ++b) cr_assert_eq(readings[b].first, 4 * b);
    tn_data_release(data);
    tn_runtime_release(other);
  }
}

/* The label of the example that a number of a batch means. */
static void expect_labels(const tn_batch *batch, int64_t first, int64_t step) {
  const int64_t *labels = elements(batch->arrays[1]);
  for (uint64_t i = 0; i < batch->n_examples; ++i)
    cr_assert_eq(labels[i], first + step * (int64_t)batch->index[i]);
}

Test(batches, of_views_have_the_elements_of_the_views) {
  tn_array *back = NULL, *turned = NULL, *labels = NULL;
  tn_batch batch;
  tn_data *data = NULL;
  table t = make_table(rt, N);
  tn_array *whole = NULL;
  /* Every third label backwards, and columns as examples. */
  OK(tn_array_slice(t.fields[1], &(tn_range){0, 0, 900, 6, -3}, &labels));
  const int64_t n = tn_array_size(labels);
  OK(tn_array_slice(t.fields[0], &(tn_range){0, 0, 1, 1 + n, 1}, &whole));
  OK(tn_array_slice(whole, &(tn_range){1, 0, 1, 3, 1}, &back));
  OK(tn_data_from_arrays(rt, (tn_array *[]){back, labels}, 2,
                         OPTIONS(.batch = 7, .shuffle = 1), &data));
  for (int b = 0; b < 40; ++b) {
    OK(tn_data_next(data, &batch));
    const float *values = elements(batch.arrays[0]);
    expect_labels(&batch, 900, -3);
    for (uint64_t i = 0; i < 7; ++i)
      for (uint64_t k = 0; k < 2; ++k)
        cr_assert_eq(values[2 * i + k],
                     (float)(10 * (batch.index[i] + 1) + k + 1));
  }
  tn_data_release(data);
  OK(tn_array_transpose(t.fields[0], NULL, &turned));
  OK(tn_data_from_arrays(rt, &turned, 1, OPTIONS(.batch = WIDTH), &data));
  OK(tn_data_next(data, &batch));
  const float *values = elements(batch.arrays[0]);
  for (int k = 0; k < WIDTH; ++k)
    for (int i = 0; i < N; ++i)
      cr_assert_eq(values[k * N + i], (float)(10 * i + k));
  tn_data_release(data);
  tn_array_release(back), tn_array_release(turned), tn_array_release(labels);
  tn_array_release(whole);
  free_table(&t);
}

Test(batches, may_have_one_array_as_two_fields) {
  tn_batch batch;
  tn_data *data = NULL;
  table t = make_table(rt, 10);
  OK(tn_data_from_arrays(rt, (tn_array *[]){t.fields[1], t.fields[1]}, 2,
                         OPTIONS(.batch = 4), &data));
  OK(tn_data_next(data, &batch));
  for (uint32_t f = 0; f < 2; ++f)
    for (int64_t i = 0; i < 4; ++i)
      cr_assert_eq(((const int64_t *)elements(batch.arrays[f]))[i], i);
  tn_data_release(data);
  free_table(&t);
}

/* ---------------------------------------------------------------- positions */

static void expect_same_rest(const tn_data_options *options, size_t n_epochs,
                             size_t n_batches) {
  static sequence want, got;
  tn_text *state = NULL;
  tn_data *data = open_data(rt, N, options);
  want.n = got.n = 0;
  for (size_t e = 0; e < n_epochs; ++e) {
    (void)read_batches(data, 1000, &want);
    OK(tn_data_rewind(data));
  }
  (void)read_batches(data, n_batches, &want);
  OK(tn_data_save(data, &state));
  want.n = 0;
  tn_data_options other = *options;
  other.prefetch = 5;
  tn_data *copy = open_data(rt, N, &other);
  (void)read_batches(copy, 2, &got); /* batches are in work */
  OK(tn_data_restore(copy, tn_text_get(state)));
  got.n = 0;
  for (int e = 0; e < 3; ++e) {
    (void)read_batches(data, 1000, &want);
    (void)read_batches(copy, 1000, &got);
    cr_assert_eq(tn_data_count_batches(copy), tn_data_count_batches(data));
    OK(tn_data_rewind(data));
    OK(tn_data_rewind(copy));
  }
  expect_equal(&got, &want);
  tn_text_release(state);
  tn_data_release(data);
  tn_data_release(copy);
}

Test(batches, continue_at_a_saved_position) {
  for (uint32_t last = 0; last < 3; ++last)
    for (size_t epochs = 0; epochs < 3; ++epochs)
      for (size_t n = 0; n < 12; n += 3) {
        expect_same_rest(OPTIONS(.batch = 96, .last = last, .shuffle = 1,
                                 .seed = UINT64_MAX - 3),
                         epochs, n);
        expect_same_rest(OPTIONS(.batch = 90, .last = last, .shuffle = 1,
                                 .part = 1, .n_parts = 3),
                         epochs, n);
      }
}

Test(batches, refuse_a_position_of_other_data_or_without_sense) {
  static const struct {
    const char *state, *part;
  } wrong[] = {
      {"kind=csv examples=1000 batch=10 last=2 shuffle=0 seed=0 part=0 "
       "n_parts=1 epoch=0 next=0 carried=[]",
       "of data of kind csv"},
      {"kind=arrays examples=999 batch=10 last=2 shuffle=0 seed=0 part=0 "
       "n_parts=1 epoch=0 next=0 carried=[]",
       "examples=999, and here it is 1000"},
      {"kind=arrays examples=1000 batch=10 last=2 shuffle=0 seed=3 part=0 "
       "n_parts=1 epoch=0 next=0 carried=[]",
       "seed=3, and here it is 0"},
      {"kind=arrays examples=1000 batch=10 last=2 shuffle=0 seed=0 part=0 "
       "n_parts=1 epoch=0 next=101 carried=[]",
       "no batch 101"},
      {"kind=arrays examples=1000 batch=10 last=2 shuffle=0 seed=0 part=0 "
       "n_parts=1 epoch=0 next=-1 carried=[]",
       "no batch -1"},
      {"kind=arrays examples=1000 batch=10 last=2 shuffle=0 seed=0 part=0 "
       "n_parts=1 epoch=0 next=0 carried=[1000]",
       "without changes"},
      {"kind=arrays examples=1000 batch=10 last=2 shuffle=0 seed=0 part=0 "
       "n_parts=1 epoch=0 next=0 carried=[0,1,2,3,4,5,6,7,8,9]",
       "10 examples"},
      {"kind=arrays", "examples"},
      {"hello", "key=value"}};
  tn_data *data = open_data(rt, N, OPTIONS(.batch = 10, .last = TN_LAST_ROLL));
  static sequence s;
  (void)read_batches(data, 1, &s);
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
    const tn_code rc = tn_data_restore(data, wrong[i].state);
    cr_assert_neq(rc, TN_OK, "%s", wrong[i].state);
    cr_assert_not_null(strstr(tn_error_text(), wrong[i].part), "%s lacks `%s`",
                       tn_error_text(), wrong[i].part);
  }
  (void)read_batches(data, 1, &s); /* nothing has changed */
  cr_assert_eq(s.at[10], 10);
  tn_data_release(data);
}

/* -------------------------------------------------------------------- lives */

Test(batches, are_released_at_any_time) {
  for (int e = 0; e < N_ENGINES; ++e)
    for (size_t n = 0; n < 6; ++n) {
      static sequence s;
      meter m = {0};
      tn_runtime *other = NULL;
      s.n = 0;
      OK(tn_runtime_create(
          &(tn_options){.struct_size = sizeof(tn_options),
                        .engine = engines[e],
                        .workers = 2,
                        .allocator = {&m, meter_alloc, meter_free}},
          &other));
      tn_data *data =
          open_data(other, N, OPTIONS(.batch = 9, .prefetch = 4, .shuffle = 1));
      (void)read_batches(data, n, &s);
      if (n % 2) OK(tn_data_rewind(data));
      if (n > 3) { /* the data keeps the runtime */
        tn_runtime_release(other);
        tn_data_release(data);
      } else {
        tn_data_release(data);
        tn_runtime_release(other);
      }
      cr_assert_eq(m.n_living, 0, "%zu blocks are left", m.n_living);
    }
}

Test(batches, of_several_runtimes_share_nothing) {
  static sequence s[2], want;
  tn_runtime *both[] = {open_runtime(TN_ENGINE_POOLED, 2),
                        open_runtime(TN_ENGINE_THREADED, 2)};
  tn_data *data[2];
  for (int i = 0; i < 2; ++i)
    data[i] = open_data(both[i], N, OPTIONS(.batch = 30, .shuffle = 1));
  for (int b = 0; b < 34; ++b)
    for (int i = 0; i < 2; ++i) (void)read_batches(data[i], 1, &s[i]);
  read_epochs(rt, OPTIONS(.batch = 30, .shuffle = 1), 1, &want);
  for (int i = 0; i < 2; ++i) {
    expect_equal(&s[i], &want);
    tn_data_release(data[i]);
    tn_runtime_release(both[i]);
  }
}

Test(batches, after_a_shutdown_are_refused) {
  tn_batch batch;
  static sequence s;
  tn_runtime *other = open_runtime(TN_ENGINE_POOLED, 2);
  tn_data *data = open_data(other, N, OPTIONS(.batch = 30));
  (void)read_batches(data, 1, &s);
  OK(tn_runtime_shutdown(other));
  cr_assert_neq(tn_data_next(data, &batch), TN_OK);
  cr_assert_eq(batch.n_arrays, 0);
  tn_data_release(data);
  tn_runtime_release(other);
}

static tn_code call_inside(void *arg) {
  tn_batch batch;
  const tn_code rc = tn_data_next(arg, &batch);
  tn_data_release(arg); /* without effect */
  return rc == TN_INVALID ? TN_OK : tn_fail(TN_IO, "it was not refused");
}

Test(batches, are_refused_inside_of_a_job) {
  static sequence s;
  tn_data *data = open_data(rt, N, OPTIONS(.batch = 30));
  OK(tn_push(
      rt, &(tn_job){
              .struct_size = sizeof(tn_job), .run = call_inside, .arg = data}));
  OK(tn_wait_all(rt));
  cr_assert_eq(read_batches(data, 100, &s), 34);
  tn_data_release(data);
}

/* Each allocation fails in turn. */
static tn_code use_with_failures(meter *m, size_t at) {
  tn_runtime *other = NULL;
  tn_data *data = NULL;
  tn_batch batch;
  OK(tn_runtime_create(&(tn_options){.struct_size = sizeof(tn_options),
                                     .workers = 1,
                                     .log = quiet,
                                     .allocator = {m, meter_alloc, meter_free}},
                       &other));
  table t = make_table(other, 20);
  m->n_allocated = 0;
  m->fail_at = at;
  tn_text *state = NULL;
  tn_code rc = tn_data_from_arrays(
      other, t.fields, 2,
      OPTIONS(.batch = 8, .last = TN_LAST_ROLL, .shuffle = 1), &data);
  for (int i = 0; i < 3 && rc == TN_OK; ++i) rc = tn_data_next(data, &batch);
  if (rc == TN_OK) rc = tn_data_rewind(data);
  if (rc == TN_OK) rc = tn_data_save(data, &state);
  if (rc == TN_OK) rc = tn_data_restore(data, tn_text_get(state));
  if (rc == TN_OK) rc = tn_data_next(data, &batch);
  const size_t n_allocated = m->n_allocated;
  m->fail_at = 0;
  tn_text_release(state);
  tn_data_release(data);
  free_table(&t);
  tn_runtime_release(other);
  m->n_allocated = n_allocated;
  return rc;
}

Test(batches, survive_the_failure_of_each_allocation) {
  size_t n_failed = 0;
  for (size_t at = 1;; ++at) {
    meter m = {0};
    const tn_code rc = use_with_failures(&m, at);
    cr_assert_eq(m.n_living, 0, "failure %zu leaves %zu blocks", at,
                 m.n_living);
    if (m.n_allocated < at) break;
    n_failed += rc != TN_OK;
    cr_assert_lt(at, 10000);
  }
  cr_assert_gt(n_failed, 20);
}

/* ----------------------------------------------------------------- mistakes */

Test(batches, with_wrong_options_are_refused) {
  tn_data *data = NULL;
  table t = make_table(rt, 10);
  static const struct {
    tn_data_options options;
    const char *part;
  } wrong[] = {
      {{.batch = 1}, "struct_size is 0"},
      {{.struct_size = sizeof(tn_data_options), .last = 3}, "last is 3"},
      {{.struct_size = sizeof(tn_data_options), .shuffle = 2}, "shuffle is 2"},
      {{.struct_size = sizeof(tn_data_options), .on_damage = 2},
       "on_damage is 2"},
      {{.struct_size = sizeof(tn_data_options), .part = 1}, "part is 1"},
      {{.struct_size = sizeof(tn_data_options), .part = 2, .n_parts = 2},
       "part is 2"},
      {{.struct_size = sizeof(tn_data_options), .prefetch = 5000},
       "prefetch is 5000"},
      {{.struct_size = sizeof(tn_data_options), .batch = UINT32_MAX},
       "batch is 4294967295"}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i)
    FAILS(tn_data_from_arrays(rt, t.fields, 2, &wrong[i].options, &data),
          TN_INVALID, wrong[i].part);
  FAILS(tn_data_from_arrays(rt, t.fields, 2,
                            OPTIONS(.place = {TN_DEVICE_CUDA, 7}), &data),
        TN_NOT_FOUND, "no devices of type 2");
  cr_assert_null(data);
  free_table(&t);
}

Test(batches, of_arrays_that_do_not_fit_are_refused) {
  tn_data *data = NULL;
  tn_array *scalar = NULL;
  table t = make_table(rt, 10), u = make_table(rt, 11);
  OK(tn_array_create(rt, &(tn_spec){TN_F32, 0, NULL}, &scalar));
  FAILS(tn_data_from_arrays(rt, (tn_array *[]){t.fields[0], u.fields[1]}, 2,
                            NULL, &data),
        TN_SHAPE, "field 1 has 11 examples, and field 0 has 10");
  FAILS(tn_data_from_arrays(rt, &scalar, 1, NULL, &data), TN_SHAPE,
        "field 0 has no dimension");
  FAILS(tn_data_from_arrays(rt, (tn_array *[]){t.fields[0], NULL}, 2, NULL,
                            &data),
        TN_INVALID, "field 1 is NULL");
  FAILS(tn_data_from_arrays(rt, t.fields, 0, NULL, &data), TN_INVALID,
        "no fields");
  FAILS(tn_data_open(rt, &(tn_data_file){"x", "parquet", NULL}, NULL, &data),
        TN_NOT_FOUND, "parquet");
  tn_array_release(scalar);
  free_table(&t), free_table(&u);
}
