/* SPDX-License-Identifier: Apache-2.0
 * test_shape.c: patterns and conditions over shapes: nodes, terms, and
 * messages.
 */
#include <criterion/criterion.h>

#include "manifest.h"

static const tn_field fields[] = {
    {.name = "num_filter", .type = TN_FIELD_INT},
    {.name = "num_group", .type = TN_FIELD_INT},
    {.name = "kernel", .type = TN_FIELD_INTS},
    {.name = "pad", .type = TN_FIELD_INTS},
    {.name = "rate", .type = TN_FIELD_FLOAT},
};
static const tn_field *const params[] = {&fields[0], &fields[1], &fields[2],
                                         &fields[3], &fields[4]};
static const char *const inputs[] = {"data", "weight", "bias"};
static const char *const outputs[] = {"out"};

static tn__arena arena;
static tnm_diags *diags;
static tnm_program program;
static char printed[8192];

static void set_up(void) {
  const tnm_scope scope = {inputs, 3, outputs, 1, params, 5, false, NULL};
  tn__arena_init(&arena, tn__env_default());
  diags = tnm_diags_create(tn__env_default());
  tnm_program_init(&program, &arena, diags, &scope);
}

static void tear_down(void) {
  tnm_program_deinit(&program);
  tnm_diags_release(diags);
  tn__arena_deinit(&arena);
}

TestSuite(shape, .init = set_up, .fini = tear_down);

Test(shape, an_empty_pattern_is_a_single_number) {
  tn_arg arg = {0};
  cr_assert(tnm_program_pattern(&program, NULL, 0, &arg));
  cr_expect_eq(arg.shape_kind, TN_SHAPE_PATTERN);
  cr_expect_eq(arg.n_terms, 0);
  cr_expect_str_eq(arg.shape_text, "[]");
}

/* ------------------------------------------------------------------ helpers */

static const char *print_messages(void) {
  FILE *to = fmemopen(printed, sizeof printed, "w");
  tnm_diags_print(diags, to, TNM_HUMAN, false);
  (void)fclose(to);
  return printed;
}

/* Items next to each other on line 4 of a file. */
typedef struct pattern {
  const char *items[4];
} pattern;

static bool add_pattern(const pattern *p, tn_arg *arg) {
  char line[1024] = "\n\n\n[";
  tnm_item items[4] = {0};
  size_t n = 0;
  for (; n < 4 && p->items[n]; ++n) {
    if (n) strcat(line, ", ");
    items[n].text = p->items[n];
    items[n].pos = (tnm_pos){4, (uint32_t)strlen(line + 3) + 1, 1, 0};
    strcat(line, p->items[n]);
  }
  strcat(line, "]\n");
  uint32_t file = tnm_diags_add_file(diags, "shape.yaml", line, strlen(line));
  for (size_t i = 0; i < n; ++i) items[i].pos.file = file;
  return tnm_program_pattern(&program, items, n, arg);
}

static bool add_condition(const char *text, uint32_t *node) {
  uint32_t file = tnm_diags_add_file(diags, "shape.yaml", text, strlen(text));
  tnm_item item = {text, {1, 1, 1, file}};
  return tnm_program_condition(&program, &item, node);
}

static const char *const binary_names[] = {
    [TN_NODE_ADD] = "+",   [TN_NODE_SUB] = "-",   [TN_NODE_MUL] = "*",
    [TN_NODE_DIV] = "/",   [TN_NODE_MOD] = "%",   [TN_NODE_POW] = "^",
    [TN_NODE_MIN] = "min", [TN_NODE_MAX] = "max", [TN_NODE_EQ] = "==",
    [TN_NODE_NE] = "!=",   [TN_NODE_LT] = "<",    [TN_NODE_LE] = "<=",
    [TN_NODE_GT] = ">",    [TN_NODE_GE] = ">=",
};

static void write_node(tn__buf *buf, int32_t index);

static void write_call(tn__buf *buf, const char *name, const tn_node *node,
                       int n) {
  const int32_t operands[] = {node->a, node->b, node->c};
  tn__buf_add(buf, "(%s", name);
  for (int i = 0; i < n; ++i) {
    tn__buf_add(buf, " ");
    write_node(buf, operands[i]);
  }
  tn__buf_add(buf, ")");
}

