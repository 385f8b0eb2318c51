/* SPDX-License-Identifier: Apache-2.0
 * fake.c: the thread that simulates devices, and the functions of their table.
 * All data is under one lock; commands run outside of it. fake_rules.c checks
 * their order, fake_sum.c computes sums.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "fake_parts.h"

/* ---------------------------------------------------------------- execution */

static bool can_run(const fake *f, const queue *q) {
  const command *c = q ? q->first : NULL;
  if (!c || (c->is_ready && !c->is_ready(c->arg))) return false;
  const queue *other = f->queues[c->queue];
  return c->kind != COMMAND_WAIT || !other || other->executed >= c->until;
}

/* Chooses a queue with a next command that may run: the newest, or a random
 * one. */
static queue *choose_queue(fake *f) {
  queue *chosen = NULL;
  uint64_t n = 0;
  for (uint32_t i = 0; i < f->n_queues; ++i) {
    if (!can_run(f, f->queues[i])) continue;
    f->random = f->random * 6364136223846793005u + 1442695040888963407u;
    if (f->options.seed == 0 || (f->random >> 33) % ++n == 0)
      chosen = f->queues[i];
  }
  return chosen;
}

static void execute_command(fake *f, const command *c) {
  const struct timespec late = {.tv_nsec = 1000l * f->options.latency_us};
  if (late.tv_nsec) (void)nanosleep(&late, NULL);
  if (c->kind == COMMAND_COPY && c->to && c->from)
    memcpy(c->to, c->from, c->bytes);
  if (c->kind == COMMAND_FILL && c->to) memset(c->to, c->byte, c->bytes);
  if (c->kind == COMMAND_LAUNCH) c->run(f, c->arg);
}

static void count_command(fake *f, const command *c) {
  f->counts.copies += c->kind == COMMAND_COPY;
  f->counts.fills += c->kind == COMMAND_FILL;
  f->counts.launches += c->kind == COMMAND_LAUNCH;
}

/* The lock is held, but released while the command runs. */
static void run_command(fake *f, queue *q) {
  command *c = q->first;
  const bool breaks =
      f->broken[0] && c->kind != COMMAND_WAIT && --f->broken_in <= 0;
  if (breaks && !q->failed) {
    q->failed = q->executed + 1;
    memcpy(q->why, f->broken, sizeof q->why);
    f->broken[0] = '\0';
  }
  pthread_mutex_unlock(&f->lock);
  if (!breaks) execute_command(f, c);
  pthread_mutex_lock(&f->lock);
  count_command(f, c);
  q->first = c->next;
  if (!q->first) q->last = NULL;
  ++q->executed;
  free(c);
  pthread_cond_broadcast(&f->done);
}

static void *execute_all(void *arg) {
  fake *f = arg;
  pthread_mutex_lock(&f->lock);
  while (!f->stop) {
    queue *q = f->held ? NULL : choose_queue(f);
    if (q)
      run_command(f, q);
    else
      pthread_cond_wait(&f->work, &f->lock);
  }
  pthread_mutex_unlock(&f->lock);
  return NULL;
}

/* For a lazy device: the waiting or querying thread executes a command. The
 * lock is held. Returns false if there is no command, or if another thread
 * executes one. */
static bool execute_one(fake *f) {
  const bool own = f->options.lazy && !f->executing && !f->held;
  queue *q = own ? choose_queue(f) : NULL;
  if (!q) return false;
  f->executing = true;
  run_command(f, q);
  f->executing = false;
  return true;
}

/* Waits until a command was executed, or might be. The lock is held. */
static void wait_done(fake *f) {
  if (!execute_one(f)) pthread_cond_wait(&f->done, &f->lock);
}

/* Wakes the executing thread, because a command may be executable. */
static void wake_executor(fake *f) {
  if (f->options.lazy)
    pthread_cond_broadcast(&f->done);
  else
    pthread_cond_signal(&f->work);
}

/* ----------------------------------------------------------------- entering */

static int32_t set_error(tn_device_error *error, int32_t code,
                         const char *text) {
  (void)snprintf(error->text, sizeof error->text, "%s", text);
  return code;
}

