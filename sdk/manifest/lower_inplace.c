/* SPDX-License-Identifier: Apache-2.0
 * lower_inplace.c: lowers the in-place choices: `inplace` of outputs, gradients
 * and kernels, to the pairs of each kernel table. A pair says that an output of
 * a call may use the memory of an input.
 */
#include <string.h>

#include "front.h"

bool tnm_has_same_dtype(const tn_arg *a, const tn_arg *b) {
  return a->dtype_var == b->dtype_var && a->dtype_param == b->dtype_param &&
         a->dtype == b->dtype;
}

void tnm_add_inplace(tnm_lower *lower, uint32_t pass, tn_inplace pair) {
  tnm_operator *to = lower->out;
  const uint32_t n = to->n_inplace[pass];
  if ((n & (n - 1)) == 0) { /* the list is full at 0, 1, 2, 4 ... pairs */
    tn_inplace *more =
        TNM_NEW(lower->arena, tn_inplace, n == 0 ? 1 : 2 * (size_t)n);
    if (more == NULL) return;
    if (n > 0) memcpy(more, to->inplace[pass], n * sizeof *more);
    to->inplace[pass] = more;
  }
  to->inplace[pass][n] = pair;
  ++to->n_inplace[pass];
}

/* Tests whether the list has the pair. */
static bool has_pair(const tn_inplace *pairs, uint32_t n, tn_inplace pair) {
  for (uint32_t i = 0; i < n; ++i)
    if (pairs[i].in == pair.in && pairs[i].out == pair.out) return true;
  return false;
}

bool tnm_has_inplace(const tnm_lower *lower, uint32_t pass, tn_inplace pair) {
  const tnm_operator *out = lower->out;
  return has_pair(out->inplace[pass], out->n_inplace[pass], pair);
}

void tnm_report_second_inplace(tnm_lower *lower, const tnm_tree *name) {
  tnm_diag_spec spec = {"E0016", name->pos, "second time"};
  tnm_diag_add(lower->diags, &spec, "`inplace` lists `%.80s` twice",
               name->text);
}

/* ---------------------------------------------------------------- gradients */

/* Returns the position of an operand in the inputs of a backward call. */
static uint32_t find_position(const tn_op *op, uint32_t what, uint32_t index) {
  if (what == TN_NEED_GRAD_OUT) return index;
  if (what == TN_NEED_IN) return op->n_outputs + index;
  return op->n_outputs + op->n_inputs + index;
}

/* Returns the declaration of the operand that a need names; a gradient has the
 * type and shape of its output. */
static const tn_arg *get_need_arg(const tn_op *op, const tn_need *need) {
  return need->what == TN_NEED_IN ? op->inputs[need->index]
                                  : op->outputs[need->index];
}

/* Tests whether the elements of an operand are read by the gradient of an
 * input. Otherwise a backward call does not have them. */
static bool is_needed(const tn_op *op, const tn_need *operand) {
  for (uint32_t i = 0; i < op->n_inputs; ++i) {
    const tn_input_gradient *g = op->gradient->inputs[i];
    for (uint32_t k = 0; k < g->n_needs; ++k)
      if (g->needs[k].what == operand->what &&
          g->needs[k].index == operand->index && !g->needs[k].metadata)
        return true;
  }
  return false;
}

/* Reports a name in an `inplace` of a gradient that has no memory there. */
static void report_bad_memory(tnm_lower *lower, const tnm_tree *name,
                              const char *input, const char *why) {
  tnm_diag_spec spec = {"E0095", name->pos, NULL};
  const size_t id =
      tnm_diag_add(lower->diags, &spec, "`%.80s` %s", name->text, why);
  tnm_diag_add_help(lower->diags, id, "write `inplace: {%.80s: grad.%s}`",
                    input, lower->op->outputs[0]->name);
}

/* Reads one name of the list of an input's gradient. Returns false after a
 * message. */
static bool read_memory(tnm_lower *lower, const tnm_tree *name, uint32_t input,
                        tn_inplace *pair) {
  const tn_op *op = lower->op;
  const char *of = op->inputs[input]->name;
  tn_need need = {0};
  if (!tnm_check_scalar(lower->diags, name, "an operand of the backward call"))
    return false;
  if (!tnm_find_need(lower, name->text, &need)) {
    report_bad_memory(lower, name, of, "is no operand of the backward call");
    return false;
  }
  const tn_arg *arg = get_need_arg(op, &need);
  *pair = (tn_inplace){find_position(op, need.what, need.index), input};
  if ((arg->flags & TN_ARG_VARIADIC) != 0)
    report_bad_memory(lower, name, of, "is several tensors");
  else if (!lower->untyped && !tnm_has_same_dtype(arg, op->inputs[input]))
    report_bad_memory(lower, name, of, "has another type than the gradient");
  else if (!is_needed(op, &need))
    report_bad_memory(lower, name, of,
                      "is in no `needs`, so that a backward call does not have "
                      "its elements");
  else
    return true;
  return false;
}

