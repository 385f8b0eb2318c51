/* SPDX-License-Identifier: Apache-2.0
 * test_elf.c: files that are no plugins are refused before any function maps
 * them, each with a message that states the fault.
 */
#include <criterion/criterion.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "world.h"

/* Loads and inspects: both must refuse, and nothing may change. */
static void expect_refusal(world *w, const char *path, tn_code code,
                           const char *text) {
  char before[256], after[256];
  tn_inspection *inspection = NULL;
  world_snapshot(w, before, sizeof before);
  cr_assert_eq(tn__inspection_open(&w->env, path, &inspection), code,
               "inspect %s: %s", path, tn_error_text());
  cr_assert_null(inspection);
  cr_assert_eq(tn__plugin_load(w->registry, path), code, "load %s: %s", path,
               tn_error_text());
  cr_assert(strstr(tn_error_text(), text), "%s", tn_error_text());
  world_snapshot(w, after, sizeof after);
  cr_assert_str_eq(before, after);
}

/* A copy of fix.so in which `n` bytes at `at` are replaced. */
static void expect_patched_refusal(size_t at, const void *bytes, size_t n,
                                   const char *text) {
  world w;
  size_t size;
  uint8_t *file = fixture_bytes("fix", &size);
  world_open(&w, 0);
  memcpy(file + at, bytes, n);
  expect_refusal(&w, world_file(&w, "patched.so", file, size), TN_PLUGIN, text);
  free(file);
  world_close(&w);
}

static size_t note_at(const uint8_t *file, size_t size) {
  for (size_t i = 0; i + 8 < size; ++i)
    if (!memcmp(file + i, "Tenon\0\0", 8)) return i + 8;
  cr_assert_fail("fix.so has no note");
  return 0;
}

static void refuses_patched_note(size_t offset, uint32_t value,
                                 const char *text) {
  size_t size;
  uint8_t *file = fixture_bytes("fix", &size);
  size_t at = note_at(file, size);
  free(file);
  expect_patched_refusal(at + offset, &value, sizeof value, text);
}

static size_t segment_in(const char *name, uint32_t type, size_t field) {
  size_t size;
  uint8_t *file = fixture_bytes(name, &size);
  Elf64_Ehdr head;
  memcpy(&head, file, sizeof head);
  for (size_t i = 0; i < head.e_phnum; ++i) {
    size_t at = (size_t)head.e_phoff + i * sizeof(Elf64_Phdr);
    uint32_t found;
    memcpy(&found, file + at, sizeof found);
    if (found != type) continue;
    free(file);
    return at + field;
  }
  cr_assert_fail("%s.so has no such segment", name);
  return 0;
}

static size_t segment_at(uint32_t type, size_t field) {
  return segment_in("fix", type, field);
}

Test(elf, reads_a_sound_plugin_without_opening_it) {
  world w;
  tn__elf elf;
  world_open(&w, 0);
  cr_assert_eq(tn__elf_read(&w.env, fixture_path("fix"), &elf), TN_OK, "%s",
               tn_error_text());
  cr_assert_eq(elf.machine, TN_NOTE_MACHINE);
  cr_assert_eq(elf.note.abi_minor, TN_ABI_MINOR);
  cr_assert_eq(tn__hash(elf.manifest, elf.note.manifest_size),
               elf.note.manifest_hash);
  tn__elf_deinit(&w.env, &elf);
  world_close(&w);
}

Test(elf, refuses_a_missing_file) {
  world w;
  char link[128];
  world_open(&w, 0);
  expect_refusal(&w, "/nowhere/fix.so", TN_NOT_FOUND,
                 "/nowhere/fix.so: no such file");
  expect_refusal(&w, "", TN_INVALID, "is empty");
  (void)snprintf(link, sizeof link, "%s/link.so", w.folder);
  cr_assert_eq(symlink("/nowhere/else.so", link), 0);
  expect_refusal(
      &w, link, TN_NOT_FOUND,
      "is a symbolic link to /nowhere/else.so, which does not exist");
  world_close(&w);
}

Test(elf, refuses_a_path_that_is_no_file) {
  world w;
  char fifo[128];
  world_open(&w, 0);
  expect_refusal(&w, w.folder, TN_PLUGIN, "is a directory");
  (void)snprintf(fifo, sizeof fifo, "%s/fifo.so", w.folder);
  cr_assert_eq(mkfifo(fifo, 0600), 0);
  expect_refusal(&w, fifo, TN_PLUGIN, "is a FIFO");
  expect_refusal(&w, "/dev/null", TN_PLUGIN, "is a device");
  world_close(&w);
}

