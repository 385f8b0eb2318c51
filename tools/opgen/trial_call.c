/* SPDX-License-Identifier: Apache-2.0
 * trial_call.c: makes the calls of one example: forward, the gradient that it
 * states, each gradient alone, and all but one.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "examples.h"
#include "tenon/gradient.h"
#include "tenon/kernel/storage.h"
#include "trial_child.h"

/* ------------------------------------------------------------------- arrays */

/* Makes an array of a storage type from doubles. */
static tn_code make_storage(tn_runtime *rt, tn_dtype dtype,
                            const tnm_data *data, tn_array **out) {
  const tn_spec spec = {dtype, data->ndim, data->shape};
  const tn_storage_rule rule = {dtype, 1, TN_STORAGE_UP};
  const size_t bytes = (size_t)tn_dtype_bytes_of(dtype, (int64_t)data->n);
  TN__TRY(tn_array_create(rt, &spec, out));
  void *elements = tn__zalloc(tn__env_default(), bytes);
  for (size_t i = 0; i < data->n && elements != NULL; ++i)
    tn_storage_write(elements, &rule, (int64_t)i, data->values[i]);
  const tn_code code = elements != NULL ? tn_array_set(*out, elements, bytes)
                                        : tn__fail_memory(bytes, "an array");
  tn__free(tn__env_default(), elements);
  if (code == TN_OK) return TN_OK;
  tn_array_release(*out);
  *out = NULL;
  return code;
}

/* Makes an array of a type from doubles. */
static tn_code make_array(tn_runtime *rt, tn_dtype dtype, const tnm_data *data,
                          tn_array **out) {
  tn_spec spec = {.dtype = TN_F64, .ndim = data->ndim, .shape = data->shape};
  tn_array *wide = NULL;
  *out = NULL;
  if (tn__dtype_is_storage(dtype)) return make_storage(rt, dtype, data, out);
  TN__TRY(tn_array_create(rt, &spec, &wide));
  tn_code code =
      tn_array_set(wide, data->values, data->n * sizeof *data->values);
  if (code == TN_OK) code = tn_array_cast(wide, dtype, out);
  tn_array_release(wide);
  return code;
}

/* The type of an operand; a parameter may state it. */
static tn_dtype stated_dtype(const trial_run *r, const tn_arg *arg) {
  tn_dtype dtype = TN_DTYPE_UNKNOWN;
  if (r->type != TN_DTYPE_UNKNOWN && arg->dtype_var == 0) return r->type;
  if (arg->dtype_param == TN_NONE) return example_dtype(r->op, arg, r->kernel);
  const tn_field *field = r->op->params[arg->dtype_param];
  const char *text = field->default_text;
  for (size_t i = 0; i < r->example->n_params; ++i)
    if (strcmp(r->example->params[i].key, field->name) == 0)
      text = r->example->params[i].as.s;
  if (text != NULL) (void)tn__dtype_parse(text, &dtype);
  return dtype;
}

static bool is_guarded(const trial_run *r) {
  return r->turn == TURN_END || r->turn == TURN_START;
}

/* Moves an array to memory between guard pages, in the turns that have them. It
 * is read-only there, unless a call changes it. */
static tn_code guard_array(const trial_run *r, const char *name, bool changes,
                           tn_array **array) {
  const tn_tensor *t = tn_array_tensor(*array);
  trial_spec spec = {.name = name,
                     .dtype = t->dtype,
                     .ndim = t->ndim,
                     .shape = t->shape,
                     .at_end = r->turn == TURN_END};
  size_t bytes = 0;
  tn_array *moved = NULL;
  if (!is_guarded(r)) return TN_OK;
  if (!tn__tensor_bytes(t->dtype, t->ndim, t->shape, &bytes))
    return tn__fail(TN_OUT_OF_RANGE, "`%s` is too large", name);
  char *copy = tn__alloc(tn__env_default(), bytes);
  if (copy == NULL) return tn__fail_memory(bytes, "an array");
  tn_code code = tn_array_get(*array, copy, bytes);
  if (!changes) spec.bytes = copy;
  if (code == TN_OK) code = trial_memory_array(r->rt, &spec, &moved);
  if (code == TN_OK && changes) code = tn_array_set(moved, copy, bytes);
  tn__free(tn__env_default(), copy);
  if (code != TN_OK) return code;
  tn_array_release(*array);
  *array = moved;
  return TN_OK;
}

