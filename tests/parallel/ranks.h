/* SPDX-License-Identifier: Apache-2.0
 * ranks.h: runs a case on the ranks of a group, each a thread with a runtime of
 * its own. Criterion's assertions work on the main thread alone, so a case
 * returns NULL or a text about its failure.
 */
#ifndef TESTS_PARALLEL_RANKS_H_
#define TESTS_PARALLEL_RANKS_H_

#include <stdio.h>

#include "fixture.h"
#include "tenon/comm.h"

enum { MOST_RANKS = 4 };

/* One rank in a case. */
typedef struct member {
  tn_runtime *rt;
  tn_rank_group *world;
  int32_t rank, size;
  meter memory;
  const char *(*run)(struct member *me);
  const char *failure;
  char text[2000];
} member;

typedef struct store_case {
  const char *name;
  const char *(*run)(member *me);
  bool waits;  /* its jobs wait for each other: not in the naive engine */
  bool breaks; /* its group is broken at the end */
} store_case;

extern const store_case store_cases[]; /* up to one without a name */

/* Runs a case with 1, 2 and 4 ranks, and with 2 in each engine. The test fails
 * if one rank fails. */
void run_ranks(const char *(*run)(member *me));
/* The same without the naive engine, for jobs that wait for each other. */
void run_ranks_at_once(const char *(*run)(member *me));

#define RANK_FAIL(...) \
  return (snprintf(me->text, sizeof me->text, __VA_ARGS__), me->text)

/* The library's call must return TN_OK. */
#define RANK_OK(call)                                                 \
  do {                                                                \
    const tn_code ok_code = (call);                                   \
    if (ok_code != TN_OK)                                             \
      RANK_FAIL("line %d: %s: %s", __LINE__, #call, tn_error_text()); \
  } while (0)

#define RANK_HOLDS(condition) \
  if (!(condition)) RANK_FAIL("line %d: not %s", __LINE__, #condition)

/* The call must return `code`, and its text must have `part`. */
#define RANK_FAILS(call, code, part)                        \
  if ((call) != (code) || !strstr(tn_error_text(), (part))) \
  RANK_FAIL("line %d: %s: %s", __LINE__, #call, tn_error_text())

/* A helper that returns NULL or a failure. */
#define RANK_TRY(call)             \
  do {                             \
    const char *try_text = (call); \
    if (try_text) return try_text; \
  } while (0)

/* A dense array of `n` equal numbers of a type. NULL on failure. */
tn_array *fill_vector(member *me, tn_dtype dtype, int64_t n, double number);
/* Pulls a key into a new array of n elements, and compares all of them. */
const char *compare_pulled(member *me, tn_kvstore *kv, tn_key key,
                           const tn_spec *spec, double number);

#endif /* TESTS_PARALLEL_RANKS_H_ */
