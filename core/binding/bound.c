/* SPDX-License-Identifier: Apache-2.0
 * bound.c: calls a function of a library that does not know Tenon, through
 * libffi. Everything but the values is prepared once. A call fills a table of
 * arguments on the stack and allocates nothing. Each value must fit the width
 * of its argument; no value is truncated.
 */
#include "bound.h"

#include <fenv.h>
#include <ffi.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "shape_program.h"
#include "strict.h"

struct tn__bound {
  const tnm_binding *desc;
  const tn_op *op;
  void (*function)(void);
  bool by_dims; /* some expression names a dimension variable */
  ffi_cif cif;
  ffi_type *types[TNM_MAX_ARGS];
  tn__strict *strict; /* in tenon-probe only */
};

/* --------------------------------------------------------------- libraries */

/* Room for the path of a library with its folder. */
typedef struct place {
  char path[PATH_MAX];
} place;

static const char *library_path(const char *folder, const char *name,
                                place *to) {
  if (strncmp(name, "./", 2) != 0) return name;
  const int n = snprintf(to->path, sizeof to->path, "%s/%s", folder, name + 2);
  return n > 0 && (size_t)n < sizeof to->path ? to->path : name;
}

/* Constructors of a library may change the floating-point state. */
static void *open_library(const tn__env *env, const char *path) {
  fenv_t floating;
  (void)fegetenv(&floating);
  void *handle = env->os->dlopen(path);
  (void)fesetenv(&floating);
  return handle;
}

static void add_reason(char *to, size_t room, const char *why) {
  const size_t n = strlen(to);
  (void)snprintf(to + n, room - n, "%s%s", n ? "; " : "", why);
}

static tn_code find_library(const tnm_bind_request *what, const char **name,
                            void **out) {
  const tnm_binding *binding = what->op->binding;
  const tn__env *env = what->env;
  char reasons[1024] = "";
  for (uint32_t i = 0; i < binding->n_libraries; ++i) {
    place where;
    *name = binding->libraries[i];
    *out = open_library(env, library_path(what->folder, *name, &where));
    if (*out) return TN_OK;
    const char *why = env->os->dlerror();
    add_reason(reasons, sizeof reasons, why ? why : *name);
  }
  return tn__fail(TN_NOT_FOUND,
                  "no library of the binding of %s can be opened; install one "
                  "of them: %s",
                  what->op->op->name, reasons);
}

static tn_code find_function(const tnm_bind_request *what, tn__bound *bound) {
  const tnm_operator *op = what->op;
  const tn__env *env = what->env;
  const char *name = NULL;
  void *library = NULL;
  TN__TRY(find_library(what, &name, &library));
  void *symbol = env->os->dlsym(library, op->binding->symbol);
  /* ISO C has no conversion from object to function pointers; POSIX guarantees
   * the same representation. */
  memcpy(&bound->function, &symbol, sizeof symbol);
  if (symbol) return TN_OK;
  const char *why = env->os->dlerror();
  return tn__fail(TN_NOT_FOUND,
                  "%s has no function %s, which %s is bound to: %s", name,
                  op->binding->symbol, op->op->name,
                  why ? why : "the dynamic linker gave no reason");
}

/* ------------------------------------------------------------------- types */

static ffi_type *type_of(uint32_t c) {
  ffi_type *const types[] = {
      [TNM_C_I8] = &ffi_type_sint8,        [TNM_C_I16] = &ffi_type_sint16,
      [TNM_C_I32] = &ffi_type_sint32,      [TNM_C_I64] = &ffi_type_sint64,
      [TNM_C_U8] = &ffi_type_uint8,        [TNM_C_U16] = &ffi_type_uint16,
      [TNM_C_U32] = &ffi_type_uint32,      [TNM_C_U64] = &ffi_type_uint64,
      [TNM_C_F32] = &ffi_type_float,       [TNM_C_F64] = &ffi_type_double,
      [TNM_C_POINTER] = &ffi_type_pointer, [TNM_C_VOID] = &ffi_type_void};
  return types[c];
}

