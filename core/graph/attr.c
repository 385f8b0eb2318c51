/* SPDX-License-Identifier: Apache-2.0
 * attr.c: attributes of nodes, and the scopes that set them on new nodes.
 */
#include "graph.h"

#include <string.h>

/* The attributes of one scope, which every new node gets. They and their texts
 * are one allocation. */
typedef struct scope {
  size_t n;
  tn_attribute v[];
} scope;

/* -------------------------------------------------------------- attributes */

/* Number of the node's attributes with a key that is smaller than `key`. */
static uint32_t count_smaller_keys(const tn__node *node, const char *key) {
  uint32_t low = 0, high = node->n_attrs;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (strcmp(node->attrs[middle].key, key) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static tn_attribute *find_attribute(const tn__node *node, const char *key) {
  const uint32_t at = count_smaller_keys(node, key);
  return at < node->n_attrs && strcmp(node->attrs[at].key, key) == 0
             ? &node->attrs[at]
             : NULL;
}

const char *tn__attribute_get(const tn__node *node, const char *key) {
  const tn_attribute *attribute = find_attribute(node, key);
  return attribute ? attribute->value : NULL;
}

static void free_text(const tn_graph *graph, const char *text) {
  tn__free(graph->env, (void *)(uintptr_t)text);
}

static void remove_attribute(const tn_graph *graph, tn__node *node,
                             tn_attribute *at) {
  free_text(graph, at->key);
  free_text(graph, at->value);
  const size_t behind = (size_t)(node->attrs + node->n_attrs - (at + 1));
  memmove(at, at + 1, behind * sizeof *at);
  --node->n_attrs;
}

/* Inserts a new attribute in order of keys. */
static tn_code insert_attribute(const tn_graph *graph, tn__node *node,
                                const char *key, const char *value) {
  const size_t bytes = (node->n_attrs + 1u) * sizeof *node->attrs;
  tn_attribute *list = tn__alloc(graph->env, bytes);
  char *own_key = tn__strdup(graph->env, key);
  char *own_value = tn__strdup(graph->env, value);
  if (!list || !own_key || !own_value) {
    tn__free(graph->env, list);
    free_text(graph, own_key);
    free_text(graph, own_value);
    return tn__fail_memory(bytes, "an attribute");
  }
  const uint32_t at = count_smaller_keys(node, key);
  if (at > 0) memcpy(list, node->attrs, at * sizeof *list);
  if (at < node->n_attrs)
    memcpy(list + at + 1, node->attrs + at,
           (node->n_attrs - at) * sizeof *list);
  list[at] = (tn_attribute){own_key, own_value};
  tn__free(graph->env, node->attrs);
  node->attrs = list;
  ++node->n_attrs;
  return TN_OK;
}

/* Copies `n` attributes and their texts. On failure it frees the texts that it
 * has copied. */
static tn_code copy_attributes(const tn_graph *graph, tn_attribute *list,
                               const tn_attribute *from, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) {
    list[i].key = tn__strdup(graph->env, from[i].key);
    list[i].value = tn__strdup(graph->env, from[i].value);
    if (list[i].key && list[i].value) continue;
    for (uint32_t k = 0; k <= i; ++k) {
      free_text(graph, list[k].key);
      free_text(graph, list[k].value);
    }
    return tn__fail_memory(strlen(from[i].value), "an attribute");
  }
  return TN_OK;
}

tn_code tn__attributes_set_sorted(const tn_graph *graph, tn__node *node,
                                  const tn_attribute *sorted, uint32_t n) {
  if (n == 0) return TN_OK;
  tn_attribute *list = tn__alloc(graph->env, n * sizeof *list);
  if (!list) return tn__fail_memory(n * sizeof *list, "attributes");
  const tn_code rc = copy_attributes(graph, list, sorted, n);
  if (rc != TN_OK) {
    tn__free(graph->env, list);
    return rc;
  }
  node->attrs = list;
  node->n_attrs = n;
  return TN_OK;
}

/* Writes to `to` all attributes of `node`, and those attributes of `from` with
 * a key that `node` does not have. Returns their number. */
static uint32_t merge_attributes(const tn__node *node, const tn__node *from,
                                 tn_attribute *to) {
  uint32_t own = 0, other = 0, n = 0;
  while (own < node->n_attrs || other < from->n_attrs) {
    const int order = own == node->n_attrs     ? 1
                      : other == from->n_attrs ? -1
                                               : strcmp(node->attrs[own].key,
                                                        from->attrs[other].key);
    to[n++] = order <= 0 ? node->attrs[own] : from->attrs[other];
    own += order <= 0;
    other += order >= 0;
  }
  return n;
}

static void free_attributes(const tn_graph *graph, tn_attribute *list,
                            uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) {
    free_text(graph, list[i].key);
    free_text(graph, list[i].value);
  }
  tn__free(graph->env, list);
}

