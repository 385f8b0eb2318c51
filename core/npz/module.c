/* SPDX-License-Identifier: Apache-2.0
 * module.c: the functions of libtenon-npz.so, which libtenon.so learns when it
 * opens the library.
 */
#include "npz.h"

static tn_code read_member(const tn__spot *spot, const tn__bundle_entry *entry,
                           void *to) {
  tn__unzip *unzip = NULL;
  char skipped[256];
  TN__TRY(tn__unzip_open(spot, entry->member, &unzip));
  tn_code rc = TN_OK;
  for (uint64_t left = entry->begin; left > 0 && !rc;) {
    size_t n = left < sizeof skipped ? (size_t)left : sizeof skipped;
    rc = tn__unzip_read(unzip, skipped, n);
    left -= n;
  }
  if (!rc) rc = tn__unzip_read(unzip, to, (size_t)entry->bytes);
  if (!rc) rc = tn__unzip_end(unzip);
  tn__unzip_close(unzip);
  return rc;
}

static const tn__npz_functions functions = {
    .open = tn__zip_open, .read = read_member, .save = tn__zip_save};

__attribute__((constructor)) static void provide_functions(void) {
  tn__npz_provide(&functions);
}
