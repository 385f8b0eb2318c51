/* SPDX-License-Identifier: Apache-2.0
 * formula_lines.c: formulas with reductions. Each output is a list of steps:
 * its reductions, the inner ones first, and then its elements. A line is
 * computed after the other, 256 elements of it at a time. Reductions add in f64
 * or, for integers, in i64. tenon/kernel/lines.h finds the lines of a call.
 */
#include <math.h>
#include <string.h>

#include "formula.h"
#include "tenon/kernel/lines.h"

enum {
  BLOCK = 256,
  MOST_STEPS = 64 /* of one output; compiled formulas have fewer */
};

/* A reduction, or the elements of an output (`kind` LINE_OUT). */
enum { LINE_SUM, LINE_MEAN, LINE_MAX, LINE_MIN, LINE_OUT };

typedef struct line_step {
  int kind;
  bool may_lack; /* a largest element that may have no elements */
  const tnm_expr *expr;
  const tn__code *codes[TN__N_CLASSES];
} line_step;

typedef struct line_output {
  uint32_t out; /* index in call->out */
  uint32_t level;
  uint32_t n;
  line_step *steps; /* the last one is LINE_OUT */
} line_output;

struct tn__line_formulas {
  const tnm_operator *op;
  tn_lines_map map; /* without steps */
  tn__reads reads;  /* of all formulas; operand k of the map is reads.in[k] */
  uint32_t n;
  line_output *v; /* those of level LINE first, then PLACE, then FULL */
};

/* ---------------------------------------------------------------- planning */

typedef struct planner {
  const tnm_bind_request *what;
  const tn__pass_of *of;
  line_output *output;
  uint32_t room;
  bool failed; /* memory ran out */
} planner;

static const tnm_expr *copy_expr(planner *p, const tnm_expr *like) {
  static const tnm_expr none = {.kind = TNM_NUMBER, .text = "0"};
  tnm_expr *copy = tn__arena_alloc(p->what->arena, sizeof *copy);
  if (!copy) {
    p->failed = true;
    return &none;
  }
  *copy = *like;
  return copy;
}

static const tnm_expr *name_result(planner *p, uint32_t step) {
  const tnm_expr name = {.kind = TN__EXPR_RESULT, .index = step};
  return copy_expr(p, &name);
}

static const tnm_expr *join_exprs(planner *p, char op, const tnm_expr *a,
                                  const tnm_expr *b) {
  const tnm_expr both = {
      .kind = TNM_BINARY, .op = op, .n_args = 2, .args = {a, b}};
  return copy_expr(p, &both);
}

static const tnm_expr *call_one(planner *p, uint32_t function,
                                const tnm_expr *x) {
  const tnm_expr call = {
      .kind = TNM_CALL, .index = function, .n_args = 1, .args = {x}};
  return copy_expr(p, &call);
}

/* The step of a kind with this expression; a new one if there is none. */
static uint32_t find_step(planner *p, int kind, const tnm_expr *expr) {
  line_output *o = p->output;
  for (uint32_t i = 0; i < o->n; ++i)
    if (o->steps[i].kind == kind && tnm_expr_equal(o->steps[i].expr, expr))
      return i;
  if (o->n == p->room) {
    p->failed = true;
    return 0;
  }
  o->steps[o->n] = (line_step){.kind = kind, .expr = expr};
  return o->n++;
}

/* log(sum(exp(x))): the largest element is subtracted, unless it is infinite.
 */
static const tnm_expr *plan_logsumexp(planner *p, const tnm_expr *x) {
  const tnm_expr number = {.kind = TNM_NUMBER, .text = "0"};
  const tnm_expr *zero = copy_expr(p, &number);
  const uint32_t most = find_step(p, LINE_MAX, x);
  if (p->failed) return x;
  p->output->steps[most].may_lack = true;
  const tnm_expr *top = name_result(p, most);
  const tnm_expr choice = {
      .kind = TNM_CALL,
      .index = TNM_F_SELECT,
      .n_args = 3,
      .args = {join_exprs(p, 'e', join_exprs(p, '-', top, top), zero), top,
               zero}};
  const tnm_expr *origin = copy_expr(p, &choice);
  const tnm_expr *power = call_one(p, TNM_F_EXP, join_exprs(p, '-', x, origin));
  const tnm_expr *sum = name_result(p, find_step(p, LINE_SUM, power));
  return join_exprs(p, '+', call_one(p, TNM_F_LOG, sum), origin);
}

