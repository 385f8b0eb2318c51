/* SPDX-License-Identifier: Apache-2.0
 * arrays.c: an array for each entry of a program, and the calls of its steps.
 * An array without memory costs little. The calls are planned with these arrays
 * before the memory plan exists.
 */
#include <string.h>

#include "program.h"

/* ------------------------------------------------------------------ arrays */

/* Returns the signature of an entry. An entry that is a partial sum has the
 * signature of the whole sum. */
static const tn_sig *get_entry_sig(const tn_program *p, uint32_t entry) {
  if (entry < p->graph->n_entries) return &p->graph->sigs[entry];
  return &p->graph->sigs[p->steps[p->values[entry].step]->node->first];
}

/* Tests whether the entry is the gradient of an absent input, which has no
 * type. */
static bool is_absent_gradient(const tn_program *p, uint32_t entry) {
  return get_entry_sig(p, entry)->dtype == TN_DTYPE_UNKNOWN;
}

static tn_code make_array(tn_program *p, uint32_t entry) {
  static const tn_sig empty = {TN_F32, 1, {0}};
  const tn_sig *sig =
      is_absent_gradient(p, entry) ? &empty : get_entry_sig(p, entry);
  const tn_spec spec = {sig->dtype, sig->ndim, sig->shape};
  if (p->values[entry].array) return TN_OK;
  return tn__array_create_on(p->values[entry].device, &spec,
                             &p->values[entry].array);
}

/* Makes the arrays of a forward call's operands if only the gradient of the
 * call is computed: the operands still determine shapes. */
static tn_code make_forward_arrays(tn_program *p, const tn__node *node) {
  const tn__node *forward = tn__node_at(p->graph, node->of);
  for (uint32_t i = 0; i < forward->n_in + forward->n_aux; ++i) {
    const tn_entry in = forward->in[i];
    if (!tn__entry_is_none(in))
      TN__TRY(make_array(p, tn__entry_id(p->graph, in)));
  }
  return TN_OK;
}

bool tn__value_is_like(const tn_program *p, uint32_t entry,
                       const tn_array *array) {
  const tn_sig *sig = &p->graph->sigs[entry];
  const tn_tensor *t = array ? &array->tensor : NULL;
  return !array || (t->dtype == sig->dtype && t->ndim == sig->ndim &&
                    memcmp(t->shape, sig->shape,
                           (size_t)t->ndim * sizeof *t->shape) == 0);
}

tn_code tn__value_check(const tn_program *p, uint32_t entry,
                        const tn_array *array, const char *what) {
  const tn_sig *sig = &p->graph->sigs[entry];
  const tn_tensor *t = array ? &array->tensor : NULL;
  if (tn__value_is_like(p, entry, array)) return TN_OK;
  tn__buf have, want;
  tn__buf_init(&have, p->env);
  tn__buf_init(&want, p->env);
  tn__buf_shape(&have, t->ndim, t->shape);
  tn__buf_shape(&want, sig->ndim, sig->shape);
  tn__fail(TN_SHAPE, "%s: the array is %s %s, but it has to be %s %s", what,
           tn__dtype_name(t->dtype), have.s ? have.s : "?",
           tn__dtype_name(sig->dtype), want.s ? want.s : "?");
  tn__buf_deinit(&have);
  tn__buf_deinit(&want);
  return TN_SHAPE;
}

/* ----------------------------------------------------------------- filling */

static tn_code copy_element_to_all(tn_array *one, tn_array *to) {
  tn_array *cast = NULL, *all = NULL;
  const tn_tensor *t = &to->tensor;
  tn_code rc = tn__array_cast(one, t->dtype, &cast);
  if (rc == TN_OK) rc = tn__array_broadcast(cast, t->ndim, t->shape, &all);
  if (rc == TN_OK) rc = tn__array_copy(to, all);
  if (all) tn__array_release(all);
  if (cast) tn__array_release(cast);
  return rc;
}

tn_code tn__array_fill(const tn_program *p, tn_array *to, double value) {
  const tn_spec number = {TN_F64, 0, NULL};
  tn_array *one = NULL;
  TN__TRY(tn__array_create(p->env, &number, &one));
  tn_code rc = tn__array_set(one, &value, sizeof value);
  if (rc == TN_OK) rc = copy_element_to_all(one, to);
  tn__array_release(one);
  return rc;
}

/* -------------------------------------------------------------------- uses */

static bool is_requested(const tn__value *value) {
  return value->n_uses > 0 ||
         (value->flags & (TN__ENTRY_HEAD | TN__ENTRY_EXTERNAL)) != 0;
}

/* Tests whether a step is idle: no step reads the elements of its results or
 * waits for it. A step that draws random numbers or changes states is never
 * idle, because it affects others. */
