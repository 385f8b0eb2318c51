/* SPDX-License-Identifier: Apache-2.0
 * each_level.h: includes NN_EACH for one element type at each level. Only
 * each.h includes it, with REAL, BITS, TYPE and MATH, which it undefines.
 */
#define NN_PASTE_NAME(x, type, level) x##_##type##_##level
#define NN_NAME(x, type, level) NN_PASTE_NAME(x, type, level)

#define BYTES 16
#define TARGET
#define NAME(x) NN_NAME(x, TYPE, base)
#include NN_EACH
#undef BYTES
#undef TARGET
#undef NAME

#if defined(TN_KERNEL_AVX2)
#define BYTES 32
#define TARGET TN_KERNEL_AVX2
#define NAME(x) NN_NAME(x, TYPE, avx2)
#include NN_EACH
#undef BYTES
#undef TARGET
#undef NAME

#define BYTES 64
#define TARGET TN_KERNEL_AVX512
#define NAME(x) NN_NAME(x, TYPE, avx512)
#include NN_EACH
#undef BYTES
#undef TARGET
#undef NAME
#endif

#undef NN_PASTE_NAME
#undef NN_NAME
#undef REAL
#undef BITS
#undef TYPE
#undef MATH
