/* SPDX-License-Identifier: Apache-2.0
 * run.c: a planned call whose turn it is: workspaces and random blocks are
 * taken, operands are placed, the kernel computes, results are handed back.
 */
#include "call.h"

/* ---------------------------------------------------------------- messages */

static void say_operands(tn_code code, const tn__operand *operands,
                         const tn_tensor *tensors, uint32_t n) {
  char text[TN__OPERAND_TEXT];
  for (uint32_t i = 0; i < n; ++i) {
    if (tensors[i].ndim < 0) continue;
    tn__fail_more(code, "; %s", tn__operand_text(&operands[i], text));
    tn__fail_tensor(code, tensors[i].dtype, tensors[i].ndim, tensors[i].shape);
  }
}

/* The plugin's own words come first, then whose they are and what it was
 * given. */
tn_code tn__kernel_fail(tn__launch *l, tn_code code, const char *stage) {
  const tn_plugin *plugin = l->kernel->plugin->entry;
  const tn_frame *f = &l->frame;
  bool named = code < 0 && code >= TN_INTERNAL;
  tn_code rc = named ? code : TN_PLUGIN;
  tn__fail(rc, "%s: %s", l->op->name,
           l->slot.text[0] ? l->slot.text : "the kernel gave no reason");
  if (named && !l->slot.text[0]) tn__fail_more(rc, " (%s)", tn_code_name(rc));
  if (!named) tn__fail_more(rc, " (it returned %d, which is no code)", code);
  tn__fail_more(rc, "; in %s of kernel %s, plugin %s release %u", stage,
                l->kernel->desc->id, plugin->name, (unsigned)plugin->release);
  say_operands(rc, l->operands, f->in, f->n_in);
  say_operands(rc, l->operands + f->n_in, f->out, f->n_out);
  say_operands(rc, l->operands + f->n_in + f->n_out, f->aux, f->n_aux);
  return rc;
}

tn_code tn__work_short(const tn__work *w, tn_code rc) {
  if (rc != TN_OUT_OF_MEMORY) return rc;
  return tn__fail(rc, "%s: %s", w->op->name, tn_error_text());
}

/* -------------------------------------------------------------- resources */

void tn__launch_workspaces(tn__launch *l, const tn__recipe *recipe,
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
void tn__launch_random(tn__launch *l, const tn__recipe *recipe) {
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

static tn_code resources_take(tn__work *w) {
  const tn__recipe *r = w->recipe;
  void *memory = w->ws_memory;
  if (!w->changes) tn__launch_random(&w->launch, r);
  if (r->plan.n_ws > 0) {
    if (!memory && r->ws_total > 0)
      TN__TRY(tn__scratch_reserve(w->space, r->ws_total, &memory));
    tn__launch_workspaces(&w->launch, r, memory);
  }
  if (w->changes) tn__launch_changes(w);
  return TN_OK;
}

/* ------------------------------------------------------------------ place */

tn_tensor tn__array_placed(const tn_array *array) {
  tn_tensor tensor = tn__array_metadata(array);
  tensor.data = tn__array_data(array);
  return tensor;
}

/* The memory that the kernel gets of an input or a state: its own, or a dense
 * copy. */
static tn_code place_read(const tn__operand *operand, const tn__site *site,
                          void **out) {
  tn_tensor tensor = tn__array_placed(operand->array);
  if (operand->temp) {
    TN__TRY(tn__block_materialise(operand->temp->block));
    tn_tensor dense = tn__array_placed(operand->temp);
    TN__TRY(tn__elements_copy(site, &dense, &tensor));
    tensor.data = dense.data;
  }
  *out = tensor.data;
  return TN_OK;
}

static tn_code place_input(tn__work *w, const tn__site *site, uint32_t i) {
  const tn__operand *operand = &w->in_info[i];
  if (!tn__input_is_read(w->in_flags[i])) return TN_OK;
  if (operand->before == TN__BEFORE_ZERO) {
    tn_tensor tensor = tn__array_placed(operand->array);
    TN__TRY(tn__elements_zero(site, &tensor));
  }
  return place_read(operand, site, &w->in[i].data);
}

static tn_code place_output(tn__work *w, const tn__site *site, uint32_t i) {
  const tn__operand *operand = &w->out_info[i];
  if (w->req[i] == TN_REQ_NULL || operand->dynamic) return TN_OK;
  if (operand->temp) TN__TRY(tn__block_materialise(operand->temp->block));
  tn_tensor tensor =
      tn__array_placed(operand->temp ? operand->temp : operand->array);
  w->out[i].data = tensor.data;
  if (operand->before == TN__BEFORE_ZERO)
    TN__TRY(tn__elements_zero(site, &tensor));
  if (operand->before != TN__BEFORE_COPY) return TN_OK;
  tn_tensor from = tn__array_placed(w->in_info[operand->source].array);
  TN__TRY(tn__elements_copy(site, &tensor, &from));
  if (w->req[i] == TN_REQ_INPLACE) w->in[w->alias[i]].data = tensor.data;
  return TN_OK;
}

static tn_code place(tn__work *w, const tn__site *site) {
  const tn_frame *f = &w->launch.frame;
  for (uint32_t i = 0; i < f->n_in; ++i) TN__TRY(place_input(w, site, i));
  for (uint32_t i = 0; i < f->n_out; ++i) TN__TRY(place_output(w, site, i));
  for (uint32_t i = 0; i < f->n_aux; ++i)
    TN__TRY(place_read(&w->aux_info[i], site, &w->aux[i].data));
  return TN_OK;
}

/* A sum may be shared among workers; other operands are no larger than those
 * that the kernel has just worked on alone. */
static tn_code hand_back(const tn__work *w, const tn__site *site) {
  const tn__site wide = {site->device, site->token, w->device->env->engine};
  const uint32_t n = w->launch.frame.n_out + w->launch.frame.n_aux;
  for (uint32_t i = 0; i < n; ++i) { /* states stand behind the outputs */
    const tn__operand *operand = &w->out_info[i];
    if (operand->after == TN__AFTER_NOTHING) continue;
    tn_tensor to = tn__array_placed(operand->array),
              from = tn__array_placed(operand->temp);
    if (operand->after == TN__AFTER_ADD)
      TN__TRY(tn__elements_add(site, &to, &from));
    else if (operand->after == TN__AFTER_COPY)
      TN__TRY(tn__elements_copy(site, &to, &from));
    else
      TN__TRY(tn__elements_sum(&wide, &to, &from,
                               operand->after == TN__AFTER_SUM_ADD));
  }
  return TN_OK;
}

/* ---------------------------------------------------------------- compute */

tn_code tn__launch_compute(tn__launch *l) {
  l->slot.text[0] = '\0';
  const tn__floating floating = tn__floating_get();
  tn_code rc = l->kernel->desc->compute(&l->frame);
  tn__floating_keep(&floating);
  return rc ? tn__kernel_fail(l, rc, "compute") : TN_OK;
}

static tn_code compute(tn__work *w) {
  w->launch.slot.set_shape = tn__work_set_shape;
  w->launch.slot.ctx = w;
  tn_code rc = tn__launch_compute(&w->launch);
  w->launch.slot.set_shape = NULL;
  return rc ? rc : tn__work_stated(w);
}

tn_code tn__work_compute(tn__work *w, tn__token *token) {
  if (token) w->launch.run.stream = tn__token_stream(token);
  const tn__site site = {w->device, token, NULL};
  tn_code rc = resources_take(w);
  if (!rc) rc = place(w, &site);
  if (rc) return tn__work_short(w, rc);
  TN__TRY(compute(w));
  return hand_back(w, &site);
}
