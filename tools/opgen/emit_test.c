/* SPDX-License-Identifier: Apache-2.0
 * emit_test.c: writes <plugin>_test.gen.c: the examples of every operator as
 * tables of tenon/test/test.h, examples of other plugins' operators with
 * kernels here, and a program that runs them.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "emit.h"

/* -------------------------------------------------------------------- texts */

/* Adds "key=value" for tn_params_parse: in quotes unless it is a word or a
 * list. */
static void add_param(tn__buf *out, const tn_value *value) {
  const char *text = value->as.s != NULL ? value->as.s : "None";
  const bool word = text[0] != '\0' && strpbrk(text, " \t\r\n\"\\") == NULL;
  tn__buf_add(out, "%s%s=", out->n > 0 ? " " : "", value->key);
  if (word || text[0] == '[') {
    tn__buf_add(out, "%s", text);
    return;
  }
  tn__buf_bytes(out, "\"", 1);
  for (; *text != '\0'; ++text) {
    static const char plain[] = "\"\\\n\t\r", escaped[] = "\"\\ntr";
    const char *special = strchr(plain, *text);
    if (special != NULL)
      tn__buf_add(out, "\\%c", escaped[special - plain]);
    else
      tn__buf_bytes(out, text, 1);
  }
  tn__buf_bytes(out, "\"", 1);
}

/* Adds whole numbers without an exponent. */
static void add_number(tn__buf *out, double value) {
  if (value >= -1e15 && value <= 1e15 && floor(value) >= value)
    tn__buf_add(out, "%.0f", value);
  else
    tn__buf_double(out, value);
}

/* Adds the list at `depth` of nested ones, from `values`; returns the next
 * value. */
static const double *add_nested(tn__buf *out, const tnm_data *data,
                                int32_t depth, const double *values) {
  if (depth == data->ndim) {
    add_number(out, *values);
    return values + 1;
  }
  tn__buf_bytes(out, "[", 1);
  for (int64_t i = 0; i < data->shape[depth]; ++i) {
    if (i > 0) tn__buf_bytes(out, ", ", 2);
    values = add_nested(out, data, depth + 1, values);
  }
  tn__buf_bytes(out, "]", 1);
  return values;
}

/* Adds those of `items` that are among the operands, "name=value
 * name=value". */
static void add_operands(tn__buf *out, const tnm_example_item *items, size_t n,
                         const tn_arg *const *args, uint32_t n_args) {
  for (uint32_t a = 0; a < n_args; ++a) {
    for (size_t i = 0; i < n; ++i) {
      if (strcmp(items[i].name, args[a]->name) != 0) continue;
      tn__buf_add(out, "%s%s=", out->n > 0 ? " " : "", items[i].name);
      (void)add_nested(out, &items[i].data, 0, items[i].data.values);
    }
  }
}

/* Writes ".field = "text"," unless the text is empty, and empties it. */
static void emit_text(emit *e, const char *field, tn__buf *text) {
  if (text->n > 0) c_string(&e->c, field, text->s);
  e->c.failed |= text->failed;
  text->n = 0;
}

/* ------------------------------------------------------------------- tables */

static bool has_param(const tn_op *op, const char *name) {
  for (uint32_t i = 0; i < op->n_params; ++i)
    if (strcmp(op->params[i]->name, name) == 0) return true;
  return false;
}

/* Writes the parameters of the example that the operator has. */
static void emit_params(emit *e, const tn_op *op, const tnm_example *x) {
  tn__buf text;
  tn__buf_init(&text, e->env);
  for (size_t i = 0; i < x->n_params; ++i)
    if (has_param(op, x->params[i].key)) add_param(&text, &x->params[i]);
  emit_text(e, "params", &text);
  tn__buf_deinit(&text);
}

static void emit_example(emit *e, const tnm_operator *op,
                         const tnm_example *x) {
  const tn_op *d = describe_op(op);
  tn__buf text;
  tn__buf_init(&text, e->env);
  c_add(&e->c, "{\n");
  c_string(&e->c, "name", x->name);
  c_string(&e->c, "place", op->file);
  emit_params(e, d, x);
  add_operands(&text, x->items, x->n_items, d->inputs, d->n_inputs);
  emit_text(e, "inputs", &text);
  add_operands(&text, x->items, x->n_items, d->aux, d->n_aux);
  emit_text(e, "aux", &text);
  add_operands(&text, x->items, x->n_items, d->outputs, d->n_outputs);
  emit_text(e, "outputs", &text);
  add_operands(&text, x->grads, x->n_grads, d->outputs, d->n_outputs);
  emit_text(e, "out_grads", &text);
  add_operands(&text, x->grads, x->n_grads, d->inputs, d->n_inputs);
  emit_text(e, "in_grads", &text);
  if (x->tol > 0) c_f64(&e->c, "tol", x->tol);
  if (x->training) c_value(&e->c, "flags", "TN_CALL_TRAIN");
  c_add(&e->c, "},\n");
  tn__buf_deinit(&text);
}

