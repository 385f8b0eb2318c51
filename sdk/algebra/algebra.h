/* SPDX-License-Identifier: Apache-2.0
 * algebra.h: the mathematics of formulas: expressions, functions, types,
 * values, simplification, derivatives and text. Pure functions over an arena
 * that know no manifests and no messages. It uses core/base. Terms:
 * docs/glossary.md.
 *
 * files: function.c   the table of functions and their derivatives
 *        class.c      the type in which a formula computes
 *        power.c      powers that are products or roots
 *        value.c      the value of a formula
 *        level.c      formulas over lines: reductions, levels, stages
 *        print.c      formulas as text
 *        share.c      exact constants, parts that occur twice
 *        term.h, term.c, sum.c, product.c, term_convert.c
 *                     formulas in normal form, which simplifies them
 *        reduce.c     reductions in normal form
 *        derivative.c the derivative of a term
 *        adjoint.c    gradients through reductions
 *        reuse.c      replaces parts of a term by outputs with the same value
 *        gradient.c   the gradients of an operator
 *
 * THE LANGUAGE
 *
 *   expression = sum [("<" | ">" | "<=" | ">=" | "==" | "!=") sum]
 *   sum        = product {("+" | "-") product}
 *   product    = prefix {("*" | "/" | "%") prefix}
 *   prefix     = "-" prefix | power
 *   power      = primary ["^" prefix]
 *   primary    = number | name | "grad" "." name | name "(" arguments ")"
 *              | "(" expression ")"
 *
 * So `+ - * / %` associate to the left and `^` to the right. `^` binds tighter
 * than a minus before it: -x^2 is -(x^2), 2^-x is 2^(-x), x^y^z is x^(y^z).
 * A minus binds tighter than a product: -a*b is (-a)*b, which is the same
 * number. Comparisons bind least and do not chain. For the exponent 0.5 kernels
 * compute the square root; for -0 and -infinity the results differ.
 *
 * `sum`, `mean`, `max`, `min` and `logsumexp` with the name of axes as their
 * second argument are reductions: sum(data^2, axis) is the sum over one line
 * along the axes, the same number for each element of the line. count(axis) is
 * the number of elements of a line.
 *
 * Numbers are decimal: digits, a fraction, an exponent, as in `2`, `0.5`,
 * `.5`, `1e-3`. There are no other literals, no `? :`, no `!`, no `&&`.
 *
 * TYPES
 *
 * A formula computes in one class. The element types of the tensors that it
 * reads and of the tensor that it writes decide the class:
 *
 *   f64   one of them is f64, or one is u32, i64 or u64 and another is floating
 *   f32   otherwise, if one is f16, bf16 or f32
 *   u64   otherwise, if one is u64
 *   i64   otherwise, if one is u32 or i64
 *   i32   otherwise: bool i8 u8 i16 u16 i32
 *
 * Operands and parameters are converted to the class, a float parameter towards
 * zero, and the result is converted to the type of the output. In u64 signed
 * operands wrap, and negative parameters are 0. In an integer class numbers
 * must be whole and within it, and arithmetic wraps. `/` rounds towards minus
 * infinity and `%` has the sign of the divisor; both are 0 for a divisor 0.
 * trunc_div and trunc_mod round towards zero. Functions of bits belong to
 * integer classes only. `^` requires a constant exponent that is whole and not
 * negative. A comparison is the number 1 or 0, in a bool output true or false;
 * `select` and bool inputs treat every number but 0 as true.
 */
#ifndef TENON_ALGEBRA_H_
#define TENON_ALGEBRA_H_

#include "base.h"

/* --------------------------------------------------------------- positions */

/* A place in a manifest. Lines and columns count from 1; columns count code
 * points. `length` is in code points, at least 1. A derived formula has the
 * place of its source. */
typedef struct tnm_pos {
  uint32_t line;
  uint32_t column;
  uint32_t length;
  uint32_t file; /* index of the file in tnm_diags */
} tnm_pos;

/* ------------------------------------------------------------- expressions */

enum {                 /* tnm_expr.kind */
       TNM_NUMBER = 1, /* number, never negative; text as written */
       TNM_INPUT = 2,  /* element of input `index` */
       TNM_OUTPUT = 3, /* element of output `index` (in gradients) */
       TNM_GRAD = 4,   /* element of the gradient of output `index` */
       TNM_PARAM = 5,  /* parameter `index` */
       TNM_NEG = 6,    /* -args[0] */
       TNM_BINARY = 7, /* args[0] op args[1]; op one of + - * / % ^ < > l g e n,
                          where l is <=, g >=, e ==, n != */
       TNM_CALL = 8,   /* function `index` (TNM_F_*) of args */
       TNM_REDUCE = 9, /* reduction `index` (TNM_R_*) of args[0] over the axes
                          with the name `text` */
       TNM_COUNT = 10  /* elements of a line along the axes `text` */
};

