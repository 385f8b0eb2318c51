/* SPDX-License-Identifier: Apache-2.0
 * conv_direct_tile.h: the loops of conv_direct_loops.c for one level of
 * instructions. Only that file includes it, several times, with these macros,
 * which it undefines:
 *
 *   DIRECT_NAME(x)  x with the level appended
 *   DIRECT_TARGET   the attribute of the level, or nothing
 *   DIRECT_BYTES    of a vector register
 *   DIRECT_PLANES     planes with sums in registers: 4 or 8,
 *   DIRECT_WIDE     and their number of vectors: 3
 *   DIRECT_FILTERS    filters with sums of products in registers,
 *   DIRECT_TAPS     and their number of elements of windows
 *   DIRECT_EACH(x)  x(1, 1) ... x(DIRECT_FILTERS, DIRECT_TAPS)
 */
enum { DIRECT_NAME(lanes) = DIRECT_BYTES / (int)sizeof(float) };

typedef float DIRECT_NAME(vector)
    __attribute__((vector_size(DIRECT_BYTES), aligned(sizeof(float)),
                   may_alias));
typedef int32_t DIRECT_NAME(mask)
    __attribute__((vector_size(DIRECT_BYTES), aligned(sizeof(float)),
                   may_alias));

#define VECTOR(at) (*(const DIRECT_NAME(vector) *)(const void *)(at))
#define EVER TN_KERNEL_UNCHECKED inline __attribute__((always_inline))

/* Computes `wide` vectors of windows in `tile_planes` planes; the first window
 * begins at `from`. */
DIRECT_TARGET static EVER void DIRECT_NAME(convolve_tile)(
    const nn_direct_windows *w, const float *from, const float *weight,
    float *to, const int tile_planes, const int wide) {
  DIRECT_NAME(vector) sum[DIRECT_PLANES][DIRECT_WIDE];
  for (int f = 0; f < tile_planes; ++f)
    for (int j = 0; j < wide; ++j) sum[f][j] = (DIRECT_NAME(vector)){0};
  for (int64_t k = 0; k < w->planes; ++k, from += w->plane, weight += w->skip)
    for (int64_t t = 0; t < w->taps; ++t, weight += tile_planes) {
      const float *at = from + w->offset[t];
      DIRECT_NAME(vector) v[DIRECT_WIDE];
      for (int j = 0; j < wide; ++j) v[j] = VECTOR(at + j * DIRECT_NAME(lanes));
      NN_CONV_UNROLL
      for (int f = 0; f < tile_planes; ++f)
        for (int j = 0; j < wide; ++j) sum[f][j] += weight[f] * v[j];
    }
  for (int f = 0; f < tile_planes; ++f, to += w->row)
    for (int j = 0; j < wide; ++j)
      *(DIRECT_NAME(vector) *)(void *)(to + j * DIRECT_NAME(lanes)) = sum[f][j];
}

/* Computes all windows of `tile_planes` planes, in three vectors at a time. A
 * single vector has few sums, and each would wait for the one before. */
DIRECT_TARGET static EVER void DIRECT_NAME(convolve_planes)(
    const nn_direct_windows *w, const float *from, const float *weight,
    float *to, const int tile_planes) {
  enum { L = DIRECT_NAME(lanes), W = DIRECT_WIDE };
  int64_t left = (w->n + L - 1) / L; /* vectors */
  for (; left > W + 1 || left == W; left -= W, from += W * L, to += W * L)
    DIRECT_NAME(convolve_tile)(w, from, weight, to, tile_planes, W);
  for (; left > 1; left -= 2, from += 2 * L, to += 2 * L)
    DIRECT_NAME(convolve_tile)(w, from, weight, to, tile_planes, 2);
  if (left > 0) DIRECT_NAME(convolve_tile)(w, from, weight, to, tile_planes, 1);
}

DIRECT_TARGET static void DIRECT_NAME(convolve)(const nn_direct_windows *w,
                                                const float *from,
                                                const float *weight, float *to,
                                                int tile_planes) {
  switch (tile_planes) {
#if DIRECT_PLANES == 8
    case 8:
      DIRECT_NAME(convolve_planes)(w, from, weight, to, 8);
      break;
    case 7:
      DIRECT_NAME(convolve_planes)(w, from, weight, to, 7);
      break;
    case 6:
      DIRECT_NAME(convolve_planes)(w, from, weight, to, 6);
      break;
    case 5:
      DIRECT_NAME(convolve_planes)(w, from, weight, to, 5);
      break;
#endif
    case 4:
      DIRECT_NAME(convolve_planes)(w, from, weight, to, 4);
      break;
    case 3:
      DIRECT_NAME(convolve_planes)(w, from, weight, to, 3);
      break;
    case 2:
      DIRECT_NAME(convolve_planes)(w, from, weight, to, 2);
      break;
    default:
      DIRECT_NAME(convolve_planes)(w, from, weight, to, 1);
  }
}

