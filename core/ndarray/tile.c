/* SPDX-License-Identifier: Apache-2.0
 * tile.c: runs the kernel of a planned call on parts of its operands. Each tile
 * has its own frame, so several tiles can compute at the same time.
 */
#include <string.h>

#include "call.h"

struct tn__tile {
  const tn__env *env;
  tn__launch launch;
  uint32_t n;         /* operands: in, then out */
  tn_tensor *tensors; /* the user owns shapes and strides */
  uint32_t *in_flags;
  tn_req *req;
  int32_t *alias;
  tn_plan plan; /* of the present layout of its tensors */
};

static void launch_copy(tn__tile *tile, const tn__call_state *s) {
  tn__launch *l = &tile->launch;
  const tn_frame *f = &s->launch.frame;
  l->caller = s->launch.caller;
  l->op = s->op;
  l->kernel = s->recipe->kernel;
  l->operands = s->in_info;
  l->frame = *f;
  l->run = s->launch.run;
  l->run.host_data = &l->slot;
  l->frame.run = &l->run;
  l->frame.in = tile->tensors;
  l->frame.out = tile->tensors + f->n_in;
  l->frame.in_flags = tile->in_flags;
  l->frame.req = tile->req;
  l->frame.alias = tile->alias;
}

static void lists_copy(tn__tile *tile, const tn__call_state *s) {
  const tn_frame *f = &s->launch.frame;
  memcpy(tile->tensors, f->in, f->n_in * sizeof *tile->tensors);
  memcpy(tile->tensors + f->n_in, f->out, f->n_out * sizeof *tile->tensors);
  memcpy(tile->in_flags, f->in_flags, f->n_in * sizeof *tile->in_flags);
  memcpy(tile->req, f->req, f->n_out * sizeof *tile->req);
  memcpy(tile->alias, f->alias, f->n_out * sizeof *tile->alias);
}

tn_code tn__tile_create(const tn__planned *call, tn__tile **out) {
  const tn__call_state *s = tn__planned_state(call);
  const tn_frame *f = &s->launch.frame;
  const uint32_t n = f->n_in + f->n_out;
  const size_t bytes =
      sizeof(tn__tile) + n * (sizeof(tn_tensor) + 2 * sizeof(uint32_t));
  tn__tile *tile = tn__zalloc(s->caller->env, bytes);
  *out = tile;
  if (!tile) return tn__fail_memory(bytes, "a tile of a call");
  tile->env = s->caller->env;
  tile->n = n;
  tile->tensors = (tn_tensor *)(void *)(tile + 1);
  tile->in_flags = (uint32_t *)(void *)(tile->tensors + n);
  tile->req = tile->in_flags + f->n_in;
  tile->alias = (int32_t *)(void *)(tile->req + f->n_out);
  lists_copy(tile, s);
  launch_copy(tile, s);
  return TN_OK;
}

void tn__tile_free(tn__tile *tile) {
  if (!tile) return;
  tn__plan_destroy(&tile->plan);
  tn__free(tile->env, tile);
}

tn_code tn__tile_prepare(tn__tile *tile) {
  tn__launch *l = &tile->launch;
  const tn_kernel *desc = l->kernel->desc;
  l->frame.prepared = NULL;
  tile->plan.struct_size = sizeof tile->plan;
  for (uint32_t i = 0; i < tile->n; ++i) tile->tensors[i].data = NULL;
  if (!desc->prepare) return TN_OK;
  l->slot.text[0] = '\0';
  const tn__floating floating = tn__floating_get();
  const int32_t rc = desc->prepare(&l->frame, &tile->plan);
  tn__floating_keep(&floating);
  if (rc) {
    tile->plan.destroy = NULL; /* a prepare that fails has undone its work */
    return tn__kernel_fail(l, rc, "prepare");
  }
  if (tile->plan.n_ws > 0)
    return tn__fail(TN_PLUGIN,
                    "%s: kernel %s wants no workspace for a whole call, but "
                    "one for a part of it; an elementwise kernel must not",
                    l->op->name, desc->id);
  l->frame.prepared = tile->plan.prepared;
  return TN_OK;
}

