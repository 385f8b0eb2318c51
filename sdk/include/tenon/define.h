/* SPDX-License-Identifier: Apache-2.0
 * define.h: operators made of the host's own functions, and of formulas. Part
 * of libtenon; the conventions are those of tenon.h.
 *
 *   static int32_t twice(const tn_frame *call) { ... }
 *   const tn_host_kernel own = {"host_twice", twice, NULL, NULL};
 *   const tn_host_kernels all = {.struct_size = sizeof all, .n = 1, .v = &own};
 *   tn_operator *op = NULL;
 *   tn_code rc = tn_operator_define(rt, manifest, &all, &op);
 */
#ifndef TENON_DEFINE_H_
#define TENON_DEFINE_H_

#include "tenon/tenon.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A function of the host, and its name in a manifest. Frozen. [worker] */
typedef struct tn_host_kernel {
  const char *name; /* in `forward` or `backward` of a kernel, or `{c: name}` of
                       a shape */
  int32_t (*compute)(const tn_frame *call); /* of tn_kernel or tn_op.infer */
  int32_t (*prepare)(const tn_frame *call, tn_plan *plan); /* or NULL */
  int32_t (*supports)(const tn_frame *call);               /* or NULL */
} tn_host_kernel;

/* The functions of one operator. Borrowed for the call; the functions and
 * `instance` as long as the operator is defined. */
typedef struct tn_host_kernels {
  uint32_t struct_size; /* sizeof(tn_host_kernels) */
  uint32_t n;
  const tn_host_kernel *v;
  void *instance;                  /* call->instance of all of them */
  void (*destroy)(void *instance); /* called when no call runs any more: in
                                      tn_operator_remove, or at the runtime's
                                      end; not if the definition fails. It must
                                      not load, define or remove anything
                                      (TN_INVALID). NULL: nothing to do.
                                      [any] */
} tn_host_kernels;

/* Defines the operator "host.<op>" by the text of a manifest with one document
 * (docs/tutorials/host.md): its kernels are the host's functions, formulas, or
 * a binding, and nothing is compiled. Formulas are interpreted, with the
 * gradients that follow from them; a compiled plugin is several times faster.
 * `kernels` may be NULL for formulas and bindings. TN_INVALID with every
 * mistake of the text, TN_NOT_FOUND for a function that is not in `kernels`,
 * TN_EXISTS. `out` may be NULL. Borrowed until the runtime ends. [host-thread]
 */
TN_API TN_MUST_USE tn_code tn_operator_define(tn_runtime *rt,
                                              const char *manifest,
                                              const tn_host_kernels *kernels,
                                              tn_operator **out);

/* A formula without a manifest, such as scale*data^3. Names in the expression
 * that are no parameters are inputs, in the order of their first use; several
 * are broadcast. `axis` as the second argument of a reduction, as in
 * sum(data, axis), is a parameter of type int; then all inputs have one shape.
 *
 *   const tn_value scale = tn_value_float("scale", 2);
 *   const tn_formula cube = {.struct_size = sizeof cube, .n = 1,
 *                            .params = &scale, .expression = "scale*data^3"};
 */
typedef struct tn_formula {
  uint32_t struct_size;   /* sizeof(tn_formula) */
  uint32_t n;             /* length of `params` */
  const tn_value *params; /* numbers: the parameters, with their defaults */
  const char *name;       /* of the operator; NULL: a new one, "formula_7" */
  const char *expression; /* docs/reference/manifest.md has the language */
} tn_formula;

/* Defines the operator "host.<name>" by a formula, with the derived gradient,
 * and compiles nothing. It computes all floating types; integers too if it has
 * no parameters and its functions are defined for them. TN_INVALID with every
 * mistake of the formula, TN_EXISTS. `out` may be NULL. Borrowed until the
 * runtime ends. [host-thread] */
TN_API TN_MUST_USE tn_code tn_formula_define(tn_runtime *rt,
                                             const tn_formula *formula,
                                             tn_operator **out);

/* Removes an operator of tn_operator_define or tn_formula_define. TN_BUSY, with
 * the list of holders, as for tn_plugin_unload. [host-thread] */
TN_API TN_MUST_USE tn_code tn_operator_remove(tn_runtime *rt, tn_operator *op);

#ifdef __cplusplus
}
#endif

#endif /* TENON_DEFINE_H_ */