Test(elf, refuses_files_of_another_kind) {
  world w;
  world_open(&w, 0);
  expect_refusal(&w, world_file(&w, "empty.so", "", 0), TN_PLUGIN,
                 "is empty (0 bytes)");
  expect_refusal(&w, world_file(&w, "text.so", "opgen: 1\n", 9), TN_PLUGIN,
                 "is not a shared object: it begins with \"opgen: 1.\"");
  expect_refusal(&w, world_file(&w, "short.so", ELFMAG, SELFMAG), TN_PLUGIN,
                 "is truncated: the ELF header ends at byte 64, the file at 4");
  expect_refusal(&w, "/proc/self/exe", TN_PLUGIN, "is an executable");
  expect_refusal(&w, fixture_path("nonote"), TN_PLUGIN, "has no Tenon note");
  world_close(&w);
}

Test(elf, refuses_files_for_other_machines) {
  const uint8_t class32 = ELFCLASS32, big = ELFDATA2MSB;
  const uint16_t other = TN_NOTE_MACHINE == EM_X86_64 ? EM_AARCH64 : EM_X86_64;
  expect_patched_refusal(EI_CLASS, &class32, 1, "is a 32-bit ELF file");
  expect_patched_refusal(EI_DATA, &big, 1, "is big-endian");
  expect_patched_refusal(offsetof(Elf64_Ehdr, e_machine), &other, sizeof other,
                         "its ELF header is of machine");
}

Test(elf, refuses_other_types_of_elf_files) {
  const uint16_t exec = ET_EXEC, relocatable = ET_REL;
  const size_t at = offsetof(Elf64_Ehdr, e_type);
  expect_patched_refusal(at, &exec, sizeof exec,
                         "is an executable, not a shared");
  expect_patched_refusal(at, &relocatable, sizeof relocatable,
                         "(ELF type 1, expected 3)");
}

Test(elf, refuses_a_plugin_cut_at_any_place) {
  world w;
  size_t size;
  uint8_t *file = fixture_bytes("fix", &size);
  world_open(&w, 0);
  for (size_t n = 512; n < size; n += 512)
    expect_refusal(&w, world_file(&w, "cut.so", file, n), TN_PLUGIN,
                   "is truncated");
  expect_refusal(&w, world_file(&w, "cut.so", file, size - 1), TN_PLUGIN,
                 "the section header table ends at byte");
  free(file);
  world_close(&w);
}

Test(elf, refuses_program_headers_that_lead_outside) {
  const uint64_t huge = UINT64_MAX - 7, odd = 3;
  const uint16_t none = 0, many = 0xfffe, small = 32;
  const size_t load = segment_at(PT_LOAD, 0);
  const size_t dynamic = segment_at(PT_DYNAMIC, 0);
  const uint32_t type = PT_NULL;
  expect_patched_refusal(offsetof(Elf64_Ehdr, e_phoff), &huge, 8,
                         "is truncated");
  expect_patched_refusal(offsetof(Elf64_Ehdr, e_shoff), &huge, 8,
                         "is truncated");
  expect_patched_refusal(offsetof(Elf64_Ehdr, e_phnum), &none, 2,
                         "damaged (0 of 56");
  expect_patched_refusal(offsetof(Elf64_Ehdr, e_phnum), &many, 2,
                         "(65534 of 56");
  expect_patched_refusal(offsetof(Elf64_Ehdr, e_phentsize), &small, 2,
                         "of 32 bytes");
  expect_patched_refusal(load + offsetof(Elf64_Phdr, p_offset), &huge, 8,
                         "is truncated: a segment");
  expect_patched_refusal(load + offsetof(Elf64_Phdr, p_filesz), &huge, 8,
                         "is truncated: a segment");
  expect_patched_refusal(load + offsetof(Elf64_Phdr, p_memsz), &odd, 8,
                         "program header 0 is damaged");
  expect_patched_refusal(load + offsetof(Elf64_Phdr, p_memsz), &huge, 8,
                         "program header 0 is damaged");
  expect_patched_refusal(load + offsetof(Elf64_Phdr, p_align), &odd, 8,
                         "program header 0 is damaged");
  expect_patched_refusal(dynamic, &type, 4, "0 dynamic segments");
}

