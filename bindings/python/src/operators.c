/* SPDX-License-Identifier: Apache-2.0
 * operators.c: operators as functions of Python, made from their descriptions:
 * names, a signature that inspect and help() show, documentation.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"

static py_operator *as_operator(PyObject *self) {
  return (py_operator *)(void *)self;
}

/* -------------------------------------------------------------- description */

/* A text that grows. */
typedef struct text {
  char *at;
  size_t n, room;
} text;

static void add_text(text *t, const char *format, ...) TN_PRINTF(2, 3);
static void add_text(text *t, const char *format, ...) {
  va_list list;
  char *more;
  va_start(list, format);
  const int n = vsnprintf(NULL, 0, format, list);
  va_end(list);
  if (n < 0) return;
  if (t->n + (size_t)n + 1 > t->room) {
    t->room = 2 * (t->room + (size_t)n + 1);
    more = realloc(t->at, t->room);
    if (!more) return;
    t->at = more;
  }
  va_start(list, format);
  t->n += (size_t)vsnprintf(t->at + t->n, t->room - t->n, format, list);
  va_end(list);
}

static bool is_keyword(const char *name) {
  static const char *const words[] = {
      "False",  "None",   "True",    "and",      "as",       "assert", "async",
      "await",  "break",  "class",   "continue", "def",      "del",    "elif",
      "else",   "except", "finally", "for",      "from",     "global", "if",
      "import", "in",     "is",      "lambda",   "nonlocal", "not",    "or",
      "pass",   "raise",  "return",  "try",      "while",    "with",   "yield"};
  for (size_t i = 0; i < sizeof words / sizeof *words; ++i)
    if (strcmp(name, words[i]) == 0) return true;
  return false;
}

/* The default of a parameter as Python writes it. */
static void add_default(text *t, const tn_field *f) {
  const char *d = f->default_text;
  if (!d) return;
  if (strcmp(d, "None") == 0)
    add_text(t, "=None");
  else if (f->type == TN_FIELD_BOOL)
    add_text(
        t, strcmp(d, "true") == 0 || strcmp(d, "1") == 0 ? "=True" : "=False");
  else if (f->type == TN_FIELD_STRING || f->type == TN_FIELD_ENUM ||
           f->type == TN_FIELD_DTYPE)
    add_text(t, d[0] == '"' ? "=%s" : "=\"%s\"", d);
  else if (strstr(d, "inf") || strstr(d, "nan"))
    add_text(t, "=\"%s\"", d);
  else
    add_text(t, "=%s", d);
}

static void add_operand(text *t, const tn_arg *arg, const char **comma) {
  const bool is_variadic = (arg->flags & TN_ARG_VARIADIC) != 0;
  const bool is_optional = (arg->flags & TN_ARG_OPTIONAL) != 0;
  add_text(t, "%s%s%s%s%s", *comma, is_variadic ? "*" : "", arg->name,
           is_keyword(arg->name) ? "_" : "",
           is_optional && !is_variadic ? "=None" : "");
  *comma = ", ";
}

/* "name(x, weight, bias=None, *, kernel, stride=[1, 1], out=None)" */
static void add_signature(text *t, const tn_op *d) {
  const char *comma = "";
  bool is_variadic = false;
  add_text(t, "%s(", d->name);
  for (uint32_t i = 0; i < d->n_inputs; ++i) {
    add_operand(t, d->inputs[i], &comma);
    is_variadic |= (d->inputs[i]->flags & TN_ARG_VARIADIC) != 0;
  }
  for (uint32_t i = 0; i < d->n_aux; ++i) {
    add_text(t, "%s%s=None", comma, d->aux[i]->name);
    comma = ", ";
  }
  if (!is_variadic) add_text(t, "%s*", comma);
  for (uint32_t i = 0; i < d->n_params; ++i) {
    const tn_field *f = d->params[i];
    add_text(t, ", %s%s", f->name, is_keyword(f->name) ? "_" : "");
    add_default(t, f);
  }
  add_text(t, ", out=None)");
}

