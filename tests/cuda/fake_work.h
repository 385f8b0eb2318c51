/* SPDX-License-Identifier: Apache-2.0
 * fake_work.h: declarations shared by the files of the simulated driver.
 *
 * files: fake_cuda.c  contexts, memory, pools, streams, events
 *        fake_work.c  work of streams: copies, fills, kernels; graphs
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

enum { /* CUresult: those that only the simulated driver returns */
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
  cuda_graph recording; /* the recording that gets its work; NULL: it executes
                         */
};

/* The device of the stream has to be current and to work: a result. */
int fake_enter_stream(const struct CUstream_st *stream);
/* The result of a function of the table as a CUresult. A failed queue makes its
 * device lost. */
int fake_result_of(int32_t code, int device);

/* CUDA_OK, or the cause of the device's loss. */
int fake_lost(int device);

/* A rule of threads that record: none of them does the action in the text
 * `what`. Otherwise the recording is invalid: CAPTURE_UNSUPPORTED. */
int fake_capture_forbids(const char *what);
/* How many graphs are left, which are then gone. */
int fake_graphs_end(void);

#endif /* TENON_TESTS_CUDA_FAKE_WORK_H_ */
