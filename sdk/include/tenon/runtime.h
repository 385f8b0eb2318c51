/* SPDX-License-Identifier: Apache-2.0
 * runtime.h: runtimes, their plugins and their devices. A part of tenon.h,
 * which has the conventions.
 */
#ifndef TENON_HOST_RUNTIME_H_
#define TENON_HOST_RUNTIME_H_

#include "tenon/common.h"
#include "tenon/plugin/note.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ----------------------------------------------------------------- runtime */

/* The source of a runtime's memory. Both functions are [any].
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
  tn_log_fn *log; /* default: stderr, and there the default of log_level is
                     TN_LOG_WARNING */
  void *log_ctx;
  const char *search_path; /* folders with ':' between, for
                              tn_plugins_load_path(rt, NULL); default: none */
  const tn_memory_limit *memory_limits;
  uint32_t engine;        /* TN_ENGINE_* */
  uint32_t probe_seconds; /* for the examples of a manifest; default 10 */
  uint32_t n_cpus;        /* cpu(0), cpu(1) ..., a limit each; default 1 */
  uint32_t log_level;     /* TN_LOG_*: the last of the levels that `log` gets;
                             default TN_LOG_INFO, so no debug lines */
  /* Levels of single parts of the library, such as "engine:debug,info": LEVEL
   * or PART:LEVEL, with commas between. LEVEL is error, warning, info or debug,
   * and for the parts that the text does not name. PART is engine, storage,
   * loading, registry, kernels, graph, program or plugins
   * (docs/how-to/debugging.md). NULL or "": log_level for all parts. */
  const char *log_levels;
  /* Called by a thread that sleeps in tn_array_wait, tn_array_wait_write,
   * tn_variable_wait or tn_variable_wait_write, before it sleeps, and when a
   * signal has ended its sleep. If the result is not 0, the wait ends with
   * TN_BUSY; the work goes on. It must not call this library. Only with
   * TN_ENGINE_POOLED. NULL: such waits end with their results only.
   * [host-thread] */
  int32_t (*interrupted)(void *ctx);
  void *interrupted_ctx;
} tn_options;

/* Creates a runtime; `options` may be NULL. It has the device `cpu`, no plugin
 * and no operator. The caller releases *out. [host-thread] */
TN_API TN_MUST_USE tn_code tn_runtime_create(const tn_options *options,
                                             tn_runtime **out);

/* Releases the runtime. Its arrays, params, variables and operations keep it
 * alive until they are released, so the order does not matter. With the last of
 * them, pending work is done, and `fini` of the plugins is called in reverse
 * order of loading. NULL is allowed. [host-thread] */
TN_API void tn_runtime_release(tn_runtime *rt);

/* Waits for everything that was scheduled. Reports each failure since the last
 * tn_wait_all once, even if another function has reported it. [host-thread] */
TN_API TN_MUST_USE tn_code tn_wait_all(tn_runtime *rt);

/* The state of the runtime as one line of JSON, also while it is busy or hangs:
 * this takes no lock that another thread may hold for long, and a value that is
 * being changed is null. A thread that watches the program can print it; not
 * from a signal handler. docs/reference/runtime-json.md lists the keys, which
 * stay. The caller releases *out. [any] */
TN_API TN_MUST_USE tn_code tn_runtime_json(tn_runtime *rt, tn_text **out);

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
 * functions of existing libraries (docs/how-to/bindings.md): a plugin.yaml, or
 * one operator file. Its examples are first run in a separate process, so that
 * a wrong prototype ends only that one; the text of TN_PLUGIN reports its end.
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

/* The same for folders with ':' between; `path` NULL means
 * tn_options.search_path.
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

/* The table that a loaded plugin provides under an id, as "comm/1", for a host
 * that includes the header of the extension. The plugin can no longer be
 * unloaded. Borrowed until the runtime ends. TN_NOT_FOUND if no plugin provides
 * it. [host-thread] */
TN_API TN_MUST_USE tn_code tn_plugin_extension(tn_runtime *rt, const char *id,
                                               const void **out);

/* One loaded plugin. */
typedef struct tn_plugin_info {
  const tn_plugin *plugin; /* its tables; borrowed until it is unloaded */
  const char *path;        /* absolute file name, "(static)" if linked in;
                              borrowed until it is unloaded */
} tn_plugin_info;

/* Plugin number `index` in order of loading; TN_NOT_FOUND beyond the last.
 * Borrowed until the plugin is unloaded. [any] */
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
 * dangerous: rule OP-090 of docs/reference/abi.md), or NULL. Borrowed until
 * close. [any] */
TN_API const char *tn_inspection_refusal(const tn_inspection *inspection);

/* Ends the inspection; NULL is allowed. [any] */
TN_API void tn_inspection_close(tn_inspection *inspection);

/* ----------------------------------------------------------------- devices */

/* A device: "cpu(0)". Frozen. */
typedef struct tn_place {
  int32_t device_type; /* TN_DEVICE_* */
  int32_t device_id;
} tn_place;

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

/* Device type number `index`; TN_NOT_FOUND beyond the last. Borrowed until the
 * runtime ends. [any] */
TN_API TN_MUST_USE tn_code tn_device_at(tn_runtime *rt, size_t index,
                                        tn_device_entry *out);

#ifdef __cplusplus
}
#endif
#endif /* TENON_HOST_RUNTIME_H_ */
