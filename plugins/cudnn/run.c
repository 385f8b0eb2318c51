/* SPDX-License-Identifier: Apache-2.0
 * run.c: cuDNN on the device of a call. A handle serves one thread at a time. A
 * device has two handles, so that running a plan never waits for slow planning.
 */
#include <stdlib.h>
#include <string.h>

#include "kit.h"

enum { ALIGNED = 16 }; /* alignment of operands in plans */

/* --------------------------------------------------------------- failures */

static int32_t code_of(int status) {
  if (status == DNN_NO_HOST_MEMORY || status == DNN_NO_DEVICE_MEMORY)
    return TN_OUT_OF_MEMORY;
  return status / 1000 == DNN_NOT_SUPPORTED / 1000 ? TN_UNSUPPORTED : TN_DEVICE;
}

/* Reports a failure. The device reports that it is lost; cuDNN only reports a
 * failure. */
static int32_t report_failure(const tn_frame *call, int status,
                              const char *doing) {
  const cudnn_instance *self = call->instance;
  tn_device_error error = {.struct_size = sizeof error};
  char more[512] = "";
  if (code_of(status) == TN_DEVICE &&
      self->scope->check(self->scope, call->run->device_id, &error) != TN_OK)
    return TN_FAIL(call, TN_DEVICE, "%s", error.text);
  self->library.say_more(more, sizeof more);
  return TN_FAIL(call, code_of(status), "%s: %s: %s%s%s", self->library.name,
                 doing, self->library.say(status), more[0] ? ": " : "", more);
}

static int32_t refuse_plan(const tn_frame *call, int status,
                           const cudnn_task *task) {
  const cudnn_instance *self = call->instance;
  if (status != DNN_NOT_SUPPORTED)
    return report_failure(call, status, "planning");
  return TN_FAIL(
      call, TN_UNSUPPORTED,
      "%s names no engine that computes this in %lld bytes of "
      "workspace%s%s",
      self->library.name, (long long)task->most_workspace,
      task->flags & CUDNN_FAST ? "" : ", without rounding",
      task->flags & CUDNN_SAME_BITS ? ", with the same bits each time" : "");
}

/* ---------------------------------------------------------------- handles */

/* Creates the handle for running with the first plan, because a recorded call
 * may not create one. The device is current. */
static int open_handles(const cudnn_instance *self, cudnn_device *device) {
  dnn_handle planner = NULL, runner = NULL;
  if (device->planner) return DNN_OK;
  int status = self->library.create(&planner);
  if (status != DNN_OK) return status;
  status = self->library.create(&runner);
  if (status != DNN_OK) {
    (void)self->library.destroy(planner);
    return status;
  }
  device->planner = planner;
  device->runner = runner;
  return DNN_OK;
}

/* ------------------------------------------------------------------ plans */

/* The device is current. */
static int make_plan(void *arg, const cudnn_task *task, cudnn_made *out) {
  cudnn_instance *self = arg;
  cudnn_device *device = &self->devices[task->device];
  (void)pthread_mutex_lock(&device->planning);
  int status = open_handles(self, device);
  if (status == DNN_OK) {
    const cudnn_target target = {&self->library, device->planner, NULL};
    const cudnn_bench bench = {&target, self->scope, self->path};
    status = task->flags & CUDNN_MEASURE ? cudnn_make_fastest(&bench, task, out)
                                         : cudnn_make(&target, task, out);
  }
  (void)pthread_mutex_unlock(&device->planning);
  return status;
}

/* On a lost device only host memory can be freed. */
static void unmake_plan(void *arg, int32_t id, cudnn_made *made) {
  cudnn_instance *self = arg;
  tn_device_error error = {.struct_size = sizeof error};
  const int entered = self->scope->enter(self->scope, id, &error) == TN_OK;
  cudnn_unmake(&self->library, made);
  if (entered) self->scope->leave(self->scope, id);
}

static int32_t enter_device(const tn_frame *call) {
  const cudnn_instance *self = call->instance;
  tn_device_error error = {.struct_size = sizeof error};
  const int32_t code =
      self->scope->enter(self->scope, call->run->device_id, &error);
  return code == TN_OK ? TN_OK : TN_FAIL(call, code, "%s", error.text);
}

static void leave_device(const tn_frame *call) {
  const cudnn_instance *self = call->instance;
  self->scope->leave(self->scope, call->run->device_id);
}

/* The plan of a task, or the second plan of `like`. */
static int32_t take_plan(const tn_frame *call, cudnn_plan *like,
                         const cudnn_task *task, cudnn_plan **out) {
  cudnn_instance *self = call->instance;
  *out = NULL;
  int32_t code = enter_device(call);
  if (code != TN_OK) return code;
  const int status =
      like ? cudnn_plans_beside(&self->plans, &self->maker, like, task, out)
           : cudnn_plans_take(&self->plans, &self->maker, task, out);
  if (status != DNN_OK) code = refuse_plan(call, status, task);
  leave_device(call);
  return code;
}

int32_t cudnn_plan_take(const tn_frame *call, const cudnn_task *task,
                        cudnn_plan **out) {
  return take_plan(call, NULL, task, out);
}

void cudnn_plan_give(cudnn_instance *self, cudnn_plan *plan) {
  cudnn_plans_give(&self->plans, &self->maker, plan);
}

/* ----------------------------------------------------------- variant packs */

