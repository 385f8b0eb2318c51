/* SPDX-License-Identifier: Apache-2.0
 * kit.h: the types and functions that the files of this plugin share.
 *
 * files: dnn.c            the functions of cuDNN, loaded at run time
 *        graph.c          a task as a graph of cuDNN, and its engine
 *        norm.c           the graphs of a batch norm
 *        builder.c        descriptors, the elements of graphs
 *        plans.c          a cache of plans for equal calls
 *        run.c            plans on the device of a call; failures
 *        measure.c        the fastest engine, and the file of measured choices
 *        windows.c        the common part of the next four
 *        conv_call.c      plans and passes of the next two (conv_call.h)
 *        convolution.c    nn.convolution
 *        deconvolution.c  nn.deconvolution
 *        pooling.c        nn.pooling
 *        batch_norm.c     nn.batch_norm
 *        rnn_plan.c       descriptors and sizes of a recurrent call (rnn.h)
 *        rnn.c            nn.rnn
 *        cudnn.c          init and fini
 */
#ifndef CUDNN_KIT_H_
#define CUDNN_KIT_H_

#include <pthread.h>

#include "dnn.h"
#include "tenon/plugin/device_scope.h"

/* ------------------------------------------------------------------ a call */

static inline int cudnn_is_backward(const tn_frame *call) {
  return (call->flags & TN_CALL_BACKWARD) != 0;
}

/* Whether output `out` was requested. */
static inline int cudnn_is_wanted(const tn_frame *call, uint32_t out) {
  return out < call->n_out && call->req[out] != TN_REQ_NULL;
}

/* ----------------------------------------------------------------- graph.c */

enum { CUDNN_MOST_RANK = 3, CUDNN_MOST_DIMS = CUDNN_MOST_RANK + 2 };

enum {                /* cudnn_task.what: the kind of computation */
       CUDNN_FORWARD, /* a convolution, and the gradients of its inputs */
       CUDNN_DATA,
       CUDNN_WEIGHT,
       CUDNN_POOL, /* a pooling, and the gradient of a mean's input */
       CUDNN_POOL_DATA,
       CUDNN_NORM, /* a batch norm with statistics of the batch, an output */
       CUDNN_NORM_DATA,  /* its gradients */
       CUDNN_NORM_KNOWN, /* a batch norm with known statistics */
       CUDNN_INVERSE,    /* 1/sqrt(x + eps) of each element of a list */
       CUDNN_MOVE        /* keep*x + share*y of the elements of two lists */
};

enum {                            /* cudnn_task.flags */
       CUDNN_ADD = 1u << 0,       /* to the old elements; not for a pooling */
       CUDNN_BIAS = 1u << 1,      /* added by the plan; not with CUDNN_ADD */
       CUDNN_FAST = 1u << 2,      /* factors in f32 may be rounded to TF32 */
       CUDNN_SAME_BITS = 1u << 3, /* in every call */
       CUDNN_ANYWHERE = 1u << 4,  /* addresses are multiples of an element */
       CUDNN_MAX = 1u << 5,       /* the largest of a window, not its mean */
       CUDNN_INSIDE = 1u << 6,    /* means do not count padding */
       CUDNN_MEASURE = 1u << 7,   /* the fastest engine, by measurement */
       CUDNN_RELU = 1u << 8       /* at the end; not with CUDNN_ADD */
};

/* All parameters of a plan, and so its key. Keys are compared as bytes, so a
 * task must start as zeros. Images have two or three dimensions here. Lists
 * have `rank` entries, shapes two more; all lengths are above 0. In a batch
 * norm data and out have the same shape: outer, channels, inner, and 1 if the
 * rank is 2. */
typedef struct cudnn_task {
  int32_t device;
  int32_t what;
  tn_dtype dtype;
  uint32_t flags;
  int64_t rank;
  int64_t data[CUDNN_MOST_DIMS];
  int64_t weight[CUDNN_MOST_DIMS]; /* of a pooling: 0, 0 and the window */
  int64_t out[CUDNN_MOST_DIMS];
  int64_t stride[CUDNN_MOST_RANK];
  int64_t dilate[CUDNN_MOST_RANK]; /* of a pooling: 1 */
  int64_t pad[CUDNN_MOST_RANK];
  int64_t pad_behind[CUDNN_MOST_RANK];
  int64_t most_workspace; /* bytes */
  int64_t n_passed;       /* usable engines to skip */
} cudnn_task;

