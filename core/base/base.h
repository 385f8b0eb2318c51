/* SPDX-License-Identifier: Apache-2.0
 * base.h: helpers for all folders of the core: errors, memory, text,
 * containers, element types, and one table of calls to the operating system.
 * Knows no operators, plugins or arrays.
 */
#ifndef TENON_BASE_H_
#define TENON_BASE_H_

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "tenon/tenon.h"

/* ------------------------------------------------------------- environment */

typedef struct tn__os tn__os;
struct tn__engine;
struct tn__device;

/* The parts of the library that write to the log. The order is that of their
 * names in log_levels.c. */
typedef enum tn__log_part {
  TN__LOG_ENGINE,
  TN__LOG_STORAGE,
  TN__LOG_LOADING,
  TN__LOG_REGISTRY,
  TN__LOG_KERNELS,
  TN__LOG_GRAPH,
  TN__LOG_PROGRAM,
  TN__LOG_PLUGINS,
  TN__LOG_PARTS /* their number */
} tn__log_part;

/* The last level of each part that the log gets; 0: TN_LOG_INFO. */
typedef struct tn__log_levels {
  uint8_t of[TN__LOG_PARTS];
} tn__log_levels;

/* The environment that a runtime gives to everything that it owns. It outlives
 * all of that. */
typedef struct tn__env {
  tn_allocator allocator;
  tn_log_fn *log;
  void *log_ctx;
  tn__log_levels log_levels;
  const tn__os *os;
  struct tn__engine *engine; /* orders the uses of its arrays */
  struct tn__device *cpu;    /* device of arrays by default */
  /* Finds the folder of the libraries that libtenon.so opens on demand; `to`
   * has PATH_MAX bytes. NULL: there are none. */
  tn_code (*find_modules)(const struct tn__env *env, char *to);
  int32_t (*interrupted)(void *ctx); /* tn_options.interrupted, or NULL */
  void *interrupted_ctx;
  void *owner; /* kept alive by retain/release; both may be NULL */
  void (*retain)(void *owner);
  void (*release)(void *owner);
} tn__env;

/* The C library's allocator, warnings to stderr, the real system. For tools and
 * as the default of a runtime. Constant. */
const tn__env *tn__env_default(void);

/* Writes a line of any level to stderr: the default log. */
void tn__log_stderr(void *ctx, int32_t level, const char *line);

void tn__env_retain(const tn__env *env);
void tn__env_release(const tn__env *env);

/* True if the log gets lines of this level of the part. */
static inline bool tn__log_wants(const tn__env *env, tn__log_part part,
                                 int32_t level) {
  const int32_t last = env->log_levels.of[part];
  return level <= (last != 0 ? last : TN_LOG_INFO);
}

/* Formats one line of log, unless its level is too high. Lines after warnings
 * begin with the name of the part; those of plugins have the plugin's name. */
void tn__log(const tn__env *env, tn__log_part part, int32_t level,
             const char *format, ...) TN_PRINTF(4, 5);

/* Sets the levels of all parts. */
void tn__log_levels_fill(tn__log_levels *levels, uint32_t level);
/* Changes levels as "engine:debug,info" says: LEVEL or PART:LEVEL with commas
 * between. A LEVEL is for the parts that the text does not name. TN_INVALID
 * lists parts and levels. */
tn_code tn__log_levels_parse(tn__log_levels *levels,
                             const char *text) TN_MUST_USE;
const char *tn__log_part_name(tn__log_part part);
/* "error" to "debug"; 0 is "info". */
const char *tn__log_level_name(uint32_t level);

/* ------------------------------------------------------------------ errors */

/* Marks rarely called functions: compilers keep the calls small and out of the
 * main path. */
#if defined(__GNUC__)
#define TN__COLD __attribute__((cold))
#else
#define TN__COLD
#endif

/* Replaces the thread's error text and returns `code`. Never fails, and uses no
 * allocator of an environment. A text that is too long (TN__ERROR_MAX) ends in
 * "...", and bytes that tn__shown_length refuses become ?. The arguments may
 * include tn_error_text(), to put words before it. */
#define TN__ERROR_MAX 4096
tn_code tn__fail(tn_code code, const char *format, ...)
    TN_PRINTF(2, 3) TN__COLD;
tn_code tn__vfail(tn_code code, const char *format, va_list args)
    TN_PRINTF(2, 0) TN__COLD;

/* Adds to the end of the thread's error text; returns `code`. */
tn_code tn__fail_more(tn_code code, const char *format, ...)
    TN_PRINTF(2, 3) TN__COLD;

/* Makes the thread's error text empty. */
void tn__error_clear(void);

/* Fails with the refused allocation of `bytes` for `purpose`, for example "the
 * operator table". */
tn_code tn__fail_memory(size_t bytes, const char *purpose) TN__COLD;

/* Returns from the calling function if `call` fails: the only macro that hides
 * control flow. */
