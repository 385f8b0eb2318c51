/* SPDX-License-Identifier: Apache-2.0
 * lower_graph_shapes.c: checks shapes in the graph of a gradient. It follows
 * each call with the shapes that patterns state, and compares the result with
 * the input of the gradient. It reports contradictions; shapes without a
 * pattern pass.
 */
#include <inttypes.h>
#include <string.h>

#include "front.h"

enum {               /* dim.kind */
       OTHER = 0,    /* not known */
       VARIABLE = 1, /* dimension variable `a` of the differentiated operator */
       PARAMETER = 2, /* parameter `a` of the differentiated operator */
       NUMBER = 3     /* the constant `value` */
};

/* One dimension of a shape, as far as patterns tell it. */
typedef struct dim {
  int kind;
  int32_t a;
  int64_t value;
} dim;

enum { /* known_shape.what */
       UNKNOWN = 0,
       ALIKE = 1, /* the unknown shape of the operand `symbol` */
       LISTED = 2 /* dimensions v[0] to v[n - 1] */
};

/* A shape, as far as patterns tell it. */
typedef struct known_shape {
  int what;
  uint32_t symbol;
  uint32_t n;
  dim v[TN_MAX_NDIM];
} known_shape;

enum { MOST_VALUES = 32, MOST_DIMS = 32, MOST_DEPTH = 8 };

/* The state of computing the shapes in the graph of one input's gradient, step
 * by step. */
typedef struct shape_reader {
  tnm_reader *reader;
  const tn_op *op; /* the differentiated operator */
  tnm_pos pos;
  known_shape stack[MOST_VALUES];
  uint32_t n;
  bool has_contradiction; /* shapes contradict each other: later
                             contradictions may be consequences */
} shape_reader;

/* -------------------------------------------------------------------- forms */

/* Returns operand i of a list (TN_OPERAND_*) of an operator; NULL if it does
 * not exist. */
static const tn_arg *find_operand(const tn_op *op, uint32_t list, uint32_t i) {
  const tn_arg *const *lists[] = {op->inputs, op->outputs, op->aux};
  const uint32_t n[] = {op->n_inputs, op->n_outputs, op->n_aux};
  return list < 3 && i < n[list] ? lists[list][i] : NULL;
}

/* Returns the dimension that a node of the shape program computes. */
static dim make_dim(const tn_node *node) {
  if (node->op == TN_NODE_DIM) return (dim){VARIABLE, node->a, 0};
  if (node->op == TN_NODE_PARAM) return (dim){PARAMETER, node->a, 0};
  if (node->op == TN_NODE_CONST) return (dim){NUMBER, 0, node->value};
  return (dim){OTHER, 0, 0};
}

/* Returns the shape of operand i of a list (TN_OPERAND_*) of the
 * differentiated operator. `depth` counts the rules "same shape as" that led
 * to it. */
static known_shape make_operand_shape(const tn_op *op, uint32_t list,
                                      uint32_t i, int depth) {
  const tn_arg *arg = find_operand(op, list, i);
  known_shape f = {.what = ALIKE, .symbol = list << 16 | i};
  if (arg == NULL || (arg->flags & TN_ARG_VARIADIC) != 0 ||
      arg->count != TN_NONE || depth > MOST_DEPTH)
    return (known_shape){.what = UNKNOWN};
  if (arg->shape_kind == TN_SHAPE_SAME)
    return make_operand_shape(op, arg->shape_list, arg->shape_index, depth + 1);
  if (arg->shape_kind != TN_SHAPE_PATTERN || arg->n_terms > TN_MAX_NDIM)
    return f;
  for (uint32_t k = 0; k < arg->n_terms; ++k)
    if (arg->terms[k].spread) return f;
  f.what = LISTED;
  f.n = arg->n_terms;
  for (uint32_t k = 0; k < f.n; ++k)
    f.v[k] = make_dim(&op->nodes[arg->terms[k].node]);
  return f;
}

/* Tests whether two dimensions certainly differ. Two variables may be equal
 * because of a condition, so they do not certainly differ. */
static bool are_dims_different(const shape_reader *w, const dim *a,
                               const dim *b) {
  if (a->kind == OTHER || b->kind == OTHER || w->op->n_requires > 0)
    return false;
  return a->kind != b->kind || a->a != b->a || a->value != b->value;
}

/* Tests whether two shapes differ for certain: both are known. */
static bool are_shapes_different(const shape_reader *w, const known_shape *a,
                                 const known_shape *b) {
  if (a->what != LISTED || b->what != LISTED) return false;
  if (a->n != b->n) return true;
  for (uint32_t k = 0; k < a->n; ++k)
    if (are_dims_different(w, &a->v[k], &b->v[k])) return true;
  return false;
}

