/* SPDX-License-Identifier: Apache-2.0
 * recompute.c: chooses the forward nodes to drop.
 *
 * A choice has a flag for each forward node: is it dropped. The choice
 * determines the repeats. Before the first backward node that reads a dropped
 * node, that node is repeated, after the dropped nodes that it needs in turn.
 *
 * Candidates come from two families: the segments of recompute_cut.c, and the
 * nodes with the least work for their bytes. Then the search restores dropped
 * nodes, the ones with the most work per byte first, while the memory stays
 * within the limit. Each choice is judged by the peak of its net.
 */
#include <stdlib.h>
#include <string.h>

#include "planning.h"
#include "recomputing.h"

static const uint32_t NONE = UINT32_MAX;

/* Number of judged choices per family. */
enum {
  N_CUTS = 24,
  N_CLOSER = 10,
  N_CHEAP = 16,
  N_REFINED = 6,
  LEAST_TRIALS = 60
};

typedef struct choice {
  bool *dropped; /* by forward node */
  size_t peak;
  double work; /* of the repeated nodes */
} choice;

typedef struct search {
  const tn__env *env;
  const tn__recompute_net *net;
  tn__plan_options options;
  tn__arena arena;
  tn__forward f;
  bool *repeated; /* by forward node: repeated in the choice judged last */
  struct pending *stack; /* of nodes to repeat */
  choice best;
  choice lowest; /* the lowest peak of all, whatever the limit */
  choice fewest; /* of all planned choices, the one with the plan of fewest
                  * bytes */
  size_t fewest_bytes;
  choice trial;
  choice start; /* the choice that is refined */
  /* Cuts within the limit, from few to many segments. */
  choice cuts[N_CUTS + N_CLOSER];
  uint32_t n_cuts;
  uint32_t *order; /* nodes in the order of `worth` */
  int32_t *devices;
  uint32_t n_devices;
  int64_t trials; /* remaining */
} search;

/* ------------------------------------------------------------------ repeats */

typedef struct repeat_list {
  tn__repeat *v;
  size_t n;
} repeat_list;

/* A node with inputs to examine. The inputs before `next` are available. */
struct pending {
  uint32_t node;
  uint32_t next;
};

/* Returns the next input that must be repeated first. */
static uint32_t find_missing(const search *s, const choice *c,
                             struct pending *p) {
  const tn__plan_node *node = &s->net->net->nodes[p->node];
  for (; p->next < node->n_in; ++p->next) {
    const uint32_t w = s->f.writer[node->in[p->next]];
    if (node->ignored != NULL && node->ignored[p->next]) continue;
    if (w < s->net->n_forward && c->dropped[w] && !s->repeated[w]) return w;
  }
  return NONE;
}

/* Repeats the dropped nodes that node `n` needs, and those that they need. */
static void repeat_for(search *s, choice *c, uint32_t n, repeat_list *out) {
  uint32_t depth = 0;
  s->stack[depth] = (struct pending){n, 0};
  for (;;) {
    const uint32_t next = find_missing(s, c, &s->stack[depth]);
    if (next != NONE) {
      s->stack[++depth] = (struct pending){next, 0};
      continue;
    }
    if (depth == 0) return;
    const uint32_t top = s->stack[depth--].node;
    s->repeated[top] = true;
    c->work += s->net->costs[top].work;
    out->v[out->n++] = (tn__repeat){top, n};
  }
}

static tn_code list_repeats(search *s, choice *c, tn__arena *arena,
                            repeat_list *out) {
  const uint32_t n_forward = s->net->n_forward;
  *out =
      (repeat_list){tn__arena_alloc(arena, n_forward * sizeof(tn__repeat)), 0};
  if (out->v == NULL) return tn__fail_memory(0, "repeated nodes");
  memset(s->repeated, 0, n_forward * sizeof *s->repeated);
  c->work = 0;
  for (uint32_t n = n_forward; n < s->net->net->n_nodes; ++n)
    repeat_for(s, c, n, out);
  return TN_OK;
}

static tn_code make_net(search *s, choice *c, tn__arena *arena,
                        tn__repeated_net *net) {
  repeat_list repeats;
  TN__TRY(list_repeats(s, c, arena, &repeats));
  return tn__repeated_net_make(net, arena, s->net, repeats.v, repeats.n);
}

/* Finds only lifetimes: the offsets of a plan come close to their peak. In the
 * peak each lifetime counts as many bytes as in a plan. */
