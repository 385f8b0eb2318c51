/* SPDX-License-Identifier: Apache-2.0
 * A constructor that ends the process with the status of a missing program.
 * says:
 *   bad.so:1:1: error[E0080]: while it was loaded and unloaded, it ended the
 * process with status 127
 */
#define CONSTRUCTOR _exit(127);
#include "bad.h"
