/* SPDX-License-Identifier: Apache-2.0
 * tenon.h: the host API. Link with -ltenon (pkg-config tenon).
 *
 *   #include <stdio.h>
 *   #include <tenon/tenon.h>
 *
 *   int main(void) {
 *     const float values[] = {1, 2, 3, 4};
 *     const int64_t shape[] = {2, 2};
 *     float result[4] = {0};
 *     tn_runtime *rt = NULL;
 *     tn_operator *op = NULL;
 *     tn_params *params = NULL;
 *     tn_array *x = NULL, *y = NULL;
 *     tn_code rc = tn_runtime_create(NULL, &rt);
 *     if (!rc) rc = tn_plugins_load_standard(rt);
 *     if (!rc) rc = tn_operator_get(rt, "elemwise.quadratic", &op);
 *     if (!rc) rc = tn_params_parse(op, "a=1 b=2 c=3", &params);
 *     if (!rc) rc = tn_array_create(rt, &(tn_spec){TN_F32, 2, shape}, &x);
 *     if (!rc) rc = tn_array_set(x, values, sizeof values);
 *     if (!rc) rc = tn_call(rt, op, TN_IN(x), params, TN_OUT(&y));
 *     if (!rc) rc = tn_array_get(y, result, sizeof result);
 *     if (rc) fprintf(stderr, "%s\n", tn_error_text());
 *     printf("%g %g %g %g\n", result[0], result[1], result[2], result[3]);
 *     tn_array_release(y), tn_array_release(x), tn_params_release(params);
 *     tn_runtime_release(rt);
 *     return rc ? 1 : 0;
 *   }
 *
 * (It prints `6 11 18 27`; the tests compile and run exactly these lines.)
 *
 * CONVENTIONS
 *
 * Errors. Fallible functions return a tn_code (op.h); TN_OK is 0. The text of
 * the calling thread's last failure is tn_error_text(): the problem, its place,
 * its reason and a remedy. A failed function changes nothing and sets its `out`
 * parameters to NULL.
 *
 * Ownership. create/retain/release are counted. The `out` result of a function
 * that creates, parses, opens or makes a view belongs to the caller. All other
 * results are borrowed, for the time that the comment states. Release functions
 * accept NULL.
 *
 * Threads. Functions tagged [any] may be called from any thread at the same
 * time, also with the same objects; [host-thread] ones from any thread of the
 * application, but not from inside an operator: kernels may use 256 KiB of its
 * stack. Never release an object that another thread still uses.
 *
 * Order. Calls, copies, tn_array_set and tn_array_get on arrays that share
 * memory happen in the order in which they were made, on any threads, each as a
 * whole. Those that share nothing may overlap. A call returns when its work is
 * scheduled; short work may be complete by then. Before you read or write
 * elements through tn_array_tensor, wait (tn_array_wait, tn_array_wait_write).
 *
 * Failures travel. When scheduled work fails, its output arrays carry the
 * error: calls that read them fail with the same text, and so does every wait
 * on them and every tn_array_get, until an operation overwrites the whole
 * array. Adding to it (TN_REQ_ADD) or writing a part of it does not count.
 * Other arrays are not affected. Work that failed before its call returned is
 * reported by the call as well.
 *
 * Runtimes. Several may live in one process; they share nothing. There is no
 * global state but the error text of each thread.
 *
 * Trust. A library host loads nothing by itself: not from the environment, not
 * from the current folder. A plugin is native code with the rights of the
 * process; the loader detects accidents and mismatches, not malice.
 *
 * Compatibility. Within a major version, programs keep compiling and running.
 * Structs that begin with struct_size grow at the end; all others (tn_spec,
 * tn_value, tn_inputs, tn_outputs, tn_range, tn_sig, tn_signature,
 * tn_allocator, tn_memory_limit, tn_place, tn_plugin_info and tn_device_entry)
 * are frozen. */
#ifndef TENON_TENON_H_
#define TENON_TENON_H_

#include "note.h"
#include "op.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TN_VERSION_MAJOR 0
#define TN_VERSION_MINOR 1
#define TN_VERSION_PATCH 0
#define TN_VERSION "0.1.0"

#if defined(__GNUC__)
#define TN_API __attribute__((visibility("default")))
#define TN_MUST_USE __attribute__((warn_unused_result))
#else
#define TN_API
#define TN_MUST_USE
#endif

typedef struct tn_runtime tn_runtime;   /* plugins, operators, devices */
typedef struct tn_operator tn_operator; /* one registered operator */
typedef struct tn_params tn_params;     /* parsed parameters of an operator */
typedef struct tn_array tn_array;       /* an n-d array */
typedef struct tn_prepared tn_prepared; /* a call that runs many times */
typedef struct tn_text tn_text;         /* text that the library produced */
typedef struct tn_inspection tn_inspection; /* a plugin file, not loaded */

