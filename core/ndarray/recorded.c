/* SPDX-License-Identifier: Apache-2.0
 * recorded.c: planned calls that a device records (tenon/draft/capture.h).
 * Values that change between runs are in a piece of memory per call: the params
 * struct, if a part of it is dynamic, and then the offset of each random
 * stream. Other calls pass these values to the kernel directly.
 */
#include <string.h>

#include "call.h"
#include "tenon/draft/capture.h"

static size_t round_to_16(size_t bytes) {
  return (bytes + 15) / 16 * 16;
}

static size_t params_bytes(const tn__call_state *s) {
  const tn_op *desc = s->op->desc;
  for (uint32_t i = 0; s->own_params && i < desc->n_params; ++i)
    if (desc->params[i]->flags & TN_FIELD_DYNAMIC)
      return round_to_16(desc->params_size);
  return 0;
}

size_t tn__planned_change_bytes(const tn__planned *call) {
  const tn__call_state *s = tn__planned_state(call);
  if (!s->recipe) return 0;
  return params_bytes(s) + round_to_16(s->recipe->n_random * sizeof(uint64_t));
}

bool tn__planned_has_random(const tn__planned *call) {
  const tn__call_state *s = tn__planned_state(call);
  return s->recipe && s->recipe->n_random > 0;
}

void tn__planned_write_changes(const tn__planned *call, void *to) {
  const tn__call_state *s = tn__planned_state(call);
  if (!s->recipe) return;
  const size_t n = params_bytes(s);
  const uint32_t n_random = s->recipe->n_random;
  const uint64_t blocks = s->recipe->plan.random_blocks;
  uint64_t at[TN__MAX_RANDOM];
  if (n > 0) memcpy(to, s->own_params->data, s->op->desc->params_size);
  if (n_random == 0) return;
  const uint64_t first =
      tn__random_claim(&s->caller->random, n_random * blocks);
  for (uint32_t i = 0; i < n_random; ++i) at[i] = first + i * blocks;
  memcpy((char *)to + n, at, n_random * sizeof *at);
}

void tn__launch_set_changes(tn__call_state *s) {
  tn__launch *l = &s->launch;
  const size_t n = params_bytes(s);
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

tn_code tn__planned_record(const tn__planned *call, tn__token *token,
                           const void *there) {
  tn__call_state *s = tn__planned_state(call);
  if (!s->recipe) return TN_OK;
  s->changes = there;
  s->launch.frame.flags |= TN_CALL_RECORDED;
  const tn_code rc = tn__call_compute(s, token);
  s->launch.frame.flags &= ~TN_CALL_RECORDED;
  s->changes = NULL;
  return rc;
}
