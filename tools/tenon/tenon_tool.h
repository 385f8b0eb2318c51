/* SPDX-License-Identifier: Apache-2.0
 * tenon_tool.h: declarations shared by the files of the `tenon` command. The
 * command is an ordinary program that uses libtenon: it includes the public
 * headers, nothing else.
 *
 * files: main.c     the table of commands, help, dispatch
 *        args.c     words and options of a command line
 *        host.c     a runtime with the plugins that a command wants
 *        text.c     growing text and aligned tables
 *        element.c  one element: its type's name, its value
 *        number.c   one element as the shortest text that reads back
 *        tensor.c   a dense array of the tool's own, to and from tn_array
 *        literal.c  "[[1,2],[3,4]]" becomes a tensor
 *        generate.c "randn(2,3)" becomes a tensor
 *        input.c    a word becomes an array: literal, generator, or file
 *        operator.c an operator by its name, or the nearest one
 *        result.c   computed arrays: printed, as JSON, or to a file
 *        profile.c  spans of a run: a file, or the time per operator
 *        scratch.c  temporary files, standard input
 *        print.c    a tensor becomes nested lists
 *        describe.c descriptor tables become words for people
 *        shape.c    "data=f32[2,3]" becomes a name and a signature
 *        cmd_*.c    one command each
 *        graph_run.c, net.h: `tenon graph run`
 *        data_*.c, data_set.h: `tenon data`
 *        json_tree.c   JSON of the library as a tree (json_tree.h)
 *        picture*.c, timeline.c: pictures of graphs and memory (picture.h)
 */
#ifndef TENON_TOOL_H_
#define TENON_TOOL_H_

#include <stdbool.h>
#include <stdio.h>

#include "tenon/exchange.h"
#include "tenon/kernel/storage.h"

/* ------------------------------------------------------------------ text.c */

/* Growing text. Zero-initialised it is empty. A failed allocation sets `failed`
 * and makes every later addition a no-op, so that only the end has to check. */
typedef struct text {
  char *data; /* NUL-terminated once something was added; else NULL */
  size_t n;
  size_t capacity;
  bool failed;
  bool is_binary; /* the bytes of a file: text_print escapes none */
} text;

void text_add(text *t, const char *format, ...) TN_PRINTF(2, 3);
void text_add_bytes(text *t, const char *bytes, size_t n);
/* `string` as a JSON string with its quotes; NULL becomes null, and bytes that
 * are not UTF-8 (a file name may hold any) become U+FFFD. */
void text_add_json(text *t, const char *string);
/* The characters, "" if there are none. Borrowed until the next addition. */
const char *text_get(const text *t);
/* Escapes the characters that text_print escapes, and line feeds, from byte
 * `from` to the end. For text from a file, which could otherwise look like
 * another line of output. */
void text_make_line(text *t, size_t from);
/* Writes it to a terminal or file. Texts come from files that are not trusted:
 * control characters and marks that reverse or hide text are escaped as in
 * JSON, bytes that are not UTF-8 as \xff. */
void text_print(text *t, FILE *file);
void text_deinit(text *t);

/* Replaces the content of `why` by a message and returns false, so that
 * `return report_failure(why, ...)` reads well. */
bool report_failure(text *why, const char *format, ...) TN_PRINTF(2, 3);
/* The same with the library's own message. */
bool fail_library(text *why);

/* Cells that are printed as aligned columns, each as one line. */
typedef struct table {
  size_t n_columns;
  size_t n_cells;
  text cells; /* each followed by a NUL */
} table;

void table_add(table *t, const char *format, ...) TN_PRINTF(2, 3);
/* Appends the rows to `out`, each after `indent`, and empties the table. */
void table_print(table *t, const char *indent, text *out);

/* --------------------------------------------------------------- element.c */

/* "f32"; "?" for a type without a name. Constant. */
const char *dtype_name(tn_dtype dtype);
/* TN_DTYPE_UNKNOWN if there is no such name. */
tn_dtype dtype_from_name(const char *name);
/* The type that is probably meant by a name that is none ("float32", "f23"), or
 * NULL. Constant. */
const char *dtype_nearest(const char *name);
/* Sets `why` to a message about such a name; returns false. */
bool dtype_fail(const char *name, text *why);
/* Names of all types in a mask of TN_BIT_*, with blanks between. */
void dtype_set_add(text *t, uint64_t set);
/* True for types that operators compute floats in. */
bool dtype_is_float(tn_dtype dtype);
/* True for those, and for storage types of floats. */
bool dtype_has_fractions(tn_dtype dtype);
/* "cpu", "cuda"; "device 7" for a type without a name. Constant. */
const char *device_name(int32_t device_type);

