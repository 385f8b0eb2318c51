/* SPDX-License-Identifier: Apache-2.0
 * main.c: the command `tenon`: the table of its commands, help, and the one
 * place where output and messages leave the program.
 */
#include <stdio.h>
#include <string.h>

#include "tenon_tool.h"

typedef struct command {
  const char *name;
  const char *usage;
  const char *summary;
  const char *help;
  const char *const *words; /* of which the first operand is one, or NULL */
  const char *operands;     /* kinds of the operands for shells, the last for
                               all that follow: "operator file" */
  uint32_t options;
  int (*run)(const arguments *args, text *out, text *why);
} command;

static const command commands[] = {
    {"list", "list [plugins|operators [TEXT]|devices|backends]",
     "what is installed on this machine",
     "Without a word, lists plugins, operators and devices. `backends` are "
     "the\n"
     "ways in which ranks communicate (plugin comm). With TEXT, lists\n"
     "the operators that have it in their names. Operators are in the order\n"
     "of their manifests, so those of one family follow one another.\n",
     list_words, "", OPTION_JSON | OPTION_PLUGIN | OPTION_HELP, cmd_list},
    {"show", "show OP", "one operator, and its kernels",
     "OP is a name such as elemwise.quadratic, or elemwise.quadratic@1 for "
     "one\n"
     "release of its interface.\n",
     NULL, "operator", OPTION_JSON | OPTION_PLUGIN | OPTION_WHY | OPTION_HELP,
     cmd_show},
    {"inspect", "inspect FILE.so", "a plugin file, without loading it",
     "Reads what the file says of itself, and says whether this host would\n"
     "load it. No code of the file runs.\n",
     NULL, "file", OPTION_JSON | OPTION_HELP, cmd_inspect},
    {"run", "run OP INPUT... KEY=VALUE...", "one call of an operator",
     "An INPUT is one of\n"
     "  [[1,2],[3,4]]                      nested lists, or a single number\n"
     "  @x.npy                             an array of a file of NumPy\n"
     "  @x.npz:name  @x.safetensors:name   one of several arrays of a file\n"
     "  @-  @-:name                        such a file on standard input\n"
     "  randn(2,3)  zeros(2,3)  ones(2,3)  normal random numbers, zeros, ones\n"
     "  f16:[1,2]  f16:@x.npy              any of these with its own type\n"
     "  none                               an optional input that is not "
     "given\n"
     "Give the states, which the operator changes, after the inputs; without\n"
     "them they begin as its manifest says. They are printed afterwards.\n"
     "KEY=VALUE sets a parameter; `tenon show OP` lists them. Put `--` before\n"
     "an input that begins with a dash.\n"
     "--dtype converts arrays of files too, but does not cut off fractions.\n"
     "--out writes outputs, states and gradients (`grad.NAME`) by their "
     "names;\n"
     "a .npy has room for one array, and `--out -` writes it to standard "
     "output.\n"
     "In JSON, numbers that it does not know are the strings \"nan\", \"inf\"\n"
     "and \"-inf\".\n",
     NULL, "operator file",
     OPTION_JSON | OPTION_PLUGIN | OPTION_GRAD | OPTION_DTYPE | OPTION_SEED |
         OPTION_FULL | OPTION_TRACE | OPTION_OUT | OPTION_PROFILE |
         OPTION_TRAINING | OPTION_STATE | OPTION_HELP,
     cmd_run},
    {"graph", "graph show|plan|run NET.json [ARRAY...]",
     "a graph, and a program made of it",
     "show prints the nodes with their shapes, as far as the file and --shape\n"
     "tell them.\n"
     "plan makes programs of the graph and prints what memory they take: the\n"
     "totals of every way to plan it, then the steps of the default one. The\n"
     "picture shows its memory over time.\n"
     "run computes the graph once, forward. An ARRAY is NAME=INPUT, for one\n"
     "argument or state and with an INPUT of `tenon run`, or a .npz or\n"
     ".safetensors file, whose arrays go to the variables of their names.\n"
     "NET.json may also be a folder with graph.json and weights.safetensors,\n"
     "such as `python -m tenon.onnx convert` makes.\n"
     "States that are not given begin as their operators say, and labels are\n"
     "not needed. With --train, the states are results too.\n",
     graph_words, "file",
     OPTION_JSON | OPTION_PLUGIN | OPTION_SHAPE | OPTION_TRAIN | OPTION_DOT |
         OPTION_SVG | OPTION_WHY | OPTION_PASS | OPTION_GROUP | OPTION_DTYPE |
         OPTION_SEED | OPTION_FULL | OPTION_TRACE | OPTION_OUT |
         OPTION_PROFILE | OPTION_STATE | OPTION_HELP,
     cmd_graph},
    {"data", "data pack|list|check PATH [FILE.idx]",
     "files of records for training",
     "pack writes the files of the folder PATH, each with its label, to a "
     "file\n"
     "of records and its index, as im2rec of MXNet does. Each folder with\n"
     "files is a class, and its number is the label: folders are counted from\n"
     "0 in the order of their names. Names that begin with a dot are left\n"
     "out. With --list, a line names each file, relative to PATH: `LABEL "
     "PATH`,\n"
     "or, with tabs between them, an index, labels and the path. Older files\n"
     "of the same name stay until the new ones are complete.\n"
     "list prints the records of the file PATH, check reads them all and\n"
     "prints each damaged place; with an index, they also use or check it.\n"
     "Both end with status 1 if a place is damaged. A record that can begin\n"
     "with labels is shown with them.\n",
     data_words, "file",
     OPTION_RECORDS | OPTION_LIST | OPTION_SUFFIX | OPTION_PARTS |
         OPTION_SHUFFLE | OPTION_SEED | OPTION_JSON | OPTION_HELP,
     cmd_data},
};

enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

/* -------------------------------------------------------------------- help */

static const char about_plugins[] =
    "Plugins are loaded from the folder lib/tenon of the installation, from\n"
    "~/.local/lib/tenon, from the folders of the environment variable\n"
    "TENON_PLUGIN_PATH, then from --plugin. Folders and files that other "
    "users\n"
    "may write are refused.\n";

static const char about_log[] =
    "The environment variable TENON_LOG selects lines of the library's log, "
    "which\n"
    "are printed on stderr: TENON_LOG=debug, or engine:debug,info with a level "
    "of\n"
    "its own for a part. A wrong word gets the list of levels and parts.\n";

static const char about_status[] =
    "Status: 0 done, 1 failed, 2 a command line that is not understood.\n";

static void print_overview(text *out) {
  table rows = {.n_columns = 2};
  text_add(out, "usage: tenon COMMAND [options]\n\ncommands\n");
  for (size_t i = 0; i < N_COMMANDS; ++i) {
    table_add(&rows, "%s", commands[i].usage);
    table_add(&rows, "%s", commands[i].summary);
  }
  table_print(&rows, "  ", out);
  text_add(out,
           "\n`tenon COMMAND --help` says more; `tenon --version` prints the "
           "version,\n`tenon --commands` all of this as JSON.\n\n%s\n%s\n%s",
           about_plugins, about_log, about_status);
}

static void print_help(const command *c, text *out) {
  text_add(out, "usage: tenon %s [options]\n\n%s\noptions\n", c->usage,
           c->help);
  args_help(c->options, out);
}

/* ------------------------------------------------------------------ tables */

static void add_member(const char *key, const char *value, text *out) {
  text_add(out, "\"%s\": ", key);
  text_add_json(out, value);
  text_add(out, ", ");
}

