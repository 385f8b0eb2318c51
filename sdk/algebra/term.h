/* SPDX-License-Identifier: Apache-2.0
 * term.h: formulas in normal form, for sdk/algebra only. Sums and products
 * have any number of operands; a difference is a sum, a quotient is a product
 * of powers. Each term exists once, so equal terms have equal pointers.
 *
 *   term     = number + operand + operand ...     TERM_SUM
 *            | number * operand * operand ...     TERM_PRODUCT
 *            | operand ^ operand                  TERM_POWER
 *            | function(operands)                 TERM_CALL
 *            | operand < operand                  TERM_COMPARE
 *            | reduction(operand)                 TERM_REDUCE
 *            | number | name                      TERM_NUMBER, TERM_LEAF
 *
 * No operand of a sum is a sum or a number. No operand of a product is a
 * product or a number. No two operands of one sum or product could be
 * collected. Operands keep the order of their first use, for people; equality
 * ignores it.
 *
 * Kernels compute in f32 as well, where 1e20*x may be 1 and 1e40 is infinite.
 * So numbers that fit in f32 are multiplied only if their product fits, too.
 * (1e20*x)^2 stays unchanged, and 1e20*(1e20*x) has the inner product as a
 * factor. This factor is a power with exponent 1, the only one of that form.
 *
 * The functions below simplify by the rules of real numbers: x*0 is 0 and x/x
 * is 1 for every x. Arguments and results are terms of one set and never NULL.
 * When memory runs out or the set is full, the result is `nothing`, and
 * `failed` or `full` reports it at the end.
 */
#ifndef TENON_ALGEBRA_TERM_H_
#define TENON_ALGEBRA_TERM_H_

#include "algebra.h"

enum {
  TERM_NUMBER,
  TERM_LEAF,
  TERM_SUM,
  TERM_PRODUCT,
  TERM_POWER,
  TERM_CALL,
  TERM_COMPARE,
  TERM_REDUCE
};

typedef struct term_memo term_memo;

typedef struct term {
  int kind;
  uint32_t id;    /* in order of creation */
  uint32_t index; /* TNM_F_* of a call, letter of a comparison, TNM_R_* of a
                     reduction */
  int level;      /* TNM_LEVEL_* */
  uint32_t stage; /* largest number of reductions inside of each other */
  uint32_t n;     /* operands */
  double number;  /* of a number, a sum or a product */
  const tnm_expr *leaf;
  const struct term **args;
  const uint32_t *key; /* ids of the operands; sorted in sums and products */
  uint64_t hash;
  struct term *next; /* in the bucket */
  term_memo *memo;
} term;

/* Results for a term that were computed before. */
struct term_memo {
  const term *derivative; /* by the variable with the id `derived_by` */
  const term *image;      /* after the substitution `image_by` */
  uint32_t derived_by;
  uint32_t image_by;
  uint32_t seen_by;     /* the last walk that visited the term */
  uint32_t listed_by;   /* the last sum or product under construction that
                           contains the term */
  uint32_t listed_at;   /* its index there */
  const tnm_expr *expr; /* the term as an expression */
};

enum {
  TERM_BUCKETS = 4096,
  TERM_MAX = 30000,
  TERM_MAX_ARGS = 1024,
  TERM_MAX_OPERANDS = 400000 /* of all terms; time grows with them */
};

typedef struct terms {
  tn__arena *arena; /* of the terms */
  tn__arena *out;   /* of the resulting expressions */
  term *buckets[TERM_BUCKETS];
  uint32_t n;
  uint32_t n_operands;
  uint32_t n_images; /* substitutions so far */
  uint32_t n_lists;  /* sums and products constructed so far */
  uint32_t n_walks;  /* walks over the terms so far (term_memo.seen_by) */
  const tnm_levels *levels; /* of the operands, or NULL */
  const char *axes;         /* name of the axes, after the first reduction */
  bool full;                /* the terms exceed a limit above */
  bool unknown;             /* a required derivative does not exist */
  tnm_pos pos;              /* of the resulting expressions */
  const term *nothing;
} terms;

