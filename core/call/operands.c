/* SPDX-License-Identifier: Apache-2.0
 * operands.c: assigns the caller's arrays to an operator's operands, and finds
 * the device of the call. Checks counts and owners; outputs.c checks shapes.
 */
#include "call.h"

enum { MAX_OPERANDS = 1 << 20 };

static bool is_variadic(const tn_op *op) {
  return op->n_inputs > 0 &&
         (op->inputs[op->n_inputs - 1]->flags & TN_ARG_VARIADIC) != 0;
}

uint32_t tn__call_find_input_arg(const tn__call_state *s, uint32_t i,
                                 int32_t *member) {
  uint32_t last = s->desc->n_inputs - 1;
  *member = -1;
  if (i < last || !is_variadic(s->desc)) return i;
  *member = (int32_t)(i - last);
  return last;
}

/* At most one output has a count; the outputs after it move by the number of
 * its members. */
uint32_t tn__call_find_output_arg(const tn__call_state *s, uint32_t i,
                                  int32_t *member) {
  const tn_op *op = s->desc;
  *member = -1;
  uint32_t counted = 0;
  while (counted < op->n_outputs && op->outputs[counted]->count == TN_NONE)
    ++counted;
  if (i < counted) return i;
  uint32_t behind = op->n_outputs - counted - 1;
  uint32_t n = s->counts.n_out - counted - behind;
  if (i >= counted + n) return i - n + 1;
  *member = (int32_t)(i - counted);
  return counted;
}

/* ------------------------------------------------------------------- counts */

static uint32_t min_inputs(const tn_op *op) {
  uint32_t n = op->n_inputs;
  while (n > 0 &&
         (op->inputs[n - 1]->flags & (TN_ARG_OPTIONAL | TN_ARG_VARIADIC)))
    --n;
  return n;
}

static void append_names(const tn_arg *const *args, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i)
    tn__fail_more(TN_INVALID, "%s%s%s", i ? ", " : " (", args[i]->name,
                  args[i]->flags & TN_ARG_VARIADIC ? "..." : "");
  if (n > 0) tn__fail_more(TN_INVALID, ")");
}

static tn_code fail_arity(const tn__call_state *s, size_t n_passed) {
  const tn_op *op = s->desc;
  uint32_t least = min_inputs(op);
  if (is_variadic(op))
    tn__fail(TN_INVALID, "%s takes at least %u input%s", s->op->name, least,
             least == 1 ? "" : "s");
  else if (least < op->n_inputs)
    tn__fail(TN_INVALID, "%s takes %u to %u inputs", s->op->name, least,
             op->n_inputs);
  else
    tn__fail(TN_INVALID, "%s takes %u input%s", s->op->name, least,
             least == 1 ? "" : "s");
  append_names(op->inputs, op->n_inputs);
  if (op->n_aux > 0) {
    tn__fail_more(TN_INVALID, " and then %u aux state%s", op->n_aux,
                  op->n_aux == 1 ? "" : "s");
    append_names(op->aux, op->n_aux);
  }
  return tn__fail_more(TN_INVALID, ", but %zu %s given", n_passed,
                       n_passed == 1 ? "was" : "were");
}

static tn_code count_outputs(tn__call_state *s) {
  const tn_op *op = s->desc;
  const tn__infer_args args = {.op = op,
                               .name = s->op->name,
                               .params = s->params,
                               .base = &s->launch.frame};
  s->counts.n_out = op->n_outputs;
  for (uint32_t i = 0; i < op->n_outputs; ++i) {
    if (op->outputs[i]->count == TN_NONE) continue;
    TN__TRY(tn__infer_n_outputs(&args, s->counts.n_in, &s->counts.n_out));
    break;
  }
  s->counts.n_visible = tn__infer_n_visible(op, s->counts.n_out);
  return TN_OK;
}

tn_code tn__call_count_operands(tn__call_state *s, const tn_inputs *inputs) {
  const tn_op *op = s->desc;
  if (inputs->n < op->n_aux || inputs->n > MAX_OPERANDS)
    return fail_arity(s, inputs->n);
  size_t n_passed = inputs->n - op->n_aux;
  bool variadic = is_variadic(op);
  if (n_passed < min_inputs(op) || (!variadic && n_passed > op->n_inputs))
    return fail_arity(s, inputs->n);
  s->counts.n_aux = op->n_aux;
  s->counts.n_in = op->n_inputs;
  if (variadic)
    s->counts.n_in =
        n_passed < op->n_inputs ? op->n_inputs - 1 : (uint32_t)n_passed;
  TN__TRY(count_outputs(s));
  if (s->counts.n_out <= MAX_OPERANDS) return TN_OK;
  return tn__fail(TN_OUT_OF_RANGE,
                  "%s would have %u outputs; at most %d are"
                  " allowed",
                  s->op->name, s->counts.n_out, MAX_OPERANDS);
}

/* ------------------------------------------------------------------ binding */

