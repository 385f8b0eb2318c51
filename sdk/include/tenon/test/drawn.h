/* SPDX-License-Identifier: Apache-2.0
 * test/drawn.h: calls every operator of some plugins with drawn and extreme
 * parameters, shapes and types, also operators that only gradients use. A call
 * may be refused, with a text; it must not crash, hang, write outside of its
 * outputs, or fail with TN_INTERNAL. Header only, C11; one program includes it
 * once, links libtenon and the mathematical library, and calls tn_drawn_main.
 *
 *   acme_drawn PLUGIN.so ... [--seed N] [--draws N] [--operator NAME]
 *              [--draw N] [--least N] [--seconds N]
 *
 * loads the files in this order and makes N draws (400) for every operator of
 * them, or of the plugin NAME, in a child process with little memory. It prints
 * TAP: one line per operator, and one for each draw that failed, with its
 * parameters, its shapes and the options that repeat it. `--least N` fails an
 * operator of which fewer calls were computed. The exit status is 1 if a line
 * is `not ok`, 2 if the plugins do not load.
 *
 * The child writes into memory that it shares with its parent: which call it
 * is at, and at the very end that it has finished. So nothing else that ends it
 * counts as success, and the next child continues after the draw that failed.
 *
 * files: test/drawn.h       the child and its parent, tn_drawn_main
 *        test/drawn_plan.h  parameters, types and shapes
 *        test/drawn_call.h  arrays, the call, and the state after it
 */
#ifndef TENON_TEST_DRAWN_H_
#define TENON_TEST_DRAWN_H_

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* fork and the like, also with -std=c11 */
#endif

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#ifndef MAP_ANONYMOUS
#error "include tenon/test/drawn.h first, or compile with -D_GNU_SOURCE"
#endif

#include "tenon/test/drawn_plan.h"

#include "tenon/test/drawn_call.h"

enum {
  TN_DRAWN_OPERATORS = 4096, /* at most */
  TN_DRAWN_FAILURES = 3,     /* of one operator, before the next one */
  TN_DRAWN_END = 0x454e44    /* the child has finished */
};

/* Bytes that arrays may take, and the child altogether. */
#define TN_DRAWN_MEMORY (4ull << 20)
#define TN_DRAWN_ADDRESSES (4ull << 30)

/* Of one operator. */
typedef struct tn_drawn_result {
  char name[160];
  uint32_t n_drawn;
  uint32_t n_computed;
  uint32_t n_backward;
  uint32_t n_failed;
} tn_drawn_result;

/* Progress of the child, in memory that its parent sees. */
typedef struct tn_drawn_record {
  uint64_t n_begun; /* steps */
  uint32_t op;      /* that it is at */
  uint32_t draw;
  uint32_t n_ops;
  uint32_t end; /* TN_DRAWN_END */
  char call[TN_DRAWN_CALL];
  char why[1024];
  tn_drawn_result results[TN_DRAWN_OPERATORS];
} tn_drawn_record;

typedef struct tn_drawn_options {
  char **plugins; /* n_plugins files */
  int n_plugins;
  const char *only; /* name of an operator or a plugin; NULL: all */
  uint64_t seed;
  uint32_t n_draws;
  uint32_t first; /* of them */
  uint32_t least;
  uint32_t seconds; /* that one call may take */
} tn_drawn_options;

/* ------------------------------------------------------------------- child */

/* How a child ends that has recorded a failure itself. */
enum { TN_DRAWN_EXIT_FAILED = 3, TN_DRAWN_EXIT_UNLOADED = 4 };

/* Sanitizers need addresses without end. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TN_DRAWN_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TN_DRAWN_SANITIZED 1
#endif
#endif

static void tn_drawn_confine(void) {
  const struct rlimit none = {0, 0};
  (void)setpgid(0, 0);
  (void)setrlimit(RLIMIT_CORE, &none);
#ifndef TN_DRAWN_SANITIZED
  const struct rlimit addresses = {TN_DRAWN_ADDRESSES, TN_DRAWN_ADDRESSES};
  (void)setrlimit(RLIMIT_AS, &addresses);
#endif
  (void)dup2(STDERR_FILENO, STDOUT_FILENO); /* a kernel may print */
}

