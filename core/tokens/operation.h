/* SPDX-License-Identifier: Apache-2.0
 * operation.h: prepared operations, and the number of their pushes. For the
 * folders of the engine.
 */
#ifndef TENON_TOKENS_OPERATION_H_
#define TENON_TOKENS_OPERATION_H_

#include "job.h"

/* n_left of an operation that is not deleted, in addition to its pushes. */
#define TN__OPERATION_ALIVE ((int64_t)1 << 62)

struct tn__operation {
  _Atomic int64_t n_left; /* counted down by completions */
  /* Fields that pushes read, on separate cache lines. */
  _Alignas(64) tn__engine *engine;
  tn__job job; /* without a drop */
  void (*drop)(void *arg);
  _Atomic uint64_t n_pushed; /* written under the gate */
  tn__access access[];
};

/* Counts one more push. The gate is held. */
void tn__operation_count(tn__operation *operation);
/* Counts a completed push. */
void tn__operation_release(tn__operation *operation);

#endif /* TENON_TOKENS_OPERATION_H_ */
