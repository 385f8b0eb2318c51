/* SPDX-License-Identifier: Apache-2.0
 * op.h: the plugin ABI of Tenon. Standalone: libc headers only, C11 or C++17.
 *
 * A plugin is one shared object that exports exactly one symbol, constant data:
 * `const tn_plugin tn_plugin_entry`. It leads to constant tables that describe
 * operators (their meaning) and kernels (how a device computes them). The tool
 * `opgen` writes every table from a YAML manifest; an author writes at most
 * functions of one type:
 *
 *   int32_t acme_cube(const tn_frame *call) {
 *     const float *x = (const float *)call->in[0].data;
 *     float *y = (float *)call->out[0].data;
 *     int64_t n = tn_tensor_size(&call->in[0]);
 *     if (n > 1000000000)
 *       return TN_FAIL(call, TN_OUT_OF_RANGE, "%lld elements", (long long)n);
 *     for (int64_t i = 0; i < n; ++i) y[i] = x[i] * x[i] * x[i];
 *     return TN_OK;
 *   }
 *
 * The host reads a file's note, `.note.tenon`, before it opens it, and compares
 * versions before it calls anything. It owns all memory: the arguments of a
 * call are borrowed until it returns. The host never frees memory that a plugin
 * allocated.
 *
 * RULES FOR READERS OF THESE STRUCTS (docs/abi.md numbers them OP-001 ...)
 * - Every struct that may grow begins with `struct_size`, the size its writer
 *   knew. Fields are only ever added at the end. Use TN_HAS() before reading a
 *   field that is newer than your target.
 * - Arrays of growing structs are arrays of pointers; structs in arrays by
 * value (tn_tensor, tn_node, tn_term, tn_need, tn_ints ...) are frozen.
 * - Fixed-width integers only; no hidden padding; offsets are asserted against
 *   the numbers committed in sdk/abi/.
 * - Strings are NUL-terminated UTF-8 and constant for the life of the plugin.
 *   An absent optional string is NULL.
 *
 * THREAD TAGS. The last words of each function's comment name the threads that
 * run it:
 *   [load]        one thread at a time, while the plugin is loaded or unloaded
 *   [any]         any thread, at the same time as any other function; it must
 *                 not change anything that is shared
 *   [worker]      a thread that executes operations; at the same time as other
 *                 calls, unless the kernel lacks TN_KERNEL_REENTRANT
 *   [host-thread] a thread of the application, never from inside a plugin
 */
#ifndef TENON_OP_H_
#define TENON_OP_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- versions */

/* Major: layouts and meanings; must be equal. Minor: additions at the end. */
#define TN_ABI_MAJOR 0
#define TN_ABI_MINOR 2

/* The oldest host that a plugin supports. Define it before the include (or on
 * the command line); everything newer is then hidden, so that using it does not
 * compile. The generated entry states it as `min_host_minor`. */
#ifndef TN_TARGET_MINOR
#define TN_TARGET_MINOR TN_ABI_MINOR
#endif
#if TN_TARGET_MINOR > TN_ABI_MINOR
#error "TN_TARGET_MINOR is newer than this op.h; install a newer Tenon SDK"
#endif

/* For the compiler: checks formats; marks the one exported symbol. */
#if defined(__GNUC__)
#define TN_PRINTF(text, args) __attribute__((format(printf, text, args)))
#define TN_PLUGIN_EXPORT __attribute__((visibility("default"), used))
#else
#define TN_PRINTF(text, args)
#define TN_PLUGIN_EXPORT
#endif
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the Tenon ABI is defined for little-endian machines"
#endif

/* True if `object` (a pointer to a struct with struct_size) has `field`. */
#define TN_HAS(object, field) \
  ((object)->struct_size >=   \
   (size_t)((const char *)(&(object)->field + 1) - (const char *)(object)))

/* ------------------------------------------------------------------- codes */

typedef int32_t tn_code; /* result of every fallible function */
enum {
  TN_OK = 0,
  TN_INVALID = -1,        /* an argument is malformed or contradicts another */
  TN_NOT_FOUND = -2,      /* no such file, plugin, operator, parameter ... */
  TN_EXISTS = -3,         /* the name is in use */
  TN_OUT_OF_MEMORY = -4,  /* an allocator returned NULL */
  TN_OUT_OF_RANGE = -5,   /* a value is outside of its declared range */
  TN_SHAPE = -6,          /* shapes contradict each other */
  TN_DTYPE = -7,          /* element types contradict each other */
  TN_INCOMPLETE = -8,     /* too little is known to decide */
  TN_UNSUPPORTED = -9,    /* valid, but no kernel or version here supports it */
  TN_UNIMPLEMENTED = -10, /* declared, but its code is not written yet */
  TN_PLUGIN = -11,        /* the plugin file is unusable or misbehaves */
  TN_IO = -12,            /* the operating system refused a file operation */
  TN_DEVICE = -13,        /* a device or its driver failed */
  TN_BUSY = -14,          /* still in use; the message lists the holders */
  TN_INTERNAL = -15       /* a defect of Tenon; please report it */
};

