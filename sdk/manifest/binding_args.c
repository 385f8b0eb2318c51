/* SPDX-License-Identifier: Apache-2.0
 * binding_args.c: reads one argument of a bound function: its C type and the
 * passed value. Checks that the type can hold the value.
 */
#include <string.h>

#include "expr.h"
#include "lower_binding.h"

/* -------------------------------------------------------------------- types */

static const uint64_t element_bits[TNM_C_TYPES] = {
    TN_BIT_I8,
    TN_BIT_I16,
    TN_BIT_I32,
    TN_BIT_I64,
    TN_BIT_U8 | TN_BIT_BOOL,               /* bool is an uint8_t, */
    TN_BIT_U16 | TN_BIT_F16 | TN_BIT_BF16, /* halves are uint16_t */
    TN_BIT_U32,
    TN_BIT_U64,
    TN_BIT_F32,
    TN_BIT_F64};

/* Tests whether C code can read elements of all these tensor types as numbers
 * of C type `c`. */
static bool has_element_type(uint32_t c, uint64_t types) {
  return c < TNM_C_TYPES && (types & ~element_bits[c]) == 0;
}

/* Returns the TNM_C_* of a C type's name, which has n bytes. */
static uint32_t find_type(const char *text, size_t n) {
  for (uint32_t c = 0; c < TNM_C_TYPES; ++c)
    if (strlen(tnm_c_names[c]) == n && strncmp(tnm_c_names[c], text, n) == 0)
      return c;
  return TN_NONE;
}

/* Returns the fixed-width name ("int32") of a common C type ("int"), as on the
 * supported platforms; NULL for other names. */
static const char *find_fixed_width_name(const char *text, size_t n) {
  static const char *const usual[][2] = {
      {"int", "int32"},       {"long", "int64"},      {"short", "int16"},
      {"char", "int8"},       {"unsigned", "uint32"}, {"uint", "uint32"},
      {"size_t", "uint64"},   {"ssize_t", "int64"},   {"int8_t", "int8"},
      {"int16_t", "int16"},   {"int32_t", "int32"},   {"int64_t", "int64"},
      {"uint8_t", "uint8"},   {"uint16_t", "uint16"}, {"uint32_t", "uint32"},
      {"uint64_t", "uint64"}, {"ptrdiff_t", "int64"}, {"f32", "float"},
      {"f64", "double"},      {"float32", "float"},   {"float64", "double"},
      {"bool", "uint8"},      {"long long", "int64"}, {"enum", "int32"}};
  for (size_t i = 0; i < sizeof usual / sizeof *usual; ++i)
    if (strlen(usual[i][0]) == n && strncmp(usual[i][0], text, n) == 0)
      return usual[i][1];
  return NULL;
}

/* A C type in parts: `word` is the name between `const` and `*`, n bytes. */
typedef struct type_parts {
  const char *word;
  size_t n;
  bool constant;
  bool pointer;
} type_parts;

/* Splits the text of a C type, as in "const float*", into its parts. */
static type_parts split_pointer_type(const char *text) {
  type_parts p = {.word = text, .n = strlen(text)};
  if (strncmp(p.word, "const ", 6) == 0) {
    p.constant = true;
    p.word += 6;
    p.n -= 6;
  }
  if (p.n > 0 && p.word[p.n - 1] == '*') {
    p.pointer = true;
    --p.n;
  }
  while (p.n > 0 && p.word[0] == ' ') ++p.word, --p.n;
  while (p.n > 0 && p.word[p.n - 1] == ' ') --p.n;
  return p;
}

static bool points_to_char(const type_parts *p) {
  return p->pointer && p->n == 4 && strncmp(p->word, "char", 4) == 0;
}

/* Reports a C type that no argument can have. Returns false, for the caller to
 * return. */
