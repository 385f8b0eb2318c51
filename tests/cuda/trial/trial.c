/* SPDX-License-Identifier: Apache-2.0
 * trial.c: the kernels of trial.yaml, on the simulated GPU.
 */
#include <tenon/draft/capture.h>
#include <tenon/kernel/kernel.h>

#include "fake_work.h"
#include "kernels.h"
#include "trial.gen.h"

/* The data of one task of the device's thread. */
typedef struct work {
  int64_t n;
  const void *from;
  void *to;
  float by;
  uint64_t key;
  uint64_t offset;
  const uint64_t *live; /* address of the offset on the device, or NULL */
  int32_t draws;
} work;

static void run(fake *f, const void *arg) {
  const work *w = arg;
  const float *from = fake_reach(f, w->from);
  float *to = fake_reach(f, w->to);
  const uint64_t *live = w->live ? fake_reach(f, w->live) : NULL;
  const tn_random random = {.key = w->key, .offset = live ? *live : w->offset};
  for (int64_t i = 0; i < w->n; ++i) {
    to[i] = from[i] * w->by;
    if (w->draws)
      to[i] +=
          (float)(tn_kernel_random(&random, (uint64_t)i / 4).word[i % 4] >> 8) *
          0x1p-24f;
  }
}

static int32_t launch(const tn_frame *call, work w) {
  w.n = tn_tensor_size(&call->out[0]);
  w.from = call->in[0].data;
  w.to = call->out[0].data;
  const void *reads[] = {w.from, w.live};
  const void *writes[] = {w.to};
  const size_t bytes = (size_t)w.n * sizeof(float);
  const size_t read_bytes[] = {bytes, sizeof *w.live};
  fake_work what = {.run = run,
                    .arg = &w,
                    .arg_bytes = sizeof w,
                    .reads = reads,
                    .n_reads = w.live ? 2 : 1,
                    .writes = writes,
                    .n_writes = 1,
                    .read_bytes = read_bytes,
                    .write_bytes = &bytes};
  cuda_context context = NULL;
  (void)cuStreamGetCtx(call->run->stream, &context);
  (void)cuCtxPushCurrent_v2(context);
  const int result = fake_cuda_submit(call->run->stream, &what);
  (void)cuCtxPopCurrent_v2(&context);
  return result == CUDA_OK ? TN_OK
                           : TN_FAIL(call, TN_DEVICE, "the launch failed");
}

int32_t trial_noise(const tn_frame *call) {
  const tn_random *random = call->run->random[0];
  return launch(call, (work){.by = 1,
                             .key = random->key,
                             .offset = random->offset,
                             .live = random->device_offset,
                             .draws = 1});
}

int32_t trial_shy(const tn_frame *call) {
  return launch(call, (work){.by = 1});
}

int32_t trial_scale(const tn_frame *call) {
  return launch(call, (work){.by = (float)trial_scale_params_of(call)->by});
}

int32_t trial_brittle(const tn_frame *call) {
  if (call->flags & TN_CALL_RECORDED)
    return TN_FAIL(call, TN_UNSUPPORTED, "this is not to be recorded");
  return launch(call, (work){.by = 1});
}