/* ---------------------------------------------------------------- versions */

/* Version of the library at run time, "0.1.0"; compare with TN_VERSION, which
 * is that of the header. Constant. [any] */
TN_API const char *tn_version(void);

/* ------------------------------------------------------------------ errors */

/* Text of the calling thread's last failure, "" if there was none. Borrowed
 * until the thread's next call of this library. [any] */
TN_API const char *tn_error_text(void);

/* Name of a code, "TN_SHAPE"; "TN_?" for an unknown number. Constant. [any] */
TN_API const char *tn_code_name(tn_code code);

/* Counts how often functions of plugins left the calling thread with other
 * floating-point modes than they found (rounding, FTZ, DAZ, x87). The library
 * restores the modes each time. `*modes` receives those that the last function
 * left: on x86-64 the control bits of MXCSR, and the x87's control word from
 * bit 32 on. NULL is allowed. For tools that test plugins. [any] */
TN_API uint64_t tn_modes_restored(uint64_t *modes);

/* Name of an element type, "f32"; "?" for an unknown number. Constant. [any] */
TN_API const char *tn_dtype_name(tn_dtype dtype);

/* The element type of this name. TN_INVALID, with the nearest name. [any] */
TN_API TN_MUST_USE tn_code tn_dtype_parse(const char *name, tn_dtype *out);

/* -------------------------------------------------------------------- text */

/* The characters, NUL-terminated. Borrowed until release. [any] */
TN_API const char *tn_text_get(const tn_text *text);

/* Frees the text; NULL is allowed. [any] */
TN_API void tn_text_release(tn_text *text);

/* ----------------------------------------------------------------- runtime */

/* The source of a runtime's memory. Both functions are called from any thread.
 * alloc returns `bytes` > 0 bytes at a multiple of `align` (a power of two), or
 * NULL, which every function of this library handles. */
typedef struct tn_allocator {
  void *ctx; /* passed to the functions; borrowed for the life of the runtime */
  void *(*alloc)(void *ctx, size_t bytes, size_t align);
  void (*free)(void *ctx, void *memory);
} tn_allocator;

/* Receives a message for the log, without a line end; `level` is TN_LOG_*.
 * Borrowed for the call. It must not call this library, which may hold locks;
 * neither may an allocator. [any] */
typedef void tn_log_fn(void *ctx, int32_t level, const char *line);

enum { /* tn_options.trust: rights beyond the safe default */
       /* Files and folders of a search may be writable by others, and belong
        * to any user. */
       TN_TRUST_ANY_FOLDER = 1u << 0,
       /* A plugin may replace operators of another namespace that it declares.
        */
       TN_TRUST_REPLACE = 1u << 1,
       /* Functions that manifests bind are called in this process without a
        * first run in another process. */
       TN_TRUST_BINDINGS = 1u << 2
};

/* A limit of memory on one device. */
typedef struct tn_memory_limit {
  int32_t device_type; /* TN_DEVICE_* */
  int32_t device_id;
  uint64_t bytes;
} tn_memory_limit;

enum {                       /* tn_options.engine */
       TN_ENGINE_POOLED = 0, /* worker threads; short work on the caller's */
       TN_ENGINE_NAIVE = 1,  /* everything inside of the call, on one thread; to
                                find out whether the order causes a defect */
       TN_ENGINE_THREADED = 2 /* nothing inside of the call: it returns at once,
                                 for threads of a user interface or with
                                 deadlines; small calls take longer */
};

/* Settings of a new runtime; zero means the default in every field. Borrowed
 * for the call, except the `ctx` of allocator and log. */
typedef struct tn_options {
  uint32_t struct_size; /* sizeof(tn_options) */
  uint32_t trust;       /* TN_TRUST_* */
  uint32_t workers;     /* threads that execute operations; default: cores */
  uint32_t n_memory_limits;
  uint64_t seed;          /* of all random streams; default 0 */
  uint64_t cpu_mask;      /* TN_CPU_* features to hide from kernels */
  tn_allocator allocator; /* default: the C library's */
  tn_log_fn *log;         /* default: warnings and errors to stderr */
  void *log_ctx;
  const char *search_path; /* folders with ':' between, for
                              tn_plugins_load_path(rt, NULL); default: none */
  const tn_memory_limit *memory_limits;
  uint32_t engine;        /* TN_ENGINE_* */
  uint32_t probe_seconds; /* for the examples of a manifest; default 10 */
  uint32_t n_cpus;        /* cpu(0), cpu(1) ..., a limit each; default 1 */
  uint32_t log_level;     /* TN_LOG_*: the last of the levels that `log` gets;
                             default TN_LOG_INFO, so no debug lines */
} tn_options;

