/* SPDX-License-Identifier: Apache-2.0
 * index.c: a[key] and a[key] = value. Integers, slices, None and ... give
 * views; arrays as indices are computed by tenon._array.
 */
#include "core.h"

/* A view that is indexed step by step. */
typedef struct view {
  tn_array *array; /* owned */
  int32_t axis;    /* that the next index is for */
} view;

/* Replaces the array of a view. */
static int replace(view *v, tn_code code, tn_array *array) {
  if (code != TN_OK) {
    core_raise(code, NULL);
    return -1;
  }
  CORE_BRIEFLY(tn_array_release(v->array));
  v->array = array;
  return 0;
}

static int add_axis(view *v) {
  const tn_tensor *t = tn_array_tensor(v->array);
  int64_t shape[TN_MAX_NDIM];
  tn_array *array = NULL;
  if (t->ndim == TN_MAX_NDIM) {
    PyErr_Format(PyExc_IndexError, "an array has at most %d dimensions",
                 TN_MAX_NDIM);
    return -1;
  }
  for (int32_t i = 0; i < t->ndim; ++i)
    shape[i < v->axis ? i : i + 1] = t->shape[i];
  shape[v->axis] = 1;
  const tn_code code = tn_array_reshape(v->array, t->ndim + 1, shape, &array);
  ++v->axis;
  return replace(v, code, array);
}

static int check_axis(const view *v) {
  const tn_tensor *t = tn_array_tensor(v->array);
  if (v->axis < t->ndim) return 0;
  PyErr_Format(PyExc_IndexError,
               "too many indices: the array has %d dimensions", (int)t->ndim);
  return -1;
}

static int take_slice(view *v, PyObject *slice) {
  Py_ssize_t begin, end, step;
  tn_array *array = NULL;
  if (check_axis(v) || PySlice_Unpack(slice, &begin, &end, &step)) return -1;
  const int64_t size = tn_array_tensor(v->array)->shape[v->axis];
  const Py_ssize_t n =
      PySlice_AdjustIndices((Py_ssize_t)size, &begin, &end, step);
  tn_range range = {.axis = v->axis, .begin = begin, .end = end, .step = step};
  if (n == 0)
    range = (tn_range){.axis = v->axis, .step = 1};
  else if (end < 0)
    range.end = -size - 1; /* before the first element */
  const tn_code code = tn_array_slice(v->array, &range, &array);
  ++v->axis;
  return replace(v, code, array);
}

static int take_index(view *v, PyObject *item) {
  tn_array *array = NULL;
  const Py_ssize_t index = PyNumber_AsSsize_t(item, PyExc_IndexError);
  if ((index == -1 && PyErr_Occurred()) || check_axis(v)) return -1;
  const tn_code code = tn_array_index(v->array, v->axis, index, &array);
  return replace(v, code, array);
}

/* Whether an index gives a view. A bool is an index of its own kind. */
static bool is_basic(PyObject *item) {
  if (item == Py_None || item == Py_Ellipsis) return true;
  if (PyBool_Check(item) || core_is_array(item)) return false;
  return PyLong_Check(item) || PySlice_Check(item) ||
         (PyIndex_Check(item) && !PySequence_Check(item) &&
          !core_is_numpy_bool(item));
}

static int take_item(view *v, PyObject *item, Py_ssize_t n_used) {
  if (item == Py_None) return add_axis(v);
  if (PySlice_Check(item)) return take_slice(v, item);
  if (item != Py_Ellipsis) return take_index(v, item);
  v->axis = tn_array_tensor(v->array)->ndim - (int32_t)n_used;
  return 0;
}

/* The number of items from `first` on that use an axis; -1 for a second "...".
 */
static Py_ssize_t count_used(PyObject *key, Py_ssize_t first) {
  Py_ssize_t n = 0;
  for (Py_ssize_t i = first; i < PyTuple_Size(key); ++i) {
    PyObject *item = PyTuple_GetItem(key, i);
    if (item == Py_Ellipsis) {
      PyErr_SetString(PyExc_IndexError, "an index has at most one `...`");
      return -1;
    }
    n += item != Py_None;
  }
  return n;
}

/* 1: a view; 0: the key has an array; -1: failed. */
static int index_tuple(view *v, PyObject *key) {
  const Py_ssize_t n = PyTuple_Size(key);
  for (Py_ssize_t i = 0; i < n; ++i)
    if (!is_basic(PyTuple_GetItem(key, i))) return 0;
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject *item = PyTuple_GetItem(key, i);
    const Py_ssize_t used = item == Py_Ellipsis ? count_used(key, i + 1) : 0;
    if (used < 0) return -1;
    if (item == Py_Ellipsis &&
        used + v->axis > tn_array_tensor(v->array)->ndim) {
      v->axis = tn_array_tensor(v->array)->ndim;
      return check_axis(v);
    }
    if (take_item(v, item, used)) return -1;
  }
  return 1;
}

/* The view of a key; NULL without an exception if the key has an array. */
static PyObject *find_view(PyObject *self, PyObject *key) {
  view v = {tn_array_retain(core_array_of(self)), 0};
  int found;
  if (PyTuple_Check(key))
    found = index_tuple(&v, key);
  else if (!is_basic(key))
    found = 0;
  else
    found = take_item(&v, key, 0) ? -1 : 1;
  if (found == 1) return core_wrap_view((py_array *)(void *)self, v.array);
  CORE_BRIEFLY(tn_array_release(v.array));
  return NULL;
}

PyObject *core_get_item(PyObject *self, PyObject *key) {
  PyObject *found = find_view(self, key);
  if (found || PyErr_Occurred()) return found;
  return core_help("get_item", "(OO)", self, key);
}

int core_set_item(PyObject *self, PyObject *key, PyObject *value) {
  PyObject *done;
  if (!value) {
    PyErr_SetString(PyExc_TypeError, "elements of an array cannot be deleted");
    return -1;
  }
  PyObject *part = find_view(self, key);
  if (!part && PyErr_Occurred()) return -1;
  if (part && core_recording)
    done = core_help("record_item", "(OOO)", self, key, value);
  else if (part)
    done = core_help("assign", "(OO)", part, value);
  else
    done = core_help("set_item", "(OOO)", self, key, value);
  Py_XDECREF(part);
  Py_XDECREF(done);
  return done ? 0 : -1;
}
