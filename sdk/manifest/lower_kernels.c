/* SPDX-License-Identifier: Apache-2.0
 * lower_kernels.c: lowers kernels written by hand: `kernels:` to tn_kernel
 * tables and the names of the author's functions. Used for operators and for
 * kernels_for documents.
 */
#include <string.h>

#include "front.h"
#include "tenon/draft/reduction.h"
#include "tenon/draft/registers.h"
#include "tenon/plugin/device.h"

/* One entry of the list `kernels`: its mapping `node`, and the kernel that is
 * made of it. */
typedef struct kernel_entry {
  tnm_lower *lower;
  const tnm_tree *node;
  tnm_kernel *out;
  tn_kernel table; /* the common part of forward and backward */
} kernel_entry;

static const char *const device_names[] = {"cpu", "cuda", NULL};
static const int32_t device_types[] = {TN_DEVICE_CPU, TN_DEVICE_CUDA};

static tnm_diags *get_diags(const kernel_entry *e) {
  return e->lower->diags;
}

/* ------------------------------------------------------------ sets of words */

/* Reads a list of words as a set of bits: a word that equals words[i] sets
 * bits[i]. */
static uint32_t read_word_set(const kernel_entry *e, const char *key,
                              const char *what, const char *const *words,
                              const uint32_t *bits) {
  const tnm_tree *list = tnm_tree_get(e->node, key);
  uint32_t set = 0;
  for (const tnm_tree *n = list == NULL ? NULL : list->first; n != NULL;
       n = n->next) {
    int found = tnm_read_word(get_diags(e), n, what, words);
    if (found >= 0) set |= bits[found];
  }
  return set;
}

/* Reads the properties (TN_KERNEL_*) that the author declares for the kernel.
 */
static uint32_t read_flags(const kernel_entry *e) {
  static const char *const words[] = {
      "elementwise", "reentrant", "deterministic", "capturable", "async",
      "reduction",   "wide_out",  "later",         NULL};
  static const uint32_t bits[] = {TN_KERNEL_ELEMENTWISE,   TN_KERNEL_REENTRANT,
                                  TN_KERNEL_DETERMINISTIC, TN_KERNEL_CAPTURABLE,
                                  TN_KERNEL_ASYNC,         TN_KERNEL_REDUCTION,
                                  TN_KERNEL_WIDE_OUT,      TN_KERNEL_LATER};
  return read_word_set(e, "flags", "a flag of a kernel", words, bits);
}

/* Reads the requests (TN_WRITES_*) that the kernel supports. */
static uint32_t read_writes(const kernel_entry *e) {
  static const char *const words[] = {"write", "add", "inplace", NULL};
  static const uint32_t bits[] = {TN_WRITES_WRITE, TN_WRITES_ADD,
                                  TN_WRITES_INPLACE};
  const tnm_tree *list = tnm_tree_get(e->node, "writes");
  if (list == NULL) return TN_WRITES_WRITE;
  uint32_t set = read_word_set(e, "writes", "a request", words, bits);
  if (set & TN_WRITES_WRITE) return set;
  tnm_diag_spec spec = {"E0059", list->pos, NULL};
  size_t id =
      tnm_diag_add(get_diags(e), &spec, "a kernel must be able to `write`");
  tnm_diag_add_help(get_diags(e), id,
                    "add `write`; the host lowers the others");
  return TN_WRITES_WRITE;
}

/* Reads the resources of the host that the kernel uses. */
static void read_resources(kernel_entry *e) {
  static const char *const words[] = {"rng", "order", NULL};
  static const uint32_t codes[] = {TN_RESOURCE_RANDOM, TN_RESOURCE_ORDER};
  const tnm_tree *list = tnm_tree_get(e->node, "resources");
  if (list == NULL) return;
  uint32_t *resources = TNM_NEW(e->lower->arena, uint32_t, list->n);
  if (resources == NULL) return;
  for (const tnm_tree *n = list->first; n != NULL; n = n->next) {
    const int word = tnm_read_word(get_diags(e), n, "a resource", words);
    if (word >= 0) resources[e->table.n_resources++] = codes[word];
  }
  e->table.resources = resources;
}

