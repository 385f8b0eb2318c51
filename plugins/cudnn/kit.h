/* SPDX-License-Identifier: Apache-2.0
 * kit.h: what the files of this plugin share.
 *
 * files: dnn.c          the functions of cuDNN, found while running
 *        graph.c        a task as a graph of cuDNN, and its engine
 *        norm.c         the graphs of a batch norm
 *        builder.c      descriptors, of which graphs are made
 *        plans.c        plans that were made, for calls that are alike
 *        run.c          plans on the device of a call; failures
 *        measure.c      the fastest engine, and what was found out before
 *        windows.c      what convolution and pooling have in common
 *        convolution.c  nn.convolution
 *        pooling.c      nn.pooling
 *        batch_norm.c   nn.batch_norm
 *        cudnn.c        init and fini
 */
#ifndef CUDNN_KIT_H_
#define CUDNN_KIT_H_

#include <pthread.h>

#include "dnn.h"
#include "tenon/device_scope.h"

/* ----------------------------------------------------------------- graph.c */

enum { CUDNN_MOST_RANK = 3, CUDNN_MOST_DIMS = CUDNN_MOST_RANK + 2 };

enum {                /* cudnn_task.what */
       CUDNN_FORWARD, /* a convolution, and the gradients of its inputs */
       CUDNN_DATA,
       CUDNN_WEIGHT,
       CUDNN_POOL, /* a pooling, and the gradient of a mean's input */
       CUDNN_POOL_DATA,
       CUDNN_NORM, /* a batch norm by statistics of the batch, which it tells */
       CUDNN_NORM_DATA,  /* its gradients */
       CUDNN_NORM_KNOWN, /* a batch norm by statistics that are given */
       CUDNN_INVERSE,    /* 1/sqrt(x + eps) of each number of a list */
       CUDNN_MOVE        /* keep*x + share*y of each of two lists */
};

enum {                            /* cudnn_task.flags */
       CUDNN_ADD = 1u << 0,       /* to what is there; not of a pooling */
       CUDNN_BIAS = 1u << 1,      /* added in the same go; not with CUDNN_ADD */
       CUDNN_FAST = 1u << 2,      /* factors in f32 may be rounded to TF32 */
       CUDNN_SAME_BITS = 1u << 3, /* in every call */
       CUDNN_ANYWHERE = 1u << 4,  /* addresses are multiples of an element */
       CUDNN_MAX = 1u << 5,       /* the largest of a window, not its mean */
       CUDNN_INSIDE = 1u << 6,    /* means do not count padding */
       CUDNN_MEASURE = 1u << 7,   /* the fastest engine, found by trying */
       CUDNN_RELU = 1u << 8       /* at the end; not with CUDNN_ADD */
};

/* All that a plan depends on, and so the key of a plan: compared as bytes, so
 * it begins as zeros. Images have two or three dimensions here. Lists are as
 * long as `rank`, shapes two longer; all lengths are above 0. Of a
 * batch norm data and out are alike: outer, channels, inner, and 1 where the
 * rank is 2. */
typedef struct cudnn_task {
  int32_t device;
  int32_t what;
  tn_dtype dtype;
  uint32_t flags;
  int64_t rank;
  int64_t data[CUDNN_MOST_DIMS];
  int64_t weight[CUDNN_MOST_DIMS]; /* of a pooling: the window behind 0, 0 */
  int64_t out[CUDNN_MOST_DIMS];
  int64_t stride[CUDNN_MOST_RANK];
  int64_t dilate[CUDNN_MOST_RANK]; /* of a pooling: 1 */
  int64_t pad[CUDNN_MOST_RANK];
  int64_t pad_behind[CUDNN_MOST_RANK];
  int64_t most_workspace; /* bytes */
  int64_t n_passed;       /* engines that would do and are passed over */
} cudnn_task;

/* For which GPU a graph is planned: that of a handle, or one of which only the
 * properties are known (a finalized descriptor), for tests. The other is NULL.
 */
typedef struct cudnn_target {
  const dnn_library *library;
  dnn_handle handle;
  dnn_descriptor properties;
} cudnn_target;

enum { CUDNN_MOST_PARTS = 40 };

/* A plan, and all descriptors that it was made of: whether it refers to them
 * cuDNN does not say. */
typedef struct cudnn_made {
  dnn_descriptor parts[CUDNN_MOST_PARTS];
  int n_parts;
  dnn_descriptor plan; /* one of the parts */
  int64_t workspace;   /* bytes */
} cudnn_made;

/* The names of arrays in a graph, for the variant pack. A gradient is named as
 * what it is of. */
