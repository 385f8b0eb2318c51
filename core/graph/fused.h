/* SPDX-License-Identifier: Apache-2.0
 * fused.h: a step that is a run of elementwise calls, perhaps with folds
 * behind them (tenon/fold.h), whose outputs are no operands of a tile. Inside
 * core/graph only: fuse.c decides which, tiles.c computes them, or chain.c
 * where all calls are links of a chain (tenon/chain.h).
 */
#ifndef TENON_GRAPH_FUSED_H_
#define TENON_GRAPH_FUSED_H_

#include "program.h"
#include "tenon/chain.h"
#include "tenon/fold.h"

enum {
  TN__LOOP_NDIM = 4, /* dimensions of a loop, those joined that can be */
  TN__PREFETCHED = 4 /* operands that are asked for in advance, at most */
};

/* One operand of one part: memory, or a buffer of the tile's size. */
typedef struct tn__tile_operand {
  uint32_t part;
  uint32_t position; /* among the part's inputs, then outputs */
  uint32_t entry;
  uint32_t buffer; /* TN_NONE: it lies in memory */
  uint32_t is_output;
  uint32_t element; /* bytes */
  char *data;       /* in memory: first element */
  int64_t strides[TN__LOOP_NDIM];
} tn__tile_operand;

/* Memory of one link that is an operand's. */
typedef struct tn__register_use {
  uint32_t link;
  uint32_t memory; /* of the link's */
  uint32_t operand;
  uint32_t block; /* of the scratch: the same for all operands of an entry */
} tn__register_use;

/* All parts as one array of links. */
typedef struct tn__register_run {
  const tn_chain_kit *kit;
  uint32_t element; /* bytes */
  uint32_t n_links;
  uint32_t n_uses;
  tn_chain_link *links; /* without their memory */
  tn__register_use *uses;
} tn__register_run;

/* What one slice of the loop works with: others have their own. */
typedef struct tn__scratch {
  _Atomic uint32_t busy;
  uint32_t train;   /* what its tiles' frames say */
  tn__tile **tiles; /* one for each part */
  char *buffers;
  tn_chain_link *links; /* of a chain, and a block for each operand */
  char *blocks;
  int64_t shape[TN__LOOP_NDIM]; /* of the tile at hand */
  /* For each fold: the same with 1 where it is folded. */
  int64_t (*lines)[TN__LOOP_NDIM];
} tn__scratch;

/* Where the records of a fold go. The boxes of all folds of a step are the
 * same: they depend on the shape of what is folded alone. */
typedef struct tn__tile_reduction {
  uint32_t part;
  uint32_t kept; /* dimensions of the loop that the output has */
  int64_t parts; /* tiles of a line */
  size_t bytes;  /* of one record */
  size_t all;    /* of all */
  char *records;
  tn__tile *merge; /* the call behind all tiles */
} tn__tile_reduction;

typedef struct tn__fused {
  uint32_t ndim;
  uint32_t n_operands;
  uint32_t n_buffers;
  uint32_t n_scratch;
  uint32_t n_fetched;
  uint32_t fetched[TN__PREFETCHED]; /* operands in memory that are asked for
                                    before their tile's turn has come */
  int64_t shape[TN__LOOP_NDIM];
  int64_t tile[TN__LOOP_NDIM];
  int64_t count[TN__LOOP_NDIM]; /* tiles along each dimension */
  int64_t n_tiles;
  size_t buffer_bytes;
  tn__tile_reduction *folds; /* of the last parts */
  uint32_t n_folds;
  tn__tile_operand *operands;
  tn__scratch *scratch;
  tn__register_run *chain; /* NULL: tiles go from call to call */
} tn__fused;

/* Whether the kernel sees the elements of operand `i`: inputs, then outputs. */
static inline bool tn__operand_is_used(const tn_frame *f, uint32_t i) {
  if (i < f->n_in) return !(f->in_flags[i] & (TN_IN_ABSENT | TN_IN_METADATA));
  return f->req[i - f->n_in] != TN_REQ_NULL;
}
/* The entry at place `i` of a call's frame, among its inputs and then its
 * outputs; TN_NONE if the node has none there. A backward frame has a place for
 * each input of the operator, and its node one for each that was given. */
uint32_t tn__part_entry(const tn__step *part, uint32_t i);
static inline bool tn__entry_is_listed(const uint32_t *list, uint32_t n,
                                       uint32_t entry) {
  for (uint32_t i = 0; i < n; ++i)
    if (list[i] == entry) return true;
  return false;
}
/* The shape that all outputs of a call have; NULL if they differ, or if none is
 * asked for. */
const tn_tensor *tn__fused_loop_shape(const tn_frame *f);

static inline bool tn__step_is_reduction(const tn__step *step) {
  return step->info.records > 0;
}
/* Bytes for the records of a fold, those of others may follow. */
static inline size_t tn__reduction_bytes(const tn__step *fold) {
  enum { LINE = 64 };
  return (fold->info.workspace + LINE - 1) / LINE * LINE;
}

/* Works out the loop, the tile and the buffers of a step whose parts, inputs
 * and outputs stand; *fits is false where their layouts cannot be looped over
 * together. */
tn_code tn__fused_make(tn__step *step, bool *fits);
/* When memory stands: who lies where, and a scratch for each worker. */
tn_code tn__fused_set_memory(tn__step *step);
tn_code tn__fused_run(const tn__step *step, uint32_t train, tn__token *token);
void tn__fused_free(tn__step *step);
/* Whether output `out` of the step may lie in the memory of input `in`. */
bool tn__fused_can_overwrite(const tn__step *step, uint32_t in, uint32_t out);

/* ------------------------------------------------ between tiles.c and chain.c
 */

/* Where tile number `index` begins, and its shape. */
void tn__tile_extent(const tn__fused *f, int64_t index, int64_t *at,
                     int64_t *shape);
/* The element at `at` of an operand in memory. */
char *tn__operand_address(const tn__fused *f, const tn__tile_operand *o,
                          const int64_t *at);
/* Tiles become parts of one line, of about `most` elements. */
void tn__fused_make_lines(tn__fused *f, int64_t most);

/* Makes a chain of a step that has its memory and scratch, if its kernels have
 * links for all of it. */
tn_code tn__register_run_make(tn__step *step);
/* Computes one tile. */
void tn__register_run_tile(const tn__fused *f, tn__scratch *scratch,
                           int64_t index);

#endif /* TENON_GRAPH_FUSED_H_ */
