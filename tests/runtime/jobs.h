/* SPDX-License-Identifier: Apache-2.0
 * jobs.h: shared parts of the tests of engine.h: runtimes that count their
 * memory, jobs that count their runs, and jobs that are pending until the test
 * ends them.
 */
#ifndef TESTS_RUNTIME_JOBS_H_
#define TESTS_RUNTIME_JOBS_H_

#include <criterion/criterion.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>

#include "probe.h"
#include "tenon/engine.h"

enum { N_ENGINES = 3 };
extern const uint32_t engines[N_ENGINES];
extern const uint32_t threaded[2]; /* those with workers */

extern _Atomic int64_t n_living; /* allocations of runtimes */
void *count_alloc(void *ctx, size_t bytes, size_t align);
void count_free(void *ctx, void *memory);

tn_runtime *open_runtime(uint32_t engine, uint32_t workers);
/* Releases the runtime, and fails if it has not freed all memory. */
void close_runtime(tn_runtime *rt);
tn_variable *make_variable(tn_runtime *rt);

/* The code of a push of a job that will fail: in the naive engine it runs
 * before the push returns. */
tn_code early(uint32_t engine, tn_code code);

#define EXPECT(code, expected) \
  cr_assert_eq((code), (expected), "%s", tn_error_text())
#define EXPECT_TEXT(part) \
  cr_assert(strstr(tn_error_text(), (part)), "%s", tn_error_text())

/* Jobs with a function; tests add the rest. */
#define JOB(function, data, ...)            \
  (&(tn_job){.struct_size = sizeof(tn_job), \
             .run = (function),             \
             .arg = (data),                 \
             __VA_ARGS__})
#define ASYNC(function, data, ...)          \
  (&(tn_job){.struct_size = sizeof(tn_job), \
             .begin = (function),           \
             .arg = (data),                 \
             __VA_ARGS__})

tn_code read_nothing(void *arg);
/* Both add one to an _Atomic int. */
tn_code count_run(void *arg);
void add_one(void *arg);

/* A function that blocks its worker until the test posts `go`. */
typedef struct gate {
  sem_t began, go;
} gate;

/* Pushes it, and returns when it runs. */
void push_gate(tn_runtime *rt, gate *g, tn_variable *x);

/* Keeps the token of an asynchronous job. */
typedef struct keeper {
  sem_t began;
  tn_token *token;
} keeper;

/* Its function; `arg` is the keeper. */
tn_code keep_token(void *arg, tn_token *token);
/* Pushes the job "request", and returns when it has begun. */
void push_kept(tn_runtime *rt, keeper *k, tn_variable *x);

#endif /* TESTS_RUNTIME_JOBS_H_ */
