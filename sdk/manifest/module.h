/* SPDX-License-Identifier: Apache-2.0
 * module.h: the reader of manifests, operators that a manifest binds to
 * functions of libraries, and formulas without a compiler, as a shared library
 * of their own, libtenon-manifest.so.0. libtenon opens it when the first
 * manifest is loaded, so a host without manifests needs neither libyaml nor
 * libffi.
 *
 * Both must come from one build, because they share the structs of base.h,
 * manifest.h and binding.h; `version` proves it. Each has its own copy of
 * core/base. The functions use the caller's environment. They call nothing of
 * libtenon: error texts are added to `why`, unless that is NULL.
 */
#ifndef TENON_MANIFEST_MODULE_H_
#define TENON_MANIFEST_MODULE_H_

#include "binding.h"

/* The source to read: a file, or, if `path` is NULL, a text. */
typedef struct tnm_origin {
  const char *path;
  tnm_text text;
} tnm_origin;

/* The examples of a manifest to be run in a separate process. */
typedef struct tnm_probe {
  const tn__env *env;
  const tnm_origin *from;
  const char *folder; /* folder that contains tenon-probe, or a folder "tenon"
                         with it */
  uint32_t seconds;   /* the probe's process is ended after this time */
} tnm_probe;

/* A kernel without compiled code: a function of a library to be called as an
 * operator, or formulas. */
typedef struct tnm_bind_request {
  const tn__env *env;
  const tnm_operator *op;  /* outlives the bound kernel */
  const tn_kernel *kernel; /* its table in the manifest */
  tn__arena *arena;        /* outlives it, too */
  const char *folder;      /* replaces "./" in a library's name */
  bool strict; /* wrong prototypes fail (core/binding/strict.h); slow */
} tnm_bind_request;

/* An operator in the tables of the plugin that libtenon makes of a manifest.
 * The value of tn_frame.options for `infer`. */
typedef struct tnm_defined_op {
  tn_op op; /* the first member: the tables point to it */
  const tnm_operator *from;
} tnm_defined_op;

/* tn_kernel.prepare and tn_kernel.compute. */
typedef struct tnm_kernel_functions {
  int32_t (*prepare)(const tn_frame *call, tn_plan *plan);
  int32_t (*compute)(const tn_frame *call);
} tnm_kernel_functions;

/* The one symbol that the library exports. */
typedef struct tnm_module {
  uint32_t struct_size;
  uint32_t reserved;
  const char *version; /* TN_VERSION with which this library was built */

  /* Reads a plugin's manifests (an operator file may be alone). TN_INVALID
   * after mistakes; their messages are added to `why`. `env` NULL: the C
   * library's memory; otherwise it must outlive *out, which the caller passes
   * to `release`. [any] */
  tn_code (*read)(const tn__env *env, const tnm_origin *from, tn__buf *why,
                  tnm_plugin **out);
  void (*release)(tnm_plugin *plugin); /* NULL is allowed. [any] */

  /* Refuses a manifest that only a compiler can make a plugin of. `host` has
   * the functions of its `kernels`; NULL: there are none. TN_NOT_FOUND if one
   * is missing. [any] */
  tn_code (*check)(const tnm_origin *from, const tnm_plugin *manifest,
                   const tn_host_kernels *host, tn__buf *why);
  /* Size of a plugin's tables in a note. [any] */
  tn_code (*measure)(const tn__env *env, const tn_plugin *tables, size_t *out,
                     tn__buf *why);
  /* Runs every example in a separate process. TN_OK, or the reason why the
   * operators must not be used. [any] */
  tn_code (*probe)(const tnm_probe *how, tn__buf *why);

  /* Compiles the formulas of the kernel (core/formula), or opens the library,
   * finds the function and prepares calls of it.
   * TN_NOT_FOUND names the libraries that were tried, or the one without such a
   * symbol. *out is the value of tn_frame.options for the next two; the caller
   * frees it with tn__free. Libraries stay open, because nobody knows whether
   * closing one is safe. [any] */
  tn_code (*bind)(const tnm_bind_request *what, tn__buf *why, void **out);
  tnm_kernel_functions bound;   /* of kernels of libraries */
  tnm_kernel_functions formula; /* of kernels of formulas */
  /* tn_op.infer of operators with axes; tn_frame.options is a
   * tnm_defined_op. */
  int32_t (*infer)(const tn_frame *call);

  /* Adds the manifest of a formula (tnm_formula_write); `number` is a part of
   * its name if it has none. [any] */
  tn_code (*write_formula)(const tn_formula *formula, size_t number,
                           tn__buf *out, tn__buf *why);
} tnm_module;

/* A bit of tn_options.trust that only tenon-probe sets: bound functions are
 * called so that a wrong prototype fails (core/binding/strict.h), and required
 * plugins need not be loaded. */
#define TNM_TRUST_PROBE (1u << 31)

/* Records of tenon-probe (core/base/child.h). */
enum {
  TNM_PROBE_RUN = 1, /* "OPERATOR EXAMPLE": the calls of this example follow */
  TNM_PROBE_FAIL = 2 /* "CODE REASON" */
};

#define TNM_MODULE_FILE "libtenon-manifest.so.0"
#define TNM_MODULE_SYMBOL "tn_manifest_module"
TN_API extern const tnm_module tn_manifest_module;

#endif /* TENON_MANIFEST_MODULE_H_ */
