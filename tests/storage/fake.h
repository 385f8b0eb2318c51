/* SPDX-License-Identifier: Apache-2.0
 * fake.h: devices that a thread simulates. They compute late, in their own
 * order among queues. They notice mistakes that a real device would only
 * sometimes suffer from: use of memory without waiting for its last writer or
 * readers, freeing memory that is still in use, and two threads on one queue.
 *
 *   fake *f = fake_create(&(fake_options){.seed = 7});
 *   tn__devices_add(devices, fake_table(f));
 *   ...
 *   tn__devices_destroy(devices);
 *   cr_assert_eq(fake_counts_get(f).violations, 0, "%s", fake_violation(f));
 *   fake_destroy(f);
 *
 * Memory of kind TN_MEMORY_DEVICE has an address that faults on the host. The
 * thread of the device finds the bytes with fake_reach.
 *
 * The order is checked when a command is enqueued, not when it happens to run,
 * so a missing fence is found every time. A command may follow earlier commands
 * of its queue, commands that its queue waits for, and commands that the host
 * has seen done. The check is per 64 bytes, because pieces are shared out.
 */
#ifndef TENON_TESTS_FAKE_H_
#define TENON_TESTS_FAKE_H_

#include <stdbool.h>

#include "tenon/plugin/device.h"

typedef struct fake fake;

/* Zero means the default. */
typedef struct fake_options {
  int32_t type;        /* TN_DEVICE_EXT */
  const char *name;    /* "fake" */
  int32_t count;       /* number of devices: 1; -1: none */
  uint32_t latency_us; /* of each command: none */
  uint64_t bytes;      /* memory of each device: no limit */
  uint64_t seed;       /* of the order among queues: always the newest first */
  bool no_sums;        /* a table without `sum` */
  bool only_floats;    /* only sums of floats */
  bool no_wide_sums;   /* no TN_SUM_WIDE */
  bool lazy;           /* the thread that waits or queries executes commands: no
                        * thread is woken for each */
} fake_options;

typedef struct fake_counts {
  int64_t pieces; /* alive, of any kind */
  int64_t queues; /* open */
  int64_t fences; /* open */
  int64_t allocs; /* calls that returned memory */
  int64_t refusals;
  int64_t copies; /* executed, like fills, launches and queue_waits */
  int64_t fills;
  int64_t launches;
  int64_t records; /* successful calls of fence_record */
  int64_t queue_waits;
  int64_t host_waits; /* calls of fence_wait */
  int64_t violations;
} fake_counts;

/* Calls of fence_wait by the calling thread, on all fakes. */
int64_t fake_own_waits(void);

fake *fake_create(const fake_options *options);
/* All pieces must be freed, and all queues and fences closed. */
void fake_destroy(fake *f);
const tn_device *fake_table(fake *f);

fake_counts fake_counts_get(fake *f);
/* Returns the first violation, "" if there was none. */
const char *fake_violation(const fake *f);

/* Nothing is executed between these two calls. */
void fake_hold(fake *f);
void fake_go(fake *f);
/* The next thread that enqueues a command (no fence, no wait) stays inside
 * until fake_let_go. So another thread that enqueues on that queue is noticed
 * for certain. fake_seize_await returns when the thread is inside. */
void fake_seize(fake *f);
void fake_seize_await(fake *f);
void fake_let_go(fake *f);
/* The next command that begins to execute fails like hardware: every later
 * fence of its queue reports `text`. */
void fake_break(fake *f, const char *text);
/* The same for the n-th command from now on (1: the next). */
void fake_break_at(fake *f, int64_t n, const char *text);
/* The n-th call from now on that may fail (1: the next) returns TN_DEVICE. */
void fake_refuse(fake *f, int64_t n);

/* Work for a queue, launched like a kernel. */
typedef struct fake_work {
  void (*run)(fake *f, const void *arg); /* on the device's thread */
  /* The work, and all after it on its queue, waits until this is true. NULL:
   * it does not wait. It is asked often, with the fake's lock held; fake_nudge
   * tells the fake that the answer may have changed. */
  bool (*is_ready)(const void *arg);
  const void *arg;
  size_t arg_bytes;         /* copied, at most 512 */
  size_t bytes;             /* used at each address; 0: the whole piece */
  const void *const *reads; /* addresses inside of pieces */
  size_t n_reads;
  const void *const *writes;
  size_t n_writes;
  const size_t *read_bytes; /* of each address, instead of `bytes`; or NULL */
  const size_t *write_bytes;
} fake_work;

/* `stream` as tn_run.stream. */
int32_t fake_launch(void *stream, const fake_work *work);
/* Returns the bytes of a piece; on the thread of the device. */
void *fake_reach(fake *f, const void *address);
/* Returns the device that owns this memory; -1: none. */
int32_t fake_owner(fake *f, const void *address);
/* Asks again for the work that is not ready. */
void fake_nudge(fake *f);
/* Counts a violation: for tests with additional rules. */
void fake_violate(fake *f, const char *text);

#endif /* TENON_TESTS_FAKE_H_ */
