/* SPDX-License-Identifier: Apache-2.0
 * registry.h: plugins, operators, parameters, shape rules and the choice of a
 * kernel. Uses base and sdk/manifest (the codec of tables). Knows nothing of
 * arrays, storage or the engine: shapes come in as tn_sig, calls as tn_frame.
 *
 * files: elf.c, elf_dynamic.c
 *                   a file is checked and its note read, without opening it
 *        inspect.c  the note becomes tables
 *        manifest.c, bound.c, probe.c
 *                   a manifest becomes a plugin without a compiler (bound.h)
 *        loader.c   a file becomes a plugin, or a message
 *        search.c   folders of plugin files
 *        trust.c    whether other users may change a file (trust.h)
 *        plugin.c   a plugin's life: its record, init and fini
 *        dependency.c  plugins that a plugin requires
 *        commit.c   a plugin's tables enter the registry, all or nothing
 *        registry.c the operator table: create, lookup, lists, destroy
 *        pass.c     passes of plugins: names, and who runs them
 *        joint.c    operators that stand for two others
 *        unload.c   a plugin leaves, unless something holds it
 *        fields*.c  text and values <-> a params struct, by its field table
 *        params.c   the counted object tn_params; derive.c those of gradients
 *        expr.c     evaluates shape programs (tn_node)
 *        infer*.c   shapes and dtypes to a fixed point (infer.h lists them)
 *        choose.c   which kernel, and the listing of all; candidate.c why one
 *                   does or does not take a call
 *        host.c     the functions that a plugin gets: fail, log, set_shape,
 *                   extension (parallel_for comes from above)
 */
#ifndef TENON_REGISTRY_H_
#define TENON_REGISTRY_H_

#include <pthread.h>
#include <stdatomic.h>

#include "base.h"
#include "tenon/define.h"
#include "tenon/device.h"
#include "tenon/note.h"
#include "tenon/pass.h"

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
  struct tn__kernel *kernels;  /* entry->n_kernels, in its order */
  tn__vec provided;            /* tn__extension * */
  tn__vec passes;              /* tn__pass * */
  tn__vec joints;              /* const tn_joint *, the plugin's own */
  tn__vec retired;             /* options of kernels that were replaced */
  bool loading;                /* init has not returned yet */
  bool lacking;                /* it asked for an extension that nobody has, or
                                  is dependent */
  bool dependent;              /* it requires a plugin that is not loaded */
  bool began;                  /* code of the author's may have run */
  bool started;                /* init has succeeded: fini is due */
  bool defined;                /* by tn_operator_define: shares its name */
  struct tnm_plugin *manifest; /* that it was made of, or NULL */
  tn_plugin *tables;           /* then: entry, in `arena` */
  tn__arena arena;
};

/* One kernel of a loaded plugin. Its counter, like those of an operator, only
 * rises under the registry's lock, so that an unload that holds the lock for
 * writing sees all holders. */
struct tn__kernel {
  const tn_kernel *desc;
  tn__plugin *plugin;
  tn_operator *op;       /* NULL while its operator's plugin is not loaded */
  char *withdrawn;       /* why init withdrew it, or NULL */
  void *_Atomic options; /* options struct, or NULL; calls read it */
  _Atomic int64_t calls; /* that compute with it now */
};

/* One operator. Lives as long as the registry; `desc` and `plugin` are NULL
 * while no plugin defines it. */
struct tn_operator {
  tn__registry *registry;
  char *name; /* "elemwise.quadratic@1" */
  const tn_op *desc;
  tn__plugin *plugin;
  tn__vec kernels;     /* tn__kernel *, in the order in which they are asked */
  tn__kernel *pin;     /* the only one to take, or NULL */
  tn_params *defaults; /* all defaults, or NULL if something is required */
  _Atomic int64_t calls;  /* running now */
  _Atomic int64_t params; /* living */
  void *cache; /* of who calls operators, above; NULL at first. It is gone when
                  the registry is destroyed */
};

