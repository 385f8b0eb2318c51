/* SPDX-License-Identifier: Apache-2.0
 * conv_winograd_tile.h: the loops of conv_winograd.c for one level of
 * instructions. Only conv_winograd_loops.h includes it, several times, with
 * these macros, which it undefines:
 *
 *   WINO_NAME    name(x): x with the level appended
 *   WINO_TARGET  the attribute of the level, or nothing
 *   WINO_BYTES   of a vector register
 *   WINO_ROWS    filters with sums in registers, three vectors wide
 */
enum { WINO_NAME(lanes) = WINO_BYTES / (int)sizeof(float) };

typedef float WINO_NAME(vector)
    __attribute__((vector_size(WINO_BYTES), aligned(sizeof(float)), may_alias));

/* Copies a line of n adjacent patches, all inside the image: column j of patch
 * t goes to d[t + j * distance]. */
WINO_TARGET static void WINO_NAME(gather)(const float *line, float *d,
                                          int64_t n, int64_t distance) {
  TN_KERNEL_INDEPENDENT
  for (int64_t t = 0; t < n; ++t) {
    d[t] = line[4 * t];
    d[t + distance] = line[4 * t + 1];
    d[t + 2 * distance] = line[4 * t + 2];
    d[t + 3 * distance] = line[4 * t + 3];
    d[t + 4 * distance] = line[4 * t + 4];
    d[t + 5 * distance] = line[4 * t + 5];
  }
}

/* Stores one line of the results of n adjacent patches, plus the bias. */
WINO_TARGET static void WINO_NAME(scatter)(float *line, const float *y,
                                           int64_t n, int64_t distance,
                                           float bias) {
  TN_KERNEL_INDEPENDENT
  for (int64_t t = 0; t < n; ++t) {
    line[4 * t] = y[t] + bias;
    line[4 * t + 1] = y[t + distance] + bias;
    line[4 * t + 2] = y[t + 2 * distance] + bias;
    line[4 * t + 3] = y[t + 3 * distance] + bias;
  }
}

/* Transforms n patches of one channel, d[36][n], into v: B^T d B. The 36
 * results of a patch are `distance` elements apart. Overwrites d. */
WINO_TARGET static void WINO_NAME(transform_data)(float *d, float *v, int64_t n,
                                                  int64_t distance) {
  for (int j = 0; j < 6; ++j) {
    float *x = d + j * n;
    TN_KERNEL_INDEPENDENT
    for (int64_t t = 0; t < n; ++t) {
      const float a = x[t], b = x[t + 6 * n], c = x[t + 12 * n],
                  e = x[t + 18 * n], f = x[t + 24 * n], g = x[t + 30 * n];
      x[t] = 4 * a - 5 * c + f;
      x[t + 6 * n] = e + f - 4 * (b + c);
      x[t + 12 * n] = f - e + 4 * (b - c);
      x[t + 18 * n] = f - c + 2 * (e - b);
      x[t + 24 * n] = f - c + 2 * (b - e);
      x[t + 30 * n] = 4 * b - 5 * e + g;
    }
  }
  for (int i = 0; i < 6; ++i) {
    const float *x = d + i * 6 * n;
    float *y = v + i * 6 * distance;
    TN_KERNEL_INDEPENDENT
    for (int64_t t = 0; t < n; ++t) {
      const float a = x[t], b = x[t + n], c = x[t + 2 * n], e = x[t + 3 * n],
                  f = x[t + 4 * n], g = x[t + 5 * n];
      y[t] = 4 * a - 5 * c + f;
      y[t + distance] = e + f - 4 * (b + c);
      y[t + 2 * distance] = f - e + 4 * (b - c);
      y[t + 3 * distance] = f - c + 2 * (e - b);
      y[t + 4 * distance] = f - c + 2 * (b - e);
      y[t + 5 * distance] = 4 * b - 5 * e + g;
    }
  }
}

/* Transforms the sums of one filter, m[36][n] with rows `distance` elements
 * apart, into its elements of out, y[16][n]: A^T m A. Overwrites m. */
