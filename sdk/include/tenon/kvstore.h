/* SPDX-License-Identifier: Apache-2.0
 * kvstore.h: a store of arrays under keys. Devices push values, the store sums
 * them and updates its array, and devices pull the result. Library
 * libtenon-parallel.so.
 *
 *   #include <stdio.h>
 *   #include <tenon/kvstore.h>
 *   #include <tenon/tenon.h>
 *
 *   int main(void) {
 *     const float ones[] = {1, 1, 1};
 *     float result[3] = {0};
 *     tn_runtime *rt = NULL;
 *     tn_kvstore *kv = NULL;
 *     tn_array *weight = NULL, *a = NULL, *b = NULL;
 *     const tn_spec spec = {TN_F32, 1, (const int64_t[]){3}};
 *     tn_code rc = tn_runtime_create(NULL, &rt);
 *     if (!rc) rc = tn_plugins_load_standard(rt);
 *     if (!rc) rc = tn_array_create(rt, &spec, &weight);
 *     if (!rc) rc = tn_array_create(rt, &spec, &a);
 *     if (!rc) rc = tn_array_create(rt, &spec, &b);
 *     if (!rc) rc = tn_array_set(weight, ones, sizeof ones);
 *     if (!rc) rc = tn_array_set(a, ones, sizeof ones);
 *     if (!rc) rc = tn_array_set(b, ones, sizeof ones);
 *
 *     if (!rc) rc = tn_kvstore_create(rt, "local", NULL, &kv);
 *     if (!rc) rc = tn_kvstore_set_optimizer(kv, "optim.sgd_update", "lr=0.1");
 *     if (!rc) rc = tn_kvstore_init(kv, &TN_KEYED("weight", weight), 1);
 *     if (!rc) rc = tn_kvstore_push(kv, &TN_KEYED("weight", a, b), 1);
 *     if (!rc) rc = tn_kvstore_pull(kv, &TN_KEYED("weight", weight), 1);
 *
 *     if (!rc) rc = tn_array_get(weight, result, sizeof result);
 *     if (rc) fprintf(stderr, "%s\n", tn_error_text());
 *     printf("%g %g %g\n", result[0], result[1], result[2]);
 *     tn_kvstore_release(kv), tn_array_release(b), tn_array_release(a);
 *     tn_array_release(weight), tn_runtime_release(rt);
 *     return rc ? 1 : 0;
 *   }
 *
 * (It prints `0.8 0.8 0.8`; the tests compile and run exactly these lines.)
 *
 * KEYS
 *
 * A key is a text or an integer: "3" and 3 are two keys. tn_kvstore_init gives
 * it its first value, once. Shape and type of a key then never change, and
 * arrays that are pushed or pulled must have the same. A function receives keys
 * and their arrays as a list of tn_keyed, for one key or many.
 *
 * UPDATES
 *
 * A push sums the arrays of each key, also if the key is in the list several
 * times, in the order of the list. Then the *updater* changes the stored value:
 *
 *   none               the sum becomes the value
 *   tn_kvstore_update  a function of the host, which makes calls of operators
 *   an operator        such as optim.adam_update, or elemwise.add. Its inputs
 *                      are the value and the sum, its output is the new value.
 *                      The store creates and keeps its states
 *
 * Sums of several arrays need plugin `tensor`. The store keeps the memory of a
 * key's sum, and of the copies of arrays from other devices, for the next push.
 *
 * ORDER
 *
 * Nothing here waits, except where the comment says so. A push schedules
 * copies, sums and updates in the engine, and a pull schedules copies. So they
 * happen in the order of the calls, together with all other uses of the same
 * arrays: a pull gets the result of the pushes before it, and the next write of
 * a pushed array waits until it was read. Different keys do not wait for each
 * other. Threads may use one store at the same time; each call is one step.
 *
 * Of the keys of one call, those with a higher `priority` are scheduled first:
 * a program that needs the first layer first gives it the highest priority.
 *
 * KINDS
 *
 *   local        stored values are on cpu(0), and the sums are computed there
 *   device       the value of a key stays on the device of the array that
 *                tn_kvstore_init got, and its sums are computed there. Keys on
 *                different devices divide the work
 *   dist_sync    as `device`, and the values are the same on all ranks of a
 *                group (comm.h)
 *   dist_async   each key has an owner, a rank that has its value on cpu(0) and
 *                applies the pushes of all ranks one by one, as they arrive
 *
 * RANKS
 *
 * With dist_sync all ranks call init, push and broadcast in the same order,
 * with the same keys, priorities, shapes and types. A key begins with the value
 * of rank 0. A push sums the arrays of all ranks, and all of them update their
 * value in the same way, so all values stay equal:
 *
 * - Keys of one push share collective calls of at most `bucket_bytes`, in the
 *   order of their priorities. The call of a bucket begins when the arrays of
 *   its keys are complete, so push the gradients of a layer as soon as they are
 *   scheduled, or all in one call with priorities.
 * - Large keys, those of at least `owner_bytes`, have an *owner*: a rank that
 *   receives the sum, updates the value, and sends it to all. Only the owner
 *   computes the update and has the states. Owners are chosen at the init, so
 *   that each rank owns about the same number of bytes. Without an updater
 *   there is nothing to divide, and no key is treated in this way.
 *
 * A pull copies the value of its rank, and sends nothing. The updater must be
 * the same on all ranks, and a function must compute the same on all of them.
 * A call that fails on one rank alone leaves the others waiting; they end with
 * the timeout of the group.
 *
 * With dist_async ranks push and pull independently of each other. A pull gets
 * the value that the owner has then: with the earlier pushes of its rank, and
 * those of others that have arrived. tn_kvstore_barrier waits until the owners
 * have the earlier pushes of all ranks. All ranks create the store, add keys
 * and set the updater in the same order, and wait for each other in these
 * functions; a function as updater is called on threads of the store. A pushed
 * array or an update that fails breaks the store on all ranks: the value of an
 * owner that carries an error cannot be pulled. tn_kvstore_release waits until
 * all ranks have called it, at most as long as a call of the group. A naive
 * engine cannot have such a store.
 *
 * FAILURES
 *
 * A call checks all of its keys and arrays before it schedules anything. If
 * there is no memory later, some of the keys may have been pushed or pulled;
 * the text then names the key that failed.
 *
 * Failures of scheduled work travel as those of calls do (tenon.h). A pushed
 * array with an error leaves the error on the value of its key, and a pull
 * copies it. All other keys of the call are not affected. The next push without
 * an updater clears it; another updater reads the value, so the error stays.
 * Work that failed before the function returned is reported by it as well.
 */