#define TN__TRY(call)                   \
  do {                                  \
    tn_code tn__rc = (call);            \
    if (tn__rc != TN_OK) return tn__rc; \
  } while (0)

/* ------------------------------------------------------------------ memory */

/* Memory from the environment's allocator, 64-byte aligned from 4 KiB up and
 * 16-byte aligned below; NULL when there is none. `bytes` 0 counts as 1. */
void *tn__alloc(const tn__env *env, size_t bytes) TN_MUST_USE;
void *tn__zalloc(const tn__env *env, size_t bytes) TN_MUST_USE;
void *tn__alloc_aligned(const tn__env *env, size_t bytes,
                        size_t align) TN_MUST_USE;
void tn__free(const tn__env *env, void *memory); /* NULL is allowed */
char *tn__strdup(const tn__env *env, const char *text) TN_MUST_USE;

/* *out = a * b; false on overflow. */
bool tn__mul(size_t a, size_t b, size_t *out) TN_MUST_USE;

/* tn_tensor_bytes, as a function that is not inlined. */
size_t tn__dense_bytes(const tn_tensor *t);
/* Bytes of a dense tensor; false on overflow or a negative dimension. */
bool tn__tensor_bytes(tn_dtype dtype, int32_t ndim, const int64_t *shape,
                      size_t *out) TN_MUST_USE;

/* A bump allocator: all memory is freed at once, and is zeroed. After a failed
 * allocation `failed` stays set, so a builder may check once at the end. Until
 * then the builder gets NULL and must not write through it. */
typedef struct tn__arena {
  const tn__env *env;
  struct tn__arena_block *blocks;
  bool failed;
} tn__arena;

void tn__arena_init(tn__arena *arena, const tn__env *env);
void tn__arena_deinit(tn__arena *arena);
void *tn__arena_alloc(tn__arena *arena, size_t bytes) TN_MUST_USE;
/* n bytes of text plus a NUL. */
char *tn__arena_text(tn__arena *arena, const char *text, size_t n) TN_MUST_USE;

/* -------------------------------------------------------------- containers */

/* A growing array of pointers. Zero-initialised is empty. */
typedef struct tn__vec {
  void **v;
  size_t n;
  size_t capacity;
} tn__vec;

/* Reserves room for `more` further entries, so that the next pushes cannot
 * fail. */
tn_code tn__vec_reserve(const tn__env *env, tn__vec *vec,
                        size_t more) TN_MUST_USE;
tn_code tn__vec_push(const tn__env *env, tn__vec *vec, void *item) TN_MUST_USE;
void tn__vec_insert_reserved(tn__vec *vec, size_t at, void *item);
void tn__vec_remove(tn__vec *vec, size_t at);
void tn__vec_deinit(const tn__env *env, tn__vec *vec);

/* String to pointer. Keys are borrowed from the caller and must outlive their
 * entry. Zero-initialised is empty. */
typedef struct tn__map {
  struct tn__map_slot *slots;
  size_t n;
  size_t capacity;
} tn__map;

void *tn__map_get(const tn__map *map, const char *key); /* NULL if absent */
/* After a reserve the next `more` sets cannot fail. A set replaces. */
tn_code tn__map_reserve(const tn__env *env, tn__map *map,
                        size_t more) TN_MUST_USE;
tn_code tn__map_set(const tn__env *env, tn__map *map, const char *key,
                    void *value) TN_MUST_USE;
void tn__map_remove(tn__map *map, const char *key);
void tn__map_deinit(const tn__env *env, tn__map *map);

/* ------------------------------------------------------------------- text */

/* A growing string. After a failed allocation `failed` stays set and adds do
 * nothing. NUL-terminated after the first add. */
typedef struct tn__buf {
  const tn__env *env;
  char *s;
  size_t n;
  size_t capacity;
  bool failed;
} tn__buf;

void tn__buf_init(tn__buf *buf, const tn__env *env);
void tn__buf_deinit(tn__buf *buf);
void tn__buf_add(tn__buf *buf, const char *format, ...) TN_PRINTF(2, 3);
void tn__buf_bytes(tn__buf *buf, const void *bytes, size_t n);
/* A quoted, escaped JSON string; "null" for NULL. Invalid UTF-8 is replaced by
 * U+FFFD. */
void tn__buf_json(tn__buf *buf, const char *text);
/* Adds the shortest decimal that reads back as the same double: JSON syntax if
 * it is finite, otherwise inf, -inf or nan. Whole numbers below 1e15 have no
 * exponent. */
void tn__buf_double(tn__buf *buf, double value);
/* Reads a double: strtod with a decimal point in every locale of the host; sets
 * errno. TN_OUT_OF_MEMORY: there is no "C" locale. */
tn_code tn__read_double(const char *text, char **end, double *out) TN_MUST_USE;
/* Like tn__buf_double, for a value from an f32. */
void tn__buf_float(tn__buf *buf, float value);
/* Length of the UTF-8 sequence at `s`; 0 if it is invalid. `s` ends in a NUL.
 */
