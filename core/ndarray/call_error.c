/* SPDX-License-Identifier: Apache-2.0
 * call_error.c: messages of calls: operands, shapes, failures of kernels.
 */
#include <stdio.h>

#include "call.h"

const char *tn__operand_text(const tn__operand *operand, char *to) {
  if (operand->member < 0)
    snprintf(to, TN__OPERAND_TEXT, "%s `%s`", operand->role,
             operand->arg->name);
  else
    snprintf(to, TN__OPERAND_TEXT, "%s `%s[%d]`", operand->role,
             operand->arg->name, (int)operand->member);
  return to;
}

void tn__fail_tensor(tn_code code, tn_dtype dtype, int32_t ndim,
                     const int64_t *shape) {
  tn__fail_more(code, " %s (",
                dtype == TN_DTYPE_UNKNOWN ? "?" : tn__dtype_name(dtype));
  for (int32_t i = 0; i < ndim; ++i) {
    if (shape[i] < 0)
      tn__fail_more(code, i ? ",?" : "?");
    else
      tn__fail_more(code, i ? ",%lld" : "%lld", (long long)shape[i]);
  }
  tn__fail_more(code, ndim < 0 ? "unknown rank)" : ")");
}

static void append_operands(tn_code code, const tn__operand *operands,
                            const tn_tensor *tensors, uint32_t n) {
  char text[TN__OPERAND_TEXT];
  for (uint32_t i = 0; i < n; ++i) {
    if (tensors[i].ndim < 0) continue;
    tn__fail_more(code, "; %s", tn__operand_text(&operands[i], text));
    tn__fail_tensor(code, tensors[i].dtype, tensors[i].ndim, tensors[i].shape);
  }
}

/* Fails with the plugin's own text first. The names of kernel and plugin and
 * the operands follow. */
tn_code tn__kernel_fail(tn__launch *l, tn_code code, const char *stage) {
  const tn_plugin *plugin = l->kernel->plugin->entry;
  const tn_frame *f = &l->frame;
  bool named = code < 0 && code >= TN_INTERNAL;
  tn_code rc = named ? code : TN_PLUGIN;
  tn__fail(rc, "%s: %s", l->op->name,
           l->slot.text[0] ? l->slot.text : "the kernel gave no reason");
  if (named && !l->slot.text[0]) tn__fail_more(rc, " (%s)", tn_code_name(rc));
  if (!named) tn__fail_more(rc, " (it returned %d, which is no code)", code);
  tn__fail_more(rc, "; in %s of kernel %s, plugin %s release %u", stage,
                l->kernel->desc->id, plugin->name, (unsigned)plugin->release);
  append_operands(rc, l->operands, f->in, f->n_in);
  append_operands(rc, l->operands + f->n_in, f->out, f->n_out);
  append_operands(rc, l->operands + f->n_in + f->n_out, f->aux, f->n_aux);
  return rc;
}
