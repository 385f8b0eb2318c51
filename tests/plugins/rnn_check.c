/* SPDX-License-Identifier: Apache-2.0
 * rnn_check.c: see rnn_check.h. The cases are those of tests/reference/rnn.py.
 */
#include "rnn_check.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

enum { MOST = 96 };

typedef struct values {
  host_shape shape;
  double v[MOST];
} values;

typedef struct rnn_case {
  const char *params;
  size_t n_in;
  size_t n_out; /* the third output is empty unless the mode is lstm */
  values in[4];
  values out[3];
  values heads[3];
  values grads[4];
} rnn_case;

static const rnn_case rnn_cases[] = {
#include "rnn_cases.inc"
};

void rnn_expect(tn_array *array, const double *want, double tolerance,
                const char *name) {
  double *got = host_near_values(array);
  for (int64_t i = 0; i < tn_array_size(array); ++i)
    cr_assert(fabs(got[i] - want[i]) <= tolerance * fmax(1, fabs(want[i])),
              "%s, element %lld: %.17g, not %.17g", name, (long long)i, got[i],
              want[i]);
  free(got);
}

/* Where a case is made. */
typedef struct target {
  tn_runtime *rt;
  tn_place place;
  tn_dtype dtype;
} target;

static tn_array *array_of(const target *t, const values *x) {
  tn_array *out = NULL;
  tn_array *host =
      host_many(t->rt, t->dtype, x->shape.ndim, x->shape.dims, x->v);
  OK(tn_array_to(host, t->place, &out));
  tn_array_release(host);
  return out;
}

static void check_case(const target *t, const rnn_case *c, double tolerance) {
  tn_operator *op = host_operator(t->rt, "nn.rnn");
  tn_params *params = host_params(op, c->params);
  tn_array *in[4] = {NULL}, *out[3] = {NULL}, *heads[3] = {NULL};
  tn_array *grads[4] = {NULL};
  tn_tape *tape = NULL;
  OK(tn_tape_create(t->rt, &tape));
  for (size_t i = 0; i < c->n_in; ++i) {
    in[i] = array_of(t, &c->in[i]);
    OK(tn_tape_watch(tape, in[i]));
  }
  OK(tn_tape_call(tape, op, &(tn_inputs){c->n_in, in}, params,
                  &(tn_outputs){3, out, NULL}));
  for (size_t i = 0; i < c->n_out; ++i) {
    rnn_expect(out[i], c->out[i].v, tolerance, c->params);
    heads[i] = array_of(t, &c->heads[i]);
  }
  OK(tn_tape_gradient(tape,
                      &(tn_tape_query){.struct_size = sizeof(tn_tape_query),
                                       .heads = {c->n_out, out},
                                       .head_gradients = {c->n_out, heads},
                                       .of = {c->n_in, in},
                                       .gradients = {c->n_in, grads, NULL}}));
  for (size_t i = 0; i < c->n_in; ++i)
    rnn_expect(grads[i], c->grads[i].v, tolerance, c->params);
  for (size_t i = 0; i < 4; ++i)
    tn_array_release(in[i]), tn_array_release(grads[i]);
  for (size_t i = 0; i < 3; ++i)
    tn_array_release(out[i]), tn_array_release(heads[i]);
  tn_tape_release(tape);
  tn_params_release(params);
}

void rnn_check(tn_runtime *rt, tn_place place, tn_dtype dtype,
               double tolerance) {
  const target t = {rt, place, dtype};
  for (size_t i = 0; i < sizeof rnn_cases / sizeof *rnn_cases; ++i)
    check_case(&t, &rnn_cases[i], tolerance);
}
