/* SPDX-License-Identifier: Apache-2.0
 * budget.c: element memory, counted against what the host allows.
 */
#include <inttypes.h>

#include "storage.h"

/* Takes `bytes` of the budget, or says how much is left. */
static tn_code take(tn__budget *budget, size_t bytes, const char *what) {
  uint64_t used = atomic_load_explicit(&budget->used, memory_order_relaxed);
  do {
    if (bytes > budget->limit - used)
      return tn__fail(TN_OUT_OF_MEMORY,
                      "out of memory: %zu bytes for %s would exceed the limit "
                      "of %" PRIu64 " bytes on cpu, of which %" PRIu64
                      " are in use; release arrays, or raise the limit in "
                      "tn_options.memory_limits",
                      bytes, what, budget->limit, used);
  } while (!atomic_compare_exchange_weak_explicit(
      &budget->used, &used, used + bytes, memory_order_relaxed,
      memory_order_relaxed));
  return TN_OK;
}

static void give(tn__budget *budget, size_t bytes) {
  atomic_fetch_sub_explicit(&budget->used, bytes, memory_order_relaxed);
}

tn_code tn__storage_alloc(const tn__env *env, size_t bytes, size_t align,
                          const char *what, void **out) {
  *out = NULL;
  if (env->budget != NULL) TN__TRY(take(env->budget, bytes, what));
  *out = tn__alloc_aligned(env, bytes, align);
  if (*out != NULL) return TN_OK;
  if (env->budget != NULL) give(env->budget, bytes);
  return tn__fail_memory(bytes, what);
}

void tn__storage_free(const tn__env *env, void *memory, size_t bytes) {
  if (memory == NULL) return;
  tn__free(env, memory);
  if (env->budget != NULL) give(env->budget, bytes);
}
