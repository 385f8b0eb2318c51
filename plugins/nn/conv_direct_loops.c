/* SPDX-License-Identifier: Apache-2.0
 * conv_direct_loops.c: the loops of conv_direct_tile.h at each level of
 * instructions.
 */
#include <string.h>

#include "conv_direct.h"
#include "tenon/kernel/kernel.h"

typedef nn_direct_loops loops;

#define DIRECT_ROW_4(x, h) x(h, 1) x(h, 2) x(h, 3) x(h, 4)
#define DIRECT_ROW_6(x, h) DIRECT_ROW_4(x, h) x(h, 5) x(h, 6)
#define DIRECT_SMALL(x) DIRECT_ROW_4(x, 1) DIRECT_ROW_4(x, 2)
#define DIRECT_LARGE(x) \
  DIRECT_ROW_6(x, 1) DIRECT_ROW_6(x, 2) DIRECT_ROW_6(x, 3) DIRECT_ROW_6(x, 4)

#define DIRECT_NAME(x) x##_base
#define DIRECT_TARGET
#define DIRECT_BYTES 16
#define DIRECT_PLANES 4
#define DIRECT_WIDE 3
#define DIRECT_FILTERS 2
#define DIRECT_TAPS 4
#define DIRECT_EACH(x) DIRECT_SMALL(x)
#include "conv_direct_tile.h"

#if defined(TN_KERNEL_AVX2)
#define DIRECT_NAME(x) x##_avx2
#define DIRECT_TARGET TN_KERNEL_AVX2
#define DIRECT_BYTES 32
#define DIRECT_PLANES 4
#define DIRECT_WIDE 3
#define DIRECT_FILTERS 2
#define DIRECT_TAPS 4
#define DIRECT_EACH(x) DIRECT_SMALL(x)
#include "conv_direct_tile.h"

#define DIRECT_NAME(x) x##_avx512
#define DIRECT_TARGET TN_KERNEL_AVX512
#define DIRECT_BYTES 64
#define DIRECT_PLANES 8
#define DIRECT_WIDE 3
#define DIRECT_FILTERS 4
#define DIRECT_TAPS 6
#define DIRECT_EACH(x) DIRECT_LARGE(x)
#include "conv_direct_tile.h"
#endif

const nn_direct_loops *nn_direct_find_loops(uint32_t level) {
  return NN_CONV_LOOPS(level);
}
