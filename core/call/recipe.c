/* SPDX-License-Identifier: Apache-2.0
 * recipe.c: keeps the results of preparing a call for the next one of its kind:
 * the kernel, the answer of its `prepare`, the places of workspaces. Each
 * operator has a cache of recipes. A recipe holds plugins in memory until
 * tn__caller_forget.
 */
#include <stdio.h>
#include <string.h>

#include "call.h"

enum { WORKSPACE_ALIGN = 64 };

/* ------------------------------------------------------------------- owners */

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

/* --------------------------------------------------------------------- lock */

/* Locks the cache: it belongs to the thread inside of the gate. A thread that
 * cannot enter the gate pauses the engine instead, so that no other thread
 * pushes. */
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

/* -------------------------------------------------------------------- match */

static bool params_match(tn__recipe *r, const tn__call_state *s) {
  if (!s->call_params || !r->params) return !s->call_params == !r->params;
  if (atomic_load_explicit(&r->serial, memory_order_relaxed) ==
      s->call_params->serial)
    return true;
  if (!tn__params_equal(r->params, s->call_params)) return false;
  atomic_store_explicit(&r->serial, s->call_params->serial,
                        memory_order_relaxed);
  return true;
}

static bool tensors_match(const tn_tensor *a, const tn_tensor *b, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i)
    if (!tn__layout_equal(&a[i], &b[i])) return false;
  return true;
}

/* The fast path compares with the caller's inputs, so they are part of the key.
 */
static bool caller_in_match(const tn__recipe *r, const tn__call_state *s) {
  for (uint32_t i = 0; i < r->n_in; ++i) {
    const tn__operand *o = &s->in_info[i];
    bool passed = o->array && !o->owned;
    if (passed != (r->caller_in[i].ndim >= 0)) return false;
    if (passed && !tn__layout_equal(&r->caller_in[i], &o->array->tensor))
      return false;
  }
  return true;
}

static bool recipe_matches(tn__recipe *r, const tn__call_state *s) {
  const tn_frame *f = &s->launch.frame;
  if (r->kernel != s->choice.kernel || r->flags != s->flags ||
      r->epoch != atomic_load(&s->caller->registry->epoch) ||
      r->n_in != f->n_in || r->n_out != f->n_out || r->n_aux != f->n_aux ||
      r->closed != !s->from_outputs)
    return false;
  return tensors_match(r->in, f->in, f->n_in + f->n_out + f->n_aux) &&
         memcmp(r->in_flags, f->in_flags, f->n_in * sizeof *r->in_flags) == 0 &&
         memcmp(r->req, f->req, f->n_out * sizeof *r->req) == 0 &&
         memcmp(r->alias, f->alias, f->n_out * sizeof *r->alias) == 0 &&
         caller_in_match(r, s) && params_match(r, s);
}

/* The first tensor decides the set of a call. */
static uint32_t set_of(const tn__call_state *s) {
  const tn_frame *f = &s->launch.frame;
  return f->n_in + f->n_out > 0 ? tn__recipe_cache_set(s->in) : 0;
}

static void move_first(tn__recipe **ways, uint32_t at) {
  tn__recipe *found = ways[at];
  memmove(ways + 1, ways, at * sizeof *ways);
  ways[0] = found;
}

static tn__recipe *find_recipe(tn__call_state *s) {
  tn__recipe_cache *cache = s->op->cache;
  if (!cache) return NULL;
  tn__recipe **ways = cache->sets[set_of(s)];
  for (uint32_t i = 0; i < TN__CACHE_WAYS && ways[i]; ++i) {
    if (!recipe_matches(ways[i], s)) continue;
    move_first(ways, i);
    return tn__recipe_retain(ways[0]);
  }
  return NULL;
}

/* Keeps a recipe, unless there is no memory for the cache. Returns the recipe
 * that it replaces, to be released outside of the lock. */
static tn__recipe *keep_recipe(tn__call_state *s, tn__recipe *recipe) {
  if (!s->op->cache)
    s->op->cache = tn__zalloc(s->caller->env, sizeof(tn__recipe_cache));
  tn__recipe_cache *cache = s->op->cache;
  if (!cache) return NULL;
  tn__recipe **ways = cache->sets[set_of(s)];
  tn__recipe *last = ways[TN__CACHE_WAYS - 1];
  memmove(ways + 1, ways, (TN__CACHE_WAYS - 1) * sizeof *ways);
  ways[0] = tn__recipe_retain(recipe);
  return last;
}

