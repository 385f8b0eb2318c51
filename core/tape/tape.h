/* SPDX-License-Identifier: Apache-2.0
 * tape.h: records calls and differentiates them. The functions that tenon.h's
 * tape needs come first; the rest is shared by the files of this folder only.
 *
 * files: tape.c               create, watch, detach, forget, release
 *        tape_memory.c        memory of the records
 *        tape_index.c         finds the value of an array
 *        part_place.c         position of one view inside of another
 *        record_call.c        makes a call and records it
 *        add_view.c           adds to arrays and to parts of arrays
 *        accumulate.c         the same, recorded
 *        tape_query.c         checks a request and writes its results
 *        value_gradient.c     sums the gradient of a value
 *        sweep.c              passes gradients from the heads to the sources
 *        sweep_call.c         gradient of one entry: by its backward kernel or,
 *                             if it is to be recorded, by an operator
 *        composed_gradient.c  the same by calls of other operators
 *        linear_gradient.c    gradient of a recorded backward call
 *
 * A *value* is the content of some memory between two writes: a watched array,
 * or an output of a recorded call. The tape recognises an array by its memory:
 * the block's serial number and the region inside of the block. So it knows
 * every view of a value, and retains only arrays with elements that gradients
 * read.
 *
 * The block's version shows writes. A write through the tape makes a new value,
 * with the versions before and after it. Any other change of the version is a
 * foreign write. The tape then refuses gradients that need the old content.
 */
#ifndef TENON_TAPE_H_
#define TENON_TAPE_H_

#include "ndarray.h"

tn_code tn__tape_create(tn__caller *caller, tn_tape **out);
void tn__tape_release(tn_tape *tape);
tn_code tn__tape_watch(tn_tape *tape, tn_array *array);
/* Makes a call and records it if gradients can pass through it. With
 * TN_PASS_BACKWARD the operator is linear: `in` are the gradients of all
 * outputs, then the inputs, and `out` the gradients of the inputs. */
tn_code tn__tape_call(tn_tape *tape, const tn__target_op *target,
                      const tn_inputs *in, const tn_outputs *out);
/* Makes the call without recording it. */
tn_code tn__tape_perform(const tn__target_op *target, const tn_inputs *in,
                         const tn_outputs *out);
tn_code tn__tape_detach(tn_tape *tape, tn_array *array, tn_array **out);
tn_code tn__tape_gradient(tn_tape *tape, const tn_tape_query *query);

/* ----------------------------------------------------------------- records */

/* Position of elements in a block. */
typedef struct tn__layout {
  tn__device *device;
  tn_dtype dtype;
  int32_t ndim;
  int64_t offset; /* bytes from the start of the block to the first element */
  const int64_t *shape;
  const int64_t *strides;
} tn__layout;

typedef struct tn__tape_value tn__tape_value;
typedef struct tn__tape_entry tn__tape_entry;

struct tn__tape_value {
  tn__tape_value *earlier; /* created before this one, in any block */
  tn__tape_value *older;   /* in the same block */
  tn__tape_entry *entry;   /* the writer; NULL: watched, or a constant */
  tn_array *watched;       /* retained, or NULL */
  tn__layout layout;
  uint64_t serial; /* of the block */
  uint64_t before; /* version of the block before the write */
  uint64_t after;  /* after it; equal to `before` in a watched array */
  uint32_t id;     /* position among the tape's values */
  uint32_t n_uses; /* by inputs of entries */
  bool outdated;   /* watched again after a foreign write */
};

/* One operand of an entry. */
typedef struct tn__tape_operand {
  tn__tape_value *value;    /* NULL: a constant, or not on the tape */
  const tn__layout *layout; /* NULL: no array, or use `saved` */
  tn_array *saved;          /* retained if a gradient reads its elements */
  uint64_t version;         /* of the block, when `saved` was recorded */
  uint32_t declared;        /* index of its declaration */
  int32_t member;           /* position in a variadic operand, or -1 */
  uint32_t needed;          /* a gradient reads its elements */
  bool sum;                 /* output of a call: the request is TN_REQ_ADD */
  bool passed;              /* in this sweep: its gradient is computed */
} tn__tape_operand;

/* A call. With `op` NULL it is a sum: out[0] is in[0] plus in[1] at
 * out[0].layout. */
