/* SPDX-License-Identifier: Apache-2.0
 * stations.h: the stations of tn__program_bind, in their order, for the files
 * of this folder. Each makes or changes its last parameter and reads the
 * others; a station with a tn_program changes the fields that its comment
 * names. program_bind.c calls them, and program.h lists those of core/program.
 *
 *   bind_arguments.c   arguments, and the options that the user passes for them
 *   bind_heads.c       heads, and copies of those in arrays of the user
 *   bind_passes.c      passes before the gradients and after
 *   bind_gradient.c    requests, and the gradients that they need
 *   bind_results.c     checks that results do not overwrite each other
 *   placement.c        devices of nodes, and copies between devices
 *   bind_arrays.c      arrays of arguments, gradients and heads
 *   bind_states.c      initial values of states
 *   bind_loops.c       programs of loops
 */
#ifndef TENON_STATIONS_H_
#define TENON_STATIONS_H_

#include "passes.h"
#include "program_bind.h"

/* The options of the user, borrowed from a tn_bind. */
typedef struct tn__user_options {
  const tn_bind *how;
  const tn_argument **arguments; /* for each argument and state; NULL: the user
                                    passes no options for it */
  tn_known *known;               /* types and shapes that the options state */
  size_t n_known;
} tn__user_options;

/* The gradients that the user requests. */
typedef struct tn__requests {
  tn_req *by_argument; /* for each argument and state */
  uint32_t *which;     /* the numbers of the arguments with a request */
  tn_entry *computed;  /* for each of them: the entry of its gradient;
                          TN_ENTRY_NONE: no head depends on the argument */
  uint32_t n;
} tn__requests;

/* --------------------------------------------------------- bind_arguments.c */

/* Lists the arguments and states of the user's `graph`, as nodes of its flat
 * copy. */
tn_code tn__bind_find_arguments(const tn_graph *graph, const tn_graph *flat,
                                const tn_bind *how, tn__arena *arena,
                                tn__arguments *out);
/* Finds the argument that each option is for. Fails with TN_INVALID for options
 * that are wrong in themselves. */
tn_code tn__bind_read_options(const tn_graph *flat,
                              const tn__arguments *arguments,
                              const tn_bind *how, tn__arena *arena,
                              tn__user_options *out);
/* Fails with TN_INVALID for a request that a gradient cannot have; `what`
 * describes the gradient for the message. */
tn_code tn__bind_request_check(tn_req request, const char *what);
/* Fails with TN_INVALID for an array of another runtime. */
tn_code tn__bind_array_check(const tn__env *env, const tn_array *array,
                             const char *name, const char *what);

/* ------------------------------------------------------------- bind_heads.c */

/* Lists the heads of the graph, and those that are in arrays of the user. */
tn_code tn__bind_list_heads(const tn_graph *flat, const tn_bind *how,
                            tn__arena *arena, tn__heads *out);
/* Adds copies of heads that cannot be computed in their final place. */
tn_code tn__bind_copy_heads(const tn__arguments *arguments,
                            const tn__user_options *options, tn_graph *graph,
                            tn__heads *heads);

/* ------------------------------------------------------------ bind_passes.c */

/* Keeps the names in p->how for tn_program_reshape. */
tn_code tn__bind_passes_keep(const tn_bind *how, tn_program *p);
/* Runs the passes before "gradient". Changes p->graph, and with it the numbers
 * of arguments and heads. */
tn_code tn__bind_passes_before(tn__pass_list *passes,
                               const tn__user_options *options, tn_program *p);
/* Runs the passes after "gradient". Changes p->graph, and with it the numbers
 * of arguments, heads and gradients. */
tn_code tn__bind_passes_after(tn__pass_list *passes,
                              const tn__user_options *options,
                              tn__requests *requests, tn_program *p);

/* ---------------------------------------------------------- bind_gradient.c */

/* Lists the requests. The types of the arguments must be inferred, because the
 * default request depends on them. */
tn_code tn__bind_find_requests(const tn_graph *graph,
                               const tn__arguments *arguments,
                               const tn__user_options *options,
                               tn__arena *arena, tn__requests *out);
/* Makes lists without any gradient. */
tn_code tn__bind_list_gradients(const tn__arguments *arguments,
                                const tn__heads *heads, tn__arena *arena,
                                tn__gradients *out);
/* Adds the nodes of the requested gradients and of output gradients to
 * p->graph. Sets p->gradients and requests->computed. */
tn_code tn__bind_gradients(tn__requests *requests, tn_program *p);
/* Makes each gradient an entry that no other gradient or head has, with a copy
 * where necessary. Sets p->gradients. */
tn_code tn__bind_copy_gradients(const tn__requests *requests, tn_program *p);

/* ----------------------------------------------------------- bind_results.c */

/* Fails with TN_INVALID if arrays of the user overlap: a gradient with an
 * argument, an output or another gradient, or two outputs. An argument may
 * overlap an output or another argument. */
tn_code tn__bind_results_check(const tn_graph *graph,
                               const tn__arguments *arguments,
                               const tn__user_options *options,
                               const tn__requests *requests);

/* -------------------------------------------------------------- placement.c */

/* Sets on each node of p->graph an attribute with the name of its group, so
 * that the gradients of the node inherit it; "" is the default device. Does
 * nothing without groups. */
tn_code tn__placement_label(tn_program *p);
/* Sets p->placement after the gradients were added. Adds a copy of each entry
 * that a node on another device reads to p->graph, and checks the result. */
tn_code tn__placement_make(const tn__requests *requests, tn_program *p);

/* ------------------------------------------------------------ bind_arrays.c */

/* Set the arrays in p->values: of arguments and their gradients, of heads, and
 * of output gradients. An array of the user must fit; for the others new arrays
 * are created. */
tn_code tn__bind_set_arguments(const tn__user_options *options,
                               const tn__requests *requests, tn_program *p);
tn_code tn__bind_set_outputs(const tn_bind *how, tn_program *p);
tn_code tn__bind_set_output_gradients(tn_program *p);

/* ------------------------------------------------------------ bind_states.c */

/* Fills the arrays of states that the program created with the initial values
 * that their operators declare. */
tn_code tn__bind_init_states(const tn__user_options *options,
                             const tn_program *p);

/* ------------------------------------------------------------- bind_loops.c */

/* Binds a program for the steps of each loop: step->loop. The outer program
 * owns the memory of the loop's inputs and outputs. */
tn_code tn__bind_loops(tn_program *p);

#endif /* TENON_STATIONS_H_ */
