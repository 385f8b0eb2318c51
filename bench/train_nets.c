/* SPDX-License-Identifier: Apache-2.0
 * The nets of the measuring programs, as graphs, and arrays for their weights.
 */
#include "train_nets.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"
#include "train.h"

static void must_succeed(tn_code code) {
  if (code != TN_OK)
    measure_fail("%s: %s", tn_code_name(code), tn_error_text());
}

/* ------------------------------------------------------------------ layers */

tn_entry nets_add_call(tn_graph *g, const char *op, const char *params,
                       uint32_t n, const tn_entry *in) {
  tn_entry out;
  must_succeed(
      tn_graph_call(g,
                    &(tn_graph_node){.struct_size = sizeof(tn_graph_node),
                                     .op = op,
                                     .params = params,
                                     .n_in = n,
                                     .in = in},
                    &out));
  return out;
}

/* A call on x, with weights that are added automatically; the rest are its
 * parameters, as for printf. */
static tn_entry add_layer(tn_graph *g, tn_entry x, const char *op,
                          const char *params, ...) {
  char text[256];
  va_list rest;
  va_start(rest, params);
  (void)vsnprintf(text, sizeof text, params, rest);
  va_end(rest);
  return nets_add_call(g, op, text, 1, &x);
}

static tn_entry add_relu(tn_graph *g, tn_entry x) {
  return add_layer(g, x, "nn.activation", "act_type=relu");
}

/* Layers that connect all with all, with relu between them. */
static tn_entry add_connected(tn_graph *g, tn_entry x, const int64_t *widths,
                              int n) {
  for (int i = 1; i <= n; ++i) {
    x = add_layer(g, x, "nn.fully_connected", "num_hidden=%d", (int)widths[i]);
    if (i < n) x = add_relu(g, x);
  }
  return x;
}

static tn_entry build_mlp(tn_graph *g, tn_entry x) {
  return add_connected(g, x, mlp_widths, MLP_LAYERS);
}

static tn_entry build_lenet(tn_graph *g, tn_entry x) {
  for (int i = 0; i < 2; ++i) {
    const int pad = i == 0 ? 2 : 0;
    x = add_layer(g, x, "nn.convolution",
                  "kernel=(5,5) pad=(%d,%d) num_filter=%d", pad, pad,
                  (int)lenet_filters[i]);
    x = add_layer(g, add_relu(g, x), "nn.pooling",
                  "kernel=(2,2) stride=(2,2) pool_type=max");
  }
  return add_connected(g, x, lenet_widths, LENET_LAYERS);
}

/* A convolution without bias, followed by a batch normalisation. */
static tn_entry add_normalised(tn_graph *g, tn_entry x, int kernel, int stride,
                               int64_t filters) {
  char text[256];
  (void)snprintf(text, sizeof text,
                 "kernel=(%d,%d) stride=(%d,%d) pad=(%d,%d) num_filter=%d "
                 "no_bias=true",
                 kernel, kernel, stride, stride, kernel / 2, kernel / 2,
                 (int)filters);
  return add_layer(g, add_layer(g, x, "nn.convolution", text), "nn.batch_norm",
                   "fix_gamma=false");
}

static tn_entry add_sum(tn_graph *g, tn_entry y, tn_entry x) {
  return add_relu(
      g, nets_add_call(g, "elemwise.add", NULL, 2, (const tn_entry[]){y, x}));
}

/* Two convolutions, and a shortcut around them. */
static tn_entry add_block(tn_graph *g, tn_entry x, int stride,
                          int64_t filters) {
  tn_entry y = add_relu(g, add_normalised(g, x, 3, stride, filters));
  y = add_normalised(g, y, 3, 1, filters);
  if (stride > 1) x = add_normalised(g, x, 1, stride, filters);
  return add_sum(g, y, x);
}

/* The same with three, of which that in the middle has fewer filters. */
static tn_entry add_bottleneck(tn_graph *g, tn_entry x, int stride,
                               int64_t filters, int is_first) {
  const int64_t wide = filters * RESNET_WIDER;
  tn_entry y = add_relu(g, add_normalised(g, x, 1, 1, filters));
  y = add_normalised(g, add_relu(g, add_normalised(g, y, 3, stride, filters)),
                     1, 1, wide);
  if (is_first) x = add_normalised(g, x, 1, stride, wide);
  return add_sum(g, y, x);
}

