/* SPDX-License-Identifier: Apache-2.0
 * models.c: nets for which memory figures were published.
 */
#include <stdlib.h>

#include "nets.h"

static net_ref add_image(net_graph *n, int64_t batch, int64_t size) {
  return net_var(n, (net_shape){{batch, 3, size, size}});
}

static net_ref add_conv(net_graph *n, net_ref x, int64_t filters,
                        int64_t kernel, int64_t stride, int64_t pad) {
  return net_conv(n, x, filters, (const int64_t[]){kernel, stride, pad});
}

static net_ref add_dense(net_graph *n, net_ref x, int64_t outputs) {
  const net_shape in = *net_shape_of(n, x);
  const int64_t width = in.dim[1] * in.dim[2] * in.dim[3];
  const net_ref weight = net_var(n, (net_shape){{outputs, width, 1, 1}});
  const net_ref bias = net_var(n, (net_shape){{outputs, 1, 1, 1}});
  return net_fc(n, x, weight, bias);
}

static void add_classifier(net_graph *n, net_ref x, int64_t batch) {
  const net_ref head =
      net_loss(n, NET_SOFTMAX_OUTPUT, add_dense(n, x, 1000), batch);
  net_set_heads(n, &head, 1);
}

/* ------------------------------------------------------------- inception-bn */

static net_ref conv_bn(net_graph *n, net_ref x, int64_t filters, int64_t kernel,
                       int64_t stride) {
  const net_ref y = add_conv(n, x, filters, kernel, stride, kernel / 2);
  return net_unary(n, NET_ACT, net_bn(n, y));
}

/* Numbers of filters: 1x1, 3x3 reduce, 3x3, double reduce, double,
 * projection. */
static net_ref inception_a(net_graph *n, net_ref x, const int64_t f[6]) {
  net_ref branch[4];
  branch[0] = conv_bn(n, x, f[0], 1, 1);
  branch[1] = conv_bn(n, conv_bn(n, x, f[1], 1, 1), f[2], 3, 1);
  branch[2] = conv_bn(n, conv_bn(n, x, f[3], 1, 1), f[4], 3, 1);
  branch[2] = conv_bn(n, branch[2], f[4], 3, 1);
  branch[3] = conv_bn(n, net_pool(n, x, 3, 1, 1), f[5], 1, 1);
  return net_concat(n, branch, 4);
}

static net_ref inception_b(net_graph *n, net_ref x, const int64_t f[4]) {
  net_ref branch[3];
  branch[0] = conv_bn(n, conv_bn(n, x, f[0], 1, 1), f[1], 3, 2);
  branch[1] = conv_bn(n, conv_bn(n, x, f[2], 1, 1), f[3], 3, 1);
  branch[1] = conv_bn(n, branch[1], f[3], 3, 2);
  branch[2] = net_pool(n, x, 3, 2, 1);
  return net_concat(n, branch, 3);
}

net_graph *net_inception_bn(int64_t batch, bool cudnn) {
  static const int64_t THREE[2][6] = {{64, 64, 64, 64, 96, 32},
                                      {64, 64, 96, 64, 96, 64}};
  static const int64_t FOUR[4][6] = {{224, 64, 96, 96, 128, 128},
                                     {192, 96, 128, 96, 128, 128},
                                     {160, 128, 160, 128, 160, 128},
                                     {96, 128, 192, 160, 192, 128}};
  static const int64_t FIVE[2][6] = {{352, 192, 320, 160, 224, 128},
                                     {352, 192, 320, 192, 224, 128}};
  net_graph *n = net_new();
  n->cudnn = cudnn;
  net_ref x = conv_bn(n, add_image(n, batch, 224), 64, 7, 2);
  x = net_pool(n, x, 3, 2, 0);
  x = conv_bn(n, conv_bn(n, x, 64, 1, 1), 192, 3, 1);
  x = net_pool(n, x, 3, 2, 0);
  for (int k = 0; k < 2; ++k) x = inception_a(n, x, THREE[k]);
  x = inception_b(n, x, (const int64_t[]){128, 160, 64, 96});
  for (int k = 0; k < 4; ++k) x = inception_a(n, x, FOUR[k]);
  x = inception_b(n, x, (const int64_t[]){128, 192, 192, 256});
  for (int k = 0; k < 2; ++k) x = inception_a(n, x, FIVE[k]);
  x = net_unary(n, NET_FLATTEN, net_pool(n, x, 7, 1, 0));
  add_classifier(n, x, batch);
  return n;
}

/* ------------------------------------------------------------------- resnet */

