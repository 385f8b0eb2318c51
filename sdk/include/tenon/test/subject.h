/* SPDX-License-Identifier: Apache-2.0
 * test/subject.h: a part of test.h: an example that was read, with an element
 * type for each of its operands.
 */
#ifndef TENON_TEST_SUBJECT_H_
#define TENON_TEST_SUBJECT_H_

enum { TN_TEST_MAX_VARS = 8 };

/* An example with an element type for each of its operands. */
typedef struct tn_test_subject {
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
  bool partial_done;           /* test/partial.h */
  tn_place place;
  const char *place_name;
  void *struct_before; /* a copy of the params struct */
} tn_test_subject;

/* Types that a variable of the operator may be, of those that the kernel that
 * is tried takes. */
static uint64_t tn_test_allowed(const tn_test_subject *k, uint32_t var) {
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

/* Completes the signature; the types of inputs are those of the variables.
 * Inputs that are not given are absent; the last ones are left out. */
static tn_code tn_test_infer(tn_test_subject *k) {
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

static bool tn_test_subject_read(tn_test_subject *k) {
  const tn_test_example *e = k->example;
  const tn_op *d = k->desc;
  return tn_test_list_read(&k->in, e->inputs, d->inputs, d->n_inputs) &&
         tn_test_list_read(&k->aux, e->aux, d->aux, d->n_aux) &&
         tn_test_list_read(&k->out, e->outputs, d->outputs, d->n_outputs) &&
         tn_test_list_read(&k->out_grads, e->out_grads, d->outputs,
                           d->n_outputs) &&
         tn_test_list_read(&k->in_grads, e->in_grads, d->inputs, d->n_inputs);
}

/* Kernels must leave it as it is. */
static bool tn_test_subject_copy_params(tn_test_subject *k) {
  const size_t n = k->desc->params_size;
  if (n == 0 || tn_params_struct(k->params) == NULL) return true;
  k->struct_before = malloc(n);
  if (k->struct_before == NULL) return false;
  memcpy(k->struct_before, tn_params_struct(k->params), n);
  return true;
}

static void tn_test_subject_free(tn_test_subject *k) {
  if (k == NULL) return;
  tn_test_release(k->t);
  tn_params_release(k->params);
  free(k->struct_before);
  tn_test_list_free(&k->in), tn_test_list_free(&k->aux);
  tn_test_list_free(&k->out), tn_test_list_free(&k->out_grads);
  tn_test_list_free(&k->in_grads);
  free(k);
}

/* An example, read; NULL after a failed case. The caller frees it. */
static tn_test_subject *tn_test_subject_create(tn_test *t, tn_operator *op,
                                               const tn_test_example *example) {
  tn_test_subject *k = calloc(1, sizeof *k);
  (void)tn_test_begin(t, "%s %s", tn_operator_name(op), example->name);
  if (k == NULL) {
    tn_test_fail(t, "out of memory");
    return NULL;
  }
  *k = (tn_test_subject){.t = t, .op = op, .example = example};
  k->desc = tn_operator_desc(op);
  k->op_name = tn_operator_name(op);
  if (tn_params_parse(op, example->params != NULL ? example->params : "",
                      &k->params) != TN_OK)
    tn_test_fail(t, "%s", tn_error_text());
  else if (k->desc->n_dtype_vars > TN_TEST_MAX_VARS || !tn_test_subject_read(k))
    tn_test_fail(t, "%s: the example cannot be read", example->place);
  else if (tn_test_subject_copy_params(k))
    return k;
  else
    tn_test_fail(t, "out of memory");
  tn_test_subject_free(k);
  return NULL;
}

#endif /* TENON_TEST_SUBJECT_H_ */
