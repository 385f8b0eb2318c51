/* SPDX-License-Identifier: Apache-2.0
 * scalar.c: reads one scalar: numbers, words, names, types. The schema has
 * already checked that it is a scalar; this file reads or refuses its text.
 */
#include "front.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Reports a value that is not `expected`. Returns the message's id. */
static size_t report_bad_value(tnm_diags *diags, const tnm_tree *node,
                               const char *expected) {
  tnm_diag_spec spec = {"E0014", node->pos, NULL};
  if (node->kind != TNM_SCALAR)
    return tnm_diag_add(diags, &spec, "invalid value: expected %s", expected);
  return tnm_diag_add(diags, &spec, "invalid value `%.80s`: expected %s",
                      node->text, expected);
}

/* ------------------------------------------------------------------ numbers */

static bool is_whole_number(const char *text) {
  const char *digits = text + (text[0] == '-' || text[0] == '+');
  return digits[0] != '\0' && strspn(digits, "0123456789") == strlen(digits);
}

bool tnm_parse_int(const char *text, int64_t *out) {
  if (!is_whole_number(text)) return false;
  errno = 0;
  *out = strtoll(text, NULL, 10);
  return errno == 0;
}

/* Tests whether a text is a number for strtod but not in a manifest:
 * hexadecimal, "infinity" or "nan(...)". */
static bool is_special_number(const char *text) {
  const char *word = text + (text[0] == '-' || text[0] == '+');
  return strcmp(word, "inf") == 0 || strcmp(word, "nan") == 0;
}

/* Reads a double; one that is too large becomes infinity. Returns false if the
 * text is no number. */
static bool read_double(const char *text, double *out) {
  bool decimal = strspn(text, "+-.0123456789eE") == strlen(text);
  if (text[0] == '\0' || !(decimal || is_special_number(text))) return false;
  char *end;
  return tn__read_double(text, &end, out) == TN_OK && *end == '\0' &&
         end != text;
}

bool tnm_parse_double(const char *text, double *out) {
  return read_double(text, out) && (is_special_number(text) || isfinite(*out));
}

const char *tnm_expected_int(const char *text) {
  return is_whole_number(text) ? "a whole number of 64 bits" : "a whole number";
}

const char *tnm_expected_double(const char *text) {
  double value;
  return read_double(text, &value) ? "a number of 64 bits, at most 1.79e308"
                                   : "a number";
}

bool tnm_read_int(tnm_diags *diags, const tnm_tree *node, int64_t min,
                  int64_t max, int64_t *out) {
  if (node->kind == TNM_SCALAR && tnm_parse_int(node->text, out) &&
      *out >= min && *out <= max)
    return true;
  char expected[96];
  if (min == INT64_MIN && max == INT64_MAX)
    snprintf(expected, sizeof expected, "a whole number of 64 bits");
  else
    snprintf(expected, sizeof expected,
             "a whole number from %" PRId64 " to %" PRId64, min, max);
  report_bad_value(diags, node, expected);
  return false;
}

bool tnm_read_u32(tnm_diags *diags, const tnm_tree *node, uint32_t min,
                  uint32_t *out) {
  int64_t value;
  if (!tnm_read_int(diags, node, min, INT32_MAX, &value)) return false;
  *out = (uint32_t)value;
  return true;
}

bool tnm_read_double(tnm_diags *diags, const tnm_tree *node, double *out) {
  if (node->kind == TNM_SCALAR && tnm_parse_double(node->text, out))
    return true;
  report_bad_value(
      diags, node,
      node->kind == TNM_SCALAR ? tnm_expected_double(node->text) : "a number");
  return false;
}

bool tnm_read_bool(tnm_diags *diags, const tnm_tree *node, bool *out) {
  if (node->kind == TNM_SCALAR) {
    *out = strcmp(node->text, "true") == 0;
    if (*out || strcmp(node->text, "false") == 0) return true;
  }
  report_bad_value(diags, node, "true or false");
  return false;
}

/* -------------------------------------------------------------------- words */

/* Prints words as "data, a, b", at most as many as are easy to read. */
static void join_words(char *out, size_t size, const char *const *words,
                       size_t n) {
  size_t used = 0;
  out[0] = '\0';
  for (size_t i = 0; i < n && used < size; ++i)
    used += (size_t)snprintf(out + used, size - used, "%s%s", i > 0 ? ", " : "",
                             words[i]);
}

