/* SPDX-License-Identifier: Apache-2.0
 * binding.h: the state of tn__program_bind, shared by the files bind_*.c. Every
 * function is a station of tn__program_bind (program_bind.c) or a part of one.
 */
#ifndef TENON_GRAPH_BINDING_H_
#define TENON_GRAPH_BINDING_H_

#include "passes.h"
#include "program.h"

typedef struct tn__binding {
  tn_program *p;
  const tn_bind *how;
  uint32_t *numbers; /* by node of the flat graph: number of its argument or
                        state, counted from 1 */
  const tn_argument **given; /* per argument and state; NULL: the user says
                                nothing about it */
  tn_known *known;
  size_t n_known;
  tn_entry *of; /* arguments with requested gradients */
  tn_entry *gradients;
  uint32_t *which; /* by index of `of`: number of the argument */
  uint32_t n_of;
  tn__pass_list passes;
} tn__binding;

/* --------------------------------------------------------- bind_arguments.c */

/* Allocates the lists of arguments and heads. */
tn_code tn__bind_alloc_lists(tn__binding *b);
/* Adds the user's options for one argument. */
tn_code tn__bind_add_argument(tn__binding *b, const tn_argument *argument);
/* TN_INVALID for a request that a gradient cannot have; `what` names it. */
tn_code tn__bind_request_check(tn_req request, const char *what);
/* Sets the arrays of arguments and their gradients: those of the user, which
 * must fit, and new ones; the same for heads, and for output gradients. */
tn_code tn__bind_set_arguments(tn__binding *b);
tn_code tn__bind_set_outputs(tn__binding *b);
tn_code tn__bind_set_output_gradients(tn_program *p);

/* -------------------------------------------------------------- bind_states.c
 */

/* Fills the states that the program created with the initial values that their
 * operators declare. */
tn_code tn__bind_init_states(tn__binding *b);

/* --------------------------------------------------------------- bind_heads.c
 */

/* Copies heads that cannot be computed in their final place. */
tn_code tn__bind_copy_heads(tn__binding *b);
/* Sets p->lent and p->late. */
tn_code tn__bind_mark_late(tn__binding *b);

/* ------------------------------------------------------------- bind_results.c
 */

/* TN_INVALID if arrays of the user overlap: a gradient with an argument, an
 * output or another gradient, or two outputs. An argument may overlap an output
 * or another argument. Call it after inference: default requests depend on
 * types. */
tn_code tn__bind_results_check(const tn__binding *b);

/* ------------------------------------------------------------ bind_gradient.c
 */

/* The request of the gradient of argument `i`; needs its type. */
tn_req tn__bind_request(const tn__binding *b, uint32_t i);
/* Adds the requested gradients, and the output gradients. */
tn_code tn__bind_gradients(tn__binding *b);
/* Makes each gradient an entry of its own: p->gradients, from b->gradients. */
tn_code tn__bind_copy_gradients(tn__binding *b);

/* -------------------------------------------------------------- bind_passes.c
 */

/* Keeps the names for tn_program_reshape. */
tn_code tn__bind_passes_keep(tn_program *p, const tn_bind *how);
/* Run the passes before "gradient", and those after it. */
tn_code tn__bind_passes_before(tn__binding *b);
tn_code tn__bind_passes_after(tn__binding *b);

/* ------------------------------------------------------------- bind_loops.c */

/* Makes the program of each loop; the outer program has its memory. */
tn_code tn__bind_loops(tn_program *p);

/* -------------------------------------------------------------- placement.c */

/* Sets p->where after the gradients were added, adds copies of entries that
 * another device reads, and checks both. */
tn_code tn__placement_make(const tn__binding *b);

#endif /* TENON_GRAPH_BINDING_H_ */
