/* SPDX-License-Identifier: Apache-2.0
 * strict.h: calls of a bound function in which nothing is right by luck.
 * tenon-probe makes them: they cost pages, and end the process of a function
 * that is bound by a wrong prototype.
 *
 * - What a pointer names ends at a page that nobody may touch, or begins behind
 *   one, by turns; the rest of its pages is filled, and looked at afterwards.
 *   What `const` promises is read-only. Outputs are not zero before.
 * - A number that is narrower than its register has a register whose other bits
 *   are none that a wider number could have.
 * - Behind the arguments stand more, in all registers and on the stack, for a
 *   function that reads more than it is given.
 *
 * A function that is bound by its own prototype sees none of that.
 */
#ifndef TENON_REGISTRY_STRICT_H_
#define TENON_REGISTRY_STRICT_H_

#include <ffi.h>

#include "bound.h"

typedef struct tn__strict tn__strict;

/* Prepares such calls of a binding. The caller frees *out. */
tn_code tn__strict_create(const tn__env *env, const tnm_binding *binding,
                          ffi_type *returns, tn__strict **out);

/* One argument: where its value is, and the memory that it points to. */
typedef struct tn__strict_arg {
  void *value;  /* 8 bytes that may be read */
  size_t bytes; /* behind a pointer; 0 if it is none */
  bool fill;    /* nothing is to be read there */
} tn__strict_arg;

/* Calls the function; `args` has one for each argument of the binding. TN_OK,
 * or a code with TN_FAIL. One thread at a time. */
int32_t tn__strict_call(tn__strict *strict, const tn_frame *call,
                        void (*function)(void), const tn__strict_arg *args,
                        void *result);

#endif /* TENON_REGISTRY_STRICT_H_ */