static tn_entry resnet_begin(tn_graph *g, tn_entry x) {
  x = add_relu(g, add_normalised(g, x, 7, 2, resnet_filters[0]));
  return add_layer(g, x, "nn.pooling",
                   "kernel=(3,3) stride=(2,2) pad=(1,1) pool_type=max");
}

static tn_entry resnet_end(tn_graph *g, tn_entry x) {
  x = add_layer(g, x, "nn.pooling",
                "kernel=(1,1) global_pool=true pool_type=avg");
  return add_layer(g, x, "nn.fully_connected", "num_hidden=1000");
}

static tn_entry build_resnet(tn_graph *g, tn_entry x) {
  x = resnet_begin(g, x);
  for (int stage = 0; stage < RESNET_STAGES; ++stage) {
    x = add_block(g, x, stage == 0 ? 1 : 2, resnet_filters[stage]);
    x = add_block(g, x, 1, resnet_filters[stage]);
  }
  return resnet_end(g, x);
}

static tn_entry build_resnet50(tn_graph *g, tn_entry x) {
  x = resnet_begin(g, x);
  for (int stage = 0; stage < RESNET_STAGES; ++stage)
    for (int i = 0; i < resnet50_blocks[stage]; ++i)
      x = add_bottleneck(g, x, i == 0 && stage > 0 ? 2 : 1,
                         resnet_filters[stage], i == 0);
  return resnet_end(g, x);
}

tn_entry nets_build(tn_graph *g, const char *net, const tn_sig *data) {
  static const struct {
    const char *name;
    tn_entry (*build)(tn_graph *g, tn_entry x);
  } nets[] = {{"mlp", build_mlp},
              {"lenet", build_lenet},
              {"resnet", build_resnet},
              {"resnet50", build_resnet50}};
  const tn_sig label = {.dtype = TN_F32, .ndim = 1, .shape = {data->shape[0]}};
  tn_entry in[2];
  size_t i = 0;
  while (i < sizeof nets / sizeof *nets && strcmp(nets[i].name, net) != 0) ++i;
  if (i == sizeof nets / sizeof *nets)
    measure_fail("there is no net '%s'; there are mlp, lenet, resnet, resnet50",
                 net);
  must_succeed(tn_graph_variable(g, "data", data, &in[0]));
  must_succeed(tn_graph_variable(g, "label", &label, &in[1]));
  in[0] = nets[i].build(g, in[0]);
  const tn_entry loss = nets_add_call(g, "nn.softmax_output", NULL, 2, in);
  must_succeed(tn_graph_heads_set(g, &loss, 1));
  must_succeed(tn_graph_infer(g, NULL, 0));
  return loss;
}

/* ----------------------------------------------------------------- weights */

tn_array *nets_create_array(tn_runtime *rt, const tn_sig *sig, tn_place place) {
  tn_array *array = NULL;
  must_succeed(tn_array_create_on(rt, &(tn_spec){TN_F32, sig->ndim, sig->shape},
                                  place, &array));
  const size_t n = (size_t)tn_array_size(array);
  float *values = malloc(n * sizeof *values + 1);
  if (!values) measure_fail("no memory for %zu floats", n);
  for (size_t i = 0; i < n; ++i)
    values[i] = (float)(i * 7919 % 1000) / 10000 - 0.05f;
  must_succeed(tn_array_set(array, values, n * sizeof *values));
  free(values);
  return array;
}

void nets_create_weights(tn_runtime *rt, tn_graph *g, tn_place place,
                         nets_weights *w) {
  const char *name = NULL;
  tn_entry entry;
  tn_sig sig;
  for (size_t i = 0;
       tn_graph_name(g, TN_GRAPH_ARGUMENTS, i, &name, &entry) == TN_OK; ++i) {
    if (strcmp(name, "data") == 0 || strcmp(name, "label") == 0) continue;
    if (w->n == NETS_WEIGHTS)
      measure_fail("more than %d weights", NETS_WEIGHTS);
    must_succeed(tn_graph_sig(g, entry, &sig));
    w->entry[w->n] = entry;
    w->given[w->n++] = (tn_argument){
        .name = name, .array = nets_create_array(rt, &sig, place)};
  }
}

void nets_release_weights(nets_weights *w) {
  for (size_t i = 0; i < w->n; ++i) tn_array_release(w->given[i].array);
  w->n = 0;
}