static void write_node(tn__buf *buf, int32_t index) {
  const tn_node *node = program.nodes.v[index];
  switch (node->op) {
    case TN_NODE_CONST:
      tn__buf_add(buf, "%d", (int)node->value);
      break;
    case TN_NODE_DIM:
      tn__buf_add(buf, "%s", (const char *)program.dims.v[node->a]);
      break;
    case TN_NODE_PACK:
      tn__buf_add(buf, "%s...", (const char *)program.packs.v[node->a]);
      break;
    case TN_NODE_PARAM:
      tn__buf_add(buf, "%s", fields[node->a].name);
      break;
    case TN_NODE_OPERAND_RANK:
      tn__buf_add(buf, "rank%d.%d", node->a, node->b);
      break;
    case TN_NODE_OPERAND_SIZE:
      tn__buf_add(buf, "size%d.%d", node->a, node->b);
      break;
    case TN_NODE_OPERAND_SHAPE:
      tn__buf_add(buf, "shape%d.%d", node->a, node->b);
      break;
    case TN_NODE_HAS:
      tn__buf_add(buf, "has%d", node->a);
      break;
    case TN_NODE_RANK:
      write_call(buf, "rank", node, 1);
      break;
    case TN_NODE_NEG:
      write_call(buf, "-", node, 1);
      break;
    case TN_NODE_ABS:
      write_call(buf, "abs", node, 1);
      break;
    case TN_NODE_SELECT:
      write_call(buf, "select", node, 3);
      break;
    default:
      write_call(buf, binary_names[node->op], node, 2);
      break;
  }
}

static void expect_node(int32_t node, const char *tree) {
  tn__buf buf;
  tn__buf_init(&buf, tn__env_default());
  write_node(&buf, node);
  cr_expect_str_eq(buf.s, tree, "%s, not %s", buf.s, tree);
  tn__buf_deinit(&buf);
}

static void expect_condition(const char *text, const char *tree) {
  uint32_t node = 0;
  cr_assert(add_condition(text, &node), "%s:\n%s", text, print_messages());
  expect_node((int32_t)node, tree);
}

/* ----------------------------------------------------------------- patterns */

Test(shape, a_convolution_reads_as_in_its_manifest) {
  tn_arg data = {0}, weight = {0}, out = {0};
  cr_assert(add_pattern(&(pattern){{"N", "C", "S..."}}, &data));
  cr_assert(add_pattern(&(pattern){{"num_filter", "C/num_group", "kernel..."}},
                        &weight));
  cr_assert(add_pattern(&(pattern){{"N", "num_filter",
                                    "((S + 2*pad - kernel)/2 + 1)..."}},
                        &out),
            "%s", print_messages());
  cr_expect_eq(data.n_terms, 3);
  cr_expect_eq(data.terms[1].spread, 0);
  cr_expect_eq(data.terms[2].spread, 1);
  expect_node(data.terms[2].node, "S...");
  expect_node(weight.terms[1].node, "(/ C num_group)");
  expect_node(weight.terms[2].node, "kernel");
  expect_node(out.terms[2].node, "(+ (/ (- (+ S... (* 2 pad)) kernel) 2) 1)");
  cr_expect_str_eq(data.shape_text, "[N, C, S...]");
  cr_expect_eq(program.dims.n, 2);
  cr_expect_eq(program.packs.n, 1);
}

Test(shape, a_pack_is_known_from_anywhere_in_the_pattern) {
  tn_arg arg = {0};
  cr_assert(add_pattern(&(pattern){{"(S + 1)...", "S..."}}, &arg), "%s",
            print_messages());
  expect_node(arg.terms[0].node, "(+ S... 1)");
}

Test(shape, operands_of_a_node_come_before_it) {
  tn_arg arg = {0};
  const tn_node *nodes = NULL;
  uint32_t n = 0;
  cr_assert(add_pattern(&(pattern){{"N", "(N + 2)*N"}}, &arg));
  cr_assert(tnm_program_finish(&program, &nodes, &n));
  cr_expect_eq(n, 6);
  for (uint32_t i = 0; i < n; ++i)
    if (nodes[i].op >= TN_NODE_NEG)
      cr_expect(nodes[i].a < (int32_t)i && nodes[i].b < (int32_t)i);
}