static void tn_drawn_silent(void *ctx, int32_t level, const char *line) {
  (void)ctx, (void)level, (void)line;
}

static tn_code tn_drawn_load(const tn_drawn_options *o, tn_runtime **out) {
  const tn_memory_limit memory = {TN_DEVICE_CPU, 0, TN_DRAWN_MEMORY};
  const tn_options options = {.struct_size = sizeof options,
                              .trust = TN_TRUST_REPLACE,
                              .workers = 1,
                              .engine = TN_ENGINE_NAIVE,
                              .log = tn_drawn_silent,
                              .n_memory_limits = 1,
                              .memory_limits = &memory};
  tn_code rc = tn_runtime_create(&options, out);
  for (int i = 0; i < o->n_plugins && rc == TN_OK; ++i)
    rc = tn_plugin_load(*out, o->plugins[i]);
  return rc;
}

/* Whether "acme", "acme.cube" or "acme.cube@1" means `name`, "acme.cube@1". */
static bool tn_drawn_is_meant(const char *name, const char *only) {
  const size_t n = only == NULL ? 0 : strlen(only);
  return only == NULL ||
         (strncmp(name, only, n) == 0 && (name[n] == '\0' || name[n] == '@'));
}

/* Names of all operators of all plugins, listed or not. */
static void tn_drawn_list(tn_runtime *rt, const char *only,
                          tn_drawn_record *record) {
  tn_plugin_info info;
  record->n_ops = 0;
  for (size_t i = 0; tn_plugin_at(rt, i, &info) == TN_OK; ++i) {
    for (uint32_t k = 0; k < info.plugin->n_operators; ++k) {
      const tn_op *op = info.plugin->operators[k];
      char name[sizeof record->results->name];
      (void)snprintf(name, sizeof name, "%s.%s@%" PRIu32, info.plugin->name,
                     op->name, op->interface);
      if (!tn_drawn_is_meant(name, only) || record->n_ops == TN_DRAWN_OPERATORS)
        continue;
      memcpy(record->results[record->n_ops++].name, name, sizeof name);
    }
  }
}

/* The remaining draws of one operator; false if one failed. */
static bool tn_drawn_operator(tn_drawn *d, const tn_drawn_options *o,
                              tn_drawn_record *record) {
  tn_drawn_result *result = &record->results[record->op];
  if (tn_operator_get(d->rt, result->name, &d->op) != TN_OK)
    return tn_drawn_fail(d, "%s", tn_error_text());
  d->desc = tn_operator_desc(d->op);
  for (; record->draw < o->n_draws; ++record->draw) {
    const int end = tn_drawn_run(d, o->seed, record->draw);
    ++result->n_drawn;
    result->n_computed += end == TN_DRAWN_COMPUTED;
    result->n_backward += d->backward;
    if (end == TN_DRAWN_FAILED) return false;
  }
  return true;
}

/* Begins where the record says. */
static int tn_drawn_child(const tn_drawn_options *o, tn_drawn_record *record) {
  static tn_drawn d;
  static tn_drawn_room rooms[TN_DRAWN_ROOMS];
  tn_drawn_confine();
  d.rooms = rooms;
  d.call = record->call;
  d.n_begun = &record->n_begun;
  (void)snprintf(record->call, sizeof record->call, "loading plugins");
  if (!tn_drawn_rooms_open(rooms) || tn_drawn_load(o, &d.rt) != TN_OK) {
    (void)snprintf(record->why, sizeof record->why, "%s", tn_error_text());
    return TN_DRAWN_EXIT_UNLOADED;
  }
  tn_drawn_list(d.rt, o->only, record);
  for (; record->op < record->n_ops; ++record->op, record->draw = 0) {
    if (tn_drawn_operator(&d, o, record)) continue;
    (void)snprintf(record->why, sizeof record->why, "%s", d.why);
    return TN_DRAWN_EXIT_FAILED;
  }
  tn_runtime_release(d.rt);
  record->end = TN_DRAWN_END;
  return 0;
}

