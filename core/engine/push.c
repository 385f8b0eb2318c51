/* SPDX-License-Identifier: Apache-2.0
 * push.c: what happens when a function is pushed.
 *
 * The short way: the thread owns the gate, and every variable is free: the
 * function runs there and then, without a mark on any of them, since nobody
 * else can push meanwhile. If it pushes something itself, it gets its marks
 * first, so that what it pushes stands behind it. The long way: a token, and a
 * grant on each variable.
 */
#include <assert.h>
#include <string.h>

#include "pool.h"

/* -------------------------------------------------------------------- links */

static uint32_t together(uint32_t a, uint32_t b) {
  return a == b ? a : TN__UPDATE;
}

static void set_link(tn__link *link, const tn__access *access) {
  *link = (tn__link){.var = access->var, .mode = access->mode};
}

/* One of 64 bits, for a set that may hold too much, but never too little. */
static uint64_t bit_of(const tn__var *var) {
  return 1ull << ((uintptr_t)var * 0x9e3779b97f4a7c15u >> 58);
}

/* The strongest mode of each variable, in place; how many are left. */
static uint32_t merge_few(tn__link *links, uint32_t n) {
  uint64_t seen = 0;
  uint32_t m = 0;
  for (uint32_t i = 0; i < n; ++i) {
    const uint64_t bit = bit_of(links[i].var);
    uint32_t k = (seen & bit) != 0 ? 0 : m;
    seen |= bit;
    while (k < m && links[k].var != links[i].var) ++k;
    if (k < m)
      links[k].mode = together(links[k].mode, links[i].mode);
    else if (m++ != i)
      links[m - 1] = links[i];
  }
  return m;
}

/* Restores the heap of links[0..n), by address of variable, below `at`. */
static void sift(tn__link *links, uint32_t at, uint32_t n) {
  for (;;) {
    uint32_t child = 2 * at + 1;
    if (child >= n) return;
    if (child + 1 < n &&
        (uintptr_t)links[child].var < (uintptr_t)links[child + 1].var)
      ++child;
    if ((uintptr_t)links[at].var >= (uintptr_t)links[child].var) return;
    const tn__link swapped = links[at];
    links[at] = links[child];
    links[child] = swapped;
    at = child;
  }
}

static void sort(tn__link *links, uint32_t n) {
  for (uint32_t i = n / 2; i-- > 0;) sift(links, i, n);
  for (uint32_t last = n - 1; last > 0; --last) {
    const tn__link greatest = links[0];
    links[0] = links[last];
    links[last] = greatest;
    sift(links, 0, last);
  }
}

/* So that a prepared operation's list, which came from here, is not sorted at
 * every push. */
static bool is_sorted(const tn__link *links, uint32_t n) {
  for (uint32_t i = 1; i < n; ++i)
    if ((uintptr_t)links[i - 1].var >= (uintptr_t)links[i].var) return false;
  return true;
}

static uint32_t merge_many(tn__link *links, uint32_t n) {
  uint32_t m = 0;
  if (is_sorted(links, n)) return n;
  sort(links, n);
  for (uint32_t i = 1; i < n; ++i) {
    if (links[i].var == links[m].var)
      links[m].mode = together(links[m].mode, links[i].mode);
    else
      links[++m] = links[i];
  }
  return m + 1;
}

uint32_t tn__links_merge(tn__link *links, uint32_t n) {
  enum { FEW = 32 }; /* that a set of 64 bits tells apart */
  return n <= FEW ? merge_few(links, n) : merge_many(links, n);
}

uint32_t tn__links_fill(tn__link *links, const tn__access *access, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) set_link(&links[i], &access[i]);
  return tn__links_merge(links, n);
}

/* ------------------------------------------------------------------- tokens */

void tn__token_fill(tn__token *token, const tn__job *job) {
  for (uint32_t i = 0; i < job->n_access; ++i)
    set_link(&token->links[i], &job->access[i]);
  tn__token_begin(token, job);
}

void tn__token_begin(tn__token *token, const tn__job *job) {
  token->run = job->run;
  token->arg = job->arg;
  token->drop = job->drop;
  token->queue = job->queue;
  token->next = NULL;
  token->flags |= job->flags;
  /* The least of all priorities is what an empty heap has. */
  token->priority = job->priority > INT32_MIN ? job->priority : INT32_MIN + 1;
  token->name = job->name;
  token->operation = NULL;
  token->n_links = tn__links_merge(token->links, job->n_access);
  atomic_init(&token->over, 0);
  for (uint32_t i = 0; i < token->n_links; ++i) token->links[i].token = token;
}

tn__token *tn__token_of(tn__engine *engine, const tn__job *job,
                        tn__operation *operation) {
  tn__token *token = tn__token_create(engine, job->n_access);
  if (token == NULL) {
    (void)tn__fail_memory(job->n_access * sizeof(tn__link) + sizeof *token,
                          "a function on its way through the engine");
    return NULL;
  }
  tn__token_fill(token, job);
  token->operation = operation;
  return token;
}

