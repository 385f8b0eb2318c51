/* SPDX-License-Identifier: Apache-2.0
 * yaml_error.c: rewrites the messages of libyaml: its "token" becomes a
 * character that the author sees, and every mistake gets a help line.
 */
#include "yaml_error.h"

#include <string.h>

/* A message of libyaml, and its meaning for an author. */
typedef struct rewrite {
  const char *problem; /* a part of libyaml's text */
  const char *code;
  const char *text;
  const char *help;
} rewrite;

static const rewrite rewrites[] = {
    {"could not find expected ':'", "E0004", "key without `:`",
     "write `key: value`; put longer text in quotes or after `|`"},
    {"did not find expected ',' or '}'", "E0004",
     "`,` or `}` is missing before this",
     "a value that holds `,`, `:` or `}` needs double quotes"},
    {"did not find expected ',' or ']'", "E0004",
     "`,` or `]` is missing before this",
     "a value that holds `,`, `:` or `]` needs double quotes"},
    {"did not find expected '-' indicator", "E0004",
     "this does not line up with the list",
     "begin each item with `- ` in the same column"},
    {"did not find expected key", "E0004",
     "this does not line up with the keys before it",
     "give all keys of a mapping the same indent"},
    {"block sequence entries are not allowed", "E0004",
     "a list cannot begin here",
     "begin it on the next line, or put the text in quotes"},
    {"found unexpected end of stream", "E0004", "the quote is never closed",
     "add the closing quote"},
    {"found unexpected document indicator", "E0004",
     "the quote is not closed before `---`", "add the closing quote"},
    {"found unknown escape character", "E0004",
     "unknown escape in double quotes",
     "write `\\\\` for a backslash, or use single quotes"},
    {"did not find expected hexdecimal number", "E0004",
     "the escape lacks hexadecimal digits",
     "write `\\\\` for a backslash, or use single quotes"},
    {"invalid Unicode character", "E0004", "the escape is no character",
     "write `\\\\` for a backslash, or use single quotes"},
    {"while scanning an alias", "E0005", "manifests have no aliases",
     "write the value out; a pack is written `S...`"},
    {"while scanning an anchor", "E0005", "manifests have no anchors",
     "put text that begins with `&` in quotes"},
    {"tag", "E0005", "manifests have no tags",
     "put text that begins with `!` in quotes"},
    {"directive", "E0005", "manifests have no `%` directives",
     "remove the line"},
    {"did not find expected <document start>", "E0004",
     "a second value follows the first",
     "a manifest is one mapping; begin another one after `---`"},
    {"did not find expected node content", "E0004", "a value is missing here",
     "write the value, or remove the `,`"},
    {"block scalar", "E0004", "this block of text is not indented properly",
     "indent every line of the text deeper than its key"},
};

/* Tests whether `text` is not NULL and contains `part`. */
static bool contains_text(const char *text, const char *part) {
  return text != NULL && strstr(text, part) != NULL;
}

/* Returns our message for the problem that libyaml reports; NULL if there is
 * none. */
static const rewrite *find_known_problem(const yaml_parser_t *parser) {
  for (size_t i = 0; i < sizeof rewrites / sizeof *rewrites; ++i) {
    if (contains_text(parser->problem, rewrites[i].problem) ||
        contains_text(parser->context, rewrites[i].problem))
      return &rewrites[i];
  }
  return NULL;
}

/* Returns the text from a position to the end of its line; *n is its number of
 * bytes. */
static const char *get_rest_of_line(const tnm_diags *diags, tnm_pos pos,
                                    size_t *n) {
  const char *text = tnm_diags_get_text(diags, pos.file, n);
  const char *end = text + *n;
  for (uint32_t line = 1; line < pos.line && text < end; ++text) {
    if (*text == '\n') ++line;
  }
  uint32_t c;
  for (uint32_t i = 1; i < pos.column && text < end; ++i)
    text += tnm_decode_utf8(text, (size_t)(end - text), &c);
  const char *stop = memchr(text, '\n', (size_t)(end - text));
  *n = (size_t)((stop == NULL ? end : stop) - text);
  return text;
}

/* One operand of `a ? b : c`, without the blanks around it. */
typedef struct part {
  const char *text;
  int n;
} part;

/* Returns the text in [from, to) without the blanks around it. */
static part trim_part(const char *from, const char *to) {
  while (from < to && *from == ' ') ++from;
  while (to > from && (to[-1] == ' ' || to[-1] == '\r')) --to;
  return (part){from, (int)(to - from)};
}

