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

#define TN__REQUIRE_ARGUMENT(argument)                                      \
  do {                                                                      \
    if (!(argument))                                                        \
      return tn_fail(TN_INVALID, "%s: the argument `%s` is NULL", __func__, \
                     #argument);                                            \
  } while (0)

#define TN__TRY_CODE(call)            \
  do {                                \
    const tn_code code_ = (call);     \
    if (code_ != TN_OK) return code_; \
  } while (0)

/* The table of plugin `comm`; TN_NOT_FOUND in the name of a public function. */
tn_code tn__comm_find(tn_runtime *rt, const char *function,
                      const tn_comm **out);
/* Waits for the members of a group. */
tn_code tn__comm_barrier(tn_runtime *rt, const char *group);

#endif /* TENON_PARALLEL_H_ */
