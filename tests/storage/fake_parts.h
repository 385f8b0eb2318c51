/* SPDX-License-Identifier: Apache-2.0
 * fake_parts.h: the types and functions that the files of the fake device
 * share. All data of a fake device is under one lock; commands run outside of
 * it.
 *
 *   fake.c        the thread that executes commands, and the device table
 *   fake_rules.c  checks the order of reads and writes
 *   fake_sum.c    sums
 */
#ifndef TENON_TESTS_FAKE_PARTS_H_
#define TENON_TESTS_FAKE_PARTS_H_

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "fake.h"

enum { MAX_QUEUES = 32, MAX_ARG = 2048, PAGE = 4096, LINE = 64 };

/* For each queue, the number of its commands that are known to be complete. */
typedef struct clock_set {
  uint64_t over[MAX_QUEUES];
} clock_set;

/* The last users of LINE bytes. */
typedef struct line {
  uint32_t writer;  /* queue */
  uint64_t written; /* its command, counted from 1; 0: never */
  clock_set read;   /* the last command of each queue that reads it */
} line;

typedef struct piece {
  struct piece *next;
  char *address; /* the address for the host */
  char *bytes;   /* the actual memory */
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
  bool (*is_ready)(const void *arg);
  _Alignas(16) char arg[MAX_ARG];
  uint32_t queue; /* for WAIT: waits until this queue */
  uint64_t until; /* has executed this many commands */
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
  _Atomic int inside;          /* number of threads that are enqueuing */
  _Atomic(const char *) doing; /* the action of the last of them */
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
  uint32_t n_queues; /* numbers used so far, also of closed queues */
  piece *pieces;
  clock_set host; /* commands that the host has seen complete */
  uint64_t random;
  int64_t refuse_in;
  uint32_t held;
  int seizing;    /* WANTED or SEIZED; 0: none */
  bool executing; /* lazy: a waiting thread executes a command */
  bool stop;
  char broken[128];
  int64_t broken_in; /* number of commands until the failure */
  char violation[256];
  fake_counts counts;
};

/* Memory that a command uses; bytes 0: the whole piece. */
typedef struct range {
  const void *address;
  uint64_t bytes;
} range;

/* -------------------------------------------------------------------- rules */

/* The caller holds the lock. */
void fake_report(fake *f, const char *text, const queue *q);
piece *fake_find_piece(const fake *f, const void *address);
char *fake_use_memory(fake *f, queue *q, range memory, bool writes);
void fake_merge_clocks(clock_set *to, const clock_set *from);
bool fake_is_idle(const fake *f, const piece *p);

/* ---------------------------------------------------------------- enqueuing */

/* Locks, and returns a failure if the test refuses this call. */
int32_t fake_enter(fake *f, tn_device_error *error);
int32_t fake_leave(fake *f);
int32_t fake_enter_queue(queue *q, const char *action, tn_device_error *error);
int32_t fake_leave_queue(queue *q);
command *fake_create_command(int kind);
void fake_enqueue(fake *f, queue *q, command *c);

/* The functions of the table in other files. */
int32_t fake_sum(void *ctx, void *handle, const tn_device_sum *sum,
                 tn_device_error *error);

#endif /* TENON_TESTS_FAKE_PARTS_H_ */
