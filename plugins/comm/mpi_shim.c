/* SPDX-License-Identifier: Apache-2.0
 * mpi_shim.c: the functions of the MPI with which this file was compiled and
 * linked. comm.so opens it only if a program uses MPI.
 */
#include <mpi.h>

#include "mpi_calls.h"

#define M(name) MPI_##name
#include "mpi_calls_body.h"

/* The one exported symbol, COMM_MPI_SHIM. */
__attribute__((visibility("default"))) const comm_mpi_calls *tn_comm_mpi(void);

const comm_mpi_calls *tn_comm_mpi(void) {
  return &table;
}