Test(elf, refuses_a_damaged_note) {
  size_t size;
  uint8_t *file = fixture_bytes("fix", &size);
  const size_t note = note_at(file, size);
  const uint8_t other = file[note + sizeof(tn_note) + 20] ^ 1;
  const uint32_t long_size = 0x7fffffff;
  free(file);
  refuses_patched_note(0, 1, "note is damaged: magic is");
  refuses_patched_note(offsetof(tn_note, header_size), 8, "header_size is 8");
  refuses_patched_note(offsetof(tn_note, header_size), UINT32_MAX,
                       "header_size is 4294967295");
  refuses_patched_note(offsetof(tn_note, manifest_size), UINT32_MAX,
                       "manifest_size is 4294967295");
  refuses_patched_note(offsetof(tn_note, manifest_hash), 1,
                       "manifest_hash is ");
  refuses_patched_note(offsetof(tn_note, machine), 3, "of machine 3 (i386)");
  expect_patched_refusal(note + sizeof(tn_note) + 20, &other, 1, "hash to");
  /* the name "Tenon" + 8, the type, then the size of the description */
  expect_patched_refusal(note - 16, &long_size, 4, "the end of a note is");
}

/* ------------------------------------------------------------------ dangers */

/* Inspecting reports the danger and shows the file; loading fails. */
static void expect_danger(world *w, const char *path, const char *text) {
  tn_inspection *inspection = NULL;
  cr_assert_eq(tn__inspection_open(&w->env, path, &inspection), TN_OK, "%s: %s",
               path, tn_error_text());
  cr_assert(inspection->refusal && strstr(inspection->refusal, text),
            "%s: inspected as `%s`", path,
            inspection->refusal ? inspection->refusal : "loads it");
  cr_assert_str_eq(inspection->plugin->name, "fix");
  tn__inspection_close(inspection);
  cr_assert_eq(tn__plugin_load(w->registry, path), TN_PLUGIN, "%s", path);
  cr_assert(strstr(tn_error_text(), text), "%s", tn_error_text());
  cr_assert_eq(w->registry->plugins.n, 0);
}

static void refuses_dangerous_patch(size_t at, const void *bytes, size_t n,
                                    const char *text) {
  world w;
  size_t size;
  uint8_t *file = fixture_bytes("fix", &size);
  world_open(&w, 0);
  memcpy(file + at, bytes, n);
  expect_danger(&w, world_file(&w, "patched.so", file, size), text);
  free(file);
  world_close(&w);
}

/* The position of a tag's dynamic entry in a fixture. */
static size_t dynamic_in(const char *name, uint64_t tag) {
  size_t size;
  uint8_t *file = fixture_bytes(name, &size);
  uint64_t at, found = 0;
  memcpy(&at,
         file + segment_in(name, PT_DYNAMIC, offsetof(Elf64_Phdr, p_offset)),
         sizeof at);
  for (; at + sizeof(Elf64_Dyn) <= size; at += sizeof(Elf64_Dyn)) {
    memcpy(&found, file + at, sizeof found);
    if (found == tag || found == DT_NULL) break;
  }
  free(file);
  cr_assert_eq(found, tag, "%s.so has no dynamic entry %llu", name,
               (unsigned long long)tag);
  return (size_t)at;
}

static size_t dynamic_at(uint64_t tag) {
  return dynamic_in("fix", tag);
}

Test(elf, refuses_an_executable_stack) {
  world w;
  const size_t at = segment_at(PT_GNU_STACK, 0);
  const uint32_t none = PT_NULL;
  world_open(&w, 0);
  expect_danger(&w, fixture_path("stack_code"), "asks for an executable stack");
  world_close(&w);
  refuses_dangerous_patch(at, &none, sizeof none,
                          "asks for an executable stack");
}

Test(elf, refuses_relocations_in_code) {
  const Elf64_Dyn entry = {.d_tag = DT_TEXTREL};
  const Elf64_Dyn flags = {.d_tag = DT_FLAGS, .d_un = {.d_val = DF_TEXTREL}};
  const size_t at = dynamic_at(DT_RELACOUNT);
  refuses_dangerous_patch(at, &entry, sizeof entry, "(TEXTREL)");
  refuses_dangerous_patch(at, &flags, sizeof flags, "(TEXTREL)");
}