/* Locks. Fails if the test has requested a failure of this call. */
int32_t fake_enter(fake *f, tn_device_error *error) {
  pthread_mutex_lock(&f->lock);
  if (f->refuse_in == 0 || --f->refuse_in > 0) return TN_OK;
  pthread_mutex_unlock(&f->lock);
  return set_error(error, TN_DEVICE, "the test refuses this call");
}

int32_t fake_leave(fake *f) {
  pthread_mutex_unlock(&f->lock);
  return TN_OK;
}

/* The lock is held. A seized thread releases it. */
void fake_enqueue(fake *f, queue *q, command *c) {
  c->next = NULL;
  if (q->last)
    q->last->next = c;
  else
    q->first = c;
  q->last = c;
  ++q->enqueued;
  wake_executor(f);
  if (c->kind == COMMAND_WAIT || f->seizing != WANTED) return;
  f->seizing = SEIZED;
  pthread_cond_broadcast(&f->done);
  while (f->seizing == SEIZED) pthread_cond_wait(&f->done, &f->lock);
}

/* ---------------------------------------------------------------- the table */

static int32_t fake_count(void *ctx, int32_t *out, tn_device_error *error) {
  const fake *f = ctx;
  *out = f->options.count < 0 ? 0 : f->options.count;
  return *out ? TN_OK : set_error(error, TN_OK, "nothing is plugged in");
}

static int32_t fake_info(void *ctx, int32_t id, tn_device_info *out,
                         tn_device_error *error) {
  fake *f = ctx;
  const int32_t rc = fake_enter(f, error);
  if (rc) return rc;
  out->device_id = id;
  out->memory_total = f->options.bytes;
  (void)snprintf(out->name, sizeof out->name, "Thread");
  return fake_leave(f);
}

static uint64_t count_used(const fake *f, int32_t id) {
  uint64_t bytes = 0;
  for (const piece *p = f->pieces; p; p = p->next)
    if (p->kind == TN_MEMORY_DEVICE && p->id == id) bytes += p->size;
  return bytes;
}

static piece *create_piece(uint32_t kind, uint64_t bytes) {
  piece *p = calloc(1, sizeof *p);
  if (!p || posix_memalign((void **)&p->bytes, 256, bytes)) abort();
  memset(p->bytes, 0xa5, bytes);
  p->size = bytes;
  p->lines = calloc(bytes / LINE + 1, sizeof *p->lines);
  if (!p->lines) abort();
  p->kind = kind;
  p->address = p->bytes;
  if (kind != TN_MEMORY_DEVICE) return p;
  p->address = mmap(NULL, bytes, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p->address == MAP_FAILED) abort();
  return p;
}

static int32_t fake_alloc(void *ctx, int32_t id, uint32_t kind, uint64_t bytes,
                          void **out, tn_device_error *error) {
  fake *f = ctx;
  const int32_t rc = fake_enter(f, error);
  if (rc) return rc;
  if (kind == TN_MEMORY_DEVICE && f->options.bytes &&
      count_used(f, id) + bytes > f->options.bytes) {
    ++f->counts.refusals;
    (void)fake_leave(f);
    return set_error(error, TN_OUT_OF_MEMORY, "all memory is in use");
  }
  piece *p = create_piece(kind, bytes);
  p->id = id;
  p->next = f->pieces;
  f->pieces = p;
  ++f->counts.pieces;
  ++f->counts.allocs;
  *out = p->address;
  return fake_leave(f);
}

static void destroy_piece(piece *p) {
  if (p->address != p->bytes) (void)munmap(p->address, p->size);
  free(p->bytes);
  free(p->lines);
  free(p);
}

/* Reports memory that is still in use, and keeps it to prevent further
 * damage. */
static void fake_free(void *ctx, int32_t id, uint32_t kind, void *memory) {
  fake *f = ctx;
  pthread_mutex_lock(&f->lock);
  piece **at = &f->pieces;
  while (*at && (*at)->address != (char *)memory) at = &(*at)->next;
  piece *p = *at;
  if (!p || p->id != id || p->kind != kind) {
    fake_report(f, "frees memory that is not allocated", NULL);
  } else if (!fake_is_idle(f, p)) {
    fake_report(f, "frees memory that the device may still use", NULL);
  } else {
    *at = p->next;
    destroy_piece(p);
    --f->counts.pieces;
  }
  (void)fake_leave(f);
}

