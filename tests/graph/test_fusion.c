/* SPDX-License-Identifier: Apache-2.0
 * Fused steps: they give the results of single steps for any size, type and
 * broadcast, and the table of a program tells which steps are not fused.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "evaluate.h"
#include "probe.h"
#include "program_fixture.h"

/* --------------------------------------------------------------------- fuse */

/* Two programs of `g`, one of which must fuse, agree bit for bit. */
static void compare_fused(const char *what, size_t n_heads, bool fuses) {
  tn_program *one = BIND(.flags = TN_BIND_NO_FUSE), *two = BIND(0);
  cr_assert_eq(stats_of(one).n_fused, 0);
  if (fuses) cr_assert_gt(stats_of(two).n_fused, 1, "%s is not fused", what);
  OK(tn__program_forward(one, 0));
  OK(tn__program_forward(two, 0));
  OK(tn__program_forward(two, TN_CALL_TRAIN));
  for (size_t i = 0; i < n_heads; ++i)
    same_bits(head_of(one, i), head_of(two, i), what);
  tn__program_release(one);
  tn__program_release(two);
}

static void fuse_unary(tn_dtype dtype, int64_t n) {
  char what[64];
  (void)snprintf(what, sizeof what, "%s of %lld", tn__dtype_name(dtype),
                 (long long)n);
  give_array("x", create_filled(dtype, SHAPE(n)));
  give_array("y", create_filled(dtype, SHAPE(n)));
  const tn_entry x = var_node(g, "x"), y = var_node(g, "y");
  const tn_entry sum = OP(g, "add", NULL, NULL, x, y);
  const tn_entry t = OP(g, "tanh", NULL, NULL, sum);
  HEADS(g, OP(g, "mul", NULL, NULL, OP(g, "square", NULL, NULL, t), x), sum);
  compare_fused(what, 2, n > 100000);
  drop_arrays();
  net_renew();
}

/* Sizes near that of a tile, and of several. */
static void fuse_sizes(uint32_t workers) {
  static const tn_dtype dtypes[] = {TN_F64, TN_F32, TN_F16};
  net_open_on(workers);
  for (int k = 0; k < 3; ++k) {
    const int64_t tile = (16 << 10) / tn_dtype_bytes(dtypes[k]);
    const int64_t sizes[] = {1,        2 * tile - 1, 2 * tile,     2 * tile + 1,
                             5 * tile, 131071,       12 * tile + 7};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i)
      fuse_unary(dtypes[k], sizes[i]);
  }
  net_close();
}

Test(fusion, fused_sizes_on_one_worker) {
  fuse_sizes(1);
}
Test(fusion, fused_sizes_on_two_workers) {
  fuse_sizes(2);
}
Test(fusion, fused_sizes_on_eight_workers) {
  fuse_sizes(8);
}

/* Operands that exceed all caches are prefetched. */
Test(fusion, fused_runs_over_much_memory) {
  net_open_on(2);
  fuse_unary(TN_F64, (20 << 20) / 4 / 8 + 77);
  net_close();
}

/* Rows, columns and scalars with an array of three dimensions, by a
 * hand-written kernel or by those that opgen writes. */
static void fuse_broadcast(tn_dtype dtype, const int64_t *n, bool by_hand) {
  const char *plus = by_hand ? "broad" : "plus_all",
             *times = by_hand ? "broad" : "times_all";
  give_array("all", create_filled(dtype, SHAPE(n[0], n[1], n[2])));
  give_array("row", create_filled(dtype, SHAPE(n[2])));
  give_array("column", create_filled(dtype, SHAPE(n[1], 1)));
  give_array("plane", create_filled(dtype, SHAPE(n[0], 1, n[2])));
  give_array("one", create_filled(dtype, SHAPE(1)));
  const tn_entry row =
      OP(g, plus, NULL, "a", var_node(g, "all"), var_node(g, "row"));
  const tn_entry column = OP(g, times, NULL, "b", row, var_node(g, "column"));
  const tn_entry plane = OP(g, plus, NULL, "c", column, var_node(g, "plane"));
  const tn_entry one = OP(g, times, NULL, "d", var_node(g, "one"), plane);
  HEADS(g, OP(g, plus, NULL, "e", one, column), one);
  compare_fused(tn__dtype_name(dtype), 2, true);
  drop_arrays();
  net_renew();
}

static void fuse_broadcasts(uint32_t workers) {
  static const tn_dtype dtypes[] = {TN_F64, TN_F32, TN_I32};
  static const int64_t shapes[][3] = {
      {7, 33, 131}, {3, 5, 5003}, {1, 301, 99}, {2, 9001, 2}, {257, 1, 129}};
  net_open_on(workers);
  for (int k = 0; k < 3; ++k)
    for (int i = 0; i < 5; ++i) {
      fuse_broadcast(dtypes[k], shapes[i], true);
      if (dtypes[k] != TN_I32) fuse_broadcast(dtypes[k], shapes[i], false);
    }
  net_close();
}

