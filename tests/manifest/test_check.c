/* SPDX-License-Identifier: Apache-2.0
 * test_check.c: inconsistent tables are refused, each with a message that names
 * the place and the value.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "sample.h"

#define REFUSED(change, text)                                          \
  do {                                                                 \
    sample s;                                                          \
    sample_init(&s);                                                   \
    change;                                                            \
    cr_assert_eq(tn__tables_check(tn__env_default(), &s.plugin, true), \
                 TN_PLUGIN, "accepted: %s", #change);                  \
    cr_assert(strstr(tn_error_text(), text), "%s: %s", #change,        \
              tn_error_text());                                        \
  } while (0)

Test(check, accepts_sound_tables) {
  sample s;
  sample_init(&s);
  cr_assert_eq(tn__tables_check(tn__env_default(), &s.plugin, true), TN_OK,
               "%s", tn_error_text());
  s.kernel.compute = NULL;
  cr_assert_eq(tn__tables_check(tn__env_default(), &s.plugin, false), TN_OK);
}

Test(check, accepts_the_number_of_a_second_kernel_in_its_id) {
  sample second;
  sample_init(&second);
  second.kernel.id = second.backward.id = "acme.conv.cpu.2";
  cr_assert_eq(tn__tables_check(tn__env_default(), &second.plugin, true), TN_OK,
               "%s", tn_error_text());
  REFUSED(s.kernel.id = "2.conv", "\"2.conv\"");
  REFUSED(s.kernel.id = "acme.conv.", "\"acme.conv.\"");
}

Test(check, refuses_broken_structs) {
  REFUSED(s.op.struct_size = 100, "struct_size is 100");
  REFUSED(s.kernel_size.struct_size = 64,
          "struct_size is 64; the struct of ABI 0.0 has 128 bytes, in "
          "params[0], in operators[0]");
  REFUSED(s.operators[0] = NULL, "operators[0] is NULL");
  REFUSED(s.op.nodes = NULL, "nodes is NULL but should have 5 entries");
  REFUSED(s.dims[1] = NULL, "dims[1] is NULL");
  REFUSED(s.op.n_dims = 0xfffffff0, "dims has 4294967280 entries");
}

Test(check, refuses_unknown_numbers) {
  REFUSED(s.mode.type = 99, "type is 99, which has no meaning");
  REFUSED(s.kernel.pass = 2, "pass is 2");
  REFUSED(s.nodes[4].op = 12, "op is 12");
  REFUSED(s.out.shape_kind = 7, "shape_kind is 7");
  REFUSED(s.gradient.kind = 3, "kind is 3");
  REFUSED(s.needs[0].what = 3, "what is 3");
  REFUSED(s.resources[0] = 9, "resource 9");
  REFUSED(s.mean.dtype = 0x123, "dtype 0x123");
  REFUSED(s.type.allowed = 0, "the type variable T allows no type");
}

Test(check, refuses_unknown_flags) {
  REFUSED(s.kernel.flags |= 0x80000000u,
          "of which bit 31 has no meaning for this host; a newer one may know "
          "it, in kernels[0]");
  REFUSED(s.plugin.flags |= 2, "flags is 0x3, of which bit 1 has no meaning");
  REFUSED(s.data.flags |= 1u << 7, "in inputs[0], in operators[0]");
  REFUSED(s.kernel.writes |= 1, "writes is ");
  REFUSED(s.kernel.flags |= TN_KERNEL_ASYNC,
          "it is for the cpu and has the flag `async`");
  REFUSED(s.kernel.flags |= TN_KERNEL_LATER | TN_KERNEL_ELEMENTWISE,
          "it has the flag `later`, which is for kernels that are not");
  REFUSED(s.kernel.flags |= TN_KERNEL_LATER | TN_KERNEL_ASYNC;
          s.kernel.device_type = 2, "it has the flag `later`");
}

Test(check, refuses_a_loss_that_is_no_output) {
  REFUSED(s.data.role = TN_ROLE_LOSS, "only an output may be a loss");
  sample s;
  sample_init(&s);
  s.out.role = TN_ROLE_LOSS;
  cr_assert_eq(tn__tables_check(tn__env_default(), &s.plugin, true), TN_OK,
               "%s", tn_error_text());
}

Test(check, refuses_odd_dependencies) {
  tn_dependency other = {sizeof other, 2, "other"};
  const tn_dependency *const all[] = {&other};
  sample good;
  sample_init(&good);
  good.plugin.n_dependencies = 1, good.plugin.dependencies = all;
  cr_assert_eq(tn__tables_check(tn__env_default(), &good.plugin, true), TN_OK,
               "%s", tn_error_text());
#define DEPENDS(change, text)                                       \
  REFUSED(s.plugin.n_dependencies = 1; s.plugin.dependencies = all; \
          change, text)
  DEPENDS(other.plugin = NULL, "a plugin that it requires has no name");
  DEPENDS(other.plugin = "a b", "\"a b\" of a plugin that it requires");
  DEPENDS(other.plugin = "acme", "it requires itself, \"acme\"");
  DEPENDS(other.struct_size = 8, "struct_size is 8");
  DEPENDS(s.plugin.dependencies = NULL, "dependencies is NULL");
  REFUSED(s.plugin.reserved_2 = 1, "`reserved_2` is 1");
}

/* In every struct with such a member. */
Test(check, refuses_values_in_reserved_members) {
  REFUSED(s.plugin.reserved = 7,
          "`reserved` is 7, which has no meaning for this host; a newer one "
          "may know it");
  REFUSED(s.op.reserved = 7, "may know it, in operators[0]");
  REFUSED(s.target.reserved = 1, "may know it, in targets[0]");
  REFUSED(s.stride.reserved = 7, "in params[1], in operators[0]");
  REFUSED(s.data.reserved = 7, "in inputs[0], in operators[0]");
  REFUSED(s.type.reserved = 7, "in dtype_vars[0], in operators[0]");
  REFUSED(s.gradient.reserved = 7, "may know it, in operators[0]");
  REFUSED(s.needs[1].reserved = 0x80000000u, "`reserved` is 2147483648");
}