/* A number that no queue has had, or that of a closed queue, which counts
 * commands on. */
static void number_queue(fake *f, queue *q) {
  uint32_t n = f->n_queues;
  if (n == MAX_QUEUES)
    for (n = 0; n < MAX_QUEUES && f->queues[n];) ++n;
  else
    ++f->n_queues;
  if (n == MAX_QUEUES) abort();
  q->number = n;
  q->enqueued = q->executed = f->host.over[n];
  f->queues[n] = q;
}

static int32_t fake_queue_open(void *ctx, int32_t id, uint32_t purpose,
                               int32_t priority, void **out,
                               tn_device_error *error) {
  fake *f = ctx;
  (void)purpose, (void)priority;
  const int32_t rc = fake_enter(f, error);
  if (rc) return rc;
  queue *q = calloc(1, sizeof *q);
  if (!q) abort();
  q->owner = f;
  q->id = id;
  number_queue(f, q);
  ++f->counts.queues;
  *out = q;
  return fake_leave(f);
}

static void fake_queue_close(void *ctx, void *handle) {
  fake *f = ctx;
  queue *q = handle;
  pthread_mutex_lock(&f->lock);
  while (q->first) wait_done(f);
  f->host.over[q->number] = q->executed;
  f->queues[q->number] = NULL;
  --f->counts.queues;
  free(q);
  (void)fake_leave(f);
}

static void *fake_queue_stream(void *ctx, void *handle) {
  (void)ctx;
  return handle;
}

/* Reports a second thread on the same queue, and locks. */
int32_t fake_enter_queue(queue *q, const char *action, tn_device_error *error) {
  const char *other = atomic_exchange(&q->doing, action);
  const bool alone = atomic_fetch_add(&q->inside, 1) == 0;
  const int32_t rc = fake_enter(q->owner, error);
  char text[96];
  if (rc) atomic_fetch_sub(&q->inside, 1);
  if (!rc && !alone) {
    (void)snprintf(text, sizeof text,
                   "two threads enqueue at the same time, %s and %s",
                   other ? other : "?", action);
    fake_report(q->owner, text, q);
  }
  return rc;
}

int32_t fake_leave_queue(queue *q) {
  atomic_fetch_sub(&q->inside, 1);
  return fake_leave(q->owner);
}

command *fake_create_command(int kind) {
  command *c = calloc(1, sizeof *c);
  if (!c) abort();
  c->kind = kind;
  return c;
}

static int32_t fake_copy(void *ctx, void *handle, const tn_copy *copy,
                         tn_device_error *error) {
  fake *f = ctx;
  queue *q = handle;
  const int32_t rc = fake_enter_queue(q, "a copy", error);
  if (rc) return rc;
  command *c = fake_create_command(COMMAND_COPY);
  c->bytes = copy->bytes;
  c->from =
      copy->from_type == TN_DEVICE_CPU
          ? (const char *)copy->from
          : fake_use_memory(f, q, (range){copy->from, copy->bytes}, false);
  c->to = copy->to_type == TN_DEVICE_CPU
              ? (char *)copy->to
              : fake_use_memory(f, q, (range){copy->to, copy->bytes}, true);
  fake_enqueue(f, q, c);
  return fake_leave_queue(q);
}

static int32_t fake_fill(void *ctx, void *handle, void *memory, int32_t byte,
                         uint64_t bytes, tn_device_error *error) {
  fake *f = ctx;
  queue *q = handle;
  const int32_t rc = fake_enter_queue(q, "a fill", error);
  if (rc) return rc;
  command *c = fake_create_command(COMMAND_FILL);
  c->to = fake_use_memory(f, q, (range){memory, bytes}, true);
  c->byte = byte;
  c->bytes = bytes;
  fake_enqueue(f, q, c);
  return fake_leave_queue(q);
}

