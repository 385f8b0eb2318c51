/* SPDX-License-Identifier: Apache-2.0
 * Constants that graph.c and its peer share.
 */
#ifndef TENON_BENCH_GRAPH_H_
#define TENON_BENCH_GRAPH_H_

#include <stdint.h>

#define GRAPH_SECONDS 0.05 /* of one measurement of something short */
#define CHAIN_SECONDS 0.5  /* of something long */

enum { GRAPH_NODES = 20 }; /* of the chain of tiny calls */

/* sigmoid(a x^2 + b x + c), in six calls. */
#define CHAIN_A 0.5
#define CHAIN_B -1.25
#define CHAIN_C 0.75
static const int64_t chain_sizes[] = {65536, 1048576, 16777216};

#endif /* TENON_BENCH_GRAPH_H_ */
