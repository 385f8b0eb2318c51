/* SPDX-License-Identifier: Apache-2.0
 * lapack.c: "lapack.cuda/1" with cuSOLVER and cuBLAS. Their matrices are
 * column-major, so a row-major matrix is a transposed one there: lower is
 * upper, left is right, LQ is QR, and U and V change places. No data moves.
 */
#include <limits.h>
#include <stdlib.h>

#include "cusolver.h"

enum {
  BATCHED_EDGE = 256 /* longest edge for which functions for many matrices are
                      * used: a larger matrix occupies a GPU by itself */
};

/* A task on its device, which is current. */
typedef struct job {
  const solver_library *library;
  const tn_device_task *task;
  cusolver_handles *handles;
  int wide; /* 1: f64; the index of functions */
} job;

/* ----------------------------------------------------------------- handles */

/* A status of cuBLAS as one of both libraries. */
static int blas_status(int status) {
  return status == SOLVER_OK ? SOLVER_OK : SOLVER_BLAS_STATUS + status;
}

static void destroy_handles(const solver_library *library,
                            cusolver_handles *h) {
  if (h->solver) (void)library->destroy(h->solver);
  if (h->blas) (void)library->blas_destroy(h->blas);
  free(h);
}

/* New handles of the current device. */
static int create_handles(const solver_library *library,
                          cusolver_handles **out) {
  cusolver_handles *h = calloc(1, sizeof *h);
  *out = NULL;
  if (!h) return SOLVER_NO_MEMORY;
  int status = library->create(&h->solver);
  if (status == SOLVER_OK)
    status = library->set_mode(h->solver, SOLVER_DETERMINISTIC);
  if (status == SOLVER_OK) status = blas_status(library->blas_create(&h->blas));
  if (status == SOLVER_OK)
    *out = h;
  else
    destroy_handles(library, h);
  return status;
}

/* Handles of the list that no thread uses; those of `stream`, or with NULL any.
 */
static cusolver_handles *find_handles(cusolver_handles *list, void *stream) {
  for (cusolver_handles *h = list; h; h = h->next)
    if (!h->is_busy && (!stream || !h->stream || h->stream == stream)) return h;
  return NULL;
}

/* Handles for the calling thread, until release_handles. */
static int acquire_handles(cusolver_instance *self, int32_t device,
                           void *stream, cusolver_handles **out) {
  int status = SOLVER_OK;
  (void)pthread_mutex_lock(&self->lock);
  cusolver_handles *h = find_handles(self->devices[device], stream);
  if (!h) {
    status = create_handles(&self->library, &h);
    if (h) {
      h->next = self->devices[device];
      self->devices[device] = h;
    }
  }
  if (h) h->is_busy = 1;
  (void)pthread_mutex_unlock(&self->lock);
  *out = h;
  return status;
}

static void release_handles(cusolver_instance *self, cusolver_handles *h) {
  (void)pthread_mutex_lock(&self->lock);
  h->is_busy = 0;
  (void)pthread_mutex_unlock(&self->lock);
}

static int set_stream(const solver_library *library, cusolver_handles *h,
                      void *stream) {
  h->stream = stream;
  const int status = library->set_stream(h->solver, stream);
  if (status != SOLVER_OK) return status;
  return blas_status(library->blas_set_stream(h->blas, stream));
}

/* ---------------------------------------------------------------- failures */

static int32_t get_code(int status) {
  switch (status) {
    case SOLVER_NO_MEMORY:
    case SOLVER_BLAS_STATUS + BLAS_NO_MEMORY:
      return TN_OUT_OF_MEMORY;
    case SOLVER_NOT_SUPPORTED:
    case SOLVER_BLAS_STATUS + BLAS_NOT_SUPPORTED:
      return TN_UNSUPPORTED;
    default:
      return TN_DEVICE;
  }
}

static const char *name_kind(uint32_t kind) {
  static const char *const names[] = {
      "a Cholesky factor",      "an inverse by Cholesky factors",
      "a triangular solve",     "LU factors",
      "a solve by LU factors",  "LQ factors",
      "the rows of LQ factors", "eigenvalues",
      "singular values",        "a triangular product"};
  return names[kind];
}

