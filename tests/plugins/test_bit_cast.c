/* SPDX-License-Identifier: Apache-2.0
 * tensor.bit_cast: the same bytes under every pair of types of one size, many
 * elements, and types of different sizes.
 */
#include <criterion/criterion.h>
#include <stdio.h>
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

TestSuite(bit_cast, .init = open_all, .fini = close_all);

typedef struct named_type {
  tn_dtype dtype;
  const char *name;
} named_type;

static const named_type types[] = {
    {TN_F64, "f64"},       {TN_I64, "i64"},
    {TN_U64, "u64"},       {TN_F32, "f32"},
    {TN_I32, "i32"},       {TN_U32, "u32"},
    {TN_F16, "f16"},       {TN_BF16, "bf16"},
    {TN_I16, "i16"},       {TN_U16, "u16"},
    {TN_BOOL, "bool"},     {TN_I8, "i8"},
    {TN_U8, "u8"},         {TN_F8E4M3FN, "f8e4m3fn"},
    {TN_F8E5M2, "f8e5m2"}, {TN_F8E4M3FNUZ, "f8e4m3fnuz"},
    {TN_F8E8M0, "f8e8m0"}, {TN_F8E5M2FNUZ, "f8e5m2fnuz"},
    {TN_F4E2M1, "f4e2m1"}, {TN_I4, "i4"},
    {TN_U4, "u4"},         {TN_I2, "i2"},
    {TN_U2, "u2"},
};
enum { N_TYPES = sizeof types / sizeof *types };

/* Casts the bits of n elements, and fails the test unless the bytes stay. */
static void check_pair(const named_type *from, const named_type *to,
                       int64_t n) {
  const size_t bytes = (size_t)tn_dtype_bytes_of(from->dtype, n);
  tn_operator *op = host_operator(rt, "tensor.bit_cast");
  char text[32], *before = malloc(bytes), *after = malloc(bytes);
  tn_array *in = NULL, *out = NULL;
  cr_assert(before && after);
  for (size_t i = 0; i < bytes; ++i)
    before[i] = (char)(from->dtype == TN_BOOL ? i % 2 : i * 37 + 129);
  (void)snprintf(text, sizeof text, "dtype=%s", to->name);
  tn_params *params = host_params(op, text);
  OK(tn_array_create(rt, &(tn_spec){from->dtype, 1, &n}, &in));
  OK(tn_array_set(in, before, bytes));
  OK(tn_call(rt, op, TN_IN(in), params, TN_OUT(&out)));
  cr_assert_eq(tn_array_tensor(out)->dtype, to->dtype);
  cr_assert_eq(tn_array_size(out), n);
  OK(tn_array_get(out, after, bytes));
  cr_assert_arr_eq(before, after, bytes, "from %s to %s", from->name, to->name);
  tn_array_release(in), tn_array_release(out);
  tn_params_release(params);
  free(before), free(after);
}

Test(bit_cast, bytes_stay_under_every_pair_of_types) {
  for (int i = 0; i < N_TYPES; ++i)
    for (int k = 0; k < N_TYPES; ++k) {
      const tn_dtype from = types[i].dtype, to = types[k].dtype;
      if (to == TN_BOOL || tn_dtype_bits(from) != tn_dtype_bits(to)) continue;
      check_pair(&types[i], &types[k], 12);
    }
}

Test(bit_cast, many_elements_keep_their_bytes) {
  check_pair(&types[3], &types[4], 300000);
  check_pair(&types[19], &types[20], 300000);
}

Test(bit_cast, other_sizes_are_refused) {
  tn_operator *op = host_operator(rt, "tensor.bit_cast");
  tn_params *params = host_params(op, "dtype=i64");
  tn_array *in = host_many(rt, TN_F32, 1, (int64_t[]){2}, (double[]){1, 2});
  tn_array *out = NULL;
  FAILS(tn_call(rt, op, TN_IN(in), params, TN_OUT(&out)), TN_UNSUPPORTED,
        "an element of `data` has 32 bits, but one of `dtype` has 64");
  tn_array_release(in);
  tn_params_release(params);
}
