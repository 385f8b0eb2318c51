/* SPDX-License-Identifier: Apache-2.0
 * batch_order.c: the order of the examples in an epoch. It depends on the seed,
 * the number of the epoch and the number of examples, and on nothing else
 * (decision 109).
 */
#include "batches.h"

/* Returns floor(n * part / n_parts), for part <= n_parts < 2^32. */
static uint64_t divide(uint64_t n, uint64_t part, uint64_t n_parts) {
  return n / n_parts * part + n % n_parts * part / n_parts;
}

static tn_code reserve_numbers(const tn__env *env, uint64_t n, uint64_t **out) {
  size_t bytes = 0;
  if (n > SIZE_MAX || !tn__mul((size_t)n, sizeof **out, &bytes))
    return tn__fail_memory(SIZE_MAX, "the order of the examples");
  *out = tn__alloc(env, bytes);
  return *out ? TN_OK : tn__fail_memory(bytes, "the order of the examples");
}

tn_code tn__example_order_init(const tn__env *env, uint64_t n,
                               const tn_data_options *options,
                               tn__example_order *out) {
  const uint64_t n_parts = options->n_parts, part = options->part;
  *out = (tn__example_order){.n_all = n, .seed = options->seed};
  out->begin = divide(n, part, n_parts);
  out->n_part = divide(n, part + 1, n_parts) - out->begin;
  if (options->last == TN_LAST_ROLL)
    TN__TRY(reserve_numbers(env, options->batch, &out->carried));
  if (options->shuffle) TN__TRY(reserve_numbers(env, n, &out->number));
  tn__example_order_begin(out, 0);
  return TN_OK;
}

void tn__example_order_deinit(const tn__env *env, tn__example_order *order) {
  tn__free(env, order->number);
  tn__free(env, order->carried);
}

/* A sequence of numbers by chance. */
typedef struct sequence {
  uint64_t key;
  uint64_t n; /* numbers so far */
} sequence;

/* A number below `bound`, each with the same probability. */
static uint64_t draw_below(sequence *s, uint64_t bound) {
  const uint64_t least = (0 - bound) % bound; /* 2^64 modulo bound */
  for (;;) {
    const uint64_t number = tn__mix(s->key + ++s->n * TN__GOLDEN);
    if (number >= least) return number % bound;
  }
}

void tn__example_order_begin(tn__example_order *order, uint64_t epoch) {
  sequence s = {tn__epoch_key(order->seed, epoch), 0};
  order->epoch = epoch;
  if (!order->number) return;
  for (uint64_t i = 0; i < order->n_all; ++i) order->number[i] = i;
  for (uint64_t i = 0; i < order->n_all; ++i) {
    const uint64_t other = i + draw_below(&s, order->n_all - i);
    const uint64_t number = order->number[other];
    order->number[other] = order->number[i];
    order->number[i] = number;
  }
}

uint64_t tn__example_order_count(const tn__example_order *order) {
  return order->n_carried + order->n_part;
}

uint64_t tn__example_order_get(const tn__example_order *order,
                               uint64_t position) {
  if (position < order->n_carried) return order->carried[position];
  const uint64_t at = order->begin + (position - order->n_carried);
  return order->number ? order->number[at] : at;
}
