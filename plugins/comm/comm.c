/* SPDX-License-Identifier: Apache-2.0
 * comm.c: the plugin's state in one runtime, and the table comm/1, by which
 * hosts join groups and plugins of devices offer theirs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "group.h"
#include "plugin.gen.h"

/* ------------------------------------------------------------- new groups */

/* One thread at a time joins or divides a group: the names of the runtime then
 * do not change meanwhile. */
static void begin_joining(comm_instance *self) {
  (void)pthread_mutex_lock(&self->lock);
  while (self->joining) (void)pthread_cond_wait(&self->changed, &self->lock);
  self->joining = 1;
}

static void end_joining(comm_instance *self) {
  (void)pthread_mutex_lock(&self->lock);
  self->joining = 0;
  (void)pthread_cond_broadcast(&self->changed);
  (void)pthread_mutex_unlock(&self->lock);
}

/* Requires the lock. */
static comm_group *find_by_name(comm_instance *self, const char *name) {
  comm_group *g = self->groups;
  while (g && strcmp(g->name, name) != 0) g = g->next;
  return g;
}

/* Requires the lock. */
static int32_t check_name(comm_instance *self, const char *name,
                          tn_comm_reason *why) {
  if (!name || !*name || strlen(name) >= TN_COMM_NAME)
    return comm_fail(why, TN_INVALID,
                     "the name of a group has 1 to %d bytes, but this one has "
                     "%zu",
                     TN_COMM_NAME - 1, name ? strlen(name) : (size_t)0);
  const comm_group *known = find_by_name(self, name);
  if (!known) return TN_OK;
  if (known->implicit)
    return comm_fail(why, TN_EXISTS,
                     "operators have used group `%s` before this runtime "
                     "joined it, and then it has one rank; join it first",
                     name);
  return comm_fail(why, TN_EXISTS,
                   "this runtime has had a group `%s`; choose another name",
                   name);
}

static comm_group *create_group(comm_instance *self, const char *name) {
  comm_group *g = calloc(1, sizeof *g);
  if (!g) return NULL;
  (void)snprintf(g->name, sizeof g->name, "%s", name);
  (void)pthread_mutex_init(&g->lock, NULL);
  (void)pthread_cond_init(&g->idle, NULL);
  g->instance = self;
  g->timeout = (int64_t)COMM_TIMEOUT_MS * 1000000;
  g->info = (tn_comm_group){.struct_size = sizeof(tn_comm_group), .size = 1};
  return g;
}

static void free_group(comm_group *g) {
  if (!g) return;
  (void)pthread_cond_destroy(&g->idle);
  (void)pthread_mutex_destroy(&g->lock);
  free(g);
}

/* Adds a group that its backend has joined. Requires the lock. */
static void add_group(comm_instance *self, comm_group *g) {
  g->info.id = ++self->n_groups;
  g->info.name = g->name;
  g->info.backend = g->backend->name;
  g->next = self->groups;
  self->groups = g;
}

static void copy_info(const comm_group *g, tn_comm_group *out) {
  const uint32_t size = out->struct_size;
  *out = g->info;
  out->timeout_ms = (uint32_t)(g->timeout / 1000000);
  out->check = g->check;
  if (size >= sizeof *out) out->struct_size = size;
}

static const comm_backend *find_backend(const char *name, tn_comm_reason *why) {
  if (name && strcmp(name, comm_local.name) == 0) return &comm_local;
  if (name && strcmp(name, comm_mpi.name) == 0) return &comm_mpi;
  (void)comm_fail(why, TN_INVALID,
                  "there is no backend `%s`; the backends are `local` and "
                  "`mpi`",
                  name ? name : "");
  return NULL;
}

static int32_t join_group(void *ctx, const tn_comm_join *how,
                          tn_comm_group *out, tn_comm_reason *why) {
  comm_instance *self = ctx;
  const comm_backend *backend = find_backend(how->backend, why);
  if (!backend) return TN_INVALID;
  begin_joining(self);
  int32_t code = check_name(self, how->name, why);
  (void)pthread_mutex_unlock(&self->lock);
  comm_group *g = code == TN_OK ? create_group(self, how->name) : NULL;
  if (code == TN_OK && !g) code = comm_fail(why, TN_OUT_OF_MEMORY, "no memory");
  if (code == TN_OK) {
    g->backend = backend;
    g->check = how->check;
    if (how->timeout_ms) g->timeout = (int64_t)how->timeout_ms * 1000000;
    code = backend->join(g, how, why);
  }
  if (code == TN_OK) {
    (void)pthread_mutex_lock(&self->lock);
    add_group(self, g);
    copy_info(g, out);
    (void)pthread_mutex_unlock(&self->lock);
  } else {
    free_group(g);
  }
  end_joining(self);
  return code;
}

