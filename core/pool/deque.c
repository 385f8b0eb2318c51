/* SPDX-License-Identifier: Apache-2.0
 * deque.c: the work-stealing deque of Chase and Lev. The owner works at the
 * bottom without a lock; thieves take from the top by compare-and-swap. All
 * threads must see `bottom` and `top` in one order. The operations themselves
 * are sequentially consistent for that; ThreadSanitizer does not know fences.
 */
#include "deque.h"

enum {
  FIRST_CAPACITY = 256
}; /* growing doubles it; one push adds fewer entries */

typedef struct slot {
  _Atomic(void *) of;
  _Atomic uint64_t range;
} slot;

/* An outgrown ring stays until the end, since a thief may still read it: the
 * entry that the thief finds is valid, or its swap fails. */
typedef struct tn__ring {
  struct tn__ring *outgrown;
  int64_t mask;
  slot slots[];
} tn__ring;

static tn__ring *create_ring(const tn__env *env, int64_t capacity) {
  tn__ring *ring =
      tn__alloc(env, sizeof *ring + (size_t)capacity * sizeof(slot));
  if (ring == NULL) return NULL;
  ring->outgrown = NULL;
  ring->mask = capacity - 1;
  return ring;
}

static void put_work(tn__ring *ring, int64_t at, tn__ready_work work) {
  slot *to = &ring->slots[at & ring->mask];
  atomic_store_explicit(&to->of, work.of, memory_order_relaxed);
  atomic_store_explicit(&to->range, work.range, memory_order_relaxed);
}

static tn__ready_work get_work(tn__ring *ring, int64_t at) {
  slot *from = &ring->slots[at & ring->mask];
  return (tn__ready_work){
      atomic_load_explicit(&from->of, memory_order_relaxed),
      atomic_load_explicit(&from->range, memory_order_relaxed)};
}

tn_code tn__deque_init(tn__deque *deque, const tn__env *env) {
  tn__ring *ring = create_ring(env, FIRST_CAPACITY);
  if (ring == NULL)
    return tn__fail_memory(FIRST_CAPACITY * sizeof(slot),
                           "the deque of a worker");
  deque->env = env;
  atomic_init(&deque->top, 0);
  atomic_init(&deque->bottom, 0);
  atomic_init(&deque->ring, ring);
  return TN_OK;
}

void tn__deque_deinit(tn__deque *deque) {
  tn__ring *ring = atomic_load_explicit(&deque->ring, memory_order_relaxed);
  while (ring != NULL) {
    tn__ring *outgrown = ring->outgrown;
    tn__free(deque->env, ring);
    ring = outgrown;
  }
}

static tn__ring *grow_ring(tn__deque *deque, int64_t top, int64_t bottom) {
  tn__ring *old = atomic_load_explicit(&deque->ring, memory_order_relaxed);
  tn__ring *ring = create_ring(deque->env, 2 * (old->mask + 1));
  if (ring == NULL) return NULL;
  ring->outgrown = old;
  for (int64_t i = top; i < bottom; ++i) put_work(ring, i, get_work(old, i));
  atomic_store_explicit(&deque->ring, ring, memory_order_release);
  return ring;
}

/* Returns the ring with room for n more entries, or NULL. */
static tn__ring *reserve_room(tn__deque *deque, int64_t bottom, uint32_t n) {
  const int64_t top = atomic_load_explicit(&deque->top, memory_order_acquire);
  tn__ring *ring = atomic_load_explicit(&deque->ring, memory_order_relaxed);
  return bottom + n - top <= ring->mask + 1 ? ring
                                            : grow_ring(deque, top, bottom);
}

/* Sequentially consistent with the check for sleepers: see
 * tn__pool_wake_workers. */
static void publish_bottom(tn__deque *deque, int64_t bottom) {
  atomic_store_explicit(&deque->bottom, bottom, memory_order_seq_cst);
}

bool tn__deque_push(tn__deque *deque, tn__ready_work work) {
  const int64_t bottom =
      atomic_load_explicit(&deque->bottom, memory_order_relaxed);
  tn__ring *ring = reserve_room(deque, bottom, 1);
  if (ring == NULL) return false;
  put_work(ring, bottom, work);
  publish_bottom(deque, bottom + 1);
  return true;
}

bool tn__deque_push_all(tn__deque *deque, tn__token **tokens, uint32_t n) {
  const int64_t bottom =
      atomic_load_explicit(&deque->bottom, memory_order_relaxed);
  tn__ring *ring = reserve_room(deque, bottom, n);
  if (ring == NULL) return false;
  for (uint32_t i = 0; i < n; ++i)
    put_work(ring, bottom + i, (tn__ready_work){tokens[n - 1 - i], 0});
  publish_bottom(deque, bottom + n);
  return true;
}

bool tn__deque_take(tn__deque *deque, tn__ready_work *out) {
  const int64_t bottom =
      atomic_load_explicit(&deque->bottom, memory_order_relaxed) - 1;
  /* Only thieves move the top, and only upwards: a deque that looks empty is
   * empty. */
  if (atomic_load_explicit(&deque->top, memory_order_relaxed) > bottom)
    return false;
  tn__ring *ring = atomic_load_explicit(&deque->ring, memory_order_relaxed);
  atomic_store_explicit(&deque->bottom, bottom, memory_order_seq_cst);
  int64_t top = atomic_load_explicit(&deque->top, memory_order_seq_cst);
  if (top < bottom) {
    *out = get_work(ring, bottom);
    return true;
  }
  bool won = false;
  if (top == bottom) { /* The last entry: thieves may take it too. */
    *out = get_work(ring, bottom);
    won = atomic_compare_exchange_strong_explicit(
        &deque->top, &top, top + 1, memory_order_seq_cst, memory_order_relaxed);
  }
  atomic_store_explicit(&deque->bottom, bottom + 1, memory_order_release);
  return won;
}

bool tn__deque_steal(tn__deque *deque, tn__ready_work *out) {
  int64_t top = atomic_load_explicit(&deque->top, memory_order_seq_cst);
  if (top >= atomic_load_explicit(&deque->bottom, memory_order_seq_cst))
    return false;
  tn__ring *ring = atomic_load_explicit(&deque->ring, memory_order_acquire);
  *out = get_work(ring, top);
  return atomic_compare_exchange_strong_explicit(
      &deque->top, &top, top + 1, memory_order_seq_cst, memory_order_relaxed);
}
