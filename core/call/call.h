/* SPDX-License-Identifier: Apache-2.0
 * call.h: the state of one call, for the files of core/call only.
 *
 * A call like an earlier one, on arrays that no operation uses, takes the fast
 * path (fast_call.c): compare with the recipe, compute, return. Other calls
 * take the slow path: assign operands (operands.c), infer, resolve outputs
 * (outputs.c), check overlap (overlap.c), choose a kernel, lower and prepare
 * (call_plan.c with lower.c and recipe.c), and launch (launch.c). The launch
 * pushes a job that computes (call_run.c) and releases the state. The plugin
 * may complete it later (later.c). No step before that job reads an element of
 * an array. forward_call.c and backward_call.c call these steps in order.
 */
#ifndef TENON_CALL_H_
#define TENON_CALL_H_

#include "calls.h"
#include "floating.h"

enum {
  TN__INLINE_OPERANDS = 16, /* calls with more of them use heap memory */
  TN__MAX_RANDOM = 4,       /* most random streams of one kernel */
  /* Variables besides operands: random stream, order, scratch space, kernels
   * that are not reentrant. */
  TN__MORE_ACCESS = 4
};

enum { /* tn__operand.before: content of its memory when the kernel starts */
       TN__BEFORE_NOTHING = 0,
       TN__BEFORE_ZERO = 1,
       TN__BEFORE_COPY = 2 /* of input `source` */
};

enum { /* tn__operand.after: how `temp` reaches `array` */
       TN__AFTER_NOTHING = 0,
       TN__AFTER_COPY = 1,
       TN__AFTER_ADD = 2,
       TN__AFTER_SUM = 3,    /* summed over the dimensions of a broadcast */
       TN__AFTER_SUM_ADD = 4 /* and added */
};

enum { TN__HELD_ARRAY = 1, TN__HELD_TEMP = 2 }; /* tn__operand.held */

/* An operand as the host knows it, besides the tensor that the kernel gets. */
typedef struct tn__operand {
  const tn_arg *arg;
  const char *role; /* "input", "gradient of output"; for messages */
  tn_array *array;  /* the caller's or, if `owned`, created by this call */
  tn_array *temp; /* the kernel gets it instead of `array`; NULL: none; owned */
  int32_t member; /* position in a variadic operand, or -1 */
  int32_t source; /* input that it starts as a copy of, or -1 */
  uint8_t owned;
  uint8_t held; /* TN__HELD_*: arrays that the job holds */
  uint8_t before;
  uint8_t after;
  uint32_t dynamic; /* output: the kernel sets its shape */
} tn__operand;

/* Frees the results of a kernel's `prepare`. */
static inline void tn__plan_destroy(const tn_plan *plan) {
  const tn__floating floating = tn__floating_get();
  if (plan->destroy) plan->destroy(plan->prepared);
  tn__floating_keep(&floating);
}

/* True if a call with these flags changes the state; other calls read it. */
static inline bool tn__call_changes_state(const tn_arg *arg, uint32_t flags) {
  return !(arg->flags & TN_ARG_TRAINED) || (flags & TN_CALL_TRAIN) != 0;
}

/* Numbers of operands. */
typedef struct tn__operand_counts {
  uint32_t n_in; /* of the operator, forward */
  uint32_t n_out;
  uint32_t n_aux;
  uint32_t n_visible; /* outputs that are not hidden */
} tn__operand_counts;

/* Everything that a call of a kernel needs, except for the tensors of the
 * frame. */
typedef struct tn__launch {
  tn__caller *caller;
  tn_operator *op;
  tn__kernel *kernel;
  const tn__operand *operands; /* in, out, aux; for messages */
  tn_frame frame;
  tn_run run;
  tn_random random[TN__MAX_RANDOM];
  const tn_random *random_list[TN__MAX_RANDOM];
  void *ws[TN_MAX_WORKSPACES + 1]; /* and one of a recorded call */
  uint64_t ws_bytes[TN_MAX_WORKSPACES];
  tn__slot slot;
} tn__launch;

