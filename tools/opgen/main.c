/* SPDX-License-Identifier: Apache-2.0
 * main.c: opgen writes the C of an operator plugin from its YAML manifests.
 * This file finds the command; each has a file of its own.
 */
#include <stdlib.h>
#include <string.h>

#include "emit.h"
#include "opgen.h"

/* One option of a command in its help. */
typedef struct row {
  unsigned bit; /* TAKES_*; 0 is the end of a list */
  const char *value;
  const char *label; /* for a form of the option; NULL: its own name */
  const char *text;  /* lines */
} row;

typedef struct command {
  const char *name;
  const char *arguments;
  const char *summary;
  unsigned takes;
  size_t least; /* least number of files or words */
  size_t most;
  int (*run)(const opgen_args *args);
  const row *rows;   /* or NULL */
  const char *notes; /* or NULL; both are parts of its help */
} command;

static const row generate_rows[] = {
    {TAKES_OUT_DIR, "DIR", NULL, "where the files go"},
    {TAKES_DEPFILE, "FILE", NULL,
     "the files read, as a rule for make or ninja"},
    {TAKES_WITH, "PATH", NULL,
     "where the operators of `kernels_for` are described: a\n"
     "built plugin, a plugin.yaml or a folder; repeatable"},
    {TAKES_CUDA, NULL, NULL,
     "the files of the companion plugin instead, which\n"
     "has the kernels for CUDA: those of formulas and\n"
     "those that manifests name with `device: cuda`"},
    {TAKES_TESTS, NULL, NULL,
     "PLUGIN_test.gen.c instead: a program that runs the\n"
     "examples and checks the gradients of a built plugin"},
    {0, NULL, NULL, NULL},
};

static const char generate_notes[] =
    "FILE is plugin.yaml; the operator files that it lists may follow. Writes\n"
    "only files that differ.\n";

static const row outputs_rows[] = {
    {TAKES_WITH, "PATH", NULL, "as for `opgen generate`"},
    {TAKES_CUDA, NULL, NULL, "those of the companion plugin"},
    {TAKES_TESTS, NULL, NULL, "the files of `opgen generate --tests`"},
    {0, NULL, NULL, NULL},
};

static const char outputs_notes[] =
    "One name per line, in the order in which a build file may list them.\n";

static const row check_rows[] = {
    {TAKES_LINTS, "NAME[=LEVEL]", NULL,
     "sets a lint to LEVEL: off, warning (default) or error"},
    {TAKES_LINTS, NULL, "-Wno-NAME", "switches it off"},
    {TAKES_LINTS, NULL, "-Wall", "switches every lint on"},
    {TAKES_WERROR, NULL, NULL, "warnings count as errors"},
    {TAKES_LIST, NULL, NULL, "prints the lints, with their levels"},
    {TAKES_WITH, "PATH", NULL,
     "as for `opgen generate`; built plugins among them and\n"
     "manifests of bindings have operators that gradients\ncall, as installed "
     "ones"},
    {TAKES_LIMIT, "SECONDS", NULL,
     "how long the code of a built plugin may run, loading\n"
     "and examples each; default 60"},
    {TAKES_FORMAT, "FORMAT", NULL,
     "human (default), short (a line each) or json"},
    {0, NULL, NULL, NULL},
};

static const char check_notes[] =
    "FILE is a plugin.yaml or one of its operator files, DIR a folder that\n"
    "holds a plugin.yaml; without any, the current folder. FILE.so is a built\n"
    "plugin: it is loaded in a process of its own, its symbols are looked at,\n"
    "and the examples of its manifests, if they are given too, are computed.\n";

static const row show_rows[] = {
    {TAKES_C, NULL, NULL, "the C that `opgen generate` would write"},
    {TAKES_WITH, "PATH", NULL, "as for `opgen generate`"},
    {0, NULL, NULL, NULL},
};

