/* SPDX-License-Identifier: Apache-2.0
 * front.h: shared by the files of the front end: text, the tree of a manifest,
 * the schema, and the state of a reader. For sdk/manifest only; manifest.h has
 * everything that other folders may use.
 */
#ifndef TENON_MANIFEST_FRONT_H_
#define TENON_MANIFEST_FRONT_H_

#include "manifest.h"

/* --------------------------------------------------------------------- text */

/* Limits of one manifest. */
enum {
  TNM_MAX_DEPTH = 32,
  TNM_MAX_VALUES = 100000,
  TNM_MAX_KEYS = 1000,
  TNM_MAX_NAME = 64,
  TNM_MAX_FAMILY = 40
};

/* Decodes the first character of a UTF-8 text of `n` bytes. Returns its number
 * of bytes; 0 if it is invalid. */
size_t tnm_decode_utf8(const char *text, size_t n, uint32_t *out);

/* Number of columns that a terminal uses for a character: 0, 1 or 2. */
int tnm_character_width(uint32_t character);

/* Checks a manifest's text for bytes that no manifest may contain: NUL, invalid
 * UTF-8, control characters, tabs. Adds at most one message; returns false
 * after it. */
bool tnm_text_check(tnm_diags *diags, uint32_t file, const char *text,
                    size_t n);

/* True after a message was lost because memory ran out. */
bool tnm_diags_has_failed(const tnm_diags *diags);

/* --------------------------------------------------------------------- tree */

/* Forms of a value: bits, because the schema uses sets of them. */
enum { TNM_SCALAR = 1, TNM_LIST = 2, TNM_MAP = 4 };

/* One value. Children form a list; the children of a mapping have keys. */
typedef struct tnm_tree {
  int kind;
  bool plain;       /* the value is a scalar without quotes */
  bool one_line;    /* the value is a scalar that begins and ends on one line */
  const char *text; /* content of a scalar */
  tnm_pos pos; /* position of the value in the file; for a text in quotes, of
                  the text between the quotes */
  const char *key;
  tnm_pos key_pos;
  struct tnm_tree *first;
  struct tnm_tree *next;
  size_t n;
} tnm_tree;

/* Reads all YAML documents of a text that tnm_text_check has accepted. Returns
 * false after a message or if memory ran out; *documents then lists the
 * documents before the mistake. */
bool tnm_tree_read(tn__arena *arena, tnm_diags *diags, uint32_t file,
                   tnm_tree **documents);

/* Registers a text in quotes of one line that begins at `pos`. The file may
 * contain longer escapes for its characters, so messages about it must count
 * the characters of the file. */
void tnm_diags_add_quoted(tnm_diags *diags, tnm_pos pos, const char *text);

/* The text of a file known to `diags`. */
const char *tnm_diags_get_text(const tnm_diags *diags, uint32_t file,
                               size_t *n);

/* Returns the value of a key of a mapping. Returns NULL if the key is absent or
 * its value has a wrong form. */
tnm_tree *tnm_tree_get(const tnm_tree *map, const char *key);

/* Tests whether the mapping has the key, even if its value has a wrong form. */
bool tnm_tree_has(const tnm_tree *map, const char *key);

/* A position with one caret at the beginning of a file. */
tnm_pos tnm_pos_start(uint32_t file);

/* ------------------------------------------------------------------- schema */

/* One key of a mapping. */
typedef struct tnm_key {
  const char *name;
  int forms; /* set of TNM_SCALAR, TNM_LIST, TNM_MAP */
  bool required;
  const char *doc;
} tnm_key;

/* One kind of mapping, for example "a parameter", and the keys that it may
 * have. A key with name NULL ends the keys. */
typedef struct tnm_schema {
  const char *what;
  const char *noun;
  const tnm_key *keys;
  bool open; /* true: the mapping may have other keys, for example names of
                operands; another function checks those */
} tnm_schema;

