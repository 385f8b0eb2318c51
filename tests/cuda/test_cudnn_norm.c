/* SPDX-License-Identifier: Apache-2.0
 * Batch norms of plugins/cudnn with a simulated driver and cuDNN, or on a GPU
 * (ON_GPU, by `./dev gpu-test`): outputs, moving averages and gradients are
 * those of the cpu. Forms that cuDNN computes differently from the operator are
 * refused. At the end of every test both fakes report broken rules and objects
 * that were not freed.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../plugins/host.h"
#include "cudnn_fixture.h"
#include "tenon/graph.h"

/* Whether as many plans were executed, as far as that is known. */
static int has_executed(size_t least, size_t most) {
#ifdef ON_GPU
  return most >= least;
#else
  const size_t n = (size_t)fake_cudnn_counts_get().executed;
  return n >= least && n <= most;
#endif
}

TestSuite(cudnn_norm, .init = fixture_init, .fini = close_cudnn);

/* ------------------------------------------------------------------- calls */

enum { DATA, GAMMA, BETA, MEAN, VAR, N_IN };
enum { OUT, USED, INV_STD, N_OUT };

/* A call, and where it is made. */
typedef struct norm {
  const char *op;
  const char *params;
  const char *place;
  uint32_t flags;
  int32_t ndim;
  int64_t dims[4];
  int axis;
  tn_dtype dtype;
} norm;

/* Its arrays. */
typedef struct arrays {
  tn_array *in[N_IN];
  tn_array *out[N_OUT];
  tn_array *heads[N_OUT];
  tn_array *grads[N_IN];
} arrays;

static tn_array *at_place(const norm *n, int32_t ndim, const int64_t *dims,
                          const double *values) {
  tn_array *host = host_many(fixture, n->dtype, ndim, dims, values),
           *out = NULL;
  OK(tn_array_to(host, fixture_place(n->place), &out));
  tn_array_release(host);
  return out;
}

/* Numbers around `middle`. */
static tn_array *drawn(const norm *n, int is_large, uint64_t seed,
                       double middle) {
  const int64_t *dims = is_large ? n->dims : &n->dims[n->axis];
  const int32_t ndim = is_large ? n->ndim : 1;
  int64_t size = 1;
  for (int32_t d = 0; d < ndim; ++d) size *= dims[d];
  double *v = host_draw(size, seed);
  for (int64_t i = 0; i < size; ++i) v[i] += middle;
  tn_array *out = at_place(n, ndim, dims, v);
  free(v);
  return out;
}

static arrays arrays_of(const norm *n) {
  return (arrays){
      .in = {drawn(n, 1, 1, 0.5), drawn(n, 0, 2, 2), drawn(n, 0, 3, 0),
             drawn(n, 0, 4, 0), drawn(n, 0, 5, 2)},
      .heads = {drawn(n, 1, 6, 0)}};
}

static void release(arrays *a) {
  for (int i = 0; i < N_IN; ++i)
    tn_array_release(a->in[i]), tn_array_release(a->grads[i]);
  for (int i = 0; i < N_OUT; ++i)
    tn_array_release(a->out[i]), tn_array_release(a->heads[i]);
}

static tn_code forward(const norm *n, arrays *a) {
  tn_operator *op = host_operator(fixture, n->op);
  tn_params *params = host_params(op, n->params);
  const tn_inputs in = {N_IN, a->in};
  const tn_outputs out = {N_OUT, a->out, NULL};
  const tn_code code = n->flags ? tn_call_train(fixture, op, &in, params, &out)
                                : tn_call(fixture, op, &in, params, &out);
  tn_params_release(params);
  return code;
}

static tn_code backward(const norm *n, arrays *a, const tn_req *req) {
  tn_operator *op = host_operator(fixture, n->op);
  tn_params *params = host_params(op, n->params);
  const tn_code code =
      tn_call_backward(fixture, op,
                       &(tn_backward){.struct_size = sizeof(tn_backward),
                                      .flags = n->flags,
                                      .params = params,
                                      .inputs = {N_IN, a->in},
                                      .outputs = {N_OUT, a->out},
                                      .out_grads = {N_OUT, a->heads},
                                      .in_grads = {3, a->grads, req}});
  tn_params_release(params);
  return code;
}

static double *values_of(tn_array *array) {
  tn_array *host = NULL;
  OK(tn_array_to(array, fixture_place("cpu"), &host));
  double *v = host_many_values(host);
  tn_array_release(host);
  return v;
}

