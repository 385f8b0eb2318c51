/* SPDX-License-Identifier: Apache-2.0
 * plan.c: what depends on what among the jobs of a schedule. The jobs are gone
 * through in their order as pushes would be: for each variable it is known
 * which step wrote it last and which have read it since, and each use adds the
 * predecessors that the rule of engine.h demands. Each job joins the step
 * before it or begins one of its own, as pool.h says. When a step is complete,
 * those of its predecessors go that others of them have behind them anyway.
 */
#include <string.h>

#include "pool.h"

#define NONE UINT32_MAX

enum { WINDOW = 64 }; /* steps, or jobs, that a mask reaches back */

/* Which of the jobs that are not small have to be over before something can
 * begin. They are numbered, and `now` has a bit for each of the WINDOW with
 * this `block`, `before` for each of the block before. `far` says the same of
 * older ones, in a way that only shows whether two sets are equal: 0 is the
 * empty one, and equal sets may differ where streams of jobs have met. */
typedef struct needs {
  uint64_t now;
  uint64_t before;
  uint64_t far;
  uint64_t block;
} needs;

/* What is known of a step. Bit k of a mask stands for the step k + 1 before. */
typedef struct past {
  uint64_t near;  /* predecessors */
  uint64_t above; /* ancestors; others are not known to be none */
  uint32_t floor; /* all steps before this one are ancestors */
  uint32_t far;   /* its older predecessors begin here in planner.far */
  uint32_t first; /* job */
  uint32_t n_before;
  uint32_t n_next; /* then where in plan.order its next successor goes */
  uint32_t n_free; /* of them; then as above */
  bool small;
  bool is_last; /* nothing waits for it */
} past;

typedef struct var_state {
  uint32_t writer;  /* the last step that writes it, or NONE */
  uint32_t readers; /* since then: a list in planner.readers, or NONE */
  uint32_t job;     /* the last one that uses it, and where */
  uint32_t use;
} var_state;

typedef struct reader {
  uint32_t step;
  uint32_t next;
} reader;

typedef struct planner {
  tn__plan *plan;
  uint32_t group;    /* at most so many jobs become one step; 0: no steps */
  uint32_t n_steps;  /* the last one is not complete */
  var_state *states; /* of each variable, as plan.access */
  uint32_t *table;   /* 1 + where those are, by hash of the address; 0: none */
  size_t mask;
  var_state **used; /* by the present job, as its uses */
  past *past;       /* of each step, then of the end and the beginning */
  needs *needs;     /* of each step, if there are small jobs and others */
  reader *readers;
  uint32_t *far;  /* predecessors beyond the window */
  uint32_t *seen; /* 1 + the last step that has this one in `far` */
  uint32_t n_readers;
  uint32_t n_far;
  uint32_t n_large; /* jobs that are not small, so far */
  uint64_t n_met;   /* sets that nobody else has been told apart from */
} planner;

typedef struct sizes {
  size_t jobs;
  size_t uses;
  size_t most;  /* uses of one job */
  size_t large; /* jobs that are not small */
} sizes;

static tn_code check(const tn__job *jobs, size_t n, sizes *out) {
  *out = (sizes){.jobs = n};
  for (size_t i = 0; i < n; ++i) {
    out->uses += jobs[i].n_access;
    if (jobs[i].n_access > out->most) out->most = jobs[i].n_access;
    if ((jobs[i].flags & TN__JOB_SMALL) == 0) ++out->large;
    if ((jobs[i].flags & TN__JOB_ASYNC) != 0 || jobs[i].queue != NULL)
      return tn__fail(TN_INVALID,
                      "schedule: job %zu (%s) is asynchronous or has a queue; "
                      "push it by itself",
                      i, jobs[i].name != NULL ? jobs[i].name : "no name");
  }
  if (n >= INT32_MAX || out->uses >= INT32_MAX)
    return tn__fail(TN_INVALID,
                    "schedule: %zu jobs with %zu accesses are too many; make "
                    "several schedules",
                    n, out->uses);
  return TN_OK;
}

/* ------------------------------------------------------------------ memory */

static tn_code no_memory(const tn__arena *arena, size_t n) {
  if (!arena->failed) return TN_OK;
  return tn__fail(TN_OUT_OF_MEMORY,
                  "out of memory: the plan of a schedule of %zu jobs", n);
}

static tn_code alloc_plan(tn__arena *arena, tn__plan *plan, const sizes *s) {
  *plan = (tn__plan){.n_jobs = (uint32_t)s->jobs};
  plan->first_use =
      tn__arena_alloc(arena, (s->jobs + 1) * sizeof *plan->first_use);
  plan->uses = tn__arena_alloc(arena, s->uses * sizeof *plan->uses);
  /* One more, for the schedule's own variable. */
  plan->access = tn__arena_alloc(arena, (s->uses + 1) * sizeof *plan->access);
  return no_memory(arena, s->jobs);
}

