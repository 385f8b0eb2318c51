/* SPDX-License-Identifier: Apache-2.0
 * test/gradient.h: a part of test.h: gradients against difference quotients.
 *
 * At random points of the shapes of each example, the sum of the outputs, each
 * element weighted by a random number, is moved along single elements of the
 * inputs: (f(x+h) - f(x-h)) / 2h for two steps h, extrapolated to 0. It is done
 * in f64, or in f32 where the operator has no f64, and not at all where it has
 * neither. Where an operator `<name>_grad` exists, or the manifest says in
 * which inputs outputs are `linear`, the gradient is differentiated again, by a
 * tape.
 *
 * A quotient says nothing beside a kink or a pole. An element that disagrees
 * counts as one if the quotients to its left and right disagree too; if that is
 * so for half of the elements, the case fails, and the manifest should say
 * `gradcheck: {skip: why}`.
 */
#ifndef TENON_TEST_GRADIENT_H_
#define TENON_TEST_GRADIENT_H_

enum {
  TN_TEST_POINTS = 2,    /* of gradcheck: {points: ...} */
  TN_TEST_ELEMENTS = 12, /* of an input that are moved, at most */
  TN_TEST_LARGE = 4096   /* elements of an example that is passed over */
};

/* Where the numbers come from: the first interval in which the operator gives
 * finite results. */
static const double tn_test_intervals[][2] = {
    {-2, 2}, {0.125, 2}, {0.125, 0.875}, {1.125, 3}};

/* An example with moving inputs. */
typedef struct tn_test_slope {
  tn_test_subject *k;
  double eps;
  double tol;
  double kink; /* allowed difference between the quotients of both sides */
  bool moves[TN_TEST_MAX];
  tn_test_list weights; /* of the outputs */
  tn_test_list turns;   /* of the gradients, when they are differentiated */
} tn_test_slope;

/* A number that depends on the subject's inputs. */
typedef tn_code tn_test_function(tn_test_slope *s, double *value);

/* --------------------------------------------------------------- functions */

/* The weighted sum of the outputs; draws weights that are not there yet. */
static tn_code tn_test_sum(tn_test_slope *s, double *value) {
  tn_test *t = s->k->t;
  tn_test_call call;
  const int mark = t->n_arrays;
  *value = 0;
  tn_code rc = tn_test_call_new(s->k, TN_TEST_DENSE, &call);
  for (size_t i = 0; i < s->k->out.n && rc == TN_OK; ++i) {
    tn_test_values got;
    if (!tn_test_is_head(s->k, i, call.out[i])) continue;
    rc = tn_test_get(t, call.out[i], &got);
    if (rc == TN_OK && s->weights.v[i].v == NULL &&
        !tn_test_weigh(t, &s->weights.v[i], &got))
      rc = TN_OUT_OF_MEMORY;
    if (rc == TN_OK) *value += tn_test_dot(&s->weights.v[i], &got);
    free(got.v);
  }
  tn_test_release_to(t, mark);
  return rc;
}

/* Arrays of the weights, of the types of the outputs. */
static tn_code tn_test_heads(const tn_test_slope *s, const tn_test_call *call,
                             tn_array **heads) {
  tn_code rc = TN_OK;
  for (size_t i = 0; i < s->k->out.n && rc == TN_OK; ++i) {
    heads[i] = NULL;
    if (!tn_test_is_head(s->k, i, call->out[i])) continue;
    rc = tn_test_array(s->k->t, tn_array_tensor(call->out[i])->dtype,
                       &s->weights.v[i], &heads[i]);
  }
  return rc;
}

