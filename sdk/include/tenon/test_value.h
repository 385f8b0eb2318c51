/* SPDX-License-Identifier: Apache-2.0
 * test_value.h: a part of test.h: numbers from the text of an example, arrays
 * that hold them as any element type and in any layout, and back.
 */
#ifndef TENON_TEST_VALUE_H_
#define TENON_TEST_VALUE_H_

/* Numbers of one operand; `v` NULL: it is not given. */
typedef struct tn_test_values {
  int32_t ndim;
  int64_t shape[TN_MAX_NDIM];
  size_t n;
  double *v;
} tn_test_values;

enum { TN_TEST_MAX = 64 }; /* operands of a list, at most */

/* The operands of one list of an operator. */
typedef struct tn_test_list {
  size_t n;
  tn_test_values v[TN_TEST_MAX];
} tn_test_list;

static void tn_test_list_free(tn_test_list *list) {
  for (size_t i = 0; i < TN_TEST_MAX; ++i) free(list->v[i].v);
  *list = (tn_test_list){0};
}

/* ----------------------------------------------------------------- parsing */

/* One number or list; what has no end ends with the text. */
static const char *tn_test_parse(const char *s, int32_t depth,
                                 tn_test_values *out) {
  if (*s != '[') {
    char *end = NULL;
    out->v[out->n++] = strtod(s, &end);
    return end > s ? end : s + strlen(s);
  }
  int64_t n = 0;
  for (++s; *s != ']' && *s != '\0' && depth < TN_MAX_NDIM; ++n) {
    s = tn_test_parse(s, depth + 1, out);
    s += strspn(s, ", ");
  }
  if (depth < TN_MAX_NDIM) out->shape[depth] = n;
  if (out->ndim <= depth) out->ndim = depth + 1;
  return *s == ']' ? s + 1 : s;
}

/* Where the operand of that name stands, behind those of its name that are
 * there already; TN_TEST_MAX if it is none. */
static size_t tn_test_place(const tn_test_list *list, const tn_arg *const *args,
                            uint32_t n_args, const char *name, size_t length) {
  for (size_t i = 0; i < n_args && i < TN_TEST_MAX; ++i) {
    if (strlen(args[i]->name) != length ||
        memcmp(args[i]->name, name, length) != 0)
      continue;
    while (i < TN_TEST_MAX && list->v[i].v != NULL) ++i;
    return i;
  }
  return TN_TEST_MAX;
}

/* Whether the last of the operands stands for many. */
static bool tn_test_is_many(const tn_arg *const *args, uint32_t n) {
  return n > 0 && ((args[n - 1]->flags & TN_ARG_VARIADIC) != 0 ||
                   args[n - 1]->count != TN_NONE);
}

/* Reads `name=value ...`. False if memory ran out or the text names no
 * operand. */
static bool tn_test_list_read(tn_test_list *list, const char *text,
                              const tn_arg *const *args, uint32_t n_args) {
  *list = (tn_test_list){.n = n_args};
  if (tn_test_is_many(args, n_args)) --list->n;
  while (text != NULL && *text != '\0') {
    const size_t length = strcspn(text, "=");
    const size_t at = tn_test_place(list, args, n_args, text, length);
    if (at == TN_TEST_MAX || text[length] == '\0') return false;
    const char *value = text + length + 1;
    list->v[at].v = calloc(strlen(value) + 1, sizeof(double));
    if (list->v[at].v == NULL) return false;
    if (at >= list->n) list->n = at + 1;
    text = tn_test_parse(value, 0, &list->v[at]);
    text += strspn(text, " ");
  }
  return true;
}

/* ------------------------------------------------------------------ arrays */

/* The array is released when the case ends. */
static tn_code tn_test_keep(tn_test *t, tn_code rc, tn_array *array) {
  if (rc != TN_OK) return rc;
  if (t->n_arrays < TN_TEST_SCRATCH) {
    t->arrays[t->n_arrays++] = array;
    return TN_OK;
  }
  tn_array_release(array);
  return TN_OUT_OF_MEMORY;
}

