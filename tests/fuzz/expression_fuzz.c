/* SPDX-License-Identifier: Apache-2.0
 * expression_fuzz.c: any line as a formula, as a gradient's formula, as a
 * condition and as an entry of a shape. An accepted formula is printed and read
 * again, folded, simplified, shared and differentiated.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "manifest.h"

enum { MAX_LINE = 4096 };

static const tn_field fields[] = {{.name = "a", .type = TN_FIELD_FLOAT},
                                  {.name = "n", .type = TN_FIELD_INT},
                                  {.name = "list", .type = TN_FIELD_INTS},
                                  {.name = "word", .type = TN_FIELD_STRING}};
static const tn_field *const params[] = {&fields[0], &fields[1], &fields[2],
                                         &fields[3]};
static const char *const inputs[] = {"data", "x", "y"};
static const char *const outputs[] = {"out", "z"};

static tn__env env;

/* One reading of the line. */
typedef struct reading {
  tn__arena arena;
  tnm_diags *diags;
  const char *line;
  tnm_pos pos;
  size_t mark;
} reading;

static void reading_init(reading *r, const char *line) {
  r->mark = fuzz_meter();
  tn__arena_init(&r->arena, &env);
  r->diags = tnm_diags_create(&env);
  fuzz_check(r->diags != NULL, "there is no memory");
  r->line = line;
  const uint32_t file =
      tnm_diags_add_file(r->diags, "line.yaml", line, strlen(line));
  r->pos = (tnm_pos){1, 1, 1, file};
}

static void reading_deinit(reading *r) {
  fuzz_check(fuzz_most(r->mark) <= 32u << 20, "reading took too much memory");
  tnm_diags_release(r->diags);
  tn__arena_deinit(&r->arena);
  fuzz_check(fuzz_left(r->mark) == 0, "memory is left");
}

static tnm_scope scope_of(bool gradient) {
  const tnm_scope scope = {inputs, 3, outputs, 2, params, 4, gradient, "axis"};
  return scope;
}

static const tnm_expr *parse(reading *r, const char *line, bool gradient) {
  const tnm_scope scope = scope_of(gradient);
  const tnm_source source = {&r->arena, r->diags, line, r->pos};
  return tnm_expr_parse(&source, &scope);
}

/* The text of an expression is a formula again, and the same. */
static void check_text(reading *r, const tnm_expr *expr) {
  tn__buf text;
  tn__buf_init(&text, &env);
  tnm_expr_print(&text, expr);
  const tnm_expr *again = parse(r, text.s, true);
  fuzz_check(again != NULL && tnm_expr_equal(again, expr),
             "printed and read again it is another formula");
  tn__buf_deinit(&text);
}

static void check_slopes(reading *r, const tnm_expr *expr) {
  const tnm_expr *slopes[3] = {NULL, NULL, NULL};
  tnm_sharing sharing;
  const tnm_derivation d = {.arena = &r->arena,
                            .formulas = &expr,
                            .outputs = outputs,
                            .n_outputs = 1,
                            .inputs = inputs,
                            .n_inputs = 3,
                            .pos = r->pos};
  if (tnm_derive(&d, slopes) != TNM_DERIVED) return;
  for (int i = 0; i < 3; ++i) {
    fuzz_check(slopes[i] != NULL, "a gradient is missing");
    check_text(r, slopes[i]);
    fuzz_check(tnm_expr_share(&r->arena, slopes[i], &sharing) != NULL,
               "parts cannot be shared");
  }
}

static void check_formula(const char *line, bool gradient) {
  reading r;
  reading_init(&r, line);
  const tnm_expr *expr = parse(&r, line, gradient);
  fuzz_check((expr == NULL) == (tnm_diags_errors(r.diags) > 0),
             "what is refused has no message");
  if (expr != NULL) {
    check_text(&r, expr);
    const tnm_expr *folded = tnm_expr_fold(&r.arena, expr);
    fuzz_check(folded != NULL, "it cannot be folded");
    fuzz_check(tnm_expr_simplify(&r.arena, folded) != NULL,
               "it cannot be simplified");
    if (!gradient) check_slopes(&r, folded);
  }
  reading_deinit(&r);
}

static void check_rules(const char *line) {
  reading r;
  uint32_t node = 0;
  tn_arg arg = {.struct_size = sizeof arg};
  tnm_program program;
  const tnm_scope scope = scope_of(false);
  const tn_node *nodes = NULL;
  uint32_t n_nodes = 0;
  reading_init(&r, line);
  const tnm_item item = {line, r.pos};
  tnm_program_init(&program, &r.arena, r.diags, &scope);
  bool taken = tnm_program_pattern(&program, &item, 1, &arg);
  taken = tnm_program_condition(&program, &item, &node) && taken;
  fuzz_check(taken == (tnm_diags_errors(r.diags) == 0),
             "a rule that is refused has no message");
  fuzz_check(tnm_program_finish(&program, &nodes, &n_nodes),
             "there is no memory");
  for (uint32_t i = 0; i < arg.n_terms && taken; ++i)
    fuzz_check((uint32_t)arg.terms[i].node < n_nodes, "a term has no node");
  fuzz_check(!taken || node < n_nodes, "a condition has no node");
  tnm_program_deinit(&program);
  reading_deinit(&r);
}

/* The parser never gets text that a manifest cannot hold. */
static bool is_line(const char *line) {
  while (*line != '\0') {
    const size_t n = tn__utf8_length(line);
    if (n == 0 || (unsigned char)*line < 0x20 || *line == 0x7f) return false;
    line += n;
  }
  return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char line[MAX_LINE + 1];
  if (size > MAX_LINE) return 0;
  env = *tn__env_default();
  env.allocator = fuzz_allocator;
  if (size > 0) memcpy(line, data, size);
  line[size] = '\0';
  if (!is_line(line)) return 0;
  check_formula(line, false);
  check_formula(line, true);
  check_rules(line);
  return 0;
}