/* The gradients of that sum, by a backward call. The caller frees them. */
static tn_code tn_test_slopes(tn_test_slope *s, tn_test_list *out) {
  tn_test *t = s->k->t;
  tn_test_call forward, back;
  tn_array *heads[TN_TEST_MAX] = {NULL};
  const int mark = t->n_arrays;
  memset(&back, 0, sizeof back);
  tn_code rc = tn_test_call_new(s->k, TN_TEST_DENSE, &forward);
  if (rc == TN_OK) rc = tn_test_heads(s, &forward, heads);
  for (size_t i = 0; i < s->k->in.n; ++i)
    back.req[i] = s->moves[i] ? TN_REQ_WRITE : TN_REQ_NULL;
  if (rc == TN_OK) rc = tn_test_call_backward(s->k, &forward, heads, &back);
  for (size_t i = 0; i < s->k->in.n && rc == TN_OK; ++i)
    if (s->moves[i]) rc = tn_test_get(t, back.out[i], &out->v[i]);
  tn_test_release_to(t, mark);
  return rc;
}

/* The weighted sum of the gradients. */
static tn_code tn_test_sum_slopes(tn_test_slope *s, double *value) {
  static tn_test_list slopes;
  tn_code rc = tn_test_slopes(s, &slopes);
  *value = 0;
  for (size_t i = 0; i < s->k->in.n && rc == TN_OK; ++i) {
    if (!s->moves[i]) continue;
    if (s->turns.v[i].v == NULL &&
        !tn_test_weigh(s->k->t, &s->turns.v[i], &slopes.v[i]))
      rc = TN_OUT_OF_MEMORY;
    *value += tn_test_dot(&s->turns.v[i], &slopes.v[i]);
  }
  tn_test_list_free(&slopes);
  return rc;
}

/* A query of a tape: two lists of heads with their weights, and the moving
 * inputs. */
typedef struct tn_test_record {
  tn_test_call call;
  tn_array *of[TN_TEST_MAX];
  size_t at[TN_TEST_MAX]; /* places of those among the inputs */
  size_t n;
  tn_array *heads[TN_TEST_MAX];
  tn_array *weights[TN_TEST_MAX];
  size_t n_heads;
} tn_test_record;

/* Makes the call on the tape. The weights are watched too, so that gradients
 * depend on something even where they do not depend on the inputs. */
static tn_code tn_test_record_call(tn_test_slope *s, tn_tape *tape,
                                   tn_test_record *r) {
  const tn_test_subject *k = s->k;
  tn_array *all[TN_TEST_MAX] = {NULL};
  const tn_outputs out = {k->out.n, r->call.out, NULL};
  tn_code rc = tn_test_inputs(k, TN_TEST_DENSE, r->call.in);
  for (size_t i = 0; i < k->in.n && rc == TN_OK; ++i) {
    if (!s->moves[i]) continue;
    r->of[r->n] = r->call.in[i], r->at[r->n++] = i;
    rc = tn_tape_watch(tape, r->call.in[i]);
  }
  const tn_inputs in = {k->in.n + k->aux.n, r->call.in};
  if (rc == TN_OK) rc = tn_random_seed(k->t->rt, k->t->seed);
  const bool trains = (k->example->flags & TN_CALL_TRAIN) != 0;
  if (rc == TN_OK)
    rc = (trains ? tn_tape_call_train : tn_tape_call)(tape, k->op, &in,
                                                      k->params, &out);
  for (size_t i = 0; i < k->out.n && rc == TN_OK; ++i)
    if (r->call.out[i] != NULL) rc = tn_test_keep(k->t, rc, r->call.out[i]);
  if (rc == TN_OK) rc = tn_test_heads(s, &r->call, all);
  for (size_t i = 0; i < k->out.n && rc == TN_OK; ++i) {
    if (all[i] == NULL) continue;
    r->heads[r->n_heads] = r->call.out[i], r->weights[r->n_heads++] = all[i];
    rc = tn_tape_watch(tape, all[i]);
  }
  return rc;
}

