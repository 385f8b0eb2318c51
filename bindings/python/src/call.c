/* SPDX-License-Identifier: Apache-2.0
 * call.c: calls of operators. core_call_operator reads the arguments of Python,
 * core_run makes the call.
 */
#include <stdlib.h>
#include <string.h>

#include "core.h"

enum {
  FEW = 16,   /* arrays of most calls */
  LONG = 2048 /* elements of a result whose computation may be asynchronous */
};

/* ----------------------------------------------------------------- one call */

/* Whether a frame runs code of the package itself. */
static bool is_own(PyCodeObject *code) {
  PyObject *file = PyObject_GetAttrString((PyObject *)code, "co_filename");
  const Py_ssize_t found =
      file && core.folder
          ? PyUnicode_Tailmatch(file, core.folder, 0, PY_SSIZE_T_MAX, -1)
          : 0;
  Py_XDECREF(file);
  if (found < 0 || !file) PyErr_Clear();
  return found == 1;
}

/* The frame that called this one; takes the reference. */
static PyFrameObject *find_caller(PyFrameObject *frame) {
  PyObject *back = PyObject_GetAttrString((PyObject *)frame, "f_back");
  Py_DECREF((PyObject *)frame);
  if (back && back != Py_None) return (PyFrameObject *)back;
  Py_XDECREF(back);
  PyErr_Clear();
  return NULL;
}

/* Notes the user's line of Python that computes an array, for errors that are
 * found later. */
static void note_site(py_array *a) {
  if (tn_array_size(a->array) < LONG && !core.releases) return;
  PyFrameObject *frame = PyEval_GetFrame();
  Py_XINCREF((PyObject *)frame);
  while (frame) {
    PyCodeObject *code = PyFrame_GetCode(frame);
    if (!is_own(code)) {
      Py_XDECREF(a->code);
      a->code = (PyObject *)code;
      a->line = PyFrame_GetLineNumber(frame);
      Py_DECREF((PyObject *)frame);
      return;
    }
    Py_DECREF((PyObject *)code);
    frame = find_caller(frame);
  }
}

static tn_code prepare(const core_call *c, const tn_inputs *in,
                       const tn_outputs *out) {
  const tn_preparation preparation = {.struct_size = sizeof preparation,
                                      .op = c->op->op,
                                      .params = c->params,
                                      .inputs = *in,
                                      .outputs = *out};
  return tn_call_prepare(core.runtime, &preparation, c->prepared);
}

static tn_code call_now(const core_call *c, const py_tape *tape,
                        const tn_inputs *in, const tn_outputs *out) {
  if (c->prepared) return prepare(c, in, out);
  if (!tape) return tn_call(core.runtime, c->op->op, in, c->params, out);
  return tape->train
             ? tn_tape_call_train(tape->tape, c->op->op, in, c->params, out)
             : tn_tape_call(tape->tape, c->op->op, in, c->params, out);
}

/* Makes objects of the results. Those that were made before a failure are
 * released by the caller, and arrays without an object here. */
static int wrap_results(const core_call *c, tn_array **out, py_tape *tape) {
  int failed = 0;
  for (size_t i = 0; i < c->n_out; ++i) {
    if (!c->out[i] && out[i]) {
      if (failed)
        tn_array_release(out[i]);
      else
        failed = !(c->out[i] = core_wrap(out[i]));
    }
    py_array *a = (py_array *)(void *)c->out[i];
    if (!a || failed) continue;
    note_site(a);
    if (!tape || a->request != TN_REQ_NULL || a->tape == (PyObject *)tape)
      continue;
    Py_XDECREF(a->tape);
    Py_INCREF((PyObject *)tape);
    a->tape = (PyObject *)tape;
  }
  return failed ? -1 : 0;
}

static int run_with(const core_call *c, tn_array **in, tn_array **out) {
  py_tape *tape = core_recording;
  tn_code code;
  for (size_t i = 0; i < c->n_in; ++i) {
    in[i] = c->in[i] ? core_array_of(c->in[i]) : NULL;
    if (tape && c->in[i] && core_watch(tape, c->in[i])) return -1;
  }
  for (size_t i = 0; i < c->n_out; ++i)
    out[i] = c->out[i] ? core_array_of(c->out[i]) : NULL;
  const tn_inputs inputs = {c->n_in, in};
  const tn_outputs outputs = {c->n_out, out, NULL};
  if (core.releases || c->op->may_wait)
    CORE_WITHOUT_GIL(code = call_now(c, tape, &inputs, &outputs));
  else
    code = call_now(c, tape, &inputs, &outputs);
  if (code == TN_OK) return wrap_results(c, out, tape);
  core_raise(code, NULL);
  return -1;
}