Test(elf, refuses_libraries_of_the_current_folder) {
  const Elf64_Dyn runpath = {.d_tag = DT_RUNPATH, .d_un = {.d_val = 0}};
  const Elf64_Dyn rpath = {.d_tag = DT_RPATH, .d_un = {.d_val = 0}};
  world w;
  world_open(&w, 0);
  expect_danger(&w, fixture_path("runpath_here"), "in the folder \".\" of its");
  expect_danger(&w, fixture_path("runpath_part"), "in the folder \"\" of its");
  expect_danger(&w, fixture_path("runpath_name"),
                "in the folder \"$ORIGINAL/lib\" of its");
  cr_assert_eq(tn__plugin_load(w.registry, fixture_path("runpath_good")), TN_OK,
               "%s", tn_error_text());
  world_close(&w);
  refuses_dangerous_patch(dynamic_at(DT_RELACOUNT), &runpath, sizeof runpath,
                          "in the folder \"\" of its");
  refuses_dangerous_patch(dynamic_at(DT_RELACOUNT), &rpath, sizeof rpath,
                          "in the folder \"\" of its");
}

/* Makes a library of the RUNPATH "$ORIGIN/../lib:...", from its ".." on. */
Test(elf, refuses_a_library_of_a_relative_path) {
  world w;
  size_t size, at = dynamic_in("runpath_good", DT_RUNPATH);
  uint8_t *file = fixture_bytes("runpath_good", &size);
  Elf64_Dyn entry;
  world_open(&w, 0);
  memcpy(&entry, file + at, sizeof entry);
  entry.d_tag = DT_NEEDED;
  entry.d_un.d_val += strlen("$ORIGIN/");
  memcpy(file + at, &entry, sizeof entry);
  expect_danger(&w, world_file(&w, "patched.so", file, size),
                "needs the library \"../lib:");
  free(file);
  world_close(&w);
}

Test(elf, refuses_a_dynamic_section_that_leads_outside) {
  const uint64_t far = UINT64_C(1) << 40;
  const Elf64_Dyn runpath = {.d_tag = DT_RUNPATH, .d_un = {.d_val = far}};
  expect_patched_refusal(segment_at(PT_DYNAMIC, offsetof(Elf64_Phdr, p_vaddr)),
                         &far, sizeof far,
                         "dynamic section is damaged: it is outside");
  expect_patched_refusal(dynamic_at(DT_RELACOUNT), &runpath, sizeof runpath,
                         "dynamic section is damaged: a text is outside");
}

/* ------------------------------------------------------------------- bounds */

/* Makes the note segment 8 GB long: a hole of zeros, which reads as empty notes
 * of 12 bytes each. The system counts the reads. */
Test(elf, refuses_a_file_with_too_many_notes) {
  const uint64_t size = UINT64_C(8) << 30;
  world w;
  size_t n, at = segment_at(PT_NOTE, 0);
  uint8_t *file = fixture_bytes("fix", &n);
  Elf64_Phdr segment;
  char path[512];
  world_open(&w, 0);
  memcpy(&segment, file + at, sizeof segment);
  segment.p_offset = UINT64_C(1) << 24;
  segment.p_filesz = size - segment.p_offset;
  memcpy(file + at, &segment, sizeof segment);
  (void)snprintf(path, sizeof path, "%s", world_file(&w, "sparse.so", file, n));
  cr_assert_eq(truncate(path, (off_t)size), 0);
  w.env.os = &world_os;
  world_os_failure.calls = 0;
  cr_assert_eq(tn__plugin_load(w.registry, path), TN_PLUGIN);
  cr_assert(strstr(tn_error_text(), "has more than 1000 notes"), "%s",
            tn_error_text());
  cr_assert_lt(world_os_failure.calls, 1100);
  w.env.os = &tn__os_real;
  free(file);
  world_close(&w);
}

/* Inspecting maps nothing, so no damaged byte can crash it. Loading a file that
 * is damaged after the note needs a child process; other tests do that. */
Test(elf, inspects_files_with_any_damaged_byte_without_harm) {
  world w;
  size_t size;
  uint8_t *file = fixture_bytes("fix", &size);
  const size_t note = note_at(file, size);
  world_open(&w, 0);
  for (size_t i = 0; i < note + 1200; ++i) {
    tn_inspection *inspection = NULL;
    file[i] ^= 0x81;
    const char *path = world_file(&w, "damaged.so", file, size);
    if (!tn__inspection_open(&w.env, path, &inspection))
      tn__inspection_close(inspection);
    file[i] ^= 0x81;
  }
  free(file);
  world_close(&w);
}
