/* SPDX-License-Identifier: Apache-2.0
 * emit_cases.c: writes the generated kernels of a few operators, for test_emit
 * (`floats`) and test_classes (`classes`) to compile in and run. The tables are
 * made here, without a manifest, so that nothing but the formulas is under
 * test.
 */
#include <stdio.h>
#include <string.h>

#include "emit_kernel.h"

/* Which types the operands of a case may have. */
enum {
  FLOATS,  /* f16 to f64 */
  NUMBERS, /* all */
  TRUTH,   /* all, into bool */
  OTHERS,  /* all, into any other */
  WHOLE    /* integers and bool */
};

/* Two inputs, one output; formulas may be NULL. */
typedef struct emit_case {
  const char *name;
  const char *inputs[2];
  const char *forward;
  const char *gradient[2];
} emit_case;

typedef struct typed_case {
  emit_case c;
  int types;
} typed_case;

static const emit_case cases[] = {
    {"quadratic",
     {"data", "rest"},
     "a*data^2 + b*data + n",
     {"grad.out*(2*a*data + b)", NULL}},
    {"mul", {"lhs", "rhs"}, "lhs*rhs", {"grad.out*rhs", "grad.out*lhs"}},
    {"relu",
     {"data", "rest"},
     "max(data, 0)",
     {"select(data > 0, grad.out, 0)", NULL}},
    {"sigmoid", {"data", "rest"}, "sigmoid(data)", {"grad.out*out*(1 - out)"}},
    {"smooth_l1",
     {"data", "rest"},
     "select(data > 1/a^2, data - 0.5/a^2, select(data < -1/a^2, -data - "
     "0.5/a^2, 0.5*a^2*data^2))",
     {"grad.out*select(abs(data) < 1/a^2, a^2*data, sign(data))", NULL}},
    {"waves", {"far", "part"}, "sin(far) + a*cos(part)", {NULL}},
    {"logs", {"room", "part"}, "log(room) + log2(part) - log10(room)", {NULL}},
    {"minimum", {"lhs", "rhs"}, "min(lhs, rhs)", {NULL}},
    {"maximum", {"lhs", "rhs"}, "max(lhs, rhs)", {NULL}},
    {"mod", {"lhs", "rhs"}, "lhs % rhs", {NULL}},
    {"power", {"lhs", "rhs"}, "lhs^rhs", {NULL}},
    {"cube", {"lhs", "rhs"}, "(lhs + rhs)^3", {NULL}},
    {"fourth", {"lhs", "rhs"}, "-lhs^4", {NULL}},
    {"root", {"lhs", "rhs"}, "lhs^0.5 + pow(rhs, -1)", {NULL}},
    {"rsqrt", {"lhs", "rhs"}, "rhs*rsqrt(lhs)", {NULL}},
    {"less", {"lhs", "rhs"}, "(lhs < rhs) + 2*(lhs == rhs)", {NULL}},
    {"choose", {"lhs", "rhs"}, "select(lhs, rhs, -3)", {NULL}},
    {"steps", {"lhs", "rhs"}, "floor(lhs) + 10*ceil(lhs)", {NULL}},
    {"signs", {"lhs", "rhs"}, "sign(lhs) - -abs(rhs) - --lhs", {NULL}},
    {"smooth", {"lhs", "rhs"}, "exp(lhs) + log(rhs)*tanh(lhs)", {NULL}},
    {"sixteen",
     {"lhs", "made"},
     "-(a*exp(lhs) + b)/made^-1 + made^3/4 + exp(lhs)^2 - 0.5",
     {NULL}},
    {"error", {"lhs", "rhs"}, "erf(lhs)/rhs/2 - (lhs - (rhs - 1))", {NULL}},
    {"huge", {"lhs", "rhs"}, "min(lhs, 1e300) + 1e-60*rhs", {NULL}},
    {"edge", {"lhs", "rhs"}, "min(lhs, 3.4028235e38)*rhs", {NULL}},
    {"constant", {"lhs", "rhs"}, "flag + 1e3", {NULL}},
    {"taken", {"i", "grad_out"}, "i*t1 + p - grad_out", {"grad.out*i", NULL}},
    {"long_sum",
     {"left_hand_side", "right_hand_side"},
     "(left_hand_side + right_hand_side)*(left_hand_side - right_hand_side) + "
     "(left_hand_side*right_hand_side + 1)*(left_hand_side + 2) - "
     "(right_hand_side > left_hand_side)*(right_hand_side + 3)",
     {NULL}},
    {"shares",
     {"lhs", "rhs"},
     "(lhs + rhs)^2/((lhs + rhs)^2 + 1) + (lhs + rhs)",
     {NULL}},
};