/* A dense array on the CPU. */
static tn_code tn_test_array(tn_test *t, tn_dtype dtype,
                             const tn_test_values *values, tn_array **out) {
  const tn_spec spec = {TN_F64, values->ndim, values->shape};
  tn_array *exact = NULL;
  *out = NULL;
  tn_code rc = tn_array_create(t->rt, &spec, &exact);
  rc = tn_test_keep(t, rc, exact);
  if (rc == TN_OK)
    rc = tn_array_set(exact, values->v, values->n * sizeof(double));
  *out = exact;
  if (rc != TN_OK || dtype == TN_F64) return rc;
  rc = tn_array_cast(exact, dtype, out);
  return tn_test_keep(t, rc, *out);
}

/* The elements as doubles; the caller frees out->v. */
static tn_code tn_test_get(tn_test *t, tn_array *array, tn_test_values *out) {
  const tn_test_values none = {0};
  *out = none;
  tn_code rc = tn_array_wait(array);
  if (rc != TN_OK) return rc;
  const tn_tensor *tensor = tn_array_tensor(array);
  const size_t n = (size_t)tn_array_size(array);
  tn_array *exact = array;
  if (tensor->dtype != TN_F64) {
    rc = tn_array_cast(array, TN_F64, &exact);
    rc = tn_test_keep(t, rc, exact);
  }
  if (rc != TN_OK) return rc;
  out->v = malloc((n + 1) * sizeof(double));
  if (out->v == NULL) return TN_OUT_OF_MEMORY;
  rc = tn_array_get(exact, out->v, n * sizeof(double));
  out->n = n;
  out->ndim = tensor->ndim;
  for (int32_t i = 0; i < tensor->ndim; ++i) out->shape[i] = tensor->shape[i];
  return rc;
}

/* Whether the type holds these numbers: integers exactly, floats as something
 * finite, and not as zero unless they are. */
static tn_code tn_test_holds(tn_test *t, tn_dtype dtype,
                             const tn_test_values *values, bool *holds) {
  tn_array *array = NULL;
  tn_test_values back = {0};
  *holds = true;
  tn_code rc = tn_test_array(t, dtype, values, &array);
  if (rc == TN_OK) rc = tn_test_get(t, array, &back);
  for (size_t i = 0; i < back.n && rc == TN_OK; ++i) {
    const double a = values->v[i], b = back.v[i];
    if (!tn_test_is_float(dtype))
      *holds &= !(a < b) && !(a > b) && !isnan(a);
    else
      *holds &= isnan(a) ||
                (isinf(a) == isinf(b) && (a < 0 || a > 0) == (b < 0 || b > 0));
  }
  free(back.v);
  return rc;
}

/* ------------------------------------------------------------------- views */

typedef enum tn_test_layout {
  TN_TEST_DENSE,
  TN_TEST_COLUMNS,  /* every other operand, from the first input on, is stored
                       with its axes in reverse order; outputs are dense */
  TN_TEST_STEPS,    /* every second element along each axis, backwards along
                       the last */
  TN_TEST_REPEATED, /* stride 0 along the first axis; inputs only */
  TN_TEST_N_LAYOUTS
} tn_test_layout;

static const char *const tn_test_layout_names[TN_TEST_N_LAYOUTS] = {
    "dense", "columns", "steps", "repeated"};

static tn_place tn_test_where(tn_array *array) {
  const tn_tensor *tensor = tn_array_tensor(array);
  const tn_place place = {tensor->device_type, tensor->device_id};
  return place;
}

static tn_code tn_test_columns(tn_test *t, tn_array *like, tn_array **out) {
  const tn_tensor *tensor = tn_array_tensor(like);
  int64_t shape[TN_MAX_NDIM];
  for (int32_t i = 0; i < tensor->ndim; ++i)
    shape[i] = tensor->shape[tensor->ndim - 1 - i];
  const tn_spec spec = {tensor->dtype, tensor->ndim, shape};
  tn_array *base = NULL;
  tn_code rc = tn_array_create_on(t->rt, &spec, tn_test_where(like), &base);
  rc = tn_test_keep(t, rc, base);
  if (rc != TN_OK) return rc;
  rc = tn_array_transpose(base, NULL, out);
  return tn_test_keep(t, rc, *out);
}

