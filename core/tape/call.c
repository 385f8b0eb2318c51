/* SPDX-License-Identifier: Apache-2.0
 * call.c: a call is made, and recorded if gradients can pass through it. What
 * is computed from recorded arrays otherwise is noted, as constants.
 * What the record needs is reserved before the call, so that none is made that
 * cannot be recorded.
 */
#include <string.h>

#include "tape.h"

/* A call that is about to be recorded. */
typedef struct recording {
  tn_tape *tape;
  const tn__target_op *target;
  const tn_inputs *in;
  const tn_outputs *out;
  const tn_op *desc;
  tn__tape_entry *entry;
  tn_array **places; /* of the outputs: the caller's, or to receive */
  tn_req *req;
  uint32_t n_places;
  uint32_t n_heads; /* of a backward call: gradients of outputs */
  bool connected;   /* an input hands gradients on */
  bool derived;     /* one that the tape knows does not: what comes out is a
                       constant of the tape, and so a head without slopes */
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

/* The output that has a count, of which there is at most one; or their number.
 */
static uint32_t find_counted(const tn_op *op) {
  uint32_t i = 0;
  while (i < op->n_outputs && op->outputs[i]->count == TN_NONE) ++i;
  return i;
}

/* Outputs behind the one with a count move by what it adds. */
static void declare_outputs(const tn_op *op, tn__tape_operand *out,
                            uint32_t n_out) {
  const uint32_t counted = find_counted(op);
  const uint32_t n = n_out - op->n_outputs + 1; /* of the counted one */
  for (uint32_t i = 0; i < n_out; ++i) {
    const bool behind = i >= counted + n;
    out[i].declared = i < counted ? i : behind ? i - n + 1 : counted;
    out[i].member = i < counted || behind ? -1 : (int32_t)(i - counted);
  }
}

static void declare(const recording *r, tn__tape_entry *e) {
  declare_inputs(r->desc, e->in + r->n_heads, e->n_in - r->n_heads);
  if (r->n_heads > 0) {
    declare_outputs(r->desc, e->in, r->n_heads);
    declare_inputs(r->desc, e->out, e->n_out);
  } else {
    declare_outputs(r->desc, e->out, e->n_out);
  }
}

/* The operator never differentiates this input. One without a gradient fails
 * when it is asked. */
static bool is_stopped(const tn__tape_entry *e, uint32_t i) {
  const tn_gradient *g = e->desc->gradient;
  if (i < e->n_heads) return false;
  return g && g->kind != TN_GRADIENT_NONE && g->inputs[e->in[i].declared]->stop;
}

/* ------------------------------------------------------------------- begin */

/* A call with such counts is refused; the call itself says how. */
static bool counts_fit(const recording *r) {
  const tn_op *op = r->desc;
  if (r->in->n < op->n_aux || r->in->n > UINT16_MAX) return false;
  return is_variadic(op) || r->in->n - op->n_aux <= op->n_inputs;
}

static size_t entry_bytes(const recording *r, uint32_t n_out) {
  size_t bytes = tn__tape_room(sizeof(tn__tape_entry)) +
                 tn__tape_room((r->in->n + n_out) * sizeof(tn__tape_operand)) +
                 tn__tape_room(n_out * sizeof(tn_array *)) +
                 tn__tape_room(n_out * sizeof(tn_req));
  for (size_t i = 0; i < r->in->n; ++i)
    if (r->in->arrays[i])
      bytes += tn__layout_bytes(r->in->arrays[i]->tensor.ndim);
  return bytes + n_out * (tn__tape_room(sizeof(tn__tape_value)) +
                          2 * tn__layout_bytes(TN_MAX_NDIM));
}

static void entry_init(recording *r, uint32_t n_out) {
  tn__tape_memory *memory = &r->tape->memory;
  const size_t n = r->in->n + n_out;
  tn__tape_entry *e = tn__tape_take(memory, sizeof *e);
  tn__tape_operand *operands = tn__tape_take(memory, n * sizeof *operands);
  memset(operands, 0, n * sizeof *operands);
  *e = (tn__tape_entry){.op = r->target->op,
                        .desc = r->desc,
                        .flags = r->target->flags,
                        .n_in = (uint32_t)r->in->n - r->desc->n_aux,
                        .n_aux = r->desc->n_aux,
                        .n_out = n_out,
                        .n_heads = r->n_heads,
                        .in = operands,
                        .out = operands + r->in->n};
  declare(r, e);
  r->entry = e;
  r->places = tn__tape_take(memory, n_out * sizeof *r->places);
  r->req = tn__tape_take(memory, n_out * sizeof *r->req);
}

/* ------------------------------------------------------------------ inputs */

static tn_code input_fail(const recording *r, uint32_t i, int known) {
  const tn__tape_operand *operand = &r->entry->in[i];
  const bool head = i < r->n_heads;
  tn__fail(
      TN_INVALID, "%s: %s `%s`", r->target->op->name,
      head ? "gradient of output" : "input",
      (head ? r->desc->outputs : r->desc->inputs)[operand->declared]->name);
  return tn__tape_find_fail(known);
}

static const tn__layout *first_layout(const recording *r) {
  return r->entry->n_in > 0 ? r->entry->in[0].layout : NULL;
}

/* Where an operand lies matters only within a value; of others shape, dtype and
 * device are enough, which they often have in common with another one. */
static void layout_keep(recording *r, tn__tape_operand *operand,
                        const tn_array *array) {
  tn__tape_memory *memory = &r->tape->memory;
  const tn__layout *like = first_layout(r), layout = tn__layout_of(array);
  if (!operand->value && like && tn__layout_alike(like, &layout)) {
    operand->layout = like;
    return;
  }
  tn__layout *copy = tn__tape_take(memory, sizeof *copy);
  tn__layout_copy(memory, &layout, copy);
  operand->layout = copy;
}

static tn_code input_find(recording *r, uint32_t i) {
  tn_array *array = r->in->arrays[i];
  tn__tape_operand *operand = &r->entry->in[i];
  if (!array) return TN_OK;
  const tn__layout layout = tn__layout_of(array);
  if (tn__dtype_is_float(layout.dtype) && !is_stopped(r->entry, i)) {
    const int known = tn__tape_find(r->tape, array, &operand->value);
    if (known >= TN__KNOWN_PARTLY) return input_fail(r, i, known);
  }
  const tn__tape_value *value = operand->value;
  r->connected |= value != NULL;
  r->derived |= !value && tn__tape_knows(r->tape, array);
  if (value && tn__layout_same(&value->layout, &layout))
    operand->layout = &value->layout;
  return TN_OK;
}

/* ------------------------------------------------------------------- needs */

static void mark(tn__tape_operand *operands, uint32_t n, const tn_need *need) {
  for (uint32_t i = 0; i < n; ++i)
    if (operands[i].declared == need->index) operands[i].needed = 1;
}

/* The gradient of a gradient may read whatever that reads. */
static void mark_needs(tn__tape_entry *e) {
  const tn_gradient *g = e->desc->gradient;
  for (uint32_t i = 0; e->n_heads > 0 && i < e->n_in; ++i) e->in[i].needed = 1;
  if (e->n_heads > 0) return;
  if (!g || g->kind == TN_GRADIENT_NONE) return;
  for (uint32_t i = 0; i < e->n_in; ++i) {
    if (!e->in[i].value) continue;
    const tn_input_gradient *rule = g->inputs[e->in[i].declared];
    for (uint32_t k = 0; k < rule->n_needs; ++k) {
      if (rule->needs[k].metadata) continue;
      if (rule->needs[k].what == TN_NEED_IN)
        mark(e->in, e->n_in, &rule->needs[k]);
      else if (rule->needs[k].what == TN_NEED_OUT)
        mark(e->out, e->n_out, &rule->needs[k]);
    }
  }
}

/* What a gradient reads is watched from before the call on, which may itself
 * write it. Of constants that it does not read only the shape stays. */
static void watch_inputs(recording *r) {
  mark_needs(r->entry);
  for (uint32_t i = 0; i < r->entry->n_in; ++i) {
    tn__tape_operand *operand = &r->entry->in[i];
    tn_array *array = r->in->arrays[i];
    if (!array) continue;
    if (operand->needed) operand->version = tn__array_watch(array);
    if (operand->layout || (operand->needed && !operand->value)) continue;
    layout_keep(r, operand, array);
  }
}

/* ----------------------------------------------------------------- outputs */

static tn_req asked(const recording *r, uint32_t i) {
  if (i >= r->out->n) return TN_REQ_NULL;
  return r->out->req ? r->out->req[i] : TN_REQ_WRITE;
}

/* The call itself refuses to write there, and says why. */
static bool is_refused(const recording *r, uint32_t i) {
  const tn_array *to = r->out->arrays[i];
  const uint32_t n_in = r->entry->n_in;
  if (to->env != r->tape->caller->env) return true;
  if (tn__tensor_repeats(&to->tensor)) return true;
  for (uint32_t k = 0; k < r->out->n; ++k)
    if (k != i && asked(r, k) != TN_REQ_NULL && r->out->arrays[k] &&
        tn__arrays_meet(to, r->out->arrays[k]))
      return true;
  for (uint32_t k = n_in; k < n_in + r->entry->n_aux; ++k)
    if (r->in->arrays[k] && tn__arrays_meet(to, r->in->arrays[k])) return true;
  return false;
}

/* Adding to an array is a call into another one like it, which checks what it
 * is given, and a sum, of which each is recorded for itself. A sum that cannot
 * be recorded is refused before the call is made, which may write other
 * outputs. */
static tn_code sum_place(recording *r, uint32_t i) {
  tn__tape_operand *operand = &r->entry->out[i];
  tn_array *to = r->places[i];
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
  TN__TRY(tn__layout_array(&layout, &r->places[i]));
  operand->sum = true;
  r->req[i] = TN_REQ_WRITE;
  return tn__array_materialise(r->places[i]);
}

/* Lets go of them. */
static void sums_drop(recording *r) {
  for (uint32_t i = 0; i < r->entry->n_out; ++i)
    if (r->entry->out[i].sum) tn__array_release(r->places[i]);
}

static bool is_touching(const recording *r) {
  for (uint32_t i = 0; i < r->entry->n_out; ++i) {
    const tn_array *array =
        asked(r, i) == TN_REQ_NULL ? NULL : r->out->arrays[i];
    if (array && tn__tape_touches(r->tape, array)) return true;
  }
  return false;
}

/* What the gradient reads is computed also if the caller does not want it. */
static tn_code place_outputs(recording *r) {
  r->n_places = (uint32_t)r->out->n;
  for (uint32_t i = 0; i < r->entry->n_out; ++i) {
    tn__tape_operand *operand = &r->entry->out[i];
    r->req[i] = asked(r, i);
    r->places[i] = r->req[i] == TN_REQ_NULL ? NULL : r->out->arrays[i];
    const bool extra = r->req[i] == TN_REQ_NULL && operand->needed;
    if (r->req[i] == TN_REQ_ADD && r->places[i]) TN__TRY(sum_place(r, i));
    if (extra) r->req[i] = TN_REQ_WRITE;
    if (extra && i >= r->n_places) r->n_places = i + 1;
    if (r->places[i]) operand->version = tn__array_version(r->places[i]);
  }
  return TN_OK;
}

/* ------------------------------------------------------------------ record */

/* Watching costs less where nobody else can. */
static uint64_t watch(tn_array *array, bool fresh) {
  if (!fresh || tn__array_version(array) != 0) return tn__array_watch(array);
  atomic_store_explicit(&array->block->version, 1, memory_order_relaxed);
  return 1;
}

static bool is_fresh(const recording *r, uint32_t i) {
  return i >= r->out->n || r->places[i] != r->out->arrays[i];
}

/* Member by member, what tn__tape_enter sets left out: a struct that is zeroed
 * as a whole takes a tenth of a recorded call. */
static void value_make(recording *r, uint32_t i, bool passes) {
  tn_array *array = r->places[i];
  tn_tape *tape = r->tape;
  tn__tape_operand *operand = &r->entry->out[i];
  const bool fresh = is_fresh(r, i);
  const tn__layout layout = tn__layout_of(array);
  tn__tape_value *value = tn__tape_take(&tape->memory, sizeof *value);
  value->entry = passes ? r->entry : NULL;
  value->watched = NULL;
  value->serial = tn__tape_serial(tape, array, fresh);
  value->before = operand->version;
  value->after = watch(array, fresh);
  value->n_uses = 0;
  value->outdated = false;
  tn__layout_share(&tape->memory, &layout, first_layout(r), &value->layout);
  operand->layout = &value->layout;
  if (passes) operand->value = value;
  tn__tape_enter(tape, value);
}

static void record_outputs(recording *r) {
  for (uint32_t i = 0; i < r->entry->n_out; ++i) {
    tn_array *array = r->req[i] == TN_REQ_NULL ? NULL : r->places[i];
    if (!array) continue;
    tn__tape_operand *operand = &r->entry->out[i];
    const bool passes = r->connected && tn__dtype_is_float(array->tensor.dtype);
    const bool known = r->connected || r->derived;
    if (known || tn__tape_touches(r->tape, array)) value_make(r, i, passes);
    if (!operand->layout && r->connected) layout_keep(r, operand, array);
  }
}

static void save(tn_tape *tape, tn__tape_operand *operand, tn_array *array) {
  if (!array) return;
  operand->saved = tn__array_retain(array);
  tn__tape_note(tape, array);
}

static void record_call(recording *r) {
  tn__tape_entry *e = r->entry;
  if (!r->connected) return;
  tn__tape_append(r->tape, e);
  for (uint32_t i = 0; i < e->n_in; ++i) {
    if (e->in[i].value) ++e->in[i].value->n_uses;
    if (e->in[i].needed) save(r->tape, &e->in[i], r->in->arrays[i]);
  }
  for (uint32_t i = 0; i < e->n_aux; ++i)
    save(r->tape, &e->in[e->n_in + i], r->in->arrays[e->n_in + i]);
  for (uint32_t i = 0; i < e->n_out; ++i) {
    if (!e->out[i].needed) continue;
    e->out[i].version = tn__array_version(r->places[i]);
    save(r->tape, &e->out[i], r->places[i]);
  }
  if (r->target->params)
    e->params = tn__params_retain((tn_params *)(uintptr_t)r->target->params);
}

static tn_code record_sums(recording *r) {
  for (uint32_t i = 0; i < r->entry->n_out; ++i) {
    if (!r->entry->out[i].sum) continue;
    tn_array *to = r->out->arrays[i];
    TN__TRY(tn__tape_sum(r->tape, to, to, r->places[i], false));
  }
  return TN_OK;
}

/* New arrays go to the caller, or are let go. */
static void deliver(recording *r, bool good) {
  for (uint32_t i = 0; i < r->n_places; ++i) {
    const bool mine = i >= r->out->n || asked(r, i) == TN_REQ_NULL ||
                      r->places[i] != r->out->arrays[i];
    if (!mine || r->req[i] == TN_REQ_NULL) continue;
    const bool wanted =
        i < r->out->n && asked(r, i) != TN_REQ_NULL && !r->out->arrays[i];
    if (good && wanted)
      r->out->arrays[i] = r->places[i];
    else
      tn__array_release(r->places[i]);
  }
}

/* -------------------------------------------------------------------- call */

tn_code tn__tape_perform(const tn__target_op *target, const tn_inputs *in,
                         const tn_outputs *out) {
  if (target->pass == TN_PASS_FORWARD) return tn__call(target, in, out);
  const size_t n_heads = in->n - out->n;
  const tn_backward call = {.struct_size = sizeof call,
                            .flags = target->flags,
                            .params = target->params,
                            .inputs = {out->n, in->arrays + n_heads},
                            .out_grads = {n_heads, in->arrays},
                            .in_grads = *out};
  return tn__call_backward(target->caller, target->op, &call);
}

static tn_code call_and_record(recording *r) {
  const tn__tape_point point = tn__tape_point_get(r->tape);
  tn_code rc = place_outputs(r);
  const tn_outputs out = {r->n_places, r->places, r->req};
  if (rc == TN_OK) rc = tn__tape_perform(r->target, r->in, &out);
  if (rc) {
    sums_drop(r);
    return rc;
  }
  record_outputs(r);
  record_call(r);
  rc = record_sums(r);
  if (rc) tn__tape_return(r->tape, point);
  deliver(r, rc == TN_OK);
  return rc;
}

static tn_code begin(recording *r, uint32_t n_out) {
  tn_tape *tape = r->tape;
  const size_t bytes = entry_bytes(r, n_out);
  TN__TRY(tn__tape_reserve(tape->caller->env, &tape->memory, bytes));
  TN__TRY(tn__tape_index_reserve(tape, r->in->n + n_out));
  TN__TRY(tn__vec_reserve(tape->caller->env, &tape->held, 1));
  entry_init(r, n_out);
  for (uint32_t i = 0; i < r->entry->n_in; ++i) TN__TRY(input_find(r, i));
  return TN_OK;
}

/* The tape knows nothing of any of the arrays, so nothing is to be recorded. */
static bool is_unknown(const tn_tape *tape, const tn_inputs *in,
                       const tn_outputs *out) {
  for (size_t i = 0; i < in->n; ++i)
    if (in->arrays[i] && tn__tape_touches(tape, in->arrays[i])) return false;
  for (size_t i = 0; i < out->n; ++i)
    if (out->arrays[i] && (!out->req || out->req[i] != TN_REQ_NULL) &&
        tn__tape_touches(tape, out->arrays[i]))
      return false;
  return true;
}

static bool is_held(const tn_tape *tape, const tn_operator *op) {
  for (size_t i = tape->held.n; i > 0; --i)
    if (tape->held.v[i - 1] == op) return true;
  return false;
}

/* The operator is held for the call, or by the tape. */
static tn_code run(recording *r) {
  uint32_t n_out = (uint32_t)r->out->n;
  if (r->target->pass == TN_PASS_BACKWARD)
    r->n_heads = (uint32_t)r->in->n - n_out;
  else if (!counts_fit(r) ||
           tn__operator_count_outputs(r->target->op, r->target->params,
                                (uint32_t)r->in->n - r->desc->n_aux, &n_out) ||
           r->out->n > n_out)
    return tn__call(r->target, r->in, r->out);
  const tn__tape_mark top = tn__tape_mark_get(&r->tape->memory);
  tn_code rc = begin(r, n_out);
  if (rc == TN_OK && !r->connected && !r->derived && !is_touching(r)) {
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
  if (is_unknown(tape, in, out) || op->registry != tape->caller->registry)
    return tn__tape_perform(target, in, out); /* refuses what is not its own */
  const bool held = is_held(tape, op);
  if (!held) TN__TRY(tn__operator_hold(op));
  r.desc = op->desc;
  const tn_code rc = run(&r);
  const bool recorded = rc == TN_OK && r.connected;
  if (!held && recorded)
    tape->held.v[tape->held.n++] = op;
  else if (!held)
    tn__operator_unhold(op);
  return rc;
}