/* The nearest half and bfloat16, ties to even. */
uint16_t f16_from_double(double value);
uint16_t bf16_from_double(double value);
double double_from_f16(uint16_t bits);
double double_from_bf16(uint16_t bits);

/* An element has memory of its own: up to 8 bytes. Elements that share bytes in
 * an array are the lowest bits of one byte here.
 *
 * Value of an element of a floating or storage type, and the nearest such
 * element. */
double element_get(tn_dtype dtype, const void *element);
void element_set(tn_dtype dtype, double value, void *element);

/* Reads one token ("1.5", "-3", "nan", "true") into an element. On false, `why`
 * describes the error ("`300` does not fit u8 ..."). */
bool element_parse(tn_dtype dtype, const char *token, void *element, text *why);

/* ---------------------------------------------------------------- number.c */

/* Appends the shortest text that reads back as this very element. */
void number_add(text *t, tn_dtype dtype, const void *element);

/* ---------------------------------------------------------------- tensor.c */

/* A dense row-major array in memory of its own. */
typedef struct tensor {
  tn_dtype dtype;
  int32_t ndim;
  int64_t shape[TN_MAX_NDIM];
  size_t n;     /* elements */
  size_t bytes; /* of all */
  unsigned char *data;
} tensor;

/* Fills n, bytes and data (zeroed) for the dtype, ndim and shape that `t`
 * states. False if the size overflows or there is no memory. */
bool tensor_alloc(tensor *t, text *why);
void tensor_deinit(tensor *t);
/* Copies element i out, or in; see element_get. */
void tensor_get(const tensor *t, size_t i, void *element);
void tensor_set(tensor *t, size_t i, const void *element);
bool tensor_to_array(const tensor *t, tn_runtime *rt, tn_array **out,
                     text *why);
bool tensor_from_array(tn_array *array, tensor *out, text *why);

/* ------------------------------------------- literal.c and generate.c */

/* Settings that decide how a text becomes an input. */
typedef struct input_options {
  tn_dtype dtype;  /* of literal and generated elements */
  uint64_t *state; /* of the random numbers; advances with every use */
} input_options;

/* Nested lists, all lists at one depth of the same length. */
bool literal_parse(const char *source, tn_dtype dtype, tensor *out, text *why);
/* The next random number of the tool's own. */
uint64_t generate_bits(uint64_t *state);
/* Whether `source` looks like name(...). */
bool generate_matches(const char *source);
bool generate_parse(const char *source, const input_options *options,
                    tensor *out, text *why);

/* As report_failure(), and shows `source` with a caret under the character at
 * `at`. */
bool fail_at(text *why, const char *source, const char *at, const char *format,
             ...) TN_PRINTF(4, 5);

/* ------------------------------------------------------------------ args.c */

enum { /* options; a command states the set that it takes */
       OPTION_JSON = 1u << 0,
       OPTION_PLUGIN = 1u << 1,
       OPTION_WHY = 1u << 2,
       OPTION_GRAD = 1u << 3,
       OPTION_DTYPE = 1u << 4,
       OPTION_SEED = 1u << 5,
       OPTION_FULL = 1u << 6,
       OPTION_HELP = 1u << 7,
       OPTION_TRACE = 1u << 8,
       OPTION_SHAPE = 1u << 9,
       OPTION_TRAIN = 1u << 10,
       OPTION_DOT = 1u << 11,
       OPTION_SVG = 1u << 12,
       OPTION_PASS = 1u << 13,
       OPTION_GROUP = 1u << 14,
       OPTION_OUT = 1u << 15,
       OPTION_PROFILE = 1u << 16,
       OPTION_TRAINING = 1u << 17, /* --train of `run` */
       OPTION_STATE = 1u << 18,
       OPTION_RECORDS = 1u << 19, /* --out of `data` */
       OPTION_LIST = 1u << 20,
       OPTION_SUFFIX = 1u << 21,
       OPTION_PARTS = 1u << 22,
       OPTION_SHUFFLE = 1u << 23
};

