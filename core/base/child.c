/* SPDX-License-Identifier: Apache-2.0
 * child.c: runs a program that may crash, hang or report wrong results, and
 * reads its output on descriptor 3. Uses posix_spawn, not fork: the host may
 * have threads, and a forked copy could wait for their locks for ever.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base.h"

/* Descriptor of the child's pipe; all higher ones are closed. */
enum { REPORT_FD = 3, OUTPUT_MAX = 1 << 16, HIGH = 10 };

extern char **environ;

static tn_code system_failed(const char *what, int error) {
  return tn__fail(TN_IO, "%s: %s", what, strerror(error));
}

static int64_t now_ms(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* A pipe on descriptors from HIGH on, which do not collide with the child's. */
static tn_code pipe_open(int ends[2]) {
  int low[2];
  if (pipe2(low, O_CLOEXEC) != 0)
    return system_failed("a pipe cannot be made", errno);
  for (int i = 0; i < 2; ++i) {
    ends[i] = fcntl(low[i], F_DUPFD_CLOEXEC, HIGH);
    const int error = errno;
    (void)close(low[i]);
    if (ends[i] >= 0) continue;
    if (i == 0) (void)close(low[1]);
    if (i == 1) (void)close(ends[0]);
    return system_failed("a pipe cannot be moved", error);
  }
  return TN_OK;
}

static int set_files(posix_spawn_file_actions_t *files, const tn__child *child,
                     int report_fd) {
  int rc = 0;
  if (child->input >= HIGH)
    rc = posix_spawn_file_actions_adddup2(files, child->input, 0);
  else
    rc = posix_spawn_file_actions_addopen(files, 0, "/dev/null", O_RDONLY, 0);
  for (int fd = 1; rc == 0 && fd <= 2; ++fd)
    rc = posix_spawn_file_actions_addopen(files, fd, "/dev/null", O_WRONLY, 0);
  if (rc == 0)
    rc = posix_spawn_file_actions_adddup2(files, report_fd, REPORT_FD);
  if (rc == 0)
    rc = posix_spawn_file_actions_addclosefrom_np(files, REPORT_FD + 1);
  return rc;
}

/* Gives the child its own process group, so that its own children can be killed
 * with it. The child does not inherit the host's signal settings. */
static int set_attributes(posix_spawnattr_t *attributes) {
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  int rc = posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETPGROUP |
                                                    POSIX_SPAWN_SETSIGMASK |
                                                    POSIX_SPAWN_SETSIGDEF);
  if (rc == 0) rc = posix_spawnattr_setpgroup(attributes, 0);
  if (rc == 0) rc = posix_spawnattr_setsigmask(attributes, &none);
  if (rc == 0) rc = posix_spawnattr_setsigdefault(attributes, &all);
  return rc;
}

static int spawn_child(const tn__child *child, int report_fd, pid_t *pid) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  int rc = posix_spawn_file_actions_init(&files);
  if (rc != 0) return rc;
  rc = posix_spawnattr_init(&attributes);
  if (rc == 0) {
    rc = set_files(&files, child, report_fd);
    if (rc == 0) rc = set_attributes(&attributes);
    if (rc == 0)
      rc = posix_spawn(pid, child->program, &files, &attributes, child->argv,
                       environ);
    (void)posix_spawnattr_destroy(&attributes);
  }
  (void)posix_spawn_file_actions_destroy(&files);
  return rc;
}

/* Reads until all writers have ended. False when the time is up. */
static bool listen_to(int fd, int64_t deadline, tn__buf *output) {
  char chunk[1024];
  for (;;) {
    const int64_t left = deadline - now_ms();
    struct pollfd wanted = {.fd = fd, .events = POLLIN};
    if (left <= 0) return false;
    const int ready = poll(&wanted, 1, (int)(left < 60000 ? left : 60000));
    if (ready < 0 && errno != EINTR) return true;
    if (ready <= 0) continue;
    const ssize_t n = read(fd, chunk, sizeof chunk);
    if (n == 0 || (n < 0 && errno != EINTR)) return true;
    if (n > 0 && output->n < OUTPUT_MAX)
      tn__buf_bytes(output, chunk, (size_t)n);
  }
}

/* Waits until the child has ended; a child may close its files earlier. False
 * when the time is up. Without pidfd_open it counts as ended when its files are
 * closed: the status of an ending process is fixed before that. */
static bool wait_for(pid_t pid, int64_t deadline) {
  bool gone = false;
  const int handle = (int)syscall(SYS_pidfd_open, pid, 0);
  if (handle < 0) return true;
  for (int64_t left = deadline - now_ms(); left > 0 && !gone;
       left = deadline - now_ms()) {
    struct pollfd wanted = {.fd = handle, .events = POLLIN};
    const int ready = poll(&wanted, 1, (int)(left < 60000 ? left : 60000));
    gone = ready > 0 || (ready < 0 && errno != EINTR);
  }
  (void)close(handle);
  return gone;
}

/* Also kills the rest of its process group. */
static void reap_child(pid_t pid, tn__child_end *end) {
  int status = 0;
  pid_t got = 0;
  (void)kill(-pid, SIGKILL);
  do {
    got = waitpid(pid, &status, 0);
  } while (got < 0 && errno == EINTR);
  if (got != pid) return; /* another thread of the host has waited for it */
  if (WIFSIGNALED(status)) end->signal = WTERMSIG(status);
  if (WIFEXITED(status)) end->status = WEXITSTATUS(status);
}

tn_code tn__child_run(const tn__child *child, tn__buf *output,
                      tn__child_end *end) {
  int ends[2];
  pid_t pid = 0;
  *end = (tn__child_end){.status = -1};
  TN__TRY(pipe_open(ends));
  const int64_t deadline = now_ms() + child->milliseconds;
  const int error = spawn_child(child, ends[1], &pid);
  (void)close(ends[1]);
  if (error == 0) {
    end->late =
        !listen_to(ends[0], deadline, output) || !wait_for(pid, deadline);
    reap_child(pid, end);
  }
  (void)close(ends[0]);
  return error == 0 ? TN_OK
                    : tn__fail(TN_IO, "%s: cannot be started: %s",
                               child->program, strerror(error));
}
