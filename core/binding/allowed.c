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
                            op->n_kernels
                                ? "has kernels written in C"
                                : "has neither formulas nor a binding");
  return tn__fail(
      TN_PLUGIN,
      "%s: operator %s has no formula, no binding and no kernels of "
      "the host; list `kernels` in it and give their functions in "
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

/* Whether the operator's own plugin has kernels written in C; those for CUDA
 * are in another one. */
static bool has_written_kernel(const tnm_operator *op) {
  for (size_t i = 0; i < op->n_kernels; ++i)
    if (!op->kernels[i].companion) return true;
  return false;
}

static tn_code fail_no_function(const tnm_origin *from, const char *name,
                                const tn_host_kernels *host) {
  (void)tn__fail(TN_NOT_FOUND,
                 "%s: the function `%s` is not among the passed functions",
                 tn__origin_name(from), name);
  for (uint32_t i = 0; host && i < host->n; ++i)
    (void)tn__fail_more(TN_NOT_FOUND, "%s%s", i ? ", " : ": ", host->v[i].name);
  return TN_NOT_FOUND;
}

/* Refuses the name of a function that the host did not pass. */
static tn_code check_function(const tnm_origin *from, const char *name,
                              const tn_host_kernels *host) {
  for (uint32_t i = 0; host && i < host->n; ++i) {
    if (!host->v[i].name || strcmp(host->v[i].name, name) != 0) continue;
    if (host->v[i].compute) return TN_OK;
    return tn__fail(TN_INVALID, "%s: `compute` of the function `%s` is NULL",
                    tn__origin_name(from), name);
  }
  return fail_no_function(from, name, host);
}

/* Refuses keys of a host's kernel that only generated code implements. */
static tn_code check_kernel(const tnm_origin *from, const tnm_kernel *entry,
                            const tn_host_kernels *host) {
  const tn_kernel *table = entry->forward ? entry->forward : entry->backward;
  if (entry->workspace_symbol || entry->state_create)
    return tn__fail(TN_UNSUPPORTED,
                    "%s: kernel %s has a `workspace` or `state`, for which "
                    "opgen writes a `prepare`; give the function a `prepare` "
                    "of your own and leave them out",
                    tn__origin_name(from), table->id);
  if (entry->supports_symbol)
    return tn__fail(TN_UNSUPPORTED,
                    "%s: kernel %s names `supports` %s; set `supports` of the "
                    "function instead, and leave it out",
                    tn__origin_name(from), table->id, entry->supports_symbol);
  if (entry->forward)
    TN__TRY(check_function(from, entry->forward_symbol, host));
  return entry->backward ? check_function(from, entry->backward_symbol, host)
                         : TN_OK;
}

/* Refuses kernels without a function, and operators without any: they would
 * need a compiler. Formulas need none (core/formula). */
static tn_code check_operator(const tnm_origin *from, const tnm_operator *op,
                              const tn_host_kernels *host) {
  if (!op->op)
    return fail_needs_opgen(tn__origin_name(from), NULL,
                            "adds kernels to an operator");
  if (op->infer_symbol) TN__TRY(check_function(from, op->infer_symbol, host));
  if (op->binding) return check_libraries(from, op);
  const bool written = has_written_kernel(op);
  if (written ? !host : op->generated == NULL)
    return fail_lacks_kernels(from, op);
  for (size_t i = 0; host && i < op->n_kernels; ++i)
    TN__TRY(check_kernel(from, &op->kernels[i], host));
  return TN_OK;
}

/* A text defines one operator, and those of its gradients. */
static tn_code check_single_operator(const tnm_origin *from,
                                     const tnm_plugin *manifest) {
  size_t n = 0;
  for (size_t i = 0; i < manifest->n_operators; ++i)
    n += manifest->operators[i].parent == NULL;
  if (from->path || n == 1) return TN_OK;
  return tn__fail(TN_INVALID,
                  "%s: it describes %zu operators; define one at a time",
                  tn__origin_name(from), n);
}

tn_code tn__manifest_check(const tnm_origin *from, const tnm_plugin *manifest,
                           const tn_host_kernels *host) {
  if (manifest->init_symbol || manifest->fini_symbol)
    return fail_needs_opgen(tn__origin_name(from), NULL,
                            "has an `init` or `fini`");
  TN__TRY(check_single_operator(from, manifest));
  for (size_t i = 0; i < manifest->n_operators; ++i)
    TN__TRY(check_operator(from, &manifest->operators[i], host));
  return TN_OK;
}