extern const tnm_schema tnm_schema_plugin;
extern const tnm_schema tnm_schema_operator;
extern const tnm_schema tnm_schema_family;
extern const tnm_schema tnm_schema_member;
extern const tnm_schema tnm_schema_kernels_for;
extern const tnm_schema tnm_schema_param;
extern const tnm_schema tnm_schema_input;
extern const tnm_schema tnm_schema_output;
extern const tnm_schema tnm_schema_aux;
extern const tnm_schema tnm_schema_hook;
extern const tnm_schema tnm_schema_line;
extern const tnm_schema tnm_schema_require;
extern const tnm_schema tnm_schema_deprecated;
extern const tnm_schema tnm_schema_gradient;
extern const tnm_schema tnm_schema_kernel;
extern const tnm_schema tnm_schema_state;
extern const tnm_schema tnm_schema_workspace;
extern const tnm_schema tnm_schema_example;
extern const tnm_schema tnm_schema_gradcheck;
extern const tnm_schema tnm_schema_binding;
extern const tnm_schema tnm_schema_bound_arg;
extern const tnm_schema tnm_schema_result;

/* All kinds of mappings, for the documentation. NULL ends the list. */
extern const tnm_schema *const tnm_schemas[];

/* Checks the keys of a mapping and the forms of their values. Returns false if
 * `value` is no mapping. Values of a wrong form are removed from the mapping.
 */
bool tnm_schema_keys(tnm_diags *diags, const tnm_schema *schema,
                     tnm_tree *value);
/* Reports missing required keys. */
void tnm_schema_required(tnm_diags *diags, const tnm_schema *schema,
                         const tnm_tree *value);
/* Checks the keys of a mapping, the forms of their values, and that all
 * required keys exist. Returns false if `value` is no mapping. */
bool tnm_schema_check(tnm_diags *diags, const tnm_schema *schema,
                      tnm_tree *value);

/* ------------------------------------------------------------------ scalars */

/* Reads a whole number from `min` to `max`. This function and the others with
 * the result bool in this part return false after a message. */
bool tnm_read_int(tnm_diags *diags, const tnm_tree *node, int64_t min,
                  int64_t max, int64_t *out);
bool tnm_read_u32(tnm_diags *diags, const tnm_tree *node, uint32_t min,
                  uint32_t *out);
bool tnm_read_double(tnm_diags *diags, const tnm_tree *node, double *out);
bool tnm_read_bool(tnm_diags *diags, const tnm_tree *node, bool *out);
/* Returns the index of the scalar's word in `words`; -1 after a message. `what`
 * names the kind of words in that message ("a device"). */
int tnm_read_word(tnm_diags *diags, const tnm_tree *node, const char *what,
                  const char *const *words);
/* Reads a type name ("f32"). */
bool tnm_read_dtype(tnm_diags *diags, const tnm_tree *node, tn_dtype *out);
/* Reads a set of type names from a list. */
bool tnm_read_dtypes(tnm_diags *diags, const tnm_tree *list, uint64_t *out);
/* Checks that a node is a scalar and not empty. `what` describes the expected
 * value for messages ("a device"). */
bool tnm_check_scalar(tnm_diags *diags, const tnm_tree *node, const char *what);
/* Checks a lower-case name that users write and that C code contains. `what`
 * describes the named thing for messages ("an operator"). */
bool tnm_read_name(tnm_diags *diags, const tnm_tree *node, const char *what);
/* Checks the words of a family of operators. */
bool tnm_read_family(tnm_diags *diags, const tnm_tree *node);
/* Checks a name that expressions use and that becomes the name of a struct
 * member; rejects keywords. `what` describes the named thing for messages. */
bool tnm_read_member_name(tnm_diags *diags, const tnm_tree *node,
                          const char *what);
/* Checks the name of a function or type of the author's C code. */
bool tnm_read_symbol(tnm_diags *diags, const tnm_tree *node);
/* Checks that a node is a scalar on one line, as expressions must be. */
bool tnm_read_line(tnm_diags *diags, const tnm_tree *node);

/* Parse an integer or a floating-point number as users write it. Return false
 * for any other text. */
bool tnm_parse_int(const char *text, int64_t *out);
bool tnm_parse_double(const char *text, double *out);
/* Returns the form that a text should have had, for messages about a text that
 * is no valid integer: "a whole number", or "a whole number of 64 bits" if the
 * number is too large. */
const char *tnm_expected_int(const char *text);
const char *tnm_expected_double(const char *text);

/* Adds a help line to message `id`: the candidate that is similar to `word`, or
 * the list of all candidates. */
void tnm_suggest_word(tnm_diags *diags, size_t id, const char *word,
                      const char *const *candidates, size_t n);
/* The same with the names of element types. */
void tnm_suggest_dtype(tnm_diags *diags, size_t id, const char *word);

/* ------------------------------------------------------------------ reading */

