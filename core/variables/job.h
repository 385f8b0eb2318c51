/* SPDX-License-Identifier: Apache-2.0
 * job.h: jobs, and the variables that they use. Part of the contract of
 * engine.h, which explains both.
 */
#ifndef TENON_VARIABLES_JOB_H_
#define TENON_VARIABLES_JOB_H_

#include <stdatomic.h>

#include "base.h"

typedef struct tn__engine tn__engine;
typedef struct tn__operation tn__operation; /* prepared job */
typedef struct tn__queue tn__queue;         /* device queue */
typedef struct tn__token tn__token;         /* one execution of a job */

/* --------------------------------------------------------------- variables */

/* Orders the functions that use one piece of data, and is stored inside of it.
 * All zero is a new variable. variable.h explains `word`; 0 means that no
 * function uses the variable and that it carries no error and no fence. */
typedef struct tn__var {
  _Atomic uint64_t word;
  struct tn__claim *tail;       /* circular queue of waiting claims */
  struct tn__error *error;      /* from the last writer, or NULL */
  struct tn__fence_mark *fence; /* of devices that use it, or NULL */
} tn__var;

#define TN__VAR_READERS 0xffffffff00000000ull /* their number in word */

/* True if a function that reads the variable could run at once, and the
 * variable carries no error and no fence. Useful while no other thread can push
 * (tn__gate_enter). */
static inline bool tn__var_is_readable(const tn__var *var) {
  return (atomic_load_explicit(&var->word, memory_order_acquire) &
          ~TN__VAR_READERS) == 0;
}
static inline bool tn__var_is_writable(const tn__var *var) {
  return atomic_load_explicit(&var->word, memory_order_acquire) == 0;
}

enum {                       /* when a wait for a variable ends */
       TN__WAIT_WRITERS = 0, /* the variable can be read */
       TN__WAIT_ALL = 1      /* readers too: it can be overwritten */
};

/* Returns TN_OK, or the code of the error that the variable carries after
 * tn__fail with its text. The caller has waited. */
tn_code tn__var_check(const tn__var *var);

/* Puts the thread's error text and `code` on a variable that the caller uses
 * alone: inside a function that writes it, or after tn__gate_enter. */
void tn__var_fail(tn__engine *engine, tn__var *var, tn_code code);

/* -------------------------------------------------------------------- jobs */

enum { /* tn__access.mode */
       TN__READ = 0,
       TN__UPDATE = 1,   /* reads and writes, or writes only a part */
       TN__OVERWRITE = 2 /* writes the whole variable and clears its error */
};

typedef struct tn__access {
  tn__var *var;
  uint32_t mode;
  uint32_t reserved;
} tn__access;

enum { /* tn__job.flags */
       /* Short, never waits, and uses no other engine. If it can run at once it
        * may run inside of push, on the pushing thread. In a schedule it may
        * run directly after its small neighbours. */
       TN__JOB_SMALL = 1u << 0,
       /* `run` only begins the work; tn__token_done completes it. */
       TN__JOB_ASYNC = 1u << 1,
       /* Runs although one of its variables carries an error. */
       TN__JOB_ALWAYS = 1u << 2,
       /* A host job that begins when the jobs before it are issued, and that
        * touches no data that devices still use. */
       TN__JOB_ISSUED = 1u << 3,
       /* If one of its variables carries an error, `run` is called all the
        * same, with tn__is_told true. It must not use the data, and its result
        * is ignored. */
       TN__JOB_TOLD = 1u << 4
};

/* A function to push. A variable may be listed more than once: the strongest
 * mode counts, and READ with OVERWRITE make an UPDATE. */
typedef struct tn__job {
  const char *name; /* for spans and messages; borrowed until the job is over */
  /* Returns TN_OK, or a code after tn__fail. Runs on any thread: a worker, or
   * inside of push or a wait. With TN__JOB_ASYNC tn__token_done must be called
   * once, by any thread, unless `run` itself fails. */
  tn_code (*run)(void *arg, tn__token *token);
  void *arg;
  /* The engine calls it exactly once: when the job is over, even if it did not
   * run or the push failed. The job's grants are released by then. tn__wait_all
   * waits for drops as well. NULL is allowed. */
  void (*drop)(void *arg);
  const tn__access *access; /* copied */
  uint32_t n_access;
  uint32_t flags;   /* TN__JOB_* */
  int32_t priority; /* among ready jobs, higher first; a hint */
  uint32_t reserved;
  tn__queue *queue; /* device queue, or NULL: runs on the host's workers */
} tn__job;

/* True inside of a job with TN__JOB_TOLD that cannot run. */
bool tn__is_told(void);

/* Ends an asynchronous job: TN_OK, or a code with the thread's error text. The
 * token is invalid afterwards. */
void tn__token_done(tn__token *token, tn_code code);

/* Deletes a prepared operation (engine.h). Pending pushes still run; the
 * operation is freed after the last one. */
void tn__operation_delete(tn__operation *operation);

#endif /* TENON_VARIABLES_JOB_H_ */