/* The same expression with results of steps for reductions. */
static const tnm_expr *plan_expr(planner *p, const tnm_expr *expr) {
  static const int kinds[] = {LINE_SUM, LINE_MEAN, LINE_MAX, LINE_MIN};
  if (expr->n_args == 0 || p->failed) return expr;
  tnm_expr planned = *expr;
  for (uint32_t i = 0; i < expr->n_args; ++i)
    planned.args[i] = plan_expr(p, expr->args[i]);
  if (expr->kind != TNM_REDUCE) return copy_expr(p, &planned);
  if (expr->index == TNM_R_LOGSUMEXP) return plan_logsumexp(p, planned.args[0]);
  return name_result(p, find_step(p, kinds[expr->index], planned.args[0]));
}

static uint32_t count_reductions(const tnm_expr *expr) {
  uint32_t n = expr->kind == TNM_REDUCE ? 2 : 0; /* logsumexp has two */
  for (uint32_t i = 0; i < expr->n_args; ++i)
    n += count_reductions(expr->args[i]);
  return n;
}

static tn_code fail_no_memory(void) {
  return tn__fail_memory(sizeof(line_step), "a formula over lines");
}

static tn_code plan_output(planner *p, const tnm_formula *formula,
                           line_output *output) {
  p->output = output;
  p->room = count_reductions(formula->expr) + 1;
  output->steps =
      tn__arena_alloc(p->what->arena, p->room * sizeof *output->steps);
  if (!output->steps) return fail_no_memory();
  const tnm_expr *expr = plan_expr(p, formula->expr);
  if (!p->failed) (void)find_step(p, LINE_OUT, expr);
  return p->failed ? fail_no_memory() : TN_OK;
}

/* ---------------------------------------------------------------- creation */

static uint32_t level_of(const tnm_axes *axes, const tn__pass_of *of,
                         uint32_t out) {
  return of->pass == TN_PASS_BACKWARD ? axes->levels.inputs[out]
                                      : axes->levels.outputs[out];
}

/* The level of a tensor of the call's list `in`. */
static uint32_t level_of_input(const tnm_axes *axes, const tn__pass_of *of,
                               uint32_t in) {
  const tn_op *op = of->op;
  if (of->pass == TN_PASS_FORWARD) return axes->levels.inputs[in];
  if (in < op->n_outputs) return axes->levels.outputs[in];
  in -= op->n_outputs;
  return in < op->n_inputs ? axes->levels.inputs[in]
                           : axes->levels.outputs[in - op->n_inputs];
}

static tn_code compile_step(const tn__line_formulas *l,
                            const tnm_bind_request *what, const tn__pass_of *of,
                            int classes, line_step *step) {
  for (size_t k = 0; k < TN__N_CLASSES; ++k) {
    const tn__compiling how = {what->arena, of, &l->reads, tn__class_at(k)};
    if (classes & how.class_bit & ~TNM_CLASS_U64)
      TN__TRY(tn__code_create(&how, step->expr, &step->codes[k]));
  }
  return TN_OK;
}

/* Plans the outputs of one level. */
static tn_code plan_level(tn__line_formulas *l, planner *p,
                          const tnm_formula *v, size_t n, uint32_t level) {
  for (size_t i = 0; i < n; ++i) {
    if (level_of(p->what->op->axes, p->of, v[i].index) != level) continue;
    line_output *output = &l->v[l->n++];
    output->out = v[i].index;
    output->level = level;
    TN__TRY(plan_output(p, &v[i], output));
    if (output->n > MOST_STEPS)
      return tn__fail(TN_UNSUPPORTED,
                      "a formula of %s has %u reductions; %d are "
                      "the most",
                      p->of->op->name, output->n - 1, MOST_STEPS - 1);
  }
  return TN_OK;
}