static int fill_pack(const dnn_library *library, dnn_descriptor pack,
                     const cudnn_operand *operands, int n, void *workspace) {
  int64_t ids[CUDNN_MOST_OPERANDS];
  const void *at[CUDNN_MOST_OPERANDS];
  for (int i = 0; i < n; ++i) {
    ids[i] = operands[i].id;
    at[i] = operands[i].at;
  }
  int status = library->set(pack, DNN_PACK_IDS, DNN_INT64, n, ids);
  if (status == DNN_OK)
    status = library->set(pack, DNN_PACK_POINTERS, DNN_POINTER, n, at);
  if (status == DNN_OK)
    status = library->set(pack, DNN_PACK_WORKSPACE, DNN_POINTER, 1, &workspace);
  return status == DNN_OK ? library->finalize(pack) : status;
}

int cudnn_execute(const dnn_library *library, dnn_handle handle,
                  const cudnn_made *made, const cudnn_operand *operands, int n,
                  void *workspace) {
  dnn_descriptor pack = NULL;
  int status = library->descriptor_create(DNN_PACK, &pack);
  if (status != DNN_OK) return status;
  status = fill_pack(library, pack, operands, n, workspace);
  if (status == DNN_OK) status = library->execute(handle, made->plan, pack);
  (void)library->descriptor_destroy(pack);
  return status;
}

/* Calls `work` with the handle for calls. A handle is on one stream at a time.
 */
static int32_t run_work(const tn_frame *call, cudnn_work *work, void *arg,
                        const char *doing) {
  cudnn_instance *self = call->instance;
  cudnn_device *device = &self->devices[call->run->device_id];
  int32_t code = enter_device(call);
  if (code != TN_OK) return code;
  (void)pthread_mutex_lock(&device->running);
  int status = self->library.stream_set(device->runner, call->run->stream);
  if (status == DNN_OK) status = work(arg, device->runner);
  (void)pthread_mutex_unlock(&device->running);
  if (status != DNN_OK) code = report_failure(call, status, doing);
  leave_device(call);
  return code;
}

/* A plan with the operands of a call. */
typedef struct execution {
  const tn_frame *call;
  const cudnn_plan *plan;
  const cudnn_operand *operands;
  int n;
} execution;

static int execute_plan(void *arg, dnn_handle handle) {
  const execution *e = arg;
  const cudnn_instance *self = e->call->instance;
  void *workspace = e->call->n_ws > 0 ? e->call->ws[0] : NULL;
  return cudnn_execute(&self->library, handle, &e->plan->made, e->operands,
                       e->n, workspace);
}

static int32_t run_plan(const tn_frame *call, const cudnn_plan *plan,
                        const cudnn_operand *operands, int n) {
  execution e = {call, plan, operands, n};
  return run_work(call, execute_plan, &e, "executing a plan");
}

static int is_aligned(const cudnn_operand *operands, int n) {
  uintptr_t all = 0;
  for (int i = 0; i < n; ++i) all |= (uintptr_t)operands[i].at;
  return all % ALIGNED == 0;
}

static int32_t run_anywhere(const tn_frame *call, cudnn_plan *like,
                            const cudnn_operand *operands, int n) {
  cudnn_task task;
  cudnn_plan *plan = NULL;
  memcpy(&task, &like->task, sizeof task);
  task.flags = (task.flags | CUDNN_ANYWHERE) & ~(uint32_t)CUDNN_MEASURE;
  task.most_workspace = like->made.workspace;
  const int32_t code = take_plan(call, like, &task, &plan);
  return code == TN_OK ? run_plan(call, plan, operands, n) : code;
}

int32_t cudnn_run(const tn_frame *call, cudnn_plan *plan,
                  const cudnn_operand *operands, int n) {
  return is_aligned(operands, n) ? run_plan(call, plan, operands, n)
                                 : run_anywhere(call, plan, operands, n);
}

/* --------------------------------------------------------- work of a handle */

int32_t cudnn_with_planner(const tn_frame *call, cudnn_work *work, void *arg) {
  cudnn_instance *self = call->instance;
  cudnn_device *device = &self->devices[call->run->device_id];
  int32_t code = enter_device(call);
  if (code != TN_OK) return code;
  (void)pthread_mutex_lock(&device->planning);
  int status = open_handles(self, device);
  if (status == DNN_OK) status = work(arg, device->planner);
  (void)pthread_mutex_unlock(&device->planning);
  if (status != DNN_OK) code = report_failure(call, status, "planning");
  leave_device(call);
  return code;
}

int32_t cudnn_with_runner(const tn_frame *call, cudnn_work *work, void *arg) {
  return run_work(call, work, arg, "computing");
}

/* ---------------------------------------------------------- open and close */

int32_t cudnn_devices_open(cudnn_instance *self) {
  const int32_t n = self->scope->n_devices;
  self->maker = (cudnn_maker){make_plan, unmake_plan, self};
  self->devices = calloc((size_t)n, sizeof *self->devices);
  if (!self->devices) return TN_OUT_OF_MEMORY;
  for (int32_t id = 0; id < n; ++id) {
    (void)pthread_mutex_init(&self->devices[id].planning, NULL);
    (void)pthread_mutex_init(&self->devices[id].running, NULL);
  }
  return TN_OK;
}

/* Nothing of a lost device can be freed. */
static void close_device(const cudnn_instance *self, int32_t id) {
  tn_device_error error = {.struct_size = sizeof error};
  cudnn_device *device = &self->devices[id];
  if (device->planner && self->scope->enter(self->scope, id, &error) == TN_OK) {
    /* Its streams are already closed. */
    (void)self->library.stream_set(device->runner, NULL);
    (void)self->library.destroy(device->planner);
    (void)self->library.destroy(device->runner);
    self->scope->leave(self->scope, id);
  }
  (void)pthread_mutex_destroy(&device->planning);
  (void)pthread_mutex_destroy(&device->running);
}

void cudnn_devices_close(cudnn_instance *self) {
  for (int32_t id = 0; id < self->scope->n_devices; ++id)
    close_device(self, id);
  free(self->devices);
}