Test(check, refuses_missing_and_odd_names) {
  REFUSED(s.plugin.name = NULL, "the plugin has no name");
  REFUSED(s.plugin.name = "a b", "\"a b\"");
  REFUSED(s.op.name = "a.b", "\"a.b\"");
  REFUSED(s.op.name = "", "an operator");
  REFUSED(s.kernel_size.name = "9lives", "\"9lives\"");
  REFUSED(s.stride.name = "kernel", "the name \"kernel\" occurs twice");
  REFUSED(s.data.name = NULL, "in input 0 (?)");
  REFUSED(s.data.name = "weight",
          "two inputs or states have the name \"weight\", in operators[0]");
  REFUSED(s.mean.name = "weight", "two inputs or states have the name");
  REFUSED(s.kernel.op = "conv", "\"conv\"");
  REFUSED(s.kernel.op = "acme.conv@x", "\"acme.conv@x\"");
  REFUSED(s.kernel.op = NULL, "nn.convolution@1 is expected");
  REFUSED(s.kernel.id = NULL, "a kernel has no name");
  REFUSED(s.backward.pass = TN_PASS_FORWARD,
          "two kernels have the id \"acme.conv.cpu\"");
  REFUSED(s.op.interface = 0, "interface is 0");
  REFUSED(s.op.replaces = "acme.other", "\"acme.other\"");
}