/* Describes the operands of the pass. */
static void describe_operands(tn__line_formulas *l, const tnm_operator *op,
                              const tn__pass_of *of) {
  const bool backward = of->pass == TN_PASS_BACKWARD;
  const uint32_t n_out = backward ? of->op->n_inputs : of->op->n_outputs;
  l->map.n_operands = l->reads.n;
  for (uint32_t k = 0; k < l->reads.n; ++k) {
    l->map.operands[k] = (uint8_t)l->reads.in[k];
    l->map.levels[k] = (uint8_t)level_of_input(op->axes, of, l->reads.in[k]);
  }
  for (uint32_t o = 0; o < n_out && o < TN_KERNEL_MAX_OPERANDS; ++o)
    l->map.out_levels[o] = (uint8_t)level_of(op->axes, of, o);
  l->map.loop = op->axes->loop;
}

static tn_code compile_outputs(const tn__line_formulas *l,
                               const tnm_bind_request *what,
                               const tn__pass_of *of, int classes) {
  for (uint32_t i = 0; i < l->n; ++i)
    for (uint32_t k = 0; k < l->v[i].n; ++k)
      TN__TRY(compile_step(l, what, of, classes, &l->v[i].steps[k]));
  return TN_OK;
}

tn_code tn__lines_create(const tnm_bind_request *what, const tn__pass_of *of,
                         const tn__line_formulas **out) {
  static const uint32_t levels[] = {TNM_LEVEL_LINE, TNM_LEVEL_PLACE,
                                    TNM_LEVEL_FULL};
  const bool backward = of->pass == TN_PASS_BACKWARD;
  const tnm_formula *v = backward ? what->op->backward : what->op->forward;
  const size_t n = backward ? what->op->n_backward : what->op->n_forward;
  planner p = {.what = what, .of = of};
  tn__line_formulas *l = tn__arena_alloc(what->arena, sizeof *l);
  line_output *outputs =
      tn__arena_alloc(what->arena, (n + 1) * sizeof *outputs);
  int classes = TNM_CLASS_ALL, least = 0;
  if (!l || !outputs) return fail_no_memory();
  *l = (tn__line_formulas){.op = what->op, .v = outputs};
  for (size_t i = 0; i < n; ++i) {
    outputs[i] = (line_output){0};
    classes &= tnm_expr_classes(v[i].expr);
    least = tnm_class_join(
        least, tnm_class_of(tn__formula_find_least(what->op, of, &v[i])));
    if (!tn__reads_add(&l->reads, of, v[i].expr))
      return tn__fail(TN_UNSUPPORTED,
                      "the formulas of %s read too many tensors", of->op->name);
  }
  describe_operands(l, what->op, of);
  l->map.least = tn__formula_find_type(least);
  for (size_t k = 0; k < 3; ++k) TN__TRY(plan_level(l, &p, v, n, levels[k]));
  TN__TRY(compile_outputs(l, what, of, classes));
  *out = l;
  return TN_OK;
}

/* ------------------------------------------------------------------ shapes */

static tn_lines_axes read_axes(const tnm_operator *op, const void *params) {
  const tnm_axes *axes = op->axes;
  if (axes->param == TN_NONE) return (tn_lines_axes){1, &axes->number};
  const tn_field *field = op->op->params[axes->param];
  const void *at = (const char *)params + field->offset;
  if (field->type == TN_FIELD_INT) return (tn_lines_axes){1, at};
  const tn_ints *list = at;
  return (tn_lines_axes){list->n, list->v};
}

/* Adds a rule for each operand of a list that has a shape of its own. */
static uint32_t add_rules(const tnm_operator *op, uint32_t list,
                          tn_lines_operand_rule *rules, uint32_t n) {
  const tnm_axes *axes = op->axes;
  const bool outputs = list == TN_OPERAND_OUT;
  const uint8_t *levels = outputs ? axes->levels.outputs : axes->levels.inputs;
  const uint32_t n_args = outputs ? op->op->n_outputs : op->op->n_inputs;
  for (uint32_t i = 0; i < n_args && n < TN_KERNEL_MAX_OPERANDS; ++i) {
    const tn_arg *arg = outputs ? op->op->outputs[i] : op->op->inputs[i];
    if (arg->shape_kind == TN_SHAPE_HOOK && (outputs || i != axes->loop))
      rules[n++] = (tn_lines_operand_rule){list, i, levels[i]};
  }
  return n;
}