/* Reads the list of one input's gradient, or a single name. */
static void read_memories(tnm_lower *lower, const tnm_tree *value,
                          tn_input_gradient *gradient, uint32_t input) {
  const tnm_tree *name = value->kind == TNM_LIST ? value->first : value;
  for (; name != NULL; name = value->kind == TNM_LIST ? name->next : NULL) {
    tn_inplace pair;
    if (!read_memory(lower, name, input, &pair)) continue;
    if (tnm_has_inplace(lower, TN_PASS_BACKWARD, pair)) {
      tnm_report_second_inplace(lower, name);
      continue;
    }
    tnm_add_inplace(lower, TN_PASS_BACKWARD, pair);
    if (gradient->inplace == TN_NONE) gradient->inplace = pair.in;
  }
}

void tnm_lower_gradient_inplace(tnm_lower *lower, const tnm_tree *map,
                                tn_input_gradient **all) {
  for (const tnm_tree *e = map == NULL ? NULL : map->first; e != NULL;
       e = e->next) {
    const uint32_t i = tnm_find_operand(lower, TN_OPERAND_IN, e->key);
    if (i == TN_NONE)
      tnm_report_operand(lower, e->key_pos, TN_OPERAND_IN, e->key);
    else if (!all[i]->stop)
      read_memories(lower, e, all[i], i);
  }
}

/* ----------------------------------------------------------------- formulas */

/* Tests whether a formula reads an input of its call: of a forward call or of
 * a backward call. */
static bool reads_input(const tn_op *op, uint32_t pass, const tnm_expr *expr,
                        uint32_t in) {
  const bool backward = pass == TN_PASS_BACKWARD;
  uint32_t at = TN_NONE;
  if (expr->kind == TNM_INPUT)
    at = backward ? find_position(op, TN_NEED_IN, expr->index) : expr->index;
  else if (backward && expr->kind == TNM_GRAD)
    at = find_position(op, TN_NEED_GRAD_OUT, expr->index);
  else if (backward && expr->kind == TNM_OUTPUT)
    at = find_position(op, TN_NEED_OUT, expr->index);
  if (at == in) return true;
  for (uint32_t i = 0; i < expr->n_args; ++i)
    if (reads_input(op, pass, expr->args[i], in)) return true;
  return false;
}

/* Tests whether a generated kernel may compute a pair in place. It computes all
 * of one output before the next one, in their order, so no later formula may
 * read the input. */
static bool is_last_reader(const tn_op *op, uint32_t pass,
                           const tnm_formula *formulas, size_t n,
                           tn_inplace pair) {
  for (size_t i = 0; i < n; ++i)
    if (formulas[i].expr != NULL && formulas[i].index > pair.out &&
        reads_input(op, pass, formulas[i].expr, pair.in))
      return false;
  return true;
}

/* Tests whether a kernel over lines may compute a pair in place: the only
 * output with an element for each of the loop may, after all that reads its
 * line (tnm_set_line_flags). */
static bool is_full_output(const tnm_lower *lower, uint32_t pass,
                           tn_inplace pair) {
  const tnm_levels *levels = &lower->axes->levels;
  return (pass == TN_PASS_FORWARD ? levels->outputs[pair.out]
                                  : levels->inputs[pair.out]) == TNM_LEVEL_FULL;
}

/* Tests whether two operands of a generated kernel may have the same shape. The
 * inputs of a broadcast differ in some calls only; then the host uses no pair.
 */
static bool may_have_same_shape(const tnm_lower *lower, const tn_arg *a,
                                const tn_arg *b) {
  return lower->op->outputs[0]->shape_kind == TN_SHAPE_BROADCAST ||
         tnm_has_same_shape(lower, a, b);
}

/* Tests whether nothing reads the input of a backward pair after its output was
 * computed. */
static bool may_be_last(const tnm_lower *lower, const tnm_formula *formulas,
                        tn_inplace pair) {
  return lower->axes != NULL
             ? is_full_output(lower, TN_PASS_BACKWARD, pair)
             : is_last_reader(lower->op, TN_PASS_BACKWARD, formulas,
                              lower->op->n_inputs, pair);
}

