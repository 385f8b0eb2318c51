/* SPDX-License-Identifier: Apache-2.0
 * A wrong binding fails in a process of its own: each kind is refused with its
 * own message, and the host goes on.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lab.h"

/* Loads `text`, which must fail with this message within some time, and leave
 * nothing.
 */
static void refused_within(uint32_t seconds, const char *text, tn_code code,
                           const char *part) {
  const tn_options options = {.struct_size = sizeof options,
                              .probe_seconds = seconds};
  tn_plugin_info info;
  tn_operator *op = NULL;
  lab l;
  lab_open(&l, &options);
  FAILS(lab_load(&l, text), code, part);
  cr_expect_eq(tn_plugin_at(l.rt, 0, &info), TN_NOT_FOUND);
  cr_expect_eq(tn_operator_at(l.rt, 0, &op), TN_NOT_FOUND);
  lab_close(&l);
}

static void refused(const char *text, tn_code code, const char *part) {
  refused_within(60, text, code, part);
}

Test(probe, a_function_that_crashes_takes_another_process_down) {
  refused(lab_simple("lib_crash"), TN_PLUGIN,
          "died of SIGSEGV (Segmentation fault) in example `doc` of "
          "lab.simple; compare `binding: args`");
}

Test(probe, a_function_that_aborts_is_named_with_its_example) {
  refused(lab_simple("lib_abort"), TN_PLUGIN,
          "died of SIGABRT (Aborted) in example `doc` of lab.simple");
}

/* Twice its input, with a gradient that is a call of itself on `of`. */
static const char *twice(const char *of) {
  static char text[1024];
  (void)snprintf(text, sizeof text,
                 "opgen: 1\n"
                 "op: twice\n"
                 "summary: Twice its input\n"
                 "inputs: [{name: x, dtype: f32}]\n"
                 "outputs: [{name: out, dtype: f32, shape: x}]\n"
                 "binding:\n"
                 "  library: \"@\"\n"
                 "  symbol: lib_twice\n"
                 "  thread: any\n"
                 "  args:\n"
                 "    - {c: int64, pass: size(x)}\n"
                 "    - {c: const float*, pass: x}\n"
                 "    - {c: float*, pass: out}\n"
                 "gradient: {graph: {x: \"lab.twice(%s)\"}}\n"
                 "examples: [{name: doc, x: [1, 2], out: [2, 4], "
                 "grad: {out: [1, 3], x: [2, 6]}}]\n",
                 of);
  return text;
}

Test(probe, a_gradient_that_an_example_states_is_compared) {
  lab l;
  lab_open(&l, NULL);
  OK(lab_load(&l, twice("grad.out")));
  lab_close(&l);
  refused(twice("lab.twice(grad.out)"), TN_PLUGIN,
          "example `doc` of lab.twice: element 0 of `grad.x` is 4, expected 2");
}

Test(probe, an_exit_with_status_0_is_no_success) {
  refused(lab_simple("lib_exit"), TN_PLUGIN,
          "ended with status 0 in example `doc` of lab.simple, without having "
          "finished");
}

Test(probe, a_function_that_never_returns_has_a_time_limit) {
  refused_within(5, lab_simple("lib_hang"), TN_PLUGIN,
                 "did not end within 5 seconds, in example `doc` of "
                 "lab.simple");
}

Test(probe, a_verdict_that_does_not_arrive_is_no_success) {
  refused(lab_simple("lib_silence"), TN_PLUGIN, "without having finished");
}

Test(probe, a_forged_verdict_is_no_success) {
  refused(lab_simple("lib_forge"), TN_PLUGIN,
          "something wrote on a file of this process in example `doc` of "
          "lab.simple");
}

Test(probe, a_function_that_stops_its_group_has_a_time_limit) {
  refused_within(
      5, lab_simple("lib_stop"), TN_PLUGIN,
      "did not end within 5 seconds, in example `doc` of lab.simple");
}

/* Whether a process of this name runs. */
static bool runs(const char *name) {
  DIR *processes = opendir("/proc");
  const struct dirent *each = NULL;
  bool any = false;
  cr_assert_not_null(processes);
  while ((each = readdir(processes)) != NULL) {
    char path[300], text[64] = "";
    (void)snprintf(path, sizeof path, "/proc/%s/comm", each->d_name);
    FILE *file = fopen(path, "r");
    if (file == NULL) continue;
    if (fgets(text, sizeof text, file) == NULL) text[0] = '\0';
    any = any || strncmp(text, name, strlen(name)) == 0;
    (void)fclose(file);
  }
  (void)closedir(processes);
  return any;
}

Test(probe, a_process_that_a_function_leaves_is_ended) {
  refused(lab_simple("lib_daemon"), TN_PLUGIN,
          "left another one, which was ended");
  cr_expect_not(runs("lib-daemon"));
}

Test(probe, a_wrong_result_is_shown_beside_the_expected_one) {
  char text[1024];
  strcpy(text, lab_simple("lib_square"));
  char *narrow = strstr(text, "int32, pass");
  memcpy(narrow, "int16", 5);
  refused(text, TN_PLUGIN,
          "op.yaml: example `doc` of lab.simple: element 1 of `out` is 4, "
          "expected 2");
}

/* --------------------------------------------- prototypes that seem to work */

Test(probe, a_count_that_is_wider_in_the_library_is_found) {
  refused(lab_simple("lib_copy"), TN_PLUGIN, "element 0 of `out` is");
}

