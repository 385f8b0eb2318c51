/* SPDX-License-Identifier: Apache-2.0
 * record_call.c: makes a call, and records it if gradients can pass through it.
 * If they cannot, but an input is computed from recorded arrays, the outputs
 * are recorded as constants. Memory for the record is reserved before the call,
 * so that every call that succeeds can be recorded.
 */
#include <string.h>

#include "tape.h"

/* A call to record. */
typedef struct recording {
  tn_tape *tape;
  const tn__target_op *target;
  const tn_inputs *in;
  const tn_outputs *out;
  const tn_op *desc;
  tn__tape_entry *entry;
  tn_array **out_arrays; /* arrays of the outputs: the caller's, or NULL */
  tn_req *req;
  uint32_t n_out_arrays;
  uint32_t n_out_grads; /* of a backward call: number of output gradients */
  bool connected;       /* gradients pass through an input */
  bool derived; /* an input is a constant of the tape; so are the outputs, and
                   their gradients are zeros */
} recording;

/* ------------------------------------------------------------ declarations */

static bool is_variadic(const tn_op *op) {
  return op->n_inputs > 0 &&
         (op->inputs[op->n_inputs - 1]->flags & TN_ARG_VARIADIC) != 0;
}

static void declare_inputs(const tn_op *op, tn__tape_operand *in, uint32_t n) {
  const uint32_t first = is_variadic(op) ? op->n_inputs - 1 : n;
  for (uint32_t i = 0; i < n; ++i) {
    in[i].declared = i < first ? i : first;
    in[i].member = i < first ? -1 : (int32_t)(i - first);
  }
}

/* Index of the output with a count; n_outputs if there is none. An operator has
 * at most one. */
static uint32_t find_counted(const tn_op *op) {
  uint32_t i = 0;
  while (i < op->n_outputs && op->outputs[i]->count == TN_NONE) ++i;
  return i;
}

/* The members of the output with a count shift the outputs after it. */
static void declare_outputs(const tn_op *op, tn__tape_operand *out,
                            uint32_t n_out) {
  const uint32_t counted = find_counted(op);
  const uint32_t n =
      n_out - op->n_outputs + 1; /* members of the counted output */
  for (uint32_t i = 0; i < n_out; ++i) {
    const bool is_after = i >= counted + n;
    out[i].declared = i < counted ? i : is_after ? i - n + 1 : counted;
    out[i].member = i < counted || is_after ? -1 : (int32_t)(i - counted);
  }
}

static void declare_operands(const recording *r, tn__tape_entry *e) {
  declare_inputs(r->desc, e->in + r->n_out_grads, e->n_in - r->n_out_grads);
  if (r->n_out_grads > 0) {
    declare_outputs(r->desc, e->in, r->n_out_grads);
    declare_inputs(r->desc, e->out, e->n_out);
  } else {
    declare_outputs(r->desc, e->out, e->n_out);
  }
}

/* True if the operator never differentiates this input. An operator without a
 * gradient fails during the sweep instead. */
static bool is_stopped(const tn__tape_entry *e, uint32_t i) {
  const tn_gradient *g = e->desc->gradient;
  if (i < e->n_out_grads) return false;
  return g && g->kind != TN_GRADIENT_NONE && g->inputs[e->in[i].declared]->stop;
}

/* ------------------------------------------------------------------- begin */

/* False if the call itself refuses the number of inputs, with a message. */
static bool has_valid_counts(const recording *r) {
  const tn_op *op = r->desc;
  if (r->in->n < op->n_aux || r->in->n > UINT16_MAX) return false;
  return is_variadic(op) || r->in->n - op->n_aux <= op->n_inputs;
}

static size_t count_entry_bytes(const recording *r, uint32_t n_out) {
  size_t bytes =
      tn__tape_round_up(sizeof(tn__tape_entry)) +
      tn__tape_round_up((r->in->n + n_out) * sizeof(tn__tape_operand)) +
      tn__tape_round_up(n_out * sizeof(tn_array *)) +
      tn__tape_round_up(n_out * sizeof(tn_req));
  for (size_t i = 0; i < r->in->n; ++i)
    if (r->in->arrays[i])
      bytes += tn__layout_bytes(r->in->arrays[i]->tensor.ndim);
  return bytes + n_out * (tn__tape_round_up(sizeof(tn__tape_value)) +
                          2 * tn__layout_bytes(TN_MAX_NDIM));
}

