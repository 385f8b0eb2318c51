/* SPDX-License-Identifier: Apache-2.0
 * trial_child.c: computes examples with a built plugin and writes what comes
 * out. Runs in a process of its own and may die at any time.
 */
#include "trial_child.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "examples.h"
#include "tenon/gradient.h"

enum { MAX_OPERANDS = 64 };

/* One example being computed. Arrays are released at the end. */
typedef struct run {
  tn_runtime *rt;
  tn_operator *host;
  const tn_op *op;
  const tnm_example *example;
  const tn_kernel *kernel; /* of another plugin's operator, pinned; or NULL */
  tn_params *params;
  uint32_t n_in; /* without states */
  uint32_t n_out;
  tn_array *in[MAX_OPERANDS]; /* and states behind them */
  tn_array *out[MAX_OPERANDS];
  tn_array *heads[MAX_OPERANDS];
  tn_array *grads[MAX_OPERANDS];
  FILE *to;
} run;

/* ------------------------------------------------------------------- arrays */

/* An array of a type from doubles. */
static tn_code make(tn_runtime *rt, tn_dtype dtype, const tnm_data *data,
                    tn_array **out) {
  tn_spec spec = {.dtype = TN_F64, .ndim = data->ndim, .shape = data->shape};
  tn_array *wide = NULL;
  *out = NULL;
  TN__TRY(tn_array_create(rt, &spec, &wide));
  tn_code code =
      tn_array_set(wide, data->values, data->n * sizeof *data->values);
  if (code == TN_OK) code = tn_array_cast(wide, dtype, out);
  tn_array_release(wide);
  return code;
}

/* The type of an operand whose type a parameter states. */
static tn_dtype stated_dtype(const run *r, const tn_arg *arg) {
  tn_dtype dtype = TN_DTYPE_UNKNOWN;
  if (arg->dtype_param == TN_NONE) return example_dtype(r->op, arg, r->kernel);
  const tn_field *field = r->op->params[arg->dtype_param];
  const char *text = field->default_text;
  for (size_t i = 0; i < r->example->n_params; ++i)
    if (strcmp(r->example->params[i].key, field->name) == 0)
      text = r->example->params[i].as.s;
  if (text != NULL) (void)tn__dtype_parse(text, &dtype);
  return dtype;
}

static tn_code write_array(const run *r, char kind, const char *name,
                           tn_array *array) {
  const tn_tensor *t = tn_array_tensor(array);
  const size_t n = (size_t)tn_array_size(array);
  tn_array *wide = NULL;
  double *values = tn__alloc(tn__env_default(), n * sizeof *values);
  if (values == NULL) return tn__fail_memory(n * sizeof *values, "a result");
  tn_code code = tn_array_cast(array, TN_F64, &wide);
  if (code == TN_OK) code = tn_array_get(wide, values, n * sizeof *values);
  if (code == TN_OK) {
    fprintf(r->to, "V %c %s %" PRIu32 " %" PRId32, kind, name, t->dtype,
            t->ndim);
    for (int32_t i = 0; i < t->ndim; ++i)
      fprintf(r->to, " %" PRId64, t->shape[i]);
    for (size_t i = 0; i < n; ++i) fprintf(r->to, " %a", values[i]);
    fprintf(r->to, "\n");
  }
  tn__free(tn__env_default(), values);
  tn_array_release(wide);
  return code;
}

/* --------------------------------------------------------------- the forward
 */

static tn_code make_inputs(run *r) {
  const tn_op *op = r->op;
  for (uint32_t i = 0; i < r->n_in; ++i) {
    uint32_t skip = 0;
    const tn_arg *arg = example_arg(op->inputs, op->n_inputs, i, &skip);
    const tnm_data *data =
        example_find(r->example->items, r->example->n_items, arg->name, skip);
    if (data != NULL)
      TN__TRY(make(r->rt, stated_dtype(r, arg), data, &r->in[i]));
  }
  return TN_OK;
}

/* Shapes of the states, inferred from the inputs. */
static tn_code infer(const run *r, tn_sig *aux) {
  tn_sig in[MAX_OPERANDS], out[MAX_OPERANDS];
  tn_signature io = {.n_in = r->n_in,
                     .n_out = r->n_out,
                     .n_aux = r->op->n_aux,
                     .in = in,
                     .out = out,
                     .aux = aux};
  for (uint32_t i = 0; i < MAX_OPERANDS; ++i) {
    in[i] = out[i] = (tn_sig){.dtype = TN_DTYPE_UNKNOWN, .ndim = -1};
    if (i < r->op->n_aux) aux[i] = in[i];
    if (i < r->n_in && r->in[i] == NULL) in[i].ndim = -2; /* not given */
    if (i >= r->n_in || r->in[i] == NULL) continue;
    const tn_tensor *t = tn_array_tensor(r->in[i]);
    in[i].dtype = t->dtype;
    in[i].ndim = t->ndim;
    for (int32_t k = 0; k < t->ndim; ++k) in[i].shape[k] = t->shape[k];
  }
  return tn_operator_infer(r->host, r->params, &io);
}

