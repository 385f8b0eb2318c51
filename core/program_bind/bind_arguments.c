/* SPDX-License-Identifier: Apache-2.0
 * bind_arguments.c: arguments of the user, with their arrays and requests, and
 * arrays of outputs. Creates the arrays that the user does not pass.
 */
#include <stdio.h>
#include <string.h>

#include "binding.h"

static tn_code fail_memory(size_t bytes) {
  return tn__fail_memory(bytes, "a program");
}

static const char *get_argument_name(const tn_program *p, uint32_t i) {
  return tn__node_at(p->graph, p->arguments.v[i].node)->name;
}

/* ---------------------------------------------------------------- arguments */

tn_code tn__bind_alloc_lists(tn__binding *b) {
  tn_program *p = b->p;
  const size_t n = (size_t)p->arguments.n + p->arguments.n_states + 1;
  const size_t all = n + b->how->n_arguments;
  const size_t nodes = (size_t)tn__n_nodes(p->graph) + 1;
  b->numbers = tn__arena_alloc(&p->arena, nodes * sizeof *b->numbers);
  b->given = tn__arena_alloc(&p->arena, n * sizeof *b->given);
  b->known = tn__arena_alloc(&p->arena, all * sizeof *b->known);
  b->of = tn__arena_alloc(&p->arena, n * sizeof *b->of);
  b->gradients = tn__arena_alloc(&p->arena, n * sizeof *b->gradients);
  b->which = tn__arena_alloc(&p->arena, n * sizeof *b->which);
  p->gradients.v = tn__arena_alloc(&p->arena, n * sizeof *p->gradients.v);
  p->gradients.weights = tn__arena_alloc(
      &p->arena, (p->heads.n + 1u) * sizeof *p->gradients.weights);
  p->gradients.losses = tn__arena_alloc(&p->arena, p->heads.n + 1u);
  if (p->arena.failed) return fail_memory(n * sizeof *b->known);
  for (uint32_t i = 0; i < p->heads.n; ++i)
    p->gradients.weights[i] = TN_ENTRY_NONE;
  for (size_t i = 0; i < n; ++i) p->gradients.v[i] = TN_ENTRY_NONE;
  for (uint32_t i = 0; i + 1 < n; ++i)
    b->numbers[p->arguments.v[i].node] = i + 1;
  return TN_OK;
}

static tn_code fail_unknown_argument(const tn_program *p, const char *name) {
  tn__fail(TN_NOT_FOUND, "the graph has no argument or state `%s`", name);
  const uint32_t n = p->arguments.n + p->arguments.n_states;
  const char **names = tn__alloc(p->env, (n + 1u) * sizeof *names);
  for (uint32_t i = 0; names && i < n; ++i) names[i] = get_argument_name(p, i);
  const char *nearest = names ? tn__find_nearest_word(name, names, n) : NULL;
  if (nearest) tn__fail_more(TN_NOT_FOUND, "; `%s`?", nearest);
  tn__free(p->env, names);
  return TN_NOT_FOUND;
}

static tn_code find_argument(const tn__binding *b, const char *name,
                             uint32_t *out) {
  const tn__node *node = tn__map_get(&b->p->graph->names, name);
  const uint32_t number = node ? b->numbers[node->id] : 0;
  if (number == 0) return fail_unknown_argument(b->p, name);
  *out = number - 1;
  return TN_OK;
}

static tn_code check_array(const tn_program *p, const tn_array *array,
                           const char *name, const char *what) {
  if (!array || array->env == p->env) return TN_OK;
  return tn__fail(TN_INVALID, "%s `%s`: the array belongs to another runtime",
                  what, name);
}

/* Rejects an array of the user on another device than the program's entry. A
 * program copies no array of the user without a request. */
static tn_code check_array_device(const tn_program *p, uint32_t entry,
                                  const tn_array *array, const char *name,
                                  const char *what) {
  char place[TN__DEVICE_TEXT], mine[TN__DEVICE_TEXT];
  const tn__device *device = p->values[entry].device;
  if (!array || array->block->device == device) return TN_OK;
  return tn__fail(TN_INVALID,
                  "%s `%s`: the array is on %s, the program needs "
                  "it on %s; copy it with tn_array_to",
                  what, name, tn__device_text(array->block->device, place),
                  tn__device_text(device, mine));
}

