/* SPDX-License-Identifier: Apache-2.0
 * test/partial.h: a part of test.h: shapes and types that are known in part.
 * The signature of an example is the truth. A part of it is hidden; inference
 * may then find out less, but nothing else: a number that it states must be
 * that of the example, and it must not call true facts a contradiction.
 */
#ifndef TENON_TEST_PARTIAL_H_
#define TENON_TEST_PARTIAL_H_

/* A signature with a hidden part. */
typedef struct tn_test_partial {
  tn_sig sigs[3][TN_TEST_MAX];
  tn_signature io;
  bool usual[TN_TEST_MAX]; /* inputs that may get a usual shape instead */
  char hidden[96];         /* for messages: "shape of `data`" */
} tn_test_partial;

static const tn_arg *tn_test_operand(const tn_test_subject *k, uint32_t list,
                                     size_t i) {
  const tn_op *d = k->desc;
  return list == TN_OPERAND_IN    ? tn_test_arg(d->inputs, d->n_inputs, i)
         : list == TN_OPERAND_OUT ? tn_test_arg(d->outputs, d->n_outputs, i)
                                  : tn_test_arg(d->aux, d->n_aux, i);
}

static uint32_t tn_test_operand_count(const tn_test_subject *k, uint32_t list) {
  return list == TN_OPERAND_IN    ? k->io.n_in
         : list == TN_OPERAND_OUT ? k->io.n_out
                                  : k->io.n_aux;
}

/* Hides a length of an operand, or its whole shape (-1). A hook may choose the
 * usual one of several shapes for an input of which nothing else says more. */
static void tn_test_hide_length(const tn_test_subject *k, tn_test_partial *p,
                                uint32_t list, uint32_t i, int32_t length) {
  tn_sig *sig = &p->sigs[list][i];
  if (length < 0)
    sig->ndim = -1;
  else
    sig->shape[length] = -1;
  if (list == TN_OPERAND_IN) p->usual[i] = k->desc->infer != NULL;
}

/* The whole truth, or that of the inputs alone. */
static void tn_test_partial_begin(const tn_test_subject *k, tn_test_partial *p,
                                  bool with_outputs) {
  memcpy(p->sigs, k->sigs, sizeof p->sigs);
  p->io = k->io;
  memset(p->usual, 0, sizeof p->usual);
  p->io.in = p->sigs[TN_OPERAND_IN];
  p->io.out = p->sigs[TN_OPERAND_OUT];
  p->io.aux = p->sigs[TN_OPERAND_AUX];
  for (size_t i = 0; i < TN_TEST_MAX && !with_outputs; ++i) {
    p->sigs[TN_OPERAND_OUT][i] = (tn_sig){.ndim = -1};
    p->sigs[TN_OPERAND_AUX][i] = (tn_sig){.ndim = -1};
  }
}

/* Whether `got` states nothing but the truth, and no less than `before`. */
static bool tn_test_sig_agrees(const tn_sig *truth, const tn_sig *before,
                               const tn_sig *got) {
  if (got->dtype == TN_DTYPE_UNKNOWN
          ? before->dtype != TN_DTYPE_UNKNOWN
          : truth->dtype != TN_DTYPE_UNKNOWN && got->dtype != truth->dtype)
    return false;
  if (got->ndim == -1 || truth->ndim == -1) return before->ndim == -1;
  if (got->ndim != truth->ndim) return false;
  for (int32_t d = 0; d < got->ndim; ++d) {
    const bool was_known = before->ndim >= 0 && before->shape[d] >= 0;
    if (got->shape[d] < 0
            ? was_known
            : truth->shape[d] >= 0 && got->shape[d] != truth->shape[d])
      return false;
  }
  return true;
}

static bool tn_test_sig_is_known(const tn_sig *sig) {
  bool known =
      sig->ndim == -2 || (sig->ndim >= 0 && sig->dtype != TN_DTYPE_UNKNOWN);
  for (int32_t d = 0; d < sig->ndim; ++d) known &= sig->shape[d] >= 0;
  return known;
}

