/* SPDX-License-Identifier: Apache-2.0
 * test_refused.c: plugins and callbacks that break their contract get an error,
 * and log lines below the chosen level are dropped.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../by_hand.h"
#include "probe.h"
#include "tenon/draft/pass.h"
#include "tenon/graph.h"

static void expect_text(const char *part) {
  cr_assert_not_null(strstr(tn_error_text(), part), "\"%s\" is missing in: %s",
                     part, tn_error_text());
}

/* --------------------------------------------------------------- the log */

static char logged[4096];

static void keep_line(void *ctx, int32_t level, const char *line) {
  const size_t n = strlen(logged);
  (void)ctx;
  (void)snprintf(logged + n, sizeof logged - n, "%d %s\n", level, line);
}

static tn_runtime *open_logging(uint32_t level) {
  const tn_options options = {
      .struct_size = sizeof options, .log = keep_line, .log_level = level};
  tn_runtime *rt = NULL;
  logged[0] = '\0';
  cr_assert_eq(tn_runtime_create(&options, &rt), TN_OK, "%s", tn_error_text());
  return rt;
}

static int32_t log_all_levels(const tn_host *host, tn_registrar *registrar,
                              void **i) {
  (void)registrar;
  *i = NULL;
  for (int32_t level = TN_LOG_ERROR; level <= TN_LOG_DEBUG; ++level)
    host->log(host, level, "level");
  return TN_OK;
}

static const tn_plugin talker = {PLUGIN_BY_HAND("talker", 1, "Logs"),
                                 .init = log_all_levels};

Test(refused, debug_lines_are_off_by_default) {
  tn_runtime *rt = open_logging(0);
  cr_assert_eq(tn_plugin_add(rt, &talker), TN_OK, "%s", tn_error_text());
  cr_assert_str_eq(logged,
                   "1 talker: level\n2 talker: level\n3 talker: level\n");
  tn_runtime_release(rt);
}

Test(refused, the_level_of_the_log_can_be_set) {
  tn_runtime *rt = open_logging(TN_LOG_DEBUG);
  cr_assert_eq(tn_plugin_add(rt, &talker), TN_OK);
  cr_assert_not_null(strstr(logged, "4 talker: level\n"));
  tn_runtime_release(rt);
  rt = open_logging(TN_LOG_ERROR);
  cr_assert_eq(tn_plugin_add(rt, &talker), TN_OK);
  cr_assert_str_eq(logged, "1 talker: level\n");
  tn_runtime_release(rt);
  const tn_options wrong = {.struct_size = sizeof wrong, .log_level = 5};
  cr_assert_eq(tn_runtime_create(&wrong, &rt), TN_INVALID);
  expect_text("tn_options.log_level is 5");
}

/* -------------------------------------------------------------- NULL texts */

static int32_t withdraw_nothing(const tn_host *host, tn_registrar *registrar,
                                void **i) {
  (void)host;
  *i = NULL;
  return registrar->withdraw(registrar, NULL, "no id") == TN_INVALID
             ? TN_OK
             : TN_INTERNAL;
}

static const tn_plugin withdrawer = {PLUGIN_BY_HAND("withdrawer", 1, "Errs"),
                                     .init = withdraw_nothing};

static int32_t ask_for_nothing(const tn_host *host, tn_registrar *registrar,
                               void **i) {
  (void)registrar;
  *i = NULL;
  return host->extension(host, NULL) ? TN_INTERNAL : TN_OK;
}

static const tn_plugin asker = {PLUGIN_BY_HAND("asker", 1, "Errs"),
                                .init = ask_for_nothing};

Test(refused, texts_of_plugins_may_not_be_null) {
  tn_runtime *rt = open_logging(0);
  cr_assert_eq(tn_plugin_add(rt, &withdrawer), TN_INVALID);
  expect_text("the id of the kernel is NULL");
  cr_assert_eq(tn_plugin_add(rt, &asker), TN_OK, "%s", tn_error_text());
  cr_assert_not_null(strstr(logged, "an extension with a NULL id"), "%s",
                     logged);
  tn_runtime_release(rt);
}

static const tn_passes *passes;

