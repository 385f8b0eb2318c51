/* SPDX-License-Identifier: Apache-2.0
 * trace.c: spans. Each thread writes into its own blocks, which belong to the
 * engine and live as long as it does. The writer of the file reads the spans
 * that each thread has published by then, and waits for no thread.
 */
#include <inttypes.h>
#include <string.h>

#include "device_queue.h"
#include "files.h"
#include "futex.h"
#include "pool.h"
#include "trace.h"

enum { BLOCK = 64 << 10, NAME_MAX_BYTES = 1000 };

/* Layout in a block: this, the name, the queue's name; no terminating zeros. */
typedef struct span {
  uint64_t begin;
  uint64_t end;
  uint16_t n_name;
  uint16_t n_queue;
  uint32_t id; /* of an asynchronous span; 0: of a function */
} span;

typedef struct block {
  _Atomic(struct block *) next;
  _Atomic size_t used;
  unsigned char bytes[BLOCK];
} block;

/* The blocks of one thread. */
typedef struct lane {
  struct lane *next;
  uint32_t number; /* number in the file */
  uint32_t worker; /* 0: no worker */
  uint64_t thread; /* its tn__self */
  _Atomic(block *) first;
  block *last;
} lane;

typedef struct tn__trace {
  const tn__env *env;
  uint64_t id; /* differs from an earlier trace at the same address */
  _Atomic uint64_t start;   /* earlier spans are left out */
  _Atomic uint64_t n_lost;  /* spans lost without memory */
  _Atomic uint32_t n_later; /* asynchronous spans */
  pthread_mutex_t lock;
  lane *lanes;
  uint32_t n_lanes;
} tn__trace;

/* The lane that this thread used last. */
static _Thread_local struct {
  const tn__trace *trace;
  uint64_t id;
  lane *lane;
} current;

/* ---------------------------------------------------------------- recording */

/* Returns the thread's existing lane, or NULL. */
static lane *find_lane(tn__trace *trace, uint64_t thread) {
  pthread_mutex_lock(&trace->lock);
  lane *l = trace->lanes;
  while (l != NULL && l->thread != thread) l = l->next;
  pthread_mutex_unlock(&trace->lock);
  return l;
}

static lane *create_lane(tn__engine *engine, tn__trace *trace,
                         uint64_t thread) {
  lane *l = tn__zalloc(trace->env, sizeof *l);
  if (l == NULL) return NULL;
  l->thread = thread;
  if (engine->pool != NULL) l->worker = tn__pool_worker_number(engine->pool);
  pthread_mutex_lock(&trace->lock);
  l->number = ++trace->n_lanes;
  l->next = trace->lanes;
  trace->lanes = l;
  pthread_mutex_unlock(&trace->lock);
  return l;
}

static lane *lane_here(tn__engine *engine) {
  tn__trace *trace = engine->trace;
  if (current.trace == trace && current.id == trace->id) return current.lane;
  const uint64_t thread = tn__self_get();
  lane *l = find_lane(trace, thread);
  if (l == NULL) l = create_lane(engine, trace, thread);
  if (l == NULL) return NULL;
  current.trace = trace;
  current.id = trace->id;
  current.lane = l;
  return l;
}

/* Returns a block with room for so many bytes at the end of the lane, or NULL.
 */
static block *find_room(const tn__trace *trace, lane *l, size_t bytes) {
  block *last = l->last;
  if (last != NULL &&
      BLOCK - atomic_load_explicit(&last->used, memory_order_relaxed) >= bytes)
    return last;
  block *b = tn__alloc(trace->env, sizeof *b);
  if (b == NULL) return NULL;
  atomic_init(&b->next, NULL);
  atomic_init(&b->used, 0);
  atomic_store_explicit(last != NULL ? &last->next : &l->first, b,
                        memory_order_release);
  l->last = b;
  return b;
}

static uint16_t name_length(const char *text) {
  return (uint16_t)strnlen(text, NAME_MAX_BYTES);
}

static void put_span(block *b, const span *s, const char *name,
                     const char *queue) {
  const size_t used = atomic_load_explicit(&b->used, memory_order_relaxed);
  unsigned char *to = b->bytes + used;
  memcpy(to, s, sizeof *s);
  memcpy(to + sizeof *s, name, s->n_name);
  memcpy(to + sizeof *s + s->n_name, queue, s->n_queue);
  atomic_store_explicit(&b->used, used + sizeof *s + s->n_name + s->n_queue,
                        memory_order_release);
}

