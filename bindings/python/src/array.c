/* SPDX-License-Identifier: Apache-2.0
 * array.c: the type Array: its life, its attributes, waits. Methods that need
 * no speed are added by tenon/_array.py.
 */
#include "core.h"

#include <structmember.h>

static py_array *as_array(PyObject *self) {
  return (py_array *)(void *)self;
}

/* --------------------------------------------------------------------- life */

PyObject *core_wrap(tn_array *array) {
  py_array *a = PyObject_New(py_array, core.array_type);
  if (!a) {
    tn_array_release(array);
    return NULL;
  }
  a->array = array;
  a->tape = a->root = a->gradient = a->code = a->weak = NULL;
  a->watched = 0;
  a->request = TN_REQ_NULL;
  a->line = 0;
  return (PyObject *)a;
}

PyObject *core_wrap_view(py_array *from, tn_array *array) {
  PyObject *view = core_wrap(array);
  if (!view) return NULL;
  PyObject *root = from->request != TN_REQ_NULL ? (PyObject *)from : from->root;
  Py_XINCREF(from->tape);
  Py_XINCREF(root);
  Py_XINCREF(from->code);
  as_array(view)->tape = from->tape;
  as_array(view)->root = root;
  as_array(view)->code = from->code;
  as_array(view)->line = from->line;
  return view;
}

static void free_array(PyObject *self) {
  py_array *a = as_array(self);
  PyTypeObject *type = Py_TYPE(self);
  if (a->weak) PyObject_ClearWeakRefs(self);
  Py_XDECREF(a->tape);
  Py_XDECREF(a->root);
  Py_XDECREF(a->gradient);
  Py_XDECREF(a->code);
  CORE_BRIEFLY(tn_array_release(a->array));
  core_free_returned();
  PyObject_Free(self);
  Py_DECREF(type);
}

static PyObject *refuse_new(PyTypeObject *type, PyObject *args,
                            PyObject *named) {
  (void)type;
  (void)args;
  (void)named;
  PyErr_SetString(PyExc_TypeError,
                  "Array is made by tenon.array(), tenon.zeros() and others");
  return NULL;
}

/* -------------------------------------------------------------------- waits */

int core_wait(py_array *a) {
  tn_code code;
  CORE_WITHOUT_GIL(code = tn_array_wait(a->array));
  if (PyErr_Occurred() || PyErr_CheckSignals()) return -1;
  if (code != TN_OK) core_raise(code, a);
  return code == TN_OK ? 0 : -1;
}

/* Waits in short parts, so that signals end the wait. */
static tn_code wait_in_parts(py_array *a, uint64_t ns) {
  const uint64_t part = 100 * 1000 * 1000;
  tn_code code;
  do {
    const uint64_t now = ns < part ? ns : part;
    CORE_WITHOUT_GIL(code = tn_array_wait_for(a->array, now));
    ns -= now;
  } while (code == TN_BUSY && ns > 0 && !PyErr_CheckSignals());
  return code;
}

static PyObject *wait_for(PyObject *self, PyObject *args) {
  PyObject *seconds = Py_None;
  tn_code code;
  if (!PyArg_ParseTuple(args, "|O:wait", &seconds)) return NULL;
  if (seconds == Py_None) {
    if (core_wait(as_array(self))) return NULL;
  } else {
    const double limit = PyFloat_AsDouble(seconds);
    if (PyErr_Occurred()) return NULL;
    const uint64_t ns = !(limit > 0)  ? 0
                        : limit > 1e9 ? UINT64_MAX
                                      : (uint64_t)(limit * 1e9);
    code = wait_in_parts(as_array(self), ns);
    if (code != TN_OK) return core_raise(code, as_array(self));
  }
  Py_INCREF(self);
  return self;
}

/* --------------------------------------------------------------- attributes */

static PyObject *make_tuple(const int64_t *values, int32_t n) {
  PyObject *tuple = PyTuple_New(n);
  for (int32_t i = 0; tuple && i < n; ++i) {
    PyObject *value = PyLong_FromLongLong(values[i]);
    if (!value || PyTuple_SetItem(tuple, i, value)) {
      Py_DECREF(tuple);
      return NULL;
    }
  }
  return tuple;
}

static PyObject *get_shape(PyObject *self, void *unused) {
  (void)unused;
  const tn_tensor *t = tn_array_tensor(core_array_of(self));
  return make_tuple(t->shape, t->ndim);
}

static PyObject *get_strides(PyObject *self, void *unused) {
  (void)unused;
  const tn_tensor *t = tn_array_tensor(core_array_of(self));
  return make_tuple(t->strides, t->ndim);
}

static PyObject *get_ndim(PyObject *self, void *unused) {
  (void)unused;
  return PyLong_FromLong(tn_array_tensor(core_array_of(self))->ndim);
}

