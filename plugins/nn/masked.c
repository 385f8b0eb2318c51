/* SPDX-License-Identifier: Apache-2.0
 * masked.c: see masked.h. The elements of a call are cut into parts; a part
 * draws its words, and the loop does the rest.
 */
#include "masked.h"

#include "tenon/philox.h"

enum { PART = 1024 }; /* elements, a multiple of what philox.h makes at once */

typedef struct work {
  const nn_masked *masked;
  tn_kernel_mode mode;
} work;

/* Part of an operand. */
static char *place(const tn_tensor *tensor, int64_t at) {
  return (char *)tensor->data + at * tn_dtype_bytes(tensor->dtype);
}

static int wants(const tn_frame *call, uint32_t out) {
  return out < call->n_out && call->req[out] != TN_REQ_NULL;
}

/* n elements from `at` on, of which the words are given. Operands of another
 * type, and what is not wanted, are scratch. */
static void run_part(const work *w, int64_t at, int64_t n,
                     const uint32_t *word) {
  TN_KERNEL_LINED char scratch[2][PART * sizeof(double)];
  const tn_frame *call = w->masked->call;
  const tn_tensor *in = &call->in[0], *out = call->out;
  const int wide = in->dtype != w->mode.compute;
  tn_kernel_block block = {
      .n = n, .out = scratch[0], .in = {word, scratch[0], scratch[1]}};
  if (wide)
    tn_kernel_load_dense(scratch[0], &w->mode, place(in, at), in->dtype, n);
  else
    block.in[1] = place(in, at);
  if (!wide && wants(call, 0)) block.out = place(&out[0], at);
  if (!wide && wants(call, 1)) block.in[2] = place(&out[1], at);
  nn_loop_run(&w->mode, w->masked->loops, &block, w->masked->params);
  for (uint32_t k = 0; wide && k < 2; ++k)
    if (wants(call, k))
      tn_kernel_store_dense(place(&out[k], at), out[k].dtype, scratch[k],
                            &w->mode, n);
}

/* Parts [begin, end). */
static int32_t run_slice(void *arg, int64_t begin, int64_t end) {
  const work *w = arg;
  const nn_masked *m = w->masked;
  const int64_t size = tn_tensor_size(&m->call->in[0]);
  TN_KERNEL_LINED uint32_t word[PART];
  if (!m->draws) memset(word, 0, sizeof word);
  for (int64_t p = begin; p < end; ++p) {
    const int64_t at = p * PART;
    const int64_t n = size - at < PART ? size - at : PART;
    if (m->draws)
      tn_philox_words(word, m->call->run->random[0], (uint64_t)at / 4,
                      (n + 3) / 4, w->mode.level);
    run_part(w, at, n, word);
  }
  return TN_OK;
}

int32_t nn_masked_run(const nn_masked *masked) {
  const tn_frame *call = masked->call;
  const int64_t size = tn_tensor_size(&call->in[0]);
  work w = {masked,
            {tn_kernel_compute(call->in[0].dtype), tn_kernel_level(call)}};
  return nn_share(call, (size + PART - 1) / PART, 2 * PART, run_slice, &w);
}
