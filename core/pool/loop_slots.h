/* SPDX-License-Identifier: Apache-2.0
 * loop_slots.h: the slots in which workers find the loops that want
 * participants. For the folders of the engine.
 *
 * `state` of a slot counts the participants and contains their limit:
 *
 *   claim   free                          -> CLAIMED, by the caller
 *   open    CLAIMED                       -> CLAIMED | OPEN | limit
 *   join    OPEN, fewer than the limit    -> one more participant
 *   close   no unit is left to begin      -> without OPEN
 *   leave                                 -> one less; the last wakes the
 *                                            caller
 *   free    closed, no participants       -> 0, by the caller
 *
 * So a participant finds the loop alive until it leaves.
 */
#ifndef TENON_POOL_LOOP_SLOTS_H_
#define TENON_POOL_LOOP_SLOTS_H_

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define TN__LOOP_PARTICIPANTS 0xfffu      /* their number in `state` */
#define TN__LOOP_CALLER_SLEEPS (1u << 26) /* until all have left */

enum { TN__LOOPS = 64 };

typedef struct tn__loop_slot {
  _Alignas(64) _Atomic uint32_t state;
  struct tn__loop_run *loop;
} tn__loop_slot;

typedef struct tn__loop_slots {
  _Alignas(64) _Atomic uint64_t open; /* a bit for each slot */
  tn__loop_slot v[TN__LOOPS];
} tn__loop_slots;

/* Opens a slot for the loop with at most `limit` participants; NULL: all are in
 * use. */
tn__loop_slot *tn__loop_open(tn__loop_slots *slots, struct tn__loop_run *loop,
                             uint32_t limit);
/* Keeps further participants out. */
void tn__loop_close(tn__loop_slots *slots, tn__loop_slot *slot);
/* Becomes a participant; false: there is no room. */
bool tn__loop_join(tn__loop_slot *slot);
/* The last participant wakes the caller. */
void tn__loop_leave(tn__loop_slot *slot);
/* True if a loop has room for a participant. */
bool tn__loop_has_room(tn__loop_slots *slots);

#endif /* TENON_POOL_LOOP_SLOTS_H_ */