static bool report_unknown_c_type(tnm_diags *diags, const tnm_tree *node,
                                  const type_parts *p) {
  tnm_diag_spec spec = {"E0086", node->pos, "no type of fixed width"};
  size_t id = tnm_diag_add(
      diags, &spec, "`%.80s` cannot be the type of an argument", node->text);
  const char *usual = find_fixed_width_name(p->word, p->n);
  char word[32] = "";
  if (p->n < sizeof word) memcpy(word, p->word, p->n);
  if (usual == NULL)
    usual = tn__find_nearest_word(word, tnm_c_names, TNM_C_TYPES);
  if (usual != NULL)
    tnm_diag_add_help(diags, id, "write `%s%s%s`%s",
                      p->constant && p->pointer ? "const " : "", usual,
                      p->pointer ? "*" : "",
                      points_to_char(p) ? ", or `const char*` for text" : "");
  else
    tnm_suggest_word(diags, id, "", tnm_c_names, TNM_C_TYPES);
  return false;
}

bool tnm_read_c_type(tnm_diags *diags, const tnm_tree *node, tnm_c_type *out) {
  if (!tnm_check_scalar(diags, node, "a type in C")) return false;
  const type_parts p = split_pointer_type(node->text);
  uint32_t found = find_type(p.word, p.n);
  if (p.constant && points_to_char(&p)) found = TNM_C_CHAR;
  if (found == TN_NONE) return report_unknown_c_type(diags, node, &p);
  *out = (tnm_c_type){p.pointer ? (uint32_t)TNM_C_POINTER : found, found,
                      p.constant};
  if (p.pointer || !p.constant) return true;
  tnm_diag_spec spec = {"E0086", node->pos, "no pointer"};
  size_t id = tnm_diag_add(diags, &spec,
                           "`const` says nothing about an argument by value");
  tnm_diag_add_help(diags, id, "write `%s`, or `%s*` for a tensor",
                    tnm_c_names[found], node->text);
  return false;
}

/* ------------------------------------------------------------------ tensors */

size_t tnm_report_mismatch(tnm_bind *b, tnm_pos pos, const char *under,
                           const char *what) {
  tnm_diag_spec spec = {"E0087", pos, under};
  b->has_invalid = true;
  return tnm_diag_add(b->lower->diags, &spec, "%s", what);
}

/* Returns the set of element types that an operand may have. */
static uint64_t get_allowed_types(const tnm_bind *b, const tn_arg *arg) {
  if (arg->dtype_var != TN_NONE)
    return b->lower->op->dtype_vars[arg->dtype_var]->allowed;
  return tn__dtype_bit(arg->dtype);
}

/* Returns the C type of the operand's elements: the one C type that matches all
 * types in `allowed`. Returns TN_NONE if no C type matches all of them. */
static uint32_t find_element_type(uint64_t allowed) {
  for (uint32_t c = 0; c < TNM_C_TYPES; ++c)
    if (has_element_type(c, allowed)) return c;
  return TN_NONE;
}

/* Returns a set of element types as text, for messages. */
static const char *print_types(tnm_bind *b, uint64_t types) {
  tn__buf buf;
  tn__buf_init(&buf, b->lower->reader->env);
  tn__buf_dtypes(&buf, types);
  const char *text =
      buf.failed ? NULL : tn__arena_text(b->lower->arena, buf.s, buf.n);
  tn__buf_deinit(&buf);
  return text != NULL ? text : "?";
}

static bool is_input(const tnm_bind *b, const tn_arg *arg) {
  const tnm_operands *inputs = &b->lower->operands[TN_OPERAND_IN];
  for (uint32_t i = 0; i < inputs->n; ++i)
    if (inputs->v[i] == arg) return true;
  return false;
}

/* Adds a help line to message `id`: the C or tensor types with which the
 * operand and the C type would fit together. */
