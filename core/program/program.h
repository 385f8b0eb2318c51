/* SPDX-License-Identifier: Apache-2.0
 * program.h: a program, which is a graph that is ready to run. The folders
 * core/program, core/execution and core/bind share it.
 *
 * program_bind.c goes through these stations, each a function of its file:
 *
 *   bind_*.c           arguments, requests and outputs of the user; the copy of
 *                      the graph with gradients, inferred, rewritten by passes
 *                      (binding.h)
 *   placement.c        devices of the nodes, copies between devices
 *   steps.c            the nodes of the copy as steps, in order of execution
 *   arrays.c           an array without memory for each entry; with these, a
 *                      kernel for each step
 *   recompute_steps.c  forward steps that run twice to save memory
 *   pair_steps.c       two steps that one operator computes together
 *   fusion.c           runs of steps that become one
 *   alias.c            results that have the elements of an input
 *   program_memory.c   input of the memory planner, and memory by its plan
 *   bind_loops.c       programs of loops
 *
 * Runs go through these:
 *
 *   program.c          lifetime, runs, queries
 *   segments.c         steps as jobs of one schedule, or as operations
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

/* One entry of a program: the entries of the graph, by their number, and after
 * them partial sums. */
typedef struct tn__value {
  tn_array *array; /* retained; NULL: the entry is not used */
  uint32_t flags;  /* TN__ENTRY_* of plan.h */
  tn_req request;  /* how its writer writes it; NULL: only its shape is read */
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
  tn__device *device;   /* where it runs; its operands are there, except the
                           input of a COPY */
  uint32_t *in;         /* entries; TN_NONE: absent */
  uint32_t *out;        /* entries; TN_NONE: not read */
  bool *shape_only;     /* n_in, or NULL: inputs of which only the shape is
                           read */
  bool repeats;         /* tn__node_is_repeatable */
  tn__planned *call[2]; /* by tn_program_forward's TN_CALL_TRAIN */
  tn__direct_call direct[2]; /* the same as direct calls of kernels; or zeros */
  tn__planned *watch[2]; /* of a part that a monitor watches: a separate call
                            on all of its operands */
  tn__planned_info info;
  size_t reserved; /* bytes of workspace that the plan reserves for it */
  tn__var *signal; /* it overwrites this; NULL: no step waits for it by name */
  uint32_t n_after;
  tn__var **after;  /* signals of the steps that it waits for, in addition to
                       its inputs */
  tn__step **parts; /* FUSED; or the two steps that `joint` computes */
  uint32_t n_parts;
  tn_params *joint; /* CALL: parameters of the operator of a fused pair,
                       which replaces the node's operator; retained. NULL: no
                       fused pair */
  struct tn__fused *fused;
  struct tn__iteration *loop; /* LOOP */
  const char *why_not;        /* the reason why it is not fused; NULL: it may
                                 be */
  const tn__step *other;      /* an earlier step that could form a fused pair
                                 with this one; or NULL */
  const char *pair_refusal;   /* the reason why it does not */
};

/* The call of a step, or NULL: a part of a fused step has one for both kinds of
 * run. */
static inline const tn__planned *tn__step_call(const tn__step *step) {
  return step->call[0] ? step->call[0] : step->call[1];
}

/* Internal bit of tn_bind.flags: the steps run in order on one thread. */
#define TN__BIND_SERIAL (1u << 31)