static void add_known_facts(tn__binding *b, const char *name,
                            const tn_array *array, const tn_sig *known) {
  tn_known *to = &b->known[b->n_known];
  to->name = name;
  to->sig = known ? *known : tn__sig_unknown();
  if (array) {
    const tn_tensor *t = &array->tensor;
    to->sig.dtype = t->dtype;
    to->sig.ndim = t->ndim;
    memcpy(to->sig.shape, t->shape, (size_t)t->ndim * sizeof *t->shape);
  }
  if (to->sig.dtype != TN_DTYPE_UNKNOWN || to->sig.ndim >= 0) ++b->n_known;
}

tn_code tn__bind_request_check(tn_req request, const char *what) {
  if (request == TN_REQ_NULL || request == TN_REQ_WRITE ||
      request == TN_REQ_ADD)
    return TN_OK;
  return tn__fail(TN_INVALID,
                  "%s: ask for TN_REQ_NULL, WRITE or ADD, and not for %d", what,
                  (int)request);
}

tn_code tn__bind_add_argument(tn__binding *b, const tn_argument *argument) {
  const tn_program *p = b->p;
  uint32_t i = 0;
  TN__TRY(find_argument(b, argument->name, &i));
  if (b->given[i])
    return tn__fail(TN_INVALID, "argument `%s` is given twice", argument->name);
  b->given[i] = argument;
  TN__TRY(check_array(p, argument->array, argument->name, "argument"));
  TN__TRY(check_array(p, argument->gradient, argument->name,
                      "the gradient of argument"));
  if (argument->has_request)
    TN__TRY(tn__bind_request_check(argument->request, argument->name));
  add_known_facts(b, get_argument_name(p, i), argument->array,
                  &argument->known);
  return TN_OK;
}

/* ------------------------------------------------------------------- arrays */

/* Creates an array of zeros. On the cpu its memory is zeroed at the first read.
 */
static tn_code create_zero_array(tn__device *device, const tn_spec *spec,
                                 tn_array **out) {
  tn_array *zeros = NULL;
  TN__TRY(tn__array_create_on(device, spec, out));
  if (!device->table) return TN_OK;
  TN__TRY(tn__array_create(device->env, spec, &zeros));
  const tn_code rc = tn__array_copy(*out, zeros);
  tn__array_release(zeros);
  return rc;
}

static tn_code fail_new_array(const tn_program *p, tn_entry of, tn_code rc) {
  char name[TN__ENTRY_TEXT];
  return tn__fail(rc, "the array of `%s`: %s",
                  tn__entry_text(p->graph, of, name), tn_error_text());
}

/* Sets the array of an entry: the array of the user, or a new one if `array` is
 * NULL. */
static tn_code set_entry_array(tn_program *p, tn_entry of, tn_array *array) {
  const uint32_t entry = tn__entry_id(p->graph, of);
  const tn_sig *sig = &p->graph->sigs[entry];
  const tn_spec spec = {sig->dtype, sig->ndim, sig->shape};
  tn__value *value = &p->values[entry];
  value->flags |= TN__ENTRY_EXTERNAL;
  if (value->array) return TN_OK;
  if (array) {
    value->array = tn__array_retain(array);
    return TN_OK;
  }
  const tn_code rc = create_zero_array(value->device, &spec, &value->array);
  return rc == TN_OK ? rc : fail_new_array(p, of, rc);
}

/* Rejects argument `i` if its shape or type is unknown, unless the flat graph
 * does not use it. */
static tn_code check_argument(const tn__binding *b, uint32_t i) {
  const tn_program *p = b->p;
  const bool given = b->given[i] && b->given[i]->array;
  if (given || tn__sig_is_complete(tn__entry_sig(p->graph, p->arguments.v[i])))
    return TN_OK;
  return tn__fail(TN_INCOMPLETE,
                  "not enough is known of argument `%s`, which nothing is "
                  "computed of; give its shape and type",
                  get_argument_name(p, i));
}

