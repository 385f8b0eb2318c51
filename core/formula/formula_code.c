/* SPDX-License-Identifier: Apache-2.0
 * formula_code.c: compiles an expression to code. Its parts are computed in the
 * order of generated kernels (tools/opgen/expr_c.c): powers are the same
 * products, and equal parts are computed once.
 */
#include <math.h>
#include <string.h>

#include "formula.h"

enum {
  LEAF = 0x8000, /* a value is a part, LEAF + a leaf, or a tensor */
  MOST_PARTS = LEAF,
  MOST_LEAVES = TN__REGISTER_IN - LEAF,
  MOST_REGISTERS = 4096, /* formula_run.c has room for so many */
  NO_VALUE = TN__REGISTER_OUT
};

typedef struct compiler {
  const tn__compiling *how;
  tn__arena arena; /* for the time of compiling */
  tn__leaf *leaves;
  uint32_t n_leaves;
  tn__instruction *v;
  uint32_t n;
  uint32_t room; /* of both lists */
  tnm_sharing sharing;
  uint16_t *shared; /* values of the shared parts so far */
  size_t n_shared;
  bool is_full;
} compiler;

/* ----------------------------------------------------------------- tensors */

static uint32_t find_input(const tn__pass_of *of, const tnm_expr *tensor) {
  const tn_op *op = of->op;
  if (of->pass == TN_PASS_FORWARD || tensor->kind == TNM_GRAD)
    return tensor->index;
  if (tensor->kind == TNM_INPUT) return op->n_outputs + tensor->index;
  return op->n_outputs + op->n_inputs + tensor->index;
}

static bool is_tensor(const tnm_expr *e) {
  return e->kind == TNM_INPUT || e->kind == TNM_OUTPUT || e->kind == TNM_GRAD;
}

static uint32_t find_read(const tn__reads *reads, uint32_t in) {
  uint32_t k = 0;
  while (k < reads->n && reads->in[k] != in) ++k;
  return k;
}

bool tn__reads_add(tn__reads *reads, const tn__pass_of *of,
                   const tnm_expr *expr) {
  if (is_tensor(expr)) {
    const uint32_t in = find_input(of, expr);
    if (find_read(reads, in) < reads->n) return true;
    if (reads->n == TNM_EXPR_MAX_TENSORS) return false;
    reads->in[reads->n++] = in;
  }
  for (uint32_t i = 0; i < expr->n_args; ++i)
    if (!tn__reads_add(reads, of, expr->args[i])) return false;
  return true;
}

/* ------------------------------------------------------------------ leaves */

static uint64_t whole_of(const tnm_expr *expr, bool negative) {
  uint64_t whole = 0;
  (void)tnm_number_read_whole(expr, &whole);
  return negative ? 0 - whole : whole;
}

/* From this value on a number is nearer to infinity than to FLT_MAX. */
#define BEYOND_FLOAT 0x1.ffffffp127

static tn__number number_of(const tnm_expr *expr, bool negative,
                            int class_bit) {
  tn__number number = {.u64 = 0};
  const double real = negative ? -expr->number : expr->number;
  switch (class_bit) {
    case TNM_CLASS_F32:
      number.f32 = fabs(real) < BEYOND_FLOAT ? (float)real
                   : real < 0                ? -INFINITY
                                             : INFINITY;
      break;
    case TNM_CLASS_F64:
      number.f64 = real;
      break;
    case TNM_CLASS_I32:
      number.i32 = (int32_t)(uint32_t)whole_of(expr, negative);
      break;
    default:
      number.u64 = whole_of(expr, negative);
      break;
  }
  return number;
}

tn__number tn__number_of_count(int64_t count, int class_bit) {
  tn__number number = {.i64 = count};
  if (class_bit == TNM_CLASS_F32) number.f32 = (float)count;
  if (class_bit == TNM_CLASS_F64) number.f64 = (double)count;
  if (class_bit == TNM_CLASS_I32)
    number.i32 = (int32_t)(uint32_t)(uint64_t)count;
  return number;
}

