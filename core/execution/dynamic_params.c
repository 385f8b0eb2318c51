/* SPDX-License-Identifier: Apache-2.0
 * dynamic_params.c: parameters of a program's calls that change between its
 * runs.
 */
#include <string.h>

#include "execution.h"

/* -------------------------------------------------------------------- one */

typedef struct setting {
  const tn_program *p;
  const tn__node *node;
  const tn_value *value;
  uint32_t n_set; /* number of calls that have got the new value */
  tn_code rc;     /* result of the setting; it is not the result of the job,
                     because no variable should keep it as an error */
} setting;

/* Sets the parameter in the calls of one step. A call without work has no
 * parameters. */
static void set_step_parameter(const tn__step *step, setting *s) {
  const tn__node *node = step->node;
  tn__planned *const calls[] = {step->call[0], step->call[1], step->watch[0],
                                step->watch[1]};
  const bool is_gradient =
      node->kind == TN__NODE_BACKWARD && node->of == s->node->id;
  if (node != s->node && !is_gradient) return;
  for (int i = 0; i < 4 && s->rc == TN_OK; ++i) {
    if (!calls[i]) continue;
    const tn_code rc = tn__planned_set_param(calls[i], s->value);
    if (rc == TN_OK)
      ++s->n_set;
    else if (rc != TN_NOT_FOUND)
      s->rc = rc;
  }
}

/* Sets the parameter in every step of the node: also in recomputed steps and in
 * its gradient, which read it too. */
static tn_code run_setting(void *arg, tn__token *token) {
  setting *s = arg;
  (void)token;
  for (uint32_t i = 0; i < s->p->n_steps; ++i) {
    const tn__step *step = s->p->steps[i];
    if (step->kind == TN__STEP_CALL) set_step_parameter(step, s);
    for (uint32_t k = 0; k < step->n_parts; ++k)
      set_step_parameter(step->parts[k], s);
  }
  if (s->rc == TN_OK && s->n_set == 0) s->rc = TN_NOT_FOUND;
  return TN_OK;
}

static const tn__node *find_node(const tn_program *p, const char *name) {
  for (uint32_t i = 0; i < p->n_steps; ++i) {
    const tn__step *step = p->steps[i];
    if (step->kind == TN__STEP_CALL && strcmp(step->node->name, name) == 0)
      return step->node;
    for (uint32_t k = 0; k < step->n_parts; ++k)
      if (strcmp(step->parts[k]->node->name, name) == 0)
        return step->parts[k]->node;
  }
  return NULL;
}

/* Sets the parameter for both kinds of run, with and without training, so it
 * plans the calls of both first. It does not wait for a device: kernels copy
 * their parameters when their work is enqueued. */
tn_code tn__program_set(tn_program *p, const char *node,
                        const tn_value *value) {
  const tn__access use = {&p->turn, TN__OVERWRITE, 0};
  setting s = {.p = p, .node = find_node(p, node), .value = value};
  if (!s.node)
    return tn__fail(TN_NOT_FOUND, "the program computes no node `%s`", node);
  TN__TRY(tn__calls_complete(p, 0));
  TN__TRY(tn__calls_complete(p, 1));
  const tn__job job = {
      .name = "tn_program_set",
      .run = run_setting,
      .arg = &s,
      .access = &use,
      .n_access = 1,
      .flags = TN__JOB_SMALL | TN__JOB_ALWAYS | TN__JOB_ISSUED};
  TN__TRY(tn__run_here(p->env->engine, &job));
  if (s.rc != TN_OK) return tn__node_fail(s.node, s.rc);
  p->set = true;
  return TN_OK;
}

/* ------------------------------------------------- those of another program */

static void copy_step_params(const tn__step *step, const tn__step *from) {
  const tn__planned *call = tn__step_call(from);
  for (uint32_t train = 0; call && train < 2; ++train)
    if (step->call[train]) tn__planned_copy_params(step->call[train], call);
}

/* Maps the name of each computed node to one of its steps. */
static tn_code map_steps(const tn_program *p, tn__map *map) {
  for (uint32_t i = 0; i < p->n_steps; ++i) {
    tn__step *step = p->steps[i];
    if (step->kind == TN__STEP_CALL)
      TN__TRY(tn__map_set(p->env, map, step->node->name, step));
    for (uint32_t k = 0; k < step->n_parts; ++k)
      TN__TRY(
          tn__map_set(p->env, map, step->parts[k]->node->name, step->parts[k]));
  }
  return TN_OK;
}

static void copy_changed_params(const tn__map *map, const tn__step *step) {
  const tn__step *from = tn__map_get(map, step->node->name);
  if (from) copy_step_params(step, from);
}

tn_code tn__program_copy_params(tn_program *p, const tn_program *from) {
  tn__map steps = {0};
  if (!from->set) return TN_OK;
  tn_code rc = tn__calls_complete(p, 0);
  if (rc == TN_OK) rc = tn__calls_complete(p, 1);
  if (rc == TN_OK) rc = map_steps(from, &steps);
  for (uint32_t i = 0; rc == TN_OK && i < p->n_steps; ++i) {
    const tn__step *step = p->steps[i];
    if (step->kind == TN__STEP_CALL) copy_changed_params(&steps, step);
    for (uint32_t k = 0; k < step->n_parts; ++k)
      copy_changed_params(&steps, step->parts[k]);
  }
  tn__map_deinit(p->env, &steps);
  p->set = rc == TN_OK;
  return rc;
}
