/* SPDX-License-Identifier: Apache-2.0
 * forked.h: for tests of what a child made by fork is told.
 */
#ifndef TENON_TESTS_FORKED_H_
#define TENON_TESTS_FORKED_H_

#include <criterion/criterion.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* Skips the test where a page that forking is to wipe is not wiped, although
 * the system took the order: emulators of another processor do nothing of the
 * kind, and a child there takes itself for its parent. */
static inline void skip_where_forks_keep_all(void) {
  const size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
  char *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  cr_assert_neq(page, MAP_FAILED);
  *page = 1;
  const bool taken = madvise(page, bytes, MADV_WIPEONFORK) == 0;
  const pid_t pid = fork();
  if (pid == 0) _exit(*page);
  int status = -1;
  cr_assert_eq(waitpid(pid, &status, 0), pid);
  munmap(page, bytes);
  if (taken && WEXITSTATUS(status) == 1)
    cr_skip_test("this system says that fork wipes a page, and it does not");
}

#endif /* TENON_TESTS_FORKED_H_ */
