/* SPDX-License-Identifier: Apache-2.0
 * kernels.c: kernels that a compiler of the host has compiled, on the fake's
 * thread: block after block, thread after thread, in an order that the seed
 * turns round. Threads that meet at a barrier are coroutines; the first one of
 * a block is always one, and shows whether the others have to be. Coroutines
 * begin by ucontext and change by longjmp, which asks the system for nothing;
 * under sanitizers, which follow one of the two only, by ucontext.
 */
#include "kernels.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "fake_cuda.h"

enum { THREADS = 256, STACK = 1 << 16, MOST_USES = 12 };

/* As in include/cuda_runtime.h. */
typedef struct use {
  const void *address;
  size_t bytes;
  int writes;
} use;

typedef struct work {
  struct work *next;
  void (*run)(const struct work *work);
  unsigned blocks;
  unsigned n_uses;
  use uses[MOST_USES];
} work;

struct fake_indices {
  unsigned grid;
  unsigned block;
  unsigned block_at;
  unsigned thread_at;
};

struct fake_indices fake_cuda_at;
int fake_cuda_launch(cuda_stream stream, work *w);
void *fake_cuda_reach(const void *address);
void fake_cuda_barrier(void);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static work *waiting; /* launches that have not run */
static uint64_t turned;

/* ------------------------------------------------------------------- threads
 */

#if defined(TN_SANITIZED)
enum { JUMPS = 0 };
#else
enum { JUMPS = 1 };
#endif

/* Used only by the thread that executes commands, one at a time. */
static struct {
  ucontext_t home;
  ucontext_t threads[THREADS];
  jmp_buf home_at;
  jmp_buf thread_at[THREADS];
  char begun[THREADS];
  char *stacks;
  char over[THREADS];
  const work *running;
  int is_fiber;
} block;

/* Requests of the running kernel. */
static struct {
  unsigned n;
  const void *address[MOST_USES];
  void *bytes[MOST_USES];
} reached;

static void run_fiber(void) {
  block.running->run(block.running);
  block.over[fake_cuda_at.thread_at] = 1;
  if (JUMPS) _longjmp(block.home_at, 1);
}

static void start_fiber(unsigned thread) {
  ucontext_t *context = &block.threads[thread];
  if (!block.stacks && !(block.stacks = malloc((size_t)THREADS * STACK)))
    abort();
  block.over[thread] = block.begun[thread] = 0;
  if (getcontext(context)) abort();
  context->uc_stack.ss_sp = block.stacks + (size_t)thread * STACK;
  context->uc_stack.ss_size = STACK;
  context->uc_link = &block.home;
  makecontext(context, run_fiber, 0);
}

/* From `from` to where the other side is. */
static void change(ucontext_t *from, ucontext_t *to) {
  if (swapcontext(from, to)) abort();
}

/* Until its next barrier, or its end. */
static void enter_fiber(unsigned thread) {
  fake_cuda_at.thread_at = thread;
  block.is_fiber = 1;
  if (!JUMPS) {
    change(&block.home, &block.threads[thread]);
  } else if (!_setjmp(block.home_at)) {
    if (block.begun[thread]) _longjmp(block.thread_at[thread], 1);
    block.begun[thread] = 1;
    change(&block.home, &block.threads[thread]);
  }
  block.is_fiber = 0;
}

void fake_cuda_barrier(void) {
  const unsigned thread = fake_cuda_at.thread_at;
  if (!block.is_fiber) abort(); /* thread 0 met none, and this one does */
  if (!JUMPS)
    change(&block.threads[thread], &block.home);
  else if (!_setjmp(block.thread_at[thread]))
    _longjmp(block.home_at, 1);
}

/* Which comes as the i-th of n. */
static unsigned turn(unsigned i, unsigned n) {
  return turned % 2 ? n - 1 - i : i;
}

static void run_alone(const work *w) {
  for (unsigned i = 1; i < THREADS; ++i) {
    fake_cuda_at.thread_at = 1 + turn(i - 1, THREADS - 1);
    w->run(w);
  }
}

/* All threads to the same barrier, again and again. */
static void run_together(void) {
  for (unsigned i = 1; i < THREADS; ++i) start_fiber(i);
  for (unsigned i = 1; i < THREADS; ++i)
    enter_fiber(1 + turn(i - 1, THREADS - 1));
  while (!block.over[0])
    for (unsigned i = 0; i < THREADS; ++i) enter_fiber(turn(i, THREADS));
}

static void run_work(fake *f, const void *arg) {
  work *w;
  (void)f;
  memcpy(&w, arg, sizeof w);
  block.running = w;
  reached.n = 0;
  fake_cuda_at.grid = w->blocks;
  fake_cuda_at.block = THREADS;
  for (unsigned i = 0; i < w->blocks; ++i) {
    fake_cuda_at.block_at = turn(i, w->blocks);
    start_fiber(0);
    enter_fiber(0);
    if (block.over[0])
      run_alone(w);
    else
      run_together();
  }
}

/* ------------------------------------------------------------------ launches
 */

int fake_cuda_launch(cuda_stream stream, work *w) {
  const void *reads[MOST_USES], *writes[MOST_USES];
  size_t read_bytes[MOST_USES], write_bytes[MOST_USES];
  fake_work launch = {.run = run_work,
                      .arg = &w,
                      .arg_bytes = sizeof w,
                      .reads = reads,
                      .writes = writes,
                      .read_bytes = read_bytes,
                      .write_bytes = write_bytes};
  for (unsigned i = 0; i < w->n_uses; ++i)
    if (w->uses[i].writes) {
      writes[launch.n_writes] = w->uses[i].address;
      write_bytes[launch.n_writes++] = w->uses[i].bytes;
    } else {
      reads[launch.n_reads] = w->uses[i].address;
      read_bytes[launch.n_reads++] = w->uses[i].bytes;
    }
  pthread_mutex_lock(&lock);
  w->next = waiting;
  waiting = w;
  pthread_mutex_unlock(&lock);
  return fake_cuda_submit(stream, &launch);
}

/* Each thread of a kernel asks for the same few. */
void *fake_cuda_reach(const void *address) {
  for (unsigned i = 0; i < reached.n; ++i)
    if (reached.address[i] == address) return reached.bytes[i];
  void *bytes = fake_reach(fake_cuda(), address);
  if (reached.n == MOST_USES) return bytes;
  reached.address[reached.n] = address;
  reached.bytes[reached.n++] = bytes;
  return bytes;
}

void fake_kernels_begin(uint64_t seed) {
  turned = seed;
}

void fake_kernels_end(void) {
  while (waiting) {
    work *next = waiting->next;
    free(waiting);
    waiting = next;
  }
  free(block.stacks);
  block.stacks = NULL;
}
