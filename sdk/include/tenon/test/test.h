/* SPDX-License-Identifier: Apache-2.0
 * test.h: the tests that `opgen generate --tests` writes. The generated file
 * has the examples of the manifests as text; this header runs them through the
 * host API, as a host would. Header only, C11, on POSIX systems; one program
 * includes it once, before any other header, and calls tn_test_main. Link with
 * libtenon and the mathematical library.
 *
 *   acme_test PLUGIN.so [OTHER.so ...] [OPTION ...]
 *
 * loads the files in this order. The others have operators that gradients call,
 * or kernels for another device. It prints TAP. The exit status is 0 if nothing
 * failed, 1 if a case did, 2 if there was nothing to run. A failed case is
 *
 *   not ok 7 - acme.cube@1 doc: f32, cpu, front, write: the kernel read or ...
 *
 * operator, example, element types, device, layout and request, then the fault.
 *
 * OPTIONS
 * --seed N   draws points, layouts and output gradients; default 1. The first
 *            line prints it
 * --limit S  seconds for one case; default 10. Loading has six times as many
 * --brief    passed cases are comments, with one result for each operator;
 *            `verbose: true` in a meson.build then shows the failed ones only
 * --part K/N only every N-th operator, from number K on
 * --here     no child process, for debuggers; a crash ends the program
 *
 * RESULTS. For every operator
 * - each example runs on every device of the runtime, with every combination of
 *   element types that the operator takes, into new and given arrays, added, in
 *   place, and with outputs that are not wanted. Arrays are dense, transposed
 *   and stepped views; inputs also have repeated elements (stride 0), which
 *   must give what their dense copies give.
 * - the gradients that an example states are compared in the same way.
 * - every backward kernel is asked for all gradients, each one alone and all
 *   but one, in f16 as in f64, whether or not an example states any
 *   (test/backward.h). Inputs that the asked gradients do not need are absent,
 *   as they are when a tape watches one input only.
 * - each output is written to the memory of each input of its type and shape,
 *   each gradient to that of each output gradient, input and output, whether or
 *   not the operator allows it; the other gradients of the call are compared.
 * - gradients are compared with difference quotients (test/gradient.h).
 * - the same call is made often. The bits must be the same: twice, after a call
 *   with other numbers, and with one worker thread in place of three. Kernels
 *   without TN_KERNEL_DETERMINISTIC are not compared (test/repeat.h).
 * - with `batch_invariant: true` in the manifest, each row has the same bits
 *   alone, in its example and among hundreds of rows; elementwise kernels must
 *   give the same numbers there (test/batch.h).
 *
 * MEMORY. On the CPU each operand of a case has its own pages between two
 * inaccessible ones (test/guard.h): `dense` arrays end at the second one,
 * `front` arrays begin after the first, `shifted` ones begin one element later,
 * so that no vector is aligned. Views are at either end, by the seed. A byte
 * that changes beside the elements of an output, or between them, fails the
 * case. So does one of an input, of a state that the call may not change, or of
 * the parameters. On other devices inputs are compared in one case of four,
 * which the seed draws, and so are the repeated calls.
 *
 * PROCESS. Cases run in a child process (test/child.h). A case that ends it, or
 * its thread, or that does not end in time, has failed with the reason; the
 * next child goes on with the next case. After six such cases of one operator,
 * or two that did not end, its other cases are left out. After each case the
 * child compares its rounding mode, FTZ, DAZ and x87 control word, descriptors,
 * signal handlers and mask, locale, folder, file mode mask, environment, child
 * processes and printed output with those before (test/watch.h). Memory that
 * grows with every one of several equal calls is a leak.
 *
 * Numbers that a type cannot hold (a storage type: exactly), and gradients of
 * integers that no kernel has, are no case: a comment says which and why. A
 * case that no kernel takes (TN_UNSUPPORTED) is `ok ... # SKIP` with the
 * reason. But an element type that the manifest declares and no kernel took in
 * any example has failed, and so has an operator of which no case was computed,
 * unless it has no kernel for a device that is there; and one whose gradient
 * calls an operator that is not there. A kernel that is not written yet
 * (TN_UNIMPLEMENTED) is a `not ok` with TAP's directive for that, which does
 * not count as a failure.
 *
 * For an operator of another plugin all this is done with each kernel that the
 * tested plugin has for it, pinned, on the device of that kernel, with the
 * types that it takes (test/kernel.h). A kernel that no example made compute
 * has failed, unless its plugin withdrew it here, with a reason.
 *
 * files: test.h           tables, options, tn_test_main
 *        test/child.h     the child process and its records
 *        test/watch.h     state of the process
 *        test/guard.h     memory between inaccessible pages
 *        test/report.h    cases, verdicts, TAP
 *        test/storage.h   numbers as elements of storage types
 *        test/value.h     numbers, arrays and views of them
 *        test/subject.h   an example that was read
 *        test/call.h      one call
 *        test/backward.h  backward calls
 *        test/repeat.h    repeated calls
 *        test/batch.h     rows in batches of other sizes
 *        test/example.h   the cases of an example
 *        test/gradient.h  difference quotients
 *        test/kernel.h    kernels for operators of other plugins
 */