Test(check, refuses_places_outside_the_params_struct) {
  REFUSED(s.bias.offset = 44, "offset is 44");
  REFUSED(s.bias.offset = 48, "in parameter 3 (bias)");
  REFUSED(s.bias.offset = 0xfffffff8, "offset is 4294967288");
  REFUSED(s.bias.has_offset = TN_NONE, "has_offset is 4294967295");
  REFUSED(s.mode.has_offset = 36, "is not optional");
  REFUSED(s.stride.rank_of = 2, "rank_of is 2, which is not a list");
  REFUSED(s.stride.rank_of = 4, "rank_of is 4");
  REFUSED(s.kernel_size.rank_of = 1, "leads back");
  REFUSED(s.kernel_size.min_rank = 4, "min_rank 4");
  REFUSED(s.mode.n_values = 0, "enum without values");
  REFUSED(s.stride.default_text = NULL, "no default_text");
  REFUSED(s.kernel_size.default_text = "1", "required but has a default");
}

/* Hosts write values into the struct without a further check. */
Test(check, refuses_members_that_overlap) {
  REFUSED(s.bias.offset = 16, "offset is 16: its 8 bytes overlap");
  REFUSED(s.stride.offset = 8, "offset is 8: its 16 bytes overlap another");
  REFUSED(s.mode.offset = 36, "has_offset is 36: its 4 bytes overlap");
  REFUSED(s.bias.has_offset = 44, "has_offset is 44: its 4 bytes overlap");
  REFUSED(s.bias.has_offset = 0, "in parameter 3 (bias)");
}

Test(check, refuses_a_struct_that_its_members_do_not_fill) {
  REFUSED(s.op.params_size = 56, "has 56 bytes, but no member is at 48");
  REFUSED(s.op.params_size = UINT32_MAX, "of 4 parameters has 4294967295");
  REFUSED(s.op.params_size = 1u << 31, "which they cannot fill");
  REFUSED(s.op.n_params = 0, "of 0 parameters has 48 bytes");
  REFUSED(s.op.n_params = 3, "no member is at 36");
  REFUSED(s.kernel.options_size = 1 << 20, "which they cannot fill");
}

/* 40 000 parameters needed ten seconds; four times as many would need
 * minutes. */
Test(check, refuses_too_many_fields) {
  enum { MANY = 40000 };
  static tn_field fields[MANY];
  static char names[MANY][8];
  static const tn_field *list[MANY];
  for (uint32_t i = 0; i < MANY; ++i) {
    (void)snprintf(names[i], sizeof names[i], "p%u", i);
    fields[i] = (tn_field){.struct_size = sizeof *fields,
                           .type = TN_FIELD_INTS,
                           .name = names[i],
                           .offset = 16 * i,
                           .has_offset = TN_NONE,
                           .rank_of = i ? i - 1 : TN_NONE,
                           .max_rank = TN_NONE,
                           .default_text = "[]"};
    list[i] = &fields[i];
  }
#define SET_FIELDS(n)  \
  s.op.params = list;  \
  s.op.n_params = (n); \
  s.op.params_size = 16 * (n)
  REFUSED(SET_FIELDS(MANY), "40000 parameters are too many; at most 1000");
  REFUSED(SET_FIELDS(1001), "1001 parameters are too many; at most 1000");
  sample s;
  sample_init(&s);
  SET_FIELDS(1000);
  cr_assert_eq(tn__tables_check(tn__env_default(), &s.plugin, true), TN_OK,
               "%s", tn_error_text());
}

/* max(n, n) of max(n, n) of ...: evaluated, each node doubles the steps. */
Test(check, refuses_expressions_that_double) {
  enum { MANY = 60 };
  tn_node nodes[MANY] = {{TN_NODE_DIM, 1, 0, 0, 0}};
  for (int32_t i = 1; i < MANY; ++i)
    nodes[i] = (tn_node){TN_NODE_MAX, i - 1, i - 1, 0, 0};
#define SET_NODES(count)  \
  s.op.nodes = nodes;     \
  s.op.n_nodes = (count); \
  s.require.node = (count)-1
  REFUSED(SET_NODES(MANY), "nodes[13] is an expression of 16383 parts");
  REFUSED(s.kernel.nodes = nodes;
          s.kernel.n_nodes = 14, "nodes[13] is an expression of 16383 parts");
  sample s;
  sample_init(&s);
  SET_NODES(13);
  cr_assert_eq(tn__tables_check(tn__env_default(), &s.plugin, true), TN_OK,
               "%s", tn_error_text());
}

