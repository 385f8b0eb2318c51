/* SPDX-License-Identifier: Apache-2.0
 * plugins/optim: three steps of each optimizer against torch and NumPy
 * (tests/reference/optim.py), in place, through calls and through a prepared
 * call with a learning rate and step that change; and invalid steps.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"

enum { N = 8, STEPS = 3, MOST = 3 };

typedef struct optim_case {
  const char *op;
  const char *params;
  size_t n_states;
  double rates[STEPS];
  double weight[N];
  double gradients[STEPS][N];
  double after[N];
  double states[MOST][N];
} optim_case;

static const optim_case cases[] = {
#include "optim_cases.inc"
};
enum { N_CASES = sizeof cases / sizeof *cases };

/* Weight, gradient and states. */
typedef struct operands {
  tn_array *v[2 + MOST];
  size_t n;
} operands;

/* Whether a weight is kept in f32 as well, as the last state. */
static int has_copy(const optim_case *c) {
  return strncmp(c->op, "optim.mp_", 9) == 0;
}

static operands operands_of(tn_runtime *rt, const optim_case *c,
                            tn_dtype dtype) {
  static const double zeros[N];
  const tn_dtype states = has_copy(c) ? TN_F32 : dtype;
  operands o = {.n = 2 + c->n_states};
  const host_shape shape = {1, {N}};
  o.v[0] = host_array(rt, dtype, shape, c->weight);
  o.v[1] = host_array(rt, dtype, shape, c->gradients[0]);
  for (size_t k = 2; k < o.n; ++k)
    o.v[k] = host_array(rt, states, shape,
                        has_copy(c) && k + 1 == o.n ? c->weight : zeros);
  return o;
}

static void drop(operands *o) {
  for (size_t k = 0; k < o->n; ++k) tn_array_release(o->v[k]);
}

static void set_gradient(tn_runtime *rt, const operands *o, const double *v) {
  tn_array *fresh =
      host_array(rt, tn_array_tensor(o->v[1])->dtype, (host_shape){1, {N}}, v);
  OK(tn_array_copy(o->v[1], fresh));
  tn_array_release(fresh);
}

static void expect(const optim_case *c, const operands *o, double tolerance) {
  host_expect(o->v[0], c->after, N, tolerance);
  for (size_t k = 0; k < c->n_states; ++k)
    host_expect(o->v[2 + k], c->states[k], N, has_copy(c) ? 1e-6 : tolerance);
}

static void check_calls(tn_runtime *rt, const optim_case *c, tn_dtype dtype,
                        double tolerance) {
  tn_operator *op = host_operator(rt, c->op);
  operands o = operands_of(rt, c, dtype);
  for (int i = 0; i < STEPS; ++i) {
    char text[300];
    const char *step = strstr(c->params, "step=1");
    (void)snprintf(text, sizeof text, "lr=%.17g %.*s", c->rates[i],
                   (int)(step ? step - c->params : (long)strlen(c->params)),
                   c->params);
    if (step) (void)snprintf(strchr(text, 0), 20, "step=%d", i + 1);
    tn_params *params = host_params(op, text);
    set_gradient(rt, &o, c->gradients[i]);
    OK(tn_call(rt, op, &(tn_inputs){o.n, o.v}, params,
               &(tn_outputs){1, &o.v[0], NULL}));
    tn_params_release(params);
  }
  expect(c, &o, tolerance);
  drop(&o);
}

/* The same values as every second element, from the last on, of an array; its
 * other elements are 5. */
static tn_array *spread(tn_runtime *rt, tn_array *dense, tn_array **base) {
  const tn_dtype dtype = tn_array_tensor(dense)->dtype;
  const tn_range backwards = {
      .begin = 2 * N - 1, .end = -2 * N - 1, .step = -2};
  double fives[2 * N];
  tn_array *view = NULL;
  for (int i = 0; i < 2 * N; ++i) fives[i] = 5;
  *base = host_array(rt, dtype, (host_shape){1, {2 * N}}, fives);
  OK(tn_array_slice(*base, &backwards, &view));
  OK(tn_array_copy(view, dense));
  tn_array_release(dense);
  return view;
}

