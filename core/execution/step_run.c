/* SPDX-License-Identifier: Apache-2.0
 * step_run.c: the functions that run the steps of a program, and the loop that
 * issues a range of steps.
 */
#include <stdio.h>
#include <string.h>

#include "floating.h"
#include "fused.h"

static tn_code run_call(const tn__step *step, uint32_t train,
                        tn__token *token) {
  return tn__planned_run(step->call[train], token);
}

static tn_tensor get_tensor(const tn__step *step, uint32_t entry) {
  const tn_array *array = tn__value_array(step->program, entry);
  tn_tensor tensor = tn__array_metadata(array);
  tensor.data = tn__array_data(array);
  return tensor;
}

/* Tests whether a step may have to add its result to existing elements, for a
 * request of the user or because the memory plan merges a sum into it. */
static bool has_add_request(const tn__step *step) {
  return step->program->values[step->out[0]].request == TN_REQ_ADD;
}

static tn__site make_site(const tn__step *step, tn__token *token) {
  return (tn__site){step->device, token, step->program->env->engine};
}

/* Computes the sum of two terms. One of them may be in the memory of the
 * result. */
static tn_code run_add(const tn__step *step, uint32_t train, tn__token *token) {
  const tn_tensor out = get_tensor(step, step->out[0]),
                  a = get_tensor(step, step->in[0]),
                  b = get_tensor(step, step->in[1]);
  const tn__site site = make_site(step, token);
  (void)train;
  if (has_add_request(step)) {
    TN__TRY(tn__elements_add(&site, &out, &a));
    return tn__elements_add(&site, &out, &b);
  }
  const bool is_b = out.data == b.data;
  if (!is_b) TN__TRY(tn__elements_copy(&site, &out, &a));
  return tn__elements_add(&site, &out, is_b ? &a : &b);
}

static tn_code run_copy(const tn__step *step, uint32_t train,
                        tn__token *token) {
  const tn_tensor out = get_tensor(step, step->out[0]),
                  in = get_tensor(step, step->in[0]);
  const tn__site site = make_site(step, token);
  (void)train;
  return has_add_request(step) ? tn__elements_add(&site, &out, &in)
                               : tn__elements_copy(&site, &out, &in);
}

static tn_code run_fill(const tn__step *step, uint32_t train,
                        tn__token *token) {
  const tn_tensor out = get_tensor(step, step->out[0]);
  const tn__site site = make_site(step, token);
  (void)train;
  if (step->node->kind != TN__NODE_ZERO)
    return tn__elements_fill_one(&site, &out, has_add_request(step));
  return has_add_request(step) ? TN_OK : tn__elements_zero(&site, &out);
}

static tn_code run_nothing(const tn__step *step, uint32_t train,
                           tn__token *token) {
  (void)step;
  (void)train;
  (void)token;
  return TN_OK;
}

void tn__step_set_run(tn__step *step) {
  static tn_code (*const runs[])(const tn__step *, uint32_t, tn__token *) = {
      [TN__STEP_CALL] = run_call,         [TN__STEP_ADD] = run_add,
      [TN__STEP_FILL] = run_fill,         [TN__STEP_COPY] = run_copy,
      [TN__STEP_FUSED] = tn__fused_run,   [TN__STEP_NOTHING] = run_nothing,
      [TN__STEP_LOOP] = tn__iteration_run};
  step->run = runs[step->kind];
  if (step->kind == TN__STEP_COPY && tn__step_crosses(step))
    step->run = tn__device_steps_copy;
}

static tn_code run_step(tn__step *step, uint32_t train, tn__token *token) {
  const tn_code rc = step->run(step, train, token);
  if (step->kind == TN__STEP_FUSED) return rc; /* its text names the call */
  if (rc == TN_LATER) return rc;
  if (rc != TN_OK) return tn__node_fail(step->node, rc);
  if (step->kind == TN__STEP_CALL &&
      !tn__planned_get_direct(step->call[train], &step->direct[train]))
    step->direct[train].compute = NULL;
  return TN_OK;
}