int core_run(const core_call *c) {
  tn_array *few[2 * FEW];
  if (c->n_in <= FEW && c->n_out <= FEW) return run_with(c, few, few + FEW);
  tn_array **all = calloc(c->n_in + c->n_out + 1, sizeof *all);
  if (!all) {
    PyErr_NoMemory();
    return -1;
  }
  const int result = run_with(c, all, all + c->n_in);
  free(all);
  return result;
}

/* ---------------------------------------------------------------- arguments */

/* The arguments of a call. */
typedef struct arguments {
  PyObject **in; /* borrowed, NULL if omitted */
  size_t n_in;
  size_t n_variadic;      /* more than one input of the last name */
  PyObject *out;          /* borrowed, or NULL */
  tn_prepared **prepared; /* NULL: the call is made */
  core_params params;
} arguments;

int core_refuse_argument(const py_operator *op, PyObject *name) {
  PyObject *done = core_help("refuse_argument", "(OO)", op->function, name);
  Py_XDECREF(done);
  return -1;
}

uint32_t core_find_name(PyObject *const *names, uint32_t n, PyObject *name) {
  for (uint32_t i = 0; i < n; ++i)
    if (names[i] == name) return i;
  for (uint32_t i = 0; i < n; ++i)
    if (PyUnicode_Compare(names[i], name) == 0) return i;
  return n;
}

static int take_named_input(const py_operator *op, arguments *a, uint32_t i,
                            PyObject *value) {
  if (op->is_variadic && i >= op->desc->n_inputs)
    i += (uint32_t)a->n_variadic - 1;
  if (a->in[i]) {
    PyErr_Format(PyExc_TypeError, "%s() got two values for `%S`", op->name,
                 op->input_names[i]);
    return -1;
  }
  a->in[i] = value == Py_None ? NULL : value;
  return 0;
}

static int take_out_name(arguments *a, PyObject *value) {
  a->out = value == Py_None ? NULL : value;
  return 0;
}

static int take_named(const py_operator *op, arguments *a, PyObject *name,
                      PyObject *value) {
  static PyObject *out;
  if (!out) out = PyUnicode_InternFromString("out");
  /* Names in source code are interned, so this finds most of them. */
  if (name == out) return take_out_name(a, value);
  const uint32_t p = core_find_name(op->param_names, op->desc->n_params, name);
  if (p < op->desc->n_params) {
    if (a->params.n == 64) return core_refuse_argument(op, name);
    a->params.fields[a->params.n] = p;
    a->params.objects[a->params.n++] = value;
    return 0;
  }
  const uint32_t i = core_find_name(op->input_names, op->n_in, name);
  if (i < op->n_in) return take_named_input(op, a, i, value);
  if (PyUnicode_CompareWithASCIIString(name, "out") == 0)
    return take_out_name(a, value);
  return core_refuse_argument(op, name);
}

static int refuse_count(const py_operator *op, Py_ssize_t n) {
  PyErr_Format(PyExc_TypeError,
               "%s() takes at most %u array%s but %zd were passed; name its "
               "parameters",
               op->name, (unsigned)op->n_in, op->n_in == 1 ? "" : "s", n);
  return -1;
}

/* Positional arguments; the last input of a variadic operator takes the rest,
 * or one list. */
static int take_positional(const py_operator *op, arguments *a,
                           PyObject *const *args, Py_ssize_t n) {
  if (!op->is_variadic && n > (Py_ssize_t)op->n_in) return refuse_count(op, n);
  for (Py_ssize_t i = 0; i < n; ++i)
    a->in[i] = args[i] == Py_None ? NULL : args[i];
  return 0;
}

/* Whether the last positional argument of a variadic operator is a list. */
static bool ends_in_list(const py_operator *op, PyObject *const *args,
                         Py_ssize_t n) {
  return op->is_variadic && n == (Py_ssize_t)op->desc->n_inputs &&
         (PyList_Check(args[n - 1]) || PyTuple_Check(args[n - 1]));
}

/* Counts the operands: a variadic input counts as often as it is passed. */
static void count_operands(const py_operator *op, arguments *a, Py_ssize_t n) {
  const Py_ssize_t before = (Py_ssize_t)op->desc->n_inputs - 1;
  a->n_variadic = 1;
  if (op->is_variadic && n > before) a->n_variadic = (size_t)(n - before);
  a->n_in = op->n_in + a->n_variadic - 1;
  if (op->is_variadic && n <= before) a->n_variadic = 1;
}

