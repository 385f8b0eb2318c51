/* SPDX-License-Identifier: Apache-2.0
 * prepare.c: prepared calls: an operator with its arrays, to run many times.
 */
#include "core.h"

/* A prepared call. */
typedef struct py_prepared {
  PyObject ob_base;
  tn_prepared *call;
  py_operator *op;
  PyObject *function; /* owns `op` */
  PyObject *result;   /* an array or a tuple */
} py_prepared;

static py_prepared *as_prepared(PyObject *self) {
  return (py_prepared *)(void *)self;
}

static void free_prepared(PyObject *self) {
  py_prepared *p = as_prepared(self);
  PyTypeObject *type = Py_TYPE(self);
  tn_prepared_release(p->call);
  Py_XDECREF(p->result);
  Py_XDECREF(p->function);
  PyObject_Free(self);
  Py_DECREF(type);
}

/* Takes the call and the result. */
static PyObject *wrap_prepared(PyObject *function, tn_prepared *call,
                               PyObject *result) {
  py_prepared *p = PyObject_New(py_prepared, core.prepared_type);
  if (!p) {
    tn_prepared_release(call);
    Py_DECREF(result);
    return NULL;
  }
  Py_INCREF(function);
  p->call = call;
  p->result = result;
  p->function = function;
  p->op = (py_operator *)(void *)PyCFunction_GetSelf(function);
  return (PyObject *)p;
}

static bool is_operator(PyObject *function) {
  if (!PyCFunction_Check(function)) return false;
  PyObject *self = PyCFunction_GetSelf(function);
  return self && PyObject_TypeCheck(self, core.operator_type);
}

/* prepare(operator, inputs..., parameter=...) */
PyObject *core_prepare(PyObject *module, PyObject *const *args, Py_ssize_t n,
                       PyObject *names) {
  tn_prepared *call = NULL;
  (void)module;
  if (n == 0 || !is_operator(args[0])) {
    PyErr_SetString(PyExc_TypeError,
                    "prepare() takes an operator, such as "
                    "tenon.ops.elemwise.add, then its arguments");
    return NULL;
  }
  py_operator *op = (py_operator *)(void *)PyCFunction_GetSelf(args[0]);
  PyObject *result = core_call_or_prepare(op, args + 1, n - 1, names, &call);
  if (!result) {
    tn_prepared_release(call);
    return NULL;
  }
  if (call) return wrap_prepared(args[0], call, result);
  Py_DECREF(result);
  PyErr_SetString(PyExc_TypeError,
                  "symbols have no arrays to prepare a call with; bind their "
                  "graph instead");
  return NULL;
}

/* --------------------------------------------------------------------- runs */

static PyObject *run_prepared(PyObject *self, PyObject *args, PyObject *named) {
  py_prepared *p = as_prepared(self);
  tn_code code;
  if (PyTuple_Size(args) > 0 || (named && PyDict_Size(named) > 0)) {
    PyErr_SetString(PyExc_TypeError,
                    "a prepared call takes no arguments; write into its "
                    "arrays, or change a dynamic parameter by set()");
    return NULL;
  }
  if (core_recording) {
    PyErr_SetString(PyExc_RuntimeError,
                    "a prepared call has no gradient, so it cannot be "
                    "recorded; call the operator, or use tenon.pause()");
    return NULL;
  }
  if (!core_runtime()) return NULL;
  if (core.releases)
    CORE_WITHOUT_GIL(code = tn_call_run(p->call));
  else
    code = tn_call_run(p->call);
  if (code != TN_OK) return core_raise(code, NULL);
  Py_INCREF(p->result);
  return p->result;
}

/* set(name=value, ...) */
static PyObject *set_dynamic(PyObject *self, PyObject *args, PyObject *named) {
  const py_prepared *p = as_prepared(self);
  PyObject *name, *value;
  Py_ssize_t place = 0;
  if (PyTuple_Size(args) > 0) {
    PyErr_SetString(PyExc_TypeError, "set() takes parameters by name");
    return NULL;
  }
  while (named && PyDict_Next(named, &place, &name, &value)) {
    const uint32_t field =
        core_find_name(p->op->param_names, p->op->desc->n_params, name);
    if (field == p->op->desc->n_params) {
      (void)core_refuse_argument(p->op, name);
      return NULL;
    }
    if (core_set_dynamic(p->call, p->op, field, value)) return NULL;
  }
  Py_RETURN_NONE;
}

static PyObject *get_result(PyObject *self, void *unused) {
  (void)unused;
  Py_INCREF(as_prepared(self)->result);
  return as_prepared(self)->result;
}

PyTypeObject *core_make_prepared_type(PyObject *module) {
  static const char doc[] =
      "A call to run many times with the same arrays; see tenon.prepare().";
  static PyMethodDef methods[] = {
      {"set", (PyCFunction)(void (*)(void))set_dynamic,
       METH_VARARGS | METH_KEYWORDS,
       "Changes dynamic parameters for later runs."},
      {NULL, NULL, 0, NULL}};
  static PyGetSetDef attributes[] = {
      {"result", get_result, NULL, "The array, or arrays, of the results.",
       NULL},
      {NULL, NULL, NULL, NULL, NULL}};
  PyType_Slot slots[] = {
      {Py_tp_dealloc, free_prepared}, {Py_tp_call, run_prepared},
      {Py_tp_methods, methods},       {Py_tp_getset, attributes},
      {Py_tp_doc, (void *)doc},       {0, NULL}};
  (void)module;
  PyType_Spec spec = {"tenon.Prepared", sizeof(py_prepared), 0,
                      Py_TPFLAGS_DEFAULT, slots};
  return (PyTypeObject *)PyType_FromSpec(&spec);
}