/* -------------------------------------------------------------------- types */

/* Reads the types that a kernel supports for one type variable; reports those
 * that the variable never has. */
static void read_dtype_set(const kernel_entry *e, const tnm_tree *list,
                           const tn_dtype_var *var, uint64_t *set) {
  if (!tnm_read_dtypes(get_diags(e), list, set)) return;
  uint64_t beyond = *set & ~var->allowed;
  if (beyond == 0) return;
  tnm_diag_spec spec = {"E0023", list->pos, NULL};
  uint32_t bit = 0;
  while ((beyond >> bit & 1) == 0) ++bit;
  tnm_diag_add(get_diags(e), &spec, "the operator's `%s` is never %s",
               var->name, tn__dtype_names[bit]);
}

/* Reads `dtypes: {T: [f32], ...}`: sets[i] are the types of type variable i
 * that the kernel supports. */
static void read_dtype_map(const kernel_entry *e, const tnm_tree *map,
                           uint64_t *sets) {
  const tn_op *op = e->lower->op;
  for (const tnm_tree *item = map->first; item != NULL; item = item->next) {
    uint32_t i = 0;
    while (i < op->n_dtype_vars &&
           strcmp(op->dtype_vars[i]->name, item->key) != 0)
      ++i;
    if (i < op->n_dtype_vars) {
      read_dtype_set(e, item, op->dtype_vars[i], &sets[i]);
      continue;
    }
    tnm_diag_spec spec = {"E0023", item->key_pos, NULL};
    tnm_diag_add(get_diags(e), &spec, "`%.80s` is no type variable", item->key);
  }
}

/* Reads the element types that the kernel supports for each type variable. */
static void read_dtypes(kernel_entry *e) {
  const tn_op *op = e->lower->op;
  uint64_t *sets = TNM_NEW(e->lower->arena, uint64_t, op->n_dtype_vars);
  const tnm_tree *value = tnm_tree_get(e->node, "dtypes");
  if (sets == NULL) return;
  e->table.dtype_sets = sets;
  e->table.n_dtype_sets = op->n_dtype_vars;
  if (value == NULL) return;
  if (value->kind == TNM_MAP) {
    read_dtype_map(e, value, sets);
  } else if (op->n_dtype_vars == 1) {
    read_dtype_set(e, value, op->dtype_vars[0], &sets[0]);
  } else {
    tnm_diag_spec spec = {"E0023", value->pos, NULL};
    size_t id =
        tnm_diag_add(get_diags(e), &spec,
                     "a list of types needs exactly one type variable, the "
                     "operator has %u",
                     op->n_dtype_vars);
    tnm_diag_add_help(get_diags(e), id,
                      "write `dtypes: {T: [...]}`, or leave it out");
  }
}

/* ----------------------------------------------------------- when, requires */

/* Reads the key `when`: the condition under which the kernel may compute a
 * call. */
static void read_when(kernel_entry *e) {
  const tnm_tree *value = tnm_tree_get(e->node, "when");
  tnm_lower *lower = e->lower;
  if (value == NULL || !tnm_read_line(lower->diags, value)) return;
  tnm_program program;
  tnm_program_init(&program, lower->arena, lower->diags, &lower->scope);
  program.dimless = "when";
  tnm_item item = {value->text, value->pos};
  uint32_t node;
  if (tnm_program_condition(&program, &item, &node) &&
      tnm_program_finish(&program, &e->table.nodes, &e->table.n_nodes)) {
    e->table.when = node;
    e->table.when_text = value->text;
  }
  tnm_program_deinit(&program);
}

/* Reads the key `requires`: names of libraries with their versions, as one
 * text. */
static void read_requires(kernel_entry *e) {
  const tnm_tree *map = tnm_tree_get(e->node, "requires");
  const char *text = NULL;
  for (const tnm_tree *n = map == NULL ? NULL : map->first; n != NULL;
       n = n->next) {
    if (!tnm_check_scalar(get_diags(e), n, "a version such as \">=8.0\""))
      continue;
    text =
        tnm_format_text(e->lower->arena, "%s%s%s %s", text == NULL ? "" : text,
                        text == NULL ? "" : ", ", n->key, n->text);
  }
  e->table.requirement = text;
}

