/* SPDX-License-Identifier: Apache-2.0
 * kv_update.c: updates the value of a key by the sum of a push: by assignment,
 * by a function of the host, or by an operator with states.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store.h"

enum { N_INPUTS = 2 };

bool tn__kv_has_updater(const tn_kvstore *kv) {
  return kv->updater.update || kv->updater.op;
}

/* ------------------------------------------------------------- the operator */

static bool declares_step(const tn_op *desc) {
  for (uint32_t i = 0; i < desc->n_params; ++i)
    if (strcmp(desc->params[i]->name, "step") == 0 &&
        desc->params[i]->type == TN_FIELD_INT &&
        (desc->params[i]->flags & TN_FIELD_DYNAMIC))
      return true;
  return false;
}

/* Parses the parameters with a number of the step after them. */
static tn_code parse_step(const tn__kv_updater *updater, int64_t step,
                          tn_params **out) {
  const size_t bytes = strlen(updater->text) + 32;
  char *text = malloc(bytes);
  if (!text) return tn__kv_fail_memory("tn_kvstore");
  (void)snprintf(text, bytes, "%s step=%" PRId64, updater->text, step);
  const tn_code rc = tn_params_parse(updater->op, text, out);
  free(text);
  return rc;
}

static tn_code check_form(const tn_kvstore *kv, const tn__kv_updater *updater) {
  uint32_t n = 0, n_visible = 0;
  const tn_op *desc = tn_operator_desc(updater->op);
  const bool fits = desc->n_inputs == N_INPUTS &&
                    tn_operator_outputs(updater->op, updater->params, N_INPUTS,
                                        &n, &n_visible) == TN_OK;
  if (fits && n_visible == 1) return TN_OK;
  return tn_fail(TN_INVALID,
                 "%s: %s has another form than an updater; use an operator "
                 "with two inputs, the value and the sum, and one output, as "
                 "optim.sgd_update",
                 kv->function, tn_operator_name(updater->op));
}

static tn_code read_params(const tn_kvstore *kv, const char *params,
                           tn__kv_updater *out) {
  tn_params *with_step = NULL;
  const size_t bytes = strlen(params) + 1;
  out->text = malloc(bytes);
  if (!out->text) return tn__kv_fail_memory(kv->function);
  memcpy(out->text, params, bytes);
  TN__TRY(tn_params_parse(out->op, params, &out->params));
  TN__TRY(check_form(kv, out));
  const tn_op *desc = tn_operator_desc(out->op);
  out->n_states = desc->n_aux;
  if (!declares_step(desc)) return TN_OK;
  /* A second `step` is an error, so the host has set it. */
  const tn_code rc = parse_step(out, 1, &with_step);
  if (rc == TN_OUT_OF_MEMORY) return rc;
  if (rc != TN_OK) return TN_OK;
  tn_params_release(out->params);
  out->params = with_step;
  out->has_step = true;
  out->step = 1;
  return TN_OK;
}

tn_code tn__kv_updater_init(const tn_kvstore *kv, const char *name,
                            const char *params, tn__kv_updater *out) {
  *out = (tn__kv_updater){0};
  TN__TRY(tn_operator_get(kv->rt, name, &out->op));
  const tn_code rc = read_params(kv, params ? params : "", out);
  if (rc != TN_OK) tn__kv_updater_deinit(out);
  return rc;
}

void tn__kv_updater_deinit(tn__kv_updater *updater) {
  tn_params_release(updater->params);
  free(updater->text);
  if (updater->drop) updater->drop(updater->ctx);
  *updater = (tn__kv_updater){0};
}

/* ------------------------------------------------------------------- states */

void tn__kv_states_release(tn_array **states, uint32_t n) {
  for (uint32_t k = 0; states && k < n; ++k) tn_array_release(states[k]);
  free(states);
}

