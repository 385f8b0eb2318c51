/* SPDX-License-Identifier: Apache-2.0
 * lines.h: kernels on the CPU for formulas with reductions, such as
 * data*rsqrt(mean(data^2, axis)). opgen writes the bodies and the tables; this
 * file has the loops over lines, the shapes and the sums.
 *
 * The elements of the loop belong to lines along some axes. An operand has one
 * element for each of them (TN_LINES_FULL), one for each line (TN_LINES_LINE),
 * or one for each place on the lines (TN_LINES_PLACE).
 *
 * A formula is a list of steps. A step is a reduction of a row, a value of a
 * line, or an output. Rows are dense elements of one line in the type to
 * compute in. A row of an operand that is dense in memory is read where it is;
 * others are copied. One joined loop computes all reductions of a stage, or all
 * outputs of the loop, for a few lines. If the copied rows of a line exceed the
 * scratch memory, the line has several parts, which every stage copies again.
 *
 * Lines whose elements are apart in memory are computed together with their
 * neighbours (line_columns.h). Results of the two ways agree to a few
 * roundings, not in all bits.
 */
#ifndef TENON_KERNEL_LINES_H_
#define TENON_KERNEL_LINES_H_

#include "tenon/kernel/line_columns.h"
#include "tenon/kernel/line_loops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Computes the lines of groups [begin, end); a tn_loop_body. [worker] */
TN_KERNEL_ONCE int32_t tn_lines_run_groups(void *arg, int64_t begin,
                                           int64_t end) {
  const tn_lines_work *w = (const tn_lines_work *)arg;
  TN_KERNEL_LINED char scratch[TN_LINES_SCRATCH];
  const int64_t n = w->n_places * w->length;
  for (int64_t group = begin; group < end; ++group) {
    if (n > 0) memset(w->sums + group * n, 0, (size_t)n * sizeof *w->sums);
    if (w->parts)
      memset(w->parts + group * w->n_places * w->pitch, 0,
             (size_t)(w->n_places * w->pitch) * sizeof *w->parts);
    if (w->width > 0)
      tn_lines_run_columns(w, group, scratch);
    else
      tn_lines_run_rows(w, group, scratch);
  }
  return TN_OK;
}

/* ----------------------------------------------------------- sums over lines
 */

/* The sums of all groups for places [at, at + n), in the order of the groups.
 */
static inline void tn_lines_add_groups(const tn_lines_work *w, uint32_t out,
                                       int64_t at, int64_t n, double *to) {
  tn_kernel_mode wide;
  wide.compute = TN_F64;
  wide.level = w->mode.level;
  memset(to, 0, (size_t)n * sizeof *to);
  for (int64_t g = 0; g < w->groups; ++g) {
    const double *sums = tn_lines_find_sums(w, g, out) + at;
    tn_kernel_add_dense(to, sums, &wide, n);
  }
}

/* Writes an output of level PLACE. */
static inline void tn_lines_write_places(const tn_lines_work *w, uint32_t out) {
  double sums[256], old[256];
  tn_kernel_mode wide;
  wide.compute = TN_F64;
  wide.level = w->mode.level;
  for (int64_t at = 0; at < w->length;) {
    const int64_t left = w->length - at;
    const tn_kernel_line line =
        tn_lines_find_run(w, &w->out[out], 0, at, left < 256 ? left : 256);
    tn_lines_add_groups(w, out, at, line.n, sums);
    if (w->call->req[out] == TN_REQ_ADD) {
      tn_kernel_load(old, &wide, &line);
      tn_kernel_add_dense(sums, old, &wide, line.n);
    }
    tn_kernel_store(&line, &wide, sums);
    at += line.n;
  }
}

/* ---------------------------------------------------------------- the kernel
 */

/* The number of sums of all groups. */
static inline int64_t tn_lines_count_sums(const tn_lines_work *w) {
  return w->groups * w->n_places * w->length;
}

/* Decides the distance between sums in f32 of two outputs; 0: there are none.
 * Long rows are whole pages apart: a load is slow if the last bits of its
 * address are those of a store just before it. */
static inline void tn_lines_find_pitch(tn_lines_work *w) {
  const int64_t unit = w->length > 512 ? 1024 : 16;
  w->pitch = 0;
  if (w->mode.compute == TN_F32 && w->width == 0)
    w->pitch = (w->length + unit - 1) / unit * unit;
}

/* Bytes of the sums of all groups; those in f32 begin at a line of the cache.
 */
static inline int64_t tn_lines_count_sum_bytes(const tn_lines_work *w) {
  const int64_t n = tn_lines_count_sums(w);
  if (n == 0) return 0;
  return n * (int64_t)sizeof(double) + 64 +
         w->groups * w->n_places * w->pitch * (int64_t)sizeof(float);
}

/* The `prepare` of a kernel over lines: its workspace has the sums over lines.
 * [any] */
static inline int32_t tn_lines_prepare(const tn_frame *call, tn_plan *plan,
                                       const tn_lines_map *map,
                                       const tn_lines_axes *axes) {
  tn_lines_work w;
  const int32_t code = tn_lines_begin(&w, call, map, axes);
  if (code != TN_OK) return code;
  tn_lines_find_pitch(&w);
  if (tn_lines_count_sum_bytes(&w) == 0) return TN_OK;
  plan->n_ws = 1;
  plan->ws[0].bytes = (uint64_t)tn_lines_count_sum_bytes(&w);
  return TN_OK;
}

/* Computes every requested output. TN_OK, or a code with TN_FAIL. [worker] */
static inline int32_t tn_lines_run(const tn_frame *call,
                                   const tn_lines_map *map,
                                   const tn_lines_axes *axes) {
  tn_lines_work w;
  int32_t code = tn_lines_begin(&w, call, map, axes);
  if (code == TN_OK) code = tn_lines_check_length(&w);
  if (code != TN_OK || w.requested == 0) return code;
  const int64_t n_sums = tn_lines_count_sums(&w);
  tn_lines_find_pitch(&w);
  w.sums = n_sums > 0 ? (double *)call->ws[0] : NULL;
  if (n_sums > 0 && w.pitch > 0) {
    const uintptr_t end = (uintptr_t)(w.sums + n_sums);
    w.parts = (float *)((end + 63) / 64 * 64);
  }
  if (w.groups > 0)
    code = call->host->parallel_for(call, w.groups, 1, tn_lines_run_groups, &w);
  for (uint32_t o = 0; o < call->n_out && code == TN_OK; ++o)
    if (map->out_levels[o] == TN_LINES_PLACE && (w.requested >> o & 1))
      tn_lines_write_places(&w, o);
  return code;
}

#ifdef __cplusplus
}
#endif

#endif /* TENON_KERNEL_LINES_H_ */
