/* SPDX-License-Identifier: Apache-2.0
 * test_example.h: a part of test.h: the cases of one example, for every
 * combination of element types, on every device, in every layout and with every
 * request.
 */
#ifndef TENON_TEST_EXAMPLE_H_
#define TENON_TEST_EXAMPLE_H_

enum { TN_TEST_MAX_VARS = 8 };

/* An example with an element type for each of its operands. */
typedef struct tn_test_kit {
  tn_test *t;
  tn_operator *op;
  const tn_op *desc;
  const tn_test_example *example;
  const char *op_name;
  tn_params *params;
  tn_test_list in, aux, out, out_grads, in_grads;
  tn_dtype types[TN_TEST_MAX_VARS]; /* of the type variables */
  char types_text[64];
  tn_signature io;
  tn_sig sigs[3][TN_TEST_MAX]; /* by TN_OPERAND_* */
  bool is_fixed;               /* shapes of outputs are known before a call */
  tn_place place;
  const char *place_name;
} tn_test_kit;

typedef enum tn_test_request {
  TN_TEST_NEW,     /* into new arrays */
  TN_TEST_WRITE,   /* into given ones that hold something else */
  TN_TEST_ADD,     /* to what is there */
  TN_TEST_INPLACE, /* into the memory of an input */
  TN_TEST_NULL     /* one of them is not wanted */
} tn_test_request;

static const char *const tn_test_request_names[] = {"new", "write", "add",
                                                    "inplace", "null"};

/* One case; `which` is the output that is in place or not wanted. */
typedef struct tn_test_case {
  tn_test_layout layout;
  tn_test_request request;
  size_t which;
} tn_test_case;

/* Types that a variable of the operator may be, of those that the kernel that
 * is tried takes. */
static uint64_t tn_test_allowed(const tn_test_kit *k, uint32_t var) {
  const uint64_t allowed = k->desc->dtype_vars[var]->allowed;
  const tn_kernel *only = k->t->only;
  if (only == NULL || var >= only->n_dtype_sets || only->dtype_sets[var] == 0)
    return allowed;
  return allowed & only->dtype_sets[var];
}

/* Whether calls are made on devices of the type. */
static bool tn_test_tries(const tn_test *t, int32_t device_type) {
  return t->only == NULL || t->only->device_type == device_type;
}

static const tn_arg *tn_test_arg(const tn_arg *const *args, uint32_t n,
                                 size_t i) {
  return args[i < n ? i : n - 1];
}

/* ------------------------------------------------------------------- arrays */

/* A dense array of a signature on the kit's device, each element `value`. */
static tn_code tn_test_filled(const tn_test_kit *k, const tn_sig *sig,
                              tn_test_layout layout, double value,
                              tn_array **out) {
  tn_test_values one = {.n = 1, .v = &value};
  const tn_spec spec = {sig->dtype, sig->ndim, sig->shape};
  tn_array *dense = NULL, *number = NULL, *all = NULL;
  tn_code rc = tn_array_create_on(k->t->rt, &spec, k->place, &dense);
  rc = tn_test_keep(k->t, rc, dense);
  if (rc == TN_OK) rc = tn_test_empty(k->t, dense, layout, out);
  if (rc == TN_OK) rc = tn_test_array(k->t, sig->dtype, &one, &number);
  if (rc == TN_OK)
    rc = tn_test_lay(k->t, number, k->place, TN_TEST_DENSE, &number);
  if (rc == TN_OK) rc = tn_array_broadcast(number, sig->ndim, sig->shape, &all);
  rc = tn_test_keep(k->t, rc, all);
  return rc == TN_OK ? tn_array_copy(*out, all) : rc;
}

/* That of operand `i` of a list of inputs. */
static tn_test_layout tn_test_layout_of(tn_test_layout layout, size_t i) {
  return layout == TN_TEST_COLUMNS && i % 2 == 1 ? TN_TEST_DENSE : layout;
}

