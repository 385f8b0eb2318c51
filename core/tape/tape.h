/* SPDX-License-Identifier: Apache-2.0
 * tape.h: calls are recorded and differentiated. The functions behind the tape
 * of tenon.h come first; what follows is shared by the tape's own files only.
 *
 * files: tape.c           create, watch, detach, forget, release
 *        memory.c         where records lie
 *        index.c          which value an array is, and whether it still is
 *        place.c          where one view lies inside of another
 *        call.c           a call is made and recorded
 *        add_view.c       sums into parts of arrays
 *        sum.c            the same, recorded
 *        query.c          a question is checked, its answers are handed out
 *        gradient.c       the way back: which entries, in which order
 *        back.c           one entry's gradient, by its backward kernel or, if
 *                         it is to be recorded, by an operator
 *        linear.c         that of a gradient of what is linear
 *
 * A *value* is what some memory held at some time: a watched array, or an
 * output of a recorded call. An array is recognised by its memory (the block's
 * serial number and the region in it), so that every view of a value is known,
 * and a value that nobody needs any more can be freed: the tape retains only
 * the arrays whose elements gradients read.
 *
 * Writing is noticed by the block's version. Writes that are made through the
 * tape are values themselves, with the versions before and after them; any
 * other change of the version means that somebody else has written, and what is
 * then asked of the old value is refused.
 */
#ifndef TENON_TAPE_H_
#define TENON_TAPE_H_

#include "ndarray.h"

tn_code tn__tape_create(tn__caller *caller, tn_tape **out);
void tn__tape_release(tn_tape *tape);
tn_code tn__tape_watch(tn_tape *tape, tn_array *array);
/* With TN_PASS_BACKWARD, of an operator that is linear: `in` are the gradients
 * of all outputs, then the inputs, `out` the gradients of the inputs. */
tn_code tn__tape_call(tn_tape *tape, const tn__target_op *target,
                      const tn_inputs *in, const tn_outputs *out);
/* The same call, which no tape sees. */
tn_code tn__tape_perform(const tn__target_op *target, const tn_inputs *in,
                         const tn_outputs *out);
tn_code tn__tape_detach(tn_tape *tape, tn_array *array, tn_array **out);
tn_code tn__tape_gradient(tn_tape *tape, const tn_tape_query *query);

/* ----------------------------------------------------------------- records */

/* Where elements lie in a block. */
typedef struct tn__layout {
  tn__device *device;
  tn_dtype dtype;
  int32_t ndim;
  int64_t offset; /* bytes from the block's begin to the first element */
  const int64_t *shape;
  const int64_t *strides;
} tn__layout;

typedef struct tn__tape_value tn__tape_value;
typedef struct tn__tape_entry tn__tape_entry;

struct tn__tape_value {
  tn__tape_value *earlier; /* made before this one, of any block */
  tn__tape_value *older;   /* in the same block */
  tn__tape_entry *entry;   /* that wrote it; NULL: watched, or a constant */
  tn_array *watched;       /* retained, or NULL */
  tn__layout layout;
  uint64_t serial; /* of the block */
  uint64_t before; /* versions of the block around the write; of a watched */
  uint64_t after;  /* array both are the one that is meant */
  uint32_t id;     /* position among the tape's values */
  uint32_t n_uses; /* by entries */
  bool outdated;   /* watched again after somebody else had written it */
};

/* One operand of an entry. */
typedef struct tn__tape_operand {
  tn__tape_value *value;    /* NULL: a constant, or nobody's */
  const tn__layout *layout; /* of the operand's array; NULL: there was none, or
                               `saved` tells */
  tn_array *saved;          /* if a gradient reads its elements */
  uint64_t version;         /* of the block, when it was as saved */
  uint32_t declared;        /* index of its declaration */
  int32_t member;           /* position among those of a variadic one, or -1 */
  uint32_t needed;          /* elements are read by a gradient */
  bool sum;                 /* of a call: the caller asked to add to it */
  bool passed;              /* of the gradient under way: it has its own */
} tn__tape_operand;

/* A call, or, with `op` NULL, a sum: out[0] is in[0] with in[1] added at
 * out[0].layout. */