static tn_code find_peak(search *s, choice *c, tn__arena *arena) {
  tn__repeated_net net;
  tn__lifetime_table table = {.options = &s->options, .arena = arena};
  TN__TRY(make_net(s, c, arena, &net));
  table.net = &net.net;
  TN__TRY(tn__lifetimes_find(&table));
  c->peak = 0;
  for (uint32_t k = 0; k < s->n_devices; ++k)
    c->peak += tn__lifetimes_peak(&table, s->devices[k], s->options.align);
  return TN_OK;
}

static tn_code judge_choice(search *s, choice *c) {
  tn__arena arena;
  --s->trials;
  tn__arena_init(&arena, s->env);
  const tn_code code = find_peak(s, c, &arena);
  tn__arena_deinit(&arena);
  return code;
}

static void copy_choice(const search *s, choice *to, const choice *from) {
  memcpy(to->dropped, from->dropped, s->net->n_forward * sizeof *to->dropped);
  to->peak = from->peak;
  to->work = from->work;
}

/* Within the limit less work is better, beyond it fewer bytes. */
static bool is_better(const choice *a, const choice *b, size_t limit) {
  const bool fits = a->peak <= limit, other = b->peak <= limit;
  if (fits != other) return fits;
  if (!fits && a->peak != b->peak) return a->peak < b->peak;
  return a->work < b->work || (a->work == b->work && a->peak < b->peak);
}

static void keep_choice(search *s, const choice *c, size_t limit) {
  if (is_better(c, &s->lowest, 0)) copy_choice(s, &s->lowest, c);
  if (is_better(c, &s->best, limit)) copy_choice(s, &s->best, c);
}

/* ---------------------------------------------------------------- restoring */

typedef struct ranked {
  double worth; /* work per byte */
  uint32_t n;
} ranked;

static int compare_worth(const void *a, const void *b) {
  const ranked *x = a, *y = b;
  if (x->worth != y->worth) return x->worth < y->worth ? -1 : 1;
  return x->n < y->n ? -1 : 1;
}

/* Ranks all nodes that may be dropped, the least work per byte first. */
static tn_code rank_nodes(search *s, uint32_t *count) {
  const uint32_t n_forward = s->net->n_forward;
  ranked *all = tn__arena_alloc(&s->arena, n_forward * sizeof *all);
  if (all == NULL) return tn__fail_memory(0, "repeated nodes");
  *count = 0;
  for (uint32_t n = 0; n < n_forward; ++n)
    if (!s->f.fixed[n] && s->f.bytes[n] > 0)
      all[(*count)++] =
          (ranked){s->net->costs[n].work / (double)s->f.bytes[n], n};
  qsort(all, *count, sizeof *all, compare_worth);
  for (uint32_t k = 0; k < *count; ++k) s->order[k] = all[k].n;
  return TN_OK;
}

/* Lists the nodes repeated by `s->start`, the most work per byte first. */
static tn_code rank_repeated(search *s, uint32_t n_ranked, uint32_t *nodes,
                             uint32_t *count) {
  TN__TRY(judge_choice(s, &s->start));
  *count = 0;
  for (uint32_t k = n_ranked; k-- > 0;)
    if (s->repeated[s->order[k]]) nodes[(*count)++] = s->order[k];
  return TN_OK;
}

/* Tries `s->start` without dropping nodes[from .. to). If the peak is within
 * the limit, sets *done and keeps the change. */
static tn_code try_restore(search *s, const uint32_t *nodes, uint32_t from,
                           uint32_t to, size_t limit, bool *done) {
  copy_choice(s, &s->trial, &s->start);
  for (uint32_t k = from; k < to; ++k) s->trial.dropped[nodes[k]] = false;
  TN__TRY(judge_choice(s, &s->trial));
  *done = s->trial.peak <= limit && s->trial.work <= s->start.work;
  if (*done) copy_choice(s, &s->start, &s->trial);
  return TN_OK;
}

/* Restores as many of nodes[from .. to) as possible: all of them, or else as
 * many as possible of each half, down to pieces of `least`. */
static tn_code restore_most(search *s, const uint32_t *nodes, uint32_t from,
                            uint32_t to, size_t limit, uint32_t least) {
  bool done = false;
  for (uint32_t k = from; k < to && !done; ++k)
    done = s->start.dropped[nodes[k]];
  if (!done || s->trials <= 0) return TN_OK;
  TN__TRY(try_restore(s, nodes, from, to, limit, &done));
  if (done || to - from <= least) return TN_OK;
  const uint32_t middle = from + (to - from) / 2;
  TN__TRY(restore_most(s, nodes, from, middle, limit, least));
  return restore_most(s, nodes, middle, to, limit, least);
}

/* Restores the nodes with the most work, in pieces first and then one by
 * one. */
