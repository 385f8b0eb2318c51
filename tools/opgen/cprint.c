/* SPDX-License-Identifier: Apache-2.0
 * cprint.c: lays out a C file from its parts, in the format of clang-format
 * with the repository's settings: the indentation of blocks and initialisers,
 * blank lines, and breaks in long lines. Nothing else counts columns of C.
 * ctext.c does it for literals and comments.
 */
#include <string.h>

#include "cprint.h"

enum { BLOCK = 2, MOST_LEVELS = 16, LEAST_NUMBERED = 5 };

/* An open brace. */
typedef struct level {
  size_t brace; /* columns of the closing brace ... */
  size_t outer; /* ... and of the line after it */
  bool values;  /* an initialiser, not a block */
  size_t list;  /* offset of its items if they may be numbered; 0: not */
} level;

typedef struct printer {
  tn__buf *out;
  size_t indent;
  level levels[MOST_LEVELS];
  size_t depth;
  bool blank; /* a blank line precedes the next part */
} printer;

/* Adds n bytes at a column, and ends the line. */
static void print_bytes(tn__buf *out, size_t column, const char *s, size_t n) {
  c_print_blanks(out, column);
  tn__buf_bytes(out, s, n);
  tn__buf_bytes(out, "\n", 1);
}

static void print_text(tn__buf *out, size_t column, const char *text) {
  print_bytes(out, column, text, strlen(text));
}

static bool ends_with(const char *text, const char *end) {
  const size_t n = strlen(text), k = strlen(end);
  return n >= k && memcmp(text + n - k, end, k) == 0;
}

/* Ends a line, and begins one at a column. */
static void break_line(tn__buf *out, size_t column) {
  tn__buf_bytes(out, "\n", 1);
  c_print_blanks(out, column);
}

/* ----------------------------------------------------------- breaks in text */

static size_t skip_literal(const char *s) {
  size_t n = 1;
  while (s[n] != '\0' && s[n] != '"') n += s[n] == '\\' && s[n + 1] ? 2 : 1;
  return s[n] == '"' ? n + 1 : n;
}

/* Length of the text before the first character of `stops` outside of brackets
 * and literals. */
static size_t find_outside(const char *s, const char *stops) {
  int depth = 0;
  size_t n = 0;
  while (s[n] != '\0') {
    if (depth == 0 && strchr(stops, s[n]) != NULL) break;
    if (s[n] == '"') {
      n += skip_literal(s + n);
      continue;
    }
    depth += (strchr("([{", s[n]) != NULL) - (strchr(")]}", s[n]) != NULL);
    ++n;
  }
  return n;
}

/* Length of the text up to an assignment's `=`, with it; 0 without one. */
static size_t find_assignment(const char *s) {
  for (size_t n = find_outside(s, "="); s[n] != '\0';) {
    if (n > 0 && s[n - 1] == ' ' && s[n + 1] == ' ') return n + 1;
    n += 1 + strspn(s + n, "=");
    n += find_outside(s + n, "=");
  }
  return 0;
}

/* The text with a call or a function head: up to the bracket, the arguments,
 * and the text from the closing bracket on. */
typedef struct call {
  const char *head;
  size_t n_head;
  const char *arguments;
  const char *end;
} call;

static bool find_call(const char *s, call *c) {
  const size_t n = find_outside(s, "(");
  if (s[n] == '\0' || n == 0) return false;
  *c = (call){s, n + 1, s + n + 1, NULL};
  c->end = c->arguments + find_outside(c->arguments, ")");
  return *c->end == ')' && c->end > c->arguments;
}

/* Length of the next argument, with the comma after it. */
static size_t measure_argument(const char *s) {
  const size_t n = find_outside(s, ",)");
  return n + (s[n] == ',' ? 1 : 0);
}

/* Columns of the text after an argument that may not leave its line. */
static size_t measure_end(const call *c, const char *after) {
  return after == c->end ? strlen(c->end) : 0;
}

