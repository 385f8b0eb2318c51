/* SPDX-License-Identifier: Apache-2.0
 * An `init` that stops the process.
 * says:
 *   bad.so:1:1: error[E0080]: while it was loaded and unloaded, it did not end
 * within 3 seconds
 */
#define INIT (void)raise(SIGSTOP);
#include "bad.h"
