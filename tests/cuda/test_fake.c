/* SPDX-License-Identifier: Apache-2.0
 * The simulated driver itself: it notices mistakes that a real one would only
 * sometimes suffer from. Each test breaks one rule.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>

#include "driver.h"
#include "fake_cuda.h"

#define DECLARE(field, symbol, arguments) int symbol arguments;
CUDA_DRIVER_FUNCTIONS(DECLARE)
CUDA_GRAPH_FUNCTIONS(DECLARE)
#undef DECLARE

enum { BYTES = 4096 };

static cuda_context contexts[2];
static cuda_pool pools[2];
static cuda_stream one, two; /* of device 0 */
static cuda_address memory;  /* of device 0 */
static char host[BYTES];

#define DOES(call) cr_assert_eq((call), CUDA_OK, "%s", #call)

static void use(int device) {
  cuda_context before;
  (void)cuCtxPopCurrent_v2(&before);
  DOES(cuCtxPushCurrent_v2(contexts[device]));
}

static void open_device(int device) {
  const cuda_pool_props props = {.alloc_type = CUDA_PINNED,
                                 .location = {CUDA_LOCATION_DEVICE, device}};
  DOES(cuDevicePrimaryCtxRetain(&contexts[device], device));
  use(device);
  DOES(cuMemPoolCreate(&pools[device], &props));
}

static void setup(void) {
  fake_cuda_begin(&(fake_cuda_options){.devices = 2});
  open_device(1);
  open_device(0);
  DOES(cuStreamCreateWithPriority(&one, CUDA_STREAM_NON_BLOCKING, 0));
  DOES(cuStreamCreateWithPriority(&two, CUDA_STREAM_NON_BLOCKING, 0));
  DOES(cuMemAllocFromPoolAsync(&memory, BYTES, pools[0], one));
  DOES(cuStreamSynchronize(one));
}

/* Frees all that setup allocated; returns the report of the driver. */
static const char *end(void) {
  use(0);
  if (memory) DOES(cuMemFreeAsync(memory, one));
  DOES(cuStreamDestroy_v2(one));
  DOES(cuStreamDestroy_v2(two));
  DOES(cuMemPoolDestroy(pools[0]));
  DOES(cuMemPoolDestroy(pools[1]));
  DOES(cuDevicePrimaryCtxRelease_v2(0));
  DOES(cuDevicePrimaryCtxRelease_v2(1));
  return fake_cuda_end();
}

static void tells(const char *text) {
  const char *told = end();
  cr_assert_not_null(told, "nothing was noticed");
  cr_assert_not_null(strstr(told, text), "%s lacks `%s`", told, text);
}

TestSuite(fake, .init = setup);

Test(fake, accepts_proper_waits) {
  cuda_event event;
  DOES(cuEventCreate(&event, CUDA_EVENT_NO_TIMING));
  DOES(cuMemsetD8Async(memory, 7, BYTES, one));
  DOES(cuEventRecord(event, one));
  DOES(cuStreamWaitEvent(two, event, 0));
  DOES(cuMemcpyDtoHAsync_v2(host, memory, BYTES, two));
  DOES(cuStreamSynchronize(two));
  cr_assert_eq(host[BYTES - 1], 7);
  DOES(cuEventDestroy_v2(event));
  const char *told = end();
  cr_assert_null(told, "%s", told);
}

/* The context is a thread's own, and current in no other thread. */
static void *take_and_give(void *arg) {
  (void)arg;
  DOES(cuCtxPushCurrent_v2(contexts[0]));
  for (int i = 0; i < 500; ++i) {
    cuda_address mine = 0;
    DOES(cuMemAllocFromPoolAsync(&mine, BYTES, pools[0], one));
    DOES(cuStreamSynchronize(one));
    DOES(cuMemFreeAsync(mine, one));
  }
  return NULL;
}

Test(fake, is_content_with_threads_that_take_memory_at_the_same_time) {
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i)
    cr_assert_eq(pthread_create(&threads[i], NULL, take_and_give, NULL), 0);
  for (int i = 0; i < 4; ++i) (void)pthread_join(threads[i], NULL);
  cr_assert_null(end());
}

Test(fake, misses_an_event_between_streams) {
  DOES(cuMemsetD8Async(memory, 7, BYTES, one));
  DOES(cuMemcpyDtoHAsync_v2(host, memory, BYTES, two));
  DOES(cuStreamSynchronize(two));
  DOES(cuStreamSynchronize(one));
  tells("reads memory that another queue writes, without a fence");
}

Test(fake, misses_the_end_of_an_allocation) {
  cuda_address more;
  DOES(cuMemAllocFromPoolAsync(&more, BYTES, pools[0], one));
  DOES(cuMemsetD8Async(more, 7, BYTES, two));
  DOES(cuStreamSynchronize(one));
  DOES(cuStreamSynchronize(two));
  DOES(cuMemFreeAsync(more, one));
  tells("writes memory that another queue writes, without a fence");
}

Test(fake, misses_a_wait_before_memory_is_freed) {
  fake_hold(fake_cuda());
  DOES(cuMemsetD8Async(memory, 7, BYTES, two));
  DOES(cuMemFreeAsync(memory, one));
  fake_go(fake_cuda());
  memory = 0;
  tells("frees memory that the device may still use");
}

Test(fake, notices_use_after_free) {
  const cuda_address gone = memory;
  DOES(cuMemFreeAsync(memory, one));
  memory = 0;
  DOES(cuMemsetD8Async(gone, 7, BYTES, one));
  tells("copies what is not memory of that device");
}

