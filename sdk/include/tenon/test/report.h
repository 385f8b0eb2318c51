/* SPDX-License-Identifier: Apache-2.0
 * test/report.h: a part of test.h: the case that runs, its verdict, and the
 * parent that prints it. The child sends a record at the begin and at the end
 * of each case. If it is gone in between, the parent names the case, and the
 * next child goes on after it: it walks the same cases again, and passes over
 * cases with a known verdict.
 */
#ifndef TENON_TEST_REPORT_H_
#define TENON_TEST_REPORT_H_

enum {
  TN_TEST_TITLE = 256,
  TN_TEST_TEXT = 1024,
  TN_TEST_SCRATCH = 512,
  TN_TEST_LIMIT_S = 10,  /* seconds for one case */
  TN_TEST_LOADING = 6,   /* times the limit: drivers of devices begin */
  TN_TEST_DEATHS = 6,    /* of an operator, then it is given up */
  TN_TEST_TIMEOUTS = 2,  /* the same, where a case did not end */
  TN_TEST_GROUPS = 4096, /* operators of a plugin */
  TN_TEST_LIST = 8       /* lines that are repeated at the end */
};

typedef enum tn_test_kind {
  TN_TEST_NOTHING = 0,
  TN_TEST_BEGIN = 'B',
  TN_TEST_PASS = 'P',
  TN_TEST_FAIL = 'F',
  TN_TEST_SKIP = 'S',
  TN_TEST_TO_COME = 'T',
  TN_TEST_LEFT_OUT = 'L',
  TN_TEST_DIED = 'D',
  TN_TEST_COMMENT = 'C', /* a line of the log */
  TN_TEST_DYING = 'Y',   /* the child's last words */
  TN_TEST_BAIL = 'X',
  TN_TEST_END = 'E'
} tn_test_kind;

/* A record's payload; title and text follow, with their NULs. */
typedef struct tn_test_entry {
  uint32_t kind;
  uint32_t step;
  uint32_t group;
  uint32_t calls; /* bit p: a kernel took a call of pass p */
} tn_test_entry;

/* The verdict of an earlier child. */
typedef struct tn_test_known {
  uint8_t kind;
  uint8_t calls;
} tn_test_known;

/* The parent. */
typedef struct tn_test_runner {
  const char *plugin;
  uint64_t seed;
  int64_t limit_ms;
  size_t part; /* the first operator that is tested */
  size_t n_parts;
  bool is_brief; /* passed cases are not printed one by one */
  bool is_here;  /* no child: for debuggers */
  int n;
  int n_failed;
  int n_passed; /* of the group, in brief */
  bool has_ended;
  bool has_bailed;
  tn_test_known *known; /* by step, from 1 on */
  uint32_t n_known;
  uint32_t room;
  uint32_t step; /* the case that runs */
  uint32_t group;
  char title[TN_TEST_TITLE];
  char dying[TN_TEST_TEXT];
  char without[TN_TEST_TEXT];
  uint8_t deaths[TN_TEST_GROUPS];
  uint8_t timeouts[TN_TEST_GROUPS];
  uint32_t given_up[TN_TEST_GROUPS]; /* 0, or the last step of the group */
  uint32_t after; /* a child ended after the verdict of this step */
  char list[TN_TEST_LIST][TN_TEST_TITLE + 128];
  tn_child child;
} tn_test_runner;

/* Reads "K/N". False if it is something else. */
static bool tn_test_read_part(tn_test_runner *r, const char *text) {
  char *slash = NULL, *end = NULL;
  r->part = strtoul(text, &slash, 10);
  if (slash == text || *slash != '/') return false;
  r->n_parts = strtoul(slash + 1, &end, 10);
  return end != slash + 1 && *end == '\0' && r->part < r->n_parts;
}

