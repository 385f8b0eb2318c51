/* SPDX-License-Identifier: Apache-2.0
 * Makes the patterns of work.h, and works out their edges.
 */
#include "work.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"

enum {
  MANY = 1000000,
  SIDE = 512,
  FAN = 1000,
  FAN_TIMES = 200,
  RANDOM_TASKS = 10000,
  RANDOM_VARS = 100,
  RANDOM_READS_MIN = 2,
  RANDOM_READS_MAX = 20,
  RANDOM_TIMES = 10
};

static void *allocate_array(size_t n, size_t size) {
  void *result = calloc(n ? n : 1, size);
  if (!result) measure_fail("no memory for %zu times %zu bytes", n, size);
  return result;
}

static void *grow_array(void *old, size_t n, size_t size) {
  void *result = realloc(old, n * size);
  if (!result) measure_fail("no memory for %zu times %zu bytes", n, size);
  return result;
}

/* --------------------------------------------------------------- patterns */

static size_t shrink_count(size_t all, size_t shrink) {
  return (all + shrink - 1) / shrink;
}

static void add_use(work *w, size_t var) {
  const uint32_t at = w->first[w->n_tasks + 1];
  if (at == w->capacity) {
    w->capacity = 2 * w->capacity + 1024;
    w->vars = grow_array(w->vars, w->capacity, sizeof *w->vars);
  }
  w->vars[at] = (uint32_t)var;
  w->first[w->n_tasks + 1] = at + 1;
}

/* Ends the present task, with the variable that it writes. */
static void end_task(work *w, size_t written) {
  add_use(w, written);
  ++w->n_tasks;
  w->first[w->n_tasks + 1] = w->first[w->n_tasks];
}

static work *create_work(const char *name, size_t tasks, size_t vars) {
  work *w = allocate_array(1, sizeof *w);
  *w = (work){.name = name, .n_vars = vars, .times = 1};
  w->first = allocate_array(tasks + 2, sizeof *w->first);
  return w;
}

static work *make_chain(size_t shrink) {
  const size_t n = shrink_count(MANY, shrink);
  work *w = create_work("chain", n, 1);
  for (size_t i = 0; i < n; ++i) end_task(w, 0);
  return w;
}

static work *make_independent(size_t shrink) {
  const size_t n = shrink_count(MANY, shrink);
  work *w = create_work("independent", n, n);
  for (size_t i = 0; i < n; ++i) end_task(w, i);
  return w;
}

static work *make_wavefront(size_t shrink) {
  const size_t rows = shrink_count(SIDE, shrink), columns = SIDE;
  work *w = create_work("wavefront", rows * columns, rows * columns);
  for (size_t i = 0; i < rows * columns; ++i) {
    if (i >= columns) add_use(w, i - columns);
    if (i % columns) add_use(w, i - 1);
    end_task(w, i);
  }
  return w;
}

static work *make_fan(size_t shrink) {
  work *w = create_work("fan", FAN + 2, FAN + 2);
  w->times = shrink_count(FAN_TIMES, shrink);
  end_task(w, FAN);
  for (size_t i = 0; i < FAN; ++i) {
    add_use(w, FAN);
    end_task(w, i);
  }
  for (size_t i = 0; i < FAN; ++i) add_use(w, i);
  end_task(w, FAN + 1);
  return w;
}

/* The same numbers on every machine. */
static uint32_t draw_below(uint64_t *state, uint32_t n) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)((*state >> 33) % n);
}

static work *at_random(size_t shrink) {
  uint64_t state = 1;
  work *w = create_work("random", RANDOM_TASKS, RANDOM_VARS);
  w->times = shrink_count(RANDOM_TIMES, shrink);
  for (size_t i = 0; i < RANDOM_TASKS; ++i) {
    bool used[RANDOM_VARS] = {0};
    const uint32_t written = draw_below(&state, RANDOM_VARS);
    uint32_t reads =
        RANDOM_READS_MIN +
        draw_below(&state, RANDOM_READS_MAX - RANDOM_READS_MIN + 1);
    used[written] = true;
    while (reads > 0) {
      const uint32_t read = draw_below(&state, RANDOM_VARS);
      if (used[read]) continue;
      used[read] = true;
      add_use(w, read);
      --reads;
    }
    end_task(w, written);
  }
  return w;
}

