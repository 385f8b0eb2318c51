/* SPDX-License-Identifier: Apache-2.0
 * rnn_slopes.h: one step of one row of a recurrent layer, backward (rnn.h),
 * included by each.h. in[0] are kept values, in[1] is h before the step, in[2]
 * h after it; `out` gets the gradients of the products of the input.
 */

LOOP(slope_lstm) {
  const nn_rnn_slopes *l = params;
  const int64_t n = block->n;
  const REAL *kept = block->in[0], *before = l->cell;
  const REAL *grad = l->grad;
  REAL *to = block->out, *carry = l->cell_carry;
  TN_KERNEL_INDEPENDENT
  for (int64_t u = 0; u < n; ++u) {
    const REAL i = kept[u], f = kept[n + u], g = kept[2 * n + u];
    const REAL o = kept[3 * n + u], top = MATH(tanh)(kept[4 * n + u]);
    const REAL h = grad[u], c = carry[u] + h * o * (1 - top * top);
    carry[u] = c * f;
    to[u] = c * g * i * (1 - i);
    to[n + u] = c * before[u] * f * (1 - f);
    to[2 * n + u] = c * i * (1 - g * g);
    to[3 * n + u] = h * top * o * (1 - o);
  }
}

/* `second` gets the gradients of the products of h, and `carry` the part of the
 * gradient of h before the step that has no product. */
LOOP(slope_gru) {
  const nn_rnn_slopes *l = params;
  const int64_t n = block->n;
  const REAL *kept = block->in[0], *before = block->in[1];
  const REAL *grad = l->grad;
  REAL *to = block->out, *second = l->second, *carry = l->carry;
  TN_KERNEL_INDEPENDENT
  for (int64_t u = 0; u < n; ++u) {
    const REAL r = kept[u], z = kept[n + u], top = kept[2 * n + u];
    const REAL h = grad[u], a = h * (1 - z) * (1 - top * top);
    const REAL b = a * kept[3 * n + u] * r * (1 - r);
    const REAL c = h * (before[u] - top) * z * (1 - z);
    carry[u] = h * z;
    to[u] = second[u] = b;
    to[n + u] = second[n + u] = c;
    to[2 * n + u] = a;
    second[2 * n + u] = a * r;
  }
}

LOOP(slope_plain) {
  const nn_rnn_slopes *l = params;
  const REAL *h = block->in[2], *grad = l->grad;
  REAL *to = block->out;
  if (l->kind == NN_RNN_MODE_RNN_TANH) {
    TN_KERNEL_INDEPENDENT
    for (int64_t u = 0; u < block->n; ++u) to[u] = grad[u] * (1 - h[u] * h[u]);
  } else {
    TN_KERNEL_INDEPENDENT
    for (int64_t u = 0; u < block->n; ++u) to[u] = h[u] > 0 ? grad[u] : 0;
  }
}
