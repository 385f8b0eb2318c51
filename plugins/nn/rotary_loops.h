/* SPDX-License-Identifier: Apache-2.0
 * rotary_loops.h: rotations of pairs, included by each.h. in[0] and in[1] are
 * coordinates x and y, in[2] and in[3] cosines and sines; `out` gets x, and
 * *params y. Results may be the same memory as the coordinates.
 */

LOOP(rotate_halves) {
  const REAL *x = block->in[0], *y = block->in[1];
  const REAL *cosine = block->in[2], *sine = block->in[3];
  REAL *to_x = block->out, *to_y = *(void *const *)params;
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < block->n; ++i) {
    const REAL a = x[i], b = y[i];
    to_x[i] = a * cosine[i] - b * sine[i];
    to_y[i] = b * cosine[i] + a * sine[i];
  }
}

/* y follows x in memory. */
LOOP(rotate_neighbours) {
  const REAL *x = block->in[0];
  const REAL *cosine = block->in[2], *sine = block->in[3];
  REAL *to = block->out;
  (void)params;
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < block->n; ++i) {
    const REAL a = x[2 * i], b = x[2 * i + 1];
    to[2 * i] = a * cosine[i] - b * sine[i];
    to[2 * i + 1] = b * cosine[i] + a * sine[i];
  }
}

/* Writes -in[0] to out. */
LOOP(negate) {
  const REAL *x = block->in[0];
  REAL *to = block->out;
  (void)params;
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < block->n; ++i) to[i] = -x[i];
}
