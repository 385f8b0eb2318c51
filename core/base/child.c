/* SPDX-License-Identifier: Apache-2.0
 * child.c: see child.h: the parent. posix_spawn where a host may have threads,
 * because a copy of it would wait for their locks for ever.
 */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
  MOST_BYTES = 1 << 16,
  HIGH = 10,   /* descriptors from here on are not those of a child */
  GRACE = 2000 /* milliseconds for a guard to end the remaining processes */
};

extern char **environ;

/* One run. */
typedef struct running {
  const tn__child *child;
  tn__terms terms;
  int socket; /* the parent's end */
  pid_t pid;  /* of the guard, which leads the group */
  int handle; /* a descriptor of the guard, or -1 */
  tn__buf said;
  tn__child_end *end;
} running;

static tn_code fail_system(const char *subject, int error) {
  return tn__fail(TN_IO, "%s: %s", subject, strerror(error));
}

static int64_t now_ms(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---------------------------------------------------------------- starting */

/* Two connected sockets on descriptors from HIGH on. */
static tn_code open_sockets(int ends[2]) {
  int low[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, low) != 0)
    return fail_system("a socket cannot be made", errno);
  for (int i = 0; i < 2; ++i) {
    ends[i] = fcntl(low[i], F_DUPFD_CLOEXEC, HIGH);
    const int error = errno;
    (void)close(low[i]);
    if (ends[i] >= 0) continue;
    if (i == 0) (void)close(low[1]);
    if (i == 1) (void)close(ends[0]);
    return fail_system("a socket cannot be moved", error);
  }
  return TN_OK;
}

static int set_files(posix_spawn_file_actions_t *files, const tn__child *child,
                     int socket) {
  int rc = 0;
  if (child->input >= HIGH)
    rc = posix_spawn_file_actions_adddup2(files, child->input, 0);
  else
    rc = posix_spawn_file_actions_addopen(files, 0, "/dev/null", O_RDONLY, 0);
  for (int fd = 1; rc == 0 && fd <= 2; ++fd)
    rc = posix_spawn_file_actions_addopen(files, fd, "/dev/null", O_WRONLY, 0);
  if (rc == 0)
    rc = posix_spawn_file_actions_adddup2(files, socket, TN__CHILD_FD);
  if (rc == 0)
    rc = posix_spawn_file_actions_addclosefrom_np(files, TN__CHILD_FD + 1);
  return rc;
}

/* A group of its own, so that all of it can be ended at once, and the default
 * for every signal, however the host handles them. */
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

static int spawn_program(const tn__child *child, int socket, pid_t *pid) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  int rc = posix_spawn_file_actions_init(&files);
  if (rc != 0) return rc;
  rc = posix_spawnattr_init(&attributes);
  if (rc == 0) {
    rc = set_files(&files, child, socket);
    if (rc == 0) rc = set_attributes(&attributes);
    if (rc == 0)
      rc = posix_spawn(pid, child->program, &files, &attributes, child->argv,
                       environ);
    (void)posix_spawnattr_destroy(&attributes);
  }
  (void)posix_spawn_file_actions_destroy(&files);
  return rc;
}

static _Noreturn void run_body(const running *r, int socket) {
  tn__answer answer;
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  (void)setpgid(0, 0);
  (void)close(r->socket); /* the guard would not see the parent's end close */
  if (nothing < 0 || dup2(nothing, 0) < 0) _exit(1);
  if (!tn__contain_process(socket, &r->terms, &answer)) _exit(1);
  r->child->body(r->child->ctx, &answer);
  _exit(tn__answer_end(&answer) ? 0 : 1);
}

static int fork_body(running *r, int socket) {
  (void)fflush(NULL);
  r->pid = fork();
  if (r->pid == 0) run_body(r, socket);
  if (r->pid < 0) return errno;
  (void)setpgid(r->pid, r->pid); /* whichever of the two comes first */
  return 0;
}

static int start_child(running *r, int socket) {
  if (r->child->program == NULL) return fork_body(r, socket);
  if (write(r->socket, &r->terms, sizeof r->terms) != (ssize_t)sizeof r->terms)
    return errno;
  return spawn_program(r->child, socket, &r->pid);
}

/* --------------------------------------------------------------- listening */

