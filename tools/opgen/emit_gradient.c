/* SPDX-License-Identifier: Apache-2.0
 * emit_gradient.c: writes the inputs with a gradient and the needs of each, as
 * the constant tables of op.h.
 */
#include <inttypes.h>

#include "emit.h"

static const char *const kinds[] = {"TN_GRADIENT_NONE", "TN_GRADIENT_KERNEL",
                                    "TN_GRADIENT_GRAPH"};

static const char *const wants[] = {"TN_NEED_GRAD_OUT", "TN_NEED_IN",
                                    "TN_NEED_OUT"};

static void emit_needs(emit *e, const char *name,
                       const tn_input_gradient *gradient) {
  if (gradient->n_needs == 0) return;
  c_open_list(&e->c, "static const tn_need", name_format(e, "%s_needs", name));
  for (uint32_t i = 0; i < gradient->n_needs; ++i) {
    const tn_need *need = &gradient->needs[i];
    c_item(&e->c, "",
           name_format(e, "{.what = %s, .index = %" PRIu32 "%s}",
                       wants[need->what], need->index,
                       need->metadata ? ", .metadata = 1" : ""));
  }
  c_close(&e->c);
}

static void emit_steps(emit *e, const char *name,
                       const tn_input_gradient *gradient) {
  c_file *c = &e->c;
  if (gradient->n_steps == 0) return;
  c_open(c, "static const tn_step", name_format(e, "%s_steps[]", name));
  for (uint32_t i = 0; i < gradient->n_steps; ++i) {
    const tn_step *step = &gradient->steps[i];
    c_add(c, "{\n");
    c_value(c, "what",
            step->what == TN_STEP_CALL ? "TN_STEP_CALL" : wants[step->what]);
    c_u32(c, "index", step->index);
    c_string(c, "op", step->op);
    c_string(c, "params", step->params);
    c_add(c, "},\n");
  }
  c_close(c);
}

static void emit_input(emit *e, const char *name,
                       const tn_input_gradient *gradient) {
  c_file *c = &e->c;
  emit_needs(e, name, gradient);
  emit_steps(e, name, gradient);
  c_open(c, "static const tn_input_gradient", name);
  c_value(c, "struct_size", "sizeof(tn_input_gradient)");
  c_u32(c, "stop", gradient->stop);
  c_u32(c, "n_needs", gradient->n_needs);
  c_index(c, "inplace", gradient->inplace);
  c_value(c, "needs", name_if(e, gradient->n_needs, name, "needs"));
  c_string(c, "formula", gradient->formula);
  c_u32(c, "n_steps", gradient->n_steps);
  c_u32(c, "linear", gradient->linear);
  c_value(c, "steps", name_if(e, gradient->n_steps, name, "steps"));
  c_close(c);
}

static void emit_inputs(emit *e, const char *local, const tn_op *op) {
  const tn_gradient *gradient = op->gradient;
  if (gradient->n_inputs == 0) return;
  const char *prefix = name_format(e, "%s_grad_", local);
  for (uint32_t i = 0; i < gradient->n_inputs; ++i) {
    emit_set_owner(e, "inputs", op->inputs[i]->name);
    emit_input(e, name_format(e, "%s%s", prefix, op->inputs[i]->name),
               gradient->inputs[i]);
  }
  emit_set_owner(e, NULL, NULL);
  emit_pointers_open(e, "tn_input_gradient", name_format(e, "%s_grads", local));
  for (uint32_t i = 0; i < gradient->n_inputs; ++i)
    c_item(&e->c, name_format(e, "&%s", prefix), op->inputs[i]->name);
  c_close(&e->c);
}

void emit_gradient(emit *e, const char *local, const tn_op *op) {
  const tn_gradient *gradient = op->gradient;
  c_file *c = &e->c;
  if (gradient == NULL) return;
  emit_inputs(e, local, op);
  c_open(c, "static const tn_gradient", name_format(e, "%s_gradient", local));
  c_value(c, "struct_size", "sizeof(tn_gradient)");
  c_value(c, "kind", kinds[gradient->kind]);
  c_u32(c, "n_inputs", gradient->n_inputs);
  c_value(c, "inputs", name_if(e, gradient->n_inputs, local, "grads"));
  c_string(c, "why", gradient->why);
  c_close(c);
}
