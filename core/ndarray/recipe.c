/* SPDX-License-Identifier: Apache-2.0
 * recipe.c: what is found out about a kind of call is kept for the next of its
 * kind: the kernel, what its `prepare` answered, where workspaces lie. Recipes
 * hold plugins in memory; tn__caller_forget ends that.
 */
#include <stdio.h>
#include <string.h>

#include "call.h"

enum { WORKSPACE_ALIGN = 64 };

/* ----------------------------------------------------------------- owners */

tn__recipe *tn__recipe_retain(tn__recipe *recipe) {
  atomic_fetch_add_explicit(&recipe->n_owners, 1, memory_order_relaxed);
  return recipe;
}

void tn__recipe_release(tn__recipe *recipe) {
  if (!recipe) return;
  if (atomic_fetch_sub_explicit(&recipe->n_owners, 1, memory_order_acq_rel) > 1)
    return;
  const tn__env *env = recipe->env;
  tn__plan_destroy(&recipe->plan);
  tn__defaults_free(env, recipe->params);
  tn__kernel_release(&(tn__choice){recipe->kernel});
  tn__operator_unhold(recipe->launch.op);
  tn__free(env, recipe);
}

/* ------------------------------------------------------------------- lock */

/* The cache belongs to whoever is inside of the gate. A thread that cannot pass
 * it keeps the others from pushing instead. */
static bool cache_lock(tn__engine *engine) {
  if (tn__gate_enter(engine)) return true;
  tn__engine_pause(engine);
  return false;
}

static void cache_unlock(tn__engine *engine, bool entered) {
  if (entered)
    tn__gate_leave(engine);
  else
    tn__engine_resume(engine);
}

/* ------------------------------------------------------------------ match */

static bool params_match(tn__recipe *r, const tn__work *w) {
  if (!w->given || !r->params) return !w->given == !r->params;
  if (atomic_load_explicit(&r->serial, memory_order_relaxed) ==
      w->given->serial)
    return true;
  if (!tn__params_equal(r->params, w->given)) return false;
  atomic_store_explicit(&r->serial, w->given->serial, memory_order_relaxed);
  return true;
}

static bool tensors_match(const tn_tensor *a, const tn_tensor *b, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i)
    if (!tn__layout_equal(&a[i], &b[i])) return false;
  return true;
}

/* The short way compares with what callers give, so that is part of the key. */
static bool given_match(const tn__recipe *r, const tn__work *w) {
  for (uint32_t i = 0; i < r->n_in; ++i) {
    const tn__operand *o = &w->in_info[i];
    bool given = o->array && !o->owned;
    if (given != (r->given[i].ndim >= 0)) return false;
    if (given && !tn__layout_equal(&r->given[i], &o->array->tensor))
      return false;
  }
  return true;
}

static bool matches(tn__recipe *r, const tn__work *w) {
  const tn_frame *f = &w->launch.frame;
  if (r->kernel != w->choice.kernel || r->flags != w->flags ||
      r->epoch != atomic_load(&w->caller->registry->epoch) ||
      r->n_in != f->n_in || r->n_out != f->n_out || r->n_aux != f->n_aux ||
      r->closed != !w->fed)
    return false;
  return tensors_match(r->in, f->in, f->n_in + f->n_out + f->n_aux) &&
         memcmp(r->in_flags, f->in_flags, f->n_in * sizeof *r->in_flags) == 0 &&
         memcmp(r->req, f->req, f->n_out * sizeof *r->req) == 0 &&
         memcmp(r->alias, f->alias, f->n_out * sizeof *r->alias) == 0 &&
         given_match(r, w) && params_match(r, w);
}

/* The tensor that decides the set of a call. */
static uint32_t set_of(const tn__work *w) {
  const tn_frame *f = &w->launch.frame;
  return f->n_in + f->n_out > 0 ? tn__cache_set(w->in) : 0;
}

static void move_first(tn__recipe **ways, uint32_t at) {
  tn__recipe *found = ways[at];
  memmove(ways + 1, ways, at * sizeof *ways);
  ways[0] = found;
}

static tn__recipe *find(tn__work *w) {
  tn__cache *cache = w->op->cache;
  if (!cache) return NULL;
  tn__recipe **ways = cache->sets[set_of(w)];
  for (uint32_t i = 0; i < TN__CACHE_WAYS && ways[i]; ++i) {
    if (!matches(ways[i], w)) continue;
    move_first(ways, i);
    return tn__recipe_retain(ways[0]);
  }
  return NULL;
}