static const typed_case typed_cases[] = {
    {{"ring", {"lhs", "rhs"}, "lhs*rhs - 3*lhs + -rhs + n", {NULL}}, NUMBERS},
    {{"divide", {"lhs", "rhs"}, "lhs/rhs", {NULL}}, NUMBERS},
    {{"rest", {"lhs", "rhs"}, "lhs % rhs", {NULL}}, NUMBERS},
    {{"fifth", {"lhs", "rhs"}, "lhs^5 + pow(rhs, 0)", {NULL}}, NUMBERS},
    {{"clamp", {"lhs", "rhs"}, "clip(lhs, -2, rhs)", {NULL}}, NUMBERS},
    {{"pick", {"lhs", "rhs"}, "select(lhs > rhs, lhs, 2*rhs)", {NULL}},
     NUMBERS},
    {{"truth",
      {"lhs", "rhs"},
      "(lhs == rhs)*3 + select(rhs, 1, 0) - abs(lhs) + sign(rhs)",
      {NULL}},
     NUMBERS},
    {{"nested",
      {"lhs", "rhs"},
      "((lhs == rhs) < 1) + 2*(lhs < (rhs != 2)) + 4*((lhs < 3) == (rhs < 3))",
      {NULL}},
     NUMBERS},
    {{"certain",
      {"lhs", "rhs"},
      "(lhs != lhs) + 2*(lhs == lhs) + 4*((lhs < rhs) > -2) + "
      "8*((lhs + rhs) > lhs + rhs)",
      {NULL}},
     NUMBERS},
    {{"large", {"lhs", "rhs"}, "lhs + 4294967297 - 2147483648", {NULL}},
     NUMBERS},
    {{"wraps", {"lhs", "rhs"}, "lhs - -2147483648 + 1", {NULL}}, NUMBERS},
    {{"digits",
      {"lhs", "rhs"},
      "min(lhs, 9223372036854775807) + (9007199254740993 - 9007199254740992)",
      {NULL}},
     NUMBERS},
    {{"below", {"lhs", "rhs"}, "lhs < rhs", {NULL}}, TRUTH},
    {{"signs",
      {"lhs", "rhs"},
      "(lhs < 0) + 2*(rhs >= 0) + 4*(0 > lhs) + 8*(0 <= rhs)",
      {NULL}},
     NUMBERS},
    {{"unsigned",
      {"lhs", "rhs"},
      "shift_right(max(lhs, rhs), 1) + n*bit_not(lhs) - floor_div(lhs, rhs)",
      {NULL}},
     WHOLE},
    {{"convert", {"lhs", "rhs"}, "lhs", {NULL}}, OTHERS},
    {{"half", {"lhs", "rhs"}, "lhs/2 + 0.5", {NULL}}, OTHERS},
};

enum {
  N_CASES = sizeof cases / sizeof *cases,
  N_TYPED_CASES = sizeof typed_cases / sizeof *typed_cases
};

static const tn_field fields[] = {
    {.name = "a", .type = TN_FIELD_FLOAT},
    {.name = "b", .type = TN_FIELD_FLOAT},
    {.name = "n", .type = TN_FIELD_INT},
    {.name = "flag", .type = TN_FIELD_BOOL},
    {.name = "t1", .type = TN_FIELD_FLOAT},
    {.name = "p", .type = TN_FIELD_FLOAT},
};
static const tn_field *const params[] = {&fields[0], &fields[1], &fields[2],
                                         &fields[3], &fields[4], &fields[5]};

enum { N_PARAMS = sizeof params / sizeof *params };

static const tn_dtype_var floats = {
    .allowed = TN_BIT_F16 | TN_BIT_BF16 | TN_BIT_F32 | TN_BIT_F64, .name = "T"};
static const tn_dtype_var numbers = {.allowed = ~(uint64_t)0, .name = "T"};
static const tn_dtype_var integers = {
    .allowed = ~(uint64_t)(TN_BIT_F16 | TN_BIT_BF16 | TN_BIT_F32 | TN_BIT_F64),
    .name = "T"};
