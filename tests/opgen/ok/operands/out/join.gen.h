/* join.gen.h: written by opgen 0.1.0 from join.yaml; do not edit.
 * Manifest bd2eee68e74b04f9. */
#ifndef SHAPES_JOIN_GEN_H_
#define SHAPES_JOIN_GEN_H_

#include <tenon/op.h>

#if TN_ABI_MAJOR != 0
#error "written for op.h 0.x; regenerate with the opgen of this op.h"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------ shapes.join@1 */

/* Arrays one after the other along an axis. */

typedef struct shapes_join_params {
  /* Where they are joined (default 0) */
  int64_t axis;
} shapes_join_params;

static inline const shapes_join_params *shapes_join_params_of(
    const tn_frame *call) {
  return (const shapes_join_params *)call->params;
}

/* Places in call->in. */
enum {
  SHAPES_JOIN_IN_PARTS = 0,
};

/* Places in call->out. */
enum {
  SHAPES_JOIN_OUT_OUT = 0,
};

/* Backward: places in call->in; the outputs come last. call->out holds the
 * gradients of the inputs. */
enum {
  SHAPES_JOIN_BACKWARD_GRAD_OUT = 0,
  SHAPES_JOIN_BACKWARD_IN_PARTS = 1,
};

/* States shapes through call->host->set_shape, as tn_op.infer in op.h says.
 * [any] */
int32_t shapes_join_infer(const tn_frame *call);

/* shapes.join.cpu. [worker] */
int32_t shapes_join(const tn_frame *call);
int32_t shapes_join_backward(const tn_frame *call);

/* Tables, for plugin.gen.c. */
extern const tn_op shapes_join_op;
extern const tn_kernel shapes_join_cpu_forward_kernel;
extern const tn_kernel shapes_join_cpu_backward_kernel;

/* ----------------------------------------------------------- shapes.split@1 */

/* Equal parts of an array along its first axis. */

typedef struct shapes_split_params {
  /* How many (required) */
  int64_t parts;
} shapes_split_params;

static inline const shapes_split_params *shapes_split_params_of(
    const tn_frame *call) {
  return (const shapes_split_params *)call->params;
}

/* Places in call->in. */
enum {
  SHAPES_SPLIT_IN_DATA = 0,
};

/* Places in call->out. */
enum {
  SHAPES_SPLIT_OUT_PART = 0,
};

/* Backward: call->in holds the gradients of all outputs, then the inputs, then
 * all outputs; call->out the gradients of the inputs. */

/* shapes.split.cpu. [worker] */
int32_t shapes_split(const tn_frame *call);
int32_t shapes_split_backward(const tn_frame *call);

/* Tables, for plugin.gen.c. */
extern const tn_op shapes_split_op;
extern const tn_kernel shapes_split_cpu_forward_kernel;
extern const tn_kernel shapes_split_cpu_backward_kernel;

#ifdef __cplusplus
}
#endif
#endif /* SHAPES_JOIN_GEN_H_ */
