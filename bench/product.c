/* SPDX-License-Identifier: Apache-2.0
 * product.c: the matrix products of nn.fully_connected, forward and backward,
 * by the kernel that calls a BLAS for large products ("tenon") and by the one
 * that never does ("plain"), beside cblas_sgemm called directly and beside the
 * peak of one core. Prints "product.SHAPE.PASS.VARIANT GFLOP/s" lines. Variants
 * take turns in rounds and the best round counts, since other load can only
 * slow a round down.
 *
 *   product OPENBLAS.so NN.so [ROUNDS]
 *
 * "direct" opens the library with a plain dlopen, "chosen" in the environment
 * that plugins/openblas sets for it.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "measure.h"
#include "tenon/kernel/kernel.h"
#include "tenon/tenon.h"

static const double SECONDS = 0.02; /* for each figure of a round */

/* Rows of data, elements of each, and of a row of the result. */
typedef struct extent {
  int64_t n;
  int64_t k;
  int64_t h;
} extent;

static const extent extents[] = {{64, 784, 512},
                                 {64, 512, 512},
                                 {1, 784, 512},
                                 {512, 512, 512},
                                 {1024, 1024, 1024}};
enum { N_EXTENTS = sizeof extents / sizeof *extents, MAX = 1 << 20 };

static float x[MAX], w[MAX], y[MAX], dx[MAX], dw[MAX];

static void must_succeed(tn_code code) {
  if (code != TN_OK) measure_fail("%s", tn_error_text());
}

/* Keeps the best of a figure, by its name. */
typedef struct figure {
  char name[64];
  double best;
} figure;

static figure figures[128];
static size_t n_figures;

static void note_time(const extent *e, const char *pass, const char *who,
                      double value) {
  figure *f = figures;
  char name[64];
  (void)snprintf(name, sizeof name, "product.%lldx%lldx%lld.%s.%s",
                 (long long)e->n, (long long)e->k, (long long)e->h, pass, who);
  while (f < figures + n_figures && strcmp(f->name, name) != 0) ++f;
  if (f == figures + n_figures) {
    ++n_figures;
    (void)snprintf(f->name, sizeof f->name, "%s", name);
  }
  if (value > f->best) f->best = value;
}

static double rate_of(const extent *e, double products, double ns) {
  return products * 2 * (double)e->n * (double)e->k * (double)e->h / ns;
}

/* -------------------------------------------------------------------- peak */

enum { CHAINS = 12, STEPS = 1000 };
static volatile float sink;

/* Chains of multiply-adds that do not wait for each other, each a register. */
#define FMA_LOOP(name, target, bytes)                                     \
  target static void name(void) {                                         \
    typedef float wide __attribute__((vector_size(bytes)));               \
    const wide factor = (wide){0} + 0.999f;                               \
    wide sum[CHAINS];                                                     \
    for (int c = 0; c < CHAINS; ++c) sum[c] = (wide){0} + (float)c;       \
    for (int i = 0; i < STEPS; ++i)                                       \
      for (int c = 0; c < CHAINS; ++c) sum[c] = sum[c] * factor + factor; \
    float all = 0;                                                        \
    for (int c = 0; c < CHAINS; ++c) all += sum[c][0];                    \
    sink = all;                                                           \
  }

FMA_LOOP(fma_base, , 16)
#if defined(TN_KERNEL_AVX2)
FMA_LOOP(fma_avx2, TN_KERNEL_AVX2, 32)
FMA_LOOP(fma_avx512, TN_KERNEL_AVX512, 64)
static void (*const fma_loops[])(void) = {fma_base, fma_avx2, fma_avx512};
#else
static void (*const fma_loops[])(void) = {fma_base};
#endif

static void peak_once(void *arg) {
  fma_loops[*(const int *)arg]();
}

static int best_level(void) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return 2;
  if (__builtin_cpu_supports("avx2")) return 1;
#endif
  return 0;
}

/* ------------------------------------------------------------------- Tenon */