/* The description of the operator: for kernels_for in a manifest of another
 * plugin, NULL without one. */
static const tnm_operator *description_of(const tnm_operator *op) {
  return op->op != NULL ? op : op->described;
}

/* Counts the examples in the operator's manifest and those of its kernels. */
static size_t count_examples(const tnm_operator *op) {
  const tnm_operator *teller = description_of(op);
  const size_t told = teller != NULL && teller != op ? teller->n_examples : 0;
  return told + op->n_examples;
}

/* The first part of the names of its tables. */
static const char *tables_of(emit *e, const tnm_operator *op) {
  const char *local = name_operator(e, op).local;
  return op->op != NULL ? local : name_format(e, "%s_target", local);
}

static void emit_examples(emit *e, const tnm_operator *op) {
  const tnm_operator *teller = description_of(op);
  if (count_examples(op) == 0) return;
  c_open(&e->c, "static const tn_test_example",
         name_format(e, "%s_examples[]", tables_of(e, op)));
  for (size_t i = 0; teller != NULL && i < teller->n_examples; ++i)
    emit_example(e, teller, &teller->examples[i]);
  for (size_t i = 0; teller != op && i < op->n_examples; ++i)
    emit_example(e, op, &op->examples[i]);
  c_close(&e->c);
}

static const char *id_of(const tnm_kernel *kernel) {
  return (kernel->forward != NULL ? kernel->forward : kernel->backward)->id;
}

/* Writes the kernels that calls are made with, one after the other. */
static void emit_kernels(emit *e, const tnm_operator *op) {
  if (op->target == NULL || op->n_kernels == 0) return;
  c_open_list(&e->c, "static const char *const",
              name_format(e, "%s_kernels", tables_of(e, op)));
  for (size_t i = 0; i < op->n_kernels; ++i)
    c_item_string(&e->c, id_of(&op->kernels[i]));
  c_close(&e->c);
}

static void emit_gradcheck(emit *e, const tnm_gradcheck *check) {
  c_string(&e->c, "skip", check->skip);
  c_u32(&e->c, "points", check->points);
  if (check->eps > 0) c_f64(&e->c, "eps", check->eps);
  if (check->tol > 0) c_f64(&e->c, "tol", check->tol);
}

static void emit_operator(emit *e, const tnm_operator *op) {
  const tnm_operator *teller = description_of(op);
  const tnm_operator *parent = teller != NULL ? teller->parent : NULL;
  const size_t n = count_examples(op);
  c_file *c = &e->c;
  c_add(c, "{\n");
  c_string(c, "name", name_operator(e, op).full);
  if (n > 0) {
    c_value(c, "examples", name_format(e, "%s_examples", tables_of(e, op)));
    c_value(c, "n_examples", name_format(e, "%zu", n));
  } else if (parent != NULL && parent->n_examples > 0) {
    emit_params(e, describe_op(op), &parent->examples[0]);
  }
  if (teller != NULL) emit_gradcheck(e, &teller->gradcheck);
  if (teller != NULL && teller->batch_invariant) c_u32(c, "batch_invariant", 1);
  if (op->target != NULL && op->n_kernels > 0) {
    c_value(c, "kernels", name_format(e, "%s_kernels", tables_of(e, op)));
    c_value(c, "n_kernels", name_format(e, "%zu", op->n_kernels));
  }
  c_add(c, "},\n");
}

static void emit_operators(emit *e) {
  if (e->plugin->n_operators == 0) return;
  c_open(&e->c, "static const tn_test_operator", "operators[]");
  for (size_t i = 0; i < e->plugin->n_operators; ++i)
    emit_operator(e, &e->plugin->operators[i]);
  c_close(&e->c);
}

void emit_test_source(emit *e) {
  const char *name = e->plugin->plugin->name;
  emit_banner(e, name_format(e, "%s_test.gen.c", name), "plugin");
  c_add(&e->c, "#include <tenon/test/test.h>\n\n");
  const size_t n = e->plugin->n_operators;
  for (size_t i = 0; i < n; ++i) {
    emit_examples(e, &e->plugin->operators[i]);
    emit_kernels(e, &e->plugin->operators[i]);
  }
  emit_operators(e);
  c_open(&e->c, "static const tn_test_plugin", "plugin");
  c_string(&e->c, "name", name);
  if (n > 0) {
    c_value(&e->c, "operators", "operators");
    c_value(&e->c, "n_operators", name_format(e, "%zu", n));
  }
  c_close(&e->c);
  c_add(&e->c,
        "\nint main(int argc, char **argv) {\n"
        "return tn_test_main(&plugin, argc, argv);\n"
        "}\n");
}
