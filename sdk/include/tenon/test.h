/* SPDX-License-Identifier: Apache-2.0
 * test.h: what the tests that `opgen generate --tests` writes are made of. The
 * generated file holds the examples of the manifests as text, this header runs
 * them through the host API, so that a plugin is tested as it will be used.
 * Header only, C11; one program includes it once, links libtenon and the
 * mathematical library, and calls tn_test_main.
 *
 *   acme_test PLUGIN.so [OTHER.so ...] [--seed N]
 *
 * loads the files in this order (others hold operators that gradients call, or
 * kernels for another device; operators that they say they replace are
 * replaced), and prints TAP, a line per case; the exit
 * status is 1 if a case failed. For every operator
 * - each example runs on every device that the runtime has, with every
 *   combination of element types that the operator takes, into new and given
 *   arrays, added, in place, and with outputs that nobody wants; on dense
 *   arrays, on transposed and on stepped views; and with inputs whose elements
 *   repeat (stride 0), which must give what their dense copies give;
 * - the gradients that an example states are compared in the same way;
 * - gradients are compared with difference quotients (test_gradient.h).
 * For an operator of another plugin all this is done with each kernel that the
 * tested plugin has for it, pinned, on the device of that kernel, with the
 * types that it takes. A kernel that no example made compute has failed, unless
 * its plugin withdrew it here, with a reason.
 *
 * Numbers that a type cannot hold, and gradients of integers that no kernel
 * has, are no case: a comment says which and why. A case that no kernel takes
 * (TN_UNSUPPORTED) is `ok ... # SKIP` with the reason; an operator of which no
 * case was computed has failed, unless it has no kernel for a device that is
 * there, and so has one whose gradient calls an operator that is not there. A
 * kernel that
 * is not written yet (TN_UNIMPLEMENTED) is a `not ok` with TAP's directive for
 * what is still to come, which does not count as a failure.
 *
 * files: test.h            tables, TAP, tn_test_main
 *        test_value.h      numbers, arrays and views of them
 *        test_example.h    the cases of an example
 *        test_gradient.h   difference quotients
 */
#ifndef TENON_TEST_H_
#define TENON_TEST_H_

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tenon/gradient.h"
#include "tenon/tenon.h"

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
  const char *outputs;   /* what must come out; others are not compared */
  const char *out_grads; /* of the outputs, given */
  const char *in_grads;  /* of the inputs, what must come out */
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

/* How far a result may lie from what was expected, as a part of the larger of 1
 * and its magnitude. An example's `tol` replaces it; of the half types the
 * larger of both counts. */
typedef struct tn_test_type {
  tn_dtype dtype;
  const char *name;
  double tolerance;
} tn_test_type;

enum { TN_TEST_N_TYPES = 13 };
/* In the order of TN_BIT_*. */
static const tn_test_type tn_test_types[TN_TEST_N_TYPES] = {
    {TN_F16, "f16", 5e-3},  {TN_BF16, "bf16", 4e-2}, {TN_F32, "f32", 1e-5},
    {TN_F64, "f64", 1e-10}, {TN_I8, "i8", 0},        {TN_I16, "i16", 0},
    {TN_I32, "i32", 0},     {TN_I64, "i64", 0},      {TN_U8, "u8", 0},
    {TN_U16, "u16", 0},     {TN_U32, "u32", 0},      {TN_U64, "u64", 0},
    {TN_BOOL, "bool", 0}};

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

/* --------------------------------------------------------------------- TAP */

enum { TN_TEST_TITLE = 256, TN_TEST_SCRATCH = 512 };

/* A run of the tests, and the case that it is at. */
typedef struct tn_test {
  tn_runtime *rt;
  uint64_t seed;
  uint64_t random; /* state of the numbers drawn */
  int n;           /* cases so far */
  int n_failed;
  int n_skipped;
  int n_to_come;
  char without[1024];    /* why the last one that was not computed was not */
  const tn_kernel *only; /* the one that is tried; NULL: whichever is chosen */
  int n_calls[2];        /* by pass: calls that a kernel took */
  char title[TN_TEST_TITLE];
  /* Released when the case is over. */
  tn_array *arrays[TN_TEST_SCRATCH];
  int n_arrays;
} tn_test;

/* Text of others, on one line and without what TAP reads as a directive. */
static void tn_test_print(const char *text) {
  for (; *text != '\0'; ++text) {
    if (*text == '\n')
      text += strspn(text, "\n ") - 1, putchar(' ');
    else
      putchar(*text == '#' ? '_' : *text);
  }
}