/* Gradients of the weighted heads. */
static tn_code tn_test_record_query(const tn_test_slope *s, tn_tape *tape,
                                    const tn_test_record *r, uint32_t flags,
                                    tn_array **out) {
  const tn_tape_query query = {.struct_size = sizeof query,
                               .flags = flags,
                               .heads = {r->n_heads, r->heads},
                               .head_gradients = {r->n_heads, r->weights},
                               .of = {r->n, r->of},
                               .gradients = {r->n, out, NULL}};
  tn_code rc = tn_tape_gradient(tape, &query);
  for (size_t i = 0; i < r->n && rc == TN_OK; ++i)
    rc = tn_test_keep(s->k->t, rc, out[i]);
  return rc;
}

/* Whether a gradient depends on anything that is watched: one that is the same
 * everywhere does not, and is not on the tape. */
static bool tn_test_is_recorded(tn_tape *tape, const tn_test_record *r,
                                tn_array *gradient) {
  tn_array *unused = NULL;
  const tn_tape_query query = {.struct_size = sizeof query,
                               .flags = TN_TAPE_KEEP,
                               .heads = {r->n_heads, r->heads},
                               .of = {1, &gradient},
                               .gradients = {1, &unused, NULL}};
  const tn_code rc = tn_tape_gradient(tape, &query);
  tn_array_release(unused);
  return rc == TN_OK;
}

/* The first gradients become the heads, with their weights, but for those that
 * are not recorded. */
static tn_code tn_test_turn(const tn_test_slope *s, tn_tape *tape,
                            tn_array *const *first, tn_test_record *r) {
  tn_array *heads[TN_TEST_MAX];
  size_t n = 0;
  tn_code rc = TN_OK;
  for (size_t i = 0; i < r->n && rc == TN_OK; ++i) {
    if (!tn_test_is_recorded(tape, r, first[i])) continue;
    heads[n] = first[i];
    rc = tn_test_array(s->k->t, tn_array_tensor(first[i])->dtype,
                       &s->turns.v[r->at[i]], &r->weights[n++]);
  }
  memcpy(r->heads, heads, n * sizeof *heads);
  r->n_heads = n;
  return rc;
}

/* The gradients of the second sum, by a tape that records a gradient; zeros if
 * none of the first gradients is recorded. */
static tn_code tn_test_tape(tn_test_slope *s, tn_tape *tape,
                            tn_test_list *out) {
  tn_array *first[TN_TEST_MAX] = {NULL}, *second[TN_TEST_MAX] = {NULL};
  static tn_test_record r;
  memset(&r, 0, sizeof r);
  tn_code rc = tn_test_record_call(s, tape, &r);
  if (rc == TN_OK)
    rc = tn_test_record_query(s, tape, &r, TN_TAPE_RECORD, first);
  if (rc == TN_OK) rc = tn_test_turn(s, tape, first, &r);
  const bool any = r.n_heads > 0;
  if (rc == TN_OK && any) rc = tn_test_record_query(s, tape, &r, 0, second);
  for (size_t i = 0; i < r.n && rc == TN_OK; ++i) {
    tn_test_values *slopes = &out->v[r.at[i]];
    rc = tn_test_get(s->k->t, any ? second[i] : first[i], slopes);
    for (size_t j = 0; j < slopes->n && rc == TN_OK && !any; ++j)
      slopes->v[j] = 0;
  }
  return rc;
}

static tn_code tn_test_second_slopes(tn_test_slope *s, tn_test_list *out) {
  tn_tape *tape = NULL;
  const int mark = s->k->t->n_arrays;
  tn_code rc = tn_tape_create(s->k->t->rt, &tape);
  if (rc == TN_OK) rc = tn_test_tape(s, tape, out);
  tn_tape_release(tape);
  tn_test_release_to(s->k->t, mark);
  return rc;
}

/* -------------------------------------------------------------- quotients */

/* Element `i` of input `in`. */
typedef struct tn_test_element {
  size_t in;
  size_t i;
} tn_test_element;

/* The quotient of one element. */
typedef struct tn_test_quotient {
  double value;
  bool is_smooth;
} tn_test_quotient;

