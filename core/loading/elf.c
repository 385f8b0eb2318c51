/* SPDX-License-Identifier: Apache-2.0
 * elf.c: checks a plugin file and reads its note before any function maps the
 * file. dlopen crashes on truncated files (SIGBUS), and maps files that it
 * cannot use. This file reads with pread only, and compares each number with
 * the file's length before it uses the number.
 */
#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "elf_file.h"

enum {
  MOST_MANIFEST = 64 << 20, /* bytes; a thousand operators take two million */
  MOST_NOTES = 1000 /* in all segments; real plugins have fewer than ten */
};

typedef tn__elf_file file;

/* ------------------------------------------------------------- the file */

static tn_code fail_missing(const char *path) {
  char target[PATH_MAX];
  ssize_t n = readlink(path, target, sizeof target - 1);
  if (n < 0) return tn__fail(TN_NOT_FOUND, "%s: no such file", path);
  target[n] = 0;
  return tn__fail(TN_NOT_FOUND,
                  "%s: is a symbolic link to %s, which does not exist", path,
                  target);
}

tn_code tn__path_resolve(const tn__env *env, const char *path, char *real) {
  if (!path || !*path)
    return tn__fail(TN_INVALID, "the name of the plugin file is empty");
  if (env->os->realpath(path, real)) return TN_OK;
  if (errno == ENOENT) return fail_missing(path);
  return tn__fail(TN_IO, "%s: cannot be found: %s", path, strerror(errno));
}