/* What a function pushes belongs to its own epoch, so that who waits for the
 * one waits for the other. */
uint32_t tn__count_pushed(tn__engine *engine, const tn__frame *frame) {
  uint32_t epoch = atomic_load_explicit(&engine->epoch, memory_order_relaxed);
  if (frame != NULL && (frame->flags & TN__FRAME_SYNC) != 0)
    epoch = (frame->flags & TN__TOKEN_EPOCH) != 0;
  tn__count_up(&engine->n_pushed[epoch]);
  return epoch != 0 ? TN__TOKEN_EPOCH : 0;
}

bool tn__token_grant(tn__token *token) {
  const uint32_t n = token->n_links;
  uint32_t granted = 0;
  atomic_store_explicit(&token->wait, n + 1, memory_order_relaxed);
  for (uint32_t i = 0; i < n; ++i) granted += tn__var_acquire(&token->links[i]);
  if (granted == n) return true; /* nobody else has ever seen it */
  return atomic_fetch_sub_explicit(&token->wait, granted + 1,
                                   memory_order_acq_rel) == granted + 1;
}

bool tn__token_acquire(tn__token *token, const tn__frame *frame) {
  token->flags |= tn__count_pushed(token->engine, frame);
  if (token->operation != NULL) tn__operation_count(token->operation);
  return tn__token_grant(token);
}

/* ------------------------------------------------------------ the short way */

static bool is_small(const tn__job *job) {
  return (job->flags & (TN__JOB_SMALL | TN__JOB_ASYNC)) == TN__JOB_SMALL &&
         job->queue == NULL;
}

/* What of the word keeps the access from running at once. */
static inline uint64_t in_the_way(const tn__access *access) {
  const uint64_t word =
      atomic_load_explicit(&access->var->word, memory_order_acquire);
  const uint64_t shared = access->mode == TN__READ ? TN__VAR_READERS : 0;
  return word & ~shared;
}

/* Most often nothing is: one branch at the end beats one per variable. */
static inline bool all_free(const tn__job *job) {
  uint64_t any = 0;
  for (uint32_t i = 0; i < job->n_access; ++i)
    any |= in_the_way(&job->access[i]);
  return any == 0;
}

tn_code tn__job_failed(const tn__job *job, tn_code code) {
  char text[TN__ERROR_MAX];
  /* A deletion that could not be pushed has not happened. */
  if (job->drop == NULL || (job->flags & TN__TOKEN_LAST) != 0) return code;
  memcpy(text, tn_error_text(), strlen(tn_error_text()) + 1);
  tn__drop(job->drop, job->arg);
  return tn__fail(code, "%s", text);
}

static void fail_unmarked(tn__engine *engine, const tn__job *job,
                          tn_code code) {
  tn__error *error = tn__error_create(engine, tn__error_sign(code, job->name));
  tn__error_announce(engine, error);
  for (uint32_t i = 0; i < job->n_access; ++i)
    if (job->access[i].mode != TN__READ)
      tn__error_put(job->access[i].var, error);
  tn__error_release(error);
}

/* Whether one more function may run inside of a push. */
static bool may_nest(void) {
  const tn__frame *top = tn__frame_top;
  return tn__drops < TN__DEPTH_MAX &&
         (top == NULL || top->depth + 1 < TN__DEPTH_MAX);
}

/* The end of a function that failed, or was marked, or whose operation was
 * deleted while it ran. */
static tn_code settle(const tn__frame *frame, const tn__job *job, tn_code code,
                      bool outermost) {
  tn__engine *engine = frame->engine;
  if (frame->token == NULL && code != TN_OK) fail_unmarked(engine, job, code);
  if (outermost) tn__leave(engine);
  if (frame->token != NULL) {
    if (code != TN_OK) tn__token_fail(frame->token, code);
    code = tn__token_return(frame->token, code);
  } else if (code != TN_OK) {
    code = tn__job_failed(job, code);
  } else {
    tn__drop(job->drop, job->arg);
  }
  if ((frame->flags & TN__FRAME_END) != 0)
    tn__operation_delete(frame->operation);
  return code;
}

/* Runs it without any mark. The gate is held, and left behind the outermost
 * such function. */
static inline tn_code run_unmarked(tn__engine *engine, const tn__job *job,
                                   tn__operation *operation, bool outermost) {
  tn__frame frame = {.outer = tn__frame_top,
                     .engine = engine,
                     .job = job,
                     .operation = operation,
                     .flags = TN__FRAME_GATE | TN__FRAME_SYNC};
  frame.depth = frame.outer != NULL ? frame.outer->depth + 1 : 0;
  tn__frame_top = &frame;
  const tn_code code = job->run(job->arg, NULL);
  tn__frame_top = frame.outer;
  if (code != TN_OK || frame.job == NULL || (frame.flags & TN__FRAME_END) != 0)
    return settle(&frame, job, code, outermost);
  if (outermost) tn__leave(engine);
  tn__drop(job->drop, job->arg);
  return TN_OK;
}

