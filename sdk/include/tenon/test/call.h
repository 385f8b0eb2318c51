/* SPDX-License-Identifier: Apache-2.0
 * test/call.h: a part of test.h: one forward or backward call of an example, in
 * every layout and with every request; and that it changed nothing but its
 * outputs.
 */
#ifndef TENON_TEST_CALL_H_
#define TENON_TEST_CALL_H_

typedef enum tn_test_request {
  TN_TEST_NEW,     /* into new arrays */
  TN_TEST_WRITE,   /* into given ones that hold something else */
  TN_TEST_ADD,     /* added to the old content */
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
  size_t from; /* the input that an output is in place of */
} tn_test_case;

/* ------------------------------------------------------------------- arrays */

/* Sets every element to the one of the argument. */
static void tn_test_set_element(void *element, size_t size, void *arg) {
  memcpy(element, arg, size);
}

/* Sets every element of a packed array to a number. */
static tn_code tn_test_fill_packed(tn_test *t, tn_array *array, double value) {
  const size_t bytes = tn_test_bytes(array);
  char element[8];
  tn_code rc =
      tn_test_as_element(t, tn_array_tensor(array)->dtype, value, element);
  char *all = (char *)malloc(bytes + 1);
  if (rc == TN_OK && all == NULL) rc = TN_OUT_OF_MEMORY;
  if (rc == TN_OK) memset(all, element[0], bytes);
  if (rc == TN_OK) rc = tn_array_set(array, all, bytes);
  free(all);
  return rc;
}