static bool is_same_leaf(const tn__leaf *a, const tn__leaf *b) {
  return a->kind == b->kind && a->index == b->index &&
         !memcmp(&a->number, &b->number, sizeof a->number);
}

static uint16_t add_leaf(compiler *c, const tn__leaf *leaf) {
  for (uint32_t i = 0; i < c->n_leaves; ++i)
    if (is_same_leaf(&c->leaves[i], leaf)) return (uint16_t)(LEAF + i);
  if (c->n_leaves == c->room || c->n_leaves == MOST_LEAVES) {
    c->is_full = true;
    return LEAF;
  }
  c->leaves[c->n_leaves] = *leaf;
  return (uint16_t)(LEAF + c->n_leaves++);
}

static uint16_t add_number(compiler *c, const tnm_expr *expr, bool negative) {
  const tn__leaf leaf = {
      .kind = TN__LEAF_NUMBER,
      .number = number_of(expr, negative, c->how->class_bit)};
  return add_leaf(c, &leaf);
}

static uint16_t add_one(compiler *c) {
  static const tnm_expr one = {.kind = TNM_NUMBER, .number = 1, .text = "1"};
  return add_number(c, &one, false);
}

/* ------------------------------------------------------------------- parts */

/* Appends an instruction; its value is the number of the part. */
static uint16_t add_part(compiler *c, uint32_t function, const uint16_t *from,
                         uint32_t n) {
  if (c->n == c->room || c->n == MOST_PARTS) {
    c->is_full = true;
    return 0;
  }
  tn__instruction *part = &c->v[c->n];
  *part = (tn__instruction){.function = (uint16_t)function,
                            .from = {NO_VALUE, NO_VALUE, NO_VALUE}};
  memcpy(part->from, from, n * sizeof *from);
  return (uint16_t)c->n++;
}

static uint16_t compile_expr(compiler *c, const tnm_expr *expr);

static uint16_t multiply_parts(compiler *c, uint16_t a, uint16_t b) {
  return add_part(c, TN__MULTIPLY, (const uint16_t[]){a, b}, 2);
}

/* Multiplies by squaring, in the order of generated code. */
static uint16_t compile_product(compiler *c, uint16_t base, uint64_t exponent) {
  uint16_t result = base;
  bool begun = false;
  for (uint64_t left = exponent; left > 0; left >>= 1) {
    if (left == 3 && !begun)
      return multiply_parts(c, multiply_parts(c, base, base), base);
    if (left & 1) {
      result = begun ? multiply_parts(c, result, base) : base;
      begun = true;
    }
    if (left > 1) base = multiply_parts(c, base, base);
  }
  return result;
}

static uint16_t compile_power(compiler *c, const tnm_expr *expr) {
  const double exponent = tnm_power_exponent(expr);
  uint16_t from[2] = {compile_expr(c, expr->args[0])};
  if (exponent == 1) return from[0];
  if (tnm_expr_is_root(expr)) return add_part(c, TNM_F_SQRT, from, 1);
  if (exponent == -1)
    return add_part(c, TN__DIVIDE, (const uint16_t[]){add_one(c), from[0]}, 2);
  if (tnm_expr_is_product(expr, c->how->class_bit))
    return compile_product(c, from[0], (uint64_t)exponent);
  from[1] = compile_expr(c, expr->args[1]);
  return add_part(c, TNM_F_POW, from, 2);
}

static uint32_t find_operator(char op) {
  static const char letters[] = "+-*/%<>lgen";
  static const uint16_t functions[] = {
      TN__ADD,           TN__SUBTRACT, TN__MULTIPLY, TN__DIVIDE,
      TNM_F_MOD,         TN__LESS,     TN__GREATER,  TN__LESS_EQUAL,
      TN__GREATER_EQUAL, TN__EQUAL,    TN__NOT_EQUAL};
  const char *found = strchr(letters, op);
  return found ? functions[found - letters] : TN__ADD;
}

