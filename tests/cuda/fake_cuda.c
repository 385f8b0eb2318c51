/* SPDX-License-Identifier: Apache-2.0
 * fake_cuda.c: see fake_cuda.h. The driver's functions on top of the table of
 * tests/storage/fake.c, and the features of CUDA beyond it: current contexts,
 * pools, lost devices. fake_work.c has the work of streams.
 */
#include "fake_cuda.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_work.h"
#include "kernels.h"

enum { MOST_DEVICES = 8, MOST_KEPT = 4096, MOST_CURRENT = 16 };
enum { LAUNCH_FAILED = 719 };

struct CUevent_st {
  struct CUevent_st *next;
  void *fence;
  int device;
};

/* Freed memory, for the next allocation of the same size: the worst case of a
 * pool, which is fragmented. */
struct CUmemPoolHandle_st {
  struct CUmemPoolHandle_st *next;
  int device;
  int n_kept;
  size_t kept[MOST_KEPT];
};

/* A living piece of memory. */
typedef struct memory {
  struct memory *next;
  void *address;
  size_t bytes;
  cuda_pool pool;
  uint32_t kind;
  int device;
} memory;

static struct {
  fake *f;
  const tn_device *table;
  fake_cuda_options options;
  pthread_mutex_t lock;
  struct CUctx_st contexts[MOST_DEVICES];
  int n_contexts[MOST_DEVICES]; /* times that each is retained */
  int lost[MOST_DEVICES];
  memory *memories;
  cuda_stream streams;
  cuda_event events;
  cuda_pool pools;
  uint64_t used[MOST_DEVICES]; /* bytes that live or are kept */
  uint64_t pooled;
  int64_t n_takes; /* calls that take memory, and which finds none */
  int64_t starve_at;
  bool starve_for_ever;
  int n_pools;
  char told[320];
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The contexts that are current on a thread, the last pushed on top. */
static _Thread_local cuda_context current[MOST_CURRENT];
static _Thread_local int n_current;

/* ------------------------------------------------------------- begin and end
 */

fake *fake_cuda(void) {
  return all.f;
}

void fake_cuda_begin(const fake_cuda_options *options) {
  all.options = *options;
  if (!options->version) all.options.version = 13000;
  if (options->devices == 0) return;
  all.f = fake_create(&(fake_options){.type = TN_DEVICE_CUDA,
                                      .name = "cuda",
                                      .count = options->devices,
                                      .latency_us = options->latency_us,
                                      .seed = options->seed,
                                      .lazy = options->lazy});
  all.table = fake_table(all.f);
  fake_kernels_begin(options->seed);
  for (int i = 0; i < MOST_DEVICES; ++i) all.contexts[i].device = i;
}

static void tell(const char *what, int64_t n) {
  const size_t at = strlen(all.told);
  if (n != 0)
    (void)snprintf(all.told + at, sizeof all.told - at, "%lld %s left; ",
                   (long long)n, what);
}

/* Of devices that are lost nothing was given back. */
static void close_all(void) {
  const tn_device *t = all.table;
  for (cuda_event next, e = all.events; e; e = next) {
    next = e->next;
    t->fence_close(t->ctx, e->fence);
    free(e);
  }
  for (cuda_stream next, s = all.streams; s; s = next) {
    next = s->next;
    t->queue_close(t->ctx, s->queue);
    free(s);
  }
  for (cuda_pool next, p = all.pools; p; p = next) {
    next = p->next;
    free(p);
  }
  for (memory *next, *m = all.memories; m; m = next) {
    next = m->next;
    free(m);
  }
  all.events = NULL;
  all.streams = NULL;
  all.pools = NULL;
  all.memories = NULL;
}

const char *fake_cuda_end(void) {
  all.told[0] = '\0';
  if (!all.f) return NULL;
  const fake_counts counts = fake_counts_get(all.f);
  (void)snprintf(all.told, sizeof all.told, "%s", fake_violation(all.f));
  tell("pieces of memory", counts.pieces);
  tell("streams", counts.queues);
  tell("events", counts.fences);
  tell("pools", all.n_pools);
  tell("graphs", fake_graphs_end());
  for (int i = 0; i < MOST_DEVICES; ++i) tell("contexts", all.n_contexts[i]);
  close_all();
  fake_destroy(all.f);
  fake_kernels_end();
  memset(all.n_contexts, 0, sizeof all.n_contexts);
  memset(all.lost, 0, sizeof all.lost);
  memset(all.used, 0, sizeof all.used);
  all.pooled = 0;
  all.n_takes = all.starve_at = 0;
  all.n_pools = 0;
  all.f = NULL;
  return all.told[0] ? all.told : NULL;
}

void fake_cuda_lose(int device, int result) {
  all.lost[device] = result;
}

int fake_cuda_contexts(void) {
  int n = 0;
  for (int i = 0; i < MOST_DEVICES; ++i) n += all.n_contexts[i];
  return n;
}

uint64_t fake_cuda_pooled(void) {
  return all.pooled;
}

/* For programs that do not use this header: FAKE_CUDA is the number of devices,
 * FAKE_CUDA_SEED the seed, FAKE_CUDA_LAZY makes it lazy. A broken rule ends the
 * process. */
__attribute__((constructor)) static void begin_by_environment(void) {
  const char *devices = getenv("FAKE_CUDA"), *seed = getenv("FAKE_CUDA_SEED");
  if (devices)
    fake_cuda_begin(
        &(fake_cuda_options){.devices = atoi(devices),
                             .seed = seed ? strtoull(seed, NULL, 0) : 0,
                             .lazy = getenv("FAKE_CUDA_LAZY") != NULL});
}

__attribute__((destructor)) static void end_by_environment(void) {
  const char *told = getenv("FAKE_CUDA") ? fake_cuda_end() : NULL;
  if (!told) return;
  (void)fprintf(stderr, "fake CUDA: %s\n", told);
  abort();
}

/* ------------------------------------------------------------------ the rules
 */

/* The device that is current, if it works; otherwise a result in *result. */
static int enter(int *result) {
  *result = n_current ? CUDA_OK : INVALID_CONTEXT;
  if (!n_current) {
    fake_violate(all.f, "no context is current");
    return 0;
  }
  const int device = current[n_current - 1]->device;
  if (!all.n_contexts[device])
    fake_violate(all.f, "a context is current that was released");
  *result = all.lost[device];
  return device;
}

int fake_cuda_device(void) {
  int result;
  return enter(&result);
}

int fake_enter_stream(const struct CUstream_st *stream) {
  int result;
  const int device = enter(&result);
  if (result == CUDA_OK && device != stream->device)
    fake_violate(all.f, "uses a stream of another device");
  return result;
}

int fake_result_of(int32_t code, int device) {
  if (code == TN_OK) return CUDA_OK;
  if (code == TN_OUT_OF_MEMORY) return CUDA_OUT_OF_MEMORY;
  if (!all.lost[device]) all.lost[device] = LAUNCH_FAILED;
  return all.lost[device];
}

int fake_lost(int device) {
  return all.lost[device];
}

static void *pointer(cuda_address address) {
  return (void *)(uintptr_t)address;
}

static _Thread_local tn_device_error error;

/* ------------------------------------------------------- driver and contexts
 */

int cuInit(unsigned flags) {
  (void)flags;
  return all.options.init;
}

int cuDriverGetVersion(int *out) {
  *out = all.options.version;
  return CUDA_OK;
}

int cuGetErrorName(int result, const char **out) {
  *out = result == CUDA_NO_DEVICE       ? "CUDA_ERROR_NO_DEVICE"
         : result == CUDA_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
         : result == LAUNCH_FAILED      ? "CUDA_ERROR_LAUNCH_FAILED"
         : result == 999                ? "CUDA_ERROR_UNKNOWN"
         : result == 803                ? "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"
                                        : NULL;
  return *out ? CUDA_OK : INVALID_VALUE;
}

int cuGetErrorString(int result, const char **out) {
  *out = result == CUDA_NO_DEVICE       ? "no CUDA-capable device is detected"
         : result == CUDA_OUT_OF_MEMORY ? "out of memory"
         : result == LAUNCH_FAILED      ? "unspecified launch failure"
         : result == 999                ? "unknown error"
         : result == 803 ? "system has unsupported display driver / cuda "
                           "driver combination"
                         : NULL;
  return *out ? CUDA_OK : INVALID_VALUE;
}

int cuDeviceGetCount(int *out) {
  *out = all.options.devices;
  return all.options.devices ? CUDA_OK : CUDA_NO_DEVICE;
}

int cuDeviceGet(int *out, int ordinal) {
  *out = ordinal;
  return CUDA_OK;
}

int cuDeviceGetName(char *out, int bytes, int device) {
  (void)snprintf(out, (size_t)bytes, "Fake %d", device);
  return CUDA_OK;
}

int cuDeviceGetPCIBusId(char *out, int bytes, int device) {
  (void)snprintf(out, (size_t)bytes, "0000:%02x:00.0", device + 1);
  return CUDA_OK;
}

int cuDeviceTotalMem_v2(size_t *out, int device) {
  (void)device;
  *out = all.options.bytes ? all.options.bytes : (size_t)1 << 30;
  return CUDA_OK;
}

int cuDeviceGetAttribute(int *out, int attribute, int device) {
  (void)device;
  *out = attribute == CUDA_COMPUTE_MAJOR    ? 9
         : attribute == CUDA_COMPUTE_MINOR  ? 0
         : attribute == CUDA_MANAGED_MEMORY ? 1
         : attribute == CUDA_MEMORY_POOLS   ? !all.options.no_pools
                                            : 0;
  return CUDA_OK;
}

int cuDeviceCanAccessPeer(int *out, int device, int peer) {
  *out = device != peer;
  return CUDA_OK;
}

int cuDevicePrimaryCtxRetain(cuda_context *out, int device) {
  if (all.lost[device]) return all.lost[device];
  pthread_mutex_lock(&all.lock);
  ++all.n_contexts[device];
  pthread_mutex_unlock(&all.lock);
  *out = &all.contexts[device];
  return CUDA_OK;
}

int cuDevicePrimaryCtxRelease_v2(int device) {
  pthread_mutex_lock(&all.lock);
  --all.n_contexts[device];
  pthread_mutex_unlock(&all.lock);
  return all.lost[device];
}

int cuCtxPushCurrent_v2(cuda_context context) {
  if (n_current == MOST_CURRENT) abort();
  current[n_current++] = context;
  return CUDA_OK;
}

int cuCtxPopCurrent_v2(cuda_context *out) {
  if (!n_current) return INVALID_CONTEXT;
  *out = current[--n_current];
  return CUDA_OK;
}

int cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  *least = 0;
  *greatest = -5;
  return CUDA_OK;
}

