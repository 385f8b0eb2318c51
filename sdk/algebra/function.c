/* SPDX-License-Identifier: Apache-2.0
 * function.c: the table of functions. The derivative by each argument is a text
 * in postfix order: operands come before their operator. x, y and z are the
 * arguments, f is the function's own value, `neg` is a minus, and operators are
 * those of tnm_expr. "1 f 2 ^ -" is 1 - f^2.
 *
 * If a function has a kink or a hole, this table defines its derivative. It is
 * 0 for abs at 0 and for hypot at (0, 0). If the arguments of min and max are
 * equal, the first one counts. clip has derivative 1 at its bounds. x^y has
 * derivative 0 by x if y is 0, and derivative 0 by y if x is 0 and y is not
 * negative. A remainder has derivative 1 by x, even if y is 0, so that no
 * gradient has to keep the divisor; its derivative by y is 0 if y is 0. Whole
 * quotients and functions of bits have derivative 0.
 *
 * 1 - x^2 is written as (1 - x)*(1 + x). Near 1, the rounding of the square
 * would dominate the result, and would depend on whether a compiler fuses
 * it.
 */
#include <string.h>

#include "algebra.h"

#define FLOATS TNM_CLASS_FLOATS
#define INTEGERS TNM_CLASS_INTEGERS
#define ALL TNM_CLASS_ALL

