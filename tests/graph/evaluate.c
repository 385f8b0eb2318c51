/* SPDX-License-Identifier: Apache-2.0
 * evaluate.c: see evaluate.h.
 */
#include "evaluate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* -------------------------------------------------------------------- arrays
 */

size_t n_elements(const tn_array *array) {
  return (size_t)tn_tensor_size(&array->tensor);
}

double *elements_of(tn_array *array) {
  const size_t n = n_elements(array);
  double *v = malloc((n + 1) * sizeof *v);
  cr_assert_eq(array->tensor.dtype, TN_F64);
  OK(tn__array_get(array, v, n * sizeof *v));
  return v;
}

tn_array *create_doubles(size_t ndim, const int64_t *shape,
                         const double *values) {
  tn_array *array = empty(TN_F64, ndim, shape);
  OK(tn__array_set(array, values, n_elements(array) * sizeof *values));
  return array;
}

static void put_number(void *to, tn_dtype dtype, int64_t i, double number) {
  if (dtype == TN_F64) ((double *)to)[i] = number;
  if (dtype == TN_F32) ((float *)to)[i] = (float)number;
  if (dtype == TN_F16) ((uint16_t *)to)[i] = tn__f32_to_f16((float)number);
  if (dtype == TN_I32) ((int32_t *)to)[i] = (int32_t)(64 * number);
}

tn_array *numbers_of(tn_dtype dtype, size_t ndim, const int64_t *shape,
                     double (*number)(int64_t i)) {
  tn_array *array = empty(dtype, ndim, shape);
  const size_t n = n_elements(array);
  const size_t bytes = n * (size_t)tn_dtype_bytes(dtype);
  void *values = malloc(bytes + 1);
  for (size_t i = 0; i < n; ++i)
    put_number(values, dtype, (int64_t)i, number((int64_t)i));
  OK(tn__array_set(array, values, bytes));
  free(values);
  return array;
}

void *bytes_of(tn_array *array, size_t *n) {
  *n = n_elements(array) * (size_t)tn_dtype_bytes(array->tensor.dtype);
  void *bytes = malloc(*n + 1);
  OK(tn__array_get(array, bytes, *n));
  return bytes;
}

static tn_array *create_like(const tn_sig *like, double value) {
  tn_array *array = empty(TN_F64, (size_t)like->ndim, like->shape);
  const size_t n = n_elements(array);
  double *v = malloc((n + 1) * sizeof *v);
  for (size_t i = 0; i < n; ++i) v[i] = value;
  OK(tn__array_set(array, v, n * sizeof *v));
  free(v);
  return array;
}

/* ---------------------------------------------------------------- evaluation
 */

typedef struct evaluation {
  tn_graph *g;
  const feed *feeds;
  size_t n_feeds;
  tn_array **values; /* per entry */
  uint8_t *used;     /* per entry: an operand of some node */
} evaluation;

static tn_array *value_of(const evaluation *e, tn_entry entry) {
  if (tn__entry_is_none(entry)) return NULL;
  tn_array *array = e->values[tn__entry_id(e->g, entry)];
  cr_assert_not_null(array, "entry %u.%u was not computed", entry.node,
                     entry.index);
  return array;
}

static void set_operand(evaluation *e, const tn__node *node, uint32_t i,
                        tn_array *array) {
  e->values[node->first + i] = array;
}

static void run_variable(evaluation *e, const tn__node *node) {
  for (size_t i = 0; i < e->n_feeds; ++i)
    if (strcmp(e->feeds[i].name, node->name) == 0) {
      set_operand(e, node, 0, tn__array_retain(e->feeds[i].array));
      return;
    }
  cr_assert_fail("no array for variable %s", node->name);
}

static void run_call(evaluation *e, const tn__node *node) {
  const uint32_t n = node->n_in + node->n_aux;
  tn_array **in = calloc(n + 1, sizeof *in);
  tn_array **out = calloc(node->n_out + 1, sizeof *out);
  const tn__target_op target = {&w.caller, node->op, node->params,
                                TN_PASS_FORWARD, TN_CALL_TRAIN};
  for (uint32_t i = 0; i < n; ++i) in[i] = value_of(e, node->in[i]);
  OK(tn__call(&target, &(tn_inputs){n, in},
              &(tn_outputs){node->n_out, out, NULL}));
  for (uint32_t i = 0; i < node->n_out; ++i) set_operand(e, node, i, out[i]);
  free(in);
  free(out);
}

/* The operand at a position of a BACKWARD node: NaN in the right shape, unless
 * the node reads it. */
static tn_array *wired_operand(const evaluation *e, const tn__node *node,
                               uint32_t at, tn_entry real) {
  const bool metadata = node->in_flags && (node->in_flags[at] & TN_IN_METADATA);
  if (tn__entry_is_none(real)) return NULL;
  if (!tn__entry_is_none(node->in[at]) && !metadata)
    return tn__array_retain(value_of(e, node->in[at]));
  return create_like(tn__entry_sig(e->g, real), (double)NAN);
}

