/* SPDX-License-Identifier: Apache-2.0
 * loading.h: from a file on disk to a plugin in the registry.
 *
 * files:
 *   elf.c, elf_dynamic.c  check a file and read its note without opening it
 *   note_inspect.c        decodes the note into tables
 *   loader.c              loads one plugin file, or fails with a message
 *   search_path.c         loads the plugin files of folders
 *   file_trust.c          checks that other users cannot change a file
 *   manifest.c            makes a plugin of a manifest without a compiler, by
 *                         functions of libtenon-manifest.so (module.h)
 */
#ifndef TENON_LOADING_H_
#define TENON_LOADING_H_

#include "registry.h"

/* A plugin file as its note describes it. */
struct tn_inspection {
  const tn__env *env;
  tn__arena arena;
  tn_note note;
  const tn_plugin *plugin; /* decoded, with NULL functions; NULL if refused
                              before the manifest could be decoded */
  char *refusal;           /* reason why this host does not load it, or NULL */
  struct tnm_plugin
      *manifest; /* owns `plugin` if the file is a YAML manifest */
  const struct tnm_module *module;
};

/* Reason why the dynamic linker must not get a file. */
typedef enum tn__danger {
  TN__DANGER_NONE,
  TN__DANGER_STACK,  /* an executable stack */
  TN__DANGER_CODE,   /* relocations in code */
  TN__DANGER_FOLDER, /* a relative folder to search for libraries */
  TN__DANGER_LIBRARY /* a relative path of a library */
} tn__danger;
enum { TN__DANGER_TEXT = 64 };

/* Result of the ELF pre-check: the bytes of the note and the identity of the
 * file. */
typedef struct tn__elf {
  struct stat identity;
  uint16_t machine;
  tn_note note;
  uint8_t *manifest; /* note.manifest_size bytes; the caller frees */
  tn__danger danger;
  char danger_text[TN__DANGER_TEXT]; /* the folder or library, perhaps truncated
                                      */
} tn__elf;

/* Writes the real absolute path of a plugin file. */
tn_code tn__path_resolve(const tn__env *env, const char *path,
                         char *real /* PATH_MAX */);

/* Checks class, machine, type, every PT_LOAD and the section table against the
 * file's length, and reads the note. Never maps or executes the file. */
tn_code tn__elf_read(const tn__env *env, const char *path, tn__elf *out);
void tn__elf_deinit(const tn__env *env, tn__elf *elf);

/* TN_OK, or TN_PLUGIN; the message has field, expected value, found value and
 * remedy. */
tn_code tn__note_accept(const tn_note *note, const char *path);
/* As tn__note_accept; also refuses a file that is dangerous to load. */
tn_code tn__elf_accept(const tn__elf *elf, const char *path);

tn_code tn__inspection_open(const tn__env *env, const char *path,
                            tn_inspection **out);
void tn__inspection_close(tn_inspection *inspection);

tn_code tn__plugin_load(tn__registry *registry, const char *path);

/* One of several files that are loaded one after the other. */
typedef struct tn__load_attempt {
  bool last;  /* in: there will be no other attempt */
  bool later; /* out: it requested an extension that no plugin provides yet, or
                 it is dependent. The load was undone and may be tried again */
  bool dependent; /* out: it requires a plugin that is not loaded yet */
  bool loaded;    /* out: it is loaded */
  bool provided;  /* out: it provides extensions */
} tn__load_attempt;

/* As tn__plugin_load, for a file of a search path: TN_INVALID if another user
 * may change it, unless the host trusts any folder. If the plugin lacks
 * something, the result is TN_OK and sets `later`. */
tn_code tn__plugin_try_load(tn__registry *registry, const char *path,
                            tn__load_attempt *attempt);
tn_code tn__plugin_add(tn__registry *registry, const tn_plugin *entry);

/* Whether a file is a manifest, judged by its name. */
bool tn__is_manifest(const char *path);
/* Loads a manifest of formulas, or one that binds every operator to a library.
 * `path` is real and
 * absolute; the load lock is held. */
tn_code tn__manifest_load(tn__registry *registry, const char *path,
                          const struct stat *identity);
tn_code tn__manifest_inspect(tn__registry *registry, const char *path,
                             tn_inspection **out);
tn_code tn__operator_define(tn__registry *registry, const char *text,
                            const tn_host_kernels *kernels, tn_operator **out);
tn_code tn__formula_define(tn__registry *registry, const tn_formula *formula,
                           tn_operator **out);
/* Whether two results of stat are of the same file with the same content. */
bool tn__is_same_content(const struct stat *a, const struct stat *b);
/* Loads every *.so of the folders in `path`, which ':' separates
 * (tn_plugins_load in tenon.h). */
tn_code tn__plugins_load_path(tn__registry *registry, const char *path);

#endif /* TENON_LOADING_H_ */