static uint16_t compile_args(compiler *c, const tnm_expr *expr,
                             uint32_t function) {
  uint16_t from[3] = {NO_VALUE, NO_VALUE, NO_VALUE};
  for (uint32_t i = 0; i < expr->n_args; ++i)
    from[i] = compile_expr(c, expr->args[i]);
  return add_part(c, function, from, expr->n_args);
}

static uint16_t compile_name(compiler *c, const tnm_expr *expr) {
  tn__leaf leaf = {.index = expr->index};
  if (is_tensor(expr))
    return (uint16_t)(TN__REGISTER_IN +
                      find_read(c->how->reads, find_input(c->how->of, expr)));
  if (expr->kind == TNM_PARAM) {
    leaf.kind = TN__LEAF_PARAM;
    leaf.field = c->how->of->op->params[expr->index];
  } else if (expr->kind == TN__EXPR_RESULT) {
    leaf.kind = TN__LEAF_RESULT;
  } else {
    leaf.kind = TN__LEAF_COUNT;
    leaf.index = 0;
  }
  return add_leaf(c, &leaf);
}

static uint16_t compile_new(compiler *c, const tnm_expr *expr) {
  switch (expr->kind) {
    case TNM_NUMBER:
      return add_number(c, expr, false);
    case TNM_NEG:
      return expr->args[0]->kind == TNM_NUMBER
                 ? add_number(c, expr->args[0], true)
                 : compile_args(c, expr, TN__NEGATE);
    case TNM_BINARY:
    case TNM_CALL:
      if (tnm_expr_is_power(expr)) return compile_power(c, expr);
      return compile_args(
          c, expr,
          expr->kind == TNM_CALL ? expr->index : find_operator(expr->op));
    default:
      return compile_name(c, expr);
  }
}

/* Compiles an expression, or finds the value of a shared one. */
static uint16_t compile_expr(compiler *c, const tnm_expr *expr) {
  for (size_t i = 0; i < c->n_shared; ++i)
    if (c->sharing.v[i] == expr) return c->shared[i];
  return compile_new(c, expr);
}

/* --------------------------------------------------------------- registers */

static bool is_part(uint16_t value) {
  return value < LEAF;
}

/* The register of a value whose part has one. */
static uint16_t find_register(const uint16_t *registers, uint16_t value) {
  if (is_part(value)) return registers[value];
  if (value < TN__REGISTER_IN) return (uint16_t)(value - LEAF);
  return value;
}

/* Registers that no later instruction reads. */
typedef struct registers {
  uint16_t *of;   /* of each part */
  uint32_t *last; /* the last instruction that reads it */
  uint16_t *free;
  uint32_t n_free;
  uint32_t n; /* all */
} registers;

static uint16_t take_register(registers *r) {
  if (r->n_free > 0) return r->free[--r->n_free];
  return (uint16_t)(r->n < UINT16_MAX ? r->n++ : r->n);
}

/* Frees the registers that instruction `i` reads last, each once. */
static void free_registers(const compiler *c, registers *r, uint32_t i) {
  for (uint32_t k = 0; k < 3; ++k) {
    const uint16_t value = c->v[i].from[k];
    if (!is_part(value) || r->last[value] != i) continue;
    r->last[value] = UINT32_MAX;
    r->free[r->n_free++] = r->of[value];
  }
}

/* Replaces values by registers. */
static void assign_registers(compiler *c, registers *r, tn__instruction *to) {
  for (uint32_t i = 0; i < c->n; ++i)
    for (uint32_t k = 0; k < 3; ++k)
      if (is_part(c->v[i].from[k])) r->last[c->v[i].from[k]] = i;
  r->n = c->n_leaves;
  for (uint32_t i = 0; i < c->n; ++i) {
    to[i].function = c->v[i].function;
    for (uint32_t k = 0; k < 3; ++k)
      to[i].from[k] = find_register(r->of, c->v[i].from[k]);
    free_registers(c, r, i);
    r->of[i] = take_register(r);
    to[i].to = i + 1 < c->n ? r->of[i] : TN__REGISTER_OUT;
  }
}

