/* SPDX-License-Identifier: Apache-2.0
 * Traces: the file is JSON and shows which functions ran, where and for how
 * long.
 */
#include <criterion/criterion.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fixture.h"

/* --------------------------------------------------------------------- JSON */

typedef struct event {
  char name[256];
  char cat[64];
  char ph[4];
  char thread[64]; /* args.name */
  double tid;
  double ts;
  double dur;
} event;

enum { EVENTS = 3000 };

typedef struct parsed {
  event events[EVENTS];
  int n;
  int depth;
  bool bad;
  double lost;
  const char *at;
} parsed;

static void skip_blanks(parsed *p) {
  while (*p->at == ' ' || *p->at == '\n') ++p->at;
}

static bool accept_char(parsed *p, char c) {
  skip_blanks(p);
  if (*p->at != c) return false;
  ++p->at;
  return true;
}

static void expect_char(parsed *p, char c) {
  if (!accept_char(p, c)) p->bad = true;
}

/* One character of a string; \u only for one byte. */
static char parse_character(parsed *p) {
  static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
  const char c = *p->at++;
  if ((unsigned char)c < 0x20) p->bad = true;
  if (c != '\\') return c;
  const char e = *p->at++;
  if (e == 'u') {
    unsigned code = 0;
    if (sscanf(p->at, "%4x", &code) != 1 || code > 0x7f) p->bad = true;
    p->at += 4;
    return (char)code;
  }
  const char *found = e != '\0' ? strchr(from, e) : NULL;
  if (found == NULL) p->bad = true;
  return found != NULL ? to[found - from] : '\0';
}

static void parse_text(parsed *p, char *to, size_t size) {
  size_t n = 0;
  expect_char(p, '"');
  while (!p->bad && *p->at != '"') {
    const char c = parse_character(p);
    if (n + 1 < size) to[n++] = c;
  }
  to[n] = '\0';
  expect_char(p, '"');
}

static void parse_value(parsed *p, event *e, const char *key);

static void parse_object(parsed *p, event *e) {
  char key[64];
  if (accept_char(p, '}')) return;
  do {
    parse_text(p, key, sizeof key);
    expect_char(p, ':');
    parse_value(p, e, key);
  } while (!p->bad && accept_char(p, ','));
  expect_char(p, '}');
}

static void parse_array(parsed *p) {
  static event too_many;
  if (accept_char(p, ']')) return;
  do {
    event *e = p->n < EVENTS ? &p->events[p->n] : &too_many;
    memset(e, 0, sizeof *e);
    parse_value(p, e, "");
    ++p->n;
  } while (!p->bad && accept_char(p, ','));
  expect_char(p, ']');
}

static void keep_text(parsed *p, event *e, const char *key) {
  char none[64];
  if (e != NULL && strcmp(key, "name") == 0)
    p->depth == 2 ? parse_text(p, e->name, sizeof e->name)
                  : parse_text(p, e->thread, sizeof e->thread);
  else if (e != NULL && strcmp(key, "cat") == 0)
    parse_text(p, e->cat, sizeof e->cat);
  else if (e != NULL && strcmp(key, "ph") == 0)
    parse_text(p, e->ph, sizeof e->ph);
  else
    parse_text(p, none, sizeof none);
}

static void keep_number(parsed *p, event *e, const char *key) {
  char *end;
  const double number = strtod(p->at, &end);
  if (end == p->at) p->bad = true;
  p->at = end;
  if (strcmp(key, "lost") == 0) p->lost = number;
  if (e == NULL) return;
  if (strcmp(key, "tid") == 0) e->tid = number;
  if (strcmp(key, "ts") == 0) e->ts = number;
  if (strcmp(key, "dur") == 0) e->dur = number;
}

static void parse_value(parsed *p, event *e, const char *key) {
  skip_blanks(p);
  if (accept_char(p, '{')) {
    ++p->depth;
    parse_object(p, e);
    --p->depth;
  } else if (accept_char(p, '[')) {
    parse_array(p);
  } else if (*p->at == '"') {
    keep_text(p, e, key);
  } else {
    keep_number(p, e, key);
  }
}

/* ------------------------------------------------------------------- stages */

static char path[64];

static void make_path(void) {
  (void)snprintf(path, sizeof path, "trace_%ld.json", (long)getpid());
}

static void remove_path(void) {
  (void)unlink(path);
}

TestSuite(trace, .init = make_path, .fini = remove_path, .timeout = 100);