/* Stores a line of `n` sums plus a bias, or adds them to the old elements if
 * `add`. */
DIRECT_TARGET static void DIRECT_NAME(store_line)(const float *from, float *to,
                                                  int64_t n, float bias,
                                                  int add) {
  enum { L = DIRECT_NAME(lanes) };
  int64_t i = 0;
  for (; i + L <= n; i += L) {
    DIRECT_NAME(vector) v = VECTOR(from + i) + bias;
    if (add) v += VECTOR(to + i);
    *(DIRECT_NAME(vector) *)(void *)(to + i) = v;
  }
  for (; i < n; ++i) to[i] = from[i] + bias + (add ? to[i] : 0.0f);
}

/* Adds the products of a vector of windows to the sums. Lanes that are 0 in
 * `keep` are no windows: a product with zero would not remove infinite
 * elements. */
DIRECT_TARGET static EVER void DIRECT_NAME(add_products)(
    const nn_direct_gradient_images *s, const nn_direct_gradient_tile *at,
    int64_t x, DIRECT_NAME(vector) * sum, const DIRECT_NAME(mask) * keep,
    const int filters, const int taps) {
  DIRECT_NAME(vector) h[DIRECT_FILTERS];
  for (int f = 0; f < filters; ++f)
    h[f] = VECTOR(at->out_gradient + f * s->gradient_plane + x);
  NN_CONV_UNROLL
  for (int t = 0; t < taps; ++t) {
    DIRECT_NAME(vector) v = VECTOR(at->from + at->offset[t] + x);
    if (keep) v = (DIRECT_NAME(vector))((DIRECT_NAME(mask))v & *keep);
    for (int f = 0; f < filters; ++f) sum[f * DIRECT_TAPS + t] += h[f] * v;
  }
}

/* Computes the sums of `filters` filters and `taps` taps over all lines of some
 * images, and adds them to at.to. */
DIRECT_TARGET static EVER void DIRECT_NAME(sum_products)(
    const nn_direct_gradient_images *s, nn_direct_gradient_tile at,
    const int filters, const int taps) {
  enum { L = DIRECT_NAME(lanes) };
  DIRECT_NAME(vector) sum[DIRECT_FILTERS * DIRECT_TAPS];
  DIRECT_NAME(mask) keep;
  const nn_direct_gradient_tile first = at;
  int32_t lanes[L];
  for (int l = 0; l < L; ++l) lanes[l] = l < s->n % L ? -1 : 0;
  memcpy(&keep, lanes, sizeof keep);
  for (int i = 0; i < DIRECT_FILTERS * DIRECT_TAPS; ++i)
    sum[i] = (DIRECT_NAME(vector)){0};
  for (int64_t i = 0; i < s->images; ++i) {
    at.from = first.from + i * s->image;
    at.out_gradient = first.out_gradient + i * s->gradient_image;
    for (int64_t y = 0; y < s->lines; ++y) {
      int64_t x = 0;
      for (; x + L <= s->n; x += L)
        DIRECT_NAME(add_products)(s, &at, x, sum, NULL, filters, taps);
      if (x < s->n)
        DIRECT_NAME(add_products)(s, &at, x, sum, &keep, filters, taps);
      at.from += s->pitch;
      at.out_gradient += s->across;
    }
  }
  for (int f = 0; f < filters; ++f)
    for (int t = 0; t < taps; ++t) {
      float total = 0;
      for (int l = 0; l < L; ++l) total += sum[f * DIRECT_TAPS + t][l];
      at.to[f * s->depth + t] += total;
    }
}

#define PRODUCTS(filters, taps)                                           \
  DIRECT_TARGET static void DIRECT_NAME(sum_products_##filters##_##taps)( \
      const nn_direct_gradient_images *s, nn_direct_gradient_tile at) {   \
    DIRECT_NAME(sum_products)(s, at, filters, taps);                      \
  }
DIRECT_EACH(PRODUCTS)
#undef PRODUCTS

#define PRODUCTS(filters, taps) DIRECT_NAME(sum_products_##filters##_##taps),
static const nn_direct_loops DIRECT_NAME(loops) = {
    .tile_planes = DIRECT_PLANES,
    .lanes = DIRECT_NAME(lanes),
    .filters = DIRECT_FILTERS,
    .taps = DIRECT_TAPS,
    .convolve = DIRECT_NAME(convolve),
    .store_line = DIRECT_NAME(store_line),
    .products = {DIRECT_EACH(PRODUCTS)}};
#undef PRODUCTS

#undef VECTOR
#undef EVER
#undef DIRECT_NAME
#undef DIRECT_TARGET
#undef DIRECT_BYTES
#undef DIRECT_PLANES
#undef DIRECT_WIDE
#undef DIRECT_FILTERS
#undef DIRECT_TAPS
#undef DIRECT_EACH