/* ------------------------------------------------------------ element types */

/* Bit for bit DLPack's DLDataType {u8 code; u8 bits; u16 lanes}, kept as one
 * number so that it can be compared, switched on and passed in a register. */
typedef uint32_t tn_dtype;

#define TN_DTYPE_MAKE(code, bits) \
  ((uint32_t)(code) | ((uint32_t)(bits) << 8) | (1u << 16))
#define TN_I8 TN_DTYPE_MAKE(0, 8)
#define TN_I16 TN_DTYPE_MAKE(0, 16)
#define TN_I32 TN_DTYPE_MAKE(0, 32)
#define TN_I64 TN_DTYPE_MAKE(0, 64)
#define TN_U8 TN_DTYPE_MAKE(1, 8)
#define TN_U16 TN_DTYPE_MAKE(1, 16)
#define TN_U32 TN_DTYPE_MAKE(1, 32)
#define TN_U64 TN_DTYPE_MAKE(1, 64)
#define TN_F16 TN_DTYPE_MAKE(2, 16) /* IEEE half, stored as uint16_t */
#define TN_F32 TN_DTYPE_MAKE(2, 32)
#define TN_F64 TN_DTYPE_MAKE(2, 64)
#define TN_BF16 TN_DTYPE_MAKE(4, 16) /* upper half of an f32, as uint16_t */
#define TN_BOOL TN_DTYPE_MAKE(6, 8)  /* uint8_t, 0 or 1 */
#define TN_DTYPE_UNKNOWN 0u          /* not yet inferred */

/* Bytes of one element. [any] */
static inline int64_t tn_dtype_bytes(tn_dtype dtype) {
  return (int64_t)((dtype >> 8) & 0xffu) / 8;
}

/* Sets of dtypes are 64-bit masks of these bits. */
#define TN_BIT_F16 (1ull << 0)
#define TN_BIT_BF16 (1ull << 1)
#define TN_BIT_F32 (1ull << 2)
#define TN_BIT_F64 (1ull << 3)
#define TN_BIT_I8 (1ull << 4)
#define TN_BIT_I16 (1ull << 5)
#define TN_BIT_I32 (1ull << 6)
#define TN_BIT_I64 (1ull << 7)
#define TN_BIT_U8 (1ull << 8)
#define TN_BIT_U16 (1ull << 9)
#define TN_BIT_U32 (1ull << 10)
#define TN_BIT_U64 (1ull << 11)
#define TN_BIT_BOOL (1ull << 12)

/* ----------------------------------------------------------------- tensors */

/* Device types are DLPack's numbers. */
enum { TN_DEVICE_CPU = 1, TN_DEVICE_CUDA = 2, TN_DEVICE_CUDA_HOST = 3 };

/* Most dimensions that a tensor may have; kernels may keep arrays of it. */
#define TN_MAX_NDIM 16

/* A view of memory: the layout of DLPack's DLTensor, frozen for the major. All
 * of it is borrowed for the call that passes it.
 *
 * Shapes: -1 is an unknown dimension, `ndim` -1 an unknown rank; both occur
 * only before inference is complete. 0 is a known dimension: the tensor is
 * empty, and its `data` may be NULL. */
typedef struct tn_tensor {
  void *data;          /* first element; on a GPU a device pointer. NULL when
                          absent, empty, or if the call has metadata only */
  int32_t device_type; /* TN_DEVICE_* */
  int32_t device_id;
  int32_t ndim;
  tn_dtype dtype;
  int64_t *shape;       /* ndim entries; read-only for plugins */
  int64_t *strides;     /* ndim entries, in elements, may be 0 or negative;
                           never NULL inside a call (unlike DLPack at large) */
  uint64_t byte_offset; /* always 0 inside a call */
} tn_tensor;

/* Number of elements; 1 for 0-d. Every dimension must be known. [any] */
static inline int64_t tn_tensor_size(const tn_tensor *t) {
  int64_t n = 1;
  for (int32_t i = 0; i < t->ndim; ++i) n *= t->shape[i];
  return n;
}

/* 1 if the elements are dense in row-major order, else 0. [any] */
static inline int32_t tn_tensor_is_contiguous(const tn_tensor *t) {
  int64_t expected = 1;
  int32_t dense = 1;
  for (int32_t i = t->ndim - 1; i >= 0; --i) {
    if (t->shape[i] == 0) return 1;
    if (t->shape[i] != 1 && t->strides[i] != expected) dense = 0;
    expected *= t->shape[i];
  }
  return dense;
}

/* ---------------------------------------------------------------- requests */

/* How a kernel must write an output. There is one request per output. */
typedef uint32_t tn_req;

