/* SPDX-License-Identifier: Apache-2.0
 * cmd_run.c: `tenon run`: one call of an operator on arrays from the command
 * line, and with --grad its backward call with ones as head gradients.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tenon/gradient.h"
#include "tenon_tool.h"

/* One run. Every array in the lists is released at the end; NULL is allowed. */
typedef struct run {
  const arguments *args;
  text *why;
  tn_runtime *rt;
  tn_operator *op;
  const tn_op *desc;
  tn_params *params;
  size_t n_in;
  size_t n_out;
  tn_array **in;
  tn_array **out;
  tn_array **heads; /* n_out: gradients of the outputs */
  size_t n_grads;
  tn_array **grads; /* gradients of the inputs */
  tn_req *requests; /* n_grads */
} run;

static bool report_run_failure(run *r) {
  return fail_library(r->why);
}

/* `n` arrays, all NULL. */
static tn_array **make_list(size_t n) {
  return (tn_array **)calloc(n + 1, sizeof(tn_array *));
}

/* --------------------------------------------------------------- parameters */

/* Length of the key if the word is KEY=VALUE, else 0. */
static size_t key_length(const char *word) {
  size_t n = 0;
  while (isalnum((unsigned char)word[n]) || word[n] == '_') ++n;
  return word[n] == '=' && !isdigit((unsigned char)word[0]) ? n : 0;
}

/* Fills `values`, which has room for every word, with the words of which `keys`
 * contains the key. Returns their number. */
static size_t split_params(const arguments *args, text *keys,
                           tn_value *values) {
  size_t n = 0;
  for (size_t i = 1; i < args->n_words; ++i) {
    text_add_bytes(keys, args->words[i], key_length(args->words[i]));
    text_add_bytes(keys, "", 1);
  }
  const char *key = text_get(keys);
  for (size_t i = 1; i < args->n_words && !keys->failed; ++i) {
    const size_t length = strlen(key);
    if (length) values[n++] = tn_value_text(key, args->words[i] + length + 1);
    key += length + 1;
  }
  return n;
}

static bool read_params(run *r) {
  text keys = {0};
  tn_value *values = (tn_value *)calloc(r->args->n_words, sizeof *values);
  size_t n = values ? split_params(r->args, &keys, values) : 0;
  bool ok = values && !keys.failed;
  if (!ok)
    report_failure(r->why, "out of memory");
  else if (tn_params_create(r->op, values, n, &r->params))
    ok = report_run_failure(r);
  free(values);
  text_deinit(&keys);
  return ok;
}

/* ------------------------------------------------------------------- inputs */

static bool read_input(run *r, input_reader *reader, const char *word) {
  const size_t number = r->n_in + 1;
  tn_array **array = &r->in[r->n_in++];
  if (!strcmp(word, "none") || input_read(reader, word, array)) return true;
  return report_failure(r->why, "input %zu: %s", number, text_get(r->why));
}

static bool read_inputs(run *r) {
  input_reader reader = {.rt = r->rt,
                         .why = r->why,
                         .dtype = r->args->dtype,
                         .converts = (r->args->given & OPTION_DTYPE) != 0,
                         .seed = r->args->seed};
  bool ok = true;
  r->in = make_list(r->args->n_words + r->desc->n_aux);
  if (!r->in) return report_failure(r->why, "out of memory");
  for (size_t i = 1; ok && i < r->args->n_words; ++i)
    if (!key_length(r->args->words[i]))
      ok = read_input(r, &reader, r->args->words[i]);
  input_reader_deinit(&reader);
  return ok;
}

/* ------------------------------------------------------------------- states */

/* States follow the inputs. The user passed no states if there are too few
 * words for both; `none` marks inputs that may be absent. */
static bool lacks_states(const run *r) {
  const tn_op *op = r->desc;
  size_t least = op->n_inputs;
  while (least > 0 && (op->inputs[least - 1]->flags &
                       (TN_ARG_OPTIONAL | TN_ARG_VARIADIC)) != 0)
    --least;
  const bool many = op->n_inputs > 0 && (op->inputs[op->n_inputs - 1]->flags &
                                         TN_ARG_VARIADIC) != 0;
  return op->n_aux > 0 && !many && r->n_in >= least &&
         r->n_in <= op->n_inputs && r->n_in < least + op->n_aux;
}

