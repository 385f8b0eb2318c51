/* SPDX-License-Identifier: Apache-2.0
 * bind_passes.c: the passes that rewrite the graph of a program, before its
 * gradients are added and after.
 */
#include <string.h>

#include "stations.h"

static tn_code fail_memory(size_t bytes) {
  return tn__fail_memory(bytes, "a program");
}

/* The variables that a program knows by entry number, while passes change the
 * numbers of entries. */
typedef struct kept {
  const tn__node **v; /* nodes of the arguments and states, then of the output
                         gradients; NULL: there is none */
  uint32_t n;
} kept;

static tn_entry *get_kept_entry(tn_program *p, uint32_t i) {
  const uint32_t n = p->arguments.n + p->arguments.n_states;
  return i < n ? &p->arguments.v[i] : &p->gradients.weights[i - n];
}

static tn_code keep_variables(tn_program *p, kept *k) {
  k->n = p->arguments.n + p->arguments.n_states + p->heads.n;
  k->v = tn__arena_alloc(&p->arena, (k->n + 1u) * sizeof *k->v);
  if (!k->v) return fail_memory(k->n * sizeof *k->v);
  for (uint32_t i = 0; i < k->n; ++i) {
    const tn_entry entry = *get_kept_entry(p, i);
    if (!tn__entry_is_none(entry)) k->v[i] = tn__node_at(p->graph, entry.node);
  }
  return TN_OK;
}

static void renew_variables(tn_program *p, const kept *k) {
  for (uint32_t i = 0; i < k->n; ++i)
    if (k->v[i]) get_kept_entry(p, i)->node = k->v[i]->id;
}

tn_code tn__bind_passes_before(tn__pass_list *passes,
                               const tn__user_options *options, tn_program *p) {
  kept variables;
  if (passes->n == 0) return TN_OK;
  TN__TRY(tn__graph_infer(p->graph, options->known, options->n_known));
  TN__TRY(tn__pass_list_check(passes, p->graph));
  TN__TRY(keep_variables(p, &variables));
  TN__TRY(tn__pass_list_run(passes, 0, passes->gradient, &p->graph));
  memcpy(p->heads.v, p->graph->heads, p->heads.n * sizeof *p->heads.v);
  renew_variables(p, &variables);
  return TN_OK;
}

/* Appends the gradients to the heads of the graph, so that passes keep them. */
static tn_code append_gradients(const tn__requests *requests, tn_program *p) {
  const size_t n = (size_t)p->heads.n + requests->n;
  tn_entry *all = tn__arena_alloc(&p->arena, (n + 1) * sizeof *all);
  if (!all) return fail_memory(n * sizeof *all);
  memcpy(all, p->heads.v, p->heads.n * sizeof *all);
  for (uint32_t k = 0; k < requests->n; ++k)
    all[p->heads.n + k] = p->gradients.v[requests->which[k]];
  return tn__graph_heads_set(p->graph, all, n);
}

/* Runs the passes after "gradient". Then adds the copies of heads and gradients
 * again that the passes have removed. */
tn_code tn__bind_passes_after(tn__pass_list *passes,
                              const tn__user_options *options,
                              tn__requests *requests, tn_program *p) {
  kept variables;
  if (passes->gradient + 1 >= passes->n) return TN_OK;
  TN__TRY(keep_variables(p, &variables));
  TN__TRY(append_gradients(requests, p));
  TN__TRY(
      tn__pass_list_run(passes, passes->gradient + 1, passes->n, &p->graph));
  renew_variables(p, &variables);
  memcpy(p->heads.v, p->graph->heads, p->heads.n * sizeof *p->heads.v);
  for (uint32_t k = 0; k < requests->n; ++k)
    requests->computed[k] = p->graph->heads[p->heads.n + k];
  TN__TRY(tn__bind_copy_heads(&p->arguments, options, p->graph, &p->heads));
  TN__TRY(tn__bind_copy_gradients(requests, p));
  TN__TRY(tn__graph_heads_set(p->graph, p->heads.v, p->heads.n));
  return tn__graph_infer_more(p->graph);
}

/* Copies the names of the passes, because tn_program_reshape binds with the
 * same passes again. */
tn_code tn__bind_passes_keep(const tn_bind *how, tn_program *p) {
  const size_t n = how->n_passes;
  const char **names = tn__arena_alloc(&p->arena, (n + 1) * sizeof *names);
  for (size_t i = 0; names && i < n; ++i)
    names[i] =
        tn__arena_text(&p->arena, how->passes[i], strlen(how->passes[i]));
  if (p->arena.failed) return fail_memory(n * sizeof *names);
  p->how.passes = names;
  p->how.n_passes = n;
  return TN_OK;
}
