/* SPDX-License-Identifier: Apache-2.0
 * bind.c: the caller's arrays take the places of an operator's operands. Counts
 * and owners are checked here; shapes are not looked at.
 */
#include "call.h"

enum { MAX_OPERANDS = 1 << 20 };

static bool is_variadic(const tn_op *op) {
  return op->n_inputs > 0 &&
         (op->inputs[op->n_inputs - 1]->flags & TN_ARG_VARIADIC) != 0;
}

uint32_t tn__work_arg_in(const tn__work *w, uint32_t i, int32_t *member) {
  uint32_t last = w->desc->n_inputs - 1;
  *member = -1;
  if (i < last || !is_variadic(w->desc)) return i;
  *member = (int32_t)(i - last);
  return last;
}

/* At most one output has a count; those behind it move by what it adds. */
uint32_t tn__work_arg_out(const tn__work *w, uint32_t i, int32_t *member) {
  const tn_op *op = w->desc;
  *member = -1;
  uint32_t counted = 0;
  while (counted < op->n_outputs && op->outputs[counted]->count == TN_NONE)
    ++counted;
  if (i < counted) return i;
  uint32_t behind = op->n_outputs - counted - 1;
  uint32_t n = w->counts.n_out - counted - behind;
  if (i >= counted + n) return i - n + 1;
  *member = (int32_t)(i - counted);
  return counted;
}

/* ---------------------------------------------------------------- counts */

static uint32_t min_inputs(const tn_op *op) {
  uint32_t n = op->n_inputs;
  while (n > 0 &&
         (op->inputs[n - 1]->flags & (TN_ARG_OPTIONAL | TN_ARG_VARIADIC)))
    --n;
  return n;
}

static void say_names(const tn_arg *const *args, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i)
    tn__fail_more(TN_INVALID, "%s%s%s", i ? ", " : " (", args[i]->name,
                  args[i]->flags & TN_ARG_VARIADIC ? "..." : "");
  if (n > 0) tn__fail_more(TN_INVALID, ")");
}

static tn_code arity_fail(const tn__work *w, size_t given) {
  const tn_op *op = w->desc;
  uint32_t least = min_inputs(op);
  if (is_variadic(op))
    tn__fail(TN_INVALID, "%s takes at least %u input%s", w->op->name, least,
             least == 1 ? "" : "s");
  else if (least < op->n_inputs)
    tn__fail(TN_INVALID, "%s takes %u to %u inputs", w->op->name, least,
             op->n_inputs);
  else
    tn__fail(TN_INVALID, "%s takes %u input%s", w->op->name, least,
             least == 1 ? "" : "s");
  say_names(op->inputs, op->n_inputs);
  if (op->n_aux > 0) {
    tn__fail_more(TN_INVALID, " and then %u aux state%s", op->n_aux,
                  op->n_aux == 1 ? "" : "s");
    say_names(op->aux, op->n_aux);
  }
  return tn__fail_more(TN_INVALID, ", but %zu %s given", given,
                       given == 1 ? "was" : "were");
}

static tn_code count_outputs(tn__work *w) {
  const tn_op *op = w->desc;
  const tn__infer_args args = {.op = op,
                               .name = w->op->name,
                               .params = w->params,
                               .base = &w->launch.frame};
  w->counts.n_out = op->n_outputs;
  for (uint32_t i = 0; i < op->n_outputs; ++i) {
    if (op->outputs[i]->count == TN_NONE) continue;
    TN__TRY(tn__infer_n_outputs(&args, w->counts.n_in, &w->counts.n_out));
    break;
  }
  w->counts.n_visible = tn__infer_n_visible(op, w->counts.n_out);
  return TN_OK;
}

tn_code tn__work_count(tn__work *w, const tn_inputs *inputs) {
  const tn_op *op = w->desc;
  if (inputs->n < op->n_aux || inputs->n > MAX_OPERANDS)
    return arity_fail(w, inputs->n);
  size_t given = inputs->n - op->n_aux;
  bool variadic = is_variadic(op);
  if (given < min_inputs(op) || (!variadic && given > op->n_inputs))
    return arity_fail(w, inputs->n);
  w->counts.n_aux = op->n_aux;
  w->counts.n_in = op->n_inputs;
  if (variadic)
    w->counts.n_in = given < op->n_inputs ? op->n_inputs - 1 : (uint32_t)given;
  TN__TRY(count_outputs(w));
  if (w->counts.n_out <= MAX_OPERANDS) return TN_OK;
  return tn__fail(TN_OUT_OF_RANGE,
                  "%s would have %u outputs; at most %d are"
                  " allowed",
                  w->op->name, w->counts.n_out, MAX_OPERANDS);
}

/* --------------------------------------------------------------- binding */

