/* SPDX-License-Identifier: Apache-2.0
 * lower_second.c: derives the second-order operator NAME_grad. A tape calls it
 * for the gradient of NAME when that gradient is to be differentiated as well.
 * Its inputs are those of a backward call of NAME (gradient of every output,
 * every input, every output), its outputs the gradient of every input. This
 * file writes the mapping that an author would have written, and lowers it in
 * the same way.
 */
#include <string.h>

#include "front.h"

/* The state of writing the mapping of NAME_grad. `of` is the operator NAME, and
 * `pos` the position for messages about the mapping. */
typedef struct writer {
  tnm_reader *reader;
  tn__arena *arena;
  const tnm_operator *of;
  tnm_pos pos;
} writer;

/* ----------------------------------------------------------------- the tree */

/* Makes a scalar; NULL if memory ran out. */
static tnm_tree *new_scalar(writer *w, const char *text) {
  tnm_tree *node = TNM_NEW(w->arena, tnm_tree, 1);
  if (node == NULL || text == NULL) return NULL;
  *node = (tnm_tree){.kind = TNM_SCALAR,
                     .plain = true,
                     .one_line = true,
                     .text = text,
                     .pos = w->pos};
  return node;
}

/* Makes an empty list or mapping (`kind`); NULL if memory ran out. */
static tnm_tree *new_collection(writer *w, int kind) {
  tnm_tree *node = TNM_NEW(w->arena, tnm_tree, 1);
  if (node == NULL) return NULL;
  *node = (tnm_tree){.kind = kind, .pos = w->pos};
  return node;
}

/* Appends a child to a list or mapping. Does nothing if `node` is NULL, because
 * memory ran out. */
static void append_node(tnm_tree *to, tnm_tree *node) {
  if (to == NULL || node == NULL) return;
  tnm_tree **last = &to->first;
  while (*last != NULL) last = &(*last)->next;
  *last = node;
  ++to->n;
}

/* Appends `key: node` to a mapping; a node that is NULL is left out. */
static void put_key(writer *w, tnm_tree *map, const char *key, tnm_tree *node) {
  if (node == NULL) return;
  node->key = key;
  node->key_pos = w->pos;
  append_node(map, node);
}

/* Appends `key: text` to a mapping. */
static void put_text(writer *w, tnm_tree *map, const char *key,
                     const char *text) {
  put_key(w, map, key, new_scalar(w, text));
}

/* Copies a key from the mapping of the operator NAME, with its position in the
 * manifest. */
static void put_copy(writer *w, tnm_tree *map, const tnm_tree *from,
                     const char *key) {
  const tnm_tree *value = tnm_tree_get(from, key);
  tnm_tree *copy = value == NULL ? NULL : TNM_NEW(w->arena, tnm_tree, 1);
  if (copy == NULL) return;
  *copy = *value;
  copy->next = NULL;
  append_node(map, copy);
}

/* -------------------------------------------------------------------- names */

/* Tests whether an operand or parameter of the operator has this name. */
static bool is_name_used(const tn_op *op, const char *name) {
  for (uint32_t i = 0; i < op->n_inputs; ++i)
    if (strcmp(op->inputs[i]->name, name) == 0) return true;
  for (uint32_t i = 0; i < op->n_outputs; ++i)
    if (strcmp(op->outputs[i]->name, name) == 0) return true;
  for (uint32_t i = 0; i < op->n_params; ++i)
    if (strcmp(op->params[i]->name, name) == 0) return true;
  return false;
}

/* Makes a name for a new operand, like "out_head", and appends `_` until no
 * operand or parameter has the name. */
static const char *make_unused_name(writer *w, const char *name,
                                    const char *what) {
  const char *text = tnm_format_text(w->arena, "%s_%s", name, what);
  while (text != NULL && is_name_used(w->of->op, text))
    text = tnm_format_text(w->arena, "%s_", text);
  return text;
}

/* Returns the name of the input of NAME_grad that is the gradient of an
 * output. */
static const char *make_head_name(writer *w, uint32_t output) {
  return make_unused_name(w, w->of->op->outputs[output]->name, "head");
}

