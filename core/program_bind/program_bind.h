/* SPDX-License-Identifier: Apache-2.0
 * program_bind.h: makes programs.
 *
 * files:
 *   program_bind.c     makes a program of a graph (stations.h)
 *   program_reshape.c  the same program for other shapes
 */
#ifndef TENON_PROGRAM_BIND_H_
#define TENON_PROGRAM_BIND_H_

#include "execution.h"

tn_code tn__program_bind(const tn_graph *graph, const tn_bind *how,
                         tn_program **out);
tn_code tn__program_reshape(tn_program *p, const tn_known *known, size_t n,
                            tn_program **out);

#endif /* TENON_PROGRAM_BIND_H_ */
