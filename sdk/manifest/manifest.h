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
 *   shape.c, shape_compare.c
 *              patterns and conditions -> tn_node programs
 *   lower*.c   tree -> tn_plugin tables and tnm_operator
 *   lower_inplace.c    `inplace` -> the pairs of each kernel
 *   lower_lines.c
 *              `axes:`, for formulas with reductions
 *   lower_binding.c, binding_*.c
 *              `binding:` -> tnm_binding (binding.h)
 *   formula_text.c
 *              a formula -> a manifest
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
#include "tenon/define.h"

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

/* A message with a code and a position. `under` is the text after the carets
 * ("unknown name"); NULL: no text. tnm_diag_add returns an id, which the
 * functions below use. */
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
/* Prints all messages, and then a line with their number ("opgen: 1 error
 * ..."), but no such line as JSON. Prints nothing if there are no messages. */
void tnm_diags_print(const tnm_diags *diags, FILE *to, int format, bool color);
/* Adds the same text for people, without the last line end. */
void tnm_diags_add_text(const tnm_diags *diags, tn__buf *out);

/* Returns the long text of a code, which `opgen explain` prints; NULL for an
 * unknown code. tnm_code_at lists the codes. */
const char *tnm_code_explain(const char *code);
/* Returns code number `index`; NULL after the last one. */
const char *tnm_code_at(size_t index);

/* ------------------------------------------------------- scalar expressions */

/* The text of an expression, and its place in the manifest. `pos` is the
 * position of its first character. */
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
  bool gradient;    /* `grad.<output>` and outputs may be used too */
  const char *axes; /* the name of axes for reductions; NULL: none */
} tnm_scope;

/* Parses a scalar expression. NULL after a message (E003x). */
const tnm_expr *tnm_expr_parse(const tnm_source *source,
                               const tnm_scope *scope);

/* ----------------------------------------------------------- shape programs */

/* The state of building a shape program: the nodes, dimension variables and
 * packs of one operator, or of the condition `when` of one kernel. The names of
 * operands and the parameters must be set before anything is added. */
typedef struct tnm_program {
  tn__arena *arena;
  tnm_diags *diags;
  tnm_scope scope; /* operands and params for conditions */
  tn__vec nodes;   /* tn_node * */
  tn__vec dims;    /* const char * */
  tn__vec packs;
  const char
      *dimless; /* the key of an expression that may not contain dimensions, for
                   example "when"; NULL: dimensions are allowed */
} tnm_program;

void tnm_program_init(tnm_program *program, tn__arena *arena, tnm_diags *diags,
                      const tnm_scope *scope);
void tnm_program_deinit(tnm_program *program);

/* One item of a shape pattern, for example "N", "C/num_group" or "S...".
 * tnm_program_pattern reads `n` items, sets shape_kind, terms, n_terms and
 * shape_text of `arg`, and returns false after a message. */
typedef struct tnm_item {
  const char *text;
  tnm_pos pos;
} tnm_item;
bool tnm_program_pattern(tnm_program *program, const tnm_item *items, size_t n,
                         tn_arg *arg);

/* Adds an integer expression (`count`) to the program; *node is the node that
 * computes it. An upper-case name that no pattern has introduced is a mistake.
 * Returns false after a message. */
bool tnm_program_integer(tnm_program *program, const tnm_item *item,
                         uint32_t *node);

/* Adds an expression that is an integer or a list of integers to the program;
 * *node is the node that computes it, *list is true for a list. Returns false
 * after a message. */
bool tnm_program_value(tnm_program *program, const tnm_item *item,
                       uint32_t *node, bool *list);

/* Adds a condition (`that`, `when`) to the program; *node is the node that
 * computes it. A condition may also compare lists: it holds if the comparison
 * of each pair of items holds. Returns false after a message. */
bool tnm_program_condition(tnm_program *program, const tnm_item *item,
                           uint32_t *node);

/* Copies the nodes of the program into the arena; nothing changes them later.
 * Returns false if memory ran out. */
bool tnm_program_finish(const tnm_program *program, const tn_node **nodes,
                        uint32_t *n_nodes);
bool tnm_program_names(const tnm_program *program, tn_op *op);

/* ---------------------------------------------------------------- the model */

/* One scalar formula: output (forward) or input (gradient) `index`. */
typedef struct tnm_formula {
  uint32_t index;
  const tnm_expr *expr;
  const char *text; /* the item as the author wrote it */
  tnm_pos pos;
} tnm_formula;

/* The axes over which the formulas of an operator reduce (`axes:`). */
typedef struct tnm_axes {
  const char *name;
  uint32_t param; /* a parameter of type int or ints; TN_NONE: `number` */
  int64_t number; /* a constant axis */
  uint32_t loop;  /* the input with the shape of the loop */
  tnm_levels levels;
} tnm_axes;

