/* SPDX-License-Identifier: Apache-2.0
 * windows.c: see windows.h.
 */
#include "windows.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int64_t windows_size(const windows_operand *o) {
  int64_t n = 1;
  for (int32_t d = 0; d < o->ndim; ++d) n *= o->dims[d];
  return n;
}

const char *windows_place;

/* The array where windows_place says. */
static tn_array *placed(tn_runtime *rt, tn_array *array) {
  tn_array *there = NULL;
  tn_place place;
  if (!windows_place) return array;
  OK(tn_place_parse(rt, windows_place, &place));
  OK(tn_array_to(array, place, &there));
  tn_array_release(array);
  return there;
}

/* An operand without values is absent, unless it has no elements. */
static bool is_absent(const windows_operand *o) {
  return !o->v && windows_size(o) != 0;
}

static tn_array *array_of(tn_runtime *rt, tn_dtype dtype,
                          const windows_operand *o) {
  if (is_absent(o)) return NULL;
  return placed(rt, host_many(rt, dtype, o->ndim, o->dims, o->v));
}

/* Ones in the shape of an operand. */
static tn_array *ones_of(tn_runtime *rt, tn_dtype dtype,
                         const windows_operand *o) {
  const int64_t n = windows_size(o);
  double *v = malloc(((size_t)n + 1) * sizeof *v);
  cr_assert_not_null(v);
  for (int64_t i = 0; i < n; ++i) v[i] = 1;
  tn_array *array = host_many(rt, dtype, o->ndim, o->dims, v);
  free(v);
  return placed(rt, array);
}

/* The array, or a copy of it on the cpu; the caller releases it. */
static tn_array *on_the_host(tn_runtime *rt, tn_array *array) {
  tn_array *here = NULL;
  tn_place place;
  OK(tn_place_parse(rt, "cpu", &place));
  OK(tn_array_to(array, place, &here));
  return here;
}

/* The name of the check, for messages. */
typedef struct subject {
  tn_runtime *rt;
  const windows_case *c;
  tn_dtype dtype;
  const char *what;
  double old; /* added to the expected values */
  double tolerance;
} subject;

static void expect(const subject *s, tn_array *given,
                   const windows_operand *want) {
  tn_array *array = on_the_host(s->rt, given);
  const tn_tensor *got = tn_array_tensor(array);
  cr_assert_eq(got->ndim, want->ndim, "%s %s: %s", s->c->op, s->c->params,
               s->what);
  for (int32_t d = 0; d < got->ndim; ++d)
    cr_assert_eq(got->shape[d], want->dims[d], "%s %s: %s: %lld", s->c->op,
                 s->c->params, s->what, (long long)got->shape[d]);
  double *v = host_many_values(array);
  for (int64_t i = 0; i < windows_size(want); ++i) {
    const double x = want->v[i] + s->old;
    if (v[i] == x || (v[i] != v[i] && x != x)) continue;
    cr_assert(fabs(v[i] - x) <= s->tolerance * fmax(1, fabs(x)),
              "%s %s: %s in type %x, element %lld: %.17g, not %.17g", s->c->op,
              s->c->params, s->what, s->dtype, (long long)i, v[i], x);
  }
  free(v);
  tn_array_release(array);
}

/* A case with its arrays. */
typedef struct ready {
  tn_runtime *rt;
  tn_operator *op;
  tn_params *params;
  tn_array *in[WINDOWS_IN];
  size_t n_out; /* with a hidden output, if there is one */
  tn_array *out[2];
  tn_array *heads[2];
} ready;

static void backward(ready *r, size_t n, tn_array **grads, const tn_req *req) {
  OK(tn_call_backward(r->rt, r->op,
                      &(tn_backward){.struct_size = sizeof(tn_backward),
                                     .params = r->params,
                                     .inputs = {n, r->in},
                                     .outputs = {r->n_out, r->out},
                                     .out_grads = {r->n_out, r->heads},
                                     .in_grads = {n, grads, req}}));
}

static void check_gradients(ready *r, subject *s) {
  const windows_case *c = s->c;
  tn_array *grads[WINDOWS_IN] = {NULL};
  tn_req req[WINDOWS_IN] = {TN_REQ_NULL};
  for (size_t i = 0; i < c->n_grads; ++i)
    req[i] = is_absent(&c->grads[i]) ? TN_REQ_NULL : TN_REQ_WRITE;
  s->what = "all gradients";
  backward(r, c->n_in, grads, req);
  for (size_t i = 0; i < c->n_grads; ++i)
    if (!is_absent(&c->grads[i])) expect(s, grads[i], &c->grads[i]);
  for (size_t i = 0; i < WINDOWS_IN; ++i) tn_array_release(grads[i]);
  s->what = "a gradient alone, added to ones";
  s->old = 1;
  for (size_t i = 0; i < c->n_grads; ++i) {
    tn_array *alone[WINDOWS_IN] = {NULL};
    if (is_absent(&c->grads[i])) continue;
    memset(req, 0, sizeof req);
    req[i] = TN_REQ_ADD;
    alone[i] = ones_of(r->rt, s->dtype, &c->grads[i]);
    backward(r, c->n_in, alone, req);
    expect(s, alone[i], &c->grads[i]);
    tn_array_release(alone[i]);
  }
}

void windows_check(tn_runtime *rt, const windows_case *c, tn_dtype dtype,
                   double tolerance) {
  ready r = {.rt = rt, .op = host_operator(rt, c->op)};
  subject s = {rt, c, dtype, "out", 0, tolerance};
  const tn_req add[] = {TN_REQ_ADD, TN_REQ_NULL};
  r.params = host_params(r.op, c->params);
  r.n_out = tn_operator_desc(r.op)->n_outputs;
  cr_assert_leq(r.n_out, 2);
  for (size_t i = 0; i < c->n_in; ++i) r.in[i] = array_of(rt, dtype, &c->in[i]);
  r.heads[0] = array_of(rt, dtype, &c->head);
  OK(tn_call(rt, r.op, &(tn_inputs){c->n_in, r.in}, r.params,
             &(tn_outputs){r.n_out, r.out, NULL}));
  expect(&s, r.out[0], &c->out);
  if (c->n_grads > 0) check_gradients(&r, &s);
  tn_array *sum[] = {ones_of(rt, dtype, &c->out), NULL};
  OK(tn_call(rt, r.op, &(tn_inputs){c->n_in, r.in}, r.params,
             &(tn_outputs){r.n_out, sum, add}));
  s.what = "out, added to ones";
  s.old = 1;
  expect(&s, sum[0], &c->out);
  for (size_t i = 0; i < c->n_in; ++i) tn_array_release(r.in[i]);
  for (size_t i = 0; i < 2; ++i)
    tn_array_release(r.out[i]), tn_array_release(sum[i]);
  tn_array_release(r.heads[0]);
  tn_params_release(r.params);
}
