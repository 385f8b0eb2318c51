/* SPDX-License-Identifier: Apache-2.0
 * cmd_graph.c: `tenon graph`: its words, a graph from a file, its nodes
 * (`show`) and the programs that can be made of it (`plan`). graph_run.c has
 * `run`.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net.h"
#include "picture.h"

static bool report_net_failure(net *n) {
  return fail_library(n->why);
}

/* -------------------------------------------------------------------- files */

static bool write_file(net *n, const char *path, const char *content) {
  /* A FIFO without a reader is an error, where fopen would wait. */
  const int fd =
      open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0666);
  FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
  if (fd >= 0 && !file) (void)close(fd);
  bool ok = file && fputs(content, file) >= 0;
  if (file && fclose(file) != 0) ok = false;
  return ok || report_failure(n->why, "%s: %s", path, strerror(errno));
}

static bool write_picture(net *n, const text *picture) {
  if (picture->failed) return report_failure(n->why, "out of memory");
  return write_file(n, n->args->svg, text_get(picture));
}

/* A folder, such as one of a converted model, has a graph and its weights. */
static bool find_files(net *n) {
  const char *word = n->args->words[1];
  struct stat info;
  text_add(&n->file, "%s", word);
  if (stat(word, &info) == 0 && S_ISDIR(info.st_mode)) {
    text_add(&n->file, "/graph.json");
    text_add(&n->weights, "%s/weights.safetensors", word);
    if (access(text_get(&n->weights), F_OK) != 0) text_deinit(&n->weights);
    if (access(text_get(&n->file), F_OK) != 0)
      return report_failure(n->why,
                            "%s: the folder has no file graph.json; name a "
                            "file, or a folder that `python -m tenon.onnx "
                            "convert` made",
                            word);
  }
  return (!n->file.failed && !n->weights.failed) ||
         report_failure(n->why, "out of memory");
}

static bool shapes_read(net *n) {
  n->shapes = (shape_word *)calloc(n->args->n_shapes + 1, sizeof *n->shapes);
  if (!n->shapes) return report_failure(n->why, "out of memory");
  for (size_t i = 0; i < n->args->n_shapes; ++i)
    if (!shape_parse(n->args->shapes[i], &n->shapes[i], n->why)) return false;
  return true;
}

static void shapes_free(net *n) {
  for (size_t i = 0; n->shapes && i < n->args->n_shapes; ++i)
    free(n->shapes[i].name);
  free(n->shapes);
}

/* ------------------------------------------------------------------- groups */

static bool groups_read(net *n) {
  const size_t count = n->args->n_groups;
  n->words = (group_word *)calloc(count + 1, sizeof *n->words);
  n->groups = (tn_group *)calloc(count + 1, sizeof *n->groups);
  if (!n->words || !n->groups) return report_failure(n->why, "out of memory");
  for (size_t i = 0; i < count; ++i) {
    if (!group_parse(n->args->groups[i], &n->words[i], n->why)) return false;
    n->groups[i].name = n->words[i].name;
  }
  return true;
}

static bool groups_find(net *n, tn_runtime *rt) {
  for (size_t i = 0; i < n->args->n_groups; ++i)
    if (!group_find(rt, &n->words[i], &n->groups[i].place, n->why))
      return false;
  return true;
}

static void groups_free(net *n) {
  for (size_t i = 0; n->words && i < n->args->n_groups; ++i)
    group_free(&n->words[i]);
  free(n->words);
  free(n->groups);
}

/* --------------------------------------------------------------------- show */

/* Unknown dimensions stay open. */
static bool infer_shapes(net *n) {
  const size_t count = n->args->n_shapes;
  tn_known *known = (tn_known *)calloc(count + 1, sizeof *known);
  if (!known) return report_failure(n->why, "out of memory");
  for (size_t i = 0; i < count; ++i)
    known[i] = (tn_known){n->shapes[i].name, n->shapes[i].sig};
  const tn_code code = tn_graph_infer(n->graph, known, count);
  free(known);
  return !code || code == TN_INCOMPLETE || report_net_failure(n);
}

