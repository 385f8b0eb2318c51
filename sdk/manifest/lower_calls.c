/* SPDX-License-Identifier: Apache-2.0
 * What graphs of gradients call of the plugin's own operators: that there are
 * such operators, and that they take what they are given. A call that fits is
 * made when somebody asks for the gradient; until then nothing else would say
 * that it does not.
 */
#include <inttypes.h>
#include <string.h>

#include "expr.h"
#include "front.h"

static size_t report(tnm_reader *reader, tnm_pos pos, const char *text) {
  tnm_diag_spec spec = {"E0075", pos, NULL};
  return tnm_diag(reader->diags, &spec, "%s", text != NULL ? text : "");
}

/* ---------------------------------------------------------------- the operator
 */

static void report_unknown(tnm_reader *reader, const tnm_call *call) {
  tnm_names names = {.arena = reader->arena};
  const size_t id =
      report(reader, call->pos,
             tnm_format(reader->arena, "plugin `%s` has no operator `%s`",
                        reader->name, call->op));
  for (size_t i = 0; i < reader->operators.n; ++i) {
    const tnm_operator *o = reader->operators.v[i];
    if (o->op != NULL) tnm_names_add(&names, &o->op->name, 1);
  }
  tnm_names_note(&names, reader->diags, id, "it has");
  tnm_names_help(&names, reader->diags, id, call->op);
}

/* The operator that is called, NULL if it is none or is not known here. */
static const tn_op *find_called(tnm_reader *reader, const tnm_call *call) {
  const tnm_operator *o = tn__map_get(&reader->names, call->op);
  if (o == NULL || o->op == NULL) {
    if (reader->whole) report_unknown(reader, call);
    return NULL;
  }
  if (o->op->interface == call->interface) return o->op;
  const size_t id = report(
      reader, call->pos,
      tnm_format(reader->arena,
                 "`%s.%s` has interface %" PRIu32 ", called is %" PRId64,
                 reader->name, call->op, o->op->interface, call->interface));
  tnm_diag_help(reader->diags, id, "write `%s.%s@%" PRIu32 "(...)`",
                reader->name, call->op, o->op->interface);
  return NULL;
}

/* ------------------------------------------------------------------ its inputs
 */

static void note_inputs(tnm_reader *reader, size_t id, const tn_op *op) {
  tnm_names names = {.arena = reader->arena};
  for (uint32_t i = 0; i < op->n_inputs; ++i)
    tnm_names_add(&names, &op->inputs[i]->name, 1);
  tnm_names_note(&names, reader->diags, id, "its inputs");
}

static void check_inputs(tnm_reader *reader, const tnm_call *call,
                         const tn_op *op) {
  uint32_t least = 0, most = op->n_inputs;
  for (uint32_t i = 0; i < op->n_inputs; ++i) {
    const uint32_t flags = op->inputs[i]->flags;
    least += (flags & (TN_ARG_OPTIONAL | TN_ARG_VARIADIC)) == 0;
    if (flags & TN_ARG_VARIADIC) most = UINT32_MAX;
  }
  if (call->n_in >= least && call->n_in <= most) return;
  const bool few = call->n_in < least;
  const size_t id = report(
      reader, call->pos,
      tnm_format(reader->arena,
                 "`%s.%s` takes %s%" PRIu32 " tensor%s, here %s %" PRIu32,
                 reader->name, op->name,
                 least == most ? ""
                 : few         ? "at least "
                               : "at most ",
                 few ? least : most, (few ? least : most) == 1 ? "" : "s",
                 call->n_in == 1 ? "is" : "are", call->n_in));
  note_inputs(reader, id, op);
}

/* -------------------------------------------------------------- its parameters
 */

static bool is_named(const tn_field *field, const char *name) {
  return strcmp(field->name, name) == 0 ||
         (field->alias != NULL && strcmp(field->alias, name) == 0);
}

static const tn_field *find_param(const tn_op *op, const char *name) {
  for (uint32_t i = 0; i < op->n_params; ++i)
    if (is_named(op->params[i], name)) return op->params[i];
  return NULL;
}

static void report_param(tnm_reader *reader, const tnm_call_param *param,
                         const tn_op *op) {
  tnm_names names = {.arena = reader->arena};
  const size_t id =
      report(reader, param->pos,
             tnm_format(reader->arena, "`%s.%s` has no parameter `%s`",
                        reader->name, op->name, param->name));
  for (uint32_t i = 0; i < op->n_params; ++i)
    tnm_names_add(&names, &op->params[i]->name, 1);
  tnm_names_note(&names, reader->diags, id, "it has");
  tnm_names_help(&names, reader->diags, id, param->name);
}

/* A list in quotes and a parameter of the caller's are what they are when the
 * call is made. */
static bool is_literal(const tn_field *field, const tnm_call_param *param) {
  return param->value.text[0] != '$' && field->type != TN_FIELD_INTS &&
         field->type != TN_FIELD_FLOATS;
}

static void check_missing(tnm_reader *reader, const tnm_call *call,
                          const tn_op *op) {
  for (uint32_t i = 0; i < op->n_params; ++i) {
    const tn_field *field = op->params[i];
    bool given = (field->flags & TN_FIELD_REQUIRED) == 0;
    for (const tnm_call_param *p = call->params; p != NULL; p = p->next)
      given = given || is_named(field, p->name);
    if (given) continue;
    const size_t id = report(
        reader, call->pos,
        tnm_format(reader->arena, "`%s.%s` wants a value for parameter `%s`",
                   reader->name, op->name, field->name));
    tnm_diag_help(reader->diags, id, "write `%s=...` behind the tensors",
                  field->name);
  }
}

static void check_params(tnm_reader *reader, const tnm_call *call,
                         const tn_op *op) {
  for (const tnm_call_param *p = call->params; p != NULL; p = p->next) {
    const tn_field *field = find_param(op, p->name);
    if (field == NULL)
      report_param(reader, p, op);
    else if (is_literal(field, p))
      (void)tnm_check_value(reader->diags, field, &p->value, "value");
  }
  check_missing(reader, call, op);
}

void tnm_check_calls(tnm_reader *reader) {
  for (size_t i = 0; i < reader->calls.n && !reader->arena->failed; ++i) {
    const tnm_call *call = reader->calls.v[i];
    const tn_op *op = find_called(reader, call);
    if (op == NULL) continue;
    check_inputs(reader, call, op);
    check_params(reader, call, op);
  }
}