/* Counts the attributes that a node inherits, and fails above the limit of the
 * graph. Without a limit, a small file could set many attributes on many nodes.
 */
static tn_code add_inherited_count(tn_graph *graph, const tn__node *from,
                                   uint32_t n) {
  graph->n_inherited += n;
  if (graph->n_inherited <= TN__MOST_INHERITED) return TN_OK;
  return tn__fail(TN_OUT_OF_RANGE,
                  "node `%s`: its nodes would inherit more than %d attributes "
                  "from it and others; give attributes to fewer nodes",
                  from->name, TN__MOST_INHERITED);
}

tn_code tn__attributes_inherit(tn_graph *graph, tn__node *node,
                               const tn__node *from) {
  const size_t most = (size_t)node->n_attrs + from->n_attrs;
  if (from->n_attrs == 0) return TN_OK;
  tn_attribute *both = tn__alloc(graph->env, most * sizeof *both);
  if (!both) return tn__fail_memory(most * sizeof *both, "attributes");
  const uint32_t n = merge_attributes(node, from, both);
  tn_attribute *before = node->attrs;
  const uint32_t n_before = node->n_attrs;
  tn_code rc = add_inherited_count(graph, from, n - n_before);
  if (rc == TN_OK) rc = tn__attributes_set_sorted(graph, node, both, n);
  if (rc == TN_OK) free_attributes(graph, before, n_before);
  tn__free(graph->env, both);
  return rc;
}

static tn_code replace_attribute_value(const tn_graph *graph, tn_attribute *at,
                                       const char *value) {
  char *own = tn__strdup(graph->env, value);
  if (!own) return tn__fail_memory(strlen(value), "an attribute");
  free_text(graph, at->value);
  at->value = own;
  return TN_OK;
}

/* Rejects texts that JSON cannot contain, because graphs are saved as JSON. */
static tn_code check_attribute(const char *key, const char *value) {
  if (!key[0])
    return tn__fail(TN_INVALID, "an attribute's key must not be empty");
  if (!tn__is_utf8(key, strlen(key)))
    return tn__fail(
        TN_INVALID,
        "an attribute's key is not UTF-8, and graphs are saved with "
        "nothing else; encode it");
  if (value && !tn__is_utf8(value, strlen(value)))
    return tn__fail(TN_INVALID,
                    "the value of the attribute `%.200s` is not UTF-8, and "
                    "graphs are saved with nothing else; encode it",
                    key);
  return TN_OK;
}

static tn_code set_node_attribute(const tn_graph *graph, tn__node *node,
                                  const char *key, const char *value) {
  tn_attribute *at = find_attribute(node, key);
  TN__TRY(check_attribute(key, value));
  if (!value) {
    if (at) remove_attribute(graph, node, at);
    return TN_OK;
  }
  return at ? replace_attribute_value(graph, at, value)
            : insert_attribute(graph, node, key, value);
}

tn_code tn__attribute_set(tn_graph *graph, uint32_t node, const char *key,
                          const char *value) {
  if (node >= tn__n_nodes(graph))
    return tn__fail(TN_INVALID, "node %u: the graph has %u nodes", node,
                    tn__n_nodes(graph));
  return set_node_attribute(graph, tn__node_at(graph, node), key, value);
}

