/* SPDX-License-Identifier: Apache-2.0
 * fake.h: devices that are one thread. They compute late, in an order of their
 * own among queues, and notice what a real device would only sometimes suffer
 * from: who reads or writes memory without having waited for who wrote or read
 * it last, who frees memory that is still in use, and two threads on one queue.
 *
 *   fake *f = fake_create(&(fake_options){.seed = 7});
 *   tn__devices_add(devices, fake_table(f));
 *   ...
 *   tn__devices_destroy(devices);
 *   cr_assert_eq(fake_counts_get(f).violations, 0, "%s", fake_violation(f));
 *   fake_destroy(f);
 *
 * What alloc returns for TN_MEMORY_DEVICE is an address that the host cannot
 * touch: it faults. The device's thread finds the bytes with fake_reach.
 *
 * Order is judged when a command is enqueued, not when it happens to run, so a
 * missing fence is found every time: a command may follow what its own queue
 * did, what its queue was made to wait for, and what the host has seen done.
 * It is judged for every 64 bytes on their own, as pieces are shared out.
 */
#ifndef TENON_TESTS_FAKE_H_
#define TENON_TESTS_FAKE_H_

#include <stdbool.h>

#include "tenon/device.h"

typedef struct fake fake;

/* Zero means the default. */
typedef struct fake_options {
  int32_t type;        /* TN_DEVICE_EXT */
  const char *name;    /* "fake" */
  int32_t count;       /* devices: 1; -1: none */
  uint32_t latency_us; /* of each command: none */
  uint64_t bytes;      /* memory of each device: no limit */
  uint64_t seed;       /* of the order among queues: always the newest first */
  bool no_sums;        /* a table without `sum` */
  bool only_floats;    /* sums of nothing else */
  bool lazy;           /* commands are executed by who waits for them, or asks
                          whether they are: no thread is woken for each */
} fake_options;

typedef struct fake_counts {
  int64_t pieces; /* living, of any kind */
  int64_t queues; /* open */
  int64_t fences; /* open */
  int64_t allocs; /* calls that gave memory */
  int64_t refusals;
  int64_t copies; /* executed, as fills, launches and queue_waits */
  int64_t fills;
  int64_t launches;
  int64_t records; /* calls of fence_record that were made */
  int64_t queue_waits;
  int64_t host_waits; /* calls of fence_wait */
  int64_t violations;
} fake_counts;

fake *fake_create(const fake_options *options);
/* Everything was given back and closed. */
void fake_destroy(fake *f);
const tn_device *fake_table(fake *f);

fake_counts fake_counts_get(fake *f);
/* The first violation, "" if there was none. */
const char *fake_violation(const fake *f);

/* Between these nothing is executed. */
void fake_hold(fake *f);
void fake_go(fake *f);
/* The next thread that enqueues a command which is no fence and no wait stays
 * inside until fake_let_go, so that whoever enqueues on that queue meanwhile is
 * noticed for certain; fake_seize_await returns when it is there. */
void fake_seize(fake *f);
void fake_seize_await(fake *f);
void fake_let_go(fake *f);
/* The next command that begins to execute fails, as the hardware would: every
 * fence of its queue from there on reports `text`. */
void fake_break(fake *f, const char *text);
/* The same of the n-th command from now on (1: the next). */
void fake_break_at(fake *f, int64_t n, const char *text);
/* The n-th call from now on that may fail (1: the next) returns TN_DEVICE. */
void fake_refuse(fake *f, int64_t n);

/* Work for a queue, as a kernel launches it. */
typedef struct fake_work {
  void (*run)(fake *f, const void *arg); /* on the device's thread */
  const void *arg;
  size_t arg_bytes;         /* copied, at most 512 */
  size_t bytes;             /* of what each address leads to; 0: the whole
                               piece that it lies in */
  const void *const *reads; /* addresses inside of pieces */
  size_t n_reads;
  const void *const *writes;
  size_t n_writes;
  const size_t *read_bytes; /* of each, in the place of `bytes`; or NULL */
  const size_t *write_bytes;
} fake_work;

/* `stream` as tn_run.stream. */
int32_t fake_launch(void *stream, const fake_work *work);
/* Where the bytes of a piece are; on the device's thread. */
void *fake_reach(fake *f, const void *address);
/* The device whose memory this is; -1: none's. */
int32_t fake_owner(fake *f, const void *address);
/* Counts as a violation: for those who play with more rules than these. */
void fake_violate(fake *f, const char *what);

#endif /* TENON_TESTS_FAKE_H_ */
