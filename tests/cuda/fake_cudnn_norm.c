/* SPDX-License-Identifier: Apache-2.0
 * fake_cudnn_norm.c: batch norms and operations on elements for fake_cudnn.c,
 * by the formulas of cuDNN's documentation, in f64, an element at a time.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fake_cudnn_parts.h"

/* ------------------------------------------------------------------ reading */

/* The role of an array in an operation. */
enum {
  X,
  Y, /* the gradient of it is given */
  MEAN,
  INVERSE,
  SCALE,
  BIAS, /* and B of an operation on elements */
  EPS,
  SHARE,
  OLD_MEAN,
  OLD_VAR,
  NEW_MEAN,
  NEW_VAR,
  TO_X,
  TO_SCALE
};

static const struct role {
  int type;
  int attribute;
  int role;
  int is_written;
  int is_large; /* as large as data, and not a number for each channel */
} roles[] = {
    {DNN_OP_NORM, DNN_NORM_X, X, 0, 1},
    {DNN_OP_NORM, DNN_NORM_MEAN, MEAN, 1, 0},
    {DNN_OP_NORM, DNN_NORM_INVERSE, INVERSE, 1, 0},
    {DNN_OP_NORM, DNN_NORM_SCALE, SCALE, 0, 0},
    {DNN_OP_NORM, DNN_NORM_BIAS, BIAS, 0, 0},
    {DNN_OP_NORM, DNN_NORM_EPS, EPS, 0, 0},
    {DNN_OP_NORM, DNN_NORM_SHARE, SHARE, 0, 0},
    {DNN_OP_NORM, DNN_NORM_OLD_MEAN, OLD_MEAN, 0, 0},
    {DNN_OP_NORM, DNN_NORM_OLD_VAR, OLD_VAR, 0, 0},
    {DNN_OP_NORM, DNN_NORM_NEW_MEAN, NEW_MEAN, 1, 0},
    {DNN_OP_NORM, DNN_NORM_NEW_VAR, NEW_VAR, 1, 0},
    {DNN_OP_NORM, DNN_NORM_Y, Y, 1, 1},
    {DNN_OP_NORM_DATA, DNN_NORM_DATA_X, X, 0, 1},
    {DNN_OP_NORM_DATA, DNN_NORM_DATA_MEAN, MEAN, 0, 0},
    {DNN_OP_NORM_DATA, DNN_NORM_DATA_INVERSE, INVERSE, 0, 0},
    {DNN_OP_NORM_DATA, DNN_NORM_DATA_DY, Y, 0, 1},
    {DNN_OP_NORM_DATA, DNN_NORM_DATA_SCALE, SCALE, 0, 0},
    {DNN_OP_NORM_DATA, DNN_NORM_DATA_DSCALE, TO_SCALE, 1, 0},
    {DNN_OP_NORM_DATA, DNN_NORM_DATA_DBIAS, BIAS, 1, 0},
    {DNN_OP_NORM_DATA, DNN_NORM_DATA_DX, TO_X, 1, 1},
    {DNN_OP_POINTWISE, DNN_POINTWISE_X, X, 0, 0},
    {DNN_OP_POINTWISE, DNN_POINTWISE_B, BIAS, 0, 0},
    {DNN_OP_POINTWISE, DNN_POINTWISE_Y, Y, 1, 0},
};
enum { N_ROLES = sizeof roles / sizeof *roles };

int norm_is(const descriptor *first) {
  return first->type == DNN_OP_NORM || first->type == DNN_OP_NORM_DATA ||
         first->type == DNN_OP_POINTWISE;
}

/* The index of an array, which becomes one of the work; -1 if it cannot. */
static int array_of(norm_work *w, const descriptor *tensor) {
  const attribute *value = find(tensor, DNN_TENSOR_VALUE);
  const attribute *dims = find(tensor, DNN_TENSOR_DIMS);
  for (int i = 0; i < w->n_arrays; ++i)
    if (w->arrays[i].tensor == tensor) return i;
  if (w->n_arrays == MOST_ARRAYS || !is_dense(tensor) || dims->n > 4 ||
      word(tensor, DNN_TENSOR_TYPE) != DNN_F32)
    return -1;
  norm_array *a = &w->arrays[w->n_arrays];
  *a = (norm_array){.tensor = tensor, .dims = {1, 1, 1, 1}, .size = 1};
  a->is_number = value && value->v.flag;
  for (int64_t d = 0; d < dims->n; ++d) {
    a->dims[d] = dims->v.ints[d];
    a->size *= dims->v.ints[d];
  }
  return w->n_arrays++;
}

/* Nothing is read before it is there, or written twice. */
static int add_array(norm_work *w, const struct role *role,
                     const descriptor *tensor, norm_step *step) {
  const int i = tensor ? array_of(w, tensor) : -1;
  if (i < 0) return refuse(DNN_NOT_SUPPORTED, "an array is not dense f32");
  norm_array *a = &w->arrays[i];
  if (role->is_written ? a->is_written || a->is_number
                       : is_virtual(tensor) != a->is_written)
    return refuse(BAD_PARAM, "operations do not follow each other");
  a->is_written |= role->is_written;
  step->arrays[role->role] = i;
  return DNN_OK;
}

