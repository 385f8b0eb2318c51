/* SPDX-License-Identifier: Apache-2.0
 * program.h: a program, which is a graph that is ready to run. The folders
 * core/program, core/execution and core/program_bind share it.
 *
 * program_bind.c goes through stations, each a function of its file. Those of
 * core/program_bind make the graph and its arrays (stations.h), and these the
 * rest:
 *
 *   steps.c            the nodes of the graph as steps, in order of execution
 *   arrays.c           an array without memory for each entry; with these, a
 *                      kernel for each step
 *   recompute_steps.c  forward steps that run twice to save memory
 *   pair_steps.c       two steps that one operator computes together
 *   fusion.c           runs of steps that become one
 *   alias.c            results that have the elements of an input
 *   program_memory.c   input of the memory planner, and memory by its plan
 *
 * Runs go through these:
 *
 *   program.c          lifetime, runs, queries
 *   segments.c         steps as jobs of one schedule, or as operations
 *                      (segments.h)
 *   sequence.c         pushes them
 *   device_steps.c     steps on devices with queues
 *   capture.c          runs that a device records and launches again
 *   step_run.c         functions of steps
 *   iteration.c        loops
 *   fused_tiles.c      fused steps; fused_registers.c the same in registers
 */
#ifndef TENON_GRAPH_PROGRAM_H_
#define TENON_GRAPH_PROGRAM_H_

#include "graph.h"
#include "plan.h"

typedef struct tn__step tn__step;

/* ------------------------------------------------------------------ entries */

/* One entry of a program. The entries of the graph come first, with the same
 * numbers; partial sums follow them. */
typedef struct tn__value {
  tn_array *array; /* retained; NULL: the entry is not used */
  uint32_t flags;  /* TN__ENTRY_* of plan.h */
  tn_req request;  /* how its writer writes it; TN_REQ_NULL: only its shape is
                      read */
  uint32_t step;   /* its writer; TN_NONE: a variable */
  uint32_t n_uses; /* steps that read its elements */
  uint32_t place;  /* its number for the planner; TN_NONE: none */
  tn__device *device; /* the device of its memory */
} tn__value;

/* -------------------------------------------------------------------- steps */

enum {                      /* tn__step.kind */
       TN__STEP_CALL = 0,   /* forward or backward call of a kernel */
       TN__STEP_ADD = 1,    /* out = in[0] + in[1] */
       TN__STEP_FILL = 2,   /* zeros or ones */
       TN__STEP_COPY = 3,   /* out = in[0] */
       TN__STEP_LOOP = 4,   /* a program that runs once per step of a
                               sequence */
       TN__STEP_FUSED = 5,  /* `parts`, tile by tile */
       TN__STEP_NOTHING = 6 /* other steps do its work */
};

struct tn__step {
  tn_code (*run)(const tn__step *step, uint32_t train, tn__token *token);
  tn_program *program;
  const tn__node *node;
  uint32_t kind;
  uint32_t id;
  uint32_t n_in;
  uint32_t n_out;
  tn__device *device;   /* the device on which the step runs; all operands are
                           on it, except the input of a COPY */
  uint32_t *in;         /* entries; TN_NONE: absent */
  uint32_t *out;        /* entries; TN_NONE: not read */
  bool *shape_only;     /* for each input: true if the step reads only its
                           shape; NULL: no such input */
  bool repeats;         /* tn__node_is_repeatable */
  tn__planned *call[2]; /* the planned calls of the step for runs without and
                           with TN_CALL_TRAIN */
  tn__direct_call direct[2]; /* the calls of `call` as direct calls of kernels;
                                zeros if there are none */
  tn__planned *watch[2]; /* if a monitor watches a part of a fused step: calls
                            of the part alone on all of its operands */
  tn__planned_info info;
  size_t reserved; /* bytes of workspace that the plan reserves for it */
  tn__var *signal; /* variable that the step overwrites, so that other steps can
                      wait for it; NULL: no step waits */
  uint32_t n_after;
  tn__var **after;  /* signals of the steps for which the step waits, in
                       addition to its inputs */
  tn__step **parts; /* the parts of a FUSED step, or the two steps of a fused
                       pair */
  uint32_t n_parts;
  tn_params *joint; /* of a CALL that is a fused pair: parameters of the pair's
                       operator, which replaces the operator of the node;
                       retained. NULL: no fused pair */
  struct tn__fused *fused;
  struct tn__iteration *loop; /* LOOP */
  const char *why_not;        /* the reason why the step is not fused with
                                 others; NULL: it may be */
  const tn__step *other;      /* an earlier step that could be computed together
                                 with this one as a fused pair; or NULL */
  const char *pair_refusal;   /* the reason why `other` and this step are not a
                                 fused pair */
};

