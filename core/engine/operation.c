/* SPDX-License-Identifier: Apache-2.0
 * operation.c: prepared operations. Pushes are counted up under the gate, and
 * completions are counted down elsewhere. So pushing and executing threads
 * share no counter until the operation is deleted.
 */
#include <string.h>

#include "engine_state.h"
#include "operation.h"
#include "push.h"
#include "slab.h"

/* n_left of an operation that is not deleted, in addition to its pushes. */
#define ALIVE ((int64_t)1 << 62)

struct tn__operation {
  _Atomic int64_t n_left; /* counted down by completions */
  /* Fields that pushes read, on separate cache lines. */
  _Alignas(64) tn__engine *engine;
  tn__job job; /* without a drop */
  void (*drop)(void *arg);
  _Atomic uint64_t n_pushed; /* written under the gate */
  tn__access access[];
};

/* The caller owns the job's list; the operation keeps a merged copy. */
static tn_code keep_access(tn__operation *operation, const tn__job *job) {
  const tn__env *env = operation->engine->env;
  const size_t bytes = job->n_access * sizeof(tn__claim);
  tn__claim *claims = tn__alloc(env, bytes);
  if (claims == NULL) return tn__fail_memory(bytes, "a prepared operation");
  const uint32_t n = tn__claims_fill(claims, job->access, job->n_access);
  for (uint32_t i = 0; i < n; ++i)
    operation->access[i] =
        (tn__access){.var = claims[i].var, .mode = claims[i].mode};
  operation->job.access = operation->access;
  operation->job.n_access = n;
  tn__free(env, claims);
  return TN_OK;
}

tn_code tn__operation_create(tn__engine *engine, const tn__job *job,
                             tn__operation **out) {
  tn__operation *operation = NULL;
  const size_t bytes =
      sizeof *operation + job->n_access * sizeof operation->access[0];
  *out = NULL;
  operation = tn__alloc_aligned(engine->env, bytes, _Alignof(tn__operation));
  if (operation == NULL) return tn__fail_memory(bytes, "a prepared operation");
  memset(operation, 0, bytes);
  operation->engine = engine;
  operation->job = *job;
  operation->job.drop = NULL;
  operation->drop = job->drop;
  atomic_init(&operation->n_left, ALIVE);
  const tn_code code = keep_access(operation, job);
  if (code != TN_OK)
    tn__free(engine->env, operation);
  else
    *out = operation;
  return code;
}

tn_code tn__operation_push(tn__operation *operation) {
  return tn__push_for(operation->engine, &operation->job, operation);
}

static void discard_all(tn__token *first) {
  while (first != NULL) {
    tn__token *next = first->next;
    tn__token_discard(first);
    first = next;
  }
}

/* False without memory for all tokens; then there are none. */
static bool make_tokens(tn__operation *const *operations, size_t n,
                        tn__token **first) {
  tn__token **end = first;
  *first = NULL;
  for (size_t i = 0; i < n; ++i) {
    tn__operation *each = operations[i];
    *end = tn__token_create_for(each->engine, &each->job, each);
    if (*end == NULL) {
      discard_all(*first);
      return false;
    }
    end = &(*end)->next;
  }
  return true;
}

tn_code tn__operations_push(tn__operation *const *operations, size_t n) {
  tn__token *first;
  if (n == 0) return TN_OK;
  tn__engine *engine = operations[0]->engine;
  if (!make_tokens(operations, n, &first)) return TN_OUT_OF_MEMORY;
  tn__engine_pause(engine);
  const tn_code code = engine->kind->push_all(engine, first);
  tn__engine_resume(engine);
  if (code != TN_OK) discard_all(first);
  return code;
}

void tn__operation_count(tn__operation *operation) {
  tn__count_up(&operation->n_pushed);
}

static void count_down(tn__operation *operation, int64_t n) {
  if (atomic_fetch_sub_explicit(&operation->n_left, n, memory_order_acq_rel) !=
      n)
    return;
  tn__call_drop(operation->drop, operation->job.arg);
  tn__free(operation->engine->env, operation);
}

void tn__operation_release(tn__operation *operation) {
  count_down(operation, 1);
}

void tn__operation_delete(tn__operation *operation) {
  for (tn__run_frame *each = tn__run_frame_top; each != NULL;
       each = each->outer) {
    if (each->operation != operation || each->job == NULL) continue;
    each->flags |= TN__FRAME_END; /* it runs at this moment, uncounted */
    return;
  }
  const uint64_t pushed =
      atomic_load_explicit(&operation->n_pushed, memory_order_relaxed);
  count_down(operation, ALIVE - (int64_t)pushed);
}
