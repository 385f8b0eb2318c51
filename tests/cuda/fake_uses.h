/* SPDX-License-Identifier: Apache-2.0
 * fake_uses.h: the memory that work of a simulated library reads and writes.
 */
#ifndef TENON_TESTS_CUDA_FAKE_USES_H_
#define TENON_TESTS_CUDA_FAKE_USES_H_

#include "kernels.h"

enum { MOST_USES = 12 };

typedef struct fake_uses {
  const void *at[MOST_USES];
  size_t bytes[MOST_USES];
  size_t n;
} fake_uses;

/* Adds a range of memory, unless the address is NULL. */
static inline void add_use(fake_uses *u, const void *at, int64_t bytes) {
  if (!at) return;
  u->at[u->n] = at;
  u->bytes[u->n++] = (size_t)bytes;
}

/* Completes the work with its memory and enqueues it: a CUresult. */
static inline int submit_uses(cuda_stream stream, fake_work work,
                              const fake_uses *reads, const fake_uses *writes) {
  work.reads = reads->at;
  work.n_reads = reads->n;
  work.read_bytes = reads->bytes;
  work.writes = writes->at;
  work.n_writes = writes->n;
  work.write_bytes = writes->bytes;
  return fake_cuda_submit(stream, &work);
}

#endif /* TENON_TESTS_CUDA_FAKE_USES_H_ */