/* Arrays of a list; NULL for what is not given. */
static tn_code tn_test_arrays(const tn_test_kit *k, const tn_test_list *list,
                              const tn_sig *sigs, tn_test_layout layout,
                              tn_array **out) {
  tn_code rc = TN_OK;
  for (size_t i = 0; i < list->n && rc == TN_OK; ++i) {
    tn_array *array = NULL;
    out[i] = NULL;
    if (list->v[i].v == NULL) continue;
    rc = tn_test_array(k->t, sigs[i].dtype, &list->v[i], &array);
    if (rc == TN_OK)
      rc = tn_test_lay(k->t, array, k->place, tn_test_layout_of(layout, i),
                       &out[i]);
  }
  return rc;
}

/* Inputs with the auxiliary states behind them, which are not what repeats
 * elements. */
static tn_code tn_test_inputs(const tn_test_kit *k, tn_test_layout layout,
                              tn_array **out) {
  const tn_test_layout own =
      layout == TN_TEST_REPEATED ? TN_TEST_DENSE : layout;
  tn_code rc = tn_test_arrays(k, &k->in, k->sigs[TN_OPERAND_IN], layout, out);
  if (rc == TN_OK)
    rc =
        tn_test_arrays(k, &k->aux, k->sigs[TN_OPERAND_AUX], own, out + k->in.n);
  return rc;
}

/* ----------------------------------------------------------- forward calls */

/* Operands of one call. */
typedef struct tn_test_call {
  tn_array *in[2 * TN_TEST_MAX];
  tn_array *out[TN_TEST_MAX];
  tn_req req[TN_TEST_MAX];
  double offset[TN_TEST_MAX]; /* what outputs held before an addition */
} tn_test_call;

/* 1, or 0 where a sum would not fit. */
static double tn_test_offset(const tn_test_kit *k, tn_dtype dtype,
                             const tn_test_values *want) {
  if (tn_test_is_float(dtype)) return 1;
  if (dtype == TN_BOOL || want->v == NULL) return 0;
  for (size_t i = 0; i < want->n; ++i) {
    double sum = want->v[i] + 1;
    const tn_test_values one = {.n = 1, .v = &sum};
    bool holds = false;
    if (tn_test_holds(k->t, dtype, &one, &holds) != TN_OK || !holds) return 0;
  }
  return 1;
}

/* Outputs (or gradients) as the case asks for them; in place is the caller's.
 */
static tn_code tn_test_outputs(const tn_test_kit *k, const tn_test_case *c,
                               const tn_test_list *list, const tn_sig *sigs,
                               tn_test_call *call) {
  const tn_test_layout layout =
      c->layout == TN_TEST_COLUMNS ? TN_TEST_DENSE : c->layout;
  tn_code rc = TN_OK;
  for (size_t i = 0; i < list->n && rc == TN_OK; ++i) {
    const bool skipped = c->request == TN_TEST_NULL && i == c->which;
    const bool added = c->request == TN_TEST_ADD;
    if (sigs[i].dtype == TN_DTYPE_UNKNOWN) continue; /* an input not given */
    call->req[i] = skipped ? TN_REQ_NULL : added ? TN_REQ_ADD : TN_REQ_WRITE;
    if (added) call->offset[i] = tn_test_offset(k, sigs[i].dtype, &list->v[i]);
    if (!skipped && !added && c->request != TN_TEST_WRITE) continue;
    rc = tn_test_filled(k, &sigs[i], layout, added ? call->offset[i] : 7,
                        &call->out[i]);
  }
  return rc;
}

/* Makes the call. New outputs are kept until the case ends. */
static tn_code tn_test_call_forward(const tn_test_kit *k, tn_test_call *call) {
  const tn_inputs in = {k->in.n + k->aux.n, call->in};
  const tn_outputs out = {k->out.n, call->out, call->req};
  bool given[TN_TEST_MAX];
  for (size_t i = 0; i < k->out.n; ++i) given[i] = call->out[i] != NULL;
  tn_code rc = tn_random_seed(k->t->rt, k->t->seed);
  if (rc == TN_OK)
    rc = (k->example->flags & TN_CALL_TRAIN ? tn_call_train : tn_call)(
        k->t->rt, k->op, &in, k->params, &out);
  if (rc != TN_UNSUPPORTED) ++k->t->n_calls[TN_PASS_FORWARD];
  for (size_t i = 0; i < k->out.n && rc == TN_OK; ++i)
    if (!given[i] && call->out[i] != NULL)
      rc = tn_test_keep(k->t, rc, call->out[i]);
  for (size_t i = 0; i < k->out.n && rc == TN_OK; ++i)
    if (call->out[i] != NULL) rc = tn_array_wait(call->out[i]);
  return rc;
}