/* ------------------------------------------------------------------- memory */

static uint64_t room(int device) {
  const uint64_t total = all.options.bytes ? all.options.bytes : UINT64_MAX;
  return total - all.used[device];
}

int cuMemGetInfo_v2(size_t *left, size_t *total) {
  int result;
  const int device = enter(&result);
  if (result != CUDA_OK) return result;
  *left = room(device);
  return cuDeviceTotalMem_v2(total, device);
}

int64_t fake_cuda_starve(int64_t n, bool for_ever) {
  pthread_mutex_lock(&all.lock);
  const int64_t before = all.n_takes;
  all.n_takes = 0;
  all.starve_at = n;
  all.starve_for_ever = for_ever;
  pthread_mutex_unlock(&all.lock);
  return before;
}

/* The lock is held. */
static int is_starved(void) {
  const int64_t n = ++all.n_takes;
  if (all.starve_at == 0 || n < all.starve_at) return 0;
  return n == all.starve_at || all.starve_for_ever;
}

/* Takes memory of a kind; `counted` if it is not a kept piece's. The lock is
 * held. */
static int take(const memory *like, void **out, int counted) {
  memory *m = calloc(1, sizeof *m);
  if (!m) abort();
  *m = *like;
  const int32_t code = all.table->alloc(all.table->ctx, like->device,
                                        like->kind, like->bytes, out, &error);
  if (code != TN_OK) {
    free(m);
    return fake_result_of(code, like->device);
  }
  m->address = *out;
  m->next = all.memories;
  all.memories = m;
  if (counted) all.used[like->device] += like->bytes;
  return CUDA_OK;
}

