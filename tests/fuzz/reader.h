/* SPDX-License-Identifier: Apache-2.0
 * reader.h: what the fuzz targets share: a file in memory is opened, every
 * array of it is read, and everything is closed again.
 */
#ifndef TESTS_FUZZ_READER_H_
#define TESTS_FUZZ_READER_H_

#include <stddef.h>
#include <stdint.h>

/* The end of the file's name, which each target defines. */
extern const char fuzz_path[];

/* The entry of libFuzzer. Ends the process if memory is left, or more of it was
 * taken than a file of this size may cost. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif /* TESTS_FUZZ_READER_H_ */
