/* SPDX-License-Identifier: Apache-2.0
 * syntax.c: turns libyaml's events into a manifest as it is written. libyaml
 * reports marks and drops comments. This file finds the comments between the
 * events, where there is nothing else but blanks and indicators. tree.c has
 * reported mistakes in the text before.
 */
#include "syntax.h"

#include <string.h>
#include <yaml.h>

/* A list or mapping that is being read. */
typedef struct level {
  tnm_syntax *node;
  tnm_syntax *open; /* entry of a mapping with a key that was read and a value
                       that was not; NULL: no such entry */
} level;

typedef struct reader {
  tn__arena *arena;
  const char *text;
  size_t n;
  size_t index; /* the last converted position, as libyaml counts it and in
                   bytes */
  size_t at;
  size_t end; /* end of the last token or comment, in bytes */
  bool begun; /* a token of the document was read */
  size_t depth;
  size_t flow; /* number of levels in brackets */
  level levels[TNM_MAX_DEPTH + 1];
  tnm_syntax *touched;   /* the node to which a comment on the same line belongs
                          */
  tnm_comment *pending;  /* comments that belong to no node yet */
  tnm_comment *trailing; /* the last comment that follows a value on its line,
                            as long as the next lines may continue it */
  tnm_page **tail;       /* pointer to set when the next document begins */
  tnm_page *page;        /* the current document */
} reader;

/* ------------------------------------------------------------------- places */

/* Converts a position of libyaml, which counts code points, to bytes. The
 * positions of successive calls must rise. */
static size_t convert_to_bytes(reader *r, size_t index) {
  if (index < r->index) r->index = r->at = 0;
  while (r->index < index && r->at < r->n) {
    ++r->at;
    while (r->at < r->n && ((unsigned char)r->text[r->at] & 0xc0u) == 0x80u)
      ++r->at;
    ++r->index;
  }
  return r->at;
}

/* Returns the column of byte `at`: from 1, in code points. */
static uint32_t find_column(const reader *r, size_t at) {
  uint32_t column = 1;
  for (; at > 0 && r->text[at - 1] != '\n'; --at)
    if (((unsigned char)r->text[at - 1] & 0xc0u) != 0x80u) ++column;
  return column;
}

/* Returns the number of line breaks in [from, to). */
static size_t count_lines_between(const reader *r, size_t from, size_t to) {
  size_t lines = 0;
  for (size_t i = from; i < to; ++i) lines += r->text[i] == '\n';
  return lines;
}

/* Tests whether only blanks precede byte `at` on its line. */
static bool begins_line(const reader *r, size_t at) {
  while (at > 0 && r->text[at - 1] == ' ') --at;
  return at == 0 || r->text[at - 1] == '\n';
}

/* Returns the end of the bytes [begin, end) without the blanks and line ends at
 * their end. */
static size_t trim_end(const reader *r, size_t begin, size_t end) {
  while (end > begin && strchr(" \r\n", r->text[end - 1]) != NULL) --end;
  return end;
}

/* ----------------------------------------------------------------- comments */

/* Appends a comment, with those linked to it, to a list. */
static void append_comment(tnm_comment **list, tnm_comment *comment) {
  while (*list != NULL) list = &(*list)->next;
  *list = comment;
}

/* Tests whether the node is the entry of a mapping that has a key but no value
 * yet. */
static bool is_open_node(const reader *r, const tnm_syntax *node) {
  return r->depth > 0 && r->levels[r->depth - 1].open == node;
}

/* Tests whether a comment continues the comment on the line above, which
 * follows a value: both must have the same column. */
static bool continues_comment(const reader *r, const tnm_comment *comment) {
  return r->trailing != NULL && r->trailing->column == comment->column &&
         count_lines_between(r, r->trailing->end, comment->begin) == 1;
}

/* Decides to which node a comment belongs: to one on the same line, to the
 * comment that it continues, or to the next node. `from` is the end of the
 * token before it. */
static void attach_comment(reader *r, tnm_comment *comment, size_t from) {
  const bool same_line = count_lines_between(r, from, comment->begin) == 0;
  if (same_line && !r->begun && r->page != NULL && r->page->marked) {
    append_comment(&r->page->mark, comment);
  } else if (same_line && r->touched != NULL) {
    tnm_syntax *node = r->touched;
    append_comment(is_open_node(r, node) ? &node->head : &node->trail, comment);
    r->trailing = comment;
  } else if (begins_line(r, comment->begin) && continues_comment(r, comment)) {
    r->trailing->next = comment;
    r->trailing = comment;
  } else {
    append_comment(&r->pending, comment);
    r->trailing = NULL;
  }
}

