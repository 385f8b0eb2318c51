/* SPDX-License-Identifier: Apache-2.0
 * placement.c: chooses the devices of the nodes of a program. A node's
 * attribute `group` decides, otherwise its neighbours. An entry that is read on
 * another device is copied there, once for all its readers.
 *
 * Placement runs twice. Before gradients are added, it labels every node with
 * its group. Rules of gradients copy attributes, so a gradient runs where its
 * node runs. The second pass places the nodes that have no label (sums, ones,
 * copies) by their readers: these are gradients of the node that made the
 * entry.
 */
#include <stdio.h>
#include <string.h>

#include "binding.h"

static const char KEY[] = "group";

typedef struct placing {
  const tn__binding *b;
  tn_program *p;
  uint32_t n;    /* number of nodes */
  uint32_t none; /* number of the default device, after those of groups */
  tn__device **devices; /* by number */
  uint32_t *at;         /* by node: number of its group, or TN_NONE */
  uint32_t *reader;     /* by node: number of its first reader that has one */
  bool **inside; /* by node: for a loop, the result of tn__inner_list_reads; or
                    NULL */
} placing;

static tn_code memory_fail(size_t bytes) {
  return tn__fail_memory(bytes, "the places of a program");
}

static tn__node *node_at(const placing *pl, uint32_t id) {
  return tn__node_at(pl->p->graph, id);
}

/* ------------------------------------------------------------------- groups */

/* Adds "; tn_bind.groups has `left`, `right`" to the message. */
static tn_code add_groups(const tn_bind *how) {
  tn__fail_more(TN_NOT_FOUND, "; tn_bind.groups has");
  for (size_t i = 0; i < how->n_groups; ++i)
    tn__fail_more(TN_NOT_FOUND, "%s `%.60s`", i ? "," : "",
                  how->groups[i].name);
  return TN_NOT_FOUND;
}

static tn_code group_of(const placing *pl, const tn__node *node,
                        uint32_t *out) {
  const tn_bind *how = &pl->p->how;
  const char *name = tn__attribute_get(node, KEY);
  *out = TN_NONE;
  if (!name) return TN_OK;
  *out = pl->none;
  if (name[0] == '\0') return TN_OK;
  for (*out = 0; *out < pl->none; ++*out)
    if (strcmp(how->groups[*out].name, name) == 0) return TN_OK;
  tn__fail(TN_NOT_FOUND,
           "node `%s` belongs to the group `%.60s`, which "
           "has no device",
           node->name, name);
  return add_groups(how);
}

static tn_code device_of(const placing *pl, const tn_group *group,
                         tn__device **out) {
  const tn__env *env = pl->p->env;
  const tn_code rc = tn__device_find(
      env->cpu->devices, group->place.device_type, group->place.device_id, out);
  if (rc == TN_OK) return rc;
  return tn__fail(rc, "the group `%.60s` (tn_bind.groups): %s", group->name,
                  tn_error_text());
}

static tn_code groups_read(placing *pl) {
  const tn_bind *how = &pl->p->how;
  for (uint32_t i = 0; i < pl->none; ++i) {
    const tn_group *group = &how->groups[i];
    if (group->name[0] == '\0')
      return tn__fail(TN_INVALID,
                      "tn_bind.groups[%u] has no name; nodes of no group run "
                      "at tn_bind.place",
                      i);
    for (uint32_t k = 0; k < i; ++k)
      if (strcmp(how->groups[k].name, group->name) == 0)
        return tn__fail(TN_INVALID, "tn_bind.groups has `%.60s` twice",
                        group->name);
    TN__TRY(device_of(pl, group, &pl->devices[i]));
  }
  pl->devices[pl->none] = pl->p->device;
  return TN_OK;
}

static tn_code open_placement(placing *pl, tn_program *p) {
  const size_t n = tn__n_nodes(p->graph) + (size_t)1;
  *pl = (placing){
      .p = p, .n = tn__n_nodes(p->graph), .none = (uint32_t)p->how.n_groups};
  const size_t bytes = (pl->none + (size_t)1) * sizeof(tn__device *);
  pl->devices = tn__alloc(p->env, bytes);
  pl->at = tn__alloc(p->env, n * sizeof *pl->at);
  pl->reader = tn__alloc(p->env, n * sizeof *pl->reader);
  pl->inside = tn__zalloc(p->env, n * sizeof *pl->inside);
  if (!pl->devices || !pl->at || !pl->reader || !pl->inside)
    return memory_fail(n);
  TN__TRY(groups_read(pl));
  for (uint32_t id = 0; id < pl->n; ++id)
    TN__TRY(group_of(pl, node_at(pl, id), &pl->at[id]));
  return TN_OK;
}

