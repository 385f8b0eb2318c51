/* SPDX-License-Identifier: Apache-2.0
 * front.h: what the files of the front end share: text, the tree of a manifest,
 * the schema, and the state of a reading. For sdk/manifest only; everything
 * that others may use stands in manifest.h.
 */
#ifndef TENON_MANIFEST_FRONT_H_
#define TENON_MANIFEST_FRONT_H_

#include "manifest.h"

/* -------------------------------------------------------------------- text */

/* Bounds of one manifest. */
enum {
  TNM_MAX_DEPTH = 32,
  TNM_MAX_VALUES = 100000,
  TNM_MAX_KEYS = 1000,
  TNM_MAX_NAME = 64
};

/* Decodes one character of UTF-8; returns its bytes, 0 if they are invalid. */
size_t tnm_utf8(const char *text, size_t n, uint32_t *out);

/* Columns of a terminal that a character takes: 0, 1 or 2. */
int tnm_width(uint32_t character);

/* Refuses bytes that no manifest may hold: NUL, invalid UTF-8, control
 * characters, tabs. One message at most. */
bool tnm_text_check(tnm_diags *diags, uint32_t file, const char *text,
                    size_t n);

/* True once a message could not be kept for want of memory. */
bool tnm_diags_failed(const tnm_diags *diags);

/* -------------------------------------------------------------------- tree */

/* Bits, because the schema states sets of them. */
enum { TNM_SCALAR = 1, TNM_LIST = 2, TNM_MAP = 4 };