enum {
  TN_REQ_NULL = 0,    /* do not write: `data` may be NULL. dtype, rank and shape
                         are those of a requested result; `ndim` is -1 for the
                         gradient of an absent input. Every kernel with several
                         outputs must obey it. The host makes no call with all
                         outputs NULL */
  TN_REQ_WRITE = 1,   /* overwrite every element; old content is undefined and
                         the memory overlaps no input */
  TN_REQ_INPLACE = 2, /* as WRITE, but the memory is that of input alias[i]:
                         same pointer and dtype, and same shape and strides,
                         or both dense and of one size */
  TN_REQ_ADD = 3      /* add to the old content; overlaps no input */
};

#define TN_WRITES_WRITE (1u << TN_REQ_WRITE)
#define TN_WRITES_INPLACE (1u << TN_REQ_INPLACE)
#define TN_WRITES_ADD (1u << TN_REQ_ADD)

/* ------------------------------------------------------------------ a call */

typedef struct tn_host tn_host;
typedef struct tn_registrar tn_registrar;
/* Position in a stream of random numbers (Philox 4x32-10). Block k of the call
 * is philox(counter = offset + k, key = key), four 32-bit words, for k below
 * tn_plan.random_blocks, or the number of output elements if that is 0. */
typedef struct tn_random {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t key;
  uint64_t offset;
  const uint64_t *device_offset; /* NULL, unless the call is being recorded:
                                    then the address of the offset in device
                                    memory, read instead of `offset`
                                    (capture.h) */
} tn_random;

/* The device and queue of a call. */
typedef struct tn_run {
  uint32_t struct_size;
  uint32_t n_random;
  int32_t device_type;
  int32_t device_id;
  void *stream; /* queue of the device (a cudaStream_t); NULL on the CPU */
  const tn_random *const *random; /* one per `rng` in the kernel's resources */
  void *host_data;                /* the host's own; do not touch */
} tn_run;

/* tn_frame.flags: statistics and dropout are active; in/out are a gradient's.
 * Bits 2 and 3: a part of a reduction, and its end (reduction.h). */
enum { TN_CALL_TRAIN = 1u << 0, TN_CALL_BACKWARD = 1u << 1 };
#if TN_TARGET_MINOR >= 2
#define TN_CALL_DEFAULTS (1u << 6) /* of `infer`: see tn_op.infer */
#endif

enum {                           /* tn_frame.in_flags: facts about an input */
       TN_IN_ABSENT = 1u << 0,   /* optional and omitted, or not needed: data is
                                    NULL, ndim -1 */
       TN_IN_METADATA = 1u << 1, /* only dtype and shape; data is NULL */
       TN_IN_CONTIGUOUS = 1u << 2 /* tn_tensor_is_contiguous() holds */
};

/* The frame of one call of one kernel. `infer`, `supports` and `prepare`
 * receive the same struct before any data exists: then every `data`, `ws` and
 * `prepared` is NULL. Everything in it is borrowed until the function returns.
 *
 * Forward: in = inputs, out = outputs (hidden ones included), aux = state that
 * the operator mutates. A variadic input is last; n_in determines its length.
 * Backward: in = [gradient of every output, every input, every output], out =
 * [gradient of every input]; a gradient that was not requested has TN_REQ_NULL
 * and its metadata. Inputs that the `needs` of the requested gradients do not
 * list are TN_IN_ABSENT (`ndim` -1, `data` NULL) or TN_IN_METADATA. */
typedef struct tn_frame {
  uint32_t struct_size;
  uint32_t flags; /* TN_CALL_* */
  uint32_t n_in;
  uint32_t n_out;
  uint32_t n_aux;
  uint32_t n_ws;
  const tn_tensor *in;
  const tn_tensor *out;
  const tn_tensor *aux;
  const uint32_t *in_flags; /* n_in of TN_IN_* */
  const tn_req *req;        /* n_out */
  const int32_t *alias;     /* n_out: input that shares its memory with out[i]
                               under TN_REQ_INPLACE, otherwise -1 */
  const void *params;       /* the operator's generated params struct */
  const void *options;      /* the kernel's generated options struct, or NULL */
  void *instance;           /* the value that tn_plugin.init stored for this
                               runtime */
  const void *prepared;     /* the value that prepare stored; shared by calls,
                               immutable */
  void *const *ws;          /* n_ws workspaces; content is garbage at entry */
  const uint64_t *ws_bytes; /* n_ws sizes, at least the requested ones */
  const tn_host *host;
  tn_run *run;
} tn_frame;

/* ------------------------------------------------------------ host services */

enum { /* tn_host.cpu_features: instructions of this machine */
       TN_CPU_SSE42 = 1u << 0,
       TN_CPU_AVX = 1u << 1,
       TN_CPU_F16C = 1u << 2,
       TN_CPU_FMA = 1u << 3,
       TN_CPU_AVX2 = 1u << 4,
       TN_CPU_AVX512 = 1u << 5, /* F, BW, DQ, VL and CD */
       TN_CPU_AVX512_BF16 = 1u << 6,
       TN_CPU_AVX512_FP16 = 1u << 7,
       TN_CPU_NEON = 1u << 16,
       TN_CPU_SVE = 1u << 17
};

