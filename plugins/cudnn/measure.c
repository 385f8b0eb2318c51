/* SPDX-License-Identifier: Apache-2.0
 * measure.c: measures engines on the device. A file keeps the choices, one line
 * for each task: its hash, and the number of engines to skip before the
 * fastest. Lines are only appended, each by one write, so that processes may
 * share the file; the last line of a task counts. A choice that cannot be read
 * or written is measured again.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kit.h"

enum { MOST_TRIED = 8 }; /* engines: the order of the heuristics is good */

/* ---------------------------------------------------------------- the file */

void cudnn_choices_path(char *to, size_t bytes) {
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  int n = 0;
  if (cache && cache[0] == '/')
    n = snprintf(to, bytes, "%s/tenon/cudnn", cache);
  else if (home && home[0] == '/')
    n = snprintf(to, bytes, "%s/.cache/tenon/cudnn", home);
  if (n <= 0 || (size_t)n >= bytes) to[0] = '\0';
}

/* Creates the last two folders of a path. A failure shows when the file is
 * opened. */
static void make_folders(const char *path) {
  char folder[CUDNN_MOST_PATH];
  size_t n = strlen(path), ends[2] = {0, 0};
  for (int i = 1; i >= 0 && n > 0; --i) {
    while (n > 0 && path[--n] != '/') {
    }
    ends[i] = n;
  }
  for (int i = 0; i < 2; ++i) {
    memcpy(folder, path, ends[i]);
    folder[ends[i]] = '\0';
    if (ends[i] > 0) (void)mkdir(folder, 0700);
  }
}

static uint64_t hash_more(uint64_t hash, const void *bytes, size_t n) {
  const unsigned char *at = bytes;
  for (size_t i = 0; i < n; ++i) hash = (hash ^ at[i]) * 1099511628211u;
  return hash;
}

/* Hash of a task on any GPU of this name, with this cuDNN. */
static uint64_t name_of(const cudnn_bench *bench, const cudnn_task *task) {
  const char *version = bench->target->library->name;
  tn_device_info info = {.struct_size = sizeof info};
  tn_device_error error = {.struct_size = sizeof error};
  cudnn_task any;
  memcpy(&any, task, sizeof any);
  any.device = 0;
  (void)bench->scope->info(bench->scope, task->device, &info, &error);
  uint64_t hash = hash_more(14695981039346656037u, &any, sizeof any);
  hash = hash_more(hash, version, strlen(version));
  return hash_more(hash, info.name, strlen(info.name));
}

/* -1: unknown */
static int64_t read_choice(const char *path, uint64_t name) {
  FILE *file = path[0] ? fopen(path, "re") : NULL;
  char line[80];
  int64_t found = -1;
  while (file && fgets(line, sizeof line, file)) {
    char *end = line, *last = line;
    const uint64_t of = strtoull(line, &end, 16);
    const int64_t passed = strtoll(end, &last, 10);
    if (end != line && last != end && of == name) found = passed;
  }
  if (file) (void)fclose(file);
  return found >= 0 && found < MOST_TRIED ? found : -1;
}

static void write_choice(const char *path, uint64_t name, int64_t passed) {
  char line[80];
  const int n =
      snprintf(line, sizeof line, "%016" PRIx64 " %" PRId64 "\n", name, passed);
  if (!path[0]) return;
  make_folders(path);
  const int file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return;
  /* The next line would continue an incomplete one. */
  if (write(file, line, (size_t)n) != n) (void)unlink(path);
  (void)close(file);
}

/* -------------------------------------------------------------------- time */

/* A plan on memory with arbitrary contents. */
typedef struct trial {
  const cudnn_bench *bench;
  const cudnn_made *made;
  cudnn_operand operands[CUDNN_MOST_OPERANDS];
  int n;
  void *workspace;
} trial;

static int32_t run_trial(void *arg, void *stream) {
  const trial *t = arg;
  const cudnn_target *target = t->bench->target;
  int status = target->library->stream_set(target->handle, stream);
  if (status == DNN_OK)
    status = cudnn_execute(target->library, target->handle, t->made,
                           t->operands, t->n, t->workspace);
  return status == DNN_OK ? TN_OK : TN_DEVICE;
}

/* Places all arrays in one piece of memory: data, weight, out, bias, and the
 * workspace. */
static uint64_t lay_out(const cudnn_task *task, const cudnn_made *made,
                        char *memory, trial *t) {
  const int64_t bias[] = {1, task->out[1], 1, 1, 1};
  const int64_t *dims[] = {task->data, task->weight, task->out, bias};
  const int64_t ids[] = {CUDNN_ID_DATA, CUDNN_ID_WEIGHT, CUDNN_ID_OUT,
                         CUDNN_ID_BIAS};
  uint64_t at = 0;
  t->n = task->flags & CUDNN_BIAS ? 4 : 3;
  for (int i = 0; i < t->n; ++i) {
    t->operands[i] = (cudnn_operand){ids[i], memory + at};
    at += (uint64_t)cudnn_bytes(task, dims[i]);
  }
  t->workspace = memory + at;
  return at + (uint64_t)made->workspace + 256;
}

/* UINT64_MAX: the measurement failed */
static uint64_t time_of(const cudnn_bench *bench, const cudnn_task *task,
                        const cudnn_made *made) {
  const tn_device_scope *scope = bench->scope;
  tn_device_error error = {.struct_size = sizeof error};
  trial t = {.bench = bench, .made = made};
  void *memory = NULL;
  uint64_t ns = UINT64_MAX;
  const uint64_t bytes = lay_out(task, made, NULL, &t);
  if (scope->alloc(scope, task->device, bytes, &memory, &error) != TN_OK)
    return UINT64_MAX;
  (void)lay_out(task, made, memory, &t);
  if (scope->time(scope, task->device, run_trial, &t, &ns, &error) != TN_OK)
    ns = UINT64_MAX;
  /* The stream no longer exists. */
  (void)bench->target->library->stream_set(bench->target->handle, NULL);
  scope->free(scope, task->device, memory);
  return ns;
}

/* ------------------------------------------------------------------ choice */

/* The number of engines before the fastest; 0 if no measurement succeeded. */
static int64_t measure_engines(const cudnn_bench *bench, cudnn_task *task) {
  uint64_t least = UINT64_MAX;
  int64_t best = 0;
  for (task->n_passed = 0; task->n_passed < MOST_TRIED; ++task->n_passed) {
    cudnn_made made;
    if (cudnn_make(bench->target, task, &made) != DNN_OK) break;
    const uint64_t ns = time_of(bench, task, &made);
    cudnn_unmake(bench->target->library, &made);
    if (ns >= least) continue;
    least = ns;
    best = task->n_passed;
  }
  if (least != UINT64_MAX) {
    task->n_passed = 0;
    write_choice(bench->path, name_of(bench, task), best);
  }
  return best;
}

int cudnn_make_fastest(const cudnn_bench *bench, const cudnn_task *given,
                       cudnn_made *out) {
  cudnn_task task;
  memcpy(&task, given, sizeof task);
  task.flags &= ~(uint32_t)CUDNN_MEASURE;
  int64_t passed = read_choice(bench->path, name_of(bench, &task));
  if (passed < 0) passed = measure_engines(bench, &task);
  task.n_passed = passed;
  int status = cudnn_make(bench->target, &task, out);
  if (status == DNN_OK || passed == 0) return status;
  task.n_passed = 0;
  return cudnn_make(bench->target, &task, out);
}