static int read_step(norm_work *w, const descriptor *op) {
  norm_step *step = &w->steps[w->n_steps++];
  int status = norm_is(op) ? DNN_OK
                           : refuse(DNN_NOT_SUPPORTED,
                                    "such operations are "
                                    "not simulated together");
  step->type = op->type;
  for (int i = 0; i < MOST_ROLES; ++i) step->arrays[i] = -1;
  for (int i = 0; i < N_ROLES && status == DNN_OK; ++i)
    if (roles[i].type == op->type && find(op, roles[i].attribute))
      status = add_array(w, &roles[i], part(op, roles[i].attribute), step);
  if (status != DNN_OK || op->type != DNN_OP_POINTWISE) return status;
  const descriptor *how = part(op, DNN_POINTWISE_OF);
  if (!how) return BAD_PARAM;
  step->mode = word(how, DNN_POINTWISE_MODE_OF);
  if (step->mode == DNN_POINTWISE_RELU &&
      (!find(how, DNN_POINTWISE_NAN) || word(how, DNN_POINTWISE_NAN) != 1))
    return refuse(DNN_NOT_SUPPORTED, "only NaN that is passed on is simulated");
  return DNN_OK;
}

static int is_like(const norm_array *a, const norm_array *data, int is_large) {
  for (int d = 0; d < 4; ++d)
    if (a->dims[d] != (is_large || d == 1 ? data->dims[d] : 1)) return 0;
  return 1;
}

/* Of a batch norm every array is as large as it should be; of operations on
 * elements the other goes along, or is one number where it is not. */
static int check_step(const norm_work *w, const norm_step *step) {
  const norm_array *x = &w->arrays[step->arrays[X]];
  for (int i = 0; i < N_ROLES; ++i) {
    const int which = step->arrays[roles[i].role];
    if (roles[i].type != step->type || which < 0) continue;
    const norm_array *a = &w->arrays[which];
    const int is_element = step->type == DNN_OP_POINTWISE;
    int fits = a->is_number ? a->size == 1
                            : is_like(a, x, roles[i].is_large || is_element);
    if (is_element && roles[i].role == BIAS)
      for (int d = fits = 1; d < 4; ++d)
        fits &= a->dims[d] == x->dims[d] || a->dims[d] == 1;
    if (!fits) return refuse(SHAPE_MISMATCH, "shapes do not fit");
  }
  return DNN_OK;
}

int norm_read(const attribute *ops, norm_work *out) {
  int status = DNN_OK;
  memset(out, 0, sizeof *out);
  if (ops->n > MOST_STEPS)
    return refuse(DNN_NOT_SUPPORTED, "there are too many operations");
  for (int64_t i = 0; i < ops->n && status == DNN_OK; ++i)
    status = read_step(out, ops->v.pointers[i]);
  for (int i = 0; i < out->n_steps && status == DNN_OK; ++i)
    status = check_step(out, &out->steps[i]);
  return status;
}

int norm_engine(const norm_work *w) {
  const norm_array *x = &w->arrays[w->steps[0].arrays[X]];
  const int64_t rank = find(x->tensor, DNN_TENSOR_DIMS)->n;
  /* of several matrices, which the real one takes, all but the first are wrong
   * there */
  if (w->steps[0].type == DNN_OP_POINTWISE)
    return rank == 3 && x->dims[0] == 1 ? ENGINE_TF32 : -1;
  return rank == 4 && x->dims[1] % 4 == 0 ? ENGINE_PLAIN : -1;
}

int norm_bind(norm_work *w, const descriptor *pack) {
  int status = DNN_OK;
  for (int i = 0; i < w->n_arrays && status == DNN_OK; ++i) {
    norm_array *a = &w->arrays[i];
    if (!is_virtual(a->tensor)) a->at = pointer_of(pack, a->tensor, &status);
    if (status == DNN_OK && a->is_number) a->number = *(const float *)a->at;
  }
  return status;
}

/* ---------------------------------------------------------------- computing */

/* Arrays as f64 while a graph is run. */
typedef struct bench {
  const norm_work *work;
  double *v[MOST_ARRAYS];
} bench;

static double *of(const bench *b, const norm_step *step, int role) {
  return step->arrays[role] < 0 ? NULL : b->v[step->arrays[role]];
}

static double one(int mode, double x, double other) {
  switch (mode) {
    case DNN_POINTWISE_ADD:
      return x + other;
    case DNN_POINTWISE_MUL:
      return x * other;
    case DNN_POINTWISE_SUB:
      return x - other;
    case DNN_POINTWISE_RSQRT:
      return 1 / sqrt(x);
    case DNN_POINTWISE_RELU:
      return x > 0 || isnan(x) ? x : 0;
    default:
      abort();
  }
}

