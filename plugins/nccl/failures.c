/* SPDX-License-Identifier: Apache-2.0
 * failures.c: the reasons of failures, and the end of waits.
 */
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "nccl_plugin.h"

enum { LEAST_PAUSE = 20000, MOST_PAUSE = 1000000 }; /* nanoseconds */
enum { PART_OF_WAIT = 8, TIMEOUT_MS = 300000 };

/* Another rank may complete a call and leave the group before this one sees the
 * end of its own part. So calls have this time to complete after the end of the
 * group, in nanoseconds. */
enum { GRACE = 100000000 };

static int32_t write_reason(tn_comm_reason *why, int32_t code,
                            const char *format, ...) TN_PRINTF(3, 4);

static int32_t write_reason(tn_comm_reason *why, int32_t code,
                            const char *format, ...) {
  va_list list;
  va_start(list, format);
  (void)vsnprintf(why->text, sizeof why->text, format, list);
  va_end(list);
  return code;
}

static int32_t get_code(int result) {
  switch (result) {
    case NCCL_INVALID_ARGUMENT:
    case NCCL_INVALID_USAGE:
      return TN_INVALID;
    case NCCL_SYSTEM_ERROR:
    case NCCL_REMOTE_ERROR:
      return TN_IO;
    default:
      return TN_DEVICE;
  }
}

int32_t nccl_explain(nccl_instance *self, void *comm, int32_t device_id,
                     int result, tn_comm_reason *why) {
  const nccl_library *library = &self->library;
  tn_device_error error = {.struct_size = sizeof error};
  const char *more = library->get_last_error(comm);
  if (result == NCCL_CUDA_ERROR &&
      self->scope->check(self->scope, device_id, &error) != TN_OK)
    more = error.text;
  const int has_more = more && more[0];
  return write_reason(why, get_code(result), "%s: %s%s%.400s", library->name,
                      library->describe(result), has_more ? ": " : "",
                      has_more ? more : "");
}

int32_t nccl_explain_driver(nccl_instance *self, int32_t device_id, int result,
                            const char *action, tn_comm_reason *why) {
  tn_device_error error = {.struct_size = sizeof error};
  if (self->scope->check(self->scope, device_id, &error) != TN_OK)
    return write_reason(why, TN_DEVICE, "%s: %s", action, error.text);
  return write_reason(why, TN_DEVICE, "%s: the driver returned %d", action,
                      result);
}

uint64_t nccl_get_time(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int32_t nccl_check_wait(nccl_instance *self, const nccl_member *member,
                        uint64_t begin, uint32_t timeout_ms,
                        tn_comm_reason *why) {
  const nccl_call *call =
      pthread_equal(pthread_self(), self->thread) ? self->current : NULL;
  const uint64_t now = nccl_get_time(), ended = atomic_load(&member->ended);
  const uint32_t most = timeout_ms ? timeout_ms : TIMEOUT_MS;
  if (ended && now - ended > GRACE)
    return write_reason(why, TN_BUSY, "the group has ended");
  if (call && call->frame->host->cancelled(call->later))
    return write_reason(why, TN_BUSY, "the runtime is shut down");
  if (now - begin < (uint64_t)most * 1000000u) return TN_OK;
  return write_reason(why, TN_BUSY,
                      "not complete after %u ms; a rank may have ended, or "
                      "made another call",
                      most);
}

void nccl_pause(nccl_instance *self, uint64_t begin) {
  const uint64_t now = nccl_get_time();
  uint64_t ns = (now - begin) / PART_OF_WAIT;
  struct timespec until;
  if (ns < LEAST_PAUSE) ns = LEAST_PAUSE;
  if (ns > MOST_PAUSE) ns = MOST_PAUSE;
  until.tv_sec = (time_t)((now + ns) / 1000000000u);
  until.tv_nsec = (long)((now + ns) % 1000000000u);
  (void)pthread_mutex_lock(&self->lock);
  (void)pthread_cond_timedwait(&self->changed, &self->lock, &until);
  (void)pthread_mutex_unlock(&self->lock);
}
