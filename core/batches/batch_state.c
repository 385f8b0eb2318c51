/* SPDX-License-Identifier: Apache-2.0
 * batch_state.c: the position in a data set as a text "key=value ...", in the
 * form of parameters.
 */
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "batches.h"

/* The first members describe the data set, the others the position. Integers of
 * 64 bits without a sign keep their bits. */
typedef struct state {
  const char *kind;
  int64_t examples;
  int64_t batch;
  int64_t last;
  int64_t shuffle;
  int64_t seed;
  int64_t part;
  int64_t n_parts;
  int64_t epoch;
  int64_t next; /* the number of the next batch */
  tn_ints carried;
} state;

#define INTEGER(member)                                             \
  {                                                                 \
    .struct_size = sizeof(tn_field), .type = TN_FIELD_INT,          \
    .flags = TN_FIELD_REQUIRED, .offset = offsetof(state, member),  \
    .has_offset = TN_NONE, .rank_of = TN_NONE, .max_rank = TN_NONE, \
    .name = #member                                                 \
  }

enum { KIND, N_DESCRIPTION = 8, CARRIED = 10, N_FIELDS };

static const tn_field all[N_FIELDS] = {{.struct_size = sizeof(tn_field),
                                        .type = TN_FIELD_STRING,
                                        .flags = TN_FIELD_REQUIRED,
                                        .offset = offsetof(state, kind),
                                        .has_offset = TN_NONE,
                                        .rank_of = TN_NONE,
                                        .max_rank = TN_NONE,
                                        .name = "kind"},
                                       INTEGER(examples),
                                       INTEGER(batch),
                                       INTEGER(last),
                                       INTEGER(shuffle),
                                       INTEGER(seed),
                                       INTEGER(part),
                                       INTEGER(n_parts),
                                       INTEGER(epoch),
                                       INTEGER(next),
                                       {.struct_size = sizeof(tn_field),
                                        .type = TN_FIELD_INTS,
                                        .flags = TN_FIELD_REQUIRED,
                                        .offset = offsetof(state, carried),
                                        .has_offset = TN_NONE,
                                        .rank_of = TN_NONE,
                                        .max_rank = TN_NONE,
                                        .name = "carried"}};

/* A list of the fields, and their description. */
typedef struct state_fields {
  const tn_field *list[N_FIELDS];
  tn__fields fields;
} state_fields;

static void describe_state(state_fields *out) {
  for (size_t i = 0; i < N_FIELDS; ++i) out->list[i] = &all[i];
  out->fields = (tn__fields){out->list, N_FIELDS, sizeof(state),
                             "a position in a data set"};
}

static void get_state(const tn_data *data, state *out) {
  const tn_data_options *o = &data->options;
  const tn__example_order *order = &data->order;
  *out = (state){.kind = data->source->kind,
                 .examples = (int64_t)order->n_all,
                 .batch = o->batch,
                 .last = o->last,
                 .shuffle = o->shuffle,
                 .seed = (int64_t)o->seed,
                 .part = o->part,
                 .n_parts = o->n_parts,
                 .epoch = (int64_t)order->epoch,
                 .next = (int64_t)data->n_taken};
  out->carried.n = (int64_t)order->n_carried;
  out->carried.v = (const int64_t *)order->carried;
}

tn_code tn__data_save(const tn_data *data, tn_text **out) {
  state now;
  state_fields description;
  tn__buf text;
  get_state(data, &now);
  describe_state(&description);
  tn__buf_init(&text, data->env);
  tn__fields_text(&description.fields, &now, &text);
  return tn__buf_text(&text, out);
}

/* ---------------------------------------------------------------- restore */

static int64_t get_integer(const state *s, size_t field) {
  int64_t value;
  memcpy(&value, (const char *)s + all[field].offset, sizeof value);
  return value;
}

/* Compares the descriptions of two data sets. */
static tn_code compare_states(const state *saved, const state *now) {
  if (strcmp(saved->kind, now->kind) != 0)
    return tn__fail(TN_INVALID,
                    "tn_data_restore: the position is of data of kind %s, and "
                    "this is %s",
                    saved->kind, now->kind);
  for (size_t i = KIND + 1; i < N_DESCRIPTION; ++i) {
    const int64_t a = get_integer(saved, i), b = get_integer(now, i);
    if (a != b)
      return tn__fail(
          TN_INVALID,
          "tn_data_restore: the position is of data with %s=%" PRId64
          ", and here it is %" PRId64 "; open the data in the same way",
          all[i].name, a, b);
  }
  return TN_OK;
}

static tn_code check_position(const tn_data *data, const state *s) {
  const bool rolls = data->options.last == TN_LAST_ROLL;
  bool fits = s->carried.n == 0 ||
              (rolls && s->carried.n < (int64_t)data->options.batch);
  for (int64_t i = 0; fits && i < s->carried.n; ++i)
    fits = s->carried.v[i] >= 0 && s->carried.v[i] < s->examples;
  fits = fits && s->epoch >= 0 && s->next >= 0 &&
         (uint64_t)s->next <= tn__data_count(data, (uint64_t)s->carried.n);
  if (fits) return TN_OK;
  return tn__fail(TN_INVALID,
                  "tn_data_restore: there is no batch %" PRId64
                  " of epoch %" PRId64 " with %" PRId64
                  " examples of the epoch before it; use a "
                  "text of tn_data_save without changes",
                  s->next, s->epoch, s->carried.n);
}

static tn_code restore(tn_data *data, const state *saved) {
  state now;
  get_state(data, &now);
  TN__TRY(compare_states(saved, &now));
  TN__TRY(check_position(data, saved));
  tn__data_drain(data);
  data->order.n_carried = (uint64_t)saved->carried.n;
  for (int64_t i = 0; i < saved->carried.n; ++i)
    data->order.carried[i] = (uint64_t)saved->carried.v[i];
  tn__data_go(data, (uint64_t)saved->epoch, (uint64_t)saved->next);
  return TN_OK;
}

tn_code tn__data_restore(tn_data *data, const char *text) {
  state_fields description;
  void *saved = NULL;
  describe_state(&description);
  TN__TRY(tn__fields_parse(data->env, &description.fields, text, &saved));
  const tn_code rc = restore(data, saved);
  tn__free(data->env, saved);
  return rc;
}
