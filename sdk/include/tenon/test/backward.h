/* SPDX-License-Identifier: Apache-2.0
 * test/backward.h: a part of test.h: backward calls. The gradients that an
 * example states are compared with it. Then every backward kernel is asked for
 * all gradients, for each one alone and for all but one, as a tape asks that
 * watches some of the inputs: operands that these do not need are absent. Each
 * gradient must equal the one from the call for all. The same holds for
 * gradients in the memory of other operands of the call: output gradients,
 * inputs and outputs.
 */
#ifndef TENON_TEST_BACKWARD_H_
#define TENON_TEST_BACKWARD_H_

/* The forward call of a backward one; its outputs are laid out as the case's
 * other operands. */
static tn_code tn_test_call_again(const tn_test_subject *k,
                                  tn_test_layout layout,
                                  tn_test_call *forward) {
  tn_code rc = tn_test_call_new(k, layout, forward);
  for (size_t i = 0; i < k->out.n && rc == TN_OK; ++i) {
    if (forward->out[i] == NULL || k->place.device_type != TN_DEVICE_CPU)
      continue;
    const tn_tensor *tensor = tn_array_tensor(forward->out[i]);
    const tn_spec spec = {tensor->dtype, tensor->ndim, tensor->shape};
    void *bytes = NULL;
    rc = tn_test_gather(forward->out[i], &bytes);
    if (rc == TN_OK)
      rc = tn_test_empty(k->t, &spec, k->place, layout, &forward->out[i]);
    if (rc == TN_OK) tn_test_scatter(forward->out[i], bytes);
    free(bytes);
  }
  return rc;
}

/* ---------------------------------------------------------- stated gradients
 */

/* Whether the gradients that the example states are of floats, all of them. */
static bool tn_test_grads_are_floats(const tn_test_subject *k) {
  for (size_t i = 0; i < k->in_grads.n; ++i)
    if (k->in_grads.v[i].v != NULL &&
        !tn_test_is_float(k->sigs[TN_OPERAND_IN][i].dtype))
      return false;
  return true;
}

static bool tn_test_backward(const tn_test_subject *k, const tn_test_case *c) {
  tn_test_call forward, back;
  tn_array *heads[TN_TEST_MAX] = {NULL};
  memset(&back, 0, sizeof back);
  if (!tn_test_case_begin(k, " gradient", c)) return tn_test_goes_on(k->t);
  tn_code rc = tn_test_call_again(k, c->layout, &forward);
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
static size_t tn_test_n_grads(const tn_test_subject *k) {
  size_t n = 0;
  for (size_t i = 0; i < k->in_grads.n; ++i) n += k->in_grads.v[i].v != NULL;
  return n;
}

static void tn_test_run_backward(const tn_test_subject *k) {
  static const tn_test_case cases[] = {{TN_TEST_DENSE, TN_TEST_NEW, 0, 0},
                                       {TN_TEST_DENSE, TN_TEST_WRITE, 0, 0},
                                       {TN_TEST_DENSE, TN_TEST_ADD, 0, 0},
                                       {TN_TEST_COLUMNS, TN_TEST_WRITE, 0, 0},
                                       {TN_TEST_COLUMNS, TN_TEST_ADD, 0, 0},
                                       {TN_TEST_STEPS, TN_TEST_WRITE, 0, 0},
                                       {TN_TEST_STEPS, TN_TEST_ADD, 0, 0},
                                       {TN_TEST_FRONT, TN_TEST_WRITE, 0, 0},
                                       {TN_TEST_SHIFT, TN_TEST_WRITE, 0, 0}};
  const bool on_cpu = k->place.device_type == TN_DEVICE_CPU;
  if (tn_test_n_grads(k) == 0) return;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i)
    if ((on_cpu || cases[i].layout < TN_TEST_FRONT) &&
        !tn_test_backward(k, &cases[i]))
      return;
  for (size_t i = 0; i < k->in.n && tn_test_n_grads(k) > 1; ++i) {
    const tn_test_case one = {TN_TEST_DENSE, TN_TEST_NULL, i, 0};
    if (k->in_grads.v[i].v != NULL) (void)tn_test_backward(k, &one);
  }
}

/* -------------------------------------------------------------------- subsets
 */

enum { TN_TEST_SUBSETS = 8 }; /* inputs that are asked for alone, at most */

/* Gradients of an example with drawn output gradients: `all`, from a call that
 * asks for all of them. */