static void add_element_help(tnm_bind *b, size_t id, const tn_arg *arg,
                             const tnm_c_type *type) {
  const bool pointer = type->c == TNM_C_POINTER;
  const uint32_t right = find_element_type(get_allowed_types(b, arg));
  if (arg->dtype_param == TN_NONE && right != TN_NONE)
    tnm_diag_add_help(b->lower->diags, id, "write `%s%s%s`",
                      pointer && is_input(b, arg) ? "const " : "",
                      tnm_c_names[right], pointer ? "*" : "");
  else
    tnm_diag_add_help(
        b->lower->diags, id,
        "a function in C takes one type: give `%s` one `dtype`, and "
        "bind another function for another",
        arg->name);
}

bool tnm_match_element(tnm_bind *b, const tn_arg *arg, const tnm_c_type *type,
                       tnm_pos pos) {
  const uint32_t element = type->element;
  const uint64_t allowed = get_allowed_types(b, arg);
  const bool decided = arg->dtype_param == TN_NONE;
  if (b->lower->untyped || (decided && has_element_type(element, allowed)))
    return true;
  const char *what =
      decided
          ? tnm_format_text(b->lower->arena, "`%s` is of type %s, not %s",
                            arg->name, print_types(b, allowed),
                            tnm_c_names[element])
          : tnm_format_text(b->lower->arena,
                            "`%s` is of the type that a parameter chooses, not "
                            "%s",
                            arg->name, tnm_c_names[element]);
  const size_t id = tnm_report_mismatch(b, pos, NULL, what != NULL ? what : "");
  add_element_help(b, id, arg, type);
  return false;
}

/* Finds the operand with this name: *list is its list (TN_OPERAND_*), *index
 * its index there. Returns false if no operand has the name. */
static bool find_tensor(const tnm_bind *b, const char *name, uint32_t *list,
                        uint32_t *index) {
  for (*list = 0; *list < 3; ++*list) {
    *index = tnm_find_operand(b->lower, *list, name);
    if (*index != TN_NONE) return true;
  }
  return false;
}

/* Checks that a pointer to an input points to `const` elements, and a pointer
 * to an output or state does not. Returns false after a message. */
static bool check_const_pointer(tnm_bind *b, const tnm_tree *c,
                                const tnm_c_type *type,
                                const tnm_bound_arg *out) {
  const bool input = out->list == TN_OPERAND_IN;
  if (type->constant == input) return true;
  const char *what =
      tnm_format_text(b->lower->arena,
                      input ? "`%s` is an input, which must not change"
                            : "`%s` is to be written, but `const` forbids it",
                      out->text);
  const size_t id =
      tnm_report_mismatch(b, c->pos, NULL, what != NULL ? what : "");
  tnm_diag_add_help(b->lower->diags, id, "write `%s%s*`", input ? "const " : "",
                    tnm_c_names[type->element]);
  return false;
}

static bool has_one_element(const tn_arg *arg) {
  return arg->shape_kind == TN_SHAPE_PATTERN && arg->n_terms == 0;
}

/* Tests whether the binding has a `map` key with an invalid value. The reader
 * has already reported that mistake. */
static bool is_map_unknown(const tnm_bind *b) {
  return b->out->map == TN_NONE && tnm_tree_has(b->map, "map");
}

/* Reports an operand of many elements where the function expects one number.
 * Returns false, for the caller to return. */
static bool report_many_elements(tnm_bind *b, const tnm_tree *c,
                                 const tnm_c_type *type,
                                 const tnm_bound_arg *out) {
  const bool input = out->list == TN_OPERAND_IN;
  const char *number = tnm_c_names[type->c];
  const char *what =
      tnm_format_text(b->lower->arena, "`%s` is a tensor, %s a single number",
                      out->text, number);
  const size_t id =
      tnm_report_mismatch(b, c->pos, NULL, what != NULL ? what : "");
  if (input && b->out->map != TN_NONE)
    tnm_diag_add_help(
        b->lower->diags, id,
        "write `shape: %s` for `%s`, so that each call has an element "
        "of it; or `c: const %s*` for all of it",
        b->lower->operands[TN_OPERAND_IN].names[b->out->map], out->text,
        number);
  else if (input)
    tnm_diag_add_help(
        b->lower->diags, id,
        "write `c: const %s*`, pass `size(%s)`, or add `map: %s` for "
        "a call with each element",
        number, out->text, out->text);
  else
    tnm_diag_add_help(b->lower->diags, id, "write `c: %s*`, or pass `size(%s)`",
                      number, out->text);
  return false;
}

