/* SPDX-License-Identifier: Apache-2.0
 * The files of plugins/cudnn by themselves: how the library is found, and the
 * message about an unsuitable one; the choice of an engine for each promise;
 * how plans are kept and removed.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../must.h"
#include "fake_cudnn.h"
#include "fake_cudnn_conv.h"
#include "fake_work.h"
#include "kit.h"

/* -------------------------------------------------------------- the library
 */

static void misses(const char *name, const char *text) {
  const char *const names[] = {name, "libtenon-nothing.so.2", NULL};
  dnn_library library;
  char why[240];
  cr_assert_eq(dnn_open(&library, names, why), 0);
  cr_assert_not_null(strstr(why, text), "%s lacks `%s`", why, text);
  cr_assert_null(library.file);
}

Test(library, that_is_not_installed_is_named) {
  misses("libtenon-nothing.so.9",
         "there is no cuDNN: libtenon-nothing.so.9: cannot open shared object "
         "file");
}

Test(library, that_is_none_is_refused) {
  misses("libm.so.6", "does not tell its version: it is not cuDNN");
}

Test(library, without_a_function_is_refused_by_its_name) {
  misses(HALF_FILE, "cuDNN 9.5.1 has no function cudnnGetErrorString");
}

Test(library, of_another_version_is_refused_by_both_numbers) {
  (void)setenv("FAKE_CUDNN_VERSION", "8907", 1);
  misses(FAKE_FILE, "cuDNN 8.9.7 was found, and version 9 is wanted");
  (void)setenv("FAKE_CUDNN_VERSION", "100102", 1);
  misses(FAKE_FILE, "cuDNN 10.1.2 was found, and version 9 is wanted");
}

/* ------------------------------------------------------------------ engines
 */

static dnn_library library;
static cuda_context context;

/* Handles are of the device that is current. */
static void engines_open(void) {
  const char *const names[] = {FAKE_FILE, NULL};
  char why[240];
  fake_cuda_begin(&(fake_cuda_options){.devices = 1});
  cr_assert_eq(cuDevicePrimaryCtxRetain(&context, 0), CUDA_OK);
  cr_assert_eq(cuCtxPushCurrent_v2(context), CUDA_OK);
  cr_assert_eq(dnn_open(&library, names, why), 1, "%s", why);
}

static void engines_close(void) {
  dnn_close(&library);
  cr_assert_eq(cuCtxPopCurrent_v2(&context), CUDA_OK);
  cr_assert_eq(cuDevicePrimaryCtxRelease_v2(0), CUDA_OK);
  must_be_silent(fake_cudnn_end());
  must_be_silent(fake_cuda_end());
}

TestSuite(engines, .init = engines_open, .fini = engines_close);

static cudnn_task conv_of(tn_dtype dtype, int what, uint32_t flags) {
  cudnn_task c;
  const cudnn_task like = {.what = what,
                           .dtype = dtype,
                           .flags = flags,
                           .rank = 2,
                           .data = {1, 2, 4, 5},
                           .weight = {3, 2, 2, 2},
                           .out = {1, 3, 3, 4},
                           .stride = {1, 1},
                           .dilate = {1, 1},
                           .most_workspace = 1 << 20};
  memset(&c, 0, sizeof c);
  c = like;
  return c;
}

/* -1: there is no plan. */
static int engine_of(const cudnn_task *conv) {
  cudnn_target target = {.library = &library};
  cudnn_made made;
  int engine = -1;
  cr_assert_eq(library.create(&target.handle), DNN_OK);
  if (cudnn_make(&target, conv, &made) == DNN_OK) {
    engine = fake_cudnn_engine(made.plan);
    cudnn_unmake(&library, &made);
  }
  cr_assert_eq(library.destroy(target.handle), DNN_OK);
  return engine;
}

static void takes(tn_dtype dtype, int what, uint32_t flags, int engine) {
  const cudnn_task c = conv_of(dtype, what, flags);
  cr_assert_eq(engine_of(&c), engine, "%x %d %x: %d, not %d", dtype, what,
               flags, engine_of(&c), engine);
}

Test(engines, that_round_f32_are_taken_if_that_is_allowed) {
  takes(TN_F32, CUDNN_FORWARD, 0, ENGINE_PLAIN);
  takes(TN_F32, CUDNN_FORWARD, CUDNN_FAST, ENGINE_TF32);
  takes(TN_F64, CUDNN_FORWARD, CUDNN_FAST, ENGINE_PLAIN);
}