/* -------------------------------------------------------------- conversions */

/* The first array among the inputs: numbers get its type. */
static const py_array *find_array(const arguments *a) {
  for (size_t i = 0; i < a->n_in; ++i)
    if (a->in[i] && core_is_array(a->in[i]))
      return (const py_array *)(void *)a->in[i];
  return NULL;
}

/* Replaces inputs that are no arrays. New objects are in `made`. */
static int convert_inputs(arguments *a, PyObject **made) {
  const py_array *like = NULL;
  for (size_t i = 0; i < a->n_in; ++i) {
    if (!a->in[i] || core_is_array(a->in[i])) continue;
    if (!like) like = find_array(a);
    made[i] = core_convert(a->in[i], like);
    if (!made[i]) return -1;
    a->in[i] = made[i];
  }
  return 0;
}

/* ------------------------------------------------------------------ results */

/* Distributes `out`: an array, or a tuple with arrays and None. */
static int take_out(const py_operator *op, PyObject *out, PyObject **to,
                    uint32_t n) {
  if (!out) return 0;
  if (n == 1 && core_is_array(out)) {
    Py_INCREF(out);
    to[0] = out;
    return 0;
  }
  if (!PyTuple_Check(out) && !PyList_Check(out)) {
    PyErr_Format(PyExc_TypeError, "%s(): `out` must be %s, not %R", op->name,
                 n == 1 ? "an Array" : "a tuple of Arrays and None",
                 (PyObject *)Py_TYPE(out));
    return -1;
  }
  if (PySequence_Size(out) != (Py_ssize_t)n) {
    PyErr_Format(PyExc_ValueError, "%s() has %u outputs; `out` has %zd",
                 op->name, (unsigned)n, PySequence_Size(out));
    return -1;
  }
  for (uint32_t i = 0; i < n; ++i) {
    PyObject *item = PySequence_GetItem(out, i);
    if (item && item != Py_None && !core_is_array(item))
      PyErr_Format(PyExc_TypeError, "%s(): `out` has %R, which is no Array",
                   op->name, item);
    if (!item || PyErr_Occurred()) {
      Py_XDECREF(item);
      return -1;
    }
    if (item == Py_None)
      Py_DECREF(item);
    else
      to[i] = item;
  }
  return 0;
}

/* One object, or a tuple. Takes the references. */
static PyObject *make_result(PyObject **out, uint32_t n) {
  if (n == 1) return out[0];
  if (n == 0) Py_RETURN_NONE;
  PyObject *tuple = PyTuple_New(n);
  for (uint32_t i = 0; i < n; ++i) {
    if (tuple)
      (void)PyTuple_SetItem(tuple, i, out[i]);
    else
      Py_XDECREF(out[i]);
  }
  return tuple;
}

static PyObject *run_counted(py_operator *op, const arguments *a,
                             const tn_params *params, uint32_t n_out) {
  PyObject *few[FEW] = {NULL};
  PyObject **out = n_out <= FEW ? few : calloc(n_out, sizeof *out);
  PyObject *result = NULL;
  size_t n_in = a->n_in;
  if (!out) return PyErr_NoMemory();
  while (op->desc->n_aux == 0 && n_in > 0 && !a->in[n_in - 1]) --n_in;
  const core_call call = {op, a->in, n_in, params, out, n_out, a->prepared};
  if (take_out(op, a->out, out, n_out) == 0 && core_run(&call) == 0) {
    result = make_result(out, n_out);
  } else {
    for (uint32_t i = 0; i < n_out; ++i) Py_XDECREF(out[i]);
  }
  if (out != few) free(out);
  return result;
}

static PyObject *run_arguments(py_operator *op, const arguments *a) {
  tn_params *own = NULL;
  const tn_params *params = NULL;
  uint32_t n_out = op->n_visible;
  if (a->params.n > 0 && !(params = core_find_params(op, &a->params, &own)))
    return NULL;
  if (!op->is_plain) {
    const uint32_t n_in = (uint32_t)a->n_in - op->desc->n_aux;
    const tn_code code =
        tn_operator_outputs(op->op, params, n_in, NULL, &n_out);
    if (code != TN_OK) {
      tn_params_release(own);
      return core_raise(code, NULL);
    }
  }
  PyObject *result = run_counted(op, a, params, n_out);
  tn_params_release(own);
  return result;
}

