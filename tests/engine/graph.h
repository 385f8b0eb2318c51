/* SPDX-License-Identifier: Apache-2.0
 * graph.h: random tasks. Each task writes a hash of everything that it reads,
 * so two conflicting tasks in the wrong order leave other numbers than a serial
 * run. Uses no test framework, because stress programs include it.
 *
 *   graph_make(tasks, n, &(graph_kind){.n_places = 20, .seed = 7});
 *   graph_reset(places, 20);      the result of a serial run:
 *   graph_serial(tasks, n, places);
 *   graph_reset(others, 20);      and the result of the engine:
 *   for each task: tn__push(engine, &job) with job = graph_job(...)
 *   tn__wait_all(engine);
 *   graph_difference(engine, places, others, 20) == -1
 */
#ifndef TESTS_ENGINE_GRAPH_H_
#define TESTS_ENGINE_GRAPH_H_

#include "engine.h"

enum { GRAPH_READS = 20, GRAPH_WRITES = 2 };
enum { GRAPH_ACCESSES = GRAPH_READS + GRAPH_WRITES };

typedef struct place {
  tn__var var;
  uint64_t value;
  bool bad; /* in the serial run: it carries an error */
} place;

typedef struct task {
  place *places; /* the places that it uses */
  uint32_t n_reads;
  uint32_t n_writes;
  bool update; /* reads the places that it writes */
  bool fails;
  uint8_t reads[GRAPH_READS]; /* may name a place twice, or one it writes */
  uint8_t writes[GRAPH_WRITES];
  uint64_t salt;
  int32_t priority;
  uint32_t flags;
} task;

enum {
  GRAPH_SOME_SMALL,
  GRAPH_ALL_SMALL,
  GRAPH_NONE_SMALL,
  GRAPH_MOST_SMALL, /* runs of small ones */
  GRAPH_SMALLS
};

typedef struct graph_kind {
  uint64_t seed;
  uint32_t n_places;   /* at most 256 */
  uint32_t most_reads; /* at least 3; 0: GRAPH_READS */
  uint32_t small;      /* GRAPH_SOME_SMALL ... */
  uint32_t failing;    /* one in so many tasks fails; 0: none */
} graph_kind;

void graph_make(task *tasks, size_t n, const graph_kind *kind);
void graph_reset(place *places, uint32_t n);
/* Runs the tasks in order, without an engine, and predicts the errors. */
void graph_serial(task *tasks, size_t n, place *places);
/* The job of a task on these places; `access` has room for GRAPH_ACCESSES. */
tn__job graph_job(task *self, place *places, tn__access *access);
/* Waits for each place. Returns the first one with another value or error state
 * than expected; -1: none. */
int graph_difference(tn__engine *engine, const place *expected, place *found,
                     uint32_t n);
/* Drops the errors that the variables carry. */
void graph_deinit(place *places, uint32_t n);

/* xorshift64*: any reproducible sequence does. */
uint64_t next_random(uint64_t *state);

#endif /* TESTS_ENGINE_GRAPH_H_ */