static tn_code refine_start(search *s, uint32_t n_ranked, size_t limit) {
  enum { PIECES = 32 };
  uint32_t *nodes =
      tn__arena_alloc(&s->arena, s->net->n_forward * sizeof *nodes);
  uint32_t count = 0;
  if (nodes == NULL) return tn__fail_memory(0, "repeated nodes");
  TN__TRY(rank_repeated(s, n_ranked, nodes, &count));
  TN__TRY(restore_most(s, nodes, 0, count, limit, count / PIECES + 1));
  TN__TRY(restore_most(s, nodes, 0, count, limit, 1));
  keep_choice(s, &s->start, limit);
  return TN_OK;
}

/* ----------------------------------------------------------------- families */

/* Makes a trial of segments. *found is false if there are none. */
static tn_code try_cut(search *s, size_t bytes, bool *found) {
  tn__arena arena;
  tn__arena_init(&arena, s->env);
  tn_code code =
      tn__recompute_cut(&s->f, &arena, bytes, s->trial.dropped, found);
  if (code == TN_OK && *found) code = judge_choice(s, &s->trial);
  tn__arena_deinit(&arena);
  return code;
}

/* Tries bounds from all bytes that the backward part reads down to a hundredth,
 * then closer ones around the bound with the lowest peak. */
static tn_code search_cuts(search *s, size_t limit) {
  double bound = 0, best_bound = 0;
  size_t best = SIZE_MAX;
  for (uint32_t n = 0; n < s->net->n_forward; ++n)
    bound += (double)s->f.bytes[n];
  for (int k = 0; k < N_CUTS + N_CLOSER; ++k) {
    bool found;
    if (k == N_CUTS && best == SIZE_MAX) return TN_OK;
    if (k == N_CUTS) bound = best_bound * 1.25;
    TN__TRY(try_cut(s, (size_t)bound, &found));
    if (found && s->trial.peak < best) {
      best = s->trial.peak;
      best_bound = bound;
    }
    if (found) keep_choice(s, &s->trial, limit);
    if (found && s->trial.peak <= limit)
      copy_choice(s, &s->cuts[s->n_cuts++], &s->trial);
    bound *= k < N_CUTS ? 0.8 : 0.96;
  }
  return TN_OK;
}

/* Drops the cheapest nodes, more and more of them. */
static tn_code search_cheap(search *s, uint32_t n_ranked, size_t limit) {
  for (uint32_t k = 1; k <= N_CHEAP; ++k) {
    const uint32_t count = (uint32_t)((uint64_t)n_ranked * k / N_CHEAP);
    memset(s->trial.dropped, 0, s->net->n_forward * sizeof *s->trial.dropped);
    for (uint32_t i = 0; i < count; ++i) s->trial.dropped[s->order[i]] = true;
    TN__TRY(judge_choice(s, &s->trial));
    keep_choice(s, &s->trial, limit);
  }
  return TN_OK;
}

/* -------------------------------------------------------------------- setup */

static void note_reads(search *s) {
  const tn__plan_net *net = s->net->net;
  for (uint32_t n = 0; n < net->n_nodes; ++n) {
    const tn__plan_node *node = &net->nodes[n];
    for (uint32_t o = 0; o < node->n_out; ++o)
      s->f.writer[node->first_out + o] = n;
    for (uint32_t i = 0; i < node->n_in; ++i) {
      const uint32_t e = node->in[i], w = s->f.writer[e];
      if (node->ignored != NULL && node->ignored[i]) continue;
      if (n < s->net->n_forward)
        s->f.last_read[e] = n;
      else if (w < s->net->n_forward)
        s->f.wanted[w] = 1;
    }
  }
}

/* Repeating outputs that outlive the forward part in any case saves nothing. */
static void note_bytes(search *s) {
  const tn__plan_net *net = s->net->net;
  for (uint32_t n = 0; n < s->net->n_forward; ++n) {
    const tn__plan_node *node = &net->nodes[n];
    s->f.fixed[n] = s->net->costs[n].once;
    s->f.work += s->net->costs[n].work;
    for (uint32_t o = 0; o < node->n_out; ++o) {
      const tn__plan_entry *e = &net->entries[node->first_out + o];
      s->f.fixed[n] |= (e->flags & (TN__ENTRY_EXTERNAL | TN__ENTRY_HEAD |
                                    TN__ENTRY_DYNAMIC)) != 0;
      if (e->flags == 0) s->f.bytes[n] += e->bytes;
    }
    s->f.wanted[n] = s->f.wanted[n] != 0 ? s->f.bytes[n] : 0;
  }
}

