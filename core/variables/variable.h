/* SPDX-License-Identifier: Apache-2.0
 * variable.h: the protocol of variables: claims and grants. For the folders of
 * the engine.
 *
 * A push requests a *grant* on each of its variables: a reader's or a writer's.
 * If the variable allows it the grant comes at once, otherwise the *claim*
 * joins the end of the variable's queue. A token runs when it holds all of its
 * grants. When it is complete it releases them, and each release grants the
 * next claims:
 *
 *   acquire READ    empty queue, no writer         readers += 1
 *   acquire write   empty queue, no grant at all   WRITER
 *   otherwise                                      join the queue
 *   release READ    last reader, queue not empty   hand over to the head
 *   release write   queue not empty                hand over to the head
 *   hand over       the head is a writer           it gets WRITER, and takes
 *                                                  the queue along if that
 *                                                  begins with a writer
 *                   readers are at the head        all of them, up to the next
 *                                                  writer, get a reader's grant
 *
 * A writer first hands over the queue that it has taken along. From writer to
 * writer this touches no word of the variable, so the pushing thread keeps the
 * variable in its cache. When a reader is at its head, the queue goes back,
 * before the claims that have joined meanwhile.
 *
 * `word` of a variable changes by compare-and-swap while LOCK is clear, or by
 * plain stores of the thread that has set LOCK. A thread holds LOCK for the few
 * instructions that touch the queue. If the queue is empty, each of the steps
 * above is one compare-and-swap.
 *
 * One thread at a time acquires (the gate), so a token joins all of its queues
 * at one moment. Two pushes have the same order in every queue, and no circle
 * of waiting tokens can arise. Releasing needs no gate. In an engine that
 * dispatches, the gate orders records, and only the dispatcher acquires, in the
 * order of the records (mailbox.h).
 *
 * Only the holder of a writer's grant changes `error` and `fence`; the holder
 * of any grant may read them. There is one exception, under LOCK: readers leave
 * their own fences there, and the failure of an earlier writer's fence.
 *
 * The fast path needs none of this. The owner of the gate runs a small function
 * with free variables inside of the gate and without grants. Meanwhile others
 * can only release, so free variables stay free. If the function pushes a job
 * it first gets its token and its grants, and is then completed like all
 * others. The dispatcher does the same outside of the gate; a job that its
 * function pushes becomes a later record.
 */
#ifndef TENON_VARIABLES_VARIABLE_H_
#define TENON_VARIABLES_VARIABLE_H_

#include "job.h"

#define TN__VAR_LOCK (1ull << 0)
#define TN__VAR_WRITER (1ull << 1)
#define TN__VAR_QUEUED (1ull << 2)
#define TN__VAR_ERROR (1ull << 3)   /* error is set */
#define TN__VAR_FENCE (1ull << 4)   /* fence is set */
#define TN__VAR_LEAVING (1ull << 5) /* a claim in the queue may leave it */
#define TN__VAR_READER (1ull << 32)

/* One token's use of one variable: its request for a grant. */
typedef struct tn__claim {
  tn__token *token;
  /* Next in the variable's queue. Of a writer that holds its grant: the tail of
   * the queue that it has taken along. */
  struct tn__claim *next;
  tn__var *var;
  uint32_t mode;
  uint32_t may_leave; /* tn__var_cancel may be called */
} tn__claim;

/* Requests claim->mode on claim->var. True: granted. The gate is held. */
bool tn__var_acquire(tn__claim *claim);
/* Releases a grant. Returns the first claim that is granted by that, or NULL.
 * The granted claims are no longer in the queue. */
tn__claim *tn__var_release(tn__claim *claim);
/* The next granted claim; only readers are granted together. */
static inline tn__claim *tn__claim_next(const tn__claim *claim) {
  return claim->mode == TN__READ ? claim->next : NULL;
}
/* Removes a claim that may leave from its queue. False if it is granted, or
 * about to be. The removal may grant others, as above. */
bool tn__var_cancel(tn__claim *claim, tn__claim **granted);
/* Changes bits of word while other threads may change the rest. */
void tn__var_mark(tn__var *var, uint64_t clear, uint64_t set);

#endif /* TENON_VARIABLES_VARIABLE_H_ */
