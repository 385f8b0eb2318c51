/* SPDX-License-Identifier: Apache-2.0
 * How plugins/openblas opens a library, with one in the place of OpenBLAS that
 * believes in a Haswell (fake/openblas.c; LD_LIBRARY_PATH leads to it).
 */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "tenon/tenon.h"

#define OK(call) cr_assert_eq((call), TN_OK, "%s: %s", #call, tn_error_text())

static char lines[1024];

static void note(void *ctx, int32_t level, const char *line) {
  (void)ctx, (void)level;
  strncat(lines, line, sizeof lines - strlen(lines) - 2);
  strcat(lines, "\n");
}

/* A runtime with the plugin; `lines` has its log. */
static tn_runtime *load(uint64_t mask) {
  tn_runtime *rt = NULL;
  lines[0] = '\0';
  OK(tn_runtime_create(&(tn_options){.struct_size = sizeof(tn_options),
                                     .cpu_mask = mask,
                                     .workers = 1,
                                     .log = note},
                       &rt));
  OK(tn_plugin_load(rt, OPENBLAS_FILE));
  return rt;
}

static bool has_avx512(tn_runtime *rt) {
  tn_device_entry cpu;
  OK(tn_device_at(rt, 0, &cpu));
  return strstr(cpu.detail, "avx512") != NULL;
}

static void forget(void) {
  cr_assert_eq(unsetenv("OPENBLAS_CORETYPE"), 0);
  cr_assert_eq(unsetenv("OPENBLAS_NUM_THREADS"), 0);
}

/* Calls a function of the fake; -1 if it is not open. */
static int ask_fake(const char *function) {
  void *fake = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_NOLOAD);
  int (*get)(void) = NULL;
  if (!fake) return -1;
  void *found = dlsym(fake, function);
  memcpy(&get, &found, sizeof get);
  const int n = get();
  dlclose(fake);
  return n;
}

static int threads_of_fake(void) {
  return ask_fake("openblas_get_num_threads");
}

Test(openblas, gets_the_processors_name_if_it_is_unknown_to_it) {
  forget();
  tn_runtime *rt = load(0);
  cr_assert_not_null(strstr(lines, has_avx512(rt) ? "OpenBLAS 9.9.9 SkylakeX"
                                                  : "OpenBLAS 9.9.9 Haswell"),
                     "%s", lines);
  cr_assert_eq(threads_of_fake(), 1);
  cr_assert_null(getenv("OPENBLAS_CORETYPE"));
  cr_assert_null(getenv("OPENBLAS_NUM_THREADS"));
  tn_runtime_release(rt);
  cr_assert_eq(threads_of_fake(), -1, "it is still open");
}

Test(openblas, gets_no_name_if_the_host_hides_the_instructions) {
  forget();
  tn_runtime *rt = load(TN_CPU_AVX512);
  cr_assert_not_null(strstr(lines, "9.9.9 Haswell"), "%s", lines);
  tn_runtime_release(rt);
}

Test(openblas, gets_no_name_if_the_user_has_set_one) {
  forget();
  cr_assert_eq(setenv("OPENBLAS_CORETYPE", "Zen", 1), 0);
  tn_runtime *rt = load(0);
  cr_assert_not_null(strstr(lines, "9.9.9 Zen"), "%s", lines);
  tn_runtime_release(rt);
}

/* A product that is large enough for OpenBLAS. */
static void multiply(tn_runtime *rt) {
  enum { N = 600 };
  tn_operator *op = NULL;
  tn_params *params = NULL;
  tn_array *x = NULL, *y = NULL;
  OK(tn_operator_get(rt, "nn.fully_connected", &op));
  OK(tn_params_parse(op, "num_hidden=600 no_bias=true", &params));
  OK(tn_array_create(rt, &(tn_spec){TN_F32, 2, (int64_t[]){N, N}}, &x));
  OK(tn_call(rt, op, TN_IN(x, x), params, TN_OUT(&y)));
  OK(tn_array_wait(y));
  tn_array_release(x), tn_array_release(y), tn_params_release(params);
}

/* A program beside Tenon, such as NumPy, keeps its threads. */
Test(openblas, of_others_keeps_its_threads_between_products) {
  forget();
  void *theirs = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  cr_assert_not_null(theirs, "%s", dlerror());
  cr_assert_eq(threads_of_fake(), 4);
  tn_runtime *rt = load(0);
  cr_assert_eq(threads_of_fake(), 4);
  cr_assert_not_null(strstr(lines, "with 4 threads already"), "%s", lines);
  OK(tn_plugin_load(rt, PLUGIN_FILE));
  multiply(rt);
  cr_assert_gt(ask_fake("fake_calls"), 0);
  cr_assert_eq(ask_fake("fake_most_threads"), 1);
  cr_assert_eq(threads_of_fake(), 4);
  tn_runtime_release(rt);
  cr_assert_eq(threads_of_fake(), 4);
  dlclose(theirs);
}

Test(openblas, with_wide_integers_is_not_used) {
  forget();
  cr_assert_eq(setenv("FAKE_OPENBLAS", "wide", 1), 0);
  tn_runtime *rt = load(0);
  cr_assert_not_null(strstr(lines, "integers of 64 bits"), "%s", lines);
  OK(tn_plugin_load(rt, PLUGIN_FILE));
  tn_operator *op = NULL;
  tn_text *text = NULL;
  OK(tn_operator_get(rt, "nn.fully_connected", &op));
  OK(tn_operator_explain(op, NULL, NULL, &text));
  cr_assert_not_null(strstr(tn_text_get(text), "no plugin provides blas/1"));
  tn_text_release(text);
  tn_runtime_release(rt);
}

/* The library of this test has products only. */
Test(openblas, without_lapack_offers_products_alone) {
  forget();
  tn_runtime *rt = load(0);
  tn_operator *op = NULL;
  tn_text *text = NULL;
  cr_assert_not_null(strstr(lines, "has no LAPACK"), "%s", lines);
  cr_assert_not_null(strstr(lines, "lapack/1 is not provided"), "%s", lines);
  OK(tn_plugin_load(rt, LINALG_FILE));
  OK(tn_operator_get(rt, "linalg.svd", &op));
  OK(tn_operator_explain(op, NULL, NULL, &text));
  cr_assert_not_null(strstr(tn_text_get(text), "no plugin provides lapack/1"));
  tn_text_release(text);
  OK(tn_operator_get(rt, "linalg.potrf", &op));
  OK(tn_operator_explain(op, NULL, NULL, &text));
  cr_assert_null(strstr(tn_text_get(text), "no plugin provides lapack/1"));
  tn_text_release(text);
  OK(tn_plugin_load(rt, PLUGIN_FILE));
  OK(tn_operator_get(rt, "nn.fully_connected", &op));
  OK(tn_operator_explain(op, NULL, NULL, &text));
  cr_assert_null(strstr(tn_text_get(text), "no plugin provides blas/1"));
  tn_text_release(text);
  tn_runtime_release(rt);
}
