/* SPDX-License-Identifier: Apache-2.0
 * failure_cases.c: wrong calls, different calls, calls that some ranks do not
 * make, and members that leave.
 */
#include <signal.h>
#include <stdlib.h>

#include "ranks.h"
#include "tenon/engine.h"

static const char *refuses_wrong_calls(member *me) {
  const double values[] = {1, 2, 3, 4, 5, 6, 7};
  tn_array *in = make_vector(me, TN_F32, 7, values), *out = NULL;
  tn_array *integers = make_vector(me, TN_I32, 7, values);
  tn_operator *op = NULL;
  tn_array *number = make_array(me, TN_F32, 0, NULL, values);
  FAILS(call_one(me, "comm.all_gather", "group=trainers", in, &out),
        TN_NOT_FOUND, "this runtime has joined no group `trainers`");
  FAILS(call_one(me, "comm.reduce_scatter", "", in, &out), TN_SHAPE,
        "axis 0 has length 7");
  FAILS(call_one(me, "comm.all_to_all", "", number, &out), TN_SHAPE,
        "a number has no axis 0");
  OK(tn_operator_get(me->rt, "comm.all_reduce", &op));
  FAILS(tn_call(me->rt, op, TN_IN(in, in), NULL, TN_OUT(&out)), TN_INVALID,
        "num_arrays=1, but there are 2 arrays");
  FAILS(call_one(me, "comm.all_reduce", "op=mean", integers, &out),
        TN_UNSUPPORTED, "op=mean is of floats only");
  OK(call_one(me, "comm.broadcast", "root=1000", in, &out));
  FAILS(tn_array_wait(out), TN_OUT_OF_RANGE, "rank 1000 is not in group");
  tn_array_release(in);
  tn_array_release(integers);
  tn_array_release(number);
  tn_array_release(out);
  return NULL;
}

static const char *refuses_wrong_groups(member *me) {
  tn_comm_reason why;
  tn_comm_group out = {.struct_size = sizeof out};
  tn_comm_join how = {.struct_size = sizeof how,
                      .rank = 0,
                      .size = 1,
                      .name = "world",
                      .backend = "local"};
  HOLDS(me->comm->join(me->comm->ctx, &how, &out, &why) == TN_EXISTS);
  HOLDS(strstr(why.text, "has had a group `world`") != NULL);
  how.backend = "pigeon";
  HOLDS(me->comm->join(me->comm->ctx, &how, &out, &why) == TN_INVALID);
  HOLDS(strstr(why.text, "there is no backend `pigeon`") != NULL);
  how.backend = "local";
  how.name = "other";
  how.rank = 1;
  HOLDS(me->comm->join(me->comm->ctx, &how, &out, &why) == TN_OUT_OF_RANGE);
  HOLDS(strstr(why.text, "rank=1") != NULL);
  HOLDS(me->comm->find(me->comm->ctx, "other", &out, &why) == TN_NOT_FOUND);
  HOLDS(strstr(why.text, "its groups: `world`") != NULL);
  HOLDS(me->comm->find(me->comm->ctx, "world", &out, &why) == TN_OK);
  HOLDS(out.rank == me->rank && out.size == me->size);
  return NULL;
}

static const char *describes_the_backends(member *me) {
  char text[2000], part[8];
  const int32_t n = me->comm->describe(me->comm->ctx, text, sizeof text);
  HOLDS(n == (int32_t)strlen(text));
  HOLDS(strncmp(text, "local: runtimes of one process\nmpi: ", 37 - 1) == 0);
  if (!me->is_local) HOLDS(strstr(text, "cannot start") == NULL);
  HOLDS(me->comm->describe(me->comm->ctx, part, sizeof part) == n);
  HOLDS(strcmp(part, "local: ") == 0);
  return NULL;
}

static const char *reports_absent_members(member *me) {
  tn_comm_reason why;
  tn_comm_group out = {.struct_size = sizeof out};
  char session[40];
  snprintf(session, sizeof session, "nobody else %d", (int)me->rank);
  const tn_comm_join how = {.struct_size = sizeof how,
                            .rank = 1,
                            .size = 3,
                            .timeout_ms = 50,
                            .name = "alone",
                            .backend = "local",
                            .session = session};
  HOLDS(me->comm->join(me->comm->ctx, &how, &out, &why) == TN_BUSY);
  HOLDS(strstr(why.text, "rank 0, 2 has not joined") != NULL);
  return NULL;
}