#ifndef TENON_KVSTORE_H_
#define TENON_KVSTORE_H_

#include "tenon/array.h"
#include "tenon/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_kvstore tn_kvstore; /* arrays under keys */

/* A key: a text, or if that is NULL a number. Frozen. */
typedef struct tn_key {
  const char *text;
  int64_t number;
} tn_key;

/* A key of either kind. Borrowed until it is used: the text. [any] */
static inline tn_key tn_key_text(const char *text) {
  tn_key key = {text, 0};
  return key;
}
static inline tn_key tn_key_number(int64_t number) {
  tn_key key = {0, number};
  return key;
}

/* A key and its arrays in a call, which borrows them all. Frozen. */
typedef struct tn_keyed {
  tn_key key;
  tn_array *const *arrays;
  uint32_t n;       /* arrays */
  int32_t priority; /* among the keys of the call, higher first */
} tn_keyed;

#ifndef __cplusplus
/* The tn_key of a text or an integer. */
#define TN_KEY(key) \
  _Generic((key),            \
      char *: tn_key_text,   \
      const char *: tn_key_text, \
      default: tn_key_number)(key)
/* A tn_keyed with priority 0: a text or an integer, and the arrays. */
#define TN_KEYED(key, ...)                                                   \
  ((tn_keyed){TN_KEY(key), (tn_array *const[]){__VA_ARGS__},                 \
              sizeof((tn_array *const[]){__VA_ARGS__}) / sizeof(tn_array *), \
              0})
#endif

/* --------------------------------------------------------------- the store */

/* Settings of stores with ranks; zero means the default in every field. */
typedef struct tn_kvstore_options {
  uint32_t struct_size; /* sizeof(tn_kvstore_options) */
  uint32_t reserved;
  const char *group;     /* its name (comm.h); default "world" */
  uint64_t bucket_bytes; /* dist_sync: most bytes of one call for several keys;
                            default 4 MiB */
  uint64_t owner_bytes;  /* dist_sync: keys of at least so many bytes have an
                            owner; default 4 MiB; UINT64_MAX: none has */
} tn_kvstore_options;

/* Creates a store of one of the kinds above, without keys. `options` may be
 * NULL. It keeps the runtime until it is released. The caller releases *out.
 * TN_INVALID, with the list of kinds, for another one; TN_NOT_FOUND without
 * plugin `comm` or the group. [host-thread] */
TN_API TN_MUST_USE tn_code tn_kvstore_create(tn_runtime *rt, const char *kind,
                                             const tn_kvstore_options *options,
                                             tn_kvstore **out);

/* Adds an owner; returns `kv`. [any] */
TN_API tn_kvstore *tn_kvstore_retain(tn_kvstore *kv);

/* Removes an owner. Scheduled work is still done. NULL is allowed.
 * [host-thread] */
TN_API void tn_kvstore_release(tn_kvstore *kv);

/* The kind, as tn_kvstore_create got it. Constant. [any] */
TN_API const char *tn_kvstore_kind(const tn_kvstore *kv);

