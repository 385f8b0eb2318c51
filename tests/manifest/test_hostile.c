/* SPDX-License-Identifier: Apache-2.0
 * test_hostile.c: by the schema's own table, drops every required key in turn
 * and sets every key to every wrong kind of value in turn. Also documents that
 * would need much time or memory. Each is refused with a message that has its
 * position.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "front.h"
#include "memory.h"

TestSuite(hostile, .timeout = 100);

#define PLUGIN                                                             \
  "opgen: 1\nplugin: demo\nrelease: 3\nsummary: Operators\nlicense: MIT\n" \
  "operators: [op.yaml]\n"
#define INPUT "inputs: [{name: x, dtype: f32}]\n"
#define OUTPUT "outputs: [{name: y, dtype: f32, shape: x}]\n"
#define HEAD "opgen: 1\nop: scale\nsince: 1\nsummary: Scaled\n"
#define FORWARD "forward: {y: 2*x}\n"
#define NONE "gradient: {none: true}\n"

/* A good mapping of one kind, and the document around it. */
typedef struct place {
  const tnm_schema *schema;
  bool in_plugin; /* the mapping is in plugin.yaml */
  const char *before;
  const char *after;
  const char *good[8][2]; /* keys and values, the required ones among them */
} place;

/* Operands of bound functions have one type, and examples are run. */
#define BOUND_INPUT "inputs: [{name: x, dtype: f32}]\n"
#define BOUND_OUTPUT "outputs: [{name: y, dtype: f32, shape: x}]\n"
#define BOUND_EXAMPLE "examples: [{name: one, x: [1], y: [2]}]\n"