Test(engines, that_lose_digits_of_sums_are_never_taken) {
  takes(TN_F16, CUDNN_FORWARD, CUDNN_FAST, ENGINE_PLAIN);
  takes(TN_BF16, CUDNN_FORWARD, 0, ENGINE_PLAIN);
}

Test(engines, that_vary_are_not_chosen_for_deterministic_results) {
  takes(TN_F32, CUDNN_WEIGHT, 0, ENGINE_RESTLESS);
  takes(TN_F32, CUDNN_WEIGHT, CUDNN_SAME_BITS, ENGINE_PLAIN);
  takes(TN_F64, CUDNN_DATA, CUDNN_SAME_BITS, ENGINE_PLAIN);
}

Test(engines, that_want_more_workspace_are_passed_over) {
  cudnn_task c = conv_of(TN_F32, CUDNN_FORWARD, CUDNN_FAST);
  c.most_workspace = 4095;
  cr_assert_eq(engine_of(&c), ENGINE_FALLBACK);
  c.most_workspace = 4096;
  cr_assert_eq(engine_of(&c), ENGINE_TF32);
}

Test(engines, of_a_bias_exist_unless_it_is_added_to_existing_values) {
  takes(TN_F16, CUDNN_FORWARD, CUDNN_BIAS, ENGINE_PLAIN);
  takes(TN_F64, CUDNN_FORWARD, CUDNN_BIAS, ENGINE_PLAIN);
  takes(TN_F32, CUDNN_FORWARD, CUDNN_BIAS | CUDNN_ADD, -1);
  takes(TN_F16, CUDNN_FORWARD, CUDNN_BIAS | CUDNN_ANYWHERE, ENGINE_PLAIN);
  (void)setenv("FAKE_CUDNN_NO_FUSION", "1", 1);
  takes(TN_F32, CUDNN_FORWARD, CUDNN_BIAS, -1);
}

Test(engines, of_shapes_that_do_not_fit_are_none) {
  cudnn_task c = conv_of(TN_F32, CUDNN_FORWARD, 0);
  c.out[3] = 5;
  cr_assert_eq(engine_of(&c), -1);
}

/* -------------------------------------------------------------------- plans
 */

enum { MOST = 3 };

typedef struct counter {
  int made, unmade;
  int refuses;
} counter;

static int make(void *arg, const cudnn_task *conv, cudnn_made *out) {
  counter *c = arg;
  if (c->refuses) return DNN_NOT_SUPPORTED;
  ++c->made;
  memset(out, 0, sizeof *out);
  out->workspace = conv->data[0];
  return DNN_OK;
}

static void unmake(void *arg, int32_t device, cudnn_made *made) {
  counter *c = arg;
  cr_assert_eq(device, 7);
  (void)made;
  ++c->unmade;
}

static cudnn_plans plans;
static counter counted;
static const cudnn_maker maker = {make, unmake, &counted};

static cudnn_plan *take(int64_t images) {
  cudnn_task c = conv_of(TN_F32, CUDNN_FORWARD, 0);
  cudnn_plan *plan = NULL;
  c.device = 7;
  c.data[0] = images;
  cr_assert_eq(cudnn_plans_take(&plans, &maker, &c, &plan), DNN_OK);
  cr_assert_eq(plan->made.workspace, images);
  return plan;
}

static void give(cudnn_plan *plan) {
  cudnn_plans_give(&plans, &maker, plan);
}

static void plans_open(void) {
  cudnn_plans_open(&plans, MOST);
}

static void plans_close(void) {
  cudnn_plans_close(&plans, &maker);
  if (counted.made != counted.unmade) must_be_silent("plans are left");
}

TestSuite(plans, .init = plans_open, .fini = plans_close);

Test(plans, of_one_key_are_made_once) {
  cudnn_plan *one = take(1), *two = take(1);
  cr_assert_eq(one, two);
  give(one), give(two), give(NULL);
  cr_assert_eq(take(1), one);
  give(one);
  cr_assert_eq(counted.made, 1);
}

Test(plans, beyond_the_limit_the_one_that_was_not_used_longest_goes) {
  for (int64_t i = 1; i <= MOST; ++i) give(take(i));
  give(take(1));
  give(take(4)); /* 2 goes */
  cr_assert_eq(counted.unmade, 1);
  cr_assert_eq(plans.n_kept, MOST);
  for (int64_t i = 1; i <= 4; ++i)
    if (i != 2) give(take(i));
  cr_assert_eq(counted.made, 4);
  give(take(2)); /* 1 goes */
  cr_assert_eq(counted.made, 5);
  cr_assert_eq(counted.unmade, 2);
}