/* The kept result of preparing one kind of call: everything that a kernel's
 * `prepare` may depend on, and its answer. Counted; immutable except for
 * `launch`, which belongs to the thread inside of the gate (fast_call.c). */
typedef struct tn__recipe {
  const tn__env *env;
  _Atomic int64_t n_owners;
  tn__kernel *kernel; /* counted as a call of it and of the operator */
  uint64_t epoch;     /* of the registry; older recipes are not used */
  uint32_t pass;
  uint32_t flags;
  tn_params *params;       /* a copy; NULL: the operator has none */
  _Atomic uint64_t serial; /* of the last params with these values */
  uint32_t n_in;
  uint32_t n_out;
  uint32_t n_aux;
  uint32_t n_visible;   /* outputs that a caller must pass a place for */
  tn_tensor *caller_in; /* inputs as the caller passed them; ndim -1: absent */
  tn_tensor *in;        /* in, out, aux in one array; it owns their shapes */
  tn_tensor *out;
  tn_tensor *aux;
  uint32_t *in_flags;
  tn_req *req;
  int32_t *alias;
  tn__operand *operands; /* without arrays */
  tn_plan plan;
  size_t ws_total; /* of all workspaces, in one piece of memory */
  size_t ws_offset[TN_MAX_WORKSPACES];
  uint32_t n_random;
  /* For the fast path. */
  tn__device *device; /* the device of its arrays */
  uint8_t ordered;    /* TN_RESOURCE_ORDER */
  uint8_t direct; /* nothing is lowered, on the cpu: operands go to the frame */
  uint8_t small;  /* short enough for the calling thread */
  uint8_t closed; /* its inputs determine its outputs */
  uint8_t shared; /* long enough to share with workers */
  tn__launch launch;
} tn__recipe;

/* The ticket of a call that completes later (later.c). */
struct tn_later {
  _Atomic uint32_t state;
  tn_code code; /* of tn_host.complete */
  struct tn__call_state *call;
  tn__token *token; /* of an asynchronous job; NULL: a thread waits */
  bool is_async;    /* the job of the call is asynchronous */
  uint64_t begin;   /* of its span; 0: there is no trace */
  tn_code (*name_failure)(const void *node, tn_code code); /* or NULL */
  const void *node;
};

typedef struct tn__call_state {
  _Atomic int32_t n_owners; /* the caller, and the job */
  uint32_t pass;
  tn__caller *caller;
  tn_operator *op; /* held */
  const tn_op *desc;
  const tn_params *call_params; /* borrowed until it is planned; NULL: none */
  const void *params;    /* their struct; later that of the recipe's copy */
  uint32_t flags;        /* of the target */
  uint32_t from_outputs; /* the caller's outputs completed `io` */
  tn__operand_counts counts;
  tn__device *device; /* the device of its arrays */

  tn_signature io; /* of the forward call */
  uint32_t *absent;
  tn_dtype *vars;

  tn_tensor *in; /* for the kernel: in, out and aux are in one array */
  tn_tensor *out;
  tn_tensor *aux;
  tn__operand *in_info; /* the same, for the host */
  tn__operand *out_info;
  tn__operand *aux_info;
  tn__operand *fwd_in; /* the forward call's inputs and outputs among these */
  tn__operand *fwd_out;
  uint32_t *in_flags;
  tn_req *req;
  int32_t *alias;
  tn__access
      *access; /* variables of the job: operands, and temporaries on a device */
  uint32_t n_access;

  tn__choice choice;        /* held until there is a recipe */
  tn__recipe *recipe;       /* retained */
  tn__scratch_space *space; /* contains its workspaces while it runs, or NULL */
  void *ws_memory;          /* of a planned call: ws_total bytes that stay */
  uint8_t ws_borrowed;      /* the state must not free them */
  tn_params
      *own_params;     /* of a prepared call: a copy that may change; or NULL */
  const char *changes; /* while it is recorded: address on the device of the
                          values that change between runs; otherwise NULL */
  tn__launch launch;
  struct tn_later later;

  tn__arena arena; /* instead of `local` for calls with many operands */
  struct {
    tn_sig sigs[TN__INLINE_OPERANDS];
    tn_tensor tensors[TN__INLINE_OPERANDS];
    tn__operand operands[TN__INLINE_OPERANDS];
    uint32_t absent[TN__INLINE_OPERANDS];
    uint32_t in_flags[TN__INLINE_OPERANDS];
    tn_req req[TN__INLINE_OPERANDS];
    int32_t alias[TN__INLINE_OPERANDS];
    tn_dtype vars[TN__INLINE_OPERANDS];
    tn__access access[2 * TN__INLINE_OPERANDS + TN__MORE_ACCESS];
  } local;
} tn__call_state;

