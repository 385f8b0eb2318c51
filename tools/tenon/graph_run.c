/* SPDX-License-Identifier: Apache-2.0
 * graph_run.c: `tenon graph run`: the variables of a graph get arrays from the
 * command line and from files, and the graph runs forward once.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net.h"

/* A variable that the heads depend on. */
typedef struct variable {
  char *name;
  tn_entry entry;
  tn_array *array; /* owned; NULL: not given */
  bool is_state;
  bool is_label; /* read as a label only: a forward run needs none */
  bool is_typed; /* the command line gives it, so files do not */
} variable;

/* A node, and its operator or NULL; both borrowed from the graph. */
typedef struct named {
  const char *name;
  const char *op;
} named;

typedef struct session {
  net *n;
  tn_graph *flat; /* for --profile, else NULL */
  named *nodes;   /* of it, sorted */
  size_t n_nodes;
  variable *variables;
  size_t n_variables;
  tn_program *program;
} session;

static bool fail_session(const session *s) {
  return fail_library(s->n->why);
}

/* ---------------------------------------------------------------- variables */

static bool add_variable(session *s, const char *name, tn_entry entry,
                         bool is_state) {
  variable *list =
      (variable *)realloc(s->variables, (s->n_variables + 1) * sizeof *list);
  char *copy = strdup(name);
  if (list) s->variables = list;
  if (!list || !copy) {
    free(copy);
    return report_failure(s->n->why, "out of memory");
  }
  s->variables[s->n_variables++] =
      (variable){.name = copy, .entry = entry, .is_state = is_state};
  return true;
}

static bool list_variables(session *s) {
  static const uint32_t lists[] = {TN_GRAPH_ARGUMENTS, TN_GRAPH_AUXILIARIES};
  const char *name = NULL;
  tn_entry entry;
  for (int k = 0; k < 2; ++k)
    for (size_t i = 0; !tn_graph_name(s->n->graph, lists[k], i, &name, &entry);
         ++i)
      if (!add_variable(s, name, entry, k == 1)) return false;
  return true;
}

static variable *find_variable(const session *s, const char *name, size_t n) {
  for (size_t i = 0; i < s->n_variables; ++i)
    if (strlen(s->variables[i].name) == n &&
        !strncmp(s->variables[i].name, name, n))
      return &s->variables[i];
  return NULL;
}

static void free_session(session *s) {
  tn_program_release(s->program);
  for (size_t i = 0; i < s->n_variables; ++i) {
    tn_array_release(s->variables[i].array);
    free(s->variables[i].name);
  }
  free(s->variables);
  free(s->nodes);
  tn_graph_release(s->flat);
}

/* ------------------------------------------------------------------- labels */

/* The role of entry number `index` of those that a call reads. */
static uint32_t role_of(const session *s, const char *op_name, size_t index) {
  tn_operator *op = NULL;
  if (!op_name || tn_operator_get(s->n->rt, op_name, &op)) return TN_ROLE_DATA;
  const tn_op *desc = tn_operator_desc(op);
  if (!desc || desc->n_inputs == 0) return TN_ROLE_DATA;
  return desc->inputs[index < desc->n_inputs ? index : desc->n_inputs - 1]
      ->role;
}

/* Looks at all readers of a variable that was not given. */
static bool is_label(const session *s, const variable *v) {
  const char *name = NULL;
  bool found = false;
  if (v->array || v->is_state) return false;
  tn_entry node, child;
  for (size_t i = 0;
       !tn_graph_name(s->n->graph, TN_GRAPH_NODES, i, &name, &node); ++i)
    for (size_t k = 0; !tn_graph_child(s->n->graph, node.node, k, &child);
         ++k) {
      if (child.node != v->entry.node) continue;
      const char *op = tn_graph_operator(s->n->graph, node.node);
      if (role_of(s, op, k) != TN_ROLE_LABEL) return false;
      found = true;
    }
  return found;
}

/* -------------------------------------------------------------------- words */

