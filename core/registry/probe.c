/* SPDX-License-Identifier: Apache-2.0
 * probe.c: the examples of a manifest, in a process of their own. Nothing can
 * tell whether a prototype is right but a call, and a wrong one may do
 * anything: so the first calls are made by tenon-probe, which says what it is
 * about to do, and at last that it is done. Whatever it dies of, the host only
 * reads.
 *
 * What it says, on descriptor 3: "run OP EXAMPLE\n" before each call; then
 * "done\n", or "fail CODE\n" and the text up to the end.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bound.h"

/* What was heard. Texts lie inside of what was said. */
typedef struct verdict {
  char running[160]; /* "axpy doc", the last that was begun; or "" */
  const char *text;  /* behind "fail CODE", or NULL */
  tn_code code;
  bool done;
} verdict;

static void take_line(verdict *v, const char *line, const char *end) {
  const size_t n = (size_t)(end - line);
  if (n > 4 && !strncmp(line, "run ", 4)) {
    const size_t length = n - 4 < sizeof v->running ? n - 4 : 0;
    memcpy(v->running, line + 4, length);
    v->running[length] = 0;
  }
  if (n == 4 && !strncmp(line, "done", 4)) v->done = true;
  if (n > 5 && !strncmp(line, "fail ", 5)) {
    v->code = (tn_code)strtol(line + 5, NULL, 10);
    v->text = end + 1;
  }
}

static void take_said(verdict *v, const tn__buf *said) {
  const char *line = said->s ? said->s : "";
  for (const char *end = strchr(line, '\n'); end && !v->text;
       end = strchr(line, '\n')) {
    take_line(v, line, end);
    line = end + 1;
  }
}

/* ---------------------------------------------------------------- messages */

static const char *origin_name(const tnm_origin *from) {
  return from->path ? from->path : from->text.path;
}

/* "in example `doc` of axpy" */
static void add_place(const verdict *v, char *to, size_t n) {
  const char *blank = strchr(v->running, ' ');
  if (blank)
    (void)snprintf(to, n, "in example `%s` of %.*s", blank + 1,
                   (int)(blank - v->running), v->running);
  else
    (void)snprintf(to, n, "before the first example");
}

static tn_code refuse(const tn__registry *registry, const tnm_origin *from,
                      const verdict *v, const tn__child_end *end) {
  static const char advice[] =
      "compare `binding: args` with the prototype in the library's header";
  char place[256];
  const char *name = origin_name(from);
  add_place(v, place, sizeof place);
  if (end->late)
    return tn__fail(TN_PLUGIN,
                    "%s: its examples were tried in a process of their own and "
                    "did not end within %u second%s, %s; %s, or raise "
                    "tn_options.probe_seconds",
                    name, registry->probe_seconds,
                    registry->probe_seconds == 1 ? "" : "s", place, advice);
  if (end->signal)
    return tn__fail(TN_PLUGIN,
                    "%s: its examples were tried in a process of their own, "
                    "which died of SIG%s (%s) %s; %s",
                    name, sigabbrev_np(end->signal), strsignal(end->signal),
                    place, advice);
  return tn__fail(TN_PLUGIN,
                  "%s: its examples were tried in a process of their own, "
                  "which ended with status %d %s, without having finished; %s",
                  name, end->status, place, advice);
}

static tn_code judge(const tn__registry *registry, const tnm_origin *from,
                     const tn__buf *said, const tn__child_end *end) {
  verdict v = {.code = TN_PLUGIN};
  take_said(&v, said);
  if (v.text && !end->late && !end->signal)
    return tn__fail(v.code < 0 && v.code >= TN_INTERNAL ? v.code : TN_PLUGIN,
                    "%s", v.text);
  if (v.done && !end->late && !end->signal && end->status <= 0) return TN_OK;
  return refuse(registry, from, &v, end);
}

/* ------------------------------------------------------------------- running
 */

/* In the folder of plugins of an installation; beside the library in a build
 * folder. */
static tn_code find_program(const tn__registry *registry, char *to) {
  static const char *const places[] = {"tenon/tenon-probe", "tenon-probe"};
  for (size_t i = 0; i < 2; ++i) {
    TN__TRY(tn__helper_path(registry, places[i], to));
    if (access(to, X_OK) == 0) return TN_OK;
  }
  TN__TRY(tn__helper_path(registry, places[0], to));
  return tn__fail(TN_PLUGIN,
                  "%s: is not installed, so the function of a binding cannot "
                  "be tried before it is called; install it, or allow calls "
                  "without it (TN_TRUST_BINDINGS)",
                  to);
}

/* A text is handed over as a file without a name. */
static tn_code open_text(const tnm_text *text, int *out) {
  size_t written = 0;
  const int low = memfd_create("manifest", MFD_CLOEXEC);
  *out = low < 0 ? -1 : fcntl(low, F_DUPFD_CLOEXEC, 10);
  if (low >= 0) (void)close(low);
  while (*out >= 0 && written < text->n) {
    const ssize_t n =
        pwrite(*out, text->text + written, text->n - written, (off_t)written);
    if (n <= 0) break;
    written += (size_t)n;
  }
  if (*out >= 0 && written == text->n) return TN_OK;
  if (*out >= 0) (void)close(*out);
  return tn__fail(TN_IO, "%s: cannot be handed over: %s", text->path,
                  strerror(errno));
}

/* `input` is the text that the program reads, or -1. */
static tn_code run(const tn__registry *registry, const tnm_origin *from,
                   int input, tn__buf *said) {
  char program[PATH_MAX], self[] = "tenon-probe", text[] = "-";
  char *path = from->path ? tn__strdup(registry->env, from->path) : NULL;
  if (from->path && !path)
    return tn__fail_memory(strlen(from->path), "a command");
  char *argv[] = {self, path ? path : text, NULL};
  const tn__child child = {
      .program = program,
      .argv = argv,
      .input = input,
      .milliseconds = 1000 * (int64_t)registry->probe_seconds};
  tn__child_end end = {0};
  tn_code rc = find_program(registry, program);
  if (!rc) rc = tn__child_run(&child, said, &end);
  if (!rc && said->failed) rc = tn__fail_memory(said->n, "a verdict");
  if (!rc) rc = judge(registry, from, said, &end);
  tn__free(registry->env, path);
  return rc;
}

tn_code tn__probe(tn__registry *registry, const tnm_origin *from) {
  tn__buf said;
  int input = -1;
  if (!from->path) TN__TRY(open_text(&from->text, &input));
  tn__buf_init(&said, registry->env);
  tn_code rc = run(registry, from, input, &said);
  tn__buf_deinit(&said);
  if (input >= 0) (void)close(input);
  return rc;
}
