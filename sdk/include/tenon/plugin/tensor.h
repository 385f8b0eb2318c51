/* SPDX-License-Identifier: Apache-2.0
 * plugin/tensor.h: versions of the plugin ABI, result codes, element types,
 * tensors, and requests for outputs. A part of op.h, which has the rules.
 */
#ifndef TENON_PLUGIN_TENSOR_H_
#define TENON_PLUGIN_TENSOR_H_

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

/* Storage types: nothing computes in them; operators that name them convert
 * (kernel/storage.h). Floats of 8 bits by the widths of exponent and fraction:
 * "fn" has no infinities, "uz" no negative zero. */
#define TN_F8E4M3FN TN_DTYPE_MAKE(10, 8)
#define TN_F8E4M3FNUZ TN_DTYPE_MAKE(11, 8)
#define TN_F8E5M2 TN_DTYPE_MAKE(12, 8)
#define TN_F8E5M2FNUZ TN_DTYPE_MAKE(13, 8)
#define TN_F8E8M0 TN_DTYPE_MAKE(14, 8) /* a power of two; 0xff is NaN */
/* Types below 8 bits are packed: several elements share a byte, the first in
 * its lowest bits; bits after the last element are 0. An array of them is
 * always dense in row-major order. */
#define TN_F4E2M1 TN_DTYPE_MAKE(17, 4) /* no infinities, no NaN */
#define TN_I4 TN_DTYPE_MAKE(0, 4)
#define TN_U4 TN_DTYPE_MAKE(1, 4)
#define TN_I2 TN_DTYPE_MAKE(0, 2)
#define TN_U2 TN_DTYPE_MAKE(1, 2)

/* Bits of one element. [any] */
static inline int64_t tn_dtype_bits(tn_dtype dtype) {
  return (int64_t)((dtype >> 8) & 0xffu);
}

/* Bytes of one element; 0 for packed types. [any] */
static inline int64_t tn_dtype_bytes(tn_dtype dtype) {
  return tn_dtype_bits(dtype) / 8;
}

/* 1 if elements of this type share bytes, else 0. [any] */
static inline int32_t tn_dtype_is_packed(tn_dtype dtype) {
  return dtype != TN_DTYPE_UNKNOWN && tn_dtype_bits(dtype) < 8;
}

/* Bytes of n dense elements. [any] */
static inline int64_t tn_dtype_bytes_of(tn_dtype dtype, int64_t n) {
  const int64_t bits = tn_dtype_bits(dtype);
  return bits < 8 ? (n * bits + 7) / 8 : n * (bits / 8);
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
#if TN_TARGET_MINOR >= 2
#define TN_BIT_F8E4M3FN (1ull << 13)
#define TN_BIT_F8E4M3FNUZ (1ull << 14)
#define TN_BIT_F8E5M2 (1ull << 15)
#define TN_BIT_F8E5M2FNUZ (1ull << 16)
#define TN_BIT_F8E8M0 (1ull << 17)
#define TN_BIT_F4E2M1 (1ull << 18)
#define TN_BIT_I4 (1ull << 19)
#define TN_BIT_U4 (1ull << 20)
#define TN_BIT_I2 (1ull << 21)
#define TN_BIT_U2 (1ull << 22)
#define TN_BITS_STORAGE (0x3ffull << 13) /* all storage types */
#define TN_BITS_PACKED (0x1full << 18)   /* those below 8 bits */
#endif

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

/* Bytes of a dense tensor of this shape and type. [any] */
static inline int64_t tn_tensor_bytes(const tn_tensor *t) {
  return tn_dtype_bytes_of(t->dtype, tn_tensor_size(t));
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

#ifdef __cplusplus
}
#endif
#endif /* TENON_PLUGIN_TENSOR_H_ */