/* Returns the written trace after a check. */
static const parsed *read_back(void) {
  static parsed p;
  static char text[1 << 20];
  FILE *file = fopen(path, "r");
  cr_assert_not_null(file);
  const size_t n = fread(text, 1, sizeof text - 1, file);
  (void)fclose(file);
  text[n] = '\0';
  memset(&p, 0, sizeof p);
  p.lost = -1;
  p.at = text;
  parse_value(&p, NULL, "");
  skip_blanks(&p);
  cr_assert(!p.bad && *p.at == '\0', "no JSON at: %.60s", p.at);
  cr_assert_leq(p.n, EVENTS);
  for (int i = 0; i < p.n; ++i) {
    cr_assert_geq(p.events[i].dur, 0);
    cr_assert_geq(p.events[i].ts, 0);
    cr_assert_gt(p.events[i].tid, 0);
  }
  return &p;
}

static const parsed *write_and_read(tn__engine *engine) {
  cr_assert_eq(tn__trace_write(engine, path), TN_OK, "%s", tn_error_text());
  return read_back();
}

static int count_spans(const parsed *p, const char *name) {
  int n = 0;
  for (int i = 0; i < p->n; ++i)
    if (strcmp(p->events[i].ph, "X") == 0 &&
        (name == NULL || strcmp(p->events[i].name, name) == 0))
      ++n;
  return n;
}

static void push_named(tn__engine *engine, const char *name, tn__var *x,
                       _Atomic int *n) {
  for (uint32_t small = 0; small <= TN__JOB_SMALL; ++small) {
    const tn__job job = {.name = name,
                         .run = run_count,
                         .arg = n,
                         .access = (tn__access[]){U(*x)},
                         .n_access = 1,
                         .flags = small};
    cr_assert_eq(tn__push(engine, &job), TN_OK);
  }
}

static void expect_quiet(tn__engine *engine) {
  cr_assert_eq(tn__wait_all(engine), TN_OK);
}

/* -------------------------------------------------------------------- spans */

Test(trace, every_function_has_a_span_with_its_name) {
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    tn__var x = {0};
    _Atomic int n = 0;
    push_named(engine, "before", &x, &n);
    expect_quiet(engine);
    cr_assert_eq(tn__trace_start(engine), TN_OK);
    for (int i = 0; i < 50; ++i) push_named(engine, "during", &x, &n);
    push_named(engine, NULL, &x, &n);
    expect_quiet(engine);
    tn__trace_stop(engine);
    push_named(engine, "after", &x, &n);
    expect_quiet(engine);
    const parsed *p = write_and_read(engine);
    cr_assert_eq(count_spans(p, "during"), 100, "%s: %d", kinds[k].name,
                 count_spans(p, "during"));
    cr_assert_eq(count_spans(p, NULL), 102, "%s", kinds[k].name);
    cr_assert_eq(p->lost, 0);
    engine_close(engine);
  }
}

static const event *thread_of(const parsed *p, double tid) {
  for (int i = 0; i < p->n; ++i)
    if (strcmp(p->events[i].ph, "M") == 0 && p->events[i].tid == tid)
      return &p->events[i];
  return NULL;
}

/* Each span is on a thread with a name. Spans of functions that share a
 * variable do not overlap. */
Test(trace, spans_are_on_named_threads_in_order) {
  tn__engine *engine = engine_dispatch(2);
  tn__var x = {0};
  _Atomic int n = 0;
  cr_assert_eq(tn__trace_start(engine), TN_OK);
  for (int i = 0; i < 100; ++i) push_named(engine, "chain", &x, &n);
  expect_quiet(engine);
  const parsed *p = write_and_read(engine);
  for (int i = 0; i < p->n; ++i) {
    const event *e = &p->events[i];
    if (strcmp(e->ph, "X") != 0) continue;
    const event *thread = thread_of(p, e->tid);
    cr_assert_not_null(thread);
    cr_assert_str_eq(thread->name, "thread_name");
    cr_assert(strncmp(thread->thread, "worker ", 7) == 0 ||
                  strncmp(thread->thread, "thread ", 7) == 0,
              "%s", thread->thread);
    cr_assert_str_eq(e->cat, "host");
    for (int j = 0; j < p->n; ++j) {
      const event *other = &p->events[j];
      if (j == i || strcmp(other->ph, "X") != 0) continue;
      /* Microseconds with three digits; their sum rounds. */
      cr_assert(e->ts + e->dur <= other->ts + 1e-6 ||
                other->ts + other->dur <= e->ts + 1e-6);
    }
  }
  engine_close(engine);
}

