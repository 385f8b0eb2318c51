/* SPDX-License-Identifier: Apache-2.0
 * elf_dynamic.c: finds properties of a file that weaken the process that loads
 * it, and that a sound linker writes by mistake only. An executable stack or
 * code that is written during loading opens the way for exploits of other bugs.
 * A library in the current folder may be from any user.
 *
 * The dynamic linker reads the dynamic section from memory. So this file finds
 * it by its address, not by the offset in the program header.
 */
#include <string.h>

#include "elf_file.h"

enum {
  MOST_ENTRIES = 4096,  /* of the dynamic section; real ones have about 30 */
  MOST_NAMES = 1 << 20, /* bytes of one text */
  BLOCK = 256
};

typedef struct dynamic {
  const tn__elf_file *f;
  uint64_t strings; /* address of the string table */
  bool writes_code;
  uint32_t n_names;
} dynamic;

static tn_code fail_damaged(const tn__elf_file *f, const char *part) {
  return tn__fail(TN_PLUGIN,
                  "%s: its dynamic section is damaged: %s; build or copy it "
                  "again",
                  f->path, part);
}

/* Finds an address in the file, and the number of bytes after it. */
static bool find_address(const tn__elf_file *f, uint64_t address, uint64_t *at,
                         uint64_t *left) {
  for (unsigned i = 0; i < f->head.e_phnum; ++i) {
    const Elf64_Phdr *s = &f->segments[i];
    if (s->p_type != PT_LOAD || address < s->p_vaddr ||
        address - s->p_vaddr >= s->p_filesz)
      continue;
    *at = s->p_offset + (address - s->p_vaddr);
    *left = s->p_filesz - (address - s->p_vaddr);
    return true;
  }
  return false;
}

/* ------------------------------------------------------------------- names */

/* A folder of a list, or the name of a library. Its first bytes are enough. */
typedef struct part {
  char text[TN__DANGER_TEXT];
  size_t n; /* bytes of all of it */
  bool has_slash;
} part;

static void add_byte(part *p, char c) {
  if (p->n + 1 < sizeof p->text) p->text[p->n] = c;
  if (++p->n < sizeof p->text) p->text[p->n] = 0;
  p->text[sizeof p->text - 1] = 0;
  p->has_slash = p->has_slash || c == '/';
}

static bool is_at_origin(const char *text, const char *origin) {
  const size_t n = strlen(origin);
  return !strncmp(text, origin, n) && (text[n] == '/' || text[n] == 0);
}

static bool is_relative(const part *p) {
  return p->text[0] != '/' && !is_at_origin(p->text, "$ORIGIN") &&
         !is_at_origin(p->text, "${ORIGIN}");
}

/* Judges one part. The linker looks for a library without a slash in its own
 * folders. */
static void judge_part(const part *p, bool is_list, tn__elf *out) {
  if (out->danger || !is_relative(p) || (!is_list && !p->has_slash)) return;
  out->danger = is_list ? TN__DANGER_FOLDER : TN__DANGER_LIBRARY;
  memcpy(out->danger_text, p->text, sizeof out->danger_text);
}

/* Checks one text of the string table: a library, or folders with ':' between
 * them. */
static tn_code check_name(const dynamic *d, uint64_t offset, bool is_list,
                          tn__elf *out) {
  char block[BLOCK];
  part p = {"", 0, false};
  uint64_t at = 0, left = 0, done = 0;
  if (!find_address(d->f, d->strings + offset, &at, &left))
    return fail_damaged(d->f, "a text is outside of the file");
  while (done < left && done < MOST_NAMES) {
    const size_t n = left - done < BLOCK ? (size_t)(left - done) : BLOCK;
    TN__TRY(tn__elf_read_at(d->f, block, n, at + done));
    for (size_t i = 0; i < n; ++i) {
      const bool ends = block[i] == 0 || (is_list && block[i] == ':');
      if (ends) judge_part(&p, is_list, out);
      if (block[i] == 0) return TN_OK;
      if (ends)
        p = (part){"", 0, false};
      else
        add_byte(&p, block[i]);
    }
    done += n;
  }
  return fail_damaged(d->f, "a text has no end");
}

/* ----------------------------------------------------------------- entries */

typedef tn_code take_entry(dynamic *d, const Elf64_Dyn *entry, tn__elf *out);

