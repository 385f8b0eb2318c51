/* SPDX-License-Identifier: Apache-2.0
 * data_pack.c: `tenon data pack`: files with labels become files of records.
 * All of them get their names at the end; a signal to end removes them.
 */
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "data_set.h"

/* ------------------------------------------------------------------ signals */

enum { N_SIGNALS = 3 };
static const int signals[N_SIGNALS] = {SIGINT, SIGTERM, SIGHUP};
static volatile sig_atomic_t is_interrupted;

static void note_signal(int number) {
  (void)number;
  is_interrupted = 1;
}

/* A reading that waits, such as of a FIFO, ends at once. */
static void catch_signals(struct sigaction *before) {
  struct sigaction action = {.sa_handler = note_signal};
  (void)sigemptyset(&action.sa_mask);
  for (int i = 0; i < N_SIGNALS; ++i) {
    (void)sigaction(signals[i], NULL, &before[i]);
    if (before[i].sa_handler != SIG_IGN)
      (void)sigaction(signals[i], &action, NULL);
  }
}

static void restore_signals(const struct sigaction *before) {
  for (int i = 0; i < N_SIGNALS; ++i)
    (void)sigaction(signals[i], &before[i], NULL);
}

/* -------------------------------------------------------------------- parts */

/* A file of records that is written. */
typedef struct part {
  text path;
  text index;
  tn_record_writer *writer;
  size_t begin; /* its examples, up to `end` */
  size_t end;
  uint64_t bytes; /* of the packed files */
} part;

typedef struct packer {
  tn_runtime *rt;
  const arguments *args;
  examples all;
  part *parts;
  size_t n_parts;
  text content; /* of one file */
  text *why;
} packer;

static const char records_suffix[] = ".rec";

/* Length of the name without its suffix. */
static size_t stem_length(const char *path) {
  return strlen(path) - (sizeof records_suffix - 1);
}

static bool name_part(packer *p, size_t i) {
  const char *path = p->args->out;
  const int stem = (int)stem_length(path);
  part *each = &p->parts[i];
  text number = {0};
  if (p->n_parts > 1) text_add(&number, "_%zu", i);
  text_add(&each->path, "%.*s%s.rec", stem, path, text_get(&number));
  text_add(&each->index, "%.*s%s.idx", stem, path, text_get(&number));
  const bool ok = !each->path.failed && !each->index.failed && !number.failed;
  text_deinit(&number);
  each->begin = p->all.n * i / p->n_parts;
  each->end = p->all.n * (i + 1) / p->n_parts;
  return ok || report_failure(p->why, "out of memory");
}

static bool read_file(packer *p, const char *path) {
  p->content.n = 0;
  if (!scratch_read(path, &p->content, p->why))
    return report_failure(p->why, "%s; nothing was written", text_get(p->why));
  return !p->content.failed ||
         report_failure(p->why, "%s: does not fit into the memory", path);
}

static bool pack_example(packer *p, part *to, const example *e) {
  if (!read_file(p, e->path)) return false;
  const float *labels = p->all.labels + e->first_label;
  tn_record_header header = {
      .id = e->id, .data = text_get(&p->content), .bytes = p->content.n};
  if (e->n_labels == 1) {
    header.label = labels[0];
  } else {
    header.n_labels = (uint32_t)e->n_labels;
    header.labels = labels;
  }
  if (tn_record_write_labelled(to->writer, e->id, &header))
    return report_failure(p->why, "%s: %s", e->path, tn_error_text());
  to->bytes += p->content.n;
  return true;
}

static bool pack_part(packer *p, part *to) {
  if (tn_record_writer_create(p->rt, text_get(&to->path), text_get(&to->index),
                              &to->writer))
    return fail_library(p->why);
  for (size_t i = to->begin; i < to->end; ++i)
    if (is_interrupted || !pack_example(p, to, &p->all.list[i])) return false;
  return true;
}

static bool finish_parts(packer *p) {
  for (size_t i = 0; i < p->n_parts; ++i)
    if (tn_record_writer_finish(p->parts[i].writer))
      return fail_library(p->why);
  return true;
}

static bool pack_all(packer *p) {
  bool ok = true;
  for (size_t i = 0; ok && i < p->n_parts; ++i) ok = name_part(p, i);
  for (size_t i = 0; ok && i < p->n_parts; ++i) ok = pack_part(p, &p->parts[i]);
  if (is_interrupted)
    return report_failure(
        p->why, "data pack: interrupted by a signal; nothing was written");
  return ok && finish_parts(p);
}

/* ------------------------------------------------------------------- output */

static void print_parts(const packer *p, text *out) {
  table rows = {.n_columns = 3};
  for (size_t i = 0; i < p->all.n_classes; ++i) {
    if (i == 0) {
      table_add(&rows, "LABEL");
      table_add(&rows, "FILES");
      table_add(&rows, "FOLDER");
    }
    table_add(&rows, "%zu", i);
    table_add(&rows, "%zu", p->all.classes[i].n);
    table_add(&rows, "%s", p->all.classes[i].folder);
  }
  for (size_t i = 0; i < p->n_parts; ++i) {
    const part *each = &p->parts[i];
    text_add(out, "%s and %s: %zu records, %" PRIu64 " bytes of files\n",
             text_get(&each->path), text_get(&each->index),
             each->end - each->begin, each->bytes);
  }
  table_print(&rows, "", out);
}