Test(check, refuses_indices_outside_their_table) {
  REFUSED(s.nodes[0].a = 2, "nodes[0] (operation 2) refers to 2");
  REFUSED(s.nodes[2].a = 1, "nodes[2]");
  REFUSED(s.nodes[4].b = 4, "nodes[4]");
  REFUSED(s.nodes[4].a = -1, "nodes[4]");
  REFUSED(s.data_terms[1].node = 5, "terms[1] is node 5");
  REFUSED(s.data_terms[1].spread = 2, "spread 2");
  REFUSED(s.data.dtype_var = 1, "dtype_var is 1; there are 1");
  REFUSED(s.data.dtype_param = 0, "dtype_param is 0, which is not a dtype");
  REFUSED(s.out.shape_index = 2, "operand 2 of list 0");
  REFUSED(s.out.inplace = 2, "inplace is 2; there are 2, in output 0 (out)");
  REFUSED(s.out.init = 2, "init is 2");
  REFUSED(s.out.count = 5, "count is 5");
  REFUSED(s.data.flags = TN_ARG_VARIADIC, "only the last input");
  REFUSED(s.out.flags = TN_ARG_VARIADIC, "only the last input");
  REFUSED(s.require.node = 5, "requirement 0 is node 5");
  REFUSED(s.gradient.n_inputs = 1, "the gradient of conv speaks of 1 inputs");
  REFUSED(s.needs[1].index = 2, "need 1 is input 2; there are 2");
  REFUSED(s.data_gradient.inplace = 4, "inplace is 4; there are 4");
  REFUSED(s.kernel.when = 2, "when is 2");
}

/* Sets the steps of a sample with a graph as gradient of `data`. */
static void set_steps(sample *s, const tn_step *steps, uint32_t n) {
  s->gradient.kind = TN_GRADIENT_GRAPH;
  s->data_gradient.steps = steps;
  s->data_gradient.n_steps = n;
}

Test(check, refuses_graphs_that_do_not_leave_one_value) {
  static const tn_step good[] = {
      {TN_NEED_GRAD_OUT, 0, NULL, NULL},
      {TN_NEED_IN, 1, NULL, NULL},
      {TN_STEP_CALL, 2, "elemwise.mul@1", "scalar=$axis"}};
  static const tn_step beyond[] = {{TN_NEED_IN, 2, NULL, NULL}};
  static const tn_step kind[] = {{4, 0, NULL, NULL}};
  static const tn_step bare[] = {{TN_STEP_CALL, 0, "mul@1", NULL}};
  static const tn_step named[] = {{TN_NEED_IN, 0, "a.b@1", NULL}};
  sample fine;
  sample_init(&fine);
  set_steps(&fine, good, 3);
  cr_assert_eq(tn__tables_check(tn__env_default(), &fine.plugin, true), TN_OK,
               "%s", tn_error_text());
  REFUSED(set_steps(&s, good, 2), "its graph leaves 2 values");
  REFUSED(set_steps(&s, good, 0), "its graph leaves 0 values");
  REFUSED(set_steps(&s, good + 1, 2),
          "step 1 uses an entry that does not exist");
  REFUSED(set_steps(&s, beyond, 1), "step 0 uses an entry that does not exist");
  REFUSED(set_steps(&s, kind, 1), "what is 4");
  REFUSED(set_steps(&s, bare, 1), "step 0 names no operator");
  REFUSED(set_steps(&s, named, 1), "step 0 names no operator");
}

Test(check, refuses_missing_functions_of_a_descriptor) {
  REFUSED(s.kernel.compute = NULL, "compute is NULL, in kernels[0]");
  REFUSED(s.out.shape_kind = TN_SHAPE_HOOK, "infer is NULL");
}

