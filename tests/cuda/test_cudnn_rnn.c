/* SPDX-License-Identifier: Apache-2.0
 * nn.rnn by plugins/cudnn, with a simulated driver and cuDNN, or on a GPU
 * (ON_GPU, by `./dev gpu-test`): values of torch, all requests against the
 * kernel of the CPU, and calls that are refused. With the fakes also weights in
 * another order, and failures of cuDNN; at the end of every test they report
 * broken rules and objects that were not freed.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../plugins/cases.h"
#include "../plugins/rnn_check.h"
#include "cudnn_fixture.h"
#include "tenon/kernel_options.h"

TestSuite(cudnn_rnn, .init = fixture_init, .fini = close_cudnn);

/* ------------------------------------------------------------------- values
 */

static void check_types(const char *place) {
  rnn_check(fixture, fixture_place(place), TN_F64, 1e-12);
  rnn_check(fixture, fixture_place(place), TN_F32, 4e-6);
  rnn_check(fixture, fixture_place(place), TN_F16, 1e-2);
  rnn_check(fixture, fixture_place(place), TN_BF16, 8e-2);
}

Test(cudnn_rnn, values_and_gradients_are_those_of_torch) {
  open_cudnn(1, 5);
  check_types("cuda");
}

#ifndef ON_GPU
Test(cudnn_rnn, weights_in_another_order_are_moved) {
  (void)setenv("FAKE_CUDNN_ORDER", "1", 1);
  open_cudnn(1, 6);
  check_types("cuda");
}

Test(cudnn_rnn, the_second_device_has_handles_of_its_own) {
  open_cudnn(2, 7);
  rnn_check(fixture, fixture_place("cuda(1)"), TN_F32, 4e-6);
  cr_assert_eq(fake_cudnn_counts_get().handles, 2);
}
#endif

/* ----------------------------------------------------------------- requests
 */

/* A network and its sizes. */
typedef struct problem {
  const char *params;
  int64_t gates;
  int64_t steps, batch, inputs, units, layers, directions;
} problem;

static const problem problems[] = {
    {"state_size=5 mode=rnn_relu", 1, 4, 3, 6, 5, 1, 1},
    {"state_size=3 mode=rnn_tanh num_layers=2", 1, 5, 2, 4, 3, 2, 1},
    {"state_size=4 mode=lstm num_layers=3 bidirectional=true", 4, 3, 2, 5, 4, 3,
     2},
    {"state_size=6 mode=gru num_layers=2 bidirectional=true", 3, 4, 3, 2, 6, 2,
     2}};
enum { N_PROBLEMS = sizeof problems / sizeof *problems };

enum { N_IN = 4, N_OUT = 3 };

/* The arrays and the requested gradients of a call: bit i is for input or
 * output i. */
typedef struct request {
  unsigned in;
  unsigned heads;
  unsigned grads;
  tn_req req; /* of the gradients */
} request;

static double small_noise(int64_t i) {
  return cases_noise(i) / 4;
}

static int64_t count_parameters(const problem *p) {
  int64_t n = 0;
  for (int64_t l = 0; l < p->layers; ++l)
    n += p->directions * p->gates * p->units *
         ((l == 0 ? p->inputs : p->directions * p->units) + p->units + 2);
  return n;
}

static tn_array *there(const char *place, tn_array *host) {
  tn_array *out = NULL;
  OK(tn_array_to(host, fixture_place(place), &out));
  tn_array_release(host);
  return out;
}

/* One call, on one device. */
typedef struct call {
  tn_place place;
  tn_operator *op;
  tn_params *params;
  tn_array *in[N_IN];
  tn_array *out[N_OUT + 1];
  tn_array *heads[N_OUT];
  tn_array *grads[N_IN];
} call;

static call make_call(const char *place, const problem *p, tn_dtype dtype) {
  const int64_t n = count_parameters(p);
  const int64_t state[] = {p->layers * p->directions, p->batch, p->units};
  const int64_t out[] = {p->steps, p->batch, p->directions * p->units};
  call c = {.place = fixture_place(place),
            .op = host_operator(fixture, "nn.rnn")};
  c.params = host_params(c.op, p->params);
  c.in[0] =
      cases_array(fixture, dtype, 3, (int64_t[]){p->steps, p->batch, p->inputs},
                  cases_noise);
  c.in[1] = cases_array(fixture, dtype, 1, &n, small_noise);
  for (int i = 2; i < N_IN; ++i)
    c.in[i] = cases_array(fixture, dtype, 3, state, cases_noise);
  c.heads[0] = cases_array(fixture, dtype, 3, out, cases_noise);
  for (int i = 1; i < N_OUT; ++i)
    c.heads[i] = cases_array(fixture, dtype, 3, state, small_noise);
  for (int i = 0; i < N_IN; ++i) c.in[i] = there(place, c.in[i]);
  for (int i = 0; i < N_OUT; ++i) c.heads[i] = there(place, c.heads[i]);
  return c;
}

