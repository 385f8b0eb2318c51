/* SPDX-License-Identifier: Apache-2.0
 * test_expr.c: scalar expressions: trees, precedence, and messages with their
 * positions.
 */
#include <criterion/criterion.h>

#include "manifest.h"

/* ------------------------------------------------------------------ helpers */

/* a*data^2 + ... over inputs data, lhs; outputs out; params a, n, list, word.
 */
static const tn_field fields[] = {
    {.name = "a", .type = TN_FIELD_FLOAT},
    {.name = "n", .type = TN_FIELD_INT},
    {.name = "list", .type = TN_FIELD_INTS},
    {.name = "word", .type = TN_FIELD_STRING},
};
static const tn_field *const params[] = {&fields[0], &fields[1], &fields[2],
                                         &fields[3]};
static const char *const inputs[] = {"data", "lhs"};
static const char *const outputs[] = {"out"};

static tn__arena arena;
static tnm_diags *diags;
static char printed[1 << 15];

static void set_up(void) {
  tn__arena_init(&arena, tn__env_default());
  diags = tnm_diags_create(tn__env_default());
}

static void tear_down(void) {
  tnm_diags_release(diags);
  tn__arena_deinit(&arena);
}

TestSuite(expr, .init = set_up, .fini = tear_down);

/* Parses `text` as if it were at line 18, column 8 of a manifest. */
static const tnm_expr *parse_in(const char *text, bool gradient) {
  char file[8192];
  int n = snprintf(file, sizeof file, "%.*s  out: %s\n", 17,
                   "\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n", text);
  uint32_t index = tnm_diags_add_file(diags, "quadratic.yaml", file, (size_t)n);
  tnm_source source = {&arena, diags, text, {18, 8, 1, index}};
  tnm_scope scope = {inputs, 2, outputs, 1, params, 4, gradient, NULL};
  return tnm_expr_parse(&source, &scope);
}

static const tnm_expr *parse_text(const char *text) {
  return parse_in(text, false);
}

/* The printed messages about the mistakes so far. */
static const char *print_messages(void) {
  FILE *to = fmemopen(printed, sizeof printed, "w");
  tnm_diags_print(diags, to, TNM_HUMAN, false);
  (void)fclose(to);
  return printed;
}

static void write_tree(const tnm_expr *e, tn__buf *buf) {
  switch (e->kind) {
    case TNM_GRAD:
      tn__buf_add(buf, "grad.%s", e->text);
      return;
    case TNM_NEG:
      tn__buf_add(buf, "(-");
      break;
    case TNM_BINARY:
      tn__buf_add(buf, "(%c", e->op);
      break;
    case TNM_CALL:
      tn__buf_add(buf, "(%s", e->text);
      break;
    default:
      tn__buf_add(buf, "%s", e->text);
      return;
  }
  for (uint32_t i = 0; i < e->n_args; ++i) {
    tn__buf_add(buf, " ");
    write_tree(e->args[i], buf);
  }
  tn__buf_add(buf, ")");
}

static void expect_tree(const char *text, const char *tree) {
  const tnm_expr *e = parse_in(text, true);
  tn__buf buf;
  cr_assert(e != NULL, "%s:\n%s", text, print_messages());
  tn__buf_init(&buf, tn__env_default());
  write_tree(e, &buf);
  cr_expect_str_eq(buf.s, tree, "%s is %s, not %s", text, buf.s, tree);
  tn__buf_deinit(&buf);
}

/* Expects that `text` is refused with messages that begin with `expected`. */
static void expect_error(const char *text, const char *expected) {
  cr_assert(parse_text(text) == NULL, "%s was accepted", text);
  const char *all = print_messages();
  cr_expect(strncmp(all, expected, strlen(expected)) == 0,
            "expected:\n%s\nfound:\n%s", expected, all);
}

/* -------------------------------------------------------------------- trees */

Test(expr, products_bind_tighter_than_sums) {
  expect_tree("a*data^2 + n*data + 3", "(+ (+ (* a (^ data 2)) (* n data)) 3)");
  expect_tree("a + n % 2", "(+ a (% n 2))");
}

Test(expr, operators_of_one_level_bind_to_the_left) {
  expect_tree("a - n - 1", "(- (- a n) 1)");
  expect_tree("a / n * 2", "(* (/ a n) 2)");
}

