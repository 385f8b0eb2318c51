/* SPDX-License-Identifier: Apache-2.0
 * term.h: formulas in normal form, for sdk/algebra alone. Sums and products
 * hold any number of operands; a difference is a sum, a quotient a product of
 * powers. Each term is made once, so equal terms are one pointer.
 *
 *   term     = number + operand + operand ...     TERM_SUM
 *            | number * operand * operand ...     TERM_PRODUCT
 *            | operand ^ operand                  TERM_POWER
 *            | function(operands)                 TERM_CALL
 *            | operand < operand                  TERM_COMPARE
 *            | number | name                      TERM_NUMBER, TERM_LEAF
 *
 * No operand of a sum is a sum or a number, none of a product is a product or a
 * number, and no two of one sum or product could be collected. Operands keep
 * the order in which they first came, for people; equality does not regard it.
 *
 * Kernels compute in f32 as well, where 1e20*x may be 1 and 1e40 is infinite:
 * numbers that fit there are not multiplied if what comes out does not. Then
 * (1e20*x)^2 stays what it is, and 1e20*(1e20*x) has the product as a factor:
 * its power 1, the only one that is written so.
 *
 * The functions below simplify by the rules of real numbers: x*0 is 0 and x/x
 * is 1 for every x. They take and give only terms of one set, and never NULL:
 * when memory runs out or the set is full they give `nothing`, and `failed` or
 * `full` says so at the end.
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
  TERM_COMPARE
};

typedef struct term_memo term_memo;

typedef struct term {
  int kind;
  uint32_t id;    /* in order of their making */
  uint32_t index; /* TNM_F_* of a call, letter of a comparison */
  uint32_t n;     /* operands */
  double number;  /* of a number, a sum or a product */
  const tnm_expr *leaf;
  const struct term **args;
  const uint32_t *key; /* ids of the operands; sorted in sums and products */
  uint64_t hash;
  struct term *next; /* in its bucket */
  term_memo *memo;
} term;

/* What was computed of a term before. */
struct term_memo {
  const term *slope; /* by the variable with the id `slope_by` */
  const term *image; /* under the substitution `image_by` */
  uint32_t slope_by;
  uint32_t image_by;
  uint32_t seen_by;     /* the last walk that came by */
  uint32_t listed_by;   /* the last sum or product in the making that has it */
  uint32_t listed_at;   /* and its place there */
  const tnm_expr *expr; /* written out */
};

enum {
  TERM_BUCKETS = 4096,
  TERM_MAX = 30000,
  TERM_MAX_ARGS = 1024,
  TERM_MAX_OPERANDS = 400000 /* of all terms, as time grows with them */
};

typedef struct terms {
  tn__arena *arena; /* of the terms */
  tn__arena *out;   /* of what is written */
  term *buckets[TERM_BUCKETS];
  uint32_t n;
  uint32_t n_operands;
  uint32_t n_images; /* substitutions so far */
  uint32_t n_lists;  /* sums and products in the making so far */
  bool full;         /* more terms than a formula may cost */
  bool unknown;      /* a derivative was wanted that there is none of */
  tnm_pos pos;       /* of what is written out */
  const term *nothing;
} terms;

/* Terms live in an arena of their own, what is written out in `out`. False if
 * memory ran out. */
bool tnm_terms_init(terms *set, tn__arena *scratch, tn__arena *out);
/* Whether everything so far came out. */
bool tnm_terms_ok(const terms *set);

const term *tnm_term_number(terms *set, double value);
/* `leaf` is one of TNM_INPUT, TNM_OUTPUT, TNM_GRAD, TNM_PARAM. */
const term *tnm_term_leaf(terms *set, const tnm_expr *leaf);
const term *tnm_term_sum(terms *set, const term *const *v, size_t n);
const term *tnm_term_product(terms *set, const term *const *v, size_t n);
const term *tnm_term_power(terms *set, const term *base, const term *exponent);
const term *tnm_term_call(terms *set, uint32_t function,
                          const term *const *args);
const term *tnm_term_compare(terms *set, char op, const term *a, const term *b);

/* Whether two numbers, or powers of one, become the number `both` in a product:
 * not if they fit in f32 and it may not. */
bool tnm_numbers_merge(double one, double other, double both);
/* A product as one factor of others. */
const term *tnm_term_apart(terms *set, const term *product);

/* Shorter forms of the above. */
const term *tnm_term_add(terms *set, const term *a, const term *b);
const term *tnm_term_mul(terms *set, const term *a, const term *b);
const term *tnm_term_scale(terms *set, double factor, const term *a);
bool tnm_term_is(const term *t, double value);
bool tnm_term_is_whole(const term *t); /* a number without a fraction */
/* A term without what was in it: every core[i] becomes image[i]. */
typedef struct term_swap {
  const term *core;
  const term *image;
} term_swap;
const term *tnm_term_swap(terms *set, const term *t, const term_swap *swaps,
                          size_t n);

/* A term as factor times the rest. */
const term *tnm_term_split(terms *set, const term *t, double *factor);
/* A factor as base and exponent. */
const term *tnm_term_base(const term *t);
const term *tnm_term_exponent(terms *set, const term *t);

/* The place of `t` among the first n of a list with the number `list`, or n.
 * Without a search, unless another list was begun in between. */
size_t tnm_term_find(const terms *set, uint32_t list, const term *const *v,
                     size_t n, const term *t);
/* Remembers that place. */
void tnm_term_list_at(uint32_t list, size_t at, const term *t);

/* A new array of n terms, NULL when memory ran out or n is too large. */
const term **tnm_term_list(terms *set, size_t n);
/* The one term of this form; `like` says which. Not simplified. */
const term *tnm_term_make(terms *set, const term *like);

/* From and to expressions. The result of the latter shares equal parts; NULL
 * when memory ran out. */
const term *tnm_term_read(terms *set, const tnm_expr *expr);
const tnm_expr *tnm_term_write(terms *set, const term *t);

/* The derivative by a leaf. Sets set->unknown if there is none. */
const term *tnm_term_slope(terms *set, const term *t, const term *by);

#endif /* TENON_ALGEBRA_TERM_H_ */
