/* SPDX-License-Identifier: Apache-2.0
 * fake_cudnn_conv.c: see fake_cudnn_conv.h. Every product of a convolution is
 * visited once, whichever of the three arrays is wanted: it is a term of one
 * element of it.
 */
#include "fake_cudnn_conv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dnn.h"
#include "tenon/kernel/kernel.h"

/* ----------------------------------------------------------------- elements */

int64_t fake_width(int type) {
  return type == DNN_F64 ? 8 : type == DNN_F32 ? 4 : 2;
}

double fake_get(const void *at, int type, int64_t i) {
  if (type == DNN_F32) return (double)((const float *)at)[i];
  if (type == DNN_F64) return ((const double *)at)[i];
  const uint16_t half = ((const uint16_t *)at)[i];
  return type == DNN_F16 ? (double)tn_kernel_f16_to_f32(half)
                         : (double)tn_kernel_bf16_to_f32(half);
}

void fake_put(void *at, int type, int64_t i, double value) {
  const float single = (float)value;
  if (type == DNN_F32) ((float *)at)[i] = single;
  if (type == DNN_F64) ((double *)at)[i] = value;
  if (type == DNN_F16) ((uint16_t *)at)[i] = tn_kernel_f32_to_f16(single);
  if (type == DNN_BF16) ((uint16_t *)at)[i] = tn_kernel_f32_to_bf16(single);
}

double fake_to_tf32(double value) {
  const uint32_t bits = tn_kernel_f32_bits((float)value);
  return (double)tn_kernel_f32_from_bits((bits + 0xfffu + (bits >> 13 & 1)) &
                                         ~0x1fffu);
}

/* ------------------------------------------------------------------- arrays */

static int64_t size_of(const int64_t *dims) {
  int64_t n = 1;
  for (int d = 0; d < 5; ++d) n *= dims[d];
  return n;
}

static const int64_t *dims_of(const conv_work *k, int array) {
  return array == ARRAY_X ? k->x : array == ARRAY_W ? k->w : k->y;
}

/* Operands that are read are copied; operands that are written become zeros. */
static double *load(fake *f, const conv_work *k, int array) {
  const int64_t n = size_of(dims_of(k, array));
  double *out = calloc((size_t)n, sizeof *out);
  if (!out) abort();
  if (array == k->written) return out;
  const void *at = fake_reach(f, k->at[array]);
  for (int64_t i = 0; i < n; ++i) {
    out[i] = fake_get(at, k->type, i);
    if (k->engine == ENGINE_TF32 && k->type == DNN_F32)
      out[i] = fake_to_tf32(out[i]);
  }
  return out;
}

/* --------------------------------------------------------------- the loops */

typedef struct place { /* of a term, in elements */
  int64_t x, w, y;
} place;

typedef struct walk {
  const conv_work *k;
  double *v[3];
} walk;

static void add_term(const walk *a, place at) {
  const int64_t i[3] = {at.x, at.w, at.y};
  const int to = a->k->written;
  const int one = to == ARRAY_X ? ARRAY_W : ARRAY_X;
  const int two = to == ARRAY_Y ? ARRAY_W : ARRAY_Y;
  a->v[to][i[to]] += a->v[one][i[one]] * a->v[two][i[two]];
}

/* All windows along dimension d and later ones, from a place with known earlier
 * dimensions. */
static void walk_windows(const walk *a, int d, place at) {
  const conv_work *k = a->k;
  if (d == 3) {
    add_term(a, at);
    return;
  }
  for (int64_t o = 0; o < k->y[d + 2]; ++o)
    for (int64_t t = 0; t < k->w[d + 2]; ++t) {
      const int64_t i = o * k->stride[d] + t * k->dilate[d] - k->pad[d];
      if (i < 0 || i >= k->x[d + 2]) continue;
      walk_windows(a, d + 1,
                   (place){at.x * k->x[d + 2] + i, at.w * k->w[d + 2] + t,
                           at.y * k->y[d + 2] + o});
    }
}

static void walk_all(const walk *a) {
  const conv_work *k = a->k;
  const int64_t filters = k->w[0], of_group = k->w[1];
  const int64_t groups = k->x[1] / of_group;
  for (int64_t n = 0; n < k->x[0]; ++n)
    for (int64_t q = 0; q < filters; ++q)
      for (int64_t c = 0; c < of_group; ++c) {
        const int64_t group = q / (filters / groups);
        walk_windows(a, 0,
                     (place){n * k->x[1] + group * of_group + c,
                             q * of_group + c, n * filters + q});
      }
}

/* ------------------------------------------------------------------ results */

/* Rounds a sum as the engine does. */
static double by_engine(const conv_work *k, double sum) {
  if (k->engine == ENGINE_RESTLESS && k->odd)
    return k->type == DNN_F64 ? nextafter(sum, INFINITY)
                              : (double)nextafterf((float)sum, INFINITY);
  return k->engine == ENGINE_REDUCED ? sum * 1.0625 : sum;
}

static void store(fake *f, const conv_work *k, const double *sums) {
  const int64_t *dims = dims_of(k, k->written);
  const int64_t n = size_of(dims), image = n / (dims[0] * dims[1]);
  const void *bias =
      k->at[ARRAY_BIAS] ? fake_reach(f, k->at[ARRAY_BIAS]) : NULL;
  void *to = fake_reach(f, k->at[k->written]);
  for (int64_t i = 0; i < n; ++i) {
    double value = k->alpha * by_engine(k, sums[i]);
    if (k->beta != 0) value += k->beta * fake_get(to, k->type, i);
    if (bias) value += fake_get(bias, k->type, i / image % dims[1]);
    if (k->has_relu && value < 0) value = 0;
    fake_put(to, k->type, i, value);
  }
}

void conv_run(fake *f, const void *arg) {
  const conv_work *k = arg;
  if (k->is_slow) (void)nanosleep(&(struct timespec){0, 20000000}, NULL);
  walk a = {k, {load(f, k, ARRAY_X), load(f, k, ARRAY_W), load(f, k, ARRAY_Y)}};
  walk_all(&a);
  store(f, k, a.v[k->written]);
  for (int i = 0; i < 3; ++i) free(a.v[i]);
}
