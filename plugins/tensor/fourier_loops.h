/* SPDX-License-Identifier: Apache-2.0
 * fourier_loops.h: the passes of a transform for one type (FOURIER_T), with
 * names by FOURIER_NAME and instructions of FOURIER_TARGET. fourier.c includes
 * it for each of them; with FOURIER_FILLS it has the functions that fill
 * tables.
 *
 * A pass (Stockham) has a length n, a factor r of it, and s adjacent elements
 * for each place: x[p + n/r * j] for all j become the places r * p + k of y.
 */

/* The operands of a pass. */
typedef struct FOURIER_NAME(pass) {
  const tensor_fourier *plan;
  const FOURIER_T *xr, *xi;
  FOURIER_T *yr, *yi;
  int64_t n, s;
  int64_t unit; /* the table's step for exp(-2 pi i / n) */
  int32_t r;
} FOURIER_NAME(pass);

/* exp(-2 pi i k / size) of the table. */
typedef struct FOURIER_NAME(root) {
  FOURIER_T c, s;
} FOURIER_NAME(root);

FOURIER_TARGET static inline FOURIER_NAME(root)
    FOURIER_NAME(get_root)(const tensor_fourier *plan, int64_t k) {
  const FOURIER_NAME(root) w = {((const FOURIER_T *)plan->cosine)[k],
                                -((const FOURIER_T *)plan->sine)[k]};
  return w;
}

FOURIER_TARGET static void FOURIER_NAME(run_pass_2)(const FOURIER_NAME(pass) *
                                                    t) {
  const int64_t m = t->n / 2, s = t->s;
  for (int64_t p = 0; p < m; ++p) {
    const FOURIER_NAME(root) w = FOURIER_NAME(get_root)(t->plan, p * t->unit);
    const FOURIER_T *ar = t->xr + p * s, *ai = t->xi + p * s;
    const FOURIER_T *br = ar + m * s, *bi = ai + m * s;
    FOURIER_T *yr = t->yr + 2 * p * s, *yi = t->yi + 2 * p * s;
    TN_KERNEL_INDEPENDENT
    for (int64_t q = 0; q < s; ++q) {
      const FOURIER_T dr = ar[q] - br[q], di = ai[q] - bi[q];
      yr[q] = ar[q] + br[q];
      yi[q] = ai[q] + bi[q];
      yr[s + q] = dr * w.c - di * w.s;
      yi[s + q] = dr * w.s + di * w.c;
    }
  }
}

FOURIER_TARGET static void FOURIER_NAME(run_pass_4)(const FOURIER_NAME(pass) *
                                                    t) {
  const int64_t m = t->n / 4, s = t->s;
  for (int64_t p = 0; p < m; ++p) {
    const FOURIER_NAME(root) u = FOURIER_NAME(get_root)(t->plan, p * t->unit);
    const FOURIER_NAME(root) v =
        FOURIER_NAME(get_root)(t->plan, 2 * p * t->unit);
    const FOURIER_NAME(root) w =
        FOURIER_NAME(get_root)(t->plan, 3 * p * t->unit);
    const FOURIER_T *xr = t->xr + p * s, *xi = t->xi + p * s;
    FOURIER_T *yr = t->yr + 4 * p * s, *yi = t->yi + 4 * p * s;
    TN_KERNEL_INDEPENDENT
    for (int64_t q = 0; q < s; ++q) {
      const int64_t b = q + m * s, c = q + 2 * m * s, d = q + 3 * m * s;
      const FOURIER_T er = xr[q] + xr[c], ei = xi[q] + xi[c];
      const FOURIER_T fr = xr[q] - xr[c], fi = xi[q] - xi[c];
      const FOURIER_T gr = xr[b] + xr[d], gi = xi[b] + xi[d];
      /* -i times the difference */
      const FOURIER_T hr = xi[b] - xi[d], hi = xr[d] - xr[b];
      const FOURIER_T jr = fr + hr, ji = fi + hi;
      const FOURIER_T kr = er - gr, ki = ei - gi;
      const FOURIER_T lr = fr - hr, li = fi - hi;
      yr[q] = er + gr;
      yi[q] = ei + gi;
      yr[s + q] = jr * u.c - ji * u.s;
      yi[s + q] = jr * u.s + ji * u.c;
      yr[2 * s + q] = kr * v.c - ki * v.s;
      yi[2 * s + q] = kr * v.s + ki * v.c;
      yr[3 * s + q] = lr * w.c - li * w.s;
      yi[3 * s + q] = lr * w.s + li * w.c;
    }
  }
}

/* Any factor: a sum of r products for each of r results. */
FOURIER_TARGET static void FOURIER_NAME(run_pass_any)(const FOURIER_NAME(pass) *
                                                      t) {
  const int64_t m = t->n / t->r, s = t->s, size = t->plan->size;
  for (int64_t p = 0; p < m; ++p)
    for (int64_t k = 0; k < t->r; ++k) {
      FOURIER_T *yr = t->yr + (t->r * p + k) * s;
      FOURIER_T *yi = t->yi + (t->r * p + k) * s;
      for (int64_t q = 0; q < s; ++q) yr[q] = yi[q] = 0;
      for (int64_t j = 0; j < t->r; ++j) {
        const int64_t turn = k * p * t->unit + j * k % t->r * (size / t->r);
        const FOURIER_NAME(root) w =
            FOURIER_NAME(get_root)(t->plan, turn < size ? turn : turn - size);
        const FOURIER_T *xr = t->xr + (p + m * j) * s;
        const FOURIER_T *xi = t->xi + (p + m * j) * s;
        TN_KERNEL_INDEPENDENT
        for (int64_t q = 0; q < s; ++q) {
          yr[q] += xr[q] * w.c - xi[q] * w.s;
          yi[q] += xr[q] * w.s + xi[q] * w.c;
        }
      }
    }
}

