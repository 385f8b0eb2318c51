/* SPDX-License-Identifier: Apache-2.0
 * later.c: calls that complete later (tn_host.defer). Such a call is an
 * asynchronous job. It has two ends: the return of compute, which is the end of
 * the job's function, and tn_host.complete, on any thread and in any order.
 * The second of them ends the call: it writes temporaries back and completes
 * the token. Without an asynchronous job the thread of the call waits for
 * tn_host.complete.
 */
#include <stdio.h>

#include "call.h"
#include "engine_state.h"

enum { /* tn_later.state; also its number of ends, plus 1 */
       NO_TICKET = 0,
       TAKEN = 1, /* compute has called defer */
       ONE_END = 2
};

/* -------------------------------------------------- functions of the plugin */

tn_later *tn__later_defer(const tn_frame *call) {
  tn__slot *slot = call->run ? call->run->host_data : NULL;
  tn_later *later = slot ? slot->later : NULL;
  if (later) {
    uint32_t none = NO_TICKET;
    (void)atomic_compare_exchange_strong(&later->state, &none, TAKEN);
    return later;
  }
  (void)call->host->fail(
      call, TN_UNSUPPORTED, __FILE__, __LINE__,
      "defer: only compute of a kernel with TN_KERNEL_LATER (`flags: "
      "[later]`) can complete later");
  return NULL;
}

/* Ends an asynchronous call, on the thread of the second end. */
static void end_call(tn__call_state *s) {
  tn__token *token = s->later.token;
  const uint64_t begin = s->later.begin;
  tn__error_clear();
  tn_code rc = tn__call_finish(s, token);
  if (rc != TN_OK && s->later.name_failure)
    rc = s->later.name_failure(s->later.node, rc);
  if (begin != 0) tn__trace_later(token, begin);
  tn__token_done(token, rc); /* may free the state */
}

/* True for the second end. */
static bool add_end(tn_later *later) {
  return atomic_fetch_add_explicit(&later->state, 1, memory_order_acq_rel) ==
         ONE_END;
}

void tn__later_complete(tn_later *later, int32_t code, const char *text) {
  tn__call_state *s = later->call;
  const bool asynchronous = later->token != NULL;
  later->code = code;
  if (code != TN_OK && text)
    (void)snprintf(s->launch.slot.text, sizeof s->launch.slot.text, "%s", text);
  if (add_end(later))
    end_call(s);
  else if (!asynchronous)
    tn__futex_wake_all(&later->state); /* an address only: it may be freed */
}

int32_t tn__later_is_cancelled(const tn_later *later) {
  const tn__engine *engine = later->call->caller->env->engine;
  return atomic_load_explicit(&engine->abandoned, memory_order_relaxed) != 0;
}

/* -------------------------------------------------------------- in the host */

uint32_t tn__call_job_flags(const tn__call_state *s) {
  if (s->recipe->small) return TN__JOB_SMALL;
  return (tn__call_is_later(s) ? TN__JOB_ASYNC : 0) |
         (s->recipe->ordered ? TN__JOB_TOLD : 0);
}

uint32_t tn__call_begin_job(tn__call_state *s) {
  const uint32_t flags = tn__call_job_flags(s);
  s->later.is_async = (flags & TN__JOB_ASYNC) != 0;
  return flags;
}

bool tn__call_is_later(const tn__call_state *s) {
  return (s->recipe->kernel->desc->flags & TN_KERNEL_LATER) != 0 &&
         !tn__call_is_dynamic(s);
}

tn_code tn__later_compute(tn__call_state *s, tn__token *token) {
  tn_later *later = &s->later;
  const bool leaves =
      later->is_async && !tn__engine_is_naive(s->caller->env->engine);
  atomic_store_explicit(&later->state, NO_TICKET, memory_order_relaxed);
  later->call = s;
  later->code = TN_OK;
  later->token = leaves ? token : NULL;
  later->begin = leaves ? tn__trace_begin(s->caller->env->engine) : 0;
  s->launch.slot.later = later;
  const tn_code rc = tn__launch_compute(&s->launch);
  s->launch.slot.later = NULL;
  if (rc != TN_LATER || leaves) return rc;
  while (atomic_load_explicit(&later->state, memory_order_acquire) == TAKEN)
    tn__futex_wait(&later->state, TAKEN, TN__FOREVER);
  return TN_OK; /* or later->code */
}

tn_code tn__later_return(tn__call_state *s, tn__token *token, tn_code rc) {
  if (!s->later.is_async || tn__is_told()) return rc;
  if (rc == TN_OK) {
    tn__token_done(token, TN_OK);
  } else if (rc == TN_LATER) {
    if (add_end(&s->later)) end_call(s);
    rc = TN_OK;
  }
  return rc;
}

tn_code tn__later_check(tn__launch *l, int32_t code) {
  const tn_later *later = l->slot.later;
  if (code != TN_LATER || !later) return tn__kernel_fail(l, code, "compute");
  if (atomic_load(&later->state) != NO_TICKET) return TN_LATER;
  (void)snprintf(l->slot.text, sizeof l->slot.text,
                 "compute returned TN_LATER without a ticket; call host->defer "
                 "first");
  return tn__kernel_fail(l, TN_PLUGIN, "compute");
}
