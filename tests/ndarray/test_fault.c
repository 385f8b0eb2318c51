/* SPDX-License-Identifier: Apache-2.0
 * Every allocation of a call fails in turn, once and for ever. The call reports
 * it, leaks no memory, and the next call is correct.
 */
#include <criterion/criterion.h>

#include "fixture.h"
#include "probe.h"

TestSuite(fault, .init = world_open, .fini = world_close);

typedef tn_code attempt(void);

/* Memory that is kept for the next call or for the error text is no leak. */
static int64_t count_living(void) {
  (void)tn__wait_all(w.env.engine);
  tn__caller_forget(&w.caller);
  (void)tn__heap_trim(w.env.cpu);
  return w.memory.living;
}

/* Returns the number of allocations, including the refused one. */
static int64_t try_once(attempt *try, int64_t n, bool for_ever) {
  int64_t before = count_living(), asked = w.memory.asked;
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
  int64_t left = count_living() - before;
  cr_assert_eq(left, 0, "after failure %lld, %lld are left", (long long)n,
               (long long)left);
  return asked;
}

/* Refuses each allocation in turn, until there are no more; `least` is a number
 * that the call makes at least. A call may succeed without keeping its recipe.
 * The first calls allocate memory that stays, for example scratch space. */
static void expect_survival(attempt *try, int64_t least) {
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
  expect_survival(try_new_output, 3);
  expect_survival(try_lowered, 5);
  expect_survival(try_scratch, 3);
  expect_survival(try_dynamic, 3);
  expect_survival(try_many, 4);
  expect_survival(try_backward, 3);
  arrays_deinit();
}

/* The fast path allocates no memory. */
Test(fault,
     a_call_like_an_earlier_one_into_an_existing_output_allocates_nothing) {
  arrays_init();
  tn_array *out = floats(SHAPE(2), VALUES(0, 0));
  cr_assert_eq(call("probe.sum", IN(x, y), &out), TN_OK);
  int64_t asked = w.memory.asked;
  cr_assert_eq(call("probe.sum", IN(x, y), &out), TN_OK);
  cr_assert_eq(w.memory.asked, asked);
  tn__array_release(out);
  arrays_deinit();
}
