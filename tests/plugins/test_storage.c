/* SPDX-License-Identifier: Apache-2.0
 * Storage types: the conversions of storage.h, elemwise.cast, nn.quantize and
 * nn.dequantize, against ml_dtypes and onnx (tests/reference/storage.py); on
 * the CPU, or on STORAGE_PLACE, with the plugins of STORAGE_FILES.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"
#include "tenon/kernel/storage_loops.h"

enum { MOST_CODES = 256, FEW = 64 };

typedef struct codes_case {
  tn_dtype dtype;
  int n;
  double numbers[MOST_CODES];
} codes_case;

/* Codes with and without saturation, for each rounding mode of f8e8m0. */
typedef struct number_case {
  double x;
  uint32_t codes[6];
} number_case;

typedef struct numbers_case {
  tn_dtype dtype;
  int n;
  number_case v[140];
} numbers_case;

typedef struct casts_case {
  tn_dtype from, to;
  int64_t n;
  uint32_t from_codes[FEW], to_codes[FEW];
} casts_case;

typedef struct code_operand {
  host_shape shape;
  uint32_t codes[FEW];
} code_operand;

typedef struct scaled_case {
  tn_dtype dtype;
  const char *params;
  int saturate, has_zero;
  host_operand data, scale;
  code_operand zero;
  uint32_t codes[FEW];
  host_operand back;
} scaled_case;

static const codes_case codes_cases[] = {
#define STORAGE_CODES
#include "storage_cases.inc"
#undef STORAGE_CODES
};

static const numbers_case numbers_cases[] = {
#define STORAGE_NUMBERS
#include "storage_cases.inc"
#undef STORAGE_NUMBERS
};

static const casts_case casts_cases[] = {
#define STORAGE_CASTS
#include "storage_cases.inc"
#undef STORAGE_CASTS
};