typedef struct tn_test_subsets {
  const tn_test_subject *k;
  bool wanted[TN_TEST_MAX];
  size_t n; /* of those */
  tn_test_list heads;
  tn_test_list all;
  /* of each gradient: 1 + the operand of the backward call (output gradients,
   * inputs, outputs) in whose memory it is wanted; 0: none */
  size_t memory[TN_TEST_MAX];
} tn_test_subsets;

/* Which gradients there are; false if none. */
static bool tn_test_find_wanted(tn_test_subsets *s) {
  const tn_test_subject *k = s->k;
  const tn_gradient *g = k->desc->gradient;
  if (g == NULL || g->kind != TN_GRADIENT_KERNEL || g->n_inputs == 0)
    return false;
  for (size_t i = 0; i < k->in.n; ++i) {
    const size_t at = i < g->n_inputs ? i : g->n_inputs - 1;
    s->wanted[i] = k->in.v[i].v != NULL && g->inputs[at]->stop == 0 &&
                   tn_test_is_float(k->sigs[TN_OPERAND_IN][i].dtype);
    s->n += s->wanted[i];
  }
  return s->n > 0;
}

/* Draws gradients for the outputs that users see, once. */
static tn_code tn_test_draw_heads(tn_test_subsets *s, tn_array *const *out) {
  const tn_test_subject *k = s->k;
  tn_code rc = TN_OK;
  k->t->random = k->t->seed;
  for (size_t i = 0; i < k->out.n && rc == TN_OK; ++i) {
    tn_test_values got = {0};
    if (s->heads.v[i].v != NULL || !tn_test_is_head(k, i, out[i])) continue;
    rc = tn_test_get(k->t, out[i], &got);
    if (rc == TN_OK && !tn_test_weigh(k->t, &s->heads.v[i], &got))
      rc = TN_OUT_OF_MEMORY;
    free(got.v);
  }
  return rc;
}

/* Passes the arrays of `memory` as gradients. */
static void tn_test_share_memory(const tn_test_subsets *s,
                                 const tn_test_call *forward,
                                 tn_array *const *heads, tn_test_call *back) {
  const size_t n_out = s->k->out.n, n_in = s->k->in.n;
  for (size_t i = 0; i < n_in; ++i) {
    const size_t at = s->memory[i];
    if (at == 0 || back->req[i] == TN_REQ_NULL) continue;
    back->out[i] = at <= n_out          ? heads[at - 1]
                   : at <= n_out + n_in ? forward->in[at - 1 - n_out]
                                        : forward->out[at - 1 - n_out - n_in];
  }
}

/* Makes the backward call of a case, for the gradients that `req` wants. */
static tn_code tn_test_call_subset(tn_test_subsets *s, const tn_test_case *c,
                                   const bool *wanted, tn_test_call *back) {
  const tn_test_subject *k = s->k;
  static tn_test_call forward;
  tn_array *heads[TN_TEST_MAX] = {NULL};
  memset(back, 0, sizeof *back);
  tn_code rc = tn_test_call_again(k, c->layout, &forward);
  if (rc == TN_OK) rc = tn_test_draw_heads(s, forward.out);
  for (size_t i = 0; i < k->out.n && rc == TN_OK; ++i) {
    const tn_test_spot spot = {k->place, c->layout};
    if (s->heads.v[i].v != NULL && forward.out[i] != NULL)
      rc = tn_test_lay_values(k->t, &s->heads.v[i],
                              tn_array_tensor(forward.out[i])->dtype, &spot,
                              &heads[i]);
  }
  if (rc == TN_OK)
    rc = tn_test_outputs(k, c, &k->in, k->sigs[TN_OPERAND_IN], back);
  for (size_t i = 0; i < k->in.n; ++i) {
    if (wanted[i]) continue;
    back->req[i] = TN_REQ_NULL;
    back->out[i] = NULL;
  }
  if (c->request == TN_TEST_INPLACE)
    tn_test_share_memory(s, &forward, heads, back);
  return rc == TN_OK ? tn_test_call_backward(k, &forward, heads, back) : rc;
}

/* Fetches all gradients of one call. */
static tn_code tn_test_find_all(tn_test_subsets *s) {
  static tn_test_call back;
  const tn_test_case c = {TN_TEST_DENSE, TN_TEST_WRITE, 0, 0};
  tn_code rc = tn_test_call_subset(s, &c, s->wanted, &back);
  for (size_t i = 0; i < s->k->in.n && rc == TN_OK; ++i)
    if (s->wanted[i]) rc = tn_test_get(s->k->t, back.out[i], &s->all.v[i]);
  return rc;
}

