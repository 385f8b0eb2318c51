/* SPDX-License-Identifier: Apache-2.0
 * einsum.c: the operators of einsum.yaml and einsum_second.yaml, independent of
 * the device. The steps
 * of a call follow from the equation and the shapes: halves become f32, labels
 * of one operand alone are summed, then pairs are contracted (contract.h). The
 * same code counts the bytes of the workspace and computes.
 */
#include "einsum.gen.h"
#include "einsum_second.gen.h"

#include "contract.h"
#include "einsum_labels.h"
#include "move.h"
#include "tenon/kernel/checked_size.h"

/* ------------------------------------------------------------------ shapes */

static int32_t read_equation(const tn_frame *call, uint32_t n_operands,
                             einsum_equation *e) {
  const char *text = tensor_einsum_params_of(call)->equation;
  const int32_t code = einsum_parse(call, text, e);
  if (code != TN_OK || (uint32_t)e->n_terms == n_operands) return code;
  return TN_FAIL(call, TN_SHAPE,
                 "`equation` %.256s is for %d operands; the call has %u", text,
                 (int)e->n_terms, n_operands);
}

/* The operands of a call as far as they are known. The text has the rank of an
 * operand without dots. */
typedef struct known_operands {
  tn_tensor of[EINSUM_TERMS];
  int64_t unknown[TN_MAX_NDIM];
  int are_ranked; /* all of them */
} known_operands;

static void find_known(const tn_tensor *operands, const einsum_equation *e,
                       known_operands *k) {
  k->are_ranked = 1;
  for (int32_t d = 0; d < TN_MAX_NDIM; ++d) k->unknown[d] = -1;
  for (int32_t i = 0; i < e->n_terms; ++i) {
    k->of[i] = operands[i];
    if (operands[i].ndim >= 0) continue;
    k->of[i].ndim = e->in[i].n;
    k->of[i].shape = k->unknown;
    if (e->in[i].ellipsis >= 0) k->are_ranked = 0;
  }
}

/* Sets the shape of operand i of a list, which has a term. Lengths of `...` may
 * differ among operands, so they are set for the output only. */
static int32_t set_term_shape(const tn_frame *call, const einsum_equation *e,
                              const einsum_term *term, uint32_t list,
                              uint32_t i) {
  int64_t shape[TN_MAX_NDIM];
  for (int32_t d = 0; d < term->n; ++d) {
    const int32_t label = term->label[d];
    shape[d] = e->length[label];
    if (label >= EINSUM_LETTERS && (term != &e->out || e->may_grow[label]))
      shape[d] = -1;
  }
  return call->host->set_shape(call, list, i, term->n, shape);
}

/* Infers the shapes of n operands, which begin at input `first`, and that of
 * the output, which is number 0 of a list. */
static int32_t infer_terms(const tn_frame *call, uint32_t first, uint32_t n,
                           uint32_t out_list) {
  einsum_equation e;
  known_operands known;
  int32_t code = read_equation(call, n, &e);
  if (code != TN_OK) return code;
  find_known(call->in + first, &e, &known);
  if (!known.are_ranked) return TN_OK;
  code = einsum_expand(call, known.of, &e);
  for (uint32_t i = 0; i < n && code == TN_OK; ++i)
    code = set_term_shape(call, &e, &e.in[i], TN_OPERAND_IN, first + i);
  return code == TN_OK ? set_term_shape(call, &e, &e.out, out_list, 0) : code;
}

int32_t tensor_einsum_infer(const tn_frame *call) {
  return infer_terms(call, 0, call->n_in, TN_OPERAND_OUT);
}

/* The inputs of a gradient are the output gradient, the operands and perhaps
 * the output. All operators of this file have the parameter `equation` alone.
 */
int32_t tensor_einsum_grad_infer(const tn_frame *call) {
  return infer_terms(call, 1, call->n_in - 2, TN_OPERAND_IN);
}

