/* SPDX-License-Identifier: Apache-2.0
 * program.h: a graph that was made ready to run. Inside core/graph only.
 *
 * bind.c goes through these stations, each a function of the file that is named
 * after it:
 *
 *   bind_*.c   what the user gave: arguments, requests, outputs; the graph's
 *              copy with gradients in it, inferred, rewritten by passes
 *              (binding.h)
 *   place.c    where its nodes run, and copies between devices
 *   steps.c    the copy's nodes in the order of execution, as steps
 *   arrays.c   an array for each entry, without memory; with them, a kernel
 *              for each step
 *   again.c    forward steps that are made twice to save memory
 *   join.c     two steps that an operator computes in one go
 *   fuse.c     runs of steps that become one
 *   same.c     results that lie where an input does
 *   memory.c   the planner's net of steps and entries; its answer: memory
 *   run.c      what steps do; iteration.c the steps of a loop, tiles.c those
 *              of a fused step, chain.c where they are links
 *   jobs.c     steps as jobs of one schedule of the engine, or as operations
 *   queued.c   steps on devices with queues
 *   captured.c a device records a run, and is given that from then on
 *   program.c  life, runs, questions
 */
#ifndef TENON_GRAPH_PROGRAM_H_
#define TENON_GRAPH_PROGRAM_H_

#include "graph.h"
#include "plan.h"

typedef struct tn__step tn__step;

/* ------------------------------------------------------------------ entries */

/* One entry of a program: those of the graph, by their number, and behind them
 * partial sums. */
typedef struct tn__value {
  tn_array *array; /* retained; NULL: nobody asks for it */
  uint32_t flags;  /* TN__ENTRY_* of plan.h */
  tn_req request;  /* how its writer writes it; NULL: only its shape counts */
  uint32_t step;   /* its writer; TN_NONE: a variable */
  uint32_t n_uses; /* steps that read its elements */
  uint32_t place;  /* its number for the planner; TN_NONE: it has none */
  tn__device *device; /* where it lies */
} tn__value;

/* -------------------------------------------------------------------- steps */

enum {                      /* tn__step.kind */
       TN__STEP_CALL = 0,   /* forward or backward call of a kernel */
       TN__STEP_ADD = 1,    /* out = in[0] + in[1] */
       TN__STEP_FILL = 2,   /* zeros or ones */
       TN__STEP_COPY = 3,   /* out = in[0] */
       TN__STEP_LOOP = 4,   /* a program, again and again */
       TN__STEP_FUSED = 5,  /* `parts`, tile by tile */
       TN__STEP_NOTHING = 6 /* done by others */
};

struct tn__step {
  tn_code (*run)(const tn__step *step, uint32_t train, tn__token *token);
  tn_program *program;
  const tn__node *node;
  uint32_t kind;
  uint32_t id;
  uint32_t n_in;
  uint32_t n_out;
  tn__device *device; /* where it runs: all that it reads and writes lies there,
                         but for what a COPY reads */
  uint32_t *in;       /* entries; TN_NONE: absent */
  uint32_t *out;      /* entries; TN_NONE: nobody reads it */
  bool *shape_only;   /* n_in, or NULL: of which inputs only the shape counts */
  bool repeats;       /* tn__node_is_repeatable */
  tn__planned *call[2];  /* by tn_program_forward's TN_CALL_TRAIN */
  tn__direct direct[2];  /* the same as calls of kernels; or zeros */
  tn__planned *watch[2]; /* of a part that a monitor watches: a call of its own,
                            on all of its operands */
  tn__planned_info info;
  size_t reserved; /* bytes of workspace that the plan has for it */
  tn__var *signal; /* overwritten by it; NULL: nobody waits for it by name */
  uint32_t n_after;
  tn__var **after;  /* signals of steps that it waits for beside its inputs */
  tn__step **parts; /* FUSED; or the two that `joint` computes */
  uint32_t n_parts;
  tn_params *joint; /* CALL: of the operator that is called in place of the
                       node's; retained. NULL: of that */
  struct tn__fused *fused;
  struct tn__iteration *loop; /* LOOP */
  const char *why_not;        /* it is not fused; NULL: it may be */
  const tn__step *other;      /* one before it, which a joint could be made of,
                                 and why it is not; or NULL */
  const char *apart;
};

