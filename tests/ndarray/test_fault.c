/* SPDX-License-Identifier: Apache-2.0
 * Every allocation of a call fails in turn, once and for ever: the call says
 * so, nothing is left over, and the next call is none the worse.
 */
#include <criterion/criterion.h>

#include "fixture.h"
#include "probe.h"

TestSuite(fault, .init = world_open, .fini = world_close);

typedef tn_code attempt(void);

/* What is kept for the next call, or for who asks what failed, is not left
 * over. */
static int64_t living(void) {
  (void)tn__wait_all(w.env.engine);
  tn__caller_forget(&w.caller);
  (void)tn__heap_trim(w.env.cpu);
  return w.memory.living;
}

/* Returns how many allocations there were, the refused one included. */
static int64_t try_once(attempt *try, int64_t n, bool for_ever) {
  int64_t before = living(), asked = w.memory.asked;
  w.memory.fail_at = n > 0 ? asked + n : 0;
  w.memory.for_ever = for_ever;
  tn_code rc = try();
  w.memory.fail_at = 0;
  asked = w.memory.asked - asked;
  if (rc) {
    cr_assert_leq(n, asked, "%s", tn_error_text());
    cr_assert_eq(rc, TN_OUT_OF_MEMORY, "%s", tn_error_text());
    EXPECT_TEXT("memory");
  }
  int64_t left = living() - before;
  cr_assert_eq(left, 0, "after failure %lld, %lld are left", (long long)n,
               (long long)left);
  return asked;
}

/* Refuses each allocation in turn, until there are no more to refuse; `least`
 * is a number that the call makes at least. What merely is not kept for the
 * next call is no failure. The first calls take what stays for good, temporary
 * space for one. */
static void survive(attempt *try, int64_t least) {
  for (int i = 0; i < TN__SCRATCH_CPU; ++i)
    cr_assert_eq(try(), TN_OK, "%s", tn_error_text());
  for (int mode = 0; mode < 2; ++mode) {
    int64_t n = 1;
    while (try_once(try, n, mode == 1) >= n) ++n;
    cr_assert_gt(n, least);
    cr_assert_eq(try(), TN_OK, "%s", tn_error_text());
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
  tn__caller_forget(&w.caller);
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
  survive(try_lowered, 5);
  survive(try_scratch, 3);
  survive(try_dynamic, 3);
  survive(try_many, 4);
  survive(try_backward, 3);
  arrays_deinit();
}

/* The path that has to be fast takes no memory at all. */
Test(fault, a_call_like_one_before_into_a_given_output_allocates_nothing) {
  arrays_init();
  tn_array *out = floats(SHAPE(2), VALUES(0, 0));
  cr_assert_eq(call("probe.sum", IN(x, y), &out), TN_OK);
  int64_t asked = w.memory.asked;
  cr_assert_eq(call("probe.sum", IN(x, y), &out), TN_OK);
  cr_assert_eq(w.memory.asked, asked);
  tn__array_release(out);
  arrays_deinit();
}