/* A run of the tests, and the case that it is at: the child. */
typedef struct tn_test {
  tn_runtime *rt;
  uint64_t seed;
  uint64_t random; /* state of the numbers drawn */
  int n;           /* cases so far */
  int n_failed;
  int n_skipped;
  int n_inferred; /* cases that compute nothing: partial.h */
  int n_to_come;
  char without[TN_TEST_TEXT]; /* why the last one was not computed */
  const tn_kernel *only; /* the one that is tried; NULL: whichever is chosen */
  int n_calls[2];        /* by pass: calls that a kernel took */
  int n_calls_before[2]; /* when the case began */
  uint32_t step;         /* cases begun */
  uint32_t group;        /* number of the operator */
  char title[TN_TEST_TITLE];
  const tn_test_known *known;   /* the verdict of an earlier child, or NULL */
  char complaint[TN_TEST_TEXT]; /* found beside the results */
  tn_test_notes notes;          /* operands of the call that runs */
  tn_watch watch;
  uint64_t n_restored;  /* floating-point modes, of the calling thread */
  uint64_t tried[2][8]; /* by pass and variable: TN_BIT_* of types */
  uint64_t took[2][8];
  bool is_batch_invariant; /* the manifest says so of the operator */
  tn_child_writer writer;
  tn_test_runner *runner;
  struct tn_test *other; /* with another number of threads, or NULL */
  /* Released when the case is over. */
  tn_array *arrays[TN_TEST_SCRATCH];
  int n_arrays;
} tn_test;

/* ---------------------------------------------------------------- the parent
 */

/* Text of others, on one line and without the mark of a directive of TAP. */
static void tn_test_print(const char *text) {
  for (; *text != '\0' && *text != '\n'; ++text)
    putchar(*text == '#' ? '_' : (unsigned char)*text < ' ' ? ' ' : *text);
}

/* Each line of a text as a comment. */
static void tn_test_print_comments(const char *text) {
  while (*text != '\0') {
    const size_t n = strcspn(text, "\n");
    printf("# ");
    tn_test_print(text);
    putchar('\n');
    text += n + (text[n] == '\n');
  }
}

/* In brief, the passed cases of an operator have one line. */
static void tn_test_print_passed(tn_test_runner *r) {
  if (r->n_passed == 0) return;
  printf("ok %d - %.*s: %d cases\n", ++r->n, (int)strcspn(r->title, ": "),
         r->title, r->n_passed);
  r->n_passed = 0;
}

static void tn_test_list_failure(tn_test_runner *r, const char *text) {
  if (r->n_failed < TN_TEST_LIST)
    (void)snprintf(r->list[r->n_failed], sizeof *r->list, "%s: %.*s", r->title,
                   (int)strcspn(text, "\n"), text);
  ++r->n_failed;
}

/* The line of a verdict. */
static void tn_test_print_verdict(tn_test_runner *r, uint32_t kind,
                                  const char *text) {
  const bool failed = kind == TN_TEST_FAIL || kind == TN_TEST_TO_COME;
  if (kind == TN_TEST_PASS && r->is_brief) {
    ++r->n_passed;
    printf("# ok: %s\n", r->title);
    return;
  }
  if (kind == TN_TEST_FAIL) tn_test_list_failure(r, text);
  printf("%sok %d - ", failed ? "not " : "", ++r->n);
  tn_test_print(r->title);
  if (kind == TN_TEST_FAIL && text[0] != '\0') printf(": ");
  if (kind == TN_TEST_SKIP) printf(" # SKIP ");
  if (kind == TN_TEST_TO_COME)
    printf(
        " # TO"
        "DO ");
  tn_test_print(text);
  putchar('\n');
  const size_t n = strcspn(text, "\n");
  if (text[n] == '\n') tn_test_print_comments(text + n + 1);
}

static bool tn_test_make_room(tn_test_runner *r, uint32_t step) {
  if (step < r->room) return true;
  const uint32_t room = 2 * step + 1024;
  tn_test_known *known =
      (tn_test_known *)realloc(r->known, room * sizeof *known);
  if (known == NULL) return false;
  memset(known + r->room, 0, (room - r->room) * sizeof *known);
  r->known = known;
  r->room = room;
  return true;
}