/* The state of reading one plugin. */
typedef struct tnm_reader {
  const tn__env *env;
  tn__arena *arena;
  tnm_diags *diags;
  const tnm_read_options *options;
  const tnm_text *text; /* replaces a file; may be NULL */
  const char *name;     /* name of the plugin */
  uint32_t release;
  const char *init_symbol; /* name of the author's function for tn_plugin.init;
                              NULL: none */
  const char *fini_symbol;
  bool target_only;  /* true: read only the operators; skip kernels_for
                        documents, and do not check calls in gradients */
  tn__vec operators; /* tnm_operator * */
  tn__vec files;     /* const char * */
  tn__map names;     /* tnm_operator * by name */
  tn__map kernels;   /* tnm_kernel * by id */
  tn__vec targets;   /* tnm_with_plugin *, read from the paths options->with */
  bool targets_read; /* `targets` has all paths of options->with */
  tn__vec calls;     /* tnm_call *, the calls in graphs of gradients */
  bool whole;        /* the reader has read all files of the plugin */
  const char
      *plugin_file; /* if only one manifest is read: path of the plugin.yaml
                       beside it; NULL after `siblings` has been read */
  const tn_plugin *siblings; /* tables of the plugin that `plugin_file`
                                describes; NULL before they are needed */
} tnm_reader;

/* One parameter of a call in the graph of a gradient. */
typedef struct tnm_call_param {
  const char *name;
  tnm_pos pos;
  tnm_tree value; /* TNM_SCALAR; "$alpha" means the caller's `alpha` */
  struct tnm_call_param *next;
} tnm_call_param;

typedef struct tnm_call {
  const char *plugin;
  const char *op; /* name of the operator, without the plugin's name */
  tnm_pos pos;    /* position of the operator's name */
  int64_t interface;
  uint32_t n_in;
  tnm_call_param *params;
} tnm_call;

/* Checks all calls in the graphs of gradients, after all operators have been
 * read. A call of a plugin that is not available is checked later, when a host
 * computes the gradient. */
void tnm_check_calls(tnm_reader *reader);
/* Finds the operator "plugin.op@1" in the plugin that is being read, or in the
 * plugins of `--with`. Returns NULL if none has it. */
const tn_op *tnm_find_called(tnm_reader *reader, const char *name);
/* Reports gradients with a graph that computes another shape than that of the
 * input, if the patterns of shapes suffice to decide it. Call it after
 * tnm_check_calls. */
void tnm_check_graph_shapes(tnm_reader *reader);

void tnm_reader_init(tnm_reader *reader, const tn__env *env, tn__arena *arena,
                     tnm_diags *diags);
void tnm_reader_deinit(tnm_reader *reader);
/* Appends an item; false when memory ran out. */
bool tnm_reader_push(tnm_reader *reader, tn__vec *vec, void *item);

/* The operands of one list: inputs, outputs or auxiliary states. */
typedef struct tnm_operands {
  tn_arg **v;
  const tnm_tree **nodes;
  const char **names;
  uint32_t n;
  uint32_t list; /* TN_OPERAND_* */
} tnm_operands;

/* The operator that is lowered now. */
typedef struct tnm_lower {
  tnm_reader *reader;
  tn__arena *arena;
  tnm_diags *diags;
  const tnm_tree *doc;     /* mapping of the operator; for a member of a family,
                              with the shared keys */
  const char *target_name; /* name of the operator of the kernels,
                              "nn.convolution@1" */
  tn_op *op;
  tn_gradient *gradient; /* the gradient of op */
  tnm_operator *out;
  tn_field **params;
  tnm_axes *axes;           /* becomes out->axes; NULL: no formula reduces */
  tnm_operands operands[3]; /* index: TN_OPERAND_* */
  /* The flags below prevent messages about the consequences of a mistake that
   * was already reported. */
  bool incomplete; /* a parameter or operand was dropped */
  bool untyped;    /* the type of an operand is invalid */
  bool unshaped;   /* the shape of an operand is invalid */
  size_t n_errors; /* number of errors before this operator */
  tnm_scope scope;
  tnm_program program;
} tnm_lower;

/* Allocates an array of n zeroed `type` in an arena; NULL when memory ran
 * out. */
#define TNM_NEW(arena, type, n) \
  ((type *)tnm_alloc_array((arena), (n), sizeof(type)))
