/* SPDX-License-Identifier: Apache-2.0
 * cmd_eval.c: `opgen eval`: computes the formulas of an operator, or a formula
 * of the command line, without a compiler. The host of tenon.h does it: a
 * manifest of formulas is a plugin that it loads.
 */
#include <stdlib.h>
#include <string.h>

#include "eval.h"
#include "tenon/tenon.h"
#include "trial.h"
#include "trial_child.h"

enum { MOST_OPERANDS = 64 };

typedef struct evaluation {
  const opgen_args *args;
  const char *const *literals; /* the inputs of the command line */
  size_t n_literals;
  tn__arena arena;
  tn_dtype dtype;   /* TN_DTYPE_UNKNOWN: not stated */
  tn_value *values; /* of `--param` */
  size_t n_values;
  tn_runtime *rt;
  tn_operator *op;
  const tn_op *desc;
  tn_params *params;
  tn_array *in[MOST_OPERANDS];
  tn_array *out[MOST_OPERANDS];
  tn_array *gradients[MOST_OPERANDS];
  uint32_t n_out; /* visible outputs */
} evaluation;

/* Prints the message of the library. Returns false. */
static bool report_failure(void) {
  fprintf(stderr, "opgen eval: %s\n", tn_error_text());
  return false;
}

static bool report_no_memory(void) {
  fprintf(stderr, "opgen: out of memory\n");
  return false;
}

/* -------------------------------------------------------------- command line
 */

/* Makes a value of each NAME=VALUE. False after a message. */
static bool read_values(evaluation *e) {
  const opgen_args *args = e->args;
  e->values =
      tn__arena_alloc(&e->arena, (args->n_params + 1) * sizeof *e->values);
  if (!e->values) return report_no_memory();
  for (size_t i = 0; i < args->n_params; ++i) {
    const char *text = args->params[i];
    const size_t n = strcspn(text, "=");
    if (n == 0 || text[n] == '\0') {
      opgen_usage_error("eval", "`--param` needs NAME=VALUE, not `%s`", text);
      return false;
    }
    const char *key = tn__arena_text(&e->arena, text, n);
    if (!key) return report_no_memory();
    e->values[e->n_values++] =
        (tn_value){.key = key, .type = TN_FIELD_STRING, .as.s = text + n + 1};
  }
  return true;
}

static bool read_dtype(evaluation *e) {
  const char *text = e->args->dtype;
  if (!text || tn__dtype_parse(text, &e->dtype)) return true;
  opgen_usage_error("eval", "`--dtype` is a type such as f32 or i64, not `%s`",
                    text);
  return false;
}

/* ---------------------------------------------------------------- operators */

/* Tests whether an operator is one that a user selects by `name`; NULL: any. */
static bool is_selected(const tnm_operator *op, const char *name) {
  return op->op && !op->parent && (!name || !strcmp(op->op->name, name));
}

/* Reports that FILE has no operator of the name, or several. */
static void report_choice(const evaluation *e, const tnm_plugin *plugin,
                          size_t n) {
  const opgen_args *args = e->args;
  const char *before = "\n  = help: choose one with `--op`: ";
  if (n == 0)
    fprintf(stderr, "opgen eval: %s has no operator `%s`", args->files[0],
            args->op ? args->op : "");
  else
    fprintf(stderr, "opgen eval: %s has %zu operators", args->files[0], n);
  for (size_t i = 0; i < plugin->n_operators; ++i) {
    if (!is_selected(&plugin->operators[i], NULL)) continue;
    fprintf(stderr, "%s%s", before, plugin->operators[i].op->name);
    before = ", ";
  }
  fprintf(stderr, "\n");
}

/* Finds the only operator that fits. NULL after a message. */
static const tnm_operator *select_operator(const evaluation *e,
                                           const tnm_plugin *plugin) {
  const tnm_operator *found = NULL;
  size_t n = 0;
  for (size_t i = 0; i < plugin->n_operators; ++i) {
    if (!is_selected(&plugin->operators[i], e->args->op)) continue;
    found = &plugin->operators[i];
    ++n;
  }
  if (n == 1) return found;
  report_choice(e, plugin, n);
  return NULL;
}

static bool load_operator(evaluation *e, const tnm_plugin *plugin) {
  char name[256];
  const tnm_operator *selected = select_operator(e, plugin);
  if (!selected) return false;
  (void)snprintf(name, sizeof name, "%s.%s@%u", plugin->plugin->name,
                 selected->op->name, (unsigned)selected->op->interface);
  if (trial_load_one(e->rt, e->args->files[0]) != TN_OK ||
      tn_operator_get(e->rt, name, &e->op) != TN_OK)
    return report_failure();
  return tn_params_create(e->op, e->values, e->n_values, &e->params) == TN_OK ||
         report_failure();
}

