/* SPDX-License-Identifier: Apache-2.0
 * tables.h: operators as opgen would describe them, written by hand, and their
 * registry objects, for the tests of params, shape inference and choice.
 */
#ifndef TESTS_REGISTRY_TABLES_H_
#define TESTS_REGISTRY_TABLES_H_

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "choose.h"
#include "loading.h"

#define COUNT(array) ((uint32_t)(sizeof(array) / sizeof((array)[0])))
#define FLOAT_TYPES (TN_BIT_F16 | TN_BIT_BF16 | TN_BIT_F32 | TN_BIT_F64)

/* ------------------------------------------------- an allocator that refuses
 */

/* Counts living blocks; refuses allocation number `refuse` (from 1), and all
 * later ones if `forever`. */
typedef struct meter {
  int64_t living;
  int64_t seen;
  int64_t refuse;
  bool forever;
} meter;

static inline void *meter_alloc(void *ctx, size_t bytes, size_t align) {
  meter *m = ctx;
  ++m->seen;
  if (m->refuse > 0 &&
      (m->seen == m->refuse || (m->forever && m->seen > m->refuse)))
    return NULL;
  ++m->living;
  return aligned_alloc(align, (bytes + align - 1) / align * align);
}

static inline void meter_free(void *ctx, void *memory) {
  meter *m = ctx;
  if (memory != NULL) --m->living;
  free(memory);
}

/* The last line of log. */
static char logged[4096];

static inline void log_line(void *ctx, int32_t level, const char *line) {
  (void)ctx, (void)level;
  (void)snprintf(logged, sizeof logged, "%s", line);
}

static inline tn__env metered_env(meter *m) {
  tn__env env = *tn__env_default();
  env.allocator = (tn_allocator){m, meter_alloc, meter_free};
  env.log = log_line;
  return env;
}

/* ---------------------------------------------------- one registered operator
 */

/* Set by world_init; no part of it is from a loader. */
typedef struct world {
  meter memory;
  tn__env env;
  tn__registry registry;
  tn_plugin entry;
  tn__plugin plugin;
  tn_operator op;
} world;

static inline void world_init(world *w, const tn_op *desc, const char *name) {
  static char full[128];
  memset(w, 0, sizeof *w);
  (void)snprintf(full, sizeof full, "%s@1", name);
  w->env = metered_env(&w->memory);
  w->registry.env = &w->env;
  (void)pthread_rwlock_init(&w->registry.lock, NULL);
  w->entry.name = "demo";
  w->plugin.entry = &w->entry;
  w->plugin.registry = &w->registry;
  w->op.registry = &w->registry;
  w->op.name = full;
  w->op.desc = desc;
  w->op.plugin = &w->plugin;
}

/* ------------------------------------------------------------- descriptions */

/* Parts of a field or argument that every description needs: no None, no rank
 * rule; type variable 0, one operand. */
#define NOT_NONE .has_offset = TN_NONE
#define ANY_RANK .rank_of = TN_NONE, .max_rank = TN_NONE
#define PLAIN NOT_NONE, ANY_RANK
#define TYPE_T .dtype_var = 0, .dtype_param = TN_NONE
#define ONE .count = TN_NONE
#define T_ONE TYPE_T, ONE

#define FIELD(kind, member, text, ...)                                       \
  &(const tn_field) {                                                        \
    .struct_size = sizeof(tn_field), .type = (kind), .name = #member,        \
    .default_text = (text), .offset = (uint32_t)offsetof(FIELDS_OF, member), \
    __VA_ARGS__                                                              \
  }

#define ARG(text, ...)                                                 \
  &(const tn_arg) {                                                    \
    .struct_size = sizeof(tn_arg), .name = (text), .inplace = TN_NONE, \
    .init = TN_NONE, __VA_ARGS__                                       \
  }

#define SAME_AS_INPUT(i) \
  .shape_kind = TN_SHAPE_SAME, .shape_list = TN_OPERAND_IN, .shape_index = (i)

#define PATTERN(list, text)                                                \
  .shape_kind = TN_SHAPE_PATTERN, .terms = (list), .n_terms = COUNT(list), \
  .shape_text = (text)

static const tn_dtype_var float_var = {
    .struct_size = sizeof(tn_dtype_var), .allowed = FLOAT_TYPES, .name = "T"};
static const tn_dtype_var *const float_vars[] = {&float_var};

/* elemwise.add: equal shapes. */
static const tn_arg *const add_inputs[] = {ARG("lhs", T_ONE),
                                           ARG("rhs", T_ONE, SAME_AS_INPUT(0))};
static const tn_arg *const add_outputs[] = {
    ARG("out", T_ONE, SAME_AS_INPUT(0))};
static const tn_op add_op = {.struct_size = sizeof(tn_op),
                             .interface = 1,
                             .name = "add",
                             .n_dtype_vars = 1,
                             .dtype_vars = float_vars,
                             .n_inputs = 2,
                             .inputs = add_inputs,
                             .n_outputs = 1,
                             .outputs = add_outputs};

#endif /* TESTS_REGISTRY_TABLES_H_ */
