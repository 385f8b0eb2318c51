/* SPDX-License-Identifier: Apache-2.0
 * tree.c: turns libyaml's events into a tree of values with positions. It
 * accepts a strict subset of YAML, with limits of depth and size at every
 * event, and reports mistakes in terms of manifests. Scalars stay text: the
 * schema decides their meaning.
 */
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "front.h"
#include "yaml_error.h"

/* A list or mapping that is being read. */
typedef struct level {
  tnm_tree *node;
  tnm_tree *last;  /* last child of `node` */
  const char *key; /* the last key, until its value is read; or NULL */
  tnm_pos key_pos;
  size_t key_end; /* end of the last key, in characters of the file */
  bool dropped;   /* the last key is invalid, so its value will be dropped */
  bool flow;      /* a list in brackets */
} level;

typedef struct builder {
  tn__arena *arena;
  tnm_diags *diags;
  uint32_t file;
  size_t n_values;
  size_t depth;
  level levels[TNM_MAX_DEPTH];
  tnm_tree **tail;    /* pointer to set when the next document ends */
  tnm_tree *document; /* root of the current document */
} builder;

tnm_tree *tnm_tree_get(const tnm_tree *map, const char *key) {
  if (map == NULL || map->kind != TNM_MAP) return NULL;
  for (tnm_tree *child = map->first; child != NULL; child = child->next) {
    if (child->kind != 0 && strcmp(child->key, key) == 0) return child;
  }
  return NULL;
}

bool tnm_tree_has(const tnm_tree *map, const char *key) {
  for (const tnm_tree *child = map->first; child != NULL; child = child->next) {
    if (strcmp(child->key, key) == 0) return true;
  }
  return false;
}

/* Returns the position in the file of the text of a YAML event. */
static tnm_pos get_event_position(const builder *b, const yaml_event_t *event) {
  tnm_pos pos = {.line = (uint32_t)event->start_mark.line + 1,
                 .column = (uint32_t)event->start_mark.column + 1,
                 .length = 1,
                 .file = b->file};
  if (event->end_mark.line == event->start_mark.line &&
      event->end_mark.column > event->start_mark.column)
    pos.length = (uint32_t)(event->end_mark.column - event->start_mark.column);
  return pos;
}

/* ------------------------------------------------------------------ linking */

/* Reports that the manifest has more than `limit` of `what` ("levels of
 * nesting"). Returns false, for the caller to return. */
static bool report_too_many(builder *b, tnm_pos pos, const char *what,
                            int limit) {
  tnm_diag_spec spec = {"E0007", pos, NULL};
  tnm_diag_add(b->diags, &spec, "more than %d %s", limit, what);
  return false;
}

/* Appends a node to the list or mapping that is being read. */
static void append_child(level *parent, tnm_tree *node) {
  if (parent->last == NULL)
    parent->node->first = node;
  else
    parent->last->next = node;
  parent->last = node;
  ++parent->node->n;
}

/* Adds a value to its parent: to the end of a list, after the key of a
 * mapping, or as the root of a document. Returns false after a message if
 * there are too many values. */
static bool place_value(builder *b, tnm_tree *node) {
  if (++b->n_values > TNM_MAX_VALUES)
    return report_too_many(b, node->pos, "values in one manifest",
                           TNM_MAX_VALUES);
  if (b->depth == 0) {
    b->document = node;
    return true;
  }
  level *parent = &b->levels[b->depth - 1];
  if (parent->node->kind == TNM_MAP) {
    node->key = parent->key;
    node->key_pos = parent->key_pos;
    parent->key = NULL;
    if (parent->dropped) return true;
    if (parent->node->n == TNM_MAX_KEYS)
      return report_too_many(b, node->key_pos, "keys in one mapping",
                             TNM_MAX_KEYS);
  }
  append_child(parent, node);
  return true;
}

/* Tests whether the next scalar is a key of a mapping. */
static bool expects_key(const builder *b) {
  const level *parent = b->depth > 0 ? &b->levels[b->depth - 1] : NULL;
  return parent != NULL && parent->node->kind == TNM_MAP && parent->key == NULL;
}

/* Makes a node of this form (`kind`); NULL if memory ran out. */
static tnm_tree *new_node(builder *b, int kind, tnm_pos pos) {
  tnm_tree *node = tn__arena_alloc(b->arena, sizeof *node);
  if (node != NULL) *node = (tnm_tree){.kind = kind, .pos = pos};
  return node;
}