int32_t tn__formula_infer(const tn_frame *call) {
  const tnm_defined_op *defined = call->options;
  const tnm_operator *op = defined->from;
  const tn_lines_axes axes = read_axes(op, call->params);
  tn_lines_operand_rule rules[TN_KERNEL_MAX_OPERANDS];
  rules[0] =
      (tn_lines_operand_rule){TN_OPERAND_IN, op->axes->loop, TN_LINES_FULL};
  uint32_t n = add_rules(op, TN_OPERAND_IN, rules, 1);
  n = add_rules(op, TN_OPERAND_OUT, rules, n);
  return tn_lines_infer(call, rules, n, &axes);
}

/* ------------------------------------------------------------------- lines */

/* A call. */
typedef struct line_call {
  tn_lines_work w;
  const tn__line_formulas *of;
  size_t class_index;
} line_call;

/* One line of a call, and the memory of a thread. */
typedef struct line_state {
  const line_call *call;
  int64_t group;
  int64_t in[TN_KERNEL_MAX_IN]; /* first element in the operands */
  int64_t out[TN_KERNEL_MAX_OPERANDS];
  tn__number values[TN_KERNEL_MAX_IN]; /* of operands of level LINE */
  tn__number results[MOST_STEPS];      /* of the steps of one output */
  int64_t rows[TN_KERNEL_MAX_IN][BLOCK];
  int64_t row[BLOCK];
} line_state;

static size_t find_class(tn_dtype compute) {
  const int class_bit = tnm_class_of(compute);
  size_t k = 0;
  while (tn__class_at(k) != class_bit) ++k;
  return k;
}

/* n elements of a line in a tensor, from element `at` on. */
typedef struct line_run {
  const tn_lines_part *part;
  int64_t first; /* of the line */
  int64_t at;
  int64_t n;
} line_run;

/* Copies between a dense row and elements of a line. */
static void copy_row(const tn_lines_work *w, const line_run *run, void *row,
                     bool writes) {
  for (int64_t i = 0; i < run->n;) {
    char *to = (char *)row + i * w->bytes;
    const tn_kernel_line line =
        tn_lines_find_run(w, run->part, run->first, run->at + i, run->n - i);
    if (writes)
      tn_kernel_store(&line, &w->mode, to);
    else
      tn_kernel_load(to, &w->mode, &line);
    i += line.n;
  }
}

static void repeat_value(const tn_lines_work *w, const tn__number *value,
                         int64_t n, void *row) {
  for (int64_t i = 0; i < n; ++i)
    memcpy((char *)row + i * w->bytes, value, (size_t)w->bytes);
}

/* Reads the operands of level LINE, before an output overwrites them. */
static void read_values(line_state *s) {
  const tn_lines_work *w = &s->call->w;
  for (uint32_t k = 0; k < w->map->n_operands; ++k)
    if (w->in[k].level == TN_LINES_LINE && w->in[k].data)
      copy_row(w, &(const line_run){&w->in[k], s->in[k], 0, 1}, &s->values[k],
               false);
}

/* Computes n elements of a step from element `at` of the line on. */
static void run_step(line_state *s, const line_step *step, int64_t at,
                     int64_t n) {
  const tn_lines_work *w = &s->call->w;
  const void *in[TN_KERNEL_MAX_IN];
  const tn__leaf_values values = {w->call->params, s->results, w->length};
  const tn__code *code = step->codes[s->call->class_index];
  for (uint32_t k = 0; k < w->map->n_operands; ++k) {
    const tn_lines_part *part = &w->in[k];
    in[k] = s->rows[k];
    if (!(code->reads >> k & 1)) continue;
    if (part->level == TN_LINES_LINE)
      repeat_value(w, &s->values[k], n, s->rows[k]);
    else
      copy_row(w, &(const line_run){part, s->in[k], at, n}, s->rows[k], false);
  }
  tn__code_run(code, &values, n, in, s->row);
}

/* ---------------------------------------------------------- reductions */

typedef struct line_total {
  double real;
  int64_t whole;
} line_total;