/* The GPU for which a graph is planned: the one of a handle, or for tests one
 * with known properties only (a finalized descriptor). The other field is
 * NULL. */
typedef struct cudnn_target {
  const dnn_library *library;
  dnn_handle handle;
  dnn_descriptor properties;
} cudnn_target;

enum { CUDNN_MOST_PARTS = 40 };

/* A plan, and all descriptors of its graph: cuDNN does not document whether the
 * plan refers to them. */
typedef struct cudnn_made {
  dnn_descriptor parts[CUDNN_MOST_PARTS];
  int n_parts;
  dnn_descriptor plan; /* one of the parts */
  int64_t workspace;   /* bytes */
} cudnn_made;

/* The names of arrays in a graph, for the variant pack. A gradient has the name
 * of its array. */
enum {
  CUDNN_ID_DATA = 1,
  CUDNN_ID_WEIGHT,
  CUDNN_ID_OUT,
  CUDNN_ID_BIAS,
  CUDNN_ID_SCALE, /* of a batch norm; one number for each channel */
  CUDNN_ID_MEAN,
  CUDNN_ID_INVERSE, /* 1/sqrt(variance + eps) */
  CUDNN_ID_OLD_MEAN,
  CUDNN_ID_OLD_VAR,
  CUDNN_ID_NEW_MEAN,
  CUDNN_ID_NEW_VAR, /* with the divisor n - 1 */
  CUDNN_ID_TO_SCALE,
  CUDNN_ID_TO_BIAS,
  CUDNN_ID_TO_DATA,
  CUDNN_ID_EPS, /* single numbers, in the memory of the host */
  CUDNN_ID_SHARE,
  CUDNN_ID_KEEP,
  CUDNN_ID_BETWEEN, /* never in memory: the sums of a convolution, */
  CUDNN_ID_BIASED,  /* these with their bias, and results between pointwise */
  CUDNN_ID_SCALED,  /* operations */
  CUDNN_ID_ADDED
};

/* Creates a plan for a task; its device is current. Returns a cudnnStatus_t. On
 * failure it leaves nothing; DNN_NOT_SUPPORTED means that no engine is usable.
 * [any] */
int cudnn_make(const cudnn_target *target, const cudnn_task *task,
               cudnn_made *out);

/* [any] */
void cudnn_unmake(const dnn_library *library, cudnn_made *made);

/* --------------------------------------------------------------- builder.c */

/* Creates the descriptors of a plan and keeps the first failure, after which
 * all its functions do nothing. */
typedef struct cudnn_builder {
  const cudnn_target *target;
  const dnn_library *library;
  const cudnn_task *task;
  cudnn_made *made;
  int status;       /* the first value other than DNN_OK */
  int64_t n_passed; /* usable engines so far */
} cudnn_builder;

/* A descriptor that exists as long as the plan; NULL after a failure. */
dnn_descriptor cudnn_begin(cudnn_builder *b, int type);
void cudnn_set(cudnn_builder *b, dnn_descriptor to, int attribute, int type,
               const void *value);
void cudnn_set_list(cudnn_builder *b, dnn_descriptor to, int attribute,
                    int64_t n, const int64_t *values);
void cudnn_set_part(cudnn_builder *b, dnn_descriptor to, int attribute,
                    dnn_descriptor part);
/* Finalizes it, and returns it. */
dnn_descriptor cudnn_end(cudnn_builder *b, dnn_descriptor descriptor);

/* Describes a dense array of the task in row-major order; intermediate results
 * have the precision of sums. */
dnn_descriptor cudnn_tensor(cudnn_builder *b, int64_t id, const int64_t *dims);

/* An operation on each element of x, or of x and `other` if it is not NULL. */
dnn_descriptor cudnn_pointwise(cudnn_builder *b, int mode, dnn_descriptor x,
                               dnn_descriptor other, dnn_descriptor y);