/* Tests whether each argument fits between `column` and the end of the page. */
static bool fits_each(const call *c, size_t column) {
  for (const char *s = c->arguments; s < c->end;) {
    const size_t n = measure_argument(s);
    if (column + n + measure_end(c, s + n) > C_PAGE) return false;
    s += n + strspn(s + n, " ");
  }
  return true;
}

/* Fills lines with arguments; further lines begin at `margin`. */
static void fill_arguments(tn__buf *out, const call *c, size_t margin) {
  size_t column = margin;
  for (const char *s = c->arguments; s < c->end;) {
    const size_t n = measure_argument(s);
    const size_t width = n + measure_end(c, s + n);
    if (s > c->arguments && column + 1 + width > C_PAGE) {
      break_line(out, margin);
      column = margin;
    } else if (s > c->arguments) {
      tn__buf_bytes(out, " ", 1);
      ++column;
    }
    tn__buf_bytes(out, s, n);
    column += n;
    s += n + strspn(s + n, " ");
  }
  print_text(out, 0, c->end);
}

/* Breaks the declaration of a function before its name. */
static void break_before_name(tn__buf *out, const call *c) {
  size_t n = c->n_head - 1;
  while (n > 0 && c->head[n - 1] != ' ' && c->head[n - 1] != '*') --n;
  const size_t margin = c->n_head - n;
  const bool fits = fits_each(c, margin);
  tn__buf_bytes(out, c->head, n > 0 && c->head[n - 1] == ' ' ? n - 1 : n);
  break_line(out, 0);
  tn__buf_bytes(out, c->head + n, margin);
  if (!fits) break_line(out, C_FURTHER);
  fill_arguments(out, c, fits ? margin : C_FURTHER);
}

/* Number of lines of the arguments between `margin` and the end of the page. */
static size_t count_lines(const call *c, size_t margin) {
  size_t column = margin, lines = 1;
  for (const char *s = c->arguments; s < c->end;) {
    const size_t n = measure_argument(s);
    if (s > c->arguments && column + 1 + n + measure_end(c, s + n) > C_PAGE) {
      column = margin;
      ++lines;
    } else if (s > c->arguments) {
      ++column;
    }
    column += n;
    s += n + strspn(s + n, " ");
  }
  return lines;
}

/* Prints an assertion whose condition is too long for a line: breaks after the
 * `==` or else in the first call. */
static void print_assertion(tn__buf *out, const call *c) {
  const size_t n = measure_argument(c->arguments);
  const char *equal = strstr(c->arguments, " == ");
  call inner;
  tn__buf_bytes(out, c->head, c->n_head);
  const size_t first = equal != NULL ? (size_t)(equal - c->arguments) + 3 : n;
  if (c->n_head + first <= C_PAGE) {
    tn__buf_bytes(out, c->arguments, first);
    break_line(out, c->n_head + C_FURTHER);
    tn__buf_bytes(out, equal + 4, n - first - 1);
  } else if (find_call(c->arguments, &inner)) {
    const size_t part = inner.n_head + measure_argument(inner.arguments);
    tn__buf_bytes(out, c->arguments, part);
    break_line(out, c->n_head + inner.n_head);
    tn__buf_bytes(out, c->arguments + part + 1, n - part - 1);
  }
  break_line(out, c->n_head);
  print_text(out, 0, c->arguments + n + 1);
}

static void print_call(tn__buf *out, size_t column, const call *c) {
  const size_t margin = column + c->n_head;
  const bool each = fits_each(c, margin);
  if (!each && strncmp(c->head, "_Static_assert", 14) == 0) {
    print_assertion(out, c);
    return;
  }
  if (margin > C_PAGE && column == 0) {
    break_before_name(out, c);
    return;
  }
  c_print_blanks(out, column);
  tn__buf_bytes(out, c->head, c->n_head);
  const bool statement = column > 0 && !ends_with(c->end, "{");
  if (each && (!statement || count_lines(c, margin) <=
                                 count_lines(c, column + C_FURTHER) + 1)) {
    fill_arguments(out, c, margin);
    return;
  }
  break_line(out, column + C_FURTHER);
  fill_arguments(out, c, column + C_FURTHER);
}

