/* SPDX-License-Identifier: Apache-2.0
 * strided.h: loops over operands of any strides and types, line by line,
 * through scratch memory if a body cannot use an operand directly. Part of
 * kernel.h, by elementwise.h.
 */
#include "tenon/kernel/kernel.h" /* includes this file: before the guard */

#ifndef TENON_KERNEL_STRIDED_H_
#define TENON_KERNEL_STRIDED_H_

#ifdef __cplusplus
extern "C" {
#endif

/* One map of one call, shared by its slices. */
typedef struct tn_kernel_task {
  tn_kernel_walk walk; /* operand 0 is the output */
  tn_kernel_body *body;
  const void *params;
  tn_kernel_mode mode;
  uint32_t add;   /* 1 under TN_REQ_ADD */
  uint32_t one;   /* the operand with one element per line, if the body has a
                     form for it; else 0 */
  uint8_t stream; /* 1: the output does not fit into any cache, and bodies work
                     in the memory of all operands */
  tn_dtype dtype[TN_KERNEL_MAX_OPERANDS];
} tn_kernel_task;

/* Contiguous elements of every operand, and room for the old output. No vector
 * in it crosses a cache line. */
typedef struct tn_kernel_scratch {
  TN_KERNEL_LINED char bytes[TN_KERNEL_SCRATCH];
} tn_kernel_scratch;

/* Elements of one operand that fit scratch memory: whole cache lines. */
static inline int64_t tn_kernel_task_room(const tn_kernel_task *task) {
  const int64_t bytes = tn_dtype_bytes(task->mode.compute);
  return TN_KERNEL_SCRATCH / (task->walk.n_operands + 1) / bytes / 16 * 16;
}

/* Adds to a line of integers or bools: each number is converted first, as for
 * writing, so no float has to hold the old content. */
TN_KERNEL_ONCE void tn_kernel_task_sum_whole(const tn_kernel_task *task,
                                             const tn_kernel_line *to,
                                             const char *sum) {
  int64_t whole[TN_KERNEL_STAGE], fresh[TN_KERNEL_STAGE], old[TN_KERNEL_STAGE];
  const tn_kernel_mode own = {tn_kernel_compute(to->dtype), task->mode.level};
  const int64_t apart = to->stride * tn_dtype_bytes(to->dtype);
  for (int64_t i = 0; i < to->n; i += TN_KERNEL_STAGE) {
    const int64_t n = to->n - i < TN_KERNEL_STAGE ? to->n - i : TN_KERNEL_STAGE;
    const tn_kernel_line line = {to->at + i * apart, to->stride, n, to->dtype};
    tn_kernel_store_dense(whole, to->dtype,
                          sum + i * tn_dtype_bytes(task->mode.compute),
                          &task->mode, n);
    tn_kernel_load_dense(fresh, &own, whole, to->dtype, n);
    tn_kernel_load(old, &own, &line);
    tn_kernel_add_dense(fresh, old, &own, n);
    tn_kernel_store(&line, &own, fresh);
  }
}

/* Whether elements are integers that a call computes in floats, or bools; each
 * value but 0 becomes 1 before it is added. */
static inline int tn_kernel_is_whole(const tn_kernel_task *task,
                                     tn_dtype dtype) {
  if (dtype == TN_BOOL) return 1;
  const tn_dtype own = tn_kernel_compute(dtype);
  const tn_dtype compute = task->mode.compute;
  return (own == TN_I32 || tn_kernel_signed(own) == TN_I64) &&
         (compute == TN_F32 || compute == TN_F64);
}

/* Adds scratch to the output's line; `old` is room for as much. The sum is
 * rounded once. */
static inline void tn_kernel_task_sum(const tn_kernel_task *task,
                                      const tn_kernel_line *to, void *sum,
                                      void *old) {
  if (to->dtype == task->mode.compute && to->stride == 1) {
    tn_kernel_add_dense(to->at, sum, &task->mode, to->n);
    return;
  }
  if (tn_kernel_is_whole(task, to->dtype)) {
    tn_kernel_task_sum_whole(task, to, (const char *)sum);
    return;
  }
  tn_kernel_load(old, &task->mode, to);
  tn_kernel_add_dense(sum, old, &task->mode, to->n);
  tn_kernel_store(to, &task->mode, sum);
}

/* Whether the body can work in the operand's own memory. */
static inline int tn_kernel_is_direct(const tn_kernel_task *task, uint32_t k,
                                      int64_t stride) {
  if (k > 0 && k == task->one) return 1;
  return task->dtype[k] == task->mode.compute && stride == 1 &&
         !(k == 0 && task->add);
}

/* Runs the body over one line of every operand, through scratch if the body
 * cannot use the operand directly. A broadcast operand (stride 0) is read into
 * scratch like any other, so the body's loop is always the dense one. */
static inline void tn_kernel_task_block(const tn_kernel_task *task,
                                        const tn_kernel_run *run,
                                        tn_kernel_scratch *scratch) {
  const int64_t apart =
      tn_kernel_task_room(task) * tn_dtype_bytes(task->mode.compute);
  char *old = scratch->bytes + task->walk.n_operands * apart;
  tn_kernel_block block;
  block.n = run->n;
  for (uint32_t k = 1; k < task->walk.n_operands; ++k) {
    const tn_kernel_line line = {run->at[k], run->stride[k], run->n,
                                 task->dtype[k]};
    const int direct = tn_kernel_is_direct(task, k, run->stride[k]);
    char *own = scratch->bytes + k * apart;
    if (!direct) tn_kernel_load(own, &task->mode, &line);
    block.in[k - 1] = direct ? line.at : own;
  }
  const tn_kernel_line out = {run->at[0], run->stride[0], run->n,
                              task->dtype[0]};
  const int direct = tn_kernel_is_direct(task, 0, run->stride[0]);
  block.out = direct ? out.at : scratch->bytes;
  task->body(&block, task->params);
  if (direct) return;
  if (task->add)
    tn_kernel_task_sum(task, &out, scratch->bytes, old);
  else
    tn_kernel_store(&out, &task->mode, scratch->bytes);
}

/* Lines of at most as many elements are computed several at a time: a call of
 * the body costs as much as a hundred elements. */
#define TN_KERNEL_SHORT 128
/* Shorter lines are never worth a call each. */
#define TN_KERNEL_LEAST 32
/* From this number of lines on, a call for each costs more than repeating an
 * input in scratch memory. */
#define TN_KERNEL_FEW 16

/* How a body for several lines reads an operand: in its own dense memory; from
 * scratch, because all lines are the same one; or from scratch, line by
 * line. */
enum { TN_KERNEL_FLAT = 0, TN_KERNEL_SAME = 1, TN_KERNEL_LINES = 2 };

static inline int tn_kernel_lines_kind(const tn_kernel_task *task, uint32_t k) {
  const tn_kernel_walk *walk = &task->walk;
  int64_t step = 1;
  int flat = task->dtype[k] == task->mode.compute && !(k == 0 && task->add);
  int same = k > 0;
  for (int32_t d = walk->ndim - 1; d >= 0; --d) {
    flat = flat && walk->stride[k][d] == step;
    same = same && (d == walk->ndim - 1 || walk->stride[k][d] == 0);
    step *= walk->shape[d];
  }
  return flat ? TN_KERNEL_FLAT : same ? TN_KERNEL_SAME : TN_KERNEL_LINES;
}

/* Blocks of several lines: whole numbers of them, so that each block begins at
 * the same place of its first line. */
typedef struct tn_kernel_lines {
  const tn_kernel_task *task;
  tn_kernel_scratch *scratch;
  int64_t apart;                        /* bytes between operands in scratch */
  int64_t bytes;                        /* of one element there */
  uint32_t n_kind[TN_KERNEL_LINES + 1]; /* inputs of each kind */
  uint8_t kind[TN_KERNEL_MAX_OPERANDS];
} tn_kernel_lines;

/* Lines of n elements of 4 or 8 bytes, each of which repeats one element,
 * `step` bytes after that of the line before. Vectors are written over the end
 * of each line except the last. */
TN_KERNEL_BODY void tn_kernel_lines_fill(char *to, const char *at, int64_t step,
                                         int64_t bytes, int64_t n,
                                         int64_t lines) {
  const int64_t length = n * bytes;
  for (const char *end = to + lines * length; to < end; to += length) {
    int64_t done = 0;
#if defined(__SSE2__)
    const int64_t most = end - to - (int64_t)sizeof(__m128i);
    int64_t element = 0;
    memcpy(&element, at, (size_t)bytes);
    const __m128i same = bytes == 8 ? _mm_set1_epi64x(element)
                                    : _mm_set1_epi32((int32_t)element);
    for (; done < length && done <= most; done += (int64_t)sizeof same)
      _mm_storeu_si128((__m128i *)(void *)(to + done), same);
#endif
    for (; done < length; done += bytes) memcpy(to + done, at, (size_t)bytes);
    at += step;
  }
}

/* Loads input k of the lines from `run` on into scratch. */
static inline void tn_kernel_lines_one(const tn_kernel_lines *lines, uint32_t k,
                                       const tn_kernel_run *run, int64_t n,
                                       char *to) {
  const tn_kernel_task *task = lines->task;
  const tn_kernel_walk *walk = &task->walk;
  const int32_t d = walk->ndim - 2;
  const int64_t step = d < 0 ? 0 : walk->stride[k][d] * walk->bytes[k];
  tn_kernel_line line = {run->at[k], run->stride[k], run->n, task->dtype[k]};
  if (line.stride == 0 && line.dtype == task->mode.compute) {
    if (lines->bytes == 8)
      tn_kernel_lines_fill(to, line.at, step, 8, line.n, n);
    else
      tn_kernel_lines_fill(to, line.at, step, 4, line.n, n);
    return;
  }
  for (; n > 0; --n, line.at += step, to += line.n * lines->bytes)
    tn_kernel_load(to, &task->mode, &line);
}

/* Loads n elements of each input of a kind into scratch. */
static inline void tn_kernel_lines_load(const tn_kernel_lines *lines,
                                        tn_kernel_run run, int64_t n,
                                        int kind) {
  const tn_kernel_walk *walk = &lines->task->walk;
  for (int64_t done = 0;;) {
    if (run.n > n - done) run.n = n - done;
    const int64_t some = tn_kernel_walk_lines(walk, &run, n - done);
    for (uint32_t k = 1; k < walk->n_operands; ++k) {
      char *own = lines->scratch->bytes + k * lines->apart;
      if (lines->kind[k] == kind)
        tn_kernel_lines_one(lines, k, &run, some, own + done * lines->bytes);
    }
    done += some * run.n;
    if (done == n) return;
    tn_kernel_walk_down(walk, &run, some - 1);
    tn_kernel_walk_next(walk, &run);
  }
}

/* Likewise n elements of each input with equal lines: copies the filled part
 * repeatedly, twice as much each time. */
static inline void tn_kernel_lines_repeat(const tn_kernel_lines *lines,
                                          const tn_kernel_run *run, int64_t n) {
  const tn_kernel_walk *walk = &lines->task->walk;
  const int64_t length = walk->shape[walk->ndim - 1];
  const int64_t first = length < n ? length : n;
  tn_kernel_lines_load(lines, *run, first, TN_KERNEL_SAME);
  for (uint32_t k = 1; k < walk->n_operands; ++k) {
    char *own = lines->scratch->bytes + k * lines->apart;
    if (lines->kind[k] != TN_KERNEL_SAME) continue;
    for (int64_t done = first, some; done < n; done += some) {
      some = done < n - done ? done : n - done;
      memcpy(own + done * lines->bytes, own, (size_t)(some * lines->bytes));
    }
  }
}

/* Stores results to the lines of the output. */
static inline void tn_kernel_lines_store(const tn_kernel_lines *lines,
                                         tn_kernel_run run, int64_t n) {
  const tn_kernel_task *task = lines->task;
  char *old = lines->scratch->bytes + task->walk.n_operands * lines->apart;
  for (int64_t done = 0;;) {
    if (run.n > n - done) run.n = n - done;
    const tn_kernel_line line = {run.at[0], run.stride[0], run.n,
                                 task->dtype[0]};
    char *own = lines->scratch->bytes + done * lines->bytes;
    if (task->add)
      tn_kernel_task_sum(task, &line, own, old);
    else
      tn_kernel_store(&line, &task->mode, own);
    done += run.n;
    if (done == n) return;
    tn_kernel_walk_next(&task->walk, &run);
  }
}

/* Finds the kind of every operand. */
static inline void tn_kernel_lines_init(tn_kernel_lines *lines,
                                        const tn_kernel_task *task,
                                        tn_kernel_scratch *scratch) {
  memset(lines->n_kind, 0, sizeof lines->n_kind);
  lines->task = task;
  lines->scratch = scratch;
  lines->bytes = tn_dtype_bytes(task->mode.compute);
  lines->apart = tn_kernel_task_room(task) * lines->bytes;
  for (uint32_t k = 0; k < task->walk.n_operands; ++k) {
    lines->kind[k] = (uint8_t)tn_kernel_lines_kind(task, k);
    if (k > 0) ++lines->n_kind[lines->kind[k]];
  }
}

/* Computes elements [begin, end) of a loop with short lines. Lines that are all
 * the same are loaded once. */
TN_KERNEL_ONCE void tn_kernel_task_lines(const tn_kernel_task *task,
                                         int64_t begin, int64_t end) {
  const tn_kernel_walk *walk = &task->walk;
  tn_kernel_scratch scratch;
  tn_kernel_lines lines;
  tn_kernel_block block;
  tn_kernel_run run;
  const int64_t length = walk->shape[walk->ndim - 1];
  const int64_t most = tn_kernel_task_room(task) / length * length;
  tn_kernel_lines_init(&lines, task, &scratch);
  for (int64_t start = begin; begin < end; begin += block.n) {
    block.n = end - begin < most ? end - begin : most;
    for (uint32_t k = 1; k < walk->n_operands; ++k)
      block.in[k - 1] = lines.kind[k] == TN_KERNEL_FLAT
                            ? walk->data[k] + begin * lines.bytes
                            : scratch.bytes + k * lines.apart;
    tn_kernel_walk_run(walk, begin, end, &run);
    if (begin == start && lines.n_kind[TN_KERNEL_SAME] > 0)
      tn_kernel_lines_repeat(&lines, &run, block.n);
    if (lines.n_kind[TN_KERNEL_LINES] > 0)
      tn_kernel_lines_load(&lines, run, block.n, TN_KERNEL_LINES);
    const int flat = lines.kind[0] == TN_KERNEL_FLAT;
    block.out = flat ? walk->data[0] + begin * lines.bytes : scratch.bytes;
    task->body(&block, task->params);
    if (!flat) tn_kernel_lines_store(&lines, run, block.n);
  }
}

/* Whether the body works in the memory of all operands, line by line. */
static inline int tn_kernel_task_is_direct(const tn_kernel_task *task) {
  const tn_kernel_walk *walk = &task->walk;
  for (uint32_t k = 0; k < walk->n_operands; ++k)
    if (!tn_kernel_is_direct(task, k, walk->stride[k][walk->ndim - 1]))
      return 0;
  return 1;
}

/* Returns 1 if an operand would be copied to or from scratch memory, line by
 * line. */
static inline int tn_kernel_task_gathers(const tn_kernel_task *task) {
  for (uint32_t k = 0; k < task->walk.n_operands; ++k)
    if (tn_kernel_lines_kind(task, k) == TN_KERNEL_LINES) return 1;
  return 0;
}

/* Decides whether lines are too short for a call of the body each. Scratch does
 * not pay for a few lines that do not need it. */
static inline int tn_kernel_task_is_short(const tn_kernel_task *task,
                                          int direct) {
  const int64_t n = task->walk.shape[task->walk.ndim - 1];
  const int64_t room = tn_kernel_task_room(task);
  if (task->walk.ndim == 1 || n > TN_KERNEL_SHORT || 2 * n > room) return 0;
  if (direct && n >= TN_KERNEL_LEAST && task->walk.size <= 2 * room &&
      (task->walk.size < TN_KERNEL_FEW * n || tn_kernel_task_gathers(task)))
    return 0;
  return task->one == 0;
}

#if defined(__SSE2__)
/* Bytes from an element to the one that is prefetched: on the next line, if
 * lines are short and not adjacent; 0 if all are one line. */
static inline int64_t tn_kernel_task_prefetch(const tn_kernel_task *task,
                                              uint32_t k) {
  const tn_kernel_walk *walk = &task->walk;
  const int32_t d = walk->ndim - 1;
  if (k > 0 && k == task->one) return 0;
  if (d == 0) return TN_KERNEL_PREFETCH;
  const int64_t length = walk->shape[d] * walk->bytes[k];
  const int64_t step = walk->stride[k][d - 1] * walk->bytes[k];
  const int together = step == length || length >= 2 * TN_KERNEL_PREFETCH;
  return together && step != 0 ? TN_KERNEL_PREFETCH : step;
}

/* Whether a call of TN_REQ_WRITE writes past the caches: its data does not fit
 * into them, and lines of the output are whole cache lines. */
static inline int tn_kernel_task_streams(const tn_kernel_task *task) {
  const tn_kernel_walk *walk = &task->walk;
  const int32_t inner = walk->ndim - 1;
  const int64_t bytes = walk->bytes[0];
  int64_t moved = 0;
  uint64_t places = (uintptr_t)walk->data[0];
  places |= (uint64_t)(walk->shape[inner] * bytes);
  for (int32_t d = 0; d < inner; ++d)
    places |= (uint64_t)(walk->stride[0][d] * bytes);
  for (uint32_t k = 0; k < walk->n_operands; ++k)
    moved += tn_kernel_task_prefetch(task, k) != 0 ? walk->size * bytes : 0;
  return moved >= TN_KERNEL_STREAM && places % 64 == 0 &&
         tn_kernel_task_is_direct(task);
}

/* One line, or a part of it, like tn_kernel_dense_stream. */
static inline void tn_kernel_task_stream(const tn_kernel_task *task,
                                         const tn_kernel_block *line) {
  TN_KERNEL_LINED char chunk[TN_KERNEL_CHUNK];
  const int64_t bytes = task->walk.bytes[0];
  const uint32_t n_in = task->walk.n_operands - 1;
  const char *later[TN_KERNEL_MAX_IN];
  int64_t ahead[TN_KERNEL_MAX_IN];
  tn_kernel_block block = *line;
  for (uint32_t k = 0; k < n_in; ++k)
    ahead[k] = tn_kernel_task_prefetch(task, k + 1);
  for (int64_t left = line->n; left > 0; left -= block.n) {
    const int64_t most = TN_KERNEL_CHUNK / bytes;
    uint32_t n_later = 0;
    char *to = (char *)block.out;
    block.n = left < most ? left : most;
    block.out = chunk;
    task->body(&block, task->params);
    for (uint32_t k = 0; k < n_in; ++k) {
      const char *at = (const char *)block.in[k];
      if (ahead[k] != 0) later[n_later++] = at + ahead[k];
      if (k + 1 != task->one) block.in[k] = at + block.n * bytes;
    }
    tn_kernel_stream_chunk(to, chunk, block.n * bytes, later, n_later);
    block.out = to + block.n * bytes;
  }
}
#else
static inline int tn_kernel_task_streams(const tn_kernel_task *task) {
  (void)task;
  return 0;
}
static inline void tn_kernel_task_stream(const tn_kernel_task *task,
                                         const tn_kernel_block *line) {
  task->body(line, task->params);
}
#endif

/* One line, or a part of it. */
static inline void tn_kernel_task_line(const tn_kernel_task *task,
                                       const tn_kernel_block *line) {
  const uint64_t bytes = (uint64_t)(line->n * task->walk.bytes[0]);
  if (task->stream && (((uintptr_t)line->out | bytes) & 63) == 0)
    tn_kernel_task_stream(task, line);
  else
    task->body(line, task->params);
}

/* Runs the body in the memory of all operands, over `lines` lines along the
 * dimension before the last, from `run` on. Then `run` is the last of them. */
static inline void tn_kernel_task_down(const tn_kernel_task *task,
                                       tn_kernel_run *run, int64_t lines) {
  const tn_kernel_walk *walk = &task->walk;
  const int32_t d = walk->ndim - 2;
  tn_kernel_block block;
  block.n = run->n;
  block.out = run->at[0];
  for (uint32_t k = 1; k < walk->n_operands; ++k) block.in[k - 1] = run->at[k];
  tn_kernel_task_line(task, &block);
  if (lines == 1) return;
  for (int64_t line = 1; line < lines; ++line) {
    block.out = (char *)block.out + walk->stride[0][d] * walk->bytes[0];
    for (uint32_t k = 1; k < walk->n_operands; ++k)
      block.in[k - 1] =
          (const char *)block.in[k - 1] + walk->stride[k][d] * walk->bytes[k];
    tn_kernel_task_line(task, &block);
  }
  tn_kernel_walk_down(walk, run, lines - 1);
}

/* Elements [begin, end) if bodies work in the memory of all operands. */
static inline void tn_kernel_task_directly(const tn_kernel_task *task,
                                           tn_kernel_run *run, int64_t left) {
  for (;;) {
    if (run->n > left) run->n = left;
    const int64_t lines = tn_kernel_walk_lines(&task->walk, run, left);
    left -= lines * run->n;
    tn_kernel_task_down(task, run, lines);
    if (left == 0) break;
    tn_kernel_walk_next(&task->walk, run);
  }
#if defined(__SSE2__)
  if (task->stream) _mm_sfence();
#endif
}

/* Elements [begin, end) of the loop; a tn_loop_body. [worker] */
TN_KERNEL_ONCE int32_t tn_kernel_task_slice(void *arg, int64_t begin,
                                            int64_t end) {
  const tn_kernel_task *task = (const tn_kernel_task *)arg;
  tn_kernel_scratch scratch;
  tn_kernel_run run;
  const int direct = tn_kernel_task_is_direct(task);
  if (tn_kernel_task_is_short(task, direct)) {
    tn_kernel_task_lines(task, begin, end);
    return TN_OK;
  }
  tn_kernel_walk_run(&task->walk, begin, end, &run);
  if (direct) {
    tn_kernel_task_directly(task, &run, end - begin);
    return TN_OK;
  }
  const int64_t most = tn_kernel_task_room(task);
  for (;;) {
    if (run.n > most) run.n = most;
    if (run.n > end - begin) run.n = end - begin;
    tn_kernel_task_block(task, &run, &scratch);
    begin += run.n;
    if (begin >= end) return TN_OK;
    tn_kernel_walk_next(&task->walk, &run);
  }
}

/* All slices. */
static inline int32_t tn_kernel_task_run(const tn_frame *call,
                                         tn_kernel_task *task) {
  if (task->walk.size <= TN_KERNEL_GRAIN)
    return tn_kernel_task_slice(task, 0, task->walk.size);
  return call->host->parallel_for(call, task->walk.size, TN_KERNEL_GRAIN,
                                  tn_kernel_task_slice, task);
}

/* Sets fields that do not depend on the operands' memory; the type to compute
 * in is so far that of the output. */
static inline void tn_kernel_task_init(tn_kernel_task *task,
                                       const tn_frame *call,
                                       const tn_kernel_map *map) {
  task->params = call->params;
  task->add = call->req[map->out] == TN_REQ_ADD;
  task->one = 0;
  task->stream = 0;
  task->dtype[0] = call->out[map->out].dtype;
  task->mode.compute = tn_kernel_compute_at_least(task->dtype[0], map->least);
  task->mode.level = tn_kernel_level(call);
}

/* Joins the type of one more operand. */
static inline void tn_kernel_task_join(tn_kernel_task *task, uint32_t k,
                                       tn_dtype dtype) {
  task->dtype[k] = dtype;
  task->mode.compute =
      tn_kernel_compute_join(task->mode.compute, tn_kernel_compute(dtype));
}

/* Adds an operand after checking it; TN_OK or a described failure. */
static inline int32_t tn_kernel_task_add(tn_kernel_task *task,
                                         const tn_frame *call, uint32_t index) {
  const tn_tensor *tensor = &call->in[index];
  if (tensor->ndim < 0)
    return TN_FAIL(call, TN_INVALID, "input %u is not given", index);
  if (tn_kernel_compute(tensor->dtype) == TN_DTYPE_UNKNOWN)
    return TN_FAIL(call, TN_DTYPE,
                   "input %u has a type in which nothing is computed: 0x%x",
                   index, (unsigned)tensor->dtype);
  tn_kernel_task_join(task, task->walk.n_operands, tensor->dtype);
  if (!tn_kernel_walk_add(&task->walk, tensor))
    return TN_FAIL(call, TN_SHAPE,
                   "the shape of input %u is not that of the output, and "
                   "cannot be broadcast to it",
                   index);
  if (!tensor->data)
    return TN_FAIL(call, TN_INVALID, "input %u has no data", index);
  return TN_OK;
}

/* After all operands: makes u64 round to odd for results that f64 does not
 * hold in the end. */
static inline void tn_kernel_task_round(tn_kernel_task *task) {
  const tn_dtype out = tn_kernel_compute(task->dtype[0]);
  if (task->mode.compute != TN_F64 || out != TN_F32) return;
  for (uint32_t k = 1; k < task->walk.n_operands; ++k)
    if (task->dtype[k] == TN_U64) task->dtype[k] = TN_KERNEL_ODD_U64;
}

/* After the begin of the walk: selects a body for a repeated operand, if it
 * fits. */
static inline void tn_kernel_task_repeat(tn_kernel_task *task,
                                         const tn_kernel_map *map) {
  const tn_kernel_walk *walk = &task->walk;
  const int32_t d = walk->ndim - 1;
  uint32_t one = 0;
  if (map->n_in != 2 || task->add || walk->shape[d] < TN_KERNEL_LEAST) return;
  for (uint32_t k = 0; k < walk->n_operands; ++k) {
    if (task->dtype[k] != TN_F32) return;
    if (walk->stride[k][d] == 1) continue;
    if (walk->stride[k][d] != 0 || k == 0 || one > 0) return;
    one = k;
  }
  if (one == 0) return;
  tn_kernel_body *body =
      tn_kernel_body_at(&map->one[one - 1], task->mode.level);
  if (!body) return;
  task->body = body;
  task->one = one;
}

#ifdef __cplusplus
}
#endif
#endif /* TENON_KERNEL_STRIDED_H_ */