static int32_t ask_for_null(void *ctx, tn_rewrite *net) {
  uint32_t node = 0;
  tn_entry out;
  (void)ctx;
  const tn_rewrite_call call = {.struct_size = sizeof call};
  if (passes->find(net, NULL, &node) != TN_INVALID || node != TN_NONE ||
      passes->attribute(net, 0, NULL) != NULL ||
      passes->call(net, &call, &out) != TN_INVALID)
    return TN_INTERNAL;
  return passes->attribute_set(net, 0, NULL, "1");
}

static int32_t add_pass(const tn_host *host, tn_registrar *registrar,
                        void **i) {
  static const tn_pass pass = {
      .struct_size = sizeof pass, .name = "null", .run = ask_for_null};
  *i = NULL;
  passes = host->extension(host, TN_PASS_EXTENSION);
  return passes->add(registrar, &pass);
}

static const tn_plugin pass_plugin = {PLUGIN_BY_HAND("passing", 1, "A pass"),
                                      .init = add_pass};

Test(refused, texts_of_passes_may_not_be_null) {
  tn_runtime *rt = open_logging(0);
  tn_graph *net = NULL, *other = NULL;
  tn_entry x;
  const char *name = "passing.null";
  cr_assert_eq(tn_plugin_add(rt, &pass_plugin), TN_OK, "%s", tn_error_text());
  cr_assert_eq(tn_graph_create(rt, &net), TN_OK);
  cr_assert_eq(tn_graph_variable(net, "x", NULL, &x), TN_OK);
  cr_assert_eq(tn_graph_heads_set(net, &x, 1), TN_OK);
  cr_assert_eq(tn_graph_apply(net, &name, 1, &other), TN_INVALID);
  expect_text("tn_passes.attribute_set: `key` is NULL");
  tn_graph_release(net);
  tn_runtime_release(rt);
}

/* ---------------------------------------------------------------- messages */

static int32_t provide_twice(const tn_host *host, tn_registrar *registrar,
                             void **i) {
  static const int table = 1;
  (void)host;
  *i = NULL;
  const int32_t rc = registrar->provide(registrar, "twice.count/1", &table);
  return rc ? rc : registrar->provide(registrar, "twice.count/1", &table);
}

static int32_t withdraw_unknown(const tn_host *host, tn_registrar *registrar,
                                void **i) {
  (void)host;
  *i = NULL;
  return registrar->withdraw(registrar, "acme.nothing.cpu", "it is not there");
}

static const tn_plugin provider = {PLUGIN_BY_HAND("twice", 1, "Provides"),
                                   .init = provide_twice};
static const tn_plugin stranger = {PLUGIN_BY_HAND("stranger", 1, "Withdraws"),
                                   .init = withdraw_unknown};

Test(refused, an_init_without_a_reason_gets_the_reason_of_the_host) {
  tn_runtime *rt = open_logging(0);
  cr_assert_eq(tn_plugin_add(rt, &provider), TN_EXISTS);
  expect_text(
      "\"twice.count/1\" is provided already, by this or another plugin");
  cr_assert_eq(tn_plugin_add(rt, &stranger), TN_NOT_FOUND);
  expect_text(
      "\"acme.nothing.cpu\" is withdrawn, but the plugin has no kernel");
  tn_runtime_release(rt);
}

static void refuses_json(tn_runtime *rt, const char *json, const char *part) {
  tn_graph *net = NULL;
  cr_assert_neq(tn_graph_parse(rt, json, strlen(json), &net), TN_OK);
  expect_text(part);
}

Test(refused, messages_about_graphs_are_whole) {
  tn_runtime *rt = open_logging(0);
  refuses_json(rt, "{\"tenon\": 1, \"tenon\": 1}",
               "there are two keys `tenon`");
  char json[6000], name[4200];
  memset(name, 'x', sizeof name - 1);
  name[sizeof name - 1] = '\0';
  (void)snprintf(json, sizeof json,
                 "{\"tenon\": 1, \"plugins\": [], \"nodes\": [{\"name\": "
                 "\"a\", \"kind\": \"call\", \"op\": \"p.%s@1\", "
                 "\"inputs\": []}], \"heads\": [[0, 0]]}",
                 name);
  refuses_json(rt, json, "operator `p.xxxxx");
  tn_runtime_release(rt);
}

/* ------------------------------------------------------- forbidden calls */

static tn_runtime *rt_of_kernel;
static tn_code of_kernel;
static char text_of_kernel[512];
static int n_calls;

