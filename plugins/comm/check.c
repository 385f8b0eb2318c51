/* SPDX-License-Identifier: Apache-2.0
 * check.c: descriptions of calls, which ranks compare.
 */
#include "check.h"

#include <stdio.h>
#include <string.h>

const char *comm_kind_name(comm_kind kind) {
  static const char *const names[] = {
      [COMM_ALL_REDUCE] = "comm.all_reduce",
      [COMM_REDUCE_SCATTER] = "comm.reduce_scatter",
      [COMM_REDUCE] = "comm.reduce",
      [COMM_ALL_GATHER] = "comm.all_gather",
      [COMM_BROADCAST] = "comm.broadcast",
      [COMM_ALL_TO_ALL] = "comm.all_to_all",
      [COMM_BARRIER] = "comm.barrier",
      [COMM_SEND] = "comm.send",
      [COMM_RECV] = "comm.recv"};
  return names[kind];
}

const char *comm_dtype_name(tn_dtype dtype) {
  switch (dtype) {
    case TN_F16:
      return "f16";
    case TN_BF16:
      return "bf16";
    case TN_F32:
      return "f32";
    case TN_F64:
      return "f64";
    case TN_I8:
      return "i8";
    case TN_U8:
      return "u8";
    case TN_I16:
      return "i16";
    case TN_U16:
      return "u16";
    case TN_I32:
      return "i32";
    case TN_U32:
      return "u32";
    case TN_I64:
      return "i64";
    case TN_U64:
      return "u64";
    default:
      return "bool";
  }
}

/* Adds text to a description, as far as there is room. */
#define ADD(...)                                                        \
  do {                                                                  \
    if (n < COMM_HEADER_TEXT)                                           \
      n += (size_t)snprintf(to + n, COMM_HEADER_TEXT - n, __VA_ARGS__); \
  } while (0)

/* Describes a call: "comm.all_reduce op=sum of f32 (2,3), ...". */
static void describe_task(char to[COMM_HEADER_TEXT], const comm_task *task) {
  static const char *const ops[] = {"sum", "max", "min", "mean", "prod"};
  const int root = task->kind == COMM_REDUCE || task->kind == COMM_BROADCAST;
  size_t n = 0;
  ADD("%s", comm_kind_name(task->kind));
  if (task->kind <= COMM_REDUCE) ADD(" op=%s", ops[task->op]);
  if (root) ADD(" root=%d", (int)task->peer);
  if (task->kind == COMM_BARRIER) return;
  ADD(" of %s", comm_dtype_name(task->dtype));
  for (uint32_t k = 0; k < task->n; ++k) {
    const tn_tensor *t = &task->call->in[k];
    ADD("%s (", k ? "," : "");
    for (int32_t d = 0; d < t->ndim; ++d)
      ADD("%s%lld", d ? "," : "", (long long)t->shape[d]);
    ADD(")");
  }
}
#undef ADD

/* Everything but the text. */
static void fill_numbers(comm_header *header, const comm_task *task) {
  uint64_t hash = 1469598103934665603ull; /* FNV-1a */
  memset(header, 0, sizeof *header);
  header->position = task->position;
  header->kind = (int32_t)task->kind;
  header->op = task->kind <= COMM_REDUCE ? (int32_t)task->op : 0;
  header->dtype = task->dtype;
  header->peer = task->peer;
  header->n = task->n;
  for (uint32_t k = 0; k < task->n; ++k) {
    header->n_elements += task->pieces[k].n_in;
    hash = (hash ^ (uint64_t)task->pieces[k].n_in) * 1099511628211ull;
  }
  header->shapes = hash;
}

void comm_header_init(comm_header *header, const comm_task *task) {
  fill_numbers(header, task);
  describe_task(header->text, task);
}

static int is_equal(const comm_header *a, const comm_header *b) {
  return a->position == b->position && a->shapes == b->shapes &&
         a->n_elements == b->n_elements && a->kind == b->kind &&
         a->op == b->op && a->dtype == b->dtype && a->peer == b->peer &&
         a->n == b->n;
}

static int32_t report_difference(const comm_header *a, const comm_header *b,
                                 int32_t rank, char why[COMM_TEXT]) {
  (void)snprintf(why, COMM_TEXT,
                 "ranks make different calls: rank 0 %.180s (call %lld), rank "
                 "%d %.180s (call %lld)",
                 a->text, (long long)a->position, (int)rank, b->text,
                 (long long)b->position);
  return TN_INVALID;
}

int32_t comm_compare(const comm_header *headers, int32_t n,
                     char why[COMM_TEXT]) {
  for (int32_t r = 1; r < n; ++r)
    if (!is_equal(&headers[0], &headers[r]))
      return report_difference(&headers[0], &headers[r], r, why);
  return TN_OK;
}

int32_t comm_compare_tasks(comm_task *const *tasks, int32_t n,
                           char why[COMM_TEXT]) {
  comm_header first, other;
  fill_numbers(&first, tasks[0]);
  for (int32_t r = 1; r < n; ++r) {
    fill_numbers(&other, tasks[r]);
    if (is_equal(&first, &other)) continue;
    comm_header_init(&first, tasks[0]);
    comm_header_init(&other, tasks[r]);
    return report_difference(&first, &other, r, why);
  }
  return TN_OK;
}