/* A word with `=` is NAME=INPUT unless a file has this name. */
static size_t name_length(const char *word) {
  const size_t n = strcspn(word, "=");
  return word[n] && access(word, F_OK) != 0 ? n : 0;
}

static bool fail_unknown(const session *s, const char *name, size_t n) {
  const char **names = (const char **)calloc(s->n_variables + 1, sizeof *names);
  text list = {0}, wanted = {0};
  for (size_t i = 0; names && i < s->n_variables; ++i) {
    names[i] = s->variables[i].name;
    text_add(&list, "%s%s", i ? ", " : "", names[i]);
  }
  text_add_bytes(&wanted, name, n);
  const char *meant =
      names ? did_you_mean(text_get(&wanted), names, s->n_variables) : NULL;
  if (meant)
    report_failure(s->n->why,
                   "the graph has no argument `%s`; did you mean `%s`?",
                   text_get(&wanted), meant);
  else
    report_failure(s->n->why, "the graph has no argument `%s`; it has %s",
                   text_get(&wanted), list.n ? text_get(&list) : "none");
  text_deinit(&list), text_deinit(&wanted);
  free(names);
  return false;
}

/* Inputs that are written out get the type that the graph knows. */
static tn_dtype type_of(const session *s, const variable *v) {
  tn_sig sig = {.dtype = TN_DTYPE_UNKNOWN};
  if (s->n->args->given & OPTION_DTYPE ||
      tn_graph_sig(s->n->graph, v->entry, &sig) ||
      sig.dtype == TN_DTYPE_UNKNOWN)
    return s->n->args->dtype;
  return sig.dtype;
}

static bool read_named(session *s, input_reader *reader, const char *word,
                       size_t n) {
  variable *v = find_variable(s, word, n);
  if (!v) return fail_unknown(s, word, n);
  if (v->array)
    return report_failure(s->n->why, "`%s` is given twice", v->name);
  reader->dtype = type_of(s, v);
  if (!input_read(reader, word + n + 1, &v->array))
    return report_failure(s->n->why, "%s: %s", v->name, text_get(s->n->why));
  v->is_typed = true;
  return true;
}

static bool read_all_named(session *s) {
  const arguments *args = s->n->args;
  input_reader reader = {.rt = s->n->rt,
                         .why = s->n->why,
                         .dtype = args->dtype,
                         .converts = (args->given & OPTION_DTYPE) != 0,
                         .seed = args->seed};
  bool ok = true;
  for (size_t i = 2; ok && i < args->n_words; ++i) {
    const size_t n = name_length(args->words[i]);
    if (n) ok = read_named(s, &reader, args->words[i], n);
  }
  input_reader_deinit(&reader);
  return ok;
}

/* -------------------------------------------------------------------- files */

/* --dtype is for weights too, where both types are floating. */
static bool convert_weight(const session *s, tn_array **array) {
  const tn_dtype wanted = s->n->args->dtype;
  const tn_dtype from = tn_array_tensor(*array)->dtype;
  tn_array *cast = NULL;
  if (!(s->n->args->given & OPTION_DTYPE) || from == wanted ||
      !dtype_is_float(from) || !dtype_is_float(wanted))
    return true;
  if (tn_array_cast(*array, wanted, &cast)) return fail_session(s);
  tn_array_release(*array);
  *array = cast;
  return true;
}

/* Takes the arrays that have the names of variables. Those of a folder's own
 * weights (`is_default`) leave variables alone that have an array. */
static bool take_arrays(session *s, tn_bundle *file, bool is_default,
                        size_t *n_known) {
  tn_bundle_entry entry;
  for (size_t i = 0; !tn_bundle_at(file, i, &entry); ++i) {
    variable *v = find_variable(s, entry.name, strlen(entry.name));
    if (!v) continue;
    ++*n_known;
    if (v->is_typed || (v->array && is_default)) continue;
    if (v->array)
      return report_failure(s->n->why, "two files have the array `%s`",
                            v->name);
    if (tn_bundle_get(file, entry.name, 0, &v->array)) return fail_session(s);
    if (!convert_weight(s, &v->array)) return false;
  }
  return true;
}