struct tn__tape_entry {
  tn__tape_entry *previous;
  tn__tape_entry *next;
  tn_operator *op;
  const tn_op *desc; /* valid: the tape holds the operator */
  tn_params *params; /* retained, or NULL */
  uint32_t flags;    /* TN_CALL_TRAIN or 0 */
  uint32_t live;     /* of the gradient under way: it is passed */
  uint32_t n_in;
  uint32_t n_aux;
  uint32_t n_out;
  uint32_t n_heads;     /* of a backward call of a linear operator: the first of
                           `in`, gradients of outputs; 0: it is no such call */
  tn__tape_operand *in; /* aux states follow */
  tn__tape_operand *out;
};

/* What the call was made with; NULL if its operator has no parameters. */
static inline const tn_params *tn__tape_params(const tn__tape_entry *entry) {
  return entry->params ? entry->params : entry->op->defaults;
}

/* --------------------------------------------------------- memory.c      */

/* Pieces of memory that are given back all at once. */
typedef struct tn__tape_memory {
  struct tn__tape_chunk *chunk; /* that is filled; older ones behind it */
  struct tn__tape_chunk *spare; /* for the next time */
} tn__tape_memory;

typedef struct tn__tape_mark {
  struct tn__tape_chunk *chunk;
  size_t used;
} tn__tape_mark;

struct tn__tape_chunk {
  struct tn__tape_chunk *behind;
  size_t used;
  size_t capacity;
  size_t reserved; /* keeps what follows at multiples of 16 */
  unsigned char bytes[];
};

/* What a take of so many bytes uses up. */
static inline size_t tn__tape_room(size_t bytes) {
  return (bytes + 15) & ~(size_t)15;
}
/* The next takes that use up so many bytes together succeed. */
tn_code tn__tape_reserve(const tn__env *env, tn__tape_memory *memory,
                         size_t bytes);
static inline void *tn__tape_take(tn__tape_memory *memory, size_t bytes) {
  struct tn__tape_chunk *chunk = memory->chunk;
  void *taken = chunk->bytes + chunk->used;
  chunk->used += tn__tape_room(bytes);
  return taken;
}
tn__tape_mark tn__tape_mark_get(const tn__tape_memory *memory);
/* Gives back what was taken since, as far as that is easy. */
void tn__tape_rewind(tn__tape_memory *memory, tn__tape_mark mark);
/* Gives all back, for the next time. */
void tn__tape_memory_reset(tn__tape_memory *memory);
void tn__tape_memory_deinit(const tn__env *env, tn__tape_memory *memory);

/* Bytes of a layout of so many dimensions, and a copy of one in taken memory
 * that is reserved. */
static inline size_t tn__layout_bytes(int32_t ndim) {
  return tn__tape_room(sizeof(tn__layout)) +
         tn__tape_room(2 * (size_t)ndim * sizeof(int64_t));
}
void tn__layout_copy(tn__tape_memory *memory, const tn__layout *from,
                     tn__layout *to);
/* The same, but where `like` has these shape and strides already, they are not
 * copied: the two then live equally long. `like` may be NULL. */
void tn__layout_share(tn__tape_memory *memory, const tn__layout *from,
                      const tn__layout *like, tn__layout *to);

/* ---------------------------------------------------------------- tape.c */

typedef struct tn__tape_slot {
  uint64_t serial; /* 0: free */
  tn__tape_value *newest;
} tn__tape_slot;

enum { TN__TAPE_BLANKS = 4 };

struct tn_tape {
  tn__caller *caller;
  tn__tape_memory memory;
  tn__tape_slot *slots; /* by serial number of the block */
  size_t n_slots;       /* used */
  size_t capacity;      /* a power of two, or 0 */
  tn__tape_entry *first;
  tn__tape_entry *last;
  tn__tape_value *latest; /* value */
  uint32_t n_values;
  uint64_t next_serial; /* of blocks, up to `last_serial`, for this tape */
  uint64_t last_serial;
  tn__vec held;                         /* tn_operator *: of the entries */
  tn__vec watched;                      /* tn__tape_value *, not in `memory` */
  tn__tape_memory scratch;              /* of the gradient under way */
  tn_array *constants[2][TN__N_DTYPES]; /* 0-d: zeros, ones; made on demand */
  tn_array *views[2]; /* of constants, the last that were asked for */
  tn_array *blanks[TN__TAPE_BLANKS]; /* small arrays without memory, the same */
  uint32_t next_blank;
};

/* Takes back what was recorded after the mark. */
typedef struct tn__tape_point {
  tn__tape_entry *last;
  tn__tape_value *latest;
} tn__tape_point;
tn__tape_point tn__tape_point_get(const tn_tape *tape);
void tn__tape_return(tn_tape *tape, tn__tape_point point);
/* Forgets the calls, not what is watched. */
void tn__tape_forget(tn_tape *tape);
/* Lets go of what an entry retains. */
void tn__tape_entry_drop(tn__tape_entry *entry);
/* Appends an entry. */
void tn__tape_append(tn_tape *tape, tn__tape_entry *entry);

