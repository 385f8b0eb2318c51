/* SPDX-License-Identifier: Apache-2.0
 * params.c: parameters of calls, from the keyword arguments of Python. Each
 * operator keeps those of its last calls.
 */
#include <stdlib.h>
#include <string.h>

#include "core.h"

/* ------------------------------------------------------------------ values */

/* Values of parameters, and objects that they borrow from. */
typedef struct values {
  tn_value *v;
  PyObject **texts; /* bytes */
  void **lists;
  size_t n;
} values;

static int set_text(values *all, tn_value *v, PyObject *text) {
  PyObject *bytes = PyUnicode_AsUTF8String(text);
  if (!bytes) return -1;
  all->texts[all->n] = bytes;
  v->type = TN_FIELD_STRING;
  v->as.s = PyBytes_AsString(bytes);
  return 0;
}

static int set_list(values *all, tn_value *v, PyObject *list,
                    const tn_field *f) {
  const bool is_text = PyBytes_Check(list) || PyByteArray_Check(list);
  const Py_ssize_t n = is_text ? -1 : PySequence_Size(list);
  if (n < 0) {
    PyErr_Format(PyExc_TypeError,
                 "it is a number, a text or a list of numbers, not %R",
                 (PyObject *)Py_TYPE(list));
    return -1;
  }
  bool floats = f->type == TN_FIELD_FLOATS;
  union {
    int64_t i;
    double d;
  } *items = malloc(((size_t)n + 1) * sizeof *items);
  if (!items) {
    PyErr_NoMemory();
    return -1;
  }
  all->lists[all->n] = items;
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject *item = PySequence_GetItem(list, i);
    if (!item) return -1;
    if (floats) {
      items[i].d = PyFloat_AsDouble(item);
    } else {
      PyObject *index = PyNumber_Index(item);
      items[i].i = index ? PyLong_AsLongLong(index) : -1;
      Py_XDECREF(index);
    }
    Py_DECREF(item);
    if (PyErr_Occurred()) return -1;
  }
  v->type = floats ? TN_FIELD_FLOATS : TN_FIELD_INTS;
  v->n = (uint32_t)n;
  if (floats)
    v->as.floats = (const double *)items;
  else
    v->as.ints = (const int64_t *)items;
  return 0;
}

static int set_number(tn_value *v, PyObject *number, const tn_field *f) {
  const bool is_float = PyFloat_Check(number) || f->type == TN_FIELD_FLOAT;
  if (is_float) {
    v->type = TN_FIELD_FLOAT;
    v->as.f = PyFloat_AsDouble(number);
  } else {
    PyObject *index = PyNumber_Index(number);
    v->type = f->type == TN_FIELD_BOOL ? TN_FIELD_BOOL : TN_FIELD_INT;
    v->as.i = index ? PyLong_AsLongLong(index) : -1;
    Py_XDECREF(index);
  }
  return PyErr_Occurred() ? -1 : 0;
}

/* A bool of NumPy. */
static int set_bool(tn_value *v, PyObject *object) {
  const int truth = PyObject_IsTrue(object);
  v->type = TN_FIELD_BOOL;
  v->as.i = truth;
  return truth < 0 ? -1 : 0;
}

bool core_is_numpy_bool(PyObject *object) {
  PyObject *name =
      PyObject_GetAttrString((PyObject *)Py_TYPE(object), "__name__");
  const bool found =
      name && (PyUnicode_CompareWithASCIIString(name, "bool") == 0 ||
               PyUnicode_CompareWithASCIIString(name, "bool_") == 0);
  Py_XDECREF(name);
  if (!name) PyErr_Clear();
  return found;
}

static int set_type(tn_value *v, PyObject *type) {
  tn_dtype dtype;
  if (core_parse_dtype(type, &dtype)) {
    if (!PyUnicode_Check(type)) return -1;
    PyErr_Clear(); /* the library refuses the name, too, and says where */
    return -1;
  }
  v->type = TN_FIELD_DTYPE;
  v->as.i = dtype;
  return 0;
}

/* Whether an object is one number. Arrays of NumPy are sequences, too. */
static bool is_number(PyObject *object) {
  if (PyFloat_Check(object) || PyLong_Check(object)) return true;
  if (!PyIndex_Check(object)) return false;
  if (!PySequence_Check(object)) return true;
  if (PySequence_Size(object) >= 0) return false;
  PyErr_Clear(); /* an array without dimensions */
  return true;
}

/* Adds the name of the parameter to an error of Python. */
static void name_parameter(const py_operator *op, const char *name) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  if (type != PyExc_TypeError && type != PyExc_OverflowError) {
    PyErr_Restore(type, value, trace);
    return;
  }
  PyErr_Format(type, "parameter `%s` of %s(): %S", name, op->name, value);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(trace);
}

static int set_value(values *all, const tn_field *f, PyObject *object) {
  tn_value *v = &all->v[all->n];
  int failed = 0;
  *v = (tn_value){.key = f->name, .type = TN_FIELD_STRING};
  if (object == Py_None)
    v->as.s = NULL;
  else if (PyUnicode_Check(object))
    failed = f->type == TN_FIELD_DTYPE && set_type(v, object) == 0
                 ? 0
                 : set_text(all, v, object);
  else if (f->type == TN_FIELD_DTYPE)
    failed = set_type(v, object);
  else if (f->type == TN_FIELD_BOOL && core_is_numpy_bool(object))
    failed = set_bool(v, object);
  else if (is_number(object) || f->type == TN_FIELD_FLOAT)
    failed = set_number(v, object, f);
  else
    failed = set_list(all, v, object, f);
  ++all->n;
  return failed;
}