int32_t tensor_einsum_rhs_slope_infer(const tn_frame *call) {
  return infer_terms(call, 1, 2, TN_OPERAND_IN);
}

/* -------------------------------------------------------------------- steps */

/* An array with a label for each dimension; labels are distinct. */
typedef struct factor {
  tn_tensor memory; /* of any shape; its data is NULL while bytes are counted */
  int32_t n;
  int8_t label[TN_MAX_NDIM];
  int64_t step[TN_MAX_NDIM]; /* in elements */
} factor;

/* One evaluation of an equation. */
typedef struct evaluation {
  const tn_frame *call;
  const int64_t *length; /* of each label */
  tn_dtype dtype;        /* of the products */
  int counts;            /* nothing is computed */
  char *room;
  uint64_t used; /* bytes of room */
  uint64_t peak; /* the largest value of used */
  int32_t n;
  factor of[EINSUM_TERMS];
  factor out;
} evaluation;

static int find_label(const factor *f, int32_t label) {
  for (int32_t i = 0; i < f->n; ++i)
    if (f->label[i] == label) return i;
  return -1;
}

/* Adds a dimension; one with a known label goes along the diagonal. */
static void add_dim(factor *f, int32_t label, int64_t step) {
  const int i = find_label(f, label);
  if (i >= 0) {
    f->step[i] += step;
    return;
  }
  f->label[f->n] = (int8_t)label;
  f->step[f->n++] = step;
}

/* The factor of a dense operand. A dimension of length 1 that is repeated has
 * no label. */
static factor make_factor(const evaluation *v, const tn_tensor *operand,
                          const einsum_term *term) {
  factor f = {.memory = *operand};
  const int is_empty = tn_tensor_size(operand) == 0;
  int64_t step[TN_MAX_NDIM], next = 1;
  for (int32_t d = operand->ndim; d-- > 0;) {
    step[d] = next;
    next = is_empty ? 0 : next * operand->shape[d];
  }
  for (int32_t d = 0; d < operand->ndim; ++d)
    if (operand->shape[d] == v->length[term->label[d]])
      add_dim(&f, term->label[d], step[d]);
  return f;
}

/* The bytes for an array, rounded up; -1 if 64 bits do not hold them. */
static int64_t count_array_bytes(int64_t n, tn_dtype dtype) {
  const int64_t bytes = tn_size_times(n, tn_dtype_bytes(dtype));
  const int64_t more = bytes < 0 ? -1 : tn_size_plus(bytes, 63);
  return more < 0 ? -1 : more / 64 * 64;
}

/* Gets memory for n elements from the workspace. */
static int32_t take_room(evaluation *v, int64_t n, tn_dtype dtype,
                         void **data) {
  const int64_t bytes = n < 0 ? -1 : count_array_bytes(n, dtype);
  if (bytes < 0 || tn_size_plus((int64_t)v->used, bytes) < 0)
    return TN_FAIL(v->call, TN_OUT_OF_RANGE,
                   "a product of some operands is longer than 64 bits count");
  *data = v->counts ? NULL : v->room + v->used;
  v->used += (uint64_t)bytes;
  if (v->used > v->peak) v->peak = v->used;
  return TN_OK;
}

static int64_t count_elements(const evaluation *v, const factor *f) {
  int64_t shape[TN_MAX_NDIM];
  for (int32_t i = 0; i < f->n; ++i) shape[i] = v->length[f->label[i]];
  return tensor_elements(f->n, shape);
}

/* Gives a factor dense memory: its labels are set. */
static int32_t make_dense(evaluation *v, factor *f) {
  const int64_t n = count_elements(v, f);
  int64_t next = 1;
  f->memory = (tn_tensor){.dtype = v->dtype};
  for (int32_t i = f->n; i-- > 0; next *= n > 0 ? v->length[f->label[i]] : 0)
    f->step[i] = next;
  return take_room(v, n, v->dtype, &f->memory.data);
}