enum { TN_LOG_ERROR = 1, TN_LOG_WARNING = 2, TN_LOG_INFO = 3 };
enum { TN_LOG_DEBUG = 4 }; /* these are the levels of tn_host.log */

/* Which list of a call an index belongs to. */
enum { TN_OPERAND_IN = 0, TN_OPERAND_OUT = 1, TN_OPERAND_AUX = 2 };

/* One slice [begin, end) of a parallel loop; TN_OK or a code. [worker] */
typedef int32_t tn_loop_body(void *arg, int64_t begin, int64_t end);

/* The host's functions, valid from `init` until `fini` has returned. */
struct tn_host {
  uint32_t struct_size;
  uint32_t abi_major;
  uint32_t abi_minor;
  uint32_t reserved;
  uint64_t cpu_features; /* TN_CPU_*; read this, not the CPU: the host can hide
                            features, and tests do */
  void *host_data;       /* the host's own; do not touch */

  /* Stores the description of a failure of `call` and returns `code`, so that a
   * function can end with `return TN_FAIL(call, ...)`. The last description of
   * a call wins. The host adds operator, kernel, plugin and shapes. Formats as
   * printf does; the text is copied. [any] */
  int32_t (*fail)(const tn_frame *call, int32_t code, const char *file,
                  int32_t line, const char *format, ...) TN_PRINTF(5, 6);

  /* Writes one line to the host's log, unless the host suppresses this level;
   * by default it suppresses debug lines. Never fails, never blocks on the
   * network or a terminal of the plugin's own. [any] */
  void (*log)(const tn_host *host, int32_t level, const char *format, ...)
      TN_PRINTF(3, 4);

  /* Runs body over [0, n) in slices of about `grain` on the host's workers and
   * returns when all are done: TN_OK, or the code of the failing slice that
   * begins lowest. Slices do not depend on the number of workers. May be
   * nested; a kernel starts no threads of its own. TN_INVALID if `body` is
   * NULL. [worker] */
  int32_t (*parallel_for)(const tn_frame *call, int64_t n, int64_t grain,
                          tn_loop_body *body, void *arg);

  /* States a shape. Inside `infer`: proposes (unknown parts are -1) the shape
   * of operand `index` of list `list` (TN_OPERAND_*), the host intersects it
   * with the known parts; TN_SHAPE if they contradict. Inside `compute`: only
   * for an output declared TN_ARG_DYNAMIC; fixes its shape, allocates it and
   * updates call->out[index]. [any] */
  int32_t (*set_shape)(const tn_frame *call, uint32_t list, uint32_t index,
                       int32_t ndim, const int64_t *shape);

#if TN_TARGET_MINOR >= 1
  /* The table that the host or a plugin provides under an id ("blas/1"), or
   * NULL. Valid until this plugin is unloaded. If a plugin of a folder gets
   * NULL, the loader calls its fini, and its init again after the other
   * plugins. Since 0.1. [load] */
  const void *(*extension)(const tn_host *host, const char *id);
#endif
};

#define TN_FAIL(call, code, ...) \
  ((call)->host->fail((call), (code), __FILE__, __LINE__, __VA_ARGS__))

/* -------------------------------------------------------------- parameters */

/* Lists inside a generated params struct. The host owns the memory. */
typedef struct tn_ints {
  const int64_t *v;
  int64_t n;
} tn_ints;
typedef struct tn_floats {
  const double *v;
  int64_t n;
} tn_floats;

enum { /* tn_field.type, and the C type in the generated struct */
       TN_FIELD_BOOL = 1,   /* int32_t, 0 or 1 */
       TN_FIELD_INT = 2,    /* int64_t */
       TN_FIELD_FLOAT = 3,  /* double */
       TN_FIELD_STRING = 4, /* const char * */
       TN_FIELD_ENUM = 5,   /* int32_t, index into values */
       TN_FIELD_INTS = 6,   /* tn_ints */
       TN_FIELD_FLOATS = 7, /* tn_floats */
       TN_FIELD_DTYPE = 8   /* tn_dtype */
};

enum {                              /* tn_field.flags */
       TN_FIELD_REQUIRED = 1u << 0, /* has no default */
       TN_FIELD_OPTIONAL = 1u << 1, /* may be None; see has_offset */
       TN_FIELD_DYNAMIC = 1u << 2,  /* may change while a call is prepared */
       TN_FIELD_HAS_MIN = 1u << 3,
       TN_FIELD_HAS_MAX = 1u << 4
};

#define TN_NONE 0xffffffffu /* "no such index, offset or limit" */

