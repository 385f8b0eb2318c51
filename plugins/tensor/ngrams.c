/* SPDX-License-Identifier: Apache-2.0
 * ngrams.c: ngrams.yaml. The n-grams are in a hash table, in which each place
 * of a row is looked up. Rows are the unit of work.
 */
#include "ngrams.gen.h"

#include <string.h>

#include "tenon/kernel/kernel.h"

enum { MOST_NGRAMS = 1 << 30 };

typedef struct ngram_work {
  const tn_tensor *data;
  const tn_tensor *ngrams;
  int64_t *out;
  int64_t columns; /* numbers of a row */
  int64_t n_ngrams;
  int64_t length; /* numbers of an n-gram */
  int64_t max_skip;
  uint32_t *table; /* 1 more than the number of an n-gram; 0: a free slot */
  uint32_t *first; /* first n-gram that is equal, for each n-gram */
  uint64_t mask;   /* slots of the table, less 1 */
} ngram_work;

/* A sequence of numbers, `step` places apart. */
typedef struct sequence {
  const tn_tensor *from;
  int64_t at;
  int64_t step;
} sequence;

static int64_t read_number(const sequence *s, int64_t i) {
  const int64_t at = s->at + i * s->step;
  return s->from->dtype == TN_I32 ? ((const int32_t *)s->from->data)[at]
                                  : ((const int64_t *)s->from->data)[at];
}

/* Returns the number of slots for n n-grams: a power of two, at most half of
 * them in use. */
static uint64_t count_slots(int64_t n) {
  uint64_t slots = 2;
  while (slots < 2 * (uint64_t)n) slots *= 2;
  return slots;
}

static uint64_t hash_sequence(const ngram_work *w, const sequence *s) {
  uint64_t hash = 0;
  for (int64_t i = 0; i < w->length; ++i) {
    hash = (hash ^ (uint64_t)read_number(s, i)) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
  }
  return hash;
}

/* Returns whether a sequence is n-gram number `ngram`. */
static int is_ngram(const ngram_work *w, const sequence *s, int64_t ngram) {
  const sequence other = {w->ngrams, ngram * w->length, 1};
  for (int64_t i = 0; i < w->length; ++i)
    if (read_number(s, i) != read_number(&other, i)) return 0;
  return 1;
}

/* Returns the slot of a sequence: that of an equal n-gram, or a free one. */
static uint32_t *find_slot(const ngram_work *w, const sequence *s) {
  uint64_t at = hash_sequence(w, s) & w->mask;
  while (w->table[at] != 0 && !is_ngram(w, s, w->table[at] - 1))
    at = (at + 1) & w->mask;
  return &w->table[at];
}

static void fill_table(const ngram_work *w) {
  memset(w->table, 0, (w->mask + 1) * sizeof *w->table);
  for (int64_t g = 0; g < w->n_ngrams; ++g) {
    uint32_t *slot = find_slot(w, &(sequence){w->ngrams, g * w->length, 1});
    if (*slot == 0) *slot = (uint32_t)g + 1;
    w->first[g] = *slot - 1;
  }
}

/* Counts the n-grams of one row whose numbers are `step` places apart. */
static void count_step(const ngram_work *w, int64_t row, int64_t step) {
  const int64_t places = w->columns - (w->length - 1) * step;
  int64_t *counts = w->out + row * w->n_ngrams;
  for (int64_t i = 0; i < places; ++i) {
    const uint32_t *slot =
        find_slot(w, &(sequence){w->data, row * w->columns + i, step});
    if (*slot != 0) ++counts[*slot - 1];
  }
}

/* Counts rows [begin, end). */
static int32_t count_rows(void *arg, int64_t begin, int64_t end) {
  const ngram_work *w = arg;
  for (int64_t row = begin; row < end; ++row) {
    int64_t *counts = w->out + row * w->n_ngrams;
    memset(counts, 0, (size_t)w->n_ngrams * sizeof *counts);
    count_step(w, row, 1);
    for (int64_t skip = 1; w->length > 1 && skip <= w->max_skip; ++skip) {
      if (skip >= (w->columns - 1) / (w->length - 1)) break;
      count_step(w, row, skip + 1);
    }
    for (int64_t g = 0; g < w->n_ngrams; ++g) counts[g] = counts[w->first[g]];
  }
  return TN_OK;
}

/* Sets *bytes to the size of the workspace. */
int32_t tensor_count_ngrams_bytes(const tn_frame *call, uint64_t *bytes) {
  const int64_t n = call->in[TENSOR_COUNT_NGRAMS_IN_NGRAMS].shape[0];
  *bytes = 0;
  if (n <= MOST_NGRAMS)
    *bytes = (count_slots(n) + (uint64_t)n) * sizeof(uint32_t);
  return TN_OK;
}

int32_t tensor_count_ngrams(const tn_frame *call) {
  const tn_tensor *data = &call->in[TENSOR_COUNT_NGRAMS_IN_DATA];
  const tn_tensor *ngrams = &call->in[TENSOR_COUNT_NGRAMS_IN_NGRAMS];
  const tn_tensor *out = &call->out[TENSOR_COUNT_NGRAMS_OUT_OUT];
  ngram_work w = {.data = data,
                  .ngrams = ngrams,
                  .out = out->data,
                  .columns = data->shape[data->ndim - 1],
                  .n_ngrams = ngrams->shape[0],
                  .length = ngrams->shape[1],
                  .max_skip = tensor_count_ngrams_params_of(call)->max_skip};
  if (w.n_ngrams > MOST_NGRAMS)
    return TN_FAIL(call, TN_OUT_OF_RANGE,
                   "`ngrams` has %lld rows, but at most %d are supported; "
                   "divide them",
                   (long long)w.n_ngrams, MOST_NGRAMS);
  if (tn_tensor_size(out) == 0) return TN_OK;
  w.mask = count_slots(w.n_ngrams) - 1;
  w.table = call->ws[0];
  w.first = w.table + w.mask + 1;
  fill_table(&w);
  const int64_t rows = tn_tensor_size(out) / w.n_ngrams;
  const int64_t cost = 1 + w.columns * w.length + w.n_ngrams;
  if (rows * cost <= TN_KERNEL_GRAIN) return count_rows(&w, 0, rows);
  return call->host->parallel_for(call, rows, 1 + TN_KERNEL_GRAIN / cost,
                                  count_rows, &w);
}
