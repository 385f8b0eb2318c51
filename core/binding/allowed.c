/* SPDX-License-Identifier: Apache-2.0
 * allowed.c: refuses manifests that only a compiler can make a plugin of.
 */
#include <string.h>

#include "bound.h"

static tn_code fail_needs_opgen(const char *path, const char *op,
                                const char *what) {
  return tn__fail(TN_PLUGIN,
                  "%s: %s%s %s; only opgen and a compiler can make a plugin of "
                  "it, then load its .so",
                  path, op ? "operator " : "", op ? op : "it", what);
}

/* The functions of an operator that a text defines must be in `kernels`. */
static tn_code fail_lacks_kernels(const tnm_origin *from,
                                  const tnm_operator *op) {
  if (from->path)
    return fail_needs_opgen(tn__origin_name(from), op->op->name,
                            "has no binding");
  return tn__fail(TN_PLUGIN,
                  "%s: operator %s has no binding and no kernels of the host; "
                  "list `kernels` in it and give their functions in "
                  "tn_host_kernels, or let opgen and a compiler make a plugin "
                  "of it",
                  tn__origin_name(from), op->op->name);
}

/* A text has no folder, so "./" is not allowed. */
static tn_code check_libraries(const tnm_origin *from, const tnm_operator *op) {
  for (uint32_t i = 0; !from->path && i < op->binding->n_libraries; ++i)
    if (!strncmp(op->binding->libraries[i], "./", 2))
      return tn__fail(
          TN_INVALID,
          "%s: the library %s of operator %s is in the "
          "folder of its manifest, but a text has no folder; write the whole "
          "path, or a name that the dynamic linker finds",
          tn__origin_name(from), op->binding->libraries[i], op->op->name);
  return TN_OK;
}

/* Refuses formulas, and kernels without a function: they would need a
 * compiler. */
static tn_code check_operator(const tnm_origin *from, const tnm_operator *op,
                              bool host) {
  const char *path = tn__origin_name(from);
  if (!op->op)
    return fail_needs_opgen(path, NULL, "adds kernels to an operator");
  if (op->generated || op->generated_backward)
    return fail_needs_opgen(path, op->op->name, "is computed by a formula");
  if (op->binding) return check_libraries(from, op);
  return host && op->n_kernels ? TN_OK : fail_lacks_kernels(from, op);
}

tn_code tn__manifest_check(const tnm_origin *from, const tnm_plugin *manifest,
                           bool host) {
  if (manifest->init_symbol || manifest->fini_symbol)
    return fail_needs_opgen(tn__origin_name(from), NULL,
                            "has an `init` or `fini`");
  for (size_t i = 0; i < manifest->n_operators; ++i)
    TN__TRY(check_operator(from, &manifest->operators[i], host));
  return TN_OK;
}
