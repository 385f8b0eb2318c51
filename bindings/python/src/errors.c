/* SPDX-License-Identifier: Apache-2.0
 * errors.c: failures as exceptions. The classes are in tenon/_errors.py.
 */
#include <stdarg.h>

#include "core.h"

/* The line of the call that computes the array, or None. */
static PyObject *find_site(const py_array *site) {
  PyObject *name, *line = NULL;
  if (!site || !site->code) Py_RETURN_NONE;
  name = PyObject_GetAttrString(site->code, "co_filename");
  if (name) line = Py_BuildValue("(Oi)", name, site->line);
  Py_XDECREF(name);
  return line;
}

PyObject *core_raise(tn_code code, const py_array *site) {
  PyObject *text, *place, *error;
  if (PyErr_Occurred()) return NULL; /* the handler of a signal has raised it */
  text = PyUnicode_DecodeUTF8(tn_error_text(),
                              (Py_ssize_t)strlen(tn_error_text()), "replace");
  if (!text) return NULL;
  if (!core.errors) core.errors = PyImport_ImportModule("tenon._errors");
  place = core.errors ? find_site(site) : NULL;
  error = place ? PyObject_CallMethod(core.errors, "make_error", "iOO",
                                      (int)code, text, place)
                : NULL;
  if (error) PyErr_SetObject((PyObject *)Py_TYPE(error), error);
  Py_XDECREF(error);
  Py_XDECREF(place);
  Py_DECREF(text);
  return NULL;
}

PyObject *core_help(const char *name, const char *format, ...) {
  PyObject *args, *function, *result = NULL;
  va_list list;
  if (!core.helpers) core.helpers = PyImport_ImportModule("tenon._array");
  if (!core.helpers) return NULL;
  va_start(list, format);
  args = Py_VaBuildValue(format, list);
  va_end(list);
  function = args ? PyObject_GetAttrString(core.helpers, name) : NULL;
  if (function) result = PyObject_CallObject(function, args);
  Py_XDECREF(function);
  Py_XDECREF(args);
  return result;
}
