/* SPDX-License-Identifier: Apache-2.0
 * opgen.h: the commands of opgen and their common parts: arguments, files in
 * memory, and messages about wrong use of the tool.
 *
 *   main.c       the table of commands
 *   args.c       options and files of a command line
 *   output.c     renders into memory, writes changed files, the depfile
 *   installed.c  files that are installed with this program
 *   cmd_*.c      one command each
 *   examples.c   examples of manifests against the rules of the host
 *   trial*.c     a built plugin in a child process: loading, examples
 *   lint*.c      possible improvements of a manifest
 *   built.c      checks of a built plugin
 *   diff.h, docs.h, eval.h
 *                common parts of three larger commands
 *   emit.h       contents of the generated files
 */
#ifndef OPGEN_OPGEN_H_
#define OPGEN_OPGEN_H_

#include <stdio.h>

#include "manifest.h"

enum {
  EXIT_FINE = 0,
  EXIT_ERRORS = 1,
  EXIT_USAGE = 2,
  EXIT_MINOR = 3, /* `opgen diff` */
  EXIT_MAJOR = 4
};

/* ---------------------------------------------------------------- arguments */

/* A parsed command line. Strings are borrowed from argv. */
typedef struct opgen_args {
  const char *command;
  const char **files;
  size_t n_files;
  const char **with;
  size_t n_with;
  /* Folders that contain folders of plugins, for `kernels_for` without a
   * `with`. Only `opgen new` uses them; other commands need explicit paths. */
  const char *const *installed;
  size_t n_installed;
  const char **lints; /* the argument of each -W */
  size_t n_lints;
  const char *out_dir;
  const char *depfile;
  int format; /* TNM_HUMAN, ... */
  bool werror;
  bool show_c;
  bool only_check;
  const char *pages;
  const char *plugin; /* a built one */
  int64_t seconds; /* time limit for the code of a built plugin; 0: default */
  bool list_lints;
  bool cuda;
  bool tests;
  const char *kernels; /* of `opgen new` */
  const char *from;
  const char *target; /* of `opgen new`: the operator of the new kernels */
  bool missing;
  bool help;
  const char *expression; /* of `opgen eval`; NULL: a file */
  const char *op;
  const char **params; /* the argument of each --param */
  size_t n_params;
  const char *dtype;
  bool grad;
} opgen_args;

/* Bits of the options that a command accepts. */
enum {
  TAKES_OUT_DIR = 1u << 0,
  TAKES_DEPFILE = 1u << 1,
  TAKES_WITH = 1u << 2,
  TAKES_WERROR = 1u << 3,
  TAKES_FORMAT = 1u << 4,
  TAKES_C = 1u << 5,
  TAKES_CHECK = 1u << 6,
  TAKES_PAGES = 1u << 7,
  TAKES_PLUGIN = 1u << 8,
  TAKES_LINTS = 1u << 9,
  TAKES_LIST = 1u << 10,
  TAKES_TESTS = 1u << 11,
  TAKES_KERNELS = 1u << 12,
  TAKES_FROM = 1u << 13,
  TAKES_MISSING = 1u << 14,
  TAKES_CUDA = 1u << 15,
  TAKES_FOR = 1u << 16,
  TAKES_LIMIT = 1u << 17,
  TAKES_EXPRESSION = 1u << 18,
  TAKES_OP = 1u << 19,
  TAKES_PARAMS = 1u << 20,
  TAKES_GRAD = 1u << 21,
  TAKES_DTYPE = 1u << 22
};

/* The name of an option, "--with", and its possible values, with `|` between;
 * NULL for any. Constant. */
const char *opgen_option_name(unsigned bit);
const char *opgen_option_choices(unsigned bit);

/* False after a message. The lists are freed by opgen_args_deinit. */
bool opgen_args_init(opgen_args *args, unsigned takes, int argc, char **argv);
void opgen_args_deinit(opgen_args *args);

/* Reports a mistake in the command line, and names the help. Returns
 * EXIT_USAGE. */
int opgen_usage_error(const char *command, const char *format, ...)
    TN_PRINTF(2, 3);

/* Sends all further output through terminal.c. */
void opgen_terminal_begin(void);

/* Tests whether messages go to a terminal that shows colours. */
bool opgen_has_color(void);

/* The place of an installed file, as a path from the folder of this program
 * ("../lib/tenon"); `to` has PATH_MAX bytes. False if it is unknown. */
bool opgen_find_installed(const char *beside, char *to);

/* ----------------------------------------------------------------- commands */

/* Each returns an exit status. */
int cmd_generate(const opgen_args *args);
int cmd_outputs(const opgen_args *args);
int cmd_new(const opgen_args *args);
int cmd_check(const opgen_args *args);
int cmd_show(const opgen_args *args);
int cmd_explain(const opgen_args *args);
int cmd_fmt(const opgen_args *args);
int cmd_diff(const opgen_args *args);
int cmd_docs(const opgen_args *args);
int cmd_eval(const opgen_args *args);

/* Reads a plugin and prints its messages. NULL if there are errors. */
tnm_plugin *opgen_read(const opgen_args *args, const char *path);

/* Does the same for commands that only read manifests: an operator file needs
 * no plugin.yaml then, its folder names the plugin. */
tnm_plugin *opgen_read_lone(const opgen_args *args, const char *path);

/* The first operator that is bound to a library. NULL if none is, and then the
 * plugin is compiled: its operators are all bound, or none (E0085). */
const tnm_operator *opgen_find_bound(const tnm_plugin *plugin);

/* False, after a message, if an operator is bound to a library: then nothing
 * can be compiled. */
bool opgen_is_compiled(const tnm_plugin *plugin);

/* Checks defaults and examples of a plugin with the host's own parser and shape
 * rules. False if memory ran out. */
bool opgen_check_examples(const tnm_plugin *plugin, tnm_diags *diags);

/* Reports names that two parts would share in the generated C, and files that
 * would be written twice. False if memory ran out. */
bool opgen_check_names(const tnm_plugin *plugin, tnm_diags *diags);

/* ------------------------------------------------------------------- output */

typedef struct opgen_file {
  const char *name; /* "quadratic.gen.h" */
  tn__buf text;
} opgen_file;

/* The generated files of a plugin, in memory. */
typedef struct opgen_files {
  tn__arena arena;
  opgen_file *v;
  size_t n;
} opgen_files;

/* A choice of files: those of the plugin, of its companion for CUDA, or of its
 * tests. */
typedef struct opgen_selection {
  bool cuda;
  bool tests;
  bool names_only;       /* without their contents */
  struct claims *claims; /* receives their names, or NULL */
} opgen_selection;

/* Renders every file. False, after a message, if memory ran out. */
bool opgen_files_init(opgen_files *files, const tnm_plugin *plugin,
                      const opgen_selection *wanted);
void opgen_files_deinit(opgen_files *files);

/* Writes changed files. False after a message. */
bool opgen_files_write(const opgen_files *files, const char *dir);

/* Writes one file, under another name first, so that no process ever reads half
 * of it. The file keeps its mode, and a link still points to it. False after a
 * message. */
bool opgen_file_replace(const char *path, const char *text, size_t n);
/* Does the same, unless the file has that content already. */
bool opgen_file_write(const char *path, const tn__buf *text);

/* Writes a rule for make or ninja: the generated files depend on the files that
 * were read. False after a message. */
bool opgen_depfile_write(const opgen_files *files, const opgen_args *args,
                         const tnm_plugin *plugin);

#endif /* OPGEN_OPGEN_H_ */
