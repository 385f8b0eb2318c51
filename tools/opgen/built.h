/* SPDX-License-Identifier: Apache-2.0
 * built.h: what `opgen check` says about a built plugin.
 */
#ifndef OPGEN_BUILT_H_
#define OPGEN_BUILT_H_

#include "opgen.h"

/* Whether a file is one for built_check, rather than a manifest. */
bool built_is(const char *path);

/* The manifests that are given beside built plugins. */
typedef struct built_given {
  const tn__vec *plugins; /* tnm_plugin * */
  bool whole;             /* none of them had mistakes, and is missing here */
} built_given;

/* Checks a built plugin: whether this host loads it, whether it exports its
 * entry alone, and, where there are manifests, whether it was built from those
 * of one, as itself or as its companion, and computes their examples. False if
 * the check itself could not be done. */
bool built_check(const opgen_args *args, const char *path,
                 const built_given *given, tnm_diags *diags);

/* Appends why a plugin does not belong to these manifests; nothing if it
 * does. */
void built_compare(const tn_plugin *manifests, const tn_plugin *found,
                   tn__buf *out);

#endif /* OPGEN_BUILT_H_ */