static void add_command_json(const command *c, text *out) {
  text_add(out, "{");
  add_member("name", c->name, out);
  add_member("usage", c->usage, out);
  add_member("summary", c->summary, out);
  add_member("help", c->help, out);
  add_member("operands", c->operands, out);
  text_add(out, "\"words\": [");
  for (size_t i = 0; c->words && c->words[i]; ++i) {
    text_add(out, "%s", i ? ", " : "");
    text_add_json(out, c->words[i]);
  }
  text_add(out, "], \"options\": [");
  args_help_json(c->options, out);
  text_add(out, "]}");
}

/* Everything that --help prints, for manual pages and the completion of
 * shells (tools/pages). */
static void print_commands_json(text *out) {
  text_add(out, "{");
  add_member("program", "tenon", out);
  add_member("version", tn_version(), out);
  add_member("summary", "look at plugins and graphs, run operators, pack data",
             out);
  add_member("files", about_plugins, out);
  add_member("environment", about_log, out);
  add_member("status", about_status, out);
  text_add(out, "\"commands\": [");
  for (size_t i = 0; i < N_COMMANDS; ++i) {
    text_add(out, "%s", i ? ", " : "");
    add_command_json(&commands[i], out);
  }
  text_add(out, "]}\n");
}

/* ---------------------------------------------------------------- dispatch */

static int unknown_command(const char *name, text *why) {
  const char *names[N_COMMANDS];
  for (size_t i = 0; i < N_COMMANDS; ++i) names[i] = commands[i].name;
  const char *meant = did_you_mean(name, names, N_COMMANDS);
  if (meant)
    report_failure(why, "unknown command `%s`; did you mean `%s`?", name,
                   meant);
  else
    report_failure(why, "unknown command `%s`; `tenon --help` lists them",
                   name);
  return STATUS_USAGE;
}

static int run_command(const command *c, char *const *argv, text *out,
                       text *why) {
  arguments args;
  if (!args_parse(c->options, argv, &args, why)) return STATUS_USAGE;
  int status = STATUS_OK;
  if (args.given & OPTION_HELP)
    print_help(c, out);
  else
    status = c->run(&args, out, why);
  args_deinit(&args);
  return status;
}

static int find_and_run(char *const *argv, text *out, text *why) {
  const char *name = *argv;
  if (!name) {
    report_failure(why, "no command is given; `tenon --help` lists them");
    return STATUS_USAGE;
  }
  if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help")) {
    print_overview(out);
    return STATUS_OK;
  }
  if (!strcmp(name, "--version")) {
    text_add(out, "tenon %s (ABI %d.%d)\n", tn_version(), TN_ABI_MAJOR,
             TN_ABI_MINOR);
    return STATUS_OK;
  }
  if (!strcmp(name, "--commands")) {
    print_commands_json(out);
    return STATUS_OK;
  }
  for (size_t i = 0; i < N_COMMANDS; ++i)
    if (!strcmp(commands[i].name, name))
      return run_command(&commands[i], argv + 1, out, why);
  return unknown_command(name, why);
}

/* Writes a command's output; a full disk or a closed pipe is a failure. */
static int write_output(int status, text *out, text *why) {
  const bool prints = status == STATUS_OK || status == STATUS_REPORTED;
  if (prints && out->failed) {
    report_failure(why, "out of memory while printing");
    status = STATUS_FAILED;
  } else if (prints) {
    text_print(out, stdout);
    if (fflush(stdout) == 0 && !ferror(stdout))
      return status == STATUS_OK ? STATUS_OK : STATUS_FAILED;
    report_failure(why, "cannot write the output");
    status = STATUS_FAILED;
  }
  fprintf(stderr, "tenon: ");
  text_print(why, stderr);
  fprintf(stderr, "\n");
  return status;
}

int main(int argc, char **argv) {
  text out = {0};
  text why = {0};
  int status = find_and_run(argc ? argv + 1 : argv, &out, &why);
  status = write_output(status, &out, &why);
  text_deinit(&out);
  text_deinit(&why);
  return status;
}