/* Rejects a request or a gradient array of argument `i` that the program could
 * not use. A program ignores none of them silently. */
static tn_code check_requests(const tn__binding *b, uint32_t i) {
  const tn_program *p = b->p;
  const tn_argument *given = b->given[i];
  const char *name = get_argument_name(p, i);
  if (!given) return TN_OK;
  const bool asked = given->has_request && given->request != TN_REQ_NULL;
  if (i >= p->arguments.n && (asked || given->gradient))
    return tn__fail(TN_INVALID,
                    "`%s` is a state, which has no gradient; ask for none",
                    name);
  const tn_dtype dtype = tn__entry_sig(p->graph, p->arguments.v[i])->dtype;
  if (asked && !tn__dtype_is_float(dtype))
    return tn__fail(TN_INVALID,
                    "argument `%s` is %s, which has no gradient; ask for none",
                    name, tn__dtype_name(dtype));
  if (!given->gradient || tn__bind_request(b, i) != TN_REQ_NULL) return TN_OK;
  return tn__fail(TN_INVALID,
                  "an array is passed for the gradient of argument "
                  "`%s`, which is not requested; set `request`, or "
                  "leave the array out",
                  name);
}

tn_code tn__bind_set_arguments(tn__binding *b) {
  tn_program *p = b->p;
  for (uint32_t i = 0; i < p->arguments.n + p->arguments.n_states; ++i) {
    const tn_argument *given = b->given[i];
    const uint32_t entry = tn__entry_id(p->graph, p->arguments.v[i]);
    TN__TRY(check_argument(b, i));
    TN__TRY(check_requests(b, i));
    if (given)
      TN__TRY(
          check_array_device(p, entry, given->array, given->name, "argument"));
    TN__TRY(set_entry_array(p, p->arguments.v[i], given ? given->array : NULL));
    if (tn__entry_is_none(p->gradients.v[i])) continue;
    const uint32_t gradient = tn__entry_id(p->graph, p->gradients.v[i]);
    tn_array *array = given ? given->gradient : NULL;
    TN__TRY(check_array_device(p, gradient, array, get_argument_name(p, i),
                               "the gradient of argument"));
    TN__TRY(tn__value_check(p, gradient, array, get_argument_name(p, i)));
    TN__TRY(set_entry_array(p, p->gradients.v[i], array));
    p->values[gradient].request = tn__bind_request(b, i);
  }
  return TN_OK;
}

tn_code tn__bind_set_outputs(tn__binding *b) {
  tn_program *p = b->p;
  const bool compat = b->how->plan >= TN_PLAN_COMPAT;
  for (uint32_t i = 0; i < p->heads.n; ++i) {
    char name[TN__ENTRY_TEXT];
    const uint32_t entry = tn__entry_id(p->graph, p->heads.v[i]);
    tn_array *array = i < b->how->n_outputs ? b->how->outputs[i] : NULL;
    (void)tn__entry_text(p->graph, p->heads.v[i], name);
    if (!tn__sig_is_complete(&p->graph->sigs[entry]))
      return tn__fail(TN_INVALID,
                      "head `%s` has no shape: it is the gradient of an input "
                      "that is not there; leave it out",
                      name);
    TN__TRY(check_array(p, array, name, "output"));
    TN__TRY(check_array_device(p, entry, array, name, "output"));
    TN__TRY(tn__value_check(p, entry, array, name));
    p->values[entry].flags |= TN__ENTRY_HEAD;
    if (compat && !array) continue; /* the compat planner counts them */
    TN__TRY(set_entry_array(p, p->heads.v[i], array));
  }
  return TN_OK;
}

tn_code tn__bind_set_output_gradients(tn_program *p) {
  for (uint32_t i = 0; i < p->heads.n; ++i) {
    if (tn__entry_is_none(p->gradients.weights[i])) continue;
    const uint32_t entry = tn__entry_id(p->graph, p->gradients.weights[i]);
    p->values[entry].flags |= TN__ENTRY_EXTERNAL;
    if (p->values[entry].n_uses > 0)
      TN__TRY(set_entry_array(p, p->gradients.weights[i], NULL));
  }
  return TN_OK;
}