/* --------------------------------------------------------------------- keys */

/* Reports a feature of YAML, `what` ("tags"), that manifests may not use.
 * Returns false, for the caller to return. */
static bool reject_key_text(builder *b, tnm_pos pos, const char *what,
                            const char *help) {
  tnm_diag_spec spec = {"E0005", pos, "outside of the subset"};
  size_t id = tnm_diag_add(b->diags, &spec, "manifests have no %s", what);
  tnm_diag_add_help(b->diags, id, "%s", help);
  return false;
}

/* Reports a key at `pos` that the mapping already has: `first`. */
static void report_duplicate_key(builder *b, const tnm_tree *first,
                                 tnm_pos pos) {
  tnm_diag_spec spec = {"E0006", pos, "second time"};
  size_t id =
      tnm_diag_add(b->diags, &spec, "key `%s` is given twice", first->key);
  tnm_diag_add_place(b->diags, id, first->key_pos, "first time");
}

/* Stores a key until its value is read; reports merge keys, and keys that the
 * mapping has already. */
static void read_key(builder *b, const char *text, tnm_pos pos) {
  level *parent = &b->levels[b->depth - 1];
  const tnm_tree *first = tnm_tree_get(parent->node, text);
  parent->key = text;
  parent->key_pos = pos;
  parent->dropped = true;
  if (strcmp(text, "<<") == 0)
    reject_key_text(b, pos, "merge keys", "write the keys out");
  else if (first != NULL)
    report_duplicate_key(b, first, pos);
  else
    parent->dropped = false;
}

/* ------------------------------------------------------------------ scalars */

/* Reports an escape for the forbidden character c in quoted text. Returns
 * false, for the caller to return. */
static bool report_bad_escape(builder *b, tnm_pos pos, unsigned char c) {
  tnm_diag_spec spec = {"E0002", pos, NULL};
  tnm_diag_add(b->diags, &spec, "invalid character U+%04X in a quoted text",
               (unsigned)c);
  return false;
}

/* Checks that escapes in quotes do not represent characters that a manifest
 * may not contain. Returns false after a message. */
static bool check_escapes(builder *b, const yaml_event_t *event, tnm_pos pos) {
  const unsigned char *text = event->data.scalar.value;
  for (size_t i = 0; i < event->data.scalar.length; ++i) {
    if ((text[i] < 0x20 && text[i] != '\n') || text[i] == 0x7f)
      return report_bad_escape(b, pos, text[i]);
  }
  return true;
}

/* Moves the position of a text in quotes to the text between the quotes. */
static void set_quoted_position(builder *b, tnm_tree *node,
                                const yaml_event_t *event) {
  yaml_scalar_style_t style = event->data.scalar.style;
  if (style != YAML_SINGLE_QUOTED_SCALAR_STYLE &&
      style != YAML_DOUBLE_QUOTED_SCALAR_STYLE)
    return;
  node->pos.column += 1;
  node->pos.length = node->pos.length > 2 ? node->pos.length - 2 : 1;
  if (node->one_line) tnm_diags_add_quoted(b->diags, node->pos, node->text);
}

/* Tests whether a value is prose: unquoted text of a key that describes
 * something. */
static bool is_prose_value(const tnm_tree *node) {
  static const char *const keys[] = {"doc", "summary", "say", "why"};
  if (node == NULL || node->kind != TNM_SCALAR || !node->plain) return false;
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; ++i)
    if (strcmp(node->key, keys[i]) == 0) return true;
  return false;
}

/* Tests whether the scalar is in braces and has neither colon nor value, so
 * that YAML reads it as a key. */
static bool is_bare_key(const builder *b, const yaml_event_t *event) {
  const level *parent = b->depth > 0 ? &b->levels[b->depth - 1] : NULL;
  return parent != NULL && parent->key != NULL && !parent->dropped &&
         event->start_mark.index == event->end_mark.index &&
         event->start_mark.index == parent->key_end;
}

/* Tests whether a scalar is the rest of the value before it. YAML ends a value
 * at a comma, also within parentheses: in `{shape: f(a, b)}` the value of
 * `shape` is `f(a`, and `b)` is a scalar of its own. */
