/* SPDX-License-Identifier: Apache-2.0
 * operation.c: the life of a prepared operation. Pushes are counted up under
 * the gate, and completions are counted down elsewhere. So pushing and
 * executing threads share no counter until the operation is deleted.
 */
#include "operation.h"

#include "engine_state.h"
#include "run_frame.h"
#include "token.h"

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
  count_down(operation, TN__OPERATION_ALIVE - (int64_t)pushed);
}