/* Allocates memory between guard pages for a result, with the shape and type of
 * the first turn. */
static tn_code guard_result(const trial_run *r, const char *name,
                            const trial_result *like, tn_array **out) {
  const trial_spec spec = {.name = name,
                           .dtype = like->dtype,
                           .ndim = like->ndim,
                           .shape = like->shape,
                           .at_end = r->turn == TURN_END};
  if (!is_guarded(r) || like->bytes == NULL) return TN_OK;
  return trial_memory_array(r->rt, &spec, out);
}

static tn_code write_values(char kind, const char *name, tn_array *array,
                            const double *values) {
  const tn_tensor *t = tn_array_tensor(array);
  const size_t n = (size_t)tn_array_size(array);
  tn__buf text;
  tn__buf_init(&text, tn__env_default());
  tn__buf_add(&text, "%c %s %" PRIu32 " %" PRId32, kind, name, t->dtype,
              t->ndim);
  for (int32_t i = 0; i < t->ndim; ++i)
    tn__buf_add(&text, " %" PRId64, t->shape[i]);
  for (size_t i = 0; i < n; ++i) tn__buf_add(&text, " %a", values[i]);
  const tn_code code =
      text.failed ? tn__fail_memory(text.n, "a result") : TN_OK;
  if (code == TN_OK && !trial_write_bytes(TRIAL_VALUE, text.s, text.n))
    _Exit(1);
  tn__buf_deinit(&text);
  return code;
}

/* -------------------------------------------------------------- the forward */

static tn_code make_inputs(trial_run *r) {
  const tn_op *op = r->op;
  for (uint32_t i = 0; i < r->n_in; ++i) {
    uint32_t skip = 0;
    const tn_arg *arg = example_arg(op->inputs, op->n_inputs, i, &skip);
    const tnm_data *data =
        example_find(r->example->items, r->example->n_items, arg->name, skip);
    if (data == NULL) continue;
    TN__TRY(make_array(r->rt, stated_dtype(r, arg), data, &r->in[i]));
    TN__TRY(guard_array(r, arg->name, false, &r->in[i]));
  }
  return TN_OK;
}

/* Infers the shapes of the states from the inputs. */
static tn_code infer_states(const trial_run *r, tn_sig *aux) {
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
    if (i < r->n_in && r->in[i] == NULL) in[i].ndim = -2; /* omitted */
    if (i >= r->n_in || r->in[i] == NULL) continue;
    const tn_tensor *t = tn_array_tensor(r->in[i]);
    in[i].dtype = t->dtype;
    in[i].ndim = t->ndim;
    for (int32_t k = 0; k < t->ndim; ++k) in[i].shape[k] = t->shape[k];
  }
  return tn_operator_infer(r->host, r->params, &io);
}

/* Makes a state that the example does not contain: every element is
 * `initial`. */
static tn_code make_initial(trial_run *r, const tn_arg *arg, const tn_sig *sig,
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
  const tn_code code = make_array(r->rt, sig->dtype, &data, out);
  tn__free(tn__env_default(), values);
  return code;
}

static tn_code make_states(trial_run *r) {
  tn_sig aux[MAX_OPERANDS];
  if (r->op->n_aux == 0) return TN_OK;
  TN__TRY(infer_states(r, aux));
  for (uint32_t i = 0; i < r->op->n_aux; ++i) {
    const tn_arg *arg = r->op->aux[i];
    const tnm_data *data =
        example_find(r->example->items, r->example->n_items, arg->name, 0);
    tn_array **place = &r->in[r->n_in + i];
    if (data != NULL)
      TN__TRY(make_array(r->rt, stated_dtype(r, arg), data, place));
    else
      TN__TRY(make_initial(r, arg, &aux[i], place));
    TN__TRY(guard_array(r, arg->name, true, place));
  }
  return TN_OK;
}

