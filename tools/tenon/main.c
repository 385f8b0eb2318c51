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
  uint32_t options;
  int (*run)(const arguments *args, text *out, text *why);
} command;

static const command commands[] = {
    {"list", "list [plugins|operators|devices]",
     "what is installed on this machine",
     "Without a word, lists plugins, operators and devices.\n",
     OPTION_JSON | OPTION_PLUGIN | OPTION_HELP, cmd_list},
    {"show", "show OP", "one operator, and its kernels",
     "OP is a name such as elemwise.quadratic, or elemwise.quadratic@1 for "
     "one\n"
     "release of its interface.\n",
     OPTION_JSON | OPTION_PLUGIN | OPTION_WHY | OPTION_HELP, cmd_show},
    {"inspect", "inspect FILE.so", "a plugin file, without loading it",
     "Reads what the file says of itself, and says whether this host would\n"
     "load it. No code of the file runs.\n",
     OPTION_JSON | OPTION_HELP, cmd_inspect},
    {"run", "run OP INPUT... KEY=VALUE...", "one call of an operator",
     "An INPUT is one of\n"
     "  [[1,2],[3,4]]                      nested lists, or a single number\n"
     "  @file.npy                          a file of NumPy\n"
     "  randn(2,3)  zeros(2,3)  ones(2,3)  normal random numbers, zeros, ones\n"
     "  none                               an optional input that is not "
     "given\n"
     "States, which the operator changes, stand behind the inputs; without\n"
     "them they begin as its manifest says. They are printed afterwards.\n"
     "KEY=VALUE sets a parameter; `tenon show OP` lists them. Put `--` before\n"
     "an input that begins with a dash.\n"
     "In JSON, numbers that it does not know are the strings \"nan\", \"inf\"\n"
     "and \"-inf\".\n",
     OPTION_JSON | OPTION_PLUGIN | OPTION_GRAD | OPTION_DTYPE | OPTION_SEED |
         OPTION_FULL | OPTION_TRACE | OPTION_HELP,
     cmd_run},
    {"graph", "graph show|plan NET.json", "a graph, and a program made of it",
     "show prints the nodes with their shapes, as far as the file and --shape\n"
     "tell them.\n"
     "plan makes programs of the graph and prints what memory they take: the\n"
     "totals of every way to plan it, then the steps of the default one and "
     "of\n"
     "`compat`. The picture shows the default one's memory over time.\n",
     OPTION_JSON | OPTION_PLUGIN | OPTION_SHAPE | OPTION_TRAIN | OPTION_DOT |
         OPTION_SVG | OPTION_WHY | OPTION_PASS | OPTION_GROUP | OPTION_HELP,
     cmd_graph},
};

enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

/* -------------------------------------------------------------------- help */

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
           "version.\n\n"
           "Plugins are loaded from the folder lib/tenon of the installation, "
           "then from\nthe folders of the environment variable "
           "TENON_PLUGIN_PATH, then from --plugin.\n");
}

static void print_help(const command *c, text *out) {
  text_add(out, "usage: tenon %s [options]\n\n%s\noptions\n", c->usage,
           c->help);
  args_help(c->options, out);
}

/* ---------------------------------------------------------------- dispatch */

static int unknown_command(const char *name, text *why) {
  const char *names[N_COMMANDS];
  for (size_t i = 0; i < N_COMMANDS; ++i) names[i] = commands[i].name;
  const char *meant = did_you_mean(name, names, N_COMMANDS);
  if (meant)
    fail(why, "unknown command `%s`; did you mean `%s`?", name, meant);
  else
    fail(why, "unknown command `%s`; `tenon --help` lists them", name);
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

static int dispatch(char *const *argv, text *out, text *why) {
  const char *name = *argv;
  if (!name) {
    fail(why, "no command is given; `tenon --help` lists them");
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
  for (size_t i = 0; i < N_COMMANDS; ++i)
    if (!strcmp(commands[i].name, name))
      return run_command(&commands[i], argv + 1, out, why);
  return unknown_command(name, why);
}

/* Writes what a command printed; a full disk or a closed pipe is a failure. */
static int finish(int status, text *out, text *why) {
  if (status == STATUS_OK && out->failed) {
    fail(why, "out of memory while printing");
    status = STATUS_FAILED;
  }
  if (status == STATUS_OK) {
    text_print(out, stdout);
    if (fflush(stdout) == 0 && !ferror(stdout)) return STATUS_OK;
    fail(why, "cannot write the output");
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
  int status = dispatch(argc ? argv + 1 : argv, &out, &why);
  status = finish(status, &out, &why);
  text_deinit(&out);
  text_deinit(&why);
  return status;
}
