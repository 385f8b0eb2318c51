/* SPDX-License-Identifier: Apache-2.0
 * Matrix products as fully_connected makes them, by OpenBLAS and by the loops
 * of plugins/nn: sizes around the edges of blocks and registers, every level of
 * instructions, any number of threads. Elements are few quarters, so that every
 * sum is exact in f32 and the same in any order.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host.h"

#define BLAS_KERNEL "nn.fully_connected.cpu"
#define PLAIN_KERNEL "nn.fully_connected.cpu.2"

/* ----------------------------------------------------------------- runtimes */

/* The log about the library; "" if there is none. */
static char blas_name[128];

static void note_blas(void *ctx, int32_t level, const char *line) {
  const char *name = strstr(line, "openblas: OpenBLAS");
  (void)ctx, (void)level;
  if (name)
    (void)snprintf(blas_name, sizeof blas_name, "%s",
                   name + strlen("openblas: "));
}

static tn_runtime *open_runtime(uint64_t mask, uint32_t workers) {
  tn_runtime *rt = NULL;
  OK(tn_runtime_create(&(tn_options){.struct_size = sizeof(tn_options),
                                     .cpu_mask = mask,
                                     .workers = workers,
                                     .log = note_blas},
                       &rt));
  OK(tn_plugin_load(rt, OPENBLAS_FILE));
  OK(tn_plugin_load(rt, PLUGIN_FILE));
  return rt;
}

/* Once a runtime has looked for it. */
static void skip_without_blas(void) {
  tn_runtime_release(open_runtime(0, 1));
  if (blas_name[0] == '\0') cr_skip_test("there is no libopenblas.so.0 here");
}

/* ------------------------------------------------------------------ products
 */

/* Rows of data, elements of a row, and of a row of the result. */
typedef struct extent {
  int64_t n;
  int64_t k;
  int64_t h;
} extent;

static const extent extents[] = {
    {1, 1, 1},     {3, 7, 5},     {1, 784, 512}, {13, 257, 33},  {64, 784, 512},
    {481, 60, 65}, {12, 256, 32}, {11, 255, 31}, {130, 40, 600}, {2, 1000, 1}};
enum { N_EXTENTS = sizeof extents / sizeof *extents };

/* Products that a BLAS computes, as all edges are long. */
static const extent large = {520, 530, 515};

/* Quarters from -1 to 1, different in each array. */
static double *draw(int64_t n, uint64_t seed) {
  double *v = malloc(((size_t)n + 1) * sizeof *v);
  cr_assert_not_null(v);
  for (int64_t i = 0; i < n; ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    v[i] = (double)((int64_t)(seed >> 40) % 9 - 4) / 4;
  }
  return v;
}

/* An array of any size. */
static tn_array *array_of(tn_runtime *rt, tn_dtype dtype, int64_t rows,
                          int64_t columns, const double *v) {
  const int64_t shape[2] = {rows, columns};
  const int64_t n = rows * columns;
  tn_array *wide = NULL, *out = NULL;
  OK(tn_array_create(rt, &(tn_spec){TN_F64, 2, shape}, &wide));
  OK(tn_array_set(wide, v, (size_t)n * sizeof *v));
  OK(tn_array_cast(wide, dtype, &out));
  tn_array_release(wide);
  return out;
}

static double *values_of(tn_array *array) {
  const size_t n = (size_t)tn_array_size(array);
  double *v = malloc((n + 1) * sizeof *v);
  tn_array *wide = NULL;
  cr_assert_not_null(v);
  OK(tn_array_cast(array, TN_F64, &wide));
  OK(tn_array_get(wide, v, n * sizeof *v));
  tn_array_release(wide);
  return v;
}

/* A matrix of doubles, or its transpose: element (i, j) at i*row + j*column. */
typedef struct view {
  const double *v;
  int64_t row;
  int64_t column;
} view;

/* Checks that an array is a * b, or that added to `old`. */
static void expect_product(tn_array *array, const view *a, const view *b,
                           int64_t depth, double old) {
  const int64_t rows = tn_array_tensor(array)->shape[0];
  const int64_t columns = tn_array_tensor(array)->shape[1];
  double *got = values_of(array);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      double sum = old;
      for (int64_t t = 0; t < depth; ++t)
        sum +=
            a->v[i * a->row + t * a->column] * b->v[t * b->row + j * b->column];
      cr_assert_eq(got[i * columns + j], sum,
                   "%lld x %lld x %lld, element (%lld, %lld): %g, not %g",
                   (long long)rows, (long long)columns, (long long)depth,
                   (long long)i, (long long)j, got[i * columns + j], sum);
    }
  free(got);
}

