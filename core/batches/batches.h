/* SPDX-License-Identifier: Apache-2.0
 * batches.h: examples of a data set in batches (tenon/data.h). A *source* knows
 * the examples, and fills arrays with some of them. A *slot* has the arrays of
 * one batch, and the job that fills them. The arrays of a slot are used again
 * for later batches; the engine orders their uses.
 *
 * files: api_batches.c     the public functions; checks arguments
 *        batch_state.c     saves and restores a position
 *        batch_run.c       opens data, and hands out batches in order
 *        batch_slots.c     arrays and jobs of slots
 *        batch_order.c     the order of the examples in an epoch
 *        sources.h         sources and their files
 */
#ifndef TENON_BATCHES_H_
#define TENON_BATCHES_H_

#include "sources.h"

/* -------------------------------------------------------------------- order */

/* The examples of one epoch: first those that the epoch before left over, then
 * those of the part. */
typedef struct tn__example_order {
  uint64_t n_all;   /* examples of the data set */
  uint64_t begin;   /* of the part, in the order of the epoch */
  uint64_t n_part;  /* examples of the part */
  uint64_t *number; /* the permutation; NULL: the order of the data set */
  uint64_t *carried;
  uint64_t n_carried; /* fewer than a batch */
  uint64_t seed;
  uint64_t epoch;
} tn__example_order;

tn_code tn__example_order_init(const tn__env *env, uint64_t n,
                               const tn_data_options *options,
                               tn__example_order *out);
void tn__example_order_deinit(const tn__env *env, tn__example_order *order);
/* Begins an epoch with the carried examples that the order has. */
void tn__example_order_begin(tn__example_order *order, uint64_t epoch);
uint64_t tn__example_order_count(const tn__example_order *order);
/* The number of the example at a position of the epoch. */
uint64_t tn__example_order_get(const tn__example_order *order,
                               uint64_t position);

/* -------------------------------------------------------------------- slots */

typedef struct tn__batch_slot {
  const tn__env *env;
  const tn__source *source;
  tn_variable *filled; /* orders the uses of all that follows */
  tn_operation *fill;  /* the job */
  tn_prepared *decode; /* the call of the source's operator, or NULL */
  uint32_t n_host;     /* arrays that the job fills */
  tn_array **host;
  void **to;         /* their memory, for the job */
  tn_array *decoded; /* the result of `decode` on the CPU, or NULL */
  uint32_t n_arrays; /* of the batch */
  tn_array **arrays; /* owned, also if they are those of `host` */
  tn_array **staged; /* the same arrays on the CPU; borrowed */
  uint32_t n;        /* examples of a batch */
  uint64_t *index;   /* their numbers */
  uint64_t number;   /* of the batch */
  uint64_t key;      /* of the epoch */
  uint32_t pad;
  tn__room room; /* for bytes of files, in the job */
} tn__batch_slot;

tn_code tn__batch_slot_init(tn_runtime *rt, const tn__source *source,
                            const tn_data_options *options,
                            tn__batch_slot *out);
/* The slot must be idle. */
void tn__batch_slot_deinit(tn__batch_slot *slot);
/* Pushes the work on the batch that the slot describes. If a part of it could
 * not be pushed, the slot is idle afterwards. */
tn_code tn__batch_slot_push(tn__batch_slot *slot);
/* Waits until the job does not use the slot. */
void tn__batch_slot_drain(tn__batch_slot *slot);
/* Waits until the batch is complete on the host. */
tn_code tn__batch_slot_wait(tn__batch_slot *slot);

/* --------------------------------------------------------------------- data */

struct tn_data {
  tn_runtime *rt;
  const tn__env *env;
  tn__source *source;
  tn_data_options options; /* with defaults filled in */
  tn__example_order order;
  uint64_t n_batches; /* of the epoch */
  uint64_t n_pushed;  /* batches of the epoch that were pushed */
  uint64_t n_taken;   /* batches of the epoch that the host has received */
  uint32_t n_slots;   /* batch i uses slot i % n_slots */
  tn__batch_slot *slots;
};

/* tenon/data.h, with checked arguments. The source belongs to the data set,
 * also if the function fails. */
tn_code tn__data_create(tn_runtime *rt, tn__source *source,
                        const tn_data_options *options, tn_data **out);
void tn__data_release(tn_data *data);
tn_code tn__data_next(tn_data *data, tn_batch *out);
void tn__data_rewind(tn_data *data);
/* Goes to a batch of an epoch whose carried examples are in the order. */
void tn__data_go(tn_data *data, uint64_t epoch, uint64_t batch);
/* Batches of an epoch that begins with this number of carried examples. */
uint64_t tn__data_count(const tn_data *data, uint64_t n_carried);
/* Waits until no slot is in use by a job. */
void tn__data_drain(tn_data *data);

tn_code tn__data_save(const tn_data *data, tn_text **out);
tn_code tn__data_restore(tn_data *data, const char *state);

#endif /* TENON_BATCHES_H_ */
