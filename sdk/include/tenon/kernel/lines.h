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
 * line, or an output. Its body is that of elementwise.h: it computes one row
 * from other rows and single values. Rows are dense elements of one line in the
 * type to compute in. A row of an operand that is dense in memory is read where
 * it is; others are copied. A line of at most TN_LINES_ROW elements is one row.
 * A longer one has several, which every stage computes again.
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

/* Computes the lines of a group one after the other. */
static inline void tn_lines_run_rows(const tn_lines_work *w, int64_t group,
                                     char *scratch) {
  const int64_t first = group * w->each;
  const int64_t last = w->lines - first < w->each ? w->lines : first + w->each;
  tn_lines_state s;
  memset(&s, 0, sizeof s);
  s.w = w;
  s.group = group;
  s.scratch = scratch;
  tn_lines_set_value(&s.count, w->mode.compute, (double)w->length, w->length);
  for (int64_t line = first; line < last; ++line) tn_lines_run_line(&s, line);
#if defined(__SSE2__)
  if (w->streams) _mm_sfence();
#endif
}

/* Computes the lines of groups [begin, end); a tn_loop_body. [worker] */
TN_KERNEL_ONCE int32_t tn_lines_run_groups(void *arg, int64_t begin,
                                           int64_t end) {
  const tn_lines_work *w = (const tn_lines_work *)arg;
  TN_KERNEL_LINED char scratch[TN_LINES_SCRATCH];
  for (int64_t group = begin; group < end; ++group) {
    if (w->n_places > 0 && w->length > 0)
      memset(w->sums + group * w->n_places * w->length, 0,
             (size_t)(w->n_places * w->length) * sizeof *w->sums);
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
  memset(to, 0, (size_t)n * sizeof *to);
  for (int64_t g = 0; g < w->groups; ++g) {
    const double *sums = tn_lines_sums_of(w, g, out) + at;
    for (int64_t i = 0; i < n; ++i) to[i] += sums[i];
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

/* Bytes of the sums of all groups. */
static inline int64_t tn_lines_count_sum_bytes(const tn_lines_work *w) {
  return w->groups * w->n_places * w->length * (int64_t)sizeof(double);
}

/* The `prepare` of a kernel over lines: its workspace has the sums over lines.
 * [any] */
static inline int32_t tn_lines_prepare(const tn_frame *call, tn_plan *plan,
                                       const tn_lines_map *map,
                                       const tn_lines_axes *axes) {
  tn_lines_work w;
  const int32_t code = tn_lines_begin(&w, call, map, axes);
  if (code != TN_OK) return code;
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
  w.sums = tn_lines_count_sum_bytes(&w) > 0 ? (double *)call->ws[0] : NULL;
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