/* The type of sums: DNN_F32 or DNN_F64. */
int cudnn_wide_type(const cudnn_task *task);

/* Bytes of a dense array of the task, rounded up to a multiple of 256 for the
 * arrays after it. */
int64_t cudnn_bytes(const cudnn_task *task, const int64_t *dims);

/* Bytes of a copy of each array of a convolution, plus `beside`. The engines of
 * tensor cores compute with channels last (NHWC) and transpose other arrays in
 * their workspace. */
int64_t cudnn_room(const cudnn_task *task, int64_t beside);

/* ------------------------------------------------------------------ norm.c */

enum { CUDNN_MOST_OPS = 5 };

/* Creates the operations of a batch norm, each with the result of the one
 * before as input; returns their number. */
int cudnn_norm_operations(cudnn_builder *b, dnn_descriptor ops[CUDNN_MOST_OPS]);

/* --------------------------------------------------------------- measure.c */

/* Context of a measurement; `path` is the file of this machine's choices, "" if
 * there is none. */
typedef struct cudnn_bench {
  const cudnn_target *target;
  const tn_device_scope *scope;
  const char *path;
} cudnn_bench;

/* Like cudnn_make, with the fastest of the first engines of the heuristics. The
 * file keeps that choice for this cuDNN and this GPU. Without memory for the
 * measurement it uses the first engine. Blocks. [any] */
int cudnn_make_fastest(const cudnn_bench *bench, const cudnn_task *task,
                       cudnn_made *out);

enum { CUDNN_MOST_PATH = 512 };

/* "$XDG_CACHE_HOME/tenon/cudnn", or in ~/.cache; "" if there is no home.
 * Creates nothing: the first choice creates the folders. */
void cudnn_choices_path(char *to, size_t bytes);

/* ----------------------------------------------------------------- plans.c */

/* A plan in use or in the cache; constant but for the counts of plans.c. */
typedef struct cudnn_plan {
  cudnn_task task;
  cudnn_made made;
  struct cudnn_plan *newer;
  struct cudnn_plan *older;
  struct cudnn_plan *beside; /* used by this one, or NULL */
  uint64_t hash;
  int n_users;
  int is_kept; /* it is in the list */
} cudnn_plan;

/* A cache of plans by key; the most recently used plan is the first. A plan in
 * use stays alive after its removal from the cache. */
typedef struct cudnn_plans {
  pthread_mutex_t lock;
  cudnn_plan *newest;
  cudnn_plan *oldest;
  int n_kept;
  int most; /* limit of cached plans */
} cudnn_plans;

/* Creates and destroys plans for a cache. `make` returns a cudnnStatus_t.
 * [any] */
typedef struct cudnn_maker {
  int (*make)(void *arg, const cudnn_task *task, cudnn_made *out);
  void (*unmake)(void *arg, int32_t device, cudnn_made *made);
  void *arg;
} cudnn_maker;

void cudnn_plans_open(cudnn_plans *plans, int most);
/* Destroys the cache; no plan may be in use. */
void cudnn_plans_close(cudnn_plans *plans, const cudnn_maker *maker);

/* Finds the plan of a key, or creates it; the caller returns it with
 * cudnn_plans_give. Returns a cudnnStatus_t. [any] */
int cudnn_plans_take(cudnn_plans *plans, const cudnn_maker *maker,
                     const cudnn_task *task, cudnn_plan **out);
/* Releases a plan; NULL is allowed. [any] */
void cudnn_plans_give(cudnn_plans *plans, const cudnn_maker *maker,
                      cudnn_plan *plan);
/* A second plan for the calls of `plan`. The first request creates or finds it,
 * and later requests get the same one, with any key. It stays valid as long as
 * `plan`; the caller, a user of `plan`, must not release it. Returns a
 * cudnnStatus_t. [any] */
int cudnn_plans_beside(cudnn_plans *plans, const cudnn_maker *maker,
                       cudnn_plan *plan, const cudnn_task *task,
                       cudnn_plan **out);

/* ------------------------------------------------------------------- run.c */