static bool fail_foreign(const session *s, const char *path,
                         const tn_bundle *file) {
  enum { MOST = 5 };
  tn_bundle_entry entry;
  const size_t n = tn_bundle_size(file);
  text theirs = {0}, ours = {0};
  for (size_t i = 0; i < n && i < MOST && !tn_bundle_at(file, i, &entry); ++i)
    text_add(&theirs, "%s%s", i ? ", " : "", entry.name);
  for (size_t i = 0; i < s->n_variables && i < MOST; ++i)
    text_add(&ours, "%s%s", i ? ", " : "", s->variables[i].name);
  report_failure(
      s->n->why,
      "%s: none of its %zu arrays (%s%s) has the name of an argument or state "
      "of the graph (%s%s)",
      path, n, text_get(&theirs), n > MOST ? ", ..." : "", text_get(&ours),
      s->n_variables > MOST ? ", ..." : "");
  text_deinit(&theirs), text_deinit(&ours);
  return false;
}

static bool read_weights(session *s, const char *path) {
  tn_bundle *file = NULL;
  size_t n_known = 0;
  if (*path == '@' || !input_is_bundle(path))
    return report_failure(
        s->n->why,
        "`%s` is neither NAME=INPUT, such as data=@x.npy, nor a file of "
        "weights, such as w.safetensors or w.npz",
        path);
  if (tn_bundle_open(s->n->rt, path, &file)) return fail_session(s);
  const bool ok = take_arrays(s, file, false, &n_known) &&
                  (n_known > 0 || fail_foreign(s, path, file));
  tn_bundle_close(file);
  return ok;
}

/* The weights of a folder are for variables that nothing else gave. */
static bool read_own_weights(session *s) {
  const char *path = text_get(&s->n->weights);
  tn_bundle *file = NULL;
  size_t n_known = 0;
  if (!*path) return true;
  if (tn_bundle_open(s->n->rt, path, &file)) return fail_session(s);
  const bool ok = take_arrays(s, file, true, &n_known);
  tn_bundle_close(file);
  return ok;
}

static bool read_all_weights(session *s) {
  const arguments *args = s->n->args;
  for (size_t i = 2; i < args->n_words; ++i)
    if (!name_length(args->words[i]) && !read_weights(s, args->words[i]))
      return false;
  return read_own_weights(s);
}

/* ------------------------------------------------------------------ missing */

static tn_sig sig_of(const tn_array *array) {
  const tn_tensor *t = tn_array_tensor(array);
  tn_sig sig = {.dtype = t->dtype, .ndim = t->ndim};
  if (t->ndim > 0)
    memcpy(sig.shape, t->shape, (size_t)t->ndim * sizeof *t->shape);
  return sig;
}

/* Shapes that follow from the given arrays. */
static bool infer_shapes(session *s) {
  tn_known *known = (tn_known *)calloc(s->n_variables + 1, sizeof *known);
  size_t n = 0;
  if (!known) return report_failure(s->n->why, "out of memory");
  for (size_t i = 0; i < s->n_variables; ++i)
    if (s->variables[i].array)
      known[n++] =
          (tn_known){s->variables[i].name, sig_of(s->variables[i].array)};
  const tn_code code = tn_graph_infer(s->n->graph, known, n);
  free(known);
  return !code || code == TN_INCOMPLETE || fail_session(s);
}

/* " f32 (?,3)", as far as it is known. */
static void add_sig(const session *s, const variable *v, text *out) {
  tn_sig sig;
  if (tn_graph_sig(s->n->graph, v->entry, &sig)) return;
  if (sig.dtype != TN_DTYPE_UNKNOWN)
    text_add(out, " %s", dtype_name(sig.dtype));
  if (sig.ndim < 0) return;
  text_add(out, " (");
  for (int32_t i = 0; i < sig.ndim; ++i) {
    text_add(out, "%s", i ? "," : "");
    if (sig.shape[i] < 0)
      text_add(out, "?");
    else
      text_add(out, "%lld", (long long)sig.shape[i]);
  }
  text_add(out, ")");
}