static tn_code alloc_planner(tn__arena *arena, planner *p, const sizes *s) {
  size_t capacity = 16;
  while (capacity < 2 * s->uses) capacity *= 2;
  p->mask = capacity - 1;
  p->table = tn__arena_alloc(arena, capacity * sizeof *p->table);
  p->states = tn__arena_alloc(arena, s->uses * sizeof *p->states);
  p->used = tn__arena_alloc(arena, s->most * sizeof *p->used);
  if (p->group == 0) return no_memory(arena, s->jobs);
  /* Where all are small, every step but the last is a full group. */
  const size_t n = s->large == 0 ? s->jobs / p->group + 1 : s->jobs;
  p->past = tn__arena_alloc(arena, (n + 2) * sizeof *p->past);
  p->seen = tn__arena_alloc(arena, n * sizeof *p->seen);
  if (s->large != 0 && s->large != s->jobs)
    p->needs = tn__arena_alloc(arena, n * sizeof *p->needs);
  p->readers = tn__arena_alloc(arena, s->uses * sizeof *p->readers);
  /* A use waits for at most one writer, and at most one waits for it. */
  p->far = tn__arena_alloc(arena, (2 * s->uses + 1) * sizeof *p->far);
  return no_memory(arena, s->jobs);
}

/* -------------------------------------------------------------------- uses */

/* Where the variable stands in plan.access. */
static uint32_t place_of(planner *p, tn__var *var) {
  tn__plan *plan = p->plan;
  size_t at = (size_t)(((uintptr_t)var >> 4) * 0x9e3779b97f4a7c15ull >> 20);
  for (at &= p->mask; p->table[at] != 0; at = (at + 1) & p->mask)
    if (plan->access[p->table[at] - 1].var == var) return p->table[at] - 1;
  const uint32_t place = plan->n_access++;
  p->table[at] = place + 1;
  p->states[place] = (var_state){NONE, NONE, NONE, 0};
  plan->access[place] = (tn__access){.var = var, .mode = TN__READ};
  return place;
}

/* The strongest mode counts, and READ with OVERWRITE make an UPDATE. */
static uint32_t together(uint32_t a, uint32_t b) {
  return a == b ? a : (uint32_t)TN__UPDATE;
}

static void note_uses(planner *p, const tn__job *job, uint32_t number) {
  tn__plan *plan = p->plan;
  const uint32_t first = plan->n_uses;
  plan->first_use[number] = first;
  for (uint32_t i = 0; i < job->n_access; ++i) {
    tn__var *var = job->access[i].var;
    const uint32_t mode = job->access[i].mode, place = place_of(p, var);
    var_state *state = &p->states[place];
    if (mode != TN__READ) plan->access[place].mode = TN__UPDATE;
    if (state->job == number) {
      tn__use *use = &plan->uses[state->use];
      use->mode = together(use->mode, mode);
      continue;
    }
    state->job = number;
    state->use = plan->n_uses;
    p->used[plan->n_uses - first] = state;
    plan->uses[plan->n_uses++] = (tn__use){var, mode, 0};
  }
}

/* ------------------------------------------------------------ predecessors */

/* As seen from the step that would be the next one. */
static void add_before(planner *p, uint64_t *near, uint32_t step) {
  const uint32_t distance = p->n_steps - step;
  const bool is_far = distance > WINDOW; /* no branch: nobody can foresee it */
  *near |= (uint64_t)!is_far << ((distance - 1) % WINDOW);
  p->far[p->n_far] = step;
  p->n_far += is_far;
}

/* Those of the present job: returned, and at the end of `far`. */
static uint64_t find_before(planner *p, uint32_t first_use) {
  const tn__use *uses = &p->plan->uses[first_use];
  const uint32_t n = p->plan->n_uses - first_use;
  uint64_t near = 0;
  for (uint32_t i = 0; i < n; ++i) {
    const var_state *state = p->used[i];
    uint32_t at = uses[i].mode == TN__READ ? NONE : state->readers;
    if (at == NONE && state->writer != NONE)
      add_before(p, &near, state->writer);
    for (; at != NONE; at = p->readers[at].next)
      add_before(p, &near, p->readers[at].step);
  }
  return near;
}

/* The present job's uses are the last step's. */
static void enter_uses(planner *p, uint32_t first_use) {
  const tn__use *uses = &p->plan->uses[first_use];
  const uint32_t n = p->plan->n_uses - first_use, step = p->n_steps - 1;
  for (uint32_t i = 0; i < n; ++i) {
    var_state *state = p->used[i];
    if (uses[i].mode != TN__READ) {
      state->writer = step;
      state->readers = NONE;
    } else if (state->readers == NONE ||
               p->readers[state->readers].step != step) {
      p->readers[p->n_readers] = (reader){step, state->readers};
      state->readers = p->n_readers++;
    }
  }
}