/* A call on fresh inputs, with every output new. */
static tn_code tn_test_call_new(const tn_test_kit *k, tn_test_layout layout,
                                tn_test_call *call) {
  const tn_test_case plain = {layout, TN_TEST_NEW, 0};
  memset(call, 0, sizeof *call);
  tn_code rc = tn_test_inputs(k, layout, call->in);
  if (rc == TN_OK)
    rc = tn_test_outputs(k, &plain, &k->out, k->sigs[TN_OPERAND_OUT], call);
  return rc == TN_OK ? tn_test_call_forward(k, call) : rc;
}

/* Whether what was not wanted still holds what it held. */
static bool tn_test_untouched(const tn_test_kit *k, const char *name,
                              tn_array *array) {
  tn_test_values got;
  const tn_dtype dtype = tn_array_tensor(array)->dtype;
  const double seven = dtype == TN_BOOL ? 1 : 7;
  const tn_code rc = tn_test_get(k->t, array, &got);
  size_t i = 0;
  while (i < got.n && got.v[i] >= seven && got.v[i] <= seven) ++i;
  const bool same = rc == TN_OK && i == got.n;
  if (rc != TN_OK)
    tn_test_fail_code(k->t, rc);
  else if (!same)
    tn_test_fail(k->t,
                 "`%s` is not wanted, but element number %zu of it was "
                 "%g and is %.17g",
                 name, i, seven, got.v[i]);
  free(got.v);
  return same;
}

/* Compares the outputs of a call (or its gradients). */
static bool tn_test_check(const tn_test_kit *k, const tn_test_list *want,
                          const tn_arg *const *args, uint32_t n_args,
                          const tn_test_call *call) {
  for (size_t i = 0; i < want->n; ++i) {
    const tn_test_match m = {tn_test_arg(args, n_args, i)->name, &want->v[i],
                             call->offset[i], k->example->tol};
    if (call->out[i] == NULL) continue;
    if (call->req[i] == TN_REQ_NULL) {
      if (!tn_test_untouched(k, m.name, call->out[i])) return false;
    } else if (want->v[i].v != NULL &&
               !tn_test_expect(k->t, &m, call->out[i])) {
      return false;
    }
  }
  return true;
}

static void tn_test_case_begin(const tn_test_kit *k, const char *what,
                               const tn_test_case *c) {
  const tn_arg *const *args =
      what[0] != '\0' ? k->desc->inputs : k->desc->outputs;
  const uint32_t n = what[0] != '\0' ? k->desc->n_inputs : k->desc->n_outputs;
  const bool named = c->request >= TN_TEST_INPLACE;
  tn_test_begin(k->t, "%s %s%s: %s, %s, %s, %s%s%s", k->op_name,
                k->example->name, what, k->types_text, k->place_name,
                tn_test_layout_names[c->layout],
                tn_test_request_names[c->request], named ? " " : "",
                named ? tn_test_arg(args, n, c->which)->name : "");
}

/* False if no kernel takes the call, so that no further case would tell more.
 */
static bool tn_test_forward(const tn_test_kit *k, const tn_test_case *c) {
  tn_test_call call;
  memset(&call, 0, sizeof call);
  tn_test_case_begin(k, "", c);
  tn_code rc = tn_test_inputs(k, c->layout, call.in);
  if (rc == TN_OK)
    rc = tn_test_outputs(k, c, &k->out, k->sigs[TN_OPERAND_OUT], &call);
  if (c->request == TN_TEST_INPLACE)
    call.out[c->which] =
        call.in[tn_test_arg(k->desc->outputs, k->desc->n_outputs, c->which)
                    ->inplace];
  if (rc == TN_OK) rc = tn_test_call_forward(k, &call);
  if (rc != TN_OK)
    tn_test_fail_code(k->t, rc);
  else if (tn_test_check(k, &k->out, k->desc->outputs, k->desc->n_outputs,
                         &call))
    tn_test_pass(k->t);
  return rc != TN_UNSUPPORTED && rc != TN_UNIMPLEMENTED;
}