/* States begin as their operators say, and labels are not needed. */
static bool check_missing(const session *s) {
  text list = {0};
  const char *first = NULL;
  size_t n = 0;
  for (size_t i = 0; i < s->n_variables; ++i) {
    const variable *v = &s->variables[i];
    if (v->array || v->is_state || v->is_label) continue;
    text_add(&list, "%s`%s`", n++ ? ", " : "", v->name);
    add_sig(s, v, &list);
    if (!first) first = v->name;
  }
  if (n > 0)
    report_failure(
        s->n->why,
        "%s: %zu argument%s not given: %s; write NAME=INPUT, such as "
        "%s=@x.npy, or name a .npz or .safetensors file that has %s",
        s->n->args->words[1], n, n == 1 ? " is" : "s are", text_get(&list),
        first, n == 1 ? "it" : "them");
  text_deinit(&list);
  return n == 0;
}

/* --------------------------------------------------------------------- run */

/* The type of a label that was not given is f32 where nothing else is known. */
static tn_sig label_sig(const session *s, const variable *v) {
  tn_sig sig = {.dtype = TN_DTYPE_UNKNOWN, .ndim = -1};
  if (tn_graph_sig(s->n->graph, v->entry, &sig) ||
      sig.dtype == TN_DTYPE_UNKNOWN)
    sig.dtype = TN_F32;
  return sig;
}

static bool bind_program(session *s) {
  const arguments *args = s->n->args;
  tn_argument *list = (tn_argument *)calloc(s->n_variables + 1, sizeof *list);
  size_t n = 0;
  if (!list) return report_failure(s->n->why, "out of memory");
  for (size_t i = 0; i < s->n_variables; ++i) {
    const variable *v = &s->variables[i];
    if (!v->array && !v->is_label) continue;
    list[n++] = (tn_argument){
        .name = v->name, .array = v->array, .known = label_sig(s, v)};
  }
  const tn_bind how = {.struct_size = sizeof how,
                       .arguments = list,
                       .n_arguments = n,
                       .passes = args->passes,
                       .n_passes = args->n_passes};
  const tn_code code = tn_program_bind(s->n->graph, &how, &s->program);
  free(list);
  return !code || fail_session(s);
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const named *)a)->name, ((const named *)b)->name);
}

/* The nodes of the flat graph, sorted by name. */
static bool list_nodes(session *s) {
  tn_graph *graph = s->flat;
  const char *name = NULL;
  tn_entry node;
  size_t n = 0;
  while (!tn_graph_name(graph, TN_GRAPH_NODES, n, &name, NULL)) ++n;
  s->nodes = (named *)calloc(n + 1, sizeof *s->nodes);
  if (!s->nodes) return report_failure(s->n->why, "out of memory");
  for (; s->n_nodes < n; ++s->n_nodes) {
    if (tn_graph_name(graph, TN_GRAPH_NODES, s->n_nodes, &name, &node))
      return fail_session(s);
    s->nodes[s->n_nodes] = (named){name, tn_graph_operator(graph, node.node)};
  }
  qsort(s->nodes, n, sizeof *s->nodes, by_name);
  return true;
}

/* The node with the name in the first `n` bytes, or NULL. */
static const named *find_node(const session *s, const char *name, size_t n) {
  char key[256];
  if (n >= sizeof key) return NULL;
  memcpy(key, name, n);
  key[n] = '\0';
  const named wanted = {key, NULL};
  return (const named *)bsearch(&wanted, s->nodes, s->n_nodes, sizeof *s->nodes,
                                by_name);
}

/* Operators for names of nodes: "a", "a (gradient)", and "a + b" where they run
 * as one. Other spans are those of whole runs. */