static void others_are_five(tn_array *base) {
  const tn_range others = {.end = 2 * N, .step = 2};
  double fives[N];
  tn_array *view = NULL;
  for (int i = 0; i < N; ++i) fives[i] = 5;
  OK(tn_array_slice(base, &others, &view));
  host_expect(view, fives, N, 0);
  tn_array_release(view), tn_array_release(base);
}

/* A state that is a view gets the values of a dense one, and nothing else of
 * its memory changes: in a call, on the fast path, and prepared. */
static void check_views(tn_runtime *rt, const optim_case *c, bool prepared) {
  tn_operator *op = host_operator(rt, c->op);
  operands dense = operands_of(rt, c, has_copy(c) ? TN_F16 : TN_F64);
  operands views = operands_of(rt, c, has_copy(c) ? TN_F16 : TN_F64);
  tn_array *bases[MOST] = {NULL};
  char text[300];
  (void)snprintf(text, sizeof text, "lr=0.25 %s", c->params);
  tn_params *params = host_params(op, text);
  for (size_t k = 2; k < views.n; ++k)
    views.v[k] = spread(rt, views.v[k], &bases[k - 2]);
  tn_prepared *call = NULL;
  const tn_preparation what = {.struct_size = sizeof what,
                               .op = op,
                               .params = params,
                               .inputs = {views.n, views.v},
                               .outputs = {1, &views.v[0], NULL}};
  if (prepared) OK(tn_call_prepare(rt, &what, &call));
  for (int i = 0; i < STEPS; ++i) {
    OK(tn_call(rt, op, &(tn_inputs){dense.n, dense.v}, params,
               &(tn_outputs){1, &dense.v[0], NULL}));
    if (prepared)
      OK(tn_call_run(call));
    else
      OK(tn_call(rt, op, &what.inputs, params, &what.outputs));
  }
  tn_prepared_release(call);
  for (size_t k = 0; k < views.n; ++k) {
    double want[HOST_MAX];
    (void)host_values(dense.v[k], want);
    host_expect(views.v[k], want, N, 0);
  }
  for (size_t k = 2; k < views.n; ++k) others_are_five(bases[k - 2]);
  tn_params_release(params);
  drop(&dense), drop(&views);
}

Test(optim, states_may_be_views) {
  tn_runtime *rt = host_open();
  for (size_t i = 0; i < N_CASES; ++i) {
    check_views(rt, &cases[i], false);
    check_views(rt, &cases[i], true);
  }
  tn_runtime_release(rt);
}

static void check_prepared(tn_runtime *rt, const optim_case *c) {
  tn_operator *op = host_operator(rt, c->op);
  operands o = operands_of(rt, c, has_copy(c) ? TN_F16 : TN_F64);
  tn_prepared *call = NULL;
  char text[300];
  (void)snprintf(text, sizeof text, "lr=77 %s", c->params);
  tn_params *params = host_params(op, text);
  const tn_preparation what = {.struct_size = sizeof what,
                               .op = op,
                               .params = params,
                               .inputs = {o.n, o.v},
                               .outputs = {1, &o.v[0], NULL}};
  OK(tn_call_prepare(rt, &what, &call));
  for (int i = 0; i < STEPS; ++i) {
    (void)snprintf(text, sizeof text, "%.17g", c->rates[i]);
    const tn_value rate = tn_value_text("lr", text);
    const tn_value step = tn_value_int("step", i + 1);
    OK(tn_call_set(call, &rate));
    if (strstr(c->params, "step=1")) OK(tn_call_set(call, &step));
    set_gradient(rt, &o, c->gradients[i]);
    OK(tn_call_run(call));
  }
  expect(c, &o, has_copy(c) ? 1e-3 : 1e-13);
  tn_prepared_release(call);
  tn_params_release(params);
  drop(&o);
}

