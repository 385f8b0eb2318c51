/* SPDX-License-Identifier: Apache-2.0
 * trial_child.c: the two bodies of a child: one loads a plugin, the other one
 * computes its examples. The child may end at any time.
 */
#include "trial_child.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ records */

static tn__answer *answer;
static const char *call_name = "";
/* Codes of the findings of this example. */
static char found[16][8];
static size_t n_found;

void trial_write(uint32_t kind, const char *format, ...) {
  char text[1024];
  va_list args;
  va_start(args, format);
  const int n = vsnprintf(text, sizeof text, format, args);
  va_end(args);
  const size_t most = sizeof text - 1;
  if (n >= 0 &&
      !tn__answer_add(answer, kind, text, (size_t)n < most ? (size_t)n : most))
    _Exit(1); /* the parent has closed its end */
}

bool trial_write_bytes(uint32_t kind, const void *bytes, size_t n) {
  return tn__answer_add(answer, kind, bytes, n);
}

/* Tests whether a finding of this code was written, and marks it as written. */
static bool was_found(const char *code) {
  for (size_t i = 0; i < n_found; ++i)
    if (strcmp(found[i], code) == 0) return true;
  if (n_found < sizeof found / sizeof *found)
    (void)snprintf(found[n_found++], sizeof *found, "%s", code);
  return false;
}

void trial_find(const char *code, const char *format, ...) {
  char text[512];
  va_list args;
  if (was_found(code)) return;
  va_start(args, format);
  (void)vsnprintf(text, sizeof text, format, args);
  va_end(args);
  trial_write(TRIAL_FINDING, "%s %s: %s", code, call_name, text);
}

void trial_name_call(const char *name) {
  call_name = name;
  trial_write(TRIAL_CALL, "%s", name);
}

static void write_failure(void) {
  char text[TN__ERROR_MAX];
  (void)snprintf(text, sizeof text, "%s", tn_error_text());
  for (char *c = text; *c != '\0'; ++c)
    if (*c == '\n') *c = ' ';
  if (!tn__answer_add(answer, TRIAL_FAILURE, text, strlen(text))) _Exit(1);
}

/* Writes a line of the log, unless `ctx` suppresses it. */
static void write_log(void *ctx, int32_t level, const char *line) {
  const bool *quiet = ctx;
  if (!*quiet) trial_write(TRIAL_LOG, "%" PRId32 " %s", level, line);
}

/* ----------------------------------------------------------------- examples */

/* The kernel of another plugin's operator for the cpu; NULL if there is none. A
 * plugin has one for each device. */
static const tn_kernel *cpu_kernel(const tnm_operator *op) {
  for (size_t i = 0; i < op->n_kernels; ++i) {
    const tnm_kernel *k = &op->kernels[i];
    const tn_kernel *tables = k->forward != NULL ? k->forward : k->backward;
    if (tables->device_type == TN_DEVICE_CPU) return tables;
  }
  return NULL;
}

/* Tests whether a call was refused because the plugin's `init` withdrew the
 * kernel: only the text contains the reason. */
static bool is_withdrawn(const char *plugin, const char *id) {
  char mark[512];
  const int n =
      snprintf(mark, sizeof mark, "%s (plugin %s): withdrawn: ", id, plugin);
  return n > 0 && (size_t)n < sizeof mark &&
         strstr(tn_error_text(), mark) != NULL;
}

/* Computes with the plugin's own kernel, if it has one. Afterwards the operator
 * is unpinned: gradients of others may call it. */
static tn_code compute_pinned(trial_run *r, const char *plugin) {
  r->kernel = cpu_kernel(r->manifest);
  if (r->kernel == NULL) return TN_OK;
  tn_code code = tn_operator_pin(r->host, r->kernel->id);
  if (code == TN_OK) code = trial_compute(r);
  if (code == TN_UNSUPPORTED && is_withdrawn(plugin, r->kernel->id))
    code = TN_OK;
  const tn_code lifted = tn_operator_pin(r->host, NULL);
  return code != TN_OK ? code : lifted;
}

static tn_code compute_operator(trial_run *r, const tnm_plugin *plugin) {
  const tnm_operator *op = r->manifest;
  char name[256];
  if (op->op == NULL) {
    TN__TRY(tn_operator_get(r->rt, op->target->op, &r->host));
    return compute_pinned(r, plugin->plugin->name);
  }
  (void)snprintf(name, sizeof name, "%s.%s@%" PRIu32, plugin->plugin->name,
                 op->op->name, op->op->interface);
  TN__TRY(tn_operator_get(r->rt, name, &r->host));
  return trial_compute(r);
}

static void run_example(tn_runtime *rt, const tnm_plugin *plugin,
                        const tnm_operator *op, size_t index, bool strict) {
  trial_run r = {.rt = rt,
                 .manifest = op,
                 .op = op->op != NULL ? op->op : op->target_op,
                 .example = &op->examples[index],
                 .strict = strict};
  n_found = 0;
  trial_write(TRIAL_BEGIN, "%zu %zu", (size_t)(op - plugin->operators), index);
  if (compute_operator(&r, plugin) != TN_OK) write_failure();
  trial_write(TRIAL_DONE, "%s", "");
}

/* --------------------------------------------------------------- the bodies */

/* False after a record with the reason. */
static bool begin_child(tn__answer *to) {
  answer = to;
  if (trial_state_open()) return true;
  trial_write(TRIAL_FAILURE, "its output cannot be caught");
  return false;
}

/* Uses one thread: signals and floating-point control belong to a thread. */
static tn_code create_runtime(bool *quiet, uint32_t trust, tn_runtime **rt) {
  const tn_options options = {.struct_size = sizeof options,
                              .engine = TN_ENGINE_NAIVE,
                              .workers = 1,
                              .log = write_log,
                              .log_ctx = quiet,
                              .trust = trust};
  return tn_runtime_create(&options, rt);
}

void trial_child(const tnm_plugin *plugin, const trial_files *files,
                 size_t first, tn__answer *to) {
  bool quiet = false;
  tn_runtime *rt = NULL;
  size_t number = 0;
  if (!begin_child(to)) return;
  if (create_runtime(&quiet, TN_TRUST_REPLACE | TN_TRUST_ANY_FOLDER, &rt) !=
          TN_OK ||
      trial_load(rt, plugin, files, &quiet) != TN_OK) {
    write_failure();
    return;
  }
  if (files->strict && !trial_memory_catch_faults()) {
    trial_write(TRIAL_FAILURE, "its faults cannot be caught");
    return;
  }
  for (size_t i = 0; i < plugin->n_operators; ++i) {
    const tnm_operator *op = &plugin->operators[i];
    for (size_t k = 0; k < op->n_examples; ++k)
      if (number++ >= first) run_example(rt, plugin, op, k, files->strict);
  }
  tn_runtime_release(rt);
}

void trial_child_load(const trial_files *files, tn__answer *to) {
  bool quiet = false;
  tn_runtime *rt = NULL;
  if (!begin_child(to)) return;
  trial_name_call("loading");
  tn_code code = create_runtime(&quiet, TN_TRUST_REPLACE, &rt);
  trial_state_note();
  if (code == TN_OK) code = trial_load_one(rt, files->path);
  if (code != TN_OK) write_failure();
  trial_state_compare(true);
  tn_runtime_release(rt);
}