/* A call of it, if there is one: a part of a fused step has one for both kinds
 * of run. */
static inline const tn__planned *tn__step_call(const tn__step *step) {
  return step->call[0] ? step->call[0] : step->call[1];
}

/* tn_bind.flags inside: its steps run one after the other on one thread. */
#define TN__BIND_SERIAL (1u << 31)

/* Steps that run together: all forward ones, or all backward ones. */
typedef struct tn__sequence {
  struct tn__segment_run
      *segments;          /* what its jobs run (jobs.c); NULL: it never ran */
  tn__schedule *schedule; /* NULL where there are operations */
  /* One for each chain, and before them `n_begins` that take the pools. */
  tn__operation **operations;
  uint32_t n_operations;
  uint32_t n_begins;
  bool single; /* a chain for each step, whatever devices there are */
  struct tn__capture *captured; /* NULL: not asked for, or not run yet */
} tn__sequence;

/* Arrays that users see; borrowed from the values. */
typedef struct tn__visible_arrays {
  tn_array **arrays;
  uint32_t n;
} tn__visible_arrays;

struct tn_program {
  tn__caller *caller;
  const tn__env *env;      /* kept alive */
  _Atomic int32_t n_holds; /* its owner, and each schedule */
  tn__device *device;      /* the default place */
  tn__device **devices;    /* all that it uses, by the planner's numbers */
  uint32_t n_devices;
  tn__device **where; /* by node of the graph: where it runs; NULL: by default.
                         Copies between devices may stand behind their readers:
                         the order of nodes is that of tn__order_make only */
  tn__vec shapes;     /* tn_array *: see tn__arrays_make */
  tn__vec rooms;    /* tn__block *: workspaces that the plan has no room for */
  bool queued;      /* one of its devices has queues */
  bool settled;     /* its owner has gone, and waited for all runs */
  tn_graph *graph;  /* its own */
  tn_graph *source; /* the user's, copied, for tn_program_reshape */
  tn_bind how;      /* as it was bound, without what was borrowed */
  tn__arena arena;
  tn__value *values;
  uint32_t n_values;
  uint32_t n_forward; /* steps; the others are backward */
  tn__step **steps;
  uint32_t n_steps;
  tn_entry *heads;
  tn_entry *weights; /* variables for the gradients of the heads, or NULL */
  uint8_t *losses;   /* n_heads: tn__loss */
  uint8_t *lent;     /* n_heads: its array was given */
  uint8_t *late; /* n_heads: written into an argument, so behind all that may
                    read it */
  uint32_t n_heads;
  uint32_t n_arguments; /* arguments, then states */
  uint32_t n_states;
  tn_entry *arguments;
  tn_entry *gradients; /* n_arguments; TN_ENTRY_NONE: none */
  tn__block **pools;   /* plan.n_pools, retained; NULL for an empty one */
  tn__memory_plan plan;
  bool planned;
  bool least; /* computing other steps again would not take less memory */
  bool wide;  /* the plan makes no step wait that need not */
  tn__sequence forward[2]; /* without and with TN_CALL_TRAIN */
  tn__sequence backward;
  tn__sequence single[3]; /* the same three, for runs that stop on the way
                             where there are queues */
  tn_monitor_fn *monitor;
  void *monitor_ctx;
  bool watched; /* the monitor has been called and has not returned */
  tn_program_stats stats;
  uint64_t loop_steps; /* of one run, those of loops in loops included */
  uint32_t trained;    /* the last forward run had TN_CALL_TRAIN */
  bool set;            /* parameters are not those of the graph any more */
  tn__visible_arrays seen[2]; /* that the forward and the backward part write */
  tn__var turn;               /* overwritten by each run */
  tn__var *signals;           /* of steps; from the environment's allocator */
  uint32_t n_signals;
};