int32_t fake_launch(void *stream, const fake_work *work) {
  queue *q = stream;
  tn_device_error error;
  const int32_t rc = fake_enter_queue(q, "a kernel", &error);
  if (rc) return rc;
  command *c = fake_create_command(COMMAND_LAUNCH);
  if (work->arg_bytes > MAX_ARG) abort();
  c->run = work->run;
  c->is_ready = work->is_ready;
  if (work->arg_bytes) memcpy(c->arg, work->arg, work->arg_bytes);
  for (size_t i = 0; i < work->n_reads; ++i)
    (void)fake_use_memory(
        q->owner, q,
        (range){work->reads[i],
                work->read_bytes ? work->read_bytes[i] : work->bytes},
        false);
  for (size_t i = 0; i < work->n_writes; ++i)
    (void)fake_use_memory(
        q->owner, q,
        (range){work->writes[i],
                work->write_bytes ? work->write_bytes[i] : work->bytes},
        true);
  fake_enqueue(q->owner, q, c);
  return fake_leave_queue(q);
}

/* ------------------------------------------------------------------- fences */

static int32_t fake_fence_open(void *ctx, int32_t id, void **out,
                               tn_device_error *error) {
  fake *f = ctx;
  (void)id;
  const int32_t rc = fake_enter(f, error);
  if (rc) return rc;
  *out = calloc(1, sizeof(fence));
  if (!*out) abort();
  ++f->counts.fences;
  return fake_leave(f);
}

static void fake_fence_close(void *ctx, void *handle) {
  fake *f = ctx;
  pthread_mutex_lock(&f->lock);
  --f->counts.fences;
  free(handle);
  (void)fake_leave(f);
}

static int32_t fake_fence_record(void *ctx, void *handle, void *at,
                                 tn_device_error *error) {
  fence *point = handle;
  queue *q = at;
  (void)ctx;
  const int32_t rc = fake_enter_queue(q, "a fence", error);
  if (rc) return rc;
  point->queue = q->number;
  point->at = q->enqueued;
  point->known = q->known;
  point->known.over[q->number] = q->enqueued;
  ++q->owner->counts.records;
  return fake_leave_queue(q);
}

static int32_t fake_queue_wait(void *ctx, void *handle, void *awaited,
                               tn_device_error *error) {
  fake *f = ctx;
  queue *q = handle;
  const fence *point = awaited;
  const int32_t rc = fake_enter_queue(q, "a wait", error);
  if (rc) return rc;
  command *c = fake_create_command(COMMAND_WAIT);
  c->queue = point->queue;
  c->until = point->at;
  fake_merge_clocks(&q->known, &point->known);
  fake_enqueue(f, q, c);
  ++f->counts.queue_waits;
  return fake_leave_queue(q);
}

static bool is_done(const fake *f, const fence *point) {
  const queue *q = f->queues[point->queue];
  return !q || q->executed >= point->at;
}

/* Updates the host's knowledge after a fence is done, and returns its
 * failure. */
static int32_t report_fence(fake *f, const fence *point,
                            tn_device_error *error) {
  const queue *q = f->queues[point->queue];
  fake_merge_clocks(&f->host, &point->known);
  if (!q || !q->failed || q->failed > point->at) return TN_OK;
  return set_error(error, TN_DEVICE, q->why);
}

/* The answers of these two functions are about the work, so the test cannot
 * refuse them. */
static int32_t fake_fence_query(void *ctx, void *handle, int32_t *out,
                                tn_device_error *error) {
  fake *f = ctx;
  pthread_mutex_lock(&f->lock);
  if (!is_done(f, handle)) (void)execute_one(f);
  *out = is_done(f, handle);
  const int32_t rc = *out ? report_fence(f, handle, error) : TN_OK;
  (void)fake_leave(f);
  return rc;
}

static _Thread_local int64_t own_waits;

int64_t fake_own_waits(void) {
  return own_waits;
}

static int32_t fake_fence_wait(void *ctx, void *handle,
                               tn_device_error *error) {
  fake *f = ctx;
  pthread_mutex_lock(&f->lock);
  ++f->counts.host_waits;
  ++own_waits;
  while (!is_done(f, handle)) wait_done(f);
  const int32_t rc = report_fence(f, handle, error);
  (void)fake_leave(f);
  return rc;
}

/* --------------------------------------------------------------------- life */