/* A call and its gradients, overwritten, and added to ones. */
static void check_extent(tn_runtime *rt, tn_operator *op, tn_dtype dtype,
                         const extent *e) {
  char text[64];
  (void)snprintf(text, sizeof text, "no_bias=true num_hidden=%lld",
                 (long long)e->h);
  tn_params *params = host_params(op, text);
  double *x = draw(e->n * e->k, 1), *w = draw(e->h * e->k, 2);
  double *g = draw(e->n * e->h, 3), *ones = draw(e->h * e->k + e->n * e->k, 4);
  for (int64_t i = 0; i < (e->h + e->n) * e->k; ++i) ones[i] = 1;
  tn_array *data = array_of(rt, dtype, e->n, e->k, x);
  tn_array *weight = array_of(rt, dtype, e->h, e->k, w);
  tn_array *head = array_of(rt, dtype, e->n, e->h, g), *out = NULL;
  tn_array *to[3] = {array_of(rt, dtype, e->n, e->k, ones),
                     array_of(rt, dtype, e->h, e->k, ones), NULL};
  const view xv = {x, e->k, 1}, wv = {w, e->k, 1}, gv = {g, e->h, 1};
  const view wt = {w, 1, e->k}, gt = {g, 1, e->h};
  OK(tn_call(rt, op, TN_IN(data, weight), params, TN_OUT(&out)));
  expect_product(out, &xv, &wt, e->k, 0);
  for (int add = 1; add >= 0; --add) {
    const tn_req kind = add ? TN_REQ_ADD : TN_REQ_WRITE;
    OK(tn_call_backward(
        rt, op,
        &(tn_backward){.struct_size = sizeof(tn_backward),
                       .params = params,
                       .inputs = {2, (tn_array *[]){data, weight}},
                       .outputs = {1, &out},
                       .out_grads = {1, &head},
                       .in_grads = {2, to, (tn_req[]){kind, kind}}}));
    expect_product(to[0], &gv, &wv, e->h, add);
    expect_product(to[1], &gt, &xv, e->n, add);
  }
  tn_array_release(data), tn_array_release(weight), tn_array_release(head);
  tn_array_release(out), tn_array_release(to[0]), tn_array_release(to[1]);
  tn_params_release(params);
  free(x), free(w), free(g), free(ones);
}

static void check_kernel(uint64_t mask, const char *kernel, tn_dtype dtype) {
  tn_runtime *rt = open_runtime(mask, 2);
  tn_operator *op = host_operator(rt, "nn.fully_connected");
  OK(tn_operator_pin(op, kernel));
  for (size_t i = 0; i < N_EXTENTS; ++i)
    check_extent(rt, op, dtype, &extents[i]);
  if (strcmp(kernel, BLAS_KERNEL) == 0) check_extent(rt, op, dtype, &large);
  tn_runtime_release(rt);
}

enum { NO_AVX512 = TN_CPU_AVX512, NO_AVX2 = TN_CPU_AVX512 | TN_CPU_AVX2 };

Test(product, loops_in_f32_are_exact_at_every_level) {
  check_kernel(0, PLAIN_KERNEL, TN_F32);
  check_kernel(NO_AVX512, PLAIN_KERNEL, TN_F32);
  check_kernel(NO_AVX2, PLAIN_KERNEL, TN_F32);
}

Test(product, loops_in_f64_are_exact_at_every_level) {
  check_kernel(0, PLAIN_KERNEL, TN_F64);
  check_kernel(NO_AVX512, PLAIN_KERNEL, TN_F64);
  check_kernel(NO_AVX2, PLAIN_KERNEL, TN_F64);
}

Test(product, openblas_is_exact_in_both_types) {
  skip_without_blas();
  check_kernel(0, BLAS_KERNEL, TN_F32);
  check_kernel(0, BLAS_KERNEL, TN_F64);
}

/* ------------------------------------------------------------------ threads */

/* The bits of a product of numbers with many digits, with so many workers. */
static float *bits_of(const char *kernel, uint32_t workers) {
  enum { N = 514, K = 540, H = 700 };
  tn_runtime *rt = open_runtime(0, workers);
  tn_operator *op = host_operator(rt, "nn.fully_connected");
  tn_params *params = host_params(op, "no_bias=true num_hidden=700");
  double *x = draw(N * K, 7), *w = draw(H * K, 8);
  for (int i = 0; i < N * K; ++i) x[i] /= 3;
  for (int i = 0; i < H * K; ++i) w[i] /= 7;
  tn_array *data = array_of(rt, TN_F32, N, K, x);
  tn_array *weight = array_of(rt, TN_F32, H, K, w), *out = NULL;
  float *bits = malloc(N * H * sizeof *bits);
  OK(tn_operator_pin(op, kernel));
  OK(tn_call(rt, op, TN_IN(data, weight), params, TN_OUT(&out)));
  OK(tn_array_get(out, bits, N * H * sizeof *bits));
  tn_array_release(data), tn_array_release(weight), tn_array_release(out);
  tn_params_release(params);
  tn_runtime_release(rt);
  free(x), free(w);
  return bits;
}

