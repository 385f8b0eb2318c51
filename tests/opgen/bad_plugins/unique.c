/* SPDX-License-Identifier: Apache-2.0
 * A plugin with a unique symbol, which the process keeps for ever.
 * says:
 *   bad.so:1:1: error[E0081]: the plugin exports `bad_unique`, too
 */
#include "bad.h"

__asm__(
    ".data\n.globl bad_unique\n.type bad_unique, @gnu_unique_object\n"
    ".size bad_unique, 4\nbad_unique: .long 1\n.text\n");