/* A hand-written kernel: its tables and the author's symbols. */
typedef struct tnm_kernel {
  const tn_kernel *forward; /* forward tables, with all functions NULL; NULL if
                               the kernel has no forward pass */
  const tn_kernel *backward;
  const char *forward_symbol;
  const char *backward_symbol;
  const char
      *supports_symbol; /* function that decides whether the kernel accepts a
                           call that passes `when`; NULL: it accepts all of them
                           */
  const char *workspace_symbol; /* the author's function that computes the size
                                   of the workspace, or NULL */
  uint64_t workspace_align;
  uint64_t workspace_max; /* most bytes of workspace; 0: no limit */
  const char *state_type; /* type of the kernel's state and its two functions;
                             all three are NULL without a state */
  const char *state_create;
  const char *state_destroy;
  const char *registers_symbol; /* the author's function that offers register
                                   kernels, or NULL */
  bool companion;               /* the kernel is part of the companion plugin,
                                   because it is a CUDA kernel of an operator of
                                   this plugin */
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
  const char *name; /* name of an input, output or state */
  tnm_data data;
} tnm_example_item;

typedef struct tnm_example {
  const char *name;
  const tn_value *params; /* parameters as text values */
  size_t n_params;
  const tnm_example_item *items;
  size_t n_items;
  const tnm_example_item *grads; /* gradients of outputs and inputs */
  size_t n_grads;
  double tol;    /* tolerance; 0: default */
  bool training; /* the example's calls are in training mode */
  tnm_pos pos;
} tnm_example;

/* Settings of the numeric gradient check; 0: the default. */
typedef struct tnm_gradcheck {
  uint32_t points;
  double eps;
  double tol;
  const char *skip; /* the reason to skip the test, or NULL */
} tnm_gradcheck;

/* One operator, or, if `target` is set, the kernels that a `kernels_for`
 * document adds to an operator of another plugin. A family has several
 * operators. */
typedef struct tnm_operator {
  const char *file; /* "quadratic.yaml": name without folders */
  const char *stem; /* "quadratic": `file` without ".yaml" */
  const tn_op *op;  /* table of the operator, without functions; NULL in a
                       kernels_for document */
  const char *infer_symbol; /* author's function for shapes, or NULL */
  const tn_target *target;  /* the operator of a kernels_for document; NULL in
                               other documents */
  const tn_op *target_op;   /* the operator of `target`, from the plugins of
                               `--with` */
  const struct tnm_operator *described; /* the manifest of the operator of
                                           `target`; NULL if only a built file
                                           has the operator */
  const tnm_axes *axes;       /* NULL: the formulas have no reductions */
  const tnm_formula *forward; /* one formula for each output; n_forward is 0
                                 without formulas */
  size_t n_forward;
  const tnm_formula *backward; /* one formula for each differentiable input;
                                  NULL: none */
  size_t n_backward;
  const tn_kernel *generated; /* tables of the generated kernels (forward:), */
  const tn_kernel *generated_backward; /* compute NULL; NULL if none */
  const tnm_kernel *kernels;
  size_t n_kernels;
  const tnm_example *examples;
  size_t n_examples;
  tnm_gradcheck gradcheck;
  bool batch_invariant; /* tests may assume that the result of a row does not
                           depend on the other rows of its batch */
  const struct tnm_binding
      *binding;          /* the binding of the operator (binding.h), or NULL */
  const tnm_pos *shapes; /* position of the shape of each output, or NULL */
  /* for each type variable, the least type in which generated kernels compute:
   * f32, f64, i32 or i64; TN_DTYPE_UNKNOWN: it depends on the type of the
   * operand only; NULL: the same for all variables */
  const tn_dtype *compute;
  const struct tnm_tree *tree; /* the document, together with the shared keys of
                                  a family; NULL if opgen derived the operator
                                  */
  tnm_pos pos;
  /* Pairs of operands that may share memory, by TN_PASS_*: the declared ones,
   * or those of the formulas of a gradient; in the order of the outputs, then
   * of preference. */
  tn_inplace *inplace[2];
  uint32_t n_inplace[2];
  const struct tnm_operator
      *parent; /* if opgen derived this operator as NAME_grad: the operator
                  NAME; else NULL */
} tnm_operator;

/* Returns the set of classes in which a formula with only this operand may be
 * computed, if the operand has one of the types `dtypes`. The key `compute` of
 * its type variable raises the class. */
int tnm_operand_classes(const tnm_operator *op, const tn_arg *arg,
                        uint64_t dtypes);
/* The set of types that a dtype parameter takes. */
uint64_t tnm_param_dtypes(const tn_field *field);