/* Writes one number to all elements. */
static tn_code fill_array(tn_runtime *rt, tn_array *array, double number) {
  tn_array *one = NULL, *all = NULL;
  const tn_tensor *t = tn_array_tensor(array);
  tn_code rc = tn_array_create(rt, &(tn_spec){TN_F64, 0, NULL}, &one);
  if (rc == TN_OK) rc = tn_array_set(one, &number, sizeof number);
  if (rc == TN_OK) rc = tn_array_broadcast(one, t->ndim, t->shape, &all);
  if (rc == TN_OK) rc = tn_array_copy(array, all);
  tn_array_release(all);
  tn_array_release(one);
  return rc;
}

/* Creates a state with its first value. */
static tn_code create_state(const tn_kvstore *kv, const tn__kv_entry *entry,
                            const tn_arg *arg, const tn_sig *sig,
                            tn_array **out) {
  const tn_spec spec = {sig->dtype, sig->ndim, sig->shape};
  TN__TRY(
      tn_array_create_on(kv->rt, &spec, tn__kv_place_of(entry->local), out));
  const tn_code rc = arg->initial
                         ? fill_array(kv->rt, *out, strtod(arg->initial, NULL))
                         : tn_array_copy(*out, entry->local);
  if (rc == TN_OK) return rc;
  tn_array_release(*out);
  *out = NULL;
  return rc;
}

static void read_sig(const tn_array *array, tn_sig *out) {
  const tn_tensor *t = tn_array_tensor(array);
  out->dtype = t->dtype;
  out->ndim = t->ndim;
  memcpy(out->shape, t->shape, (size_t)t->ndim * sizeof *t->shape);
}

/* Infers the shapes of the states, in sigs[3] to sigs[3 + n_states - 1]. */
static tn_code infer_states(const tn_kvstore *kv, const tn__kv_entry *entry,
                            uint32_t n_out, tn_sig *sigs) {
  const tn__kv_updater *updater = &kv->updater;
  tn_signature io = {.n_in = N_INPUTS,
                     .n_out = n_out,
                     .n_aux = updater->n_states,
                     .in = sigs,
                     .out = sigs + N_INPUTS,
                     .aux = sigs + N_INPUTS + n_out};
  for (uint32_t i = 0; i < N_INPUTS; ++i) read_sig(entry->local, &sigs[i]);
  for (uint32_t i = N_INPUTS; i < N_INPUTS + n_out + updater->n_states; ++i)
    sigs[i] = (tn_sig){.dtype = TN_DTYPE_UNKNOWN, .ndim = -1};
  return tn_operator_infer(updater->op, updater->params, &io);
}

tn_code tn__kv_states_create(const tn_kvstore *kv, const tn__kv_entry *entry,
                             tn_array ***out) {
  const tn__kv_updater *updater = &kv->updater;
  const tn_op *desc = tn_operator_desc(updater->op);
  uint32_t n_out = 0;
  TN__TRY(tn_operator_outputs(updater->op, updater->params, N_INPUTS, &n_out,
                              NULL));
  const uint32_t first = N_INPUTS + n_out;
  tn_sig *sigs = calloc(first + updater->n_states, sizeof *sigs);
  tn_array **states = calloc(updater->n_states + 1u, sizeof(tn_array *));
  tn_code rc = sigs && states ? infer_states(kv, entry, n_out, sigs)
                              : tn__kv_fail_memory(kv->function);
  for (uint32_t k = 0; k < updater->n_states && rc == TN_OK; ++k)
    rc = create_state(kv, entry, desc->aux[k], &sigs[first + k], &states[k]);
  free(sigs);
  if (rc == TN_OK)
    *out = states;
  else
    tn__kv_states_release(states, updater->n_states);
  return rc;
}

/* ------------------------------------------------------------------- update */

/* Sets the number of the step for the next update of a key. Keys mostly have
 * equal numbers, so the parameters are parsed once for all of them. */
static tn_code set_step(tn__kv_updater *updater, int64_t step) {
  tn_params *params = NULL;
  if (!updater->has_step || updater->step == step) return TN_OK;
  TN__TRY(parse_step(updater, step, &params));
  tn_params_release(updater->params);
  updater->params = params;
  updater->step = step;
  return TN_OK;
}