static void run_backward(evaluation *e, const tn__node *node) {
  const tn__node *of = tn__node_at(e->g, node->of);
  const uint32_t n_in = of->n_in, n_out = of->n_out;
  tn_array **list = calloc(2 * (n_in + n_out) + of->n_aux + 1, sizeof *list);
  tn_array **heads = list, **in = heads + n_out, **out = in + n_in + of->n_aux;
  tn_array **grads = out + n_out;
  tn_req *req = calloc(n_in + 1, sizeof *req);
  for (uint32_t i = 0; i < n_out; ++i) {
    heads[i] = wired_operand(e, node, i, (tn_entry){of->id, i});
    out[i] = wired_operand(e, node, n_out + n_in + i, (tn_entry){of->id, i});
  }
  for (uint32_t i = 0; i < n_in; ++i) {
    in[i] = wired_operand(e, node, n_out + i, of->in[i]);
    req[i] = e->used[node->first + i] ? TN_REQ_WRITE : TN_REQ_NULL;
  }
  for (uint32_t i = 0; i < of->n_aux; ++i) /* no gradient reads a state */
    in[n_in + i] =
        create_like(tn__entry_sig(e->g, of->in[n_in + i]), (double)NAN);
  const tn_backward call = {.struct_size = sizeof call,
                            .flags = TN_CALL_TRAIN,
                            .params = node->params,
                            .inputs = {n_in + of->n_aux, in},
                            .outputs = {n_out, out},
                            .out_grads = {n_out, heads},
                            .in_grads = {n_in, grads, req}};
  OK(tn__call_backward(&w.caller, node->op, &call));
  for (uint32_t i = 0; i < n_in; ++i) set_operand(e, node, i, grads[i]);
  for (uint32_t i = 0; i < n_in + 2 * n_out + of->n_aux; ++i)
    tn__array_release(list[i]);
  free(list);
  free(req);
}

static void run_sum(evaluation *e, const tn__node *node) {
  tn_array *sum = create_like(tn__entry_sig(e->g, node->in[0]), 0);
  double *all = elements_of(sum);
  for (uint32_t k = 0; k < node->n_in; ++k) {
    double *v = elements_of(value_of(e, node->in[k]));
    for (size_t i = 0; i < n_elements(sum); ++i) all[i] += v[i];
    free(v);
  }
  OK(tn__array_set(sum, all, n_elements(sum) * sizeof *all));
  free(all);
  set_operand(e, node, 0, sum);
}

/* -------------------------------------------------------------- inner graphs
 */

/* Feeds for the variables of a node's graph. */
static feed *inner_feeds(const evaluation *e, const tn__node *node) {
  const tn_entry *inside = NULL;
  uint32_t n_arguments = 0, n_states = 0;
  OK(tn__graph_variables(node->inner, &inside, &n_arguments, &n_states));
  cr_assert_eq(n_arguments, node->n_in);
  cr_assert_eq(n_states, node->n_aux);
  feed *feeds = calloc(node->n_in + node->n_aux + 1, sizeof *feeds);
  for (uint32_t i = 0; i < node->n_in + node->n_aux; ++i)
    feeds[i] = (feed){tn__node_at(node->inner, inside[i].node)->name,
                      tn__array_retain(value_of(e, node->in[i]))};
  return feeds;
}

static void feeds_drop(feed *feeds, size_t n) {
  for (size_t i = 0; i < n; ++i) tn__array_release(feeds[i].array);
  free(feeds);
}

static void run_graph(evaluation *e, const tn__node *node) {
  feed *feeds = inner_feeds(e, node);
  evaluate_heads(node->inner, feeds, node->n_in + node->n_aux,
                 node->inner->heads, node->n_out, e->values + node->first);
  feeds_drop(feeds, node->n_in + node->n_aux);
}

static void replace_array(tn_array **at, tn_array *array) {
  tn__array_release(*at);
  *at = array;
}

static tn_array *element_at(tn_array *array, int64_t t) {
  tn_array *view = NULL, *dense = NULL;
  OK(tn__array_index(array, 0, t, &view));
  OK(tn__array_cast(view, TN_F64, &dense));
  tn__array_release(view);
  return dense;
}

/* Sets element t of *to; creates *to for n elements if it is NULL. */
static void collect_element(tn_array **to, tn_array *from, int64_t t,
                            int64_t n) {
  const tn_tensor *like = &from->tensor;
  int64_t shape[TN_MAX_NDIM] = {n};
  tn_array *view = NULL;
  for (int32_t i = 0; i < like->ndim; ++i) shape[i + 1] = like->shape[i];
  if (!*to) *to = empty(TN_F64, (size_t)like->ndim + 1, shape);
  OK(tn__array_index(*to, 0, t, &view));
  OK(tn__array_copy(view, from));
  tn__array_release(view);
}