/* Creates a runtime; `options` may be NULL. It has the device `cpu`, no plugin
 * and no operator. The caller releases *out. [host-thread] */
TN_API TN_MUST_USE tn_code tn_runtime_create(const tn_options *options,
                                             tn_runtime **out);

/* Releases the runtime. Its arrays and params keep it alive until they are
 * released, so the order does not matter. With the last of them, `fini` of the
 * plugins is called in reverse order of loading. [host-thread] */
TN_API void tn_runtime_release(tn_runtime *rt);

/* Waits for everything that was scheduled. Reports each failure since the last
 * tn_wait_all once, even if another function has reported it. [host-thread] */
TN_API TN_MUST_USE tn_code tn_wait_all(tn_runtime *rt);

/* Sets a new seed for every random stream of the runtime, for later calls.
 * [host-thread] */
TN_API TN_MUST_USE tn_code tn_random_seed(tn_runtime *rt, uint64_t seed);

/* The position of the random stream. Frozen. */
typedef struct tn_random_state {
  uint64_t seed;
  uint64_t drawn; /* blocks that calls have claimed */
} tn_random_state;

/* Reads and restores it: after restoring, calls draw the same numbers as the
 * calls after the reading. [host-thread] */
TN_API TN_MUST_USE tn_code tn_random_get(tn_runtime *rt, tn_random_state *out);
TN_API TN_MUST_USE tn_code tn_random_set(tn_runtime *rt,
                                         const tn_random_state *state);

/* Records a span for everything that runs from now on: name, queue, thread,
 * begin and end. TN_EXISTS while one is recorded. [host-thread] */
TN_API TN_MUST_USE tn_code tn_trace_start(tn_runtime *rt);

/* Ends the recording and writes it to a file for chrome://tracing and Perfetto.
 * Waits for all scheduled work. [host-thread] */
TN_API TN_MUST_USE tn_code tn_trace_write(tn_runtime *rt, const char *path);

/* ----------------------------------------------------------------- plugins */

/* Loads one plugin file. Loading the same file twice is TN_EXISTS. All of its
 * operators and kernels are registered, or none.
 *
 * A name that ends in ".yaml" is a manifest that binds all of its operators to
 * functions of existing libraries (docs/bindings.md): a plugin.yaml, or one
 * operator file. Its examples are first run in a separate process, so that a
 * wrong prototype ends only that one; the text of TN_PLUGIN reports its end.
 * This needs libtenon-manifest.so.0 and tenon/tenon-probe next to libtenon.so.
 * [host-thread] */
TN_API TN_MUST_USE tn_code tn_plugin_load(tn_runtime *rt, const char *path);

/* Registers a plugin that is linked into the program (TN_STATIC_PLUGINS).
 * `plugin` and everything that it points to must stay valid for the life of the
 * runtime. [host-thread] */
TN_API TN_MUST_USE tn_code tn_plugin_add(tn_runtime *rt,
                                         const tn_plugin *plugin);

/* Loads every `*.so` in the folder `tenon` next to libtenon.so, in order of
 * their names, but a plugin after those that it requires or that provide its
 * extensions. A refused file is logged and does not stop the others; the code
 * is then that of the first refusal. [host-thread] */
TN_API TN_MUST_USE tn_code tn_plugins_load_standard(tn_runtime *rt);

/* The same for folders with ':' between; NULL means tn_options.search_path.
 * Folders must be absolute. They, the folders above them and their files must
 * belong to root or the user, and no other user or group may write them; a
 * sticky folder above them, as /tmp, and the private group of a user are
 * allowed (see tn_options.trust). [host-thread] */
TN_API TN_MUST_USE tn_code tn_plugins_load_path(tn_runtime *rt,
                                                const char *path);

/* Unregisters a plugin. TN_BUSY, with the list of holders, while params, calls,
 * graphs, programs or tapes of its operators exist, a pass of it runs, or
 * another plugin uses an extension of it or requires it. The file is unmapped
 * only if it declares it safe. [host-thread] */
TN_API TN_MUST_USE tn_code tn_plugin_unload(tn_runtime *rt, const char *name);

/* One loaded plugin. */
typedef struct tn_plugin_info {
  const tn_plugin *plugin; /* its tables; borrowed until it is unloaded */
  const char *path;        /* absolute file name, "(static)" if linked in;
                              borrowed until it is unloaded */
} tn_plugin_info;