/* ------------------------------------------------------ repeated elements */

static bool tn_test_can_repeat(const tn_test_kit *k) {
  for (size_t i = 0; i < k->in.n; ++i)
    if (k->in.v[i].v != NULL && k->in.v[i].ndim > 0 && k->in.v[i].shape[0] > 1)
      return true;
  return false;
}

/* What came from the views must be what comes from dense copies of them. */
static void tn_test_compare_repeated(const tn_test_kit *k,
                                     const tn_test_call *want,
                                     const tn_test_call *got) {
  bool fine = true;
  for (size_t i = 0; i < k->out.n && fine; ++i) {
    tn_test_values values;
    const tn_test_match m = {
        tn_test_arg(k->desc->outputs, k->desc->n_outputs, i)->name, &values, 0,
        k->example->tol};
    const tn_code rc = tn_test_get(k->t, want->out[i], &values);
    if (rc != TN_OK) tn_test_fail_code(k->t, rc);
    fine = rc == TN_OK && tn_test_expect(k->t, &m, got->out[i]);
    free(values.v);
  }
  if (fine) tn_test_pass(k->t);
}

static void tn_test_forward_repeated(const tn_test_kit *k) {
  const tn_test_case c = {TN_TEST_REPEATED, TN_TEST_NEW, 0};
  tn_test_call want, got;
  if (!tn_test_can_repeat(k)) return;
  tn_test_case_begin(k, "", &c);
  memset(&want, 0, sizeof want);
  tn_code rc = tn_test_inputs(k, TN_TEST_DENSE, want.in);
  for (size_t i = 0; i < k->in.n && rc == TN_OK; ++i)
    if (want.in[i] != NULL)
      rc = tn_test_repeat(k->t, want.in[i], true, &want.in[i]);
  if (rc == TN_OK) {
    for (size_t i = 0; i < k->out.n; ++i) want.req[i] = TN_REQ_WRITE;
    rc = tn_test_call_forward(k, &want);
  }
  if (rc != TN_OK) {
    tn_test_skip(k->t, tn_error_text());
    return;
  }
  rc = tn_test_call_new(k, TN_TEST_REPEATED, &got);
  if (rc != TN_OK)
    tn_test_fail_code(k->t, rc);
  else
    tn_test_compare_repeated(k, &want, &got);
}

/* --------------------------------------------------------------- gradients */

/* Makes the backward call of a forward one: `heads` are the gradients of its
 * outputs, `back->out` and `back->req` what is wanted. */
static tn_code tn_test_call_backward(const tn_test_kit *k,
                                     const tn_test_call *forward,
                                     tn_array *const *heads,
                                     tn_test_call *back) {
  bool given[TN_TEST_MAX];
  const tn_backward call = {
      .struct_size = sizeof call,
      .flags = k->example->flags,
      .params = k->params,
      .inputs = {k->in.n + k->aux.n, forward->in},
      .outputs = {k->out.n, (tn_array *const *)forward->out},
      .out_grads = {k->out.n, heads},
      .in_grads = {k->in.n, back->out, back->req}};
  for (size_t i = 0; i < k->in.n; ++i) given[i] = back->out[i] != NULL;
  tn_code rc = tn_random_seed(k->t->rt, k->t->seed);
  if (rc == TN_OK) rc = tn_gradient_call(k->t->rt, k->op, &call);
  if (rc != TN_UNSUPPORTED) ++k->t->n_calls[TN_PASS_BACKWARD];
  for (size_t i = 0; i < k->in.n && rc == TN_OK; ++i)
    if (!given[i] && back->out[i] != NULL)
      rc = tn_test_keep(k->t, rc, back->out[i]);
  for (size_t i = 0; i < k->in.n && rc == TN_OK; ++i)
    if (back->out[i] != NULL) rc = tn_array_wait(back->out[i]);
  return rc;
}

/* Whether the gradients that the example states are of floats, all of them. */
static bool tn_test_grads_are_floats(const tn_test_kit *k) {
  for (size_t i = 0; i < k->in_grads.n; ++i)
    if (k->in_grads.v[i].v != NULL &&
        !tn_test_is_float(k->sigs[TN_OPERAND_IN][i].dtype))
      return false;
  return true;
}

