/* SPDX-License-Identifier: Apache-2.0
 * lenet_net.h: a small network of convolutions (after LeCun et al., 1998) for
 * digits of 8 x 8 pixels, as learner.h takes it.
 */
#ifndef EXAMPLES_LENET_NET_H_
#define EXAMPLES_LENET_NET_H_

#include "learner.h"

/* learner_net.build: from `data`, a batch of images (n,1,8,8). */
tn_code lenet_build(tn_graph *g, tn_entry *head);

/* The same, with layers that `add` makes, as learner_layer does. */
typedef tn_code lenet_layer(tn_graph *g, const char *op, const char *params,
                            const char *name, tn_entry *head);
tn_code lenet_build_of(tn_graph *g, lenet_layer *add, tn_entry *head);

/* learner_net.rate of so many epochs. */
enum { LENET_EPOCHS = 36 };
double lenet_rate(int epoch);

#endif /* EXAMPLES_LENET_NET_H_ */
