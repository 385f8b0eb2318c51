/* SPDX-License-Identifier: Apache-2.0
 * schedule_plan.c: works out the dependencies of the jobs of a schedule. It
 * visits the jobs in order, as pushes would. For each variable it knows the
 * step that wrote it last and the steps that have read it since. Each use adds
 * the predecessors that the rule of engine.h demands. Each job joins the step
 * before it or begins a new one, as schedule_plan.h explains. A complete step
 * then loses those predecessors that are also ancestors of its other
 * predecessors.
 */
#include <string.h>

#include "schedule_plan.h"

#define NONE UINT32_MAX

enum { WINDOW = 64 }; /* steps, or jobs, that a mask reaches back */

/* The large jobs (those that are not small) that must be over before a job can
 * begin. Large jobs have numbers. `now` has a bit for each of the WINDOW jobs
 * of this `block`, `before` for each of the block before. `far` is a hash of
 * older ones and only shows whether two sets are equal. 0 is the empty set;
 * equal sets may differ where streams of jobs have met. */
typedef struct needs {
  uint64_t now;
  uint64_t before;
  uint64_t far;
  uint64_t block;
} needs;

/* Facts about a step. Bit k of a mask means the step that is k + 1 steps
 * earlier. */
typedef struct step_info {
  uint64_t near;  /* predecessors */
  uint64_t above; /* known ancestors; others may be ancestors too */
  uint32_t floor; /* all steps before this one are ancestors */
  uint32_t far;   /* its older predecessors begin here in planner.far */
  uint32_t first; /* job */
  uint32_t n_before;
  uint32_t n_next; /* later: place of its next successor in plan.order */
  uint32_t n_free; /* free ones of them; later as above */
  bool small;
  bool is_last; /* no step waits for it */
} step_info;

typedef struct var_state {
  uint32_t writer;  /* the last step that writes it, or NONE */
  uint32_t readers; /* since then: a list in planner.readers, or NONE */
  uint32_t job;     /* the last job that uses it */
  uint32_t use;
} var_state;

typedef struct reader {
  uint32_t step;
  uint32_t next;
} reader;

typedef struct planner {
  tn__schedule_plan *plan;
  uint32_t group;    /* maximum of jobs in one step; 0: no steps */
  uint32_t n_steps;  /* the last one is not complete */
  var_state *states; /* of each variable, parallel to plan.access */
  uint32_t *table; /* 1 + index of the state, by hash of the address; 0: none */
  size_t mask;
  var_state **used;     /* by the current job, parallel to its uses */
  step_info *step_info; /* of each step, then of the end and the beginning */
  needs *needs;         /* of each step, if there are small and large jobs */
  reader *readers;
  uint32_t *far;  /* predecessors beyond the window */
  uint32_t *seen; /* 1 + the last step that has this one in `far` */
  uint32_t n_readers;
  uint32_t n_far;
  uint32_t n_large;  /* large jobs so far */
  uint64_t n_unions; /* number of unions, which get a hash of their own */
} planner;

typedef struct job_counts {
  size_t jobs;
  size_t uses;
  size_t most;  /* uses of one job */
  size_t large; /* large jobs */
} job_counts;