/* Terms are in the arena `scratch`, resulting expressions in `out`. False if
 * memory ran out. */
bool tnm_terms_init(terms *set, tn__arena *scratch, tn__arena *out);
/* Whether every result so far is valid. */
bool tnm_terms_is_complete(const terms *set);

const term *tnm_term_number(terms *set, double value);
/* `leaf` is one of TNM_INPUT, TNM_OUTPUT, TNM_GRAD, TNM_PARAM, TNM_COUNT. */
const term *tnm_term_leaf(terms *set, const tnm_expr *leaf);
const term *tnm_term_sum(terms *set, const term *const *v, size_t n);
const term *tnm_term_product(terms *set, const term *const *v, size_t n);
const term *tnm_term_power(terms *set, const term *base, const term *exponent);
const term *tnm_term_call(terms *set, uint32_t function,
                          const term *const *args);
const term *tnm_term_compare(terms *set, char op, const term *a, const term *b);

/* A reduction (TNM_R_*). Factors and addends that are the same for the whole
 * line are outside of the result; a mean is a sum divided by the count. */
const term *tnm_term_reduce(terms *set, uint32_t reduction, const term *arg);
/* The number of elements of a line. */
const term *tnm_term_count(terms *set);
/* Whether a value is the same for all elements of a line. */
bool tnm_term_is_uniform(const term *t);

/* Whether a product may combine two numbers, or powers of one, to the number
 * `both`. Not if the two fit in f32 and `both` does not. */
bool tnm_can_merge_numbers(double one, double other, double both);
/* A product as a single factor of other products. */
const term *tnm_term_separate(terms *set, const term *product);

/* Short forms of the functions above. */
const term *tnm_term_add(terms *set, const term *a, const term *b);
const term *tnm_term_mul(terms *set, const term *a, const term *b);
const term *tnm_term_scale(terms *set, double factor, const term *a);
bool tnm_term_is(const term *t, double value);
bool tnm_term_is_whole(const term *t); /* a number without a fraction */
/* A substitution of a term: core[i] becomes image[i]. */
typedef struct term_swap {
  const term *core;
  const term *image;
} term_swap;
const term *tnm_term_swap(terms *set, const term *t, const term_swap *swaps,
                          size_t n);

/* Splits a term into a factor and the rest. */
const term *tnm_term_split(terms *set, const term *t, double *factor);
/* Base and exponent of a factor. */
const term *tnm_term_base(const term *t);
const term *tnm_term_exponent(terms *set, const term *t);

/* The index of `t` among the first n of the list with the number `list`, or n.
 * It needs a search only if another list was begun in between. */
size_t tnm_term_find(const terms *set, uint32_t list, const term *const *v,
                     size_t n, const term *t);
/* Stores this index. */
void tnm_term_list_at(uint32_t list, size_t at, const term *t);

/* A new array of n terms; NULL if memory ran out or n is too large. */
const term **tnm_term_list(terms *set, size_t n);
/* The one term of the form `like`. Does not simplify. */
const term *tnm_term_create(terms *set, const term *like);

/* Convert from and to expressions. The resulting expression shares equal parts;
 * NULL if memory ran out. */
const term *tnm_term_read(terms *set, const tnm_expr *expr);
const tnm_expr *tnm_term_write(terms *set, const term *t);

/* The derivative by a leaf or a reduction; other reductions are constants. Sets
 * set->unknown if there is none. */
const term *tnm_term_derivative(terms *set, const term *t, const term *by);

/* The operand (TNM_INPUT, TNM_OUTPUT or TNM_GRAD) of an operator as a leaf. */
const term *tnm_term_operand(terms *set, const tnm_derivation *d, int kind,
                             uint32_t index);
/* The gradients of all inputs from formulas with reductions, one for each
 * output; NULL for a stopped input. Does nothing if the set is not complete. */
void tnm_adjoint_derive(terms *set, const tnm_derivation *d,
                        const term *const *formulas, const term **out);

#endif /* TENON_ALGEBRA_TERM_H_ */
