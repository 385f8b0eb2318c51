/* SPDX-License-Identifier: Apache-2.0
 * A kernel that makes a file of 1 GiB.
 * says:
 *   op.yaml:14:5: error[E0082]: example `three`: it ended the process: File
 * size limit exceeded (forward)
 */
#include <sys/mman.h>
#define FORWARD (void)!ftruncate(memfd_create("huge", 0), 1 << 30);
#include "bad.h"
