/* SPDX-License-Identifier: Apache-2.0
 * conv_sums.c: the gradient of a weight as several sums, each over some images.
 */
#include "conv.h"
#include "tenon/kernel/kernel.h"

enum {
  MOST_PARTS = 8,     /* largest number of separate sums */
  SUM_BYTES = 4 << 20 /* largest size of all sums except the first, in bytes */
};

/* Returns the number of elements of the weight. */
static int64_t count_weights(const nn_conv *c) {
  return c->groups * c->filters * c->channels * c->taps;
}

nn_conv_sums nn_conv_plan_sums(const nn_conv *conv) {
  const int64_t bytes = count_weights(conv) * conv->bytes;
  const int64_t parts =
      nn_min(nn_min(MOST_PARTS, conv->images), SUM_BYTES / bytes);
  return (nn_conv_sums){conv, nn_max(parts, 1)};
}

uint64_t nn_conv_count_sum_bytes(const nn_conv_sums *sums) {
  const int64_t bytes = count_weights(sums->conv) * sums->conv->bytes;
  return (uint64_t)((sums->parts - 1) * bytes + 63) / 64 * 64;
}

char *nn_conv_locate_sum(const nn_conv_sums *sums, char *weight, int64_t part) {
  const nn_conv *c = sums->conv;
  if (part == 0) return weight;
  return c->memory + (part - 1) * count_weights(c) * c->bytes;
}

/* Arguments of the loop add_slice. */
typedef struct sum_args {
  const nn_conv_sums *sums;
  char *weight;
} sum_args;

/* Adds elements [begin, end) of all separate sums to those of the gradient. */
static int32_t add_slice(void *arg, int64_t begin, int64_t end) {
  const sum_args *j = arg;
  const nn_conv *c = j->sums->conv;
  const tn_kernel_mode mode = {c->dtype, c->level};
  for (int64_t part = 1; part < j->sums->parts; ++part)
    tn_kernel_add_dense(
        j->weight + begin * c->bytes,
        nn_conv_locate_sum(j->sums, j->weight, part) + begin * c->bytes, &mode,
        end - begin);
  return TN_OK;
}

int32_t nn_conv_add_sums(const nn_conv_sums *sums, char *weight) {
  sum_args j = {sums, weight};
  if (sums->parts == 1) return TN_OK;
  return sums->conv->call->host->parallel_for(
      sums->conv->call, count_weights(sums->conv), TN_KERNEL_GRAIN / 4,
      add_slice, &j);
}
