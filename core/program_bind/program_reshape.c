/* SPDX-License-Identifier: Apache-2.0
 * program_reshape.c: a program like another for other shapes. Entries that keep
 * their shape keep their array. The others get new arrays, in the memory of the
 * first program if it is large enough.
 */
#include <string.h>

#include "program_bind.h"

/* The state of binding a program again for new shapes. */
typedef struct reshaping {
  const tn_program *p;
  tn_graph *graph; /* a copy of the bound graph, with shapes inferred from the
                      new facts */
  tn_argument *arguments;
  size_t n;
  tn_array **outputs; /* n_heads; NULL: the program's own array */
} reshaping;

/* Tests whether an argument keeps its array: the new signature is complete and
 * equals that of the array. */
static bool keeps_array(const tn_sig *sig, const tn_array *array) {
  const tn_tensor *t = &array->tensor;
  if (sig->dtype != TN_DTYPE_UNKNOWN && sig->dtype != t->dtype) return false;
  if (sig->ndim >= 0 && sig->ndim != t->ndim) return false;
  for (int32_t d = 0; d < sig->ndim; ++d)
    if (sig->shape[d] >= 0 && sig->shape[d] != t->shape[d]) return false;
  return true;
}

static void set_argument(reshaping *r, uint32_t i) {
  const tn_program *p = r->p;
  const tn__node *node = tn__node_at(p->graph, p->arguments.v[i].node);
  const tn__node *same = tn__map_get(&r->graph->names, node->name);
  tn_array *array = p->values[tn__entry_id(p->graph, p->arguments.v[i])].array;
  const tn_sig *sig = tn__entry_sig(r->graph, (tn_entry){same->id, 0});
  tn_argument *to = &r->arguments[r->n++];
  to->name = node->name;
  to->has_request = 1;
  to->known = tn__sig_unknown();
  to->array = keeps_array(sig, array) ? array : NULL;
  if (!to->array) to->known = *sig;
  if (tn__entry_is_none(p->gradients.v[i])) return;
  const tn__value *gradient =
      &p->values[tn__entry_id(p->graph, p->gradients.v[i])];
  to->request = gradient->request;
  if (to->array) to->gradient = gradient->array;
}

/* Adds the previous type of an argument to its new facts, unless the caller
 * states another type. */
static void add_known_type(const tn_program *p, tn_known *known) {
  const tn__node *node =
      known->name ? tn__map_get(&p->graph->names, known->name) : NULL;
  if (!node || node->kind != TN__NODE_VARIABLE ||
      known->sig.dtype != TN_DTYPE_UNKNOWN)
    return;
  const tn_array *array =
      p->values[tn__entry_id(p->graph, (tn_entry){node->id, 0})].array;
  if (array) known->sig.dtype = array->tensor.dtype;
}

/* Sets the known signature of argument `i` to the previous one, unless that
 * contradicts the new facts. */
static void set_known_sig(const reshaping *r, uint32_t i, tn_known *to) {
  const tn_program *p = r->p;
  const tn__node *node = tn__node_at(p->graph, p->arguments.v[i].node);
  const tn__node *same = tn__map_get(&r->graph->names, node->name);
  const tn_array *array =
      p->values[tn__entry_id(p->graph, p->arguments.v[i])].array;
  const tn_tensor *t = &array->tensor;
  *to =
      (tn_known){node->name, *tn__entry_sig(r->graph, (tn_entry){same->id, 0})};
  if (!keeps_array(&to->sig, array)) return;
  to->sig.dtype = t->dtype;
  to->sig.ndim = t->ndim;
  memcpy(to->sig.shape, t->shape, (size_t)t->ndim * sizeof *t->shape);
}

/* Infers shapes from the new facts. Then infers again, also from the previous
 * shapes of arguments that the new facts do not change, because heads may
 * depend on both. */
static tn_code infer_shapes(reshaping *r, const tn_known *known, size_t n) {
  const tn_program *p = r->p;
  const uint32_t n_all = p->arguments.n + p->arguments.n_states;
  const size_t most = (n > n_all ? n : n_all) + 1;
  TN__TRY(tn__graph_copy(p->source, &r->graph));
  tn_known *list = tn__alloc(p->env, most * sizeof *list);
  if (!list) return tn__fail_memory(most * sizeof *list, "a program");
  for (size_t i = 0; i < n; ++i) {
    list[i] = known[i];
    add_known_type(p, &list[i]);
  }
  tn_code rc = tn__graph_infer(r->graph, list, n);
  if (rc == TN_OK || rc == TN_INCOMPLETE) {
    for (uint32_t i = 0; i < n_all; ++i) set_known_sig(r, i, &list[i]);
    rc = tn__graph_infer(r->graph, list, n_all);
  }
  tn__free(p->env, list);
  return rc == TN_INCOMPLETE ? TN_OK : rc;
}

/* Keeps the user's arrays of heads. */
static tn_code set_outputs(reshaping *r) {
  const tn_program *p = r->p;
  char name[TN__ENTRY_TEXT];
  r->outputs = tn__zalloc(p->env, (p->heads.n + 1u) * sizeof *r->outputs);
  if (!r->outputs)
    return tn__fail_memory(p->heads.n * sizeof *r->outputs, "a program");
  for (uint32_t i = 0; i < p->heads.n; ++i) {
    const tn_entry head = r->graph->heads[i];
    tn_array *array = p->values[tn__entry_id(p->graph, p->heads.v[i])].array;
    if (p->heads.lent[i] && keeps_array(tn__entry_sig(r->graph, head), array))
      r->outputs[i] = array;
    else if (p->heads.late[i])
      return tn__fail(TN_INVALID,
                      "head `%s` overwrites an argument, and would have "
                      "another shape; bind the graph anew",
                      tn__entry_text(r->graph, head, name));
  }
  return TN_OK;
}

static tn_code bind_shapes(reshaping *r, tn_program **out) {
  const tn_program *p = r->p;
  const uint32_t n = p->arguments.n + p->arguments.n_states;
  r->arguments = tn__zalloc(p->env, (n + 1u) * sizeof *r->arguments);
  if (!r->arguments)
    return tn__fail_memory(n * sizeof *r->arguments, "a program");
  for (uint32_t i = 0; i < n; ++i) set_argument(r, i);
  TN__TRY(set_outputs(r));
  tn_bind how = p->how;
  how.outputs = r->outputs;
  how.n_outputs = p->heads.n;
  how.arguments = r->arguments;
  how.n_arguments = r->n;
  how.shared = (tn_program *)(uintptr_t)p;
  return tn__program_bind(p->source, &how, out);
}

tn_code tn__program_reshape(tn_program *p, const tn_known *known, size_t n,
                            tn_program **out) {
  reshaping r = {.p = p};
  *out = NULL;
  tn_code rc = infer_shapes(&r, known, n);
  if (rc == TN_OK)
    tn__log(p->env, TN__LOG_PROGRAM, TN_LOG_DEBUG,
            "binding a program again for other shapes");
  if (rc == TN_OK) rc = bind_shapes(&r, out);
  if (rc == TN_OK) rc = tn__program_copy_params(*out, p);
  if (rc != TN_OK) {
    tn__program_release(*out);
    *out = NULL;
  }
  tn__free(p->env, r.arguments);
  tn__free(p->env, r.outputs);
  tn__graph_release(r.graph);
  return rc;
}
