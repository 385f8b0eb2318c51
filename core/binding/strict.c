/* SPDX-License-Identifier: Apache-2.0
 * strict.c: implements strict.h: pages without access around the memory of each
 * pointer, filled registers, and further arguments after the last one.
 */
#include "strict.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* After the arguments: all registers that some call may use, and some words of
 * the stack. */
enum { MORE_WORDS = 10, MORE_NUMBERS = 10, MORE = MORE_WORDS + MORE_NUMBERS };

/* Large as a count, invalid as an address, and NaN as a double. */
#define JUNK UINT64_C(0x7ff9a5a55a5aa5a5)

struct tn__strict {
  const tnm_binding *desc;
  uint32_t n_calls;
  ffi_cif cif;
  ffi_type *types[TNM_MAX_ARGS + MORE];
};

/* ------------------------------------------------------------------- numbers
 */

/* Whether registers have bits above a narrow number that a function must not
 * read, in the order that this file assumes. */
#if defined(__x86_64__) || (defined(__aarch64__) && defined(__AARCH64EL__))
enum { HAS_SPARE_BITS = 1 };
#else
enum { HAS_SPARE_BITS = 0 };
#endif

static ffi_type *type_of(uint32_t c) {
  switch (c) {
    case TNM_C_POINTER:
      return &ffi_type_pointer;
    case TNM_C_F32:
      return HAS_SPARE_BITS ? &ffi_type_double : &ffi_type_float;
    case TNM_C_F64:
      return &ffi_type_double;
    default:
      return &ffi_type_uint64;
  }
}

/* The number in the lower half of a register, extended as compilers do it. */
static uint64_t lower_half(uint32_t c, const void *value) {
  int64_t wide;
  memcpy(&wide, value, sizeof wide);
  return (uint64_t)wide & (c == TNM_C_F32 ? UINT32_MAX : UINT64_MAX);
}

static uint64_t fill_upper_bits(uint32_t c, const void *value) {
  const uint64_t have = lower_half(c, value);
  const bool narrow = c == TNM_C_F32 || c == TNM_C_I8 || c == TNM_C_I16 ||
                      c == TNM_C_I32 || c == TNM_C_U8 || c == TNM_C_U16 ||
                      c == TNM_C_U32;
  if (!narrow || !HAS_SPARE_BITS) return have;
  return (have & UINT32_MAX) | (JUNK & ~(uint64_t)UINT32_MAX);
}

/* ------------------------------------------------------------------- memory */

/* The memory of one pointer, between two pages without access. */
typedef struct guard {
  const void *original;
  char *map;
  size_t room; /* between the two */
  char *data;
  size_t bytes;
  bool written;
} guard;

static size_t page_bytes(void) {
  return (size_t)sysconf(_SC_PAGESIZE);
}