/* Reports an operand that may be absent where the function always expects a
 * number. Returns false, for the caller to return. */
static bool report_optional_operand(tnm_bind *b, const tnm_tree *c,
                                    const tnm_c_type *type, const char *name) {
  const char *what = tnm_format_text(
      b->lower->arena, "`%s` may be absent, a number is there", name);
  const size_t id =
      tnm_report_mismatch(b, c->pos, NULL, what != NULL ? what : "");
  tnm_diag_add_help(
      b->lower->diags, id,
      "write `c: const %s*`, which is NULL then; or `optional: false`",
      tnm_c_names[type->c]);
  return false;
}

/* Makes an operand an argument of the function. The operand is declared dense,
 * because the function does not get strides. Returns false after a message. */
static bool set_tensor_argument(tnm_bind *b, const tnm_tree *c,
                                const tnm_c_type *type, tnm_bound_arg *out) {
  tn_arg *arg = b->lower->operands[out->list].v[out->index];
  const bool input = out->list == TN_OPERAND_IN;
  const bool value = type->c != TNM_C_POINTER;
  out->each = tnm_has_map_shape(b, out->list, out->index);
  out->pass = value ? TNM_PASS_ELEMENT : TNM_PASS_TENSOR;
  b->passed[out->list][out->index] = true;
  b->mapped |= out->each;
  if (value && (!input || !(out->each || has_one_element(arg))))
    return is_map_unknown(b) ? false : report_many_elements(b, c, type, out);
  if (value && (arg->flags & TN_ARG_OPTIONAL) != 0)
    return report_optional_operand(b, c, type, out->text);
  arg->flags |= TN_ARG_CONTIGUOUS;
  return tnm_match_element(b, arg, type, c->pos) &&
         (value || check_const_pointer(b, c, type, out));
}

/* --------------------------------------------------------------- parameters */

/* Reports a parameter that cannot be an argument of the declared C type.
 * `wanted` is the help text. Returns false, for the caller to return. */
static bool report_unfit_field(tnm_bind *b, const tnm_tree *node,
                               const tn_field *field, const char *wanted) {
  const char *what = tnm_format_text(
      b->lower->arena, "parameter `%s` cannot be passed here", field->name);
  const size_t id =
      tnm_report_mismatch(b, node->pos, NULL, what != NULL ? what : "");
  tnm_diag_add_help(b->lower->diags, id, "%s", wanted);
  return false;
}

/* Makes a parameter of type float an argument. Returns false after a message
 * if the argument's C type is no floating-point type. */
static bool set_float_argument(tnm_bind *b, const tnm_tree *node,
                               const tnm_c_type *type, tnm_bound_arg *out) {
  const tn_field *field = b->lower->params[out->index];
  out->pass = TNM_PASS_FLOAT;
  if (type->c != TNM_C_F32 && type->c != TNM_C_F64)
    return report_unfit_field(b, node, field,
                              "it is a float: write `c: double` or `c: float`");
  if ((field->flags & TN_FIELD_OPTIONAL) != 0)
    return report_unfit_field(b, node, field,
                              "it may be None: give it a default value");
  return true;
}

/* Makes a parameter with a list of numbers an argument. Returns false after a
 * message if the argument's C type is no pointer to such numbers. */
static bool set_list_argument(tnm_bind *b, const tnm_tree *node,
                              const tnm_c_type *type, tnm_bound_arg *out) {
  const tn_field *field = b->lower->params[out->index];
  const bool ints = field->type == TN_FIELD_INTS;
  out->pass = TNM_PASS_LIST;
  if (type->c == TNM_C_POINTER && type->constant &&
      type->element == (ints ? TNM_C_I64 : TNM_C_F64))
    return true;
  return report_unfit_field(
      b, node, field,
      ints ? "it is a list of integers: write `c: const int64*`, or another "
             "type of integers"
           : "it is a list of floats: write `c: const double*`");
}

