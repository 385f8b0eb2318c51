/* SPDX-License-Identifier: Apache-2.0
 * core.h: the types that the files of `tenon._core` share. The module holds the
 * hot path of the Python package: arrays, calls of operators, tapes. It uses
 * the limited API of Python 3.9, so that one file serves all later versions.
 *
 * THE GIL. Calls of operators keep it, because they only schedule work.
 * Functions that may wait release it (CORE_WITHOUT_GIL). Threads of the engine
 * take it only to run operators that are written in Python; since then, calls
 * release it as well (core.releases).
 */
#ifndef TENON_PYTHON_CORE_H_
#define TENON_PYTHON_CORE_H_

#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x03090000
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <tenon/exchange.h>
#include <tenon/tape.h>
#include <tenon/tenon.h>

/* Python has it since 3.7, but the limited API names it since 3.10 only. */
#ifndef METH_FASTCALL
#define METH_FASTCALL 0x0080
#endif

/* The state of the module, one for the process. */
typedef struct core_state {
  tn_runtime *runtime; /* NULL before its first use and after its end */
  bool releases;       /* calls release the GIL */
  bool ended;          /* the interpreter ends */
  PyObject *module;
  PyObject *folder; /* begin of the names of the package's files */
  PyTypeObject *array_type;
  PyTypeObject *operator_type;
  PyTypeObject *tape_type;
  PyTypeObject *prepared_type;
  PyObject *errors;  /* the module tenon._errors */
  PyObject *helpers; /* the module tenon._array: slow cases in Python */
} core_state;

extern core_state core;

#define CORE_WITHOUT_GIL(statement)             \
  do {                                          \
    PyThreadState *saved = PyEval_SaveThread(); \
    statement;                                  \
    PyEval_RestoreThread(saved);                \
  } while (0)

/* For functions that wait for another thread only if calls release the GIL:
 * that thread may need it, to run an operator or to free an array of NumPy. */
#define CORE_BRIEFLY(statement)    \
  do {                             \
    if (core.releases) {           \
      CORE_WITHOUT_GIL(statement); \
    } else {                       \
      statement;                   \
    }                              \
  } while (0)

/* An array. */
typedef struct py_array {
  PyObject ob_base;
  tn_array *array;
  PyObject *tape;     /* that has recorded it, or NULL */
  PyObject *root;     /* the array with a gradient that it is a view of */
  PyObject *gradient; /* an array, or NULL */
  PyObject *code;     /* of the call that computes it, if that takes long */
  PyObject *weak;     /* references */
  uint64_t watched;   /* number of the last tape that watches it */
  uint32_t request;   /* of its gradient: TN_REQ_*, NULL without one */
  int line;           /* of the call */
} py_array;

/* A tape. */
typedef struct py_tape {
  PyObject ob_base;
  tn_tape *tape;
  PyObject *watched; /* list of arrays with gradients */
  uint64_t number;
  uint32_t train;
} py_tape;

/* module.c ------------------------------------------------------------------
 */

/* The runtime of the process; created at first. NULL with an exception. */
tn_runtime *core_runtime(void);

/* errors.c ------------------------------------------------------------------
 */

/* Raises the exception of a code with the text of the last failure. Returns
 * NULL. `site` may be NULL: the array that reports the failure. */
PyObject *core_raise(tn_code code, const py_array *site);

/* Calls a function of tenon._array. */
PyObject *core_help(const char *name, const char *format, ...);

/* array.c -------------------------------------------------------------------
 */

PyTypeObject *core_make_array_type(PyObject *module);
#define core_is_array(object) PyObject_TypeCheck((object), core.array_type)
#define core_array_of(object) (((py_array *)(void *)(object))->array)

/* An object for an array; takes it, also on failure. */
PyObject *core_wrap(tn_array *array);

/* A view of `from`; takes `array`, also on failure. */
PyObject *core_wrap_view(py_array *from, tn_array *array);

/* Waits until the array can be read, without the GIL. -1 with an exception. */
int core_wait(py_array *array);

/* convert.c -----------------------------------------------------------------
 */

/* A new reference to an array with the elements of any object: a number, lists
 * of numbers, an array of NumPy or of another framework. `like` may be NULL: an
 * array with the type that numbers get. */
PyObject *core_convert(PyObject *object, const py_array *like);
/* The memory of a dense, writeable array of NumPy, and its size. NULL with an
 * exception. Borrowed while the array lives. */
void *core_numpy_memory(PyObject *object, size_t *bytes);
/* Whether an integer is in the range of a type; floats have all. */
bool core_fits(tn_dtype dtype, long long value);
int core_parse_dtype(PyObject *object, tn_dtype *out);
/* The sizes of a shape; their number, or -1 with an exception. */
int core_parse_shape(PyObject *object, int64_t shape[TN_MAX_NDIM]);

/* dlpack.c ------------------------------------------------------------------
 */

PyObject *core_to_dlpack(PyObject *self, PyObject *args, PyObject *named);
PyObject *core_dlpack_device(PyObject *self, PyObject *unused);
PyObject *core_from_dlpack(PyObject *module, PyObject *object);
/* Releases memory of other packages that no array uses any more. */
void core_free_returned(void);