enum {
  CUDNN_ID_DATA = 1,
  CUDNN_ID_WEIGHT,
  CUDNN_ID_OUT,
  CUDNN_ID_BIAS,
  CUDNN_ID_SCALE, /* of a batch norm; each has a number for each channel */
  CUDNN_ID_MEAN,
  CUDNN_ID_INVERSE, /* 1/sqrt(variance + eps) */
  CUDNN_ID_OLD_MEAN,
  CUDNN_ID_OLD_VAR,
  CUDNN_ID_NEW_MEAN,
  CUDNN_ID_NEW_VAR, /* by one element less than there are */
  CUDNN_ID_TO_SCALE,
  CUDNN_ID_TO_BIAS,
  CUDNN_ID_TO_DATA,
  CUDNN_ID_EPS, /* single numbers, which lie in the memory of the host */
  CUDNN_ID_SHARE,
  CUDNN_ID_KEEP,
  CUDNN_ID_BETWEEN, /* what never is in memory: a convolution's sums, */
  CUDNN_ID_BIASED,  /* and these with their bias; what is between operations */
  CUDNN_ID_SCALED,  /* on elements */
  CUDNN_ID_ADDED
};

/* Plans a task; its device is current. A cudnnStatus_t: on failure nothing is
 * left, and DNN_NOT_SUPPORTED says that no engine will do. [any] */
int cudnn_make(const cudnn_target *target, const cudnn_task *task,
               cudnn_made *out);

/* [any] */
void cudnn_unmake(const dnn_library *library, cudnn_made *made);

/* --------------------------------------------------------------- builder.c */

/* Makes the descriptors of a plan, and remembers the first failure: after it
 * nothing is done any more. */
typedef struct cudnn_builder {
  const cudnn_target *target;
  const dnn_library *library;
  const cudnn_task *task;
  cudnn_made *made;
  int status;       /* the first that was not DNN_OK */
  int64_t n_passed; /* engines that would have done */
} cudnn_builder;

/* A descriptor that lives as long as the plan; NULL after a failure. */
dnn_descriptor cudnn_begin(cudnn_builder *b, int type);
void cudnn_set(cudnn_builder *b, dnn_descriptor to, int attribute, int type,
               const void *value);
void cudnn_set_list(cudnn_builder *b, dnn_descriptor to, int attribute,
                    int64_t n, const int64_t *values);
void cudnn_set_part(cudnn_builder *b, dnn_descriptor to, int attribute,
                    dnn_descriptor part);
/* Finalizes it, and returns it. */
dnn_descriptor cudnn_end(cudnn_builder *b, dnn_descriptor descriptor);

/* A dense array of the task in row-major order; what is in between keeps the
 * digits of sums. */
dnn_descriptor cudnn_tensor(cudnn_builder *b, int64_t id, const int64_t *dims);

/* An operation on each element of x, or of x and `other` if it is not NULL. */
dnn_descriptor cudnn_pointwise(cudnn_builder *b, int mode, dnn_descriptor x,
                               dnn_descriptor other, dnn_descriptor y);

/* What sums are kept in: DNN_F32 or DNN_F64. */
int cudnn_wide_type(const cudnn_task *task);

/* Bytes of a dense array of the task, where others lie behind it: a multiple of
 * 256. */
int64_t cudnn_bytes(const cudnn_task *task, const int64_t *dims);

/* Bytes of a copy of each array of a convolution, and `beside`. The engines of
 * tensor cores compute with channels last (NHWC): given others, they turn them
 * in their workspace. */
int64_t cudnn_room(const cudnn_task *task, int64_t beside);

/* ------------------------------------------------------------------ norm.c */

enum { CUDNN_MOST_OPS = 5 };

/* The operations of a task, each on what the one before has made; returns how
 * many there are. */
int cudnn_norm_operations(cudnn_builder *b, dnn_descriptor ops[CUDNN_MOST_OPS]);

/* --------------------------------------------------------------- measure.c */

/* What measuring needs; `path` is the file of this machine's choices, "" if
 * there is none. */
typedef struct cudnn_bench {
  const cudnn_target *target;
  const tn_device_scope *scope;
  const char *path;
} cudnn_bench;

/* As cudnn_make, by the engine that is the fastest of those that the heuristics
 * name first; which that is stands in the file from then on, for this cuDNN and
 * this GPU. Without memory to try them it is the first. Blocks. [any] */
int cudnn_make_fastest(const cudnn_bench *bench, const cudnn_task *task,
                       cudnn_made *out);

enum { CUDNN_MOST_PATH = 512 };

/* "$XDG_CACHE_HOME/tenon/cudnn", or in ~/.cache; "" if there is no home. Makes
 * nothing: folders are made for the first choice. */