enum { /* tn__loss: of a head */
       TN__LOSS_NOT = 0,
       TN__LOSS = 1,     /* its gradient is ones where none is given */
       TN__LOSS_ONES = 2 /* and its weight is filled with ones already */
};

static inline tn_array *tn__value_array(const tn_program *p, uint32_t entry) {
  return entry == TN_NONE ? NULL : p->values[entry].array;
}

/* Labels each node with the group that it belongs to, so that gradients take it
 * over; "" is the default place. Nothing to do where there are no groups. */
tn_code tn__placement_label(tn_program *p);
/* Where a node runs. */
static inline tn__device *tn__node_device(const tn_program *p, uint32_t node) {
  return p->where ? p->where[node] : p->device;
}
/* The planner's number of a device. */
int32_t tn__device_number(const tn_program *p, const tn__device *device);

/* Makes p->steps of the nodes that `forward` and `backward` heads need. */
tn_code tn__steps_make(tn_program *p, const tn_entry *backward,
                       uint32_t n_backward);
/* An array for each entry that has none, without memory. Where a step looks at
 * no more than the shape of what lies on another device, an array of p->shapes
 * stands in for it. */
tn_code tn__arrays_make(tn_program *p);
/* Plans the call of a step for one kind of run; replaces what was in *slot. */
tn_code tn__step_plan(tn__step *step, uint32_t train, tn__planned **slot);
/* Chooses kernels: step->info. */
tn_code tn__steps_choose(tn_program *p);
/* The planner's picture of a program; from the environment's allocator. */
typedef struct tn__plan_input {
  tn__plan_net net;
  tn__plan_node *nodes;
  tn__plan_entry *entries;
} tn__plan_input;
tn_code tn__plan_input_make(tn_program *p, tn__plan_input *net);
void tn__plan_input_free(const tn_program *p, tn__plan_input *net);
void tn__plan_options_of(const tn_bind *how, tn__plan_options *out);
/* Repeats forward steps, if the user limits the memory. */
tn_code tn__steps_recompute(tn_program *p, const tn_bind *how);
/* Two calls that an operator computes in one go become one step. */
tn_code tn__steps_pair(tn_program *p);
/* What is known of a step's call: step->info. Its workspace serves the parts as
 * well, for when they are watched. */
void tn__step_describe(tn__step *step, uint32_t train);
/* Runs of elementwise calls become one step each. */
tn_code tn__steps_fuse(tn_program *p);
/* Where the plan puts an entry; NULL if it does not know it. */
static inline const tn__plan_place *tn__plan_place_of(const tn_program *p,
                                                      uint32_t entry) {
  const uint32_t place = p->values[entry].place;
  return place == TN_NONE ? NULL : &p->plan.places[place];
}
/* same.c: the input of a call, forward or BACKWARD, that output `i` equals, so
 * that the plan may let it lie there; TN_NONE: none. */
uint32_t tn__step_find_alias(const tn__step *step, uint32_t i);
/* Whether the plan has done so. */
bool tn__step_is_alias(const tn__step *step, uint32_t i);
/* The memory of a device; NULL if the plan wants none there. */
tn__block *tn__pool_of(const tn_program *p, int32_t device);
/* Whether a step is so short that handing it to another thread costs more. */
static inline bool tn__step_is_small(const tn__step *step) {
  if (step->kind == TN__STEP_CALL || step->kind == TN__STEP_FUSED)
    return step->info.small;
  return step->kind != TN__STEP_LOOP;
}
/* Gives a planned call its memory. */
tn_code tn__step_materialise(tn__step *step, uint32_t train);
/* Memory for so many bytes of workspace: where the plan has put that of the
 * step; or its own, for a call that was planned later, as for training, and
 * wants more. NULL if it wants none. */
tn_code tn__step_workspace(const tn__step *step, size_t bytes, void **out);
/* Memory for all that the program computes. */
tn_code tn__program_alloc_memory(tn_program *p, const tn_bind *how);
/* What the step does when it runs. */
void tn__step_set_run(tn__step *step);
/* One after the other, on the calling thread, without the engine. */
tn_code tn__steps_run(const tn_program *p, uint32_t first, uint32_t n,
                      uint32_t train, tn__token *token);