static void add_operand_doc(text *t, const tn_arg *a) {
  add_text(t, "  %s", a->name);
  if (a->shape_text && a->shape_text[0] != '{') /* not a function of C */
    add_text(t, "  (%s)", a->shape_text);
  if (a->doc) add_text(t, "  %s", a->doc);
  if (a->formula) add_text(t, "\n      = %s", a->formula);
  add_text(t, "\n");
}

static void add_operands_doc(text *t, const char *title, uint32_t n,
                             const tn_arg *const *args) {
  if (n > 0) add_text(t, "\n%s\n", title);
  for (uint32_t i = 0; i < n; ++i)
    if ((args[i]->flags & TN_ARG_HIDDEN) == 0) add_operand_doc(t, args[i]);
}

static void add_params_doc(text *t, const tn_op *d) {
  if (d->n_params > 0) add_text(t, "\nParameters\n");
  for (uint32_t i = 0; i < d->n_params; ++i) {
    const tn_field *f = d->params[i];
    add_text(t, "  %s  %s", f->name, f->doc ? f->doc : "");
    for (uint32_t k = 0; f->type == TN_FIELD_ENUM && k < f->n_values; ++k)
      add_text(t, "%s%s", k ? ", " : " (", f->values[k]);
    add_text(t, f->type == TN_FIELD_ENUM && f->n_values ? ")\n" : "\n");
  }
}

static void add_gradient_doc(text *t, const tn_op *d) {
  const tn_gradient *g = d->gradient;
  if (!g || g->kind == TN_GRADIENT_NONE) {
    add_text(t, "\nGradient\n  none%s%s\n", g && g->why ? ": " : "",
             g && g->why ? g->why : "");
    return;
  }
  add_text(t, "\nGradient\n");
  for (uint32_t i = 0; i < g->n_inputs && i < d->n_inputs; ++i) {
    const tn_input_gradient *in = g->inputs[i];
    if (in->stop)
      add_text(t, "  grad.%s: none\n", d->inputs[i]->name);
    else if (in->formula)
      add_text(t, "  grad.%s = %s\n", d->inputs[i]->name, in->formula);
    else
      add_text(t, "  grad.%s\n", d->inputs[i]->name);
  }
}

static char *describe(const tn_op *d) {
  text t = {NULL, 0, 0};
  add_signature(&t, d);
  add_text(&t, "\n--\n\n%s\n", d->summary ? d->summary : d->name);
  if (d->doc) add_text(&t, "\n%s\n", d->doc);
  add_operands_doc(&t, "Inputs", d->n_inputs, d->inputs);
  add_operands_doc(&t, "States", d->n_aux, d->aux);
  add_params_doc(&t, d);
  add_operands_doc(&t, "Outputs", d->n_outputs, d->outputs);
  add_gradient_doc(&t, d);
  return t.at;
}

/* --------------------------------------------------------------------- life */

/* The name of an operand or parameter: a keyword of Python gets a "_". */
static PyObject *intern_name(const char *name) {
  char changed[128];
  if (!is_keyword(name)) return PyUnicode_InternFromString(name);
  (void)snprintf(changed, sizeof changed, "%s_", name);
  return PyUnicode_InternFromString(changed);
}

/* Whether a call may wait for its inputs. */
static bool may_wait(const tn_op *d) {
  for (uint32_t i = 0; i < d->n_outputs; ++i)
    if (d->outputs[i]->flags & TN_ARG_DYNAMIC) return true;
  return false;
}

static void describe_outputs(py_operator *o) {
  const tn_op *d = o->desc;
  o->is_plain = true;
  for (uint32_t i = 0; i < d->n_outputs; ++i) {
    if (d->outputs[i]->count != TN_NONE) o->is_plain = false;
    if ((d->outputs[i]->flags & TN_ARG_HIDDEN) == 0) ++o->n_visible;
  }
  o->is_variadic = d->n_inputs > 0 &&
                   (d->inputs[d->n_inputs - 1]->flags & TN_ARG_VARIADIC) != 0;
  o->may_wait = may_wait(d);
}