typedef struct arguments {
  uint32_t given;     /* OPTION_* that were on the command line */
  tn_dtype dtype;     /* default f32 */
  uint64_t seed;      /* default 0 */
  const char *trace;  /* --trace; NULL: none */
  const char *svg;    /* --svg; NULL: none */
  const char *out;    /* --out; NULL: none */
  const char *list;   /* --list; NULL: none */
  uint64_t n_parts;   /* --parts; 0: not given */
  const char **words; /* the words that are not options; n of them, borrowed
                       * from argv */
  size_t n_words;
  const char **plugins; /* --plugin */
  size_t n_plugins;
  const char **shapes; /* --shape */
  size_t n_shapes;
  const char **passes; /* --pass, in their order */
  size_t n_passes;
  const char **groups; /* --group */
  size_t n_groups;
  const char **suffixes; /* --suffix */
  size_t n_suffixes;
} arguments;

/* Reads argv into `out`, which args_deinit frees. */
bool args_parse(uint32_t allowed, char *const *argv, arguments *out, text *why);
void args_deinit(arguments *args);
/* Appends one aligned line per option of the set. */
void args_help(uint32_t allowed, text *out);
/* The same as objects of a JSON list, with the values that each may have. */
void args_help_json(uint32_t allowed, text *out);
/* The name of `n` that is meant by `word`, or NULL if none is near. */
const char *did_you_mean(const char *word, const char *const *names, size_t n);

/* --------------------------------------------------------------- scratch.c */

/* Creates an empty file in TMPDIR or /tmp with a name that ends in `suffix`.
 * NULL on failure. scratch_remove takes its name. */
char *scratch_create(const char *suffix, text *why);
/* Deletes the file and frees its name; NULL is allowed. */
void scratch_remove(char *path);
/* The content of standard input in such a file. NULL on failure. */
char *scratch_stdin(text *why);
/* Appends the content of a file to `out`. */
bool scratch_read(const char *path, text *out, text *why);

/* ----------------------------------------------------------------- input.c */

/* Reads the inputs of one command. */
typedef struct input_reader {
  tn_runtime *rt;
  text *why;
  tn_dtype dtype; /* of inputs that are written out */
  bool converts;  /* files get this type too */
  uint64_t seed;  /* state of the random numbers */
  char *piped;    /* scratch file with standard input, once it was read */
} input_reader;

/* "[1,2]", "randn(2,3)", "@x.npy", "@x.npz:name", "@-", and each of them after
 * a type: "f16:@x.npy". The caller releases *out. */
bool input_read(input_reader *r, const char *word, tn_array **out);
void input_reader_deinit(input_reader *r);
/* Whether the name ends as that of a file of arrays. */
bool input_is_bundle(const char *path);

/* ---------------------------------------------------------------- result.c */

enum { RESULT_OUTPUT, RESULT_STATE, RESULT_GRAD, N_RESULT_GROUPS };

typedef struct result {
  char *name;
  tn_array *array; /* borrowed */
  int group;       /* RESULT_* */
} result;

/* Zero-initialised it is empty. */
typedef struct results {
  result *list;
  size_t n;
  bool failed; /* there was no memory */
} results;

void results_add(results *r, int group, const char *name, tn_array *array);
void results_deinit(results *r);
/* The only output has no name before it; all other results have one. */
bool results_print(const results *r, bool full, text *out, text *why);
/* Members of an object: "outputs": [...], and states and grads if any. */
bool results_print_json(const results *r, text *out, text *why);
/* Whether --out names a file that can be written, before anything runs. */
bool results_check_out(const arguments *args, text *why);
/* Writes all results to `path`; for "-" the bytes of a .npy go to `out`. */
bool results_save(const results *r, tn_runtime *rt, const char *path, text *out,
                  text *why);

/* --------------------------------------------------------------- profile.c */

/* Calls of one operator, and their time in microseconds. */
typedef struct profile_row {
  char *name;
  uint64_t calls;
  double us;
} profile_row;

/* The spans of a run, for --trace (a file) and --profile (a table). */
typedef struct recording {
  tn_runtime *rt;
  const char *path; /* of the file with the spans; NULL: none */
  char *scratch;    /* that file, if it is a temporary one */
  bool profiles;
  profile_row *rows; /* the longest time first */
  size_t n;
} recording;

/* Appends the operator of a span to `out`, or nothing if it is no operator's.
 */
typedef void span_name_fn(void *ctx, const char *span, text *out);

bool recording_start(recording *r, const arguments *args, tn_runtime *rt,
                     text *why);
/* Waits for the run, writes the file, and sums the times for the table. */
bool recording_end(recording *r, span_name_fn *name_of, void *ctx, text *why);
/* Nothing without --profile. */
void profile_print(const recording *r, text *out);
void profile_print_json(const recording *r, text *out);
void recording_deinit(recording *r);

/* ----------------------------------------------------------------- print.c */

