/* SPDX-License-Identifier: Apache-2.0
 * upsampling_view.h: a call of upsampling.yaml: the planes of its inputs, and
 * the call of nn.deconvolution that computes bilinear images. Kernels of every
 * device include it.
 */
#ifndef NN_UPSAMPLING_VIEW_H_
#define NN_UPSAMPLING_VIEW_H_

#include "deconvolution.gen.h"
#include "upsampling.gen.h"

/* An input and its planes in out. */
typedef struct nn_upsampling_part {
  int64_t images;
  int64_t channels;
  int64_t first;  /* index of its first channel in out */
  int64_t height; /* of an input image */
  int64_t width;
  int64_t all;       /* channels of out */
  int64_t factor[2]; /* elements of out for an element, down and across */
} nn_upsampling_part;

/* Returns a tensor with the shape of input i, in a forward or backward call. */
static inline const tn_tensor *nn_upsampling_find_input(const tn_frame *call,
                                                        uint32_t i) {
  return call->flags & TN_CALL_BACKWARD ? &call->out[i] : &call->in[i];
}

/* Returns the number of inputs of a forward or backward call. */
static inline uint32_t nn_upsampling_count_inputs(const tn_frame *call) {
  return call->flags & TN_CALL_BACKWARD ? call->n_out : call->n_in;
}

/* Returns the planes of input i; `out` has the shape of the enlarged images. */
static inline nn_upsampling_part nn_upsampling_find_part(const tn_frame *call,
                                                         const tn_tensor *out,
                                                         uint32_t i) {
  const int joins = nn_upsampling_params_of(call)->multi_input_mode ==
                    NN_UPSAMPLING_MULTI_INPUT_MODE_CONCAT;
  const int64_t *shape = nn_upsampling_find_input(call, i)->shape;
  nn_upsampling_part part = {shape[0], shape[1],      0,     shape[2],
                             shape[3], out->shape[1], {1, 1}};
  for (uint32_t k = 0; k < i && joins; ++k)
    part.first += nn_upsampling_find_input(call, k)->shape[1];
  if (shape[2] > 0) part.factor[0] = out->shape[2] / shape[2];
  if (shape[3] > 0) part.factor[1] = out->shape[3] / shape[3];
  return part;
}

/* A call of nn.deconvolution with its parameters. */
typedef struct nn_upsampling_deconvolution {
  tn_frame frame;
  nn_deconvolution_params params;
  int64_t kernel[2];
  int64_t stride[2];
  int64_t dilate[2];
  int64_t pad[2];
  int64_t adj[2];
} nn_upsampling_deconvolution;

/* Makes the call that computes bilinear images: it has the operands of `call`.
 */
static inline void nn_upsampling_make_deconvolution(
    const tn_frame *call, nn_upsampling_deconvolution *own) {
  const nn_upsampling_params *p = nn_upsampling_params_of(call);
  const int64_t s = p->scale;
  for (int d = 0; d < 2; ++d) {
    own->kernel[d] = 2 * s - s % 2;
    own->stride[d] = s;
    own->dilate[d] = 1;
    own->pad[d] = s / 2;
    own->adj[d] = 0;
  }
  own->params.kernel.v = own->kernel;
  own->params.stride.v = own->stride;
  own->params.dilate.v = own->dilate;
  own->params.pad.v = own->pad;
  own->params.adj.v = own->adj;
  own->params.kernel.n = own->params.stride.n = own->params.dilate.n = 2;
  own->params.pad.n = own->params.adj.n = 2;
  own->params.target_shape.v = own->adj;
  own->params.target_shape.n = 0;
  own->params.num_filter = own->params.num_group = p->num_filter;
  own->params.no_bias = 1;
  own->frame = *call;
  own->frame.params = &own->params;
}

/* Whether a call computes bilinear images. */
static inline int nn_upsampling_is_bilinear(const tn_frame *call) {
  return nn_upsampling_params_of(call)->sample_type ==
         NN_UPSAMPLING_SAMPLE_TYPE_BILINEAR;
}

#endif /* NN_UPSAMPLING_VIEW_H_ */
