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
  TNM_MAX_NAME = 64
};

/* Decodes one character of UTF-8; returns its number of bytes, 0 if invalid. */
size_t tnm_decode_utf8(const char *text, size_t n, uint32_t *out);

/* Columns of a terminal for a character: 0, 1 or 2. */
int tnm_character_width(uint32_t character);

/* Refuses bytes that no manifest may contain: NUL, invalid UTF-8, control
 * characters, tabs. Adds at most one message. */
bool tnm_text_check(tnm_diags *diags, uint32_t file, const char *text,
                    size_t n);

/* True after a message was lost because memory ran out. */
bool tnm_diags_has_failed(const tnm_diags *diags);

/* --------------------------------------------------------------------- tree */

/* Bits, because the schema uses sets of them. */
enum { TNM_SCALAR = 1, TNM_LIST = 2, TNM_MAP = 4 };

/* One value. Children form a list; the children of a mapping have keys. */
typedef struct tnm_tree {
  int kind;
  bool plain;       /* a scalar without quotes */
  bool one_line;    /* a scalar that begins and ends on one line */
  const char *text; /* of a scalar */
  tnm_pos pos; /* its position; within quotes, the position of the content */
  const char *key;
  tnm_pos key_pos;
  struct tnm_tree *first;
  struct tnm_tree *next;
  size_t n;
} tnm_tree;

/* Reads every YAML document of a checked text. False after a message or when
 * memory ran out; the documents before the mistake are kept in a list. */
bool tnm_tree_read(tn__arena *arena, tnm_diags *diags, uint32_t file,
                   tnm_tree **documents);

/* Registers a one-line text in quotes at `pos`. Its escapes are longer than the
 * characters they represent; messages then count the characters of the file. */
void tnm_diags_add_quoted(tnm_diags *diags, tnm_pos pos, const char *text);

/* The text of a file known to `diags`. */
const char *tnm_diags_get_text(const tnm_diags *diags, uint32_t file,
                               size_t *n);

/* The value of a key, or NULL; a value of a wrong form counts as absent. */
tnm_tree *tnm_tree_get(const tnm_tree *map, const char *key);

/* Tests for the key, even with a value of a wrong form. */
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

/* One kind of mapping: "a parameter", its keys, ended by a key without a
 * name. */
typedef struct tnm_schema {
  const char *what;
  const char *noun;
  const tnm_key *keys;
  bool open; /* other keys are names that another function checks */
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

/* Every kind of mapping, for documentation. Ended by NULL. */
extern const tnm_schema *const tnm_schemas[];

/* Checks the keys of a value and the forms of their values. False if the value
 * is no mapping; values of a wrong form are removed from it. */
bool tnm_schema_keys(tnm_diags *diags, const tnm_schema *schema,
                     tnm_tree *value);
/* Reports missing required keys. */
void tnm_schema_required(tnm_diags *diags, const tnm_schema *schema,
                         const tnm_tree *value);
/* Does both. */
bool tnm_schema_check(tnm_diags *diags, const tnm_schema *schema,
                      tnm_tree *value);

/* ------------------------------------------------------------------ scalars */

/* Reads a whole number from `min` to `max`; false after a message. */
bool tnm_read_int(tnm_diags *diags, const tnm_tree *node, int64_t min,
                  int64_t max, int64_t *out);
bool tnm_read_u32(tnm_diags *diags, const tnm_tree *node, uint32_t min,
                  uint32_t *out);
bool tnm_read_double(tnm_diags *diags, const tnm_tree *node, double *out);
bool tnm_read_bool(tnm_diags *diags, const tnm_tree *node, bool *out);
/* The index of the word in `words`; `what` names their kind ("a device"). -1
 * after a message. */
int tnm_read_word(tnm_diags *diags, const tnm_tree *node, const char *what,
                  const char *const *words);
/* Reads a type name ("f32"). */
bool tnm_read_dtype(tnm_diags *diags, const tnm_tree *node, tn_dtype *out);
/* Reads a set of type names from a list. */
bool tnm_read_dtypes(tnm_diags *diags, const tnm_tree *list, uint64_t *out);
/* Checks for a scalar with a value; reports everything else. */
bool tnm_check_scalar(tnm_diags *diags, const tnm_tree *node, const char *what);
/* Reads a name for users and for C, in lower case; `what` is the named
 * thing. */
bool tnm_read_name(tnm_diags *diags, const tnm_tree *node, const char *what);
/* Reads a name for expressions and structs; refuses keywords. */
bool tnm_read_member_name(tnm_diags *diags, const tnm_tree *node,
                          const char *what);
/* Checks the name of a function or type of the author's C code. */
bool tnm_read_symbol(tnm_diags *diags, const tnm_tree *node);
/* Checks for a one-line scalar, as expressions require. */
bool tnm_read_line(tnm_diags *diags, const tnm_tree *node);

/* Parses an integer as users write it; false for any other text. */
bool tnm_parse_int(const char *text, int64_t *out);
bool tnm_parse_double(const char *text, double *out);
/* The expected form of a text that is no integer: "a whole number", or, if it
 * is only too large, "a whole number of 64 bits". */
const char *tnm_expected_int(const char *text);
const char *tnm_expected_double(const char *text);

/* Adds help "did you mean", or, if no word is near, the list of words. */
void tnm_suggest_word(tnm_diags *diags, size_t id, const char *word,
                      const char *const *candidates, size_t n);

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
  const char *init_symbol; /* symbols of tn_plugin.init and fini, or NULL */
  const char *fini_symbol;
  bool target_only;  /* only its operators are needed: skips kernels_for and the
                        checks of calls in gradients */
  tn__vec operators; /* tnm_operator * */
  tn__vec files;     /* const char * */
  tn__map names;     /* tnm_operator * by name */
  tn__map kernels;   /* tnm_kernel * by id */
  tn__vec targets;   /* tnm_with_plugin * of options->with */
  bool targets_read;
  tn__vec calls; /* tnm_call *, of gradients */
  bool whole;    /* all of the plugin was read */
  const char
      *beside; /* plugin.yaml in the folder of the one file that is read */
  const tn_plugin *siblings; /* its operators, read at the first use */
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
  const char *op; /* without the plugin's name */
  tnm_pos pos;    /* position of that name */
  int64_t interface;
  uint32_t n_in;
  tnm_call_param *params;
} tnm_call;

