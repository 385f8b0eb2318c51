/* SPDX-License-Identifier: Apache-2.0
 * common.h: the version of the library, its opaque types, errors and texts. A
 * part of tenon.h, which has the conventions.
 */
#ifndef TENON_HOST_COMMON_H_
#define TENON_HOST_COMMON_H_

#include "tenon/plugin/op.h"

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

#ifdef __cplusplus
}
#endif
#endif /* TENON_HOST_COMMON_H_ */