static bool has_dims(const tnm_binding *binding) {
  for (uint32_t i = 0; i < binding->n_nodes; ++i)
    if (binding->nodes[i].op == TN_NODE_DIM) return true;
  return false;
}

static tn_code prepare_call(tn__bound *bound) {
  const tnm_binding *binding = bound->desc;
  for (uint32_t i = 0; i < binding->n_args; ++i)
    bound->types[i] = type_of(binding->args[i].c);
  if (ffi_prep_cif(&bound->cif, FFI_DEFAULT_ABI, binding->n_args,
                   type_of(binding->returns), bound->types) == FFI_OK)
    return TN_OK;
  return tn__fail(TN_UNSUPPORTED,
                  "libffi cannot call %s with these types of arguments",
                  binding->symbol);
}

tn_code tn__bound_create(const tnm_bind_request *what, tn__bound **out) {
  const tnm_operator *op = what->op;
  tn__bound *bound = tn__zalloc(what->env, sizeof *bound);
  *out = NULL;
  if (!bound) return tn__fail_memory(sizeof *bound, "a bound function");
  bound->desc = op->binding;
  bound->op = op->op;
  bound->by_dims = has_dims(op->binding);
  tn_code rc = find_function(what, bound);
  if (!rc) rc = prepare_call(bound);
  if (!rc && what->strict)
    rc = tn__strict_create(what->env, op->binding,
                           type_of(op->binding->returns), &bound->strict);
  if (rc)
    tn__free(what->env, bound);
  else
    *out = bound;
  return rc;
}

/* ----------------------------------------------------------------- outputs */

/* Computes an output that the caller does not request into scratch memory: the
 * function cannot skip it. */
int32_t tn__bound_prepare(const tn_frame *call, tn_plan *plan) {
  for (uint32_t i = 0; i < call->n_out; ++i) {
    size_t bytes = 0;
    const tn_tensor *out = &call->out[i];
    if (call->req[i] != TN_REQ_NULL) continue;
    if (plan->n_ws == TN_MAX_WORKSPACES)
      return TN_FAIL(call, TN_UNSUPPORTED,
                     "more than %d outputs are not requested",
                     TN_MAX_WORKSPACES);
    if (!tn__tensor_bytes(out->dtype, out->ndim, out->shape, &bytes))
      return TN_FAIL(call, TN_OUT_OF_RANGE, "output %u is too large", i);
    plan->ws[plan->n_ws++].bytes = bytes;
  }
  return TN_OK;
}

static void *output_memory(const tn_frame *call, uint32_t index) {
  uint32_t ws = 0;
  if (call->req[index] != TN_REQ_NULL) return call->out[index].data;
  for (uint32_t i = 0; i < index; ++i) ws += call->req[i] == TN_REQ_NULL;
  return call->ws[ws];
}

/* --------------------------------------------------------------- arguments */

/* One argument in the form that the function gets. */
typedef union value {
  int8_t i8;
  int16_t i16;
  int32_t i32;
  int64_t i64;
  uint8_t u8;
  uint16_t u16;
  uint32_t u32;
  uint64_t u64;
  float f32;
  double f64;
  const void *pointer;
} value;

/* All arguments, and the lists that some arguments point to. */
typedef struct arguments {
  value values[TNM_MAX_ARGS];
  int64_t lists[TNM_MAX_ARGS][TN_MAX_NDIM];
  size_t bytes[TNM_MAX_ARGS]; /* size of such a list */
  int64_t element; /* of a map: number of the element that this call computes */
} arguments;

static const tn_tensor *operand_of(const tn_frame *call, uint32_t list,
                                   uint32_t index) {
  const tn_tensor *const lists[] = {call->in, call->out, call->aux};
  const uint32_t counts[] = {call->n_in, call->n_out, call->n_aux};
  return index < counts[list] ? &lists[list][index] : NULL;
}