/* Reads the comment in [begin, end); `from` is the end of the token before it.
 */
static void read_comment(reader *r, size_t begin, size_t end, size_t from) {
  tnm_comment *comment = tn__arena_alloc(r->arena, sizeof *comment);
  if (comment == NULL) return;
  *comment = (tnm_comment){.begin = begin,
                           .end = trim_end(r, begin, end),
                           .column = find_column(r, begin),
                           .blank = count_lines_between(r, from, begin) > 1};
  attach_comment(r, comment, from);
}

/* Reads the comments from the end of the last token to `to`. */
static void read_comments(reader *r, size_t to) {
  for (size_t i = r->end; i < to; ++i) {
    if (r->text[i] != '#') continue;
    size_t end = i;
    while (end < to && r->text[end] != '\n') ++end;
    if (r->flow > 0)
      for (size_t k = 0; k < r->depth; ++k)
        r->levels[k].node->commented |= r->levels[k].node->flow;
    else
      read_comment(r, i, end, r->end);
    if (r->flow == 0) r->end = end;
    i = end;
  }
}

/* -------------------------------------------------------------------- nodes */

/* Makes an empty node; NULL if memory ran out. */
static tnm_syntax *new_node(reader *r) {
  tnm_syntax *node = tn__arena_alloc(r->arena, sizeof *node);
  if (node != NULL) *node = (tnm_syntax){0};
  return node;
}

/* Attaches the comments before a key or an item to its node. Comments at the
 * top of a document stay at the top, so that they do not move when entries are
 * sorted. */
static void attach_pending(reader *r, tnm_syntax *node, size_t begin) {
  const char *dash = memchr(r->text + r->end, '-', begin - r->end);
  const size_t to = dash != NULL ? (size_t)(dash - r->text) : begin;
  const size_t lines = count_lines_between(r, r->end, to);
  node->blank = lines > 1;
  node->after_break = lines > 0;
  if (r->page != NULL && !r->begun) {
    r->page->top = r->pending;
    r->page->blank = node->blank;
    node->blank = false;
  } else {
    append_comment(&node->before, r->pending);
  }
  r->pending = NULL;
  r->trailing = NULL;
  r->begun = true;
}

/* Appends a node to the children of a list or mapping. */
static void link_child(tnm_syntax *parent, tnm_syntax *node) {
  if (parent->last == NULL)
    parent->first = node;
  else
    parent->last->next = node;
  parent->last = node;
  ++parent->n;
}

/* Creates the node for a value that begins at `begin`: the value of the last
 * key, a list item, or the root of the document. `below` is false for a block:
 * comments before it belong to its first child. */
static tnm_syntax *begin_value(reader *r, size_t begin, bool below) {
  level *parent = r->depth > 0 ? &r->levels[r->depth - 1] : NULL;
  tnm_syntax *node = parent != NULL ? parent->open : NULL;
  read_comments(r, begin);
  if (node != NULL && below) {
    append_comment(&node->before, r->pending);
    r->pending = NULL;
  }
  if (node == NULL) node = new_node(r);
  if (node == NULL) return NULL;
  if (parent == NULL) {
    r->page->root = node;
    if (below) attach_pending(r, node, begin);
    return node;
  }
  if (parent->open == NULL) attach_pending(r, node, begin);
  parent->open = NULL;
  link_child(parent->node, node);
  return node;
}

/* Tests whether the next scalar is a key of a mapping. */
static bool expects_key(const reader *r) {
  const level *parent = r->depth > 0 ? &r->levels[r->depth - 1] : NULL;
  return parent != NULL && parent->node->kind == TNM_MAP &&
         parent->open == NULL;
}

/* Tests whether a scalar continues the prose before it, as in tree.c: in `{doc:
 * Any shape, any strides}` YAML ends the text at the comma, but the text
 * continues. */
static bool continues_prose(const reader *r, size_t begin, size_t end) {
  static const char *const keys[] = {"doc", "summary", "say", "why"};
  const level *parent = r->depth > 0 ? &r->levels[r->depth - 1] : NULL;
  if (parent == NULL || parent->open == NULL || begin != end ||
      begin != parent->open->key_end)
    return false;
  const tnm_syntax *last = parent->node->last;
  if (last == NULL || last->kind != TNM_SCALAR || !last->plain) return false;
  for (size_t i = 0; i < sizeof keys / sizeof *keys; ++i)
    if (strcmp(last->name, keys[i]) == 0) return true;
  return false;
}