/* Returns the candidate that other programs call `word`; NULL if there is none.
 */
static const char *find_foreign_synonym(const char *word,
                                        const char *const *candidates,
                                        size_t n) {
  static const char *const usual[][2] = {{"gpu", "cuda"},
                                         {"nvidia", "cuda"},
                                         {"device", "cuda"},
                                         {"host", "cpu"},
                                         {"x86", "cpu"}};
  for (size_t i = 0; i < sizeof usual / sizeof *usual; ++i)
    for (size_t k = 0; k < n; ++k)
      if (strcasecmp(word, usual[i][0]) == 0 &&
          strcmp(candidates[k], usual[i][1]) == 0)
        return candidates[k];
  return NULL;
}

void tnm_suggest_word(tnm_diags *diags, size_t id, const char *word,
                      const char *const *candidates, size_t n) {
  const char *near = find_foreign_synonym(word, candidates, n);
  if (near == NULL) near = tn__find_nearest_word(word, candidates, n);
  char list[512];
  if (near != NULL) {
    tnm_diag_add_help(diags, id, "did you mean `%s`?", near);
    return;
  }
  if (n == 0) return;
  join_words(list, sizeof list, candidates, n);
  tnm_diag_add_help(diags, id, "known here: %s", list);
}

int tnm_read_word(tnm_diags *diags, const tnm_tree *node, const char *what,
                  const char *const *words) {
  size_t n = 0;
  for (; words[n] != NULL; ++n) {
    if (node->kind == TNM_SCALAR && strcmp(node->text, words[n]) == 0)
      return (int)n;
  }
  size_t id = report_bad_value(diags, node, what);
  tnm_suggest_word(diags, id, node->kind == TNM_SCALAR ? node->text : "", words,
                   n);
  return -1;
}

/* Returns the manifest's name of a type that other programs call `word`; NULL
 * if there is none. */
static const char *find_dtype_synonym(const char *word) {
  static const char *const names[][2] = {{"float16", "f16"},
                                         {"half", "f16"},
                                         {"bfloat16", "bf16"},
                                         {"float32", "f32"},
                                         {"float", "f32"},
                                         {"float64", "f64"},
                                         {"double", "f64"},
                                         {"int8", "i8"},
                                         {"int16", "i16"},
                                         {"int32", "i32"},
                                         {"int", "i32"},
                                         {"int64", "i64"},
                                         {"long", "i64"},
                                         {"uint8", "u8"},
                                         {"uint16", "u16"},
                                         {"uint32", "u32"},
                                         {"uint64", "u64"},
                                         {"boolean", "bool"},
                                         {"int4", "i4"},
                                         {"uint4", "u4"},
                                         {"int2", "i2"},
                                         {"uint2", "u2"},
                                         {"float8_e4m3fn", "f8e4m3fn"},
                                         {"float8_e4m3fnuz", "f8e4m3fnuz"},
                                         {"float8_e5m2", "f8e5m2"},
                                         {"float8_e5m2fnuz", "f8e5m2fnuz"},
                                         {"float8_e8m0fnu", "f8e8m0"},
                                         {"float4_e2m1fn", "f4e2m1"}};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
    if (strcmp(word, names[i][0]) == 0) return names[i][1];
  return NULL;
}

void tnm_suggest_dtype(tnm_diags *diags, size_t id, const char *word) {
  const char *names[TN__N_DTYPES];
  tn__dtype_list_names(names);
  tnm_suggest_word(diags, id, word, names, TN__N_DTYPES);
}

bool tnm_read_dtype(tnm_diags *diags, const tnm_tree *node, tn_dtype *out) {
  if (node->kind == TNM_SCALAR && tn__dtype_parse(node->text, out)) return true;
  const char *word = node->kind == TNM_SCALAR ? node->text : "";
  tnm_diag_spec spec = {"E0023", node->pos, "no such type"};
  size_t id = tnm_diag_add(diags, &spec, "unknown type `%.80s`", word);
  const char *usual = find_dtype_synonym(word);
  if (usual != NULL)
    tnm_diag_add_help(diags, id, "did you mean `%s`?", usual);
  else
    tnm_suggest_dtype(diags, id, word);
  return false;
}

