/* SPDX-License-Identifier: Apache-2.0
 * bind_loops.c: binds the step graph of each loop of a program: a program of
 * its own, whose constants and states of operators are the arrays of the outer
 * program.
 */
#include <string.h>

#include "iteration.h"
#include "stations.h"

#define TN__MOST_LOOP_STEPS 1000000000u

static void set_roles(const tn__node *node, struct tn__iteration *it) {
  for (uint32_t i = 0; i < node->loop->n_sequences; ++i)
    it->role[node->loop->sequences[i]] = TN__ROLE_SEQUENCE;
  for (uint32_t i = 0; i < node->loop->n_states; ++i)
    it->role[node->loop->states[i]] = TN__ROLE_STATE;
}

static tn_sig get_array_sig(const tn_array *array, bool element) {
  const tn_tensor *t = &array->tensor;
  tn_sig sig = tn__sig_unknown();
  sig.dtype = t->dtype;
  sig.ndim = t->ndim - (element ? 1 : 0);
  memcpy(sig.shape, t->shape + (element ? 1 : 0),
         (size_t)sig.ndim * sizeof *t->shape);
  return sig;
}

static const char *get_inner_name(const tn__node *node, const tn_entry *inside,
                                  uint32_t i) {
  return tn__node_at(node->inner, inside[i].node)->name;
}

/* Creates an array for the state after each step, even if the step returns an
 * argument unchanged: the array of that argument would be overwritten before
 * its last reader. */
static tn_code make_state_arrays(const tn__step *step, tn_array **outputs) {
  const tn__loop *loop = step->node->loop;
  for (uint32_t i = 0; i < loop->n_states; ++i) {
    const tn_tensor *t =
        &tn__value_array(step->program, step->in[loop->states[i]])->tensor;
    const tn_spec spec = {t->dtype, t->ndim, t->shape};
    TN__TRY(tn__array_create_on(step->device, &spec, &outputs[i]));
  }
  return TN_OK;
}

/* Adds the kept entries that nodes read to the heads of the step graph, after
 * its own heads. */
static tn_code add_kept_heads(const tn__step *step, struct tn__iteration *it,
                              tn_entry *heads) {
  const tn__loop *loop = step->node->loop;
  it->kept = tn__arena_alloc(&step->program->arena,
                             (loop->n_kept + 1u) * sizeof *it->kept);
  if (!it->kept) return tn__fail_memory(loop->n_kept, "a loop");
  for (uint32_t k = 0; k < loop->n_kept; ++k) {
    const uint32_t out = it->n_heads + loop->n_states + k;
    if (!tn__loop_writes(step, out)) continue;
    heads[it->n_heads + it->n_kept] = loop->kept[k];
    it->kept[it->n_kept++] = out;
  }
  return TN_OK;
}

/* Copies the step graph and adds heads for its kept entries. The caller
 * releases *out. */
static tn_code make_step_graph(const tn__step *step, struct tn__iteration *it,
                               tn_graph **out) {
  const tn_graph *inner = step->node->inner;
  const size_t n = inner->n_heads + step->node->loop->n_kept;
  tn_entry *heads = tn__alloc(inner->env, (n + 1) * sizeof *heads);
  *out = NULL;
  if (!heads) return tn__fail_memory(n * sizeof *heads, "a loop");
  it->n_heads = (uint32_t)inner->n_heads;
  memcpy(heads, inner->heads, inner->n_heads * sizeof *heads);
  tn_code rc = add_kept_heads(step, it, heads);
  if (rc == TN_OK) rc = tn__graph_copy(inner, out);
  if (rc == TN_OK)
    rc = tn__graph_heads_set(*out, heads, it->n_heads + it->n_kept);
  tn__free(inner->env, heads);
  return rc;
}

static tn_code bind_step_program(tn__step *step, struct tn__iteration *it,
                                 const tn_argument *arguments) {
  const tn__loop *loop = step->node->loop;
  const size_t n = loop->n_states + 1u;
  tn_array **outputs = tn__zalloc(step->program->env, n * sizeof *outputs);
  tn_graph *graph = NULL;
  if (!outputs) return tn__fail_memory(n * sizeof *outputs, "a loop");
  tn_code rc = make_step_graph(step, it, &graph);
  if (rc == TN_OK) rc = make_state_arrays(step, outputs);
  const tn_bind how = {.struct_size = sizeof how,
                       .arguments = arguments,
                       .n_arguments = it->n_in,
                       .outputs = outputs,
                       .n_outputs = loop->n_states,
                       .flags = step->program->how.flags | TN__BIND_SERIAL,
                       .place = {step->device->type, step->device->id}};
  if (rc == TN_OK) rc = tn__program_bind(graph, &how, &it->program);
  tn__graph_release(graph);
  for (uint32_t i = 0; i < loop->n_states; ++i) tn__array_release(outputs[i]);
  tn__free(step->program->env, outputs);
  return rc;
}

