/* SPDX-License-Identifier: Apache-2.0
 * eval.h: parts of `opgen eval`, which computes formulas without a compiler.
 */
#ifndef OPGEN_EVAL_H_
#define OPGEN_EVAL_H_

#include "opgen.h"

/* Reads a number or nested lists of numbers into `arena`. False after a
 * message. */
bool eval_read_literal(tn__arena *arena, const char *text, tnm_data *out);

#endif /* OPGEN_EVAL_H_ */