/* Checks reader->calls, once all operators are known. A call of a plugin that
 * is not available is checked when a gradient is computed. */
void tnm_check_calls(tnm_reader *reader);
/* Finds operator "plugin.op@1" in the plugin that is read or in a plugin of
 * `--with`; NULL if it is unknown. */
const tn_op *tnm_find_called(tnm_reader *reader, const char *name);
/* Reports gradients with graphs that contradict the shapes of their operators,
 * as far as patterns decide. Call it after tnm_check_calls. */
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
  const tnm_tree *doc;     /* of a family's member: with the shared keys */
  const char *target_name; /* "nn.convolution@1": the operator of its kernels */
  tn_op *op;
  tn_gradient *gradient; /* the gradient of op */
  tnm_operator *out;
  tn_field **params;
  tnm_operands operands[3]; /* by TN_OPERAND_* */
  /* One mistake is reported once: consequences of it are skipped. */
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

/* The beginning of kernel ids: "plugin.op", and from interface 2 on
 * "plugin.op.v2", so that two interfaces of one operator can be loaded
 * together. */
const char *tnm_kernel_stem(const tnm_lower *lower);

/* The text of a key, or NULL. */
const char *tnm_get_text(const tnm_tree *map, const char *key);
/* The truth value of a key; false if there is none. */
bool tnm_get_bool(tnm_diags *diags, const tnm_tree *map, const char *key);

/* A set of names; each may occur once. */
typedef struct tnm_unique {
  const tnm_tree **v;
  size_t n;
} tnm_unique;
bool tnm_unique_init(tnm_unique *names, tn__arena *arena, size_t capacity);
/* False after a message if the set already has the name. */
bool tnm_unique_add(tnm_unique *names, tnm_diags *diags, const tnm_tree *node);

/* `since` and `deprecated` of any item: from `least` to the plugin's
 * release. */
typedef struct tnm_life {
  uint32_t since;
  uint32_t deprecated_since;
  const char *use;
} tnm_life;
tnm_life tnm_read_life(const tnm_reader *reader, const tnm_tree *map,
                       uint32_t least);
/* Reports a `since` that is lower than the one of the item before it. */
void tnm_check_since(tnm_diags *diags, const tnm_tree *map, const char *what,
                     uint32_t before, uint32_t since);

/* Checks for `opgen: 1`, the only format; the schema reports its absence. After
 * false, the document is skipped. */
bool tnm_check_format(tnm_reader *reader, const tnm_tree *document);

/* The steps, in order; each reports its mistakes and keeps all valid
 * results. */
void tnm_lower_document(tnm_reader *reader, tnm_tree *document,
                        const char *file);
/* Lowers one operator from its mapping; `parent` if it was derived. */
tnm_operator *tnm_lower_one(tnm_reader *reader, const tnm_tree *doc,
                            const char *file, const tnm_operator *parent);
/* Appends NAME_grad for every earlier operator with formulas as gradients,
 * unless the manifests define it. */
void tnm_lower_second_order(tnm_reader *reader);
void tnm_lower_kernels_for(tnm_reader *reader, const tnm_tree *document,
                           const char *file);
/* Appends an operator to the reader's list. */
tnm_operator *tnm_new_operator(tnm_reader *reader, const char *file,
                               tnm_pos pos);

