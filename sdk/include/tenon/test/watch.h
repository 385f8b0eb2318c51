/* SPDX-License-Identifier: Apache-2.0
 * test/watch.h: a part of test.h: state of the process and of the calling
 * thread that a kernel must leave as it was. A snapshot is taken once; after
 * each case the state is compared with it, named, and put back where that is
 * possible. Needs neither test.h nor the library.
 */
#ifndef TENON_TEST_WATCH_H_
#define TENON_TEST_WATCH_H_

#include <errno.h>
#include <fcntl.h>
#include <fenv.h>
#include <locale.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

enum {
  TN_WATCH_SIGNALS = 32,
  TN_WATCH_FILES = 48,   /* descriptors that each case compares */
  TN_WATCH_COUNTED = 512 /* descriptors of tn_watch_count_files */
};

typedef struct tn_watch {
  /* of the thread */
  int rounding;
  uint32_t mxcsr; /* without the exception flags */
  uint16_t x87;
  sigset_t blocked;
  /* of the process */
  struct sigaction actions[TN_WATCH_SIGNALS];
  bool is_open[TN_WATCH_FILES];
  struct stat standard[3]; /* of descriptors 0 to 2 */
  char locale[256];
  char folder[1024];
  mode_t mask;
  uint64_t environment;
} tn_watch;

extern char **environ;

/* ---------------------------------------------------- floating-point control
 */

#if defined(__x86_64__)
static inline uint32_t tn_watch_get_mxcsr(void) {
  uint32_t word = 0;
  __asm__ volatile("stmxcsr %0" : "=m"(word));
  return word & ~0x3fu;
}
static inline void tn_watch_set_mxcsr(uint32_t word) {
  __asm__ volatile("ldmxcsr %0" : : "m"(word));
}
static inline uint16_t tn_watch_get_x87(void) {
  uint16_t word = 0;
  __asm__ volatile("fnstcw %0" : "=m"(word));
  return word;
}
static inline void tn_watch_set_x87(uint16_t word) {
  __asm__ volatile("fldcw %0" : : "m"(word));
}
#else
static inline uint32_t tn_watch_get_mxcsr(void) {
  return 0;
}
static inline void tn_watch_set_mxcsr(uint32_t word) {
  (void)word;
}
static inline uint16_t tn_watch_get_x87(void) {
  return 0;
}
static inline void tn_watch_set_x87(uint16_t word) {
  (void)word;
}
#endif

static inline void tn_watch_take_float(tn_watch *w) {
  w->rounding = fegetround();
  w->mxcsr = tn_watch_get_mxcsr();
  w->x87 = tn_watch_get_x87();
}

/* Names the difference between control words and those of the snapshot; NULL if
 * there is none. */
static inline const char *tn_watch_name_float(const tn_watch *w, uint32_t mxcsr,
                                              uint16_t x87) {
  const uint32_t sse = mxcsr ^ w->mxcsr, x87_bits = (uint32_t)(x87 ^ w->x87);
  if (sse >> 15 != 0) return "flushing of denormals to zero (FTZ)";
  if ((sse & 0x40) != 0) return "denormals as zeros (DAZ)";
  if ((sse & 0x6000) != 0 || (x87_bits & 0xc00) != 0)
    return "the rounding mode";
  if (sse != 0) return "the control word of SSE";
  return x87_bits != 0 ? "the control word of the x87" : NULL;
}

/* Names the changed setting of the calling thread's arithmetic, and restores
 * it; NULL if it is as it was. */
static inline const char *tn_watch_check_float(const tn_watch *w) {
  const char *changed =
      tn_watch_name_float(w, tn_watch_get_mxcsr(), tn_watch_get_x87());
  if (changed == NULL && fegetround() != w->rounding)
    changed = "the rounding mode";
  if (changed == NULL) return NULL;
  (void)fesetround(w->rounding);
  tn_watch_set_mxcsr(w->mxcsr);
  tn_watch_set_x87(w->x87);
  return changed;
}

/* -------------------------------------------------------------- the process */

static inline uint64_t tn_watch_hash_environment(void) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (char **entry = environ; entry != NULL && *entry != NULL; ++entry)
    for (const char *c = *entry; *c != '\0'; ++c)
      hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
  return hash;
}

static inline mode_t tn_watch_mask(void) {
  const mode_t mask = umask(0);
  (void)umask(mask);
  return mask;
}

static inline void tn_watch_take(tn_watch *w) {
  memset(w, 0, sizeof *w);
  tn_watch_take_float(w);
  (void)sigprocmask(SIG_SETMASK, NULL, &w->blocked);
  for (int i = 1; i < TN_WATCH_SIGNALS; ++i)
    (void)sigaction(i, NULL, &w->actions[i]);
  for (int i = 0; i < TN_WATCH_FILES; ++i)
    w->is_open[i] = fcntl(i, F_GETFD) >= 0;
  for (int i = 0; i < 3; ++i) (void)fstat(i, &w->standard[i]);
  (void)snprintf(w->locale, sizeof w->locale, "%s", setlocale(LC_ALL, NULL));
  if (getcwd(w->folder, sizeof w->folder) == NULL) w->folder[0] = '\0';
  w->mask = tn_watch_mask();
  w->environment = tn_watch_hash_environment();
}

