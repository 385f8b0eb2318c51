/* SPDX-License-Identifier: Apache-2.0
 * opgen.h: the commands of opgen and what they share: arguments, files in
 * memory, and how a mistake in the use of the tool is reported.
 *
 * files: main.c       the table of commands
 *        args.c       options and files of a command line
 *        output.c     rendering into memory, writing what differs, the depfile
 *        installed.c  what is installed with this program
 *        cmd_*.c      one command each
 *        examples.c   examples of manifests against the rules of the host
 *        trial*.c     a built plugin in a child process: loading, examples
 *        lint*.c      what could be better in a manifest
 *        built.c      what is wrong with a built plugin
 *        diff.h, docs.h
 *                     what the files of two larger commands share
 *        emit.h       what is written into the files
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

/* --------------------------------------------------------------- arguments */

/* A command line, taken apart. Strings are borrowed from argv. */
typedef struct opgen_args {
  const char *command;
  const char **files;
  size_t n_files;
  const char **with;
  size_t n_with;
  /* Folders of plugins' folders, where those of `kernels_for` are that no
   * `with` tells of: of `opgen new` alone, others go by what is written. */
  const char *const *installed;
  size_t n_installed;
  const char **lints; /* what stands behind each -W */
  size_t n_lints;
  const char *out_dir;
  const char *depfile;
  int format; /* TNM_HUMAN, ... */
  bool werror;
  bool show_c;
  bool only_check;
  const char *site;
  const char *plugin; /* a built one */
  int64_t seconds;    /* that the code of a built plugin may take; 0: default */
  bool list_lints;
  bool cuda;
  bool tests;
  const char *kernels; /* of `opgen new` */
  const char *from;
  const char *target; /* of `opgen new`: whose kernels are to be written */
  bool missing;
  bool help;
} opgen_args;

/* Bits of the options that a command takes. */
enum {
  TAKES_OUT_DIR = 1u << 0,
  TAKES_DEPFILE = 1u << 1,
  TAKES_WITH = 1u << 2,
  TAKES_WERROR = 1u << 3,
  TAKES_FORMAT = 1u << 4,
  TAKES_C = 1u << 5,
  TAKES_CHECK = 1u << 6,
  TAKES_SITE = 1u << 7,
  TAKES_PLUGIN = 1u << 8,
  TAKES_LINTS = 1u << 9,
  TAKES_LIST = 1u << 10,
  TAKES_TESTS = 1u << 11,
  TAKES_KERNELS = 1u << 12,
  TAKES_FROM = 1u << 13,
  TAKES_MISSING = 1u << 14,
  TAKES_CUDA = 1u << 15,
  TAKES_FOR = 1u << 16,
  TAKES_LIMIT = 1u << 17
};

/* The name of an option, "--with", and the values that it may have, with `|`
 * between; NULL for any. Constant. */
const char *opgen_option_name(unsigned bit);
const char *opgen_option_choices(unsigned bit);

/* False after a message. The lists are freed by opgen_args_deinit. */
bool opgen_args_init(opgen_args *args, unsigned takes, int argc, char **argv);
void opgen_args_deinit(opgen_args *args);

/* Says what is wrong with the command line, and where help is. Returns
 * EXIT_USAGE. */
int opgen_usage_error(const char *command, const char *format, ...)
    TN_PRINTF(2, 3);

/* Leads all that is printed from here on through terminal.c. */
void opgen_terminal_begin(void);

/* Whether messages go to a terminal that shows colours. */
bool opgen_color(void);

/* Where something is installed, as a path from the folder of this program
 * ("../lib/tenon"); `to` has PATH_MAX bytes. False if that cannot be said. */
bool opgen_installed(const char *beside, char *to);

/* ---------------------------------------------------------------- commands */

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

/* Reads a plugin and prints what is to be said about it. NULL if there are
 * errors. */
tnm_plugin *opgen_read(const opgen_args *args, const char *path);

/* The same for what only looks at manifests: an operator file needs no
 * plugin.yaml then, its folder names the plugin. */
tnm_plugin *opgen_read_lone(const opgen_args *args, const char *path);

/* The first operator that is bound to a library; NULL if none is, and then the
 * plugin is one to be compiled: its operators are all bound, or none (E0085).
 */
const tnm_operator *opgen_bound(const tnm_plugin *plugin);

/* False, after a message, if an operator is bound to a library: there is
 * nothing to compile then. */
bool opgen_is_compiled(const tnm_plugin *plugin);

/* Checks defaults and examples of a plugin with the host's own parser and shape
 * rules. False if memory ran out. */
bool opgen_check_examples(const tnm_plugin *plugin, tnm_diags *diags);

/* Reports names that two things would have in the C that is written, and files
 * that would be written twice. False if memory ran out. */
bool opgen_check_names(const tnm_plugin *plugin, tnm_diags *diags);

/* ------------------------------------------------------------------ output */

typedef struct opgen_file {
  const char *name; /* "quadratic.gen.h" */
  tn__buf text;
} opgen_file;

/* The files that a plugin gives, in memory. */
typedef struct opgen_files {
  tn__arena arena;
  opgen_file *v;
  size_t n;
} opgen_files;

/* Which files: those of the plugin, or those of its companion for CUDA, or the
 * one of its tests. */
typedef struct opgen_wanted {
  bool cuda;
  bool tests;
  bool names_only;       /* they are not rendered */
  struct claims *claims; /* what is told of their names, or NULL */
} opgen_wanted;

/* Renders every file. False, after a message, if memory ran out. */
bool opgen_files_init(opgen_files *files, const tnm_plugin *plugin,
                      const opgen_wanted *wanted);
void opgen_files_deinit(opgen_files *files);

/* Writes what differs from what is there. False after a message. */
bool opgen_files_write(const opgen_files *files, const char *dir);

/* Writes one file, under another name first, so that nobody ever reads half of
 * it. The file keeps its mode, a link still leads to it. False after a message.
 */
bool opgen_file_replace(const char *path, const char *text, size_t n);
/* The same, unless the file holds just that. */
bool opgen_file_write(const char *path, const tn__buf *text);

/* Writes a rule for make or ninja: the files depend on what was read. False
 * after a message. */
bool opgen_depfile_write(const opgen_files *files, const opgen_args *args,
                         const tnm_plugin *plugin);

#endif /* OPGEN_OPGEN_H_ */