#ifndef TENON_TEST_TEST_H_
#define TENON_TEST_TEST_H_

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tenon/gradient.h"
#include "tenon/kernel/storage.h"
#include "tenon/tenon.h"

/* The program waits for the library most of the time: compiling it for speed
 * takes longer than it saves. */
#if defined(__OPTIMIZE__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("O1")
#endif

/* ------------------------------------------------------------------ tables */

/* One example. Operands are `name=value` with blanks between, a value being a
 * number or a nested list; an operand of which there are several has several
 * entries. NULL: none. */
typedef struct tn_test_example {
  const char *name;
  const char *place;  /* "quadratic.yaml:19" */
  const char *params; /* as tn_params_parse reads them */
  const char *inputs;
  const char *aux;
  const char *outputs;   /* expected; others are not compared */
  const char *out_grads; /* of the outputs, given */
  const char *in_grads;  /* of the inputs, expected */
  double tol;            /* 0: that of the element type */
  uint32_t flags;        /* TN_CALL_TRAIN or 0 */
} tn_test_example;

/* One operator; zero means the default. */
typedef struct tn_test_operator {
  const char *name; /* "elemwise.quadratic@1" */
  const tn_test_example *examples;
  size_t n_examples;
  const char *params; /* where no example tells them, but one of the operator
                         whose gradient this is */
  const char *skip;   /* why gradients are not compared numerically */
  uint32_t points;    /* random points per example */
  double eps;         /* step of the difference quotient */
  double tol;         /* of the comparison with it */
  uint32_t batch_invariant; /* 1: rows do not depend on their batch */
  /* Where the operator is another plugin's: ids of the kernels that are tried,
   * one after the other. */
  const char *const *kernels;
  size_t n_kernels;
} tn_test_operator;

typedef struct tn_test_plugin {
  const char *name;
  const tn_test_operator *operators;
  size_t n_operators;
} tn_test_plugin;

/* --------------------------------------------------------------- tolerances */

/* Distance allowed between a result and its expectation, as a part of the
 * larger of 1 and its magnitude. An example's `tol` replaces it; of the half
 * types the larger of both counts. */
typedef struct tn_test_type {
  tn_dtype dtype;
  const char *name;
  double tolerance;
} tn_test_type;

enum { TN_TEST_N_TYPES = 23 };
/* In the order of TN_BIT_*. */
static const tn_test_type tn_test_types[TN_TEST_N_TYPES] = {
    {TN_F16, "f16", 5e-3},
    {TN_BF16, "bf16", 4e-2},
    {TN_F32, "f32", 1e-5},
    {TN_F64, "f64", 1e-10},
    {TN_I8, "i8", 0},
    {TN_I16, "i16", 0},
    {TN_I32, "i32", 0},
    {TN_I64, "i64", 0},
    {TN_U8, "u8", 0},
    {TN_U16, "u16", 0},
    {TN_U32, "u32", 0},
    {TN_U64, "u64", 0},
    {TN_BOOL, "bool", 0},
    {TN_F8E4M3FN, "f8e4m3fn", 0},
    {TN_F8E4M3FNUZ, "f8e4m3fnuz", 0},
    {TN_F8E5M2, "f8e5m2", 0},
    {TN_F8E5M2FNUZ, "f8e5m2fnuz", 0},
    {TN_F8E8M0, "f8e8m0", 0},
    {TN_F4E2M1, "f4e2m1", 0},
    {TN_I4, "i4", 0},
    {TN_U4, "u4", 0},
    {TN_I2, "i2", 0},
    {TN_U2, "u2", 0}};