enum {             /* tnm_expr.index of a reduction */
       TNM_R_SUM,  /* 0 without elements */
       TNM_R_MEAN, /* NaN without elements */
       TNM_R_MAX,  /* NaN if one element is NaN */
       TNM_R_MIN,
       TNM_R_LOGSUMEXP, /* log(sum(exp(x))); -infinity without elements */
       TNM_N_REDUCTIONS
};

/* Its name, "sum"; and the reduction with a name, or TN_NONE. */
const char *tnm_reduction_name(uint32_t reduction);
uint32_t tnm_reduction_find(const char *name);

/* Most nodes of one expression, and deepest nesting of parentheses, calls and
 * prefix or power operators. The parser and the derivation have these
 * limits. */
#define TNM_EXPR_MAX_NODES 4096
#define TNM_EXPR_MAX_DEPTH 64
/* Most tensors that one formula may read; tenon/kernel/kernel.h has room for
 * this number. */
#define TNM_EXPR_MAX_TENSORS 15

/* One node. Constant once built, and in the arena of its builder. Nodes may be
 * shared, so an expression is a directed graph without cycles. */
typedef struct tnm_expr {
  int kind;
  char op;          /* TNM_BINARY */
  uint32_t index;   /* of the operand, parameter or function */
  double number;    /* TNM_NUMBER */
  const char *text; /* number as written, or the name */
  const struct tnm_expr *args[3];
  uint32_t n_args;
  tnm_pos pos;
} tnm_expr;

/* ------------------------------------------------------------------- levels */

/* The elements of a line that a value depends on, as bits. The elements of an
 * operand belong to lines along the axes of the operator, and to places on
 * these lines. */
enum {
  TNM_LEVEL_NONE = 0,  /* the same value everywhere: numbers, parameters */
  TNM_LEVEL_LINE = 1,  /* one value for each line: the result of a reduction */
  TNM_LEVEL_PLACE = 2, /* one value for each place, the same for all lines */
  TNM_LEVEL_FULL = 3   /* one value for each element */
};

/* The levels of the operands of an operator; NULL: all are TNM_LEVEL_FULL. The
 * gradient of an output has the level of the output. */
typedef struct tnm_levels {
  const uint8_t *inputs;
  const uint8_t *outputs;
  const char *axes; /* their name, for reductions in derivatives */
} tnm_levels;

/* The level of a formula. `levels` may be NULL. */
int tnm_expr_level(const tnm_expr *expr, const tnm_levels *levels);
/* Largest number of reductions inside of each other; 0: none. */
uint32_t tnm_expr_stages(const tnm_expr *expr);

/* ----------------------------------------------------------------- classes */

enum { /* a type to compute in, or a set of them, as bits */
       TNM_CLASS_F32 = 1,
       TNM_CLASS_F64 = 2,
       TNM_CLASS_I32 = 4,
       TNM_CLASS_I64 = 8,
       TNM_CLASS_U64 = 16
};
#define TNM_CLASS_FLOATS (TNM_CLASS_F32 | TNM_CLASS_F64)
#define TNM_CLASS_INTEGERS (TNM_CLASS_I32 | TNM_CLASS_I64 | TNM_CLASS_U64)
#define TNM_CLASS_ALL (TNM_CLASS_FLOATS | TNM_CLASS_INTEGERS)

/* The class of a single type; 0 for an invalid type. */
int tnm_class_of(tn_dtype dtype);
/* The class of a formula that reads tensors of the classes `a` and `b`.
 * Commutative and associative, so it can join any number of classes; 0 is
 * neutral. */
int tnm_class_join(int a, int b);
/* Joins every class of one set with every class of another. */
int tnm_class_join_sets(int a, int b);
/* "f32": the suffix of functions in tenon/kernel/math.h. */
const char *tnm_class_name(int class_bit);

/* Reads the value of a whole number (TNM_NUMBER) from its digits, because a
 * double does not represent all 64-bit numbers. False if it is not whole, has
 * more than 64 bits, or is so large and written in another form (1e18) that its
 * value is uncertain. */
bool tnm_number_read_whole(const tnm_expr *number, uint64_t *out);
/* Whether two numbers have the same value in every class. */
bool tnm_number_equal(const tnm_expr *a, const tnm_expr *b);
/* Whether an integer class has the number or, with `negative`, its negative. */
bool tnm_class_has(int class_bit, const tnm_expr *number, bool negative);
/* The set of classes in which a formula is defined, by its functions and
 * numbers. */