/* Makes the string parameter out->index an argument; `node` is the argument in
 * the manifest. Returns false after a message if its C type is not
 * `const char*`. */
static bool set_text_argument(tnm_bind *b, const tnm_tree *node,
                              const tnm_c_type *type, tnm_bound_arg *out) {
  out->pass = TNM_PASS_TEXT;
  if (type->c == TNM_C_POINTER && type->element == TNM_C_CHAR) return true;
  return report_unfit_field(b, node, b->lower->params[out->index],
                            "it is text: write `c: const char*`");
}

/* Makes the parameter number out->index an argument. Returns false after a
 * message if the parameter and the C type do not fit together. */
static bool set_parameter_argument(tnm_bind *b, const tnm_tree *node,
                                   const tnm_c_type *type, tnm_bound_arg *out) {
  const tn_field *field = b->lower->params[out->index];
  if (field->type == TN_FIELD_FLOAT)
    return set_float_argument(b, node, type, out);
  if (field->type == TN_FIELD_STRING)
    return set_text_argument(b, node, type, out);
  if (field->type == TN_FIELD_INTS || field->type == TN_FIELD_FLOATS)
    return set_list_argument(b, node, type, out);
  return report_unfit_field(
      b, node, field,
      "parameters of type bool, int, enum, float, ints, floats and string can");
}

bool tnm_is_integer_list(const tnm_c_type *type) {
  return type->c == TNM_C_POINTER && type->constant &&
         type->element <= TNM_C_U64;
}

/* Tests whether the parameter must be passed as an integer expression. A list
 * of integers must be, unless the function can read the list's memory directly.
 */
static bool is_integer_field(const tn_field *field, const tnm_c_type *type) {
  return field->type == TN_FIELD_BOOL || field->type == TN_FIELD_INT ||
         field->type == TN_FIELD_ENUM ||
         (field->type == TN_FIELD_INTS && tnm_is_integer_list(type) &&
          type->element != TNM_C_I64);
}

/* ------------------------------------------------------------------ numbers */

/* Makes the number in `node` an argument. Returns false after a message if the
 * C type cannot represent it. */
static bool set_number_argument(tnm_bind *b, const tnm_tree *node,
                                const tnm_c_type *type, tnm_bound_arg *out) {
  if (type->c == TNM_C_F32 || type->c == TNM_C_F64) {
    out->pass = TNM_PASS_NUMBER;
    return true;
  }
  const tnm_range range = tnm_c_range(type->c);
  out->pass = TNM_PASS_INTEGER;
  if (type->c != TNM_C_POINTER && tnm_parse_int(node->text, &out->integer) &&
      out->integer >= range.low && out->integer <= range.high)
    return true;
  const char *name =
      type->c == TNM_C_POINTER ? "a pointer" : tnm_c_names[type->c];
  const char *what = tnm_format_text(b->lower->arena, "`%.80s` does not fit %s",
                                     node->text, name);
  const size_t id =
      tnm_report_mismatch(b, node->pos, NULL, what != NULL ? what : "");
  if (type->c == TNM_C_POINTER)
    tnm_diag_add_help(b->lower->diags, id, "pass the name of a tensor");
  else
    tnm_diag_add_help(b->lower->diags, id,
                      "write a whole number from %lld to %lld",
                      (long long)range.low, (long long)range.high);
  return false;
}

/* ---------------------------------------------------------------- arguments */

/* Tests whether `text` is only a lower-case name, and no parameter, dimension
 * or pack has that name. */