struct tn__tape_entry {
  tn__tape_entry *previous;
  tn__tape_entry *next;
  tn_operator *op;
  const tn_op *desc; /* valid because the tape holds the operator */
  tn_params *params; /* retained, or NULL */
  uint32_t flags;    /* TN_CALL_TRAIN or 0 */
  uint32_t live;     /* in this sweep: gradients pass through it */
  uint32_t n_in;
  uint32_t n_aux;
  uint32_t n_out;
  uint32_t n_out_grads; /* backward call of a linear operator: the first inputs,
                           which are gradients of outputs; 0: another call */
  tn__tape_operand *in; /* the aux states follow */
  tn__tape_operand *out;
};

/* Parameters of the call; NULL if its operator has none. */
static inline const tn_params *tn__tape_entry_params(
    const tn__tape_entry *entry) {
  return entry->params ? entry->params : entry->op->defaults;
}

/* ------------------------------------------------------------ tape_memory.c */

/* An arena that keeps its memory for the next recording. */
typedef struct tn__tape_memory {
  struct tn__tape_chunk *chunk; /* in use; full chunks follow */
  struct tn__tape_chunk *spare; /* free chunks */
} tn__tape_memory;

typedef struct tn__tape_mark {
  struct tn__tape_chunk *chunk;
  size_t used;
} tn__tape_mark;

struct tn__tape_chunk {
  struct tn__tape_chunk *next;
  size_t used;
  size_t capacity;
  size_t reserved; /* aligns `bytes` to 16 */
  unsigned char bytes[];
};

/* Memory that an allocation of so many bytes uses. */
static inline size_t tn__tape_round_up(size_t bytes) {
  return (bytes + 15) & ~(size_t)15;
}
/* Makes sure that the next allocations of `bytes` in total succeed. Each counts
 * tn__tape_round_up of its size. */
tn_code tn__tape_reserve(const tn__env *env, tn__tape_memory *memory,
                         size_t bytes);
static inline void *tn__tape_alloc(tn__tape_memory *memory, size_t bytes) {
  struct tn__tape_chunk *chunk = memory->chunk;
  void *taken = chunk->bytes + chunk->used;
  chunk->used += tn__tape_round_up(bytes);
  return taken;
}
tn__tape_mark tn__tape_mark_get(const tn__tape_memory *memory);
/* Frees the allocations after the mark in the current chunk. Other chunks stay
 * in use until the reset. */
void tn__tape_rewind(tn__tape_memory *memory, tn__tape_mark mark);
/* Frees all allocations and keeps the chunks. */
void tn__tape_memory_reset(tn__tape_memory *memory);
void tn__tape_memory_deinit(const tn__env *env, tn__tape_memory *memory);

/* Bytes of a layout with so many dimensions. */
static inline size_t tn__layout_bytes(int32_t ndim) {
  return tn__tape_round_up(sizeof(tn__layout)) +
         tn__tape_round_up(2 * (size_t)ndim * sizeof(int64_t));
}
void tn__layout_copy(tn__tape_memory *memory, const tn__layout *from,
                     tn__layout *to);
/* The same, but shares shape and strides with `like` if they are equal. Then
 * `like` must live as long as `to`. `like` may be NULL. */
void tn__layout_share(tn__tape_memory *memory, const tn__layout *from,
                      const tn__layout *like, tn__layout *to);

/* ---------------------------------------------------------------- tape.c */

typedef struct tn__tape_slot {
  uint64_t serial; /* 0: free slot */
  tn__tape_value *newest;
} tn__tape_slot;

enum { TN__TAPE_BLANKS = 4 };

struct tn_tape {
  tn__caller *caller;
  tn__tape_memory memory;
  tn__tape_slot *slots; /* hashed by serial number of the block */
  size_t n_slots;       /* slots in use */
  size_t capacity;      /* a power of two, or 0 */
  tn__tape_entry *first;
  tn__tape_entry *last;
  tn__tape_value *latest; /* newest value */
  uint32_t n_values;
  uint64_t next_serial; /* reserved numbers for blocks, up to `last_serial` */
  uint64_t last_serial;
  tn__vec held;            /* tn_operator *: operators of the entries */
  tn__vec watched;         /* tn__tape_value *, not in `memory` */
  tn__tape_memory scratch; /* memory of the current sweep */
  tn_array *constants[2][TN__N_DTYPES]; /* 0-d zeros, ones; or NULL */
  tn_array *views[2];                   /* the last views of constants */
  tn_array *blanks[TN__TAPE_BLANKS]; /* the last small arrays without memory */
  uint32_t next_blank;
};

