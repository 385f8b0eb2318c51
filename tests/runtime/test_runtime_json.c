/* SPDX-License-Identifier: Apache-2.0
 * test_runtime_json.c: the state of a runtime as JSON, read by a parser, while
 * the runtime is idle, while its workers hang, and while its locks are held.
 */
#include <stdio.h>
#include <stdlib.h>

#include "../by_hand.h"
#include "engine_state.h"
#include "files.h"
#include "jobs.h"
#include "runtime.h"

/* ------------------------------------------------------------------ parser */

/* Values of a document, each with its path: "engine.pending". */
typedef struct value {
  char path[96];
  char text[320];
} value;

static value values[256];
static size_t n_values;

static tn_code refuse(const tn__json *json, const char *expected) {
  cr_assert_fail("expected %s at: %.60s", expected, json->at);
  return TN_INVALID;
}

static void keep_value(const char *path, const char *text) {
  cr_assert_lt(n_values, sizeof values / sizeof *values);
  value *to = &values[n_values++];
  (void)snprintf(to->path, sizeof to->path, "%s", path);
  (void)snprintf(to->text, sizeof to->text, "%s", text);
}

static void read_value(tn__json *json, const char *path);

static void read_list(tn__json *json, const char *path) {
  char inner[96];
  int n = 0;
  if (!tn__json_take(json, ']')) {
    do {
      (void)snprintf(inner, sizeof inner, "%.80s[%d]", path, n++);
      read_value(json, inner);
    } while (tn__json_take(json, ','));
    (void)!tn__json_expect(json, ']');
  }
  (void)snprintf(inner, sizeof inner, "%d", n);
  keep_value(path, inner);
}

static void read_object(tn__json *json, const char *path) {
  if (tn__json_take(json, '}')) return;
  do {
    char inner[96];
    const char *key = NULL;
    (void)!tn__json_string(json, &key);
    (void)!tn__json_expect(json, ':');
    (void)snprintf(inner, sizeof inner, "%.40s%s%.40s", path, *path ? "." : "",
                   key);
    read_value(json, inner);
  } while (tn__json_take(json, ','));
  (void)!tn__json_expect(json, '}');
}

static void read_value(tn__json *json, const char *path) {
  static const char *const words[] = {"null", "true", "false"};
  const char *text = NULL;
  int64_t n = 0;
  if (tn__json_take(json, '{')) {
    read_object(json, path);
    return;
  }
  if (tn__json_take(json, '[')) {
    read_list(json, path);
    return;
  }
  for (int i = 0; i < 3; ++i)
    if (tn__json_word(json, words[i])) {
      keep_value(path, words[i]);
      return;
    }
  if (*json->at == '"') {
    (void)!tn__json_string(json, &text);
    keep_value(path, text);
    return;
  }
  char number[24];
  (void)!tn__json_number(json, &n);
  (void)snprintf(number, sizeof number, "%lld", (long long)n);
  keep_value(path, number);
}

/* Reads the state of the runtime into `values`. */
static void read_state(tn_runtime *rt) {
  tn_text *text = NULL;
  EXPECT(tn_runtime_json(rt, &text), TN_OK);
  char *copy = strdup(tn_text_get(text));
  tn_text_release(text);
  tn__json json = {copy, copy, copy + strlen(copy), 0, refuse};
  n_values = 0;
  read_value(&json, "");
  (void)!tn__json_end(&json);
  free(copy);
}

static const char *value_of(const char *path) {
  for (size_t i = 0; i < n_values; ++i)
    if (strcmp(values[i].path, path) == 0) return values[i].text;
  cr_assert_fail("there is no %s", path);
  return NULL;
}

#define EXPECT_VALUE(path, expected)                                       \
  cr_expect_str_eq(value_of(path), (expected), "%s is %s, not %s", (path), \
                   value_of(path), (expected))

/* -------------------------------------------------------------------- keys */