/* The elements of a factor as a tensor with the given labels. A label that it
 * lacks is repeated. */
static void make_view(const evaluation *v, const factor *f, int32_t n,
                      const int8_t *label, tensor_view *view) {
  view->tensor = f->memory;
  view->tensor.ndim = n;
  view->tensor.shape = view->shape;
  view->tensor.strides = view->strides;
  for (int32_t i = 0; i < n; ++i) {
    const int at = find_label(f, label[i]);
    view->shape[i] = v->length[label[i]];
    view->strides[i] = at < 0 ? 0 : f->step[at];
  }
}

/* Converts halves to f32. */
static int32_t widen_factor(evaluation *v, factor *f) {
  const factor old = *f;
  tensor_view from, to;
  if (f->memory.dtype == v->dtype) return TN_OK;
  const int32_t code = make_dense(v, f);
  if (code != TN_OK || v->counts) return code;
  make_view(v, &old, f->n, f->label, &from);
  make_view(v, f, f->n, f->label, &to);
  return tensor_convert(v->call, &to.tensor, &from.tensor);
}

/* Whether another factor, or the output, has a label. */
static int is_needed(const evaluation *v, int32_t label, const factor *a,
                     const factor *b) {
  if (find_label(&v->out, label) >= 0) return 1;
  for (int32_t i = 0; i < v->n; ++i)
    if (&v->of[i] != a && &v->of[i] != b && find_label(&v->of[i], label) >= 0)
      return 1;
  return 0;
}

/* Sums over the labels that only this factor has. */
static int32_t sum_alone(evaluation *v, factor *f) {
  const factor old = *f;
  int8_t label[TN_MAX_NDIM];
  int32_t n_summed = 0;
  tensor_view from, to;
  for (int32_t i = 0; i < old.n; ++i)
    if (!is_needed(v, old.label[i], f, NULL)) label[n_summed++] = old.label[i];
  if (n_summed == 0) return TN_OK;
  f->n = 0;
  for (int32_t i = 0; i < old.n; ++i)
    if (is_needed(v, old.label[i], f, NULL)) {
      label[n_summed + f->n] = old.label[i];
      f->label[f->n++] = old.label[i];
    }
  const int32_t code = make_dense(v, f);
  if (code != TN_OK || v->counts) return code;
  make_view(v, &old, old.n, label, &from);
  make_view(v, f, f->n, f->label, &to);
  return tensor_sum_front(v->call, &to.tensor, &from.tensor, n_summed);
}

/* -------------------------------------------------------------------- pairs */

/* A pair of factors and the labels of its contraction, by kinds. */
typedef struct pair {
  int32_t a, b;
  int32_t n[TENSOR_DIM_KINDS];
  int8_t label[TENSOR_DIM_KINDS][TN_MAX_NDIM];
} pair;

static void add_label(pair *p, int kind, int8_t label) {
  p->label[kind][p->n[kind]++] = label;
}

static void sort_labels(const evaluation *v, pair *p) {
  const factor *a = &v->of[p->a], *b = &v->of[p->b];
  for (int k = 0; k < TENSOR_DIM_KINDS; ++k) p->n[k] = 0;
  for (int32_t i = 0; i < a->n; ++i) {
    const int8_t label = a->label[i];
    if (find_label(b, label) < 0)
      add_label(p, TENSOR_LEFT, label);
    else
      add_label(p, is_needed(v, label, a, b) ? TENSOR_BATCH : TENSOR_SUMMED,
                label);
  }
  for (int32_t i = 0; i < b->n; ++i)
    if (find_label(a, b->label[i]) < 0) add_label(p, TENSOR_RIGHT, b->label[i]);
}