void *tnm_alloc_array(tn__arena *arena, size_t n, size_t size) TN_MUST_USE;
/* Formats text into an arena; NULL when memory ran out. */
char *tnm_format_text(tn__arena *arena, const char *format, ...)
    TN_PRINTF(2, 3);

/* Returns the begin of the kernel ids of an operator: "plugin.op", or
 * "plugin.op.v2" for interface 2. So two interfaces of one operator can be
 * loaded together. */
const char *tnm_kernel_stem(const tnm_lower *lower);

/* The text of a key, or NULL. */
const char *tnm_get_text(const tnm_tree *map, const char *key);
/* Returns the boolean value of a key of a mapping; false if the mapping does
 * not have the key. */
bool tnm_get_bool(tnm_diags *diags, const tnm_tree *map, const char *key);

/* A set of names; each may occur once. */
typedef struct tnm_unique {
  const tnm_tree **v;
  size_t n;
} tnm_unique;
bool tnm_unique_init(tnm_unique *names, tn__arena *arena, size_t capacity);
/* Adds the name in `node` to the set. Returns false after a message if the set
 * already has that name. */
bool tnm_unique_add(tnm_unique *names, tnm_diags *diags, const tnm_tree *node);

/* The values of the keys `since` and `deprecated` of an operator, parameter or
 * operand. Both are releases, from `least` to the release of the plugin. */
typedef struct tnm_life {
  uint32_t since;
  uint32_t deprecated_since;
  const char *use;
} tnm_life;
tnm_life tnm_read_life(const tnm_reader *reader, const tnm_tree *map,
                       uint32_t least);
/* Reports a mistake if `since` is lower than `before`, the `since` of the
 * previous item of the list. */
void tnm_check_since(tnm_diags *diags, const tnm_tree *map, const char *what,
                     uint32_t before, uint32_t since);

/* Checks that a document has the key `opgen: 1`, the only format. The check of
 * the schema reports a missing key. If the function returns false, the caller
 * skips the document. */
bool tnm_check_format(tnm_reader *reader, const tnm_tree *document);

/* The functions below are the steps of lowering, in order. Each one reports
 * mistakes and keeps all valid results. */
void tnm_lower_document(tnm_reader *reader, tnm_tree *document,
                        const char *file);
/* Lowers one operator from its mapping `doc`. `parent` is the operator that the
 * new one was derived from; NULL if an author wrote the mapping. */
tnm_operator *tnm_lower_one(tnm_reader *reader, const tnm_tree *doc,
                            const char *file, const tnm_operator *parent);
/* Appends an operator NAME_grad for each operator NAME with a gradient of
 * formulas, unless the manifests define NAME_grad. NAME_grad computes that
 * gradient, so it can be differentiated again. */
void tnm_lower_second_order(tnm_reader *reader);
void tnm_lower_kernels_for(tnm_reader *reader, const tnm_tree *document,
                           const char *file);
/* Appends an operator to the reader's list. */
tnm_operator *tnm_new_operator(tnm_reader *reader, const char *file,
                               tnm_pos pos);

/* Lowers a list of parameters or options to fields of a C struct, with their
 * offsets. *size becomes the size of that struct. */
tn_field **tnm_lower_fields(const tnm_reader *reader, const tnm_tree *list,
                            uint32_t since, uint32_t *n, uint32_t *size);
/* Reports a key that has no meaning for the type of the field. The help line
 * `types_with_key` names the types with that key. */
void tnm_report_meaningless_key(tnm_diags *diags, const tn_field *f,
                                const tnm_tree *value,
                                const char *types_with_key);
/* Reads the bounds of a field from its mapping. */
void tnm_lower_limits(tnm_diags *diags, const tnm_tree *node, tn_field *f);
/* Compare a value with the bounds of a field. If it is outside, `rule` becomes
 * the violated rule: "at least 1". */
bool tnm_check_int_limits(const tn_field *f, int64_t value, char rule[64]);
bool tnm_check_float_limits(const tn_field *f, double value, char rule[64]);
/* Checks that text is a value of a field; otherwise reports it at `node`. */
bool tnm_check_value(tnm_diags *diags, const tn_field *field,
                     const tnm_tree *node, const char *what);
/* Prints a scalar or list in the notation of users, for example "[1, 2]". */
const char *tnm_value_text(tn__arena *arena, const tnm_tree *node);