static bool is_idle(const tn_program *p, const tn__step *step) {
  for (uint32_t k = 0; k < step->n_out; ++k)
    if (is_requested(&p->values[step->out[k]])) return false;
  return step->repeats && !step->signal;
}

/* Makes an idle step read only the shapes of its inputs. If the writer of an
 * input must not be computed twice, it still computes the input, as it would
 * for another reader. */
static tn_code read_input_shapes_only(tn_program *p, tn__step *step) {
  bool *shape_only =
      tn__arena_alloc(&p->arena, (step->n_in + 1u) * sizeof *shape_only);
  if (!shape_only) return tn__fail_memory(step->n_in, "the steps of a program");
  for (uint32_t i = 0; i < step->n_in; ++i) {
    const uint32_t entry = step->in[i];
    const uint32_t writer = entry == TN_NONE ? TN_NONE : p->values[entry].step;
    const bool was = step->shape_only && step->shape_only[i];
    shape_only[i] = was || writer == TN_NONE || p->steps[writer]->repeats;
    if (entry != TN_NONE && shape_only[i] && !was) --p->values[entry].n_uses;
  }
  step->shape_only = shape_only;
  return TN_OK;
}

/* Lets all idle steps read only shapes, from the last step to the first,
 * because an idle step can make earlier steps idle. */
static tn_code remove_idle_steps(tn_program *p) {
  for (uint32_t i = p->n_steps; i-- > 0;)
    if (is_idle(p, p->steps[i]))
      TN__TRY(read_input_shapes_only(p, p->steps[i]));
  return TN_OK;
}

tn_code tn__arrays_make(tn_program *p) {
  TN__TRY(remove_idle_steps(p));
  for (uint32_t i = 0; i < p->n_steps; ++i) {
    const tn__step *step = p->steps[i];
    for (uint32_t k = 0; k < step->n_in; ++k)
      if (step->in[k] != TN_NONE) TN__TRY(make_array(p, step->in[k]));
    if (step->node->kind == TN__NODE_BACKWARD)
      TN__TRY(make_forward_arrays(p, step->node));
    for (uint32_t k = 0; k < step->n_out; ++k) {
      tn__value *value = &p->values[step->out[k]];
      if (!is_requested(value)) value->request = TN_REQ_NULL;
      TN__TRY(make_array(p, step->out[k]));
    }
  }
  return TN_OK;
}

/* ------------------------------------------------------------------- calls */

/* The operands of a call, from the heap: arrays, and requests. */
typedef struct lists {
  tn_array **in;
  tn_array **out;
  tn_req *req;
} lists;

static tn_code alloc_operand_lists(const tn__step *step, uint32_t n_more,
                                   lists *l) {
  const size_t n = (size_t)step->n_in + step->n_out + n_more + 1;
  const size_t bytes = n * (sizeof(tn_array *) + sizeof(tn_req));
  l->in = tn__zalloc(step->program->env, bytes);
  if (!l->in) return tn__fail_memory(bytes, "the operands of a step");
  l->out = l->in + step->n_in + n_more;
  l->req = (tn_req *)(void *)(l->in + n);
  for (uint32_t i = 0; i < step->n_in; ++i)
    l->in[i] = tn__value_array(step->program, step->in[i]);
  for (uint32_t i = 0; i < step->n_out; ++i) {
    if (!is_absent_gradient(step->program, step->out[i]))
      l->out[i] = tn__value_array(step->program, step->out[i]);
    l->req[i] = step->program->values[step->out[i]].request;
  }
  return TN_OK;
}

static bool has_same_shape(const tn_array *a, const tn_array *b) {
  const tn_tensor *x = &a->tensor, *y = &b->tensor;
  return x->dtype == y->dtype && x->ndim == y->ndim &&
         memcmp(x->shape, y->shape, (size_t)x->ndim * sizeof *x->shape) == 0;
}

/* An array without memory on the step's device. */
static tn_code replace_by_shape(tn__step *step, tn_array **in) {
  tn_program *p = step->program;
  const tn_tensor *t = &(*in)->tensor;
  const tn_spec spec = {t->dtype, t->ndim, t->shape};
  tn_array *made = NULL;
  for (size_t i = 0; i < p->shapes.n; ++i) {
    made = p->shapes.v[i];
    if (made->block->device == step->device && has_same_shape(made, *in)) {
      *in = made;
      return TN_OK;
    }
  }
  TN__TRY(tn__vec_reserve(p->env, &p->shapes, 1));
  TN__TRY(tn__array_create_on(step->device, &spec, &made));
  *in = made;
  return tn__vec_push(p->env, &p->shapes, made);
}