static bool is_unknown_name(const tnm_bind *b, const char *text) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyz_0123456789";
  if (text[0] < 'a' || text[0] > 'z' || text[strspn(text, letters)] != '\0')
    return false;
  for (uint32_t i = 0; i < b->lower->op->n_params; ++i)
    if (strcmp(b->lower->params[i]->name, text) == 0) return false;
  for (size_t i = 0; i < b->program.dims.n; ++i)
    if (strcmp(b->program.dims.v[i], text) == 0) return false;
  for (size_t i = 0; i < b->program.packs.n; ++i)
    if (strcmp(b->program.packs.v[i], text) == 0) return false;
  return true;
}

/* Reports an unknown name in `pass`, and suggests a similar name. A pointer
 * needs an operand or a list, other types need a parameter, so names of the
 * likely kind are first among equally near ones. Returns false, for the caller
 * to return. */
static bool report_unknown_value(tnm_bind *b, const tnm_tree *node,
                                 const tnm_c_type *type) {
  const tnm_lower *lower = b->lower;
  const bool pointer = type->c == TNM_C_POINTER;
  tnm_diag_spec spec = {"E0031", node->pos, "unknown name"};
  const size_t id = tnm_diag_add(
      lower->diags, &spec, "`%s` is not an operand, parameter or dimension",
      node->text);
  tnm_names names = {.arena = lower->arena};
  for (size_t i = 0; !pointer && i < b->program.dims.n; ++i)
    tnm_names_add(&names, (const char *const *)&b->program.dims.v[i], 1);
  for (uint32_t i = 0; !pointer && i < lower->op->n_params; ++i)
    tnm_names_add(&names, &lower->params[i]->name, 1);
  for (uint32_t list = 0; list < 3; ++list)
    tnm_names_add(&names, lower->operands[list].names, lower->operands[list].n);
  for (uint32_t i = 0; pointer && i < lower->op->n_params; ++i)
    tnm_names_add(&names, &lower->params[i]->name, 1);
  tnm_names_add_note(&names, lower->diags, id, "in scope here");
  tnm_names_add_help(&names, lower->diags, id, node->text);
  b->has_invalid = true;
  return false;
}

/* Reads the key `pass` of an argument: the value that the function gets.
 * Returns false after a message. */
static bool read_pass_key(tnm_bind *b, const tnm_bind_entry *at,
                          tnm_bound_arg *out) {
  const tnm_lower *lower = b->lower;
  const tnm_tree *node = at->pass;
  if (find_tensor(b, node->text, &out->list, &out->index))
    return set_tensor_argument(b, at->c, &at->type, out);
  for (uint32_t i = 0; i < lower->op->n_params; ++i) {
    if (strcmp(lower->params[i]->name, node->text) != 0 ||
        is_integer_field(lower->params[i], &at->type))
      continue;
    out->index = i;
    return set_parameter_argument(b, node, &at->type, out);
  }
  if (tnm_parse_double(node->text, &out->number))
    return set_number_argument(b, node, &at->type, out);
  if (is_unknown_name(b, node->text))
    return report_unknown_value(b, node, &at->type);
  return tnm_read_bound_expression(b, at, out);
}

/* Reads `by: address`: the function gets a pointer, so the value of the
 * argument has the type that the pointer points to. Returns false after a
 * message. */
static bool read_pointed_type(tnm_bind *b, const tnm_tree *by,
                              tnm_bind_entry *at) {
  static const char *const words[] = {"address", NULL};
  if (tnm_read_word(b->lower->diags, by, "`address`", words) < 0) return false;
  if (at->type.c == TNM_C_POINTER && at->type.constant &&
      at->type.element < TNM_C_TYPES) {
    at->type = (tnm_c_type){at->type.element, at->type.element, false};
    return true;
  }
  const size_t id = tnm_report_mismatch(
      b, at->c->pos, NULL, "an address goes to a pointer to a constant number");
  tnm_diag_add_help(b->lower->diags, id,
                    "write `c: const int32*`, for example");
  return false;
}

/* Makes a pointer to a number an argument: `by: address`. Returns false after
 * a message. */