/* Begins an entry of a mapping with the key in [begin, end). */
static void read_key(reader *r, const yaml_event_t *event, size_t begin,
                     size_t end) {
  if (memchr(r->text + r->end, '?', begin - r->end) != NULL ||
      count_lines_between(r, begin, end) > 0)
    r->page->odd_keys = true;
  read_comments(r, begin);
  tnm_syntax *node = new_node(r);
  if (node == NULL) return;
  node->name = tn__arena_text(r->arena, (const char *)event->data.scalar.value,
                              event->data.scalar.length);
  node->key = begin;
  node->key_end = end;
  attach_pending(r, node, begin);
  r->levels[r->depth - 1].open = node;
  r->touched = node;
  r->end = end;
}

/* Returns the number of blanks at the begin of the first line of a `|` text. */
static size_t find_text_indent(const reader *r, size_t at, size_t end) {
  size_t blanks = 0;
  for (; at < end && strchr(" \r\n", r->text[at]) != NULL; ++at)
    blanks = r->text[at] == ' ' ? blanks + 1 : 0;
  return blanks;
}

/* Returns the end of a `|` text without the empty lines after it. Blanks at the
 * end of a line belong to the text, and so does a line of blanks that is longer
 * than the indentation. */
static size_t find_text_end(const reader *r, size_t at, size_t end) {
  const size_t indent = find_text_indent(r, at, end);
  for (;;) {
    size_t begin = end;
    while (begin > at && strchr(" \r", r->text[begin - 1]) != NULL) --begin;
    if (begin <= at || r->text[begin - 1] != '\n' || end - begin > indent)
      return end;
    end = begin - 1;
    if (end > at && r->text[end - 1] == '\r') --end;
  }
}

/* Ends the node of a `|` text. The line with the `|` may end in a comment.
 * Empty lines after the text do not belong to it, unless `+` keeps them. */
static void end_block_scalar(reader *r, tnm_syntax *node) {
  size_t eol = node->begin;
  while (eol < node->end && r->text[eol] != '\n') ++eol;
  const char *hash = memchr(r->text + node->begin, '#', eol - node->begin);
  const size_t header = hash != NULL ? (size_t)(hash - r->text) : eol;
  if (hash != NULL) {
    r->touched = node;
    r->end = node->begin;
    read_comment(r, header, eol, node->begin);
    node->head = node->trail;
    node->trail = NULL;
  }
  if (memchr(r->text + node->begin, '+', header - node->begin) == NULL)
    node->end = find_text_end(r, eol, node->end);
  r->end = node->end;
  r->touched = NULL;
  r->trailing = NULL;
}

/* Reads a scalar: a key, or a value of its parent. */
static void read_scalar(reader *r, const yaml_event_t *event) {
  const size_t begin = convert_to_bytes(r, event->start_mark.index);
  const size_t end = convert_to_bytes(r, event->end_mark.index);
  const yaml_scalar_style_t style = event->data.scalar.style;
  if (continues_prose(r, begin, end)) {
    level *parent = &r->levels[r->depth - 1];
    parent->node->last->end = parent->open->key_end;
    parent->node->last->joined = true;
    r->touched = parent->node->last;
    parent->open = NULL;
    return;
  }
  if (expects_key(r)) {
    read_key(r, event, begin, end);
    return;
  }
  tnm_syntax *node = begin_value(r, begin, true);
  if (node == NULL) return;
  node->kind = TNM_SCALAR;
  node->plain = style == YAML_PLAIN_SCALAR_STYLE;
  node->block =
      style == YAML_LITERAL_SCALAR_STYLE || style == YAML_FOLDED_SCALAR_STYLE;
  node->begin = begin;
  node->end = end;
  node->column = r->depth > 0 ? r->levels[r->depth - 1].node->column : 1;
  if (begin == end && node->key_end > node->key) return; /* `key:` */
  r->touched = node;
  r->end = end;
  if (node->block) end_block_scalar(r, node);
}

/* ------------------------------------------------------- lists and mappings */

