/* SPDX-License-Identifier: Apache-2.0
 * fourier_loops.h: a transform for one type (FOURIER_T), with names by
 * FOURIER_NAME and instructions of FOURIER_TARGET. fourier.c includes it for
 * each of them; with FOURIER_FILLS it has the functions that fill tables.
 */
#include "fourier_passes.h"

FOURIER_TARGET static void FOURIER_NAME(run_pass)(const FOURIER_NAME(pass) * t,
                                                  int form) {
  switch (t->r) {
    case 2:
      FOURIER_NAME(run_pass_2)(t, form);
      break;
    case 3:
      FOURIER_NAME(run_pass_3)(t, form);
      break;
    case 4:
      FOURIER_NAME(run_pass_4)(t, form);
      break;
    case 5:
      FOURIER_NAME(run_pass_5)(t, form);
      break;
    case 7:
      FOURIER_NAME(run_pass_7)(t, form);
      break;
    case 8:
      FOURIER_NAME(run_pass_8)(t, form);
      break;
    default:
      FOURIER_NAME(run_pass_any)(t);
  }
}

/* All passes over `lanes` lines of plan->size elements. */
FOURIER_TARGET static void FOURIER_NAME(run_lanes)(const tensor_fourier *plan,
                                                   tensor_fourier_lines *l,
                                                   const block_ends *ends) {
  FOURIER_NAME(pass)
  t = {.plan = plan, .n = plan->size, .s = l->lanes, .unit = 1};
  t.tr = (const FOURIER_T *)ends->turn_cosine;
  t.ti = (const FOURIER_T *)ends->turn_sine;
  t.step = ends->step;
  t.sign = (FOURIER_T)ends->sign;
  t.fr = (FOURIER_T)ends->factor[0];
  t.fi = (FOURIER_T)ends->factor[1];
  for (int32_t i = 0; i < plan->n_factors; ++i) {
    const int form = find_form(plan, ends, i);
    t.r = plan->factor[i];
    t.xr = (const FOURIER_T *)(i == 0 && ends->from_pairs ? ends->from_pairs
                                                          : l->real);
    t.xi = (const FOURIER_T *)l->imaginary;
    t.yr = (FOURIER_T *)(form == TIMES_TABLE ? ends->to_real
                         : form == TO_PAIRS  ? ends->to_pairs
                                             : l->other_real);
    t.yi = (FOURIER_T *)(form == TIMES_TABLE ? ends->to_imaginary
                                             : l->other_imaginary);
    FOURIER_NAME(run_pass)(&t, form);
    exchange_arrays(l);
    t.n /= t.r;
    t.s *= t.r;
    t.unit *= t.r;
  }
}

/* Loads a block of columns from pairs or from arrays; missing ones are 0. */
FOURIER_TARGET static void FOURIER_NAME(load_block)(
    const tensor_fourier_lines *l, const tensor_fourier_lines *part,
    const block_copy *c) {
  for (int64_t k = 0; k < c->n; ++k) {
    FOURIER_T *re = (FOURIER_T *)part->real + k * FOURIER_LANES;
    FOURIER_T *im = (FOURIER_T *)part->imaginary + k * FOURIER_LANES;
    const int64_t at = c->first + k * c->step;
    for (int64_t q = 0; q < FOURIER_LANES; ++q) re[q] = im[q] = 0;
    if (l->from_pairs != NULL) {
      const FOURIER_T *x = (const FOURIER_T *)l->from_pairs + 2 * at;
      for (int64_t q = 0; q < c->width; ++q) {
        re[q] = x[2 * q];
        im[q] = (FOURIER_T)l->sign * x[2 * q + 1];
      }
      continue;
    }
    for (int64_t q = 0; q < c->width; ++q) {
      re[q] = ((const FOURIER_T *)l->real)[at + q];
      im[q] = ((const FOURIER_T *)l->imaginary)[at + q];
    }
  }
}

FOURIER_TARGET static void FOURIER_NAME(store_block)(
    const tensor_fourier_lines *l, const tensor_fourier_lines *part,
    const block_copy *c) {
  for (int64_t k = 0; k < c->n; ++k) {
    const FOURIER_T *re = (const FOURIER_T *)part->real + k * FOURIER_LANES;
    const FOURIER_T *im =
        (const FOURIER_T *)part->imaginary + k * FOURIER_LANES;
    const int64_t at = c->first + k * c->step;
    if (l->to_pairs != NULL) {
      FOURIER_T *x = (FOURIER_T *)l->to_pairs + 2 * at;
      for (int64_t q = 0; q < c->width; ++q) {
        x[2 * q] = (FOURIER_T)l->factor[0] * re[q];
        x[2 * q + 1] = (FOURIER_T)l->factor[1] * im[q];
      }
      continue;
    }
    for (int64_t q = 0; q < c->width; ++q) {
      ((FOURIER_T *)l->real)[at + q] = re[q];
      ((FOURIER_T *)l->imaginary)[at + q] = im[q];
    }
  }
}

/* The columns of a line as a matrix, and products with the roots of the whole
 * line. The results are in the other arrays, block by block. */
