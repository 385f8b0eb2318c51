/* SPDX-License-Identifier: Apache-2.0
 * The same without the handlers of exit.
 * says:
 *   bad.so:1:1: error[E0080]: while it was loaded and unloaded, it ended the
 * process with status 0
 */
#define CONSTRUCTOR _exit(0);
#include "bad.h"
