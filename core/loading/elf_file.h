/* SPDX-License-Identifier: Apache-2.0
 * elf_file.h: an open ELF file, for the two files that check one. elf.c checks
 * headers and note. elf_dynamic.c checks flags and the required libraries.
 */
#ifndef TENON_ELF_FILE_H_
#define TENON_ELF_FILE_H_

#include <elf.h>

#include "loading.h"

enum { TN__MOST_SEGMENTS = 64 /* real plugins have about ten */ };

typedef struct tn__elf_file {
  const tn__env *env;
  const char *path;
  int fd;
  uint64_t size;
  Elf64_Ehdr head;
  Elf64_Phdr segments[TN__MOST_SEGMENTS];
} tn__elf_file;

/* Exactly `bytes` bytes from byte `offset` of the file. */
tn_code tn__elf_read_at(const tn__elf_file *f, void *to, size_t bytes,
                        uint64_t offset);

/* Sets out->danger if the dynamic linker would do something dangerous with the
 * file. The headers have been checked. TN_PLUGIN if its dynamic section is
 * damaged. */
tn_code tn__elf_find_danger(const tn__elf_file *f, tn__elf *out);

#endif /* TENON_ELF_FILE_H_ */