static void check_threads(const char *kernel) {
  float *one = bits_of(kernel, 1);
  for (uint32_t workers = 2; workers <= 8; workers *= 2) {
    float *more = bits_of(kernel, workers);
    cr_assert_eq(memcmp(one, more, 514 * 700 * sizeof *one), 0,
                 "%s: %u workers give other bits than one", kernel, workers);
    free(more);
  }
  free(one);
}

Test(product, bits_do_not_depend_on_the_number_of_threads) {
  check_threads(PLAIN_KERNEL);
}

Test(product, openblas_s_bits_do_not_depend_on_the_number_of_threads) {
  skip_without_blas();
  check_threads(BLAS_KERNEL);
}

/* ------------------------------------------------------- the library itself */

static int count_threads(void) {
  DIR *tasks = opendir("/proc/self/task");
  int n = 0;
  cr_assert_not_null(tasks);
  for (const struct dirent *e; (e = readdir(tasks)) != NULL;)
    n += e->d_name[0] != '.';
  closedir(tasks);
  return n;
}

/* The settings of OpenBLAS outside of these tests. */
static void say_nothing(void) {
  cr_assert_eq(unsetenv("OPENBLAS_CORETYPE"), 0);
  cr_assert_eq(unsetenv("OPENBLAS_NUM_THREADS"), 0);
}

Test(product, openblas_starts_no_threads_and_leaves_the_environment_alone) {
  tn_runtime *rt = NULL;
  say_nothing();
  OK(tn_runtime_create(&(tn_options){.struct_size = sizeof(tn_options),
                                     .engine = TN_ENGINE_NAIVE,
                                     .log = note_blas},
                       &rt));
  const int before = count_threads();
  char **environment = environ;
  OK(tn_plugin_load(rt, OPENBLAS_FILE));
  cr_assert_eq(count_threads(), before);
  cr_assert_eq(environ, environment);
  cr_assert_null(getenv("OPENBLAS_NUM_THREADS"));
  cr_assert_null(getenv("OPENBLAS_CORETYPE"));
  tn_runtime_release(rt);
  cr_assert_eq(count_threads(), before);
}

/* 0.3.21 takes some machines with AVX-512 for a Haswell. */
Test(product, openblas_takes_the_kernels_that_the_processor_has) {
  say_nothing();
  skip_without_blas();
  tn_runtime *rt = open_runtime(0, 1);
  tn_device_entry cpu;
  OK(tn_device_at(rt, 0, &cpu));
  if (strstr(cpu.detail, "avx512"))
    cr_assert_null(strstr(blas_name, "Haswell"), "%s", blas_name);
  tn_runtime_release(rt);
}

Test(product, the_users_choice_of_kernels_counts) {
  cr_assert_eq(setenv("OPENBLAS_CORETYPE", "Nehalem", 1), 0);
  skip_without_blas();
  tn_runtime *rt = open_runtime(0, 1);
#ifdef __x86_64__ /* others have no kernels of that name */
  cr_assert_not_null(strstr(blas_name, "Nehalem"), "%s", blas_name);
#endif
  cr_assert_str_eq(getenv("OPENBLAS_CORETYPE"), "Nehalem");
  tn_runtime_release(rt);
}

Test(product, a_provider_of_products_is_not_unloaded_before_its_users) {
  skip_without_blas();
  tn_runtime *rt = open_runtime(0, 1);
  FAILS(tn_plugin_unload(rt, "openblas"), TN_BUSY, "blas/1");
  OK(tn_plugin_unload(rt, "nn"));
  OK(tn_plugin_unload(rt, "openblas"));
  tn_runtime_release(rt);
}

Test(product, without_openblas_the_kernel_names_the_missing_library) {
  tn_runtime *rt = host_open();
  tn_text *text = NULL;
  OK(tn_operator_explain(host_operator(rt, "nn.fully_connected"), NULL, NULL,
                         &text));
  cr_assert_not_null(strstr(tn_text_get(text), "no plugin provides blas/1"),
                     "%s", tn_text_get(text));
  tn_text_release(text);
  tn_runtime_release(rt);
}
