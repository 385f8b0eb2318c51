/* SPDX-License-Identifier: Apache-2.0
 * probe.h: a plugin with kernels that record their calls. Its tables are
 * written by hand, so that the tests do not depend on the generator.
 */
#ifndef TESTS_NDARRAY_PROBE_H_
#define TESTS_NDARRAY_PROBE_H_

#include "tenon/plugin/op.h"

extern const tn_plugin probe_plugin;

enum { PROBE_MAX = 8 };

/* The last call of any probe kernel. */
typedef struct probe_record {
  int calls; /* of compute since the program began */
  int prepares;
  int destroys;
  uint32_t n_in, n_out, n_aux, n_ws, flags;
  uint32_t in_flags[PROBE_MAX];
  tn_req req[PROBE_MAX];
  int32_t alias[PROBE_MAX];
  tn_tensor in[PROBE_MAX]; /* shape and strides must not be followed later */
  tn_tensor out[PROBE_MAX];
  int32_t in_dense[PROBE_MAX];
  int32_t out_dense[PROBE_MAX];
  void *ws[PROBE_MAX];
  uint64_t ws_bytes[PROBE_MAX];
  const void *prepared;
  uint64_t key, offset;
  int data_in_prepare; /* 1 if prepare saw any data */
} probe_record;

extern probe_record probe;

extern const tn_plugin second_plugin;    /* a kernel for probe.all */
extern void (*second_plugin_hook)(void); /* that kernel calls it */

/* Steers the kernels of probe.fail and probe.pick. */
extern int32_t probe_code; /* result of probe.fail */
extern int probe_silent;   /* probe.fail does not call TN_FAIL */
extern int probe_shape;    /* probe.pick: 0 right, 1 none, 2 twice, 3 rank 2 */

#endif /* TESTS_NDARRAY_PROBE_H_ */