static const place places[] = {
    {&tnm_schema_plugin,
     true,
     "",
     "",
     {{"opgen", "1"},
      {"plugin", "demo"},
      {"release", "3"},
      {"summary", "Operators"},
      {"license", "MIT"},
      {"operators", "[op.yaml]"}}},
    {&tnm_schema_operator,
     false,
     "",
     "",
     {{"opgen", "1"},
      {"op", "scale"},
      {"summary", "Scaled"},
      {"inputs", "[{name: x, dtype: f32}]"},
      {"outputs", "[{name: y, dtype: f32, shape: x}]"},
      {"forward", "{y: 2*x}"},
      {"gradient", "{none: true}"}}},
    {&tnm_schema_family,
     false,
     "",
     "",
     {{"opgen", "1"},
      {"family", "scales"},
      {"summary", "Scaled"},
      {"inputs", "[{name: x, dtype: f32}]"},
      {"outputs", "[{name: y, dtype: f32, shape: x}]"},
      {"gradient", "{none: true}"},
      {"each", "[{op: twice, forward: {y: 2*x}}]"}}},
    {&tnm_schema_member,
     false,
     "opgen: 1\nfamily: scales\n" INPUT NONE "each: [",
     "]\n",
     {{"op", "twice"},
      {"summary", "Scaled"},
      {"forward", "{y: 2*x}"},
      {"outputs", "[{name: y, dtype: f32, shape: x}]"}}},
    {&tnm_schema_param,
     false,
     HEAD INPUT OUTPUT FORWARD NONE "params: [",
     "]\n",
     {{"name", "a"}, {"type", "int"}, {"default", "1"}}},
    {&tnm_schema_input,
     false,
     HEAD OUTPUT FORWARD NONE "inputs: [",
     "]\n",
     {{"name", "x"}, {"dtype", "f32"}}},
    {&tnm_schema_output,
     false,
     HEAD INPUT FORWARD NONE "outputs: [",
     "]\n",
     {{"name", "y"}, {"dtype", "f32"}, {"shape", "x"}}},
    {&tnm_schema_aux,
     false,
     HEAD INPUT OUTPUT NONE "kernels: [{device: cpu, forward: demo_f}]\naux: [",
     "]\n",
     {{"name", "z"}, {"dtype", "f32"}, {"shape", "x"}}},
    {&tnm_schema_require,
     false,
     HEAD INPUT OUTPUT FORWARD NONE "require: [",
     "]\n",
     {{"that", "rank(x) == 2"}, {"say", "two dimensions"}}},
    {&tnm_schema_gradient,
     false,
     HEAD INPUT OUTPUT FORWARD "gradient: ",
     "\n",
     {{"formula", "{x: 2*grad.y}"}}},
    {&tnm_schema_kernel,
     false,
     HEAD INPUT OUTPUT NONE "kernels: [",
     "]\n",
     {{"device", "cpu"}, {"forward", "demo_f"}}},
    {&tnm_schema_state,
     false,
     HEAD INPUT OUTPUT NONE "kernels: [{device: cpu, forward: demo_f, state: ",
     "}]\n",
     {{"type", "demo_t"}, {"create", "demo_c"}, {"destroy", "demo_d"}}},
    {&tnm_schema_workspace,
     false,
     HEAD INPUT OUTPUT NONE
     "kernels: [{device: cpu, forward: demo_f, workspace: ",
     "}]\n",
     {{"bytes", "demo_b"}}},
    {&tnm_schema_example,
     false,
     HEAD INPUT OUTPUT FORWARD NONE "examples: [",
     "]\n",
     {{"name", "one"}, {"x", "[1]"}, {"y", "[2]"}}},
    {&tnm_schema_binding,
     false,
     HEAD BOUND_INPUT BOUND_OUTPUT NONE BOUND_EXAMPLE "binding: ",
     "\n",
     {{"library", "libm.so.6"},
      {"symbol", "demo_f"},
      {"args", "[{c: const float*, pass: x}, {c: float*, pass: y}]"}}},
    {&tnm_schema_bound_arg,
     false,
     HEAD BOUND_INPUT BOUND_OUTPUT NONE BOUND_EXAMPLE
     "binding: {library: libm.so.6, symbol: demo_f, args: "
     "[{c: float*, pass: y}, ",
     "]}\n",
     {{"c", "const float*"}, {"pass", "x"}}},
    {&tnm_schema_result,
     false,
     HEAD BOUND_INPUT BOUND_OUTPUT NONE BOUND_EXAMPLE
     "binding: {library: libm.so.6, symbol: demo_f, args: "
     "[{c: const float*, pass: x}, {c: float*, pass: y}], returns: ",
     "}\n",
     {{"c", "int32"}, {"ok", "0"}}},
    {&tnm_schema_gradcheck,
     false,
     HEAD INPUT OUTPUT FORWARD NONE "gradcheck: ",
     "\n",
     {{"points", "3"}}},
    {&tnm_schema_deprecated,
     false,
     HEAD INPUT OUTPUT FORWARD NONE "deprecated: ",
     "\n",
     {{"since", "2"}, {"use", "another"}}},
    {&tnm_schema_hook,
     false,
     HEAD INPUT NONE "kernels: [{device: cpu, forward: demo_f}]\n"
                     "outputs: [{name: y, dtype: f32, shape: ",
     "}]\n",
     {{"c", "demo_infer"}}},
    {&tnm_schema_kernels_for,
     false,
     "",
     "",
     {{"opgen", "1"},
      {"kernels_for", "nn.softmax@1"},
      {"kernels", "[{device: cpu, forward: demo_f}]"}}},
};
enum { N_PLACES = sizeof places / sizeof *places };

/* ------------------------------------------------------------------ reading */

/* The messages about a plugin with this text at the place. */
static char *read_text(bool in_plugin, const char *text) {
  const memory_file files[] = {
      {"plugin.yaml", in_plugin ? text : PLUGIN},
      {"op.yaml", in_plugin ? HEAD INPUT OUTPUT FORWARD NONE : text},
      {NULL, NULL}};
  const tn__env *env = memory_env(files);
  tnm_plugin *plugin = NULL;
  char *came = memory_read(env, "plugin.yaml", TNM_SHORT, &plugin);
  cr_expect_eq(plugin == NULL, strstr(came, "error[") != NULL, "%s\n%s", text,
               came);
  tnm_plugin_release(plugin);
  return came;
}

/* Writes the mapping, without the key `skip`, and with `value` for the key
 * `key`; `*at` gets the offset of that value. */
static char *render_mapping(const place *p, const char *skip, const char *key,
                            const char *value, size_t *at) {
  char *text = NULL, *comma = "";
  size_t size = 0;
  bool there = key == NULL;
  FILE *to = open_memstream(&text, &size);
  fprintf(to, "%s{", p->before);
  for (size_t i = 0; i < 8 && p->good[i][0] != NULL; ++i) {
    const bool other = key != NULL && strcmp(p->good[i][0], key) == 0;
    if (skip != NULL && strcmp(p->good[i][0], skip) == 0) continue;
    there |= other;
    fprintf(to, "%s%s: ", comma, p->good[i][0]);
    if (other) *at = (size_t)ftell(to);
    fputs(other ? value : p->good[i][1], to);
    comma = ", ";
  }
  if (!there) {
    fprintf(to, "%s%s: ", comma, key);
    *at = (size_t)ftell(to);
    fputs(value, to);
  }
  fprintf(to, "}%s\n", p->after);
  fclose(to);
  return text;
}