static void release_call(call *c) {
  for (int i = 0; i < N_IN; ++i)
    tn_array_release(c->in[i]), tn_array_release(c->grads[i]);
  for (int i = 0; i < N_OUT; ++i) tn_array_release(c->heads[i]);
  for (int i = 0; i <= N_OUT; ++i) tn_array_release(c->out[i]);
  tn_params_release(c->params);
}

static void drop_absent(tn_array **arrays, int n, unsigned present) {
  for (int i = 0; i < n; ++i) {
    if (present >> i & 1) continue;
    tn_array_release(arrays[i]);
    arrays[i] = NULL;
  }
}

/* Computes outputs and the requested gradients. A gradient that is added
 * starts from its input. */
static void run_call(call *c, int is_lstm, const request *r) {
  const unsigned in = is_lstm ? r->in : r->in & 7u;
  tn_req req[N_IN];
  drop_absent(c->in, N_IN, in);
  drop_absent(c->heads, N_OUT, is_lstm ? r->heads : r->heads & 3u);
  OK(tn_call(fixture, c->op, &(tn_inputs){N_IN, c->in}, c->params,
             &(tn_outputs){N_OUT + 1, c->out, NULL}));
  for (int i = 0; i < N_IN; ++i) {
    req[i] = in & r->grads & 1u << i ? r->req : TN_REQ_NULL;
    if (req[i] == TN_REQ_ADD) OK(tn_array_to(c->in[i], c->place, &c->grads[i]));
  }
  OK(tn_call_backward(fixture, c->op,
                      &(tn_backward){.struct_size = sizeof(tn_backward),
                                     .params = c->params,
                                     .inputs = {N_IN, c->in},
                                     .outputs = {N_OUT + 1, c->out},
                                     .out_grads = {N_OUT, c->heads},
                                     .in_grads = {N_IN, c->grads, req}}));
}

static void expect_same(tn_array *array, tn_array *want, const char *name) {
  cr_assert_eq(array != NULL, want != NULL, "%s", name);
  if (!array) return;
  double *v = host_near_values(want);
  rnn_expect(array, v, 2e-5, name);
  free(v);
}

static void check_request(const problem *p, const request *r) {
  call cuda = make_call("cuda", p, TN_F32), cpu = make_call("cpu", p, TN_F32);
  run_call(&cuda, p->gates == 4, r);
  run_call(&cpu, p->gates == 4, r);
  for (int i = 0; i < N_OUT; ++i)
    expect_same(cuda.out[i], cpu.out[i], p->params);
  for (int i = 0; i < N_IN; ++i)
    expect_same(cuda.grads[i], cpu.grads[i], p->params);
  release_call(&cuda), release_call(&cpu);
}

static void check_requests(void) {
  static const request requests[] = {
      {15, 7, 15, TN_REQ_WRITE}, {15, 7, 15, TN_REQ_ADD},
      {15, 1, 15, TN_REQ_WRITE}, {15, 2, 15, TN_REQ_WRITE},
      {15, 4, 15, TN_REQ_WRITE}, {3, 7, 3, TN_REQ_WRITE},
      {7, 7, 4, TN_REQ_WRITE},   {11, 7, 8, TN_REQ_WRITE},
      {15, 7, 1, TN_REQ_WRITE},  {15, 7, 2, TN_REQ_WRITE}};
  for (int p = 0; p < N_PROBLEMS; ++p)
    for (size_t i = 0; i < sizeof requests / sizeof *requests; ++i) {
      const request *r = &requests[i];
      const int is_lstm = problems[p].gates == 4;
      if (!is_lstm && ((r->heads & 3) == 0 || (r->grads & 7) == 0)) continue;
      check_request(&problems[p], r);
    }
}

Test(cudnn_rnn, requests_agree_with_the_cpu) {
  open_cudnn(1, 8);
  check_requests();
}

/* ------------------------------------------------------------------ refusals
 */

