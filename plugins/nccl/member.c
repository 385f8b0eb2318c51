/* SPDX-License-Identifier: Apache-2.0
 * member.c: communicators of NCCL, offered to plugins/comm as tn_comm_device. A
 * communicator is the membership of a group on one device. It does not wait:
 * its functions return NCCL_IN_PROGRESS, and this plugin polls. So a rank that
 * never comes ends in a timeout, and not in a thread that hangs.
 */
#include <stdlib.h>
#include <string.h>

#include "nccl_plugin.h"

enum { CLOSE_MS = 5000 };

static int32_t create_key(void *ctx, void *to, tn_comm_reason *why) {
  nccl_instance *self = ctx;
  const int result = self->library.create_key(to);
  if (result == NCCL_OK) return NCCL_KEY_BYTES;
  return nccl_explain(self, NULL, 0, result, why);
}

/* -------------------------------------------------------------------- open */

/* Polls until the last function has ended. */
static int32_t await_member(nccl_member *m, int result, uint32_t timeout_ms,
                            tn_comm_reason *why) {
  nccl_instance *self = m->instance;
  const uint64_t begin = nccl_get_time();
  while (result == NCCL_IN_PROGRESS) {
    const int32_t code = nccl_check_wait(self, m, begin, timeout_ms, why);
    if (code != TN_OK) return code;
    nccl_pause(self, begin);
    const int failed = self->library.get_state(m->comm, &result);
    if (failed != NCCL_OK) result = failed;
  }
  if (result == NCCL_OK) return TN_OK;
  return nccl_explain(self, m->comm, m->device_id, result, why);
}

static int create_stream(nccl_member *m) {
  const nccl_library *library = &m->instance->library;
  int result =
      library->stream_create(&m->stream, DRIVER_STREAM_NON_BLOCKING, 0);
  if (result == DRIVER_OK)
    result = library->event_create(&m->done, DRIVER_EVENT_NO_TIMING);
  return result;
}

/* The device is current. */
static int32_t start_member(nccl_member *m, const tn_comm_group *group,
                            const void *key_bytes, tn_comm_reason *why) {
  nccl_instance *self = m->instance;
  nccl_config config = nccl_get_config();
  nccl_key key;
  memcpy(&key, key_bytes, sizeof key);
  int result = create_stream(m);
  if (result != DRIVER_OK)
    return nccl_explain_driver(self, m->device_id, result, "a new stream", why);
  result = self->library.open(&m->comm, group->size, key, group->rank, &config);
  return await_member(m, result, group->timeout_ms, why);
}

/* Removes the communicator without other ranks, and the stream. The device is
 * current. */
static void stop_member(nccl_member *m) {
  const nccl_library *library = &m->instance->library;
  if (m->comm) (void)library->abort(m->comm);
  if (m->done) (void)library->event_destroy(m->done);
  if (m->stream) (void)library->stream_destroy(m->stream);
}

static int32_t open_member(void *ctx, const tn_comm_opening *how, void **out,
                           tn_comm_reason *why) {
  nccl_instance *self = ctx;
  const int32_t device_id = how->device_id;
  tn_device_error error = {.struct_size = sizeof error};
  *out = NULL;
  nccl_member *m = calloc(1, sizeof *m);
  int32_t code = self->scope->enter(self->scope, device_id, &error);
  memcpy(why->text, error.text, sizeof error.text);
  if (!m || code != TN_OK) {
    if (code == TN_OK) self->scope->leave(self->scope, device_id);
    free(m);
    return code == TN_OK ? TN_OUT_OF_MEMORY : code;
  }
  m->instance = self;
  m->device_id = device_id;
  code = start_member(m, how->group, how->key, why);
  if (code != TN_OK) stop_member(m);
  self->scope->leave(self->scope, device_id);
  if (code == TN_OK)
    *out = m;
  else
    free(m);
  return code;
}

/* ------------------------------------------------------------------- close */

/* Other ranks may still read memory of this communicator, so it is finalised,
 * which flushes it. If that does not end soon, they are not there. */
static void finalize_comm(nccl_member *m) {
  const nccl_library *library = &m->instance->library;
  tn_comm_reason why;
  if (!m->comm || nccl_has_ended(m)) return;
  const int result = library->finalize(m->comm);
  if (await_member(m, result, CLOSE_MS, &why) != TN_OK) return;
  (void)library->destroy(m->comm);
  m->comm = NULL;
}

static void close_member(void *ctx, void *opened) {
  nccl_instance *self = ctx;
  nccl_member *m = opened;
  tn_device_error error = {.struct_size = sizeof error};
  if (self->scope->enter(self->scope, m->device_id, &error) == TN_OK) {
    finalize_comm(m);
    stop_member(m);
    self->scope->leave(self->scope, m->device_id);
  }
  free(m);
}

void nccl_end_member(nccl_member *m) {
  uint64_t none = 0;
  (void)atomic_compare_exchange_strong(&m->ended, &none, nccl_get_time());
  (void)pthread_mutex_lock(&m->instance->lock);
  (void)pthread_cond_broadcast(&m->instance->changed);
  (void)pthread_mutex_unlock(&m->instance->lock);
}

static void abort_member(void *ctx, void *opened) {
  (void)ctx;
  nccl_end_member(opened);
}

void nccl_fill_device(nccl_instance *self) {
  self->device = (tn_comm_device){.struct_size = sizeof(tn_comm_device),
                                  .device_type = TN_DEVICE_CUDA,
                                  .ctx = self,
                                  .name = "nccl",
                                  .create_key = create_key,
                                  .open = open_member,
                                  .close = close_member,
                                  .abort = abort_member};
}
