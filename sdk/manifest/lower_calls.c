/* SPDX-License-Identifier: Apache-2.0
 * lower_calls.c: checks the calls in graphs of gradients, of the plugin's own
 * operators and of plugins in `--with`: the operators exist and accept their
 * arguments. Without this check a mistake would appear only when a gradient is
 * requested.
 */
#include <inttypes.h>
#include <string.h>

#include "expr.h"
#include "front.h"

/* With more operators, the help names only the nearest one. */
enum { MOST_LISTED = 20 };

/* Reports a mistake in a call of a gradient graph. Returns the message's id. */
static size_t report_bad_call(tnm_reader *reader, tnm_pos pos,
                              const char *text) {
  tnm_diag_spec spec = {"E0075", pos, NULL};
  return tnm_diag_add(reader->diags, &spec, "%s", text != NULL ? text : "");
}

/* ------------------------------------------------------------- the operator */

/* The known operators of the called plugin; `all` is true if the plugin has no
 * others. */
typedef struct known_operators {
  const tn_op **v;
  size_t n;
  bool all;
} known_operators;

/* Tests whether the list has an operator with this name and interface. */
static bool has_operator(const known_operators *ops, const tn_op *op) {
  for (size_t i = 0; i < ops->n; ++i)
    if (ops->v[i]->interface == op->interface &&
        strcmp(ops->v[i]->name, op->name) == 0)
      return true;
  return false;
}

/* Appends the operators of a plugin that are not in the list yet. */
static void add_tables(known_operators *to, const tn_plugin *plugin) {
  for (uint32_t k = 0; k < plugin->n_operators; ++k)
    if (!has_operator(to, plugin->operators[k]))
      to->v[to->n++] = plugin->operators[k];
}

/* Lists the operators of the plugin that is read. Returns false if memory ran
 * out. */
static bool add_own_operators(tnm_reader *reader, known_operators *out) {
  const tn_plugin *siblings = tnm_read_siblings(reader);
  const size_t n = siblings != NULL ? siblings->n_operators : 0;
  out->v = TNM_NEW(reader->arena, const tn_op *, reader->operators.n + n);
  for (size_t i = 0; out->v != NULL && i < reader->operators.n; ++i) {
    const tnm_operator *o = reader->operators.v[i];
    if (o->op != NULL) out->v[out->n++] = o->op;
  }
  if (out->v != NULL && siblings != NULL) add_tables(out, siblings);
  out->all = reader->whole || siblings != NULL;
  return out->v != NULL;
}

/* Lists the operators of another plugin, from `--with`. Several files may
 * describe the plugin, and some operators may occur several times. Returns
 * false if no file describes it, or if memory ran out. */
static bool collect_operators(tnm_reader *reader, const char *plugin,
                              known_operators *out) {
  const tn__vec *targets = tnm_list_with(reader);
  size_t n = 0, n_targets = 0;
  for (size_t i = 0; i < targets->n; ++i) {
    const tnm_with_plugin *target = targets->v[i];
    if (strcmp(target->plugin->name, plugin) != 0) continue;
    n += target->plugin->n_operators;
    out->all = out->all || target->whole;
    ++n_targets;
  }
  out->v = n_targets > 0 ? TNM_NEW(reader->arena, const tn_op *, n) : NULL;
  for (size_t i = 0; out->v != NULL && i < targets->n; ++i) {
    const tn_plugin *p = ((const tnm_with_plugin *)targets->v[i])->plugin;
    if (strcmp(p->name, plugin) == 0) add_tables(out, p);
  }
  return out->v != NULL;
}

/* Lists the operators of the plugin that a call names. Returns false if the
 * reader knows no operators of that plugin. */
static bool find_operators(tnm_reader *reader, const tnm_call *call,
                           known_operators *out) {
  *out = (known_operators){0};
  if (strcmp(call->plugin, reader->name) == 0)
    return add_own_operators(reader, out);
  return collect_operators(reader, call->plugin, out);
}

