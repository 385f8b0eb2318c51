/* SPDX-License-Identifier: Apache-2.0
 * image_net.c: see image_net.h.
 */
#include "image_net.h"

#include <stdio.h>
#include <stdlib.h>

#include "digits_net.h"

/* A layer; `shape` is that of its weight, if ndim is not 0. */
typedef struct layer {
  const char *op, *params;
  int32_t ndim;
  int64_t shape[4];
} layer;

/* Images of 32 x 32 become 16 x 16, 8 x 8 and 4 x 4. */
static const layer layers[IMAGE_LAYERS] = {
    {"nn.convolution",
     "kernel=(3,3) pad=(1,1) num_filter=16",
     4,
     {16, 3, 3, 3}},
    {"nn.activation", "act_type=relu", 0, {0}},
    {"nn.pooling", "kernel=(2,2) stride=(2,2) pool_type=max", 0, {0}},
    {"nn.convolution",
     "kernel=(3,3) pad=(1,1) num_filter=32",
     4,
     {32, 16, 3, 3}},
    {"nn.activation", "act_type=relu", 0, {0}},
    {"nn.pooling", "kernel=(2,2) stride=(2,2) pool_type=max", 0, {0}},
    {"nn.convolution",
     "kernel=(3,3) pad=(1,1) num_filter=32",
     4,
     {32, 32, 3, 3}},
    {"nn.activation", "act_type=relu", 0, {0}},
    {"nn.pooling", "kernel=(2,2) stride=(2,2) pool_type=max", 0, {0}},
    {"nn.fully_connected", "num_hidden=6", 2, {IMAGE_CLASSES, 512}},
    {"nn.softmax_output", "normalization=batch smooth_alpha=0.05", 0, {0}}};

/* ------------------------------------------------------------------- create */

/* Weight w with random numbers, and the bias after it. */
static tn_code make_weight(image_net *net, int w, const layer *l,
                           digits_random *random) {
  const tn_place cpu = {TN_DEVICE_CPU, 0};
  size_t n = 1, window = 1;
  for (int32_t d = 0; d < l->ndim; ++d) n *= (size_t)l->shape[d];
  for (int32_t d = 2; d < l->ndim; ++d) window *= (size_t)l->shape[d];
  float *values = calloc(n, sizeof *values);
  if (!values) return TN_OUT_OF_MEMORY;
  digits_uniform(
      random,
      net_limit(window * (size_t)l->shape[1], window * (size_t)l->shape[0]),
      values, n);
  tn_code rc =
      net_array(net->rt, cpu, l->ndim, l->shape, values, &net->weight[w]);
  free(values);
  for (int i = w; i < w + 2 && !rc; ++i) {
    const int32_t ndim = i == w ? l->ndim : 1;
    if (i > w) rc = net_array(net->rt, cpu, 1, l->shape, NULL, &net->weight[i]);
    if (!rc)
      rc = net_array(net->rt, cpu, ndim, l->shape, NULL, &net->gradient[i]);
    if (!rc) rc = net_array(net->rt, cpu, ndim, l->shape, NULL, &net->step[i]);
  }
  return rc;
}

tn_code image_net_init(image_net *net, tn_runtime *rt) {
  digits_random random = {1};
  int w = 0;
  *net = (image_net){.rt = rt};
  tn_code rc = tn_operator_get(rt, "optim.sgd_mom_update", &net->update);
  for (int i = 0; i < IMAGE_LAYERS && !rc; ++i) {
    rc = tn_operator_get(rt, layers[i].op, &net->op[i]);
    if (!rc)
      rc = tn_params_parse(net->op[i], layers[i].params, &net->params[i]);
    if (rc || layers[i].ndim == 0) continue;
    rc = make_weight(net, w, &layers[i], &random);
    w += 2;
  }
  return rc;
}

void image_net_deinit(image_net *net) {
  for (int i = 0; i < IMAGE_LAYERS; ++i) tn_params_release(net->params[i]);
  tn_params_release(net->update_params);
  for (int i = 0; i < IMAGE_WEIGHTS; ++i) {
    tn_array_release(net->weight[i]), tn_array_release(net->gradient[i]);
    tn_array_release(net->step[i]);
  }
}

tn_code image_net_set_rate(image_net *net, double rate) {
  char text[80];
  tn_params_release(net->update_params), net->update_params = NULL;
  (void)snprintf(text, sizeof text, "lr=%.9g momentum=0.9 wd=0.0005", rate);
  return tn_params_parse(net->update, text, &net->update_params);
}

/* -------------------------------------------------------------------- learn */

tn_code image_net_forward(image_net *net, tn_tape *tape, tn_array *images,
                          tn_array *labels, tn_array **out) {
  tn_array *x = tn_array_retain(images), *y = NULL;
  tn_code rc = TN_OK;
  for (int i = 0, w = 0; i < IMAGE_LAYERS && !rc; ++i) {
    tn_array *in[3] = {x};
    uint32_t n = 1;
    if (layers[i].ndim > 0) {
      in[n++] = net->weight[w++];
      in[n++] = net->weight[w++];
    } else if (i == IMAGE_LAYERS - 1) {
      in[n++] = labels;
    }
    rc = tn_tape_call(tape, net->op[i], &(tn_inputs){n, in}, net->params[i],
                      TN_OUT(&y));
    tn_array_release(x), x = y, y = NULL;
  }
  *out = x;
  return rc;
}

tn_code image_net_learn(image_net *net, tn_array *images, tn_array *labels,
                        tn_array **out) {
  tn_tape *tape = NULL;
  *out = NULL;
  tn_code rc = tn_tape_create(net->rt, &tape);
  for (int i = 0; i < IMAGE_WEIGHTS && !rc; ++i)
    rc = tn_tape_watch(tape, net->weight[i]);
  if (!rc) rc = image_net_forward(net, tape, images, labels, out);
  if (!rc)
    rc = tn_tape_gradient(
        tape,
        &(tn_tape_query){.struct_size = sizeof(tn_tape_query),
                         .heads = {1, out},
                         .of = {IMAGE_WEIGHTS, net->weight},
                         .gradients = {IMAGE_WEIGHTS, net->gradient, NULL}});
  for (int i = 0; i < IMAGE_WEIGHTS && !rc; ++i)
    rc = tn_call(net->rt, net->update,
                 TN_IN(net->weight[i], net->gradient[i], net->step[i]),
                 net->update_params, TN_OUT(&net->weight[i]));
  tn_tape_release(tape);
  return rc;
}
