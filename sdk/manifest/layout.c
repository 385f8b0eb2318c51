/* SPDX-License-Identifier: Apache-2.0
 * layout.c: writes a manifest in canonical form: its blocks and the comments
 * around them. Afterwards it proves that the result has the same meaning.
 * docs/reference/fmt.md describes the form.
 */
#include "layout.h"

#include <string.h>

/* ------------------------------------------------------------------- blocks */

static void write_block(tnm_layout *l, const tnm_syntax *node, size_t indent,
                        const tnm_schema *schema);

/* Begins a line, unless the output is empty. */
static void begin_line(tnm_layout *l, size_t indent) {
  if (l->out->n > 0 && l->out->s[l->out->n - 1] != '\n')
    tn__buf_bytes(l->out, "\n", 1);
  for (size_t i = 0; i < indent; ++i) tn__buf_bytes(l->out, " ", 1);
  l->has_kept_lines = false;
}

static void write_empty_line(tnm_layout *l) {
  if (l->out->n == 0 || l->has_kept_lines) return;
  begin_line(l, 0);
  tn__buf_bytes(l->out, "\n", 1);
}

/* Writes comments, each on a line of its own. If `first` is true, no empty line
 * precedes the first one. */
static void write_comments(tnm_layout *l, const tnm_comment *comments,
                           size_t indent, bool first) {
  for (const tnm_comment *c = comments; c != NULL; c = c->next) {
    if (c->blank && !first) write_empty_line(l);
    begin_line(l, indent);
    tnm_copy_bytes(l, c->begin, c->end);
    first = false;
  }
}

/* Tests whether a value is written as a block. `column` is the column where its
 * bracket would be. */
static bool must_be_block(const tnm_layout *l, const tnm_syntax *node,
                          const tnm_schema *schema, size_t column) {
  if (node->kind != TNM_LIST && node->kind != TNM_MAP) return false;
  return !node->flow || tnm_needs_block(l, node, schema, column);
}

/* Writes the comments of the first entry of a block that follows a dash. They
 * are written above the line with the dash. */
static void write_comments_above_dash(tnm_layout *l, const tnm_syntax *node,
                                      size_t indent, bool *first) {
  write_comments(l, node->before, indent, *first);
  *first = *first && node->before == NULL;
}

/* Writes comments that followed brackets, after the brackets have become a
 * block. The comments follow the key, so they do not keep their column. */
static void write_moved_comments(tnm_layout *l, const tnm_comment *comments) {
  if (comments == NULL) return;
  tnm_comment near = *comments;
  near.column = 1;
  tnm_write_trailing(l, &near, TNM_GAP);
}

/* Writes the value of an entry after its colon. */
static void write_entry_value(tnm_layout *l, const tnm_syntax *node,
                              size_t indent, const tnm_schema *schema) {
  if (node->begin != node->end || node->kind != TNM_SCALAR)
    tn__buf_bytes(l->out, " ", 1);
  if (!must_be_block(l, node, schema, tnm_current_column(l))) {
    tnm_write_value(l, node, indent, schema);
    if (!node->block) tnm_write_trailing(l, node->head, TNM_GAP);
    tnm_write_trailing(l, node->trail, TNM_GAP);
    return;
  }
  if (l->out->n > 0 && l->out->s[l->out->n - 1] == ' ') --l->out->n;
  tnm_write_trailing(l, node->head, TNM_GAP);
  if (node->flow) write_moved_comments(l, node->trail);
  write_block(l, node, indent + TNM_INDENT, schema);
}

/* Writes a mapping as a block. If `after_dash` is true, its first entry follows
 * the dash of a list item. */
static void write_map(tnm_layout *l, const tnm_syntax *node, size_t indent,
                      const tnm_schema *schema, bool after_dash) {
  tnm_syntax **children = tnm_order_keys(l->arena, schema, node);
  bool first = true;
  for (size_t i = 0; i < node->n && children != NULL; ++i) {
    const tnm_syntax *c = children[i];
    if (i > 0 || !after_dash) {
      write_comments_above_dash(l, c, indent, &first);
      if (c->blank && !first) write_empty_line(l);
      begin_line(l, indent);
    }
    first = false;
    tnm_copy_bytes(l, c->key, c->key_end);
    tn__buf_bytes(l->out, ":", 1);
    write_entry_value(l, c, indent, tnm_schema_of_value(schema, c->name));
  }
}

