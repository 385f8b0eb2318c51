/* SPDX-License-Identifier: Apache-2.0
 * nn.find_leaves: many rows and trees against plain walks, and messages.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"

static tn_runtime *rt;

static void open_all(void) {
  rt = host_open();
}

static void close_all(void) {
  tn_runtime_release(rt);
}

TestSuite(trees, .init = open_all, .fini = close_all);

/* Complete trees of LEVELS levels; the children of node i are 2i + 1 and 2i + 2
 * of its tree, and leaves follow the nodes in the same count. */
enum { ROWS = 501, WIDTH = 9, TREES = 41, LEVELS = 5 };
enum { NODES = (1 << LEVELS) - 1, ALL = TREES * NODES };

typedef struct forest {
  double data[ROWS * WIDTH];
  double features[ALL], splits[ALL], modes[ALL];
  double if_true[ALL], if_false[ALL], roots[TREES];
} forest;

static uint64_t mix(int i) {
  const uint64_t x = ((uint64_t)i + 1) * 0x9e3779b97f4a7c15u;
  return (x ^ x >> 31) * 0xbf58476d1ce4e5b9u >> 33;
}

/* Returns the node or leaf that is child `i` of a tree. */
static double find_child(int tree, int i) {
  return i < NODES ? tree * NODES + i : -1 - (tree * (NODES + 1) + i - NODES);
}

static void fill_forest(forest *f) {
  for (int i = 0; i < ROWS * WIDTH; ++i) f->data[i] = (double)(mix(i) % 7);
  for (int tree = 0; tree < TREES; ++tree) {
    f->roots[tree] = tree * NODES;
    for (int i = 0; i < NODES; ++i) {
      const int at = tree * NODES + i;
      f->features[at] = (double)(mix(3 * at) % WIDTH);
      f->splits[at] = (double)(mix(5 * at + 1) % 7);
      f->modes[at] = (double)(mix(7 * at + 2) % 6);
      f->if_true[at] = find_child(tree, 2 * i + 1);
      f->if_false[at] = find_child(tree, 2 * i + 2);
    }
  }
}

static int compare(int mode, double x, double split) {
  const int order = (x > split) - (x < split);
  const int results[6] = {order <= 0, order<0, order >= 0, order> 0, order == 0,
                          order != 0};
  return results[mode];
}

static double walk(const forest *f, int row, int tree) {
  int i = 0;
  while (i < NODES) {
    const int at = tree * NODES + i;
    const double x = f->data[row * WIDTH + (int)f->features[at]];
    i = 2 * i + (compare((int)f->modes[at], x, f->splits[at]) ? 1 : 2);
  }
  return tree * (NODES + 1) + i - NODES;
}

/* The arrays of a call, in the order of the inputs. */
static void make_arrays(const forest *f, tn_dtype dtype, tn_array *in[7]) {
  const int64_t all = ALL, trees = TREES;
  in[0] = host_many(rt, dtype, 2, (int64_t[]){ROWS, WIDTH}, f->data);
  in[1] = host_many(rt, TN_I64, 1, &all, f->features);
  in[2] = host_many(rt, dtype, 1, &all, f->splits);
  in[3] = host_many(rt, TN_U8, 1, &all, f->modes);
  in[4] = host_many(rt, TN_I64, 1, &all, f->if_true);
  in[5] = host_many(rt, TN_I64, 1, &all, f->if_false);
  in[6] = host_many(rt, TN_I64, 1, &trees, f->roots);
}

static void release_arrays(tn_array *in[7]) {
  for (int i = 0; i < 7; ++i) tn_array_release(in[i]);
}

static void check_walks(tn_dtype dtype) {
  tn_array *in[7], *out = NULL;
  forest *f = malloc(sizeof *f);
  cr_assert_not_null(f);
  fill_forest(f);
  make_arrays(f, dtype, in);
  OK(tn_call(rt, host_operator(rt, "nn.find_leaves"), &(tn_inputs){7, in}, NULL,
             TN_OUT(&out)));
  double *got = host_many_values(out);
  for (int row = 0; row < ROWS; ++row)
    for (int tree = 0; tree < TREES; ++tree)
      cr_assert_eq((int64_t)got[row * TREES + tree],
                   (int64_t)walk(f, row, tree), "row %d, tree %d", row, tree);
  release_arrays(in);
  tn_array_release(out);
  free(got), free(f);
}

Test(trees, leaves_are_those_of_plain_walks) {
  check_walks(TN_F32);
  check_walks(TN_F64);
}

/* Calls with one number of the forest changed, and expects a failure. */
static void expect_failure(double *number, double value, const forest *f,
                           tn_code code, const char *part) {
  tn_array *in[7], *out = NULL;
  const double old = *number;
  *number = value;
  make_arrays(f, TN_F32, in);
  OK(tn_call(rt, host_operator(rt, "nn.find_leaves"), &(tn_inputs){7, in}, NULL,
             TN_OUT(&out)));
  FAILS(tn_array_wait(out), code, part);
  release_arrays(in);
  tn_array_release(out);
  *number = old;
}

Test(trees, wrong_numbers_are_refused) {
  forest *f = malloc(sizeof *f);
  cr_assert_not_null(f);
  fill_forest(f);
  expect_failure(&f->features[3], WIDTH, f, TN_OUT_OF_RANGE,
                 "element 3 of `features` is 9, but there are 9 features");
  expect_failure(&f->features[4], -1, f, TN_OUT_OF_RANGE,
                 "element 4 of `features` is -1");
  expect_failure(&f->modes[1], 6, f, TN_OUT_OF_RANGE,
                 "element 1 of `modes` is 6, but the last mode is 5");
  expect_failure(&f->if_true[2], ALL, f, TN_OUT_OF_RANGE,
                 "element 2 of `if_true` is");
  expect_failure(&f->roots[1], ALL, f, TN_OUT_OF_RANGE,
                 "element 1 of `roots` is");
  free(f);
}

Test(trees, a_walk_without_an_end_is_refused) {
  forest *f = malloc(sizeof *f);
  cr_assert_not_null(f);
  fill_forest(f);
  f->if_false[0] = 0;
  expect_failure(&f->if_true[0], 0, f, TN_INVALID,
                 "the tree with root 0 never ends");
  free(f);
}
