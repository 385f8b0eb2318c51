/* SPDX-License-Identifier: Apache-2.0
 * fake_cuda.h: a CUDA driver without a GPU, for tests. It is a shared object
 * with the driver's soname, libcuda.so.1, so a program that links it has it
 * opened in the place of the driver. Streams, events, copies and memory are
 * those of tests/storage/fake.h: one thread that executes late, in an order
 * among streams that follows from a seed, and notices missing waits, the
 * release of memory in use, and addresses of the wrong device. Kernels are C++
 * compiled for the host (include/cuda_runtime.h).
 *
 *   fake_cuda_begin(&(fake_cuda_options){.devices = 2, .seed = 7});
 *   ... load plugins, compute, release the runtime ...
 *   cr_assert_null(fake_cuda_end(), ...);
 *
 * Between begin and end, fake_counts_get(fake_cuda()) and the rest of fake.h
 * report and control the execution.
 */
#ifndef TENON_TESTS_FAKE_CUDA_H_
#define TENON_TESTS_FAKE_CUDA_H_

#include "fake.h"

/* Zero means the default. */
typedef struct fake_cuda_options {
  int devices;         /* none: cuDeviceGetCount says so */
  int version;         /* 13000 */
  int init;            /* result of cuInit: 0 */
  int no_pools;        /* the devices have no memory pools */
  uint64_t bytes;      /* memory of each device: no limit */
  uint64_t seed;       /* of the order among streams, and of blocks */
  uint32_t latency_us; /* of each command */
  bool lazy;           /* as fake_options.lazy */
} fake_cuda_options;

void fake_cuda_begin(const fake_cuda_options *options);

/* The first broken rule, or the objects that were not freed ("2 events"). NULL
 * if there is none. Valid until the next begin. */
const char *fake_cuda_end(void);

fake *fake_cuda(void);

/* From now on every function returns `result` for the device, as after a GPU
 * fell off its bus; 0: it is there again, for the end of a test. */
void fake_cuda_lose(int device, int result);

/* From now on another library records in another thread, in the usual mode:
 * calls that may disturb it are refused and reported, unless the thread has
 * chosen the relaxed mode. */
void fake_capture_elsewhere(bool on);

/* How often contexts are retained, all together. */
int fake_cuda_contexts(void);

/* Freed memory that pools keep. */
uint64_t fake_cuda_pooled(void);

/* The n-th call from now on that takes memory (1: the next; 0: none) finds
 * none, and all after it if `for_ever`. Returns how many calls there were since
 * the last time. */
int64_t fake_cuda_starve(int64_t n, bool for_ever);

/* Counts of graphs since begin. */
typedef struct fake_graph_counts {
  int begun; /* recordings */
  int created;
  int launched;
} fake_graph_counts;
fake_graph_counts fake_graph_counts_get(void);

enum { /* fake_graph_refusal.call */
       FAKE_CAPTURE_BEGIN = 1,
       FAKE_CAPTURE_END = 2,
       FAKE_GRAPH_CREATE = 3,
       FAKE_GRAPH_LAUNCH = 4
};

/* The next such call returns `result` and does nothing else. */
typedef struct fake_graph_refusal {
  int call;
  int result;
} fake_graph_refusal;
void fake_graph_refuse(const fake_graph_refusal *what);

#endif /* TENON_TESTS_FAKE_CUDA_H_ */