static void tn_test_take_begin(tn_test_runner *r, const tn_test_entry *e,
                               const char *title) {
  if (e->group != r->group) tn_test_print_passed(r);
  r->step = e->step;
  r->group = e->group < TN_TEST_GROUPS ? e->group : 0;
  r->dying[0] = '\0';
  (void)snprintf(r->title, sizeof r->title, "%s", title);
  if (e->step > r->n_known) r->n_known = e->step;
}

static void tn_test_take_verdict(tn_test_runner *r, const tn_test_entry *e,
                                 const char *text) {
  r->known[e->step].kind = (uint8_t)e->kind;
  r->known[e->step].calls = (uint8_t)e->calls;
  if (e->kind == TN_TEST_SKIP || e->kind == TN_TEST_LEFT_OUT)
    (void)snprintf(r->without, sizeof r->without, "%s", text);
  if (e->kind != TN_TEST_LEFT_OUT) {
    tn_test_print_verdict(r, e->kind, text);
  } else if (!r->is_brief) {
    printf("# left out: ");
    tn_test_print(r->title);
    printf(": ");
    tn_test_print(text);
    putchar('\n');
  }
}

/* Takes one record. False if it is none of the child's. */
static bool tn_test_take(tn_test_runner *r, const char *payload, size_t n) {
  tn_test_entry e;
  if (n < sizeof e + 2) return false;
  memcpy(&e, payload, sizeof e);
  const char *title = payload + sizeof e;
  const char *text = title + strlen(title) + 1;
  if (text > payload + n || !tn_test_make_room(r, e.step)) return false;
  if (e.kind == TN_TEST_BEGIN)
    tn_test_take_begin(r, &e, title);
  else if (e.kind == TN_TEST_COMMENT)
    tn_test_print_comments(text);
  else if (e.kind == TN_TEST_DYING)
    (void)snprintf(r->dying, sizeof r->dying, "%s", text);
  else if (e.kind == TN_TEST_END)
    r->has_ended = true;
  else if (e.kind == TN_TEST_BAIL)
    r->has_bailed = true, printf("Bail out! "), tn_test_print(text),
    putchar('\n');
  else
    tn_test_take_verdict(r, &e, text);
  return true;
}

/* ----------------------------------------------------------------- the child
 */

static void tn_test_send(tn_test *t, uint32_t kind, const char *text) {
  char payload[sizeof(tn_test_entry) + TN_TEST_TITLE + 4 * TN_TEST_TEXT];
  uint32_t calls = 0;
  for (uint32_t pass = 0; pass < 2; ++pass)
    if (t->n_calls[pass] > t->n_calls_before[pass]) calls |= 1u << pass;
  const tn_test_entry e = {kind, t->step, t->group, calls};
  memcpy(payload, &e, sizeof e);
  const int n = snprintf(payload + sizeof e, TN_TEST_TITLE, "%s",
                         kind == TN_TEST_BEGIN ? t->title : "");
  char *at = payload + sizeof e + n + 1;
  const size_t room = sizeof payload - (size_t)(at - payload);
  (void)snprintf(at, room, "%s", text);
  const size_t size = (size_t)(at - payload) + strlen(at) + 1;
  if (t->runner->is_here)
    (void)tn_test_take(t->runner, payload, size);
  else if (!tn_child_send(&t->writer, payload, size))
    _exit(TN_CHILD_CLOSED);
}

/* Releases all kept arrays but the first `n`. */
static void tn_test_release_to(tn_test *t, int n) {
  while (t->n_arrays > n) tn_array_release(t->arrays[--t->n_arrays]);
}

static void tn_test_release(tn_test *t) {
  tn_test_drop_notes(&t->notes);
  tn_test_release_to(t, 0);
}

static void tn_test_count(tn_test *t, uint32_t kind) {
  if (kind == TN_TEST_NOTHING || kind == TN_TEST_LEFT_OUT) return;
  ++t->n;
  if (kind == TN_TEST_FAIL || kind == TN_TEST_DIED) ++t->n_failed;
  if (kind == TN_TEST_SKIP) ++t->n_skipped;
  if (kind == TN_TEST_TO_COME) ++t->n_to_come;
}