struct tn__registry {
  const tn__env *env;
  tn_host host; /* template of what plugins get */
  uint32_t trust;
  tn_code (*device_add)(void *ctx, const tn_device *table); /* or NULL */
  void *device_ctx;
  const tn_passes *passes; /* the extension TN_PASS_EXTENSION, or NULL */
  pthread_rwlock_t lock;
  pthread_mutex_t load_lock; /* one load or unload at a time; taken before
                                `lock`, held while init runs */
  tn__map operators;         /* full name -> tn_operator */
  tn__vec known;             /* all of them, for the end */
  tn__vec sorted;            /* tn_operator *, by name and interface, defined
                                ones only */
  tn__vec replacements;      /* tn_operator * that take another's place, in
                                order of loading: the last wins */
  tn__vec plugins;           /* tn__plugin *, in order of loading */
  tn__vec pending;           /* tn__kernel * whose operator is not loaded yet */
  tn__map extensions;        /* id -> tn__extension; not of devices, which
                                each plugin may provide */
  const struct tnm_module *module; /* reads manifests; NULL until the first */
  void *module_handle;
  tn_code (*helpers)(const tn__env *env, char *to); /* or NULL */
  uint32_t probe_seconds;
  tn__vec resident;          /* tn__plugin *: unloaded, but their files are
                                still mapped (path and identity only) */
  _Atomic uint64_t epoch;    /* rises whenever another kernel may be the choice:
                                load, unload, pin */
  _Atomic uint64_t n_params; /* made so far: their serials */
};

/* A table that a plugin offers to others. */
typedef struct tn__extension {
  char *id;
  const void *table;
  tn__plugin *provider;
  tn__vec users; /* tn__plugin * */
} tn__extension;

/* A pass of a plugin. Lives as long as that. */
typedef struct tn__pass {
  char *name; /* "acme.fold" */
  const tn_pass *desc;
  tn__plugin *plugin;
  _Atomic int64_t calls; /* who holds it: those that run it, or are about to */
} tn__pass;

/* What stands behind tn_run.host_data: the slot that host->fail writes, and
 * who answers host->set_shape. One per call. */
typedef struct tn__slot {
  _Atomic uint32_t busy; /* fail may come from several slices of a loop */
  tn_code code;
  char text[1024]; /* "" until fail is called */
  int32_t (*set_shape)(struct tn__slot *slot, const tn_frame *frame,
                       const tn_sig *shape, uint32_t list, uint32_t index);
  void *ctx; /* of set_shape; a NULL set_shape refuses */
} tn__slot;

/* ---------------------------------------------------------------- registry */

/* What a registry is made with. Copied. */
typedef struct tn__registry_options {
  const tn__env *env;
  uint32_t trust;        /* TN_TRUST_* */
  uint64_t cpu_features; /* what plugins are told */
  int32_t (*parallel_for)(const tn_frame *call, int64_t n, int64_t grain,
                          tn_loop_body *body, void *arg);
  /* Takes the devices of a plugin that provides TN_DEVICE_EXTENSION, as the
   * last step of its loading; a failure refuses the plugin. They stay until
   * the registry is destroyed: the plugin is not unloaded before. NULL refuses
   * all such plugins. */
  tn_code (*device_add)(void *ctx, const tn_device *table);
  void *device_ctx;
  /* The host's table for passes, from above; NULL: there is no such extension.
   */
  const tn_passes *passes;
  /* The folder of libtenon.so, where the reader of manifests and tenon-probe
   * are looked for; `to` has PATH_MAX bytes. NULL: manifests are refused. */
  tn_code (*helpers)(const tn__env *env, char *to);
  uint32_t probe_seconds; /* 0: 10 */
} tn__registry_options;

tn_code tn__registry_create(const tn__registry_options *options,
                            tn__registry **out);
/* Finishes plugins in reverse order. No call runs, no params live, and who took
 * their devices is done with them. */
void tn__registry_destroy(tn__registry *registry);

/* One load or unload at a time. TN_INVALID from inside of another one, which is
 * where functions of plugins and of the host are called. */
tn_code tn__load_begin(tn__registry *registry);
void tn__load_end(tn__registry *registry);

tn_code tn__operator_get(tn__registry *registry, const char *name,
                         tn_operator **out);
/* Whether tn__operator_get finds it. A failure there looks for similar names,
 * which takes longer than all else. */
bool tn__operator_exists(tn__registry *registry, const char *name);
tn_code tn__operator_at(tn__registry *registry, size_t index,
                        tn_operator **out);
