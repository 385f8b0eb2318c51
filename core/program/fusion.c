/* SPDX-License-Identifier: Apache-2.0
 * fusion.c: decides which steps are fused. A run of calls of elementwise
 * kernels over the same elements is computed tile by tile, so that intermediate
 * results stay in the cache. A result that has no readers outside of the run
 * gets no memory.
 *
 * Fusion precedes the memory plan, so the plan does not reserve memory for
 * results that no longer exist.
 */
#include <string.h>

#include "fused.h"

enum {
  MOST_PARTS = 32,       /* largest number of parts of a fused step */
  MOST_OPERANDS = 96,    /* largest number of operands of all parts together */
  LEAST_BYTES = 32 << 10 /* least number of bytes of one operand of a fused
                            step; smaller operands stay in the cache anyway */
};

/* A fused run that grows: steps that are going to be the parts of one fused
 * step. Steps are added one by one. */
typedef struct growing_run {
  tn_program *p;
  tn__step *parts[MOST_PARTS];
  uint32_t n;
  uint32_t n_operands;
  const tn_tensor *loop; /* the shape of all outputs */
  uint32_t *reads; /* for each entry: number of operands of all steps that read
                      its elements */
} growing_run;

/* Tests whether the program writes heads into the arrays of arguments. */
static bool has_late_heads(const tn_program *p) {
  for (uint32_t i = 0; i < p->heads.n; ++i)
    if (p->heads.late[i]) return true;
  return false;
}

/* --------------------------------------------------------------- candidates */

static bool has_same_loop_shape(const tn_tensor *a, const tn_tensor *b) {
  return a->ndim == b->ndim &&
         memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape) == 0;
}

const tn_tensor *tn__fused_loop_shape(const tn_frame *f) {
  const tn_tensor *loop = NULL;
  for (uint32_t i = 0; i < f->n_out; ++i) {
    if (f->req[i] == TN_REQ_NULL) continue;
    if (loop && !has_same_loop_shape(loop, &f->out[i])) return NULL;
    loop = &f->out[i];
  }
  return loop;
}

uint32_t tn__part_entry(const tn__step *part, uint32_t i) {
  const tn_frame *f = part->info.frame;
  if (i >= f->n_in) return part->out[i - f->n_in];
  if (part->node->kind != TN__NODE_BACKWARD) return part->in[i];
  const uint32_t given = part->n_out, missing = f->n_out - part->n_out;
  const uint32_t n_grads = (f->n_in - f->n_out) / 2;
  if (i < n_grads + given) return part->in[i];
  return i < n_grads + f->n_out ? TN_NONE : part->in[i - missing];
}

/* Tests whether a tensor can be repeated to the shape of the loop. */
static bool can_span(const tn_tensor *t, const tn_tensor *loop) {
  if (t->ndim > loop->ndim) return false;
  for (int32_t i = 1; i <= t->ndim; ++i) {
    const int64_t n = t->shape[t->ndim - i];
    if (n != 1 && n != loop->shape[loop->ndim - i]) return false;
  }
  return true;
}

static bool can_inputs_span(const tn_frame *f, const tn_tensor *loop) {
  for (uint32_t i = 0; i < f->n_in; ++i)
    if (tn__operand_is_used(f, i) && !can_span(&f->in[i], loop)) return false;
  return true;
}

static bool has_packed(const tn_tensor *tensors, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i)
    if (tn_dtype_is_packed(tensors[i].dtype)) return true;
  return false;
}

static bool is_small_loop(const tn_tensor *loop) {
  return tn_tensor_bytes(loop) < LEAST_BYTES;
}

/* Returns the reason why a reduction cannot be a part of a fused step; NULL if
 * it can. The dimensions of the reduction are not merged first: its extents
 * must be those of the unfused call. */
static const char *explain_unfused_reduction(const tn__step *step) {
  const tn_frame *f = step->info.frame;
  int32_t ndim = 0;
  tn_reduction reduction;
  if (step->info.records == 0) return "its kernel takes such a call whole only";
  if (f->n_in != 1 || f->n_out != 1 || f->n_aux != 0 ||
      !tn_reduction_cut(&f->in[0], &f->out[0], &reduction) ||
      step->info.records % (uint64_t)(reduction.lines * reduction.parts) != 0)
    return "its kernel breaks the rules of reductions";
  for (int32_t i = 0; i < reduction.ndim; ++i) ndim += reduction.shape[i] != 1;
  if (ndim > TN__LOOP_NDIM) return "it reduces too many dimensions";
  return is_small_loop(&f->in[0]) ? "its operands stay in the cache" : NULL;
}

