/* SPDX-License-Identifier: Apache-2.0
 * fourier_passes.h: the passes of a transform for one type (FOURIER_T), with
 * names by FOURIER_NAME and instructions of FOURIER_TARGET. Only
 * fourier_loops.h includes it.
 *
 * A pass (Stockham) has a length n, a factor r of it, and s adjacent elements
 * for each place: x[p + n/r * j] for all j become the places r * p + k of y,
 * times exp(-2 pi i p k / n). Forms of a pass are constants of a caller: the
 * last one has one place, without these roots.
 */

/* The operands of a pass. */
typedef struct FOURIER_NAME(pass) {
  const tensor_fourier *plan;
  const FOURIER_T *xr, *xi;
  FOURIER_T *yr, *yi;
  int64_t n, s;
  int64_t unit; /* the table's step for exp(-2 pi i / n) */
  int32_t r;
  /* Of ends (block_ends): */
  const FOURIER_T *tr, *ti;
  int64_t step;
  FOURIER_T sign;   /* of imaginary parts that are read */
  FOURIER_T fr, fi; /* factors of parts that are written */
} FOURIER_NAME(pass);

/* exp(-2 pi i k / size) of the table: cosine and sine. */
typedef struct FOURIER_NAME(root) {
  FOURIER_T c, s;
} FOURIER_NAME(root);

FOURIER_TARGET static inline FOURIER_NAME(root)
    FOURIER_NAME(get_root)(const tensor_fourier *plan, int64_t k) {
  const FOURIER_NAME(root) w = {((const FOURIER_T *)plan->cosine)[k],
                                ((const FOURIER_T *)plan->sine)[k]};
  return w;
}

/* Begins a pass with a constant factor: a loop over p and one over q. The last
 * pass to pairs has rows of FOURIER_LANES elements as places. */
#define FOURIER_BEGIN(factor)                                           \
  const int64_t m = t->n / (factor);                                    \
  const int64_t rows = form == TO_PAIRS ? s / FOURIER_LANES : m;        \
  const int64_t width = form == TO_PAIRS ? FOURIER_LANES : s;           \
  const int64_t xs = form == FROM_PAIRS ? t->step : s;                  \
  const int64_t xp = form == TO_PAIRS ? FOURIER_LANES : xs;             \
  const int64_t d = form == TO_PAIRS ? s : m * xs;                      \
  const int64_t e = form == TO_PAIRS ? rows * t->step : s;              \
  const int64_t yp = form == TO_PAIRS ? t->step : (factor)*s;           \
  const int64_t xw = form == FROM_PAIRS ? 2 : 1,                        \
                yw = form == TO_PAIRS ? 2 : 1;                          \
  for (int64_t p = 0; p < rows; ++p) {                                  \
    const FOURIER_T *xr = t->xr + xw * p * xp;                          \
    const FOURIER_T *xi = form == FROM_PAIRS ? xr + 1 : t->xi + p * xp; \
    FOURIER_T *yr = t->yr + yw * p * yp;                                \
    FOURIER_T *yi = form == TO_PAIRS ? yr + 1 : t->yi + p * yp;         \
    FOURIER_NAME(root) w[factor];                                       \
    for (int64_t k = 1; form <= FROM_PAIRS && k < (factor); ++k)        \
      w[k] = FOURIER_NAME(get_root)(t->plan, k * p * t->unit);          \
    TN_KERNEL_INDEPENDENT                                               \
    for (int64_t q = 0; q < width; ++q) {
#define FOURIER_END \
  }                 \
  }

/* The parts of input j. */
#define XR(j) xr[xw * (q + (j)*d)]
#define XI(j) \
  (form == FROM_PAIRS ? t->sign * xi[xw * (q + (j)*d)] : xi[xw * (q + (j)*d)])

