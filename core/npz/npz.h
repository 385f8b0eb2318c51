/* SPDX-License-Identifier: Apache-2.0
 * npz.h: arrays in a .npz, which is a zip of .npy members: libtenon-npz.so.
 * Used inside of core/npz only; core/exchange calls it by tn__npz_functions.
 *
 * files: module.c    the table of functions; reads the elements of a member
 *        zip.c       reads the directory of a .npz
 *        unzip.c     reads one member of a zip as a stream (zlib)
 *        save_npz.c  writes a .npz (zlib)
 */
#ifndef TENON_NPZ_H_
#define TENON_NPZ_H_

#include "exchange.h"

/* tn__npz_functions.open and .save. */
tn_code tn__zip_open(tn_bundle *bundle);
tn_code tn__zip_save(tn__sink *sink, const tn_bundle_content *content);

/* A stream of one member of a zip. */
typedef struct tn__unzip tn__unzip;
tn_code tn__unzip_open(const tn__spot *spot, const tn__zip_member *member,
                       tn__unzip **out);
tn_code tn__unzip_read(void *unzip, void *to, size_t n); /* a tn__read_fn */
/* Checks after the last byte that nothing follows and that the checksum is
 * right. */
tn_code tn__unzip_end(tn__unzip *unzip);
void tn__unzip_close(tn__unzip *unzip); /* NULL is allowed */

#endif /* TENON_NPZ_H_ */