/* ------------------------------------------------------------ known groups */

/* Requires the lock. */
static comm_group *find_by_id(comm_instance *self, uint32_t id) {
  comm_group *g = self->groups;
  while (g && g->info.id != id) g = g->next;
  return g;
}

/* The group of a number, unless this member has left it. */
static int32_t get_group(comm_instance *self, uint32_t id, comm_group **out,
                         tn_comm_reason *why) {
  (void)pthread_mutex_lock(&self->lock);
  comm_group *g = find_by_id(self, id);
  int32_t code = TN_OK;
  if (!g)
    code = comm_fail(why, TN_NOT_FOUND, "this runtime has no group %u", id);
  else if (g->left)
    code = comm_fail(why, TN_NOT_FOUND, "this runtime has left group `%s`",
                     g->name);
  (void)pthread_mutex_unlock(&self->lock);
  *out = g;
  return code;
}

static int32_t split_group(void *ctx, uint32_t id, const tn_comm_split *how,
                           tn_comm_group *out, tn_comm_reason *why) {
  const int joins = how->colour >= 0;
  comm_instance *self = ctx;
  comm_group *from = NULL;
  int32_t code = get_group(self, id, &from, why);
  if (code != TN_OK) return code;
  begin_joining(self);
  code = joins ? check_name(self, how->name, why) : TN_OK;
  (void)pthread_mutex_unlock(&self->lock);
  comm_group *g =
      code == TN_OK ? create_group(self, joins ? how->name : "") : NULL;
  if (code == TN_OK && !g) code = comm_fail(why, TN_OUT_OF_MEMORY, "no memory");
  if (code == TN_OK) {
    g->backend = from->backend;
    g->check = from->check;
    g->timeout = from->timeout;
    g->info.size = 0;
    code = from->backend->split(from, g, how->colour, how->key, why);
  }
  if (code == TN_OK) copy_info(g, out);
  if (code == TN_OK && g->info.size > 0) {
    (void)pthread_mutex_lock(&self->lock);
    add_group(self, g);
    copy_info(g, out);
    (void)pthread_mutex_unlock(&self->lock);
  } else {
    free_group(g);
  }
  end_joining(self);
  return code;
}

static int32_t leave_group(void *ctx, uint32_t id, tn_comm_reason *why) {
  comm_instance *self = ctx;
  comm_group *g = NULL;
  const int32_t code = get_group(self, id, &g, why);
  if (code != TN_OK) return code;
  comm_break(g, NULL, TN_BUSY, "the rank left the group");
  begin_joining(self); /* another thread may still open a device for it */
  const int first = !g->left;
  g->left = 1;
  (void)pthread_mutex_unlock(&self->lock);
  if (first) {
    comm_wait_idle(g);
    g->backend->leave(g);
  }
  end_joining(self);
  return TN_OK;
}

/* Appends ", `name`" for each group. Requires the lock. */
static void list_names(comm_instance *self, char *to, size_t bytes) {
  size_t n = 0;
  to[0] = 0;
  for (const comm_group *g = self->groups; g && n < bytes; g = g->next)
    n += (size_t)snprintf(to + n, bytes - n, "%s`%s`", n ? ", " : "", g->name);
}

static int32_t fail_unknown(comm_instance *self, const char *name,
                            tn_comm_reason *why) {
  char names[256];
  list_names(self, names, sizeof names);
  return comm_fail(why, TN_NOT_FOUND,
                   "this runtime has joined no group `%s`; its groups: %s. "
                   "Join it with tn_group_join",
                   name, names[0] ? names : "none");
}

static int32_t find_group(void *ctx, const char *name, tn_comm_group *out,
                          tn_comm_reason *why) {
  comm_instance *self = ctx;
  (void)pthread_mutex_lock(&self->lock);
  const comm_group *g = find_by_name(self, name);
  int32_t code = TN_OK;
  if (!g)
    code = fail_unknown(self, name, why);
  else if (g->left)
    code =
        comm_fail(why, TN_NOT_FOUND, "this runtime has left group `%s`", name);
  else
    copy_info(g, out);
  (void)pthread_mutex_unlock(&self->lock);
  return code;
}

/* Creates the group that a program has which joins none: "world" with one rank.
 * Requires the lock. */
static int32_t create_world(comm_instance *self, comm_group **out,
                            tn_comm_reason *why) {
  int32_t rank = 0, size = 1;
  if (comm_launched(&rank, &size) && size > 1)
    return comm_fail(why, TN_NOT_FOUND,
                     "mpirun started this process as rank %d of %d, but this "
                     "runtime has not joined group `world`; call "
                     "tn_group_join before operators use it",
                     (int)rank, (int)size);
  comm_group *g = create_group(self, "world");
  if (!g) return comm_fail(why, TN_OUT_OF_MEMORY, "no memory");
  g->backend = &comm_local;
  g->implicit = 1;
  const tn_comm_join how = {.struct_size = sizeof how, .size = 1};
  const int32_t code = g->backend->join(g, &how, why);
  if (code != TN_OK) {
    free_group(g);
    return code;
  }
  add_group(self, g);
  *out = g;
  return TN_OK;
}

