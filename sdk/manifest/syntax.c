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
  tnm_syntax *open; /* has a key without a value yet */
} level;

typedef struct reader {
  tn__arena *arena;
  const char *text;
  size_t n;
  size_t index; /* a position as libyaml counts, and the same in bytes */
  size_t at;
  size_t end; /* of the last token or comment */
  bool begun; /* the document has a token */
  size_t depth;
  size_t flow; /* number of levels in brackets */
  level levels[TNM_MAX_DEPTH + 1];
  tnm_syntax *touched; /* the node that a comment on the same line belongs to */
  tnm_comment *pending;
  tnm_comment
      *trailing; /* last comment after a value, while its lines continue */
  tnm_page **tail;
  tnm_page *page;
} reader;

/* ------------------------------------------------------------------- places */

/* Converts a position of libyaml, which counts code points; calls come in
 * order. */
static size_t to_byte(reader *r, size_t index) {
  if (index < r->index) r->index = r->at = 0;
  while (r->index < index && r->at < r->n) {
    ++r->at;
    while (r->at < r->n && ((unsigned char)r->text[r->at] & 0xc0u) == 0x80u)
      ++r->at;
    ++r->index;
  }
  return r->at;
}

static uint32_t column_of(const reader *r, size_t at) {
  uint32_t column = 1;
  for (; at > 0 && r->text[at - 1] != '\n'; --at)
    if (((unsigned char)r->text[at - 1] & 0xc0u) != 0x80u) ++column;
  return column;
}

static size_t lines_between(const reader *r, size_t from, size_t to) {
  size_t lines = 0;
  for (size_t i = from; i < to; ++i) lines += r->text[i] == '\n';
  return lines;
}

/* Tests whether only blanks precede it on its line. */
static bool is_own_line(const reader *r, size_t at) {
  while (at > 0 && r->text[at - 1] == ' ') --at;
  return at == 0 || r->text[at - 1] == '\n';
}

/* The end without trailing blanks and line ends. */
static size_t trim_end(const reader *r, size_t begin, size_t end) {
  while (end > begin && strchr(" \r\n", r->text[end - 1]) != NULL) --end;
  return end;
}

/* ----------------------------------------------------------------- comments */

static void append_comment(tnm_comment **list, tnm_comment *comment) {
  while (*list != NULL) list = &(*list)->next;
  *list = comment;
}

static bool is_open(const reader *r, const tnm_syntax *node) {
  return r->depth > 0 && r->levels[r->depth - 1].open == node;
}

/* A comment continues the one above it that follows a value, if both have the
 * same column. */
static bool continues_comment(const reader *r, const tnm_comment *comment) {
  return r->trailing != NULL && r->trailing->column == comment->column &&
         lines_between(r, r->trailing->end, comment->begin) == 1;
}

static void attach_comment(reader *r, tnm_comment *comment, size_t from) {
  const bool same_line = lines_between(r, from, comment->begin) == 0;
  if (same_line && !r->begun && r->page != NULL && r->page->marked) {
    append_comment(&r->page->mark, comment);
  } else if (same_line && r->touched != NULL) {
    tnm_syntax *node = r->touched;
    append_comment(is_open(r, node) ? &node->head : &node->trail, comment);
    r->trailing = comment;
  } else if (is_own_line(r, comment->begin) && continues_comment(r, comment)) {
    r->trailing->next = comment;
    r->trailing = comment;
  } else {
    append_comment(&r->pending, comment);
    r->trailing = NULL;
  }
}

static void read_comment(reader *r, size_t begin, size_t end, size_t from) {
  tnm_comment *comment = tn__arena_alloc(r->arena, sizeof *comment);
  if (comment == NULL) return;
  *comment = (tnm_comment){.begin = begin,
                           .end = trim_end(r, begin, end),
                           .column = column_of(r, begin),
                           .blank = lines_between(r, from, begin) > 1};
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

static tnm_syntax *new_node(reader *r) {
  tnm_syntax *node = tn__arena_alloc(r->arena, sizeof *node);
  if (node != NULL) *node = (tnm_syntax){0};
  return node;
}

/* Attaches the comments before a key or an item. Comments at the top of a
 * document remain there for any order of entries. */
static void attach_before(reader *r, tnm_syntax *node, size_t begin) {
  const char *dash = memchr(r->text + r->end, '-', begin - r->end);
  const size_t to = dash != NULL ? (size_t)(dash - r->text) : begin;
  const size_t lines = lines_between(r, r->end, to);
  node->blank = lines > 1;
  node->broken = lines > 0;
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

static void link_child(tnm_syntax *parent, tnm_syntax *node) {
  if (parent->last == NULL)
    parent->first = node;
  else
    parent->last->next = node;
  parent->last = node;
  ++parent->n;
}

/* Creates the node of a value that begins: of the key before it, an item, a
 * root. */
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
    if (below) attach_before(r, node, begin);
    return node;
  }
  if (parent->open == NULL) attach_before(r, node, begin);
  parent->open = NULL;
  link_child(parent->node, node);
  return node;
}

