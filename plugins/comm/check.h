/* SPDX-License-Identifier: Apache-2.0
 * check.h: descriptions of calls, which ranks compare.
 */
#ifndef TENON_PLUGINS_COMM_CHECK_H_
#define TENON_PLUGINS_COMM_CHECK_H_

#include "group.h"

enum { COMM_HEADER_TEXT = 296 };

/* A call as other ranks see it. Sent as bytes: no pointers. */
typedef struct comm_header {
  int64_t position;
  uint64_t shapes; /* a hash of element counts */
  int64_t n_elements;
  int32_t kind;
  int32_t op;
  uint32_t dtype;
  int32_t peer;
  uint32_t n;
  uint32_t reserved;
  char text[COMM_HEADER_TEXT];
} comm_header;

/* "comm.all_reduce". Constant. */
const char *comm_kind_name(comm_kind kind);

/* "f32". Constant. */
const char *comm_dtype_name(tn_dtype dtype);

/* Describes a call with its text. */
void comm_header_init(comm_header *header, const comm_task *task);

/* Compares the calls of n ranks. If one differs from that of rank 0, writes the
 * description of both to `why` and returns TN_INVALID. */
int32_t comm_compare(const comm_header *headers, int32_t n,
                     char why[COMM_TEXT]);

/* The same for tasks, without texts unless they differ. */
int32_t comm_compare_tasks(comm_task *const *tasks, int32_t n,
                           char why[COMM_TEXT]);

#endif /* TENON_PLUGINS_COMM_CHECK_H_ */