/* One parameter: how text becomes a member of the params struct and back. */
typedef struct tn_field {
  uint32_t struct_size;
  uint32_t type;             /* TN_FIELD_BOOL ... */
  uint32_t flags;            /* TN_FIELD_REQUIRED ... */
  uint32_t offset;           /* of the member */
  uint32_t has_offset;       /* of an int32_t that is 1 when the value is not
                                None; TN_NONE unless TN_FIELD_OPTIONAL */
  uint32_t since;            /* plugin release that introduced it */
  uint32_t deprecated_since; /* 0: it is not deprecated */
  uint32_t rank_of;  /* index of the field that determines the length of this
                        list; a single value is repeated to it. TN_NONE: any */
  uint32_t min_rank; /* least and greatest length of a list */
  uint32_t max_rank; /* TN_NONE: no limit */
  uint32_t n_values; /* names of an enum */
  uint32_t reserved;
  int64_t min_int; /* inclusive bounds of int and ints ... */
  int64_t max_int;
  double min_float; /* ... and of float and floats, if the flags say so */
  double max_float;
  const char *name;
  const char *default_text; /* parsed as a user's text is; NULL if required;
                               "None" if optional without a value */
  const char *doc;
  const char *alias; /* second accepted name, or NULL */
  const char *use;   /* replacement of a deprecated parameter */
  const char *const *values;
} tn_field;

/* ------------------------------------------------- shape and type programs */

/* Rules about shapes are expressions over integers. Their nodes are in one
 * array per operator; operands of a node are indices of earlier nodes. A value
 * is one integer or, for packs and list parameters, a list; arithmetic between
 * lists of equal length works per element, and a single integer is repeated.
 * Division rounds towards minus infinity. Comparisons give 1 or 0. */
enum {                    /* tn_node.op */
       TN_NODE_CONST = 1, /* value */
       TN_NODE_DIM = 2,   /* dimension variable a */
       TN_NODE_PACK = 3,  /* pack variable a: a list */
       TN_NODE_PARAM = 4, /* parameter a: int, bool, enum index, or list */
       TN_NODE_RANK = 5,  /* rank of the value of node a (length of a list) */
       TN_NODE_OPERAND_RANK = 6, /* rank of operand b of list a */
       TN_NODE_OPERAND_SIZE = 7, /* number of elements of operand b of list a */
       TN_NODE_OPERAND_SHAPE = 8, /* shape of operand b of list a: a list */
       TN_NODE_HAS = 9,           /* 1 if optional input a is present */
       TN_NODE_NEG = 16,          /* -a */
       TN_NODE_ADD = 17,
       TN_NODE_SUB = 18,
       TN_NODE_MUL = 19,
       TN_NODE_DIV = 20, /* floor(a / b) */
       TN_NODE_MOD = 21, /* sign of b */
       TN_NODE_POW = 22,
       TN_NODE_MIN = 23,
       TN_NODE_MAX = 24,
       TN_NODE_ABS = 25,
       TN_NODE_EQ = 32,
       TN_NODE_NE = 33,
       TN_NODE_LT = 34,
       TN_NODE_LE = 35,
       TN_NODE_GT = 36,
       TN_NODE_GE = 37,
       TN_NODE_SELECT = 38 /* a != 0 ? b : c */
};

typedef struct tn_node { /* frozen */
  uint32_t op;
  int32_t a;
  int32_t b;
  int32_t c;
  int64_t value;
} tn_node;

/* One entry of a shape pattern: a node, one dimension wide, or spread over as
 * many dimensions as its list has. */
typedef struct tn_term { /* frozen */
  int32_t node;
  uint32_t spread; /* 0 or 1 */
} tn_term;

enum {                         /* tn_arg.shape_kind */
       TN_SHAPE_ANY = 0,       /* no rule */
       TN_SHAPE_PATTERN = 1,   /* terms */
       TN_SHAPE_SAME = 2,      /* as operand shape_index of list shape_list */
       TN_SHAPE_BROADCAST = 3, /* of all inputs that are not */
       TN_SHAPE_HOOK = 4       /* tn_op.infer decides */
};

enum {                              /* tn_arg.flags */
       TN_ARG_OPTIONAL = 1u << 0,   /* an input that may be absent */
       TN_ARG_VARIADIC = 1u << 1,   /* the last input; any number of them */
       TN_ARG_HIDDEN = 1u << 2,     /* an output that users do not see */
       TN_ARG_CONTIGUOUS = 1u << 3, /* passed dense, row-major */
       TN_ARG_DYNAMIC = 1u << 4     /* its shape is decided by compute */
};

enum { TN_ROLE_DATA = 0, TN_ROLE_WEIGHT = 1, TN_ROLE_LABEL = 2 }; /* role */
#if TN_TARGET_MINOR >= 2
/* role of an output: a loss. If it is a head of a graph and the caller passes
 * no gradient for it, that gradient is ones. */