/* The planned call of a step for either kind of run; NULL if there is none. A
 * part of a fused step has a call for both kinds of run. */
static inline const tn__planned *tn__step_call(const tn__step *step) {
  return step->call[0] ? step->call[0] : step->call[1];
}

/* Internal bit of tn_bind.flags: the steps run in order on one thread. */
#define TN__BIND_SERIAL (1u << 31)

/* Steps that run together: all forward ones, or all backward ones. */
typedef struct tn__sequence {
  struct tn__segment_run *segments; /* the arguments of the sequence's jobs
                                       (segments.c); NULL: it never ran */
  tn__schedule *schedule;           /* NULL if there are operations */
  /* One per segment, after `n_begins` operations that acquire the pools. */
  tn__operation **operations;
  uint32_t n_operations;
  uint32_t n_begins;
  bool single;                  /* one segment per step, on all devices */
  struct tn__capture *captured; /* NULL: not requested, or not run yet */
} tn__sequence;

/* Arrays that users see; borrowed from the values. */
typedef struct tn__visible_arrays {
  tn_array **arrays;
  uint32_t n;
} tn__visible_arrays;

/* The arguments of a program: variables of the user's graph. */
typedef struct tn__arguments {
  tn_entry *v; /* arguments, then states */
  uint32_t n;  /* without the states */
  uint32_t n_states;
} tn__arguments;

/* The heads of a program. */
typedef struct tn__heads {
  tn_entry *v;
  uint32_t n;
  uint8_t *lent; /* for each head: true if the user passed its array */
  uint8_t *late; /* for each head: true if the program writes it into the array
                    of an argument, so after all readers of the argument */
} tn__heads;

/* The gradients that a backward run computes, and those that it needs. */
typedef struct tn__gradients {
  tn_entry *v;       /* for each argument and state; TN_ENTRY_NONE: none */
  tn_entry *weights; /* for each head: the variable of its output gradient;
                        TN_ENTRY_NONE: none */
  uint8_t *losses;   /* for each head: tn__loss */
} tn__gradients;

/* The devices of a program. */
typedef struct tn__placement {
  tn__device *device;   /* the default device */
  tn__device **devices; /* all devices, by the planner's numbers */
  uint32_t n_devices;
  /* for each node of the graph its device; NULL: all are on the default device.
   * A copy between devices may follow its reader in the list of nodes, so use
   * the order of tn__order_make */
  tn__device **where;
} tn__placement;

/* The memory of a program. */
typedef struct tn__memory {
  tn__memory_plan plan;
  tn__block **pools; /* plan.n_pools, retained; NULL for an empty one */
  tn__vec rooms;     /* of tn__block *: workspaces that are not in the plan */
  bool planned;      /* `plan` exists */
  bool least;        /* no other choice of recomputed steps needs less memory */
  bool wide;         /* the plan adds no waits between steps */
} tn__memory;

struct tn_program {
  tn__caller *caller;
  const tn__env *env;      /* kept alive */
  _Atomic int32_t n_holds; /* number of holds on the program: one of its owner,
                              one of each schedule */
  tn__placement placement;
  tn__vec shapes;   /* of tn_array *: see tn__arrays_make */
  bool queued;      /* at least one of its devices has queues, or one of its
                       steps is alone: its jobs are operations */
  bool settled;     /* its owner has released it and waited for all runs */
  tn_graph *graph;  /* owned */
  tn_graph *source; /* copy of the user's graph, for tn_program_reshape */
  tn_bind how;      /* the options of the bind, without borrowed pointers */
  tn__arena arena;
  tn__value *values;
  uint32_t n_values;
  uint32_t n_forward; /* steps; the others are backward */
  tn__step **steps;
  uint32_t n_steps;
  tn__arguments arguments;
  tn__heads heads;
  tn__gradients gradients;
  tn__memory memory;
  tn__sequence forward[2]; /* without and with TN_CALL_TRAIN */
  tn__sequence backward;
  tn__sequence single[3]; /* one sequence for each of forward[2] and the
                             backward sequence, for runs that stop on the way on
                             devices with queues */
  tn_monitor_fn *monitor;
  void *monitor_ctx;
  bool watched; /* the monitor has been called and has not returned */
  tn_program_stats stats;
  uint64_t loop_steps; /* of one run, including loops inside of loops */
  uint32_t trained;    /* the last forward run had TN_CALL_TRAIN */
  bool set;            /* tn__program_set has changed parameters of the graph */
  tn__visible_arrays seen[2]; /* the arrays that users can read: those that the
                                 forward part writes, those that the backward
                                 part writes */
  tn__var turn;               /* overwritten by each run */
  tn__var *signals;           /* of steps; from the environment's allocator */
  uint32_t n_signals;
};