Test(shape, names_are_passed_to_the_operator) {
  tn_arg arg = {0};
  tn_op op = {0};
  cr_assert(add_pattern(&(pattern){{"N", "S...", "OC"}}, &arg));
  cr_assert(tnm_program_names(&program, &op));
  cr_expect_eq(op.n_dims, 2);
  cr_expect_str_eq(op.dims[0], "N");
  cr_expect_str_eq(op.dims[1], "OC");
  cr_expect_eq(op.n_packs, 1);
  cr_expect_str_eq(op.packs[0], "S");
}

/* --------------------------------------------------------------- conditions */

Test(shape, conditions_compute_with_dimensions_and_operands) {
  tn_arg arg = {0};
  cr_assert(add_pattern(&(pattern){{"N", "C", "S..."}}, &arg));
  expect_condition("C % num_group == 0", "(== (% C num_group) 0)");
  expect_condition("rank(kernel) >= 2", "(>= (rank kernel) 2)");
  expect_condition("rank(data) - rank(S) != size(out)",
                   "(!= (- rank0.0 (rank S...)) size1.0)");
  expect_condition("rank(shape(weight)) + has(bias)",
                   "(+ (rank shape0.1) has2)");
  expect_condition("select(-N < abs(C), min(N, 1), max(N, 2)^2)",
                   "(select (< (- N) (abs C)) (min N 1) (^ (max N 2) 2))");
}

/* ----------------------------------------------------------------- messages */

typedef struct mistake {
  pattern items;
  const char *begins;
} mistake;

static const mistake pattern_mistakes[] = {
    {{{"N", "S +"}}, "shape.yaml:4:8: error[E0030]: expected a number, a name"},
    {{{"num_filtr"}},
     "shape.yaml:4:2: error[E0031]: `num_filtr` is not a dimension or "
     "parameter"},
    {{{"data"}}, "shape.yaml:4:2: error[E0044]: `data` is a tensor"},
    {{{"rate"}}, "shape.yaml:4:2: error[E0044]: parameter `rate` cannot"},
    {{{"kernel"}}, "shape.yaml:4:2: error[E0041]: `kernel` is a list"},
    {{{"num_group..."}}, "shape.yaml:4:2: error[E0041]: nothing to spread"},
    {{{"N", "N + 0.5"}}, "shape.yaml:4:9: error[E0043]: `0.5` is not a whole"},
    {{{"9223372036854775808"}},
     "shape.yaml:4:2: error[E0033]: `9223372036854775808` is beyond"},
    {{{"sqrt(N)"}}, "shape.yaml:4:2: error[E0034]: `sqrt` is not a function"},
    {{{"min(N)"}}, "shape.yaml:4:2: error[E0035]: `min` takes 2 arguments"},
    {{{"rank(N)"}}, "shape.yaml:4:7: error[E0045]: `rank` takes a tensor or"},
    {{{"size(dta)"}}, "shape.yaml:4:7: error[E0045]: `size` takes a tensor"},
    {{{"has(out)"}}, "shape.yaml:4:6: error[E0045]: `has` takes an input"},
    {{{"grad.out"}}, "shape.yaml:4:2: error[E0039]: gradients have no place"},
    {{{"N", "S...", "2*S"}}, "shape.yaml:4:11: error[E0041]: `2*S` is a list"},
    {{{"N ? 1"}}, "shape.yaml:4:4: error[E0032]: invalid character `?`"},
};

Test(shape, each_mistake_is_one_message_at_its_place) {
  for (size_t i = 0; i < sizeof pattern_mistakes / sizeof *pattern_mistakes;
       ++i) {
    const mistake *m = &pattern_mistakes[i];
    tn_arg arg = {0};
    tear_down();
    set_up();
    cr_expect_not(add_pattern(&m->items, &arg));
    const char *all = print_messages();
    cr_expect(strncmp(all, m->begins, strlen(m->begins)) == 0,
              "expected %s\nfound:\n%s", m->begins, all);
    cr_expect_eq(tnm_diags_errors(diags), 1, "%s", all);
  }
}