static tn_code note_devices(search *s) {
  const tn__plan_net *net = s->net->net;
  s->devices = tn__arena_alloc(
      &s->arena, (net->n_entries + net->n_nodes) * sizeof *s->devices);
  if (s->devices == NULL) return tn__fail_memory(0, "a search");
  for (size_t k = 0; k < net->n_entries + net->n_nodes; ++k) {
    const int32_t device = k < net->n_entries
                               ? net->entries[k].device
                               : net->nodes[k - net->n_entries].device;
    uint32_t d = 0;
    while (d < s->n_devices && s->devices[d] != device) ++d;
    s->devices[d] = device;
    if (d == s->n_devices) ++s->n_devices;
  }
  return TN_OK;
}

static tn_code prepare_search(search *s) {
  const size_t n = s->net->n_forward, n_entries = s->net->net->n_entries;
  tn__arena *a = &s->arena;
  s->f.net = s->net;
  s->f.writer = tn__arena_alloc(a, n_entries * sizeof *s->f.writer);
  s->f.last_read = tn__arena_alloc(a, n_entries * sizeof *s->f.last_read);
  s->f.fixed = tn__arena_alloc(a, n * sizeof *s->f.fixed);
  s->f.bytes = tn__arena_alloc(a, n * sizeof *s->f.bytes);
  s->f.wanted = tn__arena_alloc(a, n * sizeof *s->f.wanted);
  s->repeated = tn__arena_alloc(a, n * sizeof *s->repeated);
  s->stack = tn__arena_alloc(a, (n + 1) * sizeof *s->stack);
  s->order = tn__arena_alloc(a, n * sizeof *s->order);
  s->best.dropped = tn__arena_alloc(a, n * sizeof(bool));
  s->lowest.dropped = tn__arena_alloc(a, n * sizeof(bool));
  s->fewest.dropped = tn__arena_alloc(a, n * sizeof(bool));
  s->trial.dropped = tn__arena_alloc(a, n * sizeof(bool));
  s->start.dropped = tn__arena_alloc(a, n * sizeof(bool));
  for (int k = 0; k < N_CUTS + N_CLOSER; ++k)
    s->cuts[k].dropped = tn__arena_alloc(a, n * sizeof(bool));
  if (a->failed) return tn__fail_memory(n * sizeof(size_t), "a search");
  for (size_t e = 0; e < n_entries; ++e)
    s->f.writer[e] = s->f.last_read[e] = NONE;
  note_reads(s);
  note_bytes(s);
  return note_devices(s);
}

/* --------------------------------------------------------------- the search */

/* Returns the number of nets to judge in total, fewer for longer ones. */
static int64_t trials_for(const tn__plan_net *net) {
  enum { NODES = 1600000, LEAST = 60, MOST = 800 };
  const int64_t n = NODES / ((int64_t)net->n_nodes + 1);
  return n < LEAST ? LEAST : n > MOST ? MOST : n;
}

static tn_code refine_from(search *s, const choice *from, uint32_t n_ranked,
                           size_t limit) {
  if (from->peak > limit) return TN_OK;
  copy_choice(s, &s->start, from);
  return refine_start(s, n_ranked, limit);
}

/* Refines the best choice so far, the lowest, and some of the cuts, with an
 * equal share of the trials for each. */
static tn_code refine_all(search *s, uint32_t n_ranked, size_t limit) {
  uint32_t some = s->n_cuts < N_REFINED ? s->n_cuts : N_REFINED;
  while (some > 0 && s->trials / (some + 2) < LEAST_TRIALS) --some;
  const int64_t share = s->trials / (some + 2);
  s->trials = share;
  TN__TRY(refine_from(s, &s->best, n_ranked, limit));
  s->trials += share;
  TN__TRY(refine_from(s, &s->lowest, n_ranked, limit));
  for (uint32_t k = 0; k < some; ++k) {
    s->trials += share;
    TN__TRY(refine_from(s, &s->cuts[s->n_cuts * k / some], n_ranked, limit));
  }
  return TN_OK;
}

/* Leaves in `best` the choice with the least work within the limit. If none is
 * within it, `best` has the fewest bytes, and the least work among those. */
static tn_code explore_choices(search *s, size_t limit) {
  uint32_t n_ranked = 0;
  s->trials = trials_for(s->net->net);
  s->n_cuts = 0;
  memset(s->best.dropped, 0, s->net->n_forward * sizeof *s->best.dropped);
  TN__TRY(judge_choice(s, &s->best));
  copy_choice(s, &s->lowest, &s->best);
  TN__TRY(rank_nodes(s, &n_ranked));
  TN__TRY(search_cuts(s, limit));
  TN__TRY(search_cheap(s, n_ranked, limit));
  const size_t within = s->lowest.peak > limit ? s->lowest.peak : limit;
  return refine_all(s, n_ranked, within);
}

