/* SPDX-License-Identifier: Apache-2.0
 * dft.h: Fourier transforms of arrays, and of the frames of signals, as both
 * devices compute them: dft_calls.c has the operators, dft.c the transforms of
 * the CPU, dft.cu those of CUDA devices.
 */
#ifndef TENSOR_DFT_H_
#define TENSOR_DFT_H_

#include "tenon/plugin/op.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Transforms of the lines of an array (outer, n, inner, c): c is 1 for real
 * numbers, 2 for pairs of real and imaginary parts. Element k of an output line
 * is scale * sum of x[i] * exp(sign * 2 pi i k / length); elements of x beyond
 * `length` are left out, missing ones are 0, and so are results from `length`
 * on. */
typedef struct tensor_dft_lines {
  int64_t outer, inner;
  int64_t n_in, c_in;
  int64_t n_out, c_out;
  int64_t length;
  int64_t sign;
  double scale;
} tensor_dft_lines;

/* The frames of signals (batch, n, c): frame f begins at element f * step, has
 * `length` elements, which are multiplied by a window, and `bins` results. */
typedef struct tensor_stft_frames {
  int64_t batch, n, c;
  int64_t step, frames;
  int64_t length, bins;
} tensor_stft_frames;

/* All arrays are dense; `window` may be NULL. [worker] */
int32_t tensor_dft_run(const tn_frame *call, const tensor_dft_lines *l,
                       const tn_tensor *from, const tn_tensor *to);
int32_t tensor_stft_run(const tn_frame *call, const tensor_stft_frames *f,
                        const tn_tensor *signal, const tn_tensor *window,
                        const tn_tensor *out);
/* The gradient of the signals from that of the results. */
int32_t tensor_stft_run_back(const tn_frame *call, const tensor_stft_frames *f,
                             const tn_tensor *gradient, const tn_tensor *window,
                             const tn_tensor *to);

/* Bytes of the workspace for so many lines. [any] */
int32_t tensor_dft_count_bytes(const tn_frame *call, int64_t n_lines,
                               uint64_t *bytes);

#ifdef __cplusplus
}
#endif
#endif /* TENSOR_DFT_H_ */