/* Replaces those arrays that are on other devices than the step by arrays
 * without memory. The step does not read their elements. */
static tn_code replace_remote_arrays(tn__step *step, tn_array **in,
                                     uint32_t n) {
  for (uint32_t i = 0; i < n; ++i)
    if (in[i] && in[i]->block->device != step->device)
      TN__TRY(replace_by_shape(step, &in[i]));
  return TN_OK;
}

static tn_code plan_forward(tn__step *step, uint32_t train, tn__planned **out) {
  const tn__node *node = step->node;
  const tn__target_op target = {step->program->caller,
                                step->joint ? step->joint->op : node->op,
                                step->joint ? step->joint : node->params,
                                TN_PASS_FORWARD, train ? TN_CALL_TRAIN : 0};
  lists l;
  TN__TRY(alloc_operand_lists(step, 0, &l));
  const tn_inputs in = {step->n_in, l.in};
  const tn_outputs outputs = {step->n_out, l.out, l.req};
  tn_code rc = replace_remote_arrays(step, l.in, step->n_in);
  if (rc == TN_OK) rc = tn__planned_create(&target, &in, &outputs, out);
  tn__free(step->program->env, l.in);
  return rc;
}

/* Sets the operands of the forward call of a gradient. The entries of the
 * forward node replace operands that the gradient does not read, because they
 * still determine shapes and which optional operands are present. */
static void set_forward_operands(const tn__step *step, const tn__node *forward,
                                 tn_array **in, tn_array **out) {
  const tn_program *p = step->program;
  const uint32_t n_out = forward->n_out, n_in = forward->n_in;
  for (uint32_t i = 0; i < n_in + forward->n_aux; ++i) {
    const tn_entry own = forward->in[i];
    const uint32_t given = i < n_in ? step->in[n_out + i] : TN_NONE;
    if (given != TN_NONE)
      in[i] = tn__value_array(p, given);
    else if (!tn__entry_is_none(own))
      in[i] = tn__value_array(p, tn__entry_id(p->graph, own));
  }
  for (uint32_t i = 0; i < n_out; ++i)
    out[i] = tn__value_array(p, step->in[n_out + n_in + i]);
}

static tn_code plan_backward(tn__step *step, tn__planned **out) {
  const tn__node *forward = tn__node_at(step->program->graph, step->node->of);
  const uint32_t n_in = forward->n_in + forward->n_aux;
  lists l;
  TN__TRY(alloc_operand_lists(step, n_in + forward->n_out, &l));
  tn_array **in = l.in + step->n_in, **outputs = in + n_in;
  set_forward_operands(step, forward, in, outputs);
  const tn_backward call = {
      .struct_size = sizeof call,
      .flags = TN_CALL_TRAIN,
      .params = step->joint ? step->joint : forward->params,
      .inputs = {n_in, in},
      .outputs = {forward->n_out, outputs},
      .out_grads = {forward->n_out, l.in},
      .in_grads = {step->n_out, l.out, l.req}};
  const uint32_t n = step->n_in + n_in + forward->n_out;
  tn_code rc = replace_remote_arrays(step, l.in, n);
  if (rc == TN_OK)
    rc = tn__planned_create_backward(
        step->program->caller, step->joint ? step->joint->op : forward->op,
        &call, out);
  tn__free(step->program->env, l.in);
  return rc;
}

tn_code tn__step_plan(tn__step *step, uint32_t train, tn__planned **slot) {
  tn__planned *call = NULL;
  const tn_code rc = step->node->kind == TN__NODE_BACKWARD
                         ? plan_backward(step, &call)
                         : plan_forward(step, train, &call);
  if (rc != TN_OK) return tn__node_fail(step->node, rc);
  tn__planned_release(*slot);
  *slot = call;
  return TN_OK;
}

void tn__step_fill_info(tn__step *step, uint32_t train) {
  tn__planned_describe(step->call[train], &step->info);
  for (uint32_t k = 0; k < step->n_parts; ++k)
    if (step->parts[k]->info.workspace > step->info.workspace)
      step->info.workspace = step->parts[k]->info.workspace;
}

tn_code tn__steps_choose(tn_program *p) {
  for (uint32_t i = 0; i < p->n_steps; ++i) {
    tn__step *step = p->steps[i];
    if (step->kind != TN__STEP_CALL) continue;
    const uint32_t train = i >= p->n_forward || p->n_forward < p->n_steps;
    TN__TRY(tn__step_plan(step, train, &step->call[train]));
    tn__step_fill_info(step, train);
    if (tn__step_job_flags(step, train) == 0) continue;
    p->queued = true;
    step->repeats = false; /* its work is not on this machine alone */
  }
  return TN_OK;
}