/* ------------------------------------------------------------------- entry */

static PyObject *call_converted(py_operator *op, arguments *a,
                                PyObject **made) {
  PyObject *result = NULL;
  if (convert_inputs(a, made) == 0) result = run_arguments(op, a);
  for (size_t i = 0; i < a->n_in; ++i) Py_XDECREF(made[i]);
  return result;
}

static PyObject *call_symbols(const py_operator *op, PyObject *const *args,
                              Py_ssize_t n, PyObject *names) {
  PyObject *list = PyTuple_New(n), *named = PyDict_New(), *result = NULL;
  for (Py_ssize_t i = 0; list && i < n; ++i) {
    Py_INCREF(args[i]);
    (void)PyTuple_SetItem(list, i, args[i]);
  }
  const Py_ssize_t n_names = names ? PyTuple_Size(names) : 0;
  for (Py_ssize_t i = 0; named && i < n_names; ++i)
    if (PyDict_SetItem(named, PyTuple_GetItem(names, i), args[n + i]))
      Py_CLEAR(named);
  if (list && named)
    result = core_help("call_symbols", "(sOO)", tn_operator_name(op->op), list,
                       named);
  Py_XDECREF(list);
  Py_XDECREF(named);
  return result;
}

/* Whether an argument is a symbol: the call becomes a node of a graph. */
static bool is_for_graph(PyObject *const *args, Py_ssize_t n) {
  for (Py_ssize_t i = 0; i < n; ++i)
    if (!core_is_array(args[i]) && !PyFloat_Check(args[i]) &&
        !PyLong_Check(args[i]) &&
        PyObject_HasAttrString((PyObject *)Py_TYPE(args[i]), "_tenon_symbol"))
      return true;
  return false;
}

/* The call with the items of the last argument as arguments. */
static PyObject *call_spread(py_operator *op, PyObject *const *args,
                             Py_ssize_t n, PyObject *names,
                             tn_prepared **prepared) {
  PyObject *list = PySequence_Tuple(args[n - 1]), *result = NULL;
  if (!list) return NULL;
  const Py_ssize_t n_items = PyTuple_Size(list);
  const Py_ssize_t n_names = names ? PyTuple_Size(names) : 0;
  PyObject **all =
      calloc((size_t)(n + n_items + n_names + 1), sizeof(PyObject *));
  if (all) {
    for (Py_ssize_t i = 0; i < n - 1; ++i) all[i] = args[i];
    for (Py_ssize_t i = 0; i < n_items; ++i)
      all[n - 1 + i] = PyTuple_GetItem(list, i);
    for (Py_ssize_t i = 0; i < n_names; ++i)
      all[n - 1 + n_items + i] = args[n + i];
    result = core_call_or_prepare(op, all, n - 1 + n_items, names, prepared);
  } else {
    PyErr_NoMemory();
  }
  free(all);
  Py_DECREF(list);
  return result;
}

PyObject *core_call_or_prepare(py_operator *op, PyObject *const *args,
                               Py_ssize_t n, PyObject *names,
                               tn_prepared **prepared) {
  const Py_ssize_t n_names = names ? PyTuple_Size(names) : 0;
  PyObject *few[2 * FEW] = {NULL}, **room = few, *result = NULL;
  arguments a; /* most of it is not used by most calls */
  int failed = 0;
  if (!core_is_usable(op)) return NULL;
  if (is_for_graph(args, n + n_names)) return call_symbols(op, args, n, names);
  if (ends_in_list(op, args, n))
    return call_spread(op, args, n, names, prepared);
  a.params.n = 0;
  a.out = NULL;
  a.prepared = prepared;
  count_operands(op, &a, n);
  if (a.n_in > FEW) room = calloc(2 * a.n_in, sizeof *room);
  if (!room) return PyErr_NoMemory();
  a.in = room;
  failed = take_positional(op, &a, args, n);
  for (Py_ssize_t i = 0; i < n_names && !failed; ++i)
    failed = take_named(op, &a, PyTuple_GetItem(names, i), args[n + i]);
  if (!failed)
    result = call_converted(op, &a, room + (a.n_in > FEW ? a.n_in : FEW));
  if (room != few) free(room);
  return result;
}

PyObject *core_call_operator(PyObject *self, PyObject *const *args,
                             Py_ssize_t n, PyObject *names) {
  return core_call_or_prepare((py_operator *)(void *)self, args, n, names,
                              NULL);
}
