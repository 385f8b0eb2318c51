/* SPDX-License-Identifier: Apache-2.0
 * sample.h: the tables of one plugin that uses every form of member, as values
 * that a test may change.
 */
#ifndef TENON_TESTS_SAMPLE_H_
#define TENON_TESTS_SAMPLE_H_

#include "manifest.h"

/* Operator conv@2 of the plugin "acme": data (N, C, S...) and an optional
 * weight to (N, kernel[0], S...). */
typedef struct sample {
  tn_plugin plugin;
  tn_op op;
  tn_kernel kernel;
  tn_kernel backward;
  tn_target target;
  tn_field kernel_size;
  tn_field stride;
  tn_field mode;
  tn_field bias;
  tn_arg data;
  tn_arg weight;
  tn_arg out;
  tn_arg mean;
  tn_dtype_var type;
  tn_require require;
  tn_gradient gradient;
  tn_input_gradient data_gradient;
  tn_input_gradient weight_gradient;
  tn_node nodes[5];
  tn_node when[2];
  tn_term data_terms[3];
  tn_need needs[2];
  uint64_t dtype_sets[1];
  uint32_t resources[1];
  const char *modes[2];
  const char *dims[2];
  const char *packs[1];
  const tn_op *operators[1];
  const tn_kernel *kernels[2];
  const tn_target *targets[1];
  const tn_field *params[4];
  const tn_field *options[1];
  const tn_arg *inputs[2];
  const tn_arg *outputs[1];
  const tn_arg *aux[1];
  const tn_dtype_var *types[1];
  const tn_require *requirements[1];
  const tn_input_gradient *gradients[2];
} sample;

void sample_init(sample *s);

#endif /* TENON_TESTS_SAMPLE_H_ */
