/* SPDX-License-Identifier: Apache-2.0
 * mpi_ops.c: calls of operators as requests of MPI. Elements of f16 and bf16
 * travel as f32, so that they are added in f32. Small arrays of one call share
 * a buffer, and all others are sent from and received in their own memory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data.h"
#include "mpi_thread.h"

enum {
  MOST = 1 << 30,        /* elements of a request: MPI counts with an int */
  MOST_SPARE = 64 << 20, /* bytes that are kept for the next buffer */
};

static char nothing[8]; /* the address of an array without elements */

/* ------------------------------------------------------------------- types */

static int is_half(tn_dtype dtype) {
  return dtype == TN_F16 || dtype == TN_BF16;
}

/* The type in which elements are combined. */
static int32_t get_type(tn_dtype dtype) {
  switch (dtype) {
    case TN_F16:
    case TN_BF16:
    case TN_F32:
      return MPI_TYPE_F32;
    case TN_F64:
      return MPI_TYPE_F64;
    case TN_I8:
      return MPI_TYPE_I8;
    case TN_I16:
      return MPI_TYPE_I16;
    case TN_U16:
      return MPI_TYPE_U16;
    case TN_I32:
      return MPI_TYPE_I32;
    case TN_U32:
      return MPI_TYPE_U32;
    case TN_I64:
      return MPI_TYPE_I64;
    case TN_U64:
      return MPI_TYPE_U64;
    default:
      return MPI_TYPE_U8;
  }
}

/* The type in which elements travel unchanged. */
static int32_t get_plain_type(tn_dtype dtype) {
  switch (tn_dtype_bytes(dtype)) {
    case 1:
      return MPI_TYPE_U8;
    case 2:
      return MPI_TYPE_U16;
    case 4:
      return MPI_TYPE_U32;
    default:
      return MPI_TYPE_U64;
  }
}

/* Elements of bool are 0 or 1. */
static int32_t get_op(const comm_task *task) {
  const int is_bool = task->dtype == TN_BOOL;
  switch (task->op) {
    case COMM_MAX:
      return MPI_OP_MAX;
    case COMM_MIN:
      return MPI_OP_MIN;
    case COMM_PROD:
      return is_bool ? MPI_OP_MIN : MPI_OP_PROD;
    default:
      return is_bool ? MPI_OP_MAX : MPI_OP_SUM;
  }
}

static int32_t describe_error(char why[COMM_TEXT], int error,
                              const comm_task *task) {
  return mpi_describe(error, comm_kind_name(task->kind), why);
}

/* ----------------------------------------------------------------- buffers */

/* The last buffer, for the thread of MPI: the pages of a new one would have to
 * be mapped again. */
static struct {
  char *memory;
  size_t bytes;
} spare;

static char *take_buffer(size_t bytes) {
  char *memory = spare.memory;
  if (!memory || spare.bytes < bytes) return malloc(bytes);
  spare.memory = NULL;
  return memory;
}

static void return_buffer(char *memory, size_t bytes) {
  if (memory && bytes <= MOST_SPARE && !(spare.memory && spare.bytes > bytes)) {
    free(spare.memory);
    spare.memory = memory;
    spare.bytes = bytes;
  } else {
    free(memory);
  }
}

/* ---------------------------------------------------------------- messages */

static int64_t bytes_of(const comm_task *task, int64_t n) {
  return n * tn_dtype_bytes(task->dtype);
}

/* Whether arrays share a buffer with this one, or need one of their own. */
static int is_small(const comm_task *task, const comm_piece *p) {
  return bytes_of(task, p->n_in) < task->pack;
}

static int needs_buffer(const comm_task *task, const comm_piece *p) {
  return is_half(task->dtype) || !p->out;
}

/* The pieces from `first` on that share a message: their number and elements.
 */
static uint32_t count_together(const comm_task *task, uint32_t first,
                               int64_t *n) {
  uint32_t k = first;
  *n = 0;
  while (k < task->n && is_small(task, &task->pieces[k]) &&
         bytes_of(task, *n + task->pieces[k].n_in) <= task->pack)
    *n += task->pieces[k++].n_in;
  return k - first;
}

/* Divides the arrays of an all_reduce into messages; counts them if `op` is
 * NULL. */
