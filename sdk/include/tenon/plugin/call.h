/* SPDX-License-Identifier: Apache-2.0
 * plugin/call.h: one call of a kernel (tn_frame), and the functions of the host
 * that a plugin may use meanwhile (tn_host). A part of op.h, which has the
 * rules.
 */
#ifndef TENON_PLUGIN_CALL_H_
#define TENON_PLUGIN_CALL_H_

#include "tenon/plugin/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

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
/* The call cannot run, because an operand carries an error. Only for kernels
 * with TN_RESOURCE_ORDER. `data` and `ws` must not be used, `defer` fails, and
 * the result is ignored. */
#define TN_CALL_TOLD (1u << 7)
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

#if TN_TARGET_MINOR >= 2
/* A call that completes later. A kernel with TN_KERNEL_LATER may return before
 * its results are complete. Then no thread of the host waits for
 * its network, file or other process:
 *
 *   int32_t acme_receive(const tn_frame *call) {
 *     tn_later *later = call->host->defer(call);
 *     if (later == NULL) return TN_UNSUPPORTED;  // the host has the reason
 *     if (!acme_start(call, later))              // `later` is now void
 *       return TN_FAIL(call, TN_IO, "cannot reach the server");
 *     return TN_LATER;
 *   }
 *
 *   // On a thread of the plugin, for each receive that has ended.
 *   static void acme_end(const tn_frame *call, tn_later *later, int status) {
 *     if (status == 0)
 *       call->host->complete(later, TN_OK, NULL);
 *     else
 *       call->host->complete(later, TN_IO, "the connection was lost");
 *   }
 *
 * The ticket counts only if compute returns TN_LATER. Then the frame and all
 * that it refers to (operands, params, options, prepared, workspaces, instance)
 * stay valid, and every operation that reads or overwrites the operands waits,
 * until `complete` is called. Afterwards the plugin uses nothing of the call.
 * `complete` may be called on any thread, and also before compute has returned:
 * then the call is valid until compute returns.
 *
 * If compute returns another code, the ticket is void and must not be
 * completed. A kernel that has its results at once returns TN_OK.
 *
 * Until the completion, threads of the plugin may use the host's functions
 * `fail`, `log`, `cancelled` and `complete`, and no others.
 *
 * Kernels of devices with queues have TN_KERNEL_ASYNC instead, if their work is
 * on the queue of the call: such a call is complete when its queue has executed
 * it (device.h). A kernel whose work is on another queue has TN_KERNEL_LATER:
 * its work begins after the present end of tn_run.stream, and the device has
 * executed all of it when the plugin calls `complete`. Meanwhile the queue of
 * the call executes other operations. */
typedef struct tn_later tn_later; /* the ticket of one call */

enum { TN_LATER = 1 }; /* result of compute: `complete` follows */
#endif

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
   * a call wins; in a parallel loop that of the failing slice that begins
   * lowest. The host adds operator, kernel, plugin and shapes. Formats as
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

#if TN_TARGET_MINOR >= 2
  /* The ticket of a call that will complete later; further calls return the
   * same one. NULL after TN_FAIL with the reason, if the kernel lacks
   * TN_KERNEL_LATER, the call does not compute, or memory is low. Belongs to
   * the host. Since 0.2. [worker] */
  tn_later *(*defer)(const tn_frame *call);

  /* Completes the call of a ticket, exactly once: TN_OK, or a failure and its
   * reason. The text is copied; NULL: the last text of TN_FAIL for this call.
   * The host writes temporaries back to their arrays and starts waiting
   * operations before this returns. Since 0.2. [any] */
  void (*complete)(tn_later *later, int32_t code, const char *text);

  /* 1 after tn_runtime_shutdown, otherwise 0. The shutdown, and the end of a
   * runtime, wait for all tickets. So work that may take long should then end
   * early, and be completed with TN_BUSY. Since 0.2. [any] */
  int32_t (*cancelled)(const tn_later *later);
#endif
};

#define TN_FAIL(call, code, ...) \
  ((call)->host->fail((call), (code), __FILE__, __LINE__, __VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif /* TENON_PLUGIN_CALL_H_ */
