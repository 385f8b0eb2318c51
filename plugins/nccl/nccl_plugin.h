/* SPDX-License-Identifier: Apache-2.0
 * nccl_plugin.h: the types and functions that the files of this plugin share.
 *
 * files: library.c   NCCL and the driver, loaded at run time
 *        member.c    communicators: the membership of a group on a device
 *        begin.c     calls from the kernel to the thread
 *        calls.c     the thread that makes the calls of a runtime
 *        failures.c  reasons of failures, and the end of waits
 *        reduce.c    comm.all_reduce, reduce_scatter, reduce, barrier
 *        gather.c    comm.all_gather, broadcast, all_to_all
 *        pairs.c     comm.send, recv
 *        nccl.c      init and fini
 *
 * A call has two parts. The kernel lists the functions of NCCL that it needs,
 * and returns TN_LATER. The thread of the plugin enqueues them on the stream of
 * the group, waits for their end, and completes the call.
 */
#ifndef NCCL_NCCL_PLUGIN_H_
#define NCCL_NCCL_PLUGIN_H_

#include <pthread.h>
#include <stdatomic.h>

#include "library.h"
#include "tenon/plugin/comm.h"
#include "tenon/plugin/device_scope.h"

/* The membership of a group on one device. Its communicator is used by the
 * thread of calls, and by close when no call is left. */
typedef struct nccl_member {
  struct nccl_instance *instance;
  int32_t device_id;
  void *comm; /* NULL after an abort */
  void *stream;
  void *done;             /* event after the last call */
  _Atomic uint64_t ended; /* when its calls began to fail; 0: they do not */
} nccl_member;

/* A function of NCCL on one array, or work before and after it. */
enum {
  NCCL_ALL_REDUCE,
  NCCL_REDUCE_SCATTER,
  NCCL_REDUCE,
  NCCL_ALL_GATHER,
  NCCL_BROADCAST,
  NCCL_SEND,
  NCCL_RECV,
  NCCL_FILL, /* with `byte` */
  NCCL_COPY
};

typedef struct nccl_piece {
  int kind;
  int type; /* of NCCL */
  int op;   /* of NCCL */
  int peer; /* the root, or the other rank */
  int byte;
  const void *from;
  void *to;
  size_t n; /* elements; FILL and COPY: bytes */
} nccl_piece;

/* The description of a call. */
typedef struct nccl_request {
  const char *name; /* of the operator */
  const char *group;
  const char *op; /* parameter of the operator, or NULL */
  int64_t root;   /* rank in the parameters; -1: none */
  int is_message; /* only two ranks make this call */
  uint32_t room;  /* most pieces */
} nccl_request;

enum { NCCL_CALL_TEXT = 240 };

/* A call, from its begin to its completion. */
typedef struct nccl_call {
  struct nccl_call *next;
  const tn_frame *frame;
  tn_later *later;
  tn_comm_group group;
  nccl_request request;
  void *ready; /* event after which the inputs are complete */
  uint32_t n;
  nccl_piece pieces[];
} nccl_call;

/* State of the plugin for one runtime: frame->instance. */
typedef struct nccl_instance {
  const tn_device_scope *scope;
  const tn_comm *comm;
  nccl_library library;
  tn_comm_device device;
  int is_offered; /* to `comm` */
  pthread_mutex_t lock;
  pthread_cond_t changed;
  pthread_t thread;
  int has_thread; /* the following are under `lock` */
  int is_ending;
  nccl_call *first; /* calls that have not begun */
  nccl_call *last;
  nccl_call *current; /* of the thread of calls alone */
} nccl_instance;

/* ----------------------------------------------------------------- begin.c */

/* Begins a call. TN_OK, or a code after TN_FAIL. *out is NULL then, and also if
 * the call cannot run (TN_CALL_TOLD), which breaks the group. The caller passes
 * *out to nccl_push. [worker] */
int32_t nccl_begin(const tn_frame *frame, const nccl_request *request,
                   nccl_call **out);

/* Adds a piece, unless it has no elements. [worker] */
void nccl_add(nccl_call *call, const nccl_piece *piece);

/* Ends the list of pieces, and passes the call to the thread. Returns the
 * result of compute. [worker] */
int32_t nccl_push(nccl_call *call);

/* The type of NCCL for sums of elements; -1: there is none. [any] */
int nccl_get_type(tn_dtype dtype);

/* "f32" [any] */
const char *nccl_name_dtype(tn_dtype dtype);

/* Adds a move of all elements of `array` as bytes. [worker] */
void nccl_add_move(nccl_call *call, int kind, const tn_tensor *array,
                   const nccl_piece *piece);

/* ---------------------------------------------------------------- member.c */

/* Fills in instance->device. [load] */
void nccl_fill_device(nccl_instance *self);

/* Ends the calls of the member: their kernels return. [any] */
void nccl_end_member(nccl_member *member);

static inline int nccl_has_ended(const nccl_member *member) {
  return atomic_load(&member->ended) != 0;
}

/* -------------------------------------------------------------- failures.c */

/* Why a wait ends: TN_OK, or a code and the reason. `begin` is the time at
 * which the call began; timeout_ms 0: five minutes. [any] */
int32_t nccl_check_wait(nccl_instance *self, const nccl_member *member,
                        uint64_t begin, uint32_t timeout_ms,
                        tn_comm_reason *why);

/* Waits before the next poll, longer after a longer wait; an end of a member
 * ends it. [any] */
void nccl_pause(nccl_instance *self, uint64_t begin);

/* Nanoseconds of a clock that never jumps. [any] */
uint64_t nccl_get_time(void);

/* The reason of a result of NCCL; returns its code. `comm` may be NULL. [any]
 */
int32_t nccl_explain(nccl_instance *self, void *comm, int32_t device_id,
                     int result, tn_comm_reason *why);

/* The same for a result of the driver. [any] */
int32_t nccl_explain_driver(nccl_instance *self, int32_t device_id, int result,
                            const char *action, tn_comm_reason *why);

/* ----------------------------------------------------------------- calls.c */

/* Hands a call to the thread. [any] */
void nccl_hand_over(nccl_instance *self, nccl_call *call);

/* Starts the thread. TN_OK or TN_OUT_OF_MEMORY. [load] */
int32_t nccl_calls_open(nccl_instance *self);
/* Ends it. [load] */
void nccl_calls_close(nccl_instance *self);

#endif /* NCCL_NCCL_PLUGIN_H_ */
