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
 *   sinh cosh tanh asinh acosh atanh erf erfc gamma lgamma digamma
 *   trigamma abs sign floor ceil round rint round_even trunc sigmoid softplus
 *   gelu (x), min max pow mod floor_div trunc_div trunc_mod hypot (a, b),
 *   clip (x, low, high), select (condition, a, b)
 *
 * tn_math_NAME_i32, _i64 and _u64, modulo 2^32 and 2^64:
 *
 *   abs sign bit_not (x), min max mod div floor_div trunc_div trunc_mod pow
 *   bit_and bit_or bit_xor shift_left shift_right (a, b), clip, select
 *
 * tn_math_to_i32, _to_i64 and _to_u64 take a double and return the nearest
 * integer of the type towards 0, and 0 for NaN: so formulas over integers read
 * parameters that are floats. tn_math_i64_to_u64 is 0 for negative numbers.
 *
 * rsqrt is 1/sqrt(x), gamma that function and not its logarithm, digamma the
 * derivative of lgamma, trigamma that of digamma; sigmoid is 1/(1 + exp(-x)),
 * softplus log(1 + exp(x)), gelu x*(1 + erf(x/sqrt(2)))/2. The others are named
 * as in C.
 *
 * Special values are those of C's Annex F, but: min and max are NaN where
 * either operand is; mod has the sign of the divisor, also if it is 0, and is 0
 * for a divisor of 0; trunc_mod is C's fmod, and NaN for a divisor of 0;
 * floor_div is the whole quotient that belongs to mod, trunc_div is a / b
 * without its fraction; rint takes ties to the lower integer, round_even to the
 * even one; sign(NaN) is 0;
 * digamma is -infinity at 0, infinity at -0 and NaN at the integers below,
 * where trigamma is infinity, as at both zeros.
 * Denormal arguments and results count like all others, and trigonometric
 * functions hold up to the largest number.
 *
 * All are [any]: they use nothing but their arguments, except `signgam`, which
 * lgamma of some libraries writes.
 *
 * Those below have no branches, so that gcc and clang vectorise a loop that
 * calls them, with any instructions that the loop is compiled for and under the
 * `plugin_cflags` of tenon.pc; the others call libm. Results may differ from
 * level to level within the bound, in units of the last place:
 *
 *   f32            bound   f64            bound
 *   abs sign floor ceil round rint round_even trunc min max clip select: exact,
 *   in both
 *   sqrt             0.5   sqrt             0.5
 *   log log1p        1     exp cbrt         1
 *   cbrt hypot pow   1     log10            1
 *   asin acos        1     sin cos          1
 *   softplus         1     asin acos atan   1
 *   gamma            1     hypot pow        1
 *   erf              1.3   log atanh erf    1.25
 *   cosh log2        1.35  log1p cosh       1.5
 *   sin cos sinh     1.4   rsqrt            1.5
 *   expm1 rsqrt      1.5   tan asinh        1.75
 *   atan             1.55  expm1 log2       2
 *   atanh log10      1.75  sigmoid softplus 2
 *   tanh asinh tan   1.85  sinh tanh acosh  2.25
 *   acosh exp erfc   2     erfc             2.5
 *   gelu sigmoid     2     gelu             3
 *   trigamma         1     trigamma         4.5
 *   lgamma           1, or 2^-29 in all, next to its zeros below 0
 *   mod              exact, but where a sum with the divisor is rounded
 *
 * sin, cos and tan of floats beyond 1024 take four times as long as of those
 * that are near, and a loop cannot tell beforehand. So it may call
 * tn_math_sin_near_f32(x, &far), _cos_ and _tan_ for a part of its elements,
 * `far` being 0 before: if its highest bit is set afterwards, an element of the
 * part was not near, or NaN, and its result is garbage. The part is then
 * computed again with the others, which are the same within their bound for
 * near numbers. Generated kernels do that. log, log2 and log10 have such forms
 * too; for them normal positive numbers are near.
 *
 * tn_math_floor_direct_f32 and _f64, those of ceil, trunc, round, rint and
 * round_even,
 * have the same results by an instruction that x86 has from SSE4.1 on: they are
 * for loops that are compiled for a processor with it, and call libm in others.
 * Generated kernels use them at all levels but the lowest.
 *
 * With AVX-512 there are forms of sixteen floats at once, tn_math_gelu_wide and
 * so on, which take a third to nine tenths of the time (math/wide.h). Generated
 * kernels use them there, for formulas that call no other function. Angles are
 * near up to 1607 in them; sixteen with a far one take ten times as long.
 * Sixteen with one between -14.4 and -10.2 (gelu), or 7.2 and 10.1 (erfc), take
 * twice as long. Their bounds are:
 *
 *   sqrt 0.5   asin 0.8   rsqrt 1   log log1p 1.05   exp tanh 1.1   acos 1.2
 *   acosh 1.5   sin cos cosh log10 1.55   log2 1.6   erfc 1.8
 *   sinh tan 1.85   gelu 1.95
 *
 * tn_math_exp_down is exp of numbers that are not above 0, for sums of powers:
 * in f32 it is 0 instead of a denormal number, and takes less time.
 *
 * With glibc 2.36 lgamma is within 4 and gamma within 8 in f64; mod calls fmod
 * there and is as exact as in f32.
 * digamma is within 4 units of its larger summand: near its zeros the error is
 * absolute.
 *
 * The bounds were measured against libm in double and long double: log with all
 * floats, exp, sigmoid, gelu, erf, erfc, sinh, cosh, tanh, asinh and cbrt with
 * all, acosh with each third where they are worst, forms of sixteen with all
 * floats, the others with floats at distances of 211 or 499 in their bits, at
 * all levels that differ; and with some ten million random doubles.
 * tests/kernel/test_math_sweep.c repeats it with fewer; TN_MATH_STEP=1 in its
 * environment makes it all floats.
 *
 * In CUDA C++ the functions in f32, and of those in f64 all but exp expm1 log
 * log1p log2 cbrt rsqrt sinh cosh tanh sigmoid softplus, are those of CUDA with
 * CUDA's bounds, except those that CUDA lacks or rounds differently.
 */
#ifndef TENON_KERNEL_MATH_H_
#define TENON_KERNEL_MATH_H_

#include "tenon/kernel/math/basic.h"
#include "tenon/kernel/math/f64.h"

#if defined(__CUDACC__)
#include "tenon/kernel/math/cuda.h"
#else
#include "tenon/kernel/math/erf.h"
#include "tenon/kernel/math/exp.h"
#include "tenon/kernel/math/gamma.h"
#include "tenon/kernel/math/log.h"
#include "tenon/kernel/math/trig.h"
#endif

#include "tenon/kernel/math/divide.h"
#include "tenon/kernel/math/trigamma.h"

#endif /* TENON_KERNEL_MATH_H_ */