static const tn_test_type *tn_test_type_of(tn_dtype dtype) {
  static const tn_test_type unknown = {TN_DTYPE_UNKNOWN, "?", 0};
  for (int i = 0; i < TN_TEST_N_TYPES; ++i)
    if (tn_test_types[i].dtype == dtype) return &tn_test_types[i];
  return &unknown;
}

static bool tn_test_is_float(tn_dtype dtype) {
  return dtype == TN_F16 || dtype == TN_BF16 || dtype == TN_F32 ||
         dtype == TN_F64;
}

static double tn_test_tolerance(tn_dtype dtype, double tol) {
  const double usual = tn_test_type_of(dtype)->tolerance;
  const bool half = dtype == TN_F16 || dtype == TN_BF16;
  if (tol == 0 || !tn_test_is_float(dtype)) return usual;
  return half && usual > tol ? usual : tol;
}

#include "tenon/test/child.h"
#include "tenon/test/guard.h"
#include "tenon/test/watch.h"

#include "tenon/test/report.h"
#include "tenon/test/storage.h"
#include "tenon/test/value.h"

#include "tenon/test/subject.h"

#include "tenon/test/call.h"

#include "tenon/test/backward.h"

#include "tenon/test/repeat.h"

#include "tenon/test/batch.h"

#include "tenon/test/partial.h"

#include "tenon/test/example.h"
#include "tenon/test/gradient.h"
#include "tenon/test/kernel.h"

/* --------------------------------------------------------------- operators */

/* Fails for each type that the manifest declares, and that examples were tried
 * with, but that no kernel took on any device. */
static void tn_test_expect_types(tn_test *t, const tn_op *op,
                                 const tn_test_operator *which) {
  static const char *const passes[] = {"forward", "backward"};
  for (size_t at = 0; at < 2 * (size_t)op->n_dtype_vars; ++at) {
    const size_t pass = at / op->n_dtype_vars, var = at % op->n_dtype_vars;
    const uint64_t missed = t->tried[pass][var] & ~t->took[pass][var];
    for (int i = 0; i < TN_TEST_N_TYPES; ++i) {
      if ((missed >> i & 1) == 0) continue;
      (void)tn_test_begin(t, "%s: %s: %s", which->name, tn_test_types[i].name,
                          passes[pass]);
      tn_test_fail(t,
                   "`dtypes` declares %s for %s, but no %s kernel took it; the "
                   "last refusal: %s",
                   tn_test_types[i].name, op->dtype_vars[var]->name,
                   passes[pass], t->without);
    }
  }
}

/* Examples that no kernel computes prove nothing. */
static void tn_test_run_examples(tn_test *t, tn_operator *op,
                                 const tn_test_operator *which) {
  const int n = t->n - t->n_inferred, n_skipped = t->n_skipped;
  t->without[0] = '\0';
  memset(t->tried, 0, sizeof t->tried);
  memset(t->took, 0, sizeof t->took);
  t->is_batch_invariant = which->batch_invariant != 0;
  for (size_t i = 0; i < which->n_examples; ++i)
    tn_test_run_example(t, op, &which->examples[i]);
  const bool ran = t->n - t->n_inferred - n > t->n_skipped - n_skipped;
  if (which->n_examples == 0 || !tn_test_has_kernel(t, op)) return;
  if (ran) {
    tn_test_expect_types(t, tn_operator_desc(op), which);
    return;
  }
  (void)tn_test_begin(t, "%s: an example that runs", which->name);
  tn_test_fail(t,
               "none was computed with any element type on any device; the "
               "last one was not because: %s",
               t->without[0] != '\0' ? t->without : "no type is allowed");
}

/* Whether an operator's full name is one of the plugin of `op`. */
static int tn_test_is_beside(const tn_operator *op, const char *name) {
  const char *own = tn_operator_name(op);
  const size_t n = (size_t)(strchr(own, '.') - own) + 1;
  return strncmp(own, name, n) == 0;
}

