/* SPDX-License-Identifier: Apache-2.0
 * registry_stress.c: threads load, unload, look up, make params, choose kernels
 * and inspect, on one shared registry and on their own. Run it under
 * ThreadSanitizer; without it, it still checks that only the answers occur that
 * may, and that nothing is left at the end.
 *
 *   registry_stress FIXTURES [ROUNDS [SEED]]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "choose.h"
#include "loading.h"

enum { N_THREADS = 8 };

typedef struct shared {
  tn__env env;
  tn__registry *registry;
  const char *fixtures;
  uint64_t seed;
  unsigned long rounds;
  _Atomic long blocks;
  _Atomic long errors;
} shared;

typedef struct worker {
  shared *all;
  uint64_t state;
} worker;

/* ------------------------------------------------------------------ helpers */

static void *counted_alloc(void *ctx, size_t bytes, size_t align) {
  shared *all = ctx;
  atomic_fetch_add(&all->blocks, 1);
  return aligned_alloc(align, (bytes + align - 1) / align * align);
}

static void counted_free(void *ctx, void *memory) {
  shared *all = ctx;
  if (memory) atomic_fetch_sub(&all->blocks, 1);
  free(memory);
}

static void no_log(void *ctx, int32_t level, const char *line) {
  (void)ctx, (void)level, (void)line;
}

/* splitmix64 */
static uint64_t draw(worker *w, uint64_t below) {
  uint64_t z = w->state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return (z ^ (z >> 31)) % below;
}

static const char *any(worker *w, const char *const *names, uint64_t n) {
  return names[draw(w, n)];
}

/* `rc` is TN_OK or one of three codes. */
static void expect(worker *w, const char *what, tn_code rc,
                   const tn_code allowed[3]) {
  for (int i = 0; i < 3; ++i)
    if (rc == TN_OK || rc == allowed[i]) return;
  atomic_fetch_add(&w->all->errors, 1);
  fprintf(stderr, "%s: %s: %s\n", what, tn_code_name(rc), tn_error_text());
}

static const char *const plugins[] = {"fix", "extra", "sticky", "user"};
static const char *const operators[] = {"fix.echo", "fix.echo@1", "fix.echo@2",
                                        "sticky.stay@1"};

static tn_code load(const shared *all, tn__registry *registry,
                    const char *name) {
  char path[1024];
  (void)snprintf(path, sizeof path, "%s/%s.so", all->fixtures, name);
  return tn__plugin_load(registry, path);
}

/* ------------------------------------------------------------------ actions */

static void load_one(worker *w) {
  const char *name = any(w, plugins, 4);
  /* user.so is refused while fix.so is not there. */
  expect(w, "load", load(w->all, w->all->registry, name),
         (tn_code[3]){TN_EXISTS, strcmp(name, "user") ? TN_OK : TN_NOT_FOUND});
}

static void unload_one(worker *w) {
  expect(w, "unload", tn__plugin_unload(w->all->registry, any(w, plugins, 4)),
         (tn_code[3]){TN_NOT_FOUND, TN_BUSY});
}

static void make_params(worker *w) {
  tn_operator *op;
  tn_params *params;
  tn_code rc = tn__operator_get(w->all->registry, any(w, operators, 4), &op);
  if (!rc) rc = tn__params_parse(op, "n=7", &params);
  expect(w, "params", rc, (tn_code[3]){TN_NOT_FOUND});
  if (rc) return;
  if (*(const int64_t *)params->data != 7) atomic_fetch_add(&w->all->errors, 1);
  tn__params_release(params);
}

static void choose(worker *w) {
  const tn__query query = {.device_type = TN_DEVICE_CPU};
  tn__choice choice;
  tn_operator *op;
  tn_code rc = tn__operator_get(w->all->registry, any(w, operators, 4), &op);
  if (!rc) rc = tn__operator_hold(op);
  expect(w, "hold", rc, (tn_code[3]){TN_NOT_FOUND});
  if (rc) return;
  if (!strstr(op->name, op->desc->name)) atomic_fetch_add(&w->all->errors, 1);
  rc = tn__kernel_choose(op, &query, &choice);
  expect(w, "choose", rc, (tn_code[3]){TN_UNSUPPORTED});
  if (!rc) tn__kernel_release(&choice);
  tn__operator_unhold(op);
}