static const char *explain_unfused_call(const tn__step *step) {
  if (!step->info.direct)
    return "its kernel does not support its operands or "
           "requests";
  const tn_frame *f = step->info.frame;
  const tn_tensor *loop = tn__fused_loop_shape(f);
  if (f->n_aux > 0) return "it has states";
  if (has_packed(f->in, f->n_in) || has_packed(f->out, f->n_out))
    return "elements of its operands share bytes";
  if (!loop || !can_inputs_span(f, loop)) return "its operands differ in shape";
  return is_small_loop(loop) ? "its operands stay in the cache" : NULL;
}

static bool overlaps_shifted_argument(const tn_program *p,
                                      const tn_array *array) {
  for (uint32_t i = 0; i < p->arguments.n + p->arguments.n_states; ++i)
    if (tn__arrays_overlap(
            array,
            p->values[tn__entry_id(p->graph, p->arguments.v[i])].array) ==
        TN__OVERLAP)
      return true;
  return false;
}

/* Tests whether a step writes into an argument with another offset than it
 * reads. A tile would then overwrite elements that later tiles read. */
static bool overwrites_part(const tn_program *p, const tn__step *step) {
  for (uint32_t i = 0; i < p->heads.n; ++i) {
    const uint32_t entry = tn__entry_id(p->graph, p->heads.v[i]);
    if (p->heads.late[i] &&
        tn__entry_is_listed(step->out, step->n_out, entry) &&
        overlaps_shifted_argument(p, p->values[entry].array))
      return true;
  }
  return false;
}

/* Returns the reason why a step must be computed alone; NULL if it may be a
 * part of a fused step. `late`: the program writes heads into arguments. */
static const char *explain_unfused_step(const tn_program *p,
                                        const tn__step *step, bool late) {
  if (step->kind != TN__STEP_CALL) return "it is no call of a kernel";
  if (step->n_parts > 0) return "it is two calls already";
  if (!step->info.kernel) return "its outputs are not used";
  const uint32_t flags = step->info.kernel->desc->flags;
  if (!(flags & (TN_KERNEL_ELEMENTWISE | TN_KERNEL_REDUCTION)))
    return "its kernel is not elementwise";
  if (!(flags & TN_KERNEL_REENTRANT))
    return "its kernel must not run twice at the same time";
  if (step->signal || step->n_after > 0)
    return "it waits for another, or another for it";
  if (step->device->table) return "it runs on a device";
  if (late && overwrites_part(p, step))
    return "it overwrites a part of an argument";
  for (uint32_t i = 0; i < step->n_out; ++i)
    if (p->values[step->out[i]].request == TN_REQ_ADD &&
        !(step->info.kernel->desc->writes & TN_WRITES_ADD))
      return "its kernel cannot add to existing elements";
  return flags & TN_KERNEL_REDUCTION ? explain_unfused_reduction(step)
                                     : explain_unfused_call(step);
}

/* ------------------------------------------------------------------- growth */

/* Tests whether a step reads an input or output of a step of the run. */
static bool shares_operand(const growing_run *g, const tn__step *step) {
  for (uint32_t i = 0; i < step->n_in; ++i) {
    if (step->in[i] == TN_NONE) continue;
    for (uint32_t k = 0; k < g->n; ++k) {
      const tn__step *part = g->parts[k];
      if (tn__entry_is_listed(part->out, part->n_out, step->in[i]) ||
          tn__entry_is_listed(part->in, part->n_in, step->in[i]))
        return true;
    }
  }
  return false;
}

/* Returns the shape over which a step loops, if it is a part of a fused step.
 */
static const tn_tensor *get_loop_shape(const tn__step *step) {
  const tn_frame *f = step->info.frame;
  return tn__step_is_reduction(step) ? &f->in[0] : tn__fused_loop_shape(f);
}

/* Tests whether a step reads the result of a reduction that is in the run. Such
 * a result exists only after all tiles. */
static bool reads_reduction(const growing_run *g, const tn__step *step) {
  for (uint32_t k = 0; k < g->n; ++k)
    if (tn__step_is_reduction(g->parts[k]))
      for (uint32_t i = 0; i < step->n_in; ++i)
        if (step->in[i] == g->parts[k]->out[0]) return true;
  return false;
}

/* Tests whether a step can be added to the run. Reductions are at the end of a
 * run, and no run begins with one. */