static PyObject *get_size(PyObject *self, void *unused) {
  (void)unused;
  return PyLong_FromLongLong(tn_array_size(core_array_of(self)));
}

static PyObject *get_dtype_number(PyObject *self, void *unused) {
  (void)unused;
  return PyLong_FromUnsignedLong(tn_array_tensor(core_array_of(self))->dtype);
}

static PyObject *get_handle(PyObject *self, void *unused) {
  (void)unused;
  return PyLong_FromVoidPtr(core_array_of(self));
}

static PyObject *get_place(PyObject *self, void *unused) {
  (void)unused;
  const tn_tensor *t = tn_array_tensor(core_array_of(self));
  return Py_BuildValue("(ii)", (int)t->device_type, (int)t->device_id);
}

static PyObject *get_reference(PyObject *object) {
  if (!object) Py_RETURN_NONE;
  Py_INCREF(object);
  return object;
}

static PyObject *get_gradient(PyObject *self, void *unused) {
  (void)unused;
  return get_reference(as_array(self)->gradient);
}

/* Such an array as a gradient could keep itself alive; arrays are not known to
 * Python's collector of cycles. */
static bool has_references(const py_array *a) {
  return a->tape || a->root || a->gradient;
}

static int set_gradient(PyObject *self, PyObject *value, void *unused) {
  (void)unused;
  if (value == Py_None) value = NULL;
  if (value && !core_is_array(value)) {
    PyErr_Format(PyExc_TypeError, "grad must be an Array or None, not %R",
                 (PyObject *)Py_TYPE(value));
    return -1;
  }
  if (value && (value == self || has_references(as_array(value)))) {
    value = core_wrap(tn_array_retain(core_array_of(value)));
    if (!value) return -1;
  } else {
    Py_XINCREF(value);
  }
  PyObject *old = as_array(self)->gradient;
  as_array(self)->gradient = value;
  Py_XDECREF(old);
  return 0;
}

static PyObject *get_tape(PyObject *self, void *unused) {
  (void)unused;
  return get_reference(as_array(self)->tape);
}

static PyObject *get_request(PyObject *self, void *unused) {
  (void)unused;
  return PyLong_FromUnsignedLong(as_array(self)->request);
}

/* Requests a gradient: tapes watch the array from its next call on. */
static PyObject *request_gradient(PyObject *self, PyObject *args) {
  unsigned int request;
  if (!PyArg_ParseTuple(args, "I:_request_gradient", &request)) return NULL;
  as_array(self)->request = request;
  as_array(self)->watched = 0;
  Py_CLEAR(as_array(self)->tape);
  Py_CLEAR(as_array(self)->root);
  Py_RETURN_NONE;
}

static PyObject *is_contiguous(PyObject *self, void *unused) {
  (void)unused;
  const tn_tensor *t = tn_array_tensor(core_array_of(self));
  return PyBool_FromLong(tn_tensor_is_contiguous(t));
}

/* Copies the elements into a dense array of NumPy with as many bytes. */
static PyObject *read_into(PyObject *self, PyObject *to) {
  size_t bytes;
  tn_code code;
  void *data = core_numpy_memory(to, &bytes);
  if (!data || core_wait(as_array(self))) return NULL;
  CORE_WITHOUT_GIL(code = tn_array_get(core_array_of(self), data, bytes));
  if (code != TN_OK) return core_raise(code, as_array(self));
  Py_RETURN_NONE;
}

/* One element of any type. */
typedef union element {
  float f32;
  double f64;
  int8_t i8;
  int16_t i16;
  int32_t i32;
  int64_t i64;
  uint8_t u8;
  uint16_t u16;
  uint32_t u32;
  uint64_t u64;
} element;

/* NULL without an exception for types that must be converted first. */
static PyObject *make_value(const element *e, tn_dtype dtype) {
  switch (dtype) {
    case TN_F32:
      return PyFloat_FromDouble((double)e->f32);
    case TN_F64:
      return PyFloat_FromDouble(e->f64);
    case TN_I8:
      return PyLong_FromLong(e->i8);
    case TN_I16:
      return PyLong_FromLong(e->i16);
    case TN_I32:
      return PyLong_FromLong(e->i32);
    case TN_I64:
      return PyLong_FromLongLong(e->i64);
    case TN_U8:
      return PyLong_FromLong(e->u8);
    case TN_U16:
      return PyLong_FromLong(e->u16);
    case TN_U32:
      return PyLong_FromUnsignedLong(e->u32);
    case TN_U64:
      return PyLong_FromUnsignedLongLong(e->u64);
    case TN_BOOL:
      return PyBool_FromLong(e->u8);
    default:
      return NULL;
  }
}

