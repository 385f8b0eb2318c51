/* SPDX-License-Identifier: Apache-2.0
 * call.h: the state of one call. Inside core/ndarray only.
 *
 * The short way (short.c) is that of a call like one that was made before,
 * whose arrays are ready: compare with the recipe, compute, return. All others
 * go the long way: begin, bind (call.c, backward.c), infer, settle outputs
 * (settle.c), check overlap (overlap.c), choose, lower, prepare (plan.c with
 * lower.c and recipe.c), and launch (launch.c): a job of the engine that
 * computes (run.c) and ends the work. Everything up to there needs no element
 * of any array.
 */
#ifndef TENON_CALL_H_
#define TENON_CALL_H_

#include "floating.h"
#include "ndarray.h"

enum {
  TN__INLINE_OPERANDS = 16, /* calls with more of them take heap memory */
  TN__MAX_RANDOM = 4,       /* random streams that one kernel may want */
  TN__MORE_ACCESS = 3       /* variables beside operands: random stream,
                               temporary space, kernels that take turns */
};

enum { /* tn__operand.before: what its memory holds when the kernel starts */
       TN__BEFORE_NOTHING = 0,
       TN__BEFORE_ZERO = 1,
       TN__BEFORE_COPY = 2 /* of input `source` */
};

enum { /* tn__operand.after: how `temp` reaches `array` */
       TN__AFTER_NOTHING = 0,
       TN__AFTER_COPY = 1,
       TN__AFTER_ADD = 2,
       TN__AFTER_SUM = 3,    /* summed over what a broadcast has repeated */
       TN__AFTER_SUM_ADD = 4 /* and added */
};

enum { TN__HELD_ARRAY = 1, TN__HELD_TEMP = 2 }; /* tn__operand.held */

/* What the host knows of one operand, beside the tensor that the kernel sees.
 */
typedef struct tn__operand {
  const tn_arg *arg;
  const char *what; /* "input", "gradient of output"; for messages */
  tn_array *array;  /* the caller's or, if `owned`, made by this call */
  tn_array *temp;   /* what the kernel gets in its place, or NULL; owned */
  int32_t member;   /* position among those of a variadic one, or -1 */
  int32_t source;   /* input that it starts as a copy of, or -1 */
  uint32_t inplace; /* output: input whose memory it may take, or TN_NONE */
  uint8_t owned;
  uint8_t held; /* TN__HELD_*: what the job holds */
  uint8_t before;
  uint8_t after;
  uint32_t dynamic; /* output: compute decides its shape */
} tn__operand;

/* Frees the results of a kernel's `prepare`. */
static inline void tn__plan_destroy(const tn_plan *plan) {
  const tn__floating floating = tn__floating_get();
  if (plan->destroy) plan->destroy(plan->prepared);
  tn__floating_keep(&floating);
}

/* Whether a call with these flags changes an auxiliary state; others read it.
 */
static inline bool tn__state_changes(const tn_arg *arg, uint32_t flags) {
  return !(arg->flags & TN_ARG_TRAINED) || (flags & TN_CALL_TRAIN) != 0;
}

/* How many operands there are. */
typedef struct tn__counts {
  uint32_t n_in; /* of the operator, forward */
  uint32_t n_out;
  uint32_t n_aux;
  uint32_t n_visible; /* outputs that are not hidden */
} tn__counts;

/* What is needed to call a kernel, but for the tensors that the frame leads to.
 */
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

/* What was found out for one kernel and one kind of call: everything that a
 * kernel's `prepare` may depend on, and what it answered. Counted; immutable
 * but for `launch`, which is of who is inside of the gate (short.c). */
