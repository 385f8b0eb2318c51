/* SPDX-License-Identifier: Apache-2.0
 * fork.c: detects that the process is a forked child of the runtime's creator.
 * A page under MADV_WIPEONFORK costs one load per check. getpid would be a
 * system call, and pthread_atfork global state that cannot be removed.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "runtime.h"

void tn__creator_init(tn__creator *creator) {
  size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
  creator->pid = getpid();
  creator->page = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (creator->page == MAP_FAILED) {
    creator->page = NULL;
    return;
  }
  if (madvise(creator->page, bytes, MADV_WIPEONFORK) != 0) {
    tn__creator_deinit(creator);
    return;
  }
  *(uint32_t *)creator->page = TN__CREATOR_MARK;
}

void tn__creator_deinit(tn__creator *creator) {
  if (creator->page) munmap(creator->page, (size_t)sysconf(_SC_PAGESIZE));
  creator->page = NULL;
}

bool tn__creator_has_this_pid(const tn__creator *creator) {
  return creator->pid == getpid();
}