void tnm_list_formula_inplace(tnm_lower *lower, const tnm_formula *formulas,
                              tn_input_gradient **all) {
  const tn_op *op = lower->op;
  for (uint32_t i = 0; i < op->n_inputs; ++i) {
    if (formulas[i].expr == NULL) continue;
    for (uint32_t k = 0; k < all[i]->n_needs; ++k) {
      const tn_need *need = &all[i]->needs[k];
      const tn_arg *arg = get_need_arg(op, need);
      const tn_inplace pair = {find_position(op, need->what, need->index), i};
      if (!tnm_has_same_dtype(arg, op->inputs[i]) ||
          !may_have_same_shape(lower, arg, op->inputs[i]) ||
          !may_be_last(lower, formulas, pair))
        continue;
      tnm_add_inplace(lower, TN_PASS_BACKWARD, pair);
      if (all[i]->inplace == TN_NONE) all[i]->inplace = pair.in;
    }
  }
}

void tnm_set_generated_inplace(tnm_lower *lower, tn_kernel *kernel,
                               const tnm_formula *formulas, size_t n) {
  const bool has_lines = lower->axes != NULL;
  const tnm_operator *out = lower->out;
  const uint32_t pass = kernel->pass, n_pairs = out->n_inplace[pass];
  if (has_lines && (kernel->writes & TN_WRITES_INPLACE) == 0) return;
  tn_inplace *pairs = TNM_NEW(lower->arena, tn_inplace, n_pairs);
  for (uint32_t i = 0; pairs != NULL && i < n_pairs; ++i) {
    const tn_inplace pair = out->inplace[pass][i];
    if (has_lines ? is_full_output(lower, pass, pair)
                  : is_last_reader(lower->op, pass, formulas, n, pair))
      pairs[kernel->n_inplace++] = pair;
  }
  if (kernel->n_inplace == 0) return;
  kernel->inplace = pairs;
  kernel->writes |= TN_WRITES_INPLACE;
}

/* ------------------------------------------------------------------ kernels */

/* The pairs of one pass of a kernel, while `inplace` of the kernel is read. */
typedef struct kernel_pairs {
  tn_inplace *v;
  uint32_t n;
  uint32_t room;
} kernel_pairs;

/* Lists the pairs that the operator of another plugin names itself. */
static void list_named_pairs(tnm_lower *lower) {
  const tn_op *op = lower->op;
  const tn_gradient *g = op->gradient;
  for (uint32_t i = 0; i < op->n_outputs; ++i)
    if (op->outputs[i]->inplace != TN_NONE)
      tnm_add_inplace(lower, TN_PASS_FORWARD,
                      (tn_inplace){op->outputs[i]->inplace, i});
  for (uint32_t i = 0; g != NULL && i < g->n_inputs; ++i)
    if (g->inputs[i]->inplace != TN_NONE)
      tnm_add_inplace(lower, TN_PASS_BACKWARD,
                      (tn_inplace){g->inputs[i]->inplace, i});
}

void tnm_list_target_inplace(tnm_lower *lower, const tnm_operator *described) {
  if (described == NULL) {
    list_named_pairs(lower);
    return;
  }
  for (uint32_t pass = 0; pass < 2; ++pass)
    for (uint32_t i = 0; i < described->n_inplace[pass]; ++i)
      tnm_add_inplace(lower, pass, described->inplace[pass][i]);
}

/* Finds the output that a key of a kernel's `inplace` names: "out", or
 * "grad.data" of the backward pass. Returns false if it is unknown. */
static bool find_output(const tn_op *op, const char *key, uint32_t *pass,
                        uint32_t *out) {
  const bool grad = strncmp(key, "grad.", 5) == 0;
  const tn_arg *const *args = grad ? op->inputs : op->outputs;
  const uint32_t n = grad ? op->n_inputs : op->n_outputs;
  *pass = grad ? TN_PASS_BACKWARD : TN_PASS_FORWARD;
  for (*out = 0; *out < n; ++*out)
    if (strcmp(args[*out]->name, grad ? key + 5 : key) == 0) return true;
  return false;
}