static void loop_step(evaluation *e, const tn__node *node, feed *feeds,
                      int64_t t, int64_t n) {
  const tn__loop *loop = node->loop;
  const uint32_t n_heads = (uint32_t)node->inner->n_heads;
  const uint32_t n_all = n_heads + loop->n_kept;
  tn_array **out = e->values + node->first;
  tn_array **heads = calloc(n_all + 1, sizeof *heads);
  tn_entry *asked = calloc(n_all + 1, sizeof *asked);
  memcpy(asked, node->inner->heads, n_heads * sizeof *asked);
  if (loop->n_kept > 0)
    memcpy(asked + n_heads, loop->kept, loop->n_kept * sizeof *asked);
  for (uint32_t k = 0; k < loop->n_sequences; ++k) {
    const uint32_t i = loop->sequences[k];
    replace_array(&feeds[i].array, element_at(value_of(e, node->in[i]), t));
  }
  for (uint32_t k = 0; k < loop->n_states; ++k)
    collect_element(&out[n_heads + k], feeds[loop->states[k]].array, t, n);
  evaluate_heads(node->inner, feeds, node->n_in + node->n_aux, asked, n_all,
                 heads);
  for (uint32_t k = 0; k < n_all; ++k) {
    if (k < loop->n_states) {
      replace_array(&feeds[loop->states[k]].array, heads[k]);
      continue;
    }
    collect_element(&out[k < n_heads ? k : k + loop->n_states], heads[k], t, n);
    tn__array_release(heads[k]);
  }
  free(asked);
  free(heads);
}

static void run_loop(evaluation *e, const tn__node *node) {
  const tn__loop *loop = node->loop;
  const int64_t n = value_of(e, node->in[loop->sequences[0]])->tensor.shape[0];
  feed *feeds = inner_feeds(e, node);
  for (int64_t i = 0; i < n; ++i)
    loop_step(e, node, feeds, loop->reverse ? n - 1 - i : i, n);
  for (uint32_t k = 0; k < loop->n_states; ++k)
    set_operand(e, node, k, tn__array_retain(feeds[loop->states[k]].array));
  feeds_drop(feeds, node->n_in + node->n_aux);
}

/* ----------------------------------------------------------------------- all
 */

static void run_node(evaluation *e, const tn__node *node) {
  switch (node->kind) {
    case TN__NODE_VARIABLE:
      run_variable(e, node);
      return;
    case TN__NODE_CALL:
      run_call(e, node);
      return;
    case TN__NODE_BACKWARD:
      run_backward(e, node);
      return;
    case TN__NODE_SUM:
      run_sum(e, node);
      return;
    case TN__NODE_GRAPH:
      run_graph(e, node);
      return;
    case TN__NODE_LOOP:
      run_loop(e, node);
      return;
    case TN__NODE_COPY:
      set_operand(e, node, 0, tn__array_retain(value_of(e, node->in[0])));
      return;
    default:
      set_operand(e, node, 0,
                  create_like(tn__entry_sig(e->g, node->in[0]),
                              node->kind == TN__NODE_ONE));
  }
}

static void mark_used(evaluation *e, const tn_entry *list, size_t n) {
  for (size_t i = 0; i < n; ++i)
    if (!tn__entry_is_none(list[i])) e->used[tn__entry_id(e->g, list[i])] = 1;
}

/* Infers from the shapes of the arrays. It need not know all heads: other heads
 * of the graph may have variables without arrays. */
static void infer_shapes(const evaluation *e) {
  tn_known *known = calloc(e->n_feeds + 1, sizeof *known);
  for (size_t i = 0; i < e->n_feeds; ++i) {
    const tn_tensor *t = &e->feeds[i].array->tensor;
    known[i] = (tn_known){e->feeds[i].name,
                          sig_of(t->dtype, (size_t)t->ndim, t->shape)};
  }
  const tn_code rc = tn__graph_infer(e->g, known, e->n_feeds);
  cr_assert(rc == TN_OK || rc == TN_INCOMPLETE, "%s", tn_error_text());
  free(known);
}

void evaluate_heads(tn_graph *graph, const feed *feeds, size_t n_feeds,
                    const tn_entry *heads, size_t n_heads, tn_array **out) {
  evaluation e = {.g = graph, .feeds = feeds, .n_feeds = n_feeds};
  tn__order order;
  infer_shapes(&e);
  OK(tn__order_make(graph, heads, n_heads, &order));
  e.values = calloc(graph->n_entries + 1, sizeof *e.values);
  e.used = calloc(graph->n_entries + 1, 1);
  for (uint32_t i = 0; i < order.n; ++i) {
    const tn__node *node = tn__node_at(graph, order.ids[i]);
    mark_used(&e, node->in, node->n_in);
  }
  mark_used(&e, heads, n_heads);
  for (uint32_t i = 0; i < order.n; ++i)
    run_node(&e, tn__node_at(graph, order.ids[i]));
  for (size_t i = 0; i < n_heads; ++i)
    out[i] = tn__array_retain(value_of(&e, heads[i]));
  for (uint32_t i = 0; i < graph->n_entries; ++i)
    tn__array_release(e.values[i]);
  tn__free(graph->env, order.ids);
  free(e.values);
  free(e.used);
}
