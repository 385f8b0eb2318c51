/* SPDX-License-Identifier: Apache-2.0
 * run.c: a settled call is executed: choose, prepare, place, compute, hand
 * back. The engine will push what stands behind `prepare` here.
 */
#include <stdio.h>

#include "call.h"

enum { WORKSPACE_ALIGN = 64 };

/* ---------------------------------------------------------------- messages */

static void say_operands(tn_code code, const tn__operand *operands,
                         const tn_tensor *tensors, uint32_t n) {
  char text[TN__OPERAND_TEXT];
  for (uint32_t i = 0; i < n; ++i) {
    if (!operands[i].array) continue;
    tn__fail_more(code, "; %s", tn__operand_text(&operands[i], text));
    tn__fail_tensor(code, tensors[i].dtype, tensors[i].ndim, tensors[i].shape);
  }
}

/* The plugin's own words come first, then whose they are and what it was
 * given. */
tn_code tn__kernel_fail(tn__work *w, tn_code code, const char *stage) {
  const tn__kernel *kernel = w->choice.kernel;
  const tn_plugin *plugin = kernel->plugin->entry;
  bool named = code < 0 && code >= TN_INTERNAL;
  tn_code rc = named ? code : TN_PLUGIN;
  tn__fail(rc, "%s: %s", w->op->name,
           w->slot.text[0] ? w->slot.text : "the kernel gave no reason");
  if (!named) tn__fail_more(rc, " (it returned %d, which is no code)", code);
  tn__fail_more(rc, "; in %s of kernel %s, plugin %s release %u", stage,
                kernel->desc->id, plugin->name, (unsigned)plugin->release);
  say_operands(rc, w->in_info, w->in, w->frame.n_in);
  say_operands(rc, w->out_info, w->out, w->frame.n_out);
  say_operands(rc, w->aux_info, w->aux, w->frame.n_aux);
  return rc;
}

/* ------------------------------------------------------------------ frame */

static const tn_tensor no_tensor = {.device_type = TN_DEVICE_CPU, .ndim = -1};

static void show(tn_tensor *to, const tn__operand *operand) {
  *to = operand->array ? tn__array_metadata(operand->array) : no_tensor;
}

static void show_input(tn__work *w, uint32_t i) {
  if (w->pass == TN_PASS_FORWARD)
    w->in_flags[i] = w->absent[i] ? TN_IN_ABSENT : 0;
  if (w->in_flags[i] & TN_IN_ABSENT) {
    w->in[i] = no_tensor;
    return;
  }
  show(&w->in[i], &w->in_info[i]);
  if (tn_tensor_is_contiguous(&w->in[i])) w->in_flags[i] |= TN_IN_CONTIGUOUS;
}

/* An output whose shape is not known yet has a dtype only. */
static void show_output(tn__work *w, uint32_t i) {
  show(&w->out[i], &w->out_info[i]);
  if (!w->out_info[i].dynamic) return;
  w->out[i] = no_tensor;
  w->out[i].dtype = w->io.out[i].dtype;
}

void tn__work_frame(tn__work *w) {
  tn_frame *f = &w->frame;
  for (uint32_t i = 0; i < f->n_in; ++i) show_input(w, i);
  for (uint32_t i = 0; i < f->n_out; ++i) show_output(w, i);
  for (uint32_t i = 0; i < f->n_aux; ++i) show(&w->aux[i], &w->aux_info[i]);
  f->flags = w->flags;
  if (w->pass == TN_PASS_BACKWARD) f->flags |= TN_CALL_BACKWARD;
  f->in = w->in;
  f->out = w->out;
  f->aux = w->aux;
  f->in_flags = w->in_flags;
  f->req = w->req;
  f->alias = w->alias;
}

static tn_code choose(tn__work *w) {
  const tn__query query = {.pass = w->pass,
                           .device_type = TN_DEVICE_CPU,
                           .vars = w->vars,
                           .frame = &w->frame,
                           .io = &w->io,
                           .absent = w->absent};
  tn__dtype_vars(w->desc, &w->io, w->vars);
  TN__TRY(tn__kernel_choose(w->op, &query, &w->choice));
  const tn__kernel *kernel = w->choice.kernel;
  w->frame.host = &kernel->plugin->host;
  w->frame.instance = kernel->plugin->instance;
  w->frame.options = kernel->options;
  w->slot.text[0] = '\0'; /* of candidates that did not apply */
  return TN_OK;
}

