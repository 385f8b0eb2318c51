/* SPDX-License-Identifier: Apache-2.0
 * digits_net.h: shared by the programs that learn digits: arrays, the main
 * function, and the network of train_digits.c and train_digits_eager.c.
 */
#ifndef EXAMPLES_DIGITS_NET_H_
#define EXAMPLES_DIGITS_NET_H_

#include <tenon/tenon.h>

#include "digits.h"

/* Fully connected layers; each has weights, followed by a bias.
 */
enum { NET_LAYERS = 3, NET_WEIGHTS = 2 * NET_LAYERS, NET_EPOCHS = 50 };
extern const int64_t net_widths[NET_LAYERS + 1];

/* Goes to `fail` with a text of the library. */
#define TRY(call) \
  if ((call) != TN_OK) goto fail

/* An array of these elements, or of zeros. */
tn_code net_array(tn_runtime *rt, tn_place place, int32_t ndim,
                  const int64_t *shape, const float *values, tn_array **out);
/* Between which bounds weights are drawn that connect so many, so that the size
 * of signals stays (Glorot and Bengio, 2010). */
double net_limit(size_t n_in, size_t n_out);
/* Arrays of zeros of the weights' shapes. */
tn_code net_zeros(tn_runtime *rt, tn_array *out[NET_WEIGHTS]);
/* Weights drawn between their bounds, biases of zero. */
tn_code net_weights(tn_runtime *rt, digits_random *random,
                    tn_array *out[NET_WEIGHTS]);
/* The length of the steps: shorter in every epoch, the first of which is 1. */
double net_rate(int epoch);
/* Takes the probabilities that came out for n rows into the score. */
tn_code net_count(tn_array *out, const float *labels, size_t n,
                  digits_score *score);

/* Trains a network, prints a line per epoch, and leaves the last score of the
 * rows that were not learned from. */
typedef tn_code net_train(tn_runtime *rt, const digits *d,
                          digits_score *tested);
/* The main function: PROGRAM DIGITS.csv.gz [PLUGIN.so ...]. 0 if at least so
 * many in a hundred of these rows came out right. */
int net_main(int argc, char **argv, unsigned percent, net_train *train);

#endif /* EXAMPLES_DIGITS_NET_H_ */
