/* SPDX-License-Identifier: Apache-2.0
 * slab.c: memory of tokens, the number of completed tokens, and the wake-up of
 * threads that wait for it.
 *
 * Tokens have four sizes and are cut from chunks that are freed with the
 * engine. Each thread uses the first open one of a few *slots*, beginning with
 * its own. So a slot is nearly always in one core's cache, and a thread that
 * ends leaves no memory unused. A slot keeps up to two batches of free tokens
 * of each size. Whole batches move through a shared list from threads that
 * complete tokens to threads that create them.
 */
#include "slab.h"

#include <sched.h>

#include "engine_state.h"
#include "futex.h"

enum {
  N_SLOTS = 16,
  N_SIZES = 4,
  BATCH = 32,
  CHUNK = 64 * 1024,
  SMALLEST = 128, /* doubled for each further size */
  CLAIMS_MAX = (int)(((SMALLEST << (N_SIZES - 1)) - sizeof(tn__token)) /
                     sizeof(tn__claim))
};

_Static_assert(SMALLEST == sizeof(tn__token) + sizeof(tn__claim),
               "a function of one variable takes two cache lines");

/* A free token. */
typedef struct piece {
  struct piece *next;
  struct piece *batch; /* in the first of a batch: the next batch */
} piece;

typedef struct free_list {
  piece *open; /* up to BATCH tokens */
  piece *full; /* BATCH tokens, or none */
  size_t n;    /* number in `open` */
} free_list;

typedef struct slot {
  _Alignas(64) _Atomic uint32_t taken;
  free_list free_lists[N_SIZES];
  _Atomic uint64_t n_completed[2]; /* in each epoch */
} slot;

typedef struct chunk {
  struct chunk *next;
  unsigned char
      reserved[120]; /* so that tokens begin at a pair of cache lines */
} chunk;

static size_t bytes_of_size(size_t size) {
  return (size_t)SMALLEST << size;
}

/* The smallest size with room for n_claims, or the largest one. */
static uint32_t find_size(uint32_t n_claims) {
  const size_t bytes = sizeof(tn__token) + n_claims * sizeof(tn__claim);
  uint32_t size = 0;
  while (size < N_SIZES - 1 && bytes > bytes_of_size(size)) ++size;
  return size;
}

struct tn__slab {
  slot slots[N_SLOTS];
  _Alignas(64) pthread_mutex_t lock; /* protects the fields below */
  piece *batches[N_SIZES];
  chunk *chunks;
  unsigned char *fresh; /* not cut yet */
  size_t n_fresh;       /* bytes */
  const tn__env *env;
  const _Atomic uint64_t *also_completed; /* in each epoch, or NULL */
};

tn_code tn__slab_create(const tn__env *env, struct tn__slab **out) {
  struct tn__slab *slab = tn__alloc_aligned(env, sizeof *slab, 64);
  if (slab == NULL)
    return tn__fail_memory(sizeof *slab, "the engine's memory of operations");
  *slab = (struct tn__slab){.env = env};
  (void)pthread_mutex_init(&slab->lock, NULL);
  *out = slab;
  return TN_OK;
}

void tn__slab_destroy(struct tn__slab *slab) {
  if (slab == NULL) return;
  for (size_t i = 0; i < N_SLOTS; ++i)
    while (atomic_exchange(&slab->slots[i].taken, 1) != 0) (void)sched_yield();
  while (slab->chunks != NULL) {
    chunk *next = slab->chunks->next;
    tn__free(slab->env, slab->chunks);
    slab->chunks = next;
  }
  (void)pthread_mutex_destroy(&slab->lock);
  tn__free(slab->env, slab);
}

/* Slots are held for a few instructions; a thread that finds one in use tries
 * the next one. */
static slot *take_slot(struct tn__slab *slab) {
  for (uint64_t i = tn__self_get();; ++i) {
    slot *each = &slab->slots[i % N_SLOTS];
    if (atomic_exchange_explicit(&each->taken, 1, memory_order_acquire) == 0)
      return each;
    if (i % N_SLOTS == 0) (void)sched_yield();
  }
}

static void return_slot(slot *each) {
  atomic_store_explicit(&each->taken, 0, memory_order_release);
}

/* ------------------------------------------------------------------ batches */

static bool add_chunk(struct tn__slab *slab) {
  chunk *each = tn__alloc_aligned(slab->env, CHUNK, 128);
  if (each == NULL) return false;
  each->next = slab->chunks;
  slab->chunks = each;
  slab->fresh = (unsigned char *)(each + 1);
  slab->n_fresh = CHUNK - sizeof *each;
  return true;
}

/* Cuts up to BATCH tokens. A rest of a chunk that is too small stays unused.
 * The lock is held. */
static piece *cut_pieces(struct tn__slab *slab, size_t size, size_t *n) {
  const size_t bytes = bytes_of_size(size);
  piece *first = NULL;
  if (slab->n_fresh < bytes && !add_chunk(slab)) return NULL;
  for (*n = 0; *n < BATCH && slab->n_fresh >= bytes; ++*n) {
    piece *each = (piece *)(void *)slab->fresh;
    slab->fresh += bytes;
    slab->n_fresh -= bytes;
    each->next = first;
    first = each;
  }
  return first;
}

static piece *get_batch(struct tn__slab *slab, size_t size, size_t *n) {
  (void)pthread_mutex_lock(&slab->lock);
  piece *first = slab->batches[size];
  if (first != NULL) {
    slab->batches[size] = first->batch;
    *n = BATCH;
  } else {
    first = cut_pieces(slab, size, n);
  }
  (void)pthread_mutex_unlock(&slab->lock);
  return first;
}