tn_code tn__operator_pin(tn_operator *op, const char *id);
tn_code tn__operator_tune(tn_operator *op, const char *id, const char *text);
/* TN_NOT_FOUND, with the kernels that there are. */
tn_code tn__operator_no_kernel(const tn_operator *op, const char *id);
tn_code tn__plugin_at(tn__registry *registry, size_t index,
                      tn_plugin_info *out);
tn_code tn__plugin_unload(tn__registry *registry, const char *name);

/* Order of operators: name, then interface as a number. */
int tn__operator_compare(const char *a, const char *b);

/* ----------------------------------------------------------------- loading */

/* A plugin file as the note describes it. */
struct tn_inspection {
  const tn__env *env;
  tn__arena arena;
  tn_note note;
  const tn_plugin *plugin; /* decoded, functions NULL; NULL if refused before
                              the manifest could be decoded */
  char *refusal;           /* why this host does not load it, or NULL */
  struct tnm_plugin *manifest; /* what `plugin` belongs to, if it was a file of
                                  YAML */
  const struct tnm_module *module;
};

/* Why the dynamic linker must not get a file. */
typedef enum tn__danger {
  TN__DANGER_NONE,
  TN__DANGER_STACK,  /* an executable stack */
  TN__DANGER_CODE,   /* relocations in code */
  TN__DANGER_FOLDER, /* libraries are looked for in a relative folder */
  TN__DANGER_LIBRARY /* a library is named by a relative path */
} tn__danger;
enum { TN__DANGER_TEXT = 64 };

/* What the ELF pre-check found: the bytes of the note and who the file is. */
typedef struct tn__elf {
  struct stat identity;
  uint16_t machine;
  tn_note note;
  uint8_t *manifest; /* note.manifest_size bytes; the caller frees */
  tn__danger danger;
  char danger_text[TN__DANGER_TEXT]; /* the folder or library, or its begin */
} tn__elf;

/* The real absolute name of a plugin file. */
tn_code tn__path_resolve(const tn__env *env, const char *path,
                         char *real /* PATH_MAX */);

/* Checks class, machine, type, every PT_LOAD and the section table against the
 * file's length, and reads the note. Never maps or executes the file. */
tn_code tn__elf_read(const tn__env *env, const char *path, tn__elf *out);
void tn__elf_deinit(const tn__env *env, tn__elf *elf);

/* TN_OK, or TN_PLUGIN with field, expected, found and remedy. */
tn_code tn__note_accept(const tn_note *note, const char *path);
/* The same, and refuses a file that is dangerous to load. */
tn_code tn__elf_accept(const tn__elf *elf, const char *path);

tn_code tn__inspection_open(const tn__env *env, const char *path,
                            tn_inspection **out);
void tn__inspection_close(tn_inspection *inspection);

tn_code tn__plugin_load(tn__registry *registry, const char *path);

/* A file of several that are loaded one after the other. */
typedef struct tn__attempt {
  bool last;      /* in: there will be no other attempt */
  bool later;     /* out: it asked for an extension that nobody provides yet, or
                     is dependent; it was undone, and may be tried again */
  bool dependent; /* out: it requires a plugin that is not loaded yet */
  bool loaded;    /* out: it is loaded */
  bool provided;  /* out: it provides extensions */
} tn__attempt;

/* As tn__plugin_load, for a file of a search path: TN_INVALID if another user
 * may change it, unless the host trusts any folder. For a plugin that lacks
 * something the result is TN_OK, and `later`. */
tn_code tn__plugin_attempt(tn__registry *registry, const char *path,
                           tn__attempt *attempt);
tn_code tn__plugin_add(tn__registry *registry, const tn_plugin *entry);

/* What `entry` requires of the plugin `name`; NULL if nothing. */
const tn_dependency *tn__dependency_find(const tn_plugin *entry,
                                         const char *name);
/* TN_NOT_FOUND for a required plugin that is not loaded, TN_UNSUPPORTED for one
 * that is too old; both plugins are named. */
tn_code tn__dependencies_check(tn__plugin *plugin);

/* Whether a file is a manifest, by its name. */
bool tn__is_manifest(const char *path);
/* Loads a manifest of which every operator is bound to a library. `path` is
 * real and absolute; the load lock is held. */
tn_code tn__manifest_load(tn__registry *registry, const char *path,
                          const struct stat *identity);
tn_code tn__manifest_inspect(tn__registry *registry, const char *path,
                             tn_inspection **out);