/* Rank 1 makes another call than all others. */
static const char *describes_different_calls(member *me) {
  const double values[] = {1, 2, 3, 4, 5, 6, 7, 8};
  tn_array *in = make_vector(me, TN_F32, 8, values), *out[3] = {0};
  OK(call_one(me, "comm.all_reduce", "", in, &out[0]));
  OK(tn_array_wait(out[0]));
  OK(call_one(me, me->rank == 1 ? "comm.all_gather" : "comm.all_reduce",
              me->rank == 1 ? "" : "op=max", in, &out[1]));
  FAILS(tn_array_wait(out[1]), TN_INVALID,
        "rank 0 comm.all_reduce op=max of f32 (8) (call 1), rank 1 "
        "comm.all_gather of f32 (8) (call 1)");
  OK(call_one(me, "comm.all_reduce", "", in, &out[2]));
  FAILS(tn_array_wait(out[2]), TN_INVALID, "group `world` is broken on rank");
  for (int k = 0; k < 3; ++k) tn_array_release(out[k]);
  tn_array_release(in);
  return NULL;
}

static const char *describes_different_types(member *me) {
  const double values[] = {1, 2};
  tn_array *out = NULL;
  tn_array *in = make_vector(me, me->rank == 1 ? TN_F64 : TN_F32,
                             2 - me->rank % 2, values);
  OK(call_one(me, "comm.all_reduce", "", in, &out));
  FAILS(tn_array_wait(out), TN_INVALID, "comm.all_reduce op=sum of f64 (1)");
  tn_array_release(in);
  tn_array_release(out);
  return NULL;
}

/* Rank 0 calls, and no other rank does. */
static const char *ends_calls_after_the_timeout(member *me) {
  const double values[] = {1};
  tn_array *in = make_vector(me, TN_F32, 1, values), *out = NULL, *other = NULL;
  if (me->rank == 0) {
    OK(call_one(me, "comm.all_reduce", "", in, &out));
    FAILS(tn_array_wait(out), TN_BUSY, "call 0, comm.all_reduce: ");
    HOLDS(strstr(tn_error_text(), "group `world`") != NULL);
    HOLDS(strstr(tn_error_text(), "within 3") != NULL); /* 300, or 3000 */
    /* other operators work on */
    OK(call_one(me, "elemwise.negative", "", in, &other));
    OK(tn_array_wait(other));
    tn_array_release(out);
    out = NULL;
    OK(call_one(me, "comm.all_reduce", "", in, &out));
    FAILS(tn_array_wait(out), TN_BUSY, "is broken on rank 0");
    tn_array_release(out);
    tn_array_release(other);
  }
  tn_array_release(in);
  return meet(me);
}

/* The last rank leaves while the others wait for it. */
static const char *ends_calls_when_a_member_leaves(member *me) {
  const double values[] = {1};
  tn_array *in = make_vector(me, TN_F32, 1, values), *out = NULL;
  if (me->rank < me->size - 1) {
    OK(call_one(me, "comm.all_reduce", "", in, &out));
    FAILS(tn_array_wait(out), TN_BUSY, "the rank left the group");
  } else {
    HOLDS(me->comm->leave(me->comm->ctx, me->world.id, NULL) == TN_OK);
    OK(call_one(me, "comm.all_reduce", "", in, &out));
    FAILS(tn_array_wait(out), TN_NOT_FOUND, "has left group `world`");
  }
  tn_array_release(in);
  tn_array_release(out);
  return NULL;
}

static const char *refuses_messages_of_other_sizes(member *me) {
  const double values[] = {1, 2, 3};
  tn_array *in = make_vector(me, TN_F32, 3, values), *out = NULL;
  if (me->rank == 0) {
    OK(call_one(me, "comm.send", "to=1", in, &out));
    OK(tn_array_wait(out)); /* a send does not wait */
  } else if (me->rank == 1) {
    OK(call_one(me, "comm.recv", "from=0 shape=(4)", NULL, &out));
    FAILS(tn_array_wait(out), TN_SHAPE, "rank 1 receives 4 of f32");
  }
  tn_array_release(in);
  tn_array_release(out);
  return meet(me);
}

