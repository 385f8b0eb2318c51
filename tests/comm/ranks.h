/* SPDX-License-Identifier: Apache-2.0
 * ranks.h: cases that the ranks of a group run together, as threads of this
 * process or as processes of mpirun. A case returns NULL, or a text about its
 * failure. Criterion's assertions work on the main thread only.
 */
#ifndef TENON_TESTS_COMM_RANKS_H_
#define TENON_TESTS_COMM_RANKS_H_

#include <stdio.h>
#include <string.h>

#include "tenon/plugin/comm.h"
#include "tenon/tenon.h"

/* One rank in a case. */
typedef struct member {
  tn_runtime *rt;
  const tn_comm *comm;
  tn_comm_group world;
  int32_t rank, size;
  int is_local;
  const struct test_case *test;
  char text[3000]; /* of a failure */
} member;

typedef const char *case_fn(member *me);

typedef struct test_case {
  const char *name;
  case_fn *run;
  int local_only;
  int breaks; /* MPI may not end properly afterwards */
  uint32_t check;
  uint32_t timeout_ms; /* 0: a minute */
} test_case;

extern const test_case reduce_cases[], exchange_cases[], failure_cases[],
    tape_cases[], graph_cases[];

/* Returns a failure from a case. */
#define FAIL(...) \
  return (snprintf(me->text, sizeof me->text, __VA_ARGS__), me->text)

/* The library's call must return TN_OK. */
#define OK(call)                                                         \
  do {                                                                   \
    const tn_code ok_code = (call);                                      \
    if (ok_code != TN_OK)                                                \
      FAIL("line %d: %s returned %d: %s", __LINE__, #call, (int)ok_code, \
           tn_error_text());                                             \
  } while (0)

#define HOLDS(condition)                                             \
  do {                                                               \
    if (!(condition)) FAIL("line %d: not %s", __LINE__, #condition); \
  } while (0)

/* A helper that returns NULL or a failure. */
#define TRY(call)                  \
  do {                             \
    const char *try_text = (call); \
    if (try_text) return try_text; \
  } while (0)

/* The call must return `code`, and its text must contain `part`. */
#define FAILS(call, code, part)                                        \
  do {                                                                 \
    const tn_code fails_code = (call);                                 \
    if (fails_code != (code) || !strstr(tn_error_text(), (part)))      \
      FAIL("line %d: %s returned %d, not %d; its text lacks `%s`: %s", \
           __LINE__, #call, (int)fails_code, (int)(code), (part),      \
           tn_error_text());                                           \
  } while (0)

/* The device of the arrays of this rank. */
tn_place get_place(member *me);
int on_cuda(void);

/* A new array of these numbers, converted by the library. NULL on failure. */
tn_array *make_array(member *me, tn_dtype dtype, int32_t ndim,
                     const int64_t *shape, const double *values);
tn_array *make_vector(member *me, tn_dtype dtype, int64_t n,
                      const double *values);

/* Compares all elements; NULL, or a failure. */
const char *expect(member *me, tn_array *array, const double *values, int64_t n,
                   double tolerance);

/* Runs an operator with one input or none (NULL), and one output. */
tn_code call_one(member *me, const char *op, const char *params, tn_array *in,
                 tn_array **out);

/* Runs an operator with n inputs and n outputs. */
tn_code call_many(member *me, const char *op, const char *params, size_t n,
                  tn_array *const *in, tn_array **out);

/* Waits for all ranks in another group, before a member leaves. */
const char *meet(member *me);

#endif /* TENON_TESTS_COMM_RANKS_H_ */