/* The function with one element of an input moved. */
static tn_code tn_test_at(tn_test_slope *s, tn_test_function *f,
                          const tn_test_element *at, double step,
                          double *value) {
  const tn_test_values *moved = &s->k->in.v[at->in];
  const double kept = moved->v[at->i];
  moved->v[at->i] = kept + step;
  tn_test_forget_typed(moved);
  const tn_code rc = f(s, value);
  moved->v[at->i] = kept;
  tn_test_forget_typed(moved);
  return rc;
}

static tn_code tn_test_differ(tn_test_slope *s, tn_test_function *f,
                              const tn_test_element *x, tn_test_quotient *out) {
  const double h = s->eps;
  double far[2], near[2], here = 0;
  tn_code rc = tn_test_at(s, f, x, 0, &here);
  if (rc == TN_OK) rc = tn_test_at(s, f, x, h, &far[1]);
  if (rc == TN_OK) rc = tn_test_at(s, f, x, -h, &far[0]);
  if (rc == TN_OK) rc = tn_test_at(s, f, x, h / 2, &near[1]);
  if (rc == TN_OK) rc = tn_test_at(s, f, x, -h / 2, &near[0]);
  if (rc != TN_OK) return rc;
  const double coarse = (far[1] - far[0]) / (2 * h);
  const double fine = (near[1] - near[0]) / h;
  const double limit = s->kink * fmax(1, fabs(fine));
  const double left = (here - near[0]) / (h / 2);
  const double right = (near[1] - here) / (h / 2);
  out->value = (4 * fine - coarse) / 3;
  out->is_smooth = isfinite(coarse) && isfinite(fine) &&
                   fabs(right - left) <= limit && fabs(coarse - fine) <= limit;
  return TN_OK;
}

/* How the elements of a point have fared. */
typedef struct tn_test_score {
  size_t n;
  size_t n_kinks;
  bool failed;
} tn_test_score;

/* Compares one element. */
static tn_code tn_test_compare_element(tn_test_slope *s, tn_test_function *f,
                                       const tn_test_values *slope,
                                       const tn_test_element *at,
                                       tn_test_score *score) {
  char index[256];
  tn_test_quotient q;
  const size_t in = at->in, i = at->i;
  const tn_test_values *x = &s->k->in.v[in];
  const tn_code rc = tn_test_differ(s, f, at, &q);
  if (rc != TN_OK) return rc;
  const double limit = s->tol * fmax(1, fabs(q.value));
  ++score->n;
  if (tn_test_near(slope->v[i], q.value, limit)) return TN_OK;
  if (!q.is_smooth) {
    ++score->n_kinks;
    return TN_OK;
  }
  score->failed = true;
  tn_test_index(index, sizeof index, x, i);
  tn_test_fail(s->k->t,
               "gradient of `%s` (%s), element (%s), where it is "
               "%.17g: expected %.12g (a difference quotient), got %.12g, "
               "tolerance %.3g",
               tn_test_arg(s->k->desc->inputs, s->k->desc->n_inputs, in)->name,
               s->k->types_text, index, x->v[i], q.value, slope->v[i], limit);
  return TN_OK;
}

static tn_code tn_test_elements(tn_test_slope *s, tn_test_function *f,
                                const tn_test_list *slopes,
                                tn_test_score *score) {
  tn_code rc = TN_OK;
  for (size_t in = 0; in < s->k->in.n; ++in) {
    const size_t n = s->moves[in] ? s->k->in.v[in].n : 0;
    const size_t tried = n < TN_TEST_ELEMENTS ? n : TN_TEST_ELEMENTS;
    for (size_t i = 0; i < tried && rc == TN_OK && !score->failed; ++i) {
      const tn_test_element at = {in,
                                  tried == n ? i : tn_test_draw(s->k->t) % n};
      rc = tn_test_compare_element(s, f, &slopes->v[in], &at, score);
    }
  }
  return rc;
}

/* ------------------------------------------------------------------- points
 */