/* Replaces the graph with the result of the passes. */
static bool rewrite_graph(net *n) {
  tn_graph *made = NULL;
  if (n->args->n_passes == 0) return true;
  if (tn_graph_apply(n->graph, n->args->passes, n->args->n_passes, &made))
    return report_net_failure(n);
  tn_graph_release(n->graph);
  n->graph = made;
  return true;
}

/* Draws the graph for --svg. */
static bool show_svg(net *n, const drawn_graph *graph) {
  text picture = {0};
  if (!n->args->svg) return true;
  const bool ok =
      picture_draw_svg(graph, &picture, n->why) && write_picture(n, &picture);
  text_deinit(&picture);
  return ok;
}

/* The graph as a tree that a picture can be drawn from. */
static bool read_back(net *n, json_tree *tree, drawn_graph *graph) {
  tn_text *content = NULL;
  if (tn_graph_inferred_json(n->graph, &content)) return report_net_failure(n);
  const bool ok = json_tree_parse(tn_text_get(content), tree, n->why);
  tn_text_release(content);
  return ok && picture_read_graph(tree, graph, n->why);
}

static bool show_json(net *n, text *out) {
  tn_text *content = NULL;
  if (tn_graph_json(n->graph, &content)) return report_net_failure(n);
  text_add_bytes(out, tn_text_get(content), strlen(tn_text_get(content)));
  tn_text_release(content);
  return true;
}

static bool show_graph(net *n, text *out) {
  json_tree tree = {0};
  drawn_graph graph;
  const uint32_t given = n->args->given;
  bool ok = infer_shapes(n) && rewrite_graph(n) &&
            read_back(n, &tree, &graph) && show_svg(n, &graph);
  if (ok && given & OPTION_JSON)
    ok = show_json(n, out);
  else if (ok && given & OPTION_DOT)
    picture_draw_dot(&graph, out);
  else if (ok)
    picture_draw_table(&graph, out);
  json_tree_deinit(&tree);
  return ok;
}

/* --------------------------------------------------------------------- plan */

static const struct {
  const char *name;
  uint32_t plan;
  bool detailed;
} plans[] = {{"default", TN_PLAN_DEFAULT, true}, {"none", TN_PLAN_NONE, false}};

enum { N_PLANS = sizeof plans / sizeof plans[0] };

/* The result of each pass. */
typedef struct outcome {
  tn_program_stats stats;
  text steps; /* of a detailed one */
} outcome;

static bool bind_program(net *n, uint32_t plan, tn_program **out) {
  const size_t count = n->args->n_shapes;
  tn_argument *list = (tn_argument *)calloc(count + 1, sizeof *list);
  if (!list) return report_failure(n->why, "out of memory");
  for (size_t i = 0; i < count; ++i)
    list[i] =
        (tn_argument){.name = n->shapes[i].name, .known = n->shapes[i].sig};
  const tn_bind how = {
      .struct_size = sizeof how,
      .plan = plan,
      .request = n->args->given & OPTION_TRAIN ? TN_REQ_WRITE : TN_REQ_NULL,
      .arguments = list,
      .n_arguments = count,
      .passes = n->args->passes,
      .n_passes = n->args->n_passes,
      .groups = n->groups,
      .n_groups = n->args->n_groups};
  const tn_code code = tn_program_bind(n->graph, &how, out);
  free(list);
  return !code || report_net_failure(n);
}

static bool keep_steps(net *n, const tn_program *program, text *to) {
  tn_text *steps = NULL;
  if (tn_program_text(program, (n->args->given & OPTION_WHY) != 0, &steps))
    return report_net_failure(n);
  text_add(to, "%s", tn_text_get(steps));
  tn_text_release(steps);
  return true;
}

/* Draws the memory of the program for --svg. */
static bool plan_svg(net *n, const tn_program *program) {
  tn_text *content = NULL;
  json_tree tree;
  text picture = {0};
  if (tn_program_json(program, &content)) return report_net_failure(n);
  bool ok = json_tree_parse(tn_text_get(content), &tree, n->why);
  tn_text_release(content);
  if (!ok) return false;
  ok = timeline_draw(tree.root, &picture, n->why) && write_picture(n, &picture);
  text_deinit(&picture);
  json_tree_deinit(&tree);
  return ok;
}