static void expect_same(tn_array *is, tn_array *wanted, const norm *n,
                        const char *what) {
  cr_assert_eq(!is, !wanted, "%s: %s", n->params, what);
  if (!is) return;
  double *a = values_of(is), *b = values_of(wanted);
  for (int64_t i = 0; i < tn_array_size(wanted); ++i)
    cr_assert(fabs(a[i] - b[i]) <= 4e-6 * fmax(1, fabs(b[i])),
              "%s %s, %s %lld: %.9g, not %.9g", n->op, n->params, what,
              (long long)i, a[i], b[i]);
  free(a), free(b);
}

static const char *const in_names[] = {"data", "gamma", "beta", "moving_mean",
                                       "moving_var"};
static const char *const out_names[] = {"out", "mean", "inv_std"};

/* All results on cuda are those of the cpu; gradients where `req` requests
 * them.
 */
static void check(const norm *given, const tn_req *req) {
  norm n = *given;
  n.place = "cuda";
  arrays a = arrays_of(&n);
  OK(forward(&n, &a));
  if (req) OK(backward(&n, &a, req));
  n.place = "cpu";
  arrays b = arrays_of(&n);
  OK(forward(&n, &b));
  if (req) OK(backward(&n, &b, req));
  for (int i = 0; i < N_OUT; ++i)
    expect_same(a.out[i], b.out[i], &n, out_names[i]);
  for (int i = 0; i < N_IN; ++i) {
    expect_same(a.in[i], b.in[i], &n, in_names[i]);
    expect_same(a.grads[i], b.grads[i], &n, "a gradient");
  }
  release(&a), release(&b);
}

/* ------------------------------------------------------------------ values */

static const norm cases[] = {
    {.params = "fix_gamma=false", .ndim = 3, .dims = {3, 4, 5}, .axis = 1},
    {.params = "", .ndim = 4, .dims = {3, 8, 2, 3}, .axis = 1},
    {.params = "fix_gamma=false axis=-1 eps=0.1 momentum=0.5",
     .ndim = 2,
     .dims = {6, 4},
     .axis = 1},
    {.params = "fix_gamma=false axis=2 momentum=0",
     .ndim = 4,
     .dims = {2, 3, 4, 5},
     .axis = 2},
    {.params = "fix_gamma=false axis=0 momentum=1",
     .ndim = 2,
     .dims = {4, 7},
     .axis = 0},
};
enum { N_CASES = sizeof cases / sizeof *cases };

static norm with(const norm *of, const char *op, uint32_t flags) {
  norm n = *of;
  n.op = op;
  n.flags = flags;
  n.dtype = TN_F32;
  return n;
}

static const tn_req write_all[] = {TN_REQ_WRITE, TN_REQ_WRITE, TN_REQ_WRITE};

Test(cudnn_norm, in_training_is_that_of_the_cpu) {
  open_cudnn(1, 1);
  for (size_t i = 0; i < N_CASES; ++i) {
    const norm n = with(&cases[i], "nn.batch_norm", TN_CALL_TRAIN);
    check(&n, write_all);
  }
  cr_assert(has_executed(4 * N_CASES, 4 * N_CASES));
}

Test(cudnn_norm, by_moving_averages_is_that_of_the_cpu) {
  static const norm odd = {
      .params = "fix_gamma=false", .ndim = 3, .dims = {3, 5, 7}, .axis = 1};
  static const norm given = {
      .params = "use_global_stats=true", .ndim = 2, .dims = {1, 3}, .axis = 1};
  open_cudnn(1, 2);
  for (size_t i = 0; i < N_CASES; ++i) {
    const norm n = with(&cases[i], "nn.batch_norm", 0);
    check(&n, NULL);
  }
  const norm n = with(&odd, "nn.batch_norm", 0);
  const norm m = with(&given, "nn.batch_norm", TN_CALL_TRAIN);
  check(&n, NULL);
  check(&m, NULL);
  cr_assert(has_executed(2 * (N_CASES + 2), 2 * (N_CASES + 2)));
}

Test(cudnn_norm, with_relu_is_that_of_the_cpu) {
  open_cudnn(1, 3);
  for (size_t i = 0; i < N_CASES; ++i)
    for (uint32_t train = 0; train < 2; ++train) {
      char params[80];
      norm n = with(&cases[i], "nn.batch_norm_activation",
                    train ? TN_CALL_TRAIN : 0);
      (void)snprintf(params, sizeof params, "%s act_type=relu", n.params);
      n.params = params;
      check(&n, NULL);
    }
}

