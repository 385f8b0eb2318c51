/* SPDX-License-Identifier: Apache-2.0
 * registry.h: plugins and operators that are loaded, and their parameters. It
 * uses core/base, core/fields, core/shapes and the codec of sdk/manifest. It
 * knows no arrays, storage or engine: callers pass shapes as tn_sig and calls
 * as tn_frame. Terms: docs/glossary.md.
 *
 * files:
 *   registry.c         the operator table: create, look up, list, destroy
 *   operator_hold.c    calls hold operators
 *   plugin.c           the record of a plugin, its init and fini
 *   dependency.c       plugins that a plugin requires
 *   plugin_commit.c    enters a plugin's tables, all or nothing
 *   plugin_unload.c    removes a plugin unless something holds it
 *   plugin_host.c      the functions that a plugin gets: fail, log, set_shape,
 *                      extension (parallel_for and others are options)
 *   plugin_pass.c      passes of plugins: their names and holders
 *   fused_pair.c       operators that compute two others
 *   params.c           the counted object tn_params
 *   gradient_params.c  operators and parameters of gradients
 */
#ifndef TENON_REGISTRY_H_
#define TENON_REGISTRY_H_

#include <pthread.h>
#include <stdatomic.h>

#include "fields.h"
#include "shapes.h"
#include "tenon/define.h"
#include "tenon/draft/pass.h"
#include "tenon/plugin/device.h"
#include "tenon/plugin/note.h"

typedef struct tn__registry tn__registry;
typedef struct tn__plugin tn__plugin;
typedef struct tn__kernel tn__kernel;

/* One loaded plugin. Protected by the registry's lock. */
struct tn__plugin {
  const tn_plugin *entry;
  char *path;           /* "(static)" if linked in */
  void *handle;         /* from dlopen; NULL if linked in */
  void *instance;       /* from init */
  struct stat identity; /* of the file when it was loaded */
  tn_host host;         /* this plugin's table; host_data is the tn__plugin */
  tn__registry *registry;
  struct tn__kernel *kernels; /* entry->n_kernels, in its order */
  tn__vec provided;           /* tn__extension * */
  tn__vec passes;             /* tn__pass * */
  tn__vec fused_pairs;        /* const tn_fused_pair *, owned by the plugin */
  tn__vec retired; /* options of kernels that the host has replaced */
  bool loading;    /* init has not returned yet */
  bool lacking;    /* it requested an extension that no plugin provides, or is
                      dependent */
  bool dependent;  /* it requires a plugin that is not loaded */
  bool began;      /* its code may have run */
  bool started;    /* init has succeeded and fini has not run */
  bool defined;    /* by tn_operator_define: its name is not unique */
  struct tnm_plugin *manifest; /* the source of the plugin, or NULL */
  tn_plugin *tables;           /* with `manifest`: equals entry; in `arena` */
  tn__arena arena;
};

/* One kernel of a loaded plugin. The counters of kernels and operators rise
 * only under the registry's lock. So an unload that holds the lock for writing
 * sees all holders. */
struct tn__kernel {
  const tn_kernel *desc;
  tn__plugin *plugin;
  tn_operator *op;       /* NULL while its operator's plugin is not loaded */
  char *withdrawn;       /* reason of init, or NULL */
  void *_Atomic options; /* options struct, or NULL; calls read it */
  _Atomic int64_t calls; /* number of calls that use it now */
};

/* One operator. Lives as long as the registry; `desc` and `plugin` are NULL
 * while no plugin defines it. */
struct tn_operator {
  tn__registry *registry;
  char *name; /* "elemwise.quadratic@1" */
  const tn_op *desc;
  tn__plugin *plugin;
  tn__vec kernels;        /* tn__kernel *, in the order of the choice */
  tn__kernel *pin;        /* the only kernel to choose, or NULL */
  tn_params *defaults;    /* all defaults, or NULL if something is required */
  _Atomic int64_t calls;  /* number of running calls */
  _Atomic int64_t params; /* number of existing objects */
  void *cache; /* belongs to core/call, which calls operators; NULL at first;
                  freed before the registry */
};

