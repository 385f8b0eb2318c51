/* SPDX-License-Identifier: Apache-2.0
 * fake.c: the thread that plays devices, and its records of who may follow
 * whom. Everything is under one lock; commands run outside of it.
 */
#include "fake.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "tenon/kernel.h"

enum { MAX_QUEUES = 32, MAX_ARG = 2048, PAGE = 4096, LINE = 64 };

/* For each queue, how many of its commands are known to be over. */
typedef struct clock_set {
  uint64_t over[MAX_QUEUES];
} clock_set;

/* Who used LINE bytes last. */
typedef struct line {
  uint32_t writer;  /* queue */
  uint64_t written; /* its command, counted from 1; 0: never */
  clock_set read;   /* last command of each queue that reads it */
} line;

typedef struct piece {
  struct piece *next;
  char *address; /* what the host knows */
  char *bytes;   /* what is there */
  uint64_t size;
  int32_t id;
  uint32_t kind;
  line *lines;
} piece;

enum { WANTED = 1, SEIZED = 2 }; /* fake.seizing */
enum { COMMAND_COPY, COMMAND_FILL, COMMAND_LAUNCH, COMMAND_WAIT };

typedef struct command {
  struct command *next;
  int kind;
  char *to;
  const char *from;
  uint64_t bytes;
  int byte;
  void (*run)(fake *f, const void *arg);
  _Alignas(16) char arg[MAX_ARG];
  uint32_t queue; /* of WAIT: until this queue */
  uint64_t until; /* has executed so many */
} command;

typedef struct queue {
  fake *owner;
  int32_t id;
  uint32_t number;
  command *first, *last;
  uint64_t enqueued, executed;
  uint64_t failed; /* first command that failed; 0: none */
  char why[128];
  clock_set known;
  _Atomic int inside;          /* threads that are enqueuing */
  _Atomic(const char *) doing; /* what the last of them does */
} queue;

typedef struct fence {
  uint32_t queue;
  uint64_t at; /* 0: never recorded */
  clock_set known;
} fence;

struct fake {
  tn_device table;
  fake_options options;
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t work; /* something may be executable */
  pthread_cond_t done; /* something was executed */
  queue *queues[MAX_QUEUES];
  uint32_t n_queues; /* numbers used so far */
  piece *pieces;
  clock_set host; /* what the host has seen done */
  uint64_t random;
  int64_t refuse_in;
  uint32_t held;
  int seizing;  /* WANTED, or SEIZED; 0: nobody */
  bool playing; /* lazy: somebody who waits executes a command */
  bool stop;
  char broken[128];
  int64_t broken_in; /* commands until that */
  char violation[256];
  fake_counts counts;
};

/* --------------------------------------------------------------- violations */

static void violate(fake *f, const char *what, const queue *q) {
  if (f->counts.violations++ == 0)
    (void)snprintf(f->violation, sizeof f->violation, "%s (queue %d of %s(%d))",
                   what, q ? (int)q->number : -1, f->table.name, q ? q->id : 0);
}

static piece *find(const fake *f, const void *address) {
  for (piece *p = f->pieces; p; p = p->next)
    if ((const char *)address >= p->address &&
        (const char *)address < p->address + p->size)
      return p;
  return NULL;
}

static bool follows(const fake *f, const queue *q, uint32_t number,
                    uint64_t until) {
  return number == q->number || q->known.over[number] >= until ||
         f->host.over[number] >= until;
}

static void check_read(fake *f, queue *q, line *l) {
  if (l->written && !follows(f, q, l->writer, l->written))
    violate(f, "reads what another queue writes, without a fence", q);
  l->read.over[q->number] = q->enqueued + 1;
}

static void check_write(fake *f, queue *q, line *l) {
  if (l->written && !follows(f, q, l->writer, l->written))
    violate(f, "writes what another queue writes, without a fence", q);
  for (uint32_t i = 0; i < f->n_queues; ++i)
    if (!follows(f, q, i, l->read.over[i]))
      violate(f, "writes what another queue reads, without a fence", q);
  l->writer = q->number;
  l->written = q->enqueued + 1;
}

/* Memory that a command uses; bytes 0: the whole piece. */
typedef struct range {
  const void *address;
  uint64_t bytes;
} range;

