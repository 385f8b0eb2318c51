/* SPDX-License-Identifier: Apache-2.0
 * choose.c: chooses the kernel that computes a call. The same checks run for
 * every candidate, in the same order. The result is a reason that a user can
 * read.
 */
#include "choose.h"

#include <stdio.h>
#include <string.h>

/* ----------------------------------------------------------------- holding */

tn__kernel *tn__kernel_retain(const tn__choice *choice) {
  atomic_fetch_add(&choice->kernel->calls, 1);
  return choice->kernel;
}

void tn__kernel_release(const tn__choice *choice) {
  atomic_fetch_sub(&choice->kernel->calls, 1);
}

/* ------------------------------------------------------------------ choice */

static tn__kernel *kernel_at(const tn_operator *op, size_t i) {
  return op->kernels.v[i];
}

/* Result of comparing the candidates. */
typedef struct outcome {
  tn__kernel *best;
  tn__kernel *rival; /* of another plugin, with the same priority */
} outcome;

static void compare_kernel(outcome *o, tn__kernel *kernel) {
  if (o->best == NULL || kernel->desc->priority > o->best->desc->priority)
    *o = (outcome){.best = kernel};
  else if (kernel->desc->priority == o->best->desc->priority &&
           kernel->plugin != o->best->plugin && o->rival == NULL)
    o->rival = kernel;
}

/* Does not check candidates with too low a priority. */
static outcome find_best(tn_operator *op, const tn__query *query) {
  outcome o = {0};
  for (size_t i = 0; i < op->kernels.n; ++i) {
    tn__kernel *kernel = kernel_at(op, i);
    if (kernel->desc->pass != query->pass) continue;
    if (o.best != NULL && kernel->desc->priority < o.best->desc->priority)
      continue;
    if (tn__kernel_applies(op, kernel, query, NULL)) compare_kernel(&o, kernel);
  }
  return o;
}

static tn_code fail_tie(const tn_operator *op, const outcome *o) {
  return tn__fail(
      TN_UNSUPPORTED,
      "two kernels of %s apply with the same priority %d: %s (plugin "
      "%s) and %s (plugin %s); pin one of them with "
      "tn_operator_pin, or change a priority",
      op->name, o->best->desc->priority, o->best->desc->id,
      o->best->plugin->entry->name, o->rival->desc->id,
      o->rival->plugin->entry->name);
}

static const char *pass_name(uint32_t pass) {
  return pass == TN_PASS_BACKWARD ? "backward" : "forward";
}

static tn_code fail_no_kernel(tn_operator *op, const tn__query *query) {
  tn__reason reason;
  size_t n = 0;
  (void)tn__fail(TN_UNSUPPORTED,
                 "no %s kernel of %s takes this call:", pass_name(query->pass),
                 op->name);
  for (size_t i = 0; i < op->kernels.n; ++i) {
    const tn__kernel *kernel = kernel_at(op, i);
    if (kernel->desc->pass != query->pass) continue;
    (void)tn__kernel_applies(op, kernel, query, &reason);
    (void)tn__fail_more(TN_UNSUPPORTED, "\n  %s (plugin %s): %s",
                        kernel->desc->id, kernel->plugin->entry->name,
                        reason.text);
    ++n;
  }
  if (n > 0) return TN_UNSUPPORTED;
  return tn__fail(TN_UNSUPPORTED,
                  "operator %s has no %s kernel; load a plugin that has one",
                  op->name, pass_name(query->pass));
}

/* Logs the choice, and the reason of each preferred candidate. */
static void log_choice(tn_operator *op, const tn__query *query,
                       const tn__kernel *best) {
  const tn__env *env = op->registry->env;
  tn__reason reason;
  tn__log(env, TN__LOG_KERNELS, TN_LOG_DEBUG,
          "%s %s on %s: chose %s (plugin %s, priority %d)", op->name,
          pass_name(query->pass), tn__device_name(query->device_type),
          best->desc->id, best->plugin->entry->name, best->desc->priority);
  for (size_t i = 0; i < op->kernels.n && kernel_at(op, i) != best; ++i) {
    const tn__kernel *kernel = kernel_at(op, i);
    if (kernel->desc->pass != query->pass) continue;
    (void)tn__kernel_applies(op, kernel, query, &reason);
    tn__log(env, TN__LOG_KERNELS, TN_LOG_DEBUG, "  not %s (plugin %s): %s",
            kernel->desc->id, kernel->plugin->entry->name, reason.text);
  }
}

/* Keeps the registry locked, so that the chosen kernel cannot be unloaded
 * before it is counted. */