/* ------------------------------------------------------------- call_error.c */

/* Writes "input `x`" or "output `parts[2]`" to `to`. */
enum { TN__OPERAND_TEXT = 160 };
const char *tn__operand_text(const tn__operand *operand, char *to);
/* Fails with the plugin's text, the name of the kernel, and its operands. */
tn_code tn__kernel_fail(tn__launch *launch, tn_code code, const char *stage);

/* ------------------------------------------------------------- call_state.c */

/* Creates a state on the heap. Its caller releases or launches it. */
tn_code tn__call_state_create(const tn__target_op *target,
                              tn__call_state **out);
/* Removes one owner; returns `rc`. */
tn_code tn__call_state_release(tn__call_state *s, tn_code rc);
/* Initialises a state on the stack, which is never launched: checks owners and
 * holds the operator. After success, deinitialise it. */
tn_code tn__call_state_init(tn__call_state *s, const tn__target_op *target);
/* Releases everything that the state owns; returns `rc`. */
tn_code tn__call_state_deinit(tn__call_state *s, tn_code rc);
/* Reserves room for s->counts, with all operands empty. */
tn_code tn__call_reserve_operands(tn__call_state *s);
/* Moves new arrays to the caller. */
void tn__call_deliver_outputs(tn__call_state *s, const tn_outputs *outputs);
/* True if no output is requested. */
bool tn__call_is_idle(const tn__call_state *s);

/* --------------------------------------------------------------- operands.c */

/* Counts operands; `inputs` may omit optional ones at the end. Aux states
 * follow the inputs. */
tn_code tn__call_count_operands(tn__call_state *s, const tn_inputs *inputs);
/* Assigns inputs and aux states to operands. */
tn_code tn__call_bind_inputs(tn__call_state *s, const tn_inputs *inputs);
/* Assigns the caller's outputs and requests to operands. */
tn_code tn__call_bind_outputs(tn__call_state *s, const tn_outputs *outputs);
/* Finds the device of the call: all its arrays must be there. */
tn_code tn__call_find_device(tn__call_state *s);
/* Refuses an array of another runtime. */
tn_code tn__call_check_owner(const tn__call_state *s,
                             const tn__operand *operand);

/* Finds the declaration of operand `i`; a variadic one declares many. *member
 * is the position among those, or -1. */
uint32_t tn__call_find_input_arg(const tn__call_state *s, uint32_t i,
                                 int32_t *member);
uint32_t tn__call_find_output_arg(const tn__call_state *s, uint32_t i,
                                  int32_t *member);

/* ---------------------------------------------------------------- outputs.c */

/* Completes `io` from the assigned arrays. */
tn_code tn__call_infer_operands(tn__call_state *s);
/* Checks an array against the inferred shape and dtype. */
tn_code tn__call_check_operand(const tn__call_state *s,
                               const tn__operand *operand, const tn_sig *sig);
/* Checks output `i` against `sig`, or creates an array for it. */
tn_code tn__call_resolve_output(tn__call_state *s, uint32_t i,
                                const tn_sig *sig);
