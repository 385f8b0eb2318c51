/* SPDX-License-Identifier: Apache-2.0
 * run_frame.h: the functions of engines that a thread is inside of.
 */
#ifndef TENON_VARIABLES_RUN_FRAME_H_
#define TENON_VARIABLES_RUN_FRAME_H_

#include "job.h"

/* A function that this thread runs. Frames are on the stack. */
typedef struct tn__run_frame {
  struct tn__run_frame *outer;
  tn__engine *engine;
  /* The job of a function that runs under the gate without grants; NULL once it
   * has grants. */
  const tn__job *job;
  tn__operation *operation;
  tn__token *token; /* NULL: it has none yet */
  uint32_t depth;   /* from 0 */
  uint32_t flags;   /* TN__TOKEN_EPOCH, for its pushes; TN__FRAME_* */
} tn__run_frame;

enum {
  TN__FRAME_GATE = 1u << 0, /* runs inside of the gate */
  TN__FRAME_SYNC = 1u << 1, /* is over when it returns */
  TN__FRAME_END = 1u << 2,  /* its operation is deleted */
  TN__FRAME_TOLD = 1u << 3, /* only told that it cannot run (TN__JOB_TOLD) */
  TN__DEPTH_MAX = 16 /* of functions that run inside of a push, and of nested
                        drops; deeper pushes go to the pool */
};

extern _Thread_local tn__run_frame *tn__run_frame_top
    __attribute__((tls_model("initial-exec")));

/* Number of drops that this thread is inside of. */
extern _Thread_local uint32_t tn__drop_depth
    __attribute__((tls_model("initial-exec")));

/* Calls `drop` unless it is NULL. */
static inline void tn__call_drop(void (*drop)(void *arg), void *arg) {
  if (drop == NULL) return;
  ++tn__drop_depth;
  drop(arg);
  --tn__drop_depth;
}

/* The innermost frame of this engine, or NULL. */
static inline tn__run_frame *tn__run_frame_of(const tn__engine *engine) {
  tn__run_frame *frame = tn__run_frame_top;
  while (frame != NULL && frame->engine != engine) frame = frame->outer;
  return frame;
}
/* True if this thread runs a function of the engine. */
static inline bool tn__is_inside(const tn__engine *engine) {
  return tn__run_frame_of(engine) != NULL;
}
/* TN_INVALID if the caller is inside of a function or between tn__gate_enter
 * and tn__gate_leave. */
tn_code tn__check_outside(const tn__engine *engine, const char *action);

#endif /* TENON_VARIABLES_RUN_FRAME_H_ */
