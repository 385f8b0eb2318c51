/* SPDX-License-Identifier: Apache-2.0
 * scope.c: looks up the names of an expression; lists and suggests the valid
 * ones.
 */
#include <string.h>

#include "expr.h"

/* Returns the index of a name; TN_NONE if the list does not have it. */
static uint32_t find_name(const char *const *names, uint32_t n,
                          const char *name) {
  for (uint32_t i = 0; i < n; ++i)
    if (strcmp(names[i], name) == 0) return i;
  return TN_NONE;
}

uint32_t tnm_scope_input(const tnm_scope *scope, const char *name) {
  return find_name(scope->inputs, scope->n_inputs, name);
}

uint32_t tnm_scope_output(const tnm_scope *scope, const char *name) {
  return find_name(scope->outputs, scope->n_outputs, name);
}

uint32_t tnm_scope_param(const tnm_scope *scope, const char *name) {
  for (uint32_t i = 0; i < scope->n_params; ++i)
    if (strcmp(scope->params[i]->name, name) == 0) return i;
  return TN_NONE;
}

/* Makes room for one more name. Returns false if memory ran out. */
static bool grow_names(tnm_names *names) {
  if (names->n < names->capacity) return true;
  size_t capacity = names->capacity ? 2 * names->capacity : 16;
  const char **v = tn__arena_alloc(names->arena, capacity * sizeof *v);
  if (!v) return false;
  if (names->n) memcpy(v, names->v, names->n * sizeof *v);
  names->v = v;
  names->capacity = capacity;
  return true;
}

void tnm_names_add(tnm_names *names, const char *const *more, size_t n) {
  for (size_t i = 0; i < n && grow_names(names); ++i)
    names->v[names->n++] = more[i];
}

/* Adds `grad.` before every output. */
static void add_gradient_names(tnm_names *names, const tnm_scope *scope) {
  for (uint32_t i = 0; i < scope->n_outputs; ++i) {
    size_t n = strlen(scope->outputs[i]);
    char *name = tn__arena_alloc(names->arena, n + sizeof "grad.");
    if (!name) return;
    memcpy(name, "grad.", 5);
    memcpy(name + 5, scope->outputs[i], n);
    const char *added = name;
    tnm_names_add(names, &added, 1);
  }
}

void tnm_names_add_scope(tnm_names *names, const tnm_scope *scope) {
  if (scope->gradient) add_gradient_names(names, scope);
  tnm_names_add(names, scope->inputs, scope->n_inputs);
  if (scope->gradient) tnm_names_add(names, scope->outputs, scope->n_outputs);
  for (uint32_t i = 0; i < scope->n_params; ++i)
    tnm_names_add(names, &scope->params[i]->name, 1);
}

bool tnm_add_enum_help(const tnm_scope *scope, tnm_diags *diags, size_t id,
                       const char *word) {
  for (uint32_t i = 0; i < scope->n_params; ++i) {
    const tn_field *field = scope->params[i];
    const uint32_t value = find_name(field->values, field->n_values, word);
    if (value == TN_NONE) continue;
    tnm_diag_add_help(
        diags, id,
        "`%s` is a value of `%s`, which counts as a number here, from "
        "0: write `%u`",
        word, field->name, value);
    return true;
  }
  return false;
}

void tnm_names_add_note(const tnm_names *names, tnm_diags *diags, size_t id,
                        const char *what) {
  tn__buf buf;
  if (names->n == 0) return;
  tn__buf_init(&buf, names->arena->env);
  for (size_t i = 0; i < names->n; ++i)
    tn__buf_add(&buf, "%s%s", i ? ", " : "", names->v[i]);
  if (!buf.failed) tnm_diag_add_note(diags, id, "%s: %s", what, buf.s);
  tn__buf_deinit(&buf);
}

bool tnm_names_add_help(const tnm_names *names, tnm_diags *diags, size_t id,
                        const char *word) {
  const char *near = tn__find_nearest_word(word, names->v, names->n);
  if (near) tnm_diag_add_help(diags, id, "did you mean `%s`?", near);
  return near != NULL;
}