static void tn_test_move(const tn_test_slope *s, const double *interval) {
  for (size_t i = 0; i < s->k->in.n; ++i) {
    for (size_t j = 0; j < s->k->in.v[i].n && s->moves[i]; ++j)
      s->k->in.v[i].v[j] = tn_test_uniform(s->k->t, interval[0], interval[1]);
    tn_test_forget_typed(&s->k->in.v[i]);
  }
}

/* Finds a point at which the sum is finite. */
static tn_code tn_test_find_point(tn_test_slope *s, bool *found) {
  const size_t n = sizeof tn_test_intervals / sizeof *tn_test_intervals;
  tn_code rc = TN_OK;
  *found = false;
  tn_test_list_free(&s->weights);
  tn_test_list_free(&s->turns);
  for (size_t i = 0; i < n && rc == TN_OK && !*found; ++i) {
    double value = 0;
    tn_test_move(s, tn_test_intervals[i]);
    rc = tn_test_sum(s, &value);
    *found = isfinite(value);
  }
  return rc;
}

static void tn_test_conclude(tn_test_slope *s, tn_code rc,
                             const tn_test_score *score) {
  if (score->failed) return;
  if (rc != TN_OK)
    tn_test_fail_code(s->k->t, rc);
  else if (2 * score->n_kinks > score->n)
    tn_test_fail(s->k->t,
                 "%zu of %zu elements are beside kinks; if that is as "
                 "it should be, say `gradcheck: {skip: why}`",
                 score->n_kinks, score->n);
  else
    tn_test_pass(s->k->t);
}

/* Whether gradients of the gradients exist: by an operator, or because outputs
 * are linear. */
static bool tn_test_has_grad(const tn_test_subject *k) {
  char name[256];
  tn_operator *op = NULL;
  const tn_gradient *g = k->desc->gradient;
  for (uint32_t i = 0; i < g->n_inputs; ++i)
    if (TN_HAS(g->inputs[i], linear) && g->inputs[i]->linear != 0) return true;
  (void)snprintf(name, sizeof name, "%.*s_grad", (int)strcspn(k->op_name, "@"),
                 k->op_name);
  return tn_operator_get(k->t->rt, name, &op) == TN_OK;
}

/* One case: the function's gradients, which `find` fetches, at the point where
 * the inputs are. */
static bool tn_test_compare_point(tn_test_slope *s, tn_test_function *f,
                                  tn_code (*find)(tn_test_slope *,
                                                  tn_test_list *)) {
  static tn_test_list slopes;
  tn_test_score score = {0};
  double unused = 0;
  tn_code rc = f(s, &unused);
  if (rc == TN_OK) rc = find(s, &slopes);
  if (rc == TN_OK) rc = tn_test_elements(s, f, &slopes, &score);
  tn_test_list_free(&slopes);
  tn_test_conclude(s, rc, &score);
  return rc == TN_OK && !score.failed;
}

/* Both orders at one point. */
static void tn_test_point(tn_test_slope *s, uint32_t number) {
  tn_test *t = s->k->t;
  bool found = false;
  const bool is_new = tn_test_begin(
      t, "%s %s: numeric gradient, %s, point %" PRIu32, s->k->op_name,
      s->k->example->name, s->k->types_text, number);
  if (!is_new && t->known->kind != TN_TEST_PASS) return;
  const tn_code rc = tn_test_find_point(s, &found);
  if (rc != TN_OK) {
    tn_test_fail_code(t, rc);
    return;
  }
  if (!found) {
    tn_test_fail(t,
                 "no random point gives finite results; say "
                 "`gradcheck: {skip: why}`");
    return;
  }
  if (is_new && !tn_test_compare_point(s, tn_test_sum, tn_test_slopes)) return;
  if (!tn_test_has_grad(s->k)) return;
  if (tn_test_begin(t, "%s %s: numeric second gradient, %s, point %" PRIu32,
                    s->k->op_name, s->k->example->name, s->k->types_text,
                    number))
    (void)tn_test_compare_point(s, tn_test_sum_slopes, tn_test_second_slopes);
}

