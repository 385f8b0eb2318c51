/* SPDX-License-Identifier: Apache-2.0
 * program_inspect.c: the memory that a program needs; its steps as a table and
 * as JSON.
 */
#include <inttypes.h>
#include <string.h>

#include "execution.h"
#include "fused.h"

/* ------------------------------------------------------------------- stats */

static bool is_only_owner(const tn_array *array) {
  return array && atomic_load(&array->n_owners) == 1;
}

/* Number of bytes of arguments, states and gradients with arrays that only the
 * program owns. */
static uint64_t count_own_bytes(const tn_program *p) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < p->arguments.n + p->arguments.n_states; ++i) {
    const tn_entry entries[] = {p->arguments.v[i], p->gradients.v[i]};
    for (int k = 0; k < 2; ++k) {
      if (tn__entry_is_none(entries[k])) continue;
      const tn_array *array =
          p->values[tn__entry_id(p->graph, entries[k])].array;
      if (is_only_owner(array)) bytes += array->block->bytes;
    }
  }
  return bytes;
}

void tn__program_stats(const tn_program *p, tn_program_stats *out) {
  const uint32_t size = out->struct_size;
  *out = p->stats;
  out->struct_size = size;
  out->n_forward = p->n_forward;
  out->n_backward = p->n_steps - p->n_forward;
  out->pool_bytes = tn__memory_plan_bytes(&p->memory.plan);
  out->bound_bytes = tn__memory_plan_lower_bound(&p->memory.plan);
  for (size_t i = 0; i < p->memory.plan.n_pools; ++i)
    out->workspace_bytes += p->memory.plan.pools[i].workspace;
  out->own_bytes = count_own_bytes(p);
}

/* ------------------------------------------------------------------- table */

/* Tests whether a step has no work of its own: it is not needed, or another
 * step does its work. */
static bool is_unused(const tn__step *step) {
  const tn_program *p = step->program;
  for (uint32_t i = 0; i < step->n_out; ++i) {
    const tn__plan_place *place = tn__plan_place_of(p, step->out[i]);
    if (p->values[step->out[i]].request != TN_REQ_NULL ||
        (place && place->alias >= 0))
      return false;
  }
  return true;
}

static const char *get_kind_text(const tn__step *step) {
  switch (step->kind) {
    case TN__STEP_CALL:
      return step->info.kernel ? step->info.kernel->desc->id : "nothing";
    case TN__STEP_ADD:
      return "sum";
    case TN__STEP_FILL:
      return step->node->kind == TN__NODE_ZERO ? "zeros" : "ones";
    case TN__STEP_COPY:
      return "copy";
    case TN__STEP_LOOP:
      return "loop";
    case TN__STEP_FUSED:
      return step->fused->registers ? "fused in registers" : "fused";
    default:
      return is_unused(step) ? "nothing" : "in place";
  }
}

static const char *get_request_text(const tn_program *p, uint32_t entry) {
  const tn__plan_place *place = tn__plan_place_of(p, entry);
  if (place && place->alias >= 0) return " in place";
  switch (p->values[entry].request) {
    case TN_REQ_NULL:
      return " unused";
    case TN_REQ_ADD:
      return " add";
    default:
      return "";
  }
}

static void add_entry(const tn_program *p, uint32_t entry, tn__buf *out) {
  const tn__value *value = &p->values[entry];
  const tn__plan_place *place = tn__plan_place_of(p, entry);
  const tn_tensor *t = &value->array->tensor;
  tn__buf_add(out, " %s ", tn__dtype_name(t->dtype));
  tn__buf_shape(out, t->ndim, t->shape);
  tn__buf_add(out, "%s", get_request_text(p, entry));
  if (value->flags & TN__ENTRY_EXTERNAL)
    tn__buf_add(out, " own");
  else if (place && place->storage >= 0)
    tn__buf_add(out, " @%zu", p->memory.plan.storages[place->storage].offset);
}

static void add_device(const tn_program *p, const tn__device *device,
                       tn__buf *out) {
  char text[TN__DEVICE_TEXT];
  if (p->placement.n_devices > 1)
    tn__buf_add(out, " on %s", tn__device_text(device, text));
}

static void add_step(const tn_program *p, const tn__step *step, bool why,
                     const char *indent, tn__buf *out) {
  tn__buf_add(out, "%s%s%s  %s", indent, step->node->name,
              step->node->kind == TN__NODE_BACKWARD ? " (gradient)" : "",
              get_kind_text(step));
  add_device(p, step->device, out);
  tn__buf_add(out, " ");
  for (uint32_t i = 0; i < step->n_out; ++i) add_entry(p, step->out[i], out);
  if (step->info.workspace)
    tn__buf_add(out, " workspace %zu", step->info.workspace);
  if (why && step->pair_refusal)
    tn__buf_add(out, "; not one with %s: %s", step->other->node->name,
                step->pair_refusal);
  if (why && step->why_not && step->n_parts == 0)
    tn__buf_add(out, "; alone: %s", step->why_not);
  tn__buf_add(out, "\n");
}

static void add_parts(const tn_program *p, const tn__step *step, tn__buf *out) {
  for (uint32_t k = 0; k < step->n_parts; ++k)
    add_step(p, step->parts[k], false, "  - ", out);
}

/* Adds the pool of each device. */
static void add_pools(const tn_program *p, tn__buf *out) {
  for (size_t i = 0; p->placement.n_devices > 1 && i < p->memory.plan.n_pools;
       ++i) {
    const tn__plan_pool *pool = &p->memory.plan.pools[i];
    tn__buf_add(out, "%zu bytes in the pool", pool->bytes);
    add_device(p, p->placement.devices[pool->device], out);
    tn__buf_add(out, ", at least %zu are needed\n", pool->lower_bound);
  }
}

