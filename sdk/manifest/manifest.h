/* SPDX-License-Identifier: Apache-2.0
 * manifest.h: from a YAML manifest to the constant tables of op.h, and the
 * canonical encoding of those tables. Shared by opgen and the core; uses base
 * and algebra, which defines positions (tnm_pos) and expressions (tnm_expr).
 *
 *   diag.c, print.c, quoted.c
 *              messages with positions, collected and rendered; positions
 *              inside of quoted text
 *   codes*.c   every code with its long explanation (opgen explain)
 *   text.c, tree.c, yaml_error.c
 *              bytes -> libyaml events -> a tree with positions
 *   schema.c, scalar.c
 *              the table of keys; the syntax of single values
 *   lex.c, parse.c, resolve.c, scope.c
 *              the expression language -> tnm_expr
 *   shape.c    patterns and conditions -> tn_node programs
 *   lower*.c   tree -> tn_plugin tables and tnm_operator
 *   lower_binding.c, binding_*.c
 *              `binding:` -> tnm_binding (binding.h)
 *   note.c     the tables of a built plugin, for kernels_for
 *   place.c    the position of a part of an operator
 *   syntax.c, order.c, layout*.c
 *              a manifest as written, and in canonical form
 *   tables.c   op.h as data: the members of every struct
 *   codec.c    tables <-> bytes
 *   compare.c  bytes against tables
 *   check*.c   consistency of tables
 *   json.c     tables -> JSON
 *
 * The tables are the only intermediate form: opgen writes them as C, the note
 * encodes them, `tenon inspect` decodes them, and the registry registers them.
 * All use the same structs.
 */
#ifndef TENON_MANIFEST_H_
#define TENON_MANIFEST_H_

#include <stdio.h>

#include "algebra.h"

/* -------------------------------------------------------------- diagnostics */

enum { TNM_ERROR = 1, TNM_WARNING = 2 };

/* Collects messages about one or more files; renders them in order of file,
 * line and column. */
typedef struct tnm_diags tnm_diags;

tnm_diags *tnm_diags_create(const tn__env *env);
void tnm_diags_release(tnm_diags *diags);
size_t tnm_diags_errors(const tnm_diags *diags);
size_t tnm_diags_warnings(const tnm_diags *diags);

/* Registers the text of a file, so that its lines can be shown; returns its
 * index. */
uint32_t tnm_diags_add_file(tnm_diags *diags, const char *name,
                            const char *text, size_t n);

/* Adds a message: error[`code`] at `pos`; `under` follows the carets ("unknown
 * name"), NULL for none. Returns an id for the calls below. */
typedef struct tnm_diag_spec {
  const char *code; /* "E0012"; its letter decides between error and warning */
  tnm_pos pos;
  const char *under;
} tnm_diag_spec;
size_t tnm_diag_add(tnm_diags *diags, const tnm_diag_spec *spec,
                    const char *format, ...) TN_PRINTF(3, 4);
/* Add `= note:` and `= help:` lines, and a second place with a label. */
void tnm_diag_add_note(tnm_diags *diags, size_t id, const char *format, ...)
    TN_PRINTF(3, 4);
void tnm_diag_add_help(tnm_diags *diags, size_t id, const char *format, ...)
    TN_PRINTF(3, 4);
void tnm_diag_add_place(tnm_diags *diags, size_t id, tnm_pos pos,
                        const char *format, ...) TN_PRINTF(4, 5);

enum { TNM_HUMAN = 0, TNM_SHORT = 1, TNM_JSON = 2 };
/* Writes all messages and the closing count line ("opgen: 1 error ..."), the
 * latter not for JSON. Nothing if there are none. */
void tnm_diags_print(const tnm_diags *diags, FILE *to, int format, bool color);

/* The long text of a code for `opgen explain`, or NULL; and the list of
 * codes. */
const char *tnm_code_explain(const char *code);
const char *tnm_code_at(size_t index); /* NULL after the last one */

/* ------------------------------------------------------- scalar expressions */

/* The position of an expression's text. `pos` is that of its first
 * character. */
typedef struct tnm_source {
  tn__arena *arena;
  tnm_diags *diags;
  const char *text;
  tnm_pos pos;
} tnm_source;