/* Reports a failure. A fault of an earlier operation appears in the next call
 * of any function; then the device knows the reason. */
static int32_t report_failure(const tn_frame *call, cusolver_instance *self,
                              const tn_device_task *task, int status) {
  const int32_t code = get_code(status), id = call->run->device_id;
  tn_device_error error = {.struct_size = sizeof error};
  const char *why = solver_describe(&self->library, status);
  if (code == TN_DEVICE && self->scope->check(self->scope, id, &error) != TN_OK)
    why = error.text;
  return TN_FAIL(call, code, "%s: %s: %s", self->library.name,
                 name_kind(task->kind), why);
}

/* ------------------------------------------------------------------- tasks */

/* Operands of matrix i. */
static void *get_matrix(const job *j, void *first, int64_t step, int64_t i) {
  return (char *)first + i * step * (j->wide ? 8 : 4);
}

static int64_t get_least(const tn_device_task *t) {
  return t->m < t->n ? t->m : t->n;
}

static void *get_values(const job *j, int64_t i) {
  return get_matrix(j, j->task->values, get_least(j->task), i);
}

/* The size of the workspace in elements; of any that is larger than an int, the
 * part that an int can name. */
static int get_size(const job *j) {
  const uint64_t size = j->task->ws_bytes / (j->wide ? 8 : 4);
  return size > INT_MAX ? INT_MAX : (int)size;
}

static int is_batched(const tn_device_task *t) {
  return t->count > 1 && t->n <= BATCHED_EDGE && t->m <= BATCHED_EDGE;
}

/* The triangle of a row-major matrix, in a column-major one. */
static int get_triangle(const tn_device_task *t) {
  return t->flags & TN_DEVICE_UPPER ? SOLVER_LOWER : SOLVER_UPPER;
}

static int get_op(const tn_device_task *t) {
  return t->flags & TN_DEVICE_TRANSPOSE ? SOLVER_OP_T : SOLVER_OP_N;
}

static int run_cholesky(const job *j, int64_t i) {
  const tn_device_task *t = j->task;
  return j->library->potrf[j->wide](
      j->handles->solver, get_triangle(t), (int)t->n,
      get_matrix(j, t->a, t->step_a, i), (int)t->lda, t->ws, get_size(j),
      t->info + i);
}

static int run_cholesky_inverse(const job *j, int64_t i) {
  const tn_device_task *t = j->task;
  return j->library->potri[j->wide](
      j->handles->solver, get_triangle(t), (int)t->n,
      get_matrix(j, t->a, t->step_a, i), (int)t->lda, t->ws, get_size(j),
      t->info + i);
}

/* op(a) x = b is x^T op(a)^T = b^T, and a^T is a there. */
static int run_triangular_solve(const job *j, int64_t i) {
  const tn_device_task *t = j->task;
  const float alpha = (float)t->alpha;
  return blas_status(j->library->trsm[j->wide](
      j->handles->blas, t->flags & TN_DEVICE_RIGHT ? SOLVER_LEFT : SOLVER_RIGHT,
      get_triangle(t), get_op(t), SOLVER_NON_UNIT, (int)t->n, (int)t->m,
      j->wide ? (const void *)&t->alpha : &alpha,
      get_matrix(j, t->a, t->step_a, i), (int)t->lda,
      get_matrix(j, t->b, t->step_b, i), (int)t->ldb));
}

/* cuBLAS writes the product over its factor if both have one address. */
static int run_triangular_product(const job *j, int64_t i) {
  const tn_device_task *t = j->task;
  const float alpha = (float)t->alpha;
  void *b = get_matrix(j, t->b, t->step_b, i);
  return blas_status(j->library->trmm[j->wide](
      j->handles->blas, t->flags & TN_DEVICE_RIGHT ? SOLVER_LEFT : SOLVER_RIGHT,
      get_triangle(t), get_op(t), SOLVER_NON_UNIT, (int)t->n, (int)t->m,
      j->wide ? (const void *)&t->alpha : &alpha,
      get_matrix(j, t->a, t->step_a, i), (int)t->lda, b, (int)t->ldb, b,
      (int)t->ldb));
}