static line_total begin_total(int kind, tn_dtype type) {
  line_total total = {0, 0};
  if (kind == LINE_MAX) {
    total.real = -(double)INFINITY;
    total.whole = type == TN_I32 ? INT32_MIN : INT64_MIN;
  } else if (kind == LINE_MIN) {
    total.real = (double)INFINITY;
    total.whole = type == TN_I32 ? INT32_MAX : INT64_MAX;
  }
  return total;
}

static void add_real(line_total *total, int kind, double x) {
  if (kind == LINE_MAX)
    total->real = tn_math_max_f64(total->real, x);
  else if (kind == LINE_MIN)
    total->real = tn_math_min_f64(total->real, x);
  else
    total->real += x;
}

static void add_whole(line_total *total, int kind, int64_t x) {
  if (kind == LINE_MAX)
    total->whole = tn_math_max_i64(total->whole, x);
  else if (kind == LINE_MIN)
    total->whole = tn_math_min_i64(total->whole, x);
  else
    total->whole = (int64_t)((uint64_t)total->whole + (uint64_t)x);
}

/* Adds the n elements of the row. */
static void add_row(const line_state *s, int kind, int64_t n,
                    line_total *total) {
  const tn_dtype type = s->call->w.mode.compute;
  const void *row = s->row;
  for (int64_t i = 0; i < n; ++i) {
    if (type == TN_F32)
      add_real(total, kind, (double)((const float *)row)[i]);
    else if (type == TN_F64)
      add_real(total, kind, ((const double *)row)[i]);
    else if (type == TN_I32)
      add_whole(total, kind, ((const int32_t *)row)[i]);
    else
      add_whole(total, kind, ((const int64_t *)row)[i]);
  }
}

static tn__number finish_total(const line_state *s, int kind,
                               const line_total *total) {
  const tn_dtype type = s->call->w.mode.compute;
  const double divisor = kind == LINE_MEAN ? (double)s->call->w.length : 1;
  tn__number number = {.i64 = total->whole};
  if (type == TN_F32) number.f32 = (float)(total->real / divisor);
  if (type == TN_F64) number.f64 = total->real / divisor;
  if (type == TN_I32) number.i32 = (int32_t)(uint32_t)(uint64_t)total->whole;
  return number;
}

static int64_t next_block(int64_t at, int64_t length) {
  return length - at < BLOCK ? length - at : BLOCK;
}

static void reduce_line(line_state *s, uint32_t number, const line_step *step) {
  const int64_t length = s->call->w.length;
  line_total total = begin_total(step->kind, s->call->w.mode.compute);
  for (int64_t at = 0; at < length; at += BLOCK) {
    const int64_t n = next_block(at, length);
    run_step(s, step, at, n);
    add_row(s, step->kind, n, &total);
  }
  s->results[number] = finish_total(s, step->kind, &total);
}

/* ----------------------------------------------------------------- outputs */

/* Writes n elements of the row, or adds them to the output. */
static void write_row(line_state *s, uint32_t out, int64_t at, int64_t n) {
  const tn_lines_work *w = &s->call->w;
  const line_run run = {&w->out[out], s->out[out], at, n};
  int64_t old[BLOCK];
  if (w->call->req[out] == TN_REQ_ADD) {
    copy_row(w, &run, old, false);
    tn_kernel_add_dense(s->row, old, &w->mode, n);
  }
  copy_row(w, &run, s->row, true);
}

/* Adds n elements of the row to the sums over the lines. */
static void add_places(line_state *s, uint32_t out, int64_t at, int64_t n) {
  const tn_lines_work *w = &s->call->w;
  double *sums = tn_lines_find_sums(w, s->group, out) + at;
  const void *row = s->row;
  for (int64_t i = 0; i < n; ++i)
    sums[i] += w->mode.compute == TN_F32 ? (double)((const float *)row)[i]
                                         : ((const double *)row)[i];
}

static void run_output(line_state *s, const line_output *output) {
  const line_step *last = &output->steps[output->n - 1];
  const int64_t length =
      output->level == TNM_LEVEL_LINE ? 1 : s->call->w.length;
  for (uint32_t k = 0; k + 1 < output->n; ++k)
    reduce_line(s, k, &output->steps[k]);
  for (int64_t at = 0; at < length; at += BLOCK) {
    const int64_t n = next_block(at, length);
    run_step(s, last, at, n);
    if (output->level == TNM_LEVEL_PLACE)
      add_places(s, output->out, at, n);
    else
      write_row(s, output->out, at, n);
  }
}

