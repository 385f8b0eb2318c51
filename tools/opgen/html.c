/* SPDX-License-Identifier: Apache-2.0
 * html.c: converts Markdown to HTML, as far as manuals of operators need it.
 * Every character of the source that is not Markdown is escaped, so that no
 * text of an author becomes markup, and every opened element is closed.
 */
#include <ctype.h>
#include <string.h>

#include "docs.h"

void html_escape(tn__buf *out, const char *text, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    switch (text[i]) {
      case '&':
        tn__buf_add(out, "&amp;");
        break;
      case '<':
        tn__buf_add(out, "&lt;");
        break;
      case '>':
        tn__buf_add(out, "&gt;");
        break;
      case '"':
        tn__buf_add(out, "&quot;");
        break;
      default:
        tn__buf_bytes(out, text + i, 1);
    }
  }
}

/* ------------------------------------------------------------ within a line */

static void inline_html(tn__buf *out, const char *text, size_t n);

/* The next position of `mark`, or n. */
static size_t find_mark(const char *text, size_t from, size_t n,
                        const char *mark) {
  const size_t length = strlen(mark);
  for (size_t i = from; i + length <= n; ++i)
    if (memcmp(text + i, mark, length) == 0) return i;
  return n;
}

static void add_element(tn__buf *out, const char *name, const char *text,
                        size_t n) {
  tn__buf_add(out, "<%s>", name);
  inline_html(out, text, n);
  tn__buf_add(out, "</%s>", name);
}

/* Writes `code`; returns the bytes read, or 0. A bar is escaped in tables
 * only. */
static size_t write_code(tn__buf *out, const char *text, size_t n) {
  size_t marks = 0;
  char fence[8] = {0};
  while (marks < n && marks < sizeof fence - 1 && text[marks] == '`')
    fence[marks++] = '`';
  const size_t end = find_mark(text, marks, n, fence);
  if (end == n) return 0;
  tn__buf_add(out, "<code>");
  for (size_t i = marks; i < end; ++i)
    if (text[i] != '\\' || i + 1 >= end || text[i + 1] != '|')
      html_escape(out, text + i, 1);
  tn__buf_add(out, "</code>");
  return end + marks;
}

/* Tests for an address that cannot run a script. */
static bool is_safe(const char *url, size_t n) {
  if (n >= 8 && memcmp(url, "https://", 8) == 0) return true;
  if (n >= 7 && memcmp(url, "http://", 7) == 0) return true;
  return memchr(url, ':', n) == NULL;
}

/* Writes [text](url). */
static size_t write_link(tn__buf *out, const char *text, size_t n) {
  const size_t close = find_mark(text, 1, n, "](");
  const size_t end = close < n ? find_mark(text, close, n, ")") : n;
  if (end == n || !is_safe(text + close + 2, end - close - 2)) return 0;
  tn__buf_add(out, "<a href=\"");
  html_escape(out, text + close + 2, end - close - 2);
  tn__buf_add(out, "\">");
  inline_html(out, text + 1, close - 1);
  tn__buf_add(out, "</a>");
  return end + 1;
}

/* Writes **bold**, *italic*; a mark between blanks, or one that is not closed,
 * stays text. */
static size_t write_emphasis(tn__buf *out, const char *text, size_t n) {
  const bool strong = n > 4 && text[1] == text[0];
  const char mark[3] = {text[0], strong ? text[0] : '\0', '\0'};
  const size_t length = strlen(mark);
  const size_t end = find_mark(text, length, n, mark);
  if (end == n || end == length || text[length] == ' ' || text[end - 1] == ' ')
    return 0;
  add_element(out, strong ? "strong" : "em", text + length, end - length);
  return end + length;
}

static bool is_word(char c) {
  return isalnum((unsigned char)c) || c == '_';
}

static size_t write_mark(tn__buf *out, const char *text, size_t i, size_t n) {
  const bool within = i > 0 && is_word(text[i - 1]);
  switch (text[i]) {
    case '`':
      return write_code(out, text + i, n - i);
    case '[':
      return write_link(out, text + i, n - i);
    case '*':
      return within ? 0 : write_emphasis(out, text + i, n - i);
    case '\\':
      if (i + 1 >= n || !ispunct((unsigned char)text[i + 1])) return 0;
      html_escape(out, text + i + 1, 1);
      return 2;
    default:
      return 0;
  }
}

static void inline_html(tn__buf *out, const char *text, size_t n) {
  for (size_t i = 0; i < n;) {
    const size_t taken = write_mark(out, text, i, n);
    if (taken == 0) html_escape(out, text + i, 1);
    i += taken > 0 ? taken : 1;
  }
}

/* ------------------------------------------------------------------- blocks */

/* The text, line by line. */
typedef struct lines {
  const char *at;
  size_t n; /* of the line at `at` */
} lines;

