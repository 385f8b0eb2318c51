/* SPDX-License-Identifier: Apache-2.0
 * drawn_calls.c: every operator of the plugins on the command line, called with
 * drawn parameters and shapes (tenon/test/drawn.h).
 */
#include "tenon/test/drawn.h"

int main(int argc, char **argv) {
  return tn_drawn_main(argc, argv);
}
