/* SPDX-License-Identifier: Apache-2.0
 * iteration.c: a step that is a loop. Its step graph is a program of its own,
 * which runs on the thread of the step, once for each element of the sequences.
 * On a device with queues the thread enqueues all of it there, step by step.
 * The loop copies elements, states and results in and out. Constants and states
 * of operators are the arrays of the outer program.
 */
#include <string.h>

#include "program.h"

struct tn__iteration {
  tn_program *program;
  uint32_t n_in;
  uint32_t n_heads; /* heads of the step graph; further heads of the program
                       are kept entries */
  uint32_t n_kept;
  uint32_t *kept;    /* for the kept heads: outputs of the loop */
  uint8_t *role;     /* by input: tn__role */
  tn_array **inside; /* arrays of the step's arguments, borrowed */
};

#define TN__MOST_LOOP_STEPS 1000000000u

enum { ROLE_CONSTANT = 0, ROLE_SEQUENCE = 1, ROLE_STATE = 2 }; /* tn__role */

/* -------------------------------------------------------------------- make */

static void roles_set(const tn__node *node, struct tn__iteration *it) {
  for (uint32_t i = 0; i < node->loop->n_sequences; ++i)
    it->role[node->loop->sequences[i]] = ROLE_SEQUENCE;
  for (uint32_t i = 0; i < node->loop->n_states; ++i)
    it->role[node->loop->states[i]] = ROLE_STATE;
}

static tn_sig sig_of(const tn_array *array, bool element) {
  const tn_tensor *t = &array->tensor;
  tn_sig sig = tn__sig_unknown();
  sig.dtype = t->dtype;
  sig.ndim = t->ndim - (element ? 1 : 0);
  memcpy(sig.shape, t->shape + (element ? 1 : 0),
         (size_t)sig.ndim * sizeof *t->shape);
  return sig;
}

static const char *inside_name(const tn__node *node, const tn_entry *inside,
                               uint32_t i) {
  return tn__node_at(node->inner, inside[i].node)->name;
}

/* Creates arrays for new states, even if the step passes an argument through:
 * it would be overwritten before its last reader. */
static tn_code states_make(const tn__step *step, tn_array **outputs) {
  const tn__loop *loop = step->node->loop;
  for (uint32_t i = 0; i < loop->n_states; ++i) {
    const tn_tensor *t =
        &tn__value_array(step->program, step->in[loop->states[i]])->tensor;
    const tn_spec spec = {t->dtype, t->ndim, t->shape};
    TN__TRY(tn__array_create_on(step->device, &spec, &outputs[i]));
  }
  return TN_OK;
}

static bool is_wanted(const tn__step *step, uint32_t out) {
  const tn__value *value = &step->program->values[step->out[out]];
  return value->request != TN_REQ_NULL && value->array != NULL;
}

/* Adds the kept entries that nodes read as further heads. */
static tn_code kept_find(const tn__step *step, struct tn__iteration *it,
                         tn_entry *heads) {
  const tn__loop *loop = step->node->loop;
  it->kept = tn__arena_alloc(&step->program->arena,
                             (loop->n_kept + 1u) * sizeof *it->kept);
  if (!it->kept) return tn__fail_memory(loop->n_kept, "a loop");
  for (uint32_t k = 0; k < loop->n_kept; ++k) {
    const uint32_t out = it->n_heads + loop->n_states + k;
    if (!is_wanted(step, out)) continue;
    heads[it->n_heads + it->n_kept] = loop->kept[k];
    it->kept[it->n_kept++] = out;
  }
  return TN_OK;
}

/* Makes the step graph with heads for kept entries; the caller releases it. */
static tn_code graph_make(const tn__step *step, struct tn__iteration *it,
                          tn_graph **out) {
  const tn_graph *inner = step->node->inner;
  const size_t n = inner->n_heads + step->node->loop->n_kept;
  tn_entry *heads = tn__alloc(inner->env, (n + 1) * sizeof *heads);
  *out = NULL;
  if (!heads) return tn__fail_memory(n * sizeof *heads, "a loop");
  it->n_heads = (uint32_t)inner->n_heads;
  memcpy(heads, inner->heads, inner->n_heads * sizeof *heads);
  tn_code rc = kept_find(step, it, heads);
  if (rc == TN_OK) rc = tn__graph_copy(inner, out);
  if (rc == TN_OK)
    rc = tn__graph_heads_set(*out, heads, it->n_heads + it->n_kept);
  tn__free(inner->env, heads);
  return rc;
}