static const tnm_function functions[TNM_N_FUNCTIONS] = {
    [TNM_F_EXP] = {"exp", 1, FLOATS, {"f"}},
    [TNM_F_EXPM1] = {"expm1", 1, FLOATS, {"f 1 +"}},
    [TNM_F_LOG] = {"log", 1, FLOATS, {"1 x /"}},
    [TNM_F_LOG1P] = {"log1p", 1, FLOATS, {"1 1 x + /"}},
    [TNM_F_LOG2] = {"log2", 1, FLOATS, {"1.4426950408889634 x /"}},
    [TNM_F_LOG10] = {"log10", 1, FLOATS, {"0.4342944819032518 x /"}},
    [TNM_F_SQRT] = {"sqrt", 1, FLOATS, {"1 2 f * /"}},
    [TNM_F_RSQRT] = {"rsqrt", 1, FLOATS, {"f 3 ^ 2 / neg"}},
    [TNM_F_CBRT] = {"cbrt", 1, FLOATS, {"1 3 f 2 ^ * /"}},
    [TNM_F_SIN] = {"sin", 1, FLOATS, {"x cos"}},
    [TNM_F_COS] = {"cos", 1, FLOATS, {"x sin neg"}},
    [TNM_F_TAN] = {"tan", 1, FLOATS, {"1 f 2 ^ +"}},
    [TNM_F_ASIN] = {"asin", 1, FLOATS, {"1 x - x 1 + * rsqrt"}},
    [TNM_F_ACOS] = {"acos", 1, FLOATS, {"1 x - x 1 + * rsqrt neg"}},
    [TNM_F_ATAN] = {"atan", 1, FLOATS, {"1 1 x 2 ^ + /"}},
    [TNM_F_SINH] = {"sinh", 1, FLOATS, {"x cosh"}},
    [TNM_F_COSH] = {"cosh", 1, FLOATS, {"x sinh"}},
    [TNM_F_TANH] = {"tanh", 1, FLOATS, {"1 f 2 ^ -"}},
    [TNM_F_ASINH] = {"asinh", 1, FLOATS, {"1 x 2 ^ + rsqrt"}},
    [TNM_F_ACOSH] = {"acosh", 1, FLOATS, {"x 1 - x 1 + * rsqrt"}},
    [TNM_F_ATANH] = {"atanh", 1, FLOATS, {"1 1 x - x 1 + * /"}},
    [TNM_F_ERF] = {"erf", 1, FLOATS, {"1.1283791670955126 x 2 ^ neg exp *"}},
    [TNM_F_ERFC] = {"erfc",
                    1,
                    FLOATS,
                    {"1.1283791670955126 x 2 ^ neg exp * neg"}},
    [TNM_F_GAMMA] = {"gamma", 1, FLOATS, {"f x digamma *"}},
    [TNM_F_LGAMMA] = {"lgamma", 1, FLOATS, {"x digamma"}},
    [TNM_F_DIGAMMA] = {"digamma", 1, FLOATS, {"x trigamma"}},
    [TNM_F_TRIGAMMA] = {"trigamma", 1, FLOATS, {NULL}},
    [TNM_F_ABS] = {"abs", 1, ALL, {"x sign"}},
    [TNM_F_SIGN] = {"sign", 1, ALL, {"0"}},
    [TNM_F_FLOOR] = {"floor", 1, FLOATS, {"0"}},
    [TNM_F_CEIL] = {"ceil", 1, FLOATS, {"0"}},
    [TNM_F_ROUND] = {"round", 1, FLOATS, {"0"}},
    [TNM_F_RINT] = {"rint", 1, FLOATS, {"0"}},
    [TNM_F_ROUND_EVEN] = {"round_even", 1, FLOATS, {"0"}},
    [TNM_F_TRUNC] = {"trunc", 1, FLOATS, {"0"}},
    [TNM_F_MIN] = {"min", 2, ALL, {"x y l 1 0 select", "x y l 0 1 select"}},
    [TNM_F_MAX] = {"max", 2, ALL, {"x y g 1 0 select", "x y g 0 1 select"}},
    [TNM_F_POW] = {"pow",
                   2,
                   ALL,
                   {"y 0 e 0 y x y 1 - ^ * select",
                    "x 0 e y 0 g * 0 x log f * select"}},
    [TNM_F_MOD] = {"mod", 2, ALL, {"1", "y 0 e 0 x y / floor neg select"}},
    [TNM_F_FLOOR_DIV] = {"floor_div", 2, ALL, {"0", "0"}},
    [TNM_F_TRUNC_DIV] = {"trunc_div", 2, ALL, {"0", "0"}},
    [TNM_F_TRUNC_MOD] = {"trunc_mod",
                         2,
                         ALL,
                         {"1", "y 0 e 0 x y / trunc neg select"}},
    [TNM_F_HYPOT] = {"hypot",
                     2,
                     FLOATS,
                     {"f 0 e 0 x f / select", "f 0 e 0 y f / select"}},
    [TNM_F_CLIP] = {"clip",
                    3,
                    ALL,
                    {"x y < 0 x z > 0 1 select select",
                     "x y < y z > 0 1 select 0 select",
                     "x y max z > 1 0 select"}},
    [TNM_F_SELECT] = {"select", 3, ALL, {"0", "x 1 0 select", "x 0 1 select"}},
    [TNM_F_SIGMOID] = {"sigmoid", 1, FLOATS, {"f 1 f - *"}},
    [TNM_F_SOFTPLUS] = {"softplus", 1, FLOATS, {"x sigmoid"}},
    [TNM_F_GELU] = {"gelu",
                    1,
                    FLOATS,
                    {"0.5 x 0.7071067811865476 * neg erfc * x "
                     "0.3989422804014327 x 2 ^ 2 / neg exp * * +"}},
    [TNM_F_BIT_AND] = {"bit_and", 2, INTEGERS, {"0", "0"}},
    [TNM_F_BIT_OR] = {"bit_or", 2, INTEGERS, {"0", "0"}},
    [TNM_F_BIT_XOR] = {"bit_xor", 2, INTEGERS, {"0", "0"}},
    [TNM_F_BIT_NOT] = {"bit_not", 1, INTEGERS, {"0"}},
    [TNM_F_SHIFT_LEFT] = {"shift_left", 2, INTEGERS, {"0", "0"}},
    [TNM_F_SHIFT_RIGHT] = {"shift_right", 2, INTEGERS, {"0", "0"}},
};

const tnm_function *tnm_function_at(size_t index) {
  return &functions[index];
}

uint32_t tnm_function_find(const char *name) {
  for (uint32_t i = 0; i < TNM_N_FUNCTIONS; ++i)
    if (strcmp(functions[i].name, name) == 0) return i;
  return TN_NONE;
}