static void init_entry(recording *r, uint32_t n_out) {
  tn__tape_memory *memory = &r->tape->memory;
  const size_t n = r->in->n + n_out;
  tn__tape_entry *e = tn__tape_alloc(memory, sizeof *e);
  tn__tape_operand *operands = tn__tape_alloc(memory, n * sizeof *operands);
  memset(operands, 0, n * sizeof *operands);
  *e = (tn__tape_entry){.op = r->target->op,
                        .desc = r->desc,
                        .flags = r->target->flags,
                        .n_in = (uint32_t)r->in->n - r->desc->n_aux,
                        .n_aux = r->desc->n_aux,
                        .n_out = n_out,
                        .n_out_grads = r->n_out_grads,
                        .in = operands,
                        .out = operands + r->in->n};
  declare_operands(r, e);
  r->entry = e;
  r->out_arrays = tn__tape_alloc(memory, n_out * sizeof *r->out_arrays);
  r->req = tn__tape_alloc(memory, n_out * sizeof *r->req);
}

/* ------------------------------------------------------------------ inputs */

static tn_code fail_input(const recording *r, uint32_t i, int known) {
  const tn__tape_operand *operand = &r->entry->in[i];
  const bool is_gradient = i < r->n_out_grads;
  tn__fail(TN_INVALID, "%s: %s `%s`", r->target->op->name,
           is_gradient ? "gradient of output" : "input",
           (is_gradient ? r->desc->outputs : r->desc->inputs)[operand->declared]
               ->name);
  return tn__tape_find_fail(known);
}

static const tn__layout *first_layout(const recording *r) {
  return r->entry->n_in > 0 ? r->entry->in[0].layout : NULL;
}

/* Keeps the position of an operand of a value. Other operands need only shape,
 * dtype and device, and often share these with another operand. */
static void keep_layout(recording *r, tn__tape_operand *operand,
                        const tn_array *array) {
  tn__tape_memory *memory = &r->tape->memory;
  const tn__layout *like = first_layout(r), layout = tn__layout_of(array);
  if (!operand->value && like && tn__layout_is_like(like, &layout)) {
    operand->layout = like;
    return;
  }
  tn__layout *copy = tn__tape_alloc(memory, sizeof *copy);
  tn__layout_copy(memory, &layout, copy);
  operand->layout = copy;
}

static tn_code find_input(recording *r, uint32_t i) {
  tn_array *array = r->in->arrays[i];
  tn__tape_operand *operand = &r->entry->in[i];
  if (!array) return TN_OK;
  const tn__layout layout = tn__layout_of(array);
  if (tn__dtype_is_float(layout.dtype) && !is_stopped(r->entry, i)) {
    const int known = tn__tape_find(r->tape, array, &operand->value);
    if (known >= TN__KNOWN_PARTLY) return fail_input(r, i, known);
  }
  const tn__tape_value *value = operand->value;
  r->connected |= value != NULL;
  r->derived |= !value && tn__tape_is_known(r->tape, array);
  if (value && tn__layout_is_same(&value->layout, &layout))
    operand->layout = &value->layout;
  return TN_OK;
}

/* ------------------------------------------------------------------- needs */

static void mark_operands(tn__tape_operand *operands, uint32_t n,
                          const tn_need *need) {
  for (uint32_t i = 0; i < n; ++i)
    if (operands[i].declared == need->index) operands[i].needed = 1;
}

/* A gradient of a recorded gradient may read all operands of that call. */
static void mark_needs(tn__tape_entry *e) {
  const tn_gradient *g = e->desc->gradient;
  for (uint32_t i = 0; e->n_out_grads > 0 && i < e->n_in; ++i)
    e->in[i].needed = 1;
  if (e->n_out_grads > 0) return;
  if (!g || g->kind == TN_GRADIENT_NONE) return;
  for (uint32_t i = 0; i < e->n_in; ++i) {
    if (!e->in[i].value) continue;
    const tn_input_gradient *rule = g->inputs[e->in[i].declared];
    for (uint32_t k = 0; k < rule->n_needs; ++k) {
      if (rule->needs[k].metadata) continue;
      if (rule->needs[k].what == TN_NEED_IN)
        mark_operands(e->in, e->n_in, &rule->needs[k]);
      else if (rule->needs[k].what == TN_NEED_OUT)
        mark_operands(e->out, e->n_out, &rule->needs[k]);
    }
  }
}

