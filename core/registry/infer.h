/* SPDX-License-Identifier: Apache-2.0
 * infer.h: the state of one inference, shared by the infer*.c files only.
 *
 * files: infer.c          the entry, the fixed point, what is still missing
 *        infer_fact.c     facts enter the signature, or contradict it
 *        infer_shape.c    shape rules: same, broadcast, hook
 *        infer_pattern.c  patterns against a shape
 *        infer_solve.c    what a value says about the variables of a rule
 *        infer_dtype.c    element types
 *
 * Facts are only ever added, never changed, so the rules may run in any order
 * and as often as one of them finds something new: it ends.
 */
#ifndef TENON_INFER_H_
#define TENON_INFER_H_

#include "expr.h"

enum {
  TN__MAX_OPERANDS = 1024, /* of one call */
  TN__MAX_DIMS = 32,       /* dimension variables of an operator */
  TN__MAX_PACKS = 8,
  TN__TRACKED = 64 /* operands whose facts remember where they came from */
};

/* Where a fact came from: the number of an operand (inputs, outputs, aux, in
 * this order), or one of these. */
enum { TN__FROM_RULE = 0xfffe, TN__FROM_HOOK = 0xffff };

/* What was known of an operand before. */
typedef struct tn__given {
  int16_t ndim;  /* -1 */
  uint16_t dims; /* bit i: dimension i */
  tn_dtype dtype;
} tn__given;

typedef struct tn__unifier {
  const tn__infer_args *args;
  const tn_op *op;
  tn_signature *io;
  uint32_t n; /* operands */
  bool changed;
  bool defaults; /* the hook may state usual shapes */
  tn__scope scope;
  uint16_t dim_from[TN__MAX_DIMS];
  uint16_t pack_from[TN__MAX_PACKS][TN_MAX_NDIM];
  uint16_t length_from[TN__MAX_PACKS];
  uint16_t rank_from[TN__TRACKED];
  uint16_t from[TN__TRACKED][TN_MAX_NDIM];
  tn__ivalue dims[TN__MAX_DIMS];
  tn__ivalue packs[TN__MAX_PACKS];
  tn__given given[TN__MAX_OPERANDS];
} tn__unifier;

/* A fact under way: dimension `dim` of operand `id`, because of `from`, by the
 * rule of `rule` (NULL: equality of operands), which is at element `k` of its
 * lists there. */
typedef struct tn__spot {
  uint32_t id;
  int32_t dim;
  uint32_t from;
  const tn_arg *rule;
  int32_t k;
} tn__spot;

/* ---------------------------------------------------------------- operands */

const tn_sig *tn__operand(const tn__unifier *u, uint32_t id);
const tn_arg *tn__operand_arg(const tn__unifier *u, uint32_t id);
bool tn__operand_absent(const tn__unifier *u, uint32_t id);
/* The operand's number; TN_NONE if the call has no such one. */
uint32_t tn__operand_id(const tn__unifier *u, uint32_t list, uint32_t index);
/* args[index], the last standing for all further ones if it repeats. */
const tn_arg *tn__arg_at(const tn_arg *const *args, uint32_t n, uint32_t index);

/* Adds "input `lhs` (2,3)" to the thread's error text. */
void tn__say_operand(const tn__unifier *u, uint32_t id, bool shape);

/* ------------------------------------------------------------------- facts */

void tn__snapshot(tn__unifier *u);
/* Takes back every fact that was added. */
void tn__restore(tn__unifier *u);

/* Operand spot->id has `rank` dimensions (spot->dim is not read). */
tn_code tn__fact_rank(tn__unifier *u, const tn__spot *spot, int64_t rank);
tn_code tn__fact_dim(tn__unifier *u, const tn__spot *spot, int64_t value);
void tn__fact_dtype(tn__unifier *u, uint32_t id, tn_dtype dtype);

/* The operand that first stated what is known of a dimension. */
uint32_t tn__dim_source(const tn__unifier *u, uint32_t id, int32_t dim);
uint32_t tn__rank_source(const tn__unifier *u, uint32_t id);

/* No value of a variable satisfies the rule at this spot. */
tn_code tn__no_solution(tn__unifier *u, const tn__spot *spot);

/* Puts operator and rule before the failure of an evaluation, and what was
 * given behind it. */
tn_code tn__rule_failed(tn__unifier *u, const char *rule, tn_code code);
/* tn__expr_at at a spot; a failure is described as above. */
tn_code tn__spot_value(tn__unifier *u, const tn__spot *spot, uint32_t node,
                       tn__element *out);

/* ------------------------------------------------------------------- rules */

tn_code tn__infer_shapes(tn__unifier *u);
tn_code tn__infer_pattern(tn__unifier *u, uint32_t id, const tn_arg *arg);
tn_code tn__infer_hook(tn__unifier *u);
tn_code tn__infer_dtypes(tn__unifier *u);

/* The node has the value `value` at element k, according to spot->id. */
tn_code tn__solve(tn__unifier *u, const tn__spot *spot, uint32_t node,
                  int64_t value);
/* Where the value of a node at element k came from. */
uint32_t tn__node_from(const tn__unifier *u, uint32_t node, int32_t k);
/* The packs of a node whose length is unknown get `n` elements. */
void tn__solve_length(tn__unifier *u, uint32_t node, int32_t n, uint32_t from);

#endif /* TENON_INFER_H_ */