/* The only mistake of kernels_for is a target that is not passed. */
static bool is_good(const place *p, const char *came) {
  return came[0] == '\0' || (p->schema == &tnm_schema_kernels_for &&
                             strstr(came, "error[E0060]") != NULL &&
                             strstr(came, "opgen: 1 error") != NULL);
}

Test(hostile, every_kind_of_mapping_has_a_good_example) {
  for (size_t i = 0; tnm_schemas[i] != NULL; ++i) {
    size_t k = 0;
    while (k < N_PLACES && places[k].schema != tnm_schemas[i]) ++k;
    cr_expect_lt(k, N_PLACES, "%s", tnm_schemas[i]->what);
  }
  for (size_t k = 0; k < N_PLACES; ++k) {
    char *text = render_mapping(&places[k], NULL, NULL, NULL, NULL);
    char *came = read_text(places[k].in_plugin, text);
    cr_expect(is_good(&places[k], came), "%s\n%s", text, came);
    free(text), free(came);
  }
}

/* ---------------------------------------------------------------- positions */

/* Writes "op.yaml:7:12: " of an offset in a text. */
static void write_position(const place *p, const char *text, size_t at,
                           char *out, size_t size) {
  size_t line = 1, column = 1;
  for (size_t i = 0; i < at; ++i) {
    column = text[i] == '\n' ? 1 : column + 1;
    line += text[i] == '\n';
  }
  snprintf(out, size, "%s:%zu:%zu: ", p->in_plugin ? "plugin.yaml" : "op.yaml",
           line, column);
}

static void drop_key(const place *p, const char *key) {
  char want[128];
  char *text = render_mapping(p, key, NULL, NULL, NULL);
  char *came = read_text(p->in_plugin, text);
  snprintf(want, sizeof want, "`%s`", key);
  /* a mapping without the key of its kind is no document */
  const bool kind = strstr(came, ":1:1: error[E0017]") != NULL &&
                    strstr("op family kernels_for", key) != NULL;
  cr_expect(
      strstr(came, "error[") != NULL && (kind || strstr(came, want) != NULL),
      "without `%s`:\n%s%s", key, text, came);
  free(text), free(came);
}

Test(hostile, each_required_key_is_missed) {
  size_t n = 0;
  for (size_t i = 0; i < N_PLACES; ++i) {
    for (const tnm_key *k = places[i].schema->keys; k->name != NULL; ++k) {
      if (!k->required) continue;
      drop_key(&places[i], k->name);
      ++n;
    }
  }
  cr_expect_gt(n, 35);
}

/* Expects a message at the position of a value of a wrong form. */
static size_t confuse_key(const place *p, const tnm_key *key) {
  static const struct {
    int form;
    const char *value;
  } values[] = {
      {TNM_SCALAR, "word"}, {TNM_LIST, "[word]"}, {TNM_MAP, "{word: 1}"}};
  size_t n = 0;
  for (size_t i = 0; i < 3; ++i) {
    size_t at = 0;
    char start[64], line[256];
    if ((key->forms & values[i].form) != 0) continue;
    char *text = render_mapping(p, NULL, key->name, values[i].value, &at);
    char *came = read_text(p->in_plugin, text);
    write_position(p, text, at, start, sizeof start);
    snprintf(line, sizeof line, "%serror[E0013]: `%s` must be ", start,
             key->name);
    cr_expect_not_null(strstr(came, line), "no `%s`:\n%s%s", line, text, came);
    free(text), free(came);
    ++n;
  }
  return n;
}

Test(hostile, each_key_refuses_values_of_another_form) {
  size_t n = 0;
  for (size_t i = 0; i < N_PLACES; ++i)
    for (const tnm_key *k = places[i].schema->keys; k->name != NULL; ++k)
      n += confuse_key(&places[i], k);
  cr_expect_gt(n, 200);
}

/* A single value may contain anything: it is accepted, or refused with a
 * message. */