/* Records a span with the times and the id of `s`. */
static void record_span(tn__engine *engine, span s, const char *name,
                        const char *queue) {
  tn__trace *trace = engine->trace;
  s.n_name = name_length(name);
  s.n_queue = name_length(queue);
  lane *l = lane_here(engine);
  block *b =
      l == NULL ? NULL : find_room(trace, l, sizeof s + s.n_name + s.n_queue);
  if (b != NULL)
    put_span(b, &s, name, queue);
  else
    atomic_fetch_add_explicit(&trace->n_lost, 1, memory_order_relaxed);
}

void tn__trace_span(tn__engine *engine, const char *name,
                    const tn__queue *queue, uint64_t begin) {
  const span s = {.begin = begin, .end = tn__now()};
  record_span(engine, s, name != NULL ? name : "a function",
              queue != NULL ? queue->name : "host");
}

void tn__trace_later(const tn__token *token, uint64_t begin) {
  tn__trace *trace = token->engine->trace;
  const span s = {.begin = begin,
                  .end = tn__now(),
                  .id = 1 + atomic_fetch_add_explicit(&trace->n_later, 1,
                                                      memory_order_relaxed)};
  record_span(token->engine, s, token->name, "later");
}

uint64_t tn__trace_begin(tn__engine *engine) {
  return atomic_load_explicit(&engine->tracing, memory_order_acquire) != 0
             ? tn__now()
             : 0;
}

void tn__trace_part(tn__engine *engine, const char *name, uint64_t begin) {
  tn__trace_span(engine, name, NULL, begin);
}

/* ----------------------------------------------------------- start and stop */

static tn_code create_trace(tn__engine *engine) {
  tn__trace *trace = tn__zalloc(engine->env, sizeof *trace);
  if (trace == NULL) return tn__fail_memory(sizeof *trace, "a trace");
  trace->env = engine->env;
  trace->id = tn__now();
  pthread_mutex_init(&trace->lock, NULL);
  engine->trace = trace;
  return TN_OK;
}

/* No thread pushes meanwhile, and the owner loses the gate. */
static tn_code start_paused(tn__engine *engine) {
  if (atomic_load_explicit(&engine->tracing, memory_order_relaxed) != 0)
    return tn__fail(TN_EXISTS,
                    "trace: one is being recorded already; tn_trace_write "
                    "ends it");
  if (engine->trace == NULL) TN__TRY(create_trace(engine));
  atomic_store_explicit(&engine->trace->start, tn__now(), memory_order_relaxed);
  atomic_store_explicit(&engine->trace->n_lost, 0, memory_order_relaxed);
  atomic_store_explicit(&engine->tracing, 1, memory_order_release);
  return TN_OK;
}

tn_code tn__trace_start(tn__engine *engine) {
  tn__engine_pause(engine);
  const tn_code code = start_paused(engine);
  tn__engine_resume(engine);
  return code;
}

void tn__trace_stop(tn__engine *engine) {
  tn__engine_pause(engine);
  atomic_store_explicit(&engine->tracing, 0, memory_order_relaxed);
  tn__engine_resume(engine);
}

static void free_lane(const tn__env *env, lane *l) {
  block *b = atomic_load_explicit(&l->first, memory_order_acquire);
  while (b != NULL) {
    block *next = atomic_load_explicit(&b->next, memory_order_acquire);
    tn__free(env, b);
    b = next;
  }
  tn__free(env, l);
}

static void free_trace(tn__trace *trace) {
  if (trace == NULL) return;
  while (trace->lanes != NULL) {
    lane *next = trace->lanes->next;
    free_lane(trace->env, trace->lanes);
    trace->lanes = next;
  }
  pthread_mutex_destroy(&trace->lock);
  tn__free(trace->env, trace);
}

void tn__trace_drop(tn__engine *engine) {
  free_trace(engine->trace);
  engine->trace = NULL;
}

void tn__trace_forget(tn__engine *engine) {
  tn__engine_pause(engine);
  tn__trace *trace = engine->trace;
  if (atomic_load_explicit(&engine->tracing, memory_order_relaxed) != 0)
    trace = NULL;
  else
    engine->trace = NULL;
  tn__engine_resume(engine);
  free_trace(trace);
}

/* ------------------------------------------------------------------ writing */

typedef struct writer {
  tn__sink *sink;
  tn_code code; /* first failure */
  tn__buf buf;  /* one line */
  uint64_t start;
  uint32_t lane;
  bool any;
} writer;

static void write_text(writer *w, const char *text, size_t n) {
  if (w->code == TN_OK) w->code = tn__sink_write(w->sink, text, n);
}