tn_code tn__work_own(const tn__work *w, const tn__operand *operand) {
  char text[TN__OPERAND_TEXT];
  if (!operand->array || operand->array->env == w->caller->env) return TN_OK;
  return tn__fail(TN_INVALID,
                  "%s: the array of %s belongs to another runtime;"
                  " copy it with tn_array_get and tn_array_set",
                  w->op->name, tn__operand_text(operand, text));
}

static tn_code missing(const tn__work *w, const tn__operand *operand) {
  char text[TN__OPERAND_TEXT];
  return tn__fail(TN_INVALID, "%s: %s is NULL, and it is not optional",
                  w->op->name, tn__operand_text(operand, text));
}

tn_code tn__work_bind_inputs(tn__work *w, const tn_inputs *inputs) {
  size_t given = inputs->n - w->counts.n_aux;
  for (uint32_t i = 0; i < w->counts.n_in; ++i) {
    tn__operand *operand = &w->fwd_in[i];
    operand->arg = w->desc->inputs[tn__work_arg_in(w, i, &operand->member)];
    operand->what = "input";
    operand->source = -1;
    operand->array = i < given ? inputs->arrays[i] : NULL;
    w->absent[i] = !operand->array;
    if (!operand->array && !(operand->arg->flags & TN_ARG_OPTIONAL))
      return missing(w, operand);
    TN__TRY(tn__work_own(w, operand));
  }
  for (uint32_t i = 0; i < w->counts.n_aux; ++i) {
    tn__operand *operand = &w->aux_info[i];
    operand->arg = w->desc->aux[i];
    operand->what = "aux state";
    operand->source = operand->member = -1;
    operand->array = inputs->arrays[given + i];
    if (!operand->array) return missing(w, operand);
    TN__TRY(tn__work_own(w, operand));
  }
  return TN_OK;
}

static tn_code request_check(const tn__work *w, const tn__operand *operand,
                             tn_req req) {
  char text[TN__OPERAND_TEXT];
  if (req == TN_REQ_NULL || req == TN_REQ_WRITE) return TN_OK;
  if (req == TN_REQ_INPLACE)
    return tn__fail(TN_INVALID,
                    "%s: TN_REQ_INPLACE was asked for %s; give the"
                    " input's array as the output and ask for TN_REQ_WRITE",
                    w->op->name, tn__operand_text(operand, text));
  if (req != TN_REQ_ADD)
    return tn__fail(TN_INVALID,
                    "%s: the request %u for %s is not one of"
                    " TN_REQ_*",
                    w->op->name, req, tn__operand_text(operand, text));
  if (operand->array) return TN_OK;
  return tn__fail(TN_INVALID,
                  "%s: TN_REQ_ADD wants an array to add to, but"
                  " none is given for %s",
                  w->op->name, tn__operand_text(operand, text));
}

/* Arrays under TN_REQ_NULL are not looked at. */
tn_code tn__work_bind_outputs(tn__work *w, const tn_outputs *outputs) {
  for (uint32_t i = 0; i < w->launch.frame.n_out; ++i) {
    tn__operand *operand = &w->out_info[i];
    bool given = i < outputs->n;
    w->alias[i] = -1;
    w->req[i] = TN_REQ_NULL;
    if (given) w->req[i] = outputs->req ? outputs->req[i] : TN_REQ_WRITE;
    operand->array = given ? outputs->arrays[i] : NULL;
    TN__TRY(request_check(w, operand, w->req[i]));
    if (w->req[i] == TN_REQ_NULL) operand->array = NULL;
    TN__TRY(tn__work_own(w, operand));
  }
  return TN_OK;
}

/* ----------------------------------------------------------------- device */

static tn_code elsewhere(const tn__work *w, const tn__operand *operand) {
  char text[TN__OPERAND_TEXT], here[TN__DEVICE_TEXT], there[TN__DEVICE_TEXT];
  return tn__fail(TN_DEVICE,
                  "%s: %s lies on %s, but other arrays of the call lie on %s; "
                  "copy it there with tn_array_to",
                  w->op->name, tn__operand_text(operand, text),
                  tn__device_text(operand->array->block->device, there),
                  tn__device_text(w->device, here));
}

/* Without any array it is the cpu. */
tn_code tn__work_place(tn__work *w) {
  const tn_frame *f = &w->launch.frame;
  uint32_t n = f->n_in + f->n_out + f->n_aux;
  for (uint32_t i = 0; i < n; ++i) {
    const tn__operand *operand = &w->in_info[i];
    if (!operand->array) continue;
    if (!w->device) w->device = operand->array->block->device;
    if (w->device != operand->array->block->device)
      return elsewhere(w, operand);
  }
  if (!w->device) w->device = w->caller->env->cpu;
  return TN_OK;
}