/* The bytes behind a device address, after checking who may use them. */
static char *use(fake *f, queue *q, range what, bool writes) {
  piece *p = find(f, what.address);
  if (!p) {
    violate(f, "uses memory that is not allocated", q);
    return NULL;
  }
  const uint64_t offset = (uint64_t)((const char *)what.address - p->address);
  uint64_t at = what.bytes ? offset / LINE : 0;
  const uint64_t end = what.bytes ? offset + what.bytes : p->size;
  if (end > p->size) violate(f, "uses memory behind its piece", q);
  for (; at * LINE < end && at * LINE < p->size; ++at)
    if (writes)
      check_write(f, q, &p->lines[at]);
    else
      check_read(f, q, &p->lines[at]);
  return p->bytes + offset;
}

static void merge(clock_set *to, const clock_set *from) {
  for (int i = 0; i < MAX_QUEUES; ++i)
    if (from->over[i] > to->over[i]) to->over[i] = from->over[i];
}

static bool line_is_idle(const fake *f, const line *l) {
  if (l->written && f->host.over[l->writer] < l->written) return false;
  for (int i = 0; i < MAX_QUEUES; ++i)
    if (f->host.over[i] < l->read.over[i]) return false;
  return true;
}

static bool is_idle(const fake *f, const piece *p) {
  for (uint64_t at = 0; at * LINE < p->size; ++at)
    if (!line_is_idle(f, &p->lines[at])) return false;
  return true;
}

/* ---------------------------------------------------------------- execution */

static bool can_run(const fake *f, const queue *q) {
  const command *c = q ? q->first : NULL;
  if (!c) return false;
  const queue *other = f->queues[c->queue];
  return c->kind != COMMAND_WAIT || !other || other->executed >= c->until;
}

