/* SPDX-License-Identifier: Apache-2.0
 * comm.h: groups of processes, or of runtimes in one process, that compute
 * together. Library libtenon-parallel.so; the operators are those of plugin
 * `comm`.
 *
 * Each member of a group has a *rank* from 0 to size - 1. All members call the
 * same operators in the same order:
 *
 *   // mpirun -n 4 ./program
 *   tn_rank_group *world = NULL;
 *   tn_operator *reduce = NULL;
 *   tn_array *sum = NULL;
 *   tn_code rc = tn_group_join(rt, NULL, &world);
 *   if (!rc) rc = tn_operator_get(rt, "comm.all_reduce", &reduce);
 *   if (!rc) rc = tn_call(rt, reduce, TN_IN(gradient), NULL, TN_OUT(&sum));
 *   // ...
 *   tn_array_release(sum);
 *   tn_group_release(world);
 *
 * A collective call is an operation of the engine like any other. It begins
 * when its inputs and the collective calls before it are complete, and no
 * thread waits for it. So computation that does not need its result goes on
 * meanwhile.
 *
 * ORDER. The collective calls of one runtime run one after the other, in the
 * order in which they were pushed, also those of different groups. All ranks
 * must push the calls of a group in the same order, with the same types and
 * sizes. A program runs them in the order of its steps, which is the same for
 * equal graphs. With `check`, ranks compare their calls before they exchange
 * data, and a difference is an error on all ranks that describes both calls.
 * Without it the result of a difference is not defined.
 *
 * FAILURES. If the input of a collective call carries an error, or a call fails
 * or ends after `timeout_ms`, the ranks may no longer agree. So the group is
 * then *broken* on this rank: the outputs of its pending and later calls carry
 * an error with group, rank and operator. Arrays of other groups and of other
 * operators are not affected. MPI itself cannot replace a process that ended:
 * most implementations of mpirun end all others.
 */
#ifndef TENON_COMM_H_
#define TENON_COMM_H_

#include "tenon/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A group that a runtime is a member of. */
typedef struct tn_rank_group tn_rank_group;

/* How to join. The host sets struct_size; zeros are the defaults. */
typedef struct tn_group_options {
  uint32_t struct_size; /* sizeof(tn_group_options) */
  uint32_t check;       /* 1: compare each call with those of other ranks */
  uint32_t timeout_ms;  /* of a call, from its begin; 0: five minutes */
  int32_t rank;         /* of "local" */
  int32_t size;         /* of "local"; 0: 1 */
  uint32_t reserved;
  const char *name;    /* NULL: "world", which operators use by default */
  const char *backend; /* "mpi": the processes that mpirun started. "local":
                          runtimes of one process. NULL: "mpi" in a process
                          that mpirun started, otherwise "local" */
  const char *session; /* "local": members with the same text meet; NULL: the
                          group's name */
} tn_group_options;

/* Joins a group, and waits for all other members, at most timeout_ms. The
 * plugin `comm` must be loaded. `options` may be NULL. The caller releases
 * *out. TN_EXISTS: the runtime has had a group of this name; TN_UNSUPPORTED:
 * the backend cannot start, with the reason; TN_BUSY after timeout_ms.
 * [host-thread] */
TN_API TN_MUST_USE tn_code tn_group_join(tn_runtime *rt,
                                         const tn_group_options *options,
                                         tn_rank_group **out);

/* Divides a group. Members that pass the same `colour` form a new group, with
 * ranks in the order of `key`, then of their old ranks. A member with a colour
 * below 0 joins none: *out is NULL. All members call it, with the same name.
 * The caller releases *out. [host-thread] */
TN_API TN_MUST_USE tn_code tn_group_split(tn_rank_group *group, int32_t colour,
                                          int32_t key, const char *name,
                                          tn_rank_group **out);

/* Properties of a group. Borrowed until it is released. [any] */
TN_API const char *tn_group_name(const tn_rank_group *group);
TN_API int32_t tn_group_rank(const tn_rank_group *group);
TN_API int32_t tn_group_size(const tn_rank_group *group);

/* Waits until all members have called it, and until their collective calls
 * before it are complete. [host-thread] */
TN_API TN_MUST_USE tn_code tn_group_barrier(tn_rank_group *group);

/* Leaves the group. Calls that have not ended fail with TN_BUSY. NULL is
 * allowed. [host-thread] */
TN_API void tn_group_release(tn_rank_group *group);

/* Writes the backends to `to`, one line each: the name, and its release or the
 * reason that it cannot start here. The text is cut to `bytes`, with the NUL;
 * *length receives the length of the whole text, unless `length` is NULL.
 * [host-thread] */
TN_API TN_MUST_USE tn_code tn_comm_describe(tn_runtime *rt, char *to,
                                            size_t bytes, size_t *length);

#ifdef __cplusplus
}
#endif
#endif /* TENON_COMM_H_ */
