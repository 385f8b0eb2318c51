/* SPDX-License-Identifier: Apache-2.0
 * json_read.c: JSON becomes a graph. Files come from strangers: the text is
 * read once, from its begin, nodes may only speak of those before them, graphs
 * in graphs are bounded, and memory is proportional to the text. What the
 * registry lacks is collected, and reading goes on without making nodes, so
 * that one message names all of it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "json.h"

/* A text that is being read. */
typedef struct reader {
  tn__json json; /* first, so that `expected` finds the others */
  tn__caller *caller;
  const tn__env *env;
  tn__map lost_names; /* operators that are in `lost` */
  tn__buf lost;       /* what is not loaded, for the message */
  uint32_t n_lost;
  uint32_t n_unnamed; /* of them, those for which the message has no room */
} reader;

/* One of the graphs in it. */
typedef struct level {
  tn_graph *graph;
  uint32_t depth;
  uint32_t n_nodes; /* read so far; graph->nodes, unless something is lost */
  tn__draft draft;
} level;

/* ---------------------------------------------------------------- messages */

static tn_code fail_at(const reader *r, const char *at, uint64_t line,
                       const char *what) {
  return tn__fail(TN_INVALID, "line %" PRIu64 " (byte %zu): %s", line + 1,
                  (size_t)(at - r->json.text), what);
}

static tn_code expected(const tn__json *json, const char *what) {
  char text[200];
  (void)snprintf(text, sizeof text, "expected %s", what);
  return fail_at((const reader *)json, json->at, json->line, text);
}

/* The failure at hand, with its place. All that can be wrong with a file is
 * TN_INVALID; that memory runs out is not the file's fault. */
static tn_code node_failed(const reader *r, const tn__draft *d, tn_code code) {
  char why[TN__ERROR_MAX];
  if (code == TN_OUT_OF_MEMORY) return code;
  (void)snprintf(why, sizeof why, "%s", tn_error_text());
  if (!(d->seen & TN__KEY_NAME)) return fail_at(r, d->at, d->line, why);
  return tn__fail(TN_INVALID, "line %" PRIu64 " (byte %zu), node `%.200s`: %s",
                  d->line + 1, (size_t)(d->at - r->json.text), d->name, why);
}

/* ------------------------------------------------------------ what is lost */

enum { LOST_BYTES = 3500 }; /* of the message */

static void lose(reader *r, const char *what, const char *name,
                 const char *detail) {
  ++r->n_lost;
  if (r->lost.n + strlen(name) + strlen(detail) > LOST_BYTES) {
    ++r->n_unnamed;
    return;
  }
  tn__buf_add(&r->lost, "%s%s `%s`%s", r->lost.n > 0 ? ", " : "", what, name,
              detail);
}

static tn_code lose_operator(reader *r, const tn__draft *d) {
  char detail[256];
  if (tn__map_get(&r->lost_names, d->op)) return TN_OK;
  (void)snprintf(detail, sizeof detail, " (node `%.200s`)",
                 d->seen & TN__KEY_NAME ? d->name : "");
  lose(r, "operator", d->op, detail);
  return tn__map_set(r->env, &r->lost_names, d->op, r);
}

static tn_code all_found(const reader *r) {
  if (r->n_lost == 0) return TN_OK;
  if (r->lost.failed) return tn__fail_memory(LOST_BYTES, "a message");
  tn__fail(TN_NOT_FOUND, "the graph needs what is not loaded: %s",
           r->lost.s ? r->lost.s : "");
  if (r->n_unnamed > 0)
    tn__fail_more(TN_NOT_FOUND, ", and %" PRIu32 " more", r->n_unnamed);
  return tn__fail_more(TN_NOT_FOUND, "; load the plugins that have it first");
}

/* ------------------------------------------------------------------- values */

static tn_code number32(reader *r, uint32_t *out) {
  int64_t n = 0;
  TN__TRY(tn__json_number(&r->json, &n));
  if (n >= TN_NONE) return tn__json_fail(&r->json, "a number below 2^32 - 1");
  *out = (uint32_t)n;
  return TN_OK;
}

static tn_code boolean(reader *r, bool *out) {
  *out = tn__json_word(&r->json, "true");
  if (*out || tn__json_word(&r->json, "false")) return TN_OK;
  return tn__json_fail(&r->json, "true or false");
}

/* Reads one item of a list. */
typedef tn_code item_fn(reader *r, level *l, void *to);

