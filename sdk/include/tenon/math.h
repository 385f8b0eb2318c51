/* SPDX-License-Identifier: Apache-2.0
 * math.h: the functions of the expression language. Header only, C11 or C++17,
 * libc and libm only; in CUDA C++ the same names are functions of the device
 * and of the host.
 *
 *   TN_KERNEL_INDEPENDENT
 *   for (int64_t i = 0; i < n; ++i) y[i] = tn_math_exp_f32(x[i]);
 *
 * tn_math_NAME_f32 and _f64 take and return float and double:
 *
 *   exp expm1 log log1p log2 log10 sqrt rsqrt cbrt sin cos tan asin acos atan
 *   sinh cosh tanh asinh acosh atanh erf erfc gamma lgamma digamma abs sign
 *   floor ceil round rint trunc sigmoid softplus gelu (x)
 *   min max pow mod hypot (a, b), clip (x, low, high), select (condition, a, b)
 *
 * tn_math_NAME_i32 and _i64, modulo 2^32 and 2^64:
 *
 *   abs sign (x), min max mod div pow (a, b), clip, select
 *
 * They have no branches, so that gcc and clang vectorise a loop that calls them
 * with whatever instructions the loop is compiled for.
 */
#ifndef TENON_MATH_H_
#define TENON_MATH_H_

#include "tenon/math/basic.h"
#include "tenon/math/f64.h"

#if defined(__CUDACC__)
#include "tenon/math/cuda.h"
#else
#include "tenon/math/erf.h"
#include "tenon/math/exp.h"
#include "tenon/math/gamma.h"
#include "tenon/math/log.h"
#include "tenon/math/trig.h"
#endif

#endif /* TENON_MATH_H_ */