static const void *tensor_memory(const tn_frame *call,
                                 const tnm_bound_arg *arg) {
  if (arg->list == TN_OPERAND_OUT) return output_memory(call, arg->index);
  const tn_tensor *tensor = operand_of(call, arg->list, arg->index);
  return tensor ? tensor->data : NULL;
}

/* The type of the number that an argument is or points to. */
static uint32_t number_type(const tnm_bound_arg *arg) {
  return arg->by_address ? arg->element : arg->c;
}

/* The memory of the element that one call of a map gets. */
static const void *element_memory(const tn_frame *call,
                                  const tnm_bound_arg *arg, int64_t element) {
  const tn_tensor *tensor = operand_of(call, arg->list, arg->index);
  const char *data = tensor_memory(call, arg);
  if (!data || !arg->each) return data;
  return data + element * (int64_t)tn_dtype_bytes(tensor->dtype);
}

static int64_t dimension_of(const tn_frame *call, const tnm_bound_arg *arg) {
  const tn_tensor *tensor = operand_of(call, arg->list, arg->index);
  const int32_t ndim = tensor ? tensor->ndim : 0;
  const int32_t axis = arg->axis < 0 ? ndim + arg->axis : arg->axis;
  return axis >= 0 && axis < ndim ? tensor->shape[axis] : 0;
}

static int64_t size_of(const tn_frame *call, const tnm_bound_arg *arg) {
  const tn_tensor *tensor = operand_of(call, arg->list, arg->index);
  return tensor && tensor->ndim >= 0 ? tn_tensor_size(tensor) : 0;
}

static const char *param_data(const tn__bound *bound, const tn_frame *call,
                              uint32_t index) {
  return (const char *)call->params + bound->op->params[index]->offset;
}

/* Sets every dimension variable that an expression uses. */
static void set_dims(const tn__bound *bound, const tn_frame *call,
                     tn__ivalue *dims) {
  for (uint32_t i = 0; i < bound->op->n_dims; ++i) {
    const tnm_bound_arg *source = &bound->desc->dims[i];
    if (source->list == TN_NONE) continue;
    dims[i].n = TN__SCALAR;
    dims[i].known = 1;
    dims[i].v[0] = dimension_of(call, source);
  }
}

/* Evaluates an argument into `to`, which has room for TN_MAX_NDIM numbers. *n
 * is the length of a list, TN__SCALAR for a number, and TN__UNKNOWN_LENGTH for
 * the shape of an absent operand. */
static tn_code evaluate_argument(const tn__bound *bound, const tn_frame *call,
                                 const tnm_bound_arg *arg, int64_t *to,
                                 int32_t *n) {
  enum { MOST_DIMS = 32 };
  const uint32_t node = arg->index;
  tn__ivalue dims[MOST_DIMS];
  const tn__scope scope = {.nodes = bound->desc->nodes,
                           .n_nodes = bound->desc->n_nodes,
                           .fields = bound->op->params,
                           .n_fields = bound->op->n_params,
                           .params = call->params,
                           .frame = call,
                           .dims = bound->by_dims ? dims : NULL};
  if (bound->by_dims && bound->op->n_dims > MOST_DIMS)
    return tn__fail(TN_UNSUPPORTED, "it has more than %d dimension variables",
                    MOST_DIMS);
  if (bound->by_dims) set_dims(bound, call, dims);
  *n = TN__SCALAR;
  if (arg->pass == TNM_PASS_NODES) TN__TRY(tn__expr_length(&scope, node, n));
  if (*n > TN_MAX_NDIM)
    return tn__fail(TN_OUT_OF_RANGE, "it has more than %d values", TN_MAX_NDIM);
  for (int32_t k = 0; k < (*n == TN__SCALAR ? 1 : *n); ++k) {
    tn__element element = {0};
    TN__TRY(tn__expr_at(&scope, node, k, &element));
    if (!element.known)
      return tn__fail(TN_INCOMPLETE, "its value is not known");
    to[k] = element.v;
  }
  return TN_OK;
}

