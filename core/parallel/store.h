/* SPDX-License-Identifier: Apache-2.0
 * store.h: the parts of a key-value store (tenon/kvstore.h).
 *
 * files: kv_key.c     keys, their table, and similar keys for messages
 *        kv_batch.c   checks the list of a call and groups it by keys
 *        kv_sum.c     sums the arrays of a key on the device of its value
 *        kv_update.c  updaters: none, a function, an operator with states
 *        kv_sync.c    sums and updates over the ranks of a group
 *        kv_async.c   pushes that the owner of a key applies when they arrive
 *        kv_states.c  files of states
 *        kvstore.c    the public functions
 *
 * All functions but those of kvstore.c expect the lock of the store.
 */
#ifndef TENON_PARALLEL_STORE_H_
#define TENON_PARALLEL_STORE_H_

#include <pthread.h>
#include <stdbool.h>

#include "parallel.h"
#include "tenon/call.h"
#include "tenon/engine.h"
#include "tenon/kvstore.h"

/* A key of the store. */
typedef struct tn__kv_entry {
  tn_key key;
  char *text; /* of the key; owned */
  uint64_t hash;
  tn_array *local;   /* the value */
  tn_array *sum;     /* of several arrays; NULL until it is needed */
  tn_array **copies; /* of pushed arrays, on the device of the value */
  size_t n_copies;
  tn_array **states; /* of the operator; NULL until the first update */
  int64_t n_updates; /* by the operator */
  tn_prepared *call; /* of the operator; NULL: none is prepared */
  tn_array *pushed;  /* the sum of the last call; never read */
  size_t group;      /* of the current batch, from 1; 0: none */
  tn_array *total;   /* over all ranks; NULL until it is needed */
  int64_t number;    /* in the order of the inits */
  uint64_t bytes;    /* of the value */
  int32_t owner;     /* the rank that updates the value; -1: each rank */
} tn__kv_entry;

/* The entries in the order of their init, and a hash table of their numbers. */
typedef struct tn__kv_table {
  tn__kv_entry **v;
  size_t n;
  size_t capacity; /* of `v`; the table has twice as many slots */
  uint32_t *slots; /* numbers of entries, from 1; 0: free */
} tn__kv_table;

/* The updater. All NULL: the sum becomes the value. */
typedef struct tn__kv_updater {
  tn_kvstore_update *update;
  void *ctx;
  void (*drop)(void *ctx);
  tn_operator *op;
  tn_params *params;
  char *text;    /* parameters, without `step` */
  bool has_step; /* the store sets the parameter `step` */
  uint32_t n_states;
  int64_t step; /* of `params` */
} tn__kv_updater;

/* A kind of store. */
typedef struct tn__kv_kind {
  const char *name;
  bool on_cpu;    /* values are on cpu(0), not on the device of the init */
  bool has_ranks; /* values are the same on all ranks of a group */
  bool is_async;  /* each key has an owner, which has its value */
} tn__kv_kind;

/* The part of a store with ranks. */
typedef struct tn__kv_ranks {
  char *group; /* its name */
  int32_t rank;
  int32_t size;
  uint64_t bucket_bytes;
  uint64_t owner_bytes;
  uint64_t *owned; /* bytes that each rank owns */
} tn__kv_ranks;

typedef struct tn__kv_async tn__kv_async; /* kv_async.c */

struct tn_kvstore {
  tn_runtime *rt;
  tn_variable *keeper; /* keeps the runtime */
  const tn__kv_kind *kind;
  tn__kv_ranks ranks;
  tn__kv_async *async; /* NULL: other kinds */
  _Atomic int64_t n_owners;
  pthread_mutex_t lock;
  const char *function; /* in progress, for messages */
  tn__kv_table table;
  tn__kv_updater updater;
  tn_code first_error; /* of the function in progress, that travels */
  char first_text[1024];
};

/* ----------------------------------------------------------------- kv_key.c */

enum { TN__KV_KEY_TEXT = 96 };

/* Writes a key as messages show it, `"text"` or `3`; returns `to`. */
const char *tn__kv_key_show(const tn_key *key, char to[TN__KV_KEY_TEXT]);
/* The entry of a key, or NULL. */
tn__kv_entry *tn__kv_find(const tn__kv_table *table, const tn_key *key);
/* TN_NOT_FOUND with a similar key. */
tn_code tn__kv_find_or_fail(const tn_kvstore *kv, const tn_key *key,
                            tn__kv_entry **out);
/* Makes room for `n` more entries. */
tn_code tn__kv_table_reserve(tn__kv_table *table, size_t n);
/* Adds an entry, for which there is room. */
void tn__kv_table_add(tn__kv_table *table, tn__kv_entry *entry);
/* A new entry without arrays, with a copy of the key. */
tn_code tn__kv_entry_create(const tn_key *key, tn__kv_entry **out);
void tn__kv_entry_destroy(tn__kv_entry *entry);
void tn__kv_entry_drop_states(tn__kv_entry *entry, uint32_t n_states);
/* Destroys the entries after the first `n`. */
void tn__kv_table_cut(tn__kv_table *table, size_t n);
void tn__kv_table_deinit(tn__kv_table *table);

