/* SPDX-License-Identifier: Apache-2.0
 * graph_fuzz.c: graphs as JSON. A graph that can be read is written, read and
 * written again as the same bytes. Gradients and inference survive it. The
 * operators are those of the plugin `lab` of tests/graph.
 */
#include <string.h>

#include "fuzz.h"
#include "gradient.h"
#include "json.h"
#include "loading.h"

static tn__env env;
static tn__caller caller;

static void log_drop(void *ctx, int32_t level, const char *line) {
  (void)ctx, (void)level, (void)line;
}

static void start(void) {
  tn__devices *devices = NULL;
  tn__registry *registry = NULL;
  env = *tn__env_default();
  env.allocator = fuzz_allocator;
  env.log = log_drop;
  const tn__engine_options engine = {.env = &env, .kind = TN__ENGINE_NAIVE};
  const tn__registry_options options = {.env = &env};
  fuzz_check(!tn__engine_create(&engine, &env.engine), "there is no engine");
  fuzz_check(!tn__devices_create(&env, 1, NULL, 0, &devices),
             "there are no devices");
  fuzz_check(!tn__device_find(devices, TN_DEVICE_CPU, 0, &env.cpu), "no cpu");
  fuzz_check(!tn__registry_create(&options, &registry), "no registry");
  fuzz_check(!tn__plugin_load(registry, LAB_FILE), "lab is not loaded");
  fuzz_check(!tn__caller_init(&caller, &env, registry, 1), "no caller");
}

static tn_text *written(const tn_graph *graph) {
  tn_text *text = NULL;
  fuzz_check(!tn__graph_json(graph, false, &text), "a graph cannot be written");
  return text;
}

static void read_back(const tn_graph *graph) {
  tn_graph *other = NULL;
  tn_text *first = written(graph);
  const char *json = tn_text_get(first);
  fuzz_check(!tn__graph_parse(&caller, json, strlen(json), &other),
             tn_error_text());
  tn_text *second = written(other);
  fuzz_check(strcmp(json, tn_text_get(second)) == 0,
             "a graph is written in another way when it was read");
  tn__graph_release(other);
  tn_text_release(first);
  tn_text_release(second);
}

static void look(tn_graph *graph) {
  (void)!tn__graph_infer(graph, NULL, 0);
  tn_text *inferred = NULL;
  fuzz_check(!tn__graph_json(graph, true, &inferred), tn_error_text());
  tn_text_release(inferred);
}

/* With respect to the first argument, of floating type or not. */
static void differentiate(const tn_graph *graph) {
  tn_graph *copy = NULL;
  const tn_entry *arguments = NULL;
  uint32_t n_arguments = 0, n_states = 0;
  tn_entry out;
  fuzz_check(!tn__graph_copy(graph, &copy), tn_error_text());
  fuzz_check(!tn__graph_variables(copy, &arguments, &n_arguments, &n_states),
             tn_error_text());
  if (n_arguments > 0 && copy->n_heads > 0) {
    const tn_entry of = arguments[0];
    const tn__gradient_spec spec = {.query = {.heads = copy->heads,
                                              .of = &of,
                                              .n_heads = copy->n_heads,
                                              .n_of = 1}};
    if (!tn__graph_gradient(copy, &spec, &out)) {
      fuzz_check(!tn__graph_heads_set(copy, &out, 1), tn_error_text());
      read_back(copy);
    }
  }
  tn__graph_release(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!env.engine) start();
  tn_graph *graph = NULL;
  const size_t mark = fuzz_meter();
  const tn_code rc = tn__graph_parse(&caller, (const char *)data, size, &graph);
  fuzz_check(fuzz_most(mark) <= 256 * size + (1 << 18),
             "reading took too much memory");
  fuzz_check((rc == TN_OK) == (graph != NULL), "a graph without success");
  if (graph) {
    read_back(graph);
    differentiate(graph);
    look(graph);
  } else {
    fuzz_check(rc == TN_INVALID || rc == TN_NOT_FOUND, tn_error_text());
  }
  tn__graph_release(graph);
  fuzz_check(fuzz_left(mark) <= 1 << 16, "memory is left");
  return 0;
}