/* Fills lines with names and the `|` after each; the text begins at the column
 * that the line has reached. */
static void fill_flags(tn__buf *out, size_t column, size_t margin,
                       const char *s) {
  for (bool first = true; *s != '\0'; first = false) {
    const char *bar = strstr(s, " | ");
    const size_t n = bar != NULL ? (size_t)(bar - s) + 2 : strlen(s);
    if (!first && column + 1 + n > C_PAGE) {
      break_line(out, margin);
      column = margin;
    } else if (!first) {
      tn__buf_bytes(out, " ", 1);
      ++column;
    }
    tn__buf_bytes(out, s, n);
    column += n;
    s += n + strspn(s + n, " ");
  }
  tn__buf_bytes(out, "\n", 1);
}

/* Prints a text that is too long for a line; `n` is the length of the part
 * before a break. */
static void print_line_in_two(tn__buf *out, size_t column, const char *s,
                              size_t n) {
  print_bytes(out, column, s, n);
  print_text(out, column + C_FURTHER, s + n + strspn(s + n, " "));
}

/* Prints ".field = value,", of which `n` bytes are before the value. */
static void print_field(tn__buf *out, size_t column, const char *s, size_t n) {
  const char *value = s + n + 1;
  const bool fits = column + C_FURTHER + c_width(value) <= C_PAGE;
  call c;
  if (strstr(value, " | ") != NULL && !fits) {
    c_print_blanks(out, column);
    tn__buf_bytes(out, s, n + 1);
    fill_flags(out, column + n + 1, column + n + 1, value);
  } else if (!fits && find_call(s, &c)) {
    print_call(out, column, &c);
  } else {
    print_line_in_two(out, column, s, n);
  }
}

/* Prints "type declarator = {". */
static void print_declarator(tn__buf *out, size_t column, const char *s,
                             size_t n) {
  const char *star = strstr(s, " *const ");
  if (column + n <= C_PAGE) {
    print_line_in_two(out, column, s, n);
    return;
  }
  size_t name = n - strlen(" =");
  while (name > 0 && s[name - 1] != ' ') --name;
  print_line_in_two(
      out, column, s,
      star != NULL && star < s + n ? (size_t)(star - s) : name - (name > 0));
}

static void print_code(tn__buf *out, size_t column, const char *s);

/* Prints "variable = value;". */
static void print_assignment(tn__buf *out, size_t column, const char *s,
                             size_t n) {
  call c;
  if (column + C_FURTHER + c_width(s + n + 1) <= C_PAGE || !find_call(s, &c)) {
    print_line_in_two(out, column, s, n);
  } else if (column + c.n_head <= C_PAGE) {
    print_call(out, column, &c);
  } else {
    print_bytes(out, column, s, n);
    print_code(out, column + C_FURTHER, s + n + 1);
  }
}

/* Prints "name<argument>,", an item of C++. */
static void print_template(tn__buf *out, size_t column, const char *s) {
  const size_t n = strcspn(s, "<") + 1;
  print_bytes(out, column, s, n);
  print_text(out, column + C_FURTHER, s + n);
}

/* Prints "#define NAME value" if it is too long. Other directives cannot be
 * broken. */
static void print_directive(tn__buf *out, const char *s) {
  static const char define[] = "#define ";
  const size_t before = sizeof define - 1;
  const size_t n = before + strcspn(s + before, " ");
  if (strncmp(s, define, before) != 0 || s[n] == '\0') {
    print_text(out, 0, s);
    return;
  }
  tn__buf_bytes(out, s, n);
  tn__buf_bytes(out, " \\\n", 3);
  print_text(out, BLOCK, s + n + 1);
}