/* ------------------------------------------------------------------ parent */

/* TAP so far. */
typedef struct tn_drawn_report {
  int n;
  int n_failed;
  uint32_t n_told; /* operators with a line */
} tn_drawn_report;

/* Prints lines of the operators that are done. */
static void tn_drawn_tell(tn_drawn_report *report, const tn_drawn_options *o,
                          const tn_drawn_record *record) {
  const uint32_t n = record->op < record->n_ops ? record->op : record->n_ops;
  for (; report->n_told < n; ++report->n_told) {
    const tn_drawn_result *r = &record->results[report->n_told];
    const bool few = r->n_computed < o->least;
    if (r->n_failed > 0) continue; /* has lines of its own */
    report->n_failed += few;
    printf("%s %d - %s: %" PRIu32 " drawn calls, %" PRIu32 " computed, %" PRIu32
           " gradients\n",
           few ? "not ok" : "ok", ++report->n, r->name, r->n_drawn,
           r->n_computed, r->n_backward);
    if (few)
      printf("# at least %" PRIu32 " should be computed (--least)\n", o->least);
  }
}

/* The draw that the child was at has failed. */
static void tn_drawn_tell_failure(tn_drawn_report *report,
                                  const tn_drawn_options *o,
                                  tn_drawn_record *record, const char *why) {
  tn_drawn_result *r = &record->results[record->op];
  ++report->n_failed;
  if (record->op >= record->n_ops) {
    printf("not ok %d - all operators, released\n# %s\n", ++report->n, why);
    return;
  }
  printf("not ok %d - %s: draw %" PRIu32 " of seed %" PRIu64
         "\n# %s\n# in %s\n# repeat it with --seed %" PRIu64
         " --operator %s --draw %" PRIu32 "\n",
         ++report->n, r->name, record->draw, o->seed, why, record->call,
         o->seed, r->name, record->draw);
  ++record->draw;
  if (++r->n_failed < TN_DRAWN_FAILURES && record->draw < o->n_draws) return;
  ++record->op;
  record->draw = 0;
}

/* Waits until the child ends; kills it when one call takes too long. `ends`
 * is closed with the child, so that poll returns at once. */
static bool tn_drawn_wait(pid_t pid, int ends, const tn_drawn_options *o,
                          const tn_drawn_record *record, int *status) {
  enum { TICK = 250 }; /* milliseconds */
  const volatile uint64_t *n_begun = &record->n_begun;
  uint64_t seen = *n_begun;
  uint32_t n_ticks = 0;
  struct pollfd end = {.fd = ends, .events = POLLIN};
  while (waitpid(pid, status, WNOHANG) == 0) {
    if (poll(&end, 1, TICK) > 0) end.fd = -1; /* closed; it ends soon */
    n_ticks = *n_begun == seen ? n_ticks + 1 : 0;
    seen = *n_begun;
    if ((uint64_t)n_ticks * TICK < 1000ull * o->seconds) continue;
    (void)kill(-pid, SIGKILL);
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, status, 0);
    return false;
  }
  (void)kill(-pid, SIGKILL); /* all that it has started */
  return true;
}

/* How the child ended, in words. */
static void tn_drawn_why(const tn_drawn_record *record, int status, char *why,
                         size_t size) {
  if (WIFSIGNALED(status))
    (void)snprintf(why, size,
                   "signal %d (%s): a kernel may have read or written outside "
                   "of its arrays",
                   WTERMSIG(status), strsignal(WTERMSIG(status)));
  else if (WEXITSTATUS(status) == TN_DRAWN_EXIT_FAILED)
    (void)snprintf(why, size, "%s", record->why);
  else
    (void)snprintf(why, size, "the process was ended with status %d",
                   WEXITSTATUS(status));
}