static const tn_arg *output_of(const trial_run *r, uint32_t i) {
  uint32_t skip = 0;
  return example_arg(r->op->outputs, r->op->n_outputs, i, &skip);
}

static const tn_arg *input_of(const trial_run *r, uint32_t i) {
  uint32_t skip = 0;
  return example_arg(r->op->inputs, r->op->n_inputs, i, &skip);
}

static tn_code make_outputs(trial_run *r) {
  for (uint32_t i = 0; i < r->n_out; ++i) {
    const tn_arg *arg = output_of(r, i);
    if ((arg->flags & TN_ARG_DYNAMIC) == 0)
      TN__TRY(guard_result(r, arg->name, &r->outputs[i], &r->out[i]));
  }
  return TN_OK;
}

/* ----------------------------------------------------------------- watching */

/* Copies the state of the process that the next call must not change. */
static void begin_watch(const trial_run *r) {
  if (r->strict) trial_state_note();
}

/* Reports each change as a finding. */
static void end_watch(const trial_run *r) {
  if (!r->strict) return;
  trial_state_compare(r->turn == TURN_PLAIN);
  trial_memory_check();
}

/* ---------------------------------------------------------------- the calls */

static tn_code call_forward(trial_run *r) {
  const tn_inputs in = {r->n_in + r->op->n_aux, r->in};
  const tn_outputs out = {r->n_out, r->out, NULL};
  trial_name_call("forward");
  begin_watch(r);
  const tn_code code = (r->example->training ? tn_call_train : tn_call)(
      r->rt, r->host, &in, r->params, &out);
  end_watch(r);
  return code;
}

static tn_code run_forward(trial_run *r) {
  TN__TRY(tn_random_seed(r->rt, 1));
  TN__TRY(tn_params_create(r->host, r->example->params, r->example->n_params,
                           &r->params));
  TN__TRY(make_inputs(r));
  TN__TRY(make_states(r));
  TN__TRY(make_outputs(r));
  TN__TRY(call_forward(r));
  for (uint32_t i = 0; i < r->n_out; ++i) {
    const tn_arg *arg = output_of(r, i);
    if (r->out[i] == NULL) continue;
    if (r->turn != TURN_PLAIN) {
      TN__TRY(trial_compare(r, &r->outputs[i], arg->name, r->out[i], "E0203"));
      continue;
    }
    TN__TRY(trial_keep(&r->outputs[i], r->out[i]));
    if ((arg->flags & TN_ARG_HIDDEN) == 0)
      TN__TRY(write_values('o', arg->name, r->out[i], r->outputs[i].values));
  }
  trial_memory_protect();
  return TN_OK;
}

/* ------------------------------------------------------------ the gradients */

static bool is_float(tn_array *array) {
  return array != NULL && tn__dtype_is_float(tn_array_tensor(array)->dtype);
}

/* Makes ones with the shape of an output, if the example states no
 * gradients. */
static tn_code make_ones(trial_run *r, const trial_result *like,
                         tn_array **out) {
  const tnm_data data = {.ndim = like->ndim, .n = like->n};
  tnm_data ones = data;
  double *values = tn__alloc(tn__env_default(), like->n * sizeof *values);
  if (values == NULL) return tn__fail_memory(like->n, "a gradient");
  for (size_t i = 0; i < like->n; ++i) values[i] = 1;
  memcpy(ones.shape, like->shape, sizeof ones.shape);
  ones.values = values;
  const tn_code code = make_array(r->rt, like->dtype, &ones, out);
  tn__free(tn__env_default(), values);
  return code;
}

static tn_code make_heads(trial_run *r) {
  const tnm_example *example = r->example;
  for (uint32_t i = 0; i < r->n_out; ++i) {
    uint32_t skip = 0;
    const tn_arg *arg = example_arg(r->op->outputs, r->op->n_outputs, i, &skip);
    const tnm_data *data =
        example_find(example->grads, example->n_grads, arg->name, skip);
    char name[64];
    (void)snprintf(name, sizeof name, "grad.%s", arg->name);
    if (data != NULL)
      TN__TRY(make_array(r->rt, tn_array_tensor(r->out[i])->dtype, data,
                         &r->heads[i]));
    else if (example->n_grads == 0 && is_float(r->out[i]) &&
             (arg->flags & TN_ARG_HIDDEN) == 0)
      TN__TRY(make_ones(r, &r->outputs[i], &r->heads[i]));
    if (r->heads[i] != NULL) TN__TRY(guard_array(r, name, false, &r->heads[i]));
  }
  return TN_OK;
}