/* Tests whether two shapes are equal for certain. */
static bool are_shapes_equal(const known_shape *a, const known_shape *b) {
  if (a->what != b->what || a->what == UNKNOWN) return false;
  if (a->what == ALIKE) return a->symbol == b->symbol;
  if (a->n != b->n) return false;
  for (uint32_t k = 0; k < a->n; ++k)
    if (a->v[k].kind == OTHER || a->v[k].kind != b->v[k].kind ||
        a->v[k].a != b->v[k].a || a->v[k].value != b->v[k].value)
      return false;
  return true;
}

/* Returns a shape as text: "[N, num_hidden]". */
static const char *print_shape(const shape_reader *w, const known_shape *f) {
  const tn_op *op = w->op;
  const char *text = "[";
  for (uint32_t k = 0; k < f->n && text != NULL; ++k) {
    const dim *d = &f->v[k];
    const char *comma = k > 0 ? ", " : "";
    if (d->kind == NUMBER)
      text = tnm_format_text(w->reader->arena, "%s%s%" PRId64, text, comma,
                             d->value);
    else
      text = tnm_format_text(w->reader->arena, "%s%s%s", text, comma,
                             d->kind == VARIABLE    ? op->dims[d->a]
                             : d->kind == PARAMETER ? op->params[d->a]->name
                                                    : "?");
  }
  text = text != NULL ? tnm_format_text(w->reader->arena, "%s]", text) : NULL;
  return text != NULL ? text : "";
}

/* Reports shapes that contradict each other, unless `text` is NULL, and ends
 * the check. */
static void report_contradiction(shape_reader *w, const char *text) {
  tnm_diag_spec spec = {"E0075", w->pos, NULL};
  w->has_contradiction = true;
  if (text != NULL) tnm_diag_add(w->reader->diags, &spec, "%s", text);
}

/* -------------------------------------------------------------------- calls */

/* A call in the graph, and the shapes that the variables in the patterns of its
 * operator represent. */
typedef struct called_operator {
  shape_reader *w;
  const tn_op *op;
  const char *name; /* "elemwise.mul@1" */
  const known_shape *in;
  uint32_t n_in;
  dim dims[MOST_DIMS];
  bool bound[MOST_DIMS];
} called_operator;

/* Matches a shape with known dimensions to an operand's pattern, which has no
 * pack: each dimension gives a variable of the pattern its value. */
static void match_pattern(called_operator *c, const tn_arg *arg,
                          const known_shape *f) {
  tn__arena *arena = c->w->reader->arena;
  bool fits = arg->n_terms == f->n;
  for (uint32_t k = 0; k < arg->n_terms; ++k)
    if (arg->terms[k].spread) return;
  for (uint32_t k = 0; fits && k < f->n; ++k) {
    const tn_node *node = &c->op->nodes[arg->terms[k].node];
    const bool variable = node->op == TN_NODE_DIM && node->a < MOST_DIMS;
    if (variable && c->bound[node->a])
      fits = !are_dims_different(c->w, &c->dims[node->a], &f->v[k]);
    if (!variable || c->bound[node->a]) continue;
    c->dims[node->a] = f->v[k];
    c->bound[node->a] = true;
  }
  if (fits) return;
  report_contradiction(
      c->w,
      tnm_format_text(arena,
                      "`%s` wants %s for its input `%s`, which would be "
                      "%s",
                      c->name, arg->shape_text ? arg->shape_text : "another",
                      arg->name, print_shape(c->w, f)));
}

/* Compares the shape of argument i of a call with the pattern or rule of the
 * called operator. */
static void match_input_shape(called_operator *c, uint32_t i) {
  const tn_arg *arg = c->op->inputs[i];
  const known_shape *f = &c->in[i];
  if (arg->shape_kind == TN_SHAPE_PATTERN && f->what == LISTED)
    match_pattern(c, arg, f);
  if (arg->shape_kind != TN_SHAPE_SAME || arg->shape_list != TN_OPERAND_IN ||
      arg->shape_index >= c->n_in)
    return;
  const known_shape *other = &c->in[arg->shape_index];
  if (!are_shapes_different(c->w, f, other)) return;
  report_contradiction(
      c->w,
      tnm_format_text(c->w->reader->arena,
                      "inputs `%s` and `%s` of `%s` have one shape, but would "
                      "be %s and %s",
                      c->op->inputs[arg->shape_index]->name, arg->name, c->name,
                      print_shape(c->w, other), print_shape(c->w, f)));
}

/* Returns the shape that an output's pattern describes, with the values of its
 * dimension variables. */
