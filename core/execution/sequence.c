/* SPDX-License-Identifier: Apache-2.0
 * sequence.c: pushes and frees the jobs of a sequence, which segment_jobs.c
 * makes. They are one schedule, or operations where a device has queues.
 */
#include "program.h"

tn_code tn__sequence_push_part(const tn_program *p,
                               const tn__sequence *sequence, uint32_t first,
                               uint32_t n) {
  tn__engine *engine = p->env->engine;
  tn__operation **begins = sequence->operations;
  tn__engine_pause(engine);
  tn_code rc = tn__operations_push(begins, sequence->n_begins);
  if (rc == TN_OK)
    rc = tn__operations_push(begins + sequence->n_begins + first, n);
  tn__engine_resume(engine);
  return rc;
}

tn_code tn__sequence_push(const tn_program *p, const tn__sequence *sequence) {
  if (sequence->schedule) return tn__schedule_push(sequence->schedule);
  return tn__sequence_push_part(p, sequence, 0,
                                sequence->n_operations - sequence->n_begins);
}

void tn__sequence_end(const tn_program *p, tn__sequence *sequence) {
  if (sequence->schedule) tn__schedule_delete(sequence->schedule);
  for (uint32_t i = 0; i < sequence->n_operations; ++i)
    tn__operation_delete(sequence->operations[i]);
  tn__free(p->env, sequence->operations);
  sequence->schedule = NULL;
  sequence->operations = NULL;
  sequence->n_operations = sequence->n_begins = 0;
}
