/* SPDX-License-Identifier: Apache-2.0
 * batch_slots.c: the arrays of a batch, and the work that fills them: a job of
 * the host, then a call of the operator that decodes, if there is one, then
 * copies to the device.
 */
#include "batches.h"

/* --------------------------------------------------------------------- work */

/* The job. */
static tn_code fill_slot(void *arg) {
  tn__batch_slot *s = arg;
  for (uint32_t i = 0; i < s->n_host; ++i)
    s->to[i] = tn_array_tensor(s->host[i])->data;
  return s->source->fill(s->source, &(tn__filling){.n = s->n,
                                                   .index = s->index,
                                                   .key = s->key,
                                                   .to = s->to,
                                                   .room = &s->room});
}

/* Pushes everything that follows the job. */
static tn_code push_rest(tn__batch_slot *s) {
  if (s->decode) TN__TRY(tn_call_run(s->decode));
  for (uint32_t i = 0; i < s->n_arrays; ++i)
    if (s->arrays[i] != s->staged[i])
      TN__TRY(tn_array_copy(s->arrays[i], s->staged[i]));
  return TN_OK;
}

void tn__batch_slot_drain(tn__batch_slot *s) {
  const tn_code rc = tn_variable_wait_write(s->filled);
  (void)rc; /* a failure of the job; nobody wants the batch */
}

tn_code tn__batch_slot_push(tn__batch_slot *s) {
  TN__TRY(tn_operation_push(s->fill));
  const tn_code rc = push_rest(s);
  /* The job reads members of the slot, so it must end before they change. */
  if (rc != TN_OK) tn__batch_slot_drain(s);
  return rc;
}

tn_code tn__batch_slot_wait(tn__batch_slot *s) {
  TN__TRY(tn_variable_wait(s->filled));
  return s->decode ? tn_array_wait(s->decoded) : TN_OK;
}

/* ------------------------------------------------------------------- arrays */

static bool is_cpu(tn_place place) {
  return place.device_type == TN_DEVICE_CPU;
}

static tn_code create_array(tn_runtime *rt, const tn__batch_field *field,
                            const tn_place *pinned_for, tn_array **out) {
  const tn_spec spec = {field->dtype, field->ndim, field->shape};
  return pinned_for ? tn_array_create_pinned(rt, &spec, *pinned_for, out)
                    : tn_array_create(rt, &spec, out);
}

static tn_code allocate_lists(tn__batch_slot *s) {
  const size_t n = s->n_host + (size_t)1;
  const size_t bytes = n * sizeof(void *);
  s->host = tn__zalloc(s->env, bytes);
  s->to = tn__zalloc(s->env, bytes);
  s->arrays = tn__zalloc(s->env, bytes);
  s->staged = tn__zalloc(s->env, bytes);
  s->index = tn__zalloc(s->env, s->n * sizeof *s->index);
  if (!s->host || !s->to || !s->arrays || !s->staged || !s->index)
    return tn__fail_memory(4 * bytes + s->n * sizeof *s->index, "a batch");
  return TN_OK;
}

/* Prepares the call of the operator that decodes. */
static tn_code prepare_decoding(tn_runtime *rt, tn__batch_slot *s,
                                const tn_place *pinned_for) {
  tn_sig in[TN__N_DECODED], result = {.dtype = TN_DTYPE_UNKNOWN, .ndim = -1};
  tn_signature io = {
      .n_in = TN__N_DECODED, .n_out = 1, .in = in, .out = &result};
  const tn__source *source = s->source;
  for (uint32_t i = 0; i < TN__N_DECODED; ++i) {
    in[i] = (tn_sig){.dtype = source->fields[i].dtype, .ndim = 1};
    in[i].shape[0] = source->fields[i].shape[0];
  }
  TN__TRY(tn_operator_infer(source->decode, source->decode_params, &io));
  tn__batch_field field = {result.dtype, result.ndim, {0}};
  for (int32_t d = 0; d < result.ndim; ++d) field.shape[d] = result.shape[d];
  TN__TRY(create_array(rt, &field, pinned_for, &s->decoded));
  return tn_call_prepare(
      rt,
      &(tn_preparation){.struct_size = sizeof(tn_preparation),
                        .op = source->decode,
                        .params = source->decode_params,
                        .inputs = {TN__N_DECODED, s->host},
                        .outputs = {1, &s->decoded, NULL}},
      &s->decode);
}