typedef struct layer {
  tn_runtime *rt;
  tn_operator *op;
  tn_params *params;
  tn_array *data, *weight, *head, *out, *grads[3];
  tn_prepared *forward;
} layer;

static tn_array *array_of(tn_runtime *rt, int64_t rows, int64_t columns,
                          const float *values) {
  tn_array *array = NULL;
  const int64_t shape[2] = {rows, columns};
  must_succeed(tn_array_create(rt, &(tn_spec){TN_F32, 2, shape}, &array));
  must_succeed(
      tn_array_set(array, values, (size_t)(rows * columns) * sizeof *values));
  return array;
}

static layer open_layer(tn_runtime *rt, const extent *e) {
  layer l = {.rt = rt};
  char text[64];
  (void)snprintf(text, sizeof text, "no_bias=true num_hidden=%lld",
                 (long long)e->h);
  must_succeed(tn_operator_get(rt, "nn.fully_connected", &l.op));
  must_succeed(tn_params_parse(l.op, text, &l.params));
  l.data = array_of(rt, e->n, e->k, x), l.weight = array_of(rt, e->h, e->k, w);
  l.head = array_of(rt, e->n, e->h, y), l.out = array_of(rt, e->n, e->h, y);
  l.grads[0] = array_of(rt, e->n, e->k, x);
  l.grads[1] = array_of(rt, e->h, e->k, w);
  must_succeed(
      tn_call_prepare(rt,
                      &(tn_preparation){.struct_size = sizeof(tn_preparation),
                                        .op = l.op,
                                        .params = l.params,
                                        .inputs = *TN_IN(l.data, l.weight),
                                        .outputs = *TN_OUT(&l.out)},
                      &l.forward));
  return l;
}

static void close_layer(layer *l) {
  tn_prepared_release(l->forward);
  tn_array_release(l->data), tn_array_release(l->weight);
  tn_array_release(l->head), tn_array_release(l->out);
  tn_array_release(l->grads[0]), tn_array_release(l->grads[1]);
  tn_params_release(l->params);
}

static void forward_once(void *arg) {
  layer *l = arg;
  must_succeed(tn_call_run(l->forward));
  must_succeed(tn_array_wait(l->out));
}

/* Both gradients: two products. */
static void backward_once(void *arg) {
  layer *l = arg;
  must_succeed(
      tn_call_backward(l->rt, l->op,
                       &(tn_backward){.struct_size = sizeof(tn_backward),
                                      .params = l->params,
                                      .inputs = *TN_IN(l->data, l->weight),
                                      .outputs = *TN_IN(l->out),
                                      .out_grads = *TN_IN(l->head),
                                      .in_grads = {2, l->grads, NULL}}));
  must_succeed(tn_array_wait(l->grads[0]));
  must_succeed(tn_array_wait(l->grads[1]));
}

static void measure_kernel(tn_runtime *rt, const extent *e, const char *kernel,
                           const char *who) {
  tn_operator *op = NULL;
  must_succeed(tn_operator_get(rt, "nn.fully_connected", &op));
  if (tn_operator_pin(op, kernel) != TN_OK) return;
  layer l = open_layer(rt, e);
  note_time(e, "forward", who,
            rate_of(e, 1, measure_cpu(forward_once, &l, SECONDS)));
  note_time(e, "backward", who,
            rate_of(e, 2, measure_cpu(backward_once, &l, SECONDS)));
  close_layer(&l);
}

/* ------------------------------------------------------------------ directly
 */

typedef void sgemm(int order, int ta, int tb, int m, int n, int k, float alpha,
                   const float *a, int lda, const float *b, int ldb, float beta,
                   float *c, int ldc);

typedef struct direct {
  sgemm *gemm;
  int n, k, h;
} direct;

enum { ROWS = 101, PLAIN = 111, TURNED = 112 }; /* of cblas.h */