static bool interface_is_sound(const tn_register_interface *v) {
  return v->struct_size >= sizeof *v && v->reserved == 0 && v->bytes > 0 &&
         v->bytes <= TN_REGISTER_BYTES && v->load && v->save && v->end &&
         v->run;
}

/* True if the offer follows the rules of tenon/draft/registers.h. */
static bool offer_is_sound(const tn_frame *f, const tn_register_offer *offer) {
  if (offer->struct_size < sizeof *offer || !offer->interface ||
      !interface_is_sound(offer->interface) || offer->n_outputs == 0 ||
      offer->n_outputs > TN_REGISTER_OUTPUTS)
    return false;
  for (uint32_t m = 0; m < offer->n_outputs; ++m) {
    const tn_register_output *output = &offer->outputs[m];
    if (output->out >= f->n_out || output->n_in == 0 ||
        output->n_in > TN_REGISTER_INPUTS)
      return false;
    for (uint32_t i = 0; i < output->n_in; ++i)
      if (output->in[i] >= f->n_in || !output->kernels[i]) return false;
  }
  return true;
}

tn_code tn__tile_get_offer(tn__tile *tile, tn_register_offer *offer) {
  tn__launch *l = &tile->launch;
  const tn_kernel *desc = l->kernel->desc;
  tn_frame frame = l->frame;
  tn_plan plan = {.struct_size = sizeof plan};
  *offer = (tn_register_offer){.struct_size = sizeof *offer};
  frame.flags |= TN_CALL_REGISTERS;
  frame.prepared = NULL;
  if (!desc->prepare) return TN_OK;
  l->slot.text[0] = '\0';
  const tn__floating floating = tn__floating_get();
  const int32_t rc = desc->prepare(&frame, &plan);
  tn__floating_keep(&floating);
  if (rc) return tn__kernel_fail(l, rc, "prepare");
  if (!plan.prepared) return TN_OK;
  const bool sound = offer_is_sound(&frame, plan.prepared);
  if (sound) *offer = *(const tn_register_offer *)plan.prepared;
  tn__plan_destroy(&plan);
  if (sound) return TN_OK;
  return tn__fail(TN_PLUGIN,
                  "%s: kernel %s offers register kernels for operands that the "
                  "call does not have, or none; with TN_CALL_REGISTERS, its "
                  "prepare must store a tn_register_offer, or nothing",
                  l->op->name, desc->id);
}

const void *tn__tile_params(const tn__tile *tile) {
  return tile->launch.frame.params;
}

void tn__tile_set_reduction(tn__tile *tile, uint32_t stage) {
  tn__launch *l = &tile->launch;
  for (uint32_t i = 0; i < tile->n; ++i) tile->tensors[i].data = NULL;
  l->frame.flags |= stage;
  l->frame.n_ws = 1;
  l->frame.ws = l->ws;
  l->frame.ws_bytes = l->ws_bytes;
}

void tn__tile_set_records(tn__tile *tile, void *records, uint64_t bytes) {
  tile->launch.ws[0] = records;
  tile->launch.ws_bytes[0] = bytes;
}

tn_tensor *tn__tile_tensor(tn__tile *tile, uint32_t operand) {
  return &tile->tensors[operand];
}

void tn__tile_set_dense(tn__tile *tile, uint32_t in, bool dense) {
  tile->in_flags[in] &= ~(uint32_t)TN_IN_CONTIGUOUS;
  if (dense) tile->in_flags[in] |= TN_IN_CONTIGUOUS;
}

void tn__tile_set_request(tn__tile *tile, uint32_t out, tn_req req,
                          int32_t alias) {
  tile->req[out] = req;
  tile->alias[out] = alias;
}

void tn__tile_set_train(tn__tile *tile, bool train) {
  tile->launch.frame.flags &= ~(uint32_t)TN_CALL_TRAIN;
  if (train) tile->launch.frame.flags |= TN_CALL_TRAIN;
}

tn_code tn__tile_run(tn__tile *tile) {
  return tn__launch_compute(&tile->launch);
}
