/* SPDX-License-Identifier: Apache-2.0
 * batch_stress.c: data sets of several threads in one runtime (tenon/data.h):
 * arrays that all share, and a file. Each thread opens data with options that a
 * seed draws, reads batches, leaves calls that read them pending, saves and
 * restores, begins epochs early, and releases the data while batches are
 * prepared. Every batch must have the elements of its examples. Meant for
 * ThreadSanitizer; a plain program, because Criterion does not start under it.
 *
 *   batch_stress [data sets per thread and engine] [seed]
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tenon/data.h"
#include "tenon/engine.h"

enum { THREADS = 3, EXAMPLES = 300, WIDTH = 4, STEPS = 40, PENDING = 8 };

static unsigned long long seed = 1;
static long n_sets = 12;
static char path[] = "/tmp/tenon-batch-stress-XXXXXX";

static void die(const char *subject) {
  (void)fprintf(stderr, "batch_stress: %s: %s (seed %llu)\n", subject,
                tn_error_text(), seed);
  (void)unlink(path);
  exit(1);
}

static void must(tn_code code, const char *subject) {
  if (code != TN_OK) die(subject);
}

/* Both kinds of data have the elements 4 i, 4 i + 1, ... for example i. */
static void write_data(void) {
  const int fd = mkstemp(path);
  FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
  if (!file) die("a file");
  for (int i = 0; i < EXAMPLES; ++i)
    (void)fprintf(file, "%d,%d,%d,%d\n", 4 * i, 4 * i + 1, 4 * i + 2,
                  4 * i + 3);
  if (fclose(file)) die("a file");
}

static tn_array *make_array(tn_runtime *rt) {
  float values[EXAMPLES * WIDTH];
  tn_array *array = NULL;
  for (int i = 0; i < EXAMPLES * WIDTH; ++i) values[i] = (float)i;
  must(tn_array_create(rt, &(tn_spec){TN_F32, 2, (int64_t[]){EXAMPLES, WIDTH}},
                       &array),
       "create");
  must(tn_array_set(array, values, sizeof values), "set");
  return array;
}

/* ---------------------------------------------------------------- threads */

/* A job that reads a batch later. */
typedef struct reading {
  tn_array *array;
  uint64_t example; /* the first one */
  int32_t is_wrong;
} reading;

typedef struct user {
  tn_runtime *rt;
  tn_array *array;
  uint64_t state;
  reading readings[PENDING];
  uint64_t n_read;
  tn_variable *results; /* orders the uses of `readings` */
} user;

static uint32_t draw(user *u, uint32_t bound) {
  u->state =
      u->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(u->state >> 33) % bound;
}

static tn_data *open_data(user *u) {
  static const uint32_t prefetches[] = {0, 1, 3, TN_NO_PREFETCH};
  const tn_data_options options = {.struct_size = sizeof options,
                                   .batch = 1 + draw(u, 40),
                                   .last = draw(u, 3),
                                   .shuffle = draw(u, 2),
                                   .seed = draw(u, 5),
                                   .n_parts = 1 + draw(u, 2),
                                   .prefetch = prefetches[draw(u, 4)]};
  tn_data *data = NULL;
  must(draw(u, 2) ? tn_data_from_arrays(u->rt, &u->array, 1, &options, &data)
                  : tn_data_open(u->rt, &(tn_data_file){path, "csv", NULL},
                                 &options, &data),
       "open");
  return data;
}

static tn_code read_late(void *arg) {
  reading *r = arg;
  const float *values = tn_array_tensor(r->array)->data;
  r->is_wrong |= values[0] != (float)(4 * r->example);
  return TN_OK;
}

static void push_reading(user *u, const tn_batch *batch) {
  tn_variable *read = NULL;
  if (u->n_read % PENDING == 0)
    must(tn_variable_wait_write(u->results), "wait");
  reading *r = &u->readings[u->n_read++ % PENDING];
  *r = (reading){batch->arrays[0], batch->index[0], r->is_wrong};
  must(tn_array_variable(batch->arrays[0], &read), "variable");
  must(tn_push(u->rt,
               &(tn_job){.struct_size = sizeof(tn_job),
                         .run = read_late,
                         .arg = r,
                         TN_USES({read, TN_READ}, {u->results, TN_READ})}),
       "push");
  tn_variable_release(read);
}

static void read_batch(user *u, tn_data *data) {
  tn_batch batch;
  must(tn_data_next(data, &batch), "next");
  if (batch.n_arrays == 0) return;
  must(tn_array_wait(batch.arrays[0]), "wait");
  const float *values = tn_array_tensor(batch.arrays[0])->data;
  for (uint64_t i = 0; i < batch.n_examples; ++i)
    for (uint64_t k = 0; k < WIDTH; ++k)
      if (values[i * WIDTH + k] != (float)(4 * batch.index[i] + k))
        die("a batch has wrong elements");
  if (draw(u, 2)) push_reading(u, &batch);
}

static void use_data(user *u) {
  tn_data *data = open_data(u);
  tn_text *state = NULL;
  for (uint32_t steps = draw(u, STEPS); steps > 0; --steps)
    switch (draw(u, 9)) {
      case 0:
        must(tn_data_rewind(data), "rewind");
        break;
      case 1:
        tn_text_release(state);
        must(tn_data_save(data, &state), "save");
        break;
      case 2:
        if (state) must(tn_data_restore(data, tn_text_get(state)), "restore");
        break;
      default:
        read_batch(u, data);
    }
  tn_text_release(state);
  tn_data_release(data);
}

static void *run_user(void *arg) {
  user *u = arg;
  must(tn_variable_create(u->rt, NULL, NULL, &u->results), "variable");
  for (long i = 0; i < n_sets; ++i) use_data(u);
  must(tn_variable_wait_write(u->results), "wait");
  for (int i = 0; i < PENDING; ++i)
    if (u->readings[i].is_wrong) die("a late reader found wrong elements");
  tn_variable_release(u->results);
  return NULL;
}

static void run_engine(uint32_t engine) {
  static user users[THREADS];
  pthread_t threads[THREADS];
  tn_runtime *rt = NULL;
  must(tn_runtime_create(&(tn_options){.struct_size = sizeof(tn_options),
                                       .engine = engine,
                                       .workers = 3},
                         &rt),
       "a runtime");
  tn_array *array = make_array(rt);
  for (int i = 0; i < THREADS; ++i) {
    users[i] =
        (user){.rt = rt, .array = array, .state = (uint64_t)seed + (uint64_t)i};
    if (pthread_create(&threads[i], NULL, run_user, &users[i])) die("a thread");
  }
  for (int i = 0; i < THREADS; ++i) (void)pthread_join(threads[i], NULL);
  tn_array_release(array);
  must(tn_wait_all(rt), "wait for all");
  tn_runtime_release(rt);
}

int main(int argc, char **argv) {
  if (argc > 1) n_sets = strtol(argv[1], NULL, 10);
  if (argc > 2) seed = strtoull(argv[2], NULL, 10);
  write_data();
  run_engine(TN_ENGINE_POOLED);
  run_engine(TN_ENGINE_THREADED);
  run_engine(TN_ENGINE_NAIVE);
  (void)unlink(path);
  return 0;
}