Test(plans, that_are_in_use_live_on_when_they_are_not_kept_any_more) {
  cudnn_plan *one = take(1), *again = take(1);
  for (int64_t i = 2; i <= MOST + 1; ++i) give(take(i));
  cr_assert_eq(counted.unmade, 0);
  cudnn_plan *other = take(1);
  cr_assert_neq(other, one);
  give(other);
  give(one);
  cr_assert_eq(one->made.workspace, 1);
  const int unmade = counted.unmade;
  give(again);
  cr_assert_eq(counted.unmade, unmade + 1);
}

/* Under the key of `images`, beside one. */
static cudnn_plan *beside(cudnn_plan *one, int64_t images) {
  cudnn_task c = conv_of(TN_F32, CUDNN_FORWARD, 0);
  cudnn_plan *plan = NULL;
  c.device = 7;
  c.data[0] = images;
  cr_assert_eq(cudnn_plans_beside(&plans, &maker, one, &c, &plan), DNN_OK);
  cr_assert_not_null(plan);
  return plan;
}

Test(plans, beside_others_are_there_as_long_as_those) {
  cudnn_plan *one = take(1), *other = beside(one, 100);
  cr_assert_eq(counted.made, 2);
  for (int64_t i = 2; i <= 2 * MOST + 2; ++i) give(take(i));
  const int made = counted.made;
  cr_assert_eq(beside(one, 100), other);
  cr_assert_eq(counted.made, made, "it was made again");
  cr_assert_eq(other->made.workspace, 100);
  const int unmade = counted.unmade;
  give(one);
  cr_assert_eq(counted.unmade, unmade + 2);
}

/* One that several use, or that is still kept, stays; the end of all ends it
 * once. */
Test(plans, beside_others_may_be_anybodys) {
  cudnn_plan *one = take(1), *two = take(2), *own = take(100);
  cr_assert_eq(beside(one, 100), own);
  cr_assert_eq(beside(two, 100), own);
  give(own), give(one);
  for (int64_t i = 3; i <= 2 * MOST + 3; ++i) give(take(i));
  cr_assert_eq(beside(two, 100), own);
  cr_assert_eq(own->made.workspace, 100);
  give(two);
  give(take(1));
  cr_assert_neq(beside(take(1), 2), NULL);
  one = take(1);
  give(one), give(one);
}

Test(plans, that_cannot_be_made_leave_nothing) {
  cudnn_task c = conv_of(TN_F32, CUDNN_FORWARD, 0);
  cudnn_plan *plan = NULL;
  counted.refuses = 1;
  cr_assert_eq(cudnn_plans_take(&plans, &maker, &c, &plan), DNN_NOT_SUPPORTED);
  cr_assert_null(plan);
  cr_assert_eq(plans.n_kept, 0);
}

/* Two threads that want the same at once: each waits in `make` for the other,
 * so both make it, and both get one. */
static pthread_barrier_t both;

static int make_together(void *arg, const cudnn_task *conv, cudnn_made *out) {
  (void)arg, (void)conv;
  (void)pthread_barrier_wait(&both);
  memset(out, 0, sizeof *out);
  return DNN_OK;
}

static void unmake_quietly(void *arg, int32_t device, cudnn_made *made) {
  (void)device, (void)made;
  __atomic_add_fetch((int *)arg, 1, __ATOMIC_SEQ_CST);
}

static int thrown_away;
static const cudnn_maker together = {make_together, unmake_quietly,
                                     &thrown_away};

static void *take_one(void *arg) {
  const cudnn_task c = conv_of(TN_F32, CUDNN_FORWARD, 0);
  (void)cudnn_plans_take(&plans, &together, &c, arg);
  return NULL;
}

Test(plans, that_two_threads_make_at_once_become_one) {
  cudnn_plan *got[2] = {NULL, NULL};
  pthread_t threads[2];
  (void)pthread_barrier_init(&both, NULL, 2);
  for (int i = 0; i < 2; ++i)
    cr_assert_eq(pthread_create(&threads[i], NULL, take_one, &got[i]), 0);
  for (int i = 0; i < 2; ++i) (void)pthread_join(threads[i], NULL);
  cr_assert_not_null(got[0]);
  cr_assert_eq(got[0], got[1]);
  cr_assert_eq(thrown_away, 1);
  cr_assert_eq(got[0]->n_users, 2);
  for (int i = 0; i < 2; ++i) cudnn_plans_give(&plans, &together, got[i]);
  cudnn_plans_close(&plans, &together);
  cr_assert_eq(thrown_away, 2);
  cudnn_plans_open(&plans, MOST);
}
