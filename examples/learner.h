/* SPDX-License-Identifier: Apache-2.0
 * learner.h: trains a network, passed as a graph, on digits. Forward, gradients
 * and a step of every weight are one program. A second program, on the same
 * weights, computes the rows that are not used for training.
 *
 * A network is a function that adds its layers to a graph:
 *
 *   static tn_code build(tn_graph *g, tn_entry *head) {
 *     tn_code rc = tn_graph_variable(g, "data", NULL, head);
 *     if (!rc) rc = learner_layer(g, "nn.fully_connected", "num_hidden=10",
 *                                 "fc1", head);
 *     if (!rc) rc = learner_layer(g, "nn.softmax_output", NULL,
 *                                 "softmax", head);
 *     return rc;
 *   }
 *
 * Its other variables are weights: their shapes are inferred.
 */
#ifndef EXAMPLES_LEARNER_H_
#define EXAMPLES_LEARNER_H_

#include <tenon/graph.h>

#include "digits.h"

/* The network and its settings. */
typedef struct learner_net {
  /* From a variable `data` to a `softmax_output` named `softmax`. */
  tn_code (*build)(tn_graph *g, tn_entry *head);
  int32_t ndim; /* of `data`: a batch of rows of this shape; shape[0] is not
                   read */
  int64_t shape[4];
  int epochs;
  double (*rate)(int epoch); /* lr of an epoch, the first of which is 1 */
  const char *update;        /* other parameters of optim.sgd_mom_update */
  tn_place place;
  uint32_t flags;    /* TN_BIND_* of the program that learns */
  const char *trace; /* a file for a trace of one step, or NULL */
} learner_net;

/* Results of the training. */
typedef struct learner_report {
  digits_score learned; /* rows that were, through the last epoch */
  digits_score tested;  /* rows that were not, at the end */
  double seconds;       /* of all steps, without the evaluations between them */
  long n_steps;
  int captured; /* steps were launched as one, at the end */
} learner_report;

/* Adds a layer: a call on *head, which becomes its first output. Variables for
 * weights come by themselves, named `<name>_weight` and so on. */
tn_code learner_layer(tn_graph *g, const char *op, const char *params,
                      const char *name, tn_entry *head);

/* The same with inputs of any number; *out becomes the first output. */
tn_code learner_call(tn_graph *g, const char *op, const char *params,
                     const char *name, uint32_t n, const tn_entry *in,
                     tn_entry *out);

/* Trains the network, and prints a line per epoch. TN_OK, or a code with
 * tn_error_text(). */
tn_code learner_train(tn_runtime *rt, const digits *d, const learner_net *net,
                      learner_report *out);

#endif /* EXAMPLES_LEARNER_H_ */
