/* SPDX-License-Identifier: Apache-2.0
 * call_run.c: runs a planned call when the engine allows it. It claims
 * workspaces and random blocks, fills temporaries, calls the kernel, and writes
 * temporaries back to their arrays.
 */
#include "call.h"

tn_code tn__call_name_memory_failure(const tn__call_state *s, tn_code rc) {
  if (rc != TN_OUT_OF_MEMORY) return rc;
  return tn__fail(rc, "%s: %s", s->op->name, tn_error_text());
}

/* ---------------------------------------------------------------- resources */

void tn__launch_set_workspaces(tn__launch *l, const tn__recipe *recipe,
                               void *memory) {
  for (uint32_t i = 0; i < recipe->plan.n_ws; ++i) {
    uintptr_t align = (uintptr_t)recipe->plan.ws[i].align;
    uintptr_t at = (uintptr_t)memory + recipe->ws_offset[i];
    l->ws[i] = (void *)((at + align - 1) & ~(align - 1));
    l->ws_bytes[i] = recipe->plan.ws[i].bytes;
  }
  l->frame.n_ws = recipe->plan.n_ws;
  l->frame.ws = l->ws;
  l->frame.ws_bytes = l->ws_bytes;
}

/* The streams of a call follow one another, so that no two calls of a runtime
 * draw the same blocks. */
void tn__launch_claim_random(tn__launch *l, const tn__recipe *recipe) {
  uint32_t n = recipe->n_random;
  uint64_t blocks = recipe->plan.random_blocks;
  if (n == 0) return;
  uint64_t first = tn__random_claim(&l->caller->random, n * blocks);
  for (uint32_t i = 0; i < n; ++i) {
    l->random[i] = (tn_random){.struct_size = sizeof(tn_random),
                               .key = atomic_load(&l->caller->random.key),
                               .offset = first + i * blocks};
    l->random_list[i] = &l->random[i];
  }
  l->run.n_random = n;
  l->run.random = l->random_list;
}

/* The params struct and the offset of each random stream of a recorded call are
 * in memory of the device. */
static size_t round_to_16(size_t bytes) {
  return (bytes + 15) / 16 * 16;
}

size_t tn__call_change_params_bytes(const tn__call_state *s) {
  const tn_op *desc = s->op->desc;
  for (uint32_t i = 0; s->own_params && i < desc->n_params; ++i)
    if (desc->params[i]->flags & TN_FIELD_DYNAMIC)
      return round_to_16(desc->params_size);
  return 0;
}

size_t tn__call_change_bytes(const tn__call_state *s) {
  return tn__call_change_params_bytes(s) +
         round_to_16(s->recipe->n_random * sizeof(uint64_t));
}

static void set_changes(tn__call_state *s) {
  tn__launch *l = &s->launch;
  const size_t n = tn__call_change_params_bytes(s);
  const uint64_t *offsets = (const uint64_t *)(s->changes + n);
  for (uint32_t i = 0; i < s->recipe->n_random; ++i) {
    l->random[i] = (tn_random){.struct_size = sizeof(tn_random),
                               .key = atomic_load(&s->caller->random.key),
                               .device_offset = offsets + i};
    l->random_list[i] = &l->random[i];
  }
  l->run.n_random = s->recipe->n_random;
  l->run.random = l->random_list;
  l->frame.ws = l->ws;
  l->ws[l->frame.n_ws] = n > 0 ? (void *)(uintptr_t)s->changes : NULL;
}

static tn_code resources_take(tn__call_state *s) {
  const tn__recipe *r = s->recipe;
  void *memory = s->ws_memory;
  if (!s->changes) tn__launch_claim_random(&s->launch, r);
  if (r->plan.n_ws > 0) {
    if (!memory && r->ws_total > 0)
      TN__TRY(tn__scratch_reserve(s->space, r->ws_total, &memory));
    tn__launch_set_workspaces(&s->launch, r, memory);
  }
  if (s->changes) set_changes(s);
  return TN_OK;
}

/* -------------------------------------------------------------------- place */

/* Finds the memory of an input or a state for the kernel: its own, or a dense
 * copy. */
static tn_code place_read(const tn__operand *operand, const tn__site *site,
                          void **out) {
  tn_tensor tensor = tn__array_tensor_with_data(operand->array);
  if (operand->temp) {
    TN__TRY(tn__block_materialise(operand->temp->block));
    tn_tensor dense = tn__array_tensor_with_data(operand->temp);
    TN__TRY(tn__elements_copy(site, &dense, &tensor));
    tensor.data = dense.data;
  }
  *out = tensor.data;
  return TN_OK;
}

static tn_code place_input(tn__call_state *s, const tn__site *site,
                           uint32_t i) {
  const tn__operand *operand = &s->in_info[i];
  if (!tn__input_is_read(s->in_flags[i])) return TN_OK;
  if (operand->before == TN__BEFORE_ZERO) {
    tn_tensor tensor = tn__array_tensor_with_data(operand->array);
    TN__TRY(tn__elements_zero(site, &tensor));
  }
  return place_read(operand, site, &s->in[i].data);
}

