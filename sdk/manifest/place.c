/* SPDX-License-Identifier: Apache-2.0
 * place.c: finds the position of a part of an operator in its manifest, for
 * messages about tables that were read much earlier.
 */
#include <string.h>

#include "front.h"

/* Tests whether a mapping has the entry `key: word`. */
static bool has_value(const tnm_tree *map, const char *key, const char *word) {
  const tnm_tree *value = tnm_tree_get(map, key);
  return value != NULL && value->kind == TNM_SCALAR &&
         strcmp(value->text, word) == 0;
}

/* Tests whether an item of a list is the text `word`, or a mapping with this
 * value of the key `name` or `that`. */
static bool is_item_named(const tnm_tree *node, const char *word) {
  if (node->kind == TNM_SCALAR) return strcmp(node->text, word) == 0;
  return has_value(node, "name", word) || has_value(node, "that", word);
}

/* Returns the value of the key `word` of a mapping, or the item of a list that
 * has this name; NULL if there is none. */
static const tnm_tree *find_child(const tnm_tree *from, const char *word) {
  if (from->kind == TNM_MAP) return tnm_tree_get(from, word);
  if (from->kind != TNM_LIST) return NULL;
  for (const tnm_tree *item = from->first; item != NULL; item = item->next)
    if (is_item_named(item, word)) return item;
  return NULL;
}

tnm_pos tnm_find_place(const tnm_operator *op, const char *const *path) {
  const tnm_tree *at = op->tree;
  tnm_pos pos = op->pos;
  for (; at != NULL && *path != NULL; ++path) {
    const tnm_tree *next = find_child(at, *path);
    if (next == NULL) break;
    pos = next->pos;
    if (next->kind == TNM_MAP && next->first != NULL)
      pos = next->first->key_pos;
    else if (next->kind == TNM_LIST && pos.line != next->key_pos.line &&
             next->key != NULL)
      pos = next->key_pos;
    at = next;
  }
  return pos;
}