/* Reads a part; false if there is none now, or never again. */
static bool read_part(running *r, size_t most) {
  char part[4096];
  const ssize_t n = recv(r->socket, part, sizeof part, MSG_DONTWAIT);
  if (n < 0 && errno == EINTR) return true;
  if (n <= 0) return false;
  tn__buf_bytes(&r->said, part, (size_t)n);
  r->end->flooded = r->said.n > most;
  return !r->end->flooded && !r->said.failed;
}

/* Reads until every writer, or the guard, is gone, or time is up. */
static void listen_to(running *r, int64_t deadline) {
  const size_t most =
      r->child->most_bytes > 0 ? r->child->most_bytes : MOST_BYTES;
  struct pollfd wanted[2] = {{.fd = r->socket, .events = POLLIN},
                             {.fd = r->handle, .events = POLLIN}};
  for (;;) {
    const int64_t left = deadline - now_ms();
    if (left <= 0) {
      r->end->late = true;
      return;
    }
    const int ready = poll(wanted, 2, (int)(left < 60000 ? left : 60000));
    if (ready < 0 && errno != EINTR) return;
    if (ready <= 0) continue;
    if (wanted[0].revents != 0 && read_part(r, most)) continue;
    if (wanted[0].revents != 0 || wanted[1].revents != 0) return;
  }
}

/* Gives the guard some time to end the remaining processes; it sees that the
 * parent's end is closed. One that the worker has stopped does not use it. */
static void wait_for_guard(const running *r) {
  const int64_t deadline = now_ms() + GRACE;
  struct pollfd wanted = {.fd = r->handle, .events = POLLIN};
  for (int64_t left = GRACE; r->handle >= 0 && left > 0;
       left = deadline - now_ms()) {
    const int ready = poll(&wanted, 1, (int)left);
    if (ready > 0 || (ready < 0 && errno != EINTR)) return;
  }
}

static void end_group(running *r) {
  int status = 0;
  pid_t got = 0;
  (void)close(r->socket);
  wait_for_guard(r);
  (void)kill(-r->pid, SIGKILL);
  do {
    got = waitpid(r->pid, &status, 0);
  } while (got < 0 && errno == EINTR);
  if (r->handle >= 0) (void)close(r->handle);
  if (got != r->pid) return; /* another part of the host waits for children */
  if (WIFSIGNALED(status)) r->end->signal = WTERMSIG(status);
  if (WIFEXITED(status)) r->end->status = WEXITSTATUS(status);
}

static void take_records(running *r) {
  tn__records records = {.bytes = r->said.s,
                         .n = r->said.n,
                         .key = {r->terms.key[0], r->terms.key[1]}};
  tn__child_record record;
  while (r->said.n > 0 && tn__records_next(&records, &record))
    r->child->take(r->child->ctx, &record);
  r->end->complete = records.complete && !r->end->late && !r->end->flooded;
  r->end->foreign = records.foreign;
}

/* ----------------------------------------------------------------- one run */

static tn_code run_child(running *r, int socket) {
  const int64_t deadline = now_ms() + r->child->milliseconds;
  const int error = start_child(r, socket);
  (void)close(socket);
  if (error != 0) {
    (void)close(r->socket);
    return tn__fail(TN_IO, "%s: cannot be started: %s",
                    r->child->program != NULL ? r->child->program
                                              : "a copy of this process",
                    strerror(error));
  }
  r->handle = (int)syscall(SYS_pidfd_open, r->pid, 0);
  listen_to(r, deadline);
  end_group(r);
  if (r->said.failed) return tn__fail_memory(r->said.n, "a verdict");
  take_records(r);
  return TN_OK;
}

tn_code tn__child_run(const tn__child *child, tn__child_end *end) {
  running r = {.child = child, .handle = -1, .end = end};
  int ends[2];
  *end = (tn__child_end){.status = -1};
  r.terms.milliseconds = child->milliseconds;
  if (getrandom(r.terms.key, sizeof r.terms.key, 0) !=
      (ssize_t)sizeof r.terms.key)
    return fail_system("no random number", errno);
  TN__TRY(open_sockets(ends));
  r.socket = ends[0];
  tn__buf_init(&r.said, child->env);
  const tn_code code = run_child(&r, ends[1]);
  tn__buf_deinit(&r.said);
  return code;
}
