/* SPDX-License-Identifier: Apache-2.0
 * test_tree.c: bytes to values: the refused texts, the positions and the
 * limits.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "../growth.h"
#include "front.h"

static tn__arena arena;
static tnm_diags *diags;

static void set_up(void) {
  tn__arena_init(&arena, tn__env_default());
  diags = tnm_diags_create(tn__env_default());
}

static void tear_down(void) {
  tnm_diags_release(diags);
  tn__arena_deinit(&arena);
}

TestSuite(tree, .init = set_up, .fini = tear_down);

static tnm_tree *read_n(const char *text, size_t n) {
  tnm_tree *documents = NULL;
  uint32_t file = tnm_diags_add_file(diags, "a.yaml", text, n);
  if (tnm_text_check(diags, file, text, n))
    tnm_tree_read(&arena, diags, file, &documents);
  return documents;
}

static tnm_tree *read_text(const char *text) {
  return read_n(text, strlen(text));
}

/* Expects the first line of the printed messages. */
static void expect_first(const char *expected) {
  char *text = NULL;
  size_t n = 0;
  FILE *to = open_memstream(&text, &n);
  tnm_diags_print(diags, to, TNM_SHORT, false);
  fclose(to);
  text[strcspn(text, "\n")] = '\0';
  cr_assert_str_eq(text, expected);
  free(text);
}

static void expect_pos(tnm_pos pos, uint32_t line, uint32_t column,
                       uint32_t length) {
  cr_expect_eq(pos.line, line);
  cr_expect_eq(pos.column, column);
  cr_expect_eq(pos.length, length);
}

Test(tree, prose_in_a_flow_mapping_may_have_commas) {
  tnm_tree *t =
      read_text("{name: x, doc: Any shape, any strides, even 0, since: 1}\n");
  cr_assert_eq(tnm_diags_errors(diags), 0);
  cr_assert_eq(t->n, 3);
  const tnm_tree *doc = tnm_tree_get(t, "doc");
  cr_expect_str_eq(doc->text, "Any shape, any strides, even 0");
  expect_pos(doc->pos, 1, 16, 30);
  cr_expect_str_eq(tnm_tree_get(t, "since")->text, "1");
}

Test(tree, a_key_without_value_elsewhere_is_a_key) {
  tnm_tree *t = read_text("{name: x, fast}\n");
  cr_expect_str_eq(tnm_tree_get(t, "name")->text, "x");
  cr_expect_str_eq(tnm_tree_get(t, "fast")->text, "");
  t = read_text("{doc: text, fast: }\n");
  cr_expect_str_eq(tnm_tree_get(t, "doc")->text, "text");
}

Test(tree, values_and_keys_have_positions) {
  /*                 123456789012345678901234567890 */
  tnm_tree *t = read_text(
      "op: quadratic\n"
      "shape: [N, \"C/2\", S...]\n"
      "doc: |\n  text\n");
  cr_assert_not_null(t);
  cr_assert_eq(t->kind, TNM_MAP);
  cr_assert_eq(t->n, 3);
  const tnm_tree *shape = tnm_tree_get(t, "shape");
  expect_pos(shape->key_pos, 2, 1, 5);
  expect_pos(shape->pos, 2, 8, 16);
  expect_pos(shape->first->pos, 2, 9, 1);
  expect_pos(shape->first->next->pos, 2, 13, 3);
  cr_expect_str_eq(shape->first->next->text, "C/2");
  cr_expect(shape->first->plain);
  cr_expect_not(shape->first->next->plain);
  cr_expect_not(tnm_tree_get(t, "doc")->one_line);
  cr_expect_null(tnm_tree_get(t, "summary"));
}

Test(tree, columns_count_characters_and_not_bytes) {
  tnm_tree *t = read_text("{\xc3\xa4: 1, b: 2}\n");
  cr_assert_not_null(t);
  expect_pos(tnm_tree_get(t, "b")->key_pos, 1, 8, 1);
}

Test(tree, scalars_stay_text) {
  tnm_tree *t = read_text("[off, 1.10, ~, 0x1F, 2001-01-01]\n");
  static const char *const expected[] = {"off", "1.10", "~", "0x1F",
                                         "2001-01-01"};
  size_t i = 0;
  for (const tnm_tree *item = t->first; item != NULL; item = item->next)
    cr_expect_str_eq(item->text, expected[i++]);
  cr_assert_eq(i, 5);
}

Test(tree, documents_before_a_mistake_are_kept) {
  tnm_tree *t = read_text("op: one\n---\nop: two\n---\nop: [\n");
  cr_assert_not_null(t);
  cr_assert_not_null(t->next);
  cr_assert_null(t->next->next);
  cr_assert_eq(tnm_diags_errors(diags), 1);
}