tn_code tn__operator_define(tn__registry *registry, const char *text,
                            const tn_host_kernels *kernels, tn_operator **out);
tn_code tn__operator_remove(tn_operator *op);
/* Name of a file beside libtenon.so, in PATH_MAX bytes. */
tn_code tn__helper_path(const tn__registry *registry, const char *name,
                        char *to);
/* Whether nobody wrote to a file between two looks at it. */
bool tn__same_content(const struct stat *a, const struct stat *b);
/* Loads every *.so of the folders with ':' between, as tenon.h says. */
tn_code tn__plugins_load_path(tn__registry *registry, const char *path);

/* A plugin's record, empty but for its path. */
tn_code tn__plugin_create(tn__registry *registry, const char *path,
                          tn__plugin **out);
/* Checks the entry's tables, makes the kernel records, and calls init. */
tn_code tn__plugin_start(tn__plugin *plugin);
/* Calls fini if it is due, gives the code back if that is allowed, and frees
 * everything but path and record. True if the file stays mapped. */
bool tn__plugin_stop(tn__plugin *plugin);
/* tn__plugin_stop, and frees the rest; NULL is allowed. */
void tn__plugin_discard(tn__plugin *plugin);
/* Adds the plugin's file to the text of a failure, where it has one; returns
 * `rc`. */
tn_code tn__plugin_blame(const tn__plugin *plugin, tn_code rc);
/* The same, but a plugin whose file stays mapped goes to `resident`, which has
 * room for one more. */
void tn__plugin_retire(tn__plugin *plugin);

/* What a registrar is of; init is running. */
tn__plugin *tn__registrar_plugin(const tn_registrar *registrar);
/* Makes init fail, even if it does not care: "<id>" <why>. Returns the code. */
tn_code tn__registrar_refuse(tn_registrar *registrar, tn_code code,
                             const char *id, const char *why);

/* Enters a started plugin: operators, kernels, extensions, all or nothing.
 * Takes `plugin` over only on success. The load lock is held. */
tn_code tn__plugin_commit(tn__registry *registry, tn__plugin *plugin);
/* Enters a kernel into its operator's list, or takes it out. */
tn_code tn__kernel_attach(tn__kernel *kernel);
void tn__kernel_detach(tn__kernel *kernel);

/* The table of functions that every plugin gets a copy of. */
struct tn__registry_options;
/* What parallel_for answers to a body that is NULL. */
int32_t tn__host_no_body(const tn_frame *call);
void tn__host_init(tn_host *host, const struct tn__registry_options *options);

/* ------------------------------------------------------------------ passes */

enum { TN__PASS_NAME = 60 }; /* bytes of a pass's own name */

/* tn_passes.add. */
int32_t tn__pass_add(tn_registrar *registrar, const tn_pass *pass);
void tn__passes_free(tn__plugin *plugin);
/* The pass of this name, or number `index` in order of loading; NULL if there
 * is none. Its plugin stays until tn__pass_unhold; NULL is allowed there. */
tn__pass *tn__pass_hold(tn__registry *registry, const char *name);
tn__pass *tn__pass_hold_at(tn__registry *registry, size_t index);
void tn__pass_unhold(tn__pass *pass);

/* tn_passes.join. */
int32_t tn__joint_add(tn_registrar *registrar, const tn_joint *joint);
void tn__joints_free(tn__plugin *plugin);
/* The operator that a plugin has told of for `second` behind `first`, held
 * (tn__operator_unhold); NULL if none has, or it is not loaded. The plugin that
 * was loaded last is asked first. */
tn_operator *tn__joint_hold(const tn_operator *first,
                            const tn_operator *second);

/* -------------------------------------------------------------- parameters */

struct tn_params {
  _Atomic int64_t n_owners;
  tn_operator *op;
  const tn_field *const *fields; /* the operator's */
  uint32_t n_fields;
  uint64_t hash;   /* of the values: equal params have equal hashes */
  uint64_t serial; /* of this object; never used again in its registry */
  void *data; /* the struct, in the same allocation as its lists and text */
};

/* Builds a params (or options) struct of `size` bytes from values. `where` is
 * the operator's or kernel's name, for messages. *out is one allocation: the
 * struct, then what it points to; the caller frees it. Unknown keys are
 * refused with the nearest known one; `__hidden__` keys are ignored. */