/* The `compute` type of an operand's type variable, or TN_DTYPE_UNKNOWN. */
tn_dtype tnm_operand_compute(const tnm_operator *op, const tn_arg *arg);

/* Returns the position of a part of an operator's manifest. `path` lists the
 * steps to the part and ends with NULL, as in {"params", "pad", "default",
 * NULL}. A step is a key of a mapping, or the `name`, `that` or text of a list
 * item. If the manifest does not have the whole path, the result is the
 * position of the last part that exists. A list that begins on the line after
 * its key has the position of the key. */
tnm_pos tnm_find_place(const tnm_operator *op, const char *const *path);

/* A whole plugin: plugin.yaml and everything it lists. */
typedef struct tnm_plugin {
  tn__arena arena;         /* owns everything below */
  const tn_plugin *plugin; /* tables without functions; manifest_hash set */
  const tnm_operator
      *operators; /* in order of the tables, kernels_for documents included */
  size_t n_operators;
  const char *init_symbol; /* names of the author's functions for tn_plugin.init
                              and fini, or NULL */
  const char *fini_symbol;
  const char *const
      *files; /* paths of all files that were read; plugin.yaml is the first */
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
  bool lone; /* an operator file may be read without a plugin.yaml; the name of
                its folder is then the name of the plugin */
  tn_code *result; /* gets the code of a failure; NULL: not requested */
} tnm_read_options;
tnm_plugin *tnm_plugin_read(const tn__env *env, const char *path,
                            const tnm_read_options *options, tnm_diags *diags);
void tnm_plugin_release(tnm_plugin *plugin);

/* A text that replaces the content of the file at `path`. tnm_plugin_read_with
 * reads a plugin like tnm_plugin_read and uses this text if it opens exactly
 * that path. If its own argument `path` is NULL, the text is the whole plugin:
 * operator documents. Messages then use `path` of this struct as the name of
 * the text. */
typedef struct tnm_text {
  const char *path;
  const char *text; /* borrowed for the call */
  size_t n;
  const char *plugin; /* if `path` is NULL, the plugin's name; must outlive the
                         result */
} tnm_text;
tnm_plugin *tnm_plugin_read_with(const tn__env *env, const char *path,
                                 const tnm_text *text,
                                 const tnm_read_options *options,
                                 tnm_diags *diags);

/* Adds the manifest of a formula with a name to `out`. The axis of a reduction
 * is a parameter with the default -1 unless the formula has it. TN_INVALID,
 * with the mistakes in `why`. */
tn_code tnm_formula_write(const tn__env *env, const tn_formula *from,
                          tn__buf *out, tn__buf *why) TN_MUST_USE;

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

/* Reads the tables from the note of a built plugin into `arena` and checks
 * their consistency. On failure *out is NULL: TN_IO with the system's message,
 * or TN_PLUGIN with a message that names the file or the fault in its tables.
 */
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

/* Compares the tables of `plugin` with their encoding in a note. Returns TN_OK
 * if they are equal; otherwise TN_PLUGIN, and the message names the first
 * difference: "operators[1].params[0].max_int is 7 in the note, 8 in the
 * descriptor". A member that is outside of a struct's struct_size counts as
 * zero. */
tn_code tn__tables_compare(const tn__env *env, const tn_plugin *plugin,
                           const void *bytes, size_t n);

/* Checks the consistency of tables: structs are large enough, required pointers
 * and names are present and well-formed, every index is inside its table, every
 * offset inside its struct, a kernel id occurs once per pass. TN_PLUGIN with
 * the first fault; after TN_OK the tables can be trusted. `has_functions`: the
 * tables are a descriptor in memory, so functions must be present; decoded
 * tables have none. Strings other than names may be NULL. */
tn_code tn__tables_check(const tn__env *env, const tn_plugin *plugin,
                         bool has_functions);

/* Checks whether a kernel of checked tables can compute this operator, which
 * may be an operator of another plugin. It checks the set of types for each
 * type variable, and the condition `when`. */
tn_code tn__kernel_fits(const tn_kernel *kernel, const tn_op *op);

/* Prints tables as JSON. */
void tn__plugin_json(const tn_plugin *plugin, tn__buf *out);
void tn__op_json(const tn_op *op, tn__buf *out);

/* Number of operands of a tn_node that are earlier nodes: 0 to 3 of its members
 * a, b, c. */
static inline uint32_t tnm_node_arity(uint32_t op) {
  if (op == TN_NODE_SELECT) return 3;
  if (op == TN_NODE_RANK || op == TN_NODE_NEG || op == TN_NODE_ABS) return 1;
  return op >= TN_NODE_ADD && op <= TN_NODE_GE ? 2 : 0;
}

#endif /* TENON_MANIFEST_H_ */