/* Plugin number `index` in order of loading; TN_NOT_FOUND beyond the last.
 * [any] */
TN_API TN_MUST_USE tn_code tn_plugin_at(tn_runtime *rt, size_t index,
                                        tn_plugin_info *out);

/* The tables of a plugin as JSON. The caller releases *out. [any] */
TN_API TN_MUST_USE tn_code tn_plugin_json(tn_runtime *rt,
                                          const tn_plugin *plugin,
                                          tn_text **out);

/* Reads the note of a plugin file without opening it as code, or a manifest
 * with a name that ends in ".yaml". The caller closes *out. [any] */
TN_API TN_MUST_USE tn_code tn_inspection_open(tn_runtime *rt, const char *path,
                                              tn_inspection **out);

/* The tables of the note, with NULL for every function pointer. NULL if the
 * note has another ABI major. Borrowed until close. [any] */
TN_API const tn_plugin *tn_inspection_plugin(const tn_inspection *inspection);

/* The header of the note; for a manifest, the header that its note would have
 * here, with the size of the encoded tables. Borrowed until close. [any] */
TN_API const tn_note *tn_inspection_note(const tn_inspection *inspection);

/* The reason why this host refuses the file (its versions do not fit, or it is
 * dangerous: rule OP-090 of docs/abi.md), or NULL. Borrowed until close.
 * [any] */
TN_API const char *tn_inspection_refusal(const tn_inspection *inspection);

/* Ends the inspection; NULL is allowed. [any] */
TN_API void tn_inspection_close(tn_inspection *inspection);

/* --------------------------------------------------------------- operators */

/* Finds "plugin.op" (the newest interface) or "plugin.op@2". *out is borrowed
 * from the runtime and stays valid as long as it does, even if the plugin is
 * unloaded: using it is then TN_NOT_FOUND. [any] */
TN_API TN_MUST_USE tn_code tn_operator_get(tn_runtime *rt, const char *name,
                                           tn_operator **out);

/* Operator number `index` in order of names; TN_NOT_FOUND beyond the last.
 * Borrowed as above. [any] */
TN_API TN_MUST_USE tn_code tn_operator_at(tn_runtime *rt, size_t index,
                                          tn_operator **out);

/* Full name, "elemwise.quadratic@1". Borrowed like the operator. [any] */
TN_API const char *tn_operator_name(const tn_operator *op);

/* Its description: parameters, inputs, outputs, documentation (op.h). NULL
 * after its plugin was unloaded. Borrowed until then. [any] */
TN_API const tn_op *tn_operator_desc(const tn_operator *op);

/* Its description as JSON, with the names of op.h. `second_gradient` says
 * whether its gradient can be differentiated again, with the operators that are
 * loaded now. The caller releases *out. [any] */
TN_API TN_MUST_USE tn_code tn_operator_json(tn_operator *op, tn_text **out);

/* Every kernel of the operator, in the order of trial, with the reason why each
 * would or would not be chosen for these inputs. If `in` is NULL, the text has
 * only the reasons that hold for all inputs. The caller releases *out. [any] */
struct tn_inputs;
TN_API TN_MUST_USE tn_code tn_operator_explain(tn_operator *op,
                                               const struct tn_inputs *in,
                                               const tn_params *params,
                                               tn_text **out);

/* Makes calls of the operator use the kernel `id` only ("acme.cube.cpu");
 * NULL lifts the pin. TN_NOT_FOUND if there is no such kernel. [any] */
TN_API TN_MUST_USE tn_code tn_operator_pin(tn_operator *op, const char *id);

/* The known facts about one operand. */
typedef struct tn_sig {
  tn_dtype dtype;             /* TN_DTYPE_UNKNOWN */
  int32_t ndim;               /* -1: unknown; -2: absent, an optional input */
  int64_t shape[TN_MAX_NDIM]; /* -1: unknown */
} tn_sig;

/* All operands of a call. */
typedef struct tn_signature {
  uint32_t n_in;
  uint32_t n_out;
  uint32_t n_aux;
  uint32_t reserved;
  tn_sig *in; /* arrays of the caller, read and completed */
  tn_sig *out;
  tn_sig *aux;
} tn_signature;

/* Completes shapes and dtypes in both directions. TN_OK when all are known,
 * TN_INCOMPLETE when some are not (those that can be inferred are filled in),
 * TN_SHAPE or TN_DTYPE when they contradict each other; the text then names
 * both sources and `io` is unchanged. [any] */
