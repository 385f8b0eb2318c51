/* SPDX-License-Identifier: Apache-2.0
 * batch_run.c: opens a data set, pushes the work on its next batches, and hands
 * the batches out in their order.
 */
#include <inttypes.h>

#include "batches.h"

/* ----------------------------------------------------------------- pushing */

uint64_t tn__data_count(const tn_data *data, uint64_t n_carried) {
  const uint64_t n = n_carried + data->order.n_part;
  const uint64_t batch = data->options.batch;
  return n / batch +
         (data->options.last == TN_LAST_PAD && n % batch != 0 ? 1 : 0);
}

/* Describes batch `number` of the epoch. */
static void describe_batch(const tn_data *data, uint64_t number,
                           tn__batch_slot *s) {
  const uint64_t n = tn__example_order_count(&data->order);
  const uint64_t first = number * s->n;
  s->number = number;
  s->key = tn__epoch_key(data->order.seed, data->order.epoch);
  s->pad = first + s->n > n ? (uint32_t)(first + s->n - n) : 0;
  for (uint32_t i = 0; i < s->n; ++i)
    s->index[i] = tn__example_order_get(&data->order, (first + i) % n);
}

static tn_code push_batch(tn_data *data) {
  tn__batch_slot *s = &data->slots[data->n_pushed % data->n_slots];
  describe_batch(data, data->n_pushed, s);
  TN__TRY(tn__batch_slot_push(s));
  ++data->n_pushed;
  return TN_OK;
}

/* Pushes batches until `most` are in work or the epoch ends. */
static tn_code push_ahead(tn_data *data, uint64_t most) {
  while (data->n_pushed < data->n_batches &&
         data->n_pushed - data->n_taken < most)
    TN__TRY(push_batch(data));
  return TN_OK;
}

void tn__data_drain(tn_data *data) {
  for (; data->n_taken < data->n_pushed; ++data->n_taken)
    tn__batch_slot_drain(&data->slots[data->n_taken % data->n_slots]);
}

/* ------------------------------------------------------------------ batches */

static void hand_out(const tn_data *data, const tn__batch_slot *s,
                     tn_batch *out) {
  *out = (tn_batch){.n_arrays = s->n_arrays,
                    .pad = s->pad,
                    .number = s->number,
                    .epoch = data->order.epoch,
                    .arrays = s->arrays,
                    .n_examples = s->n,
                    .index = s->index};
}

/* The slot of the batch before is free again, so one batch more than in
 * `prefetch` can be in work until this one is complete. */
tn_code tn__data_next(tn_data *data, tn_batch *out) {
  TN__TRY(push_ahead(data, data->n_slots));
  if (data->n_taken == data->n_pushed) return TN_OK;
  tn__batch_slot *s = &data->slots[data->n_taken % data->n_slots];
  ++data->n_taken;
  const tn_code rc = tn__batch_slot_wait(s);
  if (rc != TN_OK)
    return tn__fail_more(rc, " (batch %" PRIu64 " of epoch %" PRIu64 ")",
                         s->number, data->order.epoch);
  hand_out(data, s, out);
  return TN_OK;
}

/* Sets the examples that the next epoch begins with. */
static void carry_rest(tn_data *data) {
  tn__example_order *order = &data->order;
  const uint64_t n = tn__example_order_count(order);
  const uint64_t first = data->n_batches * data->options.batch;
  const bool has_ended = data->n_taken == data->n_batches;
  uint64_t n_rest = 0;
  if (data->options.last != TN_LAST_ROLL) return;
  /* A position is read before it is overwritten: first >= n_rest, or there were
   * no batches and all stay in their places. */
  for (uint64_t i = first; has_ended && i < n; ++i)
    order->carried[n_rest++] = tn__example_order_get(order, i);
  order->n_carried = n_rest;
}

void tn__data_go(tn_data *data, uint64_t epoch, uint64_t batch) {
  tn__example_order_begin(&data->order, epoch);
  data->n_batches = tn__data_count(data, data->order.n_carried);
  data->n_pushed = data->n_taken = batch;
}

void tn__data_rewind(tn_data *data) {
  carry_rest(data);
  tn__data_drain(data);
  tn__data_go(data, data->order.epoch + 1, 0);
  const tn_code rc = push_ahead(data, data->n_slots - 1);
  (void)rc; /* a failure is reported by the next call, which tries again */
}

/* --------------------------------------------------------------------- life */

static tn_code create_slots(tn_data *data) {
  const uint32_t n = data->options.prefetch + 1;
  data->slots = tn__zalloc(data->env, n * sizeof *data->slots);
  if (!data->slots)
    return tn__fail_memory(n * sizeof *data->slots,
                           "the batches of a data set");
  for (; data->n_slots < n; ++data->n_slots) {
    tn__batch_slot *s = &data->slots[data->n_slots];
    const tn_code rc =
        tn__batch_slot_init(data->rt, data->source, &data->options, s);
    if (rc == TN_OK) continue;
    tn__batch_slot_deinit(s);
    return rc;
  }
  return TN_OK;
}

static tn_code init_data(tn_data *data) {
  TN__TRY(tn__example_order_init(data->env, data->source->n, &data->options,
                                 &data->order));
  data->n_batches = tn__data_count(data, 0);
  return create_slots(data);
}

tn_code tn__data_create(tn_runtime *rt, tn__source *source,
                        const tn_data_options *options, tn_data **out) {
  const tn__env *env = source->env;
  tn_data *data = tn__zalloc(env, sizeof *data);
  if (!data) {
    tn__source_release(source);
    return tn__fail_memory(sizeof *data, "a data set");
  }
  *data =
      (tn_data){.rt = rt, .env = env, .source = source, .options = *options};
  tn__env_retain(env);
  const tn_code rc = init_data(data);
  if (rc == TN_OK)
    *out = data;
  else
    tn__data_release(data);
  return rc;
}

void tn__data_release(tn_data *data) {
  const tn__env *env = data->env;
  tn__data_drain(data);
  for (uint32_t i = 0; i < data->n_slots; ++i)
    tn__batch_slot_deinit(&data->slots[i]);
  tn__free(env, data->slots);
  tn__example_order_deinit(env, &data->order);
  tn__source_release(data->source);
  tn__free(env, data);
  tn__env_release(env); /* last: it may destroy the runtime */
}