WINO_TARGET static void WINO_NAME(transform_results)(float *m, float *y,
                                                     int64_t n,
                                                     int64_t distance) {
  for (int j = 0; j < 6; ++j) {
    float *x = m + j * distance;
    TN_KERNEL_INDEPENDENT
    for (int64_t t = 0; t < n; ++t) {
      const float a = x[t], g = x[t + 30 * distance];
      const float b = x[t + 6 * distance] + x[t + 12 * distance];
      const float c = x[t + 6 * distance] - x[t + 12 * distance];
      const float e = x[t + 18 * distance] + x[t + 24 * distance];
      const float f = x[t + 18 * distance] - x[t + 24 * distance];
      x[t] = a + b + e;
      x[t + 6 * distance] = c + 2 * f;
      x[t + 12 * distance] = b + 4 * e;
      x[t + 18 * distance] = c + 8 * f + g;
    }
  }
  for (int i = 0; i < 4; ++i) {
    const float *x = m + i * 6 * distance;
    float *to = y + i * 4 * n;
    TN_KERNEL_INDEPENDENT
    for (int64_t t = 0; t < n; ++t) {
      const float a = x[t], g = x[t + 5 * distance];
      const float b = x[t + distance] + x[t + 2 * distance];
      const float c = x[t + distance] - x[t + 2 * distance];
      const float e = x[t + 3 * distance] + x[t + 4 * distance];
      const float f = x[t + 3 * distance] - x[t + 4 * distance];
      to[t] = a + b + e;
      to[t + n] = c + 2 * f;
      to[t + 2 * n] = b + 4 * e;
      to[t + 3 * n] = c + 8 * f + g;
    }
  }
}

/* Transforms the output gradients of n patches, the upper left 4 x 4 of
 * y[36][n], into u: A y A^T. Overwrites y. */
WINO_TARGET static void WINO_NAME(transform_gradients)(float *y, float *u,
                                                       int64_t n,
                                                       int64_t distance) {
  for (int j = 0; j < 4; ++j) {
    float *x = y + j * n;
    TN_KERNEL_INDEPENDENT
    for (int64_t t = 0; t < n; ++t) {
      const float a = x[t], b = x[t + 6 * n], c = x[t + 12 * n],
                  e = x[t + 18 * n];
      x[t + 6 * n] = a + c + (b + e);
      x[t + 12 * n] = a + c - (b + e);
      x[t + 18 * n] = a + 4 * c + (2 * b + 8 * e);
      x[t + 24 * n] = a + 4 * c - (2 * b + 8 * e);
      x[t + 30 * n] = e;
    }
  }
  for (int i = 0; i < 6; ++i) {
    const float *x = y + i * 6 * n;
    float *to = u + i * 6 * distance;
    TN_KERNEL_INDEPENDENT
    for (int64_t t = 0; t < n; ++t) {
      const float a = x[t], b = x[t + n], c = x[t + 2 * n], e = x[t + 3 * n];
      to[t] = a;
      to[t + distance] = a + c + (b + e);
      to[t + 2 * distance] = a + c - (b + e);
      to[t + 3 * distance] = a + 4 * c + (2 * b + 8 * e);
      to[t + 4 * distance] = a + 4 * c - (2 * b + 8 * e);
      to[t + 5 * distance] = e;
    }
  }
}

/* Transforms the sums of n weights, m[36][n] with rows `distance` elements
 * apart, into w[9][n] with rows WINO_BACK elements apart: G^T m G. n is at most
 * WINO_BACK. */
WINO_TARGET static void WINO_NAME(transform_back)(const float *m, float *w,
                                                  int64_t n, int64_t distance) {
  enum { W = WINO_BACK };
  float half[3 * 6 * W];
  for (int j = 0; j < 6; ++j) {
    const float *x = m + j * distance;
    float *h = half + j * W;
    TN_KERNEL_INDEPENDENT
    for (int64_t t = 0; t < n; ++t) {
      const float b = x[t + 6 * distance], c = x[t + 12 * distance];
      const float e = x[t + 18 * distance], f = x[t + 24 * distance];
      const float near = (b + c) * (1.0f / 6), far = e + f;
      h[t] = x[t] * 0.25f - near + far * (1.0f / 24);
      h[t + 6 * W] = (c - b) * (1.0f / 6) + (e - f) * (1.0f / 12);
      h[t + 12 * W] = far * (1.0f / 6) - near + x[t + 30 * distance];
    }
  }
  for (int i = 0; i < 3; ++i) {
    const float *x = half + i * 6 * W;
    float *to = w + i * 3 * W;
    TN_KERNEL_INDEPENDENT
    for (int64_t t = 0; t < n; ++t) {
      const float b = x[t + W], c = x[t + 2 * W];
      const float e = x[t + 3 * W], f = x[t + 4 * W];
      const float near = (b + c) * (1.0f / 6), far = e + f;
      to[t] = x[t] * 0.25f - near + far * (1.0f / 24);
      to[t + W] = (c - b) * (1.0f / 6) + (e - f) * (1.0f / 12);
      to[t + 2 * W] = far * (1.0f / 6) - near + x[t + 5 * W];
    }
  }
}

