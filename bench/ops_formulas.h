/* SPDX-License-Identifier: Apache-2.0
 * ops_formulas.h: formulas with reductions beside operators of nn.
 */
#ifndef TENON_BENCH_OPS_FORMULAS_H_
#define TENON_BENCH_OPS_FORMULAS_H_

#include <tenon/tenon.h>

/* Measures all pairs, and prints a line for each pass, length and type. */
void ops_measure_formulas(tn_runtime *rt);

#endif /* TENON_BENCH_OPS_FORMULAS_H_ */
