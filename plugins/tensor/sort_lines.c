/* SPDX-License-Identifier: Apache-2.0
 * sort_lines.c: sorts all lines of an array on the CPU. Up to COLUMNS adjacent
 * lines are a group, so that each cache line of data is read once. A thread
 * sorts whole groups; all threads sort a long line together.
 */
#include "sort_task.h"

enum {
  COLUMNS = 16,
  UNITS = 64,      /* slices of the groups, each with its own memory */
  WORDS = 1 << 20, /* number of words of all units, unless one needs more */
  LEAST = 4096     /* elements of a unit, if there are enough */
};

int32_t sort_task_init(sort_task *t, const tn_frame *call,
                       const sort_lines *lines) {
  memset(t, 0, sizeof *t);
  t->call = call;
  t->lines = *lines;
  t->data = &call->in[0];
  t->memory = call->n_ws > 0 ? call->ws[0] : NULL;
  sort_keys_init(&t->keys, call, t->data->dtype, lines->descending);
  if (lines->n <= UINT32_MAX) return TN_OK;
  return TN_FAIL(call, TN_UNSUPPORTED,
                 "lines of %lld elements are too long to be sorted; at most "
                 "%lld are possible: sort parts of them",
                 (long long)lines->n, (long long)UINT32_MAX);
}

sort_line sort_find_line(const sort_task *t, int64_t i) {
  const sort_lines *l = &t->lines;
  const int64_t first = i / l->inner * l->n * l->inner + i % l->inner;
  return (sort_line){(const char *)t->data->data + first * t->keys.bytes,
                     l->inner};
}

/* ------------------------------------------------------------------ results */

/* Elements of a line that are written together. */
typedef struct result_part {
  const sort_line *line;
  const uint64_t *words;
  char *to;
  int64_t to_step;
  int64_t n;
} result_part;

#define COPY(type)                                                    \
  do {                                                                \
    const type *from = (const type *)(const void *)part->line->at;    \
    type *to = (type *)(void *)part->to;                              \
    for (int64_t r = 0; r < part->n; ++r)                             \
      to[r * part->to_step] =                                         \
          from[(int64_t)(uint32_t)part->words[r] * part->line->step]; \
  } while (0)

static void copy_values(const result_part *part, int64_t bytes) {
  if (bytes == 1) COPY(uint8_t);
  if (bytes == 2) COPY(uint16_t);
  if (bytes == 4) COPY(uint32_t);
  if (bytes == 8) COPY(uint64_t);
}

void sort_write_line(const sort_task *t, int64_t i, const uint64_t *words,
                     int64_t begin, int64_t end) {
  const sort_lines *l = &t->lines;
  const sort_line line = sort_find_line(t, i);
  const int64_t outer = i / l->inner, column = i % l->inner, n = end - begin;
  const int64_t first = (outer * l->k + begin) * l->inner + column;
  if (t->values) {
    const result_part part = {&line, words, t->values + first * t->keys.bytes,
                              l->inner, n};
    copy_values(&part, t->keys.bytes);
  }
  for (int64_t r = 0; t->places && r < n; ++r)
    t->places[first + r * l->inner] = (uint32_t)words[r];
  for (int64_t r = 0; t->mask && r < n; ++r) {
    const int64_t place = outer * l->n + (uint32_t)words[r];
    memcpy(t->mask + (place * l->inner + column) * t->keys.bytes, &t->one,
           (size_t)t->keys.bytes);
  }
}

/* -------------------------------------------------------------------- words */

/* Makes words of n keys from number `first` on; of 64 bits the lower half. */
static void write_words(const sort_task *t, const sort_some_keys *keys,
                        int64_t first, int64_t n, uint64_t *words) {
  if (t->keys.bits == 64)
    for (int64_t i = 0; i < n; ++i)
      words[i] = keys->wide[i] << 32 | (uint64_t)(first + i);
  else
    for (int64_t i = 0; i < n; ++i)
      words[i] = (uint64_t)keys->narrow[i] << 32 | (uint64_t)(first + i);
}