static tn_code list(reader *r, level *l, item_fn *item, void *to) {
  TN__TRY(tn__json_want(&r->json, '['));
  if (tn__json_take(&r->json, ']')) return TN_OK;
  do TN__TRY(item(r, l, to));
  while (tn__json_take(&r->json, ','));
  return tn__json_want(&r->json, ']');
}

/* A member's key, and the colon behind it. */
static tn_code key(reader *r, const char **out) {
  TN__TRY(tn__json_string(&r->json, out));
  return tn__json_want(&r->json, ':');
}

/* Its number among `n` names; it may come once. */
static tn_code key_of(reader *r, const char *const *names, uint32_t n,
                      uint32_t *seen, uint32_t *out) {
  char text[200];
  const char *name = NULL;
  TN__TRY(key(r, &name));
  uint32_t k = 0;
  while (k < n && strcmp(names[k], name) != 0) ++k;
  *out = k;
  if (k < n && !(*seen & 1u << k)) {
    *seen |= 1u << k;
    return TN_OK;
  }
  const char *nearest = k < n ? NULL : tn__nearest(name, names, n);
  (void)snprintf(text, sizeof text, "%s `%.80s`%s%s%s",
                 k < n ? "there are two keys" : "there is no key", name,
                 nearest ? "; did you mean `" : "", nearest ? nearest : "",
                 nearest ? "`?" : "");
  return fail_at(r, r->json.at, r->json.line, text);
}

static tn_code index_item(reader *r, level *l, void *to) {
  uint32_t n = 0;
  (void)l;
  TN__TRY(number32(r, &n));
  tn__buf_bytes(to, &n, sizeof n);
  return TN_OK;
}

static tn_code node_number(reader *r, const level *l, uint32_t *out) {
  char what[100];
  TN__TRY(number32(r, out));
  if (*out < l->n_nodes) return TN_OK;
  (void)snprintf(what, sizeof what,
                 "the number of a node that comes before, below %" PRIu32,
                 l->n_nodes);
  return tn__json_fail(&r->json, what);
}

static tn_code after_item(reader *r, level *l, void *to) {
  uint32_t n = 0;
  TN__TRY(node_number(r, l, &n));
  tn__buf_bytes(to, &n, sizeof n);
  return TN_OK;
}

/* [node, output], or [node, output, "shape"]. */
static tn_code entry(reader *r, const level *l, tn_entry *out,
                     uint32_t *flags) {
  const char *word = "";
  TN__TRY(tn__json_want(&r->json, '['));
  TN__TRY(node_number(r, l, &out->node));
  TN__TRY(tn__json_want(&r->json, ','));
  TN__TRY(number32(r, &out->index));
  if (r->n_lost == 0 && out->index >= tn__node_at(l->graph, out->node)->n_out) {
    char what[100];
    (void)snprintf(what, sizeof what,
                   "an output of node %" PRIu32 ", below %" PRIu32, out->node,
                   tn__node_at(l->graph, out->node)->n_out);
    return tn__json_fail(&r->json, what);
  }
  if (flags && tn__json_take(&r->json, ',')) {
    TN__TRY(tn__json_string(&r->json, &word));
    if (strcmp(word, "shape") != 0) return tn__json_fail(&r->json, "\"shape\"");
    *flags = TN_IN_METADATA;
  }
  return tn__json_want(&r->json, ']');
}

/* Of heads and states. */
static tn_code entry_item(reader *r, level *l, void *to) {
  tn_entry e;
  TN__TRY(entry(r, l, &e, NULL));
  tn__buf_bytes(to, &e, sizeof e);
  return TN_OK;
}

static tn_code input_item(reader *r, level *l, void *to) {
  tn_entry e = TN_ENTRY_NONE;
  uint32_t flags = 0;
  if (!tn__json_word(&r->json, "null")) TN__TRY(entry(r, l, &e, &flags));
  tn__buf_bytes(to, &e, sizeof e);
  tn__buf_bytes(&l->draft.flags, &flags, sizeof flags);
  return TN_OK;
}

/* ------------------------------------------------------------ keys of nodes */

static tn_code read_name(reader *r, level *l) {
  return tn__json_string(&r->json, &l->draft.name);
}

static tn_code read_kind(reader *r, level *l) {
  const char *name = NULL;
  TN__TRY(tn__json_string(&r->json, &name));
  for (uint32_t k = 0; k < TN__N_KINDS; ++k) {
    l->draft.kind = k;
    if (strcmp(name, tn__node_kinds[k]) == 0) return TN_OK;
  }
  return tn__json_fail(&r->json,
                       "variable, call, backward, sum, zero, one, copy, graph "
                       "or loop");
}

