/* SPDX-License-Identifier: Apache-2.0
 * arithmetic.c: the operators of Python on arrays. Two arrays of one type, and
 * an array and a number, are computed here; other operands are converted by
 * tenon._array.binary().
 */
#include "core.h"

/* How an expression is computed; names of operators of the plugin elemwise. */
typedef struct rule {
  const char *name;      /* for tenon._array */
  const char *same;      /* of equal shapes, or NULL: `broadcast` */
  const char *broadcast; /* of any shapes */
  const char *scalar;    /* array and number, or NULL: through an array */
  const char *reversed;  /* number and array */
  bool divides;          /* floats only; or integers in another way */
  bool is_integer;       /* a number may be an integer only */
} rule;

enum {
  ADD,
  SUB,
  MUL,
  DIV,
  FLOOR_DIV,
  MOD,
  POWER,
  AND,
  OR,
  XOR,
  SHIFT_LEFT,
  SHIFT_RIGHT,
  LESS,
  LESS_EQUAL,
  EQUAL,
  NOT_EQUAL,
  GREATER,
  GREATER_EQUAL,
  N_RULES
};

#define ELEMWISE(name) "elemwise." name

static const rule rules[N_RULES] = {
    [ADD] = {"add", ELEMWISE("add"), ELEMWISE("broadcast_add"),
             ELEMWISE("add_scalar"), ELEMWISE("add_scalar"), false, false},
    [SUB] = {"sub", ELEMWISE("sub"), ELEMWISE("broadcast_sub"),
             ELEMWISE("sub_scalar"), ELEMWISE("rsub_scalar"), false, false},
    [MUL] = {"mul", ELEMWISE("mul"), ELEMWISE("broadcast_mul"),
             ELEMWISE("mul_scalar"), ELEMWISE("mul_scalar"), false, false},
    [DIV] = {"div", ELEMWISE("div"), ELEMWISE("broadcast_div"),
             ELEMWISE("div_scalar"), ELEMWISE("rdiv_scalar"), true, false},
    [FLOOR_DIV] = {"floor_divide", NULL, ELEMWISE("floor_divide"), NULL, NULL,
                   false, false},
    [MOD] = {"mod", ELEMWISE("mod"), ELEMWISE("broadcast_mod"),
             ELEMWISE("mod_scalar"), ELEMWISE("rmod_scalar"), false, false},
    [POWER] = {"power", ELEMWISE("power"), ELEMWISE("broadcast_power"),
               ELEMWISE("power_scalar"), ELEMWISE("rpower_scalar"), true,
               false},
    [AND] = {"bitwise_and", NULL, ELEMWISE("bitwise_and"), NULL, NULL, false,
             true},
    [OR] = {"bitwise_or", NULL, ELEMWISE("bitwise_or"), NULL, NULL, false,
            true},
    [XOR] = {"bitwise_xor", NULL, ELEMWISE("bitwise_xor"), NULL, NULL, false,
             true},
    [SHIFT_LEFT] = {"left_shift", NULL, ELEMWISE("left_shift"), NULL, NULL,
                    false, true},
    [SHIFT_RIGHT] = {"right_shift", NULL, ELEMWISE("right_shift"), NULL, NULL,
                     false, true},
    [LESS] = {"is_less", NULL, ELEMWISE("is_less"), NULL, NULL, false, false},
    [LESS_EQUAL] = {"is_less_equal", NULL, ELEMWISE("is_less_equal"), NULL,
                    NULL, false, false},
    [EQUAL] = {"is_equal", NULL, ELEMWISE("is_equal"), NULL, NULL, false,
               false},
    [NOT_EQUAL] = {"is_not_equal", NULL, ELEMWISE("is_not_equal"), NULL, NULL,
                   false, false},
    [GREATER] = {"is_greater", NULL, ELEMWISE("is_greater"), NULL, NULL, false,
                 false},
    [GREATER_EQUAL] = {"is_greater_equal", NULL, ELEMWISE("is_greater_equal"),
                       NULL, NULL, false, false}};

/* Operators that were found; owned. */
static struct {
  py_operator *same, *broadcast, *scalar, *reversed;
} found[N_RULES];

