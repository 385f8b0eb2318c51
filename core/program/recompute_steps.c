/* SPDX-License-Identifier: Apache-2.0
 * recompute_steps.c: programs with a memory limit. They run some forward steps
 * a second time, before the backward part needs their results. core/plan
 * (recompute.h) decides which, from numbers; this file makes these numbers of
 * the program's steps, and steps of the answer.
 */
#include <string.h>

#include "program.h"
#include "recompute.h"

/* ------------------------------------------------------------------- costs */

static double count_elements(const tn_program *p, uint32_t entry) {
  const tn_array *array = tn__value_array(p, entry);
  return array ? (double)tn_tensor_size(&array->tensor) : 0;
}

/* Estimates the work of a step. A product with weights costs one operation for
 * each output element and matching weight; other steps cost the bytes that they
 * move. */
static double estimate_work(const tn_program *p, const tn__step *step) {
  double moved = 0, product = 0, out = 0;
  for (uint32_t i = 0; i < step->n_out; ++i)
    out += count_elements(p, step->out[i]);
  for (uint32_t i = 0; i < step->n_in; ++i) {
    const tn_arg *arg = tn__node_input(step->node, i);
    const tn_array *array = tn__value_array(p, step->in[i]);
    if (!array) continue;
    moved += count_elements(p, step->in[i]);
    if (!arg || arg->role != TN_ROLE_WEIGHT || array->tensor.ndim < 2 ||
        array->tensor.shape[0] == 0)
      continue;
    product +=
        out * count_elements(p, step->in[i]) / (double)array->tensor.shape[0];
  }
  return moved + out + product;
}

/* Whether a step reads a variable that another step changes. */
static bool reads_state(const tn__step *step) {
  const tn__node *node = step->node;
  for (uint32_t i = 0; i < node->n_in; ++i)
    if (!tn__entry_is_none(node->in[i]) &&
        tn__node_at(step->program->graph, node->in[i].node)->flags &
            TN__NODE_STATE)
      return true;
  return false;
}

/* Whether a step must run only once: it draws random numbers, changes a state
 * or reads one that changes. */
static bool must_run_once(const tn__step *step) {
  const char *keep = tn__attribute_get(step->node, "keep");
  if (keep && strcmp(keep, "1") == 0) return true;
  if (step->kind == TN__STEP_LOOP || step->node->n_aux > 0 || reads_state(step))
    return true;
  if (step->kind != TN__STEP_CALL) return false;
  return !step->info.kernel || step->info.kernel->desc->n_resources > 0;
}

/* Estimates the cost of running a step a second time; 0 if the user has set the
 * attribute to "0". */
static double estimate_cost(const tn_program *p, const tn__step *step) {
  const char *keep = tn__attribute_get(step->node, "keep");
  return keep && strcmp(keep, "0") == 0 ? 0 : estimate_work(p, step);
}

/* ------------------------------------------------------------------- steps */

/* The new list of steps while it is written. */
typedef struct step_writer {
  tn_program *p;
  tn__step **steps;
  uint32_t n;
  uint32_t *now; /* for each entry: the entry that replaces it for the steps
                    that are written from now on */
} step_writer;

static tn_code fail_memory(const tn_program *p) {
  return tn__fail_memory(p->n_values * sizeof(tn__value),
                         "repeated steps of a program");
}

static void append_step(step_writer *w, tn__step *step) {
  step->id = w->n;
  w->steps[w->n++] = step;
  for (uint32_t i = 0; i < step->n_out; ++i)
    w->p->values[step->out[i]].step = step->id;
}

static void update_inputs(const step_writer *w, tn__step *step) {
  for (uint32_t i = 0; i < step->n_in; ++i) {
    const uint32_t entry = step->in[i];
    if (entry == TN_NONE || w->now[entry] == entry) continue;
    step->in[i] = w->now[entry];
    if (step->shape_only && step->shape_only[i]) continue;
    --w->p->values[entry].n_uses;
    ++w->p->values[step->in[i]].n_uses;
  }
}

/* Adds an entry with the signature of `entry` and an array of its own. */
static tn_code copy_entry(step_writer *w, uint32_t entry, uint32_t *out) {
  tn_program *p = w->p;
  const tn_tensor *t = &p->values[entry].array->tensor;
  const tn_spec spec = {t->dtype, t->ndim, t->shape};
  tn__value *value = &p->values[p->n_values];
  *value = (tn__value){.request = TN_REQ_WRITE,
                       .step = TN_NONE,
                       .place = TN_NONE,
                       .device = p->values[entry].device};
  TN__TRY(tn__array_create_on(value->device, &spec, &value->array));
  w->now[p->n_values] = p->n_values;
  w->now[entry] = p->n_values;
  *out = p->n_values++;
  return TN_OK;
}

