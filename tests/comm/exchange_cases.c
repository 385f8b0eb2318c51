/* SPDX-License-Identifier: Apache-2.0
 * exchange_cases.c: operators that move elements between ranks, and groups that
 * are divided. Element i of rank r is mostly 10*r + i.
 */
#include <stdlib.h>

#include "ranks.h"

static const char *gathers_all(member *me) {
  const int64_t shape[] = {1, 3};
  static const tn_dtype dtypes[] = {TN_F32, TN_F16, TN_I8, TN_U64, TN_F64};
  double mine[3], want[64];
  for (int i = 0; i < 3; ++i) mine[i] = 10 * me->rank + i;
  for (int r = 0; r < me->size; ++r)
    for (int i = 0; i < 3; ++i) want[3 * r + i] = 10 * r + i;
  for (int k = 0; k < 5; ++k) {
    tn_array *in = make_array(me, dtypes[k], 2, shape, mine), *out = NULL;
    OK(call_one(me, "comm.all_gather", "", in, &out));
    HOLDS(tn_array_tensor(out)->ndim == 2);
    HOLDS(tn_array_tensor(out)->shape[0] == me->size);
    TRY(expect(me, out, want, 3 * me->size, 0));
    tn_array_release(in);
    tn_array_release(out);
  }
  return NULL;
}

static const char *broadcasts_from_each_root(member *me) {
  for (int root = 0; root < me->size; ++root) {
    const double mine[] = {10 * me->rank, 10 * me->rank + 1};
    const double want[] = {10 * root, 10 * root + 1};
    char params[40];
    snprintf(params, sizeof params, "root=%d", root);
    tn_array *in = make_vector(me, TN_BF16, 2, mine), *out = NULL;
    OK(call_one(me, "comm.broadcast", params, in, &out));
    TRY(expect(me, out, want, 2, 0));
    tn_array_release(out);
    out = in; /* in place */
    OK(call_one(me, "comm.broadcast", params, in, &out));
    TRY(expect(me, in, want, 2, 0));
    tn_array_release(in);
  }
  return NULL;
}

static const char *exchanges_all(member *me) {
  const int n = 2 * me->size;
  double mine[64], want[64];
  for (int i = 0; i < n; ++i) mine[i] = 10 * me->rank + i;
  for (int s = 0; s < me->size; ++s)
    for (int i = 0; i < 2; ++i) want[2 * s + i] = 10 * s + 2 * me->rank + i;
  tn_array *in = make_vector(me, TN_I16, n, mine), *out = NULL;
  OK(call_one(me, "comm.all_to_all", "", in, &out));
  TRY(expect(me, out, want, n, 0));
  tn_array_release(out);
  out = in; /* in place: the library uses other memory meanwhile */
  OK(call_one(me, "comm.all_to_all", "", in, &out));
  TRY(expect(me, in, want, n, 0));
  tn_array_release(in);
  return NULL;
}

/* Each rank sends to the next one, before and after it receives. */
static const char *sends_around(member *me) {
  const int next = (me->rank + 1) % me->size;
  const int last = (me->rank + me->size - 1) % me->size;
  char params[80];
  const double mine[] = {me->rank, 100 + me->rank};
  const double want[] = {last, 100 + last};
  tn_array *in = make_vector(me, TN_F32, 2, mine), *sent = NULL, *got = NULL;
  const double others[] = {me->rank + 50, 0}, want_other[] = {last + 50, 0};
  tn_array *more = NULL, *other = make_vector(me, TN_F32, 2, others);
  snprintf(params, sizeof params, "to=%d tag=3", next);
  OK(call_one(me, "comm.send", params, in, &sent));
  snprintf(params, sizeof params, "from=%d shape=(1,2) dtype=f32 tag=3", last);
  OK(call_one(me, "comm.recv", params, NULL, &got));
  HOLDS(tn_array_tensor(got)->ndim == 2);
  TRY(expect(me, got, want, 2, 0));
  OK(tn_array_wait(sent));
  HOLDS(tn_array_size(sent) == 0);
  tn_array_release(sent);
  sent = NULL;
  tn_array_release(got);
  got = NULL;

  /* the receives have another order than the messages */
  for (int tag = 7; tag < 9; ++tag) {
    snprintf(params, sizeof params, "to=%d tag=%d", next, tag);
    OK(call_one(me, "comm.send", params, tag == 7 ? in : other, &sent));
    tn_array_release(sent);
    sent = NULL;
  }
  snprintf(params, sizeof params, "from=%d shape=(2) tag=8", last);
  OK(call_one(me, "comm.recv", params, NULL, &got));
  snprintf(params, sizeof params, "from=%d shape=(2) tag=7", last);
  OK(call_one(me, "comm.recv", params, NULL, &more));
  TRY(expect(me, more, want, 2, 0));
  TRY(expect(me, got, want_other, 2, 0));
  tn_array_release(got);
  tn_array_release(more);
  tn_array_release(in);
  tn_array_release(other);
  return meet(me);
}

