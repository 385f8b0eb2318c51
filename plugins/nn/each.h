/* SPDX-License-Identifier: Apache-2.0
 * each.h: includes a header of loops once for each element type and level of
 * instructions. A file with such a header contains
 *
 *   #define NN_EACH "softmax_rows.h"
 *   #include "each.h"
 *
 * and the header can use
 *
 *   REAL     the element type
 *   BITS     an integer of the same width
 *   BYTES    of the level's vectors, which a register holds completely
 *   TARGET   the attribute of functions that are compiled for the level
 *   NAME(x)  x with the type and the level appended
 *   MATH(x)  the function of math.h for the type
 *
 * It defines loops as `LOOP(rows) {...}`, for which NN_LOOPS(rows) gives a
 * table, and their parts as `BODY type NAME(x)(...)`. One body for all levels
 * would be slow: a vector of 64 bytes that no register holds is in memory, and
 * each operation on it is a store and a load.
 */

/* Defines a kernel body named NAME(x). */
#define LOOP(x) \
  static TARGET void NAME(x)(const tn_kernel_block *block, const void *params)

/* A function that is always inlined into the functions of its level. */
#define BODY TN_KERNEL_BODY TARGET

#define REAL float
#define BITS int32_t
#define TYPE f32
#define MATH(x) tn_math_##x##_f32
#include "each_level.h"

#define REAL double
#define BITS int64_t
#define TYPE f64
#define MATH(x) tn_math_##x##_f64
#include "each_level.h"

#undef LOOP
#undef BODY
#undef NN_EACH