static known_shape apply_pattern(const called_operator *c, const tn_arg *arg) {
  known_shape f = {.what = LISTED, .n = arg->n_terms};
  if (arg->n_terms > TN_MAX_NDIM) return (known_shape){.what = UNKNOWN};
  for (uint32_t k = 0; k < f.n; ++k) {
    const tn_node *node = &c->op->nodes[arg->terms[k].node];
    if (arg->terms[k].spread) return (known_shape){.what = UNKNOWN};
    if (node->op == TN_NODE_CONST) f.v[k] = make_dim(node);
    if (node->op == TN_NODE_DIM && node->a < MOST_DIMS && c->bound[node->a])
      f.v[k] = c->dims[node->a];
  }
  return f;
}

/* Returns the shape of the first output of a called operator. */
static known_shape compute_output_shape(const called_operator *c) {
  const tn_arg *arg = find_operand(c->op, TN_OPERAND_OUT, 0);
  bool alike = c->n_in > 0;
  if (arg == NULL || arg->count != TN_NONE)
    return (known_shape){.what = UNKNOWN};
  if (arg->shape_kind == TN_SHAPE_PATTERN) return apply_pattern(c, arg);
  if (arg->shape_kind == TN_SHAPE_SAME && arg->shape_list == TN_OPERAND_IN &&
      arg->shape_index < c->n_in)
    return c->in[arg->shape_index];
  for (uint32_t i = 1; i < c->n_in; ++i)
    alike = alike && are_shapes_equal(&c->in[0], &c->in[i]);
  return arg->shape_kind == TN_SHAPE_BROADCAST && alike
             ? c->in[0]
             : (known_shape){.what = UNKNOWN};
}

/* Returns the shape of the output of a call in the graph; in[] are the shapes
 * of its arguments. */
static known_shape apply_call(shape_reader *w, const tn_step *step,
                              const known_shape *in) {
  const tn_op *op = tnm_find_called(w->reader, step->op);
  called_operator c = {
      .w = w, .op = op, .name = step->op, .in = in, .n_in = step->index};
  if (op == NULL || c.n_in > op->n_inputs ||
      (c.n_in > 0 &&
       (op->inputs[op->n_inputs - 1]->flags & TN_ARG_VARIADIC) != 0))
    return (known_shape){.what = UNKNOWN};
  for (uint32_t i = 0; i < c.n_in && !w->has_contradiction; ++i)
    match_input_shape(&c, i);
  return w->has_contradiction ? (known_shape){.what = UNKNOWN}
                              : compute_output_shape(&c);
}

/* ------------------------------------------------------------------- graphs */

/* Follows the steps of a gradient graph; its stack has the shapes of the
 * values in place of the values. */
static void apply_steps(shape_reader *w, const tn_input_gradient *g) {
  for (uint32_t k = 0; k < g->n_steps && !w->has_contradiction; ++k) {
    const tn_step *step = &g->steps[k];
    const uint32_t list =
        step->what == TN_NEED_IN ? TN_OPERAND_IN : TN_OPERAND_OUT;
    known_shape f;
    if (step->what == TN_STEP_CALL) {
      if (step->index > w->n) return;
      w->n -= step->index;
      f = apply_call(w, step, w->stack + w->n);
    } else {
      f = make_operand_shape(w->op, list, step->index, 0);
    }
    if (w->n == MOST_VALUES) return;
    w->stack[w->n++] = f;
  }
}

/* Reports a gradient graph whose result for input i does not have the shape of
 * that input. */
static void check_input_gradient(tnm_reader *reader, const tnm_operator *o,
                                 uint32_t i) {
  const char *const path[] = {"gradient", "graph", o->op->inputs[i]->name,
                              NULL};
  shape_reader w = {
      .reader = reader, .op = o->op, .pos = tnm_find_place(o, path)};
  const known_shape want = make_operand_shape(o->op, TN_OPERAND_IN, i, 0);
  apply_steps(&w, o->op->gradient->inputs[i]);
  if (w.has_contradiction || w.n != 1 ||
      !are_shapes_different(&w, &w.stack[0], &want))
    return;
  report_contradiction(
      &w, tnm_format_text(reader->arena,
                          "the gradient of `%s` would be %s, but the input is "
                          "%s",
                          o->op->inputs[i]->name, print_shape(&w, &w.stack[0]),
                          print_shape(&w, &want)));
}

void tnm_check_graph_shapes(tnm_reader *reader) {
  for (size_t k = 0; k < reader->operators.n; ++k) {
    const tnm_operator *o = reader->operators.v[k];
    const tn_gradient *g = o->op != NULL ? o->op->gradient : NULL;
    if (g == NULL || g->kind != TN_GRADIENT_GRAPH || o->tree == NULL) continue;
    for (uint32_t i = 0; i < g->n_inputs && !reader->arena->failed; ++i)
      if (g->inputs[i]->n_steps > 0) check_input_gradient(reader, o, i);
  }
}