/* Returns the name of the output of NAME_grad that is the gradient of an
 * input. */
static const char *make_gradient_name(writer *w, uint32_t input) {
  return make_unused_name(w, w->of->op->inputs[input]->name, "slope");
}

/* ----------------------------------------------------------------- operands */

/* Returns the text of the key `dtype` of an operand of NAME: a parameter, a
 * type variable or a type. */
static const char *write_dtype(const writer *w, const tn_arg *arg) {
  if (arg->dtype_param != TN_NONE)
    return w->of->op->params[arg->dtype_param]->name;
  if (arg->dtype_var != TN_NONE)
    return w->of->op->dtype_vars[arg->dtype_var]->name;
  return tn__dtype_name(arg->dtype);
}

/* Tests whether the outputs of NAME have `shape: broadcast`. */
static bool is_broadcast(const writer *w) {
  return w->of->op->outputs[0]->shape_kind == TN_SHAPE_BROADCAST;
}

/* Writes an operand with the name `name` and the type of `like`, without a
 * shape. */
static tnm_tree *write_operand(writer *w, const char *name,
                               const tn_arg *like) {
  tnm_tree *map = new_collection(w, TNM_MAP);
  put_text(w, map, "name", name);
  put_text(w, map, "dtype", write_dtype(w, like));
  return map;
}

/* Returns the name of the first operand of NAME_grad with the shape of the
 * loop, which decides this shape; "" if none has it. */
static const char *find_loop_name(writer *w) {
  const tnm_levels *levels = &w->of->axes->levels;
  for (uint32_t i = 0; i < w->of->op->n_outputs; ++i)
    if (levels->outputs[i] == TNM_LEVEL_FULL) return make_head_name(w, i);
  for (uint32_t i = 0; i < w->of->op->n_inputs; ++i)
    if (levels->inputs[i] == TNM_LEVEL_FULL) return w->of->op->inputs[i]->name;
  return "";
}

/* Writes the shape of an operand of NAME_grad with a level, for an operator
 * with axes. */
static void put_line_shape(writer *w, tnm_tree *map, int level) {
  const char *name = tnm_get_text(map, "name");
  const char *loop = find_loop_name(w);
  if (level == TNM_LEVEL_LINE) {
    tnm_tree *shape = new_collection(w, TNM_MAP);
    put_text(w, shape, "line", w->of->axes->name);
    put_key(w, map, "shape", shape);
  } else if (name != NULL && loop != NULL && strcmp(name, loop) != 0) {
    put_text(w, map, "shape", loop);
  }
}

/* Writes an operand with the shape of the operator's outputs. The first output
 * gradient has `shape: any`, or, if the operator broadcasts its inputs, `shape:
 * broadcast`; the others have the shape of the first. */
static tnm_tree *write_full_shape_operand(writer *w, const char *name,
                                          const tn_arg *like) {
  tnm_tree *map = write_operand(w, name, like);
  const char *first = make_head_name(w, 0);
  if (is_broadcast(w))
    put_text(w, map, "shape", "broadcast");
  else if (name != NULL && first != NULL && strcmp(name, first) != 0)
    put_text(w, map, "shape", first);
  return map;
}

/* Writes an operand with a level, for an operator with axes. */
static tnm_tree *write_line_operand(writer *w, const char *name,
                                    const tn_arg *like, int level) {
  tnm_tree *map = write_operand(w, name, like);
  put_line_shape(w, map, level);
  return map;
}

/* Writes an output of the operator, or the gradient of it. */
static tnm_tree *write_output(writer *w, uint32_t i, const char *name) {
  const tn_arg *arg = w->of->op->outputs[i];
  if (w->of->axes != NULL)
    return write_line_operand(w, name, arg, w->of->axes->levels.outputs[i]);
  return write_full_shape_operand(w, name, arg);
}

/* Writes an input of the operator. If the operator broadcasts its inputs, the
 * input keeps its own shape. */