static bool set_address_argument(tnm_bind *b, const tnm_tree *by,
                                 tnm_bind_entry *at, tnm_bound_arg *out) {
  if (!read_pointed_type(b, by, at)) return false;
  if (!find_tensor(b, at->pass->text, &out->list, &out->index)) {
    out->c = at->type.c;
    const bool fine = read_pass_key(b, at, out);
    out->element = out->c;
    out->c = TNM_C_POINTER;
    out->by_address = true;
    return fine;
  }
  const size_t id = tnm_report_mismatch(
      b, by->key_pos, NULL, "only a number gets an address of its own");
  tnm_diag_add_help(b->lower->diags, id,
                    "leave out `by`: the pointer to a tensor is its memory");
  return false;
}

/* Reads `text: L`: the argument is the constant text L. Returns false after a
 * message. */
static bool set_constant_argument(tnm_bind *b, const tnm_tree *text,
                                  const tnm_bind_entry *at,
                                  tnm_bound_arg *out) {
  out->pass = TNM_PASS_CONSTANT;
  out->constant = out->text = text->text;
  if (at->type.c == TNM_C_POINTER && at->type.element == TNM_C_CHAR)
    return true;
  const size_t id = tnm_report_mismatch(b, at->c->pos, NULL,
                                        "`text` goes to an argument of text");
  tnm_diag_add_help(b->lower->diags, id,
                    "write `c: const char*`; `pass` takes a number");
  return false;
}

/* Checks that an argument has either the key `pass` or the key `text`, but not
 * both. Returns false after a message. */
static bool check_argument_keys(tnm_bind *b, const tnm_tree *node) {
  const tnm_tree *pass = tnm_tree_get(node, "pass");
  const tnm_tree *text = tnm_tree_get(node, "text");
  const bool any = tnm_tree_has(node, "pass") || tnm_tree_has(node, "text");
  if (any && pass == NULL && text == NULL) return false;
  if (!any) {
    const tnm_pos pos = node->first != NULL ? node->first->key_pos : node->pos;
    tnm_diag_spec spec = {"E0011", pos, "begins here"};
    const size_t id =
        tnm_diag_add(b->lower->diags, &spec, "an argument needs `pass`");
    tnm_diag_add_help(b->lower->diags, id,
                      "add `pass: ...`: operand, parameter, number, or integer "
                      "expression such as `size(x)`; or `text: ...`");
    return false;
  }
  const tnm_tree *other = pass != NULL ? pass : tnm_tree_get(node, "by");
  if (text == NULL || other == NULL) return true;
  tnm_diag_spec spec = {"E0017", text->key_pos, "second one"};
  const size_t id = tnm_diag_add(
      b->lower->diags, &spec, "`%s` and `text` exclude each other", other->key);
  tnm_diag_add_place(b->lower->diags, id, other->key_pos, "first one");
  return false;
}

bool tnm_read_bound_arg(tnm_bind *b, tnm_tree *node, tnm_bound_arg *out) {
  tnm_diags *diags = b->lower->diags;
  if (!tnm_schema_check(diags, &tnm_schema_bound_arg, node) ||
      !check_argument_keys(b, node))
    return false;
  const tnm_tree *by = tnm_tree_get(node, "by");
  const tnm_tree *text = tnm_tree_get(node, "text");
  tnm_bind_entry at = {.c = tnm_tree_get(node, "c"),
                       .pass = tnm_tree_get(node, "pass")};
  if (at.c == NULL || !tnm_read_c_type(diags, at.c, &at.type)) return false;
  *out = (tnm_bound_arg){.c = at.type.c};
  if (text != NULL) return set_constant_argument(b, text, &at, out);
  if (!tnm_check_scalar(diags, at.pass, "the value to pass")) return false;
  out->text = at.pass->text;
  return by != NULL ? set_address_argument(b, by, &at, out)
                    : read_pass_key(b, &at, out);
}