/* Adds a help line for `a ? b : c`, which YAML reads as a key, if the line
 * contains it. `colon` is the position of its `:`; the condition `a` follows
 * the `:` of the key on the same line. Returns false if it is something else.
 */
static bool add_select_help(tnm_diags *diags, size_t id, tnm_pos colon) {
  size_t n;
  tnm_pos start = {colon.line, 1, 1, colon.file};
  const char *line = get_rest_of_line(diags, start, &n);
  const char *end = line + n;
  const char *at = get_rest_of_line(diags, colon, &n);
  const char *mark = memchr(line, '?', (size_t)(at - line));
  if (mark == NULL) return false;
  const char *from = mark;
  while (from > line &&
         !(from[-1] == ' ' && from >= line + 2 && from[-2] == ':'))
    --from;
  const char *stop = at + 1;
  while (stop < end && *stop != '}' && *stop != ',' && *stop != '#') ++stop;
  part condition = trim_part(from, mark);
  part yes = trim_part(mark + 1, at);
  part no = trim_part(at + 1, stop);
  tnm_diag_add_help(diags, id,
                    "the expression language has no `? :`; write `select(%.*s, "
                    "%.*s, %.*s)`",
                    condition.n, condition.text, yes.n, yes.text, no.n,
                    no.text);
  return true;
}

/* The key of a line, which may follow the `- ` of list items; n bytes. */
typedef struct line_key {
  const char *key;
  int n;
  tnm_pos pos; /* position of the key */
} line_key;

/* Finds the key of a line. Returns false if the line does not begin with a
 * single word and a colon. */
static bool find_line_key(const tnm_diags *diags, uint32_t file, uint32_t line,
                          line_key *out) {
  static const char word[] =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  size_t n;
  tnm_pos pos = {line, 1, 1, file};
  const char *text = get_rest_of_line(diags, pos, &n);
  const char *end = text + n, *at = text;
  while (at < end &&
         (*at == ' ' || (*at == '-' && at + 1 < end && at[1] == ' ')))
    ++at;
  const char *key = at;
  while (at < end && strchr(word, *at) != NULL) ++at;
  pos.column = (uint32_t)(key - text) + 1;
  pos.length = (uint32_t)(at - key);
  *out = (line_key){key, (int)(at - key), pos};
  return at > key && at < end && *at == ':';
}

/* Reports a key that is indented deeper than the key on the line above, so that
 * YAML reads it as a part of the value above. Returns false if the colon at
 * `colon` does not belong to such a key. */
static bool report_deeper_key(tnm_diags *diags, tnm_pos colon) {
  line_key key, above = {0};
  if (!find_line_key(diags, colon.file, colon.line, &key) ||
      key.pos.column + key.pos.length != colon.column)
    return false;
  uint32_t line = colon.line - 1;
  while (line > 0 && !find_line_key(diags, colon.file, line, &above)) --line;
  if (line == 0 || above.pos.column >= key.pos.column) return false;
  tnm_diag_spec spec = {"E0004", key.pos, "read as more of its value"};
  size_t id =
      tnm_diag_add(diags, &spec, "`%.*s` is indented deeper than `%.*s`", key.n,
                   key.key, above.n, above.key);
  tnm_diag_add_place(diags, id, above.pos, "the key above");
  tnm_diag_add_help(diags, id, "indent it as the key above");
  return true;
}

/* Reports a colon within a value, which ends the value. */
static void report_misplaced_colon(tnm_diags *diags, tnm_pos pos) {
  tnm_diag_spec spec = {"E0004", pos, "read as a mapping"};
  size_t id = tnm_diag_add(diags, &spec, "`:` ends this YAML value");
  if (!add_select_help(diags, id, pos))
    tnm_diag_add_help(diags, id,
                      "put a value that holds `: ` in double quotes");
}

/* Reports a value that begins with a character that YAML reserves. */
static void report_bad_first_character(tnm_diags *diags, tnm_pos pos,
                                       uint32_t c) {
  tnm_diag_spec spec = {"E0004", pos, NULL};
  size_t id =
      tnm_diag_add(diags, &spec, "`%c` cannot begin a YAML value", (char)c);
  tnm_diag_add_help(diags, id, "put the value in double quotes");
}