/* A vector with one number for each filter of a filter block. */
typedef float WINO_NAME(filter_vector)
    __attribute__((vector_size(WINO_ROWS * sizeof(float)),
                   aligned(sizeof(float)), may_alias));

/* Multiplies G with one column of w, whose three elements are `step` vectors
 * apart; the six results are `distance` elements apart. */
WINO_TARGET static inline __attribute__((always_inline)) void WINO_NAME(
    transform_column)(const float *w, int step, float *g, int64_t distance) {
  WINO_NAME(filter_vector) x[6];
  for (int i = 0; i < 3; ++i)
    x[i] = *(const WINO_NAME(filter_vector) *)(const void *)(w + i * step *
                                                                     WINO_ROWS);
  const WINO_NAME(filter_vector) a = x[0], b = x[1], c = x[2];
  const WINO_NAME(filter_vector) both = (a + c) * (1.0f / 6);
  const WINO_NAME(filter_vector) rest = a * (1.0f / 24) + c * (1.0f / 6);
  x[0] = a * 0.25f;
  x[1] = -both - b * (1.0f / 6);
  x[2] = b * (1.0f / 6) - both;
  x[3] = rest + b * (1.0f / 12);
  x[4] = rest - b * (1.0f / 12);
  x[5] = c;
  for (int i = 0; i < 6; ++i)
    *(WINO_NAME(filter_vector) *)(void *)(g + i * distance) = x[i];
}

/* Transforms the weights w[9][WINO_ROWS] of a filter block for one channel: G w
 * G^T. The 36 results are `distance` elements apart. */
WINO_TARGET static void WINO_NAME(transform_filters)(const float *w, float *to,
                                                     int64_t distance) {
  float columns[6 * 3 * WINO_ROWS];
  for (int j = 0; j < 3; ++j) WINO_NAME(transform_column)
  (w + j * WINO_ROWS, 3, columns + j * WINO_ROWS, 3 * WINO_ROWS);
  for (int i = 0; i < 6; ++i) WINO_NAME(transform_column)
  (columns + i * 3 * WINO_ROWS, 1, to + i * 6 * distance, distance);
}

/* Multiplies WINO_ROWS filters with `wide` vectors of patches: m = u * v,
 * summed over `depth` channels. */
WINO_TARGET static inline __attribute__((always_inline)) void WINO_NAME(
    multiply_vectors)(const float *u, const float *v, float *m, int64_t depth,
                      int64_t n, const int wide) {
  WINO_NAME(vector) sum[WINO_ROWS][3];
  for (int r = 0; r < WINO_ROWS; ++r)
    for (int w = 0; w < wide; ++w) sum[r][w] = (WINO_NAME(vector)){0};
  for (int64_t c = 0; c < depth; ++c, u += WINO_ROWS, v += n) {
    const WINO_NAME(vector) *b = (const void *)v;
    NN_CONV_UNROLL
    for (int r = 0; r < WINO_ROWS; ++r)
      for (int w = 0; w < wide; ++w) sum[r][w] += u[r] * b[w];
  }
  for (int r = 0; r < WINO_ROWS; ++r)
    for (int w = 0; w < wide; ++w)
      *(WINO_NAME(vector) *)(void *)(m + r * n + w * WINO_NAME(lanes)) =
          sum[r][w];
}

WINO_TARGET static void WINO_NAME(multiply)(const float *u, const float *v,
                                            float *m, int64_t depth,
                                            int64_t n) {
  enum { L = WINO_NAME(lanes) };
  int64_t t = 0;
  for (; t + 3 * L <= n; t += 3 * L)
    WINO_NAME(multiply_vectors)(u, v + t, m + t, depth, n, 3);
  for (; t + 2 * L <= n; t += 2 * L)
    WINO_NAME(multiply_vectors)(u, v + t, m + t, depth, n, 2);
  for (; t < n; t += L)
    WINO_NAME(multiply_vectors)(u, v + t, m + t, depth, n, 1);
}

static const loops WINO_NAME(loops) = {WINO_ROWS,
                                       WINO_NAME(gather),
                                       WINO_NAME(scatter),
                                       WINO_NAME(transform_filters),
                                       WINO_NAME(transform_data),
                                       WINO_NAME(transform_results),
                                       WINO_NAME(transform_gradients),
                                       WINO_NAME(transform_back),
                                       WINO_NAME(multiply)};

#undef WINO_NAME
#undef WINO_TARGET
#undef WINO_BYTES
#undef WINO_ROWS
