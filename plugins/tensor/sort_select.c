/* SPDX-License-Identifier: Apache-2.0
 * sort_select.c: finds the first k elements of lines, in order, without a sort
 * of the lines. The key of the last of k known elements is the bound: later
 * elements need a lesser key. A vectorised loop passes over elements that
 * cannot get in. Few picks are kept in order; of many, a buffer is sorted when
 * it is full. Few long lines are cut into pieces, whose picks are merged. A
 * sample of a long line gives a bound at the beginning; if fewer than k
 * elements are below it, the search is repeated without it.
 */
#include "sort_task.h"

enum {
  FEW = 32,     /* picks that are kept in order */
  SPARE = 256,  /* more picks of a buffer than twice k */
  MANY = 16,    /* lines that are enough for all threads, so that none is cut */
  UNITS = 64,   /* slices of the pieces, each with its own buffer */
  RATIO = 8,    /* length of a line, at least, divided by k */
  AT_ONCE = 64, /* keys that are compared together */
  SAMPLE = 4096,        /* keys of a sample of a line */
  SAMPLED = 16 * SAMPLE /* elements of the shortest line that has one */
};

/* ------------------------------------------------------------------- bounds */

/* The result of a pass: the number of keys before the first AT_ONCE ones of
 * which one is below the bound, and these, as bits. */
typedef struct select_hits {
  int64_t passed;
  uint64_t bits; /* 0: no such keys */
} select_hits;

/* Sets *out, which is a select_hits; `params` is the bound. */
#define PASS(name, key)                                                        \
  TN_KERNEL_BODY void name(const tn_kernel_block *block, const void *params) { \
    select_hits *hits = (select_hits *)block->out;                             \
    const key *x = (const key *)block->in[0];                                  \
    const key bound = (key) * (const uint64_t *)params;                        \
    uint64_t bits = 0;                                                         \
    int64_t i = 0;                                                             \
    for (; i + AT_ONCE <= block->n; i += AT_ONCE) {                            \
      int some = 0;                                                            \
      for (int k = 0; k < AT_ONCE; ++k) some |= x[i + k] < bound;              \
      if (some) break;                                                         \
    }                                                                          \
    hits->passed = i;                                                          \
    if (i + AT_ONCE <= block->n)                                               \
      for (uint64_t k = 0; k < AT_ONCE; ++k)                                   \
        bits |= (uint64_t)(x[i + (int64_t)k] < bound) << k;                    \
    hits->bits = bits;                                                         \
  }                                                                            \
  TN_KERNEL_LEVELS(name)
PASS(pass_32, uint32_t)
PASS(pass_64, uint64_t)

/* -------------------------------------------------------------------- picks */

/* A found element. */
typedef struct sort_pick {
  uint64_t key;
  int64_t i;
} sort_pick;

typedef struct selection {
  int64_t k, n;   /* wanted; found */
  int is_bounded; /* by k found elements, or by a sample */
  int32_t bits;   /* of a key */
  uint64_t bound; /* of keys, if there is one */
  sort_pick few[FEW];
  uint64_t *words, *other; /* more than FEW are in words */
} selection;

/* Number of zeros below the lowest one of some bits. */
static int count_zeros(uint64_t bits) {
#if defined(__GNUC__)
  return __builtin_ctzll(bits);
#else
  int n = 0;
  for (; (bits >> n & 1) == 0; ++n) continue;
  return n;
#endif
}

/* Puts a pick into its place; equal keys keep their order. */
static void insert_pick(selection *s, uint64_t key, int64_t i) {
  int64_t at = s->n < s->k ? s->n++ : s->k - 1;
  for (; at > 0 && s->few[at - 1].key > key; --at) s->few[at] = s->few[at - 1];
  s->few[at] = (sort_pick){key, i};
  s->is_bounded = s->n == s->k;
  s->bound = s->few[s->n - 1].key;
}

/* Sorts the buffer, and keeps the first k. */
static void shrink_picks(selection *s) {
  uint64_t *sorted = sort_words(s->words, s->other, s->n, s->bits);
  if (sorted != s->words) {
    s->other = s->words;
    s->words = sorted;
  }
  if (s->n < s->k) return;
  s->n = s->k;
  s->is_bounded = 1;
  s->bound = s->words[s->k - 1] >> 32;
}

static void append_pick(selection *s, uint64_t key, int64_t i) {
  s->words[s->n++] = key << 32 | (uint64_t)i;
  if (s->n == 2 * s->k + SPARE) shrink_picks(s);
}

static void pick_key(selection *s, uint64_t key, int64_t i) {
  if (s->is_bounded && key >= s->bound) return;
  if (s->k <= FEW)
    insert_pick(s, key, i);
  else
    append_pick(s, key, i);
}

/* -------------------------------------------------------------------- lines */

/* The pieces of all lines. */
typedef struct select_plan {
  int64_t pieces; /* of a line */
  int64_t length; /* of a piece */
  int64_t units;
  int64_t words; /* of the buffers of a unit */
} select_plan;

