/* SPDX-License-Identifier: Apache-2.0
 * hides_files.c: leaves another file mode mask.
 * expect: e: f32, cpu, dense, new: the kernel changed the file mode mask
 * (umask)
 */
#define BAD_STEP spoil
#include <sys/stat.h>
#include "bad.h"

static void spoil(const tn_frame *call) {
  (void)call;
  (void)umask(0777);
}
