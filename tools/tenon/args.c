/* SPDX-License-Identifier: Apache-2.0
 * args.c: a command line becomes words and options. One table lists the
 * options; help, parsing and "did you mean" all read it.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tenon_tool.h"

static const struct {
  const char *name;
  uint32_t bit;
  const char *value; /* name of its value in the help, or NULL */
  const char *help;
} options[] = {
    {"--grad", OPTION_GRAD, NULL,
     "then run backward with ones; print the gradients of the inputs"},
    {"--dtype", OPTION_DTYPE, "TYPE",
     "type of the inputs (default f32; files keep theirs)"},
    {"--seed", OPTION_SEED, "N", "where random numbers begin (default 0)"},
    {"--full", OPTION_FULL, NULL, "print every element of large arrays"},
    {"--out", OPTION_OUT, "FILE",
     "write the results to a .npy, .npz or .safetensors instead"},
    {"--out", OPTION_RECORDS, "FILE.rec",
     "pack: the file of records; FILE.idx gets its index"},
    {"--list", OPTION_LIST, "FILE",
     "pack: the files with their labels, one a line"},
    {"--suffix", OPTION_SUFFIX, "TEXT",
     "pack: only files that end so: .jpg; may be given several times"},
    {"--parts", OPTION_PARTS, "N", "pack: write N files: FILE_0.rec, ..."},
    {"--shuffle", OPTION_SHUFFLE, NULL,
     "pack: in a random order, which depends on --seed only"},
    {"--profile", OPTION_PROFILE, NULL, "print the time of each operator too"},
    {"--trace", OPTION_TRACE, "FILE",
     "write what ran when, for chrome://tracing and Perfetto"},
    {"--state", OPTION_STATE, NULL,
     "then print the state of the runtime as JSON on stderr"},
    {"--shape", OPTION_SHAPE, "NAME=TYPE[D,...]",
     "of a variable: data=f32[32,?]; may be given several times"},
    {"--pass", OPTION_PASS, "NAME",
     "rewrite the graph first; may be given several times"},
    {"--group", OPTION_GROUP, "NAME=DEVICE",
     "where a group of nodes runs: left=cpu(1); may be given several times"},
    {"--train", OPTION_TRAIN, NULL,
     "plan: with the gradients of all arguments; run: as in training"},
    {"--train", OPTION_TRAINING, NULL,
     "call it as in training: statistics change, dropout drops"},
    {"--dot", OPTION_DOT, NULL, "print the graph for Graphviz"},
    {"--svg", OPTION_SVG, "FILE", "write a picture as well"},
    {"--why", OPTION_WHY, NULL,
     "say why: which kernel is asked when, what is not fused"},
    {"--plugin", OPTION_PLUGIN, "FILE",
     "load this plugin too; may be given several times"},
    {"--json", OPTION_JSON, NULL, "print one JSON document"},
    {"--help", OPTION_HELP, NULL, "print this text"},
};

enum {
  N_OPTIONS = sizeof options / sizeof options[0],
  MAX_NAME = 32,
  MAX_PARTS = 1000
};

/* ------------------------------------------------------------ did you mean */

/* Number of insertions, deletions, replacements and exchanges of neighbours
 * that turn a into b; neither is longer than MAX_NAME. */
static size_t edit_distance(const char *a, const char *b) {
  size_t rows[3][MAX_NAME + 1]; /* of the last two characters of a, and now */
  const size_t n = strlen(b);
  for (size_t j = 0; j <= n; ++j) rows[0][j] = j;
  size_t i = 1;
  for (; a[i - 1]; ++i) {
    const size_t *before = rows[(i + 1) % 3];
    const size_t *last = rows[(i - 1) % 3];
    size_t *row = rows[i % 3];
    row[0] = i;
    for (size_t j = 1; j <= n; ++j) {
      size_t best = last[j - 1] + (a[i - 1] != b[j - 1]);
      if (last[j] + 1 < best) best = last[j] + 1;
      if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
          before[j - 2] + 1 < best)
        best = before[j - 2] + 1;
      row[j] = best;
    }
  }
  return rows[(i - 1) % 3][n];
}

const char *did_you_mean(const char *word, const char *const *names, size_t n) {
  const char *nearest = NULL;
  /* Farther is a different word. Dashes are equal anyway: they do not count. */
  size_t least = strlen(word + strspn(word, "-")) / 3 + 2;
  if (strlen(word) > MAX_NAME) return NULL;
  for (size_t i = 0; i < n; ++i) {
    if (strlen(names[i]) > MAX_NAME) continue;
    size_t d = edit_distance(word, names[i]);
    if (d < least) {
      least = d;
      nearest = names[i];
    }
  }
  return nearest;
}

/* ----------------------------------------------------------------- options */

static bool unknown_option(uint32_t allowed, const char *name, text *why) {
  const char *names[N_OPTIONS];
  size_t n = 0;
  for (size_t i = 0; i < N_OPTIONS; ++i)
    if (options[i].bit & allowed) names[n++] = options[i].name;
  const char *meant = did_you_mean(name, names, n);
  if (meant)
    return report_failure(why, "unknown option %s; did you mean %s?", name,
                          meant);
  return report_failure(
      why, "unknown option %s; --help lists those of this command", name);
}

/* A number from `least` to `most`. */
typedef struct range {
  const char *option;
  uint64_t least;
  uint64_t most;
} range;

static bool set_number(const range *r, const char *value, uint64_t *out,
                       text *why) {
  char *end = NULL;
  errno = 0;
  *out = strtoull(value, &end, 10);
  if (isdigit((unsigned char)*value) && !*end && !errno && *out >= r->least &&
      *out <= r->most)
    return true;
  return report_failure(
      why, "%s wants a number from %" PRIu64 " to %" PRIu64 ", not `%s`",
      r->option, r->least, r->most, value);
}