Test(fusion, fused_broadcasts_on_one_worker) {
  fuse_broadcasts(1);
}
Test(fusion, fused_broadcasts_on_eight_workers) {
  fuse_broadcasts(8);
}

/* Several outputs, values read outside, a head that overwrites an argument. */
Test(fusion, fused_steps_write_results_that_others_read) {
  net_open_on(2);
  tn_array *outputs[3] = {NULL, NULL, NULL};
  for (int fused = 0; fused < 2; ++fused) {
    give_array("x", create_filled(TN_F64, SHAPE(100, 201)));
    give_array("y", create_filled(TN_F64, SHAPE(100, 201)));
    if (fused == 0) {
      const tn_entry x = var_node(g, "x"), y = var_node(g, "y");
      const tn_entry pair = OP(g, "pair", NULL, NULL, x, y);
      const tn_entry t = OP(g, "tanh", NULL, NULL, output_of(pair, 1));
      HEADS(g, OP(g, "mul", NULL, NULL, t, output_of(pair, 0)),
            OP(g, "total", NULL, NULL, t, output_of(pair, 1), x));
    }
    tn_program *p = BIND(.flags = fused ? 0 : TN_BIND_NO_FUSE, .n_outputs = 1,
                         .outputs = (tn_array *const[]){given[0].array});
    if (fused) cr_assert_gt(stats_of(p).n_fused, 1);
    for (int i = 0; i < 3; ++i) OK(tn__program_forward(p, 0));
    tn_array *have[] = {given[0].array, given[1].array, head_of(p, 1)};
    for (int i = 0; i < 3; ++i) {
      if (fused) same_bits(have[i], outputs[i], "fused");
      if (fused) tn__array_release(outputs[i]);
      outputs[i] = tn__array_retain(have[i]);
    }
    tn__program_release(p);
    drop_arrays();
  }
  for (int i = 0; i < 3; ++i) tn__array_release(outputs[i]);
  net_close();
}

/* An odd number, so that the last byte has one element. */
enum { N_PACKED = 200001, PACKED_BYTES = 100001 };

static tn_array *create_packed(unsigned char *bytes) {
  for (int i = 0; i < PACKED_BYTES; ++i)
    bytes[i] = (unsigned char)(i * 37 >> 3);
  bytes[PACKED_BYTES - 1] = 0x05;
  tn_array *x = empty(TN_U4, SHAPE(N_PACKED));
  OK(tn__array_set(x, bytes, PACKED_BYTES));
  return x;
}

Test(fusion, packed_elements_are_computed_whole_in_the_bytes_that_they_share) {
  unsigned char *x = malloc(PACKED_BYTES), *y = malloc(PACKED_BYTES);
  net_open_on(2);
  give_array("x", create_packed(x));
  const tn_entry a = OP(g, "invert", NULL, NULL, var_node(g, "x"));
  HEADS(g, OP(g, "invert", NULL, NULL, OP(g, "invert", NULL, NULL, a)));
  tn_program *p = BIND(0);
  has_text(p, "elements of its operands share bytes");
  cr_expect_eq(stats_of(p).n_fused, 0);
  cr_expect_lt(stats_of(p).pool_bytes, 2 * PACKED_BYTES + 8192);
  OK(tn__program_forward(p, 0));
  OK(tn__array_get(head_of(p, 0), y, PACKED_BYTES));
  for (int i = 0; i < PACKED_BYTES - 1; ++i)
    cr_assert_eq(y[i], (unsigned char)~x[i], "byte %d", i);
  cr_expect_eq(y[PACKED_BYTES - 1], 0x0a);
  tn__program_release(p);
  drop_arrays();
  net_close();
  free(x), free(y);
}

Test(fusion, nothing_is_added_to_storage_types) {
  unsigned char *bytes = malloc(PACKED_BYTES);
  net_open_on(1);
  tn_array *x = create_packed(bytes), *y = create_packed(bytes);
  const tn_req add = TN_REQ_ADD;
  const tn_inputs in = {1, &x};
  const tn_outputs out = {1, &y, &add};
  cr_expect_eq(call_of(&w.caller, op_get("lab.invert"), &in, NULL, &out),
               TN_DTYPE);
  EXPECT_TEXT("TN_REQ_ADD was asked for", "elements of u4 have no sums");
  tn__array_release(x), tn__array_release(y);
  net_close();
  free(bytes);
}

Test(fusion, the_table_says_why_steps_are_not_fused) {
  net_open_on(1);
  give_array("x", create_filled(TN_F64, SHAPE(8, 4)));
  HEADS(
      g, OP(g, "tanh", NULL, "small", var_node(g, "x")),
      OP(g, "total", NULL, "all", OP(g, "exp", NULL, NULL, var_node(g, "y"))));
  give_array("y", create_filled(TN_F64, SHAPE(100, 100)));
  tn_program *p = BIND(0);
  has_text(p, "stay in the cache");
  has_text(p, "not elementwise");
  has_text(p, "nothing next to it");
  tn__program_release(p);
  p = BIND(.flags = TN_BIND_NO_FUSE);
  has_text(p, "forbids");
  tn__program_release(p);
  drop_arrays();
  net_close();
}