/* Looks up whether an earlier child was here. */
static void tn_test_recall(tn_test *t) {
  const tn_test_runner *r = t->runner;
  t->known = NULL;
  if (r->is_here || t->step > r->n_known) return;
  t->known = &r->known[t->step];
  tn_test_count(t, t->known->kind);
  for (uint32_t pass = 0; pass < 2; ++pass)
    t->n_calls[pass] += (int)(t->known->calls >> pass & 1u);
}

/* Names the case that follows; ends the one before. False if an earlier child
 * was at the case already: then its calls must not be made again. */
static bool tn_test_begin(tn_test *t, const char *format, ...) TN_PRINTF(2, 3);
static bool tn_test_begin(tn_test *t, const char *format, ...) {
  va_list args;
  tn_test_release(t);
  va_start(args, format);
  const int n = vsnprintf(t->title, sizeof t->title, format, args);
  va_end(args);
  if (t->only != NULL && n >= 0 && (size_t)n < sizeof t->title)
    (void)snprintf(t->title + n, sizeof t->title - (size_t)n, " (%s)",
                   t->only->id);
  ++t->step;
  t->complaint[0] = '\0';
  t->random = tn_child_hash(t->seed + 1, t->title, strlen(t->title));
  t->notes.is_blind = (t->random >> 9 & 3) != 0;
  t->n_restored = tn_modes_restored(NULL);
  memcpy(t->n_calls_before, t->n_calls, sizeof t->n_calls);
  tn_test_recall(t);
  if (t->known == NULL) tn_test_send(t, TN_TEST_BEGIN, "");
  return t->known == NULL;
}

/* Whether an earlier child ended in the case. */
static bool tn_test_has_died(const tn_test *t) {
  return t->known != NULL && t->known->kind == TN_TEST_DIED;
}

/* Whether further cases of the same call tell more, by the known verdict. */
static bool tn_test_goes_on(const tn_test *t) {
  return t->known->kind != TN_TEST_SKIP && t->known->kind != TN_TEST_LEFT_OUT &&
         t->known->kind != TN_TEST_TO_COME;
}

/* Remembers a fault that is no wrong result; the first of a case counts. */
static void tn_test_complain(tn_test *t, const char *text) {
  if (t->complaint[0] == '\0')
    (void)snprintf(t->complaint, sizeof t->complaint, "%s", text);
}

/* Ends the case. A change beside the results fails it. */
static void tn_test_finish(tn_test *t, uint32_t kind, const char *text) {
  char changed[512], both[4 * TN_TEST_TEXT];
  if (t->known != NULL) {
    tn_test_release(t);
    return;
  }
  if (!t->runner->is_here &&
      !tn_watch_check(&t->watch, changed, sizeof changed))
    tn_test_complain(t, changed);
  if (t->complaint[0] != '\0') {
    (void)snprintf(both, sizeof both, "%s%s%s", t->complaint,
                   kind == TN_TEST_FAIL ? "\n" : "",
                   kind == TN_TEST_FAIL ? text : "");
    kind = TN_TEST_FAIL;
    text = both;
  }
  tn_test_count(t, kind);
  tn_test_send(t, kind, text);
  tn_test_release(t); /* memory that was overrun may end the program here */
}

static void tn_test_pass(tn_test *t) {
  tn_test_finish(t, TN_TEST_PASS, "");
}

static void tn_test_skip(tn_test *t, const char *why) {
  (void)snprintf(t->without, sizeof t->without, "%.1000s", why);
  tn_test_finish(t, TN_TEST_SKIP, t->without);
}

/* Types that cannot make a case: a comment. */
static void tn_test_leave_out(tn_test *t, const char *why) {
  (void)snprintf(t->without, sizeof t->without, "%.1000s", why);
  tn_test_finish(t, TN_TEST_LEFT_OUT, t->without);
}

static void tn_test_fail(tn_test *t, const char *format, ...) TN_PRINTF(2, 3);
static void tn_test_fail(tn_test *t, const char *format, ...) {
  va_list args;
  char text[TN_TEST_TEXT];
  va_start(args, format);
  (void)vsnprintf(text, sizeof text, format, args);
  va_end(args);
  tn_test_finish(t, TN_TEST_FAIL, text);
}

