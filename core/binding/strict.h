/* SPDX-License-Identifier: Apache-2.0
 * strict.h: calls of a bound function that fail if its prototype is wrong.
 * tenon-probe makes them: they cost pages, and end the process of a function
 * with a wrong prototype.
 *
 * - The memory of a pointer ends at a page without access, or begins after one,
 *   alternately. The rest of its pages is filled and compared afterwards.
 * `const` memory is read-only. Outputs are not zero before the call.
 * - A number that is narrower than its register gets register bits that no
 * wider number could have.
 * - Further arguments follow the last one, in all registers and on the stack,
 * for a function that reads more than it gets.
 *
 * A function with the right prototype notices none of this.
 */
#ifndef TENON_BINDING_STRICT_H_
#define TENON_BINDING_STRICT_H_

#include <ffi.h>

#include "bound.h"

typedef struct tn__strict tn__strict;

/* Prepares strict calls of a binding. The caller frees *out. */
tn_code tn__strict_create(const tn__env *env, const tnm_binding *binding,
                          ffi_type *returns, tn__strict **out);

/* One argument: the address of its value, and the memory of a pointer. */
typedef struct tn__strict_arg {
  void *value;  /* 8 bytes that may be read */
  size_t bytes; /* size of the pointer's memory; 0 if it is no pointer */
  bool fill;    /* the function must not read the memory before it writes */
} tn__strict_arg;

/* Calls the function; `args` has one entry for each argument of the binding.
 * TN_OK, or a code with TN_FAIL. One thread at a time. */
int32_t tn__strict_call(tn__strict *strict, const tn_frame *call,
                        void (*function)(void), const tn__strict_arg *args,
                        void *result);

#endif /* TENON_BINDING_STRICT_H_ */
