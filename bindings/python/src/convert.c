/* SPDX-License-Identifier: Apache-2.0
 * convert.c: Python objects as arrays, types and shapes. Numbers and NumPy's
 * arrays are read here, all else by tenon._array.
 */
#include <string.h>

#include "core.h"

/* The struct of NumPy's array interface, version 3 (`__array_struct__`). */
typedef struct numpy_array {
  int two; /* the number 2 */
  int ndim;
  char kind;
  int itemsize;
  int flags;
  Py_ssize_t *shape;
  Py_ssize_t *strides;
  void *data;
  PyObject *descr;
} numpy_array;

enum {
  NUMPY_DENSE = 0x1,
  NUMPY_ALIGNED = 0x100,
  NUMPY_NATIVE = 0x200,
  NUMPY_WRITEABLE = 0x400
};

/* ------------------------------------------------------------ types, shapes */

int core_parse_dtype(PyObject *object, tn_dtype *out) {
  PyObject *number;
  if (PyLong_Check(object)) {
    Py_INCREF(object);
    number = object;
  } else {
    number = core_help("dtype_number", "(O)", object);
  }
  if (!number) return -1;
  *out = (tn_dtype)PyLong_AsUnsignedLong(number);
  Py_DECREF(number);
  return PyErr_Occurred() ? -1 : 0;
}

/* A size: an int, or an object that is one (__index__). */
static int parse_size(PyObject *object, int64_t *out) {
  PyObject *index = PyNumber_Index(object);
  if (!index) return -1;
  *out = PyLong_AsLongLong(index);
  Py_DECREF(index);
  return *out == -1 && PyErr_Occurred() ? -1 : 0;
}

int core_parse_shape(PyObject *object, int64_t shape[TN_MAX_NDIM]) {
  if (PyIndex_Check(object) && !PySequence_Check(object))
    return parse_size(object, shape) ? -1 : 1;
  const Py_ssize_t n = PySequence_Size(object);
  if (n < 0) {
    PyErr_Format(PyExc_TypeError,
                 "a shape is an int or a sequence of ints, not %R", object);
    return -1;
  }
  if (n > TN_MAX_NDIM) {
    PyErr_Format(PyExc_ValueError, "%zd dimensions; arrays have at most %d", n,
                 TN_MAX_NDIM);
    return -1;
  }
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject *item = PySequence_GetItem(object, i);
    const int failed = !item || parse_size(item, &shape[i]);
    Py_XDECREF(item);
    if (failed) return -1;
  }
  return (int)n;
}

/* ------------------------------------------------------------------ numbers */

static PyObject *make_array(const tn_spec *spec, const void *data,
                            size_t bytes) {
  tn_array *array = NULL;
  tn_runtime *rt = core_runtime();
  if (!rt) return NULL;
  tn_code code = tn_array_create(rt, spec, &array);
  if (code == TN_OK && bytes <= 4096)
    CORE_BRIEFLY(code = tn_array_set(array, data, bytes));
  else if (code == TN_OK)
    CORE_WITHOUT_GIL(code = tn_array_set(array, data, bytes));
  if (code == TN_OK) return core_wrap(array);
  tn_array_release(array);
  return core_raise(code, NULL);
}

/* The type of a number beside an array: that of the array, but a float beside
 * integers is f32. */
static tn_dtype type_beside(const py_array *like, bool is_float, tn_dtype own) {
  if (!like) return own;
  const tn_dtype dtype = tn_array_tensor(like->array)->dtype;
  const uint32_t kind = dtype & 0xffu;
  if (dtype == TN_BOOL) return own;
  return is_float && kind != 2 && kind != 4 ? TN_F32 : dtype;
}

static PyObject *make_number(double value, tn_dtype dtype) {
  const float narrow = (float)value;
  PyObject *wide, *result;
  if (dtype == TN_F32)
    return make_array(&(tn_spec){TN_F32, 0, NULL}, &narrow, sizeof narrow);
  wide = make_array(&(tn_spec){TN_F64, 0, NULL}, &value, sizeof value);
  if (!wide || dtype == TN_F64) return wide;
  tn_array *array = NULL;
  tn_code code;
  CORE_BRIEFLY(code = tn_array_cast(core_array_of(wide), dtype, &array));
  result = code == TN_OK ? core_wrap(array) : core_raise(code, NULL);
  Py_DECREF(wide);
  return result;
}

bool core_fits(tn_dtype dtype, long long value) {
  const uint32_t kind = dtype & 0xffu, bits = dtype >> 8 & 0xffu;
  if (kind == 1) return value >= 0 && (bits >= 63 || value < 1ll << bits);
  if (kind != 0 || bits == 64) return true;
  return value >= -(1ll << (bits - 1)) && value < 1ll << (bits - 1);
}

static PyObject *refuse_integer(PyObject *object, tn_dtype dtype) {
  PyErr_Format(PyExc_OverflowError,
               "%S is outside of the range of %s; convert the array to a wider "
               "type first",
               object, tn_dtype_name(dtype));
  return NULL;
}