static tnm_tree *write_input(writer *w, uint32_t i) {
  const tn_arg *arg = w->of->op->inputs[i];
  if (w->of->axes != NULL)
    return write_line_operand(w, arg->name, arg, w->of->axes->levels.inputs[i]);
  if (!is_broadcast(w)) return write_full_shape_operand(w, arg->name, arg);
  tnm_tree *map = write_operand(w, arg->name, arg);
  const tnm_tree *own = tnm_tree_get(w->of->tree, "inputs");
  own = own == NULL ? NULL : own->first;
  for (uint32_t k = 0; k < i && own != NULL; ++k) own = own->next;
  if (arg->shape_kind == TN_SHAPE_SAME && arg->shape_list == TN_OPERAND_OUT)
    put_text(w, map, "shape", "broadcast");
  else if (own != NULL)
    put_copy(w, map, own, "shape");
  return map;
}

/* Writes the inputs of NAME_grad: output gradients, and the inputs and outputs
 * of NAME. */
static tnm_tree *write_inputs(writer *w) {
  const tn_op *op = w->of->op;
  tnm_tree *list = new_collection(w, TNM_LIST);
  for (uint32_t i = 0; i < op->n_outputs; ++i)
    append_node(list, write_output(w, i, make_head_name(w, i)));
  for (uint32_t i = 0; i < op->n_inputs; ++i)
    append_node(list, write_input(w, i));
  for (uint32_t i = 0; i < op->n_outputs; ++i)
    append_node(list, write_output(w, i, op->outputs[i]->name));
  return list;
}

/* Writes the outputs of NAME_grad: the gradient of each input of NAME. */
static tnm_tree *write_outputs(writer *w) {
  const tn_op *op = w->of->op;
  tnm_tree *list = new_collection(w, TNM_LIST);
  for (uint32_t i = 0; i < op->n_inputs; ++i) {
    tnm_tree *slope = write_operand(w, make_gradient_name(w, i), op->inputs[i]);
    if (w->of->axes != NULL) {
      put_line_shape(w, slope, w->of->axes->levels.inputs[i]);
      append_node(list, slope);
      continue;
    }
    put_text(w, slope, "shape",
             is_broadcast(w) ? op->inputs[i]->name : make_head_name(w, 0));
    if (op->n_inputs == 1 && tnm_has_same_dtype(op->inputs[0], op->outputs[0]))
      put_text(w, slope, "inplace", make_head_name(w, 0));
    append_node(list, slope);
  }
  return list;
}

/* Writes the key `dtypes`. Only floating types can be differentiated, so
 * integer types are removed, except those of a type variable that has no
 * floating type. */
static tnm_tree *write_dtypes(writer *w) {
  const tn_op *op = w->of->op;
  tnm_tree *map = new_collection(w, TNM_MAP);
  for (uint32_t i = 0; i < op->n_dtype_vars; ++i) {
    const uint64_t allowed = tnm_float_types(op->dtype_vars[i]->allowed);
    tnm_tree *list = new_collection(w, TNM_LIST);
    for (size_t bit = 0; bit < TN__N_DTYPES; ++bit)
      if (allowed & (1ull << bit))
        append_node(list, new_scalar(w, tn__dtype_names[bit]));
    put_key(w, map, op->dtype_vars[i]->name, list);
  }
  const tnm_tree *own = tnm_tree_get(w->of->tree, "dtypes");
  if (own != NULL) put_copy(w, map, own, "compute");
  return map;
}

/* ----------------------------------------------------------------- formulas */

/* Copies a formula of the gradient and replaces its names by those of the new
 * operator's inputs. */
static const tnm_expr *rename_formula(writer *w, const tnm_expr *e) {
  tnm_expr *copy = TNM_NEW(w->arena, tnm_expr, 1);
  if (copy == NULL) return e;
  *copy = *e;
  if (e->kind == TNM_GRAD) {
    copy->kind = TNM_INPUT;
    copy->text = make_head_name(w, e->index);
    if (copy->text == NULL) copy->text = "";
  }
  for (uint32_t i = 0; i < e->n_args; ++i)
    copy->args[i] = rename_formula(w, e->args[i]);
  return copy;
}

/* Returns the formula of an input's gradient, in the names of the operands of
 * NAME_grad; "0" if the input is not differentiable. */
