/* SPDX-License-Identifier: Apache-2.0
 * cast.c: calls of cast (other.yaml) from or to a storage type: in parts that
 * are read as numbers, and stored. The generated kernel has all other calls.
 */
#define TN_KERNEL_PLUGIN elemwise
#include "cast.h"

#include "tenon/kernel/storage_loops.h"

/* Elements that are converted together: whole bytes of packed types. */
enum { PART = 1024 };

/* One call. The walk's first operand is packed if one is: then elements have
 * the order of the walk. */
typedef struct cast_job {
  tn_kernel_walk walk;
  uint32_t in, out; /* operands of the walk */
  tn_dtype from, to;
  tn_storage_rule rule;
  tn_kernel_mode mode;
} cast_job;

int32_t elemwise_cast_has_storage(const tn_frame *call) {
  return cast_check_storage(call);
}

/* ------------------------------------------------------------------ numbers */

/* Reads n dense elements as numbers. */
static void read_numbers(const cast_job *job, void *to, const void *from,
                         int64_t n) {
  const int is_wide = job->from == TN_I64 || job->from == TN_U64;
  if (tn_storage_has(job->from))
    tn_storage_load_dense(to, &job->mode, from, job->from, n);
  else if (is_wide && job->mode.compute == TN_F64)
    for (int64_t i = 0; i < n; ++i)
      ((double *)to)[i] = cast_widen((const int64_t *)from + i, job->from);
  else if (is_wide)
    memcpy(to, from, (size_t)n * sizeof(int64_t));
  else
    tn_kernel_load_dense(to, &job->mode, from, job->from, n);
}

/* Writes numbers as n dense elements. */
static void write_numbers(const cast_job *job, void *to, const void *from,
                          int64_t n) {
  const int is_wide = job->to == TN_I64 || job->to == TN_U64;
  if (tn_storage_has(job->to))
    tn_storage_store_dense(to, &job->rule, from, &job->mode, n);
  else if (is_wide && job->mode.compute == TN_I64)
    memcpy(to, from, (size_t)n * sizeof(int64_t));
  else if (job->to == TN_U64)
    for (int64_t i = 0; i < n; ++i)
      ((uint64_t *)to)[i] = cast_narrow_u64(((const double *)from)[i]);
  else
    tn_kernel_store_dense(to, job->to, from, &job->mode, n);
}

/* ----------------------------------------------------------------- elements */

/* Returns the address of element `first` of a dense operand; NULL if the
 * operand is not dense. */
static char *find_dense(const cast_job *job, uint32_t k, tn_dtype dtype,
                        int64_t first) {
  const tn_kernel_walk *walk = &job->walk;
  if (tn_dtype_is_packed(dtype))
    return walk->data[k] + first / tn_storage_per_byte(dtype);
  if (walk->ndim > 1 || walk->stride[k][0] != 1) return NULL;
  return walk->data[k] + first * walk->bytes[k];
}

/* Copies n elements of the input, which is not dense, to `raw`. */
static void gather(const cast_job *job, int64_t first, int64_t n, char *raw) {
  const int64_t bytes = job->walk.bytes[job->in];
  tn_kernel_run run;
  for (int64_t i = 0; i < n; i += run.n) {
    tn_kernel_walk_run(&job->walk, first + i, first + n, &run);
    tn_kernel_pack(raw + i * bytes, run.at[job->in], run.stride[job->in], bytes,
                   run.n);
  }
}

/* Copies n elements from `raw` to the output, which is not dense. */
static void scatter(const cast_job *job, int64_t first, int64_t n,
                    const char *raw) {
  const int64_t bytes = job->walk.bytes[job->out];
  tn_kernel_run run;
  for (int64_t i = 0; i < n; i += run.n) {
    tn_kernel_walk_run(&job->walk, first + i, first + n, &run);
    const tn_kernel_line line = {run.at[job->out], run.stride[job->out], run.n,
                                 job->to};
    tn_kernel_spread(&line, 0, raw + i * bytes, run.n);
  }
}

/* Casts n elements. Numbers need no room of their own if one of the types is
 * that of numbers. */
static void cast_part(const cast_job *job, int64_t first, int64_t n) {
  int64_t raw_in[PART], raw_out[PART], room[PART];
  const char *from = find_dense(job, job->in, job->from, first);
  char *to = find_dense(job, job->out, job->to, first);
  char *end = to != NULL ? to : (char *)raw_out;
  if (from == NULL) {
    gather(job, first, n, (char *)raw_in);
    from = (const char *)raw_in;
  }
  if (job->from == job->mode.compute) {
    write_numbers(job, end, from, n);
  } else if (job->to == job->mode.compute) {
    read_numbers(job, end, from, n);
  } else {
    read_numbers(job, room, from, n);
    write_numbers(job, end, room, n);
  }
  if (to == NULL) scatter(job, first, n, end);
}

static int32_t cast_parts(void *arg, int64_t begin, int64_t end) {
  const cast_job *job = (const cast_job *)arg;
  for (int64_t first = begin * PART; first < end * PART; first += PART) {
    const int64_t left = job->walk.size - first;
    cast_part(job, first, left < PART ? left : PART);
  }
  return TN_OK;
}

int32_t elemwise_cast_storage(const tn_frame *call) {
  const tn_tensor *data = &call->in[0], *out = &call->out[0];
  cast_job job = {.from = data->dtype, .to = out->dtype};
  job.in = !tn_dtype_is_packed(data->dtype) || tn_dtype_is_packed(out->dtype);
  job.out = 1 - job.in;
  job.rule = cast_rule(call);
  job.mode.compute = cast_numbers(job.from, job.to);
  job.mode.level = tn_kernel_level(call);
  tn_kernel_walk_init(&job.walk, job.in == 0 ? data : out);
  if (!tn_kernel_walk_add(&job.walk, job.in == 0 ? out : data))
    return TN_FAIL(call, TN_SHAPE, "input and output differ in shape");
  if (job.walk.size == 0) return TN_OK;
  tn_kernel_walk_begin(&job.walk);
  return call->host->parallel_for(call, (job.walk.size + PART - 1) / PART,
                                  TN_KERNEL_GRAIN / PART, cast_parts, &job);
}
