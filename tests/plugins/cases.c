/* SPDX-License-Identifier: Apache-2.0
 * cases.c: see cases.h.
 */
#include "cases.h"

#include <stdlib.h>

typedef struct operands {
  size_t n;
  host_operand v[5];
} operands;

typedef struct written_case {
  const char *op;
  const char *params;
  uint32_t flags;
  operands in;
  operands aux;
  operands out;
  operands after; /* of the states */
  operands heads;
  operands grads; /* of the first inputs */
} written_case;

static const written_case all_cases[] = {
#include CASES_FILE
};

/* ------------------------------------------------------------------- calls */

void cases_forward(tn_runtime *rt, cases_call *c) {
  tn_operator *op = host_operator(rt, c->op);
  tn_params *params = host_params(op, c->params);
  const tn_inputs in = {c->n_in, c->in};
  const tn_outputs out = {c->n_out, c->out, NULL};
  if (c->flags & TN_CALL_TRAIN)
    OK(tn_call_train(rt, op, &in, params, &out));
  else
    OK(tn_call(rt, op, &in, params, &out));
  tn_params_release(params);
}

void cases_backward(tn_runtime *rt, cases_call *c) {
  tn_operator *op = host_operator(rt, c->op);
  tn_params *params = host_params(op, c->params);
  OK(tn_call_backward(
      rt, op,
      &(tn_backward){.struct_size = sizeof(tn_backward),
                     .flags = c->flags,
                     .params = params,
                     .inputs = {c->n_in, c->in},
                     .outputs = {c->n_out, c->out},
                     .out_grads = {c->n_out, c->heads},
                     .in_grads = {c->n_in - c->n_aux, c->grads, c->req}}));
  tn_params_release(params);
}

void cases_release(cases_call *c) {
  for (size_t i = 0; i < 8; ++i) {
    tn_array_release(c->in[i]), tn_array_release(c->grads[i]);
    c->in[i] = c->grads[i] = NULL;
  }
  for (size_t i = 0; i < 4; ++i) {
    tn_array_release(c->out[i]), tn_array_release(c->heads[i]);
    c->out[i] = c->heads[i] = NULL;
  }
}

/* ------------------------------------------------------------------- cases */

/* A type and the tolerance of its numbers. */
typedef struct precision {
  tn_dtype dtype;
  double tolerance;
  const char *name;
} precision;

static void expect(tn_array *array, const host_operand *want,
                   const written_case *c, const precision *p) {
  double got[HOST_MAX];
  host_expect_shape(array, &want->shape, c->op, c->params);
  const int64_t n = host_values(array, got);
  for (int64_t i = 0; i < n; ++i)
    cr_assert(
        fabs(got[i] - want->v[i]) <= p->tolerance * fmax(1, fabs(want->v[i])),
        "%s %s in %s, element %lld: %.17g, not %.17g", c->op, c->params,
        p->name, (long long)i, got[i], want->v[i]);
}

static void make_arrays(tn_runtime *rt, const operands *list, tn_dtype dtype,
                        tn_array **to) {
  for (size_t i = 0; i < list->n; ++i)
    to[i] = host_array(rt, dtype, list->v[i].shape, list->v[i].v);
}

static void check(tn_runtime *rt, const written_case *c, const precision *p) {
  cases_call call = {.op = c->op,
                     .params = c->params,
                     .flags = c->flags,
                     .n_in = c->in.n + c->aux.n,
                     .n_aux = c->aux.n,
                     .n_out = c->out.n};
  make_arrays(rt, &c->in, p->dtype, call.in);
  make_arrays(rt, &c->aux, p->dtype, call.in + c->in.n);
  make_arrays(rt, &c->heads, p->dtype, call.heads);
  for (size_t i = 0; i < c->in.n; ++i)
    call.req[i] = i < c->grads.n ? TN_REQ_WRITE : TN_REQ_NULL;
  cases_forward(rt, &call);
  for (size_t i = 0; i < c->out.n; ++i) expect(call.out[i], &c->out.v[i], c, p);
  for (size_t i = 0; i < c->after.n; ++i)
    expect(call.in[c->in.n + i], &c->after.v[i], c, p);
  if (c->grads.n > 0) cases_backward(rt, &call);
  for (size_t i = 0; i < c->grads.n; ++i)
    expect(call.grads[i], &c->grads.v[i], c, p);
  cases_release(&call);
}

void cases_check(tn_runtime *rt, const char *op, int least) {
  static const precision types[] = {{TN_F64, 1e-12, "f64"},
                                    {TN_F32, 4e-6, "f32"},
                                    {TN_F16, 6e-3, "f16"},
                                    {TN_BF16, 5e-2, "bf16"}};
  int found = 0;
  for (size_t i = 0; i < sizeof all_cases / sizeof *all_cases; ++i) {
    if (strcmp(all_cases[i].op, op) != 0) continue;
    ++found;
    for (size_t k = 0; k < sizeof types / sizeof *types; ++k)
      check(rt, &all_cases[i], &types[k]);
  }
  cr_assert_geq(found, least, "%s: %d cases", op, found);
}

/* ------------------------------------------------------------------ arrays */

