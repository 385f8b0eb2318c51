/* SPDX-License-Identifier: Apache-2.0
 * trial_memory.c: makes arrays in pages of their own, between two inaccessible
 * pages. Inputs are read-only. The signal of a forbidden access is reported
 * with the name of the operand.
 */
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "tenon/exchange.h"
#include "trial_child.h"

enum { MOST_BLOCKS = 6 * MAX_OPERANDS, FILL_END = 0xa5, FILL_START = 0x5a };

/* One array: a guard page, its pages, and a guard page. */
typedef struct guarded {
  tn_dlpack_versioned package;
  int64_t shape[TN_MAX_NDIM];
  char name[64];
  char *base;
  size_t total; /* bytes with the two pages */
  char *data;
  size_t n;
  int fill; /* value of the bytes that belong to no element */
  bool read_only;
} guarded;

/* The arrays of the current turn. */
static guarded blocks[MOST_BLOCKS];
static size_t n_blocks;
static char signal_stack[1 << 16];

static size_t page_bytes(void) {
  return (size_t)sysconf(_SC_PAGESIZE);
}

/* The first of the pages between the two guard pages. */
static char *first_byte(const guarded *b) {
  return b->base + page_bytes();
}

static size_t inner_bytes(const guarded *b) {
  return b->total - 2 * page_bytes();
}

/* ------------------------------------------------------------------- arrays */

