/* SPDX-License-Identifier: Apache-2.0
 * runtime.c: creates a runtime with its engine, devices and registry, and
 * destroys it after its last owner: the host, arrays and other objects.
 */
#include <string.h>

#include "runtime.h"

/* ----------------------------------------------------------------- owners */

static void retain_owner(void *owner) {
  tn_runtime *rt = owner;
  atomic_fetch_add_explicit(&rt->n_owners, 1, memory_order_relaxed);
}

/* Stops all work first. Then destroys the devices, because their tables may be
 * in plugins, then the plugins, and last the engine, which both may use. */
static void destroy_runtime(tn_runtime *rt) {
  tn__env env = rt->env; /* a copy, because its own memory is freed */
  if (env.engine) tn__engine_stop(env.engine);
  if (rt->registry) tn__caller_deinit(&rt->caller);
  tn__devices_destroy(rt->devices);
  if (rt->registry) tn__registry_destroy(rt->registry);
  tn__engine_destroy(env.engine);
  tn__creator_deinit(&rt->creator);
  (void)pthread_cond_destroy(&rt->begin_returned);
  (void)pthread_mutex_destroy(&rt->begun_lock);
  tn__free(&env, rt->search_path);
  tn__free(&env, rt);
}

static void *destroy_on_thread(void *arg) {
  destroy_runtime(arg);
  return NULL;
}

/* A function of the engine cannot wait for itself, so another thread ends a
 * runtime with a last owner that such a function has released. */
static void end_runtime(tn_runtime *rt) {
  pthread_t thread;
  if (!rt->env.engine || !tn__is_inside(rt->env.engine)) {
    destroy_runtime(rt);
    return;
  }
  if (tn__thread_create(&thread, destroy_on_thread, rt))
    (void)pthread_detach(thread);
  else
    tn__log(&rt->env, TN__LOG_ENGINE, TN_LOG_ERROR,
            "a runtime keeps its memory: its last owner was released inside of "
            "a job, and the system refused a thread to end it");
}

/* In a forked child nothing is destroyed: other threads' locks may be held for
 * ever there, and the threads of plugins do not exist. */
static void release_owner(void *owner) {
  tn_runtime *rt = owner;
  if (atomic_fetch_sub_explicit(&rt->n_owners, 1, memory_order_acq_rel) > 1)
    return;
  /* While it ends, pending jobs of the host may create and release arrays. */
  if (atomic_exchange(&rt->ending, 1) != 0) return;
  if (tn__creator_is_here(&rt->creator)) end_runtime(rt);
}

bool tn__runtime_try_retain(tn_runtime *rt) {
  int64_t n = atomic_load_explicit(&rt->n_owners, memory_order_relaxed);
  while (n > 0)
    if (atomic_compare_exchange_weak_explicit(&rt->n_owners, &n, n + 1,
                                              memory_order_relaxed,
                                              memory_order_relaxed))
      return true;
  return false;
}

/* A running `begin` is an owner. Waits until it has returned, so that not its
 * worker, but this thread ends the runtime. */
static void await_begins(tn_runtime *rt) {
  (void)pthread_mutex_lock(&rt->begun_lock);
  while (rt->n_beginning > 0)
    (void)pthread_cond_wait(&rt->begin_returned, &rt->begun_lock);
  (void)pthread_mutex_unlock(&rt->begun_lock);
}

void tn__runtime_release(tn_runtime *rt) {
  if (!rt) return;
  if (tn__creator_is_here(&rt->creator) && !tn__is_inside(rt->env.engine))
    await_begins(rt);
  release_owner(rt);
}

tn_code tn__runtime_fail_child(const tn_runtime *rt) {
  return tn__fail(TN_UNSUPPORTED,
                  "this runtime was created by process %d, and"
                  " this is a child made by fork, in which its threads and"
                  " locks do not exist; create a runtime in the child",
                  (int)rt->creator.pid);
}

tn_code tn__runtime_fail_inside(const char *function) {
  return tn__fail(TN_INVALID,
                  "%s was called from inside of an operator, which must not "
                  "call operators; make the call when the operator has "
                  "returned",
                  function);
}