static tn_code repeat_step(step_writer *w, const tn__step *from) {
  tn_program *p = w->p;
  tn__step *step = tn__arena_alloc(&p->arena, sizeof *step);
  if (!step) return fail_memory(p);
  *step = *from;
  step->signal = NULL; /* steps that wait for this one wait for its first run */
  step->call[0] = step->call[1] = NULL;
  step->in = tn__arena_alloc(&p->arena, (from->n_in + 1u) * sizeof *step->in);
  step->out =
      tn__arena_alloc(&p->arena, (from->n_out + 1u) * sizeof *step->out);
  if (p->arena.failed) return fail_memory(p);
  memcpy(step->in, from->in, from->n_in * sizeof *step->in);
  for (uint32_t i = 0; i < step->n_in; ++i)
    if (step->in[i] != TN_NONE && !(step->shape_only && step->shape_only[i]))
      ++p->values[step->in[i]].n_uses;
  update_inputs(w, step);
  for (uint32_t i = 0; i < step->n_out; ++i)
    TN__TRY(copy_entry(w, from->out[i], &step->out[i]));
  append_step(w, step);
  return TN_OK;
}

static tn_code alloc_lists(step_writer *w, const tn__recompute *answer) {
  tn_program *p = w->p;
  size_t n = p->n_values;
  for (size_t k = 0; k < answer->n_repeats; ++k)
    n += p->steps[answer->repeats[k].node]->n_out;
  tn__value *values = tn__arena_alloc(&p->arena, (n + 1) * sizeof *values);
  w->now = tn__arena_alloc(&p->arena, (n + 1) * sizeof *w->now);
  w->steps = tn__arena_alloc(
      &p->arena, (p->n_steps + answer->n_repeats + 1) * sizeof(tn__step *));
  if (p->arena.failed) return fail_memory(p);
  memcpy(values, p->values, p->n_values * sizeof *values);
  p->values = values;
  for (uint32_t i = 0; i < p->n_values; ++i) w->now[i] = i;
  return TN_OK;
}

/* Plans again the calls of steps that now have other operands. */
static tn_code renew_calls(tn_program *p) {
  for (uint32_t i = p->n_forward; i < p->n_steps; ++i) {
    tn__step *step = p->steps[i];
    if (step->kind != TN__STEP_CALL) continue;
    TN__TRY(tn__step_plan(step, 1, &step->call[1]));
    tn__planned_describe(step->call[1], &step->info);
  }
  return TN_OK;
}

/* Removes the requests of results that no step reads any more, because repeated
 * steps have replaced them. */
static void renew_requests(tn_program *p) {
  for (uint32_t i = 0; i < p->n_values; ++i) {
    tn__value *value = &p->values[i];
    const bool kept =
        (value->flags & (TN__ENTRY_EXTERNAL | TN__ENTRY_HEAD)) != 0;
    if (value->array && value->step != TN_NONE && value->n_uses == 0 && !kept)
      value->request = TN_REQ_NULL;
  }
}

static tn_code apply_answer(tn_program *p, const tn__recompute *answer) {
  step_writer w = {.p = p};
  size_t next = 0;
  TN__TRY(alloc_lists(&w, answer));
  for (uint32_t i = 0; i < p->n_steps; ++i) {
    for (; next < answer->n_repeats && answer->repeats[next].before == i;
         ++next)
      TN__TRY(repeat_step(&w, p->steps[answer->repeats[next].node]));
    update_inputs(&w, p->steps[i]);
    append_step(&w, p->steps[i]);
  }
  p->steps = w.steps;
  p->n_steps = w.n;
  renew_requests(p);
  return renew_calls(p);
}

/* ------------------------------------------------------------------- choice */

static tn_code choose_steps(tn_program *p, const tn_bind *how,
                            const tn__plan_input *net, tn__recompute *out) {
  const size_t bytes = (p->n_forward + 1u) * sizeof(tn__recompute_cost);
  tn__recompute_cost *costs = tn__zalloc(p->env, bytes);
  if (!costs) return fail_memory(p);
  for (uint32_t i = 0; i < p->n_forward; ++i)
    costs[i] = (tn__recompute_cost){estimate_cost(p, p->steps[i]),
                                    must_run_once(p->steps[i])};
  const tn__recompute_net question = {&net->net, p->n_forward, costs};
  tn__recompute_options options = {
      .budget = how->memory == TN_MEMORY_MINIMAL ? 0 : (size_t)how->memory};
  tn__plan_options_of(how, &options.plan);
  const tn_code rc = tn__recompute_init(out, p->env, &question, &options);
  tn__free(p->env, costs);
  return rc;
}

tn_code tn__steps_recompute(tn_program *p, const tn_bind *how) {
  tn__plan_input net = {0};
  tn__recompute answer = {0};
  if (how->memory == 0 || p->n_forward == p->n_steps) return TN_OK;
  tn_code rc = tn__plan_input_make(p, &net);
  if (rc == TN_OK) rc = choose_steps(p, how, &net, &answer);
  tn__plan_input_free(p, &net);
  TN__TRY(rc);
  if (answer.n_repeats > 0) rc = apply_answer(p, &answer);
  p->stats.repeated = answer.extra;
  p->memory.least = answer.least;
  tn__recompute_deinit(&answer);
  return rc;
}