struct tn__registry {
  const tn__env *env;
  tn_host host; /* template of the table that plugins get */
  uint32_t trust;
  tn_code (*device_add)(void *ctx, const tn_device *table); /* or NULL */
  void *device_ctx;
  const tn_passes *passes; /* the extension TN_PASS_EXTENSION; NULL: not
                              requested yet, or not available */
  pthread_rwlock_t lock;
  pthread_mutex_t load_lock; /* one load or unload at a time; locked before
                                `lock`, held while init runs */
  tn__map operators;         /* full name -> tn_operator */
  tn__vec known;  /* all operators; tn__registry_destroy frees them */
  tn__vec sorted; /* tn_operator *, by name and interface, only defined ones */
  tn__vec replacements; /* tn_operator * that replace another one, in order of
                           loading: the last wins */
  tn__vec plugins;      /* tn__plugin *, in order of loading */
  tn__vec pending;      /* tn__kernel *, waiting for their operators */
  tn__map extensions;   /* id -> tn__extension; without TN_DEVICE_EXTENSION,
                             which each plugin may provide */
  const struct tnm_module
      *module; /* reads manifests; NULL until the first one */
  void *module_handle;
  tn_code (*helpers)(const tn__env *env, char *to); /* or NULL */
  uint32_t probe_seconds;
  tn__vec resident;       /* tn__plugin *: unloaded plugins with files that stay
                             mapped (path and identity only) */
  _Atomic uint64_t epoch; /* rises when another kernel may become the choice:
                             load, unload, pin */
  _Atomic uint64_t n_params; /* objects created so far; gives their serials */
};

/* A table that a plugin offers to others. */
typedef struct tn__extension {
  char *id;
  const void *table;
  tn__plugin *provider;
  tn__vec users; /* tn__plugin * */
  bool is_used_by_host;
} tn__extension;

/* A pass of a plugin. Lives as long as the plugin. */
typedef struct tn__pass {
  char *name; /* "acme.fold" */
  const tn_pass *desc;
  tn__plugin *plugin;
  _Atomic int64_t
      calls; /* number of holders, which run the pass or are about to */
} tn__pass;

/* ---------------------------------------------------------------- registry */

/* Arguments of tn__registry_create. Copied. */
typedef struct tn__registry_options {
  const tn__env *env;
  uint32_t trust;        /* TN_TRUST_* */
  uint64_t cpu_features; /* reported to plugins */
  int32_t (*parallel_for)(const tn_frame *call, int64_t n, int64_t grain,
                          tn_loop_body *body, void *arg);
  /* Functions of tn_host for calls that complete later. */
  tn_later *(*defer)(const tn_frame *call);
  void (*complete)(tn_later *later, int32_t code, const char *text);
  int32_t (*cancelled)(const tn_later *later);
  /* Adds the devices of a plugin that provides TN_DEVICE_EXTENSION. This is the
   * last step of loading; a failure refuses the plugin. The plugin cannot be
   * unloaded, so its devices stay until the registry is destroyed. NULL refuses
   * all such plugins. */
  tn_code (*device_add)(void *ctx, const tn_device *table);
  void *device_ctx;
  /* The host's table for passes. NULL: that of tn__passes_provide. */
  const tn_passes *passes;
  /* Writes the folder of libtenon.so to `to` (PATH_MAX bytes). The registry
   * looks there for the reader of manifests and for tenon-probe. NULL:
   * manifests are refused. */
  tn_code (*helpers)(const tn__env *env, char *to);
  uint32_t probe_seconds; /* 0: 10 */
} tn__registry_options;

tn_code tn__registry_create(const tn__registry_options *options,
                            tn__registry **out);
/* Finishes plugins in reverse order. Requires that no call runs, that no params
 * exist, and that no device of a plugin is in use. */
void tn__registry_destroy(tn__registry *registry);

/* Begins a load or unload; there is one at a time. TN_INVALID inside of another
 * one, in functions of plugins and of the host that it calls. */
tn_code tn__load_begin(tn__registry *registry);
void tn__load_end(tn__registry *registry);

tn_code tn__operator_get(tn__registry *registry, const char *name,
                         tn_operator **out);
/* Whether tn__operator_get finds it. This is much faster for unknown names: a
 * failure of tn__operator_get looks for similar names. */
bool tn__operator_exists(tn__registry *registry, const char *name);
tn_code tn__operator_at(tn__registry *registry, size_t index,
                        tn_operator **out);
tn_code tn__operator_pin(tn_operator *op, const char *id);
/* TN_NOT_FOUND; the message lists the kernels of the operator. */
tn_code tn__operator_fail_no_kernel(const tn_operator *op, const char *id);
tn_code tn__plugin_at(tn__registry *registry, size_t index,
                      tn_plugin_info *out);
tn_code tn__plugin_unload(tn__registry *registry, const char *name);
/* Removes an operator of tn__operator_define. */
tn_code tn__operator_remove(tn_operator *op);