/* Elements of the result of a pair; its rank may be too large. */
static int64_t count_result(const evaluation *v, const pair *p) {
  int64_t shape[TENSOR_MOST_DIMS];
  int32_t n = 0;
  for (int k = 0; k < TENSOR_SUMMED; ++k)
    for (int32_t i = 0; i < p->n[k]; ++i)
      shape[n++] = v->length[p->label[k][i]];
  const int64_t size = tensor_elements(n, shape);
  return size < 0 || n > TN_MAX_NDIM ? INT64_MAX : size;
}

/* Chooses the pair with the smallest result, of equal ones the first. */
static pair choose_pair(const evaluation *v) {
  pair best = {.a = 0, .b = 1};
  int64_t least = INT64_MAX;
  sort_labels(v, &best);
  for (int32_t a = 0; a < v->n && v->n > 2; ++a)
    for (int32_t b = a + 1; b < v->n; ++b) {
      pair p = {.a = a, .b = b};
      sort_labels(v, &p);
      const int64_t size = count_result(v, &p);
      if (size >= least) continue;
      least = size;
      best = p;
    }
  return best;
}

/* Orders the labels of each kind as the output has them, so that the last
 * result may be written there. */
static void order_as_output(const evaluation *v, pair *p) {
  for (int k = 0; k < TENSOR_SUMMED; ++k) {
    int32_t n = 0;
    int8_t old[TN_MAX_NDIM];
    for (int32_t i = 0; i < p->n[k]; ++i) old[i] = p->label[k][i];
    for (int32_t d = 0; d < v->out.n; ++d)
      for (int32_t i = 0; i < p->n[k]; ++i)
        if (old[i] == v->out.label[d]) p->label[k][n++] = old[i];
  }
}

/* Whether the labels of the result are those of the output, which is dense. */
static int is_output_order(const evaluation *v, const pair *p) {
  int32_t d = 0;
  for (int k = 0; k < TENSOR_SUMMED; ++k)
    for (int32_t i = 0; i < p->n[k]; ++i, ++d)
      if (d == v->out.n || p->label[k][i] != v->out.label[d]) return 0;
  int64_t next = 1;
  for (int32_t i = v->out.n; i-- > 0; next *= v->length[v->out.label[i]])
    if (v->out.step[i] != next) return 0;
  return d == v->out.n && v->out.memory.dtype == v->dtype &&
         count_elements(v, &v->out) == tn_tensor_size(&v->out.memory);
}

static void swap_pair(pair *p) {
  const pair old = *p;
  p->a = old.b;
  p->b = old.a;
  p->n[TENSOR_LEFT] = old.n[TENSOR_RIGHT];
  p->n[TENSOR_RIGHT] = old.n[TENSOR_LEFT];
  for (int i = 0; i < TN_MAX_NDIM; ++i) {
    p->label[TENSOR_LEFT][i] = old.label[TENSOR_RIGHT][i];
    p->label[TENSOR_RIGHT][i] = old.label[TENSOR_LEFT][i];
  }
}

static tensor_contraction make_contraction(const evaluation *v, const pair *p) {
  const factor *a = &v->of[p->a], *b = &v->of[p->b];
  tensor_contraction c = {0};
  for (int k = 0; k < TENSOR_DIM_KINDS; ++k) {
    c.first[k] = c.n;
    for (int32_t i = 0; i < p->n[k]; ++i, ++c.n) {
      const int32_t label = p->label[k][i];
      const int at_a = find_label(a, label), at_b = find_label(b, label);
      c.length[c.n] = v->length[label];
      c.step_a[c.n] = at_a < 0 ? 0 : a->step[at_a];
      c.step_b[c.n] = at_b < 0 ? 0 : b->step[at_b];
    }
  }
  c.first[TENSOR_DIM_KINDS] = c.n;
  return c;
}

