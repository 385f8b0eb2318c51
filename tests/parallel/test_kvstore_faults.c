/* SPDX-License-Identifier: Apache-2.0
 * test_kvstore_faults.c: each allocation of a program with a store fails in
 * turn: those of the runtime, and those of the store itself, which is linked
 * here with functions that can fail in place of malloc, calloc and realloc.
 */
#include <stdio.h>
#include <unistd.h>

#include "fixture.h"

/* ------------------------------------------------- allocations of the store */

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void __real_free(void *memory);
int __real_posix_memalign(void **memory, size_t align, size_t bytes);
int __wrap_posix_memalign(void **memory, size_t align, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void __wrap_free(void *memory);

static struct { long n, n_living, fail_at; /* fail_at 0: none fails */ } own;

static bool fails(void) {
  return ++own.n == own.fail_at;
}

static void *count_living(void *memory) {
  own.n_living += memory != NULL;
  return memory;
}

void *__wrap_malloc(size_t bytes) {
  return fails() ? NULL : count_living(__real_malloc(bytes));
}

void *__wrap_calloc(size_t n, size_t bytes) {
  return fails() ? NULL : count_living(__real_calloc(n, bytes));
}

void *__wrap_realloc(void *memory, size_t bytes) {
  if (fails()) return NULL;
  void *moved = __real_realloc(memory, bytes);
  own.n_living += moved && !memory;
  return moved;
}

/* Of meter.h, which has failures of its own. */
int __wrap_posix_memalign(void **memory, size_t align, size_t bytes) {
  const int error = __real_posix_memalign(memory, align, bytes);
  own.n_living += error == 0;
  return error;
}

void __wrap_free(void *memory) {
  own.n_living -= memory != NULL;
  __real_free(memory);
}

/* -------------------------------------------------------------- the program */

/* All arrays exist before the first failure. */
typedef struct program {
  tn_runtime *rt;
  tn_kvstore *kv;
  tn_array *values[N_DEVICES];
  tn_array *out[N_DEVICES];
  char path[64];
} program;

/* Runs everything that a store has, and stops at the first failure. */
static tn_code run_program(program *p) {
  const tn_keyed values[] = {{{"a", 0}, p->values, N_DEVICES, 1},
                             {{NULL, 1}, p->values, N_DEVICES, 0},
                             {{"b", 0}, p->values, 1, 5}};
  const tn_keyed first[] = {{{"a", 0}, p->values, 1, 0},
                            {{NULL, 1}, p->values + 1, 1, 0},
                            {{"b", 0}, p->values, 1, 0}};
  const tn_keyed out[] = {{{"a", 0}, p->out, N_DEVICES, 0},
                          {{NULL, 1}, p->out, N_DEVICES, 0}};
  const tn_keyed other = {{"c", 0}, p->values, 1, 0};
  const tn_keyed pulled = {{"c", 0}, p->out, 2, 0};
  tn_code rc = tn_kvstore_create(p->rt, "local", NULL, &p->kv);
  if (!rc) rc = tn_kvstore_init(p->kv, first, 3);
  if (!rc) rc = tn_kvstore_broadcast(p->kv, &other, 1, &pulled, 1);
  if (!rc) rc = tn_kvstore_push(p->kv, values, 3);
  if (!rc) rc = tn_kvstore_pull(p->kv, out, 2);
  if (!rc)
    rc = tn_kvstore_set_optimizer(p->kv, "optim.adam_update", "lr=0.125");
  for (int i = 0; i < 3 && !rc; ++i)
    rc = tn_kvstore_push_pull(p->kv, values, 3, out, 2);
  if (!rc) rc = tn_kvstore_save_states(p->kv, p->path);
  if (!rc) rc = tn_kvstore_load_states(p->kv, p->path);
  if (!rc) rc = tn_kvstore_set_updater(p->kv, add_received, p->rt, NULL);
  if (!rc) rc = tn_kvstore_push(p->kv, values, 3);
  for (int i = 0; i < N_DEVICES && !rc; ++i) rc = tn_array_wait(p->out[i]);
  return rc;
}

/* Sets an updater and pushes once more: a store that exists still works. */
static void expect_usable(program *p) {
  tn_array *one = make_array(p->rt, 1, 0), *out = make_array(p->rt, 0, 0);
  OK(tn_kvstore_set_updater(p->kv, NULL, NULL, NULL));
  tn_code rc = tn_kvstore_init(p->kv, &TN_KEYED("a", one), 1);
  cr_assert(rc == TN_OK || rc == TN_EXISTS, "%s", tn_error_text());
  OK(tn_kvstore_push(p->kv, &TN_KEYED("a", one, one), 1));
  OK(tn_kvstore_pull(p->kv, &TN_KEYED("a", out), 1));
  expect_number(out, 2);
  tn_array_release(out), tn_array_release(one);
}

/* Runs the program; its allocation `number` fails, of the runtime or of the
 * store. Returns false when the program ended before that allocation. */
static bool run_failing(bool of_runtime, long number) {
  meter memory;
  const long n_before = own.n_living;
  program p = {.rt = open_runtime(TN_ENGINE_NAIVE, &memory)};
  (void)snprintf(p.path, sizeof p.path, "/tmp/tenon-kvstore-%ld.npz",
                 (long)getpid());
  make_arrays(p.rt, 1, p.values);
  make_arrays(p.rt, 0, p.out);
  own.n = 0;
  own.fail_at = of_runtime ? 0 : number;
  memory.n_allocated = 0;
  memory.fail_at = of_runtime ? (size_t)number : 0;
  const tn_code rc = run_program(&p);
  const bool reached =
      of_runtime ? memory.n_allocated >= (size_t)number : own.n >= number;
  own.fail_at = 0;
  memory.fail_at = 0;
  if (rc != TN_OK)
    cr_assert_eq(rc, TN_OUT_OF_MEMORY, "allocation %ld: %d, %s", number, rc,
                 tn_error_text());
  cr_assert(reached || rc == TN_OK, "%s", tn_error_text());
  if (p.kv) expect_usable(&p);
  tn_kvstore_release(p.kv);
  release_arrays(N_DEVICES, p.values);
  release_arrays(N_DEVICES, p.out);
  close_runtime(p.rt, &memory);
  cr_assert_eq(own.n_living, n_before, "allocation %ld leaks", number);
  (void)unlink(p.path);
  return reached;
}

Test(kvstore_faults, survives_failures_of_its_own_allocations, .timeout = 200) {
  long n = 0;
  while (run_failing(false, ++n)) continue;
  cr_assert_gt(n, 40);
}

Test(kvstore_faults, survives_failures_of_the_runtime, .timeout = 200) {
  long n = 0;
  while (run_failing(true, ++n)) continue;
  cr_assert_gt(n, 100);
}