/* One value. Children form a list; those of a mapping carry their key. */
typedef struct tnm_tree {
  int kind;
  bool plain;       /* a scalar without quotes */
  bool one_line;    /* a scalar that begins and ends on one line */
  const char *text; /* of a scalar */
  tnm_pos pos;      /* within quotes, of what they hold */
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

/* Says that a text of one line stands at `pos` within quotes, whose escapes are
 * longer than what they stand for; messages count by the file then. */
void tnm_diags_quoted(tnm_diags *diags, tnm_pos pos, const char *text);

/* The text of a file known to `diags`. */
const char *tnm_diags_text(const tnm_diags *diags, uint32_t file, size_t *n);

/* The value of a key, or NULL; one of a wrong form counts as absent. */
tnm_tree *tnm_tree_get(const tnm_tree *map, const char *key);

/* Whether the key is there, even with a value of a wrong form. */
bool tnm_tree_has(const tnm_tree *map, const char *key);

/* A place with one caret at the beginning of a file. */
tnm_pos tnm_pos_start(uint32_t file);

/* ------------------------------------------------------------------ schema */

/* One key of a mapping. */
typedef struct tnm_key {
  const char *name;
  int forms; /* set of TNM_SCALAR, TNM_LIST, TNM_MAP */
  bool required;
  const char *doc;
} tnm_key;

/* One kind of mapping: "a parameter", its keys, ended by one without a name. */
typedef struct tnm_schema {
  const char *what;
  const char *noun;
  const tnm_key *keys;
  bool open; /* other keys are names that somebody else checks */
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

/* Checks the keys of a value and the forms of what they lead to. False if it is
 * no mapping at all; values of a wrong form are taken out of it. */
bool tnm_schema_keys(tnm_diags *diags, const tnm_schema *schema,
                     tnm_tree *value);
/* Reports the required keys that are missing. */
void tnm_schema_required(tnm_diags *diags, const tnm_schema *schema,
                         const tnm_tree *value);
/* Both. */
bool tnm_schema_check(tnm_diags *diags, const tnm_schema *schema,
                      tnm_tree *value);

/* ----------------------------------------------------------------- scalars */

/* Whole numbers from `min` to `max`; false after a message. */
bool tnm_read_int(tnm_diags *diags, const tnm_tree *node, int64_t min,
                  int64_t max, int64_t *out);
bool tnm_read_u32(tnm_diags *diags, const tnm_tree *node, uint32_t min,
                  uint32_t *out);
bool tnm_read_double(tnm_diags *diags, const tnm_tree *node, double *out);
bool tnm_read_bool(tnm_diags *diags, const tnm_tree *node, bool *out);
/* The index of the word among `words`; `what` says what they are ("a device").
 * -1 after a message. */
int tnm_read_word(tnm_diags *diags, const tnm_tree *node, const char *what,
                  const char *const *words);
/* A type name ("f32"). */
bool tnm_read_dtype(tnm_diags *diags, const tnm_tree *node, tn_dtype *out);
/* A set of type names from a list. */
bool tnm_read_dtypes(tnm_diags *diags, const tnm_tree *list, uint64_t *out);
/* A scalar that holds something; reports what does not. */
bool tnm_check_scalar(tnm_diags *diags, const tnm_tree *node, const char *what);
/* A name for users and for C, in lower case; `what` is what it names. */
bool tnm_read_name(tnm_diags *diags, const tnm_tree *node, const char *what);
/* One that expressions and structs hold too, so that keywords are refused. */
bool tnm_read_member_name(tnm_diags *diags, const tnm_tree *node,
                          const char *what);
/* A function or type of the author's C code. */
bool tnm_read_symbol(tnm_diags *diags, const tnm_tree *node);
/* A scalar of one line, as an expression must be. */
bool tnm_read_line(tnm_diags *diags, const tnm_tree *node);

/* Numbers as users write them; false if there is anything else. */
bool tnm_parse_int(const char *text, int64_t *out);
bool tnm_parse_double(const char *text, double *out);
/* What was expected of a text that is none: "a whole number", or, if it is only
 * too large, "a whole number of 64 bits". */
const char *tnm_int_wanted(const char *text);
const char *tnm_double_wanted(const char *text);

/* Help "did you mean", or, if nothing is near, what there is. */
void tnm_suggest(tnm_diags *diags, size_t id, const char *word,
                 const char *const *candidates, size_t n);

/* ----------------------------------------------------------------- reading */

/* One reading of a plugin. */
typedef struct tnm_reader {
  const tn__env *env;
  tn__arena *arena;
  tnm_diags *diags;
  const tnm_read_options *options;
  const tnm_text *text; /* stands for a file; may be NULL */
  const char *name;     /* of the plugin */
  uint32_t release;
  const char *init_symbol; /* of tn_plugin.init and fini, or NULL */
  const char *fini_symbol;
  bool target_only;  /* read for its operators: kernels_for is passed over, and
                        what gradients call is not looked at */
  tn__vec operators; /* tnm_operator * */
  tn__vec files;     /* const char * */
  tn__map names;     /* tnm_operator * by name */
  tn__map kernels;   /* tnm_kernel * by id */
  tn__vec targets;   /* tnm_given * of options->with */
  bool targets_read;
  tn__vec calls;             /* tnm_call * that gradients make */
  bool whole;                /* all that the plugin has was read */
  const char *beside;        /* plugin.yaml of the one file that is read */
  const tn_plugin *siblings; /* what it lists, once it was asked for */
} tnm_reader;

/* A call in the graph of a gradient. */
typedef struct tnm_call_param {
  const char *name;
  tnm_pos pos;
  tnm_tree value; /* TNM_SCALAR; "$alpha" stands for the caller's `alpha` */
  struct tnm_call_param *next;
} tnm_call_param;

typedef struct tnm_call {
  const char *plugin;
  const char *op; /* without the plugin */
  tnm_pos pos;    /* of that name */
  int64_t interface;
  uint32_t n_in;
  tnm_call_param *params;
} tnm_call;

/* Looks at reader->calls, once all operators are known; what graphs call of
 * plugins that were not given is known when a gradient is computed. */
void tnm_check_calls(tnm_reader *reader);
/* The operator "plugin.op@1" of the plugin that is read or of one that was
 * given; NULL if it is not known. */
const tn_op *tnm_called(tnm_reader *reader, const char *name);
/* Reports gradients whose graphs contradict the shapes of their operators, as
 * far as patterns decide. After tnm_check_calls. */
void tnm_check_graph_shapes(tnm_reader *reader);

void tnm_reader_init(tnm_reader *reader, const tn__env *env, tn__arena *arena,
                     tnm_diags *diags);
void tnm_reader_deinit(tnm_reader *reader);
/* Memory ran out while something was pushed. */
bool tnm_reader_push(tnm_reader *reader, tn__vec *vec, void *item);

/* The operands of one list: inputs, outputs or auxiliary states. */
typedef struct tnm_operands {
  tn_arg **v;
  const tnm_tree **nodes;
  const char **names;
  uint32_t n;
  uint32_t list; /* TN_OPERAND_* */
} tnm_operands;

/* The operator that is being lowered. */
typedef struct tnm_lower {
  tnm_reader *reader;
  tn__arena *arena;
  tnm_diags *diags;
  const tnm_tree *doc;     /* for a member, with what its family shares */
  const char *target_name; /* "nn.convolution@1": what its kernels compute */
  tn_op *op;
  tn_gradient *gradient; /* of op */
  tnm_operator *out;
  tn_field **params;
  tnm_operands operands[3]; /* by TN_OPERAND_* */
  /* One mistake is reported once: what follows from it is passed over. */
  bool incomplete; /* a parameter or operand was dropped */
  bool untyped;    /* the type of an operand is a mistake */
  bool unshaped;   /* the shape of one is */
  size_t n_errors; /* that were reported before the operator */
  tnm_scope scope;
  tnm_program program;
} tnm_lower;

/* An array of n zeroed `type` in an arena; NULL when memory ran out. */
#define TNM_NEW(arena, type, n) ((type *)tnm_array((arena), (n), sizeof(type)))
void *tnm_array(tn__arena *arena, size_t n, size_t size) TN_MUST_USE;
/* printf into an arena; NULL when memory ran out. */
char *tnm_format(tn__arena *arena, const char *format, ...) TN_PRINTF(2, 3);

/* What ids of kernels begin with: "plugin.op", and from interface 2 on
 * "plugin.op.v2", so that releases of one operator stand side by side. */
const char *tnm_kernel_stem(const tnm_lower *lower);

/* The text of a key, or NULL. */
const char *tnm_get_text(const tnm_tree *map, const char *key);
/* The truth value of a key; false if there is none. */
bool tnm_get_bool(tnm_diags *diags, const tnm_tree *map, const char *key);

/* A set of names in which each may stand once. */
typedef struct tnm_unique {
  const tnm_tree **v;
  size_t n;
} tnm_unique;
bool tnm_unique_init(tnm_unique *names, tn__arena *arena, size_t capacity);
/* False after a message if the name is there already. */
bool tnm_unique_add(tnm_unique *names, tnm_diags *diags, const tnm_tree *node);

/* `since` and `deprecated` of anything: from `least` to the plugin's release.
 */
typedef struct tnm_life {
  uint32_t since;
  uint32_t deprecated_since;
  const char *use;
} tnm_life;
tnm_life tnm_read_life(const tnm_reader *reader, const tnm_tree *map,
                       uint32_t least);
/* Reports a `since` that is lower than that of the item before it. */
void tnm_check_since(tnm_diags *diags, const tnm_tree *map, const char *what,
                     uint32_t before, uint32_t since);

/* Whether a document says `opgen: 1`, the only format; one that says nothing
 * is left to the schema. False ends the document. */
bool tnm_check_format(tnm_reader *reader, const tnm_tree *document);

/* The steps, in order; each reports its mistakes and leaves what it could
 * read. */
void tnm_lower_document(tnm_reader *reader, tnm_tree *document,
                        const char *file);
/* One operator from its mapping; `parent` if that was derived. */
tnm_operator *tnm_lower_one(tnm_reader *reader, const tnm_tree *doc,
                            const char *file, const tnm_operator *parent);
/* Appends NAME_grad for every operator so far whose gradients are formulas,
 * unless the manifests define it. */
void tnm_lower_second_order(tnm_reader *reader);
void tnm_lower_kernels_for(tnm_reader *reader, const tnm_tree *document,
                           const char *file);
/* An operator at the end of the reader's list. */
tnm_operator *tnm_new_operator(tnm_reader *reader, const char *file,
                               tnm_pos pos);

/* A list of parameters or options as fields with offsets. `size` gets the size
 * of the struct. */
tn_field **tnm_lower_fields(const tnm_reader *reader, const tnm_tree *list,
                            uint32_t since, uint32_t *n, uint32_t *size);
/* Whether text is a value of a field; reports it at `node` otherwise. */
bool tnm_check_value(tnm_diags *diags, const tn_field *field,
                     const tnm_tree *node, const char *what);
/* A scalar or list as users write it: "[1, 2]". */
const char *tnm_value_text(tn__arena *arena, const tnm_tree *node);

void tnm_lower_dtypes(tnm_lower *lower);
void tnm_lower_operands(tnm_lower *lower);
void tnm_lower_shapes(tnm_lower *lower);
void tnm_lower_requires(tnm_lower *lower);
/* Reports inputs and states that no rule relates to the others in shape. */
void tnm_check_related(const tnm_lower *lower);
void tnm_lower_forward(tnm_lower *lower);
void tnm_lower_gradient(tnm_lower *lower);
/* `gradient: auto`, which stands at `at`; all[] are the op's input gradients.
 */
void tnm_lower_auto(tnm_lower *lower, const tnm_tree *at,
                    tn_input_gradient **all);
/* Whether the operator stands for a gradient of a broadcast: an input has the
 * shape of the loop, and outputs are summed to the shapes of other inputs. */
bool tnm_is_summed(const tnm_lower *lower);
/* What follows from one formula per input: text, needs, in-place. Those of
 * stopped inputs are dropped. */
void tnm_take_formulas(tnm_lower *lower, tnm_formula *formulas,
                       tn_input_gradient **all);
/* One entry of `gradient: {graph: ...}`: the steps of one input's gradient. */
void tnm_lower_graph(tnm_lower *lower, const tnm_tree *entry,
                     tn_input_gradient *gradient);
/* `gradient: {linear: ...}`, or NULL; all[] are the op's input gradients, with
 * what they need. */
void tnm_lower_linear(tnm_lower *lower, const tnm_tree *list,
                      tn_input_gradient **all);
/* Reports that the operator has no operand of that name. */
void tnm_report_operand(tnm_lower *lower, tnm_pos pos, uint32_t list,
                        const char *name);
/* Reports what a formula of `forward` uses that integers do not have, if its
 * operands may be integers. */
void tnm_check_classes(const tnm_lower *lower, const tnm_formula *formula);
void tnm_lower_generated(tnm_lower *lower);
void tnm_lower_kernels(tnm_lower *lower);
void tnm_lower_examples(tnm_lower *lower);
void tnm_lower_binding(tnm_lower *lower);

/* Whether all n items of a list of the document were good enough to keep. */
bool tnm_is_whole(const tnm_lower *lower, const char *key, uint32_t n);

/* Index of a name in a list (TN_OPERAND_*), or TN_NONE. */
uint32_t tnm_find_operand(const tnm_lower *lower, uint32_t list,
                          const char *name);

/* Whether two operands have the same shape in every call. */
bool tnm_same_shape(const tnm_lower *lower, const tn_arg *a, const tn_arg *b);
/* Whether an input can be differentiated at all: its type may be a float. */
bool tnm_is_float(const tnm_lower *lower, const tn_arg *arg);
#define TNM_FLOATS (TN_BIT_F16 | TN_BIT_BF16 | TN_BIT_F32 | TN_BIT_F64)
/* Of the types that a variable may be, those in a gradient: the floating ones,
 * or all if none is. */
uint64_t tnm_differentiable(uint64_t allowed);

/* A plugin behind `--with`, or some of its operators. */
typedef struct tnm_given {
  const tn_plugin *plugin;
  const tnm_operator **operators; /* where manifests tell of it */
  size_t n_operators;
  bool whole; /* all that the plugin has was read */
} tnm_given;

/* `requires` of plugin.yaml, a mapping or NULL, becomes plugin->dependencies.
 */
void tnm_lower_dependencies(tnm_reader *reader, const tnm_tree *map,
                            tn_plugin *plugin);

/* What stands behind `--with`, in that order; several may be of one plugin. */
const tn__vec *tnm_givens(tnm_reader *reader);

/* All operators of the plugin of which one file is read; NULL if it has no
 * plugin.yaml, or has mistakes somewhere, which are not this reading's. */
const tn_plugin *tnm_siblings(tnm_reader *reader);

/* Reads a plugin's manifests into the reader; its tables, or NULL after a
 * message or when memory ran out. `path` NULL: reader->text is the plugin. */
tn_plugin *tnm_read_tables(tnm_reader *reader, const char *path);

#endif /* TENON_MANIFEST_FRONT_H_ */
