/* SPDX-License-Identifier: Apache-2.0
 * file_trust.h: decides whether another user may change a file, for the files
 * that search and load plugins.
 */
#ifndef TENON_FILE_TRUST_H_
#define TENON_FILE_TRUST_H_

#include "base.h"

/* TN_OK if `st` belongs to root or to the current user, and neither everybody
 * nor a group may write it; a user's private group may. `path` is for the
 * message. */
tn_code tn__trust_check(const char *path, const struct stat *st);

/* Follows all links of an absolute path and writes the real path to `real`
 * (PATH_MAX bytes). TN_INVALID if another user may change the file or folder,
 * a link, or a folder above them: only sticky folders such as /tmp are allowed
 * there. TN_NOT_FOUND if there is no such file. */
tn_code tn__trust_resolve(const tn__env *env, const char *path, char *real);

#endif /* TENON_FILE_TRUST_H_ */