/* Writes all comments that belong above the first line of a list item: those of
 * the item, then those of the first entry of its block. *first is true before
 * the first line of the list, and false after any comment. */
static void write_item_comments(tnm_layout *l, const tnm_syntax *node,
                                size_t indent, const tnm_schema *schema,
                                bool *first) {
  write_comments_above_dash(l, node, indent, first);
  if (!must_be_block(l, node, schema, indent + TNM_INDENT)) return;
  write_comments(l, node->head, indent, *first);
  write_comments(l, node->flow ? node->trail : NULL, indent, *first);
  *first = *first && node->head == NULL && (!node->flow || !node->trail);
  if (node->kind == TNM_LIST || node->n == 0) return;
  tnm_syntax **children = tnm_order_keys(l->arena, schema, node);
  if (children != NULL)
    write_comments_above_dash(l, children[0], indent, first);
}

/* Writes one item of a list, with its dash. */
static void write_item(tnm_layout *l, const tnm_syntax *node, size_t indent,
                       const tnm_schema *schema) {
  tn__buf_bytes(l->out, "- ", 2);
  if (!must_be_block(l, node, schema, indent + TNM_INDENT)) {
    tnm_write_value(l, node, indent, schema);
    if (!node->block) tnm_write_trailing(l, node->head, TNM_GAP);
    tnm_write_trailing(l, node->trail, TNM_GAP);
    return;
  }
  if (node->kind == TNM_MAP) {
    write_map(l, node, indent + TNM_INDENT, schema, true);
    write_comments(l, node->tail, indent + TNM_INDENT, false);
    return;
  }
  --l->out->n;
  write_block(l, node, indent + TNM_INDENT, schema);
}

/* Writes the items of a list as a block. */
static void write_list(tnm_layout *l, const tnm_syntax *node, size_t indent,
                       const tnm_schema *schema) {
  bool first = true;
  for (const tnm_syntax *c = node->first; c != NULL; c = c->next) {
    const bool blank = c->blank && c != node->first;
    write_item_comments(l, c, indent, schema, &first);
    if (blank && !first) write_empty_line(l);
    first = false;
    begin_line(l, indent);
    write_item(l, c, indent, schema);
  }
}

/* Writes a list or mapping as a block. */
static void write_block(tnm_layout *l, const tnm_syntax *node, size_t indent,
                        const tnm_schema *schema) {
  if (node->kind == TNM_MAP)
    write_map(l, node, indent, schema, false);
  else
    write_list(l, node, indent, schema);
  write_comments(l, node->tail, indent, false);
}

/* ---------------------------------------------------------------- documents */

/* Writes one document of the manifest, with its comments. */
static void write_page(tnm_layout *l, const tnm_page *page, bool first) {
  const tnm_syntax *root = page->root;
  const tnm_schema *schema = tnm_schema_document(root);
  write_comments(l, page->above, 0, first);
  if (page->marked || !first) {
    begin_line(l, 0);
    tn__buf_bytes(l->out, "---", 3);
    tnm_write_trailing(l, page->mark, 1);
  }
  write_comments(l, page->top, 0, true);
  if (root == NULL) return;
  if (page->blank && page->top != NULL) write_empty_line(l);
  if (must_be_block(l, root, schema, 0)) {
    write_block(l, root, 0, schema);
    write_comments(l, root->trail, 0, false);
    return;
  }
  if (root->begin == root->end && root->kind == TNM_SCALAR) return;
  begin_line(l, 0);
  tnm_write_value(l, root, 0, schema);
  tnm_write_trailing(l, root->trail, TNM_GAP);
  write_comments(l, root->tail, 0, false);
}

/* Reports that a manifest has keys that follow `?` or have several lines.
 * Returns the failure. */
static tn_code refuse_keys(const char *name) {
  return tn__fail(TN_UNSUPPORTED,
                  "%s: a key after `?`, or of several lines, is not formatted; "
                  "write `key: value`",
                  name);
}