#define TN_ROLE_LOSS 3u
#endif
/* One input, output or auxiliary state of an operator. */
typedef struct tn_arg {
  uint32_t struct_size;
  uint32_t flags; /* TN_ARG_* */
  uint32_t role;  /* TN_ROLE_* */
  uint32_t since;
  uint32_t deprecated_since;
  uint32_t dtype_var;   /* index into tn_op.dtype_vars, or TN_NONE */
  tn_dtype dtype;       /* if dtype_var and dtype_param are TN_NONE */
  uint32_t dtype_param; /* of the dtype parameter that decides, or TN_NONE */
  uint32_t shape_kind;  /* TN_SHAPE_* */
  uint32_t shape_list;  /* TN_OPERAND_*, for TN_SHAPE_SAME */
  uint32_t shape_index;
  uint32_t n_terms;
  uint32_t inplace; /* output: input whose memory it may use, or TN_NONE */
  uint32_t init;    /* output: like input that it copies first, or TN_NONE */
  uint32_t count;   /* output: node whose value is their number; TN_NONE: 1 */
  uint32_t reserved;
  const tn_term *terms;
  const char *name;
  const char *doc;
  const char *shape_text; /* as written in the manifest; for people */
  const char *formula;    /* output: forward expression, or NULL */
  const char *initial;    /* aux: initial value ("0", "1"), or NULL */
  const char *use;        /* replacement of a deprecated operand */
} tn_arg;

/* A type variable and its possible types. */
typedef struct tn_dtype_var {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t allowed; /* TN_BIT_* */
  const char *name;
} tn_dtype_var;

/* A condition checked once all shapes are known, before any kernel. */
typedef struct tn_require {
  uint32_t struct_size;
  uint32_t node;
  const char *that; /* the condition as written */
  const char *say;  /* message for the user when it is false */
} tn_require;

/* --------------------------------------------------------------- gradients */

enum {                         /* tn_gradient.kind */
       TN_GRADIENT_NONE = 0,   /* not differentiable; see `why` */
       TN_GRADIENT_KERNEL = 1, /* backward kernels, written or generated */
       TN_GRADIENT_GRAPH = 2   /* calls of other operators */
};

enum {                       /* tn_need.what, tn_step.what */
       TN_NEED_GRAD_OUT = 0, /* gradient of output index */
       TN_NEED_IN = 1,       /* value of input index */
       TN_NEED_OUT = 2       /* value of output index */
};

typedef struct tn_need { /* frozen */
  uint32_t what;
  uint32_t index;
  uint32_t metadata; /* 1: dtype and shape suffice */
  uint32_t reserved;
} tn_need;

#if TN_TARGET_MINOR >= 1
#define TN_ARG_TRAINED 32u /* tn_arg.flags: only TN_CALL_TRAIN changes it */
#define TN_ARG_VIEW 64u    /* an output: the elements of `inplace`, in order */
#define TN_STEP_CALL 3u    /* tn_step.what, beside TN_NEED_* */
/* A graph in postfix order: a value is pushed on a stack, a call replaces its
 * inputs on the stack by its first output. One value remains. */
typedef struct tn_step { /* frozen */
  uint32_t what;
  uint32_t index;     /* of the operand; of a call: number of its inputs */
  const char *op;     /* call: "elemwise.mul_scalar@1", otherwise NULL */
  const char *params; /* call: "scalar=$alpha axis=1", $alpha is the value of
                         this operator's parameter; NULL: none */
} tn_step;
#endif

/* How one input gets its gradient. */
typedef struct tn_input_gradient {
  uint32_t struct_size;
  uint32_t stop; /* 1: never differentiated */
  uint32_t n_needs;
  uint32_t inplace; /* position in a backward call's `in` whose memory the
                       gradient may use, or TN_NONE */
  const tn_need *needs;
  const char *formula; /* as written, or NULL */
#if TN_TARGET_MINOR >= 1
  uint32_t n_steps; /* TN_GRADIENT_GRAPH; 0 if stopped. Since 0.1 */
  uint32_t linear;  /* bit g: in group g, in which outputs are linear */
  const tn_step *steps;
#endif
} tn_input_gradient;

typedef struct tn_gradient {
  uint32_t struct_size;
  uint32_t kind; /* TN_GRADIENT_* */
  uint32_t n_inputs;
  uint32_t reserved;
  const tn_input_gradient *const *inputs; /* one per input */
  const char *why; /* kind NONE: the reason, part of the error text */
} tn_gradient;

/* --------------------------------------------------------------- operators */

enum { TN_OP_BACKWARD_ONLY = 1u << 0 }; /* tn_op.flags: not for users */

