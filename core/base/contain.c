/* SPDX-License-Identifier: Apache-2.0
 * contain.c: see child.h: the guard and the worker. It calls the C library
 * only, so that a program can be linked with it beside libtenon.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"

enum {
  LEAST_FD = 64, /* the socket of the worker gets a number from here */
  MOST_FD = 192,
  MOST_FILES = 256,
  MOST_ENDED = 65536 /* processes that a guard ends before it gives up */
};

#define GIB ((rlim_t)1 << 30)

/* -------------------------------------------------------------- the worker */

static void set_limit(__rlimit_resource_t which, rlim_t most) {
  struct rlimit limit = {most, most};
  struct rlimit now;
  if (getrlimit(which, &now) == 0 && now.rlim_max < most)
    limit.rlim_cur = limit.rlim_max = now.rlim_max;
  (void)setrlimit(which, &limit);
}

/* A sanitizer maps memory for its own use far beyond any limit. */
static void set_memory_limits(void) {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && \
    !defined(TN_SANITIZED)
  set_limit(RLIMIT_DATA, 16 * GIB);
  /* The driver of a GPU reserves addresses far beyond the memory. */
  if (access("/dev/nvidiactl", F_OK) != 0) set_limit(RLIMIT_AS, 16 * GIB);
#endif
}

static void set_limits(const tn__terms *terms) {
  const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
  const rlim_t seconds = (rlim_t)(terms->milliseconds / 1000 + 1);
  set_memory_limits();
  set_limit(RLIMIT_CORE, 0);
  set_limit(RLIMIT_FSIZE, GIB / 4);
  set_limit(RLIMIT_NOFILE, MOST_FILES);
  set_limit(RLIMIT_CPU, seconds * (rlim_t)(cpus > 0 ? cpus : 1));
}

/* Moves the socket to a random descriptor and closes all other files but the
 * standard ones. */
static bool hide_socket(int fd, tn__answer *out) {
  unsigned drawn = 0;
  if (getrandom(&drawn, sizeof drawn, 0) != (ssize_t)sizeof drawn) return false;
  out->fd = fcntl(fd, F_DUPFD_CLOEXEC,
                  LEAST_FD + (int)(drawn % (MOST_FD - LEAST_FD)));
  if (out->fd < 0) out->fd = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (out->fd < 0) return false;
  for (int i = STDERR_FILENO + 1; i < out->fd; ++i) (void)close(i);
  closefrom(out->fd + 1);
  return true;
}

static void begin_worker(int fd, const tn__terms *terms, const sigset_t *mask,
                         pid_t guard, tn__answer *out) {
  *out = (tn__answer){.key = {terms->key[0], terms->key[1]}};
  (void)signal(SIGCHLD, SIG_DFL);
  (void)sigprocmask(SIG_SETMASK, mask, NULL);
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != guard || !hide_socket(fd, out)) _exit(1);
  set_limits(terms);
}

/* --------------------------------------------------------------- the guard */

static void ignore_signal(int signal) {
  (void)signal;
}

/* Waits until the worker has ended, or the parent has closed its end, or is
 * gone. True with the status of the worker if that has ended. SIGCHLD is
 * blocked except within ppoll, so none is missed. */
static bool wait_for_worker(pid_t worker, int fd, int *status) {
  struct pollfd parent = {.fd = fd};
  sigset_t during;
  sigfillset(&during);
  sigdelset(&during, SIGCHLD);
  for (;;) {
    for (pid_t pid = 1; pid > 0;) {
      pid = waitpid(-1, status, WNOHANG);
      if (pid == worker) return true;
      if (pid < 0 && errno != EINTR) return false;
    }
    if (ppoll(&parent, 1, NULL, &during) > 0 &&
        (parent.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0)
      return false;
  }
}

/* The parent of a process, from its line in /proc; 0 if it is gone. */
static pid_t read_parent(const char *number) {
  char path[64], text[512];
  (void)snprintf(path, sizeof path, "/proc/%.20s/stat", number);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  const ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
  if (fd >= 0) (void)close(fd);
  text[got > 0 ? got : 0] = '\0';
  /* "12 (name) S 1 ...": the name may hold anything. */
  const char *end = strrchr(text, ')');
  return end != NULL && strlen(end) > 4 ? (pid_t)strtol(end + 4, NULL, 10) : 0;
}

/* Ends the children of this process; false if none was found. */
static bool end_children(void) {
  bool any = false;
  DIR *processes = opendir("/proc");
  const struct dirent *each = NULL;
  while (processes != NULL && (each = readdir(processes)) != NULL) {
    const long pid = strtol(each->d_name, NULL, 10);
    if (pid > 0 && read_parent(each->d_name) == getpid())
      any = kill((pid_t)pid, SIGKILL) == 0 || any;
  }
  if (processes != NULL) (void)closedir(processes);
  return any;
}

/* Ends every process that descends from this one. Processes without a parent
 * are children of this process, because it is their subreaper. True if any
 * was running. */
static bool end_descendants(void) {
  bool any = false;
  for (int i = 0; i < MOST_ENDED; ++i) {
    int status = 0;
    const pid_t pid = waitpid(-1, &status, WNOHANG);
    if (pid > 0) continue; /* it had ended by itself */
    if (pid < 0 || !end_children()) break;
    any = true;
    (void)waitpid(-1, &status, 0);
  }
  return any;
}

/* Ends as the worker did. */
static _Noreturn void end_as(int status) {
  const int signal_number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  if (signal_number != 0) {
    sigset_t all;
    sigfillset(&all);
    (void)signal(signal_number, SIG_DFL);
    set_limit(RLIMIT_CORE, 0);
    (void)kill(getpid(), signal_number);
    (void)sigprocmask(SIG_UNBLOCK, &all, NULL);
  }
  _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

static _Noreturn void be_guard(pid_t worker, int fd) {
  int status = 0;
  const bool ended = wait_for_worker(worker, fd, &status);
  const bool left = end_descendants();
  if (ended && left && WIFEXITED(status)) _exit(TN__CHILD_LEFT);
  if (ended) end_as(status);
  _exit(1);
}

/* ------------------------------------------------------------------ splitting
 */

bool tn__contain_process(int fd, const tn__terms *terms, tn__answer *out) {
  struct sigaction nothing = {.sa_handler = ignore_signal};
  sigset_t all, before;
  const pid_t guard = getpid();
  sigfillset(&all);
  if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) return false;
  (void)sigaction(SIGCHLD, &nothing, NULL);
  (void)sigprocmask(SIG_SETMASK, &all, &before);
  const pid_t worker = fork();
  if (worker > 0) be_guard(worker, fd);
  if (worker == 0) begin_worker(fd, terms, &before, guard, out);
  return worker == 0;
}

bool tn__contain_program(tn__answer *out) {
  tn__terms terms;
  ssize_t got = -1;
  do {
    got = read(TN__CHILD_FD, &terms, sizeof terms);
  } while (got < 0 && errno == EINTR);
  return got == (ssize_t)sizeof terms &&
         tn__contain_process(TN__CHILD_FD, &terms, out);
}