static void direct_forward(void *arg) {
  const direct *d = arg;
  d->gemm(ROWS, PLAIN, TURNED, d->n, d->h, d->k, 1, x, d->k, w, d->k, 0, y,
          d->h);
}

static void direct_backward(void *arg) {
  const direct *d = arg;
  d->gemm(ROWS, PLAIN, PLAIN, d->n, d->k, d->h, 1, y, d->h, w, d->k, 0, dx,
          d->k);
  d->gemm(ROWS, TURNED, PLAIN, d->h, d->k, d->n, 1, y, d->h, x, d->k, 0, dw,
          d->k);
}

/* In a process of its own, as a library is opened once per process. Writes
 * figures to `to`. */
static void run_direct(const extent *e, const char *core, int to) {
  if (core) (void)setenv("OPENBLAS_CORETYPE", core, 1);
  (void)setenv("OPENBLAS_NUM_THREADS", "1", 1);
  void *library = dlopen("libopenblas.so.0", RTLD_NOW);
  void *found = library ? dlsym(library, "cblas_sgemm") : NULL;
  double ns[2] = {0, 0};
  direct d = {NULL, (int)e->n, (int)e->k, (int)e->h};
  memcpy(&d.gemm, &found, sizeof found);
  if (found) {
    ns[0] = measure_cpu(direct_forward, &d, SECONDS);
    ns[1] = measure_cpu(direct_backward, &d, SECONDS);
  }
  if (write(to, ns, sizeof ns) != sizeof ns) _exit(1);
  _exit(0);
}

static void measure_direct(const extent *e, const char *core, const char *who) {
  int ends[2];
  double ns[2] = {0, 0};
  (void)fflush(stdout);
  if (pipe(ends) != 0) measure_fail("no pipe");
  const pid_t child = fork();
  if (child < 0) measure_fail("no process");
  if (child == 0) run_direct(e, core, ends[1]);
  close(ends[1]);
  const ssize_t n = read(ends[0], ns, sizeof ns);
  close(ends[0]);
  (void)waitpid(child, NULL, 0);
  if (n != sizeof ns || ns[0] == 0) return;
  note_time(e, "forward", who, rate_of(e, 1, ns[0]));
  note_time(e, "backward", who, rate_of(e, 2, ns[1]));
}

/* -------------------------------------------------------------------- main */

static void run_round(tn_runtime *rt, double *peak) {
  int level = best_level();
  const double flops = 2.0 * (4 << level) * CHAINS * STEPS;
  const double now = flops / measure_cpu(peak_once, &level, SECONDS);
  if (now > *peak) *peak = now;
  for (int i = 0; i < N_EXTENTS; ++i) {
    measure_direct(&extents[i], NULL, "direct");
    measure_direct(&extents[i], "SkylakeX", "chosen");
    measure_kernel(rt, &extents[i], "nn.fully_connected.cpu", "tenon");
    measure_kernel(rt, &extents[i], "nn.fully_connected.cpu.2", "plain");
  }
}

int main(int argc, char **argv) {
  tn_runtime *rt = NULL;
  double peak = 0;
  if (argc < 3) measure_fail("usage: product OPENBLAS.so NN.so [ROUNDS]");
  for (int i = 0; i < MAX; ++i) x[i] = w[i] = y[i] = (float)(i % 17 - 8) / 16;
  must_succeed(
      tn_runtime_create(&(tn_options){.struct_size = sizeof(tn_options),
                                      .workers = 1,
                                      .engine = TN_ENGINE_NAIVE},
                        &rt));
  must_succeed(tn_plugin_load(rt, argv[1]));
  must_succeed(tn_plugin_load(rt, argv[2]));
  for (int i = argc > 3 ? atoi(argv[3]) : 5; i > 0; --i) run_round(rt, &peak);
  printf("product.peak %.1f GFLOP/s\n", peak);
  for (size_t i = 0; i < n_figures; ++i)
    printf("%s %.1f GFLOP/s\n", figures[i].name, figures[i].best);
  tn_runtime_release(rt);
  return 0;
}