/* Fails if the gradient calls an operator that no loaded plugin has. */
static void tn_test_run_calls(tn_test *t, tn_operator *op) {
  const tn_gradient *g = tn_operator_desc(op)->gradient;
  for (uint32_t i = 0; g != NULL && i < g->n_inputs; ++i) {
    for (uint32_t k = 0; k < g->inputs[i]->n_steps; ++k) {
      const tn_step *step = &g->inputs[i]->steps[k];
      tn_operator *called = NULL;
      if (step->what != TN_STEP_CALL ||
          tn_operator_get(t->rt, step->op, &called) == TN_OK)
        continue;
      (void)tn_test_begin(t, "%s: operators that its gradient calls",
                          tn_operator_name(op));
      tn_test_fail(t, "%s%s", tn_error_text(),
                   tn_test_is_beside(op, step->op)
                       ? ""
                       : "; name the plugin that has it on the command line, "
                         "before this one");
      return;
    }
  }
}

/* The cases of one operator. */
static void tn_test_run_operator(tn_test *t, const tn_test_operator *which) {
  tn_operator *op = NULL;
  (void)tn_test_begin(t, "%s", which->name);
  if (tn_operator_get(t->rt, which->name, &op) != TN_OK) {
    tn_test_fail(t, "%s%s", tn_error_text(),
                 which->n_kernels > 0 ? "; name the plugin that has it on the "
                                        "command line, before this one"
                                      : "");
    return;
  }
  tn_test_run_calls(t, op);
  for (size_t i = 0; i < which->n_kernels; ++i)
    tn_test_run_kernel(t, op, which, which->kernels[i]);
  if (which->n_kernels > 0) return;
  tn_test_run_examples(t, op, which);
  tn_test_run_gradient(t, op, which);
}

/* ------------------------------------------------------------------- child */

/* The words of the command line. */
typedef struct tn_test_words {
  int n;
  char **v;
  int n_files;
} tn_test_words;

/* Whether the word is an option; `*skip` is then how many words it has. */
static bool tn_test_is_option(const char *word, int *skip) {
  const bool has_value = strcmp(word, "--seed") == 0 ||
                         strcmp(word, "--limit") == 0 ||
                         strcmp(word, "--part") == 0;
  *skip = has_value ? 2 : 1;
  return word[0] == '-' && word[1] == '-';
}

/* Lines of the library's log become comments. */
static void tn_test_log(void *ctx, int32_t level, const char *line) {
  if (level <= TN_LOG_WARNING)
    tn_test_send((tn_test *)ctx, TN_TEST_COMMENT, line);
}

/* A runtime with the files loaded; NULL, with the error's text, if it cannot be
 * made. */
static tn_runtime *tn_test_create_runtime(tn_test *t,
                                          const tn_test_words *words,
                                          uint32_t workers) {
  const tn_options options = {.struct_size = sizeof options,
                              .trust = TN_TRUST_REPLACE,
                              .workers = workers,
                              .log = tn_test_log,
                              .log_ctx = t};
  tn_runtime *rt = NULL;
  tn_code rc = tn_runtime_create(&options, &rt);
  for (int i = 0, skip = 1; i < words->n && rc == TN_OK; i += skip) {
    if (tn_test_is_option(words->v[i], &skip)) continue;
    skip = 1;
    rc = tn_plugin_load(rt, words->v[i]);
  }
  if (rc == TN_OK) return rt;
  tn_runtime_release(rt);
  return NULL;
}

/* The cases of every operator but of those that were given up. */
static void tn_test_run_operators(tn_test *t, const tn_test_plugin *plugin) {
  const tn_test_runner *r = t->runner;
  for (size_t i = r->part; i < plugin->n_operators; i += r->n_parts) {
    const size_t group = i < TN_TEST_GROUPS ? i : TN_TEST_GROUPS - 1;
    t->group = (uint32_t)group;
    if (r->given_up[group] > 0)
      t->step = r->given_up[group];
    else
      tn_test_run_operator(t, &plugin->operators[i]);
  }
  tn_test_release(t);
}

