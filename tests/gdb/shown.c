/* SPDX-License-Identifier: Apache-2.0
 * shown.c: objects that test_gdb.py prints with gdb: it stops in show_objects.
 *
 *     shown ELEMWISE.so
 */
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>

#include "graph.h"
#include "runtime.h"
#include "tenon/engine.h"
#include "tenon/graph.h"
#include "tenon/tenon.h"

static void require(tn_code code) {
  if (code == TN_OK) return;
  fprintf(stderr, "shown: %s\n", tn_error_text());
  exit(1);
}

/* The objects are parameters, so that gdb finds them by name. */
__attribute__((noinline)) static void show_objects(tn_array *array,
                                                   tn_array *empty,
                                                   tn_variable *failed,
                                                   tn_variable *busy,
                                                   tn_graph *graph) {
  __asm__ volatile(""
                   :
                   : "r"(array), "r"(empty), "r"(failed), "r"(busy), "r"(graph)
                   : "memory");
}

static sem_t began, go;
static tn__operation *operation;

static tn_code block_worker(void *arg) {
  (void)arg;
  (void)sem_post(&began);
  (void)sem_wait(&go);
  return TN_OK;
}

static tn_code fail_reading(void *arg) {
  (void)arg;
  return tn_fail(TN_IO, "no file x");
}

static tn_variable *make_variable(tn_runtime *rt, const char *name,
                                  tn_code (*run)(void *arg)) {
  tn_variable *variable = NULL;
  require(tn_variable_create(rt, NULL, NULL, &variable));
  const tn_job job = {.struct_size = sizeof job,
                      .name = name,
                      .run = run,
                      TN_USES({variable, TN_OVERWRITE})};
  require(tn_push(rt, &job));
  return variable;
}

static tn_array *make_array(tn_runtime *rt, bool has_values) {
  static const float values[] = {1, 2.5f, -3, 4, 5, 6};
  const int64_t shape[] = {2, 3};
  tn_array *array = NULL;
  require(tn_array_create(
      rt, &(tn_spec){.dtype = TN_F32, .ndim = 2, .shape = shape}, &array));
  if (has_values) require(tn_array_set(array, values, sizeof values));
  return array;
}

static tn_graph *make_graph(tn_runtime *rt) {
  tn_graph *graph = NULL;
  tn_entry x, y;
  require(tn_graph_create(rt, &graph));
  require(tn_graph_variable(graph, "x", NULL, &x));
  const tn_graph_node node = {.struct_size = sizeof node,
                              .n_in = 1,
                              .op = "elemwise.relu",
                              .name = "y",
                              .in = &x};
  require(tn_graph_call(graph, &node, &y));
  require(tn_graph_heads_set(graph, &y, 1));
  return graph;
}

static tn_code do_nothing(void *arg, tn__token *token) {
  (void)arg;
  (void)token;
  return TN_OK;
}

static void prepare_operation(tn_runtime *rt) {
  static tn__var in, out;
  const tn__access access[] = {{&in, TN__READ, 0}, {&out, TN__UPDATE, 0}};
  const tn__job job = {
      .name = "train", .run = do_nothing, .access = access, .n_access = 2};
  require(tn__operation_create(rt->env.engine, &job, &operation));
  require(tn__operation_push(operation));
  require(tn__operation_push(operation));
}

int main(int argc, char **argv) {
  const tn_options options = {.struct_size = sizeof options, .workers = 1};
  tn_runtime *rt = NULL;
  if (argc != 2) return 2;
  require(tn_runtime_create(&options, &rt));
  require(tn_plugin_load(rt, argv[1]));
  (void)sem_init(&began, 0, 0);
  (void)sem_init(&go, 0, 0);
  tn_array *array = make_array(rt, true), *empty = make_array(rt, false);
  tn_variable *failed = make_variable(rt, "read x", fail_reading);
  (void)!tn_variable_wait(failed);
  tn_variable *busy = make_variable(rt, "load", block_worker);
  (void)sem_wait(&began);
  tn_graph *graph = make_graph(rt);
  prepare_operation(rt);
  show_objects(array, empty, failed, busy, graph);
  (void)sem_post(&go);
  tn__operation_delete(operation);
  tn_graph_release(graph);
  tn_variable_release(busy);
  tn_variable_release(failed);
  tn_array_release(empty);
  tn_array_release(array);
  tn_runtime_release(rt);
  return 0;
}