/* Computes the known signatures of the inputs and, from them, those of the
 * states. `sigs` has room for inputs, outputs and states. */
static bool infer_states(run *r, tn_sig *sigs, uint32_t n_out) {
  const uint32_t n_in = (uint32_t)r->n_in, n_aux = r->desc->n_aux;
  tn_signature io = {.n_in = n_in,
                     .n_out = n_out,
                     .n_aux = n_aux,
                     .in = sigs,
                     .out = sigs + n_in,
                     .aux = sigs + n_in + n_out};
  for (uint32_t i = 0; i < n_in + n_out + n_aux; ++i) sigs[i].ndim = -1;
  for (uint32_t i = 0; i < n_in; ++i) {
    const tn_tensor *t = r->in[i] ? tn_array_tensor(r->in[i]) : NULL;
    sigs[i].ndim = t ? t->ndim : -2;
    if (!t) continue;
    sigs[i].dtype = t->dtype;
    memcpy(sigs[i].shape, t->shape, (size_t)t->ndim * sizeof *t->shape);
  }
  return tn_operator_infer(r->op, r->params, &io) == TN_OK ||
         report_run_failure(r);
}

/* An array of `initial` everywhere. */
static tn_code make_state(run *r, const tn_sig *sig, const char *initial,
                          tn_array **out) {
  const double value = initial ? strtod(initial, NULL) : 0;
  tn_array *one = NULL, *cast = NULL, *all = NULL;
  tn_code rc = tn_array_create(
      r->rt, &(tn_spec){sig->dtype, sig->ndim, sig->shape}, out);
  if (!rc) rc = tn_array_create(r->rt, &(tn_spec){TN_F64, 0, NULL}, &one);
  if (!rc) rc = tn_array_set(one, &value, sizeof value);
  if (!rc) rc = tn_array_cast(one, sig->dtype, &cast);
  if (!rc) rc = tn_array_broadcast(cast, sig->ndim, sig->shape, &all);
  if (!rc) rc = tn_array_copy(*out, all);
  tn_array_release(one), tn_array_release(cast), tn_array_release(all);
  return rc;
}

/* States that are not given begin as the manifest says. */
static bool add_states(run *r) {
  uint32_t n_out = 0;
  if (!lacks_states(r)) return true;
  if (tn_operator_outputs(r->op, r->params, (uint32_t)r->n_in, &n_out, NULL))
    return report_run_failure(r);
  const size_t first = r->n_in + n_out, n = first + r->desc->n_aux;
  tn_sig *sigs = (tn_sig *)calloc(n + 1, sizeof *sigs);
  bool ok = sigs || report_failure(r->why, "out of memory");
  ok = ok && infer_states(r, sigs, n_out);
  for (uint32_t i = 0; ok && i < r->desc->n_aux; ++i)
    ok = !make_state(r, &sigs[first + i], r->desc->aux[i]->initial,
                     &r->in[r->n_in++]) ||
         report_run_failure(r);
  free(sigs);
  return ok;
}

/* -------------------------------------------------------------------- calls */

static bool count_outputs(run *r) {
  const uint32_t n_aux = r->desc->n_aux;
  const uint32_t n_in = r->n_in > n_aux ? (uint32_t)r->n_in - n_aux : 0;
  uint32_t n = 0;
  if (tn_operator_outputs(r->op, r->params, n_in, &n, NULL))
    return report_run_failure(r);
  r->n_out = n;
  r->out = make_list(n);
  r->heads = make_list(n);
  return (r->out && r->heads) || report_failure(r->why, "out of memory");
}

static bool call_forward(run *r) {
  const tn_inputs in = {r->n_in, r->in};
  const tn_outputs out = {r->n_out, r->out, NULL};
  const tn_code code = r->args->given & OPTION_TRAINING
                           ? tn_call_train(r->rt, r->op, &in, r->params, &out)
                           : tn_call(r->rt, r->op, &in, r->params, &out);
  return !code || report_run_failure(r);
}

/* ----------------------------------------------------------------- operands */