/* A state that the example does not give: every element is `initial`. */
static tn_code make_initial(run *r, const tn_arg *arg, const tn_sig *sig,
                            tn_array **out) {
  tnm_data data = {.ndim = sig->ndim, .n = 1};
  if (sig->ndim < 0) return tn__fail(TN_INCOMPLETE, "shape of `%s`", arg->name);
  for (int32_t i = 0; i < sig->ndim; ++i) {
    data.shape[i] = sig->shape[i];
    data.n *= (size_t)(sig->shape[i] > 0 ? sig->shape[i] : 0);
  }
  double *values = tn__zalloc(tn__env_default(), data.n * sizeof *values);
  if (values == NULL) return tn__fail_memory(data.n, "a state");
  for (size_t i = 0; i < data.n && arg->initial != NULL; ++i)
    values[i] = strtod(arg->initial, NULL);
  data.values = values;
  const tn_code code = make(r->rt, sig->dtype, &data, out);
  tn__free(tn__env_default(), values);
  return code;
}

static tn_code make_states(run *r) {
  tn_sig aux[MAX_OPERANDS];
  if (r->op->n_aux == 0) return TN_OK;
  TN__TRY(infer(r, aux));
  for (uint32_t i = 0; i < r->op->n_aux; ++i) {
    const tn_arg *arg = r->op->aux[i];
    const tnm_data *data =
        example_find(r->example->items, r->example->n_items, arg->name, 0);
    tn_array **place = &r->in[r->n_in + i];
    if (data != NULL)
      TN__TRY(make(r->rt, stated_dtype(r, arg), data, place));
    else
      TN__TRY(make_initial(r, arg, &aux[i], place));
  }
  return TN_OK;
}

static tn_code forward(run *r) {
  const tn_inputs in = {r->n_in + r->op->n_aux, r->in};
  const tn_outputs out = {r->n_out, r->out, NULL};
  TN__TRY(tn_params_create(r->host, r->example->params, r->example->n_params,
                           &r->params));
  TN__TRY(make_inputs(r));
  TN__TRY(make_states(r));
  TN__TRY((r->example->training ? tn_call_train : tn_call)(r->rt, r->host, &in,
                                                           r->params, &out));
  for (uint32_t i = 0; i < r->n_out; ++i) {
    uint32_t skip = 0;
    const tn_arg *arg = example_arg(r->op->outputs, r->op->n_outputs, i, &skip);
    if ((arg->flags & TN_ARG_HIDDEN) == 0)
      TN__TRY(write_array(r, 'o', arg->name, r->out[i]));
  }
  return TN_OK;
}

/* -------------------------------------------------------------- the backward
 */

static tn_code backward(run *r) {
  const tnm_example *example = r->example;
  tn_req req[MAX_OPERANDS] = {TN_REQ_NULL};
  uint32_t skip = 0;
  for (uint32_t i = 0; i < r->n_out; ++i) {
    const tn_arg *arg = example_arg(r->op->outputs, r->op->n_outputs, i, &skip);
    const tnm_data *data =
        example_find(example->grads, example->n_grads, arg->name, skip);
    if (data != NULL)
      TN__TRY(
          make(r->rt, tn_array_tensor(r->out[i])->dtype, data, &r->heads[i]));
  }
  for (uint32_t i = 0; i < r->n_in; ++i) {
    const tn_arg *arg = example_arg(r->op->inputs, r->op->n_inputs, i, &skip);
    if (example_find(example->grads, example->n_grads, arg->name, skip) != NULL)
      req[i] = TN_REQ_WRITE;
  }
  const tn_backward call = {.struct_size = sizeof call,
                            .flags = example->training ? TN_CALL_TRAIN : 0,
                            .params = r->params,
                            .inputs = {r->n_in + r->op->n_aux, r->in},
                            .outputs = {r->n_out, r->out},
                            .out_grads = {r->n_out, r->heads},
                            .in_grads = {r->n_in, r->grads, req}};
  TN__TRY(tn_gradient_call(r->rt, r->host, &call));
  for (uint32_t i = 0; i < r->n_in; ++i) {
    const tn_arg *arg = example_arg(r->op->inputs, r->op->n_inputs, i, &skip);
    if (req[i] == TN_REQ_WRITE)
      TN__TRY(write_array(r, 'g', arg->name, r->grads[i]));
  }
  return TN_OK;
}

/* ------------------------------------------------------------------ examples
 */

static void write_failure(FILE *to) {
  fprintf(to, "F ");
  for (const char *c = tn_error_text(); *c != '\0'; ++c)
    fputc(*c == '\n' ? ' ' : *c, to);
  fprintf(to, "\n");
}