/* The names that a scalar expression may use. */
typedef struct tnm_scope {
  const char *const *inputs;
  uint32_t n_inputs;
  const char *const *outputs;
  uint32_t n_outputs;
  const tn_field *const *params;
  uint32_t n_params;
  bool gradient; /* `grad.<output>` and outputs may be used too */
} tnm_scope;

/* Parses a scalar expression. NULL after a message (E003x). */
const tnm_expr *tnm_expr_parse(const tnm_source *source,
                               const tnm_scope *scope);

/* ----------------------------------------------------------- shape programs */

/* Builds the nodes, dimension and pack variables of one operator (or of one
 * kernel's `when`). The names of operands and the parameters must be known
 * before anything is added. */
typedef struct tnm_program {
  tn__arena *arena;
  tnm_diags *diags;
  tnm_scope scope; /* operands and params for conditions */
  tn__vec nodes;   /* tn_node * */
  tn__vec dims;    /* const char * */
  tn__vec packs;
  const char
      *dimless; /* the key ("when") of an expression without dimensions */
} tnm_program;

void tnm_program_init(tnm_program *program, tn__arena *arena, tnm_diags *diags,
                      const tnm_scope *scope);
void tnm_program_deinit(tnm_program *program);

/* One `shape:` value, already split into its scalars: a pattern of n items
 * ("N", "C/num_group", "S..."). Fills arg->shape_kind, terms, n_terms and
 * shape_text. False after a message. */
typedef struct tnm_item {
  const char *text;
  tnm_pos pos;
} tnm_item;
bool tnm_program_pattern(tnm_program *program, const tnm_item *items, size_t n,
                         tn_arg *arg);

/* An integer expression (`count`). Upper-case names that no pattern introduced
 * are an error. False after a message. */
bool tnm_program_integer(tnm_program *program, const tnm_item *item,
                         uint32_t *node);

/* Does the same for an integer or a list of them; *list tells them apart. */
bool tnm_program_value(tnm_program *program, const tnm_item *item,
                       uint32_t *node, bool *list);

/* Does the same for a condition (`that`, `when`), which may also compare lists:
 * then it holds if each comparison does. */
bool tnm_program_condition(tnm_program *program, const tnm_item *item,
                           uint32_t *node);

/* Makes frozen copies in the arena. False if memory ran out. */
bool tnm_program_finish(const tnm_program *program, const tn_node **nodes,
                        uint32_t *n_nodes);
bool tnm_program_names(const tnm_program *program, tn_op *op);

/* ---------------------------------------------------------------- the model */

/* One scalar formula: output (forward) or input (gradient) `index`. */
typedef struct tnm_formula {
  uint32_t index;
  const tnm_expr *expr;
  const char *text; /* as written */
  tnm_pos pos;
} tnm_formula;

/* A hand-written kernel: its tables and the author's symbols. */
typedef struct tnm_kernel {
  const tn_kernel *forward; /* compute etc. are NULL; NULL without one */
  const tn_kernel *backward;
  const char *forward_symbol;
  const char *backward_symbol;
  const char
      *supports_symbol; /* NULL if it accepts every call that passes `when` */
  const char *workspace_symbol; /* bytes hook, NULL if none */
  uint64_t workspace_align;
  uint64_t workspace_max; /* 0: no limit */
  const char *state_type; /* all three or none */
  const char *state_create;
  const char *state_destroy;
  const char *registers_symbol; /* offers register kernels, NULL: none */
  bool companion; /* part of <plugin>.cuda.so and not of these tables: for CUDA,
                     and of an operator of this plugin */
  tnm_pos pos;
} tnm_kernel;

/* A nested list of numbers, as in `examples`. */
typedef struct tnm_data {
  int32_t ndim;
  int64_t shape[TN_MAX_NDIM];
  const double *values;
  size_t n;
  tnm_pos pos;
} tnm_data;

typedef struct tnm_example_item {
  const char *name; /* of an input, output or aux */
  tnm_data data;
} tnm_example_item;

typedef struct tnm_example {
  const char *name;
  const tn_value *params; /* parameters as text values */
  size_t n_params;
  const tnm_example_item *items;
  size_t n_items;
  const tnm_example_item *grads; /* grad: of outputs and inputs */
  size_t n_grads;
  double tol;    /* tolerance; 0: default */
  bool training; /* the call is one of training */
  tnm_pos pos;
} tnm_example;