/* Lowers a list of parameters or options to fields with offsets. `size` gets
 * the size of the struct. */
tn_field **tnm_lower_fields(const tnm_reader *reader, const tnm_tree *list,
                            uint32_t since, uint32_t *n, uint32_t *size);
/* Checks that text is a value of a field; otherwise reports it at `node`. */
bool tnm_check_value(tnm_diags *diags, const tn_field *field,
                     const tnm_tree *node, const char *what);
/* A scalar or list in the notation of users: "[1, 2]". */
const char *tnm_value_text(tn__arena *arena, const tnm_tree *node);

void tnm_lower_dtypes(tnm_lower *lower);
void tnm_lower_operands(tnm_lower *lower);
void tnm_lower_shapes(tnm_lower *lower);
void tnm_lower_requires(tnm_lower *lower);
/* Reports inputs and states with a shape that no rule relates to the others. */
void tnm_check_related(const tnm_lower *lower);
void tnm_lower_forward(tnm_lower *lower);
void tnm_lower_gradient(tnm_lower *lower);
/* Lowers `gradient: auto` at `at`; all[] are the op's input gradients. */
void tnm_lower_auto(tnm_lower *lower, const tnm_tree *at,
                    tn_input_gradient **all);
/* Tests for the gradient of a broadcast: an input has the shape of the loop,
 * and outputs are summed to the shapes of other inputs. */
bool tnm_is_summed(const tnm_lower *lower);
/* Sets text, needs and in-place of each input gradient in `all` from its
 * formula, and the operator's backward formulas. Inputs under `stop` get none.
 */
void tnm_set_formulas(tnm_lower *lower, tnm_formula *formulas,
                      tn_input_gradient **all);
/* Lowers one entry of `gradient: {graph: ...}`: the steps of one input's
 * gradient. */
void tnm_lower_graph(tnm_lower *lower, const tnm_tree *entry,
                     tn_input_gradient *gradient);
/* Lowers `gradient: {linear: ...}`, or NULL; all[] are the op's input
 * gradients, with their needs. */
void tnm_lower_linear(tnm_lower *lower, const tnm_tree *list,
                      tn_input_gradient **all);
/* Reports that the operator has no operand of that name. */
void tnm_report_operand(tnm_lower *lower, tnm_pos pos, uint32_t list,
                        const char *name);
/* Reports functions in a formula of `forward` that integers do not have, if its
 * operands may be integers. */
void tnm_check_classes(const tnm_lower *lower, const tnm_formula *formula);
void tnm_lower_generated(tnm_lower *lower);
void tnm_lower_kernels(tnm_lower *lower);
void tnm_lower_examples(tnm_lower *lower);
void tnm_lower_binding(tnm_lower *lower);

/* Tests whether all n items of a list of the document were valid. */
bool tnm_is_whole(const tnm_lower *lower, const char *key, uint32_t n);

/* Index of a name in a list (TN_OPERAND_*), or TN_NONE. */
uint32_t tnm_find_operand(const tnm_lower *lower, uint32_t list,
                          const char *name);

/* Tests whether two operands have the same shape in every call. */
bool tnm_has_same_shape(const tnm_lower *lower, const tn_arg *a,
                        const tn_arg *b);
/* Tests whether an input is differentiable: its type may be a float. */
bool tnm_is_float(const tnm_lower *lower, const tn_arg *arg);
#define TNM_FLOATS (TN_BIT_F16 | TN_BIT_BF16 | TN_BIT_F32 | TN_BIT_F64)
/* The types of a variable that occur in a gradient: the floating ones, or all
 * if none is. */
uint64_t tnm_float_types(uint64_t allowed);

/* A plugin from `--with`, or some of its operators. */
typedef struct tnm_with_plugin {
  const tn_plugin *plugin;
  const tnm_operator **operators; /* described in manifests */
  size_t n_operators;
  bool whole; /* all of the plugin was read */
} tnm_with_plugin;

/* Lowers `requires` of plugin.yaml, a mapping or NULL, to
 * plugin->dependencies. */
void tnm_lower_dependencies(tnm_reader *reader, const tnm_tree *map,
                            tn_plugin *plugin);

/* The plugins of `--with`, in that order; one plugin may occur several
 * times. */
const tn__vec *tnm_list_with(tnm_reader *reader);

/* All operators of the plugin that the one file belongs to. NULL if the plugin
 * has no plugin.yaml or has mistakes; this reader does not report those. */
const tn_plugin *tnm_read_siblings(tnm_reader *reader);

/* Reads a plugin's manifests into the reader. Returns its tables, or NULL after
 * a message or when memory ran out. `path` NULL: reader->text is the plugin. */
tn_plugin *tnm_read_tables(tnm_reader *reader, const char *path);

#endif /* TENON_MANIFEST_FRONT_H_ */
