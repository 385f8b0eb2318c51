/* SPDX-License-Identifier: Apache-2.0
 * shapes.h: completes the shapes and element types of a call by the rules of
 * its operator, and evaluates expressions of shapes.
 *
 * files:
 *   shape_program.c           evaluates expressions (shape_program.h)
 *   shape_infer.c, infer_*.c  infer shapes and types to a fixed point (infer.h)
 */
#ifndef TENON_SHAPES_H_
#define TENON_SHAPES_H_

#include <stdatomic.h>

#include "base.h"
#include "tenon/define.h"

/* The target of tn_run.host_data, one per call: host->fail writes the code and
 * the text, host->set_shape calls `set_shape`, host->defer returns `later`. */
typedef struct tn__slot {
  _Atomic uint32_t
      busy; /* fail may come from several slices of a parallel loop */
  tn_code code;
  int64_t text_of; /* first index of the slice that failed with `text`; below 0:
                      outside of a loop. Protected by `busy` */
  char text[1024]; /* "" until fail is called */
  int32_t (*set_shape)(struct tn__slot *slot, const tn_frame *frame,
                       const tn_sig *shape, uint32_t list, uint32_t index);
  void *ctx;              /* of set_shape; a NULL set_shape refuses */
  struct tn_later *later; /* NULL: the call cannot complete later */
} tn__slot;

/* A list value of a shape program, or one integer (n == TN__SCALAR). */
#define TN__SCALAR (-1)
typedef struct tn__ivalue {
  int32_t n;
  int32_t known; /* 0: depends on an unknown value */
  int64_t v[TN_MAX_NDIM];
} tn__ivalue;

/* Values that a shape program can read. */
typedef struct tn__scope {
  const tn_node *nodes;
  uint32_t n_nodes;
  const tn_field *const *fields;
  uint32_t n_fields;
  const void *params;
  const tn_signature *io; /* may be NULL, as may its lists */
  const tn_frame
      *frame; /* instead of io, for a running call; then `absent` is not read */
  const tn__ivalue *dims; /* by TN_NODE_DIM index; may be NULL */
  const tn__ivalue *packs;
  const uint32_t *absent; /* per input: 1 if an optional one is absent;
                             may be NULL */
} tn__scope;

/* Value of a node. TN_OK (perhaps with known 0), or TN_INVALID/TN_OUT_OF_RANGE
 * for division by zero, overflow, lists of different length. */
tn_code tn__expr_eval(const tn__scope *scope, uint32_t node, tn__ivalue *out);

/* Arguments of an inference, which completes `io` in place. `params` is the
 * struct. `absent` marks inputs that the caller omits (may be NULL). `base` has
 * instance, host and run for an infer hook (may be NULL if the operator has
 * none). The result is that of tn_operator_infer. The counts in `io` must
 * already fit the operator. */
typedef struct tn__infer_args {
  const tn_op *op;
  const char *name; /* full name, for messages */
  const void *params;
  const uint32_t *absent;
  const tn_frame *base;
  bool defaults; /* unknown shapes may become the usual ones */
} tn__infer_args;

tn_code tn__infer_signature(const tn__infer_args *args, tn_signature *io);

/* Number of outputs for these params: evaluates `count` of the outputs. */
tn_code tn__infer_n_outputs(const tn__infer_args *args, uint32_t n_in,
                            uint32_t *out);
/* Number of outputs without the hidden ones at the end, of `n_out` outputs. */
uint32_t tn__infer_n_visible(const tn_op *op, uint32_t n_out);

/* The type of an operand if it does not depend on other operands, or
 * unknown. */
tn_dtype tn__arg_dtype(const tn__infer_args *args, const tn_arg *arg);

/* Finds the dtypes of the operator's type variables in a complete signature. */
void tn__find_dtype_vars(const tn_op *op, const tn_signature *io,
                         tn_dtype *vars);

#endif /* TENON_SHAPES_H_ */
