/* SPDX-License-Identifier: Apache-2.0
 * test/value.h: a part of test.h: numbers from the text of an example, arrays
 * that hold them as any element type and in any layout, and back.
 */
#ifndef TENON_TEST_VALUE_H_
#define TENON_TEST_VALUE_H_

/* The numbers of an operand as an element type, dense. */
typedef struct tn_test_typed {
  tn_dtype dtype; /* TN_DTYPE_UNKNOWN: of none yet */
  void *bytes;
} tn_test_typed;

/* Numbers of one operand; `v` NULL: it is not given. */
typedef struct tn_test_values {
  int32_t ndim;
  int64_t shape[TN_MAX_NDIM];
  size_t n;
  double *v;
  tn_test_typed *typed; /* the last type asked for; or NULL */
} tn_test_values;

enum { TN_TEST_MAX = 64 }; /* operands of a list, at most */

/* The operands of one list of an operator. */
typedef struct tn_test_list {
  size_t n;
  tn_test_values v[TN_TEST_MAX];
} tn_test_list;

static void tn_test_list_free(tn_test_list *list) {
  for (size_t i = 0; i < TN_TEST_MAX; ++i) {
    if (list->v[i].typed != NULL) free(list->v[i].typed->bytes);
    free(list->v[i].typed);
    free(list->v[i].v);
  }
  *list = (tn_test_list){0};
}

/* ----------------------------------------------------------------- parsing */

/* One number or list; a list without an end ends with the text. */
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

/* Finds the first free place of the operand of that name; TN_TEST_MAX if there
 * is none. */
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

/* Whether the last of the operands is a list. */
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
    list->v[at].typed = calloc(1, sizeof(tn_test_typed));
    if (list->v[at].v == NULL || list->v[at].typed == NULL) return false;
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
  const bool stored = tn_test_is_storage(dtype);
  const tn_spec spec = {stored ? dtype : TN_F64, values->ndim, values->shape};
  tn_array *exact = NULL;
  *out = NULL;
  tn_code rc = tn_array_create(t->rt, &spec, &exact);
  rc = tn_test_keep(t, rc, exact);
  if (rc == TN_OK && stored) {
    *out = exact;
    return tn_test_set_storage(exact, values->v);
  }
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
  const bool stored = tn_test_is_storage(tensor->dtype);
  tn_array *exact = array;
  if (tensor->dtype != TN_F64 && !stored) {
    rc = tn_array_cast(array, TN_F64, &exact);
    rc = tn_test_keep(t, rc, exact);
  }
  if (rc != TN_OK) return rc;
  out->v = malloc((n + 1) * sizeof(double));
  if (out->v == NULL) return TN_OUT_OF_MEMORY;
  rc = stored ? tn_test_get_storage(array, out->v)
              : tn_array_get(exact, out->v, n * sizeof(double));
  out->n = n;
  out->ndim = tensor->ndim;
  for (int32_t i = 0; i < tensor->ndim; ++i) out->shape[i] = tensor->shape[i];
  return rc;
}

/* Whether the type holds these numbers: floats as something finite, and not as
 * zero unless they are; other types exactly. */
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
      *holds &= !(a < b) && !(a > b) && isnan(a) == isnan(b);
    else
      *holds &= isnan(a) ||
                (isinf(a) == isinf(b) && (a < 0 || a > 0) == (b < 0 || b > 0));
  }
  free(back.v);
  return rc;
}

/* ------------------------------------------------------------ element types */

/* The numbers have changed. */
static void tn_test_forget_typed(const tn_test_values *values) {
  if (values->typed != NULL) values->typed->dtype = TN_DTYPE_UNKNOWN;
}

/* Converts numbers to a type, by the library. The caller frees *out. */
static tn_code tn_test_encode(tn_test *t, tn_dtype dtype,
                              const tn_test_values *values, void **out) {
  const tn_test_values flat = {
      .ndim = 1, .shape = {(int64_t)values->n}, .n = values->n, .v = values->v};
  const int mark = t->n_arrays;
  tn_array *array = NULL;
  *out = NULL;
  tn_code rc = tn_test_array(t, dtype, &flat, &array);
  if (rc == TN_OK) *out = malloc(tn_test_bytes(array) + 1);
  if (rc == TN_OK && *out == NULL) rc = TN_OUT_OF_MEMORY;
  if (rc == TN_OK) rc = tn_array_get(array, *out, tn_test_bytes(array));
  tn_test_release_to(t, mark);
  return rc;
}