/* Keeps a recipe; without memory for the cache it is only not kept. Returns
 * what it drove out, to be released outside of the lock. */
static tn__recipe *keep(tn__work *w, tn__recipe *recipe) {
  if (!w->op->cache)
    w->op->cache = tn__zalloc(w->caller->env, sizeof(tn__cache));
  tn__cache *cache = w->op->cache;
  if (!cache) return NULL;
  tn__recipe **ways = cache->sets[set_of(w)];
  tn__recipe *last = ways[TN__CACHE_WAYS - 1];
  memmove(ways + 1, ways, (TN__CACHE_WAYS - 1) * sizeof *ways);
  ways[0] = tn__recipe_retain(recipe);
  return last;
}

/* ----------------------------------------------------------------- create */

/* Tensors, flags and operands of a frame in one piece of memory behind the
 * recipe. */
typedef struct room {
  size_t tensors; /* in, out, aux, and inputs as they were given */
  size_t dims;
  size_t operands;
  size_t in_flags;
  size_t req;
  size_t alias;
  size_t total;
} room;

static room room_of(const tn__work *w) {
  const tn_frame *f = &w->launch.frame;
  size_t n = (size_t)f->n_in + f->n_out + f->n_aux, dims = 0;
  for (size_t i = 0; i < n; ++i)
    if (f->in[i].ndim > 0) dims += (size_t)f->in[i].ndim;
  for (uint32_t i = 0; i < f->n_in; ++i)
    if (w->in_info[i].array) dims += (size_t)w->in_info[i].array->tensor.ndim;
  room r = {.tensors = sizeof(tn__recipe)};
  r.dims = r.tensors + (n + f->n_in) * sizeof(tn_tensor);
  r.operands = r.dims + 2 * dims * sizeof(int64_t);
  r.in_flags = r.operands + n * sizeof(tn__operand);
  r.req = r.in_flags + f->n_in * sizeof(uint32_t);
  r.alias = r.req + f->n_out * sizeof(tn_req);
  r.total = r.alias + f->n_out * sizeof(int32_t);
  return r;
}

static int64_t *tensor_copy(tn_tensor *to, const tn_tensor *from,
                            int64_t *dims) {
  size_t n = from->ndim > 0 ? (size_t)from->ndim : 0;
  *to = *from;
  to->data = NULL;
  to->shape = dims;
  to->strides = dims + n;
  if (n > 0) {
    memcpy(to->shape, from->shape, n * sizeof *dims);
    memcpy(to->strides, from->strides, n * sizeof *dims);
  }
  return dims + 2 * n;
}

static void signature_copy(tn__recipe *r, const tn__work *w, const room *at) {
  const tn_frame *f = &w->launch.frame;
  uint32_t n = f->n_in + f->n_out + f->n_aux;
  char *base = (char *)r;
  int64_t *dims = (int64_t *)(void *)(base + at->dims);
  r->in = (tn_tensor *)(void *)(base + at->tensors);
  r->out = r->in + f->n_in;
  r->aux = r->out + f->n_out;
  r->given = r->in + n;
  r->operands = (tn__operand *)(void *)(base + at->operands);
  r->in_flags = (uint32_t *)(void *)(base + at->in_flags);
  r->req = (tn_req *)(void *)(base + at->req);
  r->alias = (int32_t *)(void *)(base + at->alias);
  for (uint32_t i = 0; i < n; ++i) {
    dims = tensor_copy(&r->in[i], &f->in[i], dims);
    r->operands[i] = (tn__operand){.arg = w->in_info[i].arg,
                                   .what = w->in_info[i].what,
                                   .member = w->in_info[i].member};
  }
  for (uint32_t i = 0; i < f->n_in; ++i) {
    const tn__operand *operand = &w->in_info[i];
    tn_tensor tensor = {.ndim = -1};
    if (operand->array && !operand->owned)
      tensor = tn__array_metadata(operand->array);
    dims = tensor_copy(&r->given[i], &tensor, dims);
  }
  memcpy(r->in_flags, f->in_flags, f->n_in * sizeof *r->in_flags);
  memcpy(r->req, f->req, f->n_out * sizeof *r->req);
  memcpy(r->alias, f->alias, f->n_out * sizeof *r->alias);
}

