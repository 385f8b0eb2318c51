/* SPDX-License-Identifier: Apache-2.0
 * emit.h: from the model of a plugin to the files that opgen writes. Nothing
 * here opens a file; output.c does.
 *
 *   names.c         all names in generated C
 *   emit_header.c   <stem>.gen.h: declarations for the author's functions
 *   emit_fields.c   parameter structs and their field tables
 *   emit_op.c       the tables of an operator
 *   emit_gradient.c the table of its gradient
 *   emit_tables.c   the tables of its kernels, with prepare; <stem>.gen.c,
 *                   <stem>.kernel.gen.c
 *   emit_formula.c  <stem>.formula.gen.h
 *   emit_plugin.c   plugin.gen.c, .h and .map: the entry and the note;
 *                   plugin.kernel.gen.c: the part that all loops share
 *   emit_cuda.c     <stem>.gen.cu, cuda.gen.c and .h: the companion plugin
 *   emit_test.c     <plugin>_test.gen.c: the examples, and a program
 *   emit_file.c     common parts of all files: banner, includes
 *   claims.c        names that two parts of a plugin would share
 */
#ifndef OPGEN_EMIT_H_
#define OPGEN_EMIT_H_

#include "cfile.h"
#include "manifest.h"

/* The state of every emitter. `arena` contains names. */
typedef struct emit {
  const tn__env *env;
  const tnm_plugin *plugin;
  tn__arena *arena;
  c_file c;
  /* The current part, for messages about its names. */
  const tnm_operator *op; /* NULL: a part of the whole plugin */
  const char *list;       /* "params", or NULL */
  const char *item;
} emit;

/* Names of one operator. For kernels_for they are those of the target. */
typedef struct op_names {
  const char *full; /* "nn.convolution@1" */
  const char
      *local; /* "convolution": first part of the names of static tables */
  const char *symbol; /* "nn_convolution" */
  const char *macro;  /* "NN_CONVOLUTION" */
  const char *params; /* "nn_convolution_params" */
} op_names;

/* Formats into the arena; "" after memory ran out (arena->failed). */
const char *name_format(emit *e, const char *format, ...) TN_PRINTF(2, 3);
/* The text as an identifier, other characters as `_`; in upper case on
 * request. */
const char *name_identifier(emit *e, const char *text, bool upper);
op_names name_operator(emit *e, const tnm_operator *op);
/* "elemwise_quadratic_cpu", of a kernel's id. */
const char *name_kernel(emit *e, const tn_kernel *kernel);
/* The symbol of its table: with the pass at the end. */
const char *name_kernel_table(emit *e, const tn_kernel *kernel);
/* "cudnn_nn_convolution_target", for kernels_for. */
const char *name_target(emit *e, const tnm_operator *op);
/* Sets the owner of the next names: an item of a list of the operator or, with
 * NULL, the operator itself. */
void emit_set_owner(emit *e, const char *list, const char *item);
/* The operator's description: its own, or for kernels_for the target's. */
const tn_op *describe_op(const tnm_operator *op);

/* Writes the first lines of a generated file; `stem` is that of its manifest,
 * or "plugin". They contain a hash of the manifest's tables only if the file
 * contains them: other files stay the same when only a text of the manifest
 * changes. */
void emit_banner(emit *e, const char *file, const char *stem);
void emit_hashed_banner(emit *e, const char *file, const char *stem);
/* Includes op.h and refuses another major version of it. */
void emit_include(emit *e);

/* Writes the first lines of a header, "#ifndef guard". */
void emit_guard(emit *e, const char *guard);

/* A struct of parameters or options, its names and its accessor. */
typedef struct field_set {
  const tn_field *const *fields;
  uint32_t n;
  const char *type;   /* "nn_convolution_params" */
  const char *macro;  /* first part of the names of enum values */
  const char *member; /* of tn_frame: "params" or "options" */
  const char
      *local; /* "convolution_param": first part of the names of tables */
  uint32_t size;
} field_set;

field_set fields_of_params(emit *e, const tnm_operator *op);
field_set fields_of_options(emit *e, const tn_kernel *kernel);
/* Write the struct, in a header; and the tables, "<local>s", in a source. */
void emit_fields_struct(emit *e, const field_set *set);
void emit_fields_tables(emit *e, const field_set *set);

/* Writes the tables that operators and kernels have in common. Nothing if n is
 * 0. */
void emit_nodes(emit *e, const char *name, const tn_node *nodes, uint32_t n);

/* Begins "static const type *const name[] = {", for items of pointers. */
void emit_pointers_open(emit *e, const char *type, const char *name);

/* "name_suffix" if n is not 0, for the field that points to a table; otherwise
 * NULL, which omits the field. */
const char *name_if(emit *e, uint32_t n, const char *name, const char *suffix);

extern const c_bit dtype_bits[];

void emit_op(emit *e, const tnm_operator *op);
/* Writes "<local>_gradient"; nothing if the operator has no gradient entry. */
void emit_gradient(emit *e, const char *local, const tn_op *op);

/* Tests whether one of a manifest's operators has formulas; with NULL, one of
 * the plugin's. */
bool has_formulas(const emit *e, const char *stem);

/* Write whole files, in `e->c`. */
void emit_header(emit *e, const char *stem);
void emit_source(emit *e, const char *stem);
void emit_kernel_source(emit *e, const char *stem);
void emit_formula_header(emit *e, const char *stem);
void emit_plugin_header(emit *e);
void emit_plugin_source(emit *e);
void emit_plugin_kernel_source(emit *e);
void emit_plugin_map(emit *e, const char *name);
void emit_test_source(emit *e);

/* Write the common parts of a plugin's files: the headers of all manifests; the
 * lists of tables, the entry and the note. */
void emit_plugin_includes(emit *e);
void emit_plugin_tables(emit *e);
void emit_target(emit *e, const tnm_operator *op);
/* The names of a kernel's functions; NULL: none. */
typedef struct kernel_functions {
  const char *supports;
  const char *prepare;
  const char *compute;
} kernel_functions;
void emit_kernel_table(emit *e, const tn_kernel *kernel,
                       const kernel_functions *functions);
/* Writes an author's kernel: its options, the steps of prepare, its tables. */
void emit_written(emit *e, const tnm_kernel *kernel);
/* Whether a kernel draws random numbers. */
bool kernel_needs_random(const tn_kernel *table);

/* Tests whether an operator of a file has formulas over lines. */
bool has_axes(const emit *e, const char *stem);
/* Tests whether the companion has kernels of an operator: generated or
 * written. */
bool has_cuda(const tnm_operator *op);
/* Writes "elemwise.quadratic.cuda" for "elemwise.quadratic.cpu", the
 * companion's kernel of the same formulas; if there is a written one too,
 * "elemwise.quadratic.cuda.generated". */
void write_cuda_id(tn__buf *out, const tnm_operator *op, const char *id);
/* The companion plugin with these kernels; NULL if memory ran out. */
const tnm_plugin *make_cuda_companion(emit *e);
/* Write its files: loops, prototypes, tables. */
void emit_cuda_source(emit *e, const char *stem);
void emit_cuda_header(emit *e);
void emit_cuda_plugin(emit *e);

/* The owners of all names in all files of a plugin. Returns the listener for a
 * new file, of the operators of `stem` or, with NULL, of the plugin. */
typedef struct claims claims;
const c_listener *claims_begin(claims *c, const emit *e, const char *file,
                               const char *stem);

/* The release of opgen. */
#define OPGEN_VERSION TN_VERSION

#endif /* OPGEN_EMIT_H_ */