/* -------------------------------------------------------- the author's code */

/* Reads the name of a C function or type; NULL if the key is missing or
 * invalid. */
static const char *read_symbol(const kernel_entry *e, const tnm_tree *map,
                               const char *key) {
  const tnm_tree *value = tnm_tree_get(map, key);
  if (value == NULL || !tnm_read_symbol(get_diags(e), value)) return NULL;
  return value->text;
}

/* Parses a number of bytes: "64", "1MiB". Returns false for any other text. */
static bool parse_bytes(const char *text, uint64_t *out) {
  static const char *const units[] = {"", "KiB", "MiB", "GiB"};
  size_t digits = strspn(text, "0123456789");
  char number[20];
  int64_t value;
  if (digits == 0 || digits >= sizeof number) return false;
  memcpy(number, text, digits);
  number[digits] = '\0';
  if (!tnm_parse_int(number, &value)) return false;
  for (unsigned i = 0; i < 4; ++i) {
    if (strcmp(text + digits, units[i]) != 0) continue;
    *out = (uint64_t)value << (10 * i);
    return *out >> (10 * i) == (uint64_t)value;
  }
  return false;
}

/* Reports a size in bytes that is not `expected`. */
static void report_bad_size(const kernel_entry *e, const tnm_tree *value,
                            const char *expected) {
  tnm_diag_spec spec = {"E0014", value->pos, NULL};
  tnm_diag_add(get_diags(e), &spec, "invalid value `%.80s`: expected %s",
               value->text, expected);
}

/* Reads `workspace`: the author's function that computes its size, its
 * alignment and its limit. */
static void read_workspace(const kernel_entry *e) {
  tnm_tree *map = tnm_tree_get(e->node, "workspace");
  if (map == NULL ||
      !tnm_schema_check(get_diags(e), &tnm_schema_workspace, map))
    return;
  const tnm_tree *align = tnm_tree_get(map, "align");
  const tnm_tree *max = tnm_tree_get(map, "max");
  e->out->workspace_symbol = read_symbol(e, map, "bytes");
  e->out->workspace_align = 64;
  uint64_t n;
  if (align != NULL) {
    if (parse_bytes(align->text, &n) && n > 0 && n <= 4096 &&
        (n & (n - 1)) == 0)
      e->out->workspace_align = n;
    else
      report_bad_size(e, align, "a power of two up to 4096");
  }
  if (max != NULL && !parse_bytes(max->text, &e->out->workspace_max))
    report_bad_size(e, max, "bytes such as `4096` or `64MiB`");
}

/* Reads `state`: the type, and the functions that create and destroy it. */
static void read_state(const kernel_entry *e) {
  static const char *const words[] = {"params", "shapes", "dtypes", NULL};
  tnm_tree *map = tnm_tree_get(e->node, "state");
  if (map == NULL || !tnm_schema_check(get_diags(e), &tnm_schema_state, map))
    return;
  e->out->state_type = read_symbol(e, map, "type");
  e->out->state_create = read_symbol(e, map, "create");
  e->out->state_destroy = read_symbol(e, map, "destroy");
  const tnm_tree *key = tnm_tree_get(map, "key");
  for (const tnm_tree *n = key == NULL ? NULL : key->first; n != NULL;
       n = n->next)
    tnm_read_word(get_diags(e), n, "a part of the key", words);
}

/* ----------------------------------------------------- forward and backward */

/* Tests whether the document has a gradient other than `none`, which the reader
 * has rejected. */
static bool is_gradient_refused(const tnm_tree *doc) {
  const tnm_tree *gradient = tnm_tree_get(doc, "gradient");
  if (gradient == NULL) return false;
  if (gradient->kind == TNM_SCALAR) return strcmp(gradient->text, "none") != 0;
  return tnm_tree_get(gradient, "none") == NULL;
}