/* Writes the text that was added to the line. */
static void write_buf(writer *w) {
  if (w->code == TN_OK && w->buf.failed)
    w->code = tn__fail_memory(NAME_MAX_BYTES, "a line of a trace");
  write_text(w, w->buf.s, w->buf.n);
  w->buf.n = 0;
}

static void write_line(writer *w) {
  if (w->any) write_text(w, ",", 1);
  write_text(w, "\n", 1);
  write_buf(w);
  w->any = true;
}

/* Adds microseconds, with a point in every locale. */
static void add_us(tn__buf *buf, uint64_t ns) {
  tn__buf_add(buf, "%" PRIu64 ".%03u", ns / 1000, (unsigned)(ns % 1000));
}

static void add_text(tn__buf *buf, const unsigned char *text, uint32_t n) {
  char copy[NAME_MAX_BYTES + 1];
  memcpy(copy, text, n);
  copy[n] = '\0';
  tn__buf_json(buf, copy);
}

/* Writes an event of a span: all of it (X), or its begin (b) or end (e). */
static void write_event(writer *w, const span *s, const unsigned char *text,
                        char phase) {
  tn__buf *buf = &w->buf;
  tn__buf_add(buf, "{\"name\":");
  add_text(buf, text, s->n_name);
  tn__buf_add(buf, ",\"cat\":");
  add_text(buf, text + s->n_name, s->n_queue);
  tn__buf_add(buf, ",\"ph\":\"%c\",\"pid\":1,\"tid\":%u,\"ts\":", phase,
              w->lane);
  add_us(buf, (phase == 'e' ? s->end : s->begin) - w->start);
  if (phase == 'X') {
    tn__buf_add(buf, ",\"dur\":");
    add_us(buf, s->end - s->begin);
    tn__buf_add(buf, "}");
  } else {
    tn__buf_add(buf, ",\"id\":%u}", s->id);
  }
  write_line(w);
}

static void write_span(writer *w, const span *s, const unsigned char *text) {
  if (s->begin < w->start) return;
  write_event(w, s, text, s->id != 0 ? 'b' : 'X');
  if (s->id != 0) write_event(w, s, text, 'e');
}

static void write_block(writer *w, const block *b) {
  const size_t used = atomic_load_explicit(&b->used, memory_order_acquire);
  for (size_t at = 0; at < used;) {
    span s;
    memcpy(&s, b->bytes + at, sizeof s);
    write_span(w, &s, b->bytes + at + sizeof s);
    at += sizeof s + s.n_name + s.n_queue;
  }
}

static void write_lane(writer *w, lane *l) {
  w->lane = l->number;
  tn__buf_add(&w->buf,
              "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":%u,"
              "\"args\":{\"name\":\"%s %u\"}}",
              l->number, l->worker != 0 ? "worker" : "thread",
              l->worker != 0 ? l->worker : l->number);
  write_line(w);
  const block *b = atomic_load_explicit(&l->first, memory_order_acquire);
  for (; b != NULL; b = atomic_load_explicit(&b->next, memory_order_acquire))
    write_block(w, b);
}

static void write_all(writer *w, tn__trace *trace) {
  pthread_mutex_lock(&trace->lock);
  lane *l = trace->lanes;
  pthread_mutex_unlock(&trace->lock);
  tn__buf_add(&w->buf, "{\"traceEvents\":[");
  write_buf(w);
  for (; l != NULL; l = l->next) write_lane(w, l);
  tn__buf_add(&w->buf,
              "\n],\"displayTimeUnit\":\"ns\",\"otherData\":{\"lost\":%" PRIu64
              "}}\n",
              atomic_load_explicit(&trace->n_lost, memory_order_relaxed));
  write_buf(w);
}

static tn_code write_to(tn__trace *trace, tn__sink *sink) {
  writer w = {.sink = sink};
  tn__buf_init(&w.buf, trace->env);
  w.start = atomic_load_explicit(&trace->start, memory_order_relaxed);
  write_all(&w, trace);
  tn__buf_deinit(&w.buf);
  return w.code;
}

tn_code tn__trace_write(tn__engine *engine, const char *path) {
  if (engine->trace == NULL)
    return tn__fail(TN_INVALID,
                    "%s: nothing was recorded; start a trace before the work "
                    "that it is to show",
                    path);
  tn__sink sink;
  TN__TRY(tn__sink_open(engine->env, path, &sink));
  tn_code code = write_to(engine->trace, &sink);
  if (code == TN_OK) code = tn__sink_commit(&sink, TN__SINK_DURABLE);
  tn__sink_close(&sink);
  return code;
}
