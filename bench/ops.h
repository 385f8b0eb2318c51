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
#define OPS_1(n) \
  {              \
    1, {         \
      n          \
    }            \
  }
/* Lines along the last axis, in order; k of libtorch. */
#define OPS_ORDER(name, op, params, shape, torch, k) \
  {                                                  \
    name, op, params, {shape}, torch, {k}, 0, {      \
      { "forward", 0, 1.2 }                          \
    }                                                \
  }
#define OPS_SCAN(name, shape, axis)                                       \
  {                                                                       \
    name, "tensor.cumsum", "axis=" #axis, {shape}, "cumsum", {axis}, 0, { \
      { "forward", 0, 1 }                                                 \
    }                                                                     \
  }
#define OPS_PRODUCT(name, op, lhs, rhs, flops)        \
  {                                                   \
    name, op, "", {lhs, rhs}, "matmul", {0}, flops, { \
      { "forward", 0, 1 }                             \
    }                                                 \
  }

/* A forward pass; the function of libtorch has no parameters. */
#define OPS_FORWARD(name, op, params, torch, ...)     \
  {                                                   \
    name, op, params, {__VA_ARGS__}, torch, {0}, 0, { \
      { "forward", 0, 1 }                             \
    }                                                 \
  }

/* A function of one matrix, or of a batch of them. */
#define OPS_MATRIX(name, op, shape, goal)          \
  {                                                \
    name, "linalg." op, "", {shape}, op, {0}, 0, { \
      { "forward", 0, goal }                       \
    }                                              \
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

#define OPS_ATTENTION(name, params, causal, goal)                              \
  {                                                                            \
    name, "nn.attention", params,                                              \
        {{4, {1, 12, 512, 64}}, {4, {1, 12, 512, 64}}, {4, {1, 12, 512, 64}}}, \
        "attention", {causal}, 4.0 * 12 * 512 * 512 * 64, {                    \
      {"forward", 0, goal}, {                                                  \
        "backward", 7, 1                                                       \
      }                                                                        \
    }                                                                          \
  }

/* A layer of 128 units over 64 steps of `batch` rows of 128 elements. */
#define OPS_RNN(name, mode, gates, batch)                                     \
  {                                                                           \
    name, "nn.rnn", "state_size=128 mode=" #mode,                             \
        {{3, {64, batch, 128}}, {1, {(gates)*128 * (128 + 128 + 2)}}}, #mode, \
        {gates}, 2.0 * 64 * (batch) * (gates)*128 * (128 + 128), {            \
      { "forward", 0, 1.5 }                                                   \
    }                                                                         \
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
    {"einsum bhqd,bhkd->bhqk 8x8x64x64",
     "tensor.einsum",
     "equation=bhqd,bhkd->bhqk",
     {{4, {8, 8, 64, 64}}, {4, {8, 8, 64, 64}}},
     "einsum_scores",
     {0},
     2.0 * 8 * 8 * 64 * 64 * 64,
     {{"forward", 0, 1}}},
    {"einsum bji,jbk->kbi 32x128",
     "tensor.einsum",
     "equation=bji,jbk->kbi",
     {{3, {32, 128, 128}}, {3, {128, 32, 128}}},
     "einsum_turned",
     {0},
     2.0 * 32 * 128 * 128 * 128,
     {{"forward", 0, 1}}},
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
    OPS_ORDER("sort 1M", "tensor.sort", "", OPS_1(1048576), "sort", 0),
    OPS_ORDER("sort 1024 of 1024", "tensor.sort", "", OPS_2(1024, 1024), "sort",
              0),
    OPS_ORDER("topk 10 of 1M", "tensor.topk", "k=10", OPS_1(1048576), "topk",
              10),
    OPS_ORDER("topk 1000 of 1M", "tensor.topk", "k=1000", OPS_1(1048576),
              "topk", 1000),
    OPS_ORDER("topk 5 of 1024 of 1024", "tensor.topk", "k=5", OPS_2(1024, 1024),
              "topk", 5),
    OPS_SCAN("cumsum 1M", OPS_1(1048576), 0),
    OPS_SCAN("cumsum over rows 1024", OPS_2(1024, 1024), 1),
    OPS_SCAN("cumsum over columns 1024", OPS_2(1024, 1024), 0),
    OPS_REDUCE("logsumexp over rows 1024", "tensor.logsumexp", "axis=[1]",
               "logsumexp", 1, 1),
    OPS_REDUCE("logsumexp over columns 1024", "tensor.logsumexp", "axis=[0]",
               "logsumexp", 0, 1),
    {"roll 1024",
     "tensor.roll",
     "shift=[100,-100] axes=[0,1]",
     {{2, {1024, 1024}}},
     "roll",
     {100, -100},
     0,
     {{"forward", 0, 1}}},
    OPS_FORWARD("scatter add 1M", "tensor.scatter_add", "", "scatter_add",
                OPS_1(1 << 20), OPS_1(1 << 20), OPS_1(1 << 20)),
    {"scatter add 30000x512 4096",
     "tensor.scatter_nd_add",
     "",
     {{2, {30000, 512}}, {2, {4096, 1}}, {2, {4096, 512}}},
     "index_add",
     {0},
     0,
     {{"forward", 0, 1}}},
    {"gather nd 1024x1024 64K",
     "tensor.gather_nd",
     "",
     {{2, {1024, 1024}}, {2, {2, 65536}}},
     "index_pairs",
     {0},
     0,
     {{"forward", 0, 1}, {"backward", 1, 1}}},
    {"dft 1024 of 512",
     "tensor.dft",
     "",
     {{3, {512, 1024, 2}}},
     "dft",
     {1},
     0,
     {{"forward", 0, 1}}},
    {"dft 3x5x7x128 of 64",
     "tensor.dft",
     "",
     {{3, {64, 13440, 2}}},
     "dft",
     {1},
     0,
     {{"forward", 0, 1}}},
    {"dft 1M",
     "tensor.dft",
     "axis=0",
     {{2, {1 << 20, 2}}},
     "dft",
     {0},
     0,
     {{"forward", 0, 1}}},
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
    {"gamma 1M",
     "random.gamma",
     "shape=[1048576] alpha=2.5",
     {{0}},
     "gamma",
     {1048576},
     0,
     {{"forward", 0, 5}}},
    {"poisson 1M",
     "random.poisson",
     "shape=[1048576] lam=20",
     {{0}},
     "poisson",
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
    {"rms norm 4096x768",
     "nn.rms_norm",
     "",
     {{2, {4096, 768}}, {1, {768}}},
     "rms_norm",
     {0},
     0,
     {{"forward", 0, 1}, {"backward", 3, 1}}},
    {"group norm 8x64x56",
     "nn.group_norm",
     "num_groups=32",
     {{4, {8, 64, 56, 56}}, {1, {64}}, {1, {64}}},
     "group_norm",
     {32},
     0,
     {{"forward", 0, 1}, {"backward", 7, 1}}},
    {"instance norm 8x64x56",
     "nn.instance_norm",
     "",
     {{4, {8, 64, 56, 56}}, {1, {64}}, {1, {64}}},
     "instance_norm",
     {0},
     0,
     {{"forward", 0, 1}}},
    {"l2 norm 4096x768",
     "nn.l2_normalization",
     "",
     {{2, {4096, 768}}},
     "l2_norm",
     {1},
     0,
     {{"forward", 0, 1}}},
    {"lrn 8x96x27",
     "nn.lrn",
     "nsize=5",
     {{4, {8, 96, 27, 27}}},
     "lrn",
     {5},
     0,
     {{"forward", 0, 1}, {"backward", 1, 0}}},
    {"ctc 128x32x64 20",
     "nn.ctc_loss",
     "blank_label=last",
     {{3, {128, 32, 64}}, {2, {32, 20}}},
     "ctc",
     {0},
     0,
     {{"forward", 0, 1}}},
    {"logistic output 4096x256",
     "nn.logistic_regression_output",
     "",
     {{2, {4096, 256}}, {2, {4096, 256}}},
     "logistic",
     {0},
     0,
     {{"forward", 0, 1}, {"backward", 1, 1}}},
    {"sequence reverse 128x64x256",
     "nn.sequence_reverse",
     "",
     {{3, {128, 64, 256}}},
     "flip",
     {0},
     0,
     {{"forward", 0, 1}}},
    OPS_MATRIX("inverse 256", "inverse", OPS_2(256, 256), 1),
    OPS_MATRIX("inverse 4096 of 8", "inverse", OPS_3(4096, 8, 8), 1),
    OPS_MATRIX("det 4096 of 8", "det", OPS_3(4096, 8, 8), 1),
    OPS_MATRIX("qr 256x128", "qr", OPS_2(256, 128), 1),
    OPS_MATRIX("svd 128", "svd", OPS_2(128, 128), 1),
    OPS_MATRIX("syevd 128", "syevd", OPS_2(128, 128), 1),
    {"solve 256 with 64",
     "linalg.solve",
     "",
     {{2, {256, 256}}, {2, {256, 64}}},
     "solve",
     {0},
     0,
     {{"forward", 0, 1}}},
    OPS_ATTENTION("attention 12x512x64", "", 0, 1.5),
    OPS_ATTENTION("causal attention 12x512x64", "causal=true", 1, 1.5),
    {"rotary 12x512x64",
     "nn.rotary",
     "",
     {{4, {1, 12, 512, 64}}, {2, {512, 32}}, {2, {512, 32}}},
     "rotary",
     {0},
     0,
     {{"forward", 0, 1}}},
    OPS_RNN("lstm 64x32x128", lstm, 4, 32),
    OPS_RNN("lstm 64x1x128", lstm, 4, 1),
    OPS_RNN("gru 64x32x128", gru, 3, 32),
    {"deconv 4x4/2 128-64 28",
     "nn.deconvolution",
     "kernel=[4,4] stride=[2,2] pad=[1,1] num_filter=64",
     {{4, {8, 128, 28, 28}}, {4, {128, 64, 4, 4}}},
     "deconvolution",
     {2, 1},
     2.0 * 8 * 128 * 64 * 28 * 28 * 16,
     {{"forward", 0, 1}, {"data", 1, 1}, {"weight", 2, 1}}},
    {"deformable 3x3 64 56",
     "nn.deformable_convolution",
     "kernel=[3,3] pad=[1,1] num_filter=64 no_bias=true",
     {{4, {8, 64, 56, 56}}, {4, {64, 64, 3, 3}}, {4, {8, 18, 56, 56}}},
     "deformable",
     {3, 1},
     0,
     {{"forward", 0, 1}, {"backward", 7, 1}}},
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
    OPS_FORWARD("cast f8 1M", "elemwise.cast", "dtype=f8e4m3fn", "cast_f8",
                OPS_1(1 << 20)),
    OPS_FORWARD("dequantize i4 1M", "nn.dequantize", "axis=1 block_size=32",
                "scale_i8", OPS_2(1024, 1024), OPS_2(1024, 32)),
};

enum { OPS_N_CASES = sizeof ops_cases / sizeof *ops_cases };

#endif /* TENON_BENCH_OPS_H_ */
