/* SPDX-License-Identifier: Apache-2.0
 * each.h: includes a header of loops once for each element type and level of
 * instructions. A file that has such a header says
 *
 *   #define NN_EACH "softmax_rows.h"
 *   #include "each.h"
 *
 * and the header finds
 *
 *   REAL     the element type
 *   BITS     an integer as wide
 *   BYTES    of the level's vectors, which registers hold as a whole
 *   TARGET   the attribute of functions that are compiled for the level
 *   NAME(x)  x with the type and the level behind it
 *   MATH(x)  the function of math.h for the type
 *
 * It defines loops as `LOOP(rows) {...}`, which NN_LOOPS(rows) makes a table
 * of, and what they are made of as `BODY type NAME(x)(...)`. Why not one body
 * for all levels: a vector of 64 bytes that no register holds lies in memory,
 * and each operation on it is a store and a load.
 */

/* A loop of blocks. */
#define LOOP(x) \
  static TARGET void NAME(x)(const tn_kernel_block *block, const void *params)

/* A function that is always inlined into those of its level. */
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