/* Settings of the numeric gradient check; 0: the default. */
typedef struct tnm_gradcheck {
  uint32_t points;
  double eps;
  double tol;
  const char *skip; /* the reason to skip it, or NULL */
} tnm_gradcheck;

/* One operator (a family has several), or, with `target`, the kernels that a
 * `kernels_for` document adds to another plugin's. */
typedef struct tnm_operator {
  const char *file;         /* "quadratic.yaml": name without folders */
  const char *stem;         /* "quadratic" */
  const tn_op *op;          /* infer is NULL; NULL for kernels_for */
  const char *infer_symbol; /* hook `{c: sym}`, or NULL */
  const tn_target *target;  /* kernels_for, or NULL */
  const tn_op *target_op;   /* the operator it refers to, from --with */
  const struct tnm_operator *described; /* that operator in its manifest; NULL
                                           if only a built file is known */
  const tnm_formula *forward;           /* per output, or n_forward 0 */
  size_t n_forward;
  const tnm_formula *backward; /* per differentiable input, or 0 */
  size_t n_backward;
  const tn_kernel *generated; /* tables of the generated kernels (forward:), */
  const tn_kernel *generated_backward; /* compute NULL; NULL if none */
  const tnm_kernel *kernels;
  size_t n_kernels;
  const tnm_example *examples;
  size_t n_examples;
  tnm_gradcheck gradcheck;
  bool batch_invariant; /* rows do not depend on their batch: for tests */
  const struct tnm_binding *binding; /* or NULL; see binding.h */
  const tnm_pos *shapes; /* position of the shape of each output, or NULL */
  const tn_dtype
      *compute; /* per dtype variable, the least computing type of generated
                   kernels, f32, f64, i32 or i64; TN_DTYPE_UNKNOWN: that of each
                   type; NULL: of all */
  const struct tnm_tree *tree; /* the document, with the shared keys of a
                                  family; NULL for a derived one */
  tnm_pos pos;
  const struct tnm_operator
      *parent; /* the operator with this one as derived gradient; else NULL */
} tnm_operator;

/* The classes (algebra.h) that operands of these types may be computed in
 * alone, with `compute` of the operand's type variable. */
int tnm_operand_classes(const tnm_operator *op, const tn_arg *arg,
                        uint64_t dtypes);
/* The `compute` type of an operand's type variable, or TN_DTYPE_UNKNOWN. */
tn_dtype tnm_operand_compute(const tnm_operator *op, const tn_arg *arg);

/* The position of a part of an operator. `path` leads to it, ended by NULL: in
 * a mapping by key, in a list by the item's `name`, `that` or text, as in
 * {"params", "pad", "default", NULL}. If the manifest does not contain the end
 * of the path, the result is the position of its nearest parent. A list that
 * begins below its key has the position of the key. */
tnm_pos tnm_find_place(const tnm_operator *op, const char *const *path);

/* A whole plugin: plugin.yaml and everything it lists. */
typedef struct tnm_plugin {
  tn__arena arena;         /* owns everything below */
  const tn_plugin *plugin; /* tables without functions; manifest_hash set */
  const tnm_operator
      *operators; /* in order of the tables, kernels_for documents included */
  size_t n_operators;
  const char *init_symbol; /* of tn_plugin.init and fini, or NULL */
  const char *fini_symbol;
  const char *const
      *files; /* every file read, plugin.yaml first, with its original path */
  size_t n_files;
} tnm_plugin;

/* Reads plugin.yaml (or a folder with one) and the files it lists, or one
 * operator file next to its plugin.yaml: then only that file's operators are
 * checked and returned. Every mistake of every file is reported in `diags`.
 *
 * `with` lists files or folders for kernels_for targets (built plugins or
 * manifests). If none of them contains all of a plugin, the reader uses the
 * folder of its name, in the first of `installed` that has one with a
 * plugin.yaml. Returns NULL if there are errors. The caller releases. */
typedef struct tnm_read_options {
  const char *const *with;
  size_t n_with;
  const char *const *installed; /* folders that contain folders of plugins */
  size_t n_installed;
  bool lone; /* an operator file may have no plugin.yaml next to it; its folder
                then names the plugin */
  tn_code *result; /* gets the code of a failure; NULL: not requested */
} tnm_read_options;
tnm_plugin *tnm_plugin_read(const tn__env *env, const char *path,
                            const tnm_read_options *options, tnm_diags *diags);