static bool load_file(evaluation *e) {
  tnm_plugin *plugin = opgen_read_lone(e->args, e->args->files[0]);
  if (!plugin) return false;
  const bool fine = load_operator(e, plugin);
  tnm_plugin_release(plugin);
  return fine;
}

static bool define_expression(evaluation *e) {
  const tn_formula formula = {.struct_size = sizeof formula,
                              .n = (uint32_t)e->n_values,
                              .params = e->values,
                              .expression = e->args->expression};
  if (tn_formula_define(e->rt, &formula, &e->op) == TN_OK) return true;
  return report_failure();
}

/* ------------------------------------------------------------------- arrays */

/* The type of an input: the stated one, or f32 if the operand may have it. */
static tn_dtype choose_dtype(const evaluation *e, const tn_arg *arg) {
  if (arg->dtype_param == TN_NONE && arg->dtype_var == TN_NONE)
    return arg->dtype;
  if (e->dtype != TN_DTYPE_UNKNOWN) return e->dtype;
  if (arg->dtype_param != TN_NONE) return TN_F32;
  const uint64_t allowed = e->desc->dtype_vars[arg->dtype_var]->allowed;
  if (allowed & TN_BIT_F32) return TN_F32;
  if (allowed & tn__dtype_bit(TN_I32)) return TN_I32;
  size_t bit = 0;
  while (!(allowed >> bit & 1)) ++bit;
  return tn__dtype_at(bit);
}

static bool make_array(evaluation *e, tn_dtype dtype, const tnm_data *data,
                       tn_array **out) {
  const tn_spec spec = {
      .dtype = TN_F64, .ndim = data->ndim, .shape = data->shape};
  tn_array *wide = NULL;
  tn_code rc = tn_array_create(e->rt, &spec, &wide);
  if (!rc) rc = tn_array_set(wide, data->values, data->n * sizeof(double));
  if (!rc) rc = tn_array_cast(wide, dtype, out);
  tn_array_release(wide);
  return rc == TN_OK || report_failure();
}

/* Reports a wrong number of inputs. Returns false. */
static bool report_count(const evaluation *e) {
  const tn_op *desc = e->desc;
  fprintf(stderr, "opgen eval: the operator has %u input%s (",
          (unsigned)desc->n_inputs, desc->n_inputs == 1 ? "" : "s");
  for (uint32_t i = 0; i < desc->n_inputs; ++i)
    fprintf(stderr, "%s%s", i > 0 ? ", " : "", desc->inputs[i]->name);
  fprintf(stderr,
          "), but the command line has %zu\n"
          "  = help: write one number or list for each, in this order\n",
          e->n_literals);
  return false;
}

static bool make_inputs(evaluation *e) {
  tnm_data data;
  if (e->n_literals != e->desc->n_inputs) return report_count(e);
  for (size_t i = 0; i < e->n_literals; ++i)
    if (!eval_read_literal(&e->arena, e->literals[i], &data) ||
        !make_array(e, choose_dtype(e, e->desc->inputs[i]), &data, &e->in[i]))
      return false;
  return true;
}

/* -------------------------------------------------------------------- calls */

static bool is_float(const tn_array *array) {
  const tn_dtype dtype = tn_array_tensor(array)->dtype;
  return (tn__dtype_bit(dtype) &
          (TN_BIT_F16 | TN_BIT_BF16 | TN_BIT_F32 | TN_BIT_F64)) != 0;
}

static bool call_plainly(evaluation *e) {
  const tn_inputs in = {e->n_literals, e->in};
  const tn_outputs out = {e->n_out, e->out, NULL};
  return tn_call(e->rt, e->op, &in, e->params, &out) == TN_OK ||
         report_failure();
}

/* Records the call and computes the gradients of the floating inputs. */
static tn_code differentiate(evaluation *e, tn_tape *tape) {
  const tn_inputs in = {e->n_literals, e->in};
  const tn_outputs out = {e->n_out, e->out, NULL};
  tn_array *of[MOST_OPERANDS], *made[MOST_OPERANDS] = {NULL};
  size_t n = 0;
  for (size_t i = 0; i < e->n_literals; ++i) {
    if (!is_float(e->in[i])) continue;
    of[n++] = e->in[i];
    TN__TRY(tn_tape_watch(tape, e->in[i]));
  }
  TN__TRY(tn_tape_call(tape, e->op, &in, e->params, &out));
  tn_tape_query query = {.struct_size = sizeof query,
                         .heads = {e->n_out, e->out},
                         .of = {n, of},
                         .gradients = {n, made, NULL}};
  TN__TRY(tn_tape_gradient(tape, &query));
  for (size_t i = 0, k = 0; i < e->n_literals; ++i)
    if (is_float(e->in[i])) e->gradients[i] = made[k++];
  return TN_OK;
}