TN_API TN_MUST_USE tn_code tn_operator_infer(tn_operator *op,
                                             const tn_params *params,
                                             tn_signature *io);

/* Number of outputs of a call with `n_in` inputs (without states) and these
 * parameters: `*n`. The first `*n_visible` are not hidden, and the caller must
 * provide a place for them. Either may be NULL. TN_INVALID if it cannot have so
 * many inputs. [any] */
TN_API TN_MUST_USE tn_code tn_operator_outputs(tn_operator *op,
                                               const tn_params *params,
                                               uint32_t n_in, uint32_t *n,
                                               uint32_t *n_visible);

/* -------------------------------------------------------------- parameters */

/* One typed value; most are made with the functions below. `as` is read by
 * type: i for BOOL, INT, DTYPE and ENUM (an index), f for FLOAT, s for STRING,
 * ints and floats for the lists. */
typedef struct tn_value {
  const char *key;
  uint32_t type; /* TN_FIELD_*; TN_FIELD_STRING is parsed like a user's text */
  uint32_t n;    /* length of a list */
  union {
    int64_t i;
    double f;
    const char *s; /* NULL means None */
    const int64_t *ints;
    const double *floats;
  } as;
} tn_value;

static inline tn_value tn_value_text(const char *key, const char *text) {
  tn_value v = {key, TN_FIELD_STRING, 0, {0}};
  v.as.s = text;
  return v;
}
static inline tn_value tn_value_int(const char *key, int64_t i) {
  tn_value v = {key, TN_FIELD_INT, 0, {0}};
  v.as.i = i;
  return v;
}
static inline tn_value tn_value_float(const char *key, double f) {
  tn_value v = {key, TN_FIELD_FLOAT, 0, {0}};
  v.as.f = f;
  return v;
}
static inline tn_value tn_value_ints(const char *key, const int64_t *ints,
                                     uint32_t n) {
  tn_value v = {key, TN_FIELD_INTS, n, {0}};
  v.as.ints = ints;
  return v;
}
static inline tn_value tn_value_floats(const char *key, const double *floats,
                                       uint32_t n) {
  tn_value v = {key, TN_FIELD_FLOATS, n, {0}};
  v.as.floats = floats;
  return v;
}

/* Checks values against the operator's parameters, fills in defaults, and makes
 * the struct that kernels read. `values` are copied. The caller releases *out;
 * until then the operator's plugin cannot be unloaded. [any] */
TN_API TN_MUST_USE tn_code tn_params_create(tn_operator *op,
                                            const tn_value *values, size_t n,
                                            tn_params **out);

/* The same from text: `key=value` with blanks between. Lists are [1, 2] or (1,
 * 2), strings with blanks are in double quotes, "None" is no value; keys
 * `__like_this__` are ignored. [any] */
TN_API TN_MUST_USE tn_code tn_params_parse(tn_operator *op, const char *text,
                                           tn_params **out);

/* All parameters as text that tn_params_parse turns into equal ones. The
 * caller releases *out. [any] */
TN_API TN_MUST_USE tn_code tn_params_text(const tn_params *params,
                                          tn_text **out);

/* All parameters as a JSON object. The caller releases *out. [any] */
TN_API TN_MUST_USE tn_code tn_params_json(const tn_params *params,
                                          tn_text **out);

/* The generated struct, as kernels see it. Borrowed until release. [any] */
TN_API const void *tn_params_struct(const tn_params *params);

/* Releases the params; NULL is allowed. [any] */
TN_API void tn_params_release(tn_params *params);

/* ------------------------------------------------------------------ arrays */

/* Element type and shape of a new array. */
typedef struct tn_spec {
  tn_dtype dtype;
  int32_t ndim;
  const int64_t *shape; /* ndim entries >= 0; may be NULL for ndim 0 */
} tn_spec;

/* A dense array on the CPU; its content is undefined, its memory is allocated
 * at its first write. The caller releases *out. [any] */
TN_API TN_MUST_USE tn_code tn_array_create(tn_runtime *rt, const tn_spec *spec,
                                           tn_array **out);

/* A device: "cpu(0)". Frozen. */
typedef struct tn_place {
  int32_t device_type; /* TN_DEVICE_* */
  int32_t device_id;
} tn_place;

/* Reads "cuda(1)"; "cuda" means "cuda(0)". TN_INVALID, TN_NOT_FOUND. [any] */
TN_API TN_MUST_USE tn_code tn_place_parse(tn_runtime *rt, const char *text,
                                          tn_place *out);

/* Like tn_array_create, on any device. [any] */
TN_API TN_MUST_USE tn_code tn_array_create_on(tn_runtime *rt,
                                              const tn_spec *spec,
                                              tn_place place, tn_array **out);

