/* SPDX-License-Identifier: Apache-2.0
 * note.c: reads the tables of a built plugin from its ELF note, without opening
 * it as a library. opgen uses it to look up an operator; the loader, which
 * trusts nothing, has its own reader.
 */
#include <elf.h>
#include <string.h>

#include "front.h"

enum {
  MAX_PLUGIN_BYTES = 1 << 30,
  MAX_NOTES =
      1000 /* most notes in all segments; the loader has the same limit */
};

/* A file in memory. */
typedef struct image {
  const char *path;
  const char *bytes;
  size_t n;
  uint32_t n_notes; /* notes looked at so far */
} image;

/* Copies `n` bytes at `offset` of the file to `to`, so that the caller can read
 * numbers at any alignment. Returns false if the file is too short. */
static bool copy_file_bytes(const image *file, uint64_t offset, void *to,
                            size_t n) {
  if (offset > file->n || n > file->n - offset) return false;
  memcpy(to, file->bytes + offset, n);
  return true;
}

/* Rounds n up to a multiple of 4, as the format of notes demands. */
static uint64_t round_up(uint64_t n) {
  return (n + 3) & ~(uint64_t)3;
}

/* Finds the note with the manifest in one note segment, the bytes [at, end) of
 * the file. Returns false if the segment does not have it. */
static bool find_manifest_in_segment(image *file, uint64_t at, uint64_t end,
                                     image *manifest) {
  Elf64_Nhdr header;
  while (at < end && file->n_notes++ < MAX_NOTES &&
         copy_file_bytes(file, at, &header, sizeof header)) {
    uint64_t name = at + sizeof header;
    uint64_t desc = name + round_up(header.n_namesz);
    char text[sizeof TN_NOTE_NAME];
    tn_note note;
    if (header.n_type == TN_NOTE_TYPE && header.n_namesz == sizeof text &&
        copy_file_bytes(file, name, text, sizeof text) &&
        memcmp(text, TN_NOTE_NAME, sizeof text) == 0 &&
        header.n_descsz >= sizeof note &&
        copy_file_bytes(file, desc, &note, sizeof note) &&
        note.header_size <= header.n_descsz &&
        note.manifest_size <= header.n_descsz - note.header_size &&
        desc + header.n_descsz <= file->n) {
      *manifest = (image){file->path, file->bytes + desc + note.header_size,
                          note.manifest_size, 0};
      return true;
    }
    at = desc + round_up(header.n_descsz);
  }
  return false;
}

/* Finds the note with the manifest in an ELF file. Returns false if the file
 * is no valid ELF file or has no such note. */
static bool find_manifest(image *file, image *manifest) {
  Elf64_Ehdr elf;
  if (!copy_file_bytes(file, 0, &elf, sizeof elf) ||
      memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0 ||
      elf.e_ident[EI_CLASS] != ELFCLASS64)
    return false;
  for (uint64_t i = 0; i < elf.e_phnum; ++i) {
    Elf64_Phdr segment;
    if (!copy_file_bytes(file, elf.e_phoff + i * sizeof segment, &segment,
                         sizeof segment))
      return false;
    if (segment.p_type == PT_NOTE && segment.p_filesz <= file->n &&
        find_manifest_in_segment(file, segment.p_offset,
                                 segment.p_offset + segment.p_filesz, manifest))
      return true;
  }
  return false;
}

tn_code tnm_read_note(tn__arena *arena, const char *path,
                      const tn_plugin **out) {
  image file = {.path = path};
  image manifest;
  char *bytes;
  *out = NULL;
  TN__TRY(tnm_read_file(arena->env, path, MAX_PLUGIN_BYTES, &bytes, &file.n));
  file.bytes = bytes;
  tn_code code =
      find_manifest(&file, &manifest)
          ? tn__tables_decode(arena, manifest.bytes, manifest.n, out)
          : tn__fail(TN_PLUGIN,
                     "%s is not a built plugin: it has no note `%s`; give the "
                     "plugin's folder or its .so",
                     path, TN_NOTE_NAME);
  tn__free(arena->env, bytes);
  /* functions that read the tables later rely on this check */
  if (code == TN_OK) code = tn__tables_check(arena->env, *out, false);
  if (code != TN_OK) *out = NULL;
  return code;
}
