/* SPDX-License-Identifier: Apache-2.0
 * diff_match.c: finds the equal items of two lists. An item has moved if it is
 * not in the longest subsequence that kept its order. So one item that moves
 * far is one change and not many.
 */
#include <string.h>

#include "diff.h"

static int64_t find_name(const char *const *names, uint32_t n,
                         const char *name) {
  for (uint32_t i = 0; i < n; ++i)
    if (strcmp(names[i], name) == 0) return i;
  return DIFF_GONE;
}

bool diff_match_init(diff *d, diff_match *m, diff_list old, diff_list new) {
  *m = (diff_match){.n_old = old.n, .n_new = new.n};
  m->to_new = tn__arena_alloc(d->arena, (old.n + 1u) * sizeof *m->to_new);
  m->to_old = tn__arena_alloc(d->arena, (new.n + 1u) * sizeof *m->to_old);
  m->moved = tn__arena_alloc(d->arena, (old.n + 1u) * sizeof *m->moved);
  m->loose_old = tn__arena_alloc(d->arena, old.n + 1u);
  m->loose_new = tn__arena_alloc(d->arena, new.n + 1u);
  if (d->arena->failed) return false;
  for (uint32_t i = 0; i < old.n; ++i)
    m->to_new[i] = find_name(new.names, new.n, old.names[i]);
  for (uint32_t i = 0; i < new.n; ++i)
    m->to_old[i] = find_name(old.names, old.n, new.names[i]);
  return true;
}

void diff_match_pair(diff_match *m, uint32_t old, uint32_t new) {
  m->to_new[old] = new;
  m->to_old[new] = old;
}

/* Lengths of the longest rising subsequences that end at each item, and the
 * item before it in each. */
static uint32_t longest_run(const diff_match *m, uint32_t *length,
                            uint32_t *from) {
  uint32_t best = UINT32_MAX;
  for (uint32_t i = 0; i < m->n_old; ++i) {
    length[i] = 0;
    from[i] = UINT32_MAX;
    if (m->to_new[i] == DIFF_GONE || m->loose_old[i]) continue;
    length[i] = 1;
    for (uint32_t k = 0; k < i; ++k) {
      if (length[k] == 0 || m->to_new[k] > m->to_new[i] ||
          length[k] + 1 <= length[i])
        continue;
      length[i] = length[k] + 1;
      from[i] = k;
    }
    if (best == UINT32_MAX || length[i] > length[best]) best = i;
  }
  return best;
}

bool diff_match_finish(diff *d, diff_match *m) {
  uint32_t *length =
      tn__arena_alloc(d->arena, (m->n_old + 1u) * sizeof *length);
  uint32_t *from = tn__arena_alloc(d->arena, (m->n_old + 1u) * sizeof *from);
  if (length == NULL || from == NULL) return false;
  for (uint32_t i = 0; i < m->n_old; ++i)
    m->moved[i] = m->to_new[i] != DIFF_GONE && !m->loose_old[i];
  for (uint32_t i = longest_run(m, length, from); i != UINT32_MAX; i = from[i])
    m->moved[i] = false;
  return true;
}

bool diff_is_last(const diff_match *m, uint32_t new) {
  for (uint32_t i = new + 1; i < m->n_new; ++i)
    if (m->to_old[i] != DIFF_GONE && !m->loose_new[i]) return false;
  return true;
}

/* -------------------------------------------------------------------- texts */

bool diff_is_same(const char *a, const char *b) {
  if (a == NULL || b == NULL) return a == b;
  return strcmp(a, b) == 0;
}

const char *diff_text(const char *text, const char *otherwise) {
  return text != NULL ? text : otherwise;
}

const char *diff_dtypes(diff *d, uint64_t set) {
  tn__buf buf;
  tn__buf_init(&buf, tn__env_default());
  tn__buf_dtypes(&buf, set);
  const char *text = tn__arena_text(d->arena, diff_text(buf.s, ""), buf.n);
  tn__buf_deinit(&buf);
  return diff_text(text, "");
}

/* ---------------------------------------------------------------- lifecycle */

void diff_lives(diff *d, const char *const *path, const char *what,
                diff_life old, diff_life new) {
  if (old.since != new.since)
    diff_add(d, DIFF_DOC, path, "since of %s changed %u -> %u", what, old.since,
             new.since);
  if (old.deprecated == 0 && new.deprecated != 0)
    diff_add(d, DIFF_OK, path, "%s deprecated since %u; use %s", what,
             new.deprecated, diff_text(new.use, "nothing"));
  else if (old.deprecated != 0 && new.deprecated == 0)
    diff_add(d, DIFF_DOC, path, "%s no longer deprecated", what);
  else if (old.deprecated != new.deprecated || !diff_is_same(old.use, new.use))
    diff_add(d, DIFF_DOC, path, "deprecation of %s reworded", what);
}

bool diff_since(diff *d, const char *const *path, const char *what,
                uint32_t since) {
  const uint32_t before = d->old->tables->release;
  if (since > before || d->new->tables->release <= before) return true;
  diff_add(d, DIFF_NOTE, path,
           "%s is new, but since %u says that release %u had it", what, since,
           before);
  return false;
}