/* Compares the gradients of a call with those of the call for all. */
static bool tn_test_check_subset(const tn_test_subsets *s, const bool *wanted,
                                 const tn_test_call *back) {
  const tn_test_subject *k = s->k;
  bool fine = true;
  for (size_t i = 0; i < k->in.n && fine; ++i) {
    const char *name = tn_test_arg(k->desc->inputs, k->desc->n_inputs, i)->name;
    const tn_test_match m = {name, &s->all.v[i], back->offset[i],
                             k->example->tol};
    if (wanted[i]) fine = tn_test_expect(k->t, &m, back->out[i]);
  }
  return fine;
}

/* One case: the gradients of `wanted`, which `words` describe. False if no
 * kernel takes the call. */
static bool tn_test_subset(tn_test_subsets *s, const tn_test_case *c,
                           const bool *wanted, const char *words) {
  static tn_test_call back;
  tn_test *t = s->k->t;
  if (!tn_test_begin(t, "%s %s gradient: %s, %s, %s, %s, %s", s->k->op_name,
                     s->k->example->name, s->k->types_text, s->k->place_name,
                     tn_test_layout_names[c->layout],
                     tn_test_request_names[c->request], words))
    return tn_test_goes_on(t);
  tn_code rc = TN_OK;
  for (size_t i = 0; i < s->k->in.n; ++i)
    if (s->wanted[i] && s->all.v[i].v == NULL && rc == TN_OK)
      rc = tn_test_find_all(s);
  if (rc == TN_OK) rc = tn_test_call_subset(s, c, wanted, &back);
  if (rc != TN_OK)
    tn_test_fail_code(t, rc);
  else if (tn_test_check_subset(s, wanted, &back))
    tn_test_pass(t);
  return rc != TN_UNSUPPORTED && rc != TN_UNIMPLEMENTED;
}

/* Input `i` alone, or all but it, in a layout that the title draws. */
static void tn_test_run_subset(tn_test_subsets *s, size_t i, bool alone) {
  static const tn_test_layout layouts[] = {TN_TEST_DENSE, TN_TEST_FRONT,
                                           TN_TEST_STEPS, TN_TEST_COLUMNS,
                                           TN_TEST_SHIFT};
  const tn_test_subject *k = s->k;
  const bool on_cpu = k->place.device_type == TN_DEVICE_CPU;
  const uint64_t drawn = tn_test_draw(k->t);
  bool wanted[TN_TEST_MAX];
  char words[160];
  tn_test_case c = {layouts[drawn % 5],
                    (drawn >> 8) % 3 == 0 ? TN_TEST_ADD : TN_TEST_WRITE, 0, 0};
  if (!on_cpu && c.layout >= TN_TEST_FRONT) c.layout = TN_TEST_DENSE;
  for (size_t j = 0; j < k->in.n; ++j)
    wanted[j] = s->wanted[j] && (j == i) == alone;
  (void)snprintf(words, sizeof words, "%s%s %s", alone ? "" : "all but ",
                 tn_test_arg(k->desc->inputs, k->desc->n_inputs, i)->name,
                 alone ? "alone" : "");
  if (!alone) words[strlen(words) - 1] = '\0';
  (void)tn_test_subset(s, &c, wanted, words);
}

/* ------------------------------------------------------------------- in place
 */

/* The declaration and signature of operand `p` of the backward call; NULL if it
 * is not given. */
static const tn_arg *tn_test_backward_operand(const tn_test_subject *k,
                                              size_t p, const tn_sig **sig) {
  const size_t n_out = k->out.n, n_in = k->in.n;
  const tn_op *d = k->desc;
  if (p >= n_out && p < n_out + n_in) {
    *sig = &k->sigs[TN_OPERAND_IN][p - n_out];
    return k->in.v[p - n_out].v == NULL
               ? NULL
               : tn_test_arg(d->inputs, d->n_inputs, p - n_out);
  }
  const size_t i = p < n_out ? p : p - n_out - n_in;
  const tn_arg *arg = tn_test_arg(d->outputs, d->n_outputs, i);
  *sig = &k->sigs[TN_OPERAND_OUT][i];
  return p < n_out && (arg->flags & TN_ARG_HIDDEN) != 0 ? NULL : arg;
}

static bool tn_test_same_sig(const tn_sig *a, const tn_sig *b) {
  bool same = a->dtype == b->dtype && a->ndim == b->ndim;
  for (int32_t d = 0; same && d < a->ndim; ++d)
    same = a->shape[d] == b->shape[d];
  return same;
}

/* All gradients, with that of input `i` in the memory of operand `p`; then, in
 * a layout that the title draws, this gradient alone. */
