/* SPDX-License-Identifier: Apache-2.0
 * operator.h: operators and their parameters. A part of tenon.h, which has the
 * conventions.
 */
#ifndef TENON_HOST_OPERATOR_H_
#define TENON_HOST_OPERATOR_H_

#include "tenon/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --------------------------------------------------------------- operators */

/* Finds "plugin.op" (the newest interface) or "plugin.op@2". Borrowed until the
 * runtime ends, even if the plugin is unloaded: using it is then TN_NOT_FOUND.
 * [any] */
TN_API TN_MUST_USE tn_code tn_operator_get(tn_runtime *rt, const char *name,
                                           tn_operator **out);

/* Operator number `index` in order of names; TN_NOT_FOUND beyond the last.
 * Borrowed until the runtime ends. [any] */
TN_API TN_MUST_USE tn_code tn_operator_at(tn_runtime *rt, size_t index,
                                          tn_operator **out);

/* Full name, "elemwise.quadratic@1". Borrowed until the runtime ends. [any] */
TN_API const char *tn_operator_name(const tn_operator *op);

/* Its description: parameters, inputs, outputs, documentation (op.h). NULL
 * after its plugin was unloaded. Borrowed until its plugin is unloaded. [any]
 */
TN_API const tn_op *tn_operator_desc(const tn_operator *op);

/* Its description as JSON, with the names of op.h. `second_gradient` says
 * whether its gradient can be differentiated again, with the operators that are
 * loaded now. The caller releases *out. [any] */
TN_API TN_MUST_USE tn_code tn_operator_json(tn_operator *op, tn_text **out);

/* Every kernel of the operator, in the order of trial, with the reason why each
 * would or would not be chosen for these inputs. If `in` is NULL, the text has
 * only the reasons that hold for all inputs. `params` NULL means all defaults.
 * The caller releases *out. [any] */
struct tn_inputs;
TN_API TN_MUST_USE tn_code tn_operator_explain(tn_operator *op,
                                               const struct tn_inputs *in,
                                               const tn_params *params,
                                               tn_text **out);

/* Makes calls of the operator use the kernel `id` only ("acme.cube.cpu");
 * `id` NULL lifts the pin. TN_NOT_FOUND if there is no such kernel. [any] */
TN_API TN_MUST_USE tn_code tn_operator_pin(tn_operator *op, const char *id);

/* The known facts about one operand. */
typedef struct tn_sig {
  tn_dtype dtype;             /* TN_DTYPE_UNKNOWN */
  int32_t ndim;               /* -1: unknown; -2: absent, an optional input */
  int64_t shape[TN_MAX_NDIM]; /* -1: unknown */
} tn_sig;

/* All operands of a call. */
typedef struct tn_signature {
  uint32_t n_in;
  uint32_t n_out;
  uint32_t n_aux;
  uint32_t reserved;
  tn_sig *in; /* arrays of the caller, read and completed */
  tn_sig *out;
  tn_sig *aux;
} tn_signature;

/* Completes shapes and dtypes in both directions. TN_OK when all are known,
 * TN_INCOMPLETE when some are not (those that can be inferred are filled in),
 * TN_SHAPE or TN_DTYPE when they contradict each other; the text then names
 * both sources and `io` is unchanged. `params` NULL means all defaults. [any]
 */
TN_API TN_MUST_USE tn_code tn_operator_infer(tn_operator *op,
                                             const tn_params *params,
                                             tn_signature *io);

/* Number of outputs of a call with `n_in` inputs (without states) and these
 * parameters: `*n`. The first `*n_visible` are not hidden, and the caller must
 * provide a place for them. `n` and `n_visible` may be NULL. TN_INVALID if it
 * cannot have so many inputs. `params` NULL means all defaults. [any] */
TN_API TN_MUST_USE tn_code tn_operator_outputs(tn_operator *op,
                                               const tn_params *params,
                                               uint32_t n_in, uint32_t *n,
                                               uint32_t *n_visible);

/* -------------------------------------------------------------- parameters */

/* One typed value; most are made with the functions below. `as` is read by
 * type: i for BOOL, INT, DTYPE and ENUM (an index), f for FLOAT, s for STRING,
 * ints and floats for the lists. */
typedef struct tn_value {
  const char *key;
  uint32_t type; /* TN_FIELD_*; TN_FIELD_STRING is parsed like a user's text */
  uint32_t n;    /* length of a list */
  union {
    int64_t i;
    double f;
    const char *s; /* NULL means None */
    const int64_t *ints;
    const double *floats;
  } as;
} tn_value;

/* A value for the parameter `key`. Borrowed until the value is used: the key,
 * the text and the lists. [any] */
static inline tn_value tn_value_text(const char *key, const char *text) {
  tn_value v = {key, TN_FIELD_STRING, 0, {0}};
  v.as.s = text;
  return v;
}
static inline tn_value tn_value_int(const char *key, int64_t i) {
  tn_value v = {key, TN_FIELD_INT, 0, {0}};
  v.as.i = i;
  return v;
}
static inline tn_value tn_value_float(const char *key, double f) {
  tn_value v = {key, TN_FIELD_FLOAT, 0, {0}};
  v.as.f = f;
  return v;
}
static inline tn_value tn_value_ints(const char *key, const int64_t *ints,
                                     uint32_t n) {
  tn_value v = {key, TN_FIELD_INTS, n, {0}};
  v.as.ints = ints;
  return v;
}
static inline tn_value tn_value_floats(const char *key, const double *floats,
                                       uint32_t n) {
  tn_value v = {key, TN_FIELD_FLOATS, n, {0}};
  v.as.floats = floats;
  return v;
}

/* Checks values against the operator's parameters, fills in defaults, and makes
 * the struct that kernels read. A key that is no parameter is TN_NOT_FOUND, but
 * keys `__like_this__` are ignored. `values` are copied. The caller releases
 * *out; until then the operator's plugin cannot be unloaded. [any] */
TN_API TN_MUST_USE tn_code tn_params_create(tn_operator *op,
                                            const tn_value *values, size_t n,
                                            tn_params **out);

/* Sets unknown[i] to 1 if values[i].key is no parameter of the operator, keys
 * `__like_this__` included, otherwise to 0. So a host with attributes of its
 * own among the values can keep these apart, and a strict one can refuse them,
 * before it calls tn_params_create with the others. On failure `unknown` is
 * unchanged. [any] */
TN_API TN_MUST_USE tn_code tn_params_find_unknown(tn_operator *op,
                                                  const tn_value *values,
                                                  size_t n, uint8_t *unknown);

/* The same as tn_params_create, from text: `key=value` with blanks between.
 * Lists are [1, 2] or (1, 2), strings with blanks are in double quotes, "None"
 * is no value. The caller releases *out. [any] */
TN_API TN_MUST_USE tn_code tn_params_parse(tn_operator *op, const char *text,
                                           tn_params **out);

/* All parameters as text that tn_params_parse turns into equal ones. The
 * caller releases *out. [any] */
TN_API TN_MUST_USE tn_code tn_params_text(const tn_params *params,
                                          tn_text **out);

/* All parameters as a JSON object. The caller releases *out. [any] */
TN_API TN_MUST_USE tn_code tn_params_json(const tn_params *params,
                                          tn_text **out);

/* The generated struct, as kernels see it. Borrowed until release. [any] */
TN_API const void *tn_params_struct(const tn_params *params);

/* Releases the params; NULL is allowed. [any] */
TN_API void tn_params_release(tn_params *params);

#ifdef __cplusplus
}
#endif
#endif /* TENON_HOST_OPERATOR_H_ */
