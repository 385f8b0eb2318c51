/* SPDX-License-Identifier: Apache-2.0
 * runtime.h: the runtime, which owns everything, and shared checks of the
 * public functions. Each public function checks its arguments and makes one
 * call into the folder that does the work. This folder uses all others; only
 * core/batches uses it.
 *
 * files: runtime.c       create, release
 *        runtime_json.c  the state of a runtime as JSON
 *        options.c       reads and checks tn_options
 *        fork.c          detects that the process is a forked child
 *        cpu.c           features of this machine; parallel_for
 *        api.c           tenon.h: runtimes, random streams, traces
 *        api_plugin.c    tenon.h: plugins and inspections
 *        api_operator.c  tenon.h: operators and parameters
 *        api_array.c     tenon.h: arrays and their views
 *        api_call.c      tenon.h: calls
 *        api_device.c    tenon.h: devices and their memory
 *        api_tape.c      tenon.h: tapes
 *        api_exchange.c  exchange.h: files and DLPack
 *        api_graph.c     graph.h: graphs and programs
 *        api_records.c   data.h: files of records
 *        api_engine.c    engine.h: jobs of the host (host_job.h)
 */
#ifndef TENON_RUNTIME_H_
#define TENON_RUNTIME_H_

#include <pthread.h>

#include "calls.h"

/* The process that created the runtime. The operating system empties `page` in
 * a forked child. Without a page, `pid` is compared. */
typedef struct tn__creator {
  void *page; /* NULL: use pid */
  int32_t pid;
} tn__creator;

void tn__creator_init(tn__creator *creator);
void tn__creator_deinit(tn__creator *creator);
/* The same without a page: compares the number of the process. */
bool tn__creator_has_this_pid(const tn__creator *creator);
/* True if this is the process that called init. Makes no system call if there
 * is a page. */
#define TN__CREATOR_MARK 0x7e404a11u
static inline bool tn__creator_is_here(const tn__creator *creator) {
  if (creator->page)
    return *(const uint32_t *)creator->page == TN__CREATOR_MARK;
  return tn__creator_has_this_pid(creator);
}

struct tn_runtime {
  tn__env env; /* its owner is this runtime; has its engine and cpu */
  _Atomic int64_t n_owners;
  tn__devices *devices;
  tn__registry *registry;
  tn__caller caller;
  tn__creator creator;
  /* Of jobs of the host (host_job.h). */
  pthread_mutex_t begun_lock;
  struct tn_token
      *begun; /* asynchronous jobs that have begun, under the lock */
  pthread_cond_t begin_returned;
  uint32_t n_beginning;    /* calls of `begin` that run, under the lock */
  _Atomic uint32_t closed; /* tn_runtime_shutdown was called */
  _Atomic uint32_t ending; /* the last owner has left */
  char *search_path;       /* copy of tn_options.search_path, or NULL */
  char device_detail[256];
};

/* Copies the options and checks them. Fields that the caller's version does not
 * have become zero. `from` NULL: all defaults. */
tn_code tn__options_read(const tn_options *from, tn_options *to);

tn_code tn__runtime_create(const tn_options *options, tn_runtime **out);
void tn__runtime_release(tn_runtime *rt);
void tn__runtime_json(tn_runtime *rt, tn__buf *out);
/* Adds an owner; false if there is none any more. */
bool tn__runtime_try_retain(tn_runtime *rt);

/* TN_OK, or TN_UNSUPPORTED in a forked child, which does not have the threads
 * of the runtime and may find its locks held. Every public function that could
 * use them calls this first. */
tn_code tn__runtime_fail_child(const tn_runtime *rt);
static inline tn_code tn__runtime_check(const tn__env *env) {
  const tn_runtime *rt = env->owner;
  return tn__creator_is_here(&rt->creator) ? TN_OK : tn__runtime_fail_child(rt);
}

/* The same for functions that call operators, and TN_INVALID from inside of an
 * operator, because its kernel could call itself for ever. */
tn_code tn__runtime_fail_inside(const char *function);
static inline tn_code tn__runtime_check_call(const tn__env *env,
                                             const char *function) {
  if (tn__is_inside(env->engine) || tn__gate_is_entered(env->engine))
    return tn__runtime_fail_inside(function);
  return tn__runtime_check(env);
}

/* Waits for everything that was pushed, and keeps all errors for tn_wait_all.
 * TN_INVALID from inside of an operator. */
tn_code tn__runtime_wait_pushed(tn_runtime *rt);

/* TN_INVALID if an argument of a public function is NULL. */
tn_code tn__argument_fail(const char *function, const char *name);
static inline tn_code tn__argument_check(const void *argument,
                                         const char *function,
                                         const char *name) {
  return argument ? TN_OK : tn__argument_fail(function, name);
}
#define TN__REQUIRE(argument) \
  TN__TRY(tn__argument_check((argument), __func__, #argument))

/* Finds the folder of the modules that libtenon.so opens on demand. It differs
 * only if the library is linked into a program. */
tn_code tn__find_module_folder(const tn__env *env, char *to);

uint64_t tn__cpu_features(void);
/* Writes their names with blanks between them, "none" if there are none. */
void tn__cpu_text(uint64_t features, char *to, size_t bytes);
/* tn_host.parallel_for: runs the loop in the engine of the plugin's runtime. */
int32_t tn__host_parallel_for(const tn_frame *call, int64_t n, int64_t grain,
                              tn_loop_body *body, void *arg);

#endif /* TENON_RUNTIME_H_ */