static bool can_join(const growing_run *g, const tn__step *step) {
  const tn_frame *f = step->info.frame;
  if (step->why_not) return false;
  if (g->n == 0) return !tn__step_is_reduction(step);
  if (tn__step_is_reduction(g->parts[g->n - 1]) && !tn__step_is_reduction(step))
    return false;
  if (reads_reduction(g, step)) return false;
  if (g->n == MOST_PARTS || g->n_operands + f->n_in + f->n_out > MOST_OPERANDS)
    return false;
  return step->device == g->parts[0]->device &&
         has_same_loop_shape(g->loop, get_loop_shape(step)) &&
         shares_operand(g, step);
}

static void join_run(growing_run *g, tn__step *step) {
  const tn_frame *f = step->info.frame;
  if (g->n == 0) {
    g->loop = tn__fused_loop_shape(f);
    g->n_operands = 0;
  }
  g->parts[g->n++] = step;
  g->n_operands += f->n_in + f->n_out;
}

/* ------------------------------------------------------------------ one step
 */

/* Adds the reads of a step to `reads`. A call that may be fused reads only the
 * operands in its frame: the frame of a gradient call has no operands for
 * results that are not requested. */
static void count_reads(const tn__step *step, uint32_t *reads) {
  const tn_frame *f = step->why_not ? NULL : step->info.frame;
  const uint32_t n = f ? f->n_in : step->n_in;
  for (uint32_t i = 0; i < n; ++i) {
    const uint32_t entry = f ? tn__part_entry(step, i) : step->in[i];
    const bool read = f ? tn__operand_is_used(f, i)
                        : !(step->shape_only && step->shape_only[i]);
    if (entry != TN_NONE && read) ++reads[entry];
  }
}

static uint32_t count_reads_by_run(const growing_run *g, uint32_t entry) {
  uint32_t n = 0;
  for (uint32_t k = 0; k < g->n; ++k) {
    const tn_frame *f = g->parts[k]->info.frame;
    for (uint32_t i = 0; i < f->n_in; ++i)
      n += tn__operand_is_used(f, i) && tn__part_entry(g->parts[k], i) == entry;
  }
  return n;
}

static bool is_made_by_run(const growing_run *g, uint32_t entry) {
  for (uint32_t k = 0; k < g->n; ++k)
    if (tn__entry_is_listed(g->parts[k]->out, g->parts[k]->n_out, entry))
      return true;
  return false;
}

/* Tests whether only steps of the run read this entry, an output of one of
 * them. */
static bool is_read_only_by_run(const growing_run *g, uint32_t entry) {
  const tn__value *value = &g->p->values[entry];
  return !(value->flags & (TN__ENTRY_EXTERNAL | TN__ENTRY_HEAD)) &&
         count_reads_by_run(g, entry) == g->reads[entry];
}

static void list_inputs(const growing_run *g, tn__step *step) {
  for (uint32_t k = 0; k < g->n; ++k) {
    const tn__step *part = g->parts[k];
    for (uint32_t i = 0; i < part->info.frame->n_in; ++i) {
      if (!tn__operand_is_used(part->info.frame, i)) continue;
      const uint32_t entry = tn__part_entry(part, i);
      if (is_made_by_run(g, entry) ||
          tn__entry_is_listed(step->in, step->n_in, entry))
        continue;
      step->in[step->n_in++] = entry;
    }
  }
}

static void list_outputs(const growing_run *g, tn__step *step) {
  for (uint32_t k = 0; k < g->n; ++k) {
    const tn__step *part = g->parts[k];
    for (uint32_t i = 0; i < part->n_out; ++i)
      if (g->p->values[part->out[i]].request != TN_REQ_NULL &&
          !is_read_only_by_run(g, part->out[i]))
        step->out[step->n_out++] = part->out[i];
  }
}

/* Number of bytes of the records of all reductions in the run; the records of
 * each reduction begin at a cache line. */
static size_t count_records_bytes(const growing_run *g) {
  size_t n = 0;
  for (uint32_t k = 0; k < g->n; ++k)
    if (tn__step_is_reduction(g->parts[k]))
      n += tn__reduction_bytes(g->parts[k]);
  return n;
}

/* Tests whether the fused step is too small for another thread: all of its
 * calls are, and the engine has at most one worker. */
static bool is_small_step(const growing_run *g) {
  for (uint32_t k = 0; k < g->n; ++k)
    if (!g->parts[k]->info.small) return false;
  return tn__engine_workers(g->p->env->engine) < 2;
}

static tn__step *make_step(const growing_run *g) {
  tn__arena *arena = &g->p->arena;
  tn__step *step = tn__arena_alloc(arena, sizeof *step);
  if (!step) return NULL;
  step->program = g->p;
  step->node = g->parts[g->n - 1]->node;
  step->kind = TN__STEP_FUSED;
  step->device = g->parts[0]->device;
  step->n_parts = g->n;
  step->info.workspace = count_records_bytes(g);
  step->info.small = is_small_step(g);
  step->in = tn__arena_alloc(arena, MOST_OPERANDS * sizeof *step->in);
  step->out = tn__arena_alloc(arena, MOST_OPERANDS * sizeof *step->out);
  step->parts = tn__arena_alloc(arena, g->n * sizeof(tn__step *));
  return arena->failed ? NULL : step;
}

