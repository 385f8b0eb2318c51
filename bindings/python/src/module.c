/* SPDX-License-Identifier: Apache-2.0
 * module.c: the module tenon._core, and the runtime of the process.
 */
#include <string.h>

#include "core.h"

core_state core;

/* ------------------------------------------------------------------ runtime */

static PyObject *log_function; /* called as f(level, line), or NULL */

static void log_line(void *ctx, int32_t level, const char *line) {
  (void)ctx;
  if (core.ended || !Py_IsInitialized()) return;
  PyGILState_STATE state = PyGILState_Ensure();
  PyObject *done = PyObject_CallFunction(log_function, "is", (int)level, line);
  if (!done) PyErr_WriteUnraisable(log_function);
  Py_XDECREF(done);
  PyGILState_Release(state);
}

/* Whether a signal, as of Ctrl-C, ends a wait: its handler has raised an
 * exception on this thread. Python runs handlers on its main thread only. */
static int32_t check_signals(void *ctx) {
  (void)ctx;
  PyGILState_STATE state = PyGILState_Ensure();
  const int raised = PyErr_CheckSignals();
  PyGILState_Release(state);
  return raised != 0;
}

/* Held by the thread that creates the runtime; others wait for it. */
static PyThread_type_lock creation;
static unsigned long creator; /* that thread, or 0 */

/* Creates the runtime, for other threads when its plugins are loaded. */
static tn_code create_runtime(tn_options *options) {
  tn_runtime *rt = NULL;
  options->struct_size = sizeof *options;
  options->interrupted = check_signals;
  /* A function in Python that logs may let other threads run in a call. With
   * the other engines a call may wait for a thread that frees an array. */
  if (options->engine != TN_ENGINE_POOLED || options->log) core.releases = true;
  tn_code code = tn_runtime_create(options, &rt);
  if (code != TN_OK) return code;
  code = tn_plugins_load_standard(rt); /* refused files are in the log */
  (void)code;
  core.runtime = rt;
  return TN_OK;
}

/* Returns 0 if the runtime exists now, else -1 with an exception. */
static int ensure_runtime(tn_options *options) {
  tn_code code = TN_OK;
  if (core.ended) {
    PyErr_SetString(PyExc_RuntimeError,
                    "tenon has ended with the interpreter; call it earlier");
    return -1;
  }
  if (creator == PyThread_get_thread_ident()) {
    PyErr_SetString(PyExc_RuntimeError,
                    "the function that logs called tenon while the runtime was "
                    "being created; let it only print");
    return -1;
  }
  Py_BEGIN_ALLOW_THREADS;
  (void)PyThread_acquire_lock(creation, WAIT_LOCK);
  creator = PyThread_get_thread_ident();
  if (!core.runtime) code = create_runtime(options);
  creator = 0;
  PyThread_release_lock(creation);
  Py_END_ALLOW_THREADS;
  if (code == TN_OK) return 0;
  core_raise(code, NULL);
  return -1;
}

tn_runtime *core_runtime(void) {
  tn_options options = {0};
  if (core.runtime) return core.runtime;
  return ensure_runtime(&options) ? NULL : core.runtime;
}

/* configure(workers, engine, seed, log_levels, trust, n_cpus, log) */
static PyObject *configure(PyObject *module, PyObject *args) {
  unsigned int workers, engine, trust, n_cpus;
  unsigned long long seed;
  const char *levels;
  PyObject *log;
  (void)module;
  if (!PyArg_ParseTuple(args, "IIKzIIO:configure", &workers, &engine, &seed,
                        &levels, &trust, &n_cpus, &log))
    return NULL;
  if (core.runtime) {
    PyErr_SetString(PyExc_RuntimeError,
                    "the runtime exists already; call tenon.configure() "
                    "before anything else of tenon");
    return NULL;
  }
  tn_options options = {.workers = workers,
                        .engine = engine,
                        .seed = seed,
                        .log_levels = levels,
                        .trust = trust,
                        .n_cpus = n_cpus};
  if (log != Py_None) {
    Py_INCREF(log);
    log_function = log;
    options.log = log_line;
  }
  if (ensure_runtime(&options)) return NULL;
  Py_RETURN_NONE;
}

/* At the end of the interpreter: waits for all work. Arrays that still exist
 * keep the runtime. */
static PyObject *end_runtime(PyObject *module, PyObject *unused) {
  tn_runtime *rt = core.runtime;
  (void)module;
  (void)unused;
  core.ended = true;
  core.runtime = NULL;
  if (rt) {
    tn_code code;
    CORE_WITHOUT_GIL(code = tn_wait_all(rt));
    CORE_WITHOUT_GIL(tn_runtime_release(rt));
    core_free_returned();
    (void)code; /* nobody is left who could read the error */
  }
  Py_RETURN_NONE;
}

