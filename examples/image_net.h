/* SPDX-License-Identifier: Apache-2.0
 * image_net.h: a small network of convolutions for images of 32 x 32 pixels. A
 * tape records its calls and differentiates them.
 */
#ifndef EXAMPLES_IMAGE_NET_H_
#define EXAMPLES_IMAGE_NET_H_

#include <tenon/tenon.h>

enum {
  IMAGE_SIDE = 32,
  IMAGE_CLASSES = 6,
  IMAGE_LAYERS = 11,
  IMAGE_WEIGHTS = 8 /* four layers have weights, followed by a bias */
};

typedef struct image_net {
  tn_runtime *rt;
  tn_operator *op[IMAGE_LAYERS], *update;
  tn_params *params[IMAGE_LAYERS], *update_params;
  tn_array *weight[IMAGE_WEIGHTS], *gradient[IMAGE_WEIGHTS];
  tn_array *step[IMAGE_WEIGHTS]; /* the last step of each weight */
} image_net;

/* Finds the operators, and makes weights that are the same on every machine.
 * The caller ends with image_net_deinit, also after a failure. */
tn_code image_net_init(image_net *net, tn_runtime *rt);
void image_net_deinit(image_net *net);

/* Length of the next steps. */
tn_code image_net_set_rate(image_net *net, double rate);

/* Probabilities of the classes for images (n,3,32,32). The caller releases
 * *out.
 */
tn_code image_net_forward(image_net *net, tn_tape *tape, tn_array *images,
                          tn_array *labels, tn_array **out);

/* The same, and a step of every weight. */
tn_code image_net_learn(image_net *net, tn_array *images, tn_array *labels,
                        tn_array **out);

#endif /* EXAMPLES_IMAGE_NET_H_ */
