/* SPDX-License-Identifier: Apache-2.0
 * Generated kernels in every type that they compute in, and in mixed ones:
 * values by hand, at every level of instructions, dense and strided, written
 * and added.
 */
#include <criterion/criterion.h>
#include <math.h>

#include "tenon/kernel/kernel.h"
#include "tenon/kernel/math.h"

typedef struct cases_params {
  double a;
  double b;
  int64_t n;
  int32_t flag;
  double t1;
  double p;
} cases_params;

#include "classes.gen.h"
#include "levels.h"

/* ------------------------------------------------------------------- elements
 */

enum { N = 6, MANY = 3000 }; /* more than scratch memory has room for */

typedef union element {
  uint8_t u8;
  int8_t i8;
  uint16_t u16;
  int16_t i16;
  uint32_t u32;
  int32_t i32;
  int64_t i64;
  uint64_t u64;
  float f32;
  double f64;
} element;

/* The bits of a value in a type; halves must be exact in f32. */
static element make(tn_dtype dtype, double value) {
  element e = {.i64 = 0};
  switch (dtype) {
    case TN_F64:
      e.f64 = value;
      break;
    case TN_F32:
      e.f32 = (float)value;
      break;
    case TN_F16:
      e.u16 = tn_kernel_f32_to_f16((float)value);
      break;
    case TN_BF16:
      e.u16 = tn_kernel_f32_to_bf16((float)value);
      break;
    case TN_U64:
      e.u64 = value < 0         ? (uint64_t)(int64_t)value
              : value >= 0x1p64 ? UINT64_MAX
                                : (uint64_t)value;
      break;
    default:
      e.i64 = (int64_t)value; /* the machine is little endian */
  }
  return e;
}

static double value_of(tn_dtype dtype, const void *at) {
  element e;
  memcpy(&e, at, (size_t)tn_dtype_bytes(dtype));
  switch (dtype) {
    case TN_F64:
      return e.f64;
    case TN_F32:
      return (double)e.f32;
    case TN_F16:
      return (double)tn_kernel_f16_to_f32(e.u16);
    case TN_BF16:
      return (double)tn_kernel_bf16_to_f32(e.u16);
    case TN_I8:
      return e.i8;
    case TN_I16:
      return e.i16;
    case TN_U16:
      return e.u16;
    case TN_I32:
      return e.i32;
    case TN_U32:
      return e.u32;
    case TN_I64:
      return (double)e.i64;
    case TN_U64:
      return (double)e.u64;
    default: /* bool, u8 */
      return e.u8;
  }
}

/* MANY elements with gaps of `stride`, the N values over and over. */
typedef struct line {
  int64_t shape;
  int64_t stride;
  char memory[2 * MANY * sizeof(element)];
  tn_tensor t;
} line;

static void fill(line *l, tn_dtype dtype, int64_t stride,
                 const double *values) {
  const int64_t bytes = tn_dtype_bytes(dtype);
  l->shape = MANY;
  l->stride = stride;
  l->t = (tn_tensor){.data = l->memory,
                     .device_type = TN_DEVICE_CPU,
                     .ndim = 1,
                     .dtype = dtype,
                     .shape = &l->shape,
                     .strides = &l->stride};
  for (int i = 0; i < MANY; ++i) {
    const element e = make(dtype, values[i % N]);
    memcpy(l->memory + i * stride * bytes, &e, (size_t)bytes);
  }
}

/* ---------------------------------------------------------------------- calls
 */

static int32_t in_one(const tn_frame *call, int64_t n, int64_t grain,
                      tn_loop_body *body, void *arg) {
  (void)call, (void)grain;
  return body(arg, 0, n);
}

static tn_host host = {.struct_size = sizeof(tn_host), .parallel_for = in_one};

