/* SPDX-License-Identifier: Apache-2.0
 * fake_cudnn.h: a cuDNN for the fake driver, with the soname of one. It
 * computes with plain loops in f64 on the fake's thread. It notices descriptors
 * that are incomplete, used before they are finalized or after they were
 * destroyed; handles that two threads use at once or on another device than
 * their own; and objects that are left at the end, which fake_cudnn_end
 * reports.
 *
 * Environment variables: FAKE_CUDNN_VERSION is the result of cudnnGetVersion;
 * FAKE_CUDNN_NO_FUSION leaves only graphs of one operation with engines, and
 * FAKE_CUDNN_NO_ENGINES none; FAKE_CUDNN_SLOW is the number of an engine that
 * takes some milliseconds more; FAKE_CUDNN_FAILS is the name of a function of
 * recurrent layers that fails; FAKE_CUDNN_ORDER puts each bias of these after
 * its matrix.
 *
 * Engines are as on an H200, in small. The heuristics name, in this order, one
 * that multiplies f32 as TF32, one with results that differ from call to call,
 * one that loses digits of sums in f16 and bf16, and one that is plain; a
 * fallback without workspace follows them.
 */
#ifndef TENON_TESTS_FAKE_CUDNN_H_
#define TENON_TESTS_FAKE_CUDNN_H_

#include "dnn.h"
#include "fake_cuda.h"

/* Counts of calls in this process. */
typedef struct fake_cudnn_counts {
  int64_t descriptors; /* that live, of every kind */
  int64_t handles;
  int64_t plans;    /* made */
  int64_t executed; /* plans, and plain functions */
} fake_cudnn_counts;

fake_cudnn_counts fake_cudnn_counts_get(void);

/* Which engine a plan runs: ENGINE_* of fake_cudnn_conv.h. */
int fake_cudnn_engine(dnn_descriptor plan);

/* "3 descriptors left", or NULL; later calls do not count these again. */
const char *fake_cudnn_end(void);

#endif /* TENON_TESTS_FAKE_CUDNN_H_ */
