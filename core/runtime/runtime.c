/* SPDX-License-Identifier: Apache-2.0
 * runtime.c: the life of a runtime and what its options mean.
 */
#include "runtime.h"

#include <string.h>

/* --------------------------------------------------------------- options */

/* A newer program may know more options than this library. Zero means the
 * default in all of them, so only others have to be refused. */
static tn_code options_read(const tn_options *from, tn_options *to) {
  memset(to, 0, sizeof *to);
  if (!from) return TN_OK;
  if (from->struct_size < sizeof from->struct_size)
    return tn__fail(TN_INVALID,
                    "tn_options.struct_size is %u; set it to"
                    " sizeof(tn_options)",
                    (unsigned)from->struct_size);
  size_t known = from->struct_size;
  if (known > sizeof *to) known = sizeof *to;
  memcpy(to, from, known);
  const unsigned char *bytes = (const unsigned char *)from;
  for (size_t i = known; i < from->struct_size; ++i)
    if (bytes[i])
      return tn__fail(TN_UNSUPPORTED,
                      "tn_options sets a field at byte %zu that"
                      " this library (%s) does not know; install a newer one",
                      i, TN_VERSION);
  return TN_OK;
}

static tn_code limits_check(const tn_options *o) {
  if (o->n_memory_limits > 0 && !o->memory_limits)
    return tn__fail(TN_INVALID,
                    "tn_options.n_memory_limits is %u, but memory_limits is"
                    " NULL",
                    (unsigned)o->n_memory_limits);
  for (uint32_t i = 0; i < o->n_memory_limits; ++i) {
    const tn_memory_limit *limit = &o->memory_limits[i];
    if (limit->device_type != TN_DEVICE_CPU || limit->device_id != 0)
      return tn__fail(TN_UNSUPPORTED,
                      "tn_options.memory_limits[%u] is for device %d(%d), but"
                      " this release has cpu, which is %d(0), only",
                      (unsigned)i, limit->device_type, limit->device_id,
                      TN_DEVICE_CPU);
    if (i > 0)
      return tn__fail(TN_INVALID,
                      "tn_options.memory_limits limits cpu(0) twice; give one"
                      " entry for each device");
  }
  return TN_OK;
}

static tn_code options_check(const tn_options *o) {
  const uint32_t trust = TN_TRUST_ANY_FOLDER | TN_TRUST_REPLACE;
  if (o->trust & ~trust)
    return tn__fail(TN_INVALID, "tn_options.trust has the unknown bits 0x%x",
                    (unsigned)(o->trust & ~trust));
  if (!o->allocator.alloc != !o->allocator.free)
    return tn__fail(TN_INVALID,
                    "tn_options.allocator has only one of alloc and"
                    " free; give both or none");
  return limits_check(o);
}

/* ----------------------------------------------------------------- owners */

static void owner_retain(void *owner) {
  tn_runtime *rt = owner;
  atomic_fetch_add_explicit(&rt->n_owners, 1, memory_order_relaxed);
}

static void destroy(tn_runtime *rt) {
  const tn__env env = rt->env; /* outlives the memory that it stands in */
  if (rt->registry) {
    tn__registry_destroy(rt->registry);
    tn__caller_deinit(&rt->caller);
  }
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

tn_code tn__runtime_check(const tn__env *env) {
  const tn_runtime *rt = env->owner;
  if (tn__birth_here(&rt->birth)) return TN_OK;
  return tn__fail(TN_UNSUPPORTED,
                  "this runtime was made by process %d, and"
                  " this is a child made by fork, in which its threads and"
                  " locks do not exist; create a runtime in the child",
                  (int)rt->birth.pid);
}

/* ----------------------------------------------------------------- create */

static tn__env env_make(const tn_options *o) {
  tn__env env = *tn__env_default();
  if (o->allocator.alloc) env.allocator = o->allocator;
  if (o->log) {
    env.log = o->log;
    env.log_ctx = o->log_ctx;
  }
  return env;
}

static tn_code parts_create(tn_runtime *rt, const tn_options *o) {
  uint64_t features = tn__cpu_features() & ~o->cpu_mask;
  tn__cpu_text(features, rt->device_detail, sizeof rt->device_detail);
  if (o->search_path) {
    rt->search_path = tn__strdup(&rt->env, o->search_path);
    if (!rt->search_path)
      return tn__fail_memory(strlen(o->search_path) + 1, "the search path");
  }
  const tn__registry_options options = {.env = &rt->env,
                                        .trust = o->trust,
                                        .cpu_features = features,
                                        .parallel_for = tn__parallel_for};
  tn__registry *registry = NULL;
  TN__TRY(tn__registry_create(&options, &registry));
  tn_code rc = tn__caller_init(&rt->caller, &rt->env, registry, o->seed);
  if (rc)
    tn__registry_destroy(registry);
  else
    rt->registry = registry;
  return rc;
}

tn_code tn__runtime_create(const tn_options *options, tn_runtime **out) {
  tn_options o;
  TN__TRY(options_read(options, &o));
  TN__TRY(options_check(&o));
  tn__env env = env_make(&o);
  tn_runtime *rt = tn__zalloc(&env, sizeof *rt);
  if (!rt) return tn__fail_memory(sizeof *rt, "a runtime");
  env.owner = rt;
  env.retain = owner_retain;
  env.release = owner_release;
  if (o.n_memory_limits > 0) {
    rt->budget.limit = o.memory_limits[0].bytes;
    env.budget = &rt->budget;
  }
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