static int intern_names(py_operator *o) {
  const tn_op *d = o->desc;
  o->n_in = d->n_inputs + d->n_aux;
  o->n_params = d->n_params;
  o->input_names = calloc(o->n_in + 1, sizeof(PyObject *));
  o->param_names = calloc(d->n_params + 1, sizeof(PyObject *));
  if (!o->input_names || !o->param_names) {
    PyErr_NoMemory();
    return -1;
  }
  for (uint32_t i = 0; i < o->n_in; ++i) {
    const tn_arg *arg =
        i < d->n_inputs ? d->inputs[i] : d->aux[i - d->n_inputs];
    o->input_names[i] = intern_name(arg->name);
    if (!o->input_names[i]) return -1;
  }
  for (uint32_t i = 0; i < d->n_params; ++i) {
    o->param_names[i] = intern_name(d->params[i]->name);
    if (!o->param_names[i]) return -1;
  }
  return 0;
}

static py_operator *first; /* of all operators that exist */

static void drop_params(py_operator *o) {
  for (size_t i = 0; i < sizeof o->last / sizeof *o->last; ++i) {
    tn_params_release(o->last[i].params);
    o->last[i].params = NULL;
    Py_CLEAR(o->last[i].values);
  }
  for (size_t i = 0; i < CORE_SCALARS; ++i) {
    tn_params_release(o->scalars[i].params);
    o->scalars[i].params = NULL;
  }
}

static void remove_operator(py_operator *o) {
  if (o->previous) o->previous->following = o->following;
  if (o->following) o->following->previous = o->previous;
  if (first == o) first = o->following;
}

static void free_operator(PyObject *self) {
  py_operator *o = as_operator(self);
  PyTypeObject *type = Py_TYPE(self);
  remove_operator(o);
  for (uint32_t i = 0; o->input_names && i < o->n_in; ++i)
    Py_XDECREF(o->input_names[i]);
  for (uint32_t i = 0; o->param_names && i < o->n_params; ++i)
    Py_XDECREF(o->param_names[i]);
  drop_params(o);
  free(o->input_names);
  free(o->param_names);
  free(o->name);
  free(o->full_name);
  free(o->doc);
  PyObject_Free(self);
  Py_DECREF(type);
}

static py_operator *create_operator(tn_operator *op, const tn_op *desc) {
  py_operator *o = PyObject_New(py_operator, core.operator_type);
  if (!o) return NULL;
  memset((char *)o + sizeof(PyObject), 0, sizeof *o - sizeof(PyObject));
  o->op = op;
  o->desc = desc;
  describe_outputs(o);
  o->following = first;
  if (first) first->previous = o;
  first = o;
  o->doc = describe(desc);
  o->name = strdup(desc->name);
  o->full_name = strdup(tn_operator_name(op));
  if (!o->doc || !o->name || !o->full_name || intern_names(o)) {
    if (!PyErr_Occurred()) PyErr_NoMemory();
    Py_DECREF((PyObject *)o);
    return NULL;
  }
  o->method =
      (PyMethodDef){o->name, (PyCFunction)(void (*)(void))core_call_operator,
                    METH_FASTCALL | METH_KEYWORDS, o->doc};
  return o;
}

/* ------------------------------------------------------------------- finding
 */