Test(fake, notices_a_double_free) {
  DOES(cuMemFreeAsync(memory, one));
  DOES(cuMemFreeAsync(memory, one));
  memory = 0;
  tells("frees memory that is not allocated");
}

Test(fake, notices_memory_of_another_device) {
  cuda_address there;
  cuda_stream stream;
  use(1);
  DOES(cuStreamCreateWithPriority(&stream, CUDA_STREAM_NON_BLOCKING, 0));
  DOES(cuMemAllocFromPoolAsync(&there, BYTES, pools[1], stream));
  DOES(cuStreamSynchronize(stream));
  use(0);
  DOES(cuMemsetD8Async(there, 7, BYTES, one));
  DOES(cuStreamSynchronize(one));
  use(1);
  DOES(cuMemFreeAsync(there, stream));
  DOES(cuStreamDestroy_v2(stream));
  tells("copies what is not memory of that device");
}

Test(fake, notices_a_stream_of_another_device) {
  use(1);
  DOES(cuStreamSynchronize(one));
  tells("uses a stream of another device");
}

Test(fake, notices_leaks) {
  cuda_event event;
  DOES(cuEventCreate(&event, CUDA_EVENT_NO_TIMING));
  memory = 0;
  tells("1 pieces of memory left; 1 events left");
}

/* ------------------------------------------------------------------- graphs */

/* Fills the memory with 7 when it is launched. */
static cuda_executable filling(void) {
  cuda_graph graph = NULL;
  cuda_executable out = NULL;
  DOES(cuStreamBeginCapture_v2(one, CUDA_CAPTURE_THREAD_LOCAL));
  DOES(cuMemsetD8Async(memory, 7, BYTES, one));
  DOES(cuStreamEndCapture(one, &graph));
  DOES(cuGraphInstantiateWithFlags(&out, graph, 0));
  DOES(cuGraphDestroy(graph));
  return out;
}

static int first_byte(void) {
  DOES(cuMemcpyDtoHAsync_v2(host, memory, BYTES, one));
  DOES(cuStreamSynchronize(one));
  return host[0];
}

Test(fake, executes_the_recording_with_each_launch) {
  DOES(cuMemsetD8Async(memory, 1, BYTES, one));
  cuda_executable graph = filling();
  cr_expect_eq(first_byte(), 1);
  for (int i = 0; i < 2; ++i) {
    DOES(cuGraphLaunch(graph, one));
    cr_expect_eq(first_byte(), 7);
    DOES(cuMemsetD8Async(memory, 1, BYTES, one));
  }
  DOES(cuStreamSynchronize(one));
  DOES(cuGraphExecDestroy(graph));
  const char *told = end();
  cr_assert_null(told, "%s", told);
}

Test(fake, misses_a_wait_before_a_launch) {
  cuda_executable graph = filling();
  fake_hold(fake_cuda());
  DOES(cuMemsetD8Async(memory, 1, BYTES, two));
  DOES(cuGraphLaunch(graph, one));
  fake_go(fake_cuda());
  DOES(cuStreamSynchronize(one));
  DOES(cuStreamSynchronize(two));
  DOES(cuGraphExecDestroy(graph));
  tells("writes memory that another queue writes, without a fence");
}

Test(fake, notices_a_launch_that_uses_freed_memory) {
  cuda_executable graph = filling();
  DOES(cuMemFreeAsync(memory, one));
  memory = 0;
  DOES(cuGraphLaunch(graph, one));
  DOES(cuStreamSynchronize(one));
  DOES(cuGraphExecDestroy(graph));
  tells("uses memory that is not allocated");
}

Test(fake, notices_a_launch_of_a_destroyed_graph) {
  cuda_executable graph = filling();
  DOES(cuGraphExecDestroy(graph));
  cr_expect_neq(cuGraphLaunch(graph, one), CUDA_OK);
  tells("launches a graph that was destroyed");
}

Test(fake, notices_a_graph_that_is_left) {
  (void)filling();
  tells("1 graphs left");
}

/* Begins to record, makes a forbidden call, and ends. */
#define WHILE_IT_RECORDS(call)                                     \
  do {                                                             \
    cuda_graph graph = NULL;                                       \
    DOES(cuStreamBeginCapture_v2(one, CUDA_CAPTURE_THREAD_LOCAL)); \
    cr_expect_eq((call), 900, "%s", #call);                        \
    cr_expect_eq(cuStreamEndCapture(one, &graph), 901);            \
    cr_expect_null(graph);                                         \
  } while (0)

Test(fake, notices_waits_while_it_records) {
  WHILE_IT_RECORDS(cuStreamSynchronize(two));
  tells("waits for a stream while it records");
}

Test(fake, notices_allocations_while_it_records) {
  cuda_address more = 0;
  WHILE_IT_RECORDS(cuMemAllocFromPoolAsync(&more, BYTES, pools[0], two));
  tells("takes memory while it records");
}

Test(fake, notices_queries_while_it_records) {
  cuda_event event;
  DOES(cuEventCreate(&event, CUDA_EVENT_NO_TIMING));
  WHILE_IT_RECORDS(cuEventQuery(event));
  DOES(cuEventDestroy_v2(event));
  tells("asks for an event while it records");
}

Test(fake, notices_two_recordings_of_one_thread) {
  cuda_graph graph = NULL;
  DOES(cuStreamBeginCapture_v2(one, CUDA_CAPTURE_THREAD_LOCAL));
  cr_expect_neq(cuStreamBeginCapture_v2(two, CUDA_CAPTURE_THREAD_LOCAL),
                CUDA_OK);
  DOES(cuStreamEndCapture(one, &graph));
  DOES(cuGraphDestroy(graph));
  tells("records twice at the same time");
}