static bool plan_one(net *n, size_t i, outcome *o) {
  tn_program *program = NULL;
  if (!bind_program(n, plans[i].plan, &program)) return false;
  o->stats.struct_size = sizeof o->stats;
  bool ok = !tn_program_stats_get(program, &o->stats) || report_net_failure(n);
  if (ok && plans[i].detailed) ok = keep_steps(n, program, &o->steps);
  if (ok && i == 0 && n->args->svg) ok = plan_svg(n, program);
  tn_program_release(program);
  return ok;
}

static void print_totals(const outcome *all, text *out) {
  table rows = {.n_columns = 6};
  static const char *const heads[] = {"PLAN",      "POOL",  "AT LEAST",
                                      "WORKSPACE", "FUSED", "IN REGISTERS"};
  for (size_t i = 0; i < 6; ++i) table_add(&rows, "%s", heads[i]);
  for (size_t i = 0; i < N_PLANS; ++i) {
    const tn_program_stats *s = &all[i].stats;
    table_add(&rows, "%s", plans[i].name);
    table_add(&rows, "%" PRIu64, s->pool_bytes);
    table_add(&rows, "%" PRIu64, s->bound_bytes);
    table_add(&rows, "%" PRIu64, s->workspace_bytes);
    table_add(&rows, "%" PRIu64, s->n_fused);
    table_add(&rows, "%" PRIu64, s->n_in_registers);
  }
  text_add(out,
           "%" PRIu64 " steps forward, %" PRIu64
           " backward; arguments, gradients and states: %" PRIu64 " bytes\n\n",
           all[0].stats.n_forward, all[0].stats.n_backward,
           all[0].stats.own_bytes);
  table_print(&rows, "", out);
}

static void print_people(const outcome *all, text *out) {
  print_totals(all, out);
  for (size_t i = 0; i < N_PLANS; ++i)
    if (plans[i].detailed)
      text_add(out, "\n%s\n%s", plans[i].name, text_get(&all[i].steps));
}

static void print_json(const outcome *all, text *out) {
  text_add(out, "{\"plans\": [");
  for (size_t i = 0; i < N_PLANS; ++i) {
    const tn_program_stats *s = &all[i].stats;
    text_add(out,
             "%s{\"plan\": \"%s\", \"n_forward\": %" PRIu64
             ", \"n_backward\": %" PRIu64 ", \"n_fused\": %" PRIu64
             ", \"n_in_registers\": %" PRIu64 ", \"pool_bytes\": %" PRIu64
             ", \"bound_bytes\": %" PRIu64 ", \"workspace_bytes\": %" PRIu64
             ", \"own_bytes\": %" PRIu64,
             i ? ", " : "", plans[i].name, s->n_forward, s->n_backward,
             s->n_fused, s->n_in_registers, s->pool_bytes, s->bound_bytes,
             s->workspace_bytes, s->own_bytes);
    if (plans[i].detailed) {
      text_add(out, ", \"steps\": ");
      text_add_json(out, text_get(&all[i].steps));
    }
    text_add(out, "}");
  }
  text_add(out, "]}\n");
}

static bool print_plan(net *n, text *out) {
  outcome all[N_PLANS] = {0};
  bool ok = true;
  for (size_t i = 0; ok && i < N_PLANS; ++i) ok = plan_one(n, i, &all[i]);
  if (ok) {
    if (n->args->given & OPTION_JSON)
      print_json(all, out);
    else
      print_people(all, out);
  }
  for (size_t i = 0; i < N_PLANS; ++i) {
    out->failed = out->failed || all[i].steps.failed;
    text_deinit(&all[i].steps);
  }
  return ok;
}

/* ------------------------------------------------------------------ command */

enum { WORD_SHOW, WORD_PLAN, WORD_RUN, N_WORDS };
const char *const graph_words[] = {"show", "plan", "run", NULL};