tn_array *cases_array(tn_runtime *rt, tn_dtype dtype, int32_t ndim,
                      const int64_t *dims, double (*value)(int64_t i)) {
  tn_array *wide = NULL, *array = NULL;
  OK(tn_array_create(rt, &(tn_spec){TN_F64, ndim, dims}, &wide));
  const size_t n = (size_t)tn_array_size(wide);
  double *values = malloc((n + 1) * sizeof *values);
  cr_assert_not_null(values);
  for (size_t i = 0; i < n; ++i) values[i] = value((int64_t)i);
  OK(tn_array_set(wide, values, n * sizeof *values));
  OK(tn_array_cast(wide, dtype, &array));
  tn_array_release(wide);
  free(values);
  return array;
}

double cases_noise(int64_t i) {
  const uint64_t x = (uint64_t)i * 0x9e3779b97f4a7c15u;
  return (double)((x ^ x >> 29) * 0xbf58476d1ce4e5b9u >> 44) / 0x1p18 - 2;
}

double *cases_values(tn_array *array) {
  tn_array *wide = NULL;
  OK(tn_array_cast(array, TN_F64, &wide));
  const size_t n = (size_t)tn_array_size(wide);
  double *values = malloc((n + 1) * sizeof *values);
  cr_assert_not_null(values);
  OK(tn_array_get(wide, values, n * sizeof *values));
  tn_array_release(wide);
  return values;
}

/* Products of numbers of 11 bits are exact in doubles. */
static void expect_products(tn_runtime *rt, tn_array *a, tn_array *b,
                            tn_array *array) {
  const int64_t n = tn_array_size(array);
  double *x = cases_values(a), *y = cases_values(b);
  for (int64_t i = 0; i < n; ++i) x[i] *= y[i];
  tn_array *rounded = host_many(rt, tn_array_tensor(array)->dtype, 1, &n, x);
  double *want = cases_values(rounded), *have = cases_values(array);
  for (int64_t i = 0; i < n; ++i)
    cr_assert(want[i] >= have[i] && want[i] <= have[i], "%lld: %.9g, not %.9g",
              (long long)i, have[i], want[i]);
  tn_array_release(rounded);
  free(x), free(y), free(want), free(have);
}

void cases_expect_factor(tn_runtime *rt, cases_call *c) {
  cases_forward(rt, c);
  cases_backward(rt, c);
  expect_products(rt, c->in[0], c->out[1], c->out[0]);
  expect_products(rt, c->heads[0], c->out[1], c->grads[0]);
  cases_release(c);
}

/* ---------------------------------------------------------- threads, levels */

/* Every number of a call: outputs, states, gradients. */
typedef struct record {
  double *values[16];
  int64_t n[16];
} record;

static void keep(record *r, size_t at, tn_array *array) {
  r->values[at] = array ? cases_values(array) : NULL;
  r->n[at] = array ? tn_array_size(array) : 0;
}

static record record_of(uint32_t workers, uint64_t mask,
                        void (*make)(tn_runtime *rt, cases_call *c)) {
  const tn_options options = {
      .struct_size = sizeof options, .workers = workers, .cpu_mask = mask};
  record r = {{NULL}, {0}};
  cases_call c = {0};
  tn_runtime *rt = NULL;
  OK(tn_runtime_create(&options, &rt));
  OK(tn_plugin_load(rt, PLUGIN_FILE));
  make(rt, &c);
  cases_forward(rt, &c);
  if (c.heads[0]) cases_backward(rt, &c);
  for (size_t i = 0; i < c.n_out; ++i) keep(&r, i, c.out[i]);
  for (size_t i = 0; i < c.n_aux; ++i)
    keep(&r, 4 + i, c.in[c.n_in - c.n_aux + i]);
  for (size_t i = 0; i < c.n_in - c.n_aux; ++i) keep(&r, 8 + i, c.grads[i]);
  cases_release(&c);
  tn_runtime_release(rt);
  return r;
}

static void record_free(record *r) {
  for (size_t i = 0; i < 16; ++i) free(r->values[i]);
}

static void compare(const record *a, const record *b, double tolerance) {
  for (size_t k = 0; k < 16; ++k) {
    cr_assert_eq(a->n[k], b->n[k]);
    for (int64_t i = 0; i < a->n[k]; ++i) {
      const double x = a->values[k][i], y = b->values[k][i];
      const double limit = tolerance * fmax(1, fabs(x));
      cr_assert(memcmp(&x, &y, sizeof x) == 0 || fabs(x - y) <= limit,
                "array %zu, element %lld: %.17g and %.17g", k, (long long)i, x,
                y);
    }
  }
}

void cases_same_for_all_threads(void (*make)(tn_runtime *rt, cases_call *c)) {
  static const uint64_t masks[] = {0, TN_CPU_AVX512,
                                   TN_CPU_AVX512 | TN_CPU_AVX2};
  record first = record_of(1, 0, make);
  for (size_t m = 0; m < 3; ++m) {
    record one = record_of(1, masks[m], make);
    compare(&first, &one, 1e-5);
    for (uint32_t workers = 2; workers <= 5; workers += 3) {
      record some = record_of(workers, masks[m], make);
      compare(&one, &some, 0);
      record_free(&some);
    }
    record_free(&one);
  }
  record_free(&first);
}
