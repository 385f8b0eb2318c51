/* SPDX-License-Identifier: Apache-2.0
 * Runs a model that `python -m tenon.onnx convert` wrote:
 *
 *   model FOLDER NAME X.npy Y.npy
 *
 * reads the input NAME from X.npy, and writes the first output to Y.npy.
 */
#include <stdio.h>
#include <stdlib.h>
#include <tenon/exchange.h>
#include <tenon/graph.h>

/* Reads all weights. The caller releases the arrays of the `n` entries, and the
 * file, which has the names. */
static tn_code read_weights(tn_bundle *file, tn_argument *to, size_t *n) {
  tn_bundle_entry entry;
  tn_code rc = TN_OK;
  for (*n = 0; !rc && !tn_bundle_at(file, *n, &entry); ++*n) {
    to[*n] = (tn_argument){.name = entry.name};
    rc = tn_bundle_get(file, entry.name, 0, &to[*n].array);
  }
  return rc;
}

static tn_code read_array(tn_runtime *rt, const char *path, tn_array **out) {
  tn_bundle *file = NULL;
  tn_code rc = tn_bundle_open(rt, path, &file);
  if (!rc) rc = tn_bundle_get(file, NULL, 0, out);
  tn_bundle_close(file);
  return rc;
}

static tn_code write_array(tn_runtime *rt, const char *path, tn_array *array) {
  const tn_bundle_item item = {.array = array};
  const tn_bundle_content content = {
      .struct_size = sizeof content, .items = &item, .n_items = 1};
  return tn_bundle_save(rt, path, &content);
}

/* Binds a program to the weights and the input, and runs it. */
static tn_code run(tn_graph *net, tn_argument *list, size_t n,
                   tn_program **out) {
  const tn_bind how = {
      .struct_size = sizeof how, .arguments = list, .n_arguments = n};
  tn_code rc = tn_program_bind(net, &how, out);
  if (!rc) rc = tn_program_forward(*out, 0);
  return rc;
}

static tn_code compute(tn_runtime *rt, char **words) {
  char path[4096];
  tn_graph *net = NULL;
  tn_bundle *file = NULL;
  tn_program *p = NULL;
  tn_array *y = NULL;
  size_t n = 0;
  snprintf(path, sizeof path, "%s/graph.json", words[1]);
  tn_code rc = tn_graph_load(rt, path, &net);
  snprintf(path, sizeof path, "%s/weights.safetensors", words[1]);
  if (!rc) rc = tn_bundle_open(rt, path, &file);
  tn_argument *list =
      calloc((file ? tn_bundle_size(file) : 0) + 1, sizeof *list);
  if (!list) rc = TN_OUT_OF_MEMORY;
  if (!rc) rc = read_weights(file, list, &n);
  if (!rc) list[n].name = words[2];
  if (!rc) rc = read_array(rt, words[3], &list[n++].array);
  if (!rc) rc = run(net, list, n, &p);
  if (!rc) rc = tn_program_output(p, 0, &y);
  if (!rc) rc = write_array(rt, words[4], y);
  for (size_t i = 0; list && i < n; ++i) tn_array_release(list[i].array);
  free(list);
  tn_program_release(p);
  tn_bundle_close(file);
  tn_graph_release(net);
  return rc;
}

int main(int n_words, char **words) {
  tn_runtime *rt = NULL;
  if (n_words != 5) {
    fprintf(stderr, "usage: model FOLDER NAME X.npy Y.npy\n");
    return 2;
  }
  tn_code rc = tn_runtime_create(NULL, &rt);
  if (!rc) rc = tn_plugins_load_standard(rt);
  if (!rc) rc = compute(rt, words);
  if (rc) fprintf(stderr, "%s\n", tn_error_text());
  tn_runtime_release(rt);
  return rc ? 1 : 0;
}