tn_code tn__runtime_wait_pushed(tn_runtime *rt) {
  tn__var nothing = {0};
  TN__TRY(tn__wait(rt->env.engine, &nothing, TN__WAIT_ALL, TN__FOREVER));
  tn__engine_stop_pushed(rt->env.engine);
  return TN_OK;
}

/* ----------------------------------------------------------------- create */

/* A host without a log of its own gets warnings and errors on stderr, and other
 * lines if it has set a level. */
static tn_code set_log(const tn_options *o, tn__env *env) {
  if (o->log) {
    env->log = o->log;
    env->log_ctx = o->log_ctx;
  }
  tn__log_levels_fill(&env->log_levels, o->log_level ? o->log_level
                                        : o->log     ? TN_LOG_INFO
                                                     : TN_LOG_WARNING);
  return o->log_levels ? tn__log_levels_parse(&env->log_levels, o->log_levels)
                       : TN_OK;
}

static tn_code make_env(const tn_options *o, tn__env *env) {
  *env = *tn__env_default();
  if (o->allocator.alloc) env->allocator = o->allocator;
  env->interrupted = o->interrupted;
  env->interrupted_ctx = o->interrupted_ctx;
  env->find_modules = tn__find_module_folder;
  return set_log(o, env);
}

static tn_code create_engine(tn_runtime *rt, const tn_options *o) {
  const tn__engine_options options = {
      .env = &rt->env,
      .kind =
          o->engine == TN_ENGINE_NAIVE ? TN__ENGINE_NAIVE : TN__ENGINE_POOLED,
      .workers = o->workers,
      .dispatch = o->engine == TN_ENGINE_THREADED};
  return tn__engine_create(&options, &rt->env.engine);
}

static tn_code create_devices(tn_runtime *rt, const tn_options *o) {
  TN__TRY(tn__devices_create(&rt->env, o->n_cpus, o->memory_limits,
                             o->n_memory_limits, &rt->devices));
  return tn__device_find(rt->devices, TN_DEVICE_CPU, 0, &rt->env.cpu);
}

static tn_code add_device(void *ctx, const tn_device *table) {
  tn_runtime *rt = ctx;
  return tn__devices_add(rt->devices, table);
}

static tn_code create_registry(tn_runtime *rt, const tn_options *o) {
  uint64_t features = tn__cpu_features() & ~o->cpu_mask;
  tn__cpu_text(features, rt->device_detail, sizeof rt->device_detail);
  const tn__registry_options options = {.env = &rt->env,
                                        .trust = o->trust,
                                        .cpu_features = features,
                                        .parallel_for = tn__host_parallel_for,
                                        .defer = tn__later_defer,
                                        .complete = tn__later_complete,
                                        .cancelled = tn__later_is_cancelled,
                                        .device_add = add_device,
                                        .device_ctx = rt,
                                        .helpers = tn__find_module_folder,
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

static tn_code create_parts(tn_runtime *rt, const tn_options *o) {
  if (o->search_path) {
    rt->search_path = tn__strdup(&rt->env, o->search_path);
    if (!rt->search_path)
      return tn__fail_memory(strlen(o->search_path) + 1, "the search path");
  }
  TN__TRY(create_engine(rt, o));
  TN__TRY(create_devices(rt, o));
  return create_registry(rt, o);
}

tn_code tn__runtime_create(const tn_options *options, tn_runtime **out) {
  tn_options o;
  TN__TRY(tn__options_read(options, &o));
  tn__env env;
  TN__TRY(make_env(&o, &env));
  tn_runtime *rt = tn__zalloc(&env, sizeof *rt);
  if (!rt) return tn__fail_memory(sizeof *rt, "a runtime");
  env.owner = rt;
  env.retain = retain_owner;
  env.release = release_owner;
  rt->env = env;
  atomic_init(&rt->n_owners, 1);
  tn__creator_init(&rt->creator);
  (void)pthread_mutex_init(&rt->begun_lock, NULL);
  (void)pthread_cond_init(&rt->begin_returned, NULL);
  tn_code rc = create_parts(rt, &o);
  if (rc) {
    destroy_runtime(rt);
    return rc;
  }
  *out = rt;
  return TN_OK;
}