static void run_line(line_state *s, int64_t line) {
  const line_call *call = s->call;
  tn_lines_find_line(&call->w, line, s->in, s->out);
  read_values(s);
  for (uint32_t i = 0; i < call->of->n; ++i)
    if (call->w.requested >> call->of->v[i].out & 1)
      run_output(s, &call->of->v[i]);
}

/* Computes the lines of groups [begin, end); a tn_loop_body. [worker] */
static int32_t run_groups(void *arg, int64_t begin, int64_t end) {
  const line_call *call = arg;
  const tn_lines_work *w = &call->w;
  const int64_t n = w->n_places * w->length;
  line_state s;
  s.call = call;
  for (int64_t g = begin; g < end; ++g) {
    const int64_t first = g * w->each;
    const int64_t last =
        w->lines - first < w->each ? w->lines : first + w->each;
    s.group = g;
    if (n > 0) memset(w->sums + g * n, 0, (size_t)n * sizeof *w->sums);
    for (int64_t line = first; line < last; ++line) run_line(&s, line);
  }
  return TN_OK;
}

/* ------------------------------------------------------------------- calls */

/* Refuses the largest element of lines without elements. */
static int32_t check_length(const line_call *call) {
  const tn_lines_work *w = &call->w;
  if (w->length > 0 || w->lines == 0) return TN_OK;
  for (uint32_t i = 0; i < call->of->n; ++i) {
    const line_output *output = &call->of->v[i];
    if (!(w->requested >> output->out & 1)) continue;
    for (uint32_t k = 0; k < output->n; ++k) {
      const line_step *step = &output->steps[k];
      if ((step->kind == LINE_MAX || step->kind == LINE_MIN) && !step->may_lack)
        return TN_FAIL(w->call, TN_INVALID,
                       "there is no %s of no elements: a line of the input has "
                       "length 0",
                       step->kind == LINE_MAX ? "maximum" : "minimum");
    }
  }
  return TN_OK;
}

static int32_t begin_call(line_call *call, const tn_frame *frame,
                          const tn__line_formulas *formulas) {
  const tn_lines_axes axes = read_axes(formulas->op, frame->params);
  call->of = formulas;
  const int32_t code = tn_lines_begin(&call->w, frame, &formulas->map, &axes);
  if (code != TN_OK) return code;
  call->class_index = find_class(call->w.mode.compute);
  if (formulas->n > 0 && !formulas->v[0].steps[0].codes[call->class_index])
    return TN_FAIL(frame, TN_DTYPE, "this kernel does not compute in %s",
                   tn_kernel_compute_name(call->w.mode.compute));
  return TN_OK;
}

int32_t tn__lines_prepare(const tn_frame *call, tn_plan *plan,
                          const tn__line_formulas *formulas) {
  line_call own;
  const int32_t code = begin_call(&own, call, formulas);
  if (code != TN_OK) return code;
  const int64_t n = tn_lines_count_sums(&own.w);
  if (n == 0) return TN_OK;
  plan->n_ws = 1;
  plan->ws[0].bytes = (uint64_t)n * sizeof(double);
  return TN_OK;
}

int32_t tn__lines_compute(const tn_frame *call,
                          const tn__line_formulas *formulas) {
  line_call own;
  int32_t code = begin_call(&own, call, formulas);
  if (code == TN_OK) code = check_length(&own);
  if (code != TN_OK || own.w.requested == 0) return code;
  own.w.sums = tn_lines_count_sums(&own.w) > 0 ? (double *)call->ws[0] : NULL;
  if (own.w.groups > 0)
    code = call->host->parallel_for(call, own.w.groups, 1, run_groups, &own);
  for (uint32_t o = 0; o < call->n_out && code == TN_OK; ++o)
    if (formulas->map.out_levels[o] == TN_LINES_PLACE &&
        (own.w.requested >> o & 1))
      tn_lines_write_places(&own.w, o);
  return code;
}