static inline bool push_short(tn__engine *engine, const tn__job *job,
                              tn__operation *operation, tn_code *code) {
  if (!is_small(job) || tn__drops >= TN__DEPTH_MAX || !tn__enter(engine))
    return false;
  if (all_free(job)) {
    *code = run_unmarked(engine, job, operation, true);
    return true;
  }
  tn__leave(engine);
  return false;
}

bool tn__push_short(tn__engine *engine, const tn__job *job, tn_code *code) {
  return push_short(engine, job, NULL, code);
}

tn_code tn__push_for(tn__engine *engine, const tn__job *job,
                     tn__operation *operation) {
  tn_code code;
  if (push_short(engine, job, operation, &code)) return code;
  return engine->kind->push(engine, job, operation);
}

tn_code tn__push(tn__engine *engine, const tn__job *job) {
  return tn__push_for(engine, job, NULL);
}

/* ------------------------------------------------------------- the long way */

/* Gives a function that runs without marks the marks that it would have. */
static tn_code mark(tn__frame *frame) {
  tn__engine *engine = frame->engine;
  const tn__frame *outer = frame->outer;
  while (outer != NULL && outer->engine != engine) outer = outer->outer;
  tn__token *token = tn__token_of(engine, frame->job, frame->operation);
  if (token == NULL) return TN_OUT_OF_MEMORY;
  const bool granted = tn__token_acquire(token, outer);
  assert(granted); /* they were free, and nobody has pushed since */
  (void)granted;
  frame->token = token;
  frame->job = NULL;
  frame->flags |= token->flags & TN__TOKEN_EPOCH;
  return TN_OK;
}

/* Inside of the gate only a function that runs there may push. */
static tn_code check_inside(tn__frame *frame, const char *name) {
  if (frame == NULL || (frame->flags & TN__FRAME_GATE) == 0)
    return tn__fail(TN_INVALID,
                    "%s was pushed between tn__enter and tn__leave: push it "
                    "behind",
                    name != NULL ? name : "a function");
  return frame->job != NULL ? mark(frame) : TN_OK;
}

static tn_code push_inside(tn__frame *frame, const tn__job *job,
                           tn__operation *operation) {
  tn__engine *engine = frame->engine;
  if (is_small(job) && may_nest() && all_free(job))
    return run_unmarked(engine, job, operation, false);
  tn__token *token = tn__token_of(engine, job, operation);
  if (token == NULL) return tn__job_failed(job, TN_OUT_OF_MEMORY);
  if (tn__token_acquire(token, frame)) tn__token_ready(token);
  return TN_OK;
}

/* Ready as it is pushed. */
static tn_code begin(tn__token *token, bool small) {
  if (!small || !may_nest()) {
    tn__token_ready(token);
    return TN_OK;
  }
  return tn__token_parked(token) ? TN_OK : tn__token_run(token);
}

static tn_code pooled_push(tn__engine *engine, const tn__job *job,
                           tn__operation *operation) {
  tn__frame *frame = tn__frame_of(engine);
  if (tn__gate_mine(engine)) {
    const tn_code code = check_inside(frame, job->name);
    if (code != TN_OK) return tn__job_failed(job, code);
    return push_inside(frame, job, operation);
  }
  tn__token *token = tn__token_of(engine, job, operation);
  if (token == NULL) return tn__job_failed(job, TN_OUT_OF_MEMORY);
  const bool small = is_small(job);
  tn__gate_take(engine);
  const bool ready = tn__token_acquire(token, frame);
  tn__gate_give(engine);
  return ready ? begin(token, small) : TN_OK;
}

static tn_code pooled_push_all(tn__engine *engine, tn__token *first) {
  tn__frame *frame = tn__frame_of(engine);
  if (tn__gate_mine(engine)) TN__TRY(check_inside(frame, first->name));
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

/* Whether nothing on its way uses the variable. A function that runs without
 * marks on this thread may, and, in the naive engine, one that another has
 * pushed. */
static bool is_unused(tn__engine *engine, tn__var *var) {
  if (engine->kind == &tn__kind_naive || !tn__post_settled(engine))
    return false;
  const uint64_t word = atomic_load_explicit(&var->word, memory_order_acquire);
  return (word & ~TN__VAR_ERROR) == 0 && !tn__gate_mine(engine);
}

tn_code tn__var_delete(tn__engine *engine, tn__var *var, void (*end)(void *arg),
                       void *arg) {
  if (is_unused(engine, var) && tn__drops < TN__DEPTH_MAX) {
    tn__var_deinit(var);
    tn__drop(end, arg);
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