static int32_t fail_no_value(const tn__bound *bound, const tn_frame *call,
                             uint32_t i, tn_code rc) {
  return TN_FAIL(call, rc, "`%s`, argument %u of %s: %s",
                 bound->desc->args[i].text, i + 1, bound->desc->symbol,
                 tn_error_text());
}

static int32_t fail_too_narrow(const tn__bound *bound, const tn_frame *call,
                               uint32_t i, int64_t have) {
  const tnm_bound_arg *arg = &bound->desc->args[i];
  const bool list = arg->pass == TNM_PASS_NODES;
  return TN_FAIL(call, TN_OUT_OF_RANGE,
                 "`%s` %s %lld, which does not fit %s, argument %u of %s",
                 arg->text, list ? "holds" : "is", (long long)have,
                 tnm_c_names[list ? arg->element : number_type(arg)], i + 1,
                 bound->desc->symbol);
}

static bool is_in_range(uint32_t c, int64_t have) {
  const tnm_range range = tnm_c_range(c);
  return have >= range.low && have <= range.high;
}

/* The lowest bytes are the narrower number, because the machine is
 * little-endian. */
static int32_t set_integer(const tn__bound *bound, const tn_frame *call,
                           uint32_t i, value *to) {
  const tnm_bound_arg *arg = &bound->desc->args[i];
  int64_t have = arg->integer;
  if (arg->pass == TNM_PASS_DIMENSION) have = dimension_of(call, arg);
  if (arg->pass == TNM_PASS_SIZE) have = size_of(call, arg);
  if (arg->pass == TNM_PASS_NODE) {
    int32_t n = 0;
    const tn_code rc = evaluate_argument(bound, call, arg, &have, &n);
    if (rc) return fail_no_value(bound, call, i, rc);
  }
  if (!is_in_range(number_type(arg), have))
    return fail_too_narrow(bound, call, i, have);
  to->i64 = have;
  return TN_OK;
}

/* Moves the numbers into a list of narrower ones, from the first on. So none is
 * overwritten before it is read. */
static int32_t set_list(const tn__bound *bound, const tn_frame *call,
                        uint32_t i, arguments *to) {
  const tnm_bound_arg *arg = &bound->desc->args[i];
  const size_t width = type_of(arg->element)->size;
  int64_t *list = to->lists[i];
  int32_t n = 0;
  const tn_code rc = evaluate_argument(bound, call, arg, list, &n);
  if (rc) return fail_no_value(bound, call, i, rc);
  to->values[i].pointer = n < 0 ? NULL : list;
  to->bytes[i] = n < 0 ? 0 : (size_t)n * width;
  for (int32_t k = 0; k < n; ++k) {
    const int64_t have = list[k];
    if (!is_in_range(arg->element, have))
      return fail_too_narrow(bound, call, i, have);
    memcpy((char *)list + (size_t)k * width, &have, width);
  }
  return TN_OK;
}

static int32_t set_float(const tn__bound *bound, const tn_frame *call,
                         uint32_t i, value *to) {
  const tnm_bound_arg *arg = &bound->desc->args[i];
  double have = arg->number;
  if (arg->pass == TNM_PASS_FLOAT)
    memcpy(&have, param_data(bound, call, arg->index), sizeof have);
  if (number_type(arg) == TNM_C_F64) {
    to->f64 = have;
    return TN_OK;
  }
  to->f32 = (float)have;
  if (!isinf(to->f32) || isinf(have)) return TN_OK;
  return TN_FAIL(call, TN_OUT_OF_RANGE,
                 "`%s` is %g, which does not fit float, argument %u of %s",
                 arg->text, have, i + 1, bound->desc->symbol);
}

/* One element, extended to 64 bits as a compiler does it. */
static void set_element(const tn_frame *call, const tnm_bound_arg *arg,
                        int64_t element, value *to) {
  const void *from = element_memory(call, arg, element);
  *to = (value){0};
  memcpy(to, from, type_of(arg->c)->size);
  if (arg->c == TNM_C_I8) to->i64 = to->i8;
  if (arg->c == TNM_C_I16) to->i64 = to->i16;
  if (arg->c == TNM_C_I32) to->i64 = to->i32;
}