/* Creates an array for the operand, which the call owns. */
tn_code tn__call_create_array(tn__call_state *s, tn__operand *operand,
                              const tn_sig *sig);

/* ---------------------------------------------------------------- overlap.c */

/* Refuses outputs that repeat elements, or that share memory with another
 * output or a state. Refuses states that share memory with an input. */
tn_code tn__call_check_overlap(const tn__call_state *s);

/* ------------------------------------------------------------------ lower.c */

/* Replaces inputs by dense copies where the operator requires dense inputs. */
tn_code tn__call_lower_inputs(tn__call_state *s);
tn_code tn__call_lower_states(tn__call_state *s);
/* Turns requests and layouts into ones that the kernel supports. */
tn_code tn__call_lower_outputs(tn__call_state *s, const tn_kernel *kernel);

/* ----------------------------------------------------------- forward_call.c */

/* Plans a new state; without a requested output it stays idle. */
tn_code tn__call_plan_forward(tn__call_state *s, const tn_inputs *in,
                              const tn_outputs *out);

/* ---------------------------------------------------------- backward_call.c */

/* The same for a gradient. */
tn_code tn__call_plan_backward(tn__call_state *s, const tn_backward *call);

/* -------------------------------------------------------------- call_plan.c */

/* Fills the frame, without data, as it is when a kernel is chosen. */
void tn__call_fill_frame(tn__call_state *s);
/* Plans a state with resolved outputs: kernel, requests, layouts, recipe. */
tn_code tn__call_plan_kernel(tn__call_state *s);

/* ---------------------------------------------------------------- planned.c */

/* The state of a planned call; without a requested output it has no recipe. */
tn__call_state *tn__planned_state(const tn__planned *call);

/* ----------------------------------------------------------------- recipe.c */

/* Finds or creates the recipe of a lowered call. A new one calls the kernel's
 * `prepare`. */
tn_code tn__recipe_get(tn__call_state *s);
tn__recipe *tn__recipe_retain(tn__recipe *recipe);
void tn__recipe_release(tn__recipe *recipe);

/* The recipes of an operator: sets by the shape of the first operand. Used only
 * between cache_lock and cache_unlock of recipe.c, or inside of the gate. */
enum { TN__CACHE_SETS = 16, TN__CACHE_WAYS = 4 };
typedef struct tn__recipe_cache {
  tn__recipe
      *sets[TN__CACHE_SETS][TN__CACHE_WAYS]; /* the last used one is first */
} tn__recipe_cache;

static inline uint32_t tn__recipe_cache_set(const tn_tensor *first) {
  uint64_t mixed = 0;
  for (int32_t i = 0; i < first->ndim; ++i)
    mixed = (mixed ^ (uint64_t)first->shape[i]) * 0x9e3779b97f4a7c15ull;
  return (uint32_t)(mixed >> 60) % TN__CACHE_SETS;
}

/* True if two tensors have the same device, dtype, shape and strides. */
static inline bool tn__layout_equal(const tn_tensor *a, const tn_tensor *b) {
  if (a->ndim != b->ndim || a->dtype != b->dtype ||
      a->device_type != b->device_type || a->device_id != b->device_id)
    return false;
  for (int32_t i = 0; i < a->ndim; ++i)
    if (a->shape[i] != b->shape[i] || a->strides[i] != b->strides[i])
      return false;
  return true;
}

/* -------------------------------------------------------------- fast_call.c */

/* Tries the fast path. True: the call is done, and *rc is its result. False:
 * nothing has changed. */
bool tn__call_try_fast(const tn__target_op *target, const tn_inputs *in,
                       const tn_outputs *out, tn_code *rc);
bool tn__backward_try_fast(const tn__target_op *target, const tn_backward *call,
                           tn_code *rc);

/* ----------------------------------------------------------------- launch.c */

/* Pushes a planned call, and moves new arrays to the caller. Consumes the
 * caller's ownership of the state. */