/* Elements of a larger array are shown at its edges only, unless `full`. */
enum { PRINT_LIMIT = 1000, PRINT_EDGE = 3 };

void print_tensor(const tensor *t, bool full, text *out);
/* An object with name, dtype, shape and data as nested lists. NaN and
 * infinities become strings: JSON has none. */
void print_tensor_json(const char *name, const tensor *t, text *out);

/* -------------------------------------------------------------- describe.c */

/* "(data: T; a=0, b=0, c=0) -> out: T" */
void describe_signature(const tn_op *op, text *out);
/* The element type of an operand: a type variable, a type, or a parameter. */
const char *describe_dtype(const tn_op *op, const tn_arg *arg);
void describe_shape(const tn_op *op, const tn_arg *arg, text *out);
/* " (also b, ...)": further properties of a parameter, after its doc. */
void describe_field_notes(const tn_field *field, text *out);
/* Whether there are as many of an output as a call says, and how many. */
bool describe_is_counted(const tn_op *op, const tn_arg *arg);
void describe_count(const tn_op *op, const tn_arg *arg, text *out);
const char *describe_field_type(const tn_field *field);
/* Range, choices and lengths that a parameter allows; "" if anything goes. */
void describe_field_range(const tn_op *op, const tn_field *field, text *out);
/* Element types that a kernel takes: "f32 f64", or "all" of the operator. */
void describe_kernel_dtypes(const tn_kernel *kernel, text *out);

/* ----------------------------------------------------------------- shape.c */

/* The type and shape that --shape sets for a variable. The caller frees `name`.
 */
typedef struct shape_word {
  char *name;
  tn_sig sig;
} shape_word;

/* "data=f32[32,?]", "data=[32,10]", "data=f32". */
bool shape_parse(const char *word, shape_word *out, text *why);

/* ----------------------------------------------------------------- group.c */

/* Where --group puts the nodes of a group. */
typedef struct group_word {
  char *name;
  char *device; /* "cpu" */
  int32_t id;
} group_word;

/* "left=cpu(1)", "left=cuda". To be freed. */
bool group_parse(const char *word, group_word *out, text *why);
void group_free(group_word *group);
/* How many cpus there have to be for them. */
uint32_t group_cpus(const group_word *groups, size_t n);
/* False if no plugin has such devices. */
bool group_find(tn_runtime *rt, const group_word *group, tn_place *out,
                text *why);

/* ------------------------------------------------------------------ host.c */

typedef struct host {
  tn_runtime *rt;
  text warnings; /* of the library, not printed yet */
} host;

/* A runtime without plugins, with so many cpus. */
bool host_open(host *h, const arguments *args, uint32_t n_cpus, text *why);
/* Loads the standard plugins, the user's own in ~/.local/lib/tenon, those of
 * TENON_PLUGIN_PATH, and --plugin files.
 * Only a refused --plugin is an error; others are warnings on stderr. */
bool host_load(host *h, const arguments *args, text *why);
/* With --state, prints the state of the runtime to stderr. */
bool host_print_state(const host *h, const arguments *args, text *why);
void host_close(host *h);
/* How plugins are loaded, for messages: begins in lower case, no full stop. */
extern const char host_hint[];

/* -------------------------------------------------------------- operator.c */

/* As tn_operator_get; the message names the nearest operator of any plugin, or
 * says how to load more plugins. */
bool operator_find(tn_runtime *rt, const char *name, tn_operator **out,
                   text *why);
/* Appends the operator of any plugin with the own name nearest to that of
 * `name`, without its interface. Appends nothing if none is near. */
void operator_nearest(tn_runtime *rt, const char *name, text *out);

/* ---------------------------------------------------------------- commands */

enum {
  STATUS_OK = 0,
  STATUS_FAILED = 1,
  STATUS_USAGE = 2,
  /* The output reports the failure: it is printed, and the program ends with
   * STATUS_FAILED. */
  STATUS_REPORTED = 3
};

/* Words that the first operand may be; NULL is the last. */
extern const char *const list_words[];
extern const char *const graph_words[];
extern const char *const data_words[];

/* Each appends its output to `out`, or sets `why` and returns STATUS_FAILED or
 * STATUS_USAGE. */
int cmd_list(const arguments *args, text *out, text *why);
int cmd_show(const arguments *args, text *out, text *why);
int cmd_inspect(const arguments *args, text *out, text *why);
int cmd_run(const arguments *args, text *out, text *why);
int cmd_graph(const arguments *args, text *out, text *why);
int cmd_data(const arguments *args, text *out, text *why);

#endif /* TENON_TOOL_H_ */
