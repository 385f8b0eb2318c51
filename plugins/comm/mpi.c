/* SPDX-License-Identifier: Apache-2.0
 * mpi.c: the backend of processes that mpirun started.
 */
#include <stdio.h>

#include "group.h"

static int32_t join_mpi(comm_group *group, const tn_comm_join *how,
                        tn_comm_reason *why) {
  (void)group;
  (void)how;
  return comm_fail(why, TN_UNSUPPORTED, "this build has no MPI");
}

void comm_mpi_describe(char *to, uint64_t bytes) {
  (void)snprintf(to, (size_t)bytes, "this build has no MPI");
}

const comm_backend comm_mpi = {.name = "mpi", .join = join_mpi};
