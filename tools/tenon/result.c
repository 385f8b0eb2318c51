/* SPDX-License-Identifier: Apache-2.0
 * result.c: the arrays that a command computed: printed for people, as JSON, or
 * written to a file.
 */
#include <stdlib.h>
#include <string.h>

#include "tenon_tool.h"

void results_add(results *r, int group, const char *name, tn_array *array) {
  result *list = (result *)realloc(r->list, (r->n + 1) * sizeof *list);
  char *copy = strdup(name);
  if (list) r->list = list;
  if (!list || !copy) {
    free(copy);
    r->failed = true;
    return;
  }
  r->list[r->n++] = (result){copy, array, group};
}

void results_deinit(results *r) {
  for (size_t i = 0; i < r->n; ++i) free(r->list[i].name);
  free(r->list);
  *r = (results){0};
}

static size_t count_group(const results *r, int group) {
  size_t n = 0;
  for (size_t i = 0; i < r->n; ++i) n += r->list[i].group == group;
  return n;
}

/* ----------------------------------------------------------------- printing */

/* Gradients have the name of their input, after "grad.". */
static const char *prefix_of(const result *one) {
  return one->group == RESULT_GRAD ? "grad." : "";
}

static bool print_one(const result *one, bool named, bool full, text *out,
                      text *why) {
  tensor t;
  if (!tensor_from_array(one->array, &t, why)) return false;
  if (named) text_add(out, "%s%s:\n", prefix_of(one), one->name);
  print_tensor(&t, full, out);
  tensor_deinit(&t);
  return true;
}

bool results_print(const results *r, bool full, text *out, text *why) {
  const bool several =
      count_group(r, RESULT_OUTPUT) > 1 || count_group(r, RESULT_STATE) > 0;
  if (r->failed) return report_failure(why, "out of memory");
  for (size_t i = 0; i < r->n; ++i) {
    const bool named = several || r->list[i].group != RESULT_OUTPUT;
    if (!print_one(&r->list[i], named, full, out, why)) return false;
  }
  return true;
}

static bool print_group_json(const results *r, int group, text *out,
                             text *why) {
  const char *separator = "";
  for (size_t i = 0; i < r->n; ++i) {
    tensor t;
    if (r->list[i].group != group) continue;
    if (!tensor_from_array(r->list[i].array, &t, why)) return false;
    text_add(out, "%s", separator);
    print_tensor_json(r->list[i].name, &t, out);
    tensor_deinit(&t);
    separator = ", ";
  }
  return true;
}

bool results_print_json(const results *r, text *out, text *why) {
  static const char *const names[] = {"outputs", "states", "grads"};
  if (r->failed) return report_failure(why, "out of memory");
  for (int group = 0; group < N_RESULT_GROUPS; ++group) {
    if (group != RESULT_OUTPUT && !count_group(r, group)) continue;
    text_add(out, "%s\"%s\": [", group ? ", " : "", names[group]);
    if (!print_group_json(r, group, out, why)) return false;
    text_add(out, "]");
  }
  return true;
}

/* -------------------------------------------------------------------- files */

static bool is_npy(const char *path) {
  const size_t n = strlen(path);
  return n > 4 && !strcmp(path + n - 4, ".npy");
}

bool results_check_out(const arguments *args, text *why) {
  const char *path = args->out;
  if (!path) return true;
  if (args->given & OPTION_JSON)
    return report_failure(why, "--out and --json are two forms; choose one");
  if (!strcmp(path, "-"))
    return !(args->given & OPTION_PROFILE) ||
           report_failure(
               why, "--profile prints where `--out -` writes; name a file");
  return input_is_bundle(path) ||
         report_failure(why,
                        "--out %s: the end of the name is the format: .npy, "
                        ".npz or .safetensors",
                        path);
}

/* A .npy holds one array, and so does standard output. */
static bool check_count(const results *r, const char *path, text *why) {
  text names = {0};
  if (r->n == 1 || (strcmp(path, "-") != 0 && !is_npy(path))) return true;
  for (size_t i = 0; i < r->n; ++i)
    text_add(&names, "%s%s%s", i ? ", " : "", prefix_of(&r->list[i]),
             r->list[i].name);
  report_failure(
      why,
      "--out %s: it holds one array, and there are %zu results (%s); "
      "write them to a .npz or a .safetensors",
      path, r->n, text_get(&names));
  text_deinit(&names);
  return false;
}

static bool save_file(const results *r, tn_runtime *rt, const char *path,
                      text *why) {
  tn_bundle_item *items = (tn_bundle_item *)calloc(r->n + 1, sizeof *items);
  text *names = (text *)calloc(r->n + 1, sizeof *names);
  bool ok = items && names;
  for (size_t i = 0; ok && i < r->n; ++i) {
    text_add(&names[i], "%s%s", prefix_of(&r->list[i]), r->list[i].name);
    items[i] = (tn_bundle_item){text_get(&names[i]), r->list[i].array};
    ok = !names[i].failed;
  }
  const tn_bundle_content content = {
      .struct_size = sizeof content, .items = items, .n_items = r->n};
  if (!ok)
    report_failure(why, "out of memory");
  else if (tn_bundle_save(rt, path, &content))
    ok = fail_library(why);
  for (size_t i = 0; names && i < r->n; ++i) text_deinit(&names[i]);
  free(names);
  free(items);
  return ok;
}

bool results_save(const results *r, tn_runtime *rt, const char *path, text *out,
                  text *why) {
  if (r->failed) return report_failure(why, "out of memory");
  if (!check_count(r, path, why)) return false;
  if (strcmp(path, "-") != 0) return save_file(r, rt, path, why);
  char *scratch = scratch_create(".npy", why);
  const bool ok = scratch && save_file(r, rt, scratch, why) &&
                  scratch_read(scratch, out, why);
  out->is_binary = true;
  scratch_remove(scratch);
  return ok;
}