static uint64_t shifted(uint64_t mask, uint32_t by) {
  return by < WINDOW ? mask << by : 0;
}

/* Takes step `from` and what stands before it to the ancestors of another, k +
 * 1 steps behind it. */
static void take_ancestors(past *to, const past *from, uint32_t k) {
  to->above |= 1ull << k | shifted(from->above, k + 1);
  if (from->floor > to->floor) to->floor = from->floor;
}

/* Without gaps up to where? */
static void raise_floor(past *self, uint32_t step) {
  uint32_t at = self->floor;
  if (step > WINDOW && at < step - WINDOW) return;
  while (at < step && (self->above >> (step - 1 - at) & 1) != 0) ++at;
  self->floor = at;
}

static void keep(planner *p, past *self, uint32_t from, uint32_t *last) {
  ++p->past[from].n_next;
  ++self->n_before;
  *last = from;
}

/* The last step is complete, with its older predecessors up to `end` in `far`.
 * From the nearest to the oldest: one that is an ancestor of those that are
 * kept is none any more. Returns where those behind `end` are now. */
static uint32_t complete(planner *p, uint32_t end) {
  if (p->n_steps == 0) return end;
  const uint32_t step = p->n_steps - 1;
  past *self = &p->past[step];
  uint64_t near = self->near;
  uint32_t n_far = self->far, last = 0;
  for (self->near = 0; near != 0; near &= near - 1) {
    const uint32_t k = (uint32_t)__builtin_ctzll(near);
    if ((self->above >> k & 1) != 0) continue;
    self->near |= 1ull << k;
    take_ancestors(self, &p->past[step - 1 - k], k);
    keep(p, self, step - 1 - k, &last);
  }
  for (uint32_t i = self->far; i < end; ++i) {
    const uint32_t from = p->far[i];
    if (from < self->floor || p->seen[from] == step + 1) continue;
    p->seen[from] = step + 1;
    p->far[n_far++] = from;
    keep(p, self, from, &last);
  }
  memmove(&p->far[n_far], &p->far[end], (p->n_far - end) * sizeof *p->far);
  p->n_far -= end - n_far;
  raise_floor(self, step);
  if (self->n_before == 1 && self->small) ++p->past[last].n_free;
  return n_far;
}

/* ------------------------------------------------------------------ groups */

/* Older words enter `far` in their order. */
static uint64_t fold(uint64_t far, uint64_t word, uint64_t block) {
  if (word == 0) return far;
  far = (far ^ (block + 1)) * 0x9e3779b97f4a7c15ull;
  far = ((far ^ far >> 29) + word) * 0xff51afd7ed558ccdull;
  return (far ^ far >> 32) | 1;
}

static void move_on(needs *self, uint64_t block) {
  if (self->block == block) return;
  self->far = fold(self->far, self->before, self->block - 1);
  self->before = self->now;
  self->now = 0;
  if (++self->block == block) return;
  self->far = fold(self->far, self->before, self->block - 1);
  self->before = 0;
  self->block = block;
}

static void unite(planner *p, needs *self, needs other) {
  move_on(&other, self->block);
  self->now |= other.now;
  self->before |= other.before;
  if (self->far == 0)
    self->far = other.far;
  else if (other.far != 0 && other.far != self->far)
    self->far = fold(~0ull, ++p->n_met, 0);
}

/* Of the present job. */
static needs find_needs(planner *p, uint64_t near, uint32_t far) {
  needs result = {.block = p->n_large / WINDOW};
  uint64_t above = 0;
  uint32_t floor = 0;
  if (p->needs == NULL) return result;
  for (; near != 0; near &= near - 1) {
    const uint32_t k = (uint32_t)__builtin_ctzll(near);
    const uint32_t step = p->n_steps - 1 - k;
    if ((above >> k & 1) != 0) continue;
    above |= shifted(p->past[step].above, k + 1);
    if (p->past[step].floor > floor) floor = p->past[step].floor;
    unite(p, &result, p->needs[step]);
  }
  for (; far < p->n_far; ++far)
    if (p->far[far] >= floor) unite(p, &result, p->needs[p->far[far]]);
  return result;
}

static bool may_join(const planner *p, uint32_t job, const needs *own) {
  if (p->n_steps == 0) return false;
  const uint32_t last = p->n_steps - 1;
  if (!p->past[last].small || job - p->past[last].first >= p->group)
    return false;
  return p->needs == NULL || (p->needs[last].now == own->now &&
                              p->needs[last].before == own->before &&
                              p->needs[last].far == own->far);
}