/* Watches the arrays that gradients read, before the call, which may write them
 * itself. Other constants keep only their shape. */
static void watch_inputs(recording *r) {
  mark_needs(r->entry);
  for (uint32_t i = 0; i < r->entry->n_in; ++i) {
    tn__tape_operand *operand = &r->entry->in[i];
    tn_array *array = r->in->arrays[i];
    if (!array) continue;
    if (operand->needed) operand->version = tn__array_watch(array);
    if (operand->layout || (operand->needed && !operand->value)) continue;
    keep_layout(r, operand, array);
  }
}

/* ----------------------------------------------------------------- outputs */

static tn_req request_of(const recording *r, uint32_t i) {
  if (i >= r->out->n) return TN_REQ_NULL;
  return r->out->req ? r->out->req[i] : TN_REQ_WRITE;
}

/* True if the call itself refuses to write there, with a message. */
static bool is_refused(const recording *r, uint32_t i) {
  const tn_array *to = r->out->arrays[i];
  const uint32_t n_in = r->entry->n_in;
  if (to->env != r->tape->caller->env) return true;
  if (tn__tensor_has_repeats(&to->tensor)) return true;
  for (uint32_t k = 0; k < r->out->n; ++k)
    if (k != i && request_of(r, k) != TN_REQ_NULL && r->out->arrays[k] &&
        tn__arrays_overlap(to, r->out->arrays[k]))
      return true;
  for (uint32_t k = n_in; k < n_in + r->entry->n_aux; ++k)
    if (r->in->arrays[k] && tn__arrays_overlap(to, r->in->arrays[k]))
      return true;
  return false;
}

/* Replaces TN_REQ_ADD by a call into a new array, which checks its arguments,
 * and a sum. Both are recorded. A sum that cannot be recorded is refused before
 * the call, because the call may write other outputs. */
static tn_code prepare_sum(recording *r, uint32_t i) {
  tn__tape_operand *operand = &r->entry->out[i];
  tn_array *to = r->out_arrays[i];
  tn__tape_value *value = NULL;
  if (is_refused(r, i)) return TN_OK;
  const int known = tn__tape_find(r->tape, to, &value);
  if (known >= TN__KNOWN_PARTLY) {
    tn__fail(TN_INVALID, "%s: output `%s`, which is added to,",
             r->target->op->name, r->desc->outputs[operand->declared]->name);
    return tn__tape_find_fail(known);
  }
  if (!r->connected && known == TN__KNOWN_NOT) return TN_OK;
  const tn__layout layout = tn__layout_of(to);
  TN__TRY(tn__layout_create_array(&layout, &r->out_arrays[i]));
  operand->sum = true;
  r->req[i] = TN_REQ_WRITE;
  return tn__array_materialise(r->out_arrays[i]);
}

/* Releases the new arrays of the sums. */
static void drop_sums(recording *r) {
  for (uint32_t i = 0; i < r->entry->n_out; ++i)
    if (r->entry->out[i].sum) tn__array_release(r->out_arrays[i]);
}

static bool has_known_output(const recording *r) {
  for (uint32_t i = 0; i < r->entry->n_out; ++i) {
    const tn_array *array =
        request_of(r, i) == TN_REQ_NULL ? NULL : r->out->arrays[i];
    if (array && tn__tape_has_block(r->tape, array)) return true;
  }
  return false;
}

/* Requests outputs that the gradient reads, also if the caller does not want
 * them. */
static tn_code prepare_outputs(recording *r) {
  r->n_out_arrays = (uint32_t)r->out->n;
  for (uint32_t i = 0; i < r->entry->n_out; ++i) {
    tn__tape_operand *operand = &r->entry->out[i];
    r->req[i] = request_of(r, i);
    r->out_arrays[i] = r->req[i] == TN_REQ_NULL ? NULL : r->out->arrays[i];
    const bool extra = r->req[i] == TN_REQ_NULL && operand->needed;
    if (r->req[i] == TN_REQ_ADD && r->out_arrays[i]) TN__TRY(prepare_sum(r, i));
    if (extra) r->req[i] = TN_REQ_WRITE;
    if (extra && i >= r->n_out_arrays) r->n_out_arrays = i + 1;
    if (r->out_arrays[i])
      operand->version = tn__array_version(r->out_arrays[i]);
  }
  return TN_OK;
}

/* ------------------------------------------------------------------ record */

/* Watches an array. A fresh one needs no atomic exchange, because no other
 * thread knows it. */