/* Holds an operator (and its plugin) for a call; TN_NOT_FOUND if its plugin was
 * unloaded. A choice of a kernel requires that the operator is held. */
tn_code tn__operator_hold(tn_operator *op);
void tn__operator_unhold(tn_operator *op);

/* Adds `"operators": 12, "plugins": [...]`. Both are null while a plugin is
 * being entered or removed: this waits for no thread. */
void tn__registry_json(tn__registry *registry, tn__buf *out);

/* Compares by name, then by interface as a number. */
int tn__operator_compare(const char *a, const char *b);

/* ----------------------------------------------------------------- plugins */

/* The requirement of `entry` for the plugin `name`; NULL if it has none. */
const tn_dependency *tn__dependency_find(const tn_plugin *entry,
                                         const char *name);
/* TN_NOT_FOUND for a required plugin that is not loaded, TN_UNSUPPORTED for one
 * that is too old; both plugins are named. */
tn_code tn__dependencies_check(tn__plugin *plugin);

/* Creates a plugin's record that has only a path. */
tn_code tn__plugin_create(tn__registry *registry, const char *path,
                          tn__plugin **out);
/* Checks the entry's tables, creates the kernel records, and calls init. */
tn_code tn__plugin_start(tn__plugin *plugin);
/* Calls fini if init has succeeded, closes the file if that is allowed, and
 * frees the record; NULL is allowed. */
void tn__plugin_discard(tn__plugin *plugin);
/* Adds the plugin's path to the text of a failure, if it has one; returns
 * `rc`. */
tn_code tn__plugin_append_path(const tn__plugin *plugin, tn_code rc);
/* As tn__plugin_discard, but keeps a plugin with a file that stays mapped in
 * `resident`, which has room for one more. */
void tn__plugin_retire(tn__plugin *plugin);

/* The plugin of a registrar; init is running. */
tn__plugin *tn__registrar_plugin(const tn_registrar *registrar);
/* Makes init fail, even if it ignores the result. The message is "<id>" and
 * `why`. Returns `code`. */
tn_code tn__registrar_fail(tn_registrar *registrar, tn_code code,
                           const char *id, const char *why);

/* Enters a started plugin: operators, kernels, extensions, all or nothing. Owns
 * `plugin` afterwards only on success. The load lock is held. */
tn_code tn__plugin_commit(tn__registry *registry, tn__plugin *plugin);
/* The table of an extension, for the host: its plugin stays loaded. */
tn_code tn__extension_use(tn__registry *registry, const char *id,
                          const void **out);
/* Removes a kernel from its operator's list. */
void tn__kernel_detach(tn__kernel *kernel);

/* Fills the table of functions; every plugin gets a copy. */
struct tn__registry_options;
/* Result of parallel_for for a body that is NULL. */
int32_t tn__host_fail_no_body(const tn_frame *call);

/* A loop of a call. If several slices fail, host->fail keeps the text of the
 * lowest one: tn__host_loop_slice, whose argument is the loop, runs a slice. */
typedef struct tn__host_loop {
  tn_loop_body *body;
  void *arg;
  const struct tn__slot *slot; /* of the call */
  int64_t outer; /* begin of the slice that this loop is inside of, or -1 */
} tn__host_loop;
void tn__host_loop_open(tn__host_loop *loop, const tn_frame *call,
                        tn_loop_body *body, void *arg);
int32_t tn__host_loop_slice(void *arg, int64_t begin, int64_t end);

void tn__host_init(tn_host *host, const struct tn__registry_options *options);

/* ------------------------------------------------------------------ passes */

enum { TN__PASS_NAME = 60 }; /* bytes of a pass's name without the plugin's */

/* libtenon-graph.so provides its table for passes here when it is loaded. */
void tn__passes_provide(const tn_passes *table);
/* The table for passes. Opens libtenon-graph.so if the host does not use it.
 * NULL and a warning if there is none. The load lock is held. */
#define TN__GRAPH_FILE "libtenon-graph.so.0"
const tn_passes *tn__passes_find(tn__registry *registry);
/* Implements tn_passes.add. */
int32_t tn__pass_add(tn_registrar *registrar, const tn_pass *pass);
void tn__passes_free(tn__plugin *plugin);
/* The pass of this name, or number `index` in order of loading; NULL if there
 * is none. Its plugin stays until tn__pass_unhold, which allows NULL. */
tn__pass *tn__pass_hold(tn__registry *registry, const char *name);
tn__pass *tn__pass_hold_at(tn__registry *registry, size_t index);
void tn__pass_unhold(tn__pass *pass);

