/* SPDX-License-Identifier: Apache-2.0
 * built.h: the checks of a built plugin by `opgen check`.
 */
#ifndef OPGEN_BUILT_H_
#define OPGEN_BUILT_H_

#include "opgen.h"

/* Tests for a file for built_check, rather than a manifest. */
bool is_built_plugin(const char *path);

/* The manifests on the command line, in addition to built plugins. */
typedef struct built_manifests {
  const tn__vec *plugins; /* tnm_plugin * */
  bool whole; /* all of them are in `plugins`, because none had mistakes */
} built_manifests;

/* Checks a built plugin: this host loads it, and it exports only its entry. If
 * there are manifests, it was built from those of one plugin (or of its
 * companion) and computes their examples. False if the check itself failed. */
bool built_check(const opgen_args *args, const char *path,
                 const built_manifests *given, tnm_diags *diags);

/* Appends the reason why a plugin does not belong to these manifests; nothing
 * if it does. */
void built_compare(const tn_plugin *manifests, const tn_plugin *found,
                   tn__buf *out);

#endif /* OPGEN_BUILT_H_ */