static int run_lu(const job *j, int64_t i) {
  const tn_device_task *t = j->task;
  return j->library->getrf[j->wide](j->handles->solver, (int)t->n, (int)t->n,
                                    get_matrix(j, t->a, t->step_a, i),
                                    (int)t->lda, t->ws, t->pivots + i * t->n,
                                    t->info + i);
}

/* The factors are those of a^T. */
static int get_lu_op(const tn_device_task *t) {
  return t->flags & TN_DEVICE_TRANSPOSE ? SOLVER_OP_N : SOLVER_OP_T;
}

static int run_lu_solve(const job *j, int64_t i) {
  const tn_device_task *t = j->task;
  return j->library->getrs[j->wide](
      j->handles->solver, get_lu_op(t), (int)t->n, (int)t->m,
      get_matrix(j, t->a, t->step_a, i), (int)t->lda, t->pivots + i * t->n,
      get_matrix(j, t->b, t->step_b, i), (int)t->ldb, t->ws);
}

static int run_lq(const job *j, int64_t i) {
  const tn_device_task *t = j->task;
  return j->library->geqrf[j->wide](j->handles->solver, (int)t->n, (int)t->m,
                                    get_matrix(j, t->a, t->step_a, i),
                                    (int)t->lda, get_values(j, i), t->ws,
                                    get_size(j), t->info + i);
}

static int run_lq_rows(const job *j, int64_t i) {
  const tn_device_task *t = j->task;
  return j->library->orgqr[j->wide](
      j->handles->solver, (int)t->n, (int)t->m, (int)t->m,
      get_matrix(j, t->a, t->step_a, i), (int)t->lda, get_values(j, i), t->ws,
      get_size(j), t->info + i);
}

static int run_eigen(const job *j, int64_t i) {
  const tn_device_task *t = j->task;
  return j->library->syevd[j->wide](
      j->handles->solver, SOLVER_VECTORS, SOLVER_UPPER, (int)t->n,
      get_matrix(j, t->a, t->step_a, i), (int)t->lda,
      get_matrix(j, t->values, t->n, i), t->ws, get_size(j), t->info + i);
}

/* a^T = V diag(values) U^T. */
static int run_svd(const job *j, int64_t i) {
  const tn_device_task *t = j->task;
  return j->library->gesvd[j->wide](
      j->handles->solver, 'S', 'S', (int)t->n, (int)t->m,
      get_matrix(j, t->a, t->step_a, i), (int)t->lda, get_values(j, i),
      get_matrix(j, t->c, t->step_c, i), (int)t->ldc,
      get_matrix(j, t->b, t->step_b, i), (int)t->ldb, t->ws, get_size(j), NULL,
      t->info + i);
}

/* Functions for many matrices. */
static int run_batch(const job *j) {
  const tn_device_task *t = j->task;
  const solver_library *l = j->library;
  const int n = (int)t->n, m = (int)t->m, count = (int)t->count;
  const float alpha = (float)t->alpha;
  int unused = 0; /* number of an invalid argument: a status says the same */
  switch (t->kind) {
    case TN_DEVICE_CHOLESKY:
      return l->potrf_batched[j->wide](j->handles->solver, get_triangle(t), n,
                                       t->a_list, (int)t->lda, t->info, count);
    case TN_DEVICE_TRIANGULAR_SOLVE:
      return blas_status(l->trsm_batched[j->wide](
          j->handles->blas,
          t->flags & TN_DEVICE_RIGHT ? SOLVER_LEFT : SOLVER_RIGHT,
          get_triangle(t), get_op(t), SOLVER_NON_UNIT, n, m,
          j->wide ? (const void *)&t->alpha : &alpha, t->a_list, (int)t->lda,
          t->b_list, (int)t->ldb, count));
    case TN_DEVICE_LU:
      return blas_status(l->getrf_batched[j->wide](j->handles->blas, n,
                                                   t->a_list, (int)t->lda,
                                                   t->pivots, t->info, count));
    default: /* TN_DEVICE_LU_SOLVE */
      return blas_status(l->getrs_batched[j->wide](
          j->handles->blas, get_lu_op(t), n, m, t->a_list, (int)t->lda,
          t->pivots, t->b_list, (int)t->ldb, &unused, count));
  }
}