static bool call_recorded(evaluation *e) {
  tn_tape *tape = NULL;
  tn_code rc = tn_tape_create(e->rt, &tape);
  if (!rc) rc = differentiate(e, tape);
  if (rc) (void)report_failure();
  tn_tape_release(tape);
  return rc == TN_OK;
}

/* ------------------------------------------------------------------ results */

static tn_code print_array(evaluation *e, tn_array *array) {
  const tn_tensor *t = tn_array_tensor(array);
  trial_value value = {
      .dtype = t->dtype, .ndim = t->ndim, .n = (size_t)tn_array_size(array)};
  tn_array *wide = NULL;
  tn__buf text;
  for (int32_t d = 0; d < t->ndim; ++d) value.shape[d] = t->shape[d];
  value.v = tn__arena_alloc(&e->arena, (value.n + 1) * sizeof *value.v);
  if (!value.v) return tn__fail_memory(value.n, "a result");
  TN__TRY(tn_array_cast(array, TN_F64, &wide));
  const tn_code rc = tn_array_get(wide, value.v, value.n * sizeof *value.v);
  tn_array_release(wide);
  if (rc) return rc;
  tn__buf_init(&text, tn__env_default());
  trial_print(&text, &value);
  const bool failed = text.failed;
  if (!failed) printf("%s\n", text.s ? text.s : "");
  tn__buf_deinit(&text);
  return failed ? tn__fail_memory(text.n, "a result") : TN_OK;
}

static bool print_results(evaluation *e) {
  tn_code rc = TN_OK;
  for (uint32_t i = 0; i < e->n_out && !rc; ++i) {
    if (e->n_out > 1) printf("%s:\n", e->desc->outputs[i]->name);
    rc = print_array(e, e->out[i]);
  }
  for (uint32_t i = 0; i < e->desc->n_inputs && !rc; ++i) {
    if (!e->gradients[i]) continue;
    printf("grad.%s:\n", e->desc->inputs[i]->name);
    rc = print_array(e, e->gradients[i]);
  }
  return rc == TN_OK || report_failure();
}

/* ------------------------------------------------------------------ command */

/* Describes the operator. False after a message. */
static bool describe_operator(evaluation *e) {
  e->desc = tn_operator_desc(e->op);
  if (e->desc->n_inputs > MOST_OPERANDS || e->desc->n_outputs > MOST_OPERANDS) {
    fprintf(stderr, "opgen eval: the operator has more than %d operands\n",
            MOST_OPERANDS);
    return false;
  }
  while (e->n_out < e->desc->n_outputs &&
         !(e->desc->outputs[e->n_out]->flags & TN_ARG_HIDDEN))
    ++e->n_out;
  return true;
}

static bool evaluate(evaluation *e) {
  const tn_options options = {.struct_size = sizeof options, .workers = 1};
  if (!read_values(e) || !read_dtype(e)) return false;
  if (tn_runtime_create(&options, &e->rt) != TN_OK) return report_failure();
  return (e->args->expression ? define_expression(e) : load_file(e)) &&
         describe_operator(e) && make_inputs(e) &&
         (e->args->grad ? call_recorded(e) : call_plainly(e)) &&
         print_results(e);
}

static void release_all(evaluation *e) {
  for (size_t i = 0; i < MOST_OPERANDS; ++i) {
    tn_array_release(e->in[i]);
    tn_array_release(e->out[i]);
    tn_array_release(e->gradients[i]);
  }
  tn_params_release(e->params);
  tn_runtime_release(e->rt);
  tn__arena_deinit(&e->arena);
}

int cmd_eval(const opgen_args *args) {
  const size_t first = args->expression ? 0 : 1;
  evaluation e = {.args = args,
                  .literals = args->files + first,
                  .n_literals = args->n_files - first};
  if (args->expression && args->op)
    return opgen_usage_error("eval",
                             "`--op` selects an operator of FILE, not of `-e`");
  tn__arena_init(&e.arena, tn__env_default());
  const bool fine = evaluate(&e);
  release_all(&e);
  return fine ? EXIT_FINE : EXIT_ERRORS;
}