static int alloc(memory like, void **out) {
  int result = fake_capture_forbids("takes memory");
  if (result != CUDA_OK) return result;
  like.device = enter(&result);
  if (result != CUDA_OK) return result;
  pthread_mutex_lock(&all.lock);
  const int counted = like.kind == TN_MEMORY_DEVICE;
  if (is_starved() || (counted && like.bytes > room(like.device)))
    result = CUDA_OUT_OF_MEMORY;
  else
    result = take(&like, out, counted);
  pthread_mutex_unlock(&all.lock);
  return result;
}

/* Takes a piece of memory out of the list; NULL if it is none. */
static memory *find(const void *address, uint32_t kind) {
  memory **at = &all.memories;
  while (*at && (*at)->address != address) at = &(*at)->next;
  memory *m = *at;
  if (!m || m->kind != kind) {
    fake_violate(all.f, "frees memory that is not allocated");
    return NULL;
  }
  *at = m->next;
  return m;
}

static void keep(cuda_pool pool, size_t bytes) {
  if (pool->n_kept == MOST_KEPT) abort();
  pool->kept[pool->n_kept++] = bytes;
  all.pooled += bytes;
}

static int give(const void *address, uint32_t kind, int pooled) {
  int result = fake_capture_forbids("gives memory back");
  if (result != CUDA_OK) return result;
  const int device = enter(&result);
  if (result != CUDA_OK) return result;
  pthread_mutex_lock(&all.lock);
  memory *m = find(address, kind);
  if (m && m->device != device && kind == TN_MEMORY_DEVICE)
    fake_violate(all.f, "frees memory of another device");
  if (m && pooled != (m->pool != NULL))
    fake_violate(all.f, "frees memory by the wrong function");
  if (m) {
    all.table->free(all.table->ctx, m->device, kind, m->address);
    if (m->pool)
      keep(m->pool, m->bytes);
    else if (kind == TN_MEMORY_DEVICE)
      all.used[device] -= m->bytes;
    free(m);
  }
  pthread_mutex_unlock(&all.lock);
  return CUDA_OK;
}

