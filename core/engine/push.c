/* SPDX-License-Identifier: Apache-2.0
 * push.c: pushes a job.
 *
 * Fast path: the thread owns the gate and every variable is free. The function
 * runs on the spot without a grant on any of them, since no other thread can
 * push meanwhile. If it pushes a job, it first gets its grants, so that the new
 * job is ordered after it. Slow path: a token, and a grant on each variable.
 */
#include <assert.h>
#include <string.h>

#include "engine.h"
#include "kinds.h"
#include "mailbox.h"
#include "operation.h"
#include "push.h"
#include "ready_token.h"
#include "slab.h"
#include "token_execution.h"
#include "travelling_error.h"

/* ------------------------------------------------------------------- claims */

static uint32_t combine_modes(uint32_t a, uint32_t b) {
  return a == b ? a : TN__UPDATE;
}

static void set_claim(tn__claim *claim, const tn__access *access) {
  *claim = (tn__claim){.var = access->var, .mode = access->mode};
}

/* One of 64 bits, for a set that may contain too many variables, but never too
 * few. */
static uint64_t bit_of(const tn__var *var) {
  return 1ull << ((uintptr_t)var * 0x9e3779b97f4a7c15u >> 58);
}

/* Keeps one claim per variable, with the combined mode, in place. Returns their
 * number. */
static uint32_t merge_few(tn__claim *claims, uint32_t n) {
  uint64_t seen = 0;
  uint32_t m = 0;
  for (uint32_t i = 0; i < n; ++i) {
    const uint64_t bit = bit_of(claims[i].var);
    uint32_t k = (seen & bit) != 0 ? 0 : m;
    seen |= bit;
    while (k < m && claims[k].var != claims[i].var) ++k;
    if (k < m)
      claims[k].mode = combine_modes(claims[k].mode, claims[i].mode);
    else if (m++ != i)
      claims[m - 1] = claims[i];
  }
  return m;
}

/* Restores the heap of claims[0..n), ordered by address of variable, below
 * `at`. */
static void sift_down(tn__claim *claims, uint32_t at, uint32_t n) {
  for (;;) {
    uint32_t child = 2 * at + 1;
    if (child >= n) return;
    if (child + 1 < n &&
        (uintptr_t)claims[child].var < (uintptr_t)claims[child + 1].var)
      ++child;
    if ((uintptr_t)claims[at].var >= (uintptr_t)claims[child].var) return;
    const tn__claim swapped = claims[at];
    claims[at] = claims[child];
    claims[child] = swapped;
    at = child;
  }
}

static void sort_claims(tn__claim *claims, uint32_t n) {
  for (uint32_t i = n / 2; i-- > 0;) sift_down(claims, i, n);
  for (uint32_t last = n - 1; last > 0; --last) {
    const tn__claim greatest = claims[0];
    claims[0] = claims[last];
    claims[last] = greatest;
    sift_down(claims, 0, last);
  }
}

/* Avoids sorting the list of a prepared operation, which is already merged, at
 * every push. */
static bool is_sorted(const tn__claim *claims, uint32_t n) {
  for (uint32_t i = 1; i < n; ++i)
    if ((uintptr_t)claims[i - 1].var >= (uintptr_t)claims[i].var) return false;
  return true;
}

static uint32_t merge_many(tn__claim *claims, uint32_t n) {
  uint32_t m = 0;
  if (is_sorted(claims, n)) return n;
  sort_claims(claims, n);
  for (uint32_t i = 1; i < n; ++i) {
    if (claims[i].var == claims[m].var)
      claims[m].mode = combine_modes(claims[m].mode, claims[i].mode);
    else
      claims[++m] = claims[i];
  }
  return m + 1;
}

/* `var` and `mode` of each claim are set. */
static uint32_t merge_claims(tn__claim *claims, uint32_t n) {
  enum { FEW = 32 }; /* that a set of 64 bits distinguishes well */
  return n <= FEW ? merge_few(claims, n) : merge_many(claims, n);
}

uint32_t tn__claims_fill(tn__claim *claims, const tn__access *access,
                         uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) set_claim(&claims[i], &access[i]);
  return merge_claims(claims, n);
}