static const scaled_case scaled_cases[] = {
#define STORAGE_SCALED
#include "storage_cases.inc"
#undef STORAGE_SCALED
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

static int is_same(double a, double b) {
  return (isnan(a) && isnan(b)) || memcmp(&a, &b, sizeof a) == 0;
}

/* ----------------------------------------------------------------- elements */

Test(storage, every_code_is_the_number_of_ml_dtypes) {
  cr_assert_eq(COUNT(codes_cases), 10);
  for (size_t i = 0; i < COUNT(codes_cases); ++i) {
    const codes_case *c = &codes_cases[i];
    cr_assert(tn_storage_has(c->dtype));
    for (int code = 0; code < c->n; ++code) {
      const double x = (double)tn_storage_decode((uint32_t)code, c->dtype);
      cr_assert(is_same(x, c->numbers[code]), "type %zu, code %d: %a, not %a",
                i, code, x, c->numbers[code]);
    }
  }
  cr_assert_not(tn_storage_has(TN_I8) || tn_storage_has(TN_BOOL) ||
                tn_storage_has(TN_BF16) || tn_storage_has(TN_U64));
}

static void check_number(const numbers_case *c, const number_case *v) {
  const int n = c->dtype == TN_F8E8M0 ? 6 : 2;
  for (int k = 0; k < n; ++k) {
    const tn_storage_rule rule = {c->dtype, k % 2 == 0, k / 2};
    const uint32_t code = tn_storage_encode(v->x, &rule);
    cr_assert_eq(code, v->codes[k], "%#x: %a is %u, not %u", c->dtype, v->x,
                 code, v->codes[k]);
    if ((double)(float)v->x == v->x)
      cr_assert_eq(tn_storage_encode_f32((float)v->x, &rule), v->codes[k],
                   "%#x: %a in f32", c->dtype, v->x);
  }
}

/* Doubles beside a half between two codes would become that half in f32, and
 * then the wrong code. */
Test(storage, numbers_become_the_nearest_code_and_are_rounded_once) {
  cr_assert_eq(COUNT(numbers_cases), 10);
  for (size_t i = 0; i < COUNT(numbers_cases); ++i)
    for (int k = 0; k < numbers_cases[i].n; ++k)
      check_number(&numbers_cases[i], &numbers_cases[i].v[k]);
}

/* The positive codes of a float have the order of their numbers. */
Test(storage, halves_between_codes_become_the_even_one) {
  for (size_t i = 0; i < 6; ++i) {
    const codes_case *c = &codes_cases[i];
    const int is_power = c->dtype == TN_F8E8M0;
    const tn_storage_rule rule = {c->dtype, 1, TN_STORAGE_NEAREST};
    const int end = is_power ? 255 : c->n / 2;
    for (int low = 0; low + 1 < end; ++low) {
      const double half = c->numbers[low] / 2 + c->numbers[low + 1] / 2;
      const uint32_t next = (uint32_t)low + 1;
      if (!isfinite(half)) continue;
      cr_assert_eq(tn_storage_encode(half, &rule),
                   is_power || low % 2 != 0 ? next : next - 1);
      cr_assert_eq(tn_storage_encode(nextafter(half, 0), &rule), next - 1);
      cr_assert_eq(tn_storage_encode(nextafter(half, INFINITY), &rule), next);
      cr_assert_eq(tn_storage_encode(c->numbers[low], &rule), next - 1);
    }
  }
}

/* Where the type has a sign of NaN, it stays. */
Test(storage, a_negative_nan_is_nan) {
  const double nan = copysign(NAN, -1);
  const struct {
    tn_dtype dtype;
    uint32_t code;
  } cases[] = {{TN_F8E4M3FN, 0xff}, {TN_F8E4M3FNUZ, 0x80},
               {TN_F8E5M2, 0xfe},   {TN_F8E5M2FNUZ, 0x80},
               {TN_F8E8M0, 0xff},   {TN_F4E2M1, 7},
               {TN_I4, 0},          {TN_U2, 0}};
  for (size_t i = 0; i < COUNT(cases); ++i)
    for (int saturate = 0; saturate < 2; ++saturate) {
      const tn_storage_rule rule = {cases[i].dtype, saturate, TN_STORAGE_UP};
      cr_assert_eq(tn_storage_encode(nan, &rule), cases[i].code);
    }
}

Test(storage, a_packed_element_leaves_its_neighbours) {
  uint8_t bytes[2] = {0, 0};
  const tn_storage_rule i4 = {TN_I4, 1, 0}, u2 = {TN_U2, 1, 0};
  tn_storage_write(bytes, &i4, 0, 3);
  tn_storage_write(bytes, &i4, 1, -1.75);
  tn_storage_write(bytes, &i4, 2, 100);
  cr_assert_eq(bytes[0], 0xf3); /* the first element has the lowest bits */
  cr_assert_eq(bytes[1], 0x07);
  tn_storage_write(bytes, &i4, 0, -8);
  cr_assert_eq(bytes[0], 0xf8);
  cr_assert_eq(tn_storage_read(bytes, TN_I4, 1), -1);
  tn_storage_write(bytes, &u2, 6, 2.5);
  cr_assert_eq(bytes[1], 0x27);
  cr_assert_eq(tn_storage_read(bytes, TN_U2, 6), 2);
}

/* As one by one, for any number of elements. */
Test(storage, dense_elements_are_converted_as_single_ones) {
  enum { N = 601 };
  static float from[N], to[N];
  uint8_t bytes[N + 1];
  const tn_kernel_mode mode = {TN_F32, 0};
  for (int i = 0; i < N; ++i) from[i] = (float)((i * 37) % 113 - 56) / 7;
  for (size_t k = 0; k < COUNT(codes_cases); ++k) {
    const tn_storage_rule rule = {codes_cases[k].dtype, 1, TN_STORAGE_NEAREST};
    for (int64_t n = 0; n <= N; n += n < 18 ? 1 : 583) {
      const int64_t size = tn_dtype_bytes_of(rule.dtype, n);
      memset(bytes, 0xa5, sizeof bytes);
      tn_storage_store_dense(bytes, &rule, from, &mode, n);
      cr_assert_eq(bytes[size], 0xa5);
      tn_storage_load_dense(to, &mode, bytes, rule.dtype, n);
      for (int64_t i = 0; i < n; ++i) {
        const uint32_t code = tn_storage_encode_f32(from[i], &rule);
        const float x = tn_storage_decode(code, rule.dtype);
        cr_assert(is_same((double)to[i], (double)x), "type %zu, %lld of %lld",
                  k, (long long)i, (long long)n);
      }
      for (int64_t i = n; i % tn_storage_per_byte(rule.dtype) != 0; ++i)
        cr_assert_eq(tn_storage_get_code(bytes, rule.dtype, i), 0);
    }
  }
}

/* ---------------------------------------------------------------- operators */

static tn_runtime *rt;
static tn_place place;

static void open_all(void) {
  const char *name = getenv("STORAGE_PLACE"), *files = getenv("STORAGE_FILES");
  rt = host_open();
  OK(tn_plugin_load(rt, NN_FILE));
  if (files != NULL) host_load_all(rt, files);
  OK(tn_place_parse(rt, name != NULL ? name : "cpu", &place));
}

static void close_all(void) {
  tn_runtime_release(rt);
}

TestSuite(storage_operators, .init = open_all, .fini = close_all);

/* A new array of a storage type with these codes. */
static tn_array *code_array(tn_dtype dtype, host_shape shape,
                            const uint32_t *codes) {
  const tn_spec spec = {dtype, shape.ndim, shape.dims};
  const int64_t n = host_count(&shape), bits = tn_dtype_bits(dtype);
  uint8_t bytes[FEW] = {0};
  tn_array *array = NULL;
  OK(tn_array_create(rt, &spec, &array));
  for (int64_t i = 0; i < n; ++i)
    bytes[i * bits / 8] |= (uint8_t)(codes[i] << i * bits % 8);
  OK(tn_array_set(array, bytes, (size_t)((n * bits + 7) / 8)));
  return array;
}

/* Bits after the last element are 0. */
static void expect_codes(tn_array *array, const uint32_t *codes, int64_t n,
                         const char *where) {
  const int64_t bits = tn_dtype_bits(tn_array_tensor(array)->dtype);
  const int64_t bytes = (n * bits + 7) / 8;
  uint8_t got[FEW] = {0};
  cr_assert_eq(tn_array_size(array), n);
  OK(tn_array_get(array, got, (size_t)bytes));
  for (int64_t i = 0; i < bytes * 8 / bits; ++i) {
    const uint32_t byte = got[i * bits / 8], want = i < n ? codes[i] : 0;
    const uint32_t code = byte >> i * bits % 8 & ((1u << bits) - 1);
    cr_assert_eq(code, want, "%s, element %lld: code %u, not %u", where,
                 (long long)i, code, want);
  }
}

/* Makes a call at the place; the result is on the CPU. */
static tn_array *call(const char *name, const char *text,
                      const tn_inputs *inputs) {
  const tn_place cpu = {TN_DEVICE_CPU, 0};
  tn_operator *op = host_operator(rt, name);
  tn_params *params = host_params(op, text);
  tn_array *in[3] = {NULL}, *out = NULL, *near = NULL;
  for (size_t i = 0; i < inputs->n; ++i)
    OK(tn_array_to(inputs->arrays[i], place, &in[i]));
  OK(tn_call(rt, op, &(tn_inputs){inputs->n, in}, params, TN_OUT(&out)));
  OK(tn_array_to(out, cpu, &near));
  for (size_t i = 0; i < inputs->n; ++i) tn_array_release(in[i]);
  tn_array_release(out);
  tn_params_release(params);
  return near;
}

static tn_array *cast(tn_array *data, const char *dtype, const char *more) {
  char text[128];
  (void)snprintf(text, sizeof text, "dtype=%s %s", dtype, more);
  return call("elemwise.cast", text, TN_IN(data));
}

Test(storage_operators, cast_converts_between_all_storage_types) {
  cr_assert_eq(COUNT(casts_cases), 100);
  for (size_t i = 0; i < COUNT(casts_cases); ++i) {
    const casts_case *c = &casts_cases[i];
    char where[64];
    (void)snprintf(where, sizeof where, "%s to %s", tn_dtype_name(c->from),
                   tn_dtype_name(c->to));
    tn_array *x = code_array(c->from, (host_shape){1, {c->n}}, c->from_codes);
    tn_array *y = cast(x, tn_dtype_name(c->to), "");
    expect_codes(y, c->to_codes, c->n, where);
    tn_array_release(x), tn_array_release(y);
  }
}

/* To f64 and back, by the rule of the script, in pieces that fit an array. */
Test(storage_operators, cast_rounds_doubles_by_saturate_and_round_mode) {
  static const char *const modes[] = {"up", "down", "nearest"};
  for (size_t i = 0; i < COUNT(numbers_cases); ++i) {
    const numbers_case *c = &numbers_cases[i];
    for (int k = 0; k < (c->dtype == TN_F8E8M0 ? 6 : 2); ++k) {
      char text[64];
      (void)snprintf(text, sizeof text, "saturate=%s round_mode=%s",
                     k % 2 == 0 ? "true" : "false", modes[k / 2]);
      for (int first = 0; first < c->n; first += FEW) {
        const int n = c->n - first < FEW ? c->n - first : FEW;
        double x[FEW];
        uint32_t codes[FEW];
        for (int e = 0; e < n; ++e) {
          x[e] = c->v[first + e].x;
          codes[e] = c->v[first + e].codes[k];
        }
        tn_array *from = host_array(rt, TN_F64, (host_shape){1, {n}}, x);
        tn_array *to = cast(from, tn_dtype_name(c->dtype), text);
        expect_codes(to, codes, n, text);
        tn_array_release(from), tn_array_release(to);
      }
    }
  }
}

Test(storage_operators, cast_gives_every_code_in_each_float_type) {
  static const char *const types[] = {"f64", "f32", "bf16"};
  for (size_t i = 0; i < COUNT(codes_cases); ++i) {
    const codes_case *c = &codes_cases[i];
    for (int first = 0; first < c->n; first += FEW) {
      const int64_t n = c->n - first < FEW ? c->n - first : FEW;
      uint32_t codes[FEW];
      double got[FEW];
      for (int64_t k = 0; k < n; ++k) codes[k] = (uint32_t)(first + k);
      tn_array *x = code_array(c->dtype, (host_shape){1, {n}}, codes);
      for (size_t t = 0; t < COUNT(types); ++t) {
        tn_array *y = cast(x, types[t], "");
        host_values(y, got);
        for (int64_t k = 0; k < n; ++k)
          cr_assert(is_same(got[k], c->numbers[first + k]), "%s, code %lld",
                    tn_dtype_name(c->dtype), (long long)(first + k));
        tn_array_release(y);
      }
      tn_array_release(x);
    }
  }
}

/* A new vector of integers of the library's own types. */
static tn_array *whole_array(tn_dtype dtype, const void *values, int64_t n) {
  const tn_spec spec = {dtype, 1, &n};
  tn_array *array = NULL;
  OK(tn_array_create(rt, &spec, &array));
  OK(tn_array_set(array, values, (size_t)(n * tn_dtype_bytes(dtype))));
  return array;
}

/* 2^60 + 1 is 2^60 in a double. */
Test(storage_operators,
     integers_wrap_in_packed_types_and_round_once_in_floats) {
  const int32_t small[] = {300, -1, 7, 8, -9};
  const int64_t large[] = {(1ll << 60) + 1, 1ll << 60, 12, INT64_MAX, -5};
  tn_array *x = whole_array(TN_I32, small, 5);
  tn_array *wide = whole_array(TN_I64, large, 5);
  tn_array *y = cast(x, "i4", "");
  expect_codes(y, (uint32_t[]){12, 15, 7, 8, 7}, 5, "i32 to i4");
  tn_array_release(y);
  y = cast(wide, "u2", "");
  expect_codes(y, (uint32_t[]){1, 0, 0, 3, 3}, 5, "i64 to u2");
  tn_array_release(y);
  y = cast(wide, "f8e8m0", "");
  expect_codes(y, (uint32_t[]){188, 187, 131, 190, 255}, 5, "i64 to f8e8m0");
  tn_array_release(y);
  y = cast(wide, "f8e5m2", "saturate=false");
  expect_codes(y, (uint32_t[]){0x7c, 0x7c, 0x4a, 0x7c, 0xc5}, 5, "to f8e5m2");
  tn_array_release(x), tn_array_release(y), tn_array_release(wide);
}

Test(storage_operators, packed_integers_keep_their_sign_in_wider_ones) {
  const uint32_t codes[] = {15, 8, 7, 0, 1};
  tn_array *x = code_array(TN_I4, (host_shape){1, {5}}, codes);
  int32_t i32[5];
  uint8_t truth[5];
  uint64_t u64[5];
  tn_array *y = cast(x, "i32", "");
  OK(tn_array_get(y, i32, sizeof i32));
  cr_assert_arr_eq(i32, ((int32_t[]){-1, -8, 7, 0, 1}), sizeof i32);
  tn_array_release(y);
  y = cast(x, "u64", "");
  OK(tn_array_get(y, u64, sizeof u64));
  cr_assert(u64[0] == UINT64_MAX && u64[1] == UINT64_MAX - 7 && u64[2] == 7);
  tn_array_release(y);
  y = cast(x, "bool", "");
  OK(tn_array_get(y, truth, sizeof truth));
  cr_assert_arr_eq(truth, ((uint8_t[]){1, 1, 1, 0, 1}), sizeof truth);
  tn_array_release(x), tn_array_release(y);
}

/* Powers of two beyond u64, NaN, and a number with a fraction. */
Test(storage_operators, floats_become_the_nearest_integers) {
  const uint32_t powers[] = {254, 255, 130, 190, 126};
  tn_array *x = code_array(TN_F8E8M0, (host_shape){1, {5}}, powers);
  uint64_t u64[5];
  int8_t i8[5];
  tn_array *y = cast(x, "u64", "");
  OK(tn_array_get(y, u64, sizeof u64));
  cr_assert(u64[0] == UINT64_MAX && u64[1] == 0 && u64[2] == 8);
  cr_assert(u64[3] == 1ull << 63 && u64[4] == 0);
  tn_array_release(y);
  y = cast(x, "i8", "");
  OK(tn_array_get(y, i8, sizeof i8));
  cr_assert_arr_eq(i8, ((int8_t[]){127, 0, 8, 127, 0}), sizeof i8);
  tn_array_release(x), tn_array_release(y);
}

/* Elements of several parts and threads, an odd number of them, from a
 * transposed array and to a transposed one. */
Test(storage_operators, strides_and_many_elements_change_no_code) {
  enum { ROWS = 301, COLUMNS = 503, N = ROWS * COLUMNS };
  const int64_t dims[] = {ROWS, COLUMNS};
  double *x = malloc(N * sizeof *x);
  cr_assert_not_null(x);
  for (int i = 0; i < N; ++i) x[i] = (double)(i % 97 - 48) / 8;
  tn_array *from = host_many(rt, TN_F32, 2, dims, x), *across = NULL;
  OK(tn_array_transpose(from, NULL, &across));
  for (size_t t = 0; t < COUNT(codes_cases); ++t) {
    const tn_storage_rule rule = {codes_cases[t].dtype, 1, TN_STORAGE_UP};
    tn_array *codes = cast(across, tn_dtype_name(rule.dtype), "");
    tn_array *back = cast(codes, "f64", "");
    double *got = host_many_values(back);
    for (int i = 0; i < N; ++i) {
      const double in = x[i % ROWS * COLUMNS + i / ROWS];
      const uint32_t code = tn_storage_encode(in, &rule);
      cr_assert(is_same(got[i], (double)tn_storage_decode(code, rule.dtype)),
                "%s, element %d", tn_dtype_name(rule.dtype), i);
    }
    free(got);
    tn_array_release(codes), tn_array_release(back);
  }
  tn_array_release(from), tn_array_release(across);
  free(x);
}

Test(storage_operators, the_output_of_cast_may_have_strides) {
  const uint32_t codes[] = {1, 2, 3, 12, 5, 6};
  const int64_t dims[] = {3, 2};
  tn_operator *op = host_operator(rt, "elemwise.cast");
  tn_params *params = host_params(op, "dtype=f32");
  tn_array *x = code_array(TN_I4, (host_shape){2, {2, 3}}, codes);
  tn_array *in = NULL, *whole = NULL, *across = NULL;
  OK(tn_array_to(x, place, &in));
  OK(tn_array_create_on(rt, &(tn_spec){TN_F32, 2, dims}, place, &whole));
  OK(tn_array_transpose(whole, NULL, &across));
  OK(tn_call(rt, op, TN_IN(in), params, TN_OUT(&across)));
  double *got = host_near_values(whole);
  for (int i = 0; i < 6; ++i)
    cr_assert_eq(got[i], ((double[]){1, -4, 2, 5, 3, 6})[i]);
  free(got);
  tn_array_release(x), tn_array_release(in);
  tn_array_release(whole), tn_array_release(across);
  tn_params_release(params);
}

/* As a result of an integer type. */
Test(storage_operators, no_gradient_passes_a_storage_type) {
  const double ones[] = {1, 1, 1};
  tn_operator *op = host_operator(rt, "elemwise.cast");
  tn_params *to = host_params(op, "dtype=f8e4m3fn");
  tn_params *back = host_params(op, "dtype=f32");
  tn_array *x = host_array(rt, TN_F32, (host_shape){1, {3}}, ones);
  tn_array *in = NULL, *y = NULL, *z = NULL, *gradient = NULL;
  tn_tape *tape = NULL;
  OK(tn_array_to(x, place, &in));
  OK(tn_tape_create(rt, &tape));
  OK(tn_tape_watch(tape, in));
  OK(tn_tape_call(tape, op, TN_IN(in), to, TN_OUT(&y)));
  OK(tn_tape_call(tape, op, TN_IN(y), back, TN_OUT(&z)));
  OK(tn_tape_gradient(tape,
                      &(tn_tape_query){.struct_size = sizeof(tn_tape_query),
                                       .heads = *TN_IN(z),
                                       .of = *TN_IN(in),
                                       .gradients = *TN_OUT(&gradient)}));
  double *got = host_near_values(gradient);
  for (int i = 0; i < 3; ++i) cr_assert_eq(got[i], 0);
  free(got);
  tn_array_release(x), tn_array_release(in), tn_array_release(y);
  tn_array_release(z), tn_array_release(gradient);
  tn_tape_release(tape);
  tn_params_release(to), tn_params_release(back);
}

/* ------------------------------------------------------ quantize and back */

static void check_scaled(const scaled_case *c) {
  char text[128];
  tn_array *in[3] = {host_operand_array(rt, TN_F32, &c->data),
                     host_operand_array(rt, TN_F32, &c->scale), NULL};
  if (c->has_zero) in[2] = code_array(c->dtype, c->zero.shape, c->zero.codes);
  const size_t n_in = c->has_zero ? 3 : 2;
  (void)snprintf(text, sizeof text, "dtype=%s %s saturate=%s",
                 tn_dtype_name(c->dtype), c->params,
                 c->saturate ? "true" : "false");
  tn_array *out = call("nn.quantize", text, &(tn_inputs){n_in, in});
  expect_codes(out, c->codes, host_count(&c->data.shape), text);
  tn_array_release(in[0]);
  in[0] = out;
  tn_array *back = call("nn.dequantize", c->params, &(tn_inputs){n_in, in});
  host_expect_shape(back, &c->back.shape, "nn.dequantize", text);
  double *got = host_many_values(back);
  for (int64_t i = 0; i < host_count(&c->back.shape); ++i)
    cr_assert(isnan(got[i]) ? isnan(c->back.v[i]) : got[i] == c->back.v[i],
              "%s, element %lld: %g, not %g", text, (long long)i, got[i],
              c->back.v[i]);
  free(got);
  for (size_t i = 0; i < n_in; ++i) tn_array_release(in[i]);
  tn_array_release(back);
}

Test(storage_operators, quantize_and_dequantize_are_those_of_onnx) {
  cr_assert_eq(COUNT(scaled_cases), 43);
  for (size_t i = 0; i < COUNT(scaled_cases); ++i)
    check_scaled(&scaled_cases[i]);
}

/* Blocks along the first axis: a scale and a zero point in the middle of a
 * byte for each element, over several parts. */
Test(storage_operators, dequantize_of_many_elements_is_exact_in_each_type) {
  enum { ROWS = 130, COLUMNS = 33, N = ROWS * COLUMNS, BLOCK = 32, BLOCKS = 5 };
  const int64_t dims[] = {ROWS, COLUMNS}, scale_dims[] = {BLOCKS, COLUMNS};
  static const tn_dtype types[] = {TN_F64, TN_F32, TN_F16};
  double x[N], s[BLOCKS * COLUMNS], z[BLOCKS * COLUMNS];
  for (int i = 0; i < N; ++i) x[i] = i % 16 - 8;
  for (int i = 0; i < BLOCKS * COLUMNS; ++i) {
    s[i] = (double)(i % 31 + 1) / 16;
    z[i] = i * 5 % 16 - 8;
  }
  tn_array *wide = host_many(rt, TN_F32, 2, dims, x);
  tn_array *wide_zero = host_many(rt, TN_F32, 2, scale_dims, z);
  tn_array *data = cast(wide, "i4", ""), *zero = cast(wide_zero, "i4", "");
  for (size_t t = 0; t < COUNT(types); ++t) {
    tn_array *scale = host_many(rt, types[t], 2, scale_dims, s);
    tn_array *out =
        call("nn.dequantize", "axis=0 block_size=32", TN_IN(data, scale, zero));
    double *got = host_many_values(out);
    for (int i = 0; i < N; ++i) {
      const int at = i / COLUMNS / BLOCK * COLUMNS + i % COLUMNS;
      cr_assert_eq(got[i], (x[i] - z[at]) * s[at], "element %d", i);
    }
    free(got);
    tn_array_release(scale), tn_array_release(out);
  }
  tn_array_release(wide), tn_array_release(wide_zero);
  tn_array_release(data), tn_array_release(zero);
}

Test(storage_operators, blocks_need_an_axis_and_scales_of_their_number) {
  const double numbers[6] = {1, 2, 3, 4, 5, 6};
  tn_operator *op = host_operator(rt, "nn.quantize");
  tn_array *x = host_array(rt, TN_F32, (host_shape){2, {2, 3}}, numbers);
  tn_array *one = host_array(rt, TN_F32, (host_shape){0}, numbers);
  tn_array *three = host_array(rt, TN_F32, (host_shape){2, {2, 3}}, numbers);
  tn_array *y = NULL;
  tn_params *params = host_params(op, "dtype=i4 block_size=2");
  FAILS(tn_call(rt, op, TN_IN(x, one), params, TN_OUT(&y)), TN_INVALID,
        "block_size=2 without an axis");
  tn_params_release(params);
  params = host_params(op, "dtype=i4 block_size=2 axis=1");
  FAILS(tn_call(rt, op, TN_IN(x, three), params, TN_OUT(&y)), TN_SHAPE,
        "is 3 by input `scale` (2,3) but 2 by");
  tn_params_release(params);
  tn_array_release(x), tn_array_release(one), tn_array_release(three);
}
