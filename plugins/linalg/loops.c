/* SPDX-License-Identifier: Apache-2.0
 * loops.c: compiles loops_body.h and loops_small.h for each type.
 */
#include "loops.h"

#include <math.h>
#include <string.h>

#define LOOPS_REAL float
#define LOOPS_NAME(name) name##_f32
#define LOOPS_LOG logf
#define LOOPS_ABS fabsf
#include "loops_body.h"
#include "loops_small.h"
#include "loops_table.h"

#define LOOPS_REAL double
#define LOOPS_NAME(name) name##_f64
#define LOOPS_LOG log
#define LOOPS_ABS fabs
#include "loops_body.h"
#include "loops_small.h"
#include "loops_table.h"

const linalg_loops *linalg_loops_of(tn_dtype dtype) {
  return dtype == TN_F32 ? &table_f32 : &table_f64;
}