static bool has_readers(const tn__value *value) {
  return value->n_uses > 0 || (value->flags & TN__ENTRY_HEAD) != 0;
}

/* Sets the array of an input of the step program. It has no memory if the loop
 * reads only the shape of the input. */
static tn_code set_inner_array(tn__step *step, struct tn__iteration *it,
                               const char *name, uint32_t i) {
  const tn_program *inner = it->program;
  const tn__node *node = tn__map_get(&inner->graph->names, name);
  const tn__value *value = node ? &inner->values[node->first] : NULL;
  if (!value || !value->array ||
      (!tn__loop_reads(step, i) && has_readers(value)))
    return tn__fail(TN_INTERNAL, "the step of a loop has another use of `%s`",
                    name);
  it->inside[i] = value->array;
  return tn__loop_reads(step, i) ? tn__array_materialise_zeros(value->array)
                                 : TN_OK;
}

/* Binds the step program. The inputs that stay the same in all steps have the
 * arrays of the outer program. */
static tn_code make_step_program(tn__step *step, struct tn__iteration *it,
                                 const tn_entry *inside,
                                 tn_argument *arguments) {
  const tn__node *node = step->node;
  for (uint32_t i = 0; i < it->n_in; ++i) {
    tn_array *array = tn__value_array(step->program, step->in[i]);
    const uint8_t role = i < node->n_in ? it->role[i] : TN__ROLE_CONSTANT;
    arguments[i] =
        (tn_argument){.name = get_inner_name(node, inside, i),
                      .known = get_array_sig(array, role == TN__ROLE_SEQUENCE)};
    if (role == TN__ROLE_CONSTANT && tn__loop_reads(step, i))
      arguments[i].array = array;
  }
  TN__TRY(bind_step_program(step, it, arguments));
  for (uint32_t i = 0; i < it->n_in; ++i)
    TN__TRY(set_inner_array(step, it, get_inner_name(node, inside, i), i));
  return TN_OK;
}

/* Counts the steps of one run of a loop and rejects too many. A sequence with
 * elements of 0 bytes may have any length, nested loops multiply the steps, and
 * a run cannot be stopped. */
static tn_code count_steps(tn__step *step) {
  tn_program *p = step->program;
  const uint64_t n = (uint64_t)tn__loop_count_steps(step);
  size_t all = 0;
  if (tn__mul(n, step->loop->program->loop_steps + 1, &all) &&
      all <= TN__MOST_LOOP_STEPS - p->loop_steps) {
    p->loop_steps += all;
    return TN_OK;
  }
  return tn__fail(TN_OUT_OF_RANGE,
                  "it makes %llu steps with %llu steps of loops in each; all "
                  "loops of a program make at most %u in one run",
                  (unsigned long long)n,
                  (unsigned long long)step->loop->program->loop_steps,
                  TN__MOST_LOOP_STEPS);
}

static tn_code make_iteration(tn__step *step) {
  tn_program *p = step->program;
  const tn__node *node = step->node;
  const tn_entry *inside = NULL;
  uint32_t n_in = 0, n_aux = 0;
  TN__TRY(tn__graph_variables(node->inner, &inside, &n_in, &n_aux));
  struct tn__iteration *it = tn__arena_alloc(&p->arena, sizeof *it);
  const size_t n = (size_t)n_in + n_aux + 1;
  tn_argument *arguments = tn__zalloc(p->env, n * sizeof *arguments);
  if (it) {
    it->n_in = n_in + n_aux;
    it->role = tn__arena_alloc(&p->arena, n);
    it->inside = tn__arena_alloc(&p->arena, n * sizeof *it->inside);
  }
  tn_code rc = TN_OK;
  if (p->arena.failed || !arguments)
    rc = tn__fail_memory(n * sizeof *arguments, "a loop");
  if (rc == TN_OK) {
    set_roles(node, it);
    rc = make_step_program(step, it, inside, arguments);
    step->loop = it;
  }
  if (rc == TN_OK) rc = count_steps(step);
  tn__free(p->env, arguments);
  return rc == TN_OK ? rc : tn__node_fail(node, rc);
}

tn_code tn__bind_loops(tn_program *p) {
  for (uint32_t i = 0; i < p->n_steps; ++i)
    if (p->steps[i]->kind == TN__STEP_LOOP)
      TN__TRY(make_iteration(p->steps[i]));
  return TN_OK;
}