/* A new dense array of this dtype and shape, on its device. The caller releases
 * *out. */
tn_code tn__layout_array(const tn__layout *like, tn_array **out);
/* The same where only dtype, shape and device matter: nobody reads or writes
 * its elements. The caller releases *out. */
tn_code tn__tape_blank(tn_tape *tape, const tn__layout *like, tn_array **out);
/* A view that repeats 0 or 1 over a shape. The caller releases *out. */
tn_code tn__tape_constant(tn_tape *tape, uint32_t number,
                          const tn__layout *like, tn_array **out);

/* ---------------------------------------------------------- index.c      */

enum { /* what the tape knows of an array */
       TN__KNOWN_NOT = 0,
       TN__KNOWN_VALUE = 1,
       TN__KNOWN_PARTLY = 2, /* it reaches beyond a value, or across several */
       TN__KNOWN_STALE = 3   /* somebody else has written it since */
};

static inline tn__layout tn__layout_of(const tn_array *array) {
  const tn_tensor *t = &array->tensor;
  return (tn__layout){.device = array->block->device,
                      .dtype = t->dtype,
                      .ndim = t->ndim,
                      .offset = array->offset,
                      .shape = t->shape,
                      .strides = t->strides};
}
bool tn__layout_same(const tn__layout *a, const tn__layout *b);
/* Whether a new dense array like the one would be like the other. */
bool tn__layout_alike(const tn__layout *a, const tn__layout *b);
static inline uint64_t tn__array_version(const tn_array *array) {
  return atomic_load_explicit(&array->block->version, memory_order_relaxed);
}

/* Which value the array is, or is a part of: the newest that it meets. */
int tn__tape_find(tn_tape *tape, const tn_array *array, tn__tape_value **out);
/* Whether it is, or meets, a value or a constant of the tape. */
bool tn__tape_knows(const tn_tape *tape, const tn_array *array);
/* Its watched value, or else the newest. */
int tn__tape_find_source(tn_tape *tape, const tn_array *array,
                         tn__tape_value **out);
/* Says what is wrong with TN__KNOWN_PARTLY or TN__KNOWN_STALE, behind the
 * thread's error text, which names the array. */
tn_code tn__tape_find_fail(int known);
/* Whether the array's elements are those of that version of its block. */
bool tn__tape_holds(const tn_tape *tape, const tn_array *array,
                    uint64_t version);
/* Whether anything is known of the array's block. */
bool tn__tape_touches(const tn_tape *tape, const tn_array *array);

/* The number of the array's block, which no other block of the runtime ever
 * has. `fresh`: nobody else knows the array yet. */
uint64_t tn__tape_serial(tn_tape *tape, const tn_array *array, bool fresh);
/* The next `more` inserts of blocks succeed. */
tn_code tn__tape_index_reserve(tn_tape *tape, size_t more);
/* Notes a block without any value. */
void tn__tape_note(tn_tape *tape, const tn_array *array);
/* Enters a value, which is new in every list. */
void tn__tape_enter(tn_tape *tape, tn__tape_value *value);
/* Takes out the newest of all values. */
void tn__tape_pop(tn_tape *tape);
void tn__tape_index_reset(tn_tape *tape);

/* ---------------------------------------------------------- place.c      */

enum { TN__PLACE_APART = 0, TN__PLACE_INSIDE = 1, TN__PLACE_ACROSS = 2 };

/* Where `part` lies in a dense array of the shape of `of`. */
typedef struct tn__place {
  tn__view view;
  bool whole;   /* it is all of it, in the same order */
  bool covers;  /* it is all of it, each element once */
  bool repeats; /* some elements occur more than once */
  int64_t strides[TN_MAX_NDIM];
} tn__place;

int tn__layout_place(const tn__layout *of, const tn__layout *part,
                     tn__place *out);

/* ----------------------------------------------------------------- sum.c */

/* to += from, scheduled; equal shapes and dtypes, no shared memory. `to` may
 * repeat elements, which then get the sum of all that is added to them. */
tn_code tn__array_sum(tn_array *to, tn_array *from);

/* ------------------------------------------------------------ sum.c */

/* to = 0 */
tn_code tn__array_clear(tn_tape *tape, tn_array *to);

