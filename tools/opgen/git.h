/* SPDX-License-Identifier: Apache-2.0
 * git.h: reads the manifests of a folder from a git revision.
 */
#ifndef OPGEN_GIT_H_
#define OPGEN_GIT_H_

#include <stdbool.h>

/* Writes the .yaml files of `folder` in `revision` into the empty folder `to`.
 * Runs git, in the current folder. False after a message. */
bool git_export(const char *revision, const char *folder, const char *to);

/* Removes a folder and the files in it. */
void git_remove(const char *folder);

#endif /* OPGEN_GIT_H_ */