static py_operator *find(const char *name, py_operator **place) {
  if (*place && (*place)->op && core.runtime) return *place;
  Py_XDECREF((PyObject *)*place); /* its plugin was unloaded */
  *place = core_find_operator(name);
  return *place && core_is_usable(*place) ? *place : NULL;
}

/* -------------------------------------------------------------------- calls */

/* `out` may be NULL. Returns a new reference. */
static PyObject *run(py_operator *op, PyObject *const *in, size_t n,
                     const tn_params *params, PyObject *out) {
  PyObject *result = out;
  if (!op) return NULL;
  Py_XINCREF(out);
  const core_call call = {op, in, n, params, &result, 1, NULL};
  if (core_run(&call) == 0) return result;
  Py_XDECREF(out);
  return NULL;
}

static bool have_one_shape(const tn_tensor *a, const tn_tensor *b) {
  if (a->ndim != b->ndim) return false;
  for (int32_t i = 0; i < a->ndim; ++i)
    if (a->shape[i] != b->shape[i]) return false;
  return true;
}

static bool is_float(tn_dtype dtype) {
  return (dtype & 0xffu) == 2 || (dtype & 0xffu) == 4;
}

static PyObject *run_arrays(int which, PyObject *left, PyObject *right,
                            PyObject *out) {
  const rule *r = &rules[which];
  PyObject *in[] = {left, right};
  const tn_tensor *a = tn_array_tensor(core_array_of(left));
  const tn_tensor *b = tn_array_tensor(core_array_of(right));
  if (a->dtype != b->dtype || (r->divides && !is_float(a->dtype)) ||
      (a->dtype == TN_BOOL && which <= POWER))
    return core_help("binary", "(sOOO)", r->name, left, right,
                     out ? out : Py_None);
  py_operator *op = r->same && have_one_shape(a, b)
                        ? find(r->same, &found[which].same)
                        : find(r->broadcast, &found[which].broadcast);
  return run(op, in, 2, NULL, out);
}

/* Whether an operator with a number computes array and number exactly. */
static bool takes_number(const rule *r, tn_dtype dtype, PyObject *number,
                         double *value) {
  if (!r->scalar || dtype == TN_BOOL) return false;
  if (PyFloat_CheckExact(number)) {
    *value = PyFloat_AsDouble(number);
    return is_float(dtype);
  }
  if (!PyLong_CheckExact(number) || (r->divides && !is_float(dtype)))
    return false;
  int overflow;
  const long long integer = PyLong_AsLongLongAndOverflow(number, &overflow);
  *value = (double)integer;
  return !overflow && integer > -(1ll << 53) && integer < (1ll << 53) &&
         core_fits(dtype, integer);
}

static PyObject *run_number(int which, bool reversed, PyObject *array,
                            PyObject *number, PyObject *out) {
  const rule *r = &rules[which];
  double value;
  const tn_dtype dtype = tn_array_tensor(core_array_of(array))->dtype;
  if (!takes_number(r, dtype, number, &value))
    return core_help("binary", "(sOOO)", r->name, reversed ? number : array,
                     reversed ? array : number, out ? out : Py_None);
  py_operator *op = reversed ? find(r->reversed, &found[which].reversed)
                             : find(r->scalar, &found[which].scalar);
  tn_params *own = NULL;
  const tn_params *params = op ? core_scalar_params(op, value, &own) : NULL;
  PyObject *result = params ? run(op, &array, 1, params, out) : NULL;
  tn_params_release(own);
  return result;
}

static PyObject *compute(int which, PyObject *left, PyObject *right,
                         PyObject *out) {
  const bool has_left = core_is_array(left), has_right = core_is_array(right);
  if (has_left && has_right) return run_arrays(which, left, right, out);
  return has_left ? run_number(which, false, left, right, out)
                  : run_number(which, true, right, left, out);
}

/* -------------------------------------------------------------------- slots */

#define BINARY(function, which)                                       \
  static PyObject *function(PyObject *left, PyObject *right) {        \
    return compute(which, left, right, NULL);                         \
  }                                                                   \
  static PyObject *function##_here(PyObject *left, PyObject *right) { \
    return compute(which, left, right, left);                         \
  }

BINARY(add, ADD)
BINARY(subtract, SUB)
BINARY(multiply, MUL)
BINARY(divide, DIV)
BINARY(floor_divide, FLOOR_DIV)
BINARY(take_remainder, MOD)
BINARY(combine_and, AND)
BINARY(combine_or, OR)
BINARY(combine_xor, XOR)
BINARY(shift_left, SHIFT_LEFT)
BINARY(shift_right, SHIFT_RIGHT)

