/* SPDX-License-Identifier: Apache-2.0
 * lower_common.c: helpers for every step of lowering: arrays and text in the
 * arena, optional keys, unique names, and `since` and `deprecated`.
 */
#include <stdio.h>
#include <string.h>

#include "front.h"

void *tnm_alloc_array(tn__arena *arena, size_t n, size_t size) {
  size_t bytes;
  if (!tn__mul(n == 0 ? 1 : n, size, &bytes)) {
    arena->failed = true;
    return NULL;
  }
  return tn__arena_alloc(arena, bytes);
}

char *tnm_format_text(tn__arena *arena, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int n = vsnprintf(NULL, 0, format, args);
  va_end(args);
  size_t size = (size_t)(n < 0 ? 0 : n) + 1;
  char *text = tn__arena_alloc(arena, size);
  if (text == NULL) return NULL;
  va_start(args, format);
  vsnprintf(text, size, format, args);
  va_end(args);
  return text;
}

const char *tnm_get_text(const tnm_tree *map, const char *key) {
  const tnm_tree *value = tnm_tree_get(map, key);
  return value != NULL && value->kind == TNM_SCALAR ? value->text : NULL;
}

bool tnm_get_bool(tnm_diags *diags, const tnm_tree *map, const char *key) {
  const tnm_tree *value = tnm_tree_get(map, key);
  bool truth;
  return value != NULL && tnm_read_bool(diags, value, &truth) && truth;
}

bool tnm_unique_init(tnm_unique *names, tn__arena *arena, size_t capacity) {
  names->n = 0;
  names->v = TNM_NEW(arena, const tnm_tree *, capacity);
  return names->v != NULL;
}

bool tnm_unique_add(tnm_unique *names, tnm_diags *diags, const tnm_tree *node) {
  for (size_t i = 0; i < names->n; ++i) {
    if (strcmp(names->v[i]->text, node->text) != 0) continue;
    tnm_diag_spec spec = {"E0016", node->pos, "second time"};
    size_t id = tnm_diag_add(diags, &spec, "name `%s` is taken", node->text);
    tnm_diag_add_place(diags, id, names->v[i]->pos, "first time");
    return false;
  }
  names->v[names->n++] = node;
  return true;
}

const char *tnm_kernel_stem(const tnm_lower *lower) {
  const char *plugin = lower->reader->name;
  const tn_op *op = lower->op;
  if (op->interface == 1)
    return tnm_format_text(lower->arena, "%s.%s", plugin, op->name);
  return tnm_format_text(lower->arena, "%s.%s.v%u", plugin, op->name,
                         op->interface);
}

/* ---------------------------------------------------------------- lifecycle */

/* Checks that a release `number` of the plugin is not in the future, and at
 * least `least`. */
static void check_release(const tnm_reader *reader, const tnm_tree *value,
                          uint32_t number, uint32_t least) {
  tnm_diag_spec spec = {"E0018", value->pos, NULL};
  if (number > reader->release) {
    size_t id = tnm_diag_add(reader->diags, &spec,
                             "release %u is newer than the plugin's, %u",
                             number, reader->release);
    tnm_diag_add_help(reader->diags, id,
                      "raise `release` in plugin.yaml first");
  } else if (number < least) {
    tnm_diag_add(reader->diags, &spec,
                 "release %u is before %u, the release of its parent", number,
                 least);
  }
}

/* Reads `deprecated`: the release, and the operator or parameter to use in its
 * place. */
static void read_deprecated(const tnm_reader *reader, tnm_tree *value,
                            tnm_life *life) {
  if (!tnm_schema_check(reader->diags, &tnm_schema_deprecated, value)) return;
  const tnm_tree *since = tnm_tree_get(value, "since");
  life->use = tnm_get_text(value, "use");
  if (since == NULL ||
      !tnm_read_u32(reader->diags, since, 1, &life->deprecated_since))
    return;
  check_release(reader, since, life->deprecated_since, life->since);
}

tnm_life tnm_read_life(const tnm_reader *reader, const tnm_tree *map,
                       uint32_t least) {
  tnm_life life = {.since = least};
  const tnm_tree *since = tnm_tree_get(map, "since");
  tnm_tree *deprecated = tnm_tree_get(map, "deprecated");
  if (since != NULL && tnm_read_u32(reader->diags, since, 1, &life.since))
    check_release(reader, since, life.since, least);
  if (deprecated != NULL) read_deprecated(reader, deprecated, &life);
  return life;
}

void tnm_check_since(tnm_diags *diags, const tnm_tree *map, const char *what,
                     uint32_t before, uint32_t since) {
  if (since >= before) return;
  const tnm_tree *value = tnm_tree_get(map, "since");
  tnm_diag_spec spec = {"E0018", value == NULL ? map->pos : value->pos,
                        "decreases"};
  size_t id = tnm_diag_add(diags, &spec,
                           "this %s is of release %u, the one before it of %u",
                           what, since, before);
  tnm_diag_add_help(diags, id, "order is ABI: newer items follow older ones");
}