/* Forgets the failures of calls that may fail, such as that of a factor of a
 * matrix that has none: a later tn_wait_all would report them. */
static void tn_test_forget_failures(tn_test *t) {
  const tn_code rc = tn_wait_all(t->rt);
  (void)rc;
}

/* Ends a case after a call that failed. If no kernel offers
 * to make it, the case is skipped; a kernel that takes it and gives up has
 * failed. */
static void tn_test_fail_code(tn_test *t, tn_code rc) {
  char text[TN_TEST_TEXT];
  (void)snprintf(text, sizeof text, "%s", tn_error_text());
  const bool taken = strstr(text, "; in compute of kernel ") != NULL;
  for (char *c = text; *c != '\0'; ++c)
    if (*c == '\n') *c = ' ';
  if (rc == TN_UNSUPPORTED && taken)
    tn_test_fail(t,
                 "%s; say in `dtypes`, `when` or `supports` which calls the "
                 "kernel does not take",
                 text);
  else if (rc == TN_UNSUPPORTED)
    tn_test_skip(t, text);
  else if (rc == TN_UNIMPLEMENTED)
    tn_test_finish(t, TN_TEST_TO_COME, text);
  else
    tn_test_fail(t, "%s: %s", tn_code_name(rc), text);
}

/* -------------------------------------------------------------- last words */

static tn_test *tn_test_now; /* the child's, for handlers */
static char *tn_test_stack;  /* an address near the begin of its stack */

/* Names the operand beside which an access was. */
static void tn_test_describe_access(const char *address, char *out,
                                    size_t size) {
  const tn_test_region *r = tn_test_find_region(address);
  const ptrdiff_t depth = tn_test_stack - address;
  if (r != NULL && address < r->pages)
    (void)snprintf(out, size,
                   "the kernel read or wrote %zu bytes before the first "
                   "element of `%s`",
                   (size_t)(r->first - address), r->name ? r->name : "?");
  else if (r != NULL)
    (void)snprintf(out, size,
                   "the kernel read or wrote %zu bytes after the last element "
                   "of `%s`",
                   (size_t)(address - r->first - (ptrdiff_t)r->n) + 1,
                   r->name ? r->name : "?");
  else if (depth > -(1 << 16) && depth < 1 << 26)
    (void)snprintf(out, size, "the stack overflowed");
  else if ((uintptr_t)address < 65536)
    (void)snprintf(out, size,
                   "the kernel read or wrote through a NULL pointer");
  else
    (void)snprintf(out, size,
                   "the kernel read or wrote memory that is not "
                   "its own");
}

static void tn_test_die(int number, siginfo_t *info, void *context) {
  char text[512] = "";
  (void)context;
  (void)signal(number, SIG_DFL);
  if (number == SIGSEGV || number == SIGBUS)
    tn_test_describe_access((const char *)info->si_addr, text, sizeof text);
  tn_test_send(tn_test_now, TN_TEST_DYING, text);
  (void)raise(number);
}

/* Runs when the thread ends, which only pthread_exit can do. */
static void tn_test_end_thread(void *unused) {
  (void)unused;
  tn_test_send(tn_test_now, TN_TEST_DYING,
               "the kernel ended the calling thread (pthread_exit)");
  _exit(1);
}

/* Prepares the child's own death. */
static void tn_test_watch_deaths(tn_test *t) {
  static const int deaths[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
  static char stack[65536];
  static pthread_key_t key;
  const stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
  struct sigaction action;
  tn_test_now = t;
  tn_test_stack = (char *)&action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = tn_test_die;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  (void)sigaltstack(&other, NULL);
#ifndef __SANITIZE_ADDRESS__
  for (size_t i = 0; i < sizeof deaths / sizeof *deaths; ++i)
    (void)sigaction(deaths[i], &action, NULL);
#endif
  if (pthread_key_create(&key, tn_test_end_thread) == 0)
    (void)pthread_setspecific(key, t);
}

#endif /* TENON_TEST_REPORT_H_ */