/* n opening brackets, a 1, n closing ones. */
static tnm_tree *read_nested(size_t n) {
  char *text = malloc(2 * n + 1);
  memset(text, '[', n);
  text[n] = '1';
  memset(text + n + 1, ']', n);
  tnm_tree *t = read_n(text, 2 * n + 1);
  free(text);
  return t;
}

Test(tree, thirty_two_levels_are_read) {
  cr_assert_not_null(read_nested(32));
  cr_assert_eq(tnm_diags_errors(diags), 0);
}

Test(tree, the_thirty_third_level_is_refused) {
  cr_assert_null(read_nested(33));
  expect_first("a.yaml:1:33: error[E0007]: more than 32 levels of nesting");
}

static double refuse_nested(int n) {
  const double begin = growth_clock();
  cr_assert_null(read_nested((size_t)n));
  return growth_clock() - begin;
}

Test(tree, half_a_million_levels_end_at_once) {
  expect_proportional(refuse_nested, 500000);
  expect_first("a.yaml:1:33: error[E0007]: more than 32 levels of nesting");
}

Test(tree, block_nesting_is_bounded_too) {
  char text[40 * 45] = "";
  for (int i = 0; i < 40; ++i) sprintf(text + strlen(text), "%*sa:\n", i, "");
  cr_assert_null(read_text(text));
  expect_first("a.yaml:33:33: error[E0007]: more than 32 levels of nesting");
}

Test(tree, a_scalar_of_nearly_a_mebibyte_is_read) {
  size_t n = TNM_MAX_BYTES;
  char *text = malloc(n);
  memset(text, 'x', n);
  memcpy(text, "doc: ", 5);
  tnm_tree *t = read_n(text, n);
  cr_assert_not_null(t);
  cr_assert_eq(strlen(t->first->text), n - 5);
  free(text);
}

Test(tree, values_are_counted) {
  size_t n = 2 * TNM_MAX_VALUES + 2;
  char *text = malloc(n + 1);
  for (size_t i = 0; i < n; i += 2) memcpy(text + i, "1,", 3);
  text[0] = '[';
  text[1] = '1';
  text[n - 1] = ']';
  cr_assert_null(read_n(text, n));
  cr_assert_eq(tnm_diags_errors(diags), 1);
  free(text);
}

Test(tree, keys_of_a_mapping_are_counted) {
  char *text = malloc(20 * 2000);
  size_t n = 0;
  for (int i = 0; i < 1001; ++i) n += (size_t)sprintf(text + n, "k%d: 1\n", i);
  cr_assert_null(read_n(text, n));
  expect_first(
      "a.yaml:1001:1: error[E0007]: more than 1000 keys in one "
      "mapping");
  free(text);
}

Test(tree, a_bomb_of_aliases_is_refused_at_the_first) {
  read_text("a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\n");
  expect_first("a.yaml:1:4: error[E0005]: manifests have no anchors");
}

Test(tree, every_truncation_of_a_manifest_ends_without_harm) {
  const char *text =
      "opgen: 1\nop: 'a'\ndoc: |\n  x\nlist: [1, {b: \"c\\n\"}, [2]]\n"
      "map: {a: 1, b: [x, y]}\n--- # next\n- \xc3\xa4\n- ? b\n";
  for (size_t n = 0; n <= strlen(text); ++n) {
    tnm_diags *own = tnm_diags_create(tn__env_default());
    tnm_tree *documents = NULL;
    uint32_t file = tnm_diags_add_file(own, "a.yaml", text, n);
    if (tnm_text_check(own, file, text, n) &&
        !tnm_tree_read(&arena, own, file, &documents))
      cr_expect_gt(tnm_diags_errors(own), 0, "after %zu bytes", n);
    tnm_diags_release(own);
  }
}

Test(text, utf8_is_decoded_strictly) {
  uint32_t c;
  cr_expect_eq(tnm_decode_utf8("\xe2\x82\xac", 3, &c), 3);
  cr_expect_eq(c, 0x20ac);
  cr_expect_eq(tnm_decode_utf8("\xf0\x9f\x98\x80", 4, &c), 4);
  cr_expect_eq(c, 0x1f600);
  cr_expect_eq(tnm_decode_utf8("\xe2\x82", 2, &c), 0);     /* cut */
  cr_expect_eq(tnm_decode_utf8("\xc0\x80", 2, &c), 0);     /* overlong NUL */
  cr_expect_eq(tnm_decode_utf8("\xe0\x80\x80", 3, &c), 0); /* overlong */
  cr_expect_eq(tnm_decode_utf8("\xed\xa0\x80", 3, &c), 0); /* surrogate */
  cr_expect_eq(tnm_decode_utf8("\xf4\x90\x80\x80", 4, &c),
               0); /* above U+10FFFF */
  cr_expect_eq(tnm_decode_utf8("\x80", 1, &c), 0);
}
