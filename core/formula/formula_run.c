/* SPDX-License-Identifier: Apache-2.0
 * formula_run.c: runs code: each instruction for at most 256 elements, then all
 * instructions for the next ones. Nothing is allocated: the registers are on
 * the stack, and the more there are, the fewer elements each has.
 */
#include <string.h>

#include "formula.h"
#include "tenon/kernel/kernel.h"

enum {
  SCRATCH = 32768,    /* bytes of all registers */
  MOST_ELEMENTS = 256 /* of a register */
};

/* ------------------------------------------------------------------ leaves */

/* A parameter of type float in a class: as generated kernels convert it. */
static tn__number number_of_float(double value, int class_bit) {
  tn__number number = {.f64 = value};
  if (class_bit == TNM_CLASS_F32) number.f32 = (float)value;
  if (class_bit == TNM_CLASS_I32) number.i32 = tn_math_to_i32(value);
  if (class_bit == TNM_CLASS_I64) number.i64 = tn_math_to_i64(value);
  if (class_bit == TNM_CLASS_U64) number.u64 = tn_math_to_u64(value);
  return number;
}

/* A parameter that is an integer, as above. */
static tn__number number_of_int(int64_t value, int class_bit) {
  tn__number number = {.i64 = value};
  if (class_bit == TNM_CLASS_F32) number.f32 = (float)value;
  if (class_bit == TNM_CLASS_F64) number.f64 = (double)value;
  if (class_bit == TNM_CLASS_I32) number.i32 = tn_math_to_i32((double)value);
  if (class_bit == TNM_CLASS_U64) number.u64 = tn_math_i64_to_u64(value);
  return number;
}

static tn__number read_param(const tn_field *field, const void *params,
                             int class_bit) {
  const char *at = (const char *)params + field->offset;
  double real;
  int64_t wide;
  int32_t narrow;
  if (field->type == TN_FIELD_FLOAT) {
    memcpy(&real, at, sizeof real);
    return number_of_float(real, class_bit);
  }
  if (field->type == TN_FIELD_INT) {
    memcpy(&wide, at, sizeof wide);
    return number_of_int(wide, class_bit);
  }
  memcpy(&narrow, at, sizeof narrow);
  return number_of_int(narrow, class_bit);
}

static tn__number read_leaf(const tn__code *code, const tn__leaf *leaf,
                            const tn__leaf_values *values) {
  switch (leaf->kind) {
    case TN__LEAF_PARAM:
      return read_param(leaf->field, values->params, code->class_bit);
    case TN__LEAF_RESULT:
      return values->results[leaf->index];
    case TN__LEAF_COUNT:
      return tn__number_of_count(values->count, code->class_bit);
    default:
      return leaf->number;
  }
}

static void fill_register(char *to, tn__number number, size_t bytes,
                          int64_t n) {
  if (bytes == sizeof number.f32)
    for (int64_t i = 0; i < n; ++i) memcpy(to + i * 4, &number.i32, 4);
  else
    for (int64_t i = 0; i < n; ++i) memcpy(to + i * 8, &number.i64, 8);
}

/* --------------------------------------------------------------------- run */

/* A run: its registers have `width` elements. */
typedef struct run_state {
  const tn__code *code;
  const void *const *in;
  char *out;
  char *scratch;
  size_t bytes; /* of an element */
  int64_t width;
} run_state;

static int64_t find_width(const tn__code *code, size_t bytes, int64_t n) {
  const size_t registers = code->n_registers > 0 ? code->n_registers : 1;
  int64_t width = (int64_t)(SCRATCH / (bytes * registers));
  if (width > MOST_ELEMENTS) width = MOST_ELEMENTS;
  if (width >= 16) width = width / 16 * 16;
  return width < n ? width : n;
}

static char *find_register(const run_state *s, uint32_t number) {
  return s->scratch + number * (size_t)s->width * s->bytes;
}

/* Runs all instructions for n elements from element `at` on. */
static void run_block(const run_state *s, int64_t at, int64_t n) {
  const tn__code *code = s->code;
  const int64_t offset = at * (int64_t)s->bytes;
  for (uint32_t i = 0; i < code->n; ++i) {
    const tn__instruction *one = &code->v[i];
    const void *from[3] = {NULL, NULL, NULL};
    for (uint32_t k = 0; k < 3 && one->from[k] != TN__REGISTER_OUT; ++k)
      from[k] =
          one->from[k] < TN__REGISTER_IN
              ? find_register(s, one->from[k])
              : (const char *)s->in[one->from[k] - TN__REGISTER_IN] + offset;
    char *to = one->to == TN__REGISTER_OUT ? s->out + offset
                                           : find_register(s, one->to);
    tn__formula_find_loop(code->class_bit, one->function)(to, from, n);
  }
}

void tn__code_run(const tn__code *code, const tn__leaf_values *values,
                  int64_t n, const void *const *in, void *out) {
  TN_KERNEL_LINED char scratch[SCRATCH];
  run_state s = {.code = code,
                 .in = in,
                 .out = out,
                 .scratch = scratch,
                 .bytes = tn__class_bytes(code->class_bit)};
  if (n <= 0) return;
  s.width = find_width(code, s.bytes, n);
  for (uint32_t k = 0; k < code->n_leaves; ++k)
    fill_register(find_register(&s, k),
                  read_leaf(code, &code->leaves[k], values), s.bytes, s.width);
  for (int64_t at = 0; at < n; at += s.width)
    run_block(&s, at, n - at < s.width ? n - at : s.width);
}
