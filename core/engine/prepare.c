/* SPDX-License-Identifier: Apache-2.0
 * prepare.c: creates prepared operations, and pushes them, one or many.
 */
#include <string.h>

#include "engine.h"
#include "engine_state.h"
#include "operation.h"
#include "push.h"
#include "slab.h"

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
  atomic_init(&operation->n_left, TN__OPERATION_ALIVE);
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