int cuMemAlloc_v2(cuda_address *out, size_t bytes) {
  void *address = NULL;
  const int result =
      alloc((memory){.bytes = bytes, .kind = TN_MEMORY_DEVICE}, &address);
  *out = (cuda_address)(uintptr_t)address;
  return result;
}

int cuMemFree_v2(cuda_address address) {
  return give(pointer(address), TN_MEMORY_DEVICE, 0);
}

/* Neither side notices a difference from memory of the host here. */
int cuMemAllocManaged(cuda_address *out, size_t bytes, unsigned flags) {
  (void)out, (void)bytes, (void)flags;
  return CUDA_NOT_SUPPORTED;
}

int cuMemHostAlloc(void **out, size_t bytes, unsigned flags) {
  (void)flags;
  return alloc((memory){.bytes = bytes, .kind = TN_MEMORY_HOST}, out);
}

int cuMemFreeHost(void *address) {
  return give(address, TN_MEMORY_HOST, 0);
}

/* -------------------------------------------------------------------- pools */

int cuMemPoolCreate(cuda_pool *out, const cuda_pool_props *props) {
  int result;
  const int device = enter(&result);
  if (result != CUDA_OK) return result;
  if (props->location.type != CUDA_LOCATION_DEVICE ||
      props->location.id != device)
    fake_violate(all.f, "makes a pool on another device");
  *out = calloc(1, sizeof **out);
  if (!*out) abort();
  (*out)->device = device;
  pthread_mutex_lock(&all.lock);
  (*out)->next = all.pools;
  all.pools = *out;
  ++all.n_pools;
  pthread_mutex_unlock(&all.lock);
  return CUDA_OK;
}

int cuMemPoolTrimTo(cuda_pool pool, size_t keep_bytes) {
  (void)keep_bytes;
  pthread_mutex_lock(&all.lock);
  while (pool->n_kept > 0) {
    all.used[pool->device] -= pool->kept[--pool->n_kept];
    all.pooled -= pool->kept[pool->n_kept];
  }
  pthread_mutex_unlock(&all.lock);
  return CUDA_OK;
}

int cuMemPoolDestroy(cuda_pool pool) {
  cuda_pool *at = &all.pools;
  (void)cuMemPoolTrimTo(pool, 0);
  pthread_mutex_lock(&all.lock);
  while (*at != pool) at = &(*at)->next;
  *at = pool->next;
  --all.n_pools;
  pthread_mutex_unlock(&all.lock);
  free(pool);
  return CUDA_OK;
}

int cuMemPoolSetAttribute(cuda_pool pool, int attribute, void *value) {
  (void)pool, (void)value;
  return attribute == CUDA_POOL_RELEASE_THRESHOLD ? CUDA_OK : INVALID_VALUE;
}

int cuMemPoolGetAttribute(cuda_pool pool, int attribute, void *value) {
  if (attribute != CUDA_POOL_RESERVED) return INVALID_VALUE;
  pthread_mutex_lock(&all.lock);
  memcpy(value, &all.used[pool->device], sizeof(uint64_t));
  pthread_mutex_unlock(&all.lock);
  return CUDA_OK;
}

int cuMemPoolSetAccess(cuda_pool pool, const cuda_access *access, size_t n) {
  for (size_t i = 0; i < n; ++i)
    if (access[i].location.id == pool->device) return INVALID_VALUE;
  return CUDA_OK;
}