/* The first failure of a forward call or of its work. */
static tn_code call_forward(const problem *p, const char *params,
                            uint32_t flags) {
  call c = make_call("cuda", p, TN_F32);
  tn_params_release(c.params);
  c.params = host_params(c.op, params);
  drop_absent(c.in, N_IN, 3);
  const tn_inputs in = {N_IN, c.in};
  const tn_outputs out = {N_OUT + 1, c.out, NULL};
  tn_code code = flags ? tn_call_train(fixture, c.op, &in, c.params, &out)
                       : tn_call(fixture, c.op, &in, c.params, &out);
  if (code == TN_OK) code = tn_array_wait(c.out[0]);
  release_call(&c);
  return code;
}

Test(cudnn_rnn, dropped_elements_are_refused_in_training_alone) {
  const char *params = "state_size=3 mode=rnn_tanh num_layers=2 p=0.5";
  const char *one = "state_size=5 mode=rnn_relu p=0.5";
  open_cudnn(1, 11);
  OK(call_forward(&problems[1], params, 0));
  OK(call_forward(&problems[0], one, TN_CALL_TRAIN));
  FAILS(call_forward(&problems[1], params, TN_CALL_TRAIN), TN_UNSUPPORTED,
        "cuDNN drops other elements between layers than the operator promises");
}

Test(cudnn_rnn, rows_without_elements_are_refused) {
  const problem p = {"state_size=5 mode=rnn_relu", 1, 4, 3, 0, 5, 1, 1};
  open_cudnn(1, 12);
  FAILS(call_forward(&p, p.params, 0), TN_UNSUPPORTED,
        "cuDNN has no sequences of rows without elements");
}

Test(cudnn_rnn, no_steps_and_no_rows_change_nothing) {
  static const problem empty[] = {
      {"state_size=3 mode=lstm num_layers=2", 4, 0, 2, 5, 3, 2, 1},
      {"state_size=3 mode=gru bidirectional=true", 3, 0, 4, 5, 3, 1, 2},
      {"state_size=3 mode=lstm", 4, 4, 0, 5, 3, 1, 1},
      {"state_size=3 mode=rnn_tanh", 1, 0, 0, 5, 3, 1, 1}};
  open_cudnn(1, 12);
  for (size_t i = 0; i < sizeof empty / sizeof *empty; ++i) {
    check_request(&empty[i], &(request){15, 7, 15, TN_REQ_WRITE});
    check_request(&empty[i], &(request){15, 7, 15, TN_REQ_ADD});
    check_request(&empty[i], &(request){3, 1, 3, TN_REQ_WRITE});
  }
}

#ifndef ON_GPU
/* -------------------------------------------------------- parts of the fake
 */

Test(cudnn_rnn, requests_with_weights_in_another_order_agree_with_the_cpu) {
  (void)setenv("FAKE_CUDNN_ORDER", "1", 1);
  open_cudnn(1, 9);
  check_requests();
}

/* The gradient of `data` alone needs no gradient of weights. */
Test(cudnn_rnn, weights_get_a_gradient_only_if_it_is_requested) {
  open_cudnn(1, 10);
  call c = make_call("cuda", &problems[0], TN_F32);
  run_call(&c, 0, &(request){7, 3, 1, TN_REQ_WRITE});
  OK(tn_array_wait(c.grads[0]));
  /* forward; forward again and the gradient of data */
  cr_assert_eq(fake_cudnn_counts_get().executed, 3);
  release_call(&c);
}

/* ------------------------------------------------------------------ options
 */

/* The only output of one cell, relu(1*x). */
static double cell_of(double x) {
  static const double weights[] = {1, 0, 0, 0};
  const int64_t one[] = {1, 1, 1}, four = 4;
  tn_operator *op = host_operator(fixture, "nn.rnn");
  tn_params *params = host_params(op, "state_size=1 mode=rnn_relu");
  tn_array *in[] = {
      there("cuda", host_many(fixture, TN_F32, 3, one, &x)),
      there("cuda", host_many(fixture, TN_F32, 1, &four, weights))};
  tn_array *out[N_OUT + 1] = {NULL};
  OK(tn_call(fixture, op, &(tn_inputs){2, in}, params,
             &(tn_outputs){N_OUT + 1, out, NULL}));
  double *v = host_near_values(out[0]);
  const double y = v[0];
  free(v);
  for (int i = 0; i <= N_OUT; ++i) tn_array_release(out[i]);
  tn_array_release(in[0]), tn_array_release(in[1]);
  tn_params_release(params);
  return y;
}

