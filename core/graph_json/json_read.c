/* SPDX-License-Identifier: Apache-2.0
 * json_read.c: reads JSON into a graph. Files are not trusted: the text is read
 * once from start to end, nodes may refer only to earlier nodes, the depth of
 * nested graphs is bounded, and memory is proportional to the text. After the
 * first name that the registry does not have, reading continues without making
 * nodes, so that one message has all missing names (json_missing.c).
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "gradient.h"
#include "json.h"

/* ---------------------------------------------------------------- messages */

tn_code tn__json_fail_at(const tn__graph_reader *r, const char *at,
                         uint64_t line, const char *what) {
  return tn__fail(TN_INVALID, "line %" PRIu64 " (byte %zu): %s", line + 1,
                  (size_t)(at - r->json.text), what);
}

static tn_code fail_expected(const tn__json *json, const char *what) {
  char text[200];
  (void)snprintf(text, sizeof text, "expected %s", what);
  return tn__json_fail_at((const tn__graph_reader *)json, json->at, json->line,
                          text);
}

/* Adds the place of the node to the current message. The mistakes of a file
 * become TN_INVALID; missing memory stays TN_OUT_OF_MEMORY. */
static tn_code fail_node(const tn__graph_reader *r, const tn__node_draft *d,
                         tn_code code) {
  if (code == TN_OUT_OF_MEMORY) return code;
  if (!(d->seen & TN__KEY_NAME))
    return tn__json_fail_at(r, d->at, d->line, tn_error_text());
  return tn__fail(TN_INVALID, "line %" PRIu64 " (byte %zu), node `%.200s`: %s",
                  d->line + 1, (size_t)(d->at - r->json.text), d->name,
                  tn_error_text());
}

/* -------------------------------------------------------------------- nodes */

/* Number of lists of a draft. */
enum { N_LISTS = 8 };

static void list_draft_buffers(tn__node_draft *d, tn__buf **to) {
  tn__buf *const lists[N_LISTS] = {&d->in,        &d->flags,     &d->states,
                                   &d->sequences, &d->carried,   &d->kept,
                                   &d->after,     &d->attributes};
  memcpy(to, lists, sizeof lists);
}

static void init_draft(tn__node_draft *d, const tn__env *env) {
  tn__buf *lists[N_LISTS];
  *d = (tn__node_draft){0};
  list_draft_buffers(d, lists);
  for (int i = 0; i < N_LISTS; ++i) tn__buf_init(lists[i], env);
}

static void deinit_draft(tn__node_draft *d) {
  tn__buf *lists[N_LISTS];
  list_draft_buffers(d, lists);
  for (int i = 0; i < N_LISTS; ++i) tn__buf_deinit(lists[i]);
  tn__graph_release(d->inner);
}

/* Empties the lists and keeps their memory. */
static void begin_draft(tn__graph_reader *r, tn__node_draft *d) {
  tn__buf *lists[N_LISTS];
  list_draft_buffers(d, lists);
  for (int i = 0; i < N_LISTS; ++i) lists[i]->n = 0;
  d->at = r->json.at - 1;
  d->line = r->json.line;
  d->seen = 0;
  d->kind = TN__NODE_VARIABLE;
  d->name = d->op = d->params = NULL;
  d->of = TN_NONE;
  d->reverse = false;
  d->known = tn__sig_unknown();
}

static bool has_failed_list(tn__node_draft *d) {
  tn__buf *lists[N_LISTS];
  bool failed = false;
  list_draft_buffers(d, lists);
  for (int i = 0; i < N_LISTS; ++i) failed = failed || lists[i]->failed;
  return failed;
}

/* Checks only the operator of a draft, because a name is already missing. The
 * node is not made, since its inputs may be missing too. */
static tn_code check_draft_operator(tn__graph_reader *r,
                                    const tn__node_draft *d) {
  if (d->kind != TN__NODE_CALL || !d->op ||
      tn__operator_exists(r->caller->registry, d->op))
    return TN_OK;
  return tn__json_note_missing_operator(r, d);
}

/* Adds the node of a draft with all keys to the graph. If its operator is
 * missing, notes that for the message. */
static tn_code finish_draft(tn__graph_reader *r, tn__graph_level *l) {
  tn__node_draft *d = &l->draft;
  tn_code rc = TN_OK;
  if (has_failed_list(d)) return tn__fail_memory(d->in.n, "a node of a graph");
  if (r->n_missing > 0) {
    rc = check_draft_operator(r, d);
  } else {
    rc = tn__draft_add_node(d, l->graph);
    if (rc == TN_NOT_FOUND) rc = tn__json_note_missing_operator(r, d);
    if (rc != TN_OK) rc = fail_node(r, d, rc);
  }
  tn__graph_release(d->inner);
  d->inner = NULL;
  ++l->n_nodes;
  return rc;
}

