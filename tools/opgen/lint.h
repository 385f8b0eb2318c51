/* SPDX-License-Identifier: Apache-2.0
 * lint.h: the lints of `opgen check`, about manifests that are valid but could
 * be better. docs/reference/lints.md lists every lint with its reason.
 *
 *   lint.c        the lints and their levels
 *   lint_packs.c  packs of a pattern that no call can tell apart
 */
#ifndef OPGEN_LINT_H_
#define OPGEN_LINT_H_

#include "opgen.h"

/* A level of a lint. Its code begins with W or E accordingly. */
enum { LINT_OFF = 0, LINT_WARNING = 1, LINT_ERROR = 2 };

enum { N_LINTS = 15 };

/* The level of each lint, in the order of the table. */
typedef struct lint_levels {
  int v[N_LINTS];
} lint_levels;

/* Levels after the `-W` of a command line; false after a message about an
 * invalid one. */
bool lint_levels_init(lint_levels *levels, const opgen_args *args);

/* Reports the findings of the lints in a plugin without mistakes. */
void lint_run(const tnm_plugin *plugin, const lint_levels *levels,
              tnm_diags *diags);

/* Prints every lint, its level and its subject. */
void lint_list(void);

/* The first input with a pattern of two packs, `names`, that no call can tell
 * apart; TN_NONE if there is none. */
uint32_t lint_find_alike_packs(const tn_op *op, const char *names[2]);

#endif /* OPGEN_LINT_H_ */