/* Runs one child to its end; false when there is nothing left to run. */
static bool tn_drawn_step(tn_drawn_report *report, const tn_drawn_options *o,
                          tn_drawn_record *record) {
  char why[sizeof record->why];
  int ends[2], status = 0;
  (void)fflush(stdout);
  if (pipe(ends) != 0) return false;
  const pid_t pid = fork();
  if (pid == 0) {
    (void)close(ends[0]);
    _exit(tn_drawn_child(o, record));
  }
  (void)close(ends[1]);
  const bool ended = pid > 0 && tn_drawn_wait(pid, ends[0], o, record, &status);
  (void)close(ends[0]);
  tn_drawn_tell(report, o, record);
  if (pid < 0 || (ended && WIFEXITED(status) &&
                  WEXITSTATUS(status) == TN_DRAWN_EXIT_UNLOADED)) {
    printf("Bail out! %s\n", pid < 0 ? "fork failed" : record->why);
    return false;
  }
  if (ended && record->end == TN_DRAWN_END) return false;
  if (ended)
    tn_drawn_why(record, status, why, sizeof why);
  else
    (void)snprintf(why, sizeof why,
                   "it did not return within %" PRIu32 " seconds", o->seconds);
  tn_drawn_tell_failure(report, o, record, why);
  return record->op < record->n_ops || record->n_ops == 0;
}

static uint32_t *tn_drawn_option(tn_drawn_options *o, const char *word) {
  if (strcmp(word, "--draws") == 0) return &o->n_draws;
  if (strcmp(word, "--least") == 0) return &o->least;
  if (strcmp(word, "--seconds") == 0) return &o->seconds;
  return NULL;
}

/* Reads the command line; plugins are moved to its beginning. */
static bool tn_drawn_read(tn_drawn_options *o, int argc, char **argv) {
  for (int i = 1; i < argc; ++i) {
    uint32_t *number = tn_drawn_option(o, argv[i]);
    if (strncmp(argv[i], "--", 2) != 0) {
      o->plugins[o->n_plugins++] = argv[i];
      continue;
    }
    if (i + 1 == argc) return false;
    const char *value = argv[++i];
    if (number != NULL)
      *number = (uint32_t)strtoul(value, NULL, 10);
    else if (strcmp(argv[i - 1], "--seed") == 0)
      o->seed = strtoull(value, NULL, 10);
    else if (strcmp(argv[i - 1], "--operator") == 0)
      o->only = value;
    else if (strcmp(argv[i - 1], "--draw") == 0)
      o->n_draws = (o->first = (uint32_t)strtoul(value, NULL, 10)) + 1;
    else
      return false;
  }
  return o->n_plugins > 0;
}

/* The whole program. [host-thread] */
static int tn_drawn_main(int argc, char **argv) {
  tn_drawn_options o = {
      .plugins = argv, .seed = 1, .n_draws = 400, .seconds = 20};
  tn_drawn_report report = {0};
  if (!tn_drawn_read(&o, argc, argv)) {
    fprintf(stderr,
            "usage: %s PLUGIN... [--seed N] [--draws N] [--operator NAME] "
            "[--draw N] [--least N] [--seconds N]\n",
            argv[0]);
    return 2;
  }
  tn_drawn_record *record =
      (tn_drawn_record *)mmap(NULL, sizeof *record, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (record == MAP_FAILED) {
    printf("Bail out! no memory\n");
    return 2;
  }
  record->draw = o.first;
  while (tn_drawn_step(&report, &o, record)) continue;
  tn_drawn_tell(&report, &o, record);
  printf("1..%d\n", report.n);
  return record->n_ops == 0 ? 2 : report.n_failed > 0;
}

#endif /* TENON_TEST_DRAWN_H_ */
