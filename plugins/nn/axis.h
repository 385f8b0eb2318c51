/* SPDX-License-Identifier: Apache-2.0
 * axis.h: the common part of operators along an axis: a tensor as lines along
 * it, the type of the computation, and the division of work.
 */
#ifndef NN_AXIS_H_
#define NN_AXIS_H_

#include "tenon/kernel/kernel.h"

/* The shape of a dense tensor around one axis: lines of `length` elements along
 * it, `inner` elements apart. Element i of a line is at (o*length + i)*inner +
 * s, for each o below outer and s below inner. */
typedef struct nn_axis_shape {
  int64_t outer;
  int64_t length;
  int64_t inner;
} nn_axis_shape;

/* Returns the shape with dimensions `first` to `last` of a tensor as one axis.
 */
nn_axis_shape nn_axis_find_shape(const tn_tensor *tensor, int32_t first,
                                 int32_t last);

int64_t nn_axis_count_elements(const nn_axis_shape *e);

/* Finds the dimension that `axis` names; negative numbers count from the end.
 * TN_OK, or a code after TN_FAIL, which names the tensor. */
int32_t nn_axis_find_dim(const tn_frame *call, int64_t axis,
                         const tn_tensor *data, int32_t *dim);

/* The bodies of one loop, for both types and all levels. */
typedef struct nn_loops {
  tn_kernel_bodies f32;
  tn_kernel_bodies f64;
} nn_loops;

#define NN_LOOPS(name) \
  { TN_KERNEL_BODIES(name##_f32), TN_KERNEL_BODIES(name##_f64) }

/* Expands `name` before TN_KERNEL_LEVELS, because it is a macro itself. */
#define NN_LEVELS(name) TN_KERNEL_LEVELS(name)

void nn_run_loop(const tn_kernel_mode *mode, const nn_loops *loops,
                 const tn_kernel_block *block, const void *params);

/* Runs `body` over [0, n), each index worth `cost` elements: in slices of about
 * TN_KERNEL_GRAIN, or at once if the work is small. Slices depend on n and cost
 * alone. */
int32_t nn_run_parallel(const tn_frame *call, int64_t n, int64_t cost,
                        tn_loop_body *body, void *arg);

/* Copies input `in` to output `out`, which has the same type and shape, unless
 * it is not requested or has the memory of the input. */
int32_t nn_copy_input(const tn_frame *call, uint32_t in, uint32_t out);

/* Largest number of interleaved lines in one piece. */
enum { NN_CHUNK = 256 };

/* Lines of a tensor with inner > 1 are interleaved: they are columns. The first
 * function returns the number of pieces of columns; the second the first
 * element of piece `i`, and sets *n to its number of columns. */
int64_t nn_count_column_pieces(const nn_axis_shape *e);
int64_t nn_locate_column_piece(const nn_axis_shape *e, int64_t i, int64_t *n);

/* ---------------------------------------------------------------- channels */

/* The division of channels into pieces for sums, by shape alone. A channel has
 * inner elements for each of outer. Groups of `wide` channels are processed
 * together: one channel, a plane, or up to NN_CHUNK adjacent channels, the
 * columns. */
typedef struct nn_channel_division {
  nn_axis_shape e;
  int64_t wide;         /* channels of a group */
  int64_t groups;       /* number of groups */
  int64_t outer_step;   /* indices of `outer` in a piece */
  int64_t inner_step;   /* indices of `inner` in a piece */
  int64_t inner_pieces; /* pieces along `inner` */
  int64_t pieces;       /* pieces of each channel */
} nn_channel_division;

nn_channel_division nn_divide_channels(nn_axis_shape e);

/* A piece of a group of channels: `runs` runs of n elements. The first elements
 * of two runs have the distance `run_distance`. In a plane all elements belong
 * to one channel; in columns element i of a run belongs to channel i. */
typedef struct nn_channel_piece {
  int64_t first; /* index of the first element */
  int64_t n;
  int64_t runs;
  int64_t run_distance;
} nn_channel_piece;

/* Returns piece `p` of the group that begins at a channel, or of that channel
 * alone. */
nn_channel_piece nn_locate_channel_piece(const nn_channel_division *cut,
                                         int64_t channel, int64_t p);

/* Returns the number of elements of each channel in a piece. */
int64_t nn_count_piece_elements(const nn_channel_division *cut,
                                const nn_channel_piece *piece);

/* Runs `body` over all pieces of all groups in parallel: index i is piece i %
 * pieces of group i / pieces. */
int32_t nn_run_channel_pieces(const tn_frame *call,
                              const nn_channel_division *cut,
                              tn_loop_body *body, void *arg);

/* -------------------------------------------------------------------- wide */

/* The dense operands of a call in the type of the computation: in place, or
 * converted copies in the call's first workspace. */
typedef struct nn_wide_operands {
  const tn_frame *call;
  tn_kernel_mode mode;
  char *memory; /* workspace for the next copy */
} nn_wide_operands;

/* Bytes of workspace for the copy of an operand; 0 if it is not converted. */
uint64_t nn_count_wide_bytes(const tn_tensor *tensor);

/* Starts the conversion of operands; the first `skip` bytes of the workspace
 * have another use. */
nn_wide_operands nn_open_wide_operands(const tn_frame *call, tn_dtype dtype,
                                       uint64_t skip);

/* Returns the elements of an input in the type of the computation; NULL if it
 * is absent. */
const void *nn_widen_input(nn_wide_operands *w, const tn_tensor *tensor);

/* nn_locate_wide_output returns the address at which the kernel computes an
 * output, NULL for a null request; nn_store_wide_output converts the result
 * from there. */
void *nn_locate_wide_output(nn_wide_operands *w, const tn_tensor *tensor,
                            tn_req req);
void nn_store_wide_output(const nn_wide_operands *w, const tn_tensor *tensor,
                          const void *from);

#endif /* NN_AXIS_H_ */