/* Makes the object of an operator; its function owns it. */
static PyObject *make_function(const char *name) {
  tn_operator *op = NULL;
  tn_runtime *rt = core_runtime();
  if (!rt) return NULL;
  const tn_code code = tn_operator_get(rt, name, &op);
  if (code != TN_OK) return core_raise(code, NULL);
  py_operator *o = create_operator(op, tn_operator_desc(op));
  if (!o) return NULL;
  PyObject *module = PyUnicode_FromString("tenon.ops");
  PyObject *function =
      module ? PyCFunction_NewEx(&o->method, (PyObject *)o, module) : NULL;
  Py_XDECREF(module);
  o->function = function;
  Py_DECREF((PyObject *)o); /* the function has it */
  return function;
}

PyObject *core_read_name(PyObject *name) {
  if (PyUnicode_Check(name)) return PyUnicode_AsUTF8String(name);
  PyErr_Format(PyExc_TypeError, "a name is a str, not %R",
               (PyObject *)Py_TYPE(name));
  return NULL;
}

PyObject *core_operator(PyObject *module, PyObject *name) {
  (void)module;
  PyObject *bytes = core_read_name(name);
  if (!bytes) return NULL;
  PyObject *function = make_function(PyBytes_AsString(bytes));
  Py_DECREF(bytes);
  return function;
}

py_operator *core_find_operator(const char *name) {
  PyObject *function = core_help("find_operator", "(s)", name);
  if (!function) return NULL;
  PyObject *self = PyCFunction_GetSelf(function);
  Py_XINCREF(self);
  Py_DECREF(function);
  return as_operator(self);
}

/* ---------------------------------------------------------------- unloading
 */

/* Whether the operator is of a plugin. */
static bool is_of(const py_operator *o, const char *plugin) {
  const size_t n = strlen(plugin);
  return strncmp(o->full_name, plugin, n) == 0 && o->full_name[n] == '.';
}

void core_drop_params(const char *plugin) {
  for (py_operator *o = first; o; o = o->following)
    if (is_of(o, plugin)) drop_params(o);
}

void core_disable(const char *plugin) {
  for (py_operator *o = first; o; o = o->following)
    if (is_of(o, plugin)) o->op = NULL;
}

bool core_is_usable(const py_operator *o) {
  if (o->op && core.runtime) return true;
  if (!core.runtime)
    (void)core_runtime(); /* raises */
  else
    PyErr_Format(PyExc_RuntimeError,
                 "the plugin of the operator `%s` was unloaded; load it again, "
                 "and take the operator from tenon.ops",
                 o->name);
  return false;
}

/* --------------------------------------------------------------- attributes */

static PyObject *get_name(PyObject *self, void *unused) {
  (void)unused;
  return PyUnicode_FromString(as_operator(self)->full_name);
}

static PyObject *get_json(PyObject *self, void *unused) {
  tn_text *found = NULL;
  (void)unused;
  if (!core_is_usable(as_operator(self))) return NULL;
  const tn_code code = tn_operator_json(as_operator(self)->op, &found);
  if (code != TN_OK) return core_raise(code, NULL);
  PyObject *json = PyUnicode_FromString(tn_text_get(found));
  tn_text_release(found);
  return json;
}

static PyObject *get_handle(PyObject *self, void *unused) {
  (void)unused;
  if (!core_is_usable(as_operator(self))) return NULL;
  return PyLong_FromVoidPtr(as_operator(self)->op);
}

static PyGetSetDef attributes[] = {
    {"name", get_name, NULL, "The full name, \"elemwise.add@1\".", NULL},
    {"json", get_json, NULL, "The description as JSON.", NULL},
    {"_handle", get_handle, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL}};

PyTypeObject *core_make_operator_type(PyObject *module) {
  static const char doc[] = "An operator; `function.__self__` of tenon.ops.";
  PyType_Slot slots[] = {{Py_tp_dealloc, free_operator},
                         {Py_tp_getset, attributes},
                         {Py_tp_doc, (void *)doc},
                         {0, NULL}};
  (void)module;
  PyType_Spec spec = {"tenon.Operator", sizeof(py_operator), 0,
                      Py_TPFLAGS_DEFAULT, slots};
  return (PyTypeObject *)PyType_FromSpec(&spec);
}
