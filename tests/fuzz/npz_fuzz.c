/* SPDX-License-Identifier: Apache-2.0
 * npz_fuzz.c: any bytes as a .npz file.
 */
#include "reader.h"

const char fuzz_path[] = "input.npz";
