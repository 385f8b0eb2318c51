/* SPDX-License-Identifier: Apache-2.0
 * lapack.h: the factorisations of an open OpenBLAS, as the table lapack/1.
 */
#ifndef OPENBLAS_LAPACK_H_
#define OPENBLAS_LAPACK_H_

#include "library.h"
#include "tenon/plugin/lapack.h"

/* The table of a library that has LAPACK; `data` of the table is `library`,
 * which must outlive it. [load] */
tn_lapack openblas_lapack_table(openblas_library *library);

#endif /* OPENBLAS_LAPACK_H_ */
