/* SPDX-License-Identifier: Apache-2.0
 * plan.c: what depends on what among the jobs of a schedule. The jobs are gone
 * through in their order as pushes would be: for each variable it is known who
 * wrote it last and who has read it since, and each use adds the edges that the
 * rule of engine.h demands. Then the edges are sorted by where they begin.
 */
#include "pool.h"

#define NONE UINT32_MAX

typedef struct var_state {
  tn__var *var;
  uint32_t writer;  /* the last step that writes it, or NONE */
  uint32_t readers; /* since then: a list in planner.readers, or NONE */
  uint32_t step;    /* the last one that uses it, and where */
  uint32_t use;
  uint32_t access; /* its place in plan.access */
  uint32_t reserved;
} var_state;

typedef struct reader {
  uint32_t step;
  uint32_t next;
} reader;

typedef struct edge {
  uint32_t from;
  uint32_t to;
} edge;

typedef struct planner {
  tn__plan *plan;
  var_state *table; /* by hash of the variable's address */
  size_t mask;
  reader *readers;
  edge *edges;
  uint32_t *seen; /* the last step that has an edge from this one */
  uint32_t n_readers;
  uint32_t n_edges;
} planner;

static tn_code check(const tn__job *jobs, size_t n, size_t *n_uses) {
  *n_uses = 0;
  for (size_t i = 0; i < n; ++i) {
    *n_uses += jobs[i].n_access;
    if ((jobs[i].flags & TN__JOB_ASYNC) != 0 || jobs[i].queue != NULL)
      return tn__fail(TN_INVALID,
                      "schedule: job %zu (%s) is asynchronous or has a queue; "
                      "push it by itself",
                      i, jobs[i].name != NULL ? jobs[i].name : "no name");
  }
  if (n >= INT32_MAX || *n_uses >= INT32_MAX)
    return tn__fail(TN_INVALID,
                    "schedule: %zu jobs with %zu accesses are too many; make "
                    "several schedules",
                    n, *n_uses);
  return TN_OK;
}

/* ------------------------------------------------------------------ memory */

static tn_code no_memory(const tn__arena *arena, size_t n) {
  if (!arena->failed) return TN_OK;
  return tn__fail(TN_OUT_OF_MEMORY,
                  "out of memory: the plan of a schedule of %zu jobs", n);
}

static tn_code alloc_plan(tn__arena *arena, tn__plan *plan, size_t n,
                          size_t n_uses) {
  *plan = (tn__plan){.n = (uint32_t)n};
  plan->steps = tn__arena_alloc(arena, (n + 2) * sizeof *plan->steps);
  plan->first_use = tn__arena_alloc(arena, (n + 1) * sizeof *plan->first_use);
  plan->uses = tn__arena_alloc(arena, n_uses * sizeof *plan->uses);
  /* One more, for the schedule's own variable. */
  plan->access = tn__arena_alloc(arena, (n_uses + 1) * sizeof *plan->access);
  return no_memory(arena, n);
}

static tn_code alloc_planner(tn__arena *arena, planner *p, size_t n_uses) {
  const uint32_t n = p->plan->n;
  size_t capacity = 16;
  while (capacity < 2 * n_uses) capacity *= 2;
  p->mask = capacity - 1;
  p->table = tn__arena_alloc(arena, capacity * sizeof *p->table);
  p->readers = tn__arena_alloc(arena, n_uses * sizeof *p->readers);
  /* A use has at most one edge from the last writer, and one to the next. */
  p->edges = tn__arena_alloc(arena, 2 * n_uses * sizeof *p->edges);
  p->seen = tn__arena_alloc(arena, n * sizeof *p->seen);
  return no_memory(arena, n);
}

/* ------------------------------------------------------------------- edges */

static var_state *state_of(planner *p, tn__var *var) {
  size_t at = (size_t)(((uintptr_t)var >> 4) * 0x9e3779b97f4a7c15ull >> 20);
  for (at &= p->mask; p->table[at].var != var; at = (at + 1) & p->mask) {
    if (p->table[at].var != NULL) continue;
    tn__plan *plan = p->plan;
    p->table[at] = (var_state){var, NONE, NONE, NONE, 0, plan->n_access, 0};
    plan->access[plan->n_access++] = (tn__access){.var = var, .mode = TN__READ};
    break;
  }
  return &p->table[at];
}

static void add_edge(planner *p, uint32_t from, uint32_t to) {
  if (from == NONE || p->seen[from] == to + 1) return;
  p->seen[from] = to + 1;
  p->edges[p->n_edges++] = (edge){from, to};
}

/* The strongest mode counts, and READ with OVERWRITE make an UPDATE. */
static uint32_t together(uint32_t a, uint32_t b) {
  return a == b ? a : (uint32_t)TN__UPDATE;
}

static void note_uses(planner *p, const tn__job *job, uint32_t step) {
  tn__plan *plan = p->plan;
  plan->first_use[step] = plan->n_uses;
  for (uint32_t i = 0; i < job->n_access; ++i) {
    var_state *state = state_of(p, job->access[i].var);
    if (state->step == step) {
      tn__use *use = &plan->uses[state->use];
      use->mode = together(use->mode, job->access[i].mode);
      continue;
    }
    state->step = step;
    state->use = plan->n_uses;
    plan->uses[plan->n_uses++] = (tn__use){state->var, job->access[i].mode, 0};
  }
}

