/* SPDX-License-Identifier: Apache-2.0
 * safetensors_fuzz.c: any bytes as a .safetensors file.
 */
#include "reader.h"

const char fuzz_path[] = "input.safetensors";