/* Prints "explicit name(parameters) : member(value) {}" of C++. */
static void print_constructor(tn__buf *out, size_t column, const call *c) {
  const size_t n = (size_t)(c->end - c->head) + 1;
  c_print_blanks(out, column);
  tn__buf_bytes(out, c->head, c->n_head);
  if (column + n > C_PAGE) break_line(out, column + C_FURTHER);
  tn__buf_bytes(out, c->arguments, n - c->n_head);
  break_line(out, column + C_FURTHER);
  print_text(out, 0, c->end + strlen(") "));
}

/* Breaks a line of code that is too long. */
static void print_long(tn__buf *out, size_t column, const char *s) {
  const size_t n = find_assignment(s);
  call c;
  if (*s == '#') {
    print_directive(out, s);
  } else if (strncmp(s, "for (", 5) == 0 && find_call(s, &c) &&
             !ends_with(s, "{")) {
    const size_t head = (size_t)(c.end - s) + 1;
    print_bytes(out, column, s, head);
    print_code(out, column + BLOCK, s + head + 1);
  } else if (n > 0 && *s == '.') {
    print_field(out, column, s, n);
  } else if (n > 0 && s[strlen(s) - 1] == '{') {
    print_declarator(out, column, s, n);
  } else if (n > 0) {
    print_assignment(out, column, s, n);
  } else if (strstr(s, ") : ") != NULL && find_call(s, &c)) {
    print_constructor(out, column, &c);
  } else if (strncmp(s, "return (", 8) == 0 && find_call(s, &c)) {
    print_line_in_two(out, column, s, (size_t)(c.end - s) + 1);
  } else if (find_call(s, &c)) {
    print_call(out, column, &c);
  } else if (ends_with(s, ">,")) {
    print_template(out, column, s);
  } else if (strncmp(s, "extern ", 7) == 0) {
    print_line_in_two(out, column, s, (size_t)(strrchr(s, ' ') - s));
  } else {
    c_print_blanks(out, column);
    fill_flags(out, column, column + C_FURTHER, s);
  }
}

/* Prints one line of code on as many lines as it needs. */
static void print_code(tn__buf *out, size_t column, const char *s) {
  const size_t bytes = strlen(s);
  if (column + bytes <= C_PAGE || column + c_width(s) <= C_PAGE)
    print_bytes(out, column, s, bytes);
  else
    print_long(out, column, s);
}

/* ------------------------------------------------------------------- blocks */

static level *current_level(printer *p) {
  return p->depth > 0 ? &p->levels[p->depth - 1] : NULL;
}

static bool is_in_values(printer *p) {
  return p->depth > 0 && current_level(p)->values;
}

static void open_level(printer *p, const level *next, size_t items) {
  if (p->depth == MOST_LEVELS) return;
  p->levels[p->depth++] = *next;
  p->indent = items;
}

/* Prints a line that ends with an open brace. In an initialiser the brace of an
 * inner one has a line of its own. */
static void print_opening(printer *p, const char *text) {
  const bool values = ends_with(text, "= {");
  const size_t indent = p->indent;
  if (values && is_in_values(p)) {
    const size_t n = strlen(text) - strlen(" {");
    c_print_blanks(p->out, indent);
    tn__buf_bytes(p->out, text, n);
    break_line(p->out, indent + C_FURTHER);
    tn__buf_bytes(p->out, "{\n", 2);
    open_level(p, &(level){indent + C_FURTHER, indent, true, 0},
               indent + 2 * C_FURTHER);
    return;
  }
  const bool broken = values && indent + c_width(text) > C_PAGE;
  const bool inner = *text == '{' && is_in_values(p);
  print_code(p->out, indent, text);
  open_level(p, &(level){indent, indent, values || inner, 0},
             indent + (broken                              ? 2 * C_FURTHER
                       : values || inner                   ? C_FURTHER
                       : ends_with(text, "extern \"C\" {") ? 0
                                                           : BLOCK));
}