/* The place of the other's element: dimensions of one element repeat it. */
static int64_t place_of(const norm_array *x, const norm_array *other,
                        int64_t i) {
  int64_t index[4], at = 0;
  for (int d = 3; d >= 0; --d) {
    index[d] = i % x->dims[d];
    i /= x->dims[d];
  }
  for (int d = 0; d < 4; ++d)
    at = at * other->dims[d] + (other->dims[d] == 1 ? 0 : index[d]);
  return at;
}

static void run_elements(const bench *b, const norm_step *step) {
  const norm_array *x = &b->work->arrays[step->arrays[X]];
  const double *other = of(b, step, BIAS);
  for (int64_t i = 0; i < x->size; ++i) {
    double second = 0;
    if (other)
      second = other[place_of(x, &b->work->arrays[step->arrays[BIAS]], i)];
    of(b, step, Y)[i] = one(step->mode, of(b, step, X)[i], second);
  }
}

/* The elements of a channel: element j of image n is at (n*channels + c)*size +
 * j. */
typedef struct channel {
  int64_t images;
  int64_t channels;
  int64_t size;
  int64_t c;
} channel;

static channel channel_of(const bench *b, const norm_step *step) {
  const norm_array *x = &b->work->arrays[step->arrays[X]];
  return (channel){x->dims[0], x->dims[1], x->dims[2] * x->dims[3], 0};
}

static int64_t count(const channel *k) {
  return k->images * k->size;
}

static int64_t at(const channel *k, int64_t i) {
  return (i / k->size * k->channels + k->c) * k->size + i % k->size;
}

static void run_training(const bench *b, const norm_step *step, channel k) {
  const double *x = of(b, step, X), n = (double)count(&k);
  const double share = *of(b, step, SHARE);
  double mean = 0, var = 0;
  for (int64_t i = 0; i < count(&k); ++i) mean += x[at(&k, i)] / n;
  for (int64_t i = 0; i < count(&k); ++i)
    var += (x[at(&k, i)] - mean) * (x[at(&k, i)] - mean) / n;
  const double inverse = 1 / sqrt(var + *of(b, step, EPS));
  for (int64_t i = 0; i < count(&k); ++i)
    of(b, step, Y)[at(&k, i)] =
        of(b, step, SCALE)[k.c] * (x[at(&k, i)] - mean) * inverse +
        of(b, step, BIAS)[k.c];
  of(b, step, MEAN)[k.c] = mean;
  of(b, step, INVERSE)[k.c] = inverse;
  of(b, step, NEW_MEAN)[k.c] =
      (1 - share) * of(b, step, OLD_MEAN)[k.c] + share * mean;
  of(b, step, NEW_VAR)[k.c] =
      (1 - share) * of(b, step, OLD_VAR)[k.c] + share * var * n / (n - 1);
}

static void run_gradients(const bench *b, const norm_step *step, channel k) {
  const double *x = of(b, step, X), *head = of(b, step, Y);
  const double mean = of(b, step, MEAN)[k.c], n = (double)count(&k);
  const double inverse = of(b, step, INVERSE)[k.c];
  double to_bias = 0, to_scale = 0;
  for (int64_t i = 0; i < count(&k); ++i) {
    to_bias += head[at(&k, i)];
    to_scale += head[at(&k, i)] * (x[at(&k, i)] - mean) * inverse;
  }
  for (int64_t i = 0; i < count(&k); ++i)
    of(b, step, TO_X)[at(&k, i)] = of(b, step, SCALE)[k.c] * inverse / n *
                                   (n * head[at(&k, i)] - to_bias -
                                    (x[at(&k, i)] - mean) * inverse * to_scale);
  of(b, step, BIAS)[k.c] = to_bias;
  of(b, step, TO_SCALE)[k.c] = to_scale;
}

static void run_step(const bench *b, const norm_step *step) {
  channel k = channel_of(b, step);
  if (step->type == DNN_OP_POINTWISE) run_elements(b, step);
  for (; step->type != DNN_OP_POINTWISE && k.c < k.channels; ++k.c)
    if (step->type == DNN_OP_NORM)
      run_training(b, step, k);
    else
      run_gradients(b, step, k);
}

void norm_run(fake *f, const void *arg) {
  bench b = {.work = arg};
  for (int i = 0; i < b.work->n_arrays; ++i) {
    const norm_array *a = &b.work->arrays[i];
    b.v[i] = calloc((size_t)a->size, sizeof(double));
    if (!b.v[i]) abort();
    if (a->is_number) b.v[i][0] = a->number;
    for (int64_t j = 0; a->at && !a->is_number && j < a->size; ++j)
      b.v[i][j] = fake_get(fake_reach(f, a->at), DNN_F32, j);
  }
  for (int i = 0; i < b.work->n_steps; ++i) run_step(&b, &b.work->steps[i]);
  for (int i = 0; i < b.work->n_arrays; ++i) {
    const norm_array *a = &b.work->arrays[i];
    for (int64_t j = 0; a->at && a->is_written && j < a->size; ++j)
      fake_put(fake_reach(f, a->at), DNN_F32, j, b.v[i][j]);
    free(b.v[i]);
  }
}
