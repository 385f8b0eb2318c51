/* SPDX-License-Identifier: Apache-2.0
 * fake_work.c: copies, fills and kernels of streams. A stream that records
 * keeps them in a graph. A launch of the graph enqueues them on a stream again,
 * one after the other. So the same checks apply as to work from the host:
 * missing waits, and memory that was freed.
 */
#include "fake_work.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels.h"

enum { MOST_ARG = 2048 };

/* One piece of work of a stream. */
typedef struct work {
  struct work *next;
  enum { COPY, FILL, LAUNCH } kind;
  tn_copy copy; /* FILL: to, bytes */
  int byte;
  fake_work launch;
  char arg[MOST_ARG];
  const void **uses; /* the lists of the launch, in one piece */
} work;

/* A recording. */
struct CUgraph_st {
  work *first, *last;
  int is_spoilt;
};

struct CUgraphExec_st {
  struct CUgraphExec_st *next;
  work *first;
  int is_gone;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cuda_executable executables; /* those that are gone, too */
static int n_graphs;                /* not destroyed */
static fake_graph_counts counts;
static fake_graph_refusal refusal;

/* The recordings that a thread's calls must not disturb: those of all threads,
 * at first. */
static _Thread_local int mode_of_thread = CUDA_CAPTURE_GLOBAL;
static _Atomic bool elsewhere; /* another library records in another thread */

/* The recording of this thread; NULL: none. */
static _Thread_local cuda_graph recording;

static _Thread_local tn_device_error error;

/* ---------------------------------------------------------------- recordings
 */

fake_graph_counts fake_graph_counts_get(void) {
  return counts;
}

void fake_graph_refuse(const fake_graph_refusal *what) {
  refusal = *what;
}

/* The result that a test wants of such a call, once. */
static int refused(int call) {
  if (refusal.call != call) return CUDA_OK;
  refusal.call = 0;
  return refusal.result;
}

int cuThreadExchangeStreamCaptureMode(int *mode) {
  const int before = mode_of_thread;
  mode_of_thread = *mode;
  *mode = before;
  return CUDA_OK;
}

void fake_capture_elsewhere(bool on) {
  elsewhere = on;
}

int fake_capture_forbids(const char *what) {
  char text[96];
  if (elsewhere && mode_of_thread == CUDA_CAPTURE_GLOBAL) {
    (void)snprintf(text, sizeof text, "%s while another library records", what);
    fake_violate(fake_cuda(), text);
    return CAPTURE_UNSUPPORTED;
  }
  if (!recording) return CUDA_OK;
  recording->is_spoilt = 1;
  (void)snprintf(text, sizeof text, "%s while it records", what);
  fake_violate(fake_cuda(), text);
  return CAPTURE_UNSUPPORTED;
}

static void work_free(work *w) {
  while (w) {
    work *next = w->next;
    free(w->uses);
    free(w);
    w = next;
  }
}

/* The lists of a launch in memory of its own. */
static void launch_keep(work *w) {
  fake_work *l = &w->launch;
  const size_t n = l->n_reads + l->n_writes;
  size_t *bytes;
  w->uses = malloc((n + 1) * (sizeof *w->uses + sizeof *bytes));
  if (!w->uses || l->arg_bytes > MOST_ARG) abort();
  bytes = (size_t *)(w->uses + n);
  for (size_t i = 0; i < n; ++i) {
    const int is_read = i < l->n_reads;
    const size_t k = is_read ? i : i - l->n_reads;
    const size_t *given = is_read ? l->read_bytes : l->write_bytes;
    w->uses[i] = is_read ? l->reads[k] : l->writes[k];
    bytes[i] = given ? given[k] : l->bytes;
  }
  if (l->arg_bytes) memcpy(w->arg, l->arg, l->arg_bytes);
  l->arg = w->arg;
  l->reads = w->uses;
  l->writes = w->uses + l->n_reads;
  l->read_bytes = bytes;
  l->write_bytes = bytes + l->n_reads;
}

static void keep(cuda_graph g, const work *what) {
  work *w = malloc(sizeof *w);
  if (!w) abort();
  *w = *what;
  w->next = NULL;
  w->uses = NULL;
  if (w->kind == LAUNCH) launch_keep(w);
  if (g->last)
    g->last->next = w;
  else
    g->first = w;
  g->last = w;
}

/* ---------------------------------------------------------------- execution */

static int32_t execute(const struct CUstream_st *s, const work *w) {
  const tn_device *table = fake_table(fake_cuda());
  if (w->kind == LAUNCH) return fake_launch(s->queue, &w->launch);
  if (w->kind == FILL)
    return table->fill(table->ctx, s->queue, w->copy.to, w->byte, w->copy.bytes,
                       &error);
  return table->copy(table->ctx, s->queue, &w->copy, &error);
}

/* A stream that records is its thread's. */
static int give(cuda_stream stream, const work *w) {
  const int result = fake_enter_stream(stream);
  if (result != CUDA_OK) return result;
  if (!stream->recording)
    return fake_result_of(execute(stream, w), stream->device);
  if (stream->recording != recording)
    fake_violate(fake_cuda(), "uses a stream that another thread records");
  else
    keep(stream->recording, w);
  return CUDA_OK;
}

/* --------------------------------------------------------- copies and fills */

static void *pointer(cuda_address address) {
  return (void *)(uintptr_t)address;
}

static void check_side(int device, const void *address) {
  if (fake_owner(fake_cuda(), address) != device)
    fake_violate(fake_cuda(), "copies what is not memory of that device");
}

static int copy(cuda_stream stream, tn_copy what) {
  return give(stream, &(work){.kind = COPY, .copy = what});
}

int cuMemcpyHtoDAsync_v2(cuda_address to, const void *from, size_t bytes,
                         cuda_stream stream) {
  check_side(stream->device, pointer(to));
  return copy(stream, (tn_copy){.to = pointer(to),
                                .from = from,
                                .bytes = bytes,
                                .to_type = TN_DEVICE_CUDA,
                                .from_type = TN_DEVICE_CPU});
}

int cuMemcpyDtoHAsync_v2(void *to, cuda_address from, size_t bytes,
                         cuda_stream stream) {
  check_side(stream->device, pointer(from));
  return copy(stream, (tn_copy){.to = to,
                                .from = pointer(from),
                                .bytes = bytes,
                                .to_type = TN_DEVICE_CPU,
                                .from_type = TN_DEVICE_CUDA});
}

int cuMemcpyDtoDAsync_v2(cuda_address to, cuda_address from, size_t bytes,
                         cuda_stream stream) {
  check_side(stream->device, pointer(to));
  check_side(stream->device, pointer(from));
  return copy(stream, (tn_copy){.to = pointer(to),
                                .from = pointer(from),
                                .bytes = bytes,
                                .to_type = TN_DEVICE_CUDA,
                                .from_type = TN_DEVICE_CUDA});
}

int cuMemcpyPeerAsync(cuda_address to, cuda_context to_context,
                      cuda_address from, cuda_context from_context,
                      size_t bytes, cuda_stream stream) {
  if (!to_context || !from_context) return INVALID_CONTEXT;
  int result = fake_lost(to_context->device);
  if (result == CUDA_OK) result = fake_lost(from_context->device);
  if (result != CUDA_OK) return result;
  check_side(to_context->device, pointer(to));
  check_side(from_context->device, pointer(from));
  return copy(stream, (tn_copy){.to = pointer(to),
                                .from = pointer(from),
                                .bytes = bytes,
                                .to_type = TN_DEVICE_CUDA,
                                .from_type = TN_DEVICE_CUDA});
}

int cuMemsetD8Async(cuda_address to, unsigned char byte, size_t bytes,
                    cuda_stream stream) {
  check_side(stream->device, pointer(to));
  return give(stream, &(work){.kind = FILL,
                              .byte = byte,
                              .copy = {.to = pointer(to), .bytes = bytes}});
}

/* ------------------------------------------------------------------ kernels */

static void owned_by(int device, const void *address) {
  const int32_t owner = fake_owner(fake_cuda(), address);
  if (owner >= 0 && owner != device)
    fake_violate(fake_cuda(), "uses memory of another device");
}

int fake_cuda_submit(cuda_stream stream, fake_work *launch) {
  for (size_t i = 0; i < launch->n_reads; ++i)
    owned_by(stream->device, launch->reads[i]);
  for (size_t i = 0; i < launch->n_writes; ++i)
    owned_by(stream->device, launch->writes[i]);
  return give(stream, &(work){.kind = LAUNCH, .launch = *launch});
}

/* ------------------------------------------------------------------- graphs */

int cuStreamBeginCapture_v2(cuda_stream stream, int mode) {
  int result = fake_enter_stream(stream);
  if (result == CUDA_OK) result = refused(FAKE_CAPTURE_BEGIN);
  if (result != CUDA_OK) return result;
  if (mode != CUDA_CAPTURE_THREAD_LOCAL)
    fake_violate(fake_cuda(), "keeps other threads from taking memory");
  if (stream->recording || recording) {
    fake_violate(fake_cuda(), "records twice at the same time");
    return INVALID_VALUE;
  }
  recording = calloc(1, sizeof *recording);
  if (!recording) abort();
  stream->recording = recording;
  ++counts.begun;
  return CUDA_OK;
}

int cuStreamEndCapture(cuda_stream stream, cuda_graph *out) {
  const int result = fake_enter_stream(stream);
  cuda_graph g = stream->recording;
  *out = NULL;
  if (!g) return INVALID_VALUE;
  if (g != recording) {
    fake_violate(fake_cuda(), "ends what another thread records");
    return CAPTURE_WRONG_THREAD;
  }
  stream->recording = recording = NULL;
  if (result != CUDA_OK || g->is_spoilt) {
    work_free(g->first);
    free(g);
    return result != CUDA_OK ? result : CAPTURE_INVALIDATED;
  }
  pthread_mutex_lock(&lock);
  ++n_graphs;
  pthread_mutex_unlock(&lock);
  *out = g;
  return refused(FAKE_CAPTURE_END);
}

int cuGraphDestroy(cuda_graph graph) {
  work_free(graph->first);
  free(graph);
  pthread_mutex_lock(&lock);
  --n_graphs;
  pthread_mutex_unlock(&lock);
  return CUDA_OK;
}

int cuGraphInstantiateWithFlags(cuda_executable *out, cuda_graph graph,
                                unsigned long long flags) {
  const int result = refused(FAKE_GRAPH_CREATE);
  if (result != CUDA_OK) return result;
  if (flags) return INVALID_VALUE;
  cuda_executable x = calloc(1, sizeof *x);
  struct CUgraph_st all = {0};
  if (!x) abort();
  for (const work *w = graph->first; w; w = w->next) keep(&all, w);
  x->first = all.first;
  pthread_mutex_lock(&lock);
  x->next = executables;
  executables = x;
  ++n_graphs;
  ++counts.created;
  pthread_mutex_unlock(&lock);
  *out = x;
  return CUDA_OK;
}

int cuGraphLaunch(cuda_executable graph, cuda_stream stream) {
  int result = fake_enter_stream(stream);
  if (graph->is_gone) {
    fake_violate(fake_cuda(), "launches a graph that was destroyed");
    return INVALID_VALUE;
  }
  if (result == CUDA_OK) result = refused(FAKE_GRAPH_LAUNCH);
  if (result != CUDA_OK) return result;
  for (const work *w = graph->first; w && result == CUDA_OK; w = w->next)
    result = give(stream, w);
  pthread_mutex_lock(&lock);
  ++counts.launched;
  pthread_mutex_unlock(&lock);
  return result;
}

/* Overwrites it, so that later use shows. */
int cuGraphExecDestroy(cuda_executable graph) {
  pthread_mutex_lock(&lock);
  if (graph->is_gone)
    fake_violate(fake_cuda(), "destroys a graph twice");
  else
    --n_graphs;
  graph->is_gone = 1;
  pthread_mutex_unlock(&lock);
  return CUDA_OK;
}

int fake_graphs_end(void) {
  const int left = n_graphs;
  while (executables) {
    cuda_executable x = executables;
    executables = x->next;
    work_free(x->first);
    free(x);
  }
  n_graphs = 0;
  counts = (fake_graph_counts){0};
  refusal.call = 0;
  return left;
}