/* Steps that run together: all forward ones, or all backward ones. */
typedef struct tn__sequence {
  struct tn__segment_run *segments; /* the arguments of its jobs (segments.c);
                                       NULL: it never ran */
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

struct tn_program {
  tn__caller *caller;
  const tn__env *env;      /* kept alive */
  _Atomic int32_t n_holds; /* number of holds: its owner's, and one per
                              schedule */
  tn__device *device;      /* the default device */
  tn__device **devices;    /* all devices of the program, by the planner's
                              numbers */
  uint32_t n_devices;
  tn__device **where; /* by node of the graph: its device; NULL: all on the
                         default device. Copies between devices may follow
                         their readers in the list of nodes: use the order of
                         tn__order_make */
  tn__vec shapes;     /* of tn_array *: see tn__arrays_make */
  tn__vec rooms;      /* of tn__block *: workspaces that are not in the plan */
  bool queued;        /* at least one of its devices has queues */
  bool settled;       /* its owner has released it and waited for all runs */
  tn_graph *graph;    /* owned */
  tn_graph *source;   /* copy of the user's graph, for tn_program_reshape */
  tn_bind how;        /* the options of the bind, without borrowed pointers */
  tn__arena arena;
  tn__value *values;
  uint32_t n_values;
  uint32_t n_forward; /* steps; the others are backward */
  tn__step **steps;
  uint32_t n_steps;
  tn_entry *heads;
  tn_entry *weights; /* variables for the output gradients, or NULL */
  uint8_t *losses;   /* n_heads: tn__loss */
  uint8_t *lent;     /* n_heads: the user passed its array */
  uint8_t *late;     /* n_heads: written into an argument, so after all readers
                        of the argument */
  uint32_t n_heads;
  uint32_t n_arguments; /* arguments, then states */
  uint32_t n_states;
  tn_entry *arguments;
  tn_entry *gradients; /* n_arguments; TN_ENTRY_NONE: none */
  tn__block **pools;   /* plan.n_pools, retained; NULL for an empty one */
  tn__memory_plan plan;
  bool planned;
  bool least; /* other recomputed steps would not need less memory */
  bool wide;  /* the plan adds no waits between steps */
  tn__sequence forward[2]; /* without and with TN_CALL_TRAIN */
  tn__sequence backward;
  tn__sequence single[3]; /* the same three, for runs that stop on the way if
                             there are queues */
  tn_monitor_fn *monitor;
  void *monitor_ctx;
  bool watched; /* the monitor has been called and has not returned */
  tn_program_stats stats;
  uint64_t loop_steps;        /* of one run, including loops inside of loops */
  uint32_t trained;           /* the last forward run had TN_CALL_TRAIN */
  bool set;                   /* parameters differ from those of the graph */
  tn__visible_arrays seen[2]; /* written by the forward and by the backward
                                 part */
  tn__var turn;               /* overwritten by each run */
  tn__var *signals;           /* of steps; from the environment's allocator */
  uint32_t n_signals;
};

enum { /* tn__loss of a head */
       TN__LOSS_NOT = 0,
       TN__LOSS = 1,     /* its output gradient is ones if the user passes
                            none */
       TN__LOSS_ONES = 2 /* and the array of its output gradient contains
                            ones already */
};

static inline tn_array *tn__value_array(const tn_program *p, uint32_t entry) {
  return entry == TN_NONE ? NULL : p->values[entry].array;
}

/* Labels each node with the name of its group, so that its gradients inherit
 * it; "" is the default device. Does nothing without groups. */
tn_code tn__placement_label(tn_program *p);
/* The device of a node. */
static inline tn__device *tn__node_device(const tn_program *p, uint32_t node) {
  return p->where ? p->where[node] : p->device;
}
/* The planner's number of a device. */
int32_t tn__device_number(const tn_program *p, const tn__device *device);

/* Makes p->steps of the nodes that the forward and `backward` heads need. */
tn_code tn__steps_make(tn_program *p, const tn_entry *backward,
                       uint32_t n_backward);
/* Creates an array without memory for each entry that has none. If a step reads
 * only the shape of an entry on another device, an array of p->shapes replaces
 * the entry. */
tn_code tn__arrays_make(tn_program *p);
/* Writes a number into every element of an array. */
tn_code tn__array_fill(const tn_program *p, tn_array *to, double value);
/* Whether an array is like an entry; NULL is. tn__value_check
 * returns the same as a code: TN_SHAPE with a text that begins with `what`. */
bool tn__value_is_like(const tn_program *p, uint32_t entry,
                       const tn_array *array);
tn_code tn__value_check(const tn_program *p, uint32_t entry,
                        const tn_array *array, const char *what);
/* Plans the call of a step for one kind of run; replaces the previous *slot. */
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
/* Adds repeated forward steps if the user limits the memory. */
tn_code tn__steps_recompute(tn_program *p, const tn_bind *how);
/* Makes one step of two calls that an operator of a fused pair computes. */
tn_code tn__steps_pair(tn_program *p);
/* Fills step->info from the call of the step. Its workspace also serves the
 * parts, for monitored runs. */
void tn__step_describe(tn__step *step, uint32_t train);
/* Makes one step of each run of elementwise calls. */
tn_code tn__steps_fuse(tn_program *p);
/* The place of an entry in the plan; NULL if the plan does not contain it. */
static inline const tn__plan_place *tn__plan_place_of(const tn_program *p,
                                                      uint32_t entry) {
  const uint32_t place = p->values[entry].place;
  return place == TN_NONE ? NULL : &p->plan.places[place];
}
/* alias.c: the input of a call, forward or BACKWARD, that output `i` equals, so
 * that the plan may put both into one place; TN_NONE: none. */
uint32_t tn__step_find_alias(const tn__step *step, uint32_t i);
/* Whether the plan has put output `i` into the place of that input. */
bool tn__step_is_alias(const tn__step *step, uint32_t i);
/* The memory of a device; NULL if the plan needs none there. */
tn__block *tn__pool_of(const tn_program *p, int32_t device);
/* Whether a step is too short to hand it to another thread. */
static inline bool tn__step_is_small(const tn__step *step) {
  if (step->kind == TN__STEP_CALL || step->kind == TN__STEP_FUSED)
    return step->info.small;
  return step->kind != TN__STEP_LOOP;
}
/* Allocates the memory of a planned call. */
tn_code tn__step_materialise(tn__step *step, uint32_t train);
/* `bytes` of workspace: the part of the pool that the plan reserves for the
 * step. If a call was planned later (for training) and needs more, memory of
 * its own. NULL for 0 bytes. */
tn_code tn__step_workspace(const tn__step *step, size_t bytes, void **out);
/* Allocates the memory for all results of the program. */
tn_code tn__program_alloc_memory(tn_program *p, const tn_bind *how);
/* Sets step->run and the data that it needs. */
void tn__step_set_run(tn__step *step);
/* Runs steps in order on the calling thread, without the engine. */
tn_code tn__steps_run(const tn_program *p, uint32_t first, uint32_t n,
                      uint32_t train, tn__token *token);
/* Makes a schedule of `n` steps. If a device has queues it makes operations,
 * because schedules do not support queues. */
tn_code tn__sequence_make(tn_program *p, tn__sequence *sequence, uint32_t first,
                          uint32_t n, uint32_t train);

tn_code tn__sequence_push(const tn_program *p, const tn__sequence *sequence);
/* Pushes its begin operations, then the operations of segments [first, first +
 * n). */
tn_code tn__sequence_push_part(const tn_program *p,
                               const tn__sequence *sequence, uint32_t first,
                               uint32_t n);
void tn__sequence_end(const tn_program *p, tn__sequence *sequence);

/* device_steps.c: the queue of a step; NULL: the host's workers. */
tn__queue *tn__step_queue(const tn__step *step);
/* Whether a copy goes from one device to another through a queue. */
bool tn__step_crosses(const tn__step *step);
/* TN_UNSUPPORTED for steps that their device cannot compute. */
tn_code tn__device_steps_check(tn_program *p);
/* Runs a copy between devices. */
tn_code tn__device_steps_copy(const tn__step *step, uint32_t train,
                              tn__token *token);

/* capture.c: pushes one run of a sequence, steps [first, first + n), that the
 * user wants recorded (tn_bind.flags). The first run is step by step. The
 * second one records, unless there is a reason against it. Later ones launch
 * the recording. */
tn_code tn__capture_push(tn_program *p, tn__sequence *sequence, uint32_t first,
                         uint32_t n, uint32_t train);
/* The caller pushes nothing any more. */
void tn__capture_stop(const tn__sequence *sequence);
/* Frees the recording; no run is pending. */
void tn__capture_free(tn__sequence *sequence);

/* The accesses of `n` steps together; the caller frees *access. */
tn_code tn__part_list_uses(tn_program *p, uint32_t first, uint32_t n,
                           uint32_t train, tn__access **access,
                           uint32_t *n_access);
/* Runs steps on the calling thread, ordered by the program's turn. */
tn_code tn__part_run(tn_program *p, uint32_t first, uint32_t n, uint32_t train);
/* Plans the calls for a kind of run that is new for the program. */
tn_code tn__calls_complete(tn_program *p, uint32_t train);
/* Copies the parameters that tn__program_set has changed in another program of
 * this graph. */
tn_code tn__program_copy_params(tn_program *p, const tn_program *from);

/* Runs a loop. */
tn_code tn__iteration_run(const tn__step *step, uint32_t train,
                          tn__token *token);

/* Returns when no run is pending; false inside of a function of the engine,
 * which cannot wait. */
bool tn__program_wait_runs(tn_program *p);
/* Marks the begin of a run. */
void tn__program_begin_run(tn_program *p);
void tn__program_hold(tn_program *p);
void tn__program_unhold(tn_program *p);

#endif /* TENON_GRAPH_PROGRAM_H_ */
