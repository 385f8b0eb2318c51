/* SPDX-License-Identifier: Apache-2.0
 * lapack/1 of plugins/openblas, with a library in the place of OpenBLAS that
 * counts calls and threads (fake/lapack.c; LD_LIBRARY_PATH leads to it).
 */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <string.h>

#include "tenon/tenon.h"

#define OK(call) cr_assert_eq((call), TN_OK, "%s: %s", #call, tn_error_text())

/* Calls a function of the fake. */
static int ask_fake(const char *function) {
  void *fake = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_NOLOAD);
  int (*get)(void) = NULL;
  cr_assert_not_null(fake);
  void *found = dlsym(fake, function);
  memcpy(&get, &found, sizeof get);
  const int n = get();
  dlclose(fake);
  return n;
}

/* Calls an operator with the identity of n x n. */
static void call_operator(tn_runtime *rt, const char *name, size_t n_out,
                          int64_t n) {
  static float v[64 * 64];
  tn_operator *op = NULL;
  tn_array *x = NULL, *y[3] = {NULL};
  for (int64_t i = 0; i < n * n; ++i) v[i] = i % (n + 1) == 0;
  OK(tn_operator_get(rt, name, &op));
  OK(tn_array_create(rt, &(tn_spec){TN_F32, 2, (int64_t[]){n, n}}, &x));
  OK(tn_array_set(x, v, (size_t)(n * n) * sizeof *v));
  OK(tn_call(rt, op, TN_IN(x), NULL, &(tn_outputs){n_out, y, NULL}));
  OK(tn_array_wait(y[0]));
  tn_array_release(x);
  for (int i = 0; i < 3; ++i) tn_array_release(y[i]);
}

/* A program beside Tenon, such as NumPy, keeps its threads. */
Test(openblas_lapack, has_one_thread_while_a_factorisation_runs) {
  void *theirs = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  tn_runtime *rt = NULL;
  cr_assert_not_null(theirs, "%s", dlerror());
  OK(tn_runtime_create(NULL, &rt));
  OK(tn_plugin_load(rt, OPENBLAS_FILE));
  OK(tn_plugin_load(rt, LINALG_FILE));
  call_operator(rt, "linalg.syevd", 2, 3);
  cr_assert_eq(ask_fake("fake_calls"), 1);
  call_operator(rt, "linalg.qr", 2, 64);
  cr_assert_eq(ask_fake("fake_calls"), 3, "factors, then Q");
  cr_assert_eq(ask_fake("fake_most_threads"), 1);
  cr_assert_eq(ask_fake("openblas_get_num_threads"), 4);
  tn_runtime_release(rt);
  dlclose(theirs);
}

/* A call of LAPACK takes longer than loops for some matrices. */
Test(openblas_lapack, gets_no_small_cholesky_factors) {
  void *theirs = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  tn_runtime *rt = NULL;
  cr_assert_not_null(theirs, "%s", dlerror());
  OK(tn_runtime_create(NULL, &rt));
  OK(tn_plugin_load(rt, OPENBLAS_FILE));
  OK(tn_plugin_load(rt, LINALG_FILE));
  call_operator(rt, "linalg.potrf", 1, 16);
  cr_assert_eq(ask_fake("fake_calls"), 0);
  call_operator(rt, "linalg.potrf", 1, 17);
  cr_assert_eq(ask_fake("fake_calls"), 1);
  tn_runtime_release(rt);
  dlclose(theirs);
}