/* Writes all documents of a manifest in the standard layout. */
static tn_code write_pages(tn__arena *arena, const tnm_text *text,
                           tn__buf *out) {
  tnm_layout l = {.arena = arena, .text = text->text, .n = text->n, .out = out};
  const tnm_page *pages = tnm_syntax_read(arena, text->text, text->n);
  for (const tnm_page *p = pages; p != NULL; p = p->next)
    if (p->odd_keys) return refuse_keys(text->path);
  for (const tnm_page *p = pages; p != NULL; p = p->next)
    write_page(&l, p, p == pages);
  if (pages == NULL && !arena->failed) tn__buf_bytes(out, text->text, text->n);
  if (out->n > 0 && out->s[out->n - 1] != '\n') tn__buf_bytes(out, "\n", 1);
  if (!arena->failed && !out->failed) return TN_OK;
  return tn__fail_memory(text->n, "a formatted manifest");
}

/* -------------------------------------------------------------- the meaning */

static bool is_same_tree(const tnm_tree *a, const tnm_tree *b);

/* Tests whether `b` has the entries of `a`, in any order. */
static bool is_same_map(const tnm_tree *a, const tnm_tree *b) {
  for (const tnm_tree *c = a->first; c != NULL; c = c->next) {
    const tnm_tree *other = tnm_tree_get(b, c->key);
    if (other == NULL || !is_same_tree(c, other)) return false;
  }
  return true;
}

/* Tests whether two lists have the same items. */
static bool is_same_list(const tnm_tree *a, const tnm_tree *b) {
  const tnm_tree *d = b->first;
  for (const tnm_tree *c = a->first; c != NULL; c = c->next, d = d->next)
    if (!is_same_tree(c, d)) return false;
  return true;
}

/* Tests whether two trees have the same content; the order of keys may differ.
 */
static bool is_same_tree(const tnm_tree *a, const tnm_tree *b) {
  if (a->kind != b->kind || a->n != b->n) return false;
  if (a->kind == TNM_SCALAR)
    return a->plain == b->plain && strcmp(a->text, b->text) == 0;
  return a->kind == TNM_MAP ? is_same_map(a, b) : is_same_list(a, b);
}

/* Tests whether the formatted text has the documents of the original. `name`
 * is for messages. */
static bool is_same_text(tn__arena *arena, tnm_diags *diags, const char *name,
                         const tnm_tree *before, const tn__buf *after) {
  tnm_tree *tree;
  const uint32_t file = tnm_diags_add_file(diags, name, after->s, after->n);
  if (!tnm_tree_read(arena, diags, file, &tree)) return false;
  const tnm_tree *a = before, *b = tree;
  for (; a != NULL && b != NULL; a = a->next, b = b->next)
    if (!is_same_tree(a, b)) return false;
  return a == NULL && b == NULL;
}

/* Proves that the formatted text has the same content as the manifest: reads
 * the text again and compares the trees. Messages about the text are not shown
 * to the user. */
static tn_code prove_same_content(tn__arena *arena, const char *name,
                                  const tnm_tree *before,
                                  const tn__buf *after) {
  tnm_diags *diags = tnm_diags_create(arena->env);
  if (diags == NULL) return TN_OUT_OF_MEMORY;
  const bool same = is_same_text(arena, diags, name, before, after);
  const bool failed = arena->failed || tnm_diags_has_failed(diags);
  tnm_diags_release(diags);
  if (failed) return tn__fail_memory(after->n, "a formatted manifest");
  if (same) return TN_OK;
  return tn__fail(TN_INTERNAL,
                  "%s: it would mean something else once formatted, so it was "
                  "left as it is; please report it with the file",
                  name);
}

tn_code tnm_layout_text(const tn__env *env, tnm_diags *diags, uint32_t file,
                        const char *name, tn__buf *out) {
  tn__arena arena;
  tnm_tree *before;
  size_t n;
  const size_t errors = tnm_diags_errors(diags);
  const char *text = tnm_diags_get_text(diags, file, &n);
  tn__arena_init(&arena, env);
  const tnm_text whole = {.path = name, .text = text, .n = n};
  tn_code code = TN_INVALID;
  if (tnm_text_check(diags, file, text, n) &&
      tnm_tree_read(&arena, diags, file, &before) &&
      tnm_diags_errors(diags) == errors)
    code = write_pages(&arena, &whole, out);
  if (code == TN_OK) code = prove_same_content(&arena, name, before, out);
  if (arena.failed) code = tn__fail_memory(n, "a formatted manifest");
  tn__arena_deinit(&arena);
  return code;
}