/* A job begins a step that has these predecessors, and older ones from `far`
 * on. What waits for it needs what it needs, and it. */
static void begin_step(planner *p, const past *step, needs own) {
  const uint32_t number = p->n_large;
  if (!step->small) {
    own.now |= 1ull << number % WINDOW;
    ++p->n_large;
  }
  if (p->needs != NULL) p->needs[p->n_steps] = own;
  p->past[p->n_steps++] = *step;
}

static void add_job(planner *p, const tn__job *job, uint32_t number) {
  const uint32_t first_use = p->plan->n_uses, far = p->n_far;
  const bool small = (job->flags & TN__JOB_SMALL) != 0;
  note_uses(p, job, number);
  if (p->group == 0) return;
  const uint64_t near = find_before(p, first_use);
  const needs own = find_needs(p, near, far);
  if (small && may_join(p, number, &own)) {
    p->past[p->n_steps - 1].near |= near >> 1;
  } else {
    const uint32_t begin = complete(p, far);
    begin_step(
        p, &(past){.near = near, .far = begin, .first = number, .small = small},
        own);
  }
  enter_uses(p, first_use);
}

/* -------------------------------------------------------------- successors */

/* Steps without a predecessor get the beginning, steps without a successor the
 * end. */
static void tie_ends(planner *p) {
  const uint32_t n = p->n_steps;
  past *end = &p->past[n], *beginning = &p->past[n + 1];
  end->far = p->n_far;
  end->first = beginning->first = p->plan->n_jobs;
  for (past *each = p->past; each < end; ++each) {
    if (each->n_before == 0) {
      each->n_before = 1;
      ++beginning->n_next;
      if (each->small) ++beginning->n_free;
    }
    each->is_last = each->n_next == 0;
    if (each->is_last) {
      each->n_next = 1;
      ++end->n_before;
    }
  }
}

/* Returns how many successors there are in all. */
static uint32_t make_steps(planner *p) {
  const uint32_t n = p->n_steps;
  tn__step *steps = p->plan->steps;
  uint32_t at = 0;
  for (uint32_t i = 0; i < n + 2; ++i) {
    past *self = &p->past[i];
    steps[i].next = at;
    steps[i].n_free = self->n_free;
    steps[i].n_before = self->n_before;
    steps[i].first = self->first;
    atomic_init(&steps[i].left, self->n_before);
    const uint32_t end = at + self->n_next;
    self->n_next = at + self->n_free;
    self->n_free = at;
    at = end;
  }
  steps[n + 2].next = at;
  return at;
}

/* The free ones stand first. */
static void give(planner *p, uint32_t from, uint32_t to) {
  const past *target = &p->past[to];
  const bool is_free = target->n_before == 1 && target->small;
  past *source = &p->past[from];
  p->plan->order[is_free ? source->n_free++ : source->n_next++] = to;
}

static void fill_order(planner *p) {
  const uint32_t n = p->n_steps;
  for (uint32_t i = 0; i < n; ++i) {
    const past *self = &p->past[i];
    if (self->near == 0 && self->far == self[1].far) give(p, n + 1, i);
    for (uint64_t near = self->near; near != 0; near &= near - 1)
      give(p, i - 1 - (uint32_t)__builtin_ctzll(near), i);
    for (uint32_t k = self->far; k < self[1].far; ++k) give(p, p->far[k], i);
    if (self->is_last) give(p, i, n);
  }
}

static tn_code link_steps(tn__arena *arena, planner *p) {
  tn__plan *plan = p->plan;
  const uint32_t n = plan->n = p->n_steps;
  (void)complete(p, p->n_far);
  tie_ends(p);
  plan->steps = tn__arena_alloc(arena, (n + 3) * sizeof *plan->steps);
  TN__TRY(no_memory(arena, plan->n_jobs));
  const uint32_t total = make_steps(p);
  plan->order = tn__arena_alloc(arena, total * sizeof *plan->order);
  TN__TRY(no_memory(arena, plan->n_jobs));
  fill_order(p);
  return TN_OK;
}

tn_code tn__plan_create(tn__arena *arena, const tn__job *jobs, size_t n,
                        uint32_t group, tn__plan *out) {
  sizes all;
  TN__TRY(check(jobs, n, &all));
  TN__TRY(alloc_plan(arena, out, &all));
  tn__arena scratch;
  tn__arena_init(&scratch, arena->env);
  planner p = {.plan = out, .group = group};
  tn_code code = alloc_planner(&scratch, &p, &all);
  if (code == TN_OK) {
    for (uint32_t i = 0; i < out->n_jobs; ++i) add_job(&p, &jobs[i], i);
    out->first_use[n] = out->n_uses;
    if (group != 0) code = link_steps(arena, &p);
  }
  tn__arena_deinit(&scratch);
  return code;
}
