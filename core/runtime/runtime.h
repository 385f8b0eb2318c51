/* SPDX-License-Identifier: Apache-2.0
 * runtime.h: the object that owns everything, and the public functions of
 * tenon.h, each a check of its arguments and one call into the folder that does
 * the work. Uses everything below; nothing uses it.
 *
 * files: runtime.c    create, options, release
 *        fork.c       notices that the process is a forked child
 *        cpu.c        what this machine can execute; parallel_for
 *        api.c        tenon.h: runtime, plugins, inspections, devices
 *        api_operator.c  tenon.h: operators and parameters
 *        api_array.c  tenon.h: arrays and calls
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
/* Whether this is still the process that called init. No system call where
 * there is a page. */
bool tn__birth_here(const tn__birth *birth);

struct tn_runtime {
  tn__env env; /* owner is this runtime */
  tn__budget budget;
  _Atomic int64_t n_owners;
  tn__registry *registry;
  tn__caller caller;
  tn__birth birth;
  char *search_path; /* copy of tn_options.search_path, or NULL */
  char device_detail[256];
};

tn_code tn__runtime_create(const tn_options *options, tn_runtime **out);
void tn__runtime_release(tn_runtime *rt);

/* TN_OK, or TN_UNSUPPORTED in a child made by fork: threads and locks of the
 * runtime stayed behind in the parent. Every public function that could touch
 * them asks first. */
tn_code tn__runtime_check(const tn__env *env);

/* TN_INVALID if an argument of a public function is NULL. */
tn_code tn__argument_check(const void *argument, const char *function,
                           const char *name);
#define TN__WANT(argument) \
  TN__TRY(tn__argument_check((argument), __func__, #argument))

uint64_t tn__cpu_features(void);
/* Their names with blanks between, "none" if there are none. */
void tn__cpu_text(uint64_t features, char *to, size_t bytes);
int32_t tn__parallel_for(const tn_frame *call, int64_t n, int64_t grain,
                         tn_loop_body *body, void *arg);

#endif /* TENON_RUNTIME_H_ */