/* Makes a schedule of `n` steps, or operations if one of the devices has
 * queues, which schedules know nothing of. */
tn_code tn__sequence_make(tn_program *p, tn__sequence *sequence, uint32_t first,
                          uint32_t n, uint32_t train);
/* One of the program's, by a number; NULL beyond the last. */
tn__sequence *tn__sequence_at(tn_program *p, uint32_t i);

tn_code tn__sequence_push(const tn_program *p, const tn__sequence *sequence);
/* Its begins, and the operations of chains [first, first + n) behind them. */
tn_code tn__sequence_push_part(const tn_program *p,
                               const tn__sequence *sequence, uint32_t first,
                               uint32_t n);
void tn__sequence_end(const tn_program *p, tn__sequence *sequence);

/* queued.c: on which queue a step stands; NULL: the host's workers. */
tn__queue *tn__step_queue(const tn__step *step);
/* Whether a copy goes from one device to another, on a queue. */
bool tn__step_crosses(const tn__step *step);
/* TN_UNSUPPORTED for steps that there is nothing for on their device. */
tn_code tn__device_steps_check(tn_program *p);
/* A copy that crosses. */
tn_code tn__device_steps_copy(const tn__step *step, uint32_t train,
                              tn__token *token);
/* Runs steps, and returns when they are done with. */
tn_code tn__device_steps_run(tn_program *p, uint32_t first, uint32_t n,
                             uint32_t train);

/* captured.c: runs of a sequence, steps [first, first + n), that tn_bind.flags
 * wants recorded. The first is made step by step, the second records, if there
 * is nothing against it, and those that follow are launches. Pushes one. */
tn_code tn__capture_push(tn_program *p, tn__sequence *sequence, uint32_t first,
                         uint32_t n, uint32_t train);
/* Nothing is pushed any more. */
void tn__capture_stop(const tn__sequence *sequence);
/* No run is on its way. */
void tn__capture_free(tn__sequence *sequence);

/* bind_states.c: writes a number into every element of an array. */
tn_code tn__array_fill(const tn_program *p, tn_array *to, double value);

/* bind_given.c: whether an array, if there is one, is like an entry; and the
 * same as a code, TN_SHAPE with a text that begins with `what`. */
bool tn__value_is_like(const tn_program *p, uint32_t entry,
                       const tn_array *array);
tn_code tn__value_check(const tn_program *p, uint32_t entry,
                        const tn_array *array, const char *what);
/* What `n` steps read and write together; the caller frees *access. */
tn_code tn__part_list_uses(tn_program *p, uint32_t first, uint32_t n,
                           uint32_t train, tn__access **access,
                           uint32_t *n_access);
/* Runs them on the calling thread, in their turn. */
tn_code tn__part_run(tn_program *p, uint32_t first, uint32_t n, uint32_t train);
/* Calls for a kind of run that was not asked for until now. */
tn_code tn__calls_complete(tn_program *p, uint32_t train);
/* Takes what tn__program_set has changed in another program of this graph. */
tn_code tn__program_copy_params(tn_program *p, const tn_program *from);

/* iteration.c: a loop, when the program around it has its memory. */
tn_code tn__iteration_make(tn__step *step);
tn_code tn__iteration_complete(tn__step *step, uint32_t train);
tn_code tn__iteration_run(const tn__step *step, uint32_t train,
                          tn__token *token);
const tn_program *tn__iteration_program(const tn__step *step);
void tn__iteration_free(tn__step *step);

/* Returns when no run is on its way; false from inside of a function, which
 * cannot wait. */
bool tn__program_wait_runs(tn_program *p);
/* A run of it begins. */
void tn__program_begin_run(tn_program *p);
void tn__program_hold(tn_program *p);
void tn__program_unhold(tn_program *p);

#endif /* TENON_GRAPH_PROGRAM_H_ */