/* The child: runs everything and says that it has. */
static void tn_test_run_child(tn_test_runner *r, const tn_child_writer *writer,
                              const tn_test_plugin *plugin,
                              const tn_test_words *words) {
  static tn_test t, other;
  t.seed = other.seed = r->seed;
  t.runner = other.runner = r;
  if (writer != NULL) t.writer = *writer;
  if (!r->is_here) tn_test_watch_deaths(&t);
  t.rt = tn_test_create_runtime(&t, words, 3);
  if (t.rt == NULL) {
    tn_test_send(&t, TN_TEST_BAIL, tn_error_text());
    return;
  }
  other.rt = tn_test_create_runtime(&t, words, 1);
  if (other.rt != NULL) t.other = &other;
  if (r->without[0] != '\0') memcpy(t.without, r->without, sizeof t.without);
  if (!r->is_here) tn_watch_empty_printed();
  tn_watch_take(&t.watch);
  tn_test_run_operators(&t, plugin);
  tn_runtime_release(other.rt);
  tn_runtime_release(t.rt);
  tn_test_send(&t, TN_TEST_END, "");
}

/* ------------------------------------------------------------------ parent */

/* Takes records until the child is gone or a case has no time left. False if
 * the bytes are no records. */
static bool tn_test_listen(tn_test_runner *r) {
  static char payload[TN_CHILD_MOST + 1];
  int64_t deadline = tn_child_now() + TN_TEST_LOADING * r->limit_ms;
  do {
    tn_child_got got = TN_CHILD_NONE;
    size_t n = 0;
    while ((got = tn_child_take(&r->child.reader, payload, &n)) ==
           TN_CHILD_RECORD) {
      if (!tn_test_take(r, payload, n)) return false;
      deadline = tn_child_now() + r->limit_ms;
    }
    if (got == TN_CHILD_BROKEN) return false;
  } while (tn_child_wait(&r->child, deadline));
  return true;
}

/* Says how the child ended, on one line. */
static void tn_test_describe_end(const tn_test_runner *r, bool was_late,
                                 bool was_broken, char *out, size_t size) {
  char how[128];
  tn_child_describe(&r->child, how, sizeof how);
  if (was_broken)
    (void)snprintf(out, size,
                   "the kernel wrote to a descriptor that is not its own: the "
                   "records of this test are damaged");
  else if (was_late)
    (void)snprintf(out, size, "it did not end within %.3g s",
                   (double)r->limit_ms / 1000);
  else
    (void)snprintf(out, size, "%.800s%s%s", r->dying,
                   r->dying[0] != '\0' ? "; " : "", how);
}

/* Prints the last output of the child, as comments. */
static void tn_test_print_last_words(const tn_test_runner *r) {
  char text[TN_TEST_TEXT];
  for (int i = 0; i < 2; ++i) {
    tn_child_printed(&r->child, i, text, sizeof text);
    if (text[0] != '\0') printf("# it printed to descriptor %d:\n", i + 1);
    tn_test_print_comments(text);
  }
}

/* The case at which the child ended has failed. Returns whether another child
 * can go on after it. */
static bool tn_test_blame(tn_test_runner *r, const char *why, bool was_late) {
  const bool is_over = r->step > 0 && r->known[r->step].kind != 0;
  uint8_t *deaths = was_late ? r->timeouts : r->deaths;
  if (r->step == 0 || r->has_ended)
    (void)snprintf(r->title, sizeof r->title, "%s: %s the plugins", r->plugin,
                   r->has_ended ? "releasing" : "loading");
  tn_test_print_passed(r);
  tn_test_print_verdict(r, TN_TEST_FAIL, why);
  tn_test_print_last_words(r);
  if (is_over) printf("# it ended after the verdict of that case\n");
  if (r->step == 0 || r->has_ended || (is_over && r->step == r->after))
    return false;
  if (is_over)
    r->after = r->step;
  else
    r->known[r->step].kind = TN_TEST_DIED;
  if (++deaths[r->group] < (was_late ? TN_TEST_TIMEOUTS : TN_TEST_DEATHS))
    return true;
  r->given_up[r->group] = r->n_known;
  printf("# left out: the other cases of this operator\n");
  return true;
}