/* Adds an owner; returns `array`. [any] */
TN_API tn_array *tn_array_retain(tn_array *array);

/* Removes an owner; NULL is allowed. [any] */
TN_API void tn_array_release(tn_array *array);

/* Copies `bytes` bytes, dense and row-major, into the array. TN_INVALID if the
 * array has another size. `data` is not used after the return. [host-thread] */
TN_API TN_MUST_USE tn_code tn_array_set(tn_array *array, const void *data,
                                        size_t bytes);

/* Waits for the elements and copies them out, dense and row-major. An array
 * that was never written reads as zeros. [host-thread] */
TN_API TN_MUST_USE tn_code tn_array_get(tn_array *array, void *data,
                                        size_t bytes);

/* Dtype, shape, strides and, once the array has memory, its address. Borrowed
 * until release. [any] */
TN_API const tn_tensor *tn_array_tensor(const tn_array *array);

/* Number of elements. [any] */
TN_API int64_t tn_array_size(const tn_array *array);

/* Waits until the array can be read: everything scheduled that writes it is
 * complete, on its device too. Reports the error that it carries.
 * [host-thread] */
TN_API TN_MUST_USE tn_code tn_array_wait(tn_array *array);

/* Waits until the array can be written: nothing reads it any more either.
 * [host-thread] */
TN_API TN_MUST_USE tn_code tn_array_wait_write(tn_array *array);

/* Like tn_array_wait, for at most `ns` nanoseconds; then TN_BUSY.
 * [host-thread] */
TN_API TN_MUST_USE tn_code tn_array_wait_for(tn_array *array, uint64_t ns);

/* Copies the elements of `from` into `to`: equal shapes, any strides, any
 * devices of one runtime, and any dtypes. Numbers are rounded once, to nearest
 * even, where they become floats. Floats become integers towards zero; a value
 * out of range becomes the nearest bound, NaN becomes 0. Integers wrap. To bool
 * is "not 0". If both have the same elements, nothing is copied; they may
 * overlap in part. [host-thread] */
TN_API TN_MUST_USE tn_code tn_array_copy(tn_array *to, tn_array *from);

/* A new dense array with the same elements as another dtype, or on another
 * device. The caller releases *out. [host-thread] */
TN_API TN_MUST_USE tn_code tn_array_cast(tn_array *array, tn_dtype dtype,
                                         tn_array **out);
TN_API TN_MUST_USE tn_code tn_array_to(tn_array *array, tn_place place,
                                       tn_array **out);

/* Views share memory with the array they come from and keep it alive. The
 * caller releases *out. Negative axes and indices count from the end. */

/* Elements begin, begin+step, ... before `end` along an axis; step may be
 * negative. */
typedef struct tn_range {
  int32_t axis;
  int32_t reserved; /* 0 */
  int64_t begin;
  int64_t end;
  int64_t step; /* 0 means 1 */
} tn_range;

/* A part along one axis; begin and end are clipped to the array. [any] */
TN_API TN_MUST_USE tn_code tn_array_slice(tn_array *array,
                                          const tn_range *range,
                                          tn_array **out);

/* One index along an axis, which disappears. [any] */
TN_API TN_MUST_USE tn_code tn_array_index(tn_array *array, int32_t axis,
                                          int64_t index, tn_array **out);

/* The same elements under another shape; one dimension may be -1. TN_INVALID
 * if the strides do not allow it without a copy. [any] */
TN_API TN_MUST_USE tn_code tn_array_reshape(tn_array *array, int32_t ndim,
                                            const int64_t *shape,
                                            tn_array **out);

/* Axes in another order; NULL reverses them. [any] */
TN_API TN_MUST_USE tn_code tn_array_transpose(tn_array *array,
                                              const int32_t *axes,
                                              tn_array **out);

/* Dimensions of 1 repeated (stride 0) to a larger shape. The view is read-only
 * where elements repeat: calls refuse it as an output. [any] */
TN_API TN_MUST_USE tn_code tn_array_broadcast(tn_array *array, int32_t ndim,
                                              const int64_t *shape,
                                              tn_array **out);

/* ------------------------------------------------------------------- calls */

/* Inputs of a call: NULL for an omitted optional input. The auxiliary states of
 * an operator follow its inputs; a call changes them, and after a failed call
 * their content is undefined. */
typedef struct tn_inputs {
  size_t n;
  tn_array *const *arrays;
} tn_inputs;

/* Outputs of a call. arrays[i] NULL: a new array is created and stored there;
 * the caller releases it. Otherwise the result goes into that array, which must
 * have the right dtype and shape; it may be one of the inputs. */