static uint32_t divide_pieces(const comm_task *task, mpi_op *op) {
  uint32_t n = 0;
  for (uint32_t k = 0; k < task->n;) {
    int64_t count = 0;
    const uint32_t together = count_together(task, k, &count);
    if (together > 1) {
      if (op)
        op->messages[n] =
            (mpi_message){.first = k, .n = together, .count = count};
      ++n;
      k += together;
      continue;
    }
    const int64_t all = task->pieces[k].n_in;
    int64_t at = 0;
    do {
      const int64_t some = all - at < MOST ? all - at : MOST;
      if (op)
        op->messages[n] =
            (mpi_message){.first = k, .n = 1, .at = at, .count = some};
      ++n;
      at += some;
    } while (at < all);
    ++k;
  }
  return n;
}

mpi_op *mpi_create_op(mpi_group *group, comm_task *task) {
  const int is_divided = task->kind == COMM_ALL_REDUCE;
  const uint32_t n = is_divided ? divide_pieces(task, NULL) : 1;
  mpi_op *op = calloc(1, sizeof *op + n * sizeof *op->messages);
  if (!op) return NULL;
  op->group = group;
  op->task = task;
  op->n_messages = n;
  if (is_divided) (void)divide_pieces(task, op);
  return op;
}

void mpi_free_op(mpi_op *op) {
  for (uint32_t i = 0; i < op->n_messages; ++i)
    return_buffer(op->messages[i].buffer, op->messages[i].bytes);
  free(op->headers);
  free(op->results);
  free(op);
}

/* ---------------------------------------------------------------- reductions
 */

/* Copies the arrays of a message into its buffer. */
static int fill_buffer(const comm_task *task, mpi_message *m) {
  const comm_arithmetic *a = comm_arithmetic_of(task->call, task->dtype);
  m->bytes = (size_t)(m->count * a->wide_bytes) + 1;
  m->buffer = take_buffer(m->bytes);
  if (!m->buffer) return 0;
  char *to = m->buffer;
  for (uint32_t k = m->first; k < m->first + m->n; ++k) {
    const comm_piece *p = &task->pieces[k];
    const int64_t n = m->n == 1 ? m->count : p->n_in;
    if (n > 0) a->widen(to, (const char *)p->in + bytes_of(task, m->at), n);
    to += n * a->wide_bytes;
  }
  return 1;
}

/* Copies the results of a message from its buffer. */
static void empty_buffer(const comm_task *task, mpi_message *m) {
  const comm_arithmetic *a = comm_arithmetic_of(task->call, task->dtype);
  char *from = m->buffer;
  if (task->op == COMM_MEAN && a->divide)
    a->divide(from, m->count, task->group->info.size);
  for (uint32_t k = m->first; k < m->first + m->n; ++k) {
    const comm_piece *p = &task->pieces[k];
    const int64_t n = m->n == 1 ? m->count : p->n_in;
    if (p->out && n > 0)
      a->narrow((char *)p->out + bytes_of(task, m->at), from, n);
    from += n * a->wide_bytes;
  }
}

static int begin_all_reduce(mpi_op *op, mpi_message *m, int32_t *request) {
  const comm_task *task = op->task;
  const comm_piece *p = &task->pieces[m->first];
  mpi_elements e = {.count = (int32_t)m->count,
                    .type = get_type(task->dtype),
                    .op = get_op(task)};
  if (m->n > 1 || needs_buffer(task, p)) {
    if (!fill_buffer(task, m)) return -1;
    e.out = m->buffer;
  } else if (m->count == 0) {
    e.out = nothing;
  } else {
    e.out = (char *)p->out + bytes_of(task, m->at);
    if (p->in != p->out) e.in = (const char *)p->in + bytes_of(task, m->at);
  }
  return mpi_calls()->all_reduce(op->group->comm, &e, request);
}

static int begin_reduce(mpi_op *op, mpi_message *m, int32_t *request) {
  const comm_task *task = op->task;
  const comm_piece *p = task->pieces;
  const int is_root = task->group->info.rank == task->peer;
  mpi_elements e = {.in = p->in ? p->in : nothing,
                    .out = p->out ? p->out : nothing,
                    .count = (int32_t)p->n_in,
                    .type = get_type(task->dtype),
                    .op = get_op(task),
                    .root = task->peer};
  *m = (mpi_message){.n = 1, .count = p->n_in};
  if (is_half(task->dtype)) {
    if (!fill_buffer(task, m)) return -1;
    e.in = is_root ? NULL : m->buffer;
    e.out = m->buffer;
  } else if (is_root && p->in == p->out) {
    e.in = NULL;
  }
  return mpi_calls()->reduce(op->group->comm, &e, request);
}