static PyObject *wait_all(PyObject *module, PyObject *unused) {
  tn_code code;
  (void)module;
  (void)unused;
  if (!core.runtime) Py_RETURN_NONE;
  CORE_WITHOUT_GIL(code = tn_wait_all(core.runtime));
  if (code != TN_OK) return core_raise(code, NULL);
  Py_RETURN_NONE;
}

static PyObject *get_runtime(PyObject *module, PyObject *unused) {
  (void)module;
  (void)unused;
  return core_runtime() ? PyLong_FromVoidPtr(core.runtime) : NULL;
}

/* Tells where the files of the package are. */
static PyObject *set_folder(PyObject *module, PyObject *folder) {
  (void)module;
  Py_INCREF(folder);
  Py_XDECREF(core.folder);
  core.folder = folder;
  Py_RETURN_NONE;
}

/* Calls release the GIL from now on: operators in Python need it. */
static PyObject *release_in_calls(PyObject *module, PyObject *unused) {
  (void)module;
  (void)unused;
  core.releases = true;
  Py_RETURN_NONE;
}

/* ------------------------------------------------------------------- plugins
 */

static PyObject *load_plugin(PyObject *module, PyObject *path) {
  tn_code code;
  (void)module;
  if (!core_runtime()) return NULL;
  PyObject *bytes = NULL;
  if (!PyUnicode_FSConverter(path, &bytes)) return NULL;
  const char *name = PyBytes_AsString(bytes);
  CORE_WITHOUT_GIL(code = tn_plugin_load(core.runtime, name));
  Py_DECREF(bytes);
  if (code != TN_OK) return core_raise(code, NULL);
  Py_RETURN_NONE;
}

static PyObject *unload_plugin(PyObject *module, PyObject *name) {
  tn_code code;
  (void)module;
  if (!core_runtime()) return NULL;
  PyObject *bytes = core_read_name(name);
  if (!bytes) return NULL;
  const char *text = PyBytes_AsString(bytes);
  core_drop_params(text);
  CORE_WITHOUT_GIL(code = tn_plugin_unload(core.runtime, text));
  if (code == TN_OK) core_disable(text);
  Py_DECREF(bytes);
  if (code != TN_OK) return core_raise(code, NULL);
  Py_RETURN_NONE;
}

/* The full names of all operators. */
static PyObject *list_operators(PyObject *module, PyObject *unused) {
  tn_operator *op = NULL;
  (void)module;
  (void)unused;
  if (!core_runtime()) return NULL;
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && tn_operator_at(core.runtime, i, &op) == TN_OK;
       ++i) {
    const tn_op *desc = tn_operator_desc(op);
    if (!desc || desc->flags & TN_OP_BACKWARD_ONLY) continue;
    PyObject *name = PyUnicode_FromString(tn_operator_name(op));
    if (!name || PyList_Append(list, name)) Py_CLEAR(list);
    Py_XDECREF(name);
  }
  return list;
}

/* The name, file and summary of each loaded plugin. */
static PyObject *list_plugins(PyObject *module, PyObject *unused) {
  tn_plugin_info info;
  (void)module;
  (void)unused;
  if (!core_runtime()) return NULL;
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && tn_plugin_at(core.runtime, i, &info) == TN_OK;
       ++i) {
    PyObject *item = Py_BuildValue("(sss)", info.plugin->name, info.path,
                                   info.plugin->summary);
    if (!item || PyList_Append(list, item)) Py_CLEAR(list);
    Py_XDECREF(item);
  }
  return list;
}

/* -------------------------------------------------------------------- arrays
 */

static PyObject *wrap_array(PyObject *module, PyObject *address) {
  (void)module;
  tn_array *array = PyLong_AsVoidPtr(address);
  if (array) return core_wrap(array);
  if (!PyErr_Occurred())
    PyErr_SetString(PyExc_ValueError, "the address of an array is not 0");
  return NULL;
}

/* empty(shape, dtype number, place or None) */
static PyObject *make_empty(PyObject *module, PyObject *args) {
  PyObject *shape, *type;
  const char *text;
  int64_t sizes[TN_MAX_NDIM];
  tn_array *array = NULL;
  tn_place place = {TN_DEVICE_CPU, 0};
  tn_dtype dtype;
  (void)module;
  if (!PyArg_ParseTuple(args, "OOz:empty", &shape, &type, &text) ||
      !core_runtime())
    return NULL;
  const int n = core_parse_shape(shape, sizes);
  if (n < 0 || core_parse_dtype(type, &dtype)) return NULL;
  tn_code code = text ? tn_place_parse(core.runtime, text, &place) : TN_OK;
  const tn_spec spec = {dtype, n, sizes};
  if (code == TN_OK)
    code = tn_array_create_on(core.runtime, &spec, place, &array);
  return code == TN_OK ? core_wrap(array) : core_raise(code, NULL);
}

