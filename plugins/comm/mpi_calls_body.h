/* SPDX-License-Identifier: Apache-2.0
 * mpi_calls_body.h: the table of mpi_calls.h by functions of MPI. The including
 * file declares MPI's types and constants, and M(name), which is the function
 * MPI_name.
 */
#include <stdlib.h>
#include <string.h>

/* ----------------------------------------------------------------- handles */

/* Communicators and requests by number; a free place has the null handle. */
static struct {
  MPI_Comm *comms;
  int32_t n_comms;
  MPI_Request *requests;
  int *indices; /* results of MPI_Testsome */
  MPI_Status *statuses;
  mpi_done *done;
  int32_t n_requests;
  MPI_Op largest[2], smallest[2]; /* of f32 and f64 */
} handles;

/* A free number for a communicator; -1 without memory. */
static int32_t add_comm(void) {
  for (int32_t i = 1; i < handles.n_comms; ++i)
    if (handles.comms[i] == MPI_COMM_NULL) return i;
  const int32_t n = handles.n_comms == 0 ? 8 : 2 * handles.n_comms;
  MPI_Comm *more = realloc(handles.comms, (size_t)n * sizeof *more);
  if (!more) return -1;
  for (int32_t i = handles.n_comms; i < n; ++i) more[i] = MPI_COMM_NULL;
  handles.comms = more;
  const int32_t first = handles.n_comms == 0 ? 1 : handles.n_comms;
  more[0] = MPI_COMM_WORLD;
  handles.n_comms = n;
  return first;
}

static int grow_requests(int32_t n) {
  MPI_Request *requests =
      realloc(handles.requests, (size_t)n * sizeof *requests);
  if (requests) handles.requests = requests;
  int *indices = realloc(handles.indices, (size_t)n * sizeof *indices);
  if (indices) handles.indices = indices;
  MPI_Status *statuses =
      realloc(handles.statuses, (size_t)n * sizeof *statuses);
  if (statuses) handles.statuses = statuses;
  mpi_done *done = realloc(handles.done, (size_t)n * sizeof *done);
  if (done) handles.done = done;
  return requests && indices && statuses && done;
}

/* A free number for a request; -1 without memory. */
static int32_t add_request(void) {
  for (int32_t i = 0; i < handles.n_requests; ++i)
    if (handles.requests[i] == MPI_REQUEST_NULL) return i;
  const int32_t n = handles.n_requests == 0 ? 16 : 2 * handles.n_requests;
  if (!grow_requests(n)) return -1;
  for (int32_t i = handles.n_requests; i < n; ++i)
    handles.requests[i] = MPI_REQUEST_NULL;
  const int32_t first = handles.n_requests;
  handles.n_requests = n;
  return first;
}

static MPI_Datatype type_of(int32_t type) {
  switch (type) {
    case MPI_TYPE_F32:
      return MPI_FLOAT;
    case MPI_TYPE_F64:
      return MPI_DOUBLE;
    case MPI_TYPE_I8:
      return MPI_INT8_T;
    case MPI_TYPE_U8:
      return MPI_UINT8_T;
    case MPI_TYPE_I16:
      return MPI_INT16_T;
    case MPI_TYPE_U16:
      return MPI_UINT16_T;
    case MPI_TYPE_I32:
      return MPI_INT32_T;
    case MPI_TYPE_U32:
      return MPI_UINT32_T;
    case MPI_TYPE_I64:
      return MPI_INT64_T;
    default:
      return MPI_UINT64_T;
  }
}

/* ---------------------------------------------------------- max and min */

/* MPI leaves NaN to the implementation. These are NaN if one element is. */
#define EXTREME(name, T, compare)                                       \
  static void name(void *in, void *inout, int *n, MPI_Datatype *type) { \
    const T *x = in;                                                    \
    T *y = inout;                                                       \
    (void)type;                                                         \
    for (int i = 0; i < *n; ++i)                                        \
      if (x[i] compare y[i] || x[i] != x[i])                            \
        y[i] = y[i] != y[i] ? y[i] : x[i];                              \
  }
EXTREME(largest_f32, float, >)
EXTREME(largest_f64, double, >)
EXTREME(smallest_f32, float, <)
EXTREME(smallest_f64, double, <)
#undef EXTREME

static int create_ops(void) {
  int error = M(Op_create)(largest_f32, 1, &handles.largest[0]);
  if (!error) error = M(Op_create)(largest_f64, 1, &handles.largest[1]);
  if (!error) error = M(Op_create)(smallest_f32, 1, &handles.smallest[0]);
  if (!error) error = M(Op_create)(smallest_f64, 1, &handles.smallest[1]);
  return error;
}