Test(cudnn_rnn, factors_are_rounded_only_if_that_is_allowed) {
  const double x = 1 + 0x1p-12;
  open_cudnn(1, 3);
  tn_operator *op = host_operator(fixture, "nn.rnn");
  cr_assert_eq(cell_of(x), x);
  OK(tn_operator_tune(op, "cudnn.rnn.cuda", "fast=true"));
  cr_assert_eq(cell_of(x), 1);
}

/* ----------------------------------------------------------------- failures
 */

static void fails_with(const char *function, tn_code want, const char *why) {
  (void)setenv("FAKE_CUDNN_FAILS", function, 1);
  const tn_code code = call_forward(&problems[0], problems[0].params, 0);
  (void)unsetenv("FAKE_CUDNN_FAILS");
  FAILS(code, want, why);
}

Test(cudnn_rnn, failures_are_reported) {
  open_cudnn(1, 13);
  fails_with("cudnnSetRNNDescriptor_v8", TN_UNSUPPORTED,
             "cuDNN 9.19.0: planning: CUDNN_STATUS_NOT_SUPPORTED: there is no "
             "such kind of cells");
  fails_with("cudnnCreateRNNDataDescriptor", TN_OUT_OF_MEMORY,
             "there is no memory");
  fails_with("cudnnRNNForward", TN_DEVICE,
             "cuDNN 9.19.0: computing: CUDNN_STATUS_EXECUTION_FAILED: a kernel "
             "was not launched");
}

static void fails_backward(const char *function) {
  call c = make_call("cuda", &problems[0], TN_F32);
  tn_req req[N_IN] = {TN_REQ_WRITE, TN_REQ_WRITE, TN_REQ_NULL, TN_REQ_NULL};
  drop_absent(c.in, N_IN, 3);
  drop_absent(c.heads, N_OUT, 1);
  OK(tn_call(fixture, c.op, &(tn_inputs){N_IN, c.in}, c.params,
             &(tn_outputs){N_OUT + 1, c.out, NULL}));
  OK(tn_array_wait(c.out[0]));
  (void)setenv("FAKE_CUDNN_FAILS", function, 1);
  tn_code code =
      tn_call_backward(fixture, c.op,
                       &(tn_backward){.struct_size = sizeof(tn_backward),
                                      .params = c.params,
                                      .inputs = {N_IN, c.in},
                                      .outputs = {N_OUT + 1, c.out},
                                      .out_grads = {N_OUT, c.heads},
                                      .in_grads = {N_IN, c.grads, req}});
  if (code == TN_OK) code = tn_array_wait(c.grads[0]);
  (void)unsetenv("FAKE_CUDNN_FAILS");
  FAILS(code, TN_DEVICE, "a kernel was not launched");
  release_call(&c);
}

Test(cudnn_rnn, failures_of_gradients_are_reported) {
  open_cudnn(1, 14);
  fails_backward("cudnnRNNForward");
  fails_backward("cudnnRNNBackwardData_v8");
  fails_backward("cudnnRNNBackwardWeights_v8");
}

Test(cudnn_rnn, of_an_older_version_is_refused_by_its_number) {
  (void)setenv("FAKE_CUDNN_VERSION", "8907", 1);
  open_cudnn(1, 15);
  FAILS(call_forward(&problems[0], problems[0].params, 0), TN_UNSUPPORTED,
        "cuDNN 8.9.7 was found, and version 9 is wanted");
}

Test(cudnn_rnn, on_a_gpu_that_is_lost_fails_with_its_reason) {
  open_cudnn(1, 16);
  OK(call_forward(&problems[0], problems[0].params, 0));
  call c = make_call("cuda", &problems[0], TN_F32);
  fixture_is_broken = true;
  fake_cuda_lose(0, 719);
  drop_absent(c.in, N_IN, 3);
  tn_code code = tn_call(fixture, c.op, &(tn_inputs){N_IN, c.in}, c.params,
                         &(tn_outputs){N_OUT + 1, c.out, NULL});
  if (code == TN_OK) code = tn_array_wait(c.out[0]);
  cr_assert_eq(code, TN_DEVICE, "%s", tn_error_text());
  cr_assert_not_null(strstr(tn_error_text(), "the GPU is lost"), "%s",
                     tn_error_text());
  release_call(&c);
}
#endif