static bool map_block(guarded *b, const trial_spec *spec) {
  const size_t page = page_bytes();
  if (b->n > SIZE_MAX - 4 * page) return false;
  const size_t inner = (b->n + page - 1) / page * page;
  b->total = inner + 2 * page;
  b->base = mmap(NULL, b->total, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (b->base == MAP_FAILED) return false;
  if (mprotect(first_byte(b), inner, PROT_READ | PROT_WRITE) != 0) {
    (void)munmap(b->base, b->total);
    return false;
  }
  b->fill = spec->at_end ? FILL_END : FILL_START;
  b->data = first_byte(b) + (spec->at_end ? inner - b->n : 0);
  memset(first_byte(b), b->fill, inner);
  return true;
}

static void protect_block(guarded *b) {
  b->read_only = mprotect(first_byte(b), inner_bytes(b), PROT_READ) == 0;
}

static tn_code import_block(tn_runtime *rt, guarded *b, const trial_spec *spec,
                            tn_array **out) {
  memcpy(b->shape, spec->shape, (size_t)spec->ndim * sizeof *b->shape);
  b->package = (tn_dlpack_versioned){
      .major = TN_DLPACK_MAJOR,
      .minor = TN_DLPACK_MINOR,
      .flags = spec->bytes != NULL ? (uint64_t)TN_DLPACK_READ_ONLY : 0,
      .tensor = {.data = b->data,
                 .device_type = TN_DEVICE_CPU,
                 .ndim = spec->ndim,
                 .dtype = spec->dtype,
                 .shape = b->shape}};
  return tn_array_from_dlpack_versioned(
      rt, &b->package, spec->bytes != NULL ? (uint32_t)TN_DLPACK_BORROW : 0,
      out);
}

/* An empty array has no memory to guard. */
static tn_code make_empty(tn_runtime *rt, const trial_spec *spec,
                          tn_array **out) {
  const tn_spec plain = {spec->dtype, spec->ndim, spec->shape};
  return tn_array_create(rt, &plain, out);
}

tn_code trial_memory_array(tn_runtime *rt, const trial_spec *spec,
                           tn_array **out) {
  size_t bytes = 0;
  *out = NULL;
  if (!tn__tensor_bytes(spec->dtype, spec->ndim, spec->shape, &bytes))
    return tn__fail(TN_OUT_OF_RANGE, "`%s` is too large", spec->name);
  if (bytes == 0) return make_empty(rt, spec, out);
  if (n_blocks == MOST_BLOCKS)
    return tn__fail(TN_UNSUPPORTED, "more than %d arrays", MOST_BLOCKS);
  guarded *b = &blocks[n_blocks];
  *b = (guarded){.n = bytes};
  (void)snprintf(b->name, sizeof b->name, "%s", spec->name);
  if (!map_block(b, spec)) return tn__fail_memory(bytes, "an array");
  ++n_blocks;
  if (spec->bytes != NULL) {
    memcpy(b->data, spec->bytes, bytes);
    protect_block(b);
  }
  return import_block(rt, b, spec, out);
}

void trial_memory_protect(void) {
  for (size_t i = 0; i < n_blocks; ++i)
    if (!blocks[i].read_only) protect_block(&blocks[i]);
}

static bool is_filled(const char *from, const char *to, int fill) {
  for (; from < to; ++from)
    if ((unsigned char)*from != (unsigned char)fill) return false;
  return true;
}

void trial_memory_check(void) {
  for (size_t i = 0; i < n_blocks; ++i) {
    const guarded *b = &blocks[i];
    const char *end = first_byte(b) + inner_bytes(b);
    if (!is_filled(first_byte(b), b->data, b->fill))
      trial_find("E0202", "it writes before the beginning of `%s`", b->name);
    if (!is_filled(b->data + b->n, end, b->fill))
      trial_find("E0202", "it writes after the end of `%s`", b->name);
  }
}

size_t trial_memory_count(void) {
  return n_blocks;
}

void trial_memory_close(size_t first) {
  for (size_t i = first; i < n_blocks; ++i)
    (void)munmap(blocks[i].base, blocks[i].total);
  n_blocks = first;
}

/* ------------------------------------------------------------------- faults */

static const guarded *find_block(const char *address) {
  for (size_t i = 0; i < n_blocks; ++i)
    if (address >= blocks[i].base && address < blocks[i].base + blocks[i].total)
      return &blocks[i];
  return NULL;
}

/* "writes" or "reads", if the processor reports it. */
static const char *name_access(const ucontext_t *context) {
#if defined(__x86_64__)
  return (context->uc_mcontext.gregs[REG_ERR] & 2) != 0 ? "writes" : "reads";
#else
  (void)context;
  return "reaches";
#endif
}

static bool is_overflow(const ucontext_t *context, const char *address) {
#if defined(__x86_64__)
  const intptr_t distance =
      (intptr_t)address - (intptr_t)context->uc_mcontext.gregs[REG_RSP];
  return distance > -65536 && distance < 65536;
#else
  (void)context, (void)address;
  return false;
#endif
}

/* Writes the record before the process ends. Another thread may hold a lock of
 * the C library; then the time limit ends the process. */
static void report_fault(int number, siginfo_t *info, void *context) {
  const char *address = info->si_addr;
  const guarded *b = find_block(address);
  if (b == NULL && !is_overflow(context, address)) {
    (void)signal(number, SIG_DFL); /* the access is repeated */
    return;
  }
  if (b == NULL)
    trial_write(TRIAL_FAILURE, "its stack overflows");
  else if (address < b->data)
    trial_find("E0202", "it %s before the beginning of `%s`",
               name_access(context), b->name);
  else if (address >= b->data + b->n)
    trial_find("E0202", "it %s after the end of `%s`", name_access(context),
               b->name);
  else
    trial_find("E0201", "it writes to `%s`, which this call only reads",
               b->name);
  trial_write(TRIAL_STOP, "%s", "");
  _exit(1);
}

bool trial_memory_catch_faults(void) {
  const stack_t stack = {.ss_sp = signal_stack, .ss_size = sizeof signal_stack};
  struct sigaction action = {.sa_flags = SA_SIGINFO | SA_ONSTACK};
  action.sa_sigaction = report_fault;
  sigemptyset(&action.sa_mask);
  return sigaltstack(&stack, NULL) == 0 &&
         sigaction(SIGSEGV, &action, NULL) == 0 &&
         sigaction(SIGBUS, &action, NULL) == 0;
}