static bool tn_test_backward(const tn_test_kit *k, const tn_test_case *c) {
  tn_test_call forward, back;
  tn_array *heads[TN_TEST_MAX] = {NULL};
  memset(&back, 0, sizeof back);
  tn_test_case_begin(k, " gradient", c);
  tn_code rc = tn_test_call_new(k, c->layout, &forward);
  if (rc == TN_OK)
    rc = tn_test_arrays(k, &k->out_grads, k->sigs[TN_OPERAND_OUT], c->layout,
                        heads);
  if (rc == TN_OK)
    rc = tn_test_outputs(k, c, &k->in_grads, k->sigs[TN_OPERAND_IN], &back);
  for (size_t i = 0; i < k->in.n; ++i) {
    if (k->in_grads.v[i].v != NULL) continue;
    back.req[i] = TN_REQ_NULL;
    back.out[i] = NULL;
  }
  if (rc == TN_OK) rc = tn_test_call_backward(k, &forward, heads, &back);
  if (rc == TN_UNSUPPORTED && !tn_test_grads_are_floats(k))
    tn_test_leave_out(k->t, tn_error_text());
  else if (rc != TN_OK)
    tn_test_fail_code(k->t, rc);
  else if (tn_test_check(k, &k->in_grads, k->desc->inputs, k->desc->n_inputs,
                         &back))
    tn_test_pass(k->t);
  return rc != TN_UNSUPPORTED && rc != TN_UNIMPLEMENTED;
}

/* How many gradients the example states. */
static size_t tn_test_n_grads(const tn_test_kit *k) {
  size_t n = 0;
  for (size_t i = 0; i < k->in_grads.n; ++i) n += k->in_grads.v[i].v != NULL;
  return n;
}

static void tn_test_run_backward(const tn_test_kit *k) {
  static const tn_test_case cases[] = {
      {TN_TEST_DENSE, TN_TEST_NEW, 0},   {TN_TEST_DENSE, TN_TEST_WRITE, 0},
      {TN_TEST_DENSE, TN_TEST_ADD, 0},   {TN_TEST_COLUMNS, TN_TEST_WRITE, 0},
      {TN_TEST_COLUMNS, TN_TEST_ADD, 0}, {TN_TEST_STEPS, TN_TEST_WRITE, 0},
      {TN_TEST_STEPS, TN_TEST_ADD, 0}};
  if (tn_test_n_grads(k) == 0) return;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i)
    if (!tn_test_backward(k, &cases[i])) return;
  for (size_t i = 0; i < k->in.n && tn_test_n_grads(k) > 1; ++i) {
    const tn_test_case one = {TN_TEST_DENSE, TN_TEST_NULL, i};
    if (k->in_grads.v[i].v != NULL) (void)tn_test_backward(k, &one);
  }
}

/* ------------------------------------------------------------- all of them */

static bool tn_test_can_be_inplace(const tn_test_kit *k, size_t i) {
  const tn_arg *arg = tn_test_arg(k->desc->outputs, k->desc->n_outputs, i);
  const tn_sig *out = &k->sigs[TN_OPERAND_OUT][i];
  if (arg->inplace == TN_NONE || arg->inplace >= k->in.n) return false;
  const tn_test_values *in = &k->in.v[arg->inplace];
  bool same = in->v != NULL && in->ndim == out->ndim &&
              k->sigs[TN_OPERAND_IN][arg->inplace].dtype == out->dtype;
  for (int32_t d = 0; same && d < in->ndim; ++d)
    same = in->shape[d] == out->shape[d];
  return same;
}

