/* SPDX-License-Identifier: Apache-2.0
 * json_keys.c: reads lists, entries and numbers of a graph's file, and with
 * them the members of a node.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "json.h"

/* ------------------------------------------------------------------- values */

tn_code tn__json_number32(tn__graph_reader *r, uint32_t *out) {
  int64_t n = 0;
  TN__TRY(tn__json_number(&r->json, &n));
  if (n >= TN_NONE) return tn__json_fail(&r->json, "a number below 2^32 - 1");
  *out = (uint32_t)n;
  return TN_OK;
}

static tn_code read_boolean(tn__graph_reader *r, bool *out) {
  *out = tn__json_word(&r->json, "true");
  if (*out || tn__json_word(&r->json, "false")) return TN_OK;
  return tn__json_fail(&r->json, "true or false");
}

tn_code tn__json_list(tn__graph_reader *r, tn__graph_level *l,
                      tn__item_fn *item, void *to) {
  TN__TRY(tn__json_expect(&r->json, '['));
  if (tn__json_take(&r->json, ']')) return TN_OK;
  do TN__TRY(item(r, l, to));
  while (tn__json_take(&r->json, ','));
  return tn__json_expect(&r->json, ']');
}

tn_code tn__json_key(tn__graph_reader *r, const char **out) {
  TN__TRY(tn__json_string(&r->json, out));
  return tn__json_expect(&r->json, ':');
}

tn_code tn__json_key_of(tn__graph_reader *r, const char *const *names,
                        uint32_t n, uint32_t *seen, uint32_t *out) {
  char text[200];
  const char *name = NULL;
  TN__TRY(tn__json_key(r, &name));
  uint32_t k = 0;
  while (k < n && strcmp(names[k], name) != 0) ++k;
  *out = k;
  if (k < n && !(*seen & 1u << k)) {
    *seen |= 1u << k;
    return TN_OK;
  }
  const char *nearest = k < n ? NULL : tn__find_nearest_word(name, names, n);
  (void)snprintf(text, sizeof text, "%s `%.80s`%s%s%s",
                 k < n ? "there are two keys" : "there is no key", name,
                 nearest ? "; did you mean `" : "", nearest ? nearest : "",
                 nearest ? "`?" : "");
  return tn__json_fail_at(r, r->json.at, r->json.line, text);
}

static tn_code read_index_item(tn__graph_reader *r, tn__graph_level *l,
                               void *to) {
  uint32_t n = 0;
  (void)l;
  TN__TRY(tn__json_number32(r, &n));
  tn__buf_bytes(to, &n, sizeof n);
  return TN_OK;
}

static tn_code read_node_number(tn__graph_reader *r, const tn__graph_level *l,
                                uint32_t *out) {
  char what[100];
  TN__TRY(tn__json_number32(r, out));
  if (*out < l->n_nodes) return TN_OK;
  (void)snprintf(what, sizeof what,
                 "the number of a node that comes before, below %" PRIu32,
                 l->n_nodes);
  return tn__json_fail(&r->json, what);
}

static tn_code read_dependency_item(tn__graph_reader *r, tn__graph_level *l,
                                    void *to) {
  uint32_t n = 0;
  TN__TRY(read_node_number(r, l, &n));
  tn__buf_bytes(to, &n, sizeof n);
  return TN_OK;
}