tn_code tn__program_text(const tn_program *p, uint32_t why, tn_text **out) {
  tn__buf text;
  *out = NULL;
  tn__buf_init(&text, p->env);
  for (uint32_t i = 0; i < p->n_steps; ++i) {
    if (i == 0 && p->n_forward > 0) tn__buf_add(&text, "forward\n");
    if (i == p->n_forward) tn__buf_add(&text, "backward\n");
    add_step(p, p->steps[i], why != 0, "  ", &text);
    add_parts(p, p->steps[i], &text);
  }
  add_pools(p, &text);
  tn__buf_add(&text, "%zu bytes in the pool%s, at least %zu are needed%s\n",
              tn__memory_plan_bytes(&p->memory.plan),
              p->placement.n_devices > 1 ? "s" : "",
              tn__memory_plan_lower_bound(&p->memory.plan),
              p->memory.wide ? "; no branch waits for another's memory" : "");
  tn__capture_print(p, &text);
  const tn_code rc = text.failed ? tn__fail_memory(text.n, "a table of steps")
                                 : tn__buf_text(&text, out);
  tn__buf_deinit(&text);
  return rc;
}

/* -------------------------------------------------------------------- JSON */

static void add_output(const tn_program *p, uint32_t entry, tn__buf *out) {
  const tn_tensor *t = &p->values[entry].array->tensor;
  const tn__plan_place *place = tn__plan_place_of(p, entry);
  const char *request = get_request_text(p, entry);
  tn__buf_add(out, "{\"dtype\": \"%s\", \"shape\": ", tn__dtype_name(t->dtype));
  tn__buf_json_shape(out, t->ndim, t->shape);
  tn__buf_add(out, ", \"request\": \"%s\", \"storage\": ",
              *request ? request + 1 : "write");
  if (place && place->storage >= 0)
    tn__buf_add(out, "%" PRId32 "}", place->storage);
  else
    tn__buf_add(out, "null}");
}

static void add_json_step(const tn_program *p, const tn__step *step,
                          tn__buf *out) {
  tn__buf_add(out, "{\"node\": ");
  tn__buf_json(out, step->node->name);
  tn__buf_add(out, ", \"does\": ");
  tn__buf_json(out, get_kind_text(step));
  tn__buf_add(out, ", \"device\": %" PRId32 ", \"outputs\": [",
              tn__device_number(p, step->device));
  for (uint32_t i = 0; i < step->n_out; ++i) {
    if (i > 0) tn__buf_add(out, ", ");
    add_output(p, step->out[i], out);
  }
  tn__buf_add(out, "]");
  if (step->info.workspace)
    tn__buf_add(out, ", \"workspace\": {\"offset\": %zu, \"bytes\": %zu}",
                p->memory.plan.workspaces[step->id], step->info.workspace);
  for (uint32_t k = 0; k < step->n_parts; ++k) {
    tn__buf_add(out, k > 0 ? ", " : ", \"parts\": [");
    tn__buf_json(out, step->parts[k]->node->name);
  }
  tn__buf_add(out, step->n_parts > 0 ? "]}" : "}");
}

static void add_devices(const tn_program *p, tn__buf *out) {
  char text[TN__DEVICE_TEXT];
  for (uint32_t i = 0; i < p->placement.n_devices; ++i) {
    if (i > 0) tn__buf_add(out, ", ");
    tn__buf_json(out, tn__device_text(p->placement.devices[i], text));
  }
}

static void add_plan(const tn__memory_plan *plan, tn__buf *out) {
  for (size_t i = 0; i < plan->n_storages; ++i) {
    const tn__plan_storage *s = &plan->storages[i];
    tn__buf_add(out,
                "%s\n{\"device\": %" PRId32
                ", \"offset\": %zu, \"bytes\": %zu, \"first\": %" PRIu32
                ", \"last\": %" PRIu32 "}",
                i > 0 ? "," : "", s->device, s->offset, s->bytes, s->first,
                s->last);
  }
  tn__buf_add(out, "],\n\"pools\": [");
  for (size_t i = 0; i < plan->n_pools; ++i)
    tn__buf_add(
        out, "%s\n{\"device\": %" PRId32 ", \"bytes\": %zu, \"at_least\": %zu}",
        i > 0 ? "," : "", plan->pools[i].device, plan->pools[i].bytes,
        plan->pools[i].lower_bound);
}

tn_code tn__program_json(const tn_program *p, tn_text **out) {
  tn__buf text;
  *out = NULL;
  tn__buf_init(&text, p->env);
  tn__buf_add(&text, "{\"n_forward\": %" PRIu32 ", \"devices\": [",
              p->n_forward);
  add_devices(p, &text);
  tn__buf_add(&text, "],\n\"steps\": [");
  for (uint32_t i = 0; i < p->n_steps; ++i) {
    tn__buf_add(&text, i > 0 ? ",\n" : "\n");
    add_json_step(p, p->steps[i], &text);
  }
  tn__buf_add(&text, "],\n\"storages\": [");
  add_plan(&p->memory.plan, &text);
  tn__buf_add(&text, "]}\n");
  const tn_code rc = text.failed ? tn__fail_memory(text.n, "a program as JSON")
                                 : tn__buf_text(&text, out);
  tn__buf_deinit(&text);
  return rc;
}
