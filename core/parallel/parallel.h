/* SPDX-License-Identifier: Apache-2.0
 * parallel.h: functions that groups and stores share.
 *
 * files: group.c  groups (tenon/comm.h)
 *        store.h  key-value stores (tenon/kvstore.h), with the other files
 */
#ifndef TENON_PARALLEL_H_
#define TENON_PARALLEL_H_

#include <stdbool.h>

#include "tenon/engine.h"
#include "tenon/plugin/comm.h"

#define TN__TRY(call)                 \
  do {                                \
    const tn_code code_ = (call);     \
    if (code_ != TN_OK) return code_; \
  } while (0)

/* Checks an argument of the public function that contains this line. */
#define TN__REQUIRE(argument) \
  TN__TRY(tn__argument_check((argument), __func__, #argument))

/* TN_INVALID if a pointer is NULL. */
tn_code tn__argument_check(const void *argument, const char *function,
                           const char *name);
/* The table of plugin `comm`; TN_NOT_FOUND in the name of a public function. */
tn_code tn__comm_find(tn_runtime *rt, const char *function,
                      const tn_comm **out);
/* Waits for the members of a group. */
tn_code tn__comm_barrier(tn_runtime *rt, const char *group);

#endif /* TENON_PARALLEL_H_ */