static const tn_device functions = {
    .struct_size = sizeof functions,
    .count = fake_count,
    .info = fake_info,
    .alloc = fake_alloc,
    .free = fake_free,
    .queue_open = fake_queue_open,
    .queue_close = fake_queue_close,
    .queue_stream = fake_queue_stream,
    .copy = fake_copy,
    .fill = fake_fill,
    .fence_open = fake_fence_open,
    .fence_close = fake_fence_close,
    .fence_record = fake_fence_record,
    .queue_wait = fake_queue_wait,
    .fence_query = fake_fence_query,
    .fence_wait = fake_fence_wait,
    .sum = fake_sum,
    .sum_dtypes = ~UINT64_C(0),
    .sum_flags = TN_SUM_WIDE,
};

fake *fake_create(const fake_options *options) {
  fake *f = calloc(1, sizeof *f);
  if (!f) abort();
  f->options = *options;
  f->random = options->seed;
  if (options->count == 0) f->options.count = 1;
  f->table = functions;
  f->table.ctx = f;
  if (options->no_sums) f->table.sum = NULL;
  if (options->only_floats) f->table.sum_dtypes = 0;
  if (options->no_wide_sums) f->table.sum_flags = 0;
  f->table.device_type = options->type ? options->type : TN_DEVICE_EXT;
  f->table.name = options->name ? options->name : "fake";
  pthread_mutex_init(&f->lock, NULL);
  pthread_cond_init(&f->work, NULL);
  pthread_cond_init(&f->done, NULL);
  if (!f->options.lazy && pthread_create(&f->thread, NULL, execute_all, f))
    abort();
  return f;
}

void fake_destroy(fake *f) {
  pthread_mutex_lock(&f->lock);
  f->stop = true;
  pthread_cond_signal(&f->work);
  pthread_mutex_unlock(&f->lock);
  if (!f->options.lazy) pthread_join(f->thread, NULL);
  while (f->pieces) {
    piece *next = f->pieces->next;
    destroy_piece(f->pieces);
    f->pieces = next;
  }
  pthread_mutex_destroy(&f->lock);
  pthread_cond_destroy(&f->work);
  pthread_cond_destroy(&f->done);
  free(f);
}

const tn_device *fake_table(fake *f) {
  return &f->table;
}

fake_counts fake_counts_get(fake *f) {
  pthread_mutex_lock(&f->lock);
  const fake_counts counts = f->counts;
  pthread_mutex_unlock(&f->lock);
  return counts;
}

const char *fake_violation(const fake *f) {
  return f->violation;
}

void fake_hold(fake *f) {
  pthread_mutex_lock(&f->lock);
  ++f->held;
  pthread_mutex_unlock(&f->lock);
}

void fake_go(fake *f) {
  pthread_mutex_lock(&f->lock);
  --f->held;
  wake_executor(f);
  pthread_mutex_unlock(&f->lock);
}

void fake_nudge(fake *f) {
  pthread_mutex_lock(&f->lock);
  wake_executor(f);
  pthread_mutex_unlock(&f->lock);
}

void fake_seize(fake *f) {
  pthread_mutex_lock(&f->lock);
  f->seizing = WANTED;
  pthread_mutex_unlock(&f->lock);
}

void fake_seize_await(fake *f) {
  pthread_mutex_lock(&f->lock);
  while (f->seizing != SEIZED) pthread_cond_wait(&f->done, &f->lock);
  pthread_mutex_unlock(&f->lock);
}

void fake_let_go(fake *f) {
  pthread_mutex_lock(&f->lock);
  f->seizing = 0;
  pthread_cond_broadcast(&f->done);
  pthread_mutex_unlock(&f->lock);
}

void fake_break(fake *f, const char *text) {
  fake_break_at(f, 1, text);
}

void fake_break_at(fake *f, int64_t n, const char *text) {
  pthread_mutex_lock(&f->lock);
  (void)snprintf(f->broken, sizeof f->broken, "%s", text);
  f->broken_in = n;
  pthread_mutex_unlock(&f->lock);
}

void fake_refuse(fake *f, int64_t n) {
  pthread_mutex_lock(&f->lock);
  f->refuse_in = n;
  pthread_mutex_unlock(&f->lock);
}