static const char *write_formula(writer *w, uint32_t input) {
  const tnm_formula *found = NULL;
  tn__buf buf;
  for (size_t i = 0; i < w->of->n_backward; ++i)
    if (w->of->backward[i].index == input) found = &w->of->backward[i];
  if (found == NULL) return "0"; /* not differentiable */
  tn__buf_init(&buf, w->arena->env);
  tnm_expr_print(&buf, rename_formula(w, found->expr));
  const char *text = buf.failed ? NULL : tn__arena_text(w->arena, buf.s, buf.n);
  if (text == NULL) w->arena->failed = true;
  tn__buf_deinit(&buf);
  return text;
}

/* Writes the formulas of the outputs of NAME_grad. */
static tnm_tree *write_forward(writer *w) {
  tnm_tree *map = new_collection(w, TNM_MAP);
  for (uint32_t i = 0; i < w->of->op->n_inputs; ++i) {
    const char *name = make_gradient_name(w, i);
    if (name != NULL) put_text(w, map, name, write_formula(w, i));
  }
  return map;
}

/* Writes the key `gradient` of NAME_grad. An operand without a first gradient
 * has no second gradient. */
static tnm_tree *write_gradient(writer *w) {
  const tn_op *op = w->of->op;
  tnm_tree *map = new_collection(w, TNM_MAP);
  tnm_tree *stop = new_collection(w, TNM_LIST);
  for (uint32_t i = 0; i < op->n_inputs; ++i)
    if (op->gradient->inputs[i]->stop)
      append_node(stop, new_scalar(w, op->inputs[i]->name));
  put_text(w, map, "auto", "true");
  put_key(w, map, "stop", stop);
  return map;
}

/* ------------------------------------------------------------- the operator */

/* Writes the document of NAME_grad. */
static tnm_tree *write_operator(writer *w, const char *name) {
  const tn_op *op = w->of->op;
  tnm_tree *map = new_collection(w, TNM_MAP);
  put_text(w, map, "op", name);
  if (op->family != NULL) put_text(w, map, "family", op->family);
  put_text(w, map, "interface", tnm_format_text(w->arena, "%u", op->interface));
  put_text(w, map, "backward_only", "true");
  put_text(w, map, "since", tnm_format_text(w->arena, "%u", op->since));
  put_text(w, map, "summary",
           tnm_format_text(w->arena, "Gradient%s of %s",
                           op->n_inputs == 1 ? "" : "s", op->name));
  put_copy(w, map, w->of->tree, "params");
  put_key(w, map, "dtypes", write_dtypes(w));
  put_copy(w, map, w->of->tree, "axes");
  put_key(w, map, "inputs", write_inputs(w));
  put_key(w, map, "outputs", write_outputs(w));
  put_key(w, map, "forward", write_forward(w));
  put_key(w, map, "gradient", write_gradient(w));
  return map;
}

/* Tests whether an operator has a gradient of formulas, from which NAME_grad
 * can be derived. */
static bool has_formula_gradient(const tnm_operator *o) {
  if (o->op == NULL || o->generated_backward == NULL || o->tree == NULL ||
      (o->axes != NULL && !tnm_has_line_gradient(o)))
    return false;
  return (o->op->flags & TN_OP_BACKWARD_ONLY) == 0;
}

/* Adds NAME_grad, derived from `of`, unless an operator has that name already.
 */
static void derive_operator(tnm_reader *reader, const tnm_operator *of) {
  writer w = {reader, reader->arena, of, of->pos};
  const char *name = tnm_format_text(w.arena, "%s_grad", of->op->name);
  if (name == NULL || strlen(name) > TNM_MAX_NAME ||
      tn__map_get(&reader->names, name) != NULL)
    return;
  const tnm_tree *doc = write_operator(&w, name);
  if (w.arena->failed) return;
  tnm_operator *derived = tnm_lower_one(reader, doc, of->file, of);
  if (derived != NULL) derived->gradcheck = of->gradcheck;
}

void tnm_lower_second_order(tnm_reader *reader) {
  const size_t n = reader->operators.n;
  for (size_t i = 0; i < n && !reader->arena->failed; ++i) {
    const tnm_operator *of = reader->operators.v[i];
    if (has_formula_gradient(of)) derive_operator(reader, of);
  }
}
