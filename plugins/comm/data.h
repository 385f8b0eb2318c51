/* SPDX-License-Identifier: Apache-2.0
 * data.h: arithmetic on the elements of several ranks.
 */
#ifndef TENON_PLUGINS_COMM_DATA_H_
#define TENON_PLUGINS_COMM_DATA_H_

#include "group.h"

enum { COMM_BLOCK = 2048 }; /* elements that are combined at once */

/* Combines elements of ranks. f16 and bf16 are f32 meanwhile, all other types
 * as they are. */
typedef struct comm_arithmetic {
  int32_t wide_bytes; /* of an element meanwhile */
  /* Reads n elements. */
  void (*widen)(void *wide, const void *from, int64_t n);
  /* wide = op(wide, from), of elements as they are in arrays; at most
   * COMM_BLOCK. */
  void (*combine)(void *wide, const void *from, int64_t n, comm_op op);
  /* Divides wide elements; floats only. */
  void (*divide)(void *wide, int64_t n, int32_t by);
  /* Writes n elements. */
  void (*narrow)(void *to, const void *wide, int64_t n);
} comm_arithmetic;

/* The arithmetic of a type, with the instructions that a call may use.
 * Constant. */
const comm_arithmetic *comm_arithmetic_of(const tn_frame *call, tn_dtype dtype);

/* Combines elements [begin, end) of n_in arrays in the order of ranks, and
 * writes the result to the n_out arrays, which may be among the inputs. NULL
 * among `out`: none. */
typedef struct comm_combination {
  const comm_arithmetic *arithmetic;
  int64_t bytes; /* of an element in arrays */
  comm_op op;
  int32_t n_in;
  int32_t n_out;
  const char *const *in;
  char *const *out;
} comm_combination;

/* Divides the elements of an array of floats in place. */
void comm_divide(const tn_frame *call, tn_dtype dtype, void *data, int64_t n,
                 int32_t by);

void comm_combine(const comm_combination *c, int64_t begin, int64_t end);

#endif /* TENON_PLUGINS_COMM_DATA_H_ */
