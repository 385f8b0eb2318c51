/* SPDX-License-Identifier: Apache-2.0
 * binding.h: a program on its way, as the files that begin with bind_ see it.
 * Every function is a station of tn__program_bind (bind.c), or a part of one.
 */
#ifndef TENON_GRAPH_BINDING_H_
#define TENON_GRAPH_BINDING_H_

#include "passes.h"
#include "program.h"

typedef struct tn__binding {
  tn_program *p;
  const tn_bind *how;
  uint32_t *numbers; /* by node of the flat graph: of its argument or state,
                        counted from 1 */
  const tn_argument **given; /* per argument and state; NULL: nothing said */
  tn_known *known;
  size_t n_known;
  tn_entry *of; /* arguments whose gradients are wanted */
  tn_entry *slopes;
  uint32_t *which; /* of `of`: number of the argument */
  uint32_t n_of;
  tn__pass_list passes;
} tn__binding;

/* --------------------------------------------------------------- bind_given.c
 */

/* Room for all that is known of arguments and heads. */
tn_code tn__bind_alloc_lists(tn__binding *b);
/* Takes what the user says of one argument. */
tn_code tn__bind_add_argument(tn__binding *b, const tn_argument *argument);
/* TN_INVALID for a request that no gradient may have; `what` names it. */
tn_code tn__bind_request_check(tn_req request, const char *what);
/* Arrays of arguments and their gradients: given ones, which must fit, and new
 * ones; the same of heads, and of the weights of heads. */
tn_code tn__bind_set_arguments(tn__binding *b);
tn_code tn__bind_set_outputs(tn__binding *b);
tn_code tn__bind_set_output_gradients(tn_program *p);

/* -------------------------------------------------------------- bind_states.c
 */

/* Fills states that the program made with what their operators say. */
tn_code tn__bind_init_states(tn__binding *b);

/* --------------------------------------------------------------- bind_heads.c
 */

/* Makes copies of heads that cannot be computed where they are wanted. */
tn_code tn__bind_copy_heads(tn__binding *b);
/* p->lent and p->late. */
tn_code tn__bind_mark_late(tn__binding *b);

/* ------------------------------------------------------------- bind_results.c
 */

/* TN_INVALID if two results of the user's are to be in the same memory.
 * Requests are known by then. */
tn_code tn__bind_results_check(const tn__binding *b);

/* ------------------------------------------------------------ bind_gradient.c
 */

/* How the gradient of argument `i` is wanted, as soon as its type is known. */
tn_req tn__bind_request(const tn__binding *b, uint32_t i);
/* Adds the gradients that are wanted, and weights of heads. */
tn_code tn__bind_gradients(tn__binding *b);
/* Makes each of them an entry of its own: p->gradients, from b->slopes. */
tn_code tn__bind_copy_gradients(tn__binding *b);

/* -------------------------------------------------------------- bind_passes.c
 */

/* Keeps the names, for a program that is made like this one. */
tn_code tn__bind_passes_keep(tn_program *p, const tn_bind *how);
/* Runs those before "gradient", and those behind it. */
tn_code tn__bind_passes_before(tn__binding *b);
tn_code tn__bind_passes_after(tn__binding *b);

/* -------------------------------------------------------------------- place.c
 */

/* When gradients stand: p->where, copies of what is read on another device, and
 * whether that may be. */
tn_code tn__placement_make(const tn__binding *b);

#endif /* TENON_GRAPH_BINDING_H_ */
