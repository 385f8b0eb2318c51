/* SPDX-License-Identifier: Apache-2.0
 * test/child.h: a part of test.h: a child process that may crash, hang, exit or
 * cheat, and the records that it sends to its parent. Any program that runs
 * code of strangers may use it: it needs neither test.h nor the library.
 *
 * The child is a fork in a process group of its own. It sends records over a
 * pipe of a number that the tested code does not know: magic, length and hash,
 * then the payload. The hash of each record continues that of the record
 * before, and the first one begins with a key that the parent drew. So a byte
 * that somebody else writes into the pipe breaks the chain. The parent has the
 * clock: if a child sends no record for as long as it may, its whole group is
 * killed. The child's descriptors 1 and 2 are files in memory, which both sides
 * can read.
 *
 * A verdict is a record. An exit status proves nothing.
 */
#ifndef TENON_TEST_CHILD_H_
#define TENON_TEST_CHILD_H_

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/mman.h>
#include <sys/prctl.h>
#endif

/* ----------------------------------------------------------------- records */

enum {
  TN_CHILD_MAGIC = 0x544e5243,
  TN_CHILD_MOST = 16384, /* bytes of a payload */
  TN_CHILD_HIGH = 200,   /* descriptors of the pipe are at least this */
  TN_CHILD_CLOSED = 86   /* exit status of a child without a pipe */
};

typedef struct tn_child_head {
  uint32_t magic;
  uint32_t length;
  uint64_t hash;
} tn_child_head;

static inline uint64_t tn_child_hash(uint64_t hash, const void *data,
                                     size_t n) {
  const unsigned char *bytes = (const unsigned char *)data;
  for (size_t i = 0; i < n; ++i) hash = (hash ^ bytes[i]) * 0x100000001b3u;
  return hash ^ hash >> 29;
}

/* The end of the pipe that sends. `chain` begins with the parent's key. */
typedef struct tn_child_writer {
  int fd;
  uint64_t chain;
} tn_child_writer;

/* Sends one record, whole. False if the pipe cannot be written any more, or the
 * payload is too long. */
static inline bool tn_child_send(tn_child_writer *writer, const void *payload,
                                 size_t n) {
  static char bytes[sizeof(tn_child_head) + TN_CHILD_MOST];
  const size_t size = sizeof(tn_child_head) + n;
  size_t sent = 0;
  if (n > TN_CHILD_MOST) return false;
  writer->chain = tn_child_hash(writer->chain, payload, n);
  const tn_child_head head = {TN_CHILD_MAGIC, (uint32_t)n, writer->chain};
  memcpy(bytes, &head, sizeof head);
  memcpy(bytes + sizeof head, payload, n);
  while (sent < size) {
    const ssize_t got = write(writer->fd, bytes + sent, size - sent);
    if (got < 0 && errno != EINTR) return false;
    if (got > 0) sent += (size_t)got;
  }
  return true;
}

/* The end that receives. */
typedef struct tn_child_reader {
  int fd;
  uint64_t chain;
  size_t n; /* bytes in `bytes` */
  char bytes[2 * (sizeof(tn_child_head) + TN_CHILD_MOST)];
} tn_child_reader;

typedef enum tn_child_got {
  TN_CHILD_RECORD, /* one was taken */
  TN_CHILD_NONE,   /* none is complete */
  TN_CHILD_BROKEN  /* the bytes are no record of the child */
} tn_child_got;

/* Takes the first record out of the buffer; `payload` has room for
 * TN_CHILD_MOST bytes and one more, which is set to NUL. */
static inline tn_child_got tn_child_take(tn_child_reader *reader, char *payload,
                                         size_t *n) {
  tn_child_head head;
  if (reader->n < sizeof head) return TN_CHILD_NONE;
  memcpy(&head, reader->bytes, sizeof head);
  if (head.magic != TN_CHILD_MAGIC || head.length > TN_CHILD_MOST)
    return TN_CHILD_BROKEN;
  const size_t size = sizeof head + head.length;
  if (reader->n < size) return TN_CHILD_NONE;
  reader->chain =
      tn_child_hash(reader->chain, reader->bytes + sizeof head, head.length);
  if (reader->chain != head.hash) return TN_CHILD_BROKEN;
  memcpy(payload, reader->bytes + sizeof head, head.length);
  payload[head.length] = '\0';
  *n = head.length;
  reader->n -= size;
  memmove(reader->bytes, reader->bytes + size, reader->n);
  return TN_CHILD_RECORD;
}

/* ------------------------------------------------------------------- child */

typedef struct tn_child {
  pid_t pid;
  tn_child_reader reader;
  int printed[2]; /* files of its descriptors 1 and 2 */
  int status;     /* as waitpid gives it, once it is gone */
  bool is_gone;
} tn_child;

