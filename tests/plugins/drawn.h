/* SPDX-License-Identifier: Apache-2.0
 * drawn.h: calls of operators drawn at random, of arrays from the pool of
 * parts.h, and their expected values.
 */
#ifndef TENON_TESTS_PLUGINS_DRAWN_H_
#define TENON_TESTS_PLUGINS_DRAWN_H_

#include "parts.h"

enum { MOST_IN = 4, MOST_OUT = 2 };

enum {                     /* operators that a test draws from */
       DRAWN_SMOOTH = 1,   /* of elemwise and tensor */
       DRAWN_STATEFUL = 2, /* of optim: a state */
       DRAWN_FAILING = 4   /* of nn: calls that fail, other than on devices */
};

typedef struct drawn_op drawn_op;

typedef struct drawn {
  const drawn_op *op;
  tn_operator *handle;
  char params[48];
  double lr; /* for an operator with a state: the last input */
  size_t n_in;
  size_t n_out;
  part in[MOST_IN];
  part out[MOST_OUT]; /* no array: to be made */
  tn_req req[MOST_OUT];
  bool misshapen; /* a given output has another shape than the result, */
  bool repeating; /* or repeats elements: the call is to be refused */
  number *results[MOST_OUT]; /* without the values that they are added to */
  number *state;
  bool fails;   /* the kernel does not take the values */
  bool unknown; /* or perhaps not: they are no numbers */
} drawn;

/* Finds the operators. Results have at most this many elements. */
void drawn_open(tn_runtime *rt, uint32_t which, int64_t most);

/* An operator, inputs, and shapes of outputs; false: there are none. */
bool drawn_fit(drawn *c);
/* Chooses outputs: new ones, and once in `rare` times given ones, of which few
 * are not fit to be written. */
void drawn_place(drawn *c, uint32_t rare);
bool drawn_is_misfit(const drawn *c);
/* Whether such a call may be refused so. */
bool drawn_refuses(const drawn *c, tn_code rc);
/* Fills in results and the state from the inputs. */
void drawn_compute(drawn *c);
/* Result i as the output gets it: in memory of its own, added if requested. */
number *drawn_value(const drawn *c, size_t i);

const char *drawn_name(const drawn *c);
const char *drawn_text(const drawn *c);
bool drawn_has_state(const drawn *c);
bool drawn_hides(const drawn *c); /* no gradient passes through it */
bool drawn_wants(const drawn *c); /* some output */

/* As the library takes them. */
typedef struct drawn_lists {
  tn_array *in_arrays[MOST_IN];
  tn_array *out_arrays[MOST_OUT];
  tn_inputs in;
  tn_outputs out;
  tn_params *params; /* the caller releases them */
} drawn_lists;
void drawn_lists_init(drawn_lists *lists, const drawn *c);
/* Puts new outputs into the list of live arrays. */
void drawn_adopt(drawn *c, const drawn_lists *lists);

#endif /* TENON_TESTS_PLUGINS_DRAWN_H_ */