/* Writes result k. */
#define FOURIER_PUT(k, re, im)                           \
  do {                                                   \
    const FOURIER_T put_r = (re), put_i = (im);          \
    const int64_t put = yw * ((k)*e + q);                \
    if (form == TIMES_TABLE) {                           \
      yr[put] = put_r * t->tr[put] - put_i * t->ti[put]; \
      yi[put] = put_r * t->ti[put] + put_i * t->tr[put]; \
    } else if (form == TO_PAIRS) {                       \
      yr[put] = t->fr * put_r;                           \
      yi[put] = t->fi * put_i;                           \
    } else if (form == LAST_PASS || (k) == 0) {          \
      yr[put] = put_r;                                   \
      yi[put] = put_i;                                   \
    } else {                                             \
      yr[put] = put_r * w[k].c - put_i * w[k].s;         \
      yi[put] = put_r * w[k].s + put_i * w[k].c;         \
    }                                                    \
  } while (0)

#define FOURIER_PASS(name)                                    \
  TN_KERNEL_BODY FOURIER_TARGET void FOURIER_NAME(name##_of)( \
      const FOURIER_NAME(pass) * t, const int64_t s, const int form)

/* The forms of a pass. */
#define FOURIER_CASES(name)                                                   \
  FOURIER_TARGET static void FOURIER_NAME(name)(const FOURIER_NAME(pass) * t, \
                                                int form) {                   \
    if (form == FROM_PAIRS)                                                   \
      FOURIER_NAME(name##_of)(t, FOURIER_LANES, FROM_PAIRS);                  \
    else if (form == TIMES_TABLE)                                             \
      FOURIER_NAME(name##_of)(t, t->s, TIMES_TABLE);                          \
    else if (form == TO_PAIRS)                                                \
      FOURIER_NAME(name##_of)(t, t->s, TO_PAIRS);                             \
    else if (form == LAST_PASS)                                               \
      FOURIER_NAME(name##_of)(t, t->s, LAST_PASS);                            \
    else if (t->s == FOURIER_LANES)                                           \
      FOURIER_NAME(name##_of)(t, FOURIER_LANES, ANY_PASS);                    \
    else                                                                      \
      FOURIER_NAME(name##_of)(t, t->s, ANY_PASS);                             \
  }

FOURIER_PASS(run_pass_2) {
  FOURIER_BEGIN(2)
  const FOURIER_T ar = XR(0), ai = XI(0), br = XR(1), bi = XI(1);
  FOURIER_PUT(0, ar + br, ai + bi);
  FOURIER_PUT(1, ar - br, ai - bi);
  FOURIER_END
}
FOURIER_CASES(run_pass_2)

FOURIER_PASS(run_pass_4) {
  FOURIER_BEGIN(4)
  const FOURIER_T er = XR(0) + XR(2), ei = XI(0) + XI(2);
  const FOURIER_T fr = XR(0) - XR(2), fi = XI(0) - XI(2);
  const FOURIER_T gr = XR(1) + XR(3);
  const FOURIER_T gi = XI(1) + XI(3);
  /* -i times the difference */
  const FOURIER_T hr = XI(1) - XI(3);
  const FOURIER_T hi = XR(3) - XR(1);
  FOURIER_PUT(0, er + gr, ei + gi);
  FOURIER_PUT(1, fr + hr, fi + hi);
  FOURIER_PUT(2, er - gr, ei - gi);
  FOURIER_PUT(3, fr - hr, fi - hi);
  FOURIER_END
}
FOURIER_CASES(run_pass_4)

/* Two transforms of four: of sums, and of differences times roots. */
FOURIER_PASS(run_pass_8) {
  const FOURIER_T h = (FOURIER_T)0.70710678118654752440;
  FOURIER_BEGIN(8)
  const FOURIER_T a0r = XR(0) + XR(4), a0i = XI(0) + XI(4);
  const FOURIER_T b0r = XR(0) - XR(4), b0i = XI(0) - XI(4);
  const FOURIER_T a1r = XR(1) + XR(5);
  const FOURIER_T a1i = XI(1) + XI(5);
  const FOURIER_T c1r = XR(1) - XR(5);
  const FOURIER_T c1i = XI(1) - XI(5);
  const FOURIER_T a2r = XR(2) + XR(6);
  const FOURIER_T a2i = XI(2) + XI(6);
  const FOURIER_T b2r = XI(2) - XI(6);
  const FOURIER_T b2i = XR(6) - XR(2);
  const FOURIER_T a3r = XR(3) + XR(7);
  const FOURIER_T a3i = XI(3) + XI(7);
  const FOURIER_T c3r = XR(3) - XR(7);
  const FOURIER_T c3i = XI(3) - XI(7);
  const FOURIER_T b1r = h * (c1r + c1i), b1i = h * (c1i - c1r);
  const FOURIER_T b3r = h * (c3i - c3r), b3i = -h * (c3r + c3i);
  const FOURIER_T e0r = a0r + a2r, e0i = a0i + a2i;
  const FOURIER_T e1r = a0r - a2r, e1i = a0i - a2i;
  const FOURIER_T e2r = a1r + a3r, e2i = a1i + a3i;
  const FOURIER_T e3r = a1i - a3i, e3i = a3r - a1r;
  const FOURIER_T f0r = b0r + b2r, f0i = b0i + b2i;
  const FOURIER_T f1r = b0r - b2r, f1i = b0i - b2i;
  const FOURIER_T f2r = b1r + b3r, f2i = b1i + b3i;
  const FOURIER_T f3r = b1i - b3i, f3i = b3r - b1r;
  FOURIER_PUT(0, e0r + e2r, e0i + e2i);
  FOURIER_PUT(1, f0r + f2r, f0i + f2i);
  FOURIER_PUT(2, e1r + e3r, e1i + e3i);
  FOURIER_PUT(3, f1r + f3r, f1i + f3i);
  FOURIER_PUT(4, e0r - e2r, e0i - e2i);
  FOURIER_PUT(5, f0r - f2r, f0i - f2i);
  FOURIER_PUT(6, e1r - e3r, e1i - e3i);
  FOURIER_PUT(7, f1r - f3r, f1i - f3i);
  FOURIER_END
}
FOURIER_CASES(run_pass_8)

/* An odd factor pairs place j with r - j: sums have cosines alone, and
 * differences sines. */
#define FOURIER_PAIR(a, b, j, other)        \
  const FOURIER_T a##r = XR(j) + XR(other); \
  const FOURIER_T a##i = XI(j) + XI(other); \
  const FOURIER_T b##r = XR(j) - XR(other); \
  const FOURIER_T b##i = XI(j) - XI(other)

FOURIER_PASS(run_pass_3) {
  const FOURIER_T s1 = (FOURIER_T)0.86602540378443864676;
  FOURIER_BEGIN(3)
  FOURIER_PAIR(a, b, 1, 2);
  const FOURIER_T mr = XR(0) - (FOURIER_T)0.5 * ar;
  const FOURIER_T mi = XI(0) - (FOURIER_T)0.5 * ai;
  const FOURIER_T nr = s1 * bi, ni = s1 * br;
  FOURIER_PUT(0, XR(0) + ar, XI(0) + ai);
  FOURIER_PUT(1, mr + nr, mi - ni);
  FOURIER_PUT(2, mr - nr, mi + ni);
  FOURIER_END
}
FOURIER_CASES(run_pass_3)

FOURIER_PASS(run_pass_5) {
  const FOURIER_T c1 = (FOURIER_T)0.30901699437494742410;
  const FOURIER_T c2 = (FOURIER_T)-0.80901699437494742410;
  const FOURIER_T s1 = (FOURIER_T)0.95105651629515357212;
  const FOURIER_T s2 = (FOURIER_T)0.58778525229247312917;
  FOURIER_BEGIN(5)
  FOURIER_PAIR(a, b, 1, 4);
  FOURIER_PAIR(c, e, 2, 3);
  const FOURIER_T zr = XR(0), zi = XI(0);
  const FOURIER_T m1r = zr + c1 * ar + c2 * cr, m1i = zi + c1 * ai + c2 * ci;
  const FOURIER_T m2r = zr + c2 * ar + c1 * cr, m2i = zi + c2 * ai + c1 * ci;
  const FOURIER_T n1r = s1 * bi + s2 * ei, n1i = s1 * br + s2 * er;
  const FOURIER_T n2r = s2 * bi - s1 * ei, n2i = s2 * br - s1 * er;
  FOURIER_PUT(0, zr + (ar + cr), zi + (ai + ci));
  FOURIER_PUT(1, m1r + n1r, m1i - n1i);
  FOURIER_PUT(2, m2r + n2r, m2i - n2i);
  FOURIER_PUT(3, m2r - n2r, m2i + n2i);
  FOURIER_PUT(4, m1r - n1r, m1i + n1i);
  FOURIER_END
}
FOURIER_CASES(run_pass_5)

FOURIER_PASS(run_pass_7) {
  const FOURIER_T c1 = (FOURIER_T)0.62348980185873353053;
  const FOURIER_T c2 = (FOURIER_T)-0.22252093395631440429;
  const FOURIER_T c3 = (FOURIER_T)-0.90096886790241912624;
  const FOURIER_T s1 = (FOURIER_T)0.78183148246802980871;
  const FOURIER_T s2 = (FOURIER_T)0.97492791218182360702;
  const FOURIER_T s3 = (FOURIER_T)0.43388373911755812048;
  FOURIER_BEGIN(7)
  FOURIER_PAIR(a, b, 1, 6);
  FOURIER_PAIR(c, e, 2, 5);
  FOURIER_PAIR(f, g, 3, 4);
  const FOURIER_T zr = XR(0), zi = XI(0);
  const FOURIER_T m1r = zr + c1 * ar + c2 * cr + c3 * fr;
  const FOURIER_T m1i = zi + c1 * ai + c2 * ci + c3 * fi;
  const FOURIER_T m2r = zr + c2 * ar + c3 * cr + c1 * fr;
  const FOURIER_T m2i = zi + c2 * ai + c3 * ci + c1 * fi;
  const FOURIER_T m3r = zr + c3 * ar + c1 * cr + c2 * fr;
  const FOURIER_T m3i = zi + c3 * ai + c1 * ci + c2 * fi;
  const FOURIER_T n1r = s1 * bi + s2 * ei + s3 * gi;
  const FOURIER_T n1i = s1 * br + s2 * er + s3 * gr;
  const FOURIER_T n2r = s2 * bi - s3 * ei - s1 * gi;
  const FOURIER_T n2i = s2 * br - s3 * er - s1 * gr;
  const FOURIER_T n3r = s3 * bi - s1 * ei + s2 * gi;
  const FOURIER_T n3i = s3 * br - s1 * er + s2 * gr;
  FOURIER_PUT(0, zr + (ar + cr + fr), zi + (ai + ci + fi));
  FOURIER_PUT(1, m1r + n1r, m1i - n1i);
  FOURIER_PUT(2, m2r + n2r, m2i - n2i);
  FOURIER_PUT(3, m3r + n3r, m3i - n3i);
  FOURIER_PUT(4, m3r - n3r, m3i + n3i);
  FOURIER_PUT(5, m2r - n2r, m2i + n2i);
  FOURIER_PUT(6, m1r - n1r, m1i + n1i);
  FOURIER_END
}
FOURIER_CASES(run_pass_7)

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

#undef FOURIER_BEGIN
#undef FOURIER_END
#undef FOURIER_PUT
#undef FOURIER_PASS
#undef FOURIER_CASES
#undef FOURIER_PAIR
#undef XR
#undef XI