static const row new_rows[] = {
    {TAKES_FROM, "EXAMPLE", NULL,
     "its model: quadratic (a formula; the default),\n"
     "relu (a kernel beside the formula that it must agree\n"
     "with; the default with --kernels), convolution\n"
     "(shape patterns, a kernel for the gradient) or binding\n"
     "(a function of a library; nothing is compiled)"},
    {TAKES_KERNELS, "LIST", NULL,
     "kernels that you will write: cpu, cuda or cpu,cuda;\n"
     "what a formula gives is generated for both anyway"},
    {TAKES_FOR, "OTHER.OP", NULL,
     "a kernel for an operator of another plugin, in the\n"
     "manifest OP.yaml of PLUGIN"},
    {TAKES_MISSING, NULL, NULL,
     "adds functions that the manifests of PLUGIN name and\n"
     "no file defines, in new files, and nothing else"},
    {TAKES_WITH, "PATH", NULL,
     "as for `opgen generate`; installed plugins of Tenon are\nfound without"},
    {TAKES_OUT_DIR, "DIR", NULL,
     "the project's folder; by default the current folder if\n"
     "it holds a plugin.yaml, otherwise ./PLUGIN"},
    {0, NULL, NULL, NULL},
};

static const char new_notes[] =
    "Where there is a plugin.yaml the operator is added to it, otherwise a "
    "new\n"
    "project is written, which builds and passes `meson test`. Nothing is\n"
    "written over, and nothing remains if it fails.\n";

static const row fmt_rows[] = {
    {TAKES_CHECK, NULL, NULL,
     "print the names of files that are not in this form, and\n"
     "change nothing; status 1 if there are any"},
    {0, NULL, NULL, NULL},
};

static const char fmt_notes[] =
    "Brings manifests into one form: the order of keys, spacing, nothing "
    "else.\n"
    "A file is written only if it changes, and only after it was read again "
    "and\n"
    "found to mean the same.\n";

static const row diff_rows[] = {
    {TAKES_WITH, "PATH", NULL, "as for `opgen generate`, for both sides"},
    {0, NULL, NULL, NULL},
};

static const char diff_notes[] =
    "OLD and NEW are each a plugin.yaml, a folder that holds one, or a built\n"
    "plugin. Another path may be REV:PATH, a folder of a git revision.\n"
    "\n"
    "One line per change: the operator, the consequence, the change, and "
    "its\nplace in NEW. The consequence is\n  ok      nothing: more is "
    "possible than before\n"
    "  note    nothing: a slip of the author's\n"
    "  doc     nothing: people read something else\n"
    "  source  calls and names are refused, with a message\n"
    "  abi     code that was compiled against OLD\n"
    "  model   saved graphs: they compute something else, or not at all\n"
    "Status: 0 nothing but words changed, 3 minor, 4 major.\n";

static const row docs_rows[] = {
    {TAKES_OUT_DIR, "FILE", NULL, "one Markdown file; without, to stdout"},
    {TAKES_PAGES, "DIR", NULL, "a folder with one for each operator, instead"},
    {TAKES_PLUGIN, "FILE", NULL,
     "the built plugin, which computes the examples; without,\n"
     "NAME.so beside the manifests, if it is there. Of bindings\n"
     "it is their plugin.yaml"},
    {TAKES_WITH, "PATH", NULL, "as for `opgen check`"},
    {TAKES_LIMIT, "SECONDS", NULL, "likewise"},
    {0, NULL, NULL, NULL},
};

static const char docs_notes[] =
    "DIR holds a plugin.yaml. Each page says whether its examples were "
    "computed.\n"
    "An example that comes out otherwise than the manifest states is an "
    "error.\n";

static const row eval_rows[] = {
    {TAKES_EXPRESSION, "EXPRESSION", NULL,
     "a formula instead of FILE; its names that are no `--param`\n"
     "are the inputs, in the order of their first use"},
    {TAKES_OP, "NAME", NULL, "the operator, if FILE has several"},
    {TAKES_PARAMS, "NAME=VALUE", NULL, "a parameter; repeatable"},
    {TAKES_DTYPE, "TYPE", NULL,
     "element type of the inputs; f32 where it is possible"},
    {TAKES_GRAD, NULL, NULL,
     "also the gradients of the inputs, for gradients of ones"},
    {0, NULL, NULL, NULL},
};

static const char eval_notes[] =
    "FILE is a manifest of formulas. An INPUT is a number or nested lists, as "
    "in\n"
    "'[[1, 2], [3, 4]]'. The formula is interpreted; `opgen generate` makes "
    "fast\nkernels of it.\n";

static const char explain_notes[] =
    "CODE is the text in brackets after an error, such as E0012; without\nit, "
    "every code is listed.\n";

