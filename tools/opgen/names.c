/* SPDX-License-Identifier: Apache-2.0
 * names.c: makes every name in generated C, so that two files cannot disagree.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "emit.h"

const char *name_format(emit *e, const char *format, ...) {
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  const int n = vsnprintf(NULL, 0, format, args);
  va_end(args);
  char *text = n < 0 ? NULL : tn__arena_alloc(e->arena, (size_t)n + 1);
  if (text != NULL) (void)vsnprintf(text, (size_t)n + 1, format, again);
  va_end(again);
  return text != NULL ? text : "";
}

/* Letters and digits of ASCII, in any locale. */
static char identifier_char(char c, bool upper) {
  if (c >= 'a' && c <= 'z') return upper ? (char)(c - 'a' + 'A') : c;
  if ((c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')) return c;
  return '_';
}

const char *name_identifier(emit *e, const char *text, bool upper) {
  const size_t n = strlen(text);
  char *out = tn__arena_text(e->arena, text, n);
  if (out == NULL) return "";
  for (size_t i = 0; i < n; ++i) out[i] = identifier_char(text[i], upper);
  return out;
}

void emit_set_owner(emit *e, const char *list, const char *item) {
  e->list = list;
  e->item = item;
}

const tn_op *describe_op(const tnm_operator *op) {
  return op->op != NULL ? op->op : op->target_op;
}

/* "nn.convolution@1" -> "nn_convolution", "nn.convolution@2" ->
 * "nn_convolution_v2": one program may contain several interfaces. */
static const char *full_to_symbol(emit *e, const char *full) {
  const size_t n = strcspn(full, "@");
  const char *base = tn__arena_text(e->arena, full, n);
  const char *release = full[n] == '@' ? full + n + 1 : "1";
  if (base == NULL) return "";
  base = name_identifier(e, base, false);
  if (strcmp(release, "1") == 0) return base;
  return name_format(e, "%s_v%s", base, release);
}

op_names name_operator(emit *e, const tnm_operator *op) {
  op_names names = {0};
  if (op->op != NULL) {
    names.full = name_format(e, "%s.%s@%" PRIu32, e->plugin->plugin->name,
                             op->op->name, op->op->interface);
    names.symbol = full_to_symbol(e, names.full);
    names.local = names.symbol;
    if (*names.symbol != '\0')
      names.local += strlen(e->plugin->plugin->name) + 1;
  } else {
    names.full = op->target->op;
    names.symbol = full_to_symbol(e, names.full);
    names.local = names.symbol;
  }
  names.macro = name_identifier(e, names.symbol, true);
  names.params = name_format(e, "%s_params", names.symbol);
  return names;
}

const char *name_kernel(emit *e, const tn_kernel *kernel) {
  return name_identifier(e, kernel->id, false);
}

const char *name_kernel_table(emit *e, const tn_kernel *kernel) {
  return name_format(e, "%s_%s_kernel", name_kernel(e, kernel),
                     kernel->pass == TN_PASS_BACKWARD ? "backward" : "forward");
}

const char *name_target(emit *e, const tnm_operator *op) {
  return name_format(e, "%s_%s_target", e->plugin->plugin->name,
                     name_operator(e, op).symbol);
}
