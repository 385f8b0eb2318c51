/* SPDX-License-Identifier: Apache-2.0
 * A kernel that leaves rounding towards 0.
 * says:
 *   op.yaml:14:5: error[E0205]: example `three` of `diff`, forward: it changes
 * the rounding of the calling thread
 */
#define FORWARD __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x6000);
#include "bad.h"
