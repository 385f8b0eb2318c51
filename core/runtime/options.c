/* SPDX-License-Identifier: Apache-2.0
 * options.c: reads tn_options of any size, and refuses values that make no
 * sense.
 */
#include <string.h>

#include "module.h"
#include "runtime.h"

enum { MAX_WORKERS = 1024, MAX_CPUS = 64 };

/* A newer program may know more options than this library. Zero means the
 * default in all of them, so only other values are refused. */
static tn_code copy_options(const tn_options *from, tn_options *to) {
  memset(to, 0, sizeof *to);
  if (!from) return TN_OK;
  if (from->struct_size < sizeof from->struct_size)
    return tn__fail(TN_INVALID,
                    "tn_options.struct_size is %u; set it to"
                    " sizeof(tn_options)",
                    (unsigned)from->struct_size);
  size_t known = from->struct_size;
  if (known > sizeof *to) known = sizeof *to;
  memcpy(to, from, known);
  const unsigned char *bytes = (const unsigned char *)from;
  for (size_t i = known; i < from->struct_size; ++i)
    if (bytes[i])
      return tn__fail(TN_UNSUPPORTED,
                      "tn_options sets a field at byte %zu that"
                      " this library (%s) does not know; install a newer one",
                      i, TN_VERSION);
  return TN_OK;
}

static tn_code check_options(const tn_options *o) {
  const uint32_t trust = TN_TRUST_ANY_FOLDER | TN_TRUST_REPLACE |
                         TN_TRUST_BINDINGS | TNM_TRUST_PROBE;
  if (o->trust & ~trust)
    return tn__fail(TN_INVALID, "tn_options.trust has the unknown bits 0x%x",
                    (unsigned)(o->trust & ~trust));
  if (!o->allocator.alloc != !o->allocator.free)
    return tn__fail(TN_INVALID,
                    "tn_options.allocator has only one of alloc and"
                    " free; give both or none");
  if (o->engine > TN_ENGINE_THREADED)
    return tn__fail(TN_INVALID,
                    "tn_options.engine is %u; it may be TN_ENGINE_POOLED,"
                    " TN_ENGINE_NAIVE or TN_ENGINE_THREADED",
                    (unsigned)o->engine);
  if (o->workers > MAX_WORKERS)
    return tn__fail(TN_OUT_OF_RANGE,
                    "tn_options.workers is %u; at most %d are allowed",
                    (unsigned)o->workers, MAX_WORKERS);
  if (o->n_cpus > MAX_CPUS)
    return tn__fail(TN_OUT_OF_RANGE,
                    "tn_options.n_cpus is %u; at most %d are allowed",
                    (unsigned)o->n_cpus, MAX_CPUS);
  if (o->log_level > TN_LOG_DEBUG)
    return tn__fail(TN_INVALID,
                    "tn_options.log_level is %u; the highest is TN_LOG_DEBUG"
                    " (4)",
                    (unsigned)o->log_level);
  if (o->n_memory_limits > 0 && !o->memory_limits)
    return tn__fail(TN_INVALID,
                    "tn_options.n_memory_limits is %u, but memory_limits is"
                    " NULL",
                    (unsigned)o->n_memory_limits);
  return TN_OK;
}

tn_code tn__options_read(const tn_options *from, tn_options *to) {
  TN__TRY(copy_options(from, to));
  return check_options(to);
}