static MPI_Op op_of(const mpi_elements *e) {
  const int is_float = e->type == MPI_TYPE_F32 || e->type == MPI_TYPE_F64;
  switch (e->op) {
    case MPI_OP_SUM:
      return MPI_SUM;
    case MPI_OP_MAX:
      return is_float ? handles.largest[e->type] : MPI_MAX;
    case MPI_OP_MIN:
      return is_float ? handles.smallest[e->type] : MPI_MIN;
    default:
      return MPI_PROD;
  }
}

/* ----------------------------------------------------- start and the world */

static int get_version(char *to, int32_t bytes) {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int n = 0;
  const int error = M(Get_library_version)(text, &n);
  if (error) return error;
  size_t end = strcspn(text, "\n,");
  /* "MPICH Version:      5.0.2" */
  if (strncmp(text, "MPICH Version:", 14) == 0) {
    const size_t blank = 14 + strspn(text + 14, " \t");
    memmove(text + 6, text + blank, strlen(text + blank) + 1);
    end = strcspn(text, "\n");
  }
  if (end >= (size_t)bytes) end = (size_t)bytes - 1;
  memcpy(to, text, end);
  to[end] = 0;
  return 0;
}

static int start_mpi(int32_t *owned, int32_t *denied) {
  int started = 0, level = 0;
  *denied = 0;
  int error = M(Initialized)(&started);
  if (error) return error;
  *owned = !started;
  error = started ? M(Query_thread)(&level)
                  : M(Init_thread)(NULL, NULL, MPI_THREAD_FUNNELED, &level);
  if (error) return error;
  *denied = started && level < MPI_THREAD_MULTIPLE;
  if (*denied) return 0;
  if (add_comm() < 0) return MPI_ERR_OTHER;
  error = M(Comm_set_errhandler)(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  return error ? error : create_ops();
}

static int finish_mpi(void) {
  return M(Finalize)();
}

static void describe_error(int error, char *to, int32_t bytes) {
  char text[MPI_MAX_ERROR_STRING];
  int n = 0;
  if (M(Error_string)(error, text, &n)) n = 0;
  if (n >= bytes) n = bytes - 1;
  memcpy(to, text, (size_t)n);
  to[n] = 0;
}

static int get_size(int32_t comm, int32_t *rank, int32_t *size) {
  int r = 0, n = 0;
  int error = M(Comm_rank)(handles.comms[comm], &r);
  if (!error) error = M(Comm_size)(handles.comms[comm], &n);
  *rank = r;
  *size = n;
  return error;
}

/* ------------------------------------------------------------ communicators */

/* The new communicator is stored when the request ends, so its memory must not
 * move meanwhile. */
typedef struct copy_in_flight {
  MPI_Comm comm;
  int32_t number, request;
  struct copy_in_flight *next;
} copy_in_flight;
static copy_in_flight *copies;

static int copy_comm(int32_t comm, int32_t *made, int32_t *request) {
  *made = add_comm();
  *request = add_request();
  copy_in_flight *copy = calloc(1, sizeof *copy);
  if (*made < 0 || *request < 0 || !copy) {
    free(copy);
    return MPI_ERR_OTHER;
  }
  copy->comm = MPI_COMM_NULL;
  copy->number = *made;
  copy->request = *request;
  const int error = M(Comm_idup)(handles.comms[comm], &copy->comm,
                                 &handles.requests[*request]);
  if (error) {
    free(copy);
    return error;
  }
  handles.comms[*made] = MPI_COMM_WORLD; /* the place is in use */
  copy->next = copies;
  copies = copy;
  return 0;
}

/* Stores a communicator whose request has ended. */
static void end_copy(int32_t request) {
  copy_in_flight **at = &copies;
  while (*at && (*at)->request != request) at = &(*at)->next;
  copy_in_flight *copy = *at;
  if (!copy) return;
  *at = copy->next;
  handles.comms[copy->number] = copy->comm;
  (void)M(Comm_set_errhandler)(copy->comm, MPI_ERRORS_RETURN);
  free(copy);
}

static int split_comm(int32_t comm, int32_t colour, int32_t key,
                      int32_t *made) {
  MPI_Comm part = MPI_COMM_NULL;
  const int error = M(Comm_split)(
      handles.comms[comm], colour < 0 ? MPI_UNDEFINED : colour, key, &part);
  *made = -1;
  if (error || part == MPI_COMM_NULL) return error;
  *made = add_comm();
  if (*made < 0) return MPI_ERR_OTHER;
  handles.comms[*made] = part;
  return M(Comm_set_errhandler)(part, MPI_ERRORS_RETURN);
}

static void release_comm(int32_t comm) {
  (void)M(Comm_free)(&handles.comms[comm]);
  handles.comms[comm] = MPI_COMM_NULL;
}

/* -------------------------------------------------------------------- calls */

/* Starts a call: the function, its arguments without the request. */
#define START(function, ...)                                        \
  do {                                                              \
    *request = add_request();                                       \
    if (*request < 0) return MPI_ERR_OTHER;                         \
    const int start_error =                                         \
        M(function)(__VA_ARGS__, &handles.requests[*request]);      \
    if (start_error) handles.requests[*request] = MPI_REQUEST_NULL; \
    return start_error;                                             \
  } while (0)

static const void *input_of(const mpi_elements *e) {
  return e->in ? e->in : MPI_IN_PLACE;
}

static int all_reduce(int32_t comm, const mpi_elements *e, int32_t *request) {
  START(Iallreduce, input_of(e), e->out, e->count, type_of(e->type), op_of(e),
        handles.comms[comm]);
}

static int start_reduce(int32_t comm, const mpi_elements *e, int32_t *request) {
  START(Ireduce, input_of(e), e->out, e->count, type_of(e->type), op_of(e),
        e->root, handles.comms[comm]);
}

static int reduce_scatter(int32_t comm, const mpi_elements *e,
                          int32_t *request) {
  START(Ireduce_scatter_block, input_of(e), e->out, e->count, type_of(e->type),
        op_of(e), handles.comms[comm]);
}

static int all_gather(int32_t comm, const mpi_elements *e, int32_t *request) {
  START(Iallgather, input_of(e), e->count, type_of(e->type), e->out, e->count,
        type_of(e->type), handles.comms[comm]);
}

static int start_broadcast(int32_t comm, const mpi_elements *e,
                           int32_t *request) {
  START(Ibcast, e->out, e->count, type_of(e->type), e->root,
        handles.comms[comm]);
}

static int all_to_all(int32_t comm, const mpi_elements *e, int32_t *request) {
  START(Ialltoall, input_of(e), e->count, type_of(e->type), e->out, e->count,
        type_of(e->type), handles.comms[comm]);
}

static int start_barrier(int32_t comm, int32_t *request) {
  START(Ibarrier, handles.comms[comm]);
}

static int send_message(int32_t comm, const mpi_elements *e, int32_t tag,
                        int32_t *request) {
  START(Isend, e->in, e->count, type_of(e->type), e->root, tag,
        handles.comms[comm]);
}

static int receive_message(int32_t comm, const mpi_elements *e, int32_t tag,
                           int32_t *request) {
  START(Irecv, e->out, e->count, type_of(e->type),
        e->root < 0 ? MPI_ANY_SOURCE : e->root, tag, handles.comms[comm]);
}
#undef START

/* ----------------------------------------------------------------- progress */

static int test_requests(const mpi_done **all, int32_t *n) {
  mpi_done *done = handles.done;
  int found = 0;
  *all = done;
  *n = 0;
  if (handles.n_requests == 0) return 0;
  const int error = M(Testsome)(handles.n_requests, handles.requests, &found,
                                handles.indices, handles.statuses);
  if (error && error != MPI_ERR_IN_STATUS) return error;
  if (found == MPI_UNDEFINED) return 0;
  for (int i = 0; i < found; ++i) {
    MPI_Status *status = &handles.statuses[i];
    int bytes = 0;
    done[i].request = handles.indices[i];
    done[i].error = error ? status->MPI_ERROR : 0;
    if (M(Get_count)(status, MPI_BYTE, &bytes) || bytes < 0) bytes = 0;
    done[i].bytes = bytes;
    end_copy(done[i].request);
  }
  *n = found;
  return 0;
}

static void cancel_request(int32_t request) {
  if (M(Cancel)(&handles.requests[request]) == 0)
    (void)M(Wait)(&handles.requests[request], MPI_STATUS_IGNORE);
}

static const comm_mpi_calls table = {.struct_size = sizeof(comm_mpi_calls),
                                     .table = COMM_MPI_TABLE,
                                     .version = get_version,
                                     .start = start_mpi,
                                     .finish = finish_mpi,
                                     .text = describe_error,
                                     .size = get_size,
                                     .copy = copy_comm,
                                     .split = split_comm,
                                     .release = release_comm,
                                     .all_reduce = all_reduce,
                                     .reduce = start_reduce,
                                     .reduce_scatter = reduce_scatter,
                                     .all_gather = all_gather,
                                     .broadcast = start_broadcast,
                                     .all_to_all = all_to_all,
                                     .barrier = start_barrier,
                                     .send = send_message,
                                     .receive = receive_message,
                                     .test = test_requests,
                                     .cancel = cancel_request};