/* Creates the arrays that the job fills, and lists those of the batch. */
static tn_code create_staged(tn_runtime *rt, tn__batch_slot *s,
                             const tn_place *pinned_for) {
  const uint32_t n_hidden = s->source->decode ? TN__N_DECODED : 0;
  for (uint32_t i = 0; i < s->n_host; ++i)
    TN__TRY(create_array(rt, &s->source->fields[i],
                         i < n_hidden ? NULL : pinned_for, &s->host[i]));
  if (s->source->decode) {
    TN__TRY(prepare_decoding(rt, s, pinned_for));
    s->staged[s->n_arrays++] = s->decoded;
  }
  for (uint32_t i = n_hidden; i < s->n_host; ++i)
    s->staged[s->n_arrays++] = s->host[i];
  return TN_OK;
}

static tn_code create_arrays(tn_runtime *rt, tn__batch_slot *s,
                             tn_place place) {
  TN__TRY(create_staged(rt, s, is_cpu(place) ? NULL : &place));
  for (uint32_t i = 0; i < s->n_arrays; ++i) {
    const tn_tensor *t = tn_array_tensor(s->staged[i]);
    const tn_spec spec = {t->dtype, t->ndim, t->shape};
    if (is_cpu(place))
      s->arrays[i] = tn_array_retain(s->staged[i]);
    else
      TN__TRY(tn_array_create_on(rt, &spec, place, &s->arrays[i]));
  }
  return TN_OK;
}

/* ---------------------------------------------------------------------- job */

/* Fills the list of variables of the job, which has room for them. Those of
 * arrays are the caller's. */
static tn_code list_accesses(const tn__batch_slot *s, tn_access *list) {
  list[0] = (tn_access){s->filled, TN_OVERWRITE};
  for (uint32_t i = 0; i < s->source->n_read; ++i)
    list[1 + i] = (tn_access){s->source->read[i], TN_READ};
  for (uint32_t i = 0; i < s->n_host; ++i) {
    tn_access *next = &list[1 + s->source->n_read + i];
    next->mode = TN_OVERWRITE;
    TN__TRY(tn_array_variable(s->host[i], &next->variable));
  }
  return TN_OK;
}

static tn_code create_job(tn_runtime *rt, tn__batch_slot *s) {
  const uint32_t n_before = 1 + s->source->n_read, n = n_before + s->n_host;
  TN__TRY(tn_variable_create(rt, NULL, NULL, &s->filled));
  tn_access *list = tn__zalloc(s->env, n * sizeof *list);
  if (!list) return tn__fail_memory(n * sizeof *list, "the job of a batch");
  tn_code rc = list_accesses(s, list);
  if (rc == TN_OK)
    rc = tn_operation_create(rt,
                             &(tn_job){.struct_size = sizeof(tn_job),
                                       .name = "read a batch",
                                       .run = fill_slot,
                                       .arg = s,
                                       .access = list,
                                       .n_access = n},
                             &s->fill);
  for (uint32_t i = n_before; i < n; ++i) tn_variable_release(list[i].variable);
  tn__free(s->env, list);
  return rc;
}

/* --------------------------------------------------------------------- life */

tn_code tn__batch_slot_init(tn_runtime *rt, const tn__source *source,
                            const tn_data_options *options,
                            tn__batch_slot *out) {
  *out = (tn__batch_slot){.env = source->env,
                          .source = source,
                          .n = options->batch,
                          .n_host = source->n_fields};
  TN__TRY(allocate_lists(out));
  TN__TRY(create_arrays(rt, out, options->place));
  return create_job(rt, out);
}

void tn__batch_slot_deinit(tn__batch_slot *s) {
  tn_operation_release(s->fill);
  tn_prepared_release(s->decode);
  for (uint32_t i = 0; s->arrays && i < s->n_arrays; ++i)
    tn_array_release(s->arrays[i]);
  for (uint32_t i = 0; s->host && i < s->n_host; ++i)
    tn_array_release(s->host[i]);
  tn_array_release(s->decoded);
  tn_variable_release(s->filled);
  tn__free(s->env, s->host);
  tn__free(s->env, s->to);
  tn__free(s->env, s->arrays);
  tn__free(s->env, s->staged);
  tn__free(s->env, s->index);
  tn__free(s->env, s->room.data);
}
