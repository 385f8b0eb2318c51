/* SPDX-License-Identifier: Apache-2.0
 * ops_extra.h: further facts of some rows of ops.h: the number of outputs,
 * states, and inputs of indices.
 */
#ifndef TENON_BENCH_OPS_EXTRA_H_
#define TENON_BENCH_OPS_EXTRA_H_

#include "ops.h"

/* Few rows need one. */
typedef struct ops_extra {
  const char *name;
  uint32_t n_out;      /* outputs, hidden ones too */
  uint32_t n_aux;      /* the last inputs are states, and the call trains */
  uint32_t index_at;   /* an input of i64, if there is a limit: */
  int64_t index_limit; /* its numbers are below it */
} ops_extra;

static const ops_extra ops_extras[] = {
    {"batch norm 8x64x56", 3, 2, 0, 0},
    {"batch norm 8x256x56", 3, 2, 0, 0},
    {"layer norm 4096x768", 3, 0, 0, 0},
    {"dropout 1M", 2, 0, 0, 0},
    {"cross entropy 4096x1024", 2, 0, 1, 1024},
    {"embedding 30000x512 4096", 1, 0, 0, 30000},
    {"sort 1M", 2, 0, 0, 0},
    {"sort 1024 of 1024", 2, 0, 0, 0},
    {"topk 10 of 1M", 2, 0, 0, 0},
    {"topk 1000 of 1M", 2, 0, 0, 0},
    {"topk 5 of 1024 of 1024", 2, 0, 0, 0},
    {"rms norm 4096x768", 2, 0, 0, 0},
    {"group norm 8x64x56", 3, 0, 0, 0},
    {"instance norm 8x64x56", 3, 0, 0, 0},
    {"l2 norm 4096x768", 2, 0, 0, 0},
    {"lrn 8x96x27", 2, 0, 0, 0},
    {"ctc 128x32x64 20", 1, 0, 1, 63},
    {"scatter add 1M", 1, 0, 1, 1 << 20},
    {"scatter add 30000x512 4096", 1, 0, 1, 30000},
    {"gather nd 1024x1024 64K", 1, 0, 1, 1024},
    {"qr 256x128", 2, 0, 0, 0},
    {"svd 128", 3, 0, 0, 0},
    {"syevd 128", 2, 0, 0, 0},
    {"attention 12x512x64", 3, 0, 0, 0},
    {"causal attention 12x512x64", 3, 0, 0, 0},
    {"lstm 64x32x128", 3, 0, 0, 0},
    {"lstm 64x1x128", 3, 0, 0, 0},
    {"gru 64x32x128", 3, 0, 0, 0},
    {"max pool indices 3x3/2 64 112", 2, 0, 0, 0},
};

/* Returns the facts of a row. */
static inline ops_extra ops_extra_of(const ops_case *c) {
  const ops_extra none = {c->name, 1, 0, 0, 0};
  for (size_t i = 0; i < sizeof ops_extras / sizeof *ops_extras; ++i)
    if (strcmp(ops_extras[i].name, c->name) == 0) return ops_extras[i];
  return none;
}

#endif /* TENON_BENCH_OPS_EXTRA_H_ */