/* Implements tn_passes.add_pair. */
int32_t tn__fused_pair_add(tn_registrar *registrar, const tn_fused_pair *pair);
void tn__fused_pairs_free(tn__plugin *plugin);
/* The operator that computes `first` and then `second`, held
 * (tn__operator_unhold). NULL if no plugin has registered one, or it is not
 * loaded. The plugin that was loaded last has precedence. */
tn_operator *tn__fused_pair_hold(const tn_operator *first,
                                 const tn_operator *second);

/* -------------------------------------------------------------- parameters */

struct tn_params {
  _Atomic int64_t n_owners;
  tn_operator *op;
  const tn_field *const *fields; /* of the operator */
  uint32_t n_fields;
  uint64_t hash;   /* of the values: equal params have equal hashes */
  uint64_t serial; /* of this object; never used again in its registry */
  void *data; /* the struct, in the same allocation as its lists and text */
};

tn_code tn__params_create(tn_operator *op, const tn_value *values, size_t n,
                          tn_params **out);
/* unknown[i] is 1 if no parameter has the key of values[i], otherwise 0. */
tn_code tn__params_find_unknown(tn_operator *op, const tn_value *values,
                                size_t n, uint8_t *unknown);
tn_code tn__params_parse(tn_operator *op, const char *text, tn_params **out);
tn_params *tn__params_retain(tn_params *params);
void tn__params_release(tn_params *params);
/* Whether two params of one operator have equal values. */
bool tn__params_equal(const tn_params *a, const tn_params *b);
/* A copy like the defaults below: it does not count as a holder and does not
 * keep the runtime alive. tn__defaults_free frees it. */
tn_code tn__params_copy(const tn_params *params, tn_params **out);
/* Changes one scalar member of params that have no other user; the field must
 * be declared dynamic. */
tn_code tn__params_set(tn_params *params, const tn_value *value);
/* Copies all dynamic members from other params of the same operator. */
void tn__params_copy_dynamic(tn_params *params, const tn_params *from);

/* Number of outputs of a held operator for these params; NULL: its defaults. */
tn_code tn__operator_count_outputs(const tn_operator *op,
                                   const tn_params *params, uint32_t n_in,
                                   uint32_t *out);

/* gradient_params.c: creates params of `to` from a text of a gradient's table,
 * "scalar=$alpha axis=1", where $alpha is the value in `from`. `from` is NULL
 * if the call has no params. If `template` is NULL, *out is NULL. */
tn_code tn__params_expand_template(const tn_params *from, const char *template,
                                   tn_operator *to, tn_params **out);
/* Creates params with the same values for another operator. *out is NULL if
 * `from` is NULL. */
tn_code tn__params_convert(const tn_params *from, tn_operator *to,
                           tn_params **out);

/* Operands of a call without its states. */
typedef struct tn__gradient_counts {
  uint32_t n_in;
  uint32_t n_out;
} tn__gradient_counts;
/* The operator that computes the gradient of `of`, for a gradient that is to be
 * differentiated. Its name is "nn.pool_grad@2" for nn.pool@2, or
 * "nn.pool_grad_2_1@2" for calls with two inputs and one output. *out is held.
 * TN_UNSUPPORTED if there is none, or it does not fit. */
tn_code tn__operator_gradient(const tn_operator *of,
                              const tn__gradient_counts *counts,
                              tn_operator **out);

/* Whether the gradient of an input can be nonzero: it is not stopped, and its
 * formula (as opgen writes it) is not 0. */
bool tn__gradient_is_nonzero(const tn_input_gradient *rule);

/* Whether the gradient of a held operator can be differentiated with the
 * operators that are loaded now. */
bool tn__operator_has_second(const tn_operator *op);

/* Whether gradients of the operator's gradients follow from its linear groups.
 * Then no operator of the gradient is necessary. */
bool tn__operator_is_linear(const tn_op *op);
enum { TN__MOST_GROUPS = 32 };
/* The linear groups of declared input `i`, as bits; 0 if it is in none. */
uint32_t tn__operator_linear_groups(const tn_op *op, uint32_t i);

/* Creates the params with all defaults for `op`, which will have the
 * description `desc`. NULL if it requires a parameter. They belong to the
 * registry: they do not count as a holder and do not keep the runtime alive. */
tn_code tn__defaults_create(tn_operator *op, const tn_op *desc,
                            tn_params **out);
void tn__defaults_free(const tn__env *env, tn_params *defaults);

#endif /* TENON_REGISTRY_H_ */