static void put_batch(struct tn__slab *slab, size_t size, piece *first) {
  (void)pthread_mutex_lock(&slab->lock);
  first->batch = slab->batches[size];
  slab->batches[size] = first;
  (void)pthread_mutex_unlock(&slab->lock);
}

static piece *get_piece(struct tn__slab *slab, slot *mine, size_t size) {
  free_list *from = &mine->free_lists[size];
  if (from->open == NULL && from->full != NULL) {
    from->open = from->full;
    from->full = NULL;
    from->n = BATCH;
  }
  if (from->open == NULL) from->open = get_batch(slab, size, &from->n);
  piece *each = from->open;
  if (each == NULL) return NULL;
  from->open = each->next;
  --from->n;
  /* Another core has very likely used it last. */
  if (from->open != NULL) tn__token_prefetch((tn__token *)(void *)from->open);
  return each;
}

static void put_piece(struct tn__slab *slab, slot *mine, size_t size,
                      piece *each) {
  free_list *to = &mine->free_lists[size];
  if (to->n == BATCH) {
    if (to->full != NULL) put_batch(slab, size, to->full);
    to->full = to->open;
    to->open = NULL;
    to->n = 0;
  }
  each->next = to->open;
  to->open = each;
  ++to->n;
}

/* -------------------------------------------------------------- completions */

void tn__slab_count_also(tn__slab *slab, const _Atomic uint64_t *n_completed) {
  slab->also_completed = n_completed;
}

static uint64_t sum_completed(const tn__slab *slab, uint32_t epoch) {
  uint64_t sum = 0;
  for (size_t i = 0; i < N_SLOTS; ++i)
    sum += atomic_load_explicit(&slab->slots[i].n_completed[epoch],
                                memory_order_acquire);
  if (slab->also_completed != NULL)
    sum += atomic_load_explicit(&slab->also_completed[epoch],
                                memory_order_acquire);
  return sum;
}

/* Counts the completed tokens first: if the sums are equal, they were equal at
 * the moment between. */
uint64_t tn__epoch_count_pending(const tn__engine *engine, uint32_t epoch) {
  const uint64_t completed = sum_completed(engine->slab, epoch);
  return atomic_load_explicit(&engine->n_pushed[epoch], memory_order_acquire) -
         completed;
}

bool tn__epoch_is_over(const tn__engine *engine, uint32_t epoch) {
  return tn__epoch_count_pending(engine, epoch) == 0;
}

/* A plain store raised the count before this call. The membarrier of the
 * waiting thread ensures that either this thread reads its mark, or the waiting
 * thread reads the count. Without membarrier both change the same word. */
void tn__drain_notify(tn__engine *engine) {
  atomic_signal_fence(memory_order_seq_cst);
  if (engine->gate_allowed == 0) atomic_fetch_add(&engine->draining, 0);
  if (atomic_load_explicit(&engine->draining, memory_order_relaxed) == 0)
    return;
  /* Of two threads at this line one sees the other's count. */
  const uint32_t draining = atomic_fetch_add(&engine->draining, 0);
  if (draining == 0 || !tn__epoch_is_over(engine, draining - 1)) return;
  atomic_fetch_add(&engine->drained, 1);
  tn__futex_wake_all(&engine->drained);
}

/* ------------------------------------------------------------------- tokens */

tn__token *tn__token_create_with(tn__engine *engine, uint32_t n_claims,
                                 tn__claim *claims) {
  const uint32_t size = find_size(claims != NULL ? 0 : n_claims);
  slot *mine = take_slot(engine->slab);
  tn__token *token = (tn__token *)get_piece(engine->slab, mine, size);
  return_slot(mine);
  if (token == NULL) return NULL;
  token->engine = engine;
  token->flags = size * TN__TOKEN_SIZE;
  token->claims = claims != NULL ? claims : (tn__claim *)(token + 1);
  return token;
}

tn__token *tn__token_create(tn__engine *engine, uint32_t n_claims) {
  tn__claim *claims = NULL;
  if (n_claims > CLAIMS_MAX) {
    claims = tn__alloc(engine->env, n_claims * sizeof *claims);
    if (claims == NULL) return NULL;
  }
  tn__token *token = tn__token_create_with(engine, n_claims, claims);
  if (token == NULL) tn__free(engine->env, claims);
  return token;
}

/* Puts the token into the slot. A separate list of claims was freed before. */
static void put_token(tn__token *token, slot *mine) {
  struct tn__slab *slab = token->engine->slab;
  if ((token->flags & TN__TOKEN_STACK) != 0) return;
  const size_t size = token->flags / TN__TOKEN_SIZE % 4;
  put_piece(slab, mine, size, (piece *)(void *)token);
}

static void free_claims(tn__token *token) {
  if ((token->flags & TN__TOKEN_STACK) == 0 &&
      token->claims != (tn__claim *)(token + 1))
    tn__free(token->engine->env, token->claims);
}

void tn__token_end(tn__token *token) {
  tn__engine *engine = token->engine;
  const uint32_t epoch = (token->flags & TN__TOKEN_EPOCH) != 0 ? 1 : 0;
  free_claims(token);
  slot *mine = take_slot(engine->slab);
  put_token(token, mine);
  tn__count_up(&mine->n_completed[epoch]);
  tn__drain_notify(engine);
  return_slot(mine); /* the last access: tn__slab_destroy waits for it */
}

void tn__token_discard(tn__token *token) {
  tn__engine *engine = token->engine;
  free_claims(token);
  slot *mine = take_slot(engine->slab);
  put_token(token, mine);
  return_slot(mine);
}
