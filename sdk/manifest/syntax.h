/* SPDX-License-Identifier: Apache-2.0
 * syntax.h: a manifest as it is written: the position of every key and value in
 * the bytes of its file, the style, and the comments. tree.c reads the meaning
 * of a manifest and drops all that; `opgen fmt` needs it. For syntax.c and
 * layout*.c.
 */
#ifndef TENON_MANIFEST_SYNTAX_H_
#define TENON_MANIFEST_SYNTAX_H_

#include "front.h"

/* One comment, from its `#` to its last character that is no blank. */
typedef struct tnm_comment {
  struct tnm_comment *next;
  size_t begin; /* bytes in the file */
  size_t end;
  uint32_t column; /* from 1, in code points */
  bool blank;      /* an empty line precedes the comment */
} tnm_comment;

/* A value with its key, if it has one. Offsets are bytes in the file. */
typedef struct tnm_syntax {
  struct tnm_syntax *next;
  struct tnm_syntax *first; /* children */
  struct tnm_syntax *last;
  size_t n;
  int kind;   /* TNM_SCALAR, TNM_LIST, TNM_MAP */
  bool plain; /* a scalar without quotes */
  /* the node is the text of `doc`, `summary`, `say` or `why` without quotes,
   * which YAML splits into several keys at commas */
  bool joined;
  bool flow;        /* a list or mapping in brackets */
  bool block;       /* a scalar in the lines after a `|` or `>` */
  bool commented;   /* a list or mapping in brackets that contains a comment */
  bool after_break; /* a line break precedes the node: as an item of a list in
                       brackets, the node begins a line */
  bool blank;       /* an empty line precedes the node */
  const char *name; /* the key as text, or NULL */
  size_t key; /* first byte of the key; key_end is its end, or equals `key` if
                 the node has no key */
  size_t key_end;
  size_t begin; /* first byte of the value, and its end in `end`: of a scalar,
                   or of a list or mapping in brackets */
  size_t end;
  uint32_t column; /* column from 1: of the first key or dash of a block, or of
                      an opening bracket; for a scalar, the column of its entry
                      */
  tnm_comment *before; /* comments on the lines above the node */
  tnm_comment *head;   /* comment on the line of a key or a `|`, if the value
                          begins on the next line */
  tnm_comment *trail;  /* comments that follow the value on its last line */
  tnm_comment *tail; /* comments on the lines below the last child of a block */
} tnm_syntax;

/* One YAML document. */
typedef struct tnm_page {
  struct tnm_page *next;
  bool marked;        /* begins with `---` */
  bool odd_keys;      /* at least one key follows a `?` or has several lines */
  tnm_comment *above; /* comments before the `---` that begins the document */
  tnm_comment *mark;  /* comment on the line of the `---` */
  tnm_comment *top;   /* comments before the first entry */
  bool blank;         /* an empty line separates `top` from the first entry */
  tnm_syntax *root;
} tnm_page;

/* Reads a text that tnm_tree_read has accepted. NULL if memory ran out. */
tnm_page *tnm_syntax_read(tn__arena *arena, const char *text, size_t n);

#endif /* TENON_MANIFEST_SYNTAX_H_ */