/* A declared operand, and the index of one of its arrays; -1 if the operand is
 * one array. */
typedef struct operand {
  const tn_arg *arg;
  int64_t member;
} operand;

static operand input_at(const run *r, size_t i) {
  const tn_op *op = r->desc;
  const size_t last = op->n_inputs - 1;
  if (i < last || !(op->inputs[last]->flags & TN_ARG_VARIADIC))
    return (operand){op->inputs[i], -1};
  return (operand){op->inputs[last], (int64_t)(i - last)};
}

/* At most one output has a count. */
static operand output_at(const run *r, size_t i) {
  const tn_op *op = r->desc;
  size_t counted = 0;
  while (counted < op->n_outputs && op->outputs[counted]->count == TN_NONE)
    ++counted;
  if (i < counted) return (operand){op->outputs[i], -1};
  const size_t members = r->n_out - (op->n_outputs - 1);
  if (i >= counted + members)
    return (operand){op->outputs[i - members + 1], -1};
  return (operand){op->outputs[counted], (int64_t)(i - counted)};
}

static void add_name(operand o, text *out) {
  text_add(out, "%s", o.arg->name);
  if (o.member >= 0) text_add(out, "[%" PRId64 "]", o.member);
}

static bool is_hidden(const run *r, size_t i) {
  return output_at(r, i).arg->flags & TN_ARG_HIDDEN;
}

/* ---------------------------------------------------------------- backward */

/* Ones like output i. */
static bool make_head(run *r, size_t i) {
  tensor ones;
  if (!tensor_from_array(r->out[i], &ones, r->why)) return false;
  unsigned char one[8];
  element_set(ones.dtype, 1, one);
  for (size_t k = 0; k < ones.n; ++k) tensor_set(&ones, k, one);
  bool ok = tensor_to_array(&ones, r->rt, &r->heads[i], r->why);
  tensor_deinit(&ones);
  return ok;
}

static bool make_heads(run *r) {
  for (size_t i = 0; i < r->n_out; ++i) {
    bool is_float = dtype_is_float(tn_array_tensor(r->out[i])->dtype);
    if (!is_hidden(r, i) && is_float && !make_head(r, i)) return false;
  }
  return true;
}

/* Whether to request a gradient of input i. */
static bool is_wanted(const run *r, size_t i) {
  const tn_gradient *gradient = r->desc->gradient;
  if (!r->in[i] || !dtype_is_float(tn_array_tensor(r->in[i])->dtype))
    return false;
  if (!gradient || !gradient->n_inputs) return true; /* refused by the call */
  size_t last = gradient->n_inputs - 1;
  return !gradient->inputs[i < last ? i : last]->stop;
}

static bool request_grads(run *r) {
  bool any = false;
  /* Auxiliary states follow the inputs and have no gradient. */
  r->n_grads = r->n_in - r->desc->n_aux;
  r->grads = make_list(r->n_grads);
  r->requests = (tn_req *)calloc(r->n_grads + 1, sizeof *r->requests);
  if (!r->grads || !r->requests) return report_failure(r->why, "out of memory");
  for (size_t i = 0; i < r->n_grads; ++i) {
    r->requests[i] = is_wanted(r, i) ? TN_REQ_WRITE : TN_REQ_NULL;
    any = any || r->requests[i] != TN_REQ_NULL;
  }
  return any ||
         report_failure(r->why,
                        "%s: none of these inputs has a gradient: it wants a "
                        "floating type, and an operator that differentiates it",
                        tn_operator_name(r->op));
}

static bool call_backward(run *r) {
  if (!request_grads(r) || !make_heads(r)) return false;
  const bool train = r->args->given & OPTION_TRAINING;
  const tn_backward call = {.struct_size = sizeof call,
                            .flags = train ? TN_CALL_TRAIN : 0,
                            .params = r->params,
                            .inputs = {r->n_in, r->in},
                            .outputs = {r->n_out, r->out},
                            .out_grads = {r->n_out, r->heads},
                            .in_grads = {r->n_grads, r->grads, r->requests}};
  return !tn_gradient_call(r->rt, r->op, &call) || report_run_failure(r);
}

