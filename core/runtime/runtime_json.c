/* SPDX-License-Identifier: Apache-2.0
 * runtime_json.c: describes a runtime as JSON, for a thread that watches it.
 * runtime.h of tenon documents the keys. It waits for no other thread.
 */
#include <inttypes.h>

#include "runtime.h"

static void add_log_levels(const tn__env *env, tn__buf *out) {
  tn__buf_add(out, "{");
  for (tn__log_part part = 0; part < TN__LOG_PARTS; ++part)
    tn__buf_add(out, "%s\"%s\": \"%s\"", part ? ", " : "",
                tn__log_part_name(part),
                tn__log_level_name(env->log_levels.of[part]));
  tn__buf_add(out, "}");
}

static void add_options(tn_runtime *rt, tn__buf *out) {
  tn__buf_add(
      out,
      "{\"trust\": %u, \"seed\": %" PRIu64 ", \"cpu\": ", rt->registry->trust,
      atomic_load_explicit(&rt->caller.random.key, memory_order_relaxed));
  tn__buf_json(out, rt->device_detail);
  tn__buf_add(out, ", \"search_path\": ");
  tn__buf_json(out, rt->search_path);
  tn__buf_add(out, ", \"log\": ");
  add_log_levels(&rt->env, out);
  tn__buf_add(out, "}");
}

void tn__runtime_json(tn_runtime *rt, tn__buf *out) {
  tn__buf_add(out,
              "{\"format\": 1, \"version\": \"" TN_VERSION "\", \"options\": ");
  add_options(rt, out);
  tn__buf_add(out,
              ", \"closed\": %s, \"owners\": %" PRId64 ", \"arrays\": %" PRIu64
              ", \"engine\": ",
              atomic_load(&rt->closed) ? "true" : "false",
              atomic_load(&rt->n_owners),
              tn__devices_count_arrays(rt->devices));
  tn__engine_json(rt->env.engine, out);
  tn__buf_add(out, ", \"devices\": ");
  tn__devices_json(rt->devices, out);
  tn__buf_add(out, ", ");
  tn__registry_json(rt->registry, out);
  tn__buf_add(out, "}\n");
}