static void free_values(values *all) {
  for (size_t i = 0; i < all->n; ++i) {
    Py_XDECREF(all->texts[i]);
    free(all->lists[i]);
  }
}

/* New parameters; NULL with an exception. */
static tn_params *create_params(const py_operator *op, const core_params *p) {
  tn_value v[64];
  PyObject *texts[64] = {NULL};
  void *lists[64] = {NULL};
  values all = {v, texts, lists, 0};
  tn_params *params = NULL;
  int failed = 0;
  for (uint32_t i = 0; i < p->n && !failed; ++i) {
    const tn_field *field = op->desc->params[p->fields[i]];
    failed = set_value(&all, field, p->objects[i]);
    if (failed) name_parameter(op, field->name);
  }
  if (!failed) {
    const tn_code code = tn_params_create(op->op, all.v, all.n, &params);
    if (code != TN_OK) core_raise(code, NULL);
  }
  free_values(&all);
  return params;
}

/* ------------------------------------------------------- repeated parameters
 */

/* Compares the bits: NaN is equal to itself, and -0 is not 0. */
static bool have_same_bits(double a, double b) {
  uint64_t x, y;
  memcpy(&x, &a, sizeof x);
  memcpy(&y, &b, sizeof y);
  return x == y;
}

/* Whether two values certainly mean the same. */
static bool are_same(PyObject *a, PyObject *b) {
  if (a == b)
    return PyLong_CheckExact(a) || PyFloat_CheckExact(a) ||
           PyUnicode_CheckExact(a) || PyBool_Check(a) || a == Py_None;
  if (PyFloat_CheckExact(a) && PyFloat_CheckExact(b))
    return have_same_bits(PyFloat_AsDouble(a), PyFloat_AsDouble(b));
  if (!(PyLong_CheckExact(a) && PyLong_CheckExact(b)) &&
      !(PyUnicode_CheckExact(a) && PyUnicode_CheckExact(b)))
    return false;
  const int equal = PyObject_RichCompareBool(a, b, Py_EQ);
  if (equal < 0) PyErr_Clear();
  return equal == 1;
}

static bool is_last(const py_operator *op, size_t k, const core_params *p) {
  if (!op->last[k].params || op->last[k].n != p->n) return false;
  for (uint32_t i = 0; i < p->n; ++i)
    if (op->last[k].fields[i] != p->fields[i] ||
        !are_same(PyTuple_GetItem(op->last[k].values, i), p->objects[i]))
      return false;
  return true;
}

static void keep_params(py_operator *op, const core_params *p,
                        tn_params *params) {
  const uint32_t k = op->next;
  PyObject *kept = PyTuple_New(p->n);
  for (uint32_t i = 0; kept && i < p->n; ++i) {
    Py_INCREF(p->objects[i]);
    (void)PyTuple_SetItem(kept, i, p->objects[i]);
    op->last[k].fields[i] = p->fields[i];
  }
  PyObject *old = op->last[k].values;
  tn_params_release(op->last[k].params);
  op->last[k].values = kept;
  op->last[k].params = kept ? params : NULL;
  op->last[k].n = p->n;
  op->next = 1 - k;
  Py_XDECREF(old);
  if (!kept) {
    PyErr_Clear();
    tn_params_release(params);
  }
}

const tn_params *core_find_params(py_operator *op, const core_params *p,
                                  tn_params **own) {
  *own = NULL;
  for (size_t k = 0; k < 2; ++k)
    if (is_last(op, k, p)) return op->last[k].params;
  tn_params *params = create_params(op, p);
  if (!params) return NULL;
  if (core.releases || op->may_wait || p->n > CORE_LAST) {
    *own = params; /* another thread might replace it during the call */
    return params;
  }
  keep_params(op, p, params);
  return op->last[1 - op->next].params;
}

const tn_params *core_scalar_params(py_operator *op, double scalar,
                                    tn_params **own) {
  for (size_t k = 0; k < CORE_SCALARS; ++k)
    if (op->scalars[k].params && have_same_bits(op->scalars[k].value, scalar))
      return op->scalars[k].params;
  const tn_value value = tn_value_float("scalar", scalar);
  tn_params *params = NULL;
  const tn_code code = tn_params_create(op->op, &value, 1, &params);
  if (code != TN_OK) {
    core_raise(code, NULL);
    return NULL;
  }
  if (core.releases) return *own = params; /* another call uses the others */
  const size_t k = op->next_scalar++ % CORE_SCALARS;
  tn_params_release(op->scalars[k].params);
  op->scalars[k].value = scalar;
  op->scalars[k].params = params;
  return params;
}

int core_set_dynamic(tn_prepared *call, const py_operator *op, uint32_t field,
                     PyObject *object) {
  tn_value v;
  PyObject *text = NULL;
  void *list = NULL;
  values all = {&v, &text, &list, 0};
  int failed = set_value(&all, op->desc->params[field], object);
  if (!failed) {
    const tn_code code = tn_call_set(call, &v);
    failed = code != TN_OK && !core_raise(code, NULL);
  }
  free_values(&all);
  return failed ? -1 : 0;
}
