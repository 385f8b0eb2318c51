/* SPDX-License-Identifier: Apache-2.0
 * recorded.c: planned calls that a device records (tenon/draft/capture.h).
 * Values that change between runs are in a piece of memory per call: the params
 * struct, if a part of it is dynamic, and then the offset of each random
 * stream. Other calls pass these values to the kernel directly.
 */
#include <string.h>

#include "call.h"
#include "tenon/draft/capture.h"

size_t tn__planned_change_bytes(const tn__planned *call) {
  const tn__call_state *s = tn__planned_state(call);
  if (!s->recipe) return 0;
  return tn__call_change_bytes(s);
}

bool tn__planned_has_random(const tn__planned *call) {
  const tn__call_state *s = tn__planned_state(call);
  return s->recipe && s->recipe->n_random > 0;
}

void tn__planned_write_changes(const tn__planned *call, void *to) {
  const tn__call_state *s = tn__planned_state(call);
  if (!s->recipe) return;
  const size_t n = tn__call_change_params_bytes(s);
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