static tn_operator *operator_of(tn_runtime *rt, const char *name) {
  tn_operator *op = NULL;
  cr_assert_eq(tn_operator_get(rt, name, &op), TN_OK, "%s", tn_error_text());
  return op;
}

static tn_array *make_pair(tn_runtime *rt) {
  tn_array *x = NULL;
  const float values[] = {2, 3};
  const int64_t shape[] = {2};
  cr_assert_eq(tn_array_create(rt, &(tn_spec){TN_F32, 1, shape}, &x), TN_OK);
  cr_assert_eq(tn_array_set(x, values, sizeof values), TN_OK);
  return x;
}

static void call_itself(void) {
  tn_array *x = NULL, *y = NULL;
  const int64_t shape[] = {2};
  tn_operator *op = NULL;
  if (++n_calls > 100) return;
  if (tn_array_create(rt_of_kernel, &(tn_spec){TN_F32, 1, shape}, &x) ||
      tn_operator_get(rt_of_kernel, "probe.all", &op))
    return;
  of_kernel = tn_call(rt_of_kernel, op, TN_IN(x), NULL, TN_OUT(&y));
  (void)snprintf(text_of_kernel, sizeof text_of_kernel, "%s", tn_error_text());
  tn_array_release(x), tn_array_release(y);
}

Test(refused, an_operator_cannot_call_itself) {
  for (uint32_t engine = 0; engine < 2; ++engine) {
    const tn_options options = {.struct_size = sizeof options,
                                .engine = engine,
                                .workers = 2,
                                .log = keep_line};
    tn_array *y = NULL;
    n_calls = 0;
    of_kernel = TN_OK;
    cr_assert_eq(tn_runtime_create(&options, &rt_of_kernel), TN_OK);
    cr_assert_eq(tn_plugin_add(rt_of_kernel, &probe_plugin), TN_OK);
    cr_assert_eq(tn_plugin_add(rt_of_kernel, &second_plugin), TN_OK, "%s",
                 tn_error_text());
    second_plugin_hook = call_itself;
    tn_array *x = make_pair(rt_of_kernel);
    tn_operator *op = operator_of(rt_of_kernel, "probe.all");
    for (int round = 0; round < 3; ++round) { /* the fast path too */
      (void)!tn_call(rt_of_kernel, op, TN_IN(x), NULL, TN_OUT(&y));
      (void)!tn_wait_all(rt_of_kernel);
    }
    cr_assert_eq(n_calls, 3, "%d calls", n_calls);
    cr_assert_eq(of_kernel, TN_INVALID);
    cr_assert_not_null(strstr(text_of_kernel, "tn_call was called from inside"),
                       "%s", text_of_kernel);
    tn_array_release(x), tn_array_release(y);
    tn_runtime_release(rt_of_kernel);
  }
}

static tn_program *watched;
static tn_code of_monitor;

static void run_again(void *ctx, const char *name, tn_array *array) {
  (void)ctx, (void)name, (void)array;
  if (++n_calls > 100) return;
  of_monitor = tn_program_forward(watched, 0);
  (void)snprintf(text_of_kernel, sizeof text_of_kernel, "%s", tn_error_text());
}

Test(refused, a_monitor_cannot_run_its_program) {
  tn_runtime *rt = open_logging(0);
  tn_graph *net = NULL;
  tn_entry x, y;
  cr_assert_eq(tn_plugin_add(rt, &probe_plugin), TN_OK);
  cr_assert_eq(tn_graph_create(rt, &net), TN_OK);
  cr_assert_eq(tn_graph_variable(net, "x", NULL, &x), TN_OK);
  cr_assert_eq(
      tn_graph_call(net,
                    &(tn_graph_node){.struct_size = sizeof(tn_graph_node),
                                     .op = "probe.all",
                                     .n_in = 1,
                                     .in = &x},
                    &y),
      TN_OK, "%s", tn_error_text());
  cr_assert_eq(tn_graph_heads_set(net, &y, 1), TN_OK);
  tn_array *array = make_pair(rt);
  const tn_argument argument = {.name = "x", .array = array};
  cr_assert_eq(tn_program_bind(net,
                               &(tn_bind){.struct_size = sizeof(tn_bind),
                                          .arguments = &argument,
                                          .n_arguments = 1},
                               &watched),
               TN_OK, "%s", tn_error_text());
  cr_assert_eq(tn_program_monitor(watched, run_again, NULL), TN_OK);
  n_calls = 0;
  cr_assert_eq(tn_program_forward(watched, 0), TN_OK, "%s", tn_error_text());
  cr_assert_eq(n_calls, 1);
  cr_assert_eq(of_monitor, TN_INVALID);
  cr_assert_not_null(strstr(text_of_kernel, "by a monitor of this program"));
  tn_program_release(watched);
  tn_graph_release(net), tn_array_release(array);
  tn_runtime_release(rt);
}

