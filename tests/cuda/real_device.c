/* SPDX-License-Identifier: Apache-2.0
 * real_device.c: see real_device.h.
 */
#include "real_device.h"

#include <stdio.h>

static const char properties[] =
    "{\"deviceName\":\"NVIDIA H200\",\"cudaDeviceId\":0,\"deviceVer\":900,"
    "\"driverVer\":13000,\"maxGridSize\":[2147483647,65535,65535],"
    "\"maxBlockSize\":[1024,1024,64],\"regsPerBlock\":65536,"
    "\"multiProcessorCount\":132,\"smClockRateKHz\":1980000,"
    "\"memClockRateKHz\":3201000,\"l2CacheSize\":62914560,\"warpSize\":32,"
    "\"maxSharedMemoryPerBlock\":49152,"
    "\"maxSharedMemoryPerBlockOptin\":232448,"
    "\"reservedSharedMemoryPerBlock\":1024,\"maxRegistersPerSM\":65536,"
    "\"pciDeviceId\":0,\"maxCtasPerSM\":32,\"maxThreadsPerBlock\":1024,"
    "\"maxThreadsPerSM\":2048,\"isTccDriver\":0,\"supportCoopLaunch\":1,"
    "\"totalGlobalMem\":150000000000}";

int real_device_open(const dnn_library *library, dnn_descriptor *out) {
  if (library->descriptor_create(DNN_DEVICE, out) != DNN_OK) return 0;
  return library->set(*out, DNN_DEVICE_JSON, DNN_CHAR, sizeof properties - 1,
                      properties) == DNN_OK &&
         library->finalize(*out) == DNN_OK;
}

int real_notes_of(const dnn_library *library, const cudnn_made *made) {
  const dnn_descriptor config = made->parts[made->n_parts - 1];
  dnn_descriptor engine = NULL;
  int notes[DNN_N_NOTES], bits = -1;
  int64_t n = 0;
  if (library->descriptor_create(DNN_ENGINE, &engine) != DNN_OK) return -1;
  if (library->get(config, DNN_CONFIG_ENGINE, DNN_DESCRIPTOR, 1, &n, &engine) ==
          DNN_OK &&
      library->get(engine, DNN_ENGINE_NOTES, DNN_NOTE, DNN_N_NOTES, &n,
                   notes) == DNN_OK) {
    bits = 0;
    for (int64_t i = 0; i < n; ++i) bits |= 1 << notes[i];
  }
  (void)library->descriptor_destroy(engine);
  return bits;
}

static int is_broken(int notes, const cudnn_task *task, int may_round) {
  const int may_differ = !(task->flags & CUDNN_SAME_BITS);
  return notes < 0 || (notes >> DNN_NOTE_REDUCED_SUMS & 1) ||
         ((notes >> DNN_NOTE_TENSOR_CORE & 1) && !may_round) ||
         ((notes >> DNN_NOTE_DOWN_CONVERT & 1) && task->dtype == TN_F32) ||
         ((notes >> DNN_NOTE_NONDETERMINISTIC & 1) && !may_differ);
}

int real_fails(const dnn_library *library, dnn_descriptor device,
               const cudnn_task *task, int may_round, const char *name) {
  const cudnn_target target = {library, NULL, device};
  cudnn_made made;
  char more[400] = "";
  const int status = cudnn_make(&target, task, &made);
  if (status == DNN_OK) {
    const int broken =
        is_broken(real_notes_of(library, &made), task, may_round);
    if (broken) printf("# %s: an engine that is forbidden\n", name);
    cudnn_unmake(library, &made);
    return broken;
  }
  library->say_more(more, sizeof more);
  printf("# %s: %s %s\n", name, library->say(status), more);
  return 1;
}