/* A kernel that takes the view for dense stays within its memory, so that it is
 * wrong and does not crash: the last axis, at whose end the view begins, is
 * half as long again. */
static tn_code tn_test_steps(tn_test *t, tn_array *like, tn_array **out) {
  const tn_tensor *tensor = tn_array_tensor(like);
  int64_t shape[TN_MAX_NDIM];
  for (int32_t i = 0; i < tensor->ndim; ++i)
    shape[i] = (i + 1 == tensor->ndim ? 3 : 2) * tensor->shape[i];
  const tn_spec spec = {tensor->dtype, tensor->ndim, shape};
  tn_code rc = tn_array_create_on(t->rt, &spec, tn_test_where(like), out);
  rc = tn_test_keep(t, rc, *out);
  for (int32_t i = 0; i < tensor->ndim && rc == TN_OK; ++i) {
    const bool last = i + 1 == tensor->ndim;
    tn_range range = {i, 0, 0, shape[i], 2};
    tn_array *whole = *out;
    if (shape[i] == 0) continue;
    if (last)
      range.begin = 2 * tensor->shape[i] - 1, range.end = 0, range.step = -2;
    rc = tn_array_slice(whole, &range, out);
    rc = tn_test_keep(t, rc, *out);
  }
  return rc;
}

/* A new array of the same type, shape and device, in another layout; its
 * content is undefined. */
static tn_code tn_test_empty(tn_test *t, tn_array *like, tn_test_layout layout,
                             tn_array **out) {
  const tn_tensor *tensor = tn_array_tensor(like);
  *out = NULL;
  if (layout == TN_TEST_COLUMNS) return tn_test_columns(t, like, out);
  if (layout == TN_TEST_STEPS) return tn_test_steps(t, like, out);
  const tn_spec spec = {tensor->dtype, tensor->ndim, tensor->shape};
  const tn_code rc = tn_array_create_on(t->rt, &spec, tn_test_where(like), out);
  return tn_test_keep(t, rc, *out);
}

/* The first entry along the first axis, repeated: as a view with stride 0, or
 * as a dense copy of it. */
static tn_code tn_test_repeat(tn_test *t, tn_array *array, bool dense,
                              tn_array **out) {
  const tn_tensor *tensor = tn_array_tensor(array);
  *out = array;
  if (tensor->ndim == 0 || tensor->shape[0] < 2) return TN_OK;
  const tn_range first = {0, 0, 0, 1, 1};
  tn_array *part = NULL, *view = NULL;
  tn_code rc = tn_array_slice(array, &first, &part);
  rc = tn_test_keep(t, rc, part);
  if (rc != TN_OK) return rc;
  rc = tn_array_broadcast(part, tensor->ndim, tensor->shape, &view);
  rc = tn_test_keep(t, rc, view);
  *out = view;
  if (rc != TN_OK || !dense) return rc;
  rc = tn_test_empty(t, array, TN_TEST_DENSE, out);
  return rc == TN_OK ? tn_array_copy(*out, view) : rc;
}

/* The same elements on a device, in a layout. */
static tn_code tn_test_lay(tn_test *t, tn_array *array, tn_place place,
                           tn_test_layout layout, tn_array **out) {
  tn_code rc = TN_OK;
  *out = array;
  if (place.device_type != TN_DEVICE_CPU) {
    rc = tn_array_to(array, place, out);
    rc = tn_test_keep(t, rc, *out);
  }
  if (rc != TN_OK || layout == TN_TEST_DENSE) return rc;
  tn_array *there = *out;
  if (layout == TN_TEST_REPEATED) return tn_test_repeat(t, there, false, out);
  rc = tn_test_empty(t, there, layout, out);
  return rc == TN_OK ? tn_array_copy(*out, there) : rc;
}