/* ------------------------------------------------------------------- tokens */

void tn__token_fill(tn__token *token, const tn__job *job) {
  for (uint32_t i = 0; i < job->n_access; ++i)
    set_claim(&token->claims[i], &job->access[i]);
  tn__token_begin(token, job);
}

void tn__token_begin(tn__token *token, const tn__job *job) {
  token->run = job->run;
  token->arg = job->arg;
  token->drop = job->drop;
  token->queue = job->queue;
  token->next = NULL;
  token->flags |= job->flags;
  /* INT32_MIN is the priority of an empty heap. */
  token->priority = job->priority > INT32_MIN ? job->priority : INT32_MIN + 1;
  token->name = job->name;
  token->operation = NULL;
  token->n_claims = merge_claims(token->claims, job->n_access);
  atomic_init(&token->over, 0);
  for (uint32_t i = 0; i < token->n_claims; ++i) token->claims[i].token = token;
}

tn__token *tn__token_create_for(tn__engine *engine, const tn__job *job,
                                tn__operation *operation) {
  tn__token *token = tn__token_create(engine, job->n_access);
  if (token == NULL) {
    (void)tn__fail_memory(job->n_access * sizeof(tn__claim) + sizeof *token,
                          "a function on its way through the engine");
    return NULL;
  }
  tn__token_fill(token, job);
  token->operation = operation;
  return token;
}

/* Jobs that a function pushes belong to the function's epoch, so that a wait
 * for the function includes them. */
uint32_t tn__count_pushed(tn__engine *engine, const tn__run_frame *frame) {
  uint32_t epoch = atomic_load_explicit(&engine->epoch, memory_order_relaxed);
  if (frame != NULL && (frame->flags & TN__FRAME_SYNC) != 0)
    epoch = (frame->flags & TN__TOKEN_EPOCH) != 0;
  tn__count_up(&engine->n_pushed[epoch]);
  return epoch != 0 ? TN__TOKEN_EPOCH : 0;
}

bool tn__token_grant(tn__token *token) {
  const uint32_t n = token->n_claims;
  uint32_t granted = 0;
  atomic_store_explicit(&token->wait, n + 1, memory_order_relaxed);
  for (uint32_t i = 0; i < n; ++i)
    granted += tn__var_acquire(&token->claims[i]);
  if (granted == n) return true; /* no other thread has seen it */
  return atomic_fetch_sub_explicit(&token->wait, granted + 1,
                                   memory_order_acq_rel) == granted + 1;
}

bool tn__token_acquire(tn__token *token, const tn__run_frame *frame) {
  token->flags |= tn__count_pushed(token->engine, frame);
  if (token->operation != NULL) tn__operation_count(token->operation);
  return tn__token_grant(token);
}

/* ---------------------------------------------------------------- fast path */

static bool is_small(const tn__job *job) {
  return (job->flags & (TN__JOB_SMALL | TN__JOB_ASYNC)) == TN__JOB_SMALL &&
         job->queue == NULL;
}

/* Bits of the word that keep the access from running at once. */
static inline uint64_t blocking_bits(const tn__access *access) {
  const uint64_t word =
      atomic_load_explicit(&access->var->word, memory_order_acquire);
  const uint64_t shared = access->mode == TN__READ ? TN__VAR_READERS : 0;
  return word & ~shared;
}

/* Mostly all are free: one branch at the end is faster than one per variable.
 */
static inline bool are_all_free(const tn__job *job) {
  uint64_t any = 0;
  for (uint32_t i = 0; i < job->n_access; ++i)
    any |= blocking_bits(&job->access[i]);
  return any == 0;
}

tn_code tn__job_drop_failed(const tn__job *job, tn_code code) {
  char text[TN__ERROR_MAX];
  /* A deletion that could not be pushed has not happened. */
  if (job->drop == NULL || (job->flags & TN__TOKEN_LAST) != 0) return code;
  memcpy(text, tn_error_text(), strlen(tn_error_text()) + 1);
  tn__call_drop(job->drop, job->arg);
  return tn__fail(code, "%s", text);
}

