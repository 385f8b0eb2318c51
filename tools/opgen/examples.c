/* SPDX-License-Identifier: Apache-2.0
 * examples.c: lets the host itself check the examples and defaults of a plugin.
 * Each operator is registered without kernels; then the examples' parameters
 * are parsed and their shapes inferred. So the examples of a manifest show the
 * results that a user will see.
 */
#include <string.h>

#include "examples.h"
#include "opgen.h"

/* One operator under test. */
typedef struct bench {
  tnm_diags *diags;
  tn_operator *host; /* as registered */
  const tnm_operator *op;
  tn__arena *arena; /* for signatures and texts */
} bench;

/* --------------------------------------------------------------- signatures */

/* The type in which examples are computed. */
static tn_dtype preferred_dtype(uint64_t allowed) {
  if ((allowed & TN_BIT_F32) != 0) return TN_F32;
  for (size_t i = 0; i < TN__N_DTYPES; ++i)
    if ((allowed >> i & 1u) != 0) return tn__dtype_at(i);
  return TN_DTYPE_UNKNOWN;
}

tn_dtype example_dtype(const tn_op *op, const tn_arg *arg,
                       const tn_kernel *kernel) {
  const uint32_t var = arg->dtype_var;
  if (var == TN_NONE) return arg->dtype;
  uint64_t allowed = op->dtype_vars[var]->allowed;
  if (kernel != NULL && var < kernel->n_dtype_sets &&
      kernel->dtype_sets[var] != 0)
    allowed &= kernel->dtype_sets[var];
  return preferred_dtype(allowed);
}

/* Finds item number `skip` with that name. */
const tnm_data *example_find(const tnm_example_item *items, size_t n,
                             const char *name, uint32_t skip) {
  for (size_t i = 0; i < n; ++i)
    if (strcmp(items[i].name, name) == 0 && skip-- == 0) return &items[i].data;
  return NULL;
}

static uint32_t count_items(const tnm_example *example, const char *name) {
  uint32_t n = 0;
  while (example_find(example->items, example->n_items, name, n) != NULL) ++n;
  return n;
}

static void set_shape(tn_sig *sig, const tnm_data *data) {
  sig->ndim = data != NULL ? data->ndim : -1;
  for (int32_t i = 0; data != NULL && i < data->ndim; ++i)
    sig->shape[i] = data->shape[i];
}

/* The operand at position `i` of a list; its last entry may be variadic. */
const tn_arg *example_arg(const tn_arg *const *args, uint32_t n, uint32_t i,
                          uint32_t *skip) {
  const uint32_t at = i < n ? i : n - 1;
  *skip = i - at;
  return args[at];
}

/* Number of operands of a list in this example. */
uint32_t example_length(const tnm_example *example, const tn_arg *const *args,
                        uint32_t n) {
  if (n == 0) return 0;
  const tn_arg *last = args[n - 1];
  const bool many =
      (last->flags & TN_ARG_VARIADIC) != 0 || last->count != TN_NONE;
  return many ? n - 1 + count_items(example, last->name) : n;
}

/* Number of inputs in the example: optional ones at the end may be omitted. */
static uint32_t count_inputs(const tnm_example *example, const tn_op *op) {
  uint32_t n = example_length(example, op->inputs, op->n_inputs);
  while (n > 0 && n <= op->n_inputs &&
         (op->inputs[n - 1]->flags & TN_ARG_OPTIONAL) != 0 &&
         count_items(example, op->inputs[n - 1]->name) == 0)
    --n;
  return n;
}

static bool signature_init(const bench *b, const tnm_example *example,
                           tn_signature *io) {
  const tn_op *op = b->op->op;
  *io = (tn_signature){
      .n_in = count_inputs(example, op),
      .n_out = example_length(example, op->outputs, op->n_outputs),
      .n_aux = op->n_aux,
  };
  io->in = tn__arena_alloc(b->arena, (io->n_in + 1u) * sizeof(tn_sig));
  io->out = tn__arena_alloc(b->arena, (io->n_out + 1u) * sizeof(tn_sig));
  io->aux = tn__arena_alloc(b->arena, (io->n_aux + 1u) * sizeof(tn_sig));
  if (b->arena->failed) return false;
  for (uint32_t i = 0; i < io->n_in; ++i) {
    uint32_t skip = 0;
    const tn_arg *arg = example_arg(op->inputs, op->n_inputs, i, &skip);
    const tnm_data *data =
        example_find(example->items, example->n_items, arg->name, skip);
    set_shape(&io->in[i], data);
    if (data == NULL && (arg->flags & TN_ARG_OPTIONAL)) io->in[i].ndim = -2;
    io->in[i].dtype =
        data != NULL ? example_dtype(op, arg, NULL) : TN_DTYPE_UNKNOWN;
  }
  for (uint32_t i = 0; i < io->n_out; ++i) io->out[i].ndim = -1;
  for (uint32_t i = 0; i < io->n_aux; ++i)
    set_shape(&io->aux[i], example_find(example->items, example->n_items,
                                        op->aux[i]->name, 0));
  return true;
}

