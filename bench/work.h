/* SPDX-License-Identifier: Apache-2.0
 * The patterns of tasks that `./dev bench engine` measures, as lists of the
 * variables that each task reads and writes, for ours and for the peers alike.
 * The same order exists as edges, for peers that need edges.
 */
#ifndef TENON_BENCH_WORK_H_
#define TENON_BENCH_WORK_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Task i reads vars[first[i]] .. up to the last before first[i + 1], which it
 * writes. */
typedef struct work {
  const char *name;
  size_t n_tasks;
  size_t n_vars;
  size_t times; /* how often in a row it is measured as one */
  uint32_t *first;
  uint32_t *vars;
  size_t capacity; /* of vars */
} work;

enum { WORKS = 5, WORK_USES_MAX = 1024 };

/* A chain, independent tasks, a wavefront, a fan, and the random graph of the
 * engine's tests; NULL after the last. `shrink` divides their number. */
work *work_create(size_t index, size_t shrink);
void work_release(work *w);

/* Tasks that must wait for task i: successors[first[i]] .. [first[i + 1]). */
typedef struct work_edges {
  uint32_t *first;
  uint32_t *successors;
  uint32_t *n_before; /* how many tasks i waits for */
} work_edges;

work_edges *work_edges_create(const work *w);
void work_edges_release(work_edges *e);

#ifdef __cplusplus
}
#endif
#endif /* TENON_BENCH_WORK_H_ */
