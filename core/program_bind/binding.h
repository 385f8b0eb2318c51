/* SPDX-License-Identifier: Apache-2.0
 * binding.h: the state of tn__program_bind, shared by the files bind_*.c. Every
 * function is a station of tn__program_bind (program_bind.c) or a part of one.
 */
#ifndef TENON_GRAPH_BINDING_H_
#define TENON_GRAPH_BINDING_H_

#include "program_bind.h"
#include "passes.h"

typedef struct tn__binding {
  tn_program *p;
  const tn_bind *how;
  uint32_t *numbers; /* for each node of the flat graph: number of its argument
                        or state, counted from 1; 0: the node is none */
  const tn_argument **given; /* for each argument and state: the user's options;
                                NULL: the user passes none */
  tn_known *known;
  size_t n_known;
  tn_entry *of; /* arguments with requested gradients */
  tn_entry *gradients;
  uint32_t *which; /* for each item of `of`: the number of the argument */
  uint32_t n_of;
  tn__pass_list passes;
} tn__binding;

/* --------------------------------------------------------- bind_arguments.c */

/* Allocates the lists of arguments and heads. */
tn_code tn__bind_alloc_lists(tn__binding *b);
/* Adds the user's options for one argument. */
tn_code tn__bind_add_argument(tn__binding *b, const tn_argument *argument);
/* Fails with TN_INVALID for a request that a gradient cannot have; `what`
 * describes the gradient for the message. */
tn_code tn__bind_request_check(tn_req request, const char *what);
/* Set the arrays of a program: of arguments and their gradients, of heads, and
 * of output gradients. An array of the user must fit; for the others new arrays
 * are created. */
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

/* Fails with TN_INVALID if arrays of the user overlap: a gradient with an
 * argument, an output or another gradient, or two outputs. An argument may
 * overlap an output or another argument. Call it after inference, because
 * default requests depend on types. */
tn_code tn__bind_results_check(const tn__binding *b);

/* ------------------------------------------------------------ bind_gradient.c
 */

/* Returns the request of the gradient of argument `i`. The type of the argument
 * must be known. */
tn_req tn__bind_request(const tn__binding *b, uint32_t i);
/* Adds the requested gradients, and the output gradients. */
tn_code tn__bind_gradients(tn__binding *b);
/* Makes each gradient an entry that no other gradient or head has, with a copy
 * where necessary: sets p->gradients from b->gradients. */
tn_code tn__bind_copy_gradients(tn__binding *b);

/* -------------------------------------------------------------- bind_passes.c
 */

/* Keeps the names for tn_program_reshape. */
tn_code tn__bind_passes_keep(tn_program *p, const tn_bind *how);
/* Run the passes before "gradient", and those after it. */
tn_code tn__bind_passes_before(tn__binding *b);
tn_code tn__bind_passes_after(tn__binding *b);

/* ------------------------------------------------------------- bind_loops.c */

/* Binds a program for the steps of each loop. The outer program owns the memory
 * of the loop's inputs and outputs. */
tn_code tn__bind_loops(tn_program *p);

/* -------------------------------------------------------------- placement.c */

/* Sets p->where, the device of each node, after the gradients were added. Adds
 * a copy of each entry that a node on another device reads, and checks the
 * result. */
tn_code tn__placement_make(const tn__binding *b);

#endif /* TENON_GRAPH_BINDING_H_ */
