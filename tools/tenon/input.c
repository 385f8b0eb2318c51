/* SPDX-License-Identifier: Apache-2.0
 * input.c: a word of the command line becomes an array: a literal, a generator,
 * a file or standard input, with a type before it or without.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tenon_tool.h"

static const char *const endings[] = {".npy", ".npz", ".safetensors"};
enum { N_ENDINGS = sizeof endings / sizeof endings[0] };

/* --------------------------------------------------------------- file names */

/* The `:` after a known ending, or NULL. */
static char *colon_after_ending(char *word) {
  for (size_t i = 0; i < N_ENDINGS; ++i) {
    char *at = strstr(word, endings[i]);
    const size_t n = strlen(endings[i]);
    if (at && at[n] == ':') return at + n;
  }
  return NULL;
}

/* Splits "f.npz:name" at the first `:` that the name of an existing file
 * precedes. Returns the name of the array, or NULL. */
static char *split_name(char *word) {
  if (access(word, F_OK) == 0) return NULL;
  for (char *at = strchr(word, ':'); at; at = strchr(at + 1, ':')) {
    *at = '\0';
    if (access(word, F_OK) == 0) return at + 1;
    *at = ':';
  }
  char *at = colon_after_ending(word);
  if (!at) return NULL;
  *at = '\0';
  return at + 1;
}

static bool ends_as_file(const char *word) {
  for (size_t i = 0; i < N_ENDINGS; ++i) {
    const char *at = strstr(word, endings[i]);
    const size_t n = strlen(endings[i]);
    if (at && (!at[n] || at[n] == ':')) return true;
  }
  return false;
}

bool input_is_bundle(const char *path) {
  const size_t n = strlen(path);
  for (size_t i = 0; i < N_ENDINGS; ++i) {
    const size_t m = strlen(endings[i]);
    if (n > m && !strcmp(path + n - m, endings[i])) return true;
  }
  return false;
}

/* -------------------------------------------------------------------- files */

/* A file: its path, its name in messages, and its word after the `@`. */
typedef struct source {
  const char *path;
  const char *shown;
  const char *word;
} source;

/* The failure of the library, in which `shown` replaces the file's path. */
static bool fail_file(text *why, const char *path, const char *shown) {
  const char *message = tn_error_text();
  const size_t n = strlen(path);
  if (!strncmp(message, path, n))
    return report_failure(why, "%s%s", shown, message + n);
  return report_failure(why, "%s", message);
}

/* A file of several arrays, of which none was named. */
static bool fail_several(const tn_bundle *file, const source *from, text *why) {
  enum { MOST = 8 };
  const size_t n = tn_bundle_size(file);
  tn_bundle_entry entry = {0};
  text names = {0};
  for (size_t i = 0; i < n && i < MOST && !tn_bundle_at(file, i, &entry); ++i)
    text_add(&names, "%s%s", i ? ", " : "", entry.name);
  if (n > MOST) text_add(&names, ", ...");
  if (n && !tn_bundle_at(file, 0, &entry))
    report_failure(why,
                   "%s holds %zu arrays; name one of them, such as @%s:%s (%s)",
                   from->shown, n, from->word, entry.name, text_get(&names));
  else
    report_failure(why, "%s holds no array", from->shown);
  text_deinit(&names);
  return false;
}

static bool read_array(input_reader *r, const source *from, const char *name,
                       tn_array **out) {
  tn_bundle *file = NULL;
  bool ok = !tn_bundle_open(r->rt, from->path, &file);
  if (ok && !name && tn_bundle_size(file) != 1)
    ok = fail_several(file, from, r->why);
  else if (!ok || tn_bundle_get(file, name, 0, out))
    ok = fail_file(r->why, from->path, from->shown);
  tn_bundle_close(file);
  return ok;
}

static bool read_piped(input_reader *r, const char *name, tn_array **out) {
  if (!r->piped) r->piped = scratch_stdin(r->why);
  const source from = {r->piped, "standard input", "-"};
  return r->piped && read_array(r, &from, name, out);
}

/* The word without its `@`. */
static bool read_file(input_reader *r, const char *word, tn_array **out) {
  if (!*word)
    return report_failure(
        r->why,
        "`@` is not followed by the name of a file; write @x.npy, "
        "@x.npz:name, or @- for standard input");
  if (!strcmp(word, "-")) return read_piped(r, NULL, out);
  if (!strncmp(word, "-:", 2)) return read_piped(r, word + 2, out);
  char *path = strdup(word);
  if (!path) return report_failure(r->why, "out of memory");
  const char *name = split_name(path);
  const source from = {path, path, path};
  const bool ok = read_array(r, &from, name, out);
  free(path);
  return ok;
}

/* --------------------------------------------------------------- conversion */

/* Converts an array of a file; `meant`: the word itself has the type. */
static bool convert_array(input_reader *r, const char *word, bool meant,
                          tn_array **array) {
  const tn_dtype from = tn_array_tensor(*array)->dtype;
  tn_array *cast = NULL;
  if (from == r->dtype) return true;
  if (dtype_is_float(from) && !dtype_is_float(r->dtype) && !meant)
    return report_failure(
        r->why,
        "%s has elements of type %s, and --dtype %s would cut off "
        "their fractions; write %s:%s if you want that, or give the "
        "type to another input alone, such as %s:[1,2]",
        word + 1, dtype_name(from), dtype_name(r->dtype), dtype_name(r->dtype),
        word, dtype_name(r->dtype));
  if (tn_array_cast(*array, r->dtype, &cast)) return fail_library(r->why);
  tn_array_release(*array);
  *array = cast;
  return true;
}

/* -------------------------------------------------------------------- words */

static bool read_written(input_reader *r, const char *word, tn_array **out) {
  const input_options options = {r->dtype, &r->seed};
  tensor t;
  bool ok = generate_matches(word) ? generate_parse(word, &options, &t, r->why)
                                   : literal_parse(word, r->dtype, &t, r->why);
  if (!ok && (ends_as_file(word) || access(word, F_OK) == 0))
    report_failure(
        r->why,
        "`%s` is neither a number nor a list; did you mean the file, @%s?",
        word, word);
  if (!ok) return false;
  ok = tensor_to_array(&t, r->rt, out, r->why);
  tensor_deinit(&t);
  return ok;
}

/* Length of "f16" in "f16:[1,2]", or 0. */
static size_t type_length(const char *word, tn_dtype *out) {
  char name[8] = {0};
  const size_t n = strcspn(word, ":");
  if (!word[n] || n >= sizeof name) return 0;
  memcpy(name, word, n);
  *out = dtype_from_name(name);
  return *out == TN_DTYPE_UNKNOWN ? 0 : n;
}

static bool read_word(input_reader *r, const char *word, bool meant,
                      tn_array **out) {
  if (*word != '@') return read_written(r, word, out);
  if (!read_file(r, word + 1, out)) return false;
  return !(r->converts || meant) || convert_array(r, word, meant, out);
}

bool input_read(input_reader *r, const char *word, tn_array **out) {
  const tn_dtype kept = r->dtype;
  tn_dtype dtype = kept;
  const size_t n = type_length(word, &dtype);
  *out = NULL;
  if (n) r->dtype = dtype;
  const bool ok = read_word(r, word + (n ? n + 1 : 0), n > 0, out);
  r->dtype = kept;
  return ok;
}

void input_reader_deinit(input_reader *r) {
  scratch_remove(r->piped);
  r->piped = NULL;
}