static PyObject *convert(PyObject *module, PyObject *object) {
  (void)module;
  return core_convert(object, NULL);
}

/* convert_like(object, array): numbers get the type of the array. */
static PyObject *convert_like(PyObject *module, PyObject *args) {
  PyObject *object, *like;
  (void)module;
  if (!PyArg_ParseTuple(args, "OO:convert_like", &object, &like)) return NULL;
  return core_convert(
      object, core_is_array(like) ? (const py_array *)(void *)like : NULL);
}

static PyObject *raise_error(PyObject *module, PyObject *code) {
  (void)module;
  return core_raise((tn_code)PyLong_AsLong(code), NULL);
}

static PyObject *seed_random(PyObject *module, PyObject *seed) {
  (void)module;
  const unsigned long long value = PyLong_AsUnsignedLongLongMask(seed);
  if (PyErr_Occurred() || !core_runtime()) return NULL;
  const tn_code code = tn_random_seed(core.runtime, value);
  if (code != TN_OK) return core_raise(code, NULL);
  Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"configure", configure, METH_VARARGS, NULL},
    {"end_runtime", end_runtime, METH_NOARGS, NULL},
    {"runtime_handle", get_runtime, METH_NOARGS, NULL},
    {"release_in_calls", release_in_calls, METH_NOARGS, NULL},
    {"set_folder", set_folder, METH_O, NULL},
    {"wait_all", wait_all, METH_NOARGS, NULL},
    {"load_plugin", load_plugin, METH_O, NULL},
    {"unload_plugin", unload_plugin, METH_O, NULL},
    {"list_operators", list_operators, METH_NOARGS, NULL},
    {"list_plugins", list_plugins, METH_NOARGS, NULL},
    {"operator", core_operator, METH_O, NULL},
    {"prepare", (PyCFunction)(void (*)(void))core_prepare,
     METH_FASTCALL | METH_KEYWORDS, NULL},
    {"wrap_array", wrap_array, METH_O, NULL},
    {"empty", make_empty, METH_VARARGS, NULL},
    {"convert", convert, METH_O, NULL},
    {"convert_like", convert_like, METH_VARARGS, NULL},
    {"from_dlpack", core_from_dlpack, METH_O, NULL},
    {"raise_error", raise_error, METH_O, NULL},
    {"seed", seed_random, METH_O, NULL},
    {NULL, NULL, 0, NULL}};

/* --------------------------------------------------------------------- start
 */

static int add_type(PyObject *module, const char *name, PyTypeObject *type) {
  if (!type) return -1;
  Py_INCREF((PyObject *)type);
  return PyModule_AddObject(module, name, (PyObject *)type);
}

/* Fills the module, once: an import of it again gives the same one. */
static int fill_module(PyObject *module) {
  if (core.array_type) return 0;
  creation = PyThread_allocate_lock();
  if (!creation) return -1;
  core.array_type = core_make_array_type(module);
  core.operator_type = core_make_operator_type(module);
  core.tape_type = core_make_tape_type(module);
  core.prepared_type = core_make_prepared_type(module);
  return add_type(module, "Array", core.array_type) ||
                 add_type(module, "Operator", core.operator_type) ||
                 add_type(module, "Tape", core.tape_type) ||
                 add_type(module, "Prepared", core.prepared_type) ||
                 PyModule_AddFunctions(module, core_tape_methods) ||
                 PyModule_AddStringConstant(module, "version", tn_version())
             ? -1
             : 0;
}

static PyObject *make_module(PyObject *spec, PyModuleDef *definition) {
  (void)spec;
  (void)definition;
  if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
    PyErr_SetString(PyExc_ImportError,
                    "tenon works in the main interpreter of a process only; "
                    "import it there, or use processes instead of "
                    "subinterpreters");
    return NULL;
  }
  if (!core.module) core.module = PyModule_New("tenon._core");
  Py_XINCREF(core.module);
  return core.module;
}

PyMODINIT_FUNC PyInit__core(void);
PyMODINIT_FUNC PyInit__core(void) {
  static PyModuleDef_Slot slots[] = {
      {Py_mod_create, make_module}, {Py_mod_exec, fill_module}, {0, NULL}};
  static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                                          "tenon._core",
                                          NULL,
                                          0,
                                          functions,
                                          slots,
                                          NULL,
                                          NULL,
                                          NULL};
  return PyModuleDef_Init(&definition);
}
