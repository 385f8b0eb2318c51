/* SPDX-License-Identifier: Apache-2.0
 * reader.h: shared by the targets that read arrays: a file in memory is opened,
 * every array of it is read, and everything is closed again.
 */
#ifndef TESTS_FUZZ_READER_H_
#define TESTS_FUZZ_READER_H_

#include "fuzz.h"

/* The end of the file's name, which each target defines. */
extern const char fuzz_path[];

#endif /* TESTS_FUZZ_READER_H_ */