static tn_code read_dtype(reader *r, level *l) {
  const char *name = NULL;
  TN__TRY(tn__json_string(&r->json, &name));
  return tn__dtype_parse(name, &l->draft.known.dtype)
             ? TN_OK
             : tn__json_fail(&r->json, "an element type, such as \"f32\"");
}

static tn_code dimension_item(reader *r, level *l, void *to) {
  tn_sig *sig = to;
  (void)l;
  if (sig->ndim == TN_MAX_NDIM)
    return tn__json_fail(&r->json, "at most 16 dimensions"); /* TN_MAX_NDIM */
  sig->shape[sig->ndim] = -1;
  if (!tn__json_word(&r->json, "null"))
    TN__TRY(tn__json_number(&r->json, &sig->shape[sig->ndim]));
  ++sig->ndim;
  return TN_OK;
}

static tn_code read_shape(reader *r, level *l) {
  l->draft.known.ndim = 0;
  return list(r, l, dimension_item, &l->draft.known);
}

static tn_code read_op(reader *r, level *l) {
  return tn__json_string(&r->json, &l->draft.op);
}

static tn_code read_params(reader *r, level *l) {
  return tn__json_string(&r->json, &l->draft.params);
}

static tn_code read_of(reader *r, level *l) {
  return node_number(r, l, &l->draft.of);
}

static tn_code read_inputs(reader *r, level *l) {
  return list(r, l, input_item, &l->draft.in);
}

static tn_code read_states(reader *r, level *l) {
  return list(r, l, entry_item, &l->draft.states);
}

static tn_code read_sequences(reader *r, level *l) {
  return list(r, l, index_item, &l->draft.sequences);
}

static tn_code read_carried(reader *r, level *l) {
  return list(r, l, index_item, &l->draft.carried);
}

static tn_code read_reverse(reader *r, level *l) {
  return boolean(r, &l->draft.reverse);
}

static tn_code read_after(reader *r, level *l) {
  return list(r, l, after_item, &l->draft.after);
}

static tn_code read_gradient(reader *r, level *l) {
  bool is = false;
  TN__TRY(boolean(r, &is));
  if (!is) l->draft.seen &= ~(uint32_t)TN__KEY_GRADIENT;
  return TN_OK;
}

static tn_code read_attributes(reader *r, level *l) {
  TN__TRY(tn__json_want(&r->json, '{'));
  if (tn__json_take(&r->json, '}')) return TN_OK;
  do {
    tn_attribute a;
    TN__TRY(key(r, &a.key));
    TN__TRY(tn__json_string(&r->json, &a.value));
    tn__buf_bytes(&l->draft.attributes, &a, sizeof a);
  } while (tn__json_take(&r->json, ','));
  return tn__json_want(&r->json, '}');
}

static tn_code read_inner(reader *r, level *l);

static tn_code (*const node_readers[TN__N_KEYS])(reader *, level *) = {
    read_name,   read_kind,      read_dtype,    read_shape,
    read_op,     read_params,    read_of,       read_inputs,
    read_states, read_sequences, read_carried,  read_reverse,
    read_inner,  read_after,     read_gradient, read_attributes};

/* -------------------------------------------------------------------- nodes */

enum { N_LISTS = 7 };

static void draft_lists(tn__draft *d, tn__buf **to) {
  tn__buf *const lists[N_LISTS] = {&d->in,        &d->flags,   &d->states,
                                   &d->sequences, &d->carried, &d->after,
                                   &d->attributes};
  memcpy(to, lists, sizeof lists);
}

static void draft_init(tn__draft *d, const tn__env *env) {
  tn__buf *lists[N_LISTS];
  *d = (tn__draft){0};
  draft_lists(d, lists);
  for (int i = 0; i < N_LISTS; ++i) tn__buf_init(lists[i], env);
}

static void draft_deinit(tn__draft *d) {
  tn__buf *lists[N_LISTS];
  draft_lists(d, lists);
  for (int i = 0; i < N_LISTS; ++i) tn__buf_deinit(lists[i]);
  tn__graph_release(d->inner);
}