/* Runs a step, as a direct call of its kernel if it has one. */
static tn_code run_plain_step(tn__step *step, uint32_t train, tn__token *token,
                              const tn__floating *floating) {
  const tn__direct_call *direct = &step->direct[train];
  if (!direct->compute) return run_step(step, train, token);
  direct->text[0] = '\0';
  const int32_t rc = direct->compute(direct->frame);
  tn__floating_keep(floating);
  if (rc == TN_OK) return TN_OK;
  return tn__node_fail(step->node, tn__planned_fail(step->call[train], rc));
}

/* ------------------------------------------------------------------- traces */

static size_t append_step_name(const tn__step *step, char *to, size_t room) {
  const bool gradient = step->node->kind == TN__NODE_BACKWARD;
  const int n = snprintf(to, room, "%s%s", step->node->name,
                         gradient ? " (gradient)" : "");
  return n < 0 ? 0 : (size_t)n;
}

/* Makes the name of a step in a trace: a fused one has the names of all its
 * nodes. */
static void write_span_name(const tn__step *step, char *to, size_t room) {
  size_t used = 0;
  if (step->n_parts == 0) (void)append_step_name(step, to, room);
  for (uint32_t k = 0; k < step->n_parts && used + 3 < room; ++k) {
    if (k > 0) used += (size_t)snprintf(to + used, room - used, " + ");
    used += append_step_name(step->parts[k], to + used, room - used);
  }
}

/* Runs a step with a span for it, within that of the job. */
static tn_code run_traced_step(tn__step *step, uint32_t train, tn__token *token,
                               const tn__floating *floating) {
  tn__engine *engine = step->program->env->engine;
  char name[512];
  const uint64_t begin = tn__trace_begin(engine);
  const tn_code rc = run_plain_step(step, train, token, floating);
  if (begin != 0 && step->kind != TN__STEP_NOTHING) {
    write_span_name(step, name, sizeof name);
    tn__trace_part(engine, name, begin);
  }
  return rc;
}

/* --------------------------------------------------------------- recordings */

/* Enqueues a step that a device records. *changes is the address of its values
 * that change between runs, and moves past them; NULL: no step has any. */
static tn_code record_step(tn__step *step, uint32_t train, tn__token *token,
                           const char **changes) {
  const tn__planned *call =
      step->kind == TN__STEP_CALL ? step->call[train] : NULL;
  const tn_code rc =
      call ? tn__planned_record(call, token, *changes ? *changes : "")
           : step->run(step, train, token);
  if (rc != TN_OK) return tn__node_fail(step->node, rc);
  if (*changes && call) *changes += tn__planned_change_bytes(call);
  return TN_OK;
}

/* ------------------------------------------------------------------- ranges */

typedef enum issue_mode { PLAIN, TRACED, RECORDED } issue_mode;

/* Issues the steps of a range in order: the only loop over the steps of a run.
 */
static tn_code issue_steps(const tn__step_range *range, issue_mode mode,
                           const char *changes, tn__token *token) {
  const tn__floating floating = tn__floating_get();
  tn__step **steps = range->program->steps + range->first;
  const uint32_t train = range->train;
  for (uint32_t i = 0; i < range->n; ++i) {
    if (mode == PLAIN)
      TN__TRY(run_plain_step(steps[i], train, token, &floating));
    else if (mode == TRACED)
      TN__TRY(run_traced_step(steps[i], train, token, &floating));
    else
      TN__TRY(record_step(steps[i], train, token, &changes));
  }
  return TN_OK;
}

tn_code tn__range_run(const tn__step_range *range, tn__token *token) {
  const bool is_traced = tn__trace_begin(range->program->env->engine) != 0;
  return issue_steps(range, is_traced ? TRACED : PLAIN, NULL, token);
}

tn_code tn__range_record(const tn__step_range *range, const char *changes,
                         tn__token *token) {
  return issue_steps(range, RECORDED, changes, token);
}
