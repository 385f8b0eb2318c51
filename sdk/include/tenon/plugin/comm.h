/* SPDX-License-Identifier: Apache-2.0
 * comm.h: groups whose members compute together, as plugins/comm offers them to
 * the host and to plugins for devices. Standalone: op.h only. Hosts use
 * tenon/comm.h, which calls these functions.
 *
 * A group has a name, and each member a rank from 0 on. Operators of comm name
 * the group in their parameter `group`. A group lives in one runtime: the same
 * name in another runtime is another member.
 */
#ifndef TENON_PLUGIN_COMM_H_
#define TENON_PLUGIN_COMM_H_

#include "tenon/plugin/op.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TN_COMM_EXTENSION "comm/1"

enum { TN_COMM_NAME = 64 }; /* bytes of a group's name, with the NUL */

/* How to join a group. */
typedef struct tn_comm_join {
  uint32_t struct_size;
  uint32_t check;      /* 1: compare each call with those of the other ranks */
  uint32_t timeout_ms; /* of a call, from its start; 0: 300 000 */
  int32_t rank;        /* "local" only */
  int32_t size;        /* "local" only */
  uint32_t reserved;
  const char *name;    /* of the group */
  const char *backend; /* "mpi" or "local" */
  const char *session; /* "local": members with the same text meet */
} tn_comm_join;

/* A group that this runtime is a member of. */
typedef struct tn_comm_group {
  uint32_t struct_size;
  int32_t rank;
  int32_t size;
  uint32_t id;         /* of the group in this runtime */
  const char *name;    /* borrowed until the runtime ends */
  const char *backend; /* "mpi" or "local" */
  uint32_t timeout_ms; /* of a call; not 0 */
  uint32_t check;      /* ranks compare their calls */
} tn_comm_group;

/* How to divide a group. */
typedef struct tn_comm_split {
  uint32_t struct_size;
  int32_t colour; /* members with the same one form a group; below 0: none */
  int32_t key;    /* orders them, then the old rank does */
  uint32_t reserved;
  const char *name; /* of the new group */
} tn_comm_split;

/* A device. */
typedef struct tn_comm_place {
  int32_t device_type;
  int32_t device_id;
} tn_comm_place;

/* How to join a group on a device. */
typedef struct tn_comm_opening {
  uint32_t struct_size;
  int32_t device_id;
  const tn_comm_group *group;
  const void *key; /* what rank 0 created */
} tn_comm_opening;

/* Why a function failed. */
typedef struct tn_comm_reason {
  char text[1024];
} tn_comm_reason;

/* Makes the calls of a group on devices of one type. Without it, operators of
 * comm refuse arrays of the device. */
typedef struct tn_comm_device {
  uint32_t struct_size;
  int32_t device_type;
  void *ctx;
  const char *name; /* "nccl" */

  /* Bytes that rank 0 creates and all ranks of a group need to meet, at most
   * 256. Writes them to `to` and returns their number, or a code. [any] */
  int32_t (*create_key)(void *ctx, void *to, tn_comm_reason *why);

  /* Joins the group on a device; all ranks call it at the same time, with the
   * key of rank 0. *out is passed to close. [any] */
  int32_t (*open)(void *ctx, const tn_comm_opening *how, void **out,
                  tn_comm_reason *why);

  /* Leaves the group on the device, after its calls have ended. [any] */
  void (*close)(void *ctx, void *opened);

  /* Ends the calls that have begun: they fail. May return before they have
   * ended. [any] */
  void (*abort)(void *ctx, void *opened);
} tn_comm_device;

/* The table of TN_COMM_EXTENSION. Functions return TN_OK, or a code and the
 * reason in `why`, which may be NULL. */
typedef struct tn_comm {
  uint32_t struct_size;
  uint32_t reserved;
  void *ctx;

  /* Joins a group. All members call it; it returns when all have, or after the
   * timeout. TN_EXISTS: the runtime has a group of this name. TN_UNSUPPORTED:
   * the backend cannot start here. [host-thread] */
  int32_t (*join)(void *ctx, const tn_comm_join *how, tn_comm_group *out,
                  tn_comm_reason *why);

  /* Divides a group. Of a member that joins none, out->size is 0. All members
   * of the group call it. [host-thread] */
  int32_t (*split)(void *ctx, uint32_t id, const tn_comm_split *how,
                   tn_comm_group *out, tn_comm_reason *why);

  /* Leaves a group. Its calls that have not ended fail with TN_BUSY; later ones
   * fail with TN_NOT_FOUND. The name stays in use. [host-thread] */
  int32_t (*leave)(void *ctx, uint32_t id, tn_comm_reason *why);

  /* The group of a name; TN_NOT_FOUND with a reason that lists the groups.
   * [any] */
  int32_t (*find)(void *ctx, const char *name, tn_comm_group *out,
                  tn_comm_reason *why);

  /* Writes one line for each backend to `to`: its name, and its release or the
   * reason that it cannot start. Returns the bytes of the whole text. [any] */
  int32_t (*describe)(void *ctx, char *to, uint64_t bytes);

  /* For plugins of devices, in their init. `device` must stay valid until
   * remove_device. [load] */
  int32_t (*add_device)(void *ctx, const tn_comm_device *device);

  /* What tn_comm_device.open created for a group and a device; the first call
   * opens it, and waits for the other ranks. [any] */
  int32_t (*opened)(void *ctx, uint32_t id, const tn_comm_place *place,
                    void **out, tn_comm_reason *why);

  /* The next two are for the calls of a plugin for devices.
   *
   * Before a call exchanges data. Fails with the reason if the group is broken
   * on this rank. If ranks compare their calls, waits until all have begun one,
   * and breaks the group on all ranks if the texts `call` differ. NULL: a call
   * of two ranks, which is not compared. [any] */
  int32_t (*begin)(void *ctx, uint32_t id, const char *call,
                   tn_comm_reason *why);

  /* Breaks the group on this rank, because a call failed with `code`. Pending
   * and later calls fail with the copied `text`. Calls tn_comm_device.abort for
   * all that is open. [any] */
  int32_t (*fail)(void *ctx, uint32_t id, int32_t code, const char *text);

  /* For plugins of devices, in their fini: closes all that the device has
   * opened. [load] */
  void (*remove_device)(void *ctx, const tn_comm_device *device);
} tn_comm;

#ifdef __cplusplus
}
#endif
#endif /* TENON_PLUGIN_COMM_H_ */