Test(expr, powers_bind_to_the_right_and_before_a_minus) {
  expect_tree("a^n^2", "(^ a (^ n 2))");
  expect_tree("-a^2", "(- (^ a 2))");
  expect_tree("a^-n", "(^ a (- n))");
  expect_tree("2*-a", "(* 2 (- a))");
  expect_tree("- -a", "(- (- a))");
}

Test(expr, comparisons_bind_loosest) {
  expect_tree("a + 1 <= n*2", "(l (+ a 1) (* n 2))");
  expect_tree("(a == n) != 0", "(n (e a n) 0)");
}

Test(expr, calls_and_gradients_are_operands) {
  expect_tree("select(data > 0, grad.out, max(out, 0))",
              "(select (> data 0) grad.out (max out 0))");
  expect_tree("1.5e-3 * ( a )", "(* 1.5e-3 a)");
}

Test(expr, names_become_indices) {
  const tnm_expr *e = parse_in("lhs + out + grad.out + n", true);
  cr_assert(e != NULL, "%s", print_messages());
  cr_expect_eq(e->args[1]->kind, TNM_PARAM);
  cr_expect_eq(e->args[1]->index, 1);
  cr_expect_eq(e->args[0]->args[1]->kind, TNM_GRAD);
  cr_expect_eq(e->args[0]->args[1]->index, 0);
  cr_expect_eq(e->args[0]->args[0]->args[0]->kind, TNM_INPUT);
  cr_expect_eq(e->args[0]->args[0]->args[0]->index, 1);
  cr_expect_eq(e->args[0]->args[0]->args[1]->kind, TNM_OUTPUT);
}

Test(expr, numbers_keep_value_and_text) {
  const tnm_expr *e = parse_text("2.50e1");
  cr_assert(e != NULL, "%s", print_messages());
  cr_expect_eq(e->number, 25.0);
  cr_expect_str_eq(e->text, "2.50e1");
  e = parse_text(".5");
  cr_assert(e != NULL, "%s", print_messages());
  cr_expect_eq(e->number, 0.5);
}

Test(expr, positions_span_their_names) {
  const tnm_expr *e = parse_text("a*data^2 + max(n, 3)");
  cr_assert(e != NULL, "%s", print_messages());
  cr_expect_eq(e->pos.line, 18);
  cr_expect_eq(e->pos.column, 8);
  cr_expect_eq(e->pos.length, 20);
  cr_expect_eq(e->args[1]->pos.column, 19);
  cr_expect_eq(e->args[1]->pos.length, 9);
}

/* ----------------------------------------------------------------- messages */

Test(expr, an_unknown_name_is_shown_with_the_known_ones) {
  expect_error(
      "a*data^2 + n*dat + 3",
      "quadratic.yaml:18:21: error[E0031]: `dat` is not an input, parameter or "
      "constant\n"
      " 18 |   out: a*data^2 + n*dat + 3\n"
      "    |                     ^^^ unknown name\n"
      "    = note: in scope here: data, lhs, a, n, list, word\n"
      "    = help: did you mean `data`?\n");
}

Test(expr, every_unknown_name_is_reported) {
  cr_assert(parse_text("aa + bb*cc") == NULL);
  cr_expect_eq(tnm_diags_errors(diags), 3);
}

Test(expr, a_question_mark_leads_to_select) {
  expect_error("data > 0 ? a : n",
               "quadratic.yaml:18:17: error[E0032]: invalid character `?`\n"
               " 18 |   out: data > 0 ? a : n\n"
               "    |                 ^ not part of an expression\n"
               "    = help: the expression language has no `? :`; write "
               "`select(condition, a, b)`\n");
}

Test(expr, a_character_of_many_bytes_counts_as_one_column) {
  expect_error("a ² b",
               "quadratic.yaml:18:10: error[E0032]: invalid character `²`\n");
}

Test(expr, an_open_parenthesis_is_shown_where_it_opens) {
  cr_assert(parse_text("2*(a + n") == NULL);
  const char *all = print_messages();
  cr_expect(strstr(all, "18:16: error[E0030]: `(` is not closed") != NULL, "%s",
            all);
  cr_expect(strstr(all, "opened here") != NULL, "%s", all);
}

typedef struct mistake {
  const char *text;
  const char *begins;
} mistake;

