/* SPDX-License-Identifier: Apache-2.0
 * trees.c: trees.yaml. Numbers of nodes are checked once, so that walks need no
 * checks; a walk with more steps than nodes would never end.
 */
#include <stdatomic.h>

#include "axis.h"
#include "trees.gen.h"

enum { N_MODES = 6 };

/* The operands of a call. */
typedef struct tree_work {
  const tn_frame *call;
  const void *data;
  const void *splits;
  const int64_t *features;
  const uint8_t *modes;
  const int64_t *if_true;
  const int64_t *if_false;
  const int64_t *roots;
  const uint8_t *nan_is_true; /* NULL: absent */
  int64_t *out;
  int64_t width; /* features of a row */
  int64_t nodes;
  int64_t trees;
  int is_wide;             /* f64 */
  _Atomic int64_t endless; /* 1 more than a tree without an end, or 0 */
} tree_work;

static double read_float(const tree_work *w, const void *array, int64_t i) {
  return w->is_wide ? ((const double *)array)[i]
                    : (double)((const float *)array)[i];
}

/* Returns whether the comparison of a node is true for a row. */
static int is_true(const tree_work *w, int64_t row, int64_t node) {
  const double x = read_float(w, w->data, row * w->width + w->features[node]);
  const double split = read_float(w, w->splits, node);
  if (x != x && w->nan_is_true && w->nan_is_true[node]) return 1;
  switch (w->modes[node]) {
    case 0:
      return x <= split;
    case 1:
      return x < split;
    case 2:
      return x >= split;
    case 3:
      return x > split;
    case 4:
      return x >= split && x <= split;
    default:
      return !(x >= split && x <= split);
  }
}

/* Returns the leaf that a row reaches in a tree. */
static int64_t walk_tree(tree_work *w, int64_t row, int64_t tree) {
  int64_t at = w->roots[tree];
  for (int64_t steps = 0; at >= 0; ++steps) {
    if (steps == w->nodes) {
      atomic_store_explicit(&w->endless, tree + 1, memory_order_relaxed);
      return 0;
    }
    at = is_true(w, row, at) ? w->if_true[at] : w->if_false[at];
  }
  return -1 - at;
}

/* Computes rows [begin, end). */
static int32_t walk_rows(void *arg, int64_t begin, int64_t end) {
  tree_work *w = arg;
  for (int64_t row = begin; row < end; ++row)
    for (int64_t tree = 0; tree < w->trees; ++tree)
      w->out[row * w->trees + tree] = walk_tree(w, row, tree);
  return TN_OK;
}

/* Reports the first of n numbers that is not below `limit`, or below 0 if
 * `least` is 0. */
static int32_t check_numbers(const tree_work *w, const int64_t *numbers,
                             int64_t n, int64_t limit, const char *name) {
  const int is_feature = numbers == w->features;
  for (int64_t i = 0; i < n; ++i)
    if (numbers[i] >= limit || (is_feature && numbers[i] < 0))
      return TN_FAIL(w->call, TN_OUT_OF_RANGE,
                     "element %lld of `%s` is %lld, but there are %lld %s",
                     (long long)i, name, (long long)numbers[i],
                     (long long)limit, is_feature ? "features" : "nodes");
  return TN_OK;
}

static int32_t check_modes(const tree_work *w) {
  for (int64_t i = 0; i < w->nodes; ++i)
    if (w->modes[i] >= N_MODES)
      return TN_FAIL(w->call, TN_OUT_OF_RANGE,
                     "element %lld of `modes` is %u, but the last mode is %d",
                     (long long)i, (unsigned)w->modes[i], N_MODES - 1);
  return TN_OK;
}

static int32_t check_trees(const tree_work *w) {
  int32_t code = check_numbers(w, w->features, w->nodes, w->width, "features");
  if (code == TN_OK)
    code = check_numbers(w, w->if_true, w->nodes, w->nodes, "if_true");
  if (code == TN_OK)
    code = check_numbers(w, w->if_false, w->nodes, w->nodes, "if_false");
  if (code == TN_OK)
    code = check_numbers(w, w->roots, w->trees, w->nodes, "roots");
  return code == TN_OK ? check_modes(w) : code;
}

int32_t nn_find_leaves(const tn_frame *call) {
  enum { STEPS = 16 }; /* of a usual walk */
  const tn_tensor *in = call->in;
  const uint32_t last = NN_FIND_LEAVES_IN_NAN_IS_TRUE;
  tree_work w = {.call = call,
                 .data = in[NN_FIND_LEAVES_IN_DATA].data,
                 .splits = in[NN_FIND_LEAVES_IN_SPLITS].data,
                 .features = in[NN_FIND_LEAVES_IN_FEATURES].data,
                 .modes = in[NN_FIND_LEAVES_IN_MODES].data,
                 .if_true = in[NN_FIND_LEAVES_IN_IF_TRUE].data,
                 .if_false = in[NN_FIND_LEAVES_IN_IF_FALSE].data,
                 .roots = in[NN_FIND_LEAVES_IN_ROOTS].data,
                 .out = call->out[0].data,
                 .width = in[NN_FIND_LEAVES_IN_DATA].shape[1],
                 .nodes = in[NN_FIND_LEAVES_IN_FEATURES].shape[0],
                 .trees = in[NN_FIND_LEAVES_IN_ROOTS].shape[0],
                 .is_wide = in[NN_FIND_LEAVES_IN_DATA].dtype == TN_F64};
  if (last < call->n_in && !(call->in_flags[last] & TN_IN_ABSENT))
    w.nan_is_true = in[last].data;
  int32_t code = check_trees(&w);
  if (code == TN_OK)
    code = nn_run_parallel(call, in[NN_FIND_LEAVES_IN_DATA].shape[0],
                           w.trees * STEPS + 1, walk_rows, &w);
  const int64_t endless =
      atomic_load_explicit(&w.endless, memory_order_relaxed);
  if (code == TN_OK && endless > 0)
    return TN_FAIL(call, TN_INVALID,
                   "the tree with root %lld never ends: a walk comes back to "
                   "one of its nodes",
                   (long long)w.roots[endless - 1]);
  return code;
}