static tn_code close_placement(placing *pl, tn_code rc) {
  for (uint32_t id = 0; pl->inside && id < pl->n; ++id)
    tn__free(pl->p->env, pl->inside[id]);
  tn__free(pl->p->env, pl->inside);
  tn__free(pl->p->env, pl->devices);
  tn__free(pl->p->env, pl->at);
  tn__free(pl->p->env, pl->reader);
  return rc;
}

/* --------------------------------------------------------------- neighbours */

static bool is_gradient(const tn__node *node) {
  return (node->flags & TN__NODE_GRADIENT) != 0;
}

/* Whether the node is a sum, ones or the like, which no rule has labelled. */
static bool is_glue(const tn__node *node) {
  return is_gradient(node) &&
         (node->kind == TN__NODE_SUM || node->kind == TN__NODE_ZERO ||
          node->kind == TN__NODE_ONE || node->kind == TN__NODE_COPY);
}

/* Takes the device of the first input that has one; whether there is one. */
static bool place_by_inputs(placing *pl, const tn__node *node) {
  for (uint32_t i = 0; i < node->n_in + node->n_aux; ++i) {
    if (tn__entry_is_none(node->in[i])) continue;
    pl->at[node->id] = pl->at[node->in[i].node];
    if (pl->at[node->id] != TN_NONE) return true;
  }
  return false;
}

/* From the last node to the first: a node without a device gets that of its
 * first reader that has one. Returns whether any did. */
static bool place_by_readers(placing *pl, bool gradients) {
  bool found = false;
  for (uint32_t id = 0; id < pl->n; ++id) pl->reader[id] = TN_NONE;
  for (uint32_t id = pl->n; id-- > 0;) {
    const tn__node *node = node_at(pl, id);
    if (!gradients && is_gradient(node)) continue;
    if (pl->at[id] == TN_NONE) {
      pl->at[id] = pl->reader[id];
      found |= pl->at[id] != TN_NONE;
    }
    if (pl->at[id] == TN_NONE) continue;
    for (uint32_t i = 0; i < node->n_in + node->n_aux; ++i)
      if (!tn__entry_is_none(node->in[i]))
        pl->reader[node->in[i].node] = pl->at[id];
  }
  return found;
}

/* Repeats as long as a node gets a device: an update of a weight gets that of
 * the weight's readers, and its own states follow it. */
static void place_by_neighbours(placing *pl, bool gradients) {
  bool found = true;
  while (found) {
    found = false;
    for (uint32_t id = 0; id < pl->n; ++id) {
      const tn__node *node = node_at(pl, id);
      if (pl->at[id] != TN_NONE || is_glue(node)) continue;
      if (gradients || !is_gradient(node)) found |= place_by_inputs(pl, node);
    }
    found |= place_by_readers(pl, gradients);
  }
}

/* Places gradients with their nodes, on the default device if these have none.
 */
static void place_backward(placing *pl) {
  for (uint32_t id = 0; id < pl->n; ++id) {
    const tn__node *node = node_at(pl, id);
    if (pl->at[id] != TN_NONE || node->kind != TN__NODE_BACKWARD) continue;
    if (pl->at[node->of] == TN_NONE) pl->at[node->of] = pl->none;
    pl->at[id] = pl->at[node->of];
  }
}

/* Places gradients last, so that they do not affect other nodes. */
static void resolve_gradients(placing *pl) {
  place_by_neighbours(pl, false);
  place_backward(pl);
  place_by_neighbours(pl, true);
  for (uint32_t id = 0; id < pl->n; ++id)
    if (pl->at[id] == TN_NONE && !place_by_inputs(pl, node_at(pl, id)))
      pl->at[id] = pl->none;
}

static tn_code label_nodes(const placing *pl) {
  for (uint32_t id = 0; id < pl->n; ++id) {
    const uint32_t at = pl->at[id];
    const char *name = at == pl->none ? "" : pl->p->how.groups[at].name;
    if (!tn__attribute_get(node_at(pl, id), KEY))
      TN__TRY(tn__attribute_set(pl->p->graph, id, KEY, name));
  }
  return TN_OK;
}

tn_code tn__placement_label(tn_program *p) {
  placing pl;
  if (p->how.n_groups == 0) return TN_OK;
  tn_code rc = open_placement(&pl, p);
  if (rc == TN_OK) {
    resolve_gradients(&pl);
    rc = label_nodes(&pl);
  }
  return close_placement(&pl, rc);
}

