/* SPDX-License-Identifier: Apache-2.0
 * call.h: the state of one call. Inside core/ndarray only.
 *
 * The way of a call, in order: begin, bind (call.c, backward.c), infer, settle
 * outputs (work.c), check overlap (overlap.c), run (run.c, with lower.c), end.
 * Everything up to `run` needs no element of any array, and `run` is one
 * function of one tn__work: there the engine will step in between.
 */
#ifndef TENON_CALL_H_
#define TENON_CALL_H_

#include "ndarray.h"

enum {
  TN__INLINE_OPERANDS = 16, /* calls with more of them take heap memory */
  TN__MAX_RANDOM = 4        /* random streams that one kernel may want */
};

enum { /* tn__operand.before: what its memory holds when the kernel starts */
       TN__BEFORE_NOTHING = 0,
       TN__BEFORE_ZERO = 1,
       TN__BEFORE_COPY = 2 /* of input `source` */
};

enum { /* tn__operand.after: how `temp` reaches `array` */
       TN__AFTER_NOTHING = 0,
       TN__AFTER_COPY = 1,
       TN__AFTER_ADD = 2
};

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
  uint8_t before;
  uint8_t after;
  uint8_t dynamic; /* output: compute decides its shape */
} tn__operand;

/* How many operands there are. */
typedef struct tn__counts {
  uint32_t n_in; /* of the operator, forward */
  uint32_t n_out;
  uint32_t n_aux;
  uint32_t n_visible; /* outputs that are not hidden */
} tn__counts;

typedef struct tn__work {
  tn__caller *caller;
  tn_operator *op; /* held */
  const tn_op *desc;
  const void *params;
  uint32_t pass;
  uint32_t flags; /* of the target */
  tn__counts counts;

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

  tn_frame frame;
  tn_run run;
  tn_random random[TN__MAX_RANDOM];
  const tn_random *random_list[TN__MAX_RANDOM];
  tn__choice choice; /* held if choice.kernel is set */
  tn_plan plan;
  void *ws_memory; /* one piece of ws_total bytes */
  size_t ws_total;
  void *ws[TN_MAX_WORKSPACES];
  uint64_t ws_bytes[TN_MAX_WORKSPACES];
  tn__slot slot;

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
  } local;
} tn__work;

/* --------------------------------------------------------------- work.c */

/* Checks owners and holds the operator. On success tn__work_end must follow. */
tn_code tn__work_begin(tn__work *w, const tn__target_op *target);
/* Makes room for w->counts, with all operands empty. */
tn_code tn__work_room(tn__work *w);
/* Hands new arrays to the caller. */
void tn__work_deliver(tn__work *w, const tn_outputs *outputs);
/* Gives everything back; returns `rc`. */
tn_code tn__work_end(tn__work *w, tn_code rc);
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

enum { TN__APART = 0, TN__OVERLAP = 1, TN__SAME = 2 };

/* How the memory of two arrays meets; TN__SAME if pointer, dtype, shape and
 * strides are equal. */
int tn__arrays_meet(const tn_array *a, const tn_array *b);
/* Refuses outputs that repeat elements or share memory among each other or
 * with aux states. */
tn_code tn__work_overlap(const tn__work *w);

/* -------------------------------------------------------------- lower.c */

/* Lets dense copies stand in where the operator wants dense inputs. */
tn_code tn__work_lower_inputs(tn__work *w);
/* Turns requests and layouts into such that the kernel takes. */
tn_code tn__work_lower_outputs(tn__work *w, const tn_kernel *kernel);

/* ---------------------------------------------------------------- run.c */

/* Fills the frame, without data, as it is when a kernel is chosen. */
void tn__work_frame(tn__work *w);
/* From a settled work to computed outputs. */
tn_code tn__work_run(tn__work *w);
/* Fails with the plugin's text, whose it is, and what the kernel was given. */
tn_code tn__kernel_fail(tn__work *w, tn_code code, const char *stage);
/* The array's tensor with the place of its elements. */
tn_tensor tn__array_placed(const tn_array *array);

/* ------------------------------------------------------------ dynamic.c */

/* What host->set_shape leads to while a kernel computes. */
int32_t tn__work_set_shape(tn__slot *slot, const tn_frame *frame,
                           const tn_sig *shape, uint32_t list, uint32_t index);
/* Fails if the kernel left a shape open. */
tn_code tn__work_stated(tn__work *w);

#endif /* TENON_CALL_H_ */
