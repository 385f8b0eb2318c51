/* SPDX-License-Identifier: Apache-2.0
 * fake_cudnn.h: a cuDNN for the fake driver, with the soname of one. What it
 * computes it computes by plain loops in f64 on the fake's thread, and it
 * notices descriptors that are incomplete, used before they are finalized or
 * after they were destroyed, handles that two threads use at once or on another
 * device than their own, and what is left at the end: fake_cudnn_end says so.
 *
 * By the environment: FAKE_CUDNN_VERSION is what cudnnGetVersion returns;
 * FAKE_CUDNN_NO_FUSION leaves only graphs of one operation with engines, and
 * FAKE_CUDNN_NO_ENGINES none;
 * FAKE_CUDNN_SLOW is the number of an engine that takes some milliseconds more.
 *
 * Engines are as on an H200, in small. The heuristics name, in this order, one
 * that multiplies f32 as TF32, one whose results differ from call to call, one
 * that loses digits of sums in f16 and bf16, and one that is plain; behind them
 * is a fallback without workspace.
 */
#ifndef TENON_TESTS_FAKE_CUDNN_H_
#define TENON_TESTS_FAKE_CUDNN_H_

#include "dnn.h"
#include "fake_cuda.h"

/* What has happened in this process. */
typedef struct fake_cudnn_counts {
  int64_t descriptors; /* that live */
  int64_t handles;
  int64_t plans;    /* made */
  int64_t executed; /* plans, and plain functions */
} fake_cudnn_counts;

fake_cudnn_counts fake_cudnn_counts_get(void);

/* Which engine a plan runs: ENGINE_* of fake_cudnn_conv.h. */
int fake_cudnn_engine(dnn_descriptor plan);

/* "3 descriptors left", or NULL; what is left counts no more. */
const char *fake_cudnn_end(void);

#endif /* TENON_TESTS_FAKE_CUDNN_H_ */
