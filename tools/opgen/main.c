/* SPDX-License-Identifier: Apache-2.0
 * opgen: writes the C of an operator plugin from its YAML manifests. main.c
 * finds the command; each has a file of its own.
 */
#include <stdlib.h>
#include <string.h>

#include "emit.h"
#include "opgen.h"

typedef struct command {
  const char *name;
  const char *arguments;
  const char *summary;
  unsigned takes;
  size_t least; /* files or words that it needs */
  size_t most;
  int (*run)(const opgen_args *args);
  const char *options;
} command;

static const char generate_options[] =
    "  -o DIR           where the files go\n"
    "  --depfile FILE   what was read, as a rule for make or ninja\n"
    "  --with PATH      where the operators of `kernels_for` are described: a\n"
    "                   built plugin, a plugin.yaml or a folder; repeatable\n"
    "  --cuda           the files of the companion plugin instead, which\n"
    "                   has the kernels for CUDA: those of formulas and\n"
    "                   those that manifests name with `device: cuda`\n"
    "  --tests          PLUGIN_test.gen.c instead: a program that runs the\n"
    "                   examples and checks the gradients of a built plugin\n"
    "\n"
    "FILE is plugin.yaml; the operator files that it lists may follow. Writes\n"
    "only what differs from what is there.\n";

static const char outputs_options[] =
    "  --with PATH      as for `opgen generate`\n"
    "  --cuda           those of the companion plugin\n"
    "  --tests          what `opgen generate --tests` writes\n"
    "\n"
    "One name per line, in the order in which a build file may list them.\n";

static const char check_options[] =
    "  -W NAME[=LEVEL]  sets a lint to LEVEL: off, warning (default) or error\n"
    "  -Wno-NAME        switches it off\n"
    "  -Wall            switches every lint on\n"
    "  -Werror          warnings count as errors\n"
    "  --list           prints the lints, with their levels\n"
    "  --with PATH      as for `opgen generate`; built plugins among them and\n"
    "                   manifests of bindings have what gradients call, as\n"
    "                   installed ones\n"
    "  --limit SECONDS  how long the code of a built plugin may run, loading\n"
    "                   and examples each; default 60\n"
    "  --error-format FORMAT\n"
    "                   human (default), short (a line each) or json\n"
    "\n"
    "FILE is a plugin.yaml or one of its operator files, DIR a folder that\n"
    "holds a plugin.yaml; without any, the current folder. FILE.so is a built\n"
    "plugin: it is loaded in a process of its own, its symbols are looked at,\n"
    "and the examples of its manifests, if they are given too, are computed.\n";

static const char show_options[] =
    "  --c              the C that `opgen generate` would write\n"
    "  --with PATH      as for `opgen generate`\n";

static const char new_options[] =
    "  --from EXAMPLE   what it begins as: quadratic (a formula; the "
    "default),\n"
    "                   relu (a kernel beside the formula that it must agree\n"
    "                   with; the default with --kernels), convolution\n"
    "                   (shape patterns, a kernel for the gradient) or "
    "binding\n"
    "                   (a function of a library; nothing is compiled)\n"
    "  --kernels LIST   kernels that you will write: cpu, cuda or cpu,cuda;\n"
    "                   what a formula gives is generated for both anyway\n"
    "  --for OTHER.OP   a kernel for an operator of another plugin, in the\n"
    "                   manifest OP.yaml of PLUGIN\n"
    "  --missing        adds functions that the manifests of PLUGIN name and\n"
    "                   no file defines, in new files, and nothing else\n"
    "  --with PATH      as for `opgen generate`; what Tenon has installed is\n"
    "                   found without\n"
    "  -o DIR           the project's folder; by default the current folder "
    "if\n"
    "                   it holds a plugin.yaml, otherwise ./PLUGIN\n"
    "\n"
    "Where there is a plugin.yaml the operator is added to it, otherwise a "
    "new\n"
    "project is written, which builds and passes `meson test`. Nothing is\n"
    "written over, and nothing is left behind if it fails.\n";

static const char fmt_options[] =
    "  --check          print the names of files that are not in this form, "
    "and\n"
    "                   change nothing; status 1 if there are any\n"
    "\n"
    "Brings manifests into one form: the order of keys, spacing, nothing "
    "else.\n"
    "A file is written only if it changes, and only after it was read again "
    "and\n"
    "found to mean the same.\n";

static const char diff_options[] =
    "  --with PATH      as for `opgen generate`, for both sides\n"
    "\n"
    "OLD and NEW are each a plugin.yaml, a folder that holds one, or a built\n"
    "plugin. What does not exist may be REV:PATH, a folder of a git revision.\n"
    "\n"
    "One line per change: the operator, what breaks, the change, and where it\n"
    "is written in NEW. What breaks is\n"
    "  ok      nothing: more is possible than before\n"
    "  note    nothing: a slip of the author's\n"
    "  doc     nothing: people read something else\n"
    "  source  calls and names are refused, with a message\n"
    "  abi     what was compiled against OLD\n"
    "  model   saved graphs: they compute something else, or not at all\n"
    "Status: 0 nothing but words changed, 3 minor, 4 major.\n";