FOURIER_TARGET static void FOURIER_NAME(run_columns)(const tensor_fourier *plan,
                                                     tensor_fourier_lines *l) {
  const int64_t n = plan->columns->size, next = plan->rows->size;
  const int fuses = has_fused_ends(plan->columns);
  for (int64_t c = 0; c < next; c += FOURIER_LANES) {
    const int64_t width = next - c < FOURIER_LANES ? next - c : FOURIER_LANES;
    const int64_t at = c * n; /* of the block */
    const block_copy in = {n, c, next, width};
    const FOURIER_T *wr = (const FOURIER_T *)plan->turn_cosine + at;
    const FOURIER_T *wi = (const FOURIER_T *)plan->turn_sine + at;
    FOURIER_T *yr = (FOURIER_T *)l->other_real + at;
    FOURIER_T *yi = (FOURIER_T *)l->other_imaginary + at;
    tensor_fourier_lines part = find_part(plan, l);
    block_ends ends = {.step = next, .sign = l->sign};
    if (fuses) {
      ends.turn_cosine = wr;
      ends.turn_sine = wi;
      ends.to_real = yr;
      ends.to_imaginary = yi;
    }
    if (fuses && l->from_pairs != NULL && width == FOURIER_LANES)
      ends.from_pairs = (const FOURIER_T *)l->from_pairs + 2 * c;
    else
      FOURIER_NAME(load_block)(l, &part, &in);
    FOURIER_NAME(run_lanes)(plan->columns, &part, &ends);
    const FOURIER_T *xr = (const FOURIER_T *)part.real;
    const FOURIER_T *xi = (const FOURIER_T *)part.imaginary;
    const int64_t rest = fuses ? 0 : n * FOURIER_LANES;
    TN_KERNEL_INDEPENDENT
    for (int64_t i = 0; i < rest; ++i) {
      yr[i] = xr[i] * wr[i] - xi[i] * wi[i];
      yi[i] = xr[i] * wi[i] + xi[i] * wr[i];
    }
  }
}

/* The rows, FOURIER_LANES at a time; results of a row are a column. */
FOURIER_TARGET static void FOURIER_NAME(run_rows)(const tensor_fourier *plan,
                                                  tensor_fourier_lines *l) {
  const int64_t n = plan->rows->size, next = plan->columns->size;
  tn_transpose_fn *turn = tn_transpose_of(sizeof(FOURIER_T), l->level);
  for (int64_t c = 0; c < next; c += FOURIER_LANES) {
    const int64_t width = next - c < FOURIER_LANES ? next - c : FOURIER_LANES;
    const block_copy out = {n, c, next, width};
    tensor_fourier_lines part = find_part(plan, l);
    block_ends ends = {.step = next, .factor = {l->factor[0], l->factor[1]}};
    for (int64_t b = 0; b < n; b += FOURIER_LANES) {
      const int64_t left = n - b < FOURIER_LANES ? n - b : FOURIER_LANES;
      const int64_t at = b * next + c * FOURIER_LANES;
      tn_transpose t = {(char *)((FOURIER_T *)part.real + b * FOURIER_LANES),
                        (const char *)((const FOURIER_T *)l->other_real + at),
                        FOURIER_LANES,
                        FOURIER_LANES,
                        left,
                        width};
      turn(&t);
      t.to = (char *)((FOURIER_T *)part.imaginary + b * FOURIER_LANES);
      t.from = (const char *)((const FOURIER_T *)l->other_imaginary + at);
      turn(&t);
    }
    if (has_fused_ends(plan->rows) && l->to_pairs != NULL &&
        width == FOURIER_LANES)
      ends.to_pairs = (FOURIER_T *)l->to_pairs + 2 * c;
    FOURIER_NAME(run_lanes)(plan->rows, &part, &ends);
    if (ends.to_pairs == NULL) FOURIER_NAME(store_block)(l, &part, &out);
  }
}

/* Lines of `size` elements: several by all passes, one in two steps. */
FOURIER_TARGET static void FOURIER_NAME(run_passes)(const tensor_fourier *plan,
                                                    tensor_fourier_lines *l) {
  if (plan->columns == NULL) {
    const block_ends none = {.step = 0};
    FOURIER_NAME(run_lanes)(plan, l, &none);
    return;
  }
  FOURIER_NAME(run_columns)(plan, l);
  FOURIER_NAME(run_rows)(plan, l);
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
    TN_KERNEL_INDEPENDENT
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
/* exp(-2 pi i k j / size) for element j of row k of a line as a matrix, in
 * blocks of columns. */
FOURIER_TARGET static void FOURIER_NAME(fill_turns)(tensor_fourier *plan) {
  const int64_t n = plan->columns->size;
  for (int64_t j = 0; j < plan->rows->size; ++j)
    for (int64_t k = 0; k < n; ++k) {
      const int64_t at = (j / FOURIER_LANES * n + k) * FOURIER_LANES;
      const FOURIER_NAME(root) w = FOURIER_NAME(get_root)(plan, k * j);
      ((FOURIER_T *)plan->turn_cosine)[at + j % FOURIER_LANES] = w.c;
      ((FOURIER_T *)plan->turn_sine)[at + j % FOURIER_LANES] = w.s;
    }
}

FOURIER_TARGET static void FOURIER_NAME(fill_tables)(tensor_fourier *plan) {
  const double turn = 6.283185307179586476925286766559 / (double)plan->size;
  for (int64_t i = 0; i < plan->size; ++i) {
    ((FOURIER_T *)plan->cosine)[i] = (FOURIER_T)cos(turn * (double)i);
    ((FOURIER_T *)plan->sine)[i] = (FOURIER_T)-sin(turn * (double)i);
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
