/* SPDX-License-Identifier: Apache-2.0
 * host.c: see host.h. Conversions go through integers and ldexp, not through
 * the library's own.
 */
#include "host.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

tn_runtime *host_open(void) {
  tn_runtime *rt = NULL;
  OK(tn_runtime_create(NULL, &rt));
  OK(tn_plugin_load(rt, PLUGIN_FILE));
  return rt;
}

void host_load_all(tn_runtime *rt, const char *files) {
  char *list = strdup(files), *rest = NULL;
  cr_assert_not_null(list);
  for (char *f = strtok_r(list, ":", &rest); f; f = strtok_r(NULL, ":", &rest))
    OK(tn_plugin_load(rt, f));
  free(list);
}

tn_operator *host_operator(tn_runtime *rt, const char *name) {
  tn_operator *op = NULL;
  OK(tn_operator_get(rt, name, &op));
  return op;
}

tn_params *host_params(tn_operator *op, const char *text) {
  tn_params *params = NULL;
  OK(tn_params_parse(op, text, &params));
  return params;
}

/* The f16 nearest to a double in the range of a half. */
static uint16_t half_of(double value) {
  int exponent = 0;
  if (value == 0) return 0;
  const double fraction = frexp(fabs(value), &exponent); /* [0.5, 1) */
  const int bits = (int)lround(ldexp(fraction, 11)) - 1024;
  return (uint16_t)((value < 0 ? 0x8000 : 0) | (exponent + 14) << 10 | bits);
}

static double half_value(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double magnitude = exponent == 0
                               ? ldexp(fraction, -24)
                               : ldexp(1024 + fraction, exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

static void store(tn_dtype dtype, void *at, double value) {
  const float single = (float)value;
  uint16_t half = 0;
  uint32_t bits = 0;
  switch (dtype) {
    case TN_F64:
      memcpy(at, &value, 8);
      break;
    case TN_F32:
      memcpy(at, &single, 4);
      break;
    case TN_F16:
      half = half_of(value);
      memcpy(at, &half, 2);
      break;
    default: /* bf16: values of the tests have at most seven fraction bits */
      memcpy(&bits, &single, 4);
      bits >>= 16;
      memcpy(at, &bits, 2);
  }
}

static double load(tn_dtype dtype, const void *at) {
  double value = 0;
  float single = 0;
  uint16_t half = 0;
  uint32_t bits = 0;
  int64_t whole = 0;
  switch (dtype) {
    case TN_F64:
      memcpy(&value, at, 8);
      return value;
    case TN_I64:
      memcpy(&whole, at, 8);
      return (double)whole;
    case TN_F32:
      memcpy(&single, at, 4);
      return (double)single;
    case TN_F16:
      memcpy(&half, at, 2);
      return half_value(half);
    default:
      memcpy(&half, at, 2);
      bits = (uint32_t)half << 16;
      memcpy(&single, &bits, 4);
      return (double)single;
  }
}

tn_array *host_array(tn_runtime *rt, tn_dtype dtype, host_shape shape,
                     const double *values) {
  const tn_spec spec = {dtype, shape.ndim, shape.dims};
  const size_t width = (size_t)tn_dtype_bytes(dtype);
  unsigned char bytes[HOST_MAX * 8];
  tn_array *array = NULL;
  OK(tn_array_create(rt, &spec, &array));
  const size_t n = (size_t)tn_array_size(array);
  cr_assert_leq(n, HOST_MAX);
  for (size_t i = 0; i < n; ++i) store(dtype, bytes + i * width, values[i]);
  OK(tn_array_set(array, bytes, n * width));
  return array;
}

int64_t host_values(tn_array *array, double *values) {
  const tn_dtype dtype = tn_array_tensor(array)->dtype;
  const size_t width = (size_t)tn_dtype_bytes(dtype);
  const int64_t n = tn_array_size(array);
  unsigned char bytes[HOST_MAX * 8];
  cr_assert_leq(n, HOST_MAX);
  OK(tn_array_get(array, bytes, (size_t)n * width));
  for (int64_t i = 0; i < n; ++i)
    values[i] = load(dtype, bytes + (size_t)i * width);
  return n;
}

void host_expect(tn_array *array, const double *values, int64_t n,
                 double tolerance) {
  double got[HOST_MAX];
  cr_assert_eq(host_values(array, got), n);
  for (int64_t i = 0; i < n; ++i) {
    const double limit = tolerance * fmax(1, fabs(values[i]));
    cr_assert(fabs(got[i] - values[i]) <= limit,
              "element %lld: %.17g, not %.17g", (long long)i, got[i],
              values[i]);
  }
}

tn_array *host_many(tn_runtime *rt, tn_dtype dtype, int32_t ndim,
                    const int64_t *dims, const double *values) {
  tn_array *wide = NULL, *out = NULL;
  OK(tn_array_create(rt, &(tn_spec){TN_F64, ndim, dims}, &wide));
  OK(tn_array_set(wide, values, (size_t)tn_array_size(wide) * sizeof *values));
  OK(tn_array_cast(wide, dtype, &out));
  tn_array_release(wide);
  return out;
}

tn_array *host_operand_array(tn_runtime *rt, tn_dtype dtype,
                             const host_operand *from) {
  return host_many(rt, dtype, from->shape.ndim, from->shape.dims, from->v);
}

int64_t host_count(const host_shape *shape) {
  int64_t n = 1;
  for (int32_t d = 0; d < shape->ndim; ++d) n *= shape->dims[d];
  return n;
}

void host_expect_shape(tn_array *array, const host_shape *want, const char *op,
                       const char *params) {
  const tn_tensor *got = tn_array_tensor(array);
  cr_assert_eq(got->ndim, want->ndim, "%s %s: rank %d", op, params, got->ndim);
  for (int32_t d = 0; d < got->ndim; ++d)
    cr_assert_eq(got->shape[d], want->dims[d], "%s %s: dimension %d", op,
                 params, d);
}

void host_expect_operand(tn_array *array, const host_operand *want,
                         double tolerance, const char *op, const char *params) {
  host_expect_shape(array, &want->shape, op, params);
  host_expect(array, want->v, host_count(&want->shape), tolerance);
}

double *host_many_values(tn_array *array) {
  const size_t n = (size_t)tn_array_size(array);
  double *v = malloc((n + 1) * sizeof *v);
  tn_array *wide = NULL;
  cr_assert_not_null(v);
  OK(tn_array_cast(array, TN_F64, &wide));
  OK(tn_array_get(wide, v, n * sizeof *v));
  tn_array_release(wide);
  return v;
}

double *host_near_values(tn_array *array) {
  tn_array *near = NULL;
  OK(tn_array_to(array, (tn_place){TN_DEVICE_CPU, 0}, &near));
  double *v = host_many_values(near);
  tn_array_release(near);
  return v;
}

double *host_draw(int64_t n, uint64_t seed) {
  double *v = malloc(((size_t)n + 1) * sizeof *v);
  cr_assert_not_null(v);
  for (int64_t i = 0; i < n; ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    v[i] = (double)((int64_t)(seed >> 40) % 9 - 4) / 4;
  }
  return v;
}