/* -------------------------------------------------------------- added nodes */

/* Places the output gradient of a head with the head, and the gradient of an
 * argument with the argument, unless a rule has placed it. */
static void resolve_ends(placing *pl) {
  const tn_program *p = pl->p;
  for (uint32_t i = 0; i < p->n_heads; ++i)
    if (!tn__entry_is_none(p->weights[i]))
      pl->at[p->weights[i].node] = pl->at[p->heads[i].node];
  for (uint32_t i = 0; i < p->n_arguments; ++i) {
    const uint32_t gradient = p->gradients[i].node;
    if (gradient != TN_NONE && pl->at[gradient] == TN_NONE)
      pl->at[gradient] = pl->at[p->arguments[i].node];
  }
}

static tn_code loops_look(const placing *pl) {
  for (uint32_t id = 0; id < pl->n; ++id)
    if (node_at(pl, id)->kind == TN__NODE_LOOP)
      TN__TRY(tn__inner_list_reads(node_at(pl, id), &pl->inside[id]));
  return TN_OK;
}

/* Whether input `i` of a node has to come from another device. */
static bool crosses_device(const placing *pl, const tn__node *node,
                           uint32_t i) {
  const tn_program *p = pl->p;
  return !tn__entry_is_none(node->in[i]) &&
         tn__node_reads_input(node, pl->inside[node->id], i) &&
         p->where[node->in[i].node] != p->where[node->id];
}

/* The first node that reads `variable` on its device; NULL: none does. */
static const tn__node *reader_there(const placing *pl, uint32_t variable) {
  for (uint32_t id = 0; id < pl->n; ++id) {
    const tn__node *node = node_at(pl, id);
    for (uint32_t i = 0; i < node->n_in + node->n_aux; ++i)
      if (node->in[i].node == variable && !crosses_device(pl, node, i))
        return node;
  }
  return NULL;
}

static tn_code state_fail(const placing *pl, uint32_t variable,
                          const tn__node *node) {
  const tn_program *p = pl->p;
  const tn__node *other = reader_there(pl, variable);
  char here[TN__DEVICE_TEXT], there[TN__DEVICE_TEXT];
  tn__fail(TN_INVALID, "the state `%s` is used by node `%s` on %s, but ",
           node_at(pl, variable)->name, node->name,
           tn__device_text(p->where[node->id], here));
  (void)tn__device_text(p->where[variable], there);
  if (other)
    tn__fail_more(TN_INVALID, "by node `%s` on %s", other->name, there);
  else
    tn__fail_more(TN_INVALID, "is to be on %s itself", there);
  return tn__fail_more(TN_INVALID,
                       "; a state is on one device: give them one group");
}

static tn_code states_check(const placing *pl) {
  for (uint32_t id = 0; id < pl->n; ++id) {
    const tn__node *node = node_at(pl, id);
    for (uint32_t i = 0; i < node->n_in + node->n_aux; ++i) {
      if (!crosses_device(pl, node, i)) continue;
      const uint32_t from = node->in[i].node;
      if (i >= node->n_in || node_at(pl, from)->flags & TN__NODE_STATE)
        return state_fail(pl, from, node);
    }
  }
  return TN_OK;
}

/* ------------------------------------------------------------------- copies */

typedef struct copying {
  const placing *pl;
  tn_graph *graph;
  uint32_t n_entries; /* number before copies were added */
  tn_entry *copies;   /* by device, then entry; node 0: none, because a copy
                         is never the first node */
} copying;

static tn_code copy_add(const copying *c, tn_entry of, tn__device *device,
                        tn_entry *out) {
  const tn__node *from = tn__node_at(c->graph, of.node);
  char name[200];
  tn__node *node = NULL;
  (void)snprintf(name, sizeof name, "%.160s_%u_copy", from->name, of.index);
  const tn__node_spec spec = {
      .kind = TN__NODE_COPY,
      .flags = from->flags & TN__NODE_GRADIENT,
      .n_in = 1,
      .n_out = 1,
      .of = TN_NONE,
      .name = tn__map_get(&c->graph->names, name) ? NULL : name,
      .stem = name,
      .in = &of};
  TN__TRY(tn__node_add(c->graph, &spec, &node));
  c->pl->p->where[node->id] = device;
  *out = (tn_entry){node->id, 0};
  return TN_OK;
}

static bool no_queue_goes(const tn__device *from, const tn__device *to) {
  return from->table && to->table && from->table != to->table;
}

/* The copy of an entry on a device. If no queue connects the two devices, it is
 * the copy of a copy on the cpu. */
