/* SPDX-License-Identifier: Apache-2.0
 * module.h: the reader of manifests as a shared library of its own,
 * libtenon-manifest.so.0. libtenon opens it when the first manifest is loaded,
 * so a host without manifests needs no libyaml.
 *
 * Both must come from one build, because they share the structs of base.h,
 * manifest.h and binding.h; `version` proves it. Each has its own copy of
 * core/base. Its functions use the caller's environment; only error texts are
 * separate.
 */
#ifndef TENON_MANIFEST_MODULE_H_
#define TENON_MANIFEST_MODULE_H_

#include "binding.h"

/* The source to read: a file, or, if `path` is NULL, a text. */
typedef struct tnm_origin {
  const char *path;
  tnm_text text;
} tnm_origin;

/* The one symbol that the library exports. */
typedef struct tnm_module {
  uint32_t struct_size;
  uint32_t reserved;
  const char *version; /* TN_VERSION of its build */

  /* Reads a plugin's manifests (an operator file may be alone). TN_INVALID
   * after mistakes; their messages are added to `why`, unless that is NULL.
   * `env` NULL: the C library's memory; otherwise it must outlive *out, which
   * the caller passes to `release`. [any] */
  tn_code (*read)(const tn__env *env, const tnm_origin *from, tn__buf *why,
                  tnm_plugin **out);
  void (*release)(tnm_plugin *plugin); /* NULL is allowed. [any] */
} tnm_module;

/* A bit of tn_options.trust that only tenon-probe sets: bound functions are
 * called so that a wrong prototype fails (core/registry/strict.h), and required
 * plugins need not be loaded. */
#define TNM_TRUST_PROBE (1u << 31)

/* Records of tenon-probe (core/base/child.h). */
enum {
  TNM_PROBE_RUN = 1, /* "OPERATOR EXAMPLE", before its calls */
  TNM_PROBE_FAIL = 2 /* "CODE REASON" */
};

#define TNM_MODULE_FILE "libtenon-manifest.so.0"
#define TNM_MODULE_SYMBOL "tn_manifest_module"
TN_API extern const tnm_module tn_manifest_module;

#endif /* TENON_MANIFEST_MODULE_H_ */