Test(optim, three_steps_are_those_of_torch_and_numpy) {
  tn_runtime *rt = host_open();
  for (size_t i = 0; i < N_CASES; ++i) {
    const int halves = has_copy(&cases[i]);
    check_calls(rt, &cases[i], halves ? TN_F16 : TN_F64, halves ? 1e-3 : 1e-13);
    check_calls(rt, &cases[i], halves ? TN_BF16 : TN_F32, halves ? 5e-3 : 2e-5);
  }
  tn_runtime_release(rt);
}

Test(optim, a_prepared_step_takes_new_rates_and_numbers) {
  tn_runtime *rt = host_open();
  for (size_t i = 0; i < N_CASES; ++i) check_prepared(rt, &cases[i]);
  tn_runtime_release(rt);
}

/* ------------------------------------------------------ sizes and workers */

enum { LARGE = 100003 };

/* The weights after a step of Adam on so many workers. */
static float *step_on(uint32_t workers, uint64_t mask) {
  tn_runtime *rt = NULL;
  const tn_options options = {
      .struct_size = sizeof options, .workers = workers, .cpu_mask = mask};
  OK(tn_runtime_create(&options, &rt));
  OK(tn_plugin_load(rt, PLUGIN_FILE));
  const tn_spec spec = {TN_F32, 1, (int64_t[]){LARGE}};
  float *values = malloc(sizeof *values * LARGE);
  tn_array *v[4] = {NULL};
  for (int k = 0; k < 4; ++k) {
    for (int i = 0; i < LARGE; ++i)
      values[i] = k < 2 ? (float)(i % 97 - 40 + k) : 0;
    OK(tn_array_create(rt, &spec, &v[k]));
    OK(tn_array_set(v[k], values, sizeof *values * LARGE));
  }
  tn_operator *op = host_operator(rt, "optim.adam_update");
  tn_params *params = host_params(op, "lr=0.5 step=1 epsilon=0.125");
  OK(tn_call(rt, op, &(tn_inputs){4, v}, params,
             &(tn_outputs){1, &v[0], NULL}));
  OK(tn_array_get(v[0], values, sizeof *values * LARGE));
  for (int k = 0; k < 4; ++k) tn_array_release(v[k]);
  tn_params_release(params);
  tn_runtime_release(rt);
  return values;
}

/* The first step is lr*g/(|g| + epsilon). */
Test(optim, every_element_of_a_large_weight_makes_its_step) {
  float *one = step_on(1, 0), *two = step_on(2, 0), *eight = step_on(8, 0);
  float *plain = step_on(1, TN_CPU_AVX512 | TN_CPU_AVX2 | TN_CPU_FMA);
  for (int i = 0; i < LARGE; ++i) {
    const double w = i % 97 - 40, g = w + 1;
    const double want = w - 0.5 * g / (fabs(g) + 0.125);
    cr_assert_float_eq(one[i], want, 1e-4, "element %d: %g", i, (double)one[i]);
    cr_assert_float_eq(plain[i], want, 1e-4, "element %d", i);
  }
  cr_assert_eq(memcmp(one, two, sizeof *one * LARGE), 0);
  cr_assert_eq(memcmp(one, eight, sizeof *one * LARGE), 0);
  free(one), free(two), free(eight), free(plain);
}

/* ---------------------------------------------------------------- mistakes */

Test(optim, invalid_steps_are_reported) {
  tn_runtime *rt = host_open();
  tn_params *none = NULL;
  tn_operator *adam = host_operator(rt, "optim.adam_update");
  FAILS(tn_params_parse(host_operator(rt, "optim.ftrl_update"), "lr=0", &none),
        TN_OUT_OF_RANGE, "lr");
  FAILS(tn_params_parse(adam, "", &none), TN_INVALID, "lr");
  FAILS(tn_params_parse(adam, "lr=1 beta1=1.5", &none), TN_OUT_OF_RANGE,
        "beta1");
  FAILS(tn_params_parse(adam, "lr=1 step=-1", &none), TN_OUT_OF_RANGE, "step");
  const double ones[3] = {1, 1, 1};
  tn_array *two = host_array(rt, TN_F32, (host_shape){1, {2}}, ones);
  tn_array *three = host_array(rt, TN_F32, (host_shape){1, {3}}, ones);
  tn_params *params = host_params(adam, "lr=1");
  tn_array *out = NULL;
  FAILS(tn_call(rt, adam, TN_IN(two, three, two, two), params, TN_OUT(&out)),
        TN_SHAPE, "gradient");
  tn_array_release(two), tn_array_release(three);
  tn_params_release(params);
  tn_runtime_release(rt);
}