Test(trace, names_are_escaped) {
  static const char *const names[] = {"a \"quoted\" one", "back\\slash",
                                      "line\nfeed\ttab", "bell\a end",
                                      "f\xc3\xbcr alle"};
  tn__engine *engine = engine_dispatch(1);
  tn__var x = {0};
  _Atomic int n = 0;
  cr_assert_eq(tn__trace_start(engine), TN_OK);
  for (int i = 0; i < 5; ++i) push_named(engine, names[i], &x, &n);
  expect_quiet(engine);
  const parsed *p = write_and_read(engine);
  for (int i = 0; i < 5; ++i)
    cr_assert_eq(count_spans(p, names[i]), 2, "%s", names[i]);
  engine_close(engine);
}

Test(trace, a_name_of_any_length_is_written) {
  static char name[5000], whole[201];
  tn__engine *engine = engine_pooled(1);
  tn__var x = {0};
  _Atomic int n = 0;
  memset(name, 'n', sizeof name - 1);
  cr_assert_eq(tn__trace_start(engine), TN_OK);
  memset(whole, 'w', sizeof whole - 1);
  push_named(engine, name, &x, &n);
  push_named(engine, whole, &x, &n);
  push_named(engine, "", &x, &n);
  expect_quiet(engine);
  const parsed *p = write_and_read(engine);
  cr_assert_eq(count_spans(p, NULL), 6);
  cr_assert_eq(count_spans(p, whole), 2);
  engine_close(engine);
}

Test(trace, the_jobs_of_a_schedule_have_spans) {
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    tn__schedule *schedule = NULL;
    _Atomic int n = 0;
    static const char *const names[] = {"one", "two", "three", "four", "five"};
    tn__job jobs[5];
    for (int i = 0; i < 5; ++i) /* small neighbours too */
      jobs[i] = (tn__job){.name = names[i],
                          .run = run_count,
                          .arg = &n,
                          .flags = i >= 2 ? TN__JOB_SMALL : 0};
    cr_assert_eq(tn__schedule_create(engine, jobs, 5, &schedule), TN_OK);
    cr_assert_eq(tn__trace_start(engine), TN_OK);
    for (int i = 0; i < 5; ++i)
      cr_assert_eq(tn__schedule_push(schedule), TN_OK);
    expect_quiet(engine);
    const parsed *p = write_and_read(engine);
    for (int i = 0; i < 5; ++i)
      cr_assert_eq(count_spans(p, names[i]), 5, "%s", kinds[k].name);
    tn__schedule_delete(schedule);
    engine_close(engine);
  }
}

/* The span exists as soon as the function has returned, on its worker. */
Test(trace, a_pending_asynchronous_function_has_a_span) {
  tn__engine *engine = engine_dispatch(1);
  tn__var x = {0};
  held job;
  cr_assert_eq(tn__trace_start(engine), TN_OK);
  held_begin(engine, &job, ON(U(x)));
  while (count_spans(write_and_read(engine), "held") == 0) sched_yield();
  cr_assert_not(tn__var_is_readable(&x));
  held_end(&job, TN_OK);
  expect_quiet(engine);
  cr_assert_eq(count_spans(write_and_read(engine), NULL), 1);
  engine_close(engine);
}

static int count_threads(const parsed *p) {
  int n = 0;
  for (int i = 0; i < p->n; ++i) n += strcmp(p->events[i].ph, "M") == 0;
  return n;
}

Test(trace, a_thread_is_one_though_it_turns_to_another_engine) {
  tn__engine *engines[2];
  tn__var x[2] = {{0}};
  _Atomic int n = 0;
  const int64_t before = memory.living;
  for (int i = 0; i < 2; ++i) {
    engines[i] = engine_open(&kinds[0]); /* all on this thread */
    cr_assert_eq(tn__trace_start(engines[i]), TN_OK);
  }
  for (int i = 0; i < 20; ++i)
    push_named(engines[i % 2], "turn", &x[i % 2], &n);
  for (int i = 0; i < 2; ++i) {
    const parsed *p = write_and_read(engines[i]);
    cr_assert_eq(count_spans(p, "turn"), 20);
    cr_assert_eq(count_threads(p), 1);
  }
  for (int i = 0; i < 2; ++i) tn__engine_destroy(engines[i]);
  cr_assert_eq(memory.living, before);
}

/* ----------------------------------------------------------- start and stop */