size_t tn__utf8_length(const char *s);
/* Length of the sequence if a terminal shows it and does nothing else; 0 for
 * control characters except line feed and tab, for marks that reverse or hide
 * the text after them, and for bytes that are not UTF-8. */
size_t tn__shown_length(const char *s);
/* True if all of the text is UTF-8. */
bool tn__is_utf8(const char *s, size_t n);
/* Adds "(2,?,3)", or "unknown" for an unknown rank. */
void tn__buf_shape(tn__buf *buf, int32_t ndim, const int64_t *shape);
/* Adds "[2, null]" as JSON; an unknown dimension is null. */
void tn__buf_json_shape(tn__buf *buf, int32_t ndim, const int64_t *shape);
/* Turns the buffer into a text for the user and empties it. */
tn_code tn__buf_text(tn__buf *buf, tn_text **out) TN_MUST_USE;

/* Returns the candidate nearest to `word`, or NULL if none is near enough to be
 * the intended word. */
const char *tn__find_nearest_word(const char *word,
                                  const char *const *candidates, size_t n);

/* A 64-bit hash of bytes; part of the ABI (tn_note.manifest_hash). The
 * author of a file can make it collide: tables of names use the next one. */
uint64_t tn__hash(const void *bytes, size_t n);
/* A hash that differs from process to process, so that no author of a file can
 * choose names that collide. */
uint64_t tn__keyed_hash(const void *bytes, size_t n);
/* Its function: SipHash-1-3. */
uint64_t tn__siphash(const uint64_t key[2], const void *bytes, size_t n);

/* ----------------------------------------------------------- element types */

const char *tn__dtype_name(tn_dtype dtype); /* "f32"; "?" if unknown */
bool tn__dtype_parse(const char *name, tn_dtype *out); /* false: no such type */
uint64_t tn__dtype_bit(tn_dtype dtype);                /* 0 if it has none */
/* True for a floating-point type; only these have gradients. */
static inline bool tn__dtype_is_float(tn_dtype dtype) {
  return dtype == TN_F32 || dtype == TN_F64 || dtype == TN_F16 ||
         dtype == TN_BF16;
}
/* True for a storage type (TN_BITS_STORAGE). */
static inline bool tn__dtype_is_storage(tn_dtype dtype) {
  return (tn__dtype_bit(dtype) & TN_BITS_STORAGE) != 0;
}
/* Adds the names of a set of TN_BIT_*, for example "f16 f32". */
void tn__buf_dtypes(tn__buf *buf, uint64_t set);
#define TN__N_DTYPES 23
/* The first of them have arithmetic; the others are storage types. */
#define TN__N_ARITHMETIC 13
/* In the order of the bits. Not pointers, which a loader would have to adjust;
 * the function makes a list of pointers. */
extern const char tn__dtype_names[TN__N_DTYPES][11];
void tn__dtype_list_names(const char *names[TN__N_DTYPES]);
tn_dtype tn__dtype_at(size_t bit); /* of bit number `bit` */

float tn__f16_to_f32(uint16_t bits);
uint16_t tn__f32_to_f16(float value); /* to nearest even */
float tn__bf16_to_f32(uint16_t bits);
uint16_t tn__f32_to_bf16(float value); /* to nearest even; NaN stays NaN */

/* -------------------------------------------------------- operating system */

/* System calls that may fail, in a table, so that tests can make each of them
 * fail. They set errno like the originals. */
struct tn__os {
  int (*open)(const char *path); /* read-only, close-on-exec, non-blocking */
  int (*fstat)(int fd, struct stat *out);
  int (*stat)(const char *path, struct stat *out);
  int (*lstat)(const char *path, struct stat *out); /* of a link itself */
  ssize_t (*pread)(int fd, void *to, size_t bytes, int64_t offset);
  int (*close)(int fd);
  char *(*realpath)(const char *path, char *to /* PATH_MAX */);
  void *(*dlopen)(const char *path); /* RTLD_NOW | RTLD_LOCAL */
  void *(*dlsym)(void *handle, const char *name);
  int (*dlclose)(void *handle);
  const char *(*dlerror)(void);
  /* A new file, read-write; EEXIST if the name exists. */
  int (*create)(const char *path, mode_t mode);
  /* An existing file, close-on-exec; ENXIO for a FIFO that has no reader. */
  int (*open_write)(const char *path);
  ssize_t (*readlink)(const char *path, char *to, size_t bytes);
  int (*fchmod)(int fd, mode_t mode);
  ssize_t (*write)(int fd, const void *from, size_t bytes);
  ssize_t (*pwrite)(int fd, const void *from, size_t bytes, int64_t offset);
  int (*sync)(int fd);
  int (*rename)(const char *from, const char *to);
  int (*unlink)(const char *path);
  /* Pages of a file, private once written; NULL if it fails. */
  void *(*map)(int fd, size_t bytes, int64_t offset);
  void (*unmap)(void *pages, size_t bytes);
};

extern const tn__os tn__os_real;

#endif /* TENON_BASE_H_ */