typedef struct tn__recipe {
  const tn__env *env;
  _Atomic int64_t n_owners;
  tn__kernel *kernel; /* counted as a call of it and of the operator */
  uint64_t epoch;     /* of the registry; older ones are not used */
  uint32_t pass;
  uint32_t flags;
  tn_params *params;       /* a copy; NULL: the operator has none */
  _Atomic uint64_t serial; /* of params with these values, seen last */
  uint32_t n_in;
  uint32_t n_out;
  uint32_t n_aux;
  uint32_t n_visible; /* outputs that a caller must give a place for */
  tn_tensor *given;   /* inputs as the caller gave them; ndim -1: not at all */
  tn_tensor *in;      /* in, out, aux in one array, with shapes of their own */
  tn_tensor *out;
  tn_tensor *aux;
  uint32_t *in_flags;
  tn_req *req;
  int32_t *alias;
  tn__operand *operands; /* without arrays */
  tn_plan plan;
  size_t ws_total; /* all workspaces in one piece, each at its offset */
  size_t ws_offset[TN_MAX_WORKSPACES];
  uint32_t n_random;
  /* For the short way. */
  tn__device *device; /* where its arrays lie */
  uint8_t direct; /* nothing is lowered, on the cpu: the call is the frame */
  uint8_t small;  /* short enough for the calling thread */
  uint8_t closed; /* its inputs tell what its outputs are */
  uint8_t shared; /* long enough for workers to take a part of it */
  tn__launch launch;
} tn__recipe;

typedef struct tn__work {
  _Atomic int32_t n_owners; /* who called, and the job */
  uint32_t pass;
  tn__caller *caller;
  tn_operator *op; /* held */
  const tn_op *desc;
  const tn_params *given; /* borrowed until it is planned; NULL: none */
  const void *params;     /* their struct; then that of the recipe's copy */
  uint32_t flags;         /* of the target */
  uint32_t fed;           /* given outputs told what the inputs did not */
  tn__counts counts;
  tn__device *device; /* where its arrays lie */

  tn_signature io; /* of the forward call */
  uint32_t *absent;
  tn_dtype *vars;

  tn_tensor *in; /* what the kernel sees: in, out and aux lie in one array */
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
  tn__access *access; /* what the job uses: operands, on a device temporaries */
  uint32_t n_access;

  tn__choice choice;   /* held until there is a recipe */
  tn__recipe *recipe;  /* retained */
  tn__scratch_space *space;    /* where its workspaces lie while it runs, or NULL */
  void *ws_memory;     /* of a planned call: ws_total bytes that stay */
  uint8_t ws_lent;     /* they are not the work's to free */
  tn_params *own;      /* of a prepared call: a copy that may change; or NULL */
  const char *changes; /* while it is recorded: where the device will find what
                          changes between runs; otherwise NULL */
  tn__launch launch;

  tn__arena arena; /* in place of `local` for calls with many operands */
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
} tn__work;

/* --------------------------------------------------------------- work.c */

/* A work on the heap; to be closed, or launched. */
tn_code tn__work_open(const tn__target_op *target, tn__work **out);
/* One owner less; returns `rc`. */
tn_code tn__work_close(tn__work *w, tn_code rc);
/* The same for one on the stack, which is never launched: checks owners and
 * holds the operator. On success tn__work_end must follow. */
tn_code tn__work_begin(tn__work *w, const tn__target_op *target);
/* Gives everything back; returns `rc`. */
tn_code tn__work_end(tn__work *w, tn_code rc);
/* Makes room for w->counts, with all operands empty. */
tn_code tn__work_room(tn__work *w);
/* Hands new arrays to the caller. */
void tn__work_deliver(tn__work *w, const tn_outputs *outputs);
/* True if no output is wanted. */
bool tn__work_idle(const tn__work *w);

/* "input `x`" or "output `parts[2]`", in `to`. */
enum { TN__OPERAND_TEXT = 160 };
const char *tn__operand_text(const tn__operand *operand, char *to);
/* Adds " f32 (2,3)" to the error text. */
void tn__fail_tensor(tn_code code, tn_dtype dtype, int32_t ndim,
                     const int64_t *shape);

/* --------------------------------------------------------------- bind.c */

/* Counts operands; `inputs` may leave out optional ones at the end, and aux
 * states follow them. */