/* Returns the value of `gradient: {kernel: backward}`; NULL if the gradient is
 * of another kind. */
static const tnm_tree *get_gradient_kernel(const tnm_lower *lower) {
  return tnm_tree_get(tnm_tree_get(lower->doc, "gradient"), "kernel");
}

/* Checks the key `backward` of a kernel: reports it if the gradient of the
 * operator needs no backward kernel, and reports a missing one. */
static void check_backward_key(const kernel_entry *e) {
  const tnm_tree *backward = tnm_tree_get(e->node, "backward");
  const tnm_tree *forward = tnm_tree_get(e->node, "forward");
  const tn_gradient *gradient = e->lower->op->gradient;
  if (backward == NULL && forward != NULL && get_gradient_kernel(e->lower)) {
    tnm_diag_spec spec = {"E0057", forward->key_pos, NULL};
    size_t id =
        tnm_diag_add(get_diags(e), &spec, "this kernel has no `backward`");
    tnm_diag_add_help(
        get_diags(e), id,
        "the gradient says `kernel: backward`: every kernel supplies "
        "it");
  } else if (backward != NULL && gradient != NULL &&
             gradient->kind == TN_GRADIENT_NONE &&
             !is_gradient_refused(e->lower->doc)) {
    tnm_diag_spec spec = {"E0057", backward->key_pos, NULL};
    size_t id = tnm_diag_add(get_diags(e), &spec,
                             "`backward`, but the operator has no gradient");
    tnm_diag_add_help(get_diags(e), id,
                      "add `gradient: {kernel: backward, needs: {...}}` to the "
                      "operator");
  }
}

/* Checks operators with formulas and a gradient by kernel. A kernel generated
 * from `forward` has no `backward`, so a listed kernel must have it. Listed
 * kernels with a `forward` have been checked before. */
static void check_missing_backward(const tnm_lower *lower) {
  const tnm_tree *at = get_gradient_kernel(lower);
  const tnm_tree *list = tnm_tree_get(lower->doc, "kernels");
  if (at == NULL || !tnm_tree_has(lower->doc, "forward")) return;
  for (const tnm_tree *k = list == NULL ? NULL : list->first; k != NULL;
       k = k->next)
    if (tnm_tree_has(k, "backward") || tnm_tree_has(k, "forward")) return;
  tnm_diag_spec spec = {"E0057", at->key_pos, NULL};
  size_t id = tnm_diag_add(lower->diags, &spec, "no kernel has a `backward`");
  tnm_diag_add_help(lower->diags, id,
                    "list one in `kernels: [{device: cpu, backward: ...}]`, or "
                    "write the gradient as `formula: {...}` or `auto: true`");
}

/* Makes the table of the forward or backward kernel (TN_PASS_*) of an entry,
 * from the part that both have in common. Returns NULL if memory ran out. */
static const tn_kernel *make_kernel_of_pass(const kernel_entry *e,
                                            uint32_t pass) {
  tn_kernel *kernel = TNM_NEW(e->lower->arena, tn_kernel, 1);
  if (kernel == NULL) return NULL;
  *kernel = e->table;
  kernel->pass = pass;
  tnm_set_kernel_inplace(e->lower, tnm_tree_get(e->node, "inplace"), kernel);
  if (pass == TN_PASS_FORWARD) return kernel;
  kernel->flags &= ~TN_KERNEL_REDUCTION; /* only forward kernels have it */
  return kernel;
}

/* Reads the names of the author's functions for both passes. */
static void read_functions(const kernel_entry *e) {
  tnm_kernel *out = e->out;
  out->forward_symbol = read_symbol(e, e->node, "forward");
  out->backward_symbol = read_symbol(e, e->node, "backward");
  if (out->forward_symbol != NULL)
    out->forward = make_kernel_of_pass(e, TN_PASS_FORWARD);
  if (out->backward_symbol != NULL)
    out->backward = make_kernel_of_pass(e, TN_PASS_BACKWARD);
  if (tnm_tree_get(e->node, "forward") == NULL &&
      tnm_tree_get(e->node, "backward") == NULL) {
    tnm_diag_spec spec = {"E0058", e->node->pos, NULL};
    size_t id =
        tnm_diag_add(get_diags(e), &spec, "this kernel has no function");
    tnm_diag_add_help(get_diags(e), id, "add `forward: ...` with a C name");
  }
  check_backward_key(e);
}