static void finish_reduce(mpi_op *op, mpi_message *m) {
  const comm_task *task = op->task;
  const comm_piece *p = task->pieces;
  if (!p->out || p->n_out == 0) return;
  if (task->group->info.rank != task->peer)
    memset(p->out, 0, (size_t)bytes_of(task, p->n_out));
  else if (m->buffer)
    empty_buffer(task, m);
  else if (task->op == COMM_MEAN)
    comm_divide(task->call, task->dtype, p->out, p->n_out,
                task->group->info.size);
}

/* A buffer has the elements of all parts, and then the results. */
static int begin_reduce_scatter(mpi_op *op, mpi_message *m, int32_t *request) {
  const comm_task *task = op->task;
  const comm_piece *p = task->pieces;
  mpi_elements e = {.in = p->in ? p->in : nothing,
                    .out = p->out ? p->out : nothing,
                    .count = (int32_t)p->n_out,
                    .type = get_type(task->dtype),
                    .op = get_op(task)};
  *m = (mpi_message){.n = 1, .count = p->n_in};
  if (is_half(task->dtype)) {
    char *results = malloc((size_t)p->n_out * sizeof(float) + 1);
    if (!results || !fill_buffer(task, m)) {
      free(results);
      return -1;
    }
    e.in = m->buffer;
    e.out = results;
    const int error = mpi_calls()->reduce_scatter(op->group->comm, &e, request);
    op->results = results;
    return error;
  }
  return mpi_calls()->reduce_scatter(op->group->comm, &e, request);
}

static void finish_reduce_scatter(mpi_op *op) {
  const comm_task *task = op->task;
  const comm_piece *p = task->pieces;
  const comm_arithmetic *a = comm_arithmetic_of(task->call, task->dtype);
  if (!p->out || p->n_out == 0) return;
  if (!is_half(task->dtype)) {
    if (task->op == COMM_MEAN)
      comm_divide(task->call, task->dtype, p->out, p->n_out,
                  task->group->info.size);
    return;
  }
  if (task->op == COMM_MEAN)
    a->divide(op->results, p->n_out, task->group->info.size);
  a->narrow(p->out, op->results, p->n_out);
}

/* ----------------------------------------------------------------- exchanges
 */

static int begin_exchange(mpi_op *op, int32_t *request) {
  const comm_task *task = op->task;
  const comm_piece *p = task->pieces;
  const comm_mpi_calls *mpi = mpi_calls();
  mpi_elements e = {.in = p->in ? p->in : nothing,
                    .out = p->out ? p->out : nothing,
                    .count = (int32_t)p->n_in,
                    .type = get_plain_type(task->dtype),
                    .root = task->peer};
  if (task->kind == COMM_ALL_GATHER)
    return mpi->all_gather(op->group->comm, &e, request);
  if (task->kind == COMM_ALL_TO_ALL) {
    e.count /= task->group->info.size;
    return mpi->all_to_all(op->group->comm, &e, request);
  }
  if (task->group->info.rank == task->peer && p->in != p->out && p->n_in > 0)
    memcpy(p->out, p->in, (size_t)bytes_of(task, p->n_in));
  return mpi->broadcast(op->group->comm, &e, request);
}

/* A sent message is a copy, so that the call ends at once. */
static int copy_message(mpi_op *op) {
  const comm_piece *p = op->task->pieces;
  const size_t bytes = (size_t)bytes_of(op->task, p->n_in);
  op->results = malloc(bytes + 1);
  if (op->results && bytes > 0) memcpy(op->results, p->in, bytes);
  return op->results != NULL;
}

static int begin_message(mpi_op *op, int32_t *request) {
  const comm_task *task = op->task;
  const comm_piece *p = task->pieces;
  const int is_send = task->kind == COMM_SEND;
  if (is_send && !copy_message(op)) return -1;
  const mpi_elements e = {.in = op->results ? op->results : nothing,
                          .out = p->out ? p->out : nothing,
                          .count = (int32_t)(is_send ? p->n_in : p->n_out),
                          .type = get_plain_type(task->dtype),
                          .root = task->peer};
  return is_send
             ? mpi_calls()->send(op->group->comm, &e, task->tag, request)
             : mpi_calls()->receive(op->group->comm, &e, task->tag, request);
}

