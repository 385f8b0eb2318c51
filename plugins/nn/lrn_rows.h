/* SPDX-License-Identifier: Apache-2.0
 * lrn_rows.h: the loops of lrn.c, included by each.h. A piece has adjacent
 * elements of each channel of one image, l->inner apart.
 */

/* Writes the powers of n bases. The usual exponent -3/4 needs roots only. */
BODY void NAME(raise_all)(const REAL *base, double exponent, int64_t n,
                          REAL *to) {
  if (exponent == -0.75) {
    TN_KERNEL_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) {
      const REAL root = MATH(sqrt)(base[i]);
      to[i] = 1 / (root * MATH(sqrt)(root));
    }
    return;
  }
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) to[i] = MATH(pow)(base[i], (REAL)exponent);
}

/* Computes the bases of channel c: in[0] are the data. */
BODY void NAME(find_bases)(const nn_lrn_rule *l, const REAL *x, int64_t c,
                           int64_t n, REAL *base) {
  const int64_t first = c < l->half ? 0 : c - l->half;
  const int64_t last =
      l->channels - c <= l->half ? l->channels - 1 : c + l->half;
  const REAL share = (REAL)l->share, knorm = (REAL)l->knorm;
  REAL sum[CHUNK];
  memset(sum, 0, (size_t)n * sizeof *sum);
  for (int64_t k = first; k <= last; ++k) {
    const REAL *line = x + k * l->inner;
    TN_KERNEL_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) sum[i] += line[i] * line[i];
  }
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) base[i] = knorm + share * sum[i];
}

/* Computes a piece: in[0] are the data; in[1] gets the bases, unless it is
 * NULL. */
LOOP(normalize_piece) {
  const nn_lrn_rule *l = &((const lrn_args *)params)->rule;
  const int64_t n = block->n;
  const REAL *x = block->in[0];
  REAL *bases = (REAL *)(uintptr_t)block->in[1], *y = block->out;
  REAL base[CHUNK], power[CHUNK];
  for (int64_t c = 0; c < l->channels; ++c) {
    const int64_t at = c * l->inner;
    NAME(find_bases)(l, x, c, n, base);
    if (bases) memcpy(bases + at, base, (size_t)n * sizeof *base);
    if (!y) continue;
    NAME(raise_all)(base, -l->beta, n, power);
    TN_KERNEL_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) y[at + i] = x[at + i] * power[i];
  }
}

/* Computes the powers of the bases of a channel, and g*x*base^(-beta - 1). */
BODY void NAME(find_products)(const nn_lrn_rule *l, const REAL *g,
                              const REAL *x, const REAL *base, int64_t n,
                              REAL *products, REAL *powers) {
  NAME(raise_all)(base, -l->beta, n, powers);
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i)
    products[i] = g[i] * x[i] * powers[i] / base[i];
}

/* Computes the gradient of a piece: in[0] is the output gradient, in[1] the
 * data, in[2] are the bases. The ring keeps the products and powers of the
 * channels in the window. */
LOOP(write_piece_gradient) {
  const lrn_args *args = params;
  const nn_lrn_rule *l = &args->rule;
  const int64_t n = block->n, channels = l->channels, lines = 2 * l->half + 1;
  const REAL *g = block->in[0], *x = block->in[1], *base = block->in[2];
  const REAL factor = (REAL)(2 * l->share * l->beta);
  REAL *y = block->out, *products = args->ring;
  REAL *powers = products + lines * CHUNK;
  REAL sum[CHUNK];
  for (int64_t c = 0, next = 0; c < channels; ++c) {
    const int64_t at = c * l->inner, first = c < l->half ? 0 : c - l->half;
    for (; next < channels && next <= c + l->half; ++next) {
      const int64_t from = next * l->inner, slot = next % lines * CHUNK;
      NAME(find_products)
      (l, g + from, x + from, base + from, n, products + slot, powers + slot);
    }
    memset(sum, 0, (size_t)n * sizeof *sum);
    for (int64_t k = first; k < next; ++k) {
      const REAL *line = products + k % lines * CHUNK;
      TN_KERNEL_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) sum[i] += line[i];
    }
    const REAL *power = powers + c % lines * CHUNK;
    TN_KERNEL_INDEPENDENT
    for (int64_t i = 0; i < n; ++i)
      y[at + i] = g[at + i] * power[i] - factor * x[at + i] * sum[i];
  }
}