/* -------------------------------------------------------------------- lists */

/* Attributes of a graph and of its inner graphs, for printing. */
typedef struct listing {
  tn__buf names; /* of the outer nodes, each followed by '/' */
  tn__buf out;
} listing;

static void list_node(listing *l, const tn__node *node) {
  tn__buf key;
  tn__buf_init(&key, l->out.env);
  for (uint32_t i = 0; i < node->n_attrs; ++i) {
    key.n = 0;
    tn__buf_add(&key, "%s%s$%s", l->names.s ? l->names.s : "", node->name,
                node->attrs[i].key);
    if (l->out.n > 1) tn__buf_add(&l->out, ", ");
    tn__buf_json(&l->out, key.s);
    tn__buf_add(&l->out, ": ");
    tn__buf_json(&l->out, node->attrs[i].value);
  }
  l->out.failed = l->out.failed || key.failed;
  tn__buf_deinit(&key);
}

static void list_graph(listing *l, const tn_graph *graph) {
  for (uint32_t id = 0; id < tn__n_nodes(graph); ++id) {
    const tn__node *node = tn__node_at(graph, id);
    const size_t before = l->names.n;
    list_node(l, node);
    if (!node->inner) continue;
    tn__buf_add(&l->names, "%s/", node->name);
    list_graph(l, node->inner);
    l->names.n = before;
    if (l->names.s) l->names.s[before] = '\0';
  }
}

tn_code tn__attributes_json(const tn_graph *graph, tn_text **out) {
  listing l;
  *out = NULL;
  tn__buf_init(&l.names, graph->env);
  tn__buf_init(&l.out, graph->env);
  tn__buf_add(&l.out, "{");
  list_graph(&l, graph);
  tn__buf_add(&l.out, "}");
  const tn_code rc = l.names.failed || l.out.failed
                         ? tn__fail_memory(l.out.n, "a list of attributes")
                         : tn__buf_text(&l.out, out);
  tn__buf_deinit(&l.names);
  tn__buf_deinit(&l.out);
  return rc;
}

/* ------------------------------------------------------------------ scopes */

static size_t count_text_bytes(const tn_attribute *attributes, size_t n) {
  size_t bytes = 0;
  for (size_t i = 0; i < n; ++i)
    bytes += strlen(attributes[i].key) + strlen(attributes[i].value) + 2;
  return bytes;
}

static const char *append_text(char **to, const char *text) {
  const size_t bytes = strlen(text) + 1;
  char *at = *to;
  memcpy(at, text, bytes);
  *to += bytes;
  return at;
}

tn_code tn__scope_push(tn_graph *graph, const tn_attribute *attributes,
                       size_t n) {
  for (size_t i = 0; i < n; ++i)
    TN__TRY(check_attribute(attributes[i].key, attributes[i].value));
  const size_t head = sizeof(scope) + n * sizeof(tn_attribute);
  const size_t bytes = head + count_text_bytes(attributes, n);
  scope *s = tn__alloc(graph->env, bytes);
  if (!s) return tn__fail_memory(bytes, "a scope of attributes");
  char *text = (char *)s + head;
  s->n = n;
  for (size_t i = 0; i < n; ++i)
    s->v[i] = (tn_attribute){append_text(&text, attributes[i].key),
                             append_text(&text, attributes[i].value)};
  const tn_code rc = tn__vec_push(graph->env, &graph->scopes, s);
  if (rc != TN_OK) tn__free(graph->env, s);
  return rc;
}

tn_code tn__scope_pop(tn_graph *graph) {
  if (graph->scopes.n == 0)
    return tn__fail(TN_INVALID,
                    "no scope is open: each tn_graph_scope_pop ends one "
                    "tn_graph_scope_push");
  tn__free(graph->env, graph->scopes.v[--graph->scopes.n]);
  return TN_OK;
}