static tn_code read_flag(dynamic *d, const Elf64_Dyn *entry, tn__elf *out) {
  (void)out;
  if (entry->d_tag == DT_STRTAB) d->strings = entry->d_un.d_ptr;
  if (entry->d_tag == DT_TEXTREL ||
      (entry->d_tag == DT_FLAGS && entry->d_un.d_val & DF_TEXTREL))
    d->writes_code = true;
  return TN_OK;
}

static tn_code read_name(dynamic *d, const Elf64_Dyn *entry, tn__elf *out) {
  switch (entry->d_tag) {
    case DT_RPATH:
    case DT_RUNPATH:
      return check_name(d, entry->d_un.d_val, true, out);
    case DT_NEEDED:
    case DT_AUXILIARY:
    case DT_FILTER:
      return check_name(d, entry->d_un.d_val, false, out);
    default:
      return TN_OK;
  }
}

static tn_code walk_entries(dynamic *d, uint64_t address, take_entry *take,
                            tn__elf *out) {
  Elf64_Dyn block[BLOCK / sizeof(Elf64_Dyn)];
  uint64_t at = 0, left = 0;
  if (!find_address(d->f, address, &at, &left))
    return fail_damaged(d->f, "it is outside of the file");
  for (uint32_t i = 0; i < MOST_ENTRIES; ++i) {
    const size_t slot = i % (BLOCK / sizeof *block);
    const size_t n = left < sizeof block ? (size_t)left : sizeof block;
    if (slot == 0) {
      TN__TRY(tn__elf_read_at(d->f, block, n, at));
      at += n;
      left -= n;
    }
    if (slot == 0) memset((char *)block + n, 0, sizeof block - n);
    if (block[slot].d_tag == DT_NULL) return TN_OK;
    TN__TRY(take(d, &block[slot], out));
  }
  return fail_damaged(d->f, "it has no end");
}

/* A file without this header gets an executable stack, too. */
static bool has_executable_stack(const tn__elf_file *f) {
  bool marked = false, executable = false;
  for (unsigned i = 0; i < f->head.e_phnum; ++i) {
    if (f->segments[i].p_type != PT_GNU_STACK) continue;
    marked = true;
    executable = executable || (f->segments[i].p_flags & PF_X) != 0;
  }
  return executable || !marked;
}

static const Elf64_Phdr *find_dynamic(const tn__elf_file *f) {
  unsigned i = 0;
  while (f->segments[i].p_type != PT_DYNAMIC) ++i;
  return &f->segments[i];
}

tn_code tn__elf_find_danger(const tn__elf_file *f, tn__elf *out) {
  dynamic d = {.f = f};
  const uint64_t address = find_dynamic(f)->p_vaddr;
  TN__TRY(walk_entries(&d, address, read_flag, out));
  if (has_executable_stack(f))
    out->danger = TN__DANGER_STACK;
  else if (d.writes_code)
    out->danger = TN__DANGER_CODE;
  return walk_entries(&d, address, read_name, out);
}

/* ---------------------------------------------------------------- judgement */

tn_code tn__elf_accept(const tn__elf *elf, const char *path) {
  TN__TRY(tn__note_accept(&elf->note, path));
  switch (elf->danger) {
    case TN__DANGER_STACK:
      return tn__fail(TN_PLUGIN,
                      "%s: asks for an executable stack, which makes any bug "
                      "of the process easier to exploit; link it with "
                      "-Wl,-z,noexecstack",
                      path);
    case TN__DANGER_CODE:
      return tn__fail(TN_PLUGIN,
                      "%s: has relocations in its code (TEXTREL), so code "
                      "would be writable while it is loaded; compile all of it "
                      "with -fPIC",
                      path);
    case TN__DANGER_FOLDER:
      return tn__fail(TN_PLUGIN,
                      "%s: looks for libraries in the folder \"%s\" of its "
                      "RUNPATH, which depends on the current folder; write an "
                      "absolute folder or $ORIGIN, without empty parts",
                      path, elf->danger_text);
    case TN__DANGER_LIBRARY:
      return tn__fail(TN_PLUGIN,
                      "%s: needs the library \"%s\", a path that depends on "
                      "the current folder; link it with -l, or with a library "
                      "that has a soname",
                      path, elf->danger_text);
    default:
      return TN_OK;
  }
}