tn_code tn__call_launch(tn__call_state *s, const tn_outputs *outputs);
/* True if the call may complete later: its job is then asynchronous. */
bool tn__call_is_later(const tn__call_state *s);
/* Returns TN__JOB_* of its job. */
uint32_t tn__call_job_flags(const tn__call_state *s);
/* The same for the only job that will compute it. */
uint32_t tn__call_begin_job(tn__call_state *s);
/* Lists the variables that a planned call uses. */
void tn__call_list_uses(tn__call_state *s);
/* True if the kernel reads the elements of an input with these TN_IN_* flags:
 * it is present, and more than its shape is needed. */
static inline bool tn__input_is_read(uint32_t flags) {
  return (flags & (TN_IN_ABSENT | TN_IN_METADATA)) == 0;
}
/* Lists the variables besides those of arrays, with that of `space` unless it
 * is NULL: at most TN__MORE_ACCESS. Returns their number. They are overwritten,
 * so a failed call does not affect later ones. */
uint32_t tn__recipe_list_uses(const tn__recipe *recipe, tn__caller *caller,
                              tn__scratch_space *space, tn__access *to);
/* Allocates the memory of its arrays. */
tn_code tn__call_materialise(tn__call_state *s);
/* Holds its arrays, and ends the ownership of temporaries: pending operations
 * must not keep the runtime alive. */
void tn__call_hold_arrays(tn__call_state *s);
/* Releases the new arrays that were not delivered. */
void tn__call_disown_arrays(tn__call_state *s);

/* --------------------------------------------------------------- call_run.c */

/* Computes a planned call that the engine allows to run; `token` is NULL inside
 * of the gate. */
tn_code tn__call_compute(tn__call_state *s, tn__token *token);
/* Calls the kernel of a complete frame. */
tn_code tn__launch_compute(tn__launch *launch);
/* Places workspaces in one piece of memory. */
void tn__launch_set_workspaces(tn__launch *launch, const tn__recipe *recipe,
                               void *memory);
/* Claims the random blocks of one call. */
void tn__launch_claim_random(tn__launch *launch, const tn__recipe *recipe);
/* Bytes of the values that change between the runs of a recorded call, and of
 * the params struct among them, which comes first (recorded.c). */
size_t tn__call_change_bytes(const tn__call_state *s);
size_t tn__call_change_params_bytes(const tn__call_state *s);
/* Adds the operator's name to the text of TN_OUT_OF_MEMORY. Other codes are
 * returned as they are. */
tn_code tn__call_name_memory_failure(const tn__call_state *s, tn_code rc);

/* Ends a call that has computed: fails with later.code, or copies temporaries
 * to their arrays. */
tn_code tn__call_finish(tn__call_state *s, tn__token *token);

/* ------------------------------------------------------------------ later.c */

/* Calls the kernel. TN_LATER: an asynchronous job goes on; its function ends
 * with tn__later_return. Otherwise the call has computed, or later.code is its
 * failure. */
tn_code tn__later_compute(tn__call_state *s, tn__token *token);
/* Ends the function of a job with the result `rc` of tn__call_compute, and
 * returns its code. The call may be over when this returns. */
tn_code tn__later_return(tn__call_state *s, tn__token *token, tn_code rc);
/* The result of a kernel that did not return TN_OK: TN_LATER with a ticket, or
 * a failure with its text. */
tn_code tn__later_check(tn__launch *launch, int32_t code);

/* ---------------------------------------------------------------- dynamic.c */

/* Implements host->set_shape while a kernel computes. */
int32_t tn__call_set_shape(tn__slot *slot, const tn_frame *frame,
                           const tn_sig *shape, uint32_t list, uint32_t index);
/* True if the kernel sets the shape of a requested output. */
bool tn__call_is_dynamic(const tn__call_state *s);
/* Fails if the kernel did not set a shape. */
tn_code tn__call_check_shapes_set(tn__call_state *s);

#endif /* TENON_CALL_H_ */