static PyObject *raise_power(PyObject *left, PyObject *right, PyObject *mod) {
  if (mod != Py_None) {
    PyErr_SetString(PyExc_TypeError, "pow() of arrays has no modulus");
    return NULL;
  }
  return compute(POWER, left, right, NULL);
}

static PyObject *raise_power_here(PyObject *left, PyObject *right,
                                  PyObject *mod) {
  (void)mod;
  return compute(POWER, left, right, left);
}

static PyObject *call_unary(const char *name, py_operator **place,
                            PyObject *self) {
  return run(find(name, place), &self, 1, NULL, NULL);
}

static PyObject *negate(PyObject *self) {
  static py_operator *op;
  return call_unary(ELEMWISE("negative"), &op, self);
}

static PyObject *take_absolute(PyObject *self) {
  static py_operator *op;
  return call_unary(ELEMWISE("abs"), &op, self);
}

static PyObject *invert(PyObject *self) {
  static py_operator *op, *of_bools;
  const tn_dtype dtype = tn_array_tensor(core_array_of(self))->dtype;
  return dtype == TN_BOOL ? call_unary(ELEMWISE("logical_not"), &of_bools, self)
                          : call_unary(ELEMWISE("bitwise_not"), &op, self);
}

static PyObject *keep(PyObject *self) {
  Py_INCREF(self);
  return self;
}

static PyObject *multiply_matrices(PyObject *left, PyObject *right) {
  return core_help("matmul", "(OO)", left, right);
}

static PyObject *compare(PyObject *self, PyObject *other, int how) {
  static const int which[] = {
      [Py_LT] = LESS,      [Py_LE] = LESS_EQUAL, [Py_EQ] = EQUAL,
      [Py_NE] = NOT_EQUAL, [Py_GT] = GREATER,    [Py_GE] = GREATER_EQUAL};
  return compute(which[how], self, other, NULL);
}

static int is_true(PyObject *self) {
  PyObject *truth = core_help("truth", "(O)", self);
  const int result = truth ? PyObject_IsTrue(truth) : -1;
  Py_XDECREF(truth);
  return result;
}

static const PyType_Slot all[] = {
    {Py_nb_add, add},
    {Py_nb_inplace_add, add_here},
    {Py_nb_subtract, subtract},
    {Py_nb_inplace_subtract, subtract_here},
    {Py_nb_multiply, multiply},
    {Py_nb_inplace_multiply, multiply_here},
    {Py_nb_true_divide, divide},
    {Py_nb_inplace_true_divide, divide_here},
    {Py_nb_floor_divide, floor_divide},
    {Py_nb_inplace_floor_divide, floor_divide_here},
    {Py_nb_remainder, take_remainder},
    {Py_nb_inplace_remainder, take_remainder_here},
    {Py_nb_power, raise_power},
    {Py_nb_inplace_power, raise_power_here},
    {Py_nb_and, combine_and},
    {Py_nb_inplace_and, combine_and_here},
    {Py_nb_or, combine_or},
    {Py_nb_inplace_or, combine_or_here},
    {Py_nb_xor, combine_xor},
    {Py_nb_inplace_xor, combine_xor_here},
    {Py_nb_lshift, shift_left},
    {Py_nb_inplace_lshift, shift_left_here},
    {Py_nb_rshift, shift_right},
    {Py_nb_inplace_rshift, shift_right_here},
    {Py_nb_matrix_multiply, multiply_matrices},
    {Py_nb_negative, negate},
    {Py_nb_absolute, take_absolute},
    {Py_nb_invert, invert},
    {Py_nb_positive, keep},
    {Py_nb_bool, is_true},
    {Py_tp_richcompare, compare}};

int core_add_arithmetic(PyType_Slot *slots, int n, int most) {
  const int more = (int)(sizeof all / sizeof *all);
  if (n + more >= most) {
    PyErr_SetString(PyExc_SystemError, "too many slots");
    return -1;
  }
  for (int i = 0; i < more; ++i) slots[n + i] = all[i];
  slots[n + more] = (PyType_Slot){0, NULL};
  return 0;
}