/* The result of a pair: a new factor, or the output itself. */
static int32_t make_result(evaluation *v, const pair *p, int is_last,
                           factor *result) {
  *result = v->out;
  if (is_last && is_output_order(v, p)) return TN_OK;
  result->n = 0;
  if (p->n[TENSOR_BATCH] + p->n[TENSOR_LEFT] + p->n[TENSOR_RIGHT] > TN_MAX_NDIM)
    return TN_FAIL(v->call, TN_SHAPE,
                   "the product of two operands would have more than %d "
                   "dimensions: divide the equation into several calls",
                   TN_MAX_NDIM);
  for (int k = 0; k < TENSOR_SUMMED; ++k)
    for (int32_t i = 0; i < p->n[k]; ++i)
      result->label[result->n++] = p->label[k][i];
  return make_dense(v, result);
}

/* Contracts a pair; the result replaces the first factor. */
static int32_t contract_pair(evaluation *v) {
  pair p = choose_pair(v);
  const int is_last = v->n == 2;
  factor result;
  void *room = NULL;
  if (is_last) order_as_output(v, &p);
  if (is_last && !is_output_order(v, &p)) {
    swap_pair(&p);
    if (!is_output_order(v, &p)) swap_pair(&p);
  }
  int32_t code = make_result(v, &p, is_last, &result);
  const tensor_contraction c = make_contraction(v, &p);
  const uint64_t before = v->used;
  if (code == TN_OK)
    code = take_room(v, (int64_t)tensor_contract_bytes(&c, v->dtype), TN_U8,
                     &room);
  if (code == TN_OK && !v->counts) {
    const tensor_factors f = {&v->of[p.a].memory, &v->of[p.b].memory,
                              &result.memory, room};
    code = tensor_contract(v->call, &c, &f);
  }
  v->used = before; /* the copies end here */
  const int32_t first = p.a < p.b ? p.a : p.b, last = p.a < p.b ? p.b : p.a;
  v->of[first] = result;
  v->of[last] = v->of[--v->n];
  return code;
}

/* --------------------------------------------------------------- evaluation */

/* Copies the last factor to the output; its diagonal alone if labels are
 * repeated. */
static int32_t write_output(evaluation *v) {
  tensor_view from, to;
  if (v->of[0].memory.data == v->out.memory.data || v->counts) return TN_OK;
  make_view(v, &v->of[0], v->out.n, v->out.label, &from);
  make_view(v, &v->out, v->out.n, v->out.label, &to);
  if (to.tensor.dtype != from.tensor.dtype)
    return tensor_convert(v->call, &to.tensor, &from.tensor);
  return tensor_copy(v->call, &to.tensor, &from.tensor);
}

/* Evaluates v->of into v->out, or counts the bytes of that. */
static int32_t evaluate_factors(evaluation *v) {
  int32_t code = TN_OK;
  if (count_elements(v, &v->out) == 0) return TN_OK;
  for (int32_t i = 0; i < v->n && code == TN_OK; ++i) {
    code = widen_factor(v, &v->of[i]);
    if (code == TN_OK) code = sum_alone(v, &v->of[i]);
  }
  while (v->n > 1 && code == TN_OK) code = contract_pair(v);
  return code == TN_OK ? write_output(v) : code;
}

static tn_dtype find_product_dtype(tn_dtype dtype) {
  return dtype == TN_F16 || dtype == TN_BF16 ? TN_F32 : dtype;
}

static evaluation make_evaluation(const tn_frame *call,
                                  const einsum_equation *e, int counts) {
  return (evaluation){
      .call = call,
      .length = e->length,
      .dtype = find_product_dtype(call->in[0].dtype),
      .counts = counts,
      .room = !counts && call->n_ws > 0 ? (char *)call->ws[0] : NULL};
}

/* The forward call. Sets *bytes if it only counts. */
static int32_t run_forward(const tn_frame *call, int counts, uint64_t *bytes) {
  einsum_equation e;
  int32_t code = read_equation(call, call->n_in, &e);
  if (code == TN_OK) code = einsum_expand(call, call->in, &e);
  if (code != TN_OK) return code;
  evaluation v = make_evaluation(call, &e, counts);
  for (uint32_t i = 0; i < call->n_in; ++i)
    v.of[v.n++] = make_factor(&v, &call->in[i], &e.in[i]);
  v.out = make_factor(&v, &call->out[0], &e.out);
  code = evaluate_factors(&v);
  *bytes = v.peak;
  return code;
}

