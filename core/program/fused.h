/* SPDX-License-Identifier: Apache-2.0
 * fused.h: a fused step: a run of elementwise calls, with optional reductions
 * at the end (tenon/draft/reduction.h). The outputs of reductions are no
 * operands of a tile. fusion.c decides which steps are fused, fused_shape.c
 * finds loop and tiles, fused_tiles.c computes them. If all calls have register
 * kernels (tenon/draft/registers.h), fused_registers.c computes them.
 */
#ifndef TENON_GRAPH_FUSED_H_
#define TENON_GRAPH_FUSED_H_

#include "program.h"
#include "tenon/draft/reduction.h"
#include "tenon/draft/registers.h"

enum {
  TN__LOOP_NDIM = 4, /* dimensions of a loop after joining axes */
  TN__PREFETCHED = 4 /* maximal number of operands to prefetch */
};

/* One operand of one part of a fused step. It is in memory, or in a buffer of
 * the size of a tile. */
typedef struct tn__tile_operand {
  uint32_t part;
  uint32_t position; /* its position among the part's inputs, then outputs */
  uint32_t entry;
  uint32_t buffer; /* TN_NONE: in memory */
  uint32_t is_output;
  uint32_t element; /* bytes of an element */
  char *data;       /* in memory: first element */
  int64_t strides[TN__LOOP_NDIM];
} tn__tile_operand;

/* An operand as memory of one register kernel. */
typedef struct tn__register_use {
  uint32_t step;
  uint32_t memory; /* number of the operand among the memories that the kernel
                      uses */
  uint32_t operand;
  uint32_t block; /* number of its block in the scratch; all operands of one
                     entry share a block */
} tn__register_use;

/* All parts of a fused step as one array of register kernels. */
typedef struct tn__register_run {
  const tn_register_interface *interface;
  uint32_t element; /* bytes of an element */
  uint32_t n_steps;
  uint32_t n_uses;
  tn_register_step *steps; /* without their memory */
  tn__register_use *uses;
} tn__register_run;

/* The working memory for one slice of the loop over tiles; each slice that runs
 * at the same time has its own. */
typedef struct tn__scratch {
  _Atomic uint32_t busy; /* 1: a thread uses it */
  uint32_t train;        /* `train` of the frames of its tiles */
  tn__tile **tiles;      /* one for each part */
  char *buffers; /* the buffers of all operands that are not in memory */
  tn_register_step *steps; /* the register kernels of a register run, with the
                              memory of this scratch */
  char *blocks;            /* of a register run: a block for each operand */
  int64_t shape[TN__LOOP_NDIM]; /* shape of the current tile */
  /* For each reduction: the shape of the current tile, with 1 for each
   * dimension that is reduced. */
  int64_t (*lines)[TN__LOOP_NDIM];
} tn__scratch;

/* The records (partial results) of a reduction. All reductions of a step have
 * the same extents, which depend only on the shape of the reduced operand. */
typedef struct tn__tile_reduction {
  uint32_t part;
  uint32_t kept; /* number of dimensions of the loop that are not reduced */
  int64_t parts; /* number of tiles of a line */
  size_t bytes;  /* bytes of one record */
  size_t all;    /* bytes of all records */
  char *records;
  tn__tile *merge; /* the call that computes the result from all records */
} tn__tile_reduction;

/* A fused step: the shape of its loop, its tiles, and the operands of its
 * parts. */
typedef struct tn__fused {
  uint32_t ndim;
  uint32_t n_operands;
  uint32_t n_buffers;
  uint32_t n_scratch;
  uint32_t n_fetched;
  uint32_t fetched[TN__PREFETCHED]; /* numbers of operands in memory that are
                                       prefetched before their tile is computed
                                       */
  int64_t shape[TN__LOOP_NDIM];
  int64_t tile[TN__LOOP_NDIM];
  int64_t count[TN__LOOP_NDIM]; /* tiles along each dimension */
  int64_t n_tiles;
  size_t buffer_bytes;
  tn__tile_reduction
      *reductions; /* the last parts are reductions: one item for each */
  uint32_t n_reductions;
  tn__tile_operand *operands;
  tn__scratch *scratch;
  tn__register_run *registers; /* register kernels of all parts; NULL: each part
                                  is a call of a kernel, and results are passed
                                  in tiles */
} tn__fused;

/* Tests whether a call accesses the elements of operand `i`, counted over
 * inputs, then outputs. */
static inline bool tn__operand_is_used(const tn_frame *f, uint32_t i) {
  if (i < f->n_in) return !(f->in_flags[i] & (TN_IN_ABSENT | TN_IN_METADATA));
  return f->req[i - f->n_in] != TN_REQ_NULL;
}
/* Returns the entry that is operand `i` (inputs, then outputs) of a part's
 * frame; TN_NONE if the node has no entry there. A backward frame has an
 * operand for each input of the operator, but its node has one only for each
 * present input. */
uint32_t tn__part_entry(const tn__step *part, uint32_t i);
static inline bool tn__entry_is_listed(const uint32_t *list, uint32_t n,
                                       uint32_t entry) {
  for (uint32_t i = 0; i < n; ++i)
    if (list[i] == entry) return true;
  return false;
}
/* Returns the shape of all outputs of a call; NULL if they differ in shape, or
 * if no output is requested. */
const tn_tensor *tn__fused_loop_shape(const tn_frame *f);

static inline bool tn__step_is_reduction(const tn__step *step) {
  return step->info.records > 0;
}
/* Number of bytes for the records of a reduction, rounded up to whole cache
 * lines, so that the records of the next reduction can follow. */
static inline size_t tn__reduction_bytes(const tn__step *reduction) {
  enum { LINE = 64 };
  return (reduction->info.workspace + LINE - 1) / LINE * LINE;
}

/* Sets up a step that has its parts, inputs and outputs: the shape of its loop,
 * the tile and the buffers. *fits becomes false if one loop cannot cover the
 * layouts of all operands. */
tn_code tn__fused_make(tn__step *step, bool *fits);
/* Sets the addresses of the operands of a fused step, after the program's
 * memory was allocated. Makes a scratch for each worker. */
tn_code tn__fused_set_memory(tn__step *step);
tn_code tn__fused_run(const tn__step *step, uint32_t train, tn__token *token);
void tn__fused_free(tn__step *step);
/* Tests whether output `out` of a fused step may be in the memory of input
 * `in`. */
bool tn__fused_can_overwrite(const tn__step *step, uint32_t in, uint32_t out);

/* -------------------------------------------- shared with fused_registers.c */

/* Origin and shape of tile number `index`. */
void tn__tile_extent(const tn__fused *f, int64_t index, int64_t *at,
                     int64_t *shape);
/* Returns the address of the element at index `at` of an operand in memory. */
char *tn__operand_address(const tn__fused *f, const tn__tile_operand *o,
                          const int64_t *at);
/* Sets the shape of the tiles: each is a part of one line, of about `most`
 * elements. */
void tn__fused_make_lines(tn__fused *f, int64_t most);

/* Makes a register run of a fused step, which has its memory and scratch, if
 * the kernels of all parts offer register kernels. */
tn_code tn__register_run_make(tn__step *step);
/* Computes tile number `index`. */
void tn__register_run_tile(const tn__fused *f, tn__scratch *scratch,
                           int64_t index);

#endif /* TENON_GRAPH_FUSED_H_ */
