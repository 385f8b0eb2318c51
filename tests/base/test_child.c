/* SPDX-License-Identifier: Apache-2.0
 * Records of a verdict, and the runner of foreign code: forged bytes, floods,
 * time limits, and processes that are left.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "child.h"

static const uint64_t key[2] = {1, 2};

/* ----------------------------------------------------------------- records */

/* The bytes that a worker has written. */
typedef struct written {
  char bytes[4096];
  size_t n;
} written;

/* A pipe in place of the socket. */
typedef struct pipe_answer {
  tn__answer answer;
  int from;
} pipe_answer;

static void open_answer(pipe_answer *p) {
  int ends[2];
  cr_assert_eq(pipe(ends), 0);
  *p = (pipe_answer){.answer = {.fd = ends[1], .key = {key[0], key[1]}},
                     .from = ends[0]};
}

static void close_answer(pipe_answer *p, written *to) {
  cr_assert_eq(close(p->answer.fd), 0);
  const ssize_t n = read(p->from, to->bytes, sizeof to->bytes);
  to->n = n > 0 ? (size_t)n : 0;
  cr_assert_eq(close(p->from), 0);
}

/* Two records and the end. */
static void write_verdict(written *to) {
  pipe_answer p;
  open_answer(&p);
  cr_assert(tn__answer_add(&p.answer, 5, "first", 5));
  cr_assert(tn__answer_add(&p.answer, 6, "", 0));
  cr_assert(tn__answer_end(&p.answer));
  close_answer(&p, to);
}

/* Counts the records; `state` tells how the reading ended. */
static int count_records(written *from, size_t n, tn__records *state) {
  tn__child_record record;
  int count = 0;
  *state = (tn__records){.bytes = from->bytes, .n = n, .key = {key[0], key[1]}};
  while (tn__records_next(state, &record)) ++count;
  return count;
}

Test(child, a_verdict_is_read_as_it_was_written) {
  written verdict;
  tn__child_record record;
  write_verdict(&verdict);
  tn__records records = {
      .bytes = verdict.bytes, .n = verdict.n, .key = {key[0], key[1]}};
  cr_assert(tn__records_next(&records, &record));
  cr_assert_eq(record.kind, 5);
  cr_assert_eq(record.n, 5);
  cr_assert_str_eq(record.text, "first");
  cr_assert(tn__records_next(&records, &record));
  cr_assert_eq(record.n, 0);
  cr_assert_not(tn__records_next(&records, &record));
  cr_assert(records.complete);
  cr_assert_not(records.foreign);
}

Test(child, a_verdict_that_is_cut_short_is_not_complete) {
  written verdict;
  tn__records state;
  write_verdict(&verdict);
  for (size_t n = 0; n < verdict.n; ++n) {
    (void)count_records(&verdict, n, &state);
    cr_assert_not(state.complete, "%zu bytes", n);
    cr_assert_not(state.foreign, "%zu bytes", n);
  }
}

Test(child, each_changed_byte_is_found) {
  written verdict;
  tn__records state;
  write_verdict(&verdict);
  for (size_t i = 0; i < verdict.n; ++i) {
    written changed = verdict;
    changed.bytes[i] = (char)(changed.bytes[i] ^ 1);
    (void)count_records(&changed, changed.n, &state);
    cr_assert(state.foreign, "byte %zu", i);
    cr_assert_not(state.complete, "byte %zu", i);
  }
}

Test(child, a_record_that_is_written_again_is_foreign) {
  written verdict;
  tn__records state;
  write_verdict(&verdict);
  const size_t n = verdict.n;
  memcpy(verdict.bytes + n, verdict.bytes, n);
  cr_assert_eq(count_records(&verdict, 2 * n, &state), 2);
  cr_assert(state.foreign);
  cr_assert_not(state.complete);
}

Test(child, the_key_is_no_part_of_the_records) {
  written verdict;
  const uint64_t other[2] = {0x1122334455667788u, 0x99aabbccddeeff00u};
  pipe_answer p;
  open_answer(&p);
  memcpy(p.answer.key, other, sizeof other);
  cr_assert(tn__answer_add(&p.answer, 5, "first", 5));
  cr_assert(tn__answer_end(&p.answer));
  close_answer(&p, &verdict);
  for (size_t i = 0; i + 8 <= verdict.n; ++i)
    for (int k = 0; k < 2; ++k)
      cr_assert_neq(memcmp(verdict.bytes + i, &other[k], 8), 0);
}

/* ------------------------------------------------------------------- running
 */

/* The records of one run. */
typedef struct heard {
  int n;
  char last[64];
} heard;

static void hear_record(void *ctx, const tn__child_record *record) {
  heard *h = ctx;
  ++h->n;
  (void)snprintf(h->last, sizeof h->last, "%s", record->text);
}

/* Runs a body for at most `milliseconds`. */
static tn__child_end run_body(void (*body)(void *, tn__answer *),
                              int64_t milliseconds, heard *h) {
  tn__child_end end;
  *h = (heard){0};
  const tn__child child = {.env = tn__env_default(),
                           .body = body,
                           .take = hear_record,
                           .ctx = h,
                           .milliseconds = milliseconds};
  cr_assert_eq(tn__child_run(&child, &end), TN_OK, "%s", tn_error_text());
  return end;
}

static void say_hello(void *ctx, tn__answer *answer) {
  (void)ctx;
  (void)tn__answer_add(answer, 1, "hello", 5);
}