typedef struct tn_outputs {
  size_t n;
  tn_array **arrays;
  const tn_req *req; /* n of TN_REQ_NULL, WRITE, ADD; NULL: WRITE for all. ADD
                        needs an existing array. Only the library chooses
                        INPLACE: TN_INVALID here */
} tn_outputs;

#ifndef __cplusplus
#define TN_IN(...)                                              \
  (&(const tn_inputs){                                          \
      sizeof((tn_array *[]){__VA_ARGS__}) / sizeof(tn_array *), \
      (tn_array *[]){__VA_ARGS__}})
/* One output: the address of the variable that holds or receives the array. */
#define TN_OUT(place) (&(const tn_outputs){1, (place), NULL})
#endif

/* Runs an operator of `rt`: checks, infers, allocates, chooses a kernel,
 * computes. `params` NULL means all defaults. Hidden outputs may be omitted.
 * When it returns, the work is scheduled; tn_array_get waits for it. On failure
 * no array is stored; if the work itself failed, the caller's output arrays
 * carry the error. [host-thread] */
TN_API TN_MUST_USE tn_code tn_call(tn_runtime *rt, tn_operator *op,
                                   const tn_inputs *in, const tn_params *params,
                                   const tn_outputs *out);

/* The same while training: statistics are updated, dropout drops
 * (TN_CALL_TRAIN). [host-thread] */
TN_API TN_MUST_USE tn_code tn_call_train(tn_runtime *rt, tn_operator *op,
                                         const tn_inputs *in,
                                         const tn_params *params,
                                         const tn_outputs *out);

/* A backward call: gradients of the inputs from gradients of the outputs. */
typedef struct tn_backward {
  uint32_t struct_size; /* sizeof(tn_backward) */
  uint32_t flags;       /* TN_CALL_TRAIN if the forward call had it */
  const tn_params *params;
  tn_inputs inputs;    /* of the forward call */
  tn_inputs outputs;   /* of the forward call, hidden ones included; entries
                          that the operator's needs do not list may be NULL */
  tn_inputs out_grads; /* one per output; NULL counts as zeros */
  tn_outputs in_grads; /* one per input, with requests; REQ_NULL for unneeded
                          ones */
} tn_backward;

/* Runs the operator's gradient. TN_UNSUPPORTED, with the reason, if it has
 * none. Otherwise like tn_call. [host-thread] */
TN_API TN_MUST_USE tn_code tn_call_backward(tn_runtime *rt, tn_operator *op,
                                            const tn_backward *call);

/* A call to run many times with the same arrays. Checks, inference, choice of
 * the kernel and allocation happen once, when it is prepared; a run costs
 * little more than the kernel. */
typedef struct tn_preparation {
  uint32_t struct_size; /* sizeof(tn_preparation) */
  uint32_t flags;       /* TN_CALL_TRAIN or 0 */
  tn_operator *op;
  const tn_params *params; /* NULL: all defaults */
  tn_inputs inputs;
  tn_outputs outputs; /* like those of tn_call */
} tn_preparation;

/* Prepares a call; nothing is computed. It keeps its arrays and the operator's
 * plugin until it is released. Outputs with a dynamic shape cannot be prepared
 * (TN_UNSUPPORTED). The caller releases *out. [host-thread] */
TN_API TN_MUST_USE tn_code tn_call_prepare(tn_runtime *rt,
                                           const tn_preparation *what,
                                           tn_prepared **out);

/* Runs the call, like tn_call. [host-thread] */
TN_API TN_MUST_USE tn_code tn_call_run(tn_prepared *call);

/* Changes a parameter that its operator declares `dynamic`, for later runs.
 * [host-thread] */
TN_API TN_MUST_USE tn_code tn_call_set(tn_prepared *call,
                                       const tn_value *value);

/* Releases the call after its last run; NULL is allowed. [host-thread] */
TN_API void tn_prepared_release(tn_prepared *call);

/* -------------------------------------------------------------------- tape */

/* A tape records calls and differentiates them.
 *
 *   rc = tn_tape_create(rt, &tape);
 *   if (!rc) rc = tn_tape_watch(tape, w);
 *   if (!rc) rc = tn_tape_call(tape, mul, TN_IN(w, x), NULL, TN_OUT(&y));
 *   if (!rc) rc = tn_tape_call(tape, sum, TN_IN(y), NULL, TN_OUT(&loss));
 *   if (!rc) rc = tn_tape_gradient(tape, &(tn_tape_query){
 *                .struct_size = sizeof(tn_tape_query), .heads = *TN_IN(loss),
 *                .of = *TN_IN(w), .gradients = *TN_OUT(&gradient)});
 *
 * It keeps the arrays that gradients need, and identifies values by their
 * memory: a view of a recorded array is a part of it. It detects when a
 * recorded array is written outside of the tape; a gradient that needs the old
 * value is TN_INVALID. A tape is used by one thread at a time. */
