/* SPDX-License-Identifier: Apache-2.0
 * loop_slots.c: the slots in which workers find the loops that want
 * participants.
 */
#include "loop_slots.h"

#include <stddef.h>

#include "futex.h"

#define PARTICIPANT 1u
#define PARTICIPANTS TN__LOOP_PARTICIPANTS
#define LIMIT 0x1000u /* times the limit */
#define LIMITS 0xfff000u
#define CLAIMED (1u << 24)
#define OPEN (1u << 25)

static uint64_t bit_of(const tn__loop_slots *slots, const tn__loop_slot *slot) {
  return 1ull << (uint32_t)(slot - slots->v);
}

tn__loop_slot *tn__loop_open(tn__loop_slots *slots, struct tn__loop_run *loop,
                             uint32_t limit) {
  if (limit > PARTICIPANTS) limit = PARTICIPANTS;
  for (uint32_t i = 0; i < TN__LOOPS; ++i) {
    tn__loop_slot *slot = &slots->v[i];
    uint32_t state = atomic_load_explicit(&slot->state, memory_order_relaxed);
    if (state != 0 ||
        !atomic_compare_exchange_strong(&slot->state, &state, CLAIMED))
      continue;
    slot->loop = loop;
    atomic_store_explicit(&slot->state, CLAIMED | OPEN | limit * LIMIT,
                          memory_order_release);
    atomic_fetch_or(&slots->open, bit_of(slots, slot));
    return slot;
  }
  return NULL;
}

void tn__loop_close(tn__loop_slots *slots, tn__loop_slot *slot) {
  atomic_fetch_and(&slots->open, ~bit_of(slots, slot));
  atomic_fetch_and(&slot->state, ~OPEN);
}

static bool can_join(uint32_t state) {
  return (state & OPEN) != 0 &&
         (state & PARTICIPANTS) < (state & LIMITS) / LIMIT;
}

bool tn__loop_join(tn__loop_slot *slot) {
  uint32_t state = atomic_load(&slot->state);
  do
    if (!can_join(state)) return false;
  while (
      !atomic_compare_exchange_weak(&slot->state, &state, state + PARTICIPANT));
  return true;
}

void tn__loop_leave(tn__loop_slot *slot) {
  const uint32_t state = atomic_fetch_sub(&slot->state, PARTICIPANT);
  if ((state & PARTICIPANTS) == 1 && (state & TN__LOOP_CALLER_SLEEPS) != 0)
    tn__futex_wake(&slot->state, 1);
}

bool tn__loop_has_room(tn__loop_slots *slots) {
  uint64_t open = atomic_load(&slots->open);
  for (; open != 0; open &= open - 1) {
    tn__loop_slot *slot = &slots->v[__builtin_ctzll(open)];
    if (can_join(atomic_load(&slot->state))) return true;
  }
  return false;
}