typedef struct select_args {
  const sort_task *task;
  select_plan plan;
  tn_kernel_body *pass;
  uint64_t *words;  /* buffers */
  sort_pick *picks; /* k of each piece, if a line has several */
  /* If a line has several: */
  int64_t found[MANY * SORT_PIECES];
  uint64_t bound[MANY];
  int is_bounded[MANY];
} select_args;

static int64_t find_most(int64_t a, int64_t b) {
  return a > b ? a : b;
}

static select_plan plan_pieces(const sort_lines *l) {
  select_plan p;
  p.length = find_most(sort_piece_length(l->n), 2 * RATIO * l->k);
  if (l->outer * l->inner >= MANY) p.length = l->n;
  p.pieces = (l->n + p.length - 1) / p.length;
  p.units = l->outer * l->inner * p.pieces;
  if (p.units > UNITS) p.units = UNITS;
  p.words = l->k <= FEW ? 0 : 2 * find_most(2 * l->k + SPARE, SAMPLE);
  return p;
}

/* Picks among n keys; the first has number `first`. */
static void pick_keys(const select_args *a, selection *s,
                      const sort_some_keys *keys, int64_t first, int64_t n) {
  const int is_wide = a->task->keys.bits == 64;
  for (int64_t i = 0; i < n;) {
    select_hits hits = {0, ~(uint64_t)0};
    if (s->is_bounded) {
      const tn_kernel_block rest = {
          n - i,
          &hits,
          {is_wide ? (const void *)(keys->wide + i) : keys->narrow + i}};
      a->pass(&rest, &s->bound);
      i += hits.passed;
      if (hits.bits == 0) hits.bits = ~(uint64_t)0; /* too few for a pass */
    }
    const int64_t end = n - i < AT_ONCE ? n : i + AT_ONCE;
    for (; hits.bits != 0 && i < end; ++i, hits.bits >>= 1) {
      const int zeros = count_zeros(hits.bits);
      i += zeros;
      hits.bits >>= zeros;
      if (i < end)
        pick_key(s, is_wide ? keys->wide[i] : keys->narrow[i], first + i);
    }
    i = end;
  }
}

/* Sets the bound of a selection of more than FEW among n elements of a line: a
 * key that, judged by a sample, more than k elements do not exceed. */
static void guess_bound(const select_args *a, selection *s,
                        const sort_line *line, int64_t n) {
  const int64_t distance = n / SAMPLE;
  const sort_line sample = {line->at, line->step * distance};
  const double share = (double)s->k * SAMPLE / (double)n;
  const int64_t rank = (int64_t)(share + 4 * sqrt(share) + 4);
  sort_some_keys keys;
  s->is_bounded = 0;
  if (s->k <= FEW || n < SAMPLED || rank >= SAMPLE / 2) return;
  for (int64_t i = 0; i < SAMPLE; i += SORT_KEYS) {
    sort_keys_read(&a->task->keys, &sample, i, SORT_KEYS, &keys);
    for (int64_t k = 0; k < SORT_KEYS; ++k)
      s->words[i + k] = (uint64_t)keys.narrow[k] << 32;
  }
  s->bound =
      (sort_words(s->words, s->other, SAMPLE, a->task->keys.bits)[rank] >> 32) +
      1;
  s->is_bounded = s->bound <= UINT32_MAX;
}

/* Finds the picks of elements [begin, end) of a line, in order. */
static void select_piece(const select_args *a, selection *s,
                         const sort_line *line, int64_t begin, int64_t end) {
  sort_some_keys keys;
  s->n = 0;
  for (int64_t i = begin; i < end; i += SORT_KEYS) {
    const int64_t n = end - i < SORT_KEYS ? end - i : SORT_KEYS;
    sort_keys_read(&a->task->keys, line, i, n, &keys);
    pick_keys(a, s, &keys, i, n);
  }
  if (s->k > FEW) shrink_picks(s);
}

/* The same for a whole line. */
static void select_line(const select_args *a, selection *s,
                        const sort_line *line, int64_t n) {
  guess_bound(a, s, line, n);
  select_piece(a, s, line, 0, n);
  if (s->n == s->k) return;
  s->is_bounded = 0;
  select_piece(a, s, line, 0, n);
}

/* Writes the picks of a line of one piece, or of piece `i` of all. */
static void put_picks(const select_args *a, const selection *s, int64_t i) {
  uint64_t numbers[FEW];
  if (a->plan.pieces > 1) {
    sort_pick *to = a->picks + i * s->k;
    for (int64_t r = 0; r < s->n; ++r)
      to[r] = s->k <= FEW ? s->few[r]
                          : (sort_pick){s->words[r] >> 32,
                                        (int64_t)(uint32_t)s->words[r]};
    return;
  }
  for (int64_t r = 0; s->k <= FEW && r < s->n; ++r)
    numbers[r] = (uint64_t)s->few[r].i;
  sort_write_line(a->task, i, s->k <= FEW ? numbers : s->words, 0, s->n);
}

static void use_words(const select_args *a, selection *s, int64_t unit) {
  if (a->plan.words == 0) return;
  s->words = a->words + unit * a->plan.words;
  s->other = s->words + a->plan.words / 2;
}