static net_ref conv_leaky(net_graph *n, net_ref x, int64_t filters,
                          int64_t kernel, int64_t stride) {
  const net_ref y = add_conv(n, x, filters, kernel, stride, kernel / 2);
  return net_unary(n, NET_LEAKY, net_bn(n, y));
}

static net_ref add_residual(net_graph *n, net_ref x, int stage, int layer) {
  const int64_t filters = (int64_t)64 << stage;
  const int64_t stride = stage != 0 && layer == 0 ? 2 : 1;
  net_ref y = conv_leaky(n, x, filters, 1, 1);
  y = conv_leaky(n, conv_leaky(n, y, filters, 3, stride), 4 * filters, 1, 1);
  if (layer == 0) x = conv_leaky(n, x, 4 * filters, 1, stride);
  n->nodes[x.node].stage = 1;
  return net_binary(n, NET_ADD, x, y);
}

net_graph *net_resnet(int64_t batch, const int layers[4]) {
  net_graph *n = net_new();
  net_ref x = conv_leaky(n, add_image(n, batch, 224), 64, 7, 2);
  x = net_pool(n, x, 3, 2, 0);
  for (int stage = 0; stage < 4; ++stage)
    for (int layer = 0; layer < layers[stage]; ++layer)
      x = add_residual(n, x, stage, layer);
  x = net_unary(n, NET_FLATTEN, net_pool(n, x, 7, 1, 0));
  add_classifier(n, x, batch);
  return n;
}

/* ------------------------------------------------------------ without norms */

static net_ref conv_relu(net_graph *n, net_ref x, int64_t filters,
                         int64_t kernel, int64_t stride, int64_t pad) {
  return net_unary(n, NET_ACT, add_conv(n, x, filters, kernel, stride, pad));
}

static net_ref dense_dropout(net_graph *n, net_ref x, int64_t outputs) {
  return net_unary(n, NET_DROPOUT,
                   net_unary(n, NET_ACT, add_dense(n, x, outputs)));
}

net_graph *net_alexnet(int64_t batch) {
  net_graph *n = net_new();
  net_ref x = conv_relu(n, add_image(n, batch, 224), 96, 11, 4, 0);
  x = net_pool(n, net_unary(n, NET_LRN, x), 3, 2, 0);
  x = conv_relu(n, x, 256, 5, 1, 2);
  x = net_pool(n, net_unary(n, NET_LRN, x), 3, 2, 0);
  x = conv_relu(n, x, 384, 3, 1, 1);
  x = conv_relu(n, x, 384, 3, 1, 1);
  x = net_pool(n, conv_relu(n, x, 256, 3, 1, 1), 3, 2, 0);
  x = net_unary(n, NET_FLATTEN, x);
  add_classifier(n, dense_dropout(n, dense_dropout(n, x, 4096), 4096), batch);
  return n;
}

net_graph *net_vgg(int64_t batch, const int repeats[5]) {
  net_graph *n = net_new();
  net_ref x = add_image(n, batch, 224);
  for (int stage = 0; stage < 5; ++stage) {
    const int64_t filters = stage == 4 ? 512 : (int64_t)64 << stage;
    for (int k = 0; k < repeats[stage]; ++k)
      x = conv_relu(n, x, filters, 3, 1, 1);
    x = net_pool(n, x, 2, 2, 0);
  }
  x = net_unary(n, NET_FLATTEN, x);
  add_classifier(n, dense_dropout(n, dense_dropout(n, x, 4096), 4096), batch);
  return n;
}

net_graph *net_vgg16(int64_t batch) {
  return net_vgg(batch, (const int[]){2, 2, 3, 3, 3});
}

static net_ref google_block(net_graph *n, net_ref x, const int64_t f[6]) {
  net_ref branch[4];
  branch[0] = conv_relu(n, x, f[0], 1, 1, 0);
  branch[1] = conv_relu(n, conv_relu(n, x, f[1], 1, 1, 0), f[2], 3, 1, 1);
  branch[2] = conv_relu(n, conv_relu(n, x, f[3], 1, 1, 0), f[4], 5, 1, 2);
  branch[3] = conv_relu(n, net_pool(n, x, 3, 1, 1), f[5], 1, 1, 0);
  return net_concat(n, branch, 4);
}