static void enter_step(tn_program *p, tn__step *step) {
  step->id = p->n_steps;
  p->steps[p->n_steps++] = step;
  for (uint32_t i = 0; i < step->n_out; ++i)
    p->values[step->out[i]].step = step->id;
  for (uint32_t k = 0; k < step->n_parts; ++k)
    for (uint32_t i = 0; i < step->parts[k]->n_out; ++i)
      p->values[step->parts[k]->out[i]].step = step->id;
}

/* Adds the remaining steps of a run that could not be fused to the program, so
 * that the failing program releases them. */
static void enter_remaining_steps(growing_run *g, tn__step *const *steps,
                                  uint32_t n) {
  tn_program *p = g->p;
  for (uint32_t k = 0; k < g->n; ++k) p->steps[p->n_steps++] = g->parts[k];
  memmove(p->steps + p->n_steps, steps, n * sizeof(tn__step *));
  p->n_steps += n;
}

static void enter_separately(growing_run *g, const char *why) {
  for (uint32_t k = 0; k < g->n; ++k) {
    g->parts[k]->why_not = why;
    enter_step(g->p, g->parts[k]);
  }
  g->n = 0;
}

/* Makes one fused step of the run, and adds it to the program; a run of one
 * step is added unchanged. */
static tn_code close_run(growing_run *g) {
  bool fits = false;
  if (g->n < 2) {
    enter_separately(g, "nothing next to it shares its operands");
    return TN_OK;
  }
  tn__step *step = make_step(g);
  if (!step) return tn__fail_memory(sizeof *step, "a fused step");
  memcpy(step->parts, g->parts, g->n * sizeof(tn__step *));
  list_inputs(g, step);
  list_outputs(g, step);
  TN__TRY(tn__fused_make(step, &fits));
  if (!fits) {
    enter_separately(g, "its operands are repeated along too many dimensions");
    return TN_OK;
  }
  g->p->stats.n_fused += g->n;
  g->n = 0;
  enter_step(g->p, step);
  return TN_OK;
}

static tn_code add_step_or_close_run(growing_run *g, tn__step *step) {
  tn_program *p = g->p;
  if (!can_join(g, step)) TN__TRY(close_run(g));
  if (!can_join(g, step)) {
    if (!step->why_not && tn__step_is_reduction(step))
      step->why_not =
          "no step before it computes its input tile by "
          "tile";
    enter_step(p, step);
    return TN_OK;
  }
  join_run(g, step);
  return TN_OK;
}

/* Finds the steps that may be parts, and counts the reads of each entry. */
static void find_candidates(tn_program *p, uint32_t *reads) {
  const bool late = has_late_heads(p);
  for (uint32_t i = 0; i < p->n_steps; ++i) {
    tn__step *step = p->steps[i];
    step->why_not = p->how.flags & TN_BIND_NO_FUSE
                        ? "the user forbids it"
                        : explain_unfused_step(p, step, late);
    count_reads(step, reads);
  }
}

static tn_code fuse_all(tn_program *p, uint32_t *reads) {
  growing_run g = {.p = p, .reads = reads};
  const uint32_t n = p->n_steps, n_forward = p->n_forward;
  tn_code rc = TN_OK;
  p->n_steps = 0;
  for (uint32_t i = 0; i < n; ++i) {
    if (i == n_forward) {
      rc = close_run(&g);
      if (rc == TN_OK) p->n_forward = p->n_steps;
    }
    if (rc == TN_OK) rc = add_step_or_close_run(&g, p->steps[i]);
    if (rc == TN_OK) continue;
    enter_remaining_steps(&g, p->steps + i, n - i);
    return rc;
  }
  rc = close_run(&g);
  if (rc != TN_OK) enter_remaining_steps(&g, p->steps + n, 0);
  if (rc == TN_OK && n <= n_forward) p->n_forward = p->n_steps;
  return rc;
}

tn_code tn__steps_fuse(tn_program *p) {
  uint32_t *reads = tn__zalloc(p->env, (p->n_values + 1u) * sizeof *reads);
  if (!reads) return tn__fail_memory(p->n_values * sizeof *reads, "a program");
  find_candidates(p, reads);
  const tn_code rc = fuse_all(p, reads);
  tn__free(p->env, reads);
  return rc;
}
