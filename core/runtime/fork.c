/* SPDX-License-Identifier: Apache-2.0
 * fork.c: notices that the process is a forked child of the one that made a
 * runtime. A page under MADV_WIPEONFORK costs one load per check; getpid is a
 * system call, and pthread_atfork would be global state that cannot be undone.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "runtime.h"

void tn__birth_init(tn__birth *birth) {
  size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
  birth->pid = getpid();
  birth->page = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (birth->page == MAP_FAILED) {
    birth->page = NULL;
    return;
  }
  if (madvise(birth->page, bytes, MADV_WIPEONFORK) != 0) {
    tn__birth_deinit(birth);
    return;
  }
  *(uint32_t *)birth->page = TN__BIRTH_MARK;
}

void tn__birth_deinit(tn__birth *birth) {
  if (birth->page) munmap(birth->page, (size_t)sysconf(_SC_PAGESIZE));
  birth->page = NULL;
}

bool tn__birth_here_by_pid(const tn__birth *birth) {
  return birth->pid == getpid();
}
