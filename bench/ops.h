/* SPDX-License-Identifier: Apache-2.0
 * The table of `./dev bench ops`: one row for each operator and shape, which
 * ops.c computes with our operators and peers/torch_ops.cpp with libtorch.
 *
 * To add a row, append it to ops_cases; if libtorch has no function for it
 * under the name in `torch`, add one to torch_ops.cpp, and to onnx_ops.py,
 * which asks ops.c for the rows. docs/benchmarks/performance.md
 * explains the goals. Times are processor time of one thread.
 */
#ifndef TENON_BENCH_OPS_H_
#define TENON_BENCH_OPS_H_

#include <stdint.h>
#include <string.h>

enum { OPS_IN = 5, OPS_OUT = 3, OPS_PASSES = 3, OPS_NUMBERS = 8 };

typedef struct ops_shape {
  int32_t ndim; /* 0: no such input */
  int64_t dims[4];
} ops_shape;

/* A pass that is measured: which inputs get a gradient, as bits; 0 is forward.
 * `goal` is how many times the time of Debian's libtorch, tuned, may be ours.
 */
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
  int64_t n[OPS_NUMBERS]; /* parameters of the function of that name */
  double flops;           /* of a pass: figures are GFLOP/s as well; or 0 */
  ops_pass pass[OPS_PASSES];
} ops_case;

/* Properties that few rows have, by name. */
typedef struct ops_extra {
  const char *name;
  uint32_t n_out;      /* outputs, hidden ones too */
  uint32_t n_aux;      /* the last inputs are states, and the call trains */
  uint32_t index_at;   /* an input of i64, if there is a limit: */
  int64_t index_limit; /* meaning of its numbers, see below */
} ops_extra;

#define OPS_WINDOWS(w, s, p, side) (((side) + 2 * (p) - (w)) / (s) + 1)
/* A square convolution of `batch` images: c channels to k, window w, step s,
 * padding p, g groups, over side x side. n of libtorch: s, p, g. */