/* An array of a signature on the subject's device, each element `value`. */
static tn_code tn_test_filled(const tn_test_subject *k, const tn_sig *sig,
                              tn_test_layout layout, double value,
                              tn_array **out) {
  tn_test_values one = {.n = 1, .v = &value};
  const tn_spec spec = {sig->dtype, sig->ndim, sig->shape};
  char element[8];
  tn_array *number = NULL, *all = NULL;
  tn_code rc = tn_test_empty(k->t, &spec, k->place, layout, out);
  if (rc == TN_OK && k->place.device_type == TN_DEVICE_CPU) {
    rc = tn_test_as_element(k->t, sig->dtype, value, element);
    if (rc == TN_OK)
      tn_test_each_element(tn_array_tensor(*out), tn_test_set_element, element);
    return rc;
  }
  if (rc == TN_OK && tn_dtype_is_packed(sig->dtype))
    return tn_test_fill_packed(k->t, *out, value);
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

/* Arrays of a list; NULL for operands that are not given. */
static tn_code tn_test_arrays(const tn_test_subject *k,
                              const tn_test_list *list, const tn_sig *sigs,
                              tn_test_layout layout, tn_array **out) {
  tn_code rc = TN_OK;
  for (size_t i = 0; i < list->n && rc == TN_OK; ++i) {
    const tn_test_spot spot = {k->place, tn_test_layout_of(layout, i)};
    out[i] = NULL;
    if (list->v[i].v != NULL)
      rc = tn_test_lay_values(k->t, &list->v[i], sigs[i].dtype, &spot, &out[i]);
  }
  return rc;
}

/* Inputs, then auxiliary states, which repeat no elements. */
static tn_code tn_test_inputs(const tn_test_subject *k, tn_test_layout layout,
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
  double offset[TN_TEST_MAX]; /* value of outputs before an addition */
} tn_test_call;

/* 1, or 0 where a sum would not fit. */
static double tn_test_offset(const tn_test_subject *k, tn_dtype dtype,
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
static tn_code tn_test_outputs(const tn_test_subject *k, const tn_test_case *c,
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

/* Outputs that count: users see them, and they can be differentiated. */
static bool tn_test_is_head(const tn_test_subject *k, size_t i,
                            tn_array *array) {
  const tn_arg *arg = tn_test_arg(k->desc->outputs, k->desc->n_outputs, i);
  return array != NULL && (arg->flags & TN_ARG_HIDDEN) == 0 &&
         tn_test_is_float(tn_array_tensor(array)->dtype);
}

/* ----------------------------------------------------------- changed memory */

/* A list of operands that a call reads: its name and declarations, for people,
 * and the arrays that the call writes. */
typedef struct tn_test_names {
  const char *list;
  const tn_arg *const *args;
  uint32_t n_args;
  tn_array *const *written; /* TN_TEST_MAX of them */
} tn_test_names;

static bool tn_test_is_written(const tn_test_names *names,
                               const tn_array *array) {
  for (size_t i = 0; i < TN_TEST_MAX; ++i)
    if (names->written[i] == array) return true;
  return false;
}

/* Notes the arrays of a list that are not written in place. */
static tn_code tn_test_note_list(const tn_test_subject *k,
                                 tn_array *const *arrays, size_t n,
                                 const tn_test_names *names) {
  tn_code rc = TN_OK;
  for (size_t i = 0; i < n && rc == TN_OK; ++i) {
    const tn_test_note about = {
        .list = names->list,
        .name = tn_test_arg(names->args, names->n_args, i)->name};
    if (!tn_test_is_written(names, arrays[i]))
      rc = tn_test_note_array(&k->t->notes, arrays[i], &about);
  }
  return rc;
}

static tn_code tn_test_note_inputs(const tn_test_subject *k,
                                   const tn_test_call *call) {
  const tn_test_names names = {"input", k->desc->inputs, k->desc->n_inputs,
                               call->out};
  return tn_test_note_list(k, call->in, k->in.n, &names);
}

/* States, of which some may be written. */
static tn_code tn_test_note_states(const tn_test_subject *k,
                                   tn_array *const *aux, bool may_change) {
  const bool train = (k->example->flags & TN_CALL_TRAIN) != 0;
  tn_code rc = TN_OK;
  for (size_t i = 0; i < k->aux.n && rc == TN_OK; ++i) {
    const tn_arg *arg = tn_test_arg(k->desc->aux, k->desc->n_aux, i);
    const bool rests = !train && (arg->flags & TN_ARG_TRAINED) != 0;
    const tn_test_note about = {
        .list = "state", .name = arg->name, .is_written = may_change && !rests};
    rc = tn_test_note_array(&k->t->notes, aux[i], &about);
  }
  return rc;
}

/* Given outputs; those that are not wanted may not change. */
static tn_code tn_test_note_outputs(const tn_test_subject *k,
                                    const tn_test_call *call, size_t n,
                                    const char *list) {
  const bool forward = strcmp(list, "output") == 0;
  const tn_arg *const *args = forward ? k->desc->outputs : k->desc->inputs;
  const uint32_t n_args = forward ? k->desc->n_outputs : k->desc->n_inputs;
  tn_code rc = TN_OK;
  for (size_t i = 0; i < n && rc == TN_OK; ++i) {
    const tn_test_note about = {.list = list,
                                .name = tn_test_arg(args, n_args, i)->name,
                                .is_written = call->req[i] != TN_REQ_NULL};
    rc = tn_test_note_array(&k->t->notes, call->out[i], &about);
  }
  return rc;
}

/* Names the floating-point modes that the call left; NULL if it left none. The
 * library has restored them. */
static const char *tn_test_find_modes(tn_test *t) {
  uint64_t modes = 0;
  const uint64_t n = tn_modes_restored(&modes);
  if (n == t->n_restored) return tn_watch_check_float(&t->watch);
  t->n_restored = n;
  const char *name = tn_watch_name_float(&t->watch, (uint32_t)modes & ~0x3fu,
                                         (uint16_t)(modes >> 32));
  return name != NULL ? name : "the floating-point modes";
}

/* Compares everything that a call may not change. */
static void tn_test_check_call(const tn_test_subject *k) {
  tn_test *t = k->t;
  char text[512];
  const char *arithmetic = tn_test_find_modes(t);
  if (arithmetic != NULL) {
    (void)snprintf(text, sizeof text,
                   "the kernel changed %s of the calling thread", arithmetic);
    tn_test_complain(t, text);
  }
  if (!tn_test_check_notes(&t->notes, text, sizeof text))
    tn_test_complain(t, text);
  if (k->struct_before != NULL &&
      memcmp(k->struct_before, tn_params_struct(k->params),
             k->desc->params_size) != 0)
    tn_test_complain(t, "the kernel wrote to its parameters");
  tn_test_drop_notes(&t->notes);
}

/* ------------------------------------------------------------------ the calls
 */

/* Keeps new arrays until the case ends, and waits for all. */
static tn_code tn_test_settle(tn_test *t, tn_array *const *arrays,
                              const bool *given, size_t n, tn_code rc) {
  for (size_t i = 0; i < n && rc == TN_OK; ++i)
    if (!given[i] && arrays[i] != NULL) rc = tn_test_keep(t, rc, arrays[i]);
  for (size_t i = 0; i < n && rc == TN_OK; ++i)
    if (arrays[i] != NULL) rc = tn_array_wait(arrays[i]);
  return rc;
}

/* Makes the call. New outputs are kept until the case ends. */
static tn_code tn_test_call_forward(const tn_test_subject *k,
                                    tn_test_call *call) {
  const tn_inputs in = {k->in.n + k->aux.n, call->in};
  const tn_outputs out = {k->out.n, call->out, call->req};
  bool given[TN_TEST_MAX];
  for (size_t i = 0; i < k->out.n; ++i) given[i] = call->out[i] != NULL;
  tn_code rc = tn_random_seed(k->t->rt, k->t->seed);
  if (rc == TN_OK) rc = tn_test_note_inputs(k, call);
  if (rc == TN_OK) rc = tn_test_note_states(k, call->in + k->in.n, true);
  if (rc == TN_OK) rc = tn_test_note_outputs(k, call, k->out.n, "output");
  if (rc == TN_OK)
    rc = (k->example->flags & TN_CALL_TRAIN ? tn_call_train : tn_call)(
        k->t->rt, k->op, &in, k->params, &out);
  if (rc != TN_UNSUPPORTED) ++k->t->n_calls[TN_PASS_FORWARD];
  rc = tn_test_settle(k->t, call->out, given, k->out.n, rc);
  if (rc == TN_OK) tn_test_check_call(k);
  tn_test_drop_notes(&k->t->notes);
  return rc;
}

/* A call on fresh inputs, with every output new. */
static tn_code tn_test_call_new(const tn_test_subject *k, tn_test_layout layout,
                                tn_test_call *call) {
  const tn_test_case plain = {layout, TN_TEST_NEW, 0, 0};
  memset(call, 0, sizeof *call);
  tn_code rc = tn_test_inputs(k, layout, call->in);
  if (rc == TN_OK)
    rc = tn_test_outputs(k, &plain, &k->out, k->sigs[TN_OPERAND_OUT], call);
  return rc == TN_OK ? tn_test_call_forward(k, call) : rc;
}

/* A call on fresh dense inputs, into given outputs where their shapes are
 * known, so that all have inaccessible pages. */
static tn_code tn_test_call_dense(const tn_test_subject *k,
                                  tn_test_call *call) {
  const tn_test_case c = {TN_TEST_DENSE,
                          k->is_fixed ? TN_TEST_WRITE : TN_TEST_NEW, 0, 0};
  memset(call, 0, sizeof *call);
  tn_code rc = tn_test_inputs(k, TN_TEST_DENSE, call->in);
  if (rc == TN_OK)
    rc = tn_test_outputs(k, &c, &k->out, k->sigs[TN_OPERAND_OUT], call);
  return rc == TN_OK ? tn_test_call_forward(k, call) : rc;
}

static tn_code tn_test_note_backward(const tn_test_subject *k,
                                     const tn_test_call *forward,
                                     tn_array *const *heads,
                                     const tn_test_call *back) {
  const tn_op *d = k->desc;
  const bool by_tape =
      d->gradient != NULL && d->gradient->kind == TN_GRADIENT_GRAPH;
  const tn_test_names in = {"input", d->inputs, d->n_inputs, back->out};
  const tn_test_names out = {"output", d->outputs, d->n_outputs, back->out};
  const tn_test_names head = {"output gradient", d->outputs, d->n_outputs,
                              back->out};
  tn_code rc = tn_test_note_list(k, forward->in, k->in.n, &in);
  if (rc == TN_OK) rc = tn_test_note_states(k, forward->in + k->in.n, by_tape);
  if (rc == TN_OK) rc = tn_test_note_list(k, forward->out, k->out.n, &out);
  if (rc == TN_OK) rc = tn_test_note_list(k, heads, k->out.n, &head);
  return rc != TN_OK ? rc : tn_test_note_outputs(k, back, k->in.n, "gradient");
}

/* Makes the backward call of a forward one: `heads` are the gradients of its
 * outputs, `back->out` and `back->req` the wanted gradients. */
static tn_code tn_test_call_backward(const tn_test_subject *k,
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
  if (rc == TN_OK) rc = tn_test_note_backward(k, forward, heads, back);
  if (rc == TN_OK) rc = tn_gradient_call(k->t->rt, k->op, &call);
  if (rc != TN_UNSUPPORTED) ++k->t->n_calls[TN_PASS_BACKWARD];
  rc = tn_test_settle(k->t, back->out, given, k->in.n, rc);
  if (rc == TN_OK) tn_test_check_call(k);
  tn_test_drop_notes(&k->t->notes);
  return rc;
}

/* --------------------------------------------------------------- comparisons
 */

/* Whether an output that was not wanted still has its old elements. */
static bool tn_test_untouched(const tn_test_subject *k, const char *name,
                              tn_array *array) {
  tn_test_values got;
  const tn_dtype dtype = tn_array_tensor(array)->dtype;
  const double seven = tn_test_stored(dtype, 7);
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
static bool tn_test_check(const tn_test_subject *k, const tn_test_list *want,
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

/* Names the case. False if an earlier child was at it. */
static bool tn_test_case_begin(const tn_test_subject *k, const char *what,
                               const tn_test_case *c) {
  const tn_arg *const *args =
      what[0] != '\0' ? k->desc->inputs : k->desc->outputs;
  const uint32_t n = what[0] != '\0' ? k->desc->n_inputs : k->desc->n_outputs;
  const tn_op *d = k->desc;
  const bool named = c->request >= TN_TEST_INPLACE;
  const bool shared = c->request == TN_TEST_INPLACE;
  return tn_test_begin(
      k->t, "%s %s%s: %s, %s, %s, %s%s%s%s%s", k->op_name, k->example->name,
      what, k->types_text, k->place_name, tn_test_layout_names[c->layout],
      tn_test_request_names[c->request], named ? " " : "",
      named ? tn_test_arg(args, n, c->which)->name : "", shared ? " in " : "",
      shared ? tn_test_arg(d->inputs, d->n_inputs, c->from)->name : "");
}

#endif /* TENON_TEST_CALL_H_ */