enum { /* tn__loss of a head: tn__gradients.losses */
       TN__LOSS_NOT = 0,
       TN__LOSS = 1,     /* the head is a loss: its output gradient is ones if
                            the user passes none */
       TN__LOSS_ONES = 2 /* the array of the loss's output gradient contains
                            ones already */
};

static inline tn_array *tn__value_array(const tn_program *p, uint32_t entry) {
  return entry == TN_NONE ? NULL : p->values[entry].array;
}

/* The device of a node. */
static inline tn__device *tn__node_device(const tn_program *p, uint32_t node) {
  return p->placement.where ? p->placement.where[node] : p->placement.device;
}
/* The planner's number of a device. */
int32_t tn__device_number(const tn_program *p, const tn__device *device);

/* Makes the steps p->steps of the nodes that the heads need: first those for
 * the forward heads, then those for the `backward` heads. */
tn_code tn__steps_make(tn_program *p, const tn_entry *backward,
                       uint32_t n_backward);
/* Creates an array without memory for each entry that has no array. If a step
 * reads only the shape of an entry on another device, an array in p->shapes
 * replaces the entry for that step. */
tn_code tn__arrays_make(tn_program *p);
/* Writes a number into every element of an array. */
tn_code tn__array_fill(const tn_program *p, tn_array *to, double value);
/* Tests whether an array has the type and shape of an entry; NULL counts as
 * such an array. tn__value_check tests the same and returns TN_SHAPE with a
 * text that begins with `what`. */
bool tn__value_is_like(const tn_program *p, uint32_t entry,
                       const tn_array *array);
tn_code tn__value_check(const tn_program *p, uint32_t entry,
                        const tn_array *array, const char *what);
/* Plans the call of a step for one kind of run. *slot becomes the new call; the
 * previous one is released. */
tn_code tn__step_plan(tn__step *step, uint32_t train, tn__planned **slot);
/* Chooses the kernels: step->info. */
tn_code tn__steps_choose(tn_program *p);
/* The input of the memory planner; from the environment's allocator. */
typedef struct tn__plan_input {
  tn__plan_net net;
  tn__plan_node *nodes;
  tn__plan_entry *entries;
} tn__plan_input;
tn_code tn__plan_input_make(tn_program *p, tn__plan_input *net);
void tn__plan_input_free(const tn_program *p, tn__plan_input *net);
void tn__plan_options_of(const tn_bind *how, tn__plan_options *out);
/* If the user limits the memory, adds steps that compute results a second time
 * instead of keeping them. */
tn_code tn__steps_recompute(tn_program *p, const tn_bind *how);
/* Replaces each two calls that one operator of a fused pair can compute by one
 * step. */
tn_code tn__steps_pair(tn_program *p);
/* Fills step->info with the properties of the step's call. A monitored run of
 * the parts uses the same workspace. */
void tn__step_fill_info(tn__step *step, uint32_t train);
/* Replaces each run of elementwise calls by one fused step. */
tn_code tn__steps_fuse(tn_program *p);
/* Returns the place of an entry in the memory plan; NULL if the plan does not
 * contain it. */
static inline const tn__plan_place *tn__plan_place_of(const tn_program *p,
                                                      uint32_t entry) {
  const uint32_t place = p->values[entry].place;
  return place == TN_NONE ? NULL : &p->memory.plan.places[place];
}
/* alias.c: returns the input of a forward or BACKWARD call that output `i`
 * equals, so that the plan may put both into one place; TN_NONE: none. */
uint32_t tn__step_find_alias(const tn__step *step, uint32_t i);
/* Tests whether the memory plan has put output `i` into the place of the input
 * that it equals. */
bool tn__step_is_alias(const tn__step *step, uint32_t i);
/* Returns the pool of the program on a device; NULL if the plan needs no memory
 * there. */
tn__block *tn__pool_of(const tn_program *p, int32_t device);
/* Whether a step is too short to hand it to another thread. */
static inline bool tn__step_is_small(const tn__step *step) {
  if (step->kind == TN__STEP_CALL || step->kind == TN__STEP_FUSED)
    return step->info.small;
  return step->kind != TN__STEP_LOOP;
}
/* TN__JOB_ASYNC and TN__JOB_TOLD of a step's job. A step with one of them is
 * alone in its job. */
