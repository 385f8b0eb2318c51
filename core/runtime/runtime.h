/* SPDX-License-Identifier: Apache-2.0
 * runtime.h: the object that owns everything, and the public functions of
 * tenon.h, each a check of its arguments and one call into the folder that does
 * the work. Uses everything below; nothing uses it.
 *
 * files: runtime.c       create, release
 *        options.c       what tn_options may say
 *        fork.c          notices that the process is a forked child
 *        cpu.c           what this machine can execute; parallel_for
 *        api.c           tenon.h: runtimes, random streams, traces
 *        api_plugin.c    tenon.h: plugins and inspections
 *        api_operator.c  tenon.h: operators and parameters
 *        api_array.c     tenon.h: arrays and their views
 *        api_call.c      tenon.h: calls
 *        api_device.c    tenon.h: devices and their memory
 */
#ifndef TENON_RUNTIME_H_
#define TENON_RUNTIME_H_

#include "ndarray.h"

/* Which process made the runtime. `page` is memory that the kernel of the
 * operating system empties in a forked child; where there is none, `pid` is
 * compared. */
typedef struct tn__birth {
  void *page; /* NULL: use pid */
  int32_t pid;
} tn__birth;

void tn__birth_init(tn__birth *birth);
void tn__birth_deinit(tn__birth *birth);
/* The same without a page: by the number of the process. */
bool tn__birth_here_by_pid(const tn__birth *birth);
/* Whether this is still the process that called init. No system call where
 * there is a page. */
#define TN__BIRTH_MARK 0x7e404a11u
static inline bool tn__birth_here(const tn__birth *birth) {
  if (birth->page) return *(const uint32_t *)birth->page == TN__BIRTH_MARK;
  return tn__birth_here_by_pid(birth);
}

struct tn_runtime {
  tn__env env; /* owner is this runtime; has its engine and cpu */
  _Atomic int64_t n_owners;
  tn__devices *devices;
  tn__registry *registry;
  tn__caller caller;
  tn__birth birth;
  char *search_path; /* copy of tn_options.search_path, or NULL */
  char device_detail[256];
};

/* The options with zeros for what the caller does not know; checked. `from`
 * NULL: all defaults. */
tn_code tn__options_read(const tn_options *from, tn_options *to);

tn_code tn__runtime_create(const tn_options *options, tn_runtime **out);
void tn__runtime_release(tn_runtime *rt);

/* TN_OK, or TN_UNSUPPORTED in a child made by fork: threads and locks of the
 * runtime stayed behind in the parent. Every public function that could touch
 * them asks first. */
tn_code tn__runtime_fail_child(const tn_runtime *rt);
static inline tn_code tn__runtime_check(const tn__env *env) {
  const tn_runtime *rt = env->owner;
  return tn__birth_here(&rt->birth) ? TN_OK : tn__runtime_fail_child(rt);
}

/* The same, and TN_INVALID from inside of an operator: its kernel would call
 * itself for ever. Of functions that make calls of operators. */
tn_code tn__runtime_fail_inside(const char *function);
static inline tn_code tn__runtime_check_call(const tn__env *env,
                                             const char *function) {
  if (tn__is_inside(env->engine) || tn__gate_is_entered(env->engine))
    return tn__runtime_fail_inside(function);
  return tn__runtime_check(env);
}

/* Waits for everything that was scheduled, and takes none of the errors that
 * tn_wait_all is to report. TN_INVALID from inside of an operator. */
tn_code tn__runtime_settle(tn_runtime *rt);

/* TN_INVALID if an argument of a public function is NULL. */
tn_code tn__argument_fail(const char *function, const char *name);
static inline tn_code tn__argument_check(const void *argument,
                                         const char *function,
                                         const char *name) {
  return argument ? TN_OK : tn__argument_fail(function, name);
}
#define TN__WANT(argument) \
  TN__TRY(tn__argument_check((argument), __func__, #argument))

/* The folder that libtenon.so lies in; `to` has PATH_MAX bytes. */
tn_code tn__library_folder(const tn__env *env, char *to);
/* The folder of what libtenon.so opens when it needs it, which is the same
 * unless a program has the library linked in. */
tn_code tn__helper_folder(const tn__env *env, char *to);

uint64_t tn__cpu_features(void);
/* Their names with blanks between, "none" if there are none. */
void tn__cpu_text(uint64_t features, char *to, size_t bytes);
/* tn_host.parallel_for: the loop of the engine that the plugin's runtime has.
 */
int32_t tn__host_parallel_for(const tn_frame *call, int64_t n, int64_t grain,
                              tn_loop_body *body, void *arg);

#endif /* TENON_RUNTIME_H_ */