/* A call of this signature is its frame: nothing stands in for anything. */
static bool is_direct(const tn__work *w) {
  const tn_frame *f = &w->launch.frame;
  bool backward = w->pass == TN_PASS_BACKWARD;
  if (w->device->table || (backward && f->n_aux)) return false;
  for (uint32_t i = 0; i < f->n_in + f->n_out + f->n_aux; ++i) {
    const tn__operand *o = &w->in_info[i];
    if (o->temp || o->before || o->after || o->dynamic || o->source >= 0 ||
        (o->owned && i < f->n_in))
      return false;
  }
  return true;
}

/* The frame that the short way fills in and hands over. */
static void launch_copy(tn__recipe *r, const tn__work *w) {
  r->launch.caller = w->caller;
  r->launch.kernel = r->kernel;
  r->launch.operands = r->operands;
  r->launch.run = w->launch.run;
  r->launch.run.host_data = &r->launch.slot;
  r->launch.frame = w->launch.frame;
  r->launch.frame.in = r->in;
  r->launch.frame.out = r->out;
  r->launch.frame.aux = r->aux;
  r->launch.frame.in_flags = r->in_flags;
  r->launch.frame.req = r->req;
  r->launch.frame.alias = r->alias;
  r->launch.frame.params = NULL;
  r->launch.frame.prepared = r->plan.prepared;
  r->launch.frame.run = &r->launch.run;
}

/* ---------------------------------------------------------------- prepare */

static tn_code bad_plan(tn__work *w, const char *what) {
  snprintf(w->launch.slot.text, sizeof w->launch.slot.text,
           "prepare asked for %s", what);
  return tn__kernel_fail(&w->launch, TN_PLUGIN, "prepare");
}

/* All workspaces lie in one piece of memory, each at its alignment, however
 * that piece is aligned. */
static tn_code workspaces_place(tn__work *w, tn__recipe *r) {
  size_t total = 0;
  if (r->plan.n_ws > TN_MAX_WORKSPACES)
    return bad_plan(w, "more workspaces than TN_MAX_WORKSPACES");
  for (uint32_t i = 0; i < r->plan.n_ws; ++i) {
    size_t align = (size_t)r->plan.ws[i].align;
    if (align == 0) align = r->plan.ws[i].align = WORKSPACE_ALIGN;
    if (align & (align - 1))
      return bad_plan(w, "an alignment that is no power of two");
    size_t slack = align > WORKSPACE_ALIGN ? align : WORKSPACE_ALIGN;
    if (__builtin_add_overflow(total, slack, &r->ws_offset[i]) ||
        __builtin_add_overflow(r->ws_offset[i], r->plan.ws[i].bytes, &total))
      return bad_plan(w, "more bytes than can be counted");
    r->ws_offset[i] -= slack;
  }
  r->ws_total = total;
  return TN_OK;
}

static tn_code random_count(const tn__work *w, tn__recipe *r) {
  const tn_kernel *desc = r->kernel->desc;
  for (uint32_t i = 0; i < desc->n_resources; ++i)
    if (desc->resources[i] == TN_RESOURCE_RANDOM) ++r->n_random;
  if (r->n_random <= TN__MAX_RANDOM) return TN_OK;
  return tn__fail(TN_UNSUPPORTED,
                  "%s: kernel %s wants %u random streams; at most %d are "
                  "provided",
                  w->op->name, desc->id, r->n_random, TN__MAX_RANDOM);
}

/* More than a call can draw whose kernel states the shape of an output. */
#define BLOCKS_OF_DYNAMIC ((uint64_t)1 << 32)

/* A kernel that states no blocks may draw one for each element of its outputs.
 * With none, the next call would draw the same numbers. */
static void random_default(const tn__work *w, tn__recipe *r) {
  const tn_frame *f = &w->launch.frame;
  if (r->n_random == 0 || r->plan.random_blocks > 0) return;
  for (uint32_t i = 0; i < f->n_out; ++i)
    r->plan.random_blocks += w->out_info[i].dynamic
                                 ? BLOCKS_OF_DYNAMIC
                                 : (uint64_t)tn_tensor_size(&f->out[i]);
}