net_graph *net_googlenet(int64_t batch) {
  static const int64_t F[9][6] = {
      {64, 96, 128, 16, 32, 32},     {128, 128, 192, 32, 96, 64},
      {192, 96, 208, 16, 48, 64},    {160, 112, 224, 24, 64, 64},
      {128, 128, 256, 24, 64, 64},   {112, 144, 288, 32, 64, 64},
      {256, 160, 320, 32, 128, 128}, {256, 160, 320, 32, 128, 128},
      {384, 192, 384, 48, 128, 128}};
  net_graph *n = net_new();
  net_ref x = conv_relu(n, add_image(n, batch, 224), 64, 7, 2, 3);
  x = net_pool(n, x, 3, 2, 0);
  x = conv_relu(n, conv_relu(n, x, 64, 1, 1, 0), 192, 3, 1, 1);
  x = net_pool(n, x, 3, 2, 0);
  for (int k = 0; k < 9; ++k) {
    x = google_block(n, x, F[k]);
    if (k == 1 || k == 6) x = net_pool(n, x, 3, 2, k == 1 ? 0 : 1);
  }
  x = net_unary(n, NET_FLATTEN, net_pool(n, x, 7, 1, 0));
  add_classifier(n, x, batch);
  return n;
}

/* --------------------------------------------------------------------- lstm */

enum { BATCH = 64, HIDDEN = 1024, INPUT = 50, LABELS = 5000, MAX_LAYERS = 4 };

typedef struct lstm_cell {
  net_ref weight[2];
  net_ref bias[2];
  net_ref c;
  net_ref h;
} lstm_cell;

static net_ref add_matrix(net_graph *n, int64_t rows, int64_t columns) {
  return net_var(n, (net_shape){{rows, columns, 1, 1}});
}

static net_ref take_gate(net_graph *n, net_ref slices, uint32_t k) {
  return net_unary(n, NET_ACT, (net_ref){slices.node, k});
}

static void lstm_step(net_graph *n, lstm_cell *cell, net_ref x, uint32_t step) {
  const net_ref a = net_fc(n, x, cell->weight[0], cell->bias[0]);
  const net_ref b = net_fc(n, cell->h, cell->weight[1], cell->bias[1]);
  const net_ref s = net_slice(n, net_binary(n, NET_ADD, a, b), 4);
  const net_ref in = take_gate(n, s, 0), fresh = take_gate(n, s, 1);
  const net_ref forget = take_gate(n, s, 2), out = take_gate(n, s, 3);
  const net_ref kept = net_binary(n, NET_MUL, forget, cell->c);
  const net_ref added = net_binary(n, NET_MUL, in, fresh);
  cell->c = net_binary(n, NET_ADD, kept, added);
  cell->h = net_binary(n, NET_MUL, out, net_unary(n, NET_ACT, cell->c));
  n->nodes[cell->c.node].stage = n->nodes[cell->h.node].stage =
      (int32_t)step + 1;
}

net_graph *net_lstm(uint32_t steps, uint32_t layers) {
  net_graph *n = net_new();
  net_ref *heads = malloc((steps + 2 * layers) * sizeof *heads);
  lstm_cell cells[MAX_LAYERS];
  const net_ref embed = add_matrix(n, HIDDEN, INPUT);
  const net_ref decode = add_matrix(n, LABELS, HIDDEN);
  const net_ref decode_bias = add_matrix(n, LABELS, 1);
  if (heads == NULL || layers > MAX_LAYERS) abort();
  for (uint32_t l = 0; l < layers; ++l) {
    for (int k = 0; k < 2; ++k) {
      cells[l].weight[k] = add_matrix(n, 4 * HIDDEN, HIDDEN);
      cells[l].bias[k] = add_matrix(n, 4 * HIDDEN, 1);
    }
    cells[l].c = add_matrix(n, BATCH, HIDDEN);
    cells[l].h = add_matrix(n, BATCH, HIDDEN);
  }
  for (uint32_t t = 0; t < steps; ++t) {
    const net_ref none = {UINT32_MAX, 0};
    net_ref x = net_fc(n, add_matrix(n, BATCH, INPUT), embed, none);
    for (uint32_t l = 0; l < layers; ++l) {
      lstm_step(n, &cells[l], x, t);
      x = cells[l].h;
    }
    const net_ref y = net_fc(n, x, decode, decode_bias);
    heads[t] = net_loss(n, NET_SOFTMAX_LOSS, y, BATCH);
  }
  for (uint32_t l = 0; l < layers; ++l) {
    heads[steps + l] = net_unary(n, NET_BLOCK_GRAD, cells[l].c);
    heads[steps + layers + l] = net_unary(n, NET_BLOCK_GRAD, cells[l].h);
  }
  net_set_heads(n, heads, steps + 2 * layers);
  free(heads);
  return n;
}