static bool open_guard(guard *g, bool at_end, unsigned char filler) {
  const size_t page = page_bytes();
  g->room = (g->bytes + page - 1) / page * page;
  if (g->room == 0) g->room = page;
  g->map = mmap(NULL, g->room + 2 * page, PROT_NONE,
                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (g->map == MAP_FAILED) return false;
  char *first = g->map + page;
  if (mprotect(first, g->room, PROT_READ | PROT_WRITE) != 0) {
    (void)munmap(g->map, g->room + 2 * page);
    return false;
  }
  memset(first, filler, g->room);
  g->data = at_end ? first + g->room - g->bytes : first;
  return true;
}

static bool is_filled(const char *from, const char *to, unsigned char filler) {
  for (; from < to; ++from)
    if ((unsigned char)*from != filler) return false;
  return true;
}

/* Whether nothing was written around the memory. */
static bool guard_is_whole(const guard *g, unsigned char filler) {
  const char *first = g->map + page_bytes();
  return is_filled(first, g->data, filler) &&
         is_filled(g->data + g->bytes, first + g->room, filler);
}

static void close_guard(guard *g) {
  (void)munmap(g->map, g->room + 2 * page_bytes());
}

/* --------------------------------------------------------------------- calls
 */

/* One call. */
typedef struct attempt {
  const tn__strict *strict;
  const tn_frame *call;
  unsigned char filler;
  uint32_t n;
  guard guards[TNM_MAX_ARGS];
  uint32_t names[TNM_MAX_ARGS]; /* the argument of each guard */
  uint64_t values[TNM_MAX_ARGS + MORE];
} attempt;

static bool is_written(const tnm_bound_arg *arg) {
  return arg->pass == TNM_PASS_TENSOR && arg->list != TN_OPERAND_IN;
}

static guard *find_guard(attempt *a, const void *original, size_t bytes) {
  for (uint32_t i = 0; i < a->n; ++i)
    if (a->guards[i].original == original && a->guards[i].bytes == bytes)
      return &a->guards[i];
  return NULL;
}

static tn_code guard_argument(attempt *a, uint32_t i,
                              const tn__strict_arg *arg) {
  const void *original = NULL;
  memcpy(&original, arg->value, sizeof original);
  a->values[i] = 0;
  if (original == NULL) return TN_OK;
  guard *g = find_guard(a, original, arg->bytes);
  const bool known = g != NULL;
  if (!known) {
    g = &a->guards[a->n];
    *g = (guard){.original = original, .bytes = arg->bytes};
    if (!open_guard(g, a->strict->n_calls % 2 == 0, a->filler))
      return tn__fail_memory(arg->bytes, "a copy between pages");
    a->names[a->n++] = i;
  }
  if (!arg->fill) memcpy(g->data, original, g->bytes);
  if (is_written(&a->strict->desc->args[i])) g->written = true;
  memcpy(&a->values[i], &g->data, sizeof g->data);
  return TN_OK;
}

static tn_code enter_all(attempt *a, const tn__strict_arg *args) {
  const tnm_binding *binding = a->strict->desc;
  for (uint32_t i = 0; i < binding->n_args; ++i) {
    const uint32_t c = binding->args[i].c;
    if (c == TNM_C_POINTER)
      TN__TRY(guard_argument(a, i, &args[i]));
    else
      a->values[i] = fill_upper_bits(c, args[i].value);
  }
  for (uint32_t i = 0; i < MORE; ++i) a->values[binding->n_args + i] = JUNK;
  for (uint32_t i = 0; i < a->n; ++i)
    if (!a->guards[i].written)
      (void)mprotect(a->guards[i].map + page_bytes(), a->guards[i].room,
                     PROT_READ);
  return TN_OK;
}

static void call_guarded(attempt *a, void (*function)(void), void *result) {
  void *places[TNM_MAX_ARGS + MORE];
  const uint32_t n = a->strict->desc->n_args + MORE;
  for (uint32_t i = 0; i < n; ++i) places[i] = &a->values[i];
  ffi_cif cif = a->strict->cif;
  ffi_call(&cif, function, result, places);
}

/* Copies results back if the function stayed inside of its memory. */
static int32_t copy_results(const attempt *a) {
  const tnm_binding *binding = a->strict->desc;
  for (uint32_t i = 0; i < a->n; ++i) {
    const guard *g = &a->guards[i];
    if (!guard_is_whole(g, a->filler))
      return TN_FAIL(
          a->call, TN_PLUGIN,
          "%s writes beside the memory of `%s`, argument %u; compare "
          "`binding: args` with the prototype in the library's "
          "header",
          binding->symbol, binding->args[a->names[i]].text, a->names[i] + 1);
  }
  for (uint32_t i = 0; i < a->n; ++i) {
    void *to = NULL;
    memcpy(&to, &a->guards[i].original, sizeof to);
    if (a->guards[i].written) memcpy(to, a->guards[i].data, a->guards[i].bytes);
  }
  return TN_OK;
}

int32_t tn__strict_call(tn__strict *strict, const tn_frame *call,
                        void (*function)(void), const tn__strict_arg *args,
                        void *result) {
  attempt a = {.strict = strict,
               .call = call,
               .filler = strict->n_calls % 2 == 0 ? 0xa5 : 0x7f};
  int32_t rc = enter_all(&a, args);
  if (rc == TN_OK) {
    call_guarded(&a, function, result);
    rc = copy_results(&a);
  } else {
    rc = TN_FAIL(call, rc, "%s", tn_error_text());
  }
  for (uint32_t i = 0; i < a.n; ++i) close_guard(&a.guards[i]);
  ++strict->n_calls;
  return rc;
}

tn_code tn__strict_create(const tn__env *env, const tnm_binding *binding,
                          ffi_type *returns, tn__strict **out) {
  tn__strict *strict = tn__zalloc(env, sizeof *strict);
  *out = NULL;
  if (!strict) return tn__fail_memory(sizeof *strict, "a strict call");
  strict->desc = binding;
  uint32_t n = 0;
  for (; n < binding->n_args; ++n)
    strict->types[n] = type_of(binding->args[n].c);
  for (uint32_t i = 0; i < MORE; ++i)
    strict->types[n++] = i < MORE_WORDS ? &ffi_type_uint64 : &ffi_type_double;
  if (ffi_prep_cif(&strict->cif, FFI_DEFAULT_ABI, n, returns, strict->types) ==
      FFI_OK) {
    *out = strict;
    return TN_OK;
  }
  tn__free(env, strict);
  return tn__fail(TN_UNSUPPORTED,
                  "libffi cannot call %s with these types of arguments",
                  binding->symbol);
}