Test(child, a_body_that_returns_has_a_complete_verdict) {
  heard h;
  const tn__child_end end = run_body(say_hello, 60000, &h);
  cr_assert(end.complete);
  cr_assert_eq(end.status, 0);
  cr_assert_eq(h.n, 1);
  cr_assert_str_eq(h.last, "hello");
}

static void exit_early(void *ctx, tn__answer *answer) {
  say_hello(ctx, answer);
  _exit(0);
}

Test(child, status_0_without_an_end_is_no_success) {
  heard h;
  const tn__child_end end = run_body(exit_early, 60000, &h);
  cr_assert_not(end.complete);
  cr_assert_eq(end.status, 0);
  cr_assert_eq(h.n, 1);
}

static void abort_early(void *ctx, tn__answer *answer) {
  (void)ctx, (void)answer;
  (void)raise(SIGABRT);
}

Test(child, the_signal_of_the_worker_is_that_of_the_child) {
  heard h;
  const tn__child_end end = run_body(abort_early, 60000, &h);
  cr_assert_not(end.complete);
  cr_assert_eq(end.signal, SIGABRT);
}

static void write_without_end(void *ctx, tn__answer *answer) {
  (void)ctx;
  while (tn__answer_add(answer, 1, "hello", 5)) continue;
}

Test(child, a_flood_of_records_is_bounded) {
  heard h;
  const tn__child_end end = run_body(write_without_end, 60000, &h);
  cr_assert(end.flooded);
  cr_assert_not(end.complete);
  cr_assert_leq(h.n, (1 << 16) / 24);
}

static void stop_group(void *ctx, tn__answer *answer) {
  (void)ctx, (void)answer;
  (void)kill(0, SIGSTOP);
}

Test(child, a_group_that_stops_itself_is_late) {
  heard h;
  const tn__child_end end = run_body(stop_group, 100, &h);
  cr_assert(end.late);
  cr_assert_not(end.complete);
}

/* A process that ignores hang-ups, with a session and a group of its own. */
static void leave_daemon(void *ctx, tn__answer *answer) {
  char text[32];
  int ends[2];
  pid_t daemon = 0;
  (void)ctx;
  if (pipe(ends) != 0) return;
  if (fork() == 0) {
    (void)setsid();
    const pid_t pid = fork();
    if (pid != 0) _exit(write(ends[1], &pid, sizeof pid) < 0);
    (void)signal(SIGHUP, SIG_IGN);
    for (;;) (void)pause();
  }
  if (read(ends[0], &daemon, sizeof daemon) != (ssize_t)sizeof daemon) return;
  const int n = snprintf(text, sizeof text, "%ld", (long)daemon);
  (void)tn__answer_add(answer, 1, text, (size_t)n);
}

Test(child, a_daemon_is_ended_and_reported) {
  heard h;
  const tn__child_end end = run_body(leave_daemon, 60000, &h);
  cr_assert(end.complete);
  cr_assert_eq(end.status, TN__CHILD_LEFT);
  const pid_t daemon = (pid_t)strtol(h.last, NULL, 10);
  cr_assert_gt(daemon, 1);
  cr_assert_eq(kill(daemon, 0), -1);
  cr_assert_eq(errno, ESRCH);
}

/* The limits, and the descriptor of the verdict. */
static void tell_limits(void *ctx, tn__answer *answer) {
  struct rlimit core, files, file;
  struct stat about;
  char text[64];
  (void)ctx;
  (void)getrlimit(RLIMIT_CORE, &core);
  (void)getrlimit(RLIMIT_NOFILE, &files);
  (void)getrlimit(RLIMIT_FSIZE, &file);
  int open_files = 0;
  for (int fd = 3; fd < 256; ++fd) open_files += fstat(fd, &about) == 0;
  const int n = snprintf(
      text, sizeof text, "core %d, files %d, MiB %d, open %d, %s",
      (int)core.rlim_max, (int)files.rlim_max, (int)(file.rlim_max >> 20),
      open_files, answer->fd >= 64 ? "high" : "low");
  (void)tn__answer_add(answer, 1, text, (size_t)n);
}

Test(child, a_worker_has_limits_and_one_open_file) {
  heard h;
  const tn__child_end end = run_body(tell_limits, 60000, &h);
  cr_assert(end.complete);
  cr_assert_str_eq(h.last, "core 0, files 256, MiB 256, open 1, high");
}

Test(child, a_program_without_a_verdict_is_no_success) {
  char name[] = "true";
  char *argv[] = {name, NULL};
  heard h = {0};
  tn__child_end end;
  const tn__child child = {.env = tn__env_default(),
                           .program = "/bin/true",
                           .argv = argv,
                           .take = hear_record,
                           .ctx = &h,
                           .milliseconds = 60000};
  cr_assert_eq(tn__child_run(&child, &end), TN_OK);
  cr_assert_not(end.complete);
  cr_assert_eq(end.status, 0);
}

Test(child, a_program_that_is_not_there_is_named) {
  char name[] = "none";
  char *argv[] = {name, NULL};
  tn__child_end end;
  const tn__child child = {.env = tn__env_default(),
                           .program = "/nowhere/none",
                           .argv = argv,
                           .take = hear_record,
                           .milliseconds = 60000};
  cr_assert_eq(tn__child_run(&child, &end), TN_IO);
  cr_assert_not_null(strstr(tn_error_text(),
                            "/nowhere/none: cannot be started: No such file"));
}
