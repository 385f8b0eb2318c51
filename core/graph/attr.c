/* SPDX-License-Identifier: Apache-2.0
 * attr.c: attributes of nodes, and the scopes that set them on new nodes.
 */
#include "graph.h"

#include <string.h>

/* Attributes for new nodes: one allocation that ends with their text. */
typedef struct scope {
  size_t n;
  tn_attribute v[];
} scope;

/* -------------------------------------------------------------- attributes */

/* Number of attributes whose keys come before this one. */
static uint32_t count_before(const tn__node *node, const char *key) {
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
  const uint32_t at = count_before(node, key);
  return at < node->n_attrs && strcmp(node->attrs[at].key, key) == 0
             ? &node->attrs[at]
             : NULL;
}

const char *tn__attribute_get(const tn__node *node, const char *key) {
  const tn_attribute *attribute = find_attribute(node, key);
  return attribute ? attribute->value : NULL;
}

static void text_free(const tn_graph *graph, const char *text) {
  tn__free(graph->env, (void *)(uintptr_t)text);
}

static void attribute_remove(const tn_graph *graph, tn__node *node,
                             tn_attribute *at) {
  text_free(graph, at->key);
  text_free(graph, at->value);
  const size_t behind = (size_t)(node->attrs + node->n_attrs - (at + 1));
  memmove(at, at + 1, behind * sizeof *at);
  --node->n_attrs;
}

/* Inserts a new attribute in order of keys. */
static tn_code attribute_insert(const tn_graph *graph, tn__node *node,
                                const char *key, const char *value) {
  const size_t bytes = (node->n_attrs + 1u) * sizeof *node->attrs;
  tn_attribute *list = tn__alloc(graph->env, bytes);
  char *own_key = tn__strdup(graph->env, key);
  char *own_value = tn__strdup(graph->env, value);
  if (!list || !own_key || !own_value) {
    tn__free(graph->env, list);
    text_free(graph, own_key);
    text_free(graph, own_value);
    return tn__fail_memory(bytes, "an attribute");
  }
  const uint32_t at = count_before(node, key);
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

/* Copies attributes. On failure it frees the texts that it has made. */
static tn_code attributes_copy(const tn_graph *graph, tn_attribute *list,
                               const tn_attribute *from, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) {
    list[i].key = tn__strdup(graph->env, from[i].key);
    list[i].value = tn__strdup(graph->env, from[i].value);
    if (list[i].key && list[i].value) continue;
    for (uint32_t k = 0; k <= i; ++k) {
      text_free(graph, list[k].key);
      text_free(graph, list[k].value);
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
  const tn_code rc = attributes_copy(graph, list, sorted, n);
  if (rc != TN_OK) {
    tn__free(graph->env, list);
    return rc;
  }
  node->attrs = list;
  node->n_attrs = n;
  return TN_OK;
}

/* Lists the attributes of `node`, and those of `from` with other keys. */
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
    text_free(graph, list[i].key);
    text_free(graph, list[i].value);
  }
  tn__free(graph->env, list);
}

/* Bounds inherited attributes: a small file could set many attributes on many
 * nodes. */
static tn_code count_inherited(tn_graph *graph, const tn__node *from,
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
  tn_code rc = count_inherited(graph, from, n - n_before);
  if (rc == TN_OK) rc = tn__attributes_set_sorted(graph, node, both, n);
  if (rc == TN_OK) free_attributes(graph, before, n_before);
  tn__free(graph->env, both);
  return rc;
}

static tn_code attribute_replace(const tn_graph *graph, tn_attribute *at,
                                 const char *value) {
  char *own = tn__strdup(graph->env, value);
  if (!own) return tn__fail_memory(strlen(value), "an attribute");
  text_free(graph, at->value);
  at->value = own;
  return TN_OK;
}