/* ---------------------------------------------------------------- prepare */

static tn_code bad_plan(tn__work *w, const char *what) {
  snprintf(w->slot.text, sizeof w->slot.text, "prepare asked for %s", what);
  return tn__kernel_fail(w, TN_PLUGIN, "prepare");
}

/* All workspaces lie in one piece of memory, each at its alignment. */
static tn_code workspaces_place(tn__work *w) {
  size_t offsets[TN_MAX_WORKSPACES], total = 0, most = WORKSPACE_ALIGN;
  if (w->plan.n_ws > TN_MAX_WORKSPACES)
    return bad_plan(w, "more workspaces than TN_MAX_WORKSPACES");
  for (uint32_t i = 0; i < w->plan.n_ws; ++i) {
    size_t align = (size_t)w->plan.ws[i].align;
    if (align == 0) align = WORKSPACE_ALIGN;
    if (align & (align - 1))
      return bad_plan(w, "an alignment that is no power of two");
    if (align > most) most = align;
    if (__builtin_add_overflow(total, align - 1, &offsets[i]))
      return bad_plan(w, "more bytes than can be counted");
    offsets[i] &= ~(align - 1);
    if (__builtin_add_overflow(offsets[i], w->plan.ws[i].bytes, &total))
      return bad_plan(w, "more bytes than can be counted");
  }
  if (w->plan.n_ws == 0) return TN_OK;
  w->ws_total = total;
  TN__TRY(tn__storage_alloc(w->caller->env, total, most,
                            "the workspaces of a kernel", &w->ws_memory));
  for (uint32_t i = 0; i < w->plan.n_ws; ++i) {
    w->ws[i] = (char *)w->ws_memory + offsets[i];
    w->ws_bytes[i] = w->plan.ws[i].bytes;
  }
  w->frame.n_ws = w->plan.n_ws;
  w->frame.ws = w->ws;
  w->frame.ws_bytes = w->ws_bytes;
  return TN_OK;
}

static tn_code prepare(tn__work *w) {
  const tn_kernel *desc = w->choice.kernel->desc;
  if (!desc->prepare) return TN_OK;
  tn_code rc = desc->prepare(&w->frame, &w->plan);
  if (rc) {
    w->plan.destroy = NULL; /* a prepare that fails has undone its work */
    return tn__kernel_fail(w, rc, "prepare");
  }
  w->frame.prepared = w->plan.prepared;
  return workspaces_place(w);
}

/* The streams of a call follow one another, so that no two calls of a runtime
 * draw the same blocks. */
static tn_code random_place(tn__work *w) {
  const tn_kernel *desc = w->choice.kernel->desc;
  uint32_t n = 0;
  for (uint32_t i = 0; i < desc->n_resources; ++i)
    if (desc->resources[i] == TN_RESOURCE_RANDOM) ++n;
  if (n == 0) return TN_OK;
  if (n > TN__MAX_RANDOM)
    return tn__fail(TN_UNSUPPORTED,
                    "%s: kernel %s wants %u random streams; at"
                    " most %d are provided",
                    w->op->name, desc->id, n, TN__MAX_RANDOM);
  uint64_t blocks = w->plan.random_blocks;
  uint64_t first = atomic_fetch_add(&w->caller->random_offset, n * blocks);
  for (uint32_t i = 0; i < n; ++i) {
    w->random[i] = (tn_random){.struct_size = sizeof(tn_random),
                               .key = w->caller->seed,
                               .offset = first + i * blocks};
    w->random_list[i] = &w->random[i];
  }
  w->run.n_random = n;
  w->run.random = w->random_list;
  return TN_OK;
}

/* ------------------------------------------------------------------ place */

tn_tensor tn__array_placed(const tn_array *array) {
  tn_tensor tensor = tn__array_metadata(array);
  tensor.data = tn__array_data(array);
  return tensor;
}