/* The input of rank 1 carries an error: rank 0 hears of it at once. */
static const char *tells_others_of_failed_inputs(member *me) {
  const double values[] = {1};
  const char *op = "comm.all_reduce";
  tn_array *in = make_vector(me, TN_F32, 1, values), *out = NULL;
  tn_array *bad = NULL;
  /* a call that fails when it runs */
  OK(call_one(me, "comm.broadcast", "root=1000", in, &bad));
  OK(call_one(me, op, "", me->rank == 1 ? bad : in, &out));
  if (me->rank == 1)
    FAILS(tn_array_wait(out), TN_OUT_OF_RANGE, "rank 1000 is not in group");
  else
    FAILS(tn_array_wait(out), TN_INVALID, "an input carries an error");
  FAILS(tn_array_wait(bad), TN_OUT_OF_RANGE, "rank 1000");
  tn_array_release(out);
  out = NULL;
  OK(call_one(me, op, "", in, &out));
  FAILS(tn_array_wait(out), TN_INVALID, "is broken on rank");
  tn_array_release(in);
  tn_array_release(bad);
  tn_array_release(out);
  return NULL;
}

/* Rank 0 shuts its runtime down while it waits for the others. */
static const char *ends_calls_at_a_shutdown(member *me) {
  const double values[] = {1};
  tn_array *in = make_vector(me, TN_F32, 1, values), *out = NULL;
  if (me->rank == 0) {
    OK(call_one(me, "comm.all_reduce", "", in, &out));
    OK(tn_runtime_shutdown(me->rt));
    FAILS(tn_array_wait(out), TN_BUSY, "");
  }
  tn_array_release(in);
  tn_array_release(out);
  return meet(me);
}

/* Rank 1 ends without a word while the others wait for it. */
static const char *survives_a_killed_rank(member *me) {
  const double values[] = {1};
  if (!getenv("COMM_TEST_KILL")) return NULL;
  tn_array *in = make_vector(me, TN_F32, 1, values), *out = NULL;
  OK(call_one(me, "comm.all_reduce", "", in, &out));
  OK(tn_array_wait(out));
  if (me->rank == 1) (void)raise(SIGKILL);
  OK(call_one(me, "comm.all_reduce", "", in, &out));
  const tn_code rc = tn_array_wait(out);
  fprintf(stderr, "# rank %d ends with %d: %s\n", (int)me->rank, (int)rc,
          tn_error_text());
  HOLDS(rc != TN_OK);
  return NULL;
}

const test_case failure_cases[] = {
    {.name = "refuses_wrong_calls", .run = refuses_wrong_calls},
    {.name = "refuses_wrong_groups", .run = refuses_wrong_groups},
    {.name = "describes_the_backends", .run = describes_the_backends},
    {.name = "reports_absent_members",
     .run = reports_absent_members,
     .local_only = 1},
    {.name = "describes_different_calls",
     .run = describes_different_calls,
     .check = 1},
    {.name = "describes_different_types",
     .run = describes_different_types,
     .check = 1},
    {.name = "refuses_messages_of_other_sizes",
     .run = refuses_messages_of_other_sizes,
     .local_only = 1},
    {.name = "ends_calls_after_the_timeout",
     .run = ends_calls_after_the_timeout,
     .breaks = 1,
     .timeout_ms = 300},
    {.name = "ends_calls_when_a_member_leaves",
     .run = ends_calls_when_a_member_leaves,
     .breaks = 1},
    {.name = "tells_others_of_failed_inputs",
     .run = tells_others_of_failed_inputs,
     .breaks = 1},
    {.name = "ends_calls_at_a_shutdown",
     .run = ends_calls_at_a_shutdown,
     .breaks = 1},
    {.name = "survives_a_killed_rank",
     .run = survives_a_killed_rank,
     .breaks = 1,
     .timeout_ms = 1000},
    {.name = NULL}};
