/* SPDX-License-Identifier: Apache-2.0
 * later_plugin.h: a plugin with kernels that complete later. The test decides
 * how, when and on which thread. Without Criterion, for the stress tests.
 *
 *   later.twice@1   out = 2*x; x and out dense, in place if possible. The
 * factor is in a workspace, and out is computed at the completion. Its gradient
 * is computed in the same way. later.meet@1    out = 2*x; two calls complete
 * each other later.early@1   calls defer, and its kernel lacks the flag
 *   later.pick@1    out is x, with a shape that compute sets
 *   later.next@1    out = x + 1, at once
 */
#ifndef TESTS_RUNTIME_LATER_PLUGIN_H_
#define TESTS_RUNTIME_LATER_PLUGIN_H_

#include "tenon/tenon.h"

extern const tn_plugin later_plugin;

typedef enum later_mode {
  LATER_KEEP,     /* the call stays in flight until later_complete */
  LATER_AT_ONCE,  /* it is completed before compute returns TN_LATER */
  LATER_OTHER,    /* the same, by another thread */
  LATER_NEVER,    /* compute computes, and returns TN_OK after defer */
  LATER_FAIL,     /* compute fails after defer */
  LATER_NO_TICKET /* compute returns TN_LATER without defer */
} later_mode;

/* The mode of later calls of later.twice. */
void later_set_mode(later_mode mode);

/* Waits until `n` calls are in flight. */
void later_await(int n);
/* Completes the call that has been in flight longest: with TN_OK its output is
 * computed first. */
void later_complete(int32_t code, const char *text);
/* The same, with a text by TN_FAIL. */
void later_complete_failed(int32_t code, const char *text);
/* The result of tn_host.cancelled for that call. */
int32_t later_is_cancelled(void);

/* A thread that completes calls as they come, the newest first, until the stop.
 */
void later_start_helper(void);
void later_stop_helper(void);

#endif /* TESTS_RUNTIME_LATER_PLUGIN_H_ */
