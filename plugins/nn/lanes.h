/* SPDX-License-Identifier: Apache-2.0
 * lanes.h: vectors of one element type, for headers that are included once for
 * each type. Included by them only, with
 *
 *   REAL     the element type
 *   BITS     an integer as wide
 *   NAME(x)  x with the type behind it
 *
 * Vectors have 64 bytes at every level of instructions, so that sums have the
 * same partial sums, and the same bits, with all of them.
 */

enum { NAME(lanes) = 64 / (int)sizeof(REAL) };

typedef REAL NAME(vector)
    __attribute__((vector_size(64), aligned(sizeof(REAL)), may_alias));
typedef BITS NAME(mask) __attribute__((vector_size(64), may_alias));

/* The vector at x. Functions with vectors for arguments or results would not
 * have the same ABI at all levels, so there are none, inlined or not. */
#ifndef NN_VECTOR
#define NN_VECTOR(x) (*(const NAME(vector) *)(const void *)(x))
#endif

/* The sum of a vector's elements, halves first. */
TN_KERNEL_BODY REAL NAME(total)(const NAME(vector) * v) {
  REAL part[NAME(lanes)];
  memcpy(part, v, sizeof part);
  for (int n = NAME(lanes) / 2; n > 0; n /= 2)
    for (int l = 0; l < n; ++l) part[l] += part[l + n];
  return part[0];
}

/* The largest of n; NaN is passed over, as it comes back in the exponential. */
TN_KERNEL_BODY REAL NAME(largest)(const REAL *x, int64_t n) {
  REAL all = x[0];
  int64_t i = 0;
  if (n >= NAME(lanes)) {
    NAME(vector) most = NN_VECTOR(x);
    for (; i + NAME(lanes) <= n; i += NAME(lanes)) {
      const NAME(vector) v = NN_VECTOR(x + i);
      const NAME(mask) above = (NAME(mask))(v > most);
      most =
          (NAME(vector))((above & (NAME(mask))v) | (~above & (NAME(mask))most));
    }
    REAL part[NAME(lanes)];
    memcpy(part, &most, sizeof part);
    for (int k = NAME(lanes) / 2; k > 0; k /= 2)
      for (int l = 0; l < k; ++l)
        part[l] = part[l + k] > part[l] ? part[l + k] : part[l];
    all = part[0] > all ? part[0] : all;
  }
  for (; i < n; ++i) all = x[i] > all ? x[i] : all;
  return all;
}

TN_KERNEL_BODY REAL NAME(sum)(const REAL *x, int64_t n) {
  NAME(vector) part = {0};
  REAL rest = 0;
  int64_t i = 0;
  for (; i + NAME(lanes) <= n; i += NAME(lanes)) part += NN_VECTOR(x + i);
  for (; i < n; ++i) rest += x[i];
  return NAME(total)(&part) + rest;
}

TN_KERNEL_BODY REAL NAME(dot)(const REAL *x, const REAL *y, int64_t n) {
  NAME(vector) part = {0};
  REAL rest = 0;
  int64_t i = 0;
  for (; i + NAME(lanes) <= n; i += NAME(lanes))
    part += NN_VECTOR(x + i) * NN_VECTOR(y + i);
  for (; i < n; ++i) rest += x[i] * y[i];
  return NAME(total)(&part) + rest;
}