/* Reads [node, output], or [node, output, "shape"]. */
static tn_code read_entry(tn__graph_reader *r, const tn__graph_level *l,
                          tn_entry *out, uint32_t *flags) {
  const char *word = "";
  TN__TRY(tn__json_expect(&r->json, '['));
  TN__TRY(read_node_number(r, l, &out->node));
  TN__TRY(tn__json_expect(&r->json, ','));
  TN__TRY(tn__json_number32(r, &out->index));
  if (r->n_missing == 0 &&
      out->index >= tn__node_at(l->graph, out->node)->n_out) {
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
  return tn__json_expect(&r->json, ']');
}

/* Reads an entry of heads or states. */
tn_code tn__json_entry_item(tn__graph_reader *r, tn__graph_level *l, void *to) {
  tn_entry e;
  TN__TRY(read_entry(r, l, &e, NULL));
  tn__buf_bytes(to, &e, sizeof e);
  return TN_OK;
}

static tn_code read_input_item(tn__graph_reader *r, tn__graph_level *l,
                               void *to) {
  tn_entry e = TN_ENTRY_NONE;
  uint32_t flags = 0;
  if (!tn__json_word(&r->json, "null")) TN__TRY(read_entry(r, l, &e, &flags));
  tn__buf_bytes(to, &e, sizeof e);
  tn__buf_bytes(&l->draft.flags, &flags, sizeof flags);
  return TN_OK;
}

/* ------------------------------------------------------------ keys of nodes */

static tn_code read_name(tn__graph_reader *r, tn__graph_level *l) {
  return tn__json_string(&r->json, &l->draft.name);
}

static tn_code read_kind(tn__graph_reader *r, tn__graph_level *l) {
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

static tn_code read_dtype(tn__graph_reader *r, tn__graph_level *l) {
  const char *name = NULL;
  TN__TRY(tn__json_string(&r->json, &name));
  return tn__dtype_parse(name, &l->draft.known.dtype)
             ? TN_OK
             : tn__json_fail(&r->json, "an element type, such as \"f32\"");
}

static tn_code read_dimension_item(tn__graph_reader *r, tn__graph_level *l,
                                   void *to) {
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

static tn_code read_shape(tn__graph_reader *r, tn__graph_level *l) {
  l->draft.known.ndim = 0;
  return tn__json_list(r, l, read_dimension_item, &l->draft.known);
}

static tn_code read_op(tn__graph_reader *r, tn__graph_level *l) {
  return tn__json_string(&r->json, &l->draft.op);
}

static tn_code read_params(tn__graph_reader *r, tn__graph_level *l) {
  return tn__json_string(&r->json, &l->draft.params);
}

static tn_code read_of_key(tn__graph_reader *r, tn__graph_level *l) {
  return read_node_number(r, l, &l->draft.of);
}

static tn_code read_inputs(tn__graph_reader *r, tn__graph_level *l) {
  return tn__json_list(r, l, read_input_item, &l->draft.in);
}

static tn_code read_states(tn__graph_reader *r, tn__graph_level *l) {
  return tn__json_list(r, l, tn__json_entry_item, &l->draft.states);
}

static tn_code read_sequences(tn__graph_reader *r, tn__graph_level *l) {
  return tn__json_list(r, l, read_index_item, &l->draft.sequences);
}

static tn_code read_carried(tn__graph_reader *r, tn__graph_level *l) {
  return tn__json_list(r, l, read_index_item, &l->draft.carried);
}

/* Reads an entry of the inner graph, [node, output]. The inner graph may not
 * have been read yet, so the entry is not checked. */
static tn_code read_kept_item(tn__graph_reader *r, tn__graph_level *l,
                              void *to) {
  tn_entry e;
  (void)l;
  TN__TRY(tn__json_expect(&r->json, '['));
  TN__TRY(tn__json_number32(r, &e.node));
  TN__TRY(tn__json_expect(&r->json, ','));
  TN__TRY(tn__json_number32(r, &e.index));
  tn__buf_bytes(to, &e, sizeof e);
  return tn__json_expect(&r->json, ']');
}

static tn_code read_kept(tn__graph_reader *r, tn__graph_level *l) {
  return tn__json_list(r, l, read_kept_item, &l->draft.kept);
}

static tn_code read_reverse(tn__graph_reader *r, tn__graph_level *l) {
  return read_boolean(r, &l->draft.reverse);
}

static tn_code read_after_key(tn__graph_reader *r, tn__graph_level *l) {
  return tn__json_list(r, l, read_dependency_item, &l->draft.after);
}

static tn_code read_gradient(tn__graph_reader *r, tn__graph_level *l) {
  bool is = false;
  TN__TRY(read_boolean(r, &is));
  if (!is) l->draft.seen &= ~(uint32_t)TN__KEY_GRADIENT;
  return TN_OK;
}

static tn_code read_attributes(tn__graph_reader *r, tn__graph_level *l) {
  TN__TRY(tn__json_expect(&r->json, '{'));
  if (tn__json_take(&r->json, '}')) return TN_OK;
  do {
    tn_attribute a;
    TN__TRY(tn__json_key(r, &a.key));
    TN__TRY(tn__json_string(&r->json, &a.value));
    tn__buf_bytes(&l->draft.attributes, &a, sizeof a);
  } while (tn__json_take(&r->json, ','));
  return tn__json_expect(&r->json, '}');
}

static tn_code (*const node_readers[TN__N_KEYS])(tn__graph_reader *,
                                                 tn__graph_level *) = {
    read_name,      read_kind,      read_dtype,    read_shape,
    read_op,        read_params,    read_of_key,   read_inputs,
    read_states,    read_sequences, read_carried,  read_reverse,
    tn__json_inner, read_after_key, read_gradient, read_attributes,
    read_kept};

tn_code tn__json_node_key(tn__graph_reader *r, tn__graph_level *l) {
  uint32_t k = 0;
  TN__TRY(tn__json_key_of(r, tn__draft_keys, TN__N_KEYS, &l->draft.seen, &k));
  return node_readers[k](r, l);
}
