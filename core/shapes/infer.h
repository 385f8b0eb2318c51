/* SPDX-License-Identifier: Apache-2.0
 * infer.h: the state of one inference, for shape_infer.c and the infer_*.c
 * files.
 *
 * files: shape_infer.c    the entry, the fixed point, the check for gaps
 *        infer_fact.c     adds facts to the signature and reports conflicts
 *        infer_shape.c    shape rules: same, broadcast, hook
 *        infer_pattern.c  matches a pattern with a shape
 *        infer_solve.c    finds variables of a rule from a value
 *        infer_dtype.c    element types
 *        infer_hook.c     calls the operator's own infer function
 *
 * Rules only add facts and never change one. So they may run in any order, and
 * the loop ends when no rule adds a fact.
 */
#ifndef TENON_INFER_H_
#define TENON_INFER_H_

#include "shape_program.h"

enum {
  TN__MAX_OPERANDS = 1024, /* of one call */
  TN__MAX_DIMS = 32,       /* dimension variables of an operator */
  TN__MAX_PACKS = 8,
  TN__TRACKED = 64 /* operands with facts that remember their source */
};

/* Source of a fact: the number of an operand (inputs, outputs, aux, in this
 * order), or one of these. */
enum { TN__FROM_RULE = 0xfffe, TN__FROM_HOOK = 0xffff };

/* Facts about an operand before the inference. */
typedef struct tn__known_facts {
  int16_t ndim;  /* -1 */
  uint16_t dims; /* bit i: dimension i */
  tn_dtype dtype;
} tn__known_facts;

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
  tn__known_facts given[TN__MAX_OPERANDS];
} tn__unifier;

/* The subject of a new fact: dimension `dim` of operand `id`. `from` is its
 * source, `rule` its rule (NULL: equality of operands), and `k` the element in
 * the lists of the rule. */
typedef struct tn__fact_target {
  uint32_t id;
  int32_t dim;
  uint32_t from;
  const tn_arg *rule;
  int32_t k;
} tn__fact_target;

/* ---------------------------------------------------------------- operands */

const tn_sig *tn__operand_sig(const tn__unifier *u, uint32_t id);
const tn_arg *tn__operand_arg(const tn__unifier *u, uint32_t id);
bool tn__operand_is_absent(const tn__unifier *u, uint32_t id);
/* The operand's number; TN_NONE if the call has no such operand. */
uint32_t tn__operand_id(const tn__unifier *u, uint32_t list, uint32_t index);
/* args[index]; if the last one repeats, it is also for all further indexes. */
const tn_arg *tn__arg_at(const tn_arg *const *args, uint32_t n, uint32_t index);

/* Adds "input `lhs` (2,3)" to the thread's error text. */
void tn__append_operand(const tn__unifier *u, uint32_t id, bool shape);

/* ------------------------------------------------------------------- facts */

void tn__facts_save(tn__unifier *u);
/* Removes every fact that was added. */
void tn__facts_restore(tn__unifier *u);

/* Operand target->id has `rank` dimensions (target->dim is not read). */
tn_code tn__fact_rank(tn__unifier *u, const tn__fact_target *target,
                      int64_t rank);
tn_code tn__fact_dim(tn__unifier *u, const tn__fact_target *target,
                     int64_t value);
void tn__fact_dtype(tn__unifier *u, uint32_t id, tn_dtype dtype);

/* The operand that first stated the fact about a dimension. */
uint32_t tn__dim_source(const tn__unifier *u, uint32_t id, int32_t dim);
uint32_t tn__rank_source(const tn__unifier *u, uint32_t id);

/* Fails because no value of a variable satisfies the rule at this target. */
tn_code tn__fail_no_solution(tn__unifier *u, const tn__fact_target *target);

/* Adds operator and rule before the message of a failed evaluation, and the
 * caller's shapes after it. */
tn_code tn__fail_rule(tn__unifier *u, const char *rule, tn_code code);
/* Calls tn__expr_at for a target; describes a failure as tn__fail_rule does. */
tn_code tn__target_value(tn__unifier *u, const tn__fact_target *target,
                         uint32_t node, tn__element *out);

/* ------------------------------------------------------------------- rules */

tn_code tn__infer_shapes(tn__unifier *u);
tn_code tn__infer_pattern(tn__unifier *u, uint32_t id, const tn_arg *arg);
tn_code tn__infer_hook(tn__unifier *u);
tn_code tn__infer_dtypes(tn__unifier *u);

/* Adds the fact that the node has the value `value` at element k, by the
 * operand target->id. */
tn_code tn__solve_node(tn__unifier *u, const tn__fact_target *target,
                       uint32_t node, int64_t value);
/* The source of a node's value at element k. */
uint32_t tn__node_source(const tn__unifier *u, uint32_t node, int32_t k);
/* Sets the length of the packs of a node with unknown length to `n`. */
void tn__solve_length(tn__unifier *u, uint32_t node, int32_t n, uint32_t from);

#endif /* TENON_INFER_H_ */