/* Releases what was kept since there were so many. */
static void tn_test_release_to(tn_test *t, int n) {
  while (t->n_arrays > n) tn_array_release(t->arrays[--t->n_arrays]);
}

static void tn_test_release(tn_test *t) {
  tn_test_release_to(t, 0);
}

/* Names the case that follows; ends the one before. */
static void tn_test_begin(tn_test *t, const char *format, ...) TN_PRINTF(2, 3);
static void tn_test_begin(tn_test *t, const char *format, ...) {
  va_list args;
  tn_test_release(t);
  va_start(args, format);
  const int n = vsnprintf(t->title, sizeof t->title, format, args);
  va_end(args);
  if (t->only != NULL && n >= 0 && (size_t)n < sizeof t->title)
    (void)snprintf(t->title + n, sizeof t->title - (size_t)n, " (%s)",
                   t->only->id);
}

static void tn_test_line(tn_test *t, const char *word, const char *directive,
                         const char *why) {
  printf("%s %d - ", word, ++t->n);
  tn_test_print(t->title);
  if (directive != NULL) printf(" # %s ", directive);
  if (why != NULL) tn_test_print(why);
  putchar('\n');
}

static void tn_test_pass(tn_test *t) {
  tn_test_line(t, "ok", NULL, NULL);
  tn_test_release(t);
}

static void tn_test_skip(tn_test *t, const char *why) {
  ++t->n_skipped;
  (void)snprintf(t->without, sizeof t->without, "%s", why);
  tn_test_line(t, "ok", "SKIP", why);
  tn_test_release(t);
}

/* What cannot be a case, by the nature of its types: a comment. */
static void tn_test_leave_out(tn_test *t, const char *why) {
  (void)snprintf(t->without, sizeof t->without, "%s", why);
  printf("# left out: ");
  tn_test_print(t->title);
  printf(": ");
  tn_test_print(why);
  putchar('\n');
  tn_test_release(t);
}

static void tn_test_fail(tn_test *t, const char *format, ...) TN_PRINTF(2, 3);
static void tn_test_fail(tn_test *t, const char *format, ...) {
  va_list args;
  char text[1024];
  va_start(args, format);
  (void)vsnprintf(text, sizeof text, format, args);
  va_end(args);
  ++t->n_failed;
  tn_test_line(t, "not ok", NULL, NULL);
  for (char *s = text; s != NULL && *s != '\0';) {
    char *end = strchr(s, '\n');
    if (end != NULL) *end = '\0';
    printf("# %s\n", s);
    s = end != NULL ? end + 1 : NULL;
  }
  tn_test_release(t); /* memory that was overrun may end the program here */
}

static void tn_test_to_come(tn_test *t, const char *why) {
  ++t->n_to_come;
  tn_test_line(t, "not ok",
               "TO"
               "DO",
               why);
  tn_test_release(t);
}

/* The end of a case whose call did not succeed. Nobody takes a call that no
 * kernel offers to make; one that takes it and then gives up has failed. */
static void tn_test_fail_code(tn_test *t, tn_code rc) {
  char text[1024];
  (void)snprintf(text, sizeof text, "%s", tn_error_text());
  const bool taken = strstr(text, "; in compute of kernel ") != NULL;
  if (rc == TN_UNSUPPORTED && taken)
    tn_test_fail(t,
                 "%s; say in `dtypes`, `when` or `supports` which calls the "
                 "kernel does not take",
                 text);
  else if (rc == TN_UNSUPPORTED)
    tn_test_skip(t, text);
  else if (rc == TN_UNIMPLEMENTED)
    tn_test_to_come(t, text);
  else
    tn_test_fail(t, "%s: %s", tn_code_name(rc), text);
}

#include "tenon/test_value.h"

#include "tenon/test_example.h"
#include "tenon/test_gradient.h"

/* -------------------------------------------------------------------- main */

/* Whether the runtime has a device of the type. */
static bool tn_test_has_device(const tn_test *t, int32_t device_type) {
  tn_device_entry device;
  for (size_t i = 0; tn_device_at(t->rt, i, &device) == TN_OK; ++i)
    if (device.device_type == device_type && device.count > 0) return true;
  return false;
}

