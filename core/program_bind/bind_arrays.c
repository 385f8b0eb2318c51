/* SPDX-License-Identifier: Apache-2.0
 * bind_arrays.c: sets the arrays of arguments, gradients and heads. Creates the
 * arrays that the user does not pass.
 */
#include "stations.h"

static const char *get_argument_name(const tn_program *p, uint32_t i) {
  return tn__node_at(p->graph, p->arguments.v[i].node)->name;
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
static tn_code check_argument(const tn_program *p, const tn_argument *given,
                              uint32_t i) {
  if ((given && given->array) ||
      tn__sig_is_complete(tn__entry_sig(p->graph, p->arguments.v[i])))
    return TN_OK;
  return tn__fail(TN_INCOMPLETE,
                  "not enough is known of argument `%s`, which nothing is "
                  "computed of; give its shape and type",
                  get_argument_name(p, i));
}

/* Rejects a request or a gradient array of argument `i` that the program could
 * not use. A program ignores none of them silently. */
static tn_code check_requests(const tn_program *p, const tn_argument *given,
                              tn_req request, uint32_t i) {
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
  if (!given->gradient || request != TN_REQ_NULL) return TN_OK;
  return tn__fail(TN_INVALID,
                  "an array is passed for the gradient of argument "
                  "`%s`, which is not requested; set `request`, or "
                  "leave the array out",
                  name);
}

tn_code tn__bind_set_arguments(const tn__user_options *options,
                               const tn__requests *requests, tn_program *p) {
  for (uint32_t i = 0; i < p->arguments.n + p->arguments.n_states; ++i) {
    const tn_argument *given = options->arguments[i];
    const tn_req request = requests->by_argument[i];
    const uint32_t entry = tn__entry_id(p->graph, p->arguments.v[i]);
    TN__TRY(check_argument(p, given, i));
    TN__TRY(check_requests(p, given, request, i));
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
    p->values[gradient].request = request;
  }
  return TN_OK;
}

tn_code tn__bind_set_outputs(const tn_bind *how, tn_program *p) {
  for (uint32_t i = 0; i < p->heads.n; ++i) {
    char name[TN__ENTRY_TEXT];
    const uint32_t entry = tn__entry_id(p->graph, p->heads.v[i]);
    tn_array *array = i < how->n_outputs ? how->outputs[i] : NULL;
    (void)tn__entry_text(p->graph, p->heads.v[i], name);
    if (!tn__sig_is_complete(&p->graph->sigs[entry]))
      return tn__fail(TN_INVALID,
                      "head `%s` has no shape: it is the gradient of an input "
                      "that is not there; leave it out",
                      name);
    TN__TRY(tn__bind_array_check(p->env, array, name, "output"));
    TN__TRY(check_array_device(p, entry, array, name, "output"));
    TN__TRY(tn__value_check(p, entry, array, name));
    p->values[entry].flags |= TN__ENTRY_HEAD;
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