/* Nothing has been seen of a weight: 0, and not the quotient of zeros. */
Test(optim, ftrl_leaves_weights_without_gradients_at_0) {
  tn_runtime *rt = host_open();
  const double zeros[2] = {0, 0};
  tn_operator *op = host_operator(rt, "optim.ftrl_update");
  tn_params *params = host_params(op, "lr=1 beta=0 wd=0");
  tn_array *v[4];
  for (int k = 0; k < 4; ++k)
    v[k] = host_array(rt, TN_F32, (host_shape){1, {2}}, zeros);
  OK(tn_call(rt, op, &(tn_inputs){4, v}, params,
             &(tn_outputs){1, &v[0], NULL}));
  host_expect(v[0], zeros, 2, 0);
  for (int k = 0; k < 4; ++k) tn_array_release(v[k]);
  tn_params_release(params);
  tn_runtime_release(rt);
}

/* The weights after 64 steps of 2^-13 from 1, in half precision. */
static void creep(tn_runtime *rt, const char *name, double want) {
  const double ones[2] = {1, 1}, wants[2] = {want, want};
  tn_operator *op = host_operator(rt, name);
  tn_params *params = host_params(op, "lr=0.0001220703125");
  const size_t n = strcmp(name, "optim.sgd_update") == 0 ? 2 : 3;
  tn_array *v[3] = {NULL};
  for (size_t k = 0; k < n; ++k)
    v[k] = host_array(rt, k < 2 ? TN_F16 : TN_F32, (host_shape){1, {2}}, ones);
  for (int i = 0; i < 64; ++i)
    OK(tn_call(rt, op, &(tn_inputs){n, v}, params,
               &(tn_outputs){1, &v[0], NULL}));
  host_expect(v[0], wants, 2, 0);
  for (size_t k = 0; k < n; ++k) tn_array_release(v[k]);
  tn_params_release(params);
}

/* 1 less 2^-13 is 1 in f16, but 1 less 2^-7 is not. */
Test(optim, steps_too_short_for_the_type_of_a_weight_add_up) {
  tn_runtime *rt = host_open();
  creep(rt, "optim.sgd_update", 1);
  creep(rt, "optim.mp_sgd_update", 1 - 0x1p-7);
  tn_runtime_release(rt);
}

/* The variance of one gradient is 0, up to the rounding of its square. Negative
 * rounding errors must not reach the root. */
Test(optim, a_gradient_that_does_not_vary_gives_a_number) {
  static const double zeros[N];
  const double slopes[N] = {100.1, 7.3, 3.7, 11.9, 1e3 / 3, 0.7, 13.1, 57.7};
  const double *const values[] = {zeros, slopes, zeros, zeros, zeros};
  tn_runtime *rt = host_open();
  tn_operator *op = host_operator(rt, "optim.rmspropalex_update");
  tn_params *params = host_params(op, "lr=0.5 gamma1=0");
  tn_array *v[5];
  double got[HOST_MAX];
  for (int k = 0; k < 5; ++k)
    v[k] = host_array(rt, TN_F32, (host_shape){1, {N}}, values[k]);
  OK(tn_call(rt, op, &(tn_inputs){5, v}, params,
             &(tn_outputs){1, &v[0], NULL}));
  (void)host_values(v[0], got);
  for (int i = 0; i < N; ++i)
    cr_assert(got[i] < 0 && isfinite(got[i]), "element %d is %g", i, got[i]);
  for (int k = 0; k < 5; ++k) tn_array_release(v[k]);
  tn_params_release(params);
  tn_runtime_release(rt);
}
