/* SPDX-License-Identifier: Apache-2.0
 * stage.h: an engine and three queues of a device that works only when the test
 * demands it.
 */
#ifndef TESTS_ENGINE_STAGE_H_
#define TESTS_ENGINE_STAGE_H_

#include "fixture.h"

enum {
  WAITS = 64,
  NOT_YET = 2000000 /* duration of a wait without success, in nanoseconds */
};

/* A queue of the device. Work is a number that rises when work is enqueued, and
 * another one that rises when it is done. */
typedef struct line {
  struct device *device;
  uint64_t enqueued;
  uint64_t done;
  uint64_t broken; /* first piece of work that fails; 0: none */
} line;

typedef struct point {
  line *line;
  uint64_t number;
} point;

typedef struct device {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool eager;       /* a thread that blocks makes it work */
  bool cannot_wait; /* its queues cannot wait for each other */
  bool refuses;     /* the next call of record or wait */
  int fences;       /* living */
  int blocks;       /* calls of block */
  int queries;      /* and of query */
  int records;      /* calls of record */
  int n_waits;
  struct {
    const line *line;
    point point;
  } waits[WAITS];
} device;

extern const tn__queue_ops line_ops;
/* The same, of another kind of device. */
extern const tn__queue_ops other_line_ops;

/* Everything enqueued so far is done. */
void work_off(line *self);

enum { LINES = 3 };

/* An engine and a device of three queues. */
typedef struct stage {
  tn__engine *engine;
  device device;
  line lines[LINES];
  tn__queue *queues[LINES];
  _Atomic int n; /* functions that ran */
} stage;

void open_queue(stage *self, int i, const tn__queue_ops *which);
void stage_open(stage *self, tn__engine *engine);
/* Destroys everything and asserts that no memory and no fence is left. */
void stage_close(stage *self);

/* Pushes a function named "launch" that enqueues a piece of work. */
tn_code push_on(stage *self, int queue, const tn__access *access, uint32_t n);
/* The function: `arg` is the stage. */
tn_code run_enqueue(void *arg, tn__token *token);
/* Pushes a function of the host that is counted. */
void push_host(stage *self, const tn__access *access, uint32_t n);
tn_code await(stage *self, tn__var *var, uint32_t what, uint64_t ns);
/* Returns when so many functions have run; they may not be complete. */
void await_runs(const stage *self, int n);
/* Returns when all functions are complete, in spite of the device. */
void await_issue(const stage *self);

#endif /* TESTS_ENGINE_STAGE_H_ */