typedef struct tn_tape tn_tape;

/* An empty tape. The caller releases *out. [host-thread] */
TN_API TN_MUST_USE tn_code tn_tape_create(tn_runtime *rt, tn_tape **out);

/* Releases the tape with its records; NULL is allowed. [host-thread] */
TN_API void tn_tape_release(tn_tape *tape);

/* Allows requests for gradients with respect to this array, of a floating-point
 * type. Calls that depend on no watched array are not recorded; if the tape
 * writes their result over a watched array, it is a constant there.
 * [host-thread] */
TN_API TN_MUST_USE tn_code tn_tape_watch(tn_tape *tape, tn_array *array);

/* Runs a call, like tn_call or tn_call_train, and records it. [host-thread] */
TN_API TN_MUST_USE tn_code tn_tape_call(tn_tape *tape, tn_operator *op,
                                        const tn_inputs *in,
                                        const tn_params *params,
                                        const tn_outputs *out);
TN_API TN_MUST_USE tn_code tn_tape_call_train(tn_tape *tape, tn_operator *op,
                                              const tn_inputs *in,
                                              const tn_params *params,
                                              const tn_outputs *out);

/* Copies the elements into an array that the tape does not record: gradients
 * stop there. The caller releases *out. [host-thread] */
TN_API TN_MUST_USE tn_code tn_tape_detach(tn_tape *tape, tn_array *array,
                                          tn_array **out);

enum {                          /* tn_tape_query.flags */
       TN_TAPE_KEEP = 1u << 0,  /* the tape can be queried again */
       TN_TAPE_RECORD = 1u << 1 /* the gradient's own calls are recorded:
                                   it can be differentiated; implies KEEP */
};

/* Gradients of the sum of `heads`, each weighted by its entry in
 * `head_gradients`. */
typedef struct tn_tape_query {
  uint32_t struct_size; /* sizeof(tn_tape_query) */
  uint32_t flags;       /* TN_TAPE_* */
  tn_inputs heads;
  tn_inputs head_gradients; /* n 0, or an entry NULL: ones */
  tn_inputs of;             /* watched or recorded arrays */
  tn_outputs gradients;     /* one for each of `of`; WRITE, ADD or NULL */
} tn_tape_query;

/* Computes gradients. Those of arrays that the heads do not depend on are
 * zeros; that of a watched array is with respect to its value at its first use.
 * Without TN_TAPE_KEEP the tape drops its calls. On failure the tape is
 * unchanged, and the content of passed arrays is undefined. TN_TAPE_RECORD
 * needs an operator `<name>_grad` for every operator between; if one is
 * missing, the text of TN_UNSUPPORTED describes it. [host-thread] */
TN_API TN_MUST_USE tn_code tn_tape_gradient(tn_tape *tape,
                                            const tn_tape_query *query);

/* ----------------------------------------------------------------- devices */

/* Use of the memory of one device. */
typedef struct tn_memory {
  uint32_t struct_size; /* sizeof(tn_memory) */
  uint32_t reserved;
  uint64_t limit; /* UINT64_MAX: none */
  uint64_t live;  /* bytes that arrays and kernels use */
  uint64_t
      held; /* bytes allocated from the device, with those kept for reuse */
  uint64_t peak_live;
  uint64_t peak_held;
} tn_memory;

/* Fills *out; the caller has set its struct_size. [any] */
TN_API TN_MUST_USE tn_code tn_memory_get(tn_runtime *rt, tn_place place,
                                         tn_memory *out);

/* Returns memory that is kept for reuse to the device. [any] */
TN_API TN_MUST_USE tn_code tn_memory_trim(tn_runtime *rt, tn_place place);

typedef struct tn_device_entry {
  const char *name;    /* "cpu" */
  int32_t device_type; /* TN_DEVICE_* */
  int32_t count;       /* devices of the type; 0: see detail */
  const char *detail;  /* features, or the reason why count is 0 */
} tn_device_entry;

/* Device type number `index`; TN_NOT_FOUND beyond the last. Strings are
 * borrowed from the runtime. [any] */
TN_API TN_MUST_USE tn_code tn_device_at(tn_runtime *rt, size_t index,
                                        tn_device_entry *out);

#ifdef __cplusplus
}
#endif
#endif /* TENON_TENON_H_ */