/* ------------------------------------------------------------------ results */

static void add_outputs(const run *r, results *to) {
  for (size_t i = 0; i < r->n_out; ++i) {
    text name = {0};
    if (is_hidden(r, i)) continue;
    add_name(output_at(r, i), &name);
    results_add(to, RESULT_OUTPUT, text_get(&name), r->out[i]);
    text_deinit(&name);
  }
}

/* As the call has left them. */
static void add_final_states(const run *r, results *to) {
  const uint32_t n_aux = r->desc->n_aux;
  for (uint32_t i = 0; i < n_aux && r->n_in >= n_aux; ++i)
    results_add(to, RESULT_STATE, r->desc->aux[i]->name,
                r->in[r->n_in - n_aux + i]);
}

static void add_grads(const run *r, results *to) {
  for (size_t i = 0; i < r->n_grads; ++i) {
    text name = {0};
    if (!r->grads[i]) continue;
    add_name(input_at(r, i), &name);
    results_add(to, RESULT_GRAD, text_get(&name), r->grads[i]);
    text_deinit(&name);
  }
}

static bool print_json(run *r, const results *all, const recording *spans,
                       text *out) {
  text_add(out, "{\"operator\": ");
  text_add_json(out, tn_operator_name(r->op));
  text_add(out, ", ");
  if (!results_print_json(all, out, r->why)) return false;
  profile_print_json(spans, out);
  text_add(out, "}\n");
  return true;
}

static bool print_all(run *r, const recording *spans, text *out) {
  results all = {0};
  add_outputs(r, &all);
  add_final_states(r, &all);
  add_grads(r, &all);
  const bool json = r->args->given & OPTION_JSON;
  const bool full = r->args->given & OPTION_FULL;
  bool ok = json ? print_json(r, &all, spans, out)
            : r->args->out
                ? results_save(&all, r->rt, r->args->out, out, r->why)
                : results_print(&all, full, out, r->why);
  if (ok && !json) profile_print(spans, out);
  results_deinit(&all);
  return ok;
}

/* ------------------------------------------------------------------ command */

static bool find_operator(run *r) {
  if (!operator_find(r->rt, r->args->words[0], &r->op, r->why)) return false;
  r->desc = tn_operator_desc(r->op);
  return true;
}

static void release_all(tn_array **arrays, size_t n) {
  for (size_t i = 0; arrays && i < n; ++i) tn_array_release(arrays[i]);
  free(arrays);
}

static void run_deinit(run *r) {
  release_all(r->in, r->n_in);
  release_all(r->out, r->n_out);
  release_all(r->heads, r->n_out);
  release_all(r->grads, r->n_grads);
  free(r->requests);
  tn_params_release(r->params);
}

/* Spans of operators have a full name; others are steps of the engine. */
static void name_span(void *ctx, const char *span, text *out) {
  (void)ctx;
  if (strchr(span, '@')) text_add(out, "%s", span);
}

static bool call_all(run *r, recording *spans) {
  const bool grad = r->args->given & OPTION_GRAD;
  return recording_start(spans, r->args, r->rt, r->why) && call_forward(r) &&
         (!grad || call_backward(r)) &&
         recording_end(spans, name_span, NULL, r->why);
}

int cmd_run(const arguments *args, text *out, text *why) {
  host h;
  recording spans = {0};
  if (args->n_words == 0) {
    report_failure(why,
                   "run wants an operator and its inputs, such as `tenon run "
                   "elemwise.relu [1,-1]`");
    return STATUS_USAGE;
  }
  if (!results_check_out(args, why)) return STATUS_USAGE;
  if (!host_open(&h, args, 1, why)) return STATUS_FAILED;
  run r = {.args = args, .why = why, .rt = h.rt};
  const bool ok = host_load(&h, args, why) && find_operator(&r) &&
                  read_inputs(&r) && read_params(&r) && add_states(&r) &&
                  count_outputs(&r) && call_all(&r, &spans) &&
                  print_all(&r, &spans, out) && host_print_state(&h, args, why);
  recording_deinit(&spans);
  run_deinit(&r);
  host_close(&h);
  return ok ? STATUS_OK : STATUS_FAILED;
}