bool tnm_read_dtypes(tnm_diags *diags, const tnm_tree *list, uint64_t *out) {
  *out = 0;
  if (list->kind != TNM_LIST || list->n == 0) {
    tnm_diag_spec spec = {"E0013", list->pos, NULL};
    size_t id = tnm_diag_add(diags, &spec, "expected a list of types");
    tnm_diag_add_help(diags, id, "write `[f32, f64]`");
    return false;
  }
  bool ok = true;
  for (const tnm_tree *item = list->first; item != NULL; item = item->next) {
    tn_dtype dtype;
    if (!tnm_read_dtype(diags, item, &dtype)) {
      ok = false;
      continue;
    }
    if (*out & tn__dtype_bit(dtype)) {
      tnm_diag_spec spec = {"E0016", item->pos, "second time"};
      size_t id =
          tnm_diag_add(diags, &spec, "type `%s` is listed twice", item->text);
      tnm_diag_add_help(diags, id, "take it out");
    }
    *out |= tn__dtype_bit(dtype);
  }
  return ok;
}

/* -------------------------------------------------------------------- names */

bool tnm_check_scalar(tnm_diags *diags, const tnm_tree *node,
                      const char *what) {
  if (node->kind == TNM_SCALAR && node->text[0] != '\0') return true;
  tnm_diag_spec spec = {"E0013", node->pos, NULL};
  tnm_diag_add(diags, &spec, "expected %s", what);
  return false;
}

bool tnm_read_line(tnm_diags *diags, const tnm_tree *node) {
  if (!tnm_check_scalar(diags, node, "an expression")) return false;
  if (node->one_line && strchr(node->text, '\n') == NULL) return true;
  tnm_diag_spec spec = {"E0013", node->pos, "begins here"};
  size_t id = tnm_diag_add(diags, &spec, "an expression must be on one line");
  tnm_diag_add_help(diags, id, "write it after its key, in quotes if need be");
  return false;
}

/* Words that no name may be: keywords of C and C++, and words of the expression
 * language. `shape` and `size` are allowed: they are functions only before a
 * parenthesis, and many operators have parameters with these names. */
static const char *const reserved[] = {
    "abs",       "alignas",  "alignof",   "and",      "asm",      "auto",
    "bool",      "break",    "case",      "catch",    "ceil",     "char",
    "class",     "const",    "constexpr", "continue", "default",  "delete",
    "do",        "double",   "else",      "enum",     "erf",      "exp",
    "explicit",  "export",   "extern",    "false",    "float",    "floor",
    "for",       "friend",   "goto",      "grad",     "has",      "if",
    "inline",    "int",      "log",       "long",     "max",      "min",
    "mutable",   "name",     "namespace", "new",      "noexcept", "not",
    "nullptr",   "operator", "or",        "params",   "pow",      "private",
    "protected", "public",   "rank",      "register", "restrict", "return",
    "rsqrt",     "select",   "short",     "sigmoid",  "sign",     "signed",
    "sizeof",    "sqrt",     "static",    "struct",   "switch",   "tanh",
    "template",  "this",     "throw",     "tol",      "true",     "try",
    "typedef",   "typename", "union",     "unsigned", "using",    "virtual",
    "void",      "volatile", "while",     "xor"};

/* Further words that no name may be, with a blank around each: the other
 * keywords, and names of types and macros in C headers. */
static const char reserved_too[] =
    " and_eq bitand bitor char16_t char32_t char8_t co_await co_return "
    "co_yield compl concept const_cast consteval constinit decltype "
    "dynamic_cast errno int16_t int32_t int64_t int8_t linux not_eq or_eq "
    "reinterpret_cast requires size_t static_assert static_cast "
    "thread_local typeid typeof uint16_t uint32_t uint64_t uint8_t "
    "uintptr_t unix wchar_t xor_eq ";

/* Tests whether a name is a keyword of C or C++, or has a meaning in
 * expressions. */
static bool is_reserved(const char *name) {
  char word[TNM_MAX_NAME + 3];
  for (size_t i = 0; i < sizeof reserved / sizeof *reserved; ++i) {
    if (strcmp(reserved[i], name) == 0) return true;
  }
  const int n = snprintf(word, sizeof word, " %s ", name);
  return n < (int)sizeof word && strstr(reserved_too, word) != NULL;
}

/* Reports an invalid name. `format` is the rule, `what` the kind of the named
 * thing. Returns the message's id. */