/* ---------------------------------------------------------------- examples */

/* The type that is checked: f64, or f32, among those that are allowed; another
 * where there is no choice. */
static void tn_test_choose_types(tn_test_subject *k) {
  size_t n = 0;
  (void)snprintf(k->types_text, sizeof k->types_text, "any");
  for (uint32_t i = 0; i < k->desc->n_dtype_vars; ++i) {
    const uint64_t allowed = tn_test_allowed(k, i);
    int at = 0;
    while (at < TN_TEST_N_TYPES - 1 && (allowed >> at & 1) == 0) ++at;
    if ((allowed & TN_BIT_F32) != 0) at = 2;
    if ((allowed & TN_BIT_F64) != 0) at = 3;
    k->types[i] = tn_test_types[at].dtype;
    if (n < sizeof k->types_text)
      n += (size_t)snprintf(k->types_text + n, sizeof k->types_text - n, "%s%s",
                            i > 0 ? "/" : "", tn_test_types[at].name);
  }
}

/* Which inputs move; false if there is none, or too much to move. */
static bool tn_test_find_moves(tn_test_slope *s) {
  const tn_test_subject *k = s->k;
  const tn_gradient *g = k->desc->gradient;
  size_t n = 0;
  for (size_t i = 0; i < k->in.n; ++i) {
    const uint32_t at = i < g->n_inputs   ? (uint32_t)i
                        : g->n_inputs > 0 ? g->n_inputs - 1
                                          : 0;
    s->moves[i] = k->in.v[i].n > 0 && at < g->n_inputs &&
                  g->inputs[at]->stop == 0 &&
                  tn_test_is_float(k->sigs[TN_OPERAND_IN][i].dtype);
    if (s->moves[i]) n += k->in.v[i].n;
  }
  return n > 0 && n <= TN_TEST_LARGE;
}

/* The half type that a moving input or an output that counts has, in which
 * neighbours are too far apart for a quotient; NULL if there is none. */
static const char *tn_test_half(const tn_test_slope *s) {
  for (size_t i = 0; i < 2 * TN_TEST_MAX; ++i) {
    const bool in = i < TN_TEST_MAX;
    const size_t at = in ? i : i - TN_TEST_MAX;
    const tn_test_subject *k = s->k;
    const tn_sig *sig = &k->sigs[in ? TN_OPERAND_IN : TN_OPERAND_OUT][at];
    if (at >= (in ? k->in.n : k->out.n) || (in && !s->moves[at])) continue;
    if (sig->dtype == TN_F16 || sig->dtype == TN_BF16)
      return tn_test_type_of(sig->dtype)->name;
  }
  return NULL;
}

static bool tn_test_is_f64(const tn_test_slope *s) {
  for (size_t i = 0; i < s->k->in.n; ++i)
    if (s->moves[i] && s->k->sigs[TN_OPERAND_IN][i].dtype != TN_F64)
      return false;
  return true;
}

/* Whether f64 would have been chosen but for the kernel that is tried. */
static bool tn_test_is_narrowed(const tn_test_slope *s) {
  const tn_op *desc = s->k->desc;
  for (size_t i = 0; i < s->k->in.n && s->k->t->only != NULL; ++i) {
    const tn_arg *arg = tn_test_arg(desc->inputs, desc->n_inputs, i);
    if (s->moves[i] && s->k->sigs[TN_OPERAND_IN][i].dtype != TN_F64 &&
        arg->dtype_var != TN_NONE &&
        (desc->dtype_vars[arg->dtype_var]->allowed & TN_BIT_F64) != 0)
      return true;
  }
  return false;
}

/* The step and the tolerance: those of `gradcheck`, or by the type. `gradcheck`
 * is for the types that the operator's own tests choose; in f32 in their place
 * it is not finer than usual. */