static void print_json(const packer *p, text *out) {
  text_add(out, "{\"files\": [");
  for (size_t i = 0; i < p->n_parts; ++i) {
    const part *each = &p->parts[i];
    text_add(out, "%s{\"file\": ", i ? ", " : "");
    text_add_json(out, text_get(&each->path));
    text_add(out, ", \"index\": ");
    text_add_json(out, text_get(&each->index));
    text_add(out, ", \"records\": %zu, \"bytes\": %" PRIu64 "}",
             each->end - each->begin, each->bytes);
  }
  text_add(out, "], \"classes\": [");
  for (size_t i = 0; i < p->all.n_classes; ++i) {
    text_add(out, "%s{\"label\": %zu, \"folder\": ", i ? ", " : "", i);
    text_add_json(out, p->all.classes[i].folder);
    text_add(out, ", \"records\": %zu}", p->all.classes[i].n);
  }
  text_add(out, "]}\n");
}

/* ------------------------------------------------------------------ command */

static bool check_words(const arguments *args, text *why) {
  if (args->n_words != 2)
    return report_failure(why,
                          "data pack wants one folder, such as `tenon data "
                          "pack images --out train.rec`");
  if (!args->out)
    return report_failure(why,
                          "data pack: --out FILE.rec is missing; it is the "
                          "file that is written");
  const size_t n = strlen(args->out), m = sizeof records_suffix - 1;
  if (n <= m || strcmp(args->out + n - m, records_suffix) != 0)
    return report_failure(why,
                          "--out: `%s` does not end in .rec; its index gets "
                          "the same name with .idx",
                          args->out);
  if (args->list && args->n_suffixes)
    return report_failure(why,
                          "--list names the files, and --suffix selects them "
                          "in a folder; choose one");
  if (args->given & OPTION_SEED && !(args->given & OPTION_SHUFFLE))
    return report_failure(why, "--seed is for a random order; add --shuffle");
  return true;
}

/* The next run would pack files that this one writes into the folder. */
static bool check_place(const arguments *args, text *why) {
  char folder[PATH_MAX], to[PATH_MAX];
  const char *slash = strrchr(args->out, '/');
  text parent = {0};
  if (args->list) return true;
  if (slash) text_add(&parent, "%.*s/", (int)(slash - args->out), args->out);
  const char *resolved = realpath(slash ? text_get(&parent) : ".", to);
  text_deinit(&parent);
  if (!resolved || !realpath(args->words[1], folder)) return true;
  const size_t n = strcmp(folder, "/") == 0 ? 0 : strlen(folder);
  const bool is_inside =
      !strncmp(to, folder, n) && (to[n] == '/' || to[n] == '\0');
  if (!is_inside ||
      (!examples_select(".rec", args) && !examples_select(".idx", args)))
    return true;
  return report_failure(why,
                        "--out: %s is inside of the packed folder %s, so that "
                        "the next run would pack it too; write it outside, or "
                        "select the files with --suffix",
                        args->out, args->words[1]);
}

static bool find_examples(packer *p) {
  const arguments *args = p->args;
  const char *folder = args->words[1];
  p->n_parts = args->n_parts ? (size_t)args->n_parts : 1;
  if (args->list ? !examples_read(&p->all, folder, args, p->why)
                 : !examples_find(&p->all, folder, args, p->why))
    return false;
  if (p->all.n == 0)
    return report_failure(p->why, "%s: has no file to pack%s",
                          args->list ? args->list : folder,
                          args->n_suffixes ? " that ends in a --suffix" : "");
  if (p->all.n < p->n_parts)
    return report_failure(p->why,
                          "--parts: there are %zu files for %zu parts; use at "
                          "most as many parts as files",
                          p->all.n, p->n_parts);
  if (args->given & OPTION_SHUFFLE) examples_shuffle(&p->all, args->seed);
  p->parts = calloc(p->n_parts, sizeof *p->parts);
  return p->parts || report_failure(p->why, "out of memory");
}

static void packer_deinit(packer *p) {
  for (size_t i = 0; p->parts && i < p->n_parts; ++i) {
    tn_record_writer_release(p->parts[i].writer);
    text_deinit(&p->parts[i].path);
    text_deinit(&p->parts[i].index);
  }
  free(p->parts);
  examples_deinit(&p->all);
  text_deinit(&p->content);
}

static bool pack_files(packer *p) {
  struct sigaction before[N_SIGNALS];
  host h;
  if (!host_open(&h, p->args, 1, p->why)) return false;
  p->rt = h.rt;
  catch_signals(before);
  const bool ok = pack_all(p);
  for (size_t i = 0; i < p->n_parts; ++i) {
    tn_record_writer_release(p->parts[i].writer);
    p->parts[i].writer = NULL;
  }
  restore_signals(before);
  host_close(&h);
  return ok;
}

int data_pack(const arguments *args, text *out, text *why) {
  packer p = {.args = args, .why = why};
  if (!check_words(args, why)) return STATUS_USAGE;
  const bool ok = check_place(args, why) && find_examples(&p) && pack_files(&p);
  if (ok && args->given & OPTION_JSON)
    print_json(&p, out);
  else if (ok)
    print_parts(&p, out);
  packer_deinit(&p);
  return ok ? STATUS_OK : STATUS_FAILED;
}