static void fail_without_grants(tn__engine *engine, const tn__job *job,
                                tn_code code) {
  tn__error *error =
      tn__error_create(engine, tn__error_add_name(code, job->name));
  tn__error_announce(engine, error);
  for (uint32_t i = 0; i < job->n_access; ++i)
    if (job->access[i].mode != TN__READ)
      tn__error_put(job->access[i].var, error);
  tn__error_release(error);
}

/* True if one more function may run inside of a push. */
static bool may_nest(void) {
  const tn__run_frame *top = tn__run_frame_top;
  return tn__drop_depth < TN__DEPTH_MAX &&
         (top == NULL || top->depth + 1 < TN__DEPTH_MAX);
}

/* Ends a function that failed, or got grants, or lost its operation while it
 * ran. */
static tn_code finish_without_grants(const tn__run_frame *frame,
                                     const tn__job *job, tn_code code,
                                     bool outermost) {
  tn__engine *engine = frame->engine;
  if (frame->token == NULL && code != TN_OK)
    fail_without_grants(engine, job, code);
  if (outermost) tn__gate_leave(engine);
  if (frame->token != NULL) {
    if (code != TN_OK) tn__token_fail(frame->token, code);
    code = tn__token_return(frame->token, code);
  } else if (code != TN_OK) {
    code = tn__job_drop_failed(job, code);
  } else {
    tn__call_drop(job->drop, job->arg);
  }
  if ((frame->flags & TN__FRAME_END) != 0)
    tn__operation_delete(frame->operation);
  return code;
}

/* Runs the job without grants. The gate is held; the outermost such function
 * leaves it. */
static inline tn_code run_without_grants(tn__engine *engine, const tn__job *job,
                                         tn__operation *operation,
                                         bool outermost) {
  tn__run_frame frame = {.outer = tn__run_frame_top,
                         .engine = engine,
                         .job = job,
                         .operation = operation,
                         .flags = TN__FRAME_GATE | TN__FRAME_SYNC};
  frame.depth = frame.outer != NULL ? frame.outer->depth + 1 : 0;
  tn__run_frame_top = &frame;
  const tn_code code = job->run(job->arg, NULL);
  tn__run_frame_top = frame.outer;
  if (code != TN_OK || frame.job == NULL || (frame.flags & TN__FRAME_END) != 0)
    return finish_without_grants(&frame, job, code, outermost);
  if (outermost) tn__gate_leave(engine);
  tn__call_drop(job->drop, job->arg);
  return TN_OK;
}

static inline bool try_push_fast(tn__engine *engine, const tn__job *job,
                                 tn__operation *operation, tn_code *code) {
  if (!is_small(job) || tn__drop_depth >= TN__DEPTH_MAX ||
      !tn__gate_enter(engine))
    return false;
  if (are_all_free(job)) {
    *code = run_without_grants(engine, job, operation, true);
    return true;
  }
  tn__gate_leave(engine);
  return false;
}

bool tn__push_fast(tn__engine *engine, const tn__job *job, tn_code *code) {
  return try_push_fast(engine, job, NULL, code);
}

tn_code tn__push_for(tn__engine *engine, const tn__job *job,
                     tn__operation *operation) {
  tn_code code;
  if (try_push_fast(engine, job, operation, &code)) return code;
  return engine->kind->push(engine, job, operation);
}

tn_code tn__push(tn__engine *engine, const tn__job *job) {
  return tn__push_for(engine, job, NULL);
}

/* ---------------------------------------------------------------- slow path */

/* Gives a function that runs without grants the grants that it would have. */
static tn_code grant_frame(tn__run_frame *frame) {
  tn__engine *engine = frame->engine;
  const tn__run_frame *outer = frame->outer;
  while (outer != NULL && outer->engine != engine) outer = outer->outer;
  tn__token *token = tn__token_create_for(engine, frame->job, frame->operation);
  if (token == NULL) return TN_OUT_OF_MEMORY;
  const bool granted = tn__token_acquire(token, outer);
  assert(granted); /* the variables were free, and no push came since */
  (void)granted;
  frame->token = token;
  frame->job = NULL;
  frame->flags |= token->flags & TN__TOKEN_EPOCH;
  return TN_OK;
}