void tn__kv_drop_call(tn__kv_entry *entry) {
  tn_prepared_release(entry->call);
  entry->call = NULL;
  entry->pushed = NULL;
}

/* Calls the operator with parameters of this step. */
static tn_code call_once(tn_kvstore *kv, tn__kv_entry *entry,
                         const tn_inputs *inputs) {
  tn__kv_updater *updater = &kv->updater;
  TN__TRY(set_step(updater, entry->n_updates + 1));
  return tn_call(kv->rt, updater->op, inputs, updater->params,
                 &(const tn_outputs){1, &entry->local, NULL});
}

static tn_code prepare_call(tn_kvstore *kv, tn__kv_entry *entry,
                            const tn_inputs *inputs) {
  if (entry->call) return TN_OK;
  return tn_call_prepare(
      kv->rt,
      &(tn_preparation){.struct_size = sizeof(tn_preparation),
                        .op = kv->updater.op,
                        .params = kv->updater.params,
                        .inputs = *inputs,
                        .outputs = {1, &entry->local, NULL}},
      &entry->call);
}

/* Calls an operator with the parameter `step`. A call with a new step checks
 * and infers everything again, which takes 20 us, and a prepared one changes
 * the number. The prepared one keeps its arrays, so it is made when an array is
 * pushed for the second time. tn_call_set waits for the last run, so it is used
 * after the last update alone. */
static tn_code call_with_step(tn_kvstore *kv, const tn__kv_group *group,
                              const tn_inputs *inputs) {
  tn__kv_entry *entry = group->entry;
  const bool is_repeated = entry->pushed == group->received;
  if (!is_repeated) tn__kv_drop_call(entry);
  entry->pushed = group->received;
  if (!is_repeated || tn_array_wait_for(entry->local, 0) == TN_BUSY)
    return call_once(kv, entry, inputs);
  const tn_value value = tn_value_int("step", entry->n_updates + 1);
  TN__TRY(prepare_call(kv, entry, inputs));
  TN__TRY(tn_call_set(entry->call, &value));
  return tn_call_run(entry->call);
}

static tn_code call_operator(tn_kvstore *kv, const tn__kv_group *group) {
  const tn__kv_updater *updater = &kv->updater;
  tn__kv_entry *entry = group->entry;
  tn_code rc = TN_OK;
  if (!entry->states) rc = tn__kv_states_create(kv, entry, &entry->states);
  if (rc != TN_OK) return tn__kv_settle(kv, &entry->key, NULL, rc);
  const size_t n = N_INPUTS + updater->n_states;
  tn_array **arrays = malloc(n * sizeof *arrays);
  if (!arrays) return tn__kv_fail_memory(kv->function);
  arrays[0] = entry->local;
  arrays[1] = group->received;
  memcpy(arrays + N_INPUTS, entry->states, updater->n_states * sizeof *arrays);
  const tn_inputs inputs = {n, arrays};
  rc = updater->has_step
           ? call_with_step(kv, group, &inputs)
           : tn_call(kv->rt, updater->op, &inputs, updater->params,
                     &(const tn_outputs){1, &entry->local, NULL});
  rc = tn__kv_settle(kv, &entry->key, entry->local, rc);
  free(arrays);
  if (rc == TN_OK) ++entry->n_updates;
  return rc;
}

tn_code tn__kv_update(tn_kvstore *kv, const tn__kv_group *group) {
  const tn__kv_updater *updater = &kv->updater;
  tn__kv_entry *entry = group->entry;
  tn_code rc = TN_OK;
  if (updater->op) return call_operator(kv, group);
  if (updater->update)
    rc = updater->update(updater->ctx, &entry->key, group->received,
                         entry->local);
  else if (group->received != entry->local)
    rc = tn_array_copy(entry->local, group->received);
  return tn__kv_settle(kv, &entry->key, entry->local, rc);
}