/* -------------------------------------------------------------- comparison */

/* What is compared: the values of `name` that came with those that must. */
typedef struct tn_test_match {
  const char *name;
  const tn_test_values *want;
  double offset; /* that was there before an addition */
  double tol;
} tn_test_match;

/* "(2,3)" */
static void tn_test_shape(char *out, size_t size, const tn_test_values *v) {
  size_t n = 0;
  out[0] = '\0';
  for (int32_t i = 0; i < v->ndim && n < size; ++i)
    n += (size_t)snprintf(out + n, size - n, "%s%" PRId64, i > 0 ? "," : "",
                          v->shape[i]);
}

/* "1,0" of element number i. */
static void tn_test_index(char *out, size_t size, const tn_test_values *v,
                          size_t i) {
  tn_test_values at = {.ndim = v->ndim};
  for (int32_t k = v->ndim - 1; k >= 0; --k) {
    at.shape[k] = (int64_t)i % v->shape[k];
    i /= (size_t)v->shape[k];
  }
  tn_test_shape(out, size, &at);
}

static bool tn_test_same_shape(const tn_test_values *a,
                               const tn_test_values *b) {
  bool same = a->ndim == b->ndim;
  for (int32_t i = 0; i < a->ndim && same; ++i)
    same = a->shape[i] == b->shape[i];
  return same;
}

static bool tn_test_near(double got, double want, double limit) {
  if (isnan(want)) return isnan(got);
  return (got <= want && got >= want) || fabs(got - want) <= limit;
}

/* Help where an example states fewer digits than its tolerance asks for: the
 * tolerance that it needs. Empty for other differences. */
static const char *tn_test_help_digits(char text[64], double got, double want) {
  const double distance = fabs(got - want) / fmax(1, fabs(want));
  text[0] = '\0';
  if (distance > 0 && distance < 1e-3)
    snprintf(text, 64, "; write more digits, or `tol: 1e%d` in the example",
             (int)ceil(log10(distance)));
  return text;
}

/* Compares; the case has failed if it is false. */
static bool tn_test_equal(tn_test *t, const tn_test_match *m,
                          const tn_test_values *got, tn_dtype dtype) {
  char index[256], other[256], help[64];
  const double tol = tn_test_tolerance(dtype, m->tol);
  if (!tn_test_same_shape(got, m->want)) {
    tn_test_shape(index, sizeof index, m->want);
    tn_test_shape(other, sizeof other, got);
    tn_test_fail(t, "`%s` has shape (%s), expected (%s)", m->name, other,
                 index);
    return false;
  }
  for (size_t i = 0; i < got->n; ++i) {
    const double want = m->want->v[i] + m->offset;
    const double limit = isfinite(want) ? tol * fmax(1, fabs(want)) : 0;
    if (tn_test_near(got->v[i], want, limit)) continue;
    tn_test_index(index, sizeof index, got, i);
    tn_test_fail(
        t,
        "`%s` (%s), element (%s): expected %.17g, got %.17g, "
        "tolerance %.3g%s",
        m->name, tn_test_type_of(dtype)->name, index, want, got->v[i], limit,
        dtype == TN_F64 ? tn_test_help_digits(help, got->v[i], want) : "");
    return false;
  }
  return true;
}

/* The same for an array; false also if it cannot be read. */
static bool tn_test_expect(tn_test *t, const tn_test_match *m,
                           tn_array *array) {
  tn_test_values got;
  const tn_dtype dtype = tn_array_tensor(array)->dtype;
  const tn_code rc = tn_test_get(t, array, &got);
  const bool fine = rc == TN_OK && tn_test_equal(t, m, &got, dtype);
  if (rc != TN_OK) tn_test_fail_code(t, rc);
  free(got.v);
  return fine;
}

#endif /* TENON_TEST_VALUE_H_ */