static uint64_t watch_output(tn_array *array, bool fresh) {
  if (!fresh || tn__array_version(array) != 0) return tn__array_watch(array);
  atomic_store_explicit(&array->block->version, 1, memory_order_relaxed);
  return 1;
}

static bool is_fresh(const recording *r, uint32_t i) {
  return i >= r->out->n || r->out_arrays[i] != r->out->arrays[i];
}

/* Sets single members, except those that tn__tape_add_value sets. To zero the
 * whole struct would cost a tenth of a recorded call. */
static void make_value(recording *r, uint32_t i, bool passes) {
  tn_array *array = r->out_arrays[i];
  tn_tape *tape = r->tape;
  tn__tape_operand *operand = &r->entry->out[i];
  const bool fresh = is_fresh(r, i);
  const tn__layout layout = tn__layout_of(array);
  tn__tape_value *value = tn__tape_alloc(&tape->memory, sizeof *value);
  value->entry = passes ? r->entry : NULL;
  value->watched = NULL;
  value->serial = tn__tape_get_serial(tape, array, fresh);
  value->before = operand->version;
  value->after = watch_output(array, fresh);
  value->n_uses = 0;
  value->outdated = false;
  tn__layout_share(&tape->memory, &layout, first_layout(r), &value->layout);
  operand->layout = &value->layout;
  if (passes) operand->value = value;
  tn__tape_add_value(tape, value);
}

static void record_outputs(recording *r) {
  for (uint32_t i = 0; i < r->entry->n_out; ++i) {
    tn_array *array = r->req[i] == TN_REQ_NULL ? NULL : r->out_arrays[i];
    if (!array) continue;
    tn__tape_operand *operand = &r->entry->out[i];
    const bool passes = r->connected && tn__dtype_is_float(array->tensor.dtype);
    const bool known = r->connected || r->derived;
    if (known || tn__tape_has_block(r->tape, array)) make_value(r, i, passes);
    if (!operand->layout && r->connected) keep_layout(r, operand, array);
  }
}

static void save_array(tn_tape *tape, tn__tape_operand *operand,
                       tn_array *array) {
  if (!array) return;
  operand->saved = tn__array_retain(array);
  tn__tape_add_block(tape, array);
}

static void record_call(recording *r) {
  tn__tape_entry *e = r->entry;
  if (!r->connected) return;
  tn__tape_append_entry(r->tape, e);
  for (uint32_t i = 0; i < e->n_in; ++i) {
    if (e->in[i].value) ++e->in[i].value->n_uses;
    if (e->in[i].needed) save_array(r->tape, &e->in[i], r->in->arrays[i]);
  }
  for (uint32_t i = 0; i < e->n_aux; ++i)
    save_array(r->tape, &e->in[e->n_in + i], r->in->arrays[e->n_in + i]);
  for (uint32_t i = 0; i < e->n_out; ++i) {
    if (!e->out[i].needed) continue;
    e->out[i].version = tn__array_version(r->out_arrays[i]);
    save_array(r->tape, &e->out[i], r->out_arrays[i]);
  }
  if (r->target->params)
    e->params = tn__params_retain((tn_params *)(uintptr_t)r->target->params);
}

static tn_code record_sums(recording *r) {
  for (uint32_t i = 0; i < r->entry->n_out; ++i) {
    if (!r->entry->out[i].sum) continue;
    tn_array *to = r->out->arrays[i];
    TN__TRY(tn__tape_accumulate(r->tape, to, to, r->out_arrays[i], false));
  }
  return TN_OK;
}

/* Passes new arrays to the caller, or releases them. */
static void deliver_outputs(recording *r, bool good) {
  for (uint32_t i = 0; i < r->n_out_arrays; ++i) {
    const bool mine = i >= r->out->n || request_of(r, i) == TN_REQ_NULL ||
                      r->out_arrays[i] != r->out->arrays[i];
    if (!mine || r->req[i] == TN_REQ_NULL) continue;
    const bool is_requested =
        i < r->out->n && request_of(r, i) != TN_REQ_NULL && !r->out->arrays[i];
    if (good && is_requested)
      r->out->arrays[i] = r->out_arrays[i];
    else
      tn__array_release(r->out_arrays[i]);
  }
}

/* -------------------------------------------------------------------- call */

