/* SPDX-License-Identifier: Apache-2.0
 * group.c: reads the devices of groups of nodes from a command line:
 * "left=cpu(1)".
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tenon_tool.h"

enum { MOST_IDS = 1024, MOST_CPUS = 64 };

/* "cpu(1)" or "cpu"; the first of its type where no number follows. */
static bool id_parse(const char *word, const char *at, int32_t *out,
                     text *why) {
  char *end = NULL;
  *out = 0;
  if (!*at) return true;
  if (*at != '(' || !isdigit((unsigned char)at[1]))
    return fail_at(why, word, at, "`(` and the number of a device is expected");
  errno = 0;
  const long n = strtol(at + 1, &end, 10);
  if (errno || n >= MOST_IDS)
    return fail_at(why, word, at + 1, "there are not so many devices");
  if (*end != ')' || end[1])
    return fail_at(why, word, end, "`)` is expected, and nothing behind it");
  *out = (int32_t)n;
  return true;
}

bool group_parse(const char *word, group_word *out, text *why) {
  const size_t n = strcspn(word, "=");
  *out = (group_word){0};
  if (n == 0 || !word[n] || !word[n + 1])
    return report_failure(
        why, "--group wants NAME=DEVICE, such as left=cpu(1), not `%s`", word);
  const char *device = word + n + 1;
  const size_t length = strcspn(device, "(");
  if (!id_parse(word, device + length, &out->id, why))
    return report_failure(why, "--group: %s", text_get(why));
  out->name = strndup(word, n);
  out->device = strndup(device, length);
  const bool is_cpu = length == 3 && !strncmp(device, "cpu", 3);
  if (!out->name || !out->device)
    report_failure(why, "out of memory");
  else if (is_cpu && out->id >= MOST_CPUS)
    report_failure(why,
                   "--group %s: there are at most %d cpus, cpu(0) to cpu(%d)",
                   word, MOST_CPUS, MOST_CPUS - 1);
  else
    return true;
  group_free(out);
  return false;
}

void group_free(group_word *group) {
  free(group->name);
  free(group->device);
  *group = (group_word){0};
}

uint32_t group_cpus(const group_word *groups, size_t n) {
  int32_t most = 0;
  for (size_t i = 0; i < n; ++i)
    if (!strcmp(groups[i].device, "cpu") && groups[i].id > most)
      most = groups[i].id;
  return (uint32_t)most + 1;
}

bool group_find(tn_runtime *rt, const group_word *group, tn_place *out,
                text *why) {
  tn_device_entry entry;
  for (size_t i = 0; !tn_device_at(rt, i, &entry); ++i)
    if (!strcmp(entry.name, group->device)) {
      *out = (tn_place){entry.device_type, group->id};
      return true;
    }
  return report_failure(
      why,
      "--group %s: there is no device `%s`; `tenon list devices` shows "
      "those there are",
      group->name, group->device);
}