/* The gradient of operand i: the factors are the output gradient and the other
 * operands. in = [gradient of out, operands..., out] */
static int32_t run_gradient(const tn_frame *call, const einsum_equation *e,
                            uint32_t i, int counts, uint64_t *bytes) {
  evaluation v = make_evaluation(call, e, counts);
  v.of[v.n++] = make_factor(&v, &call->in[0], &e->out);
  for (uint32_t k = 0; k < call->n_out; ++k)
    if (k != i) v.of[v.n++] = make_factor(&v, &call->in[1 + k], &e->in[k]);
  v.out = make_factor(&v, &call->out[i], &e->in[i]);
  int32_t code = TN_OK;
  if (!counts && count_elements(&v, &v.out) < tn_tensor_size(&call->out[i]))
    code = tensor_fill_zeros(call, &call->out[i]);
  if (code == TN_OK) code = evaluate_factors(&v);
  *bytes = v.peak;
  return code;
}

static int32_t run_backward(const tn_frame *call, int counts, uint64_t *bytes) {
  einsum_equation e;
  uint64_t own;
  int32_t code = read_equation(call, call->n_out, &e);
  if (code == TN_OK) code = einsum_expand(call, call->in + 1, &e);
  *bytes = 0;
  for (uint32_t i = 0; i < call->n_out && code == TN_OK; ++i) {
    if (call->req[i] == TN_REQ_NULL) continue;
    code = run_gradient(call, &e, i, counts, &own);
    if (own > *bytes) *bytes = own;
  }
  return code;
}

int32_t tensor_einsum(const tn_frame *call) {
  uint64_t bytes;
  return run_forward(call, 0, &bytes);
}

int32_t tensor_einsum_backward(const tn_frame *call) {
  uint64_t bytes;
  return run_backward(call, 0, &bytes);
}

int32_t tensor_einsum_bytes(const tn_frame *call, uint64_t *bytes) {
  return call->flags & TN_CALL_BACKWARD ? run_backward(call, 1, bytes)
                                        : run_forward(call, 1, bytes);
}

/* --------------------------------------------------- gradients as operators */

static tn_frame make_backward_frame(const tn_frame *call) {
  tn_frame frame = *call;
  frame.flags |= TN_CALL_BACKWARD;
  return frame;
}

int32_t tensor_einsum_grad(const tn_frame *call) {
  const tn_frame frame = make_backward_frame(call);
  return tensor_einsum_backward(&frame);
}

int32_t tensor_einsum_grad_bytes(const tn_frame *call, uint64_t *bytes) {
  const tn_frame frame = make_backward_frame(call);
  return tensor_einsum_bytes(&frame, bytes);
}

/* The gradient of the second of two operands. */
static int32_t run_rhs_gradient(const tn_frame *call, int counts,
                                uint64_t *bytes) {
  const tn_tensor out[] = {call->in[1], call->out[0]};
  einsum_equation e;
  tn_frame frame = make_backward_frame(call);
  frame.n_out = 2;
  frame.out = out;
  *bytes = 0;
  int32_t code = read_equation(&frame, 2, &e);
  if (code == TN_OK) code = einsum_expand(&frame, call->in + 1, &e);
  return code == TN_OK ? run_gradient(&frame, &e, 1, counts, bytes) : code;
}

int32_t tensor_einsum_rhs_slope(const tn_frame *call) {
  uint64_t bytes;
  return run_rhs_gradient(call, 0, &bytes);
}

int32_t tensor_einsum_rhs_slope_bytes(const tn_frame *call, uint64_t *bytes) {
  return run_rhs_gradient(call, 1, bytes);
}
