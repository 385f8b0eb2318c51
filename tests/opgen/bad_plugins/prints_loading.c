/* SPDX-License-Identifier: Apache-2.0
 * A constructor that prints.
 * says:
 *   bad.so:1:1: error[E0206]: loading: it prints `hello`
 */
#define CONSTRUCTOR (void)fputs("hello\n", stderr);
#include "bad.h"