/* Tests whether the gradient of an input is requested: those that the example
 * states or, if it states none, all existing ones. */
static bool is_requested(const trial_run *r, uint32_t i) {
  const tnm_example *example = r->example;
  const tn_gradient *g = r->op->gradient;
  uint32_t skip = 0;
  const tn_arg *arg = example_arg(r->op->inputs, r->op->n_inputs, i, &skip);
  const uint32_t at = i < g->n_inputs ? i : g->n_inputs - 1;
  if (example->n_grads > 0)
    return example_find(example->grads, example->n_grads, arg->name, skip) !=
           NULL;
  return is_float(r->in[i]) && g->n_inputs > 0 && g->inputs[at]->stop == 0;
}

/* The inputs with a requested gradient: bit i for input i. */
static uint64_t list_requested(const trial_run *r) {
  uint64_t inputs = 0;
  for (uint32_t i = 0; i < r->n_in; ++i)
    if (is_requested(r, i)) inputs |= (uint64_t)1 << i;
  return inputs;
}

/* Requests the gradients of these inputs. */
static tn_code call_backward(trial_run *r, uint64_t inputs) {
  tn_req req[MAX_OPERANDS] = {TN_REQ_NULL};
  for (uint32_t i = 0; i < r->n_in; ++i) {
    if ((inputs >> i & 1) == 0) continue;
    req[i] = TN_REQ_WRITE;
    TN__TRY(
        guard_result(r, input_of(r, i)->name, &r->gradients[i], &r->grads[i]));
  }
  const tn_backward call = {.struct_size = sizeof call,
                            .flags = r->example->training ? TN_CALL_TRAIN : 0,
                            .params = r->params,
                            .inputs = {r->n_in + r->op->n_aux, r->in},
                            .outputs = {r->n_out, r->out},
                            .out_grads = {r->n_out, r->heads},
                            .in_grads = {r->n_in, r->grads, req}};
  if (inputs == 0) return TN_OK;
  begin_watch(r);
  const tn_code code = tn_gradient_call(r->rt, r->host, &call);
  end_watch(r);
  return code;
}

/* Keeps or compares the gradients of a call, and releases them. */
static tn_code keep_gradients(trial_run *r, const char *code) {
  tn_code rc = TN_OK;
  for (uint32_t i = 0; i < r->n_in && rc == TN_OK; ++i) {
    const char *name = input_of(r, i)->name;
    char full[64];
    (void)snprintf(full, sizeof full, "grad.%s", name);
    if (r->grads[i] == NULL) continue;
    if (r->turn != TURN_PLAIN)
      rc = trial_compare(r, &r->gradients[i], full, r->grads[i], code);
    else
      rc = trial_keep(&r->gradients[i], r->grads[i]);
    if (rc == TN_OK && r->turn == TURN_PLAIN && r->example->n_grads > 0)
      rc = write_values('g', name, r->grads[i], r->gradients[i].values);
  }
  for (uint32_t i = 0; i < r->n_in; ++i) {
    tn_array_release(r->grads[i]);
    r->grads[i] = NULL;
  }
  return rc;
}

/* Requests some of the gradients; `name` is the name of the call. */
static tn_code call_part(trial_run *r, uint64_t inputs, const char *name) {
  const size_t n_arrays = trial_memory_count();
  trial_name_call(name);
  const tn_code code = call_backward(r, inputs);
  if (code != TN_OK)
    trial_find("E0204", "it fails, and with the others it does not: %s",
               tn_error_text());
  const tn_code rc = keep_gradients(r, "E0204");
  trial_memory_close(n_arrays);
  trial_name_call("gradient");
  return rc;
}

