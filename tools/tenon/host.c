/* SPDX-License-Identifier: Apache-2.0
 * host.c: a runtime with the plugins that a command wants. The only place that
 * reads the environment.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tenon_tool.h"

/* Receives the library's log. Warnings do not belong to a command's output, and
 * are kept until it is known whether they matter. TENON_LOG has requested all
 * other lines. */
static void keep_warning(void *ctx, int32_t level, const char *line) {
  host *h = (host *)ctx;
  if (level > TN_LOG_WARNING)
    fprintf(stderr, "tenon: %s\n", line);
  else
    text_add(&h->warnings, "tenon: warning: %s\n", line);
}

static void print_warnings(host *h) {
  text_print(&h->warnings, stderr);
  text_deinit(&h->warnings);
}

/* The library reads no environment, so its message names its own option. */
static bool fail_create(text *why) {
  static const char option[] = "tn_options.log_levels";
  const char *message = tn_error_text();
  if (strncmp(message, option, sizeof option - 1) != 0)
    return fail_library(why);
  return report_failure(why, "TENON_LOG%s", message + sizeof option - 1);
}

bool host_open(host *h, const arguments *args, uint32_t n_cpus, text *why) {
  /* A command that names a plugin loads all of its operators and kernels. */
  const tn_options options = {.struct_size = sizeof options,
                              .trust = args->n_plugins ? TN_TRUST_REPLACE : 0,
                              .seed = args->seed,
                              .n_cpus = n_cpus,
                              .log = keep_warning,
                              .log_ctx = h,
                              .log_level = TN_LOG_WARNING,
                              .log_levels = secure_getenv("TENON_LOG")};
  *h = (host){0};
  return !tn_runtime_create(&options, &h->rt) || fail_create(why);
}

bool host_print_state(const host *h, const arguments *args, text *why) {
  tn_text *json = NULL;
  if (!(args->given & OPTION_STATE)) return true;
  if (tn_runtime_json(h->rt, &json)) return fail_library(why);
  fputs(tn_text_get(json), stderr);
  tn_text_release(json);
  return true;
}

/* Prints why plugins of a folder were refused: the library logs most of it, but
 * says some of it, such as a malformed path, in its error text only. */
static void warn_of(host *h, tn_code code) {
  if (code && !h->warnings.n) keep_warning(h, TN_LOG_WARNING, tn_error_text());
  print_warnings(h);
}

const char host_hint[] =
    "--plugin FILE loads one, and so do the folders of the environment "
    "variable TENON_PLUGIN_PATH";

/* The user's own plugins. A program that runs with the rights of another user
 * has no user folder: it would let its caller run code with these rights. */
static void load_user_folder(host *h) {
  const char *home = secure_getenv("HOME");
  text path = {0};
  if (getuid() != geteuid() || getgid() != getegid()) return;
  if (!home || *home != '/') return;
  text_add(&path, "%s/.local/lib/tenon", home);
  if (strchr(home, ':'))
    fprintf(stderr,
            "tenon: warning: %s is not searched: a folder of plugins has no "
            "`:` in its name\n",
            text_get(&path));
  else if (!path.failed && access(text_get(&path), F_OK) == 0)
    warn_of(h, tn_plugins_load_path(h->rt, text_get(&path)));
  text_deinit(&path);
}

static void load_folders(host *h) {
  tn_code code = tn_plugins_load_standard(h->rt);
  /* There is no such folder where no plugin is installed. */
  if (code == TN_NOT_FOUND) text_deinit(&h->warnings);
  if (code != TN_NOT_FOUND) warn_of(h, code);
  load_user_folder(h);
  const char *path = secure_getenv("TENON_PLUGIN_PATH");
  if (path && *path) warn_of(h, tn_plugins_load_path(h->rt, path));
}

/* Whether this very file came in from a folder. */
static bool is_loaded(const host *h, const char *file) {
  char real[PATH_MAX];
  tn_plugin_info info;
  if (!realpath(file, real)) return false;
  for (size_t i = 0; !tn_plugin_at(h->rt, i, &info); ++i)
    if (!strcmp(info.path, real)) return true;
  return false;
}

bool host_load(host *h, const arguments *args, text *why) {
  load_folders(h);
  for (size_t i = 0; i < args->n_plugins; ++i) {
    if (is_loaded(h, args->plugins[i])) continue;
    if (tn_plugin_load(h->rt, args->plugins[i])) return fail_library(why);
  }
  return true;
}

void host_close(host *h) {
  tn_runtime_release(h->rt);
  print_warnings(h);
  h->rt = NULL;
}
