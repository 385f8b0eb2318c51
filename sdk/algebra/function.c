/* SPDX-License-Identifier: Apache-2.0
 * function.c: the table of functions.
 */
#include <string.h>

#include "algebra.h"

#define FLOATS TNM_CLASS_FLOATS
#define ALL TNM_CLASS_ALL

static const tnm_function functions[TNM_N_FUNCTIONS] = {
    [TNM_F_EXP] = {"exp", 1, FLOATS},
    [TNM_F_EXPM1] = {"expm1", 1, FLOATS},
    [TNM_F_LOG] = {"log", 1, FLOATS},
    [TNM_F_LOG1P] = {"log1p", 1, FLOATS},
    [TNM_F_LOG2] = {"log2", 1, FLOATS},
    [TNM_F_LOG10] = {"log10", 1, FLOATS},
    [TNM_F_SQRT] = {"sqrt", 1, FLOATS},
    [TNM_F_RSQRT] = {"rsqrt", 1, FLOATS},
    [TNM_F_CBRT] = {"cbrt", 1, FLOATS},
    [TNM_F_SIN] = {"sin", 1, FLOATS},
    [TNM_F_COS] = {"cos", 1, FLOATS},
    [TNM_F_TAN] = {"tan", 1, FLOATS},
    [TNM_F_ASIN] = {"asin", 1, FLOATS},
    [TNM_F_ACOS] = {"acos", 1, FLOATS},
    [TNM_F_ATAN] = {"atan", 1, FLOATS},
    [TNM_F_SINH] = {"sinh", 1, FLOATS},
    [TNM_F_COSH] = {"cosh", 1, FLOATS},
    [TNM_F_TANH] = {"tanh", 1, FLOATS},
    [TNM_F_ASINH] = {"asinh", 1, FLOATS},
    [TNM_F_ACOSH] = {"acosh", 1, FLOATS},
    [TNM_F_ATANH] = {"atanh", 1, FLOATS},
    [TNM_F_ERF] = {"erf", 1, FLOATS},
    [TNM_F_ERFC] = {"erfc", 1, FLOATS},
    [TNM_F_GAMMA] = {"gamma", 1, FLOATS},
    [TNM_F_LGAMMA] = {"lgamma", 1, FLOATS},
    [TNM_F_DIGAMMA] = {"digamma", 1, FLOATS},
    [TNM_F_ABS] = {"abs", 1, ALL},
    [TNM_F_SIGN] = {"sign", 1, ALL},
    [TNM_F_FLOOR] = {"floor", 1, FLOATS},
    [TNM_F_CEIL] = {"ceil", 1, FLOATS},
    [TNM_F_ROUND] = {"round", 1, FLOATS},
    [TNM_F_RINT] = {"rint", 1, FLOATS},
    [TNM_F_TRUNC] = {"trunc", 1, FLOATS},
    [TNM_F_MIN] = {"min", 2, ALL},
    [TNM_F_MAX] = {"max", 2, ALL},
    [TNM_F_POW] = {"pow", 2, ALL},
    [TNM_F_MOD] = {"mod", 2, ALL},
    [TNM_F_HYPOT] = {"hypot", 2, FLOATS},
    [TNM_F_CLIP] = {"clip", 3, ALL},
    [TNM_F_SELECT] = {"select", 3, ALL},
    [TNM_F_SIGMOID] = {"sigmoid", 1, FLOATS},
    [TNM_F_SOFTPLUS] = {"softplus", 1, FLOATS},
    [TNM_F_GELU] = {"gelu", 1, FLOATS},
};

const tnm_function *tnm_function_at(size_t index) {
  return &functions[index];
}

uint32_t tnm_function_find(const char *name) {
  for (uint32_t i = 0; i < TNM_N_FUNCTIONS; ++i)
    if (strcmp(functions[i].name, name) == 0) return i;
  return TN_NONE;
}