/* Returns a position of libyaml as a position in a file. */
static tnm_pos convert_position(uint32_t file, yaml_mark_t mark) {
  return (tnm_pos){.line = (uint32_t)mark.line + 1,
                   .column = (uint32_t)mark.column + 1,
                   .length = 1,
                   .file = file};
}

/* Tests whether the error of the parser is an unclosed bracket or quote. The
 * message then points to the opening one. */
static bool is_unclosed_bracket(const yaml_parser_t *parser) {
  return contains_text(parser->problem, "could not find expected ':'") ||
         contains_text(parser->context, "quoted scalar");
}

/* Tests whether a `[` or `{` on an earlier line is not closed. Then the content
 * of the current line is not the mistake. */
static bool is_bracket_of_earlier_line(const yaml_parser_t *parser) {
  return contains_text(parser->problem, "did not find expected ',' or") &&
         parser->context_mark.line < parser->problem_mark.line;
}

/* Returns `pos`, or the position after the last character of the file if `pos`
 * is on a later line. libyaml may report the line after the last one. */
static tnm_pos move_into_text(const tnm_diags *diags, tnm_pos pos) {
  size_t n;
  uint32_t line = 1, column = 1, c;
  const char *text = tnm_diags_get_text(diags, pos.file, &n);
  for (const char *s = text, *end = text + n; s < end;) {
    const size_t bytes = tnm_decode_utf8(s, (size_t)(end - s), &c);
    column = *s == '\n' ? 1 : column + 1;
    line += *s == '\n';
    s += bytes > 0 ? bytes : 1;
  }
  if (pos.line > line) {
    pos.line = line;
    pos.column = column;
  }
  return pos;
}

/* Adds a help line if the error is a missing bracket: "add `]` at the end of
 * line 3", or "add `]` before this" if a bracket of another kind is at the
 * position of the error. Returns false if no bracket is missing. */
static bool add_bracket_help(tnm_diags *diags, size_t id, tnm_pos pos,
                             const yaml_parser_t *parser) {
  const char missing = contains_text(parser->problem, "'}'") ? '}' : ']';
  size_t n;
  const char *text = get_rest_of_line(diags, pos, &n);
  if (!contains_text(parser->problem, "did not find expected ',' or"))
    return false;
  if (is_bracket_of_earlier_line(parser)) {
    const uint32_t noticed = (uint32_t)parser->problem_mark.line + 1;
    tnm_diag_add_place(diags, id,
                       convert_position(pos.file, parser->context_mark),
                       "opened here");
    tnm_diag_add_help(diags, id, "add `%c` at the end of line %u", missing,
                      (unsigned)(noticed > pos.line ? pos.line : pos.line - 1));
    return true;
  }
  if (n == 0 || (text[0] != '}' && text[0] != ']')) return false;
  tnm_diag_add_help(diags, id, "add `%c` before this", missing);
  return true;
}

/* Reports the problem of libyaml at `pos`, in our words if it is a known one.
 */
static void report_known_problem(tnm_diags *diags, tnm_pos pos,
                                 const yaml_parser_t *parser) {
  const rewrite *known = find_known_problem(parser);
  tnm_diag_spec spec = {known == NULL ? "E0004" : known->code, pos, NULL};
  size_t id =
      tnm_diag_add(diags, &spec, "%s",
                   known == NULL ? "this is not valid YAML" : known->text);
  if (!add_bracket_help(diags, id, pos, parser) && known != NULL)
    tnm_diag_add_help(diags, id, "%s", known->help);
}

void tnm_report_yaml_error(tnm_diags *diags, uint32_t file,
                           const yaml_parser_t *parser) {
  bool open = is_unclosed_bracket(parser);
  tnm_pos pos = convert_position(
      file, open ? parser->context_mark : parser->problem_mark);
  pos = move_into_text(diags, pos);
  size_t n;
  const char *text = get_rest_of_line(diags, pos, &n);
  bool colon = contains_text(parser->problem, "did not find expected ',' or") &&
               n > 0 && text[0] == ':' && !is_bracket_of_earlier_line(parser);
  const bool block =
      contains_text(parser->problem, "mapping values are not allowed");
  if (block && report_deeper_key(diags, pos)) return;
  if (colon || block)
    report_misplaced_colon(diags, pos);
  else if (contains_text(parser->problem, "cannot start any token") && n > 0)
    report_bad_first_character(diags, pos, (unsigned char)text[0]);
  else
    report_known_problem(diags, pos, parser);
}
