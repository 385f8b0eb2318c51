/* SPDX-License-Identifier: Apache-2.0
 * sort_select.c: finds the first k elements of lines, in order, without a sort
 * of the lines. The key of the last of k known elements is the bound: later
 * elements need a lesser key. A vectorised loop passes over elements that
 * cannot get in. Few picks are kept in order; of many, a buffer is sorted when
 * it is full. Few long lines are cut into pieces, whose picks are merged.
 */
#include "sort_task.h"

enum {
  FEW = 32,    /* picks that are kept in order */
  SPARE = 256, /* more picks of a buffer than twice k */
  MANY = 16,   /* lines that are enough for all threads, so that none is cut */
  UNITS = 64,  /* slices of the pieces, each with its own buffer */
  RATIO = 8,   /* length of a line, at least, divided by k */
  AT_ONCE = 64 /* keys that are compared together */
};

/* ------------------------------------------------------------------- bounds */

/* Sets *out to the number of keys before the first AT_ONCE ones that have a key
 * below the bound, which is `params`. */
#define PASS(name, key)                                                        \
  TN_KERNEL_BODY void name(const tn_kernel_block *block, const void *params) { \
    const key *x = (const key *)block->in[0];                                  \
    const key bound = (key) * (const uint64_t *)params;                        \
    int64_t i = 0;                                                             \
    for (; i + AT_ONCE <= block->n; i += AT_ONCE) {                            \
      int hits = 0;                                                            \
      for (int k = 0; k < AT_ONCE; ++k) hits |= x[i + k] < bound;              \
      if (hits) break;                                                         \
    }                                                                          \
    *(int64_t *)block->out = i;                                                \
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
  int64_t k, n; /* wanted; found */
  int is_full;
  int32_t bits;   /* of a key */
  uint64_t bound; /* if it is full */
  sort_pick few[FEW];
  uint64_t *words, *other; /* more than FEW are in words */
} selection;

/* Puts a pick into its place; equal keys keep their order. */
static void insert_pick(selection *s, uint64_t key, int64_t i) {
  int64_t at = s->n < s->k ? s->n++ : s->k - 1;
  for (; at > 0 && s->few[at - 1].key > key; --at) s->few[at] = s->few[at - 1];
  s->few[at] = (sort_pick){key, i};
  s->is_full = s->n == s->k;
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
  s->is_full = 1;
  s->bound = s->words[s->k - 1] >> 32;
}

static void append_pick(selection *s, uint64_t key, int64_t i) {
  s->words[s->n++] = key << 32 | (uint64_t)i;
  if (s->n == 2 * s->k + SPARE) shrink_picks(s);
}

static void pick_key(selection *s, uint64_t key, int64_t i) {
  if (s->is_full && key >= s->bound) return;
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
  p.words = l->k <= FEW ? 0 : 2 * (2 * l->k + SPARE);
  return p;
}

/* Picks among n keys; the first has number `first`. */
static void pick_keys(const select_args *a, selection *s,
                      const sort_some_keys *keys, int64_t first, int64_t n) {
  const int is_wide = a->task->keys.bits == 64;
  for (int64_t i = 0; i < n;) {
    if (s->is_full) {
      int64_t passed;
      const tn_kernel_block rest = {
          n - i,
          &passed,
          {is_wide ? (const void *)(keys->wide + i) : keys->narrow + i}};
      a->pass(&rest, &s->bound);
      i += passed;
    }
    const int64_t end = n - i < AT_ONCE ? n : i + AT_ONCE;
    for (; i < end; ++i)
      pick_key(s, is_wide ? keys->wide[i] : keys->narrow[i], first + i);
  }
}

/* Finds the picks of elements [begin, end) of a line, in order. */
static void select_piece(const select_args *a, selection *s,
                         const sort_line *line, int64_t begin, int64_t end) {
  sort_some_keys keys;
  s->n = 0;
  s->is_full = 0;
  s->bits = a->task->keys.bits;
  for (int64_t i = begin; i < end; i += SORT_KEYS) {
    const int64_t n = end - i < SORT_KEYS ? end - i : SORT_KEYS;
    sort_keys_read(&a->task->keys, line, i, n, &keys);
    pick_keys(a, s, &keys, i, n);
  }
  if (s->k > FEW) shrink_picks(s);
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

static int32_t piece_slice(void *arg, int64_t begin, int64_t end) {
  const select_args *a = (const select_args *)arg;
  const sort_lines *l = &a->task->lines;
  const select_plan *p = &a->plan;
  const int64_t all = l->outer * l->inner * p->pieces;
  selection s = {.k = l->k};
  for (int64_t unit = begin; unit < end; ++unit) {
    const int64_t last = (unit + 1) * all / p->units;
    if (p->words > 0) {
      s.words = a->words + unit * p->words;
      s.other = s.words + p->words / 2;
    }
    for (int64_t i = unit * all / p->units; i < last; ++i) {
      const sort_line line = sort_find_line(a->task, i / p->pieces);
      const int64_t first = i % p->pieces * p->length;
      select_piece(a, &s, &line, first,
                   l->n - first < p->length ? l->n : first + p->length);
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
      const int64_t left = l->n - k * p->length;
      const sort_pick *next = picks + k * l->k + at[k];
      if (at[k] == (left < l->k ? left : l->k)) continue;
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
  const int32_t code =
      t->call->host->parallel_for(t->call, a.plan.units, 1, piece_slice, &a);
  for (int64_t i = 0; a.plan.pieces > 1 && code == TN_OK && i < all; ++i)
    merge_picks(&a, i);
  return code;
}