/* ------------------------------------------------------------- begin and end
 */

/* Begins one request. Returns -1 without memory, or an error of MPI. */
static int begin_one(mpi_op *op, mpi_message *m, int32_t *request) {
  switch (op->task->kind) {
    case COMM_ALL_REDUCE:
      return begin_all_reduce(op, m, request);
    case COMM_REDUCE:
      return begin_reduce(op, m, request);
    case COMM_REDUCE_SCATTER:
      return begin_reduce_scatter(op, m, request);
    case COMM_BARRIER:
      return mpi_calls()->barrier(op->group->comm, request);
    case COMM_SEND:
    case COMM_RECV:
      return begin_message(op, request);
    default:
      return begin_exchange(op, request);
  }
}

/* Only all_reduce divides long arrays. */
static int32_t check_counts(const comm_task *task, char why[COMM_TEXT]) {
  for (uint32_t k = 0; k < task->n && task->kind != COMM_ALL_REDUCE; ++k)
    if (task->pieces[k].n_in > INT32_MAX || task->pieces[k].n_out > INT32_MAX) {
      (void)snprintf(why, COMM_TEXT,
                     "an array has more than %d elements, which MPI does not "
                     "count; pass it in parts",
                     INT32_MAX);
      return TN_OUT_OF_RANGE;
    }
  return TN_OK;
}

int32_t mpi_begin_op(mpi_op *op, mpi_ended *ended, char why[COMM_TEXT]) {
  const int32_t code = check_counts(op->task, why);
  if (code != TN_OK) return code;
  for (uint32_t i = 0; i < op->n_messages; ++i) {
    int32_t request = -1;
    const int error = begin_one(op, &op->messages[i], &request);
    if (error < 0) {
      (void)snprintf(why, COMM_TEXT, "no memory for a buffer");
      return TN_OUT_OF_MEMORY;
    }
    if (error) return describe_error(why, error, op->task);
    ++op->n_pending;
    mpi_own_request(request, ended, op, (int32_t)i);
  }
  return TN_OK;
}

static int32_t finish_receive(const comm_task *task, const mpi_done *done,
                              char why[COMM_TEXT]) {
  const int64_t bytes = bytes_of(task, task->pieces->n_out);
  if (done->bytes == bytes) return TN_OK;
  (void)snprintf(why, COMM_TEXT,
                 "rank %d sent %d bytes, but rank %d receives %lld elements of "
                 "%s",
                 (int)task->peer, (int)done->bytes, (int)task->group->info.rank,
                 (long long)task->pieces->n_out, comm_dtype_name(task->dtype));
  return TN_SHAPE;
}

int32_t mpi_finish_message(mpi_op *op, int32_t index, const mpi_done *done,
                           char why[COMM_TEXT]) {
  const comm_task *task = op->task;
  mpi_message *m = &op->messages[index];
  const comm_piece *p = task->pieces;
  const int32_t size = task->group->info.size;
  if (done->error) return describe_error(why, done->error, task);
  switch (task->kind) {
    case COMM_ALL_REDUCE:
      p += m->first;
      if (m->buffer)
        empty_buffer(task, m);
      else if (task->op == COMM_MEAN && m->count > 0)
        comm_divide(task->call, task->dtype,
                    (char *)p->out + bytes_of(task, m->at), m->count, size);
      return TN_OK;
    case COMM_REDUCE:
      finish_reduce(op, m);
      return TN_OK;
    case COMM_REDUCE_SCATTER:
      finish_reduce_scatter(op);
      return TN_OK;
    case COMM_ALL_GATHER:
    case COMM_BROADCAST:
      if (task->op == COMM_MEAN && p->n_out > 0)
        comm_divide(task->call, task->dtype, p->out, p->n_out, size);
      return TN_OK;
    case COMM_BARRIER:
      if (p->out) *(int64_t *)p->out = size;
      return TN_OK;
    case COMM_RECV:
      return finish_receive(task, done, why);
    default:
      return TN_OK;
  }
}