void tnm_lower_dtypes(tnm_lower *lower);
void tnm_lower_operands(tnm_lower *lower);
void tnm_lower_shapes(tnm_lower *lower);
void tnm_lower_requires(tnm_lower *lower);
/* Reports inputs and states with a shape that no rule of the operator relates
 * to the shapes of its other inputs and states. */
void tnm_check_related(const tnm_lower *lower);
void tnm_lower_forward(tnm_lower *lower);
void tnm_lower_gradient(tnm_lower *lower);
/* Lowers `gradient: auto`, the value at `at`: derives the gradient of each
 * input from the formulas of `forward`. all[i] becomes the gradient of input i.
 */
void tnm_lower_auto(tnm_lower *lower, const tnm_tree *at,
                    tn_input_gradient **all);
/* Tests whether the operator is the gradient of a broadcasting operator: it
 * computes over the shape to which its inputs are broadcast, and sums an output
 * down to the shape of an input. */
bool tnm_is_summed(const tnm_lower *lower);
/* Sets the formula, the needs and the in-place input of each input gradient in
 * `all`, and the operator's backward formulas. Inputs under `stop` get no
 * gradient. */
void tnm_set_formulas(tnm_lower *lower, tnm_formula *formulas,
                      tn_input_gradient **all);
/* Lowers one entry of `gradient: {graph: ...}` to the steps that compute the
 * gradient of one input. */
void tnm_lower_graph(tnm_lower *lower, const tnm_tree *entry,
                     tn_input_gradient *gradient);
/* Lowers `gradient: {linear: ...}`; `list` may be NULL. all[i] is the gradient
 * of input i, with its needs already set. */
void tnm_lower_linear(tnm_lower *lower, const tnm_tree *list,
                      tn_input_gradient **all);
/* Reports that the operator has no operand of that name. */
void tnm_report_operand(tnm_lower *lower, tnm_pos pos, uint32_t list,
                        const char *name);
/* Checks that no operand that a formula reads or writes may have a storage
 * type. `target` is the operand that it computes, or whose gradient. */
void tnm_check_no_storage(const tnm_lower *lower, const tnm_formula *formula,
                          const tn_arg *target);
/* Tests whether calls with storage types have a kernel written by hand beside
 * the formulas; also true for NAME_grad, which no such call reaches. */
bool tnm_has_storage_kernel(const tnm_lower *lower);
/* Reports functions in a forward formula that are not defined for integers, if
 * an operand of the formula may have an integer type. */
void tnm_check_classes(const tnm_lower *lower, const tnm_formula *formula);
void tnm_lower_generated(tnm_lower *lower);
/* Lowers the key `axes`, after the parameters. */
void tnm_lower_axes(tnm_lower *lower);
/* Reads the shape `{line: axes}` or `{place: axes}` of an operand of a list. */
void tnm_read_line_shape(tnm_lower *lower, tnm_tree *map, uint32_t list,
                         tn_arg *arg);
/* Finds the loop and the levels of the operands of an operator with axes, after
 * all shapes. */
void tnm_lower_levels(tnm_lower *lower);
/* Checks that opgen can generate kernels for the formulas of an operator with
 * axes; `at` is the key of the formulas. Returns false after a message. */
bool tnm_check_lines(tnm_lower *lower, const tnm_tree *at);
/* Tests whether NAME_grad can be an operator with axes: no gradient is a sum
 * over lines, and the formulas of the gradients are within the limits. */
bool tnm_has_line_gradient(const tnm_operator *op);
/* Adds the flags of a kernel over lines, and TN_WRITES_INPLACE if one output
 * alone has an element for each of the loop, and may have the memory of an
 * input. */
void tnm_set_line_flags(const tnm_lower *lower, tn_kernel *kernel);
/* Reports that no kernel can be generated from a formula because operand `name`
 * has the property `why`. Returns false, for the caller to return. */
bool tnm_refuse_formula(tnm_lower *lower, const tnm_tree *at, const char *name,
                        const char *why, const char *help);
void tnm_lower_kernels(tnm_lower *lower);

/* Adds a pair to those of the operator, for one pass (TN_PASS_*). */
void tnm_add_inplace(tnm_lower *lower, uint32_t pass, tn_inplace pair);
bool tnm_has_inplace(const tnm_lower *lower, uint32_t pass, tn_inplace pair);
/* Reports a name that a list `inplace` has twice. */
void tnm_report_second_inplace(tnm_lower *lower, const tnm_tree *name);
/* Lowers `inplace` of a gradient by kernels; `map` may be NULL. all[i] is the
 * gradient of input i, with its needs already set. */