/* An integer that i64 does not have: u64, or a float. */
static PyObject *make_large(PyObject *object, tn_dtype dtype, bool is_own) {
  const uint32_t kind = dtype & 0xffu;
  uint64_t value;
  if (kind == 2 || kind == 4) {
    const double number = PyLong_AsDouble(object);
    return PyErr_Occurred() ? NULL : make_number(number, dtype);
  }
  if (!is_own && dtype != TN_U64) return refuse_integer(object, dtype);
  value = PyLong_AsUnsignedLongLong(object);
  if (PyErr_Occurred()) {
    PyErr_Clear();
    return refuse_integer(object, TN_U64);
  }
  return make_array(&(tn_spec){TN_U64, 0, NULL}, &value, sizeof value);
}

/* `is_own`: the type is not that of an array, so it may be u64 as well. */
static PyObject *make_integer(PyObject *object, tn_dtype dtype, bool is_own) {
  int overflow;
  const int64_t value = PyLong_AsLongLongAndOverflow(object, &overflow);
  tn_array *array = NULL;
  if (overflow) return make_large(object, dtype, is_own);
  if (value == -1 && PyErr_Occurred()) return NULL;
  if (!core_fits(dtype, value)) return refuse_integer(object, dtype);
  PyObject *wide =
      make_array(&(tn_spec){TN_I64, 0, NULL}, &value, sizeof value);
  if (!wide || dtype == TN_I64) return wide;
  tn_code code;
  CORE_BRIEFLY(code = tn_array_cast(core_array_of(wide), dtype, &array));
  Py_DECREF(wide);
  return code == TN_OK ? core_wrap(array) : core_raise(code, NULL);
}

/* ------------------------------------------------------------------- arrays */

/* The element type of a kind and size of NumPy; TN_DTYPE_UNKNOWN for others. */
static tn_dtype find_type(char kind, int size) {
  const uint32_t bits = 8u * (uint32_t)size;
  switch (kind) {
    case 'f':
      return size == 2 || size == 4 || size == 8 ? TN_DTYPE_MAKE(2, bits)
                                                 : TN_DTYPE_UNKNOWN;
    case 'i':
      return TN_DTYPE_MAKE(0, bits);
    case 'u':
      return TN_DTYPE_MAKE(1, bits);
    case 'b':
      return TN_BOOL;
    default:
      return TN_DTYPE_UNKNOWN;
  }
}

/* Copies an array of NumPy; NULL without an exception if this needs help. */
static PyObject *copy_numpy(const numpy_array *from) {
  const int wanted = NUMPY_DENSE | NUMPY_ALIGNED | NUMPY_NATIVE;
  const tn_dtype dtype = find_type(from->kind, from->itemsize);
  int64_t shape[TN_MAX_NDIM];
  size_t bytes = (size_t)from->itemsize;
  if (from->two != 2 || from->ndim > TN_MAX_NDIM || dtype == TN_DTYPE_UNKNOWN ||
      (from->flags & wanted) != wanted)
    return NULL;
  for (int i = 0; i < from->ndim; ++i) {
    shape[i] = from->shape[i];
    bytes *= (size_t)shape[i];
  }
  return make_array(&(tn_spec){dtype, from->ndim, shape}, from->data, bytes);
}

void *core_numpy_memory(PyObject *object, size_t *bytes) {
  PyObject *capsule = PyObject_GetAttrString(object, "__array_struct__");
  const numpy_array *a = capsule && PyCapsule_CheckExact(capsule)
                             ? PyCapsule_GetPointer(capsule, NULL)
                             : NULL;
  const int wanted = NUMPY_DENSE | NUMPY_WRITEABLE;
  void *data = NULL;
  if (a && a->two == 2 && (a->flags & wanted) == wanted) {
    *bytes = (size_t)a->itemsize;
    for (int i = 0; i < a->ndim; ++i) *bytes *= (size_t)a->shape[i];
    data = a->data;
  }
  Py_XDECREF(capsule);
  if (!data && !PyErr_Occurred())
    PyErr_SetString(PyExc_ValueError,
                    "elements are copied to dense, writeable arrays of NumPy");
  return data;
}

PyObject *core_convert(PyObject *object, const py_array *like) {
  if (core_is_array(object)) {
    Py_INCREF(object);
    return object;
  }
  if (PyFloat_Check(object))
    return make_number(PyFloat_AsDouble(object),
                       type_beside(like, true, TN_F32));
  if (PyBool_Check(object)) {
    const uint8_t value = object == Py_True;
    return make_array(&(tn_spec){TN_BOOL, 0, NULL}, &value, sizeof value);
  }
  if (PyLong_Check(object))
    return make_integer(
        object, type_beside(like, false, TN_I64),
        !like || tn_array_tensor(like->array)->dtype == TN_BOOL);
  PyObject *capsule = PyObject_HasAttrString(object, "__array_struct__")
                          ? PyObject_GetAttrString(object, "__array_struct__")
                          : NULL;
  PyObject *copy = NULL;
  if (capsule && PyCapsule_CheckExact(capsule))
    copy = copy_numpy(PyCapsule_GetPointer(capsule, NULL));
  Py_XDECREF(capsule);
  if (copy) return copy;
  if (PyErr_Occurred()) return NULL;
  return core_help("convert", "(O)", object);
}