/* Keeps the memory of lists. */
static void draft_begin(reader *r, tn__draft *d) {
  tn__buf *lists[N_LISTS];
  draft_lists(d, lists);
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

static bool draft_failed(tn__draft *d) {
  tn__buf *lists[N_LISTS];
  bool failed = false;
  draft_lists(d, lists);
  for (int i = 0; i < N_LISTS; ++i) failed = failed || lists[i]->failed;
  return failed;
}

/* Behind the first loss no node is made: what it reads is not there. */
static tn_code draft_look(reader *r, const tn__draft *d) {
  tn_operator *op = NULL;
  if (d->kind != TN__NODE_CALL || !d->op) return TN_OK;
  const tn_code rc = tn__operator_get(r->caller->registry, d->op, &op);
  return rc == TN_NOT_FOUND ? lose_operator(r, d) : rc;
}

static tn_code draft_end(reader *r, level *l) {
  tn__draft *d = &l->draft;
  tn_code rc = TN_OK;
  if (draft_failed(d)) return tn__fail_memory(d->in.n, "a node of a graph");
  if (r->n_lost > 0) {
    rc = draft_look(r, d);
  } else {
    rc = tn__draft_enter(d, l->graph);
    if (rc == TN_NOT_FOUND) rc = lose_operator(r, d);
    if (rc != TN_OK) rc = node_failed(r, d, rc);
  }
  tn__graph_release(d->inner);
  d->inner = NULL;
  ++l->n_nodes;
  return rc;
}

static tn_code node_item(reader *r, level *l, void *to) {
  uint32_t k = 0;
  (void)to;
  TN__TRY(tn__json_want(&r->json, '{'));
  draft_begin(r, &l->draft);
  do {
    TN__TRY(key_of(r, tn__draft_keys, TN__N_KEYS, &l->draft.seen, &k));
    TN__TRY(node_readers[k](r, l));
  } while (tn__json_take(&r->json, ','));
  TN__TRY(tn__json_want(&r->json, '}'));
  return draft_end(r, l);
}

/* ------------------------------------------------------------------- graphs */

static tn_code heads_read(reader *r, level *l) {
  tn__buf heads;
  tn__buf_init(&heads, r->env);
  tn_code rc = list(r, l, entry_item, &heads);
  if (rc == TN_OK && heads.failed)
    rc = tn__fail_memory(heads.n, "the heads of a graph");
  if (rc == TN_OK && r->n_lost == 0)
    rc = tn__graph_heads_set(l->graph, TN__LIST(tn_entry, heads),
                             TN__LENGTH(tn_entry, heads));
  tn__buf_deinit(&heads);
  return rc;
}

/* Both lists are there, and gradients have what they read. */
static tn_code level_end(reader *r, const level *l, uint32_t seen) {
  if ((seen & 3) != 3)
    return tn__json_fail(&r->json, "the keys `nodes` and `heads`");
  if (r->n_lost > 0) return TN_OK;
  const tn_code rc = tn__gradients_check(l->graph);
  if (rc != TN_INVALID) return rc;
  char why[TN__ERROR_MAX];
  (void)snprintf(why, sizeof why, "%s", tn_error_text());
  return fail_at(r, r->json.at, r->json.line, why);
}

static tn_code inner_members(reader *r, level *l) {
  static const char *const keys[] = {"nodes", "heads"};
  uint32_t seen = 0, k = 0;
  TN__TRY(tn__json_want(&r->json, '{'));
  do {
    TN__TRY(key_of(r, keys, 2, &seen, &k));
    TN__TRY(k == 0 ? list(r, l, node_item, NULL) : heads_read(r, l));
  } while (tn__json_take(&r->json, ','));
  TN__TRY(tn__json_want(&r->json, '}'));
  return level_end(r, l, seen);
}

static tn_code read_inner(reader *r, level *l) {
  level inside = {.depth = l->depth + 1};
  if (inside.depth > TN__JSON_DEPTH)
    return tn__json_fail(&r->json, "graphs in graphs at most 32 deep");
  TN__TRY(tn__graph_create(r->caller, &inside.graph));
  draft_init(&inside.draft, r->env);
  const tn_code rc = inner_members(r, &inside);
  draft_deinit(&inside.draft);
  l->draft.inner = inside.graph;
  return rc;
}

/* ------------------------------------------------------------------ plugins */

/* What a file says of a plugin. */
typedef struct needed {
  const char *name;
  uint32_t release;
  const char *hash;
} needed;

static void plugin_compare(const reader *r, const needed *n,
                           const tn_plugin *plugin) {
  char hash[24];
  (void)snprintf(hash, sizeof hash, "%016" PRIx64, plugin->manifest_hash);
  if (n->release == plugin->release && strcmp(n->hash, hash) == 0) return;
  tn__log(r->env, TN_LOG_WARNING,
          "the graph was saved with plugin `%s` release %" PRIu32
          " (%.40s), but release %" PRIu32
          " (%s) is loaded; what it computes may differ",
          n->name, n->release, n->hash, plugin->release, hash);
}

static void plugin_check(reader *r, const needed *n) {
  char detail[40];
  tn_plugin_info info;
  for (size_t i = 0; !tn__plugin_at(r->caller->registry, i, &info); ++i)
    if (strcmp(info.plugin->name, n->name) == 0) {
      plugin_compare(r, n, info.plugin);
      return;
    }
  (void)snprintf(detail, sizeof detail, " (release %" PRIu32 ")", n->release);
  lose(r, "plugin", n->name, detail);
}

static tn_code plugin_item(reader *r, level *l, void *to) {
  static const char *const keys[] = {"name", "release", "hash"};
  uint32_t seen = 0, k = 0;
  needed n = {0};
  (void)l;
  (void)to;
  TN__TRY(tn__json_want(&r->json, '{'));
  do {
    TN__TRY(key_of(r, keys, 3, &seen, &k));
    TN__TRY(k == 1 ? number32(r, &n.release)
                   : tn__json_string(&r->json, k == 0 ? &n.name : &n.hash));
  } while (tn__json_take(&r->json, ','));
  TN__TRY(tn__json_want(&r->json, '}'));
  if (seen != 7)
    return tn__json_fail(&r->json, "the keys `name`, `release` and `hash`");
  plugin_check(r, &n);
  return TN_OK;
}

/* ---------------------------------------------------------------- the whole */

/* The version comes first, so that files of other releases, and of other
 * libraries, are told apart before anything else is strange about them. */
static tn_code version_read(reader *r) {
  const char *name = NULL;
  uint32_t version = 0;
  char text[200];
  TN__TRY(tn__json_want(&r->json, '{'));
  TN__TRY(key(r, &name));
  if (strcmp(name, "tenon") != 0)
    return fail_at(r, r->json.at, r->json.line,
                   "the first key of a graph is `tenon`, the version of the "
                   "format; files of other libraries are not read");
  TN__TRY(number32(r, &version));
  if (version == TN__JSON_VERSION) return TN_OK;
  (void)snprintf(text, sizeof text,
                 "this is version %" PRIu32
                 " of the format, but %d is read; %s",
                 version, TN__JSON_VERSION,
                 version == 0 ? "no release has written 0"
                              : "read it with a newer release");
  return fail_at(r, r->json.at, r->json.line, text);
}

static tn_code whole_members(reader *r, level *l) {
  static const char *const keys[] = {"nodes", "heads", "plugins"};
  uint32_t seen = 0, k = 0;
  TN__TRY(version_read(r));
  while (tn__json_take(&r->json, ',')) {
    TN__TRY(key_of(r, keys, 3, &seen, &k));
    if (k == 0)
      TN__TRY(list(r, l, node_item, NULL));
    else if (k == 1)
      TN__TRY(heads_read(r, l));
    else
      TN__TRY(list(r, l, plugin_item, NULL));
  }
  TN__TRY(tn__json_want(&r->json, '}'));
  TN__TRY(tn__json_end(&r->json));
  TN__TRY(level_end(r, l, seen));
  return all_found(r);
}

/* `text` is overwritten; a NUL stands behind its `bytes`. */
static tn_code parse(tn__caller *caller, char *text, size_t bytes,
                     tn_graph **out) {
  reader r = {.json = {text, text, text + bytes, 0, expected},
              .caller = caller,
              .env = caller->env};
  level l = {.depth = 1};
  TN__TRY(tn__graph_create(caller, &l.graph));
  tn__buf_init(&r.lost, r.env);
  draft_init(&l.draft, r.env);
  const tn_code rc = whole_members(&r, &l);
  draft_deinit(&l.draft);
  tn__buf_deinit(&r.lost);
  tn__map_deinit(r.env, &r.lost_names);
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
  const tn_code rc = parse(caller, text, bytes, out);
  tn__free(caller->env, text);
  return rc;
}

/* --------------------------------------------------------------- from files */

#define MAX_BYTES ((uint64_t)1 << 32)

static tn_code file_parse(tn__caller *caller, const tn__spot *spot,
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
  if (was_read) rc = parse(caller, text, (size_t)bytes, out);
  tn__free(caller->env, text);
  if (rc == TN_OK || !was_read) return rc;
  char why[TN__ERROR_MAX];
  (void)snprintf(why, sizeof why, "%s", tn_error_text());
  return tn__fail(rc, "%s: %s", spot->file->path, why);
}

tn_code tn__graph_load(tn__caller *caller, const char *path, tn_graph **out) {
  tn__file file;
  const tn__spot spot = {&file, NULL};
  *out = NULL;
  TN__TRY(tn__file_open(caller->env, path, &file));
  const tn_code rc = file_parse(caller, &spot, out);
  tn__file_close(&file);
  return rc;
}