typedef struct tn__fields {
  const tn_field *const *fields;
  uint32_t n;
  uint32_t size;
  const char *where;
} tn__fields;

tn_code tn__fields_build(const tn__env *env, const tn__fields *fields,
                         const tn_value *values, size_t n, void **out);
/* The same from "a=1 b=[2,3]". */
tn_code tn__fields_parse(const tn__env *env, const tn__fields *fields,
                         const char *text, void **out);
void tn__fields_text(const tn__fields *fields, const void *data, tn__buf *out);
void tn__fields_json(const tn__fields *fields, const void *data, tn__buf *out);
uint64_t tn__fields_hash(const tn__fields *fields, const void *data);
/* Bit for bit, lists and texts by content. */
bool tn__fields_equal(const tn__fields *fields, const void *a, const void *b);
/* Checks and stores one value of a scalar field that is declared dynamic. */
tn_code tn__fields_set(const tn__fields *fields, const tn_value *value,
                       void *data);

/* Takes what such fields hold in `from`, a struct of the same fields. */
void tn__fields_take(const tn__fields *fields, void *data, const void *from);

/* Whether `have` begins with `want`: names, types and offsets equal. On false
 * the error text says what differs. */
bool tn__fields_prefix(const tn_target *want, const tn_op *have);

tn_code tn__params_create(tn_operator *op, const tn_value *values, size_t n,
                          tn_params **out);
tn_code tn__params_parse(tn_operator *op, const char *text, tn_params **out);
tn_params *tn__params_retain(tn_params *params);
void tn__params_release(tn_params *params);
/* Whether two params of one operator hold the same values. */
bool tn__params_equal(const tn_params *a, const tn_params *b);
/* A copy like the defaults below: it neither counts as a holder nor keeps the
 * runtime alive. tn__defaults_free frees it. */
tn_code tn__params_copy(const tn_params *params, tn_params **out);
/* Changes one scalar member of params that nobody else uses; the field must be
 * declared dynamic. */
tn_code tn__params_set(tn_params *params, const tn_value *value);
/* Takes all such members from others of the same operator. */
void tn__params_take(tn_params *params, const tn_params *from);

/* derive.c: params of `to` from a text of a gradient's table, "scalar=$alpha
 * axis=1", where $alpha is what stands in `from`. `from` NULL: it has none;
 * `template` NULL: *out is. */
tn_code tn__params_template(const tn_params *from, const char *template,
                            tn_operator *to, tn_params **out);
/* The same values, for another operator. *out is NULL if there are none. */
tn_code tn__params_move(const tn_params *from, tn_operator *to,
                        tn_params **out);

/* Operands of a call, but for its states. */
typedef struct tn__gradient_counts {
  uint32_t n_in;
  uint32_t n_out;
} tn__gradient_counts;
/* The operator that stands for the gradient of calls of `of`, where that is to
 * be differentiated: "nn.pool_grad@2" for nn.pool@2, or "nn.pool_grad_2_1@2"
 * for calls with two inputs and one output. *out is held. TN_UNSUPPORTED if
 * there is none, or it does not fit. */
tn_code tn__operator_gradient(const tn_operator *of,
                              const tn__gradient_counts *counts,
                              tn_operator **out);

/* Whether an input has a gradient that is not zero whatever comes: it is not
 * stopped, and its formula is not 0, as opgen writes it. */
bool tn__gradient_passes(const tn_input_gradient *rule);

/* Whether the gradient of an operator that is held can be differentiated, as
 * far as the operators tell that are loaded now. */
bool tn__operator_has_second(const tn_operator *op);

/* Whether gradients of the operator's gradients follow from its groups of
 * inputs in which outputs are linear; then nothing needs to stand for them. */
bool tn__operator_is_linear(const tn_op *op);
enum { TN__MOST_GROUPS = 32 };
/* The groups, as bits, of declared input `i`; 0 if it is in none. */
uint32_t tn__operator_groups(const tn_op *op, uint32_t i);

/* All defaults of an operator that is about to be `desc`; NULL if it requires a
 * parameter. They belong to the registry: they neither count as a holder nor
 * keep the runtime alive. */
tn_code tn__defaults_create(tn_operator *op, const tn_op *desc,
                            tn_params **out);
void tn__defaults_free(const tn__env *env, tn_params *defaults);