static bool continues_cut_value(const builder *b, const yaml_event_t *event) {
  const level *parent = b->depth > 0 ? &b->levels[b->depth - 1] : NULL;
  const tnm_tree *last = parent != NULL ? parent->last : NULL;
  int open = 0;
  if (last == NULL || last->kind != TNM_SCALAR || !last->plain ||
      !(parent->flow || is_bare_key(b, event)))
    return false;
  for (const char *s = last->text; *s != '\0'; ++s)
    open += *s == '(' ? 1 : *s == ')' ? -1 : 0;
  return open > 0;
}

/* Reports the previous value, which YAML has ended at a comma within
 * parentheses. Returns false, for the caller to return. */
static bool report_cut_value(builder *b) {
  tnm_pos pos = b->levels[b->depth - 1].last->pos;
  pos.column += pos.length;
  pos.length = 1;
  const tnm_diag_spec spec = {"E0004", pos, "within parentheses"};
  const size_t id = tnm_diag_add(b->diags, &spec, "`,` ends this YAML value");
  tnm_diag_add_help(b->diags, id,
                    "put a value that holds `, ` in double quotes");
  return false;
}

/* Tests whether a scalar continues the prose before it, the text of `doc`,
 * `summary`, `say` or `why`. In `{doc: Any shape, any strides}` YAML ends the
 * text at the comma and reads the rest as a key without colon and value. Prose
 * contains commas, so the text continues. */
static bool continues_prose(const builder *b, const yaml_event_t *event) {
  return is_bare_key(b, event) && is_prose_value(b->levels[b->depth - 1].last);
}

/* Appends the scalar that YAML read as a key to the prose before it, with the
 * comma between them. Returns false if memory ran out. */
static bool append_prose(builder *b) {
  level *parent = &b->levels[b->depth - 1];
  tnm_tree *last = parent->last;
  last->text = tnm_format_text(b->arena, "%s, %s", last->text, parent->key);
  last->pos.length =
      parent->key_pos.column + parent->key_pos.length - last->pos.column;
  parent->key = NULL;
  return last->text != NULL;
}

/* Reads a scalar: a key, or a value of its parent. Returns false after a
 * message or if memory ran out. */
static bool read_scalar(builder *b, const yaml_event_t *event) {
  tnm_pos pos = get_event_position(b, event);
  if (continues_prose(b, event)) return append_prose(b);
  if (continues_cut_value(b, event)) return report_cut_value(b);
  if (!check_escapes(b, event, pos)) return false;
  if (event->data.scalar.tag != NULL)
    reject_key_text(b, pos, "tags",
                    "remove the `!`; the schema decides the types");
  if (event->data.scalar.anchor != NULL)
    reject_key_text(b, pos, "anchors", "write the value out where it is used");
  char *text = tn__arena_text(b->arena, (const char *)event->data.scalar.value,
                              event->data.scalar.length);
  tnm_tree *node = new_node(b, TNM_SCALAR, pos);
  if (text == NULL || node == NULL) return false;
  node->text = text;
  node->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
  node->one_line = event->end_mark.line == event->start_mark.line;
  set_quoted_position(b, node, event);
  if (!expects_key(b)) return place_value(b, node);
  b->levels[b->depth - 1].key_end = event->end_mark.index;
  read_key(b, text, node->pos);
  return true;
}

/* ------------------------------------------------------- lists and mappings */

/* Reports a list or mapping in the place of a key. Returns false, for the
 * caller to return. */
static bool report_non_scalar_key(builder *b, tnm_pos pos) {
  tnm_diag_spec spec = {"E0004", pos, "a list or mapping"};
  size_t id = tnm_diag_add(b->diags, &spec, "a key must be a word");
  tnm_diag_add_help(b->diags, id,
                    "put text that holds `{`, `[` or `?` in quotes");
  return false;
}

/* Begins a list or mapping (`kind`), whose items follow. Returns false after a
 * message or if memory ran out. */