work *work_create(size_t index, size_t shrink) {
  static work *(*const create[WORKS])(size_t) = {
      make_chain, make_independent, make_wavefront, make_fan, at_random};
  return index < WORKS ? create[index](shrink) : NULL;
}

void work_release(work *w) {
  if (!w) return;
  free(w->first);
  free(w->vars);
  free(w);
}

/* ------------------------------------------------------------------ edges */

/* State of one variable during the walk over the tasks. */
typedef struct last {
  bool written;
  uint32_t writer;
  uint32_t *readers; /* since then */
  uint32_t n;
  uint32_t capacity;
} last;

typedef struct walk {
  work_edges *edges;
  uint32_t *from; /* the edges so far, unsorted */
  uint32_t *to;
  uint32_t n;
  uint32_t capacity;
  uint32_t *mark; /* mark[i] = j + 1: the edge i -> j is there already */
} walk;

static void add_edge(walk *k, uint32_t from, uint32_t to) {
  if (from == to || k->mark[from] == to + 1) return;
  k->mark[from] = to + 1;
  if (k->n == k->capacity) {
    k->capacity = 2 * k->capacity + 1024;
    k->from = grow_array(k->from, k->capacity, sizeof *k->from);
    k->to = grow_array(k->to, k->capacity, sizeof *k->to);
  }
  k->from[k->n] = from;
  k->to[k->n++] = to;
  ++k->edges->n_before[to];
  ++k->edges->first[from + 1];
}

static void add_reads(walk *k, last *var, uint32_t task_id) {
  if (var->written) add_edge(k, var->writer, task_id);
  if (var->n == var->capacity) {
    var->capacity = 2 * var->capacity + 4;
    var->readers =
        grow_array(var->readers, var->capacity, sizeof *var->readers);
  }
  var->readers[var->n++] = task_id;
}

static void add_writes(walk *k, last *var, uint32_t task_id) {
  for (uint32_t i = 0; i < var->n; ++i) add_edge(k, var->readers[i], task_id);
  if (var->written && var->n == 0) add_edge(k, var->writer, task_id);
  var->written = true;
  var->writer = task_id;
  var->n = 0;
}

static void sort_edges(walk *k, size_t n_tasks) {
  uint32_t *at = allocate_array(n_tasks + 1, sizeof *at);
  for (size_t i = 0; i < n_tasks; ++i)
    k->edges->first[i + 1] += k->edges->first[i];
  memcpy(at, k->edges->first, (n_tasks + 1) * sizeof *at);
  k->edges->successors = allocate_array(k->n, sizeof *k->edges->successors);
  for (uint32_t i = 0; i < k->n; ++i)
    k->edges->successors[at[k->from[i]]++] = k->to[i];
  free(at);
}

work_edges *work_edges_create(const work *w) {
  work_edges *e = allocate_array(1, sizeof *e);
  last *vars = allocate_array(w->n_vars, sizeof *vars);
  walk k = {.edges = e, .mark = allocate_array(w->n_tasks, sizeof *k.mark)};
  e->first = allocate_array(w->n_tasks + 1, sizeof *e->first);
  e->n_before = allocate_array(w->n_tasks, sizeof *e->n_before);
  for (uint32_t i = 0; i < w->n_tasks; ++i) {
    uint32_t at = w->first[i];
    for (; at + 1 < w->first[i + 1]; ++at) add_reads(&k, &vars[w->vars[at]], i);
    add_writes(&k, &vars[w->vars[at]], i);
  }
  sort_edges(&k, w->n_tasks);
  for (size_t i = 0; i < w->n_vars; ++i) free(vars[i].readers);
  free(vars);
  free(k.from);
  free(k.to);
  free(k.mark);
  return e;
}

void work_edges_release(work_edges *e) {
  if (!e) return;
  free(e->first);
  free(e->successors);
  free(e->n_before);
  free(e);
}