tn_code tn__work_count(tn__work *w, const tn_inputs *inputs);
/* Puts inputs and aux states in their places. */
tn_code tn__work_bind_inputs(tn__work *w, const tn_inputs *inputs);
/* Puts given outputs and requests in their places. */
tn_code tn__work_bind_outputs(tn__work *w, const tn_outputs *outputs);
/* Finds the device of the call: that of all its arrays. */
tn_code tn__work_place(tn__work *w);
/* Refuses an array of another runtime. */
tn_code tn__work_own(const tn__work *w, const tn__operand *operand);

/* The declaration of actual operand `i`, where one may stand for many; *member
 * is the position among those, or -1. */
uint32_t tn__work_arg_in(const tn__work *w, uint32_t i, int32_t *member);
uint32_t tn__work_arg_out(const tn__work *w, uint32_t i, int32_t *member);

/* ------------------------------------------------------------- settle.c */

/* Completes `io` from what is bound. */
tn_code tn__work_infer(tn__work *w);
/* Checks a bound array against what was inferred. */
tn_code tn__work_match(const tn__work *w, const tn__operand *operand,
                       const tn_sig *sig);
/* Checks output `i` against `sig`, or makes an array for it. */
tn_code tn__work_settle(tn__work *w, uint32_t i, const tn_sig *sig);
/* Gives the operand an array of the call's own. */
tn_code tn__work_make(tn__work *w, tn__operand *operand, const tn_sig *sig);

/* ------------------------------------------------------------ overlap.c */

/* Refuses outputs that repeat elements or share memory among each other or
 * with aux states. */
tn_code tn__work_overlap(const tn__work *w);

/* -------------------------------------------------------------- lower.c */

/* Lets dense copies stand in where the operator wants dense inputs. */
tn_code tn__work_lower_inputs(tn__work *w);
tn_code tn__work_lower_states(tn__work *w);
/* Turns requests and layouts into such that the kernel takes. */
tn_code tn__work_lower_outputs(tn__work *w, const tn_kernel *kernel);

/* --------------------------------------------------------------- call.c */

/* From a new work to a planned one, or to one that is idle. */
tn_code tn__call_plan(tn__work *w, const tn_inputs *in, const tn_outputs *out);

/* ----------------------------------------------------------- backward.c */

/* The same for a gradient. */
tn_code tn__backward_plan(tn__work *w, const tn_backward *call);

/* --------------------------------------------------------------- plan.c */

/* Fills the frame, without data, as it is when a kernel is chosen. */
void tn__work_frame(tn__work *w);
/* From a settled work to one that can be computed: kernel, requests, layouts,
 * recipe. */
tn_code tn__work_plan(tn__work *w);

/* ------------------------------------------------------------ planned.c */

/* The work of a planned call; one that is idle has no recipe. */
tn__work *tn__planned_work(const tn__planned *call);

/* ------------------------------------------------------------- recipe.c */

/* The recipe of a lowered work: one that is known, or a new one, for which the
 * kernel's `prepare` is asked. */
tn_code tn__recipe_get(tn__work *w);
tn__recipe *tn__recipe_retain(tn__recipe *recipe);
void tn__recipe_release(tn__recipe *recipe);

/* What an operator's calls have found out: sets of recipes, by the first
 * operand's shape. Touched only inside of tn__cache_lock, or of tn__gate_enter.
 */
enum { TN__CACHE_SETS = 16, TN__CACHE_WAYS = 4 };
typedef struct tn__cache {
  tn__recipe *sets[TN__CACHE_SETS][TN__CACHE_WAYS]; /* used last comes first */
} tn__cache;

static inline uint32_t tn__cache_set(const tn_tensor *first) {
  uint64_t mixed = 0;
  for (int32_t i = 0; i < first->ndim; ++i)
    mixed = (mixed ^ (uint64_t)first->shape[i]) * 0x9e3779b97f4a7c15ull;
  return (uint32_t)(mixed >> 60) % TN__CACHE_SETS;
}