static tn_code choose_locked(tn_operator *op, const tn__query *query,
                             tn__choice *out) {
  const outcome o = find_best(op, query);
  if (o.best == NULL) return fail_no_kernel(op, query);
  if (o.rival != NULL) return fail_tie(op, &o);
  if (tn__log_wants(op->registry->env, TN__LOG_KERNELS, TN_LOG_DEBUG))
    log_choice(op, query, o.best);
  *out = (tn__choice){o.best};
  atomic_fetch_add(&o.best->calls, 1);
  if (query->frame != NULL) tn__frame_set_kernel(query->frame, o.best);
  return TN_OK;
}

tn_code tn__kernel_choose(tn_operator *op, const tn__query *query,
                          tn__choice *out) {
  *out = (tn__choice){0};
  (void)pthread_rwlock_rdlock(&op->registry->lock);
  const tn_code rc = choose_locked(op, query, out);
  (void)pthread_rwlock_unlock(&op->registry->lock);
  return rc;
}

/* ----------------------------------------------------------------- explain */

/* Widths of the columns. */
typedef struct columns {
  int id;
  int plugin;
} columns;

static columns measure_columns(const tn_operator *op) {
  columns c = {0, 0};
  for (size_t i = 0; i < op->kernels.n; ++i) {
    const int id = (int)strlen(kernel_at(op, i)->desc->id);
    const int plugin = (int)strlen(kernel_at(op, i)->plugin->entry->name);
    if (id > c.id) c.id = id;
    if (plugin > c.plugin) c.plugin = plugin;
  }
  return c;
}

/* "T: f32 f64", one entry per type variable. */
static void explain_types(const tn_operator *op, const tn_kernel *kernel,
                          tn__buf *out) {
  for (uint32_t v = 0; v < op->desc->n_dtype_vars; ++v) {
    const tn_dtype_var *var = op->desc->dtype_vars[v];
    tn__buf_add(out, "  %s: ", var->name);
    tn__buf_dtypes(out, tn__kernel_types(op, kernel, v));
  }
}

/* The reason for which a kernel that applies is or is not the choice. */
static void explain_verdict(const tn__kernel *kernel, const tn__query *query,
                            const outcome *o, tn__buf *out) {
  const tn_kernel *desc = kernel->desc;
  if (o->rival != NULL && desc->priority == o->best->desc->priority)
    tn__buf_add(out, "tied: pin one, or change a priority");
  else if (kernel != o->best)
    tn__buf_add(out, "applies, but %s is preferred", o->best->desc->id);
  else
    tn__buf_add(out, query->frame != NULL ? "taken" : "asked first");
  if (query->frame != NULL) return;
  if (desc->when_text != NULL)
    tn__buf_add(out, "; only when %s", desc->when_text);
  if (desc->supports != NULL) tn__buf_add(out, "; may decline a call");
}

static void explain_kernel(tn_operator *op, const tn__kernel *kernel,
                           const tn__query *query, tn__buf *out) {
  const outcome o = find_best(op, query);
  const columns c = measure_columns(op);
  tn__reason reason;
  const bool applies = tn__kernel_applies(op, kernel, query, &reason);
  const bool wins = applies && o.best == kernel && o.rival == NULL;
  tn__buf_add(out, "  %c %-*s  %-*s  %-4s  priority %-4d", wins ? '*' : '-',
              c.id, kernel->desc->id, c.plugin, kernel->plugin->entry->name,
              tn__device_name(kernel->desc->device_type),
              kernel->desc->priority);
  explain_types(op, kernel->desc, out);
  tn__buf_add(out, "  | ");
  if (applies)
    explain_verdict(kernel, query, &o, out);
  else
    tn__buf_add(out, "%s", reason.text);
  tn__buf_add(out, "\n");
}

static void explain_pass(tn_operator *op, const tn__query *query,
                         tn__buf *out) {
  size_t n = 0;
  tn__buf_add(out, "%s\n", pass_name(query->pass));
  for (size_t i = 0; i < op->kernels.n; ++i) {
    if (kernel_at(op, i)->desc->pass != query->pass) continue;
    explain_kernel(op, kernel_at(op, i), query, out);
    ++n;
  }
  if (n == 0) tn__buf_add(out, "  (no kernel)\n");
}

/* Explains the other pass without the call, because its frame has another
 * layout. */
void tn__kernel_explain(tn_operator *op, const tn__query *query, tn__buf *out) {
  (void)pthread_rwlock_rdlock(&op->registry->lock);
  tn__buf_add(out, "%s\n", op->name);
  if (op->desc == NULL) {
    tn__buf_add(out, "  (not defined: its plugin is not loaded)\n");
  } else {
    for (uint32_t pass = TN_PASS_FORWARD; pass <= TN_PASS_BACKWARD; ++pass) {
      tn__query one = *query;
      one.pass = pass;
      if (pass != query->pass) one.frame = NULL;
      explain_pass(op, &one, out);
    }
  }
  (void)pthread_rwlock_unlock(&op->registry->lock);
}