static bool next_line(lines *l) {
  if (*l->at == '\0') return false;
  l->at += l->n;
  if (*l->at == '\n') ++l->at;
  l->n = strcspn(l->at, "\n");
  return *l->at != '\0';
}

static bool starts_with(const lines *l, const char *mark) {
  const size_t n = strlen(mark);
  return l->n >= n && memcmp(l->at, mark, n) == 0;
}

static bool is_item(const lines *l) {
  return starts_with(l, "- ") || starts_with(l, "* ");
}

static size_t heading_level(const lines *l) {
  const size_t marks = strspn(l->at, "#");
  return marks > 0 && marks <= 6 && marks < l->n && l->at[marks] == ' ' ? marks
                                                                        : 0;
}

static bool is_text(const lines *l) {
  return l->n > 0 && heading_level(l) == 0 && !starts_with(l, "```") &&
         !starts_with(l, "|") && !is_item(l);
}

static void add_slug(tn__buf *out, const char *text, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const char c = (char)tolower((unsigned char)text[i]);
    if (isalnum((unsigned char)c) || c == '_') tn__buf_bytes(out, &c, 1);
    if (c == ' ') tn__buf_add(out, "-");
  }
}

static void write_heading(tn__buf *out, const lines *l) {
  const size_t level = heading_level(l);
  const char *title = l->at + level + 1;
  const size_t n = l->n - level - 1;
  tn__buf_add(out, "<h%zu id=\"", level);
  add_slug(out, title, n);
  tn__buf_add(out, "\">");
  inline_html(out, title, n);
  tn__buf_add(out, "</h%zu>\n", level);
}

/* Each of these functions leaves `l` at its last line. */
static void write_fence(tn__buf *out, lines *l) {
  tn__buf_add(out, "<pre><code>");
  while (next_line(l) && !starts_with(l, "```")) {
    html_escape(out, l->at, l->n);
    tn__buf_add(out, "\n");
  }
  tn__buf_add(out, "</code></pre>\n");
}

/* Tests whether the next line continues the element. */
static bool is_continued(const lines *l, bool (*more)(const lines *)) {
  lines below = *l;
  return next_line(&below) && more(&below);
}

static bool is_row(const lines *l) {
  return starts_with(l, "|");
}

static void write_row(tn__buf *out, const lines *l, const char *cell) {
  size_t begin = 1;
  tn__buf_add(out, "<tr>");
  for (size_t i = 1; i < l->n; ++i) {
    if (l->at[i] != '|' || l->at[i - 1] == '\\') continue;
    size_t from = begin, to = i;
    while (from < to && l->at[from] == ' ') ++from;
    while (to > from && l->at[to - 1] == ' ') --to;
    add_element(out, cell, l->at + from, to - from);
    begin = i + 1;
  }
  tn__buf_add(out, "</tr>\n");
}

static void write_table(tn__buf *out, lines *l) {
  tn__buf_add(out, "<div class=\"wide\"><table>\n");
  write_row(out, l, "th");
  if (is_continued(l, is_row)) next_line(l);
  while (is_continued(l, is_row)) {
    next_line(l);
    write_row(out, l, "td");
  }
  tn__buf_add(out, "</table></div>\n");
}

static bool is_more(const lines *l) {
  return l->n > 2 && starts_with(l, "  ");
}

static void write_list(tn__buf *out, lines *l) {
  tn__buf_add(out, "<ul>\n");
  for (;;) {
    tn__buf_add(out, "<li>");
    inline_html(out, l->at + 2, l->n - 2);
    while (is_continued(l, is_more)) {
      next_line(l);
      tn__buf_add(out, "\n");
      inline_html(out, l->at + 2, l->n - 2);
    }
    tn__buf_add(out, "</li>\n");
    if (!is_continued(l, is_item)) break;
    next_line(l);
  }
  tn__buf_add(out, "</ul>\n");
}

/* Writes a paragraph; emphasis and code may continue on the next line. */
static void write_paragraph(tn__buf *out, lines *l) {
  const char *begin = l->at;
  while (is_continued(l, is_text)) next_line(l);
  tn__buf_add(out, "<p>");
  inline_html(out, begin, (size_t)(l->at + l->n - begin));
  tn__buf_add(out, "</p>\n");
}

void html_from_markdown(tn__buf *out, const char *text) {
  lines l = {text, strcspn(text, "\n")};
  if (*text == '\0') return;
  do {
    if (l.n == 0) continue;
    if (starts_with(&l, "```"))
      write_fence(out, &l);
    else if (heading_level(&l) > 0)
      write_heading(out, &l);
    else if (is_row(&l))
      write_table(out, &l);
    else if (is_item(&l))
      write_list(out, &l);
    else
      write_paragraph(out, &l);
  } while (next_line(&l));
}
