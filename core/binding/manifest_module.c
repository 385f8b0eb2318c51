/* SPDX-License-Identifier: Apache-2.0
 * manifest_module.c: the exported table of libtenon-manifest.so.
 */
#include <stdio.h>
#include <string.h>

#include "bound.h"
#include "formula.h"
#include "tables.h"

static tn_code module_read(const tn__env *env, const tnm_origin *from,
                           tn__buf *why, tnm_plugin **out) {
  if (env == NULL) env = tn__env_default();
  tn_code rc = TN_OUT_OF_MEMORY;
  const tnm_read_options options = {.lone = true, .result = &rc};
  tnm_diags *diags = tnm_diags_create(env);
  *out = NULL;
  if (diags == NULL) return TN_OUT_OF_MEMORY;
  const tnm_text *text = from->path == NULL ? &from->text : NULL;
  *out = tnm_plugin_read_with(env, from->path, text, &options, diags);
  if (*out == NULL && rc == TN_INVALID && why) tnm_diags_add_text(diags, why);
  tnm_diags_release(diags);
  return *out == NULL ? rc : TN_OK;
}

/* Passes the message of a failure on: libtenon does not see texts of this
 * library. */
static tn_code pass_message(tn_code rc, tn__buf *why) {
  if (rc && why) tn__buf_add(why, "%s", tn_error_text());
  return rc;
}

static tn_code module_check(const tnm_origin *from, const tnm_plugin *manifest,
                            const tn_host_kernels *host, tn__buf *why) {
  return pass_message(tn__manifest_check(from, manifest, host), why);
}

static tn_code module_measure(const tn__env *env, const tn_plugin *tables,
                              size_t *out, tn__buf *why) {
  tn__buf encoded;
  tn_code rc = TN_OK;
  tn__buf_init(&encoded, env);
  tn__tables_encode(tables, &encoded);
  *out = encoded.n;
  if (encoded.failed)
    rc = tn__fail_memory(encoded.n, "the tables of a manifest");
  tn__buf_deinit(&encoded);
  return pass_message(rc, why);
}

static tn_code module_probe(const tnm_probe *how, tn__buf *why) {
  return pass_message(tn__probe_manifest(how), why);
}

static tn_code module_bind(const tnm_bind_request *what, tn__buf *why,
                           void **out) {
  tn__bound *bound = NULL;
  tn__formula *formula = NULL;
  const tn_code rc = what->op->binding ? tn__bound_create(what, &bound)
                                       : tn__formula_create(what, &formula);
  *out = what->op->binding ? (void *)bound : (void *)formula;
  return pass_message(rc, why);
}

static tn_code module_write_formula(const tn_formula *formula, size_t number,
                                    tn__buf *out, tn__buf *why) {
  char unique[32];
  tn_formula named = {0};
  memcpy(&named, formula,
         formula->struct_size < sizeof named ? formula->struct_size
                                             : sizeof named);
  (void)snprintf(unique, sizeof unique, "formula_%zu", number);
  if (!named.name) named.name = unique;
  return tnm_formula_write(out->env, &named, out, why);
}

const tnm_module tn_manifest_module = {
    .struct_size = sizeof(tnm_module),
    .version = TN_VERSION,
    .read = module_read,
    .release = tnm_plugin_release,
    .check = module_check,
    .measure = module_measure,
    .probe = module_probe,
    .bind = module_bind,
    .bound = {tn__bound_prepare, tn__bound_compute},
    .formula = {tn__formula_prepare, tn__formula_compute},
    .infer = tn__formula_infer,
    .write_formula = module_write_formula};