/* Waits for the elements and copies them; there is room for all of them. */
static int read_element(py_array *a, tn_array *array, element *to) {
  const size_t bytes = (size_t)tn_tensor_bytes(tn_array_tensor(array));
  tn_code code;
  if (core_wait(a)) return -1;
  CORE_WITHOUT_GIL(code = tn_array_get(array, to, bytes));
  if (code == TN_OK) return 0;
  core_raise(code, a);
  return -1;
}

/* The value of an array with one element, as int, float or bool. */
static PyObject *get_item_value(PyObject *self, PyObject *unused) {
  element e = {.u64 = 0};
  tn_array *wide = NULL;
  py_array *a = as_array(self);
  (void)unused;
  if (tn_array_size(a->array) != 1) {
    PyErr_Format(PyExc_ValueError,
                 "an array with %lld elements is not one number; use numpy()",
                 (long long)tn_array_size(a->array));
    return NULL;
  }
  if (read_element(a, a->array, &e)) return NULL;
  PyObject *value = make_value(&e, tn_array_tensor(a->array)->dtype);
  if (value || PyErr_Occurred()) return value;
  const tn_dtype dtype = tn_array_tensor(a->array)->dtype;
  if (dtype != TN_F16 && dtype != TN_BF16)
    return core_help("item", "(O)", self);
  tn_code code;
  CORE_BRIEFLY(code = tn_array_cast(a->array, TN_F64, &wide));
  if (code != TN_OK) return core_raise(code, a);
  const int failed = read_element(a, wide, &e);
  tn_array_release(wide);
  return failed ? NULL : PyFloat_FromDouble(e.f64);
}

/* -------------------------------------------------------------------- views */

/* The result of a function that makes a view, as an object. */
static PyObject *finish_view(PyObject *self, tn_code code, tn_array *view) {
  if (code != TN_OK) return core_raise(code, NULL);
  return core_wrap_view(as_array(self), view);
}

static PyObject *view_reshaped(PyObject *self, PyObject *shape) {
  int64_t sizes[TN_MAX_NDIM];
  tn_array *view = NULL;
  const int n = core_parse_shape(shape, sizes);
  if (n < 0) return NULL;
  const tn_code code = tn_array_reshape(core_array_of(self), n, sizes, &view);
  return finish_view(self, code, view);
}

static PyObject *view_broadcast(PyObject *self, PyObject *shape) {
  int64_t sizes[TN_MAX_NDIM];
  tn_array *view = NULL;
  const int n = core_parse_shape(shape, sizes);
  if (n < 0) return NULL;
  const tn_code code = tn_array_broadcast(core_array_of(self), n, sizes, &view);
  return finish_view(self, code, view);
}

static PyObject *view_transposed(PyObject *self, PyObject *order) {
  int64_t sizes[TN_MAX_NDIM];
  int32_t axes[TN_MAX_NDIM];
  tn_array *view = NULL;
  const int32_t ndim = tn_array_tensor(core_array_of(self))->ndim;
  if (order != Py_None) {
    const int n = core_parse_shape(order, sizes);
    if (n < 0) return NULL;
    if (n != ndim) {
      PyErr_Format(PyExc_ValueError,
                   "%d axes for an array with %d dimensions; name each once", n,
                   (int)ndim);
      return NULL;
    }
    for (int i = 0; i < n; ++i) axes[i] = (int32_t)sizes[i];
  }
  const tn_code code = tn_array_transpose(
      core_array_of(self), order == Py_None ? NULL : axes, &view);
  return finish_view(self, code, view);
}

static PyObject *view_bits(PyObject *self, PyObject *type) {
  tn_dtype dtype;
  tn_array *view = NULL;
  if (core_parse_dtype(type, &dtype)) return NULL;
  const tn_code code = tn_array_bits(core_array_of(self), dtype, &view);
  return finish_view(self, code, view);
}

/* ------------------------------------------------------------------- copies */

static PyObject *copy_cast(PyObject *self, PyObject *type) {
  tn_dtype dtype;
  tn_array *copy = NULL;
  tn_code code;
  if (core_parse_dtype(type, &dtype)) return NULL;
  CORE_WITHOUT_GIL(code = tn_array_cast(core_array_of(self), dtype, &copy));
  return code == TN_OK ? core_wrap(copy) : core_raise(code, NULL);
}

static PyObject *copy_to_place(PyObject *self, PyObject *text) {
  tn_array *copy = NULL;
  tn_place place;
  tn_code code;
  PyObject *bytes = PyUnicode_AsUTF8String(text);
  if (!bytes) return NULL;
  code = tn_place_parse(core_runtime(), PyBytes_AsString(bytes), &place);
  Py_DECREF(bytes);
  if (code == TN_OK)
    CORE_WITHOUT_GIL(code = tn_array_to(core_array_of(self), place, &copy));
  return code == TN_OK ? core_wrap(copy) : core_raise(code, NULL);
}