/* Any of the queues whose next command may run: the newest, or at random. */
static queue *choose(fake *f) {
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

static void execute(fake *f, const command *c) {
  const struct timespec late = {.tv_nsec = 1000l * f->options.latency_us};
  if (late.tv_nsec) (void)nanosleep(&late, NULL);
  if (c->kind == COMMAND_COPY && c->to && c->from)
    memcpy(c->to, c->from, c->bytes);
  if (c->kind == COMMAND_FILL && c->to) memset(c->to, c->byte, c->bytes);
  if (c->kind == COMMAND_LAUNCH) c->run(f, c->arg);
}

static void count(fake *f, const command *c) {
  f->counts.copies += c->kind == COMMAND_COPY;
  f->counts.fills += c->kind == COMMAND_FILL;
  f->counts.launches += c->kind == COMMAND_LAUNCH;
}

/* The lock is held, and let go meanwhile. */
static void step(fake *f, queue *q) {
  command *c = q->first;
  const bool breaks =
      f->broken[0] && c->kind != COMMAND_WAIT && --f->broken_in <= 0;
  if (breaks && !q->failed) {
    q->failed = q->executed + 1;
    memcpy(q->why, f->broken, sizeof q->why);
    f->broken[0] = '\0';
  }
  pthread_mutex_unlock(&f->lock);
  if (!breaks) execute(f, c);
  pthread_mutex_lock(&f->lock);
  count(f, c);
  q->first = c->next;
  if (!q->first) q->last = NULL;
  ++q->executed;
  free(c);
  pthread_cond_broadcast(&f->done);
}

static void *play(void *arg) {
  fake *f = arg;
  pthread_mutex_lock(&f->lock);
  while (!f->stop) {
    queue *q = f->held ? NULL : choose(f);
    if (q)
      step(f, q);
    else
      pthread_cond_wait(&f->work, &f->lock);
  }
  pthread_mutex_unlock(&f->lock);
  return NULL;
}

/* The lock is held: of a lazy one, whoever waits or asks executes a command.
 * False if there is none, or somebody else does. */
static bool play_one(fake *f) {
  const bool own = f->options.lazy && !f->playing && !f->held;
  queue *q = own ? choose(f) : NULL;
  if (!q) return false;
  f->playing = true;
  step(f, q);
  f->playing = false;
  return true;
}

/* The lock is held, until something was executed, or might be. */
static void await(fake *f) {
  if (!play_one(f)) pthread_cond_wait(&f->done, &f->lock);
}

/* Something may be executable: who executes is told. */
static void tell(fake *f) {
  if (f->options.lazy)
    pthread_cond_broadcast(&f->done);
  else
    pthread_cond_signal(&f->work);
}

/* ----------------------------------------------------------------- entering */

static int32_t say(tn_device_error *error, int32_t code, const char *text) {
  (void)snprintf(error->text, sizeof error->text, "%s", text);
  return code;
}

/* Locks; a call that may fail may be made to. */
static int32_t enter(fake *f, tn_device_error *error) {
  pthread_mutex_lock(&f->lock);
  if (f->refuse_in == 0 || --f->refuse_in > 0) return TN_OK;
  pthread_mutex_unlock(&f->lock);
  return say(error, TN_DEVICE, "the test says no");
}

static int32_t leave(fake *f) {
  pthread_mutex_unlock(&f->lock);
  return TN_OK;
}

/* The lock is held; a thread that is seized gives it up. */
static void enqueue(fake *f, queue *q, command *c) {
  c->next = NULL;
  if (q->last)
    q->last->next = c;
  else
    q->first = c;
  q->last = c;
  ++q->enqueued;
  tell(f);
  if (c->kind == COMMAND_WAIT || f->seizing != WANTED) return;
  f->seizing = SEIZED;
  pthread_cond_broadcast(&f->done);
  while (f->seizing == SEIZED) pthread_cond_wait(&f->done, &f->lock);
}

/* ---------------------------------------------------------------- the table */

static int32_t fake_count(void *ctx, int32_t *out, tn_device_error *error) {
  const fake *f = ctx;
  *out = f->options.count < 0 ? 0 : f->options.count;
  return *out ? TN_OK : say(error, TN_OK, "nothing is plugged in");
}

static int32_t fake_info(void *ctx, int32_t id, tn_device_info *out,
                         tn_device_error *error) {
  fake *f = ctx;
  const int32_t rc = enter(f, error);
  if (rc) return rc;
  out->device_id = id;
  out->memory_total = f->options.bytes;
  (void)snprintf(out->name, sizeof out->name, "Thread");
  return leave(f);
}

static uint64_t used(const fake *f, int32_t id) {
  uint64_t bytes = 0;
  for (const piece *p = f->pieces; p; p = p->next)
    if (p->kind == TN_MEMORY_DEVICE && p->id == id) bytes += p->size;
  return bytes;
}

static piece *piece_create(uint32_t kind, uint64_t bytes) {
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
  const int32_t rc = enter(f, error);
  if (rc) return rc;
  if (kind == TN_MEMORY_DEVICE && f->options.bytes &&
      used(f, id) + bytes > f->options.bytes) {
    ++f->counts.refusals;
    (void)leave(f);
    return say(error, TN_OUT_OF_MEMORY, "all memory is taken");
  }
  piece *p = piece_create(kind, bytes);
  p->id = id;
  p->next = f->pieces;
  f->pieces = p;
  ++f->counts.pieces;
  ++f->counts.allocs;
  *out = p->address;
  return leave(f);
}

static void piece_destroy(piece *p) {
  if (p->address != p->bytes) (void)munmap(p->address, p->size);
  free(p->bytes);
  free(p->lines);
  free(p);
}

/* What is still in use is reported, and kept so that nothing worse happens. */
static void fake_free(void *ctx, int32_t id, uint32_t kind, void *memory) {
  fake *f = ctx;
  pthread_mutex_lock(&f->lock);
  piece **at = &f->pieces;
  while (*at && (*at)->address != (char *)memory) at = &(*at)->next;
  piece *p = *at;
  if (!p || p->id != id || p->kind != kind) {
    violate(f, "frees memory that is not allocated", NULL);
  } else if (!is_idle(f, p)) {
    violate(f, "frees memory that the device may still use", NULL);
  } else {
    *at = p->next;
    piece_destroy(p);
    --f->counts.pieces;
  }
  (void)leave(f);
}

static int32_t fake_queue_open(void *ctx, int32_t id, uint32_t purpose,
                               int32_t priority, void **out,
                               tn_device_error *error) {
  fake *f = ctx;
  (void)purpose, (void)priority;
  const int32_t rc = enter(f, error);
  if (rc) return rc;
  queue *q = calloc(1, sizeof *q);
  if (!q || f->n_queues == MAX_QUEUES) abort();
  q->owner = f;
  q->id = id;
  q->number = f->n_queues++;
  f->queues[q->number] = q;
  ++f->counts.queues;
  *out = q;
  return leave(f);
}

static void fake_queue_close(void *ctx, void *handle) {
  fake *f = ctx;
  queue *q = handle;
  pthread_mutex_lock(&f->lock);
  while (q->first) await(f);
  f->host.over[q->number] = q->executed;
  f->queues[q->number] = NULL;
  --f->counts.queues;
  free(q);
  (void)leave(f);
}

static void *fake_queue_stream(void *ctx, void *handle) {
  (void)ctx;
  return handle;
}

/* Notices a second thread on the same queue, and enters. */
static int32_t queue_enter(queue *q, const char *what, tn_device_error *error) {
  const char *other = atomic_exchange(&q->doing, what);
  const bool alone = atomic_fetch_add(&q->inside, 1) == 0;
  const int32_t rc = enter(q->owner, error);
  char text[96];
  if (rc) atomic_fetch_sub(&q->inside, 1);
  if (!rc && !alone) {
    (void)snprintf(text, sizeof text,
                   "two threads enqueue at the same time, %s and %s",
                   other ? other : "?", what);
    violate(q->owner, text, q);
  }
  return rc;
}

static int32_t queue_leave(queue *q) {
  atomic_fetch_sub(&q->inside, 1);
  return leave(q->owner);
}

static command *command_create(int kind) {
  command *c = calloc(1, sizeof *c);
  if (!c) abort();
  c->kind = kind;
  return c;
}

static int32_t fake_copy(void *ctx, void *handle, const tn_copy *copy,
                         tn_device_error *error) {
  fake *f = ctx;
  queue *q = handle;
  const int32_t rc = queue_enter(q, "a copy", error);
  if (rc) return rc;
  command *c = command_create(COMMAND_COPY);
  c->bytes = copy->bytes;
  c->from = copy->from_type == TN_DEVICE_CPU
                ? (const char *)copy->from
                : use(f, q, (range){copy->from, copy->bytes}, false);
  c->to = copy->to_type == TN_DEVICE_CPU
              ? (char *)copy->to
              : use(f, q, (range){copy->to, copy->bytes}, true);
  enqueue(f, q, c);
  return queue_leave(q);
}

static int32_t fake_fill(void *ctx, void *handle, void *memory, int32_t byte,
                         uint64_t bytes, tn_device_error *error) {
  fake *f = ctx;
  queue *q = handle;
  const int32_t rc = queue_enter(q, "a fill", error);
  if (rc) return rc;
  command *c = command_create(COMMAND_FILL);
  c->to = use(f, q, (range){memory, bytes}, true);
  c->byte = byte;
  c->bytes = bytes;
  enqueue(f, q, c);
  return queue_leave(q);
}

int32_t fake_launch(void *stream, const fake_work *work) {
  queue *q = stream;
  tn_device_error error;
  const int32_t rc = queue_enter(q, "a kernel", &error);
  if (rc) return rc;
  command *c = command_create(COMMAND_LAUNCH);
  if (work->arg_bytes > MAX_ARG) abort();
  c->run = work->run;
  if (work->arg_bytes) memcpy(c->arg, work->arg, work->arg_bytes);
  for (size_t i = 0; i < work->n_reads; ++i)
    (void)use(q->owner, q,
              (range){work->reads[i],
                      work->read_bytes ? work->read_bytes[i] : work->bytes},
              false);
  for (size_t i = 0; i < work->n_writes; ++i)
    (void)use(q->owner, q,
              (range){work->writes[i],
                      work->write_bytes ? work->write_bytes[i] : work->bytes},
              true);
  enqueue(q->owner, q, c);
  return queue_leave(q);
}

/* --------------------------------------------------------------------- sums */

/* A sum, for the device's thread. */
typedef struct summing {
  tn_device_sum sum;
  tn_sum_axis axes[TN_MAX_NDIM];
  char *to;
  const char *from;
} summing;

static int64_t bytes_of(tn_dtype dtype) {
  return (int64_t)((dtype >> 8 & 0xff) + 7) / 8;
}

/* Where the elements lie that the axes lead to, as bytes from the first. */
static range extent(const tn_device_sum *sum, const void *first, bool to) {
  const int64_t bytes = bytes_of(sum->dtype);
  int64_t low = 0, high = bytes;
  for (uint32_t i = 0; i < sum->n_kept + sum->n_summed; ++i) {
    const tn_sum_axis *axis = &sum->axes[i];
    const int64_t step = (to ? axis->to : axis->from) * bytes * (axis->n - 1);
    *(step < 0 ? &low : &high) += step;
  }
  return (range){first ? (const char *)first + low : NULL,
                 (uint64_t)(high - low)};
}

static double load(tn_dtype dtype, const char *at) {
  uint64_t bits = 0;
  float f32;
  double f64;
  memcpy(&bits, at, (size_t)bytes_of(dtype));
  memcpy(&f32, &bits, sizeof f32);
  memcpy(&f64, &bits, sizeof f64);
  if (dtype == TN_F64) return f64;
  if (dtype == TN_F32) return (double)f32;
  if (dtype == TN_F16) return (double)tn_kernel_f16_to_f32((uint16_t)bits);
  return (double)tn_kernel_bf16_to_f32((uint16_t)bits);
}

static void store(tn_dtype dtype, char *at, double value) {
  const float f32 = (float)value;
  const uint16_t half =
      dtype == TN_F16 ? tn_kernel_f32_to_f16(f32) : tn_kernel_f32_to_bf16(f32);
  if (dtype == TN_F64)
    memcpy(at, &value, sizeof value);
  else if (dtype == TN_F32)
    memcpy(at, &f32, sizeof f32);
  else
    memcpy(at, &half, sizeof half);
}

static bool is_float(tn_dtype t) {
  return t == TN_F16 || t == TN_BF16 || t == TN_F32 || t == TN_F64;
}

/* A sum so far: of integers modulo 2^64, of bool how many are true. */
typedef struct amount {
  double number;
  uint64_t whole;
} amount;

static void add(amount *a, tn_dtype dtype, const char *at) {
  uint64_t bits = 0;
  if (is_float(dtype)) {
    a->number += load(dtype, at);
    return;
  }
  memcpy(&bits, at, (size_t)bytes_of(dtype));
  a->whole += dtype == TN_BOOL ? bits != 0 : bits;
}

static void put(const amount *a, tn_dtype dtype, char *at) {
  const uint64_t bits = dtype == TN_BOOL ? a->whole != 0 : a->whole;
  if (is_float(dtype))
    store(dtype, at, a->number);
  else
    memcpy(at, &bits, (size_t)bytes_of(dtype));
}

/* The elements between `to` and `from` at a position of some axes. */
static void move(const tn_sum_axis *axes, uint32_t n, int64_t position,
                 int64_t *to, int64_t *from) {
  for (uint32_t i = n; i-- > 0; position /= axes[i].n) {
    *to += position % axes[i].n * axes[i].to;
    *from += position % axes[i].n * axes[i].from;
  }
}

static int64_t size_of(const tn_sum_axis *axes, uint32_t n) {
  int64_t size = 1;
  for (uint32_t i = 0; i < n; ++i) size *= axes[i].n;
  return size;
}

/* How many are added for each result, what is there included. */
static int64_t n_terms(const tn_device_sum *sum) {
  return size_of(sum->axes + sum->n_kept, sum->n_summed) +
         (sum->flags & TN_SUM_ADD);
}

static void sum_run(fake *f, const void *arg) {
  const summing *s = arg;
  const tn_device_sum *sum = &s->sum;
  const int64_t bytes = bytes_of(sum->dtype);
  const int64_t n_kept = size_of(s->axes, sum->n_kept),
                n_summed = size_of(s->axes + sum->n_kept, sum->n_summed);
  const bool adds = (sum->flags & TN_SUM_ADD) != 0;
  (void)f;
  for (int64_t i = 0; i < n_kept; ++i) {
    int64_t to = 0, first = 0;
    move(s->axes, sum->n_kept, i, &to, &first);
    if (s->from && !adds && sum->n_summed == 0) {
      memcpy(s->to + to * bytes, s->from + first * bytes, (size_t)bytes);
      continue;
    }
    amount total = {0};
    if (adds) add(&total, sum->dtype, s->to + to * bytes);
    for (int64_t k = 0; k < n_summed; ++k) {
      int64_t from = first, unused = 0;
      move(s->axes + sum->n_kept, sum->n_summed, k, &unused, &from);
      if (s->from) {
        add(&total, sum->dtype, s->from + from * bytes);
        continue;
      }
      total.number += sum->value;
      total.whole += (uint64_t)(int64_t)sum->value;
    }
    put(&total, sum->dtype, s->to + to * bytes);
  }
}

static int32_t fake_sum(void *ctx, void *handle, const tn_device_sum *sum,
                        tn_device_error *error) {
  fake *f = ctx;
  queue *q = handle;
  const uint32_t n = sum->n_kept + sum->n_summed;
  const int32_t rc = queue_enter(q, "a sum", error);
  if (rc) return rc;
  command *c = command_create(COMMAND_LAUNCH);
  summing s = {.sum = *sum};
  if (n > TN_MAX_NDIM || sizeof s > MAX_ARG) abort();
  if (f->options.only_floats && !is_float(sum->dtype) &&
      (n_terms(sum) > 1 || !sum->from))
    abort(); /* nobody asked whether */
  memcpy(s.axes, sum->axes, n * sizeof *sum->axes);
  const range to = extent(sum, sum->to, true);
  const range from = extent(sum, sum->from, false);
  if (sum->from)
    s.from = use(f, q, from, false) +
             ((const char *)sum->from - (const char *)from.address);
  s.to =
      use(f, q, to, true) + ((const char *)sum->to - (const char *)to.address);
  c->run = sum_run;
  memcpy(c->arg, &s, sizeof s);
  enqueue(f, q, c);
  return queue_leave(q);
}

void *fake_reach(fake *f, const void *address) {
  pthread_mutex_lock(&f->lock);
  const piece *p = find(f, address);
  char *bytes = p ? p->bytes + ((const char *)address - p->address) : NULL;
  (void)leave(f);
  return bytes;
}

int32_t fake_owner(fake *f, const void *address) {
  pthread_mutex_lock(&f->lock);
  const piece *p = find(f, address);
  const int32_t id = p && p->kind == TN_MEMORY_DEVICE ? p->id : -1;
  (void)leave(f);
  return id;
}

void fake_violate(fake *f, const char *what) {
  pthread_mutex_lock(&f->lock);
  violate(f, what, NULL);
  (void)leave(f);
}

/* ------------------------------------------------------------------- fences */

static int32_t fake_fence_open(void *ctx, int32_t id, void **out,
                               tn_device_error *error) {
  fake *f = ctx;
  (void)id;
  const int32_t rc = enter(f, error);
  if (rc) return rc;
  *out = calloc(1, sizeof(fence));
  if (!*out) abort();
  ++f->counts.fences;
  return leave(f);
}

static void fake_fence_close(void *ctx, void *handle) {
  fake *f = ctx;
  pthread_mutex_lock(&f->lock);
  --f->counts.fences;
  free(handle);
  (void)leave(f);
}

static int32_t fake_fence_record(void *ctx, void *handle, void *at,
                                 tn_device_error *error) {
  fence *point = handle;
  queue *q = at;
  (void)ctx;
  const int32_t rc = queue_enter(q, "a fence", error);
  if (rc) return rc;
  point->queue = q->number;
  point->at = q->enqueued;
  point->known = q->known;
  point->known.over[q->number] = q->enqueued;
  ++q->owner->counts.records;
  return queue_leave(q);
}

static int32_t fake_queue_wait(void *ctx, void *handle, void *what,
                               tn_device_error *error) {
  fake *f = ctx;
  queue *q = handle;
  const fence *point = what;
  const int32_t rc = queue_enter(q, "a wait", error);
  if (rc) return rc;
  command *c = command_create(COMMAND_WAIT);
  c->queue = point->queue;
  c->until = point->at;
  merge(&q->known, &point->known);
  enqueue(f, q, c);
  ++f->counts.queue_waits;
  return queue_leave(q);
}

static bool is_done(const fake *f, const fence *point) {
  const queue *q = f->queues[point->queue];
  return !q || q->executed >= point->at;
}

/* What a host that has seen the fence done knows, and what it is told. */
static int32_t answer(fake *f, const fence *point, tn_device_error *error) {
  const queue *q = f->queues[point->queue];
  merge(&f->host, &point->known);
  if (!q || !q->failed || q->failed > point->at) return TN_OK;
  return say(error, TN_DEVICE, q->why);
}

/* What these two answer is about the work, so the test cannot refuse them. */
static int32_t fake_fence_query(void *ctx, void *handle, int32_t *out,
                                tn_device_error *error) {
  fake *f = ctx;
  pthread_mutex_lock(&f->lock);
  if (!is_done(f, handle)) (void)play_one(f);
  *out = is_done(f, handle);
  const int32_t rc = *out ? answer(f, handle, error) : TN_OK;
  (void)leave(f);
  return rc;
}

static int32_t fake_fence_wait(void *ctx, void *handle,
                               tn_device_error *error) {
  fake *f = ctx;
  pthread_mutex_lock(&f->lock);
  ++f->counts.host_waits;
  while (!is_done(f, handle)) await(f);
  const int32_t rc = answer(f, handle, error);
  (void)leave(f);
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
  f->table.device_type = options->type ? options->type : TN_DEVICE_EXT;
  f->table.name = options->name ? options->name : "fake";
  pthread_mutex_init(&f->lock, NULL);
  pthread_cond_init(&f->work, NULL);
  pthread_cond_init(&f->done, NULL);
  if (!f->options.lazy && pthread_create(&f->thread, NULL, play, f)) abort();
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
    piece_destroy(f->pieces);
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
  tell(f);
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