/* Runs one child. Returns whether another one has to go on. */
static bool tn_test_run_one(tn_test_runner *r, const tn_test_plugin *plugin,
                            const tn_test_words *words) {
  tn_child_writer writer;
  bool is_child = false;
  char why[TN_TEST_TEXT];
  if (!tn_child_start(&r->child, &writer, &is_child)) {
    printf("Bail out! no process can be started: %s\n", strerror(errno));
    r->has_bailed = true;
    return false;
  }
  if (is_child) {
    tn_test_run_child(r, &writer, plugin, words);
    exit(0);
  }
  r->step = 0;
  const bool is_whole = tn_test_listen(r);
  const bool was_late = is_whole && !r->child.is_gone;
  tn_child_end(&r->child);
  if (r->has_bailed) return false;
  const bool is_fine = is_whole && !was_late && r->has_ended &&
                       WIFEXITED(r->child.status) &&
                       WEXITSTATUS(r->child.status) == 0;
  if (is_fine) return false;
  tn_test_describe_end(r, was_late, !is_whole, why, sizeof why);
  return tn_test_blame(r, why, was_late);
}

/* Reads the command line. False if it has no file, or an option is wrong. */
static bool tn_test_read_words(tn_test_runner *r, tn_test_words *words) {
  for (int i = 0, skip = 1; i < words->n; i += skip) {
    const char *word = words->v[i];
    if (!tn_test_is_option(word, &skip)) {
      skip = 1;
      ++words->n_files;
      continue;
    }
    const char *value = skip == 2 && i + 1 < words->n ? words->v[i + 1] : "0";
    if (strcmp(word, "--seed") == 0) r->seed = strtoull(value, NULL, 10);
    if (strcmp(word, "--limit") == 0)
      r->limit_ms = (int64_t)(strtod(value, NULL) * 1000);
    if (strcmp(word, "--part") == 0 && !tn_test_read_part(r, value))
      return false;
    r->is_brief |= strcmp(word, "--brief") == 0;
    r->is_here |= strcmp(word, "--here") == 0;
  }
  if (r->limit_ms <= 0) r->limit_ms = TN_TEST_LIMIT_S * 1000;
  return words->n_files > 0;
}

/* The plan, and the first failures once more. */
static void tn_test_print_end(tn_test_runner *r, bool is_empty) {
  tn_test_print_passed(r);
  printf("1..%d%s\n", r->n,
         is_empty ? " # SKIP it has neither operators nor kernels" : "");
  (void)fflush(stdout);
  if (r->is_brief) return;
  for (int i = 0; i < r->n_failed && i < TN_TEST_LIST; ++i)
    fprintf(stderr, "not ok - %s\n", r->list[i]);
  if (r->n_failed > TN_TEST_LIST)
    fprintf(stderr, "and %d more\n", r->n_failed - TN_TEST_LIST);
}

/* The whole program: exit status 0 if nothing failed, 1 if a case did, 2 if
 * there was nothing to run. [host-thread] */
static int tn_test_main(const tn_test_plugin *plugin, int argc, char **argv) {
  static tn_test_runner r;
  tn_test_words words = {argc - 1, argv + 1, 0};
  r.plugin = plugin->name;
  r.seed = r.n_parts = 1;
  if (!tn_test_read_words(&r, &words)) {
    fprintf(stderr,
            "usage: %s PLUGIN... [--seed N] [--limit SECONDS] [--part K/N] "
            "[--brief] [--here]\n",
            argv[0]);
    return 2;
  }
  (void)setvbuf(stdout, NULL, r.is_here ? _IOLBF : _IOFBF, 1 << 16);
  printf(
      "# plugin %s; points, layouts and gradients are drawn with --seed "
      "%" PRIu64 "\n",
      plugin->name, r.seed);
#ifdef __linux__
  (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
#endif
  if (!tn_test_make_room(&r, 1)) return 2;
  if (r.is_here)
    tn_test_run_child(&r, NULL, plugin, &words);
  else
    while (tn_test_run_one(&r, plugin, &words)) continue;
  if (!r.has_bailed) tn_test_print_end(&r, r.n == 0 && r.n_passed == 0);
  free(r.known);
  return r.has_bailed ? 2 : r.n_failed > 0;
}

#if defined(__OPTIMIZE__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif

#endif /* TENON_TEST_TEST_H_ */
