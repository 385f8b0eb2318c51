/* SPDX-License-Identifier: Apache-2.0
 * group.c: the functions of tenon/comm.h, through the table that plugin `comm`
 * provides.
 */
#include <stdlib.h>
#include <string.h>

#include "parallel.h"
#include "tenon/call.h"
#include "tenon/comm.h"
#include "tenon/engine.h"
#include "tenon/plugin/comm.h"

struct tn_rank_group {
  tn_runtime *rt;
  tn_variable *keeper; /* keeps the runtime */
  const tn_comm *comm;
  tn_comm_group info;
};

tn_code tn__argument_check(const void *argument, const char *function,
                           const char *name) {
  return argument ? TN_OK
                  : tn_fail(TN_INVALID, "%s: the argument `%s` is NULL",
                            function, name);
}

static tn_code fail_for_reason(const char *function, tn_code code,
                               const tn_comm_reason *why) {
  return tn_fail(code, "%s: %s", function,
                 why->text[0] ? why->text : tn_code_name(code));
}

tn_code tn__comm_find(tn_runtime *rt, const char *function,
                      const tn_comm **out) {
  const void *table = NULL;
  if (tn_plugin_extension(rt, TN_COMM_EXTENSION, &table) != TN_OK)
    return tn_fail(TN_NOT_FOUND,
                   "%s: groups need plugin `comm`; load it into the runtime",
                   function);
  *out = table;
  return TN_OK;
}

static tn_code create_group(tn_runtime *rt, const tn_comm *comm,
                            tn_rank_group **out) {
  tn_rank_group *group = calloc(1, sizeof *group);
  if (!group)
    return tn_fail(TN_OUT_OF_MEMORY, "tn_group_join: no memory is left");
  const tn_code rc = tn_variable_create(rt, NULL, NULL, &group->keeper);
  if (rc != TN_OK) {
    free(group);
    return rc;
  }
  group->rt = rt;
  group->comm = comm;
  group->info.struct_size = sizeof group->info;
  *out = group;
  return TN_OK;
}

static void destroy_group(tn_rank_group *group) {
  tn_variable_release(group->keeper);
  free(group);
}

/* ------------------------------------------------------------------ joining */

/* Programs that start the processes of MPI tell each its rank in one of these.
 */
static bool is_started_by_mpi(void) {
  static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK",
                                      "PMI_RANK", "MPI_LOCALRANKID"};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
    if (getenv(names[i])) return true;
  return false;
}

static tn_comm_join describe_join(const tn_group_options *options) {
  tn_comm_join how = {.struct_size = sizeof how,
                      .check = options->check,
                      .timeout_ms = options->timeout_ms,
                      .rank = options->rank,
                      .size = options->size == 0 ? 1 : options->size,
                      .name = options->name ? options->name : "world",
                      .backend = options->backend};
  if (!how.backend) how.backend = is_started_by_mpi() ? "mpi" : "local";
  how.session = options->session ? options->session : how.name;
  return how;
}

tn_code tn_group_join(tn_runtime *rt, const tn_group_options *options,
                      tn_rank_group **out) {
  static const tn_group_options usual = {.struct_size = sizeof usual};
  const tn_comm *comm = NULL;
  tn_rank_group *group = NULL;
  tn_comm_reason why = {""};
  TN__REQUIRE(out);
  *out = NULL;
  TN__REQUIRE(rt);
  if (!options) options = &usual;
  if (options->struct_size < sizeof *options)
    return tn_fail(TN_INVALID,
                   "tn_group_join: tn_group_options.struct_size is %u; set it "
                   "to sizeof(tn_group_options)",
                   options->struct_size);
  TN__TRY(tn__comm_find(rt, __func__, &comm));
  TN__TRY(create_group(rt, comm, &group));
  const tn_comm_join how = describe_join(options);
  const tn_code rc = comm->join(comm->ctx, &how, &group->info, &why);
  if (rc != TN_OK) {
    destroy_group(group);
    return fail_for_reason(__func__, rc, &why);
  }
  *out = group;
  return TN_OK;
}

tn_code tn_group_split(tn_rank_group *group, int32_t colour, int32_t key,
                       const char *name, tn_rank_group **out) {
  tn_rank_group *part = NULL;
  tn_comm_reason why = {""};
  TN__REQUIRE(out);
  *out = NULL;
  TN__REQUIRE(group);
  TN__REQUIRE(name);
  const tn_comm *comm = group->comm;
  TN__TRY(create_group(group->rt, comm, &part));
  const tn_comm_split how = {sizeof how, colour, key, 0, name};
  const tn_code rc =
      comm->split(comm->ctx, group->info.id, &how, &part->info, &why);
  if (rc == TN_OK && part->info.size > 0)
    *out = part;
  else
    destroy_group(part);
  return rc == TN_OK ? rc : fail_for_reason(__func__, rc, &why);
}

void tn_group_release(tn_rank_group *group) {
  if (!group) return;
  (void)group->comm->leave(group->comm->ctx, group->info.id, NULL);
  destroy_group(group);
}

/* --------------------------------------------------------------- properties */

const char *tn_group_name(const tn_rank_group *group) {
  return group ? group->info.name : "";
}

int32_t tn_group_rank(const tn_rank_group *group) {
  return group ? group->info.rank : 0;
}

int32_t tn_group_size(const tn_rank_group *group) {
  return group ? group->info.size : 0;
}

/* ------------------------------------------------------------------ barrier */

tn_code tn__comm_barrier(tn_runtime *rt, const char *group) {
  const tn_value value = tn_value_text("group", group);
  tn_operator *op = NULL;
  tn_params *params = NULL;
  tn_array *ranks = NULL;
  tn_code rc = tn_operator_get(rt, "comm.barrier", &op);
  if (rc == TN_OK) rc = tn_params_create(op, &value, 1, &params);
  if (rc == TN_OK)
    rc = tn_call(rt, op, &(const tn_inputs){0, NULL}, params, TN_OUT(&ranks));
  if (rc == TN_OK) rc = tn_array_wait(ranks);
  tn_array_release(ranks);
  tn_params_release(params);
  return rc;
}

tn_code tn_group_barrier(tn_rank_group *group) {
  TN__REQUIRE(group);
  return tn__comm_barrier(group->rt, group->info.name);
}

/* ----------------------------------------------------------------- backends */

tn_code tn_comm_describe(tn_runtime *rt, char *to, size_t bytes,
                         size_t *length) {
  const tn_comm *comm = NULL;
  TN__REQUIRE(rt);
  if (bytes > 0) TN__REQUIRE(to);
  TN__TRY(tn__comm_find(rt, __func__, &comm));
  const int32_t n = comm->describe(comm->ctx, to, bytes);
  if (length) *length = (size_t)n;
  return TN_OK;
}
