/* SPDX-License-Identifier: Apache-2.0
 * Every allocation of a call fails in turn, once and for ever: the call says
 * so, nothing is left over, and the next call is none the worse.
 */
#include <criterion/criterion.h>

#include "fixture.h"
#include "probe.h"

TestSuite(fault, .init = world_open, .fini = world_close);

typedef tn_code attempt(void);

static int64_t try_once(attempt *try, int64_t n, bool for_ever, bool *done) {
  int64_t living = w.memory.living, asked = w.memory.asked;
  w.memory.fail_at = asked + n;
  w.memory.for_ever = for_ever;
  tn_code rc = try();
  w.memory.fail_at = 0;
  *done = rc == TN_OK;
  if (rc) {
    cr_assert_eq(rc, TN_OUT_OF_MEMORY, "%s", tn_error_text());
    EXPECT_TEXT("memory");
  }
  cr_assert_eq(w.memory.living, living, "after failure %lld, %lld are left",
               (long long)n, (long long)(w.memory.living - living));
  return w.memory.asked - asked;
}

/* `least` is the number of allocations that the call is known to make. */
static void survive(attempt *try, int64_t least) {
  for (int mode = 0; mode < 2; ++mode) {
    bool done = false;
    int64_t n = 0;
    while (!done) try_once(try, ++n, mode == 1, &done);
    cr_assert_geq(n - 1, least);
    try_once(try, 0, false, &done);
    cr_assert(done);
  }
}

static tn_array *x, *y, *z;

static void arrays_init(void) {
  x = floats(SHAPE(2), VALUES(1, 2));
  y = floats(SHAPE(2), VALUES(3, 4));
  tn_array *four = floats(SHAPE(2, 2), VALUES(1, 2, 3, 4));
  cr_assert_eq(tn__array_transpose(four, NULL, &z), TN_OK);
  tn__array_release(four);
}

static void arrays_deinit(void) {
  tn__array_release(x);
  tn__array_release(y);
  tn__array_release(z);
}

static tn_code try_new_output(void) {
  tn_array *out = NULL;
  tn_code rc = call("probe.sum", IN(x, y), &out);
  if (rc) cr_assert_null(out);
  tn__array_release(out);
  return rc;
}

static tn_code try_lowered(void) {
  tn_array *out = NULL;
  tn_code rc = call("probe.dense", IN(z), &out);
  if (!rc) rc = call_req("probe.dense", IN(z), &z, TN_REQ_ADD);
  tn__array_release(out);
  return rc;
}

static tn_code try_scratch(void) {
  tn_array *out = NULL;
  tn_code rc = call("probe.scratch", IN(x), &out);
  cr_assert_eq(probe.prepares, probe.destroys);
  tn__array_release(out);
  return rc;
}

static tn_code try_dynamic(void) {
  tn_array *out = NULL;
  tn_code rc = call("probe.pick", IN(x), &out);
  if (rc) cr_assert_null(out);
  tn__array_release(out);
  return rc;
}

static tn_code try_many(void) {
  tn_array *out = NULL, *in[20];
  for (int i = 0; i < 20; ++i) in[i] = x;
  tn_code rc = call("probe.join", 20, in, &out);
  tn__array_release(out);
  return rc;
}

static tn_code try_backward(void) {
  tn_array *in[] = {x}, *heads[] = {y, NULL}, *grads[] = {NULL};
  const tn_backward b = {.struct_size = sizeof b,
                         .inputs = {1, in},
                         .outputs = {0, NULL},
                         .out_grads = {2, heads},
                         .in_grads = {1, grads, NULL}};
  tn_code rc = tn__call_backward(&w.caller, op_get("probe.split"), &b);
  if (rc) cr_assert_null(grads[0]);
  tn__array_release(grads[0]);
  return rc;
}

Test(fault, calls_survive_every_failing_allocation) {
  arrays_init();
  survive(try_new_output, 3);
  survive(try_lowered, 9);
  survive(try_scratch, 4);
  survive(try_dynamic, 3);
  survive(try_many, 4);
  survive(try_backward, 6);
  arrays_deinit();
}

/* The path that has to be fast takes no memory at all. */
Test(fault, a_call_into_a_given_output_allocates_nothing) {
  arrays_init();
  tn_array *out = floats(SHAPE(2), VALUES(0, 0));
  int64_t asked = w.memory.asked;
  cr_assert_eq(call("probe.sum", IN(x, y), &out), TN_OK);
  cr_assert_eq(w.memory.asked, asked);
  tn__array_release(out);
  arrays_deinit();
}
