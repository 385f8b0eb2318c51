/* SPDX-License-Identifier: Apache-2.0
 * stage.h: an allocator that counts and can fail, an engine, and devices
 * without a runtime.
 */
#ifndef TENON_TESTS_STAGE_H_
#define TENON_TESTS_STAGE_H_

#include "storage.h"

/* The C library's allocator; any thread may use it. */
typedef struct meter {
  _Atomic int64_t n_live;
  _Atomic int64_t n_calls;
  int64_t fail_at; /* this call fails, counted from 1; 0: none */
} meter;

typedef struct stage {
  meter memory;
  tn__env env;
  tn__engine *engine;
  tn__devices *devices;
  tn__device *cpu;
} stage;

void stage_open(stage *s);
void stage_open_limited(stage *s, const tn_memory_limit *limits, size_t n);
/* Asserts that no allocation is left. */
void stage_close(stage *s);
/* Like open, but returns the code of a failure and asserts nothing. After a
 * failure nothing is left. */
tn_code stage_try(stage *s, const tn_memory_limit *limits, size_t n);

/* Copies a whole block through the engine, on the right queue. */
tn_code stage_copy(stage *s, tn__block *to, tn__block *from);
/* Returns a materialised block of the device. */
tn__block *stage_block(tn__device *device, size_t bytes);

/* Asserts that the thread's error text has this part. */
void expect_text(const char *part);

#endif /* TENON_TESTS_STAGE_H_ */
