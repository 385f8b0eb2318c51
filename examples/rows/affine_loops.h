/* SPDX-License-Identifier: Apache-2.0
 * affine_loops.h: the loops of affine.c for one element type. affine.c includes
 * it once for each: T is the type, and NAME(f) the name of f for it.
 */

static int32_t NAME(forward)(void *arg, int64_t begin, int64_t end) {
  const loop *l = (const loop *)arg;
  const T *data = (const T *)l->data, *weight = (const T *)l->weight;
  const T *bias = (const T *)l->bias;
  T *out = (T *)l->out;
  for (int64_t i = begin; i < end; ++i)
    for (int64_t j = 0; j < l->columns; ++j) {
      const int64_t at = i * l->columns + j;
      T value = (T)l->scale * data[at] * weight[j];
      if (bias != NULL) value += bias[j];
      out[at] = l->add ? out[at] + value : value;
    }
  return TN_OK;
}

static int32_t NAME(grad_data)(void *arg, int64_t begin, int64_t end) {
  const loop *l = (const loop *)arg;
  const T *grad = (const T *)l->grad, *weight = (const T *)l->weight;
  T *out = (T *)l->out;
  for (int64_t i = begin; i < end; ++i)
    for (int64_t j = 0; j < l->columns; ++j) {
      const int64_t at = i * l->columns + j;
      const T value = (T)l->scale * grad[at] * weight[j];
      out[at] = l->add ? out[at] + value : value;
    }
  return TN_OK;
}

/* Sums are in f64 and in the order of rows, for every number of workers. */
static int32_t NAME(grad_weight)(void *arg, int64_t begin, int64_t end) {
  const loop *l = (const loop *)arg;
  const T *grad = (const T *)l->grad, *data = (const T *)l->data;
  T *out = (T *)l->out;
  for (int64_t j = begin; j < end; ++j) {
    double sum = 0;
    for (int64_t i = 0; i < l->rows; ++i)
      sum += (double)grad[i * l->columns + j] * data[i * l->columns + j];
    out[j] = (T)(l->scale * sum + (l->add ? out[j] : 0));
  }
  return TN_OK;
}

static int32_t NAME(grad_bias)(void *arg, int64_t begin, int64_t end) {
  const loop *l = (const loop *)arg;
  const T *grad = (const T *)l->grad;
  T *out = (T *)l->out;
  for (int64_t j = begin; j < end; ++j) {
    double sum = l->add ? out[j] : 0;
    for (int64_t i = 0; i < l->rows; ++i) sum += grad[i * l->columns + j];
    out[j] = (T)sum;
  }
  return TN_OK;
}

static const loops NAME(loops) = {
    NAME(forward), {NAME(grad_data), NAME(grad_weight), NAME(grad_bias)}};
