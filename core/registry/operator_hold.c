/* SPDX-License-Identifier: Apache-2.0
 * operator_hold.c: calls hold the operators that they use, so that no plugin is
 * unloaded while its code runs.
 */
#include "registry.h"

tn_code tn__operator_hold(tn_operator *op) {
  tn__registry *registry = op->registry;
  (void)pthread_rwlock_rdlock(&registry->lock);
  const bool defined = op->desc != NULL;
  if (defined) atomic_fetch_add(&op->calls, 1);
  (void)pthread_rwlock_unlock(&registry->lock);
  if (defined) return TN_OK;
  return tn__fail(
      TN_NOT_FOUND,
      "operator %s has no definition: its plugin is not loaded (any "
      "more); load it first",
      op->name);
}

void tn__operator_unhold(tn_operator *op) {
  atomic_fetch_sub(&op->calls, 1);
}
