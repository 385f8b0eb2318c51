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

#include "stations.h"

static const char KEY[] = "group";

typedef struct placing {
  const tn__requests *requests; /* NULL before gradients are added */
  tn_program *p;
  uint32_t n;    /* number of nodes */
  uint32_t none; /* number of the default device, after those of groups */
  tn__device **devices; /* by number */
  uint32_t *at;         /* by node: number of its group, or TN_NONE */
  uint32_t *reader;     /* for each node: number of its first reader that has a
                           device */
  bool **inside;        /* for each node that is a loop: the result of
                           tn__inner_list_reads; for others NULL */
} placing;

static tn_code fail_memory(size_t bytes) {
  return tn__fail_memory(bytes, "the places of a program");
}

static tn__node *get_node(const placing *pl, uint32_t id) {
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

static tn_code find_group(const placing *pl, const tn__node *node,
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

static tn_code find_group_device(const placing *pl, const tn_group *group,
                                 tn__device **out) {
  const tn__env *env = pl->p->env;
  const tn_code rc = tn__device_find(
      env->cpu->devices, group->place.device_type, group->place.device_id, out);
  if (rc == TN_OK) return rc;
  return tn__fail(rc, "the group `%.60s` (tn_bind.groups): %s", group->name,
                  tn_error_text());
}

static tn_code read_groups(placing *pl) {
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
    TN__TRY(find_group_device(pl, group, &pl->devices[i]));
  }
  pl->devices[pl->none] = pl->p->placement.device;
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
    return fail_memory(n);
  TN__TRY(read_groups(pl));
  for (uint32_t id = 0; id < pl->n; ++id)
    TN__TRY(find_group(pl, get_node(pl, id), &pl->at[id]));
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

/* Tests whether the node is a sum, ones or another helper node, for which the
 * user's groups state no device. */
static bool is_unlabelled_helper(const tn__node *node) {
  return is_gradient(node) &&
         (node->kind == TN__NODE_SUM || node->kind == TN__NODE_ZERO ||
          node->kind == TN__NODE_ONE || node->kind == TN__NODE_COPY);
}

/* Gives a node the device of its first input that has one. Returns false if no
 * input has one. */
static bool place_by_inputs(placing *pl, const tn__node *node) {
  for (uint32_t i = 0; i < node->n_in + node->n_aux; ++i) {
    if (tn__entry_is_none(node->in[i])) continue;
    pl->at[node->id] = pl->at[node->in[i].node];
    if (pl->at[node->id] != TN_NONE) return true;
  }
  return false;
}

/* Gives each node without a device that of its first reader that has one, from
 * the last node to the first. Returns true if any node got a device. */
static bool place_by_readers(placing *pl, bool gradients) {
  bool found = false;
  for (uint32_t id = 0; id < pl->n; ++id) pl->reader[id] = TN_NONE;
  for (uint32_t id = pl->n; id-- > 0;) {
    const tn__node *node = get_node(pl, id);
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

/* Places nodes by their inputs and readers, until no further node gets a
 * device. So an update of a weight gets the device of the weight's readers, and
 * its own states follow it. */
static void place_by_neighbours(placing *pl, bool gradients) {
  bool found = true;
  while (found) {
    found = false;
    for (uint32_t id = 0; id < pl->n; ++id) {
      const tn__node *node = get_node(pl, id);
      if (pl->at[id] != TN_NONE || is_unlabelled_helper(node)) continue;
      if (gradients || !is_gradient(node)) found |= place_by_inputs(pl, node);
    }
    found |= place_by_readers(pl, gradients);
  }
}

/* Places each gradient on the device of the node that it differentiates; on the
 * default device if that node has none. */
static void place_backward(placing *pl) {
  for (uint32_t id = 0; id < pl->n; ++id) {
    const tn__node *node = get_node(pl, id);
    if (pl->at[id] != TN_NONE || node->kind != TN__NODE_BACKWARD) continue;
    if (pl->at[node->of] == TN_NONE) pl->at[node->of] = pl->none;
    pl->at[id] = pl->at[node->of];
  }
}

/* Places gradients last, so that they do not affect other nodes. */
static void place_gradients_last(placing *pl) {
  place_by_neighbours(pl, false);
  place_backward(pl);
  place_by_neighbours(pl, true);
  for (uint32_t id = 0; id < pl->n; ++id)
    if (pl->at[id] == TN_NONE && !place_by_inputs(pl, get_node(pl, id)))
      pl->at[id] = pl->none;
}

static tn_code label_nodes(const placing *pl) {
  for (uint32_t id = 0; id < pl->n; ++id) {
    const uint32_t at = pl->at[id];
    const char *name = at == pl->none ? "" : pl->p->how.groups[at].name;
    if (!tn__attribute_get(get_node(pl, id), KEY))
      TN__TRY(tn__attribute_set(pl->p->graph, id, KEY, name));
  }
  return TN_OK;
}

tn_code tn__placement_label(tn_program *p) {
  placing pl;
  if (p->how.n_groups == 0) return TN_OK;
  tn_code rc = open_placement(&pl, p);
  if (rc == TN_OK) {
    place_gradients_last(&pl);
    rc = label_nodes(&pl);
  }
  return close_placement(&pl, rc);
}

/* -------------------------------------------------------------- added nodes */

/* Places the output gradient of a head on the device of the head, and the
 * gradient of an argument on that of the argument, unless they have a device.
 */
static void place_heads_and_gradients(placing *pl) {
  const tn_program *p = pl->p;
  for (uint32_t i = 0; i < p->heads.n; ++i)
    if (!tn__entry_is_none(p->gradients.weights[i]))
      pl->at[p->gradients.weights[i].node] = pl->at[p->heads.v[i].node];
  for (uint32_t i = 0; i < p->arguments.n; ++i) {
    const uint32_t gradient = p->gradients.v[i].node;
    if (gradient != TN_NONE && pl->at[gradient] == TN_NONE)
      pl->at[gradient] = pl->at[p->arguments.v[i].node];
  }
}

static tn_code list_loop_reads(const placing *pl) {
  for (uint32_t id = 0; id < pl->n; ++id)
    if (get_node(pl, id)->kind == TN__NODE_LOOP)
      TN__TRY(tn__inner_list_reads(get_node(pl, id), &pl->inside[id]));
  return TN_OK;
}

/* Tests whether input `i` of a node is on another device than the node, so that
 * it must be copied. */
static bool crosses_device(const placing *pl, const tn__node *node,
                           uint32_t i) {
  const tn_program *p = pl->p;
  return !tn__entry_is_none(node->in[i]) &&
         tn__node_reads_input(node, pl->inside[node->id], i) &&
         p->placement.where[node->in[i].node] != p->placement.where[node->id];
}

/* Finds the first node that reads `variable` and is on the same device; NULL:
 * none. */
static const tn__node *find_local_reader(const placing *pl, uint32_t variable) {
  for (uint32_t id = 0; id < pl->n; ++id) {
    const tn__node *node = get_node(pl, id);
    for (uint32_t i = 0; i < node->n_in + node->n_aux; ++i)
      if (node->in[i].node == variable && !crosses_device(pl, node, i))
        return node;
  }
  return NULL;
}

static tn_code fail_state_device(const placing *pl, uint32_t variable,
                                 const tn__node *node) {
  const tn_program *p = pl->p;
  const tn__node *other = find_local_reader(pl, variable);
  char here[TN__DEVICE_TEXT], there[TN__DEVICE_TEXT];
  tn__fail(TN_INVALID, "the state `%s` is used by node `%s` on %s, but ",
           get_node(pl, variable)->name, node->name,
           tn__device_text(p->placement.where[node->id], here));
  (void)tn__device_text(p->placement.where[variable], there);
  if (other)
    tn__fail_more(TN_INVALID, "by node `%s` on %s", other->name, there);
  else
    tn__fail_more(TN_INVALID, "is to be on %s itself", there);
  return tn__fail_more(TN_INVALID,
                       "; a state is on one device: give them one group");
}

static tn_code check_state_devices(const placing *pl) {
  for (uint32_t id = 0; id < pl->n; ++id) {
    const tn__node *node = get_node(pl, id);
    for (uint32_t i = 0; i < node->n_in + node->n_aux; ++i) {
      if (!crosses_device(pl, node, i)) continue;
      const uint32_t from = node->in[i].node;
      if (i >= node->n_in || get_node(pl, from)->flags & TN__NODE_STATE)
        return fail_state_device(pl, from, node);
    }
  }
  return TN_OK;
}

/* ------------------------------------------------------------------- copies */

typedef struct copying {
  const placing *pl;
  tn_graph *graph;
  uint32_t n_entries; /* number before copies were added */
  tn_entry *copies;   /* for each device, then for each entry: the copy on that
                         device; node 0: there is none, because a copy is never
                         the first node */
} copying;

static tn_code add_copy(const copying *c, tn_entry of, tn__device *device,
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
  c->pl->p->placement.where[node->id] = device;
  *out = (tn_entry){node->id, 0};
  return TN_OK;
}

static bool needs_two_copies(const tn__device *from, const tn__device *to) {
  return from->table && to->table && from->table != to->table;
}

/* Returns the copy of an entry on a device, and adds it if there is none. If no
 * queue connects the two devices, the entry is copied to the cpu, and from
 * there to the device. */
static tn_code get_copy(copying *c, tn_entry of, tn__device *device,
                        tn_entry *out) {
  const tn_program *p = c->pl->p;
  tn_entry *known =
      &c->copies[(size_t)tn__device_number(p, device) * c->n_entries +
                 tn__entry_id(c->graph, of)];
  if (known->node == 0) {
    if (needs_two_copies(p->placement.where[of.node], device))
      TN__TRY(get_copy(c, of, p->env->cpu, &of));
    TN__TRY(add_copy(c, of, device, known));
  }
  *out = *known;
  return TN_OK;
}

/* Copies the gradient of argument `i` to the device of the argument, as an
 * entry that nothing else uses. A copy between queues cannot add, so a sum on
 * the target device follows it. */
static tn_code copy_gradient(copying *c, uint32_t i) {
  tn_program *p = c->pl->p;
  tn_entry gradient = p->gradients.v[i];
  tn__device *to = p->placement.where[p->arguments.v[i].node];
  if (tn__entry_is_none(gradient) || p->placement.where[gradient.node] == to)
    return TN_OK;
  const tn__device *from = p->placement.where[gradient.node];
  if ((from->table || to->table) &&
      c->pl->requests->by_argument[i] == TN_REQ_ADD)
    TN__TRY(get_copy(c, gradient, to, &gradient));
  else if (needs_two_copies(from, to))
    TN__TRY(get_copy(c, gradient, p->env->cpu, &gradient));
  return add_copy(c, gradient, to, &p->gradients.v[i]);
}

static tn_code make_copies(copying *c) {
  const placing *pl = c->pl;
  tn_program *p = pl->p;
  for (uint32_t id = 0; id < pl->n; ++id) {
    tn__node *node = get_node(pl, id);
    for (uint32_t i = 0; i < node->n_in; ++i)
      if (crosses_device(pl, node, i))
        TN__TRY(get_copy(c, node->in[i], p->placement.where[id], &node->in[i]));
  }
  for (uint32_t i = 0; i < p->arguments.n; ++i) TN__TRY(copy_gradient(c, i));
  return TN_OK;
}

static tn_code add_copies(const placing *pl) {
  tn_program *p = pl->p;
  copying c = {.pl = pl, .graph = p->graph, .n_entries = p->graph->n_entries};
  const size_t bytes =
      (size_t)p->placement.n_devices * c.n_entries * sizeof *c.copies;
  c.copies = tn__zalloc(p->env, bytes + 1);
  tn_code rc = c.copies ? make_copies(&c) : fail_memory(bytes);
  tn__free(p->env, c.copies);
  if (rc == TN_OK && tn__n_nodes(p->graph) > pl->n)
    rc = tn__graph_infer_more(p->graph);
  return rc;
}

/* ---------------------------------------------------------------- the pass */

static void add_device(tn_program *p, tn__device *device) {
  for (uint32_t i = 0; i < p->placement.n_devices; ++i)
    if (p->placement.devices[i] == device) return;
  p->placement.devices[p->placement.n_devices++] = device;
}

/* Upper bound of the number of nodes with all copies: two copies for each
 * input, three for each gradient. */
static size_t count_most_nodes(const placing *pl) {
  size_t n = pl->n + 3 * (size_t)pl->p->arguments.n + 1;
  for (uint32_t id = 0; id < pl->n; ++id) n += 2 * get_node(pl, id)->n_in;
  return n;
}

static tn_code make_node_devices(const placing *pl) {
  tn_program *p = pl->p;
  const size_t bytes = count_most_nodes(pl) * sizeof(tn__device *);
  p->placement.where = tn__arena_alloc(&p->arena, bytes);
  if (!p->placement.where) return fail_memory(bytes);
  for (uint32_t id = 0; id < pl->n; ++id) {
    p->placement.where[id] = pl->devices[pl->at[id]];
    add_device(p, p->placement.where[id]);
  }
  return TN_OK;
}

static tn_code make_placement(placing *pl) {
  place_heads_and_gradients(pl);
  place_gradients_last(pl);
  TN__TRY(make_node_devices(pl));
  TN__TRY(list_loop_reads(pl));
  TN__TRY(check_state_devices(pl));
  return add_copies(pl);
}

tn_code tn__placement_make(const tn__requests *requests, tn_program *p) {
  placing pl;
  const size_t n = p->how.n_groups + (size_t)2; /* plus the default device,
                                                   and the cpu */
  p->placement.devices = tn__arena_alloc(&p->arena, n * sizeof(tn__device *));
  if (!p->placement.devices) return fail_memory(n * sizeof(tn__device *));
  add_device(p, p->placement.device);
  if (p->how.n_groups == 0) return TN_OK;
  add_device(p, p->env->cpu);
  tn_code rc = open_placement(&pl, p);
  pl.requests = requests;
  if (rc == TN_OK) rc = make_placement(&pl);
  return close_placement(&pl, rc);
}