/* Whether a loaded kernel of the operator is for a device that is there. */
static bool tn_test_has_kernel(const tn_test *t, const tn_operator *op) {
  tn_plugin_info info;
  for (size_t i = 0; tn_plugin_at(t->rt, i, &info) == TN_OK; ++i) {
    for (uint32_t j = 0; j < info.plugin->n_kernels; ++j) {
      const tn_kernel *kernel = info.plugin->kernels[j];
      if (strcmp(kernel->op, tn_operator_name(op)) == 0 &&
          tn_test_has_device(t, kernel->device_type))
        return true;
    }
  }
  return false;
}

/* Examples that nobody computes prove nothing. */
static void tn_test_run_examples(tn_test *t, tn_operator *op,
                                 const tn_test_operator *which) {
  const int n = t->n, n_skipped = t->n_skipped;
  t->without[0] = '\0';
  for (size_t i = 0; i < which->n_examples; ++i)
    tn_test_run_example(t, op, &which->examples[i]);
  const bool ran = t->n - n > t->n_skipped - n_skipped;
  if (ran || which->n_examples == 0 || !tn_test_has_kernel(t, op)) return;
  tn_test_begin(t, "%s: an example that runs", which->name);
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
      tn_test_begin(t, "%s: operators that its gradient calls",
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

/* ------------------------------------------- kernels for others' operators */

/* The kernel of that id, of one pass or the other; NULL if there is none. */
static const tn_kernel *tn_test_find_kernel(const tn_test *t, const char *id,
                                            uint32_t pass) {
  tn_plugin_info info;
  for (size_t i = 0; tn_plugin_at(t->rt, i, &info) == TN_OK; ++i)
    for (uint32_t j = 0; j < info.plugin->n_kernels; ++j)
      if (info.plugin->kernels[j]->pass == pass &&
          strcmp(info.plugin->kernels[j]->id, id) == 0)
        return info.plugin->kernels[j];
  return NULL;
}

/* A kernel that no call was given to proves nothing; of two passes one may be
 * for calls that examples do not make, as those of training if none says so. */
static void tn_test_expect_calls(tn_test *t, const char *op) {
  static const char *const names[] = {"forward", "backward"};
  bool took = false;
  for (uint32_t pass = 0; pass < 2; ++pass)
    took |= t->n_calls[pass] > 0 &&
            tn_test_find_kernel(t, t->only->id, pass) != NULL;
  for (uint32_t pass = 0; pass < 2; ++pass) {
    char why[sizeof t->without + 256];
    if (t->n_calls[pass] > 0 ||
        tn_test_find_kernel(t, t->only->id, pass) == NULL)
      continue;
    (void)snprintf(why, sizeof why,
                   "this kernel took no %s call of any example: write "
                   "`examples` beside it, with calls that it takes; the last "
                   "one was not computed because: %s",
                   names[pass], t->without[0] != '\0' ? t->without : "?");
    tn_test_begin(t, "%s: an example that runs %s", op, names[pass]);
    if (took)
      tn_test_skip(t, why);
    else
      tn_test_fail(t, "%s", why);
  }
}

/* The examples, with this kernel alone for the passes that it has. */
static void tn_test_run_pinned(tn_test *t, tn_operator *op,
                               const tn_test_operator *which) {
  const int n_failed = t->n_failed, n_to_come = t->n_to_come;
  t->without[0] = '\0';
  t->n_calls[0] = t->n_calls[1] = 0;
  for (size_t i = 0; i < which->n_examples; ++i)
    tn_test_run_example(t, op, &which->examples[i]);
  if (t->only->device_type == TN_DEVICE_CPU) tn_test_run_gradient(t, op, which);
  if (t->n_failed > n_failed || t->n_to_come > n_to_come) return;
  tn_test_expect_calls(t, which->name);
}

/* Whether its plugin withdrew the kernel, and why. Hosts are told in a line of
 * the explanation: "  - ID ...  | withdrawn: WHY". */
static bool tn_test_is_withdrawn(tn_operator *op, const char *id, char *why,
                                 size_t size) {
  static const char begin[] = "  - ", mark[] = "| withdrawn: ";
  const size_t n_begin = strlen(begin), n_id = strlen(id);
  tn_text *text = NULL;
  bool found = false;
  if (tn_operator_explain(op, NULL, NULL, &text) != TN_OK) return false;
  for (const char *line = tn_text_get(text); *line != '\0' && !found;) {
    const size_t n = strcspn(line, "\n");
    const char *at = strstr(line, mark);
    found = at != NULL && at < line + n && n > n_begin + n_id &&
            strncmp(line, begin, n_begin) == 0 &&
            strncmp(line + n_begin, id, n_id) == 0 &&
            line[n_begin + n_id] == ' ';
    if (found)
      (void)snprintf(why, size, "its plugin withdrew it: %.*s",
                     (int)(line + n - at - (ptrdiff_t)strlen(mark)),
                     at + strlen(mark));
    line += n + (line[n] == '\n' ? 1 : 0);
  }
  tn_text_release(text);
  return found;
}

static void tn_test_run_kernel(tn_test *t, tn_operator *op,
                               const tn_test_operator *which, const char *id) {
  const tn_kernel *kernel = tn_test_find_kernel(t, id, TN_PASS_FORWARD);
  char why[512];
  if (kernel == NULL) kernel = tn_test_find_kernel(t, id, TN_PASS_BACKWARD);
  t->only = kernel;
  tn_test_begin(t, "%s", which->name);
  if (kernel == NULL)
    tn_test_fail(t,
                 "no plugin on the command line has the kernel %s: is this "
                 "one there, as it was built last?",
                 id);
  else if (which->n_examples == 0)
    tn_test_skip(t,
                 "no example of it is known: say `opgen generate --tests "
                 "--with FOLDER`, the folder of its manifests, or write "
                 "`examples` beside the kernel");
  else if (!tn_test_has_device(t, kernel->device_type))
    tn_test_skip(t, "there is no device for it here");
  else if (tn_test_is_withdrawn(op, id, why, sizeof why))
    tn_test_skip(t, why);
  else if (tn_operator_pin(op, id) != TN_OK)
    tn_test_fail(t, "%s", tn_error_text());
  else
    tn_test_run_pinned(t, op, which);
  t->only = NULL;
  if (tn_operator_pin(op, NULL) != TN_OK) tn_test_fail_code(t, TN_INTERNAL);
}

static void tn_test_run_operator(tn_test *t, const tn_test_operator *which) {
  tn_operator *op = NULL;
  tn_test_begin(t, "%s", which->name);
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

/* True if the words of the command line are files that load. */
static bool tn_test_load(tn_test *t, int argc, char **argv) {
  tn_code rc = TN_OK;
  int n = 0;
  for (int i = 1; i < argc && rc == TN_OK; ++i) {
    if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
      t->seed = strtoull(argv[++i], NULL, 10);
      continue;
    }
    ++n;
    rc = tn_plugin_load(t->rt, argv[i]);
  }
  if (rc != TN_OK) printf("Bail out! %s\n", tn_error_text());
  if (n == 0) fprintf(stderr, "usage: %s PLUGIN... [--seed N]\n", argv[0]);
  return rc == TN_OK && n > 0;
}

/* The title of the case that runs, for who ends the process. */
static const char *tn_test_now = "";

static void tn_test_died(int number) {
  const char *parts[] = {"not ok - ", tn_test_now, "\n",
                         "# a kernel ended the process here; it may have read "
                         "or written beside its arrays\n"};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; ++i)
    if (write(STDOUT_FILENO, parts[i], strlen(parts[i])) < 0) break;
  (void)signal(number, SIG_DFL);
  (void)raise(number);
}

/* The whole program: exit status 0 if nothing failed, 1 if a case did, 2 if
 * there was nothing to run. [host-thread] */
static int tn_test_main(const tn_test_plugin *plugin, int argc, char **argv) {
  static tn_test t;
  const tn_options options = {.struct_size = sizeof options,
                              .trust = TN_TRUST_REPLACE};
  static const int deaths[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
  t.seed = 1;
  tn_test_now = t.title;
  (void)setvbuf(stdout, NULL, _IOLBF, 0); /* a kernel may crash */
  for (size_t i = 0; i < sizeof deaths / sizeof *deaths; ++i)
    (void)signal(deaths[i], tn_test_died);
  if (tn_runtime_create(&options, &t.rt) != TN_OK) {
    printf("Bail out! %s\n", tn_error_text());
    return 2;
  }
  const bool loaded = tn_test_load(&t, argc, argv);
  if (loaded) {
    printf("# plugin %s; random points of seed %" PRIu64 "\n", plugin->name,
           t.seed);
    for (size_t i = 0; i < plugin->n_operators; ++i)
      tn_test_run_operator(&t, &plugin->operators[i]);
    tn_test_release(&t);
    printf("1..%d%s\n", t.n,
           t.n == 0 ? " # SKIP it has neither operators nor kernels" : "");
  }
  tn_runtime_release(t.rt);
  return !loaded ? 2 : t.n_failed > 0;
}

#endif /* TENON_TEST_H_ */