static bool open_level(builder *b, const yaml_event_t *event, int kind) {
  tnm_pos pos = get_event_position(b, event);
  const yaml_char_t *tag = kind == TNM_MAP ? event->data.mapping_start.tag
                                           : event->data.sequence_start.tag;
  const yaml_char_t *anchor = kind == TNM_MAP
                                  ? event->data.mapping_start.anchor
                                  : event->data.sequence_start.anchor;
  if (tag != NULL)
    reject_key_text(b, pos, "tags",
                    "remove the `!`; the schema decides the types");
  if (anchor != NULL)
    reject_key_text(b, pos, "anchors", "write the value out where it is used");
  if (expects_key(b)) return report_non_scalar_key(b, pos);
  if (b->depth == TNM_MAX_DEPTH)
    return report_too_many(b, pos, "levels of nesting", TNM_MAX_DEPTH);
  tnm_tree *node = new_node(b, kind, pos);
  if (node == NULL || !place_value(b, node)) return false;
  const bool flow = kind == TNM_LIST && event->data.sequence_start.style ==
                                            YAML_FLOW_SEQUENCE_STYLE;
  b->levels[b->depth++] = (level){.node = node, .flow = flow};
  return true;
}

/* Ends a list or mapping. If it is on one line, its position covers all of it.
 */
static void close_level(builder *b, const yaml_event_t *event) {
  tnm_tree *node = b->levels[--b->depth].node;
  uint32_t line = (uint32_t)event->end_mark.line + 1;
  uint32_t column = (uint32_t)event->end_mark.column + 1;
  if (line == node->pos.line && column > node->pos.column)
    node->pos.length = column - node->pos.column;
  else if (node->kind == TNM_MAP && node->first != NULL &&
           node->first->key_pos.line == node->pos.line)
    node->pos.length = node->first->key_pos.length;
}

/* Appends the document that was read to the list of documents. */
static void end_document(builder *b) {
  *b->tail = b->document;
  if (b->document != NULL) b->tail = &b->document->next;
  b->document = NULL;
}

/* Checks that a document has no YAML directives. Returns false after a
 * message. */
static bool start_document(builder *b, const yaml_event_t *event) {
  bool directive = event->data.document_start.version_directive != NULL ||
                   event->data.document_start.tag_directives.start !=
                       event->data.document_start.tag_directives.end;
  return !directive || reject_key_text(b, get_event_position(b, event),
                                       "`%` directives", "remove the line");
}

/* Reports an alias of YAML (`*name`). Returns false, for the caller to return.
 */
static bool refuse_alias(builder *b, const yaml_event_t *event) {
  return reject_key_text(b, get_event_position(b, event), "aliases",
                         "write the value out; a pack is written `S...`");
}

/* Adds the node of one event of the YAML parser to the tree. Returns false
 * after a message or if memory ran out. */
static bool handle_event(builder *b, const yaml_event_t *event) {
  switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
      return start_document(b, event);
    case YAML_SCALAR_EVENT:
      return read_scalar(b, event);
    case YAML_SEQUENCE_START_EVENT:
      return open_level(b, event, TNM_LIST);
    case YAML_MAPPING_START_EVENT:
      return open_level(b, event, TNM_MAP);
    case YAML_ALIAS_EVENT:
      return refuse_alias(b, event);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
      close_level(b, event);
      return true;
    case YAML_DOCUMENT_END_EVENT:
      end_document(b);
      return true;
    default:
      return true;
  }
}

/* Reads all events of the YAML parser. Returns false after a message or if
 * memory ran out. */
static bool read_events(builder *b, yaml_parser_t *parser) {
  for (bool more = true; more;) {
    yaml_event_t event;
    if (!yaml_parser_parse(parser, &event)) {
      if (parser->error == YAML_MEMORY_ERROR)
        b->arena->failed = true;
      else
        tnm_report_yaml_error(b->diags, b->file, parser);
      return false;
    }
    more = event.type != YAML_STREAM_END_EVENT;
    bool ok = handle_event(b, &event);
    yaml_event_delete(&event);
    if (!ok) return false;
  }
  return true;
}

bool tnm_tree_read(tn__arena *arena, tnm_diags *diags, uint32_t file,
                   tnm_tree **documents) {
  builder b = {.arena = arena, .diags = diags, .file = file, .tail = documents};
  *documents = NULL;
  yaml_parser_t parser;
  if (!yaml_parser_initialize(&parser)) {
    arena->failed = true;
    return false;
  }
  size_t n;
  const char *text = tnm_diags_get_text(diags, file, &n);
  yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
  yaml_parser_set_input_string(&parser, (const unsigned char *)text, n);
  bool ok = read_events(&b, &parser);
  yaml_parser_delete(&parser);
  return ok;
}