static tn_code check_jobs(const tn__job *jobs, size_t n, job_counts *out) {
  *out = (job_counts){.jobs = n};
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

static tn_code check_memory(const tn__arena *arena, size_t n) {
  if (!arena->failed) return TN_OK;
  return tn__fail(TN_OUT_OF_MEMORY,
                  "out of memory: the plan of a schedule of %zu jobs", n);
}

static tn_code alloc_plan(tn__arena *arena, tn__schedule_plan *plan,
                          const job_counts *s) {
  *plan = (tn__schedule_plan){.n_jobs = (uint32_t)s->jobs};
  plan->first_use =
      tn__arena_alloc(arena, (s->jobs + 1) * sizeof *plan->first_use);
  plan->uses = tn__arena_alloc(arena, s->uses * sizeof *plan->uses);
  /* One more, for the schedule's own variable. */
  plan->access = tn__arena_alloc(arena, (s->uses + 1) * sizeof *plan->access);
  return check_memory(arena, s->jobs);
}

static tn_code alloc_planner(tn__arena *arena, planner *p,
                             const job_counts *s) {
  size_t capacity = 16;
  while (capacity < 2 * s->uses) capacity *= 2;
  p->mask = capacity - 1;
  p->table = tn__arena_alloc(arena, capacity * sizeof *p->table);
  p->states = tn__arena_alloc(arena, s->uses * sizeof *p->states);
  p->used = tn__arena_alloc(arena, s->most * sizeof *p->used);
  if (p->group == 0) return check_memory(arena, s->jobs);
  /* If all are small, every step but the last is a full group. */
  const size_t n = s->large == 0 ? s->jobs / p->group + 1 : s->jobs;
  p->step_info = tn__arena_alloc(arena, (n + 2) * sizeof *p->step_info);
  p->seen = tn__arena_alloc(arena, n * sizeof *p->seen);
  if (s->large != 0 && s->large != s->jobs)
    p->needs = tn__arena_alloc(arena, n * sizeof *p->needs);
  p->readers = tn__arena_alloc(arena, s->uses * sizeof *p->readers);
  /* A use waits for at most one writer, and at most one writer waits for it. */
  p->far = tn__arena_alloc(arena, (2 * s->uses + 1) * sizeof *p->far);
  return check_memory(arena, s->jobs);
}

/* -------------------------------------------------------------------- uses */

/* Index of the variable in plan.access. */
static uint32_t place_of(planner *p, tn__var *var) {
  tn__schedule_plan *plan = p->plan;
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
static uint32_t combine_modes(uint32_t a, uint32_t b) {
  return a == b ? a : (uint32_t)TN__UPDATE;
}

static void note_uses(planner *p, const tn__job *job, uint32_t number) {
  tn__schedule_plan *plan = p->plan;
  const uint32_t first = plan->n_uses;
  plan->first_use[number] = first;
  for (uint32_t i = 0; i < job->n_access; ++i) {
    tn__var *var = job->access[i].var;
    const uint32_t mode = job->access[i].mode, place = place_of(p, var);
    var_state *state = &p->states[place];
    if (mode != TN__READ) plan->access[place].mode = TN__UPDATE;
    if (state->job == number) {
      tn__job_use *use = &plan->uses[state->use];
      use->mode = combine_modes(use->mode, mode);
      continue;
    }
    state->job = number;
    state->use = plan->n_uses;
    p->used[plan->n_uses - first] = state;
    plan->uses[plan->n_uses++] = (tn__job_use){var, mode, 0};
  }
}

/* ------------------------------------------------------------ predecessors */

/* Adds a predecessor of the step that would be the next one. */
static void note_predecessor(planner *p, uint64_t *near, uint32_t step) {
  const uint32_t distance = p->n_steps - step;
  const bool is_far = distance > WINDOW; /* no branch: unpredictable */
  *near |= (uint64_t)!is_far << ((distance - 1) % WINDOW);
  p->far[p->n_far] = step;
  p->n_far += is_far;
}

/* Predecessors of the current job: the near ones are returned, older ones are
 * at the end of `far`. */
static uint64_t find_predecessors(planner *p, uint32_t first_use) {
  const tn__job_use *uses = &p->plan->uses[first_use];
  const uint32_t n = p->plan->n_uses - first_use;
  uint64_t near = 0;
  for (uint32_t i = 0; i < n; ++i) {
    const var_state *state = p->used[i];
    uint32_t at = uses[i].mode == TN__READ ? NONE : state->readers;
    if (at == NONE && state->writer != NONE)
      note_predecessor(p, &near, state->writer);
    for (; at != NONE; at = p->readers[at].next)
      note_predecessor(p, &near, p->readers[at].step);
  }
  return near;
}

/* Records the uses of the current job as uses of the last step. */
static void record_uses(planner *p, uint32_t first_use) {
  const tn__job_use *uses = &p->plan->uses[first_use];
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

static uint64_t shift_mask(uint64_t mask, uint32_t by) {
  return by < WINDOW ? mask << by : 0;
}

/* Adds step `from` and its ancestors to the ancestors of a step that is k + 1
 * steps later. */
static void add_ancestors(step_info *to, const step_info *from, uint32_t k) {
  to->above |= 1ull << k | shift_mask(from->above, k + 1);
  if (from->floor > to->floor) to->floor = from->floor;
}

/* Raises `floor` as far as the ancestors have no gap. */
static void raise_floor(step_info *self, uint32_t step) {
  uint32_t at = self->floor;
  if (step > WINDOW && at < step - WINDOW) return;
  while (at < step && (self->above >> (step - 1 - at) & 1) != 0) ++at;
  self->floor = at;
}

static void keep_predecessor(planner *p, step_info *self, uint32_t from,
                             uint32_t *last) {
  ++p->step_info[from].n_next;
  ++self->n_before;
  *last = from;
}

/* Completes the last step; its older predecessors are in `far` up to `end`.
 * Visits predecessors from the nearest to the oldest, and drops each one that
 * is an ancestor of a kept one. Returns the new place of the entries after
 * `end`. */
static uint32_t complete_step(planner *p, uint32_t end) {
  if (p->n_steps == 0) return end;
  const uint32_t step = p->n_steps - 1;
  step_info *self = &p->step_info[step];
  uint64_t near = self->near;
  uint32_t n_far = self->far, last = 0;
  for (self->near = 0; near != 0; near &= near - 1) {
    const uint32_t k = (uint32_t)__builtin_ctzll(near);
    if ((self->above >> k & 1) != 0) continue;
    self->near |= 1ull << k;
    add_ancestors(self, &p->step_info[step - 1 - k], k);
    keep_predecessor(p, self, step - 1 - k, &last);
  }
  for (uint32_t i = self->far; i < end; ++i) {
    const uint32_t from = p->far[i];
    if (from < self->floor || p->seen[from] == step + 1) continue;
    p->seen[from] = step + 1;
    p->far[n_far++] = from;
    keep_predecessor(p, self, from, &last);
  }
  memmove(&p->far[n_far], &p->far[end], (p->n_far - end) * sizeof *p->far);
  p->n_far -= end - n_far;
  raise_floor(self, step);
  if (self->n_before == 1 && self->small) ++p->step_info[last].n_free;
  return n_far;
}

/* ------------------------------------------------------------------ groups */

/* Adds a word to the hash `far`; older words come first. */
static uint64_t mix_word(uint64_t far, uint64_t word, uint64_t block) {
  if (word == 0) return far;
  far = (far ^ (block + 1)) * 0x9e3779b97f4a7c15ull;
  far = ((far ^ far >> 29) + word) * 0xff51afd7ed558ccdull;
  return (far ^ far >> 32) | 1;
}

static void move_to_block(needs *self, uint64_t block) {
  if (self->block == block) return;
  self->far = mix_word(self->far, self->before, self->block - 1);
  self->before = self->now;
  self->now = 0;
  if (++self->block == block) return;
  self->far = mix_word(self->far, self->before, self->block - 1);
  self->before = 0;
  self->block = block;
}

static void unite_needs(planner *p, needs *self, needs other) {
  move_to_block(&other, self->block);
  self->now |= other.now;
  self->before |= other.before;
  if (self->far == 0)
    self->far = other.far;
  else if (other.far != 0 && other.far != self->far)
    self->far = mix_word(~0ull, ++p->n_unions, 0);
}

/* The needs of the current job. */
static needs find_needs(planner *p, uint64_t near, uint32_t far) {
  needs result = {.block = p->n_large / WINDOW};
  uint64_t above = 0;
  uint32_t floor = 0;
  if (p->needs == NULL) return result;
  for (; near != 0; near &= near - 1) {
    const uint32_t k = (uint32_t)__builtin_ctzll(near);
    const uint32_t step = p->n_steps - 1 - k;
    if ((above >> k & 1) != 0) continue;
    above |= shift_mask(p->step_info[step].above, k + 1);
    if (p->step_info[step].floor > floor) floor = p->step_info[step].floor;
    unite_needs(p, &result, p->needs[step]);
  }
  for (; far < p->n_far; ++far)
    if (p->far[far] >= floor) unite_needs(p, &result, p->needs[p->far[far]]);
  return result;
}

static bool can_join_group(const planner *p, uint32_t job, const needs *own) {
  if (p->n_steps == 0) return false;
  const uint32_t last = p->n_steps - 1;
  if (!p->step_info[last].small || job - p->step_info[last].first >= p->group)
    return false;
  return p->needs == NULL || (p->needs[last].now == own->now &&
                              p->needs[last].before == own->before &&
                              p->needs[last].far == own->far);
}

/* Begins a step with these predecessors, and older ones from `far` on. A job
 * that waits for it needs this step's needs and, if it is large, the step
 * itself. */
static void begin_step(planner *p, const step_info *step, needs own) {
  const uint32_t number = p->n_large;
  if (!step->small) {
    own.now |= 1ull << number % WINDOW;
    ++p->n_large;
  }
  if (p->needs != NULL) p->needs[p->n_steps] = own;
  p->step_info[p->n_steps++] = *step;
}

static void add_job(planner *p, const tn__job *job, uint32_t number) {
  const uint32_t first_use = p->plan->n_uses, far = p->n_far;
  const bool small = (job->flags & TN__JOB_SMALL) != 0;
  note_uses(p, job, number);
  if (p->group == 0) return;
  const uint64_t near = find_predecessors(p, first_use);
  const needs own = find_needs(p, near, far);
  if (small && can_join_group(p, number, &own)) {
    p->step_info[p->n_steps - 1].near |= near >> 1;
  } else {
    const uint32_t begin = complete_step(p, far);
    begin_step(p,
               &(step_info){
                   .near = near, .far = begin, .first = number, .small = small},
               own);
  }
  record_uses(p, first_use);
}

/* -------------------------------------------------------------- successors */

/* Steps without a predecessor follow the beginning; steps without a successor
 * precede the end. */
static void tie_ends(planner *p) {
  const uint32_t n = p->n_steps;
  step_info *end = &p->step_info[n], *beginning = &p->step_info[n + 1];
  end->far = p->n_far;
  end->first = beginning->first = p->plan->n_jobs;
  for (step_info *each = p->step_info; each < end; ++each) {
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

/* Returns the total number of successors. */
static uint32_t make_steps(planner *p) {
  const uint32_t n = p->n_steps;
  tn__schedule_step *steps = p->plan->steps;
  uint32_t at = 0;
  for (uint32_t i = 0; i < n + 2; ++i) {
    step_info *self = &p->step_info[i];
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

/* Adds a successor; free ones come first. */
static void add_successor(planner *p, uint32_t from, uint32_t to) {
  const step_info *target = &p->step_info[to];
  const bool is_free = target->n_before == 1 && target->small;
  step_info *source = &p->step_info[from];
  p->plan->order[is_free ? source->n_free++ : source->n_next++] = to;
}

static void fill_order(planner *p) {
  const uint32_t n = p->n_steps;
  for (uint32_t i = 0; i < n; ++i) {
    const step_info *self = &p->step_info[i];
    if (self->near == 0 && self->far == self[1].far) add_successor(p, n + 1, i);
    for (uint64_t near = self->near; near != 0; near &= near - 1)
      add_successor(p, i - 1 - (uint32_t)__builtin_ctzll(near), i);
    for (uint32_t k = self->far; k < self[1].far; ++k)
      add_successor(p, p->far[k], i);
    if (self->is_last) add_successor(p, i, n);
  }
}

static tn_code connect_steps(tn__arena *arena, planner *p) {
  tn__schedule_plan *plan = p->plan;
  const uint32_t n = plan->n = p->n_steps;
  (void)complete_step(p, p->n_far);
  tie_ends(p);
  plan->steps = tn__arena_alloc(arena, (n + 3) * sizeof *plan->steps);
  TN__TRY(check_memory(arena, plan->n_jobs));
  const uint32_t total = make_steps(p);
  plan->order = tn__arena_alloc(arena, total * sizeof *plan->order);
  TN__TRY(check_memory(arena, plan->n_jobs));
  fill_order(p);
  return TN_OK;
}

tn_code tn__schedule_plan_create(tn__arena *arena, const tn__job *jobs,
                                 size_t n, uint32_t group,
                                 tn__schedule_plan *out) {
  job_counts all;
  TN__TRY(check_jobs(jobs, n, &all));
  TN__TRY(alloc_plan(arena, out, &all));
  tn__arena scratch;
  tn__arena_init(&scratch, arena->env);
  planner p = {.plan = out, .group = group};
  tn_code code = alloc_planner(&scratch, &p, &all);
  if (code == TN_OK) {
    for (uint32_t i = 0; i < out->n_jobs; ++i) add_job(&p, &jobs[i], i);
    out->first_use[n] = out->n_uses;
    if (group != 0) code = connect_steps(arena, &p);
  }
  tn__arena_deinit(&scratch);
  return code;
}