/* --------------------------------------------------------------- inference */

/* A list value of a shape program, or one integer (n == TN__SCALAR). */
#define TN__SCALAR (-1)
typedef struct tn__ivalue {
  int32_t n;
  int32_t known; /* 0: depends on something unknown */
  int64_t v[TN_MAX_NDIM];
} tn__ivalue;

/* What a shape program can look at. */
typedef struct tn__scope {
  const tn_node *nodes;
  uint32_t n_nodes;
  const tn_field *const *fields;
  uint32_t n_fields;
  const void *params;
  const tn_signature *io; /* may be NULL, as may its lists */
  const tn_frame *frame;  /* instead of io, for a call that is being made; then
                             `absent` is not read */
  const tn__ivalue *dims; /* by TN_NODE_DIM index; may be NULL */
  const tn__ivalue *packs;
  const uint32_t *absent; /* per input: 1 if an optional one is absent;
                             may be NULL */
} tn__scope;

/* Value of a node. TN_OK (perhaps with known 0), or TN_INVALID/TN_OUT_OF_RANGE
 * for division by zero, overflow, lists of different length. */
tn_code tn__expr_eval(const tn__scope *scope, uint32_t node, tn__ivalue *out);

/* Completes `io` in place. `params` is the struct; `absent` marks inputs that
 * are not given (may be NULL); `base` carries instance, host and run for an
 * infer hook (may be NULL if the operator has none). Result as
 * tn_operator_infer. Counts in `io` must already fit the operator. */
typedef struct tn__infer_args {
  const tn_op *op;
  const char *name; /* full name, for messages */
  const void *params;
  const uint32_t *absent;
  const tn_frame *base;
  bool defaults; /* unknown shapes may become the usual ones */
} tn__infer_args;

tn_code tn__infer(const tn__infer_args *args, tn_signature *io);

/* Number of outputs for these params: the op's, with `count` evaluated. */
tn_code tn__infer_n_outputs(const tn__infer_args *args, uint32_t n_in,
                            uint32_t *out);
/* The same for an operator that is held, with its defaults in place of NULL. */
tn_code tn__operator_outputs(const tn_operator *op, const tn_params *params,
                             uint32_t n_in, uint32_t *out);
/* Of so many outputs of a call, those that are not hidden at the end. */
uint32_t tn__infer_n_visible(const tn_op *op, uint32_t n_out);

/* The type that an operand has whatever the others are, or unknown. */
tn_dtype tn__arg_dtype(const tn__infer_args *args, const tn_arg *arg);

/* ------------------------------------------------------------------ choice */

/* A kernel that is held: its plugin cannot be unloaded until
 * tn__kernel_release. */
typedef struct tn__choice {
  tn__kernel *kernel;
} tn__choice;

/* Takes the first kernel that applies. `frame` has metadata only; its instance,
 * options and host are set for each candidate that is asked. `vars` are the
 * dtypes that the operator's type variables stand for. TN_UNSUPPORTED lists
 * every candidate with its reason. */
typedef struct tn__query {
  uint32_t pass; /* TN_PASS_* */
  int32_t device_type;
  const tn_dtype *vars;   /* op->n_dtype_vars; NULL: not decided yet */
  tn_frame *frame;        /* NULL: only what holds for all inputs */
  const tn_signature *io; /* of the forward call, complete; with `frame` */
  const uint32_t *absent; /* its inputs that are not given; may be NULL */
} tn__query;

tn_code tn__kernel_choose(tn_operator *op, const tn__query *query,
                          tn__choice *out);
void tn__kernel_release(const tn__choice *choice);
/* One more hold of a kernel that is held. */
tn__kernel *tn__kernel_retain(const tn__choice *choice);

/* Holds an operator (and its plugin) for a call; TN_NOT_FOUND if its plugin
 * was unloaded. tn__kernel_choose wants the operator held. */
tn_code tn__operator_hold(tn_operator *op);
void tn__operator_unhold(tn_operator *op);

/* Every candidate of both passes with its reason, for people. */
void tn__kernel_explain(tn_operator *op, const tn__query *query, tn__buf *out);

/* dtypes of the operator's type variables in a complete signature. */
void tn__dtype_vars(const tn_op *op, const tn_signature *io, tn_dtype *vars);

#endif /* TENON_REGISTRY_H_ */