/* `part`, a view of `to`, gets `from`, or has it added, and that is recorded if
 * gradients pass through it. To overwrite, `part` must cover `to`. */
tn_code tn__tape_sum(tn_tape *tape, tn_array *to, tn_array *part,
                     tn_array *from, bool overwrite);

/* to = 0, recorded. */
tn_code tn__tape_zero(tn_tape *tape, tn_array *to);

/* An array that the tape does not know becomes a constant of it. */
tn_code tn__tape_know(tn_tape *tape, tn_array *array);

/* ------------------------------------------------------- gradient.c      */

/* The gradient with respect to one value, on the way. */
typedef struct tn__slope {
  tn_array *array; /* retained, shaped like the value; or NULL */
  uint32_t asked;  /* how often it is asked for */
  bool wanted;     /* what is asked for depends on it */
  bool made;       /* `array` was made here, and nobody else knows it */
  bool grows;      /* it is dense, and more may be added in its memory */
  bool blank;      /* nothing was written to it yet */
} tn__slope;

typedef struct tn__sweep {
  tn_tape *tape;
  const tn_tape_query *query;
  bool record;
  tn__slope *slopes;        /* by id of the value */
  uint32_t n_slopes;        /* values made by this gradient come behind */
  tn__tape_value **sources; /* of query->of */
  tn_array **results;       /* for query->gradients */
  tn_array **lists[5];      /* room for the operands of any entry */
  tn_req *req;              /* the same */
} tn__sweep;

/* Where a contribution to the gradient of a part of a value goes. */
typedef struct tn__aim {
  tn_array *base; /* the value's gradient; borrowed */
  tn_array *part; /* a view of it, which the caller releases, or `base` */
  bool overwrite; /* nothing is there yet, and `part` covers `base` */
  bool repeats;
} tn__aim;
tn_code tn__sweep_aim(tn__sweep *sweep, const tn__tape_value *value,
                      const tn__layout *layout, tn__aim *out);

/* Adds an array to the gradient of a part of a value. `made`: nobody else knows
 * the array. */
tn_code tn__sweep_add(tn__sweep *sweep, const tn__tape_value *value,
                      const tn__layout *layout, tn_array *array, bool made);
/* Gives the gradient of a value memory of its own, in which more can be added.
 */
tn_code tn__sweep_own(tn__sweep *sweep, const tn__tape_value *value);
/* The gradient of a part of a value, which has one. The caller releases *out.
 */
tn_code tn__sweep_part(tn__sweep *sweep, const tn__tape_value *value,
                       const tn__layout *layout, tn_array **out);
/* Finds the values that depend on the sources, and the calls between. */
void tn__sweep_mark(tn__sweep *sweep);
/* From the gradients of the heads to those of the sources. */
tn_code tn__sweep_run(tn__sweep *sweep);

/* ---------------------------------------------------------- query.c      */

/* Checks a question, and finds the arrays that it asks for. */
tn_code tn__sweep_check(const tn__sweep *sweep);
tn_code tn__sweep_sources(tn__sweep *sweep);
/* The gradients of the heads are their weights. */
tn_code tn__sweep_heads(tn__sweep *sweep);
/* Hands the gradients out: to given arrays, and to sweep->results. */
tn_code tn__sweep_answer(tn__sweep *sweep);

/* ----------------------------------------------------------- back.c      */

/* Whether an input of the entry hands gradients on to what is wanted. */
bool tn__sweep_passes(const tn__sweep *sweep, const tn__tape_entry *entry,
                      uint32_t i);
/* Gradients of the inputs of a call whose outputs have some. */
tn_code tn__sweep_call(tn__sweep *sweep, tn__tape_entry *entry);

/* The gradient with respect to an output on its way; borrowed, or NULL. */
tn_array *tn__sweep_slope(const tn__sweep *sweep,
                          const tn__tape_operand *operand);

/* ---------------------------------------------------------- graph.c      */

/* The same for an operator whose gradient is a graph of others. */
tn_code tn__sweep_graph(tn__sweep *sweep, const tn__tape_entry *entry);
/* linear.c: of a recorded backward call. */
tn_code tn__sweep_linear(tn__sweep *sweep, tn__tape_entry *entry);
/* Reports that an operand, `what`, was written since the call was recorded; it
 * is declared among the inputs (`in`) or outputs. */
tn_code tn__sweep_stale(const tn__tape_entry *entry, const char *what, bool in,
                        const tn__tape_operand *operand);

#endif /* TENON_TAPE_H_ */
