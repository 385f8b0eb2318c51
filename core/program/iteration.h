/* SPDX-License-Identifier: Apache-2.0
 * iteration.h: the data of a LOOP step: a program of its step graph, and the
 * arrays and outputs that each step copies. bind_loops.c makes it, and
 * iteration.c runs it.
 */
#ifndef TENON_ITERATION_H_
#define TENON_ITERATION_H_

#include "program.h"

struct tn__iteration {
  tn_program *program;
  uint32_t n_in;
  uint32_t n_heads; /* number of heads of the step graph; the other heads of the
                       step program are kept entries */
  uint32_t n_kept;
  uint32_t *kept;    /* for each head that is a kept entry: the number of the
                        loop's output */
  uint8_t *role;     /* for each input of the loop: TN__ROLE_* */
  tn_array **inside; /* arrays of the step's arguments, borrowed */
};

enum { TN__ROLE_CONSTANT = 0, TN__ROLE_SEQUENCE = 1, TN__ROLE_STATE = 2 };

/* The program of a loop's step graph. */
static inline const tn_program *tn__iteration_program(const tn__step *step) {
  return step->loop->program;
}
/* Tests whether the loop reads the elements of an input, or only its shape. */
static inline bool tn__loop_reads(const tn__step *step, uint32_t in) {
  return !step->shape_only || !step->shape_only[in];
}
/* Whether the loop writes an output. */
static inline bool tn__loop_writes(const tn__step *step, uint32_t out) {
  const tn__value *value = &step->program->values[step->out[out]];
  return value->request != TN_REQ_NULL && value->array != NULL;
}
/* Returns the number of steps of one run of the loop: the length of its
 * sequences. */
static inline int64_t tn__loop_count_steps(const tn__step *step) {
  const uint32_t first = step->node->loop->sequences[0];
  return tn__value_array(step->program, step->in[first])->tensor.shape[0];
}

#endif /* TENON_ITERATION_H_ */