static tn_code program_bind(tn__step *step, struct tn__iteration *it,
                            const tn_argument *arguments) {
  const tn__loop *loop = step->node->loop;
  const size_t n = loop->n_states + 1u;
  tn_array **outputs = tn__zalloc(step->program->env, n * sizeof *outputs);
  tn_graph *graph = NULL;
  if (!outputs) return tn__fail_memory(n * sizeof *outputs, "a loop");
  tn_code rc = graph_make(step, it, &graph);
  if (rc == TN_OK) rc = states_make(step, outputs);
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

static bool is_read(const tn__step *step, uint32_t in) {
  return !step->shape_only || !step->shape_only[in];
}

static bool has_readers(const tn__value *value) {
  return value->n_uses > 0 || (value->flags & TN__ENTRY_HEAD) != 0;
}

/* The inner array of an input: without memory if only its shape is read. */
static tn_code inside_take(tn__step *step, struct tn__iteration *it,
                           const char *name, uint32_t i) {
  const tn_program *inner = it->program;
  const tn__node *node = tn__map_get(&inner->graph->names, name);
  const tn__value *value = node ? &inner->values[node->first] : NULL;
  if (!value || !value->array || (!is_read(step, i) && has_readers(value)))
    return tn__fail(TN_INTERNAL, "the step of a loop has another use of `%s`",
                    name);
  it->inside[i] = value->array;
  return is_read(step, i) ? tn__array_materialise_zeros(value->array) : TN_OK;
}

/* Binds the step program: constants are the outer arrays. */
static tn_code program_make(tn__step *step, struct tn__iteration *it,
                            const tn_entry *inside, tn_argument *arguments) {
  const tn__node *node = step->node;
  for (uint32_t i = 0; i < it->n_in; ++i) {
    tn_array *array = tn__value_array(step->program, step->in[i]);
    const uint8_t role = i < node->n_in ? it->role[i] : ROLE_CONSTANT;
    arguments[i] = (tn_argument){.name = inside_name(node, inside, i),
                                 .known = sig_of(array, role == ROLE_SEQUENCE)};
    if (role == ROLE_CONSTANT && is_read(step, i)) arguments[i].array = array;
  }
  TN__TRY(program_bind(step, it, arguments));
  for (uint32_t i = 0; i < it->n_in; ++i)
    TN__TRY(inside_take(step, it, inside_name(node, inside, i), i));
  return TN_OK;
}

static int64_t n_steps(const tn__step *step) {
  const uint32_t first = step->node->loop->sequences[0];
  return tn__value_array(step->program, step->in[first])->tensor.shape[0];
}

/* Bounds the number of steps: a sequence of elements without bytes may have any
 * length, and nested loops multiply. A run cannot be stopped. */
static tn_code count_steps(tn__step *step) {
  tn_program *p = step->program;
  const uint64_t n = (uint64_t)n_steps(step);
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

tn_code tn__iteration_make(tn__step *step) {
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
    roles_set(node, it);
    rc = program_make(step, it, inside, arguments);
    step->loop = it;
  }
  if (rc == TN_OK) rc = count_steps(step);
  tn__free(p->env, arguments);
  return rc == TN_OK ? rc : tn__node_fail(node, rc);
}

void tn__iteration_free(tn__step *step) {
  if (step->loop) tn__program_release(step->loop->program);
}

tn_code tn__iteration_complete(tn__step *step, uint32_t train) {
  return tn__calls_complete(step->loop->program, train);
}

const tn_program *tn__iteration_program(const tn__step *step) {
  return step->loop->program;
}

/* --------------------------------------------------------------------- run */

/* Element `t` along an array's first axis. */
static tn_tensor element_at(const tn_array *array, int64_t t) {
  tn_tensor tensor = tn__array_metadata(array);
  tensor.data = (char *)tn__array_data(array) +
                t * tensor.strides[0] * tn_dtype_bytes(tensor.dtype);
  --tensor.ndim;
  ++tensor.shape;
  ++tensor.strides;
  return tensor;
}

static tn_tensor whole_of(const tn_array *array) {
  tn_tensor tensor = tn__array_metadata(array);
  tensor.data = tn__array_data(array);
  return tensor;
}

/* A run of a loop. */
typedef struct running {
  const tn__step *step;
  tn__site site;
} running;

static tn_code states_begin(const running *r) {
  const tn__step *step = r->step;
  const tn__loop *loop = step->node->loop;
  for (uint32_t i = 0; i < loop->n_states; ++i) {
    const uint32_t in = loop->states[i];
    const tn_tensor to = whole_of(step->loop->inside[in]),
                    from =
                        whole_of(tn__value_array(step->program, step->in[in]));
    TN__TRY(tn__elements_copy(&r->site, &to, &from));
  }
  return TN_OK;
}

/* Copies into an output of the loop, or adds to it. */
static tn_code put_result(const running *r, uint32_t out, const tn_tensor *to,
                          const tn_tensor *from) {
  const tn__step *step = r->step;
  if (step->program->values[step->out[out]].request != TN_REQ_ADD)
    return tn__elements_copy(&r->site, to, from);
  return tn__elements_add(&r->site, to, from);
}

static tn_array *out_array(const tn__step *step, uint32_t out) {
  return step->program->values[step->out[out]].array;
}

/* Copies the elements of step `t`, and the states for the hidden outputs. */
static tn_code step_begin(const running *r, int64_t t) {
  const tn__step *step = r->step;
  const tn__loop *loop = step->node->loop;
  const uint32_t first = step->loop->n_heads;
  for (uint32_t i = 0; i < loop->n_sequences; ++i) {
    const uint32_t in = loop->sequences[i];
    if (!is_read(step, in)) continue;
    const tn_tensor to = whole_of(step->loop->inside[in]),
                    from = element_at(
                        tn__value_array(step->program, step->in[in]), t);
    TN__TRY(tn__elements_copy(&r->site, &to, &from));
  }
  for (uint32_t i = 0; i < loop->n_states; ++i) {
    if (!is_wanted(step, first + i)) continue;
    const tn_tensor to = element_at(out_array(step, first + i), t),
                    from = whole_of(step->loop->inside[loop->states[i]]);
    TN__TRY(put_result(r, first + i, &to, &from));
  }
  return TN_OK;
}

static tn_array *head_of(const tn_program *p, uint32_t i) {
  return p->values[tn__entry_id(p->graph, p->heads[i])].array;
}

/* Copies head number `head` of the step to element `t` of output `out`. */
static tn_code collect_head(const running *r, uint32_t head, uint32_t out,
                            int64_t t) {
  const tn_tensor to = element_at(out_array(r->step, out), t),
                  from = whole_of(head_of(r->step->loop->program, head));
  return put_result(r, out, &to, &from);
}

static tn_code step_end(const running *r, int64_t t) {
  const tn__step *step = r->step;
  const tn__loop *loop = step->node->loop;
  const struct tn__iteration *it = step->loop;
  for (uint32_t i = loop->n_states; i < it->n_heads; ++i)
    if (is_wanted(step, i)) TN__TRY(collect_head(r, i, i, t));
  for (uint32_t k = 0; k < it->n_kept; ++k)
    TN__TRY(collect_head(r, it->n_heads + k, it->kept[k], t));
  for (uint32_t i = 0; i < loop->n_states; ++i) {
    const tn_tensor to = whole_of(step->loop->inside[loop->states[i]]),
                    from = whole_of(head_of(it->program, i));
    TN__TRY(tn__elements_copy(&r->site, &to, &from));
  }
  return TN_OK;
}

/* Copies the states after the last step into the loop's outputs, or adds them.
 */
static tn_code copy_last_states(const running *r) {
  const tn__step *step = r->step;
  const tn__loop *loop = step->node->loop;
  for (uint32_t i = 0; i < loop->n_states; ++i) {
    if (!is_wanted(step, i)) continue;
    const tn_tensor to = whole_of(out_array(step, i)),
                    from = whole_of(step->loop->inside[loop->states[i]]);
    TN__TRY(put_result(r, i, &to, &from));
  }
  return TN_OK;
}

tn_code tn__iteration_run(const tn__step *step, uint32_t train,
                          tn__token *token) {
  const tn_program *inner = step->loop->program;
  const tn__loop *loop = step->node->loop;
  const int64_t n = n_steps(step);
  const running r = {step, {step->device, token, NULL}};
  TN__TRY(states_begin(&r));
  for (int64_t i = 0; i < n; ++i) {
    const int64_t t = loop->reverse ? n - 1 - i : i;
    TN__TRY(step_begin(&r, t));
    TN__TRY(tn__steps_run(inner, 0, inner->n_forward, train, token));
    TN__TRY(step_end(&r, t));
  }
  return copy_last_states(&r);
}
