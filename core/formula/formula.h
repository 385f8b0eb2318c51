/* SPDX-License-Identifier: Apache-2.0
 * formula.h: computes the formulas of a manifest without a compiler. For the
 * files of libtenon-manifest.so; they use core/base, sdk/algebra and
 * sdk/manifest, and, like a plugin, the kernel headers of the SDK.
 *
 * An expression becomes code: a list of instructions over registers, one list
 * for each class of types (algebra.h). An instruction is a loop over at most
 * 256 elements, so the cost of interpreting it is small beside its work. The
 * functions are those of tenon/kernel/math.h that generated kernels call, in
 * the same type and the same order of operations. Generated kernels may
 * contract a product and a sum to one operation; code does not.
 *
 * files: formula_loops.c     the loops of all instructions
 *        formula_code.c      an expression as code
 *        formula_run.c       runs code
 *        formula_kernel.c    kernels: element-wise, or over lines
 *        formula_lines.c     formulas with reductions
 */
#ifndef TENON_FORMULA_FORMULA_H_
#define TENON_FORMULA_FORMULA_H_

#include "module.h"

/* ------------------------------------------------------------ instructions */

enum { /* functions of instructions after those of calls, TNM_F_* */
       TN__ADD = TNM_N_FUNCTIONS,
       TN__SUBTRACT,
       TN__MULTIPLY,
       TN__DIVIDE,
       TN__NEGATE,
       TN__LESS,
       TN__GREATER,
       TN__LESS_EQUAL,
       TN__GREATER_EQUAL,
       TN__EQUAL,
       TN__NOT_EQUAL,
       TN__COPY,
       TN__N_INSTRUCTIONS
};

/* Computes n elements of a class. `to` may be equal to a list of `from`. */
typedef void tn__formula_loop(void *to, const void *const *from, int64_t n);

/* The loop of an instruction in a class; NULL if the class has none. */
tn__formula_loop *tn__formula_find_loop(int class_bit, uint32_t instruction);

/* One number of a class. */
typedef union tn__number {
  float f32;
  double f64;
  int32_t i32;
  int64_t i64;
  uint64_t u64;
} tn__number;

/* The classes, by index. */
enum { TN__N_CLASSES = 5 };
static inline int tn__class_at(size_t index) {
  return 1 << index;
}
static inline size_t tn__class_bytes(int class_bit) {
  return class_bit & (TNM_CLASS_F32 | TNM_CLASS_I32) ? 4 : 8;
}

/* -------------------------------------------------------------------- code */

enum { /* kinds of values that are the same for all elements of a run */
       TN__LEAF_NUMBER,
       TN__LEAF_PARAM,
       TN__LEAF_RESULT, /* result `index` of a reduction */
       TN__LEAF_COUNT   /* number of elements of a line */
};

typedef struct tn__leaf {
  int kind;
  uint32_t index;
  const tn_field *field;
  tn__number number;
} tn__leaf;

/* A register is a number below TN__REGISTER_IN; the first registers are those
 * of the leaves. */
enum { TN__REGISTER_IN = 0xc000, TN__REGISTER_OUT = 0xffff };

typedef struct tn__instruction {
  uint16_t function;
  uint16_t to;      /* a register, or TN__REGISTER_OUT */
  uint16_t from[3]; /* registers, or TN__REGISTER_IN + a tensor of the list */
} tn__instruction;

typedef struct tn__code {
  int class_bit;
  uint32_t reads; /* bit k: it reads tensor k of the list */
  uint32_t n_registers;
  uint32_t n_leaves;
  const tn__leaf *leaves;
  uint32_t n;
  const tn__instruction *v;
} tn__code;

/* Kind of an expression that is the result of reduction `index`. */
enum { TN__EXPR_RESULT = 33 };

/* The tensors of a formula, in the order of their first use, without
 * repetition; an index counts the lists in_grads, inputs, outputs of a backward
 * call, or the inputs of a forward call. */
typedef struct tn__reads {
  uint32_t n;
  uint32_t in[TNM_EXPR_MAX_TENSORS];
} tn__reads;

/* An operator, and one of its passes. */
typedef struct tn__pass_of {
  const tn_op *op;
  uint32_t pass; /* TN_PASS_* */
} tn__pass_of;

/* Adds the tensors of an expression. False if there are too many. */
bool tn__reads_add(tn__reads *reads, const tn__pass_of *of,
                   const tnm_expr *expr);

/* A request to compile. */
typedef struct tn__compiling {
  tn__arena *arena; /* of the code */
  const tn__pass_of *of;
  const tn__reads *reads; /* numbers the tensors of the code */
  int class_bit;
} tn__compiling;

/* Compiles an expression that is defined in the class. TN_OUT_OF_MEMORY or
 * TN_UNSUPPORTED, with a message. */
tn_code tn__code_create(const tn__compiling *how, const tnm_expr *expr,
                        const tn__code **out) TN_MUST_USE;

/* Values of leaves. */
typedef struct tn__leaf_values {
  const void *params; /* tn_frame.params */
  const tn__number *results;
  int64_t count;
} tn__leaf_values;

/* Computes n elements. `in` has the tensors of the code's list, dense and in
 * its class; `out` may be one of them. [worker] */
void tn__code_run(const tn__code *code, const tn__leaf_values *values,
                  int64_t n, const void *const *in, void *out);

/* A whole number in a class. */
tn__number tn__number_of_count(int64_t count, int class_bit);

/* ----------------------------------------------------------------- kernels */

/* The formulas of one pass as a kernel: the value of tn_frame.options. */
typedef struct tn__formula tn__formula;

/* Implement the functions of tnm_module for kernels of formulas. */
tn_code tn__formula_create(const tnm_bind_request *what, tn__formula **out);
int32_t tn__formula_prepare(const tn_frame *call, tn_plan *plan);
int32_t tn__formula_compute(const tn_frame *call);
int32_t tn__formula_infer(const tn_frame *call);

/* The least type in which a formula computes, by `compute` of its operands; or
 * TN_DTYPE_UNKNOWN. */
tn_dtype tn__formula_find_least(const tnm_operator *op, const tn__pass_of *of,
                                const tnm_formula *formula);
/* The type of a class; TN_DTYPE_UNKNOWN for 0. */
tn_dtype tn__formula_find_type(int class_bit);

/* The formulas of a pass with reductions (formula_lines.c). */
typedef struct tn__line_formulas tn__line_formulas;

tn_code tn__lines_create(const tnm_bind_request *what, const tn__pass_of *of,
                         const tn__line_formulas **out) TN_MUST_USE;
int32_t tn__lines_prepare(const tn_frame *call, tn_plan *plan,
                          const tn__line_formulas *formulas);
int32_t tn__lines_compute(const tn_frame *call,
                          const tn__line_formulas *formulas);

#endif /* TENON_FORMULA_FORMULA_H_ */