Test(runtime_json, has_the_documented_keys) {
  static const char *const keys[] = {"format",
                                     "version",
                                     "options.trust",
                                     "options.seed",
                                     "options.cpu",
                                     "options.search_path",
                                     "options.log.engine",
                                     "options.log.plugins",
                                     "closed",
                                     "owners",
                                     "arrays",
                                     "engine.kind",
                                     "engine.workers",
                                     "engine.threads",
                                     "engine.asleep",
                                     "engine.searching",
                                     "engine.pending",
                                     "engine.pushing",
                                     "engine.failures",
                                     "engine.queues",
                                     "devices[0].name",
                                     "devices[0].open",
                                     "devices[0].limit",
                                     "devices[0].live",
                                     "devices[0].held",
                                     "devices[0].peak_live",
                                     "devices[0].peak_held",
                                     "devices[0].pieces",
                                     "devices[0].staging",
                                     "operators",
                                     "plugins"};
  static const char *const kinds[N_ENGINES] = {"pooled", "naive", "threaded"};
  for (int e = 0; e < N_ENGINES; ++e) {
    tn_runtime *rt = open_runtime(engines[e], 3);
    read_state(rt);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; ++i)
      (void)value_of(keys[i]);
    EXPECT_VALUE("format", "1");
    EXPECT_VALUE("version", TN_VERSION);
    EXPECT_VALUE("engine.kind", kinds[e]);
    EXPECT_VALUE("engine.workers", engines[e] == TN_ENGINE_NAIVE ? "0" : "3");
    EXPECT_VALUE("engine.pending", "0");
    EXPECT_VALUE("devices[0].name", "cpu(0)");
    EXPECT_VALUE("owners", "1");
    close_runtime(rt);
  }
}

Test(runtime_json, shows_the_options_and_escapes_their_text) {
  tn_runtime *rt = NULL;
  const tn_memory_limit limit = {TN_DEVICE_CPU, 1, 4096};
  const tn_options options = {.struct_size = sizeof options,
                              .seed = 9,
                              .n_cpus = 2,
                              .n_memory_limits = 1,
                              .memory_limits = &limit,
                              .search_path = "/a \"b\"\\\n",
                              .log_levels = "storage:error,debug"};
  EXPECT(tn_runtime_create(&options, &rt), TN_OK);
  read_state(rt);
  EXPECT_VALUE("options.seed", "9");
  EXPECT_VALUE("options.search_path", "/a \"b\"\\\n");
  EXPECT_VALUE("options.log.storage", "error");
  EXPECT_VALUE("options.log.engine", "debug");
  EXPECT_VALUE("devices", "2");
  EXPECT_VALUE("devices[0].limit", "null");
  EXPECT_VALUE("devices[1].limit", "4096");
  tn_runtime_release(rt);
}

static const tn_plugin empty = {PLUGIN_BY_HAND("empty", 7, "Has nothing")};

Test(runtime_json, lists_the_plugins) {
  tn_runtime *rt = open_runtime(TN_ENGINE_POOLED, 1);
  EXPECT(tn_plugin_add(rt, &empty), TN_OK);
  read_state(rt);
  EXPECT_VALUE("plugins", "1");
  EXPECT_VALUE("plugins[0].name", "empty");
  EXPECT_VALUE("plugins[0].release", "7");
  EXPECT_VALUE("plugins[0].path", "(static)");
  EXPECT_VALUE("plugins[0].operators", "0");
  EXPECT_VALUE("operators", "0");
  close_runtime(rt);
}

Test(runtime_json, counts_arrays_and_their_bytes) {
  enum { N = 3, ELEMENTS = 1000 };
  static const float zeros[ELEMENTS];
  const int64_t shape[] = {ELEMENTS};
  tn_array *arrays[N];
  tn_runtime *rt = open_runtime(TN_ENGINE_POOLED, 1);
  for (int i = 0; i < N; ++i) {
    EXPECT(tn_array_create(
               rt, &(tn_spec){.dtype = TN_F32, .ndim = 1, .shape = shape},
               &arrays[i]),
           TN_OK);
    EXPECT(tn_array_set(arrays[i], zeros, sizeof zeros), TN_OK);
  }
  read_state(rt);
  EXPECT_VALUE("arrays", "3");
  EXPECT_VALUE("devices[0].live", "12000");
  EXPECT_VALUE("devices[0].pieces", "3");
  for (int i = 1; i < N; ++i) tn_array_release(arrays[i]);
  read_state(rt);
  EXPECT_VALUE("arrays", "1");
  EXPECT_VALUE("devices[0].live", "4000");
  EXPECT_VALUE("devices[0].pieces", "1");
  EXPECT_VALUE("devices[0].peak_live", "12000");
  tn_array_release(arrays[0]);
  close_runtime(rt);
}

/* ---------------------------------------------------------- a hung runtime */