static tn_code place_input(tn__work *w, uint32_t i) {
  const tn__operand *operand = &w->in_info[i];
  if (w->in_flags[i] & (TN_IN_ABSENT | TN_IN_METADATA)) return TN_OK;
  TN__TRY(tn__block_materialise(operand->array->block));
  tn_tensor tensor = tn__array_placed(operand->array);
  if (operand->before == TN__BEFORE_ZERO) tn__tensor_zero(&tensor);
  if (operand->temp) {
    TN__TRY(tn__block_materialise(operand->temp->block));
    tn_tensor dense = tn__array_placed(operand->temp);
    tn__tensor_copy(&dense, &tensor);
    tensor.data = dense.data;
  }
  w->in[i].data = tensor.data;
  return TN_OK;
}

static tn_code place_output(tn__work *w, uint32_t i) {
  const tn__operand *operand = &w->out_info[i];
  if (w->req[i] == TN_REQ_NULL || operand->dynamic) return TN_OK;
  if (operand->array) TN__TRY(tn__block_materialise(operand->array->block));
  const tn_array *target = operand->temp ? operand->temp : operand->array;
  TN__TRY(tn__block_materialise(target->block));
  tn_tensor tensor = tn__array_placed(target);
  w->out[i].data = tensor.data;
  if (operand->before == TN__BEFORE_ZERO) tn__tensor_zero(&tensor);
  if (operand->before != TN__BEFORE_COPY) return TN_OK;
  tn_tensor from = tn__array_placed(w->in_info[operand->source].array);
  tn__tensor_copy(&tensor, &from);
  if (w->req[i] == TN_REQ_INPLACE) w->in[w->alias[i]].data = tensor.data;
  return TN_OK;
}

static tn_code place(tn__work *w) {
  for (uint32_t i = 0; i < w->frame.n_in; ++i) TN__TRY(place_input(w, i));
  for (uint32_t i = 0; i < w->frame.n_out; ++i) TN__TRY(place_output(w, i));
  for (uint32_t i = 0; i < w->frame.n_aux; ++i) {
    TN__TRY(tn__block_materialise(w->aux_info[i].array->block));
    w->aux[i].data = tn__array_data(w->aux_info[i].array);
  }
  return TN_OK;
}

/* ---------------------------------------------------------------- compute */

static tn_code compute(tn__work *w) {
  const tn_kernel *desc = w->choice.kernel->desc;
  bool serial = !(desc->flags & TN_KERNEL_REENTRANT);
  w->slot.set_shape = tn__work_set_shape;
  w->slot.ctx = w;
  if (serial) pthread_mutex_lock(&w->caller->serial);
  tn_code rc = desc->compute(&w->frame);
  if (serial) pthread_mutex_unlock(&w->caller->serial);
  w->slot.set_shape = NULL;
  if (rc) return tn__kernel_fail(w, rc, "compute");
  return tn__work_stated(w);
}

static void hand_back(const tn__work *w) {
  for (uint32_t i = 0; i < w->frame.n_out; ++i) {
    const tn__operand *operand = &w->out_info[i];
    if (operand->after == TN__AFTER_NOTHING) continue;
    tn_tensor to = tn__array_placed(operand->array),
              from = tn__array_placed(operand->temp);
    if (operand->after == TN__AFTER_ADD)
      tn__tensor_add(&to, &from);
    else
      tn__tensor_copy(&to, &from);
  }
}

static tn_code execute(tn__work *w) {
  TN__TRY(tn__work_lower_outputs(w, w->choice.kernel->desc));
  TN__TRY(prepare(w));
  TN__TRY(random_place(w));
  TN__TRY(place(w));
  TN__TRY(compute(w));
  hand_back(w);
  return TN_OK;
}

tn_code tn__work_run(tn__work *w) {
  tn__work_frame(w);
  TN__TRY(tn__work_lower_inputs(w));
  TN__TRY(choose(w));
  tn_code rc = execute(w);
  if (w->plan.destroy) w->plan.destroy(w->plan.prepared);
  tn__storage_free(w->caller->env, w->ws_memory, w->ws_total);
  return rc;
}