/* A state of the tape; tn__tape_return_to removes all records after it. */
typedef struct tn__tape_point {
  tn__tape_entry *last;
  tn__tape_value *latest;
} tn__tape_point;
tn__tape_point tn__tape_point_get(const tn_tape *tape);
void tn__tape_return_to(tn_tape *tape, tn__tape_point point);
/* Forgets the calls and keeps the watched arrays. */
void tn__tape_forget(tn_tape *tape);
void tn__tape_append_entry(tn_tape *tape, tn__tape_entry *entry);

/* Creates a dense array of this dtype, shape and device. The caller releases
 * *out. */
tn_code tn__layout_create_array(const tn__layout *like, tn_array **out);
/* The same for an array that only describes dtype, shape and device. No one
 * reads or writes its elements. The caller releases *out. */
tn_code tn__tape_get_blank(tn_tape *tape, const tn__layout *like,
                           tn_array **out);
/* Finds or creates a view that repeats 0 or 1 over a shape. The caller releases
 * *out. */
tn_code tn__tape_get_constant(tn_tape *tape, uint32_t number,
                              const tn__layout *like, tn_array **out);

/* ------------------------------------------------------------- tape_index.c */

enum { /* state of an array on the tape */
       TN__KNOWN_NOT = 0,
       TN__KNOWN_VALUE = 1,
       TN__KNOWN_PARTLY = 2, /* it overlaps a value and is no part of it */
       TN__KNOWN_STALE = 3   /* a foreign write followed */
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
bool tn__layout_is_same(const tn__layout *a, const tn__layout *b);
/* True if device, dtype and shape are equal, so that new dense arrays of both
 * are alike. */
bool tn__layout_is_like(const tn__layout *a, const tn__layout *b);
static inline uint64_t tn__array_version(const tn_array *array) {
  return atomic_load_explicit(&array->block->version, memory_order_relaxed);
}

/* Finds the newest value that overlaps the array, and decides whether the array
 * is a part of it. */
int tn__tape_find(tn_tape *tape, const tn_array *array, tn__tape_value **out);
/* True if the array overlaps a value or constant of the tape. */
bool tn__tape_is_known(const tn_tape *tape, const tn_array *array);
/* Finds the watched value of the array, or else the newest one. */
int tn__tape_find_source(tn_tape *tape, const tn_array *array,
                         tn__tape_value **out);
/* Adds the reason for TN__KNOWN_PARTLY or TN__KNOWN_STALE to the thread's error
 * text, which names the array. */
tn_code tn__tape_find_fail(int known);
/* True if no write has changed the array's elements since that version of its
 * block. */
bool tn__tape_is_unchanged(const tn_tape *tape, const tn_array *array,
                           uint64_t version);
/* True if the array's block is in the index. */
bool tn__tape_has_block(const tn_tape *tape, const tn_array *array);

/* Returns the serial number of the array's block. No other block of the runtime
 * ever has it. `fresh`: no other thread knows the array yet. */
uint64_t tn__tape_get_serial(tn_tape *tape, const tn_array *array, bool fresh);
/* Makes sure that the next `more` inserts of blocks succeed. */
tn_code tn__tape_index_reserve(tn_tape *tape, size_t more);
/* Adds the array's block without a value. */
void tn__tape_add_block(tn_tape *tape, const tn_array *array);
/* Adds a new value to all lists. */
void tn__tape_add_value(tn_tape *tape, tn__tape_value *value);
/* Removes the newest of all values. */
void tn__tape_remove_newest(tn_tape *tape);
void tn__tape_index_reset(tn_tape *tape);

/* ------------------------------------------------------------- part_place.c */

enum { TN__PART_DISJOINT = 0, TN__PART_INSIDE = 1, TN__PART_ACROSS = 2 };

/* Position of `part` in a dense array of the shape of `of`. */
typedef struct tn__part_place {
  tn__view view;
  bool whole;   /* all elements in the same order */
  bool covers;  /* each element exactly once */
  bool repeats; /* some elements occur more than once */
  int64_t strides[TN_MAX_NDIM];
} tn__part_place;

int tn__layout_find_part(const tn__layout *of, const tn__layout *part,
                         tn__part_place *out);

/* --------------------------------------------------------------- add_view.c */

/* Pushes to += from. Shapes and dtypes are equal; the arrays share no memory.
 * An element that `to` repeats gets the sum of all elements for it. */
tn_code tn__array_accumulate(tn_array *to, tn_array *from);

/* ------------------------------------------------------------- accumulate.c */

/* Sets all elements to 0. */
tn_code tn__array_clear(tn_tape *tape, tn_array *to);

/* Copies `from` to `part`, a view of `to`, or adds it there. The tape records
 * this if gradients pass through it. To overwrite, `part` must cover `to`. */
tn_code tn__tape_accumulate(tn_tape *tape, tn_array *to, tn_array *part,
                            tn_array *from, bool overwrite);

/* The same, recorded. */
tn_code tn__tape_clear(tn_tape *tape, tn_array *to);

/* Makes an unknown array a constant of the tape. */
tn_code tn__tape_add_constant(tn_tape *tape, tn_array *array);

/* --------------------------------------------------------- value_gradient.c */

/* The gradient with respect to one value, during a sweep. */
typedef struct tn__value_gradient {
  tn_array *array;     /* retained, shaped like the value; or NULL */
  uint32_t n_requests; /* number of requests for it */
  bool wanted;         /* a requested gradient depends on it */
  bool is_new;         /* the sweep created `array`; no one else has it */
  bool grows;          /* dense; the sweep may add to it in place */
  bool blank;          /* nothing is written to it yet */
} tn__value_gradient;

typedef struct tn__sweep {
  tn_tape *tape;
  const tn_tape_query *query;
  bool record;
  tn__value_gradient *gradients; /* by id of the value */
  uint32_t n_gradients;          /* values of this sweep have higher ids */
  tn__tape_value **sources;      /* values of query->of */
  tn_array **results;            /* for query->gradients */
  tn_array **lists[5];           /* space for the operands of any entry */
  tn_req *req;                   /* space for their requests */
} tn__sweep;

/* True if a requested gradient depends on this input of the entry. */
bool tn__sweep_is_live_input(const tn__sweep *sweep,
                             const tn__tape_entry *entry, uint32_t i);
/* The place that receives a contribution to the gradient of a value. */
typedef struct tn__sweep_target {
  tn_array *base; /* the value's gradient; borrowed */
  tn_array *part; /* a view of it, which the caller releases, or `base` */
  bool overwrite; /* `base` is blank and `part` covers it */
  bool repeats;
} tn__sweep_target;
tn_code tn__sweep_find_target(tn__sweep *sweep, const tn__tape_value *value,
                              const tn__layout *layout, tn__sweep_target *out);

/* Adds an array to the gradient of a part of a value. `is_new`: only the caller
 * has the array. */
tn_code tn__sweep_add(tn__sweep *sweep, const tn__tape_value *value,
                      const tn__layout *layout, tn_array *array, bool is_new);
/* Gives the gradient of a value memory of its own, so that contributions can be
 * added. */
tn_code tn__sweep_allocate(tn__sweep *sweep, const tn__tape_value *value);
/* Returns the gradient of a part of a value that has a gradient. The caller
 * releases *out. */
tn_code tn__sweep_view_part(tn__sweep *sweep, const tn__tape_value *value,
                            const tn__layout *layout, tn_array **out);

/* ------------------------------------------------------------- tape_query.c */

/* Checks a request, and finds the values of its sources. */
tn_code tn__sweep_check(const tn__sweep *sweep);
tn_code tn__sweep_find_sources(tn__sweep *sweep);
/* Starts with the output gradients of the heads, ones by default. */
tn_code tn__sweep_add_heads(tn__sweep *sweep);
/* Writes the gradients to the caller's arrays and to sweep->results. */
tn_code tn__sweep_write_results(tn__sweep *sweep);

/* ------------------------------------------------------------- sweep_call.c */

/* Computes the gradients of the inputs of a call from those of its outputs. */
tn_code tn__sweep_pass_call(tn__sweep *sweep, tn__tape_entry *entry);

/* Returns the current gradient with respect to an operand; borrowed, or NULL.
 */
tn_array *tn__sweep_gradient_of(const tn__sweep *sweep,
                                const tn__tape_operand *operand);

/* ------------------------------------------------------ composed_gradient.c */

/* The same for an operator with a gradient that is composed of other operators.
 */
tn_code tn__sweep_pass_composed(tn__sweep *sweep, const tn__tape_entry *entry);
/* linear_gradient.c: the same for a recorded backward call. */
tn_code tn__sweep_pass_linear(tn__sweep *sweep, tn__tape_entry *entry);
/* Reports a write to an operand after the call was recorded. `kind` names it in
 * the message. `in`: it is declared in the inputs, otherwise in the outputs. */
tn_code tn__sweep_fail_stale(const tn__tape_entry *entry, const char *kind,
                             bool in, const tn__tape_operand *operand);

#endif /* TENON_TAPE_H_ */