static tn_code read_node_item(tn__graph_reader *r, tn__graph_level *l,
                              void *to) {
  (void)to;
  TN__TRY(tn__json_expect(&r->json, '{'));
  begin_draft(r, &l->draft);
  do TN__TRY(tn__json_node_key(r, l));
  while (tn__json_take(&r->json, ','));
  TN__TRY(tn__json_expect(&r->json, '}'));
  return finish_draft(r, l);
}

/* ------------------------------------------------------------------- graphs */

static tn_code read_heads(tn__graph_reader *r, tn__graph_level *l) {
  tn__buf heads;
  tn__buf_init(&heads, r->env);
  tn_code rc = tn__json_list(r, l, tn__json_entry_item, &heads);
  if (rc == TN_OK && heads.failed)
    rc = tn__fail_memory(heads.n, "the heads of a graph");
  if (rc == TN_OK && r->n_missing == 0)
    rc = tn__graph_heads_set(l->graph, TN__LIST(tn_entry, heads),
                             TN__LENGTH(tn_entry, heads));
  tn__buf_deinit(&heads);
  return rc;
}

/* Checks that the graph has the keys "nodes" and "heads", and that its BACKWARD
 * nodes have all needed operands. */
static tn_code end_level(tn__graph_reader *r, const tn__graph_level *l,
                         uint32_t seen) {
  if ((seen & 3) != 3)
    return tn__json_fail(&r->json, "the keys `nodes` and `heads`");
  if (r->n_missing > 0) return TN_OK;
  const tn_code rc = tn__gradients_check(l->graph);
  if (rc != TN_INVALID) return rc;
  return tn__json_fail_at(r, r->json.at, r->json.line, tn_error_text());
}

static tn_code read_inner_members(tn__graph_reader *r, tn__graph_level *l) {
  static const char *const keys[] = {"nodes", "heads"};
  uint32_t seen = 0, k = 0;
  TN__TRY(tn__json_expect(&r->json, '{'));
  do {
    TN__TRY(tn__json_key_of(r, keys, 2, &seen, &k));
    TN__TRY(k == 0 ? tn__json_list(r, l, read_node_item, NULL)
                   : read_heads(r, l));
  } while (tn__json_take(&r->json, ','));
  TN__TRY(tn__json_expect(&r->json, '}'));
  return end_level(r, l, seen);
}

tn_code tn__json_inner(tn__graph_reader *r, tn__graph_level *l) {
  tn__graph_level inside = {.depth = l->depth + 1};
  if (inside.depth > TN__JSON_DEPTH)
    return tn__json_fail(&r->json, "graphs in graphs at most 32 deep");
  TN__TRY(tn__graph_create(r->caller, &inside.graph));
  init_draft(&inside.draft, r->env);
  const tn_code rc = read_inner_members(r, &inside);
  deinit_draft(&inside.draft);
  l->draft.inner = inside.graph;
  return rc;
}

/* ------------------------------------------------------------------ plugins */

/* One plugin of the file's list. */
typedef struct needed {
  const char *name;
  uint32_t release;
  const char *hash;
} needed;

static void compare_plugin(const tn__graph_reader *r, const needed *n,
                           const tn_plugin *plugin) {
  char hash[24];
  (void)snprintf(hash, sizeof hash, "%016" PRIx64, plugin->manifest_hash);
  if (n->release == plugin->release && strcmp(n->hash, hash) == 0) return;
  tn__log(r->env, TN__LOG_GRAPH, TN_LOG_WARNING,
          "the graph was saved with plugin `%s` release %" PRIu32
          " (%.40s), but release %" PRIu32
          " (%s) is loaded; its results may differ",
          n->name, n->release, n->hash, plugin->release, hash);
}

static void check_plugin(tn__graph_reader *r, const needed *n) {
  char detail[40];
  tn_plugin_info info;
  for (size_t i = 0; !tn__plugin_at(r->caller->registry, i, &info); ++i)
    if (strcmp(info.plugin->name, n->name) == 0) {
      compare_plugin(r, n, info.plugin);
      return;
    }
  (void)snprintf(detail, sizeof detail, " (release %" PRIu32 ")", n->release);
  tn__json_note_missing(r, "plugin", n->name, detail);
}

static tn_code read_plugin_item(tn__graph_reader *r, tn__graph_level *l,
                                void *to) {
  static const char *const keys[] = {"name", "release", "hash"};
  uint32_t seen = 0, k = 0;
  needed n = {0};
  (void)l;
  (void)to;
  TN__TRY(tn__json_expect(&r->json, '{'));
  do {
    TN__TRY(tn__json_key_of(r, keys, 3, &seen, &k));
    TN__TRY(k == 1 ? tn__json_number32(r, &n.release)
                   : tn__json_string(&r->json, k == 0 ? &n.name : &n.hash));
  } while (tn__json_take(&r->json, ','));
  TN__TRY(tn__json_expect(&r->json, '}'));
  if (seen != 7)
    return tn__json_fail(&r->json, "the keys `name`, `release` and `hash`");
  check_plugin(r, &n);
  return TN_OK;
}