tn_code tn__tape_perform(const tn__target_op *target, const tn_inputs *in,
                         const tn_outputs *out) {
  if (target->pass == TN_PASS_FORWARD) return tn__call(target, in, out);
  const size_t n_out_grads = in->n - out->n;
  const tn_backward call = {.struct_size = sizeof call,
                            .flags = target->flags,
                            .params = target->params,
                            .inputs = {out->n, in->arrays + n_out_grads},
                            .out_grads = {n_out_grads, in->arrays},
                            .in_grads = *out};
  return tn__call_backward(target->caller, target->op, &call);
}

static tn_code call_and_record(recording *r) {
  const tn__tape_point point = tn__tape_point_get(r->tape);
  tn_code rc = prepare_outputs(r);
  const tn_outputs out = {r->n_out_arrays, r->out_arrays, r->req};
  if (rc == TN_OK) rc = tn__tape_perform(r->target, r->in, &out);
  if (rc) {
    drop_sums(r);
    return rc;
  }
  record_outputs(r);
  record_call(r);
  rc = record_sums(r);
  if (rc) tn__tape_return_to(r->tape, point);
  deliver_outputs(r, rc == TN_OK);
  return rc;
}

static tn_code begin_recording(recording *r, uint32_t n_out) {
  tn_tape *tape = r->tape;
  const size_t bytes = count_entry_bytes(r, n_out);
  TN__TRY(tn__tape_reserve(tape->caller->env, &tape->memory, bytes));
  TN__TRY(tn__tape_index_reserve(tape, r->in->n + n_out));
  TN__TRY(tn__vec_reserve(tape->caller->env, &tape->held, 1));
  init_entry(r, n_out);
  for (uint32_t i = 0; i < r->entry->n_in; ++i) TN__TRY(find_input(r, i));
  return TN_OK;
}

/* True if no array is on the tape. Then there is nothing to record. */
static bool is_unknown(const tn_tape *tape, const tn_inputs *in,
                       const tn_outputs *out) {
  for (size_t i = 0; i < in->n; ++i)
    if (in->arrays[i] && tn__tape_has_block(tape, in->arrays[i])) return false;
  for (size_t i = 0; i < out->n; ++i)
    if (out->arrays[i] && (!out->req || out->req[i] != TN_REQ_NULL) &&
        tn__tape_has_block(tape, out->arrays[i]))
      return false;
  return true;
}

static bool is_held(const tn_tape *tape, const tn_operator *op) {
  for (size_t i = tape->held.n; i > 0; --i)
    if (tape->held.v[i - 1] == op) return true;
  return false;
}

/* The caller or the tape holds the operator. */
static tn_code run_call(recording *r) {
  uint32_t n_out = (uint32_t)r->out->n;
  if (r->target->pass == TN_PASS_BACKWARD)
    r->n_out_grads = (uint32_t)r->in->n - n_out;
  else if (!has_valid_counts(r) ||
           tn__operator_outputs(r->target->op, r->target->params,
                                (uint32_t)r->in->n - r->desc->n_aux, &n_out) ||
           r->out->n > n_out)
    return tn__call(r->target, r->in, r->out);
  const tn__tape_mark top = tn__tape_mark_get(&r->tape->memory);
  tn_code rc = begin_recording(r, n_out);
  if (rc == TN_OK && !r->connected && !r->derived && !has_known_output(r)) {
    tn__tape_rewind(&r->tape->memory, top);
    return tn__tape_perform(r->target, r->in, r->out);
  }
  if (rc == TN_OK) {
    if (r->connected) watch_inputs(r);
    rc = call_and_record(r);
  }
  if (rc) tn__tape_rewind(&r->tape->memory, top);
  return rc;
}

tn_code tn__tape_call(tn_tape *tape, const tn__target_op *target,
                      const tn_inputs *in, const tn_outputs *out) {
  tn_operator *op = target->op;
  recording r = {.tape = tape, .target = target, .in = in, .out = out};
  /* The call itself refuses objects of another runtime. */
  if (is_unknown(tape, in, out) || op->registry != tape->caller->registry)
    return tn__tape_perform(target, in, out);
  const bool held = is_held(tape, op);
  if (!held) TN__TRY(tn__operator_hold(op));
  r.desc = op->desc;
  const tn_code rc = run_call(&r);
  const bool recorded = rc == TN_OK && r.connected;
  if (!held && recorded)
    tape->held.v[tape->held.n++] = op;
  else if (!held)
    tn__operator_unhold(op);
  return rc;
}