/* Inside of the gate only a function that runs there may push. */
static tn_code check_inside(tn__run_frame *frame, const char *name) {
  if (frame == NULL || (frame->flags & TN__FRAME_GATE) == 0)
    return tn__fail(
        TN_INVALID,
        "%s was pushed from inside of a kernel, which must not push: push it "
        "before or after the call",
        name != NULL ? name : "a function");
  return frame->job != NULL ? grant_frame(frame) : TN_OK;
}

static tn_code push_inside(tn__run_frame *frame, const tn__job *job,
                           tn__operation *operation) {
  tn__engine *engine = frame->engine;
  if (is_small(job) && may_nest() && are_all_free(job))
    return run_without_grants(engine, job, operation, false);
  tn__token *token = tn__token_create_for(engine, job, operation);
  if (token == NULL) return tn__job_drop_failed(job, TN_OUT_OF_MEMORY);
  if (tn__token_acquire(token, frame)) tn__token_ready(token);
  return TN_OK;
}

/* Starts a token that is ready at once. */
static tn_code start_token(tn__token *token, bool small) {
  if (!small || !may_nest()) {
    tn__token_ready(token);
    return TN_OK;
  }
  return tn__token_try_park(token) ? TN_OK : tn__token_run(token);
}

static tn_code pooled_push(tn__engine *engine, const tn__job *job,
                           tn__operation *operation) {
  tn__run_frame *frame = tn__run_frame_of(engine);
  if (tn__gate_is_mine(engine)) {
    const tn_code code = check_inside(frame, job->name);
    if (code != TN_OK) return tn__job_drop_failed(job, code);
    return push_inside(frame, job, operation);
  }
  tn__token *token = tn__token_create_for(engine, job, operation);
  if (token == NULL) return tn__job_drop_failed(job, TN_OUT_OF_MEMORY);
  const bool small = is_small(job);
  tn__gate_take(engine);
  const bool ready = tn__token_acquire(token, frame);
  tn__gate_give(engine);
  return ready ? start_token(token, small) : TN_OK;
}

static tn_code pooled_push_all(tn__engine *engine, tn__token *first) {
  tn__run_frame *frame = tn__run_frame_of(engine);
  if (tn__gate_is_mine(engine)) TN__TRY(check_inside(frame, first->name));
  while (first != NULL) {
    tn__token *token = first;
    first = token->next;
    token->next = NULL;
    if (tn__token_acquire(token, frame)) tn__token_ready(token);
  }
  return TN_OK;
}

static void pooled_ready(tn__engine *engine, tn__token *token) {
  tn__pool_ready(engine->pool, token);
}

const tn__engine_kind tn__kind_pooled = {.push = pooled_push,
                                         .push_all = pooled_push_all,
                                         .ready = pooled_ready,
                                         .done = tn__token_complete};

/* ----------------------------------------------------------------- deletion */

static tn_code do_nothing(void *arg, tn__token *token) {
  (void)arg;
  (void)token;
  return TN_OK;
}

/* True if no pending job uses the variable. A function that runs without grants
 * on this thread may use it; in the naive engine, so may a job that another one
 * has pushed. */
static bool is_unused(tn__engine *engine, tn__var *var) {
  if (tn__engine_is_naive(engine) || !tn__mailbox_is_settled(engine))
    return false;
  const uint64_t word = atomic_load_explicit(&var->word, memory_order_acquire);
  return (word & ~TN__VAR_ERROR) == 0 && !tn__gate_is_mine(engine);
}

tn_code tn__var_delete(tn__engine *engine, tn__var *var, void (*end)(void *arg),
                       void *arg) {
  if (is_unused(engine, var) && tn__drop_depth < TN__DEPTH_MAX) {
    tn__var_deinit(var);
    tn__call_drop(end, arg);
    return TN_OK;
  }
  const tn__access access = {.var = var, .mode = TN__UPDATE};
  const tn__job job = {
      .name = "deletion",
      .run = do_nothing,
      .arg = arg,
      .drop = end,
      .access = &access,
      .n_access = 1,
      .flags = TN__JOB_SMALL | TN__JOB_ALWAYS | TN__TOKEN_LAST};
  return engine->kind->push(engine, &job, NULL);
}
