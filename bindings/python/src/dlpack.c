/* SPDX-License-Identifier: Apache-2.0
 * dlpack.c: arrays of other packages by DLPack, both ways, and objects that
 * threads without the GIL release.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"

static const char plain_name[] = "dltensor";
static const char versioned_name[] = "dltensor_versioned";
static const char used_name[] = "used_dltensor";
static const char used_versioned_name[] = "used_dltensor_versioned";

/* ------------------------------------------------------------------- export */

static void drop_plain(PyObject *capsule) {
  tn_dlpack *d = PyCapsule_IsValid(capsule, plain_name)
                     ? PyCapsule_GetPointer(capsule, plain_name)
                     : NULL;
  if (d && d->deleter) CORE_BRIEFLY(d->deleter(d)); /* no consumer has it */
  core_free_returned();
}

static void drop_versioned(PyObject *capsule) {
  tn_dlpack_versioned *d = PyCapsule_IsValid(capsule, versioned_name)
                               ? PyCapsule_GetPointer(capsule, versioned_name)
                               : NULL;
  if (d && d->deleter) CORE_BRIEFLY(d->deleter(d));
  core_free_returned();
}

PyObject *core_dlpack_device(PyObject *self, PyObject *unused) {
  (void)unused;
  const tn_tensor *t = tn_array_tensor(core_array_of(self));
  return Py_BuildValue("(ii)", (int)t->device_type, (int)t->device_id);
}

/* Whether the consumer knows versions: max_version is (1, 0) or higher. */
static int is_versioned(PyObject *version) {
  long major = 0;
  if (version == Py_None) return 0;
  PyObject *first = PySequence_GetItem(version, 0);
  if (first) major = PyLong_AsLong(first);
  Py_XDECREF(first);
  return PyErr_Occurred() ? -1 : major >= TN_DLPACK_MAJOR;
}

static PyObject *export_array(py_array *a, int versioned) {
  tn_dlpack *plain = NULL;
  tn_dlpack_versioned *full = NULL;
  tn_code code;
  if (core_wait(a)) return NULL;
  CORE_WITHOUT_GIL(code = versioned
                              ? tn_array_to_dlpack_versioned(a->array, &full)
                              : tn_array_to_dlpack(a->array, &plain));
  if (code != TN_OK) return core_raise(code, a);
  return versioned ? PyCapsule_New(full, versioned_name, drop_versioned)
                   : PyCapsule_New(plain, plain_name, drop_plain);
}

PyObject *core_to_dlpack(PyObject *self, PyObject *args, PyObject *named) {
  static char *keys[] = {"stream", "max_version", "dl_device", "copy", NULL};
  PyObject *stream = Py_None, *version = Py_None, *device = Py_None,
           *copy = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, named, "|$OOOO:__dlpack__", keys,
                                   &stream, &version, &device, &copy))
    return NULL;
  if (device != Py_None) {
    PyObject *own = core_dlpack_device(self, NULL);
    const int equal = own ? PyObject_RichCompareBool(own, device, Py_EQ) : -1;
    Py_XDECREF(own);
    if (equal < 0) return NULL;
    if (!equal) {
      PyErr_Format(PyExc_BufferError,
                   "the array is on another device than %R; copy it with to() "
                   "first",
                   device);
      return NULL;
    }
  }
  const int versioned = is_versioned(version);
  if (versioned < 0) return NULL;
  if (copy != Py_True) return export_array((py_array *)(void *)self, versioned);
  PyObject *own = core_help("copy", "(O)", self);
  PyObject *capsule =
      own ? export_array((py_array *)(void *)own, versioned) : NULL;
  Py_XDECREF(own);
  return capsule;
}

/* ------------------------------------------------------------------- import */

/* Memory of another package that an array uses. The library releases it on any
 * thread, but the producer's deleter may need the GIL, which that thread must
 * not wait for: a thread with the GIL may wait for it. So releases are listed,
 * and threads with the GIL make them. */
typedef struct lent {
  struct lent *next;
  tn_dlpack *plain;          /* the producer's object, or NULL */
  tn_dlpack_versioned *full; /* the same with a version, or NULL */
  union {
    tn_dlpack plain;
    tn_dlpack_versioned full;
  } as; /* for the library */
} lent;

static _Atomic(lent *) returned;

