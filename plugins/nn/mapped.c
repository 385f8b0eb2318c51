/* SPDX-License-Identifier: Apache-2.0
 * mapped.c: prepared maps of element-wise kernels (mapped.h).
 */
#include "mapped.h"

#include <stdlib.h>

/* The constant result of tn_kernel_map_prepare. */
struct nn_mapped {
  const void *ready;
};

int32_t nn_mapped_create(const tn_frame *call, const tn_kernel_map *map,
                         nn_mapped **out) {
  tn_plan plan = {.struct_size = sizeof plan};
  *out = malloc(sizeof **out);
  if (!*out) return TN_FAIL(call, TN_OUT_OF_MEMORY, "no memory");
  const int32_t code = tn_kernel_map_prepare(call, &plan, map, 1);
  (*out)->ready = plan.prepared;
  return code;
}

void nn_mapped_destroy(nn_mapped *mapped) {
  free(mapped);
}

int32_t nn_mapped_run(const tn_frame *call, const tn_kernel_map *map) {
  const nn_mapped *mapped = call->prepared;
  tn_frame own = *call;
  own.prepared = mapped ? mapped->ready : NULL;
  return tn_kernel_map_run(&own, map, 1);
}