Test(shape, a_name_is_a_dimension_or_a_pack) {
  tn_arg arg = {0};
  cr_assert(add_pattern(&(pattern){{"N", "S"}}, &arg));
  cr_expect_not(add_pattern(&(pattern){{"N", "S..."}}, &arg));
  cr_expect(strstr(print_messages(),
                   "shape.yaml:4:5: error[E0042]: `S` is a single") != NULL,
            "%s", printed);
}

Test(shape, names_of_a_broken_pattern_are_known_later) {
  tn_arg arg = {0};
  uint32_t node = 0;
  cr_expect_not(add_pattern(&(pattern){{"N", "C*"}}, &arg));
  cr_expect(add_condition("C > N", &node), "%s", print_messages());
}

Test(shape, a_condition_knows_the_dimensions_of_patterns_only) {
  tn_arg arg = {0};
  uint32_t node = 0;
  cr_assert(add_pattern(&(pattern){{"N", "OUT", "S..."}}, &arg));
  cr_expect_not(add_condition("OUTS == 2", &node));
  const char *all = print_messages();
  cr_expect(strstr(all,
                   "shape.yaml:1:1: error[E0031]: no `shape:` introduces "
                   "dimension `OUTS`") != NULL,
            "%s", all);
  cr_expect(strstr(all, "in scope here: N, OUT, S, num_filter") != NULL, "%s",
            all);
  cr_expect(strstr(all, "did you mean `OUT`?") != NULL, "%s", all);
}

/* The host checks each element; see tests/plugins/test_convolution.c. */
Test(shape, a_condition_may_compare_lists_but_is_none) {
  uint32_t node = 0;
  cr_expect(add_condition("kernel > 1", &node), "%s", print_messages());
  cr_expect_not(add_condition("kernel", &node));
  cr_expect(
      strstr(print_messages(), "1:1: error[E0046]: `kernel` is a list") != NULL,
      "%s", printed);
}

Test(shape, a_pattern_has_no_more_items_than_a_tensor_dimensions) {
  tnm_item items[TN_MAX_NDIM + 1];
  tn_arg arg = {0};
  tnm_diags_add_file(diags, "shape.yaml", "1", 1);
  for (size_t i = 0; i <= TN_MAX_NDIM; ++i)
    items[i] = (tnm_item){"1", {1, (uint32_t)i + 1, 1, 0}};
  cr_expect(tnm_program_pattern(&program, items, TN_MAX_NDIM, &arg));
  cr_expect_not(tnm_program_pattern(&program, items, TN_MAX_NDIM + 1, &arg));
  cr_expect(strstr(print_messages(), "1:17: error[E0047]") != NULL, "%s",
            printed);
}

/* ------------------------------------------------------------------- memory */

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

static bool build_small(tnm_program *small) {
  const tnm_item items[] = {{"N", {1, 1, 1, 0}}, {"S...", {1, 3, 1, 0}}};
  const tn_node *nodes = NULL;
  uint32_t n = 0;
  tn_arg arg = {0};
  tn_op op = {0};
  return tnm_program_pattern(small, items, 2, &arg) &&
         tnm_program_finish(small, &nodes, &n) && tnm_program_names(small, &op);
}

Test(shape, every_failed_allocation_is_survived) {
  tn__env env = *tn__env_default();
  env.allocator = (tn_allocator){NULL, scarce_alloc, scarce_free};
  const tnm_scope scope = {inputs, 3, outputs, 1, params, 5, false, NULL};
  bool built = false;
  for (size_t n = 0; n < 100 && !built; ++n) {
    tn__arena own;
    tnm_program small;
    left = n;
    tn__arena_init(&own, &env);
    tnm_program_init(&small, &own, diags, &scope);
    built = build_small(&small);
    cr_expect(built || own.failed, "allocation %zu", n);
    tnm_program_deinit(&small);
    tn__arena_deinit(&own);
  }
  cr_expect(built);
}