/* Finds the picks of piece i of all. */
static void select_one(select_args *a, selection *s, int64_t i) {
  const sort_lines *l = &a->task->lines;
  const select_plan *p = &a->plan;
  const int64_t number = i / p->pieces, first = i % p->pieces * p->length;
  const sort_line line = sort_find_line(a->task, number);
  if (p->pieces == 1) {
    select_line(a, s, &line, l->n);
    return;
  }
  s->is_bounded = a->is_bounded[number];
  s->bound = a->bound[number];
  select_piece(a, s, &line, first,
               l->n - first < p->length ? l->n : first + p->length);
  a->found[i] = s->n;
}

static int32_t piece_slice(void *arg, int64_t begin, int64_t end) {
  select_args *a = (select_args *)arg;
  const sort_lines *l = &a->task->lines;
  const select_plan *p = &a->plan;
  const int64_t all = l->outer * l->inner * p->pieces;
  selection s = {.k = l->k, .bits = a->task->keys.bits};
  for (int64_t unit = begin; unit < end; ++unit) {
    const int64_t last = (unit + 1) * all / p->units;
    use_words(a, &s, unit);
    for (int64_t i = unit * all / p->units; i < last; ++i) {
      select_one(a, &s, i);
      put_picks(a, &s, i);
    }
  }
  return TN_OK;
}

/* Merges the picks of the pieces of a line; of equal keys those of the first
 * piece come first. */
static void merge_picks(const select_args *a, int64_t i) {
  const sort_lines *l = &a->task->lines;
  const select_plan *p = &a->plan;
  const sort_pick *picks = a->picks + i * p->pieces * l->k;
  int64_t at[SORT_PIECES] = {0};
  for (int64_t r = 0; r < l->k; ++r) {
    const sort_pick *best = NULL;
    int64_t from = 0;
    for (int64_t k = 0; k < p->pieces; ++k) {
      const sort_pick *next = picks + k * l->k + at[k];
      if (at[k] == a->found[i * p->pieces + k]) continue;
      if (best && next->key >= best->key) continue;
      best = next;
      from = k;
    }
    if (!best) return;
    ++at[from];
    const uint64_t word = (uint64_t)best->i;
    sort_write_line(a->task, i, &word, r, r + 1);
  }
}

/* -------------------------------------------------------------------- calls */

int sort_selects(const sort_lines *l, int64_t bytes) {
  return l->k > 0 && l->k < l->n / RATIO && (bytes < 8 || l->k <= FEW);
}

uint64_t sort_count_selection_bytes(const sort_lines *l) {
  const select_plan p = plan_pieces(l);
  const int64_t picks =
      p.pieces > 1 ? l->outer * l->inner * p.pieces * l->k : 0;
  return sizeof(sort_pick) * (uint64_t)picks +
         sizeof(uint64_t) * (uint64_t)(p.units * p.words);
}

/* Finds the picks of all pieces. Without bounds of samples each line has at
 * least k. */
static int32_t select_pieces(select_args *a, int has_bounds) {
  const sort_task *t = a->task;
  const int64_t lines = t->lines.outer * t->lines.inner;
  selection s = {.k = t->lines.k, .bits = t->keys.bits};
  use_words(a, &s, 0);
  for (int64_t i = 0; a->plan.pieces > 1 && i < lines; ++i) {
    const sort_line line = sort_find_line(t, i);
    s.is_bounded = 0;
    if (has_bounds) guess_bound(a, &s, &line, t->lines.n);
    a->is_bounded[i] = s.is_bounded;
    a->bound[i] = s.bound;
  }
  return t->call->host->parallel_for(t->call, a->plan.units, 1, piece_slice, a);
}

/* Whether a line has fewer than k picks in its pieces. */
static int lacks_picks(const select_args *a) {
  const sort_lines *l = &a->task->lines;
  for (int64_t i = 0; i < l->outer * l->inner; ++i) {
    int64_t found = 0;
    for (int64_t k = 0; k < a->plan.pieces; ++k)
      found += a->found[i * a->plan.pieces + k];
    if (found < l->k) return 1;
  }
  return 0;
}

int32_t sort_run_selection(sort_task *t) {
  static const tn_kernel_bodies narrow = TN_KERNEL_BODIES(pass_32),
                                wide = TN_KERNEL_BODIES(pass_64);
  const sort_lines *l = &t->lines;
  select_args a = {.task = t, .plan = plan_pieces(l)};
  const int64_t all = l->outer * l->inner;
  if (all == 0) return TN_OK;
  a.pass = tn_kernel_body_at(t->keys.bits == 64 ? &wide : &narrow,
                             tn_kernel_level(t->call));
  a.words = (uint64_t *)t->memory;
  if (a.plan.pieces > 1) {
    a.picks = (sort_pick *)t->memory;
    a.words = (uint64_t *)(void *)(a.picks + all * a.plan.pieces * l->k);
  }
  int32_t code = select_pieces(&a, 1);
  if (a.plan.pieces == 1) return code;
  if (code == TN_OK && lacks_picks(&a)) code = select_pieces(&a, 0);
  for (int64_t i = 0; code == TN_OK && i < all; ++i) merge_picks(&a, i);
  return code;
}