typedef struct kernel {
  int32_t (*prepare)(const tn_frame *call, tn_plan *plan);
  int32_t (*compute)(const tn_frame *call);
} kernel;
#define KERNEL(name) \
  { name##_forward_prepare, name##_forward }

typedef struct class_case {
  const char *name;
  kernel kernel;
  size_t n_in;
  tn_dtype in; /* type of the inputs */
  tn_dtype out;
  double values[2][N];
  double expected[N];
} class_case;

static const cases_params params = {.n = 5};
static line in[2], out;

static void run(const class_case *c, tn_req req, bool prepare) {
  const int32_t alias = -1;
  const tn_tensor inputs[] = {in[0].t, in[1].t};
  tn_plan plan = {.struct_size = sizeof plan};
  tn_frame call = {.struct_size = sizeof call,
                   .n_in = (uint32_t)c->n_in,
                   .n_out = 1,
                   .in = inputs,
                   .out = &out.t,
                   .req = &req,
                   .alias = &alias,
                   .params = &params,
                   .host = &host};
  cr_assert_eq(c->kernel.prepare(&call, &plan), TN_OK);
  const bool dense = in[0].stride == 1 && out.stride == 1;
  cr_expect_eq(plan.prepared != NULL, dense, "%s", c->name);
  if (prepare) call.prepared = plan.prepared;
  cr_assert_eq(c->kernel.compute(&call), TN_OK, "%s", c->name);
}

/* Adds 1 where the request says so, if that fits: a bool stays true. */
static double with_one(const class_case *c, int i) {
  if (c->out == TN_BOOL) return 1;
  return value_of(c->out, (element[]){make(c->out, c->expected[i] + 1)});
}

static void check(const class_case *c, int64_t stride, tn_req req,
                  bool prepare) {
  static const double ones[N] = {1, 1, 1, 1, 1, 1};
  for (size_t i = 0; i < c->n_in; ++i)
    fill(&in[i], c->in, stride, c->values[i]);
  fill(&out, c->out, 3 - stride, ones);
  run(c, req, prepare);
  for (int i = 0; i < MANY; ++i) {
    const char *at = out.memory + i * out.stride * tn_dtype_bytes(c->out);
    const double got = value_of(c->out, at);
    const double expected =
        req == TN_REQ_ADD ? with_one(c, i % N) : c->expected[i % N];
    cr_assert_eq(got, expected, "%s[%d]: %.17g, not %.17g (%x to %x, level %u)",
                 c->name, i, got, expected, c->in, c->out,
                 (unsigned)host.cpu_features);
  }
}

static void check_dense(const class_case *c, tn_req req, bool prepare) {
  static const double ones[N] = {1, 1, 1, 1, 1, 1};
  for (size_t i = 0; i < c->n_in; ++i) fill(&in[i], c->in, 1, c->values[i]);
  fill(&out, c->out, 1, ones);
  run(c, req, prepare);
  for (int i = 0; i < MANY; ++i) {
    const double got =
        value_of(c->out, out.memory + i * tn_dtype_bytes(c->out));
    const double expected =
        req == TN_REQ_ADD ? with_one(c, i % N) : c->expected[i % N];
    cr_assert_eq(got, expected, "%s[%d]: %.17g, not %.17g (%x to %x, level %u)",
                 c->name, i, got, expected, c->in, c->out,
                 (unsigned)host.cpu_features);
  }
}

static void check_all(const class_case *cases, size_t n) {
  uint64_t features[TN_KERNEL_N_LEVELS];
  const size_t n_levels = levels(features);
  for (size_t k = 0; k < n_levels; ++k) {
    host.cpu_features = features[k];
    for (size_t i = 0; i < n; ++i)
      for (tn_req req = TN_REQ_WRITE; req <= TN_REQ_ADD; req += 2) {
        check(&cases[i], 1, req, true);
        check(&cases[i], 2, req, true);
        check_dense(&cases[i], req, true);
        check_dense(&cases[i], req, false);
      }
  }
}
#define CHECK_ALL(cases) check_all(cases, sizeof(cases) / sizeof *(cases))

/* ------------------------------------------------------------------- integers
 */

/* lhs*rhs - 3*lhs - rhs + 5 */
Test(classes, arithmetic_of_integers_wraps) {
  static const class_case cases[] = {
      {"i32",
       KERNEL(ring),
       2,
       TN_I32,
       TN_I32,
       {{0, 1, -2, 65536, 2147483647, 7}, {0, 2, 3, 65536, 2, -1}},
       {5, 2, 2, -262139, -2147483644, -22}},
      {"i64",
       KERNEL(ring),
       2,
       TN_I64,
       TN_I64,
       {{0, 1, -2, 65536, 4294967296.0, 7}, {0, 2, 3, 65536, 4294967296.0, -1}},
       {5, 2, 2, 4294705157.0, -17179869179.0, -22}},
      {"u32 is computed in i64",
       KERNEL(ring),
       2,
       TN_U32,
       TN_U32,
       {{0, 1, 3, 65536, 4294967295.0, 7}, {0, 2, 3, 65536, 3, 1}},
       {5, 2, 2, 4294705157.0, 2, 4294967286.0}},
      {"u64",
       KERNEL(ring),
       2,
       TN_U64,
       TN_U64,
       {{0, 1, 3, 65536, 4294967296.0, 7}, {0, 2, 3, 65536, 4294967296.0, 4}},
       {5, 2, 2, 4294705157.0, 18446744056529682437.0, 8}},
      {"i8",
       KERNEL(ring),
       2,
       TN_I8,
       TN_I8,
       {{0, 1, -2, 100, 127, 7}, {0, 2, 3, 2, 3, -1}},
       {5, 2, 2, -97, 2, -22}},
      {"u8",
       KERNEL(ring),
       2,
       TN_U8,
       TN_U8,
       {{0, 1, 3, 100, 255, 7}, {0, 2, 3, 2, 3, 1}},
       {5, 2, 2, 159, 2, 246}},
      {"i16",
       KERNEL(ring),
       2,
       TN_I16,
       TN_I16,
       {{0, 1, -2, 256, 32767, 7}, {0, 2, 3, 256, 3, -1}},
       {5, 2, 2, -1019, 2, -22}},
      {"bool",
       KERNEL(ring),
       2,
       TN_BOOL,
       TN_BOOL,
       {{0, 1, 0, 1, 0, 1}, {0, 0, 1, 1, 0, 0}},
       {1, 1, 1, 1, 1, 1}},
  };
  CHECK_ALL(cases);
}

/* 2^31 + 1 is 1 - 2^31 modulo 2^32; 100^5 is 10^10. A double has no
 * 9007199254740993. */
Test(classes, constants_and_powers_of_integers_wrap) {
  static const class_case cases[] = {
      {"wraps, i32",
       KERNEL(wraps),
       1,
       TN_I32,
       TN_I32,
       {{0, 1, -1, 2147483647, 5, 7}, {0}},
       {-2147483647, -2147483646, -2147483648.0, 0, -2147483642, -2147483640}},
      {"large, i64",
       KERNEL(large),
       1,
       TN_I64,
       TN_I64,
       {{0, 1, -1, 2147483647, 5, 7}, {0}},
       {2147483649.0, 2147483650.0, 2147483648.0, 4294967296.0, 2147483654.0,
        2147483656.0}},
      {"digits, i64",
       KERNEL(digits),
       1,
       TN_I64,
       TN_I64,
       {{0, 1, -1, 2147483647, 5, 7}, {0}},
       {1, 2, 0, 2147483648.0, 6, 8}},
      {"fifth",
       KERNEL(fifth),
       2,
       TN_I32,
       TN_I32,
       {{0, 1, -1, 2, -3, 100}, {0, 1, 2, 3, 4, 5}},
       {1, 2, 0, 33, -242, 1410065409}},
      {"fifth, i64",
       KERNEL(fifth),
       2,
       TN_I64,
       TN_I64,
       {{0, 1, -1, 2, -3, 100}, {0, 1, 2, 3, 4, 5}},
       {1, 2, 0, 33, -242, 10000000001.0}},
  };
  CHECK_ALL(cases);
}

Test(classes, division_of_integers_floors_and_by_zero_is_zero) {
  static const double lhs[N] = {7, -7, 7, -7, 5, 6};
  static const double rhs[N] = {2, 2, -2, -2, 0, 3};
  static const tn_dtype types[] = {TN_I8, TN_I16, TN_I32, TN_I64};
  class_case cases[12] = {
      {"least by -1, i32",
       KERNEL(divide),
       2,
       TN_I32,
       TN_I32,
       {{-2147483648.0, 1, 2, 3, 4, -2147483648.0}, {-1, 1, 1, -1, -1, 2}},
       {-2147483648.0, 1, 2, -3, -4, -1073741824}},
      {"least by -1, i64",
       KERNEL(rest),
       2,
       TN_I64,
       TN_I64,
       {{-0x1p63, 1, 2, 3, 4, -0x1p63}, {-1, 1, 3, -2, -3, 3}},
       {0, 0, 2, -1, -2, 1}},
      {"quotients of u64",
       KERNEL(divide),
       2,
       TN_U64,
       TN_U64,
       {{7, 0x1p63, 5, 0x1p64 - 2048, 6, 0x1p63}, {2, 3, 0, 0x1p63, 3, 0x1p62}},
       {3, 3074457345618258602.0, 0, 1, 2, 2}},
      {"remainders of u64",
       KERNEL(rest),
       2,
       TN_U64,
       TN_U64,
       {{7, 0x1p63, 5, 0x1p64 - 2048, 6, 0x1p63}, {2, 3, 0, 0x1p63, 3, 0x1p62}},
       {1, 2, 0, 0x1p63 - 2048, 0, 0}}};
  for (int i = 0; i < 4; ++i) {
    cases[4 + i] =
        (class_case){"divide", KERNEL(divide),      2, types[i], types[i],
                     {{0}},    {3, -4, -4, 3, 0, 2}};
    cases[8 + i] =
        (class_case){"rest", KERNEL(rest),        2, types[i], types[i],
                     {{0}},  {1, 1, -1, -1, 0, 0}};
    for (int k = 0; k < 2; ++k) {
      memcpy(cases[4 + 4 * k + i].values[0], lhs, sizeof lhs);
      memcpy(cases[4 + 4 * k + i].values[1], rhs, sizeof rhs);
    }
  }
  CHECK_ALL(cases);
}

Test(classes, functions_of_integers_are_those_of_floats) {
  static const tn_dtype types[] = {TN_I8,  TN_I16, TN_I32, TN_I64,
                                   TN_F16, TN_F32, TN_F64, TN_BF16};
  class_case cases[32];
  for (int i = 0; i < 8; ++i) {
    cases[24 + i] = (class_case){"nested",
                                 KERNEL(nested),
                                 2,
                                 types[i],
                                 types[i],
                                 {{-5, 3, 0, 6, -2, 1}, {4, 3, 2, 6, 2, 1}},
                                 {3, 4, 5, 4, 7, 4}};
    cases[3 * i] = (class_case){"clamp",
                                KERNEL(clamp),
                                2,
                                types[i],
                                types[i],
                                {{-5, 3, 0, 7, -2, 1}, {4, 4, -1, 6, 0, 1}},
                                {-2, 3, -1, 6, -2, 1}};
    cases[3 * i + 1] = (class_case){"pick",
                                    KERNEL(pick),
                                    2,
                                    types[i],
                                    types[i],
                                    {{-5, 3, 0, 7, -2, 1}, {4, 4, -1, 6, 0, 1}},
                                    {8, 8, 0, 7, 0, 2}};
    cases[3 * i + 2] = (class_case){"truth",
                                    KERNEL(truth),
                                    2,
                                    types[i],
                                    types[i],
                                    {{-5, 3, 0, 6, -2, 1}, {4, 4, -1, 6, 0, 1}},
                                    {-3, -1, 0, -1, -2, 4}};
  }
  CHECK_ALL(cases);
}

/* ---------------------------------------------------------------- mixed types
 */

Test(classes, comparisons_of_any_type_give_bools) {
  static const tn_dtype types[] = {TN_I8,  TN_I16, TN_I32, TN_I64, TN_U8,
                                   TN_U16, TN_U32, TN_F16, TN_F32, TN_F64};
  class_case cases[11] = {{"nan",
                           KERNEL(below),
                           2,
                           TN_F32,
                           TN_BOOL,
                           {{(double)NAN, 1, (double)-INFINITY, -0.0, 1, 2},
                            {1, (double)NAN, 0, 0, 1.5, 1}},
                           {0, 0, 1, 0, 1, 0}}};
  for (int i = 0; i < 10; ++i)
    cases[1 + i] = (class_case){"below",
                                KERNEL(below),
                                2,
                                types[i],
                                TN_BOOL,
                                {{5, 3, 0, 7, 2, 1}, {4, 4, 1, 6, 2, 3}},
                                {0, 1, 1, 0, 0, 1}};
  CHECK_ALL(cases);
}

/* Compilers warn of such comparisons where integers are compared, and the
 * generated file is compiled with their warnings as errors. */
Test(classes, comparisons_that_always_hold_are_no_warnings) {
  static const tn_dtype types[] = {TN_I8, TN_I32, TN_I64, TN_F32, TN_F64};
  class_case cases[5];
  for (int i = 0; i < 5; ++i)
    cases[i] = (class_case){"certain",
                            KERNEL(certain),
                            2,
                            types[i],
                            types[i],
                            {{5, 3, 0, 7, 2, 1}, {4, 4, 1, 6, 2, 3}},
                            {6, 6, 6, 6, 6, 6}};
  CHECK_ALL(cases);
}

/* Of an integer as of a float: -1 is true, and true and true is true. */
Test(classes, numbers_are_truths_before_they_are_added_to_bools) {
  static const tn_dtype types[] = {TN_I8, TN_I32, TN_I64, TN_F32, TN_F64};
  class_case cases[5];
  for (int i = 0; i < 5; ++i)
    cases[i] = (class_case){
        "to bool",         KERNEL(convert), 1,
        types[i],          TN_BOOL,         {{-1, 0, 2, 100, -128, 1}, {0}},
        {1, 0, 1, 1, 1, 1}};
  CHECK_ALL(cases);
}

/* A number from 2^63 on is greater than all others. */
Test(classes, u64_has_no_sign) {
  static const class_case cases[] = {
      {"pick",
       KERNEL(pick),
       2,
       TN_U64,
       TN_U64,
       {{0x1p63, 1, 0x1p64 - 2048, 0, 5, 6}, {1, 0x1p62, 0x1p63, 0, 5, 7}},
       {0x1p63, 0x1p63, 0x1p64 - 2048, 0, 10, 14}},
      {"below",
       KERNEL(below),
       2,
       TN_U64,
       TN_BOOL,
       {{0x1p63, 1, 0x1p63, 0, 5, 0}, {1, 0x1p63, 0x1p64 - 2048, 0, 5, 7}},
       {0, 1, 1, 0, 0, 1}},
      {"signs",
       KERNEL(signs),
       2,
       TN_U64,
       TN_U64,
       {{0x1p63, 1, 0, 0, 5, 0}, {1, 0x1p63, 0x1p63, 0, 5, 7}},
       {10, 10, 10, 10, 10, 10}},
      {"signs of i64",
       KERNEL(signs),
       2,
       TN_I64,
       TN_I64,
       {{-1, 1, 0, 0, -5, 0}, {1, -2, -1, 0, 5, 7}},
       {15, 0, 0, 10, 15, 10}},
      {"constants below 0 wrap",
       KERNEL(clamp),
       2,
       TN_U64,
       TN_U64,
       {{5, 3, 0, 7, 2, 1}, {4, 4, 0x1p63, 6, 0, 1}},
       {4, 4, 0x1p63, 6, 0, 1}},
      {"unsigned", /* n is 5, and ~x is -1 - x */
       KERNEL(unsigned),
       2,
       TN_U64,
       TN_U64,
       {{0x1p63, 4, 0, 1, 0x1p63, 10}, {0, 2, 0x1p63, 1, 0x1p62, 3}},
       {13835058055282163707.0, 18446744073709551591.0, 4611686018427387899.0,
        18446744073709551605.0, 13835058055282163705.0,
        18446744073709551563.0}},
  };
  CHECK_ALL(cases);
}

/* select(lhs > rhs, lhs, 2*rhs), where lhs is u64 */
Test(classes, u64_beside_other_types_wraps_or_is_a_float) {
  static const double lhs[N] = {5, 2, 0x1p63, 0, 7, 1}, old[N] = {0};
  static const struct {
    tn_dtype rhs, out;
    double values[N], expected[N];
  } rows[] = {
      {TN_U8, TN_U64, {3, 3, 255, 0, 7, 0}, {5, 6, 0x1p63, 0, 14, 1}},
      {TN_BOOL, TN_U64, {1, 0, 1, 1, 0, 1}, {5, 2, 0x1p63, 2, 7, 2}},
      {TN_U32,
       TN_U64,
       {3, 3, 4294967295.0, 0, 7, 4294967295.0},
       {5, 6, 0x1p63, 0, 14, 8589934590.0}},
      {TN_I32, TN_I32, {-1, 3, -2, 0, -7, 0}, {-2, 6, -4, 0, -14, 1}},
      {TN_I64, TN_BOOL, {-0x1p63, 3, 1, 0, -7, 0}, {0, 1, 1, 0, 1, 1}},
      {TN_F32, TN_U64, {-1, 2.5, 1, -0.5, 7.5, 0}, {5, 5, 0x1p63, 0, 15, 1}},
      {TN_F16, TN_F32, {-1, 2.5, 1, -0.5, 7.5, 0}, {5, 5, 0x1p63, 0, 15, 1}},
      {TN_F64, TN_F64, {-1, 2.5, 1, -0.5, 7.5, 0}, {5, 5, 0x1p63, 0, 15, 1}},
  };
  for (size_t r = 0; r < sizeof rows / sizeof *rows; ++r)
    for (int64_t stride = 1; stride <= 2; ++stride) {
      class_case c = {.name = "pick",
                      .kernel = KERNEL(pick),
                      .n_in = 2,
                      .in = rows[r].rhs,
                      .out = rows[r].out};
      fill(&in[0], TN_U64, stride, lhs);
      fill(&in[1], rows[r].rhs, stride, rows[r].values);
      fill(&out, rows[r].out, stride, old);
      run(&c, TN_REQ_WRITE, true);
      for (int i = 0; i < MANY; ++i)
        cr_assert_eq(
            value_of(c.out, out.memory + i * stride * tn_dtype_bytes(c.out)),
            rows[r].expected[i % N], "row %zu, element %d", r, i);
    }
}

/* The results of each pair of types for values that both have. */
Test(classes, every_type_is_converted_into_every_other) {
  static const tn_dtype types[] = {TN_BOOL, TN_I8,  TN_U8,  TN_I16, TN_U16,
                                   TN_I32,  TN_U32, TN_I64, TN_U64, TN_F16,
                                   TN_BF16, TN_F32, TN_F64};
  enum { TYPES = sizeof types / sizeof *types };
  static class_case cases[TYPES * TYPES];
  for (int i = 0; i < TYPES; ++i)
    for (int k = 0; k < TYPES; ++k) {
      const bool truth = types[i] == TN_BOOL || types[k] == TN_BOOL;
      cases[TYPES * i + k] = truth ? (class_case){"convert",
                                                  KERNEL(convert),
                                                  1,
                                                  types[i],
                                                  types[k],
                                                  {{0, 1, 0, 0, 1, 1}, {0}},
                                                  {0, 1, 0, 0, 1, 1}}
                                   : (class_case){"convert",
                                                  KERNEL(convert),
                                                  1,
                                                  types[i],
                                                  types[k],
                                                  {{0, 1, 2, 100, 64, 7}, {0}},
                                                  {0, 1, 2, 100, 64, 7}};
    }
  CHECK_ALL(cases);
}

/* Checks conversions without additions. */
static void check_written(const class_case *cases, size_t n_cases) {
  uint64_t features[TN_KERNEL_N_LEVELS];
  const size_t n = levels(features);
  for (size_t k = 0; k < n; ++k) {
    host.cpu_features = features[k];
    for (size_t i = 0; i < n_cases; ++i) {
      check(&cases[i], 2, TN_REQ_WRITE, true);
      check_dense(&cases[i], TN_REQ_WRITE, true);
    }
  }
}

Test(classes, values_out_of_range_wrap_or_become_the_nearest) {
  static const class_case cases[] = {
      {"i32 to u8",
       KERNEL(convert),
       1,
       TN_I32,
       TN_U8,
       {{-1, 256, 255, 511, -256, 3}, {0}},
       {255, 0, 255, 255, 0, 3}},
      {"i64 to i32",
       KERNEL(convert),
       1,
       TN_I64,
       TN_I32,
       {{4294967297.0, 2147483648.0, -1, 0, 5, -2147483649.0}, {0}},
       {1, -2147483648.0, -1, 0, 5, 2147483647}},
      {"i64 to f32",
       KERNEL(convert),
       1,
       TN_I64,
       TN_F32,
       {{16777217, 16777219, -16777217, 1, 0x1p62, -5}, {0}},
       {16777216, 16777220, -16777216, 1, 0x1p62, -5}},
      {"f32 to u8",
       KERNEL(convert),
       1,
       TN_F32,
       TN_U8,
       {{-1, 256.5, 254.75, (double)NAN, (double)INFINITY, 0.5}, {0}},
       {0, 255, 254, 0, 255, 0}},
      {"f64 to i64",
       KERNEL(convert),
       1,
       TN_F64,
       TN_I64,
       {{1.5, -1.5, 1e300, -1e300, (double)NAN, 0x1p52}, {0}},
       {1, -1, 0x1p63, -0x1p63, 0, 0x1p52}},
      {"f32 to bool",
       KERNEL(convert),
       1,
       TN_F32,
       TN_BOOL,
       {{0, -0.0, 0.25, (double)NAN, -3, 1}, {0}},
       {0, 0, 1, 1, 1, 1}},
      {"i8 to f16, halved",
       KERNEL(half),
       1,
       TN_I8,
       TN_F16,
       {{0, 1, -1, 100, -128, 7}, {0}},
       {0.5, 1, 0, 50.5, -63.5, 4}},
      {"i64 to bf16, halved",
       KERNEL(half),
       1,
       TN_I64,
       TN_BF16,
       {{0, 1, -1, 100, -128, 7}, {0}},
       {0.5, 1, 0, 50.5, -63.5, 4}},
  };
  check_written(cases, sizeof cases / sizeof *cases);
}

Test(classes, conversions_of_u64_wrap_or_become_the_nearest) {
  static const class_case cases[] = {
      {"u64 to i8",
       KERNEL(convert),
       1,
       TN_U64,
       TN_I8,
       {{255, 0x1p63, 128, 257, 0, 127}, {0}},
       {-1, 0, -128, 1, 0, 127}},
      {"i16 to u64",
       KERNEL(convert),
       1,
       TN_I16,
       TN_U64,
       {{-1, -32768, 32767, 0, 5, -2048}, {0}},
       {0x1p64, 0x1p64 - 32768, 32767, 0, 5, 0x1p64 - 2048}},
      {"u64 to f32",
       KERNEL(convert),
       1,
       TN_U64,
       TN_F32,
       {{16777217, 16777219, 0x1p63, 0x1p64 - 2048, 0x1.000003p63, 5}, {0}},
       {16777216, 16777220, 0x1p63, 0x1p64, 0x1.000004p63, 5}},
      {"f64 to u64",
       KERNEL(convert),
       1,
       TN_F64,
       TN_U64,
       {{1.5, -1.5, 1e300, -1e300, (double)NAN, 0x1p63 + 2048}, {0}},
       {1, 0, 0x1p64, 0, 0, 0x1p63 + 2048}},
      {"f32 to u64",
       KERNEL(convert),
       1,
       TN_F32,
       TN_U64,
       {{0.75, -0.25, 0x1p64, 0x1.fffffep63, (double)INFINITY, 0x1p32}, {0}},
       {0, 0, 0x1p64, 0x1.fffffep63, 0x1p64, 0x1p32}},
      {"u64 to bool",
       KERNEL(convert),
       1,
       TN_U64,
       TN_BOOL,
       {{0, 1, 0x1p63, 0x1p32, 256, 0}, {0}},
       {0, 1, 1, 1, 1, 0}},
      {"u64 to f16, halved",
       KERNEL(half),
       1,
       TN_U64,
       TN_F16,
       {{0, 1, 100, 128, 7, 0x1p63}, {0}},
       {0.5, 1, 50.5, 64.5, 4, (double)INFINITY}},
  };
  check_written(cases, sizeof cases / sizeof *cases);
}