/* Adds its number after each of the items, which have one line each:
 * clang-format puts five or more short items in columns, unless a comment
 * follows each. */
static void number_items(tn__buf *out, size_t list) {
  const char *items = out->s + list;
  size_t n = 0, widest = 0;
  for (const char *s = items; *s != '\0'; s = strchr(s, '\n') + 1, ++n)
    if (c_width(s) > widest) widest = c_width(s);
  if (n < LEAST_NUMBERED || widest + strlen(" /* 999 */") > C_PAGE) return;
  tn__buf copy;
  tn__buf_init(&copy, out->env);
  tn__buf_bytes(&copy, items, out->n - list);
  out->n = list;
  const char *s = copy.failed ? "" : copy.s;
  for (size_t i = 0; *s != '\0'; ++i) {
    const size_t length = strcspn(s, "\n");
    tn__buf_bytes(out, s, length);
    c_print_blanks(out, widest - c_width(s));
    tn__buf_add(out, " /* %zu */\n", i);
    s += length + 1;
  }
  out->failed |= copy.failed;
  tn__buf_deinit(&copy);
}

/* Prints a line that begins with a closing brace. */
static void print_closing(printer *p, const char *text) {
  const level none = {0};
  const level last = p->depth > 0 ? *current_level(p) : none;
  if (last.list > 0 && !p->out->failed) number_items(p->out, last.list);
  print_text(p->out, last.brace, text);
  p->indent = last.outer;
  if (p->depth > 0) --p->depth;
}

static void print_line(printer *p, const char *text, bool list) {
  if (*text == '}') {
    print_closing(p, text);
    if (ends_with(text, "= {"))
      open_level(p, &(level){p->indent, p->indent, true, 0},
                 p->indent + C_FURTHER);
  } else if (ends_with(text, "{")) {
    print_opening(p, text);
    if (list && p->depth > 0) current_level(p)->list = p->out->n;
  } else {
    print_code(p->out, *text == '#' ? 0 : p->indent, text);
  }
}

/* -------------------------------------------------------------------- files */

static void print_part(printer *p, const c_file *file, const c_part *part) {
  const char *text = file->words.s + part->at;
  switch (part->kind) {
    case C_LINE:
    case C_LIST:
      print_line(p, text, part->kind == C_LIST);
      break;
    case C_LITERAL:
      c_print_literal(p->out, p->indent, text, text + strlen(text) + 1);
      break;
    case C_COMMENT:
      c_print_comment(p->out, p->indent, text, text + strlen(text) + 1);
      break;
    case C_SECTION:
      c_print_section(p->out, text);
      break;
    case C_BYTES:
      c_print_bytes(p->out, p->indent, text, part->n);
      break;
  }
}

static bool is_blank(const c_file *file, const c_part *part) {
  return part->kind == C_LINE && file->words.s[part->at] == '\0';
}

void c_print(const c_file *file, tn__buf *out) {
  const c_part *parts = (const c_part *)(const void *)file->parts.s;
  const size_t n = file->failed ? 0 : file->parts.n / sizeof *parts;
  printer p = {.out = out};
  bool promise = file->has_long;
  out->failed |= file->failed;
  for (size_t i = 0; i < n; ++i) {
    const c_part *part = &parts[i];
    const bool section = part->kind == C_SECTION;
    p.blank |= section || is_blank(file, part);
    if (is_blank(file, part)) continue;
    if (p.blank && out->n > 0) tn__buf_bytes(out, "\n", 1);
    print_part(&p, file, part);
    p.blank = section;
    if (promise && part->kind == C_COMMENT) {
      tn__buf_add(out,
                  "#pragma GCC diagnostic ignored \"-Woverlength-strings\"\n");
      promise = false;
    }
  }
}