/* ------------------------------------------------- attributes of a new node */

/* Number of attributes of all scopes of the graph, plus the `n` attributes of
 * the new node itself. */
static size_t count_scope_attributes(const tn_graph *graph, size_t n) {
  for (size_t i = 0; i < graph->scopes.n; ++i)
    n += ((const scope *)graph->scopes.v[i])->n;
  return n;
}

/* Writes pointers to the attributes of all scopes, from the outermost to the
 * innermost, then to the node's own attributes. */
static void list_scope_attributes(const tn_graph *graph,
                                  const tn_attribute *own, size_t n,
                                  const tn_attribute **to) {
  for (size_t i = 0; i < graph->scopes.n; ++i) {
    const scope *s = graph->scopes.v[i];
    for (size_t k = 0; k < s->n; ++k) *to++ = &s->v[k];
  }
  for (size_t i = 0; i < n; ++i) *to++ = &own[i];
}

/* Merges two sorted parts of a list: the first `n_a` pointers at `a`, and the
 * rest of its `n` pointers. Of two attributes with equal keys, that of the
 * first part comes first. */
static void merge_sorted_parts(const tn_attribute **a, size_t n_a, size_t n,
                               const tn_attribute **to) {
  size_t i = 0, k = n_a;
  for (size_t at = 0; at < n; ++at) {
    const bool first = i < n_a && (k == n || strcmp(a[i]->key, a[k]->key) <= 0);
    to[at] = first ? a[i++] : a[k++];
  }
  memcpy(a, to, n * sizeof *a);
}

/* Sorts attributes by key; those with equal keys keep their order. `other` is
 * scratch memory for `n` pointers. */
static void sort_by_key(const tn_attribute **list, size_t n,
                        const tn_attribute **other) {
  for (size_t width = 1; width < n; width *= 2)
    for (size_t at = 0; at + width < n; at += 2 * width) {
      const size_t left = n - at;
      merge_sorted_parts(list + at, width, left < 2 * width ? left : 2 * width,
                         other);
    }
}

/* Copies, of each run of attributes with equal keys, the last one to `to`. A
 * key with last value NULL is left out. Returns the number of copies. */
static uint32_t keep_last_values(const tn_attribute **sorted, size_t n,
                                 tn_attribute *to) {
  uint32_t made = 0;
  for (size_t i = 0; i < n; ++i) {
    const bool last =
        i + 1 == n || strcmp(sorted[i]->key, sorted[i + 1]->key) != 0;
    if (last && sorted[i]->value) to[made++] = *sorted[i];
  }
  return made;
}

/* Sorts the attributes in `list`, and sets the last value of each key on the
 * node. `list` has space for twice `n` pointers. */
static tn_code sort_and_set_attributes(const tn_graph *graph, tn__node *node,
                                       const tn_attribute **list, size_t n,
                                       tn_attribute *picked) {
  sort_by_key(list, n, list + n);
  return tn__attributes_set_sorted(graph, node, picked,
                                   keep_last_values(list, n, picked));
}

tn_code tn__scopes_apply(tn_graph *graph, tn__node *node,
                         const tn_attribute *own, size_t n) {
  const size_t all = count_scope_attributes(graph, n);
  const size_t each = sizeof(tn_attribute) + 2 * sizeof(tn_attribute *);
  size_t bytes = 0;
  for (size_t i = 0; i < n; ++i)
    TN__TRY(check_attribute(own[i].key, own[i].value));
  if (all == 0) return TN_OK;
  tn_attribute *picked = all <= UINT32_MAX && tn__mul(all, each, &bytes)
                             ? tn__alloc(graph->env, bytes)
                             : NULL;
  if (!picked) return tn__fail_memory(bytes, "attributes");
  const tn_attribute **list = (const tn_attribute **)(picked + all);
  list_scope_attributes(graph, own, n, list);
  const tn_code rc = sort_and_set_attributes(graph, node, list, all, picked);
  tn__free(graph->env, picked);
  return rc;
}
