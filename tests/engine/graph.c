/* SPDX-License-Identifier: Apache-2.0
 * graph.c: random tasks, and their serial run.
 */
#include "graph.h"

uint64_t next_random(uint64_t *state) {
  *state ^= *state >> 12;
  *state ^= *state << 25;
  *state ^= *state >> 27;
  return *state * 2685821657736338717ull;
}

static uint32_t draw_below(uint64_t *state, uint32_t n) {
  return (uint32_t)(next_random(state) >> 32) % n;
}

static uint64_t mix_hash(uint64_t a, uint64_t b) {
  a ^= b + 0x9e3779b97f4a7c15ull + (a << 6) + (a >> 2);
  return a * 0xff51afd7ed558ccdull;
}

static tn_code run_task(void *arg, tn__token *token) {
  const task *self = (const task *)arg;
  uint64_t sum = self->salt;
  (void)token;
  if (self->fails) return tn__fail(TN_INVALID, "this task fails");
  for (uint32_t i = 0; i < self->n_reads; ++i)
    sum = mix_hash(sum, self->places[self->reads[i]].value);
  for (uint32_t i = 0; self->update && i < self->n_writes; ++i)
    sum = mix_hash(sum, self->places[self->writes[i]].value);
  for (uint32_t i = 0; i < self->n_writes; ++i)
    self->places[self->writes[i]].value = sum + i;
  return TN_OK;
}

static uint32_t flags_of(uint32_t small, uint64_t *state) {
  const bool one = draw_below(state, small == GRAPH_MOST_SMALL ? 10 : 2) != 0;
  if (small == GRAPH_ALL_SMALL) return TN__JOB_SMALL;
  return small != GRAPH_NONE_SMALL && one ? TN__JOB_SMALL : 0;
}

static void make_task(task *self, const graph_kind *kind, uint64_t *state) {
  const uint32_t most = kind->most_reads != 0 ? kind->most_reads : GRAPH_READS;
  *self = (task){.n_reads = 2 + draw_below(state, most - 1),
                 .n_writes = 1 + draw_below(state, GRAPH_WRITES),
                 .update = draw_below(state, 2) != 0,
                 .salt = next_random(state),
                 .priority = (int32_t)draw_below(state, 3) - 1,
                 .flags = flags_of(kind->small, state)};
  if (kind->failing != 0) self->fails = draw_below(state, kind->failing) == 0;
  for (uint32_t i = 0; i < self->n_reads; ++i)
    self->reads[i] = (uint8_t)draw_below(state, kind->n_places);
  for (uint32_t i = 0; i < self->n_writes; ++i)
    self->writes[i] = (uint8_t)draw_below(state, kind->n_places);
}

void graph_make(task *tasks, size_t n, const graph_kind *kind) {
  uint64_t state = kind->seed * 2 + 1; /* never 0 */
  for (size_t i = 0; i < n; ++i) make_task(&tasks[i], kind, &state);
}

void graph_reset(place *places, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) places[i] = (place){.value = i};
}

/* True if a place that the task reads or updates carries an error. */
static bool is_blocked(const task *self, const place *places) {
  for (uint32_t i = 0; i < self->n_reads; ++i)
    if (places[self->reads[i]].bad) return true;
  for (uint32_t i = 0; self->update && i < self->n_writes; ++i)
    if (places[self->writes[i]].bad) return true;
  return false;
}

void graph_serial(task *tasks, size_t n, place *places) {
  for (size_t i = 0; i < n; ++i) {
    task *self = &tasks[i];
    bool bad = is_blocked(self, places);
    self->places = places;
    if (!bad) bad = run_task(self, NULL) != TN_OK;
    for (uint32_t w = 0; w < self->n_writes; ++w)
      places[self->writes[w]].bad = bad;
  }
}

tn__job graph_job(task *self, place *places, tn__access *access) {
  const uint32_t mode = self->update ? TN__UPDATE : TN__OVERWRITE;
  uint32_t n = 0;
  self->places = places;
  for (uint32_t i = 0; i < self->n_reads; ++i)
    access[n++] = (tn__access){&places[self->reads[i]].var, TN__READ, 0};
  for (uint32_t i = 0; i < self->n_writes; ++i)
    access[n++] = (tn__access){&places[self->writes[i]].var, mode, 0};
  return (tn__job){.name = "task",
                   .run = run_task,
                   .arg = self,
                   .access = access,
                   .n_access = n,
                   .flags = self->flags,
                   .priority = self->priority};
}

int graph_difference(tn__engine *engine, const place *expected, place *found,
                     uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) {
    const tn_code code =
        tn__wait(engine, &found[i].var, TN__WAIT_ALL, TN__FOREVER);
    if (code != (expected[i].bad ? TN_INVALID : TN_OK) ||
        found[i].value != expected[i].value)
      return (int)i;
  }
  return -1;
}

void graph_deinit(place *places, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) tn__var_deinit(&places[i].var);
}