static void pin(worker *w) {
  tn_operator *op;
  tn_code rc = tn__operator_get(w->all->registry, "fix.echo@1", &op);
  if (!rc) rc = tn__operator_pin(op, draw(w, 2) ? "extra.echo.cpu" : NULL);
  expect(w, "pin", rc, (tn_code[3]){TN_NOT_FOUND});
}

static void list(worker *w) {
  tn_operator *op;
  tn_plugin_info info;
  for (size_t i = 0; !tn__operator_at(w->all->registry, i, &op); ++i)
    if (!strchr(op->name, '@')) atomic_fetch_add(&w->all->errors, 1);
  (void)!tn__plugin_at(w->all->registry, draw(w, 4), &info);
}

static void inspect(worker *w) {
  tn_inspection *inspection;
  char path[1024];
  (void)snprintf(path, sizeof path, "%s/%s.so", w->all->fixtures,
                 any(w, plugins, 4));
  tn_code rc = tn__inspection_open(&w->all->env, path, &inspection);
  expect(w, "inspect", rc, (tn_code[3]){TN_OK});
  if (!rc) tn__inspection_close(inspection);
}

/* A whole life of a registry of one's own, on the same files. */
static void live(worker *w) {
  const tn__registry_options options = {.env = &w->all->env};
  tn__registry *registry;
  tn_operator *op;
  tn_code rc = tn__registry_create(&options, &registry);
  if (!rc) rc = load(w->all, registry, "extra");
  if (!rc) rc = load(w->all, registry, "fix");
  if (!rc) rc = tn__operator_get(registry, "fix.echo@1", &op);
  if (!rc && draw(w, 2)) rc = tn__plugin_unload(registry, "fix");
  expect(w, "own registry", rc, (tn_code[3]){TN_OK});
  tn__registry_destroy(registry);
}

static void *run(void *arg) {
  static void (*const actions[])(worker *) = {
      load_one, load_one, unload_one, make_params, make_params, choose,
      choose,   pin,      list,       inspect,     live};
  worker *w = arg;
  for (unsigned long i = 0; i < w->all->rounds; ++i)
    actions[draw(w, sizeof actions / sizeof *actions)](w);
  return NULL;
}

/* --------------------------------------------------------------------- main */

static void run_threads(shared *all) {
  pthread_t threads[N_THREADS];
  worker workers[N_THREADS];
  for (uint64_t i = 0; i < N_THREADS; ++i) {
    workers[i] = (worker){all, all->seed * N_THREADS + i};
    if (pthread_create(&threads[i], NULL, run, &workers[i])) exit(2);
  }
  for (size_t i = 0; i < N_THREADS; ++i) pthread_join(threads[i], NULL);
}

/* Nobody holds anything now: users go before the objects that they use. */
static void unload_all(shared *all) {
  static const char *const order[] = {"user", "extra", "fix", "sticky"};
  worker w = {all, 0};
  for (size_t i = 0; i < 4; ++i)
    expect(&w, "last unload", tn__plugin_unload(all->registry, order[i]),
           (tn_code[3]){TN_NOT_FOUND});
}

int main(int argc, char **argv) {
  shared all = {
      .fixtures = argc > 1 ? argv[1] : ".",
      .rounds = argc > 2 ? strtoul(argv[2], NULL, 10) : 2000,
      .seed = argc > 3 ? strtoull(argv[3], NULL, 10) : (uint64_t)time(NULL)};
  const tn__registry_options options = {.env = &all.env};
  all.env = *tn__env_default();
  all.env.allocator = (tn_allocator){&all, counted_alloc, counted_free};
  all.env.log = no_log;
  printf("seed %llu, %lu rounds, %d threads\n", (unsigned long long)all.seed,
         all.rounds, N_THREADS);
  if (tn__registry_create(&options, &all.registry)) return 2;
  run_threads(&all);
  unload_all(&all);
  if (all.registry->plugins.n || all.registry->pending.n) ++all.errors;
  tn__registry_destroy(all.registry);
  printf("%ld errors, %ld blocks left\n", (long)all.errors, (long)all.blocks);
  return all.errors || all.blocks ? 1 : 0;
}