static void *watch(void *rt) {
  read_state(rt);
  return NULL;
}

static void read_on_another_thread(tn_runtime *rt) {
  pthread_t thread;
  cr_assert_eq(pthread_create(&thread, NULL, watch, rt), 0);
  cr_assert_eq(pthread_join(thread, NULL), 0);
}

Test(runtime_json, answers_while_every_worker_hangs, .timeout = 100) {
  for (int e = 0; e < 2; ++e) {
    gate g;
    tn_runtime *rt = open_runtime(threaded[e], 1);
    tn_variable *x = make_variable(rt);
    push_gate(rt, &g, x);
    EXPECT(tn_push(rt, JOB(read_nothing, NULL, TN_USES({x, TN_READ}))), TN_OK);
    read_on_another_thread(rt);
    EXPECT_VALUE("engine.pending", "2");
    EXPECT_VALUE("engine.threads", "1");
    EXPECT_VALUE("engine.asleep", "0");
    (void)sem_post(&g.go);
    EXPECT(tn_wait_all(rt), TN_OK);
    read_state(rt);
    EXPECT_VALUE("engine.pending", "0");
    tn_variable_release(x);
    close_runtime(rt);
  }
}

Test(runtime_json, answers_while_locks_are_held, .timeout = 100) {
  tn_runtime *rt = open_runtime(TN_ENGINE_POOLED, 1);
  tn__engine *engine = rt->env.engine;
  (void)pthread_rwlock_wrlock(&rt->registry->lock);
  (void)pthread_mutex_lock(&rt->registry->load_lock);
  (void)pthread_mutex_lock(&engine->queue_lock);
  (void)pthread_mutex_lock(&engine->error_lock);
  (void)pthread_mutex_lock(&engine->gate_lock);
  read_on_another_thread(rt);
  EXPECT_VALUE("operators", "null");
  EXPECT_VALUE("plugins", "null");
  EXPECT_VALUE("engine.queues", "null");
  EXPECT_VALUE("engine.failures", "null");
  (void)pthread_mutex_unlock(&engine->gate_lock);
  (void)pthread_mutex_unlock(&engine->error_lock);
  (void)pthread_mutex_unlock(&engine->queue_lock);
  (void)pthread_mutex_unlock(&rt->registry->load_lock);
  (void)pthread_rwlock_unlock(&rt->registry->lock);
  close_runtime(rt);
}

Test(runtime_json, lists_the_queues_of_devices) {
  static const tn__queue_ops none = {.record = NULL};
  tn__queue *queue = NULL;
  tn_runtime *rt = open_runtime(TN_ENGINE_POOLED, 1);
  EXPECT(tn__queue_create(rt->env.engine, &none, NULL, "disk(0)", &queue),
         TN_OK);
  read_state(rt);
  EXPECT_VALUE("engine.queues", "1");
  EXPECT_VALUE("engine.queues[0].name", "disk(0)");
  EXPECT_VALUE("engine.queues[0].running", "false");
  EXPECT_VALUE("engine.queues[0].ready", "0");
  EXPECT_VALUE("engine.queues[0].next", "null");
  tn__queue_destroy(queue);
  close_runtime(rt);
}

static tn_code fail_job(void *arg) {
  (void)arg;
  return tn_fail(TN_IO, "planted");
}

Test(runtime_json, counts_failures_until_they_are_reported) {
  tn_runtime *rt = open_runtime(TN_ENGINE_POOLED, 1);
  tn_variable *x = make_variable(rt);
  EXPECT(tn_push(rt, JOB(fail_job, NULL, TN_USES({x, TN_OVERWRITE}))), TN_OK);
  EXPECT(tn_variable_wait(x), TN_IO);
  read_state(rt);
  EXPECT_VALUE("engine.failures", "1");
  EXPECT(tn_wait_all(rt), TN_IO);
  read_state(rt);
  EXPECT_VALUE("engine.failures", "0");
  tn_variable_release(x);
  close_runtime(rt);
}

/* ------------------------------------------------------------------- misuse */

Test(runtime_json, refuses_null) {
  tn_text *text = NULL;
  cr_expect_eq(tn_runtime_json(NULL, &text), TN_INVALID);
  tn_runtime *rt = open_runtime(TN_ENGINE_POOLED, 1);
  cr_expect_eq(tn_runtime_json(rt, NULL), TN_INVALID);
  close_runtime(rt);
}
