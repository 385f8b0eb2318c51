/* SPDX-License-Identifier: Apache-2.0
 * runtime.c: the life of a runtime.
 */
#include <string.h>

#include "graph.h"
#include "runtime.h"

/* ----------------------------------------------------------------- owners */

static void owner_retain(void *owner) {
  tn_runtime *rt = owner;
  atomic_fetch_add_explicit(&rt->n_owners, 1, memory_order_relaxed);
}

/* First everything comes to rest; then devices, whose tables may be a plugin's,
 * go before plugins, and the engine, which both may use, goes last. */
static void destroy(tn_runtime *rt) {
  tn__env env = rt->env; /* outlives the memory that it stands in */
  if (env.engine) tn__engine_stop(env.engine);
  if (rt->registry) tn__caller_deinit(&rt->caller);
  tn__devices_destroy(rt->devices);
  if (rt->registry) tn__registry_destroy(rt->registry);
  tn__engine_destroy(env.engine);
  tn__birth_deinit(&rt->birth);
  tn__free(&env, rt->search_path);
  tn__free(&env, rt);
}

/* In a forked child nothing is finished: other threads' locks may be held for
 * ever there, and plugins' threads are gone. */
static void owner_release(void *owner) {
  tn_runtime *rt = owner;
  if (atomic_fetch_sub_explicit(&rt->n_owners, 1, memory_order_acq_rel) > 1)
    return;
  if (tn__birth_here(&rt->birth)) destroy(rt);
}

void tn__runtime_release(tn_runtime *rt) {
  if (rt) owner_release(rt);
}

tn_code tn__runtime_fail_child(const tn_runtime *rt) {
  return tn__fail(TN_UNSUPPORTED,
                  "this runtime was made by process %d, and"
                  " this is a child made by fork, in which its threads and"
                  " locks do not exist; create a runtime in the child",
                  (int)rt->birth.pid);
}

tn_code tn__runtime_fail_inside(const char *function) {
  return tn__fail(TN_INVALID,
                  "%s was called from inside of an operator, which must not "
                  "call operators; make the call when the operator has "
                  "returned",
                  function);
}

tn_code tn__runtime_settle(tn_runtime *rt) {
  tn__var nothing = {0};
  TN__TRY(tn__wait(rt->env.engine, &nothing, TN__WAIT_ALL, TN__FOREVER));
  tn__engine_stop_pushed(rt->env.engine);
  return TN_OK;
}

/* ----------------------------------------------------------------- create */

static tn__env env_make(const tn_options *o) {
  tn__env env = *tn__env_default();
  if (o->allocator.alloc) env.allocator = o->allocator;
  if (o->log) {
    env.log = o->log;
    env.log_ctx = o->log_ctx;
  }
  env.log_level = (int32_t)o->log_level;
  return env;
}

static tn_code engine_create(tn_runtime *rt, const tn_options *o) {
  const tn__engine_options options = {.env = &rt->env,
                                      .kind = o->engine == TN_ENGINE_NAIVE
                                                  ? TN__ENGINE_NAIVE
                                                  : TN__ENGINE_POOLED,
                                      .workers = o->workers};
  return tn__engine_create(&options, &rt->env.engine);
}

static tn_code devices_create(tn_runtime *rt, const tn_options *o) {
  TN__TRY(tn__devices_create(&rt->env, o->n_cpus, o->memory_limits,
                             o->n_memory_limits, &rt->devices));
  return tn__device_find(rt->devices, TN_DEVICE_CPU, 0, &rt->env.cpu);
}

static tn_code device_add(void *ctx, const tn_device *table) {
  tn_runtime *rt = ctx;
  return tn__devices_add(rt->devices, table);
}

static tn_code registry_create(tn_runtime *rt, const tn_options *o) {
  uint64_t features = tn__cpu_features() & ~o->cpu_mask;
  tn__cpu_text(features, rt->device_detail, sizeof rt->device_detail);
  const tn__registry_options options = {.env = &rt->env,
                                        .trust = o->trust,
                                        .cpu_features = features,
                                        .parallel_for = tn__host_parallel_for,
                                        .device_add = device_add,
                                        .device_ctx = rt,
                                        .passes = &tn__passes_table,
                                        .helpers = tn__helper_folder,
                                        .probe_seconds = o->probe_seconds};
  tn__registry *registry = NULL;
  TN__TRY(tn__registry_create(&options, &registry));
  tn_code rc = tn__caller_init(&rt->caller, &rt->env, registry, o->seed);
  if (rc)
    tn__registry_destroy(registry);
  else
    rt->registry = registry;
  return rc;
}

static tn_code parts_create(tn_runtime *rt, const tn_options *o) {
  if (o->search_path) {
    rt->search_path = tn__strdup(&rt->env, o->search_path);
    if (!rt->search_path)
      return tn__fail_memory(strlen(o->search_path) + 1, "the search path");
  }
  TN__TRY(engine_create(rt, o));
  TN__TRY(devices_create(rt, o));
  return registry_create(rt, o);
}

tn_code tn__runtime_create(const tn_options *options, tn_runtime **out) {
  tn_options o;
  TN__TRY(tn__options_read(options, &o));
  tn__env env = env_make(&o);
  tn_runtime *rt = tn__zalloc(&env, sizeof *rt);
  if (!rt) return tn__fail_memory(sizeof *rt, "a runtime");
  env.owner = rt;
  env.retain = owner_retain;
  env.release = owner_release;
  rt->env = env;
  atomic_init(&rt->n_owners, 1);
  tn__birth_init(&rt->birth);
  tn_code rc = parts_create(rt, &o);
  if (rc) {
    destroy(rt);
    return rc;
  }
  *out = rt;
  return TN_OK;
}