/* Begins a list or mapping (`kind`). */
static void open_level(reader *r, const yaml_event_t *event, int kind) {
  const bool flow =
      kind == TNM_MAP
          ? event->data.mapping_start.style == YAML_FLOW_MAPPING_STYLE
          : event->data.sequence_start.style == YAML_FLOW_SEQUENCE_STYLE;
  const size_t begin = convert_to_bytes(r, event->start_mark.index);
  tnm_syntax *node = begin_value(r, begin, flow);
  if (node == NULL || r->depth > TNM_MAX_DEPTH) return;
  node->kind = kind;
  node->flow = flow;
  node->begin = begin;
  node->column = find_column(r, begin);
  r->levels[r->depth++] = (level){.node = node};
  if (!flow) return;
  ++r->flow;
  r->end = convert_to_bytes(r, event->end_mark.index);
  r->touched = node;
}

/* Ends the node of a block. Comments after it with the same indentation belong
 * to the end of the block; comments further left belong to the next entry. */
static void end_block(reader *r, tnm_syntax *node) {
  const tnm_syntax *parent = r->depth > 0 ? r->levels[r->depth - 1].node : NULL;
  uint32_t least = node->column;
  if (parent != NULL && parent->kind == TNM_MAP && parent->column == least)
    ++least;
  if (parent == NULL) least = 0;
  tnm_comment **tail = &node->tail;
  while (r->pending != NULL && r->pending->column >= least) {
    tnm_comment *comment = r->pending;
    r->pending = comment->next;
    comment->next = NULL;
    *tail = comment;
    tail = &comment->next;
  }
}

/* Ends the current list or mapping. */
static void close_level(reader *r, const yaml_event_t *event) {
  tnm_syntax *node = r->levels[r->depth - 1].node;
  read_comments(r, convert_to_bytes(r, event->start_mark.index));
  --r->depth;
  if (!node->flow) {
    end_block(r, node);
    return;
  }
  --r->flow;
  node->end = convert_to_bytes(r, event->end_mark.index);
  r->end = node->end;
  r->touched = node;
}

/* ---------------------------------------------------------------- documents */

/* Begins a page for the next document. */
static void start_document(reader *r, const yaml_event_t *event) {
  r->page = NULL;
  read_comments(r, convert_to_bytes(r, event->start_mark.index));
  tnm_page *page = tn__arena_alloc(r->arena, sizeof *page);
  if (page == NULL) return;
  *page = (tnm_page){.marked = !event->data.document_start.implicit};
  *r->tail = page;
  r->tail = &page->next;
  r->page = page;
  r->begun = false;
  r->touched = NULL;
  r->trailing = NULL;
  if (!page->marked) return;
  page->above = r->pending;
  r->pending = NULL;
  r->end = convert_to_bytes(r, event->end_mark.index);
}

/* Ends a document. Attaches the comments after a root that is no block. */
static void end_document(reader *r, const yaml_event_t *event) {
  read_comments(r, convert_to_bytes(r, event->start_mark.index));
  if (r->page != NULL && r->page->root != NULL)
    append_comment(&r->page->root->tail, r->pending);
  r->pending = NULL;
}

/* Adds the node of one event of the YAML parser to the page. */
static void handle_event(reader *r, const yaml_event_t *event) {
  switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
      start_document(r, event);
      break;
    case YAML_DOCUMENT_END_EVENT:
      end_document(r, event);
      break;
    case YAML_SCALAR_EVENT:
      read_scalar(r, event);
      break;
    case YAML_SEQUENCE_START_EVENT:
      open_level(r, event, TNM_LIST);
      break;
    case YAML_MAPPING_START_EVENT:
      open_level(r, event, TNM_MAP);
      break;
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
      close_level(r, event);
      break;
    default:
      break;
  }
}

tnm_page *tnm_syntax_read(tn__arena *arena, const char *text, size_t n) {
  yaml_parser_t parser;
  tnm_page *pages = NULL;
  reader r = {.arena = arena, .text = text, .n = n, .tail = &pages};
  bool more = true;
  if (!yaml_parser_initialize(&parser)) return NULL;
  yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
  yaml_parser_set_input_string(&parser, (const unsigned char *)text, n);
  while (more && !arena->failed) {
    yaml_event_t event;
    if (!yaml_parser_parse(&parser, &event)) {
      arena->failed = true;
      break;
    }
    more = event.type != YAML_STREAM_END_EVENT;
    handle_event(&r, &event);
    yaml_event_delete(&event);
  }
  yaml_parser_delete(&parser);
  return arena->failed ? NULL : pages;
}
