/* SPDX-License-Identifier: Apache-2.0
 * fuzz.h: shared by all fuzz targets: the entry, counted memory, and a check
 * that ends the process.
 */
#ifndef TESTS_FUZZ_FUZZ_H_
#define TESTS_FUZZ_FUZZ_H_

#include <stddef.h>
#include <stdint.h>

#include "base.h"

/* The entry of libFuzzer, which each target defines. It ends the process if
 * something does not hold. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Counts the bytes that are taken. */
extern const tn_allocator fuzz_allocator;

/* The bytes that are taken now; from now on the most is watched. */
size_t fuzz_meter(void);
/* Bytes that were taken at most since the last fuzz_meter, and those that are
 * taken now, each beyond `mark`. */
size_t fuzz_most(size_t mark);
size_t fuzz_left(size_t mark);

/* Ends the process with the text `what` unless the condition holds. */
void fuzz_check(bool holds, const char *what);

#endif /* TESTS_FUZZ_FUZZ_H_ */
