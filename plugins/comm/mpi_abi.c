/* SPDX-License-Identifier: Apache-2.0
 * mpi_abi.c: the functions of a library with the standard ABI of MPI 5.0
 * (libmpi_abi.so), which is found at run time. The values of the constants are
 * those of chapter 20 of the standard.
 */
#include <dlfcn.h>
#include <stdio.h>

#include "mpi_calls.h"

typedef struct MPI_ABI_Comm *MPI_Comm;
typedef struct MPI_ABI_Datatype *MPI_Datatype;
typedef struct MPI_ABI_Op *MPI_Op;
typedef struct MPI_ABI_Request *MPI_Request;
typedef struct MPI_ABI_Errhandler *MPI_Errhandler;
typedef struct MPI_Status {
  int MPI_SOURCE;
  int MPI_TAG;
  int MPI_ERROR;
  int MPI_internal[5];
} MPI_Status;
typedef void MPI_User_function(void *in, void *inout, int *n,
                               MPI_Datatype *type);

#define MPI_SUM ((MPI_Op)0x21)
#define MPI_MIN ((MPI_Op)0x22)
#define MPI_MAX ((MPI_Op)0x23)
#define MPI_PROD ((MPI_Op)0x24)
#define MPI_COMM_NULL ((MPI_Comm)0x100)
#define MPI_COMM_WORLD ((MPI_Comm)0x101)
#define MPI_ERRORS_RETURN ((MPI_Errhandler)0x143)
#define MPI_REQUEST_NULL ((MPI_Request)0x180)
#define MPI_FLOAT ((MPI_Datatype)0x210)
#define MPI_DOUBLE ((MPI_Datatype)0x214)
#define MPI_INT8_T ((MPI_Datatype)0x240)
#define MPI_UINT8_T ((MPI_Datatype)0x241)
#define MPI_BYTE ((MPI_Datatype)0x247)
#define MPI_INT16_T ((MPI_Datatype)0x248)
#define MPI_UINT16_T ((MPI_Datatype)0x249)
#define MPI_INT32_T ((MPI_Datatype)0x250)
#define MPI_UINT32_T ((MPI_Datatype)0x251)
#define MPI_INT64_T ((MPI_Datatype)0x258)
#define MPI_UINT64_T ((MPI_Datatype)0x259)
#define MPI_IN_PLACE ((void *)1)
#define MPI_STATUS_IGNORE ((MPI_Status *)0)

enum {
  MPI_MAX_ERROR_STRING = 512,
  MPI_MAX_LIBRARY_VERSION_STRING = 8192,
  MPI_ERR_OTHER = 16,
  MPI_ERR_IN_STATUS = 19,
  MPI_ANY_SOURCE = -1,
  MPI_UNDEFINED = -32766,
  MPI_THREAD_FUNNELED = 1024,
  MPI_THREAD_MULTIPLE = 4096
};

/* The functions, with their parameters after the name. */
#define FUNCTIONS(F)                                                          \
  F(Get_library_version, (char *, int *))                                     \
  F(Initialized, (int *))                                                     \
  F(Query_thread, (int *))                                                    \
  F(Init_thread, (int *, char ***, int, int *))                               \
  F(Finalize, (void))                                                         \
  F(Error_string, (int, char *, int *))                                       \
  F(Op_create, (MPI_User_function *, int, MPI_Op *))                          \
  F(Comm_set_errhandler, (MPI_Comm, MPI_Errhandler))                          \
  F(Comm_rank, (MPI_Comm, int *))                                             \
  F(Comm_size, (MPI_Comm, int *))                                             \
  F(Comm_idup, (MPI_Comm, MPI_Comm *, MPI_Request *))                         \
  F(Comm_split, (MPI_Comm, int, int, MPI_Comm *))                             \
  F(Comm_free, (MPI_Comm *))                                                  \
  F(Iallreduce, (const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm,   \
                 MPI_Request *))                                              \
  F(Ireduce, (const void *, void *, int, MPI_Datatype, MPI_Op, int, MPI_Comm, \
              MPI_Request *))                                                 \
  F(Ireduce_scatter_block, (const void *, void *, int, MPI_Datatype, MPI_Op,  \
                            MPI_Comm, MPI_Request *))                         \
  F(Iallgather, (const void *, int, MPI_Datatype, void *, int, MPI_Datatype,  \
                 MPI_Comm, MPI_Request *))                                    \
  F(Ibcast, (void *, int, MPI_Datatype, int, MPI_Comm, MPI_Request *))        \
  F(Ialltoall, (const void *, int, MPI_Datatype, void *, int, MPI_Datatype,   \
                MPI_Comm, MPI_Request *))                                     \
  F(Ibarrier, (MPI_Comm, MPI_Request *))                                      \
  F(Isend,                                                                    \
    (const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *))     \
  F(Irecv, (void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *))    \
  F(Testsome, (int, MPI_Request *, int *, int *, MPI_Status *))               \
  F(Get_count, (const MPI_Status *, MPI_Datatype, int *))                     \
  F(Cancel, (MPI_Request *))                                                  \
  F(Wait, (MPI_Request *, MPI_Status *))

#define DECLARE(name, parameters) int(*name) parameters;
static struct { FUNCTIONS(DECLARE) } abi;
#undef DECLARE

#define M(name) abi.name
#include "mpi_calls_body.h"

/* Stores a function; false if the library lacks it. */
static int find_function(void *handle, const char *symbol, void *function) {
  void *found = dlsym(handle, symbol);
  memcpy(function, &found, sizeof found);
  return found != NULL;
}

const comm_mpi_calls *comm_mpi_abi(void *handle, char *why, uint64_t bytes) {
  const struct {
    const char *symbol;
    void *function;
  } all[] = {
#define ENTRY(name, parameters) {"MPI_" #name, &abi.name},
      FUNCTIONS(ENTRY)
#undef ENTRY
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) {
    if (find_function(handle, all[i].symbol, all[i].function)) continue;
    (void)snprintf(why, (size_t)bytes, "the library lacks %s", all[i].symbol);
    return NULL;
  }
  return &table;
}