/* Checks the flag `async`, which a kernel has if its call may end later than
 * its function. On a device with queues, a call ends when its queue has
 * executed it. */
static void check_async_flag(const kernel_entry *e) {
  const tnm_tree *list = tnm_tree_get(e->node, "flags");
  if (!(e->table.flags & TN_KERNEL_ASYNC) ||
      e->table.device_type != TN_DEVICE_CPU)
    return;
  tnm_diag_spec spec = {"E0092", list->pos, NULL};
  size_t id = tnm_diag_add(get_diags(e), &spec,
                           "`async` is for devices with queues, and the cpu is "
                           "none");
  tnm_diag_add_help(
      get_diags(e), id,
      "take `async` out of `flags`, and return when everything is "
      "computed; a call that completes later has `later`");
}

/* Checks the flag `later`, which a kernel has if its call may end when the
 * plugin reports its completion. */
static void check_later_flag(const kernel_entry *e) {
  const uint32_t others = TN_KERNEL_ELEMENTWISE | TN_KERNEL_REDUCTION |
                          TN_KERNEL_ASYNC | TN_KERNEL_CAPTURABLE;
  const tnm_tree *list = tnm_tree_get(e->node, "flags");
  if (!(e->table.flags & TN_KERNEL_LATER) || !(e->table.flags & others)) return;
  tnm_diag_spec spec = {"E0099", list->pos, NULL};
  size_t id = tnm_diag_add(get_diags(e), &spec,
                           "`later` is for kernels that are not `elementwise`, "
                           "`reduction`, `async` or `capturable`");
  tnm_diag_add_help(get_diags(e), id,
                    "take the other flags out, or `later` if the call ends "
                    "with its function or with its queue");
}

/* Reads the author's function that offers register kernels; only elementwise
 * kernels of the CPU may have one. */
static void read_registers(kernel_entry *e) {
  const tnm_tree *value = tnm_tree_get(e->node, "registers");
  e->out->registers_symbol = read_symbol(e, e->node, "registers");
  if (value == NULL) return;
  e->table.flags |= TN_KERNEL_REGISTERS;
  if ((e->table.flags & TN_KERNEL_ELEMENTWISE) &&
      e->table.device_type == TN_DEVICE_CPU)
    return;
  tnm_diag_spec spec = {"E0091", value->key_pos, NULL};
  size_t id =
      tnm_diag_add(get_diags(e), &spec,
                   "register kernels of a kernel that is not elementwise on "
                   "the cpu");
  tnm_diag_add_help(
      get_diags(e), id,
      "add `elementwise` to the `flags` of a kernel for `cpu`, or "
      "leave `registers` out");
}

/* ------------------------------------------------------------------ entries */

/* Makes the id of a kernel: "nn.convolution.cpu". The second kernel for a
 * device is "nn.convolution.cpu.2". */
static const char *make_id(const kernel_entry *e, int device) {
  unsigned before = 0;
  const tnm_tree *list = tnm_tree_get(e->lower->doc, "kernels");
  for (const tnm_tree *n = list->first; n != e->node; n = n->next) {
    const char *other = tnm_get_text(n, "device");
    before += other != NULL && strcmp(other, device_names[device]) == 0;
  }
  tn__arena *arena = e->lower->arena;
  const char *stem = tnm_kernel_stem(e->lower);
  if (before == 0)
    return tnm_format_text(arena, "%s.%s", stem, device_names[device]);
  return tnm_format_text(arena, "%s.%s.%u", stem, device_names[device],
                         before + 1);
}

/* Adds the kernel's id to the known ones; reports an id that another kernel
 * has. */