/* index.c -------------------------------------------------------------------
 */

PyObject *core_get_item(PyObject *self, PyObject *key);
int core_set_item(PyObject *self, PyObject *key, PyObject *value);

/* arithmetic.c --------------------------------------------------------------
 */

int core_add_arithmetic(PyType_Slot *slots, int n, int most);

/* operators.c ---------------------------------------------------------------
 */

enum { CORE_LAST = 8, CORE_SCALARS = 4 };

/* An operator that Python code can call. */
typedef struct py_operator {
  PyObject ob_base;
  tn_operator *op; /* NULL since its plugin was unloaded */
  const tn_op *desc;
  PyObject **input_names; /* then those of states */
  PyObject **param_names;
  PyObject *function; /* the object that users call; not owned */
  PyMethodDef method;
  char *name; /* without the plugin */
  char *full_name;
  char *doc;
  struct py_operator *previous, *following; /* of all that exist */
  uint32_t n_in;                            /* inputs and states */
  uint32_t n_params;
  uint32_t n_visible;
  bool is_plain; /* the number of outputs is fixed */
  bool is_variadic;
  bool may_wait;
  struct { /* the last two lists of parameters */
    uint32_t n;
    uint32_t fields[CORE_LAST];
    PyObject *values; /* a tuple */
    tn_params *params;
  } last[2];
  uint32_t next; /* of `last` to replace */
  uint32_t next_scalar;
  struct { /* parameters of calls with a number */
    double value;
    tn_params *params;
  } scalars[CORE_SCALARS];
} py_operator;

PyTypeObject *core_make_operator_type(PyObject *module);
PyObject *core_operator(PyObject *module, PyObject *name);
/* The operator of a name, for calls from C; the caller releases it. NULL with
 * an exception. */
py_operator *core_find_operator(const char *name);

/* A name as bytes; NULL with an exception. */
PyObject *core_read_name(PyObject *name);
/* Releases the parameters that operators of a plugin keep. */
void core_drop_params(const char *plugin);
/* Makes the operators of a plugin that was unloaded unusable. */
void core_disable(const char *plugin);
/* Whether the operator can be called; else an exception. */
bool core_is_usable(const py_operator *op);

/* call.c --------------------------------------------------------------------
 */

PyObject *core_call_operator(PyObject *self, PyObject *const *args,
                             Py_ssize_t n, PyObject *names);
/* Makes a call, or prepares it if there is a place for it. Returns the results.
 */
PyObject *core_call_or_prepare(py_operator *op, PyObject *const *args,
                               Py_ssize_t n, PyObject *names,
                               tn_prepared **prepared);
/* The place of a name among interned ones, or n. */
uint32_t core_find_name(PyObject *const *names, uint32_t n, PyObject *name);
/* Raises the error of an unknown keyword. Returns -1. */
int core_refuse_argument(const py_operator *op, PyObject *name);

/* One call with arrays; `out` has n_out places, NULL for new arrays. Returns 0,
 * or -1 with an exception. */
typedef struct core_call {
  py_operator *op;
  PyObject *const *in; /* arrays, or NULL */
  size_t n_in;
  const tn_params *params;
  PyObject **out;
  size_t n_out;
  tn_prepared **prepared; /* NULL: the call is made */
} core_call;
int core_run(const core_call *call);

/* prepare.c -----------------------------------------------------------------
 */

PyTypeObject *core_make_prepared_type(PyObject *module);
PyObject *core_prepare(PyObject *module, PyObject *const *args, Py_ssize_t n,
                       PyObject *names);

/* params.c ------------------------------------------------------------------
 */

/* The named parameters of a call. */
typedef struct core_params {
  uint32_t n;
  uint32_t fields[64];
  PyObject *objects[64];
} core_params;

/* Whether an object is a bool of NumPy; bools of Python are ints. */
bool core_is_numpy_bool(PyObject *object);
/* The parameters of a call. *own is set if the caller releases them. NULL with
 * an exception. */
const tn_params *core_find_params(py_operator *op, const core_params *p,
                                  tn_params **own);
/* The parameter `scalar` of an operator; NULL with an exception. The caller
 * releases *own after the call, unless it is NULL. */
const tn_params *core_scalar_params(py_operator *op, double scalar,
                                    tn_params **own);
/* Sets a dynamic parameter of a prepared call. -1 with an exception. */
int core_set_dynamic(tn_prepared *call, const py_operator *op, uint32_t field,
                     PyObject *object);

/* tape.c --------------------------------------------------------------------
 */

PyTypeObject *core_make_tape_type(PyObject *module);
/* The tape that records calls of this thread, or NULL. */
extern _Thread_local py_tape *core_recording;
/* Lets the tape watch the array if it wants a gradient. -1 with an exception.
 */
int core_watch(py_tape *tape, PyObject *array);
extern PyMethodDef core_tape_methods[];

#endif /* TENON_PYTHON_CORE_H_ */