static inline bool tn_watch_check_signals(const tn_watch *w, char *out,
                                          size_t size) {
  sigset_t blocked;
  (void)sigprocmask(SIG_SETMASK, &w->blocked, &blocked);
  for (int i = 1; i < TN_WATCH_SIGNALS; ++i) {
    struct sigaction now;
    if (sigaction(i, NULL, &now) == 0 &&
        now.sa_handler != w->actions[i].sa_handler) {
      (void)sigaction(i, &w->actions[i], NULL);
      (void)snprintf(out, size, "the kernel changed the handler of signal %d",
                     i);
      return false;
    }
    if (sigismember(&blocked, i) != sigismember(&w->blocked, i)) {
      (void)snprintf(out, size, "the kernel changed the mask of signal %d", i);
      return false;
    }
  }
  return true;
}

/* A descriptor that is lost stays lost: the snapshot is changed, so that later
 * cases are not blamed. */
static inline bool tn_watch_check_files(tn_watch *w, char *out, size_t size) {
  for (int i = 0; i < TN_WATCH_FILES; ++i) {
    struct stat now;
    if (!w->is_open[i]) continue;
    if (fcntl(i, F_GETFD) < 0) {
      w->is_open[i] = false;
      (void)snprintf(out, size, "the kernel closed descriptor %d", i);
      return false;
    }
    if (i > 2 || fstat(i, &now) != 0 ||
        (now.st_ino == w->standard[i].st_ino &&
         now.st_dev == w->standard[i].st_dev))
      continue;
    w->standard[i] = now;
    (void)snprintf(out, size, "the kernel replaced descriptor %d", i);
    return false;
  }
  return true;
}

static inline bool tn_watch_check_folder(tn_watch *w, char *out, size_t size) {
  char folder[sizeof w->folder];
  if (getcwd(folder, sizeof folder) == NULL) folder[0] = '\0';
  if (strcmp(folder, w->folder) == 0) return true;
  (void)snprintf(out, size, "the kernel changed the current folder");
  if (chdir(w->folder) != 0) memcpy(w->folder, folder, sizeof folder);
  return false;
}

static inline bool tn_watch_check_settings(tn_watch *w, char *out,
                                           size_t size) {
  const char *locale = setlocale(LC_ALL, NULL);
  const mode_t mask = tn_watch_mask();
  const uint64_t environment = tn_watch_hash_environment();
  const char *changed = NULL;
  if (locale == NULL || strcmp(locale, w->locale) != 0) {
    changed = "the locale";
    (void)setlocale(LC_ALL, w->locale);
  } else if (mask != w->mask) {
    changed = "the file mode mask (umask)";
    (void)umask(w->mask);
  } else if (environment != w->environment) {
    changed = "the environment";
    w->environment = environment;
  }
  if (changed != NULL)
    (void)snprintf(out, size, "the kernel changed %s", changed);
  return changed == NULL;
}

/* True for a message of a sanitizer, "==4711==WARNING: ...", about the program
 * that is tested. Its errors end the process. */
static inline bool tn_watch_is_sanitizer(const char *text) {
  const size_t digits = strspn(text + strspn(text, "="), "0123456789");
  return strncmp(text, "==", 2) == 0 && digits > 0 &&
         strncmp(text + 2 + digits, "==WARNING: ", 11) == 0;
}

/* Reads the output to a descriptor that is a file, which is emptied. */
static inline bool tn_watch_check_printed(int fd, char *out, size_t size) {
  char text[64];
  const off_t all = lseek(fd, 0, SEEK_END);
  if (all <= 0) return true;
  const ssize_t n = pread(fd, text, sizeof text - 1, 0);
  text[n > 0 ? n : 0] = '\0';
  text[strcspn(text, "\n")] = '\0';
  (void)snprintf(out, size, "the kernel printed to descriptor %d: %s", fd,
                 text);
  if (ftruncate(fd, 0) == 0) (void)lseek(fd, 0, SEEK_SET);
  return tn_watch_is_sanitizer(text);
}

/* Forgets the output of constructors and of `init`. */
static inline void tn_watch_empty_printed(void) {
  (void)fflush(NULL);
  for (int fd = 1; fd <= 2; ++fd)
    if (ftruncate(fd, 0) == 0) (void)lseek(fd, 0, SEEK_SET);
}

static inline bool tn_watch_check_children(char *out, size_t size) {
  int status = 0;
  if (waitpid(-1, &status, WNOHANG) < 0) return true; /* there are none */
  (void)snprintf(out, size, "the kernel left a process running");
  return false;
}

/* Compares the state with the snapshot. False, with the first difference in
 * `out`, if the tested code changed something. */
static inline bool tn_watch_check(tn_watch *w, char *out, size_t size) {
  const char *arithmetic = tn_watch_check_float(w);
  if (arithmetic != NULL) {
    (void)snprintf(out, size, "the kernel changed %s of the calling thread",
                   arithmetic);
    return false;
  }
  (void)fflush(stdout);
  (void)fflush(stderr);
  return tn_watch_check_files(w, out, size) &&
         tn_watch_check_printed(STDOUT_FILENO, out, size) &&
         tn_watch_check_printed(STDERR_FILENO, out, size) &&
         tn_watch_check_signals(w, out, size) &&
         tn_watch_check_folder(w, out, size) &&
         tn_watch_check_settings(w, out, size) &&
         tn_watch_check_children(out, size);
}

/* ------------------------------------------------------------------- growth */

/* Bytes that the C library has handed out and not got back; 0 where it does not
 * tell. */
static inline uint64_t tn_watch_allocated(void) {
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 33)
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
#else
  return 0;
#endif
}

/* How many descriptors are open, of the first ones. */
static inline int tn_watch_count_files(void) {
  int n = 0;
  for (int i = 0; i < TN_WATCH_COUNTED; ++i) n += fcntl(i, F_GETFD) >= 0;
  return n;
}

#endif /* TENON_TEST_WATCH_H_ */
