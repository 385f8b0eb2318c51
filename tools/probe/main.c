/* SPDX-License-Identifier: Apache-2.0
 * main.c: tenon-probe MANIFEST, or `tenon-probe -` for a text on its input.
 * Loads it without starting another probe, runs every example, and reports it
 * in records (core/base/child.h): TNM_PROBE_RUN before each example, and
 * TNM_PROBE_FAIL where one fails. Its status is 0 in both cases. A verdict
 * without the END record tells the host that this process died.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "child.h"
#include "probe.h"
#include "tenon/define.h"

enum { MOST_TEXT = 1 << 20 };

static tn__answer answer;

static int report_failure(tn_code code, const char *text) {
  char record[6000];
  const int n = snprintf(record, sizeof record, "%d %s", (int)code, text);
  const size_t most = sizeof record - 1;
  (void)tn__answer_add(&answer, TNM_PROBE_FAIL, record,
                       n > 0 && (size_t)n < most ? (size_t)n : most);
  return 0;
}

/* A signal that ends this process has to be seen outside: no sanitizer and no
 * library handles it. */
static void reset_signals(void) {
  static const int deadly[] = {SIGSEGV, SIGBUS,  SIGILL,
                               SIGFPE,  SIGABRT, SIGSYS};
  for (size_t i = 0; i < sizeof deadly / sizeof *deadly; ++i)
    (void)signal(deadly[i], SIG_DFL);
}

/* Reads the input as a string; the caller frees it. */
static char *read_input(void) {
  char *text = calloc(MOST_TEXT + 1, 1);
  size_t n = 0;
  ssize_t got = 1;
  while (text && got > 0 && n < MOST_TEXT) {
    got = pread(0, text + n, MOST_TEXT - n, (off_t)n);
    if (got > 0) n += (size_t)got;
  }
  return text;
}

/* ---------------------------------------------------------------- operators */

/* Where examples come from, for messages. */
typedef struct source {
  const char *name;   /* of the manifest */
  const char *plugin; /* that it describes */
} source;

static void fail_example(tn_code rc, const source *from, const probe_case *c) {
  char text[5000];
  (void)snprintf(text, sizeof text, "%s: example `%s` of %s.%s: %s", from->name,
                 c->example->name, from->plugin, c->desc->name,
                 c->why[0] ? c->why : tn_error_text());
  (void)report_failure(rc, text);
}

static tn_code run_example(tn_runtime *rt, const source *from, const tn_op *op,
                           const tnm_example *example) {
  char name[256], line[256];
  probe_case c = {.rt = rt, .desc = op, .example = example};
  (void)snprintf(name, sizeof name, "%s.%s@%u", from->plugin, op->name,
                 op->interface);
  const int n = snprintf(line, sizeof line, "%s.%s %s", from->plugin, op->name,
                         example->name);
  if (n > 0 && (size_t)n < sizeof line)
    (void)tn__answer_add(&answer, TNM_PROBE_RUN, line, (size_t)n);
  tn_code rc = tn_operator_get(rt, name, &c.op);
  /* Runs twice: the guarded memory is alternately after and before the
   * operands. */
  for (int turn = 0; turn < 2 && !rc; ++turn) rc = probe_example(&c);
  if (rc) fail_example(rc, from, &c);
  return rc;
}

static tn_code run_examples(tn_runtime *rt, const char *name,
                            const tnm_plugin *manifest) {
  const source from = {name, manifest->plugin->name};
  tn_code rc = TN_OK;
  for (size_t i = 0; i < manifest->n_operators && !rc; ++i) {
    const tnm_operator *op = &manifest->operators[i];
    for (size_t k = 0; op->binding && k < op->n_examples && !rc; ++k)
      rc = run_example(rt, &from, op->op, &op->examples[k]);
  }
  return rc;
}

static tn_code load_manifest(tn_runtime *rt, const tnm_origin *from) {
  if (from->path) return tn_plugin_load(rt, from->path);
  return tn_operator_define(rt, from->text.text, NULL, NULL);
}

static int probe_functions(const tnm_origin *from) {
  const tn_options options = {
      .struct_size = sizeof options,
      .trust = TN_TRUST_BINDINGS | TN_TRUST_REPLACE | TNM_TRUST_PROBE,
      .engine = TN_ENGINE_NAIVE,
      .workers = 1};
  tn_runtime *rt = NULL;
  tnm_plugin *manifest = NULL;
  tn_code rc = tn_runtime_create(&options, &rt);
  if (!rc) rc = load_manifest(rt, from);
  if (rc) return report_failure(rc, tn_error_text());
  rc = tn_manifest_module.read(NULL, from, NULL, &manifest);
  if (rc) return report_failure(rc, "the manifest can be read no more");
  /* Ending the runtime would run no code of the library. */
  (void)run_examples(rt, from->path ? from->path : from->text.path, manifest);
  return 0;
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fputs("tenon-probe is started by libtenon\n", stderr);
    return 2;
  }
  reset_signals();
  if (!tn__contain_program(&answer)) return 1;
  tnm_origin from = {.path = argv[1]};
  if (!strcmp(argv[1], "-")) {
    char *text = read_input();
    if (!text) return 1;
    from = (tnm_origin){.text = {.plugin = "host",
                                 .path = "(manifest)",
                                 .text = text,
                                 .n = strlen(text)}};
  }
  (void)probe_functions(&from);
  _exit(tn__answer_end(&answer) ? 0 : 1);
}