static tn_code plan_best(search *s, size_t *bytes) {
  tn__repeated_net net;
  tn__memory_plan plan;
  tn__arena arena;
  tn__arena_init(&arena, s->env);
  tn_code code = make_net(s, &s->best, &arena, &net);
  if (code == TN_OK)
    code = tn__memory_plan_init(&plan, s->env, &net.net, &s->options);
  tn__arena_deinit(&arena);
  if (code != TN_OK) return code;
  *bytes = tn__memory_plan_bytes(&plan);
  tn__memory_plan_deinit(&plan);
  return TN_OK;
}

/* Writes the repeats of the best choice, and the size of its plan. */
static tn_code write_answer(search *s, tn__recompute *out) {
  repeat_list repeats;
  tn__arena_deinit(&out->arena);
  tn__arena_init(&out->arena, s->env);
  TN__TRY(list_repeats(s, &s->best, &out->arena, &repeats));
  TN__TRY(plan_best(s, &out->bytes));
  out->repeats = repeats.v;
  out->n_repeats = repeats.n;
  out->extra = s->f.work > 0 ? s->best.work / s->f.work : 0;
  return TN_OK;
}

/* Searches a choice within `limit` and makes it the result. *over is the number
 * of bytes of its plan beyond the budget, or 0. */
static tn_code try_limit(search *s, size_t limit, size_t budget, size_t *over,
                         tn__recompute *out) {
  TN__TRY(explore_choices(s, limit));
  TN__TRY(write_answer(s, out));
  if (out->bytes < s->fewest_bytes) {
    s->fewest_bytes = out->bytes;
    copy_choice(s, &s->fewest, &s->best);
  }
  *over = budget > 0 && out->bytes > budget ? out->bytes - budget : 0;
  return TN_OK;
}

/* A plan may take more than the peak by which choices are judged. Then the
 * search starts again with a limit lower by the difference, and at last with
 * limit 0. */
static tn_code search_within(search *s, size_t budget, tn__recompute *out) {
  enum { ATTEMPTS = 5 };
  size_t limit = budget, over = 0;
  for (int k = 1; k <= ATTEMPTS; ++k) {
    TN__TRY(try_limit(s, limit, budget, &over, out));
    if (over == 0 || s->best.peak > limit) break;
    limit = over < limit ? limit - over : limit / 2;
    if (k + 1 == ATTEMPTS) limit = 0;
  }
  out->least = limit == 0 || s->best.peak > limit;
  if (out->bytes > s->fewest_bytes && (budget == 0 || over > 0)) {
    copy_choice(s, &s->best, &s->fewest);
    TN__TRY(write_answer(s, out));
  }
  out->met = budget == 0 || out->bytes <= budget;
  return TN_OK;
}

static tn_code choose_repeats(search *s, size_t budget, tn__recompute *out) {
  TN__TRY(prepare_search(s));
  memset(s->best.dropped, 0, s->net->n_forward * sizeof *s->best.dropped);
  TN__TRY(write_answer(s, out));
  out->bytes_without = s->fewest_bytes = out->bytes;
  copy_choice(s, &s->fewest, &s->best);
  out->met = true;
  if (s->net->n_forward == 0 || (budget > 0 && out->bytes <= budget))
    return TN_OK;
  return search_within(s, budget, out);
}

tn_code tn__recompute_init(tn__recompute *out, const tn__env *env,
                           const tn__recompute_net *net,
                           const tn__recompute_options *options) {
  search s = {.env = env, .net = net, .options = options->plan};
  if (s.options.align == 0) s.options.align = TN__PLAN_ALIGN;
  *out = (tn__recompute){0};
  TN__TRY(tn__plan_net_check(env, net->net));
  if (net->n_forward > net->net->n_nodes)
    return tn__fail(TN_INVALID,
                    "recompute: a forward part of %u nodes in a net of %zu",
                    net->n_forward, net->net->n_nodes);
  tn__arena_init(&s.arena, env);
  tn__arena_init(&out->arena, env);
  const tn_code code = choose_repeats(&s, options->budget, out);
  tn__arena_deinit(&s.arena);
  if (code != TN_OK) tn__recompute_deinit(out);
  return code;
}

void tn__recompute_deinit(tn__recompute *recompute) {
  tn__arena_deinit(&recompute->arena);
  *recompute = (tn__recompute){0};
}