/* Overwrites the elements by those of another array. */
static PyObject *copy_from(PyObject *self, PyObject *from) {
  tn_code code;
  if (!core_is_array(from)) {
    PyErr_SetString(PyExc_TypeError, "_copy_from takes an Array");
    return NULL;
  }
  CORE_WITHOUT_GIL(code =
                       tn_array_copy(core_array_of(self), core_array_of(from)));
  if (code != TN_OK) return core_raise(code, NULL);
  Py_RETURN_NONE;
}

/* ------------------------------------------------------------------ protocols
 */

static Py_ssize_t get_length(PyObject *self) {
  const tn_tensor *t = tn_array_tensor(core_array_of(self));
  if (t->ndim == 0) {
    PyErr_SetString(PyExc_TypeError,
                    "an array without dimensions has no len()");
    return -1;
  }
  return (Py_ssize_t)t->shape[0];
}

static Py_hash_t hash_array(PyObject *self) {
  return (Py_hash_t)((uintptr_t)self >> 4);
}

static PyGetSetDef attributes[] = {
    {"shape", get_shape, NULL, "The sizes of the dimensions, a tuple.", NULL},
    {"strides", get_strides, NULL,
     "Elements between neighbours along each axis, a tuple.", NULL},
    {"ndim", get_ndim, NULL, "The number of dimensions.", NULL},
    {"size", get_size, NULL, "The number of elements.", NULL},
    {"grad", get_gradient, set_gradient,
     "The gradient that backward() has written, an Array, or None.", NULL},
    {"is_contiguous", is_contiguous, NULL,
     "Whether the elements are dense and row-major.", NULL},
    {"_dtype_number", get_dtype_number, NULL, NULL, NULL},
    {"_handle", get_handle, NULL,
     "The address of the tn_array, valid while this object lives.", NULL},
    {"_place", get_place, NULL, NULL, NULL},
    {"_tape", get_tape, NULL, NULL, NULL},
    {"_request", get_request, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyMethodDef methods[] = {
    {"wait", wait_for, METH_VARARGS,
     "wait($self, seconds=None, /)\n--\n\n"
     "Waits until the elements are computed, and returns the array.\n\n"
     "Raises the error of the call that failed to compute them. `seconds`\n"
     "limits the time; then BusyError. Ctrl-C ends the wait."},
    {"item", get_item_value, METH_NOARGS,
     "item($self, /)\n--\n\n"
     "The value of an array with one element: an int, a float or a bool."},
    {"_request_gradient", request_gradient, METH_VARARGS, NULL},
    {"_read_into", read_into, METH_O, NULL},
    {"_reshape", view_reshaped, METH_O, NULL},
    {"_broadcast", view_broadcast, METH_O, NULL},
    {"_transpose", view_transposed, METH_O, NULL},
    {"_bits", view_bits, METH_O, NULL},
    {"_cast", copy_cast, METH_O, NULL},
    {"_to_place", copy_to_place, METH_O, NULL},
    {"_copy_from", copy_from, METH_O, NULL},
    {"__dlpack__", (PyCFunction)(void (*)(void))core_to_dlpack,
     METH_VARARGS | METH_KEYWORDS,
     "__dlpack__($self, /, *, stream=None, max_version=None, dl_device=None,\n"
     "           copy=None)\n--\n\n"
     "The array as a capsule, for from_dlpack() of other packages."},
    {"__dlpack_device__", core_dlpack_device, METH_NOARGS,
     "__dlpack_device__($self, /)\n--\n\nThe device as two numbers."},
    {NULL, NULL, 0, NULL}};

static PyMemberDef members[] = {{"__weaklistoffset__", T_PYSSIZET,
                                 offsetof(py_array, weak), READONLY, NULL},
                                {NULL, 0, 0, 0, NULL}};

static const char doc[] =
    "An array of numbers of one type. Work on it is asynchronous: functions\n"
    "return at once, and numpy(), item(), wait() and print() wait.";

PyTypeObject *core_make_array_type(PyObject *module) {
  enum { MOST = 80 };
  PyType_Slot slots[MOST] = {{Py_tp_dealloc, free_array},
                             {Py_tp_new, refuse_new},
                             {Py_tp_getset, attributes},
                             {Py_tp_methods, methods},
                             {Py_tp_members, members},
                             {Py_tp_doc, (void *)doc},
                             {Py_tp_hash, hash_array},
                             {Py_mp_subscript, core_get_item},
                             {Py_mp_ass_subscript, core_set_item},
                             {Py_mp_length, get_length},
                             {0, NULL}};
  (void)module;
  if (core_add_arithmetic(slots, 10, MOST)) return NULL;
  PyType_Spec spec = {"tenon.Array", sizeof(py_array), 0, Py_TPFLAGS_DEFAULT,
                      slots};
  return (PyTypeObject *)PyType_FromSpec(&spec);
}