static int32_t set_number(const tn__bound *bound, const tn_frame *call,
                          uint32_t i, arguments *all) {
  const tnm_bound_arg *arg = &bound->desc->args[i];
  const bool real = arg->pass == TNM_PASS_NUMBER || arg->pass == TNM_PASS_FLOAT;
  value *to = &all->values[i];
  const int32_t rc =
      real ? set_float(bound, call, i, to) : set_integer(bound, call, i, to);
  if (rc || !arg->by_address) return rc;
  all->bytes[i] = type_of(arg->element)->size;
  memcpy(all->lists[i], to, sizeof *to);
  to->pointer = all->lists[i];
  return TN_OK;
}

static int32_t set_argument(const tn__bound *bound, const tn_frame *call,
                            uint32_t i, arguments *all) {
  const tnm_bound_arg *arg = &bound->desc->args[i];
  value *to = &all->values[i];
  switch (arg->pass) {
    case TNM_PASS_TENSOR:
      to->pointer = element_memory(call, arg, all->element);
      return TN_OK;
    case TNM_PASS_ELEMENT:
      set_element(call, arg, all->element, to);
      return TN_OK;
    case TNM_PASS_CONSTANT:
      to->pointer = arg->constant;
      return TN_OK;
    case TNM_PASS_LIST: /* tn_ints and tn_floats begin with their values */
    case TNM_PASS_TEXT:
      memcpy(&to->pointer, param_data(bound, call, arg->index),
             sizeof to->pointer);
      return TN_OK;
    case TNM_PASS_NODES:
      return set_list(bound, call, i, all);
    default:
      return set_number(bound, call, i, all);
  }
}

/* ----------------------------------------------------------------- results */

/* libffi widens results that are narrower than a register. */
typedef union result {
  ffi_arg wide;
  ffi_sarg wide_signed;
  float f32;
  double f64;
} result;

static int32_t check_status(const tn__bound *bound, const tn_frame *call,
                            int64_t element, const result *got) {
  const tnm_binding *binding = bound->desc;
  const int64_t status = (int64_t)got->wide_signed;
  if (status == binding->ok) return TN_OK;
  if (binding->map != TN_NONE)
    return TN_FAIL(call, TN_INVALID,
                   "%s returned %lld for element %lld of `%s`; %lld means "
                   "success",
                   binding->symbol, (long long)status, (long long)element,
                   bound->op->inputs[binding->map]->name,
                   (long long)binding->ok);
  return TN_FAIL(call, TN_INVALID, "%s returned %lld; %lld means success",
                 binding->symbol, (long long)status, (long long)binding->ok);
}

static int32_t store_output(const tn__bound *bound, const tn_frame *call,
                            int64_t element, const result *got) {
  const uint32_t index = bound->desc->output;
  const tn_tensor *out = &call->out[index];
  const int64_t bytes = tn_dtype_bytes(out->dtype);
  if (call->req[index] == TN_REQ_NULL) return TN_OK;
  if (bound->desc->map == TN_NONE && tn_tensor_size(out) != 1)
    return TN_FAIL(call, TN_SHAPE,
                   "%s returns one number, but the output `%s` has %lld "
                   "elements",
                   bound->desc->symbol, bound->op->outputs[index]->name,
                   (long long)tn_tensor_size(out));
  memcpy((char *)out->data + element * bytes, got, (size_t)bytes);
  return TN_OK;
}

/* ------------------------------------------------------------------- calls */