/* Infers the rest. False after the case has failed. */
static bool tn_test_partial_infers(const tn_test_subject *k,
                                   tn_test_partial *p) {
  tn_test_partial before = *p;
  const tn_code rc = tn_operator_infer(k->op, k->params, &p->io);
  if (rc != TN_OK && rc != TN_INCOMPLETE) {
    tn_test_fail(k->t, "without the %s, inference refuses the example: %s",
                 p->hidden, tn_error_text());
    return false;
  }
  for (uint32_t list = 0; list < 3; ++list)
    for (uint32_t i = 0; i < tn_test_operand_count(k, list); ++i) {
      const tn_sig *got = &p->sigs[list][i];
      const char *name = tn_test_operand(k, list, i)->name;
      const bool is_usual = list == TN_OPERAND_IN && p->usual[i];
      if (!is_usual &&
          !tn_test_sig_agrees(&k->sigs[list][i], &before.sigs[list][i], got)) {
        tn_test_fail(k->t,
                     "without the %s, inference states for `%s` a rank, length "
                     "or type that the example does not have, or loses one",
                     p->hidden, name);
        return false;
      }
      if (rc == TN_OK && !tn_test_sig_is_known(got) && k->is_fixed) {
        tn_test_fail(k->t,
                     "without the %s, inference returns TN_OK, but `%s` is not "
                     "known",
                     p->hidden, name);
        return false;
      }
    }
  return true;
}

/* Hides in turn the type, the shape and each length of one operand. */
static bool tn_test_hide_operand(const tn_test_subject *k, uint32_t list,
                                 uint32_t i, bool with_outputs) {
  const tn_sig *truth = &k->sigs[list][i];
  const char *name = tn_test_operand(k, list, i)->name;
  for (int32_t part = -2; part < truth->ndim; ++part) {
    tn_test_partial p;
    tn_test_partial_begin(k, &p, with_outputs);
    if (part == -2)
      p.sigs[list][i].dtype = TN_DTYPE_UNKNOWN;
    else
      tn_test_hide_length(k, &p, list, i, part);
    if (part < 0)
      (void)snprintf(p.hidden, sizeof p.hidden, "%s of `%.60s`%s",
                     part == -2 ? "type" : "shape", name,
                     with_outputs ? "" : " and all outputs");
    else
      (void)snprintf(p.hidden, sizeof p.hidden, "length %d of `%.60s`%s",
                     (int)part, name, with_outputs ? "" : " and all outputs");
    if (!tn_test_partial_infers(k, &p)) return false;
  }
  return true;
}

/* Knows the outputs only. */
static bool tn_test_hide_inputs(const tn_test_subject *k) {
  tn_test_partial p;
  tn_test_partial_begin(k, &p, true);
  (void)snprintf(p.hidden, sizeof p.hidden, "shapes of all inputs");
  for (uint32_t i = 0; i < k->io.n_in; ++i)
    if (p.sigs[TN_OPERAND_IN][i].ndim >= 0)
      tn_test_hide_length(k, &p, TN_OPERAND_IN, i, -1);
  return tn_test_partial_infers(k, &p);
}

/* Once for each example. */
static void tn_test_run_partial(tn_test_subject *k) {
  if (k->partial_done) return;
  k->partial_done = true;
  ++k->t->n_inferred;
  if (!tn_test_begin(k->t, "%s %s: partial shapes", k->op_name,
                     k->example->name))
    return;
  for (uint32_t list = 0; list < 3; ++list)
    for (uint32_t i = 0; i < tn_test_operand_count(k, list); ++i) {
      if (k->sigs[list][i].ndim < 0) continue;
      if (!tn_test_hide_operand(k, list, i, true)) return;
      if (list == TN_OPERAND_IN && !tn_test_hide_operand(k, list, i, false))
        return;
    }
  if (tn_test_hide_inputs(k)) tn_test_pass(k->t);
}

#endif /* TENON_TEST_PARTIAL_H_ */