/* Finds an operand of a call by its name; TN_NONE if it is unknown. */
static uint32_t find_input(const tn_op *op, uint32_t pass, const char *name) {
  const bool grad = strncmp(name, "grad.", 5) == 0;
  for (uint32_t i = 0; i < op->n_inputs; ++i)
    if (strcmp(op->inputs[i]->name, name) == 0)
      return pass == TN_PASS_FORWARD ? i : find_position(op, TN_NEED_IN, i);
  for (uint32_t i = 0; pass == TN_PASS_BACKWARD && i < op->n_outputs; ++i)
    if (strcmp(op->outputs[i]->name, grad ? name + 5 : name) == 0)
      return find_position(op, grad ? TN_NEED_GRAD_OUT : TN_NEED_OUT, i);
  return TN_NONE;
}

/* Reads one name of a list in a kernel's `inplace`. */
static void read_kernel_pair(tnm_lower *lower, const tnm_tree *name,
                             uint32_t pass, uint32_t out, kernel_pairs *to) {
  tnm_diag_spec spec = {"E0095", name->pos, NULL};
  if (!tnm_check_scalar(lower->diags, name, "an operand")) return;
  const tn_inplace pair = {find_input(lower->op, pass, name->text), out};
  if (has_pair(to->v, to->n, pair)) {
    tnm_report_second_inplace(lower, name);
  } else if (tnm_has_inplace(lower, pass, pair) && to->n < to->room) {
    to->v[to->n++] = pair;
  } else {
    const size_t id =
        tnm_diag_add(lower->diags, &spec,
                     "the operator does not allow `%.80s` there", name->text);
    tnm_diag_add_help(lower->diags, id,
                      "list it in `inplace` of the output or of the gradient "
                      "first; a kernel may support fewer pairs, not more");
  }
}

/* Reads one entry of a kernel's `inplace`. */
static void read_kernel_entry(tnm_lower *lower, const tnm_tree *entry,
                              uint32_t wanted, kernel_pairs *to) {
  uint32_t pass, out;
  if (!find_output(lower->op, entry->key, &pass, &out) || pass != wanted)
    return;
  if (entry->kind != TNM_LIST) {
    read_kernel_pair(lower, entry, pass, out, to);
    return;
  }
  for (const tnm_tree *name = entry->first; name != NULL; name = name->next)
    read_kernel_pair(lower, name, pass, out, to);
}

void tnm_check_kernel_inplace(tnm_lower *lower, const tnm_tree *map,
                              uint32_t writes) {
  uint32_t pass, out;
  if (map == NULL || lower->incomplete) return;
  if ((writes & TN_WRITES_INPLACE) == 0) {
    tnm_diag_spec spec = {"E0095", map->key_pos, NULL};
    const size_t id =
        tnm_diag_add(lower->diags, &spec, "this kernel does not work in place");
    tnm_diag_add_help(lower->diags, id, "add `inplace` to `writes`");
  }
  for (const tnm_tree *e = map->first; e != NULL; e = e->next) {
    if (find_output(lower->op, e->key, &pass, &out)) continue;
    tnm_diag_spec spec = {"E0095", e->key_pos, NULL};
    const size_t id = tnm_diag_add(
        lower->diags, &spec, "`%.80s` is no output of `%s` and no gradient",
        e->key, lower->op->name);
    tnm_diag_add_help(lower->diags, id,
                      "write `%s: [...]`, or `grad.INPUT: [...]`",
                      lower->op->outputs[0]->name);
  }
}

/* Tests whether kernels without a list of their own support the operator's
 * pairs of a pass. A written backward kernel computes the gradients in an order
 * of its own, so its author must have declared the pairs. */
static bool are_declared(const tnm_lower *lower, uint32_t pass) {
  const tnm_tree *gradient = tnm_tree_get(lower->doc, "gradient");
  return pass == TN_PASS_FORWARD || tnm_tree_get(gradient, "inplace") != NULL;
}

void tnm_set_kernel_inplace(tnm_lower *lower, const tnm_tree *map,
                            tn_kernel *kernel) {
  const tnm_operator *out = lower->out;
  const uint32_t pass = kernel->pass;
  kernel_pairs own = {out->inplace[pass], out->n_inplace[pass], 0};
  if ((kernel->writes & TN_WRITES_INPLACE) == 0 || lower->incomplete) return;
  if (map == NULL && !are_declared(lower, pass)) own.n = 0;
  if (map != NULL) {
    own = (kernel_pairs){.v = TNM_NEW(lower->arena, tn_inplace, own.n),
                         .room = own.n};
    if (own.v == NULL) return;
    for (const tnm_tree *e = map->first; e != NULL; e = e->next)
      read_kernel_entry(lower, e, pass, &own);
  }
  kernel->inplace = own.v;
  kernel->n_inplace = own.n;
  if (own.n == 0) kernel->writes &= ~(uint32_t)TN_WRITES_INPLACE;
}
