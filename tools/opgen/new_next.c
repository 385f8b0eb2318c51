/* SPDX-License-Identifier: Apache-2.0
 * new_next.c: prints the commands that an author types after `opgen new`, and
 * finds the installed programs and plugins for them.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "new.h"

/* --------------------------------------------------------- installed things */

static bool is_file(const char *path) {
  struct stat about;
  return stat(path, &about) == 0 && S_ISREG(about.st_mode);
}

/* Writes `folder`/`name``end` to `path`, which has PATH_MAX bytes; false if
 * there is no such file. */
static bool find_file(const char *folder, const char *name, const char *end,
                      char *path) {
  const int n = snprintf(path, PATH_MAX, "%s/%s%s", folder, name, end);
  return n > 0 && n < PATH_MAX && is_file(path);
}

bool new_is_installed(const char *plugin, char *path) {
  char beside[PATH_MAX], folder[PATH_MAX];
  if (!opgen_find_installed(OPGEN_PLUGINS, beside) ||
      realpath(beside, folder) == NULL)
    return false;
  return find_file(folder, plugin, ".so", path) ||
         find_file(folder, plugin, "/plugin.yaml", path);
}

/* Finds the file that a shell starts by this name; PATH_MAX bytes. */
static bool find_program(const char *name, char *path) {
  const char *folders = getenv("PATH");
  while (folders != NULL && *folders != '\0') {
    const size_t n = strcspn(folders, ":");
    char folder[PATH_MAX];
    if (n > 0 && n < sizeof folder) {
      memcpy(folder, folders, n);
      folder[n] = '\0';
      if (find_file(folder, name, "", path) && access(path, X_OK) == 0)
        return true;
    }
    folders += n + (folders[n] == ':' ? 1 : 0);
  }
  return false;
}

/* Finds the folder of tenon.pc; PATH_MAX bytes. */
static bool find_pkgconfig(char *folder) {
  char beside[PATH_MAX], file[PATH_MAX];
  return opgen_find_installed(OPGEN_PKGCONFIG, beside) &&
         realpath(beside, folder) != NULL &&
         find_file(folder, "tenon", ".pc", file);
}

/* ----------------------------------------------------------------- printing */

/* Prints a word in the syntax of a shell. */
static void print_word(const char *text) {
  static const char plain[] =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
      "_-+=:,.%@/";
  if (text[0] != '\0' && text[strspn(text, plain)] == '\0') {
    printf("%s", text);
    return;
  }
  printf("'");
  for (; *text != '\0'; ++text)
    *text == '\'' ? (void)printf("'\\''") : (void)putchar(*text);
  printf("'");
}

/* Tests whether a list such as PKG_CONFIG_PATH has the folder. */
static bool has_folder(const char *list, const char *folder) {
  const size_t n = strlen(folder);
  while (list != NULL && *list != '\0') {
    const size_t length = strcspn(list, ":");
    if (length == n && memcmp(list, folder, n) == 0) return true;
    list += length + (list[length] == ':' ? 1 : 0);
  }
  return false;
}

/* Prints the search path. Folders of the system need not be named. */
static void print_search_path(void) {
  const char *given = getenv("PKG_CONFIG_PATH");
  char folder[PATH_MAX];
  if (!find_pkgconfig(folder) || has_folder(given, folder) ||
      strncmp(folder, "/usr/lib", strlen("/usr/lib")) == 0)
    return;
  printf("  export PKG_CONFIG_PATH=");
  print_word(folder);
  printf("%s\n",
         given != NULL && *given != '\0' ? ":\"$PKG_CONFIG_PATH\"" : "");
}

/* Prints a program by its name if a shell finds it. */
static void print_tenon(void) {
  char beside[PATH_MAX], installed[PATH_MAX], found[PATH_MAX], real[PATH_MAX];
  const bool known = opgen_find_installed("tenon", beside) && is_file(beside) &&
                     realpath(beside, installed) != NULL;
  const bool in_path = find_program("tenon", found) &&
                       realpath(found, real) != NULL &&
                       (!known || strcmp(real, installed) == 0);
  print_word(known && !in_path ? installed : "tenon");
}

static void print_builds(void) {
  printf(
      "  meson compile -C build\n"
      "  meson test -C build\n");
}

/* Prints a note before the first build: nvcc is slow. */
static void print_nvcc_note(const new_next *next) {
  char nvcc[PATH_MAX];
  if (!next->has_cuda || !find_program("nvcc", nvcc)) return;
  printf(
      "%s will be used: it compiles build/%s.cuda.so, which is slow;\n"
      "  `meson setup build -Dcuda=disabled` builds without it\n",
      nvcc, next->plugin);
}

void new_next_print(const new_next *next) {
  print_nvcc_note(next);
  printf("next:\n");
  if (strcmp(next->dir, ".") != 0) {
    printf("  cd ");
    print_word(next->dir);
    printf("\n");
  }
  print_search_path();
  printf("  meson setup build\n");
  print_builds();
  printf("  ");
  print_tenon();
  if (next->is_bound)
    printf(" inspect plugin.yaml\n");
  else
    printf(" inspect build/%s.so\n", next->plugin);
}

void new_next_print_short(void) {
  printf("then:\n  meson setup --reconfigure build\n");
  print_builds();
}