void core_free_returned(void) {
  if (!atomic_load_explicit(&returned, memory_order_relaxed)) return;
  lent *next, *each = atomic_exchange(&returned, NULL);
  for (; each; each = next) {
    next = each->next;
    if (each->full && each->full->deleter) each->full->deleter(each->full);
    if (each->plain && each->plain->deleter) each->plain->deleter(each->plain);
    free(each);
  }
}

static int free_pending(void *unused) {
  (void)unused;
  core_free_returned();
  return 0;
}

/* On any thread. The first of a list lets the interpreter free it soon; the
 * next import of any thread does it as well. */
static void return_memory(lent *memory) {
  lent *before = atomic_load(&returned);
  do memory->next = before;
  while (!atomic_compare_exchange_weak(&returned, &before, memory));
  if (!before && !core.ended) (void)Py_AddPendingCall(free_pending, NULL);
}

static void return_plain(tn_dlpack *self) {
  return_memory(self->manager_ctx);
}

static void return_full(tn_dlpack_versioned *self) {
  return_memory(self->manager_ctx);
}

/* An array of a producer's object; takes it on success. */
static tn_code import_object(tn_runtime *rt, void *object, bool versioned,
                             tn_array **array) {
  lent *memory = calloc(1, sizeof *memory);
  tn_code code = TN_OUT_OF_MEMORY;
  if (!memory) return code;
  if (versioned) {
    memory->full = object;
    memory->as.full = *memory->full;
    memory->as.full.manager_ctx = memory;
    memory->as.full.deleter = return_full;
    CORE_WITHOUT_GIL(
        code = tn_array_from_dlpack_versioned(rt, &memory->as.full, 0, array));
  } else {
    memory->plain = object;
    memory->as.plain = *memory->plain;
    memory->as.plain.manager_ctx = memory;
    memory->as.plain.deleter = return_plain;
    CORE_WITHOUT_GIL(code =
                         tn_array_from_dlpack(rt, &memory->as.plain, 0, array));
  }
  if (code != TN_OK) free(memory);
  return code;
}

/* Takes the object of a capsule. */
static PyObject *import_capsule(PyObject *capsule) {
  tn_runtime *rt = core_runtime();
  tn_array *array = NULL;
  if (!rt) return NULL;
  core_free_returned();
  if (!PyCapsule_CheckExact(capsule)) {
    PyErr_Format(PyExc_TypeError, "__dlpack__() must give a capsule, not %R",
                 (PyObject *)Py_TYPE(capsule));
    return NULL;
  }
  const bool versioned = PyCapsule_IsValid(capsule, versioned_name);
  const char *name = versioned ? versioned_name : plain_name;
  void *object = PyCapsule_GetPointer(capsule, name);
  if (!object) return NULL;
  /* At first, so that no other thread takes it as well. */
  if (PyCapsule_SetName(capsule, versioned ? used_versioned_name : used_name))
    return NULL;
  const tn_code code = import_object(rt, object, versioned, &array);
  core_free_returned(); /* of read-only memory, which was copied */
  if (code == TN_OK) return core_wrap(array);
  if (PyCapsule_SetName(capsule, name)) PyErr_Clear();
  return core_raise(code, NULL);
}

/* Asks the producer for a capsule: with versions, if it knows them. */
static PyObject *ask_producer(PyObject *object) {
  PyObject *method = PyObject_GetAttrString(object, "__dlpack__");
  PyObject *args = method ? PyTuple_New(0) : NULL;
  PyObject *named = args ? Py_BuildValue("{s:(ii)}", "max_version",
                                         TN_DLPACK_MAJOR, TN_DLPACK_MINOR)
                         : NULL;
  PyObject *capsule = named ? PyObject_Call(method, args, named) : NULL;
  if (named && !capsule && PyErr_ExceptionMatches(PyExc_TypeError)) {
    PyErr_Clear();
    capsule = PyObject_CallObject(method, NULL);
  }
  Py_XDECREF(named);
  Py_XDECREF(args);
  Py_XDECREF(method);
  return capsule;
}

PyObject *core_from_dlpack(PyObject *module, PyObject *object) {
  (void)module;
  if (PyCapsule_CheckExact(object)) return import_capsule(object);
  PyObject *capsule = ask_producer(object);
  PyObject *array = capsule ? import_capsule(capsule) : NULL;
  Py_XDECREF(capsule);
  return array;
}
