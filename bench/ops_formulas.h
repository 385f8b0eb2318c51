/* SPDX-License-Identifier: Apache-2.0
 * ops_formulas.h: formulas with reductions beside operators of nn.
 */
#ifndef TENON_BENCH_OPS_FORMULAS_H_
#define TENON_BENCH_OPS_FORMULAS_H_

#include <tenon/tenon.h>

/* Measures formulas with one of n parts in their name, all if n is 0. Prints a
 * line for each pass, length and type. */
void ops_measure_formulas(tn_runtime *rt, int n, char **parts);

#endif /* TENON_BENCH_OPS_FORMULAS_H_ */
