/* SPDX-License-Identifier: Apache-2.0
 * tape.c: the type Tape, and which one records the calls of a thread.
 */
#include <stdlib.h>

#include "core.h"

_Thread_local py_tape *core_recording;

static uint64_t n_tapes;

static py_tape *as_tape(PyObject *self) {
  return (py_tape *)(void *)self;
}

int core_watch(py_tape *tape, PyObject *object) {
  py_array *a = (py_array *)(void *)object;
  if (a->request == TN_REQ_NULL) {
    if (!a->root) return 0;
    object = a->root;
    a = (py_array *)(void *)object;
  }
  if (a->watched == tape->number) return 0;
  const tn_code code = tn_tape_watch(tape->tape, a->array);
  if (code != TN_OK) {
    core_raise(code, NULL);
    return -1;
  }
  if (PyList_Append(tape->watched, object)) return -1;
  a->watched = tape->number;
  return 0;
}

static PyObject *make_tape(PyTypeObject *type, PyObject *args,
                           PyObject *named) {
  static char *keys[] = {"train", NULL};
  int train = 0;
  tn_tape *tape = NULL;
  if (!PyArg_ParseTupleAndKeywords(args, named, "|p:Tape", keys, &train) ||
      !core_runtime())
    return NULL;
  const tn_code code = tn_tape_create(core.runtime, &tape);
  if (code != TN_OK) return core_raise(code, NULL);
  py_tape *self = PyObject_New(py_tape, type);
  if (!self) {
    tn_tape_release(tape);
    return NULL;
  }
  self->tape = tape;
  self->number = ++n_tapes;
  self->train = train != 0;
  self->watched = PyList_New(0);
  if (!self->watched) Py_CLEAR(self);
  return (PyObject *)self;
}

static void free_tape(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  Py_XDECREF(as_tape(self)->watched);
  CORE_BRIEFLY(tn_tape_release(as_tape(self)->tape));
  PyObject_Free(self);
  Py_DECREF(type);
}

/* ---------------------------------------------------------------- gradients */

/* The arrays of a list; None becomes NULL. `n` entries, or an exception. */
static int read_arrays(PyObject *list, tn_array **to, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    PyObject *item = PyList_GetItem(list, (Py_ssize_t)i);
    if (!item) return -1;
    if (item != Py_None && !core_is_array(item)) {
      PyErr_Format(PyExc_TypeError, "gradients need Arrays, not %R",
                   (PyObject *)Py_TYPE(item));
      return -1;
    }
    to[i] = item == Py_None ? NULL : core_array_of(item);
  }
  return 0;
}

/* Objects of the gradients: those of `into`, and new ones. */
static PyObject *make_gradients(PyObject *into, tn_array *const *grads,
                                size_t n, PyObject *tape) {
  PyObject *list = PyList_New((Py_ssize_t)n);
  for (size_t i = 0; list && i < n; ++i) {
    PyObject *item = PyList_GetItem(into, (Py_ssize_t)i);
    if (item == Py_None)
      item = grads[i] ? core_wrap(grads[i]) : NULL;
    else
      Py_INCREF(item);
    if (!item) {
      Py_CLEAR(list);
      break;
    }
    if (tape && !((py_array *)(void *)item)->tape) {
      Py_INCREF(tape);
      ((py_array *)(void *)item)->tape = tape;
    }
    (void)PyList_SetItem(list, (Py_ssize_t)i, item);
  }
  return list;
}

/* gradient(heads, weights, of, into, requests, flags) -> list */
static PyObject *compute_gradient(PyObject *self, PyObject *args) {
  PyObject *heads, *weights, *of, *into, *requests, *result = NULL;
  unsigned int flags;
  tn_code code;
  if (!PyArg_ParseTuple(args, "OOOOOI:gradient", &heads, &weights, &of, &into,
                        &requests, &flags))
    return NULL;
  const Py_ssize_t n_heads = PyList_Size(heads), n = PyList_Size(of);
  if (n_heads < 0 || n < 0 || PyList_Size(weights) != n_heads ||
      PyList_Size(into) != n || PyList_Size(requests) != n) {
    if (!PyErr_Occurred())
      PyErr_SetString(PyExc_ValueError, "lists of different lengths");
    return NULL;
  }
  tn_array **all = calloc((size_t)(2 * n_heads + 2 * n) + 1, sizeof *all);
  tn_req *req = calloc((size_t)n + 1, sizeof *req);
  tn_array **weight_list = all + n_heads, **of_list = weight_list + n_heads;
  tn_array **grads = of_list + n;
  if (!all || !req) {
    PyErr_NoMemory();
  } else if (read_arrays(heads, all, (size_t)n_heads) == 0 &&
             read_arrays(weights, weight_list, (size_t)n_heads) == 0 &&
             read_arrays(of, of_list, (size_t)n) == 0 &&
             read_arrays(into, grads, (size_t)n) == 0) {
    for (Py_ssize_t i = 0; i < n; ++i)
      req[i] = (tn_req)PyLong_AsUnsignedLong(PyList_GetItem(requests, i));
    const tn_tape_query query = {
        .struct_size = sizeof query,
        .flags = flags,
        .heads = {(size_t)n_heads, all},
        .head_gradients = {(size_t)n_heads, weight_list},
        .of = {(size_t)n, of_list},
        .gradients = {(size_t)n, grads, req}};
    CORE_WITHOUT_GIL(code = tn_tape_gradient(as_tape(self)->tape, &query));
    result = code == TN_OK
                 ? make_gradients(into, grads, (size_t)n,
                                  flags & TN_TAPE_RECORD ? self : NULL)
                 : core_raise(code, NULL);
  }
  free(req);
  free(all);
  return result;
}

