/* SPDX-License-Identifier: Apache-2.0
 * random_net.h: nets of a seed, for properties that hold of every net; and a
 * machine that runs a plan on tags instead of numbers.
 */
#ifndef TESTS_PLAN_RANDOM_NET_H_
#define TESTS_PLAN_RANDOM_NET_H_

#include "plan.h"

enum { RANDOM_MAX_NODES = 60, RANDOM_MAX_IN = 4, RANDOM_MAX_OUT = 3 };

typedef struct random_net {
  tn__plan_net net;
  uint64_t state;
  uint32_t n_devices;
  tn__plan_node nodes[RANDOM_MAX_NODES];
  tn__plan_entry entries[RANDOM_MAX_NODES * RANDOM_MAX_OUT + RANDOM_MAX_IN];
  uint32_t in[RANDOM_MAX_NODES][RANDOM_MAX_IN];
  bool ignored[RANDOM_MAX_NODES][RANDOM_MAX_IN];
  tn__plan_pair pairs[RANDOM_MAX_NODES][3];
  uint32_t after[RANDOM_MAX_NODES][1];
} random_net;

uint64_t random_next(uint64_t *state);
/* Below n. */
uint32_t random_below(uint64_t *state, uint32_t n);

/* Nets of every kind that the planner accepts; `out` holds all of it. */
void random_net_make(random_net *out, uint64_t seed);

/* Runs the plan: every node reads the tags of what it reads, writes tags over
 * its workspace and its outputs as its requests say, in the memory where the
 * plan has them. NULL if everybody found what had been written for them, or
 * what went wrong. */
const char *run_plan(const tn__plan_net *net, const tn__memory_plan *plan);

/* The most bytes of entries and workspaces that are live at one node of a
 * device, each storage counted once. */
size_t live_peak(const tn__plan_net *net, const tn__memory_plan *plan,
                 int32_t device);

#endif /* TESTS_PLAN_RANDOM_NET_H_ */