/* Given outputs need a shape that is known before. */
static void tn_test_run_given(const tn_test_kit *k) {
  for (int layout = TN_TEST_DENSE; layout <= TN_TEST_STEPS; ++layout) {
    const tn_test_layout l = (tn_test_layout)layout;
    const tn_test_case write = {l, TN_TEST_WRITE, 0}, add = {l, TN_TEST_ADD, 0};
    (void)tn_test_forward(k, &write);
    (void)tn_test_forward(k, &add);
    for (size_t i = 0; i < k->out.n; ++i) {
      const tn_test_case in_place = {l, TN_TEST_INPLACE, i};
      if (tn_test_can_be_inplace(k, i)) (void)tn_test_forward(k, &in_place);
    }
  }
  for (size_t i = 0; i < k->out.n; ++i) {
    const tn_test_case unwanted = {TN_TEST_DENSE, TN_TEST_NULL, i};
    (void)tn_test_forward(k, &unwanted);
  }
}

static void tn_test_run_place(const tn_test_kit *k) {
  const tn_test_case plain = {TN_TEST_DENSE, TN_TEST_NEW, 0};
  if (!tn_test_forward(k, &plain)) return;
  if (k->is_fixed) tn_test_run_given(k);
  tn_test_forward_repeated(k);
  tn_test_run_backward(k);
}

/* The first number of a list that its type cannot hold, as text. */
static const char *tn_test_misfit(const tn_test_kit *k,
                                  const tn_test_list *list,
                                  const tn_sig *sigs) {
  static char text[128];
  for (size_t i = 0; i < list->n; ++i) {
    for (size_t j = 0; j < list->v[i].n && list->v[i].v != NULL; ++j) {
      const tn_test_values one = {.n = 1, .v = &list->v[i].v[j]};
      bool holds = true;
      if (tn_test_holds(k->t, sigs[i].dtype, &one, &holds) != TN_OK) continue;
      tn_test_release(k->t);
      if (holds) continue;
      (void)snprintf(text, sizeof text, "%s cannot hold %g",
                     tn_test_type_of(sigs[i].dtype)->name, one.v[0]);
      return text;
    }
  }
  return NULL;
}

/* Completes the signature; the types of inputs are those of the variables.
 * Inputs that are not given are absent; those that stand last are left out. */
static tn_code tn_test_infer(tn_test_kit *k) {
  size_t n_in = k->in.n;
  for (size_t i = 0; i < k->in.n; ++i) {
    const tn_arg *arg = tn_test_arg(k->desc->inputs, k->desc->n_inputs, i);
    const tn_test_values *v = &k->in.v[i];
    tn_sig *sig = &k->sigs[TN_OPERAND_IN][i];
    *sig = (tn_sig){.ndim = v->v == NULL ? -2 : -1};
    if (v->v == NULL) continue;
    sig->dtype =
        arg->dtype_var != TN_NONE ? k->types[arg->dtype_var] : arg->dtype;
    sig->ndim = v->ndim;
    memcpy(sig->shape, v->shape, sizeof sig->shape);
  }
  for (size_t i = 0; i < TN_TEST_MAX; ++i) {
    k->sigs[TN_OPERAND_OUT][i] = (tn_sig){.ndim = -1};
    k->sigs[TN_OPERAND_AUX][i] = (tn_sig){.ndim = -1};
  }
  while (n_in > 0 && k->in.v[n_in - 1].v == NULL) --n_in;
  k->io = (tn_signature){(uint32_t)n_in,         (uint32_t)k->out.n,
                         (uint32_t)k->aux.n,     0,
                         k->sigs[TN_OPERAND_IN], k->sigs[TN_OPERAND_OUT],
                         k->sigs[TN_OPERAND_AUX]};
  const tn_code rc = tn_operator_infer(k->op, k->params, &k->io);
  k->is_fixed = true;
  for (size_t i = 0; i < k->out.n; ++i) {
    const tn_sig *sig = &k->sigs[TN_OPERAND_OUT][i];
    k->is_fixed &= sig->ndim >= 0 && sig->dtype != TN_DTYPE_UNKNOWN;
    for (int32_t d = 0; d < sig->ndim; ++d) k->is_fixed &= sig->shape[d] >= 0;
  }
  return rc == TN_INCOMPLETE ? TN_OK : rc;
}