int32_t comm_use_group(comm_instance *self, const char *name, comm_group **out,
                       tn_comm_reason *why) {
  int32_t code = TN_OK;
  (void)pthread_mutex_lock(&self->lock);
  comm_group *g = find_by_name(self, name);
  if (!g) {
    if (strcmp(name, "world") == 0 && !self->joining)
      code = create_world(self, &g, why);
    else
      code = fail_unknown(self, name, why);
  } else if (g->left) {
    code =
        comm_fail(why, TN_NOT_FOUND, "this runtime has left group `%s`", name);
  }
  (void)pthread_mutex_unlock(&self->lock);
  *out = g;
  return code;
}

/* ---------------------------------------------------------------- the table */

/* Appends a line. */
static void append_line(char *to, uint64_t bytes, int32_t *n,
                        const char *text) {
  if (bytes > (uint64_t)*n)
    (void)snprintf(to + *n, (size_t)(bytes - (uint64_t)*n), "%s\n", text);
  *n += (int32_t)strlen(text) + 1;
}

static int32_t describe_backends(void *ctx, char *to, uint64_t bytes) {
  const comm_instance *self = ctx;
  char line[COMM_TEXT], found[COMM_TEXT - 16];
  int32_t n = 0;
  append_line(to, bytes, &n, "local: runtimes of one process");
  comm_mpi_describe(found, sizeof found);
  (void)snprintf(line, sizeof line, "mpi: %s", found);
  append_line(to, bytes, &n, line);
  for (uint32_t i = 0; i < self->n_devices; ++i) {
    (void)snprintf(line, sizeof line, "%s: arrays on devices of type %d",
                   self->devices[i]->name, (int)self->devices[i]->device_type);
    append_line(to, bytes, &n, line);
  }
  return n;
}

static int32_t add_device(void *ctx, const tn_comm_device *device) {
  comm_instance *self = ctx;
  for (uint32_t i = 0; i < self->n_devices; ++i)
    if (self->devices[i]->device_type == device->device_type) return TN_EXISTS;
  if (self->n_devices == sizeof self->devices / sizeof *self->devices)
    return TN_OUT_OF_RANGE;
  self->devices[self->n_devices++] = device;
  return TN_OK;
}

/* Copies data of rank 0 to all ranks. `joining` is set, so that one thread does
 * it at a time. */
static int32_t share_data(comm_group *g, void *data, uint64_t bytes,
                          tn_comm_reason *why) {
  return g->backend->share(g, g->n_shared++, data, bytes, why);
}

/* Opens a device of a group, with a key that rank 0 creates. `joining` is set.
 */
static int32_t open_device(comm_group *g, const tn_comm_device *device,
                           int32_t device_id, void **out, tn_comm_reason *why) {
  struct {
    int32_t bytes; /* or the code of a failure */
    char key[260];
  } shared = {0, {0}};
  comm_opened *o = calloc(1, sizeof *o);
  if (!o) return comm_fail(why, TN_OUT_OF_MEMORY, "no memory");
  if (g->info.rank == 0)
    shared.bytes = device->create_key(device->ctx, shared.key, why);
  int32_t code = share_data(g, &shared, sizeof shared, why);
  if (code == TN_OK && shared.bytes < 0)
    code = g->info.rank == 0
               ? shared.bytes
               : comm_fail(why, shared.bytes,
                           "rank 0 of group `%s` could not start %s", g->name,
                           device->name);
  tn_comm_group info = {.struct_size = sizeof info};
  copy_info(g, &info);
  if (code == TN_OK)
    code = device->open(device->ctx,
                        &(tn_comm_opening){sizeof(tn_comm_opening), device_id,
                                           &info, shared.key},
                        &o->handle, why);
  if (code != TN_OK) {
    free(o);
    return code;
  }
  o->device = device;
  o->device_id = device_id;
  (void)pthread_mutex_lock(&g->lock);
  o->next = g->opened;
  g->opened = o;
  (void)pthread_mutex_unlock(&g->lock);
  *out = o->handle;
  return TN_OK;
}

static const tn_comm_device *find_device(const comm_instance *self,
                                         int32_t type) {
  for (uint32_t i = 0; i < self->n_devices; ++i)
    if (self->devices[i]->device_type == type) return self->devices[i];
  return NULL;
}