static tn_code prepare(tn__work *w, tn__recipe *r) {
  const tn_kernel *desc = r->kernel->desc;
  r->plan.struct_size = sizeof r->plan;
  TN__TRY(random_count(w, r));
  const tn__floating floating = tn__floating_get();
  tn_code rc =
      desc->prepare ? desc->prepare(&w->launch.frame, &r->plan) : TN_OK;
  tn__floating_keep(&floating);
  if (rc) {
    r->plan.destroy = NULL; /* a prepare that fails has undone its work */
    return tn__kernel_fail(&w->launch, rc, "prepare");
  }
  random_default(w, r);
  return workspaces_place(w, r);
}

static tn_code params_copy(tn__work *w, tn__recipe *r) {
  if (!w->given) return TN_OK;
  atomic_init(&r->serial, w->given->serial);
  return tn__params_copy(w->given, &r->params);
}

static tn_code shell_create(tn__work *w, tn__recipe **out) {
  const tn__env *env = w->caller->env;
  const room at = room_of(w);
  tn__recipe *r = tn__zalloc(env, at.total);
  if (!r) return tn__fail_memory(at.total, "what is known of a call");
  tn_code rc = params_copy(w, r);
  if (rc == TN_OK) {
    rc = tn__operator_hold(w->op);
    if (rc) tn__defaults_free(env, r->params);
  }
  if (rc) {
    tn__free(env, r);
    return rc;
  }
  r->env = env;
  atomic_init(&r->n_owners, 1);
  r->launch.op = w->op;
  r->kernel = tn__kernel_retain(&w->choice);
  signature_copy(r, w, &at);
  *out = r;
  return TN_OK;
}

static tn_code create(tn__work *w, tn__recipe **out) {
  const tn_frame *f = &w->launch.frame;
  tn__recipe *r = NULL;
  TN__TRY(shell_create(w, &r));
  r->epoch = atomic_load(&w->caller->registry->epoch);
  r->pass = w->pass;
  r->flags = w->flags;
  r->device = w->device;
  r->n_in = f->n_in;
  r->n_out = f->n_out;
  r->n_aux = f->n_aux;
  r->n_visible =
      w->pass == TN_PASS_FORWARD ? w->counts.n_visible : w->counts.n_in;
  r->closed = !w->fed;
  r->direct = is_direct(w);
  r->small = tn__work_is_small(w);
  r->shared = tn__work_is_shared(w);
  tn_code rc = prepare(w, r);
  if (rc) {
    tn__recipe_release(r);
    return rc;
  }
  launch_copy(r, w);
  *out = r;
  return TN_OK;
}

/* -------------------------------------------------------------------- get */

/* From here on it is the recipe that holds the kernel. */
static void apply(tn__work *w) {
  const tn__recipe *r = w->recipe;
  tn__kernel_release(&w->choice);
  w->choice.kernel = NULL;
  w->launch.frame.prepared = r->plan.prepared;
  w->params = r->params ? r->params->data : NULL;
  w->launch.frame.params = w->params;
  w->given = NULL;
}

/* Recipes are made outside of the lock: `prepare` may take its time. Two
 * threads may make the same one; both are kept, one will be found. */
tn_code tn__recipe_get(tn__work *w) {
  tn__engine *engine = w->caller->env->engine;
  bool entered = cache_lock(engine);
  w->recipe = find(w);
  cache_unlock(engine, entered);
  if (!w->recipe) {
    TN__TRY(create(w, &w->recipe));
    entered = cache_lock(engine);
    tn__recipe *old = keep(w, w->recipe);
    cache_unlock(engine, entered);
    tn__recipe_release(old);
  }
  apply(w);
  return TN_OK;
}

static void cache_free(const tn__env *env, tn_operator *op) {
  tn__cache *cache = op->cache;
  if (!cache) return;
  for (uint32_t i = 0; i < TN__CACHE_SETS; ++i)
    for (uint32_t k = 0; k < TN__CACHE_WAYS; ++k)
      tn__recipe_release(cache->sets[i][k]);
  tn__free(env, cache);
  op->cache = NULL;
}

void tn__caller_forget(tn__caller *caller) {
  tn__registry *registry = caller->registry;
  (void)pthread_rwlock_rdlock(&registry->lock);
  for (size_t i = 0; i < registry->known.n; ++i)
    cache_free(caller->env, registry->known.v[i]);
  (void)pthread_rwlock_unlock(&registry->lock);
}
