/* SPDX-License-Identifier: Apache-2.0
 * probe.c: runs the examples of a manifest in a separate process. Only a call
 * can show whether a prototype is right, and a wrong one may do anything. So
 * tenon-probe makes the first calls: it reports each call before it makes it,
 * and the end. The host only reads the reports, even if the process dies.
 *
 * The reports are records (child.h): PROBE_RUN before each call, then END or
 * PROBE_FAIL. The texts are "OPERATOR EXAMPLE" and "CODE REASON".
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
#include "child.h"

/* Contents of the records. */
typedef struct verdict {
  char running[160]; /* "axpy doc", the last call that began; or "" */
  tn__buf text;      /* the reason of a failure */
  tn_code code;      /* of a failure */
  bool failed;
} verdict;

static void read_record(void *ctx, const tn__child_record *record) {
  verdict *v = ctx;
  char *text = NULL;
  if (record->kind == TNM_PROBE_RUN)
    (void)snprintf(v->running, sizeof v->running, "%s",
                   record->n < sizeof v->running ? record->text : "");
  if (record->kind != TNM_PROBE_FAIL || v->failed) return;
  v->failed = true;
  v->code = (tn_code)strtol(record->text, &text, 10);
  tn__buf_add(&v->text, "%s", text + (*text == ' '));
}

/* ---------------------------------------------------------------- messages */

/* Prints "in example `doc` of axpy". */
static void add_place(const verdict *v, char *to, size_t n) {
  const char *blank = strchr(v->running, ' ');
  if (blank)
    (void)snprintf(to, n, "in example `%s` of %.*s", blank + 1,
                   (int)(blank - v->running), v->running);
  else
    (void)snprintf(to, n, "before the first example");
}

static tn_code fail_examples(const tnm_probe *how, const verdict *v,
                             const tn__child_end *end) {
  static const char advice[] =
      "compare `binding: args` with the prototype in the library's header";
  char place[256];
  const char *name = tn__origin_name(how->from);
  add_place(v, place, sizeof place);
  if (end->status == TN__CHILD_LEFT)
    return tn__fail(TN_PLUGIN,
                    "%s: its examples were tried in a process of their own, "
                    "and left another one, which was ended; %s",
                    name, advice);
  if (end->flooded || end->foreign)
    return tn__fail(TN_PLUGIN,
                    "%s: its examples were tried in a process of their own, "
                    "and something wrote on a file of this process %s; %s",
                    name, place, advice);
  if (end->late)
    return tn__fail(TN_PLUGIN,
                    "%s: its examples were tried in a process of their own and "
                    "did not end within %u second%s, %s; %s, or raise "
                    "tn_options.probe_seconds",
                    name, how->seconds, how->seconds == 1 ? "" : "s", place,
                    advice);
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

static tn_code judge_end(const tnm_probe *how, const verdict *v,
                         const tn__child_end *end) {
  if (v->text.failed) return tn__fail_memory(v->text.n, "a verdict");
  if (end->complete && v->failed)
    return tn__fail(v->code < 0 && v->code >= TN_INTERNAL ? v->code : TN_PLUGIN,
                    "%s", v->text.s);
  if (end->complete && end->signal == 0 && end->status <= 0) return TN_OK;
  return fail_examples(how, v, end);
}

/* ------------------------------------------------------------------- running
 */

/* Looks in the folder of plugins of an installation, or next to the library in
 * a build folder. `to` has PATH_MAX bytes. */
static tn_code find_program(const tnm_probe *how, char *to) {
  static const char *const places[] = {"tenon-probe", "tenon/tenon-probe"};
  for (size_t i = 2; i-- > 0;) {
    const int n = snprintf(to, PATH_MAX, "%s/%s", how->folder, places[i]);
    if (n < 0 || n >= PATH_MAX)
      return tn__fail(TN_UNSUPPORTED, "%s: the name of this folder is too long",
                      how->folder);
    if (access(to, X_OK) == 0) return TN_OK;
  }
  return tn__fail(TN_PLUGIN,
                  "%s/%s: is not installed, so the function of a binding "
                  "cannot be tried before it is called; install it, or allow "
                  "calls without it (TN_TRUST_BINDINGS)",
                  how->folder, places[1]);
}

/* Passes a text as a file without a name. */
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

/* Runs the program; `input` is the text that it reads, or -1. */
static tn_code run_examples(const tnm_probe *how, int input, verdict *v) {
  const tnm_origin *from = how->from;
  char program[PATH_MAX], self[] = "tenon-probe", text[] = "-";
  char *path = from->path ? tn__strdup(how->env, from->path) : NULL;
  if (from->path && !path)
    return tn__fail_memory(strlen(from->path), "a command");
  char *argv[] = {self, path ? path : text, NULL};
  const tn__child child = {.env = how->env,
                           .program = program,
                           .argv = argv,
                           .input = input,
                           .take = read_record,
                           .ctx = v,
                           .milliseconds = 1000 * (int64_t)how->seconds};
  tn__child_end end = {0};
  tn_code rc = find_program(how, program);
  if (!rc) rc = tn__child_run(&child, &end);
  if (!rc) rc = judge_end(how, v, &end);
  tn__free(how->env, path);
  return rc;
}

tn_code tn__probe_manifest(const tnm_probe *how) {
  verdict v = {.code = TN_PLUGIN};
  int input = -1;
  if (!how->from->path) TN__TRY(open_text(&how->from->text, &input));
  tn__buf_init(&v.text, how->env);
  tn_code rc = run_examples(how, input, &v);
  tn__buf_deinit(&v.text);
  if (input >= 0) (void)close(input);
  return rc;
}
