/* SPDX-License-Identifier: Apache-2.0
 * mpi_calls.h: the functions of MPI that the backend uses, with numbers in
 * place of MPI's handles, whose types differ between implementations. There are
 * two tables: mpi_abi.c calls a library with the standard ABI, and mpi_shim.c
 * is compiled against the mpi.h of this machine. Both include mpi_calls_body.h.
 *
 * All functions are called by one thread.
 */
#ifndef TENON_PLUGINS_COMM_MPI_CALLS_H_
#define TENON_PLUGINS_COMM_MPI_CALLS_H_

#include <stdint.h>

enum { COMM_MPI_TABLE = 1 }; /* the form of this table */

/* Element types. */
enum {
  MPI_TYPE_F32,
  MPI_TYPE_F64,
  MPI_TYPE_I8,
  MPI_TYPE_U8,
  MPI_TYPE_I16,
  MPI_TYPE_U16,
  MPI_TYPE_I32,
  MPI_TYPE_U32,
  MPI_TYPE_I64,
  MPI_TYPE_U64,
  N_MPI_TYPES
};

/* Functions of two elements. max and min of floats are NaN if one is NaN. */
enum { MPI_OP_SUM, MPI_OP_MAX, MPI_OP_MIN, MPI_OP_PROD, N_MPI_OPS };

enum { MPI_TAG_NOTICE = 1 };

/* The elements of a call. */
typedef struct mpi_elements {
  const void *in; /* NULL: in place */
  void *out;
  int32_t count;
  int32_t type;
  int32_t op;
  int32_t root;
} mpi_elements;

/* A request that has ended. */
typedef struct mpi_done {
  int32_t request;
  int32_t error; /* of MPI; 0: none */
  int32_t bytes; /* of a received message */
} mpi_done;

/* Functions return 0 or an error of MPI, which `text` describes. Communicators
 * and requests are numbers from 0 on; communicator 0 is the world. */
typedef struct comm_mpi_calls {
  uint32_t struct_size;
  uint32_t table; /* COMM_MPI_TABLE */

  /* The release of the library; may be called before `start`. */
  int (*version)(char *to, int32_t bytes);

  /* Starts MPI unless the program has. *owned: it has not. *level: 0, or the
   * reason that this thread may not call MPI: 1. */
  int (*start)(int32_t *owned, int32_t *denied);
  int (*finish)(void);
  void (*text)(int error, char *to, int32_t bytes);

  int (*size)(int32_t comm, int32_t *rank, int32_t *size);
  int (*copy)(int32_t comm, int32_t *made, int32_t *request);
  int (*split)(int32_t comm, int32_t colour, int32_t key, int32_t *made);
  void (*release)(int32_t comm);

  int (*all_reduce)(int32_t comm, const mpi_elements *e, int32_t *request);
  int (*reduce)(int32_t comm, const mpi_elements *e, int32_t *request);
  int (*reduce_scatter)(int32_t comm, const mpi_elements *e, int32_t *request);
  int (*all_gather)(int32_t comm, const mpi_elements *e, int32_t *request);
  int (*broadcast)(int32_t comm, const mpi_elements *e, int32_t *request);
  int (*all_to_all)(int32_t comm, const mpi_elements *e, int32_t *request);
  int (*barrier)(int32_t comm, int32_t *request);

  /* `root` is the other rank; of a receive, -1 is any. */
  int (*send)(int32_t comm, const mpi_elements *e, int32_t tag,
              int32_t *request);
  int (*receive)(int32_t comm, const mpi_elements *e, int32_t tag,
                 int32_t *request);

  /* The requests that have ended since the last call; borrowed until the next
   * one. */
  int (*test)(const mpi_done **done, int32_t *n);

  /* Ends a receive without a message. */
  void (*cancel)(int32_t request);
} comm_mpi_calls;

/* The symbol of mpi_shim.so. */
#define COMM_MPI_SHIM "tn_comm_mpi"

/* The table of a library with the standard ABI; NULL and a reason. `handle` is
 * that of dlopen. */
const comm_mpi_calls *comm_mpi_abi(void *handle, char *why, uint64_t bytes);

#endif /* TENON_PLUGINS_COMM_MPI_CALLS_H_ */
