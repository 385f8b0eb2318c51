/* SPDX-License-Identifier: Apache-2.0
 * file_functions.c: the functions of libtenon-files.so, which libtenon.so
 * learns when it opens the library.
 */
#include "formats.h"

static const tn__file_functions functions = {.open = tn__file_open_bundle,
                                             .close = tn__file_close_bundle,
                                             .get = tn__file_get_array,
                                             .save = tn__file_save_bundle};

__attribute__((constructor)) static void provide_functions(void) {
  tn__files_provide(&functions);
}