Test(cudnn_norm, only_requested_gradients_are_computed) {
  static const tn_req some[][3] = {
      {TN_REQ_WRITE, TN_REQ_NULL, TN_REQ_NULL},
      {TN_REQ_NULL, TN_REQ_WRITE, TN_REQ_NULL},
      {TN_REQ_NULL, TN_REQ_NULL, TN_REQ_WRITE},
      {TN_REQ_NULL, TN_REQ_WRITE, TN_REQ_WRITE},
  };
  open_cudnn(1, 4);
  for (size_t i = 0; i < N_CASES; ++i)
    for (size_t k = 0; k < sizeof some / sizeof *some; ++k) {
      const norm n = with(&cases[i], "nn.batch_norm", TN_CALL_TRAIN);
      check(&n, some[k]);
    }
}

/* By hand: the mean of 1, 2, 3, 4 is 2.5 and their variance 5/4, not 5/3. */
Test(cudnn_norm, the_moving_variance_is_that_of_all_elements) {
  norm n = {.op = "nn.batch_norm",
            .params = "eps=0",
            .place = "cuda",
            .flags = TN_CALL_TRAIN,
            .ndim = 2,
            .dims = {4, 4},
            .axis = 1,
            .dtype = TN_F32};
  static const double data[] = {1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4};
  static const double zeros[4] = {0}, twos[] = {2, 2, 2, 2};
  open_cudnn(1, 5);
  arrays a = arrays_of(&n);
  tn_array_release(a.in[DATA]), tn_array_release(a.in[MEAN]);
  tn_array_release(a.in[VAR]);
  a.in[DATA] = at_place(&n, 2, n.dims, data);
  a.in[MEAN] = at_place(&n, 1, n.dims, zeros);
  a.in[VAR] = at_place(&n, 1, n.dims, twos);
  OK(forward(&n, &a));
  double *mean = values_of(a.in[MEAN]), *var = values_of(a.in[VAR]);
  for (int i = 0; i < 4; ++i) {
    cr_assert_float_eq(mean[i], 0.25, 1e-6);
    cr_assert_float_eq(var[i], 0.9 * 2 + 0.1 * 1.25, 1e-6);
  }
  free(mean), free(var);
  release(&a);
}

/* ----------------------------------------------------------------- choices */

/* Elements from the second on of a longer array: an address that is a multiple
 * of an element, and no more. */
static tn_array *behind_one(const norm *n, tn_array *array) {
  const int64_t size = tn_array_size(array), more = size + 1;
  const tn_range range = {.axis = 0, .begin = 1, .end = more};
  double *v = values_of(array), *longer = calloc((size_t)more, sizeof *longer);
  tn_array *whole, *view = NULL, *out = NULL;
  cr_assert_not_null(longer);
  memcpy(longer + 1, v, (size_t)size * sizeof *v);
  whole = at_place(n, 1, &more, longer);
  OK(tn_array_slice(whole, &range, &view));
  OK(tn_array_reshape(view, n->ndim, n->dims, &out));
  tn_array_release(whole), tn_array_release(view), tn_array_release(array);
  free(v), free(longer);
  return out;
}

Test(cudnn_norm, operands_may_have_any_address) {
  norm n = with(&cases[0], "nn.batch_norm", TN_CALL_TRAIN);
  open_cudnn(1, 6);
  n.place = "cuda";
  arrays a = arrays_of(&n), b = arrays_of(&n);
  a.in[DATA] = behind_one(&n, a.in[DATA]);
  cr_assert_eq((uintptr_t)tn_array_tensor(a.in[DATA])->data % 16, 4);
  OK(forward(&n, &a));
  OK(forward(&n, &b));
  OK(backward(&n, &a, write_all));
  OK(backward(&n, &b, write_all));
  expect_same(a.out[OUT], b.out[OUT], &n, "out");
  expect_same(a.grads[DATA], b.grads[DATA], &n, "the gradient");
  release(&a), release(&b);
}

Test(cudnn_norm, nn_has_its_own_kernel_in_front) {
  const norm n = with(&cases[0], "nn.batch_norm", TN_CALL_TRAIN);
  open_cudnn(1, 7);
  OK(tn_plugin_load(fixture, NN_CUDA_FILE));
  check(&n, write_all);
  cr_assert(has_executed(0, 0));
}

static void refuses(const norm *of, uint32_t flags, const char *why) {
  norm n = with(of, "nn.batch_norm", flags);
  n.place = "cuda";
  arrays a = arrays_of(&n);
  FAILS(forward(&n, &a), TN_UNSUPPORTED, why);
  release(&a);
}

