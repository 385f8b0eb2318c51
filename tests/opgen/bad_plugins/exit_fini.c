/* SPDX-License-Identifier: Apache-2.0
 * A `fini` that ends the process as if all were well.
 * says:
 *   bad.so:1:1: error[E0080]: while it was loaded and unloaded, it ended the
 * process with status 0
 */
#define FINI exit(0);
#include "bad.h"