/* The numbers of an operand as a type; borrowed from it. */
static tn_code tn_test_as_type(tn_test *t, tn_dtype dtype,
                               const tn_test_values *values, const void **out) {
  tn_test_typed *typed = values->typed;
  tn_code rc = TN_OK;
  *out = values->v;
  if (dtype == TN_F64) return TN_OK;
  if (typed->dtype != dtype) {
    free(typed->bytes);
    typed->dtype = TN_DTYPE_UNKNOWN;
    rc = tn_test_encode(t, dtype, values, &typed->bytes);
    if (rc == TN_OK) typed->dtype = dtype;
  }
  *out = typed->bytes;
  return rc;
}

/* One number as a type, in 8 bytes. Of a packed type it is every element of the
 * first byte. */
static tn_code tn_test_as_element(tn_test *t, tn_dtype dtype, double value,
                                  char *out) {
  static char kept[TN_TEST_N_TYPES][8][8];
  static bool is_kept[TN_TEST_N_TYPES][8];
  const size_t at = value >= 0 && value < 8 ? (size_t)value : 0;
  const size_t type = (size_t)(tn_test_type_of(dtype) - tn_test_types);
  double four[4] = {value, value, value, value};
  const tn_test_values same = {.n = 4, .v = four};
  void *bytes = NULL;
  tn_code rc = TN_OK;
  if (type >= TN_TEST_N_TYPES) return TN_DTYPE;
  if (!is_kept[type][at]) {
    rc = tn_test_encode(t, dtype, &same, &bytes);
    if (rc == TN_OK)
      memcpy(kept[type][at], bytes, (size_t)tn_dtype_bytes_of(dtype, 1));
    is_kept[type][at] = rc == TN_OK;
    free(bytes);
  }
  memcpy(out, kept[type][at], 8);
  return rc;
}

/* ---------------------------------------------------------- random numbers */