#define OPS_CONV(name, batch, c, k, w, s, p, g, side)                    \
  {                                                                      \
    name, "nn.convolution",                                              \
        "kernel=[" #w "," #w "] stride=[" #s "," #s "] pad=[" #p "," #p  \
        "] num_filter=" #k " num_group=" #g " no_bias=true",             \
        {{4, {batch, c, side, side}}, {4, {k, (c) / (g), w, w}}},        \
        "convolution", {s, p, g},                                        \
        2.0 * (batch) * (k) * ((c) / (g)) * (w) *                        \
            (w)*OPS_WINDOWS(w, s, p, side) * OPS_WINDOWS(w, s, p, side), \
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

/* 1024 x 1024 elements, reduced along one axis. */
#define OPS_REDUCE(name, op, params, torch, axis, goal)        \
  {                                                            \
    name, op, params, {{2, {1024, 1024}}}, torch, {axis}, 0, { \
      { "forward", 0, goal }                                   \
    }                                                          \
  }

/* Products of matrices, one or many. */
#define OPS_2(a, b) \
  {                 \
    2, {            \
      a, b          \
    }               \
  }
#define OPS_3(a, b, c) \
  {                    \
    3, {               \
      a, b, c          \
    }                  \
  }
#define OPS_PRODUCT(name, op, lhs, rhs, flops)        \
  {                                                   \
    name, op, "", {lhs, rhs}, "matmul", {0}, flops, { \
      { "forward", 0, 1 }                             \
    }                                                 \
  }

/* The variance of Adam is drawn as everything else, and so has roots that are
 * NaN; that takes no longer. */
/* A softmax of rows, or its logarithm. */
#define OPS_SOFTMAX(name, op, rows, classes, goal)            \
  {                                                           \
    name, "nn." op, "", {{2, {rows, classes}}}, op, {0}, 0, { \
      {"forward", 0, goal}, {                                 \
        "backward", 1, 0                                      \
      }                                                       \
    }                                                         \
  }

#define OPS_BATCH_NORM(name, channels, forward, backward) \
  {                                                       \
    name, "nn.batch_norm", "fix_gamma=false",             \
        {{4, {8, channels, 56, 56}},                      \
         {1, {channels}},                                 \
         {1, {channels}},                                 \
         {1, {channels}},                                 \
         {1, {channels}}},                                \
        "batch_norm", {0}, 0, {                           \
      {"forward", 0, forward}, {                          \
        "backward", 7, backward                           \
      }                                                   \
    }                                                     \
  }

static const ops_case ops_cases[] = {
    OPS_CONV("conv 3x3 64-64 56", 8, 64, 64, 3, 1, 1, 1, 56),
    OPS_CONV("conv 3x3 128-128 28", 8, 128, 128, 3, 1, 1, 1, 28),
    OPS_CONV("conv 3x3 256-256 14", 8, 256, 256, 3, 1, 1, 1, 14),
    OPS_CONV("conv 3x3 512-512 7", 8, 512, 512, 3, 1, 1, 1, 7),
    OPS_CONV("conv 3x3/2 64-128 56", 8, 64, 128, 3, 2, 1, 1, 56),
    OPS_CONV("conv 1x1 256-64 56", 8, 256, 64, 1, 1, 0, 1, 56),
    OPS_CONV("conv 7x7/2 3-64 224", 8, 3, 64, 7, 2, 3, 1, 224),
    OPS_CONV("conv 5x5 6-16 14", 64, 6, 16, 5, 1, 0, 1, 14),
    OPS_CONV("conv 5x5 20-50 12", 64, 20, 50, 5, 1, 0, 1, 12),
    OPS_CONV("depthwise 3x3 128 28", 8, 128, 128, 3, 1, 1, 128, 28),
    OPS_POOL("max pool 3x3/2 64 112", max, 3, 2, 1, 64, 112, 20, 1.5),
    OPS_POOL("avg pool 2x2/2 64 112", avg, 2, 2, 0, 64, 112, 10, 6),
    OPS_SOFTMAX("softmax 4096x1024", "softmax", 4096, 1024, 1.3),
    OPS_SOFTMAX("softmax 4096x128", "softmax", 4096, 128, 1.5),
    OPS_SOFTMAX("softmax 64x10", "softmax", 64, 10, 1.5),
    OPS_SOFTMAX("log softmax 4096x1024", "log_softmax", 4096, 1024, 0),
    OPS_BATCH_NORM("batch norm 8x64x56", 64, 6, 1.2),
    OPS_BATCH_NORM("batch norm 8x256x56", 256, 4, 1.2),
    {"layer norm 4096x768",
     "nn.layer_norm",
     "",
     {{2, {4096, 768}}, {1, {768}}, {1, {768}}},
     "layer_norm",
     {0},
     0,
     {{"forward", 0, 1.8}, {"backward", 7, 1.2}}},
    {"dropout 1M",
     "nn.dropout",
     "mode=always",
     {{1, {1 << 20}}},
     "dropout",
     {0},
     0,
     {{"forward", 0, 20}, {"backward", 1, 0}}},
    {"cross entropy 4096x1024",
     "nn.softmax_cross_entropy",
     "",
     {{2, {4096, 1024}}, {1, {4096}}},
     "cross_entropy",
     {0},
     0,
     {{"forward", 0, 1.3}, {"backward", 1, 1.3}}},
    {"embedding 30000x512 4096",
     "nn.embedding",
     "input_dim=30000 output_dim=512",
     {{1, {4096}}, {2, {30000, 512}}},
     "embedding",
     {0},
     0,
     {{"forward", 0, 0}, {"backward", 2, 2}}},
    OPS_REDUCE("sum over rows 1024", "tensor.sum", "axis=[1]", "sum", 1, 1),
    OPS_REDUCE("sum over columns 1024", "tensor.sum", "axis=[0]", "sum", 0, 1),
    OPS_REDUCE("max over rows 1024", "tensor.max", "axis=[1]", "amax", 1, 0),
    OPS_REDUCE("max over columns 1024", "tensor.max", "axis=[0]", "amax", 0, 0),
    OPS_REDUCE("argmax over rows 1024", "tensor.argmax", "axis=1", "argmax", 1,
               5),
    OPS_REDUCE("argmax over columns 1024", "tensor.argmax", "axis=0", "argmax",
               0, 0),
    OPS_PRODUCT("dot 256", "tensor.dot", OPS_2(256, 256), OPS_2(256, 256),
                2.0 * 256 * 256 * 256),
    OPS_PRODUCT("dot 1024", "tensor.dot", OPS_2(1024, 1024), OPS_2(1024, 1024),
                2.0 * 1024 * 1024 * 1024),
    OPS_PRODUCT("dot 1024 with a column", "tensor.dot", OPS_2(1024, 1024),
                OPS_2(1024, 1), 2.0 * 1024 * 1024),
    OPS_PRODUCT("batch dot 512 of 16", "tensor.batch_dot", OPS_3(512, 16, 16),
                OPS_3(512, 16, 16), 2.0 * 512 * 16 * 16 * 16),
    OPS_PRODUCT("batch dot 64 of 128 64 128", "tensor.batch_dot",
                OPS_3(64, 128, 64), OPS_3(64, 64, 128),
                2.0 * 64 * 128 * 64 * 128),
    {"transpose 1024",
     "tensor.transpose",
     "",
     {{2, {1024, 1024}}},
     "transpose",
     {0, 1},
     0,
     {{"forward", 0, 1.2}}},
    {"channels last 8x64x56",
     "tensor.transpose",
     "axes=[0,2,3,1]",
     {{4, {8, 64, 56, 56}}},
     "channels_last",
     {0},
     0,
     {{"forward", 0, 1.2}}},
    {"concat 2x 1024x512",
     "tensor.concat",
     "",
     {{2, {1024, 512}}, {2, {1024, 512}}},
     "concat",
     {1},
     0,
     {{"forward", 0, 0}}},
    {"uniform 1M",
     "random.uniform",
     "shape=[1048576]",
     {{0}},
     "uniform",
     {1048576},
     0,
     {{"forward", 0, 5}}},
    {"normal 1M",
     "random.normal",
     "shape=[1048576]",
     {{0}},
     "normal",
     {1048576},
     0,
     {{"forward", 0, 5}}},
    {"adam 1M",
     "optim.adam_update",
     "lr=0.001 step=5",
     {{1, {1048576}}, {1, {1048576}}, {1, {1048576}}, {1, {1048576}}},
     "adam",
     {5},
     0,
     {{"forward", 0, 3}}},
    {"deconv 4x4/2 128-64 28",
     "nn.deconvolution",
     "kernel=[4,4] stride=[2,2] pad=[1,1] num_filter=64",
     {{4, {8, 128, 28, 28}}, {4, {128, 64, 4, 4}}},
     "deconvolution",
     {2, 1},
     2.0 * 8 * 128 * 64 * 28 * 28 * 16,
     {{"forward", 0, 1}, {"data", 1, 1}, {"weight", 2, 1}}},
    {"unfold 3x3 64 56",
     "nn.unfold",
     "kernel=[3,3] pad=[1,1]",
     {{4, {8, 64, 56, 56}}},
     "unfold",
     {3, 1, 1},
     0,
     {{"forward", 0, 1}, {"backward", 1, 1}}},
    {"resize nearest 64 56 to 112",
     "nn.resize",
     "sizes=[112,112] axes=[2,3] coordinates=asymmetric nearest_mode=floor",
     {{4, {8, 64, 56, 56}}},
     "resize",
     {112, 0},
     0,
     {{"forward", 0, 1}, {"backward", 1, 1}}},
    {"resize linear 64 56 to 112",
     "nn.resize",
     "sizes=[112,112] axes=[2,3] mode=linear",
     {{4, {8, 64, 56, 56}}},
     "resize",
     {112, 1},
     0,
     {{"forward", 0, 1}, {"backward", 1, 1}}},
    {"grid sample 64 56",
     "nn.grid_sample",
     "",
     {{4, {8, 64, 56, 56}}, {4, {8, 56, 56, 2}}},
     "grid_sample",
     {0},
     0,
     {{"forward", 0, 1}, {"backward", 3, 1}}},
    {"max pool indices 3x3/2 64 112",
     "nn.max_pool_indices",
     "kernel=[3,3] stride=[2,2] pad=[1,1]",
     {{4, {8, 64, 112, 112}}},
     "max_pool",
     {3, 2, 1},
     0,
     {{"forward", 0, 1}, {"backward", 1, 1}}},
};
static const ops_extra ops_extras[] = {
    {"batch norm 8x64x56", 3, 2, 0, 0},
    {"batch norm 8x256x56", 3, 2, 0, 0},
    {"layer norm 4096x768", 3, 0, 0, 0},
    {"dropout 1M", 2, 0, 0, 0},
    {"cross entropy 4096x1024", 2, 0, 1, 1024},
    {"embedding 30000x512 4096", 1, 0, 0, 30000},
    {"max pool indices 3x3/2 64 112", 2, 0, 0, 0},
};

/* That of a row. */
static inline ops_extra ops_extra_of(const ops_case *c) {
  const ops_extra none = {c->name, 1, 0, 0, 0};
  for (size_t i = 0; i < sizeof ops_extras / sizeof *ops_extras; ++i)
    if (strcmp(ops_extras[i].name, c->name) == 0) return ops_extras[i];
  return none;
}

enum { OPS_N_CASES = sizeof ops_cases / sizeof *ops_cases };

#endif /* TENON_BENCH_OPS_H_ */