static tn_code fail_too_large(void) {
  return tn__fail(TN_UNSUPPORTED,
                  "a formula needs more than %d values at once; split it, or "
                  "let opgen and a compiler make a plugin of it",
                  MOST_REGISTERS);
}

static uint32_t find_all_reads(const compiler *c) {
  uint32_t reads = 0;
  for (uint32_t i = 0; i < c->n; ++i)
    for (uint32_t k = 0; k < 3; ++k)
      if (c->v[i].from[k] >= TN__REGISTER_IN && c->v[i].from[k] != NO_VALUE)
        reads |= 1u << (c->v[i].from[k] - TN__REGISTER_IN);
  return reads;
}

/* Copies the finished code to the arena of the request. */
static tn_code finish_code(compiler *c, const tn__code **out) {
  tn__arena *arena = c->how->arena;
  registers r = {
      .of = tn__arena_alloc(&c->arena, (c->n + 1) * sizeof *r.of),
      .last = tn__arena_alloc(&c->arena, (c->n + 1) * sizeof *r.last),
      .free = tn__arena_alloc(&c->arena, (c->n + 1) * sizeof *r.free)};
  tn__code *code = tn__arena_alloc(arena, sizeof *code);
  tn__leaf *leaves = tn__arena_alloc(arena, (c->n_leaves + 1) * sizeof *leaves);
  tn__instruction *v = tn__arena_alloc(arena, (c->n + 1) * sizeof *v);
  if (!r.of || !r.last || !r.free || !code || !leaves || !v)
    return tn__fail_memory(c->n * sizeof *v, "the code of a formula");
  assign_registers(c, &r, v);
  if (r.n > MOST_REGISTERS) return fail_too_large();
  memcpy(leaves, c->leaves, c->n_leaves * sizeof *leaves);
  *code = (tn__code){.class_bit = c->how->class_bit,
                     .reads = find_all_reads(c),
                     .n_registers = r.n,
                     .n_leaves = c->n_leaves,
                     .leaves = leaves,
                     .n = c->n,
                     .v = v};
  *out = code;
  return TN_OK;
}

static size_t count_nodes(const tnm_expr *expr) {
  size_t n = 1;
  for (uint32_t i = 0; i < expr->n_args; ++i) n += count_nodes(expr->args[i]);
  return n;
}

static tn_code compile_all(compiler *c, const tnm_expr *expr,
                           const tn__code **out) {
  enum { MOST_OF_ONE = 8 }; /* instructions of one node: x^15 */
  const size_t n = count_nodes(expr);
  const size_t room = MOST_OF_ONE * n + 1;
  if (room > UINT32_MAX) return fail_too_large();
  expr = tnm_expr_share(&c->arena, expr, &c->sharing);
  c->room = (uint32_t)room;
  c->v = tn__arena_alloc(&c->arena, room * sizeof *c->v);
  c->leaves = tn__arena_alloc(&c->arena, room * sizeof *c->leaves);
  c->shared = tn__arena_alloc(&c->arena, (n + 1) * sizeof *c->shared);
  if (!expr || !c->v || !c->leaves || !c->shared)
    return tn__fail_memory(room * sizeof *c->leaves, "the code of a formula");
  while (c->n_shared < c->sharing.n) {
    const uint16_t value = compile_new(c, c->sharing.v[c->n_shared]);
    c->shared[c->n_shared++] = value;
  }
  const uint16_t value = compile_expr(c, expr);
  if (!is_part(value) || value + 1u != c->n)
    (void)add_part(c, TN__COPY, &value, 1);
  return c->is_full ? fail_too_large() : finish_code(c, out);
}

tn_code tn__code_create(const tn__compiling *how, const tnm_expr *expr,
                        const tn__code **out) {
  compiler c = {.how = how};
  tn__arena_init(&c.arena, how->arena->env);
  *out = NULL;
  const tn_code rc = compile_all(&c, expr, out);
  tn__arena_deinit(&c.arena);
  return rc;
}