static const mistake mistakes[] = {
    {"",
     "quadratic.yaml:18:8: error[E0030]: expected a number, a name or `(` "
     "at the end"},
    {"a +", "quadratic.yaml:18:11: error[E0030]: expected a number"},
    {"a ** 2",
     "quadratic.yaml:18:11: error[E0030]: expected a number, a name "
     "or `(`, found `*`"},
    {"2 a",
     "quadratic.yaml:18:10: error[E0030]: expected an operator, found "
     "`a`"},
    {"a)",
     "quadratic.yaml:18:9: error[E0030]: expected an operator, found "
     "`)`"},
    {"a = 2", "quadratic.yaml:18:10: error[E0032]: invalid character `=`"},
    {"0x10", "quadratic.yaml:18:8: error[E0033]: invalid number `0x10`"},
    {"a*.5x", "quadratic.yaml:18:10: error[E0033]: invalid number `.5x`"},
    {"1e999",
     "quadratic.yaml:18:8: error[E0033]: number `1e999` is too "
     "large"},
    {"cosec(a)",
     "quadratic.yaml:18:8: error[E0034]: `cosec` is not a function"},
    {"2*max(a)",
     "quadratic.yaml:18:10: error[E0035]: `max` takes 2 arguments, "
     "found 1"},
    {"exp(a, 1, 2, 3)",
     "quadratic.yaml:18:8: error[E0035]: `exp` takes 1 "
     "argument, found 4"},
    {"0 < a < n",
     "quadratic.yaml:18:14: error[E0036]: comparisons cannot be "
     "chained"},
    {"a + list", "quadratic.yaml:18:12: error[E0038]: parameter `list` cannot"},
    {"word", "quadratic.yaml:18:8: error[E0038]: parameter `word` cannot"},
    {"a + grad.out",
     "quadratic.yaml:18:12: error[E0039]: `grad.out` in a "
     "forward"},
    {"data.x", "quadratic.yaml:18:8: error[E0039]: only `grad` may precede"},
    {"a + out", "quadratic.yaml:18:12: error[E0031]: `out` is not an input"},
    {"exp + 1", "quadratic.yaml:18:8: error[E0031]: `exp` is not an input"},
};

Test(expr, each_mistake_is_one_message_at_its_place) {
  for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; ++i) {
    tear_down();
    set_up();
    expect_error(mistakes[i].text, mistakes[i].begins);
    cr_expect_eq(tnm_diags_errors(diags), 1, "%s", mistakes[i].text);
  }
}

/* ------------------------------------------------------------------- limits */

static void repeat_text(char *to, size_t n, const char *piece) {
  *to = '\0';
  for (size_t i = 0; i < n; ++i) {
    strcpy(to, piece);
    to += strlen(piece);
  }
}

Test(expr, nesting_is_limited) {
  char text[2048];
  repeat_text(text, 63, "(");
  strcat(text, "a");
  repeat_text(text + strlen(text), 63, ")");
  cr_expect(parse_text(text) != NULL, "%s", print_messages());
  repeat_text(text, 100, "-");
  strcat(text, "a");
  cr_expect(parse_text(text) == NULL);
  cr_expect(strstr(print_messages(), "E0037") != NULL, "%s", printed);
}

Test(expr, length_is_limited) {
  static char text[8192];
  repeat_text(text, 2047, "a+");
  strcat(text, "a");
  cr_expect(parse_text(text) != NULL, "%s", print_messages());
  repeat_text(text, 2048, "a+");
  strcat(text, "a");
  cr_expect(parse_text(text) == NULL);
  cr_expect(strstr(print_messages(), "E0037") != NULL, "%s", printed);
}

/* ------------------------------------------------------------------- memory */

/* An allocator that fails after `left` allocations. */
static size_t left;

static void *scarce_alloc(void *ctx, size_t bytes, size_t align) {
  (void)ctx;
  if (left == 0) return NULL;
  --left;
  return aligned_alloc(align, (bytes + align - 1) / align * align);
}

static void scarce_free(void *ctx, void *memory) {
  (void)ctx;
  free(memory);
}

Test(expr, every_failed_allocation_is_survived) {
  tn__env env = *tn__env_default();
  env.allocator = (tn_allocator){NULL, scarce_alloc, scarce_free};
  const tnm_scope scope = {inputs, 2, outputs, 1, params, 4, false, NULL};
  bool parsed = false;
  for (size_t n = 0; n < 100 && !parsed; ++n) {
    tn__arena own;
    left = n;
    tn__arena_init(&own, &env);
    tnm_source source = {&own, diags, "a*data + max(n, 2)", {1, 1, 1, 0}};
    parsed = tnm_expr_parse(&source, &scope) != NULL;
    cr_expect(parsed || own.failed);
    tn__arena_deinit(&own);
  }
  cr_expect(parsed);
}