/* Which words an option is for. */
static const struct {
  const char *option;
  uint32_t bit;
  bool words[N_WORDS];
  const char *wanted;
} rules[] = {
    {"--shape", OPTION_SHAPE, {true, true, false}, "show` and `graph plan"},
    {"--group", OPTION_GROUP, {false, true, false}, "plan"},
    {"--train", OPTION_TRAIN, {false, true, true}, "plan` and `graph run"},
    {"--why", OPTION_WHY, {false, true, false}, "plan"},
    {"--dot", OPTION_DOT, {true, false, false}, "show"},
    {"--svg", OPTION_SVG, {true, true, false}, "show` and `graph plan"},
    {"--dtype", OPTION_DTYPE, {false, false, true}, "run"},
    {"--seed", OPTION_SEED, {false, false, true}, "run"},
    {"--full", OPTION_FULL, {false, false, true}, "run"},
    {"--out", OPTION_OUT, {false, false, true}, "run"},
    {"--profile", OPTION_PROFILE, {false, false, true}, "run"},
    {"--trace", OPTION_TRACE, {false, false, true}, "run"},
    {"--state", OPTION_STATE, {false, false, true}, "run"},
};

static bool options_check(const arguments *args, int word, text *why) {
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; ++i)
    if (args->given & rules[i].bit && !rules[i].words[word])
      return report_failure(
          why, "%s is an option of `graph %s`, not of `graph %s`",
          rules[i].option, rules[i].wanted, graph_words[word]);
  if (args->given & OPTION_DOT && args->given & OPTION_JSON)
    return report_failure(why, "--dot and --json are two forms; choose one");
  return results_check_out(args, why);
}

/* The first word, or -1. */
static int word_find(const arguments *args, text *why) {
  int word = 0;
  if (args->n_words < 2) {
    report_failure(
        why,
        "graph wants `show`, `plan` or `run`, and a file, such as `tenon "
        "graph show net.json`");
    return -1;
  }
  while (word < N_WORDS && strcmp(args->words[0], graph_words[word]) != 0)
    ++word;
  if (word == N_WORDS) {
    const char *meant = did_you_mean(args->words[0], graph_words, N_WORDS);
    report_failure(
        why, "graph: unknown word `%s`%s%s%s", args->words[0],
        meant ? "; did you mean `" : "; there are show, plan and run",
        meant ? meant : "", meant ? "`?" : "");
    return -1;
  }
  if (word == WORD_RUN || args->n_words == 2) return word;
  report_failure(why, "graph %s: unexpected `%s`; name one file",
                 args->words[0], args->words[2]);
  return -1;
}

/* Where plugins are missing, the message says how to load them. */
static bool load_graph(net *n, tn_runtime *rt) {
  if (!find_files(n)) return false;
  if (!tn_graph_load(rt, text_get(&n->file), &n->graph)) return true;
  fail_library(n->why);
  return strstr(text_get(n->why), "load the plugins") &&
         report_failure(n->why, "%s; %s", text_get(n->why), host_hint);
}

static bool do_word(net *n, host *h, int word, text *out) {
  if (!host_load(h, n->args, n->why)) return false;
  if (!groups_find(n, h->rt)) return false;
  if (!load_graph(n, h->rt)) return false;
  n->rt = h->rt;
  return word == WORD_RUN
             ? net_run(n, out) && host_print_state(h, n->args, n->why)
         : word == WORD_PLAN ? print_plan(n, out)
                             : show_graph(n, out);
}

int cmd_graph(const arguments *args, text *out, text *why) {
  host h;
  int status = STATUS_USAGE;
  net n = {.args = args, .why = why};
  const int word = word_find(args, why);
  if (word < 0 || !options_check(args, word, why)) return status;
  if (shapes_read(&n) && groups_read(&n)) {
    status = STATUS_FAILED;
    if (host_open(&h, args, group_cpus(n.words, args->n_groups), why)) {
      if (do_word(&n, &h, word, out)) status = STATUS_OK;
      tn_graph_release(n.graph);
      host_close(&h);
    }
  }
  shapes_free(&n);
  groups_free(&n);
  text_deinit(&n.file), text_deinit(&n.weights);
  return status;
}