static tn_code place_output(tn__call_state *s, const tn__site *site,
                            uint32_t i) {
  const tn__operand *operand = &s->out_info[i];
  if (s->req[i] == TN_REQ_NULL || operand->dynamic) return TN_OK;
  if (operand->temp) TN__TRY(tn__block_materialise(operand->temp->block));
  tn_tensor tensor = tn__array_tensor_with_data(operand->temp ? operand->temp
                                                              : operand->array);
  s->out[i].data = tensor.data;
  if (operand->before == TN__BEFORE_ZERO)
    TN__TRY(tn__elements_zero(site, &tensor));
  if (operand->before != TN__BEFORE_COPY) return TN_OK;
  tn_tensor from =
      tn__array_tensor_with_data(s->in_info[operand->source].array);
  TN__TRY(tn__elements_copy(site, &tensor, &from));
  if (s->req[i] == TN_REQ_INPLACE) s->in[s->alias[i]].data = tensor.data;
  return TN_OK;
}

static tn_code place_operands(tn__call_state *s, const tn__site *site) {
  const tn_frame *f = &s->launch.frame;
  for (uint32_t i = 0; i < f->n_in; ++i) TN__TRY(place_input(s, site, i));
  for (uint32_t i = 0; i < f->n_out; ++i) TN__TRY(place_output(s, site, i));
  for (uint32_t i = 0; i < f->n_aux; ++i)
    TN__TRY(place_read(&s->aux_info[i], site, &s->aux[i].data));
  return TN_OK;
}

/* Copies temporaries to their arrays. Workers may share a sum. Other operands
 * are no larger than those that the kernel has just processed alone. */
static tn_code write_back(const tn__call_state *s, const tn__site *site) {
  const tn__site shared = {site->device, site->token, s->device->env->engine};
  const uint32_t n = s->launch.frame.n_out + s->launch.frame.n_aux;
  for (uint32_t i = 0; i < n; ++i) { /* states follow the outputs */
    const tn__operand *operand = &s->out_info[i];
    if (operand->after == TN__AFTER_NOTHING) continue;
    tn_tensor to = tn__array_tensor_with_data(operand->array),
              from = tn__array_tensor_with_data(operand->temp);
    if (operand->after == TN__AFTER_ADD)
      TN__TRY(tn__elements_add(site, &to, &from));
    else if (operand->after == TN__AFTER_COPY)
      TN__TRY(tn__elements_copy(site, &to, &from));
    else
      TN__TRY(tn__elements_sum(&shared, &to, &from,
                               operand->after == TN__AFTER_SUM_ADD));
  }
  return TN_OK;
}

/* ------------------------------------------------------------------ compute */

tn_code tn__launch_compute(tn__launch *l) {
  l->slot.text[0] = '\0';
  const tn__floating floating = tn__floating_get();
  tn_code rc = l->kernel->desc->compute(&l->frame);
  tn__floating_keep(&floating);
  return rc ? tn__later_check(l, rc) : TN_OK;
}

static tn_code compute_call(tn__call_state *s, tn__token *token) {
  s->launch.slot.set_shape = tn__call_set_shape;
  s->launch.slot.ctx = s;
  const tn_code rc = s->launch.kernel->desc->flags & TN_KERNEL_LATER
                         ? tn__later_compute(s, token)
                         : tn__launch_compute(&s->launch);
  s->launch.slot.set_shape = NULL;
  return rc;
}

tn_code tn__call_finish(tn__call_state *s, tn__token *token) {
  const tn__site site = {s->device, token, NULL};
  if (s->later.code)
    return tn__kernel_fail(&s->launch, s->later.code, "compute");
  TN__TRY(tn__call_check_shapes_set(s));
  return write_back(s, &site);
}

/* Calls the kernel with TN_CALL_TOLD. The engine has the error. */
static tn_code tell_kernel(tn__call_state *s) {
  s->launch.frame.flags |= TN_CALL_TOLD;
  const tn__floating floating = tn__floating_get();
  (void)s->launch.kernel->desc->compute(&s->launch.frame);
  tn__floating_keep(&floating);
  s->launch.frame.flags &= ~TN_CALL_TOLD;
  return TN_OK;
}

tn_code tn__call_compute(tn__call_state *s, tn__token *token) {
  if (tn__is_told()) return tell_kernel(s);
  if (token) s->launch.run.stream = tn__token_stream(token);
  const tn__site site = {s->device, token, NULL};
  tn_code rc = resources_take(s);
  if (!rc) rc = place_operands(s, &site);
  if (rc) return tn__call_name_memory_failure(s, rc);
  TN__TRY(compute_call(s, token));
  return tn__call_finish(s, token);
}
