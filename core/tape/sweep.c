/* SPDX-License-Identifier: Apache-2.0
 * sweep.c: passes gradients back over a tape. It marks the entries between the
 * requested sources and the heads, and visits them from the last to the first.
 */
#include <string.h>

#include "tape.h"

/* -------------------------------------------------------------------- mark */

/* Entries are in the order of their calls, so all predecessors of an entry are
 * marked before it. */
static void mark_live(tn__sweep *sweep) {
  for (tn__tape_entry *e = sweep->tape->first; e; e = e->next) {
    e->live = 0;
    for (uint32_t i = 0; i < e->n_in; ++i)
      e->live |= tn__sweep_is_live_input(sweep, e, i);
    if (!e->live) continue;
    for (uint32_t i = 0; i < e->n_out; ++i)
      if (e->out[i].value) sweep->gradients[e->out[i].value->id].wanted = true;
  }
}

/* --------------------------------------------------------------------- run */

/* Passes the gradient of a sum to both summands. The added one gets its part.
 */
static tn_code pass_sum(tn__sweep *sweep, tn__tape_entry *e) {
  const tn__tape_operand *to = &e->out[0];
  for (uint32_t i = 0; i < 2; ++i) {
    tn_array *part = NULL;
    if (!tn__sweep_is_live_input(sweep, e, i)) continue;
    TN__TRY(tn__sweep_view_part(
        sweep, to->value, i == 0 ? &to->value->layout : to->layout, &part));
    const tn_code rc =
        tn__sweep_add(sweep, e->in[i].value, e->in[i].layout, part, false);
    tn__array_release(part);
    TN__TRY(rc);
  }
  return TN_OK;
}

static bool has_gradient(const tn__sweep *sweep, const tn__tape_entry *e) {
  for (uint32_t i = 0; i < e->n_out; ++i)
    if (e->out[i].value && sweep->gradients[e->out[i].value->id].array)
      return true;
  return false;
}

/* Releases the gradients of the outputs, because the sweep has visited all
 * entries that read them. */
static void drop_gradients(tn__sweep *sweep, const tn__tape_entry *e) {
  for (uint32_t i = 0; i < e->n_out; ++i) {
    if (!e->out[i].value) continue;
    tn__value_gradient *s = &sweep->gradients[e->out[i].value->id];
    if (s->n_requests > 0) continue;
    tn__array_release(s->array);
    s->array = NULL;
  }
}

static tn_code visit_entries(tn__sweep *sweep) {
  for (tn__tape_entry *e = sweep->tape->last; e; e = e->previous) {
    if (!e->live || !has_gradient(sweep, e)) continue;
    TN__TRY(e->op ? tn__sweep_pass_call(sweep, e) : pass_sum(sweep, e));
    drop_gradients(sweep, e);
  }
  return TN_OK;
}

/* ------------------------------------------------------------------ begin */

/* Maximum number of operands that one entry has in any of the lists. */
static size_t max_operands(const tn_tape *tape) {
  size_t max = 1;
  for (const tn__tape_entry *e = tape->first; e; e = e->next) {
    const size_t n = e->n_in + e->n_aux + 2 * (size_t)e->n_out;
    if (n > max) max = n;
  }
  return max;
}

static tn_code reserve_lists(tn__sweep *sweep) {
  tn_tape *tape = sweep->tape;
  const size_t max = max_operands(tape), n_of = sweep->query->of.n;
  const size_t gradients = tape->n_values * sizeof *sweep->gradients;
  const size_t sources = n_of * sizeof *sweep->sources;
  const size_t results = n_of * sizeof *sweep->results;
  const size_t lists = 5 * max * sizeof *sweep->lists[0];
  const size_t bytes = gradients + sources + results + lists;
  tn__tape_memory *memory = &tape->scratch;
  TN__TRY(tn__tape_reserve(
      tape->caller->env, memory,
      tn__tape_round_up(bytes) + tn__tape_round_up(max * sizeof *sweep->req)));
  char *at = tn__tape_alloc(memory, bytes);
  memset(at, 0, bytes - lists);
  sweep->n_gradients = tape->n_values;
  sweep->gradients = (void *)at;
  sweep->sources = (void *)(at + gradients);
  sweep->results = (void *)(at + gradients + sources);
  at += gradients + sources + results;
  for (size_t i = 0; i < 5; ++i)
    sweep->lists[i] = (tn_array **)(void *)at + i * max;
  sweep->req = tn__tape_alloc(memory, max * sizeof *sweep->req);
  return TN_OK;
}

static tn_code run_sweep(tn__sweep *sweep) {
  TN__TRY(tn__sweep_check(sweep));
  TN__TRY(reserve_lists(sweep));
  TN__TRY(tn__sweep_find_sources(sweep));
  mark_live(sweep);
  TN__TRY(tn__sweep_add_heads(sweep));
  TN__TRY(visit_entries(sweep));
  return tn__sweep_write_results(sweep);
}

static void deliver_results(tn__sweep *sweep, bool good) {
  const tn_outputs *to = &sweep->query->gradients;
  for (size_t i = 0; sweep->results && i < to->n; ++i) {
    if (!sweep->results[i]) continue;
    if (good)
      to->arrays[i] = sweep->results[i];
    else
      tn__array_release(sweep->results[i]);
  }
  for (uint32_t i = 0; sweep->gradients && i < sweep->n_gradients; ++i)
    tn__array_release(sweep->gradients[i].array);
}

tn_code tn__tape_gradient(tn_tape *tape, const tn_tape_query *query) {
  tn__sweep s = {.tape = tape,
                 .query = query,
                 .record = (query->flags & TN_TAPE_RECORD) != 0};
  const tn__tape_point point = tn__tape_point_get(tape);
  const tn_code rc = run_sweep(&s);
  deliver_results(&s, rc == TN_OK);
  tn__tape_memory_reset(&tape->scratch);
  if (rc)
    tn__tape_return_to(tape, point);
  else if (!(query->flags & (TN_TAPE_KEEP | TN_TAPE_RECORD)))
    tn__tape_forget(tape);
  return rc;
}
