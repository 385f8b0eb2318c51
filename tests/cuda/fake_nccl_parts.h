/* SPDX-License-Identifier: Apache-2.0
 * fake_nccl_parts.h: declarations shared by the files of the simulated NCCL.
 *
 * files: fake_nccl.c       communicators, groups, the functions of NCCL
 *        fake_nccl_work.c  exchanges: commands on streams, and their values
 */
#ifndef TENON_TESTS_CUDA_FAKE_NCCL_PARTS_H_
#define TENON_TESTS_CUDA_FAKE_NCCL_PARTS_H_

#include "fake_uses.h"
#include "fake_work.h"
#include "library.h"

enum { MOST_RANKS = 8, KEY_BYTES = 128 };

enum { /* fake_exchange.kind */
       FAKE_ALL_REDUCE,
       FAKE_REDUCE,
       FAKE_REDUCE_SCATTER,
       FAKE_ALL_GATHER,
       FAKE_BROADCAST,
       FAKE_SEND,
       FAKE_RECV
};

/* The exchange of all ranks at one position, or a message. */
typedef struct fake_round {
  struct fake_round *next;
  int64_t position;   /* of a message: among those of its two ranks */
  int source, target; /* of a message; -1: all ranks */
  int kind, type, op, peer;
  size_t n;
  int n_arrived, n_left;
  char *inputs[MOST_RANKS];
} fake_round;

struct fake_comm;

/* The communicators with one key. */
typedef struct fake_world {
  struct fake_world *next;
  nccl_key key;
  int size;
  int n_joined;
  struct fake_comm *comms[MOST_RANKS];
  fake_round *rounds;
} fake_world;

struct fake_exchange;

typedef struct fake_comm {
  fake_world *world;
  int rank;
  int device;
  int is_aborted;
  int is_finalized;
  int n_polls;
  int64_t position;
  int64_t n_sent[MOST_RANKS], n_received[MOST_RANKS];
  struct fake_exchange *pending; /* of the group */
} fake_comm;

/* One function of NCCL. */
typedef struct fake_exchange {
  struct fake_exchange *next;
  int kind, type, op, peer; /* -1: none */
  size_t n;
  const void *from;
  void *to;
  fake_comm *comm;
  cuda_stream stream;
  fake_round *round;
} fake_exchange;

/* The lock of all of this. Functions of the fake driver are not called with
 * it. */
void fake_nccl_lock(void);
void fake_nccl_unlock(void);

/* Checks the arguments, and finds the round: 0, or a broken rule. */
int fake_nccl_prepare(fake_exchange *e);
/* Enqueue the two commands of an exchange; the second one frees it. */
void fake_nccl_submit_input(fake_exchange *e);
void fake_nccl_submit_output(fake_exchange *e);

#endif /* TENON_TESTS_CUDA_FAKE_NCCL_PARTS_H_ */
