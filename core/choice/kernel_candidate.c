/* SPDX-License-Identifier: Apache-2.0
 * kernel_candidate.c: decides whether one kernel applies to one call. The
 * checks are: withdrawn, pin, device, element types, `when`, `supports`, in
 * this order. The first failed check is the reason.
 */
#include <stdio.h>
#include <string.h>

#include "choose.h"
#include "floating.h"

const char *tn__device_name(int32_t device_type) {
  switch (device_type) {
    case TN_DEVICE_CPU:
      return "cpu";
    case TN_DEVICE_CUDA:
      return "cuda";
    default:
      return "device";
  }
}

void tn__frame_set_kernel(tn_frame *frame, const tn__kernel *kernel) {
  frame->instance = kernel->plugin->instance;
  frame->options = kernel->options;
  frame->host = &kernel->plugin->host;
}

static bool fail_check(tn__reason *reason, const char *format, ...)
    TN_PRINTF(2, 3);
static bool fail_check(tn__reason *reason, const char *format, ...) {
  va_list args;
  if (reason == NULL) return false;
  va_start(args, format);
  (void)vsnprintf(reason->text, sizeof reason->text, format, args);
  va_end(args);
  return false;
}

/* -------------------------------------------------------------------- pins */

static bool has_pinned_id(const tn_operator *op, const tn__kernel *kernel) {
  return strcmp(op->pin->desc->id, kernel->desc->id) == 0;
}

/* A pin names a kernel by its id, which both passes may share. It is valid for
 * the passes that have such a kernel. */
static bool is_pin_binding(const tn_operator *op, uint32_t pass) {
  if (op->pin == NULL) return false;
  for (size_t i = 0; i < op->kernels.n; ++i) {
    const tn__kernel *kernel = op->kernels.v[i];
    if (kernel->desc->pass == pass && has_pinned_id(op, kernel)) return true;
  }
  return false;
}

/* ------------------------------------------------------------------- types */

uint64_t tn__kernel_types(const tn_operator *op, const tn_kernel *kernel,
                          uint32_t var) {
  const uint64_t allowed = op->desc->dtype_vars[var]->allowed;
  if (var >= kernel->n_dtype_sets || kernel->dtype_sets[var] == 0)
    return allowed;
  return kernel->dtype_sets[var] & allowed;
}

static void add_set(tn__reason *reason, uint64_t set) {
  for (size_t bit = 0; bit < TN__N_DTYPES; ++bit) {
    const size_t used = strlen(reason->text);
    if ((set >> bit & 1) != 0)
      (void)snprintf(reason->text + used, sizeof reason->text - used, " %s",
                     tn__dtype_names[bit]);
  }
}

static bool has_types(const tn_operator *op, const tn_kernel *kernel,
                      const tn_dtype *vars, tn__reason *reason) {
  for (uint32_t v = 0; v < op->desc->n_dtype_vars; ++v) {
    const uint64_t set = tn__kernel_types(op, kernel, v);
    if (vars[v] == TN_DTYPE_UNKNOWN || (set & tn__dtype_bit(vars[v])) != 0)
      continue;
    (void)fail_check(
        reason, "%s is %s, it takes%s", op->desc->dtype_vars[v]->name,
        tn__dtype_name(vars[v]),
        set != 0 ? "" : " none of the types that the operator has");
    if (reason != NULL) add_set(reason, set);
    return false;
  }
  return true;
}

/* --------------------------------------------------------------- questions */

/* Conditions use the forward call, also those of a backward kernel: the frame
 * of that has only the operands that its gradients need. */
static bool is_condition_true(const tn_operator *op, const tn_kernel *kernel,
                              const tn__query *query, tn__reason *reason) {
  const char *text = kernel->when_text == NULL ? "?" : kernel->when_text;
  const tn__scope scope = {.nodes = kernel->nodes,
                           .n_nodes = kernel->n_nodes,
                           .fields = op->desc->params,
                           .n_fields = op->desc->n_params,
                           .params = query->frame->params,
                           .io = query->io,
                           .absent = query->absent};
  tn__ivalue value;
  if (kernel->when == TN_NONE) return true;
  if (tn__expr_eval(&scope, kernel->when, &value) != TN_OK)
    return fail_check(reason, "its condition %s cannot be decided: %s", text,
                      tn_error_text());
  if (!value.known)
    return fail_check(reason, "its condition %s depends on an unknown value",
                      text);
  const int32_t n = value.n == TN__SCALAR ? 1 : value.n;
  for (int32_t i = 0; i < n; ++i)
    if (value.v[i] == 0) return fail_check(reason, "only when %s", text);
  return true;
}

/* Calls the kernel's own function, with a separate slot for the reason. */
static bool is_supported(const tn__kernel *kernel, tn_frame *frame,
                         tn__reason *reason) {
  tn__slot slot = {0};
  tn_run run = {.struct_size = sizeof run};
  tn_run *before = frame->run;
  if (kernel->desc->supports == NULL) return true;
  if (before != NULL) run = *before;
  run.host_data = &slot;
  frame->run = &run;
  tn__frame_set_kernel(frame, kernel);
  const tn__floating floating = tn__floating_get();
  const int32_t rc = kernel->desc->supports(frame);
  tn__floating_keep(&floating);
  frame->run = before;
  if (rc == TN_OK) return true;
  const char *why = slot.text[0] != '\0' ? slot.text : "it gives no reason";
  if (rc > 0 || rc < TN_INTERNAL)
    return fail_check(
        reason, "its supports function returned %d, which is no code", (int)rc);
  if (rc != TN_UNSUPPORTED)
    return fail_check(reason, "its supports function failed (%s): %s",
                      tn_code_name(rc), why);
  return fail_check(reason, "declines: %s", why);
}

static bool fail_wrong_device(tn__reason *reason, int32_t own, int32_t asked) {
  if (own != TN_DEVICE_CPU && own != TN_DEVICE_CUDA)
    return fail_check(reason, "is for devices of type %d, the call is on %s",
                      (int)own, tn__device_name(asked));
  return fail_check(reason, "is for %s, the call is on %s",
                    tn__device_name(own), tn__device_name(asked));
}

bool tn__kernel_applies(const tn_operator *op, const tn__kernel *kernel,
                        const tn__query *query, tn__reason *reason) {
  const tn_kernel *desc = kernel->desc;
  if (reason != NULL) reason->text[0] = '\0';
  if (kernel->withdrawn != NULL)
    return fail_check(reason, "withdrawn: %s", kernel->withdrawn);
  if (is_pin_binding(op, desc->pass) && !has_pinned_id(op, kernel))
    return fail_check(reason, "%s is pinned", op->pin->desc->id);
  if (desc->device_type != query->device_type)
    return fail_wrong_device(reason, desc->device_type, query->device_type);
  if (query->vars != NULL && !has_types(op, desc, query->vars, reason))
    return false;
  if (query->frame == NULL) return true;
  return is_condition_true(op, desc, query, reason) &&
         is_supported(kernel, query->frame, reason);
}