static void report_unknown_operator(tnm_reader *reader, const tnm_call *call,
                                    const known_operators *ops) {
  tnm_names names = {.arena = reader->arena};
  const size_t id = report_bad_call(
      reader, call->pos,
      tnm_format_text(reader->arena, "plugin `%s` has no operator `%s`",
                      call->plugin, call->op));
  for (size_t i = 0; i < ops->n; ++i)
    tnm_names_add(&names, &ops->v[i]->name, 1);
  if (ops->n <= MOST_LISTED)
    tnm_names_add_note(&names, reader->diags, id, "it has");
  tnm_names_add_help(&names, reader->diags, id, call->op);
}

/* Reports a call of an interface that the operator does not have. */
static void report_wrong_interface(tnm_reader *reader, const tnm_call *call,
                                   const tn_op *op) {
  const size_t id = report_bad_call(
      reader, call->pos,
      tnm_format_text(reader->arena,
                      "`%s.%s` has interface %" PRIu32 ", called is %" PRId64,
                      call->plugin, call->op, op->interface, call->interface));
  tnm_diag_add_help(reader->diags, id, "write `%s.%s@%" PRIu32 "(...)`",
                    call->plugin, call->op, op->interface);
}

/* Finds the operator that a call in a gradient's graph names. Returns NULL if
 * the operator does not exist, after a message, or if its plugin is not known
 * here. */
static const tn_op *find_called(tnm_reader *reader, const tnm_call *call) {
  const tn_op *other = NULL;
  known_operators ops;
  if (!find_operators(reader, call, &ops)) return NULL;
  for (size_t i = 0; i < ops.n; ++i) {
    if (strcmp(ops.v[i]->name, call->op) != 0) continue;
    if (ops.v[i]->interface == call->interface) return ops.v[i];
    other = ops.v[i];
  }
  if (other != NULL)
    report_wrong_interface(reader, call, other);
  else if (ops.all)
    report_unknown_operator(reader, call, &ops);
  return NULL;
}

const tn_op *tnm_find_called(tnm_reader *reader, const char *name) {
  const char *dot = strchr(name, '.'), *at = strchr(name, '@');
  known_operators ops;
  if (dot == NULL || at == NULL || at < dot) return NULL;
  tnm_call call = {
      .plugin = tn__arena_text(reader->arena, name, (size_t)(dot - name)),
      .op = tn__arena_text(reader->arena, dot + 1, (size_t)(at - dot) - 1)};
  if (call.plugin == NULL || call.op == NULL ||
      !tnm_parse_int(at + 1, &call.interface) ||
      !find_operators(reader, &call, &ops))
    return NULL;
  for (size_t i = 0; i < ops.n; ++i)
    if (strcmp(ops.v[i]->name, call.op) == 0 &&
        ops.v[i]->interface == call.interface)
      return ops.v[i];
  return NULL;
}

/* --------------------------------------------------------------- its inputs */

/* Adds a note to message `id`: the inputs of the operator. */
static void add_inputs_note(tnm_reader *reader, size_t id, const tn_op *op) {
  tnm_names names = {.arena = reader->arena};
  for (uint32_t i = 0; i < op->n_inputs; ++i)
    tnm_names_add(&names, &op->inputs[i]->name, 1);
  tnm_names_add_note(&names, reader->diags, id, "its inputs");
}

/* Checks the number of inputs of a call in a gradient graph. */
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
  const size_t id = report_bad_call(
      reader, call->pos,
      tnm_format_text(reader->arena,
                      "`%s.%s` takes %s%" PRIu32 " tensor%s, here %s %" PRIu32,
                      call->plugin, op->name,
                      least == most ? ""
                      : few         ? "at least "
                                    : "at most ",
                      few ? least : most, (few ? least : most) == 1 ? "" : "s",
                      call->n_in == 1 ? "is" : "are", call->n_in));
  add_inputs_note(reader, id, op);
}

/* ----------------------------------------------------------- its parameters */

static bool has_field_name(const tn_field *field, const char *name) {
  return strcmp(field->name, name) == 0 ||
         (field->alias != NULL && strcmp(field->alias, name) == 0);
}

