/* SPDX-License-Identifier: Apache-2.0
 * quantize_loops.h: the arithmetic of quantize.yaml in f32 or f64, on parts of
 * a call. Include it once for each type with these macros: LOOP_REAL, the type;
 * LOOP_NAME(name), `name` with the type's suffix; LOOP_RINT; LOOP_SELECT.
 */

/* Rounds, adds the zero point, and cuts at the bounds; NaN is the zero
 * point. */
TN_KERNEL_BODY LOOP_REAL LOOP_NAME(cut)(LOOP_REAL x, LOOP_REAL zero,
                                        const quantize_part *p) {
  const LOOP_REAL least = (LOOP_REAL)p->least, most = (LOOP_REAL)p->most;
  const LOOP_REAL rounded = LOOP_RINT(x);
  const LOOP_REAL sum = LOOP_SELECT(rounded == rounded, rounded, 0) + zero;
  const LOOP_REAL raised = LOOP_SELECT(sum > least, sum, least);
  return LOOP_SELECT(raised < most, raised, most);
}

TN_KERNEL_BODY void LOOP_NAME(quantize_integers)(const quantize_part *p) {
  const quantize_part own = *p;
  const LOOP_REAL *x = (const LOOP_REAL *)p->x;
  const LOOP_REAL *scale = (const LOOP_REAL *)p->scale;
  const LOOP_REAL *zero = (const LOOP_REAL *)p->zero;
  LOOP_REAL *__restrict to = (LOOP_REAL *)p->to;
  for (int64_t i = 0; i < own.n; ++i)
    to[i] = LOOP_NAME(cut)(x[i] / scale[i], zero[i], &own);
}
QUANTIZE_LEVELS(LOOP_NAME(quantize_integers))

TN_KERNEL_BODY void LOOP_NAME(quantize_floats)(const quantize_part *p) {
  const LOOP_REAL *x = (const LOOP_REAL *)p->x;
  const LOOP_REAL *scale = (const LOOP_REAL *)p->scale;
  const LOOP_REAL *zero = (const LOOP_REAL *)p->zero;
  LOOP_REAL *__restrict to = (LOOP_REAL *)p->to;
  const int64_t n = p->n;
  for (int64_t i = 0; i < n; ++i) to[i] = x[i] / scale[i] + zero[i];
}
QUANTIZE_LEVELS(LOOP_NAME(quantize_floats))

TN_KERNEL_BODY void LOOP_NAME(dequantize)(const quantize_part *p) {
  const LOOP_REAL *x = (const LOOP_REAL *)p->x;
  const LOOP_REAL *scale = (const LOOP_REAL *)p->scale;
  const LOOP_REAL *zero = (const LOOP_REAL *)p->zero;
  LOOP_REAL *__restrict to = (LOOP_REAL *)p->to;
  const int64_t n = p->n;
  for (int64_t i = 0; i < n; ++i) to[i] = (x[i] - zero[i]) * scale[i];
}
QUANTIZE_LEVELS(LOOP_NAME(dequantize))

#undef LOOP_REAL
#undef LOOP_NAME
#undef LOOP_RINT
#undef LOOP_SELECT
