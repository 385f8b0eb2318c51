/* SPDX-License-Identifier: Apache-2.0
 * dropout.c: the kernel of dropout.yaml. The elements of a call are cut into
 * parts; a part draws its words, turns them into factors and applies these.
 */
#include "dropout.gen.h"

#include "axis.h"
#include "tenon/philox.h"

enum { PART = 1024 }; /* elements, a multiple of what philox.h makes at once */

/* Elements whose word is below `limit` are dropped, in numbers that a vector of
 * signed integers compares: 2^31 less. */
typedef struct factors {
  int32_t limit;
  double kept;
} factors;

/* Factors of words, and their products with elements: in[0] words, in[1]
 * elements; out are products, over them, in[2] the factors. */
#define DROP(name, type)                                                       \
  TN_KERNEL_BODY void name(const tn_kernel_block *block, const void *params) { \
    const factors *f = params;                                                 \
    const type kept = (type)f->kept;                                           \
    const uint32_t *word = block->in[0];                                       \
    const type *x = block->in[1];                                              \
    type *mask = (type *)(uintptr_t)block->in[2];                              \
    type *y = block->out;                                                      \
    TN_KERNEL_INDEPENDENT                                                      \
    for (int64_t i = 0; i < block->n; ++i) {                                   \
      const int32_t at = (int32_t)(word[i] ^ 0x80000000u);                     \
      const type factor = at < f->limit ? 0 : kept;                            \
      mask[i] = factor;                                                        \
      y[i] = x[i] * factor;                                                    \
    }                                                                          \
  }                                                                            \
  TN_KERNEL_LEVELS(name)

DROP(drop_f32, float)
DROP(drop_f64, double)

typedef struct work {
  const tn_frame *call;
  tn_kernel_mode mode;
  factors factors;
  int draws; /* or keeps everything */
} work;

/* Part of an operand. */
static char *place(const tn_tensor *tensor, int64_t at) {
  return (char *)tensor->data + at * tn_dtype_bytes(tensor->dtype);
}

/* n elements from `at` on, of which the words are given. Operands of another
 * type, and a mask that is not wanted, are scratch. */
static void drop(const work *w, int64_t at, int64_t n, const uint32_t *word) {
  static const nn_loops loops = NN_LOOPS(drop);
  TN_KERNEL_LINED char scratch[2][PART * sizeof(double)];
  const tn_frame *call = w->call;
  const tn_tensor *in = &call->in[NN_DROPOUT_IN_DATA];
  const tn_tensor *out = &call->out[NN_DROPOUT_OUT_OUT];
  const tn_tensor *mask = &call->out[NN_DROPOUT_OUT_MASK];
  const int wide = in->dtype != w->mode.compute;
  const int shown = call->req[NN_DROPOUT_OUT_MASK] != TN_REQ_NULL;
  const int wanted = call->req[NN_DROPOUT_OUT_OUT] != TN_REQ_NULL;
  tn_kernel_block block = {
      .n = n,
      .out = wide || !wanted ? scratch[0] : place(out, at),
      .in = {word, wide ? scratch[0] : place(in, at),
             wide || !shown ? scratch[1] : place(mask, at)}};
  if (wide)
    tn_kernel_load_dense(scratch[0], &w->mode, place(in, at), in->dtype, n);
  nn_loop_run(&w->mode, &loops, &block, &w->factors);
  if (wide && wanted)
    tn_kernel_store_dense(place(out, at), out->dtype, scratch[0], &w->mode, n);
  if (wide && shown)
    tn_kernel_store_dense(place(mask, at), mask->dtype, scratch[1], &w->mode,
                          n);
}

/* Parts [begin, end). */
static int32_t drop_slice(void *arg, int64_t begin, int64_t end) {
  const work *w = arg;
  const int64_t size = tn_tensor_size(&w->call->in[NN_DROPOUT_IN_DATA]);
  TN_KERNEL_LINED uint32_t word[PART];
  if (!w->draws) memset(word, 0, sizeof word);
  for (int64_t p = begin; p < end; ++p) {
    const int64_t at = p * PART;
    const int64_t n = size - at < PART ? size - at : PART;
    if (w->draws)
      tn_philox_words(word, w->call->run->random[0], (uint64_t)at / 4,
                      (n + 3) / 4, w->mode.level);
    drop(w, at, n, word);
  }
  return TN_OK;
}

/* Nothing is below the limit of p = 0, everything has the factor 0 for p = 1.
 */
static factors factors_of(double p) {
  const uint32_t limit = p < 1 ? (uint32_t)(p * 0x1p32) : 0;
  return (factors){(int32_t)(limit ^ 0x80000000u), p < 1 ? 1 / (1 - p) : 0};
}

int32_t nn_dropout(const tn_frame *call) {
  const nn_dropout_params *p = nn_dropout_params_of(call);
  const tn_tensor *in = &call->in[NN_DROPOUT_IN_DATA];
  const int active =
      (call->flags & TN_CALL_TRAIN) || p->mode == NN_DROPOUT_MODE_ALWAYS;
  work w = {.call = call,
            .mode = {tn_kernel_compute(in->dtype), tn_kernel_level(call)},
            .factors = factors_of(active ? p->p : 0),
            .draws = active && p->p > 0 && p->p < 1};
  if (!active && call->req[NN_DROPOUT_OUT_OUT] == TN_REQ_INPLACE &&
      call->req[NN_DROPOUT_OUT_MASK] == TN_REQ_NULL)
    return TN_OK;
  return nn_share(call, (tn_tensor_size(in) + PART - 1) / PART, 2 * PART,
                  drop_slice, &w);
}
