/* SPDX-License-Identifier: Apache-2.0
 * kit.h: what the files of this plugin share.
 *
 * files: dnn.c          the functions of cuDNN, found while running
 *        graph.c        a convolution as cuDNN's graph, and which engine runs
 * it plans.c        plans that were made, for the next call that is alike run.c
 * handles, the device of a call, failures as messages convolution.c
 * nn.convolution cudnn.c        init and fini
 */
#ifndef CUDNN_KIT_H_
#define CUDNN_KIT_H_

#include <pthread.h>

#include "dnn.h"
#include "tenon/device_scope.h"

/* ----------------------------------------------------------------- graph.c */

enum { CUDNN_MOST_RANK = 3, CUDNN_MOST_DIMS = CUDNN_MOST_RANK + 2 };

/* Which of its three arrays a convolution computes. */
enum { CUDNN_FORWARD, CUDNN_DATA, CUDNN_WEIGHT };

enum {                       /* cudnn_conv.flags */
       CUDNN_ADD = 1u << 0,  /* to what is there */
       CUDNN_BIAS = 1u << 1, /* is added in the same go; not with CUDNN_ADD */
       CUDNN_FAST = 1u << 2, /* factors in f32 may be rounded to TF32 */
       CUDNN_DETERMINISTIC = 1u << 3,
       CUDNN_UNALIGNED = 1u << 4 /* addresses are multiples of an element */
};

/* All that a plan depends on, and so the key of a plan: compared as bytes, so
 * it begins as zeros. Images have two or three dimensions here. Lists are as
 * long as `rank`, shapes two longer; all lengths are above 0. */
typedef struct cudnn_conv {
  int32_t device;
  int32_t what;
  tn_dtype dtype;
  uint32_t flags;
  int64_t rank;
  int64_t data[CUDNN_MOST_DIMS];
  int64_t weight[CUDNN_MOST_DIMS];
  int64_t out[CUDNN_MOST_DIMS];
  int64_t stride[CUDNN_MOST_RANK];
  int64_t dilate[CUDNN_MOST_RANK];
  int64_t pad[CUDNN_MOST_RANK];
  int64_t most_workspace; /* bytes */
} cudnn_conv;

/* For which GPU a graph is planned: that of a handle, or one of which only the
 * properties are known (a finalized descriptor), for tests. The other is NULL.
 */
typedef struct cudnn_target {
  const dnn_library *library;
  dnn_handle handle;
  dnn_descriptor properties;
} cudnn_target;

enum { CUDNN_MOST_PARTS = 16 };

/* A plan, and all descriptors that it was made of: whether it refers to them
 * cuDNN does not say. The plan is the last. */
typedef struct cudnn_made {
  dnn_descriptor parts[CUDNN_MOST_PARTS];
  int n_parts;
  dnn_descriptor plan;
  int64_t workspace; /* bytes */
} cudnn_made;

/* The names of arrays in a graph, for the variant pack. */
enum { CUDNN_ID_DATA = 1, CUDNN_ID_WEIGHT, CUDNN_ID_OUT, CUDNN_ID_BIAS };

/* Plans a convolution; its device is current. A cudnnStatus_t: on failure
 * nothing is left, and DNN_NOT_SUPPORTED says that no engine will do.
 * [any] */
int cudnn_make(const cudnn_target *target, const cudnn_conv *conv,
               cudnn_made *out);

/* [any] */
void cudnn_unmake(const dnn_library *library, cudnn_made *made);

/* ----------------------------------------------------------------- plans.c */

/* A plan that is kept; constant but for what plans.c counts. */
typedef struct cudnn_plan {
  cudnn_conv conv;
  cudnn_made made;
  struct cudnn_plan *newer;
  struct cudnn_plan *older;
  uint64_t hash;
  int n_users;
  int is_kept; /* whether it is in the list */
} cudnn_plan;

/* Plans by key, the one used last in front. What is used stays alive also when
 * it is not kept any more. */
typedef struct cudnn_plans {
  pthread_mutex_t lock;
  cudnn_plan *newest;
  cudnn_plan *oldest;
  int n_kept;
  int most; /* that are kept */
} cudnn_plans;

/* Makes and destroys plans for a cache. `make` returns a cudnnStatus_t. [any]
 */
typedef struct cudnn_maker {
  int (*make)(void *arg, const cudnn_conv *conv, cudnn_made *out);
  void (*unmake)(void *arg, int32_t device, cudnn_made *made);
  void *arg;
} cudnn_maker;

void cudnn_plans_open(cudnn_plans *plans, int most);
/* Nobody uses a plan any more. */
void cudnn_plans_close(cudnn_plans *plans, const cudnn_maker *maker);

/* The plan of a key, made if it is new; the caller gives it back. Returns a
 * cudnnStatus_t. [any] */
int cudnn_plans_take(cudnn_plans *plans, const cudnn_maker *maker,
                     const cudnn_conv *conv, cudnn_plan **out);
/* NULL is allowed. [any] */
void cudnn_plans_give(cudnn_plans *plans, const cudnn_maker *maker,
                      cudnn_plan *plan);

/* ------------------------------------------------------------------- run.c */

/* A handle is used by one thread at a time. */
typedef struct cudnn_user {
  struct cudnn_user *next;
  dnn_handle handle;
} cudnn_user;

/* The handles of a device that nobody uses at the moment. */
typedef struct cudnn_device {
  pthread_mutex_t lock;
  cudnn_user *idle;
} cudnn_device;

/* What init keeps for a runtime. */
typedef struct cudnn_instance {
  dnn_library library;
  const tn_device_scope *scope;
  cudnn_device *devices; /* scope->n_devices */
  cudnn_plans plans;
  cudnn_maker maker;
} cudnn_instance;

/* Fills in what goes with scope->n_devices: TN_OK or TN_OUT_OF_MEMORY. */
int32_t cudnn_devices_open(cudnn_instance *instance);
void cudnn_devices_close(cudnn_instance *instance);

/* The plan of a convolution on the device of a call; the caller gives it back
 * with cudnn_plans_give. TN_OK, or a code after TN_FAIL. [any] */
int32_t cudnn_plan_take(const tn_frame *call, const cudnn_conv *conv,
                        cudnn_plan **out);

/* An array by its name in the graph. */
typedef struct cudnn_operand {
  int64_t id;
  const void *at;
} cudnn_operand;

/* Enqueues a plan on the stream of the call. The workspace is as large as the
 * plan says, aligned to 256. TN_OK, or a code after TN_FAIL. [worker] */
int32_t cudnn_run(const tn_frame *call, const cudnn_plan *plan,
                  const cudnn_operand *operands, int n, void *workspace);

/* Fails a call by what cuDNN answered on its device, which was entered; `doing`
 * is "planning". [any] */
int32_t cudnn_refuse(const tn_frame *call, int status, const char *doing);

#endif /* CUDNN_KIT_H_ */