static const command commands[] = {
    {"new",
     "PLUGIN.OP [--kernels LIST] [--from EXAMPLE | --for OTHER.OP] "
     "[--missing] [-o DIR]",
     "begin a project, or add an operator to one",
     TAKES_KERNELS | TAKES_FROM | TAKES_FOR | TAKES_MISSING | TAKES_OUT_DIR |
         TAKES_WITH,
     1, 1, cmd_new, new_rows, new_notes},
    {"generate",
     "FILE... -o DIR [--depfile FILE] [--with PATH] [--cuda|--tests]",
     "write the C files of a plugin",
     TAKES_OUT_DIR | TAKES_DEPFILE | TAKES_WITH | TAKES_CUDA | TAKES_TESTS, 1,
     SIZE_MAX, cmd_generate, generate_rows, generate_notes},
    {"outputs", "FILE [--cuda|--tests]",
     "print the names of the files that generate writes",
     TAKES_WITH | TAKES_CUDA | TAKES_TESTS, 1, 1, cmd_outputs, outputs_rows,
     outputs_notes},
    {"check", "[FILE|DIR|FILE.so...] [-W NAME] [-Werror] [--list]",
     "look for mistakes, also in the examples",
     TAKES_WERROR | TAKES_FORMAT | TAKES_WITH | TAKES_LINTS | TAKES_LIST |
         TAKES_LIMIT,
     0, SIZE_MAX, cmd_check, check_rows, check_notes},
    {"show", "FILE [--c]", "show the formulas, needs and kernels of operators",
     TAKES_C | TAKES_WITH, 1, 1, cmd_show, show_rows, NULL},
    {"fmt", "FILE... [--check]", "bring manifests into canonical form",
     TAKES_CHECK, 1, SIZE_MAX, cmd_fmt, fmt_rows, fmt_notes},
    {"diff", "OLD NEW [--with PATH]",
     "classify the changes between two plugins", TAKES_WITH, 2, 2, cmd_diff,
     diff_rows, diff_notes},
    {"docs", "DIR [-o FILE | --pages DIR] [--plugin FILE]",
     "write the manual of a plugin",
     TAKES_OUT_DIR | TAKES_PAGES | TAKES_PLUGIN | TAKES_WITH | TAKES_LIMIT, 1,
     1, cmd_docs, docs_rows, docs_notes},
    {"eval", "FILE|-e EXPRESSION INPUT... [--param NAME=VALUE] [--grad]",
     "compute a formula without a compiler",
     TAKES_EXPRESSION | TAKES_OP | TAKES_PARAMS | TAKES_GRAD | TAKES_DTYPE, 1,
     SIZE_MAX, cmd_eval, eval_rows, eval_notes},
    {"explain", "[CODE]", "say more about an error", 0, 0, 1, cmd_explain, NULL,
     explain_notes},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static const char summary[] =
    "writes the C of an operator plugin from its manifests";
static const char about_status[] =
    "Status: 0 done, 1 errors, 2 a command line that is not understood; that "
    "of\n"
    "`opgen diff` is in its help.\n";

static int print_help(void) {
  printf("opgen %s.\n\n", summary);
  printf("usage:\n");
  for (size_t i = 0; i < N_COMMANDS; ++i)
    printf("  opgen %-9s %s\n", commands[i].name, commands[i].summary);
  printf(
      "  opgen --version\n"
      "  opgen --commands  print all of this as JSON\n\n"
      "`opgen COMMAND --help` shows the options of a command.\n"
      "%s",
      about_status);
  return EXIT_FINE;
}

enum { COLUMN = 19 }; /* column of the texts of options */

static const char *label_of(const row *r) {
  return r->label != NULL ? r->label : opgen_option_name(r->bit);
}

static void print_row(const row *r) {
  int at = printf("  %s%s%s", label_of(r), r->value != NULL ? " " : "",
                  r->value != NULL ? r->value : "");
  if (at >= COLUMN) {
    printf("\n");
    at = 0;
  }
  for (const char *line = r->text; line != NULL; at = 0) {
    const size_t n = strcspn(line, "\n");
    printf("%*s%.*s\n", COLUMN - at, "", (int)n, line);
    line = line[n] == '\n' ? line + n + 1 : NULL;
  }
}

static int print_command_help(const command *c) {
  printf("usage: opgen %s %s\n\n%s.\n\n", c->name, c->arguments, c->summary);
  for (const row *r = c->rows; r != NULL && r->bit != 0; ++r) print_row(r);
  if (c->notes != NULL) printf("%s%s", c->rows != NULL ? "\n" : "", c->notes);
  return EXIT_FINE;
}

/* ------------------------------------------------------------------- tables */

static void add_member(tn__buf *out, const char *key, const char *value) {
  tn__buf_add(out, "\"%s\": ", key);
  tn__buf_json(out, value);
  tn__buf_add(out, ", ");
}

/* Adds the possible values of an option, as a list. */
static void add_choices(tn__buf *out, const char *choices) {
  tn__buf_add(out, "\"choices\": [");
  for (const char *at = choices; at != NULL;) {
    const size_t n = strcspn(at, "|");
    tn__buf_add(out, "%s\"%.*s\"", at != choices ? ", " : "", (int)n, at);
    at = at[n] == '|' ? at + n + 1 : NULL;
  }
  tn__buf_add(out, "]");
}

static void add_row(tn__buf *out, const row *r) {
  tn__buf_add(out, "{");
  add_member(out, "name", label_of(r));
  if (r->value != NULL)
    add_member(out, "value", r->value);
  else
    tn__buf_add(out, "\"value\": null, ");
  add_member(out, "help", r->text);
  add_choices(out, r->label == NULL ? opgen_option_choices(r->bit) : NULL);
  tn__buf_add(out, "}, ");
}

static void add_command(tn__buf *out, const command *c) {
  static const row help = {0, NULL, "--help", "prints this text"};
  char usage[256];
  (void)snprintf(usage, sizeof usage, "%s %s", c->name, c->arguments);
  tn__buf_add(out, "{");
  add_member(out, "name", c->name);
  add_member(out, "usage", usage);
  add_member(out, "summary", c->summary);
  add_member(out, "help", c->notes != NULL ? c->notes : "");
  add_member(out, "operands",
             c->run == cmd_new || c->run == cmd_explain ? "" : "file");
  tn__buf_add(out, "\"words\": [], \"options\": [");
  for (const row *r = c->rows; r != NULL && r->bit != 0; ++r) add_row(out, r);
  add_row(out, &help);
  out->n -= 2; /* the last comma */
  tn__buf_add(out, "]}");
}

/* Prints everything that --help prints, for manual pages and the completion of
 * shells (tools/pages). */
static int print_commands(void) {
  tn__buf out;
  tn__buf_init(&out, tn__env_default());
  tn__buf_add(&out, "{");
  add_member(&out, "program", "opgen");
  add_member(&out, "version", OPGEN_VERSION);
  add_member(&out, "summary", summary);
  add_member(&out, "files", "");
  add_member(&out, "status", about_status);
  tn__buf_add(&out, "\"commands\": [");
  for (size_t i = 0; i < N_COMMANDS; ++i) {
    tn__buf_add(&out, "%s", i > 0 ? ", " : "");
    add_command(&out, &commands[i]);
  }
  tn__buf_add(&out, "]}\n");
  const bool failed = out.failed;
  if (!failed) fwrite(out.s, 1, out.n, stdout);
  tn__buf_deinit(&out);
  return failed ? EXIT_ERRORS : EXIT_FINE;
}

/* ----------------------------------------------------------------- dispatch */

static int unknown_command(const char *name) {
  const char *names[N_COMMANDS];
  for (size_t i = 0; i < N_COMMANDS; ++i) names[i] = commands[i].name;
  const char *near = tn__find_nearest_word(name, names, N_COMMANDS);
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

static int run_command(const command *c, int argc, char **argv) {
  opgen_args args = {.command = c->name};
  int status = EXIT_USAGE;
  if (opgen_args_init(&args, c->takes, argc, argv))
    status = run_checked(c, &args);
  opgen_args_deinit(&args);
  return status;
}

int main(int argc, char **argv) {
  opgen_terminal_begin();
  if (argc < 2) return opgen_usage_error(NULL, "a command is missing");
  if (strcmp(argv[1], "--help") == 0) return print_help();
  if (strcmp(argv[1], "--commands") == 0) return print_commands();
  if (strcmp(argv[1], "--version") == 0) {
    printf("opgen %s\n", OPGEN_VERSION);
    return EXIT_FINE;
  }
  for (size_t i = 0; i < N_COMMANDS; ++i)
    if (strcmp(argv[1], commands[i].name) == 0)
      return run_command(&commands[i], argc - 2, argv + 2);
  return unknown_command(argv[1]);
}