tn_code tn__kv_fail_memory(const char *function);
/* Handles the code of a step that writes `array`. A failure that the array
 * carries is recorded, and the function goes on: so the result does not depend
 * on the time at which the work fails. Any other failure is returned. */
tn_code tn__kv_settle(tn_kvstore *kv, const tn_key *key, tn_array *array,
                      tn_code code);

/* --------------------------------------------------------------- kv_batch.c */

/* The arrays of one key in a call. */
typedef struct tn__kv_group {
  tn__kv_entry *entry;
  tn_array **arrays; /* borrowed from the caller */
  size_t n;
  int32_t priority;   /* the highest of the items of the key */
  tn_array *received; /* borrowed; the sum, once it is scheduled */
} tn__kv_group;

/* A checked list of items, in the order of their priorities. */
typedef struct tn__kv_batch {
  tn__kv_group *groups;
  size_t n;
  tn_array **arrays; /* of all groups */
} tn__kv_batch;

/* Checks a list of items whose keys must exist, and groups it. */
tn_code tn__kv_batch_init(const tn_kvstore *kv, const tn_keyed *items, size_t n,
                          tn__kv_batch *out);
void tn__kv_batch_deinit(tn__kv_batch *batch);
/* Checks the list of an init: new keys with one array each. */
tn_code tn__kv_check_new(const tn_kvstore *kv, const tn_keyed *items, size_t n);

/* ----------------------------------------------------------------- kv_sum.c */

/* Schedules the sum of a group, and sets `received`: a pushed array, or an
 * array of the entry, which may be its value if there is no updater. */
tn_code tn__kv_sum(tn_kvstore *kv, tn__kv_group *group);
/* The device of an array. */
tn_place tn__kv_place_of(const tn_array *array);
/* A new array like another one, on a device. */
tn_code tn__kv_create_like(tn_runtime *rt, const tn_array *like, tn_place place,
                           tn_array **out);

/* -------------------------------------------------------------- kv_update.c */

/* Schedules the update of a group's value by its sum. */
tn_code tn__kv_update(tn_kvstore *kv, const tn__kv_group *group);
/* Reads the operator and its parameters. */
tn_code tn__kv_updater_init(const tn_kvstore *kv, const char *name,
                            const char *params, tn__kv_updater *out);
void tn__kv_updater_deinit(tn__kv_updater *updater);
bool tn__kv_has_updater(const tn_kvstore *kv);
/* New states for an entry, with their first values. */
tn_code tn__kv_states_create(const tn_kvstore *kv, const tn__kv_entry *entry,
                             tn_array ***out);
void tn__kv_states_release(tn_array **states, uint32_t n);
/* Drops a prepared call of other states or parameters. */
void tn__kv_drop_call(tn__kv_entry *entry);

/* ---------------------------------------------------------------- kv_sync.c */

/* Finds the group. */
tn_code tn__kv_ranks_init(tn_kvstore *kv, const tn_kvstore_options *options);
void tn__kv_ranks_deinit(tn__kv_ranks *ranks);
/* Chooses the owner of a new key, and sends it the value of rank 0. */
tn_code tn__kv_ranks_share(tn_kvstore *kv, tn__kv_entry *entry);
/* Takes back the choice of an owner, for a key that is removed again. */
void tn__kv_ranks_forget(tn_kvstore *kv, const tn__kv_entry *entry);
/* Sums a batch over the ranks, and updates the values on all of them. */
tn_code tn__kv_ranks_push(tn_kvstore *kv, tn__kv_batch *batch);
/* True if this rank updates the value and has its states. */
bool tn__kv_is_owner(const tn_kvstore *kv, const tn__kv_entry *entry);
/* Sends an array of one rank to all, into the array `to`. */
tn_code tn__kv_ranks_broadcast(tn_kvstore *kv, int32_t root, tn_array *from,
                               tn_array *to);
/* Waits for all ranks, and returns the first failure among them. */
tn_code tn__kv_ranks_agree(tn_kvstore *kv, tn_code code);

/* --------------------------------------------------------------- kv_async.c */

/* Begins and ends to serve the other ranks. All ranks call them; without the
 * lock. After a failure of the first the second is called, too. */
tn_code tn__kv_async_open(tn_kvstore *kv);
void tn__kv_async_close(tn_kvstore *kv);
/* Sums a group, and updates its value or sends the sum to its owner. */
tn_code tn__kv_async_push(tn_kvstore *kv, tn__kv_group *group);
/* Schedules a copy of the owner's value to that of this rank. */
tn_code tn__kv_async_pull(tn_kvstore *kv, tn__kv_entry *entry);
/* Waits until the owners have all earlier pushes of this rank. Without the
 * lock. */
tn_code tn__kv_async_flush(tn_kvstore *kv);

/* -------------------------------------------------------------- kv_states.c */

tn_code tn__kv_states_save(tn_kvstore *kv, const char *path);
tn_code tn__kv_states_load(tn_kvstore *kv, const char *path);

#endif /* TENON_PARALLEL_STORE_H_ */