Test(check, decides_whether_a_kernel_fits_an_operator) {
  sample s;
  sample_init(&s);
  cr_assert_eq(tn__kernel_fits(&s.kernel, &s.op), TN_OK);
  s.op.n_inputs = 1;
  cr_assert_eq(tn__kernel_fits(&s.kernel, &s.op), TN_PLUGIN);
  cr_assert(strstr(tn_error_text(), "nodes[0]"));
  s.op.n_inputs = 2;
  s.kernel.n_dtype_sets = 2;
  cr_assert_eq(tn__kernel_fits(&s.kernel, &s.op), TN_PLUGIN);
  cr_assert(strstr(tn_error_text(), "it has 2 dtype sets; the operator has 1"));
}

/* Parameter 3 is a float, parameter 2 an enum; there are 4. */
Test(check, refuses_comparisons_of_parameters_that_are_no_numbers) {
#define COMPARES(a, b, c) \
  s.nodes[3] = (tn_node){TN_NODE_COMPARE_PARAMS, (a), (b), (c), 0}
  REFUSED(COMPARES(2, -1, TN_NODE_LT), "nodes[3]");
  REFUSED(COMPARES(3, 2, TN_NODE_LT), "nodes[3]");
  REFUSED(COMPARES(3, 4, TN_NODE_LT), "nodes[3]");
  REFUSED(COMPARES(3, -2, TN_NODE_LT), "nodes[3]");
  REFUSED(COMPARES(3, -1, TN_NODE_ADD), "nodes[3]");
  REFUSED(COMPARES(3, -1, TN_NODE_SELECT), "nodes[3]");
  sample s;
  sample_init(&s);
  COMPARES(3, -1, TN_NODE_GE);
  cr_assert_eq(tn__tables_check(tn__env_default(), &s.plugin, true), TN_OK,
               "%s", tn_error_text());
}

Test(check, refuses_flags_of_bounds_that_a_parameter_does_not_have) {
  REFUSED(s.bias.flags |= TN_FIELD_ABOVE, "`above` a bound that it does not");
  REFUSED(s.bias.flags |= TN_FIELD_BELOW, "`below` a bound that it does not");
  REFUSED(s.kernel_size.flags |= TN_FIELD_ABOVE, "`above` a bound");
  REFUSED(s.mode.flags |= TN_FIELD_NONZERO, "`nonzero`, but no number");
}

/* The sample has two inputs and one output: a backward call has four inputs and
 * two outputs. */
static void refuse_pairs(uint32_t pass, const tn_inplace *pairs, uint32_t n,
                         const char *text) {
  sample s;
  sample_init(&s);
  s.kernel.pass = pass;
  s.kernel.inplace = pairs;
  s.kernel.n_inplace = n;
  const tn_code rc = tn__kernel_fits(&s.kernel, &s.op);
  cr_assert_eq(rc, text ? TN_PLUGIN : TN_OK, "%s", tn_error_text());
  if (text) cr_assert(strstr(tn_error_text(), text), "%s", tn_error_text());
}

Test(check, refuses_pairs_of_operands_that_a_call_does_not_have) {
  static const tn_inplace good[] = {{1, 0}, {0, 0}}, out[] = {{0, 1}};
  static const tn_inplace in[] = {{2, 0}}, twice[] = {{1, 0}, {1, 0}};
  static const tn_inplace last[] = {{3, 1}}, beyond[] = {{4, 0}};
  static tn_inplace many[1001];
  refuse_pairs(TN_PASS_FORWARD, good, 2, NULL);
  refuse_pairs(TN_PASS_FORWARD, out, 1, "inplace[0] is output 1 in input 0");
  refuse_pairs(TN_PASS_FORWARD, in, 1, "a call has 1 outputs and 2 inputs");
  refuse_pairs(TN_PASS_FORWARD, twice, 2, "inplace[1] occurs twice");
  refuse_pairs(TN_PASS_BACKWARD, last, 1, NULL);
  refuse_pairs(TN_PASS_BACKWARD, beyond, 1,
               "inplace[0] is output 0 in input 4");
  refuse_pairs(TN_PASS_BACKWARD, many, 1001, "1001 in-place pairs");
}