static size_t report_bad_name(tnm_diags *diags, const tnm_tree *node,
                              const char *format, const char *what) {
  char text[160];
  snprintf(text, sizeof text, format, what);
  tnm_diag_spec spec = {"E0015", node->pos, NULL};
  return tnm_diag_add(diags, &spec, "`%.80s` %s", node->text, text);
}

/* Tests whether a text is short enough for a name, begins with a character of
 * `first`, and has only characters of `rest`. */
static bool is_short_word_of_characters(const char *text, const char *first,
                                        const char *rest) {
  return text[0] != '\0' && strchr(first, text[0]) != NULL &&
         strspn(text, rest) == strlen(text) && strlen(text) <= TNM_MAX_NAME;
}

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

bool tnm_read_name(tnm_diags *diags, const tnm_tree *node, const char *what) {
  if (!tnm_check_scalar(diags, node, "a name")) return false;
  if (strcmp(node->text, "tn") == 0 || strncmp(node->text, "tn_", 3) == 0) {
    size_t id =
        report_bad_name(diags, node, "is reserved and cannot name %s", what);
    tnm_diag_add_help(diags, id, "names in C that begin with `tn_` are ours");
    return false;
  }
  if (is_short_word_of_characters(node->text, LOWER, LOWER DIGITS "_"))
    return true;
  size_t id = report_bad_name(diags, node, "cannot be the name of %s", what);
  tnm_diag_add_help(
      diags, id,
      "use lower-case letters, digits and `_`, a letter first, at "
      "most %d",
      TNM_MAX_NAME);
  return false;
}

/* Tests whether a text is words of lower-case letters and digits, with one
 * space or hyphen between two words. */
static bool is_family(const char *text) {
  const char *at = text;
  if (strlen(text) > TNM_MAX_FAMILY || strspn(text, LOWER) == 0) return false;
  for (;; ++at) {
    const size_t n = strspn(at, LOWER DIGITS);
    if (n == 0) return false;
    at += n;
    if (*at != ' ' && *at != '-') return *at == '\0';
  }
}

bool tnm_read_family(tnm_diags *diags, const tnm_tree *node) {
  if (!tnm_check_scalar(diags, node, "a family")) return false;
  if (is_family(node->text)) return true;
  size_t id = report_bad_name(diags, node, "cannot be %s", "a family");
  tnm_diag_add_help(diags, id,
                    "use words of lower-case letters and digits, a letter "
                    "first, at most %d characters: `linear algebra`",
                    TNM_MAX_FAMILY);
  return false;
}

bool tnm_read_member_name(tnm_diags *diags, const tnm_tree *node,
                          const char *what) {
  if (!tnm_read_name(diags, node, what)) return false;
  if (!is_reserved(node->text)) return true;
  size_t id =
      report_bad_name(diags, node, "is reserved and cannot name %s", what);
  tnm_diag_add_help(diags, id,
                    "keywords of C and C++ and the words of expressions and "
                    "examples are taken");
  return false;
}

/* Tests whether a name is that of a C library function, like `free`. An
 * author's function cannot have it, because it would have another prototype
 * than the library's function. */
static bool is_library_function(const char *name) {
  static const char *const names[] = {"abort",  "calloc", "exit",   "free",
                                      "main",   "malloc", "memcpy", "memmove",
                                      "memset", "realloc"};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
    if (strcmp(names[i], name) == 0) return true;
  return false;
}

bool tnm_read_symbol(tnm_diags *diags, const tnm_tree *node) {
  if (!tnm_check_scalar(diags, node, "a C name")) return false;
  if (is_library_function(node->text)) {
    const size_t id = report_bad_name(diags, node, "is a function of %s", "C");
    tnm_diag_add_help(
        diags, id,
        "its prototype is another: write a function of your own that "
        "calls it");
    return false;
  }
  bool word = is_short_word_of_characters(node->text, LOWER UPPER "_",
                                          LOWER UPPER DIGITS "_");
  if (word && strncmp(node->text, "tn_", 3) != 0 && !is_reserved(node->text))
    return true;
  size_t id = report_bad_name(diags, node, "cannot be a C name of %s", "yours");
  tnm_diag_add_help(
      diags, id,
      "use an identifier that begins with the plugin's name; `tn_` "
      "is ours");
  return false;
}