tn_code tn__elf_read_at(const file *f, void *to, size_t bytes,
                        uint64_t offset) {
  for (size_t done = 0; done < bytes;) {
    ssize_t n = f->env->os->pread(f->fd, (char *)to + done, bytes - done,
                                  (int64_t)(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      return tn__fail(TN_IO, "%s: cannot be read: %s", f->path,
                      strerror(errno));
    if (n == 0)
      return tn__fail(TN_IO, "%s: became shorter while it was read", f->path);
    done += (size_t)n;
  }
  return TN_OK;
}

static bool is_inside(uint64_t offset, uint64_t bytes, uint64_t size) {
  return offset <= size && bytes <= size - offset;
}

static tn_code check_kind(file *f, const struct stat *st) {
  const char *kind = S_ISDIR(st->st_mode)    ? "a directory"
                     : S_ISFIFO(st->st_mode) ? "a FIFO (named pipe)"
                     : S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode)
                         ? "a device"
                         : "a special file";
  f->size = (uint64_t)st->st_size;
  if (!S_ISREG(st->st_mode))
    return tn__fail(TN_PLUGIN, "%s: is %s; a plugin is a regular file", f->path,
                    kind);
  if (f->size == 0)
    return tn__fail(TN_PLUGIN, "%s: is empty (0 bytes); build or copy it again",
                    f->path);
  return TN_OK;
}

/* --------------------------------------------------------------- the head */

static const char *machine_name(uint32_t machine) {
  switch (machine) {
    case EM_386:
      return "i386";
    case EM_ARM:
      return "arm";
    case EM_X86_64:
      return "x86-64";
    case EM_AARCH64:
      return "aarch64";
    case EM_RISCV:
      return "riscv";
    default:
      return "unknown";
  }
}

static tn_code fail_no_elf(const file *f, size_t n) {
  char shown[17] = "";
  for (size_t i = 0; i < n && i + 1 < sizeof shown; ++i) {
    unsigned char c = f->head.e_ident[i];
    shown[i] = c >= ' ' && c < 0x7f ? (char)c : '.';
  }
  return tn__fail(TN_PLUGIN,
                  "%s: is not a shared object: it begins with \"%s\", not with "
                  "the mark of an ELF file",
                  f->path, shown);
}

static tn_code fail_truncated(const file *f, const char *what, uint64_t end) {
  return tn__fail(TN_PLUGIN,
                  "%s: is truncated: %s ends at byte %" PRIu64
                  ", the file at %" PRIu64 "; build or copy it again",
                  f->path, what, end, f->size);
}

static tn_code read_head(file *f) {
  size_t n = f->size < sizeof f->head ? (size_t)f->size : sizeof f->head;
  const unsigned char *ident = f->head.e_ident;
  TN__TRY(tn__elf_read_at(f, &f->head, n, 0));
  if (n < SELFMAG || memcmp(ident, ELFMAG, SELFMAG)) return fail_no_elf(f, n);
  if (n < sizeof f->head)
    return fail_truncated(f, "the ELF header", sizeof f->head);
  if (ident[EI_CLASS] != ELFCLASS64)
    return tn__fail(TN_PLUGIN,
                    "%s: is a %s ELF file (class %u, expected 2); build the "
                    "plugin for 64 bits",
                    f->path, ident[EI_CLASS] == ELFCLASS32 ? "32-bit" : "odd",
                    ident[EI_CLASS]);
  if (ident[EI_DATA] != ELFDATA2LSB)
    return tn__fail(TN_PLUGIN,
                    "%s: is big-endian (data %u, expected 1); build the plugin "
                    "for a little-endian machine",
                    f->path, ident[EI_DATA]);
  return TN_OK;
}

static tn_code check_type(const file *f) {
  const Elf64_Ehdr *head = &f->head;
  if (head->e_type == ET_EXEC)
    return tn__fail(TN_PLUGIN,
                    "%s: is an executable, not a shared object; link it with "
                    "-shared",
                    f->path);
  if (head->e_type != ET_DYN)
    return tn__fail(TN_PLUGIN,
                    "%s: is not a shared object (ELF type %u, expected 3); "
                    "link it with -shared",
                    f->path, head->e_type);
  if (head->e_version != EV_CURRENT || head->e_ehsize != sizeof *head)
    return tn__fail(TN_PLUGIN,
                    "%s: its ELF header is damaged (version %u, size %u); "
                    "build or copy it again",
                    f->path, head->e_version, head->e_ehsize);
  return TN_OK;
}

/* ------------------------------------------------------------- the tables */

static tn_code read_segments(file *f) {
  const Elf64_Ehdr *head = &f->head;
  uint64_t bytes = (uint64_t)head->e_phnum * sizeof *f->segments;
  if (head->e_phentsize != sizeof *f->segments || head->e_phnum == 0 ||
      head->e_phnum > TN__MOST_SEGMENTS)
    return tn__fail(TN_PLUGIN,
                    "%s: its program headers are damaged (%u of %u bytes; 1 to "
                    "%d of %zu are expected)",
                    f->path, head->e_phnum, head->e_phentsize,
                    TN__MOST_SEGMENTS, sizeof *f->segments);
  if (!is_inside(head->e_phoff, bytes, f->size))
    return fail_truncated(f, "the program header table", head->e_phoff + bytes);
  return tn__elf_read_at(f, f->segments, (size_t)bytes, head->e_phoff);
}

static tn_code check_sections(const file *f) {
  const Elf64_Ehdr *head = &f->head;
  uint64_t bytes = (uint64_t)head->e_shnum * head->e_shentsize;
  if (head->e_shoff == 0) return TN_OK;
  if (!is_inside(head->e_shoff, bytes, f->size))
    return fail_truncated(f, "the section header table", head->e_shoff + bytes);
  return TN_OK;
}

static bool is_valid_load(const Elf64_Phdr *segment, uint64_t *address) {
  uint64_t align = segment->p_align ? segment->p_align : 1;
  bool sane = segment->p_filesz <= segment->p_memsz &&
              segment->p_vaddr >= *address && segment->p_memsz <= INT64_MAX &&
              segment->p_vaddr <= INT64_MAX - segment->p_memsz &&
              (align & (align - 1)) == 0 &&
              (segment->p_vaddr - segment->p_offset) % align == 0;
  *address = segment->p_vaddr + segment->p_memsz;
  return sane;
}

static tn_code check_segment(const file *f, unsigned i, uint64_t *address) {
  const Elf64_Phdr *segment = &f->segments[i];
  if (segment->p_type == PT_INTERP)
    return tn__fail(TN_PLUGIN,
                    "%s: is an executable (it has a program interpreter); link "
                    "it with -shared",
                    f->path);
  if (segment->p_filesz &&
      !is_inside(segment->p_offset, segment->p_filesz, f->size))
    return fail_truncated(f, "a segment",
                          segment->p_offset + segment->p_filesz);
  if (segment->p_type == PT_LOAD && !is_valid_load(segment, address))
    return tn__fail(TN_PLUGIN,
                    "%s: program header %u is damaged; build or copy it again",
                    f->path, i);
  return TN_OK;
}

static tn_code check_segments(const file *f) {
  uint64_t address = 0;
  unsigned loads = 0, dynamics = 0;
  for (unsigned i = 0; i < f->head.e_phnum; ++i) {
    TN__TRY(check_segment(f, i, &address));
    loads += f->segments[i].p_type == PT_LOAD;
    dynamics += f->segments[i].p_type == PT_DYNAMIC;
  }
  if (loads && dynamics == 1) return TN_OK;
  return tn__fail(TN_PLUGIN,
                  "%s: has %u loadable and %u dynamic segments; a shared "
                  "object has at least one and exactly one",
                  f->path, loads, dynamics);
}

/* --------------------------------------------------------------- the note */

static tn_code fail_bad_note(const file *f, const char *field, uint64_t found,
                             uint64_t expected) {
  return tn__fail(TN_PLUGIN,
                  "%s: its Tenon note is damaged: %s is %" PRIu64
                  ", expected %" PRIu64 "; build or copy it again",
                  f->path, field, found, expected);
}

static tn_code check_note(const file *f, uint64_t bytes, const tn_note *note) {
  if (note->magic != TN_PLUGIN_MAGIC)
    return fail_bad_note(f, "magic", note->magic, TN_PLUGIN_MAGIC);
  if (note->header_size < sizeof *note || note->header_size > bytes)
    return fail_bad_note(f, "header_size", note->header_size, sizeof *note);
  if (note->manifest_size > bytes - note->header_size ||
      note->manifest_size > MOST_MANIFEST)
    return fail_bad_note(f, "manifest_size", note->manifest_size,
                         bytes - note->header_size);
  if (note->machine != f->head.e_machine)
    return tn__fail(TN_PLUGIN,
                    "%s: its ELF header is of machine %u (%s), its Tenon note "
                    "of machine %u (%s); build the plugin again",
                    f->path, f->head.e_machine, machine_name(f->head.e_machine),
                    note->machine, machine_name(note->machine));
  return TN_OK;
}

/* The hash is that of our major version: another one may use another
 * function. */
static tn_code check_manifest(const file *f, const tn__elf *elf) {
  size_t n = (size_t)elf->note.manifest_size;
  uint64_t found = tn__hash(elf->manifest, n);
  if (elf->note.abi_major != TN_ABI_MAJOR || found == elf->note.manifest_hash)
    return TN_OK;
  return tn__fail(TN_PLUGIN,
                  "%s: its Tenon note is damaged: manifest_hash is %016" PRIx64
                  ", but the manifest's %zu bytes hash to %016" PRIx64
                  "; build or copy it again",
                  f->path, elf->note.manifest_hash, n, found);
}

static tn_code read_note(const file *f, uint64_t at, uint64_t bytes,
                         tn__elf *out) {
  if (bytes < sizeof out->note)
    return fail_bad_note(f, "size", bytes, sizeof out->note);
  TN__TRY(tn__elf_read_at(f, &out->note, sizeof out->note, at));
  TN__TRY(check_note(f, bytes, &out->note));
  size_t n = (size_t)out->note.manifest_size;
  out->manifest = tn__alloc(f->env, n);
  if (!out->manifest) return tn__fail_memory(n, "a plugin's note");
  TN__TRY(tn__elf_read_at(f, out->manifest, n, at + out->note.header_size));
  return check_manifest(f, out);
}

static uint64_t round_up(uint64_t n, uint64_t align) {
  return (n + align - 1) / align * align;
}

/* A place in the notes of a segment, and the number of notes before it. */
typedef struct notes {
  uint64_t at;
  uint64_t left; /* bytes from there to the end of the segment */
  uint64_t align;
  uint32_t n;
} notes;

typedef struct note_head {
  Elf64_Nhdr head;
  char name[sizeof TN_NOTE_NAME];
} note_head;

static bool is_ours(const note_head *note) {
  return note->head.n_type == TN_NOTE_TYPE &&
         note->head.n_namesz == sizeof TN_NOTE_NAME &&
         !memcmp(note->name, TN_NOTE_NAME, sizeof TN_NOTE_NAME);
}

/* Reads one note; copies the manifest to `out` if it is Tenon's. */
static tn_code scan_note(const file *f, notes *list, tn__elf *out) {
  note_head note = {{0, 0, 0}, ""};
  const size_t n = list->left < sizeof note ? (size_t)list->left : sizeof note;
  if (++list->n > MOST_NOTES)
    return tn__fail(TN_PLUGIN,
                    "%s: has more than %d notes; real plugins have less than "
                    "ten, so it is damaged or was made to take time",
                    f->path, MOST_NOTES);
  TN__TRY(tn__elf_read_at(f, &note, n, list->at));
  const uint64_t desc =
      round_up(sizeof note.head + note.head.n_namesz, list->align);
  uint64_t whole = desc + note.head.n_descsz;
  if (whole > list->left)
    return fail_bad_note(f, "the end of a note", whole, list->left);
  if (is_ours(&note))
    return read_note(f, list->at + desc, note.head.n_descsz, out);
  whole = round_up(whole, list->align);
  list->at += whole;
  list->left -= whole < list->left ? whole : list->left;
  return TN_OK;
}

static tn_code find_note(const file *f, tn__elf *out) {
  notes list = {0};
  for (unsigned i = 0; i < f->head.e_phnum; ++i) {
    const Elf64_Phdr *segment = &f->segments[i];
    if (segment->p_type != PT_NOTE) continue;
    list.at = segment->p_offset;
    list.left = segment->p_filesz;
    list.align = segment->p_align == 8 ? 8 : 4;
    while (!out->manifest && list.left > sizeof(Elf64_Nhdr))
      TN__TRY(scan_note(f, &list, out));
  }
  if (out->manifest) return TN_OK;
  return tn__fail(TN_PLUGIN,
                  "%s: has no Tenon note, so it is a shared object but not a "
                  "Tenon plugin (machine %s)",
                  f->path, machine_name(f->head.e_machine));
}

static tn_code read_open(file *f, tn__elf *out) {
  if (f->env->os->fstat(f->fd, &out->identity))
    return tn__fail(TN_IO, "%s: cannot be examined: %s", f->path,
                    strerror(errno));
  TN__TRY(check_kind(f, &out->identity));
  TN__TRY(read_head(f));
  TN__TRY(check_type(f));
  TN__TRY(read_segments(f));
  TN__TRY(check_segments(f));
  TN__TRY(check_sections(f));
  out->machine = f->head.e_machine;
  TN__TRY(find_note(f, out));
  return tn__elf_find_danger(f, out);
}

tn_code tn__elf_read(const tn__env *env, const char *path, tn__elf *out) {
  file f = {.env = env, .path = path, .fd = env->os->open(path)};
  memset(out, 0, sizeof *out);
  if (f.fd < 0)
    return tn__fail(errno == ENOENT ? TN_NOT_FOUND : TN_IO,
                    "%s: cannot be opened: %s", path, strerror(errno));
  tn_code rc = read_open(&f, out);
  env->os->close(f.fd);
  if (rc) tn__elf_deinit(env, out);
  return rc;
}

void tn__elf_deinit(const tn__env *env, tn__elf *elf) {
  tn__free(env, elf->manifest);
  elf->manifest = NULL;
}

tn_code tn__note_accept(const tn_note *note, const char *path) {
  if (note->abi_major != TN_ABI_MAJOR)
    return tn__fail(TN_PLUGIN,
                    "%s: abi_major is %u, this host expects %d; build the "
                    "plugin with the SDK of this host, or use a host of ABI "
                    "major %u",
                    path, note->abi_major, TN_ABI_MAJOR, note->abi_major);
  if (note->min_host_minor > TN_ABI_MINOR)
    return tn__fail(TN_PLUGIN,
                    "%s: min_host_minor is %u, this host has ABI %d.%d; use a "
                    "newer Tenon, or build the plugin with "
                    "-DTN_TARGET_MINOR=%d",
                    path, note->min_host_minor, TN_ABI_MAJOR, TN_ABI_MINOR,
                    TN_ABI_MINOR);
  if (note->machine != TN_NOTE_MACHINE)
    return tn__fail(TN_PLUGIN,
                    "%s: machine is %u (%s), this host is %u (%s); build the "
                    "plugin for this machine",
                    path, note->machine, machine_name(note->machine),
                    TN_NOTE_MACHINE, machine_name(TN_NOTE_MACHINE));
  if (note->pointer_bits != 8 * sizeof(void *))
    return tn__fail(TN_PLUGIN,
                    "%s: pointer_bits is %u, this host expects %zu; build the "
                    "plugin for this machine",
                    path, note->pointer_bits, 8 * sizeof(void *));
  return TN_OK;
}