static void name_nodes(void *ctx, const char *span, text *out) {
  static const char gradient[] = " (gradient)";
  const session *s = (const session *)ctx;
  const size_t before = out->n;
  while (*span) {
    const size_t n = strcspn(span, " ");
    const named *node = find_node(s, span, n);
    if (node) text_add(out, "%s", node->op ? node->op : "loop, copy or sum");
    span += n;
    if (!strncmp(span, gradient, sizeof gradient - 1))
      span += sizeof gradient - 1;
    const bool more = !strncmp(span, " + ", 3);
    if (!node || (*span && !more)) {
      out->n = before; /* no node, or "first .. last" */
      return;
    }
    if (more) text_add(out, " + ");
    if (more) span += 3;
  }
}

/* Spans have the names of a flat graph's nodes. */
static bool prepare_names(session *s) {
  static const char *const passes[] = {"flatten"};
  if (!(s->n->args->given & OPTION_PROFILE)) return true;
  if (tn_graph_apply(s->n->graph, passes, 1, &s->flat)) return fail_session(s);
  return list_nodes(s);
}

static bool run_forward(session *s, recording *spans) {
  const arguments *args = s->n->args;
  const uint32_t flags = args->given & OPTION_TRAIN ? TN_CALL_TRAIN : 0;
  return recording_start(spans, args, s->n->rt, s->n->why) &&
         (!tn_program_forward(s->program, flags) || fail_session(s)) &&
         (!tn_wait_all(s->n->rt) || fail_session(s)) && prepare_names(s) &&
         recording_end(spans, name_nodes, s, s->n->why);
}

/* ------------------------------------------------------------------ results */

static bool add_results(session *s, results *to) {
  const char *name = NULL;
  tn_array *array = NULL;
  for (size_t i = 0;
       !tn_graph_name(s->n->graph, TN_GRAPH_HEADS, i, &name, NULL); ++i) {
    if (tn_program_output(s->program, i, &array)) return fail_session(s);
    results_add(to, RESULT_OUTPUT, name, array);
  }
  if (!(s->n->args->given & OPTION_TRAIN)) return true;
  for (size_t i = 0; i < s->n_variables; ++i) {
    const variable *v = &s->variables[i];
    if (!v->is_state) continue;
    if (tn_program_array(s->program, TN_PROGRAM_AUXILIARY, v->name, &array))
      return fail_session(s);
    results_add(to, RESULT_STATE, v->name, array);
  }
  return true;
}

static bool print_json(session *s, const results *all, const recording *spans,
                       text *out) {
  text_add(out, "{\"graph\": ");
  text_add_json(out, s->n->args->words[1]);
  text_add(out, ", ");
  if (!results_print_json(all, out, s->n->why)) return false;
  profile_print_json(spans, out);
  text_add(out, "}\n");
  return true;
}

static bool print_all(session *s, const recording *spans, text *out) {
  const arguments *args = s->n->args;
  const bool json = args->given & OPTION_JSON;
  results all = {0};
  bool ok = add_results(s, &all);
  if (ok)
    ok = json ? print_json(s, &all, spans, out)
         : args->out
             ? results_save(&all, s->n->rt, args->out, out, s->n->why)
             : results_print(&all, args->given & OPTION_FULL, out, s->n->why);
  if (ok && !json) profile_print(spans, out);
  results_deinit(&all);
  return ok;
}

bool net_run(net *n, text *out) {
  session s = {.n = n};
  recording spans = {0};
  bool ok = list_variables(&s) && infer_shapes(&s) && read_all_named(&s) &&
            read_all_weights(&s) && infer_shapes(&s);
  for (size_t i = 0; ok && i < s.n_variables; ++i)
    s.variables[i].is_label = is_label(&s, &s.variables[i]);
  ok = ok && check_missing(&s) && bind_program(&s) && run_forward(&s, &spans) &&
       print_all(&s, &spans, out);
  recording_deinit(&spans);
  free_session(&s);
  return ok;
}