/* 1 if the pool keeps a piece of this size, which it then no longer does. */
static int unkeep(cuda_pool pool, size_t bytes) {
  for (int i = 0; i < pool->n_kept; ++i) {
    if (pool->kept[i] != bytes) continue;
    pool->kept[i] = pool->kept[--pool->n_kept];
    all.pooled -= bytes;
    return 1;
  }
  return 0;
}

/* A lock for work that the driver itself enqueues when a thread allocates or
 * waits. Any number of threads may do so, but the fake's calls to enqueue are
 * for one thread. */
static pthread_mutex_t by_itself = PTHREAD_MUTEX_INITIALIZER;

/* Writes garbage on the stream, so that users of the memory must wait for the
 * stream. */
int cuMemAllocFromPoolAsync(cuda_address *out, size_t bytes, cuda_pool pool,
                            cuda_stream stream) {
  void *address = NULL;
  int result = fake_capture_forbids("takes memory");
  if (result == CUDA_OK) result = fake_enter_stream(stream);
  const memory like = {.bytes = bytes,
                       .kind = TN_MEMORY_DEVICE,
                       .pool = pool,
                       .device = pool->device};
  if (result != CUDA_OK) return result;
  pthread_mutex_lock(&all.lock);
  const int starved = is_starved(), kept = !starved && unkeep(pool, bytes);
  result = starved || (!kept && bytes > room(pool->device))
               ? CUDA_OUT_OF_MEMORY
               : take(&like, &address, !kept);
  pthread_mutex_unlock(&all.lock);
  if (result != CUDA_OK) return result;
  *out = (cuda_address)(uintptr_t)address;
  pthread_mutex_lock(&by_itself);
  const int32_t code = all.table->fill(all.table->ctx, stream->queue, address,
                                       0xa5, bytes, &error);
  pthread_mutex_unlock(&by_itself);
  return fake_result_of(code, stream->device);
}

int cuMemFreeAsync(cuda_address address, cuda_stream stream) {
  const int result = fake_enter_stream(stream);
  if (result != CUDA_OK) return result;
  return give(pointer(address), TN_MEMORY_DEVICE, 1);
}

/* ------------------------------------------------------ streams and events */

int cuStreamCreateWithPriority(cuda_stream *out, unsigned flags, int priority) {
  int result;
  const int device = enter(&result);
  (void)priority;
  if (result != CUDA_OK) return result;
  if (flags != CUDA_STREAM_NON_BLOCKING)
    fake_violate(all.f, "makes a stream that waits for stream 0");
  cuda_stream s = calloc(1, sizeof *s);
  if (!s) abort();
  s->device = device;
  pthread_mutex_lock(&all.lock);
  s->next = all.streams;
  all.streams = s;
  pthread_mutex_unlock(&all.lock);
  *out = s;
  return fake_result_of(
      all.table->queue_open(all.table->ctx, device, 0, 0, &s->queue, &error),
      device);
}

int cuStreamDestroy_v2(cuda_stream stream) {
  const int result = fake_enter_stream(stream);
  if (result != CUDA_OK) return result;
  pthread_mutex_lock(&all.lock);
  cuda_stream *at = &all.streams;
  while (*at != stream) at = &(*at)->next;
  *at = stream->next;
  pthread_mutex_unlock(&all.lock);
  all.table->queue_close(all.table->ctx, stream->queue);
  free(stream);
  return CUDA_OK;
}

int cuEventCreate(cuda_event *out, unsigned flags) {
  int result;
  const int device = enter(&result);
  if (result != CUDA_OK) return result;
  if (!(flags & CUDA_EVENT_NO_TIMING))
    fake_violate(all.f, "makes an event that measures");
  cuda_event e = calloc(1, sizeof *e);
  if (!e) abort();
  e->device = device;
  pthread_mutex_lock(&all.lock);
  e->next = all.events;
  all.events = e;
  pthread_mutex_unlock(&all.lock);
  *out = e;
  return fake_result_of(
      all.table->fence_open(all.table->ctx, device, &e->fence, &error), device);
}

int cuEventDestroy_v2(cuda_event event) {
  pthread_mutex_lock(&all.lock);
  cuda_event *at = &all.events;
  while (*at != event) at = &(*at)->next;
  *at = event->next;
  pthread_mutex_unlock(&all.lock);
  all.table->fence_close(all.table->ctx, event->fence);
  free(event);
  return CUDA_OK;
}