/* ------------------------------------------------------------------- kinds */

static int size_cholesky(const job *j, int *size) {
  const tn_device_task *t = j->task;
  return j->library->potrf_size[j->wide](j->handles->solver, get_triangle(t),
                                         (int)t->n, NULL, (int)t->lda, size);
}

static int size_cholesky_inverse(const job *j, int *size) {
  const tn_device_task *t = j->task;
  return j->library->potri_size[j->wide](j->handles->solver, get_triangle(t),
                                         (int)t->n, NULL, (int)t->lda, size);
}

static int size_lu(const job *j, int *size) {
  const tn_device_task *t = j->task;
  return j->library->getrf_size[j->wide](j->handles->solver, (int)t->n,
                                         (int)t->n, NULL, (int)t->lda, size);
}

/* Memory for an info that is not reported. */
static int size_info(const job *j, int *size) {
  (void)j;
  *size = 1;
  return SOLVER_OK;
}

static int size_lq(const job *j, int *size) {
  const tn_device_task *t = j->task;
  return j->library->geqrf_size[j->wide](j->handles->solver, (int)t->n,
                                         (int)t->m, NULL, (int)t->lda, size);
}

static int size_lq_rows(const job *j, int *size) {
  const tn_device_task *t = j->task;
  return j->library->orgqr_size[j->wide](j->handles->solver, (int)t->n,
                                         (int)t->m, (int)t->m, NULL,
                                         (int)t->lda, NULL, size);
}

static int size_eigen(const job *j, int *size) {
  const tn_device_task *t = j->task;
  return j->library->syevd_size[j->wide](j->handles->solver, SOLVER_VECTORS,
                                         SOLVER_UPPER, (int)t->n, NULL,
                                         (int)t->lda, NULL, size);
}

static int size_svd(const job *j, int *size) {
  const tn_device_task *t = j->task;
  return j->library->gesvd_size[j->wide](j->handles->solver, (int)t->n,
                                         (int)t->m, size);
}

/* The functions of a kind, in the order of device_lapack.h. */
static const struct kind {
  int (*size)(const job *j, int *size); /* NULL: no workspace */
  int (*run)(const job *j, int64_t i);
  int has_batch;
} kinds[] = {{size_cholesky, run_cholesky, 1},
             {size_cholesky_inverse, run_cholesky_inverse, 0},
             {NULL, run_triangular_solve, 1},
             {size_lu, run_lu, 1},
             {size_info, run_lu_solve, 1},
             {size_lq, run_lq, 0},
             {size_lq_rows, run_lq_rows, 0},
             {size_eigen, run_eigen, 0},
             {size_svd, run_svd, 0},
             {NULL, run_triangular_product, 0}};

static int uses_batch(const tn_device_task *t) {
  return kinds[t->kind].has_batch && is_batched(t);
}

/* ----------------------------------------------------------- plan and run */

static int fits_int(int64_t n) {
  return n >= 0 && n <= INT_MAX;
}

static int32_t check_task(const tn_frame *call, const tn_device_task *t) {
  if (t->kind >= sizeof kinds / sizeof *kinds)
    return TN_FAIL(call, TN_UNSUPPORTED, "no kind of task has the number %u",
                   (unsigned)t->kind);
  if (t->dtype != TN_F32 && t->dtype != TN_F64)
    return TN_FAIL(call, TN_DTYPE, "%s is in f32 or f64", name_kind(t->kind));
  if (!fits_int(t->m) || !fits_int(t->n) || !fits_int(t->lda) ||
      !fits_int(t->ldb) || !fits_int(t->ldc) || !fits_int(t->count))
    return TN_FAIL(call, TN_UNSUPPORTED, "%s: a length is above 2^31 - 1",
                   name_kind(t->kind));
  if ((t->kind == TN_DEVICE_LQ || t->kind == TN_DEVICE_LQ_ROWS ||
       t->kind == TN_DEVICE_SVD) &&
      t->m > t->n)
    return TN_FAIL(call, TN_UNSUPPORTED,
                   "%s of %lld rows and %lld columns: transpose the matrix",
                   name_kind(t->kind), (long long)t->m, (long long)t->n);
  return TN_OK;
}