static inline int64_t tn_child_now(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* A number that the tested code cannot know. */
static inline uint64_t tn_child_key(void) {
  uint64_t key = (uint64_t)tn_child_now() * 0x9e3779b97f4a7c15u;
  const int fd = open("/dev/urandom", O_RDONLY);
  if (fd < 0) return key;
  if (read(fd, &key, sizeof key) < 0) key ^= (uint64_t)getpid();
  (void)close(fd);
  return key;
}

/* A file without a name; -1 if there cannot be one. */
static inline int tn_child_file(void) {
#ifdef __linux__
  const int made = memfd_create("printed", 0);
#else
  FILE *file = tmpfile();
  const int made = file != NULL ? fileno(file) : -1;
#endif
  const int high = made < 0 ? -1 : fcntl(made, F_DUPFD_CLOEXEC, TN_CHILD_HIGH);
  if (made >= 0) (void)close(made);
  return high;
}

static inline void tn_child_close(int *fd) {
  if (*fd >= 0) (void)close(*fd);
  *fd = -1;
}

/* Forks. `*is_child` tells the two apart: the child has `writer`, the parent
 * `child`. False, with errno, if the system refuses. */
static inline bool tn_child_start(tn_child *child, tn_child_writer *writer,
                                  bool *is_child) {
  int ends[2] = {-1, -1};
  *is_child = false;
  memset(child, 0, sizeof *child);
  if (pipe(ends) != 0) return false;
  for (int i = 0; i < 2; ++i) {
    const int high = fcntl(ends[i], F_DUPFD_CLOEXEC, TN_CHILD_HIGH);
    (void)close(ends[i]);
    ends[i] = high;
    child->printed[i] = tn_child_file();
  }
  child->reader.fd = ends[0];
  child->reader.chain = writer->chain = tn_child_key();
  writer->fd = ends[1];
  (void)fflush(NULL);
  child->pid = fork();
  if (child->pid > 0) {
    (void)setpgid(child->pid, child->pid);
    (void)close(ends[1]);
    return true;
  }
  if (child->pid < 0) return false;
  *is_child = true;
  (void)setpgid(0, 0);
  (void)close(ends[0]);
#ifdef __linux__
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
  for (int i = 0; i < 2; ++i) {
    if (child->printed[i] >= 0) (void)dup2(child->printed[i], i + 1);
    tn_child_close(&child->printed[i]);
  }
  return true;
}

/* Whether the child itself is gone. */
static inline bool tn_child_is_gone(tn_child *child) {
  if (!child->is_gone)
    child->is_gone = waitpid(child->pid, &child->status, WNOHANG) == child->pid;
  return child->is_gone;
}

/* Waits for bytes until `deadline`. False if none can come any more: the child
 * is gone and the pipe empty, or the time is up. A pipe that a grandchild keeps
 * open is not waited for. */
static inline bool tn_child_wait(tn_child *child, int64_t deadline) {
  tn_child_reader *reader = &child->reader;
  for (;;) {
    struct pollfd wanted = {.fd = reader->fd, .events = POLLIN};
    const int64_t left = deadline - tn_child_now();
    const bool was_gone = tn_child_is_gone(child);
    const int slice = was_gone || left <= 0 ? 0 : left < 50 ? (int)left : 50;
    const int ready = poll(&wanted, 1, slice);
    if (ready > 0 && (wanted.revents & POLLIN) != 0) {
      const ssize_t n = read(reader->fd, reader->bytes + reader->n,
                             sizeof reader->bytes - reader->n);
      if (n > 0) reader->n += (size_t)n;
      if (n > 0) return true;
    }
    if (ready > 0 && !was_gone) {
      const struct timespec pause = {0, 1000000};
      (void)nanosleep(&pause, NULL); /* it closed its end, and still runs */
    }
    if (was_gone || left <= 0) return false;
  }
}

#ifdef __linux__
/* Ends processes that left the group and were not waited for: they are children
 * of this process now. */
static inline void tn_child_kill_strays(void) {
  char path[64];
  long pid = 0;
  (void)snprintf(path, sizeof path, "/proc/self/task/%ld/children",
                 (long)getpid());
  FILE *file = fopen(path, "r");
  while (file != NULL && fscanf(file, "%ld", &pid) == 1)
    if (kill((pid_t)pid, SIGKILL) == 0) (void)waitpid((pid_t)pid, NULL, 0);
  if (file != NULL) (void)fclose(file);
}
#else
static inline void tn_child_kill_strays(void) {}
#endif

/* Ends the child with all of its group, and processes that left the group. */
static inline void tn_child_end(tn_child *child) {
  (void)kill(-child->pid, SIGKILL);
  if (!child->is_gone) {
    pid_t got = -1;
    do {
      got = waitpid(child->pid, &child->status, 0);
    } while (got < 0 && errno == EINTR);
    child->is_gone = true;
  }
  tn_child_kill_strays();
  tn_child_close(&child->reader.fd);
}

/* Reads the last bytes that the child printed to descriptor `i + 1`. */
static inline void tn_child_printed(const tn_child *child, int i, char *out,
                                    size_t size) {
  const off_t all =
      child->printed[i] < 0 ? 0 : lseek(child->printed[i], 0, SEEK_END);
  const off_t most = (off_t)size - 1;
  const off_t from = all > most ? all - most : 0;
  const ssize_t n = all > 0 ? pread(child->printed[i], out, size - 1, from) : 0;
  out[n > 0 ? n : 0] = '\0';
}

/* Says how a child that is gone ended, on one line. */
static inline void tn_child_describe(const tn_child *child, char *out,
                                     size_t size) {
  const int status = child->status;
  if (WIFSIGNALED(status))
    (void)snprintf(out, size, "the process was ended by signal %d (%s)",
                   WTERMSIG(status), strsignal(WTERMSIG(status)));
  else if (WIFEXITED(status) && WEXITSTATUS(status) == TN_CHILD_CLOSED)
    (void)snprintf(out, size,
                   "descriptors of the process were closed, so that the test "
                   "could not go on");
  else if (WIFEXITED(status))
    (void)snprintf(out, size,
                   "the process ended with exit status %d, inside the call",
                   WEXITSTATUS(status));
  else
    (void)snprintf(out, size, "the process is gone");
}

#endif /* TENON_TEST_CHILD_H_ */