void cudnn_choices_path(char *to, size_t bytes);

/* ----------------------------------------------------------------- plans.c */

/* A plan that is kept; constant but for what plans.c counts. */
typedef struct cudnn_plan {
  cudnn_task task;
  cudnn_made made;
  struct cudnn_plan *newer;
  struct cudnn_plan *older;
  struct cudnn_plan *beside; /* used by this one, or NULL */
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
  int (*make)(void *arg, const cudnn_task *task, cudnn_made *out);
  void (*unmake)(void *arg, int32_t device, cudnn_made *made);
  void *arg;
} cudnn_maker;

void cudnn_plans_open(cudnn_plans *plans, int most);
/* Nobody uses a plan any more. */
void cudnn_plans_close(cudnn_plans *plans, const cudnn_maker *maker);

/* The plan of a key, made if it is new; the caller gives it back. Returns a
 * cudnnStatus_t. [any] */
int cudnn_plans_take(cudnn_plans *plans, const cudnn_maker *maker,
                     const cudnn_task *task, cudnn_plan **out);
/* NULL is allowed. [any] */
void cudnn_plans_give(cudnn_plans *plans, const cudnn_maker *maker,
                      cudnn_plan *plan);
/* Another plan for the calls of `plan`: made or taken by the first who asks,
 * whatever later ones ask for, and there as long as `plan` is. The caller, who
 * uses that one, gives nothing back. Returns a cudnnStatus_t. [any] */
int cudnn_plans_beside(cudnn_plans *plans, const cudnn_maker *maker,
                       cudnn_plan *plan, const cudnn_task *task,
                       cudnn_plan **out);

/* ------------------------------------------------------------------- run.c */

/* The handles of a device, each used under its lock; NULL until something is
 * planned. */
typedef struct cudnn_device {
  pthread_mutex_t planning;
  pthread_mutex_t running;
  dnn_handle planner;
  dnn_handle runner;
} cudnn_device;

/* What init keeps for a runtime. */
typedef struct cudnn_instance {
  dnn_library library;
  const tn_device_scope *scope;
  cudnn_device *devices; /* scope->n_devices */
  cudnn_plans plans;
  cudnn_maker maker;
  char path[CUDNN_MOST_PATH]; /* of choices that were measured */
} cudnn_instance;

/* Fills in what goes with scope->n_devices: TN_OK or TN_OUT_OF_MEMORY. */
int32_t cudnn_devices_open(cudnn_instance *instance);
void cudnn_devices_close(cudnn_instance *instance);

/* The plan of a task on the device of a call; the caller gives it back with
 * cudnn_plan_give. TN_OK, or a code after TN_FAIL. [any] */
int32_t cudnn_plan_take(const tn_frame *call, const cudnn_task *task,
                        cudnn_plan **out);

/* NULL is allowed. [any] */
void cudnn_plan_give(cudnn_instance *instance, cudnn_plan *plan);

/* An array by its name in the graph. */
typedef struct cudnn_operand {
  int64_t id;
  const void *at;
} cudnn_operand;

enum { CUDNN_MOST_OPERANDS = 12 };

/* Enqueues a plan on the stream of the call; operands that are less aligned
 * than it expects have a plan of their own, which is made when they first come,
 * stays as long as the other, and fits into its workspace: so a call that has
 * run once can be recorded. The workspace is as large as the plan says, aligned
 * to 256. TN_OK, or a code after TN_FAIL. [worker] */
int32_t cudnn_run(const tn_frame *call, cudnn_plan *plan,
                  const cudnn_operand *operands, int n);

/* Enqueues a plan with a handle that is on its stream; the device is current. A
 * cudnnStatus_t. */
int cudnn_execute(const dnn_library *library, dnn_handle handle,
                  const cudnn_made *made, const cudnn_operand *operands, int n,
                  void *workspace);

/* --------------------------------------------------------------- windows.c */

/* Describes what convolutions and poolings of a call have in common, but for
 * windows: every byte that is not set is 0. Images of one dimension become
 * those of two whose height is 1. */
void cudnn_task_begin(const tn_frame *call, int what, cudnn_task *out);
void cudnn_set_shape(int64_t *to, const tn_tensor *tensor);
/* The entries of a list of `n`; `other` where there is a dimension more. */
void cudnn_set_steps(int64_t *to, const int64_t *list, int64_t n,
                     int64_t other);

/* Every element becomes 0, by a sum of the device; nothing if it is added to.
 * TN_OK, or a code after TN_FAIL. [worker] */
int32_t cudnn_clear(const tn_frame *call, const tn_tensor *to, tn_req req);

#endif /* CUDNN_KIT_H_ */
