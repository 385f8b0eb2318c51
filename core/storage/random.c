/* SPDX-License-Identifier: Apache-2.0
 * random.c: the state of a random stream, a key and a count of blocks.
 * tenon/kernel/kernel.h defines the numbers; kernels draw them.
 */
#include "storage.h"

void tn__random_init(tn__random *random, uint64_t seed) {
  random->var = (tn__var){0};
  atomic_init(&random->key, seed);
  atomic_init(&random->offset, 0);
}

void tn__random_seed(tn__random *random, uint64_t seed) {
  atomic_store_explicit(&random->key, seed, memory_order_relaxed);
  atomic_store_explicit(&random->offset, 0, memory_order_relaxed);
}

uint64_t tn__random_claim(tn__random *random, uint64_t blocks) {
  return atomic_fetch_add_explicit(&random->offset, blocks,
                                   memory_order_relaxed);
}