/* All passes over lines of `size` elements. */
FOURIER_TARGET static void FOURIER_NAME(run_passes)(const tensor_fourier *plan,
                                                    tensor_fourier_lines *l) {
  FOURIER_NAME(pass)
  t = {.plan = plan, .n = plan->size, .s = l->lanes, .unit = 1};
  for (int32_t i = 0; i < plan->n_factors; ++i) {
    t.r = plan->factor[i];
    t.xr = (const FOURIER_T *)l->real;
    t.xi = (const FOURIER_T *)l->imaginary;
    t.yr = (FOURIER_T *)l->other_real;
    t.yi = (FOURIER_T *)l->other_imaginary;
    if (t.r == 4)
      FOURIER_NAME(run_pass_4)(&t);
    else if (t.r == 2)
      FOURIER_NAME(run_pass_2)(&t);
    else
      FOURIER_NAME(run_pass_any)(&t);
    exchange_arrays(l);
    t.n /= t.r;
    t.s *= t.r;
    t.unit *= t.r;
  }
}

/* Multiplies elements [0, n) of each line by (c, s), or by its conjugate, and
 * conjugates the product if requested. */
FOURIER_TARGET static void FOURIER_NAME(multiply_line)(tensor_fourier_lines *l,
                                                       int64_t n,
                                                       const FOURIER_T *c,
                                                       const FOURIER_T *s,
                                                       int conjugates) {
  const FOURIER_T sign = conjugates ? -1 : 1;
  for (int64_t k = 0; k < n; ++k) {
    FOURIER_T *re = (FOURIER_T *)l->real + k * l->lanes;
    FOURIER_T *im = (FOURIER_T *)l->imaginary + k * l->lanes;
    for (int64_t q = 0; q < l->lanes; ++q) {
      const FOURIER_T x = re[q] * c[k] - im[q] * s[k];
      im[q] = sign * (re[q] * s[k] + im[q] * c[k]);
      re[q] = x;
    }
  }
}

/* The transform as a convolution with a chirp: products with it before and
 * after, and between them a transform, a product and a transform back. The
 * latter is a transform of conjugates. */
FOURIER_TARGET static void FOURIER_NAME(run_chirp)(const tensor_fourier *plan,
                                                   tensor_fourier_lines *l) {
  const FOURIER_T *c = (const FOURIER_T *)plan->chirp_cosine;
  const FOURIER_T *s = (const FOURIER_T *)plan->chirp_sine;
  const int64_t rest = (plan->size - plan->length) * l->lanes;
  FOURIER_NAME(multiply_line)(l, plan->length, c, s, 0);
  memset((FOURIER_T *)l->real + plan->length * l->lanes, 0,
         (size_t)rest * sizeof(FOURIER_T));
  memset((FOURIER_T *)l->imaginary + plan->length * l->lanes, 0,
         (size_t)rest * sizeof(FOURIER_T));
  FOURIER_NAME(run_passes)(plan, l);
  FOURIER_NAME(multiply_line)
  (l, plan->size, (const FOURIER_T *)plan->kernel_real,
   (const FOURIER_T *)plan->kernel_imaginary, 1);
  FOURIER_NAME(run_passes)(plan, l);
  FOURIER_T *im = (FOURIER_T *)l->imaginary;
  for (int64_t i = 0; i < plan->length * l->lanes; ++i) im[i] = -im[i];
  FOURIER_NAME(multiply_line)(l, plan->length, c, s, 0);
}

#ifdef FOURIER_FILLS
FOURIER_TARGET static void FOURIER_NAME(fill_tables)(tensor_fourier *plan) {
  const double turn = 6.283185307179586476925286766559 / (double)plan->size;
  for (int64_t i = 0; i < plan->size; ++i) {
    ((FOURIER_T *)plan->cosine)[i] = (FOURIER_T)cos(turn * (double)i);
    ((FOURIER_T *)plan->sine)[i] = (FOURIER_T)sin(turn * (double)i);
  }
}

/* The chirp exp(-pi i k^2 / length), and the transform of its conjugate, around
 * the end of the lines, divided by their size. */
FOURIER_TARGET static void FOURIER_NAME(fill_chirp)(tensor_fourier *plan,
                                                    tensor_fourier_lines *l) {
  const double turn = 3.1415926535897932384626433832795 / (double)plan->length;
  FOURIER_T *re = (FOURIER_T *)l->real, *im = (FOURIER_T *)l->imaginary;
  int64_t square = 0; /* of k, modulo twice the length */
  memset(re, 0, (size_t)plan->size * sizeof *re);
  memset(im, 0, (size_t)plan->size * sizeof *im);
  for (int64_t k = 0; k < plan->length; ++k) {
    const int64_t back = k == 0 ? 0 : plan->size - k;
    const double c = cos(turn * (double)square), s = sin(turn * (double)square);
    ((FOURIER_T *)plan->chirp_cosine)[k] = (FOURIER_T)c;
    ((FOURIER_T *)plan->chirp_sine)[k] = (FOURIER_T)-s;
    re[k] = re[back] = (FOURIER_T)(c / (double)plan->size);
    im[k] = im[back] = (FOURIER_T)(s / (double)plan->size);
    square = (square + 2 * k + 1) % (2 * plan->length);
  }
  FOURIER_NAME(run_passes)(plan, l);
  memcpy(plan->kernel_real, l->real, (size_t)plan->size * sizeof *re);
  memcpy(plan->kernel_imaginary, l->imaginary, (size_t)plan->size * sizeof *re);
}
#endif

#undef FOURIER_T
#undef FOURIER_NAME
#undef FOURIER_TARGET
#undef FOURIER_FILLS