Test(trace, a_second_one_begins_anew) {
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    tn__var x = {0};
    _Atomic int n = 0;
    for (int round = 0; round < 3; ++round) {
      cr_assert_eq(tn__trace_start(engine), TN_OK);
      cr_assert_eq(tn__trace_start(engine), TN_EXISTS);
      EXPECT_TEXT("tn_trace_write ends it");
      push_named(engine, "round", &x, &n);
      expect_quiet(engine);
      tn__trace_stop(engine);
      tn__trace_stop(engine);
      cr_assert_eq(count_spans(write_and_read(engine), NULL), 2, "%s",
                   kinds[k].name);
      tn__engine_stop(engine); /* other threads in the next round */
    }
    engine_close(engine);
  }
}

Test(trace, it_is_written_while_functions_run) {
  tn__engine *engine = engine_dispatch(2);
  tn__var x = {0};
  _Atomic int n = 0;
  int spans = 0;
  cr_assert_eq(tn__trace_start(engine), TN_OK);
  for (int i = 0; i < 20; ++i) {
    for (int j = 0; j < 20; ++j) push_named(engine, "going on", &x, &n);
    const int now = count_spans(write_and_read(engine), "going on");
    cr_assert_geq(now, spans);
    spans = now;
  }
  expect_quiet(engine);
  cr_assert_eq(count_spans(write_and_read(engine), "going on"), 800);
  engine_close(engine);
}

/* ----------------------------------------------------------------- failures */

Test(trace, a_file_that_cannot_be_written_is_reported) {
  tn__engine *engine = engine_pooled(1);
  tn__var x = {0};
  _Atomic int n = 0;
  cr_assert_eq(tn__trace_write(engine, path), TN_INVALID);
  EXPECT_TEXT("nothing was recorded");
  cr_assert_eq(tn__trace_start(engine), TN_OK);
  push_named(engine, "one", &x, &n);
  expect_quiet(engine);
  cr_assert_eq(tn__trace_write(engine, "no/such/folder/trace.json"), TN_IO);
  EXPECT_TEXT("no/such/folder/trace.json");
  cr_assert_eq(tn__trace_write(engine, "."), TN_IO);
  cr_assert_eq(access(path, F_OK), -1);
  engine_close(engine);
}

/* A file with the name that others would guess is not overwritten, and a link
 * is followed (tests/exchange/test_files.c has the rest). */
Test(trace, a_link_stays_and_its_target_is_written) {
  tn__engine *engine = engine_pooled(1);
  char link[80], part[100];
  struct stat info;
  (void)snprintf(link, sizeof link, "link_%s", path);
  (void)snprintf(part, sizeof part, "%s.%ld.part", link, (long)getpid());
  cr_assert_eq(symlink(path, link), 0);
  cr_assert_eq(symlink("victim", part), 0);
  cr_assert_eq(tn__trace_start(engine), TN_OK);
  cr_assert_eq(tn__trace_write(engine, link), TN_OK, "%s", tn_error_text());
  cr_expect(lstat(link, &info) == 0 && S_ISLNK(info.st_mode));
  cr_expect(lstat(part, &info) == 0 && S_ISLNK(info.st_mode));
  cr_expect_eq(access("victim", F_OK), -1);
  cr_expect_eq(count_spans(read_back(), NULL), 0);
  (void)unlink(link), (void)unlink(part);
  engine_close(engine);
}

/* The smallest trace is kept, and lost spans are counted. */
Test(trace, without_memory_spans_are_lost_and_functions_are_not) {
  for (int64_t at = 1; at < 5; ++at) {
    tn__engine *engine = engine_dispatch(1);
    tn__var x = {0};
    _Atomic int n = 0;
    push_named(engine, "before", &x,
               &n); /* the engine has the memory that it needs */
    expect_quiet(engine);
    cr_assert_eq(tn__trace_start(engine), TN_OK);
    memory_fail_at(at, true);
    push_named(engine, "during", &x, &n);
    expect_quiet(engine);
    memory_fail_at(0, false);
    cr_assert_eq(n, 4);
    const parsed *p = write_and_read(engine);
    cr_assert_eq(count_spans(p, "during") + (int)p->lost, 2);
    if (at == 1) cr_assert_eq(p->lost, 2);
    engine_close(engine);
  }
}

Test(trace, it_starts_or_does_not_for_lack_of_memory) {
  tn__engine *engine = engine_pooled(1);
  memory_fail_at(1, true);
  cr_assert_eq(tn__trace_start(engine), TN_OUT_OF_MEMORY);
  memory_fail_at(0, false);
  cr_assert_eq(tn__trace_start(engine), TN_OK);
  memory_fail_at(1, true);
  cr_assert_eq(tn__trace_write(engine, path), TN_OUT_OF_MEMORY);
  memory_fail_at(0, false);
  engine_close(engine);
}