/* The description of an operator. Constant; one per operator of a plugin. */
typedef struct tn_op {
  uint32_t struct_size;
  uint32_t flags;     /* TN_OP_* */
  uint32_t interface; /* release of the operator's own interface, from 1 */
  uint32_t since;     /* plugin release that introduced it */
  uint32_t deprecated_since;
  uint32_t params_size; /* sizeof of the generated params struct; 0: none */
  uint32_t n_params;
  uint32_t n_dtype_vars;
  uint32_t n_inputs;
  uint32_t n_outputs;
  uint32_t n_aux;
  uint32_t n_dims;  /* dimension variables */
  uint32_t n_packs; /* pack variables */
  uint32_t n_nodes;
  uint32_t n_requires;
  uint32_t reserved;
  const char *name; /* without the plugin's: "quadratic" */
  const char *summary;
  const char *doc;      /* Markdown, or NULL */
  const char *replaces; /* "other.op" that this one replaces, or NULL */
  const char *use;      /* replacement of a deprecated operator */
  const tn_field *const *params;
  const tn_dtype_var *const *dtype_vars;
  const tn_arg *const *inputs;
  const tn_arg *const *outputs;
  const tn_arg *const *aux;
  const char *const *dims;  /* names, "N" */
  const char *const *packs; /* names, "S" */
  const tn_node *nodes;
  const tn_require *const *requirements;
  const tn_gradient *gradient;

  /* For TN_SHAPE_HOOK, otherwise NULL. Reads the (partial) shapes of `call` and
   * reports only the shapes that follow from them, through host->set_shape;
   * other nodes of a graph may determine the rest. Called again until nothing
   * changes. If shapes are still unknown, it is called with TN_CALL_DEFAULTS in
   * flags: it may then choose the usual one of several possible shapes. TN_OK,
   * or a code with TN_FAIL. [any] */
  int32_t (*infer)(const tn_frame *call);
} tn_op;

/* ----------------------------------------------------------------- kernels */

enum { TN_PASS_FORWARD = 0, TN_PASS_BACKWARD = 1 }; /* tn_kernel.pass */

enum {                                    /* tn_kernel.flags */
       TN_KERNEL_REENTRANT = 1u << 0,     /* calls of a runtime may overlap */
       TN_KERNEL_DETERMINISTIC = 1u << 1, /* same input, same bits */
       TN_KERNEL_ASYNC = 1u << 2,      /* returns before the device is done */
       TN_KERNEL_CAPTURABLE = 1u << 3, /* may be recorded into a device graph */
       /* element i of an output depends on element i of the inputs only, or on
        * one that repeats to i; backward at the outputs' shape. It can be
        * called on any block of elements: operands have its shape, and strides
        * of 0 where they repeat; `prepared` stays valid */
       TN_KERNEL_ELEMENTWISE =
           1u << 4 /* bit 5: TN_KERNEL_REDUCTION of reduction.h */
};

enum { TN_RESOURCE_RANDOM = 1 }; /* tn_kernel.resources */
#define TN_MAX_WORKSPACES 8

typedef struct tn_workspace { /* frozen */
  uint64_t bytes;
  uint64_t align; /* power of two; 0 means 64 */
} tn_workspace;

/* The result of prepare. The host passes it filled with zeros. */
typedef struct tn_plan {
  uint32_t struct_size;
  uint32_t n_ws;
  tn_workspace ws[TN_MAX_WORKSPACES];
  uint64_t random_blocks;          /* Philox blocks; 0: one per element out */
  void *prepared;                  /* becomes call->prepared */
  void (*destroy)(void *prepared); /* frees it; NULL if there is nothing to
                                      free. [any] */
} tn_plan;

/* One implementation of an operator's forward or backward. Constant. */
typedef struct tn_kernel {
  uint32_t struct_size;
  uint32_t flags; /* TN_KERNEL_* */
  uint32_t pass;  /* TN_PASS_* */
  int32_t device_type;
  int32_t priority; /* of usable kernels the highest wins */
  uint32_t writes;  /* TN_WRITES_*; the host lowers others to these */
  uint32_t n_dtype_sets;
  uint32_t n_resources;
  uint32_t options_size; /* sizeof of the generated options struct; 0: none */
  uint32_t n_options;
  uint32_t n_nodes;
  uint32_t when;  /* node that must be true, or TN_NONE. It may use parameters
                     and ranks, sizes and shapes of operands */
  const char *op; /* full name with interface: "nn.convolution@1" */
  const char *id; /* unique: "cudnn.convolution.cuda" */
  const char *requirement;    /* further requirement ("cudnn >=8.0"), or NULL */
  const char *when_text;      /* the condition as written, or NULL */
  const uint64_t *dtype_sets; /* per dtype variable: TN_BIT_*; 0: the op's */
  const uint32_t *resources;  /* TN_RESOURCE_*, in the order of tn_run */
  const tn_field *const *options;
  const tn_node *nodes;

  /* Decides whether this kernel can compute the call: TN_OK, or TN_UNSUPPORTED
   * after TN_FAIL with the reason, which `tenon show --why` prints. NULL:
   * always. [any] */
  int32_t (*supports)(const tn_frame *call);

  /* For each new combination of params, dtypes, shapes, layout, requests, flags
   * and device, at the latest before the call, and again after the host has
   * dropped the result: sets workspaces and creates data that calls share.
   * [any] */
  int32_t (*prepare)(const tn_frame *call, tn_plan *plan);

  /* Computes the call. Returns TN_OK or TN_FAIL(...). [worker] */
  int32_t (*compute)(const tn_frame *call);
} tn_kernel;