/* -------------------------------------------------------------- comparisons */

static bool fits_shape(const tn_sig *sig, const tnm_data *data) {
  if (sig->ndim < 0) return true;
  if (sig->ndim != data->ndim) return false;
  for (int32_t i = 0; i < sig->ndim; ++i)
    if (sig->shape[i] >= 0 && sig->shape[i] != data->shape[i]) return false;
  return true;
}

static const char *shape_text(const bench *b, int32_t ndim,
                              const int64_t *shape) {
  tn__buf buf;
  tn__buf_init(&buf, tn__env_default());
  tn__buf_shape(&buf, ndim, shape);
  const char *text = buf.n > 0 ? tn__arena_text(b->arena, buf.s, buf.n) : NULL;
  tn__buf_deinit(&buf);
  return text != NULL ? text : "?";
}

/* The compared item: `prefix` is "grad." for gradients. */
typedef struct compared {
  const char *prefix;
  const tn_arg *arg;
  const tn_sig *sig;
  const tnm_data *data;
  const tnm_pos *rule; /* position of the operand's shape, or NULL */
} compared;

/* Adds the rule and its inputs. */
static void explain_shape(const bench *b, size_t id, const compared *o,
                          const shape_case *c) {
  tn__buf given;
  tn__buf_init(&given, tn__env_default());
  bindings_print(c, o->arg, &given);
  const char *want = shape_text(b, o->sig->ndim, o->sig->shape);
  tnm_pos begin = *o->rule;
  begin.length = 1;
  if (given.n > 0)
    tnm_diag_add_place(b->diags, id, begin, "%s give %s", given.s, want);
  else
    tnm_diag_add_place(b->diags, id, begin, "gives %s", want);
  tn__buf_deinit(&given);
}

static void compare_shape(const bench *b, const compared *o,
                          const shape_case *c) {
  if (o->data == NULL || fits_shape(o->sig, o->data)) return;
  const char *found = shape_text(b, o->data->ndim, o->data->shape);
  const tnm_diag_spec spec = {"E0071", o->data->pos, found};
  const size_t id = tnm_diag_add(
      b->diags, &spec, "example `%s`: `%s%s` has shape %s, expected %s",
      c->example->name, o->prefix, o->arg->name, found,
      shape_text(b, o->sig->ndim, o->sig->shape));
  if (o->rule != NULL) explain_shape(b, id, o, c);
}

static void compare_outputs(const bench *b, const shape_case *c) {
  const tnm_example *example = c->example;
  for (uint32_t i = 0; i < c->io->n_out; ++i) {
    compared o = {.prefix = "", .sig = &c->io->out[i]};
    uint32_t skip = 0;
    o.arg = example_arg(c->op->outputs, c->op->n_outputs, i, &skip);
    o.rule = b->op->shapes != NULL ? &b->op->shapes[i - skip] : NULL;
    o.data = example_find(example->items, example->n_items, o.arg->name, skip);
    compare_shape(b, &o, c);
    o.prefix = "grad.";
    o.rule = NULL;
    o.data = example_find(example->grads, example->n_grads, o.arg->name, skip);
    compare_shape(b, &o, c);
  }
}

static void compare_gradients(const bench *b, const shape_case *c) {
  const tnm_example *example = c->example;
  for (uint32_t i = 0; i < c->io->n_in; ++i) {
    compared o = {.prefix = "grad.", .sig = &c->io->in[i]};
    uint32_t skip = 0;
    o.arg = example_arg(c->op->inputs, c->op->n_inputs, i, &skip);
    o.data = example_find(example->grads, example->n_grads, o.arg->name, skip);
    compare_shape(b, &o, c);
  }
}

/* ----------------------------------------------------------------- examples */

/* Reports the host's last message in its own words, without the plugin's place,
 * which is this program. */