static bool expects_key(const reader *r) {
  const level *parent = r->depth > 0 ? &r->levels[r->depth - 1] : NULL;
  return parent != NULL && parent->node->kind == TNM_MAP &&
         parent->open == NULL;
}

/* Like in tree.c: in `{doc: Any shape, any strides}` the text continues. */
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

static void read_key(reader *r, const yaml_event_t *event, size_t begin,
                     size_t end) {
  if (memchr(r->text + r->end, '?', begin - r->end) != NULL ||
      lines_between(r, begin, end) > 0)
    r->page->odd_keys = true;
  read_comments(r, begin);
  tnm_syntax *node = new_node(r);
  if (node == NULL) return;
  node->name = tn__arena_text(r->arena, (const char *)event->data.scalar.value,
                              event->data.scalar.length);
  node->key = begin;
  node->key_end = end;
  attach_before(r, node, begin);
  r->levels[r->depth - 1].open = node;
  r->touched = node;
  r->end = end;
}

/* Blanks at the beginning of the first line of a `|` text. */
static size_t indent_of_text(const reader *r, size_t at, size_t end) {
  size_t blanks = 0;
  for (; at < end && strchr(" \r\n", r->text[at]) != NULL; ++at)
    blanks = r->text[at] == ' ' ? blanks + 1 : 0;
  return blanks;
}

/* The end without the empty lines below. Blanks at the end of a line belong to
 * the text, and so does a line of blanks that is longer than the
 * indentation. */
static size_t end_of_text(const reader *r, size_t at, size_t end) {
  const size_t indent = indent_of_text(r, at, end);
  for (;;) {
    size_t begin = end;
    while (begin > at && strchr(" \r", r->text[begin - 1]) != NULL) --begin;
    if (begin <= at || r->text[begin - 1] != '\n' || end - begin > indent)
      return end;
    end = begin - 1;
    if (end > at && r->text[end - 1] == '\r') --end;
  }
}

/* Ends a `|` text. Its first line may contain a comment. Blank lines below the
 * text do not belong to it, unless `+` keeps them. */
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
    node->end = end_of_text(r, eol, node->end);
  r->end = node->end;
  r->touched = NULL;
  r->trailing = NULL;
}

static void read_scalar(reader *r, const yaml_event_t *event) {
  const size_t begin = to_byte(r, event->start_mark.index);
  const size_t end = to_byte(r, event->end_mark.index);
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

static void open_level(reader *r, const yaml_event_t *event, int kind) {
  const bool flow =
      kind == TNM_MAP
          ? event->data.mapping_start.style == YAML_FLOW_MAPPING_STYLE
          : event->data.sequence_start.style == YAML_FLOW_SEQUENCE_STYLE;
  const size_t begin = to_byte(r, event->start_mark.index);
  tnm_syntax *node = begin_value(r, begin, flow);
  if (node == NULL || r->depth > TNM_MAX_DEPTH) return;
  node->kind = kind;
  node->flow = flow;
  node->begin = begin;
  node->column = column_of(r, begin);
  r->levels[r->depth++] = (level){.node = node};
  if (!flow) return;
  ++r->flow;
  r->end = to_byte(r, event->end_mark.index);
  r->touched = node;
}

/* Ends a block. Comments below it with the same indentation belong to its end;
 * comments further left belong to the next entry. */
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

static void close_level(reader *r, const yaml_event_t *event) {
  tnm_syntax *node = r->levels[r->depth - 1].node;
  read_comments(r, to_byte(r, event->start_mark.index));
  --r->depth;
  if (!node->flow) {
    end_block(r, node);
    return;
  }
  --r->flow;
  node->end = to_byte(r, event->end_mark.index);
  r->end = node->end;
  r->touched = node;
}

/* ---------------------------------------------------------------- documents */

static void start_document(reader *r, const yaml_event_t *event) {
  r->page = NULL;
  read_comments(r, to_byte(r, event->start_mark.index));
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
  r->end = to_byte(r, event->end_mark.index);
}

/* Attaches comments below a root that is no block. */
static void end_document(reader *r, const yaml_event_t *event) {
  read_comments(r, to_byte(r, event->start_mark.index));
  if (r->page != NULL && r->page->root != NULL)
    append_comment(&r->page->root->tail, r->pending);
  r->pending = NULL;
}

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
