/* SPDX-License-Identifier: Apache-2.0
 * svm_output.c: kernels of svm_output.yaml, row by row.
 */
#include "svm_output.gen.h"

#include "axis.h"
#include "nn.h"

/* Arguments of the loop over some rows. */
typedef struct svm_args {
  int64_t classes;
  const int64_t *labels; /* class number of each row; -1: no class */
  double margin;
  double factor;
  int is_linear;
} svm_args;

#define NN_EACH "svm_loops.h"
#include "each.h"

typedef struct svm_work {
  tn_kernel_mode mode;
  const tn_tensor *label;
  svm_args args; /* without labels */
  int64_t bytes; /* bytes of an element */
  const char *from;
  char *to;
} svm_work;

/* Sets *bytes to the size of the workspace for converted operands. */
int32_t nn_svm_output_bytes(const tn_frame *call, uint64_t *bytes) {
  const uint64_t n = (call->flags & TN_CALL_BACKWARD) ? 2 : 0;
  *bytes = n * nn_count_wide_bytes(&call->out[0]);
  return TN_OK;
}

int32_t nn_svm_output(const tn_frame *call) {
  return nn_copy_input(call, NN_SVM_OUTPUT_IN_DATA, NN_SVM_OUTPUT_OUT_OUT);
}

/* Computes the gradients of rows [begin, end). */
static int32_t backward_slice(void *arg, int64_t begin, int64_t end) {
  static const nn_loops loops = NN_LOOPS(write_hinge_gradients);
  const svm_work *w = arg;
  int64_t labels[NN_LABELS];
  svm_args own = w->args;
  own.labels = labels;
  for (int64_t r = begin; r < end; r += NN_LABELS) {
    const int64_t n = end - r < NN_LABELS ? end - r : NN_LABELS;
    const int64_t skip = r * own.classes * w->bytes;
    const tn_kernel_block block = {
        .n = n, .out = w->to + skip, .in = {w->from + skip}};
    nn_read_labels(&(nn_labels){w->label, w->args.classes, w->mode.level}, r, n,
                   labels);
    nn_run_loop(&w->mode, &loops, &block, &own);
  }
  return TN_OK;
}

int32_t nn_svm_output_backward(const tn_frame *call) {
  const nn_svm_output_params *p = nn_svm_output_params_of(call);
  const tn_tensor *to = &call->out[NN_SVM_OUTPUT_IN_DATA];
  const int64_t size = tn_tensor_size(to);
  if (call->req[NN_SVM_OUTPUT_IN_DATA] == TN_REQ_NULL || size == 0)
    return TN_OK;
  nn_wide_operands wide = nn_open_wide_operands(call, to->dtype, 0);
  svm_work w = {.mode = wide.mode,
                .label = &call->in[NN_SVM_OUTPUT_BACKWARD_IN_LABEL],
                .bytes = tn_dtype_bytes(wide.mode.compute)};
  w.args = (svm_args){.classes = size / to->shape[0],
                      .margin = p->margin,
                      .factor = p->regularization_coefficient,
                      .is_linear = p->use_linear};
  w.from = nn_widen_input(&wide, &call->in[NN_SVM_OUTPUT_BACKWARD_IN_DATA]);
  w.to = nn_locate_wide_output(&wide, to, TN_REQ_WRITE);
  const int32_t code =
      nn_run_parallel(call, to->shape[0], w.args.classes, backward_slice, &w);
  if (code == TN_OK) nn_store_wide_output(&wide, to, w.to);
  return code;
}
