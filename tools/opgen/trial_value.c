/* SPDX-License-Identifier: Apache-2.0
 * trial_value.c: compares computed values with those of an example, and prints
 * both.
 */
#include <math.h>
#include <string.h>

#include "examples.h"
#include "trial.h"

/* --------------------------------------------------------------- the values */

static double tolerance_of(const tnm_example *example, tn_dtype dtype) {
  if (example->tol > 0) return example->tol;
  if (dtype == TN_F64) return 1e-9;
  if (dtype == TN_F32) return 1e-5;
  return dtype == TN_F16 || dtype == TN_BF16 ? 1e-2 : 0;
}

static const tnm_data *stated_data(const tnm_example *example,
                                   const trial_value *value) {
  const tnm_example_item *items = value->grad ? example->grads : example->items;
  const size_t n = value->grad ? example->n_grads : example->n_items;
  return example_find(items, n, value->name, value->number);
}

bool trial_is_near(const tnm_example *example, tn_dtype dtype, double want,
                   double got) {
  const double tol = tolerance_of(example, dtype);
  if (want == got || (isnan(want) && isnan(got))) return true;
  if (isinf(want) || isinf(got)) return false;
  return fabs(want - got) <= tol * (1 + fabs(want));
}

double trial_distance(const tnm_example *example, const trial_value *value) {
  const tnm_data *data = stated_data(example, value);
  double most = 0;
  if (data == NULL || data->n != value->n) return INFINITY;
  for (size_t i = 0; i < value->n; ++i) {
    const double want = data->values[i], got = value->v[i];
    if (want == got || (isnan(want) && isnan(got))) continue;
    const double distance = fabs(want - got) / (1 + fabs(want));
    if (!(distance <= most)) most = distance;
  }
  return most;
}

bool trial_agrees(const tnm_example *example, const trial_value *value) {
  const tnm_data *data = stated_data(example, value);
  if (data == NULL) return true;
  if (data->n != value->n) return false;
  for (size_t i = 0; i < value->n; ++i)
    if (!trial_is_near(example, value->dtype, data->values[i], value->v[i]))
      return false;
  return true;
}

/* -------------------------------------------------------------------- texts */

/* Elements of one nested list. */
typedef struct nested {
  int32_t ndim;
  const int64_t *shape;
  const double *v;
  tn_dtype dtype;
} nested;

static void print_number(tn__buf *out, const nested *x, double value) {
  if (x->dtype == TN_BOOL)
    tn__buf_add(out, "%s", value != 0 ? "true" : "false");
  else if (value == rint(value) && fabs(value) < 1e7)
    tn__buf_add(out, "%.0f", value);
  else if (x->dtype == TN_F32)
    tn__buf_float(out, (float)value);
  else
    tn__buf_double(out, value);
}

static size_t print_nested(tn__buf *out, const nested *x, int32_t axis,
                           size_t at) {
  if (axis == x->ndim) {
    print_number(out, x, x->v[at]);
    return at + 1;
  }
  tn__buf_add(out, "[");
  for (int64_t i = 0; i < x->shape[axis]; ++i) {
    if (i > 0) tn__buf_add(out, ", ");
    at = print_nested(out, x, axis + 1, at);
  }
  tn__buf_add(out, "]");
  return at;
}

void trial_print(tn__buf *out, const trial_value *value) {
  const nested x = {value->ndim, value->shape, value->v, value->dtype};
  (void)print_nested(out, &x, 0, 0);
}

void trial_print_data(tn__buf *out, const tnm_data *data) {
  const nested x = {data->ndim, data->shape, data->values, TN_F64};
  (void)print_nested(out, &x, 0, 0);
}
