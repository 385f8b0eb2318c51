/* SPDX-License-Identifier: Apache-2.0
 * tenon.h: the host API. Link with -ltenon (pkg-config tenon). Its parts:
 *
 *   common.h     version, errors, texts
 *   runtime.h    runtimes, plugins, devices
 *   operator.h   operators and parameters
 *   array.h      arrays
 *   call.h       eager and prepared calls
 *   tape.h       tapes and gradients
 *
 * Graphs are in graph.h, files in exchange.h. An example:
 *
 *   #include <stdio.h>
 *   #include <tenon/tenon.h>
 *
 *   int main(void) {
 *     const float values[] = {1, 2, 3, 4};
 *     const int64_t shape[] = {2, 2};
 *     float result[4] = {0};
 *     tn_runtime *rt = NULL;
 *     tn_operator *op = NULL;
 *     tn_params *params = NULL;
 *     tn_array *x = NULL, *y = NULL;
 *     tn_code rc = tn_runtime_create(NULL, &rt);
 *     if (!rc) rc = tn_plugins_load_standard(rt);
 *     if (!rc) rc = tn_operator_get(rt, "elemwise.quadratic", &op);
 *     if (!rc) rc = tn_params_parse(op, "a=1 b=2 c=3", &params);
 *     if (!rc) rc = tn_array_create(rt, &(tn_spec){TN_F32, 2, shape}, &x);
 *     if (!rc) rc = tn_array_set(x, values, sizeof values);
 *     if (!rc) rc = tn_call(rt, op, TN_IN(x), params, TN_OUT(&y));
 *     if (!rc) rc = tn_array_get(y, result, sizeof result);
 *     if (rc) fprintf(stderr, "%s\n", tn_error_text());
 *     printf("%g %g %g %g\n", result[0], result[1], result[2], result[3]);
 *     tn_array_release(y), tn_array_release(x), tn_params_release(params);
 *     tn_runtime_release(rt);
 *     return rc ? 1 : 0;
 *   }
 *
 * (It prints `6 11 18 27`; the tests compile and run exactly these lines.)
 *
 * CONVENTIONS
 *
 * Errors. Fallible functions return a tn_code (op.h); TN_OK is 0. The text of
 * the calling thread's last failure is tn_error_text(): the problem, its place,
 * its reason and a remedy. A failed function changes nothing and sets its `out`
 * parameters to NULL.
 *
 * Ownership. create/retain/release are counted. The `out` result of a function
 * that creates, parses, opens or makes a view belongs to the caller. All other
 * results are borrowed, for the time that the comment states. Release functions
 * accept NULL.
 *
 * Threads. Functions tagged [any] may be called from any thread at the same
 * time, also with the same objects; [host-thread] ones from any thread of the
 * application, but not from inside an operator: kernels may use 256 KiB of its
 * stack. Never release an object that another thread still uses.
 *
 * Order. Calls, copies, tn_array_set and tn_array_get on arrays that share
 * memory happen in the order in which they were made, on any threads, each as a
 * whole. Those that share nothing may overlap. A call returns when its work is
 * scheduled; short work may be complete by then. Before you read or write
 * elements through tn_array_tensor, wait (tn_array_wait, tn_array_wait_write).
 *
 * Failures travel. When scheduled work fails, its output arrays carry the
 * error: calls that read them fail with the same text, and so does every wait
 * on them and every tn_array_get, until an operation overwrites the whole
 * array. Adding to it (TN_REQ_ADD) or writing a part of it does not count.
 * Other arrays are not affected. Work that failed before its call returned is
 * reported by the call as well.
 *
 * Runtimes. Several may live in one process; they share nothing. There is no
 * global state but the error text of each thread.
 *
 * Trust. A library host loads nothing by itself: not from the environment, not
 * from the current folder. A plugin is native code with the rights of the
 * process; the loader detects accidents and mismatches, not malice.
 *
 * Compatibility. Within a major version, programs keep compiling and running.
 * Structs that begin with struct_size grow at the end; all others (tn_spec,
 * tn_value, tn_inputs, tn_outputs, tn_range, tn_sig, tn_signature,
 * tn_allocator, tn_memory_limit, tn_place, tn_plugin_info and tn_device_entry)
 * are frozen. */
#ifndef TENON_TENON_H_
#define TENON_TENON_H_

#include "tenon/array.h"
#include "tenon/call.h"
#include "tenon/common.h"
#include "tenon/operator.h"
#include "tenon/plugin/note.h"
#include "tenon/plugin/op.h"
#include "tenon/runtime.h"
#include "tenon/tape.h"

#endif /* TENON_TENON_H_ */