/* ---------------------------------------------------------------- the whole */

/* Reads the version, which is the first key. So files of other releases and of
 * other libraries are recognised before their differences cause other messages.
 */
static tn_code read_version(tn__graph_reader *r) {
  const char *name = NULL;
  uint32_t version = 0;
  char text[200];
  TN__TRY(tn__json_expect(&r->json, '{'));
  TN__TRY(tn__json_key(r, &name));
  if (strcmp(name, "tenon") != 0)
    return tn__json_fail_at(
        r, r->json.at, r->json.line,
        "the first key of a graph is `tenon`, the version of the "
        "format; files of other libraries are not read");
  TN__TRY(tn__json_number32(r, &version));
  if (version == TN__JSON_VERSION) return TN_OK;
  (void)snprintf(text, sizeof text,
                 "this is version %" PRIu32
                 " of the format, but %d is read; %s",
                 version, TN__JSON_VERSION,
                 version == 0 ? "no release has written 0"
                              : "read it with a newer release");
  return tn__json_fail_at(r, r->json.at, r->json.line, text);
}

static tn_code read_file_members(tn__graph_reader *r, tn__graph_level *l) {
  static const char *const keys[] = {"nodes", "heads", "plugins", "tenon"};
  enum { VERSION = 1u << 3 }; /* the key was read */
  uint32_t seen = VERSION, k = 0;
  TN__TRY(read_version(r));
  while (tn__json_take(&r->json, ',')) {
    TN__TRY(tn__json_key_of(r, keys, 4, &seen, &k));
    if (k == 0)
      TN__TRY(tn__json_list(r, l, read_node_item, NULL));
    else if (k == 1)
      TN__TRY(read_heads(r, l));
    else
      TN__TRY(tn__json_list(r, l, read_plugin_item, NULL));
  }
  TN__TRY(tn__json_expect(&r->json, '}'));
  TN__TRY(tn__json_end(&r->json));
  TN__TRY(end_level(r, l, seen & ~(uint32_t)VERSION));
  return tn__json_check_found(r);
}

/* Parses a text of `bytes` bytes and a NUL after them; overwrites the text
 * while it parses. */
static tn_code parse_text(tn__caller *caller, char *text, size_t bytes,
                          tn_graph **out) {
  tn__graph_reader r = {.json = {text, text, text + bytes, 0, fail_expected},
                        .caller = caller,
                        .env = caller->env};
  tn__graph_level l = {.depth = 1};
  TN__TRY(tn__graph_create(caller, &l.graph));
  tn__buf_init(&r.missing, r.env);
  tn__buf_init(&r.unknown, r.env);
  init_draft(&l.draft, r.env);
  const tn_code rc = read_file_members(&r, &l);
  deinit_draft(&l.draft);
  tn__buf_deinit(&r.missing);
  tn__buf_deinit(&r.unknown);
  tn__map_deinit(r.env, &r.missing_names);
  if (rc == TN_OK)
    *out = l.graph;
  else
    tn__graph_release(l.graph);
  return rc;
}

tn_code tn__graph_parse(tn__caller *caller, const char *json, size_t bytes,
                        tn_graph **out) {
  *out = NULL;
  char *text = bytes < SIZE_MAX ? tn__alloc(caller->env, bytes + 1) : NULL;
  if (!text) return tn__fail_memory(bytes, "a graph as JSON");
  if (bytes > 0) memcpy(text, json, bytes);
  text[bytes] = '\0';
  const tn_code rc = parse_text(caller, text, bytes, out);
  tn__free(caller->env, text);
  return rc;
}

/* --------------------------------------------------------------- from files */

#define MAX_BYTES ((uint64_t)1 << 32)

static tn_code parse_file(tn__caller *caller, const tn__spot *spot,
                          tn_graph **out) {
  const uint64_t bytes = spot->file->size;
  if (bytes > MAX_BYTES)
    return tn__fail(TN_INVALID, "a graph has at most 2^32 bytes, not %" PRIu64,
                    bytes);
  char *text = tn__alloc(caller->env, (size_t)bytes + 1);
  if (!text) return tn__fail_memory((size_t)bytes, "a graph as JSON");
  text[bytes] = '\0';
  tn_code rc = tn__file_read(spot, 0, text, (size_t)bytes);
  const bool was_read = rc == TN_OK;
  if (was_read) rc = parse_text(caller, text, (size_t)bytes, out);
  tn__free(caller->env, text);
  if (rc == TN_OK || !was_read) return rc;
  return tn__fail(rc, "%s: %s", spot->file->path, tn_error_text());
}

tn_code tn__graph_load(tn__caller *caller, const char *path, tn_graph **out) {
  tn__file file;
  const tn__spot spot = {&file, NULL};
  *out = NULL;
  TN__TRY(tn__file_open(caller->env, path, &file));
  const tn_code rc = parse_file(caller, &spot, out);
  tn__file_close(&file);
  return rc;
}
