/* SPDX-License-Identifier: Apache-2.0
 * trial_state.c: compares the parts of the process's state that a call must not
 * change: floating-point control, signal handlers, locale, folder, umask,
 * environment, open files, and the standard output.
 */
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "floating.h"
#include "trial_child.h"

enum {
  MOST_FILES = 256, /* the limit of contain.c */
  N_SIGNALS = 64,
  PRINTED_FD = 200 /* the file that receives standard output from here on */
};

extern char **environ;

/* One open file. */
typedef struct file_identity {
  bool open;
  dev_t device;
  ino_t inode;
} file_identity;

typedef struct process_state {
  tn__floating control;
  uint64_t n_replaced; /* modes that the core has restored after a kernel */
  struct sigaction handlers[N_SIGNALS + 1];
  char locale[512];
  char folder[512];
  mode_t mask;
  uint64_t environment;
  file_identity files[MOST_FILES];
} process_state;

static process_state noted;
static int printed = -1;

/* --------------------------------------------------- floating-point control */

#if defined(__x86_64__)
static const char *name_control(const tn__floating *a, const tn__floating *b) {
  const uint32_t changed = a->sse ^ b->sse;
  if ((changed & 0x8040u) != 0) return "flushing of denormals";
  return (changed & 0x6000u) != 0 ? "rounding" : "floating-point control";
}
#else
static const char *name_control(const tn__floating *a, const tn__floating *b) {
  (void)a, (void)b;
  return "floating-point control";
}
#endif

/* The core restores the mode after a kernel; other code of a plugin may change
 * it. */
static void compare_control(const tn__floating *now) {
  const tn__floating_log *log = tn__floating_replaced();
  const tn__floating *left = log->n != noted.n_replaced ? &log->last : now;
  if (tn__floating_differs(left, &noted.control))
    trial_find("E0205", "it changes the %s of the calling thread",
               name_control(left, &noted.control));
}

/* ------------------------------------------------------------------- noting */

static uint64_t hash_environment(void) {
  uint64_t hash = 0;
  for (char **each = environ; each != NULL && *each != NULL; ++each)
    hash = hash * 31 + tn__hash(*each, strlen(*each));
  return hash;
}

static file_identity identify_file(int fd) {
  struct stat about;
  if (fstat(fd, &about) != 0) return (file_identity){0};
  return (file_identity){true, about.st_dev, about.st_ino};
}

static void note_state(process_state *s) {
  *s = (process_state){.control = tn__floating_get(),
                       .n_replaced = tn__floating_replaced()->n};
  for (int i = 1; i <= N_SIGNALS; ++i)
    (void)sigaction(i, NULL, &s->handlers[i]);
  const char *locale = setlocale(LC_ALL, NULL);
  (void)snprintf(s->locale, sizeof s->locale, "%s",
                 locale != NULL ? locale : "");
  if (getcwd(s->folder, sizeof s->folder) == NULL) s->folder[0] = '\0';
  s->mask = umask(0);
  (void)umask(s->mask);
  s->environment = hash_environment();
  for (int i = 0; i < MOST_FILES; ++i) s->files[i] = identify_file(i);
}

/* Empties the file of printed text. */
static void empty_printed(void) {
  (void)fflush(NULL);
  if (ftruncate(printed, 0) == 0) (void)lseek(printed, 0, SEEK_SET);
}

void trial_state_note(void) {
  empty_printed();
  note_state(&noted);
}

bool trial_state_open(void) {
  const int fd = memfd_create("printed", MFD_CLOEXEC);
  if (fd < 0) return false;
  printed = fcntl(fd, F_DUPFD_CLOEXEC, PRINTED_FD);
  (void)close(fd);
  return printed >= 0 && dup2(printed, STDOUT_FILENO) >= 0 &&
         dup2(printed, STDERR_FILENO) >= 0;
}

/* ---------------------------------------------------------------- comparing */

static void compare_handlers(const process_state *now) {
  for (int i = 1; i <= N_SIGNALS; ++i) {
    const struct sigaction *a = &noted.handlers[i], *b = &now->handlers[i];
    if (a->sa_handler == b->sa_handler && a->sa_flags == b->sa_flags) continue;
    const char *name = sigabbrev_np(i);
    trial_find("E0207", "it changes the handler of SIG%s",
               name != NULL ? name : "RT");
    return;
  }
}

static void compare_files(const process_state *now, bool may_open) {
  for (int i = 0; i < MOST_FILES; ++i) {
    const file_identity *a = &noted.files[i], *b = &now->files[i];
    if (a->open && !b->open)
      trial_find("E0207", "it closes descriptor %d", i);
    else if (!a->open && b->open && !may_open)
      trial_find("E0207", "it leaves descriptor %d open", i);
    else if (a->open && (a->device != b->device || a->inode != b->inode))
      trial_find("E0207", "it replaces descriptor %d", i);
  }
}

/* The first line that was printed; empties the file. */
static void compare_printed(void) {
  char text[72];
  (void)fflush(NULL);
  const ssize_t n = pread(printed, text, sizeof text - 1, 0);
  if (n <= 0) return;
  text[n] = '\0';
  text[strcspn(text, "\n")] = '\0';
  for (char *c = text; *c != '\0'; ++c)
    if ((unsigned char)*c < ' ' || *c == 0x7f) *c = '?';
  trial_find("E0206", "it prints `%s`", text);
  empty_printed();
}

void trial_state_compare(bool may_open) {
  const tn__floating control = tn__floating_get();
  process_state now;
  tn__floating_set(&noted.control, &control);
  compare_control(&control);
  note_state(&now);
  compare_printed();
  compare_handlers(&now);
  if (strcmp(now.locale, noted.locale) != 0)
    trial_find("E0207", "it changes the locale to %s", now.locale);
  if (strcmp(now.folder, noted.folder) != 0)
    trial_find("E0207", "it changes the current folder to %s", now.folder);
  if (now.mask != noted.mask)
    trial_find("E0207", "it changes the umask to %03o", (unsigned)now.mask);
  if (now.environment != noted.environment)
    trial_find("E0207", "it changes the environment");
  compare_files(&now, may_open);
  noted = now;
}
