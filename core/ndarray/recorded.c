/* SPDX-License-Identifier: Apache-2.0
 * recorded.c: planned calls that a device records (tenon/capture.h). What
 * changes between runs, which other calls hand to their kernel, lies in a piece
 * of memory per call: the params struct, if some of it is dynamic, and then the
 * offset of each stream of random numbers.
 */
#include <string.h>

#include "call.h"
#include "tenon/capture.h"

static size_t whole(size_t bytes) {
  return (bytes + 15) / 16 * 16;
}

static size_t params_bytes(const tn__work *w) {
  const tn_op *desc = w->op->desc;
  for (uint32_t i = 0; w->own && i < desc->n_params; ++i)
    if (desc->params[i]->flags & TN_FIELD_DYNAMIC)
      return whole(desc->params_size);
  return 0;
}

size_t tn__planned_changes(const tn__planned *call) {
  const tn__work *w = tn__planned_work(call);
  if (!w->recipe) return 0;
  return params_bytes(w) + whole(w->recipe->n_random * sizeof(uint64_t));
}

bool tn__planned_draws(const tn__planned *call) {
  const tn__work *w = tn__planned_work(call);
  return w->recipe && w->recipe->n_random > 0;
}

void tn__planned_change(const tn__planned *call, void *to) {
  const tn__work *w = tn__planned_work(call);
  if (!w->recipe) return;
  const size_t n = params_bytes(w);
  const uint32_t n_random = w->recipe->n_random;
  const uint64_t blocks = w->recipe->plan.random_blocks;
  uint64_t at[TN__MAX_RANDOM];
  if (n > 0) memcpy(to, w->own->data, w->op->desc->params_size);
  if (n_random == 0) return;
  const uint64_t first =
      tn__random_claim(&w->caller->random, n_random * blocks);
  for (uint32_t i = 0; i < n_random; ++i) at[i] = first + i * blocks;
  memcpy((char *)to + n, at, n_random * sizeof *at);
}

void tn__launch_changes(tn__work *w) {
  tn__launch *l = &w->launch;
  const size_t n = params_bytes(w);
  const uint64_t *offsets = (const uint64_t *)(w->changes + n);
  for (uint32_t i = 0; i < w->recipe->n_random; ++i) {
    l->random[i] = (tn_random){.struct_size = sizeof(tn_random),
                               .key = atomic_load(&w->caller->random.key),
                               .device_offset = offsets + i};
    l->random_list[i] = &l->random[i];
  }
  l->run.n_random = w->recipe->n_random;
  l->run.random = l->random_list;
  l->frame.ws = l->ws;
  l->ws[l->frame.n_ws] = n > 0 ? (void *)(uintptr_t)w->changes : NULL;
}

tn_code tn__planned_record(const tn__planned *call, tn__token *token,
                           const void *there) {
  tn__work *w = tn__planned_work(call);
  if (!w->recipe) return TN_OK;
  w->changes = there;
  w->launch.frame.flags |= TN_CALL_RECORDED;
  const tn_code rc = tn__work_compute(w, token);
  w->launch.frame.flags &= ~TN_CALL_RECORDED;
  w->changes = NULL;
  return rc;
}