static const char docs_options[] =
    "  -o FILE          one Markdown file; without, to stdout\n"
    "  --site DIR       a folder of HTML files with a search, instead\n"
    "  --plugin FILE    the built plugin, which computes the examples; "
    "without,\n"
    "                   NAME.so beside the manifests, if it is there. Of "
    "bindings\n"
    "                   it is their plugin.yaml\n"
    "  --with PATH      as for `opgen check`\n"
    "  --limit SECONDS  likewise\n"
    "\n"
    "DIR holds a plugin.yaml. Each page says whether its examples were "
    "computed.\n"
    "An example that comes out otherwise than the manifest states is an "
    "error.\n";

static const char explain_options[] =
    "CODE is what stands in brackets behind an error, such as E0012; without\n"
    "it, every code is listed.\n";

static const command commands[] = {
    {"new",
     "PLUGIN.OP [--kernels LIST] [--from EXAMPLE | --for OTHER.OP] "
     "[--missing] [-o DIR]",
     "begin a project, or add an operator to one",
     TAKES_KERNELS | TAKES_FROM | TAKES_FOR | TAKES_MISSING | TAKES_OUT_DIR |
         TAKES_WITH,
     1, 1, cmd_new, new_options},
    {"generate",
     "FILE... -o DIR [--depfile FILE] [--with PATH] [--cuda|--tests]",
     "write the C files of a plugin",
     TAKES_OUT_DIR | TAKES_DEPFILE | TAKES_WITH | TAKES_CUDA | TAKES_TESTS, 1,
     SIZE_MAX, cmd_generate, generate_options},
    {"outputs", "FILE [--cuda|--tests]",
     "print the names of the files that generate writes",
     TAKES_WITH | TAKES_CUDA | TAKES_TESTS, 1, 1, cmd_outputs, outputs_options},
    {"check", "[FILE|DIR|FILE.so...] [-W NAME] [-Werror] [--list]",
     "look for mistakes, also in the examples",
     TAKES_WERROR | TAKES_FORMAT | TAKES_WITH | TAKES_LINTS | TAKES_LIST |
         TAKES_LIMIT,
     0, SIZE_MAX, cmd_check, check_options},
    {"show", "FILE [--c]", "show what an operator computes, keeps and writes",
     TAKES_C | TAKES_WITH, 1, 1, cmd_show, show_options},
    {"fmt", "FILE... [--check]", "bring manifests into canonical form",
     TAKES_CHECK, 1, SIZE_MAX, cmd_fmt, fmt_options},
    {"diff", "OLD NEW [--with PATH]",
     "classify what changed between two plugins", TAKES_WITH, 2, 2, cmd_diff,
     diff_options},
    {"docs", "DIR [-o FILE | --site DIR] [--plugin FILE]",
     "write the manual of a plugin",
     TAKES_OUT_DIR | TAKES_SITE | TAKES_PLUGIN | TAKES_WITH | TAKES_LIMIT, 1, 1,
     cmd_docs, docs_options},
    {"explain", "[CODE]", "say more about an error", 0, 0, 1, cmd_explain,
     explain_options},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static int print_help(void) {
  printf("opgen writes the C of an operator plugin from its manifests.\n\n");
  printf("usage:\n");
  for (size_t i = 0; i < N_COMMANDS; ++i)
    printf("  opgen %-9s %s\n", commands[i].name, commands[i].summary);
  printf(
      "  opgen --version\n\n"
      "`opgen COMMAND --help` shows the options of a command.\n");
  return EXIT_FINE;
}

static int print_command_help(const command *c) {
  printf("usage: opgen %s %s\n\n%s.\n\n%s", c->name, c->arguments, c->summary,
         c->options);
  return EXIT_FINE;
}

static int unknown_command(const char *name) {
  const char *names[N_COMMANDS];
  for (size_t i = 0; i < N_COMMANDS; ++i) names[i] = commands[i].name;
  const char *near = tn__nearest(name, names, N_COMMANDS);
  if (near == NULL)
    return opgen_usage_error(NULL, "unknown command `%s`", name);
  return opgen_usage_error(NULL, "unknown command `%s`; did you mean `%s`?",
                           name, near);
}

static int run_checked(const command *c, const opgen_args *args) {
  if (args->help) return print_command_help(c);
  if (args->n_files < c->least)
    return opgen_usage_error(c->name, "an argument is missing: %s",
                             c->arguments);
  if (args->n_files > c->most)
    return opgen_usage_error(c->name, "unexpected argument `%s`",
                             args->files[c->most]);
  return c->run(args);
}

static int run(const command *c, int argc, char **argv) {
  opgen_args args = {.command = c->name};
  int status = EXIT_USAGE;
  if (opgen_args_init(&args, c->takes, argc, argv))
    status = run_checked(c, &args);
  opgen_args_deinit(&args);
  return status;
}

int main(int argc, char **argv) {
  if (argc < 2) return opgen_usage_error(NULL, "a command is missing");
  if (strcmp(argv[1], "--help") == 0) return print_help();
  if (strcmp(argv[1], "--version") == 0) {
    printf("opgen %s\n", OPGEN_VERSION);
    return EXIT_FINE;
  }
  for (size_t i = 0; i < N_COMMANDS; ++i)
    if (strcmp(argv[1], commands[i].name) == 0)
      return run(&commands[i], argc - 2, argv + 2);
  return unknown_command(argv[1]);
}
