/* SPDX-License-Identifier: Apache-2.0
 * new.h: shared by the files of `opgen new`.
 *
 *   cmd_new.c      the command: names, folders, and undoing after a failure
 *   new_shapes.c   the new files, as templates
 *   new_list.c     adds a line to `operators` of a plugin.yaml
 *   new_owner.c    finds the plugin of the operator with a new kernel
 *   new_stubs.c    functions that manifests name and no file defines
 *   new_next.c     the next commands for the author
 */
#ifndef OPGEN_NEW_H_
#define OPGEN_NEW_H_

#include "opgen.h"

/* A model for a new operator. */
typedef struct new_shape {
  const char *name;     /* "quadratic" */
  const char *manifest; /* of the operator; see new_expand */
  bool has_kernel;      /* the author has to write kernels */
  bool has_formula;     /* its kernels can be generated instead */
  bool is_bound;        /* bound to a library: nothing is compiled */
} new_shape;

/* The model of that name; NULL if there is none. `names` gets all of them. */
enum { NEW_N_SHAPES = 4 };
const new_shape *new_shape_find(const char *name, const char **names);
/* The model of kernels for an operator of another plugin. */
extern const new_shape new_shape_for;

/* The values for a template. */
typedef struct new_words {
  const char *plugin;
  const char *op;
  uint32_t since;
  bool cpu;           /* it has kernels to write for the cpu */
  bool cuda;          /* and for CUDA */
  const char *target; /* "nn.softmax@1", the operator of the kernels, or NULL */
  const char *others; /* items of a list in meson: "plugindir / 'nn.so'" */
  const char *manifests;
} new_words;

/* Fills in `@PLUGIN@`, `@OP@`, `@SINCE@`, `@TARGET@`, `@OTHERS@` and
 * `@MANIFESTS@` of a template. A line may begin with a condition: `@cpu `,
 * `@cuda `, or `@kernels ` for either, with `@for ` or, without a target, `@own
 * `. It is kept, without that mark, if the condition holds. */
void new_expand(tn__buf *out, const char *text, const new_words *words);

extern const char new_plugin_yaml[];
/* A meson.build consists of its project, new_find_tenon and the rest. */
extern const char new_project[];
extern const char new_find_tenon[];
extern const char new_meson[];
extern const char new_readme[];
extern const char new_gitignore[];
extern const char new_meson_options[];
extern const char new_bound_project[];
extern const char new_bound_meson[];
extern const char new_bound_readme[];

/* The text of a plugin.yaml with one more file at the end of `operators`. False
 * if it has no such list. */
bool new_list_add(tn__buf *out, const char *text, const char *file);

/* Functions that an operator's manifest names and no C file of the folder
 * defines. `op` NULL: of all operators; it may be the name of the file, for
 * kernels of others. `cuda` chooses between kernels for CUDA and all others.
 * Writes the text of a file with them, nothing if there are none; `stem` gets
 * that of the first manifest. False after a message if a file cannot be
 * read. */
typedef struct new_stubs {
  const tnm_plugin *plugin;
  const char *folder;
  const char *op;
  bool cuda;
  const char *stem;
  size_t n;
} new_stubs;
bool new_stubs_write(new_stubs *stubs, tn__buf *out);

/* The plugin of the operator with a new kernel, in terms of meson. */
typedef struct new_owner {
  const char *name;   /* "nn", borrowed */
  const char *target; /* "nn.softmax@1", borrowed */
  /* Items of lists: the arguments of `--with`, installed plugins that these do
   * not describe, and the operators that the gradient calls. */
  tn__buf others;
  tn__buf manifests;
  bool is_built; /* `others` contains all plugins that the tests load for the
                    operator */
  bool is_described; /* and its examples are known */
} new_owner;

/* Fills in the rest. False after a message; deinit in any case. */
bool new_owner_find(new_owner *owner, const opgen_args *args);
void new_owner_deinit(new_owner *owner);
/* Prints the lines that the author has to add to the build file, if any. */
void new_owner_print(const new_owner *owner);

/* A project after its files are written. */
typedef struct new_next {
  const char *plugin;
  const char *dir;
  bool is_bound;
  bool has_cuda; /* a companion for CUDA devices */
} new_next;

/* Prints the commands that build and try a new project, with the search path of
 * pkg-config and a note about nvcc if it will be used. */
void new_next_print(const new_next *next);
/* Prints the commands after an operator was added. */
void new_next_print_short(void);

/* Tests whether Tenon is installed with a plugin of this name, compiled or
 * bound; its path goes to `path`, which has PATH_MAX bytes. */
bool new_is_installed(const char *plugin, char *path);

/* A whole file; NULL after a message, or, with `quiet`, without. Freed by the
 * caller with tn__free. */
char *new_read(const char *path, bool quiet);

#endif /* OPGEN_NEW_H_ */