static void tn_test_set_steps(tn_test_slope *s, const tn_test_operator *which) {
  const bool f64 = tn_test_is_f64(s), narrowed = tn_test_is_narrowed(s);
  const double eps = f64 ? 0x1p-13 : 0x1p-6, tol = f64 ? 1e-6 : 5e-3;
  s->eps = which->eps > 0 ? which->eps : eps;
  s->tol = which->tol > 0 ? which->tol : tol;
  if (narrowed && s->eps < eps) s->eps = eps;
  if (narrowed && s->tol < tol) s->tol = tol;
  s->kink = f64 ? 1e-2 : 0.25;
}

static void tn_test_slope_run(tn_test_slope *s, const tn_test_operator *which) {
  tn_test_subject *k = s->k;
  const uint32_t points = which->points > 0 ? which->points : TN_TEST_POINTS;
  k->place = (tn_place){TN_DEVICE_CPU, 0};
  k->place_name = "cpu";
  tn_test_choose_types(k);
  (void)tn_test_begin(k->t, "%s %s: numeric gradient, %s", k->op_name,
                      k->example->name, k->types_text);
  if (tn_test_has_died(k->t)) return;
  const tn_code rc = tn_test_infer(k);
  if (rc != TN_OK) {
    tn_test_skip(k->t, tn_error_text());
    return;
  }
  if (!tn_test_find_moves(s)) return;
  const char *half = tn_test_half(s);
  if (half != NULL) {
    char why[128];
    (void)snprintf(why, sizeof why,
                   "%s is too coarse for difference quotients, and neither f64 "
                   "nor f32 can replace it",
                   half);
    tn_test_skip(k->t, why);
    return;
  }
  tn_test_set_steps(s, which);
  for (uint32_t i = 1; i <= points; ++i) tn_test_point(s, i);
}

static void tn_test_run_slope(tn_test *t, tn_operator *op,
                              const tn_test_operator *which,
                              const tn_test_example *example) {
  tn_test_slope *s = calloc(1, sizeof *s);
  if (s != NULL) s->k = tn_test_subject_create(t, op, example);
  if (s != NULL && s->k != NULL) {
    tn_test_slope_run(s, which);
    tn_test_list_free(&s->weights), tn_test_list_free(&s->turns);
    tn_test_subject_free(s->k);
  }
  free(s);
}

/* Where no example tells shapes: all inputs of shape (2,3). */
static void tn_test_run_guess(tn_test *t, tn_operator *op,
                              const tn_test_operator *which) {
  char inputs[2048];
  size_t n = 0;
  const tn_op *desc = tn_operator_desc(op);
  tn_params *params = NULL;
  for (uint32_t i = 0; i < desc->n_inputs && n < sizeof inputs; ++i)
    n += (size_t)snprintf(inputs + n, sizeof inputs - n,
                          "%s=[[1, 1, 1], [1, 1, 1]] ", desc->inputs[i]->name);
  const char *text = which->params != NULL ? which->params : "";
  const tn_test_example guess = {
      .name = "guessed", .params = text, .inputs = inputs};
  (void)tn_test_begin(t, "%s: numeric gradient", which->name);
  if (n >= sizeof inputs || tn_params_parse(op, text, &params) != TN_OK)
    tn_test_skip(t, "no example tells parameters and shapes");
  else
    tn_test_run_slope(t, op, which, &guess);
  tn_params_release(params);
}

static void tn_test_run_gradient(tn_test *t, tn_operator *op,
                                 const tn_test_operator *which) {
  const tn_op *desc = tn_operator_desc(op);
  if (desc->gradient == NULL || desc->gradient->kind == TN_GRADIENT_NONE)
    return;
  if (which->skip != NULL) {
    (void)tn_test_begin(t, "%s: numeric gradient", which->name);
    tn_test_skip(t, which->skip);
    return;
  }
  for (size_t i = 0; i < which->n_examples; ++i)
    tn_test_run_slope(t, op, which, &which->examples[i]);
  if (which->n_examples == 0) tn_test_run_guess(t, op, which);
}

#endif /* TENON_TEST_GRADIENT_H_ */