/* Reads elements [begin, end) of a line as words. */
static void read_words(const sort_task *t, const sort_line *line, int64_t begin,
                       int64_t end, uint64_t *words) {
  sort_some_keys keys;
  for (int64_t i = begin; i < end; i += SORT_KEYS) {
    const int64_t n = end - i < SORT_KEYS ? end - i : SORT_KEYS;
    sort_keys_read(&t->keys, line, i, n, &keys);
    write_words(t, &keys, i, n, words + i);
  }
}

/* Replaces the keys of words [begin, end) by the upper halves of the keys of
 * their elements. */
static void raise_words(const sort_task *t, const sort_line *line,
                        int64_t begin, int64_t end, uint64_t *words) {
  sort_some_keys keys;
  for (int64_t i = begin; i < end; i += SORT_KEYS) {
    const int64_t n = end - i < SORT_KEYS ? end - i : SORT_KEYS;
    sort_keys_gather(&t->keys, line, words + i, n, &keys);
    for (int64_t k = 0; k < n; ++k)
      words[i + k] = keys.wide[k] >> 32 << 32 | (uint32_t)words[i + k];
  }
}

/* Reads `width` adjacent lines row by row; a line has n words. */
static void read_columns(const sort_task *t, int64_t first, int64_t width,
                         uint64_t *words) {
  const int64_t n = t->lines.n, distance = t->lines.inner * t->keys.bytes;
  const sort_line line = sort_find_line(t, first);
  const int is_wide = t->keys.bits == 64;
  sort_some_keys keys;
  for (int64_t r = 0; r < n; ++r) {
    const sort_line row = {line.at + r * distance, 1};
    sort_keys_read(&t->keys, &row, 0, width, &keys);
    for (int64_t c = 0; c < width; ++c) {
      const uint64_t key = is_wide ? keys.wide[c] : keys.narrow[c];
      words[c * n + r] = key << 32 | (uint64_t)r;
    }
  }
}

/* ------------------------------------------------------------------- groups */

/* The division of the lines. */
typedef struct sort_plan {
  int64_t width;  /* lines of a group, the last one of a block may have less */
  int64_t blocks; /* groups of adjacent lines */
  int64_t groups;
  int64_t units;
  int64_t words; /* of a unit */
} sort_plan;

typedef struct group_args {
  const sort_task *task;
  sort_plan plan;
  uint64_t *words;
} group_args;

static int64_t find_least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static sort_plan plan_groups(const sort_lines *l) {
  sort_plan p;
  p.width = find_least(l->inner, COLUMNS);
  p.blocks = (l->inner + p.width - 1) / p.width;
  p.groups = l->outer * p.blocks;
  p.words = (p.width + 1) * l->n;
  const int64_t size = l->outer * l->n * l->inner;
  p.units = find_least(p.groups, find_least(UNITS, WORDS / p.words + 1));
  p.units = find_least(p.units, size / LEAST + 1);
  return p;
}

static void sort_group(const group_args *a, int64_t group, uint64_t *words) {
  const sort_task *t = a->task;
  const sort_lines *l = &t->lines;
  const int64_t column = group % a->plan.blocks * a->plan.width;
  const int64_t first = group / a->plan.blocks * l->inner + column;
  const int64_t width = find_least(a->plan.width, l->inner - column);
  const int32_t bits = t->keys.bits < 32 ? t->keys.bits : 32;
  uint64_t *other = words + a->plan.width * l->n;
  for (int64_t c = 0; c < width; ++c) {
    uint64_t *own = words + c * l->n;
    const sort_line line = sort_find_line(t, first + c);
    if (width == 1)
      read_words(t, &line, 0, l->n, own);
    else if (c == 0)
      read_columns(t, first, width, words);
    uint64_t *sorted = sort_words(own, other, l->n, bits);
    if (t->keys.bits == 64) {
      raise_words(t, &line, 0, l->n, sorted);
      sorted = sort_words(sorted, sorted == own ? other : own, l->n, bits);
    }
    sort_write_line(t, first + c, sorted, 0, l->k);
  }
}

