/* SPDX-License-Identifier: Apache-2.0
 * npy_fuzz.c: any bytes as a .npy file.
 */
#include "reader.h"

const char fuzz_path[] = "input.npy";
