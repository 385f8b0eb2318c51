/* SPDX-License-Identifier: Apache-2.0
 * lapack.c: the functions of LAPACK of the library that simulates OpenBLAS.
 * They change nothing, and count calls as its products do.
 */
#define EXPORT __attribute__((visibility("default")))

void cblas_sgemm(void); /* counts a call and the threads: openblas.c */

#define FUNCTION(name)    \
  EXPORT void name(void); \
  void name(void) {       \
    cblas_sgemm();        \
  }

#define BOTH(name)     \
  FUNCTION(s##name##_) \
  FUNCTION(d##name##_)

FUNCTION(cblas_strmm)
FUNCTION(cblas_dtrmm)
FUNCTION(cblas_strsm)
FUNCTION(cblas_dtrsm)
BOTH(potrf)
BOTH(potri)
BOTH(getrf)
BOTH(getrs)
BOTH(geqrf)
BOTH(orgqr)
BOTH(syevd)
BOTH(gesdd)
