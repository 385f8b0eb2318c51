/* SPDX-License-Identifier: Apache-2.0
 * dft.cu: dft.h on CUDA devices. A thread computes a result as a sum over all
 * terms, in f64.
 */
#include "dft.h"

#include "tensor.cuh"

enum { FROM, TO, WINDOW, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> tensor_waves;

/* exp(2 pi i turn / length); turn is from 0 to the length, excluded. */
struct tensor_wave {
  double c, s;
};

__device__ __forceinline__ tensor_wave tensor_wave_of(int64_t turn,
                                                      int64_t length) {
  const double angle =
      6.283185307179586476925286766559 * (double)turn / (double)length;
  const tensor_wave wave = {cos(angle), sin(angle)};
  return wave;
}

/* The product of two numbers below n, modulo n. */
__device__ __forceinline__ int64_t tensor_turns(int64_t a, int64_t b,
                                                int64_t n) {
  return a * b % n;
}

/* Adds a number times a wave. */
__device__ __forceinline__ void tensor_add_wave(double *re, double *im,
                                                double x, double y,
                                                const tensor_wave &w) {
  *re += x * w.c - y * w.s;
  *im += x * w.s + y * w.c;
}

__global__ void __launch_bounds__(TN_CUDA_THREADS)
    tensor_dft_each(tensor_waves a, tensor_dft_lines v) {
  const int64_t size = v.outer * v.n_out * v.inner;
  const int64_t n = v.n_in < v.length ? v.n_in : v.length;
  for (int64_t i = tensor_first<int64_t>(); i < size;
       i += tensor_stride<int64_t>()) {
    const int64_t column = i % v.inner, k = i / v.inner % v.n_out;
    const int64_t outer = i / v.inner / v.n_out;
    double re = 0, im = 0;
    for (int64_t m = 0; m < n && k < v.length; ++m) {
      const int64_t at = ((outer * v.n_in + m) * v.inner + column) * v.c_in;
      tensor_wave w = tensor_wave_of(tensor_turns(k, m, v.length), v.length);
      if (v.sign < 0) w.s = -w.s;
      tensor_add_wave(
          &re, &im, tn_cuda_read<double>(a.at[FROM], at),
          v.c_in == 2 ? tn_cuda_read<double>(a.at[FROM], at + 1) : 0.0, w);
    }
    tn_cuda_write(a.at[TO], i * v.c_out, re * v.scale);
    if (v.c_out == 2) tn_cuda_write(a.at[TO], i * v.c_out + 1, im * v.scale);
  }
}

__device__ __forceinline__ double tensor_weight(const tensor_waves &a,
                                                int64_t i) {
  return a.at[WINDOW].data != NULL ? tn_cuda_read<double>(a.at[WINDOW], i)
                                   : 1.0;
}

__global__ void __launch_bounds__(TN_CUDA_THREADS)
    tensor_stft_each(tensor_waves a, tensor_stft_frames v) {
  const int64_t size = v.batch * v.frames * v.bins;
  for (int64_t i = tensor_first<int64_t>(); i < size;
       i += tensor_stride<int64_t>()) {
    const int64_t k = i % v.bins, frame = i / v.bins % v.frames;
    const int64_t batch = i / v.bins / v.frames;
    double re = 0, im = 0;
    for (int64_t m = 0; m < v.length; ++m) {
      const int64_t at = (batch * v.n + frame * v.step + m) * v.c;
      const double weight = tensor_weight(a, m);
      tensor_wave w = tensor_wave_of(tensor_turns(k, m, v.length), v.length);
      w.s = -w.s;
      tensor_add_wave(
          &re, &im, weight * tn_cuda_read<double>(a.at[FROM], at),
          v.c == 2 ? weight * tn_cuda_read<double>(a.at[FROM], at + 1) : 0.0,
          w);
    }
    tn_cuda_write(a.at[TO], 2 * i, re);
    tn_cuda_write(a.at[TO], 2 * i + 1, im);
  }
}

/* The gradient of an element: from all frames that contain it. */
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    tensor_stft_back_each(tensor_waves a, tensor_stft_frames v) {
  for (int64_t i = tensor_first<int64_t>(); i < v.batch * v.n;
       i += tensor_stride<int64_t>()) {
    const int64_t batch = i / v.n, place = i % v.n;
    int64_t f = place < v.length ? 0 : (place - v.length) / v.step + 1;
    double all_re = 0, all_im = 0;
    for (; f < v.frames && f * v.step <= place; ++f) {
      const int64_t m = place - f * v.step;
      double re = 0, im = 0;
      for (int64_t k = 0; k < v.bins; ++k) {
        const int64_t at = ((batch * v.frames + f) * v.bins + k) * 2;
        tensor_add_wave(&re, &im, tn_cuda_read<double>(a.at[FROM], at),
                        tn_cuda_read<double>(a.at[FROM], at + 1),
                        tensor_wave_of(tensor_turns(k, m, v.length), v.length));
      }
      all_re += tensor_weight(a, m) * re;
      all_im += tensor_weight(a, m) * im;
    }
    tn_cuda_write(a.at[TO], i * v.c, all_re);
    if (v.c == 2) tn_cuda_write(a.at[TO], i * v.c + 1, all_im);
  }
}

/* -------------------------------------------------------------------- host */

int32_t tensor_dft_run(const tn_frame *call, const tensor_dft_lines *l,
                       const tn_tensor *from, const tn_tensor *to) {
  tensor_waves a = {};
  a.at[FROM] = tn_cuda_from(from);
  a.at[TO] = tn_cuda_to(to, TN_REQ_WRITE);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_start_each(call, tensor_dft_each,
                              l->outer * l->n_out * l->inner, stream, a, *l);
  });
}

static tensor_waves make_arrays(const tn_tensor *from, const tn_tensor *window,
                                const tn_tensor *to) {
  tensor_waves a = {};
  a.at[FROM] = tn_cuda_from(from);
  a.at[TO] = tn_cuda_to(to, TN_REQ_WRITE);
  if (window != NULL) a.at[WINDOW] = tn_cuda_from(window);
  return a;
}

int32_t tensor_stft_run(const tn_frame *call, const tensor_stft_frames *f,
                        const tn_tensor *signal, const tn_tensor *window,
                        const tn_tensor *out) {
  const tensor_waves a = make_arrays(signal, window, out);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_start_each(call, tensor_stft_each,
                              f->batch * f->frames * f->bins, stream, a, *f);
  });
}

int32_t tensor_stft_run_back(const tn_frame *call, const tensor_stft_frames *f,
                             const tn_tensor *gradient, const tn_tensor *window,
                             const tn_tensor *to) {
  const tensor_waves a = make_arrays(gradient, window, to);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_start_each(call, tensor_stft_back_each, f->batch * f->n,
                              stream, a, *f);
  });
}