static int32_t get_opened(void *ctx, uint32_t id, const tn_comm_place *place,
                          void **out, tn_comm_reason *why) {
  comm_instance *self = ctx;
  comm_group *g = NULL;
  int32_t code = get_group(self, id, &g, why);
  if (code != TN_OK) return code;
  const tn_comm_device *device = find_device(self, place->device_type);
  if (!device)
    return comm_fail(why, TN_UNSUPPORTED,
                     "no plugin makes calls of groups on devices of type %d",
                     (int)place->device_type);
  begin_joining(self);
  const comm_opened *o = g->opened;
  while (o && (o->device != device || o->device_id != place->device_id))
    o = o->next;
  (void)pthread_mutex_unlock(&self->lock);
  if (o)
    *out = o->handle;
  else
    code = open_device(g, device, place->device_id, out, why);
  end_joining(self);
  return code;
}

/* Compares the text of a call with that of rank 0. */
static int32_t compare_text(comm_group *g, const char *call,
                            tn_comm_reason *why) {
  char first[COMM_CALL_TEXT] = {0}, mine[COMM_CALL_TEXT];
  (void)snprintf(first, sizeof first, "%s", call);
  memcpy(mine, first, sizeof mine);
  const int32_t code = share_data(g, first, sizeof first, why);
  if (code != TN_OK || strcmp(first, mine) == 0) return code;
  return comm_fail(why, TN_INVALID,
                   "ranks make different calls: rank 0 %s, rank %d %s", first,
                   (int)g->info.rank, mine);
}

static int32_t begin_call(void *ctx, uint32_t id, const char *call,
                          tn_comm_reason *why) {
  comm_instance *self = ctx;
  comm_group *g = NULL;
  char text[COMM_TEXT + 256];
  int32_t code = get_group(self, id, &g, why);
  if (code != TN_OK) return code;
  code = comm_state(g, text);
  if (code != TN_OK) return comm_fail(why, code, "%s", text);
  if (!call || !g->check || g->info.size == 1) return TN_OK;
  begin_joining(self);
  (void)pthread_mutex_unlock(&self->lock);
  code = compare_text(g, call, why);
  end_joining(self);
  if (code != TN_OK) comm_break(g, NULL, code, why->text);
  return code;
}

static int32_t fail_call(void *ctx, uint32_t id, int32_t code,
                         const char *text) {
  comm_group *g = NULL;
  const int32_t found = get_group(ctx, id, &g, NULL);
  if (found == TN_OK) comm_break(g, NULL, code, text);
  return found;
}

/* Closes what a group has opened of a device; NULL: of all devices. */
static void close_device(comm_group *g, const tn_comm_device *device) {
  comm_opened **at = &g->opened;
  while (*at) {
    comm_opened *o = *at;
    if (device && o->device != device) {
      at = &o->next;
      continue;
    }
    *at = o->next;
    o->device->close(o->device->ctx, o->handle);
    free(o);
  }
}

static void remove_device(void *ctx, const tn_comm_device *device) {
  comm_instance *self = ctx;
  uint32_t n = 0;
  for (comm_group *g = self->groups; g; g = g->next) close_device(g, device);
  for (uint32_t i = 0; i < self->n_devices; ++i)
    if (self->devices[i] != device) self->devices[n++] = self->devices[i];
  self->n_devices = n;
}

void comm_fill_table(comm_instance *self) {
  self->table = (tn_comm){.struct_size = sizeof(tn_comm),
                          .ctx = self,
                          .join = join_group,
                          .split = split_group,
                          .leave = leave_group,
                          .find = find_group,
                          .describe = describe_backends,
                          .add_device = add_device,
                          .opened = get_opened,
                          .begin = begin_call,
                          .fail = fail_call,
                          .remove_device = remove_device};
}

/* ------------------------------------------------------------------ plugin */

int32_t comm_init(const tn_host *host, tn_registrar *registrar, void **out) {
  comm_instance *self = calloc(1, sizeof *self);
  *out = self;
  if (!self) return registrar->fail(registrar, TN_OUT_OF_MEMORY, "no memory");
  self->host = host;
  (void)pthread_mutex_init(&self->lock, NULL);
  (void)pthread_cond_init(&self->changed, NULL);
  comm_fill_table(self);
  const int32_t code =
      registrar->provide(registrar, TN_COMM_EXTENSION, &self->table);
  if (code != TN_OK) comm_fini(self);
  return code;
}

void comm_fini(void *instance) {
  comm_instance *self = instance;
  while (self->groups) {
    comm_group *g = self->groups;
    self->groups = g->next;
    close_device(g, NULL);
    if (!g->left) g->backend->leave(g);
    free_group(g);
  }
  (void)pthread_cond_destroy(&self->changed);
  (void)pthread_mutex_destroy(&self->lock);
  free(self);
}