static void register_id(const kernel_entry *e) {
  tnm_reader *reader = e->lower->reader;
  if (e->table.id == NULL) return;
  const tnm_kernel *other = tn__map_get(&reader->kernels, e->table.id);
  if (other == NULL) {
    if (tn__map_set(reader->env, &reader->kernels, e->table.id, e->out) !=
        TN_OK)
      reader->arena->failed = true;
    return;
  }
  tnm_diag_spec spec = {"E0016", e->node->pos, "second one"};
  size_t id = tnm_diag_add(reader->diags, &spec, "kernel `%s` exists twice",
                           e->table.id);
  tnm_diag_add_place(reader->diags, id, other->pos, "first one");
}

/* Reads the device of a kernel, and gives the kernel its id. Returns false,
 * after a message, if the device is unknown. */
static bool read_device(kernel_entry *e) {
  const tnm_tree *device = tnm_tree_get(e->node, "device");
  if (device == NULL) return false;
  int found = tnm_read_word(get_diags(e), device, "a device", device_names);
  if (found < 0) return false;
  e->table.device_type = device_types[found];
  e->table.id = make_id(e, found);
  register_id(e);
  return true;
}

/* Tests whether the kernel belongs to the companion plugin: a CUDA kernel of an
 * operator of this plugin. So the author of an operator needs no CUDA. In a
 * kernels_for document the plugin itself has the CUDA kernels, and a host
 * supplies its own functions. */
static bool is_companion(const kernel_entry *e) {
  const tnm_text *text = e->lower->reader->text;
  const bool of_host = text != NULL && text->plugin != NULL;
  return e->table.device_type == TN_DEVICE_CUDA &&
         e->lower->out->target == NULL && !of_host;
}

/* Reads the options that a host can set for the kernel. */
static void read_options(kernel_entry *e) {
  tn_field **fields =
      tnm_lower_fields(e->lower->reader, tnm_tree_get(e->node, "options"), 1,
                       &e->table.n_options, &e->table.options_size);
  e->table.options = (const tn_field *const *)fields;
}

/* Reads the priority: among candidates of a call, the host prefers higher
 * ones. The default is 10. */
static void read_priority(kernel_entry *e) {
  const tnm_tree *value = tnm_tree_get(e->node, "priority");
  int64_t priority = 10;
  if (value != NULL)
    tnm_read_int(get_diags(e), value, -1000000, 1000000, &priority);
  e->table.priority = (int32_t)priority;
}

/* Reads one entry of `kernels` into *out. */
static void read_entry(tnm_lower *lower, tnm_tree *node, tnm_kernel *out) {
  kernel_entry e = {.lower = lower, .node = node, .out = out};
  out->pos = node->pos;
  if (!tnm_schema_check(lower->diags, &tnm_schema_kernel, node)) return;
  e.table = (tn_kernel){.struct_size = sizeof e.table,
                        .flags = read_flags(&e),
                        .writes = read_writes(&e),
                        .when = TN_NONE,
                        .op = lower->target_name};
  if (read_device(&e)) {
    check_async_flag(&e);
    check_later_flag(&e);
  }
  tnm_check_kernel_inplace(lower, tnm_tree_get(node, "inplace"),
                           e.table.writes);
  out->companion = is_companion(&e);
  read_priority(&e);
  read_resources(&e);
  read_dtypes(&e);
  read_requires(&e);
  if (!lower->incomplete) read_when(&e);
  read_options(&e);
  out->supports_symbol = read_symbol(&e, node, "supports");
  read_workspace(&e);
  read_state(&e);
  read_registers(&e);
  read_functions(&e);
}

void tnm_lower_kernels(tnm_lower *lower) {
  const tnm_tree *list = tnm_tree_get(lower->doc, "kernels");
  check_missing_backward(lower);
  if (list == NULL) return;
  tnm_kernel *kernels = TNM_NEW(lower->arena, tnm_kernel, list->n);
  if (kernels == NULL) return;
  lower->out->kernels = kernels;
  for (tnm_tree *node = list->first; node != NULL; node = node->next)
    read_entry(lower, node, &kernels[lower->out->n_kernels++]);
}