/* The rank of this process among those that share the store, and their number:
 * 0 and 1 for kinds of one process. [any] */
TN_API int32_t tn_kvstore_rank(const tn_kvstore *kv);
TN_API int32_t tn_kvstore_size(const tn_kvstore *kv);

/* Waits until all ranks have called it. With one rank it returns at once.
 * [host-thread] */
TN_API TN_MUST_USE tn_code tn_kvstore_barrier(tn_kvstore *kv);

/* ------------------------------------------------------------------ values */

/* Adds keys, each with a copy of its one array. TN_EXISTS if the store has one
 * of them. [host-thread] */
TN_API TN_MUST_USE tn_code tn_kvstore_init(tn_kvstore *kv,
                                           const tn_keyed *values, size_t n);

/* Sums the arrays of each key, on any devices, and updates its value.
 * TN_NOT_FOUND for an unknown key, with a similar one; TN_SHAPE, TN_DTYPE.
 * [host-thread] */
TN_API TN_MUST_USE tn_code tn_kvstore_push(tn_kvstore *kv,
                                           const tn_keyed *values, size_t n);

/* Copies the value of each key into its arrays, on any devices. Codes as of
 * tn_kvstore_push. [host-thread] */
TN_API TN_MUST_USE tn_code tn_kvstore_pull(tn_kvstore *kv, const tn_keyed *out,
                                           size_t n);

/* tn_kvstore_push, then tn_kvstore_pull, in one step: no call of another thread
 * comes between. `out` may have other keys, and the arrays of `values`.
 * [host-thread] */
TN_API TN_MUST_USE tn_code tn_kvstore_push_pull(tn_kvstore *kv,
                                                const tn_keyed *values,
                                                size_t n_values,
                                                const tn_keyed *out,
                                                size_t n_out);

/* tn_kvstore_init, then tn_kvstore_pull, in one step: the arrays of `out` on
 * all devices begin with the same values. [host-thread] */
TN_API TN_MUST_USE tn_code tn_kvstore_broadcast(tn_kvstore *kv,
                                                const tn_keyed *values,
                                                size_t n_values,
                                                const tn_keyed *out,
                                                size_t n_out);

/* ---------------------------------------------------------------- updaters */

/* Changes the value of a key, `local`, by the sum of a push, `received`. Called
 * inside of the push, on its thread (dist_async: also on threads of the store).
 * It schedules calls of operators, copies, or jobs with the variables of the
 * arrays (engine.h), and should not wait. It must not change `received`, which
 * may be an array of the pushing program, and must not call functions of the
 * store. All arguments are borrowed for the call. If it fails, so does the
 * push. [host-thread] */
typedef tn_code tn_kvstore_update(void *ctx, const tn_key *key,
                                  tn_array *received, tn_array *local);

/* Makes `update` the updater; NULL: none, as at first. `drop(ctx)` is called
 * once when the store no longer needs it, which may be NULL; on failure it is
 * not called. [host-thread] */
TN_API TN_MUST_USE tn_code tn_kvstore_set_updater(tn_kvstore *kv,
                                                  tn_kvstore_update *update,
                                                  void *ctx,
                                                  void (*drop)(void *ctx));

/* Makes an operator the updater: "optim.adam_update" with the parameters
 * "lr=0.001 wd=0.01" (tn_params_parse; NULL: all defaults). It has two inputs,
 * the value and the sum, and one output.
 *
 * The states of a key are created at its first update. A state begins with the
 * initial value that the operator declares, otherwise with the value of the
 * key. If the operator has a dynamic integer `step` and `params` does not set
 * it, it is the number of the key's update, from 1.
 *
 * A call with the operator in use changes its parameters, for instance the
 * length of a step, and keeps all states. TN_NOT_FOUND for an unknown operator
 * or parameter, TN_INVALID for an operator of another form. [host-thread] */
TN_API TN_MUST_USE tn_code tn_kvstore_set_optimizer(tn_kvstore *kv,
                                                    const char *name,
                                                    const char *params);

/* Writes the states of the operator to a file: a .npz or .safetensors
 * (exchange.h), with the number of updates of each key and the operator's name.
 * The values of the keys are not in it; pull them. Waits for the states.
 * TN_INVALID without an operator. With dist_sync all ranks call it, rank 0
 * writes the file, and all of them wait for it and report its failure.
 * [host-thread] */
TN_API TN_MUST_USE tn_code tn_kvstore_save_states(tn_kvstore *kv,
                                                  const char *path);

/* Reads such a file. The store has the same operator, and all keys of the file;
 * keys that are not in the file lose their states. After a failure all states
 * are as before. With dist_sync all ranks call it, and each reads the file.
 * [host-thread] */
TN_API TN_MUST_USE tn_code tn_kvstore_load_states(tn_kvstore *kv,
                                                  const char *path);

#ifdef __cplusplus
}
#endif
#endif /* TENON_KVSTORE_H_ */
