/* SPDX-License-Identifier: Apache-2.0
 * random_net.h: makes nets from a seed, for properties that hold for every net.
 * A machine runs a plan on tags instead of numbers.
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
/* Returns a number below n. */
uint32_t random_below(uint64_t *state, uint32_t n);

/* Makes a net of any kind that the planner accepts. `out` holds all of it. */
void random_net_make(random_net *out, uint64_t seed);

/* Runs the plan. Every node checks the tags of its inputs. Then it writes tags
 * to its workspace and to its outputs as their requests demand, in the memory
 * of the plan. Returns NULL if every node found the tags that were written for
 * it, else a message. */
const char *run_plan(const tn__plan_net *net, const tn__memory_plan *plan);

/* Returns the most bytes of entries and workspaces that are live at one node of
 * a device, each storage counted once. */
size_t live_peak(const tn__plan_net *net, const tn__memory_plan *plan,
                 int32_t device);

#endif /* TESTS_PLAN_RANDOM_NET_H_ */