/* Requests each gradient alone, and all but one. */
static tn_code call_parts(trial_run *r) {
  const uint64_t all = list_requested(r);
  for (uint32_t i = 0; i < r->n_in; ++i) {
    const uint64_t one = (uint64_t)1 << i, others = all & ~one;
    const char *input = input_of(r, i)->name;
    char name[128];
    if ((all & one) == 0) continue;
    (void)snprintf(name, sizeof name, "gradient of `%s` alone", input);
    TN__TRY(call_part(r, one, name));
    if ((others & (others - 1)) == 0) continue; /* that one has its own call */
    (void)snprintf(name, sizeof name, "gradient without that of `%s`", input);
    TN__TRY(call_part(r, others, name));
  }
  return TN_OK;
}

static bool has_gradient(const trial_run *r) {
  const tn_gradient *g = r->op->gradient;
  if (r->example->n_grads > 0) return true;
  return r->strict && g != NULL && g->kind != TN_GRADIENT_NONE;
}

/* An example without gradients may have a type without gradients, or call a
 * missing operator: then the first turn finds none to compare. */
static tn_code run_backward(trial_run *r) {
  trial_name_call("gradient");
  if (!has_gradient(r) || (r->turn != TURN_PLAIN && !r->has_gradient))
    return TN_OK;
  TN__TRY(make_heads(r));
  const tn_code code = call_backward(r, list_requested(r));
  if (code != TN_OK && r->turn == TURN_PLAIN && r->example->n_grads == 0)
    return TN_OK;
  if (code != TN_OK) return code;
  r->has_gradient = true;
  TN__TRY(keep_gradients(r, "E0203"));
  return is_guarded(r) ? call_parts(r) : TN_OK;
}

/* -------------------------------------------------------------------- turns */

static void release_arrays(trial_run *r) {
  for (size_t i = 0; i < MAX_OPERANDS; ++i) {
    tn_array **all[] = {&r->in[i], &r->out[i], &r->heads[i], &r->grads[i]};
    for (size_t k = 0; k < sizeof all / sizeof *all; ++k) {
      tn_array_release(*all[k]);
      *all[k] = NULL;
    }
  }
  tn_params_release(r->params);
  r->params = NULL;
  trial_memory_close(0);
}

static tn_code run_turn(trial_run *r) {
  tn_code code = run_forward(r);
  if (code == TN_OK) code = run_backward(r);
  release_arrays(r);
  return code;
}

/* An example may hold for other types than the usual ones only, as one of
 * `bit_cast` does. If no kernel takes the call, it is tried in each type of the
 * first variable, storage types before others, as an author states numbers of
 * few bits for them alone. The usual types come last again, for the reason. */
static tn_code run_first_turn(trial_run *r) {
  r->turn = TURN_PLAIN;
  const tn_code code = run_turn(r);
  if (code != TN_UNSUPPORTED || r->op->n_dtype_vars == 0) return code;
  for (size_t i = TN__N_DTYPES; i-- > 0;) {
    if ((r->op->dtype_vars[0]->allowed >> i & 1) == 0) continue;
    r->type = tn__dtype_at(i);
    if (run_turn(r) == TN_OK) return TN_OK;
  }
  r->type = TN_DTYPE_UNKNOWN;
  return run_turn(r);
}

/* The failure of a later turn is a finding: the first one was fine. */
static tn_code run_turns(trial_run *r) {
  TN__TRY(run_first_turn(r));
  for (int turn = TURN_END; r->strict && turn < N_TURNS; ++turn) {
    r->turn = (trial_turn)turn;
    if (run_turn(r) != TN_OK)
      trial_find("E0203", "it fails in a later call: %s", tn_error_text());
  }
  return TN_OK;
}

tn_code trial_compute(trial_run *r) {
  r->n_in = example_length(r->example, r->op->inputs, r->op->n_inputs);
  r->n_out = example_length(r->example, r->op->outputs, r->op->n_outputs);
  if (r->n_in + r->op->n_aux > MAX_OPERANDS || r->n_out > MAX_OPERANDS)
    return tn__fail(TN_UNSUPPORTED, "more than %d operands", MAX_OPERANDS);
  const tn_code code = run_turns(r);
  for (size_t i = 0; i < MAX_OPERANDS; ++i) {
    trial_result_free(&r->outputs[i]);
    trial_result_free(&r->gradients[i]);
  }
  return code;
}