/* The handles of a device, each protected by its lock; NULL until the first
 * plan. */
typedef struct cudnn_device {
  pthread_mutex_t planning;
  pthread_mutex_t running;
  dnn_handle planner;
  dnn_handle runner;
} cudnn_device;

/* State of the plugin for one runtime. */
typedef struct cudnn_instance {
  dnn_library library;
  const tn_device_scope *scope;
  cudnn_device *devices; /* scope->n_devices */
  cudnn_plans plans;
  cudnn_maker maker;
  char path[CUDNN_MOST_PATH]; /* file of measured choices */
} cudnn_instance;

/* Fills in the fields that depend on scope->n_devices: TN_OK or
 * TN_OUT_OF_MEMORY. */
int32_t cudnn_devices_open(cudnn_instance *instance);
void cudnn_devices_close(cudnn_instance *instance);

/* Finds or creates the plan of a task on the device of a call; the caller
 * releases it with cudnn_plan_give. TN_OK, or a code after TN_FAIL. [any] */
int32_t cudnn_plan_take(const tn_frame *call, const cudnn_task *task,
                        cudnn_plan **out);

/* Releases a plan; NULL is allowed. [any] */
void cudnn_plan_give(cudnn_instance *instance, cudnn_plan *plan);

/* An array by its name in the graph. */
typedef struct cudnn_operand {
  int64_t id;
  const void *at;
} cudnn_operand;

enum { CUDNN_MOST_OPERANDS = 12 };

/* Enqueues a plan on the stream of the call. Operands with less alignment than
 * it expects use a second plan. That plan is created at its first use, stays as
 * long as the first one, and fits into its workspace. So a call that has run
 * once can be recorded. The workspace has the plan's size, aligned to 256.
 * TN_OK, or a code after TN_FAIL. [worker] */
int32_t cudnn_run(const tn_frame *call, cudnn_plan *plan,
                  const cudnn_operand *operands, int n);

/* Enqueues a plan with a handle that is on its stream; the device is current.
 * Returns a cudnnStatus_t. */
int cudnn_execute(const dnn_library *library, dnn_handle handle,
                  const cudnn_made *made, const cudnn_operand *operands, int n,
                  void *workspace);

/* A piece of work with a handle. Returns a cudnnStatus_t. */
typedef int cudnn_work(void *arg, dnn_handle handle);

/* Calls `work` with the device's handle for plans, which it opens, or with the
 * one for calls on the stream of the call, which exists since the first plan.
 * No other thread uses the handle meanwhile, and the device is current. TN_OK,
 * or a code after TN_FAIL. [any], [worker] */
int32_t cudnn_with_planner(const tn_frame *call, cudnn_work *work, void *arg);
int32_t cudnn_with_runner(const tn_frame *call, cudnn_work *work, void *arg);

/* --------------------------------------------------------------- windows.c */

/* Fills in the common fields of convolutions and poolings of a call, without
 * windows; all other bytes are 0. Images of one dimension become images of two
 * with height 1. */
void cudnn_task_begin(const tn_frame *call, int what, cudnn_task *out);
void cudnn_set_shape(int64_t *to, const tn_tensor *tensor);
/* The entries of a list of `n`; `other` for an additional dimension. */
void cudnn_set_steps(int64_t *to, const int64_t *list, int64_t n,
                     int64_t other);

/* Sets every element to 0, by a sum of the device; does nothing for an add
 * request. TN_OK, or a code after TN_FAIL. [worker] */
int32_t cudnn_clear(const tn_frame *call, const tn_tensor *to, tn_req req);

/* Sets each image of a filter to the bias of the filter, or adds it. TN_OK, or
 * a code after TN_FAIL. [worker] */
int32_t cudnn_start_from_bias(const tn_frame *call, const tn_tensor *images,
                              const tn_tensor *bias, tn_req req);

/* Computes the gradient of a bias: the sum of each filter's images, which are
 * gradients. TN_OK, or a code after TN_FAIL. [worker] */
int32_t cudnn_sum_bias(const tn_frame *call, const tn_tensor *images,
                       const tn_tensor *bias, tn_req req);

#endif /* CUDNN_KIT_H_ */