/* ------------------------------------------------------------------- create */

/* Positions of tensors, flags and operands, which are in one piece of memory
 * after the recipe. */
typedef struct recipe_layout {
  size_t tensors; /* in, out, aux, and inputs as the caller passed them */
  size_t dims;
  size_t operands;
  size_t in_flags;
  size_t req;
  size_t alias;
  size_t total;
} recipe_layout;

static recipe_layout measure_recipe(const tn__call_state *s) {
  const tn_frame *f = &s->launch.frame;
  size_t n = (size_t)f->n_in + f->n_out + f->n_aux, dims = 0;
  for (size_t i = 0; i < n; ++i)
    if (f->in[i].ndim > 0) dims += (size_t)f->in[i].ndim;
  for (uint32_t i = 0; i < f->n_in; ++i)
    if (s->in_info[i].array) dims += (size_t)s->in_info[i].array->tensor.ndim;
  recipe_layout r = {.tensors = sizeof(tn__recipe)};
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

static void signature_copy(tn__recipe *r, const tn__call_state *s,
                           const recipe_layout *at) {
  const tn_frame *f = &s->launch.frame;
  uint32_t n = f->n_in + f->n_out + f->n_aux;
  char *base = (char *)r;
  int64_t *dims = (int64_t *)(void *)(base + at->dims);
  r->in = (tn_tensor *)(void *)(base + at->tensors);
  r->out = r->in + f->n_in;
  r->aux = r->out + f->n_out;
  r->caller_in = r->in + n;
  r->operands = (tn__operand *)(void *)(base + at->operands);
  r->in_flags = (uint32_t *)(void *)(base + at->in_flags);
  r->req = (tn_req *)(void *)(base + at->req);
  r->alias = (int32_t *)(void *)(base + at->alias);
  for (uint32_t i = 0; i < n; ++i) {
    dims = tensor_copy(&r->in[i], &f->in[i], dims);
    r->operands[i] = (tn__operand){.arg = s->in_info[i].arg,
                                   .role = s->in_info[i].role,
                                   .member = s->in_info[i].member};
  }
  for (uint32_t i = 0; i < f->n_in; ++i) {
    const tn__operand *operand = &s->in_info[i];
    tn_tensor tensor = {.ndim = -1};
    if (operand->array && !operand->owned)
      tensor = tn__array_metadata(operand->array);
    dims = tensor_copy(&r->caller_in[i], &tensor, dims);
  }
  memcpy(r->in_flags, f->in_flags, f->n_in * sizeof *r->in_flags);
  memcpy(r->req, f->req, f->n_out * sizeof *r->req);
  memcpy(r->alias, f->alias, f->n_out * sizeof *r->alias);
}

/* True if each operand goes to the frame as it is, without temporary. */
static bool is_direct(const tn__call_state *s) {
  const tn_frame *f = &s->launch.frame;
  bool backward = s->pass == TN_PASS_BACKWARD;
  if (s->device->table || (backward && f->n_aux)) return false;
  for (uint32_t i = 0; i < f->n_in + f->n_out + f->n_aux; ++i) {
    const tn__operand *o = &s->in_info[i];
    if (o->temp || o->before || o->after || o->dynamic || o->source >= 0 ||
        (o->owned && i < f->n_in))
      return false;
  }
  return true;
}

/* Prepares the frame that the fast path completes for each call. */
static void launch_copy(tn__recipe *r, const tn__call_state *s) {
  r->launch.caller = s->caller;
  r->launch.kernel = r->kernel;
  r->launch.operands = r->operands;
  r->launch.run = s->launch.run;
  r->launch.run.host_data = &r->launch.slot;
  r->launch.frame = s->launch.frame;
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

/* ------------------------------------------------------------------ prepare */

static tn_code fail_plan(tn__call_state *s, const char *fault) {
  snprintf(s->launch.slot.text, sizeof s->launch.slot.text,
           "prepare asked for %s", fault);
  return tn__kernel_fail(&s->launch, TN_PLUGIN, "prepare");
}

/* All workspaces are in one piece of memory, each at its alignment, for any
 * alignment of that piece. */
static tn_code workspaces_place(tn__call_state *s, tn__recipe *r) {
  size_t total = 0;
  if (r->plan.n_ws > TN_MAX_WORKSPACES)
    return fail_plan(s, "more workspaces than TN_MAX_WORKSPACES");
  for (uint32_t i = 0; i < r->plan.n_ws; ++i) {
    size_t align = (size_t)r->plan.ws[i].align;
    if (align == 0) align = r->plan.ws[i].align = WORKSPACE_ALIGN;
    if (align & (align - 1))
      return fail_plan(s, "an alignment that is no power of two");
    size_t slack = align > WORKSPACE_ALIGN ? align : WORKSPACE_ALIGN;
    if (__builtin_add_overflow(total, slack, &r->ws_offset[i]) ||
        __builtin_add_overflow(r->ws_offset[i], r->plan.ws[i].bytes, &total))
      return fail_plan(s, "more bytes than can be counted");
    r->ws_offset[i] -= slack;
  }
  r->ws_total = total;
  return TN_OK;
}

static tn_code count_resources(const tn__call_state *s, tn__recipe *r) {
  const tn_kernel *desc = r->kernel->desc;
  for (uint32_t i = 0; i < desc->n_resources; ++i) {
    if (desc->resources[i] == TN_RESOURCE_RANDOM) ++r->n_random;
    if (desc->resources[i] == TN_RESOURCE_ORDER) r->ordered = 1;
  }
  if (r->n_random <= TN__MAX_RANDOM) return TN_OK;
  return tn__fail(TN_UNSUPPORTED,
                  "%s: kernel %s wants %u random streams; at most %d are "
                  "provided",
                  s->op->name, desc->id, r->n_random, TN__MAX_RANDOM);
}

/* More blocks than a call with a dynamic output can draw. */
#define BLOCKS_OF_DYNAMIC ((uint64_t)1 << 32)

/* A kernel that states no blocks may draw one for each element of its outputs.
 * With none, the next call would draw the same numbers. */
static void random_default(const tn__call_state *s, tn__recipe *r) {
  const tn_frame *f = &s->launch.frame;
  if (r->n_random == 0 || r->plan.random_blocks > 0) return;
  for (uint32_t i = 0; i < f->n_out; ++i)
    r->plan.random_blocks += s->out_info[i].dynamic
                                 ? BLOCKS_OF_DYNAMIC
                                 : (uint64_t)tn_tensor_size(&f->out[i]);
}

static tn_code prepare_recipe(tn__call_state *s, tn__recipe *r) {
  const tn_kernel *desc = r->kernel->desc;
  r->plan.struct_size = sizeof r->plan;
  TN__TRY(count_resources(s, r));
  const tn__floating floating = tn__floating_get();
  tn_code rc =
      desc->prepare ? desc->prepare(&s->launch.frame, &r->plan) : TN_OK;
  tn__floating_keep(&floating);
  if (rc) {
    r->plan.destroy = NULL; /* a prepare that fails has undone its work */
    return tn__kernel_fail(&s->launch, rc, "prepare");
  }
  random_default(s, r);
  return workspaces_place(s, r);
}

static tn_code params_copy(tn__call_state *s, tn__recipe *r) {
  if (!s->call_params) return TN_OK;
  atomic_init(&r->serial, s->call_params->serial);
  return tn__params_copy(s->call_params, &r->params);
}

static tn_code shell_create(tn__call_state *s, tn__recipe **out) {
  const tn__env *env = s->caller->env;
  const recipe_layout at = measure_recipe(s);
  tn__recipe *r = tn__zalloc(env, at.total);
  if (!r) return tn__fail_memory(at.total, "the recipe of a call");
  tn_code rc = params_copy(s, r);
  if (rc == TN_OK) {
    rc = tn__operator_hold(s->op);
    if (rc) tn__defaults_free(env, r->params);
  }
  if (rc) {
    tn__free(env, r);
    return rc;
  }
  r->env = env;
  atomic_init(&r->n_owners, 1);
  r->launch.op = s->op;
  r->kernel = tn__kernel_retain(&s->choice);
  signature_copy(r, s, &at);
  *out = r;
  return TN_OK;
}

/* --------------------------------------------------------------------- size */

enum { /* most bytes of a call on the calling thread */
       SMALL_ELEMENTWISE = 4 << 20, /* about a tenth of a millisecond */
       SMALL_OTHER = 128 << 10,     /* a matrix product of 100 by 100 */
       /* from this size on workers may help: marks on the variables cost a
          twentieth of such a call */
       SHARED_ELEMENTWISE = 256 << 10
};

/* Counts the bytes of all operands except for outputs that are not requested.
 */
static uint64_t operand_bytes(const tn__call_state *s) {
  const tn_frame *f = &s->launch.frame;
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < f->n_in + f->n_out + f->n_aux; ++i) {
    const bool output = i >= f->n_in && i < f->n_in + f->n_out;
    if (s->in[i].ndim < 0 || (output && s->req[i - f->n_in] == TN_REQ_NULL))
      continue;
    bytes += tn__dense_bytes(&s->in[i]);
  }
  return bytes;
}

/* A call that completes later is not small: it may wait, so it must not run
 * inside of the gate. */
static bool is_small(const tn__call_state *s) {
  uint32_t flags = s->choice.kernel->desc->flags;
  if (flags & TN_KERNEL_LATER) return false;
  uint64_t most =
      flags & TN_KERNEL_ELEMENTWISE ? SMALL_ELEMENTWISE : SMALL_OTHER;
  return operand_bytes(s) <= most;
}

static bool is_shared(const tn__call_state *s) {
  return (s->choice.kernel->desc->flags & TN_KERNEL_ELEMENTWISE) != 0 &&
         tn__engine_workers(s->caller->env->engine) > 1 &&
         operand_bytes(s) >= SHARED_ELEMENTWISE;
}

static tn_code create_recipe(tn__call_state *s, tn__recipe **out) {
  const tn_frame *f = &s->launch.frame;
  tn__recipe *r = NULL;
  TN__TRY(shell_create(s, &r));
  r->epoch = atomic_load(&s->caller->registry->epoch);
  r->pass = s->pass;
  r->flags = s->flags;
  r->device = s->device;
  r->n_in = f->n_in;
  r->n_out = f->n_out;
  r->n_aux = f->n_aux;
  r->n_visible =
      s->pass == TN_PASS_FORWARD ? s->counts.n_visible : s->counts.n_in;
  r->closed = !s->from_outputs;
  r->direct = is_direct(s);
  r->shared = is_shared(s);
  tn_code rc = prepare_recipe(s, r);
  if (rc) {
    tn__recipe_release(r);
    return rc;
  }
  r->small = is_small(s) && !r->ordered;
  launch_copy(r, s);
  *out = r;
  return TN_OK;
}

/* ---------------------------------------------------------------------- get */

/* Moves the hold on the kernel from the state to the recipe. */
static void apply_recipe(tn__call_state *s) {
  const tn__recipe *r = s->recipe;
  tn__kernel_release(&s->choice);
  s->choice.kernel = NULL;
  s->launch.frame.prepared = r->plan.prepared;
  s->params = r->params ? r->params->data : NULL;
  s->launch.frame.params = s->params;
  s->call_params = NULL;
}

/* Creates recipes outside of the lock, because `prepare` may be slow. Two
 * threads may create the same one: the cache keeps both, and the next call
 * finds one of them. */
tn_code tn__recipe_get(tn__call_state *s) {
  tn__engine *engine = s->caller->env->engine;
  bool entered = cache_lock(engine);
  s->recipe = find_recipe(s);
  cache_unlock(engine, entered);
  if (!s->recipe) {
    TN__TRY(create_recipe(s, &s->recipe));
    entered = cache_lock(engine);
    tn__recipe *old = keep_recipe(s, s->recipe);
    cache_unlock(engine, entered);
    tn__recipe_release(old);
  }
  apply_recipe(s);
  return TN_OK;
}

static void cache_free(const tn__env *env, tn_operator *op) {
  tn__recipe_cache *cache = op->cache;
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
