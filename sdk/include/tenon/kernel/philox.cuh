/* SPDX-License-Identifier: Apache-2.0
 * philox.cuh: random numbers in kernels for CUDA devices: the words of
 * tn_kernel_random (kernel.h), bit for bit. For CUDA C++ only; nothing here is
 * part of the ABI.
 *
 *   struct acme_view { int64_t n; tn_cuda_random random; };
 *
 *   a.at[OFFSET] = tn_cuda_offset(call->run->random[0]);
 *   v.random = tn_cuda_random_of(call->run->random[0]);
 *
 * and in the kernel, for elements 4*k to 4*k + 3:
 *
 *   const tn_kernel_bits bits = tn_cuda_draw(v.random, a.at[OFFSET], k);
 */
#ifndef TENON_KERNEL_PHILOX_CUH_
#define TENON_KERNEL_PHILOX_CUH_

#include "tenon/kernel/kernel.cuh"

/* The parameters of a call's random numbers for a kernel, without the place of
 * their offset. */
struct tn_cuda_random {
  uint64_t key;
  uint64_t offset;
};

static inline tn_cuda_random tn_cuda_random_of(const tn_random *random) {
  const tn_cuda_random r = {random->key, random->offset};
  return r;
}

/* The place in the device's memory where the offset is read; without data if it
 * is known here. */
static inline tn_cuda_array tn_cuda_offset(const tn_random *random) {
  tn_cuda_array array = tn_cuda_room((void *)(uintptr_t)random->device_offset,
                                     TN_I64, random->device_offset ? 1 : 0);
  array.writes = 0;
  return array;
}

/* Block `index` of a call; `high` is the upper half of its counter. */
__device__ __forceinline__ tn_kernel_bits
tn_cuda_draw(const tn_cuda_random &random, const tn_cuda_array &offset,
             uint64_t index, uint64_t high = 0) {
  const uint64_t first =
      offset.data != NULL ? *(const uint64_t *)offset.data : random.offset;
  const uint64_t counter = first + index;
  uint32_t key[2] = {(uint32_t)random.key, (uint32_t)(random.key >> 32)};
  tn_kernel_bits c = {{(uint32_t)counter, (uint32_t)(counter >> 32),
                       (uint32_t)high, (uint32_t)(high >> 32)}};
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = (uint64_t)0xd2511f53u * c.word[0];
    const uint64_t b = (uint64_t)0xcd9e8d57u * c.word[2];
    c.word[0] = (uint32_t)(b >> 32) ^ c.word[1] ^ key[0];
    c.word[2] = (uint32_t)(a >> 32) ^ c.word[3] ^ key[1];
    c.word[1] = (uint32_t)b;
    c.word[3] = (uint32_t)a;
    key[0] += 0x9e3779b9u;
    key[1] += 0xbb67ae85u;
  }
  return c;
}

#endif /* TENON_KERNEL_PHILOX_CUH_ */
