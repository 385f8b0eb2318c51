/* SPDX-License-Identifier: Apache-2.0
 * plugin_host.c: implements the functions of tn_host that plugins call. They
 * write to the call's own slot. None of them blocks, and only `extension`
 * changes the registry.
 */
#include <stdio.h>
#include <string.h>

#include "registry.h"

static tn__slot *slot_of(const tn_frame *call) {
  return call->run ? call->run->host_data : NULL;
}

/* Replaces a code of success, which cannot describe a failure. */
static int32_t failure_code(int32_t code) {
  return code < 0 ? code : TN_PLUGIN;
}

/* The slice that this thread runs for a call. */
typedef struct slice_here {
  const tn__slot *slot;
  int64_t begin; /* of the slice of the outermost loop */
} slice_here;

static _Thread_local slice_here here __attribute__((tls_model("initial-exec")));

/* Below 0: this thread is not in a loop of the call. */
static int64_t find_slice(const tn__slot *slot) {
  return here.slot == slot ? here.begin : -1;
}

/* Slices of a parallel loop may fail at the same time; the text of the lowest
 * slice remains, as its code does. */
static void lock_slot(tn__slot *slot) {
  while (atomic_exchange_explicit(&slot->busy, 1, memory_order_acquire) != 0) {
  }
}

static void unlock_slot(tn__slot *slot) {
  atomic_store_explicit(&slot->busy, 0, memory_order_release);
}

static int32_t host_fail(const tn_frame *call, int32_t code, const char *file,
                         int32_t line, const char *format, ...) {
  tn__slot *slot = slot_of(call);
  va_list args;
  if (!slot) return failure_code(code);
  const int64_t slice = find_slice(slot);
  lock_slot(slot);
  if (slice >= 0 && slice > slot->text_of) {
    unlock_slot(slot);
    return failure_code(code);
  }
  slot->text_of = slice;
  slot->code = failure_code(code);
  va_start(args, format);
  (void)vsnprintf(slot->text, sizeof slot->text, format ? format : "", args);
  va_end(args);
  if (call->host) {
    const tn__plugin *plugin = call->host->host_data;
    tn__log(plugin->registry->env, TN__LOG_PLUGINS, TN_LOG_DEBUG, "%s:%d: %s",
            file ? file : "?", (int)line, slot->text);
  }
  unlock_slot(slot);
  return failure_code(code);
}

static void host_log(const tn_host *host, int32_t level, const char *format,
                     ...) {
  const tn__plugin *plugin = host->host_data;
  char line[1024];
  va_list args;
  va_start(args, format);
  (void)vsnprintf(line, sizeof line, format ? format : "", args);
  va_end(args);
  tn__log(plugin->registry->env, TN__LOG_PLUGINS, level, "%s: %s",
          plugin->entry->name, line);
}

static int32_t refuse_shape(const tn_frame *call, const char *why) {
  tn__slot *slot = slot_of(call);
  if (slot) {
    slot->code = TN_INVALID;
    (void)snprintf(slot->text, sizeof slot->text, "set_shape: %s", why);
  }
  return TN_INVALID;
}

static int32_t host_set_shape(const tn_frame *call, uint32_t list,
                              uint32_t index, int32_t ndim,
                              const int64_t *shape) {
  tn__slot *slot = slot_of(call);
  tn_sig sig = {.dtype = TN_DTYPE_UNKNOWN, .ndim = ndim};
  if (!slot || !slot->set_shape)
    return refuse_shape(call, "this call does not decide shapes");
  if (list > TN_OPERAND_AUX) return refuse_shape(call, "there is no such list");
  if (ndim < -1 || ndim > TN_MAX_NDIM || (ndim > 0 && !shape))
    return refuse_shape(call, "the rank is not between -1 and 16");
  for (int32_t i = 0; i < ndim; ++i) {
    if (shape[i] < -1) return refuse_shape(call, "a dimension is below -1");
    sig.shape[i] = shape[i];
  }
  return slot->set_shape(slot, call, &sig, list, index);
}

static bool add_user(tn__extension *extension, tn__plugin *user) {
  const tn__env *env = user->registry->env;
  for (size_t i = 0; i < extension->users.n; ++i)
    if (extension->users.v[i] == user) return true;
  return tn__vec_push(env, &extension->users, user) == TN_OK;
}

/* Allowed only on the thread that loads: its load lock protects the table. On
 * other threads it logs an error. */
static const void *host_extension(const tn_host *host, const char *id) {
  tn__plugin *plugin = host->host_data;
  if (!id) {
    host_log(host, TN_LOG_ERROR,
             "requested an extension with a NULL id; pass its id, as "
             "\"tn.pass/1\"");
    return NULL;
  }
  if (!plugin->loading) {
    host_log(host, TN_LOG_ERROR,
             "requested the extension \"%s\" outside init; request it in "
             "init and keep the result",
             id);
    return NULL;
  }
  if (strcmp(id, TN_PASS_EXTENSION) == 0)
    return tn__passes_find(plugin->registry);
  tn__extension *extension = tn__map_get(&plugin->registry->extensions, id);
  if (!extension) plugin->lacking = true;
  return extension && add_user(extension, plugin) ? extension->table : NULL;
}

tn_code tn__extension_use(tn__registry *registry, const char *id,
                          const void **out) {
  pthread_mutex_lock(&registry->load_lock);
  tn__extension *extension = tn__map_get(&registry->extensions, id);
  if (extension) {
    extension->is_used_by_host = true;
    *out = extension->table;
  }
  pthread_mutex_unlock(&registry->load_lock);
  return extension ? TN_OK
                   : tn__fail(TN_NOT_FOUND,
                              "load the plugin that provides \"%s\"", id);
}

int32_t tn__host_fail_no_body(const tn_frame *call) {
  return host_fail(call, TN_INVALID, __FILE__, __LINE__,
                   "parallel_for: the body of the loop is NULL");
}

void tn__host_loop_open(tn__host_loop *loop, const tn_frame *call,
                        tn_loop_body *body, void *arg) {
  tn__slot *slot = slot_of(call);
  *loop = (tn__host_loop){body, arg, slot, slot ? find_slice(slot) : -1};
  if (!slot || loop->outer >= 0) return;
  lock_slot(slot);
  slot->text_of = INT64_MAX;
  unlock_slot(slot);
}

int32_t tn__host_loop_slice(void *arg, int64_t begin, int64_t end) {
  const tn__host_loop *loop = (const tn__host_loop *)arg;
  const slice_here before = here;
  here = (slice_here){loop->slot, loop->outer < 0 ? begin : loop->outer};
  const int32_t code = loop->body(loop->arg, begin, end);
  here = before;
  return code;
}

static int32_t serial_for(const tn_frame *call, int64_t n, int64_t grain,
                          tn_loop_body *body, void *arg) {
  (void)grain;
  if (!body) return tn__host_fail_no_body(call);
  return n > 0 ? body(arg, 0, n) : TN_OK;
}

void tn__host_init(tn_host *host, const tn__registry_options *options) {
  *host = (tn_host){
      .struct_size = sizeof *host,
      .abi_major = TN_ABI_MAJOR,
      .abi_minor = TN_ABI_MINOR,
      .cpu_features = options->cpu_features,
      .fail = host_fail,
      .log = host_log,
      .parallel_for =
          options->parallel_for ? options->parallel_for : serial_for,
      .set_shape = host_set_shape,
      .extension = host_extension,
      .defer = options->defer,
      .complete = options->complete,
      .cancelled = options->cancelled,
  };
}
