/* SPDX-License-Identifier: Apache-2.0
 * dft_calls.c: the operators of dft.yaml, independent of the device. A gradient
 * is a transform with the other sign.
 */
#include "dft.gen.h"
#include "dft.h"
#include "move.h"

/* --------------------------------------------------------------------- dft */

/* The length of a transform of `n` elements. */
static int64_t find_length(const tn_frame *call, int64_t n) {
  const tensor_dft_params *p = tensor_dft_params_of(call);
  return p->has_length ? p->length : n;
}

/* The lines of a forward call. */
static int32_t find_lines(const tn_frame *call, const tn_tensor *data,
                          const tn_tensor *out, tensor_dft_lines *l) {
  const tensor_dft_params *p = tensor_dft_params_of(call);
  const int32_t last = data->ndim - 1;
  int32_t axis;
  const int32_t code = tensor_axis(call, "axis", p->axis, data->ndim, &axis);
  *l = (tensor_dft_lines){.outer = 1, .inner = 1};
  if (code != TN_OK) return code;
  for (int32_t d = 0; d < axis; ++d) l->outer *= data->shape[d];
  for (int32_t d = axis + 1; d < last; ++d) l->inner *= data->shape[d];
  l->n_in = data->shape[axis];
  l->c_in = data->shape[last];
  l->n_out = out->shape[axis];
  l->c_out = 2;
  l->length = find_length(call, l->n_in);
  l->sign = p->inverse ? 1 : -1;
  l->scale = p->inverse ? 1 / (double)l->length : 1;
  return TN_OK;
}

int32_t tensor_dft(const tn_frame *call) {
  tensor_dft_lines l;
  if (tn_tensor_size(&call->out[0]) == 0) return TN_OK;
  const int32_t code = find_lines(call, &call->in[0], &call->out[0], &l);
  return code == TN_OK ? tensor_dft_run(call, &l, &call->in[0], &call->out[0])
                       : code;
}

/* in = [gradient of out, data, out] */
int32_t tensor_dft_backward(const tn_frame *call) {
  tensor_dft_lines l;
  if (tn_tensor_size(&call->out[0]) == 0) return TN_OK;
  const int32_t code = find_lines(call, &call->out[0], &call->in[0], &l);
  if (code != TN_OK) return code;
  const tensor_dft_lines back = {.outer = l.outer,
                                 .inner = l.inner,
                                 .n_in = l.n_out,
                                 .c_in = l.c_out,
                                 .n_out = l.n_in,
                                 .c_out = l.c_in,
                                 .length = l.length,
                                 .sign = -l.sign,
                                 .scale = l.scale};
  return tensor_dft_run(call, &back, &call->in[0], &call->out[0]);
}

/* -------------------------------------------------------------------- stft */

static tensor_stft_frames find_frames(const tn_frame *call,
                                      const tn_tensor *signal,
                                      const tn_tensor *out) {
  const tensor_stft_params *p = tensor_stft_params_of(call);
  return (tensor_stft_frames){.batch = signal->shape[0],
                              .n = signal->shape[1],
                              .c = signal->shape[2],
                              .step = p->frame_step,
                              .frames = out->shape[1],
                              .length = p->frame_length,
                              .bins = out->shape[2]};
}

static const tn_tensor *find_window(const tn_frame *call, uint32_t i) {
  return call->in_flags[i] & TN_IN_ABSENT ? NULL : &call->in[i];
}

int32_t tensor_stft(const tn_frame *call) {
  const tn_tensor *signal = &call->in[TENSOR_STFT_IN_SIGNAL];
  const tensor_stft_frames f = find_frames(call, signal, &call->out[0]);
  if (tn_tensor_size(&call->out[0]) == 0) return TN_OK;
  return tensor_stft_run(call, &f, signal,
                         find_window(call, TENSOR_STFT_IN_WINDOW),
                         &call->out[0]);
}

/* in = [gradient of out, signal, window, out] */
int32_t tensor_stft_backward(const tn_frame *call) {
  const uint32_t window = TENSOR_STFT_IN_WINDOW;
  const tn_tensor *to = &call->out[TENSOR_STFT_IN_SIGNAL];
  const tensor_stft_frames f = find_frames(call, to, &call->in[0]);
  int32_t code = TN_OK;
  if (call->n_out > window && call->req[window] != TN_REQ_NULL)
    code = tensor_fill_zeros(call, &call->out[window]);
  if (code != TN_OK || call->req[TENSOR_STFT_IN_SIGNAL] == TN_REQ_NULL)
    return code;
  if (tn_tensor_size(&call->in[0]) == 0) return tensor_fill_zeros(call, to);
  return tensor_stft_run_back(call, &f, &call->in[0],
                              find_window(call, TENSOR_STFT_BACKWARD_IN_WINDOW),
                              to);
}
