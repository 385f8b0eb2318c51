/* SPDX-License-Identifier: Apache-2.0
 * bind_results.c: results in arrays of the user: no two of them may be in the
 * same memory.
 */
#include <stdio.h>
#include <stdlib.h>

#include "binding.h"

typedef struct result {
  const tn_array *array;
  uint32_t index; /* of the argument whose gradient it is, or of the head */
  bool is_head;
} result;

static int by_block(const void *a, const void *b) {
  const uintptr_t x = (uintptr_t)((const result *)a)->array->block;
  const uintptr_t y = (uintptr_t)((const result *)b)->array->block;
  return (x > y) - (x < y);
}

static size_t results_list(const tn__binding *b, result *to) {
  const tn_program *p = b->p;
  size_t n = 0;
  for (uint32_t i = 0; i < p->n_arguments + p->n_states; ++i) {
    const tn_array *slope = b->given[i] ? b->given[i]->gradient : NULL;
    if (slope && tn__bind_request(b, i) != TN_REQ_NULL)
      to[n++] = (result){slope, i, false};
  }
  for (uint32_t i = 0; i < b->how->n_outputs; ++i)
    if (b->how->outputs[i]) to[n++] = (result){b->how->outputs[i], i, true};
  return n;
}

static const char *name_of(const tn__binding *b, const result *r,
                           char text[TN__ENTRY_TEXT + 32]) {
  const tn_graph *graph = b->p->graph;
  if (r->is_head)
    (void)snprintf(text, TN__ENTRY_TEXT + 32, "output %u", r->index);
  else
    (void)snprintf(text, TN__ENTRY_TEXT + 32, "the gradient of `%s`",
                   tn__node_at(graph, b->p->arguments[r->index].node)->name);
  return text;
}

static tn_code meeting(const tn__binding *b, const result *x, const result *y) {
  char one[TN__ENTRY_TEXT + 32], other[TN__ENTRY_TEXT + 32];
  return tn__fail(TN_INVALID,
                  "%s and %s are given arrays that share memory, so that one "
                  "would overwrite the other; give each its own",
                  name_of(b, x, one), name_of(b, y, other));
}

tn_code tn__bind_results_check(const tn__binding *b) {
  const tn_program *p = b->p;
  const size_t most =
      (size_t)p->n_arguments + p->n_states + b->how->n_outputs + 1;
  result *list = tn__alloc(p->env, most * sizeof *list);
  if (!list) return tn__fail_memory(most * sizeof *list, "a program");
  const size_t n = results_list(b, list);
  tn_code rc = TN_OK;
  qsort(list, n, sizeof *list, by_block);
  for (size_t i = 0; i < n; ++i)
    for (size_t k = i + 1;
         k < n && rc == TN_OK && list[k].array->block == list[i].array->block;
         ++k)
      if (tn__arrays_meet(list[i].array, list[k].array) != TN__APART)
        rc = meeting(b, &list[i], &list[k]);
  tn__free(p->env, list);
  return rc;
}
