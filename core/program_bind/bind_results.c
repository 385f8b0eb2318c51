/* SPDX-License-Identifier: Apache-2.0
 * bind_results.c: checks the results in arrays of the user. Two results must
 * not share memory, and a gradient must not overwrite entries that are read
 * later.
 */
#include <stdio.h>
#include <stdlib.h>

#include "stations.h"

typedef enum result_what { ARGUMENT, GRADIENT, HEAD } result_what;

typedef struct result {
  const tn_array *array;
  uint32_t index; /* number of the argument or head */
  result_what what;
} result;

static int compare_blocks(const void *a, const void *b) {
  const uintptr_t x = (uintptr_t)((const result *)a)->array->block;
  const uintptr_t y = (uintptr_t)((const result *)b)->array->block;
  return (x > y) - (x < y);
}

static size_t list_results(const tn__arguments *arguments,
                           const tn__user_options *options,
                           const tn__requests *requests, result *to) {
  const tn_bind *how = options->how;
  size_t n = 0;
  for (uint32_t i = 0; i < arguments->n + arguments->n_states; ++i) {
    const tn_argument *given = options->arguments[i];
    if (given && given->array) to[n++] = (result){given->array, i, ARGUMENT};
    if (given && given->gradient && requests->by_argument[i] != TN_REQ_NULL)
      to[n++] = (result){given->gradient, i, GRADIENT};
  }
  for (uint32_t i = 0; i < how->n_outputs; ++i)
    if (how->outputs[i]) to[n++] = (result){how->outputs[i], i, HEAD};
  return n;
}

static const char *get_result_name(const tn_graph *graph,
                                   const tn__arguments *arguments,
                                   const result *r,
                                   char text[TN__ENTRY_TEXT + 32]) {
  if (r->what == HEAD) {
    (void)snprintf(text, TN__ENTRY_TEXT + 32, "output %u", r->index);
    return text;
  }
  (void)snprintf(text, TN__ENTRY_TEXT + 32, "%s`%s`",
                 r->what == GRADIENT ? "the gradient of " : "",
                 tn__node_at(graph, arguments->v[r->index].node)->name);
  return text;
}

static tn_code fail_overlap(const tn_graph *graph,
                            const tn__arguments *arguments, const result *x,
                            const result *y) {
  char one[TN__ENTRY_TEXT + 32], other[TN__ENTRY_TEXT + 32];
  return tn__fail(TN_INVALID,
                  "the arrays of %s and %s overlap in memory, so "
                  "that one might overwrite the other; pass "
                  "separate arrays",
                  get_result_name(graph, arguments, x, one),
                  get_result_name(graph, arguments, y, other));
}

/* Tests whether two arrays of the user may share memory. An argument may share
 * memory with an output or an argument, because outputs are written after all
 * reads. */
static bool may_overlap(const result *x, const result *y) {
  return (x->what == ARGUMENT && y->what != GRADIENT) ||
         (y->what == ARGUMENT && x->what != GRADIENT);
}

tn_code tn__bind_results_check(const tn_graph *graph,
                               const tn__arguments *arguments,
                               const tn__user_options *options,
                               const tn__requests *requests) {
  const size_t most = 2 * ((size_t)arguments->n + arguments->n_states) +
                      options->how->n_outputs + 1;
  result *list = tn__alloc(graph->env, most * sizeof *list);
  if (!list) return tn__fail_memory(most * sizeof *list, "a program");
  const size_t n = list_results(arguments, options, requests, list);
  tn_code rc = TN_OK;
  qsort(list, n, sizeof *list, compare_blocks);
  for (size_t i = 0; i < n; ++i)
    for (size_t k = i + 1;
         k < n && rc == TN_OK && list[k].array->block == list[i].array->block;
         ++k)
      if (!may_overlap(&list[i], &list[k]) &&
          tn__arrays_overlap(list[i].array, list[k].array) != TN__DISJOINT)
        rc = fail_overlap(graph, arguments, &list[i], &list[k]);
  tn__free(graph->env, list);
  return rc;
}
