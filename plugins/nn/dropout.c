/* SPDX-License-Identifier: Apache-2.0
 * dropout.c: the kernel of dropout.yaml: chooses dropped elements from random
 * words.
 */
#include "dropout.gen.h"

#include "random_scaling.h"

/* Parameters of a loop. An element is dropped if its random word is below
 * `limit`. Both are reduced by 2^31, because vectors compare signed integers.
 */
typedef struct factors {
  int32_t limit;
  double kept; /* factor of elements that are not dropped */
} factors;

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

/* Returns the parameters for probability p. No word is below the limit of p =
 * 0; for p = 1 every element has the factor 0. */
static factors find_factors(double p) {
  const uint32_t limit = p < 1 ? (uint32_t)(p * 0x1p32) : 0;
  return (factors){(int32_t)(limit ^ 0x80000000u), p < 1 ? 1 / (1 - p) : 0};
}

/* Scales each element by a random factor: 0, or 1 / (1 - p). */
int32_t nn_dropout(const tn_frame *call) {
  static const nn_loops loops = NN_LOOPS(drop);
  const nn_dropout_params *p = nn_dropout_params_of(call);
  const int active =
      (call->flags & TN_CALL_TRAIN) || p->mode == NN_DROPOUT_MODE_ALWAYS;
  const factors f = find_factors(active ? p->p : 0);
  if (!active && call->req[NN_DROPOUT_OUT_OUT] == TN_REQ_INPLACE &&
      call->req[NN_DROPOUT_OUT_MASK] == TN_REQ_NULL)
    return TN_OK;
  return nn_random_scaling_run(
      &(nn_random_scaling){.call = call,
                           .loops = &loops,
                           .params = &f,
                           .draws = active && p->p > 0 && p->p < 1});
}