Test(hostile, each_key_survives_strange_values) {
  static const char *const values[] = {"word",
                                       "-1",
                                       "0",
                                       "99999999999999999999",
                                       "1e999",
                                       "nan",
                                       "\"\"",
                                       "~",
                                       "null",
                                       "yes",
                                       "[[]]",
                                       "[{}]",
                                       "[1, [2]]",
                                       "{a: {b: {}}}",
                                       "'{}'",
                                       "\"a\\nb\"",
                                       "tn_x",
                                       "int",
                                       "f32",
                                       "x",
                                       "2*x",
                                       "-x^^2",
                                       "[x, x]",
                                       "{x: x, y: y}",
                                       "[{name: x}]",
                                       "../op.yaml",
                                       "[op.yaml, op.yaml]"};
  for (size_t i = 0; i < N_PLACES; ++i) {
    for (const tnm_key *k = places[i].schema->keys; k->name != NULL; ++k) {
      for (size_t v = 0; v < sizeof values / sizeof *values; ++v) {
        size_t at = 0;
        char *text = render_mapping(&places[i], NULL, k->name, values[v], &at);
        free(read_text(places[i].in_plugin, text));
        free(text);
      }
    }
  }
  cr_expect_eq(memory_live(), 0);
}

/* ------------------------------------------------------------------- bounds */

/* `n` times `part` between two texts. */
static char *repeat_text(const char *before, const char *part, size_t n,
                         const char *after) {
  char *text = NULL;
  size_t size = 0;
  FILE *to = open_memstream(&text, &size);
  fputs(before, to);
  for (size_t i = 0; i < n; ++i) fputs(part, to);
  fputs(after, to);
  fclose(to);
  return text;
}

#define REST INPUT OUTPUT FORWARD NONE

/* Documents that are refused, with the beginning of the first message. */
Test(hostile, large_documents_are_refused_in_bounded_memory) {
  static const struct {
    const char *before, *part;
    size_t n;
    const char *after, *says;
  } cases[] = {
      {HEAD REST "doc: \"", "a", 1 << 20, "\"\n", "larger than"},
      {HEAD REST "x", "a", 1000000, ": 1\n", "error[E0004]"},
      {"opgen: 1\nsummary: Scaled\n" REST "op: ", "a", 1000000, "\n",
       "error[E0015]"},
      {HEAD INPUT OUTPUT NONE "forward: {y: x", "+x", 450000, "}\n",
       "error[E0037]"},
      {HEAD INPUT OUTPUT NONE "forward: {y: ", "(", 900000, "}\n", "error[E00"},
      {HEAD INPUT OUTPUT NONE "forward: {y: ", "-", 900000, "x}\n",
       "error[E00"},
      {HEAD INPUT OUTPUT NONE "forward: {y: ", "9", 900000, "}\n", "error[E00"},
      {HEAD REST "params: ", "[", 900000, "\n", "error[E0007]"},
      {HEAD REST "params: ", "{a: ", 200000, "\n", "error[E0007]"},
      {HEAD REST "params:\n", "- ", 400000, "\n", "error[E00"},
      {HEAD REST "params: [", "1,", 400000, "]\n", "error[E0007]"},
      {HEAD REST "params: [", "{},", 300000, "]\n", "error[E0007]"},
      {HEAD REST "params: {", "a: 1, ", 150000, "}\n", "error[E00"},
      {HEAD REST, "doc: x\n", 100000, "", "error[E0006]"},
      {HEAD REST "doc: ", "&a ", 300000, "\n", "error[E0005]"},
      {HEAD REST "doc: ", "!a ", 300000, "\n", "error[E0005]"},
      {HEAD REST, "---\n", 200000, "", "error[E00"},
      {HEAD REST "doc: '", "\n", 900000, "", "error[E0004]"},
      {HEAD INPUT FORWARD NONE "outputs: [{name: y, dtype: f32, shape: [",
       "N + 1, ", 100000, "]}]\n", "error[E00"},
      {HEAD REST "examples: [{name: a, x: [", "1, ", 300000, "], y: [1]}]\n",
       "error[E0007]"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    char *text =
        repeat_text(cases[i].before, cases[i].part, cases[i].n, cases[i].after);
    char *came = read_text(false, text);
    cr_expect(strstr(came, ".yaml:") != NULL && strlen(came) < 1 << 17 &&
                  strstr(came, cases[i].says) != NULL,
              "case %zu, `%s`: %.300s", i, cases[i].part, came);
    cr_expect_lt(memory_peak(), (size_t)192 << 20, "case %zu, `%s`", i,
                 cases[i].part);
    free(text), free(came);
  }
  cr_expect_eq(memory_live(), 0);
}