static int32_t group_slice(void *arg, int64_t begin, int64_t end) {
  const group_args *a = (const group_args *)arg;
  const sort_plan *p = &a->plan;
  for (int64_t unit = begin; unit < end; ++unit) {
    const int64_t last = (unit + 1) * p->groups / p->units;
    for (int64_t g = unit * p->groups / p->units; g < last; ++g)
      sort_group(a, g, a->words + unit * p->words);
  }
  return TN_OK;
}

/* --------------------------------------------------------------- long lines */

/* A line that all threads sort. */
typedef struct long_line {
  const sort_task *task;
  int64_t i;
  sort_line line;
  uint64_t *words;
} long_line;

static int32_t read_slice(void *arg, int64_t begin, int64_t end) {
  const long_line *a = (const long_line *)arg;
  read_words(a->task, &a->line, begin, end, a->words);
  return TN_OK;
}

static int32_t raise_slice(void *arg, int64_t begin, int64_t end) {
  const long_line *a = (const long_line *)arg;
  raise_words(a->task, &a->line, begin, end, a->words);
  return TN_OK;
}

static int32_t write_slice(void *arg, int64_t begin, int64_t end) {
  const long_line *a = (const long_line *)arg;
  sort_write_line(a->task, a->i, a->words + begin, begin, end);
  return TN_OK;
}

static int32_t run_slices(long_line *a, int64_t n, tn_loop_body *slice) {
  const tn_frame *call = a->task->call;
  return call->host->parallel_for(call, n, SORT_LONG / 4, slice, a);
}

static int32_t sort_long_line(const sort_task *t, int64_t i, sort_room *room) {
  const int64_t n = t->lines.n;
  const int32_t bits = t->keys.bits < 32 ? t->keys.bits : 32;
  long_line a = {t, i, sort_find_line(t, i), room->words};
  int32_t code = run_slices(&a, n, read_slice);
  if (code == TN_OK) code = sort_words_long(t->call, room, n, bits);
  a.words = room->words;
  if (t->keys.bits == 64) {
    if (code == TN_OK) code = run_slices(&a, n, raise_slice);
    if (code == TN_OK) code = sort_words_long(t->call, room, n, bits);
    a.words = room->words;
  }
  return code == TN_OK ? run_slices(&a, t->lines.k, write_slice) : code;
}

static int32_t sort_long_lines(const sort_task *t) {
  const int64_t n = t->lines.n;
  uint64_t *words = (uint64_t *)t->memory;
  sort_room room = {words, words + n,
                    (uint32_t(*)[SORT_DIGITS])(void *)(words + 2 * n)};
  int32_t code = TN_OK;
  for (int64_t i = 0; i < t->lines.outer * t->lines.inner && code == TN_OK; ++i)
    code = sort_long_line(t, i, &room);
  return code;
}

/* -------------------------------------------------------------------- calls */

static int is_empty(const sort_lines *l) {
  return l->outer == 0 || l->n == 0 || l->inner == 0;
}

uint64_t sort_count_bytes(const sort_lines *l) {
  if (is_empty(l)) return 0;
  if (l->n > SORT_LONG)
    return 2 * sizeof(uint64_t) * (uint64_t)l->n +
           sizeof(uint32_t) * SORT_DIGITS * SORT_PIECES;
  const sort_plan p = plan_groups(l);
  return sizeof(uint64_t) * (uint64_t)(p.units * p.words);
}

int32_t sort_run(sort_task *t) {
  if (is_empty(&t->lines)) return TN_OK;
  if (t->lines.n > SORT_LONG) return sort_long_lines(t);
  group_args a = {t, plan_groups(&t->lines), (uint64_t *)t->memory};
  return t->call->host->parallel_for(t->call, a.plan.units, 1, group_slice, &a);
}