Test(cudnn_norm, forms_that_cudnn_computes_differently_are_refused) {
  static const norm six = {.params = "", .ndim = 2, .dims = {3, 6}, .axis = 1};
  static const norm single = {
      .params = "", .ndim = 2, .dims = {1, 4}, .axis = 1};
  static const norm nothing = {
      .params = "", .ndim = 2, .dims = {0, 4}, .axis = 1};
  open_cudnn(1, 8);
  refuses(&six, TN_CALL_TRAIN, "no engine for 6 channels in f32");
  refuses(&single, TN_CALL_TRAIN, "the number of elements of a channel less");
  refuses(&nothing, 0, "there is nothing to normalise");
  norm n = with(&cases[0], "nn.batch_norm", 0);
  n.place = "cuda";
  arrays a = arrays_of(&n);
  OK(forward(&n, &a));
  FAILS(backward(&n, &a, write_all), TN_UNSUPPORTED,
        "cuDNN's gradient is that of statistics of the batch");
  release(&a);
}

/* ---------------------------------------------------------------- recorded
 */

static const char *const net_arrays[] = {"data", "norm_gamma", "norm_beta"};
static const char *const net_states[] = {"norm_moving_mean", "norm_moving_var"};
enum { RUNS = 5 };

static tn_program *net(const char *place, uint32_t flags) {
  const tn_sig sig = {TN_F32, 3, {3, 4, 5}};
  const tn_bind how = {.struct_size = sizeof how,
                       .flags = flags,
                       .request = TN_REQ_WRITE,
                       .place = fixture_place(place)};
  tn_program *p = NULL;
  tn_graph *g = NULL;
  tn_entry x;
  OK(tn_graph_create(fixture, &g));
  OK(tn_graph_variable(g, "data", &sig, &x));
  x = fixture_call(g, "nn.batch_norm", "fix_gamma=false", "norm", 1, &x);
  OK(tn_graph_heads_set(g, &x, 1));
  OK(tn_program_bind(g, &how, &p));
  tn_graph_release(g);
  return p;
}

static tn_array *of(tn_program *p, uint32_t what, const char *name) {
  tn_array *array = NULL;
  OK(tn_program_array(p, what, name, &array));
  return array;
}

static void fill(tn_array *array, uint64_t seed) {
  const int64_t n = tn_array_size(array);
  double *v = host_draw(n, seed);
  float narrow[60];
  for (int64_t i = 0; i < n; ++i) narrow[i] = (float)v[i] + 1;
  OK(tn_array_set(array, narrow, (size_t)n * sizeof *narrow));
  free(v);
}

/* Training, and then outputs that use the moving averages. */
static void net_run(tn_program *p, const norm *n, uint64_t run) {
  tn_array *head = drawn(n, 1, run, 0);
  for (uint64_t i = 0; i < 3; ++i)
    fill(of(p, TN_PROGRAM_ARGUMENT, net_arrays[i]), 3 * run + i);
  OK(tn_program_forward(p, TN_CALL_TRAIN));
  OK(tn_program_backward(p, &head, 1));
  OK(tn_program_forward(p, 0));
  tn_array_release(head);
}

static void is_launched_as_one(tn_program *p, uint32_t which) {
  tn_text *why = NULL;
  OK(tn_program_captured(p, which, &why));
  cr_assert_null(why, "%s", why ? tn_text_get(why) : "");
}

Test(cudnn_norm, programs_are_recorded_and_launched_as_one) {
  norm cuda = with(&cases[0], "nn.batch_norm", TN_CALL_TRAIN), cpu = cuda;
  cuda.place = "cuda";
  cpu.place = "cpu";
  open_cudnn(1, 9);
  tn_program *one = net("cuda", TN_BIND_CAPTURE), *steps = net("cpu", 0);
  for (uint64_t run = 1; run <= RUNS; ++run) {
    tn_array *a = NULL, *b = NULL;
    net_run(one, &cuda, run);
    net_run(steps, &cpu, run);
    OK(tn_program_output(one, 0, &a));
    OK(tn_program_output(steps, 0, &b));
    expect_same(a, b, &cuda, "out");
    for (int i = 0; i < 3; ++i)
      expect_same(of(one, TN_PROGRAM_GRADIENT, net_arrays[i]),
                  of(steps, TN_PROGRAM_GRADIENT, net_arrays[i]), &cuda,
                  net_arrays[i]);
    for (int i = 0; i < 2; ++i)
      expect_same(of(one, TN_PROGRAM_AUXILIARY, net_states[i]),
                  of(steps, TN_PROGRAM_AUXILIARY, net_states[i]), &cuda,
                  net_states[i]);
  }
  is_launched_as_one(one, TN_PART_TRAIN);
  is_launched_as_one(one, TN_PART_BACKWARD);
  is_launched_as_one(one, TN_PART_FORWARD);
  tn_program_release(one), tn_program_release(steps);
}