int tnm_expr_classes(const tnm_expr *expr);

/* ------------------------------------------------------------------ powers */

/* Whether it is `a^b` or `pow(a, b)`. */
bool tnm_expr_is_power(const tnm_expr *expr);
/* The value of an exponent that is a plain number, otherwise 0. */
double tnm_power_exponent(const tnm_expr *power);
/* Whether kernels compute it as a product of at most four factors (sixteen of
 * integers), or as a quotient of 1; and whether as a square root. False for
 * other expressions. */
bool tnm_expr_is_product(const tnm_expr *expr, int class_bit);
bool tnm_expr_is_root(const tnm_expr *expr);

/* --------------------------------------------------------------- functions */

enum {              /* tnm_expr.index of a call */
       TNM_F_EXP,   /* functions of C's libm have its meaning */
       TNM_F_EXPM1, /* exp(x) - 1 */
       TNM_F_LOG,
       TNM_F_LOG1P, /* log(1 + x) */
       TNM_F_LOG2,
       TNM_F_LOG10,
       TNM_F_SQRT,
       TNM_F_RSQRT, /* 1/sqrt(x) */
       TNM_F_CBRT,
       TNM_F_SIN,
       TNM_F_COS,
       TNM_F_TAN,
       TNM_F_ASIN,
       TNM_F_ACOS,
       TNM_F_ATAN,
       TNM_F_SINH,
       TNM_F_COSH,
       TNM_F_TANH,
       TNM_F_ASINH,
       TNM_F_ACOSH,
       TNM_F_ATANH,
       TNM_F_ERF,
       TNM_F_ERFC, /* 1 - erf(x) */
       TNM_F_GAMMA,
       TNM_F_LGAMMA,   /* log(abs(gamma(x))) */
       TNM_F_DIGAMMA,  /* the derivative of lgamma */
       TNM_F_TRIGAMMA, /* the derivative of digamma; its own derivative is not
                          in this table */
       TNM_F_ABS,
       TNM_F_SIGN, /* -1, 0 or 1 */
       TNM_F_FLOOR,
       TNM_F_CEIL,
       TNM_F_ROUND,      /* ties away from 0 */
       TNM_F_RINT,       /* ties to the floor */
       TNM_F_ROUND_EVEN, /* ties to the even number */
       TNM_F_TRUNC,
       TNM_F_MIN, /* NaN if one argument is NaN */
       TNM_F_MAX,
       TNM_F_POW,       /* x^y */
       TNM_F_MOD,       /* x % y */
       TNM_F_FLOOR_DIV, /* whole quotient that belongs to x % y */
       TNM_F_TRUNC_DIV, /* whole quotient, rounded towards 0 */
       TNM_F_TRUNC_MOD, /* the remainder of that, with the sign of x */
       TNM_F_HYPOT,     /* sqrt(x^2 + y^2) */
       TNM_F_CLIP,      /* min(max(x, low), high) */
       TNM_F_SELECT,    /* select(x, y, z) is y where x is not 0, otherwise z */
       TNM_F_SIGMOID,   /* 1/(1 + exp(-x)) */
       TNM_F_SOFTPLUS,  /* log(1 + exp(x)) */
       TNM_F_GELU,      /* x*(1 + erf(x/sqrt(2)))/2 */
       TNM_F_BIT_AND,   /* of integers: the bits of both */
       TNM_F_BIT_OR,
       TNM_F_BIT_XOR,
       TNM_F_BIT_NOT,
       TNM_F_SHIFT_LEFT,  /* x*2^y */
       TNM_F_SHIFT_RIGHT, /* x/2^y, rounded down */
       TNM_N_FUNCTIONS
};

typedef struct tnm_function {
  const char *name;
  uint32_t n_args;
  uint32_t classes; /* set of classes in which it is defined */
  const char
      *derivatives[3]; /* derivatives, see function.c; NULL if there is none */
} tnm_function;

/* Entry TNM_F_*; constant. */
const tnm_function *tnm_function_at(size_t index);
/* The index of a name, or TN_NONE. */
uint32_t tnm_function_find(const char *name);

/* ------------------------------------------------------------------ values */

/* Values of the names in an expression, by index. */
typedef struct tnm_values {
  const double *inputs;
  const double *outputs;
  const double *grads;
  const double *params;
  /* For formulas with reductions: the n elements of one line of each operand,
   * instead of the single elements above, and the element `at` of the result.
   * With n = 0 a line has one element. */
  const double *const *input_lines;
  const double *const *output_lines;
  const double *const *grad_lines;
  uint32_t n;
  uint32_t at;
} tnm_values;