tn_code tn__call_check_owner(const tn__call_state *s,
                             const tn__operand *operand) {
  char text[TN__OPERAND_TEXT];
  if (!operand->array || operand->array->env == s->caller->env) return TN_OK;
  return tn__fail(TN_INVALID,
                  "%s: the array of %s belongs to another runtime;"
                  " copy it with tn_array_get and tn_array_set",
                  s->op->name, tn__operand_text(operand, text));
}

static tn_code fail_missing(const tn__call_state *s,
                            const tn__operand *operand) {
  char text[TN__OPERAND_TEXT];
  return tn__fail(TN_INVALID, "%s: %s is NULL, and it is not optional",
                  s->op->name, tn__operand_text(operand, text));
}

tn_code tn__call_bind_inputs(tn__call_state *s, const tn_inputs *inputs) {
  size_t n_passed = inputs->n - s->counts.n_aux;
  for (uint32_t i = 0; i < s->counts.n_in; ++i) {
    tn__operand *operand = &s->fwd_in[i];
    operand->arg =
        s->desc->inputs[tn__call_find_input_arg(s, i, &operand->member)];
    operand->role = "input";
    operand->source = -1;
    operand->array = i < n_passed ? inputs->arrays[i] : NULL;
    s->absent[i] = !operand->array;
    if (!operand->array && !(operand->arg->flags & TN_ARG_OPTIONAL))
      return fail_missing(s, operand);
    TN__TRY(tn__call_check_owner(s, operand));
  }
  for (uint32_t i = 0; i < s->counts.n_aux; ++i) {
    tn__operand *operand = &s->aux_info[i];
    operand->arg = s->desc->aux[i];
    operand->role = "aux state";
    operand->source = operand->member = -1;
    operand->array = inputs->arrays[n_passed + i];
    if (!operand->array) return fail_missing(s, operand);
    TN__TRY(tn__call_check_owner(s, operand));
  }
  return TN_OK;
}

static tn_code check_request(const tn__call_state *s,
                             const tn__operand *operand, tn_req req) {
  char text[TN__OPERAND_TEXT];
  if (req == TN_REQ_NULL || req == TN_REQ_WRITE) return TN_OK;
  if (req == TN_REQ_INPLACE)
    return tn__fail(TN_INVALID,
                    "%s: TN_REQ_INPLACE was asked for %s; give the"
                    " input's array as the output and ask for TN_REQ_WRITE",
                    s->op->name, tn__operand_text(operand, text));
  if (req != TN_REQ_ADD)
    return tn__fail(TN_INVALID,
                    "%s: the request %u for %s is not one of"
                    " TN_REQ_*",
                    s->op->name, req, tn__operand_text(operand, text));
  if (operand->array && tn__dtype_is_storage(operand->array->tensor.dtype))
    return tn__fail(TN_DTYPE,
                    "%s: TN_REQ_ADD was asked for %s, but elements of %s have "
                    "no sums; ask for TN_REQ_WRITE",
                    s->op->name, tn__operand_text(operand, text),
                    tn__dtype_name(operand->array->tensor.dtype));
  if (operand->array) return TN_OK;
  return tn__fail(TN_INVALID,
                  "%s: TN_REQ_ADD wants an array to add to, but"
                  " none is given for %s",
                  s->op->name, tn__operand_text(operand, text));
}

/* Ignores arrays with TN_REQ_NULL. */
tn_code tn__call_bind_outputs(tn__call_state *s, const tn_outputs *outputs) {
  for (uint32_t i = 0; i < s->launch.frame.n_out; ++i) {
    tn__operand *operand = &s->out_info[i];
    bool is_passed = i < outputs->n;
    s->alias[i] = -1;
    s->req[i] = TN_REQ_NULL;
    if (is_passed) s->req[i] = outputs->req ? outputs->req[i] : TN_REQ_WRITE;
    operand->array = is_passed ? outputs->arrays[i] : NULL;
    TN__TRY(check_request(s, operand, s->req[i]));
    if (s->req[i] == TN_REQ_NULL) operand->array = NULL;
    TN__TRY(tn__call_check_owner(s, operand));
  }
  return TN_OK;
}

/* ------------------------------------------------------------------- device */

static tn_code fail_other_device(const tn__call_state *s,
                                 const tn__operand *operand) {
  char text[TN__OPERAND_TEXT], here[TN__DEVICE_TEXT], there[TN__DEVICE_TEXT];
  return tn__fail(TN_DEVICE,
                  "%s: %s is on %s, but other arrays of the call are on %s; "
                  "copy it there with tn_array_to",
                  s->op->name, tn__operand_text(operand, text),
                  tn__device_text(operand->array->block->device, there),
                  tn__device_text(s->device, here));
}

/* A call without arrays is on the cpu. */
tn_code tn__call_find_device(tn__call_state *s) {
  const tn_frame *f = &s->launch.frame;
  uint32_t n = f->n_in + f->n_out + f->n_aux;
  for (uint32_t i = 0; i < n; ++i) {
    const tn__operand *operand = &s->in_info[i];
    if (!operand->array) continue;
    if (!s->device) s->device = operand->array->block->device;
    if (s->device != operand->array->block->device)
      return fail_other_device(s, operand);
  }
  if (!s->device) s->device = s->caller->env->cpu;
  return TN_OK;
}
