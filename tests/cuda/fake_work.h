/* SPDX-License-Identifier: Apache-2.0
 * fake_work.h: what the files of the played driver know of each other.
 *
 * files: fake_cuda.c  contexts, memory, pools, streams, events
 *        fake_work.c  what streams are given: copies, fills, kernels; graphs
 *        kernels.c    kernels that a compiler of the host has compiled
 */
#ifndef TENON_TESTS_CUDA_FAKE_WORK_H_
#define TENON_TESTS_CUDA_FAKE_WORK_H_

#include "driver.h"
#include "fake_cuda.h"

#define DECLARE(field, symbol, arguments) int symbol arguments;
CUDA_DRIVER_FUNCTIONS(DECLARE)
CUDA_GRAPH_FUNCTIONS(DECLARE)
#undef DECLARE

enum { /* CUresult: those that only the played driver returns */
       INVALID_VALUE = 1,
       INVALID_CONTEXT = 201,
       CAPTURE_UNSUPPORTED = 900,
       CAPTURE_INVALIDATED = 901,
       CAPTURE_WRONG_THREAD = 908
};

struct CUctx_st {
  int device;
};

struct CUstream_st {
  struct CUstream_st *next; /* of those that are open */
  void *queue;
  int device;
  cuda_graph recording; /* what it is given goes there; NULL: it executes */
};

/* The device of the stream has to be current and to work: a result. */
int fake_enter_stream(const struct CUstream_st *stream);
/* What the table answers, as a result; a queue that failed takes the device
 * with it. */
int fake_result_of(int32_t code, int device);

/* CUDA_OK, or what the device was lost by. */
int fake_lost(int device);

/* A rule of threads that record: none of them does what `what` says. Then the
 * recording is spoilt: CAPTURE_UNSUPPORTED. */
int fake_capture_forbids(const char *what);
/* How many graphs are left, which are then gone. */
int fake_graphs_end(void);

#endif /* TENON_TESTS_CUDA_FAKE_WORK_H_ */