/* splitmix64 */
static uint64_t tn_test_draw(tn_test *t) {
  uint64_t x = t->random += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

/* Odd multiples of 2^-11, so that f32 holds them and their neighbours exactly,
 * and none is a whole number. */
static double tn_test_uniform(tn_test *t, double low, double high) {
  const double cells = (high - low) * 1024;
  const double cell = floor((double)(tn_test_draw(t) >> 11) * 0x1p-53 * cells);
  return low + (2 * cell + 1) / 2048;
}

/* Random weights of the shape of others. */
static bool tn_test_weigh(tn_test *t, tn_test_values *out,
                          const tn_test_values *like) {
  tn_test_typed *typed = out->typed != NULL
                             ? out->typed
                             : (tn_test_typed *)calloc(1, sizeof *typed);
  free(out->v);
  *out = *like;
  out->typed = typed;
  tn_test_forget_typed(out);
  out->v = malloc((like->n + 1) * sizeof(double));
  for (size_t i = 0; i < like->n && out->v != NULL; ++i)
    out->v[i] = tn_test_uniform(t, -1, 1);
  return out->v != NULL && typed != NULL;
}

static double tn_test_dot(const tn_test_values *a, const tn_test_values *b) {
  double sum = 0;
  for (size_t i = 0; i < a->n && i < b->n; ++i) sum += a->v[i] * b->v[i];
  return sum;
}

/* ------------------------------------------------------------------ layouts */

typedef enum tn_test_layout {
  TN_TEST_DENSE,    /* up to the end of a page */
  TN_TEST_COLUMNS,  /* every other operand, from the first input on, is stored
                       with its axes in reverse order; outputs are dense */
  TN_TEST_STEPS,    /* every second element along each axis, backwards along
                       the last */
  TN_TEST_REPEATED, /* stride 0 along the first axis; inputs only */
  TN_TEST_FRONT,    /* dense, from the begin of a page */
  TN_TEST_SHIFT,    /* dense, from the second element of a page */
  TN_TEST_N_LAYOUTS
} tn_test_layout;

static const char *const tn_test_layout_names[TN_TEST_N_LAYOUTS] = {
    "dense", "columns", "steps", "repeated", "front", "shifted"};

/* Where an array of a layout is in its pages; of views the case's title and the
 * seed decide. */
static tn_test_side tn_test_side_of(const tn_test *t, tn_test_layout layout) {
  const uint64_t drawn = tn_child_hash(t->seed + 1, t->title, strlen(t->title));
  if (layout == TN_TEST_FRONT) return TN_TEST_FIRST;
  if (layout == TN_TEST_SHIFT) return TN_TEST_SHIFTED;
  if (layout == TN_TEST_DENSE) return TN_TEST_LAST;
  return (drawn >> 7 & 1) != 0 ? TN_TEST_FIRST : TN_TEST_LAST;
}

/* A kernel that takes the view for dense stays within its memory, so that it is
 * wrong and does not crash: the last axis, where the view begins at the end, is
 * half as long again. */
static void tn_test_form_steps(tn_test_form *f, const int64_t *shape) {
  int64_t whole[TN_MAX_NDIM] = {0};
  for (int32_t i = 0; i < f->ndim; ++i)
    whole[i] = (i + 1 == f->ndim ? 3 : 2) * shape[i];
  tn_test_form_dense(f, whole);
  for (int32_t i = 0; i < f->ndim; ++i) {
    f->shape[i] = shape[i];
    f->strides[i] *= 2;
  }
  if (f->ndim == 0 || f->n == 0) return;
  f->strides[f->ndim - 1] = -2;
  f->start = 2 * shape[f->ndim - 1] - 1;
}

static void tn_test_form_columns(tn_test_form *f, const int64_t *shape) {
  f->n = 1;
  for (int32_t i = 0; i < f->ndim; ++i) {
    f->shape[i] = shape[i];
    f->strides[i] = f->n;
    f->n *= shape[i];
  }
}

/* Elements that share bytes are always dense. */
static tn_test_layout tn_test_layout_for(tn_dtype dtype,
                                         tn_test_layout layout) {
  const bool view = layout == TN_TEST_COLUMNS || layout == TN_TEST_STEPS ||
                    layout == TN_TEST_REPEATED;
  return view && tn_dtype_is_packed(dtype) ? TN_TEST_DENSE : layout;
}

static tn_test_form tn_test_form_of(tn_dtype dtype, int32_t ndim,
                                    const int64_t *shape,
                                    tn_test_layout layout) {
  tn_test_form f = {.dtype = dtype, .ndim = ndim};
  layout = tn_test_layout_for(dtype, layout);
  if (layout == TN_TEST_STEPS)
    tn_test_form_steps(&f, shape);
  else if (layout == TN_TEST_COLUMNS)
    tn_test_form_columns(&f, shape);
  else
    tn_test_form_dense(&f, shape);
  if (layout == TN_TEST_REPEATED && ndim > 0 && shape[0] > 1) {
    f.n = f.strides[0];
    f.strides[0] = 0;
  }
  return f;
}

static tn_place tn_test_where(tn_array *array) {
  const tn_tensor *tensor = tn_array_tensor(array);
  const tn_place place = {tensor->device_type, tensor->device_id};
  return place;
}

/* ----------------------------------------------------- arrays of other devices
 */

static tn_code tn_test_columns(tn_test *t, const tn_spec *spec, tn_place place,
                               tn_array **out) {
  int64_t shape[TN_MAX_NDIM];
  for (int32_t i = 0; i < spec->ndim; ++i)
    shape[i] = spec->shape[spec->ndim - 1 - i];
  const tn_spec reversed = {spec->dtype, spec->ndim, shape};
  tn_array *base = NULL;
  tn_code rc = tn_array_create_on(t->rt, &reversed, place, &base);
  rc = tn_test_keep(t, rc, base);
  if (rc != TN_OK) return rc;
  rc = tn_array_transpose(base, NULL, out);
  return tn_test_keep(t, rc, *out);
}

static tn_code tn_test_steps(tn_test *t, const tn_spec *spec, tn_place place,
                             tn_array **out) {
  int64_t shape[TN_MAX_NDIM];
  for (int32_t i = 0; i < spec->ndim; ++i)
    shape[i] = (i + 1 == spec->ndim ? 3 : 2) * spec->shape[i];
  const tn_spec whole_spec = {spec->dtype, spec->ndim, shape};
  tn_code rc = tn_array_create_on(t->rt, &whole_spec, place, out);
  rc = tn_test_keep(t, rc, *out);
  for (int32_t i = 0; i < spec->ndim && rc == TN_OK; ++i) {
    const bool last = i + 1 == spec->ndim;
    tn_range range = {i, 0, 0, shape[i], 2};
    tn_array *whole = *out;
    if (shape[i] == 0) continue;
    if (last)
      range.begin = 2 * spec->shape[i] - 1, range.end = 0, range.step = -2;
    rc = tn_array_slice(whole, &range, out);
    rc = tn_test_keep(t, rc, *out);
  }
  return rc;
}

/* A new array in a layout; its content is undefined. */
static tn_code tn_test_empty(tn_test *t, const tn_spec *spec, tn_place place,
                             tn_test_layout layout, tn_array **out) {
  *out = NULL;
  layout = tn_test_layout_for(spec->dtype, layout);
  if (place.device_type == TN_DEVICE_CPU) {
    const tn_test_form form =
        tn_test_form_of(spec->dtype, spec->ndim, spec->shape, layout);
    const tn_code rc =
        tn_test_guarded(t->rt, &form, tn_test_side_of(t, layout), out);
    return tn_test_keep(t, rc, *out);
  }
  if (layout == TN_TEST_COLUMNS) return tn_test_columns(t, spec, place, out);
  if (layout == TN_TEST_STEPS) return tn_test_steps(t, spec, place, out);
  const tn_code rc = tn_array_create_on(t->rt, spec, place, out);
  return tn_test_keep(t, rc, *out);
}

/* The first entry along the first axis, repeated: as a view with stride 0, or
 * as a dense copy of it. Elements that share bytes are not repeated. */
static tn_code tn_test_repeat(tn_test *t, tn_array *array, bool dense,
                              tn_array **out) {
  const tn_tensor *tensor = tn_array_tensor(array);
  const tn_spec spec = {tensor->dtype, tensor->ndim, tensor->shape};
  *out = array;
  if (tensor->ndim == 0 || tensor->shape[0] < 2) return TN_OK;
  if (tn_dtype_is_packed(tensor->dtype)) return TN_OK;
  const tn_range first = {0, 0, 0, 1, 1};
  tn_array *part = NULL, *view = NULL;
  tn_code rc = tn_array_slice(array, &first, &part);
  rc = tn_test_keep(t, rc, part);
  if (rc != TN_OK) return rc;
  rc = tn_array_broadcast(part, tensor->ndim, tensor->shape, &view);
  rc = tn_test_keep(t, rc, view);
  *out = view;
  if (rc != TN_OK || !dense) return rc;
  rc = tn_test_empty(t, &spec, tn_test_where(array), TN_TEST_DENSE, out);
  return rc == TN_OK ? tn_array_copy(*out, view) : rc;
}

/* The same elements on another device, in a layout. */
static tn_code tn_test_lay(tn_test *t, tn_array *array, tn_place place,
                           tn_test_layout layout, tn_array **out) {
  const tn_tensor *tensor = tn_array_tensor(array);
  const tn_spec spec = {tensor->dtype, tensor->ndim, tensor->shape};
  tn_array *there = NULL;
  tn_code rc = tn_array_to(array, place, &there);
  rc = tn_test_keep(t, rc, there);
  *out = there;
  layout = tn_test_layout_for(spec.dtype, layout);
  if (rc != TN_OK || layout == TN_TEST_DENSE || layout >= TN_TEST_FRONT)
    return rc;
  if (layout == TN_TEST_REPEATED) return tn_test_repeat(t, there, false, out);
  rc = tn_test_empty(t, &spec, place, layout, out);
  return rc == TN_OK ? tn_array_copy(*out, there) : rc;
}

/* How operands are laid out, and on which device. */
typedef struct tn_test_spot {
  tn_place place;
  tn_test_layout layout;
} tn_test_spot;

/* Numbers as an array of a type. */
static tn_code tn_test_lay_values(tn_test *t, const tn_test_values *values,
                                  tn_dtype dtype, const tn_test_spot *spot,
                                  tn_array **out) {
  const tn_spec spec = {dtype, values->ndim, values->shape};
  const void *bytes = NULL;
  tn_array *array = NULL;
  *out = NULL;
  if (spot->place.device_type != TN_DEVICE_CPU) {
    const tn_code made = tn_test_array(t, dtype, values, &array);
    return made != TN_OK
               ? made
               : tn_test_lay(t, array, spot->place, spot->layout, out);
  }
  tn_code rc = tn_test_as_type(t, dtype, values, &bytes);
  if (rc == TN_OK) rc = tn_test_empty(t, &spec, spot->place, spot->layout, out);
  if (rc != TN_OK || values->n == 0) return rc;
  tn_test_region *region = tn_test_region_of(*out);
  if (spot->layout == TN_TEST_REPEATED)
    memcpy(region->first, bytes, region->n);
  else
    tn_test_scatter(*out, bytes);
  return TN_OK;
}

/* -------------------------------------------------------------- comparison */

/* A comparison of the values of `name` with the expected ones. */
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