static void run_deinit(run *r) {
  for (size_t i = 0; i < MAX_OPERANDS; ++i) {
    tn_array_release(r->in[i]);
    tn_array_release(r->out[i]);
    tn_array_release(r->heads[i]);
    tn_array_release(r->grads[i]);
  }
  tn_params_release(r->params);
}

static tn_code compute(run *r) {
  r->n_in = example_length(r->example, r->op->inputs, r->op->n_inputs);
  r->n_out = example_length(r->example, r->op->outputs, r->op->n_outputs);
  if (r->n_in + r->op->n_aux > MAX_OPERANDS || r->n_out > MAX_OPERANDS)
    return tn__fail(TN_UNSUPPORTED, "more than %d operands", MAX_OPERANDS);
  TN__TRY(forward(r));
  return r->example->n_grads > 0 ? backward(r) : TN_OK;
}

/* That of another plugin's operator for the cpu, of a pass that it has; NULL if
 * there is none. A plugin has one for each device. */
static const tn_kernel *cpu_kernel(const tnm_operator *op) {
  for (size_t i = 0; i < op->n_kernels; ++i) {
    const tnm_kernel *k = &op->kernels[i];
    const tn_kernel *tables = k->forward != NULL ? k->forward : k->backward;
    if (tables->device_type == TN_DEVICE_CPU) return tables;
  }
  return NULL;
}

/* Whether a call was refused because the plugin's `init` withdrew the kernel:
 * only the text tells. */
static bool is_withdrawn(const char *plugin, const char *id) {
  char mark[512];
  const int n =
      snprintf(mark, sizeof mark, "%s (plugin %s): withdrawn: ", id, plugin);
  return n > 0 && (size_t)n < sizeof mark &&
         strstr(tn_error_text(), mark) != NULL;
}

/* With the plugin's own kernel, if it has one here. The operator is left as it
 * was found: gradients of others may call it. */
static tn_code compute_pinned(run *r, const char *plugin,
                              const tnm_operator *op) {
  r->kernel = cpu_kernel(op);
  if (r->kernel == NULL) return TN_OK;
  tn_code code = tn_operator_pin(r->host, r->kernel->id);
  if (code == TN_OK) code = compute(r);
  if (code == TN_UNSUPPORTED && is_withdrawn(plugin, r->kernel->id))
    code = TN_OK;
  const tn_code lifted = tn_operator_pin(r->host, NULL);
  return code != TN_OK ? code : lifted;
}

static tn_code compute_operator(run *r, const tnm_plugin *plugin,
                                const tnm_operator *op) {
  char name[256];
  if (op->op == NULL) {
    TN__TRY(tn_operator_get(r->rt, op->target->op, &r->host));
    return compute_pinned(r, plugin->plugin->name, op);
  }
  (void)snprintf(name, sizeof name, "%s.%s@%" PRIu32, plugin->plugin->name,
                 op->op->name, op->op->interface);
  TN__TRY(tn_operator_get(r->rt, name, &r->host));
  return compute(r);
}

static void run_example(FILE *to, tn_runtime *rt, const tnm_plugin *plugin,
                        const tnm_operator *op, size_t index) {
  run r = {.rt = rt,
           .op = op->op != NULL ? op->op : op->target_op,
           .example = &op->examples[index],
           .to = to};
  fprintf(to, "B %zu %zu\n", (size_t)(op - plugin->operators), index);
  (void)fflush(to);
  if (compute_operator(&r, plugin, op) != TN_OK) write_failure(to);
  fprintf(to, "E\n");
  (void)fflush(to);
  run_deinit(&r);
}

/* The log, but for what `ctx` says is of no interest. */
static void log_line(void *ctx, int32_t level, const char *line) {
  const bool *quiet = ctx;
  if (!*quiet) tn__log_stderr(NULL, level, line);
}

void trial_child(const tnm_plugin *plugin, const trial_files *files,
                 size_t first, FILE *to) {
  bool quiet = false;
  const tn_options options = {.struct_size = sizeof options,
                              .workers = 1,
                              .log = log_line,
                              .log_ctx = &quiet,
                              .trust = TN_TRUST_REPLACE | TN_TRUST_ANY_FOLDER};
  tn_runtime *rt = NULL;
  size_t number = 0;
  if (tn_runtime_create(&options, &rt) != TN_OK ||
      trial_load(rt, plugin, files, &quiet) != TN_OK) {
    write_failure(to);
    return;
  }
  for (size_t i = 0; i < plugin->n_operators; ++i) {
    const tnm_operator *op = &plugin->operators[i];
    for (size_t k = 0; k < op->n_examples; ++k)
      if (number++ >= first) run_example(to, rt, plugin, op, k);
  }
  tn_runtime_release(rt);
}