void tnm_lower_gradient_inplace(tnm_lower *lower, const tnm_tree *map,
                                tn_input_gradient **all);
/* Lists the pairs of a gradient by formulas, one for each input (`expr` NULL:
 * none). all[i] is the gradient of input i, with its needs already set. */
void tnm_list_formula_inplace(tnm_lower *lower, const tnm_formula *formulas,
                              tn_input_gradient **all);
/* Lists the pairs of an operator of another plugin. `described` is its
 * manifest; NULL: only its tables are known. */
void tnm_list_target_inplace(tnm_lower *lower, const tnm_operator *described);
/* Sets the pairs of a generated kernel: those of the operator that its formulas
 * permit. */
void tnm_set_generated_inplace(tnm_lower *lower, tn_kernel *kernel,
                               const tnm_formula *formulas, size_t n);
/* Sets the pairs of a written kernel for its pass: the declared ones of the
 * operator, or those in `map`, the kernel's key `inplace`. */
void tnm_set_kernel_inplace(tnm_lower *lower, const tnm_tree *map,
                            tn_kernel *kernel);
/* Reports keys in a kernel's `inplace` that are no output, and one of a kernel
 * that does not work in place. `map` may be NULL. */
void tnm_check_kernel_inplace(tnm_lower *lower, const tnm_tree *map,
                              uint32_t writes);
void tnm_lower_examples(tnm_lower *lower);
void tnm_lower_binding(tnm_lower *lower);

/* Tests whether the list under `key` of the document has exactly `n` items: the
 * reader has dropped no invalid item. An absent list counts as whole. */
bool tnm_is_whole(const tnm_lower *lower, const char *key, uint32_t n);

/* Returns the index of the operand with this name in a list (TN_OPERAND_*);
 * TN_NONE if the list has no such operand. */
uint32_t tnm_find_operand(const tnm_lower *lower, uint32_t list,
                          const char *name);

/* Finds the operand or output gradient that a name in `needs` means. Returns
 * false if the name is unknown. */
bool tnm_find_need(const tnm_lower *lower, const char *name, tn_need *need);
/* Returns the set of element types that an operand may have. */
uint64_t tnm_operand_dtypes(const tn_op *op, const tn_arg *arg);
/* Tests whether two operands have the same declared type. */
bool tnm_has_same_dtype(const tn_arg *a, const tn_arg *b);
/* Tests whether two operands have the same shape in every call. */
bool tnm_has_same_shape(const tnm_lower *lower, const tn_arg *a,
                        const tn_arg *b);
/* Tests whether an operand may have a floating type, so that it may have a
 * gradient. */
bool tnm_is_float(const tnm_lower *lower, const tn_arg *arg);
#define TNM_FLOATS (TN_BIT_F16 | TN_BIT_BF16 | TN_BIT_F32 | TN_BIT_F64)
/* Returns the types that a type variable may have in a backward call: the
 * floating types of `allowed`, or all of `allowed` if it has no floating type.
 */
uint64_t tnm_float_types(uint64_t allowed);

/* A plugin from `--with`, or some of its operators. */
typedef struct tnm_with_plugin {
  const tn_plugin *plugin;
  const tnm_operator **operators; /* operators that manifests describe; none if
                                     the plugin is built */
  size_t n_operators;
  bool whole; /* the reader has read all files of the plugin */
} tnm_with_plugin;

/* Lowers the mapping `requires` of plugin.yaml to plugin->dependencies. `map`
 * is NULL without that key. */
void tnm_lower_dependencies(tnm_reader *reader, const tnm_tree *map,
                            tn_plugin *plugin);

/* Returns a list of the plugins of `--with`, in their order on the command
 * line. A plugin may occur several times, each time with some of its operators.
 */
const tn__vec *tnm_list_with(tnm_reader *reader);

/* Reads the whole plugin of which the reader reads one file only. Returns NULL
 * if the plugin has no plugin.yaml or has mistakes, which are not reported. */
const tn_plugin *tnm_read_siblings(tnm_reader *reader);

/* Reads a plugin's manifests into the reader. Returns the tables of the plugin,
 * or NULL after a message or if memory ran out. If `path` is NULL, the text
 * reader->text is the whole plugin. */
tn_plugin *tnm_read_tables(tnm_reader *reader, const char *path);

#endif /* TENON_MANIFEST_FRONT_H_ */