static PyObject *detach(PyObject *self, PyObject *array) {
  tn_array *copy = NULL;
  if (!core_is_array(array)) {
    PyErr_SetString(PyExc_TypeError, "detach() takes an Array");
    return NULL;
  }
  const tn_code code =
      tn_tape_detach(as_tape(self)->tape, core_array_of(array), &copy);
  return code == TN_OK ? core_wrap(copy) : core_raise(code, NULL);
}

static PyObject *get_watched(PyObject *self, void *unused) {
  (void)unused;
  Py_INCREF(as_tape(self)->watched);
  return as_tape(self)->watched;
}

/* Forgets the watched arrays; those that are used again are watched again. */
static PyObject *forget_watched(PyObject *self, PyObject *unused) {
  (void)unused;
  PyObject *list = PyList_New(0);
  if (!list) return NULL;
  PyObject *old = as_tape(self)->watched;
  as_tape(self)->watched = list;
  as_tape(self)->number = ++n_tapes;
  Py_XDECREF(old);
  Py_RETURN_NONE;
}

/* Watches an array without a lasting request: for tenon.grad(). */
static PyObject *watch(PyObject *self, PyObject *array) {
  if (!core_is_array(array)) {
    PyErr_SetString(PyExc_TypeError, "watch() takes an Array");
    return NULL;
  }
  const tn_code code = tn_tape_watch(as_tape(self)->tape, core_array_of(array));
  if (code != TN_OK) return core_raise(code, NULL);
  Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"gradient", compute_gradient, METH_VARARGS, NULL},
    {"detach", detach, METH_O, NULL},
    {"watch", watch, METH_O, NULL},
    {"forget_watched", forget_watched, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef attributes[] = {{"watched", get_watched, NULL, NULL, NULL},
                                   {NULL, NULL, NULL, NULL, NULL}};

PyTypeObject *core_make_tape_type(PyObject *module) {
  static const char doc[] = "Records calls; see tenon.record().";
  PyType_Slot slots[] = {{Py_tp_dealloc, free_tape}, {Py_tp_new, make_tape},
                         {Py_tp_methods, methods},   {Py_tp_getset, attributes},
                         {Py_tp_doc, (void *)doc},   {0, NULL}};
  (void)module;
  PyType_Spec spec = {"tenon.Tape", sizeof(py_tape), 0, Py_TPFLAGS_DEFAULT,
                      slots};
  return (PyTypeObject *)PyType_FromSpec(&spec);
}

/* set_recording(tape or None) -> the tape before. */
static PyObject *set_recording(PyObject *module, PyObject *tape) {
  PyObject *before = (PyObject *)core_recording;
  (void)module;
  if (tape != Py_None && !PyObject_TypeCheck(tape, core.tape_type)) {
    PyErr_SetString(PyExc_TypeError, "a Tape or None");
    return NULL;
  }
  if (tape != Py_None) Py_INCREF(tape);
  core_recording = tape == Py_None ? NULL : as_tape(tape);
  if (before) return before;
  Py_RETURN_NONE;
}

static PyObject *get_recording(PyObject *module, PyObject *unused) {
  PyObject *tape = core_recording ? (PyObject *)core_recording : Py_None;
  (void)module;
  (void)unused;
  Py_INCREF(tape);
  return tape;
}

PyMethodDef core_tape_methods[] = {
    {"set_recording", set_recording, METH_O, NULL},
    {"get_recording", get_recording, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL}};
