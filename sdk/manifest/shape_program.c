/* SPDX-License-Identifier: Apache-2.0
 * shape_program.c: begins and ends a program over shapes (tnm_program), and
 * copies its nodes and names into tables. shape.c adds the nodes.
 */
#include "expr.h"

void tnm_program_init(tnm_program *program, tn__arena *arena, tnm_diags *diags,
                      const tnm_scope *scope) {
  *program = (tnm_program){.arena = arena, .diags = diags, .scope = *scope};
}

void tnm_program_deinit(tnm_program *program) {
  const tn__env *env = program->arena->env;
  tn__vec_deinit(env, &program->nodes);
  tn__vec_deinit(env, &program->dims);
  tn__vec_deinit(env, &program->packs);
}

bool tnm_program_finish(const tnm_program *program, const tn_node **nodes,
                        uint32_t *n_nodes) {
  size_t n = program->nodes.n;
  tn_node *all = tn__arena_alloc(program->arena, (n + 1) * sizeof *all);
  *nodes = NULL;
  *n_nodes = 0;
  if (!all) return false;
  for (size_t i = 0; i < n; ++i) all[i] = *(const tn_node *)program->nodes.v[i];
  *nodes = n ? all : NULL;
  *n_nodes = (uint32_t)n;
  return true;
}

/* Copies a list of names into the arena; NULL if memory ran out. */
static const char *const *copy_names(const tnm_program *program,
                                     const tn__vec *names) {
  const char **all =
      tn__arena_alloc(program->arena, (names->n + 1) * sizeof *all);
  for (size_t i = 0; all && i < names->n; ++i) all[i] = names->v[i];
  return all;
}

bool tnm_program_names(const tnm_program *program, tn_op *op) {
  op->dims = copy_names(program, &program->dims);
  op->packs = copy_names(program, &program->packs);
  op->n_dims = (uint32_t)program->dims.n;
  op->n_packs = (uint32_t)program->packs.n;
  return op->dims && op->packs;
}
