/* SPDX-License-Identifier: Apache-2.0
 * cusolver.h: the types and functions that the files of this plugin share.
 *
 * files: library.c     cuSOLVER and cuBLAS, loaded at run time
 *        lapack.c      tasks on a device, as "lapack.cuda/1"
 *        moves.cu      copies of matrices, and the kernels after a task
 *        call.c        the decision, the workspace and the tasks of a call
 *        triangular.c  linalg.trmm, trsm, and parts of their gradients
 *        cholesky.c    linalg.potrf, cholesky, potri
 *        solve.c       linalg.inverse, det, slogdet, solve
 *        orthogonal.c  linalg.gelqf, qr
 *        spectral.c    linalg.syevd, svd
 *        cusolver.c    init and fini
 */
#ifndef CUSOLVER_CUSOLVER_H_
#define CUSOLVER_CUSOLVER_H_

#include <pthread.h>

#include "library.h"
#include "moves.h"
#include "tenon/plugin/device_lapack.h"
#include "tenon/plugin/device_scope.h"

/* ---------------------------------------------------------------- lapack.c */

/* Handles of both libraries on one device. Their own workspaces belong to the
 * work of one stream, so a stream keeps its handles. */
typedef struct cusolver_handles {
  struct cusolver_handles *next;
  void *solver;
  void *blas;
  void *stream; /* NULL: no work was enqueued yet */
  int is_busy;  /* a thread uses them */
} cusolver_handles;

/* State of the plugin for one runtime: call->instance. */
typedef struct cusolver_instance {
  const tn_device_scope *scope;
  solver_library library;
  tn_device_lapack lapack;
  pthread_mutex_t lock;
  cusolver_handles **devices; /* lists, under `lock` */
} cusolver_instance;

/* Fills in instance->lapack: TN_OK or TN_OUT_OF_MEMORY. [load] */
int32_t cusolver_lapack_open(cusolver_instance *instance);
/* Destroys the handles. [load] */
void cusolver_lapack_close(cusolver_instance *instance);

/* ------------------------------------------------------------------ call.c */

/* The matrices of a call. */
typedef struct cusolver_sizes {
  int64_t count;
  int64_t m;
  int64_t n;
} cusolver_sizes;

/* Sizes by the last two dimensions of a tensor. [any] */
cusolver_sizes cusolver_find_sizes(const tn_tensor *tensor);

/* Decides whether the libraries compute a call: TN_OK, or TN_UNSUPPORTED after
 * TN_FAIL. `least` is the option of the kernel. `has_batch`: the libraries have
 * a function for many matrices. [any] */
int32_t cusolver_decide(const tn_frame *call, int64_t least, int has_batch);

/* The workspace of a call as parts, each aligned to 256 bytes. The same code
 * takes them before the call, when it counts bytes, and in it. */
typedef struct cusolver_room {
  char *at;       /* NULL before the call */
  uint64_t bytes; /* of the parts so far */
} cusolver_room;

/* The room of a call, with its flags and two lists in it. [any] */
typedef struct cusolver_parts {
  cusolver_room room;
  cusolver_flags flags;
  void **a_list;
  void **b_list;
} cusolver_parts;

cusolver_parts cusolver_begin_parts(const tn_frame *call, int64_t count);

/* The next part, of `n` elements of the call's type. [any] */
void *cusolver_take(const tn_frame *call, cusolver_room *room, int64_t n);
/* The next part, of `n` numbers of 32 bits. [any] */
int32_t *cusolver_take_numbers(cusolver_room *room, int64_t n);
/* The memory of output k, or the next part if it was not requested. [any] */
void *cusolver_take_output(const tn_frame *call, cusolver_room *room,
                           uint32_t k);

/* A task for dense matrices m x n; a has n columns, and so has b. [any] */
tn_device_task cusolver_describe(const tn_frame *call,
                                 const cusolver_parts *parts, uint32_t kind,
                                 const cusolver_sizes *sizes);

/* Bytes of the parts, and of the largest workspace of `n` tasks after them.
 * TN_OK, or a code after TN_FAIL. [any] */
int32_t cusolver_count_bytes(const tn_frame *call, const cusolver_parts *parts,
                             const tn_device_task *tasks, int n,
                             uint64_t *bytes);

/* Enqueues a task. Its workspace follows the parts. [worker] */
int32_t cusolver_run(const tn_frame *call, const cusolver_parts *parts,
                     tn_device_task *task);

/* Clears the flags, and writes the lists of a task of several matrices with the
 * addresses and steps a and b; an operand without address has none. [worker] */
int32_t cusolver_begin(const tn_frame *call, const cusolver_parts *parts,
                       const tn_device_task *task);

/* A move of whole dense matrices `sizes`; the source of a transposed one has
 * sizes->m columns. [any] */
cusolver_move cusolver_move_all(const cusolver_sizes *sizes, const void *from,
                                void *to, int transposes);

/* The first task of a call: begins, copies its operand in, and enqueues the
 * task. [worker] */
int32_t cusolver_run_first(const tn_frame *call, const cusolver_parts *parts,
                           tn_device_task *task, const cusolver_move *in);

/* Copies a result to output k, if the output was requested. [worker] */
int32_t cusolver_write_output(const tn_frame *call, const cusolver_parts *parts,
                              uint32_t k, const cusolver_move *move);

#endif /* CUSOLVER_CUSOLVER_H_ */
