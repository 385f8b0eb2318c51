/* SPDX-License-Identifier: Apache-2.0
 * trial_child.h: between trial.c, which reads what the child says, and
 * trial_child.c, which is the child. The child writes lines:
 *
 *   B <operator> <example>                        begins an example
 *   V <o|g> <name> <dtype> <ndim> <dims> <values> an array, %a for values
 *   F <text>                                      it failed
 *   E                                             it ended
 */
#ifndef OPGEN_TRIAL_CHILD_H_
#define OPGEN_TRIAL_CHILD_H_

#include <stdio.h>

#include "trial.h"

/* Computes the examples from number `first` on, counted through all operators,
 * and writes lines to `to`. */
void trial_child(const tnm_plugin *plugin, const trial_files *files,
                 size_t first, FILE *to);

/* Loads the built plugin, what its gradients call, and whose operators its
 * kernels with examples are for: of the plugins that were given, or of those
 * that are installed. `quiet` is set while the log is of no
 * interest. */
tn_code trial_load(tn_runtime *rt, const tnm_plugin *plugin,
                   const trial_files *files, bool *quiet);

#endif /* OPGEN_TRIAL_CHILD_H_ */
