/* SPDX-License-Identifier: Apache-2.0
 * json_tree.h: JSON that the library wrote, as a tree of values.
 */
#ifndef TENON_JSON_TREE_H_
#define TENON_JSON_TREE_H_

#include "tenon_tool.h"

typedef enum json_kind {
  JSON_NULL,
  JSON_FALSE,
  JSON_TRUE,
  JSON_NUMBER,
  JSON_STRING,
  JSON_LIST,
  JSON_OBJECT
} json_kind;

/* A value. Everything in it is borrowed from its tree. */
typedef struct json {
  json_kind kind;
  uint32_t n;              /* number of items or members */
  const char *key;         /* of a member; NULL: not in an object */
  const char *text;        /* STRING */
  uint64_t number;         /* NUMBER: a whole number that is not negative */
  struct json *first;      /* the first item or member */
  const struct json *next; /* the next item or member of the same value */
} json;

/* A value with its memory. Zero-initialised it is empty. */
typedef struct json_tree {
  json *root;
  struct json_block *blocks; /* memory of json_alloc */
} json_tree;

/* Reads a text. On false, `why` says at which byte it is no JSON of the
 * library, and *out needs no deinit. */
bool json_tree_parse(const char *source, json_tree *out, text *why);
void json_tree_deinit(json_tree *tree);
/* Zeroed memory that is freed with the tree; NULL without memory. */
void *json_alloc(json_tree *tree, size_t n, size_t each);
/* A member of an object; NULL if there is none. `object` may be NULL. */
const json *json_get(const json *object, const char *key);
/* The first item of a list or member of an object; NULL: empty, or neither. */
const json *json_first(const json *value);
uint64_t json_number(const json *value);  /* 0 if it is no number */
const char *json_text(const json *value); /* "" if it is no string */
bool json_is_true(const json *value);

#endif /* TENON_JSON_TREE_H_ */
