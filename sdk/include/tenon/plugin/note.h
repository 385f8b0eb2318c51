/* SPDX-License-Identifier: Apache-2.0
 * note.h: the ELF note of a plugin file. Standalone; needs op.h only. For the
 * code that opgen writes and for tools that read plugin files; an author of
 * operators never needs it.
 *
 * The note `.note.tenon` (name "Tenon", type TN_NOTE_TYPE) holds a tn_note and
 * then manifest_size bytes: the canonical encoding of the plugin's constant
 * tables (docs/reference/note-format.md). It is read without opening the plugin
 * as code, and compared with the tables when the plugin is loaded.
 */
#ifndef TENON_PLUGIN_NOTE_H_
#define TENON_PLUGIN_NOTE_H_

#include "tenon/plugin/op.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TN_NOTE_TYPE 0x544e4f54u /* "TONT" */
#define TN_NOTE_NAME "Tenon"

/* Puts a constant object into the note's section. */
#if defined(__GNUC__)
#define TN_NOTE_SECTION                                    \
  __attribute__((section(".note.tenon"), used, aligned(4), \
                 visibility("hidden")))
#else
#define TN_NOTE_SECTION
#endif

/* The header of the note. */
typedef struct tn_note { /* frozen up to manifest_size */
  uint64_t magic;        /* TN_PLUGIN_MAGIC */
  uint32_t header_size;  /* sizeof(tn_note): where the manifest begins */
  uint32_t abi_major;
  uint32_t abi_minor;
  uint32_t min_host_minor;
  uint32_t machine; /* e_machine of the file: 62 x86-64, 183 aarch64 */
  uint32_t pointer_bits;
  uint64_t manifest_hash;
  uint64_t manifest_size;
} tn_note;

#if defined(__x86_64__)
#define TN_NOTE_MACHINE 62u
#elif defined(__aarch64__)
#define TN_NOTE_MACHINE 183u
#else
#define TN_NOTE_MACHINE 0u
#endif

#ifdef __cplusplus
}
#endif
#endif /* TENON_PLUGIN_NOTE_H_ */