static void report_host_error(const bench *b, const char *code, tnm_pos pos,
                              const char *what, const char *name) {
  const char *text = tn_error_text();
  const char *place = strstr(text, " ((static))");
  const tnm_diag_spec spec = {code, pos, NULL};
  tnm_diag_add(b->diags, &spec, "%s `%s`: %.*s", what, name,
               (int)(place != NULL ? (size_t)(place - text) : strlen(text)),
               text);
}

static void check_shapes(const bench *b, const tnm_example *example,
                         const tn_params *params) {
  tn_signature io;
  if (!signature_init(b, example, &io)) return;
  const tn_code code = tn_operator_infer(b->host, params, &io);
  if (code != TN_OK && code != TN_INCOMPLETE) {
    report_host_error(b, "E0072", example->pos, "example", example->name);
    return;
  }
  const shape_case c = {b->op->op, example, params, &io};
  compare_outputs(b, &c);
  compare_gradients(b, &c);
}

static void check_example(const bench *b, const tnm_example *example) {
  tn_params *params = NULL;
  if (tn_params_create(b->host, example->params, example->n_params, &params) !=
      TN_OK)
    report_host_error(b, "E0070", example->pos, "example", example->name);
  else
    check_shapes(b, example, params);
  tn_params_release(params);
}

/* -------------------------------------------------------------- the runtime */

/* A plugin of this operator only, without any function that would be called. */
static tn_plugin plugin_of(const tnm_plugin *plugin, const tnm_operator *op,
                           tn__arena *arena) {
  tn_plugin copy = *plugin->plugin;
  const char *target = op->target != NULL ? op->target->op : NULL;
  if (target != NULL)
    copy.name = tn__arena_text(arena, target, strcspn(target, "."));
  copy.operators = &op->op;
  copy.n_operators = 1;
  copy.kernels = NULL;
  copy.n_kernels = 0;
  copy.targets = NULL;
  copy.n_targets = 0;
  return copy;
}

/* Checks the defaults by registration. TN_OK also after a message. */
static tn_code check_registered(bench *b, tn_runtime *rt,
                                const tn_plugin *plugin) {
  tn_code code = tn_plugin_add(rt, plugin);
  if (code == TN_OUT_OF_MEMORY) return code;
  if (code != TN_OK) {
    report_host_error(b, "E0073", b->op->pos, "operator", b->op->op->name);
    return TN_OK;
  }
  code = tn_operator_at(rt, 0, &b->host);
  for (size_t i = 0; code == TN_OK && i < b->op->n_examples; ++i)
    check_example(b, &b->op->examples[i]);
  return code == TN_OK && b->arena->failed ? TN_OUT_OF_MEMORY : code;
}

static tn_code check_operator(const tnm_plugin *plugin, const tnm_operator *op,
                              tnm_diags *diags) {
  const tn_options options = {
      .struct_size = sizeof options, .workers = 1, .trust = TN_TRUST_REPLACE};
  tn_runtime *rt = NULL;
  tn__arena arena;
  tn__arena_init(&arena, tn__env_default());
  const tn_plugin one = plugin_of(plugin, op, &arena);
  bench b = {.diags = diags, .op = op, .arena = &arena};
  tn_code code =
      one.name != NULL ? tn_runtime_create(&options, &rt) : TN_OUT_OF_MEMORY;
  if (code == TN_OK) code = check_registered(&b, rt, &one);
  tn_runtime_release(rt);
  tn__arena_deinit(&arena);
  return code;
}

/* If the author's function infers the shapes, the operator cannot be checked
 * before it is compiled. */
static bool is_checked(const tnm_operator *op) {
  const tn_op *d = op->op;
  for (uint32_t i = 0; i < d->n_inputs + d->n_outputs + d->n_aux; ++i) {
    const uint32_t out = i - d->n_inputs, aux = out - d->n_outputs;
    const tn_arg *arg = i < d->n_inputs      ? d->inputs[i]
                        : out < d->n_outputs ? d->outputs[out]
                                             : d->aux[aux];
    if (arg->shape_kind == TN_SHAPE_HOOK) return false;
  }
  return true;
}

bool opgen_check_examples(const tnm_plugin *plugin, tnm_diags *diags) {
  tn_code code = TN_OK;
  for (size_t i = 0; i < plugin->n_operators && code == TN_OK; ++i) {
    tnm_operator op = plugin->operators[i];
    if (op.op == NULL && op.n_examples > 0) op.op = op.target_op;
    if (op.op != NULL && is_checked(&op))
      code = check_operator(plugin, &op, diags);
  }
  return code == TN_OK;
}