/* A receive of a thread that serves others does not hold the calls after it:
 * its message is sent only after all ranks have met. */
static const char *serves_meanwhile(member *me) {
  const int next = (me->rank + 1) % me->size;
  const int last = (me->rank + me->size - 1) % me->size;
  char params[80];
  const double mine[] = {me->rank}, want[] = {last};
  tn_array *in = make_vector(me, TN_F32, 1, mine), *got = NULL, *sent = NULL;
  tn_array *met = NULL;
  snprintf(params, sizeof params, "from=%d shape=(1) tag=5 service=true", last);
  OK(call_one(me, "comm.recv", params, NULL, &got));
  OK(call_one(me, "comm.barrier", "", NULL, &met));
  OK(tn_array_wait(met));
  snprintf(params, sizeof params, "to=%d tag=5 service=true", next);
  OK(call_one(me, "comm.send", params, in, &sent));
  TRY(expect(me, got, want, 1, 0));
  tn_array_release(met);
  tn_array_release(sent);
  tn_array_release(got);
  tn_array_release(in);
  return meet(me);
}

/* Even and odd ranks form groups, in the order from the highest rank on. */
static const char *divides_groups(member *me) {
  tn_comm_group half = {.struct_size = sizeof half};
  tn_comm_reason why;
  const double mine[] = {me->rank};
  double want[] = {0}, order[8];
  tn_array *in = make_vector(me, TN_F32, 1, mine), *out = NULL, *all = NULL;
  const tn_comm_split halves = {sizeof halves, me->rank % 2, -me->rank, 0,
                                "half"};
  if (me->comm->split(me->comm->ctx, me->world.id, &halves, &half, &why) !=
      TN_OK)
    FAIL("split: %s", why.text);
  int n = 0;
  for (int r = me->size - 1; r >= 0; --r)
    if (r % 2 == me->rank % 2) {
      want[0] += r;
      order[n++] = r;
    }
  HOLDS(half.size == n);
  HOLDS(order[half.rank] == (double)me->rank);
  OK(call_one(me, "comm.all_reduce", "group=half", in, &out));
  OK(call_one(me, "comm.all_gather", "group=half", in, &all));
  TRY(expect(me, out, want, 1, 0));
  TRY(expect(me, all, order, n, 0));
  tn_array_release(in);
  tn_array_release(out);
  tn_array_release(all);

  tn_comm_group none = {.struct_size = sizeof none};
  const tn_comm_split one = {sizeof one, me->rank == 0 ? 0 : -1, 0, 0, "first"};
  if (me->comm->split(me->comm->ctx, me->world.id, &one, &none, &why) != TN_OK)
    FAIL("split: %s", why.text);
  HOLDS(none.size == (me->rank == 0 ? 1 : 0));
  HOLDS(me->comm->leave(me->comm->ctx, half.id, &why) == TN_OK);
  return NULL;
}

/* Divides the group while calls of it are pending on all ranks. */
static const char *exchanges_long_arrays(member *me) {
  const int64_t n = 300000 * me->size;
  double *mine = malloc((size_t)n * sizeof *mine);
  tn_array *part = NULL, *whole = NULL;
  for (int64_t i = 0; i < n; ++i) mine[i] = (double)(i % 1000 + me->rank);
  tn_array *in = make_vector(me, TN_F32, n, mine);
  OK(call_one(me, "comm.reduce_scatter", "op=mean", in, &part));
  OK(call_one(me, "comm.all_gather", "", part, &whole));
  for (int64_t i = 0; i < n; ++i)
    mine[i] = (double)(i % 1000) + (me->size - 1) / 2.0;
  TRY(expect(me, whole, mine, n, 0));
  free(mine);
  tn_array_release(in);
  tn_array_release(part);
  tn_array_release(whole);
  return NULL;
}

const test_case exchange_cases[] = {
    {.name = "gathers_all", .run = gathers_all},
    {.name = "broadcasts_from_each_root", .run = broadcasts_from_each_root},
    {.name = "exchanges_all", .run = exchanges_all},
    {.name = "sends_around", .run = sends_around},
    {.name = "serves_meanwhile", .run = serves_meanwhile},
    {.name = "exchanges_long_arrays", .run = exchanges_long_arrays},
    {.name = "divides_groups", .run = divides_groups},
    {.name = NULL}};