/* lib_shift, with its second argument of this type; borrowed. */
static const char *shift_by(const char *type) {
  static char text[1200];
  char more[64];
  const int n = snprintf(more, sizeof more, "    - {c: %s, pass: 0}\n", type);
  strcpy(text, lab_simple("lib_shift"));
  char *at = strstr(text, "    - {c: const float*");
  memmove(at + n, at, strlen(at) + 1);
  memcpy(at, more, (size_t)n);
  return text;
}

Test(probe, a_number_that_is_wider_in_the_library_is_found) {
  lab l;
  refused(shift_by("float"), TN_PLUGIN,
          "element 0 of `out` is nan, expected 1");
  lab_open(&l, NULL);
  OK(lab_load(&l, shift_by("double")));
  lab_close(&l);
}

Test(probe, an_argument_that_is_missing_is_found) {
  refused(lab_simple("lib_every"), TN_PLUGIN, "died of SIGSEGV");
}

Test(probe, an_output_that_is_taken_for_zeros_is_found) {
  char text[1024];
  strcpy(text, lab_simple("lib_sparse"));
  memcpy(strstr(text, "x: [1, 2, 3]"), "x: [1, 0, 3]", 12);
  memcpy(strstr(text, "out: [1, 2, 3]"), "out: [1, 0, 3]", 14);
  refused(text, TN_PLUGIN, "element 1 of `out` is");
}

Test(probe, writes_beside_an_output_are_found) {
  refused(lab_simple("lib_behind"), TN_PLUGIN, "died of SIGSEGV");
  refused(lab_simple("lib_before"), TN_PLUGIN,
          "lib_before writes beside the memory of `out`, argument 3");
}

Test(probe, reads_after_an_input_are_found) {
  refused(lab_simple("lib_peek"), TN_PLUGIN, "died of SIGSEGV");
}

Test(probe, a_function_that_writes_its_input_is_found) {
  refused(lab_simple("lib_touch"), TN_PLUGIN, "died of SIGSEGV");
}

Test(probe, a_library_that_is_not_there_is_named) {
  char text[1200];
  strcpy(text, lab_simple("lib_square"));
  char *at = strstr(text, "\"@\"");
  memmove(at + 22, at + 3, strlen(at + 3) + 1);
  memcpy(at, "[libone.so, libtwo.so]", 22);
  refused(text, TN_NOT_FOUND,
          "no library of the binding of simple can be opened; install one of "
          "them: libone.so: cannot open shared object file");
}

Test(probe, a_function_that_is_not_there_is_named) {
  refused(lab_simple("lib_squared"), TN_NOT_FOUND,
          "has no function lib_squared, which simple is bound to");
}

Test(probe, a_library_that_crashes_when_it_is_opened_is_no_danger) {
  char text[1200];
  strcpy(text, lab_simple("lib_square"));
  char *at = strstr(text, "@");
  const size_t n = strlen(DOOMED_FILE);
  memmove(at + n, at + 1, strlen(at + 1) + 1);
  memcpy(at, DOOMED_FILE, n);
  refused(text, TN_PLUGIN,
          "died of SIGABRT (Aborted) before the first example");
}

Test(probe, mistakes_in_a_manifest_are_shown_as_opgen_does) {
  refused("opgen: 1\nop: simple\n", TN_PLUGIN,
          "op.yaml:1:1: error[E0011]: an operator needs `summary`");
}

Test(probe, manifests_to_compile_are_not_loaded) {
  refused(
      "opgen: 1\nop: twice\nsummary: Twice\n"
      "inputs: [{name: x, dtype: f32}]\n"
      "outputs: [{name: out, dtype: f32, shape: x}]\n"
      "kernels: [{device: cpu, forward: lab_twice}]\n",
      TN_PLUGIN, "operator twice has kernels written in C; only opgen");
  refused(
      "opgen: 1\nop: twice\nsummary: Twice\n"
      "inputs: [{name: x, dtype: f32}]\n"
      "outputs: [{name: out, dtype: f32, shape: x}]\n"
      "forward: {out: 2*x}\n"
      "kernels: [{device: cpu, forward: lab_twice}]\n",
      TN_PLUGIN, "operator twice has kernels written in C; only opgen");
}

/* Any thread of the host may wait for its children, or none. */
Test(probe, a_host_that_ignores_its_children_loses_nothing) {
  lab l;
  cr_assert_neq(signal(SIGCHLD, SIG_IGN), SIG_ERR);
  lab_open(&l, NULL);
  FAILS(lab_load(&l, lab_simple("lib_crash")), TN_PLUGIN,
        "without having finished");
  OK(lab_load(&l,
              "opgen: 1\nop: sum\nsummary: Sum of all elements\n"
              "inputs: [{name: x, dtype: f64, shape: [R, C]}]\n"
              "outputs: [{name: out, dtype: f64, shape: []}]\n"
              "binding:\n"
              "  library: \"@\"\n"
              "  symbol: lib_sum\n"
              "  returns: {c: double, to: out}\n"
              "  args:\n"
              "    - {c: int64, pass: R}\n"
              "    - {c: int64, pass: C}\n"
              "    - {c: const double*, pass: x}\n"
              "examples: [{name: doc, x: [[1, 2], [3, 4]], out: 10}]\n"));
  lab_close(&l);
}

Test(probe, a_host_that_trusts_its_bindings_does_without) {
  const tn_options options = {.struct_size = sizeof options,
                              .trust = TN_TRUST_BINDINGS};
  lab l;
  lab_open(&l, &options);
  OK(lab_load(&l, lab_simple("lib_abort")));
  lab_close(&l);
}