static const tn_field *find_param(const tn_op *op, const char *name) {
  for (uint32_t i = 0; i < op->n_params; ++i)
    if (has_field_name(op->params[i], name)) return op->params[i];
  return NULL;
}

static void report_unknown_param(tnm_reader *reader, const tnm_call *call,
                                 const tnm_call_param *param, const tn_op *op) {
  tnm_names names = {.arena = reader->arena};
  const size_t id = report_bad_call(
      reader, param->pos,
      tnm_format_text(reader->arena, "`%s.%s` has no parameter `%s`",
                      call->plugin, op->name, param->name));
  for (uint32_t i = 0; i < op->n_params; ++i)
    tnm_names_add(&names, &op->params[i]->name, 1);
  tnm_names_add_note(&names, reader->diags, id, "it has");
  tnm_names_add_help(&names, reader->diags, id, param->name);
}

/* Tests whether the value of a parameter can be checked now. A list in quotes,
 * and a parameter of the caller ("$alpha"), get their values only in the call.
 */
static bool has_checkable_value(const tn_field *field,
                                const tnm_call_param *param) {
  return param->value.text[0] != '$' && field->type != TN_FIELD_INTS &&
         field->type != TN_FIELD_FLOATS;
}

/* Tests whether the name in a call is the name of this parameter or a
 * misspelling of it. A misspelt name is reported as unknown, so it must not be
 * reported as missing too. */
static bool is_name_or_misspelling(const tn_op *op, const tn_field *field,
                                   const char *name) {
  return has_field_name(field, name) ||
         (find_param(op, name) == NULL &&
          tn__find_nearest_word(name, &field->name, 1) != NULL);
}

/* Reports `param` if the call has an earlier entry for the same field. */
static void check_passed_once(tnm_reader *reader, const tnm_call *call,
                              const tnm_call_param *param,
                              const tn_field *field) {
  for (const tnm_call_param *p = call->params; p != param; p = p->next) {
    if (!has_field_name(field, p->name)) continue;
    /* the parameters are in no certain order */
    const bool is_earlier = p->pos.line != param->pos.line
                                ? p->pos.line < param->pos.line
                                : p->pos.column < param->pos.column;
    const size_t id = report_bad_call(
        reader, (is_earlier ? param : p)->pos,
        tnm_format_text(reader->arena, "parameter `%s` is given twice",
                        field->name));
    tnm_diag_add_place(reader->diags, id, (is_earlier ? p : param)->pos,
                       "first time");
    return;
  }
}

/* Reports required parameters that a call leaves out. */
static void check_missing_params(tnm_reader *reader, const tnm_call *call,
                                 const tn_op *op) {
  for (uint32_t i = 0; i < op->n_params; ++i) {
    const tn_field *field = op->params[i];
    bool passed = (field->flags & TN_FIELD_REQUIRED) == 0;
    for (const tnm_call_param *p = call->params; p != NULL; p = p->next)
      passed = passed || is_name_or_misspelling(op, field, p->name);
    if (passed) continue;
    const size_t id = report_bad_call(
        reader, call->pos,
        tnm_format_text(reader->arena,
                        "`%s.%s` wants a value for parameter `%s`",
                        call->plugin, op->name, field->name));
    tnm_diag_add_help(reader->diags, id, "write `%s=...` after the tensors",
                      field->name);
  }
}

/* Checks the names and values of a call's parameters. */
static void check_params(tnm_reader *reader, const tnm_call *call,
                         const tn_op *op) {
  for (const tnm_call_param *p = call->params; p != NULL; p = p->next) {
    const tn_field *field = find_param(op, p->name);
    if (field == NULL)
      report_unknown_param(reader, call, p, op);
    else if (has_checkable_value(field, p))
      (void)tnm_check_value(reader->diags, field, &p->value, "value");
    if (field != NULL) check_passed_once(reader, call, p, field);
  }
  check_missing_params(reader, call, op);
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