static inline uint32_t tn__step_job_flags(const tn__step *step,
                                          uint32_t train) {
  return step->kind == TN__STEP_CALL && step->call[train]
             ? tn__planned_job_flags(step->call[train])
             : 0;
}
/* Allocates the memory of a planned call. */
tn_code tn__step_materialise(tn__step *step, uint32_t train);
/* Sets *out to `bytes` of workspace for a step, in the part of the pool that
 * the plan reserves for it. A call that was planned later (for training) may
 * need more; then the step gets memory of its own. *out is NULL for 0 bytes. */
tn_code tn__step_workspace(const tn__step *step, size_t bytes, void **out);
/* Allocates the memory for all results of the program. */
tn_code tn__program_alloc_memory(tn_program *p, const tn_bind *how);
/* Sets step->run and the data that it needs. */
void tn__step_set_run(tn__step *step);
/* Steps [first, first + n) of a program in one kind of run. All runs issue
 * their steps as ranges: a job of a schedule, an operation on a queue, a
 * recording, a run that stops on the way. */
typedef struct tn__step_range {
  tn_program *program;
  uint32_t first;
  uint32_t n;
  uint32_t train; /* 1: with TN_CALL_TRAIN */
} tn__step_range;
static inline tn__step_range tn__range_forward(tn_program *p, uint32_t train) {
  return (tn__step_range){p, 0, p->n_forward, train};
}
static inline tn__step_range tn__range_backward(tn_program *p) {
  return (tn__step_range){p, p->n_forward, p->n_steps - p->n_forward, 1};
}
/* Runs steps in order on the calling thread, without the engine. */
tn_code tn__range_run(const tn__step_range *range, tn__token *token);
/* Enqueues steps while a device records. `changes` is the address, on the
 * device, of the values that change between runs; NULL: there are none. */
tn_code tn__range_record(const tn__step_range *range, const char *changes,
                         tn__token *token);
/* Makes a sequence of the steps as one schedule; as operations if the program
 * is `queued`: schedules support neither queues nor asynchronous jobs. */
tn_code tn__sequence_make(tn__sequence *sequence, const tn__step_range *range);

tn_code tn__sequence_push(const tn_program *p, const tn__sequence *sequence);
/* Pushes a part of a sequence: its operations that begin a run, then those of
 * the segments [first, first + n). */
tn_code tn__sequence_push_part(const tn_program *p,
                               const tn__sequence *sequence, uint32_t first,
                               uint32_t n);
void tn__sequence_end(const tn_program *p, tn__sequence *sequence);

/* device_steps.c: the queue of a step; NULL: the host's workers. */
tn__queue *tn__step_queue(const tn__step *step);
/* Whether a copy goes from one device to another through a queue. */
bool tn__step_crosses(const tn__step *step);
/* Fails with TN_UNSUPPORTED if the device of a step cannot compute it. */
tn_code tn__device_steps_check(tn_program *p);
/* Runs a copy between devices. */
tn_code tn__device_steps_copy(const tn__step *step, uint32_t train,
                              tn__token *token);

/* capture.c: pushes one run of a sequence. If tn_bind.flags asks for recorded
 * runs, the first run goes step by step, the second one records, unless there
 * is a reason against it, and later ones launch the recording. */
tn_code tn__capture_push(tn__sequence *sequence, const tn__step_range *range);
/* The caller pushes nothing any more. */
void tn__capture_stop(const tn__sequence *sequence);
/* Frees the recording; no run is pending. */
void tn__capture_free(tn__sequence *sequence);

/* Lists the accesses of the steps together, as those of one job. The caller
 * frees *access. */
tn_code tn__part_list_uses(const tn__step_range *range, tn__access **access,
                           uint32_t *n_access);
/* Runs steps on the calling thread, ordered by the program's turn. */
tn_code tn__part_run(const tn__step_range *range);
/* Plans the calls for a kind of run that is new for the program. */
tn_code tn__calls_complete(tn_program *p, uint32_t train);
/* Copies the parameters that tn__program_set has changed in `from`, a program
 * of the same graph. */
tn_code tn__program_copy_params(tn_program *p, const tn_program *from);

/* Runs a loop. */
tn_code tn__iteration_run(const tn__step *step, uint32_t train,
                          tn__token *token);

/* Waits until no run of the program is pending. Returns false within a function
 * of the engine, which cannot wait. */
bool tn__program_wait_runs(tn_program *p);
/* Marks the begin of a run. */
void tn__program_begin_run(tn_program *p);
void tn__program_hold(tn_program *p);
void tn__program_unhold(tn_program *p);

#endif /* TENON_GRAPH_PROGRAM_H_ */
