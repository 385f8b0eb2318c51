/* SPDX-License-Identifier: Apache-2.0
 * git.c: reads folders of old revisions, with the user's own git: `git ls-tree`
 * lists the files, `git show` prints their contents. Arguments go to git
 * without a shell, and a revision that looks like an option is refused.
 */
#include "git.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "manifest.h"

extern char **environ;

static bool report_failure(const char *what) {
  fprintf(stderr, "opgen: cannot %s: %s\n", what, strerror(errno));
  return false;
}

/* Runs git with its stdout going to `fd`, which is closed here. */
static bool spawn_git(char *const argv[], int fd, pid_t *pid) {
  posix_spawn_file_actions_t actions;
  if (posix_spawn_file_actions_init(&actions) != 0)
    return report_failure("run git");
  (void)posix_spawn_file_actions_adddup2(&actions, fd, STDOUT_FILENO);
  errno = posix_spawnp(pid, "git", &actions, NULL, argv, environ);
  const bool fine = errno == 0;
  (void)posix_spawn_file_actions_destroy(&actions);
  return fine || report_failure("run git");
}

static bool has_ended_well(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0)
    if (errno != EINTR) return report_failure("wait for git");
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool read_all(int fd, tn__buf *out) {
  char chunk[4096];
  for (;;) {
    const ssize_t n = read(fd, chunk, sizeof chunk);
    if (n > 0) tn__buf_bytes(out, chunk, (size_t)n);
    if (n == 0) return !out->failed;
    if (n < 0 && errno != EINTR) return report_failure("read from git");
  }
}

/* Reads the output of git. Its error messages go to stderr directly. */
static bool run_git(char *const argv[], tn__buf *out) {
  int ends[2];
  pid_t pid = 0;
  if (pipe2(ends, O_CLOEXEC) != 0) return report_failure("make a pipe");
  const bool started = spawn_git(argv, ends[1], &pid);
  (void)close(ends[1]);
  bool fine = started && read_all(ends[0], out);
  (void)close(ends[0]);
  if (started) fine = has_ended_well(pid) && fine;
  return fine;
}

static bool is_manifest(const char *name) {
  const size_t n = strlen(name);
  return n > 5 && strcmp(name + n - 5, ".yaml") == 0;
}

static bool write_file(const char *path, const tn__buf *text) {
  FILE *file = fopen(path, "wb");
  if (file == NULL) return report_failure("write a file of git's");
  const bool written = fwrite(text->s, 1, text->n, file) == text->n;
  return (fclose(file) == 0 && written) ||
         report_failure("write a file of git's");
}

/* Exports one file with a name from `git ls-tree`. */
static bool export_file(const char *revision, const char *name,
                        const char *to) {
  const char *slash = strrchr(name, '/');
  char object[PATH_MAX], path[PATH_MAX];
  char *argv[] = {"git", "show", object, NULL};
  const int a = snprintf(object, sizeof object, "%s:./%s", revision, name);
  const int b = snprintf(path, sizeof path, "%s/%s", to,
                         slash != NULL ? slash + 1 : name);
  if (a < 0 || b < 0 || (size_t)a >= sizeof object || (size_t)b >= sizeof path)
    return false;
  tn__buf text;
  tn__buf_init(&text, tn__env_default());
  const bool fine = run_git(argv, &text) && write_file(path, &text);
  tn__buf_deinit(&text);
  return fine;
}

bool git_export(const char *revision, const char *folder, const char *to) {
  char rev[PATH_MAX], where[PATH_MAX];
  char *argv[] = {"git", "ls-tree", "-z",  "--name-only",
                  rev,   "--",      where, NULL};
  const int a = snprintf(rev, sizeof rev, "%s", revision);
  const int b = snprintf(where, sizeof where, "%s/", folder);
  if (*revision == '-' || *revision == '\0' || a < 0 || b < 0 ||
      (size_t)a >= sizeof rev || (size_t)b >= sizeof where) {
    fprintf(stderr, "opgen: `%s` is no revision of git\n", revision);
    return false;
  }
  tn__buf names;
  tn__buf_init(&names, tn__env_default());
  bool fine = run_git(argv, &names);
  if (fine && names.n == 0) {
    fprintf(stderr, "opgen: `%s` is not in revision `%s`\n", folder, revision);
    fine = false;
  }
  for (size_t i = 0; fine && i < names.n; i += strlen(names.s + i) + 1)
    if (is_manifest(names.s + i)) fine = export_file(revision, names.s + i, to);
  tn__buf_deinit(&names);
  return fine;
}

void git_remove(const char *folder) {
  DIR *dir = opendir(folder);
  const struct dirent *entry = NULL;
  while (dir != NULL && (entry = readdir(dir)) != NULL)
    (void)unlinkat(dirfd(dir), entry->d_name, 0);
  if (dir != NULL) (void)closedir(dir);
  (void)rmdir(folder);
}