/* Size of a pointer's memory. */
static size_t named_bytes(const tn__bound *bound, const tn_frame *call,
                          uint32_t i, const arguments *all) {
  const tnm_bound_arg *arg = &bound->desc->args[i];
  size_t bytes = 0;
  if (all->values[i].pointer == NULL) return 0;
  if (arg->pass == TNM_PASS_NODES || arg->by_address) return all->bytes[i];
  if (arg->pass == TNM_PASS_TEXT || arg->pass == TNM_PASS_CONSTANT)
    return strlen(all->values[i].pointer) + 1;
  if (arg->pass ==
      TNM_PASS_LIST) { /* tn_ints and tn_floats have the same layout */
    tn_ints list;
    memcpy(&list, param_data(bound, call, arg->index), sizeof list);
    return (size_t)list.n * sizeof *list.v;
  }
  const tn_tensor *t = operand_of(call, arg->list, arg->index);
  if (t && arg->each) return (size_t)tn_dtype_bytes(t->dtype);
  return t && tn__tensor_bytes(t->dtype, t->ndim, t->shape, &bytes) ? bytes : 0;
}

static int32_t call_strictly(const tn__bound *bound, const tn_frame *call,
                             arguments *all, result *got) {
  const tnm_binding *binding = bound->desc;
  tn__strict_arg args[TNM_MAX_ARGS];
  for (uint32_t i = 0; i < binding->n_args; ++i) {
    const tnm_bound_arg *arg = &binding->args[i];
    args[i] = (tn__strict_arg){.value = &all->values[i]};
    if (arg->c != TNM_C_POINTER) continue;
    args[i].bytes = named_bytes(bound, call, i, all);
    args[i].fill = arg->pass == TNM_PASS_TENSOR &&
                   arg->list == TN_OPERAND_OUT &&
                   bound->op->outputs[arg->index]->init == TN_NONE &&
                   call->req[arg->index] == TN_REQ_WRITE;
  }
  return tn__strict_call(bound->strict, call, bound->function, args, got);
}

static int32_t call_function(const tn__bound *bound, const tn_frame *call,
                             arguments *all, result *got) {
  void *places[TNM_MAX_ARGS];
  if (bound->strict) return call_strictly(bound, call, all, got);
  for (uint32_t i = 0; i < bound->desc->n_args; ++i)
    places[i] = &all->values[i];
  /* ffi_call has a parameter that is not const, but it does not change it. */
  ffi_cif cif = bound->cif;
  ffi_call(&cif, bound->function, got, places);
  return TN_OK;
}

static int32_t call_once(const tn__bound *bound, const tn_frame *call,
                         arguments *all) {
  result got = {0};
  const int32_t rc = call_function(bound, call, all, &got);
  if (rc) return rc;
  if (bound->desc->result == TNM_RESULT_STATUS)
    return check_status(bound, call, all->element, &got);
  if (bound->desc->result == TNM_RESULT_OUTPUT)
    return store_output(bound, call, all->element, &got);
  return TN_OK;
}

/* Calls the function for the other elements; only the arguments that are
 * elements change. */
static int32_t call_for_others(const tn__bound *bound, const tn_frame *call,
                               int64_t n, arguments *all) {
  const tnm_binding *binding = bound->desc;
  int32_t rc = TN_OK;
  for (int64_t element = 1; element < n && rc == TN_OK; ++element) {
    all->element = element;
    for (uint32_t i = 0; i < binding->n_args; ++i)
      if (binding->args[i].each) (void)set_argument(bound, call, i, all);
    rc = call_once(bound, call, all);
  }
  return rc;
}

int32_t tn__bound_compute(const tn_frame *call) {
  const tn__bound *bound = call->options;
  const tnm_binding *binding = bound->desc;
  const bool mapped = binding->map != TN_NONE;
  const int64_t n = mapped ? tn_tensor_size(&call->in[binding->map]) : 1;
  arguments all;
  all.element = 0;
  if (n == 0) return TN_OK;
  for (uint32_t i = 0; i < binding->n_args; ++i) {
    const int32_t rc = set_argument(bound, call, i, &all);
    if (rc) return rc;
  }
  const int32_t rc = call_once(bound, call, &all);
  return rc ? rc : call_for_others(bound, call, n, &all);
}
