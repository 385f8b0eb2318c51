/* SPDX-License-Identifier: Apache-2.0
 * The table of `./dev bench ops`: one row for each operator and shape, which
 * ops.c computes with our operators and peers/torch_ops.cpp with libtorch.
 *
 * To add a row, append it to ops_cases; if libtorch has no function for it
 * under the name in `torch`, add one to torch_ops.cpp. Goals are those that
 * docs/performance.md explains. Times are processor time of one thread.
 */
#ifndef TENON_BENCH_OPS_H_
#define TENON_BENCH_OPS_H_

#include <stdint.h>

enum { OPS_IN = 4, OPS_PASSES = 3, OPS_NUMBERS = 8 };

typedef struct ops_shape {
  int32_t ndim; /* 0: no such input */
  int64_t dims[4];
} ops_shape;

/* A pass that is measured: which inputs get a gradient, as bits; 0 is forward.
 * `goal` is how many times the time of libtorch, tuned, may be ours. */
typedef struct ops_pass {
  const char *name; /* NULL: there are no more */
  uint32_t grads;
  double goal; /* 0: none is set */
} ops_pass;

typedef struct ops_case {
  const char *name;
  const char *op; /* ours */
  const char *params;
  ops_shape in[OPS_IN]; /* f32, drawn from [-1, 1) */
  const char *torch;
  int64_t n[OPS_NUMBERS]; /* what the function of that name takes */
  double flops;           /* of a pass: figures are GFLOP/s as well; or 0 */
  ops_pass pass[OPS_PASSES];
} ops_case;

/* A square convolution of `batch` images: c channels to k, window w, step s,
 * padding p, g groups, over side x side. n of libtorch: s, p, g. */
#define OPS_CONV(name, batch, c, k, w, s, p, g, side)                    \
  {                                                                      \
    name, "nn.convolution",                                              \
        "kernel=[" #w "," #w "] stride=[" #s "," #s "] pad=[" #p "," #p  \
        "] num_filter=" #k " num_group=" #g " no_bias=true",             \
        {{4, {batch, c, side, side}}, {4, {k, (c) / (g), w, w}}},        \
        "convolution", {s, p, g},                                        \
        2.0 * (batch) * (k) * ((c) / (g)) * (w) * (w) * ((side) / (s)) * \
            ((side) / (s)),                                              \
    {                                                                    \
      {"forward", 0, 1.5}, {"data", 1, 1.5}, {                           \
        "weight", 2, 1.5                                                 \
      }                                                                  \
    }                                                                    \
  }

#define OPS_POOL(name, type, w, s, p, c, side, forward, backward)       \
  {                                                                     \
    name, "nn.pooling",                                                 \
        "kernel=[" #w "," #w "] stride=[" #s "," #s "] pad=[" #p "," #p \
        "] pool_type=" #type,                                           \
        {{4, {8, c, side, side}}}, #type "_pool", {w, s, p}, 0, {       \
      {"forward", 0, forward}, {                                        \
        "backward", 1, backward                                         \
      }                                                                 \
    }                                                                   \
  }

static const ops_case ops_cases[] = {
    OPS_CONV("conv 3x3 64-64 56", 8, 64, 64, 3, 1, 1, 1, 56),
    OPS_CONV("conv 3x3 128-128 28", 8, 128, 128, 3, 1, 1, 1, 28),
    OPS_CONV("conv 3x3 256-256 14", 8, 256, 256, 3, 1, 1, 1, 14),
    OPS_CONV("conv 3x3 512-512 7", 8, 512, 512, 3, 1, 1, 1, 7),
    OPS_CONV("conv 3x3/2 64-128 56", 8, 64, 128, 3, 2, 1, 1, 56),
    OPS_CONV("conv 1x1 256-64 56", 8, 256, 64, 1, 1, 0, 1, 56),
    OPS_CONV("conv 7x7/2 3-64 224", 8, 3, 64, 7, 2, 3, 1, 224),
    OPS_CONV("depthwise 3x3 128 28", 8, 128, 128, 3, 1, 1, 128, 28),
    OPS_POOL("max pool 3x3/2 64 112", max, 3, 2, 1, 64, 112, 20, 1.5),
    OPS_POOL("avg pool 2x2/2 64 112", avg, 2, 2, 0, 64, 112, 10, 6),
};
enum { OPS_N_CASES = sizeof ops_cases / sizeof *ops_cases };

#endif /* TENON_BENCH_OPS_H_ */
