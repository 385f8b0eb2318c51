/* SPDX-License-Identifier: Apache-2.0
 * sort_task.h: a call of sort, argsort, topk or topk_mask on the CPU. The
 * results of a line are the numbers of its first elements in order; the
 * requested outputs follow from these.
 */
#ifndef TENSOR_SORT_TASK_H_
#define TENSOR_SORT_TASK_H_

#include "sort.h"
#include "sort_words.h"

typedef struct sort_task {
  const tn_frame *call;
  sort_lines lines;
  sort_keys keys;
  const tn_tensor *data;
  void *memory; /* workspace */
  char *values; /* outputs; NULL if they are not requested */
  int64_t *places;
  char *mask;         /* all zeros at the beginning */
  tensor_element one; /* of the mask */
} sort_task;

/* Initialises a task without outputs; TN_OK, or a code with TN_FAIL. */
int32_t sort_task_init(sort_task *t, const tn_frame *call,
                       const sort_lines *lines);

/* Line number `i` of data: adjacent lines follow each other. [any] */
sort_line sort_find_line(const sort_task *t, int64_t i);

/* Writes results [begin, end) of line i: `words` has those from `begin` on, and
 * the lower halves are the numbers of elements. [worker] */
void sort_write_line(const sort_task *t, int64_t i, const uint64_t *words,
                     int64_t begin, int64_t end);

/* Sorts all lines completely, and the workspace for that. */
int32_t sort_run(sort_task *t);
uint64_t sort_count_bytes(const sort_lines *lines);

/* Finds the first k elements of all lines without a sort, if that is faster,
 * and the workspace for that. */
int sort_selects(const sort_lines *lines, int64_t bytes);
int32_t sort_run_selection(sort_task *t);
uint64_t sort_count_selection_bytes(const sort_lines *lines);

#endif /* TENSOR_SORT_TASK_H_ */