static bool set_dtype(arguments *out, const char *value, text *why) {
  out->dtype = dtype_from_name(value);
  if (out->dtype != TN_DTYPE_UNKNOWN) return true;
  dtype_fail(value, why);
  return report_failure(why, "--dtype: %s", text_get(why));
}

static bool set_option(uint32_t bit, const char *value, arguments *out,
                       text *why) {
  out->given |= bit;
  switch (bit) {
    case OPTION_SEED:
      return set_number(&(range){"--seed", 0, UINT64_MAX}, value, &out->seed,
                        why);
    case OPTION_PARTS:
      return set_number(&(range){"--parts", 1, MAX_PARTS}, value, &out->n_parts,
                        why);
    case OPTION_LIST:
      out->list = value;
      return true;
    case OPTION_SUFFIX:
      out->suffixes[out->n_suffixes++] = value;
      return true;
    case OPTION_DTYPE:
      return set_dtype(out, value, why);
    case OPTION_PLUGIN:
      out->plugins[out->n_plugins++] = value;
      return true;
    case OPTION_TRACE:
      out->trace = value;
      return true;
    case OPTION_OUT:
    case OPTION_RECORDS:
      out->out = value;
      return true;
    case OPTION_SVG:
      out->svg = value;
      return true;
    case OPTION_SHAPE:
      out->shapes[out->n_shapes++] = value;
      return true;
    case OPTION_PASS:
      out->passes[out->n_passes++] = value;
      return true;
    case OPTION_GROUP:
      out->groups[out->n_groups++] = value;
      return true;
    default:
      return true;
  }
}

/* Reads the option at **argv and its value, the next word or the text after
 * `=`. Leaves *argv at the last word that it used. */
static bool parse_option(uint32_t allowed, char *const **argv, arguments *out,
                         text *why) {
  char name[MAX_NAME + 1] = {0};
  const char *word = **argv;
  const size_t n = strcspn(word, "=");
  const char *value = word[n] ? word + n + 1 : NULL;
  memcpy(name, word, n < MAX_NAME ? n : MAX_NAME);
  if (!strcmp(name, "-h")) memcpy(name, "--help", sizeof "--help");
  for (size_t i = 0; i < N_OPTIONS; ++i) {
    if (!(options[i].bit & allowed) || strcmp(options[i].name, name) != 0)
      continue;
    if (!options[i].value && value)
      return report_failure(why, "%s takes no value", name);
    if (options[i].value && !value) value = *++*argv;
    if (options[i].value && !value)
      return report_failure(why, "%s wants %s behind it", name,
                            options[i].value);
    return set_option(options[i].bit, value, out, why);
  }
  return unknown_option(allowed, name, why);
}

/* A dash before a number or `inf` is a sign. */
static bool is_option(const char *word) {
  return word[0] == '-' && word[1] && !isdigit((unsigned char)word[1]) &&
         word[1] != '.' && strcmp(word, "-inf") != 0;
}

static bool parse_all(uint32_t allowed, char *const *argv, arguments *out,
                      text *why) {
  bool only_words = false; /* after a `--` */
  for (; *argv; ++argv) {
    if (only_words || !is_option(*argv)) {
      out->words[out->n_words++] = *argv;
    } else if (!strcmp(*argv, "--")) {
      only_words = true;
    } else if (!parse_option(allowed, &argv, out, why)) {
      return false;
    }
  }
  return true;
}

bool args_parse(uint32_t allowed, char *const *argv, arguments *out,
                text *why) {
  size_t n = 0;
  while (argv[n]) ++n;
  *out = (arguments){.dtype = TN_F32};
  out->words = (const char **)calloc(6 * n + 1, sizeof *out->words);
  if (!out->words) return report_failure(why, "out of memory");
  out->plugins = out->words + n;
  out->shapes = out->plugins + n;
  out->passes = out->shapes + n;
  out->groups = out->passes + n;
  out->suffixes = out->groups + n;
  if (parse_all(allowed, argv, out, why)) return true;
  args_deinit(out);
  return false;
}

void args_deinit(arguments *args) {
  free(args->words); /* with all other lists in the same block */
  *args = (arguments){0};
}

void args_help(uint32_t allowed, text *out) {
  table rows = {.n_columns = 2};
  for (size_t i = 0; i < N_OPTIONS; ++i) {
    if (!(options[i].bit & allowed)) continue;
    table_add(&rows, "%s%s%s", options[i].name, options[i].value ? " " : "",
              options[i].value ? options[i].value : "");
    table_add(&rows, "%s", options[i].help);
  }
  table_print(&rows, "  ", out);
}

/* Names that the value is one of, as members of a list. */
static void add_choices(uint32_t bit, text *out) {
  text names = {0};
  if (bit != OPTION_DTYPE) return;
  dtype_set_add(&names, UINT64_MAX);
  for (char *at = names.data, *end; at; at = end) {
    end = strchr(at, ' ');
    if (end) *end++ = '\0';
    if (at != names.data) text_add(out, ", ");
    text_add_json(out, at);
  }
  text_deinit(&names);
}

void args_help_json(uint32_t allowed, text *out) {
  const char *separator = "";
  for (size_t i = 0; i < N_OPTIONS; ++i) {
    if (!(options[i].bit & allowed)) continue;
    text_add(out, "%s{\"name\": ", separator);
    text_add_json(out, options[i].name);
    text_add(out, ", \"value\": ");
    text_add_json(out, options[i].value);
    text_add(out, ", \"help\": ");
    text_add_json(out, options[i].help);
    text_add(out, ", \"choices\": [");
    add_choices(options[i].bit, out);
    text_add(out, "]}");
    separator = ", ";
  }
}
