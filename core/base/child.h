/* SPDX-License-Identifier: Apache-2.0
 * child.h: runs foreign code in a process of its own and reads the verdict
 * that this process reports. Two programs use it: libtenon for tenon-probe, and
 * opgen for the plugins that it checks.
 *
 * files: child.c    the parent: starts the process, reads, ends it
 *        contain.c  the child: splits into a guard and a worker, sets limits
 *        record.c   the records that a worker writes
 *
 * Three processes take part. The parent never runs foreign code. It starts the
 * guard, which never runs foreign code either. The guard starts the worker,
 * which runs it. When the worker has ended, the guard ends every process that
 * the worker has left, also one that has a session of its own.
 *
 * The verdict is a list of records over a socket. A record has a length, a kind
 * and a hash, and the last one is the END record. The hash is keyed: the parent
 * draws the key, and no record contains it. The worker moves its end of the
 * socket to a random descriptor. Bytes without a valid hash are no record, and
 * a verdict without END is no success, with any exit status.
 *
 * This cannot stop a plugin that attacks on purpose. Its code shares a process
 * with the worker: it can search memory for the key and write valid records, or
 * change the code of the worker. It can also kill the guard, and a process that
 * it has moved to another session then outlives it. It stops every
 * plugin that exits, crashes, hangs, floods or guesses.
 */
#ifndef TENON_BASE_CHILD_H_
#define TENON_BASE_CHILD_H_

#include "base.h"

/* ----------------------------------------------------------------- records */

/* The worker's end: where records go. */
typedef struct tn__answer {
  int fd;
  uint64_t key[2];
  uint64_t n_records; /* written so far; part of the hash */
} tn__answer;

/* One record, as the parent reads it. */
typedef struct tn__child_record {
  uint32_t kind;    /* a number that the two sides agree on, above 0 */
  const char *text; /* a NUL follows its n bytes */
  size_t n;
} tn__child_record;

/* Writes a record; false if the parent cannot get it. Async-signal-safe. */
bool tn__answer_add(tn__answer *answer, uint32_t kind, const void *bytes,
                    size_t n);
/* Writes the END record: the verdict is complete. */
bool tn__answer_end(tn__answer *answer);

/* Reads the records in the bytes that a worker has written. */
typedef struct tn__records {
  char *bytes; /* borrowed */
  size_t n;
  size_t at;
  uint64_t key[2];
  uint64_t n_records;
  bool complete; /* END was read, and nothing follows it */
  bool foreign;  /* the next bytes are no record of the worker */
} tn__records;

/* Reads the next record; false at the end, which `complete` and `foreign` then
 * describe. */
bool tn__records_next(tn__records *records, tn__child_record *out);

/* -------------------------------------------------------------- the worker */

/* The terms of a run: the guard and the worker get them. */
typedef struct tn__terms {
  uint64_t key[2];
  int64_t milliseconds;
} tn__terms;

enum {
  TN__CHILD_FD = 3,    /* the socket of a program when it begins */
  TN__CHILD_LEFT = 121 /* status of a guard: the worker left processes */
};

/* Splits the calling process, which has one thread, into a guard and a worker,
 * and returns in the worker, with limits on its memory, files and processor
 * time. `fd` is the socket; it is moved. The guard never returns: it waits for
 * the worker, or for the parent to close its end, ends all that is left,
 * and then ends as the worker did. False if there is no second process. */
bool tn__contain_process(int fd, const tn__terms *terms, tn__answer *out);

/* The same for a program that tn__child_run has started: reads the terms from
 * TN__CHILD_FD. */
bool tn__contain_program(tn__answer *out);

/* -------------------------------------------------------------- the parent */

/* A program to run, or a function to call in a copy of this process. */
typedef struct tn__child {
  const tn__env *env;
  const char *program; /* absolute path, or NULL */
  char *const *argv;   /* ended by NULL */
  int input;           /* a program reads this file, if 10 or above */
  void (*body)(void *ctx, tn__answer *answer); /* where there is no program */
  void (*take)(void *ctx, const tn__child_record *record); /* in the parent */
  void *ctx;
  int64_t milliseconds;
  size_t most_bytes; /* that are read; 0: 64 KiB */
} tn__child;

/* How it ended. */
typedef struct tn__child_end {
  bool complete; /* the END record came, and nothing after it */
  bool late;     /* its time was up, and it was ended */
  bool flooded;  /* it wrote more than most_bytes, and was ended */
  bool foreign;  /* something else than the worker wrote on its socket */
  int signal;    /* that it died of, or 0 */
  int status;    /* of its exit; -1 if there was none, or it is unknown */
} tn__child_end;

/* Runs the child in a process group of its own, with the environment of the
 * caller and without its files, and calls `take` for every record in turn.
 * Returns when the child and all that it started are gone. A `body` runs in a
 * forked copy of the caller, which must have no other threads; a program is
 * spawned, because a host may have some. TN_IO if it cannot be started. */
tn_code tn__child_run(const tn__child *child, tn__child_end *end);

#endif /* TENON_BASE_CHILD_H_ */