static const tn_dtype_var *const float_vars[] = {&floats};
static const tn_dtype_var *const number_vars[] = {&numbers, &numbers};
static const tn_dtype_var *const integer_vars[] = {&integers, &integers};

static tn_arg make_arg(const char *name) {
  return (tn_arg){.name = name, .dtype_param = TN_NONE};
}

/* The output of a case: of the inputs' type, of another one, or bool. */
static tn_arg make_output(int types) {
  tn_arg output = make_arg("out");
  if (types == OTHERS) output.dtype_var = 1;
  if (types != TRUTH) return output;
  output.dtype_var = TN_NONE;
  output.dtype = TN_BOOL;
  return output;
}

/* Parses a formula into `out`; false after a message. */
static bool parse(tn__arena *arena, const char *text, const tnm_scope *scope,
                  tnm_formula *out) {
  tnm_diags *diags = tnm_diags_create(arena->env);
  uint32_t file = tnm_diags_add_file(diags, "cases", text, strlen(text));
  tnm_source source = {arena, diags, text, {1, 1, 1, file}};
  out->expr = tnm_expr_parse(&source, scope);
  out->text = text;
  out->pos = source.pos;
  tnm_diags_print(diags, stderr, TNM_HUMAN, false);
  tnm_diags_release(diags);
  return out->expr != NULL;
}

static const tn_dtype_var *const *find_vars(int types) {
  if (types == WHOLE) return integer_vars;
  return types == FLOATS ? float_vars : number_vars;
}

static bool emit(tn__arena *arena, const emit_case *c, int types, c_file *out) {
  const tn_arg inputs[] = {make_arg(c->inputs[0]), make_arg(c->inputs[1])};
  const tn_arg output = make_output(types);
  const tn_arg *const input_list[] = {&inputs[0], &inputs[1]};
  const tn_arg *const output_list[] = {&output};
  const tn_op op = {.interface = 1,
                    .name = c->name,
                    .n_inputs = 2,
                    .n_outputs = 1,
                    .n_params = N_PARAMS,
                    .n_dtype_vars = types == FLOATS ? 1 : 2,
                    .params = params,
                    .dtype_vars = find_vars(types),
                    .inputs = input_list,
                    .outputs = output_list};
  const tn_plugin plugin = {.name = "cases"};
  const tnm_plugin model = {.plugin = &plugin};
  tnm_scope scope = {c->inputs, 2,      (const char *const[]){"out"},
                     1,         params, N_PARAMS,
                     false,     NULL};
  tnm_formula forward = {.index = 0};
  tnm_formula backward[2];
  tnm_operator described = {.file = "cases.yaml",
                            .op = &op,
                            .forward = &forward,
                            .n_forward = 1,
                            .backward = backward};
  if (!parse(arena, c->forward, &scope, &forward)) return false;
  scope.gradient = true;
  for (uint32_t i = 0; i < 2; ++i) {
    if (!c->gradient[i]) continue;
    tnm_formula *formula = &backward[described.n_backward++];
    formula->index = i;
    if (!parse(arena, c->gradient[i], &scope, formula)) return false;
  }
  c_add(out, "typedef cases_params cases_%s_params;\n\n", c->name);
  emit_formulas(out, &model, &described);
  emit_kernels(out, &model, &described);
  return !out->failed;
}

int main(int argc, char **argv) {
  tn__arena arena;
  c_file out;
  tn__buf text;
  bool ok = argc == 3;
  const bool floats_only = ok && strcmp(argv[2], "floats") == 0;
  tn__arena_init(&arena, tn__env_default());
  c_init(&out, tn__env_default());
  tn__buf_init(&text, tn__env_default());
  for (size_t i = 0; ok && floats_only && i < N_CASES; ++i)
    ok = emit(&arena, &cases[i], FLOATS, &out);
  for (size_t i = 0; ok && !floats_only && i < N_TYPED_CASES; ++i)
    ok = emit(&arena, &typed_cases[i].c, typed_cases[i].types, &out);
  c_print(&out, &text);
  ok = ok && !text.failed;
  FILE *to = ok ? fopen(argv[1], "w") : NULL;
  ok = to != NULL && fwrite(text.s, 1, text.n, to) == text.n;
  if (to != NULL && fclose(to) != 0) ok = false;
  c_deinit(&out);
  tn__buf_deinit(&text);
  tn__arena_deinit(&arena);
  return ok ? 0 : 1;
}