void tnm_plugin_release(tnm_plugin *plugin);

/* Does the same with a text that replaces the content of the file at
 * `text->path`. The reader compares that path with the path that it opens: the
 * folder of `path` and a file's name. With `path` NULL the text is the whole of
 * a plugin without files: operator documents, and `text->path` is their name in
 * messages. */
typedef struct tnm_text {
  const char *path;
  const char *text; /* borrowed for the call */
  size_t n;
  const char *plugin; /* its name, if `path` is NULL; must outlive the result */
} tnm_text;
tnm_plugin *tnm_plugin_read_with(const tn__env *env, const char *path,
                                 const tnm_text *text,
                                 const tnm_read_options *options,
                                 tnm_diags *diags);

/* Most bytes of one manifest. */
#define TNM_MAX_BYTES ((size_t)1 << 20)

/* Reads a whole file through the environment's system calls; the caller frees
 * it. TN_IO with a text that does not name the file. */
tn_code tnm_read_file(const tn__env *env, const char *path, size_t max,
                      char **out, size_t *n);

/* ------------------------------------------------------------------- layout */

/* Appends the canonical form of a file known to `diags`: keys in the order of
 * the schema, uniform spacing, every comment kept. It is read again and must be
 * the same tree except for the order of keys. TN_INVALID after messages about a
 * text that is not the YAML of manifests; TN_UNSUPPORTED for keys after `?`;
 * TN_INTERNAL if the proof failed. The meaning of keys and values is not
 * checked. */
tn_code tnm_layout_text(const tn__env *env, tnm_diags *diags, uint32_t file,
                        const char *name, tn__buf *out) TN_MUST_USE;

/* The tables in the note of a built plugin, in `arena`, checked for
 * consistency. TN_IO with the system's text, or TN_PLUGIN with a text that
 * names the file or the fault in its tables; then *out is NULL. */
tn_code tnm_read_note(tn__arena *arena, const char *path,
                      const tn_plugin **out);

/* -------------------------------------------------------------------- codec */

/* The canonical encoding of the tables of `plugin`: everything except
 * functions, magic, sizes of structs and manifest_hash itself. Equal tables
 * have equal bytes. */
void tn__tables_encode(const tn_plugin *plugin, tn__buf *out);

/* Decodes tables into `arena`. Every byte is checked: TN_PLUGIN with a message
 * for malformed input. Function pointers are NULL, manifest_hash is the hash of
 * the bytes. */
tn_code tn__tables_decode(tn__arena *arena, const void *bytes, size_t n,
                          const tn_plugin **out);

/* TN_OK if `plugin` encodes to exactly these bytes; otherwise TN_PLUGIN with
 * the first difference by name: "operators[1].params[0].max_int is 7 in the
 * note, 8 in the descriptor". Honours struct_size: fields that the plugin's
 * structs do not have count as zero. */
tn_code tn__tables_compare(const tn__env *env, const tn_plugin *plugin,
                           const void *bytes, size_t n);

/* Checks the consistency of tables: structs are large enough, required pointers
 * and names are present and well-formed, every index is inside its table, every
 * offset inside its struct, a kernel id occurs once per pass. TN_PLUGIN with
 * the first fault; after TN_OK the tables can be trusted. `code`: the tables
 * are a descriptor in memory, so functions must be present; decoded tables have
 * none. Strings other than names may be NULL. */
tn_code tn__tables_check(const tn__env *env, const tn_plugin *plugin,
                         bool code);

/* Checks whether a kernel of checked tables can compute this operator, also of
 * another plugin: dtype sets per type variable, and its `when` program. */
tn_code tn__kernel_fits(const tn_kernel *kernel, const tn_op *op);

/* Prints tables as JSON. */
void tn__plugin_json(const tn_plugin *plugin, tn__buf *out);
void tn__op_json(const tn_op *op, tn__buf *out);

/* Number of earlier nodes among a, b, c of a tn_node. */
static inline uint32_t tnm_node_arity(uint32_t op) {
  if (op == TN_NODE_SELECT) return 3;
  if (op == TN_NODE_RANK || op == TN_NODE_NEG || op == TN_NODE_ABS) return 1;
  return op >= TN_NODE_ADD && op <= TN_NODE_GE ? 2 : 0;
}

#endif /* TENON_MANIFEST_H_ */