int cuEventRecord(cuda_event event, cuda_stream stream) {
  int result = fake_capture_forbids("records an event");
  if (result == CUDA_OK) result = fake_enter_stream(stream);
  if (result != CUDA_OK) return result;
  if (event->device != stream->device)
    fake_violate(all.f, "records an event on a stream of another device");
  return fake_result_of(all.table->fence_record(all.table->ctx, event->fence,
                                                stream->queue, &error),
                        stream->device);
}

int cuStreamWaitEvent(cuda_stream stream, cuda_event event, unsigned flags) {
  int result = fake_capture_forbids("waits for an event");
  (void)flags;
  if (result == CUDA_OK) result = fake_enter_stream(stream);
  if (result == CUDA_OK) result = all.lost[event->device];
  if (result != CUDA_OK) return result;
  return fake_result_of(all.table->queue_wait(all.table->ctx, stream->queue,
                                              event->fence, &error),
                        stream->device);
}

int cuEventQuery(cuda_event event) {
  int32_t done = 0;
  int result = fake_capture_forbids("asks for an event");
  if (result == CUDA_OK) (void)enter(&result);
  if (result == CUDA_OK) result = all.lost[event->device];
  if (result != CUDA_OK) return result;
  result = fake_result_of(
      all.table->fence_query(all.table->ctx, event->fence, &done, &error),
      event->device);
  return result == CUDA_OK && !done ? CUDA_NOT_READY : result;
}

int cuEventSynchronize(cuda_event event) {
  int result = fake_capture_forbids("waits for an event");
  if (result == CUDA_OK) (void)enter(&result);
  if (result == CUDA_OK) result = all.lost[event->device];
  if (result != CUDA_OK) return result;
  return fake_result_of(
      all.table->fence_wait(all.table->ctx, event->fence, &error),
      event->device);
}

int cuStreamSynchronize(cuda_stream stream) {
  void *fence = NULL;
  int result = fake_capture_forbids("waits for a stream");
  if (result == CUDA_OK) result = fake_enter_stream(stream);
  if (result != CUDA_OK) return result;
  int32_t code =
      all.table->fence_open(all.table->ctx, stream->device, &fence, &error);
  pthread_mutex_lock(&by_itself);
  if (code == TN_OK)
    code =
        all.table->fence_record(all.table->ctx, fence, stream->queue, &error);
  pthread_mutex_unlock(&by_itself);
  if (code == TN_OK)
    code = all.table->fence_wait(all.table->ctx, fence, &error);
  all.table->fence_close(all.table->ctx, fence);
  return fake_result_of(code, stream->device);
}

/* -------------------------------------------------------------- the runtime */

/* As the driver has them, and as the runtime asks for them. */
int cuCtxGetCurrent(cuda_context *out) {
  *out = n_current ? current[n_current - 1] : NULL;
  return CUDA_OK;
}

int cuStreamGetCtx(cuda_stream stream, cuda_context *out) {
  *out = &all.contexts[stream->device];
  return CUDA_OK;
}

/* Functions as `dlsym` returns them. */
#define FOUND(name, function) \
  { name, (void *)(uintptr_t)(function) }

int cudaGetDriverEntryPointByVersion(const char *symbol, void **out,
                                     unsigned version, unsigned long long flags,
                                     int *found) {
  const struct {
    const char *name;
    void *function;
  } functions[] = {FOUND("cuCtxGetCurrent", cuCtxGetCurrent),
                   FOUND("cuStreamGetCtx", cuStreamGetCtx),
                   FOUND("cuCtxPushCurrent", cuCtxPushCurrent_v2),
                   FOUND("cuCtxPopCurrent", cuCtxPopCurrent_v2)};
  *out = NULL;
  for (size_t i = 0; i < sizeof functions / sizeof *functions; ++i)
    if (strcmp(functions[i].name, symbol) == 0) *out = functions[i].function;
  *found = *out == NULL;
  return version >= 12000 && flags == 0 ? CUDA_OK : INVALID_VALUE;
}

/* Few processors, so that threads take several pieces each. */
int cudaDeviceGetAttribute(int *value, int attribute, int device) {
  (void)attribute, (void)device;
  *value = 1;
  return CUDA_OK;
}

const char *cudaGetErrorString(int result) {
  const char *text = NULL;
  return cuGetErrorString(result, &text) == CUDA_OK ? text : "?";
}

const char *cudaGetErrorName(int result) {
  const char *text = NULL;
  return cuGetErrorName(result, &text) == CUDA_OK ? text : "?";
}