/* Whether two tensors lie alike: device, dtype, shape, strides. */
static inline bool tn__layout_equal(const tn_tensor *a, const tn_tensor *b) {
  if (a->ndim != b->ndim || a->dtype != b->dtype ||
      a->device_type != b->device_type || a->device_id != b->device_id)
    return false;
  for (int32_t i = 0; i < a->ndim; ++i)
    if (a->shape[i] != b->shape[i] || a->strides[i] != b->strides[i])
      return false;
  return true;
}

/* -------------------------------------------------------------- short.c */

/* A call that is like one before and whose arrays are ready is made here and
 * now: true, and *rc is its result. Otherwise nothing has happened. */
bool tn__call_short(const tn__target_op *target, const tn_inputs *in,
                    const tn_outputs *out, tn_code *rc);
bool tn__backward_short(const tn__target_op *target, const tn_backward *call,
                        tn_code *rc);

/* ------------------------------------------------------------- launch.c */

/* Pushes a planned work. Consumes the caller's hold of it, after delivering new
 * arrays. */
tn_code tn__work_launch(tn__work *w, const tn_outputs *outputs);
/* Lists what a planned work uses. */
void tn__work_uses(tn__work *w);
/* Whether the kernel reads the elements of an input with these TN_IN_* flags:
 * it is there, and more is wanted of it than its shape. */
static inline bool tn__input_is_read(uint32_t flags) {
  return (flags & (TN_IN_ABSENT | TN_IN_METADATA)) == 0;
}
/* Lists the variables beside those of arrays, `space` (or NULL) among them, at
 * most TN__MORE_ACCESS; returns how many. They are overwritten, so that one
 * that failed spoils no call that follows. */
uint32_t tn__recipe_uses(const tn__recipe *recipe, tn__caller *caller,
                         tn__scratch_space *space, tn__access *to);
/* Counts what it writes, once for each push. */
void tn__work_written(const tn__work *w);
/* Takes the memory of its arrays. */
tn_code tn__work_memory(tn__work *w);
/* Holds its arrays, and gives up owning temporaries: operations on their way
 * must not keep the runtime alive. */
void tn__work_hold(tn__work *w);
/* Gives up the arrays that were made and not delivered. */
void tn__work_disown(tn__work *w);
/* Whether so much work is short enough for the thread that pushes it. */
bool tn__work_is_small(const tn__work *w);
/* Whether it is long enough for workers to take a part of it: then it is made
 * where loops may be shared, outside of the gate. */
bool tn__work_is_shared(const tn__work *w);

/* ---------------------------------------------------------------- run.c */

/* Computes a planned work whose turn it is; `token` is NULL inside of the gate.
 */
tn_code tn__work_compute(tn__work *w, tn__token *token);
/* Calls the kernel of a frame that is complete. */
tn_code tn__launch_compute(tn__launch *launch);
/* Takes workspaces out of one piece of memory. */
void tn__launch_workspaces(tn__launch *launch, const tn__recipe *recipe,
                           void *memory);
/* Claims the random blocks of one call. */
void tn__launch_random(tn__launch *launch, const tn__recipe *recipe);
/* The same, and dynamic parameters, for a call that is recorded (recorded.c).
 */
void tn__launch_changes(tn__work *w);
/* Fails with the plugin's text, whose it is, and what the kernel was given. */
tn_code tn__kernel_fail(tn__launch *launch, tn_code code, const char *stage);
/* Memory that could not be had is a want of this call: the text gets its
 * operator's name. Other codes, and TN_OK, are passed on. */
tn_code tn__work_short(const tn__work *w, tn_code rc);
/* The array's tensor with the place of its elements. */
tn_tensor tn__array_placed(const tn_array *array);

/* ------------------------------------------------------------ dynamic.c */

/* What host->set_shape leads to while a kernel computes. */
int32_t tn__work_set_shape(tn__slot *slot, const tn_frame *frame,
                           const tn_sig *shape, uint32_t list, uint32_t index);
/* Whether some output's shape is decided by compute. */
bool tn__work_is_dynamic(const tn__work *w);
/* Fails if the kernel left a shape open. */
tn_code tn__work_stated(tn__work *w);

#endif /* TENON_CALL_H_ */