/* The value of an expression of real numbers, with the precision of long
 * double. It is a reference for tests and checks; a kernel does not compute it
 * bit for bit. */
long double tnm_expr_value(const tnm_expr *expr, const tnm_values *values);
/* The value of one function, or of one operator of tnm_expr. */
long double tnm_function_value(uint32_t function, const long double *x);
long double tnm_operator_value(char op, long double a, long double b);

/* -------------------------------------------------------------------- text */

/* Adds the text of an expression. The parser reads it back as the same tree. */
void tnm_expr_print(tn__buf *out, const tnm_expr *expr);
/* Whether this text is within the limits of the parser. */
bool tnm_expr_is_short(const tnm_expr *expr);

/* Whether two expressions are the same tree. Places do not count, nor does the
 * text of numbers. */
bool tnm_expr_equal(const tnm_expr *a, const tnm_expr *b);

/* ---------------------------------------------------------- simplification */

/* The same formula with fewer operations and bit-identical results in any
 * class. It folds whole constants with whole results, x*1, x/1, x^1, x - 0,
 * --x, and select between equal branches or by a number. It reads the same
 * tensors, because they decide the class. For formulas of authors. NULL if
 * memory ran out. */
const tnm_expr *tnm_expr_fold(tn__arena *arena, const tnm_expr *expr);

/* The same formula of real numbers, where 0*x is 0 and x/x is 1. Terms are
 * collected, common factors are factored out, constants are folded. For derived
 * formulas. The expression itself if it is beyond the limits; NULL if memory
 * ran out. */
const tnm_expr *tnm_expr_simplify(tn__arena *arena, const tnm_expr *expr);

/* Parts that an expression contains more than once, without names and numbers,
 * with or without a minus. Each follows its own parts, so they can be computed
 * in this order. */
typedef struct tnm_sharing {
  const tnm_expr *const *v;
  size_t n;
} tnm_sharing;

/* The same expression as a graph in which equal parts are one node; `out` gets
 * the nodes that are used more than once. NULL if memory ran out. */
const tnm_expr *tnm_expr_share(tn__arena *arena, const tnm_expr *expr,
                               tnm_sharing *out);

/* --------------------------------------------------------- differentiation */

/* An operator and its formulas. */
typedef struct tnm_derivation {
  tn__arena *arena;                /* of the results */
  const tnm_expr *const *formulas; /* one per output */
  const char *const *outputs;      /* names */
  uint32_t n_outputs;
  const char *const *inputs; /* names */
  uint32_t n_inputs;
  const bool *stop; /* per input: not differentiated; NULL: all are */
  tnm_pos pos;      /* of the results */
  /* Outputs are sums over repeated elements of broadcasting. Then no output can
   * replace the part that computes it. */
  bool sums;
  const tnm_levels *levels; /* of the operands; NULL: all are full */
} tnm_derivation;

enum { /* results of tnm_derive */
       TNM_DERIVED = 0,
       TNM_DERIVE_MEMORY = 1,
       TNM_DERIVE_LONG = 2, /* the text would exceed the limits of the parser */
       TNM_DERIVE_UNKNOWN = 3 /* a function has no derivative here */
};

/* out[i] becomes the gradient of input i: the sum over the outputs of grad.o
 * times the derivative of o by i. It is NULL for a stopped input. The results
 * may share parts. An output replaces the part that computes it if that keeps
 * no more tensors: 1 - out^2 for tanh. But out - 100 replaces nothing, because
 * rounding may have removed all digits of it. Of all forms the best keeps the
 * fewest tensors for all gradients together, then for each gradient. Then it
 * prefers outputs to inputs, because an input that is not kept may be
 * overwritten. With reductions, tensors of one element for each line do not
 * count at first, and a form with fewer reductions is better. The gradient of
 * an input of level TNM_LEVEL_PLACE is that of one element: the caller sums it
 * over the lines. */
int tnm_derive(const tnm_derivation *derivation, const tnm_expr **out);

enum {                 /* reasons against a derivative */
       TNM_FLAT = 1,   /* constant between jumps; its derivative is 0 */
       TNM_UNKNOWN = 2 /* has no derivative */
};
typedef void tnm_obstacle_callback(void *ctx, const tnm_expr *at, int obstacle);
/* Calls found() for each such function or comparison between a formula and an
 * input that is not stopped. Conditions of `select` do not count. */
void tnm_find_obstacles(const tnm_expr *expr, const bool *stop,
                        tnm_obstacle_callback *found, void *ctx);

#endif /* TENON_ALGEBRA_H_ */
