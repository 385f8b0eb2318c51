/* SPDX-License-Identifier: Apache-2.0
 * test_note.c: reads built files, which may come from a stranger. Inconsistent
 * tables are refused; consistent ones may be larger than any manifest.
 */
#include <criterion/criterion.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sample.h"
#include "tenon/plugin/note.h"

static char folder[] = "/tmp/tenon-note-XXXXXX";

static void make_folder(void) {
  cr_assert_not_null(mkdtemp(folder));
}

/* Valid until the next call. */
static const char *path_of(const char *name) {
  static char path[sizeof folder + 32];
  (void)snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static void remove_folder(void) {
  static const char *const names[] = {"built.so", "plugin.yaml", "conv.yaml"};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
    (void)unlink(path_of(names[i]));
  (void)rmdir(folder);
}

TestSuite(note, .init = make_folder, .fini = remove_folder, .timeout = 100);

static void put_bytes(FILE *file, const void *bytes, size_t n) {
  cr_assert_eq(fwrite(bytes, 1, n, file), n);
}

/* Writes a file that contains only a note. */
static void write_built(const tn_plugin *plugin) {
  static const char name[8] = TN_NOTE_NAME;
  tn__buf tables;
  tn__buf_init(&tables, tn__env_default());
  tn__tables_encode(plugin, &tables);
  const tn_note note = {.magic = TN_PLUGIN_MAGIC,
                        .header_size = sizeof note,
                        .manifest_size = (uint32_t)tables.n};
  const Elf64_Nhdr head = {sizeof TN_NOTE_NAME,
                           (uint32_t)(sizeof note + tables.n), TN_NOTE_TYPE};
  const Elf64_Ehdr elf = {
      .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB},
      .e_type = ET_DYN,
      .e_phoff = sizeof elf,
      .e_phentsize = sizeof(Elf64_Phdr),
      .e_phnum = 1};
  const Elf64_Phdr segment = {
      .p_type = PT_NOTE,
      .p_offset = sizeof elf + sizeof segment,
      .p_filesz = sizeof head + sizeof name + sizeof note + tables.n};
  FILE *file = fopen(path_of("built.so"), "wb");
  cr_assert_not_null(file);
  put_bytes(file, &elf, sizeof elf), put_bytes(file, &segment, sizeof segment);
  put_bytes(file, &head, sizeof head), put_bytes(file, name, sizeof name);
  put_bytes(file, &note, sizeof note), put_bytes(file, tables.s, tables.n);
  put_bytes(file, "\0\0\0", 4);
  cr_assert_eq(fclose(file), 0);
  tn__buf_deinit(&tables);
}

static void write_text(const char *name, const char *text) {
  FILE *file = fopen(path_of(name), "w");
  cr_assert_not_null(file);
  put_bytes(file, text, strlen(text));
  cr_assert_eq(fclose(file), 0);
}

/* Expects a message about kernels for an operator of that file. */
static void expect_message(const tn_plugin *with, const char *example,
                           const char *wanted) {
  char built[sizeof folder + 32];
  const char *list[] = {built};
  const tnm_read_options options = {.with = list, .n_with = 1};
  char text[512], *said = NULL;
  size_t n = 0;
  write_built(with);
  (void)snprintf(built, sizeof built, "%s", path_of("built.so"));
  write_text("plugin.yaml",
             "opgen: 1\nplugin: fast\nrelease: 1\nsummary: Kernels\n"
             "license: Apache-2.0\noperators: [conv.yaml]\n");
  (void)snprintf(text, sizeof text,
                 "opgen: 1\nkernels_for: acme.conv@2\nkernels:\n"
                 "  - {device: cpu, forward: fast_conv}\nexamples:\n"
                 "  - {name: one, %s}\n",
                 example);
  write_text("conv.yaml", text);
  tnm_diags *diags = tnm_diags_create(tn__env_default());
  tnm_plugin *plugin =
      tnm_plugin_read(tn__env_default(), folder, &options, diags);
  FILE *out = open_memstream(&said, &n);
  tnm_diags_print(diags, out, 0, false);
  cr_assert_eq(fclose(out), 0);
  cr_expect_null(plugin);
  cr_expect_not_null(strstr(said, wanted), "%s", said);
  free(said);
  tnm_plugin_release(plugin);
  tnm_diags_release(diags);
}

Test(note, inconsistent_tables_are_refused) {
  sample s;
  sample_init(&s);
  s.out.flags |= TN_ARG_VIEW;
  s.out.inplace = 900000;
  expect_message(&s.plugin, "data: [[1]]", "inplace is 900000");
}

Test(note, huge_numbers_of_operands_are_distinguished) {
  enum { N = 1000 };
  static const tn_arg *inputs[N];
  static tn_arg args[N];
  static char names[N][8];
  sample s;
  sample_init(&s);
  for (int i = 0; i < N; ++i) {
    (void)snprintf(names[i], sizeof *names, "x%d", i);
    args[i] = i < 2 ? *s.inputs[i] : s.weight;
    if (i > 1) args[i].name = names[i];
    inputs[i] = &args[i];
  }
  s.op.inputs = inputs;
  s.op.n_inputs = N;
  s.op.gradient = NULL;
  expect_message(&s.plugin, "dat: [[1]]", "`dat` is no operand of `conv`");
}

Test(note, huge_numbers_of_parameters_are_distinguished) {
  enum { N = 1000 };
  static const tn_field *params[N];
  static tn_field fields[N];
  static char names[N][8];
  sample s;
  sample_init(&s);
  for (int i = 0; i < N; ++i) {
    (void)snprintf(names[i], sizeof *names, "p%d", i);
    fields[i] = i < 4 ? *s.params[i] : s.bias;
    if (i > 3) {
      fields[i].name = names[i];
      fields[i].flags = 0;
      fields[i].default_text = "0";
      fields[i].has_offset = TN_NONE;
      fields[i].offset = 48 + 8 * (uint32_t)(i - 4);
    }
    params[i] = &fields[i];
  }
  s.op.params = params;
  s.op.n_params = N;
  s.op.params_size = 48 + 8 * (N - 4);
  expect_message(&s.plugin, "params: {kernl: [1]}",
                 "`kernl` is no parameter of `conv`");
}