static void tn_test_run_memory(tn_test_subsets *s, size_t i, size_t p) {
  static const tn_test_layout layouts[] = {TN_TEST_DENSE, TN_TEST_STEPS,
                                           TN_TEST_COLUMNS, TN_TEST_SHIFT};
  const tn_test_subject *k = s->k;
  const bool on_cpu = k->place.device_type == TN_DEVICE_CPU;
  const tn_sig *to = &k->sigs[TN_OPERAND_IN][i], *from = NULL;
  const tn_arg *arg = tn_test_backward_operand(k, p, &from);
  bool wanted[TN_TEST_MAX] = {false};
  char words[160];
  if (arg == NULL || !tn_test_same_sig(to, from)) return;
  (void)snprintf(words, sizeof words, "%s in %s%s",
                 tn_test_arg(k->desc->inputs, k->desc->n_inputs, i)->name,
                 p < k->out.n ? "grad." : "", arg->name);
  tn_test_case c = {TN_TEST_DENSE, TN_TEST_INPLACE, i, 0};
  s->memory[i] = p + 1;
  (void)tn_test_subset(s, &c, s->wanted, words);
  wanted[i] = true;
  c.layout = layouts[tn_child_hash(k->t->seed, words, strlen(words)) % 4];
  if (!on_cpu && c.layout >= TN_TEST_FRONT) c.layout = TN_TEST_DENSE;
  (void)snprintf(words + strlen(words), sizeof words - strlen(words), " alone");
  (void)tn_test_subset(s, &c, wanted, words);
  s->memory[i] = 0;
}

/* Each gradient in the memory of each operand of its type and shape, whether or
 * not the operator declares the pair; then each in the memory of its own input,
 * at once. */
static void tn_test_run_memories(tn_test_subsets *s) {
  const tn_test_subject *k = s->k;
  const size_t n = 2 * k->out.n + k->in.n;
  const tn_test_case c = {TN_TEST_DENSE, TN_TEST_INPLACE, 0, 0};
  size_t asked = 0;
  for (size_t i = 0; i < k->in.n; ++i) {
    if (!s->wanted[i] || ++asked > TN_TEST_SUBSETS) continue;
    for (size_t p = 0; p < n; ++p) tn_test_run_memory(s, i, p);
  }
  if (s->n < 2) return;
  for (size_t i = 0; i < k->in.n; ++i) s->memory[i] = 1 + k->out.n + i;
  (void)tn_test_subset(s, &c, s->wanted, "all in their inputs");
  memset(s->memory, 0, sizeof s->memory);
}

static void tn_test_run_all_subsets(tn_test_subsets *s) {
  static const tn_test_case more[] = {{TN_TEST_FRONT, TN_TEST_WRITE, 0, 0},
                                      {TN_TEST_SHIFT, TN_TEST_WRITE, 0, 0},
                                      {TN_TEST_STEPS, TN_TEST_ADD, 0, 0}};
  const tn_test_case plain = {TN_TEST_DENSE, TN_TEST_WRITE, 0, 0};
  const bool on_cpu = s->k->place.device_type == TN_DEVICE_CPU;
  size_t asked = 0;
  if (!tn_test_subset(s, &plain, s->wanted, "all gradients")) return;
  const bool is_stated = tn_test_n_grads(s->k) > 0;
  for (size_t i = 0; i < sizeof more / sizeof *more && !is_stated; ++i)
    if (on_cpu || more[i].layout < TN_TEST_FRONT)
      (void)tn_test_subset(s, &more[i], s->wanted, "all gradients");
  s->k->t->random =
      tn_child_hash(s->k->t->seed, s->k->t->title, strlen(s->k->t->title));
  for (size_t i = 0; i < s->k->in.n && s->n > 1; ++i) {
    if (!s->wanted[i] || ++asked > TN_TEST_SUBSETS) continue;
    tn_test_run_subset(s, i, true);
    if (s->n > 2) tn_test_run_subset(s, i, false);
  }
  tn_test_run_memories(s);
}

/* False if the operator has no backward kernel for these types. */
static bool tn_test_run_subsets(const tn_test_subject *k) {
  static tn_test_subsets s;
  memset(&s, 0, sizeof s);
  s.k = k;
  const bool has_any = tn_test_find_wanted(&s);
  if (has_any) tn_test_run_all_subsets(&s);
  tn_test_list_free(&s.heads);
  tn_test_list_free(&s.all);
  return has_any;
}

#endif /* TENON_TEST_BACKWARD_H_ */