/* With the types that the variables stand for now. */
static void tn_test_run_types(tn_test_kit *k) {
  const char *misfit = NULL;
  tn_test_begin(k->t, "%s %s: %s", k->op_name, k->example->name, k->types_text);
  const tn_code rc = tn_test_infer(k);
  if (rc != TN_OK) {
    tn_test_fail_code(k->t, rc);
    return;
  }
  if (misfit == NULL) misfit = tn_test_misfit(k, &k->in, k->io.in);
  if (misfit == NULL) misfit = tn_test_misfit(k, &k->out, k->io.out);
  if (misfit == NULL) misfit = tn_test_misfit(k, &k->out_grads, k->io.out);
  if (misfit == NULL) misfit = tn_test_misfit(k, &k->in_grads, k->io.in);
  if (misfit != NULL) {
    tn_test_leave_out(k->t, misfit);
    return;
  }
  tn_device_entry device;
  for (size_t i = 0; tn_device_at(k->t->rt, i, &device) == TN_OK; ++i) {
    if (device.count == 0 || !tn_test_tries(k->t, device.device_type)) continue;
    k->place = (tn_place){device.device_type, 0};
    k->place_name = device.name;
    tn_test_run_place(k);
  }
}

/* Sets variable number `var` and those behind it to each of their types in
 * turn. */
static void tn_test_each_type(tn_test_kit *k, uint32_t var) {
  if (var == k->desc->n_dtype_vars) {
    size_t n = 0;
    (void)snprintf(k->types_text, sizeof k->types_text, "any");
    for (uint32_t i = 0; i < var && n < sizeof k->types_text; ++i)
      n += (size_t)snprintf(k->types_text + n, sizeof k->types_text - n, "%s%s",
                            i > 0 ? "/" : "",
                            tn_test_type_of(k->types[i])->name);
    tn_test_run_types(k);
    return;
  }
  for (int i = 0; i < TN_TEST_N_TYPES; ++i) {
    if ((tn_test_allowed(k, var) >> i & 1) == 0) continue;
    k->types[var] = tn_test_types[i].dtype;
    tn_test_each_type(k, var + 1);
  }
}

static bool tn_test_kit_read(tn_test_kit *k) {
  const tn_test_example *e = k->example;
  const tn_op *d = k->desc;
  return tn_test_list_read(&k->in, e->inputs, d->inputs, d->n_inputs) &&
         tn_test_list_read(&k->aux, e->aux, d->aux, d->n_aux) &&
         tn_test_list_read(&k->out, e->outputs, d->outputs, d->n_outputs) &&
         tn_test_list_read(&k->out_grads, e->out_grads, d->outputs,
                           d->n_outputs) &&
         tn_test_list_read(&k->in_grads, e->in_grads, d->inputs, d->n_inputs);
}

static void tn_test_kit_free(tn_test_kit *k) {
  if (k == NULL) return;
  tn_test_release(k->t);
  tn_params_release(k->params);
  tn_test_list_free(&k->in), tn_test_list_free(&k->aux);
  tn_test_list_free(&k->out), tn_test_list_free(&k->out_grads);
  tn_test_list_free(&k->in_grads);
  free(k);
}

/* An example, read; NULL after a failed case. The caller frees it. */
static tn_test_kit *tn_test_kit_create(tn_test *t, tn_operator *op,
                                       const tn_test_example *example) {
  tn_test_kit *k = calloc(1, sizeof *k);
  tn_test_begin(t, "%s %s", tn_operator_name(op), example->name);
  if (k == NULL) {
    tn_test_fail(t, "out of memory");
    return NULL;
  }
  *k = (tn_test_kit){.t = t, .op = op, .example = example};
  k->desc = tn_operator_desc(op);
  k->op_name = tn_operator_name(op);
  if (tn_params_parse(op, example->params != NULL ? example->params : "",
                      &k->params) != TN_OK)
    tn_test_fail(t, "%s", tn_error_text());
  else if (k->desc->n_dtype_vars > TN_TEST_MAX_VARS || !tn_test_kit_read(k))
    tn_test_fail(t, "%s: the example cannot be read", example->place);
  else
    return k;
  tn_test_kit_free(k);
  return NULL;
}

static void tn_test_run_example(tn_test *t, tn_operator *op,
                                const tn_test_example *example) {
  tn_test_kit *k = tn_test_kit_create(t, op, example);
  if (k == NULL) return;
  tn_test_each_type(k, 0);
  tn_test_kit_free(k);
}

#endif /* TENON_TEST_EXAMPLE_H_ */