/* Enters the device of a call and acquires handles. */
static int32_t begin_job(const tn_frame *call, cusolver_instance *self,
                         void *stream, job *j) {
  const int32_t id = call->run->device_id;
  tn_device_error error = {.struct_size = sizeof error};
  const int32_t code = self->scope->enter(self->scope, id, &error);
  if (code != TN_OK) return TN_FAIL(call, code, "%s", error.text);
  const int status = acquire_handles(self, id, stream, &j->handles);
  if (status == SOLVER_OK) return TN_OK;
  self->scope->leave(self->scope, id);
  return report_failure(call, self, j->task, status);
}

static int32_t end_job(const tn_frame *call, cusolver_instance *self,
                       const job *j, int status) {
  release_handles(self, j->handles);
  self->scope->leave(self->scope, call->run->device_id);
  return status == SOLVER_OK ? TN_OK
                             : report_failure(call, self, j->task, status);
}

static int32_t plan_task(const tn_device_lapack *lapack, const tn_frame *call,
                         const tn_device_task *task, uint64_t *bytes) {
  cusolver_instance *self = lapack->data;
  job j = {&self->library, task, NULL, task->dtype == TN_F64};
  int size = 0;
  *bytes = 0;
  int32_t code = check_task(call, task);
  if (code != TN_OK || uses_batch(task) || !kinds[task->kind].size) return code;
  code = begin_job(call, self, NULL, &j);
  if (code != TN_OK) return code;
  const int status = kinds[task->kind].size(&j, &size);
  *bytes = (uint64_t)(size > 0 ? size : 1) * (j.wide ? 8 : 4);
  return end_job(call, self, &j, status);
}

static int32_t run_task(const tn_device_lapack *lapack, const tn_frame *call,
                        const tn_device_task *task) {
  cusolver_instance *self = lapack->data;
  job j = {&self->library, task, NULL, task->dtype == TN_F64};
  const int32_t code = begin_job(call, self, call->run->stream, &j);
  if (code != TN_OK) return code;
  int status = set_stream(&self->library, j.handles, call->run->stream);
  if (status == SOLVER_OK && uses_batch(task)) {
    status = run_batch(&j);
  } else {
    for (int64_t i = 0; i < task->count && status == SOLVER_OK; ++i)
      status = kinds[task->kind].run(&j, i);
  }
  return end_job(call, self, &j, status);
}

/* ---------------------------------------------------------- open and close */

int32_t cusolver_lapack_open(cusolver_instance *self) {
  self->devices =
      calloc((size_t)self->scope->n_devices + 1, sizeof(*self->devices));
  if (!self->devices) return TN_OUT_OF_MEMORY;
  if (pthread_mutex_init(&self->lock, NULL) != 0) {
    free(self->devices);
    self->devices = NULL;
    return TN_OUT_OF_MEMORY;
  }
  self->lapack = (tn_device_lapack){.struct_size = sizeof(tn_device_lapack),
                                    .device_type = TN_DEVICE_CUDA,
                                    .data = self,
                                    .name = self->library.name,
                                    .plan = plan_task,
                                    .run = run_task};
  return TN_OK;
}

static void close_device(cusolver_instance *self, int32_t id) {
  tn_device_error error = {.struct_size = sizeof error};
  cusolver_handles *h = self->devices[id];
  if (!h || self->scope->enter(self->scope, id, &error) != TN_OK) return;
  while (h) {
    cusolver_handles *next = h->next;
    destroy_handles(&self->library, h);
    h = next;
  }
  self->scope->leave(self->scope, id);
}

void cusolver_lapack_close(cusolver_instance *self) {
  if (!self->devices) return;
  for (int32_t id = 0; id < self->scope->n_devices; ++id)
    close_device(self, id);
  (void)pthread_mutex_destroy(&self->lock);
  free(self->devices);
}
