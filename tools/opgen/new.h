/* SPDX-License-Identifier: Apache-2.0
 * new.h: between the files of `opgen new`.
 *
 * files: cmd_new.c      the command: names, folders, what is taken back when it
 *                       fails
 *        new_shapes.c   the files that it writes, as templates
 *        new_list.c     adds a line to `operators` of a plugin.yaml
 *        new_owner.c    where the plugin is whose operator has a new kernel
 *        new_stubs.c    functions that manifests name and no file defines
 *        new_next.c     the commands that come next
 */
#ifndef OPGEN_NEW_H_
#define OPGEN_NEW_H_

#include "opgen.h"

/* What an operator is made after. */
typedef struct new_shape {
  const char *name;     /* "quadratic" */
  const char *manifest; /* of the operator; see new_expand */
  bool has_kernel;      /* names kernels that are to be written */
  bool has_formula;     /* so that the others can be generated */
  bool is_bound;        /* to a library: nothing is compiled */
} new_shape;

/* The shape of that name; NULL if there is none. `names` gets all of them. */
enum { NEW_N_SHAPES = 4 };
const new_shape *new_shape_find(const char *name, const char **names);
/* That of kernels for an operator of another plugin. */
extern const new_shape new_shape_for;

/* What a template is about. */
typedef struct new_words {
  const char *plugin;
  const char *op;
  uint32_t since;
  bool cpu;           /* there are kernels to be written for it */
  bool cuda;          /* likewise */
  const char *target; /* "nn.softmax@1", whose kernels they are, or NULL */
  const char *others; /* items of a list in meson: "plugindir / 'nn.so'" */
  const char *manifests;
} new_words;

/* The template with `@PLUGIN@`, `@OP@`, `@SINCE@`, `@TARGET@`, `@OTHERS@` and
 * `@MANIFESTS@` filled in. Lines that begin with `@cpu `, `@cuda `, or
 * `@kernels ` for either, with `@for ` or, without a target, `@own `, are kept,
 * without that, where the words say so. */
void new_expand(tn__buf *out, const char *text, const new_words *words);

extern const char new_plugin_yaml[];
/* A meson.build is its project, new_find_tenon and the rest. */
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

/* Functions that an operator's manifest names (of all operators if `op` is
 * NULL; it may be the name of the file, for kernels of others) and no C file of
 * the folder defines; `cuda` chooses between those of kernels for CUDA and the
 * others. The text of a file that has them, nothing if there are none; `stem`
 * gets that of the first manifest. False after a message if a file cannot be
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

/* The plugin whose operator has a new kernel, in the words of meson. */
typedef struct new_owner {
  const char *name;   /* "nn", borrowed */
  const char *target; /* "nn.softmax@1", likewise */
  tn__buf others;     /* items of lists: what stands behind `--with`, what is
                         installed of what that does not tell, and what the
                         operator's gradient calls */
  tn__buf manifests;
  bool is_built;     /* `others` has what the tests load for the operator */
  bool is_described; /* and its examples are known */
} new_owner;

/* Fills the rest. False after a message; deinit in any case. */
bool new_owner_find(new_owner *owner, const opgen_args *args);
void new_owner_deinit(new_owner *owner);
/* Says what the author has to add to the build file, if anything. */
void new_owner_tell(const new_owner *owner);

/* A project after its files are written. */
typedef struct new_next {
  const char *plugin;
  const char *dir;
  bool is_bound;
  bool has_cuda; /* a companion for CUDA devices */
} new_next;

/* Prints the commands that build and try a new project, with the search path
 * of pkg-config and a word about nvcc where it will be used. */
void new_next_tell(const new_next *next);
/* Prints the commands after an operator was added. */
void new_next_tell_again(void);

/* Whether Tenon is installed with a plugin of this name, compiled or bound; its
 * path goes to `path`, which has PATH_MAX bytes. */
bool new_is_installed(const char *plugin, char *path);

/* A whole file; NULL after a message, or, with `quiet`, without. Freed by the
 * caller with tn__free. */
char *new_read(const char *path, bool quiet);

#endif /* OPGEN_NEW_H_ */