static void read_by(planner *p, var_state *state, uint32_t step) {
  add_edge(p, state->writer, step);
  p->readers[p->n_readers] = (reader){step, state->readers};
  state->readers = p->n_readers++;
}

static void written_by(planner *p, var_state *state, uint32_t step) {
  if (state->readers == NONE) add_edge(p, state->writer, step);
  for (uint32_t i = state->readers; i != NONE; i = p->readers[i].next)
    add_edge(p, p->readers[i].step, step);
  state->readers = NONE;
  state->writer = step;
  p->plan->access[state->access].mode = TN__UPDATE;
}

static void find_edges(planner *p, const tn__job *jobs) {
  tn__plan *plan = p->plan;
  for (uint32_t step = 0; step < plan->n; ++step) {
    note_uses(p, &jobs[step], step);
    for (uint32_t i = plan->first_use[step]; i < plan->n_uses; ++i) {
      var_state *state = state_of(p, plan->uses[i].var);
      if (plan->uses[i].mode == TN__READ)
        read_by(p, state, step);
      else
        written_by(p, state, step);
    }
  }
  plan->first_use[plan->n] = plan->n_uses;
}

/* -------------------------------------------------------------- successors */

/* Steps without a predecessor get the beginning, steps without a successor the
 * end. Returns how many successors there are in all. */
static uint32_t count_edges(const planner *p) {
  const uint32_t n = p->plan->n;
  tn__step *steps = p->plan->steps;
  uint32_t total = p->n_edges;
  for (uint32_t i = 0; i < p->n_edges; ++i) {
    ++steps[p->edges[i].from].n_next;
    ++steps[p->edges[i].to].n_before;
  }
  for (uint32_t i = 0; i < n; ++i) {
    if (steps[i].n_before == 0) {
      steps[i].n_before = 1;
      ++steps[n + 1].n_next;
      ++total;
    }
    if (steps[i].n_next == 0) {
      steps[i].n_next = 1;
      ++steps[n].n_before;
      ++total;
    }
  }
  for (uint32_t i = 0, at = 0; i < n + 2; at += steps[i++].n_next)
    steps[i].next = at;
  for (uint32_t i = 0; i < n + 2; ++i)
    atomic_init(&steps[i].left, steps[i].n_before);
  return total;
}

static bool is_free(const tn__plan *plan, const tn__job *jobs, uint32_t step) {
  return step < plan->n && plan->steps[step].n_before == 1 &&
         (jobs[step].flags & TN__JOB_SMALL) != 0;
}

/* n_given[from] counts the successors that `from` has been given so far. */
static void give(planner *p, uint32_t *n_given, uint32_t from, uint32_t to) {
  p->plan->order[p->plan->steps[from].next + n_given[from]++] = to;
}

/* The free ones first: two passes. */
static void fill_order(planner *p, const tn__job *jobs, uint32_t *n_given,
                       bool free_ones) {
  tn__plan *plan = p->plan;
  const uint32_t n = plan->n;
  for (uint32_t i = 0; i < p->n_edges; ++i)
    if (is_free(plan, jobs, p->edges[i].to) == free_ones)
      give(p, n_given, p->edges[i].from, p->edges[i].to);
  for (uint32_t i = 0; i < n; ++i) {
    /* A root: no edge leads to it. */
    if (p->seen[i] == NONE && is_free(plan, jobs, i) == free_ones)
      give(p, n_given, n + 1, i);
    if (!free_ones && n_given[i] == 0) give(p, n_given, i, n);
  }
  if (!free_ones) return;
  for (uint32_t i = 0; i < n + 2; ++i) plan->steps[i].n_free = n_given[i];
}

/* From here on `seen` is NONE for the steps that no edge leads to. */
static void mark_roots(planner *p) {
  for (uint32_t i = 0; i < p->plan->n; ++i) p->seen[i] = NONE;
  for (uint32_t i = 0; i < p->n_edges; ++i) p->seen[p->edges[i].to] = 0;
}

static tn_code plan_with(tn__arena *scratch, tn__arena *arena, planner *p,
                         const tn__job *jobs) {
  find_edges(p, jobs);
  const uint32_t total = count_edges(p);
  uint32_t *n_given =
      tn__arena_alloc(scratch, (p->plan->n + 2) * sizeof *n_given);
  p->plan->order = tn__arena_alloc(arena, total * sizeof *p->plan->order);
  TN__TRY(no_memory(scratch, p->plan->n));
  TN__TRY(no_memory(arena, p->plan->n));
  mark_roots(p);
  fill_order(p, jobs, n_given, true);
  fill_order(p, jobs, n_given, false);
  return TN_OK;
}

tn_code tn__plan_create(tn__arena *arena, const tn__job *jobs, size_t n,
                        tn__plan *out) {
  size_t n_uses;
  TN__TRY(check(jobs, n, &n_uses));
  TN__TRY(alloc_plan(arena, out, n, n_uses));
  tn__arena scratch;
  tn__arena_init(&scratch, arena->env);
  planner p = {.plan = out};
  tn_code code = alloc_planner(&scratch, &p, n_uses);
  if (code == TN_OK) code = plan_with(&scratch, arena, &p, jobs);
  tn__arena_deinit(&scratch);
  return code;
}
