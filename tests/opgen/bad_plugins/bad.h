/* SPDX-License-Identifier: Apache-2.0
 * bad.h: a plugin that is correct, apart from the statements that a file
 * defines before it includes this one: CONSTRUCTOR, INIT, FINI, FORWARD (a, b,
 * out and n are there), BACKWARD (g, da, db, dc and n), and AFTER for the end
 * of FORWARD.
 */
#ifndef TESTS_OPGEN_BAD_H_
#define TESTS_OPGEN_BAD_H_

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "op.gen.h"
#include "plugin.gen.h"

#ifndef CONSTRUCTOR
#define CONSTRUCTOR
#endif
#ifndef INIT
#define INIT
#endif
#ifndef FINI
#define FINI
#endif
#ifndef FORWARD
#define FORWARD
#endif
#ifndef AFTER
#define AFTER
#endif
#ifndef BACKWARD
#define BACKWARD                          \
  for (int64_t i = 0; i < n; ++i) {       \
    if (call->req[0] != 0) da[i] = g[i];  \
    if (call->req[1] != 0) db[i] = -g[i]; \
    if (call->req[2] != 0) dc[i] = -g[i]; \
  }
#endif

__attribute__((constructor)) static void construct(void){CONSTRUCTOR}

int32_t
    bad_init(const tn_host *host, tn_registrar *registrar, void **instance) {
  (void)host, (void)registrar, (void)instance;
  INIT return TN_OK;
}

void bad_fini(void *instance) {
  (void)instance;
  FINI
}

int32_t bad_diff(const tn_frame *call) {
  float *a = call->in[0].data, *b = call->in[1].data;
  float *c = call->in[2].data, *out = call->out[0].data;
  const int64_t n = tn_tensor_size(&call->in[0]);
  (void)a, (void)b, (void)n;
  FORWARD
  for (int64_t i = 0; i < n; ++i) out[i] = a[i] - b[i] - c[i];
  AFTER
  return TN_OK;
}

int32_t bad_diff_backward(const tn_frame *call) {
  const float *g = call->in[0].data;
  float *da = call->out[0].data, *db = call->out[1].data;
  float *dc = call->out[2].data;
  const int64_t n = tn_tensor_size(&call->in[0]);
  (void)g, (void)da, (void)db, (void)dc, (void)n;
  BACKWARD
  return TN_OK;
}

#endif /* TESTS_OPGEN_BAD_H_ */
