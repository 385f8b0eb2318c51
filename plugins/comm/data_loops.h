/* SPDX-License-Identifier: Apache-2.0
 * data_loops.h: the loops of data.c for one type. The file that includes it
 * defines T (elements in arrays), W (meanwhile), NAME, READ, WRITE, and the
 * operations of two W: ADD, MULTIPLY, LARGER, SMALLER.
 */
static void NAME(widen)(void *wide, const void *from, int64_t n) {
  W *to = wide;
  const T *x = from;
  for (int64_t i = 0; i < n; ++i) to[i] = READ(x[i]);
}

static void NAME(narrow)(void *to, const void *wide, int64_t n) {
  T *y = to;
  const W *x = wide;
  for (int64_t i = 0; i < n; ++i) y[i] = WRITE(x[i]);
}

#define COMBINE(f) \
  for (int64_t i = 0; i < n; ++i) to[i] = f(to[i], READ(x[i]))

static void NAME(combine)(void *wide, const void *from, int64_t n, comm_op op) {
  W *restrict to = wide;
  const T *restrict x = from;
  switch (op) {
    case COMM_MAX:
      COMBINE(LARGER);
      break;
    case COMM_MIN:
      COMBINE(SMALLER);
      break;
    case COMM_PROD:
      COMBINE(MULTIPLY);
      break;
    case COMM_SUM:
    case COMM_MEAN:
      COMBINE(ADD);
      break;
  }
}
#undef COMBINE

static const comm_arithmetic NAME(arithmetic) = {
    (int32_t)sizeof(W), NAME(widen), NAME(combine), DIVIDE, NAME(narrow)};
