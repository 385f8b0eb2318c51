/* SPDX-License-Identifier: Apache-2.0
 * attention.h: the shapes of a call of attention.yaml, and tiles of its scores.
 * A tile has the scores of some rows of q (queries) and some rows of k (keys),
 * the columns of the scores. It is in memory column by column, with
 * NN_ATTENTION_ROWS elements for each, so vectors are along the rows: their
 * maxima and sums need no sum of a vector's elements.
 */
#ifndef NN_ATTENTION_H_
#define NN_ATTENTION_H_

#include "axis.h"
#include "operands.h"

enum {
  NN_ATTENTION_ROWS = 64,    /* rows of a tile, at most */
  NN_ATTENTION_COLUMNS = 96, /* columns of a tile, at most */
  NN_ATTENTION_LANES = 16,   /* rows are filled up to a multiple of this */
};

/* A call: shapes, parameters, and inputs in the type of the computation. */
typedef struct nn_attention_call {
  const tn_frame *call;
  tn_kernel_mode mode;
  int64_t bytes; /* bytes of an element */
  int64_t batch;
  int64_t heads;     /* heads of q, */
  int64_t key_heads; /* and of k and v */
  int64_t rows;      /* rows of a head of q, */
  int64_t columns;   /* and of k and v */
  int64_t depth;     /* length of a row of q and k */
  int64_t width;     /* length of a row of v and out */
  double scale;
  double softcap;
  double p;
  int causal;
  int64_t offset;
  int64_t window;
  const char *q;
  const char *k;
  const char *v;
  const tn_tensor *mask;    /* NULL: absent */
  const tn_tensor *lengths; /* NULL: absent */
  int drops;                /* weights are dropped, by these random numbers: */
  tn_random random;
} nn_attention_call;

/* A tile of one head of q; rows after n_rows, up to `lanes`, are padding. */
typedef struct nn_attention_tile {
  int64_t batch;
  int64_t head;
  int64_t row;
  int64_t n_rows;
  int64_t lanes;
  int64_t column;
  int64_t n_columns;
} nn_attention_tile;

/* Returns the shapes and parameters of a forward or backward call, without the
 * elements of inputs. [any] */
nn_attention_call nn_attention_describe(const tn_frame *call);

/* Returns input `i` of a forward call, which may also be a backward call. */
const tn_tensor *nn_attention_input(const tn_frame *call, uint32_t i);

/* Returns the number of tiles along the rows of a head. */
static inline int64_t nn_attention_count_row_tiles(const nn_attention_call *a) {
  return (a->rows + NN_ATTENTION_ROWS - 1) / NN_ATTENTION_ROWS;
}

/* Returns row tile `i` among those of all heads, without columns. */
nn_attention_tile nn_attention_locate_rows(const nn_attention_call *a,
                                           int64_t i);

/* Finds the columns that some rows of a tile use: [*first, *end), where *first
 * is a multiple of NN_ATTENTION_COLUMNS. */
void nn_attention_find_columns(const nn_attention_call *a,
                               const nn_attention_tile *tile, int64_t *first,
                               int64_t *end);

/* Returns the addresses of rows: row `tile->row` of q and `tile->column` of k
 * and v, for the head of the tile. */
const char *nn_attention_locate_q(const nn_attention_call *a,
                                  const nn_attention_tile *tile);
const char *nn_attention_locate_k(const nn_attention_call *a,
                                  const nn_attention_tile *tile);
const char *nn_attention_locate_v(const nn_attention_call *a,
                                  const nn_attention_tile *tile);

/* Returns the number of a tile's first row among the rows of all heads. */
static inline int64_t nn_attention_number_row(const nn_attention_call *a,
                                              const nn_attention_tile *tile) {
  return (tile->batch * a->heads + tile->head) * a->rows + tile->row;
}

/* Writes n_rows rows of `length` elements as columns: element i of row r goes
 * to to[i * NN_ATTENTION_ROWS + r]; rows up to `lanes` become 0. */
void nn_attention_turn_rows(const nn_attention_call *a,
                            const nn_attention_tile *tile, const char *from,
                            int64_t length, char *to);

/* Memory of one slice, in the type of the computation. */
typedef struct nn_attention_room {
  char *q;      /* rows of q as columns */
  char *h;      /* backward: rows of the output gradient as columns */
  char *scores; /* the tile */
  char *slopes; /* backward: gradients of the scores of the tile */
  char *mask;   /* elements of the mask for the tile */
  char *bend;   /* backward: derivatives of softcap for the tile */
} nn_attention_room;

/* Returns the bytes of a slice's memory in a forward or backward pass. */
uint64_t nn_attention_count_room_bytes(const nn_attention_call *a,
                                       int is_backward);

/* Divides the memory of a slice. */
nn_attention_room nn_attention_divide_room(const nn_attention_call *a,
                                           int is_backward, char *memory);

/* Sets or returns number i of an array in the type of the computation. */
static inline void nn_attention_put(const nn_attention_call *a, void *array,
                                    int64_t i, double value) {
  nn_operands_set(a->mode.compute, array, i, value, 0);
}

static inline double nn_attention_get(const nn_attention_call *a,
                                      const void *array, int64_t i) {
  return nn_operands_get(a->mode.compute, array, i);
}

/* Computes the masked scores of a tile into room->scores from room->q. With
 * room->bend it also computes the derivatives of softcap. */
void nn_attention_score(const nn_attention_call *a,
                        const nn_attention_tile *tile,
                        const nn_attention_room *room);

/* Multiplies a tile by the factors of its weights: 0, or 1/(1 - p). */
void nn_attention_drop(const nn_attention_call *a,
                       const nn_attention_tile *tile, char *scores);

/* Sets *bytes to the size of the workspace of a backward call. [any] */
int32_t nn_attention_backward_bytes(const tn_frame *call, uint64_t *bytes);

/* Loops over a tile, with params nn_attention_loop; attention_loops.h. */
typedef struct nn_attention_loop {
  int64_t lanes;
  int64_t n_columns;
  int64_t width;  /* of a row of out */
  int64_t after;  /* row r hides column c if r < after + c, */
  int64_t before; /* or if r >= before + c */
  double cap;
  int64_t column;   /* number of the first column */
  uint64_t key;     /* of the random numbers of dropout, */
  uint64_t counter; /* the lower counter of the first row, */
  uint32_t limit;   /* words below are dropped, */
  double kept;      /* and the factor of the others */
  void *top;        /* arrays with one number for each row */
  void *sum;
  void *factor;
} nn_attention_loop;

/* Takes the scores block->out of a tile into the softmax of its rows: updates
 * the maxima `top` and the sums `sum`, writes the weights exp(score - top), and
 * sets `factor` to the factors of earlier sums. */
extern const nn_loops nn_attention_take;

/* Writes the weights exp(score - top) of a tile, with top the lse. */
extern const nn_loops nn_attention_weigh;

/* Sets the slopes block->out, gradients of the weights, to those of the
 * scores, from the weights in[0]; in[1], unless it is NULL, has further
 * factors, and `sum` the sums of rows of weights times gradients. */
extern const nn_loops nn_attention_slope;

/* Multiplies n rows of `width` elements by `factor`. */
extern const nn_loops nn_attention_scale;

/* Sets sum[r] to the product of rows r of in[0] and in[1], n rows. */
extern const nn_loops nn_attention_dot;

#endif /* NN_ATTENTION_H_ */