/* Rejects texts that JSON cannot contain, because graphs are saved as JSON. */
static tn_code attribute_check(const char *key, const char *value) {
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

static tn_code node_attribute_set(const tn_graph *graph, tn__node *node,
                                  const char *key, const char *value) {
  tn_attribute *at = find_attribute(node, key);
  TN__TRY(attribute_check(key, value));
  if (!value) {
    if (at) attribute_remove(graph, node, at);
    return TN_OK;
  }
  return at ? attribute_replace(graph, at, value)
            : attribute_insert(graph, node, key, value);
}

tn_code tn__attribute_set(tn_graph *graph, uint32_t node, const char *key,
                          const char *value) {
  if (node >= tn__n_nodes(graph))
    return tn__fail(TN_INVALID, "node %u: the graph has %u nodes", node,
                    tn__n_nodes(graph));
  return node_attribute_set(graph, tn__node_at(graph, node), key, value);
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

static size_t text_bytes(const tn_attribute *attributes, size_t n) {
  size_t bytes = 0;
  for (size_t i = 0; i < n; ++i)
    bytes += strlen(attributes[i].key) + strlen(attributes[i].value) + 2;
  return bytes;
}

static const char *text_put(char **to, const char *text) {
  const size_t bytes = strlen(text) + 1;
  char *at = *to;
  memcpy(at, text, bytes);
  *to += bytes;
  return at;
}

tn_code tn__scope_push(tn_graph *graph, const tn_attribute *attributes,
                       size_t n) {
  for (size_t i = 0; i < n; ++i)
    TN__TRY(attribute_check(attributes[i].key, attributes[i].value));
  const size_t head = sizeof(scope) + n * sizeof(tn_attribute);
  const size_t bytes = head + text_bytes(attributes, n);
  scope *s = tn__alloc(graph->env, bytes);
  if (!s) return tn__fail_memory(bytes, "a scope of attributes");
  char *text = (char *)s + head;
  s->n = n;
  for (size_t i = 0; i < n; ++i)
    s->v[i] = (tn_attribute){text_put(&text, attributes[i].key),
                             text_put(&text, attributes[i].value)};
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

static size_t count_listed(const tn_graph *graph, size_t n) {
  for (size_t i = 0; i < graph->scopes.n; ++i)
    n += ((const scope *)graph->scopes.v[i])->n;
  return n;
}

/* Lists pointers to the attributes of all scopes, then to the node's own. */
static void list_attributes(const tn_graph *graph, const tn_attribute *own,
                            size_t n, const tn_attribute **to) {
  for (size_t i = 0; i < graph->scopes.n; ++i) {
    const scope *s = graph->scopes.v[i];
    for (size_t k = 0; k < s->n; ++k) *to++ = &s->v[k];
  }
  for (size_t i = 0; i < n; ++i) *to++ = &own[i];
}

/* Merges two sorted parts; of equal keys, those of `a` come first. */
static void merge_parts(const tn_attribute **a, size_t n_a, size_t n,
                        const tn_attribute **to) {
  size_t i = 0, k = n_a;
  for (size_t at = 0; at < n; ++at) {
    const bool first = i < n_a && (k == n || strcmp(a[i]->key, a[k]->key) <= 0);
    to[at] = first ? a[i++] : a[k++];
  }
  memcpy(a, to, n * sizeof *a);
}

/* Sorts by key, and by position if keys are equal. `other` is scratch of the
 * same size. */
static void sort_listed(const tn_attribute **list, size_t n,
                        const tn_attribute **other) {
  for (size_t width = 1; width < n; width *= 2)
    for (size_t at = 0; at + width < n; at += 2 * width) {
      const size_t left = n - at;
      merge_parts(list + at, width, left < 2 * width ? left : 2 * width, other);
    }
}

/* Keeps the last value of each key; NULL removes the key. */
static uint32_t pick_last(const tn_attribute **sorted, size_t n,
                          tn_attribute *to) {
  uint32_t made = 0;
  for (size_t i = 0; i < n; ++i) {
    const bool last =
        i + 1 == n || strcmp(sorted[i]->key, sorted[i + 1]->key) != 0;
    if (last && sorted[i]->value) to[made++] = *sorted[i];
  }
  return made;
}

/* `list` has space for twice `n` pointers. */
static tn_code set_listed(const tn_graph *graph, tn__node *node,
                          const tn_attribute **list, size_t n,
                          tn_attribute *picked) {
  sort_listed(list, n, list + n);
  return tn__attributes_set_sorted(graph, node, picked,
                                   pick_last(list, n, picked));
}

tn_code tn__scopes_apply(tn_graph *graph, tn__node *node,
                         const tn_attribute *own, size_t n) {
  const size_t all = count_listed(graph, n);
  const size_t each = sizeof(tn_attribute) + 2 * sizeof(tn_attribute *);
  size_t bytes = 0;
  for (size_t i = 0; i < n; ++i)
    TN__TRY(attribute_check(own[i].key, own[i].value));
  if (all == 0) return TN_OK;
  tn_attribute *picked = all <= UINT32_MAX && tn__mul(all, each, &bytes)
                             ? tn__alloc(graph->env, bytes)
                             : NULL;
  if (!picked) return tn__fail_memory(bytes, "attributes");
  const tn_attribute **list = (const tn_attribute **)(picked + all);
  list_attributes(graph, own, n, list);
  const tn_code rc = set_listed(graph, node, list, all, picked);
  tn__free(graph->env, picked);
  return rc;
}
