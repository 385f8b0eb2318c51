/* SPDX-License-Identifier: Apache-2.0
 * An `init` that sets the locale.
 * says:
 *   bad.so:1:1: error[E0207]: loading: it changes the locale to C.UTF-8
 */
#define INIT (void)setlocale(LC_ALL, "C.UTF-8");
#include "bad.h"