/* An operator of another plugin that kernels of this one compute, as it was at
 * their compilation. The loader accepts a params struct that has grown at its
 * end. */
typedef struct tn_target {
  uint32_t struct_size;
  uint32_t params_size;
  uint32_t n_params;
  uint32_t reserved;
  const char *op; /* "nn.convolution@1" */
  const tn_field *const *params;
} tn_target;

/* ------------------------------------------------------------------ plugin */

#if TN_TARGET_MINOR >= 2
/* A plugin that has to be loaded before this one. Constant. */
typedef struct tn_dependency {
  uint32_t struct_size;
  uint32_t release; /* the lowest usable one; 0: any */
  const char *plugin;
} tn_dependency;
#endif

/* The host's side of `init`. Valid until init returns. */
struct tn_registrar {
  uint32_t struct_size;
  uint32_t reserved;
  void *host_data; /* the host's own; do not touch */

  /* Explains why init will fail, and returns `code`. [load] */
  int32_t (*fail)(tn_registrar *registrar, int32_t code, const char *format,
                  ...) TN_PRINTF(3, 4);

  /* Withdraws a declared kernel (by id, both passes) because this machine lacks
   * something that it requires; `why` is shown by `tenon show --why`.
   * TN_NOT_FOUND if no kernel of the plugin has the id; TN_INVALID if it is
   * NULL, and then init fails. [load] */
  int32_t (*withdraw)(tn_registrar *registrar, const char *kernel_id,
                      const char *why);

  /* Offers a table to other plugins under an id ("blas/1"), or to the host
   * (device.h). It must stay valid until fini. TN_EXISTS if the id is in use;
   * ids for the host may be provided once per plugin. [load] */
  int32_t (*provide)(tn_registrar *registrar, const char *id,
                     const void *table);
};

/* "TENONPLG", first byte lowest. */
#define TN_PLUGIN_MAGIC 0x474c504e4f4e4554ull

/* tn_plugin.flags: dlclose is safe, no threads, atexit or pointers remain. */
enum { TN_PLUGIN_UNLOADABLE = 1u << 0 };

/* The one exported symbol. Constant data, so that the host can compare
 * versions before any function of the plugin runs. */
typedef struct tn_plugin {
  uint64_t magic; /* TN_PLUGIN_MAGIC */
  uint32_t struct_size;
  uint32_t abi_major;
  uint32_t abi_minor;      /* of the op.h it was compiled with */
  uint32_t min_host_minor; /* TN_TARGET_MINOR */
  uint32_t flags;          /* TN_PLUGIN_* */
  uint32_t release;        /* of the plugin, counted from 1 */
  uint32_t n_operators;
  uint32_t n_kernels;
  uint32_t n_targets;
  uint32_t reserved;
  uint64_t manifest_hash; /* of the note's manifest; binds the two together */
  const char *name;       /* namespace of its operators: "elemwise" */
  const char *summary;
  const char *license; /* SPDX expression */
  const char *opgen;   /* release of the generator that wrote the tables */
  const tn_op *const *operators;
  const tn_kernel *const *kernels;
  const tn_target *const *targets;

  /* Called once per runtime that loads the plugin, after every check and before
   * anything is registered. Keeps nothing of a runtime in globals: the host
   * passes the value of *instance back in call->instance. On failure it must
   * undo its work; fini is not called. NULL: nothing to do. [load] */
  int32_t (*init)(const tn_host *host, tn_registrar *registrar,
                  void **instance);

  /* Undoes init. No call is running or will run. NULL: nothing to do. [load] */
  void (*fini)(void *instance);

#if TN_TARGET_MINOR >= 2
  uint32_t n_dependencies;
  uint32_t reserved_2;
  /* Plugins that must be loaded before this one. They cannot be unloaded while
   * this one is loaded. In a folder they are loaded first, independent of file
   * names. Since 0.2. */
  const tn_dependency *const *dependencies;
#endif
} tn_plugin;

/* The symbol's name: TN_PLUGIN_ENTRY(acme) is `tn_plugin_entry`, or, when many
 * plugins are linked into one program with -DTN_STATIC_PLUGINS,
 * `tn_plugin_acme`, which the host passes to tn_plugin_add(). */
#ifdef TN_STATIC_PLUGINS
#define TN_PLUGIN_ENTRY(name) tn_plugin_##name
#else
#define TN_PLUGIN_ENTRY(name) tn_plugin_entry
#endif

#ifdef __cplusplus
}
#endif
#endif /* TENON_OP_H_ */