Test(refused, params_of_another_runtime_are_reported) {
  tn_runtime *rt[2] = {open_logging(0), open_logging(0)};
  tn_params *params = NULL;
  tn_array *y = NULL;
  for (int i = 0; i < 2; ++i)
    cr_assert_eq(tn_plugin_add(rt[i], &probe_plugin), TN_OK);
  cr_assert_eq(tn_params_parse(operator_of(rt[1], "probe.all"), "", &params),
               TN_OK, "%s", tn_error_text());
  tn_array *x = make_pair(rt[0]);
  cr_assert_eq(tn_call(rt[0], operator_of(rt[0], "probe.all"), TN_IN(x), params,
                       TN_OUT(&y)),
               TN_INVALID);
  expect_text("made for an operator of another runtime");
  tn_array_release(x), tn_params_release(params);
  tn_runtime_release(rt[0]), tn_runtime_release(rt[1]);
}

/* ---------------------------------------------------------- reserved fields */

Test(refused, reserved_fields_are_zero) {
  tn_runtime *rt = open_logging(0);
  tn_graph *net = NULL;
  tn_entry out;
  tn_array *x = make_pair(rt), *part = NULL;
  cr_assert_eq(tn_array_slice(x, &(tn_range){.reserved = 1, .end = 1}, &part),
               TN_INVALID);
  expect_text("tn_range.reserved is 1");
  cr_assert_eq(tn_graph_create(rt, &net), TN_OK);
  const tn_loop loop = {.struct_size = sizeof loop, .reserved = 7, .step = net};
  cr_assert_eq(tn_graph_loop(net, &loop, &out), TN_INVALID);
  expect_text("tn_loop.reserved is 7");
  tn_array_release(x), tn_graph_release(net);
  tn_runtime_release(rt);
}

/* ------------------------------------------------------------------- traces */

typedef struct meter {
  int64_t living;
} meter;

static void *alloc_meter(void *ctx, size_t bytes, size_t align) {
  meter *m = ctx;
  void *got = NULL;
  if (posix_memalign(&got, align < 8 ? 8 : align, bytes)) return NULL;
  __atomic_add_fetch(&m->living, 1, __ATOMIC_RELAXED);
  return got;
}

static void free_meter(void *ctx, void *memory) {
  meter *m = ctx;
  __atomic_sub_fetch(&m->living, 1, __ATOMIC_RELAXED);
  free(memory);
}

Test(refused, a_trace_that_is_written_keeps_no_memory) {
  meter m = {0};
  const tn_options options = {.struct_size = sizeof options,
                              .workers = 1,
                              .allocator = {&m, alloc_meter, free_meter}};
  char path[] = "/tmp/tenon-trace-XXXXXX";
  tn_runtime *rt = NULL;
  tn_array *y = NULL;
  const int fd = mkstemp(path);
  cr_assert_geq(fd, 0);
  close(fd);
  cr_assert_eq(tn_runtime_create(&options, &rt), TN_OK);
  tn_array *x = make_pair(rt);
  for (int64_t first = 0, round = 0; round < 3; ++round) {
    cr_assert_eq(tn_trace_start(rt), TN_OK);
    for (int i = 0; i < 5000; ++i) {
      cr_assert_eq(tn_array_cast(x, TN_F64, &y), TN_OK);
      tn_array_release(y);
    }
    cr_assert_eq(tn_trace_write(rt, path), TN_OK, "%s", tn_error_text());
    if (round == 0) first = m.living;
    cr_assert_eq(m.living, first, "%lld blocks, then %lld", (long long)first,
                 (long long)m.living);
  }
  unlink(path);
  tn_array_release(x);
  tn_runtime_release(rt);
}