static tn_code copy_get(copying *c, tn_entry of, tn__device *device,
                        tn_entry *out) {
  const tn_program *p = c->pl->p;
  tn_entry *known =
      &c->copies[(size_t)tn__device_number(p, device) * c->n_entries +
                 tn__entry_id(c->graph, of)];
  if (known->node == 0) {
    if (no_queue_goes(p->where[of.node], device))
      TN__TRY(copy_get(c, of, p->env->cpu, &of));
    TN__TRY(copy_add(c, of, device, known));
  }
  *out = *known;
  return TN_OK;
}

/* Copies the gradient of argument `i` to its device, as an entry of its own. A
 * copy between queues cannot add; the sum follows on the target device. */
static tn_code gradient_bring(copying *c, uint32_t i) {
  tn_program *p = c->pl->p;
  tn_entry gradient = p->gradients[i];
  tn__device *to = p->where[p->arguments[i].node];
  if (tn__entry_is_none(gradient) || p->where[gradient.node] == to)
    return TN_OK;
  const tn__device *from = p->where[gradient.node];
  if ((from->table || to->table) && tn__bind_request(c->pl->b, i) == TN_REQ_ADD)
    TN__TRY(copy_get(c, gradient, to, &gradient));
  else if (no_queue_goes(from, to))
    TN__TRY(copy_get(c, gradient, p->env->cpu, &gradient));
  return copy_add(c, gradient, to, &p->gradients[i]);
}

static tn_code copies_make(copying *c) {
  const placing *pl = c->pl;
  tn_program *p = pl->p;
  for (uint32_t id = 0; id < pl->n; ++id) {
    tn__node *node = node_at(pl, id);
    for (uint32_t i = 0; i < node->n_in; ++i)
      if (crosses_device(pl, node, i))
        TN__TRY(copy_get(c, node->in[i], p->where[id], &node->in[i]));
  }
  for (uint32_t i = 0; i < p->n_arguments; ++i) TN__TRY(gradient_bring(c, i));
  return TN_OK;
}

static tn_code add_copies(const placing *pl) {
  tn_program *p = pl->p;
  copying c = {.pl = pl, .graph = p->graph, .n_entries = p->graph->n_entries};
  const size_t bytes = (size_t)p->n_devices * c.n_entries * sizeof *c.copies;
  c.copies = tn__zalloc(p->env, bytes + 1);
  tn_code rc = c.copies ? copies_make(&c) : memory_fail(bytes);
  tn__free(p->env, c.copies);
  if (rc == TN_OK && tn__n_nodes(p->graph) > pl->n)
    rc = tn__graph_infer_more(p->graph);
  return rc;
}

/* ---------------------------------------------------------------- the pass */

static void device_note(tn_program *p, tn__device *device) {
  for (uint32_t i = 0; i < p->n_devices; ++i)
    if (p->devices[i] == device) return;
  p->devices[p->n_devices++] = device;
}

/* At most two copies for each input, three for each gradient. */
static size_t most_nodes(const placing *pl) {
  size_t n = pl->n + 3 * (size_t)pl->p->n_arguments + 1;
  for (uint32_t id = 0; id < pl->n; ++id) n += 2 * node_at(pl, id)->n_in;
  return n;
}

static tn_code where_make(const placing *pl) {
  tn_program *p = pl->p;
  const size_t bytes = most_nodes(pl) * sizeof(tn__device *);
  p->where = tn__arena_alloc(&p->arena, bytes);
  if (!p->where) return memory_fail(bytes);
  for (uint32_t id = 0; id < pl->n; ++id) {
    p->where[id] = pl->devices[pl->at[id]];
    device_note(p, p->where[id]);
  }
  return TN_OK;
}

static tn_code places_make(placing *pl) {
  resolve_ends(pl);
  resolve_gradients(pl);
  TN__TRY(where_make(pl));
  TN__TRY(loops_look(pl));
  TN__TRY(states_check(pl));
  return add_copies(pl);
}

tn_code tn__placement_make(const tn__binding *b) {
  tn_program *p = b->p;
  placing pl;
  const size_t n = p->how.n_groups + (size_t)2; /* plus the default device,
                                                   and the cpu */
  p->devices = tn__arena_alloc(&p->arena, n * sizeof(tn__device *));
  if (!p->devices) return memory_fail(n * sizeof(tn__device *));
  device_note(p, p->device);
  if (p->how.n_groups == 0) return TN_OK;
  device_note(p, p->env->cpu);
  tn_code rc = open_placement(&pl, p);
  pl.b = b;
  if (rc == TN_OK) rc = places_make(&pl);
  return close_placement(&pl, rc);
}
