/* SPDX-License-Identifier: Apache-2.0
 * test/example.h: a part of test.h: the cases of one example, for every
 * combination of element types, on every device, in every layout and with every
 * request.
 */
#ifndef TENON_TEST_EXAMPLE_H_
#define TENON_TEST_EXAMPLE_H_

/* ----------------------------------------------------------- forward cases */

/* False if no kernel takes the call, so that no further case would tell more.
 */
static bool tn_test_forward(const tn_test_subject *k, const tn_test_case *c) {
  tn_test_call call;
  memset(&call, 0, sizeof call);
  if (!tn_test_case_begin(k, "", c)) return tn_test_goes_on(k->t);
  tn_code rc = tn_test_inputs(k, c->layout, call.in);
  if (rc == TN_OK)
    rc = tn_test_outputs(k, c, &k->out, k->sigs[TN_OPERAND_OUT], &call);
  if (c->request == TN_TEST_INPLACE) call.out[c->which] = call.in[c->from];
  if (rc == TN_OK) rc = tn_test_call_forward(k, &call);
  if (rc != TN_OK)
    tn_test_fail_code(k->t, rc);
  else if (tn_test_check(k, &k->out, k->desc->outputs, k->desc->n_outputs,
                         &call))
    tn_test_pass(k->t);
  return rc != TN_UNSUPPORTED && rc != TN_UNIMPLEMENTED;
}

/* ------------------------------------------------------ repeated elements */

static bool tn_test_can_repeat(const tn_test_subject *k) {
  for (size_t i = 0; i < k->in.n; ++i)
    if (k->in.v[i].v != NULL && k->in.v[i].ndim > 0 && k->in.v[i].shape[0] > 1)
      return true;
  return false;
}

/* Compares the results of views with those of their dense copies. */
static void tn_test_compare_repeated(const tn_test_subject *k,
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

static void tn_test_forward_repeated(const tn_test_subject *k) {
  const tn_test_case c = {TN_TEST_REPEATED, TN_TEST_NEW, 0, 0};
  tn_test_call want, got;
  if (!tn_test_can_repeat(k)) return;
  if (!tn_test_case_begin(k, "", &c)) return;
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
    tn_test_forget_failures(k->t);
    return;
  }
  rc = tn_test_call_new(k, TN_TEST_REPEATED, &got);
  if (rc != TN_OK)
    tn_test_fail_code(k->t, rc);
  else
    tn_test_compare_repeated(k, &want, &got);
}

/* ------------------------------------------------------------- all of them */

/* Output `i` in the memory of each input of its type and shape, whether or not
 * the operator declares the pair. */
static void tn_test_run_inplace(const tn_test_subject *k, tn_test_layout layout,
                                size_t i) {
  for (size_t j = 0; j < k->in.n && j < TN_TEST_SUBSETS; ++j) {
    const tn_test_case c = {layout, TN_TEST_INPLACE, i, j};
    if (k->in.v[j].v != NULL && tn_test_same_sig(&k->sigs[TN_OPERAND_IN][j],
                                                 &k->sigs[TN_OPERAND_OUT][i]))
      (void)tn_test_forward(k, &c);
  }
}

/* Storage types have no sums. */
static bool tn_test_can_add(const tn_test_subject *k) {
  for (size_t i = 0; i < k->out.n; ++i)
    if (tn_test_is_storage(k->sigs[TN_OPERAND_OUT][i].dtype)) return false;
  return true;
}

/* Given outputs need a shape that is known before. */
static void tn_test_run_given(const tn_test_subject *k) {
  const tn_test_case front = {TN_TEST_FRONT, TN_TEST_WRITE, 0, 0};
  const tn_test_case shifted = {TN_TEST_SHIFT, TN_TEST_WRITE, 0, 0};
  if (k->place.device_type == TN_DEVICE_CPU) {
    (void)tn_test_forward(k, &front);
    (void)tn_test_forward(k, &shifted);
  }
  for (int layout = TN_TEST_DENSE; layout <= TN_TEST_STEPS; ++layout) {
    const tn_test_layout l = (tn_test_layout)layout;
    const tn_test_case write = {l, TN_TEST_WRITE, 0, 0},
                       add = {l, TN_TEST_ADD, 0, 0};
    (void)tn_test_forward(k, &write);
    if (tn_test_can_add(k)) (void)tn_test_forward(k, &add);
    for (size_t i = 0; i < k->out.n; ++i) tn_test_run_inplace(k, l, i);
  }
  for (size_t i = 0; i < k->out.n; ++i) {
    const tn_test_case unwanted = {TN_TEST_DENSE, TN_TEST_NULL, i, 0};
    (void)tn_test_forward(k, &unwanted);
  }
}

/* Notes that a pass was tried with the subject's types, and whether it was
 * taken.
 */
static void tn_test_mark_types(const tn_test_subject *k, size_t pass,
                               bool took) {
  for (uint32_t i = 0; i < k->desc->n_dtype_vars; ++i) {
    const uint64_t bit = (uint64_t)1
                         << (tn_test_type_of(k->types[i]) - tn_test_types);
    k->t->tried[pass][i] |= bit;
    if (took) k->t->took[pass][i] |= bit;
  }
}

static void tn_test_run_place(const tn_test_subject *k) {
  const tn_test_case plain = {TN_TEST_DENSE, TN_TEST_NEW, 0, 0};
  const int n_to_come = k->t->n_to_come;
  const bool ran = tn_test_forward(k, &plain);
  tn_test_mark_types(k, TN_PASS_FORWARD, ran || k->t->n_to_come > n_to_come);
  if (!ran) return;
  if (k->is_fixed) tn_test_run_given(k);
  tn_test_forward_repeated(k);
  tn_test_run_backward(k);
  const int n_skipped = k->t->n_skipped;
  if (tn_test_run_subsets(k))
    tn_test_mark_types(k, TN_PASS_BACKWARD, k->t->n_skipped == n_skipped);
  tn_test_run_again(k);
  tn_test_run_batch(k);
}

/* The first number of a list that its type cannot hold, as text. */
static const char *tn_test_misfit(const tn_test_subject *k,
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

/* With the types that the variables have now. */
static void tn_test_run_types(tn_test_subject *k) {
  const char *misfit = NULL;
  (void)tn_test_begin(k->t, "%s %s: %s", k->op_name, k->example->name,
                      k->types_text);
  if (tn_test_has_died(k->t)) return;
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
  tn_test_run_partial(k);
  tn_device_entry device;
  for (size_t i = 0; tn_device_at(k->t->rt, i, &device) == TN_OK; ++i) {
    if (device.count == 0 || !tn_test_tries(k->t, device.device_type)) continue;
    k->place = (tn_place){device.device_type, 0};
    k->place_name = device.name;
    tn_test_run_place(k);
  }
}

/* Sets variable number `var` and those after it to each of their types in
 * turn. */
static void tn_test_each_type(tn_test_subject *k, uint32_t var) {
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

static void tn_test_run_example(tn_test *t, tn_operator *op,
                                const tn_test_example *example) {
  tn_test_subject *k = tn_test_subject_create(t, op, example);
  if (k == NULL) return;
  tn_test_each_type(k, 0);
  tn_test_subject_free(k);
}

#endif /* TENON_TEST_EXAMPLE_H_ */
